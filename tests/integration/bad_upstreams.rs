//! What upstreams may send wrong: each gets the documented error downstream, in a stream as a nested error
//! event and never as a silent end; and the process stays healthy.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use serde_json::{Value, json};
use toolmark::testing::{BodyPart, Proxy, Received, ScriptedReply as Scripted};

use crate::{
    bad_input::{ANSWER, healthy, refused},
    harness::Fixture,
    wire::{self, Connection, Reply},
};

const STREAM: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hé\"},\"finish_reason\":null}]}\n\n: ping\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":null}]}\n\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";

fn request(case: &str, stream: bool) -> String {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    json!({"model": case, "stream": stream, "messages": [{"role": "user", "content": "hi"}], "tools": tools}).to_string()
}

/// A stream that ended with an error event of this code, after a head of 200.
fn failed(reply: &Reply, code: &str, what: &str) {
    // Only what the upstream itself reports ends as a whole stream does.
    let reported = !code.starts_with("upstream_");
    assert_eq!((reply.status, reply.whole, reply.is_stream()), (200, reported, true), "{what}: {}", reply.text());
    let events = wire::events(&reply.text());
    let error = &events.last().unwrap_or(&Value::Null)["error"];
    assert!(error["message"].is_string() && error["type"].is_string(), "{what}: {}", reply.text());
    assert_eq!(error["code"].as_str().unwrap_or_default(), code, "{what}: {error}");
    assert!(!reply.text().contains("[DONE]"), "{what}: a failure that looks like success");
    assert!(!reply.text().contains("tool_calls"), "{what}: a call of an answer that isn't whole got out");
}

