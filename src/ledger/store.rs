//! What a ledger's store can do: one small trait, the same for every database.
//!
//! All of it blocks: it is called from the ledger's own threads, or through `spawn_blocking`; never on a worker.
//! Rows are found by what is written beside the records for looking up; what counts is in the record itself.

use std::{borrow::Cow, sync::Arc};

use uuid::Uuid;

use super::{
    chain::{Anchor, ChainKeys, Mac},
    record::{Digest, ExchangeRecord, ExecutionRecord, ViolationRecord},
    rows::{ExecutionKey, Rows},
    vault::KeptRow,
};

/// Rows that one page may have.
pub const PAGE_MAX: usize = 1000;

/// Why the store has no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database isn't there, is full, or said no: it may come right by itself.
    #[error("the ledger's database: {0}")]
    Unavailable(String),
    /// What is stored can't be understood: somebody else wrote it, or changed it.
    #[error("the ledger holds something that toolmark didn't write: {0}")]
    Corrupt(String),
    /// The cursor is none of ours.
    #[error("`after` is no cursor: pass the `next` of the page before")]
    Cursor,
}

/// A position in a chain of records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Position {
    /// Whose chain: one per process that writes at the same time.
    pub writer: u32,
    /// Which of its records, counting from 1.
    pub sequence: u64,
    /// That record's MAC; of a chain without any, what its first is made with.
    pub mac: Mac,
}

/// A record as it is stored.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// Where it stands.
    pub position: Position,
    /// The bytes that the MAC is over: see [`super::stored`].
    pub body: Vec<u8>,
    /// The exchange, as it stands beside the record.
    pub exchange: Uuid,
    /// When it ended, likewise.
    pub ended_ms: u64,
}

/// A record on its way into the store.
#[derive(Clone, Debug)]
pub struct Sealed<'b> {
    /// Where it goes.
    pub position: Position,
    /// The record as [`super::stored::write`] writes it: the bytes that the MAC is over.
    pub body: Cow<'b, [u8]>,
}

impl Sealed<'_> {
    /// What is written beside it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: `body` is no record.
    pub fn rows(&self) -> Result<Rows<'_>, StoreError> {
        Rows::of_stored(&self.body, self.position.writer, self.position.sequence)
    }
}

/// What is kept in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Batch<'b> {
    /// Records of one writer, in order.
    pub records: Vec<Sealed<'b>>,
    /// The hourly sums that they change.
    pub hours: Vec<HourRow>,
}

/// A writer's chain as it is stored.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Whose.
    pub writer: u32,
    /// What was removed for its age.
    pub anchor: Option<Anchor>,
    /// The newest record's place and MAC; `None` where there is none.
    pub tip: Option<Position>,
}

/// A result that was first seen for a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct First {
    /// The execution.
    pub key: ExecutionKey,
    /// Its result's digest.
    pub result: Digest,
    /// Its session.
    pub session: Option<Box<str>>,
    /// It is in a record, or soon will be.
    pub recorded: bool,
}

/// What is asked for of a list; the newest come first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Not before, in Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Before, in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Rows at most, up to [`PAGE_MAX`].
    pub limit: usize,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// Which executions. The times of the page are those of the calls.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Of this tool.
    pub tool: Option<String>,
    /// Of this session.
    pub session: Option<String>,
    /// Where and how many.
    pub page: Page,
}

/// Which violations. The times of the page are those of the exchanges' ends.
#[derive(Clone, Debug, Default)]
pub struct ViolationFilter {
    /// Of this code.
    pub code: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// In exchanges with this model.
    pub model: Option<String>,
    /// Where and how many.
    pub page: Page,
}

/// An execution, and the exchange that first showed it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FoundExecution {
    /// The exchange.
    pub exchange: Uuid,
    /// Its session.
    pub session: Option<Box<str>>,
    /// Its client.
    pub client: Option<Box<str>>,
    /// The execution.
    #[serde(flatten)]
    pub execution: ExecutionRecord,
}

/// A violation, and its exchange.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FoundViolation {
    /// The exchange.
    pub exchange: Uuid,
    /// When it ended, in Unix milliseconds.
    pub at_ms: u64,
    /// The model asked for.
    pub model: Box<str>,
    /// The violation.
    #[serde(flatten)]
    pub violation: ViolationRecord,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Found<T> {
    /// The rows, the newest first.
    pub rows: Vec<T>,
    /// Where the next page begins; `None` where this is the last.
    pub next: Option<String>,
}

/// One hour's sums under one name, by one writer. What stands in `sums` is the statistics' own matter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HourRow {
    /// Whose.
    pub writer: u32,
    /// Hours since 1970.
    pub hour: u32,
    /// What of.
    pub name: Box<str>,
    /// The sums.
    pub sums: Vec<u8>,
}

/// Sums records up by the hour, beside the chain: apart on the workers, where each record is added once, and what these come
/// to together on the writer's thread.
pub trait Hourly: Send {
    /// Takes up where the writer left off: its rows of the hours that aren't over.
    fn restore(&mut self, rows: &[HourRow]);
    /// Adds a record.
    fn add(&mut self, record: &ExchangeRecord);
    /// Sums of nothing, to be added to elsewhere.
    fn apart(&self) -> Box<dyn Hourly>;
    /// Adds what was added up apart: all of the rows that changed there.
    fn take_up(&mut self, apart: &[HourRow]);
    /// The rows that changed since this was last asked, whole; they are stored in one transaction with their records.
    fn changed(&mut self, writer: u32) -> Vec<HourRow>;
}

