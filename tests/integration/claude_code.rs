//! Claude Code, the binary inside claude-agent-sdk, runs its own tools over twenty turns: nothing of its conversation is held against it,
//! and what was sent before stays as it was, so that cached prefixes stay warm and thinking stays bound.
//!
//! `tests/clients/claude_agent.py` drives it; the model behind it is as strict as Anthropic's API (`clients/messages_model.rs`).

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply, ScriptedUpstream};

use crate::{
    clients::{
        messages_model::{merged, strict, without_cache_control},
        model::Turn,
        runtimes::{self, repository},
    },
    harness::Fixture,
};

/// Turns with calls.
const TURNS: usize = 20;
const DONE: &str = "All files are written and read.";

/// What the model calls in this turn.
fn calls(turn: usize) -> Vec<(&'static str, &'static str)> {
    let bash = |command: String| ("Bash", &*json!({"command": command, "description": format!("Step {turn}")}).to_string().leak());
    match turn % 4 {
        0 => vec![bash(format!("echo one two > notes{turn}.txt"))],
        1 => vec![bash(format!("cat notes{}.txt", turn - 1)), bash(format!("ls notes{}.txt", turn - 1))],
        2 => vec![bash(format!("cat missing{turn}.txt"))],
        _ => vec![bash(format!("echo done >> notes{}.txt", turn - 3))],
    }
}

/// The script: calls, then words. Whatever else Claude Code asks for (titles, summaries) gets a word.
fn model(received: &Received) -> ScriptedReply {
    strict(received, |request, messages| {
        if !request["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "Bash")) {
            return Turn::Say("ok".into());
        }
        let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
        if turn < TURNS { Turn::Call("Next.", calls(turn)) } else { Turn::Say(DONE.into()) }
    })
}

