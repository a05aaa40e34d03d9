//! Tests of answers from and to the Messages API, whole and streamed.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Origin, TranslateFault, answer, stream::StreamTranslator, tests::ID};
use crate::{
    translate::{Translation, request::names::chat_name},
    wire::{
        json::Document,
        sse::{SseEvent, SseParser},
    },
};

const HELD_BYTES_MAX: usize = 4096;

/// A tool whose name is too long for chat.
pub(in crate::translate) fn long_name() -> String {
    "mcp__".to_owned() + &"x".repeat(100)
}

/// For a request with tools that asks for thinking and, in chat, for usage.
pub(in crate::translate) fn origin(translation: Translation) -> Origin {
    let request = json!({"model": "asked", "thinking": {"type": "enabled"}, "stream_options": {"include_usage": true},
        "tools": [{"name": "f"}, {"name": long_name()}, {"type": "function", "function": {"name": "f"}}]});
    let document = Document::parse(Bytes::from(request.to_string())).unwrap();
    Origin::new(translation, &document, ID.to_owned(), 7)
}

fn whole(upstream: &Value, translation: Translation) -> Result<Value, TranslateFault> {
    answer(&Bytes::from(upstream.to_string()), &origin(translation)).map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

/// Bytes of the translated stream, fed in pieces of `piece` bytes.
pub(in crate::translate) fn streamed(upstream: &[u8], origin: Origin, piece: usize) -> Result<Vec<u8>, TranslateFault> {
    let (mut out, mut result) = (Vec::new(), Ok(()));
    let mut parser = SseParser::default();
    let mut translator = StreamTranslator::new(origin, HELD_BYTES_MAX * 64);
    let mut take = |event: SseEvent| {
        assert!(!event.plain || event.raw.starts_with(b"data: "), "{event:?}");
        out.extend_from_slice(&event.raw);
    };
    for piece in upstream.chunks(piece) {
        let handle = |event| {
            if result.is_ok() {
                result = translator.handle(event, &mut take);
            }
        };
        parser.handle(Bytes::copy_from_slice(piece), handle).unwrap();
    }
    if let Some(event) = parser.finish().filter(|_| result.is_ok()) {
        result = translator.handle(event, &mut take);
    }
    result.and_then(|()| translator.finish(&mut take))?;
    Ok(out)
}

fn data(sse: &[u8]) -> Vec<(Option<String>, Value)> {
    let mut events = Vec::new();
    let mut parser = SseParser::default();
    let name = |event: &SseEvent| event.name.as_ref().map(|name| String::from_utf8_lossy(name).into_owned());
    parser
        .handle(Bytes::copy_from_slice(sse), |event| {
            let Some(data) = &event.data else { return };
            events.push((name(&event), serde_json::from_slice(data).unwrap_or_else(|_| json!(String::from_utf8_lossy(data)))));
        })
        .unwrap();
    events
}

fn append(to: &mut Value, more: &Value) {
    *to = json!(to.as_str().unwrap_or_default().to_owned() + more.as_str().unwrap());
}

/// The message that a stream says. Everything on the way is held against docs/wire-facts.md#messages-streams.
pub(in crate::translate) fn folded_messages(sse: &[u8]) -> Value {
    let events = data(sse);
    let (mut message, mut open) = (Value::Null, None::<(Value, String)>);
    for (at, (name, data)) in events.iter().enumerate() {
        let kind = data["type"].as_str().unwrap();
        assert_eq!(name.as_deref(), Some(kind));
        assert_eq!((at == 0, at + 1 == events.len()), (kind == "message_start", kind == "message_stop"), "{data}");
        let next = message["content"].as_array().map_or(0, Vec::len);
        if kind.starts_with("content_block") {
            assert_eq!(data["index"], json!(next), "{data}");
        }
        match kind {
            "message_start" => {
                message = data["message"].clone();
                assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null));
                assert!(message["usage"]["input_tokens"].is_u64() && message["usage"]["output_tokens"].is_u64(), "{message}");
            }
            "content_block_start" => {
                assert!(open.is_none());
                open = Some((data["content_block"].clone(), String::new()));
            }
            "content_block_delta" => {
                let (block, input) = open.as_mut().unwrap();
                let delta = &data["delta"];
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(&mut block["text"], &delta["text"]),
                    "thinking_delta" => append(&mut block["thinking"], &delta["thinking"]),
                    "input_json_delta" => input.push_str(delta["partial_json"].as_str().unwrap()),
                    _ => panic!("{data}"),
                }
            }
            "content_block_stop" => {
                let (mut block, input) = open.take().unwrap();
                assert_ne!(block["text"], "", "{block}");
                if block["type"] == "tool_use" {
                    assert_eq!(block["input"], json!({}));
                    let parsed = serde_json::from_str::<Value>(&input).ok().filter(Value::is_object);
                    block["input"] = parsed.unwrap_or(json!(input));
                }
                message["content"].as_array_mut().unwrap().push(block);
            }
            "message_delta" => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["usage"] = data["usage"].clone();
            }
            "message_stop" => assert!(open.is_none() && message["stop_reason"].is_string()),
            _ => panic!("{data}"),
        }
    }
    message
}

