//! The Responses API.

use serde_json::{Value, json};

use super::{
    exchange::{Choice, Ending, Id, PastCall, Request, Said, Step, Tool, Turn},
    form::{Api, Called, Read, pieces},
    legal,
    stage::{World, world},
};
use crate::{
    harness::Answer,
    responses_folded::{consistent, events},
};

pub struct Responses;

impl Api for Responses {
    fn path(&self) -> &'static str {
        "/responses"
    }

    fn request(&self, request: &Request) -> Value {
        let mut body = json!({"input": input(&request.history)});
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        match &request.choice {
            Choice::Unsaid => {}
            Choice::None => body["tool_choice"] = json!("none"),
            Choice::Required => body["tool_choice"] = json!("required"),
            Choice::Named(name) => body["tool_choice"] = named(name),
            Choice::Allowed(names) => {
                let tools: Vec<Value> = names.iter().map(|name| named(name)).collect();
                body["tool_choice"] = json!({"type": "allowed_tools", "mode": "required", "tools": tools});
            }
        }
        if let Some(parallel) = request.parallel {
            body["parallel_tool_calls"] = json!(parallel);
        }
        if request.json {
            body["text"] = json!({"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}});
        }
        body
    }

    fn stream(&self, _: &mut Value) {}

    fn whole(&self, turn: &Turn) -> Value {
        let Turn::Says(said, ending) = turn else { return Value::Null };
        let (status, reason) = match ending {
            Ending::Itself => ("completed", Value::Null),
            Ending::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
            Ending::Filter => ("incomplete", json!({"reason": "content_filter"})),
        };
        let last = said.len().saturating_sub(1);
        let item = |(at, said)| item(at, said, if at == last { status } else { "completed" });
        let output: Vec<Value> = said.iter().enumerate().map(item).collect();
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": null, "incomplete_details": reason,
            "model": "m", "output": output, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}})
    }

    fn streamed(&self, turn: &Turn) -> String {
        let response = self.whole(turn);
        let begun = with(&response, &[("status", json!("in_progress")), ("output", json!([])), ("usage", Value::Null)]);
        let mut events = Events::default();
        events.push("response.created", json!({ "response": begun }));
        events.push("response.in_progress", json!({ "response": begun }));
        for (at, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            events.item(at, item);
        }
        let kind = if response["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        events.push(kind, json!({ "response": response }));
        events.0.concat()
    }

    fn read_whole(&self, body: &Value) -> Read {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let called = |item: &Value, inner| Called::new(text(&item["call_id"]), text(&item["name"]), text(&item[inner]));
        let (mut words, mut refusal, mut calls) = (String::new(), String::new(), Vec::new());
        for item in body["output"].as_array().into_iter().flatten() {
            match item["type"].as_str() {
                Some("function_call") => calls.push(called(item, "arguments")),
                Some("custom_tool_call") => calls.push(called(item, "input")),
                _ => {}
            }
            for part in item["content"].as_array().into_iter().flatten().filter(|_| item["type"] == "message") {
                words.push_str(&text(&part["text"]));
                refusal.push_str(&text(&part["refusal"]));
            }
        }
        Read::Said { text: words, refusal, calls, usage: body["usage"].clone() }
    }

    fn read_stream(&self, answer: &Answer) -> Result<Read, String> {
        let events = events(&answer.body);
        consistent(&events)?;
        let last = events.last().cloned().unwrap_or_default();
        if last["type"] == "response.failed" {
            return Ok(Read::Error(last["response"]["error"]["code"].as_str().unwrap_or_default().to_owned()));
        }
        Ok(self.read_whole(&last["response"]))
    }

    fn legal(&self, body: &Value) -> Result<(), String> {
        legal::responses(body)
    }
}

fn named(name: &str) -> Value {
    json!({"type": "function", "name": name})
}

fn tool(tool: &Tool) -> Value {
    match tool {
        Tool::Function { name, description, parameters } => {
            json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
        }
        Tool::Custom { name } => json!({"type": "custom", "name": name}),
    }
}

