//! Records in, statistics out: the same by the hour and record by record.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    ledger::store::HourlyAggregator as _,
    telemetry::stats::{aggregate::ROWS_MAX, rollup::Rollup},
};

/// A record of an exchange that ended then, with these members beside the usual ones.
pub(crate) fn record(ended_ms: u64, more: Value) -> ExchangeRecord {
    let mut record = json!({
        "id": "0193547d-f000-7000-8000-000000000000", "at_ms": ended_ms - 1000, "api": "chat", "scope": "00", "policy": "p", "model": "m",
        "status": 200, "verdict": "pass", "total_us": 1_000_000, "upstream_us": 999_000,
    });
    let members = record.as_object_mut().unwrap();
    more.as_object().unwrap().iter().for_each(|(name, value)| drop(members.insert(name.clone(), value.clone())));
    serde_json::from_value(record).unwrap()
}

fn call(attempt: u32, tool: &str, outcome: &str, violations: &[&str]) -> Value {
    json!({"attempt": attempt, "tool": tool, "outcome": outcome, "arguments": "0".repeat(64), "violations": violations})
}

fn attempt(tokens: u64) -> Value {
    json!({"upstream": "u", "model": "m", "status": 200, "duration_us": 500_000, "tokens": {"input": tokens, "output": 1}})
}

fn execution(tool: &str, duration_ms: u64, failed: bool) -> Value {
    json!({"id": format!("{tool}_{duration_ms}"), "tool": tool, "result": "0".repeat(64), "started_ms": 0, "seen_ms": duration_ms, "failed": failed})
}

fn repaired(ended_ms: u64) -> ExchangeRecord {
    record(
        ended_ms,
        json!({
            "verdict": "repaired", "repairs": 1, "attempts": [attempt(100), attempt(120)],
            "calls": [
                call(1, "invent_it", "rejected", &["unknown_tool"]), call(1, "get", "withheld", &[]),
                call(2, "get", "accepted", &[]), call(2, "put", "accepted", &[]),
            ],
            "executions": [execution("get", 7, false), execution("get", 9, true)],
            "violations": [{"code": "unknown_tool", "severity": "block", "attempt": 1, "tool": "invent_it"}],
        }),
    )
}

fn by_hour(records: &[ExchangeRecord], batch: usize) -> StatsInput {
    let (mut rollup, mut rows) = (Rollup::default(), BTreeMap::new());
    for records in records.chunks(batch) {
        records.iter().for_each(|record| rollup.add(record));
        for row in rollup.changed(1) {
            rows.insert((row.hour, row.name.clone()), row);
        }
    }
    StatsInput::of_hours(&rows.into_values().collect::<Vec<_>>())
}

const SPAN: TimeSpan = TimeSpan { since_ms: 0, until_ms: 100 * HOUR_MS, complete: true };

#[test]
fn a_repaired_exchange() {
    let stats = stats(&StatsInput::of_records([&repaired(HOUR_MS), &record(HOUR_MS, json!({}))]), SPAN, Vec::new());
    let totals = &stats.totals;
    assert_eq!((totals.exchanges, totals.endings.repaired, totals.endings.pass, totals.repairs, totals.attempts), (2, 1, 1, 1, 2));
    assert_eq!(totals.calls, CallCounts { accepted: 2, rejected: 1, withheld: 1 });
    assert_eq!((totals.rejected_calls_per_1000, totals.blocked_per_1000), (500.0, 0.0));
    assert_eq!((totals.tokens.input, totals.repair_tokens.input, totals.success_rate), (100, 120, Some(0.5)));
    assert_eq!((totals.overhead_us_mean, totals.upstream_ms_mean), (1000.0, 999.0));
    let [get, put] = &stats.tools[..] else { panic!("{:?}", stats.tools) };
    assert_eq!((&*get.tool, &get.calls, get.executions, get.failed), ("get", &CallCounts { accepted: 1, rejected: 0, withheld: 1 }, 2, 1));
    assert_eq!(get.duration_ms, Some(Durations { mean: 8.0, p50: 7, p90: 9, p99: 9 }));
    // 101 tokens among two calls, of which the first was invented; 121 among two.
    assert_eq!((get.tokens, put.tokens), (50 + 61, 60));
    assert_eq!((put.success_rate, &put.duration_ms), (None, &None));
    assert_eq!(stats.invented, [UnknownTool { name: "invent_it".into(), calls: 1 }]);
    assert_eq!(stats.codes, [CodeCount { code: "unknown_tool".into(), info: 0, warn: 0, block: 1 }]);
    assert_eq!(stats.models.first().map(|model| (&*model.model, model.totals.exchanges)), Some(("m", 2)));
}

#[test]
fn endings() {
    let ended = |more| stats(&StatsInput::of_records([&record(HOUR_MS, more)]), SPAN, Vec::new()).totals.endings;
    let none = EndingCounts::default();
    for (more, endings) in [
        (json!({}), EndingCounts { pass: 1, ..none.clone() }),
        (json!({"verdict": "blocked", "status": 422}), EndingCounts { blocked: 1, ..none.clone() }),
        (json!({"verdict": "blocked", "status": null}), EndingCounts { blocked: 1, ..none.clone() }),
        (json!({"verdict": "warn", "status": null}), EndingCounts { abandoned: 1, ..none.clone() }),
        (json!({"verdict": "pass", "status": 429}), EndingCounts { failed: 1, ..none.clone() }),
    ] {
        assert_eq!(ended(more.clone()), endings, "{more}");
    }
}