/// The completion that a stream says.
pub(in crate::translate) fn folded_chat(sse: &[u8]) -> Value {
    let events = data(sse);
    assert_eq!(events.last().unwrap().1, json!("[DONE]"));
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let (mut finish, mut usage, mut identity) = (Value::Null, Value::Null, Value::Null);
    for (name, chunk) in &events[..events.len() - 1] {
        assert_eq!((name, &chunk["object"]), (&None, &json!("chat.completion.chunk")));
        let own = json!([chunk["id"], chunk["created"], chunk["model"]]);
        assert!(identity.is_null() || identity == own, "{chunk}");
        identity = own;
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        for (member, value) in choice["delta"].as_object().unwrap() {
            match &**member {
                "role" => {}
                "tool_calls" => {
                    let mut call = value[0].clone();
                    let index = call.as_object_mut().unwrap().remove("index").unwrap();
                    let calls = message.as_object_mut().unwrap().entry("tool_calls").or_insert(json!([])).as_array_mut().unwrap();
                    assert_eq!(index, json!(calls.len()));
                    calls.push(call);
                }
                _ if value == "" => {}
                member => append(&mut message[member], value),
            }
        }
        if choice["finish_reason"].is_string() {
            assert!(finish.is_null());
            finish = choice["finish_reason"].clone();
        }
    }
    if message["content"].is_null() && message["tool_calls"].is_null() {
        message["content"] = json!("");
    }
    json!({"id": identity[0], "object": "chat.completion", "created": identity[1], "model": identity[2], "usage": usage,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}]})
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}  \n\n", data["type"].as_str().unwrap())
}

