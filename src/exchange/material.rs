//! What an answer's claims are compared with: the request's results and words, decoded when a claim first needs them. Pure.

use std::{collections::BTreeMap, sync::OnceLock};

use super::{
    context::Context,
    thread::{KnownResult, Thread},
};
use crate::{
    judge::{
        claims::{
            abilities::{Abilities, Effect, Ran},
            grounds::{Grounds, Source},
        },
        history::{Answered, Execution},
    },
    wire::json::Document,
};

/// What was said in a request, as far as claims need it.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Of each result: what the call's arguments are, and what it says.
    pub results: Vec<(String, String)>,
    /// What users, instructions, earlier answers and calls said.
    pub said: Vec<String>,
    /// What earlier answers said; it stands in `said` too.
    pub answers: Vec<String>,
    /// What the user said last.
    pub asked: String,
    /// The tools as they were brought: JSON.
    pub definitions: String,
}

/// Reads a request's words; the results are those asked for, in their order.
pub type WordsOf = fn(&Document, &[Answered]) -> Words;

/// The results of a history, and what is made of them when it is asked for.
#[derive(Debug, Default)]
pub struct Material {
    answered: Vec<Answered>,
    words_of: Option<WordsOf>,
    grounds: OnceLock<Grounds>,
    abilities: OnceLock<Abilities>,
}

impl Material {
    /// Of these results.
    pub fn new(answered: Vec<Answered>, words_of: WordsOf) -> Self {
        Self { answered, words_of: Some(words_of), ..Self::default() }
    }

    /// There are results.
    pub fn has_results(&self) -> bool {
        !self.answered.is_empty()
    }
}

/// What the claims of an answer in this exchange are compared with.
pub fn grounds(context: &Context) -> &Grounds {
    let material = &context.evidence;
    material.grounds.get_or_init(|| {
        let words = material.words_of.map(|read| read(context.request(), &material.answered)).unwrap_or_default();
        let earlier = context.hidden.earlier.as_deref();
        let source = |(answered, (arguments, text)): (&Answered, (String, String))| {
            let id = answered.execution.and_then(|at| own(context).nth(at)).map(|execution| execution.id.clone());
            let Answered { tool, failed, recent, .. } = answered;
            let mut source = Source::new(tool.clone(), arguments, text);
            (source.failed, source.recent, source.execution_id) = (*failed, *recent, id);
            source
        };
        let kept = earlier.into_iter().flat_map(|thread| thread.results.iter().enumerate().map(move |at| (thread, at)));
        let kept = kept.map(|(thread, (at, result))| {
            let mut source = Source::new(result.tool.to_string(), result.arguments.to_string(), result.text.to_string());
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
        let mut grounds = Grounds::new(results, said, asked);
        grounds.definitions = words.definitions;
        grounds.answers = words.answers;
        grounds
    })
}

/// Hands the results of the request on, as evidence for what later answers of a conversation claim that the upstream keeps.
/// True where it has any.
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
    let known = |source: &Source| KnownResult {
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

/// The executions of the request itself: those that are remembered stand in front of them.
fn own(context: &Context) -> impl Iterator<Item = &Execution> {
    context.executions.iter().filter(|execution| execution.item != usize::MAX)
}

/// What the tools of this exchange can do, and which ran.
pub fn abilities(context: &Context) -> &Abilities {
    let material = &context.evidence;
    material.abilities.get_or_init(|| {
        let mut ran: BTreeMap<String, Ran> = BTreeMap::new();
        for tool in &context.succeeded {
            ran.entry(tool.clone()).or_default().succeeded = true;
        }
        for result in grounds(context).results.iter().filter(|result| result.fails()) {
            ran.entry(result.tool.clone()).or_default().failed = true;
        }
        let mut recent: BTreeMap<String, Ran> = BTreeMap::new();
        for result in grounds(context).results.iter().filter(|result| result.recent) {
            let ran = recent.entry(result.tool.clone()).or_default();
            let failed = result.fails();
            (ran.succeeded, ran.failed) = (ran.succeeded || !failed, ran.failed || failed);
        }
        let mut abilities = Abilities {
            tools: context.tools.abilities(),
            ran,
            recent,
            acted_before: false,
            // What toolmark runs itself may have run in a round that this request doesn't have.
            unseen: context.hidden.unseen || context.tools.runs_any() || !context.tools.hosted.is_empty(),
            asked: grounds(context).asked.clone(),
            idle: !grounds(context).results.iter().any(|result| result.recent),
        };
        let before = grounds(context).results.iter().filter(|result| !result.recent && !result.failed);
        abilities.acted_before = before.into_iter().any(|result| abilities.effect(&result.tool) != Effect::Reads);
        abilities
    })
}
