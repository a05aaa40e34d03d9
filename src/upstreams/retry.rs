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
pub enum Failed {
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

impl Failed {
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
pub struct Left {
    /// Requests sent to this upstream since the last answer.
    pub tries: u32,
    /// Upstream requests that the exchange may still send.
    pub attempts: u32,
    /// Time until the deadline for new attempts.
    pub time: Duration,
    /// Sending the request twice is harmless. Otherwise only requests that weren't processed are retried.
    pub repeatable: bool,
}

/// Decision about a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Retry with the same upstream, after this pause.
    Again(Duration),
    /// Try another upstream at once, if there is one.
    Elsewhere,
    /// Give up.
    Stop,
}

/// Decides about a failure. `elsewhere`: there is another upstream. `chance`: a random number from 0 to 1. The caller checks the shared
/// budget, and only for [`Next::Again`].
pub fn next(failed: Failed, left: Left, elsewhere: bool, chance: f64) -> Next {
    // Rejected before it was processed.
    let unsent = matches!(failed, Failed::Unreachable | Failed::Refused | Failed::NoTools | Failed::Status(429 | 498 | 503, _));
    if left.attempts == 0 || left.time.is_zero() || !(left.repeatable || unsent) {
        return Next::Stop;
    }
    if failed == Failed::Refused {
        return Next::Again(Duration::ZERO);
    }
    let other = if elsewhere { Next::Elsewhere } else { Next::Stop };
    // An upstream that can't be reached stays so for a moment, while another one could answer now.
    let hopeless = elsewhere && matches!(failed, Failed::Unreachable | Failed::Timeout);
    if !failed.passes() || left.tries >= TRIES || hopeless {
        return other;
    }
    let pause = pause(failed, left.tries, chance);
    match pause {
        Some(pause) if pause < left.time => Next::Again(pause),
        _ => other,
    }
}

/// Pause until the next try: at least the `retry-after`, else a growing pause. Half of the pause is random, so that requests that failed
/// together aren't retried together. `None`: the wait would be too long.
fn pause(failed: Failed, tries: u32, chance: f64) -> Option<Duration> {
    let grown = PAUSE_MAX.saturating_mul(1 << tries.saturating_sub(1).min(8));
    let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 1.0 };
    let own = grown.mul_f64(0.5 + 0.5 * chance);
    match failed {
        Failed::Status(_, Some(asked)) if asked > RETRY_AFTER_MAX => None,
        Failed::Status(_, Some(asked)) => Some(asked + own.mul_f64(0.5)),
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
pub struct Budget(u32);

/// Answered requests that pay for one retry.
pub const PER_RETRY: u32 = 5;
/// Retries in the budget at the start, and at most.
pub const BUDGET_MAX: u32 = 20;

impl Default for Budget {
    fn default() -> Self {
        Self(BUDGET_MAX * PER_RETRY)
    }
}

impl Budget {
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

    const LEFT: Left = Left { tries: 1, attempts: 5, time: Duration::from_secs(30), repeatable: true };

    #[test]
    fn what_is_tried_again() {
        let again = |ms| Next::Again(Duration::from_millis(ms));
        for (failed, left, elsewhere, expected) in [
            (Failed::Unreachable, LEFT, false, again(250)),
            (Failed::Unreachable, LEFT, true, Next::Elsewhere),
            (Failed::Timeout, LEFT, true, Next::Elsewhere),
            (Failed::BrokenOff, LEFT, true, again(250)),
            (Failed::Status(503, None), Left { tries: 2, ..LEFT }, true, again(500)),
            (Failed::Status(503, None), Left { tries: 3, ..LEFT }, true, Next::Elsewhere),
            (Failed::Status(503, None), Left { tries: 3, ..LEFT }, false, Next::Stop),
            (Failed::Status(500, None), Left { attempts: 0, ..LEFT }, true, Next::Stop),
            (Failed::Status(500, None), Left { time: Duration::ZERO, ..LEFT }, true, Next::Stop),
            (Failed::Status(400, None), LEFT, false, Next::Stop),
            (Failed::Status(429, Some(Duration::from_secs(2))), LEFT, false, again(2_125)),
            (Failed::Status(429, Some(Duration::from_secs(60))), LEFT, true, Next::Elsewhere),
            (Failed::Status(429, Some(Duration::from_secs(60))), LEFT, false, Next::Stop),
            (Failed::Status(429, Some(Duration::from_secs(2))), Left { time: Duration::from_secs(2), ..LEFT }, false, Next::Stop),
            (Failed::Nonsense, LEFT, true, Next::Elsewhere),
            (Failed::Refused, Left { tries: 3, ..LEFT }, true, again(0)),
            (Failed::NoTools, LEFT, true, Next::Elsewhere),
            (Failed::NoTools, LEFT, false, Next::Stop),
            // What an upstream may have begun isn't begun twice; what it turned away is.
            (Failed::BrokenOff, Left { repeatable: false, ..LEFT }, true, Next::Stop),
            (Failed::Status(500, None), Left { repeatable: false, ..LEFT }, true, Next::Stop),
            (Failed::Status(429, None), Left { repeatable: false, ..LEFT }, false, again(250)),
            (Failed::Unreachable, Left { repeatable: false, ..LEFT }, false, again(250)),
        ] {
            assert_eq!(next(failed, left, elsewhere, 1.0), expected, "{failed:?} {left:?}");
        }
        assert_eq!(next(Failed::BrokenOff, LEFT, false, 0.0), again(125));
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
        let mut budget = Budget::default();
        for _ in 0..BUDGET_MAX {
            budget = budget.spend().unwrap();
        }
        assert_eq!(budget.spend(), None);
        for _ in 0..PER_RETRY {
            assert_eq!(budget.spend(), None);
            budget = budget.earn();
        }
        assert_eq!(budget.spend(), Some(Budget::of_units(0)));
    }
}
