//! Methods that only the ledger itself uses: its chain, index rows of a record, and first results.

use rusqlite::{OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::{SqliteStore, WRITER, array, unavailable, unsigned, write};
use crate::ledger::{
    chain::{Anchor, ChainKeys},
    index::{ExecutionKey, ExecutionRow, IndexRows, ViolationRow},
    record::Digest,
    sealed_kv::cipher::SealedRow,
    store::{Batch, Chain, ChainStore, FirstResult, HourlyRow, Position, SealedTable, StoreError, StoredRecord},
};

/// A record's row: sequence, exchange, ended_ms, body, mac.
fn stored(row: &Row<'_>) -> Result<StoredRecord, StoreError> {
    let bytes = |at: usize| row.get::<_, Vec<u8>>(at).map_err(unavailable);
    let number = |at: usize| row.get::<_, i64>(at).map_err(unavailable);
    let sequence = unsigned(number(0)?, "a sequence number")?;
    Ok(StoredRecord {
        position: Position { writer: WRITER, sequence, mac: array(&bytes(4)?, &format!("the MAC of record {sequence}"))? },
        exchange: Uuid::from_bytes(array(&bytes(1)?, &format!("the exchange of record {sequence}"))?),
        ended_ms: unsigned(number(2)?, &format!("the time of record {sequence}"))?,
        body: bytes(3)?,
    })
}

impl ChainStore for SqliteStore {
    fn begin(&self, hour: u32) -> Result<(Position, Vec<HourlyRow>), StoreError> {
        self.begin_writing(hour)
    }

    fn append(&self, batch: &Batch<'_>) -> Result<(), StoreError> {
        self.write(batch)
    }

    fn prune(&self, before_ms: u64, now_ms: u64, records_max: usize, keys: &ChainKeys) -> Result<usize, StoreError> {
        self.remove(before_ms, now_ms, records_max, keys)
    }

    fn chains(&self) -> Result<Vec<Chain>, StoreError> {
        self.reading(|connection| {
            let sql = "SELECT writer, sequence, mac, pruned_ms, seal FROM anchors";
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let mut rows = select.query([]).map_err(unavailable)?;
            let mut anchor = None;
            while let Some(row) = rows.next().map_err(unavailable)? {
                let number = |at: usize| row.get::<_, i64>(at).map_err(unavailable);
                let bytes = |at: usize| row.get::<_, Vec<u8>>(at).map_err(unavailable);
                let writer = u32::try_from(number(0)?).ok().filter(|writer| *writer == WRITER);
                anchor = Some(Anchor {
                    writer: writer.ok_or_else(|| StoreError::Corrupt("an anchor of another writer".into()))?,
                    sequence: unsigned(number(1)?, "an anchor's sequence number")?,
                    mac: array(&bytes(2)?, "an anchor's MAC")?,
                    pruned_ms: unsigned(number(3)?, "an anchor's time")?,
                    seal: array(&bytes(4)?, "an anchor's seal")?,
                });
            }
            let tip = write::tip(connection)?;
            Ok(if anchor.is_none() && tip.is_none() { Vec::new() } else { vec![Chain { writer: WRITER, anchor, tip }] })
        })
    }

    fn records(&self, _writer: u32, after: u64, limit: usize) -> Result<Vec<StoredRecord>, StoreError> {
        self.reading(|connection| {
            let sql = "SELECT sequence, exchange, ended_ms, body, mac FROM records WHERE sequence > ?1 ORDER BY sequence LIMIT ?2";
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let mut rows = select.query(params![after as i64, limit as i64]).map_err(unavailable)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next().map_err(unavailable)? {
                all.push(stored(row)?);
            }
            Ok(all)
        })
    }

    fn rows(&self, position: &Position, expected: &IndexRows<'_>) -> Result<IndexRows<'static>, StoreError> {
        self.reading(|connection| {
            let sql = "SELECT sequence, place, tool, session, result FROM executions WHERE started_ms = ?1 AND tail = ?2";
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let mut executions = Vec::new();
            for wanted in &expected.executions {
                let row = select
                    .query_row(params![wanted.key.signed().0, wanted.key.signed().1], |row| {
                        let tool: String = row.get(2)?;
                        Ok((row.get::<_, i64>(0)?, row.get(1)?, tool, row.get::<_, Option<String>>(3)?, row.get::<_, Vec<u8>>(4)?))
                    })
                    .optional()
                    .map_err(unavailable)?;
                let Some((sequence, place, tool, session, result)) = row else { continue };
                let sequence = unsigned(sequence, "a sequence number")?;
                let session = session.map(Into::into);
                let result = Digest(array(&result, "a result's digest")?);
                executions.push(ExecutionRow { key: wanted.key, writer: WRITER, sequence, place, tool: tool.into(), session, result });
            }
            let sql = "SELECT place, code, tool, model FROM violations WHERE ended_ms = ?1 AND sequence = ?2 ORDER BY place";
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let row = |row: &Row<'_>| {
                Ok(ViolationRow {
                    writer: WRITER,
                    sequence: position.sequence,
                    place: row.get(0)?,
                    ended_ms: expected.ended_ms,
                    code: row.get::<_, String>(1)?.into(),
                    tool: row.get::<_, Option<String>>(2)?.map(Into::into),
                    model: row.get::<_, String>(3)?.into(),
                })
            };
            let values = params![expected.ended_ms as i64, position.sequence as i64];
            let violations = select.query_map(values, row).and_then(Iterator::collect).map_err(unavailable)?;
            Ok(IndexRows { exchange: expected.exchange, ended_ms: expected.ended_ms, executions, violations })
        })
    }

    fn row_counts(&self, tips: &[(u32, u64)]) -> Result<(u64, u64), StoreError> {
        let tip = tips.iter().find(|(writer, _)| *writer == WRITER).map_or(0, |(_, sequence)| *sequence as i64);
        self.reading(|connection| {
            let count = |table: &str| {
                let sql = format!(
                    "SELECT count(*) FROM {table} t WHERE sequence <= ?1 OR NOT EXISTS (SELECT 1 FROM records r WHERE r.sequence = t.sequence)"
                );
                connection.query_row(&sql, [tip], |row| row.get::<_, i64>(0)).map_err(unavailable)
            };
            Ok((count("executions")? as u64, count("violations")? as u64))
        })
    }

    fn known(&self, keys: &[ExecutionKey]) -> Result<Vec<FirstResult>, StoreError> {
        self.reading(|connection| {
            let sql = "SELECT result, session FROM executions WHERE started_ms = ?1 AND tail = ?2";
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let mut all = Vec::new();
            for key in keys {
                let row: Option<(Vec<u8>, Option<String>)> = select
                    .query_row(params![key.signed().0, key.signed().1], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
                    .map_err(unavailable)?;
                if let Some((result, session)) = row {
                    let (result, session) = (Digest(array(&result, "a result's digest")?), session.map(Into::into));
                    all.push(FirstResult { key: *key, result, session, recorded: true });
                }
            }
            Ok(all)
        })
    }

    fn note(&self, row: SealedRow) -> Option<u32> {
        self.note_row(row)
    }

    fn give_back(&self, slots: &[u32]) {
        self.take_back(slots);
    }

    fn put_kept(&self, rows: &[SealedRow]) -> Result<(), StoreError> {
        self.put_rows(SealedTable::Kept, rows)
    }

    fn kept(&self, ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        self.find_rows(SealedTable::Kept, ids)
    }

    fn prune_kept(&self, before_ms: u64, bytes_max: u64) -> Result<bool, StoreError> {
        self.remove_rows(SealedTable::Kept, before_ms, bytes_max)
    }

    fn put_bodies(&self, rows: &[SealedRow]) -> Result<(), StoreError> {
        self.put_rows(SealedTable::Bodies, rows)
    }

    fn bodies(&self, ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        self.find_rows(SealedTable::Bodies, ids)
    }

    fn prune_bodies(&self, before_ms: u64, bytes_max: u64) -> Result<bool, StoreError> {
        self.remove_rows(SealedTable::Bodies, before_ms, bytes_max)
    }

    fn is_lasting(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        false
    }
}
