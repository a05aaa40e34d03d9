//! Whose credential goes where, what makes a scope, and where toolmark's own key never shows.

use std::io::Write as _;

use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

use crate::{
    upstreams::stage::{Stage, calls, says, with_tool},
    wire::Connection,
};

const SECRETS: &str = "cookie: session=hidden\r\nx-goog-api-key: hidden\r\napi-key: hidden\r\nx-api-key: hidden\r\nocp-apim-subscription-key: hidden\r\nopenai-organization: hidden\r\nopenai-project: hidden\r\nx-company-auth: hidden\r\nx-amz-security-token: hidden\r\nbaggage: hidden\r\nforwarded: for=hidden\r\n";

fn shown(received: &Received) -> String {
    format!("{} {:?}", received.line, received.headers)
}

fn get(connection: &mut Connection, path: &str, further: &str) -> crate::wire::Reply {
    connection.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer hidden\r\n{further}\r\n").as_bytes());
    connection.reply()
}

fn listed(_: &Received) -> ScriptedReply {
    ScriptedReply::json(200, r#"{"object":"list","data":[]}"#)
}

#[test]
fn a_merged_list_shows_the_caller_to_its_own_upstream_only() {
    let settings = "[[upstreams]]\nname = \"own\"\nbase_url = \"$0\"\napi_key_env = \"OWN_KEY\"\nmodels = [\"a*\"]\n\
        [[upstreams]]\nname = \"callers\"\nbase_url = \"$1\"\nmodels = [\"b*\"]\n\
        [[upstreams]]\nname = \"none\"\nbase_url = \"$2\"\napi_key_env = \"\"\nmodels = [\"c*\"]\n\
        [[upstreams]]\nname = \"second\"\nbase_url = \"$3\"\n";
    let stage = Stage::new(settings, vec![Box::new(listed), Box::new(listed), Box::new(listed), Box::new(listed)]);
    let mut connection = Connection::open(stage.proxy.address());
    let headers = format!("{SECRETS}x-request-id: r7\r\nuser-agent: app/1\r\n");
    assert_eq!(get(&mut connection, "/v1/models?key=hidden&limit=5&api-version=7", &headers).status, 200);
    let seen: Vec<Vec<String>> = stage.upstreams.iter().map(|upstream| upstream.received().iter().map(shown).collect()).collect();
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 0], "{seen:?}");
    for at in [0, 2] {
        assert!(!seen[at][0].contains("hidden"), "{}", seen[at][0]);
        assert!(seen[at][0].contains("/models?api-version=7 ") && seen[at][0].contains("r7") && seen[at][0].contains("app/1"));
    }
    assert!(seen[0][0].contains("sk-own") && !seen[2][0].contains("authorization"), "{seen:?}");
    assert!(seen[1][0].contains("?key=hidden&limit=5") && seen[1][0].matches("hidden").count() > 10, "{}", seen[1][0]);
}

#[test]
fn a_fallback_gets_nothing_of_the_callers() {
    let settings = "[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\nfallback = [\"b\"]\n\
        [[upstreams]]\nname = \"b\"\nbase_url = \"$1\"\napi_key_env = \"OTHER_KEY\"\n";
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let stage = Stage::new(settings, vec![Box::new(|_| ScriptedReply::json(500, "{}")), Box::new(|_| says("Hello."))]);
        let mut connection = Connection::open(stage.proxy.address());
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "hi"}).to_string();
        let _answer = connection.post_as(&format!("{path}?key=hidden&api-version=7"), "Bearer hidden", SECRETS, body.as_bytes());
        let (first, second) = (stage.upstreams[0].received(), stage.upstreams[1].received());
        assert!(shown(&first[0]).contains("?key=hidden") && shown(&first[0]).matches("hidden").count() > 10, "{}", shown(&first[0]));
        let second = shown(&second[0]);
        assert!(!second.contains("hidden") && second.contains("Bearer sk-other") && second.contains("?api-version=7 "), "{second}");
    }
}

/// Anthropic takes a key in `x-api-key` only; what is sent to its own API stays in the header in which it came.
#[test]
fn a_bearer_token_reaches_a_messages_upstream_in_the_header_that_it_takes() {
    let answer = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let settings = "[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\npreset = \"anthropic\"\n";
    let stage = Stage::new(settings, vec![Box::new(move |_| ScriptedReply::json(200, answer))]);
    let mut connection = Connection::open(stage.proxy.address());
    let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    for (path, key) in [("/v1/chat/completions", Some("sk-callers")), ("/v1/messages", None)] {
        assert_eq!(connection.post_as(path, "Bearer sk-callers", "", body.as_bytes()).status, 200);
        let received = stage.upstreams[0].received().pop().unwrap();
        assert_eq!(received.headers.get("x-api-key").and_then(|value| value.to_str().ok()), key, "{path}");
        assert_eq!(received.headers.contains_key("authorization"), key.is_none(), "{path}");
    }
}

