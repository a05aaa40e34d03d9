//! Tests of requests from and to the Messages API: which members, which turns, and what is refused.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Untranslatable, names::chat_name, request};
use crate::{translate::Translation, wire::json::Document};

fn translated(value: &Value, translation: Translation) -> Result<Value, Untranslatable> {
    let document = Document::parse(Bytes::from(value.to_string())).unwrap();
    request(&document, translation).map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

fn to_chat(value: &Value) -> Value {
    translated(value, Translation::MESSAGES_TO_CHAT).unwrap_or_else(|error| panic!("{value}: {error:?}"))
}

fn to_messages(value: &Value) -> Value {
    translated(value, Translation::CHAT_TO_MESSAGES).unwrap_or_else(|error| panic!("{value}: {error:?}"))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {"x": 1}})
}

fn tool_result(id: &str, content: Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}})
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

fn said(role: &str, content: Value) -> Value {
    json!({"role": role, "content": content})
}

#[test]
fn messages_history_becomes_legal_chat() {
    let calling = |content: Value, ids: &[&str]| json!({"role": "assistant", "content": content, "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>()});
    let png = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}});
    let chat_png = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}});
    for (name, messages, expected) in [
        ("a string", json!([said("user", json!("hi"))]), json!([said("user", json!([text("hi")]))])),
        (
            "parallel calls, results in another order with text behind",
            json!([
                said("assistant", json!([text("a"), text("b"), tool_use("1"), tool_use("2")])),
                said("user", json!([tool_result("2", json!("two")), tool_result("1", json!([text("one"), text("more")])), text("go on")])),
            ]),
            json!([calling(json!("ab"), &["1", "2"]), tool("1", "one\nmore"), tool("2", "two"), said("user", json!([text("go on")]))]),
        ),
        (
            "calls in two messages, results in one",
            json!([
                said("assistant", json!([tool_use("1")])),
                said("assistant", json!([text("and"), tool_use("2")])),
                said("user", json!([tool_result("1", json!("one"))])),
                said("user", json!([tool_result("2", json!("two"))])),
            ]),
            json!([calling(json!("and"), &["1", "2"]), tool("1", "one"), tool("2", "two")]),
        ),
        (
            "failures, missing content and images",
            json!([
                said("assistant", json!([tool_use("1"), tool_use("2"), tool_use("3")])),
                said(
                    "user",
                    json!([
                        {"type": "tool_result", "tool_use_id": "1", "content": "no such file", "is_error": true},
                        {"type": "tool_result", "tool_use_id": "2", "is_error": false},
                        tool_result("3", json!([text("seen"), png])),
                    ])
                ),
            ]),
            json!([
                calling(Value::Null, &["1", "2", "3"]),
                tool("1", "The tool reported an error (is_error):\nno such file"),
                tool("2", ""),
                json!({"role": "tool", "tool_call_id": "3", "content": [text("seen")]}),
                said("user", json!([text("From the result of the call `3` of `f`:"), chat_png])),
            ]),
        ),
        (
            "thinking is left out, a thought alone too",
            json!([
                said("user", json!("q")),
                said("assistant", json!([{"type": "thinking", "thinking": "hm", "signature": "s"}])),
                said("user", json!("r")),
                said("assistant", json!([{"type": "redacted_thinking", "data": "d"}, text("a")])),
                said("user", json!("s")),
            ]),
            json!([
                said("user", json!([text("q")])),
                said("user", json!([text("r")])),
                said("assistant", json!("a")),
                said("user", json!([text("s")])),
            ]),
        ),
        (
            "a system message in the middle",
            json!([
                said("user", json!("q")),
                said("system", json!([text("be kind")])),
                said("assistant", json!("a")),
                said("user", json!("b"))
            ]),
            json!([
                said("user", json!([text("q"), text("Note from the system, not from the user:\nbe kind")])),
                said("assistant", json!("a")),
                said("user", json!([text("b")])),
            ]),
        ),
        (
            "documents and references",
            json!([said(
                "user",
                json!([
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "title": "t"},
                    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
                    {"type": "search_result", "source": "s", "title": "u", "content": [text("c")]},
                    {"type": "tool_reference", "tool_name": "f"},
                ])
            )]),
            json!([said(
                "user",
                json!([
                    text("t"), text("d"),
                    {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,AA"}},
                    text("u\ns"), text("c"), text("The tool `f` is available."),
                ])
            )]),
        ),
    ] {
        let found = to_chat(&json!({"model": "m", "max_tokens": 5, "messages": messages}))["messages"].take();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn members_of_messages() {
    let base = json!({"model": "m", "max_tokens": 5, "messages": [said("user", json!("q"))]});
    let tools = json!([{"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true, "cache_control": {"type": "ephemeral"}, "defer_loading": true}]);
    let chat_tools =
        json!([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}]);
    for (members, expected) in [
        (
            json!({"temperature": 0.5, "top_p": 1, "top_k": 4, "stop_sequences": ["a"]}),
            json!({"temperature": 0.5, "top_p": 1, "top_k": 4, "stop": ["a"]}),
        ),
        (json!({"metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"}, "service_tier": "auto"}), json!({"user": "u"})),
        (json!({"stream": true}), json!({"stream": true, "stream_options": {"include_usage": true}})),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 5000}}), json!({"reasoning_effort": "medium"})),
        (json!({"thinking": {"type": "adaptive", "display": "omitted"}, "context_management": {"edits": []}}), json!({})),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 1024}, "output_config": {"effort": "max"}}),
            json!({"reasoning_effort": "high"}),
        ),
        (
            json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": true}}}),
        ),
        (json!({"tools": tools}), json!({"tools": chat_tools})),
        (json!({"tools": tools, "tool_choice": {"type": "any"}}), json!({"tools": chat_tools, "tool_choice": "required"})),
        (
            json!({"tools": tools, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            json!({"tools": chat_tools, "tool_choice": "auto", "parallel_tool_calls": false}),
        ),
        (
            json!({"tools": tools, "tool_choice": {"type": "tool", "name": "f"}}),
            json!({"tools": chat_tools, "tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ),
        (json!({"tools": [], "tool_choice": {"type": "none"}}), json!({})),
    ] {
        let (mut asked, mut full) = (base.clone(), json!({"model": "m", "max_tokens": 5, "messages": [said("user", json!([text("q")]))]}));
        asked.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        full.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        assert_eq!(to_chat(&asked), full, "{members}");
    }
    let mut system = base;
    system["system"] =
        json!([text("x-anthropic-billing-header: v=1"), {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, text("b")]);
    assert_eq!(to_chat(&system)["messages"][0], said("system", json!("a\n\nb")));
}

#[test]
fn tools_that_messages_define_are_offered() {
    let definition = json!({"type": "tool_definition", "definition": {"name": "g", "input_schema": {"type": "object"}}});
    let asked = json!({"model": "m", "max_tokens": 5, "messages": [said("user", json!("q")), said("system", json!([{"type": "tool_addition", "tool": definition}]))]});
    assert_eq!(to_chat(&asked)["tools"][0]["function"]["name"], "g");
}

#[test]
fn long_names_are_short_upstream_everywhere() {
    let name = "mcp__".to_owned() + &"x".repeat(100);
    let asked = json!({"model": "m", "max_tokens": 5, "tools": [{"name": name, "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": name},
        "messages": [said("user", json!("q")), said("assistant", json!([{"type": "tool_use", "id": "1", "name": name, "input": {}}])), said("user", json!([tool_result("1", json!("r"))]))]});
    let (chat, short) = (to_chat(&asked), chat_name(&name).into_owned());
    assert_eq!(chat["tools"][0]["function"]["name"], short);
    assert_eq!(chat["tool_choice"]["function"]["name"], short);
    assert_eq!(chat["messages"][1]["tool_calls"][0]["function"]["name"], short);
}

#[test]
fn messages_that_chat_cannot_say_are_refused_by_name() {
    let with = |members: Value| {
        let mut asked = json!({"model": "m", "max_tokens": 5, "messages": [said("user", json!("q"))]});
        asked.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        asked
    };
    let block = |block: Value| with(json!({"messages": [said("user", json!([block]))]}));
    let answer =
        |block: Value| with(json!({"messages": [said("user", json!("q")), said("assistant", json!([block])), said("user", json!("r"))]}));
    for (asked, param) in [
        (with(json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})), "tools[0]"),
        (with(json!({"tools": [{"type": "bash_20250124", "name": "bash"}]})), "tools[0]"),
        (with(json!({"container": "c"})), "container"),
        (with(json!({"mcp_servers": []})), "mcp_servers"),
        (with(json!({"thread": {"type": "create"}})), "thread"),
        (with(json!({"inference_geo": "us"})), "inference_geo"),
        (with(json!({"max_tokens": 0})), "max_tokens"),
        (with(json!({"some_new_member": 1})), "some_new_member"),
        (with(json!({"output_config": {"task_budget": 1}})), "output_config.task_budget"),
        (with(json!({"tool_choice": {"type": "best"}, "tools": []})), "tool_choice"),
        (with(json!({"messages": "q"})), "messages"),
        (with(json!({"messages": ["q"]})), "messages.0"),
        (with(json!({"system": 1})), "system"),
        (block(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})), "messages.0.content.0.source"),
        (block(json!({"type": "document", "source": {"type": "url", "url": "u"}})), "messages.0.content.0.source"),
        (
            block(json!({"type": "document", "source": {"type": "text", "data": "d"}, "citations": {"enabled": true}})),
            "messages.0.content.0.citations",
        ),
        (block(json!({"type": "container_upload", "file_id": "f"})), "messages.0.content.0"),
        (block(tool_result("9", json!("r"))), "messages.0.content.0"),
        (answer(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})), "messages.1.content.0"),
        (answer(tool_use("1")), "messages"),
        (
            answer(
                json!({"type": "tool_use", "id": "1", "name": "f", "input": {}, "caller": {"type": "code_execution_20260120", "tool_id": "t"}}),
            ),
            "messages.1.content.0.caller",
        ),
        (answer(json!({"type": "tool_use", "id": "1", "name": "f", "input": "{}"})), "messages.1.content.0.input"),
        (
            with(json!({"messages": [said("user", json!("q")), said("system", json!([{"type": "tool_removal", "tool": {"name": "f"}}]))]})),
            "messages.1.content.0",
        ),
    ] {
        let refused = translated(&asked, Translation::MESSAGES_TO_CHAT).expect_err(&asked.to_string());
        assert_eq!(refused.param, param, "{asked}: {}", refused.message);
    }
}

