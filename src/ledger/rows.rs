//! What is written beside a record, so that it can be found: derived from the record alone, and checked against it.

use uuid::Uuid;

use super::record::{Digest, ExchangeRecord};
use crate::judge::marks::ExecutionId;

/// What tells one execution from another: the time and the last 16 hex digits of its ID.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ExecutionKey {
    /// When the call was let through, in Unix milliseconds.
    pub started_ms: u64,
    /// Counter and MAC.
    pub tail: u64,
}

impl ExecutionKey {
    /// Of an execution ID; `None` for anything else.
    pub fn of(id: &str) -> Option<Self> {
        let id = ExecutionId::parse(id)?;
        Some(Self { started_ms: id.moment().time_ms, tail: id.tail() })
    }

    /// As databases hold it, which know no unsigned numbers; the order by time stays.
    pub fn signed(self) -> (i64, i64) {
        (self.started_ms as i64, self.tail as i64)
    }
}

/// Where an execution is recorded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExecutionRow {
    /// Which.
    pub key: ExecutionKey,
    /// Whose record.
    pub writer: u32,
    /// Which of them.
    pub sequence: u64,
    /// Which of the record's executions.
    pub place: u32,
    /// The tool.
    pub tool: Box<str>,
    /// The session.
    pub session: Option<Box<str>>,
    /// The result's digest.
    pub result: Digest,
}

/// Where a violation is recorded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ViolationRow {
    /// Whose record.
    pub writer: u32,
    /// Which of them.
    pub sequence: u64,
    /// Which of the record's violations.
    pub place: u32,
    /// When the exchange ended, in Unix milliseconds.
    pub ended_ms: u64,
    /// The code.
    pub code: Box<str>,
    /// The tool.
    pub tool: Option<Box<str>>,
    /// The model asked for.
    pub model: Box<str>,
}

/// All that is written beside one record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rows {
    /// The exchange.
    pub exchange: Uuid,
    /// When it ended, in Unix milliseconds.
    pub ended_ms: u64,
    /// Its executions.
    pub executions: Vec<ExecutionRow>,
    /// Its violations.
    pub violations: Vec<ViolationRow>,
}

impl Rows {
    /// What belongs beside this record.
    pub fn of(record: &ExchangeRecord, writer: u32, sequence: u64) -> Self {
        let ended_ms = record.ended_ms();
        let executions = record.executions.iter().zip(0..).filter_map(|(execution, place)| {
            let key = ExecutionKey::of(&execution.id)?;
            let (tool, session) = (plain(&execution.tool), record.session.as_deref().map(plain));
            Some(ExecutionRow { key, writer, sequence, place, tool, session, result: execution.result })
        });
        let violations = record.violations.iter().zip(0..).map(|(violation, place)| ViolationRow {
            writer,
            sequence,
            place,
            ended_ms,
            code: violation.code.as_str().into(),
            tool: violation.tool.as_deref().map(plain),
            model: plain(&record.model),
        });
        Self { exchange: record.id, ended_ms, executions: executions.collect(), violations: violations.collect() }
    }
}

/// A text as every database takes it: PostgreSQL knows no NUL in one.
pub fn plain(text: &str) -> Box<str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