#[test]
fn an_upstream_with_a_key_of_its_own_gets_no_callers_credential() {
    for settings in [
        "[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\napi_key_env = \"OWN_KEY\"\n",
        "[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\napi_key_env = \"\"\n",
    ] {
        let stage = Stage::new(settings, vec![Box::new(|_| says("Hello."))]);
        let mut connection = Connection::open(stage.proxy.address());
        let secrets = "cookie: session=hidden\r\nx-goog-api-key: hidden\r\napi-key: hidden\r\nx-api-key: hidden\r\nx-original-url: /v1/hidden\r\nx-http-method-override: hidden\r\n";
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
        connection.post_as("/v1/chat/completions?key=hidden&api-version=7", "Bearer hidden", secrets, body.as_bytes());
        connection.post_as("/v1/embeddings?key=hidden", "Bearer hidden", secrets, b"{}");
        for received in stage.upstreams[0].received() {
            assert!(!shown(&received).contains("hidden"), "{}", shown(&received));
        }
        assert!(stage.upstreams[0].received()[0].line.ends_with("?api-version=7"));
    }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn quoting(received: &Received) -> ScriptedReply {
    let case = received.headers.get("x-case").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let text = r#"{"error":{"message":"bad key sk-own","type":"t","param":null,"code":"c"}}"#;
    let encoded = |encoding: &str, bytes: Vec<u8>| {
        let reply = ScriptedReply::events([bytes]).header("content-type", "application/json").header("content-encoding", encoding);
        reply.status(401)
    };
    match case.as_str() {
        "gzip" => encoded("gzip", gzip(text)),
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoded("deflate", encoder.finish().unwrap())
        }
        "br" => encoded("br", text.into()),
        "twice" => encoded("gzip, gzip", gzip(text)),
        "bomb" => encoded("gzip", gzip(&"x".repeat(8 << 20))),
        "liar" => encoded("gzip", text.into()),
        "escaped" => ScriptedReply::json(400, text.replace("sk-own", "sk\\u002down")),
        "headers" => ScriptedReply::json(200, r#"{"ok":"sk-own"}"#)
            .header("x-debug", "key=sk-own;")
            .header("location", "https://x.example/?key=sk-own")
            .header("link", "<https://x.example/?key=sk%2Down>"),
        "stream" => ScriptedReply::events(["data: {\"text\":\"Hel\"}\n\ndata: {\"err", "or\":{\"message\":\"bad key sk-", "own\"}}\n\n"]),
        "inner" => ScriptedReply::json(200, text),
        _ => ScriptedReply::json(401, text).header("x-debug", "sk-own"),
    }
}

#[test]
fn toolmarks_own_key_shows_nowhere() {
    let stage = Stage::new("[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\napi_key_env = \"OWN_KEY\"\n", vec![Box::new(quoting)]);
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    for case in ["plain", "gzip", "deflate", "br", "twice", "bomb", "liar", "escaped", "headers", "stream", "inner"] {
        for path in ["/v1/embeddings", "/v1/completions", "/v1/chat/completions", "/v1/responses"] {
            let mut connection = Connection::open(stage.proxy.address());
            let mut body = chat.clone();
            body["stream"] = json!(case == "stream");
            body["input"] = json!("hi");
            let reply = connection.post(path, &format!("x-case: {case}\r\naccept-encoding: gzip, br\r\n"), body.to_string().as_bytes());
            let headers = format!("{:?}", reply.headers);
            let what = format!("{case} {path}: {} {headers} {}", reply.status, reply.text());
            assert!((reply.whole || case == "stream") && reply.status != 0, "{what}");
            let echoed = reply.text().replace(r#"{"ok":"sk-own"}"#, "");
            assert!(!echoed.contains("sk-own") && !echoed.contains("u002down"), "{what}");
            assert!(!headers.contains("sk-own") && !headers.contains("sk%2Down"), "{what}");
            assert_eq!(reply.header("content-encoding"), "", "{what}");
            if matches!(case, "gzip" | "deflate" | "plain" | "br" | "twice" | "liar" | "bomb")
                && path.ends_with("s")
                && path.contains("embed")
            {
                assert_eq!(reply.status, 401, "{what}");
                assert!(reply.json()["error"]["message"].is_string(), "{what}");
            }
        }
    }
}

/// The id that the application gets for a call, and whether it is worth anything to somebody else.
#[test]
fn any_credential_makes_a_scope() {
    let settings = "policy = \"strict\"\n[[upstreams]]\nname = \"a\"\nbase_url = \"$0\"\n";
    let stage = Stage::new(settings, vec![Box::new(calls)]);
    let mut connection = Connection::open(stage.proxy.address());
    let post = |connection: &mut Connection, headers: &str, query: &str, body: &Value| {
        let body = body.to_string();
        let head = format!("POST /v1/chat/completions{query} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}");
        connection.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        connection.reply()
    };
    let callers = [
        ("", ""),
        ("authorization: Bearer a\r\n", ""),
        ("authorization: Bearer b\r\n", ""),
        ("api-key: a\r\n", ""),
        ("api-key: b\r\n", ""),
        ("x-api-key: a\r\n", ""),
        ("x-api-key: b\r\n", ""),
        ("x-goog-api-key: a\r\n", ""),
        ("x-goog-api-key: b\r\n", ""),
        ("", "?key=a"),
        ("", "?key=b"),
        ("authorization: Bearer a\r\nx-api-key: c\r\n", ""),
    ];
    let history = |connection: &mut Connection, headers: &str, query: &str| {
        let first = post(connection, headers, query, &with_tool("m"));
        let call = first.json()["choices"][0]["message"]["tool_calls"][0].clone();
        let mut second = with_tool("m");
        let messages = second["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "{\"temp\":20}"}));
        second
    };
    for (at, (headers, query)) in callers.iter().enumerate() {
        let conversation = history(&mut connection, headers, query);
        for (other, (headers, query)) in callers.iter().enumerate() {
            let reply = post(&mut connection, headers, query, &conversation);
            let known = !["unverified_call", "altered_call"].iter().any(|code| reply.text().contains(code));
            assert_eq!(known, at == other, "{:?} at {:?}: {}", callers[at], callers[other], reply.text());
        }
    }
}
