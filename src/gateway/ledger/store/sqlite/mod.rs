//! The embedded store: one SQLite file, written by one process, read by any number.
//!
//! WAL mode, so that readers don't block the writer. An exchange has one row for its record, and an index row for each execution and
//! violation in it.

mod chain;
mod fsync;
mod intent_log;
mod kv;
mod query;
mod write;

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use crate::{ledger::store::StoreError, settings::Durability, sys::files::identity};
use fsync::FsyncWorker;
use intent_log::IntentLog;

/// Number of the only writer of an embedded store.
pub const WRITER: u32 = 1;
/// Connections for reading that are kept open.
const READERS_MAX: usize = 4;
/// Longest wait for another connection's lock.
const BUSY: Duration = Duration::from_secs(5);
/// Statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 32;
/// Page size of new files in bytes: a page is written and copied as a whole, whatever has changed in it.
const PAGE_BYTES: i64 = 8192;
/// Size of the write-ahead log in bytes after which its pages are moved into the database.
const LOG_BYTES: i64 = 16 << 20;
/// SQLite's application id in a ledger of toolmark's: `TLMK`.
const APPLICATION_ID: i64 = 0x544c_4d4b;

/// Migrations that bring an older file up to date: each is applied once, in order. A released migration never changes.
const MIGRATIONS: [&str; 4] =
    [include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql"), include_str!("schema_4.sql")];

/// Store of records in a SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    writing: Mutex<SqliteWriter>,
    readers: Mutex<Vec<Connection>>,
    /// Thread that syncs to the disk; `None` if every transaction does so itself.
    behind: Option<FsyncWorker>,
    /// File for begun operations; `None` if those are put in a transaction.
    begun: Option<IntentLog>,
    /// File lock, held while this process writes.
    _lock: Option<File>,
}

/// The connection for writing, and the identity of the file on which it was opened.
#[derive(Default)]
struct SqliteWriter {
    connection: Option<Connection>,
    file: Option<(u64, u64)>,
}

