//! A scripted answer, encoded for each API, whole or streamed: for fault injection and for scripted upstreams. Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use toolmark_core::openai::Api;

/// Text and calls of one scripted answer, independent of the API.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ScriptedAnswer {
    /// Text, if any.
    pub text: Option<String>,
    /// The calls: id, tool, and arguments as written.
    pub calls: Vec<(String, String, String)>,
}

/// A scripted answer, encoded for one API.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EncodedAnswer {
    /// `application/json` or `text/event-stream`.
    pub content_type: &'static str,
    /// The body in pieces; each event of a stream is one piece.
    pub pieces: Vec<String>,
}

impl ScriptedAnswer {
    /// Encodes the answer as one body. `name`: becomes part of its id.
    pub fn whole(&self, api: Api, model: &str, name: &str) -> EncodedAnswer {
        match api {
            Api::Chat => whole(&self.chat(model, name)),
            Api::Messages => whole(&self.message(model, name)),
            Api::Responses => whole(&self.response(model, name)),
        }
    }

    /// Encodes the answer as a stream of events. `name`: becomes part of its id.
    pub fn stream(&self, api: Api, model: &str, name: &str) -> EncodedAnswer {
        match api {
            Api::Chat => events(self.chat_chunks(model, name), Some("data: [DONE]\n\n")),
            Api::Messages => events(self.message_events(model, name), None),
            Api::Responses => events(self.response_events(model, name), None),
        }
    }

    fn finish(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    fn chat(&self, model: &str, name: &str) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.text });
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(chat_call).collect();
        }
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 });
        json!({ "id": format!("chatcmpl-{name}"), "object": "chat.completion", "created": 0, "model": model,
                "choices": [{ "index": 0, "message": message, "finish_reason": self.finish() }], "usage": usage })
    }

    fn chat_chunks(&self, model: &str, name: &str) -> Vec<Value> {
        let chunk = |delta: Value, finish: Value| {
            json!({ "id": format!("chatcmpl-{name}"), "object": "chat.completion.chunk", "created": 0, "model": model,
                    "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
        };
        let mut chunks = vec![chunk(
            json!({ "role": "assistant", "content": if self.calls.is_empty() { json!("") } else { Value::Null } }),
            Value::Null,
        )];
        for word in self.text.iter().flat_map(|text| text.split_inclusive(' ')) {
            chunks.push(chunk(json!({ "content": word }), Value::Null));
        }
        for (index, call) in self.calls.iter().enumerate() {
            let mut call = chat_call(call);
            call["index"] = index.into();
            chunks.push(chunk(json!({ "tool_calls": [call] }), Value::Null));
        }
        chunks.push(chunk(json!({}), self.finish().into()));
        chunks
    }

    /// The content blocks, text first. Arguments that are no JSON are a string, as no object has them.
    fn blocks(&self) -> Vec<Value> {
        let text = self.text.iter().map(|text| json!({ "type": "text", "text": text }));
        let call = |(id, tool, arguments): &(String, String, String)| {
            let input = serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.clone()));
            json!({ "type": "tool_use", "id": id, "name": tool, "input": input })
        };
        text.chain(self.calls.iter().map(call)).collect()
    }

    fn message(&self, model: &str, name: &str) -> Value {
        let stop = if self.calls.is_empty() { "end_turn" } else { "tool_use" };
        json!({ "id": format!("msg_{name}"), "type": "message", "role": "assistant", "model": model, "content": self.blocks(),
                "stop_reason": stop, "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 } })
    }

    fn message_events(&self, model: &str, name: &str) -> Vec<Value> {
        let mut begun = self.message(model, name);
        let stop = std::mem::replace(&mut begun["stop_reason"], Value::Null);
        begun["content"] = json!([]);
        let mut events = vec![json!({ "type": "message_start", "message": begun })];
        let texts = self.text.iter().map(|text| (json!({ "type": "text", "text": "" }), "text_delta", "text", text));
        let calls = self.calls.iter().map(|(id, tool, arguments)| {
            (json!({ "type": "tool_use", "id": id, "name": tool, "input": {} }), "input_json_delta", "partial_json", arguments)
        });
        for (index, (block, kind, member, said)) in texts.chain(calls).enumerate() {
            events.push(json!({ "type": "content_block_start", "index": index, "content_block": block }));
            for word in said.split_inclusive(' ') {
                let mut delta = json!({ "type": kind });
                delta[member] = word.into();
                events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
            }
            events.push(json!({ "type": "content_block_stop", "index": index }));
        }
        let delta = json!({ "stop_reason": stop, "stop_sequence": null });
        events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 1 } }));
        events.push(json!({ "type": "message_stop" }));
        events
    }

    /// The output items, text first.
    fn items(&self) -> Vec<Value> {
        let text = self.text.iter().map(|text| {
            let part = json!({ "type": "output_text", "text": text, "annotations": [] });
            json!({ "id": "msg_0", "type": "message", "role": "assistant", "status": "completed", "content": [part] })
        });
        let calls = self.calls.iter().enumerate().map(|(at, (id, tool, arguments))| {
            json!({ "id": format!("fc_{at}"), "type": "function_call", "status": "completed", "call_id": id, "name": tool, "arguments": arguments })
        });
        text.chain(calls).collect()
    }

    fn response(&self, model: &str, name: &str) -> Value {
        let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
        json!({ "id": format!("resp_{name}"), "object": "response", "created_at": 0, "status": "completed", "model": model,
                "output": self.items(), "usage": usage })
    }

    fn response_events(&self, model: &str, name: &str) -> Vec<Value> {
        let whole = self.response(model, name);
        let mut begun = whole.clone();
        (begun["status"], begun["output"]) = ("in_progress".into(), json!([]));
        let mut events = vec![json!({ "type": "response.created", "response": begun })];
        for (at, item) in self.items().into_iter().enumerate() {
            item_events(at, &item, &mut events);
        }
        events.push(json!({ "type": "response.completed", "response": whole }));
        for (number, event) in events.iter_mut().enumerate() {
            event["sequence_number"] = number.into();
        }
        events
    }
}

