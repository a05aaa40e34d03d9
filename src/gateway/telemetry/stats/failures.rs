//! What went wrong over time, by tool and by model: violations by their codes, from the ledger's hourly sums. Pure but for the read.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{aggregate::AggregateKey, counters::CounterField, counters::CounterSet, rollup::HOUR_MS};
use crate::ledger::store::{HourlyRow, Store, StoreError};

/// Span of time that is read unless another is asked for.
pub const WINDOW: Duration = Duration::from_secs(48 * 3600);
/// The longest span of time that is read; longer ones are cut.
pub const WINDOW_MAX: Duration = Duration::from_secs(31 * 24 * 3600);
/// The longest span of time that is told by the hour; longer ones are told by the day (UTC).
const BY_HOUR_MAX: Duration = Duration::from_secs(72 * 3600);
/// Series of each list at most, the most frequent first.
const SERIES_MAX: usize = 100;

/// What went wrong over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureHistory {
    /// Start of the first hour or day, in Unix milliseconds.
    pub since_ms: u64,
    /// End of the span, in Unix milliseconds.
    pub until_ms: u64,
    /// Length of an hour or a day, in milliseconds.
    pub step_ms: u64,
    /// By tool and code, the most frequent first.
    pub tools: Vec<FailureSeries>,
    /// By model and code, the most frequent first.
    pub models: Vec<FailureSeries>,
}

/// Violations with one code of one tool or model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureSeries {
    /// The tool or model; `other` for all names beyond those that are counted.
    pub name: Box<str>,
    /// The code; `other` likewise.
    pub code: Box<str>,
    /// Violations in the whole span.
    pub count: u64,
    /// The hours or days that have any, in order.
    pub points: Vec<FailurePoint>,
}

/// Violations in one hour or day, by severity.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct FailurePoint {
    /// Start of the hour or day, in Unix milliseconds.
    pub at_ms: u64,
    /// Violations at `info`.
    pub info: u64,
    /// Violations at `warn`.
    pub warn: u64,
    /// Violations at `block`.
    pub block: u64,
}

impl FailurePoint {
    fn add(&mut self, sums: &CounterSet) {
        self.info = self.info.saturating_add(sums.of(CounterField::Info));
        self.warn = self.warn.saturating_add(sums.of(CounterField::Warned));
        self.block = self.block.saturating_add(sums.of(CounterField::BlockedOn));
    }

    fn count(&self) -> u64 {
        self.info.saturating_add(self.warn).saturating_add(self.block)
    }
}

/// What went wrong in the last `window`, at most [`WINDOW_MAX`].
///
/// # Errors
/// The store can't be read.
pub fn failures(store: &dyn Store, window: Option<Duration>, now_ms: u64) -> Result<FailureHistory, StoreError> {
    let window = window.unwrap_or(WINDOW).min(WINDOW_MAX);
    let hours_per_step = if window <= BY_HOUR_MAX { 1 } else { 24 };
    let step_ms = hours_per_step * HOUR_MS;
    let since_ms = now_ms.saturating_sub(u64::try_from(window.as_millis()).unwrap_or(u64::MAX)) / step_ms * step_ms;
    let rows = store.hours(u32::try_from(since_ms / HOUR_MS).unwrap_or(u32::MAX), u32::MAX)?;
    let list = |kind| series(&rows, kind, step_ms);
    Ok(FailureHistory { since_ms, until_ms: now_ms, step_ms, tools: list(AggregateKey::ToolCode), models: list(AggregateKey::ModelCode) })
}

