//! The openai clients of PyPI and npm through toolmark, as applications use them: no warning, and every refusal
//! arrives as a type of theirs. `tests/clients/` has the scripts; what they print is judged here.

pub mod model;
pub mod runtimes;

use serde_json::{Value, json};
use toolmark::testing::Received;

use crate::harness::Fixture;
use model::{FORGED, model};

/// Without a repair, so that one request of the client is one to upstream.
const ERROR_POLICY: &str = "[calls]\nmax_repairs = 0\non_exhausted = \"error\"\n";

const WEATHER: &str = "It is 18 degrees in Paris.";
const BOTH: &str = "It is 18 degrees in Paris and 18 degrees in Rome.";

/// Runs a script against two proxies: what it printed, and what the upstreams behind them got.
fn play(run: impl FnOnce(&[(&str, &str)]) -> String) -> (Value, Vec<Received>, Vec<Received>) {
    let (explain, error) = (Fixture::new("default", model), Fixture::with_policy(ERROR_POLICY, "", model));
    let (explain_url, error_url) = (explain.proxy.base_url(), error.proxy.base_url());
    let printed = run(&[("EXPLAIN_URL", &explain_url), ("ERROR_URL", &error_url), ("OPENAI_API_KEY", "sk-test")]);
    let results = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    (results, explain.upstream.received(), error.upstream.received())
}

#[test]
fn openai_of_pypi() {
    if runtimes::skipped("clients::openai_of_pypi") {
        return;
    }
    let script = runtimes::repository("tests/clients/chat.py");
    let (results, explain, error) = play(|environment| runtimes::run_python(&script, environment));
    assert_eq!(results["version"], "3.54.0");
    scenes(&results, &["whole", "parsed", "streamed", "helper"]);
    refusals(&results);
    assert_eq!(results["async"]["text"], WEATHER);
    is_mark(&results["async"]["id"]);
    upstreams(&explain, &error);
}

#[test]
fn openai_of_npm() {
    if runtimes::skipped("clients::openai_of_npm") {
        return;
    }
    let script = runtimes::repository("tests/clients/chat.mjs");
    let (results, explain, error) = play(|environment| runtimes::run_node(&script, environment));
    assert_eq!(results["version"], "6.49.0");
    scenes(&results, &["whole", "streamed", "helper"]);
    refusals(&results);
    for (scene, cities, text) in [("round_trip", &["Paris"][..], WEATHER), ("repaired", &["Paris"], WEATHER), ("parallel", &["Paris", "Rome"], BOTH)] {
        for mode in ["runner", "runner_streamed"] {
            let result = &results[format!("{scene}_{mode}")];
            assert_eq!(result["text"], text, "{scene} {mode}: {result}");
            calls(&result["calls"], cities);
            let results = vec!["tool"; cities.len()];
            assert_eq!(result["roles"], json!([&["user", "assistant"][..], &results, &["assistant"]].concat()), "{scene} {mode}");
        }
    }
    upstreams(&explain, &error);
}

fn is_mark(id: &Value) {
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
        round_trip(mode, &played("repaired"), &["Paris"], WEATHER, Some("unknown_tool"));
        round_trip(mode, &played("parallel"), &["Paris", "Rome"], BOTH, Some("missing_required,unknown_parameter,duplicate_call_id"));
        blocked(mode, &played("blocked"));
        exhausted(mode, &played("exhausted"));
    }
}

/// Ask, call, result, answer; `repaired`: the codes that the first turn had against it.
fn round_trip(mode: &str, played: &Value, cities: &[&str], text: &str, repaired: Option<&str>) {
    let [calling, answering] = &played["turns"].as_array().unwrap()[..] else { panic!("{mode}: {played}") };
    assert_eq!(played["sends"], 2, "{mode}: {played}");
    calls(&calling["calls"], cities);
    assert!(calling["calls"].as_array().unwrap().iter().all(|call| call["type"] == "function"), "{mode}: {calling}");
    let ends = |turn: &Value, text: &str, finish: &str, verdict: &str, attempts: u64| {
        assert_eq!((turn["text"].as_str(), turn["finish_reason"].as_str()), (Some(text), Some(finish)), "{mode}: {turn}");
        assert_eq!((&turn["role"], &turn["id"], &turn["tokens"]), (&json!("assistant"), &json!("chatcmpl-1"), &json!(15 * attempts)), "{mode}: {turn}");
        if *mode == *"whole" {
            assert_eq!(turn["header"], verdict, "{mode}: {turn}");
        }
        if matches!(mode, "whole" | "streamed") {
            assert_eq!(turn["exchange"].as_str().map(str::len), Some(36), "{mode}: {turn}");
        }
    };
    let attempts = if repaired.is_some() { 2 } else { 1 };
    ends(calling, "Let me look.", "tool_calls", if repaired.is_some() { "repaired" } else { "pass" }, attempts);
    ends(answering, text, "stop", "pass", 1);
    assert_eq!(answering["member"], Value::Null, "{mode}: {answering}");
    match repaired {
        None => assert_eq!(calling["member"], Value::Null, "{mode}: {calling}"),
        Some(codes) => {
            let codes: Vec<&str> = codes.split(',').collect();
            let member = json!({"verdict": "repaired", "repairs": 1, "violations": codes, "citations": []});
            assert_eq!(calling["member"], member, "{mode}: {calling}");
        }
    }
}

