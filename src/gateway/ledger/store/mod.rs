//! Interface of the ledger's stores: one small trait, the same for every database.
//!
//! All methods block: they are called from the ledger's own threads or through `spawn_blocking`, never on a worker. Records are found by
//! their index rows; the record itself is authoritative.

pub mod memory;
pub mod open;
pub mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;

use std::{borrow::Cow, sync::Arc};

use uuid::Uuid;

use super::{
    chain::{Anchor, ChainKeys, Mac},
    record::{Digest, ExchangeRecord, ExecutionRecord, ViolationRecord},
};
use crate::ledger::{
    index::{ExecutionKey, IndexRows},
    sealed_kv::cipher::SealedRow,
};

/// Rows that one page may have.
pub const PAGE_MAX: usize = 1000;
/// Work that is done for one page of exchanges: looking at a record's bytes is 1, decoding it [`DECODE_WORK`].
pub const SCAN_WORK_MAX: u64 = 120_000;
/// Work of decoding a record.
pub const DECODE_WORK: u64 = 40;

/// Reasons why the store can't answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached, is full, or returned an error: a retry may succeed.
    #[error("the ledger's database: {0}")]
    Unavailable(String),
    /// Stored data can't be read: something other than toolmark wrote or changed it.
    #[error("the ledger holds something that toolmark didn't write: {0}")]
    Corrupt(String),
    /// The cursor was not issued by toolmark.
    #[error("`after` is no cursor: pass the `next` of the page before")]
    Cursor,
}

/// A table of sealed rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SealedTable {
    /// Data that must be had back byte for byte.
    Kept,
    /// Whole exchanges.
    Bodies,
}

/// A position in a chain of records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Position {
    /// Number of the writer: each process that writes at the same time has a chain of its own.
    pub writer: u32,
    /// Sequence number of the record in that chain, counting from 1; 0: the chain has no record.
    pub sequence: u64,
    /// MAC of that record, or the chain's start value if it has no record.
    pub mac: Mac,
}

/// A record as it is stored.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// Its position in the chain.
    pub position: Position,
    /// The encoded record, over which the MAC is computed: see [`crate::ledger::codec`].
    pub body: Vec<u8>,
    /// Id of the exchange, from the column next to the record.
    pub exchange: Uuid,
    /// End of the exchange in Unix milliseconds, from the column next to the record.
    pub ended_ms: u64,
}

/// A record on its way into the store.
#[derive(Clone, Debug)]
pub struct SealedRecord<'b> {
    /// Its position in the chain.
    pub position: Position,
    /// The record as [`crate::ledger::codec::write`] encodes it: the bytes over which the MAC is computed.
    pub body: Cow<'b, [u8]>,
}

impl SealedRecord<'_> {
    /// Derives the record's index rows.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: `body` is not a record.
    pub fn rows(&self) -> Result<IndexRows<'_>, StoreError> {
        IndexRows::of_stored(&self.body, self.position.writer, self.position.sequence)
    }
}

/// Data that is stored in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Batch<'b> {
    /// Records of one writer, in the order of their positions.
    pub records: Vec<SealedRecord<'b>>,
    /// Hourly sums that the records change.
    pub hours: Vec<HourlyRow>,
}

/// A writer's chain as it is stored.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Number of the writer.
    pub writer: u32,
    /// Anchor in place of the records that were removed for their age, if any were.
    pub anchor: Option<Anchor>,
    /// Position of the newest record; `None` if there is none.
    pub tip: Option<Position>,
}

/// The first result that was seen for a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FirstResult {
    /// Key of the execution.
    pub key: ExecutionKey,
    /// Digest of the result.
    pub result: Digest,
    /// Name of the session, if any.
    pub session: Option<Box<str>>,
    /// The result is in a record, or soon will be.
    pub recorded: bool,
}

/// Request for a page of a list; the newest rows come first.
#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    /// Only rows of this time or later, in Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Only rows before this time, in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Rows at most, up to [`PAGE_MAX`].
    pub limit: usize,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// Filter for executions. The times of the page are those of the calls.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this session.
    pub session: Option<String>,
    /// Requested page.
    pub page: PageQuery,
}

/// Filter for violations. The times of the page are those of the exchanges' ends.
#[derive(Clone, Debug, Default)]
pub struct ViolationFilter {
    /// Only with this code.
    pub code: Option<String>,
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only in exchanges with this model.
    pub model: Option<String>,
    /// Requested page.
    pub page: PageQuery,
}

