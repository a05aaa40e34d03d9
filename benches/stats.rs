//! What the statistics cost with a large ledger: `cargo bench --bench stats` prints figures and asserts none.
//!
//! `TOOLMARK_BENCH_RECORDS`: how many executions (1,000,000). They lie over 30 days and are spread over 50 tools and 8
//! models, which is more rows than most ledgers have.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

use std::time::{Duration, Instant};

use toolmark::{
    ledger::{
        chain::ChainKeys,
        fixtures::{RecordGenerator, seal},
        record::ExchangeRecord,
        store::{Batch, ChainStore as _, HourlyAggregator as _, Store as _, sqlite::SqliteStore},
    },
    telemetry::{
        metrics::Metrics,
        stats::{query::statistics, rollup::Rollup},
    },
};

use toolmark_allocator as _;

const BATCH: u64 = 4_000;
const DAYS: u64 = 30;

/// The sample record of that number, at its place in the 30 days.
fn record(number: u64, count: u64) -> ExchangeRecord {
    let mut record = RecordGenerator::record(number);
    let at_ms = RecordGenerator::time_ms(0) + number * (DAYS * 24 * 3_600_000) / count;
    record.at_ms = at_ms;
    record.model = format!("model-{}", number % 8).into();
    let tool: Box<str> = format!("tool_{}", number * 7 % 50).into();
    record.calls.iter_mut().for_each(|call| call.tool = tool.clone());
    for execution in &mut record.executions {
        (execution.tool, execution.started_ms) = (tool.clone(), at_ms);
        execution.seen_ms = at_ms + 20 + number * number % 5_000;
        execution.id = format!("{tool}_{at_ms:013}_{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into();
    }
    record
}

fn main() {
    let count: u64 = std::env::var("TOOLMARK_BENCH_RECORDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = SqliteStore::open(&directory.path().join("toolmark.db"), toolmark::settings::Durability::Batch).expect("a store");
    let keys = ChainKeys::new(&[std::array::from_fn(|at| at as u8)]);
    let (mut tip, _) = store.begin(0).expect("a chain");
    let (mut rollup, metrics) = (Rollup::default(), Metrics::default());
    let (mut adding, mut counting) = (Duration::ZERO, Duration::ZERO);
    for first in (0..count).step_by(BATCH as usize) {
        let records: Vec<_> = (first..(first + BATCH).min(count)).map(|number| record(number, count)).collect();
        let begun = Instant::now();
        records.iter().for_each(|record| metrics.count(record));
        counting += begun.elapsed();
        let begun = Instant::now();
        records.iter().for_each(|record| rollup.add(record));
        let hours = rollup.changed(tip.writer);
        adding += begun.elapsed();
        let batch = Batch { records: seal(&keys, &tip, &records), hours };
        store.append(&batch).expect("room");
        tip = batch.records.last().map_or(tip, |last| last.position.clone());
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    println!("counting for /metrics: {:.2} µs per exchange; adding to the hours: {:.2} µs", each(counting), each(adding));
    println!("{} rows of sums for {count} executions", store.hours(0, u32::MAX).expect("an answer").len());
    let now_ms = RecordGenerator::time_ms(0) + DAYS * 24 * 3_600_000;
    for (what, window) in [("all", None), ("the last 24 h", Some(24)), ("the last hour, record by record", Some(1))] {
        let window = window.map(|hours| Duration::from_secs(hours * 3600));
        let mut times: Vec<Duration> = (0..20)
            .map(|_| {
                let begun = Instant::now();
                let stats = statistics(&store, window, now_ms).expect("an answer");
                let bytes = serde_json::to_vec(&stats).expect("JSON").len();
                assert!(stats.totals.exchanges > 0 && bytes > 1000);
                begun.elapsed()
            })
            .collect();
        let first = times.first().copied().unwrap_or_default();
        times.sort();
        println!("statistics of {what}: first {first:?}, median {:?}, worst {:?}", times[times.len() / 2], times[times.len() - 1]);
    }
}
