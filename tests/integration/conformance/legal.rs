//! What an upstream takes: calls and results paired as its API demands, names and arguments legal.

use std::collections::HashSet;

use serde_json::Value;

pub fn chat(body: &Value) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for message in items(&body["messages"]) {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let at = open.iter().position(|own| *own == id).ok_or_else(|| format!("{id} answers no open call"))?;
            open.remove(at);
            text(&message["content"])?;
            continue;
        }
        if !open.is_empty() {
            return Err(format!("{open:?} are not answered before {message}"));
        }
        for call in items(&message["tool_calls"]) {
            let id = call["id"].as_str().filter(|id| !id.is_empty()).ok_or("a call without an id")?;
            if open.contains(&id) {
                return Err(format!("two calls {id} in one turn"));
            }
            open.push(id);
            let custom = call["type"] == "custom";
            let (kind, inner) = if custom { ("custom", "input") } else { ("function", "arguments") };
            called(&call[kind]["name"], &call[kind][inner], custom, 64)?;
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} are not answered")) }
}

pub fn messages(body: &Value) -> Result<(), String> {
    const MEMBERS: [&str; 9] = ["model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "output_config", "thinking"];
    if let Some(name) = body.as_object().into_iter().flatten().map(|(name, _)| name).find(|name| !MEMBERS.contains(&&***name)) {
        return Err(format!("{name}: Extra inputs are not permitted"));
    }
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for message in items(&body["messages"]) {
        let role = message["role"].as_str().unwrap_or_default();
        let blocks: Vec<&Value> = items(&message["content"]).collect();
        let (results, others): (Vec<&Value>, Vec<&Value>) = blocks.iter().partition(|block| block["type"] == "tool_result");
        for result in &results {
            let id = result["tool_use_id"].as_str().unwrap_or_default();
            let at = open.iter().position(|own| *own == id).ok_or_else(|| format!("{id}: unexpected `tool_use_id`"))?;
            open.remove(at);
            text(&result["content"])?;
        }
        let first = blocks.iter().take(results.len()).all(|block| block["type"] == "tool_result");
        if !first || (!open.is_empty() && (role != "assistant" || before != "assistant")) {
            return Err(format!("{open:?} are not answered at once: {message}"));
        }
        for block in others {
            if block["type"] == "text" && block["text"].as_str().is_none_or(str::is_empty) {
                return Err("text content blocks must be non-empty".into());
            }
            if block["type"] == "tool_use" {
                let id = block["id"].as_str().unwrap_or_default();
                let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                if id.is_empty() || !id.bytes().all(legal) || open.contains(&id) || !block["input"].is_object() {
                    return Err(format!("{block} is no legal call"));
                }
                called(&block["name"], &Value::String("{}".into()), false, 128)?;
                open.push(id);
            }
        }
        before = role;
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} are not answered")) }
}

pub fn responses(body: &Value) -> Result<(), String> {
    let mut open = HashSet::new();
    for item in items(&body["input"]) {
        let id = item["call_id"].as_str().unwrap_or_default();
        let kind = item["type"].as_str().unwrap_or("message");
        match kind {
            "function_call" | "custom_tool_call" => {
                if id.is_empty() || id.len() > 64 || !open.insert((id, format!("{kind}_output"))) {
                    return Err(format!("a call's id is missing, too long or that of another open call: {item}"));
                }
                let custom = kind == "custom_tool_call";
                called(&item["name"], &item[if custom { "input" } else { "arguments" }], custom, 128)?;
            }
            "function_call_output" | "custom_tool_call_output" => {
                if !open.remove(&(id, kind.to_owned())) {
                    return Err(format!("an output without an open call: {item}"));
                }
                text(&item["output"])?;
            }
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} are not answered")) }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Result<(), String> {
    if value.is_string() { Ok(()) } else { Err(format!("{value} is no text")) }
}

fn called(name: &Value, arguments: &Value, custom: bool, longest: usize) -> Result<(), String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let name = name.as_str().unwrap_or_default();
    if !(1..=longest).contains(&name.len()) || !name.bytes().all(legal) {
        return Err(format!("`{name}` is no name"));
    }
    let object = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    if arguments.as_str().is_some_and(|text| custom || object(text)) { Ok(()) } else { Err(format!("{arguments} are no arguments")) }
}
