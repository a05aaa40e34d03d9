//! Reading of records, executions, violations and sums, by the index rows.

use std::sync::Arc;

use postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{PostgresStore, get, unavailable, unsigned, writer_of};
use crate::ledger::{
    codec,
    index::ExecutionKey,
    record::ExchangeRecord,
    store::{
        ExecutionFilter, FoundExecution, FoundViolation, HourlyRow, PageQuery, RecordFilter, ResultPage, Store, StoreError,
        ViolationFilter, page,
    },
};

/// Records that are read at a time for a page of exchanges.
const SCAN_STEP: i64 = 500;
/// Records that the server searches at a time for a text.
const SEARCH_STEP: i64 = 5_000;
/// Reads records backwards from a place, numbered from 1: those that hold the text (`$6`, if any), those in JSON, and the last one, whose
/// body is null if it doesn't hold the text.
pub const SCAN: &str = "WITH part AS MATERIALIZED (SELECT ended_ms, writer::bigint AS writer, sequence, \
    CASE WHEN $6::bytea IS NULL OR get_byte(body, 0) = 123 OR position($6 in body) > 0 THEN body END AS body FROM toolmark_records \
    WHERE (ended_ms, writer::bigint, sequence) < ($1, $2, $3) AND ended_ms >= $4 \
    ORDER BY ended_ms DESC, writer DESC, sequence DESC LIMIT $5), \
    numbered AS (SELECT part.*, row_number() OVER (ORDER BY ended_ms DESC, writer DESC, sequence DESC) AS number, count(*) OVER () AS rows FROM part) \
    SELECT ended_ms, writer, sequence, body, number FROM numbered WHERE body IS NOT NULL OR number = rows ORDER BY number";

type Value<'v> = &'v (dyn ToSql + Sync);

/// Decodes a stored record.
fn decode(row: &Row, at: usize) -> Result<ExchangeRecord, StoreError> {
    codec::read(&get::<Vec<u8>>(row, at)?)
}

fn place(row: &Row, at: usize) -> Result<usize, StoreError> {
    Ok(usize::try_from(get::<i32>(row, at)?).unwrap_or(usize::MAX))
}

pub(super) fn hour(row: &Row) -> Result<HourlyRow, StoreError> {
    let hour = u32::try_from(get::<i64>(row, 1)?).map_err(|_| StoreError::Corrupt("an hour that can't be".into()))?;
    Ok(HourlyRow { writer: writer_of(row, 0)?, hour, name: get::<String>(row, 2)?.into(), sums: get(row, 3)? })
}

impl Store for PostgresStore {
    fn exchange(&self, id: Uuid) -> Result<Option<Arc<ExchangeRecord>>, StoreError> {
        self.reading(|client| {
            let sql = "SELECT body FROM toolmark_records WHERE exchange = $1";
            let row = client.query_opt(sql, &[&&id.as_bytes()[..]]).map_err(|error| unavailable(&error))?;
            row.map(|row| decode(&row, 0).map(Arc::new)).transpose()
        })
    }

    fn execution(&self, id: &str) -> Result<Option<FoundExecution>, StoreError> {
        let Some(key) = ExecutionKey::of(id) else { return Ok(None) };
        let sql = "SELECT r.body, e.place FROM toolmark_executions e JOIN toolmark_records r USING (writer, sequence) \
                   WHERE e.started_ms = $1 AND e.tail = $2";
        self.reading(|client| {
            let (started_ms, tail) = key.signed();
            let row = client.query_opt(sql, &[&started_ms, &tail]).map_err(|error| unavailable(&error))?;
            let found = row.map(|row| page::execution(&decode(&row, 0)?, place(&row, 1)?, key)).transpose()?;
            Ok(found.filter(|found| *found.execution.id == *id))
        })
    }

