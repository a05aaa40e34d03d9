//! Recorded traffic of real providers, served again through toolmark: what has no violation comes back the same.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use toolmark::testing::ScriptedReply as Scripted;

use crate::{
    harness::Fixture,
    wire::{self, Call, Connection, Folded, Reply},
};

/// Every stream is also served cut at random places, by each of these seeds.
pub const SEEDS: [u64; 3] = [1, 20_261_121, 0xdead_beef];

/// Exchanges whose verdict isn't `pass`, by their `sha`, and why that is right.
const EXPLAINED: &[(&str, &str, &str)] = &[
    (
        "a1f27ae3a5439280",
        "schema_violation",
        "Groq's `tool_use_failed`: a rejected call, which is repaired; the recording fails again and again",
    ),
    ("4076cb6d752bd7f1", "schema_violation", "the same, as an error in mid-stream"),
    ("072c506497a218b8", "tool_choice_ignored", "Groq's `tool_use_failed` in mid-stream: a call was required and none came"),
    ("e89617c3c3651644", "tool_choice_ignored", "Groq's `tool_use_failed`: a call was required and none came"),
    ("4076cb6d752bd7f1", "schema_violation", "the first of these in mid-stream"),
    ("072c506497a218b8", "tool_choice_ignored", "the second of these in mid-stream"),
];

/// One recorded exchange.
pub struct Exchange {
    pub sha: String,
    pub file: String,
    pub status: u16,
    pub content_type: String,
    pub request: String,
    pub response: String,
}

/// The recorded exchanges of this API.
pub fn exchanges(api: &str) -> Option<Vec<Exchange>> {
    exchanges_of("exchanges.jsonl", api)
}

/// The recorded exchanges of this file and API.
pub fn exchanges_of(file: &str, api: &str) -> Option<Vec<Exchange>> {
    let all = wire::recorded(file)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |value: &Value| Exchange {
        sha: text(&value["sha"]),
        file: text(&value["file"]),
        status: value["status"].as_u64().unwrap_or(0) as u16,
        content_type: text(&value["response_headers"]["content-type"]),
        request: value["request_body"].to_string(),
        response: text(&value["response_body"]),
    };
    Some(all.iter().filter(|value| value["api"] == api).map(read).collect())
}

/// Cuts bytes at random places, some in the middle of a character or of a line's end.
pub fn pieces(bytes: &Bytes, seed: u64) -> Vec<Bytes> {
    let (mut state, mut rest, mut cut) = (seed | 1, bytes.clone(), Vec::new());
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let most = [1, 3, 17, 120, 2000][(state >> 40) as usize % 5];
        cut.push(rest.split_to((1 + state as usize % most).min(rest.len())));
    }
    cut
}

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
fn recorded_exchanges_come_back_the_same() {
    let Some(exchanges) = exchanges("chat").map(Arc::new) else { return };
    let fixture = fixture(&exchanges);
    let address = fixture.proxy.address();
    let numbers: Vec<usize> = (0..exchanges.len()).collect();
    let outcomes = wire::on_threads(&numbers, |connection, number| {
        let exchange = &exchanges[*number];
        let connection = connection.get_or_insert_with(|| Connection::open(address));
        let ask = |connection: &mut Connection, seed: u64| {
            let headers = format!("x-exchange: {number}\r\nx-seed: {seed}\r\n");
            connection.post("/v1/chat/completions", &headers, exchange.request.as_bytes())
        };
        let reply = ask(connection, 0);
        let mut wrong = Vec::new();
        if exchange.content_type.starts_with("text/event-stream") {
            for seed in SEEDS {
                let cut = ask(connection, seed);
                if unmarked(&cut) != unmarked(&reply) || cut.verdict() != reply.verdict() {
                    wrong.push(format!("cut by seed {seed} it differs: {:?} and {:?}", cut.verdict(), reply.verdict()));
                }
            }
        }
        let verdict = reply.verdict();
        wrong.extend(compare(exchange, &reply).err());
        (verdict, wrong)
    });
    report(&exchanges, &outcomes);
}

/// The folded stream without ids, which are minted anew each time.
fn unmarked(reply: &Reply) -> Folded {
    let mut folded = wire::fold(&wire::events(&reply.text()));
    folded.choices.values_mut().flat_map(|choice| &mut choice.calls).for_each(|call| call.id.clear());
    folded
}

/// Verdict and codes, and what came back differently.
type Outcome = ((String, Vec<String>), Vec<String>);

fn report(exchanges: &[Exchange], outcomes: &[Outcome]) {
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (exchange, ((verdict, codes), differences)) in exchanges.iter().zip(outcomes) {
        *verdicts.entry(format!("{verdict} {codes:?}")).or_default() += 1;
        let explained = EXPLAINED.iter().find(|(sha, ..)| *sha == exchange.sha);
        let found = codes.join(",");
        match explained {
            Some((_, expected, why)) if *expected != found => {
                wrong.push(format!("{} {}: expected {expected} ({why}), found {found}", exchange.sha, exchange.file))
            }
            None if matches!(verdict.as_str(), "warn" | "blocked" | "repaired") => {
                wrong.push(format!("{} {}: {verdict} {found} is not explained", exchange.sha, exchange.file))
            }
            _ => {}
        }
        if !(verdict == "blocked" || verdict == "repaired") {
            wrong.extend(differences.iter().map(|difference| format!("{} {}: {difference}", exchange.sha, exchange.file)));
        }
    }
    eprintln!("{} exchanges: {verdicts:#?}", exchanges.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), exchanges.len(), wrong.join("\n"));
}

