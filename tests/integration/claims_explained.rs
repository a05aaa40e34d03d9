//! Phrase rules of the policy with groups and scope, and what `judge --conversation --answer` and the log say of a claim.

use serde_json::{Value, json};
use toolmark::testing::{Received, ScriptedReply};

use crate::{harness::Fixture, program::finish};

/// The example that toolmark was first asked for.
const SEEDS: &str = "[[claims]]\nname = \"approved players\"\npattern = '(?i)approved players:'\nrequires = [\"get_all_players\"]\nmessage = \"get_all_players was not used\"\n";
/// Who is named must stand in the result; what was read in an earlier turn counts.
const NAMED: &str = "[[claims]]\nname = \"approved players\"\npattern = '(?i)approved players: (?<first>\\w+), (?<second>\\w+)'\nrequires = [\"get_all_players\", \"get_players\"]\n";
const PLAYERS: &str = r#"{"players":[{"name":"Ann","status":"approved"},{"name":"Bob","status":"approved"}]}"#;
const FAILED: &str = r#"{"error":"the database is down"}"#;

/// What happened before the answer: tools with what they returned, each in a turn of the user's own.
type Past = [(&'static str, &'static str)];

/// An exchange whose answer this is, to its end: the verdict, and what the application got.
fn answered(policy: &str, past: &Past, asks_again: bool, answer: &'static str, stream: bool) -> (String, String) {
    let fixture = Fixture::with_policy(policy, "", move |received| model(received, answer));
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}});
    let tools = [tool("get_all_players"), tool("get_players")];
    let mut messages: Vec<Value> = Vec::new();
    let ask = |messages: &[Value], stream: bool| {
        fixture.chat(&json!({"model": "m", "messages": messages, "tools": tools, "stream": stream}).to_string())
    };
    for (name, result) in past {
        messages.push(json!({"role": "user", "content": format!("call {name}")}));
        let message = ask(&messages, false).json()["choices"][0]["message"].clone();
        let id = message["tool_calls"][0]["id"].clone();
        messages.extend([message, json!({"role": "tool", "tool_call_id": id, "content": result})]);
    }
    if past.is_empty() || asks_again {
        messages.push(json!({"role": "user", "content": "Who is approved?"}));
    }
    let reply = ask(&messages, stream);
    if !stream {
        return (reply.header("toolmark-verdict").to_owned(), reply.json()["choices"][0]["message"]["content"].to_string());
    }
    let comment = reply.body.lines().find_map(|line| line.strip_prefix(": toolmark ")).unwrap_or("{}");
    let verdict: Value = serde_json::from_str(comment).unwrap();
    let text = reply.events().iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect();
    (verdict["verdict"].as_str().unwrap_or_default().to_owned(), text)
}

/// Calls what it is told to; else it answers.
fn model(received: &Received, answer: &str) -> ScriptedReply {
    let request = received.json();
    let said = request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap_or_default().to_owned();
    let chunk = |delta: Value, finish: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    if let Some(name) = said.strip_prefix("call ") {
        let call = json!({"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        return ScriptedReply::json(
            200,
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string(),
        );
    }
    if request["stream"] == true {
        let words = answer.split_inclusive(' ').map(|word| chunk(json!({ "content": word }), Value::Null));
        return ScriptedReply::chunks(words.chain([chunk(json!({}), "stop".into())]));
    }
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"});
    ScriptedReply::json(200, json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).to_string())
}

