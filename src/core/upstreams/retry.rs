//! Retry decisions. Pure: time, limits and random numbers are passed in.
//!
//! A request is retried if it failed before an answer began: no connection, no answer in time, 429, 5xx. Retries are bounded by the
//! exchange (`max_attempts`, `repair_deadline`), by [`TRIES`] for one upstream, and by a budget that all exchanges share, so that a failing
//! upstream doesn't get three times the load.

use std::time::Duration;

/// Requests of one exchange to one upstream in a row.
pub const TRIES: u32 = 3;
/// Longest pause before the second try; the third waits up to twice as long.
pub const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Longest `retry-after` that is waited for; beyond that, the request goes to another upstream or fails.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// Failure of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AttemptFailure {
    /// No connection: nothing was sent.
    Unreachable,
    /// The connection ended before an answer began.
    BrokenOff,
    /// No answer in time.
    Timeout,
    /// An error status, with the wait that its `retry-after` asks for.
    Status(u16, Option<Duration>),
    /// The response can't be interpreted; a retry would not help.
    Nonsense,
    /// The upstream refused a parameter, which is dropped from now on.
    Refused,
    /// The upstream refuses tools.
    NoTools,
}

impl AttemptFailure {
    /// Returns whether a retry may succeed.
    pub fn passes(self) -> bool {
        match self {
            Self::Unreachable | Self::BrokenOff | Self::Timeout | Self::Refused => true,
            Self::Status(status, _) => is_passing(status),
            Self::Nonsense | Self::NoTools => false,
        }
    }

    /// Short description for log and errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::BrokenOff => "broken off",
            Self::Timeout => "no answer in time",
            Self::Status(429, _) => "rate limit",
            Self::Status(..) => "an error of its own",
            Self::Nonsense => "no answer",
            Self::Refused => "a parameter refused",
            Self::NoTools => "tools refused",
        }
    }

    /// Returns whether the failure counts against the upstream. A caller's own rate limits don't.
    pub fn is_upstreams_fault(self) -> bool {
        match self {
            Self::Unreachable | Self::BrokenOff | Self::Timeout | Self::Nonsense => true,
            Self::Status(status, _) => status >= 500 && is_passing(status),
            Self::Refused | Self::NoTools => false,
        }
    }
}

/// Returns whether an error with this status is temporary.
pub fn is_passing(status: u16) -> bool {
    // 498 is Groq's "no capacity"; 520 to 529 are Cloudflare's and Anthropic's for servers that are down or overloaded.
    matches!(status, 408 | 429 | 498 | 500 | 502 | 503 | 504 | 520..=529)
}

/// Remaining limits of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct RetryLimits {
    /// Requests sent to this upstream since the last answer.
    pub tries: u32,
    /// Upstream requests that the exchange may still send.
    pub attempts: u32,
    /// Time until the deadline for new attempts.
    pub time: Duration,
    /// Sending the request twice is harmless. Otherwise only requests that weren't processed are retried.
    pub repeatable: bool,
    /// Number of other upstreams that can still be asked.
    pub upstreams: usize,
}

/// Decision about a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryDecision {
    /// Retry with the same upstream, after this pause.
    Again(Duration),
    /// Try another upstream at once, if there is one.
    Elsewhere,
    /// Give up.
    Stop,
}

/// Decides about a failure. `chance`: a random number from 0 to 1. The caller checks the shared
/// budget, and only for [`RetryDecision::Again`].
pub fn next(failed: AttemptFailure, left: RetryLimits, chance: f64) -> RetryDecision {
    // Rejected before it was processed.
    let unsent = matches!(
        failed,
        AttemptFailure::Unreachable | AttemptFailure::Refused | AttemptFailure::NoTools | AttemptFailure::Status(429 | 498 | 503, _)
    );
    if left.attempts == 0 || left.time.is_zero() || !(left.repeatable || unsent) {
        return RetryDecision::Stop;
    }
    if failed == AttemptFailure::Refused {
        return RetryDecision::Again(Duration::ZERO);
    }
    let elsewhere = left.upstreams > 0;
    let other = if elsewhere { RetryDecision::Elsewhere } else { RetryDecision::Stop };
    // An upstream that can't be reached stays so for a moment, while another one could answer now.
    let hopeless = elsewhere && matches!(failed, AttemptFailure::Unreachable | AttemptFailure::Timeout);
    if !failed.passes() || left.tries >= TRIES || hopeless {
        return other;
    }
    let pause = pause(failed, left.tries, chance);
    match pause {
        Some(pause) if pause < left.time => RetryDecision::Again(pause),
        _ => other,
    }
}

/// Pause until the next try: at least the `retry-after`, else a growing pause. Half of the pause is random, so that requests that failed
/// together aren't retried together. `None`: the wait would be too long.
fn pause(failed: AttemptFailure, tries: u32, chance: f64) -> Option<Duration> {
    let grown = PAUSE_MAX.saturating_mul(1 << tries.saturating_sub(1).min(8));
    let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 1.0 };
    let own = grown.mul_f64(0.5 + 0.5 * chance);
    match failed {
        AttemptFailure::Status(_, Some(asked)) if asked > RETRY_AFTER_MAX => None,
        AttemptFailure::Status(_, Some(asked)) => Some(asked + own.mul_f64(0.5)),
        _ => Some(own),
    }
}

