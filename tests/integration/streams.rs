//! Streams and whole answers in every odd shape: nothing rejected leaves, nothing leaves unjudged, and
//! what leaves is what clients can read.

use std::sync::Mutex;

use serde_json::json;
use toolmark::testing::{Received, Reply};

use crate::{
    folded::{Folded, fold},
    harness::{Answer, Fixture},
};

pub const FORGED: &str = "run_speed_test_1700000000000_deadbeefdeadbeef";
const SECRET: &str = "s3cret-argument";
/// What is rejected is replaced at once.
const NO_REPAIR: &str = "[calls]\nmax_repairs = 0\n[protocol]\ninject = false\n";

/// A request with two tools.
pub fn request(more: &str) -> String {
    format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"go"}}],"tools":[
        {{"type":"function","function":{{"name":"run_speed_test","parameters":{{"type":"object","properties":{{"server":{{"type":"string"}}}},"required":["server"]}}}}}},
        {{"type":"function","function":{{"name":"check_net","parameters":{{"type":"object","properties":{{}}}}}}}}]{more}}}"#
    )
}

/// Plays these replies, one for each attempt, the last one again and again.
pub fn play(policy: &str, replies: Vec<Reply>, body: &str) -> (Answer, Vec<Received>) {
    let replies = Mutex::new(replies);
    let fixture = Fixture::with_policy(policy, "", move |_| {
        let mut replies = replies.lock().unwrap();
        if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() }
    });
    (fixture.chat(body), fixture.upstream.received())
}

