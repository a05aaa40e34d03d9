//! What may be spent within an hour: calls and tokens. Pure: time comes in as a value, in milliseconds of any clock that only rises.
//!
//! Tokens are known once a call has ended, so each sets aside what it may take, and that counts until it is known. Whoever
//! never says stays counted so: a call that is given up was paid for all the same.

/// An hour, in milliseconds.
const WINDOW_MS: u64 = 3_600_000;

/// See the module.
#[derive(Debug)]
pub struct Allowance {
    calls_max: u64,
    tokens_max: u64,
    /// When the hour began: with the first call after the one before.
    since_ms: Option<u64>,
    /// Counts the hours.
    number: u64,
    calls: u64,
    tokens: u64,
}

/// What a call has set aside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reserved {
    hour: u64,
    tokens: u64,
}

impl Allowance {
    /// So much an hour.
    pub fn new(calls_max: u64, tokens_max: u64) -> Self {
        Self { calls_max, tokens_max, since_ms: None, number: 0, calls: 0, tokens: 0 }
    }

    /// Sets aside a call of about so many tokens; `None` where the hour's are spent.
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

    /// The call took so many tokens.
    pub fn settle(&mut self, reserved: Reserved, tokens: u64) {
        if reserved.hour == self.number {
            self.tokens = self.tokens.saturating_sub(reserved.tokens).saturating_add(tokens);
        }
    }

    /// The call was never made.
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
