//! A conversation to fill ledgers with: a call, its result, an answer.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply as Scripted};

pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

pub fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])
}

pub fn completion(message: &Value) -> Scripted {
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
    Scripted::json(
        200,
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}).to_string(),
    )
}

pub fn call(name: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_0", "type": "function", "function": {"name": name, "arguments": "{\"city\":\"Paris\"}"}}]})
}

/// Invents a tool first, then calls the right one; where there is a result, says what the last user message asks for.
pub fn script(received: &Received) -> Scripted {
    let body = received.json();
    let messages = body["messages"].as_array().unwrap();
    let asked = messages.iter().rev().find(|message| message["role"] == "user").and_then(|message| message["content"].as_str());
    if let Some(say) = asked.and_then(|text| text.strip_prefix("say ")) {
        if body["stream"] == true {
            let chunk = |delta: Value, finish: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            let middle = say.len() / 2;
            let pieces = [&say[..middle], &say[middle..]].map(|piece| chunk(json!({"content": piece}), Value::Null));
            return Scripted::chunks(pieces.into_iter().chain([chunk(json!({}), json!("stop"))]));
        }
        return completion(&json!({"role": "assistant", "content": say}));
    }
    match messages.iter().rev().find(|message| message["role"] == "tool").and_then(|message| message["content"].as_str()) {
        Some(result) if result.contains("rejected") => completion(&call("get_weather")),
        Some(_) => completion(&json!({"role": "assistant", "content": "Sunny."})),
        None if asked == Some("invent") => completion(&call("fetch_weather")),
        None => completion(&call("get_weather")),
    }
}

/// A request with these messages.
pub fn request(messages: &[Value]) -> String {
    json!({"model": "m", "messages": messages, "tools": tools()}).to_string()
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// What answers the call of that message.
pub fn result(call: &Value, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": content})
}
