//! Evidence for an answer's claims: the request's results and texts, decoded when a claim first needs them. Pure.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use crate::{
    exchange::{
        context::Context,
        conversation::{KnownResult, Thread},
    },
    judge::{
        claims::evidence::{
            EvidenceIndex, ResultReading, ToolResult,
            tool_capabilities::{Effect, ToolCapabilities, ToolRunState},
        },
        history::{AnsweredCall, Execution, memo::HistoryMemo},
    },
    wire::json::Document,
};

/// Texts of a request, as far as claims need them.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Arguments and text of each result, read or yet to be read.
    pub results: Vec<Arc<ResultReading>>,
    /// Texts of users, instructions, earlier answers and calls.
    pub said: Vec<Arc<str>>,
    /// Texts of earlier answers; they stand in `said` too.
    pub answers: Vec<Arc<str>>,
    /// The last user message.
    pub asked: Arc<str>,
    /// The request's tool definitions: JSON.
    pub definitions: String,
}

/// Extracts the texts of a request; the results are the given ones, in their order.
pub type WordsOf = fn(&Document, &Material) -> Words;

/// The results of a history, with the evidence derived from them on demand.
#[derive(Debug, Default)]
pub struct Material {
    /// The results.
    pub answered: Vec<AnsweredCall>,
    /// Earlier reading of each item of the history; empty if nothing is remembered.
    pub memo: HistoryMemo,
    words_of: Option<WordsOf>,
    grounds: OnceLock<EvidenceIndex>,
    abilities: OnceLock<ToolCapabilities>,
}

impl Material {
    /// Evidence from these results. `memo`: what was read from each item of the history before, or empty.
    pub fn new(answered: Vec<AnsweredCall>, memo: HistoryMemo, words_of: WordsOf) -> Self {
        Self { answered, memo, words_of: Some(words_of), ..Self::default() }
    }

    /// True if a claim needed the results and texts.
    pub fn was_read(&self) -> bool {
        self.grounds.get().is_some()
    }

    /// True if the history has results.
    pub fn has_results(&self) -> bool {
        !self.answered.is_empty()
    }

    /// The text of an item, which `read` reads if nobody did before.
    pub fn text(&self, item: usize, read: impl FnOnce() -> Arc<str>) -> Arc<str> {
        match self.memo.get(item) {
            Some(memo) => memo.text.get_or_init(read).clone(),
            None => read(),
        }
    }

    /// The reading of a result. `read`: the call's arguments and the result's text, if nobody read them before.
    pub fn reading(&self, result: &AnsweredCall, read: impl FnOnce() -> (Arc<str>, Arc<str>)) -> Arc<ResultReading> {
        let memo = self.memo.get(result.item).and_then(|memo| memo.known_result());
        let known = memo.and_then(|memo| memo.reading.get());
        // The same result, but it may answer another call.
        if let Some((_, known)) = known.filter(|(call, known)| Some(*call) == result.call && known.tool == result.tool) {
            return known.clone();
        }
        let (arguments, text) = read();
        let reading = Arc::new(ResultReading::new(result.tool.clone(), arguments, text));
        if let (Some(memo), Some(call)) = (memo, result.call) {
            let _known = memo.reading.set((call, reading.clone()));
        }
        reading
    }
}

/// Evidence index that an answer's claims are compared with.
pub fn grounds(context: &Context) -> &EvidenceIndex {
    let material = &context.evidence;
    material.grounds.get_or_init(|| {
        let words = material.words_of.map(|read| read(context.request(), material)).unwrap_or_default();
        let earlier = context.hidden.earlier.as_deref();
        let own: Vec<&Execution> = own(context).collect();
        let source = |(answered, reading): (&AnsweredCall, Arc<ResultReading>)| {
            let id = answered.execution.and_then(|at| own.get(at)).map(|execution| execution.id.clone());
            let mut source = ToolResult::of(reading);
            (source.failed, source.recent, source.execution_id) = (answered.failed, answered.recent, id);
            source
        };
        let kept = earlier.into_iter().flat_map(|thread| thread.results.iter().enumerate().map(move |at| (thread, at)));
        let kept = kept.map(|(thread, (at, result))| {
            let mut source = ToolResult::new(&result.tool, &result.arguments, &result.text);
            (source.failed, source.recent) = (result.failed, at >= thread.recent_from && !context.hidden.spoke);
            source.execution_id = result.execution_id.as_deref().map(Into::into);
            source
        });
        let results = kept.chain(material.answered.iter().zip(words.results).map(source)).collect();
        let before = earlier.into_iter().flat_map(|thread| thread.data.iter().chain(&thread.said)).map(|text| Arc::from(&**text));
        let said = words.said.into_iter().chain(before).collect();
        let asked = match earlier {
            Some(thread) if !context.hidden.spoke => (&*thread.asked).into(),
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
            thread.prove([], Some(0));
        }
        return false;
    }
    let earlier = context.hidden.earlier.as_ref().map_or(0, |thread| thread.results.len());
    let grounds = grounds(context);
    let own = grounds.results.get(earlier..).unwrap_or_default();
    let known = |source: &ToolResult| KnownResult {
        tool: (&*source.tool).into(),
        arguments: (&*source.arguments).into(),
        text: (&*source.text).into(),
        failed: source.failed,
        execution_id: source.execution_id.as_deref().map(Into::into),
    };
    let recent = context.hidden.spoke.then(|| own.iter().filter(|source| source.recent).count());
    thread.prove(own.iter().map(known), recent);
    thread.hear([], Some(&*grounds.asked).filter(|_| context.hidden.spoke));
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
        let mut recent: BTreeMap<String, ToolRunState> = BTreeMap::new();
        for result in &grounds(context).results {
            let failed = result.fails();
            if let Some(own) = failed.then(|| state_of(&mut ran, &result.tool)).flatten() {
                own.failed = true;
            }
            if let Some(own) = result.recent.then(|| state_of(&mut recent, &result.tool)).flatten() {
                (own.succeeded, own.failed) = (own.succeeded || !failed, own.failed || failed);
            }
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
            ..ToolCapabilities::default()
        };
        let before = grounds(context).results.iter().filter(|result| !result.recent && !result.failed);
        abilities.acted_before = before.into_iter().any(|result| abilities.effect(&result.tool) != Effect::Reads);
        abilities
    })
}

/// State of a tool's runs, added if there is none.
fn state_of<'s>(states: &'s mut BTreeMap<String, ToolRunState>, tool: &str) -> Option<&'s mut ToolRunState> {
    if !states.contains_key(tool) {
        states.insert(tool.to_owned(), ToolRunState::default());
    }
    states.get_mut(tool)
}
