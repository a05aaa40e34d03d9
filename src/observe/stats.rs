//! The statistics: totals and rates per tool, model and code and over time, made of sums. Pure.
//!
//! `GET /api/stats`, the dashboard and `toolmark stats` show the same values.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    rollup::HOUR_MS,
    sheet::{ALL, Kind, Sheet},
    sums::{Field, Sums},
};
use crate::ledger::{
    record::ExchangeRecord,
    store::{FoundExecution, HourRow},
};

/// Hours that the course over time goes back.
pub const HOURS_SHOWN: u32 = 48;
/// Names that each list has at most, the largest first.
pub const NAMES_SHOWN: usize = 100;

/// Sums gathered for statistics.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    rows: BTreeMap<Box<str>, Sums>,
    hours: BTreeMap<u32, Sums>,
}

impl Gathered {
    /// From the ledger's hourly rows.
    pub fn of_hours(stored: &[HourRow]) -> Self {
        let mut gathered = Self::default();
        for row in stored {
            let Some(sums) = Sums::decode(&row.sums) else { continue };
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

    /// From records.
    pub fn of_records<'r>(records: impl IntoIterator<Item = &'r ExchangeRecord>) -> Self {
        let mut sheet = Sheet::default();
        records.into_iter().for_each(|record| sheet.add(record));
        Self { rows: sheet.rows().map(|(name, sums)| (name.into(), sums.clone())).collect(), hours: BTreeMap::new() }
    }

    fn all(&self) -> Sums {
        self.rows.get(ALL).cloned().unwrap_or_default()
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = (&str, &Sums)> {
        self.rows.iter().filter_map(move |(name, sums)| Some((name.strip_prefix(kind.prefix())?, sums)))
    }
}

/// Which time statistics are of, in Unix milliseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// From here on.
    pub since_ms: u64,
    /// Until now.
    pub until_ms: u64,
    /// All of it was looked at.
    pub complete: bool,
}

/// The statistics of a span of time.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// From here on, in Unix milliseconds.
    pub since_ms: u64,
    /// Until here.
    pub until_ms: u64,
    /// False where there was more in the window than is looked at: `since_ms` then says how far back it goes.
    pub complete: bool,
    /// Everything together.
    pub totals: Totals,
    /// Tools, the most called first.
    pub tools: Vec<Tool>,
    /// Models, the most used first.
    pub models: Vec<Model>,
    /// Codes, the most frequent first.
    pub codes: Vec<CodeCount>,
    /// Names of tools that don't exist, the most called first.
    pub invented: Vec<Invented>,
    /// Tools whose last execution failed.
    pub failing: Vec<Failing>,
    /// Hour by hour, the latest last.
    pub hours: Vec<Course>,
    /// Day by day (UTC), the latest last.
    pub days: Vec<Course>,
}

/// Counts and rates of exchanges.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Exchanges.
    pub exchanges: u64,
    /// By how they ended.
    pub endings: Endings,
    /// Exchanges that were blocked, of a thousand.
    pub blocked_per_1000: f64,
    /// Calls rejected, per thousand exchanges.
    pub rejected_calls_per_1000: f64,
    /// Calls.
    pub calls: Calls,
    /// Executions.
    pub executions: u64,
    /// Of those, with a result that reports a failure.
    pub failed_executions: u64,
    /// The share of executions that didn't fail; `None` where there were none.
    pub success_rate: Option<f64>,
    /// Repairs made.
    pub repairs: u64,
    /// Upstream requests.
    pub attempts: u64,
    /// Tokens of first attempts.
    pub tokens: Tokens,
    /// Tokens of all later attempts: what repairs cost.
    pub repair_tokens: Tokens,
    /// What toolmark itself took, in microseconds per exchange.
    pub overhead_us_mean: f64,
    /// What upstreams took, in milliseconds per exchange.
    pub upstream_ms_mean: f64,
}

