//! The program served between clients and an upstream that answers all the same: what an exchange costs.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The secret key of the program, in hex.
pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// What goes through: requests that are all the same, and the answer to them.
#[derive(Clone)]
pub struct Traffic {
    pub path: &'static str,
    pub content_type: &'static str,
    pub request: String,
    pub answer: String,
}

/// A chat completion with one call.
pub fn chat_call() -> Traffic {
    let (request, answer) = (REQUEST.to_owned(), ANSWER.to_owned());
    Traffic { path: "/v1/chat/completions", content_type: "application/json", request, answer }
}

const REQUEST: &str = r#"{"model":"m","messages":[{"role":"user","content":"Weather in Paris?"}],"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]}"#;
const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}"#;

/// A number out of the environment.
pub fn setting(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// An upstream that answers all the same, and is no part of what is measured.
pub fn upstream(traffic: &Traffic) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let Traffic { content_type, answer, .. } = traffic;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
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

/// Reads one message, with a length or in chunks; its body.
pub fn read_message(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        chunked |= line.starts_with("transfer-encoding:");
        if line == "\r\n" {
            break;
        }
    }
    if !chunked {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        return Some(body);
    }
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        // The line end behind each chunk, too.
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunk.get(..size)?);
    }
}

/// Time on the processors of a process so far; `None` if there is no such process.
pub fn cpu_of(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// `toolmark serve`, ended when this is dropped.
pub struct Served {
    child: Child,
    address: SocketAddr,
    #[allow(dead_code, reason = "not every benchmark reads metrics")]
    admin: SocketAddr,
}

impl Served {
    /// With these settings besides its upstream.
    pub fn start(directory: &Path, upstream: SocketAddr, settings: &str) -> Self {
        let settings = format!("[log]\nlevel = \"warn\"\n[[upstreams]]\nname = \"u\"\nbase_url = \"http://{upstream}/v1\"\n{settings}\n");
        std::fs::write(directory.join("toolmark.toml"), settings).expect("settings");
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let (port, admin) = (free(), free());
        // Another program than the one that was built with the benchmark, where one is named: that of `.ci/dist`, for example.
        let program = std::env::var_os("TOOLMARK_BENCH_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_toolmark").into());
        let mut command = Command::new(program);
        command.args(["serve", "--listen", &port.to_string()]).current_dir(directory).env("TOOLMARK_KEY", KEY);
        // The bench's own settings are none of the program's, and the usual place of its admin listener may be taken.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TOOLMARK_BENCH_")) {
            command.env_remove(name);
        }
        command.env("TOOLMARK_ADMIN__LISTEN", admin.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("toolmark");
        let mut served = Self { child, address: port, admin };
        while TcpStream::connect(served.address).is_err() {
            assert!(served.child.try_wait().is_ok_and(|ended| ended.is_none()), "toolmark doesn't start");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    /// Its process.
    #[allow(dead_code, reason = "not every benchmark asks for it")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its address.
    #[allow(dead_code, reason = "not every benchmark asks for it")]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Time on the processors so far.
    pub fn cpu(&self) -> Duration {
        cpu_of(self.child.id()).expect("a process")
    }

    /// A connection to it.
    pub fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        BufReader::new(stream)
    }

    /// Sends this request over the connection, and reads the body of the answer.
    pub fn ask(&self, connection: &mut BufReader<TcpStream>, path: &str, request: &str) -> Vec<u8> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
            self.address,
            request.len()
        );
        connection.get_mut().write_all((head + request).as_bytes()).expect("sent");
        read_message(connection).expect("an answer")
    }

    /// Its metrics, as Prometheus reads them.
    #[allow(dead_code, reason = "not every benchmark reads them")]
    pub fn metrics(&self) -> String {
        let mut connection = BufReader::new(TcpStream::connect(self.admin).expect("its admin listener"));
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.admin);
        connection.get_mut().write_all(request.as_bytes()).expect("sent");
        String::from_utf8(read_message(&mut connection).expect("metrics")).expect("text")
    }

    /// Exchanges for so long over so many connections, one after the other on each; how long each took.
    pub fn load(&self, traffic: &Traffic, connections: usize, time: Duration) -> Vec<Duration> {
        let end = Instant::now() + time;
        let one = || {
            let (mut connection, mut times) = (self.connect(), Vec::new());
            while Instant::now() < end {
                let begun = Instant::now();
                self.ask(&mut connection, traffic.path, &traffic.request);
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

/// CPU microseconds of an exchange in each of these runs: the median of so many rounds, each of which has all of them.
pub fn costs_of(runs: &[(String, SocketAddr, Traffic)], rounds: usize, time: Duration) -> Vec<f64> {
    let mut costs = vec![Vec::new(); runs.len()];
    for _ in 0..rounds {
        for ((settings, upstream, traffic), costs) in runs.iter().zip(&mut costs) {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let served = Served::start(directory.path(), *upstream, settings);
            served.load(traffic, 16, time / 4);
            let before = served.cpu();
            let count = served.load(traffic, 16, time).len();
            costs.push((served.cpu() - before).as_secs_f64() * 1e6 / count as f64);
        }
    }
    let median = |mut costs: Vec<f64>| {
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    costs.into_iter().map(median).collect()
}

/// The time below which so many per cent of these lie; sorts them.
#[allow(dead_code, reason = "not every benchmark tells of times")]
pub fn percentile(times: &mut [Duration], per_cent: usize) -> Duration {
    times.sort();
    times.get((times.len() * per_cent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}
