//! Marks and stamps as applications and upstreams meet them: across processes, restarts and credentials.

use std::path::Path;

use serde_json::{Value, json};
use toolmark::testing::{Proxy, Received, ScriptedReply as Scripted, ScriptedUpstream};

use crate::{
    harness::Fixture,
    process::Process,
    wire::{self, Connection, Reply},
};

const ARGUMENTS: &str = r#"{"city":"Paris","days":3,"note":"née à \"Oz\""}"#;
const RESULT: &str = r#"{ "temperature" : 21.50, "wind": 1E3 }"#;

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])
}

/// Calls the tool when nothing was answered yet; else says what the header `x-say` asks for.
fn script(received: &Received) -> Scripted {
    let body = received.json();
    let answered = body["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool" || message["role"] == "function");
    let message = if answered {
        let say = received.headers.get("x-say").and_then(|value| value.to_str().ok()).filter(|say| !say.is_empty()).unwrap_or("Sunny.");
        json!({"role": "assistant", "content": say})
    } else {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}]})
    };
    Scripted::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string())
}

fn request(messages: &Value) -> String {
    json!({"model": "m", "messages": messages, "tools": tools()}).to_string()
}

fn as_caller(connection: &mut Connection, key: &str, say: &str, body: &str) -> Reply {
    let head = format!("x-api-note: 1\r\nx-say: {say}\r\n");
    connection.post_as("/v1/chat/completions", &format!("Bearer {key}"), &head, body.as_bytes())
}

/// Has a call made; its mark.
fn call(connection: &mut Connection, key: &str) -> String {
    let reply = as_caller(connection, key, "", &request(&json!([{"role": "user", "content": "Weather?"}])));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let id = reply.json()["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap().to_owned();
    assert!(wire::is_mark(&id), "{id}");
    id
}

/// The conversation after the call was answered.
fn answered(id: &str, name: &str, arguments: &str, result: Value) -> Value {
    json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": id, "content": result},
    ])
}

/// The result as the upstream got it last.
fn last_result(upstream: &ScriptedUpstream) -> Value {
    let body = upstream.received().last().unwrap().json();
    body["messages"].as_array().unwrap().iter().rev().find(|message| message["role"] == "tool").unwrap()["content"].clone()
}

/// The execution ID in a stamped result.
fn execution_of(result: &Value) -> Option<String> {
    let text = result.as_str()?;
    let stamped: Value = serde_json::from_str(text).ok()?;
    Some(stamped["execution_id"].as_str()?.to_owned())
}

/// Sends a conversation; the codes found, and the result's execution ID upstream, where it was stamped.
fn judged(
    connection: &mut Connection,
    upstream: &ScriptedUpstream,
    key: &str,
    say: &str,
    messages: &Value,
) -> (Vec<String>, Option<String>) {
    let reply = as_caller(connection, key, say, &request(messages));
    assert_eq!(reply.status, 200, "{}", reply.text());
    (reply.verdict().1, execution_of(&last_result(upstream)))
}

#[test]
fn two_processes_with_one_key_accept_each_others_marks() {
    let upstream = ScriptedUpstream::start(script).unwrap();
    let key = ["ab".repeat(32), "cd".repeat(32)];
    let (first, second) = (Process::start(&upstream, "", Some(&key[0])), Process::start(&upstream, "", Some(&key[0])));
    let stranger = Process::start(&upstream, "", Some(&key[1]));
    let rotated = Process::start(&upstream, "", Some(&format!("{},{}", key[1], key[0])));
    let id = call(&mut first.connect(), "a");
    let messages = answered(&id, "get_weather", ARGUMENTS, json!(RESULT));
    let (codes, execution) = judged(&mut second.connect(), &upstream, "a", "", &messages);
    assert_eq!(codes, Vec::<String>::new());
    let execution = execution.expect("no stamp by the other process");
    assert_eq!(judged(&mut first.connect(), &upstream, "a", "", &messages), (vec![], Some(execution.clone())));
    // An older key verifies and the newest stamps; one that never had the key knows nothing.
    let (codes, by_new_key) = judged(&mut rotated.connect(), &upstream, "a", "", &messages);
    assert!(codes.is_empty() && by_new_key.is_some_and(|new| new != execution), "{codes:?}");
    assert_eq!(judged(&mut stranger.connect(), &upstream, "a", "", &messages).1, None);
    // And the citation that the first one's stamp gave holds at the second.
    let say = format!("Sunny (execution_id: {execution}).");
    let reply = as_caller(&mut second.connect(), "a", &say, &request(&messages));
    assert_eq!(reply.verdict(), ("pass".to_owned(), vec![]), "{}", reply.text());
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Sunny.");
}

