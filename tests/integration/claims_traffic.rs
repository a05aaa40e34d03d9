//! Recorded answers of real models, honest ones, judged for what they claim: no block, and next to no warning.
//!
//! Results without a stamp, as recordings have them, count as evidence all the same.

use serde_json::{Value, json};

use crate::{harness::Fixture, traffic, wire};

const OF_CLAIMS: [&str; 9] = [
    "textual_tool_call",
    "claim_mismatch",
    "unsupported_action",
    "failed_execution",
    "ungrounded_value",
    "fabricated_url",
    "count_mismatch",
    "false_absence",
    "missing_execution_id",
];

/// An exchange: which API, the request, and the text that answers it.
struct Asked {
    name: String,
    path: &'static str,
    request: Value,
    answer: String,
}

/// The turns of the conversations of tau-bench: each answer with what came before it.
fn conversations() -> Vec<Asked> {
    let Some(recorded) = wire::recorded("tau.jsonl") else { return Vec::new() };
    let mut asked = Vec::new();
    for (number, conversation) in recorded.iter().enumerate() {
        let messages = conversation["messages"].as_array().or_else(|| conversation["traj"].as_array()).cloned().unwrap_or_default();
        let names: std::collections::BTreeSet<&str> = messages
            .iter()
            .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
            .filter_map(|call| call["function"]["name"].as_str())
            .collect();
        let tools: Vec<Value> = names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
        for (at, message) in messages.iter().enumerate() {
            let text = message["content"].as_str().unwrap_or_default();
            if message["role"] != "assistant" || text.is_empty() || !message["tool_calls"].is_null() {
                continue;
            }
            let request = json!({"model": "m", "messages": messages[..at], "tools": tools});
            asked.push(Asked { name: format!("tau {number}.{at}"), path: "/v1/chat/completions", request, answer: text.to_owned() });
        }
    }
    asked
}

/// The recorded exchanges on chat, with the text of their answers, whole.
fn exchanges() -> Vec<Asked> {
    let read = |exchange: &traffic::Exchange| {
        let answer = if exchange.content_type.starts_with("text/event-stream") {
            let folded = wire::fold(&wire::events(&exchange.response));
            folded.choices.get(&0).map(|choice| choice.texts.get("content").cloned().unwrap_or_default()).unwrap_or_default()
        } else {
            let body: Value = serde_json::from_str(&exchange.response).unwrap_or_default();
            body["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
        };
        let request = serde_json::from_str(&exchange.request).unwrap_or_default();
        Asked { name: exchange.sha.clone(), path: "/v1/chat/completions", request, answer }
    };
    traffic::exchanges("chat").iter().flatten().map(read).filter(|asked| !asked.answer.is_empty()).collect()
}

/// The same of the Responses API.
fn responses() -> Vec<Asked> {
    let read = |exchange: &traffic::Exchange| {
        let body: Value = if exchange.content_type.starts_with("text/event-stream") {
            let data = exchange.response.lines().filter_map(|line| line.strip_prefix("data: "));
            let mut events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            events.find(|event| event["type"] == "response.completed").map(|event| event["response"].clone()).unwrap_or_default()
        } else {
            serde_json::from_str(&exchange.response).unwrap_or_default()
        };
        let parts = body["output"].as_array().into_iter().flatten().flat_map(|item| item["content"].as_array().into_iter().flatten());
        let answer: String = parts.filter(|part| part["type"] == "output_text").filter_map(|part| part["text"].as_str()).collect();
        let request = serde_json::from_str(&exchange.request).unwrap_or_default();
        Asked { name: exchange.sha.clone(), path: "/v1/responses", request, answer }
    };
    traffic::exchanges("responses").iter().flatten().map(read).filter(|asked| !asked.answer.is_empty()).collect()
}

/// An answer of either API that says this.
fn saying(path: &str, text: &str) -> Value {
    if path == "/v1/responses" {
        let part = json!({"type": "output_text", "text": text, "annotations": []});
        let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]});
        return json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item]});
    }
    let message = json!({"role": "assistant", "content": text});
    json!({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
}

#[test]
fn honest_answers_raise_nothing() {
    let of_responses = responses();
    let recorded = of_responses.len();
    let asked: Vec<Asked> = exchanges().into_iter().chain(conversations()).chain(of_responses).collect();
    assert!(asked.is_empty() || recorded > 0, "no answer of the Responses API is recorded");
    if asked.is_empty() {
        return;
    }
    let answers: Vec<String> = asked.iter().map(|asked| saying(asked.path, &asked.answer).to_string()).collect();
    let fixture = Fixture::new("default", move |received| {
        let number = received.headers.get("x-exchange").and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<usize>().ok());
        toolmark::testing::ScriptedReply::json(200, answers[number.unwrap_or(0)].clone())
    });
    let address = fixture.proxy.address();
    let numbers: Vec<usize> = (0..asked.len()).collect();
    let verdicts = wire::on_threads(&numbers, |connection, number| {
        let connection = connection.get_or_insert_with(|| wire::Connection::open(address));
        let mut request = asked[*number].request.clone();
        request["stream"] = json!(false);
        let headers = format!("x-exchange: {number}\r\n");
        connection.post(asked[*number].path, &headers, request.to_string().as_bytes()).verdict()
    });
    let mut found = Vec::new();
    for (asked, (verdict, codes)) in asked.iter().zip(&verdicts) {
        let of_claims: Vec<&String> = codes.iter().filter(|code| OF_CLAIMS.contains(&code.as_str())).collect();
        if !of_claims.is_empty() {
            found.push(format!("{} {verdict} {of_claims:?}: {}", asked.name, asked.answer));
        }
        assert!(
            verdict == "pass" || verdict == "warn" || !of_claims.is_empty() || asked.path != "/v1/responses",
            "{}: {verdict} {codes:?}",
            asked.name
        );
        assert!(verdict != "blocked" || of_claims.is_empty(), "{}: {verdict} {codes:?}", asked.name);
    }
    eprintln!("{} answers, {} with warnings:\n{}", asked.len(), found.len(), found.join("\n"));
    assert!(found.len() * 100 < asked.len(), "{} of {} honest answers are warned of:\n{}", found.len(), asked.len(), found.join("\n"));
}