#[test]
fn chat_becomes_messages() {
    let calling = |content: Value, ids: &[&str]| json!({"role": "assistant", "content": content, "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>()});
    for (name, messages, system, expected) in [
        ("a string", json!([said("user", json!("hi"))]), Value::Null, json!([said("user", json!([text("hi")]))])),
        (
            "system messages at the start and later",
            json!([
                said("system", json!("a")),
                said("developer", json!([text("b")])),
                said("user", json!("q")),
                said("system", json!("c"))
            ]),
            json!([text("a"), text("b")]),
            json!([said("user", json!([text("q"), text("Note from the system, not from the user:\nc")]))]),
        ),
        (
            "calls, results and the user in one message, results first",
            json!([
                said("user", json!("q")),
                calling(json!(""), &["1", "2"]),
                tool("2", "two"),
                tool("1", "one"),
                said("user", json!("go on"))
            ]),
            Value::Null,
            json!([
                said("user", json!([text("q")])),
                said("assistant", json!([tool_use("1"), tool_use("2")])),
                said("user", json!([tool_result("1", json!("one")), tool_result("2", json!("two")), text("go on")])),
            ]),
        ),
        (
            "two assistants, blank texts, a refusal",
            json!([said("user", json!("q")), said("assistant", json!("a")), {"role": "assistant", "content": " ", "refusal": "no"}, said("user", json!(""))]),
            Value::Null,
            json!([said("user", json!([text("q")])), said("assistant", json!([text("a"), text("no")]))]),
        ),
        (
            "images, files and a name",
            json!([{"role": "user", "name": "ann", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "file", "file": {"filename": "f.pdf", "file_data": "data:application/pdf;base64,AA"}}]}]),
            Value::Null,
            json!([said(
                "user",
                json!([
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}, "title": "f.pdf"}])
            )]),
        ),
    ] {
        let found = to_messages(&json!({"model": "m", "messages": messages}));
        assert_eq!((&found["messages"], &found["system"]), (&expected, &system), "{name}");
    }
    let odd = json!({"model": "m", "messages": [said("user", json!("q")),
        {"role": "assistant", "content": null, "tool_calls": [{"id": "functions.f:0", "function": {"name": "f", "arguments": ""}}]}, tool("functions.f:0", "r")]});
    let found = to_messages(&odd);
    let (called, result) = (&found["messages"][1]["content"][0], &found["messages"][2]["content"][0]);
    assert_eq!((&called["input"], &called["id"]), (&json!({}), &result["tool_use_id"]));
    assert!(called["id"].as_str().unwrap().starts_with("call_"), "{called}");
}

