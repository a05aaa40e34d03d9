//! Anthropic's Messages API. It has no custom tools: one is a function with one text here, and a call of it has that text.

use serde_json::{Value, json};

use super::{
    exchange::{Arguments, Case, Choice, Ending, Id, PastCall, Request, Said, Step, Tool, Turn},
    form::{Api, Called, Read, pieces},
    legal,
    stage::{World, world},
};
use crate::{harness::Answer, messages_folded::fold};

pub struct Messages;

/// The custom tool of the table.
const CUSTOM: &str = "sql";

impl Api for Messages {
    fn path(&self) -> &'static str {
        "/messages"
    }

    fn says(&self, case: &Case) -> Result<(), &'static str> {
        if matches!(case.request.choice, Choice::Allowed(_)) {
            return Err("a choice between some of the tools");
        }
        let apart = |steps: &[Step]| matches!(steps, [Step::Turn(_, one), Step::Turn(_, two)] if one.is_empty() && two.is_empty());
        if case.request.history.windows(2).any(apart) {
            return Err("two turns of the model that follow each other: they are one");
        }
        for turn in &case.turns {
            let Turn::Says(said, ending) = turn else { continue };
            let custom = |said: &Said| matches!(said, Said::Call { tool, custom, .. } if *custom != tool.eq_ignore_ascii_case(CUSTOM));
            if said.iter().any(custom) {
                return Err("calls of two kinds");
            }
            let empty = |said: &Said| matches!(said, Said::Call { arguments: Arguments::Text(text), .. } if text == "{}");
            if *ending != Ending::Itself && said.last().is_some_and(empty) {
                return Err("whether an empty input was cut off");
            }
            let refuses = said.iter().any(|said| matches!(said, Said::Refusal(_)));
            if refuses && (said.len() > 1 || *ending != Ending::Itself) {
                return Err("a refusal beside an answer");
            }
        }
        Ok(())
    }

    fn request(&self, request: &Request) -> Value {
        let (system, history) = match request.history.split_first() {
            Some((Step::System(text), rest)) => (Some(*text), rest),
            _ => (None, &request.history[..]),
        };
        let mut body = json!({"max_tokens": 1000, "messages": messages(history)});
        if let Some(system) = system {
            body["system"] = json!(system);
        }
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        match &request.choice {
            Choice::Unsaid | Choice::Allowed(_) => {}
            Choice::None => body["tool_choice"] = json!({"type": "none"}),
            Choice::Required => body["tool_choice"] = json!({"type": "any"}),
            Choice::Named(name) => body["tool_choice"] = json!({"type": "tool", "name": name}),
        }
        if let Some(parallel) = request.parallel {
            if body["tool_choice"].is_null() {
                body["tool_choice"] = json!({"type": "auto"});
            }
            body["tool_choice"]["disable_parallel_tool_use"] = json!(!parallel);
        }
        if request.json {
            body["output_config"] = json!({"format": {"type": "json_schema", "schema": {"type": "object"}}});
        }
        body
    }

    fn stream(&self, _: &mut Value) {}

    fn whole(&self, turn: &Turn) -> Value {
        let (blocks, stop, details) = parts(turn);
        let content: Vec<Value> = blocks.into_iter().map(|(block, said)| said.whole(block)).collect();
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stop,
            "stop_sequence": null, "stop_details": details, "usage": {"input_tokens": 10, "output_tokens": 2}})
    }

    fn streamed(&self, turn: &Turn) -> String {
        let (blocks, stop, details) = parts(turn);
        let start = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,
            "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}});
        let mut events = vec![json!({"type": "message_start", "message": start})];
        for (index, (block, said)) in blocks.into_iter().enumerate() {
            events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
            events.extend(said.deltas().into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
            events.push(json!({"type": "content_block_stop", "index": index}));
        }
        let delta = json!({"stop_reason": stop, "stop_sequence": null, "stop_details": details});
        events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}));
        events.push(json!({"type": "message_stop"}));
        events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
    }

    fn read_whole(&self, body: &Value) -> Read {
        let (mut text, mut calls) = (String::new(), Vec::new());
        let own = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for block in body["content"].as_array().into_iter().flatten() {
            if block["type"] == "text" {
                text.push_str(&own(&block["text"]));
            } else if block["type"] == "tool_use" {
                let marked = block["input"].to_string();
                let arguments = if block["name"] == CUSTOM { own(&block["input"]["input"]) } else { marked.clone() };
                calls.push(Called { id: own(&block["id"]), tool: own(&block["name"]), arguments, marked });
            }
        }
        let tokens = ["input_tokens", "output_tokens"].map(|name| body["usage"][name].as_u64().unwrap_or_default());
        let usage = json!({"total_tokens": tokens[0] + tokens[1]});
        Read::Said { text, refusal: own(&body["stop_details"]["explanation"]), calls, usage }
    }

    fn read_stream(&self, answer: &Answer) -> Result<Read, String> {
        let message = fold(&answer.body)?;
        if message["type"] == "error" {
            return Ok(Read::Error(self.error(&message).to_owned()));
        }
        Ok(self.read_whole(&message))
    }

    fn error<'b>(&self, body: &'b Value) -> &'b str {
        body["error"]["details"]["error_code"].as_str().unwrap_or_default()
    }

    fn legal(&self, body: &Value) -> Result<(), String> {
        legal::messages(body)
    }
}

