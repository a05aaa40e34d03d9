//! The frame around exchanges: shutdown, reload, what passes through, what headers and errors carry.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::mpsc,
    time::Duration,
};

use toolmark::testing::{Proxy, ScriptedReply, ScriptedUpstream};

use crate::{
    harness::{post, run},
    program::{Running, command, until},
};

const CALL_OF_NOTHING: &str = r#"{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"made_up","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
const HELLO: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

/// Serves with these settings besides the upstream's.
fn serve(directory: &Path, base_url: &str, settings: &str) -> Running {
    let settings = format!(
        "listen = \"127.0.0.1:0\"\n{settings}\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n[ledger]\nurl = \"memory:\"\n"
    );
    std::fs::write(directory.join("toolmark.toml"), settings).unwrap();
    Running::start(command(&["serve"], directory))
}

/// Reads until the text is there.
fn read_until(stream: &mut TcpStream, words: &str) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&got).contains(words) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the end came before {words:?}: {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&got).into_owned()
}

fn http(address: &str, path: &str, headers: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{headers}\r\n{body}")
}

/// An upstream that serves one request by hand, on a thread of its own.
fn by_hand(serve: impl FnOnce(TcpStream) + Send + 'static) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    (base_url, std::thread::spawn(move || serve(listener.accept().unwrap().0)))
}

fn chunk(delta: &str, finish: &str) -> String {
    let data = format!(
        r#"{{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
    );
    format!("data: {data}\n\n")
}