fn input(history: &[Step]) -> Value {
    let id = |id: Id| world().id_of(history, id, World::responses_mark);
    let call = |call: &PastCall| {
        let (kind, inner) = if call.custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        json!({"type": kind, "call_id": id(call.id), "name": call.tool, inner: call.arguments})
    };
    let is_custom = |of: Id| {
        let turns = history.iter().filter_map(|step| if let Step::Turn(_, calls) = step { Some(calls) } else { None });
        turns.flatten().any(|call| call.id == of && call.custom)
    };
    let mut items = Vec::new();
    for step in history {
        match step {
            Step::System(text) => items.push(json!({"role": "system", "content": text})),
            Step::User(text) => items.push(json!({"role": "user", "content": text})),
            Step::Turn(text, calls) => {
                if !text.is_empty() {
                    items.push(json!({"role": "assistant", "content": text}));
                }
                items.extend(calls.iter().map(call));
            }
            Step::Result(of, text) => {
                let kind = if is_custom(*of) { "custom_tool_call_output" } else { "function_call_output" };
                items.push(json!({"type": kind, "call_id": id(*of), "output": text}));
            }
        }
    }
    Value::Array(items)
}

/// An output item that is done.
fn item(at: usize, said: &Said, status: &str) -> Value {
    let message =
        |part: Value| json!({"type": "message", "id": format!("msg_{at}"), "status": status, "role": "assistant", "content": [part]});
    match said {
        Said::Text(text) => message(json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})),
        Said::Refusal(text) => message(json!({"type": "refusal", "refusal": text})),
        Said::Call { id, tool, arguments, custom: true } => {
            json!({"type": "custom_tool_call", "id": format!("ctc_{at}"), "status": status, "call_id": id, "name": tool, "input": arguments.json()})
        }
        Said::Call { id, tool, arguments, custom: false } => {
            json!({"type": "function_call", "id": format!("fc_{at}"), "status": status, "call_id": id, "name": tool, "arguments": arguments.json()})
        }
    }
}

/// Events, numbered as they come.
#[derive(Default)]
struct Events(Vec<String>);

impl Events {
    fn push(&mut self, kind: &str, members: Value) {
        let event = with(&members, &[("type", json!(kind)), ("sequence_number", json!(self.0.len()))]);
        self.0.push(format!("event: {kind}\ndata: {event}\n\n"));
    }

    fn item(&mut self, at: usize, item: &Value) {
        let place = json!({"item_id": item["id"], "output_index": at});
        let begun = |members: &[(&str, Value)]| {
            let item = with(&with(item, &[("status", json!("in_progress"))]), members);
            json!({"output_index": at, "item": item})
        };
        let deltas = |events: &mut Self, kind: &str, place: &Value, text: &Value| {
            for piece in pieces(text.as_str().unwrap_or_default()) {
                events.push(&format!("{kind}.delta"), with(place, &[("delta", json!(piece))]));
            }
        };
        if item["type"] == "message" {
            let part = &item["content"][0];
            let (kind, member) = if part["type"] == "refusal" { ("response.refusal", "refusal") } else { ("response.output_text", "text") };
            let place = with(&place, &[("content_index", json!(0))]);
            self.push("response.output_item.added", begun(&[("content", json!([]))]));
            self.push("response.content_part.added", with(&place, &[("part", with(part, &[(member, json!(""))]))]));
            deltas(self, kind, &place, &part[member]);
            self.push(&format!("{kind}.done"), with(&place, &[(member, part[member].clone())]));
            self.push("response.content_part.done", with(&place, &[("part", part.clone())]));
        } else {
            let custom = item["type"] == "custom_tool_call";
            let (kind, member) =
                if custom { ("response.custom_tool_call_input", "input") } else { ("response.function_call_arguments", "arguments") };
            self.push("response.output_item.added", begun(&[(member, json!(""))]));
            deltas(self, kind, &place, &item[member]);
            let done = with(&place, &[(member, item[member].clone())]);
            let done = if custom { done } else { with(&done, &[("name", item["name"].clone())]) };
            self.push(&format!("{kind}.done"), done);
        }
        self.push("response.output_item.done", json!({"output_index": at, "item": item}));
    }
}

/// The same object with these members set.
fn with(object: &Value, members: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (name, value) in members {
        object[*name] = value.clone();
    }
    object
}
