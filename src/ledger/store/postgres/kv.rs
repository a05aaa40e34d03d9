//! Sealed rows of the key-value store: put, found, and removed when they are expired or too many.

use super::{PostgresStore, array, get, unavailable, unsigned};
use crate::ledger::{
    sealed_kv::cipher::SealedRow,
    store::{SealedTable, StoreError},
};

/// Rows that are removed in one statement.
const PRUNE_MAX: i64 = 500;

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
            client.execute(&sql, &[&ids, &times, &sizes, &bodies]).map(drop).map_err(|error| unavailable(&error))
        })
    }

    pub(super) fn find_rows(&self, table: SealedTable, ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|id| &id[..]).collect();
        self.reading(|client| {
            let sql = format!("SELECT id, at_ms, body FROM {} WHERE id = ANY($1)", name(table));
            let rows = client.query(&sql, &[&ids]).map_err(|error| unavailable(&error))?;
            let row = |row: &postgres::Row| {
                let id = array(&get::<Vec<u8>>(row, 0)?, "an id")?;
                Ok(SealedRow { id, at_ms: unsigned(get(row, 1)?, "a time")?, body: get(row, 2)? })
            };
            rows.iter().map(row).collect()
        })
    }

    pub(super) fn remove_rows(&self, table: SealedTable, before_ms: u64, bytes_max: u64) -> Result<bool, StoreError> {
        self.writing(|client, _| {
            let failed = |error: postgres::Error| unavailable(&error);
            let own = name(table);
            let oldest = format!(
                "DELETE FROM {own} WHERE id IN (SELECT id FROM {own} WHERE at_ms < $1 ORDER BY at_ms LIMIT $2 FOR UPDATE SKIP LOCKED)"
            );
            let before = i64::try_from(before_ms).unwrap_or(i64::MAX);
            let old = client.execute(&oldest, &[&before, &PRUNE_MAX]).map_err(failed)?;
            let row = client.query_one(&format!("SELECT coalesce(sum(bytes), 0)::bigint FROM {own}"), &[]).map_err(failed)?;
            let surplus = if unsigned(get(&row, 0)?, "a sum")? > bytes_max {
                client.execute(&oldest, &[&i64::MAX, &PRUNE_MAX]).map_err(failed)?
            } else {
                0
            };
            Ok(old.max(surplus) == PRUNE_MAX as u64)
        })
    }
}