#[test]
fn a_restart_forgets_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let upstream = ScriptedUpstream::start(script).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let first = Process::start_in(directory.path(), &upstream, "[ledger]\nurl = \"sqlite:toolmark.db\"\n", None);
    let id = call(&mut first.connect(), "a");
    assert!(first.stop().success());
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap()).collect();
    let key =
        files.iter().find(|file| file.file_name().to_string_lossy().contains("key")).unwrap_or_else(|| panic!("no key file: {files:?}"));
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let second = Process::start_in(directory.path(), &upstream, "[ledger]\nurl = \"sqlite:toolmark.db\"\n", None);
    let (codes, execution) = judged(&mut second.connect(), &upstream, "a", "", &answered(&id, "get_weather", ARGUMENTS, json!(RESULT)));
    assert!(codes.is_empty() && execution.is_some(), "{codes:?} {execution:?}");
}

fn proxy(upstream: &ScriptedUpstream, upstream_settings: &str, further: &str, policy: &str, directory: &Path) -> Proxy {
    std::fs::write(directory.join("policy.toml"), policy).unwrap();
    let settings = format!(
        "policy = \"policy.toml\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n{upstream_settings}{further}",
        upstream.base_url()
    );
    Proxy::start(&settings, &[], directory).unwrap()
}

#[test]
fn another_credentials_marks_are_worth_nothing() {
    for (scope, worth) in [("", false), ("[marks]\nscope = \"shared\"\n", true)] {
        let fixture = Fixture::with_policy("default", scope, script);
        let mut connection = Connection::open(fixture.proxy.address());
        let id = call(&mut connection, "a");
        let messages = answered(&id, "get_weather", ARGUMENTS, json!(RESULT));
        let (codes, execution) = judged(&mut connection, &fixture.upstream, "b", "", &messages);
        assert_eq!(execution.is_some(), worth, "{scope}");
        // Of foreign marks one in 256 looks like an altered one of ours.
        let foreign = |codes: &[String]| matches!(codes, [code] if code == "unverified_call" || code == "altered_call");
        assert!(if worth { codes.is_empty() } else { foreign(&codes) }, "{scope}: {codes:?}");
        let (_, execution) = judged(&mut connection, &fixture.upstream, "a", "", &messages);
        let say = format!("Sunny (execution_id: {}).", execution.unwrap());
        let reply = as_caller(&mut connection, "b", &say, &request(&messages));
        assert_eq!(reply.verdict().0 == "pass", worth, "{scope}: {}", reply.text());
    }
}

#[test]
fn results_are_stamped_in_front_and_otherwise_untouched() {
    let fixture = Fixture::new("default", script);
    let mut connection = Connection::open(fixture.proxy.address());
    let id = call(&mut connection, "a");
    let messages = answered(&id, "get_weather", ARGUMENTS, json!(RESULT));
    let execution = judged(&mut connection, &fixture.upstream, "a", "", &messages).1.unwrap();
    let stamped = last_result(&fixture.upstream).as_str().unwrap().to_owned();
    let member = format!(r#"{{"execution_id":"{execution}","#);
    assert_eq!(stamped.replacen(&member, "{", 1), RESULT, "{stamped}");
    // Twice the same request: byte for byte the same upstream.
    judged(&mut connection, &fixture.upstream, "a", "", &messages);
    let received = fixture.upstream.received();
    let [.., before, last] = &received[..] else { panic!("two requests were sent") };
    assert_eq!(before.body, last.body);
    // Anything that is no object: one line before it.
    for (result, tail) in [(json!("plain\n text "), "plain\n text "), (json!("[1, 2]"), "[1, 2]"), (json!(""), "")] {
        as_caller(&mut connection, "a", "", &request(&answered(&id, "get_weather", ARGUMENTS, result)));
        let got = last_result(&fixture.upstream);
        let expected = format!("[execution_id: {execution}]\n{tail}");
        assert_eq!(got, json!(expected));
    }
    // Parts get a text part in front; images stay.
    let parts = json!([{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "data:,"}}]);
    as_caller(&mut connection, "a", "", &request(&answered(&id, "get_weather", ARGUMENTS, parts.clone())));
    let got = last_result(&fixture.upstream);
    assert_eq!((got[0]["type"].as_str(), got[1] == parts[0], got[2] == parts[1]), (Some("text"), true, true), "{got}");
    assert!(got[0]["text"].as_str().unwrap().contains(&execution), "{got}");
}

