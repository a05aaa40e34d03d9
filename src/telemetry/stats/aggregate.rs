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

use std::collections::BTreeMap;

use crate::{
    ledger::record::{CallOutcome, CallRecord, ExchangeRecord},
    telemetry::stats::counters::{Field, Sums},
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
pub enum Kind {
    /// A model.
    Model,
    /// A tool.
    Tool,
    /// A violation's code.
    Code,
    /// The name of a tool that doesn't exist.
    Invented,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Model, Self::Tool, Self::Code, Self::Invented];

    /// Prefix of the rows' names.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Model => "m:",
            Self::Tool => "t:",
            Self::Code => "c:",
            Self::Invented => "i:",
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Row {
    sums: Sums,
    changed: bool,
}

/// Sums of records, one row per name.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Limit of rows of one kind.
    rows_max: usize,
    rows: Vec<Row>,
    /// Index of each name's row.
    places: BTreeMap<Box<str>, usize>,
    /// Number of rows of each kind.
    counts: [usize; Kind::ALL.len()],
    /// Buffer for a row's name during a lookup.
    name: String,
}

impl Default for Sheet {
    fn default() -> Self {
        Self { rows_max: ROWS_MAX, rows: Vec::new(), places: BTreeMap::new(), counts: Default::default(), name: String::new() }
    }
}

impl Sheet {
    /// A sheet of few records, to be merged into another one that applies the limit of rows.
    pub fn apart() -> Self {
        Self { rows_max: 4 * ROWS_MAX, ..Self::default() }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &ExchangeRecord) {
        let whole = of_exchange(record);
        self.of(None, ALL).merge(&whole);
        self.of(Some(Kind::Model), &record.model).merge(&whole);
        for call in &record.calls {
            match invented(call) {
                true => self.of(Some(Kind::Invented), &call.tool).add(Field::Invented, 1),
                false => self.of(Some(Kind::Tool), &call.tool).add(outcome(call), 1),
            }
        }
        for (tool, tokens) in tokens_by_tool(record) {
            self.of(Some(Kind::Tool), tool).add(Field::Tokens, tokens);
        }
        for execution in &record.executions {
            let row = self.of(Some(Kind::Tool), &execution.tool);
            row.add(Field::Executions, 1);
            row.add(Field::FailedExecutions, u64::from(execution.failed));
            row.add_duration(execution.duration_ms());
        }
        for violation in &record.violations {
            self.of(Some(Kind::Code), violation.code.as_str()).add(severity(violation.severity), 1);
        }
    }

    /// Adds a row of another sheet.
    pub fn merge(&mut self, name: &str, sums: &Sums) {
        let kind = Kind::ALL.into_iter().find(|kind| name.starts_with(kind.prefix()));
        let name = kind.map_or(name, |kind| &name[kind.prefix().len()..]);
        self.of(kind, name).merge(sums);
    }

    /// Adds a stored row, and marks all rows as unchanged.
    pub fn restore(&mut self, name: &str, sums: &Sums) {
        self.merge(name, sums);
        self.rows.iter_mut().for_each(|row| row.changed = false);
    }

    /// The rows that changed since the last call.
    pub fn changed(&mut self) -> Vec<(Box<str>, Sums)> {
        let mut changed = Vec::new();
        for (name, at) in &self.places {
            let row = &mut self.rows[*at];
            if std::mem::take(&mut row.changed) {
                changed.push((name.clone(), row.sums.clone()));
            }
        }
        changed
    }

    /// All rows, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Sums)> {
        self.places.iter().map(|(name, at)| (&**name, &self.rows[*at].sums))
    }

    fn of(&mut self, kind: Option<Kind>, name: &str) -> &mut Sums {
        let mut full = std::mem::take(&mut self.name);
        full.clear();
        full.push_str(kind.map_or("", Kind::prefix));
        full.push_str(name);
        if !self.places.contains_key(&*full) {
            match kind.and_then(|kind| self.counts.get_mut(kind as usize)) {
                // The row of further names doesn't count towards the limit.
                _ if name == OTHER => {}
                Some(count) if *count >= self.rows_max => {
                    full.truncate(kind.map_or("", Kind::prefix).len());
                    full.push_str(OTHER);
                }
                Some(count) => *count += 1,
                None => {}
            }
        }
        let at = match self.places.get(&*full) {
            Some(at) => *at,
            None => {
                self.places.insert(full.as_str().into(), self.rows.len());
                self.rows.push(Row::default());
                self.rows.len() - 1
            }
        };
        self.name = full;
        let row = &mut self.rows[at];
        row.changed = true;
        &mut row.sums
    }
}

/// True for a call of a tool that doesn't exist.
pub fn invented(call: &CallRecord) -> bool {
    call.violations.contains(&Code::UnknownTool)
}

fn outcome(call: &CallRecord) -> Field {
    match call.outcome {
        CallOutcome::Accepted => Field::Accepted,
        CallOutcome::Rejected => Field::Rejected,
        CallOutcome::Withheld => Field::Withheld,
    }
}

fn severity(severity: Severity) -> Field {
    match severity {
        Severity::Off | Severity::Info => Field::Info,
        Severity::Warn => Field::Warned,
        Severity::Block => Field::BlockedOn,
    }
}

fn of_exchange(record: &ExchangeRecord) -> Sums {
    let mut sums = Sums::with_room();
    sums.add(Field::Exchanges, 1);
    sums.add(ending(record), 1);
    sums.add(Field::Repairs, u64::from(record.repairs));
    sums.add(Field::Attempts, record.attempts.len() as u64);
    sums.add(Field::OverheadUs, record.overhead_us());
    sums.add(Field::UpstreamUs, record.upstream_us);
    // An upstream without a response cost no tokens, and the request to the next upstream isn't a repair.
    for (number, tokens) in record.attempts.iter().filter_map(|attempt| attempt.tokens).enumerate() {
        let (input, output) = if number == 0 { (Field::InputFirst, Field::OutputFirst) } else { (Field::InputRepair, Field::OutputRepair) };
        sums.add(input, tokens.input);
        sums.add(output, tokens.output);
    }
    record.calls.iter().for_each(|call| sums.add(outcome(call), 1));
    sums.add(Field::Executions, record.executions.len() as u64);
    sums.add(Field::FailedExecutions, record.executions.iter().filter(|execution| execution.failed).count() as u64);
    for violation in &record.violations {
        sums.add(severity(violation.severity), 1);
    }
    sums
}

/// The way an exchange ended, as a field to count.
pub fn ending(record: &ExchangeRecord) -> Field {
    match (record.verdict, record.status) {
        (Verdict::Blocked, _) => Field::Blocked,
        (_, None) => Field::Abandoned,
        (_, Some(400..)) => Field::Failed,
        (Verdict::Pass, _) => Field::Pass,
        (Verdict::Warn, _) => Field::Warn,
        (Verdict::Repaired, _) => Field::Repaired,
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
