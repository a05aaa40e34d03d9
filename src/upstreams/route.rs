//! Which upstreams may answer an exchange, and in what order. Pure.

use super::probe::Calls;
use crate::settings::Upstream;

/// An upstream that may answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Candidate {
    /// Which of `[[upstreams]]`.
    pub upstream: usize,
    /// The model to ask it for, where that isn't the one of the request.
    pub model: Option<Box<str>>,
}

/// The upstreams for a model: the first whose globs match, then its fallbacks in their order, each with the model that
/// `fallback_models` names, else the same where it serves that. What names no model goes to the first. Empty where none
/// serves it.
pub fn candidates(upstreams: &[Upstream], model: &str) -> Vec<Candidate> {
    let serves = |upstream: &Upstream| model.is_empty() || upstream.serves(model);
    let Some(first) = upstreams.iter().position(serves) else { return Vec::new() };
    let mut found = vec![Candidate { upstream: first, model: None }];
    let Some(own) = upstreams.get(first) else { return found };
    for name in &own.fallback {
        let Some(at) = upstreams.iter().position(|other| other.name == *name) else { continue };
        let Some(other) = upstreams.get(at) else { continue };
        let mapped = own.fallback_models.iter().find(|(from, to)| **from == *model && other.serves(to)).map(|(_, to)| to.clone());
        if mapped.is_some() || (!model.is_empty() && other.serves(model)) {
            found.push(Candidate { upstream: at, model: mapped });
        }
    }
    found
}

/// May an exchange with tools go where this is known? `probed`: it can be found out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fitness {
    /// Yes.
    Fit,
    /// It must be asked first.
    Ask,
    /// Rather elsewhere; here only where there is nothing else, because nobody asked for more.
    Last,
    /// No.
    Unfit,
}

/// See [`Fitness`].
pub fn fitness(calls: Calls, probed: bool) -> Fitness {
    match (calls, probed) {
        (Calls::Yes, _) | (Calls::Unknown, false) => Fitness::Fit,
        (Calls::Unknown, true) => Fitness::Ask,
        (Calls::No | Calls::TextLeak, true) => Fitness::Unfit,
        (Calls::No | Calls::TextLeak, false) => Fitness::Last,
    }
}
