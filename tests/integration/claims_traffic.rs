//! Recorded answers of real models, honest ones, judged for what they claim: no block, and next to no warning.
//!
//! Results without a stamp, as recordings have them, count as evidence all the same.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
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
        let mut whole = json!({"model": "m", "messages": messages});
        offer_called_tools(&mut whole);
        for (at, message) in messages.iter().enumerate() {
            let text = message["content"].as_str().unwrap_or_default();
            if message["role"] != "assistant" || text.is_empty() || !message["tool_calls"].is_null() {
                continue;
            }
            let mut request = whole.clone();
            request["messages"] = json!(messages[..at]);
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

/// The same of the Messages API.
fn messages() -> Vec<Asked> {
    let read = |exchange: &traffic::Exchange| {
        let answer: String = if exchange.content_type.starts_with("text/event-stream") {
            let events = wire::events(&exchange.response);
            events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
        } else {
            let body: Value = serde_json::from_str(&exchange.response).unwrap_or_default();
            body["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()).collect()
        };
        let request = serde_json::from_str(&exchange.request).unwrap_or_default();
        Asked { name: exchange.sha.clone(), path: "/v1/messages", request, answer }
    };
    traffic::exchanges_of("messages.jsonl", "messages").iter().flatten().map(read).filter(|asked| !asked.answer.is_empty()).collect()
}

/// All of them.
fn recorded() -> Vec<Asked> {
    let of_responses = responses();
    let of_messages = messages();
    let empty = (of_responses.is_empty(), of_messages.is_empty());
    let all: Vec<Asked> = exchanges().into_iter().chain(conversations()).chain(of_responses).chain(of_messages).collect();
    assert!(all.is_empty() || empty == (false, false), "no answer of the Responses or the Messages API is recorded");
    all
}

/// An answer of this API that says this.
fn saying(path: &str, text: &str) -> Value {
    match path {
        "/v1/responses" => {
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]});
            json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item]})
        }
        "/v1/messages" => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        }),
        _ => {
            let message = json!({"role": "assistant", "content": text});
            json!({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        }
    }
}

/// Verdict and codes of each under this policy.
fn judged(policy: &str, asked: &[Asked]) -> Vec<(String, Vec<String>)> {
    let answers: Vec<String> = asked.iter().map(|asked| saying(asked.path, &asked.answer).to_string()).collect();
    let fixture = Fixture::new(policy, move |received| {
        let number = received.headers.get("x-exchange").and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<usize>().ok());
        toolmark::testing::ScriptedReply::json(200, answers[number.unwrap_or(0)].clone())
    });
    let address = fixture.proxy.address();
    let numbers: Vec<usize> = (0..asked.len()).collect();
    wire::on_threads(&numbers, |connection, number| {
        let connection = connection.get_or_insert_with(|| wire::Connection::open(address));
        let mut request = asked[*number].request.clone();
        request["stream"] = json!(false);
        let headers = format!("x-exchange: {number}\r\n");
        connection.post(asked[*number].path, &headers, request.to_string().as_bytes()).verdict()
    })
}

#[test]
fn honest_answers_raise_nothing() {
    let asked = recorded();
    if asked.is_empty() {
        return;
    }
    let verdicts = judged("default", &asked);
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

/// The strict policy without limits on the pace of calls: days of conversation are played in a moment.
fn strict_at_any_pace() -> String {
    let strict = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/strict.toml")).unwrap();
    strict.replace("loop_detected = \"block\"", "loop_detected = \"off\"")
}

static EXECUTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"execution_id(?:"|\\")?: ?(?:"|\\")?([A-Za-z0-9_-]+_\d{13}_[0-9a-f]{16})"#).unwrap());

/// The execution IDs of the results since the user spoke last, in a request that toolmark sent.
fn executions(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let from = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
    let results = messages[from..].iter().filter(|message| message["role"] == "tool").map(|message| message["content"].to_string());
    results.flat_map(|content| EXECUTION.captures_iter(&content).map(|found| found[1].to_owned()).collect::<Vec<_>>()).collect()
}

/// Offers the tools that the conversation calls and the request lacks: some recordings leave them out once they were called.
fn offer_called_tools(request: &mut Value) {
    let mut called: BTreeMap<String, serde_json::Map<String, Value>> = BTreeMap::new();
    let messages = request["messages"].as_array().into_iter().flatten();
    for call in messages.flat_map(|message| message["tool_calls"].as_array().into_iter().flatten()) {
        let parameters = called.entry(call["function"]["name"].as_str().unwrap_or_default().to_owned()).or_default();
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap_or_default()).unwrap_or_default();
        parameters.extend(arguments.as_object().into_iter().flatten().map(|(name, _)| (name.clone(), json!({}))));
    }
    let mut tools = request["tools"].as_array().cloned().unwrap_or_default();
    called.retain(|name, _| !tools.iter().any(|tool| tool["function"]["name"] == **name));
    tools.extend(called.into_iter().map(|(name, properties)| {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}})
    }));
    if !tools.is_empty() {
        request["tools"] = json!(tools);
    }
}