fn play(url: &str) -> Value {
    let script = repository("tests/clients/claude_agent.py");
    let environment = [
        ("ANTHROPIC_BASE_URL", url.strip_suffix("/v1").unwrap()),
        ("ANTHROPIC_API_KEY", "sk-test"),
        ("MODEL", "claude-opus-4-8"),
        ("SCENES", r#"{"twenty":"Write and read files until I have seen enough."}"#),
    ];
    let printed = runtimes::run_python_of("claude_agent", "tests/clients/claude_agent.txt", &script, &environment);
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// What Claude Code saw: every call once, each with a result, and the last word.
fn check_run(results: &Value, received: &[Received]) {
    assert_eq!(results["version"], "0.2.187");
    let run = &results["twenty"];
    if run["result"]["text"] != DONE {
        for received in received {
            let request = received.json();
            let last = request["messages"].as_array().and_then(|messages| messages.last()).map(Value::to_string).unwrap_or_default();
            let count = request["messages"].as_array().map_or(0, Vec::len);
            println!("{} {count}: {}", received.line, last.chars().take(600).collect::<String>());
        }
    }
    assert_eq!((&run["result"]["text"], &run["result"]["is_error"]), (&json!(DONE), &json!(false)), "{run}");
    let expected: Vec<&str> = (0..TURNS).flat_map(calls).map(|(name, _)| name).collect();
    let calls = run["calls"].as_array().unwrap();
    assert_eq!(calls.iter().map(|call| call["name"].as_str().unwrap()).collect::<Vec<_>>(), expected, "{run}");
    let failed = run["results"].as_array().unwrap().iter().filter(|result| result["is_error"] == true).count();
    assert_eq!((run["results"].as_array().unwrap().len(), failed), (expected.len(), TURNS / 4), "{run}");
}

/// The requests of the conversation: each begins as the one before.
fn check_prefixes(received: &[Received]) {
    let turns: Vec<Value> = received.iter().filter(|received| received.line.starts_with("POST /v1/messages")).map(Received::json).collect();
    let turns: Vec<&Value> = turns.iter().filter(|request| request["tools"].as_array().is_some_and(|tools| tools.len() > 3)).collect();
    assert!(turns.len() > TURNS, "{}", turns.len());
    for pair in turns.windows(2) {
        for member in ["system", "tools"] {
            assert_eq!(without_cache_control(&pair[0][member]), without_cache_control(&pair[1][member]), "{member} changed");
        }
        let (before, after) = (merged(pair[0]), merged(pair[1]));
        assert!(after.len() > before.len(), "a turn was asked twice: {} {}", before.len(), after.len());
        for (at, message) in before.iter().enumerate() {
            assert_eq!(message, &after[at], "message {at} of {} changed", before.len());
        }
    }
}

#[test]
fn directly() {
    if runtimes::skipped("claude_code::directly") {
        return;
    }
    let upstream = ScriptedUpstream::start(model).unwrap();
    let results = play(&upstream.base_url());
    check_run(&results, &upstream.received());
    check_prefixes(&upstream.received());
}

/// A changed history would be refused.
const POLICY: &str = "[checks]\nunverified_call = \"block\"\naltered_call = \"block\"\nrewritten_result = \"block\"\n";

#[test]
fn through_toolmark() {
    if runtimes::skipped("claude_code::through_toolmark") {
        return;
    }
    let fixture = Fixture::with_policy(POLICY, "", model);
    let results = play(&fixture.proxy.base_url());
    check_run(&results, &fixture.upstream.received());
    check_prefixes(&fixture.upstream.received());
    let requests = fixture.upstream.received();
    let stamped = requests.last().unwrap().json().to_string().matches("execution_id: Bash_").count();
    assert!(stamped >= TURNS, "{stamped}");
}

/// The same model behind chat completions.
fn chat_model(received: &Received) -> ScriptedReply {
    let request = received.json();
    let turn = request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant").count();
    let own = request["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["function"]["name"] == "Bash"));
    let (text, calls) = match (own, turn < TURNS) {
        (false, _) => ("ok", Vec::new()),
        (true, true) => ("Next.", calls(turn)),
        (true, false) => (DONE, Vec::new()),
    };
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let mut chunks =
        vec![chunk(json!({"role": "assistant", "reasoning_content": "Hm."}), Value::Null), chunk(json!({"content": text}), Value::Null)];
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": arguments});
        let call = json!({"index": index, "id": format!("call_{turn}_{index}"), "type": "function", "function": function});
        chunks.push(chunk(json!({ "tool_calls": [call] }), Value::Null));
    }
    chunks.push(chunk(json!({}), json!(if calls.is_empty() { "stop" } else { "tool_calls" })));
    if request["stream"] == true {
        return ScriptedReply::chunks(chunks);
    }
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    ScriptedReply::json(
        200,
        json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
    )
}

/// In front of an upstream that only has chat completions, such as Cerebras: what was said before stays as it was there, too.
#[test]
fn in_front_of_a_chat_upstream() {
    if runtimes::skipped("claude_code::in_front_of_a_chat_upstream") {
        return;
    }
    let fixture = Fixture::with_policy(POLICY, "preset = \"cerebras\"\n", chat_model);
    let results = play(&fixture.proxy.base_url());
    check_run(&results, &fixture.upstream.received());
    let requests: Vec<Value> = fixture.upstream.received().iter().map(Received::json).collect();
    let turns: Vec<&Value> = requests.iter().filter(|request| request["tools"].as_array().is_some_and(|tools| tools.len() > 3)).collect();
    assert!(turns.len() > TURNS, "{}", turns.len());
    for pair in turns.windows(2) {
        let messages = |request: &Value| request["messages"].as_array().unwrap().clone();
        let (before, after) = (messages(pair[0]), messages(pair[1]));
        assert_eq!(pair[0]["tools"], pair[1]["tools"]);
        for (at, message) in before.iter().enumerate() {
            assert_eq!(message, &after[at], "message {at} of {} changed", before.len());
        }
    }
}
