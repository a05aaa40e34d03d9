//! 2,000 connections to the real program, of which half stall at every stage: what honest callers feel of it, and what it
//! costs in memory. Prints figures and asserts none: `cargo bench --bench stalled`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

#[path = "../tests/integration/stall.rs"]
mod stall;

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use stall::{STAGES, exchange, request, stall, upstream};
use tokio::net::TcpStream;
use toolmark::testing::ScriptedUpstream;

/// Honest connections, and as many that stall.
const CONNECTIONS: usize = 1_000;
/// One request of each honest connection in this time.
const PACE: Duration = Duration::from_secs(2);
/// How long is measured.
const ROUND: Duration = Duration::from_secs(12);

fn main() {
    // `cargo test --all-targets` starts it too, and asks for nothing of this.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let scripted = ScriptedUpstream::start(upstream).unwrap();
    let settings = format!(
        "listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n[ledger]\nurl = \"memory:\"\n[log]\nlevel = \"info\"\n",
        scripted.base_url()
    );
    std::fs::write(directory.path().join("toolmark.toml"), settings).unwrap();
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_toolmark")).arg("serve").current_dir(directory.path()).stdout(Stdio::piped()).spawn().unwrap();
    let address = listening(&mut child);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let warm = round(address).await;
        report("warming up", &warm, &child);
        let quiet = round(address).await;
        report("quiet", &quiet, &child);
        let mut stalled = Vec::new();
        for stage in STAGES.into_iter().cycle().take(CONNECTIONS) {
            stalled.push(stall(address, stage).await);
        }
        // A thousand requests at once are one thing, a thousand connections that stall are another.
        let coming = round(address).await;
        report("while they come", &coming, &child);
        let beside = round(address).await;
        report(&format!("beside {} that stall", stalled.len()), &beside, &child);
        println!("p99 beside stalled / quiet: {:.2}", percentile(&beside, 99.0).as_secs_f64() / percentile(&quiet, 99.0).as_secs_f64());
    });
    // Our own child.
    let _ended = child.kill();
    let _reaped = child.wait();
}

/// All honest connections, each at its pace: how long each exchange took.
async fn round(address: SocketAddr) -> Vec<Duration> {
    let begun = Instant::now();
    let one = |number: usize| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let request = request("m", false);
        let mut took = Vec::new();
        let mut next = tokio::time::Instant::from_std(begun) + PACE.mul_f64(number as f64 / CONNECTIONS as f64);
        while begun.elapsed() < ROUND {
            tokio::time::sleep_until(next).await;
            // From when it was to be sent, so that a late start counts too.
            let status = exchange(&mut stream, &request).await;
            assert_eq!(status, 200);
            took.push(next.elapsed());
            next += PACE;
        }
        took
    };
    let tasks: Vec<_> = (0..CONNECTIONS).map(|number| tokio::spawn(one(number))).collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    all
}

fn percentile(sorted: &[Duration], percent: f64) -> Duration {
    let at = (sorted.len() as f64 * percent / 100.0) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn report(what: &str, took: &[Duration], child: &Child) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count();
    println!(
        "{what}: {} exchanges, p50 {:?}, p99 {:?}, worst {:?}; {} in memory, {descriptors} descriptors",
        took.len(),
        percentile(took, 50.0),
        percentile(took, 99.0),
        took.last().copied().unwrap_or_default(),
        value("VmRSS:"),
    );
}

/// Where it listens, as its log says; the rest of the log is read and dropped.
fn listening(child: &mut Child) -> SocketAddr {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.by_ref().map_while(Result::ok).find_map(|line| Some(line.split_once("OPENAI_BASE_URL=http://")?.1.to_owned())).unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    url.split('/').next().unwrap().parse().unwrap()
}
