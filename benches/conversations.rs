//! What a long conversation costs: the same request again, an agent's run that grows by a turn, and conversations that were never seen.
//!
//! Each with the cache of conversations and without it, and nginx beside them where it is installed: processor time of a request, in
//! microseconds. `cargo bench --bench conversations` prints figures and asserts none; compare those of one run only.
//! `TOOLMARK_BENCH_PROGRAM`: the program to measure, if it isn't the one built here; `TOOLMARK_BENCH_REQUESTS`: requests of a run (600), `TOOLMARK_BENCH_ROUNDS`: rounds of all runs (3), `TOOLMARK_BENCH_KB`: size of a
//! conversation in KB (220).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

#[path = "common/served.rs"]
#[allow(dead_code, reason = "other benchmarks need more of it")]
mod served;

use std::{
    io::{BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use served::{KEY, Served, chat_call, cpu_of, read_message, setting, upstream};
use toolmark::marks::{KeyRing, MarkTime, Scope};

use toolmark_allocator as _;

const CONNECTIONS: usize = 8;
/// Requests of an agent's run.
const TURNS: usize = 60;
const ANSWER: &str = "It is 18 degrees Celsius and partly cloudy in Paris right now, with a light breeze from the north-west at about 11 km/h. The forecast keeps it dry until late in the evening.";

/// How the requests of a run follow each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Growth {
    /// The same request again.
    Same,
    /// Agents whose every request is a turn longer than the one before.
    Turn,
    /// Each request another conversation.
    New,
}

/// The messages of a long conversation, as JSON, without the first.
struct Conversation {
    turns: Vec<String>,
    tools: String,
}

impl Conversation {
    /// Of about so many bytes: calls with marks of toolmark's, and their results.
    fn new(bytes: usize) -> Self {
        let key: [u8; 32] = std::array::from_fn(|at| u8::from_str_radix(&KEY[2 * at..2 * at + 2], 16).expect("hex"));
        let ring = KeyRing::new(&[key]);
        let now_ms = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as u64;
        let (mut turns, mut length) = (Vec::new(), 0);
        for number in 0.. {
            let arguments = json!({"customer": "cus_8f2k1m9q", "page": number}).to_string();
            let moment = MarkTime { time_ms: now_ms, counter: (number % 4096) as u16 };
            let id = ring.mint(&Scope::shared(), "search_orders", &arguments, moment);
            let order = |at: usize| json!({"id": format!("ord_{number}{at:03}"), "status": if at.is_multiple_of(3) { "open" } else { "shipped" }, "total": (number * 37 + at * 11) as f64 / 4.0, "note": format!("box {at} of {number} left by the green door of the depot, label and scan are fine, the driver rang twice")});
            let result = json!({"orders": (0..12).map(order).collect::<Vec<_>>()}).to_string();
            let call = json!({"id": id, "type": "function", "function": {"name": "search_orders", "arguments": arguments}});
            let turn = format!(
                "{},{}",
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                json!({"role": "tool", "tool_call_id": id, "content": result})
            );
            length += turn.len();
            turns.push(turn);
            if length > bytes {
                break;
            }
        }
        let schema = json!({"type": "object", "properties": {"customer": {"type": "string"}, "page": {"type": "integer"}}, "required": ["customer"]});
        let tool = json!({"type": "function", "function": {"name": "search_orders", "description": "Finds a customer's orders.", "parameters": schema}});
        Self { turns, tools: json!([tool]).to_string() }
    }

    /// The request of the conversation of that name with its first `turns`.
    fn request(&self, name: usize, turns: usize) -> String {
        let first = json!({"role": "system", "content": format!("Conversation {name}. Be brief.")});
        let user = json!({"role": "user", "content": "Go through the orders of the customer."});
        format!(
            r#"{{"model":"m","messages":[{first},{user},{}],"tools":{}}}"#,
            self.turns[..turns.min(self.turns.len())].join(","),
            self.tools
        )
    }

    /// The request with that number in a run.
    fn of_run(&self, growth: Growth, number: usize) -> String {
        let all = self.turns.len();
        match growth {
            Growth::Same => self.request(0, all),
            Growth::New => self.request(number, all),
            // From a half on.
            Growth::Turn => self.request(number / TURNS, all / 2 + (number % TURNS) * all / (2 * TURNS)),
        }
    }
}

/// nginx in front of the upstream.
struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Nginx {
    /// `None` where it isn't installed.
    fn start(directory: &Path, upstream: SocketAddr) -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let place = directory.display();
        let settings = format!(
            "daemon off; master_process off; pid {place}/pid; error_log {place}/errors; events {{ worker_connections 1024; }}\n\
             http {{ access_log off; client_body_buffer_size 4m; client_max_body_size 64m; client_body_temp_path {place}/bodies; proxy_temp_path {place}/answers;\n\
             upstream u {{ server {upstream}; keepalive 64; }}\n\
             server {{ listen {address}; location / {{ proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }} }}"
        );
        std::fs::write(directory.join("nginx.conf"), settings).expect("a file");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory).arg("-c").arg(directory.join("nginx.conf"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let mut nginx = Self { child, address };
        while TcpStream::connect(nginx.address).is_err() {
            assert!(nginx.child.try_wait().is_ok_and(|ended| ended.is_none()), "nginx doesn't start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// Sends the requests `from..from + count` of a run.
fn load(address: SocketAddr, conversation: &Conversation, growth: Growth, from: usize, count: usize) {
    // The requests of one agent go over one connection, in their order.
    let step = if growth == Growth::Turn { TURNS } else { 1 };
    let next = AtomicUsize::new(0);
    let one = || {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let mut connection = BufReader::new(stream);
        loop {
            let first = next.fetch_add(step, Ordering::Relaxed);
            if first >= count {
                return;
            }
            for number in first..first + step {
                let body = conversation.of_run(growth, from + number);
                let head = format!(
                    "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                connection.get_mut().write_all((head + &body).as_bytes()).expect("sent");
                let answer: Value = serde_json::from_slice(&read_message(&mut connection).expect("an answer")).expect("JSON");
                assert!(answer["choices"][0]["message"]["content"].is_string(), "{answer}");
            }
        }
    };
    std::thread::scope(|scope| (0..CONNECTIONS).for_each(|_| drop(scope.spawn(one))));
}

/// Microseconds on the processors that a request of such a run costs this process.
fn cost(process: u32, address: SocketAddr, conversation: &Conversation, growth: Growth, count: usize) -> f64 {
    let count = count.next_multiple_of(TURNS);
    load(address, conversation, growth, 0, count / 4);
    let before = cpu_of(process).expect("a process");
    load(address, conversation, growth, count, count);
    (cpu_of(process).expect("a process") - before).as_secs_f64() * 1e6 / count as f64
}

fn main() {
    // `cargo test --all-targets` starts it too, and asks for nothing of this.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let count = setting("TOOLMARK_BENCH_REQUESTS", 600) as usize;
    let rounds = setting("TOOLMARK_BENCH_ROUNDS", 3) as usize;
    let conversation = Conversation::new(setting("TOOLMARK_BENCH_KB", 220) as usize * 1000);
    let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}});
    let upstream = upstream(&served::Traffic { answer: answer.to_string(), ..chat_call() });
    let common = "[marks]\nscope = \"shared\"\n[ledger]\nurl = \"sqlite:ledger.db\"\n[limits]\nconversation_cache = ";
    let growths = [(Growth::Same, "the same request again"), (Growth::Turn, "a turn more each time"), (Growth::New, "never seen before")];
    let mut costs = vec![[Vec::new(), Vec::new(), Vec::new()]; growths.len()];
    for _ in 0..rounds {
        for ((growth, _), costs) in growths.iter().zip(&mut costs) {
            let directory = tempfile::tempdir().expect("a temporary directory");
            if let Some(nginx) = Nginx::start(directory.path(), upstream) {
                costs[0].push(cost(nginx.child.id(), nginx.address, &conversation, *growth, count));
            }
            for (costs, cache) in costs[1..].iter_mut().zip(["\"64 MiB\"", "\"0 B\""]) {
                let directory = tempfile::tempdir().expect("a temporary directory");
                let served = Served::start(directory.path(), upstream, &format!("{common}{cache}"));
                costs.push(cost(served.id(), served.address(), &conversation, *growth, count));
            }
        }
    }
    let median = |costs: &mut Vec<f64>| {
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).copied()
    };
    println!("CPU us of a request of {} KB; times nginx", conversation.of_run(Growth::Same, 0).len() / 1000);
    for ((_, name), [nginx, cached, plain]) in growths.iter().zip(&mut costs) {
        let (nginx, cached, plain) = (median(nginx), median(cached).unwrap_or_default(), median(plain).unwrap_or_default());
        let times = |own: f64| nginx.map_or_else(String::new, |nginx| format!(" ({:.2})", own / nginx));
        let nginx = nginx.map_or_else(|| "not installed".to_owned(), |nginx| format!("{nginx:.0}"));
        println!("{name:>24}: nginx {nginx}, toolmark {cached:.0}{}, without the cache {plain:.0}{}", times(cached), times(plain));
    }
}
