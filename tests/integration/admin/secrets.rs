//! What the cassette tests know as secrets: none survives in a ledger that keeps bodies, nor in what the admin listener shows of it.

use serde_json::{Value, json};
use toolmark::testing::{Proxy, Received, ScriptedReply, ScriptedUpstream};

use super::stage::{get, send};
use crate::{
    cassettes::recorded::{HEADER, PASSWORD, SECRETS, SHAPED, clean, leak, leaking},
    program::until,
};

/// Calls `f` with a password where it is asked to, and says what it was told; else repeats secrets.
fn script(received: &Received) -> ScriptedReply {
    let body = received.json();
    let Some(last) = body["messages"].as_array().and_then(|messages| messages.last()) else { return leaking(received) };
    let message = match (last["role"].as_str(), last["content"].as_str()) {
        (_, Some("Call f!")) => json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": json!({"password": PASSWORD, "key": SHAPED}).to_string()}}]}),
        (Some("tool"), _) if body["tools"].is_array() => json!({"role": "assistant", "content": "Done."}),
        _ => return leaking(received),
    };
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string())
}

#[test]
fn no_secret_of_the_cassette_tests_survives_in_the_ledger() {
    let (directory, upstream) = (tempfile::tempdir().unwrap(), ScriptedUpstream::start(script).unwrap());
    let settings = format!(
        "[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n[admin]\nlisten = \"127.0.0.1:0\"\nbodies = \"everyone\"\n\
         [ledger]\nurl = \"sqlite:kept.db\"\nstore = \"bodies\"\n[record]\nredact = [\"/metadata/email\"]\n",
        upstream.base_url()
    );
    let proxy = Proxy::start(&settings, &[], directory.path()).unwrap();
    leak(proxy.address());
    // A call with a password, and its result with others.
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let chat = |messages: Value| {
        let authorization = format!("Bearer {HEADER}");
        let headers = [("content-type", "application/json"), ("authorization", &*authorization)];
        let body = json!({"model": "m", "messages": messages, "tools": tools});
        send("POST", &format!("{}/chat/completions", proxy.base_url()), &headers, &body.to_string())
    };
    let question = json!({"role": "user", "content": "Call f!"});
    let call = chat(json!([question])).json()["choices"][0]["message"].clone();
    let result = json!({"db_password": PASSWORD, "text": format!("use {SHAPED}")}).to_string();
    let answered = chat(json!([question, call, {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": result}]));
    let admin = proxy.admin_url().to_owned();
    let id = answered.header("toolmark-exchange");
    until("the exchange in the ledger", || (get(&format!("{admin}/api/exchanges/{id}/timeline")).status == 200).then_some(()));
    let list = get(&format!("{admin}/api/exchanges")).json();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 5, "{list}");
    let of_each = ids.iter().flat_map(|id| ["", "/timeline", "/cassette"].map(|part| format!("/api/exchanges/{id}{part}")));
    let lists = ["/api/executions", "/api/violations", "/api/refusals", "/api/sessions", "/api/stats"].map(str::to_owned);
    for path in of_each.chain(lists) {
        let shown = get(&format!("{admin}{path}"));
        assert_eq!(shown.status, 200, "{path}: {shown:?}");
        for secret in SECRETS {
            assert!(!shown.body.contains(secret), "{secret} in {path}: {}", shown.body);
        }
    }
    // The rest of it is kept.
    let executions = get(&format!("{admin}/api/executions")).json();
    let own = &executions["data"][0];
    assert_eq!(own["result_body"]["text"], json!("{\"db_password\":\"[redacted]\",\"text\":\"use [redacted]\"}"), "{executions}");
    assert_eq!(own["arguments_body"]["text"], json!("{\"password\":\"[redacted]\",\"key\":\"[redacted]\"}"), "{executions}");
    drop(proxy);
    clean(directory.path(), &SECRETS);
}
