//! A store in memory that keeps the newest records while the process runs: `[ledger] url = "memory:"`.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

use crate::ledger::{
    chain::ChainKeys,
    codec,
    index::{ExecutionKey, IndexRows},
    record::{ExchangeRecord, ExecutionRecord},
    store::{
        Batch, Chain, ChainStore, ExecutionFilter, FirstResult, FoundExecution, FoundViolation, HourlyRow, PAGE_MAX, PageQuery, Position,
        RecordFilter, ResultPage, SealedRecord, Store, StoreError, StoredRecord, ViolationFilter,
    },
};

/// Records that are kept at most.
pub const RECORDS_MAX: usize = 10_000;
/// Hourly sums that are kept at most.
const HOURS_MAX: usize = 10_000;

#[derive(Default)]
struct MemoryRecords {
    records: VecDeque<Arc<ExchangeRecord>>,
    /// The record that contains an execution first.
    executions: HashMap<ExecutionKey, Arc<ExchangeRecord>>,
    hours: VecDeque<HourlyRow>,
}

/// The store of `[ledger] url = "memory:"`.
#[derive(Default)]
pub struct MemoryStore(Mutex<MemoryRecords>);

impl MemoryStore {
    /// Stores records and hourly sums, and drops the oldest beyond the limits.
    pub fn keep(&self, records: impl IntoIterator<Item = Arc<ExchangeRecord>>, hours: &[HourlyRow]) {
        let mut kept = self.kept();
        for record in records {
            for execution in &record.executions {
                if let Some(key) = ExecutionKey::of(&execution.id) {
                    kept.executions.entry(key).or_insert_with(|| record.clone());
                }
            }
            kept.records.push_back(record);
        }
        while kept.records.len() > RECORDS_MAX {
            let gone = kept.records.pop_front();
            for execution in gone.iter().flat_map(|record| &record.executions) {
                if let Some(key) = ExecutionKey::of(&execution.id) {
                    kept.executions.remove(&key);
                }
            }
        }
        for row in hours {
            let same = |own: &&mut HourlyRow| (own.writer, own.hour) == (row.writer, row.hour) && own.name == row.name;
            match kept.hours.iter_mut().rev().find(same) {
                Some(own) => *own = row.clone(),
                None => kept.hours.push_back(row.clone()),
            }
        }
        let over = kept.hours.len().saturating_sub(HOURS_MAX);
        kept.hours.drain(..over);
    }

    fn kept(&self) -> MutexGuard<'_, MemoryRecords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts a page out of rows that are ordered from the newest. `place`: a row's time, and a text that is unique among rows of that time.
fn page<T>(rows: impl Iterator<Item = T>, page: &PageQuery, place: impl Fn(&T) -> (u64, String)) -> Result<ResultPage<T>, StoreError> {
    let after = match page.after.as_deref() {
        None => None,
        Some(cursor) => {
            let (time, rest) = cursor.split_once('-').ok_or(StoreError::Cursor)?;
            Some((time.parse::<u64>().map_err(|_| StoreError::Cursor)?, rest.to_owned()))
        }
    };
    let mut rows: Vec<(u64, String, T)> = rows
        .map(|row| (place(&row), row))
        .map(|((time, rest), row)| (time, rest, row))
        .filter(|(time, ..)| page.since_ms.is_none_or(|since| *time >= since) && page.until_ms.is_none_or(|until| *time < until))
        .filter(|(time, rest, _)| after.as_ref().is_none_or(|after| (*time, rest) < (after.0, &after.1)))
        .collect();
    rows.sort_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
    let limit = page.limit.clamp(1, PAGE_MAX);
    let next = (rows.len() > limit).then(|| rows.get(limit - 1).map(|(time, rest, _)| format!("{time}-{rest}"))).flatten();
    rows.truncate(limit);
    Ok(ResultPage { rows: rows.into_iter().map(|(.., row)| row).collect(), next })
}

fn found(record: &ExchangeRecord, execution: &ExecutionRecord) -> FoundExecution {
    FoundExecution { exchange: record.id, session: record.session.clone(), client: record.client.clone(), execution: execution.clone() }
}

impl Store for MemoryStore {
    fn exchange(&self, id: Uuid) -> Result<Option<Arc<ExchangeRecord>>, StoreError> {
        Ok(self.kept().records.iter().rev().find(|record| record.id == id).cloned())
    }

    fn execution(&self, id: &str) -> Result<Option<FoundExecution>, StoreError> {
        let Some(key) = ExecutionKey::of(id) else { return Ok(None) };
        let kept = self.kept();
        let record = kept.executions.get(&key);
        Ok(record.and_then(|record| Some(found(record, record.executions.iter().find(|execution| *execution.id == *id)?))))
    }

