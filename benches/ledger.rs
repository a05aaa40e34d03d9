//! What the ledger costs: filling, looking up, pruning, and the exchange with and without it.
//!
//! `cargo bench --bench ledger` prints figures and asserts none; compare those of one run only. `TOOLMARK_BENCH_RECORDS`: how
//! many executions (1,000,000), `TOOLMARK_BENCH_SECONDS`: how long each run of exchanges lasts (3).

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use toolmark::ledger::{
    chain::ChainKeys,
    sample::{Sample, seal},
    sqlite::SqliteStore,
    store::{Batch, ChainStore as _, ExecutionFilter, Page, Store as _},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BATCH: u64 = 4_000;
const LOOKUPS: u64 = 20_000;
const REQUEST: &str = r#"{"model":"m","messages":[{"role":"user","content":"Weather in Paris?"}],"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]}"#;
const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}"#;

fn setting(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

fn main() {
    let count = setting("TOOLMARK_BENCH_RECORDS", 1_000_000);
    let time = Duration::from_secs(setting("TOOLMARK_BENCH_SECONDS", 3));
    let upstream = upstream();
    cpu(upstream, time);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("toolmark.db");
    fill(&path, count);
    look_up(&path, count);
    prune(&path, count, upstream, time);
}

/// So many records, each with one execution.
fn fill(path: &Path, count: u64) {
    let store = SqliteStore::open(path, false).expect("a store");
    let keys = ChainKeys::new(&[std::array::from_fn(|at| at as u8)]);
    let (mut tip, _) = store.begin(0).expect("a chain");
    let (begun, mut writing) = (Instant::now(), Duration::ZERO);
    for first in (0..count).step_by(BATCH as usize) {
        let records: Vec<_> = (first..(first + BATCH).min(count)).map(|number| Arc::new(Sample::record(number))).collect();
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

fn percentile(times: &mut [Duration], per_cent: usize) -> Duration {
    times.sort();
    times.get((times.len() * per_cent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn look_up(path: &Path, count: u64) {
    let store = SqliteStore::open_to_read(path).expect("the store");
    let mut times: Vec<Duration> = (0..LOOKUPS)
        .map(|at| {
            let record = Sample::record(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count);
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
        let page = Page { limit: 100, ..Page::default() };
        let begun = Instant::now();
        let rows =
            store.executions(&ExecutionFilter { tool: tool.map(str::to_owned), page, ..ExecutionFilter::default() }).expect("a page").rows;
        println!("a page of executions, {what}: {} rows in {:?}", rows.len(), begun.elapsed());
    }
}

/// An upstream that answers all the same, and is no part of what is measured.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ANSWER}", ANSWER.len());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while read_message(&mut stream).is_some() && stream.get_mut().write_all(answer.as_bytes()).is_ok() {}
            });
        }
    });
    address
}

/// Reads one message with a length; its length.
fn read_message(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(length)
}

/// `toolmark serve`, ended when this is dropped.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    fn start(directory: &Path, upstream: SocketAddr, ledger: &str) -> Self {
        let settings =
            format!("[log]\nlevel = \"warn\"\n[[upstreams]]\nname = \"u\"\nbase_url = \"http://{upstream}/v1\"\n[ledger]\n{ledger}\n");
        std::fs::write(directory.join("toolmark.toml"), settings).expect("settings");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolmark"));
        command.args(["serve", "--listen", &port.to_string()]).current_dir(directory).env("TOOLMARK_KEY", KEY);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("toolmark");
        let served = Self { child, address: port };
        while TcpStream::connect(served.address).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    /// Time on the processors so far.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("a process");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Exchanges for so long over so many connections, one after the other on each; how long each took.
    fn load(&self, connections: usize, time: Duration) -> Vec<Duration> {
        let end = Instant::now() + time;
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{REQUEST}",
            self.address,
            REQUEST.len()
        );
        let one = || {
            let stream = TcpStream::connect(self.address).expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let (mut stream, mut times) = (BufReader::new(stream), Vec::new());
            while Instant::now() < end {
                let begun = Instant::now();
                stream.get_mut().write_all(request.as_bytes()).expect("sent");
                read_message(&mut stream).expect("an answer");
                times.push(begun.elapsed());
            }
            times
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
            all.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// CPU per exchange, without and with what is kept.
fn cpu(upstream: SocketAddr, time: Duration) {
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    let ledgers = [
        ("memory", "url = \"memory:\""),
        ("sqlite", "url = \"sqlite:toolmark.db\""),
        ("sqlite, commit", "url = \"sqlite:toolmark.db\"\ndurability = \"commit\""),
    ];
    for _ in 0..3 {
        for ((_, ledger), costs) in ledgers.iter().zip(&mut costs) {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let served = Served::start(directory.path(), upstream, ledger);
            served.load(16, time / 4);
            let before = served.cpu();
            let count = served.load(16, time).len();
            costs.push((served.cpu() - before).as_secs_f64() * 1e6 / count as f64);
        }
    }
    let median = |costs: &mut Vec<f64>| {
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    let costs = costs.each_mut().map(median);
    for ((name, _), cost) in ledgers.iter().zip(costs) {
        println!("an exchange with {name}: {cost:.1} µs CPU, {:.2} × memory", cost / costs[0]);
    }
}

/// Exchanges while nothing is old, and while half of the records are.
fn prune(path: &Path, count: u64, upstream: SocketAddr, time: Duration) {
    let directory = path.parent().expect("a directory");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let mut p99s = Vec::new();
    for (name, oldest_ms) in [("nothing to prune", 0), ("half of it pruned", Sample::time_ms(count / 2))] {
        let keep = now.saturating_sub(oldest_ms / 1000).min(100 * 365 * 86_400);
        let served = Served::start(directory, upstream, &format!("url = \"sqlite:toolmark.db\"\nkeep = \"{keep}s\""));
        let mut times = served.load(4, time * 2);
        let begun = Instant::now();
        while oldest_ms > 0 && left(path) > count / 2 && begun.elapsed() < Duration::from_secs(120) {
            times.extend(served.load(4, time));
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
