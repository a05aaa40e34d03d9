//! Writing: batches of records, and removing what is too old.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{SqliteStore, WRITER, array, unavailable, unsigned};
use crate::ledger::{
    chain::{ChainKeys, Mac},
    record::ExchangeRecord,
    rows::Rows,
    store::{Batch, HourRow, Position, Sealed, StoreError},
};

const RECORD: &str = "INSERT INTO records (sequence, exchange, ended_ms, body, mac) VALUES (?1, ?2, ?3, ?4, ?5)";
/// The first record of an execution counts.
const EXECUTION: &str =
    "INSERT OR IGNORE INTO executions (started_ms, tail, sequence, place, tool, session, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const VIOLATION: &str = "INSERT INTO violations (ended_ms, sequence, place, code, tool, model) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const HOUR: &str = "INSERT OR REPLACE INTO hours (hour, name, sums) VALUES (?1, ?2, ?3)";
const MILLIS_PER_HOUR: u64 = 3_600_000;

impl SqliteStore {
    pub(super) fn begin_writing(&self, hour: u32) -> Result<(Position, Vec<HourRow>), StoreError> {
        self.writing(|connection| {
            let position = tip(connection)?.unwrap_or(Position { writer: WRITER, sequence: 0, mac: ChainKeys::genesis(WRITER) });
            Ok((position, super::read::hours(connection, hour, u32::MAX)?))
        })
    }

    pub(super) fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.writing(|connection| {
            let transaction = connection.transaction().map_err(unavailable)?;
            insert(&transaction, batch).map_err(unavailable)?;
            transaction.commit().map_err(unavailable)
        })?;
        self.behind.iter().for_each(super::behind::Behind::written);
        Ok(())
    }

    pub(super) fn remove(&self, before_ms: u64, now_ms: u64, records_max: usize, keys: &ChainKeys) -> Result<usize, StoreError> {
        self.writing(|connection| {
            let transaction = connection.transaction().map_err(unavailable)?;
            let old = oldest(&transaction, before_ms, records_max)?;
            let Some((last, mac)) = old.last().map(|(sequence, mac, _)| (*sequence, *mac)) else { return Ok(0) };
            for (sequence, _, body) in &old {
                // What can't be read leaves its rows behind: `ledger verify` names them.
                if let Ok(record) = serde_json::from_slice::<ExchangeRecord>(body) {
                    delete_rows(&transaction, &Rows::of(&record, WRITER, *sequence)).map_err(unavailable)?;
                }
            }
            let anchor = keys.anchor(WRITER, last, mac, now_ms);
            let values = params![WRITER, last as i64, &anchor.mac[..], now_ms as i64, &anchor.seal[..]];
            let put = "INSERT OR REPLACE INTO anchors (writer, sequence, mac, pruned_ms, seal) VALUES (?1, ?2, ?3, ?4, ?5)";
            transaction.execute(put, values).map_err(unavailable)?;
            transaction.execute("DELETE FROM records WHERE sequence <= ?1", [last as i64]).map_err(unavailable)?;
            transaction.execute("DELETE FROM hours WHERE hour < ?1", [(before_ms / MILLIS_PER_HOUR) as i64]).map_err(unavailable)?;
            transaction.commit().map_err(unavailable)?;
            Ok(old.len())
        })
    }
}

/// Where the chain ends; `None` where there is none.
pub(super) fn tip(connection: &Connection) -> Result<Option<Position>, StoreError> {
    let newest = "SELECT sequence, mac FROM records ORDER BY sequence DESC LIMIT 1";
    let removed = "SELECT sequence, mac FROM anchors WHERE writer = 1";
    for sql in [newest, removed] {
        let row: Option<(i64, Vec<u8>)> =
            connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(unavailable)?;
        if let Some((sequence, mac)) = row {
            return Ok(Some(Position { writer: WRITER, sequence: unsigned(sequence, "a sequence number")?, mac: array(&mac, "a MAC")? }));
        }
    }
    Ok(None)
}

fn insert(connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    let mut record = connection.prepare_cached(RECORD)?;
    let mut execution = connection.prepare_cached(EXECUTION)?;
    let mut violation = connection.prepare_cached(VIOLATION)?;
    for sealed in &batch.records {
        let Sealed { record: own, position, body } = sealed;
        let sequence = position.sequence as i64;
        record.execute(params![sequence, &own.id.as_bytes()[..], own.ended_ms() as i64, body, &position.mac[..]])?;
        if own.executions.is_empty() && own.violations.is_empty() {
            continue;
        }
        let rows = Rows::of(own, WRITER, position.sequence);
        for row in &rows.executions {
            let (started_ms, tail) = row.key.signed();
            execution.execute(params![started_ms, tail, sequence, row.place, row.tool, row.session, &row.result.0[..]])?;
        }
        for row in &rows.violations {
            violation.execute(params![row.ended_ms as i64, sequence, row.place, row.code, row.tool, row.model])?;
        }
    }
    let mut hour = connection.prepare_cached(HOUR)?;
    for row in &batch.hours {
        hour.execute(params![row.hour, row.name, row.sums])?;
    }
    Ok(())
}

/// The oldest records, as far as they ended before then.
fn oldest(connection: &Connection, before_ms: u64, records_max: usize) -> Result<Vec<(u64, Mac, Vec<u8>)>, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT sequence, mac, body, ended_ms FROM records ORDER BY sequence LIMIT ?1").map_err(unavailable)?;
    let mut rows = select.query([records_max as i64]).map_err(unavailable)?;
    let mut old = Vec::new();
    while let Some(row) = rows.next().map_err(unavailable)? {
        let ended_ms: i64 = row.get(3).map_err(unavailable)?;
        if ended_ms as u64 >= before_ms {
            break;
        }
        let sequence = unsigned(row.get(0).map_err(unavailable)?, "a sequence number")?;
        let mac: Vec<u8> = row.get(1).map_err(unavailable)?;
        old.push((sequence, array(&mac, "a MAC")?, row.get(2).map_err(unavailable)?));
    }
    Ok(old)
}

fn delete_rows(connection: &Connection, rows: &Rows) -> rusqlite::Result<()> {
    let mut execution = connection.prepare_cached("DELETE FROM executions WHERE started_ms = ?1 AND tail = ?2 AND sequence = ?3")?;
    for row in &rows.executions {
        let (started_ms, tail) = row.key.signed();
        execution.execute(params![started_ms, tail, row.sequence as i64])?;
    }
    let mut violation = connection.prepare_cached("DELETE FROM violations WHERE ended_ms = ?1 AND sequence = ?2 AND place = ?3")?;
    for row in &rows.violations {
        violation.execute(params![row.ended_ms as i64, row.sequence as i64, row.place])?;
    }
    Ok(())
}
