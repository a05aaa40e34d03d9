//! Sums of records by name: a sheet has one row of sums per name. Pure; used both for an hour of the ledger and for a window
//! of the latest records.
//!
//! | row | of |
//! |---|---|
//! | `all` | everything |
//! | `m:MODEL` | exchanges with this model |
//! | `t:TOOL` | calls and executions of this tool |
//! | `c:CODE` | violations with this code |
//! | `i:NAME` | calls of a tool that doesn't exist |
//! | `tc:CODE TOOL` | violations with this code in what this tool has to do with |
//! | `mc:CODE MODEL` | violations with this code in exchanges with this model |

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::{
    ledger::record::{CallOutcome, CallRecord, ExchangeRecord},
    telemetry::stats::counters::{CounterField, CounterSet},
    violation::{Code, Severity, Verdict},
};

/// Rows of one kind on a sheet, at most. Models and clients choose the names; further ones are counted as [`OTHER`].
pub const ROWS_MAX: usize = 500;
/// The name under which all further names are counted.
pub const OTHER: &str = "other";
/// The name of the row that counts everything.
pub const ALL: &str = "all";

/// Kind of a row's name.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum AggregateKey {
    /// A model.
    Model,
    /// A tool.
    Tool,
    /// A violation's code.
    Code,
    /// The name of a tool that doesn't exist.
    Invented,
    /// A code and a tool.
    ToolCode,
    /// A code and a model.
    ModelCode,
}

impl AggregateKey {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Model, Self::Tool, Self::Code, Self::Invented, Self::ToolCode, Self::ModelCode];

    /// Prefix of the rows' names.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Model => "m:",
            Self::Tool => "t:",
            Self::Code => "c:",
            Self::Invented => "i:",
            Self::ToolCode => "tc:",
            Self::ModelCode => "mc:",
        }
    }
}

#[derive(Clone, Debug, Default)]
struct AggregateRow {
    sums: CounterSet,
    changed: bool,
}

/// Sums of records, one row per name.
#[derive(Clone, Debug)]
pub struct Aggregates {
    /// Limit of rows of one kind.
    rows_max: usize,
    rows: Vec<AggregateRow>,
    /// Index of each name's row.
    places: HashMap<Box<str>, usize, RandomState>,
    /// Number of rows of each kind.
    counts: [usize; AggregateKey::ALL.len()],
    /// Buffer for a row's name during a lookup.
    name: String,
}

impl Default for Aggregates {
    fn default() -> Self {
        Self { rows_max: ROWS_MAX, rows: Vec::new(), places: HashMap::default(), counts: Default::default(), name: String::new() }
    }
}

impl Aggregates {
    /// A sheet of few records, to be merged into another one that applies the limit of rows.
    pub fn apart() -> Self {
        Self { rows_max: 4 * ROWS_MAX, ..Self::default() }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &ExchangeRecord) {
        let whole = of_exchange(record);
        self.of(None, ALL).merge(&whole);
        self.of(Some(AggregateKey::Model), &record.model).merge(&whole);
        for call in &record.calls {
            match invented(call) {
                true => self.of(Some(AggregateKey::Invented), &call.tool).add(CounterField::Invented, 1),
                false => self.of(Some(AggregateKey::Tool), &call.tool).add(outcome(call), 1),
            }
        }
        for (tool, tokens) in tokens_by_tool(record) {
            self.of(Some(AggregateKey::Tool), tool).add(CounterField::Tokens, tokens);
        }
        for execution in &record.executions {
            let row = self.of(Some(AggregateKey::Tool), &execution.tool);
            row.add(CounterField::Executions, 1);
            row.add(CounterField::FailedExecutions, u64::from(execution.failed));
            row.add_duration(execution.duration_ms());
        }
        for violation in &record.violations {
            let (code, field) = (violation.code.as_str(), severity(violation.severity));
            self.of(Some(AggregateKey::Code), code).add(field, 1);
            self.of_parts(Some(AggregateKey::ModelCode), &[code, " ", &record.model]).add(field, 1);
            if let Some(tool) = &violation.tool {
                self.of_parts(Some(AggregateKey::ToolCode), &[code, " ", tool]).add(field, 1);
            }
        }
    }

    /// Adds a row of another sheet.
    pub fn merge(&mut self, name: &str, sums: &CounterSet) {
        let kind = AggregateKey::ALL.into_iter().find(|kind| name.starts_with(kind.prefix()));
        let name = kind.map_or(name, |kind| &name[kind.prefix().len()..]);
        self.of(kind, name).merge(sums);
    }

    /// Adds a stored row, and marks all rows as unchanged.
    pub fn restore(&mut self, name: &str, sums: &CounterSet) {
        self.merge(name, sums);
        self.rows.iter_mut().for_each(|row| row.changed = false);
    }

    /// The rows that changed since the last call, by name.
    pub fn changed(&mut self) -> Vec<(Box<str>, CounterSet)> {
        let mut changed = Vec::new();
        for (name, at) in &self.places {
            let row = &mut self.rows[*at];
            if std::mem::take(&mut row.changed) {
                changed.push((name.clone(), row.sums.clone()));
            }
        }
        changed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        changed
    }

