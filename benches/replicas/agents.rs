//! Agents' runs of three requests, each naming the response before: a call, its result, a further answer.

use std::{
    io::{BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use toolmark::sys::histogram::LEDGER_US;

use crate::{
    postgres::OwnServer,
    served::{Served, cpu_of, percentile, read_message},
};

/// Agents at a time: few, so that times are those of an exchange and not of the queue for two processors.
const AGENTS: usize = 2;
const STEPS: usize = 3;
const TOOLS: &str = r#"[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]"#;
const RESULT: &str =
    "{\\\"orders\\\":[{\\\"id\\\":\\\"ord_20481\\\",\\\"status\\\":\\\"shipped\\\",\\\"carrier\\\":\\\"DPD\\\",\\\"degrees\\\":21}]}";

/// How requests are shared out to replicas.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Balance {
    /// A run stays where it began.
    Sticky,
    /// Each request goes to the next replica.
    InTurns,
}

/// One way to run it.
struct Setup {
    name: &'static str,
    replicas: Vec<Served>,
    balance: Balance,
    /// Of each round: processor time of an exchange, and that of the database.
    cpu: Vec<(f64, f64)>,
    /// Exchanges of all rounds, with those that warm up.
    count: AtomicU64,
    /// Of each step, over all rounds.
    times: [Vec<Duration>; STEPS],
    /// Queries of each kind for an exchange, and bounds of their 50th and 99th per cent.
    queries: Vec<String>,
}

/// How long the upstream takes, in milliseconds.
static UPSTREAM_MS: AtomicU64 = AtomicU64::new(0);
/// The same while times are measured: shorter than any model takes, long enough for what is asked of the ledger meanwhile.
const UPSTREAM_SLOW_MS: u64 = 10;

/// An upstream that answers results with text, all else with a call; each response has an ID of its own.
fn upstream() -> SocketAddr {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let one = |stream| {
        let mut stream = BufReader::new(stream);
        while let Some(body) = read_message(&mut stream) {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            match UPSTREAM_MS.load(Ordering::Relaxed) {
                0 => {}
                slow => std::thread::sleep(Duration::from_millis(slow)),
            }
            let is_asked =
                body.windows(10).any(|part| part == b"Well then?") || body.windows(20).any(|part| part == b"function_call_output");
            let item = if is_asked {
                format!(
                    r#"{{"id":"msg_{number:016}","type":"message","role":"assistant","status":"completed","content":[{{"type":"output_text","text":"It is on its way.","annotations":[]}}]}}"#
                )
            } else {
                format!(
                    r#"{{"id":"fc_{number:016}","type":"function_call","call_id":"call_{number:016}","name":"get_weather","arguments":"{{\"city\":\"Paris\"}}","status":"completed"}}"#
                )
            };
            let answer = format!(
                r#"{{"id":"resp_{number:016}","object":"response","created_at":1,"status":"completed","model":"m","output":[{item}],"usage":{{"input_tokens":11,"output_tokens":7,"total_tokens":18}}}}"#
            );
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
            if stream.get_mut().write_all((head + &answer).as_bytes()).is_err() {
                return;
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _unbuffered = stream.set_nodelay(true);
            std::thread::spawn(move || one(stream));
        }
    });
    address
}

/// Request of a step. `previous`: ID of the response before; `call`: of the call that is answered.
fn request(step: usize, previous: &str, call: &str) -> String {
    let previous = if step == 0 { String::new() } else { format!(r#""previous_response_id":"{previous}","#) };
    let input = match step {
        0 => r#""Where is my parcel?""#.to_owned(),
        1 => format!(r#"[{{"type":"function_call_output","call_id":"{call}","output":"{RESULT}"}}]"#),
        _ => r#""Well then?""#.to_owned(),
    };
    format!(r#"{{"model":"m",{previous}"input":{input},"tools":{TOOLS}}}"#)
}

impl Setup {
    fn new(name: &'static str, ledger: &str, replicas: usize, balance: Balance, upstream: SocketAddr, directory: &Path) -> Self {
        let start = |number: usize| {
            let own = directory.join(format!("{name}-{number}").replace(' ', "-"));
            std::fs::create_dir_all(&own).expect("a directory");
            Served::start(&own, upstream, &format!("[ledger]\nurl = \"{ledger}\"\n"))
        };
        Self {
            name,
            replicas: (0..replicas).map(start).collect(),
            balance,
            cpu: Vec::new(),
            count: AtomicU64::new(0),
            times: Default::default(),
            queries: Vec::new(),
        }
    }

    /// Runs agents for so long; the exchanges' times by step.
    fn load(&self, time: Duration) -> [Vec<Duration>; STEPS] {
        static RUN: AtomicU64 = AtomicU64::new(0);
        let end = Instant::now() + time;
        let one = || {
            let mut connections: Vec<_> = self.replicas.iter().map(Served::connect).collect();
            let mut times: [Vec<Duration>; STEPS] = Default::default();
            while Instant::now() < end {
                let first = RUN.fetch_add(1, Ordering::Relaxed) as usize;
                let (mut previous, mut call) = (String::new(), String::new());
                for (step, times) in times.iter_mut().enumerate() {
                    let replica = (first + if self.balance == Balance::InTurns { step } else { 0 }) % self.replicas.len();
                    let request = request(step, &previous, &call);
                    let begun = Instant::now();
                    self.count.fetch_add(1, Ordering::Relaxed);
                    let answer = self.replicas[replica].ask(&mut connections[replica], "/v1/responses", &request);
                    times.push(begun.elapsed());
                    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("an answer");
                    assert!(answer["toolmark"].is_null() && answer["id"].is_string(), "{answer}");
                    previous = answer["id"].as_str().unwrap_or_default().to_owned();
                    call = answer["output"][0]["call_id"].as_str().unwrap_or_default().to_owned();
                }
            }
            times
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..AGENTS).map(|_| scope.spawn(one)).collect();
            let mut times: [Vec<Duration>; STEPS] = Default::default();
            for own in all.into_iter().map(|thread| thread.join().expect("an agent")) {
                times.iter_mut().zip(own).for_each(|(times, own)| times.extend(own));
            }
            times
        })
    }

    fn round(&mut self, time: Duration, database: &OwnServer) {
        self.load(time / 4);
        let own = || self.replicas.iter().map(Served::cpu).sum::<Duration>();
        let before = (own(), cpu_of_tree(database.process()));
        let times = self.load(time);
        let count = times.iter().map(Vec::len).sum::<usize>() as f64;
        let each = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() * 1e6 / count;
        self.cpu.push((each(own(), before.0), each(cpu_of_tree(database.process()), before.1)));
    }

    fn slow_round(&mut self, time: Duration) {
        self.load(time / 4);
        let times = self.load(time);
        self.times.iter_mut().zip(times).for_each(|(times, own)| times.extend(own));
    }

    /// Reads from the metrics how often the ledger was asked, and how long it took.
    fn read_queries(&mut self) {
        let metrics: Vec<String> = self.replicas.iter().map(Served::metrics).collect();
        let sum = |series: &str| -> f64 {
            let lines =
                metrics.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok());
            lines.sum()
        };
        for kind in ["first_results", "conversation", "store_conversation"] {
            let count = sum(&format!("toolmark_ledger_query_seconds_count{{query=\"{kind}\"}}"));
            if count == 0.0 {
                continue;
            }
            let bounds = LEDGER_US.map(|bound| bound as f64 / 1e6);
            let below = |share: f64| {
                let found = bounds.iter().find(|bound| {
                    sum(&format!("toolmark_ledger_query_seconds_bucket{{le=\"{bound}\",query=\"{kind}\"}}"))
                        .max(sum(&format!("toolmark_ledger_query_seconds_bucket{{query=\"{kind}\",le=\"{bound}\"}}")))
                        >= share * count
                });
                found.map_or("more than 5 s".to_owned(), |bound| format!("{} ms", bound * 1e3))
            };
            let each = count / self.count.load(Ordering::Relaxed) as f64;
            self.queries.push(format!("{kind} {each:.2} an exchange, 50 % within {}, 99 % within {}", below(0.5), below(0.99)));
        }
    }
}

/// Processor time of a process and all below it.
pub fn cpu_of_tree(root: u32) -> Duration {
    let parent = |process: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|process| Some((process, parent(process)?)))
        .collect();
    let (mut tree, mut at) = (vec![root], 0);
    while let Some(own) = tree.get(at).copied() {
        tree.extend(all.iter().filter(|(_, parent)| *parent == own).map(|(process, _)| *process));
        at += 1;
    }
    tree.iter().filter_map(|process| cpu_of(*process)).sum()
}

/// Measures and prints all setups, interleaved.
pub fn print(rounds: usize, time: Duration) {
    let directory = tempfile::tempdir().expect("a directory");
    let upstream = upstream();
    let database = OwnServer::syncing("on");
    let url = database.url();
    let sqlite = format!("sqlite:{}", directory.path().join("one.db").display());
    let mut setups = [
        Setup::new("memory", "memory:", 1, Balance::Sticky, upstream, directory.path()),
        Setup::new("SQLite", &sqlite, 1, Balance::Sticky, upstream, directory.path()),
        Setup::new("PostgreSQL, one replica", &url, 1, Balance::Sticky, upstream, directory.path()),
        Setup::new("PostgreSQL, two replicas, sticky", &url, 2, Balance::Sticky, upstream, directory.path()),
        Setup::new("PostgreSQL, two replicas in turns", &url, 2, Balance::InTurns, upstream, directory.path()),
    ];
    for _ in 0..rounds {
        setups.iter_mut().for_each(|setup| setup.round(time, &database));
    }
    UPSTREAM_MS.store(UPSTREAM_SLOW_MS, Ordering::Relaxed);
    for _ in 0..rounds {
        setups.iter_mut().for_each(|setup| setup.slow_round(time));
    }
    println!(
        "runs of three requests by previous_response_id, {AGENTS} agents, {rounds} rounds: processor time of an exchange (median; the upstream"
    );
    println!(
        "answers at once), times of exchanges (p50 / p99; the upstream takes {UPSTREAM_SLOW_MS} ms), and queries to the ledger in all of it:"
    );
    for setup in &mut setups {
        let middle = |of: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = setup.cpu.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let (own, stored) = (middle(|cpu| cpu.0), middle(|cpu| cpu.1));
        let steps = setup.times.each_mut().map(|times| {
            let (median, p99) = (percentile(times, 50), percentile(times, 99));
            format!("{:.2} / {:.2}", median.as_secs_f64() * 1e3, p99.as_secs_f64() * 1e3)
        });
        setup.read_queries();
        println!(
            "{}: {own:.0} µs CPU, and {stored:.0} of the database; p50 / p99 in ms: call {}, result {}, further {}",
            setup.name, steps[0], steps[1], steps[2]
        );
        setup.queries.iter().for_each(|query| println!("    {query}"));
    }
    let mut client = database.client("soak");
    let open: i64 = client.query_one("SELECT count(*) FROM pg_stat_activity WHERE datname = 'soak'", &[]).map_or(0, |row| row.get(0));
    // Five replicas, and this client itself.
    println!("connections that a replica holds: {:.1}", (open - 1) as f64 / 5.0);
}
