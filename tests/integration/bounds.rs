//! Requests and answers that are meant to take long, or much memory: none holds a worker, and each is answered. That no
//! step of them was too long the proxy itself says when it ends: see `toolmark::testing::Proxy`.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

use crate::{
    harness::{Fixture, post},
    program::{Running, command},
};

/// An answer of this text, or with this call.
fn answer(text: Option<&str>, call: Option<&str>) -> ScriptedReply {
    let calls = call.map(|arguments| json!([{"id": "c1", "type": "function", "function": {"name": "write", "arguments": arguments}}]));
    let reason = if call.is_some() { "tool_calls" } else { "stop" };
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": text, "tool_calls": calls}, "finish_reason": reason});
    ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string())
}

/// The same in a stream of small pieces.
fn streamed(text: &str) -> ScriptedReply {
    let chunk = |delta: Value, reason: Value| {
        format!(
            "data: {}\n\n",
            json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        )
    };
    let mut events: Vec<String> =
        text.as_bytes().chunks(4096).map(|piece| chunk(json!({"content": String::from_utf8_lossy(piece)}), Value::Null)).collect();
    events.push(chunk(json!({}), json!("stop")));
    events.push("data: [DONE]\n\n".into());
    ScriptedReply::events(events)
}

fn request(schema: Value, said: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": said}],
        "tools": [{"type": "function", "function": {"name": "write", "parameters": schema}}]})
}

/// 30 kinds of blocks, each with children.
fn blocks() -> Value {
    let kind = |n: usize| json!({"properties": {"type": {"const": format!("kind_{n}")}, "children": {"type": "array", "items": {"$ref": "#/$defs/block"}}}, "required": ["type"]});
    let kinds: Vec<Value> = (0..30).map(kind).collect();
    json!({"type": "object", "properties": {"block": {"$ref": "#/$defs/block"}}, "$defs": {"block": {"anyOf": kinds}}})
}

#[test]
fn wrong_calls_are_answered() {
    let deep = format!("{{\"block\":{}1{}}}", "{\"children\":[".repeat(12), "]}".repeat(12));
    let kinds: Vec<Value> = (0..500).map(|n| json!({"properties": {"type": {"const": format!("k{n}")}}, "required": ["type"]})).collect();
    let many = format!("{{\"list\":[{}]}}", vec!["{\"type\":\"x\"}"; 4000].join(","));
    let patterns: serde_json::Map<String, Value> =
        (0..800).map(|n| (format!("p{n}"), json!({"pattern": format!(r"^\p{{L}}{{20}}{n}?$")}))).collect();
    let lookahead = json!({"properties": {"text": {"type": "string", "pattern": "(?=.*x).*y"}}});
    for (schema, call, code) in [
        (blocks(), deep, "schema_violation"),
        (json!({"properties": {"list": {"items": {"anyOf": kinds}}}}), many, "schema_violation"),
        (json!({ "properties": patterns }), r#"{"p0":"x"}"#.to_owned(), "invalid_tool_schema"),
        (lookahead, format!("{{\"text\":\"{}\"}}", "a".repeat(20_000)), "schema_violation"),
    ] {
        let fixture = Fixture::new("default", move |_: &Received| answer(None, Some(&call)));
        let answered = fixture.chat(&request(schema, "Write it.").to_string());
        assert_eq!(answered.status, 200, "{}", answered.body);
        assert!(answered.header("toolmark-violations").contains(code), "{code}: {:?}", answered.headers);
    }
}

#[test]
fn long_texts_are_answered() {
    let quotes: String = (0..400).map(|n| format!("It said \"entry number {n} of the log\", see execution_id: ref-{n}x. ")).collect();
    let log: String = (0..60_000).map(|n| format!("entry {n} was written at place {}\n", n * 7 % 1000)).collect();
    let base64 = "iVBORw0KGgoAAAANSUhEUgAA".repeat(60_000);
    for (said, text) in [(log.as_str(), quotes.as_str()), ("Draw it.", base64.as_str()), (base64.as_str(), "Here it is.")] {
        for stream in [false, true] {
            let own = text.to_owned();
            let fixture = Fixture::new("default", move |_: &Received| if stream { streamed(&own) } else { answer(Some(&own), None) });
            let mut body = request(json!({"type": "object"}), said);
            body["stream"] = stream.into();
            let answered = fixture.chat(&body.to_string());
            assert_eq!(answered.status, 200, "{}", &answered.body[..200.min(answered.body.len())]);
        }
    }
}

/// Bytes of memory that one request may take for each byte that it sends, as docs/operating.md (Limits) says.
const MULTIPLE: u64 = 24;
/// Bytes besides.
const BESIDES: u64 = 96 << 20;

#[test]
fn memory_is_a_multiple_of_what_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let upstream =
        toolmark::testing::ScriptedUpstream::start(|_: &Received| answer(Some("There were 12345 entries, the last on 2024-05-07."), None))
            .unwrap();
    let settings = format!(
        "listen = \"127.0.0.1:0\"\npolicy = \"default\"\n[ledger]\nurl = \"memory:\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n",
        upstream.base_url()
    );
    std::fs::write(directory.path().join("toolmark.toml"), settings).unwrap();
    let mut running = Running::start(command(&["serve"], directory.path()));
    let (address, id) = (running.address(), running.id());
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    let conversation = |results: Vec<String>| {
        let calls = results
            .iter()
            .enumerate()
            .map(|(n, _)| json!({"id": format!("c{n}"), "type": "function", "function": {"name": "write", "arguments": "{}"}}));
        let mut messages = vec![
            json!({"role": "user", "content": "How many?"}),
            json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()}),
        ];
        messages
            .extend(results.iter().enumerate().map(|(n, text)| json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": text})));
        let tool = json!({"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}});
        json!({"model": "m", "messages": messages, "tools": [tool]}).to_string()
    };
    let numbers: String = (0..250_000).map(|n| format!("{n},")).collect();
    let objects: String = (0..40_000).map(|n| format!("{{\"id\":{n},\"at\":\"2024-05-07\"}},")).collect();
    let many = (0..20_000).map(|n| json!({"role": "user", "content": n.to_string()})).collect::<Vec<_>>();
    let tools = |count: usize| {
        (0..count).map(|n| json!({"type": "function", "function": {"name": format!("t{n}"), "parameters": {"properties": {"a": {"anyOf": [{"type": "string"}, {"enum": [n, "b"]}]}}}}})).collect::<Vec<_>>()
    };
    for (shape, body) in [
        ("one long text", request(json!({}), &"x".repeat(2 << 20)).to_string()),
        ("many messages", json!({"model": "m", "messages": many}).to_string()),
        (
            "brackets",
            format!("{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"a\"}}],\"metadata\":[{}0]}}", "[],".repeat(600_000)),
        ),
        ("a result of numbers", conversation(vec![format!("[{}0]", numbers)])),
        ("a result of objects", conversation(vec![format!("[{}0]", objects)])),
        ("many results", conversation((0..10_000).map(|n| format!("{{\"n\":{n}}}")).collect())),
        ("many tools", json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": tools(8000)}).to_string()),
    ] {
        let before = peak();
        let answered = post(&format!("http://{address}/v1/chat/completions"), &body, "Bearer test");
        assert!(answered.status < 500, "{shape}: {} {}", answered.status, &answered.body[..300.min(answered.body.len())]);
        let (sent, taken) = (body.len() as u64, peak() - before);
        println!("{shape}: {sent} bytes sent, {taken} taken: {} times", taken / sent);
        assert!(taken <= sent * MULTIPLE + BESIDES, "{shape}: {taken} bytes for {sent}");
    }
}
