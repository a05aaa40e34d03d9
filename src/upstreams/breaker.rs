//! Is an upstream left alone for a while? Pure: time comes in as a value, in milliseconds of any clock that only rises.
//!
//! ```text
//!            at least FAILURES_MIN of the last WINDOW_MS, and one in SHARE of all, failed
//!  closed ─────────────────────────────────────────────────────────────▶ open ──┐ for a pause that doubles
//!    ▲                                                                    ▲     │
//!    │ TRIALS successes, one after another                   one failure  │     ▼
//!    └──────────────────────────────────────────────────────────────── half-open: one request at a time
//! ```
//! An upstream that comes and goes is soon mostly left alone: each time it opens again before it was well for
//! [`CALM_MS`], the pause is twice as long. So what answers doesn't flap with it.

/// Failures that open it, at least.
pub const FAILURES_MIN: u32 = 5;
/// One in so many requests must have failed.
pub const SHARE: u32 = 5;
/// What is looked at: the last so many milliseconds.
pub const WINDOW_MS: u64 = 30_000;
/// Requests that must succeed one after another before all go there again.
pub const TRIALS: u32 = 3;
/// The first pause.
pub const PAUSE_MS_MIN: u64 = 2_000;
/// The longest pause.
pub const PAUSE_MS_MAX: u64 = 60_000;
/// So long it must be well until the next pause is a short one again.
pub const CALM_MS: u64 = 120_000;
/// A trial that says nothing for so long is given up.
pub const TRIAL_MS_MAX: u64 = 60_000;

const BUCKETS: usize = 10;
const BUCKET_MS: u64 = WINDOW_MS / BUCKETS as u64;

/// How a request to an upstream came out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It answered, whatever it said: the fault, if any, was the request's.
    Answered,
    /// It failed.
    Failed,
    /// Nobody waited for it.
    Abandoned,
}

/// May a request go there?
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// Yes.
    Pass,
    /// Yes, to find out whether it is back.
    Trial,
    /// No, for so many milliseconds.
    Refuse(u64),
}

/// What it looks like from outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Condition {
    /// All go there.
    Closed,
    /// None do.
    Open,
    /// One at a time does.
    HalfOpen,
}

impl Condition {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed,
    Open { until_ms: u64 },
    HalfOpen { succeeded: u32, trial_since_ms: Option<u64> },
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    number: u64,
    answered: u32,
    failed: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: State,
    buckets: [Bucket; BUCKETS],
    /// How often it opened without having been well in between.
    relapses: u32,
    closed_since_ms: u64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed, buckets: Default::default(), relapses: 0, closed_since_ms: 0 }
    }
}

impl Breaker {
    /// May a request go there now? What was admitted must be reported, a trial with `trial`.
    pub fn admit(&mut self, now_ms: u64) -> Admission {
        match self.state {
            State::Closed => Admission::Pass,
            State::Open { until_ms } if now_ms < until_ms => Admission::Refuse(until_ms - now_ms),
            State::Open { .. } => {
                self.state = State::HalfOpen { succeeded: 0, trial_since_ms: Some(now_ms) };
                Admission::Trial
            }
            State::HalfOpen { trial_since_ms: Some(since), .. } if now_ms < since.saturating_add(TRIAL_MS_MAX) => {
                Admission::Refuse(TRIAL_WAIT_MS)
            }
            State::HalfOpen { succeeded, .. } => {
                self.state = State::HalfOpen { succeeded, trial_since_ms: Some(now_ms) };
                Admission::Trial
            }
        }
    }

    /// Notes how a request came out. True where the condition changed.
    pub fn report(&mut self, trial: bool, outcome: Outcome, now_ms: u64) -> bool {
        let before = self.condition(now_ms);
        match (self.state, outcome) {
            (State::HalfOpen { succeeded, .. }, Outcome::Abandoned) if trial => {
                self.state = State::HalfOpen { succeeded, trial_since_ms: None };
            }
            (_, Outcome::Abandoned) => {}
            (State::HalfOpen { succeeded, .. }, Outcome::Answered) if trial && succeeded + 1 >= TRIALS => self.close(now_ms),
            (State::HalfOpen { succeeded, .. }, Outcome::Answered) if trial => {
                self.state = State::HalfOpen { succeeded: succeeded + 1, trial_since_ms: None };
            }
            (State::HalfOpen { .. }, Outcome::Failed) if trial => self.open(now_ms),
            // Requests from before it opened say nothing of how it is now.
            (State::HalfOpen { .. } | State::Open { .. }, _) => {}
            (State::Closed, Outcome::Answered) => self.count(now_ms, Outcome::Answered),
            (State::Closed, Outcome::Failed) => {
                self.count(now_ms, Outcome::Failed);
                let (answered, failed) = self.recent(now_ms);
                if failed >= FAILURES_MIN && failed.saturating_mul(SHARE) >= answered.saturating_add(failed) {
                    self.open(now_ms);
                }
            }
        }
        self.condition(now_ms) != before
    }

    /// How it stands.
    pub fn condition(&self, now_ms: u64) -> Condition {
        match self.state {
            State::Closed => Condition::Closed,
            State::Open { until_ms } if now_ms < until_ms => Condition::Open,
            State::Open { .. } | State::HalfOpen { .. } => Condition::HalfOpen,
        }
    }

    /// Has nothing failed of late? Then nothing need be asked or reported.
    pub fn is_untroubled(&self) -> bool {
        matches!(self.state, State::Closed) && self.buckets.iter().all(|bucket| bucket.failed == 0)
    }

    fn open(&mut self, now_ms: u64) {
        let calm = now_ms.saturating_sub(self.closed_since_ms) >= CALM_MS;
        let was_closed = matches!(self.state, State::Closed);
        self.relapses = if calm && was_closed { 0 } else { self.relapses };
        let pause = PAUSE_MS_MIN.saturating_mul(1 << self.relapses.min(16)).min(PAUSE_MS_MAX);
        self.relapses = self.relapses.saturating_add(1);
        self.state = State::Open { until_ms: now_ms.saturating_add(pause) };
        self.buckets = Default::default();
    }

    fn close(&mut self, now_ms: u64) {
        self.state = State::Closed;
        self.closed_since_ms = now_ms;
    }

    fn count(&mut self, now_ms: u64, outcome: Outcome) {
        let number = now_ms / BUCKET_MS;
        let Some(bucket) = self.buckets.get_mut((number % BUCKETS as u64) as usize) else { return };
        if bucket.number != number {
            *bucket = Bucket { number, ..Bucket::default() };
        }
        match outcome {
            Outcome::Answered => bucket.answered = bucket.answered.saturating_add(1),
            Outcome::Failed => bucket.failed = bucket.failed.saturating_add(1),
            Outcome::Abandoned => {}
        }
        let oldest = number.saturating_sub(BUCKETS as u64 - 1);
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.number < oldest) {
            *bucket = Bucket::default();
        }
    }

    fn recent(&self, now_ms: u64) -> (u32, u32) {
        let oldest = (now_ms / BUCKET_MS).saturating_sub(BUCKETS as u64 - 1);
        let recent = self.buckets.iter().filter(|bucket| bucket.number >= oldest);
        recent.fold((0, 0), |(answered, failed), bucket| (answered + bucket.answered, failed + bucket.failed))
    }
}

/// What a request that comes during a trial is told to wait.
const TRIAL_WAIT_MS: u64 = 1_000;

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