/// Condition on records for [`Store::exchanges`].
#[derive(Clone, Copy)]
pub struct RecordFilter<'f> {
    /// Texts that stand word for word in every record that matches: a record that lacks one isn't decoded.
    pub texts: &'f [&'f str],
    /// True for a record that matches.
    pub matches: &'f dyn Fn(&ExchangeRecord) -> bool,
}

/// An execution, and the exchange that first showed it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FoundExecution {
    /// Id of the exchange.
    pub exchange: Uuid,
    /// Session of the exchange, if any.
    pub session: Option<Box<str>>,
    /// Client of the exchange, if it has a name.
    pub client: Option<Box<str>>,
    /// The execution.
    #[serde(flatten)]
    pub execution: ExecutionRecord,
}

/// A violation, and its exchange.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FoundViolation {
    /// Id of the exchange.
    pub exchange: Uuid,
    /// End of the exchange, in Unix milliseconds.
    pub at_ms: u64,
    /// The model asked for.
    pub model: Box<str>,
    /// The violation.
    #[serde(flatten)]
    pub violation: ViolationRecord,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ResultPage<T> {
    /// The rows, the newest first.
    pub rows: Vec<T>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// One hour's sums under one name, by one writer. The statistics define the content of `sums`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HourlyRow {
    /// Number of the writer.
    pub writer: u32,
    /// Hours since 1970.
    pub hour: u32,
    /// Name that the sums belong to.
    pub name: Box<str>,
    /// The encoded sums.
    pub sums: Vec<u8>,
}

/// Sums records up by the hour, in addition to the chain: each worker adds up its own records, and the writer's thread merges these sums.
pub trait HourlyAggregator: Send {
    /// Restores the writer's sums of the hours that aren't over.
    fn restore(&mut self, rows: &[HourlyRow]);
    /// Adds a record.
    fn add(&mut self, record: &ExchangeRecord);
    /// Creates empty sums of the same kind, to be filled elsewhere.
    fn apart(&self) -> Box<dyn HourlyAggregator>;
    /// Merges sums that were added up elsewhere: all rows that changed there.
    fn take_up(&mut self, apart: &[HourlyRow]);
    /// Returns the rows that changed since the last call, with their complete sums; they are stored in one transaction with their records.
    fn changed(&mut self, writer: u32) -> Vec<HourlyRow>;
}

/// A store of records.
pub trait Store: Send + Sync {
    /// Returns the record of an exchange.
    ///
    /// # Errors
    /// [`StoreError`]
    fn exchange(&self, id: Uuid) -> Result<Option<Arc<ExchangeRecord>>, StoreError>;

    /// Returns an execution by its ID, with its exchange.
    ///
    /// # Errors
    /// [`StoreError`]
    fn execution(&self, id: &str) -> Result<Option<FoundExecution>, StoreError>;

    /// Lists executions, the newest call first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn executions(&self, filter: &ExecutionFilter) -> Result<ResultPage<FoundExecution>, StoreError>;

    /// Lists violations, the newest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn violations(&self, filter: &ViolationFilter) -> Result<ResultPage<FoundViolation>, StoreError>;

    /// Returns the records of exchanges that ended at or after `since_ms` (Unix milliseconds), the newest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn recent(&self, since_ms: u64, limit: usize) -> Result<Vec<Arc<ExchangeRecord>>, StoreError>;

    /// Lists the records that match, the newest first. At most [`SCAN_WORK_MAX`] is done for a page: one that ends there may be shorter
    /// than asked for, and names the next one all the same.
    ///
    /// # Errors
    /// [`StoreError`]
    fn exchanges(&self, page: &PageQuery, filter: RecordFilter<'_>) -> Result<ResultPage<Arc<ExchangeRecord>>, StoreError>;

    /// Returns the hourly sums of all writers with `since <= hour < until`, in hours since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    fn hours(&self, since: u32, until: u32) -> Result<Vec<HourlyRow>, StoreError>;

    /// Checks whether the database answers now. For `/readyz`.
    ///
    /// # Errors
    /// [`StoreError`] if it does not.
    fn ready(&self) -> Result<(), StoreError>;
}

/// Further methods for the ledger itself: writing and verifying chains, and finding out which result came first.
pub trait ChainStore: Store {
    /// Takes over a chain for writing: returns its end, and its hourly sums from `hour` on. Called only by the writer, at start and after
    /// every failure; if the chain from before isn't available any more, this is another one.
    ///
    /// # Errors
    /// [`StoreError`]
    fn begin(&self, hour: u32) -> Result<(Position, Vec<HourlyRow>), StoreError>;