#[test]
fn sigterm_lets_a_running_stream_finish() {
    let directory = tempfile::tempdir().unwrap();
    let (go, wait) = mpsc::channel();
    let (base_url, upstream) = by_hand(move |mut stream| {
        read_until(&mut stream, "hello");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let first = chunk(r#"{"role":"assistant","content":"Good morning to you, my friend. "}"#, "null");
        stream.write_all(format!("{head}{first}").as_bytes()).unwrap();
        wait.recv().unwrap();
        let rest = format!("{}{}data: [DONE]\n\n", chunk(r#"{"content":"Good night."}"#, "null"), chunk("{}", "\"stop\""));
        stream.write_all(rest.as_bytes()).unwrap();
    });
    let mut toolmark = serve(directory.path(), &base_url, "");
    let address = toolmark.address();
    let mut client = TcpStream::connect(&address).unwrap();
    let body = HELLO.replace("\"m\",", "\"m\",\"stream\":true,");
    client.write_all(http(&address, "/v1/chat/completions", &format!("content-length: {}\r\n", body.len()), &body).as_bytes()).unwrap();
    read_until(&mut client, "morning");
    toolmark.signal("TERM");
    toolmark.line_with("SIGTERM");
    until("new connections are refused", || TcpStream::connect(&address).err());
    go.send(()).unwrap();
    let rest = read_until(&mut client, "data: [DONE]");
    assert!(rest.contains("night") && rest.contains(r#""verdict":"pass""#), "{rest}");
    let ended = toolmark.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("stopped"), "{}", ended.stdout);
    upstream.join().unwrap();
}

#[test]
fn a_policy_is_read_again_and_a_bad_one_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = ScriptedUpstream::start(|_| ScriptedReply::json(200, CALL_OF_NOTHING)).unwrap();
    let write = |text: &str| std::fs::write(directory.path().join("mine.toml"), text).unwrap();
    write("[calls]\nmax_repairs = 0\non_exhausted = \"error\"\n");
    let mut toolmark = serve(directory.path(), &upstream.base_url(), "policy = \"mine.toml\"");
    let url = format!("http://{}/v1/chat/completions", toolmark.address());
    let ask = || post(&url, HELLO, "").status;
    assert_eq!(ask(), 422);
    write("[calls]\nmax_repairz = 1\n");
    let line = toolmark.line_with("the old one stays");
    assert!(line.contains("max_repairz") && line.contains("ERROR"), "{line}");
    assert_eq!(ask(), 422, "the old policy stays");
    write("mode = \"observe\"\n");
    until("the new policy takes effect", || (ask() == 200).then_some(()));
    let before = toolmark.lines().iter().filter(|line| line.contains("policy re-read")).count();
    toolmark.signal("HUP");
    until("SIGHUP is heard", || (toolmark.lines().iter().filter(|line| line.contains("policy re-read")).count() > before).then_some(()));
    assert_eq!(ask(), 200);
    toolmark.signal("TERM");
    assert_eq!(toolmark.end().code, Some(0));
}

#[test]
fn a_policy_that_is_half_written_is_never_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = ScriptedUpstream::start(|_| ScriptedReply::json(200, CALL_OF_NOTHING)).unwrap();
    let path = directory.path().join("mine.toml");
    let strict = "[calls]\nmax_repairs = 0\n# what comes is long enough\non_exhausted = \"error\"\n";
    let other = "[calls]\nmax_repairs = 0\n# something else was said here before this\non_exhausted = \"error\"\n# and more\n";
    std::fs::write(&path, strict).unwrap();
    let mut toolmark = serve(directory.path(), &upstream.base_url(), "policy = \"mine.toml\"");
    let url = format!("http://{}/v1/chat/completions", toolmark.address());
    // By default it is explained, with 200.
    let ask = || post(&url, HELLO, "").status;
    let half = |text: &str| {
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&text.as_bytes()[..28]).unwrap();
        file.flush().unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(3500) {
            assert_eq!(ask(), 422, "half of it is in force after {:?}", begun.elapsed());
        }
        file.write_all(&text.as_bytes()[28..]).unwrap();
    };
    let reread = |toolmark: &mut Running| toolmark.lines().iter().filter(|line| line.contains("policy re-read")).count();
    half(other);
    until("the whole of it is taken", || (reread(&mut toolmark) == 1).then_some(()));
    // Nothing more comes: what is the beginning of what was is never taken by itself.
    std::fs::write(&path, &other[..28]).unwrap();
    toolmark.line_with("is the beginning of what it was");
    assert_eq!(ask(), 422);
    std::fs::write(&path, "").unwrap();
    toolmark.line_with("it is empty");
    assert_eq!(ask(), 422);
    // Who means it says so.
    toolmark.signal("HUP");
    until("it is taken as it is", || (ask() == 200).then_some(()));
    // What is replaced at once is whole.
    std::fs::write(directory.path().join("new"), strict).unwrap();
    std::fs::rename(directory.path().join("new"), &path).unwrap();
    until("it is taken at once", || (ask() == 422).then_some(()));
    std::fs::write(directory.path().join("new"), &strict[..8]).unwrap();
    std::fs::rename(directory.path().join("new"), &path).unwrap();
    until("it is taken at once, though it is short", || (ask() == 200).then_some(()));
    toolmark.signal("TERM");
    assert_eq!(toolmark.end().code, Some(0));
}

#[test]
fn what_passes_through_is_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let body = "{\"object\" : \"list\",\n \"data\":[ ] , \"x\": 1.10 }";
    let upstream =
        ScriptedUpstream::start(move |_| ScriptedReply::json(200, body).header("toolmark-verdict", "forged").header("x-own", "kept"))
            .unwrap();
    let proxy = Proxy::in_front_of(&upstream.base_url(), "default", directory.path()).unwrap();
    let get = |path: &str| run(async { crate::harness::http_client().get(format!("{}{path}", proxy.base_url())).send().await.unwrap() });
    for path in ["/models", "/models/gpt-4o", "/models?limit=2"] {
        let response = get(path);
        assert_eq!(
            (response.status().as_u16(), response.headers().get("toolmark-verdict"), &response.headers()["x-own"]),
            (200, None, &"kept".parse().unwrap())
        );
    }
    let request = r#"{ "input":"x", "odd" : 1.10 }"#;
    let answer = post(&format!("{}/embeddings", proxy.base_url()), request, "Bearer caller");
    assert_eq!((answer.status, &*answer.body), (200, body));
    let received = upstream.received();
    let lines: Vec<&str> = received.iter().map(|received| &*received.line).collect();
    assert_eq!(lines, ["GET /v1/models", "GET /v1/models/gpt-4o", "GET /v1/models?limit=2", "POST /v1/embeddings"]);
    assert_eq!((&received[3].body[..], &received[3].headers["authorization"]), (request.as_bytes(), &"Bearer caller".parse().unwrap()));
    let refused = post(&format!("{}/assistants", proxy.base_url()), "{}", "");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (501, &"endpoint_not_enforced".into()));
    assert_eq!(upstream.received().len(), 4, "what is refused isn't sent");
}

