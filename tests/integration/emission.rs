//! What leaves a stream is what clients can read: the emission rules, several choices, observing.

use serde_json::json;
use toolmark::testing::ScriptedReply;

use crate::{
    folded::fold,
    streams::{FORGED, SECRET, bad, call, chunk, delta, finish, play, request, streamed},
};

/// What leaves for the events: a name, the events, and of what leaves the text, how many calls, why it
/// ended, and whether there is usage.
type Row = (&'static str, Vec<String>, &'static str, usize, &'static str, bool);

fn readable(rows: Vec<Row>) {
    for (name, events, text, calls, reason, used) in rows {
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
fn calls_are_made_readable() {
    let good = r#"{\"server\":\"a\"}"#;
    let tool = |index: &str, id: &str, arguments: &str| {
        format!(r#"{{{index}"id":"{id}","function":{{"name":"run_speed_test","arguments":{arguments}}}}}"#)
    };
    let (one, two) = (tool("\"index\":1,", "x", &format!("\"{good}\"")), tool("\"index\":0,", "y", r#"{"server":"b"}"#));
    readable(vec![
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
    ]);
}

#[test]
fn texts_are_made_readable() {
    let good = r#"{\"server\":\"a\"}"#;
    let tool = |index: &str, id: &str, arguments: &str| {
        format!(r#"{{{index}"id":"{id}","function":{{"name":"run_speed_test","arguments":{arguments}}}}}"#)
    };
    let one = tool("\"index\":1,", "x", &format!("\"{good}\""));
    let usage = r#""model":"m","usage":{"total_tokens":7}"#;
    readable(vec![
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
    ]);
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
        let (answer, _) = play("default", vec![ScriptedReply::events([body])], &request(r#","stream":true"#));
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
    let (answer, _) = play("default", vec![ScriptedReply::events([body])], &request(r#","stream":true"#));
    // But for comments, which are toolmark's own.
    let expected = format!(": keep-alive\n\n{}", events[1..].concat());
    assert!(answer.body.starts_with(&expected), "{}", answer.body);
    let whole = r#"{ "id":"c","choices":[ {"index":0,"message":{"role":"assistant","content":"h\u0069","x":1.10},"finish_reason":"stop"}], "x_y":{} }"#;
    assert_eq!(play("default", vec![ScriptedReply::json(200, whole)], &request("")).0.body, whole);
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
    let replies = vec![ScriptedReply::chunks([text, finish("stop")]), ScriptedReply::chunks([call, finish("tool_calls")])];
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
        let (answer, received) = play("observe", vec![ScriptedReply::events([body.clone()])], &request(r#","stream":true"#));
        assert_eq!((answer.body, received.len()), (body, 1));
    }
    for body in [
        r#"{"error":{"message":"m","code":503}}"#.to_owned(),
        "no JSON".into(),
        format!(r#"{{"choices":[{{"message":{{"tool_calls":[{}]}}}}],"toolmark":1}}"#, bad()),
    ] {
        let (answer, received) = play("observe", vec![ScriptedReply::json(200, body.clone())], &request(""));
        assert_eq!((answer.status, answer.body, received.len()), (200, body, 1));
        assert_eq!(received[0].body, request(""));
    }
}

#[test]
fn what_needs_marks_is_not_judged_where_nothing_is_marked() {
    let history = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"check_net","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"{\"up\":true,\"ms\":15}"}"#;
    let body = request("").replace(r#""content":"go"}"#, &format!(r#""content":"go"}},{history}"#));
    let said = serde_json::json!("{\"tool_name\": \"check_net\", \"up\": true, \"ms\": 12}");
    let answer = format!(r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{said}}},"finish_reason":"stop"}}]}}"#);
    let (enforced, _) = play("[calls]\nmax_repairs = 0\n", vec![ScriptedReply::json(200, answer.clone())], &body);
    assert_eq!(
        (enforced.header("toolmark-verdict"), enforced.header("toolmark-violations")),
        ("blocked", "unverified_call,missing_execution_id")
    );
    let (observed, _) = play("observe", vec![ScriptedReply::json(200, answer.clone())], &body);
    assert_eq!((observed.header("toolmark-verdict"), observed.header("toolmark-violations")), ("pass", "not_judged"));
    assert_eq!(observed.body, answer);
}
