//! What a call costs that toolmark runs, next to the same call by a bare client of the SDK: time on the processors, of the
//! client's thread and of the whole program. Sixteen conversations at a time, as a processor that idles in between makes
//! everything dear. The bare client makes its calls in the same conversations, between two requests to the model; in a loop
//! of nothing else a call is cheaper. Prints figures and asserts none: `cargo bench --bench mcp`; `TOOLMARK_BENCH_CALLS=50`
//! for a short one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rmcp::{
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt as _},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream, TodoServer};

/// Calls of one figure, unless the environment says otherwise.
const CALLS: usize = 2_000;
/// Conversations at a time.
const AT_ONCE: usize = 16;
/// Rounds, of which the best counts: others work on the machine too.
const ROUNDS: usize = 5;
/// What only reads, and what is noted before it begins.
const TOOLS: [(&str, &str); 2] = [("list_tasks", "{}"), ("add_task", r#"{"title":"Buy milk"}"#)];

fn main() {
    // `cargo test --all-targets` starts it too, and asks for nothing of this.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let calls = std::env::var("TOOLMARK_BENCH_CALLS").ok().and_then(|count| count.parse().ok()).unwrap_or(CALLS);
    println!("{calls} calls, {AT_ONCE} at a time, the best of {ROUNDS} rounds, microseconds of CPU each");
    for (tool, arguments) in TOOLS {
        let cost = |execute: &str, kind: &Kind| Served::start(execute).cost(kind, tool, arguments, calls);
        // Each round all of them, so that what else the machine does meets all.
        let round = |_| (cost("proxy", &Kind::Proxied), cost("app", &Kind::ByApplication), looped(tool, arguments, calls));
        let rounds: Vec<(Cost, Cost, f64)> = (0..ROUNDS).map(round).collect();
        let best = |costs: &dyn Fn(&(Cost, Cost, f64)) -> Cost| {
            rounds.iter().map(costs).min_by(|one, other| sum(one).total_cmp(&sum(other))).unwrap_or_default()
        };
        let of = |cost: &Cost| cost.get(BARE).copied().unwrap_or_default();
        let bare = rounds.iter().map(|round| of(&round.1)).fold(f64::INFINITY, f64::min);
        let looped = rounds.iter().map(|round| round.2).fold(f64::INFINITY, f64::min);
        let without = |cost: &Cost| cost.iter().filter(|(name, _)| *name != BARE).map(|(name, spent)| (name.clone(), *spent)).collect();
        let (proxied, by_application) = (best(&|round| round.0.clone()), best(&|round| without(&round.1)));
        let added = sum(&proxied) - sum(&by_application);
        println!("{tool}: a bare client's call {bare:.0} between two requests, {looped:.0} in a loop");
        println!("  an exchange with a proxied call {:.0} ({})", sum(&proxied), by_thread(&proxied));
        println!("  the application making the call {:.0} ({})", sum(&by_application), by_thread(&by_application));
        println!("  added {added:+.0}: {:.2} times the bare call, {:.2} times one in a loop", added / bare, added / looped);
    }
}

/// Microseconds of CPU of each thread, by its name.
type Cost = BTreeMap<String, f64>;

fn sum(cost: &Cost) -> f64 {
    cost.values().sum()
}

/// Where it goes, as far as it is felt.
fn by_thread(cost: &Cost) -> String {
    let shown = cost.iter().filter(|(_, spent)| **spent >= 0.5);
    shown.map(|(name, spent)| format!("{name} {spent:.0}")).collect::<Vec<_>>().join(", ")
}

/// What the bare client's thread is called among those of the program.
const BARE: &str = "bare client";

/// A client of the SDK and nothing else, on a thread of its own.
struct Bare {
    handle: tokio::runtime::Handle,
    peer: rmcp::Peer<rmcp::RoleClient>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Bare {
    fn start(todo: &TodoServer) -> Self {
        let (told, connected) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let url = todo.url();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let lifecycle = ClientLifecycleMode::Auto {
                    preferred_versions: vec![ProtocolVersion::LATEST],
                    legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
                };
                let tls = toolmark::sys::tls::http_client_config(toolmark::sys::tls::TrustedRoots::None).unwrap();
                let client = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls).build().unwrap();
                let transport = StreamableHttpClientTransport::with_client(client, StreamableHttpClientTransportConfig::with_uri(url));
                let service = ().serve_with_lifecycle(transport, lifecycle).await.unwrap();
                told.send((tokio::runtime::Handle::current(), service.peer().clone())).unwrap();
                // Until this is dropped.
                let _stopped = stopped.await;
                service.cancel().await.unwrap();
            });
        });
        let (handle, peer) = connected.recv().unwrap();
        Self { handle, peer, _stop: stop }
    }

    /// Makes the call and waits for it.
    fn call(&self, tool: &str, arguments: &str) {
        let called = call(self.peer.clone(), tool.to_owned(), serde_json::from_str(arguments).unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            called.await;
            tell.send(()).unwrap();
        });
        told.recv().unwrap();
    }

    /// Time of its thread on the processors.
    fn spent(&self) -> Duration {
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move { tell.send(thread_time()).unwrap() });
        told.recv().unwrap()
    }
}