#[test]
fn members_of_chat() {
    let tools = json!([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}, {"type": "function", "function": {"name": "g"}}]);
    let own = json!([{"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true}, {"name": "g", "input_schema": {"type": "object", "properties": {}}}]);
    for (members, expected) in [
        (json!({}), json!({"max_tokens": 32000})),
        (json!({"model": "claude-3-haiku-20240307"}), json!({"model": "claude-3-haiku-20240307", "max_tokens": 4096})),
        (
            json!({"max_completion_tokens": 7, "temperature": 1, "top_p": 0.5, "stop": "a", "user": "u"}),
            json!({"max_tokens": 7, "temperature": 1, "top_p": 0.5, "stop_sequences": ["a"], "metadata": {"user_id": "u"}}),
        ),
        (json!({"stop": ["a", "b"], "max_tokens": 7}), json!({"max_tokens": 7, "stop_sequences": ["a", "b"]})),
        (
            json!({"n": 1, "seed": 3, "frequency_penalty": 0, "presence_penalty": 0.0, "logprobs": false, "logit_bias": {}, "store": true, "metadata": {"a": "b"},
            "parallel_tool_calls": false, "tool_choice": "auto", "modalities": ["text"], "max_tokens": 7}),
            json!({"max_tokens": 7}),
        ),
        (json!({"stream": true, "stream_options": {"include_usage": true}, "max_tokens": 7}), json!({"stream": true, "max_tokens": 7})),
        (json!({"reasoning_effort": "minimal", "max_tokens": 7}), json!({"max_tokens": 7, "output_config": {"effort": "low"}})),
        (json!({"reasoning_effort": "none", "max_tokens": 7}), json!({"max_tokens": 7})),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}, "max_tokens": 7}),
            json!({"max_tokens": 7, "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
        ),
        (json!({"response_format": {"type": "text"}, "max_tokens": 7}), json!({"max_tokens": 7})),
        (json!({"tools": tools, "max_tokens": 7}), json!({"tools": own, "max_tokens": 7})),
        (
            json!({"tools": tools, "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 7}),
            json!({"tools": own, "max_tokens": 7, "tool_choice": {"type": "any", "disable_parallel_tool_use": true}}),
        ),
        (
            json!({"tools": tools, "tool_choice": "none", "max_tokens": 7}),
            json!({"tools": own, "max_tokens": 7, "tool_choice": {"type": "none"}}),
        ),
        (
            json!({"tools": tools, "parallel_tool_calls": false, "max_tokens": 7}),
            json!({"tools": own, "max_tokens": 7, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
        ),
        (
            json!({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "f"}}, "max_tokens": 7}),
            json!({"tools": own, "max_tokens": 7, "tool_choice": {"type": "tool", "name": "f"}}),
        ),
    ] {
        let mut asked = json!({"model": "m", "messages": [said("user", json!("q"))]});
        let mut full = json!({"model": "m", "messages": [said("user", json!([text("q")]))]});
        asked.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        full.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        assert_eq!(to_messages(&asked), full, "{members}");
    }
}

#[test]
fn chat_that_messages_cannot_say_is_refused_by_name() {
    let with = |members: Value| {
        let mut asked = json!({"model": "m", "messages": [said("user", json!("q"))]});
        asked.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        asked
    };
    let part = |part: Value| with(json!({"messages": [said("user", json!([part]))]}));
    let history = |turns: Value| with(json!({"messages": turns}));
    for (asked, param) in [
        (with(json!({"n": 2})), "n"),
        (with(json!({"logprobs": true})), "logprobs"),
        (with(json!({"frequency_penalty": 1})), "frequency_penalty"),
        (with(json!({"logit_bias": {"1": 2}})), "logit_bias"),
        (with(json!({"modalities": ["text", "audio"]})), "modalities"),
        (with(json!({"audio": {}})), "audio"),
        (with(json!({"functions": []})), "functions"),
        (with(json!({"web_search_options": {}})), "web_search_options"),
        (with(json!({"some_new_member": 1})), "some_new_member"),
        (with(json!({"response_format": {"type": "json_object"}})), "response_format"),
        (with(json!({"max_tokens": 1, "max_completion_tokens": 2})), "max_tokens"),
        (with(json!({"tools": [{"type": "custom", "custom": {"name": "c", "format": {"type": "grammar"}}}]})), "tools[0].format"),
        (
            with(json!({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"type": "allowed_tools"}})),
            "tool_choice",
        ),
        (part(json!({"type": "input_audio", "input_audio": {}})), "messages"),
        (part(json!({"type": "file", "file": {"file_id": "f"}})), "messages[0].content[0].file.file_id"),
        (part(json!({"type": "video_url"})), "messages[0].content[0]"),
        (history(json!([said("function", json!("x"))])), "messages[0].role"),
        (history(json!([{"role": "assistant", "tool_calls": [call("1")]}])), "messages"),
        (history(json!([{"role": "assistant", "tool_calls": [call("1")]}, said("assistant", json!("x")), tool("1", "r")])), "messages"),
        (history(json!([tool("1", "r")])), "messages[0].tool_call_id"),
        (
            history(
                json!([{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\"x\":"}}]}, tool("1", "r")]),
            ),
            "messages",
        ),
        (history(json!([{"role": "assistant", "function_call": {"name": "f"}}])), "messages[0].function_call"),
    ] {
        let refused = translated(&asked, Translation::CHAT_TO_MESSAGES).expect_err(&asked.to_string());
        assert_eq!(refused.param, param, "{asked}: {}", refused.message);
    }
}

