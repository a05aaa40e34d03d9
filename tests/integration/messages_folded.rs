//! Streams of the Messages API: the rules that clients need, and the message that a stream amounts to.

use serde_json::{Value, json};

/// The events of a stream: each has a name, which is its type.
///
/// # Errors
/// The event that isn't so.
pub fn events(text: &str) -> Result<Vec<Value>, String> {
    let mut events = Vec::new();
    for block in text.replace("\r\n", "\n").split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (mut name, mut data) = ("", String::new());
        for line in block.lines() {
            if let Some(own) = line.strip_prefix("event:") {
                name = own.trim();
            } else if let Some(own) = line.strip_prefix("data:") {
                data.push_str(own);
            } else if !line.starts_with(':') {
                return Err(format!("a line of its own: {line}"));
            }
        }
        if data.is_empty() {
            continue;
        }
        let event: Value = serde_json::from_str(&data).map_err(|error| format!("{error}: {data}"))?;
        if event["type"] != name {
            return Err(format!("the event `{name}` is {event}"));
        }
        events.push(event);
    }
    Ok(events)
}

/// The message that a stream amounts to, or the error that it ends in. Holds the stream against the emission rules.
///
/// # Errors
/// The rule that it breaks.
pub fn fold(text: &str) -> Result<Value, String> {
    let events: Vec<Value> = events(text)?.into_iter().filter(|event| event["type"] != "ping").collect();
    if let Some(error) = events.iter().find(|event| event["type"] == "error") {
        let last = events.last() == Some(error) && error["error"]["type"].is_string() && error["error"]["message"].is_string();
        return if last { Ok(error.clone()) } else { Err(format!("an error that isn't the end, or isn't one: {error}")) };
    }
    let mut message = events.first().filter(|event| event["type"] == "message_start").ok_or("no message_start")?["message"].clone();
    if message["content"] != json!([]) || !message["usage"]["output_tokens"].is_u64() {
        return Err(format!("message_start: {message}"));
    }
    let (mut open, mut inputs, mut ended): (Option<usize>, Vec<String>, bool) = (None, Vec::new(), false);
    for (at, event) in events.iter().enumerate().skip(1) {
        let index = event["index"].as_u64().map(|index| index as usize);
        let content = message["content"].as_array_mut().ok_or("no content")?;
        match event["type"].as_str().unwrap_or_default() {
            "content_block_start" => {
                let block = event["content_block"].clone();
                if open.is_some() || ended || index != Some(content.len()) {
                    return Err(format!("a start out of place: {event}"));
                }
                let client = block["type"] == "tool_use" && block["input"] != json!({});
                if (block["type"] == "text" && block["text"] != "") || client {
                    return Err(format!("a block that starts with what belongs into deltas: {event}"));
                }
                open = index;
                content.push(block);
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let at = open.filter(|open| Some(*open) == index).ok_or_else(|| format!("a delta of no open block: {event}"))?;
                let (block, delta) = (&mut content[at], &event["delta"]);
                let kinds = (block["type"].as_str().unwrap_or_default().to_owned(), delta["type"].as_str().unwrap_or_default());
                let add = |block: &mut Value, name: &str, own: &str| {
                    block[name] = json!(format!("{}{}", block[name].as_str().unwrap_or_default(), delta[own].as_str().unwrap_or_default()));
                };
                match (&*kinds.0, kinds.1) {
                    ("text", "text_delta") => add(block, "text", "text"),
                    ("text", "citations_delta") => match block["citations"].as_array_mut() {
                        Some(citations) => citations.push(delta["citation"].clone()),
                        None => block["citations"] = json!([delta["citation"]]),
                    },
                    ("thinking", "thinking_delta") => add(block, "thinking", "thinking"),
                    ("thinking", "signature_delta") => block["signature"] = delta["signature"].clone(),
                    (kind, "input_json_delta") if kind.ends_with("tool_use") => {
                        inputs[at].push_str(delta["partial_json"].as_str().unwrap_or_default())
                    }
                    ("compaction", "compaction_delta") => block["content"] = delta["content"].clone(),
                    _ => return Err(format!("a delta that doesn't belong to its block: {event}")),
                }
            }
            "content_block_stop" => {
                let at = open.take().filter(|open| Some(*open) == index).ok_or_else(|| format!("a stop of no open block: {event}"))?;
                if content[at]["type"] == "text" && content[at]["text"] == "" {
                    return Err("an empty text block".into());
                }
                if !inputs[at].is_empty() {
                    content[at]["input"] = serde_json::from_str(&inputs[at]).map_err(|error| format!("{error}: {}", inputs[at]))?;
                }
            }
            "message_delta" => {
                if open.is_some() || std::mem::replace(&mut ended, true) || !event["usage"]["output_tokens"].is_u64() {
                    return Err(format!("a message_delta out of place, or without usage: {event}"));
                }
                for (from, into) in [(&event["delta"], true), (event, false)] {
                    for (name, value) in from.as_object().into_iter().flatten() {
                        match (&**name, into) {
                            ("type" | "delta", _) => {}
                            ("usage", _) => {
                                for (name, value) in value.as_object().into_iter().flatten() {
                                    message["usage"][name] = value.clone();
                                }
                            }
                            (name, _) => message[name] = value.clone(),
                        }
                    }
                }
            }
            "message_stop" if ended && at + 1 == events.len() => return Ok(message),
            _ => return Err(format!("an event out of place: {event}")),
        }
    }
    Err("no message_stop".into())
}
