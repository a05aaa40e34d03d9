//! Requests that come again, as clients send them whose first attempt took too long or broke: nothing runs twice.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolmark::testing::{Misbehaviour, Proxy, Received, ScriptedReply};

use super::{
    faults::until,
    stage::{turn, wire},
    world::World,
};
use crate::{process::Process, wire::Connection};

const SQLITE: &str = "[ledger]\nurl = \"sqlite:toolmark.db\"\n";

/// Adds what the user names, then says what came of it.
pub fn adder(received: &Received) -> ScriptedReply {
    let request = received.json();
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let asked = messages.iter().rev().find(|message| message["role"] == "user").and_then(|message| message["content"].as_str());
    let said = match messages.last() {
        Some(last) if last["role"] == "tool" => turn(&format!("Result: {}", last["content"].as_str().unwrap_or_default()), &[]),
        _ => turn("", &[("todo__add_task", &json!({ "title": asked }).to_string())]),
    };
    wire(said, request["stream"] == true)
}

fn request(title: &str) -> String {
    json!({"model": "m", "messages": [{"role": "user", "content": title}]}).to_string()
}

/// As OpenAI's clients say it: `attempt` counts from 0.
fn further(attempt: usize) -> String {
    format!("x-stainless-retry-count: {attempt}\r\n")
}

/// What the model read of the call.
fn ask(mut connection: Connection, attempt: usize, title: &str) -> String {
    let reply = connection.post("/v1/chat/completions", &further(attempt), request(title).as_bytes());
    let answer = reply.json();
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Asks, and goes away once the tool runs, or what came of it before is told.
fn leave(world: &World, mut connection: Connection, attempt: usize, title: &str) {
    let (ran, asked) = (world.todo.ran().len(), world.upstream.received().len());
    let body = request(title);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer test\r\ncontent-type: application/json\r\n{}content-length: {}\r\n\r\n{body}",
        further(attempt),
        body.len()
    );
    assert!(connection.send(head.as_bytes()));
    until(|| world.todo.ran().len() > ran || world.upstream.received().len() > asked + 1);
}

fn to(proxy: &Proxy) -> Connection {
    Connection::open(proxy.address())
}

#[test]
fn a_request_that_comes_again_is_given_what_came_of_the_first() {
    let world = World::with(adder);
    let proxy = world.proxy_with(SQLITE);
    let first = ask(to(&proxy), 0, "milk");
    assert!(first.contains("\"milk\""), "{first}");
    assert_eq!(ask(to(&proxy), 1, "milk"), first, "in the same process");
    drop(proxy);
    let proxy = world.proxy_with(SQLITE);
    assert_eq!(ask(to(&proxy), 2, "milk"), first, "after a restart");
    assert_eq!(world.todo.ran().len(), 1);
    // It is the same execution, and the record says so.
    let ids: Vec<String> = world.asked().iter().filter_map(|request| execution(&request["messages"])).collect();
    assert!(ids.len() == 3 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    // Another request is another matter, however much it is like the first.
    ask(to(&proxy), 0, "milk");
    ask(to(&proxy), 1, "tea");
    assert_eq!(world.todo.titles(), ["milk", "milk", "tea"]);
}

fn execution(messages: &Value) -> Option<String> {
    let last = messages.as_array()?.last().filter(|message| message["role"] == "tool")?;
    let stamped: Value = serde_json::from_str(last["content"].as_str()?).ok()?;
    stamped["execution_id"].as_str().map(str::to_owned)
}

#[test]
fn a_crash_of_toolmark_in_mid_call_is_said_and_nothing_runs_again() {
    let world = World::with(adder);
    world.todo.becomes_for(Misbehaviour::Hangs, 1);
    let key = "00".repeat(32);
    let start = || {
        let settings = world.settings(SQLITE);
        let settings = settings.split_once("[[mcp]]").map(|(_, rest)| format!("[admin]\nlisten = \"off\"\n[[mcp]]{rest}")).unwrap();
        Process::start_in(world.directory(), &world.upstream, &settings, Some(&key))
    };
    let process = start();
    leave(&world, process.connect(), 0, "milk");
    // As `kill -9`.
    drop(process);
    let process = start();
    let result = ask(process.connect(), 1, "milk");
    assert!(result.contains("UNKNOWN") && result.contains("earlier attempt"), "{result}");
    assert_eq!(world.todo.ran().len(), 1);
    // What only reads, or may run again, is another matter; so is another call.
    assert!(ask(process.connect(), 0, "tea").contains("\"tea\""));
    assert_eq!(world.todo.titles(), ["milk", "tea"]);
}

#[test]
fn replicas_know_of_each_others_calls() {
    let (world, database) = (World::with(adder), crate::postgres::Database::new());
    let settings = format!("timeout = \"2s\"\n[ledger]\nurl = \"{}\"\n", database.url());
    let replicas = [world.proxy_with(&settings), world.proxy_with(&settings)];
    let first = ask(to(&replicas[0]), 0, "milk");
    // Its end is noted behind the exchange; the round behind the answer is kept beside it.
    until(|| database.client().query("SELECT 1 FROM toolmark_kept WHERE bytes > 150", &[]).unwrap().len() == 2);
    assert_eq!(ask(to(&replicas[1]), 1, "milk"), first);
    // While it runs elsewhere, what comes of it isn't known here.
    world.todo.becomes_for(Misbehaviour::Hangs, 1);
    leave(&world, to(&replicas[0]), 0, "tea");
    assert!(ask(to(&replicas[1]), 1, "tea").contains("UNKNOWN"));
    assert_eq!(world.todo.ran().len(), 2);
}

/// What happens to one attempt.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The client waits for the answer.
    Waits,
    /// It goes away once the call is made.
    Leaves,
    /// toolmark is restarted before.
    Restart,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    /// Whatever the server does, however often the client asks again, and whenever toolmark is restarted: the call runs once at most,
    /// and once it ran nobody is told that it didn't.
    #[test]
    fn whatever_happens_a_call_runs_once(
        mood in prop::sample::select(vec![Misbehaviour::Fine, Misbehaviour::DiesInMidCall, Misbehaviour::Refuses, Misbehaviour::Hangs]),
        fates in prop::collection::vec(prop::sample::select(vec![Fate::Waits, Fate::Leaves, Fate::Restart]), 2..5),
    ) {
        let world = World::with(adder);
        let settings = format!("timeout = \"300ms\"\nretries = 2\n{SQLITE}");
        let mut proxy: Option<Proxy> = Some(world.proxy_with(&settings));
        world.todo.becomes_for(mood, 1);
        for (attempt, fate) in fates.iter().enumerate() {
            if matches!(fate, Fate::Restart) {
                proxy = None;
            }
            let proxy = proxy.get_or_insert_with(|| world.proxy_with(&settings));
            match fate {
                Fate::Leaves => leave(&world, to(proxy), attempt, "milk"),
                Fate::Waits | Fate::Restart => {
                    let result = ask(to(proxy), attempt, "milk");
                    let told = result.contains("\"milk\"") || result.contains("UNKNOWN") || result.contains("locked") || result.contains("reached");
                    prop_assert!(told, "{:?} {:?}: {}", mood, fates, result);
                }
            }
            prop_assert!(world.todo.ran().len() <= 1, "{:?} {:?}: {:?}", mood, fates, world.todo.ran());
        }
    }
}