#[test]
fn uploads_are_streamed() {
    let directory = tempfile::tempdir().unwrap();
    let (arrived, first_half) = mpsc::channel();
    let (base_url, upstream) = by_hand(move |mut stream| {
        let mut got = read_until(&mut stream, "first half");
        arrived.send(()).unwrap();
        if !got.contains("second half") {
            got.push_str(&read_until(&mut stream, "second half"));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").unwrap();
    });
    let proxy = Proxy::in_front_of(&base_url, "default", directory.path()).unwrap();
    let address = proxy.address().to_string();
    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(http(&address, "/v1/files", "transfer-encoding: chunked\r\n", "a\r\nfirst half\r\n").as_bytes()).unwrap();
    first_half.recv_timeout(Duration::from_secs(20)).expect("the first half goes up before the second is sent");
    client.write_all(b"b\r\nsecond half\r\n0\r\n\r\n").unwrap();
    let answer = read_until(&mut client, "{}");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    upstream.join().unwrap();
}

#[test]
fn lists_of_models_are_merged() {
    let directory = tempfile::tempdir().unwrap();
    let list = |names: [&str; 2]| format!(r#"{{"object":"list","data":[{{"id":"{}","own":1.10}},{{"id":"{}"}}]}}"#, names[0], names[1]);
    let (first, second) = (list(["llama-3", "gpt-4o"]), list(["llama-3", "gpt-4o"]));
    let first = ScriptedUpstream::start(move |_| ScriptedReply::json(200, first.clone())).unwrap();
    let second = ScriptedUpstream::start(move |_| ScriptedReply::json(200, second.clone())).unwrap();
    let settings = format!(
        "[[upstreams]]\nname = \"a\"\nbase_url = \"{}\"\nmodels = [\"llama*\"]\napi_key_env = \"\"\n[[upstreams]]\nname = \"b\"\nbase_url = \"{}\"\napi_key_env = \"\"\n",
        first.base_url(),
        second.base_url()
    );
    let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
    let body = run(async {
        crate::harness::http_client().get(format!("{}/models", proxy.base_url())).send().await.unwrap().text().await.unwrap()
    });
    assert_eq!(body, r#"{"object":"list","data":[{"id":"llama-3","own":1.10},{"id":"gpt-4o"}]}"#);
    assert_eq!((first.received().len(), second.received().len()), (1, 1));
}

#[test]
fn the_upstreams_toolmark_headers_are_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let whole = r#"{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}"#;
    let upstream = ScriptedUpstream::start(move |_| {
        ScriptedReply::json(200, whole).header("toolmark-verdict", "forged").header("toolmark-own", "forged")
    })
    .unwrap();
    let proxy = Proxy::in_front_of(&upstream.base_url(), "default", directory.path()).unwrap();
    let answer = post(&format!("{}/chat/completions", proxy.base_url()), HELLO, "");
    assert_eq!((answer.header("toolmark-verdict"), answer.header("toolmark-own"), answer.header("toolmark-repairs")), ("pass", "", "0"));
    assert_eq!(answer.headers.get_all("toolmark-verdict").iter().count(), 1);
}

#[test]
fn errors_that_quote_our_key_are_masked() {
    let directory = tempfile::tempdir().unwrap();
    let script = |_: &toolmark::testing::Received| {
        ScriptedReply::json(
            401,
            r#"{"error":{"message":"Incorrect API key: sk-own-secret-key.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        )
    };
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!("[[upstreams]]\nname = \"a\"\nbase_url = \"{}\"\napi_key_env = \"OWN_KEY\"\n", upstream.base_url());
    let proxy = Proxy::start(&settings, &[("OWN_KEY", "sk-own-secret-key")], directory.path()).unwrap();
    for path in ["/chat/completions", "/embeddings"] {
        let answer = post(&format!("{}{path}", proxy.base_url()), HELLO, "Bearer callers-own");
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &"invalid_api_key".into()), "{path}");
        assert!(!answer.body.contains("sk-own-secret"), "{path}: {}", answer.body);
    }
    assert!(upstream.received().iter().all(|received| received.headers["authorization"] == "Bearer sk-own-secret-key"));
}

/// The shipped policies say where they end: the first half of one is never in force, whatever it replaces.
#[test]
fn half_of_a_shipped_policy_is_never_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = ScriptedUpstream::start(|_| ScriptedReply::json(200, CALL_OF_NOTHING)).unwrap();
    let path = directory.path().join("mine.toml");
    let shipped = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/default.toml")).unwrap();
    // One figure that tells the two apart.
    let own = shipped.replacen("on_exhausted = \"explain\"", "on_exhausted = \"error\"  ", 1);
    assert_ne!(own, shipped);
    std::fs::write(&path, &own).unwrap();
    let mut toolmark = serve(directory.path(), &upstream.base_url(), "policy = \"mine.toml\"");
    let url = format!("http://{}/v1/chat/completions", toolmark.address());
    assert_eq!(post(&url, HELLO, "").status, 422);
    let half = shipped[..shipped.len() / 2].rfind("\n[").unwrap();
    std::fs::write(&path, &shipped[..half]).unwrap();
    toolmark.line_with("doesn't end as it did before");
    assert_eq!(post(&url, HELLO, "").status, 422);
    std::fs::write(&path, &shipped).unwrap();
    until("the whole of it is taken", || (post(&url, HELLO, "").status == 200).then_some(()));
    toolmark.signal("TERM");
    assert_eq!(toolmark.end().code, Some(0));
}
