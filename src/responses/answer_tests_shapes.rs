//! Shapes: what is an error, what can't be judged, what passes because nobody here judges it.

use super::*;

#[test]
fn unfinished_answers_need_no_output_and_errors_are_reported() {
    for status in ["queued", "in_progress", "failed", "cancelled"] {
        for output in ["", r#","output":null"#] {
            let came = format!(r#"{{"id":"r","object":"response","status":"{status}"{output}}}"#);
            assert_eq!(ok(&came).body, came);
        }
    }
    for body in [
        r#"{"error":{"message":"no"}}"#,
        r#"[{"error":{"message":"no"}}]"#,
        r#"{"object":"error","message":"no","type":"x","code":null}"#,
        r#"{"message":"no","code":40}"#,
        r#"{"object":"response","status":"failed","error":{"code":"x","message":"no"}}"#,
    ] {
        assert!(matches!(judge(body, &CONTEXT), Err(Fault::Reported(raw)) if raw == body), "{body}");
    }
}

#[test]
fn hostile_shapes_are_refused() {
    let call = r#"{"type":"function_call","call_id":"c","name":"check_net","arguments":"{}""#;
    for output in [
        "7".to_owned(),
        "\"text\"".to_owned(),
        "[]".to_owned(),
        r#"{"type":"message","role":"assistant","content":"hi","tool_calls":[{"a":1}]}"#.to_owned(),
        r#"{"type":"message","role":"assistant","content":"hi","Tool_Calls":[{"a":1}]}"#.to_owned(),
        r#"{"type":"message","role":"assistant","content":"hi","call_id":"c","name":"check_net"}"#.to_owned(),
        r#"{"type":"message","role":"assistant","content":[],"text":"hi"}"#.to_owned(),
        r#"{"type":"message","content":"a","content":"b"}"#.to_owned(),
        r#"{"type":"message","content":{"text":"a"}}"#.to_owned(),
        message(r#"{"type":"tool_use","name":"check_net"}"#),
        message(r#"{"type":"output_text","text":"a","text":"b"}"#),
        message(r#"{"type":"output_text","text":{"value":"a"}}"#),
        message("3"),
        format!(r#"{call},"arguments":"{{\"z\":1}}"}}"#),
        format!(r#"{call},"input":"{{\"z\":1}}"}}"#),
        format!(r#"{call},"function":{{"name":"delete_all"}}}}"#),
        format!(r#"{call},"custom":{{"name":"delete_all"}}}}"#),
        format!(r#"{call},"tool_calls":[1]}}"#),
        r#"{"type":"Function_Call","call_id":"c","name":"delete_all","arguments":"{}"}"#.to_owned(),
        r#"{"name":"delete_all","arguments":"{}"}"#.to_owned(),
        vec![format!("{call}}}"); 1025].join(","),
    ] {
        assert!(matches!(judge(&response(&output), &CONTEXT), Err(Fault::Shape(_))), "{}", &output[..output.len().min(200)]);
    }
    for root in [
        r#"{"output":[],"output":[]}"#,
        r#"{"output":{}}"#,
        r#"{"status":"completed"}"#,
        r#"{"status":"incomplete"}"#,
        r#"{"output":[],"choices":[{}]}"#,
        r#"{"output":[],"Output":[{}]}"#,
        r#"{"output":[],"tool_calls":[{}]}"#,
        r#"{"output":[],"function_call":{"name":"x"}}"#,
        r#"{"output":[],"message":{"content":"x"}}"#,
        r#"{"output":[],"content":"x"}"#,
        r#"{"output":[],"output_text":["x"]}"#,
        r#"{"output":[],"output_messages":[{}]}"#,
        r#"{"output":[],"text":"x"}"#,
        "[]",
        "3",
    ] {
        assert!(matches!(judge(root, &CONTEXT), Err(Fault::Unknown(_))), "{root}");
    }
    // What says nothing hides nothing.
    let quiet = r#"{"output":[{"type":"message","role":"assistant","content":"hi","tool_calls":[]}],"text":{"format":{"type":"text"}},"choices":[],"message":null}"#;
    assert_eq!(ok(quiet).body, quiet);
}

#[test]
fn what_is_not_judged_here_passes_byte_for_byte() {
    for item in [
        r#"{ "type":"web_search_call", "id":"ws","status":"completed" }"#,
        r#"{"type":"mcp_call","id":"m","name":"x","arguments":"{\"a\":1}","output":"\u00e9"}"#,
        r#"{"type":"compaction","id":"c","encrypted_content":"x"}"#,
        r#"{"type":"unheard_of","deep":{"a":[1.0,{"b":"\u00e9"}]}}"#,
        r#"{"type":"reasoning","content":[{"type":"reasoning_text","text":"run_speed_test_1760000000000_deadbeefdeadbeef"}]}"#,
    ] {
        let came = response(&format!("{item}, {}", said("Hi.")));
        let out = ok(&came);
        assert_eq!((&out.body, out.codes.is_empty()), (&came, true));
    }
    let came = response(&function("c", "delete_all", "{")).replace("\"error\":null", "\"toolmark\":7");
    let observing = Bench::new("observe");
    let context = observing.context(TOOLS, |_| {});
    let answer = Answer::read(Bytes::from(came.clone()), &context).unwrap();
    assert!(answer.judge(&context).iter().any(|choice| !choice.violations().collect::<Vec<_>>().is_empty()));
    let written = answer.write(vec![Final::Accept(Vec::new())], &context, None, Some("{}"));
    assert!(written.body == came && written.memo.is_none());
}
