//! Hourly limit of calls and tokens. Pure: time is passed in, in milliseconds of any monotonic clock.
//!
//! The tokens of a call are known only after it has ended, so each call reserves an estimate, which counts until it is settled. The
//! estimate of a call that is never settled stays counted: an abandoned call was paid for all the same.

/// An hour, in milliseconds.
const WINDOW_MS: u64 = 3_600_000;

/// Hourly limit of calls and tokens, with the current hour's use.
#[derive(Debug)]
pub struct Allowance {
    calls_max: u64,
    tokens_max: u64,
    /// Start of the hour: its first call, in milliseconds.
    since_ms: Option<u64>,
    /// Number of the hour.
    number: u64,
    calls: u64,
    tokens: u64,
}

/// Reservation of one call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reserved {
    hour: u64,
    tokens: u64,
}

impl Allowance {
    /// A limit of so many calls and tokens per hour.
    pub fn new(calls_max: u64, tokens_max: u64) -> Self {
        Self { calls_max, tokens_max, since_ms: None, number: 0, calls: 0, tokens: 0 }
    }

    /// Reserves a call of about `tokens` tokens; `None` if the hour's limit is reached.
    pub fn reserve(&mut self, tokens: u64, now_ms: u64) -> Option<Reserved> {
        if self.since_ms.is_none_or(|since| now_ms.saturating_sub(since) >= WINDOW_MS) {
            (self.since_ms, self.calls, self.tokens) = (Some(now_ms), 0, 0);
            self.number += 1;
        }
        if self.calls >= self.calls_max || self.tokens.saturating_add(tokens) > self.tokens_max {
            return None;
        }
        self.calls += 1;
        self.tokens += tokens;
        Some(Reserved { hour: self.number, tokens })
    }

    /// Replaces a call's estimate by the tokens that it used.
    pub fn settle(&mut self, reserved: Reserved, tokens: u64) {
        if reserved.hour == self.number {
            self.tokens = self.tokens.saturating_sub(reserved.tokens).saturating_add(tokens);
        }
    }

    /// Cancels the reservation of a call that was not made.
    pub fn give_back(&mut self, reserved: Reserved) {
        if reserved.hour == self.number {
            self.calls = self.calls.saturating_sub(1);
            self.tokens = self.tokens.saturating_sub(reserved.tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_so_many_calls_and_tokens() {
        let mut allowance = Allowance::new(2, 100);
        let first = allowance.reserve(40, 5).unwrap();
        assert!(allowance.reserve(61, 5).is_none(), "what is set aside counts");
        allowance.settle(first, 90);
        assert!(allowance.reserve(11, 6).is_none());
        let second = allowance.reserve(10, 6).unwrap();
        assert!(allowance.reserve(0, 7).is_none(), "two calls");
        allowance.give_back(second);
        assert!(allowance.reserve(10, 7).is_some());
        assert!(allowance.reserve(0, 5 + WINDOW_MS - 1).is_none());
        let next = allowance.reserve(100, 5 + WINDOW_MS).unwrap();
        // What belongs to the hour before changes nothing any more.
        allowance.settle(first, 0);
        allowance.give_back(second);
        assert!(allowance.reserve(1, 5 + WINDOW_MS).is_none());
        allowance.settle(next, u64::MAX);
        assert!(allowance.reserve(0, 6 + WINDOW_MS).is_none());
    }
}