fn compare(exchange: &Exchange, reply: &Reply) -> Result<(), String> {
    if !reply.whole || reply.status != exchange.status {
        return Err(format!("status {} instead of {}, whole: {}: {}", reply.status, exchange.status, reply.whole, reply.text()));
    }
    if exchange.status >= 400 {
        return if reply.text() == exchange.response { Ok(()) } else { Err(format!("another error body: {}", reply.text())) };
    }
    if reply.is_stream() {
        return compare_streams(&wire::events(&exchange.response), &wire::events(&reply.text()));
    }
    let mut expected: Value = serde_json::from_str(&exchange.response).map_err(|error| error.to_string())?;
    let mut found = reply.json();
    found.as_object_mut().map(|object| object.remove("toolmark"));
    for choice in expected["choices"].as_array_mut().into_iter().flatten() {
        normalise(choice);
    }
    for choice in found["choices"].as_array_mut().into_iter().flatten() {
        for call in choice["message"]["tool_calls"].as_array_mut().into_iter().flatten() {
            let id = call["id"].take();
            if !id.as_str().is_some_and(wire::is_mark) {
                return Err(format!("{id} is no mark"));
            }
        }
    }
    if expected == found { Ok(()) } else { Err(format!("expected {expected}\nfound    {found}")) }
}

/// What docs/wire-facts.md#odd-answers-to-accept says is put right in a whole answer's choice; ids become null.
fn normalise(choice: &mut Value) {
    let mut calls = 0;
    for call in choice["message"]["tool_calls"].as_array_mut().into_iter().flatten() {
        calls += 1;
        call["id"] = Value::Null;
        if call["type"].is_null() {
            call["type"] = json!("function");
        }
        let arguments = &mut call["function"]["arguments"];
        *arguments = match arguments.take() {
            Value::String(text) if !text.trim().is_empty() => json!(text),
            Value::String(_) | Value::Null => json!("{}"),
            other => json!(other.to_string()),
        };
    }
    let finish = choice["finish_reason"].as_str().unwrap_or_default().to_owned();
    choice["finish_reason"] = json!(fitting(&finish, calls));
}

fn fitting(finish: &str, calls: usize) -> &str {
    match finish {
        "length" | "content_filter" => finish,
        _ if calls > 0 => "tool_calls",
        "" => "stop",
        _ => finish,
    }
}

fn compare_streams(sent: &[Value], got: &[Value]) -> Result<(), String> {
    if let Some(error) = sent.iter().find(|event| !event["error"].is_null()) {
        let last = got.last().map(|event| event["error"]["message"].clone()).unwrap_or_default();
        let same = error["error"]["message"] == last && last.is_string();
        return if same { Ok(()) } else { Err(format!("the error {error} became {last}")) };
    }
    emission_rules(got)?;
    let (mut expected, mut found) = (wire::fold(sent), wire::fold(got));
    for choice in expected.choices.values_mut() {
        let finish = choice.finish.take().unwrap_or_default();
        choice.finish = Some(fitting(&finish, choice.calls.len()).to_owned());
        for call in &mut choice.calls {
            let arguments = call.arguments.take().filter(|text| !text.trim().is_empty()).unwrap_or_else(|| "{}".to_owned());
            let kind = call.kind.take().or_else(|| Some("function".into()));
            *call = Call { id: String::new(), kind, arguments: Some(arguments), ..std::mem::take(call) };
        }
    }
    for call in found.choices.values_mut().flat_map(|choice| &mut choice.calls) {
        let id = std::mem::take(&mut call.id);
        if !wire::is_mark(&id) {
            return Err(format!("{id} is no mark"));
        }
    }
    if expected == found { Ok(()) } else { Err(format!("expected {expected:?}\nfound    {found:?}")) }
}

/// docs/wire-facts.md#emission-rules: role once per choice, calls numbered from 0 and each in one piece, choices starting in order.
fn emission_rules(events: &[Value]) -> Result<(), String> {
    let (mut roles, mut calls): (BTreeMap<u64, usize>, BTreeMap<u64, u64>) = (BTreeMap::new(), BTreeMap::new());
    for choice in events.iter().flat_map(|event| event["choices"].as_array().into_iter().flatten()) {
        let index = choice["index"].as_u64().unwrap_or(0);
        if !roles.contains_key(&index) && index > 0 && !roles.contains_key(&(index - 1)) {
            return Err(format!("choice {index} starts before choice {}", index - 1));
        }
        *roles.entry(index).or_default() += usize::from(choice["delta"]["role"].is_string());
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let next = calls.entry(index).or_default();
            let legal = call["index"] == json!(*next)
                && call["id"].is_string()
                && call["function"]["name"].is_string()
                && call["function"]["arguments"].is_string();
            if !legal {
                return Err(format!("a call that breaks the rules: {call}"));
            }
            *next += 1;
        }
    }
    if let Some((index, count)) = roles.iter().find(|(_, count)| **count != 1) {
        return Err(format!("role said {count} times in choice {index}"));
    }
    Ok(())
}
