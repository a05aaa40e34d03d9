//! What a ledger's store can do: one small trait, the same for every database.
//!
//! All of it blocks: it is called from the ledger's own threads, or through `spawn_blocking`; never on a worker.
//! Rows are found by what is written beside the records for looking up; what counts is in the record itself.

use std::sync::Arc;

use uuid::Uuid;

use super::record::{ExchangeRecord, ExecutionRecord, ViolationRecord};

/// Rows that one page may have.
pub const PAGE_MAX: usize = 1000;

/// Why the store has no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database isn't there, is full, or said no: it may come right by itself.
    #[error("the ledger's database doesn't answer: {0}")]
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
    /// That record's MAC.
    pub mac: [u8; 32],
}

/// A record as it is stored.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// Where it stands.
    pub position: Position,
    /// The bytes that the MAC is over: JSON of [`ExchangeRecord`].
    pub body: Vec<u8>,
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

/// Sums records up by the hour, beside the chain. Runs on the writer's thread, once per record.
pub trait Hourly: Send {
    /// Takes up where the writer left off: its rows of the hours that aren't over.
    fn restore(&mut self, rows: &[HourRow]);
    /// Adds a record.
    fn add(&mut self, record: &ExchangeRecord);
    /// The rows that changed since this was last asked, whole; they are stored in one transaction with their records.
    fn changed(&mut self, writer: u32) -> Vec<HourRow>;
}

/// A store of records.
pub trait Store: Send + Sync {
    /// Keeps records, with the hourly sums that they change: all of it, or nothing. Called by the writer alone.
    ///
    /// # Errors
    /// [`StoreError`]: nothing was kept.
    fn append(&self, records: &[Arc<ExchangeRecord>], hours: Vec<HourRow>) -> Result<(), StoreError>;

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
