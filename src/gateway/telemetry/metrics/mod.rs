//! Counters of this process, for Prometheus and for alerts.
//!
//! Counting is an atomic addition on a shard that a thread mostly has to itself: no locks, no waiting. Names chosen by clients
//! and models are counted by [`LabelTable`], which is bounded.

pub mod exposition;
pub mod label_table;
pub mod sources;
pub mod verifier;

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::readiness::PartState;
use crate::{
    ledger::{
        query_times::QueryTimes,
        record::{CallOutcome, ExchangeRecord},
    },
    openai::Api,
    sys::histogram::{Histogram, HistogramSnapshot, OVERHEAD_US, UPSTREAM_US},
    telemetry::stats::{
        aggregate::{ending, invented},
        counters::CounterField,
    },
    violation::{Code, Severity, Verdict},
};
use label_table::LabelTable;
use verifier::VerifierCounters;

/// Shards of the counters. Threads share a shard only if there are more threads than shards.
const SHARDS: usize = 16;
/// The ways an exchange ends, in the order of the counters.
pub const ENDINGS: [(CounterField, &str); 6] = [
    (CounterField::Pass, "pass"),
    (CounterField::Warn, "warn"),
    (CounterField::Repaired, "repaired"),
    (CounterField::Blocked, "blocked"),
    (CounterField::Failed, "failed"),
    (CounterField::Abandoned, "abandoned"),
];
/// The APIs, in the order of the counters.
pub const APIS: [Api; 3] = Api::ALL;
/// The policy's reactions to a violation, in the order of the counters.
pub const ACTIONS: [&str; 3] = ["info", "warn", "block"];
/// The outcomes of a repair, in the order of the counters.
pub const REPAIRS: [&str; 4] = ["mended", "rejected_again", "exhausted", "unfinished"];
/// The outcomes of a call, in the order of the counters.
pub const CALLS: [&str; 3] = ["accepted", "rejected", "withheld"];
/// The classes of an upstream's status, in the order of the counters; `none` is an attempt without a response.
pub const ANSWERS: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "none"];

/// An atomic counter.
#[derive(Debug, Default)]
pub struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    /// Adds to the counter.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The counter's present value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one tool.
#[derive(Debug, Default)]
pub struct ToolCounters {
    /// Calls, in the order of [`CALLS`].
    pub calls: [AtomicCounter; CALLS.len()],
    /// Executions that succeeded.
    pub succeeded: AtomicCounter,
    /// Executions that failed.
    pub failed: AtomicCounter,
}

/// Counters of one model.
#[derive(Debug, Default)]
pub struct ModelCounters {
    /// Tokens of first attempts: input, output.
    pub first: [AtomicCounter; 2],
    /// Tokens of later attempts: input, output.
    pub repair: [AtomicCounter; 2],
}

/// Counters of one upstream.
#[derive(Debug)]
pub struct UpstreamCounters {
    /// Attempts, in the order of [`ANSWERS`].
    pub answers: [AtomicCounter; ANSWERS.len()],
    /// Durations of the attempts.
    pub time: Histogram,
    /// Attempts without a response, or with a status of 500 or more, since the last response below 500.
    pub failures: AtomicU64,
}

impl Default for UpstreamCounters {
    fn default() -> Self {
        Self { answers: Default::default(), time: Histogram::new(&UPSTREAM_US), failures: AtomicU64::new(0) }
    }
}

#[repr(align(128))]
#[derive(Debug)]
struct MetricShard {
    /// By API, stream and ending.
    requests: [[[AtomicCounter; ENDINGS.len()]; 2]; APIS.len()],
    /// By code and action.
    violations: [[AtomicCounter; ACTIONS.len()]; Code::ALL.len()],
    repairs: [AtomicCounter; REPAIRS.len()],
    overhead: Histogram,
}

impl Default for MetricShard {
    fn default() -> Self {
        Self {
            requests: Default::default(),
            violations: std::array::from_fn(|_| Default::default()),
            repairs: Default::default(),
            overhead: Histogram::new(&OVERHEAD_US),
        }
    }
}