/// Reads `retry-after-ms`, or `retry-after` in seconds. Dates are ignored, because clocks differ.
pub fn retry_after(milliseconds: Option<&str>, seconds: Option<&str>) -> Option<Duration> {
    let number = |text: Option<&str>, unit: f64| {
        let number: f64 = text?.trim().parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    number(milliseconds, 0.001).or_else(|| number(seconds, 1.0))
}

/// Retry budget of an upstream: one retry for every [`PER_RETRY`] answered requests, and at most [`BUDGET_MAX`] at a time. Counted in
/// requests; a retry costs [`PER_RETRY`] of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RetryBudget(u32);

/// Answered requests that pay for one retry.
pub const PER_RETRY: u32 = 5;
/// Retries in the budget at the start, and at most.
pub const BUDGET_MAX: u32 = 20;

impl Default for RetryBudget {
    fn default() -> Self {
        Self(BUDGET_MAX * PER_RETRY)
    }
}

impl RetryBudget {
    /// Adds an answered request.
    #[must_use]
    pub fn earn(self) -> Self {
        Self((self.0 + 1).min(BUDGET_MAX * PER_RETRY))
    }

    /// Takes out a retry: the remaining budget, or `None` if it is used up.
    pub fn spend(self) -> Option<Self> {
        self.0.checked_sub(PER_RETRY).map(Self)
    }

    /// The budget as a number, for an atomic.
    pub fn units(self) -> u32 {
        self.0
    }

    /// The budget from such a number.
    pub fn of_units(units: u32) -> Self {
        Self(units.min(BUDGET_MAX * PER_RETRY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: RetryLimits = RetryLimits { tries: 1, attempts: 5, time: Duration::from_secs(30), repeatable: true, upstreams: 0 };

    #[test]
    fn what_is_tried_again() {
        let again = |ms| RetryDecision::Again(Duration::from_millis(ms));
        for (failed, left, elsewhere, expected) in [
            (AttemptFailure::Unreachable, LEFT, false, again(250)),
            (AttemptFailure::Unreachable, LEFT, true, RetryDecision::Elsewhere),
            (AttemptFailure::Timeout, LEFT, true, RetryDecision::Elsewhere),
            (AttemptFailure::BrokenOff, LEFT, true, again(250)),
            (AttemptFailure::Status(503, None), RetryLimits { tries: 2, ..LEFT }, true, again(500)),
            (AttemptFailure::Status(503, None), RetryLimits { tries: 3, ..LEFT }, true, RetryDecision::Elsewhere),
            (AttemptFailure::Status(503, None), RetryLimits { tries: 3, ..LEFT }, false, RetryDecision::Stop),
            (AttemptFailure::Status(500, None), RetryLimits { attempts: 0, ..LEFT }, true, RetryDecision::Stop),
            (AttemptFailure::Status(500, None), RetryLimits { time: Duration::ZERO, ..LEFT }, true, RetryDecision::Stop),
            (AttemptFailure::Status(400, None), LEFT, false, RetryDecision::Stop),
            (AttemptFailure::Status(429, Some(Duration::from_secs(2))), LEFT, false, again(2_125)),
            (AttemptFailure::Status(429, Some(Duration::from_secs(60))), LEFT, true, RetryDecision::Elsewhere),
            (AttemptFailure::Status(429, Some(Duration::from_secs(60))), LEFT, false, RetryDecision::Stop),
            (
                AttemptFailure::Status(429, Some(Duration::from_secs(2))),
                RetryLimits { time: Duration::from_secs(2), ..LEFT },
                false,
                RetryDecision::Stop,
            ),
            (AttemptFailure::Nonsense, LEFT, true, RetryDecision::Elsewhere),
            (AttemptFailure::Refused, RetryLimits { tries: 3, ..LEFT }, true, again(0)),
            (AttemptFailure::NoTools, LEFT, true, RetryDecision::Elsewhere),
            (AttemptFailure::NoTools, LEFT, false, RetryDecision::Stop),
            // What an upstream may have begun isn't begun twice; what it turned away is.
            (AttemptFailure::BrokenOff, RetryLimits { repeatable: false, ..LEFT }, true, RetryDecision::Stop),
            (AttemptFailure::Status(500, None), RetryLimits { repeatable: false, ..LEFT }, true, RetryDecision::Stop),
            (AttemptFailure::Status(429, None), RetryLimits { repeatable: false, ..LEFT }, false, again(250)),
            (AttemptFailure::Unreachable, RetryLimits { repeatable: false, ..LEFT }, false, again(250)),
        ] {
            let left = RetryLimits { upstreams: usize::from(elsewhere), ..left };
            assert_eq!(next(failed, left, 1.0), expected, "{failed:?} {left:?}");
        }
        assert_eq!(next(AttemptFailure::BrokenOff, LEFT, 0.0), again(125));
    }

    #[test]
    fn retry_after_in_either_spelling() {
        assert_eq!(retry_after(Some("1500"), Some("9")), Some(Duration::from_millis(1_500)));
        assert_eq!(retry_after(None, Some(" 2 ")), Some(Duration::from_secs(2)));
        for odd in ["-1", "NaN", "inf", "1e300", "", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(retry_after(None, Some(odd)), None, "{odd}");
        }
    }

    #[test]
    fn retries_are_paid_for() {
        let mut budget = RetryBudget::default();
        for _ in 0..BUDGET_MAX {
            budget = budget.spend().unwrap();
        }
        assert_eq!(budget.spend(), None);
        for _ in 0..PER_RETRY {
            assert_eq!(budget.spend(), None);
            budget = budget.earn();
        }
        assert_eq!(budget.spend(), Some(RetryBudget::of_units(0)));
    }
}