    fn executions(&self, filter: &ExecutionFilter) -> Result<ResultPage<FoundExecution>, StoreError> {
        let window = page::PageWindow::<2>::of(&filter.page)?;
        let [before_ms, before_tail] = window.before;
        let sql = "SELECT e.started_ms, e.tail, e.place, r.body FROM toolmark_executions e JOIN toolmark_records r USING (writer, sequence) \
                   WHERE (e.started_ms, e.tail) < ($1, $2) AND e.started_ms >= $3 AND ($4::text IS NULL OR e.tool = $4) \
                   AND ($5::text IS NULL OR e.session = $5) ORDER BY e.started_ms DESC, e.tail DESC LIMIT $6";
        let rows = self.reading(|client| {
            let rows_max = window.rows();
            let values: [Value<'_>; 6] = [&before_ms, &before_tail, &window.since_ms, &filter.tool, &filter.session, &rows_max];
            let rows = client.query(sql, &values).map_err(|error| unavailable(&error))?;
            let found = |row: &Row| {
                let (started, tail) = (get::<i64>(row, 0)?, get::<i64>(row, 1)?);
                let key = ExecutionKey { started_ms: unsigned(started, "a time")?, tail: tail as u64 };
                Ok(([started, tail], page::execution(&decode(row, 3)?, place(row, 2)?, key)?))
            };
            rows.iter().map(found).collect::<Result<Vec<_>, StoreError>>()
        })?;
        Ok(window.page(rows))
    }

    fn violations(&self, filter: &ViolationFilter) -> Result<ResultPage<FoundViolation>, StoreError> {
        let window = page::PageWindow::<4>::of(&filter.page)?;
        let [before_ms, before_writer, before_sequence, before_place] = window.before;
        let sql = "SELECT v.ended_ms, v.writer, v.sequence, v.place, r.body FROM toolmark_violations v \
                   JOIN toolmark_records r USING (writer, sequence) \
                   WHERE (v.ended_ms, v.writer::bigint, v.sequence, v.place::bigint) < ($1, $2, $3, $4) AND v.ended_ms >= $5 \
                   AND ($6::text IS NULL OR v.code = $6) AND ($7::text IS NULL OR v.tool = $7) AND ($8::text IS NULL OR v.model = $8) \
                   ORDER BY v.ended_ms DESC, v.writer DESC, v.sequence DESC, v.place DESC LIMIT $9";
        let rows = self.reading(|client| {
            let rows_max = window.rows();
            let cursor: [Value<'_>; 5] = [&before_ms, &before_writer, &before_sequence, &before_place, &window.since_ms];
            let filters: [Value<'_>; 4] = [&filter.code, &filter.tool, &filter.model, &rows_max];
            let rows = client.query(sql, &[&cursor[..], &filters[..]].concat()).map_err(|error| unavailable(&error))?;
            let found = |row: &Row| {
                let (writer, at) = (i64::from(get::<i32>(row, 1)?), i64::from(get::<i32>(row, 3)?));
                Ok(([get(row, 0)?, writer, get(row, 2)?, at], page::violation(&decode(row, 4)?, place(row, 3)?)?))
            };
            rows.iter().map(found).collect::<Result<Vec<_>, StoreError>>()
        })?;
        Ok(window.page(rows))
    }

    fn exchanges(&self, page: &PageQuery, filter: RecordFilter<'_>) -> Result<ResultPage<Arc<ExchangeRecord>>, StoreError> {
        let window = page::PageWindow::<3>::of(page)?;
        // One text is searched for by the server, so that bodies without it aren't sent here.
        let text = filter.texts.iter().max_by_key(|text| text.len()).map(|text| text.as_bytes());
        let step = if text.is_some() { SEARCH_STEP } else { i64::try_from(window.limit()).unwrap_or(i64::MAX).max(SCAN_STEP) };
        self.reading(|client| {
            let ([mut ended_ms, mut writer, mut sequence], since_ms) = (window.before, window.since_ms);
            let mut scan = page::RecordScan::new(window, filter);
            loop {
                let values: [Value<'_>; 6] = [&ended_ms, &writer, &sequence, &since_ms, &step, &text];
                let rows = client.query(SCAN, &values).map_err(|error| unavailable(&error))?;
                let mut before = 0;
                for row in &rows {
                    (ended_ms, writer, sequence) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
                    let (place, number) = ([ended_ms, writer, sequence], get::<i64>(row, 4)?);
                    let passed = u64::try_from(number - before).unwrap_or(1);
                    before = number;
                    let goes_on = match get::<Option<Vec<u8>>>(row, 3)? {
                        Some(body) => scan.pass(place, passed.saturating_sub(1)) && scan.look(place, &body)?,
                        None => scan.pass(place, passed),
                    };
                    if !goes_on {
                        return Ok(scan.page());
                    }
                }
                if before < step {
                    return Ok(scan.page());
                }
            }
        })
    }

    fn hours(&self, since: u32, until: u32) -> Result<Vec<HourlyRow>, StoreError> {
        self.reading(|client| {
            let sql = "SELECT writer, hour, name, sums FROM toolmark_hours WHERE hour >= $1 AND hour < $2";
            let rows = client.query(sql, &[&i64::from(since), &i64::from(until)]).map_err(|error| unavailable(&error))?;
            rows.iter().map(hour).collect()
        })
    }

    fn recent(&self, since_ms: u64, limit: usize) -> Result<Vec<Arc<ExchangeRecord>>, StoreError> {
        let sql = "SELECT body FROM toolmark_records WHERE ended_ms >= $1 ORDER BY ended_ms DESC, writer DESC, sequence DESC LIMIT $2";
        self.reading(|client| {
            let values = (i64::try_from(since_ms).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
            let rows = client.query(sql, &[&values.0, &values.1]).map_err(|error| unavailable(&error))?;
            rows.iter().map(|row| decode(row, 0).map(Arc::new)).collect()
        })
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.reading(|client| client.query_one("SELECT 1", &[]).map(drop).map_err(|error| unavailable(&error)))
    }
}
