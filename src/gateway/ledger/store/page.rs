//! Pages of lists: cursors, and items read from stored records. The same for every database. Pure.

use std::sync::Arc;

use memchr::memmem::Finder;

use crate::ledger::{
    codec,
    index::ExecutionKey,
    record::ExchangeRecord,
    store::{DECODE_WORK, FoundExecution, FoundViolation, PAGE_MAX, PageQuery, RecordFilter, ResultPage, SCAN_WORK_MAX, StoreError},
};

/// Requested part of a list. Rows are ordered from the newest; each has a position of `N` numbers, the first of which is its time.
#[derive(Clone, Copy, Debug)]
pub struct PageWindow<const N: usize> {
    /// Only rows before this position.
    pub before: [i64; N],
    /// Only rows of this time or later, in Unix milliseconds.
    pub since_ms: i64,
    limit: usize,
}

impl<const N: usize> PageWindow<N> {
    /// Reads the request for a page.
    ///
    /// # Errors
    /// [`StoreError::Cursor`]
    pub fn of(page: &PageQuery) -> Result<Self, StoreError> {
        let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let mut before = [i64::MIN; N];
        if let Some(first) = before.first_mut() {
            *first = page.until_ms.map_or(i64::MAX, signed);
        }
        if let Some(cursor) = &page.after {
            let numbers: Option<Vec<i64>> = cursor.split('.').map(|number| number.parse().ok()).collect();
            let after: [i64; N] = numbers.and_then(|numbers| numbers.try_into().ok()).ok_or(StoreError::Cursor)?;
            before = before.min(after);
        }
        Ok(Self { before, since_ms: page.since_ms.map_or(0, signed), limit: page.limit.clamp(1, PAGE_MAX) })
    }

    /// Rows of the page, at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Number of rows to read: one more than the page has, to detect a next page.
    pub fn rows(&self) -> i64 {
        self.limit as i64 + 1
    }

    /// Builds the page from rows and their positions.
    pub fn page<T>(&self, mut rows: Vec<([i64; N], T)>) -> ResultPage<T> {
        let more = rows.len() > self.limit;
        rows.truncate(self.limit);
        let next = rows.last().filter(|_| more).map(|(place, _)| place.map(|number| number.to_string()).join("."));
        ResultPage { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
    }
}

/// First byte of a record that an earlier version stored as JSON, in which texts may be escaped.
pub const JSON: u8 = b'{';
/// Bytes that are looked at for one unit of work.
const BYTES_PER_WORK: usize = 4096;

/// Collects a page of records that match, in the order in which they are read. `N` is that of their positions.
pub struct RecordScan<'f, const N: usize> {
    window: PageWindow<N>,
    filter: RecordFilter<'f>,
    texts: Vec<Finder<'f>>,
    found: Vec<Arc<ExchangeRecord>>,
    work: u64,
    decoded: usize,
    last: Option<[i64; N]>,
    is_full: bool,
}

impl<'f, const N: usize> RecordScan<'f, N> {
    /// A scan for this page.
    pub fn new(window: PageWindow<N>, filter: RecordFilter<'f>) -> Self {
        let texts = filter.texts.iter().map(|text| Finder::new(text.as_bytes())).collect();
        Self { window, filter, texts, found: Vec::new(), work: 0, decoded: 0, last: None, is_full: false }
    }

    /// Looks at the next record. False once the page is complete, or enough was looked at: this record isn't part of it then.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: the record can't be read.
    pub fn look(&mut self, place: [i64; N], body: &[u8]) -> Result<bool, StoreError> {
        if !self.pass(place, 1 + (body.len() / BYTES_PER_WORK) as u64) {
            return Ok(false);
        }
        if body.first() == Some(&JSON) || self.texts.iter().all(|text| text.find(body).is_some()) {
            self.work = self.work.saturating_add(DECODE_WORK);
            self.decoded += 1;
            let record = codec::read(body)?;
            if (self.filter.matches)(&record) {
                self.found.push(Arc::new(record));
            }
        }
        Ok(true)
    }

    /// Passes over records that can't match, up to this position. False once the page is complete, or enough was looked at.
    pub fn pass(&mut self, place: [i64; N], work: u64) -> bool {
        if self.found.len() >= self.window.limit || self.work >= SCAN_WORK_MAX {
            self.is_full = true;
            return false;
        }
        self.work = self.work.saturating_add(work);
        self.last = Some(place);
        true
    }

    /// Work that was done, and the number of records that were decoded for it.
    #[cfg(test)]
    pub fn done(&self) -> (u64, usize) {
        (self.work, self.decoded)
    }

    /// The page.
    pub fn page(self) -> ResultPage<Arc<ExchangeRecord>> {
        let next = self.last.filter(|_| self.is_full).map(|place| place.map(|number| number.to_string()).join("."));
        ResultPage { rows: self.found, next }
    }
}

/// Returns the execution at this place of a record.
///
/// # Errors
/// [`StoreError::Corrupt`] if there is no execution at this place, or one with another key.
pub fn execution(record: &ExchangeRecord, place: usize, key: ExecutionKey) -> Result<FoundExecution, StoreError> {
    let execution = record.executions.get(place).filter(|execution| ExecutionKey::of(&execution.id) == Some(key));
    let execution =
        execution.ok_or_else(|| StoreError::Corrupt(format!("exchange {} doesn't have the execution that points there", record.id)))?;
    Ok(FoundExecution { exchange: record.id, session: record.session.clone(), client: record.client.clone(), execution: execution.clone() })
}

/// Returns the violation at this place of a record.
///
/// # Errors
/// [`StoreError::Corrupt`] if there is no violation at this place.
pub fn violation(record: &ExchangeRecord, place: usize) -> Result<FoundViolation, StoreError> {
    let violation = record.violations.get(place);
    let violation =
        violation.ok_or_else(|| StoreError::Corrupt(format!("exchange {} doesn't have the violation that points there", record.id)))?;
    Ok(FoundViolation { exchange: record.id, at_ms: record.ended_ms(), model: record.model.clone(), violation: violation.clone() })
}
