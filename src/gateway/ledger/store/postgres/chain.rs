//! Methods that only the ledger itself uses: chains, index rows of a record, and first results.

use postgres::Row;
use uuid::Uuid;

use super::{PostgresStore, array, get, kv::Replaced, unavailable, unsigned, write, writer_of};
use crate::ledger::{
    chain::{Anchor, ChainKeys},
    index::{ExecutionKey, ExecutionRow, IndexRows, ViolationRow},
    record::Digest,
    sealed_kv::cipher::SealedRow,
    store::{Batch, Chain, ChainStore, FirstResult, HourlyRow, Position, SealedTable, StoreError, StoredRecord},
};

/// A record's row: writer, sequence, exchange, ended_ms, body, mac.
fn stored(row: &Row) -> Result<StoredRecord, StoreError> {
    let sequence = unsigned(get(row, 1)?, "a sequence number")?;
    let mac = array(&get::<Vec<u8>>(row, 5)?, &format!("the MAC of record {sequence}"))?;
    Ok(StoredRecord {
        position: Position { writer: writer_of(row, 0)?, sequence, mac },
        exchange: Uuid::from_bytes(array(&get::<Vec<u8>>(row, 2)?, &format!("the exchange of record {sequence}"))?),
        ended_ms: unsigned(get(row, 3)?, &format!("the time of record {sequence}"))?,
        body: get(row, 4)?,
    })
}

fn anchor(row: &Row) -> Result<Anchor, StoreError> {
    Ok(Anchor {
        writer: writer_of(row, 0)?,
        sequence: unsigned(get(row, 1)?, "an anchor's sequence number")?,
        mac: array(&get::<Vec<u8>>(row, 2)?, "an anchor's MAC")?,
        pruned_ms: unsigned(get(row, 3)?, "an anchor's time")?,
        seal: array(&get::<Vec<u8>>(row, 4)?, "an anchor's seal")?,
    })
}

