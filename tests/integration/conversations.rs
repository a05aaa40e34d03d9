//! Whole exchanges as goldens: what went upstream, attempt by attempt, and what the application got.
//! Marks, ids and times are redacted.

use std::{fmt::Write as _, sync::Mutex};

use regex::Regex;
use serde_json::{Value, json};
use toolmark::testing::ScriptedReply;

use crate::{
    harness::{Answer, Fixture},
    streams::{FORGED, request},
};

/// A policy without the protocol text, which would stand in every golden.
const QUIET: &str = "[protocol]\ninject = false\n";

/// Makes a request of the answers so far.
type Ask = dyn Fn(&[Answer]) -> String;

/// Plays one scene: `replies` of the upstream in their order, the last one again and again, in which
/// `{ID}` is the execution ID that the request carries; then each request, made of the answers so far.
fn scene(name: &str, policy: &str, replies: &[String], requests: &[&Ask]) {
    let replies = Mutex::new(replies.to_vec());
    let fixture = Fixture::with_policy(policy, "", move |received| {
        let mut replies = replies.lock().unwrap();
        let reply = if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() };
        let body = String::from_utf8_lossy(&received.body);
        let id = Regex::new(r"run_speed_test_\d{13}_[0-9a-f]{16}").unwrap().find(&body).map_or("", |found| found.as_str());
        let reply = reply.replace("{ID}", id);
        match reply.strip_prefix("400 ") {
            Some(error) => ScriptedReply::json(400, error),
            None if reply.starts_with("data: ") => ScriptedReply::events([reply]),
            None => ScriptedReply::json(200, reply),
        }
    });
    let (mut text, mut answers, mut seen) = (String::new(), Vec::new(), 0);
    for request in requests {
        let answer = fixture.chat(&request(&answers));
        for received in fixture.upstream.received().split_off(seen) {
            seen += 1;
            let body = received.json();
            let _ = writeln!(text, "--- upstream {seen}");
            for name in ["messages", "tools", "functions", "tool_choice", "parallel_tool_calls"] {
                for item in body[name].as_array().cloned().unwrap_or_else(|| vec![body[name].clone()]).iter().filter(|item| !item.is_null())
                {
                    let _ = writeln!(text, "{name}: {item}");
                }
            }
        }
        let header = |name: &str| answer.header(name).to_owned();
        let _ = writeln!(
            text,
            "--- downstream {} {} {} {}",
            answer.status,
            header("toolmark-verdict"),
            header("toolmark-repairs"),
            header("toolmark-violations")
        );
        let _ = writeln!(text, "{}", answer.body.trim_end());
        answers.push(answer);
    }
    insta::assert_snapshot!(name, redacted(text));
}

