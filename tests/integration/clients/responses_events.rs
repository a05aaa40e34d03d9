//! A response of the scripted model as the events of a stream, in OpenAI's order.

use serde_json::{Value, json};
use toolmark::testing::ScriptedReply;

use super::model::pieces;

/// Events, numbered as they come.
#[derive(Default)]
struct Events(Vec<String>);

impl Events {
    fn push(&mut self, kind: &str, members: Value) {
        let mut event = json!({"type": kind, "sequence_number": self.0.len()});
        let (event_members, Value::Object(members)) = (event.as_object_mut().unwrap(), members) else { panic!("{kind}: no object") };
        event_members.extend(members);
        self.0.push(format!("event: {kind}\ndata: {event}\n\n"));
    }

    fn message(&mut self, at: usize, item: &Value, broken: bool) {
        let (id, part) = (&item["id"], &item["content"][0]);
        let said = part["text"].as_str().unwrap();
        let empty = |part: &Value, text: &str| with(part, &[("text", json!(text))]);
        let begun = with(item, &[("status", json!("in_progress")), ("content", json!([]))]);
        self.push("response.output_item.added", json!({"output_index": at, "item": begun}));
        let place = json!({"item_id": id, "output_index": at, "content_index": 0});
        self.push("response.content_part.added", with(&place, &[("part", empty(part, ""))]));
        for piece in pieces(said) {
            let members = [("delta", json!(piece)), ("logprobs", json!([])), ("obfuscation", json!("a1b2"))];
            self.push("response.output_text.delta", with(&place, &members));
        }
        if broken {
            return;
        }
        self.push("response.output_text.done", with(&place, &[("text", json!(said)), ("logprobs", json!([]))]));
        self.push("response.content_part.done", with(&place, &[("part", part.clone())]));
        self.push("response.output_item.done", json!({"output_index": at, "item": item}));
    }

    fn call(&mut self, at: usize, item: &Value) {
        let begun = with(item, &[("status", json!("in_progress")), ("arguments", json!(""))]);
        self.push("response.output_item.added", json!({"output_index": at, "item": begun}));
        let place = json!({"item_id": item["id"], "output_index": at});
        for piece in pieces(item["arguments"].as_str().unwrap()) {
            self.push("response.function_call_arguments.delta", with(&place, &[("delta", json!(piece)), ("obfuscation", json!("c3"))]));
        }
        let done = [("name", item["name"].clone()), ("arguments", item["arguments"].clone())];
        self.push("response.function_call_arguments.done", with(&place, &done));
        self.push("response.output_item.done", json!({"output_index": at, "item": item}));
    }
}

/// `broken`: it fails where its first text ends.
pub fn streamed(response: &Value, broken: bool) -> ScriptedReply {
    let begun = with(response, &[("status", json!("in_progress")), ("output", json!([])), ("usage", Value::Null)]);
    let mut events = Events::default();
    events.push("response.created", json!({ "response": begun }));
    if response["background"] == true {
        events.push("response.queued", json!({"response": with(&begun, &[("status", json!("queued"))])}));
    }
    events.push("response.in_progress", json!({ "response": begun }));
    for (at, item) in response["output"].as_array().unwrap().iter().enumerate() {
        match item["type"].as_str() {
            Some("message") => events.message(at, item, broken),
            Some("reasoning" | "web_search_call") => {
                events.push("response.output_item.added", json!({"output_index": at, "item": item}));
                events.push("response.output_item.done", json!({"output_index": at, "item": item}));
            }
            _ => events.call(at, item),
        }
    }
    if broken {
        let error = json!({"code": "server_error", "message": "the model fell over"});
        events.push("response.failed", json!({"response": with(&begun, &[("status", json!("failed")), ("error", error)])}));
    } else {
        events.push("response.completed", json!({ "response": response }));
    }
    ScriptedReply::events(events.0).header("x-request-id", "req_1")
}

/// The same object with these members set.
fn with(object: &Value, members: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (name, value) in members {
        object[*name] = value.clone();
    }
    object
}
