//! The openai clients of PyPI and npm through toolmark, as applications use them: no warning, and every refusal
//! arrives as a type of theirs. `tests/clients/` has the scripts; what they print is judged here.

pub mod messages_model;
pub mod model;
pub mod responses_events;
pub mod responses_model;
pub mod runtimes;

use serde_json::{Value, json};
use toolmark::testing::Received;

use crate::harness::Fixture;
use model::{FORGED, model};

/// Without a repair, so that one request of the client is one to upstream.
const ERROR_POLICY: &str = "[calls]\nmax_repairs = 0\non_exhausted = \"error\"\n";

const WEATHER: &str = "It is 18 degrees in Paris.";
const BOTH: &str = "It is 18 degrees in Paris and 18 degrees in Rome.";

/// Runs a script against three proxies: what it printed, and what the upstreams behind them got.
fn play(run: impl FnOnce(&[(&str, &str)]) -> String) -> (Value, [Vec<Received>; 3]) {
    let fixtures = [Fixture::new("default", model), Fixture::with_policy(ERROR_POLICY, "", model), Fixture::new("strict", model)];
    let [default, error, strict] = fixtures.each_ref().map(|fixture| fixture.proxy.base_url());
    let printed = run(&[("DEFAULT_URL", &default), ("ERROR_URL", &error), ("STRICT_URL", &strict), ("OPENAI_API_KEY", "sk-test")]);
    let results = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    (results, fixtures.map(|fixture| fixture.upstream.received()))
}

#[test]
fn openai_of_pypi() {
    if runtimes::skipped("clients::openai_of_pypi") {
        return;
    }
    let script = runtimes::repository("tests/clients/chat.py");
    let (results, received) = play(|environment| runtimes::run_python(&script, environment));
    assert_eq!(results["version"], "3.54.0");
    scenes(&results, &["whole", "parsed", "streamed", "helper"]);
    refusals(&results);
    assert_eq!(results["async"]["text"], WEATHER);
    is_mark(&results["async"]["id"]);
    upstreams(&received);
}

#[test]
fn openai_of_npm() {
    if runtimes::skipped("clients::openai_of_npm") {
        return;
    }
    let script = runtimes::repository("tests/clients/chat.mjs");
    let (results, received) = play(|environment| runtimes::run_node(&script, environment));
    assert_eq!(results["version"], "6.49.0");
    scenes(&results, &["whole", "streamed", "helper"]);
    refusals(&results);
    for (scene, cities, text) in
        [("round_trip", &["Paris"][..], WEATHER), ("repaired", &["Paris"], WEATHER), ("parallel", &["Paris", "Rome"], BOTH)]
    {
        for mode in ["runner", "runner_streamed"] {
            let result = &results[format!("{scene}_{mode}")];
            assert_eq!(result["text"], text, "{scene} {mode}: {result}");
            calls(&result["calls"], cities);
            let results = vec!["tool"; cities.len()];
            assert_eq!(result["roles"], json!([&["user", "assistant"][..], &results, &["assistant"]].concat()), "{scene} {mode}");
        }
    }
    upstreams(&received);
}

/// A call mark of chat completions.
pub fn is_mark(id: &Value) {
    let hex = id.as_str().and_then(|id| id.strip_prefix("call_")).unwrap_or_default();
    assert!(hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id} is no call mark");
}