#[test]
fn citations_verify_and_are_hidden() {
    let fixture = Fixture::new("default", script);
    let mut connection = Connection::open(fixture.proxy.address());
    let id = call(&mut connection, "a");
    let messages = answered(&id, "get_weather", ARGUMENTS, json!(RESULT));
    let execution = judged(&mut connection, &fixture.upstream, "a", "", &messages).1.unwrap();
    let say = |text: &str| as_caller(&mut Connection::open(fixture.proxy.address()), "a", text, &request(&messages));
    let reply = say(&format!("21.5 degrees (execution_id: {execution})."));
    assert_eq!((reply.verdict(), &reply.json()["choices"][0]["message"]["content"]), (("pass".into(), vec![]), &json!("21.5 degrees.")));
    for at in (0..execution.len()).step_by(3) {
        let flipped = flip(&execution, at);
        let (verdict, codes) = say(&format!("21.5 degrees (execution_id: {flipped}).")).verdict();
        assert_eq!(verdict, "blocked", "{flipped}");
        assert!(codes.iter().any(|code| code == "unknown_execution" || code == "tool_mismatch"), "{flipped}: {codes:?}");
    }
    // The ID is ours, and its result isn't in the conversation.
    let other = call(&mut connection, "a");
    let other = answered(&other, "get_weather", ARGUMENTS, json!(RESULT));
    let reply = as_caller(&mut connection, "a", &format!("Earlier it was 21.5 (execution_id: {execution})."), &request(&other));
    assert_eq!(reply.verdict(), ("warn".into(), vec!["execution_elsewhere".into()]), "{}", reply.text());
}

/// Another character of the same kind.
fn flip(text: &str, at: usize) -> String {
    let other = |c: char| match c {
        '0' => '1',
        '0'..='9' => '0',
        'a' => 'b',
        'a'..='z' => 'a',
        _ => 'x',
    };
    text.chars().enumerate().map(|(place, c)| if place == at { other(c) } else { c }).collect()
}

#[test]
fn what_was_altered_is_noticed_and_what_was_reserialised_is_not() {
    let fixture = Fixture::new("default", script);
    let mut connection = Connection::open(fixture.proxy.address());
    let id = call(&mut connection, "a");
    let mut found = |id: &str, name: &str, arguments: &str| {
        judged(&mut connection, &fixture.upstream, "a", "", &answered(id, name, arguments, json!(RESULT)))
    };
    for arguments in [
        ARGUMENTS,
        r#"{"note":"née à \"Oz\"", "days" : 3.0,"city":"Paris"}"#,
        r#"{"city":"P\u0061ris","days":3e0,"note":"n\u00e9e \u00E0 \u0022Oz\""}"#,
    ] {
        let (codes, execution) = found(&id, "get_weather", arguments);
        assert!(codes.is_empty() && execution.is_some(), "{arguments}: {codes:?}");
    }
    for at in (5..id.len()).step_by(2) {
        let (codes, execution) = found(&flip(&id, at), "get_weather", ARGUMENTS);
        let noticed = codes.iter().any(|code| code == "altered_call" || code == "unverified_call");
        assert!(noticed && execution.is_none(), "{}: {codes:?}", flip(&id, at));
    }
    for (name, arguments) in [
        ("get_weathes", ARGUMENTS.to_owned()),
        ("Get_weather", ARGUMENTS.to_owned()),
        ("get_weather", ARGUMENTS.replace('3', "4")),
        ("get_weather", ARGUMENTS.replace("Paris", "paris")),
        ("get_weather", ARGUMENTS.replace("é", "e")),
        ("get_weather", ARGUMENTS.replace("3", "\"3\"")),
        ("get_weather", ARGUMENTS.replace("note", "nots")),
        ("get_weather", "{}".to_owned()),
        ("get_weather", String::new()),
    ] {
        let (codes, execution) = found(&id, name, &arguments);
        assert!(codes.iter().any(|code| code == "altered_call") && execution.is_none(), "{name} {arguments}: {codes:?}");
    }
}

#[test]
fn short_ids_where_the_upstream_needs_them() {
    let (upstream, directory) = (ScriptedUpstream::start(script).unwrap(), tempfile::tempdir().unwrap());
    let proxy = proxy(&upstream, "call_ids = \"short9\"\n", "", "", directory.path());
    let mut connection = Connection::open(proxy.address());
    let (first, second) = (call(&mut connection, "a"), call(&mut connection, "a"));
    let mut messages = answered(&first, "get_weather", ARGUMENTS, json!(RESULT)).as_array().unwrap().clone();
    messages.push(json!({"role": "assistant", "content": "Sunny."}));
    messages.extend(answered(&second, "get_weather", ARGUMENTS, json!(RESULT)).as_array().unwrap().clone());
    let (codes, execution) = judged(&mut connection, &upstream, "a", "", &json!(messages));
    assert!(codes.is_empty() && execution.is_some(), "{codes:?}");
    let body = upstream.received().last().unwrap().json();
    let ids = |pointer: &str| -> Vec<String> {
        body["messages"].as_array().unwrap().iter().filter_map(|message| Some(message.pointer(pointer)?.as_str()?.to_owned())).collect()
    };
    let (calls, results) = (ids("/tool_calls/0/id"), ids("/tool_call_id"));
    assert_eq!(calls, results);
    assert!(calls.len() == 2 && calls[0] != calls[1], "{calls:?}");
    assert!(calls.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())), "{calls:?}");
}

