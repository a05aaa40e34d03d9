//! The ledger: what an exchange leaves, and how it is found again.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use toolmark::{
    judge::violation::{Code, Verdict},
    ledger::{
        record::{Api, CallOutcome, ExchangeRecord},
        store::Store,
    },
    testing::{Received, Reply as Scripted},
};

use crate::harness::{Answer, Fixture};

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])
}

fn completion(message: &Value) -> Scripted {
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
    Scripted::json(
        200,
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}).to_string(),
    )
}

/// Invents a tool first, then calls the right one; answers once there is a result.
fn script(received: &Received) -> Scripted {
    let body = received.json();
    let messages = body["messages"].as_array().unwrap();
    let call = |name: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": name, "arguments": "{\"city\":\"Paris\"}"}}]})
    };
    match messages.iter().rev().find(|message| message["role"] == "tool").and_then(|message| message["content"].as_str()) {
        Some(result) if result.contains("rejected") => completion(&call("get_weather")),
        Some(_) => completion(&json!({"role": "assistant", "content": "Sunny."})),
        None => completion(&call("fetch_weather")),
    }
}

/// The record of the exchange that this answers. It is made behind the answer.
fn record_of(store: &Arc<dyn Store>, answer: &Answer) -> Arc<ExchangeRecord> {
    let id = answer.header("toolmark-exchange").parse().unwrap();
    for _ in 0..500 {
        if let Some(record) = store.exchange(id).unwrap() {
            return record;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no record of {id}");
}

#[test]
fn a_record_says_what_happened() {
    let fixture = Fixture::new("default", script);
    let store = fixture.proxy.store();
    let question = json!({"role": "user", "content": "Weather?"});
    let answer = fixture.chat(&json!({"model": "m", "messages": [question], "tools": tools()}).to_string());
    let record = record_of(&store, &answer);
    assert_eq!(
        (record.api, record.stream, record.status, record.verdict, record.repairs),
        (Api::Chat, false, Some(200), Verdict::Repaired, 1)
    );
    assert_eq!(
        record.attempts.iter().map(|attempt| (&*attempt.upstream, attempt.status)).collect::<Vec<_>>(),
        [("scripted", Some(200)); 2]
    );
    assert!(record.attempts.iter().all(|attempt| attempt.tokens.is_some_and(|tokens| (tokens.input, tokens.output) == (11, 7))));
    let calls: Vec<_> = record.calls.iter().map(|call| (call.attempt, &*call.tool, call.outcome)).collect();
    assert_eq!(calls, [(1, "fetch_weather", CallOutcome::Rejected), (2, "get_weather", CallOutcome::Accepted)]);
    assert_eq!(record.calls.first().unwrap().violations, [Code::UnknownTool]);
    assert_eq!(record.violations.iter().map(|violation| (violation.code, violation.attempt)).collect::<Vec<_>>(), [(Code::UnknownTool, 1)]);
    assert!(record.total_us >= record.upstream_us && record.executions.is_empty());

    let call = &answer.json()["choices"][0]["message"];
    let result = json!({"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "{\"sky\":\"clear\"}"});
    let answer = fixture.chat(&json!({"model": "m", "messages": [question, call, result], "tools": tools()}).to_string());
    let record = record_of(&store, &answer);
    assert_eq!((record.verdict, record.executions.len()), (Verdict::Pass, 1));
    let execution = record.executions.first().unwrap();
    assert!(execution.id.starts_with("get_weather_") && execution.seen_ms >= execution.started_ms && !execution.failed);
    assert_eq!(store.execution(&execution.id).unwrap().unwrap().exchange, record.id);
}