fn series(rows: &[HourlyRow], kind: AggregateKey, step_ms: u64) -> Vec<FailureSeries> {
    let mut found: BTreeMap<&str, BTreeMap<u64, FailurePoint>> = BTreeMap::new();
    for row in rows {
        let Some(name) = row.name.strip_prefix(kind.prefix()) else { continue };
        let Some(sums) = CounterSet::decode(&row.sums) else { continue };
        let at_ms = u64::from(row.hour) * HOUR_MS / step_ms * step_ms;
        found.entry(name).or_default().entry(at_ms).or_insert(FailurePoint { at_ms, ..FailurePoint::default() }).add(&sums);
    }
    let one = |(name, points): (&str, BTreeMap<u64, FailurePoint>)| {
        // Codes have no spaces; the row of further names has neither.
        let (code, name) = name.split_once(' ').unwrap_or((name, name));
        let count = points.values().fold(0_u64, |sum, point| sum.saturating_add(point.count()));
        FailureSeries { name: name.into(), code: code.into(), count, points: points.into_values().collect() }
    };
    let mut all: Vec<FailureSeries> = found.into_iter().map(one).collect();
    all.sort_by_key(|series| std::cmp::Reverse(series.count));
    all.truncate(SERIES_MAX);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        ledger::store::{HourlyAggregator as _, memory::MemoryStore},
        telemetry::stats::{rollup::Rollup, tests::record},
    };

    const NOON_MS: u64 = 500_004 * HOUR_MS;

    fn store(ends: &[(u64, &str, Option<&str>, &str)]) -> MemoryStore {
        let (store, mut rollup) = (MemoryStore::default(), Rollup::default());
        for (ended_ms, code, tool, severity) in ends {
            let violations = json!([{"code": code, "severity": severity, "attempt": 1, "tool": tool}]);
            rollup.add(&record(*ended_ms, json!({ "violations": violations })));
            store.keep([], &rollup.changed(1));
        }
        store
    }

    /// Name and code, count, and hours with their counts.
    type Told = (String, u64, Vec<(u64, u64)>);

    fn told(series: &[FailureSeries]) -> Vec<Told> {
        let point = |point: &FailurePoint| (point.at_ms / HOUR_MS, point.count());
        series.iter().map(|one| (format!("{} {}", one.name, one.code), one.count, one.points.iter().map(point).collect())).collect()
    }

    #[test]
    fn failures_are_told_by_hour_and_by_day_and_no_further_back() {
        let store = store(&[
            (NOON_MS - 40 * 24 * HOUR_MS, "wrong_type", Some("old"), "block"),
            (NOON_MS - 100 * HOUR_MS, "wrong_type", Some("get it"), "block"),
            (NOON_MS - 26 * HOUR_MS, "wrong_type", Some("get it"), "block"),
            (NOON_MS - HOUR_MS, "wrong_type", Some("get it"), "warn"),
            (NOON_MS, "wrong_type", Some("get it"), "block"),
            (NOON_MS, "unsupported_action", None, "info"),
        ]);
        let by_hour = failures(&store, None, NOON_MS).unwrap();
        let hour = NOON_MS / HOUR_MS;
        assert_eq!(told(&by_hour.tools), [("get it wrong_type".into(), 3, vec![(hour - 26, 1), (hour - 1, 1), (hour, 1)])]);
        assert_eq!(
            told(&by_hour.models).iter().map(|one| (&*one.0, one.1)).collect::<Vec<_>>(),
            [("m wrong_type", 3), ("m unsupported_action", 1)]
        );
        let last = by_hour.tools[0].points[1];
        assert_eq!((last.info, last.warn, last.block, by_hour.step_ms), (0, 1, 0, HOUR_MS));
        // 400 days are cut to 31.
        let by_day = failures(&store, Some(Duration::from_secs(400 * 24 * 3600)), NOON_MS).unwrap();
        assert_eq!((by_day.tools.len(), by_day.tools[0].count, by_day.step_ms), (1, 4, 24 * HOUR_MS));
        assert!(by_day.tools[0].points.iter().all(|point| point.at_ms % (24 * HOUR_MS) == 0), "{by_day:?}");
    }

    #[test]
    fn names_beyond_the_limit_are_counted_together() {
        let ends: Vec<String> = (0..600).map(|number| format!("tool_{number}")).collect();
        let ends: Vec<_> = ends.iter().map(|tool| (NOON_MS, "unknown_tool", Some(&**tool), "block")).collect();
        let history = failures(&store(&ends), None, NOON_MS).unwrap();
        assert_eq!(
            (history.tools.len(), &*history.tools[0].name, &*history.tools[0].code, history.tools[0].count),
            (SERIES_MAX, "other", "other", 100)
        );
    }
}