/// A message as Anthropic streams it, in deltas of `length` characters.
fn as_stream(message: &Value, length: usize) -> String {
    let mut head = message.clone();
    (head["content"], head["stop_reason"]) = (json!([]), Value::Null);
    head["usage"] = json!({"input_tokens": message["usage"]["input_tokens"], "output_tokens": 1});
    let mut out = event(&json!({"type": "message_start", "message": head})) + "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let mut start = block.clone();
        let (member, kind, partial, text) = match block["type"].as_str().unwrap() {
            "text" => ("text", "text_delta", "text", block["text"].as_str().unwrap().to_owned()),
            "thinking" => ("thinking", "thinking_delta", "thinking", block["thinking"].as_str().unwrap().to_owned()),
            _ => ("input", "input_json_delta", "partial_json", block["input"].to_string()),
        };
        start[member] = if member == "input" { json!({}) } else { json!("") };
        out += &event(&json!({"type": "content_block_start", "index": index, "content_block": start}));
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(length) {
            let mut delta = json!({"type": kind});
            delta[partial] = json!(piece.iter().collect::<String>());
            out += &event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        out += &event(&json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    out += &event(&json!({"type": "message_delta", "delta": delta, "usage": message["usage"]}));
    out + &event(&json!({"type": "message_stop"}))
}

fn message(content: Value, stop_reason: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "said", "content": content, "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 1}}})
}

fn completion(message: Value, finish: &str) -> Value {
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "said", "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 4}}})
}

#[test]
fn a_message_becomes_a_completion() {
    let content = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "a", "citations": null}, {"type": "text", "text": "b"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x":1}, "caller": {"type": "direct"}}]);
    let found = whole(&message(content, "tool_use"), Translation::CHAT_TO_MESSAGES).unwrap();
    let expected = json!({"id": format!("chatcmpl-{ID}"), "object": "chat.completion", "created": 7, "model": "said", "choices": [{"index": 0, "message": {
            "role": "assistant", "content": "ab", "refusal": null, "reasoning_content": "hm",
            "tool_calls": [{"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]}, "logprobs": null, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 1}}});
    assert_eq!(found, expected);
}

#[test]
fn a_completion_becomes_a_message() {
    let chat = json!({"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": chat_name(&long_name()), "arguments": "{\"x\": 1}"}},
        {"type": "function", "function": {"name": "made_up", "arguments": "{\"x\":"}}]});
    let found = whole(&completion(chat, "tool_calls"), Translation::MESSAGES_TO_CHAT).unwrap();
    let expected = json!({"id": format!("msg_{ID}"), "type": "message", "role": "assistant", "model": "said", "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "1", "name": long_name(), "input": {"x": 1}},
            {"type": "tool_use", "id": "call_01234567_3", "name": "made_up", "input": "{\"x\":"}],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 5}});
    assert_eq!(found, expected);
}

#[test]
fn endings_and_odd_answers() {
    for (chat, finish, stop, blocks) in [
        (json!({"content": "a"}), "stop", "end_turn", 1),
        (json!({"content": ""}), "stop", "end_turn", 0),
        (json!({"content": "a"}), "length", "max_tokens", 1),
        (json!({"content": "a"}), "content_filter", "refusal", 1),
        (json!({"content": null, "refusal": "no"}), "stop", "refusal", 0),
        // By some upstreams' reckoning a call ends the turn as text does.
        (json!({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}), "stop", "tool_use", 1),
    ] {
        let found = whole(&completion(chat.clone(), finish), Translation::MESSAGES_TO_CHAT).unwrap();
        assert_eq!((&found["stop_reason"], found["content"].as_array().map(Vec::len)), (&json!(stop), Some(blocks)), "{chat}");
    }
    for (stop, finish) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
    ] {
        let found = whole(&message(json!([{"type": "text", "text": "a"}]), stop), Translation::CHAT_TO_MESSAGES).unwrap();
        assert_eq!(found["choices"][0]["finish_reason"], finish, "{stop}");
    }
    // Calls are arguments as they came, whole or cut.
    for (block, arguments) in [
        (json!({"type": "tool_use", "id": "1", "name": "f", "input": {}}), "{}"),
        (json!({"type": "tool_use", "id": "1", "name": "f"}), ""),
        (json!({"type": "tool_use", "id": "1", "name": "f", "input": "{\"x\":"}), "{\"x\":"),
    ] {
        let found = whole(&message(json!([block]), "tool_use"), Translation::CHAT_TO_MESSAGES).unwrap();
        assert_eq!(found["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], arguments);
    }
}

#[test]
fn what_a_refusal_says_is_a_refusal_in_chat() {
    let mut refused = message(json!([]), "refusal");
    refused["stop_details"] = json!({"type": "refusal", "category": null, "explanation": "I won't."});
    let expected = json!({"role": "assistant", "content": "", "refusal": "I won't."});
    assert_eq!(whole(&refused, Translation::CHAT_TO_MESSAGES).unwrap()["choices"][0]["message"], expected);
    let start = event(&json!({"type": "message_start", "message": message(json!([]), "end_turn")}));
    let delta = json!({"stop_reason": "refusal", "stop_details": refused["stop_details"]});
    let end =
        event(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}})) + &event(&json!({"type": "message_stop"}));
    let stream = streamed((start + &end).as_bytes(), origin(Translation::CHAT_TO_MESSAGES), 16).unwrap();
    assert_eq!(folded_chat(&stream)["choices"][0]["message"], expected);
}

#[test]
fn thinking_leaves_only_where_it_is_asked_for() {
    for (thinking, blocks) in [(json!({"type": "disabled"}), 1), (Value::Null, 1), (json!({"type": "adaptive"}), 2)] {
        let document = Document::parse(Bytes::from(json!({"model": "m", "thinking": thinking}).to_string())).unwrap();
        let origin = Origin::new(Translation::MESSAGES_TO_CHAT, &document, ID.to_owned(), 7);
        let chat = completion(json!({"content": "a", "reasoning": "hm"}), "stop").to_string();
        let found: Value = serde_json::from_slice(&answer(&Bytes::from(chat), &origin).unwrap()).unwrap();
        assert_eq!(found["content"].as_array().unwrap().len(), blocks, "{thinking}");
    }
}

#[test]
fn what_would_be_lost_is_refused() {
    let block = |block: Value| message(json!([block]), "end_turn");
    for upstream in [
        json!({"id": "msg_1"}),
        json!([]),
        block(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        block(json!({"type": "some_new_block", "text": "a"})),
        block(json!({"type": "text", "text": ["a"]})),
        block(json!("a")),
        message(json!([]), "pause_turn"),
    ] {
        let found = whole(&upstream, Translation::CHAT_TO_MESSAGES);
        assert!(matches!(found, Err(TranslateFault::Unknown(_) | TranslateFault::Shape(_))), "{upstream}: {found:?}");
    }
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}});
    assert!(matches!(whole(&error, Translation::CHAT_TO_MESSAGES), Err(TranslateFault::Reported(_))));
}

