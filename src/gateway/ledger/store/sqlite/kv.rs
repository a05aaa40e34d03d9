//! Sealed rows of the key-value store: put, found, and removed when they are expired or too many.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{SqliteStore, array, unavailable, unsigned};
use crate::ledger::{
    sealed_kv::cipher::SealedRow,
    store::{
        SealedTable, StoreError,
        sqlite::{
            fsync,
            intent_log::{self, IntentLog},
        },
    },
};

/// Rows that are removed in one transaction.
const PRUNE_MAX: i64 = 500;

/// Replaces an existing row.
const PUT_KEPT: &str = "INSERT OR REPLACE INTO kept (id, at_ms, bytes, body) VALUES (?1, ?2, ?3, ?4)";
/// Keeps an existing row.
const PUT_MISSING: &str = "INSERT OR IGNORE INTO kept (id, at_ms, bytes, body) VALUES (?1, ?2, ?3, ?4)";
const PUT_BODIES: &str = "INSERT OR REPLACE INTO bodies (id, at_ms, bytes, body) VALUES (?1, ?2, ?3, ?4)";

fn put(connection: &Connection, sql: &str, row: &SealedRow) -> Result<(), StoreError> {
    let mut put = connection.prepare_cached(sql).map_err(unavailable)?;
    put.execute(params![&row.id[..], row.at_ms as i64, row.body.len() as i64, row.body]).map(drop).map_err(unavailable)
}

impl SqliteStore {
    /// Stores the operations that an earlier process had begun and not ended.
    pub(super) fn recover_intents(&self) -> Result<(), StoreError> {
        let path = intent_log::path(&self.path);
        let failed = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
        let left = IntentLog::left(&path).map_err(failed)?;
        if !left.is_empty() {
            self.writing(|connection| {
                let transaction = connection.transaction().map_err(unavailable)?;
                left.iter().try_for_each(|row| put(&transaction, PUT_MISSING, row))?;
                transaction.commit().map_err(unavailable)?;
                // On the disk before the file is made anew.
                connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).map_err(unavailable)
            })?;
        }
        Ok(())
    }

    /// The file for this process's notes.
    pub(super) fn new_intent_log(&self) -> Result<IntentLog, StoreError> {
        let path = intent_log::path(&self.path);
        IntentLog::make(&path).map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))
    }

    pub(super) fn note_row(&self, row: SealedRow) -> Option<u32> {
        let slot = self.begun.as_ref()?.note(row)?;
        self.behind.iter().for_each(fsync::FsyncWorker::written);
        Some(slot)
    }

    pub(super) fn take_back(&self, slots: &[u32]) {
        self.begun.iter().for_each(|begun| begun.give_back(slots));
    }

    pub(super) fn put_rows(&self, table: SealedTable, rows: &[SealedRow]) -> Result<(), StoreError> {
        let sql = match table {
            SealedTable::Kept => PUT_KEPT,
            SealedTable::Bodies => PUT_BODIES,
        };
        self.writing(|connection| match rows {
            // A statement is a transaction by itself.
            [row] => put(connection, sql, row),
            rows => {
                let transaction = connection.transaction().map_err(unavailable)?;
                rows.iter().try_for_each(|row| put(&transaction, sql, row))?;
                transaction.commit().map_err(unavailable)
            }
        })?;
        self.behind.iter().for_each(fsync::FsyncWorker::written);
        Ok(())
    }

    pub(super) fn find_rows(&self, table: SealedTable, ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        let sql = match table {
            SealedTable::Kept => "SELECT at_ms, body FROM kept WHERE id = ?1",
            SealedTable::Bodies => "SELECT at_ms, body FROM bodies WHERE id = ?1",
        };
        let begun = self.begun.as_ref().filter(|_| table == SealedTable::Kept);
        self.reading(|connection| {
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let mut found = Vec::new();
            for id in ids {
                let row: Option<(i64, Vec<u8>)> =
                    select.query_row([&id[..]], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(unavailable)?;
                match row {
                    Some((at_ms, body)) => found.push(SealedRow { id: array(id, "an id")?, at_ms: unsigned(at_ms, "a time")?, body }),
                    None => found.extend(begun.and_then(|begun| begun.find(id))),
                }
            }
            Ok(found)
        })
    }

    pub(super) fn remove_rows(&self, table: SealedTable, before_ms: u64, bytes_max: u64) -> Result<bool, StoreError> {
        let (oldest, sum) = match table {
            SealedTable::Kept => (
                "DELETE FROM kept WHERE id IN (SELECT id FROM kept WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
                "SELECT coalesce(sum(bytes), 0) FROM kept",
            ),
            SealedTable::Bodies => (
                "DELETE FROM bodies WHERE id IN (SELECT id FROM bodies WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
                "SELECT coalesce(sum(bytes), 0) FROM bodies",
            ),
        };
        self.writing(|connection| {
            let before = i64::try_from(before_ms).unwrap_or(i64::MAX);
            let old = connection.execute(oldest, params![before, PRUNE_MAX]).map_err(unavailable)?;
            let all: i64 = connection.query_row(sum, [], |row| row.get(0)).map_err(unavailable)?;
            let surplus = if unsigned(all, "a sum")? > bytes_max {
                connection.execute(oldest, params![i64::MAX, PRUNE_MAX]).map_err(unavailable)?
            } else {
                0
            };
            Ok(old.max(surplus) as i64 == PRUNE_MAX)
        })
    }
}
