//! Recorded traffic of Anthropic's Messages API, served again through toolmark: what has no violation comes back the
//! same.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use toolmark::{marks::CallMark, testing::ScriptedReply as Scripted};

use crate::{
    harness::Fixture,
    messages_folded::{events, fold},
    traffic::{Exchange, SEEDS, exchanges_of, pieces},
    wire::{self, Connection, Reply},
};

/// Exchanges whose verdict isn't `pass`, by their `sha`, and why that is right.
const EXPLAINED: &[(&str, &str, &str)] = &[(
    "079cf0f686c6c0d3",
    "missing_required,unknown_parameter,unverified_call",
    "the call gives `ticker` to a tool that requires `symbol`: it is repaired, and the recording says it again",
)];

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
fn recorded_messages_come_back_the_same() {
    let Some(exchanges) = exchanges_of("messages.jsonl", "messages").map(Arc::new) else { return };
    let fixture = fixture(&exchanges);
    let address = fixture.proxy.address();
    let numbers: Vec<usize> = (0..exchanges.len()).collect();
    let outcomes = wire::on_threads(&numbers, |connection, number| {
        let exchange = &exchanges[*number];
        let connection = connection.get_or_insert_with(|| Connection::open(address));
        let ask = |connection: &mut Connection, seed: u64| {
            let headers = format!("x-exchange: {number}\r\nx-seed: {seed}\r\n");
            connection.post("/v1/messages", &headers, exchange.request.as_bytes())
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
        let explained = EXPLAINED.iter().any(|(name, expected, _)| *name == exchange.sha && codes == expected);
        if !explained && matches!(&**verdict, "warn" | "blocked" | "repaired" | "") && exchange.status < 400 {
            wrong.push(format!("{}: {verdict} {codes} is not explained", exchange.sha));
        }
        if !explained {
            wrong.extend(differences.iter().map(|difference| format!("{}: {difference}", exchange.sha)));
        }
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
    events(&exchange.response)?;
    let sent = fold(&exchange.response.replace(": keep-alive\n\n", ""))?;
    same(&sent, &fold(&reply.text())?)
}

/// Equal but for the ids of calls, which are marks, and for empty text blocks, which are left out.
fn same(expected: &Value, found: &Value) -> Result<(), String> {
    let (mut expected, mut found) = (expected.clone(), found.clone());
    found.as_object_mut().map(|object| object.remove("toolmark"));
    if let Some(content) = expected["content"].as_array_mut() {
        content.retain(|block| block["type"] != "text" || block["text"] != "");
    }
    let is_call = |block: &&mut Value| block["type"] == "tool_use";
    for block in found["content"].as_array_mut().into_iter().flatten().filter(is_call) {
        if CallMark::parse(block["id"].as_str().unwrap_or_default()).is_none() {
            return Err(format!("{block} has no mark"));
        }
        block["id"] = json!("");
    }
    for block in expected["content"].as_array_mut().into_iter().flatten().filter(is_call) {
        block["id"] = json!("");
    }
    if expected == found { Ok(()) } else { Err(format!("expected {expected}\nfound    {found}")) }
}