#[test]
fn phrase_rules() {
    let turn = format!("{NAMED}scope = \"turn\"\n");
    let (all, one) = ("get_all_players", "get_players");
    let said = "Approved Players: Ann, Bob";
    // What was returned before, whether the user spoke since, what is said, and what becomes of it.
    let rows: [(&str, &Past, bool, &'static str, &str); 12] = [
        (SEEDS, &[], false, said, "blocked"),
        (SEEDS, &[(all, PLAYERS)], false, said, "pass"),
        (SEEDS, &[(all, FAILED)], false, said, "blocked"),
        (SEEDS, &[(one, PLAYERS)], false, said, "blocked"),
        (SEEDS, &[(all, PLAYERS)], true, said, "pass"),
        (NAMED, &[(all, PLAYERS)], false, said, "pass"),
        (NAMED, &[(one, PLAYERS)], false, said, "pass"),
        (NAMED, &[(all, PLAYERS)], false, "Approved players: Ann, Zoe", "blocked"),
        (NAMED, &[(all, PLAYERS)], true, said, "pass"),
        (&turn, &[(all, PLAYERS)], false, said, "pass"),
        (&turn, &[(all, PLAYERS)], true, said, "blocked"),
        (&turn, &[(all, PLAYERS), (one, PLAYERS)], false, "Approved players: Bob, Ann", "pass"),
    ];
    for (policy, past, asks_again, answer, verdict) in rows {
        for stream in [false, true] {
            let (found, text) = answered(policy, past, asks_again, answer, stream);
            assert_eq!(found, verdict, "{policy} {past:?} {asks_again} {answer} {stream}: {text}");
            let passed = text.contains(answer);
            assert_eq!(passed, verdict == "pass", "{text}");
            assert!(passed || text.contains("only after a tool succeeded"), "{text}");
        }
    }
}

#[test]
fn judge_explains_a_claim() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let call = json!({"id": "1", "type": "function", "function": {"name": "get_players", "arguments": "{}"}});
    let messages = json!([{"role": "user", "content": "How many are there?"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": r#"{"players":["Ann","Bob","Cid","Dan","Eve","Fay","Gus"]}"#}]);
    write("messages.json", &messages.to_string());
    let judge = |answer: &str| {
        write("answer.txt", answer);
        finish(&["judge", "--conversation", "messages.json", "--answer", "answer.txt"], directory.path())
    };
    let honest = judge("I found 7 players.");
    assert_eq!(honest.code, Some(0), "{honest:?}");
    assert!(!honest.stdout.contains("count_mismatch"), "{honest:?}");
    let wrong = judge("Well. I found 12 players.");
    assert!(wrong.stdout.contains("[count_mismatch]"), "{wrong:?}");
    for part in ["the answer says", "12 players", "compared with", "which says", "7", "how sure"] {
        assert!(wrong.stdout.contains(part), "{part}: {wrong:?}");
    }
    let explained = wrong.stdout.lines().find(|line| line.contains("(bytes ")).unwrap_or_else(|| panic!("{wrong:?}"));
    // Where the claim stands in the answer.
    let numbers: Vec<usize> = explained.split([' ', ')']).filter_map(|word| word.parse().ok()).collect();
    let [start, end, ..] = numbers[..] else { panic!("{explained}") };
    assert!("Well. I found 12 players."[start..end].contains("12"), "{explained}");
    // A conversation as the body of a request, of the other API.
    let input = json!({"model": "m", "input": [{"role": "user", "content": "How many are there?"},
        {"type": "function_call", "call_id": "1", "name": "get_players", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": r#"{"players":["Ann","Bob"]}"#}]});
    write("messages.json", &input.to_string());
    assert!(judge("I found 12 players.").stdout.contains("[count_mismatch]"));
}

/// The model is to mend what it said: it is quoted whole, up to 2,000 characters.
#[test]
fn a_repair_quotes_what_was_said_whole() {
    let path = "x/".repeat(400);
    let answer: &'static str = format!("Look at https://files.players.net/{path}end-of-it for more.").leak();
    let fixture = Fixture::with_policy("[checks]\nfabricated_url = \"block\"\n", "", move |received| {
        let words = if received.number == 0 { answer } else { "I have no address." };
        model(received, words)
    });
    let call = json!({"id": "1", "type": "function", "function": {"name": "get_players", "arguments": "{}"}});
    let messages = json!([{"role": "user", "content": "Where?"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": r#"{"page":"https://files.players.net/list"}"#}]);
    let tool = json!({"type": "function", "function": {"name": "get_players", "parameters": {"type": "object", "properties": {}}}});
    let reply = fixture.chat(&json!({"model": "m", "messages": messages, "tools": [tool]}).to_string());
    assert_eq!(reply.header("toolmark-verdict"), "repaired", "{}", reply.body);
    assert!(reply.header("toolmark-violations").contains("fabricated_url"), "{}", reply.body);
    let asked = fixture.upstream.received()[1].json();
    let objection = asked["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(objection.contains(&format!("https://files.players.net/{path}end-of-it")), "{objection}");
}
