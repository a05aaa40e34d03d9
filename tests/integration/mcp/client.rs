//! The official OpenAI client in front of tools that toolmark runs.

use serde_json::{Value, json};
use toolmark::testing::Misbehaviour;

use super::{again::adder, world::World};
use crate::clients::{model::Turn, responses_model::strict, runtimes};

/// Runs a script of `tests/clients` against a proxy; what it printed.
fn printed(script: &str, url: &str) -> Value {
    let script = runtimes::repository(&format!("tests/clients/{script}"));
    let printed = runtimes::run_python(&script, &[("DEFAULT_URL", url), ("OPENAI_API_KEY", "sk-test")]);
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// Adds what the user named last, then cites what came of it.
fn add_and_cite(_: &Value, messages: &[Value]) -> Turn {
    let Some(last) = messages.last().filter(|message| message["role"] == "tool") else {
        let tea = messages.last().is_some_and(|message| message["content"] == "Now tea");
        return Turn::Call("", vec![("todo__add_task", if tea { r#"{"title":"tea"}"# } else { r#"{"title":"milk"}"# })]);
    };
    let result: Value = serde_json::from_str(last["content"].as_str().unwrap()).unwrap();
    Turn::Say(format!("{} is on the list (execution_id: {}).", result["title"].as_str().unwrap(), result["execution_id"].as_str().unwrap()))
}

#[test]
fn the_to_do_scenario_on_the_responses_api() {
    if runtimes::skipped("mcp::client::the_to_do_scenario_on_the_responses_api") {
        return;
    }
    let world = World::with(strict(add_and_cite));
    let proxy = world.proxy("memory:");
    let expected = json!({"whole": {"text": "milk is on the list.", "items": ["message"], "verdict": "pass"},
        "streamed": {"text": "tea is on the list.", "same": true, "items": ["message"]}});
    assert_eq!(printed("mcp_responses.py", &proxy.base_url()), expected);
    assert_eq!(world.todo.titles(), ["milk", "tea"]);
}

#[test]
fn a_client_that_sends_its_request_again_runs_nothing_again() {
    if runtimes::skipped("mcp::client::a_client_that_sends_its_request_again_runs_nothing_again") {
        return;
    }
    let world = World::with(adder);
    world.todo.becomes_for(Misbehaviour::Hangs, 1);
    let proxy = world.proxy_with("timeout = \"2s\"\n[ledger]\nurl = \"sqlite:toolmark.db\"\n");
    let text = printed("mcp_again.py", &proxy.base_url())["text"].as_str().unwrap().to_owned();
    assert!(text.contains("UNKNOWN"), "{text}");
    assert_eq!(world.todo.ran(), ["add_task"]);
    let counts: Vec<String> = world
        .upstream
        .received()
        .iter()
        .filter_map(|own| own.headers.get("x-stainless-retry-count")?.to_str().ok().map(str::to_owned))
        .collect();
    assert!(counts.iter().any(|count| count != "0"), "the client did send it again: {counts:?}");
}
