//! A scripted model: says and calls what the conversation's last message asks for.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

/// What it asks for when it is to forge.
pub const FORGED: &str = "get_weather_1700000000000_0123456789abcdef";

/// What it says next.
pub enum Turn {
    Say(String),
    /// A sentence, then calls: tools and their arguments.
    Call(&'static str, Vec<(&'static str, &'static str)>),
    /// A sentence, then an error in mid-stream.
    Break,
    /// The request is no good.
    Reject,
}

/// The script.
pub fn model(received: &Received) -> ScriptedReply {
    scripted(received, |_, messages| next_turn(messages))
}

/// Chat completions of another script: it gets the request, and the messages.
pub fn scripted(received: &Received, script: fn(&Value, &[Value]) -> Turn) -> ScriptedReply {
    let request = received.json();
    let turn = script(&request, request["messages"].as_array().map_or(&[], Vec::as_slice));
    match (turn, request["stream"] == json!(true)) {
        (Turn::Reject, _) => error(400),
        (Turn::Break, false) => error(500),
        (Turn::Break, true) => broken(),
        (Turn::Say(text), false) => whole(json!({"role": "assistant", "content": text, "refusal": null, "annotations": []}), "stop"),
        (Turn::Call(text, calls), false) => whole(calling(text, &calls), "tool_calls"),
        (Turn::Say(text), true) => streamed(&text, &[], &request),
        (Turn::Call(text, calls), true) => streamed(text, &calls, &request),
    }
}

/// What it does about a conversation: messages with `role` and `content`, as chat completions has them.
pub fn next_turn(messages: &[Value]) -> Turn {
    let Some(last) = messages.last() else { return Turn::Reject };
    let objected = |message: &&Value| text_of(message).starts_with("Your last answer was not delivered");
    let asked = messages.iter().rev().find(|message| message["role"] == "user" && !objected(message)).map(text_of).unwrap_or_default();
    let rejected = text_of(last).starts_with("Tool call ");
    match (last["role"].as_str(), &*asked) {
        (_, "Be a bad request.") => Turn::Reject,
        (_, "Break off.") => Turn::Break,
        (_, "Forge a citation.") => Turn::Say(format!("It is sunny in Paris, 25 degrees (execution_id: {FORGED}).")),
        (_, "Forge, then mend.") if last["role"] == "user" && objected(&last) => Turn::Say("I can't check that now.".into()),
        (_, "Forge, then mend.") => Turn::Say(format!("(execution_id: {FORGED}) It is sunny in Paris.")),
        (Some("tool"), "Report without citing.") => Turn::Say("It is warm in Paris.".into()),
        (Some("user"), "Report without citing.") if objected(&last) => Turn::Say(answer(messages)),
        (_, "Never mend.") => Turn::Call("", vec![("get_wether", r#"{"city":"Paris"}"#)]),
        (Some("tool"), "First the weather in Paris, then the time.") if results(messages).count() == 1 => {
            Turn::Call("", vec![("get_time", r#"{"city":"Paris"}"#)])
        }
        (Some("tool"), _) if !rejected => Turn::Say(answer(messages)),
        (Some("user"), "Invent a tool.") => Turn::Call("", vec![("get_wether", r#"{"city":"Paris"}"#)]),
        (Some("user"), "Leave out an argument.") => Turn::Call("", vec![("get_weather", "{}")]),
        (Some("user"), "Leave out one of two.") => Turn::Call("", vec![("get_weather", r#"{"city":"Paris"}"#), ("get_time", "{}")]),
        (_, "What is the weather and the time in Paris?" | "Leave out one of two.") => {
            Turn::Call("Let me look.", vec![("get_weather", r#"{"city":"Paris"}"#), ("get_time", r#"{"city":"Paris"}"#)])
        }
        (Some("user"), asked) if asked.contains("Paris and Rome") => {
            Turn::Call("", vec![("get_weather", r#"{"city":"Paris"}"#), ("get_weather", r#"{"town":"Rome"}"#)])
        }
        (_, asked) if asked.contains("Paris and Rome") => {
            Turn::Call("Let me look.", vec![("get_weather", r#"{"city":"Paris"}"#), ("get_weather", r#"{"city":"Rome"}"#)])
        }
        _ => Turn::Call("Let me look.", vec![("get_weather", r#"{"city":"Paris"}"#)]),
    }
}

/// What tools returned: all but what toolmark said in their place.
fn results(messages: &[Value]) -> impl Iterator<Item = String> {
    let results = messages.iter().filter(|message| message["role"] == "tool").map(text_of);
    results.filter(|text| !text.starts_with("Tool call "))
}

/// Reports the conversation's results, each with the execution ID that it was stamped with.
fn answer(messages: &[Value]) -> String {
    format!("It is {}.", results(messages).map(|result| report(&result)).collect::<Vec<_>>().join(" and "))
}

/// A sentence about a result, with the execution ID that it was stamped with.
pub fn report(result: &str) -> String {
    let cited = |said: &str, execution_id: &str| format!("{said} (execution_id: {execution_id})");
    if let Ok(result) = serde_json::from_str::<Value>(result) {
        let said = format!("{} degrees in {}", result["degrees"], result["city"].as_str().unwrap_or_default());
        return result["execution_id"].as_str().map_or(said.clone(), |execution_id| cited(&said, execution_id));
    }
    match result.strip_prefix("[execution_id: ").and_then(|result| result.split_once(']')) {
        Some((stamp, said)) => cited(&report(said.trim_start()), stamp.split(' ').next().unwrap_or_default()),
        None => result.to_owned(),
    }
}

pub fn text_of(message: &Value) -> String {
    let parts = |content: &Value| content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect();
    message["content"].as_str().map_or_else(|| parts(&message["content"]), str::to_owned)
}

const USAGE: &str = r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":1}}"#;

fn usage() -> Value {
    serde_json::from_str(USAGE).unwrap()
}

/// `call_0` every time, as careless upstreams have it.
fn call(tool: &str, arguments: &str) -> Value {
    json!({"id": "call_0", "type": "function", "function": {"name": tool, "arguments": arguments}})
}

fn calling(text: &str, calls: &[(&str, &str)]) -> Value {
    let content = if text.is_empty() { Value::Null } else { text.into() };
    let calls: Vec<Value> = calls.iter().map(|(tool, arguments)| call(tool, arguments)).collect();
    json!({"role": "assistant", "content": content, "refusal": null, "annotations": [], "tool_calls": calls})
}

fn whole(message: Value, finish: &str) -> ScriptedReply {
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "scripted-1",
        "choices": [choice], "usage": usage(), "service_tier": "default",
    });
    ScriptedReply::json(200, body.to_string()).header("x-request-id", "req_1")
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "scripted-1",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}], "obfuscation": "a1",
    })
}

/// Pieces of a few characters; the script's words are ASCII.
pub fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.as_bytes().chunks(7).map(|piece| std::str::from_utf8(piece).unwrap())
}

fn streamed(text: &str, calls: &[(&str, &str)], request: &Value) -> ScriptedReply {
    let mut chunks =
        vec![chunk(json!({"role": "assistant", "content": if text.is_empty() { Value::Null } else { "".into() }, "refusal": null}), None)];
    chunks.extend(pieces(text).map(|piece| chunk(json!({"content": piece}), None)));
    for (index, (tool, arguments)) in calls.iter().enumerate() {
        let mut begun = call(tool, "");
        begun["index"] = index.into();
        chunks.push(chunk(json!({"tool_calls": [begun]}), None));
        let fragment = |piece| chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None);
        chunks.extend(pieces(arguments).map(fragment));
    }
    chunks.push(chunk(json!({}), Some(if calls.is_empty() { "stop" } else { "tool_calls" })));
    if request["stream_options"]["include_usage"] == json!(true) {
        chunks.iter_mut().for_each(|chunk| chunk["usage"] = Value::Null);
        let mut last = chunk(json!({}), None);
        (last["choices"], last["usage"]) = (json!([]), usage());
        chunks.push(last);
    }
    ScriptedReply::chunks(chunks)
}

fn error(status: u16) -> ScriptedReply {
    let error = json!({"message": "the script says no", "type": "invalid_request_error", "param": "messages", "code": "scripted"});
    ScriptedReply::json(status, json!({ "error": error }).to_string())
}

fn broken() -> ScriptedReply {
    let error = json!({"error": {"message": "the model fell over", "type": "server_error", "param": null, "code": "model_fell_over"}});
    let begun = chunk(json!({"role": "assistant", "content": "It is sunny in Paris, and "}), None);
    ScriptedReply::events([format!("data: {begun}\n\n"), format!("data: {error}\n\n")])
}
