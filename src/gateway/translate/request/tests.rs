//! Tests of the translated request: which members, which messages, and what is refused.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Untranslatable, request};
use crate::{translate::Translation, wire::json::Document};

fn translated(request_text: &str) -> Result<String, Untranslatable> {
    let document = Document::parse(Bytes::copy_from_slice(request_text.as_bytes())).unwrap();
    request(&document, Translation::RESPONSES_TO_CHAT).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

fn translated_json(value: &Value) -> Value {
    let text = translated(&value.to_string()).unwrap_or_else(|error| panic!("{value}: {error:?}"));
    serde_json::from_str(&text).unwrap()
}

fn messages(input: &Value) -> Value {
    translated_json(&json!({"model": "m", "input": input}))["messages"].take()
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "f", "arguments": "{\"id\": 1}", "status": "completed"})
}

fn output(id: &str, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": text})
}

fn said(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn reasoning(id: &str, text: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "content": [{"type": "reasoning_text", "text": text}]})
}

/// An assistant message of chat in short: its content and its calls.
fn turn(content: Value, ids: &[&str]) -> Value {
    let mut message = json!({"role": "assistant", "content": content});
    if !ids.is_empty() {
        let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"id\": 1}"}});
        message["tool_calls"] = ids.iter().map(call).collect();
    }
    message
}

