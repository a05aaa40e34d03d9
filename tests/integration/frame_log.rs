//! The log as it is written by `toolmark serve`: levels, fields, and what never stands in it.

use std::path::Path;

use serde_json::Value;
use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream};

use crate::{
    harness::post,
    program::{Running, command, until},
};

/// Calls an invented tool, and then the one that there is.
fn script(received: &Received) -> ScriptedReply {
    let (name, id) = if received.number == 0 { ("secret_invented", "a") } else { ("get_weather", "b") };
    let call = format!(r#"{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{{\"city\":\"SECRET-CITY\"}}"}}}}"#);
    let message = format!(r#"{{"role":"assistant","content":"SECRET-TEXT","tool_calls":[{call}]}}"#);
    ScriptedReply::json(
        200,
        format!(
            r#"{{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{message},"finish_reason":"tool_calls"}}]}}"#
        ),
    )
}

const REQUEST: &str = r#"{"model":"gpt-x","messages":[{"role":"user","content":"SECRET-QUESTION"}],"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}"#;

/// One exchange with this log; its lines.
fn logged(directory: &Path, format: &str, rust_log: Option<&str>) -> Vec<String> {
    logged_of(directory, format, rust_log, "chat/completions", REQUEST, "repaired", script)
}

fn logged_of(
    directory: &Path,
    format: &str,
    rust_log: Option<&str>,
    path: &str,
    request: &str,
    verdict: &str,
    script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static,
) -> Vec<String> {
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!(
        "listen = \"127.0.0.1:0\"\n[log]\nformat = \"{format}\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n[ledger]\nurl = \"memory:\"\n",
        upstream.base_url()
    );
    std::fs::write(directory.join("toolmark.toml"), settings).unwrap();
    let port = free_port();
    let mut command = command(&["serve", "--listen", &format!("127.0.0.1:{port}")], directory);
    command.env("TOOLMARK_KEY", "ab".repeat(32));
    if let Some(filter) = rust_log {
        command.env("RUST_LOG", filter);
    }
    let toolmark = Running::start(command);
    until("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let answer = post(&format!("http://127.0.0.1:{port}/v1/{path}"), request, "Bearer SECRET-TOKEN");
    assert!(answer.status == 200 && [verdict, ""].contains(&answer.header("toolmark-verdict")), "{answer:?}");
    toolmark.signal("TERM");
    let ended = toolmark.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for secret in ["SECRET", "secret_invented", &"ab".repeat(32)] {
        assert!(!ended.stdout.contains(secret) && !ended.stderr.contains(secret), "{secret} stands in the log:\n{}", ended.stdout);
    }
    ended.stdout.lines().map(str::to_owned).collect()
}

/// A port that was free a moment ago: where the log says nothing, no line names the one that was given.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn json_lines_have_the_contracts_fields_and_no_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let lines = logged(directory.path(), "json", Some("trace"));
    let objects: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    assert!(
        objects
            .iter()
            .all(|line| line.is_object() && line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string())
    );
    let exchange: Vec<&Value> = objects.iter().filter(|line| line["verdict"].is_string()).collect();
    let [exchange] = exchange[..] else { panic!("an exchange is one line: {lines:?}") };
    assert_eq!(exchange["level"], "INFO");
    for (field, value) in [
        ("model", Value::from("gpt-x")),
        ("upstream", "scripted".into()),
        ("tools", 1.into()),
        ("tool_choice", "auto".into()),
        ("verdict", "repaired".into()),
        ("status", 200.into()),
        ("repairs", 1.into()),
        ("attempts", 2.into()),
        ("stream", false.into()),
    ] {
        assert_eq!(exchange[field], value, "{field} of {exchange}");
    }
    for field in ["total_ms", "upstream_ms"] {
        assert!(exchange[field].is_u64(), "{field} of {exchange}");
    }
    let of = |level: &str, words: &str| {
        objects.iter().any(|line| {
            line["level"] == level && line["message"].as_str().unwrap().contains(words) && line["exchange"] == exchange["exchange"]
        })
    };
    assert!(of("WARN", "violation unknown_tool"), "{lines:?}");
    assert!(of("DEBUG", "call of get_weather"), "{lines:?}");
}

#[test]
fn levels() {
    let directory = tempfile::tempdir().unwrap();
    for (rust_log, exchange, violation, call) in [
        (None, true, true, false),
        (Some("warn"), false, true, false),
        (Some("off"), false, false, false),
        (Some("toolmark=debug"), true, true, true),
    ] {
        let lines = logged(directory.path(), "text", rust_log).join("\n");
        assert!(!lines.contains('\u{1b}'), "no colours in a file");
        assert_eq!(
            (lines.contains("exchange repaired"), lines.contains("violation unknown_tool"), lines.contains("call of get_weather")),
            (exchange, violation, call),
            "{rust_log:?}: {lines}"
        );
    }
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let output = command(&["serve", "--upstream", "http://127.0.0.1:9/v1", "--listen", "127.0.0.1:0"], directory.path())
        .env("RUST_LOG", "a=b=c")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("RUST_LOG"));
}

/// Calls of tools that the upstream runs itself pass, and are recorded: whole and streamed.
#[test]
fn hosted_calls_are_recorded() {
    let search = r#"{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"SECRET"}}"#;
    let said = r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"SECRET-TEXT","annotations":[]}]}"#;
    let response = format!(r#"{{"id":"resp_1","object":"response","status":"completed","output":[{search},{said}]}}"#);
    let event = format!("event: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":{response}}}\n\n");
    for stream in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let request = format!(r#"{{"model":"m","input":"SECRET","stream":{stream},"tools":[{{"type":"web_search"}}]}}"#);
        let reply = if stream { ScriptedReply::events([event.clone()]) } else { ScriptedReply::json(200, response.clone()) };
        let script = move |_: &Received| reply.clone();
        let lines = logged_of(directory.path(), "text", Some("toolmark=debug"), "responses", &request, "pass", script);
        assert!(lines.iter().any(|line| line.contains("hosted web_search_call")), "{lines:?}");
    }
}

/// What a claim was compared with is told to the model and to people who ask, and stands in no line.
#[test]
fn claims_are_masked() {
    let directory = tempfile::tempdir().unwrap();
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"get_weather","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"1","content":"{\"page\":\"https://files.players.net/SECRET-PAGE\"}"}"#;
    let request = REQUEST.replace(r#"SECRET-QUESTION"}"#, &format!(r#"Where?"}},{call},{result}"#));
    let message = r#"{"role":"assistant","content":"See https://files.players.net/a/SECRET-ADDRESS/b for that."}"#;
    let body = format!(
        r#"{{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#
    );
    let script = move |_: &Received| ScriptedReply::json(200, body.clone());
    let lines = logged_of(directory.path(), "text", Some("trace"), "chat/completions", &request, "warn", script);
    assert!(lines.iter().any(|line| line.contains("violation fabricated_url")), "{lines:?}");
}

/// Beside the start, so that no exchange is the first to wait for them.
#[test]
fn lexicons_are_read_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(&["serve", "--upstream", "http://127.0.0.1:9/v1", "--listen", "127.0.0.1:0"], directory.path());
    command.env("RUST_LOG", "toolmark=debug");
    let mut toolmark = Running::start(command);
    toolmark.line_with("the lexicons are ready");
}
