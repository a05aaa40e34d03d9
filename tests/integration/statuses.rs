//! Statuses of an upstream that are neither an answer's nor an error's: nothing of them leaves, whatever was asked.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use serde_json::{Value, json};
use toolmark::testing::{Proxy, Received, ScriptedReply as Scripted, ScriptedUpstream};

use crate::{
    bad_input::{ANSWER, refused},
    harness::Fixture,
    wire::{Connection, Reply},
};

/// A call that nobody judged.
const STOLEN: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"rm","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;

fn status(received: &Received) -> u16 {
    received.headers.get("x-status").and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(200)
}

fn get(connection: &mut Connection, path: &str, further: &str) -> Reply {
    connection.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer test\r\n{further}\r\n").as_bytes());
    connection.reply()
}

fn message(reply: &Reply) -> String {
    reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn redirects_are_passed_on_nowhere() {
    for policy in ["default", "strict", "observe"] {
        let fixture = Fixture::new(policy, |received| match status(received) {
            200 => Scripted::json(200, ANSWER),
            status => {
                let path = received.line.split(' ').next_back().unwrap_or_default().trim_start_matches("/v1");
                let place = format!("https://user:hidden@moved.example/api/v2{path}?key=hidden");
                Scripted::json(status, STOLEN).header("location", place).header("alt-svc", "h3=\":443\"").header("refresh", "0; url=/x")
            }
        });
        let mut connection = Connection::open(fixture.proxy.address());
        for status in [300, 301, 302, 303, 305, 307, 308, 399] {
            let header = format!("x-status: {status}\r\n");
            let mut seen = Vec::new();
            for stream in [false, true] {
                let chat = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}).to_string();
                let responses = json!({"model": "m", "stream": stream, "input": "hi"}).to_string();
                seen.push(connection.post("/v1/chat/completions", &header, chat.as_bytes()));
                seen.push(connection.post("/v1/responses", &header, responses.as_bytes()));
                assert_eq!(seen.last().unwrap().header("toolmark-verdict"), "failed");
            }
            seen.push(connection.post("/v1/embeddings", &header, b"{}"));
            seen.push(connection.post("/v1/completions", &header, b"{}"));
            seen.push(get(&mut connection, "/v1/models", &header));
            seen.push(get(&mut connection, "/v1/files/f/content", &format!("{header}if-none-match: \"x\"\r\n")));
            for (at, reply) in seen.iter().enumerate() {
                let what = format!("{policy}, {status}, {at}");
                refused(reply, 502, "upstream_protocol", &what);
                assert!(message(reply).ends_with("set `base_url = \"https://moved.example/api/v2\"`"), "{what}: {}", message(reply));
                let headers = format!("{:?}", reply.headers);
                assert!(
                    !reply.text().contains("hidden") && !headers.contains("moved.example") && !headers.contains("refresh"),
                    "{headers}"
                );
            }
        }
        assert_eq!(connection.chat(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#).status, 200);
    }
}

#[test]
fn statuses_that_some_clients_take_for_success_are_errors() {
    let fixture = Fixture::new("default", |received| match status(received) {
        200 => Scripted::json(200, ANSWER),
        status => Scripted::json(status, if matches!(status, 201..=203) { ANSWER } else { STOLEN }).header("alt-svc", "h3=\":443\""),
    });
    let mut connection = Connection::open(fixture.proxy.address());
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    for status in [204, 205, 206, 207, 208, 226, 299, 304, 600, 700, 999] {
        let reply = connection.post("/v1/chat/completions", &format!("x-status: {status}\r\n"), body.as_bytes());
        refused(&reply, 502, "upstream_protocol", &format!("{status}"));
    }
    for status in [600, 304] {
        let reply = connection.post("/v1/embeddings", &format!("x-status: {status}\r\n"), b"{}");
        refused(&reply, 502, "upstream_protocol", &format!("{status}, unenforced"));
    }
    for status in [201, 202, 203] {
        let reply = connection.post("/v1/chat/completions", &format!("x-status: {status}\r\n"), body.as_bytes());
        assert_eq!((reply.status, reply.header("toolmark-verdict"), reply.header("alt-svc")), (status, "pass", ""), "{}", reply.text());
    }
    // A caller that has a copy hears that it is still good; parts of files pass.
    assert_eq!(get(&mut connection, "/v1/files/f", "x-status: 304\r\nif-none-match: \"x\"\r\n").status, 304);
    let mut connection = Connection::open(fixture.proxy.address());
    assert_eq!(get(&mut connection, "/v1/files/f/content", "x-status: 206\r\nrange: bytes=0-1\r\n").status, 206);
}

#[test]
fn an_upstream_that_changes_the_protocol_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 4096];
            let _length = stream.read(&mut asked);
            let _gone = stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(&format!("[[upstreams]]\nname = \"a\"\nbase_url = \"http://{address}/v1\"\n"), &[], directory.path()).unwrap();
    let mut connection = Connection::open(proxy.address());
    for _ in 0..2 {
        let chat = connection.chat(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
        refused(&chat, 502, "upstream_protocol", "chat");
        refused(&connection.post("/v1/embeddings", "", b"{}"), 502, "upstream_protocol", "embeddings");
    }
}

#[test]
fn a_redirect_goes_to_the_fallback_and_probes_say_what_to_set() {
    let moved =
        ScriptedUpstream::start(|_| Scripted::json(307, "").header("location", "https://moved.example/v9/chat/completions")).unwrap();
    let other = ScriptedUpstream::start(|_| Scripted::json(200, ANSWER)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let settings = |probe: &str, fallback: &str| {
        format!(
            "[[upstreams]]\nname = \"a\"\nbase_url = \"{}\"\napi_key_env = \"\"\nprobe = \"{probe}\"\n{fallback}\n[[upstreams]]\nname = \"b\"\nbase_url = \"{}\"\napi_key_env = \"\"\nmodels = [\"other\"]\n",
            moved.base_url(),
            other.base_url()
        )
    };
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let with = Proxy::start(&settings("off", "fallback = [\"b\"]\nfallback_models = { m = \"other\" }"), &[], directory.path()).unwrap();
    assert_eq!(Connection::open(with.address()).chat(body).status, 200);
    let probed = Proxy::start(&settings("startup", ""), &[], directory.path()).unwrap();
    let tools = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#;
    let reply = Connection::open(probed.address()).chat(tools);
    refused(&reply, 502, "upstream_protocol", "probed");
    assert!(message(&reply).ends_with("set `base_url = \"https://moved.example/v9\"`"), "{}", message(&reply));
    let merged = Connection::open(probed.address()).get("/v1/models");
    let body: Value = merged.json();
    assert_eq!(body["error"]["code"], "upstream_protocol", "{body}");
}
