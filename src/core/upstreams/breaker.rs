//! Circuit breaker of an upstream. Pure: time is passed in, in milliseconds of any monotonic clock.
//!
//! ```text
//!            at least FAILURES_MIN of the last WINDOW_MS, and one in SHARE of all, failed
//!  closed ─────────────────────────────────────────────────────────────▶ open ──┐ for a pause that doubles
//!    ▲                                                                    ▲     │
//!    │ TRIALS successes, one after another                   one failure  │     ▼
//!    └──────────────────────────────────────────────────────────────── half-open: one request at a time
//! ```
//! The pause doubles each time the breaker opens again before the upstream worked for [`CALM_MS`]. So an unstable upstream is soon mostly
//! avoided, and requests don't alternate with its state.

/// Failures that are needed to open it.
pub const FAILURES_MIN: u32 = 5;
/// One in so many requests must have failed to open it.
pub const SHARE: u32 = 5;
/// Length of the window in which failures are counted, in milliseconds.
pub const WINDOW_MS: u64 = 30_000;
/// Successful trials in a row that close it.
pub const TRIALS: u32 = 3;
/// First pause, in milliseconds.
pub const PAUSE_MS_MIN: u64 = 2_000;
/// Longest pause, in milliseconds.
pub const PAUSE_MS_MAX: u64 = 60_000;
/// Time closed after which the next pause is the shortest again, in milliseconds.
pub const CALM_MS: u64 = 120_000;
/// Time after which a trial without a result is given up, in milliseconds.
pub const TRIAL_MS_MAX: u64 = 60_000;

const BUCKETS: usize = 10;
const BUCKET_MS: u64 = WINDOW_MS / BUCKETS as u64;

/// Outcome of a request to an upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestOutcome {
    /// The upstream answered, even with an error that was the request's fault.
    Answered,
    /// The upstream failed.
    Failed,
    /// The request was cancelled.
    Abandoned,
}

/// Decision on a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// The request is allowed.
    Pass,
    /// The request is allowed as a trial, to find out whether the upstream works again.
    Trial,
    /// The request is refused for this time, in milliseconds.
    Refuse(u64),
}

/// Kind of an allowed request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestRole {
    /// A request like any other.
    Regular,
    /// A half-open probe: its outcome decides whether the breaker closes.
    Trial,
}

/// State of the breaker as it is reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakerState {
    /// All requests are allowed.
    Closed,
    /// No request is allowed.
    Open,
    /// One request at a time is allowed.
    HalfOpen,
}

impl BreakerState {
    /// Name of the condition.
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
struct OutcomeWindow {
    number: u64,
    answered: u32,
    failed: u32,
}

/// Circuit breaker of one upstream.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: State,
    buckets: [OutcomeWindow; BUCKETS],
    /// Number of times it opened without a calm period in between.
    relapses: u32,
    closed_since_ms: u64,
    /// Time at which its own trials last closed it.
    proven_ms: Option<u64>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed, buckets: Default::default(), relapses: 0, closed_since_ms: 0, proven_ms: None }
    }
}

impl Breaker {
    /// Decides on a request. The outcome of every allowed request must be reported, that of a trial as [`RequestRole::Trial`].
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

    /// Records the outcome of a request. Returns whether the condition changed.
    pub fn report(&mut self, role: RequestRole, outcome: RequestOutcome, now_ms: u64) -> bool {
        let is_trial = role == RequestRole::Trial;
        let before = self.condition(now_ms);
        match (self.state, outcome) {
            (State::HalfOpen { succeeded, .. }, RequestOutcome::Abandoned) if is_trial => {
                self.state = State::HalfOpen { succeeded, trial_since_ms: None };
            }
            (_, RequestOutcome::Abandoned) => {}
            (State::HalfOpen { succeeded, .. }, RequestOutcome::Answered) if is_trial && succeeded + 1 >= TRIALS => self.close(now_ms),
            (State::HalfOpen { succeeded, .. }, RequestOutcome::Answered) if is_trial => {
                self.state = State::HalfOpen { succeeded: succeeded + 1, trial_since_ms: None };
            }
            (State::HalfOpen { .. }, RequestOutcome::Failed) if is_trial => self.open(now_ms),
            // Requests from before it opened say nothing about the present state.
            (State::HalfOpen { .. } | State::Open { .. }, _) => {}
            (State::Closed, RequestOutcome::Answered) => self.count(now_ms, RequestOutcome::Answered),
            (State::Closed, RequestOutcome::Failed) => {
                self.count(now_ms, RequestOutcome::Failed);
                let (answered, failed) = self.recent(now_ms);
                if failed >= FAILURES_MIN && failed.saturating_mul(SHARE) >= answered.saturating_add(failed) {
                    self.open(now_ms);
                }
            }
        }
        self.condition(now_ms) != before
    }

    /// Opens it for this time, in milliseconds, because that of another replica opened. Returns whether it did: not while it isn't closed,
    /// nor for [`CALM_MS`] after its own trials showed that the upstream works from here.
    pub fn open_as_heard(&mut self, pause_ms: u64, now_ms: u64) -> bool {
        let proven = self.proven_ms.is_some_and(|proven| now_ms.saturating_sub(proven) < CALM_MS);
        if proven || !matches!(self.state, State::Closed) {
            return false;
        }
        // No relapse of its own: the next pause is as long as if it hadn't been open.
        self.state = State::Open { until_ms: now_ms.saturating_add(pause_ms.min(PAUSE_MS_MAX)) };
        self.buckets = Default::default();
        true
    }

    /// Time for which it stays open, in milliseconds; 0 if it isn't.
    pub fn open_ms(&self, now_ms: u64) -> u64 {
        match self.state {
            State::Open { until_ms } => until_ms.saturating_sub(now_ms),
            State::Closed | State::HalfOpen { .. } => 0,
        }
    }

    /// The condition at this time.
    pub fn condition(&self, now_ms: u64) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { until_ms } if now_ms < until_ms => BreakerState::Open,
            State::Open { .. } | State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Returns whether it is closed without recent failures: then requests need neither be decided nor reported.
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
        self.proven_ms = Some(now_ms);
    }

    fn count(&mut self, now_ms: u64, outcome: RequestOutcome) {
        let number = now_ms / BUCKET_MS;
        let Some(bucket) = self.buckets.get_mut((number % BUCKETS as u64) as usize) else { return };
        if bucket.number != number {
            *bucket = OutcomeWindow { number, ..OutcomeWindow::default() };
        }
        match outcome {
            RequestOutcome::Answered => bucket.answered = bucket.answered.saturating_add(1),
            RequestOutcome::Failed => bucket.failed = bucket.failed.saturating_add(1),
            RequestOutcome::Abandoned => {}
        }
        let oldest = number.saturating_sub(BUCKETS as u64 - 1);
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.number < oldest) {
            *bucket = OutcomeWindow::default();
        }
    }

    fn recent(&self, now_ms: u64) -> (u32, u32) {
        let oldest = (now_ms / BUCKET_MS).saturating_sub(BUCKETS as u64 - 1);
        let recent = self.buckets.iter().filter(|bucket| bucket.number >= oldest);
        recent.fold((0, 0), |(answered, failed), bucket| (answered + bucket.answered, failed + bucket.failed))
    }
}

/// Wait that is reported for requests during a trial, in milliseconds.
const TRIAL_WAIT_MS: u64 = 1_000;

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
