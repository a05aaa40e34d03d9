//! What clients may send wrong: each gets the documented error and leaves the process healthy. What
//! upstreams may send wrong is in [`crate::bad_upstreams`].

use serde_json::json;
use sha2::{Digest as _, Sha256};
use toolmark::testing::{BodyPart, Received, ScriptedReply as Scripted};

use crate::{
    harness::Fixture,
    wire::{Connection, Reply},
};

pub const REQUEST: &str = r#"{"model":"ok","messages":[{"role":"user","content":"hi"}]}"#;
pub const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"ok","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}"#;

fn script(received: &Received) -> Scripted {
    match received.json()["model"].as_str() {
        Some("hang") => Scripted::events([
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"}}]}\n\n",
        ])
        .then(BodyPart::Hang),
        Some("hang whole") => Scripted::json(200, "{").then(BodyPart::Hang),
        _ => Scripted::json(200, ANSWER),
    }
}

/// The process is well: it says so, and a normal exchange works.
pub fn healthy(fixture: &Fixture) {
    let mut connection = Connection::open(fixture.proxy.address());
    assert_eq!(connection.get("/healthz").status, 200);
    let reply = connection.chat(REQUEST);
    assert_eq!((reply.status, reply.text().as_str()), (200, ANSWER));
}

/// The documented error: status, code, and OpenAI's envelope.
pub fn refused(reply: &Reply, status: u16, code: &str, what: &str) {
    assert_eq!((reply.status, reply.whole), (status, true), "{what}: {}", reply.text());
    let error = &reply.json()["error"];
    assert_eq!(error["code"], code, "{what}: {error}");
    assert!(error["message"].is_string() && error["type"].is_string() && error.get("param").is_some(), "{what}: {error}");
}

