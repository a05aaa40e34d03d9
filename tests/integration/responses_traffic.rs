//! Recorded traffic of the Responses API, served again through toolmark: what has no violation comes back the same.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use toolmark::testing::ScriptedReply as Scripted;

use crate::{
    harness::Fixture,
    responses_folded::{consistent, events},
    traffic::{Exchange, SEEDS, exchanges, pieces},
    wire::{self, Connection, Reply},
};

/// Exchanges whose verdict isn't `pass`, by their `sha`, and why that is right.
const EXPLAINED: &[(&str, &str, &str)] = &[];

fn fixture(exchanges: &Arc<Vec<Exchange>>) -> Fixture {
    let exchanges = exchanges.clone();
    Fixture::new("default", move |received| {
        let number = |name: &str| {
            received.headers.get(name).and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        let exchange = &exchanges[number("x-exchange") as usize];
        let reply = if exchange.content_type.starts_with("text/event-stream") {
            let body = Bytes::from(exchange.response.clone());
            let seed = number("x-seed");
            Scripted::events(if seed == 0 { vec![body] } else { pieces(&body, seed) })
        } else {
            Scripted::json(exchange.status, exchange.response.clone())
        };
        reply.header("content-type", exchange.content_type.clone())
    })
}

#[test]
fn recorded_responses_come_back_the_same() {
    let Some(exchanges) = exchanges("responses").map(Arc::new) else { return };
    let fixture = fixture(&exchanges);
    let address = fixture.proxy.address();
    let numbers: Vec<usize> = (0..exchanges.len()).collect();
    let outcomes = wire::on_threads(&numbers, |connection, number| {
        let exchange = &exchanges[*number];
        let connection = connection.get_or_insert_with(|| Connection::open(address));
        let ask = |connection: &mut Connection, seed: u64| {
            let headers = format!("x-exchange: {number}\r\nx-seed: {seed}\r\n");
            connection.post("/v1/responses", &headers, exchange.request.as_bytes())
        };
        let reply = ask(connection, 0);
        let mut wrong: Vec<String> = compare(exchange, &reply).err().into_iter().collect();
        if exchange.content_type.starts_with("text/event-stream") {
            for seed in SEEDS {
                wrong.extend(compare(exchange, &ask(connection, seed)).err().map(|why| format!("cut by seed {seed}: {why}")));
            }
        }
        (verdict(&reply), wrong)
    });
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (exchange, ((verdict, codes), differences)) in exchanges.iter().zip(&outcomes) {
        *verdicts.entry(format!("{verdict} {codes}")).or_default() += 1;
        let explained = EXPLAINED.iter().any(|(sha, expected, _)| *sha == exchange.sha && codes == expected);
        if !explained && matches!(&**verdict, "warn" | "blocked" | "repaired" | "") && exchange.status < 400 {
            wrong.push(format!("{} {}: {verdict} {codes} is not explained", exchange.sha, exchange.file));
        }
        wrong.extend(differences.iter().map(|difference| format!("{} {}: {difference}", exchange.sha, exchange.file)));
    }
    eprintln!("{} exchanges: {verdicts:#?}", exchanges.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), exchanges.len(), wrong.join("\n"));
}

/// Verdict and codes: of the header, or of a stream's comment.
fn verdict(reply: &Reply) -> (String, String) {
    if !reply.is_stream() {
        return (reply.header("toolmark-verdict").to_owned(), reply.header("toolmark-violations").to_owned());
    }
    let text = reply.text();
    let comment: Value =
        text.lines().find_map(|line| line.strip_prefix(": toolmark ")).and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let codes: Vec<&str> = comment["violations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    (comment["verdict"].as_str().unwrap_or_default().to_owned(), codes.join(","))
}

fn compare(exchange: &Exchange, reply: &Reply) -> Result<(), String> {
    if !reply.whole || reply.status != exchange.status {
        return Err(format!("status {} instead of {}, whole: {}: {}", reply.status, exchange.status, reply.whole, reply.text()));
    }
    if exchange.status >= 400 {
        return if reply.text() == exchange.response { Ok(()) } else { Err(format!("another error body: {}", reply.text())) };
    }
    if !reply.is_stream() {
        let expected: Value = serde_json::from_str(&exchange.response).map_err(|error| error.to_string())?;
        return same(&expected, &reply.json());
    }
    let (sent, got) = (events(&exchange.response), events(&reply.text()));
    consistent(&got)?;
    let last = |events: &[Value]| events.last().map(|event| (event["type"].clone(), event["response"].clone())).unwrap_or_default();
    let (sent_last, got_last) = (last(&sent), last(&got));
    if sent_last.0 != got_last.0 {
        return Err(format!("{} instead of {}", got_last.0, sent_last.0));
    }
    same(&sent_last.1, &got_last.1)?;
    // But for calls, whose fragments come in one, event by event.
    let rest = |events: &[Value]| -> Vec<Value> {
        let call = |event: &&Value| {
            let kind = event["type"].as_str().unwrap_or_default();
            let item = event["item"]["type"].as_str().unwrap_or_default();
            matches!(kind, "response.completed" | "response.incomplete")
                || kind.contains("function_call_arguments")
                || item == "function_call"
        };
        let unnumbered = |event: &Value| {
            let mut event = event.clone();
            event.as_object_mut().map(|event| event.remove("sequence_number"));
            event
        };
        events.iter().filter(|event| !call(event)).map(unnumbered).collect()
    };
    if joined(&rest(&sent)) == joined(&rest(&got)) { Ok(()) } else { Err(format!("expected {:?}\nfound    {:?}", rest(&sent), rest(&got))) }
}

/// Text deltas of one part that follow each other are one: a word may wait for its end.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for event in events {
        match out.last_mut() {
            Some(last)
                if event["type"] == "response.output_text.delta"
                    && last["type"] == event["type"]
                    && last["item_id"] == event["item_id"] =>
            {
                last["delta"] =
                    json!(format!("{}{}", last["delta"].as_str().unwrap_or_default(), event["delta"].as_str().unwrap_or_default()));
            }
            _ => {
                let mut event = event.clone();
                event.as_object_mut().map(|event| (event.remove("logprobs"), event.remove("obfuscation")));
                out.push(event);
            }
        }
    }
    out
}

/// Equal but for the ids of calls, which are the upstream's with a mark behind them.
fn same(expected: &Value, found: &Value) -> Result<(), String> {
    let mut found = found.clone();
    found.as_object_mut().map(|object| object.remove("toolmark"));
    let items = found["output"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter(|item| item["type"] == "function_call" || item["type"] == "custom_tool_call");
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default().to_owned();
        let cut = id.len().saturating_sub(23);
        let suffix = id.get(cut..).unwrap_or_default();
        if !suffix.starts_with('_') || suffix.len() != 23 || id.len() > 64 {
            return Err(format!("{id} is no mark"));
        }
        item["call_id"] = json!(id[..cut]);
    }
    if *expected == found { Ok(()) } else { Err(format!("expected {expected}\nfound    {found}")) }
}
