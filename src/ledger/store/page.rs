//! Pages of lists: cursors, and items read from stored records. The same for every database. Pure.

use crate::ledger::{
    index::ExecutionKey,
    record::ExchangeRecord,
    store::{FoundExecution, FoundViolation, PAGE_MAX, PageQuery, ResultPage, StoreError},
};

/// Requested part of a list. Rows are ordered from the newest; each has a position of `N` numbers, the first of which is its time.
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