impl SqliteStore {
    /// Opens the file for writing, or creates it. With [`Durability::Commit`], data is on disk before
    /// [`ChainStore::append`](crate::ledger::store::ChainStore::append) returns; otherwise it survives the end of the process at once, and that of
    /// the machine after about a second.
    ///
    /// # Errors
    /// [`StoreError`], with what to do: another process writes the file, it can't be created, or it is not a ledger.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        let lock = lock(path)?;
        let behind = match durability {
            Durability::Commit => None,
            Durability::Batch => Some(FsyncWorker::start(path)?),
        };
        let (writing, readers) = (Mutex::default(), Mutex::default());
        let mut store = Self { path: path.into(), writing, readers, behind, begun: None, _lock: Some(lock) };
        store.writing(|_| Ok(()))?;
        store.recover_intents()?;
        store.begun = if durability == Durability::Commit { None } else { Some(store.new_intent_log()?) };
        Ok(store)
    }

    /// Opens an existing file only for reading. Another process may write it.
    ///
    /// # Errors
    /// [`StoreError`]: the file doesn't exist, or it is not a ledger.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Unavailable(format!(
                "there is no file {}: has `toolmark serve` run with this ledger?",
                path.display()
            )));
        }
        let store =
            Self { path: path.into(), writing: Mutex::default(), readers: Mutex::default(), behind: None, begun: None, _lock: None };
        store.reading(|_| Ok(()))?;
        Ok(store)
    }

    /// Runs `act` with the connection for writing; after a failure it is opened again.
    fn writing<T>(&self, act: impl FnOnce(&mut Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if writing.connection.is_some() && writing.file != identity(&self.path) {
            tracing::error!(path = %self.path.display(), "the ledger's file was removed or replaced while it was written: going on in a new one");
            writing.connection = None;
            self.readers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        if writing.connection.is_none() {
            let opened = connect(&self.path, ConnectionUse::Write)?;
            let synchronous = if self.behind.is_some() { "NORMAL" } else { "FULL" };
            opened.pragma_update(None, "synchronous", synchronous).map_err(unavailable)?;
            writing.connection = Some(opened);
            writing.file = identity(&self.path);
        }
        let Some(connection) = writing.connection.as_mut() else { return Err(StoreError::Unavailable("no connection".into())) };
        let done = act(connection);
        if matches!(done, Err(StoreError::Unavailable(_))) {
            writing.connection = None;
        }
        done
    }

    /// Runs `act` with a connection for reading.
    fn reading<T>(&self, act: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => connect(&self.path, ConnectionUse::Read)?,
        };
        let done = act(&connection);
        if !matches!(done, Err(StoreError::Unavailable(_))) {
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if readers.len() < READERS_MAX {
                readers.push(connection);
            }
        }
        done
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let failed = |error: std::io::Error| {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        StoreError::Unavailable(format!(
            "{} can't be made: {error}: is the directory {} there and writable?",
            name.display(),
            directory.display()
        ))
    };
    let file = File::options().create(true).truncate(false).write(true).open(&name).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Unavailable(format!(
            "another process writes {}: give each its own `[ledger] url`, or let several replicas share a postgres:// ledger",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Options with which files are made that only their owner may read and write.
fn owner_only() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Use of a connection.
#[derive(Clone, Copy, Eq, PartialEq)]
enum ConnectionUse {
    Read,
    Write,
}

fn connect(path: &Path, access: ConnectionUse) -> Result<Connection, StoreError> {
    let named = |error: rusqlite::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, access == ConnectionUse::Write);
    if access == ConnectionUse::Write {
        // Only its owner may read it; what SQLite makes beside it gets its mode. Where this fails, SQLite says why.
        let _made = owner_only().create(true).truncate(false).write(true).open(path);
    }
    let mut connection = Connection::open_with_flags(path, flags).map_err(named)?;
    connection.busy_timeout(BUSY).map_err(named)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    if access == ConnectionUse::Write {
        connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(named)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(named)?;
        // The file's own, which may have been made with others.
        let page_bytes = pragma(&connection, "page_size").map_err(named)?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_BYTES / page_bytes.max(1)).map_err(named)?;
        migrate(&mut connection, path)?;
    } else {
        connection.pragma_update(None, "query_only", true).map_err(named)?;
        is_ours(&connection, path)?;
    }
    Ok(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    Ok((pragma(connection, "application_id")?, pragma(connection, "user_version")?))
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

fn is_ours(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let (application, version) = version(connection).map_err(unavailable)?;
    if application == APPLICATION_ID && version == MIGRATIONS.len() as i64 {
        return Ok(());
    }
    Err(StoreError::Corrupt(foreign(path, application, version)))
}

fn foreign(path: &Path, application: i64, version: i64) -> String {
    let path = path.display();
    match (application == APPLICATION_ID, version > MIGRATIONS.len() as i64) {
        (true, true) => format!("{path} was written by a later version of toolmark: use that one, or give this one its own `[ledger] url`"),
        (true, false) => format!("{path} was written by an earlier version of toolmark: `toolmark serve` brings it up to date"),
        (false, _) => format!("{path} is no ledger of toolmark's: choose another file for `[ledger] url`"),
    }
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let (application, version) = version(connection).map_err(unavailable)?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(unavailable)?;
    let fresh = tables == 0 && version == 0;
    if !fresh && (application != APPLICATION_ID || version > MIGRATIONS.len() as i64) {
        return Err(StoreError::Corrupt(foreign(path, application, version)));
    }
    for (step, number) in MIGRATIONS.iter().zip(1_i64..).skip(usize::try_from(version).unwrap_or(0)) {
        let transaction = connection.transaction().map_err(unavailable)?;
        transaction.execute_batch(step).map_err(unavailable)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(unavailable)?;
        transaction.pragma_update(None, "user_version", number).map_err(unavailable)?;
        transaction.commit().map_err(unavailable)?;
    }
    Ok(())
}

/// Converts an error of the database, with advice for the operator.
fn unavailable(error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => StoreError::Corrupt(error.to_string()),
        rusqlite::Error::SqliteFailure(failure, _) if failure.code == rusqlite::ErrorCode::DatabaseCorrupt => {
            StoreError::Corrupt(error.to_string())
        }
        rusqlite::Error::SqliteFailure(failure, _) if failure.code == rusqlite::ErrorCode::DiskFull => {
            StoreError::Unavailable(format!("{error}: make room on its disk; what waits is written then"))
        }
        error => StoreError::Unavailable(error.to_string()),
    }
}

/// Converts to an array of `N` bytes.
fn array<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt(format!("{what} has {} bytes instead of {N}", bytes.len())))
}

/// Converts a number that is never negative.
fn unsigned(number: i64, what: &str) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| StoreError::Corrupt(format!("{what} is {number}")))
}

#[cfg(test)]
mod tests;