/// All counters of the process.
#[derive(Debug)]
pub struct Metrics {
    shards: Box<[MetricShard]>,
    /// Number of the next new thread, which determines its shard.
    next: AtomicUsize,
    /// Counters by tool.
    pub tools: LabelTable<ToolCounters>,
    /// Counters by model.
    pub models: LabelTable<ModelCounters>,
    /// Counters by upstream.
    pub upstreams: LabelTable<UpstreamCounters>,
    /// Counters of the verifier, if there is one.
    pub verifier: OnceLock<Arc<VerifierCounters>>,
    /// Times of queries to the ledger, once it is open.
    pub ledger: OnceLock<Arc<QueryTimes>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| MetricShard::default()).collect(),
            next: AtomicUsize::new(0),
            tools: LabelTable::default(),
            models: LabelTable::default(),
            upstreams: LabelTable::default(),
            verifier: OnceLock::new(),
            ledger: OnceLock::new(),
        }
    }
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Metrics {
    /// Counts an exchange that has ended.
    pub fn count(&self, record: &ExchangeRecord) {
        let shard = self.shard();
        let how = ending(record);
        let ending = ENDINGS.iter().position(|(field, _)| *field == how).unwrap_or_default();
        shard.requests[record.api as usize % APIS.len()][usize::from(record.stream)][ending].add(1);
        shard.overhead.observe(Duration::from_micros(record.overhead_us()));
        for violation in &record.violations {
            let action = match violation.severity {
                Severity::Off | Severity::Info => 0,
                Severity::Warn => 1,
                Severity::Block => 2,
            };
            shard.violations[violation.code as usize][action].add(1);
        }
        if record.repairs > 0 {
            shard.repairs[1].add(u64::from(record.repairs - 1));
            shard.repairs[last_repair(record)].add(1);
        }
        self.count_tools(record);
        self.count_attempts(record);
    }

    fn count_tools(&self, record: &ExchangeRecord) {
        for call in &record.calls {
            let outcome = match call.outcome {
                CallOutcome::Accepted => 0,
                CallOutcome::Rejected => 1,
                CallOutcome::Withheld => 2,
            };
            let count = |tool: &ToolCounters| tool.calls[outcome].add(1);
            if invented(call) { self.tools.with_other(count) } else { self.tools.with(&call.tool, count) }
        }
        for execution in &record.executions {
            self.tools.with(&execution.tool, |tool| if execution.failed { tool.failed.add(1) } else { tool.succeeded.add(1) });
        }
    }

    fn count_attempts(&self, record: &ExchangeRecord) {
        let mut first = true;
        for attempt in &record.attempts {
            self.upstreams.with(&attempt.upstream, |upstream| {
                let answer = match attempt.status {
                    Some(0..300) => 0,
                    Some(300..400) => 1,
                    Some(400..500) => 2,
                    Some(500..) => 3,
                    None => 4,
                };
                upstream.answers[answer].add(1);
                if answer >= 3 {
                    upstream.failures.fetch_add(1, Ordering::Relaxed);
                } else if upstream.failures.load(Ordering::Relaxed) > 0 {
                    upstream.failures.store(0, Ordering::Relaxed);
                }
                upstream.time.observe(Duration::from_micros(attempt.duration_us));
            });
            if let Some(tokens) = attempt.tokens {
                self.models.with(&attempt.model, |model| {
                    let [input, output] = if first { &model.first } else { &model.repair };
                    input.add(tokens.input);
                    output.add(tokens.output);
                });
                first = false;
            }
        }
    }

    fn shard(&self) -> &MetricShard {
        let number = SHARD.with(|own| {
            if own.get() == usize::MAX {
                own.set(self.next.fetch_add(1, Ordering::Relaxed));
            }
            own.get()
        });
        &self.shards[number % SHARDS]
    }

    fn sum(&self, of: impl Fn(&MetricShard) -> &AtomicCounter) -> u64 {
        self.shards.iter().map(|shard| of(shard).value()).sum()
    }

    /// Number of exchanges with this API, stream and ending. `api`, `ending`: index in [`APIS`] and [`ENDINGS`].
    pub fn requests(&self, api: usize, stream: bool, ending: usize) -> u64 {
        self.sum(|shard| &shard.requests[api][usize::from(stream)][ending])
    }

    /// Number of violations with this code. `action`: index in [`ACTIONS`].
    pub fn violations(&self, code: Code, action: usize) -> u64 {
        self.sum(|shard| &shard.violations[code as usize][action])
    }

    /// Number of repairs. `outcome`: index in [`REPAIRS`].
    pub fn repairs(&self, outcome: usize) -> u64 {
        self.sum(|shard| &shard.repairs[outcome])
    }

    /// Durations of toolmark's own work, per exchange.
    pub fn overhead(&self) -> HistogramSnapshot {
        let mut counted = HistogramSnapshot::default();
        self.shards.iter().for_each(|shard| shard.overhead.add_to(&mut counted));
        counted
    }
}

/// Number of failures in a row from which an upstream counts as failing.
const FAILING: u64 = 3;

/// Readiness of the upstreams: degraded if one of them has failed several times in a row.
pub fn upstreams(metrics: &Metrics) -> PartState {
    let failing = |(name, upstream): &(Box<str>, Arc<UpstreamCounters>)| {
        let failures = upstream.failures.load(Ordering::Relaxed);
        (failures >= FAILING).then(|| format!("`{name}` failed {failures} times in a row"))
    };
    let failing: Vec<String> = metrics.upstreams.all().iter().filter_map(failing).collect();
    if failing.is_empty() { PartState::Ready } else { PartState::Degraded(failing.join("; ")) }
}

/// Outcome of the last repair of an exchange, as an index in [`REPAIRS`].
fn last_repair(record: &ExchangeRecord) -> usize {
    match (record.verdict, ending(record)) {
        (Verdict::Blocked, _) => 2,
        (_, CounterField::Failed | CounterField::Abandoned) => 3,
        (Verdict::Pass | Verdict::Warn | Verdict::Repaired, _) => 0,
    }
}