/// A store of records.
pub trait Store: Send + Sync {
    /// The record of an exchange.
    ///
    /// # Errors
    /// [`StoreError`]
    fn exchange(&self, id: Uuid) -> Result<Option<Arc<ExchangeRecord>>, StoreError>;

    /// An execution by its ID, with its exchange.
    ///
    /// # Errors
    /// [`StoreError`]
    fn execution(&self, id: &str) -> Result<Option<FoundExecution>, StoreError>;

    /// Executions, the newest call first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn executions(&self, filter: &ExecutionFilter) -> Result<Found<FoundExecution>, StoreError>;

    /// Violations, the newest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn violations(&self, filter: &ViolationFilter) -> Result<Found<FoundViolation>, StoreError>;

    /// The records of exchanges that ended since then (Unix milliseconds), the newest first, at most `limit` of them.
    ///
    /// # Errors
    /// [`StoreError`]
    fn recent(&self, since_ms: u64, limit: usize) -> Result<Vec<Arc<ExchangeRecord>>, StoreError>;

    /// The hourly sums of all writers with `since <= hour < until`, in hours since 1970.
    ///
    /// # Errors
    /// [`StoreError`]
    fn hours(&self, since: u32, until: u32) -> Result<Vec<HourRow>, StoreError>;

    /// Can it be read and written now? For `/readyz`.
    ///
    /// # Errors
    /// [`StoreError`], where it can't.
    fn ready(&self) -> Result<(), StoreError>;
}

/// What the ledger itself needs of a store besides: to write chains, to check them, and to know who came first.
pub trait ChainStore: Store {
    /// Takes up a chain to write: the end of it, to go on from, and its hourly sums from `hour` on. Called by the
    /// writer alone, at first and after every failure; where the chain before can't be had back, it is another one.
    ///
    /// # Errors
    /// [`StoreError`]
    fn begin(&self, hour: u32) -> Result<(Position, Vec<HourRow>), StoreError>;

    /// Keeps a batch: all of it, or nothing. Called by the writer alone.
    ///
    /// # Errors
    /// [`StoreError`]: nothing was kept, or, where the database broke off, perhaps all of it: [`Self::begin`] tells.
    fn append(&self, batch: &Batch<'_>) -> Result<(), StoreError>;

    /// Removes the oldest records that ended before `before_ms`, at most `records_max` of one chain, and leaves a sealed
    /// anchor in their place; with the hourly sums of before. How many it were.
    ///
    /// # Errors
    /// [`StoreError`]
    fn prune(&self, before_ms: u64, now_ms: u64, records_max: usize, keys: &ChainKeys) -> Result<usize, StoreError>;

    /// The chains, in the order of their writers.
    ///
    /// # Errors
    /// [`StoreError`]
    fn chains(&self) -> Result<Vec<Chain>, StoreError>;

    /// Records of a chain behind `after`, in order, `limit` at most.
    ///
    /// # Errors
    /// [`StoreError`]
    fn records(&self, writer: u32, after: u64, limit: usize) -> Result<Vec<StoredRecord>, StoreError>;

    /// What really stands beside a record: of the executions those with the keys of `expected`, wherever they point.
    ///
    /// # Errors
    /// [`StoreError`]
    fn rows(&self, position: &Position, expected: &Rows<'_>) -> Result<Rows<'static>, StoreError>;

    /// How many executions and violations are written beside the records up to these places (writer and sequence
    /// number), and beside no record at all.
    ///
    /// # Errors
    /// [`StoreError`]
    fn row_counts(&self, tips: &[(u32, u64)]) -> Result<(u64, u64), StoreError>;

    /// What is known of these executions, in any order; what isn't known is left out.
    ///
    /// # Errors
    /// [`StoreError`]
    fn known(&self, keys: &[ExecutionKey]) -> Result<Vec<First>, StoreError>;

    /// The same; where several processes share the store, a result that isn't known becomes the first one.
    ///
    /// # Errors
    /// [`StoreError`]
    fn claim(&self, claims: &[First], _now_ms: u64) -> Result<Vec<First>, StoreError> {
        self.known(&claims.iter().map(|claim| claim.key).collect::<Vec<_>>())
    }

    /// Notes something that begins, so that it is among what is [kept](Self::kept) once this process has ended, however it
    /// ends, unless something was put in its place; waits for nobody. Returns where, for [`Self::give_back`]; `None` where it is to be put instead.
    fn note(&self, _row: KeptRow) -> Option<u32> {
        None
    }

    /// What was noted there was put meanwhile.
    fn give_back(&self, _slots: &[u32]) {}

    /// Keeps these, sealed as they are, instead of what was kept in their places.
    ///
    /// # Errors
    /// [`StoreError`]: perhaps none, perhaps all of them are kept.
    fn put_kept(&self, _rows: &[KeptRow]) -> Result<(), StoreError> {
        Ok(())
    }

    /// What is kept in these places, in any order.
    ///
    /// # Errors
    /// [`StoreError`]
    fn kept(&self, _ids: &[[u8; 32]]) -> Result<Vec<KeptRow>, StoreError> {
        Ok(Vec::new())
    }

    /// Removes some of what was kept before `before_ms` (Unix milliseconds), and of what is more than `bytes_max`, the oldest
    /// first. Is there more? Called by the writer alone.
    ///
    /// # Errors
    /// [`StoreError`]
    fn prune_kept(&self, _before_ms: u64, _bytes_max: u64) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Is anything left of it when the process has ended?
    fn is_lasting(&self) -> bool;

    /// Is it written by several processes at a time?
    fn is_shared(&self) -> bool;
}
