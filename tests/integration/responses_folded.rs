//! A stream of the Responses API as its clients read it, and the rules that it keeps: docs/wire-facts.md#responses-streams.

use serde_json::Value;

/// The data of all events but `[DONE]`.
pub fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).filter(|data| *data != "[DONE]");
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// Checks that the events of a stream that ended well agree with each other, in all the places that say a thing twice.
pub fn consistent(events: &[Value]) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    if numbers.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(format!("sequence numbers that don't rise: {numbers:?}"));
    }
    if events.first().is_none_or(|event| event["type"] != "response.created") {
        return Err("response.created isn't the first".into());
    }
    let last = events.last().unwrap_or(&Value::Null);
    let ends = |event: &&Value| matches!(event["type"].as_str(), Some("response.completed" | "response.incomplete" | "response.failed"));
    if !ends(&last) || events.iter().filter(ends).count() != 1 {
        return Err(format!("the last event is {}", last["type"]));
    }
    let ids: Vec<&Value> = events.iter().map(|event| &event["response"]["id"]).filter(|id| !id.is_null()).collect();
    if ids.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(format!("the response changes its id: {ids:?}"));
    }
    let mut said: Vec<(String, Value)> = Vec::new();
    for event in events.iter().filter(|event| event["output_index"].is_u64()) {
        let at = event["output_index"].as_u64().unwrap_or(0) as usize;
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.added" if at != said.len() => return Err(format!("item {at} begins where {} is due", said.len())),
            "response.output_item.added" => said.push((String::new(), Value::Null)),
            kind if at >= said.len() => return Err(format!("{kind} of item {at}, which never began")),
            "response.output_text.delta" | "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                said[at].0.push_str(event["delta"].as_str().unwrap_or_default());
            }
            "response.function_call_arguments.done" if text(&event["arguments"]) != said[at].0 => {
                return Err(format!("arguments that were never said: {event}"));
            }
            "response.output_item.done" => said[at].1 = event["item"].clone(),
            _ => {}
        }
    }
    if last["type"] == "response.failed" {
        return Ok(());
    }
    // What upstreams say twice of the rest, as `encrypted_content`, is theirs and differs with some.
    let told = |item: &Value| {
        let parts = item["content"].as_array().into_iter().flatten().map(|part| text(&part["text"]) + &text(&part["refusal"]));
        let parts: Vec<String> = parts.filter(|_| item["type"] == "message").collect();
        let call = ["call_id", "name", "namespace", "arguments", "input"].map(|name| item[name].clone());
        (item["type"].clone(), parts, call)
    };
    let output = last["response"]["output"].as_array().into_iter().flatten().map(told).collect::<Vec<_>>();
    let done = said.iter().map(|(_, item)| told(item)).collect::<Vec<_>>();
    if output != done {
        return Err(format!("the response says {output:?}, its events {done:?}"));
    }
    for (deltas, item) in &said {
        let parts = item["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        let whole = match item["type"].as_str() {
            Some("message") => parts.collect(),
            Some("function_call") => text(&item["arguments"]),
            Some("custom_tool_call") => text(&item["input"]),
            _ => continue,
        };
        if whole != *deltas {
            return Err(format!("{whole:?} was said as {deltas:?}"));
        }
    }
    Ok(())
}