#[test]
fn executions_expire_after_the_window() {
    let (upstream, directory) = (ScriptedUpstream::start(script).unwrap(), tempfile::tempdir().unwrap());
    // A policy is re-read, the marks stay: the window closes behind the call.
    let proxy = proxy(&upstream, "", "", "[calls]\nmax_repairs = 0\n[results]\nwindow = \"1h\"\n", directory.path());
    let mut connection = Connection::open(proxy.address());
    let id = call(&mut connection, "a");
    let messages = answered(&id, "get_weather", ARGUMENTS, json!(RESULT));
    let (codes, execution) = judged(&mut connection, &upstream, "a", "", &messages);
    let say = format!("Sunny (execution_id: {}).", execution.unwrap());
    assert_eq!(codes, Vec::<String>::new());
    assert_eq!(as_caller(&mut connection, "a", &say, &request(&messages)).verdict().0, "pass");
    std::fs::write(directory.path().join("policy.toml"), "[calls]\nmax_repairs = 0\n[results]\nwindow = \"1ms\"\n").unwrap();
    proxy.reload();
    let reply = as_caller(&mut connection, "a", &say, &request(&messages));
    assert_eq!(reply.verdict(), ("blocked".into(), vec!["expired_execution".into()]), "{}", reply.text());
}

#[test]
fn legacy_functions_are_judged_and_never_stamped() {
    let fixture = Fixture::new("default", script);
    let mut connection = Connection::open(fixture.proxy.address());
    let functions = json!([{"name": "get_weather", "parameters": {"type": "object"}}]);
    let messages = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "function_call": {"name": "get_weather", "arguments": ARGUMENTS}},
        {"role": "function", "name": "get_weather", "content": RESULT},
    ]);
    let body = json!({"model": "m", "messages": messages, "functions": functions}).to_string();
    let reply = as_caller(&mut connection, "a", "Sunny.", &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let sent = fixture.upstream.received().last().unwrap().json();
    let result = sent["messages"].as_array().unwrap().iter().find(|message| message["role"] == "function").unwrap()["content"].clone();
    assert_eq!(result, json!(RESULT));
    let (verdict, codes) =
        as_caller(&mut connection, "a", "Sunny (execution_id: get_weather_1763760000123_0123456789abcdef).", &body).verdict();
    assert_eq!((verdict.as_str(), codes.contains(&"unknown_execution".to_owned())), ("blocked", true), "{codes:?}");
    // Where it isn't taken, the error says why and what to do.
    let strict = Fixture::new("strict", script);
    let reply = as_caller(&mut Connection::open(strict.proxy.address()), "a", "Sunny.", &body);
    let error = &reply.json()["error"];
    assert_eq!((reply.status, &error["code"]), (400, &json!("unverified_call")), "{error}");
    let told = error["message"].as_str().unwrap_or_default();
    assert!(told.contains("legacy `function_call`") && told.contains("send `tools`"), "{told}");
}

#[test]
fn an_answer_must_cite_where_the_policy_says_so() {
    let (upstream, directory) = (ScriptedUpstream::start(script).unwrap(), tempfile::tempdir().unwrap());
    let policy = "[calls]\nmax_repairs = 0\n[citations]\nrequire = true\n[checks]\nmissing_citation = \"block\"\n";
    let proxy = proxy(&upstream, "", "", policy, directory.path());
    let mut connection = Connection::open(proxy.address());
    let id = call(&mut connection, "a");
    let messages = answered(&id, "get_weather", ARGUMENTS, json!(RESULT));
    let reply = as_caller(&mut connection, "a", "Sunny.", &request(&messages));
    assert_eq!(reply.verdict(), ("blocked".into(), vec!["missing_citation".into()]), "{}", reply.text());
    let execution = execution_of(&last_result(&upstream)).unwrap();
    let reply = as_caller(&mut connection, "a", &format!("Sunny (execution_id: {execution})."), &request(&messages));
    assert_eq!(reply.verdict().0, "pass", "{}", reply.text());
    // Nothing to cite: nothing is asked for.
    let reply = as_caller(
        &mut connection,
        "a",
        "Hello.",
        &json!({"model": "m", "messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]}).to_string(),
    );
    assert!(!reply.verdict().1.contains(&"missing_citation".to_owned()), "{}", reply.text());
}