#[test]
fn custom_tools_become_tools_with_one_text() {
    let call = json!({"id": "1", "type": "custom", "custom": {"name": "sh", "input": "ls \"x\""}});
    let asked = json!({"model": "m", "max_tokens": 9, "tools": [{"type": "custom", "custom": {"name": "sh", "format": {"type": "text"}}}],
        "tool_choice": {"type": "custom", "custom": {"name": "sh"}},
        "messages": [said("user", json!("q")), {"role": "assistant", "tool_calls": [call]}, said("user", json!("and?")), tool("1", "r")]});
    let schema =
        json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": false});
    let result = json!({"type": "tool_result", "tool_use_id": "1", "content": "r"});
    let expected = json!({"model": "m", "max_tokens": 9, "tools": [{"name": "sh", "input_schema": schema}], "tool_choice": {"type": "tool", "name": "sh"},
        "messages": [said("user", json!([{"type": "text", "text": "q"}])),
            said("assistant", json!([{"type": "tool_use", "id": "1", "name": "sh", "input": {"input": "ls \"x\""}}])),
            // Results stand first, as the API demands.
            said("user", json!([result, {"type": "text", "text": "and?"}]))]});
    assert_eq!(to_messages(&asked), expected);
}

#[test]
fn responses_become_messages() {
    let asked = json!({"model": "m", "instructions": "i", "max_output_tokens": 9, "input": [
        said("user", json!("q")), {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"x\":1}"},
        {"type": "function_call_output", "call_id": "1", "output": "r"}]});
    let found = translated(&asked, Translation::RESPONSES_TO_MESSAGES).unwrap();
    assert_eq!(
        found,
        json!({"model": "m", "system": [text("i")], "max_tokens": 9, "messages": [
        said("user", json!([text("q")])), said("assistant", json!([tool_use("1")])), said("user", json!([tool_result("1", json!("r"))]))]})
    );
}