/// These calls of `get_weather`, each with a mark of its own.
fn calls(calls: &Value, cities: &[&str]) {
    let calls = calls.as_array().unwrap();
    assert_eq!(calls.len(), cities.len(), "{calls:?}");
    for (call, city) in calls.iter().zip(cities) {
        is_mark(&call["id"]);
        assert_eq!((&call["name"], &call["arguments"]), (&json!("get_weather"), &json!(format!(r#"{{"city":"{city}"}}"#))));
    }
    let ids: std::collections::HashSet<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
    assert_eq!(ids.len(), calls.len(), "{calls:?}");
}

/// Everything that ends in an answer, in every way to ask for it.
fn scenes(results: &Value, modes: &[&str]) {
    for mode in modes {
        let played = |scene: &str| results[format!("{scene}_{mode}")].clone();
        round_trip(mode, &played("round_trip"), &["Paris"], WEATHER, None);
        round_trip(mode, &played("repaired"), &["Paris"], WEATHER, Some(&["unknown_tool"]));
        let codes = ["missing_required", "unknown_parameter", "duplicate_call_id"];
        round_trip(mode, &played("parallel"), &["Paris", "Rome"], BOTH, Some(&codes));
        strict(mode, &played("strict"), None);
        strict(mode, &played("uncited"), Some(&["missing_citation"]));
        objected(mode, &played("objected"));
        blocked(mode, &played("blocked"));
        exhausted(mode, &played("exhausted"));
    }
}

/// One turn of the conversation: how it ends, and what toolmark says of it; `repaired`: the codes it had against it.
fn turn(mode: &str, turn: &Value, finish: &str, repaired: Option<&[&str]>) {
    let tokens = if repaired.is_some() { 30 } else { 15 };
    assert_eq!((&turn["role"], &turn["finish_reason"]), (&json!("assistant"), &json!(finish)), "{mode}: {turn}");
    assert_eq!((&turn["id"], &turn["tokens"]), (&json!("chatcmpl-1"), &json!(tokens)), "{mode}: {turn}");
    if mode == "whole" {
        assert_eq!(turn["header"], if repaired.is_some() { "repaired" } else { "pass" }, "{mode}: {turn}");
    }
    if matches!(mode, "whole" | "streamed") {
        assert_eq!(turn["exchange"].as_str().map(str::len), Some(36), "{mode}: {turn}");
    }
    let Some(codes) = repaired else { return assert_eq!(turn["member"], Value::Null, "{mode}: {turn}") };
    let member = &turn["member"];
    assert_eq!(
        (&member["verdict"], &member["repairs"], &member["violations"]),
        (&json!("repaired"), &json!(1), &json!(codes)),
        "{mode}: {turn}"
    );
}

/// Ask, call, result: both turns.
fn asked(mode: &str, played: &Value, cities: &[&str]) -> [Value; 2] {
    let [calling, answering] = &played["turns"].as_array().unwrap()[..] else { panic!("{mode}: {played}") };
    assert_eq!(played["sends"], 2, "{mode}: {played}");
    calls(&calling["calls"], cities);
    assert!(calling["calls"].as_array().unwrap().iter().all(|call| call["type"] == "function"), "{mode}: {calling}");
    assert_eq!((&calling["text"], &answering["calls"]), (&json!("Let me look."), &json!([])), "{mode}: {played}");
    [calling.clone(), answering.clone()]
}

/// Ask, call, result, answer; the citation is taken out.
fn round_trip(mode: &str, played: &Value, cities: &[&str], text: &str, repaired: Option<&[&str]>) {
    let [calling, answering] = asked(mode, played, cities);
    turn(mode, &calling, "tool_calls", repaired);
    turn(mode, &answering, "stop", None);
    assert_eq!(answering["text"], text, "{mode}: {answering}");
}

/// The same under the strict policy: nothing in a real client's history is held against it, and the citation stays.
fn strict(mode: &str, played: &Value, repaired: Option<&[&str]>) {
    let [calling, answering] = asked(mode, played, &["Paris"]);
    turn(mode, &calling, "tool_calls", None);
    turn(mode, &answering, "stop", repaired);
    let text = answering["text"].as_str().unwrap();
    assert!(text.starts_with("It is 18 degrees in Paris (execution_id: get_weather_") && text.ends_with(")."), "{mode}: {text}");
}

/// A forged citation that the model takes back when asked: the second answer, and nothing of the first.
fn objected(mode: &str, played: &Value) {
    let [only] = &played["turns"].as_array().unwrap()[..] else { panic!("{mode}: {played}") };
    assert_eq!((&only["text"], &only["calls"]), (&json!("I can't check that now."), &json!([])), "{mode}: {played}");
    turn(mode, only, "stop", Some(&["unknown_execution"]));
}

/// A forged citation that the model never mends: the safe reply, an ordinary message.
fn blocked(mode: &str, played: &Value) {
    let [turn] = &played["turns"].as_array().unwrap()[..] else { panic!("{mode}: {played}") };
    // Where it is streamed, what left before the forged ID came stays, and nothing can be repaired.
    let (before, repairs) = if matches!(mode, "whole" | "parsed") { ("", 1) } else { ("It is sunny in Paris, 25 deg", 0) };
    let opening = "I reported a tool result that I can't back with an execution.\n- [unknown_execution] I cited an execution ID that was never issued here";
    // The last words before a citation may be the clause that introduces it: they are held with it.
    let (left, _) = turn["text"].as_str().unwrap().split_once(opening).unwrap_or_else(|| panic!("{mode}: {turn}"));
    assert!(left.starts_with(before) && "It is sunny in Paris, 25 degrees".starts_with(left.trim_end()), "{mode}: {turn}");
    assert!(!turn["text"].as_str().unwrap().contains(FORGED), "{mode}: {turn}");
    assert_eq!(
        (&turn["finish_reason"], &turn["calls"], &turn["role"]),
        (&json!("stop"), &json!([]), &json!("assistant")),
        "{mode}: {turn}"
    );
    let member = json!({"verdict": "blocked", "repairs": repairs, "violations": ["unknown_execution"], "citations": []});
    assert_eq!(turn["member"], member, "{mode}: {turn}");
    if mode == "whole" {
        assert_eq!((&turn["header"], &turn["violations"]), (&json!("blocked"), &json!("unknown_execution")), "{mode}: {turn}");
    }
    assert_eq!(played["sends"], 1, "{mode}: {played}");
}

/// A model that calls what doesn't exist, however often it is asked: plain words, and no call.
fn exhausted(mode: &str, played: &Value) {
    let [turn] = &played["turns"].as_array().unwrap()[..] else { panic!("{mode}: {played}") };
    let text = turn["text"].as_str().unwrap();
    assert!(
        text.starts_with("I could not finish this") && text.contains("[unknown_tool]") && text.contains("get_weather"),
        "{mode}: {text}"
    );
    assert_eq!((&turn["finish_reason"], &turn["calls"]), (&json!("stop"), &json!([])), "{mode}: {turn}");
    assert_eq!(
        (&turn["member"]["verdict"], &turn["member"]["violations"]),
        (&json!("blocked"), &json!(["unknown_tool"])),
        "{mode}: {turn}"
    );
    assert_eq!(played["sends"], 1, "{mode}: {played}");
}

/// Everything that ends in an error: of the client's own type, and sent once only.
fn refusals(results: &Value) {
    let table = [
        ("error_streamed", "APIError", None, "model_fell_over", "server_error", "It is sunny in Paris, and"),
        ("error_helper", "APIError", None, "model_fell_over", "server_error", "It is sunny in Paris, and"),
        ("refused_whole", "UnprocessableEntityError", Some(422), "unknown_tool", "tool_integrity_error", ""),
        ("refused_streamed", "APIError", None, "unknown_tool", "tool_integrity_error", ""),
        ("bad_request", "BadRequestError", Some(400), "scripted", "invalid_request_error", ""),
        ("bad_tool", "BadRequestError", Some(400), "invalid_request", "invalid_request_error", ""),
    ];
    for (scene, class, status, code, kind, seen) in table {
        let error = &results[scene];
        assert_eq!((&error["class"], &error["status"], &error["code"]), (&json!(class), &json!(status), &json!(code)), "{scene}: {error}");
        assert_eq!((&error["type"], &error["sends"]), (&json!(kind), &json!(1)), "{scene}: {error}");
        // The last words may introduce a citation: they are held, and don't leave where the answer breaks off.
        let arrived = error["seen"].as_str().unwrap_or_default();
        assert!(seen.starts_with(arrived) && arrived.is_empty() == seen.is_empty(), "{scene}: {error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{scene}: {error}");
    }
    assert_eq!((&results["bad_request"]["param"], &results["bad_tool"]["param"]), (&json!("messages"), &json!("tools")));
    assert!(results["refused_whole"]["message"].as_str().unwrap().contains("get_wether"), "{}", results["refused_whole"]);
}

/// What was upstream: no client asked twice, marks and stamps went along, and only what toolmark let through came back.
fn upstreams(all: &[Vec<Received>; 3]) {
    assert_eq!(all[1].len(), 2, "one request each, whole and streamed");
    for received in all.iter().flatten() {
        let retries = received.headers.get("x-stainless-retry-count").map(|value| value.to_str().unwrap());
        assert_eq!((&*received.line, retries), ("POST /v1/chat/completions", Some("0")));
        assert_eq!(received.headers["authorization"], "Bearer sk-test");
        for message in received.json()["messages"].as_array().unwrap() {
            let content = message["content"].as_str().unwrap_or_default();
            if message["role"] == "tool" && !content.starts_with("Tool call ") {
                is_mark(&message["tool_call_id"]);
                assert!(
                    content.starts_with(r#"{"execution_id":"get_weather_"#) || content.starts_with(r#"{"execution_id": "get_weather_"#),
                    "{content}"
                );
            }
        }
    }
}
