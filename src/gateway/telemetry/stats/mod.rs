//! The statistics: totals and rates by tool, model and code and over time, computed from sums. Pure.
//!
//! `GET /api/stats`, the dashboard and `toolmark stats` show the same values.

pub mod aggregate;
pub mod counters;
pub mod failures;
pub mod query;
pub mod rollup;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ledger::{
    record::ExchangeRecord,
    store::{FoundExecution, HourlyRow},
};
use aggregate::{ALL, AggregateKey, Aggregates};
use counters::{CounterField, CounterSet};
use rollup::HOUR_MS;

/// Hours covered by the hourly statistics.
pub const HOURS_SHOWN: u32 = 48;
/// Names in each list at most, the largest first.
pub const NAMES_SHOWN: usize = 100;

/// The sums from which statistics are computed.
#[derive(Clone, Debug, Default)]
pub struct StatsInput {
    rows: BTreeMap<Box<str>, CounterSet>,
    hours: BTreeMap<u32, CounterSet>,
}

impl StatsInput {
    /// Adds up the ledger's hourly rows.
    pub fn of_hours(stored: &[HourlyRow]) -> Self {
        let mut gathered = Self::default();
        for row in stored {
            let Some(sums) = CounterSet::decode(&row.sums) else { continue };
            if &*row.name == ALL {
                gathered.hours.entry(row.hour).or_default().merge(&sums);
            }
            match gathered.rows.get_mut(&row.name) {
                Some(own) => own.merge(&sums),
                None => drop(gathered.rows.insert(row.name.clone(), sums)),
            }
        }
        gathered
    }

    /// Adds up records.
    pub fn of_records<'r>(records: impl IntoIterator<Item = &'r ExchangeRecord>) -> Self {
        let mut sheet = Aggregates::default();
        records.into_iter().for_each(|record| sheet.add(record));
        Self { rows: sheet.rows().map(|(name, sums)| (name.into(), sums.clone())).collect(), hours: BTreeMap::new() }
    }

    fn all(&self) -> CounterSet {
        self.rows.get(ALL).cloned().unwrap_or_default()
    }

    fn of(&self, kind: AggregateKey) -> impl Iterator<Item = (&str, &CounterSet)> {
        self.rows.iter().filter_map(move |(name, sums)| Some((name.strip_prefix(kind.prefix())?, sums)))
    }
}

/// The span of time covered by statistics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeSpan {
    /// Start of the span, in Unix milliseconds.
    pub since_ms: u64,
    /// End of the span, in Unix milliseconds.
    pub until_ms: u64,
    /// True if everything in the span was counted.
    pub complete: bool,
}

/// The statistics of a span of time.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Start of the span, in Unix milliseconds.
    pub since_ms: u64,
    /// End of the span, in Unix milliseconds.
    pub until_ms: u64,
    /// False if the window has more records than are read: the statistics then begin at `since_ms`.
    pub complete: bool,
    /// The totals of all exchanges.
    pub totals: Totals,
    /// The tools, the most called first.
    pub tools: Vec<ToolStats>,
    /// The models, the most used first.
    pub models: Vec<ModelStats>,
    /// The codes, the most frequent first.
    pub codes: Vec<CodeCount>,
    /// Names of called tools that don't exist, the most called first.
    pub invented: Vec<UnknownTool>,
    /// Tools whose last execution failed.
    pub failing: Vec<FailingTool>,
    /// The totals of each hour, the latest last.
    pub hours: Vec<TimeBucket>,
    /// The totals of each day (UTC), the latest last.
    pub days: Vec<TimeBucket>,
}

/// Counts and rates of exchanges.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Exchanges by the way they ended.
    pub endings: EndingCounts,
    /// Blocked exchanges, per thousand exchanges.
    pub blocked_per_1000: f64,
    /// Rejected calls, per thousand exchanges.
    pub rejected_calls_per_1000: f64,
    /// Calls by outcome.
    pub calls: CallCounts,
    /// Number of executions.
    pub executions: u64,
    /// Executions whose result reports a failure.
    pub failed_executions: u64,
    /// The share of successful executions, from 0 to 1; `None` if there were no executions.
    pub success_rate: Option<f64>,
    /// Number of repairs.
    pub repairs: u64,
    /// Number of upstream requests.
    pub attempts: u64,
    /// Tokens of first attempts.
    pub tokens: TokenCounts,
    /// Tokens of all later attempts: the cost of repairs.
    pub repair_tokens: TokenCounts,
    /// toolmark's own time, in microseconds per exchange.
    pub overhead_us_mean: f64,
    /// The upstreams' time, in milliseconds per exchange.
    pub upstream_ms_mean: f64,
    /// Time from the request to the end of its answer; `None` if nothing was counted, as in what versions before this figure stored.
    pub duration_ms: Option<Durations>,
}

