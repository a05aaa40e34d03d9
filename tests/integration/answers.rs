//! Answers that are given through a tool, on both APIs, whole and streamed.

use serde_json::{Value, json};
use toolmark::testing::ScriptedReply;

use crate::{
    clients::is_mark,
    harness::{Fixture, post},
};

fn parameters(more: &Value) -> Value {
    let mut properties = json!({"answer": {"type": "string"}});
    properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// What the model says, whatever it is asked, as a text of no call.
fn refuses(received: &toolmark::testing::Received) -> ScriptedReply {
    let request = received.json();
    let text = "I'd rather not.";
    if request.get("messages").is_none() {
        let part = json!({"type": "output_text", "text": text, "annotations": []});
        let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]});
        let body = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item]});
        if request["stream"] != true {
            return ScriptedReply::json(200, body.to_string());
        }
        let added = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []});
        let mut begun = body.clone();
        (begun["status"], begun["output"]) = (json!("in_progress"), json!([]));
        return ScriptedReply::chunks([
            json!({"type": "response.created", "sequence_number": 0, "response": begun}),
            json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": added}),
            json!({"type": "response.content_part.added", "sequence_number": 2, "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
            json!({"type": "response.output_text.delta", "sequence_number": 3, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text}),
            json!({"type": "response.output_text.done", "sequence_number": 4, "item_id": "msg_1", "output_index": 0, "content_index": 0, "text": text}),
            json!({"type": "response.content_part.done", "sequence_number": 5, "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part}),
            json!({"type": "response.output_item.done", "sequence_number": 6, "output_index": 0, "item": item}),
            json!({"type": "response.completed", "sequence_number": 7, "response": body}),
        ]);
    }
    let choice = |name: &str, own: Value, finish: Value| json!({"index": 0, name: own, "finish_reason": finish});
    let chunk = |choice: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
    if request["stream"] == true {
        let first = chunk(choice("delta", json!({"role": "assistant", "content": text}), Value::Null));
        return ScriptedReply::chunks([first, chunk(choice("delta", json!({}), "stop".into()))]);
    }
    let message = choice("message", json!({"role": "assistant", "content": text}), "stop".into());
    ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [message]}).to_string())
}

/// The only call of an answer in any form: its id, tool and arguments.
fn call_of(events: &[Value], whole: &Value) -> Option<(Value, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_chat = |call: &Value| (call["id"].clone(), text(&call["function"]["name"]), text(&call["function"]["arguments"]));
    let of_item = |item: &Value| (item["call_id"].clone(), text(&item["name"]), text(&item["arguments"]));
    let chat = whole["choices"][0]["message"]["tool_calls"].get(0).map(of_chat);
    let item = whole["output"].get(0).filter(|item| item["type"] == "function_call").map(of_item);
    let streamed = || events.iter().find_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0).map(of_chat));
    let last =
        || events.iter().find_map(|event| event["response"]["output"].get(0).filter(|item| item["type"] == "function_call").map(of_item));
    chat.or(item).or_else(streamed).or_else(last)
}

#[test]
fn a_safe_reply_is_a_call_where_one_is_demanded() {
    let fixture = Fixture::with_policy("", "", refuses);
    for (named, more, as_call) in [
        (json!("required"), json!({}), true),
        (json!({"name": "final_answer"}), json!({}), true),
        (json!({"name": "get_weather"}), json!({}), false),
        // Nothing is made up for what else it wants.
        (json!("required"), json!({"city": {"type": "string"}}), false),
        (json!("auto"), json!({}), false),
    ] {
        for (responses, stream) in [(false, false), (false, true), (true, false), (true, true)] {
            let weather = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
            let functions =
                [json!({"name": "get_weather", "parameters": weather}), json!({"name": "final_answer", "parameters": parameters(&more)})];
            let choice = match (named.get("name"), responses) {
                (Some(name), true) => json!({"type": "function", "name": name}),
                (Some(name), false) => json!({"type": "function", "function": {"name": name}}),
                (None, _) => named.clone(),
            };
            let flat = |own: &Value| {
                let mut tool = own.clone();
                tool["type"] = json!("function");
                tool
            };
            let answer = if responses {
                let tools: Vec<Value> = functions.iter().map(flat).collect();
                let body = json!({"model": "m", "input": "go", "tools": tools, "tool_choice": choice, "stream": stream, "store": false});
                post(&format!("{}/responses", fixture.proxy.base_url()), &body.to_string(), "Bearer test")
            } else {
                let tools: Vec<Value> = functions.iter().map(|own| json!({"type": "function", "function": own})).collect();
                let messages = json!([{"role": "user", "content": "go"}]);
                fixture
                    .chat(&json!({"model": "m", "messages": messages, "tools": tools, "tool_choice": choice, "stream": stream}).to_string())
            };
            let (events, whole) = if stream { (answer.events(), Value::Null) } else { (Vec::new(), answer.json()) };
            let case = format!("{named} {more} responses {responses} stream {stream}: {}", answer.body);
            let Some((id, tool, arguments)) = call_of(&events, &whole) else {
                assert!(!as_call, "{case}");
                assert!(answer.body.contains(if named == "auto" { "rather not" } else { "I could not finish this" }), "{case}");
                continue;
            };
            assert!(as_call, "{case}");
            is_mark(&id);
            assert_eq!(tool, "final_answer", "{case}");
            let said: Value = serde_json::from_str(&arguments).unwrap();
            assert!(said["answer"].as_str().unwrap().starts_with("I could not finish this"), "{case}");
            assert!(answer.body.contains(r#""verdict":"blocked""#) || answer.header("toolmark-verdict") == "blocked", "{case}");
            assert!(!answer.body.contains("rather not"), "{case}");
        }
    }
}
