//! Reading of records, executions, violations and sums, by the index rows.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::{SqliteStore, WRITER, unavailable, unsigned};
use crate::ledger::{
    codec,
    index::ExecutionKey,
    record::ExchangeRecord,
    store::{
        ExecutionFilter, FoundExecution, FoundViolation, HourlyRow, PageQuery, RecordFilter, ResultPage, Store, StoreError,
        ViolationFilter, page,
    },
};

/// Longest time by which an exchange may have ended before one whose record precedes its own, in milliseconds.
const DISORDER_MS: u64 = 60_000;

/// Reads records backwards from a place in the chain.
pub(super) const SCAN: &str = "SELECT sequence, ended_ms, body FROM records WHERE sequence < ?1 ORDER BY sequence DESC";

/// Returns the execution that an index row points to.
fn found(body: &[u8], place: i64, key: ExecutionKey) -> Result<FoundExecution, StoreError> {
    let record = codec::read(body)?;
    page::execution(&record, usize::try_from(place).unwrap_or(usize::MAX), key)
}

pub(super) fn hours(connection: &Connection, since: u32, until: u32) -> Result<Vec<HourlyRow>, StoreError> {
    let sql = "SELECT hour, name, sums FROM hours WHERE hour >= ?1 AND hour < ?2";
    let row = |row: &Row<'_>| Ok(HourlyRow { writer: WRITER, hour: row.get(0)?, name: row.get::<_, String>(1)?.into(), sums: row.get(2)? });
    let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
    select.query_map([since, until], row).and_then(Iterator::collect).map_err(unavailable)
}

impl Store for SqliteStore {
    fn exchange(&self, id: Uuid) -> Result<Option<Arc<ExchangeRecord>>, StoreError> {
        self.reading(|connection| {
            let mut select = connection.prepare_cached("SELECT body FROM records WHERE exchange = ?1").map_err(unavailable)?;
            let body: Option<Vec<u8>> = select.query_row([&id.as_bytes()[..]], |row| row.get(0)).optional().map_err(unavailable)?;
            body.map(|body| codec::read(&body).map(Arc::new)).transpose()
        })
    }