/// What strict makes of recorded conversations on chat whose calls went through toolmark: verdict and codes of the answer, which cites
/// each result since the user spoke last. `None`: a recorded call isn't let through, or there is no result to cite.
fn judged_with_marks(asked: &[Asked], said: fn(&str) -> String) -> Vec<Option<(String, Vec<String>)>> {
    let messages: Vec<Vec<Value>> = asked.iter().map(|asked| asked.request["messages"].as_array().cloned().unwrap_or_default()).collect();
    let answers: Vec<String> = asked.iter().map(|asked| said(&asked.answer)).collect();
    let script = {
        let messages = messages.clone();
        move |received: &toolmark::testing::Received| {
            let number =
                |name: &str| received.headers.get(name).and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<usize>().ok());
            let exchange = number("x-exchange").unwrap_or(0);
            let mut message = json!({"role": "assistant"});
            if let Some(at) = number("x-message") {
                message["content"] = messages[exchange][at]["content"].clone();
                message["tool_calls"] = messages[exchange][at]["tool_calls"].clone();
            } else {
                let request: Value = serde_json::from_slice(&received.body).unwrap_or_default();
                let cited: String = executions(&request).iter().map(|id| format!(" (execution_id: {id})")).collect();
                message["content"] = json!(answers[exchange].trim_end().to_owned() + &cited);
            }
            let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
            let choice = json!({"index": 0, "message": message, "finish_reason": finish});
            let body = json!({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]});
            toolmark::testing::ScriptedReply::json(200, body.to_string())
        }
    };
    let fixture = Fixture::with_policy(&strict_at_any_pace(), "", script);
    let address = fixture.proxy.address();
    let numbers: Vec<usize> = (0..asked.len()).collect();
    wire::on_threads(&numbers, |connection, number| {
        let connection = connection.get_or_insert_with(|| wire::Connection::open(address));
        let mut request = asked[*number].request.clone();
        request["stream"] = json!(false);
        offer_called_tools(&mut request);
        let mut marked = messages[*number].clone();
        for at in 0..marked.len() {
            let Some(calls) = marked[at]["tool_calls"].as_array().cloned().filter(|calls| !calls.is_empty()) else { continue };
            request["messages"] = json!(marked[..at]);
            let headers = format!("x-exchange: {number}\r\nx-message: {at}\r\n");
            let reply = connection.post("/v1/chat/completions", &headers, request.to_string().as_bytes());
            let minted = reply.json()["choices"][0]["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
            if minted.len() != calls.len() {
                eprintln!("not let through: {} {at} {:?}", asked[*number].name, reply.verdict());
                return None;
            }
            for (at_call, (call, minted)) in calls.iter().zip(&minted).enumerate() {
                marked[at]["tool_calls"][at_call] = minted.clone();
                let answers = |message: &&mut Value| message["role"] == "tool" && message["tool_call_id"] == call["id"];
                if let Some(result) = marked[at + 1..].iter_mut().take(calls.len()).find(answers) {
                    result["tool_call_id"] = minted["id"].clone();
                }
            }
        }
        let from = marked.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
        if !marked[from..].iter().any(|message| message["role"] == "tool") {
            return None;
        }
        request["messages"] = json!(marked);
        Some(connection.post("/v1/chat/completions", &format!("x-exchange: {number}\r\n"), request.to_string().as_bytes()).verdict())
    })
}

#[test]
fn what_strict_stops_was_looked_at() {
    let asked: Vec<Asked> = exchanges().into_iter().chain(conversations()).collect();
    if asked.is_empty() {
        return;
    }
    let played = |said: fn(&str) -> String| -> Vec<(String, String)> {
        let verdicts = asked.iter().zip(judged_with_marks(&asked, said)).filter_map(|(asked, verdict)| Some((asked, verdict?)));
        verdicts.map(|(asked, (verdict, codes))| (verdict, format!("{} {codes:?}: {}", asked.name, asked.answer))).collect()
    };
    let stopped = |all: &[(String, String)]| -> Vec<String> {
        all.iter().filter(|(verdict, _)| verdict == "blocked").map(|(_, answer)| answer.clone()).collect()
    };
    let honest = played(str::to_owned);
    let with_other_figures = played(|answer| answer.chars().map(another_digit).collect());
    // `The change fees have been waived`: no tool waived any; only the flights were changed.
    const LOOKED_AT: [&str; 1] = ["tau 3.18 "];
    let [of_honest, of_others] = [&honest, &with_other_figures].map(|all| stopped(all));
    eprintln!("{} answers, {} stopped; with other figures {}", honest.len(), of_honest.len(), of_others.len());
    let unknown: Vec<&String> = of_honest.iter().filter(|answer| !LOOKED_AT.iter().any(|known| answer.starts_with(known))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // The checks do look at these answers.
    assert!(of_others.len() > 10 && honest.len() > 30, "{} of {} stopped", of_others.len(), honest.len());
}

/// Another digit for a digit.
fn another_digit(sign: char) -> char {
    match sign {
        '0'..='8' => char::from(sign as u8 + 1),
        '9' => '3',
        _ => sign,
    }
}
