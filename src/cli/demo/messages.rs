//! Anthropic's Messages API for the demo's two ends: requests and answers to and from the forms of chat completions, which the scenes
//! are written in.

use serde_json::{Value, json};

use super::client::SeenCall;

/// The request of an application, from one of chat completions.
pub fn request_of(chat: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut messages: Vec<Value> = Vec::new();
    for message in chat["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("tool") => {
                let result = json!({"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]});
                match messages.last_mut().and_then(|last| last["content"].as_array_mut()).filter(|own| own[0]["type"] == "tool_result") {
                    Some(own) => own.push(result),
                    None => messages.push(json!({"role": "user", "content": [result]})),
                }
            }
            Some("assistant") => {
                let block = |call: &Value| {
                    let (function, input) = (&call["function"], text(&call["function"]["arguments"]));
                    let input = serde_json::from_str(&input).unwrap_or_else(|_| json!({}));
                    json!({"type": "tool_use", "id": call["id"], "name": function["name"], "input": input})
                };
                let calls: Vec<Value> = message["tool_calls"].as_array().into_iter().flatten().map(block).collect();
                messages.push(json!({"role": "assistant", "content": calls}));
            }
            _ => messages.push(message.clone()),
        }
    }
    let tool = |tool: &Value| json!({"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]});
    let tools: Vec<Value> = chat["tools"].as_array().into_iter().flatten().map(tool).collect();
    json!({"model": chat["model"], "max_tokens": 1000, "stream": chat["stream"], "messages": messages, "tools": tools})
}

/// The messages of a request, in the form of chat completions.
pub fn chat_messages(request: &Value) -> Vec<Value> {
    let mut chat: Vec<Value> = Vec::new();
    chat.extend(request.get("system").map(|system| json!({"role": "system", "content": system})));
    for message in request["messages"].as_array().into_iter().flatten() {
        let Some(blocks) = message["content"].as_array() else {
            chat.push(message.clone());
            continue;
        };
        let said: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        if message["role"] == "assistant" || !said.is_empty() {
            chat.push(json!({"role": message["role"], "content": said}));
        }
        let results = blocks.iter().filter(|block| block["type"] == "tool_result");
        chat.extend(results.map(|result| json!({"role": "tool", "content": result["content"]})));
    }
    chat
}

/// Blocks of an answer. `calls`: id, name and arguments.
pub fn blocks(text: &str, calls: &[(String, String, String)]) -> Vec<Value> {
    let said = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    let call = |(id, name, arguments): &(String, String, String)| {
        let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    };
    said.into_iter().chain(calls.iter().map(call)).collect()
}

/// An answer with these blocks.
pub fn answer(model: &str, blocks: &[Value]) -> Value {
    let stop = if blocks.iter().any(|block| block["type"] == "tool_use") { "tool_use" } else { "end_turn" };
    json!({
        "id": "msg_demo", "type": "message", "role": "assistant", "model": model, "content": blocks, "stop_reason": stop,
        "stop_sequence": null, "usage": {"input_tokens": 20, "output_tokens": 10},
    })
}

/// The answer as its events. `pieces`: the pieces in which its text is streamed.
pub fn events(model: &str, pieces: &[String], blocks: &[Value]) -> Vec<String> {
    let mut start = answer(model, &[]);
    start["stop_reason"] = Value::Null;
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in blocks.iter().enumerate() {
        let mut begun = block.clone();
        let deltas: Vec<Value> = if block["type"] == "text" {
            begun["text"] = json!("");
            pieces.iter().map(|piece| json!({"type": "text_delta", "text": piece})).collect()
        } else {
            let input = std::mem::replace(&mut begun["input"], json!({})).to_string();
            let (first, second) = input.split_at(input.floor_char_boundary(input.len() / 2));
            [first, second].map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).into()
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        events.extend(deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let whole = answer(model, blocks);
    let delta = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": whole["usage"]}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())).collect()
}

/// A `finish_reason` of chat completions for a `stop_reason`.
pub fn finish_of(stop: &str) -> &str {
    match stop {
        "tool_use" => "tool_calls",
        "end_turn" => "stop",
        other => other,
    }
}

/// A call of an answer, without its input if that is streamed.
pub fn seen_call(block: &Value) -> Option<SeenCall> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let input = block["input"].as_object().filter(|input| !input.is_empty()).map(|_| block["input"].to_string());
    (block["type"] == "tool_use").then(|| SeenCall { id: text("id"), name: text("name"), arguments: input.unwrap_or_default() })
}
