//! Health of an upstream, shared by all workers: its circuit breaker, its retry budget, and its rate-limit pause.
//!
//! Without recent failures, which is nearly always, a check reads one atomic and writes nothing.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

use super::{
    breaker::{Admission, Breaker, BreakerState, RequestOutcome},
    retry::RetryBudget,
};
use crate::upstreams::breaker::RequestRole;

/// Health of one upstream.
pub struct UpstreamHealth {
    /// There were recent failures: the breaker must be consulted.
    troubled: AtomicBool,
    breaker: Mutex<Breaker>,
    /// Last kind of failure: a [`FailureKind`].
    last: AtomicU8,
    budget: AtomicU32,
    paused_until_ms: AtomicU64,
}

/// Kind of failure of an upstream.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It couldn't be reached.
    #[default]
    Unreachable,
    /// It didn't answer in time.
    Silent,
    /// It was reached, but answered with errors or cut the connection.
    Errors,
}

impl Default for UpstreamHealth {
    fn default() -> Self {
        Self {
            troubled: AtomicBool::new(false),
            breaker: Mutex::default(),
            last: AtomicU8::new(0),
            budget: AtomicU32::new(RetryBudget::default().units()),
            paused_until_ms: AtomicU64::new(0),
        }
    }
}

impl UpstreamHealth {
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
    pub fn report(&self, role: RequestRole, outcome: RequestOutcome, now_ms: u64) -> Option<BreakerState> {
        let troubled = self.troubled.load(Ordering::Relaxed);
        if outcome == RequestOutcome::Answered {
            let budget = RetryBudget::of_units(self.budget.load(Ordering::Relaxed));
            let earned = budget.earn();
            if earned != budget {
                // A lost update costs a fraction of a retry.
                self.budget.store(earned.units(), Ordering::Relaxed);
            }
            if !troubled {
                return None;
            }
        }
        if outcome == RequestOutcome::Failed {
            self.troubled.store(true, Ordering::Relaxed);
        }
        self.breaker(|breaker| {
            let changed = breaker.report(role, outcome, now_ms).then(|| breaker.condition(now_ms));
            if breaker.is_untroubled() {
                self.troubled.store(false, Ordering::Relaxed);
            }
            changed
        })
    }

    /// Opens the breaker for this time, in milliseconds, because another replica's did. Returns whether it did.
    pub fn open_as_heard(&self, pause_ms: u64, failure: FailureKind, now_ms: u64) -> bool {
        let opened = self.breaker(|breaker| breaker.open_as_heard(pause_ms, now_ms));
        if opened {
            self.fail(failure);
            self.troubled.store(true, Ordering::Relaxed);
        }
        opened
    }

    /// Time for which the breaker stays open, in milliseconds; 0 if it isn't.
    pub fn open_ms(&self, now_ms: u64) -> u64 {
        self.breaker(|breaker| breaker.open_ms(now_ms))
    }

    /// Records the kind of a failure.
    pub fn fail(&self, trouble: FailureKind) {
        self.last.store(trouble as u8, Ordering::Relaxed);
    }

    /// Kind of the last failure.
    pub fn trouble(&self) -> FailureKind {
        match self.last.load(Ordering::Relaxed) {
            1 => FailureKind::Silent,
            2 => FailureKind::Errors,
            _ => FailureKind::Unreachable,
        }
    }

    /// Pays for a retry from the budget; false if the budget is used up.
    pub fn spend(&self) -> bool {
        let spend = |units| RetryBudget::of_units(units).spend().map(RetryBudget::units);
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
    pub fn condition(&self, now_ms: u64) -> BreakerState {
        if !self.troubled.load(Ordering::Relaxed) {
            return BreakerState::Closed;
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
        let gauge = UpstreamHealth::default();
        assert_eq!((gauge.admit(0), gauge.report(RequestRole::Regular, RequestOutcome::Answered, 0)), (Admission::Pass, None));
        let opened = (0..FAILURES_MIN).filter_map(|_| gauge.report(RequestRole::Regular, RequestOutcome::Failed, 1)).collect::<Vec<_>>();
        assert_eq!((opened, gauge.condition(1)), (vec![BreakerState::Open], BreakerState::Open));
        assert!(matches!(gauge.admit(1), Admission::Refuse(_)));
        let back = 1 + PAUSE_MS_MIN;
        for _ in 0..TRIALS {
            assert_eq!(gauge.admit(back), Admission::Trial);
            gauge.report(RequestRole::Trial, RequestOutcome::Answered, back);
        }
        assert_eq!((gauge.condition(back), gauge.admit(back)), (BreakerState::Closed, Admission::Pass));
        gauge.report(RequestRole::Regular, RequestOutcome::Failed, back);
        assert!(gauge.troubled.load(Ordering::Relaxed));
        gauge.report(RequestRole::Regular, RequestOutcome::Answered, back + 2 * WINDOW_MS);
        assert!(!gauge.troubled.load(Ordering::Relaxed));
    }

    #[test]
    fn retries_and_pauses() {
        let gauge = UpstreamHealth::default();
        assert_eq!((0..BUDGET_MAX + 5).filter(|_| gauge.spend()).count(), BUDGET_MAX as usize);
        gauge.pause(1_000);
        gauge.pause(500);
        assert!(gauge.is_paused(999) && !gauge.is_paused(1_000));
    }
}