fn item_events(at: usize, item: &Value, events: &mut Vec<Value>) {
    let place = |kind: &str, more: Value| {
        let mut event = json!({ "type": kind, "item_id": item["id"], "output_index": at });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        event
    };
    let mut opened = item.clone();
    opened["status"] = "in_progress".into();
    let is_call = item["type"] == "function_call";
    opened[if is_call { "arguments" } else { "content" }] = if is_call { "".into() } else { json!([]) };
    events.push(json!({ "type": "response.output_item.added", "output_index": at, "item": opened }));
    if is_call {
        let arguments = item["arguments"].as_str().unwrap_or_default();
        events.push(place("response.function_call_arguments.delta", json!({ "delta": arguments })));
        events.push(place("response.function_call_arguments.done", json!({ "arguments": arguments })));
    } else {
        let text = item["content"][0]["text"].as_str().unwrap_or_default();
        let part = |text: &str| json!({ "content_index": 0, "part": { "type": "output_text", "text": text, "annotations": [] } });
        events.push(place("response.content_part.added", part("")));
        for word in text.split_inclusive(' ') {
            events.push(place("response.output_text.delta", json!({ "content_index": 0, "delta": word })));
        }
        events.push(place("response.output_text.done", json!({ "content_index": 0, "text": text })));
        events.push(place("response.content_part.done", part(text)));
    }
    events.push(json!({ "type": "response.output_item.done", "output_index": at, "item": item }));
}

fn chat_call((id, tool, arguments): &(String, String, String)) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": arguments } })
}

fn whole(body: &Value) -> EncodedAnswer {
    EncodedAnswer { content_type: "application/json", pieces: vec![body.to_string()] }
}

/// Encodes events, and the `last` piece of their stream.
fn events(events: Vec<Value>, last: Option<&str>) -> EncodedAnswer {
    let mut pieces: Vec<String> = Vec::with_capacity(events.len() + 1);
    for event in events {
        let mut piece = String::new();
        // Writing to a String can't fail.
        if let Some(kind) = event.get("type").and_then(Value::as_str) {
            let _ = writeln!(piece, "event: {kind}");
        }
        let _ = write!(piece, "data: {event}\n\n");
        pieces.push(piece);
    }
    pieces.extend(last.map(str::to_owned));
    EncodedAnswer { content_type: "text/event-stream", pieces }
}