/// Exchanges by how they ended.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Endings {
    /// Nothing to object to.
    pub pass: u64,
    /// Something at `warn`.
    pub warn: u64,
    /// The model mended it.
    pub repaired: u64,
    /// Refused or replaced.
    pub blocked: u64,
    /// An error, mostly of the upstream's.
    pub failed: u64,
    /// The caller went away.
    pub abandoned: u64,
}

/// Calls by what became of them.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Calls {
    /// Passed on.
    pub accepted: u64,
    /// Not, for what was wrong with them.
    pub rejected: u64,
    /// Held back with their turn.
    pub withheld: u64,
}

/// Tokens.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Tokens {
    /// Of prompts.
    pub input: u64,
    /// Of answers.
    pub output: u64,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tool {
    /// Its name.
    pub tool: Box<str>,
    /// Its calls.
    pub calls: Calls,
    /// Its executions.
    pub executions: u64,
    /// Of those, failed.
    pub failed: u64,
    /// The share that didn't; `None` where there were none.
    pub success_rate: Option<f64>,
    /// From a call to its result; `None` where there were none.
    pub duration_ms: Option<Durations>,
    /// Tokens of the attempts that called it.
    pub tokens: u64,
}

/// How long executions took, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Durations {
    /// On average.
    pub mean: f64,
    /// Half of them.
    pub p50: u64,
    /// Nine of ten.
    pub p90: u64,
    /// All but one of a hundred.
    pub p99: u64,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// Its name.
    pub model: Box<str>,
    /// Its exchanges.
    #[serde(flatten)]
    pub totals: Totals,
}

/// A violation's code.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CodeCount {
    /// The code.
    pub code: Box<str>,
    /// At `info`.
    pub info: u64,
    /// At `warn`.
    pub warn: u64,
    /// At `block`.
    pub block: u64,
}

/// A tool that doesn't exist.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Invented {
    /// As the model named it.
    pub name: Box<str>,
    /// So often.
    pub calls: u64,
}

/// A tool that fails now.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Failing {
    /// The tool.
    pub tool: Box<str>,
    /// Failures in a row, up to the latest.
    pub failures: u64,
    /// The latest, in Unix milliseconds.
    pub last_failure_ms: u64,
    /// The latest success within the time looked at.
    pub last_success_ms: Option<u64>,
}

/// An hour or a day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Course {
    /// When it begins, in Unix milliseconds.
    pub at_ms: u64,
    /// What happened in it.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Makes the statistics.
pub fn stats(gathered: &Gathered, span: Span, failing: Vec<Failing>) -> Stats {
    let mut tools: Vec<Tool> = gathered.of(Kind::Tool).map(|(name, sums)| tool(name, sums)).collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.calls.accepted + tool.calls.rejected + tool.calls.withheld + tool.executions));
    let mut models: Vec<Model> = gathered.of(Kind::Model).map(|(name, sums)| Model { model: name.into(), totals: totals(sums) }).collect();
    models.sort_by_key(|model| std::cmp::Reverse(model.totals.exchanges));
    let mut codes: Vec<CodeCount> = gathered.of(Kind::Code).map(|(code, sums)| code_count(code, sums)).collect();
    codes.sort_by_key(|code| std::cmp::Reverse(code.info + code.warn + code.block));
    let invention = |(name, sums): (&str, &Sums)| Invented { name: name.into(), calls: sums.of(Field::Invented) };
    let mut invented: Vec<Invented> = gathered.of(Kind::Invented).map(invention).collect();
    invented.sort_by_key(|invented| std::cmp::Reverse(invented.calls));
    tools.truncate(NAMES_SHOWN);
    models.truncate(NAMES_SHOWN);
    invented.truncate(NAMES_SHOWN);
    let mut days: BTreeMap<u32, Sums> = BTreeMap::new();
    for (hour, sums) in &gathered.hours {
        days.entry(hour / 24).or_default().merge(sums);
    }
    let first = u32::try_from(span.until_ms / HOUR_MS).unwrap_or(u32::MAX).saturating_sub(HOURS_SHOWN);
    let course = |(at, sums): (&u32, &Sums), hours: u64| Course { at_ms: u64::from(*at) * hours * HOUR_MS, totals: totals(sums) };
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
pub fn failing(latest: &[FoundExecution]) -> Vec<Failing> {
    let mut tools: BTreeMap<&str, (Failing, bool)> = BTreeMap::new();
    for FoundExecution { execution, .. } in latest {
        let new = || {
            let tool = execution.tool.clone();
            (Failing { tool, failures: 0, last_failure_ms: execution.seen_ms, last_success_ms: None }, false)
        };
        let (failing, ended) = tools.entry(&execution.tool).or_insert_with(new);
        if execution.failed {
            failing.failures += u64::from(!*ended);
        } else if !*ended {
            (*ended, failing.last_success_ms) = (true, Some(execution.seen_ms));
        }
    }
    let mut failing: Vec<Failing> = tools.into_values().map(|(failing, _)| failing).filter(|failing| failing.failures > 0).collect();
    failing.sort_by_key(|failing| std::cmp::Reverse(failing.failures));
    failing
}

