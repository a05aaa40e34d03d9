//! Chat completions.

use serde_json::{Value, json};

use super::{
    exchange::{Arguments, Choice, Ending, Id, PastCall, Request, Said, Step, Tool, Turn},
    form::{Api, Called, Read, pieces},
    legal,
    stage::{World, world},
};
use crate::{
    folded::{Call, fold},
    harness::Answer,
};

pub struct Chat;

impl Api for Chat {
    fn path(&self) -> &'static str {
        "/chat/completions"
    }

    fn request(&self, request: &Request) -> Value {
        let mut body = json!({"messages": messages(&request.history)});
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
                body["tool_choice"] = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": tools}});
            }
        }
        if let Some(parallel) = request.parallel {
            body["parallel_tool_calls"] = json!(parallel);
        }
        if request.json {
            body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}});
        }
        body
    }

    fn stream(&self, body: &mut Value) {
        body["stream_options"] = json!({"include_usage": true});
    }

    fn whole(&self, turn: &Turn) -> Value {
        let (text, refusal, calls, finish) = parts(turn);
        let or_null = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
        let mut message = json!({"role": "assistant", "content": or_null(&text), "refusal": or_null(&refusal)});
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12});
        json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}]})
    }

    fn streamed(&self, turn: &Turn) -> String {
        let Turn::Says(said, _) = turn else { return String::new() };
        let (.., calls, finish) = parts(turn);
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        let mut index = 0;
        for said in said {
            match said {
                Said::Text(text) => deltas.extend(pieces(text).into_iter().map(|piece| json!({ "content": piece }))),
                Said::Refusal(text) => deltas.extend(pieces(text).into_iter().map(|piece| json!({ "refusal": piece }))),
                Said::Call { arguments, custom, .. } => {
                    let (kind, inner) = if *custom { ("custom", "input") } else { ("function", "arguments") };
                    let mut call = calls[index].clone();
                    call["index"] = json!(index);
                    let fragments = if let Arguments::Text(text) = arguments { pieces(text) } else { Vec::new() };
                    if call[kind][inner].is_string() {
                        call[kind][inner] = json!("");
                    }
                    deltas.push(json!({"tool_calls": [call]}));
                    let more = |piece| json!({"tool_calls": [{"index": index, kind: {inner: piece}}]});
                    deltas.extend(fragments.into_iter().map(more));
                    index += 1;
                }
            }
        }
        let chunk = |choices: Value, usage: Value| {
            let chunk =
                json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, "usage": usage});
            format!("data: {chunk}\n\n")
        };
        let choice = |delta: Value, finish: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), Value::Null);
        let mut out: String = deltas.into_iter().map(|delta| choice(delta, Value::Null)).collect();
        out.push_str(&choice(json!({}), json!(finish)));
        out.push_str(&chunk(json!([]), json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12})));
        out + "data: [DONE]\n\n"
    }

    fn read_whole(&self, body: &Value) -> Read {
        let message = &body["choices"][0]["message"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let call = |call: &Value| {
            let (kind, inner) = if call["type"] == "custom" { ("custom", "input") } else { ("function", "arguments") };
            Called::new(text(&call["id"]), text(&call[kind]["name"]), text(&call[kind][inner]))
        };
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(call).collect();
        Read::Said { text: text(&message["content"]), refusal: text(&message["refusal"]), calls, usage: body["usage"].clone() }
    }

    fn read_stream(&self, answer: &Answer) -> Result<Read, String> {
        let folded = fold(answer);
        if let Some(error) = folded.error {
            return Ok(Read::Error(error["code"].as_str().unwrap_or_default().to_owned()));
        }
        let [choice] = &folded.choices[..] else { return Err(format!("{} choices", folded.choices.len())) };
        let call = |call: &Call| Called::new(call.id.clone(), call.name.clone(), call.arguments.clone());
        let calls = choice.calls.iter().map(call).collect();
        let usage = folded.usage.unwrap_or_default();
        Ok(Read::Said { text: choice.text.clone(), refusal: choice.refusal.clone(), calls, usage })
    }

    fn legal(&self, body: &Value) -> Result<(), String> {
        legal::chat(body)
    }
}

fn named(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

fn tool(tool: &Tool) -> Value {
    match tool {
        Tool::Function { name, description, parameters } => {
            json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
        }
        Tool::Custom { name } => json!({"type": "custom", "custom": {"name": name}}),
    }
}

fn messages(history: &[Step]) -> Value {
    let id = |id: Id| world().id_of(history, id, World::chat_mark);
    let call = |call: &PastCall| {
        let (kind, inner) = if call.custom { ("custom", "input") } else { ("function", "arguments") };
        json!({"id": id(call.id), "type": kind, kind: {"name": call.tool, inner: call.arguments}})
    };
    let message = |step: &Step| match step {
        Step::System(text) => json!({"role": "system", "content": text}),
        Step::User(text) => json!({"role": "user", "content": text}),
        Step::Turn(text, calls) if calls.is_empty() => json!({"role": "assistant", "content": text}),
        Step::Turn(text, calls) => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            json!({"role": "assistant", "content": content, "tool_calls": calls.iter().map(call).collect::<Vec<_>>()})
        }
        Step::Result(of, text) => json!({"role": "tool", "tool_call_id": id(*of), "content": text}),
    };
    history.iter().map(message).collect()
}

/// Text, refusal, calls and `finish_reason` of a turn.
fn parts(turn: &Turn) -> (String, String, Vec<Value>, &'static str) {
    let (mut text, mut refusal, mut calls) = (String::new(), String::new(), Vec::new());
    let Turn::Says(said, ending) = turn else { return (text, refusal, calls, "stop") };
    for said in said {
        match said {
            Said::Text(said) => text.push_str(said),
            Said::Refusal(said) => refusal.push_str(said),
            Said::Call { id, tool, arguments, custom } => {
                let (kind, inner) = if *custom { ("custom", "input") } else { ("function", "arguments") };
                calls.push(json!({"id": id, "type": kind, kind: {"name": tool, inner: arguments.json()}}));
            }
        }
    }
    let finish = match ending {
        Ending::Length => "length",
        Ending::Filter => "content_filter",
        Ending::Itself if calls.is_empty() => "stop",
        Ending::Itself => "tool_calls",
    };
    (text, refusal, calls, finish)
}
