//! Writing: batches of records, and removal of expired records.

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, ToSql, params};

use super::{SqliteStore, WRITER, array, unavailable, unsigned};
use crate::ledger::{
    chain::{ChainKeys, Mac},
    codec,
    index::{ExecutionRow, IndexRows, ViolationRow},
    store::{
        Batch, HourlyRow, Position, SealedRecord, StoreError,
        sqlite::{fsync, query},
    },
};

const RECORD: &str = "INSERT INTO records (sequence, exchange, ended_ms, body, mac)";
/// If an execution is recorded twice, its row stays with the first record.
const EXECUTION: &str = "INSERT OR IGNORE INTO executions (started_ms, tail, sequence, place, tool, session, result)";
const VIOLATION: &str = "INSERT INTO violations (ended_ms, sequence, place, code, tool, model)";
const HOUR: &str = "INSERT OR REPLACE INTO hours (hour, name, sums) VALUES (?1, ?2, ?3)";
const MILLIS_PER_HOUR: u64 = 3_600_000;

impl SqliteStore {
    pub(super) fn begin_writing(&self, hour: u32) -> Result<(Position, Vec<HourlyRow>), StoreError> {
        self.writing(|connection| {
            let position = tip(connection)?.unwrap_or(Position { writer: WRITER, sequence: 0, mac: ChainKeys::genesis(WRITER) });
            Ok((position, query::hours(connection, hour, u32::MAX)?))
        })
    }

    pub(super) fn write(&self, batch: &Batch<'_>) -> Result<(), StoreError> {
        let rows = batch.records.iter().map(SealedRecord::rows).collect::<Result<Vec<_>, _>>()?;
        self.writing(|connection| {
            let transaction = connection.transaction().map_err(unavailable)?;
            insert(&transaction, batch, &rows).map_err(unavailable)?;
            transaction.commit().map_err(unavailable)
        })?;
        self.behind.iter().for_each(fsync::FsyncWorker::written);
        Ok(())
    }

    pub(super) fn remove(&self, before_ms: u64, now_ms: u64, records_max: usize, keys: &ChainKeys) -> Result<usize, StoreError> {
        self.writing(|connection| {
            let transaction = connection.transaction().map_err(unavailable)?;
            let old = oldest(&transaction, before_ms, records_max)?;
            let Some((last, mac)) = old.last().map(|(sequence, mac, _)| (*sequence, *mac)) else { return Ok(0) };
            for (sequence, _, body) in &old {
                // What can't be read leaves its rows behind: `ledger verify` names them.
                if let Ok(record) = codec::read(body) {
                    delete_rows(&transaction, &IndexRows::of(&record, WRITER, *sequence)).map_err(unavailable)?;
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

/// Position of the chain's newest record; `None` if the chain is empty.
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

/// Rows of one statement: rows that are appended to a table need no search as long as the statement goes on.
const TOGETHER: usize = 16;

/// Insertion of rows into one table, several rows at a time.
struct Insert<'c> {
    one: CachedStatement<'c>,
    several: CachedStatement<'c>,
    columns: usize,
}

impl<'c> Insert<'c> {
    /// `begin`: an `INSERT` up to its values; `columns`: the number of values in a row.
    fn new(connection: &'c Connection, begin: &str, columns: usize) -> rusqlite::Result<Self> {
        let row = format!("({})", vec!["?"; columns].join(", "));
        let sql = |rows: usize| format!("{begin} VALUES {}", vec![&*row; rows].join(", "));
        Ok(Self { one: connection.prepare_cached(&sql(1))?, several: connection.prepare_cached(&sql(TOGETHER))?, columns })
    }

    /// Inserts all rows. `bind` passes a row's values to the statement, in the order of the columns.
    fn all<T>(&mut self, rows: &[T], bind: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let (chunks, rest) = rows.as_chunks::<TOGETHER>();
        for chunk in chunks {
            execute(&mut self.several, chunk, self.columns, &bind)?;
        }
        rest.iter().try_for_each(|row| execute(&mut self.one, std::slice::from_ref(row), self.columns, &bind))
    }
}

/// Binds a row's values to a statement.
struct Values<'s, 'c> {
    statement: &'s mut CachedStatement<'c>,
    next: usize,
}

impl Values<'_, '_> {
    fn put(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.next += 1;
        self.statement.raw_bind_parameter(self.next, value)
    }
}

fn execute<T>(
    statement: &mut CachedStatement<'_>,
    rows: &[T],
    columns: usize,
    bind: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    for (row, number) in rows.iter().zip(0..) {
        bind(row, &mut Values { statement, next: number * columns })?;
    }
    statement.raw_execute().map(drop)
}

fn insert(connection: &Connection, batch: &Batch<'_>, rows: &[IndexRows<'_>]) -> rusqlite::Result<()> {
    let records: Vec<(&SealedRecord<'_>, &IndexRows<'_>)> = batch.records.iter().zip(rows).collect();
    Insert::new(connection, RECORD, 5)?.all(&records, |(sealed, rows), values| {
        values.put(sealed.position.sequence as i64)?;
        values.put(&rows.exchange.as_bytes()[..])?;
        values.put(rows.ended_ms as i64)?;
        values.put(&*sealed.body)?;
        values.put(&sealed.position.mac[..])
    })?;
    let executions: Vec<&ExecutionRow<'_>> = rows.iter().flat_map(|rows| &rows.executions).collect();
    if !executions.is_empty() {
        Insert::new(connection, EXECUTION, 7)?.all(&executions, |row, values| {
            let (started_ms, tail) = row.key.signed();
            values.put(started_ms)?;
            values.put(tail)?;
            values.put(row.sequence as i64)?;
            values.put(row.place)?;
            values.put(&row.tool)?;
            values.put(&row.session)?;
            values.put(&row.result.0[..])
        })?;
    }
    let mut violations: Vec<&ViolationRow<'_>> = rows.iter().flat_map(|rows| &rows.violations).collect();
    if !violations.is_empty() {
        violations.sort_by_key(|row| (row.ended_ms, row.sequence, row.place));
        Insert::new(connection, VIOLATION, 6)?.all(&violations, |row, values| {
            values.put(row.ended_ms as i64)?;
            values.put(row.sequence as i64)?;
            values.put(row.place)?;
            values.put(&row.code)?;
            values.put(&row.tool)?;
            values.put(&row.model)
        })?;
    }
    let mut hour = connection.prepare_cached(HOUR)?;
    for row in &batch.hours {
        hour.execute(params![row.hour, row.name, row.sums])?;
    }
    Ok(())
}

/// Returns the oldest records that ended before `before_ms`, at most `records_max`.
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

fn delete_rows(connection: &Connection, rows: &IndexRows<'_>) -> rusqlite::Result<()> {
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