    fn execution(&self, id: &str) -> Result<Option<FoundExecution>, StoreError> {
        let Some(key) = ExecutionKey::of(id) else { return Ok(None) };
        let sql =
            "SELECT r.body, e.place FROM executions e JOIN records r ON r.sequence = e.sequence WHERE e.started_ms = ?1 AND e.tail = ?2";
        self.reading(|connection| {
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let (started_ms, tail) = key.signed();
            let row: Option<(Vec<u8>, i64)> =
                select.query_row(params![started_ms, tail], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(unavailable)?;
            let found = row.map(|(body, place)| found(&body, place, key)).transpose()?;
            Ok(found.filter(|found| *found.execution.id == *id))
        })
    }

    fn executions(&self, filter: &ExecutionFilter) -> Result<ResultPage<FoundExecution>, StoreError> {
        let window = page::PageWindow::<2>::of(&filter.page)?;
        let [before_ms, before_tail] = window.before;
        let sql = "SELECT e.started_ms, e.tail, e.place, r.body FROM executions e JOIN records r ON r.sequence = e.sequence \
                   WHERE (e.started_ms, e.tail) < (?1, ?2) AND e.started_ms >= ?3 AND (?4 IS NULL OR e.tool = ?4) \
                   AND (?5 IS NULL OR e.session = ?5) ORDER BY e.started_ms DESC, e.tail DESC LIMIT ?6";
        let rows = self.reading(|connection| {
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let values = params![before_ms, before_tail, window.since_ms, filter.tool, filter.session, window.rows()];
            let mut rows = select.query(values).map_err(unavailable)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next().map_err(unavailable)? {
                let get = |at: usize| row.get::<_, i64>(at).map_err(unavailable);
                let (started, tail) = (get(0)?, get(1)?);
                let key = ExecutionKey { started_ms: unsigned(started, "a time")?, tail: tail as u64 };
                let body: Vec<u8> = row.get(3).map_err(unavailable)?;
                all.push(([started, tail], found(&body, get(2)?, key)?));
            }
            Ok(all)
        })?;
        Ok(window.page(rows))
    }

    fn violations(&self, filter: &ViolationFilter) -> Result<ResultPage<FoundViolation>, StoreError> {
        let window = page::PageWindow::<3>::of(&filter.page)?;
        let [before_ms, before_sequence, before_place] = window.before;
        let sql = "SELECT v.ended_ms, v.sequence, v.place, r.body FROM violations v JOIN records r ON r.sequence = v.sequence \
                   WHERE (v.ended_ms, v.sequence, v.place) < (?1, ?2, ?3) AND v.ended_ms >= ?4 AND (?5 IS NULL OR v.code = ?5) \
                   AND (?6 IS NULL OR v.tool = ?6) AND (?7 IS NULL OR v.model = ?7) \
                   ORDER BY v.ended_ms DESC, v.sequence DESC, v.place DESC LIMIT ?8";
        let rows = self.reading(|connection| {
            let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
            let values =
                params![before_ms, before_sequence, before_place, window.since_ms, filter.code, filter.tool, filter.model, window.rows()];
            let mut rows = select.query(values).map_err(unavailable)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next().map_err(unavailable)? {
                let get = |at: usize| row.get::<_, i64>(at).map_err(unavailable);
                let body: Vec<u8> = row.get(3).map_err(unavailable)?;
                let place = get(2)?;
                let found = page::violation(&codec::read(&body)?, usize::try_from(place).unwrap_or(usize::MAX))?;
                all.push(([get(0)?, get(1)?, place], found));
            }
            Ok(all)
        })?;
        Ok(window.page(rows))
    }

    fn recent(&self, since_ms: u64, limit: usize) -> Result<Vec<Arc<ExchangeRecord>>, StoreError> {
        self.reading(|connection| {
            let mut select = connection.prepare_cached("SELECT ended_ms, body FROM records ORDER BY sequence DESC").map_err(unavailable)?;
            let mut rows = select.query([]).map_err(unavailable)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next().map_err(unavailable)? {
                let ended_ms = unsigned(row.get(0).map_err(unavailable)?, "a time")?;
                // Records are chained nearly in the order of their ends.
                if ended_ms.saturating_add(DISORDER_MS) < since_ms || all.len() >= limit {
                    break;
                }
                if ended_ms >= since_ms {
                    let body: Vec<u8> = row.get(1).map_err(unavailable)?;
                    all.push(Arc::new(codec::read(&body)?));
                }
            }
            Ok(all)
        })
    }

    fn exchanges(&self, page: &PageQuery, filter: RecordFilter<'_>) -> Result<ResultPage<Arc<ExchangeRecord>>, StoreError> {
        // Ordered by the chain, which is nearly the order of the exchanges' ends.
        let window = page::PageWindow::<1>::of(&PageQuery { until_ms: None, ..page.clone() })?;
        let (since_ms, until_ms) = (page.since_ms.unwrap_or(0), page.until_ms.unwrap_or(u64::MAX));
        let [before] = window.before;
        let mut scan = page::RecordScan::new(window, filter);
        self.reading(|connection| {
            let mut select = connection.prepare_cached(SCAN).map_err(unavailable)?;
            let mut rows = select.query([before]).map_err(unavailable)?;
            while let Some(row) = rows.next().map_err(unavailable)? {
                let ended_ms = unsigned(row.get(1).map_err(unavailable)?, "a time")?;
                if ended_ms.saturating_add(DISORDER_MS) < since_ms {
                    break;
                }
                let place = [row.get(0).map_err(unavailable)?];
                let goes_on = if ended_ms < since_ms || ended_ms >= until_ms {
                    scan.pass(place, 1)
                } else {
                    let body = row.get_ref(2).map_err(unavailable)?.as_blob();
                    scan.look(place, body.map_err(|error| StoreError::Unavailable(error.to_string()))?)?
                };
                if !goes_on {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(scan.page())
    }

    fn hours(&self, since: u32, until: u32) -> Result<Vec<HourlyRow>, StoreError> {
        self.reading(|connection| hours(connection, since, until))
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.reading(|connection| connection.query_row("SELECT count(*) FROM anchors", [], |_| Ok(())).map_err(unavailable))
    }
}
