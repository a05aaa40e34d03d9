//! Calls that a model wrote as text, made real ones: what the application and the next request see of them.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

use crate::{
    clients::is_mark,
    harness::{Fixture, post},
    mcp::stage::{Stage, TODO, say, user},
};

const PROMOTE: &str = "[calls]\npromote_textual = \"exact\"\n";
const WRITTEN: &str = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";

/// Writes a call as text in pieces, and answers its result.
fn chat(received: &Received) -> ScriptedReply {
    let request = received.json();
    let last = request["messages"].as_array().unwrap().last().unwrap().clone();
    let text = if last["role"] == "tool" { "It is 18 degrees." } else { WRITTEN };
    if request["stream"] != true {
        let choice =
            json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", "logprobs": {"content": []}});
        return ScriptedReply::json(
            200,
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
        );
    }
    let chunk = |delta: Value, finish: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let pieces = text.as_bytes().chunks(5).map(|piece| chunk(json!({"content": String::from_utf8_lossy(piece)}), Value::Null));
    let first = [chunk(json!({"role": "assistant", "content": ""}), Value::Null), chunk(json!({"reasoning_content": "Hm."}), Value::Null)];
    ScriptedReply::chunks(first.into_iter().chain(pieces).chain([chunk(json!({}), "stop".into())]))
}

#[test]
fn a_promoted_call_is_one_like_any_other() {
    let fixture = Fixture::with_policy(PROMOTE, "", chat);
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let tools = json!([{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]);
    let user = json!({"role": "user", "content": "The weather in Paris?"});
    let ask = |messages: Value, stream: bool| {
        fixture.chat(&json!({"model": "m", "messages": messages, "tools": tools, "stream": stream}).to_string())
    };
    let whole = ask(json!([user]), false);
    assert_eq!((whole.header("toolmark-verdict"), whole.header("toolmark-violations")), ("pass", "corrected_textual"), "{}", whole.body);
    let choice = whole.json()["choices"][0].clone();
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"], &choice["logprobs"]),
        (&json!("tool_calls"), &Value::Null, &Value::Null)
    );
    let call = &choice["message"]["tool_calls"][0];
    is_mark(&call["id"]);
    assert_eq!(call["function"], json!({"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}));

    let streamed = ask(json!([user]), true);
    assert!(!streamed.body.contains("tool_call>"), "nothing of the text leaves: {}", streamed.body);
    let events = streamed.events();
    let of =
        |name: &str| events.iter().map(|event| event["choices"][0]["delta"][name].clone()).find(|value| !value.is_null() && *value != "");
    assert_eq!(of("reasoning_content"), Some(json!("Hm.")));
    let calls = of("tool_calls").unwrap_or_default();
    is_mark(&calls[0]["id"]);
    assert_eq!((&calls[0]["index"], &calls[0]["function"]), (&json!(0), &call["function"]));
    assert!(events.iter().any(|event| event["choices"][0]["finish_reason"] == "tool_calls"), "{}", streamed.body);
    assert!(streamed.body.contains(r#": toolmark {"verdict":"pass","repairs":0,"violations":["corrected_textual"]"#), "{}", streamed.body);

    // With its result upstream sees a call, and the result is stamped.
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "{\"degrees\":18}"});
    let answered = ask(json!([user, choice["message"], result]), false);
    assert_eq!(answered.header("toolmark-verdict"), "pass", "{}", answered.body);
    let seen = fixture.upstream.received()[2].json();
    let messages = seen["messages"].as_array().unwrap();
    assert!(messages.last().unwrap()["content"].as_str().unwrap().starts_with("{\"execution_id\""), "{seen}");
}

#[test]
fn a_promoted_call_of_a_server_is_run() {
    for stream in [false, true] {
        let stage = Stage::new(PROMOTE, TODO, vec![say("[todo__add_task(title=\"milk\")]"), say("One more thing?")]);
        let seen = stage.ask(&[user("Add milk")], stream);
        assert_eq!((seen.text.as_str(), seen.verdict.as_str(), seen.calls.len()), ("One more thing?", "pass", 0), "{seen:?}");
        assert!(seen.codes.contains("corrected_textual"), "{seen:?}");
        assert_eq!(stage.todo.titles(), ["milk"]);
    }
}

/// What the upstream keeps has no such call, and its output would answer nothing.
#[test]
fn nothing_is_promoted_in_what_the_upstream_keeps() {
    let fixture = Fixture::with_policy(PROMOTE, "", |_| {
        let part = json!({"type": "output_text", "text": WRITTEN, "annotations": []});
        let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]});
        let body = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item]});
        ScriptedReply::json(200, body.to_string())
    });
    let tool =
        json!({"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}});
    for (more, code, kind) in [
        (json!({}), "textual_tool_call", "message"),
        (json!({"store": true}), "textual_tool_call", "message"),
        (json!({"store": false, "conversation": "conv_1"}), "textual_tool_call", "message"),
        (json!({"store": false}), "corrected_textual", "function_call"),
    ] {
        let mut body = json!({"model": "m", "input": "The weather?", "tools": [tool]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = post(&format!("{}/responses", fixture.proxy.base_url()), &body.to_string(), "Bearer test");
        assert!(answer.header("toolmark-violations").split(',').any(|found| found == code), "{more}: {answer:?}");
        assert_eq!(answer.json()["output"][0]["type"], kind, "{more}: {}", answer.body);
    }
}

/// Settings of earlier versions: `true` was what is `"exact"` now.
#[test]
fn earlier_settings_still_count() {
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}});
    for (policy, written, made) in [
        ("promote_textual = true", WRITTEN, true),
        ("promote_textual = \"exact\"", WRITTEN, true),
        ("promote_textual = \"on\"", WRITTEN, true),
        ("", WRITTEN, true),
        ("promote_textual = false", WRITTEN, false),
        ("promote_textual = \"off\"", WRITTEN, false),
        ("promote_textual = true", "```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n```", false),
    ] {
        let written = written.to_owned();
        let fixture = Fixture::with_policy(&format!("[calls]\n{policy}\n"), "", move |_| {
            let choice = json!({"index": 0, "message": {"role": "assistant", "content": written}, "finish_reason": "stop"});
            ScriptedReply::json(
                200,
                json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
            )
        });
        let answer = fixture.chat(&json!({"model": "m", "messages": [user("The weather in Paris?")], "tools": [tool]}).to_string());
        assert_eq!(answer.json()["choices"][0]["message"]["tool_calls"].is_array(), made, "{policy}: {}", answer.body);
    }
}

/// What comes while a text is held that may become a call: an error is said at once.
#[test]
fn an_error_is_not_held() {
    let fixture = Fixture::with_policy("", "", |_| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "{\"na"}, "finish_reason": null}]});
        ScriptedReply::chunks([chunk, json!({"error": {"message": "out of memory", "type": "server_error", "code": "oom"}})])
    });
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}});
    let answer = fixture.chat(&json!({"model": "m", "messages": [user("The weather?")], "tools": [tool], "stream": true}).to_string());
    assert!(answer.body.contains("out of memory"), "{}", answer.body);
}
