//! Counters of the second opinion: what became of each answer that might have been shown, of each verdict, and what it cost.

use std::time::Duration;

use super::{
    histogram::{Counted, Histogram, UPSTREAM_US},
    metrics::Count,
};

/// What became of an answer that might have been shown to the verifier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It was shown, and nothing was objected to.
    Supported,
    /// It was shown, and something was objected to.
    Objected,
    /// The same was shown before.
    Cached,
    /// It wasn't shown: the rules left nothing open.
    Decided,
    /// It wasn't shown: with its results it is more than is shown.
    TooLarge,
    /// It wasn't shown: the hour's calls or tokens are spent.
    OverCap,
    /// It wasn't shown: the verifier failed of late.
    Resting,
    /// No verdict came in time.
    Late,
    /// It couldn't be reached, or broke off.
    Unreachable,
    /// It answered with an error.
    Error,
    /// What it answered isn't of the form that was asked for.
    Invalid,
    /// The caller went away first.
    Abandoned,
}

impl Outcome {
    /// All of them, in the order of the counters.
    pub const ALL: [Self; 12] = [
        Self::Supported,
        Self::Objected,
        Self::Cached,
        Self::Decided,
        Self::TooLarge,
        Self::OverCap,
        Self::Resting,
        Self::Late,
        Self::Unreachable,
        Self::Error,
        Self::Invalid,
        Self::Abandoned,
    ];

    /// Its word as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Objected => "objected",
            Self::Cached => "cached",
            Self::Decided => "decided",
            Self::TooLarge => "too_large",
            Self::OverCap => "over_cap",
            Self::Resting => "resting",
            Self::Late => "late",
            Self::Unreachable => "unreachable",
            Self::Error => "error",
            Self::Invalid => "invalid",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What became of the verifier's verdicts, in the order of the counters.
pub const VERDICTS: [&str; 4] = ["supported", "contradicted", "unsupported", "dropped"];
/// Types of tokens, in the order of the counters.
pub const TOKENS: [&str; 2] = ["input", "output"];

/// See the module.
#[derive(Debug)]
pub struct OfVerifier {
    outcomes: [Count; Outcome::ALL.len()],
    claims: [Count; VERDICTS.len()],
    tokens: [Count; TOKENS.len()],
    time: Histogram,
}

impl Default for OfVerifier {
    fn default() -> Self {
        Self { outcomes: Default::default(), claims: Default::default(), tokens: Default::default(), time: Histogram::new(&UPSTREAM_US) }
    }
}

impl OfVerifier {
    /// Counts what became of an answer.
    pub fn count(&self, outcome: Outcome) {
        if let Some(count) = self.outcomes.get(outcome as usize) {
            count.add(1);
        }
    }

    /// Counts verdicts, by [`VERDICTS`].
    pub fn claims(&self, verdicts: [u64; VERDICTS.len()]) {
        self.claims.iter().zip(verdicts).for_each(|(count, number)| count.add(number));
    }

    /// Counts what a call took.
    pub fn tokens(&self, input: u64, output: u64) {
        self.tokens.iter().zip([input, output]).for_each(|(count, number)| count.add(number));
    }

    /// Counts how long a call took.
    pub fn time(&self, time: Duration) {
        self.time.observe(time);
    }

    /// Answers by what became of them.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Outcome::ALL.iter().zip(&self.outcomes).map(|(outcome, count)| (outcome.as_str(), count.value()))
    }

    /// Verdicts by what became of them.
    pub fn verdicts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        VERDICTS.iter().zip(&self.claims).map(|(verdict, count)| (*verdict, count.value()))
    }

    /// Tokens by type.
    pub fn spent(&self) -> impl Iterator<Item = (&'static str, u64)> {
        TOKENS.iter().zip(&self.tokens).map(|(kind, count)| (*kind, count.value()))
    }

    /// How long its calls took.
    pub fn times(&self) -> Counted {
        let mut counted = Counted::default();
        self.time.add_to(&mut counted);
        counted
    }
}
