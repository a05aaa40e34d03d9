//! Counters of the verifier: outcomes of answers that it might have checked, its verdicts, and its tokens and durations.

use std::time::Duration;

use crate::{
    sys::histogram::{Histogram, HistogramSnapshot, UPSTREAM_US},
    telemetry::metrics::AtomicCounter,
};

/// Outcome of an answer that the verifier might have checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VerifierOutcome {
    /// Checked without objection.
    Supported,
    /// Checked with an objection.
    Objected,
    /// Not sent: the result of an identical earlier check was used.
    Cached,
    /// Not sent: the rules left nothing open.
    Decided,
    /// Not sent: together with its results it is too large.
    TooLarge,
    /// Not sent: the hourly limit of calls or tokens is reached.
    OverCap,
    /// Not sent: the verifier failed recently.
    Resting,
    /// The deadline passed without a verdict.
    Late,
    /// The verifier couldn't be reached, or the connection broke.
    Unreachable,
    /// The verifier answered with an error.
    Error,
    /// The verifier's answer doesn't have the required form.
    Invalid,
    /// The caller closed the connection first.
    Abandoned,
}

impl VerifierOutcome {
    /// All outcomes, in the order of the counters.
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

    /// Name of the outcome as a label.
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

/// The outcomes of the verifier's verdicts on single claims, in the order of the counters.
pub const VERDICTS: [&str; 4] = ["supported", "contradicted", "unsupported", "dropped"];
/// Types of tokens, in the order of the counters.
pub const TOKENS: [&str; 2] = ["input", "output"];

/// Counters of the verifier.
#[derive(Debug)]
pub struct VerifierCounters {
    outcomes: [AtomicCounter; VerifierOutcome::ALL.len()],
    claims: [AtomicCounter; VERDICTS.len()],
    tokens: [AtomicCounter; TOKENS.len()],
    time: Histogram,
}

impl Default for VerifierCounters {
    fn default() -> Self {
        Self { outcomes: Default::default(), claims: Default::default(), tokens: Default::default(), time: Histogram::new(&UPSTREAM_US) }
    }
}

impl VerifierCounters {
    /// Counts the outcome of an answer.
    pub fn count(&self, outcome: VerifierOutcome) {
        if let Some(count) = self.outcomes.get(outcome as usize) {
            count.add(1);
        }
    }

    /// Adds numbers of verdicts, in the order of [`VERDICTS`].
    pub fn claims(&self, verdicts: [u64; VERDICTS.len()]) {
        self.claims.iter().zip(verdicts).for_each(|(count, number)| count.add(number));
    }

    /// Adds the tokens of a call.
    pub fn tokens(&self, input: u64, output: u64) {
        self.tokens.iter().zip([input, output]).for_each(|(count, number)| count.add(number));
    }

    /// Counts the duration of a call.
    pub fn time(&self, time: Duration) {
        self.time.observe(time);
    }

    /// Number of answers by outcome.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        VerifierOutcome::ALL.iter().zip(&self.outcomes).map(|(outcome, count)| (outcome.as_str(), count.value()))
    }

    /// Number of verdicts by outcome.
    pub fn verdicts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        VERDICTS.iter().zip(&self.claims).map(|(verdict, count)| (*verdict, count.value()))
    }

    /// Number of tokens by type.
    pub fn spent(&self) -> impl Iterator<Item = (&'static str, u64)> {
        TOKENS.iter().zip(&self.tokens).map(|(kind, count)| (*kind, count.value()))
    }

    /// Durations of the verifier's calls.
    pub fn times(&self) -> HistogramSnapshot {
        let mut counted = HistogramSnapshot::default();
        self.time.add_to(&mut counted);
        counted
    }
}