#[test]
fn bodies_that_are_no_requests() {
    let fixture = Fixture::new("default", script);
    let mut connection = Connection::open(fixture.proxy.address());
    let nested = |open: &str, close: &str| {
        format!(r#"{{"model":"ok","messages":[{{"role":"user","content":{}1{}}}]}}"#, open.repeat(100_000), close.repeat(100_000))
    };
    let (arrays, objects) = (nested("[", "]"), nested("{\"a\":", "}"));
    let open = "[".repeat(100_000);
    let messages = |message: &str| format!(r#"{{"model":"ok","messages":[{message}]}}"#);
    let with = |member: &str| format!(r#"{{"model":"ok","messages":[],{member}}}"#);
    let cases: Vec<(String, &str)> = [
        (String::new(), "invalid_json"),
        ("{".into(), "invalid_json"),
        ("nonsense".into(), "invalid_json"),
        (format!("{REQUEST}{REQUEST}"), "invalid_json"),
        (format!("{REQUEST},"), "invalid_json"),
        (r#"{"model":"ok","messages":[],}"#.into(), "invalid_json"),
        (r#"{"model":NaN,"messages":[]}"#.into(), "invalid_json"),
        (arrays, "invalid_json"),
        (objects, "invalid_json"),
        (open, "invalid_json"),
        ("null".into(), "invalid_request"),
        ("[]".into(), "invalid_request"),
        (r#"{"model":"ok"}"#.into(), "invalid_request"),
        (r#"{"model":1,"messages":[]}"#.into(), "invalid_request"),
        (r#"{"model":"ok","messages":{}}"#.into(), "invalid_request"),
        (r#"{"model":"ok","messages":"hi"}"#.into(), "invalid_request"),
        (messages("1"), "invalid_request"),
        (messages(r#"{"content":"no role"}"#), "invalid_request"),
        (messages(r#"{"role":1,"content":""}"#), "invalid_request"),
        (with(r#""tools":{}"#), "invalid_request"),
        (with(r#""tools":[1]"#), "invalid_request"),
        (with(r#""tools":[{"type":"function"}]"#), "invalid_request"),
        (with(r#""tools":[{"type":"function","function":{"name":5}}]"#), "invalid_request"),
        (with(r#""functions":"f""#), "invalid_request"),
        (with(r#""n":"two""#), "invalid_request"),
        (with(r#""model":"ok""#), "invalid_json"),
        (with(r#""messages":[]"#), "invalid_json"),
        (with(r#""mod\u0065l":"ok""#), "invalid_json"),
        (messages(r#"{"role":"user","role":"tool","content":""}"#), "invalid_json"),
        (with(r#""tools":[{"type":"function","function":{"name":"f","name":"g"}}]"#), "invalid_json"),
        (messages(r#"{"role":"assistant","tool_calls":[{"id":"a","id":"b"}]}"#), "invalid_json"),
    ]
    .into();
    for (body, code) in &cases {
        let reply = connection.chat(body);
        refused(&reply, 400, code, body.get(..120).unwrap_or(body));
    }
    for bytes in [
        &b"{\"model\":\"\xff\",\"messages\":[]}"[..],
        b"\xff\xfe{}",
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xc3\"}]}",
        b"{\"model\":\"\xed\xa0\x80\",\"messages\":[]}",
        b"\0",
    ] {
        refused(&connection.post("/v1/chat/completions", "", bytes), 400, "invalid_json", &String::from_utf8_lossy(bytes));
    }
    assert_eq!(fixture.upstream.received().len(), 0);
    healthy(&fixture);
}

#[test]
fn bodies_that_are_too_large() {
    let fixture = Fixture::new("default", script);
    let body = vec![b' '; 33 << 20];
    refused(&Connection::open(fixture.proxy.address()).post("/v1/chat/completions", "", &body), 413, "request_too_large", "with a length");
    // Without one: in chunks, until the other side has had enough.
    let mut connection = Connection::open(fixture.proxy.address());
    connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = [&b"100000\r\n"[..], &body[..1 << 20], b"\r\n"].concat();
    for _ in 0..33 {
        connection.send(&chunk);
    }
    refused(&connection.reply(), 413, "request_too_large", "in chunks");
    // A length that lies: nothing is set aside for it.
    let mut connection = Connection::open(fixture.proxy.address());
    connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999\r\n\r\n");
    refused(&connection.reply(), 413, "request_too_large", "a length that lies");
    healthy(&fixture);
}

#[test]
fn bodies_that_are_compressed() {
    let fixture = Fixture::new("default", script);
    // One connection for all: what is refused is read all the same.
    let mut connection = Connection::open(fixture.proxy.address());
    for path in ["/v1/chat/completions", "/v1/responses", "/openai/v1/chat/completions"] {
        let reply = connection.post(path, "content-encoding: gzip\r\n", b"\x1f\x8b\x08\0\0\0\0\0");
        refused(&reply, 415, "unsupported_encoding", path);
        assert_eq!(reply.header("accept-encoding"), "identity");
    }
    let reply = connection.post("/v1/chat/completions", "content-encoding: identity\r\n", REQUEST.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(fixture.upstream.received().len(), 1);
}

#[test]
fn header_floods() {
    let fixture = Fixture::new("default", script);
    let many = |count: usize| (0..count).map(|number| format!("x-{number}: y\r\n")).collect::<String>();
    // Within what is read, and beyond it.
    for headers in [many(150), many(300), many(5000), format!("x-long: {}\r\n", "y".repeat(80 << 10))] {
        let reply = Connection::open(fixture.proxy.address()).post("/v1/chat/completions", &headers, REQUEST.as_bytes());
        refused(&reply, 431, "headers_too_large", "headers");
    }
    // The rest of so long a line is never read, so its sender may meet a closed connection first.
    let long = format!("x-long: {}\r\n", "y".repeat(2 << 20));
    let reply = Connection::open(fixture.proxy.address()).post("/v1/chat/completions", &long, REQUEST.as_bytes());
    assert!(matches!(reply.status, 0 | 431), "{}", reply.status);
    for garbage in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ] {
        let mut connection = Connection::open(fixture.proxy.address());
        connection.send(garbage);
        connection.finish();
        assert!(matches!(connection.reply().status, 0 | 400), "{garbage:?}");
    }
    assert_eq!(fixture.upstream.received().len(), 0);
    healthy(&fixture);
}

#[test]
fn slow_senders() {
    let fixture = Fixture::with_policy("default", "[limits]\nclient_idle = \"150ms\"\n", script);
    let mut connection = Connection::open(fixture.proxy.address());
    connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: local");
    // It ends; what is said before that is the HTTP library's own.
    let reply = connection.reply();
    assert!(matches!(reply.status, 0 | 408), "{}", reply.status);
    let mut connection = Connection::open(fixture.proxy.address());
    connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{");
    refused(&connection.reply(), 408, "request_timeout", "a body that stops coming");
    // A client that goes away in the middle of its body.
    let mut connection = Connection::open(fixture.proxy.address());
    connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{");
    drop(connection);
    assert_eq!(fixture.upstream.received().len(), 0);
    healthy(&fixture);
}

#[test]
fn paths_hosts_and_keys() {
    let key = Sha256::digest(b"secret").iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let settings = format!("models = [\"ok\"]\n[[clients]]\nname = \"bot\"\nkey_sha256 = \"{key}\"\n");
    let fixture = Fixture::with_policy("default", &settings, script);
    let mut connection = Connection::open(fixture.proxy.address());
    let mut ask = |head: &str, body: &str| {
        let head = if head.contains("host:") { head.to_owned() } else { format!("{head}host: localhost\r\n") };
        connection.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        connection.reply()
    };
    let keyed = "authorization: Bearer secret\r\n";
    let chat = "POST /v1/chat/completions HTTP/1.1\r\n";
    for (line, status, code) in [
        ("GET /v1/chat/completions", 501, "endpoint_not_enforced"),
        ("POST /v1/responses/x/compact", 501, "endpoint_not_enforced"),
        ("POST /v1/responses/compact", 400, "invalid_request"),
        ("DELETE /v1/chat/completions/x", 501, "endpoint_not_enforced"),
        ("POST /v1/batches", 501, "endpoint_not_enforced"),
        ("GET /v1/realtime", 501, "endpoint_not_enforced"),
        ("OPTIONS /v1/chat/completions", 501, "endpoint_not_enforced"),
        ("BREW /coffee", 501, "endpoint_not_enforced"),
        ("GET /", 501, "endpoint_not_enforced"),
        ("POST /v1/v1/chat/completions", 501, "endpoint_not_enforced"),
        ("POST /v1/chat/completion", 501, "endpoint_not_enforced"),
        ("POST /api/chat", 501, "endpoint_not_enforced"),
        ("POST /v1/chat%2Fcompletions", 400, "invalid_path"),
        ("POST /v1/models/../chat/completions", 400, "invalid_path"),
        ("POST /v1/%2e%2e/v1/responses", 400, "invalid_path"),
    ] {
        let reply = ask(&format!("{line} HTTP/1.1\r\n{keyed}"), REQUEST);
        refused(&reply, status, code, line);
        let advice = [
            ("GET /v1/chat/completions", "It takes POST only"),
            ("GET /", "base URL"),
            ("POST /v1/v1/chat/completions", "Did you mean /v1/chat/completions?"),
            ("POST /v1/chat/completion", "Did you mean /v1/chat/completions?"),
            ("POST /api/chat", "Ollama serves too: /v1/chat/completions"),
        ];
        for (_, advice) in advice.into_iter().filter(|(own, _)| *own == line) {
            assert!(reply.text().contains(advice), "{line}: {}", reply.text());
        }
    }
    for (host, status) in [
        ("host: evil.example\r\n", 403),
        ("host: 127.0.0.1.evil.example:80\r\n", 403),
        ("host: localhost\r\norigin: https://evil.example\r\n", 403),
        ("host: localhost\r\norigin: null\r\n", 403),
    ] {
        refused(&ask(&format!("{chat}{host}{keyed}"), REQUEST), status, "host_not_allowed", host);
    }
    for authorization in [
        "",
        "authorization: Bearer wrong\r\n",
        "authorization: secret\r\n",
        "authorization: Bearer\r\n",
        "authorization: Basic c2VjcmV0\r\n",
    ] {
        refused(&ask(&format!("{chat}{authorization}"), REQUEST), 401, "unauthorized", authorization);
    }
    let other = REQUEST.replace("ok", "gpt-unknown");
    refused(&ask(&format!("{chat}{keyed}"), &other), 404, "model_not_found", "a model that nobody serves");
    assert_eq!(fixture.upstream.received().len(), 0);
    assert_eq!(ask(&format!("{chat}{keyed}"), REQUEST).text(), ANSWER);
    // The client's key is toolmark's own: it goes nowhere.
    assert!(!fixture.upstream.received()[0].headers.contains_key("authorization"));
    assert_eq!(ask("GET /healthz HTTP/1.1\r\n", "").status, 200);
}

#[test]
fn clients_that_go_away_take_their_upstream_request_along() {
    let fixture = Fixture::new("default", script);
    for (number, (model, stream)) in [("hang", true), ("hang whole", false), ("hang", true)].into_iter().enumerate() {
        let mut connection = Connection::open(fixture.proxy.address());
        let body = json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}).to_string();
        connection.send(
            format!("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes(),
        );
        if stream {
            // Its first words have come.
            assert!(connection.line().unwrap().contains("200"));
        }
        assert!(fixture.upstream.wait(number + 1, number), "the upstream got no request");
        drop(connection);
        assert!(fixture.upstream.wait(number + 1, number + 1), "{model}: the upstream's answer goes on without a client");
    }
    healthy(&fixture);
}

#[test]
fn more_connections_than_are_allowed() {
    let fixture = Fixture::with_policy("default", "[limits]\nconnections = 2\n", script);
    let address = fixture.proxy.address();
    let (mut first, mut second) = (Connection::open(address), Connection::open(address));
    assert_eq!((first.get("/healthz").status, second.get("/healthz").status), (200, 200));
    let reply = Connection::open(address).chat(REQUEST);
    refused(&reply, 503, "overloaded", "the third");
    assert!(!reply.header("retry-after").is_empty());
    assert_eq!(first.chat(REQUEST).text(), ANSWER);
    drop(second);
    // The place is free as soon as the proxy has seen that: until then the answer is still 503.
    let free = (0..10_000).any(|_| Connection::open(address).chat(REQUEST).status == 200);
    assert!(free, "the place of a closed connection stays taken");
}
