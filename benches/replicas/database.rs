//! What the statements of an exchange cost PostgreSQL, each measured by itself, and how many one PostgreSQL bears.

use std::time::{Duration, Instant};

use toolmark::ledger::{
    chain::ChainKeys,
    fixtures::{RecordGenerator, seal},
    index::ExecutionKey,
    record::Digest,
    sealed_kv::cipher::SealedRow,
    store::{Batch, ChainStore as _, FirstResult, postgres::PostgresStore},
};

use crate::{agents::cpu_of_tree, postgres::OwnServer, served::percentile};

/// Bytes of a conversation's row in the measurements: what three turns with one result take.
const ROW_BYTES: usize = 700;

/// Cost of one kind of statement: for one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Processor time of the database, in seconds.
    pub cpu: f64,
    /// Time until it has answered, in seconds.
    pub time: f64,
}

/// Costs of all statements that exchanges lead to.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// A batch of records, and each record of it.
    pub batch: Cost,
    /// See [`Self::batch`].
    pub record: Cost,
    /// Claiming a first result.
    pub claim: Cost,
    /// Storing a conversation's rows.
    pub put: Cost,
    /// Reading a conversation.
    pub find: Cost,
}

/// Runs something for so long from several threads; its cost.
fn measured(what: &str, database: &OwnServer, threads: u64, time: Duration, one: impl Fn(u64, u64) + Sync) -> Cost {
    let end = Instant::now() + time;
    let (begun, before) = (Instant::now(), cpu_of_tree(database.process()));
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (mut times, mut number) = (Vec::new(), 0);
            while Instant::now() < end {
                let begun = Instant::now();
                one(thread, number);
                times.push(begun.elapsed());
                number += 1;
            }
            times
        };
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    let (took, count) = (begun.elapsed(), times.len() as f64);
    let cpu = (cpu_of_tree(database.process()) - before).as_secs_f64() / count;
    let (median, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    println!(
        "{what}: {:.0} a second from {threads} connections, {:.0} µs CPU of the database each, p50 {:.2} ms, p99 {:.2} ms",
        count / took.as_secs_f64(),
        cpu * 1e6,
        median.as_secs_f64() * 1e3,
        p99.as_secs_f64() * 1e3
    );
    Cost { cpu, time: median.as_secs_f64() }
}

/// Measures and prints; the costs.
pub fn print(time: Duration) -> Costs {
    let database = OwnServer::syncing("on");
    let open = || PostgresStore::open(&database.url()).expect("a store");
    println!("one PostgreSQL that syncs to the disk, its statements one by one:");
    let keys = ChainKeys::new(&[std::array::from_fn(|at| at as u8)]);
    let runs = std::cell::Cell::new(0);
    let appending = |size: u64, threads: u64| {
        runs.set(runs.get() + 1);
        let run = runs.get();
        let stores: Vec<_> = (0..threads)
            .map(|_| {
                let store = open();
                let (tip, _) = store.begin(0).expect("a chain");
                (store, std::sync::Mutex::new(tip))
            })
            .collect();
        let what = format!("batches of {size} records");
        measured(&what, &database, threads, time, |thread, number| {
            let (store, tip) = &stores[thread as usize];
            let mut tip = tip.lock().expect("one thread's");
            // Each thread's executions are its own.
            let first = (run * 10 + thread) * 100_000_000 + number * size;
            let records: Vec<_> = (first..first + size).map(RecordGenerator::record).collect();
            let batch = Batch { records: seal(&keys, &tip, &records), hours: Vec::new() };
            store.append(&batch).expect("room");
            *tip = batch.records.last().map_or_else(|| tip.clone(), |last| last.position.clone());
        })
    };
    let single = appending(1, 1);
    let many = appending(200, 1);
    appending(200, 4);
    let record = Cost { cpu: (many.cpu - single.cpu).max(0.0) / 199.0, time: (many.time - single.time).max(0.0) / 199.0 };
    let batch = Cost { cpu: (single.cpu - record.cpu).max(0.0), time: (single.time - record.time).max(0.0) };
    let stores: Vec<_> = (0..8).map(|_| open()).collect();
    let key = |thread: u64, number: u64| ExecutionKey { started_ms: 1_800_000_000_000 + number, tail: thread };
    let claiming = |thread: u64, number: u64| {
        let key = key(thread, number);
        let first = FirstResult { key, result: Digest::of(&number.to_le_bytes()), session: None, recorded: false };
        stores[thread as usize].claim(&[first], key.started_ms).expect("an answer");
    };
    let claim = measured("claiming a first result", &database, 1, time, claiming);
    measured("claiming a first result", &database, 8, time, |thread, number| claiming(thread, number + (1 << 32)));
    let row = |thread: u64, number: u64| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&thread.to_le_bytes()).update(&number.to_le_bytes());
        SealedRow { id: *hasher.finalize().as_bytes(), at_ms: 1_800_000_000_000, body: vec![7; ROW_BYTES] }
    };
    let putting = |thread: u64, number: u64| {
        // A response, its call and the mark of the call.
        let rows = [0, 1, 2].map(|at| row(thread, number * 3 + at));
        stores[thread as usize].put_kept(&rows).expect("room");
    };
    let put = measured("storing the three rows of a turn", &database, 1, time, putting);
    measured("storing the three rows of a turn", &database, 8, time, |thread, number| putting(thread, number + (1 << 32)));
    let finding = |thread: u64, number: u64| {
        let rows = stores[thread as usize].kept(&[row(thread, number % 1000).id]).expect("an answer");
        assert_eq!(rows.len(), 1, "a row that was stored");
    };
    let find = measured("reading a conversation", &database, 1, time, |_, number| finding(0, number));
    measured("reading a conversation", &database, 8, time, |_, number| finding(0, number));
    Costs { batch, record, claim, put, find }
}
