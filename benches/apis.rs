//! What an exchange of the Messages API costs, next to the same conversation as chat completions: whole with one call, and a stream of
//! text in fifty pieces.
//!
//! `cargo bench --bench apis` prints figures and asserts none; compare those of one run only. `TOOLMARK_BENCH_SECONDS`: how long each
//! run of exchanges lasts (3), `TOOLMARK_BENCH_ROUNDS`: how many there are (5).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

#[path = "common/served.rs"]
mod served;

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use served::{Traffic, chat_call, costs_of, setting, upstream};

use toolmark_allocator as _;

const SYSTEM: &str = "You help the customers of a small shop for outdoor clothing. Be brief and exact. Use the tools for all that depends on live data: weather, orders, tickets. Never make up the number of an order, a temperature or the id of a ticket; if a tool fails, say so and offer to open a ticket.";
const RESULT: &str = r#"{"orders":[{"id":"ord_20481","status":"shipped","items":[{"sku":"JKT-ALP-M","qty":1,"price":"189.00"},{"sku":"SCK-MER-42","qty":3,"price":"14.50"}],"carrier":"DPD","tracking":"09446788123456","eta":"2026-03-12"}],"next_cursor":null}"#;
const SAID: &str =
    "Order ord_20481 (one jacket, three pairs of socks) was shipped with DPD, tracking number 09446788123456. It should come on 12 March.";
const ASKED: [&str; 2] = [
    "Hello! My parcel should have come on Tuesday. The number of the customer is cus_8f2k1m9q. Can you see where it is?",
    "Thanks. I go to Paris this evening, and it may come too late. Will I need the jacket there? Please look up the weather in Paris, in celsius.",
];
const PIECES: usize = 50;

/// Name, description and schema of each tool.
fn tools() -> Vec<(&'static str, &'static str, Value)> {
    let text = || json!({"type": "string"});
    let weather = json!({"type": "object", "required": ["city"], "additionalProperties": false, "properties": {
        "city": {"type": "string", "minLength": 1}, "unit": {"enum": ["celsius", "fahrenheit"]}, "hours_ahead": {"type": "integer", "minimum": 0, "maximum": 240}}});
    let orders = json!({"type": "object", "required": ["customer_id"], "additionalProperties": false, "properties": {
        "customer_id": {"type": "string", "pattern": "^cus_[a-z0-9]{8,24}$"},
        "status": {"type": "array", "items": {"enum": ["open", "paid", "shipped", "returned"]}, "uniqueItems": true},
        "page": {"type": "object", "required": ["limit"], "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 100}, "cursor": {"type": ["string", "null"]}}}}});
    let ticket = json!({"type": "object", "required": ["title", "priority"], "additionalProperties": false, "properties": {
        "title": {"type": "string", "minLength": 8, "maxLength": 120}, "priority": {"enum": ["low", "normal", "high"]}, "labels": {"type": "array", "items": text(), "maxItems": 8}}});
    vec![
        ("get_weather", "Current weather of a city. Call it whenever somebody asks for temperature, rain, wind or what to wear.", weather),
        ("search_orders", "Finds the orders of a customer by any mix of filters, newest first.", orders),
        ("create_ticket", "Opens a ticket. Never call it twice for the same problem in one conversation.", ticket),
    ]
}

fn called() -> Value {
    json!({"customer_id": "cus_8f2k1m9q", "status": ["paid", "shipped"], "page": {"limit": 5}})
}

fn answer() -> Value {
    json!({"city": "Paris", "unit": "celsius"})
}

fn chat(stream: bool) -> Traffic {
    let tool = |(name, description, schema)| json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}});
    let call = |id: &str, name: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    let request = json!({"model": "m", "stream": stream, "tools": tools().into_iter().map(tool).collect::<Vec<_>>(), "max_tokens": 512, "messages": [
        {"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED[0]},
        {"role": "assistant", "content": null, "tool_calls": [call("call_abc00000000000000000001", "search_orders", called())]},
        {"role": "tool", "tool_call_id": "call_abc00000000000000000001", "content": RESULT},
        {"role": "assistant", "content": SAID}, {"role": "user", "content": ASKED[1]}]});
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call("call_1", "get_weather", answer())]}, "finish_reason": "tool_calls"}]});
    let chunk = |delta: Value, finish: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        format!("data: {chunk}\n\n")
    };
    let mut events = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    (0..PIECES).for_each(|at| events += &chunk(json!({"content": format!("word{at} ")}), Value::Null));
    events += &(chunk(json!({}), json!("stop")) + "data: [DONE]\n\n");
    let answer = if stream { events } else { whole.to_string() };
    Traffic { request: request.to_string(), answer, content_type: kind(stream), ..chat_call() }
}

fn messages(stream: bool) -> Traffic {
    let tool = |(name, description, schema)| json!({"name": name, "description": description, "input_schema": schema});
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let request = json!({"model": "m", "stream": stream, "tools": tools().into_iter().map(tool).collect::<Vec<_>>(), "max_tokens": 512, "system": SYSTEM, "messages": [
        {"role": "user", "content": ASKED[0]},
        {"role": "assistant", "content": [call("toolu_abc0000000000000000001", "search_orders", called())]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_abc0000000000000000001", "content": RESULT}]},
        {"role": "assistant", "content": SAID}, {"role": "user", "content": ASKED[1]}]});
    let message = |content: Value, stop: Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 11, "output_tokens": 7}})
    };
    let whole = message(json!([call("toolu_1", "get_weather", answer())]), json!("tool_use"));
    let event = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let mut events = event(json!({"type": "message_start", "message": message(json!([]), Value::Null)}));
    events += &event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
    for at in 0..PIECES {
        events += &event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": format!("word{at} ")}}));
    }
    events += &event(json!({"type": "content_block_stop", "index": 0}));
    events += &event(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 7}}),
    );
    events += &event(json!({"type": "message_stop"}));
    let answer = if stream { events } else { whole.to_string() };
    Traffic { path: "/v1/messages", request: request.to_string(), answer, content_type: kind(stream) }
}

fn kind(stream: bool) -> &'static str {
    if stream { "text/event-stream" } else { "application/json" }
}

fn main() {
    // `cargo test --all-targets` starts it too, and asks for nothing of this.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let time = Duration::from_secs(setting("TOOLMARK_BENCH_SECONDS", 3));
    let rounds = setting("TOOLMARK_BENCH_ROUNDS", 5) as usize;
    let settings = "[ledger]\nurl = \"memory:\"".to_owned();
    let run = |traffic: Traffic| (settings.clone(), upstream(&traffic), traffic);
    let runs: Vec<(String, SocketAddr, Traffic)> = [chat(false), messages(false), chat(true), messages(true)].map(run).into();
    if let [chat, messages, chat_stream, messages_stream] = costs_of(&runs, rounds, time)[..] {
        println!("whole, one call: chat {chat:.1} µs CPU, Messages {messages:.1} µs, {:.2} times", messages / chat);
        println!(
            "stream of {PIECES} pieces: chat {chat_stream:.1} µs CPU, Messages {messages_stream:.1} µs, {:.2} times",
            messages_stream / chat_stream
        );
    }
}
