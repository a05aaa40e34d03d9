//! The scripted model: a turn as data, and its two wire forms.

use serde_json::{Value, json};

use super::messages;
use crate::testing::ScriptedReply;

/// One answer of the scripted model.
#[derive(Clone, Debug, Default)]
pub struct DemoTurn {
    text: Vec<String>,
    calls: Vec<(String, String, String)>,
    cut: bool,
}

impl DemoTurn {
    /// A turn with text, in the pieces in which it is streamed.
    pub fn say(pieces: &[&str]) -> Self {
        Self { text: pieces.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    /// A turn with one call.
    pub fn call(name: &str, arguments: &str) -> Self {
        Self::default().and("call_0", name, arguments)
    }

    /// Adds a call with this id.
    pub fn and(mut self, id: &str, name: &str, arguments: &str) -> Self {
        self.calls.push((id.into(), name.into(), arguments.into()));
        self
    }

    /// Lets the connection end before the answer does.
    pub fn cut(mut self) -> Self {
        self.cut = true;
        self
    }

    fn finish(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    /// The turn as one body.
    pub fn whole(&self, model: &str) -> ScriptedReply {
        let mut message = json!({"role": "assistant", "content": null});
        if !self.text.is_empty() {
            message["content"] = self.text.concat().into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(|(id, name, arguments)| call(id, name, arguments)).collect();
        }
        let body = json!({
            "id": "chatcmpl-demo", "object": "chat.completion", "created": CREATED, "model": model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": self.finish()}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
        })
        .to_string();
        let end = if self.cut { body.len() / 2 } else { body.len() };
        ScriptedReply::json(200, body.get(..body.floor_char_boundary(end)).unwrap_or_default())
    }

    /// The turn as one message of the Messages API.
    pub fn message(&self, model: &str) -> ScriptedReply {
        ScriptedReply::json(200, messages::answer(model, &messages::blocks(&self.text.concat(), &self.calls)).to_string())
    }

    /// The turn as a stream of the Messages API.
    pub fn message_events(&self, model: &str) -> ScriptedReply {
        ScriptedReply::events(messages::events(model, &self.text, &messages::blocks(&self.text.concat(), &self.calls)))
    }

    /// The turn as a stream of events.
    pub fn events(&self, model: &str) -> ScriptedReply {
        let chunk = |delta: Value, finish: Value| {
            json!({
                "id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": CREATED, "model": model,
                "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
            })
        };
        let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
        chunks.extend(self.text.iter().map(|piece| chunk(json!({ "content": piece }), Value::Null)));
        for (at, (id, name, arguments)) in self.calls.iter().enumerate() {
            let middle = arguments.floor_char_boundary(arguments.len() / 2);
            let (first, second) = arguments.split_at(middle);
            let mut begin = call(id, name, first);
            begin["index"] = at.into();
            chunks.push(chunk(json!({"tool_calls": [begin]}), Value::Null));
            chunks.push(chunk(json!({"tool_calls": [{"index": at, "function": {"arguments": second}}]}), Value::Null));
        }
        if self.cut {
            return ScriptedReply::events(chunks.into_iter().map(|chunk| format!("data: {chunk}\n\n")));
        }
        chunks.push(chunk(json!({}), self.finish().into()));
        ScriptedReply::chunks(chunks)
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

const CREATED: u64 = 1_763_000_000;
