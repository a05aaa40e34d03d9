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