fn tool(tool: &Tool) -> Value {
    match tool {
        Tool::Function { name, description, parameters } => json!({"name": name, "description": description, "input_schema": parameters}),
        Tool::Custom { name } => {
            let schema = json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]});
            json!({"name": name, "input_schema": schema})
        }
    }
}

/// A call's input, JSON: a custom tool's text is its member.
fn input(tool: &str, arguments: &str) -> String {
    if tool.eq_ignore_ascii_case(CUSTOM) { json!({"input": arguments}).to_string() } else { arguments.to_owned() }
}

fn mark(world: &World, tool: &str, arguments: &str, number: u16) -> String {
    world.chat_mark(tool, &input(tool, arguments), number)
}

fn messages(history: &[Step]) -> Value {
    let id = |id: Id| world().id_of(history, id, mark);
    let call = |call: &PastCall| {
        let input: Value = serde_json::from_str(&input(call.tool, &call.arguments)).unwrap_or_default();
        json!({"type": "tool_use", "id": id(call.id), "name": call.tool, "input": input})
    };
    let mut messages: Vec<Value> = Vec::new();
    for step in history {
        match step {
            Step::System(text) => messages.push(json!({"role": "system", "content": text})),
            Step::User(text) => messages.push(json!({"role": "user", "content": text})),
            Step::Turn(text, calls) => {
                let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
                let blocks: Vec<Value> = text.into_iter().chain(calls.iter().map(call)).collect();
                messages.push(json!({"role": "assistant", "content": blocks}));
            }
            Step::Result(of, text) => {
                let block = json!({"type": "tool_result", "tool_use_id": id(*of), "content": text});
                match messages.last_mut().filter(|last| last["content"][0]["type"] == "tool_result") {
                    Some(last) => last["content"].as_array_mut().unwrap().push(block),
                    None => messages.push(json!({"role": "user", "content": [block]})),
                }
            }
        }
    }
    Value::Array(messages)
}

/// What a block says besides its start.
enum Content {
    Text(String),
    /// JSON, or not quite.
    Input(Option<String>),
}

impl Content {
    fn whole(self, mut block: Value) -> Value {
        match self {
            Self::Text(text) => block["text"] = json!(text),
            Self::Input(None) => block["input"] = Value::Null,
            // What a document can't hold as it is, is a string in it.
            Self::Input(Some(text)) => {
                let value = serde_json::from_str::<Value>(&text).ok().filter(|value| format!("{value}") == text);
                block["input"] = value.unwrap_or_else(|| json!(text));
            }
        }
        block
    }

    fn deltas(self) -> Vec<Value> {
        match self {
            Self::Text(text) => pieces(&text).into_iter().map(|piece| json!({"type": "text_delta", "text": piece})).collect(),
            Self::Input(text) => {
                let pieces = pieces(&text.unwrap_or_default());
                pieces.into_iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect()
            }
        }
    }
}

/// The turn as a model says it that knows no custom tools.
pub fn without_custom(turn: &Turn) -> Turn {
    let Turn::Says(said, ending) = turn else { return turn.clone() };
    let last = said.len().saturating_sub(1);
    let plain = |(at, said): (usize, &Said)| match said {
        Said::Call { id, tool, arguments: Arguments::Text(text), custom: true } => {
            let mut input = input(tool, text);
            if *ending != Ending::Itself && at == last {
                input.truncate(input.len() - 2);
            }
            Said::Call { id, tool: tool.clone(), arguments: Arguments::Text(input), custom: false }
        }
        said => said.clone(),
    };
    Turn::Says(said.iter().enumerate().map(plain).collect(), *ending)
}

/// Blocks with what they say, `stop_reason` and `stop_details` of a turn.
fn parts(turn: &Turn) -> (Vec<(Value, Content)>, &'static str, Value) {
    let (mut blocks, mut details, mut called) = (Vec::new(), Value::Null, false);
    let Turn::Says(said, ending) = without_custom(turn) else { return (blocks, "end_turn", details) };
    for said in said {
        match said {
            Said::Text(text) => blocks.push((json!({"type": "text", "text": ""}), Content::Text(text))),
            Said::Refusal(text) => details = json!({"type": "refusal", "category": null, "explanation": text}),
            Said::Call { id, tool, arguments, .. } => {
                called = true;
                let text = match arguments {
                    Arguments::Text(text) => Some(text),
                    Arguments::Null => None,
                    Arguments::Bare(value) => Some(value.to_string()),
                };
                blocks.push((json!({"type": "tool_use", "id": id, "name": tool, "input": {}}), Content::Input(text)));
            }
        }
    }
    let stop = match ending {
        Ending::Length => "max_tokens",
        Ending::Filter => "refusal",
        Ending::Itself if !details.is_null() => "refusal",
        Ending::Itself if called => "tool_use",
        Ending::Itself => "end_turn",
    };
    (blocks, stop, details)
}
