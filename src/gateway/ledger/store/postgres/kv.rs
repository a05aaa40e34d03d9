//! Sealed rows of the key-value store: put, found, and removed when they are expired or too many.

use std::sync::PoisonError;

use postgres::Transaction;

use super::{LOCKS, PostgresStore, array, get, unavailable, unsigned};
use crate::ledger::{
    sealed_kv::cipher::SealedRow,
    store::{SealedTable, StoreError},
};

/// Rows that are removed in one statement.
const PRUNE_MAX: i64 = 500;
/// Second numbers of the advisory locks under which rows are removed; chains have those from 1 on.
const KEPT_LOCK: i32 = -1;
/// The same for whole exchanges.
const BODIES_LOCK: i32 = -2;

fn name(table: SealedTable) -> &'static str {
    match table {
        SealedTable::Kept => "toolmark_kept",
        SealedTable::Bodies => "toolmark_bodies",
    }
}

/// Rows that are replaced by a put.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Replaced {
    /// All with the same id.
    Always,
    /// Those that were made no later.
    IfOlder,
}

impl PostgresStore {
    pub(super) fn put_rows(&self, table: SealedTable, rows: &[SealedRow], replaced: Replaced) -> Result<(), StoreError> {
        let ids: Vec<&[u8]> = rows.iter().map(|row| &row.id[..]).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.at_ms as i64).collect();
        let sizes: Vec<i64> = rows.iter().map(|row| row.body.len() as i64).collect();
        let bodies: Vec<&[u8]> = rows.iter().map(|row| &row.body[..]).collect();
        // Not on the connection that writes the chain: an exchange waits for this one.
        self.reading(|client| {
            let condition = if replaced == Replaced::IfOlder { " WHERE own.at_ms <= excluded.at_ms" } else { "" };
            let sql = format!(
                "INSERT INTO {} AS own (id, at_ms, bytes, body) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[]) \
                 ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms, bytes = excluded.bytes, body = excluded.body{condition}",
                name(table)
            );
            let statement = client.prepared(&sql).map_err(|error| unavailable(&error))?;
            client.execute(&statement, &[&ids, &times, &sizes, &bodies]).map(drop).map_err(|error| unavailable(&error))
        })
    }

    pub(super) fn find_rows(&self, table: SealedTable, ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|id| &id[..]).collect();
        self.reading(|client| {
            let sql = format!("SELECT id, at_ms, body FROM {} WHERE id = ANY($1)", name(table));
            let statement = client.prepared(&sql).map_err(|error| unavailable(&error))?;
            let rows = client.query(&statement, &[&ids]).map_err(|error| unavailable(&error))?;
            let row = |row: &postgres::Row| {
                let id = array(&get::<Vec<u8>>(row, 0)?, "an id")?;
                Ok(SealedRow { id, at_ms: unsigned(get(row, 1)?, "a time")?, body: get(row, 2)? })
            };
            rows.iter().map(row).collect()
        })
    }

    /// Removes some rows from before `before_ms`, or of the oldest ones beyond `bytes_max`; true if there may be more. Of all replicas one
    /// does it at a time, and the table is only measured now and then: that reads an index of all its rows.
    pub(super) fn remove_rows(&self, table: SealedTable, before_ms: u64, bytes_max: u64) -> Result<bool, StoreError> {
        let [kept, bodies] = &self.surplus;
        let (surplus, lock) = match table {
            SealedTable::Kept => (kept, KEPT_LOCK),
            SealedTable::Bodies => (bodies, BODIES_LOCK),
        };
        let mut surplus = surplus.lock().unwrap_or_else(PoisonError::into_inner);
        self.writing(|client, _| {
            let failed = |error: postgres::Error| unavailable(&error);
            let own = name(table);
            let mut transaction = client.transaction().map_err(failed)?;
            let row = transaction.query_one("SELECT pg_try_advisory_xact_lock($1, $2)", &[&LOCKS, &lock]).map_err(failed)?;
            if !get(&row, 0)? {
                return Ok(false);
            }
            let oldest = format!(
                "WITH gone AS (DELETE FROM {own} WHERE id IN (SELECT id FROM {own} WHERE at_ms < $1 ORDER BY at_ms LIMIT $2 FOR UPDATE SKIP \
                 LOCKED) RETURNING bytes) SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone"
            );
            let remove = |transaction: &mut Transaction<'_>, before: i64| {
                let row = transaction.query_one(&oldest, &[&before, &PRUNE_MAX]).map_err(failed)?;
                Ok::<_, StoreError>((get::<i64>(&row, 0)? == PRUNE_MAX, unsigned(get(&row, 1)?, "a sum")?))
            };
            let (mut more, _) = remove(&mut transaction, i64::try_from(before_ms).unwrap_or(i64::MAX))?;
            // What is too old goes first: it is no surplus.
            if !more && surplus.is_due(bytes_max) {
                let sum = transaction.query_one(&format!("SELECT coalesce(sum(bytes), 0)::bigint FROM {own}"), &[]).map_err(failed)?;
                surplus.measure(unsigned(get(&sum, 0)?, "a sum")?, bytes_max);
            }
            if surplus.bytes() > 0 {
                let (_, bytes) = remove(&mut transaction, i64::MAX)?;
                surplus.remove(bytes);
                more |= surplus.bytes() > 0;
            }
            transaction.commit().map_err(failed)?;
            Ok(more)
        })
    }
}