fn tool(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

#[test]
fn every_order_becomes_legal_chat() {
    let null = || Value::Null;
    for (name, input, expected) in [
        ("one call", json!([call("a"), output("a", "1")]), json!([turn(null(), &["a"]), tool("a", "1")])),
        (
            "one after the other",
            json!([call("a"), output("a", "1"), call("b"), output("b", "2")]),
            json!([turn(null(), &["a"]), tool("a", "1"), turn(null(), &["b"]), tool("b", "2")]),
        ),
        (
            "parallel, outputs in another order",
            json!([call("a"), call("b"), output("b", "2"), output("a", "1")]),
            json!([turn(null(), &["a", "b"]), tool("a", "1"), tool("b", "2")]),
        ),
        ("message, then calls", json!([said("hm"), call("a"), output("a", "1")]), json!([turn(json!("hm"), &["a"]), tool("a", "1")])),
        (
            "call, text, output",
            json!([call("a"), said("wait"), output("a", "1"), said("done")]),
            json!([turn(json!("wait"), &["a"]), tool("a", "1"), turn(json!("done"), &[])]),
        ),
        (
            "text between two outputs",
            json!([call("a"), call("b"), output("a", "1"), said("so far"), output("b", "2")]),
            json!([turn(json!("so far"), &["a", "b"]), tool("a", "1"), tool("b", "2")]),
        ),
        (
            "a call between two outputs",
            json!([call("a"), call("b"), output("a", "1"), call("c"), output("b", "2"), output("c", "3")]),
            json!([turn(null(), &["a", "b"]), tool("a", "1"), tool("b", "2"), turn(null(), &["c"]), tool("c", "3")]),
        ),
        (
            "two texts around a call",
            json!([said("one"), call("a"), said("two"), output("a", "1")]),
            json!([turn(json!("one\n\ntwo"), &["a"]), tool("a", "1")]),
        ),
        (
            "a user who can't wait",
            json!([call("a"), user("well?"), output("a", "1"), said("here")]),
            json!([turn(null(), &["a"]), tool("a", "1"), user("well?"), turn(json!("here"), &[])]),
        ),
        (
            "the same id in two turns",
            json!([call("x"), output("x", "1"), user("again"), call("x"), output("x", "2")]),
            json!([turn(null(), &["x"]), tool("x", "1"), user("again"), turn(null(), &["x"]), tool("x", "2")]),
        ),
        (
            "the same id twice in one turn",
            json!([call("x"), call("x"), output("x", "1"), output("x", "2")]),
            json!([turn(null(), &["x", "x"]), tool("x", "1"), tool("x", "2")]),
        ),
        ("two users, two assistants", json!([user("1"), said("2"), user("3"), said("4")]), {
            json!([user("1"), turn(json!("2"), &[]), user("3"), turn(json!("4"), &[])])
        }),
    ] {
        assert_eq!(messages(&input), expected, "{name}");
    }
}

#[test]
fn reasoning_goes_back_where_it_came_from() {
    let input = json!([
        reasoning("rs_c_0_0", "one"),
        reasoning("rs_68af", "native"),
        reasoning("rs_t_0_0", "mistral's"),
        call("a"),
        output("a", "1"),
        reasoning("rs_r_0_0", "two"),
        said("x"),
        user("y"),
        reasoning("rs_c_0_0", "alone"),
    ]);
    let (mut first, mut second) = (turn(Value::Null, &["a"]), turn(json!("x"), &[]));
    (first["reasoning_content"], second["reasoning"]) = (json!("one"), json!("two"));
    assert_eq!(messages(&input), json!([first, tool("a", "1"), second, user("y")]));
}

#[test]
fn contents() {
    let text = json!({"type": "text", "text": "a"});
    for (item, expected) in [
        (json!("hi"), user("hi")),
        (json!([{"role": "developer", "content": "d"}]), json!({"role": "system", "content": "d"})),
        (json!([{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]), json!({"role": "user", "content": [text]})),
        (json!([{"role": "user", "content": []}]), user("")),
        (
            json!([{"role": "user", "content": [
                {"type": "input_image", "image_url": "data:x", "detail": "low", "file_id": null},
                {"type": "input_image", "image_url": "data:y"},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                {"type": "input_file", "filename": "f.pdf", "file_data": "data:z"}]}]),
            json!({"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "data:y"}},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                {"type": "file", "file": {"filename": "f.pdf", "file_data": "data:z"}}]}),
        ),
        (json!([{"role": "assistant", "content": "easy"}]), turn(json!("easy"), &[])),
        (
            json!([{"role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]}]),
            turn(json!("ab"), &[]),
        ),
        (
            json!([{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]),
            json!({"role": "assistant", "content": null, "refusal": "no"}),
        ),
    ] {
        assert_eq!(messages(&item)[0], expected, "{item}");
    }
    let parts = json!([call("a"), {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "a"}]}]);
    assert_eq!(messages(&parts)[1], json!({"role": "tool", "tool_call_id": "a", "content": [text]}));
    let custom = json!([{"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "x"}]);
    let expected = json!({"role": "assistant", "content": null,
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]});
    assert_eq!(messages(&custom), json!([expected, tool("c", "x")]));
}

/// Each with what becomes of it beside `messages` and `model`, byte for byte.
#[test]
fn members() {
    for (members, expected) in [
        (
            r#""temperature":1.50,"top_p":null,"user":"\u0041","seed":1e0,"x":{ "y" : 1 }"#,
            r#","temperature":1.50,"user":"\u0041","seed":1e0,"x":{ "y" : 1 }"#,
        ),
        (r#""include":["x"],"store":true,"metadata":{"a":"b"},"truncation":"disabled","max_tool_calls":2,"background":false"#, ""),
        (r#""stream_options":{"include_obfuscation":false},"prompt_cache_retention":"24h","previous_response_id":null"#, ""),
        (r#""max_output_tokens":1e2"#, r#","max_tokens":1e2"#),
        (r#""stream":true"#, r#","stream":true,"stream_options":{"include_usage":true}"#),
        (r#""stream":false"#, r#","stream":false"#),
        (r#""top_logprobs":2"#, r#","logprobs":true,"top_logprobs":2"#),
        (r#""reasoning":{"effort":"low","summary":"auto"}"#, r#","reasoning_effort":"low""#),
        (r#""text":{"format":{"type":"text"},"verbosity":"low"}"#, r#","verbosity":"low""#),
        (r#""text":{"format":{"type":"json_object"}}"#, r#","response_format":{"type":"json_object"}"#),
        (
            r#""text":{"format":{"type":"json_schema","strict":true,"name":"n","schema":{ "type":"object"}}}"#,
            r#","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{ "type":"object"},"strict":true}}"#,
        ),
        (r#""tools":[],"tool_choice":"required","parallel_tool_calls":false"#, ""),
        (r#""tool_choice":{"type":"file_search"}"#, ""),
        (
            r#""tools":[{"type":"function","name":"f","parameters":{ "a":1.0},"strict":null,"defer_loading":true}],"tool_choice":"auto","parallel_tool_calls":true"#,
            r#","tools":[{"type":"function","function":{"name":"f","parameters":{ "a":1.0}}}],"tool_choice":"auto","parallel_tool_calls":true"#,
        ),
        (
            r#""tools":[{"type":"function","name":"f","description":"d","parameters":null,"strict":true},{"type":"function","name":"g","strict":false}],"tool_choice":{"type":"function","name":"f"}"#,
            r#","tools":[{"type":"function","function":{"name":"f","description":"d","strict":true}},{"type":"function","function":{"name":"g"}}],"tool_choice":{"type":"function","function":{"name":"f"}}"#,
        ),
        (
            r#""tools":[{"type":"custom","name":"c","format":{"type":"grammar","syntax":"lark","definition":"s"}},{"type":"custom","name":"e","format":{"type":"text"}}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"c"}]}"#,
            r#","tools":[{"type":"custom","custom":{"name":"c","format":{"type":"grammar","grammar":{"definition":"s","syntax":"lark"}}}},{"type":"custom","custom":{"name":"e","format":{"type":"text"}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"custom","custom":{"name":"c"}}]}}"#,
        ),
    ] {
        let out = translated(&format!(r#"{{"model":"m","input":"hi",{members}}}"#)).unwrap();
        assert_eq!(out, format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{expected}}}"#));
    }
    let out = translated(r#"{"input":"hi","instructions":"be\u0020kind"}"#).unwrap();
    assert_eq!(out, r#"{"messages":[{"role":"system","content":"be\u0020kind"},{"role":"user","content":"hi"}]}"#);
}

#[test]
fn members_that_are_refused() {
    for (members, param) in [
        (r#""input":"a","previous_response_id":"resp_1""#, "previous_response_id"),
        (r#""input":"a","conversation":"c""#, "conversation"),
        (r#""input":"a","background":true"#, "background"),
        (r#""input":"a","prompt":{"id":"p"}"#, "prompt"),
        (r#""input":"a","truncation":"auto""#, "truncation"),
        (r#""input":"a","context_management":[]"#, "context_management"),
        (r#""input":"a","moderation":{}"#, "moderation"),
        (r#""input":"a","messages":[]"#, "messages"),
        (r#""input":"a","n":2"#, "n"),
        (r#""input":"a","m\u0065ssages":[]"#, "messages"),
        (r#""input":"a","max_output_tokens":1,"max_tokens":2"#, "max_tokens"),
        (r#""input":"a","input":"b""#, "input"),
        (r#""model":"m""#, "input"),
        (r#""input":null"#, "input"),
        (r#""input":{}"#, "input"),
        (r#""input":"a","instructions":["x"]"#, "instructions"),
        (r#""input":"a","text":{"format":{"type":"grammar"}}"#, "text.format"),
        (r#""input":"a","tools":{"type":"function"}"#, "tools"),
        (r#""input":"a","tools":[{"type":"function","name":"f"},{"type":"web_search"}]"#, "tools[1]"),
        (r#""input":"a","tools":[{"type":"namespace","name":"n","tools":[]}]"#, "tools[0]"),
        (r#""input":"a","tools":[{"type":"function","function":{"name":"f"}}]"#, "tools[0].name"),
        (r#""input":"a","tools":[{"type":"function","name":"f","name":"g"}]"#, "tools[0]"),
        (r#""input":"a","tools":[{"type":"custom","name":"f","format":{"type":"regex"}}]"#, "tools[0].format"),
        (r#""input":"a","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"web_search"}"#, "tool_choice"),
        (
            r#""input":"a","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"mcp"}]}"#,
            "tool_choice.tools[0]",
        ),
        (r#""input":[{"role":"user","content":"a","content":"b"}]"#, "input[0]"),
        (r#""input":[{"type":"message","role":"user","content":"a","role":"system"}]"#, "input[0]"),
    ] {
        let refused = translated(&format!("{{{members}}}")).expect_err(members);
        assert_eq!(refused.param, param, "{members}: {}", refused.message);
    }
}

#[test]
fn items_that_are_refused() {
    for (input, param) in [
        (json!([user("a"), {"type": "item_reference", "id": "x"}]), "input[1]"),
        (json!([{"type": "mcp_call"}]), "input[0]"),
        (json!([{"type": "computer_call_output"}]), "input[0]"),
        (json!([{"type": "compaction"}]), "input[0]"),
        (json!([{"type": "tool_search_output"}]), "input[0]"),
        (json!([{"type": "additional_tools"}]), "input[0]"),
        (json!(["text"]), "input[0]"),
        (json!([{"role": "tool", "content": "x"}]), "input[0].role"),
        (json!([{"role": "user"}]), "input[0].content"),
        (json!([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]), "input[0].content[0].file_id"),
        (json!([{"role": "user", "content": [{"type": "input_file", "file_url": "u"}]}]), "input[0].content[0].file_url"),
        (json!([{"role": "system", "content": [{"type": "input_image", "image_url": "u"}]}]), "input[0].content[0]"),
        (json!([{"role": "assistant", "content": [{"type": "input_image", "image_url": "u"}]}]), "input[0].content[0]"),
        (
            json!([call("a"), {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_image", "image_url": "u"}]}]),
            "input[1].output[0]",
        ),
        (json!([{"type": "function_call", "call_id": "a", "name": "f", "arguments": {}}]), "input[0].arguments"),
        (json!([{"type": "function_call", "call_id": "a", "name": "f", "arguments": "", "namespace": "n"}]), "input[0].namespace"),
        (json!([call("a")]), "input"),
        (json!([output("a", "1")]), "input"),
        (json!([call("a"), output("a", "1"), output("a", "2")]), "input"),
        (json!([output("a", "1"), call("a")]), "input"),
    ] {
        let refused = translated(&json!({"input": input}).to_string()).expect_err(&input.to_string());
        assert_eq!(refused.param, param, "{input}: {}", refused.message);
    }
}
