//! What the ledger costs: filling, looking up, pruning, and the exchange with and without it.
//!
//! `cargo bench --bench ledger` prints figures and asserts none; compare those of one run only. `TOOLMARK_BENCH_RECORDS`: how
//! many executions (1,000,000), `TOOLMARK_BENCH_SECONDS`: how long each run of exchanges lasts (3).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

#[path = "common/served.rs"]
mod served;

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use served::{Served, chat_call, percentile, setting, upstream};
use toolmark::ledger::{
    chain::ChainKeys,
    fixtures::{RecordGenerator, seal},
    store::{Batch, ChainStore as _, ExecutionFilter, PageQuery, Store as _, sqlite::SqliteStore},
};

use toolmark_allocator as _;

const BATCH: u64 = 4_000;
const LOOKUPS: u64 = 20_000;

fn main() {
    let count = setting("TOOLMARK_BENCH_RECORDS", 1_000_000);
    let time = Duration::from_secs(setting("TOOLMARK_BENCH_SECONDS", 3));
    let upstream = upstream(&chat_call());
    cpu(upstream, time);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("toolmark.db");
    fill(&path, count);
    look_up(&path, count);
    prune(&path, count, upstream, time);
}

/// So many records, each with one execution.
fn fill(path: &Path, count: u64) {
    let store = SqliteStore::open(path, toolmark::settings::Durability::Batch).expect("a store");
    let keys = ChainKeys::new(&[std::array::from_fn(|at| at as u8)]);
    let (mut tip, _) = store.begin(0).expect("a chain");
    let (begun, mut writing) = (Instant::now(), Duration::ZERO);
    for first in (0..count).step_by(BATCH as usize) {
        let records: Vec<_> = (first..(first + BATCH).min(count)).map(RecordGenerator::record).collect();
        let sealing = Instant::now();
        let batch = Batch { records: seal(&keys, &tip, &records), hours: Vec::new() };
        store.append(&batch).expect("room");
        writing += sealing.elapsed();
        tip = batch.records.last().map_or(tip, |last| last.position.clone());
    }
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    println!(
        "fill: {count} records in {:.1} s, {:.2} µs each to seal and store; {} bytes each",
        begun.elapsed().as_secs_f64(),
        writing.as_secs_f64() * 1e6 / count as f64,
        size / count
    );
}

fn look_up(path: &Path, count: u64) {
    let store = SqliteStore::open_to_read(path).expect("the store");
    let mut times: Vec<Duration> = (0..LOOKUPS)
        .map(|at| {
            let record = RecordGenerator::record(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count);
            let id = &record.executions.first().expect("one").id;
            let begun = Instant::now();
            let found = store.execution(id).expect("an answer");
            let time = begun.elapsed();
            assert!(found.is_some(), "{id}");
            time
        })
        .collect();
    println!("look-up by ID among {count}: median {:?}, p99 {:?}", percentile(&mut times, 50), percentile(&mut times, 99));
    for (what, tool) in [("any", None), ("of one tool", Some("search")), ("of a tool that nobody called", Some("none"))] {
        let page = PageQuery { limit: 100, ..PageQuery::default() };
        let begun = Instant::now();
        let rows =
            store.executions(&ExecutionFilter { tool: tool.map(str::to_owned), page, ..ExecutionFilter::default() }).expect("a page").rows;
        println!("a page of executions, {what}: {} rows in {:?}", rows.len(), begun.elapsed());
    }
}

/// CPU per exchange, without and with what is kept.
fn cpu(upstream: SocketAddr, time: Duration) {
    let ledgers = [
        ("memory", "url = \"memory:\""),
        ("sqlite", "url = \"sqlite:toolmark.db\""),
        ("sqlite, commit", "url = \"sqlite:toolmark.db\"\ndurability = \"commit\""),
    ];
    let settings: Vec<String> = ledgers.iter().map(|(_, ledger)| format!("[ledger]\n{ledger}")).collect();
    let runs: Vec<_> = settings.into_iter().map(|settings| (settings, upstream, chat_call())).collect();
    let costs = served::costs_of(&runs, 3, time);
    for ((name, _), cost) in ledgers.iter().zip(&costs) {
        println!("an exchange with {name}: {cost:.1} µs CPU, {:.2} × memory", cost / costs[0]);
    }
}

/// Exchanges while nothing is old, and while half of the records are.
fn prune(path: &Path, count: u64, upstream: SocketAddr, time: Duration) {
    let directory = path.parent().expect("a directory");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let mut p99s = Vec::new();
    for (name, oldest_ms) in [("nothing to prune", 0), ("half of it pruned", RecordGenerator::time_ms(count / 2))] {
        let keep = now.saturating_sub(oldest_ms / 1000).min(100 * 365 * 86_400);
        let served = Served::start(directory, upstream, &format!("[ledger]\nurl = \"sqlite:toolmark.db\"\nkeep = \"{keep}s\""));
        let mut times = served.load(&chat_call(), 4, time * 2);
        let begun = Instant::now();
        while oldest_ms > 0 && left(path) > count / 2 && begun.elapsed() < Duration::from_secs(120) {
            times.extend(served.load(&chat_call(), 4, time));
        }
        let (median, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        let left = left(path);
        println!("exchanges, {name}: median {median:?}, p99 {p99:?}; {left} records of before are left");
        p99s.push(p99.as_secs_f64());
        drop(served);
    }
    if let [quiet, pruning] = p99s[..] {
        println!("pruning raises the p99 by {:.0} %", (pruning / quiet - 1.0) * 100.0);
    }
}

/// Sample records that are left.
fn left(path: &Path) -> u64 {
    let store = SqliteStore::open_to_read(path).expect("the store");
    store.row_counts(&[(1, u64::MAX >> 1)]).map_or(0, |(executions, _)| executions)
}