#[test]
fn streams_that_break_the_grammar_are_refused() {
    let start = event(&json!({"type": "message_start", "message": message(json!([]), "end_turn")}));
    let open = |index: u64, block: Value| event(&json!({"type": "content_block_start", "index": index, "content_block": block}));
    let delta = |index: u64, delta: Value| event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let (text, tool) = (json!({"type": "text", "text": ""}), json!({"type": "tool_use", "id": "1", "name": "f", "input": {}}));
    let said = json!({"type": "text_delta", "text": "a"});
    let input = json!({"type": "input_json_delta", "partial_json": "{}"});
    let filled = json!({"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}});
    for stream in [
        open(0, text.clone()),
        format!("{start}{start}"),
        format!("{start}{}", delta(0, said.clone())),
        format!("{start}{}{}", open(0, tool.clone()), delta(0, said.clone())),
        format!("{start}{}{}", open(0, text.clone()), delta(0, input.clone())),
        format!("{start}{}{}", open(0, text.clone()), open(0, text.clone())),
        format!("{start}{}{}", open(0, filled), delta(0, input)),
        format!("{start}{}{}", open(0, text), delta(0, json!({"type": "some_new_delta", "text": "a"}))),
        format!("{start}{}", open(0, json!({"type": "web_search_tool_result"}))),
    ] {
        let end = event(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}));
        let found = streamed(format!("{stream}{end}").as_bytes(), origin(Translation::CHAT_TO_MESSAGES), 64);
        assert!(matches!(found, Err(TranslateFault::Unknown(_) | TranslateFault::Shape(_))), "{stream}: {found:?}");
    }
    let error =
        format!("{start}event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"m\"}}}}\n\n");
    assert!(matches!(streamed(error.as_bytes(), origin(Translation::CHAT_TO_MESSAGES), 64), Err(TranslateFault::Reported(_))));
    // Input in the start alone is whole; a call without input has one empty delta or none.
    let whole = format!("{start}{}", open(0, tool)) + &event(&json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    let found = folded_chat(&streamed(whole.as_bytes(), origin(Translation::CHAT_TO_MESSAGES), 64).unwrap());
    assert_eq!(found["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{}");
}

#[test]
fn a_cut_stream_is_an_error_wherever_it_is_cut() {
    let content = json!([{"type": "text", "text": "ab"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}]);
    let upstream = as_stream(&message(content, "tool_use"), 1);
    // From the stop reason on, nothing is missing.
    let complete = upstream.find("event: message_delta").unwrap();
    let complete = complete + upstream[complete..].find("\n\n").unwrap();
    for at in 0..upstream.len() {
        let found = streamed(&upstream.as_bytes()[..at], origin(Translation::CHAT_TO_MESSAGES), 7);
        match found {
            Ok(_) => assert!(at + 3 >= complete, "{at}"),
            Err(TranslateFault::Cut | TranslateFault::Json(_)) => assert!(at <= upstream.len(), "{at}"),
            Err(error) => panic!("{at}: {error:?}"),
        }
    }
}

fn blocks() -> impl Strategy<Value = Vec<Value>> {
    let text = "[ -~é😀\n]{1,12}";
    let block = prop_oneof![
        text.prop_map(|text| json!({"type": "text", "text": text})),
        text.prop_map(|text| json!({"type": "thinking", "thinking": text, "signature": "s"})),
        (text, 0..2_usize).prop_map(|(text, tool)| {
            json!({"type": "tool_use", "id": "toolu_1", "name": (if tool == 0 { "f" } else { "made_up" }), "input": {"x": text, "y": [1.5, null]}})
        }),
    ];
    prop::collection::vec(block, 0..5)
}

proptest! {
    /// A stream says what the whole answer says, wherever it is cut into deltas and pieces of bytes; and what went over chat and back is
    /// the same, joined as chat joins it.
    #[test]
    fn streamed_and_whole_agree_in_both_directions(blocks in blocks(), length in 1..9_usize, piece in 1..40_usize) {
        let calls = blocks.iter().any(|block| block["type"] == "tool_use");
        let message = message(json!(blocks), if calls { "tool_use" } else { "end_turn" });
        let chat = whole(&message, Translation::CHAT_TO_MESSAGES).unwrap();
        let chat_stream = streamed(as_stream(&message, length).as_bytes(), origin(Translation::CHAT_TO_MESSAGES), piece).unwrap();
        prop_assert_eq!(&folded_chat(&chat_stream), &chat);

        let back = whole(&chat, Translation::MESSAGES_TO_CHAT).unwrap();
        let back_stream = streamed(&chat_stream, origin(Translation::MESSAGES_TO_CHAT), piece).unwrap();
        let folded = folded_messages(&back_stream);
        let joined = |message: &Value, member: &str| -> String {
            message["content"].as_array().unwrap().iter().filter_map(|block| block[member].as_str()).collect()
        };
        for found in [&back, &folded] {
            for member in ["text", "thinking"] {
                prop_assert_eq!(joined(found, member), joined(&message, member));
            }
            let calls = |message: &Value| -> Vec<Value> {
                message["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use").cloned().collect()
            };
            prop_assert_eq!(calls(found), calls(&message));
            prop_assert_eq!(&found["stop_reason"], &message["stop_reason"]);
        }
        prop_assert_eq!(&back["usage"], &folded["usage"]);
    }

    /// No bytes make it panic, and what leaves is a stream.
    #[test]
    fn any_events_are_read_or_refused(kinds in prop::collection::vec((0..7_usize, 0..3_u64, "[a-z{}\":]{0,6}"), 0..12)) {
        let mut upstream = String::new();
        for (kind, index, text) in kinds {
            upstream += &event(&match kind {
                0 => json!({"type": "message_start", "message": message(json!([]), "end_turn")}),
                1 => json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": text}}),
                2 => json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": text, "name": "f", "input": {}}}),
                3 => json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}),
                4 => json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}),
                5 => json!({"type": "content_block_stop", "index": index}),
                _ => json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
            });
        }
        if let Ok(out) = streamed(upstream.as_bytes(), origin(Translation::CHAT_TO_MESSAGES), 16) {
            folded_chat(&out);
        }
    }
}
