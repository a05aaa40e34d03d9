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
fn an_error_beside_the_output_is_judged() {
    let failed = |message: &str| {
        format!(r#"{{"id":"r","object":"response","status":"failed","error":{{"code":"server_error","message":"{message}"}},"output":[]}}"#)
    };
    let came = failed("It is down.");
    assert_eq!(ok(&came).body, came);
    let out = ok(&failed(&format!("As measured (execution_id: {FORGED}).")));
    assert!(!out.body.contains(FORGED), "{}", out.body);
}

#[test]
fn calls_that_the_upstream_runs_pass_where_their_tool_is_offered() {
    let azure = r#"{"type":"azure_ai_search_call","id":"a","call_id":"c","arguments":"{}","status":"completed"}"#;
    let x = r#"{"type":"custom_tool_call","id":"x","call_id":"c","name":"x_keyword_search","input":"{}","status":"completed"}"#;
    for (call, kind) in [(azure, "azure_ai_search"), (x, "x_search")] {
        let came = response(&format!("{call},{}", said("Found.")));
        let offering = format!(r#"[{{"type":"{kind}"}},{}"#, &TOOLS[1..]);
        let out = judge(&came, &BENCH.context(&offering, |_| {})).unwrap();
        assert_eq!((out.body.as_str(), out.blocks), (&*came, false), "{:?}", out.codes);
        // Where nobody offers it, it might be run by the application.
        assert!(judge(&came, &CONTEXT).map_or(true, |out| out.blocks), "{call}");
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
        r#"{"output":[],"Output":[{}]}"#,
        "[]",
        "3",
    ] {
        assert!(matches!(judge(root, &CONTEXT), Err(Fault::Unknown(_))), "{root}");
    }
    for root in [
        r#"{"output":[],"tool_calls":[{"a":1}]}"#,
        r#"{"output":[],"function_call":{"name":"x"}}"#,
        r#"{"output":[],"message":{"tool_calls":[{"a":1}]}}"#,
        r#"{"output":[],"message":{"content":[{"type":"tool_use","name":"x"}]}}"#,
        r#"{"output":[],"items":[{"type":"function_call","name":"x"}]}"#,
        r#"{"output":[],"note":{"a":[{"tool_calls":[{"a":1}]}]}}"#,
        r#"{"output":[{"type":"unheard_of","tool_calls":[{"a":1}]}]}"#,
        r#"{"output":[{"type":"unheard_of","name":"x","arguments":"{}"}]}"#,
    ] {
        assert!(matches!(judge(root, &CONTEXT), Err(Fault::Shape(_))), "{root}");
    }
    // What says nothing hides nothing.
    let quiet = r#"{"output":[{"type":"message","role":"assistant","content":"hi","tool_calls":[]}],"text":{"format":{"type":"text"}},"choices":[],"message":null}"#;
    assert_eq!(ok(quiet).body, quiet);
}

#[test]
fn texts_beside_the_output_are_left_out() {
    let bare = response(&said("Hi."));
    for copy in [
        r#""message":{"content":"X"}"#,
        r#""content":"X""#,
        r#""output_text":["X"]"#,
        r#""output_messages":[{"content":"X"}]"#,
        r#""text":"X""#,
        r#""choices":[{"message":{"content":"X"}}]"#,
        r#""response":"X""#,
    ] {
        for said in ["Hi.", "Else."] {
            let came = bare.replacen('{', &format!("{{{},", copy.replace('X', said)), 1);
            let out = ok(&came);
            let codes = if said == "Else." { vec![Code::StrayText] } else { vec![] };
            assert_eq!((&out.body, &out.codes), (&bare, &codes), "{came}");
        }
    }
    let item = r#"{"type":"message","id":"m","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi.""#;
    for (part, message) in [
        (r#","value":"V""#, ""),
        (r#","output_text":"V""#, ""),
        (r#","refusal":"V""#, ""),
        (r#","annotations":[{"type":"url_citation","title":"V","url":"https://a"}]"#, ""),
        (r#","logprobs":[{"token":"V"}]"#, ""),
        (r#","logprobs":[{"token":"run_speed_test_1760000000000"},{"token":"_deadbeefdeadbeef"}]"#, ""),
        ("", r#","text":"V""#),
        ("", r#","output_text":"V""#),
        ("", r#","note":{"a":["V"]}"#),
    ] {
        let claim = |text: &str| text.replace('V', "(execution_id: run_speed_test_1760000000000_deadbeefdeadbeef)");
        let out = ok(&response(&format!("{item}{}}}]{}}}", claim(part), claim(message))));
        assert!(!out.body.contains("deadbeef") && out.body.contains("Hi."), "{}", out.body);
        assert_eq!(out.codes, [Code::StrayText], "{part} {message}");
    }
    // Items of types that nobody knows are judged, and lose what they may not say.
    let out = ok(&response(&format!(
        r#"{{"type":"unheard_of","id":"u","content":[{{"text":"(execution_id: run_speed_test_1760000000000_deadbeefdeadbeef)"}}]}},{}"#,
        said("Hi.")
    )));
    assert!(!out.body.contains("deadbeef") && out.codes == [Code::StrayText], "{}", out.body);
}

#[test]
fn what_is_not_judged_here_passes_byte_for_byte() {
    for item in [
        r#"{ "type":"web_search_call", "id":"ws","status":"completed" }"#,
        r#"{"type":"mcp_call","id":"m","name":"x","arguments":"{\"a\":1}","output":"\u00e9"}"#,
        r#"{"type":"compaction","id":"c","encrypted_content":"x"}"#,
        r#"{"type":"unheard_of","deep":{"a":[1.0,{"b":"\u00e9"}]}}"#,
        r#"{"type":"search_results","results":[{"url":"https://a.example/?a=1&b=2","title":"A & B","snippet":"It is 90 Mbit/s there."}]}"#,
        r#"{"type":"function_call_output","call_id":"c","output":"It is 90 Mbit/s."}"#,
        r#"{"type":"unheard_of","content":[{"type":"text","text":"A note."}],"text":"More."}"#,
        r#"{"type":"reasoning","content":[{"type":"reasoning_text","text":"run_speed_test_1760000000000_deadbeefdeadbeef"}]}"#,
    ] {
        let came = response(&format!("{item}, {}", said("Hi.")));
        let out = ok(&came);
        assert_eq!((&out.body, out.codes.is_empty()), (&came, true));
    }
    let came = response(&function("c", "delete_all", "{")).replace("\"error\":null", "\"toolmark\":7");
    let observing = Bench::new("observe");
    let context = observing.context(TOOLS, |_| {});
    let answer = BufferedResponse::read(Bytes::from(came.clone()), &context).unwrap();
    assert!(answer.judge(&context, context.first_attempt()).iter().any(|choice| !choice.violations().collect::<Vec<_>>().is_empty()));
    let written = answer.write(vec![ChoiceOutcome::Accept(Vec::new())], &context, None, Some("{}"));
    assert!(written.body == came && written.memo.is_none());
}