fn redacted(mut text: String) -> String {
    for (pattern, with) in [
        ("call_[0-9a-f]{32}", "call_<mark>"),
        (r"_\d{13}_[0-9a-f]{16}", "_<ms>_<mac>"),
        ("chatcmpl-[0-9a-f]{32}", "chatcmpl-<id>"),
        (r#""created":\d{6,}"#, r#""created":<s>"#),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "<time>"),
        // Said or not, as it happens.
        (": keep-alive\n\n", ""),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

fn whole(message: &str, finish: &str) -> String {
    format!(
        r#"{{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{message},"finish_reason":"{finish}"}}],"usage":{{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}}}"#
    )
}

fn said(text: &str) -> String {
    whole(&format!(r#"{{"role":"assistant","content":{}}}"#, json!(text)), "stop")
}

fn calls(list: &[(&str, &str)]) -> String {
    let call = |(at, (name, arguments)): (usize, &(&str, &str))| {
        format!(r#"{{"id":"call_{at}","type":"function","function":{{"name":"{name}","arguments":{}}}}}"#, json!(arguments))
    };
    let list: Vec<String> = list.iter().enumerate().map(call).collect();
    whole(&format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, list.join(",")), "tool_calls")
}

fn events(deltas: &[&str], finish: &str) -> String {
    let event = |choice: String| {
        format!("data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{choice}]}}\n\n")
    };
    let deltas: String = deltas.iter().map(|delta| event(format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#))).collect();
    format!("{deltas}{}data: [DONE]\n\n", event(format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}"#)))
}

fn good() -> String {
    calls(&[("run_speed_test", r#"{"server":"fra1"}"#)])
}

fn first(_: &[Answer]) -> String {
    request("")
}

fn stream(_: &[Answer]) -> String {
    request(r#","stream":true"#)
}

/// The call of the first answer, with its result.
fn with_result(answers: &[Answer], more: &str) -> String {
    let answer = answers[0].json();
    let mut body: Value = serde_json::from_str(&request(more)).unwrap();
    let message = answer["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([message, json!({"role": "tool", "tool_call_id": id, "content": "{\"mbit\": 90.0}"})]);
    body.to_string()
}

#[test]
fn calls_pass_or_are_repaired() {
    let invented = calls(&[("run_speedtest", "{}")]);
    scene("valid_call", "default", &[good()], &[&first]);
    scene("invented_tool_repaired", QUIET, &[invented.clone(), good()], &[&first]);
    scene(
        "parallel_with_one_invalid",
        QUIET,
        &[
            calls(&[("check_net", "{}"), ("run_speed_test", r#"{"server":7}"#)]),
            calls(&[("check_net", "{}"), ("run_speed_test", r#"{"server":"x"}"#)]),
        ],
        &[&first],
    );
    scene("malformed_arguments", QUIET, &[calls(&[("run_speed_test", r#"{"server": "fra"#)]), good()], &[&first]);
    scene("sanitised_name", QUIET, &[calls(&[("multi_tool_use.parallel", "{}")]), said("I can't.")], &[&first]);
    scene("unknown_parameter", QUIET, &[calls(&[("run_speed_test", r#"{"server":"a","mood":"b"}"#)])], &[&first]);
    scene("never_mends", QUIET, &[invented.clone(), calls(&[("delete_all", "{}")]), calls(&[("drop_all", "{}")])], &[&first]);
    scene("same_again_stops_early", QUIET, std::slice::from_ref(&invented), &[&first]);
    scene("exhausted_error", &format!("{QUIET}[calls]\non_exhausted = \"error\"\n"), std::slice::from_ref(&invented), &[&first, &stream]);
    scene("json_only_refusal", QUIET, std::slice::from_ref(&invented), &[&|_| request(r#","response_format":{"type":"json_object"}"#)]);
    scene("attempts_are_bounded", &format!("{QUIET}[calls]\nmax_attempts = 2\n"), &[invented, calls(&[("b", "{}")]), good()], &[&first]);
    scene("streamed_repair", QUIET, &[
        events(&[r#"{"role":"assistant","content":"One moment."}"#, r#"{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"speed","arguments":""}}]}"#], "tool_calls"),
        events(&[r#"{"role":"assistant","tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"run_speed_test","arguments":"{\"server\":"}}]}"#, r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}"#], "tool_calls").replace("\"c1\"", "\"c2\""),
    ], &[&stream]);
}

/// A slow model: every answer takes longer than the deadline of repairs.
#[test]
fn one_repair_is_always_allowed() {
    let ask = |policy: &str, replies: Vec<String>, stream: bool| {
        let replies = Mutex::new(replies);
        let fixture = Fixture::with_policy(policy, "", move |_| {
            std::thread::sleep(std::time::Duration::from_millis(60));
            let mut replies = replies.lock().unwrap();
            let reply = if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() };
            if reply.starts_with("data: ") { ScriptedReply::events([reply]) } else { ScriptedReply::json(200, reply) }
        });
        let answer = fixture.chat(&request(if stream { r#","stream":true"# } else { "" }));
        (answer.body, fixture.upstream.received().len())
    };
    let slow = "[calls]\nrepair_deadline = \"30ms\"\n";
    let bad = |name: &str| calls(&[(name, "{}")]);
    let (answer, asked) = ask(slow, vec![bad("a"), good()], false);
    assert!(asked == 2 && answer.contains("run_speed_test"), "{asked} {answer}");
    let (answer, asked) = ask(slow, vec![bad("a"), bad("b"), good()], false);
    assert!(asked == 2 && answer.contains("One correction was attempted, and it didn't help."), "{asked} {answer}");
    let in_time = "[calls]\nrepair_deadline = \"600ms\"\nmax_repairs = 2\n";
    let (answer, asked) = ask(in_time, vec![bad("a"), bad("b"), bad("c")], false);
    assert!(asked == 3 && answer.contains("2 corrections were attempted, and they didn't help."), "{asked} {answer}");
    let (answer, asked) = ask("[calls]\nmax_repairs = 0\n", vec![bad("a")], false);
    assert!(asked == 1 && answer.contains("No correction was attempted.") && !answer.contains("didn't help"), "{asked} {answer}");
    let forged = said(&format!("90 Mbit/s (execution_id: {FORGED})."));
    let (answer, asked) = ask("[calls]\nmax_repairs = 0\n", vec![forged], false);
    assert!(asked == 1 && answer.contains("No correction was attempted."), "{asked} {answer}");
    let streamed = |name: &str| {
        let call = format!(
            r#"{{"role":"assistant","tool_calls":[{{"index":0,"id":"x","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}"#
        );
        events(&[&call], "tool_calls")
    };
    let (answer, asked) = ask(slow, vec![streamed("a"), streamed("b"), streamed("c")], true);
    assert!(asked == 2 && answer.contains("One correction was attempted"), "{asked} {answer}");
}

#[test]
fn null_for_an_optional_parameter_is_left_out() {
    let body = request("").replace(r#""properties":{}"#, r#""properties":{"host":{"type":"string"}}"#);
    scene("null_optional", QUIET, &[calls(&[("check_net", r#"{"host": null}"#)])], &[&move |_| body.clone()]);
}

#[test]
fn results_are_stamped_and_citations_judged() {
    let cite = said("It is 90 Mbit/s (execution_id: {ID}).");
    scene("cited", QUIET, &[good(), cite.clone()], &[&first, &|answers| with_result(answers, "")]);
    scene(
        "cited_and_shown",
        &format!("{QUIET}[citations]\nshow = true\n"),
        &[good(), cite.clone()],
        &[&first, &|answers| with_result(answers, "")],
    );
    let streamed = events(
        &[r#"{"role":"assistant","content":"It is 90 Mbit/s "}"#, r#"{"content":"(execution_id: {ID})"}"#, r#"{"content":", fine."}"#],
        "stop",
    );
    scene("cited_in_a_stream", QUIET, &[good(), streamed], &[&first, &|answers| with_result(answers, r#","stream":true"#)]);
    scene(
        "forged_citation_repaired",
        QUIET,
        &[said(&format!("90 Mbit/s (execution_id: {FORGED}).")), said("I did not run it.")],
        &[&first],
    );
    let forger = events(
        &[r#"{"role":"assistant","content":"All is well with your line. "}"#, &format!(r#"{{"content":"See {FORGED} for more."}}"#)],
        "stop",
    );
    scene("forged_in_mid_stream", QUIET, &[forger], &[&stream]);
    scene("claim_without_an_id", QUIET, &[said("```json\n{\"tool\": \"run_speed_test\", \"result\": 90}\n```")], &[&first]);
    scene(
        "require_citation",
        &format!("{QUIET}[citations]\nrequire = true\nshow = true\n[checks]\nmissing_citation = \"block\"\n"),
        &[good(), said("It is 90 Mbit/s."), cite.clone()],
        &[&first, &|answers| with_result(answers, "")],
    );
    scene(
        "strict_requires_a_citation",
        "strict",
        &[good(), said("It is 90 Mbit/s."), said("It is 91 Mbit/s."), said("It is 92 Mbit/s.")],
        &[&first, &|answers| with_result(answers, "")],
    );
    let expired = |answers: &[Answer]| {
        std::thread::sleep(std::time::Duration::from_millis(1100));
        with_result(answers, "")
    };
    scene(
        "window_expired",
        &format!("{QUIET}[results]\nwindow = \"1s\"\n"),
        &[good(), cite, said("I would have to run it again.")],
        &[&first, &expired],
    );
    let altered = |answers: &[Answer]| with_result(answers, "").replace("fra1", "ams2");
    scene("altered_call", QUIET, &[good(), said("It is 90.")], &[&first, &altered]);
}

#[test]
fn tool_choice_binds() {
    scene("required_ignored", QUIET, &[said("No."), good()], &[&|_| request(r#","tool_choice":"required""#)]);
    scene("none_ignored", QUIET, &[good(), said("As you like.")], &[&|_| request(r#","tool_choice":"none""#)]);
    scene(
        "one_at_a_time",
        QUIET,
        &[calls(&[("check_net", "{}"), ("check_net", "{}")]), good()],
        &[&|_| request(r#","parallel_tool_calls":false"#)],
    );
}

#[test]
fn old_and_other_forms() {
    let legacy = r#"{"model":"m","messages":[{"role":"user","content":"go"}],"functions":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}]}"#;
    let call = |arguments: &str| {
        whole(
            &format!(r#"{{"role":"assistant","content":null,"function_call":{{"name":"f","arguments":{}}}}}"#, json!(arguments)),
            "function_call",
        )
    };
    scene("legacy_function", QUIET, &[call("{}"), call(r#"{"a":1}"#)], &[&|_| legacy.to_owned()]);
    let custom = r#"{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[{"type":"custom","custom":{"name":"sql"}}]}"#;
    let call = |name: &str| {
        whole(
            &format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"x","type":"custom","custom":{{"name":"{name}","input":"select 1"}}}}]}}"#
            ),
            "tool_calls",
        )
    };
    scene("custom_tool", QUIET, &[call("sequel"), call("sql")], &[&|_| custom.to_owned()]);
}

#[test]
fn a_call_that_the_upstream_refused() {
    let refused = r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=speed{\"secret\": 1}"}}"#;
    let again = format!("400 {refused}");
    scene("groq_repaired", QUIET, &[again.clone(), good()], &[&first]);
    scene("groq_exhausted", QUIET, std::slice::from_ref(&again), &[&first, &stream]);
    scene("groq_exhausted_error", &format!("{QUIET}[calls]\non_exhausted = \"error\"\n"), std::slice::from_ref(&again), &[&first]);
    let text = r#"{"role":"assistant","content":"Let me look."}"#;
    let broken = format!("{}data: {refused}\n\n", events(&[text], "stop").split_inclusive("\n\n").next().unwrap());
    scene("groq_in_a_stream", QUIET, &[broken.clone(), events(&[r#"{"role":"assistant","content":"I can't."}"#], "stop")], &[&stream]);
    scene("groq_in_a_stream_exhausted", QUIET, &[broken, again], &[&stream]);
}

#[test]
fn tools_of_the_policy() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tools.json");
    std::fs::write(&file, r#"[{"type":"function","function":{"name":"add_task","parameters":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}}}]"#).unwrap();
    let policy = |more: &str| format!("{QUIET}[tools]\nfiles = [\"{}\"]\n{more}", file.display());
    let add = calls(&[("add_task", r#"{"title":"x"}"#)]);
    scene("inject_merge", &policy(""), std::slice::from_ref(&add), &[&first]);
    scene("inject_replace", &policy("inject = \"replace\"\n"), std::slice::from_ref(&add), &[&first]);
    scene("inject_off", &policy("inject = \"off\"\n"), &[add, said("I can't.")], &[&first]);
    scene("undeclared_reject", &policy("undeclared = \"reject\"\n"), &[good(), said("I can't.")], &[&first]);
    scene("expected_tool_missing", &format!("{QUIET}[tools]\nexpect = [\"add_task\"]\n"), &[good()], &[&first]);
}
