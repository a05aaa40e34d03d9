//! What is written beside a record, so that it can be found: derived from the record alone, and checked against it.

use std::borrow::Cow;

use uuid::Uuid;

use super::{
    record::{Digest, ExchangeRecord},
    store::StoreError,
    stored,
};
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
pub struct ExecutionRow<'r> {
    /// Which.
    pub key: ExecutionKey,
    /// Whose record.
    pub writer: u32,
    /// Which of them.
    pub sequence: u64,
    /// Which of the record's executions.
    pub place: u32,
    /// The tool.
    pub tool: Cow<'r, str>,
    /// The session.
    pub session: Option<Cow<'r, str>>,
    /// The result's digest.
    pub result: Digest,
}

/// Where a violation is recorded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ViolationRow<'r> {
    /// Whose record.
    pub writer: u32,
    /// Which of them.
    pub sequence: u64,
    /// Which of the record's violations.
    pub place: u32,
    /// When the exchange ended, in Unix milliseconds.
    pub ended_ms: u64,
    /// The code.
    pub code: Cow<'r, str>,
    /// The tool.
    pub tool: Option<Cow<'r, str>>,
    /// The model asked for.
    pub model: Cow<'r, str>,
}

/// All that is written beside one record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rows<'r> {
    /// The exchange.
    pub exchange: Uuid,
    /// When it ended, in Unix milliseconds.
    pub ended_ms: u64,
    /// Its executions.
    pub executions: Vec<ExecutionRow<'r>>,
    /// Its violations.
    pub violations: Vec<ViolationRow<'r>>,
}

impl<'r> Rows<'r> {
    /// What belongs beside this record.
    pub fn of(record: &'r ExchangeRecord, writer: u32, sequence: u64) -> Self {
        let place = Place { writer, sequence, ended_ms: record.ended_ms(), session: record.session.as_deref(), model: &record.model };
        let executions = record.executions.iter().map(|own| (&*own.id, &*own.tool, own.result));
        let violations = record.violations.iter().map(|own| (own.code.as_str(), own.tool.as_deref()));
        place.rows(record.id, executions, violations)
    }

    /// The same, of a record as [`stored::write`] wrote it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: that is something else.
    pub fn of_stored(record: &'r [u8], writer: u32, sequence: u64) -> Result<Self, StoreError> {
        let record = stored::beside(record)?;
        let ended_ms = ended_ms(record.at_ms, record.total_us);
        let place = Place { writer, sequence, ended_ms, session: record.session, model: record.model };
        let executions = record.executions.iter().map(|own| (own.id, own.tool, own.result));
        let violations = record.violations.iter().map(|own| (own.code, own.tool));
        Ok(place.rows(record.id, executions, violations))
    }
}

/// What all rows of a record share.
struct Place<'r> {
    writer: u32,
    sequence: u64,
    ended_ms: u64,
    session: Option<&'r str>,
    model: &'r str,
}

impl<'r> Place<'r> {
    /// Of executions by id, tool and result; of violations by code and tool.
    fn rows<'x>(
        &self,
        exchange: Uuid,
        executions: impl Iterator<Item = (&'x str, &'r str, Digest)>,
        violations: impl Iterator<Item = (&'r str, Option<&'r str>)>,
    ) -> Rows<'r> {
        Rows {
            exchange,
            ended_ms: self.ended_ms,
            executions: executions.zip(0..).filter_map(|((id, tool, result), at)| self.execution(at, id, tool, result)).collect(),
            violations: violations.zip(0..).map(|((code, tool), at)| self.violation(at, code, tool)).collect(),
        }
    }

    fn execution(&self, place: u32, id: &str, tool: &'r str, result: Digest) -> Option<ExecutionRow<'r>> {
        let Self { writer, sequence, session, .. } = *self;
        let key = ExecutionKey::of(id)?;
        Some(ExecutionRow { key, writer, sequence, place, tool: plain(tool), session: session.map(plain), result })
    }

    fn violation(&self, place: u32, code: &'r str, tool: Option<&'r str>) -> ViolationRow<'r> {
        let Self { writer, sequence, ended_ms, model, .. } = *self;
        ViolationRow { writer, sequence, place, ended_ms, code: code.into(), tool: tool.map(plain), model: plain(model) }
    }
}

/// When an exchange ended, in Unix milliseconds.
pub(super) fn ended_ms(at_ms: u64, total_us: u64) -> u64 {
    at_ms.saturating_add(total_us / 1000)
}

/// A text as every database takes it: PostgreSQL knows no NUL in one.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