impl ChainStore for PostgresStore {
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
        self.reading(|client| {
            let failed = |error: postgres::Error| unavailable(&error);
            let rows = client.query("SELECT writer, sequence, mac, pruned_ms, seal FROM toolmark_anchors", &[]).map_err(failed)?;
            let anchors = rows.iter().map(anchor).collect::<Result<Vec<_>, _>>()?;
            // Not by the list of writers alone: removing a number from it must not hide records.
            let sql = "SELECT writer FROM toolmark_writers UNION SELECT writer FROM toolmark_records UNION SELECT writer FROM toolmark_anchors \
                       ORDER BY 1";
            let writers = client.query(sql, &[]).map_err(failed)?;
            let mut chains = Vec::new();
            for row in &writers {
                let writer = writer_of(row, 0)?;
                let tip = write::tip(client, get(row, 0)?)?;
                chains.push(Chain { writer, anchor: anchors.iter().find(|anchor| anchor.writer == writer).cloned(), tip });
            }
            Ok(chains)
        })
    }

    fn records(&self, writer: u32, after: u64, limit: usize) -> Result<Vec<StoredRecord>, StoreError> {
        self.reading(|client| {
            let sql = "SELECT writer, sequence, exchange, ended_ms, body, mac FROM toolmark_records \
                       WHERE writer = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
            let values = (writer as i32, after as i64, limit as i64);
            let rows = client.query(sql, &[&values.0, &values.1, &values.2]).map_err(|error| unavailable(&error))?;
            rows.iter().map(stored).collect()
        })
    }

    fn rows(&self, position: &Position, expected: &IndexRows<'_>) -> Result<IndexRows<'static>, StoreError> {
        self.reading(|client| {
            let failed = |error: postgres::Error| unavailable(&error);
            let mut executions = Vec::new();
            let sql = "SELECT writer, sequence, place, tool, session, result FROM toolmark_executions WHERE started_ms = $1 AND tail = $2";
            for wanted in &expected.executions {
                let (started_ms, tail) = wanted.key.signed();
                let Some(row) = client.query_opt(sql, &[&started_ms, &tail]).map_err(failed)? else { continue };
                executions.push(ExecutionRow {
                    key: wanted.key,
                    writer: writer_of(&row, 0)?,
                    sequence: unsigned(get(&row, 1)?, "a sequence number")?,
                    place: get::<i32>(&row, 2)? as u32,
                    tool: get::<String>(&row, 3)?.into(),
                    session: get::<Option<String>>(&row, 4)?.map(Into::into),
                    result: Digest(array(&get::<Vec<u8>>(&row, 5)?, "a result's digest")?),
                });
            }
            let sql = "SELECT place, code, tool, model FROM toolmark_violations \
                       WHERE ended_ms = $1 AND writer = $2 AND sequence = $3 ORDER BY place";
            let values = (expected.ended_ms as i64, position.writer as i32, position.sequence as i64);
            let rows = client.query(sql, &[&values.0, &values.1, &values.2]).map_err(failed)?;
            let row = |row: &Row| {
                Ok(ViolationRow {
                    writer: position.writer,
                    sequence: position.sequence,
                    place: get::<i32>(row, 0)? as u32,
                    ended_ms: expected.ended_ms,
                    code: get::<String>(row, 1)?.into(),
                    tool: get::<Option<String>>(row, 2)?.map(Into::into),
                    model: get::<String>(row, 3)?.into(),
                })
            };
            let violations = rows.iter().map(row).collect::<Result<_, StoreError>>()?;
            Ok(IndexRows { exchange: expected.exchange, ended_ms: expected.ended_ms, executions, violations })
        })
    }

    fn row_counts(&self, tips: &[(u32, u64)]) -> Result<(u64, u64), StoreError> {
        let (writers, sequences): (Vec<i32>, Vec<i64>) = tips.iter().map(|(writer, sequence)| (*writer as i32, *sequence as i64)).unzip();
        self.reading(|client| {
            let mut count = |table: &str| {
                let sql = format!(
                    "SELECT count(*) FROM {table} t LEFT JOIN unnest($1::integer[], $2::bigint[]) AS n (writer, tip) ON n.writer = t.writer \
                     WHERE t.sequence <= n.tip OR NOT EXISTS \
                     (SELECT 1 FROM toolmark_records r WHERE r.writer = t.writer AND r.sequence = t.sequence)"
                );
                let row = client.query_one(&sql, &[&writers, &sequences]).map_err(|error| unavailable(&error))?;
                get::<i64>(&row, 0)
            };
            Ok((count("toolmark_executions")? as u64, count("toolmark_violations")? as u64))
        })
    }

    fn known(&self, keys: &[ExecutionKey]) -> Result<Vec<FirstResult>, StoreError> {
        let (started, tails): (Vec<i64>, Vec<i64>) = keys.iter().map(|key| key.signed()).unzip();
        self.reading(|client| {
            let sql = "SELECT e.started_ms, e.tail, e.result, e.session FROM toolmark_executions e \
                       JOIN unnest($1::bigint[], $2::bigint[]) AS n (started_ms, tail) USING (started_ms, tail) UNION ALL \
                       SELECT c.started_ms, c.tail, c.result, c.session FROM toolmark_claims c \
                       JOIN unnest($1::bigint[], $2::bigint[]) AS n (started_ms, tail) USING (started_ms, tail)";
            let statement = client.prepared(sql).map_err(|error| unavailable(&error))?;
            let rows = client.query(&statement, &[&started, &tails]).map_err(|error| unavailable(&error))?;
            let first = |row: &Row| {
                let key = ExecutionKey { started_ms: unsigned(get(row, 0)?, "a time")?, tail: get::<i64>(row, 1)? as u64 };
                let result = Digest(array(&get::<Vec<u8>>(row, 2)?, "a digest")?);
                Ok(FirstResult { key, result, session: get::<Option<String>>(row, 3)?.map(Into::into), recorded: true })
            };
            rows.iter().map(first).collect()
        })
    }

    fn claim(&self, claims: &[FirstResult], now_ms: u64) -> Result<Vec<FirstResult>, StoreError> {
        self.settle(claims, now_ms)
    }

    fn put_kept(&self, rows: &[SealedRow]) -> Result<(), StoreError> {
        self.put_rows(SealedTable::Kept, rows, Replaced::Always)
    }

    fn put_kept_late(&self, rows: &[SealedRow]) -> Result<(), StoreError> {
        self.put_rows(SealedTable::Kept, rows, Replaced::IfOlder)
    }

    fn kept(&self, ids: &[[u8; 32]]) -> Result<Vec<SealedRow>, StoreError> {
        self.find_rows(SealedTable::Kept, ids)
    }

    fn prune_kept(&self, before_ms: u64, bytes_max: u64) -> Result<bool, StoreError> {
        self.remove_rows(SealedTable::Kept, before_ms, bytes_max)
    }

    fn put_bodies(&self, rows: &[SealedRow]) -> Result<(), StoreError> {
        self.put_rows(SealedTable::Bodies, rows, Replaced::Always)
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
        true
    }
}