async fn call(peer: rmcp::Peer<rmcp::RoleClient>, tool: String, arguments: Map<String, Value>) {
    let mut params = CallToolRequestParams::new(tool);
    params.arguments = Some(arguments);
    peer.call_tool(params).await.unwrap();
}

/// Microseconds of the same call where nothing else is done.
fn looped(tool: &str, arguments: &str, calls: usize) -> f64 {
    let todo = TodoServer::start().unwrap();
    let bare = Bare::start(&todo);
    let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap();
    let all = |each: usize| {
        let one = |peer: rmcp::Peer<rmcp::RoleClient>, tool: String, arguments: Map<String, Value>| async move {
            for _ in 0..each {
                call(peer.clone(), tool.clone(), arguments.clone()).await;
            }
        };
        let all = futures_util::future::join_all((0..AT_ONCE).map(|_| one(bare.peer.clone(), tool.to_owned(), arguments.clone())));
        let (tell, told) = std::sync::mpsc::channel();
        bare.handle.spawn(async move { tell.send(all.await).unwrap() });
        told.recv().unwrap();
    };
    all(calls / AT_ONCE / 10 + 1);
    let before = bare.spent();
    all(calls / AT_ONCE);
    (bare.spent() - before).as_secs_f64() * 1e6 / (calls / AT_ONCE * AT_ONCE) as f64
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What is asked for.
enum Kind {
    /// The model calls, toolmark runs it, the model answers.
    Proxied,
    /// The model calls, the application makes the call by a bare client and answers with a second request.
    ByApplication,
}

/// The program, with its upstream and its server in this process.
struct Served {
    child: Child,
    address: SocketAddr,
    _upstream: ScriptedUpstream,
    todo: TodoServer,
    _directory: tempfile::TempDir,
}

/// Calls what the last message names, once; then answers.
fn model(received: &Received) -> ScriptedReply {
    let request = received.json();
    let last = request["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let asked = last["content"].as_str().unwrap_or_default().split_once(' ').filter(|_| last["role"] == "user");
    let call = asked.filter(|(word, _)| *word == "call").and_then(|(_, rest)| rest.split_once(' '));
    let (message, finish) = match call {
        Some((tool, arguments)) => {
            let function = json!({"name": format!("todo__{tool}"), "arguments": arguments});
            let call = json!({"id": "call_0", "type": "function", "function": function});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
        None => (json!({"role": "assistant", "content": "Done."}), "stop"),
    };
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string())
}

impl Served {
    fn start(execute: &str) -> Self {
        let (upstream, todo, directory) =
            (ScriptedUpstream::start(model).unwrap(), TodoServer::start().unwrap(), tempfile::tempdir().unwrap());
        // What is measured is no run gone wild.
        std::fs::write(
            directory.path().join("policy.toml"),
            "[loops]\nsame_tool = { calls = 0, window = \"1s\" }\nall_tools = { calls = 0, window = \"1s\" }\n",
        )
        .unwrap();
        // Apart from the policy, as in a deployment: its directory is watched.
        std::fs::create_dir(directory.path().join("data")).unwrap();
        let settings = format!(
            "listen = \"127.0.0.1:0\"\npolicy = \"policy.toml\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n\
             [[mcp]]\nname = \"todo\"\nurl = \"{}\"\nexecute = \"{execute}\"\nrequired = true\n[ledger]\nurl = \"sqlite:data/ledger.db\"\n[admin]\nlisten = \"off\"\n",
            upstream.base_url(),
            todo.url()
        );
        std::fs::write(directory.path().join("toolmark.toml"), settings).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolmark"))
            .arg("serve")
            .env_remove("TOOLMARK_BENCH_CALLS")
            .env("RUST_LOG", "warn,toolmark::cli=info")
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url =
            lines.by_ref().map_while(Result::ok).find_map(|line| Some(line.split_once("listening on http://")?.1.to_owned())).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.split(' ').next().unwrap().trim_end_matches(':').parse().unwrap();
        Self { child, address, _upstream: upstream, todo, _directory: directory }
    }

    /// Microseconds on the processors so far, by thread; workers together.
    fn spent(&self) -> Cost {
        let mut spent = Cost::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap() {
            let read = |file: &str| std::fs::read_to_string(task.as_ref().ok()?.path().join(file)).ok();
            // A thread may end meanwhile.
            let (Some(name), Some(times)) = (read("comm"), read("schedstat")) else { continue };
            let ns: f64 = times.split(' ').next().unwrap().parse().unwrap();
            *spent.entry(name.trim().trim_end_matches(|c: char| c == '-' || c.is_ascii_digit()).to_owned()).or_default() += ns / 1e3;
        }
        spent
    }

    /// Microseconds of one.
    fn cost(&self, kind: &Kind, tool: &str, arguments: &str, calls: usize) -> Cost {
        let bare = Bare::start(&self.todo);
        let all = |each: usize| {
            let one = || {
                let mut connection = TcpStream::connect(self.address).unwrap();
                connection.set_nodelay(true).unwrap();
                (0..each).for_each(|_| exchange(&mut connection, kind, &bare, tool, arguments));
            };
            std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(one))));
        };
        all(calls / AT_ONCE / 10 + 1);
        let (before, bare_before) = (self.spent(), bare.spent());
        all(calls / AT_ONCE);
        let each = |spent: f64| spent / (calls / AT_ONCE * AT_ONCE) as f64;
        let since = |(name, spent): (String, f64)| (name.clone(), each(spent - before.get(&name).copied().unwrap_or(0.0)));
        let mut cost: Cost = self.spent().into_iter().map(since).collect();
        if matches!(kind, Kind::ByApplication) {
            cost.insert(BARE.to_owned(), each((bare.spent() - bare_before).as_secs_f64() * 1e6));
        }
        cost
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Our own child.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn exchange(connection: &mut TcpStream, kind: &Kind, bare: &Bare, tool: &str, arguments: &str) {
    let user = json!({"role": "user", "content": format!("call {tool} {arguments}")});
    let first = post(connection, &json!({"model": "m", "messages": [user]}));
    let message = &first["choices"][0]["message"];
    if matches!(kind, Kind::ByApplication) {
        bare.call(tool, arguments);
        let result = json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "{\"tasks\":[]}"});
        let second = post(connection, &json!({"model": "m", "messages": [user, message, result]}));
        assert_eq!(second["choices"][0]["message"]["content"], "Done.");
    } else {
        assert_eq!(message["content"], "Done.", "{first}");
    }
}

fn post(connection: &mut TcpStream, body: &Value) -> Value {
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}