/// A forged citation that the model never mends: the safe reply, an ordinary message.
fn blocked(mode: &str, played: &Value) {
    let [turn] = &played["turns"].as_array().unwrap()[..] else { panic!("{mode}: {played}") };
    let text = turn["text"].as_str().unwrap();
    let whole = matches!(mode, "whole" | "parsed");
    let opening = "I reported a tool result that I can't back with an execution.\n- [unknown_execution] ";
    // What had left before the forged ID came stays.
    let expected = if whole { opening.to_owned() } else { format!("It is sunny in Paris, 25 degrees\n\n{opening}") };
    assert!(text.replace("degrees \n", "degrees\n").starts_with(&expected), "{mode}: {text}");
    assert!(text.matches(FORGED).count() <= 1 && !text.split(opening).next().unwrap().contains("execution_id"), "{mode}: {text}");
    assert_eq!((&turn["finish_reason"], &turn["calls"], &turn["role"]), (&json!("stop"), &json!([]), &json!("assistant")), "{mode}: {turn}");
    let member = &turn["member"];
    assert_eq!((&member["verdict"], &member["violations"], &member["citations"]), (&json!("blocked"), &json!(["unknown_execution"]), &json!([])), "{mode}");
    if mode == "whole" {
        assert_eq!((&turn["header"], &turn["violations"]), (&json!("blocked"), &json!("unknown_execution")), "{mode}: {turn}");
    }
    assert_eq!(played["sends"], 1, "{mode}: {played}");
}

/// A model that calls what doesn't exist, however often it is asked: plain words, and no call.
fn exhausted(mode: &str, played: &Value) {
    let [turn] = &played["turns"].as_array().unwrap()[..] else { panic!("{mode}: {played}") };
    let text = turn["text"].as_str().unwrap();
    assert!(text.starts_with("I could not finish this") && text.contains("[unknown_tool]") && text.contains("get_weather"), "{mode}: {text}");
    assert_eq!((&turn["finish_reason"], &turn["calls"]), (&json!("stop"), &json!([])), "{mode}: {turn}");
    assert_eq!((&turn["member"]["verdict"], &turn["member"]["violations"]), (&json!("blocked"), &json!(["unknown_tool"])), "{mode}: {turn}");
    assert_eq!(played["sends"], 1, "{mode}: {played}");
}

/// Everything that ends in an error: of the client's own type, and sent once only.
fn refusals(results: &Value) {
    let table = [
        ("error_streamed", "APIError", None, "model_fell_over", "server_error", "It is sunny in Paris, and"),
        ("error_helper", "APIError", None, "model_fell_over", "server_error", "It is sunny in Paris, and"),
        ("refused_whole", "UnprocessableEntityError", Some(422), "unknown_tool", "tool_integrity_error", ""),
        ("refused_streamed", "APIError", None, "unknown_tool", "tool_integrity_error", ""),
        ("responses", "InternalServerError", Some(501), "endpoint_not_enforced", "invalid_request_error", ""),
        ("bad_request", "BadRequestError", Some(400), "scripted", "invalid_request_error", ""),
        ("bad_tool", "BadRequestError", Some(400), "invalid_request", "invalid_request_error", ""),
    ];
    for (scene, class, status, code, kind, seen) in table {
        let error = &results[scene];
        assert_eq!((&error["class"], &error["status"], &error["code"]), (&json!(class), &json!(status), &json!(code)), "{scene}: {error}");
        assert_eq!((&error["type"], &error["seen"], &error["sends"]), (&json!(kind), &json!(seen), &json!(1)), "{scene}: {error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{scene}: {error}");
    }
    assert_eq!((&results["bad_request"]["param"], &results["bad_tool"]["param"]), (&json!("messages"), &json!("tools")));
    assert!(results["refused_whole"]["message"].as_str().unwrap().contains("get_wether"), "{}", results["refused_whole"]);
}

/// What was upstream: no client asked twice, marks and stamps went along, and only what toolmark let through came back.
fn upstreams(explain: &[Received], error: &[Received]) {
    assert_eq!(error.len(), 2, "one request each, whole and streamed");
    for received in explain.iter().chain(error) {
        let retries = received.headers.get("x-stainless-retry-count").map(|value| value.to_str().unwrap());
        assert_eq!((&*received.line, retries), ("POST /v1/chat/completions", Some("0")));
        assert_eq!(received.headers["authorization"], "Bearer sk-test");
        for message in received.json()["messages"].as_array().unwrap() {
            let content = message["content"].as_str().unwrap_or_default();
            if message["role"] == "tool" && !content.starts_with("Tool call ") {
                is_mark(&message["tool_call_id"]);
                assert!(content.starts_with(r#"{"execution_id":"get_weather_"#) || content.starts_with(r#"{"execution_id": "get_weather_"#), "{content}");
            }
        }
    }
}
