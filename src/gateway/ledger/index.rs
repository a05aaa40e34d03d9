//! Rows that index a record for look-ups: derived from the record alone, and checked against it.

use std::borrow::Cow;

use uuid::Uuid;

use super::{
    record::{Digest, ExchangeRecord},
    store::StoreError,
};
use crate::{ledger::codec, marks::ExecutionId};

/// Key of an execution: the time and the last 16 hex digits of its ID.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ExecutionKey {
    /// Time at which the call was passed on, in Unix milliseconds.
    pub started_ms: u64,
    /// Counter and MAC of the execution ID.
    pub tail: u64,
}

impl ExecutionKey {
    /// Reads the key from an execution ID; `None` for any other text.
    pub fn of(id: &str) -> Option<Self> {
        let id = ExecutionId::parse(id)?;
        Some(Self { started_ms: id.moment().time_ms, tail: id.tail() })
    }

    /// The key as signed numbers, because databases have no unsigned ones. Preserves the order by time.
    pub fn signed(self) -> (i64, i64) {
        (self.started_ms as i64, self.tail as i64)
    }
}

/// Index row of an execution: points to the record that contains it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExecutionRow<'r> {
    /// Key of the execution.
    pub key: ExecutionKey,
    /// Writer of the record's chain.
    pub writer: u32,
    /// Sequence number of the record.
    pub sequence: u64,
    /// Index of the execution in the record, counting from 0.
    pub place: u32,
    /// Name of the tool.
    pub tool: Cow<'r, str>,
    /// Name of the session, if any.
    pub session: Option<Cow<'r, str>>,
    /// Digest of the result.
    pub result: Digest,
}

/// Index row of a violation: points to the record that contains it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ViolationRow<'r> {
    /// Writer of the record's chain.
    pub writer: u32,
    /// Sequence number of the record.
    pub sequence: u64,
    /// Index of the violation in the record, counting from 0.
    pub place: u32,
    /// End of the exchange, in Unix milliseconds.
    pub ended_ms: u64,
    /// Code of the violation.
    pub code: Cow<'r, str>,
    /// Name of the tool, if one is concerned.
    pub tool: Option<Cow<'r, str>>,
    /// The model asked for.
    pub model: Cow<'r, str>,
}

/// All index rows of one record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IndexRows<'r> {
    /// Id of the exchange.
    pub exchange: Uuid,
    /// End of the exchange, in Unix milliseconds.
    pub ended_ms: u64,
    /// Rows of its executions.
    pub executions: Vec<ExecutionRow<'r>>,
    /// Rows of its violations.
    pub violations: Vec<ViolationRow<'r>>,
}

impl<'r> IndexRows<'r> {
    /// Derives the index rows of a record.
    pub fn of(record: &'r ExchangeRecord, writer: u32, sequence: u64) -> Self {
        let place =
            SharedColumns { writer, sequence, ended_ms: record.ended_ms(), session: record.session.as_deref(), model: &record.model };
        let executions = record.executions.iter().map(|own| (&*own.id, &*own.tool, own.result));
        let violations = record.violations.iter().map(|own| (own.code.as_str(), own.tool.as_deref()));
        place.rows(record.id, executions, violations)
    }

    /// Derives the index rows of a record that [`codec::write`] encoded.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: the bytes are not such a record.
    pub fn of_stored(record: &'r [u8], writer: u32, sequence: u64) -> Result<Self, StoreError> {
        let record = codec::beside(record)?;
        let ended_ms = ended_ms(record.at_ms, record.total_us);
        let place = SharedColumns { writer, sequence, ended_ms, session: record.session, model: record.model };
        let executions = record.executions.iter().map(|own| (own.id, own.tool, own.result));
        let violations = record.violations.iter().map(|own| (own.code, own.tool));
        Ok(place.rows(record.id, executions, violations))
    }
}

/// Values that all index rows of a record share.
struct SharedColumns<'r> {
    writer: u32,
    sequence: u64,
    ended_ms: u64,
    session: Option<&'r str>,
    model: &'r str,
}

impl<'r> SharedColumns<'r> {
    /// Builds the rows. Executions are given by id, tool and result, violations by code and tool.
    fn rows<'x>(
        &self,
        exchange: Uuid,
        executions: impl Iterator<Item = (&'x str, &'r str, Digest)>,
        violations: impl Iterator<Item = (&'r str, Option<&'r str>)>,
    ) -> IndexRows<'r> {
        IndexRows {
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

/// End of an exchange, in Unix milliseconds.
pub(super) fn ended_ms(at_ms: u64, total_us: u64) -> u64 {
    at_ms.saturating_add(total_us / 1000)
}

/// Replaces NUL characters, which PostgreSQL doesn't allow in a text.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