fn chunk(text: &str) -> String {
    format!("data: {}\n\n", json!({"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}))
}

fn bad_answers(received: &Received) -> Scripted {
    let body = received.json();
    let case = body["model"].as_str().unwrap_or_default();
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    match case {
        "html" => Scripted::json(200, "<html>Welcome</html>").header("content-type", "text/html"),
        "empty" => Scripted::json(200, ""),
        "null" => Scripted::json(200, "null"),
        "array" => Scripted::json(200, "[]"),
        "no choices" => Scripted::json(200, "{}"),
        "choices no array" => Scripted::json(200, r#"{"choices":{}}"#),
        "choice no object" => Scripted::json(200, r#"{"choices":[1]}"#),
        "two messages" => Scripted::json(200, r#"{"choices":[{"message":{"content":"a"},"message":{"content":"b"}}]}"#),
        "two choices" => Scripted::json(200, r#"{"choices":[],"choices":[]}"#),
        "calls no array" => Scripted::json(200, r#"{"choices":[{"message":{"tool_calls":"x"}}]}"#),
        "call outside" => Scripted::json(200, r#"{"choices":[{"message":{},"tool_calls":[{"function":{"name":"f"}}]}]}"#),
        "deep" => Scripted::json(200, format!(r#"{{"choices":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000))),
        "not utf-8" => Scripted::events([&b"{\"choices\":\"\xff\"}"[..]]).header("content-type", "application/json"),
        "gzip" => Scripted::events([gzip]).header("content-encoding", "gzip").header("content-type", "application/json"),
        "gzip stream" => Scripted::events([gzip]).header("content-encoding", "gzip"),
        "long" => Scripted::json(200, ANSWER.replace("Hello.", &"long ".repeat(20_000))),
        "stream unasked" => Scripted::events([STREAM]),
        "hang" => Scripted::json(200, "{").then(BodyPart::Hang),
        _ => Scripted::json(200, ANSWER),
    }
}

const BOUNDS: &str = "timeouts = { connect = \"1s\", first_byte = \"300ms\", idle = \"300ms\" }\n[limits]\nresponse_bytes = \"64KiB\"\n";

#[test]
fn whole_answers_that_are_none() {
    let fixture = Fixture::with_policy("default", BOUNDS, bad_answers);
    let mut connection = Connection::open(fixture.proxy.address());
    for case in [
        "html",
        "empty",
        "null",
        "array",
        "no choices",
        "choices no array",
        "choice no object",
        "two messages",
        "two choices",
        "calls no array",
        "call outside",
        "deep",
        "not utf-8",
        "gzip",
        "gzip stream",
        "long",
    ] {
        for stream in [false, true] {
            refused(&connection.chat(&request(case, stream)), 502, "upstream_protocol", case);
        }
    }
    refused(&connection.chat(&request("stream unasked", false)), 502, "upstream_protocol", "a stream that nobody asked for");
    refused(&connection.chat(&request("hang", false)), 504, "upstream_timeout", "hangs in its body");
    healthy(&fixture);
}

#[test]
fn upstreams_that_are_down_or_silent_or_no_upstreams() {
    let directory = tempfile::tempdir().unwrap();
    let proxy = |address: &str| {
        Proxy::start(&format!("[[upstreams]]\nname = \"scripted\"\nbase_url = \"http://{address}/v1\"\n{BOUNDS}"), &[], directory.path())
            .unwrap()
    };
    // An address of its own, so that nobody else takes the port that is given up here.
    let down = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude_address = rude.local_addr().unwrap();
    let greetings = [
        &b"\0\x01\x02 no HTTP\r\n\r\n"[..],
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-len",
        b"220 smtp ready\r\n",
        b"HTTP/1.1 999999 what\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    ];
    let count = greetings.len();
    // What broke off is asked for again, and greeted alike.
    let answering = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = rude.accept().unwrap();
            let mut asked = [0; 4096];
            let length = stream.read(&mut asked).unwrap_or_default();
            let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
            let Some(greeting) = (0..count).find(|number| asked.contains(&format!(r#""model":"m{number}""#))) else { return };
            let _gone = stream.write_all(greetings[greeting]);
        }
    });
    for (address, count, status, code) in [
        (down.to_string(), 2, 502, "upstream_unreachable"),
        (silent.local_addr().unwrap().to_string(), 2, 504, "upstream_timeout"),
        (rude_address.to_string(), count, 502, "upstream_protocol"),
    ] {
        let proxy = proxy(&address);
        let mut connection = Connection::open(proxy.address());
        for number in 0..count {
            refused(&connection.chat(&request(&format!("m{number}"), number % 2 == 1)), status, code, &format!("{address}, {number}"));
            assert_eq!(connection.get("/healthz").status, 200);
        }
    }
    std::net::TcpStream::connect(rude_address).unwrap().write_all(b"enough").unwrap();
    answering.join().unwrap();
}

/// The piece before and the kind of end are in the request's header.
fn cutting(received: &Received) -> Scripted {
    let number = |name: &str| received.headers.get(name).and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<usize>().ok());
    let Some(at) = number("x-at") else { return Scripted::json(200, ANSWER) };
    let (text, whole) = if received.json()["stream"] == true { (STREAM, false) } else { (ANSWER, true) };
    let bytes = text.as_bytes()[..at].to_vec();
    let reply = Scripted::events(if bytes.is_empty() { vec![] } else { vec![bytes] });
    let reply = if whole { reply.header("content-type", "application/json") } else { reply };
    if number("x-broken") == Some(1) { reply.then(BodyPart::Cut) } else { reply }
}

#[test]
fn answers_cut_anywhere() {
    let fixture = Fixture::new("default", cutting);
    let address = fixture.proxy.address();
    let finished = STREAM.find("\"tool_calls\"}]}").unwrap() + "\"tool_calls\"}]}".len();
    let mut cases = Vec::new();
    for broken in [0, 1] {
        cases.extend((0..ANSWER.len()).map(|at| (false, at, broken)));
        cases.extend((0..STREAM.len()).map(|at| (true, at, broken)));
    }
    wire::on_threads(&cases, |connection, &(stream, at, broken)| {
        let connection = connection.insert(Connection::open(address));
        let headers = format!("x-at: {at}\r\nx-broken: {broken}\r\n");
        let reply = connection.post("/v1/chat/completions", &headers, request("m", stream).as_bytes());
        let what = format!("cut at {at} of {}, broken: {broken}", if stream { "the stream" } else { "the answer" });
        match stream {
            false => refused(&reply, 502, "upstream_protocol", &what),
            // A break before any byte may show already instead of the head.
            true if reply.status == 502 => refused(&reply, 502, "upstream_protocol", &what),
            // All was said, and the end is regular: only [DONE] lacks, or is cut.
            true if at >= finished && broken == 0 && STREAM[finished..at].contains('[') == STREAM[finished..at].contains(']') => {
                assert!(reply.text().ends_with("data: [DONE]\n\n") && reply.text().contains("call_"), "{what}: {}", reply.text())
            }
            true if at >= STREAM.len() - 1 => {}
            true => failed(&reply, "upstream_protocol", &what),
        }
    });
    healthy(&fixture);
}

fn bad_streams(received: &Received) -> Scripted {
    let body = received.json();
    let case = body["model"].as_str().unwrap_or_default();
    let after = |event: &str| Scripted::events([chunk("Hello"), event.to_owned()]);
    match case {
        "no finish" => Scripted::events([chunk("Hello")]),
        "hang" => Scripted::events([chunk("Hello")]).then(BodyPart::Hang),
        "no json" => after("data: {no json}\n\n"),
        "not utf-8" => Scripted::events([chunk("Hello").into_bytes(), b"data: {\"choices\":\"\xff\"}\n\n".to_vec()]),
        "no object" => after("data: 5\n\n"),
        "twice" => after("data: {\"choices\":[],\"choices\":[]}\n\n"),
        "delta twice" => after("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\",\"content\":\"b\"}}]}\n\n"),
        "call outside" => after("data: {\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}\n\n"),
        "calls no array" => after("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":\"f\"}}]}\n\n"),
        "index" => after("data: {\"choices\":[{\"index\":-1,\"delta\":{\"content\":\"a\"}}]}\n\n"),
        "index far" => after("data: {\"choices\":[{\"index\":99999999,\"delta\":{\"content\":\"a\"}}]}\n\n"),
        "deep" => after(&format!("data: {}\n\n", "[".repeat(60_000))),
        "endless" => Scripted::events((0..2000).map(|_| chunk("Hello, hello, hello!"))),
        "one endless line" => after(&format!("data: {}", "x".repeat(100 << 10))),
        "nested" => after("data: {\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":null,\"code\":\"c\"}}\n\ndata: [DONE]\n\n"),
        "flat" => after("data: {\"message\":\"m\",\"type\":\"t\",\"code\":\"c\"}\n\n"),
        "named" => after("event: error\ndata: {\"message\":\"m\",\"code\":\"c\"}\n\n"),
        "number" => after("data: {\"error\":{\"message\":\"m\",\"code\":503}}\n\n"),
        "bare" => after("error: {\"message\":\"m\",\"code\":\"c\"}\n\n"),
        _ => Scripted::json(200, ANSWER),
    }
}

#[test]
fn streams_that_fail_say_so() {
    let fixture = Fixture::with_policy("default", BOUNDS, bad_streams);
    for (case, code) in [
        ("no finish", "upstream_protocol"),
        ("hang", "upstream_timeout"),
        ("no json", "upstream_protocol"),
        ("not utf-8", "upstream_protocol"),
        ("no object", "upstream_protocol"),
        ("twice", "upstream_protocol"),
        ("delta twice", "upstream_protocol"),
        ("call outside", "upstream_protocol"),
        ("calls no array", "upstream_protocol"),
        ("index", "upstream_protocol"),
        ("index far", "upstream_protocol"),
        ("deep", "upstream_protocol"),
        ("endless", "upstream_protocol"),
        ("one endless line", "upstream_protocol"),
        ("nested", "c"),
        ("flat", "c"),
        ("named", "c"),
        ("number", "503"),
        ("bare", "upstream_protocol"),
    ] {
        failed(&Connection::open(fixture.proxy.address()).chat(&request(case, true)), code, case);
    }
    healthy(&fixture);
}

#[test]
fn an_event_beyond_the_bound() {
    let fixture = Fixture::new("default", |received| {
        let huge = || std::iter::repeat_n("x".repeat(1 << 20), 17);
        if received.json()["model"] == "huge" {
            Scripted::events(std::iter::once("data: \"".to_owned()).chain(huge())).then(BodyPart::Hang)
        } else {
            Scripted::json(200, ANSWER)
        }
    });
    let reply = Connection::open(fixture.proxy.address()).chat(&request("huge", true));
    failed(&reply, "upstream_protocol", "an event of 17 MiB");
    healthy(&fixture);
}

/// Errors in an answer with status 200 come with the status they name, in the envelope.
#[test]
fn errors_with_status_200() {
    let fixture = Fixture::new("default", |received| {
        let body = received.json();
        let case = body["model"].as_str().unwrap_or_default();
        Scripted::json(200, if case.starts_with(['{', '[']) { case.to_owned() } else { ANSWER.to_owned() })
    });
    let mut connection = Connection::open(fixture.proxy.address());
    for (body, status, code, requests) in [
        (r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, 502, json!("c"), 1),
        (r#"{"message":"m","type":"t","code":"c"}"#, 502, json!("c"), 1),
        (r#"[{"error":{"message":"m","code":400}}]"#, 400, json!("400"), 1),
        // As often as after a status of its own.
        (r#"{"error":{"message":"m","code":429},"user_id":"u"}"#, 429, json!("429"), 3),
        (r#"{"error":"m"}"#, 502, Value::Null, 1),
        (r#"{"choices":null,"base_resp":{"status_code":1008,"status_msg":"m"}}"#, 402, json!("1008"), 1),
        (r#"{"id":"c","choices":[],"base_resp":{"status_code":1002,"status_msg":"m"}}"#, 429, json!("1002"), 3),
        (r#"{"choices":null,"base_resp":{"status_code":2013,"status_msg":"m"}}"#, 502, json!("2013"), 1),
    ] {
        for stream in [false, true] {
            let before = fixture.upstream.received().len();
            let reply = connection.chat(&request(body, stream));
            assert_eq!(
                (reply.status, &reply.json()["error"]["message"], &reply.json()["error"]["code"]),
                (status, &json!("m"), &code),
                "{body}: {}",
                reply.text()
            );
            assert_eq!(fixture.upstream.received().len() - before, requests, "{body}");
        }
    }
    healthy(&fixture);
}

#[test]
fn a_call_longer_than_what_is_held() {
    let call = json!([{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": ""}}]);
    let fixture = Fixture::with_policy("[calls]\nmax_repairs = 0\n", "[limits]\nheld_bytes = 1024\n", move |received| {
        let length = received.json()["model"].as_str().and_then(|model| model.parse().ok());
        let Some(length) = length else { return Scripted::json(200, ANSWER) };
        let part =
            |text: &str| json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}}]});
        let mut events = vec![json!({"choices": [{"index": 0, "delta": {"tool_calls": call}}]}), part("{\"a\":\"")];
        events.extend((0..length).map(|_| part("tttttttttt")));
        events.extend([part("\"}"), json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})]);
        Scripted::chunks(events)
    });
    let mut connection = Connection::open(fixture.proxy.address());
    for (length, verdict) in [(100, "pass"), (103, "blocked"), (5000, "blocked")] {
        let reply = connection.chat(&request(&length.to_string(), true));
        assert_eq!(
            (reply.verdict().0.as_str(), reply.text().contains("tttttttttt")),
            (verdict, verdict == "pass"),
            "{length}: {}",
            reply.text()
        );
    }
    healthy(&fixture);
}
