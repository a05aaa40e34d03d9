//! Health of an upstream, shared by all workers: its circuit breaker, its retry budget, and its rate-limit pause.
//!
//! Without recent failures, which is nearly always, a check reads one atomic and writes nothing.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
};

use super::{
    breaker::{Admission, Breaker, Condition, Outcome},
    retry::Budget,
};

/// Health of one upstream.
pub struct Gauge {
    /// There were recent failures: the breaker must be consulted.
    troubled: AtomicBool,
    breaker: Mutex<Breaker>,
    /// Last kind of failure: a [`Trouble`].
    last: AtomicU8,
    budget: AtomicU32,
    paused_until_ms: AtomicU64,
}

/// Kind of failure of an upstream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Trouble {
    /// It couldn't be reached.
    #[default]
    Unreachable,
    /// It didn't answer in time.
    Silent,
    /// It was reached, but answered with errors or cut the connection.
    Errors,
}

impl Default for Gauge {
    fn default() -> Self {
        Self {
            troubled: AtomicBool::new(false),
            breaker: Mutex::default(),
            last: AtomicU8::new(0),
            budget: AtomicU32::new(Budget::default().units()),
            paused_until_ms: AtomicU64::new(0),
        }
    }
}

impl Gauge {
    fn breaker<T>(&self, ask: impl FnOnce(&mut Breaker) -> T) -> T {
        // Locked for a few instructions, and only after failures.
        ask(&mut self.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Decides on a request.
    pub fn admit(&self, now_ms: u64) -> Admission {
        if !self.troubled.load(Ordering::Relaxed) {
            return Admission::Pass;
        }
        self.breaker(|breaker| breaker.admit(now_ms))
    }

    /// Records the outcome of an allowed request. Returns the breaker's new condition if it changed.
    pub fn report(&self, trial: bool, outcome: Outcome, now_ms: u64) -> Option<Condition> {
        let troubled = self.troubled.load(Ordering::Relaxed);
        if outcome == Outcome::Answered {
            let budget = Budget::of_units(self.budget.load(Ordering::Relaxed));
            let earned = budget.earn();
            if earned != budget {
                // A lost update costs a fraction of a retry.
                self.budget.store(earned.units(), Ordering::Relaxed);
            }
            if !troubled {
                return None;
            }
        }
        if outcome == Outcome::Failed {
            self.troubled.store(true, Ordering::Relaxed);
        }
        self.breaker(|breaker| {
            let changed = breaker.report(trial, outcome, now_ms).then(|| breaker.condition(now_ms));
            if breaker.is_untroubled() {
                self.troubled.store(false, Ordering::Relaxed);
            }
            changed
        })
    }

    /// Records the kind of a failure.
    pub fn fail(&self, trouble: Trouble) {
        self.last.store(trouble as u8, Ordering::Relaxed);
    }

    /// Kind of the last failure.
    pub fn trouble(&self) -> Trouble {
        match self.last.load(Ordering::Relaxed) {
            1 => Trouble::Silent,
            2 => Trouble::Errors,
            _ => Trouble::Unreachable,
        }
    }

    /// Pays for a retry from the budget; false if the budget is used up.
    pub fn spend(&self) -> bool {
        let spend = |units| Budget::of_units(units).spend().map(Budget::units);
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }

    /// Pauses the upstream until this time, in milliseconds.
    pub fn pause(&self, until_ms: u64) {
        self.paused_until_ms.fetch_max(until_ms, Ordering::Relaxed);
    }

    /// Returns whether the upstream asked for a pause that isn't over.
    pub fn is_paused(&self, now_ms: u64) -> bool {
        now_ms < self.paused_until_ms.load(Ordering::Relaxed)
    }

    /// Condition of its breaker.
    pub fn condition(&self, now_ms: u64) -> Condition {
        if !self.troubled.load(Ordering::Relaxed) {
            return Condition::Closed;
        }
        self.breaker(|breaker| breaker.condition(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstreams::{
        breaker::{FAILURES_MIN, PAUSE_MS_MIN, TRIALS, WINDOW_MS},
        retry::BUDGET_MAX,
    };

    #[test]
    fn trouble_is_noticed_and_forgotten() {
        let gauge = Gauge::default();
        assert_eq!((gauge.admit(0), gauge.report(false, Outcome::Answered, 0)), (Admission::Pass, None));
        let opened = (0..FAILURES_MIN).filter_map(|_| gauge.report(false, Outcome::Failed, 1)).collect::<Vec<_>>();
        assert_eq!((opened, gauge.condition(1)), (vec![Condition::Open], Condition::Open));
        assert!(matches!(gauge.admit(1), Admission::Refuse(_)));
        let back = 1 + PAUSE_MS_MIN;
        for _ in 0..TRIALS {
            assert_eq!(gauge.admit(back), Admission::Trial);
            gauge.report(true, Outcome::Answered, back);
        }
        assert_eq!((gauge.condition(back), gauge.admit(back)), (Condition::Closed, Admission::Pass));
        gauge.report(false, Outcome::Failed, back);
        assert!(gauge.troubled.load(Ordering::Relaxed));
        gauge.report(false, Outcome::Answered, back + 2 * WINDOW_MS);
        assert!(!gauge.troubled.load(Ordering::Relaxed));
    }

    #[test]
    fn retries_and_pauses() {
        let gauge = Gauge::default();
        assert_eq!((0..BUDGET_MAX + 5).filter(|_| gauge.spend()).count(), BUDGET_MAX as usize);
        gauge.pause(1_000);
        gauge.pause(500);
        assert!(gauge.is_paused(999) && !gauge.is_paused(1_000));
    }
}