    /// Stores a batch: all of it, or nothing. Called only by the writer.
    ///
    /// # Errors
    /// [`StoreError`]: nothing was stored, or, if the connection broke, perhaps all of it: [`Self::begin`] shows which.
    fn append(&self, batch: &Batch<'_>) -> Result<(), StoreError>;

    /// Removes the oldest records that ended before `before_ms`, at most `records_max` of one chain, and stores a sealed anchor in their
    /// place; also removes the hourly sums from before. Returns the number of removed records.
    ///
    /// # Errors
    /// [`StoreError`]
    fn prune(&self, before_ms: u64, now_ms: u64, records_max: usize, keys: &ChainKeys) -> Result<usize, StoreError>;

    /// Returns the chains, in the order of their writers.
    ///
    /// # Errors
    /// [`StoreError`]
    fn chains(&self) -> Result<Vec<Chain>, StoreError>;

    /// Returns the records of a chain after sequence number `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn records(&self, writer: u32, after: u64, limit: usize) -> Result<Vec<StoredRecord>, StoreError>;

    /// Reads the stored index rows of a record: for executions the rows with the keys of `expected`, whichever record they point to.
    ///
    /// # Errors
    /// [`StoreError`]
    fn rows(&self, position: &Position, expected: &IndexRows<'_>) -> Result<IndexRows<'static>, StoreError>;

    /// Counts the stored index rows of executions and of violations that belong to records up to these positions (writer and sequence
    /// number), or to no record.
    ///
    /// # Errors
    /// [`StoreError`]
    fn row_counts(&self, tips: &[(u32, u64)]) -> Result<(u64, u64), StoreError>;

    /// Returns the first results of these executions, in any order; unknown ones are left out.
    ///
    /// # Errors
    /// [`StoreError`]
    fn known(&self, keys: &[ExecutionKey]) -> Result<Vec<FirstResult>, StoreError>;

    /// Like [`Self::known`]; where several processes share the store, a result that isn't known becomes the first one.
    ///
    /// # Errors
    /// [`StoreError`]
    fn claim(&self, claims: &[FirstResult], _now_ms: u64) -> Result<Vec<FirstResult>, StoreError> {
        self.known(&claims.iter().map(|claim| claim.key).collect::<Vec<_>>())
    }

    /// Notes the beginning of something, without waiting: once this process has ended, even by a crash, [`Self::kept`] returns the note
    /// unless its place was overwritten. Returns the slot, for [`Self::give_back`]; `None` if the row must be put instead.
    fn note(&self, _row: SealedRow) -> Option<u32> {
        None
    }

    /// Releases slots whose notes were replaced by a put.
    fn give_back(&self, _slots: &[u32]) {}

    /// Stores these sealed rows, replacing those with the same ids.
    ///
    /// # Errors
    /// [`StoreError`]: none or all of the rows may be stored.
    fn put_kept(&self, _rows: &[SealedRow]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Stores sealed rows that couldn't be stored when they were made: one that another process replaced since then stays.
    ///
    /// # Errors
    /// [`StoreError`]: none or all of the rows may be stored.
    fn put_kept_late(&self, rows: &[SealedRow]) -> Result<(), StoreError> {
        self.put_kept(rows)
    }

    /// Returns the rows with these ids, in any order.
    ///
    /// # Errors
    /// [`StoreError`]
    fn kept(&self, _ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        Ok(Vec::new())
    }

    /// Removes some rows from before `before_ms` (Unix milliseconds), and the oldest ones beyond `bytes_max`. Returns whether there is more
    /// to remove. Called only by the writer.
    ///
    /// # Errors
    /// [`StoreError`]
    fn prune_kept(&self, _before_ms: u64, _bytes_max: u64) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Stores these sealed exchanges, replacing those with the same ids.
    ///
    /// # Errors
    /// [`StoreError`]: none or all of the rows may be stored.
    fn put_bodies(&self, _rows: &[SealedRow]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the sealed exchanges with these ids, in any order.
    ///
    /// # Errors
    /// [`StoreError`]
    fn bodies(&self, _ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        Ok(Vec::new())
    }

    /// Removes some exchanges from before `before_ms` (Unix milliseconds), and the oldest ones beyond `bytes_max`. Returns whether there is
    /// more to remove. Called only by the writer.
    ///
    /// # Errors
    /// [`StoreError`]
    fn prune_bodies(&self, _before_ms: u64, _bytes_max: u64) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns whether the data outlives the process.
    fn is_lasting(&self) -> bool;

    /// Returns whether several processes write the store at the same time.
    fn is_shared(&self) -> bool;
}
