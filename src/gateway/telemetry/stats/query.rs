//! Reads statistics from a ledger's store: hourly sums for long windows, the records themselves for short ones.
//!
//! Blocks, as the store does. Reads are bounded: hours by the ledger's retention, records by `RECORDS_MAX`.

use std::time::Duration;

use super::rollup::HOUR_MS;
use crate::{
    ledger::store::{ExecutionFilter, PAGE_MAX, PageQuery, Store, StoreError},
    telemetry::stats::{Stats, StatsInput, TimeSpan, failing, stats},
};

/// The longest window that is counted record by record; longer ones begin at a full hour.
pub const SHORT: Duration = Duration::from_secs(3600);
/// Age up to which a tool's last execution counts as current.
const NOW: Duration = Duration::from_secs(15 * 60);
/// Records read for a short window, at most.
const RECORDS_MAX: usize = 50_000;

/// The statistics of the last `window`, or of everything in the ledger.
///
/// # Errors
/// The store can't be read.
pub fn statistics(store: &dyn Store, window: Option<Duration>, now_ms: u64) -> Result<Stats, StoreError> {
    let back = |time: Duration| now_ms.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let page = PageQuery { since_ms: Some(back(NOW)), limit: PAGE_MAX, ..PageQuery::default() };
    let latest = store.executions(&ExecutionFilter { page, ..ExecutionFilter::default() })?;
    let (gathered, span) = match window {
        Some(window) if window <= SHORT => of_records(store, back(window), now_ms)?,
        Some(window) => of_hours(store, back(window), now_ms)?,
        None => of_hours(store, 0, now_ms)?,
    };
    Ok(stats(&gathered, span, failing(&latest.rows)))
}

fn of_records(store: &dyn Store, since_ms: u64, now_ms: u64) -> Result<(StatsInput, TimeSpan), StoreError> {
    let records = store.recent(since_ms, RECORDS_MAX)?;
    let complete = records.len() < RECORDS_MAX;
    let oldest_ms = records.last().filter(|_| !complete).map(|record| record.ended_ms());
    let span = TimeSpan { since_ms: oldest_ms.unwrap_or(since_ms), until_ms: now_ms, complete };
    Ok((StatsInput::of_records(records.iter().map(|record| &**record)), span))
}

fn of_hours(store: &dyn Store, since_ms: u64, now_ms: u64) -> Result<(StatsInput, TimeSpan), StoreError> {
    let since = u32::try_from(since_ms / HOUR_MS).unwrap_or(u32::MAX);
    let rows = store.hours(since, u32::MAX)?;
    let first = if since > 0 { since } else { rows.iter().map(|row| row.hour).min().unwrap_or_default() };
    if rows.is_empty() {
        // A store without hourly sums still has its records.
        return of_records(store, since_ms, now_ms);
    }
    Ok((StatsInput::of_hours(&rows), TimeSpan { since_ms: u64::from(first) * HOUR_MS, until_ms: now_ms, complete: true }))
}