#[test]
fn hours_and_days() {
    let records: Vec<_> = [1, 23, 24, 99].map(|hour| record(hour * HOUR_MS, json!({}))).into();
    let stats = stats(&by_hour(&records, 1), SPAN, Vec::new());
    let course =
        |course: &[TimeBucket], unit: u64| course.iter().map(|at| (at.at_ms / HOUR_MS / unit, at.totals.exchanges)).collect::<Vec<_>>();
    assert_eq!(course(&stats.hours, 1), [(99, 1)]);
    assert_eq!(course(&stats.days, 24), [(0, 2), (1, 1), (4, 1)]);
}

#[test]
fn a_writer_that_starts_again_goes_on_adding() {
    let mut first = Rollup::default();
    first.add(&repaired(5 * HOUR_MS));
    let rows = first.changed(7);
    assert!(first.changed(7).is_empty() && rows.iter().all(|row| (row.writer, row.hour) == (7, 5)));
    let mut second = Rollup::default();
    second.restore(&rows);
    assert!(second.changed(7).is_empty());
    second.add(&repaired(5 * HOUR_MS));
    // Late: what is stored of earlier hours isn't known here, so they are never written.
    second.add(&repaired(3 * HOUR_MS));
    let rows = second.changed(7);
    assert!(rows.iter().all(|row| row.hour == 5));
    assert_eq!(stats(&StatsInput::of_hours(&rows), SPAN, Vec::new()).totals.exchanges, 3);
}

#[test]
fn what_is_added_up_apart_counts_in_its_own_hour_and_by_its_own_name() {
    let at = |hour: u64, tool: &str| record(hour * HOUR_MS, json!({"calls": [call(1, tool, "accepted", &[])]}));
    let mut whole = Rollup::default();
    whole.add(&at(5, "known"));
    // Two workers, after hours without a database: one has the latest hour first, and a crowd of names before the known one.
    let mut parts = [whole.apart(), whole.apart()];
    (0..ROWS_MAX + 20).for_each(|number| parts[0].add(&at(8, &format!("tool_{number}"))));
    parts[0].add(&at(8, "known"));
    parts[0].add(&at(7, "known"));
    [6, 5, 7, 8].into_iter().for_each(|hour| parts[1].add(&at(hour, "known")));
    let mut rows: Vec<_> = parts.iter_mut().flat_map(|part| part.changed(0)).collect();
    rows.sort_by_key(|row| row.hour);
    whole.take_up(&rows);
    let rows = whole.changed(1);
    let accepted = |hour: u32, name: &str| {
        let row = rows.iter().find(|row| (row.hour, &*row.name) == (hour, name));
        row.map_or(0, |row| CounterSet::decode(&row.sums).unwrap().of(CounterField::Accepted))
    };
    assert_eq!([5, 6, 7].map(|hour| accepted(hour, "t:known")), [2, 1, 2]);
    assert_eq!([5, 6, 7].map(|hour| accepted(hour, "all")), [2, 1, 2]);
    assert_eq!((accepted(8, "t:known"), accepted(8, "t:other"), accepted(8, "all")), (2, 21, ROWS_MAX as u64 + 22));
}

#[test]
fn names_are_bounded() {
    let records: Vec<_> =
        (0..ROWS_MAX + 20).map(|number| record(HOUR_MS, json!({"calls": [call(1, &format!("tool_{number}"), "accepted", &[])]}))).collect();
    let mut rollup = Rollup::default();
    records.iter().for_each(|record| rollup.add(record));
    let rows = rollup.changed(1);
    let other =
        rows.iter().find(|row| &*row.name == "t:other").map(|row| CounterSet::decode(&row.sums).unwrap().of(CounterField::Accepted));
    assert_eq!((rows.len(), other), (ROWS_MAX + 3, Some(20)));
}

#[test]
fn tools_that_fail_now() {
    let latest = [("a", true), ("b", false), ("a", true), ("b", true), ("a", false), ("a", true), ("c", true)];
    let rows: Vec<FoundExecution> = (0_u64..)
        .zip(latest)
        .map(|(at, (tool, failed))| FoundExecution {
            exchange: uuid::Uuid::nil(),
            session: None,
            client: None,
            execution: serde_json::from_value(execution(tool, 100 - at, failed)).unwrap(),
        })
        .collect();
    let failing: Vec<_> = failing(&rows).into_iter().map(|failing| (failing.tool, failing.failures, failing.last_success_ms)).collect();
    assert_eq!(failing, [("a".into(), 2, Some(96)), ("c".into(), 1, None)]);
}

proptest! {
    #[test]
    fn batches_make_no_difference(hours in proptest::collection::vec(1_u64..4, 1..20), batch in 1_usize..8) {
        let mut hours = hours;
        hours.sort_unstable();
        let records: Vec<_> = hours.iter().map(|hour| repaired(hour * HOUR_MS)).collect();
        let value = |gathered: &StatsInput| serde_json::to_value(stats(gathered, SPAN, Vec::new())).unwrap();
        prop_assert_eq!(value(&by_hour(&records, batch)), value(&by_hour(&records, 1)));
        let mut direct = value(&StatsInput::of_records(&records));
        let by_hour = value(&by_hour(&records, batch));
        for course in ["hours", "days"] {
            direct[course] = by_hour[course].clone();
        }
        prop_assert_eq!(direct, by_hour);
    }
}
