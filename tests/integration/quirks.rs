//! What some upstreams do that others don't, and that no client should notice.

use serde_json::json;
use toolmark::testing::ScriptedReply;

use crate::folded::fold;
use crate::streams::{NO_REPAIR, call, chunk, delta, finish, play, request, streamed};

#[test]
fn a_stream_under_another_name_is_a_stream() {
    let events = [delta(r#"{"role":"assistant","content":"Hel"}"#), delta(r#"{"content":"lo"}"#), finish("stop")];
    for kind in ["", "text/plain", "application/octet-stream", "application/json"] {
        let (answer, _) = play("", vec![ScriptedReply::chunks(&events).header("content-type", kind)], &request(r#","stream":true"#));
        assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"), "{kind}: {}", answer.body);
        assert_eq!(fold(&answer).choices[0].text, "Hello", "{kind}");
        assert!(answer.body.ends_with("data: [DONE]\n\n"), "{kind}");
    }
    // Nobody asked for one here.
    let (answer, _) = play("", vec![ScriptedReply::chunks(&events).header("content-type", "text/plain")], &request(""));
    assert_eq!(answer.status, 502);
}

#[test]
fn whole_answers_to_whoever_asked_for_a_stream() {
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]});
    for body in [whole.to_string(), format!("\n  {whole}"), format!("\u{feff}{whole}")] {
        let (answer, _) =
            play("", vec![ScriptedReply::json(200, body).header("content-type", "text/plain")], &request(r#","stream":true"#));
        assert_eq!((answer.status, answer.json()["choices"][0]["message"]["content"].as_str()), (200, Some("Hello")), "{}", answer.body);
    }
}

#[test]
fn a_call_that_broke_off_is_completed_by_nobody() {
    for reason in ["length", "model_length", "MAX_TOKENS", "error", "abort", "insufficient_system_resource"] {
        let broken = call("check_net", "");
        let message =
            json!({"role": "assistant", "content": null, "tool_calls": [serde_json::from_str::<serde_json::Value>(&broken).unwrap()]});
        let whole = json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}).to_string();
        let (answer, _) = play(NO_REPAIR, vec![ScriptedReply::json(200, whole)], &request(""));
        assert!(answer.header("toolmark-violations").contains("truncated_call"), "{reason}: {}", answer.body);
        assert!(!answer.body.contains("\"tool_calls\":["), "{reason}: {}", answer.body);
        let (answer, folded) = streamed(NO_REPAIR, &[delta(&format!(r#"{{"tool_calls":[{broken}]}}"#)), finish(reason)], "");
        assert!(
            folded.choices.iter().all(|choice| choice.calls.is_empty()) && !answer.body.contains("\"tool_calls\":["),
            "{reason}: {}",
            answer.body
        );
    }
}

#[test]
fn a_tool_of_the_upstreams_own_kind_may_be_called() {
    let tools = r#"[{"type":"builtin_function","function":{"name":"$web_search"}}]"#;
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"go"}}],"tools":{tools}}}"#);
    let call = r#"{"id":"x","type":"builtin_function","function":{"name":"$web_search","arguments":"{\"q\":\"a\"}"}}"#;
    let reply = format!(
        r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":null,"tool_calls":[{call}]}},"finish_reason":"tool_calls"}}]}}"#
    );
    let (answer, received) = play("", vec![ScriptedReply::json(200, reply)], &body);
    assert_eq!((answer.status, answer.header("toolmark-verdict"), received.len()), (200, "pass", 1), "{}", answer.body);
    assert_eq!(answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "$web_search");
    assert!(String::from_utf8_lossy(&received[0].body).contains(tools), "as it came");
}

#[test]
fn an_id_that_changes_with_every_piece_and_a_pair_in_two() {
    let piece = |id: &str, name: &str, arguments: &str| {
        chunk(&format!(
            r#"{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"{id}","type":"function","function":{{{name}"arguments":"{arguments}"}}}}]}},"finish_reason":null}}"#
        ))
    };
    let events = [
        piece("a", r#""name":"run_speed_test","#, ""),
        piece("b", "", r#"{\"server\":\"\ud83d"#),
        piece("c", "", r#"\ude00\"}"#),
        finish("tool_calls"),
    ];
    let (answer, folded) = streamed("", &events, "");
    let [call] = folded.choices[0].calls.as_slice() else { panic!("{}", answer.body) };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("run_speed_test", "{\"server\":\"😀\"}"));
}

#[test]
fn an_upstream_that_broke_off_excuses_no_empty_answer() {
    let whole = |reason: &str| json!({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": reason}]});
    for (reason, empty) in [("stop", true), ("error", true), ("abort", true), ("length", false), ("content_filter", false)] {
        let (answer, _) = play(NO_REPAIR, vec![ScriptedReply::json(200, whole(reason).to_string())], &request(""));
        assert_eq!(answer.header("toolmark-violations").contains("empty_answer"), empty, "{reason}: {}", answer.body);
    }
}