/// Exchanges by the way they ended.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct EndingCounts {
    /// Exchanges with verdict `pass`.
    pub pass: u64,
    /// Exchanges with verdict `warn`.
    pub warn: u64,
    /// Exchanges with verdict `repaired`.
    pub repaired: u64,
    /// Exchanges with verdict `blocked`.
    pub blocked: u64,
    /// Exchanges that ended with an error, mostly the upstream's.
    pub failed: u64,
    /// Exchanges whose caller closed the connection.
    pub abandoned: u64,
}

/// Calls by outcome.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct CallCounts {
    /// Calls passed on.
    pub accepted: u64,
    /// Calls rejected for their own violations.
    pub rejected: u64,
    /// Calls withheld with their turn.
    pub withheld: u64,
}

/// Numbers of tokens.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct TokenCounts {
    /// Tokens of prompts.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
}

/// Statistics of one tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolStats {
    /// The tool's name.
    pub tool: Box<str>,
    /// The tool's calls.
    pub calls: CallCounts,
    /// Number of executions.
    pub executions: u64,
    /// Number of failed executions.
    pub failed: u64,
    /// The share of successful executions, from 0 to 1; `None` if there were no executions.
    pub success_rate: Option<f64>,
    /// Time from a call to its result; `None` if there were no executions.
    pub duration_ms: Option<Durations>,
    /// Tokens of the attempts that called the tool, divided among their calls.
    pub tokens: u64,
}

/// Durations of executions or exchanges, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Durations {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
}

/// Statistics of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelStats {
    /// The model's name.
    pub model: Box<str>,
    /// The totals of its exchanges.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Violations with one code, by severity.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CodeCount {
    /// The code.
    pub code: Box<str>,
    /// Violations at `info`.
    pub info: u64,
    /// Violations at `warn`.
    pub warn: u64,
    /// Violations at `block`.
    pub block: u64,
}

/// A called tool that doesn't exist.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct UnknownTool {
    /// The name that the model used.
    pub name: Box<str>,
    /// Number of calls.
    pub calls: u64,
}

/// A tool whose latest execution failed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FailingTool {
    /// The tool's name.
    pub tool: Box<str>,
    /// Number of failures in a row, up to the latest execution.
    pub failures: u64,
    /// Time of the latest failure, in Unix milliseconds.
    pub last_failure_ms: u64,
    /// Time of the latest success, in Unix milliseconds; `None` if there is none in the time examined.
    pub last_success_ms: Option<u64>,
}

/// Totals of one hour or day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeBucket {
    /// Start of the hour or day, in Unix milliseconds.
    pub at_ms: u64,
    /// The totals of its exchanges.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Computes the statistics.
pub fn stats(gathered: &StatsInput, span: TimeSpan, failing: Vec<FailingTool>) -> Stats {
    let mut tools: Vec<ToolStats> = gathered.of(AggregateKey::Tool).map(|(name, sums)| tool(name, sums)).collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.calls.accepted + tool.calls.rejected + tool.calls.withheld + tool.executions));
    let mut models: Vec<ModelStats> =
        gathered.of(AggregateKey::Model).map(|(name, sums)| ModelStats { model: name.into(), totals: totals(sums) }).collect();
    models.sort_by_key(|model| std::cmp::Reverse(model.totals.exchanges));
    let mut codes: Vec<CodeCount> = gathered.of(AggregateKey::Code).map(|(code, sums)| code_count(code, sums)).collect();
    codes.sort_by_key(|code| std::cmp::Reverse(code.info + code.warn + code.block));
    let invention = |(name, sums): (&str, &CounterSet)| UnknownTool { name: name.into(), calls: sums.of(CounterField::Invented) };
    let mut invented: Vec<UnknownTool> = gathered.of(AggregateKey::Invented).map(invention).collect();
    invented.sort_by_key(|invented| std::cmp::Reverse(invented.calls));
    tools.truncate(NAMES_SHOWN);
    models.truncate(NAMES_SHOWN);
    invented.truncate(NAMES_SHOWN);
    let mut days: BTreeMap<u32, CounterSet> = BTreeMap::new();
    for (hour, sums) in &gathered.hours {
        days.entry(hour / 24).or_default().merge(sums);
    }
    let first = u32::try_from(span.until_ms / HOUR_MS).unwrap_or(u32::MAX).saturating_sub(HOURS_SHOWN);
    let course = |(at, sums): (&u32, &CounterSet), hours: u64| TimeBucket { at_ms: u64::from(*at) * hours * HOUR_MS, totals: totals(sums) };
    Stats {
        since_ms: span.since_ms,
        until_ms: span.until_ms,
        complete: span.complete,
        totals: totals(&gathered.all()),
        tools,
        models,
        codes,
        invented,
        failing,
        hours: gathered.hours.range(first..).map(|hour| course(hour, 1)).collect(),
        days: days.iter().map(|day| course(day, 24)).collect(),
    }
}