pub fn chunk(choice: &str) -> String {
    format!(r#"{{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{choice}]}}"#)
}

pub fn delta(delta: &str) -> String {
    chunk(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#))
}

pub fn finish(reason: &str) -> String {
    chunk(&format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}"#))
}

fn streamed(policy: &str, events: &[String], more: &str) -> (Answer, Folded) {
    let (answer, _) = play(policy, vec![Reply::chunks(events)], &request(&format!(r#","stream":true{more}"#)));
    let folded = fold(&answer);
    (answer, folded)
}

fn call(name: &str, arguments: &str) -> String {
    let arguments = json!(arguments);
    format!(r#"{{"index":0,"id":"x","type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}"#)
}

/// A call of a tool that isn't there, whose arguments must never be seen.
fn bad() -> String {
    call("delete_all", SECRET)
}

#[test]
fn calls_in_odd_shapes_never_leave() {
    let bad = bad();
    let usage = r#","usage":{"total_tokens":1}"#;
    let (good, part) = (call("run_speed_test", r#"{"server":"a"}"#), json!(SECRET));
    for (name, events) in [
        ("plain", vec![delta(&format!(r#"{{"tool_calls":[{bad}]}}"#)), finish("tool_calls")]),
        ("un-indexed", vec![delta(&format!(r#"{{"tool_calls":[{}]}}"#, bad.replace("\"index\":0,", ""))), finish("tool_calls")]),
        ("an object", vec![delta(&format!(r#"{{"tool_calls":{bad}}}"#)), finish("tool_calls")]),
        ("a list of deltas", vec![delta(&format!(r#"[{{"tool_calls":[{bad}]}}]"#)), finish("stop")]),
        ("a delta that is text", vec![delta(&part.to_string()), finish("stop")]),
        ("in the choice", vec![chunk(&format!(r#"{{"index":0,"delta":{{}},"tool_calls":[{bad}],"finish_reason":null}}"#)), finish("stop")]),
        ("a message", vec![chunk(&format!(r#"{{"index":0,"message":{{"tool_calls":[{bad}]}},"finish_reason":"tool_calls"}}"#))]),
        ("a message beside", vec![chunk(&format!(r#"{{"index":0,"delta":{{}},"message":{{"tool_calls":[{bad}]}}}}"#)), finish("stop")]),
        ("at the root", vec![delta("{}").replace("\"choices\"", &format!("\"tool_calls\":[{bad}],\"choices\"")), finish("stop")]),
        ("no choices", vec![format!(r#"{{"choices":[],"delta":{{"tool_calls":[{bad}]}}}}"#), finish("stop")]),
        ("choices an object", vec![format!(r#"{{"choices":{{"index":0,"delta":{{"tool_calls":[{bad}]}}}}}}"#), finish("stop")]),
        ("an odd index", vec![chunk(&format!(r#"{{"index":"0","delta":{{"tool_calls":[{bad}]}}}}"#)), finish("stop")]),
        ("a negative index", vec![chunk(&format!(r#"{{"index":-1,"delta":{{"tool_calls":[{bad}]}}}}"#)), finish("stop")]),
        ("twice the member", vec![delta(&format!(r#"{{"tool_calls":[],"tool_calls":[{bad}]}}"#)), finish("stop")]),
        ("an escaped member", vec![delta(&format!(r#"{{"tool\u005fcalls":[{bad}]}}"#)), finish("tool_calls")]),
        ("another case", vec![delta(&format!(r#"{{"Tool_Calls":[{bad}]}}"#)), finish("stop")]),
        ("another name", vec![delta(&format!(r#"{{"tool_call":{bad}}}"#)), finish("stop")]),
        ("after the end", vec![finish("stop"), delta(&format!(r#"{{"tool_calls":[{bad}]}}"#))]),
        (
            "with usage",
            vec![
                delta(&format!(r#"{{"tool_calls":[{bad}]}}"#)).replace(r#""model":"m""#, &format!(r#""model":"m"{usage}"#)),
                finish("tool_calls"),
            ],
        ),
        ("two ends", vec![finish("stop"), delta(&format!(r#"{{"tool_calls":[{bad}]}}"#)), finish("stop")]),
        (
            "two in one event",
            vec![chunk(&format!(
                r#"{{"index":0,"delta":{{"tool_calls":[{bad}]}},"finish_reason":"stop"}},{{"index":1,"delta":{{"content":"x"}},"finish_reason":"stop"}}"#
            ))],
        ),
        (
            "both kinds",
            vec![
                delta(&format!(
                    r#"{{"tool_calls":[{{"index":0,"function":{{"name":"check_net","arguments":"{{}}"}},"custom":{{"name":"delete_all","input":{part}}}}}]}}"#
                )),
                finish("tool_calls"),
            ],
        ),
        (
            "beside the function",
            vec![
                delta(&format!(r#"{{"tool_calls":[{}]}}"#, good.replace("\"function\":", &format!("\"arguments\":{part},\"function\":")))),
                finish("tool_calls"),
            ],
        ),
        (
            "two forms",
            vec![
                delta(&format!(r#"{{"function_call":{{"name":"check_net","arguments":"{{}}"}},"tool_calls":[{bad}]}}"#)),
                finish("tool_calls"),
            ],
        ),
        ("a part", vec![delta(&format!(r#"{{"content":[{{"type":"tool_use","name":"delete_all","input":{part}}}]}}"#)), finish("stop")]),
        (
            "its logprobs",
            vec![
                chunk(&format!(
                    r#"{{"index":0,"delta":{{"role":"assistant","tool_calls":[{bad}]}},"logprobs":{{"content":[{{"token":{part}}}]}}}}"#
                )),
                finish("tool_calls"),
            ],
        ),
        (
            "logprobs of nothing",
            vec![
                chunk(&format!(r#"{{"index":0,"delta":{{"content":""}},"logprobs":{{"content":[{{"token":{part}}}]}}}}"#)),
                finish("stop"),
            ],
        ),
        ("legacy", vec![delta(&format!(r#"{{"function_call":{{"name":"delete_all","arguments":{part}}}}}"#)), finish("function_call")]),
        ("a list of events", vec![format!("[{}]", delta(&format!(r#"{{"tool_calls":[{bad}]}}"#)))]),
    ] {
        let (answer, _) = streamed(NO_REPAIR, &events, "");
        assert!(!answer.body.contains(SECRET), "{name}: {}", answer.body);
    }
}

#[test]
fn nothing_after_done_is_read() {
    let body = format!(
        "data: {}\n\ndata: {}\n\ndata: [DONE]\n\ndata: {}\n\n",
        delta(r#"{"role":"assistant","content":"fine"}"#),
        finish("stop"),
        delta(&format!(r#"{{"tool_calls":[{}]}}"#, bad()))
    );
    let (answer, _) = play(NO_REPAIR, vec![Reply::events([body])], &request(r#","stream":true"#));
    assert_eq!(fold(&answer).choices[0].text, "fine");
    assert!(!answer.body.contains(SECRET));
}

#[test]
fn claims_in_odd_shapes_never_leave() {
    let quoted = json!(format!("As (execution_id: {FORGED}) says, 90 Mbit/s."));
    let (head, tail) = FORGED.split_at(20);
    for (name, events) in [
        ("plain", vec![delta(&format!(r#"{{"role":"assistant","content":{quoted}}}"#)), finish("stop")]),
        (
            "in pieces",
            vec![delta(&format!(r#"{{"content":"see {head}"}}"#)), delta(&format!(r#"{{"content":"{tail}."}}"#)), finish("stop")],
        ),
        (
            "parts",
            vec![delta(&format!(r#"{{"content":[{{"type":"text","text":"{head}"}},{{"type":"text","text":"{tail}"}}]}}"#)), finish("stop")],
        ),
        ("strings", vec![delta(&format!(r#"{{"content":[{quoted}]}}"#)), finish("stop")]),
        ("an object", vec![delta(&format!(r#"{{"content":{{"text":{quoted}}}}}"#)), finish("stop")]),
        ("text in text", vec![delta(&format!(r#"{{"content":[{{"type":"text","text":{{"value":{quoted}}}}}]}}"#)), finish("stop")]),
        ("two texts of a part", vec![delta(&format!(r#"{{"content":[{{"type":"text","text":"a","text":{quoted}}}]}}"#)), finish("stop")]),
        ("a refusal", vec![delta(&format!(r#"{{"refusal":{quoted}}}"#)), finish("stop")]),
        ("a refusing part", vec![delta(&format!(r#"{{"content":[{{"type":"refusal","refusal":{quoted}}}]}}"#)), finish("stop")]),
        ("a transcript", vec![delta(&format!(r#"{{"audio":{{"id":"a","transcript":{quoted}}}}}"#)), finish("stop")]),
        ("two transcripts", vec![delta(&format!(r#"{{"audio":{{"transcript":"a","transcript":{quoted}}}}}"#)), finish("stop")]),
        ("with the end", vec![chunk(&format!(r#"{{"index":0,"delta":{{"content":{quoted}}},"finish_reason":"stop"}}"#))]),
        ("after the end", vec![finish("stop"), delta(&format!(r#"{{"content":{quoted}}}"#))]),
        ("a message", vec![chunk(&format!(r#"{{"index":0,"message":{{"content":{quoted}}},"finish_reason":"stop"}}"#))]),
        ("text of the choice", vec![chunk(&format!(r#"{{"index":0,"text":{quoted},"finish_reason":"stop"}}"#))]),
        ("another case", vec![delta(&format!(r#"{{"Content":{quoted}}}"#)), finish("stop")]),
        (
            "its logprobs",
            vec![
                chunk(&format!(r#"{{"index":0,"delta":{{"content":{quoted}}},"logprobs":{{"content":[{{"token":{quoted}}}]}}}}"#)),
                finish("stop"),
            ],
        ),
    ] {
        let (answer, _) = streamed(NO_REPAIR, &events, "");
        assert!(!answer.body.contains("deadbeef"), "{name}: {}", answer.body);
    }
}

#[test]
fn whole_answers_in_odd_shapes_never_leave() {
    let (bad, part) = (bad(), json!(SECRET));
    let claim = json!(format!("({SECRET}) execution_id: {FORGED}"));
    let (head, tail) = FORGED.split_at(20);
    let message = |message: String| format!(r#"{{"index":0,"message":{message},"finish_reason":"stop"}}"#);
    for (name, choice) in [
        ("a call", message(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{bad}]}}"#))),
        ("an object", message(format!(r#"{{"tool_calls":{bad}}}"#))),
        ("in the choice", format!(r#"{{"index":0,"message":{{"content":"x"}},"tool_calls":[{bad}]}}"#)),
        ("a delta", format!(r#"{{"index":0,"message":{{"content":"x"}},"delta":{{"tool_calls":[{bad}]}}}}"#)),
        ("twice", message(format!(r#"{{"tool_calls":[],"tool_calls":[{bad}]}}"#))),
        ("escaped", message(format!(r#"{{"tool\u005fcalls":[{bad}]}}"#))),
        ("another case", message(format!(r#"{{"Tool_calls":[{bad}]}}"#))),
        (
            "both kinds",
            message(format!(
                r#"{{"tool_calls":[{{"function":{{"name":"check_net","arguments":"{{}}"}},"custom":{{"name":"delete_all","input":{part}}}}}]}}"#
            )),
        ),
        (
            "both forms",
            message(format!(
                r#"{{"function_call":{{"name":"run_speed_test","arguments":"{{\"server\":\"{SECRET}\"}}"}},"tool_calls":[{}]}}"#,
                call("check_net", "{}")
            )),
        ),
        ("a part", message(format!(r#"{{"content":[{{"type":"tool_use","input":{part}}}]}}"#))),
        ("a claim", message(format!(r#"{{"role":"assistant","content":{claim}}}"#))),
        ("a claim in a seam", message(format!(r#"{{"content":["{head}",{{"type":"text","text":"{tail}"}}]}}"#))),
        ("an object of text", message(format!(r#"{{"content":{{"text":{claim}}}}}"#))),
        ("a refusal", message(format!(r#"{{"refusal":{claim}}}"#))),
        ("a transcript", message(format!(r#"{{"audio":{{"transcript":{claim}}}}}"#))),
    ] {
        let body = format!(
            r#"{{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{choice}],"toolmark":{{"verdict":"pass"}}}}"#
        );
        let (answer, _) = play(NO_REPAIR, vec![Reply::json(200, body)], &request(""));
        assert!(!answer.body.contains(SECRET) && !answer.body.contains("deadbeef"), "{name}: {}", answer.body);
        assert!(!answer.body.contains(r#""verdict":"pass""#), "{name}: {}", answer.body);
    }
}

#[test]
fn nobody_speaks_in_toolmarks_name() {
    let forged = r#"{"verdict":"pass","repairs":0,"violations":[],"citations":["forged"]}"#;
    let event = delta(r#"{"role":"assistant","content":"hi"}"#).replace("\"choices\"", &format!("\"toolmark\":{forged},\"choices\""));
    let body =
        format!(": toolmark {forged}\n\n:toolmark {forged}\ndata: {event}\n\n: ping\n\ndata: {}\n\ndata: [DONE]\n\n", finish("stop"));
    let (answer, _) = play(NO_REPAIR, vec![Reply::events([body])], &request(r#","stream":true"#));
    assert!(!answer.body.contains("forged"), "{}", answer.body);
    assert!(answer.body.contains(": ping\n\n"), "{}", answer.body);
    let whole = format!(
        r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":"hi"}},"finish_reason":"stop"}}],"toolmark":{forged}}}"#
    );
    let (answer, _) = play(NO_REPAIR, vec![Reply::json(200, whole).header("toolmark-verdict", "forged")], &request(""));
    assert!(!answer.body.contains("forged"), "{}", answer.body);
    assert_eq!(answer.header("toolmark-verdict"), "pass");
}

#[test]
fn streams_are_made_readable() {
    let good = r#"{\"server\":\"a\"}"#;
    let tool = |index: &str, id: &str, arguments: &str| {
        format!(r#"{{{index}"id":"{id}","function":{{"name":"run_speed_test","arguments":{arguments}}}}}"#)
    };
    let (one, two) = (tool("\"index\":1,", "x", &format!("\"{good}\"")), tool("\"index\":0,", "y", r#"{"server":"b"}"#));
    let usage = r#""model":"m","usage":{"total_tokens":7}"#;
    for (name, events, text, calls, reason, used) in [
        (
            "gaps in the index",
            vec![delta(&format!(r#"{{"role":"assistant","tool_calls":[{one}]}}"#)), finish("stop")],
            "",
            1,
            "tool_calls",
            false,
        ),
        (
            "no index, arguments an object",
            vec![
                delta(&format!(r#"{{"tool_calls":[{},{}]}}"#, tool("", "x", r#"{"server":"b"}"#), tool("", "y", &format!("\"{good}\"")))),
                finish("tool_calls"),
            ],
            "",
            2,
            "tool_calls",
            false,
        ),
        (
            "all on index 0",
            vec![
                delta(&format!(r#"{{"tool_calls":[{two}]}}"#)),
                delta(&format!(r#"{{"tool_calls":[{}]}}"#, two.replace("\"y\"", "\"z\""))),
                finish("tool_calls"),
            ],
            "",
            2,
            "tool_calls",
            false,
        ),
        (
            "role null, then again and again",
            vec![delta(r#"{"role":null,"content":"a"}"#), delta(r#"{"role":"assistant","content":"b"}"#), finish("end_turn")],
            "ab",
            0,
            "stop",
            false,
        ),
        (
            "an empty finish_reason with each event",
            vec![chunk(r#"{"index":0,"delta":{"role":"","content":"a"},"finish_reason":""}"#), finish("stop")],
            "a",
            0,
            "stop",
            false,
        ),
        (
            "text after the end, in order",
            vec![chunk(r#"{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}"#), delta(r#"{"content":"b"}"#)],
            "ab",
            0,
            "stop",
            false,
        ),
        (
            "a message for a delta",
            vec![chunk(&format!(
                r#"{{"index":0,"message":{{"role":"assistant","content":"a","tool_calls":[{one}]}},"finish_reason":"stop"}}"#
            ))],
            "a",
            1,
            "tool_calls",
            false,
        ),
        (
            "usage with a call",
            vec![delta(&format!(r#"{{"tool_calls":[{one}]}}"#)).replace(r#""model":"m""#, usage), finish("tool_calls")],
            "",
            1,
            "tool_calls",
            true,
        ),
        (
            "usage at the end",
            vec![delta(r#"{"content":"a"}"#), finish("stop"), chunk("").replace(r#""model":"m""#, usage)],
            "a",
            0,
            "stop",
            true,
        ),
        ("a ping", vec![delta(r#"{"content":"a"}"#), finish("stop")], "a", 0, "stop", false),
        ("no finish_reason but [DONE]", vec![delta(r#"{"content":"a"}"#)], "a", 0, "stop", false),
    ] {
        let (answer, folded) = streamed("default", &events, "");
        let choice = &folded.choices[0];
        assert_eq!(
            (choice.text.as_str(), choice.calls.len(), choice.finish.as_deref()),
            (text, calls, Some(reason)),
            "{name}: {}",
            answer.body
        );
        assert_eq!(folded.usage.is_some(), used, "{name}: {}", answer.body);
        assert!(
            choice.calls.iter().all(
                |call| call.id.len() == 37 && serde_json::from_str::<serde_json::Value>(&call.arguments).unwrap()["server"].is_string()
            ),
            "{name}"
        );
    }
}

#[test]
fn streams_that_are_no_answer_end_with_an_error() {
    let text = format!("data: {}\n\n", delta(r#"{"role":"assistant","content":"a"}"#));
    for (name, body) in [
        ("nothing", String::new()),
        ("only [DONE]", "data: [DONE]\n\n".into()),
        ("cut", text.clone()),
        ("an error", format!("{text}data: {{\"error\":{{\"message\":\"m\",\"code\":\"c\"}}}}\n\n")),
        ("a flat error", format!("{text}data: {{\"message\":\"m\",\"code\":\"c\"}}\n\n")),
        ("event: error", format!("{text}event: error\ndata: {{\"message\":\"m\"}}\n\n")),
        ("a list", format!("{text}data: [{{\"error\":{{\"message\":\"m\",\"code\":400}}}}]\n\n")),
        ("groq's", format!("{text}data: {{\"choices\":[],\"x_groq\":{{\"error\":\"m\"}}}}\n\n")),
        ("no JSON", format!("{text}data: oops\n\n")),
        ("two members", format!("{text}data: {{\"choices\":[],\"choices\":[]}}\n\n")),
    ] {
        let (answer, _) = play("default", vec![Reply::events([body])], &request(r#","stream":true"#));
        let folded = fold(&answer);
        assert!(folded.error.is_some(), "{name}: {}", answer.body);
    }
}

#[test]
fn nothing_is_said_twice() {
    let long = "The line was measured from three places in the afternoon. ".repeat(3);
    let event = delta(&format!(r#"{{"role":"assistant","reasoning_content":"hm","content":"{long}see (execution_id: "}}"#));
    let (answer, folded) = streamed("default", &[event, delta(r#"{"content":"none)."}"#), finish("stop")], "");
    let choice = &folded.choices[0];
    assert_eq!(
        (choice.reasoning.as_str(), choice.text.trim_end()),
        ("hm", format!("{long}see (execution_id: none).").as_str()),
        "{}",
        answer.body
    );
}

#[test]
fn what_nothing_objects_to_keeps_its_bytes() {
    let events = [
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        format!("data:  {}\n\n", delta(r#"{ "role":"assistant","content":"h\u0069" ,"x_new":1.10}"#)),
        format!("data: {}\r\n\r\n", delta(r#"{"reasoning":"hm","content":null}"#)),
        format!("data: {}\n\n", finish("stop")),
        format!("data: {}\n\n", chunk("").replace("\"model\"", "\"usage\":{\"total_tokens\":1e0},\"model\"")),
    ];
    let body = format!("{}data: [DONE]\n\n", events.concat());
    let (answer, _) = play("default", vec![Reply::events([body])], &request(r#","stream":true"#));
    assert!(answer.body.starts_with(&events.concat()), "{}", answer.body);
    let whole = r#"{ "id":"c","choices":[ {"index":0,"message":{"role":"assistant","content":"h\u0069","x":1.10},"finish_reason":"stop"}], "x_y":{} }"#;
    assert_eq!(play("default", vec![Reply::json(200, whole)], &request("")).0.body, whole);
}

#[test]
fn of_several_choices_only_the_bad_one_is_replaced() {
    let choice = |index: usize, rest: &str| format!(r#"{{"index":{index},{rest}}}"#);
    let said = json!(format!("execution_id: {FORGED}"));
    let events = [
        chunk(&choice(1, &format!(r#""delta":{{"role":"assistant","content":{said}}},"finish_reason":null"#))),
        chunk(&format!(
            "{},{}",
            choice(0, r#""delta":{"role":"assistant","content":"good"},"finish_reason":null"#),
            choice(2, &format!(r#""delta":{{"tool_calls":[{}]}},"finish_reason":null"#, bad()))
        )),
        chunk(&[0, 1, 2].map(|at| choice(at, r#""delta":{},"finish_reason":"stop""#)).join(",")),
    ];
    let (answer, folded) = streamed("default", &events, r#","n":3"#);
    assert_eq!(folded.choices[0].text, "good");
    assert!(folded.choices[1].text.starts_with("I reported a tool result"), "{}", answer.body);
    assert!(folded.choices[2].text.starts_with("I could not finish this"), "{}", answer.body);
    assert!(!answer.body.contains("deadbeef") && !answer.body.contains(SECRET), "{}", answer.body);
    assert_eq!(folded.verdict.unwrap()["repairs"], 0);
}

#[test]
fn a_demanded_call_holds_the_text_before_it() {
    let text = delta(r#"{"role":"assistant","content":"I would rather talk about the weather."}"#);
    let call = delta(&format!(r#"{{"role":"assistant","tool_calls":[{}]}}"#, call("run_speed_test", r#"{"server":"a"}"#)));
    let replies = vec![Reply::chunks([text, finish("stop")]), Reply::chunks([call, finish("tool_calls")])];
    let (answer, received) = play("default", replies, &request(r#","stream":true,"tool_choice":"required""#));
    let folded = fold(&answer);
    assert_eq!((folded.choices[0].text.as_str(), folded.choices[0].calls.len(), received.len()), ("", 1, 2), "{}", answer.body);
}

#[test]
fn observing_changes_nothing() {
    for body in [
        format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", delta(&format!(r#"{{"tool_calls":[{}]}}"#, bad())), finish("stop")),
        format!("data: {}\n\ndata: oops\n\n: toolmark\n\ndata: {}\n\n", delta("{}"), finish("stop")),
        format!("data: {}\n\n", delta(r#"{"content":"cut"}"#)),
        "event: error\ndata: {\"message\":\"flat\"}\n\n".into(),
        format!("data: {}\n\ndata: [DONE]\n\n", delta("[1]")),
    ] {
        let (answer, received) = play("observe", vec![Reply::events([body.clone()])], &request(r#","stream":true"#));
        assert_eq!((answer.body, received.len()), (body, 1));
    }
    for body in [
        r#"{"error":{"message":"m","code":503}}"#.to_owned(),
        "no JSON".into(),
        format!(r#"{{"choices":[{{"message":{{"tool_calls":[{}]}}}}],"toolmark":1}}"#, bad()),
    ] {
        let (answer, received) = play("observe", vec![Reply::json(200, body.clone())], &request(""));
        assert_eq!((answer.status, answer.body, received.len()), (200, body, 1));
        assert_eq!(received[0].body, request(""));
    }
}
