//! Tests of whole answers.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Origin, TranslateFault, answer};
use crate::{translate::Translation, wire::json::Document};

pub(in crate::translate) const ID: &str = "0123456789abcdef0123456789abcdef";

/// For a request with a tool or two.
pub(in crate::translate) fn origin() -> Origin {
    let request = "{\"model\":\"asked\",\"input\":\"hi\",\"temperature\":0.50,\"tools\":[{\"type\":\"function\",\n\"name\":\"f\"},{\"type\":\"custom\",\"name\":\"sh\"}]}";
    let document = Document::parse(Bytes::from_static(request.as_bytes())).unwrap();
    Origin::new(Translation::RESPONSES_TO_CHAT, &document, ID.to_owned(), 7)
}

fn translated(chat: &str) -> Result<Value, TranslateFault> {
    answer(&Bytes::copy_from_slice(chat.as_bytes()), &origin()).map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

fn of_message(message: &Value, finish: &str) -> Result<Value, TranslateFault> {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    translated(&json!({"id": "c", "model": "said", "choices": [choice]}).to_string())
}

#[test]
fn the_whole_object() {
    let chat = json!({"id": "c", "model": "said", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "text", "refusal": null, "reasoning": "hm",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{ }"}}]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "cost": 0.1,
            "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 0}, "completion_tokens_details": null}});
    let expected = json!({
        "id": format!("resp_{ID}"), "object": "response", "created_at": 7, "status": "completed", "error": null,
        "incomplete_details": null, "model": "said", "output": [
            {"type": "reasoning", "id": format!("rs_r_{ID}_0"), "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "id": format!("msg_{ID}_1"), "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "text", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": format!("fc_{ID}_2"), "call_id": "call_1", "name": "f", "arguments": "{ }", "status": "completed"}],
        "usage": {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 1, "audio_tokens": 0}, "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 5},
        "instructions": null, "max_output_tokens": null, "parallel_tool_calls": true, "reasoning": {"effort": null, "summary": null},
        "temperature": 0.5, "tool_choice": "auto", "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "sh"}],
        "top_p": 1.0, "user": null, "metadata": {}, "text": {"format": {"type": "text"}}, "previous_response_id": null,
        "store": false, "truncation": "disabled"});
    assert_eq!(translated(&chat.to_string()).unwrap(), expected);
}

/// Calls in odd shapes, each with call id, name and arguments or input of what becomes of it.
#[test]
fn calls() {
    let minted = "call_01234567_0";
    for (message, expected) in [
        (json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]}), ("a", "f", "{\"x\":1}")),
        (json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": null}}]}), ("a", "f", "")),
        (json!({"tool_calls": [{"id": "", "function": {"name": "f"}}]}), (minted, "f", "")),
        (json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": [1]}}]}), ("a", "f", "[1]")),
        (json!({"tool_calls": [{"id": "a", "name": "f", "arguments": "x"}]}), ("a", "f", "x")),
        (json!({"function_call": {"name": "f", "arguments": "{}"}, "tool_calls": null}), (minted, "f", "{}")),
        (json!({"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}), ("a", "sh", "ls")),
    ] {
        let item = of_message(&message, "stop").unwrap()["output"][0].take();
        let custom = item["type"] == "custom_tool_call";
        let text = if custom { &item["input"] } else { &item["arguments"] };
        assert_eq!(custom, expected.1 == "sh", "{message}");
        assert_eq!(
            (item["call_id"].as_str(), item["name"].as_str(), text.as_str()),
            (Some(expected.0), Some(expected.1), Some(expected.2))
        );
    }
}

#[test]
fn texts() {
    for (message, expected) in [
        (json!({"content": ""}), json!([])),
        (json!({"content": [{"type": "text", "text": "a"}, "b", null, {"type": "text", "text": "c"}]}), json!([["output_text", "abc"]])),
        (json!({"refusal": "no", "content": null}), json!([["refusal", "no"]])),
        (json!({"refusal": "no", "content": "yes"}), json!([["output_text", "yes"], ["refusal", "no"]])),
        (
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]}),
            json!([["reasoning_text", "hm"], ["output_text", "a"]]),
        ),
        (json!({"content": "a", "reasoning": "hm", "reasoning_content": "hm"}), json!([["reasoning_text", "hm"], ["output_text", "a"]])),
        (
            json!({"content": "a", "reasoning": "x", "reasoning_content": "y"}),
            json!([["reasoning_text", "y"], ["reasoning_text", "x"], ["output_text", "a"]]),
        ),
        // What isn't the message's own text is left out, or was thought.
        (json!({"content": {"text": "a"}, "text": "b", "output_text": "c"}), json!([["output_text", "a"]])),
        (
            json!({"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {"type": "text", "text": "a"}]}),
            json!([["reasoning_text", "hm"], ["output_text", "a"]]),
        ),
        (json!({"content": "a", "audio": {"data": "", "expires_at": 0, "id": "", "transcript": ""}}), json!([["output_text", "a"]])),
    ] {
        let output = of_message(&message, "stop").unwrap()["output"].take();
        let part = |part: &Value| json!([part["type"], part.get("text").or(part.get("refusal"))]);
        let parts: Vec<Value> =
            output.as_array().unwrap().iter().flat_map(|item| item["content"].as_array().unwrap().iter().map(part)).collect();
        assert_eq!(json!(parts), expected, "{message}");
    }
}

#[test]
fn endings() {
    for (finish, status, reason, item) in [
        ("stop", "completed", Value::Null, "completed"),
        ("", "completed", Value::Null, "completed"),
        ("tool_calls", "completed", Value::Null, "completed"),
        ("length", "incomplete", json!("max_output_tokens"), "incomplete"),
        ("content_filter", "incomplete", json!("content_filter"), "incomplete"),
    ] {
        let message = json!({"content": "a", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]});
        let found = of_message(&message, finish).unwrap();
        assert_eq!((found["status"].as_str(), &found["incomplete_details"]["reason"]), (Some(status), &reason), "{finish}");
        assert_eq!((&found["output"][0]["status"], &found["output"][1]["status"]), (&json!("completed"), &json!(item)), "{finish}");
    }
}

#[test]
fn errors_are_reported() {
    for chat in [
        r#"{"error":{"message":"m"}}"#,
        r#"{"error":"m"}"#,
        r#"{"message":"m","type":"t","code":"c"}"#,
        r#"{"detail":"m"}"#,
        r#"{"object":"error"}"#,
        r#"[{"error":{"code":400}}]"#,
        r#"{"choices":[],"error":{"code":502}}"#,
        r#"{"choices":[{"message":{"content":"a"},"error":{"code":502}}]}"#,
        r#"{"choices":[{"message":{"content":"a"}}],"x_groq":{"error":{"message":"m"}}}"#,
    ] {
        assert!(matches!(translated(chat), Err(TranslateFault::Reported(_))), "{chat}: {:?}", translated(chat));
    }
}

#[test]
fn what_would_be_lost_is_refused() {
    for chat in [
        "",
        "{",
        "[]",
        "1",
        r#"{"choices":[]}"#,
        r#"{"choices":{}}"#,
        r#"{"id":"x"}"#,
        r#"{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}"#,
        r#"{"choices":[{"index":1,"message":{"content":"a"}}]}"#,
        r#"{"choices":[{"message":{"content":"a"}}],"choices":[]}"#,
        r#"{"choices":[{"message":{"content":"a"}}],"tool_calls":[{"id":"x"}]}"#,
        r#"{"choices":[{"message":{"content":"a"},"delta":{"tool_calls":[{"id":"x"}]}}]}"#,
        r#"{"choices":[{"message":{"content":"a"},"text":[{"type":"tool_use","name":"x"}]}]}"#,
        r#"{"choices":[{"message":{"content":"a","content":"b"}}]}"#,
        r#"{"choices":[{"message":{"content":"a","Tool_Calls":[{"id":"x"}]}}]}"#,
        r#"{"choices":[{"message":{"content":[{"type":"tool_use","text":"a"}]}}]}"#,
        r#"{"choices":[{"message":{"content":[{"type":"image_url","image_url":{"url":"x"}}]}}]}"#,
        r#"{"choices":[{"message":{"content":"a","audio":{"transcript":"b"}}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":[{"id":"x","function":{"name":"f"}}],"function_call":{"name":"f"}}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":["x"]}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":[{"custom":{"name":"sh","input":{"a":1}}}]}}]}"#,
        r#"{"choices":[{"message":null}]}"#,
        r#"{"choices":[{"message":{"content":"a"},"finish_reason":"error"}]}"#,
    ] {
        let found = translated(chat);
        assert!(found.is_err() && !matches!(found, Err(TranslateFault::Reported(_))), "{chat}: {found:?}");
    }
}