/// Tools whose latest execution failed. `latest`: executions, the newest first.
pub fn failing(latest: &[FoundExecution]) -> Vec<FailingTool> {
    let mut tools: BTreeMap<&str, (FailingTool, bool)> = BTreeMap::new();
    for FoundExecution { execution, .. } in latest {
        let new = || {
            let tool = execution.tool.clone();
            (FailingTool { tool, failures: 0, last_failure_ms: execution.seen_ms, last_success_ms: None }, false)
        };
        let (failing, ended) = tools.entry(&execution.tool).or_insert_with(new);
        if execution.failed {
            failing.failures += u64::from(!*ended);
        } else if !*ended {
            (*ended, failing.last_success_ms) = (true, Some(execution.seen_ms));
        }
    }
    let mut failing: Vec<FailingTool> = tools.into_values().map(|(failing, _)| failing).filter(|failing| failing.failures > 0).collect();
    failing.sort_by_key(|failing| std::cmp::Reverse(failing.failures));
    failing
}

fn totals(sums: &CounterSet) -> Totals {
    let of = |field| sums.of(field);
    let exchanges = of(CounterField::Exchanges);
    Totals {
        exchanges,
        endings: EndingCounts {
            pass: of(CounterField::Pass),
            warn: of(CounterField::Warn),
            repaired: of(CounterField::Repaired),
            blocked: of(CounterField::Blocked),
            failed: of(CounterField::Failed),
            abandoned: of(CounterField::Abandoned),
        },
        blocked_per_1000: ratio(of(CounterField::Blocked) * 1000, exchanges),
        rejected_calls_per_1000: ratio(of(CounterField::Rejected) * 1000, exchanges),
        calls: calls(sums),
        executions: of(CounterField::Executions),
        failed_executions: of(CounterField::FailedExecutions),
        success_rate: success_rate(sums),
        repairs: of(CounterField::Repairs),
        attempts: of(CounterField::Attempts),
        tokens: TokenCounts { input: of(CounterField::InputFirst), output: of(CounterField::OutputFirst) },
        repair_tokens: TokenCounts { input: of(CounterField::InputRepair), output: of(CounterField::OutputRepair) },
        overhead_us_mean: ratio(of(CounterField::OverheadUs), exchanges),
        upstream_ms_mean: ratio(of(CounterField::UpstreamUs) / 1000, exchanges),
        duration_ms: durations(sums),
    }
}

fn calls(sums: &CounterSet) -> CallCounts {
    CallCounts {
        accepted: sums.of(CounterField::Accepted),
        rejected: sums.of(CounterField::Rejected),
        withheld: sums.of(CounterField::Withheld),
    }
}

fn success_rate(sums: &CounterSet) -> Option<f64> {
    let executions = sums.of(CounterField::Executions);
    (executions > 0).then(|| ratio(executions.saturating_sub(sums.of(CounterField::FailedExecutions)), executions))
}

fn tool(name: &str, sums: &CounterSet) -> ToolStats {
    ToolStats {
        tool: name.into(),
        calls: calls(sums),
        executions: sums.of(CounterField::Executions),
        failed: sums.of(CounterField::FailedExecutions),
        success_rate: success_rate(sums),
        duration_ms: durations(sums),
        tokens: sums.of(CounterField::Tokens),
    }
}

fn durations(sums: &CounterSet) -> Option<Durations> {
    let percentile = |share| sums.percentile_ms(share);
    let mean = ratio(sums.of(CounterField::DurationMs), sums.durations());
    Some(Durations { mean, p50: percentile(0.5)?, p90: percentile(0.9)?, p99: percentile(0.99)? })
}

fn code_count(code: &str, sums: &CounterSet) -> CodeCount {
    CodeCount {
        code: code.into(),
        info: sums.of(CounterField::Info),
        warn: sums.of(CounterField::Warned),
        block: sums.of(CounterField::BlockedOn),
    }
}

/// Quotient rounded to four decimals; 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1e4).round() / 1e4 }
}

#[cfg(test)]
pub(crate) mod tests;