    fn executions(&self, filter: &ExecutionFilter) -> Result<ResultPage<FoundExecution>, StoreError> {
        let kept = self.kept();
        let of_session = |record: &&Arc<ExchangeRecord>| filter.session.is_none() || record.session.as_deref() == filter.session.as_deref();
        let of_tool = |row: &FoundExecution| filter.tool.as_deref().is_none_or(|tool| *row.execution.tool == *tool);
        let rows = kept
            .records
            .iter()
            .rev()
            .filter(of_session)
            .flat_map(|record| record.executions.iter().map(move |execution| found(record, execution)));
        page(rows.filter(of_tool), &filter.page, |row| (row.execution.started_ms, row.execution.id.to_string()))
    }

    fn violations(&self, filter: &ViolationFilter) -> Result<ResultPage<FoundViolation>, StoreError> {
        let kept = self.kept();
        let of_model = |record: &&Arc<ExchangeRecord>| filter.model.as_deref().is_none_or(|model| *record.model == *model);
        let rows = kept.records.iter().rev().filter(of_model).flat_map(|record| {
            record.violations.iter().enumerate().map(move |(number, violation)| {
                let row = FoundViolation {
                    exchange: record.id,
                    at_ms: record.ended_ms(),
                    model: record.model.clone(),
                    violation: violation.clone(),
                };
                (number, row)
            })
        });
        let rows = rows.filter(|(_, row)| {
            let of_code = filter.code.as_deref().is_none_or(|code| row.violation.code.as_str() == code);
            of_code && (filter.tool.is_none() || row.violation.tool.as_deref() == filter.tool.as_deref())
        });
        let found = page(rows, &filter.page, |(number, row)| (row.at_ms, format!("{}-{number:06}", row.exchange.simple())))?;
        Ok(ResultPage { rows: found.rows.into_iter().map(|(_, row)| row).collect(), next: found.next })
    }

    fn recent(&self, since_ms: u64, limit: usize) -> Result<Vec<Arc<ExchangeRecord>>, StoreError> {
        let kept = self.kept();
        Ok(kept.records.iter().rev().filter(|record| record.ended_ms() >= since_ms).take(limit).cloned().collect())
    }

    fn exchanges(&self, page: &PageQuery, filter: RecordFilter<'_>) -> Result<ResultPage<Arc<ExchangeRecord>>, StoreError> {
        let records: Vec<_> = self.kept().records.iter().rev().cloned().collect();
        let rows = records.into_iter().filter(|record| (filter.matches)(record));
        self::page(rows, page, |record| (record.ended_ms(), record.id.simple().to_string()))
    }

    fn hours(&self, since: u32, until: u32) -> Result<Vec<HourlyRow>, StoreError> {
        Ok(self.kept().hours.iter().filter(|row| (since..until).contains(&row.hour)).cloned().collect())
    }

    fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl ChainStore for MemoryStore {
    fn begin(&self, _hour: u32) -> Result<(Position, Vec<HourlyRow>), StoreError> {
        Ok((Position { writer: 1, sequence: 0, mac: ChainKeys::genesis(1) }, Vec::new()))
    }

    fn append(&self, batch: &Batch<'_>) -> Result<(), StoreError> {
        let read = |sealed: &SealedRecord<'_>| codec::read(&sealed.body).map(Arc::new);
        let records = batch.records.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        self.keep(records, &batch.hours);
        Ok(())
    }

    fn prune(&self, _before_ms: u64, _now_ms: u64, _records_max: usize, _keys: &ChainKeys) -> Result<usize, StoreError> {
        Ok(0)
    }

    fn chains(&self) -> Result<Vec<Chain>, StoreError> {
        Ok(Vec::new())
    }

    fn records(&self, _writer: u32, _after: u64, _limit: usize) -> Result<Vec<StoredRecord>, StoreError> {
        Ok(Vec::new())
    }

    fn rows(&self, _position: &Position, _expected: &IndexRows<'_>) -> Result<IndexRows<'static>, StoreError> {
        Err(StoreError::Corrupt("nothing is stored in memory".into()))
    }

    fn row_counts(&self, _tips: &[(u32, u64)]) -> Result<(u64, u64), StoreError> {
        Ok((0, 0))
    }

    fn known(&self, keys: &[ExecutionKey]) -> Result<Vec<FirstResult>, StoreError> {
        let kept = self.kept();
        let first = |key: &ExecutionKey| {
            let record = kept.executions.get(key)?;
            let execution = record.executions.iter().find(|execution| ExecutionKey::of(&execution.id) == Some(*key))?;
            Some(FirstResult { key: *key, result: execution.result, session: record.session.clone(), recorded: true })
        };
        Ok(keys.iter().filter_map(first).collect())
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn is_shared(&self) -> bool {
        false
    }
}