fn totals(sums: &Sums) -> Totals {
    let of = |field| sums.of(field);
    let exchanges = of(Field::Exchanges);
    Totals {
        exchanges,
        endings: Endings {
            pass: of(Field::Pass),
            warn: of(Field::Warn),
            repaired: of(Field::Repaired),
            blocked: of(Field::Blocked),
            failed: of(Field::Failed),
            abandoned: of(Field::Abandoned),
        },
        blocked_per_1000: ratio(of(Field::Blocked) * 1000, exchanges),
        rejected_calls_per_1000: ratio(of(Field::Rejected) * 1000, exchanges),
        calls: calls(sums),
        executions: of(Field::Executions),
        failed_executions: of(Field::FailedExecutions),
        success_rate: success_rate(sums),
        repairs: of(Field::Repairs),
        attempts: of(Field::Attempts),
        tokens: Tokens { input: of(Field::InputFirst), output: of(Field::OutputFirst) },
        repair_tokens: Tokens { input: of(Field::InputRepair), output: of(Field::OutputRepair) },
        overhead_us_mean: ratio(of(Field::OverheadUs), exchanges),
        upstream_ms_mean: ratio(of(Field::UpstreamUs) / 1000, exchanges),
    }
}

fn calls(sums: &Sums) -> Calls {
    Calls { accepted: sums.of(Field::Accepted), rejected: sums.of(Field::Rejected), withheld: sums.of(Field::Withheld) }
}

fn success_rate(sums: &Sums) -> Option<f64> {
    let executions = sums.of(Field::Executions);
    (executions > 0).then(|| ratio(executions.saturating_sub(sums.of(Field::FailedExecutions)), executions))
}

fn tool(name: &str, sums: &Sums) -> Tool {
    let percentile = |share| sums.percentile_ms(share);
    let mean = ratio(sums.of(Field::DurationMs), sums.of(Field::Executions));
    let durations = || Some(Durations { mean, p50: percentile(0.5)?, p90: percentile(0.9)?, p99: percentile(0.99)? });
    Tool {
        tool: name.into(),
        calls: calls(sums),
        executions: sums.of(Field::Executions),
        failed: sums.of(Field::FailedExecutions),
        success_rate: success_rate(sums),
        duration_ms: durations(),
        tokens: sums.of(Field::Tokens),
    }
}

fn code_count(code: &str, sums: &Sums) -> CodeCount {
    CodeCount { code: code.into(), info: sums.of(Field::Info), warn: sums.of(Field::Warned), block: sums.of(Field::BlockedOn) }
}

/// To four decimals; 0 of nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1e4).round() / 1e4 }
}

#[cfg(test)]
#[path = "stats_tests.rs"]
pub(crate) mod tests;