    /// All rows, with their names.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &CounterSet)> {
        self.places.iter().map(|(name, at)| (&**name, &self.rows[*at].sums))
    }

    fn of(&mut self, kind: Option<AggregateKey>, name: &str) -> &mut CounterSet {
        self.of_parts(kind, &[name])
    }

    /// The row whose name is put together from these parts.
    fn of_parts(&mut self, kind: Option<AggregateKey>, parts: &[&str]) -> &mut CounterSet {
        let prefix = kind.map_or("", AggregateKey::prefix);
        let mut full = std::mem::take(&mut self.name);
        full.clear();
        full.push_str(prefix);
        parts.iter().for_each(|part| full.push_str(part));
        let at = self.places.get(&*full).copied().unwrap_or_else(|| self.insert(kind, &mut full));
        self.name = full;
        let row = &mut self.rows[at];
        row.changed = true;
        &mut row.sums
    }

    /// Index of the row of a name that has none yet: a new one, or that of further names, by which `full` is replaced.
    fn insert(&mut self, kind: Option<AggregateKey>, full: &mut String) -> usize {
        let prefix = kind.map_or("", AggregateKey::prefix);
        match kind.and_then(|kind| self.counts.get_mut(kind as usize)) {
            // The row of further names doesn't count towards the limit.
            _ if full.get(prefix.len()..) == Some(OTHER) => {}
            Some(count) if *count >= self.rows_max => {
                full.truncate(prefix.len());
                full.push_str(OTHER);
            }
            Some(count) => *count += 1,
            None => {}
        }
        *self.places.entry(full.as_str().into()).or_insert_with(|| {
            self.rows.push(AggregateRow::default());
            self.rows.len() - 1
        })
    }
}

/// True for a call of a tool that doesn't exist.
pub fn invented(call: &CallRecord) -> bool {
    call.violations.contains(&Code::UnknownTool)
}

fn outcome(call: &CallRecord) -> CounterField {
    match call.outcome {
        CallOutcome::Accepted => CounterField::Accepted,
        CallOutcome::Rejected => CounterField::Rejected,
        CallOutcome::Withheld => CounterField::Withheld,
    }
}

fn severity(severity: Severity) -> CounterField {
    match severity {
        Severity::Off | Severity::Info => CounterField::Info,
        Severity::Warn => CounterField::Warned,
        Severity::Block => CounterField::BlockedOn,
    }
}

fn of_exchange(record: &ExchangeRecord) -> CounterSet {
    let mut sums = CounterSet::with_room();
    sums.add(CounterField::Exchanges, 1);
    sums.add(ending(record), 1);
    sums.add(CounterField::Repairs, u64::from(record.repairs));
    sums.add(CounterField::Attempts, record.attempts.len() as u64);
    sums.add(CounterField::OverheadUs, record.overhead_us());
    sums.add(CounterField::UpstreamUs, record.upstream_us);
    sums.add_duration(record.total_us / 1000);
    // An upstream without a response cost no tokens, and the request to the next upstream isn't a repair.
    for (number, tokens) in record.attempts.iter().filter_map(|attempt| attempt.tokens).enumerate() {
        let (input, output) = if number == 0 {
            (CounterField::InputFirst, CounterField::OutputFirst)
        } else {
            (CounterField::InputRepair, CounterField::OutputRepair)
        };
        sums.add(input, tokens.input);
        sums.add(output, tokens.output);
    }
    record.calls.iter().for_each(|call| sums.add(outcome(call), 1));
    sums.add(CounterField::Executions, record.executions.len() as u64);
    sums.add(CounterField::FailedExecutions, record.executions.iter().filter(|execution| execution.failed).count() as u64);
    for violation in &record.violations {
        sums.add(severity(violation.severity), 1);
    }
    sums
}

/// The way an exchange ended, as a field to count.
pub fn ending(record: &ExchangeRecord) -> CounterField {
    match (record.verdict, record.status) {
        (Verdict::Blocked, _) => CounterField::Blocked,
        (_, None) => CounterField::Abandoned,
        (_, Some(400..)) => CounterField::Failed,
        (Verdict::Pass, _) => CounterField::Pass,
        (Verdict::Warn, _) => CounterField::Warn,
        (Verdict::Repaired, _) => CounterField::Repaired,
    }
}

/// Tokens by tool: the tokens of an attempt are divided equally among its calls, and the remainder goes to the first ones.
/// Calls of unknown tools get a share too, but it is counted for no tool.
fn tokens_by_tool(record: &ExchangeRecord) -> Vec<(&str, u64)> {
    let mut costs = Vec::new();
    for (number, attempt) in (1_u32..).zip(&record.attempts) {
        let Some(tokens) = attempt.tokens else { continue };
        let calls: Vec<&CallRecord> = record.calls.iter().filter(|call| call.attempt == number).collect();
        let total = tokens.input.saturating_add(tokens.output);
        let count = calls.len() as u64;
        for (at, call) in (0_u64..).zip(calls) {
            if !invented(call) {
                costs.push((&*call.tool, total / count + u64::from(at < total % count)));
            }
        }
    }
    costs
}
