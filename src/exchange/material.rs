//! What an answer's claims are compared with: the request's results and words, decoded when a claim first needs them. Pure.

use std::{collections::BTreeMap, sync::OnceLock};

use super::context::Context;
use crate::{
    judge::{
        claims::{
            abilities::{Abilities, Ran},
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
        let source = |(answered, (arguments, text)): (&Answered, (String, String))| {
            let id = answered.execution.and_then(|at| own(context).nth(at)).map(|execution| execution.id.clone());
            let Answered { tool, failed, recent, .. } = answered;
            let mut source = Source::new(tool.clone(), arguments, text);
            (source.failed, source.recent, source.execution_id) = (*failed, *recent, id);
            source
        };
        let results = material.answered.iter().zip(words.results).map(source).collect();
        let earlier = context.hidden.earlier.iter().flat_map(|thread| &thread.data).map(|data| data.to_string());
        let said = words.said.into_iter().chain(earlier).collect();
        let mut grounds = Grounds::new(results, said, words.asked);
        grounds.definitions = words.definitions;
        grounds
    })
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
        for answered in material.answered.iter().filter(|answered| answered.failed) {
            ran.entry(answered.tool.clone()).or_default().failed = true;
        }
        Abilities {
            tools: context.tools.abilities(),
            ran,
            // What toolmark runs itself may have run in a round that this request doesn't have.
            unseen: context.hidden.unseen || context.tools.runs_any() || !context.tools.hosted.is_empty(),
            asked: grounds(context).asked.clone(),
            idle: !material.answered.iter().any(|answered| answered.recent),
        }
    })
}
