//! Tools that toolmark runs, recorded and played: the same answers, and nothing is run again.

use serde_json::{Value, json};
use toolmark::{
    cassette::format::RecordedExchange,
    testing::{Proxy, Received, ScriptedReply, TodoServer},
};

use super::stage::Recording;
use crate::{
    clients::{model::Turn, responses_model::strict},
    harness::post,
    mcp::stage::{TODO, read, turn, user, wire},
    program::finish,
};

/// Calls what the user's last word asks for, and cites what came of it.
fn model(received: &Received) -> ScriptedReply {
    let request = received.json();
    let messages = request["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let first_result = messages.iter().find(|message| message["role"] == "tool").unwrap_or(last);
    let cite = |message: &Value| {
        let content = message["content"].as_str().unwrap_or_default();
        let mut words = content.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        format!("Done with it (execution_id: {}).", words.find(|word| word.starts_with("todo__") && word.len() > 40).unwrap_or("none"))
    };
    let said = match (last["role"].as_str().unwrap(), last["content"].as_str().unwrap_or_default()) {
        ("tool", _) => turn(&cite(first_result), &[]),
        (_, "Add milk") => turn("One moment.", &[("todo__add_task", r#"{"title":"milk"}"#)]),
        (_, "Add two") => turn("", &[("todo__add_task", r#"{"title":"a"}"#), ("get_weather", "{}"), ("todo__list_tasks", "{}")]),
        (_, "What did you do?") => turn(&cite(first_result), &[]),
        (_, other) => turn(&format!("You said {other}"), &[]),
    };
    wire(said, request["stream"] == true)
}

/// A conversation, whole and streamed: what came of each request.
fn converse(proxy: &Proxy) -> Vec<[String; 3]> {
    let mut heard = Vec::new();
    for stream in [false, true] {
        let mut messages = Vec::new();
        for ask in ["Add milk", "What did you do?", "Add two"] {
            messages.push(user(ask));
            loop {
                let tool =
                    json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}});
                let body = json!({"model": "m", "messages": messages, "stream": stream, "tools": [tool]}).to_string();
                let answer = post(&format!("{}/chat/completions", proxy.base_url()), &body, "Bearer test");
                let seen = read(&answer, stream);
                assert_eq!(seen.status, 200, "{}", answer.body);
                messages.push(seen.message());
                heard.push([answer.body.replace(": keep-alive\n\n", ""), seen.verdict.clone(), seen.codes.clone()]);
                let Some((_, _, id)) = seen.calls.first() else { break };
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": "{\"degrees\":18}"}));
            }
        }
    }
    heard
}

#[test]
fn what_toolmark_ran_is_played_and_not_run_again() {
    let todo = TodoServer::start().unwrap();
    let recording = Recording::start("default", &TODO.replace("URL", &todo.url()), "", model);
    let lived = converse(&recording.proxy);
    assert_eq!(lived.len(), 8);
    assert!(lived.iter().all(|[body, verdict, _]| verdict == "pass" && !body.contains("execution_id")), "{lived:#?}");
    assert_eq!(todo.ran().len(), 6);
    let (directory, exchanges) = recording.end();
    let ran = |exchange: &RecordedExchange| exchange.mcp.as_ref().map_or(0, |mcp| mcp.ran.len());
    assert_eq!(exchanges.iter().map(ran).collect::<Vec<_>>(), [1, 0, 2, 0, 1, 0, 2, 0]);
    let schema = serde_json::from_str(include_str!("../../../src/cassette/schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(exchanges.iter().all(|exchange| validator.is_valid(&serde_json::to_value(exchange).unwrap())));

    // Another server, which has done nothing yet, another key, and no model.
    let todo = TodoServer::start().unwrap();
    let settings = format!(
        "policy = \"policy.toml\"\n{}\n[[upstreams]]\nname = \"recorded\"\nbase_url = \"cassette:session.jsonl\"\n",
        TODO.replace("URL", &todo.url())
    );
    let player = Proxy::start(&settings, &[], directory.path()).unwrap();
    for round in 0..2 {
        assert_eq!(converse(&player), lived, "round {round}");
    }
    assert_eq!(todo.ran(), Vec::<String>::new(), "nothing runs while a cassette plays");

    // Offline nobody says what the servers' tools are.
    let replayed = finish(&["replay", "session.jsonl", "--policy", "policy.toml"], directory.path());
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    assert!(replayed.stdout.contains("MCP servers offered tools in it"), "{replayed:?}");
}

/// Adds milk, cites what came of it, and says later whether it sees that it did.
fn responses_model(_: &Value, messages: &[Value]) -> Turn {
    let result = |message: &Value| serde_json::from_str::<Value>(message["content"].as_str()?).ok();
    match messages.last() {
        Some(last) if last["role"] == "tool" => {
            let result = result(last).unwrap_or_default();
            Turn::Say(format!("I added it (execution_id: {}).", result["execution_id"].as_str().unwrap_or("none")))
        }
        Some(last) if last["content"].as_str().is_some_and(|text| text.contains("Add milk")) => {
            Turn::Call("", vec![("todo__add_task", r#"{"title":"milk"}"#)])
        }
        _ if messages.iter().any(|message| message["role"] == "tool") => Turn::Say("I see the call.".to_owned()),
        _ => Turn::Say("I see no call.".to_owned()),
    }
}

/// The application's request has no trace of the call; the one that goes upstream does. A recording keeps the former.
#[test]
fn a_responses_conversation_with_hidden_rounds_is_found_by_the_request_as_it_came() {
    let todo = TodoServer::start().unwrap();
    let recording = Recording::start("default", &TODO.replace("URL", &todo.url()), "", strict(responses_model));
    let converse = |proxy: &Proxy| -> Vec<String> {
        let (mut input, mut heard) = (Vec::new(), Vec::new());
        for ask in ["Add milk", "Do you see it?"] {
            input.push(json!({"role": "user", "content": ask}));
            let body = json!({"model": "gpt-4o", "input": input, "store": false}).to_string();
            let answer = post(&format!("{}/responses", proxy.base_url()), &body, "Bearer test");
            assert_eq!(answer.status, 200, "{}", answer.body);
            input.extend(answer.json()["output"].as_array().cloned().unwrap_or_default());
            heard.push(answer.body);
        }
        heard
    };
    let lived = converse(&recording.proxy);
    assert!(lived[1].contains("I see the call."), "{lived:#?}");
    let (directory, _) = recording.end();
    let settings = format!(
        "policy = \"policy.toml\"\n{}\n[[upstreams]]\nname = \"recorded\"\nbase_url = \"cassette:session.jsonl\"\n",
        TODO.replace("URL", &todo.url())
    );
    let player = Proxy::start(&settings, &[], directory.path()).unwrap();
    assert_eq!(converse(&player), lived);
}
