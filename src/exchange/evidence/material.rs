//! Evidence for an answer's claims: the request's results and texts, decoded when a claim first needs them. Pure.

use std::{collections::BTreeMap, sync::OnceLock};

use crate::{
    exchange::{
        context::Context,
        conversation::{KnownResult, Thread},
    },
    judge::{
        claims::evidence::{
            EvidenceIndex, ToolResult,
            tool_capabilities::{Effect, ToolCapabilities, ToolRunState},
        },
        history::{AnsweredCall, Execution},
    },
    wire::json::Document,
};

/// Texts of a request, as far as claims need them.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Arguments and text of each result.
    pub results: Vec<(String, String)>,
    /// Texts of users, instructions, earlier answers and calls.
    pub said: Vec<String>,
    /// Texts of earlier answers; they stand in `said` too.
    pub answers: Vec<String>,
    /// The last user message.
    pub asked: String,
    /// The request's tool definitions: JSON.
    pub definitions: String,
}

/// Extracts the texts of a request; the results are the given ones, in their order.
pub type WordsOf = fn(&Document, &[AnsweredCall]) -> Words;

/// The results of a history, with the evidence derived from them on demand.
#[derive(Debug, Default)]
pub struct Material {
    answered: Vec<AnsweredCall>,
    words_of: Option<WordsOf>,
    grounds: OnceLock<EvidenceIndex>,
    abilities: OnceLock<ToolCapabilities>,
}

impl Material {
    /// Evidence from these results.
    pub fn new(answered: Vec<AnsweredCall>, words_of: WordsOf) -> Self {
        Self { answered, words_of: Some(words_of), ..Self::default() }
    }

    /// True if the history has results.
    pub fn has_results(&self) -> bool {
        !self.answered.is_empty()
    }
}

/// Evidence index that an answer's claims are compared with.
pub fn grounds(context: &Context) -> &EvidenceIndex {
    let material = &context.evidence;
    material.grounds.get_or_init(|| {
        let words = material.words_of.map(|read| read(context.request(), &material.answered)).unwrap_or_default();
        let earlier = context.hidden.earlier.as_deref();
        let source = |(answered, (arguments, text)): (&AnsweredCall, (String, String))| {
            let id = answered.execution.and_then(|at| own(context).nth(at)).map(|execution| execution.id.clone());
            let AnsweredCall { tool, failed, recent, .. } = answered;
            let mut source = ToolResult::new(tool.clone(), arguments, text);
            (source.failed, source.recent, source.execution_id) = (*failed, *recent, id);
            source
        };
        let kept = earlier.into_iter().flat_map(|thread| thread.results.iter().enumerate().map(move |at| (thread, at)));
        let kept = kept.map(|(thread, (at, result))| {
            let mut source = ToolResult::new(result.tool.to_string(), result.arguments.to_string(), result.text.to_string());
            (source.failed, source.recent) = (result.failed, at >= thread.recent_from && !context.hidden.spoke);
            source.execution_id = result.execution_id.as_deref().map(str::to_owned);
            source
        });
        let results = kept.chain(material.answered.iter().zip(words.results).map(source)).collect();
        let before = earlier.into_iter().flat_map(|thread| thread.data.iter().chain(&thread.said)).map(|text| text.to_string());
        let said = words.said.into_iter().chain(before).collect();
        let asked = match earlier {
            Some(thread) if !context.hidden.spoke => thread.asked.to_string(),
            _ => words.asked,
        };
        let mut grounds = EvidenceIndex::new(results, said, asked);
        grounds.definitions = words.definitions;
        grounds.answers = words.answers;
        grounds
    })
}

/// Stores the request's results in `thread`, as evidence for later answers in a conversation that the upstream stores.
/// True if the request has results.
pub fn prove(context: &Context, thread: &mut Thread) -> bool {
    if context.evidence.answered.is_empty() {
        if context.hidden.spoke {
            thread.prove([], 0, true);
        }
        return false;
    }
    let earlier = context.hidden.earlier.as_ref().map_or(0, |thread| thread.results.len());
    let grounds = grounds(context);
    let own = grounds.results.get(earlier..).unwrap_or_default();
    let known = |source: &ToolResult| KnownResult {
        tool: source.tool.as_str().into(),
        arguments: source.arguments.as_str().into(),
        text: source.text.as_str().into(),
        failed: source.failed,
        execution_id: source.execution_id.as_deref().map(Into::into),
    };
    thread.prove(own.iter().map(known), own.iter().filter(|source| source.recent).count(), context.hidden.spoke);
    thread.hear([], Some(&grounds.asked).filter(|_| context.hidden.spoke).map(String::as_str));
    true
}

/// Executions of the request itself, without the remembered ones, which are in front.
fn own(context: &Context) -> impl Iterator<Item = &Execution> {
    context.executions.iter().filter(|execution| execution.item != usize::MAX)
}

/// Capabilities of the exchange's tools, and which of the tools ran.
pub fn abilities(context: &Context) -> &ToolCapabilities {
    let material = &context.evidence;
    material.abilities.get_or_init(|| {
        let mut ran: BTreeMap<String, ToolRunState> = BTreeMap::new();
        for tool in &context.succeeded {
            ran.entry(tool.clone()).or_default().succeeded = true;
        }
        for result in grounds(context).results.iter().filter(|result| result.fails()) {
            ran.entry(result.tool.clone()).or_default().failed = true;
        }
        let mut recent: BTreeMap<String, ToolRunState> = BTreeMap::new();
        for result in grounds(context).results.iter().filter(|result| result.recent) {
            let ran = recent.entry(result.tool.clone()).or_default();
            let failed = result.fails();
            (ran.succeeded, ran.failed) = (ran.succeeded || !failed, ran.failed || failed);
        }
        let mut abilities = ToolCapabilities {
            tools: context.tools.abilities(),
            ran,
            recent,
            acted_before: false,
            // What toolmark runs itself may have run in a round that this request doesn't have.
            unseen: context.hidden.unseen || context.hidden.lacks_evidence || context.tools.runs_any() || !context.tools.hosted.is_empty(),
            asked: grounds(context).asked.clone(),
            idle: !grounds(context).results.iter().any(|result| result.recent),
        };
        let before = grounds(context).results.iter().filter(|result| !result.recent && !result.failed);
        abilities.acted_before = before.into_iter().any(|result| abilities.effect(&result.tool) != Effect::Reads);
        abilities
    })
}
