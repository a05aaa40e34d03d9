//! Tests of translated streams: the events' order, odd shapes, and that a stream ends as a whole answer would.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{StreamTranslator, TranslateFault};
use crate::{
    translate::answer::{
        answer,
        tests::{ID, origin},
    },
    wire::sse::{SseEvent, SseParser},
};

const HELD_BYTES_MAX: usize = 4096;

/// What comes out for these bytes, event by event.
pub(in crate::translate) fn streamed(chat: &[u8]) -> Result<Vec<SseEvent>, TranslateFault> {
    let (mut events, mut out) = (Vec::new(), Vec::new());
    let mut parser = SseParser::default();
    parser.handle(Bytes::copy_from_slice(chat), |event| events.push(event)).unwrap();
    events.extend(parser.finish());
    let mut translator = StreamTranslator::new(origin(), HELD_BYTES_MAX);
    for event in events {
        translator.handle(event, &mut |event| out.push(event))?;
    }
    translator.finish(&mut |event| out.push(event))?;
    Ok(out)
}

/// The response object at the end. Everything that was said on the way is held against it.
pub(in crate::translate) fn folded(events: &[SseEvent]) -> Value {
    let (mut open, mut done): (Value, Vec<Value>) = (Value::Null, Vec::new());
    let events: Vec<&SseEvent> = events.iter().filter(|event| event.data.is_some()).collect();
    let mut last = Value::Null;
    for (at, event) in events.iter().enumerate() {
        let data: Value = serde_json::from_slice(event.data.as_ref().unwrap()).unwrap();
        let kind = data["type"].as_str().unwrap().to_owned();
        assert_eq!(event.name.as_deref(), Some(kind.as_bytes()));
        assert_eq!(event.raw, format!("event: {kind}\ndata: {}\n\n", String::from_utf8_lossy(event.data.as_ref().unwrap())));
        assert_eq!(data["sequence_number"], json!(at), "{data}");
        match (at, &*kind) {
            (0, "response.created") | (1, "response.in_progress") => {
                assert_eq!((&data["response"]["status"], &data["response"]["output"]), (&json!("in_progress"), &json!([])));
            }
            (_, "response.completed" | "response.incomplete") => {
                assert_eq!(at + 1, events.len());
                assert_eq!(format!("response.{}", data["response"]["status"].as_str().unwrap()), kind);
                last = data["response"].clone();
            }
            (2.., _) => step(&mut open, &mut done, &kind, &data),
            _ => panic!("{data}"),
        }
    }
    assert_eq!((open, &last["output"]), (Value::Null, &json!(done)));
    last
}

fn append(to: &mut Value, more: &Value) {
    *to = json!(to.as_str().unwrap().to_owned() + more.as_str().unwrap());
}

fn member_of(part: &Value) -> &'static str {
    if part["type"] == "refusal" { "refusal" } else { "text" }
}

fn step(open: &mut Value, done: &mut Vec<Value>, kind: &str, data: &Value) {
    assert_eq!(data["output_index"], json!(done.len()), "{data}");
    if !kind.starts_with("response.output_item.") {
        assert_eq!(data["item_id"], open["id"], "{data}");
    }
    let place = data["content_index"].as_u64().map_or(0, |place| place as usize);
    match kind {
        "response.output_item.added" => {
            assert!(open.is_null());
            *open = data["item"].clone();
        }
        "response.output_item.done" => {
            if open["status"].is_string() {
                open["status"] = data["item"]["status"].clone();
            }
            assert_eq!(*open, data["item"]);
            done.push(open.take());
        }
        "response.content_part.added" => {
            assert_eq!(place, open["content"].as_array().unwrap().len());
            open["content"].as_array_mut().unwrap().push(data["part"].clone());
        }
        "response.content_part.done" => assert_eq!(data["part"], open["content"][place]),
        "response.output_text.delta" | "response.refusal.delta" | "response.reasoning_text.delta" => {
            let part = &mut open["content"][place];
            let member = member_of(part);
            append(&mut part[member], &data["delta"]);
        }
        "response.output_text.done" | "response.refusal.done" | "response.reasoning_text.done" => {
            let part = &open["content"][place];
            assert_eq!(part[member_of(part)], data[member_of(part)]);
        }
        "response.function_call_arguments.delta" => append(&mut open["arguments"], &data["delta"]),
        "response.custom_tool_call_input.delta" => append(&mut open["input"], &data["delta"]),
        "response.function_call_arguments.done" => {
            assert_eq!((&open["arguments"], &open["name"]), (&data["arguments"], &data["name"]));
        }
        "response.custom_tool_call_input.done" => assert_eq!(open["input"], data["input"]),
        _ => panic!("{data}"),
    }
}

fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn delta(delta: Value) -> Value {
    json!({"id": "c", "model": "said", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"id": "c", "model": "said", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(fragments: Value) -> Value {
    delta(json!({"tool_calls": fragments}))
}

/// The end of a stream of these chunks and `[DONE]`.
fn end(chunks: &[Value]) -> Value {
    folded(&streamed(format!("{}data: [DONE]\n\n", sse(chunks)).as_bytes()).unwrap())
}

/// The response that a chat stream ends with, as JSON.
pub(crate) fn end_of(chat: &str) -> String {
    folded(&streamed(chat.as_bytes()).unwrap()).to_string()
}

#[test]
fn events_in_order() {
    let chunks = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"content": "te"})),
        delta(json!({"content": "xt"})),
        calls(json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}])),
        calls(json!([{"index": 0, "function": {"arguments": "{}"}}])),
        delta(json!({"refusal": "no"})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}),
    ];
    let events = streamed(format!(": ping\n\n{}data: [DONE]\n\n: late\n\n", sse(&chunks)).as_bytes()).unwrap();
    assert_eq!((&events[0].raw[..], &events[0].data), (&b": ping\n\n"[..], &None));
    let names: Vec<String> =
        events[1..].iter().map(|event| String::from_utf8_lossy(event.name.as_ref().unwrap()).replace("response.", "")).collect();
    let message =
        ["output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done", "content_part.done"];
    let refusal = ["content_part.added", "refusal.delta", "refusal.done", "content_part.done", "output_item.done"];
    let reasoning =
        ["output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done"];
    let call = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"];
    let expected = [&["created", "in_progress"][..], &reasoning, &message, &refusal, &call, &["completed"]].concat();
    assert_eq!(names, expected);
    let end = folded(&events);
    assert_eq!(
        (&end["usage"]["total_tokens"], &end["model"], &end["output"][0]["id"]),
        (&json!(2), &json!("said"), &json!(format!("rs_c_{ID}_0")))
    );
}

/// What a fragment list becomes: call id, name, arguments.
#[test]
fn odd_calls() {
    let whole = |id: &str, arguments: Value| json!({"id": id, "function": {"name": "f", "arguments": arguments}});
    for (name, fragments, expected) in [
        (
            "all on index 0",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]),
                json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}]),
            ],
            vec![("a", "{}"), ("b", "{}")],
        ),
        ("no index", vec![json!([whole("a", json!("{"))]), json!([{"function": {"arguments": "}"}}])], vec![("a", "{}")]),
        ("two at once, no index", vec![json!([whole("a", json!("{}")), whole("b", json!("{}"))])], vec![("a", "{}"), ("b", "{}")]),
        ("an object", vec![json!([whole("a", json!({"x": 1}))])], vec![("a", "{\"x\":1}")]),
        ("null", vec![json!([whole("a", Value::Null)])], vec![("a", "")]),
        ("absent", vec![json!([{"id": "a", "function": {"name": "f"}}])], vec![("a", "")]),
        (
            "interleaved",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}, {"index": 1, "id": "b", "function": {"name": "f", "arguments": "{"}}]),
                json!([{"index": 0, "function": {"arguments": "}"}}, {"index": 1, "function": {"arguments": " }"}}]),
            ],
            vec![("a", "{}"), ("b", "{ }")],
        ),
        ("no id", vec![json!([{"index": 0, "id": "", "function": {"name": "f", "arguments": "{}"}}])], vec![("call_01234567_0", "{}")]),
        ("null calls", vec![json!(null), json!([])], vec![]),
    ] {
        let chunks: Vec<Value> = fragments.into_iter().map(calls).chain([finish("stop")]).collect();
        let end = end(&chunks);
        let found: Vec<(&str, &str)> = end["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["call_id"].as_str().unwrap(), item["arguments"].as_str().unwrap()))
            .collect();
        assert_eq!(found, expected, "{name}");
    }
    let legacy = [
        delta(json!({"function_call": {"name": "f", "arguments": "{"}})),
        delta(json!({"function_call": {"arguments": "}"}})),
        finish("function_call"),
    ];
    assert_eq!((&end(&legacy)["output"][0]["arguments"], &end(&legacy)["output"][0]["type"]), (&json!("{}"), &json!("function_call")));
    let custom = [
        calls(json!([{"index": 0, "id": "a", "type": "custom", "custom": {"name": "sh", "input": "l"}}])),
        calls(json!([{"index": 0, "custom": {"input": "s"}}])),
    ];
    assert_eq!(end(&custom)["output"][0]["input"], "ls");
}

#[test]
fn usage_in_every_place() {
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3});
    for last in [
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "x_groq": {"id": "r", "usage": usage}}),
        json!({"choices": [], "usage": usage}),
        json!({"usage": usage}),
    ] {
        let end = end(&[delta(json!({"content": "a"})), last.clone(), json!({"choices": [], "usage": null})]);
        assert_eq!(end["usage"]["output_tokens"], 2, "{last}");
    }
    assert_eq!(end(&[delta(json!({"content": "a"}))])["usage"], Value::Null);
}

#[test]
fn ends() {
    let text = sse(&[delta(json!({"content": "a"}))]);
    let cut = |chat: &str| matches!(streamed(chat.as_bytes()), Err(TranslateFault::Cut));
    assert!(cut(&text) && cut("") && cut("data: [DONE]\n\n") && cut(": ping\n\n"));
    let azure = sse(&[json!({"choices": [], "model": "", "prompt_filter_results": []})]);
    assert!(cut(&azure) && cut(&format!("{azure}data: [DONE]\n\n")));
    for chat in [
        format!("{azure}{text}data: [DONE]\n\n"),
        format!("{text}{}", sse(&[finish("stop")])),
        format!("event: ping\ndata: {{}}\n\n{text}data: [DONE]"),
    ] {
        assert_eq!(folded(&streamed(chat.as_bytes()).unwrap())["status"], "completed", "{chat}");
    }
    let long =
        format!("{text}{}", sse(&[finish("length"), json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": ""}]})]));
    let end = folded(&streamed(long.as_bytes()).unwrap());
    assert_eq!((&end["incomplete_details"]["reason"], &end["output"][0]["status"]), (&json!("max_output_tokens"), &json!("incomplete")));
}

#[test]
fn errors_are_reported() {
    for chat in [
        r#"data: {"error":{"message":"m"},"status_code":500}"#,
        r#"data: {"message":"m","type":"t","code":"c"}"#,
        r#"data: [{"error":{"code":400}}]"#,
        r#"data: {"choices":[],"x_groq":{"error":"m"}}"#,
        r#"data: {"choices":[{"delta":{},"finish_reason":"error","error":{"code":502}}]}"#,
        "event: error\ndata: {\"m\":1}",
    ] {
        for before in [String::new(), sse(&[delta(json!({"content": "a"}))])] {
            let found = streamed(format!("{before}{chat}\n\n").as_bytes());
            assert!(matches!(found, Err(TranslateFault::Reported(_))), "{chat}: {found:?}");
        }
    }
}

#[test]
fn what_would_be_lost_is_refused() {
    let long = "x".repeat(HELD_BYTES_MAX + 1);
    for chunk in [
        "{".to_owned(),
        "1".to_owned(),
        r#"{"choices":{}}"#.to_owned(),
        r#"{"choices":[],"choices":[]}"#.to_owned(),
        r#"{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}"#.to_owned(),
        r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#.to_owned(),
        r#"{"choices":[{"delta":"a"}]}"#.to_owned(),
        r#"{"choices":[{"delta":{"content":"a","content":"b"}}]}"#.to_owned(),
        r#"{"choices":[{"delta":{"TOOL_CALLS":[{"id":"x"}]}}]}"#.to_owned(),
        r#"{"choices":[{"delta":{},"content":[{"type":"tool_use","name":"x"}]}]}"#.to_owned(),
        r#"{"choices":[{"delta":{},"message":{"tool_calls":[{"id":"x"}]}}]}"#.to_owned(),
        r#"{"choices":[],"output":[{"type":"function_call","name":"x"}]}"#.to_owned(),
        r#"{"delta":{"tool_calls":[{"id":"x"}]}}"#.to_owned(),
        r#"{"choices":[],"tool_calls":[{"id":"x"}]}"#.to_owned(),
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": long}}])).to_string(),
        calls(json!([{"index": 0, "id": "a", "custom": {"name": "sh", "input": {"a": 1}}}])).to_string(),
        calls(json!(["x"])).to_string(),
    ] {
        let found = streamed(format!("data: {chunk}\n\ndata: {}\n\ndata: [DONE]\n\n", finish("stop")).as_bytes());
        assert!(found.is_err() && !matches!(found, Err(TranslateFault::Reported(_) | TranslateFault::Cut)), "{chunk}: {found:?}");
    }
}

/// Cuts a text into pieces of so many characters.
fn cut(text: &str, length: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(length).map(|piece| piece.iter().collect()).collect()
}

/// A call's fragments in one of the shapes that upstreams send.
fn fragments(shape: usize, at: usize, arguments: &str, length: usize) -> Vec<Value> {
    let id = format!("call_{at}");
    if shape == 0 {
        return vec![json!({"index": at, "id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})];
    }
    let head = match shape {
        1 => json!({"index": at, "id": id, "type": "function", "function": {"name": "f", "arguments": ""}}),
        2 => json!({"index": 0, "id": id, "function": {"name": "f"}}),
        _ => json!({"id": id, "function": {"name": "f", "arguments": null}}),
    };
    let tail = |piece: &String| match shape {
        1 => json!({"index": at, "function": {"arguments": piece}}),
        2 => json!({"index": 0, "id": id, "function": {"name": "f", "arguments": piece}}),
        _ => json!({"function": {"arguments": piece}}),
    };
    [head].into_iter().chain(cut(arguments, length).iter().map(tail)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn streamed_and_whole_end_the_same(
        texts in prop::array::uniform3("[a-z\"\\\\\né😀]{0,12}"),
        arguments in prop::collection::vec("[a-z\"\\\\\n é]{0,8}", 0..4),
        (length, shape, extra) in (1usize..6, 0usize..4, prop::bool::ANY),
        reason in prop::sample::select(vec!["stop", "tool_calls", "length", "content_filter"]),
    ) {
        let [thought, content, refusal] = texts;
        let arguments: Vec<String> = arguments.iter().map(|text| json!({ "x": text }).to_string()).collect();
        let usage = json!({"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6});
        let call = |(at, text): (usize, &String)| json!({"id": format!("call_{at}"), "type": "function", "function": {"name": "f", "arguments": text}});
        let message = json!({"role": "assistant", "reasoning": thought, "content": content, "refusal": refusal,
            "tool_calls": arguments.iter().enumerate().map(call).collect::<Vec<_>>()});
        let whole = json!({"model": "said", "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage});
        let whole: Value = serde_json::from_slice(&answer(&Bytes::from(whole.to_string()), &origin()).unwrap()).unwrap();
        let mut chunks = vec![delta(json!({"role": "assistant", "content": null}))];
        for (name, text) in [("reasoning", thought), ("content", content), ("refusal", refusal)] {
            chunks.extend(cut(&text, length).into_iter().map(|piece| delta(json!({ name: piece }))));
        }
        let pieces = arguments.iter().enumerate().flat_map(|(at, text)| fragments(shape, at, text, length));
        chunks.extend(pieces.map(|piece| calls(json!([piece]))));
        chunks.push(finish(reason));
        let last = if extra { json!({"choices": [], "usage": usage}) } else { json!({"choices": [], "x_groq": {"usage": usage}}) };
        chunks.push(last);
        prop_assert_eq!(end(&chunks), whole);
    }

    /// Anything at all: a whole stream or an error, never a panic, never half of it.
    #[test]
    fn junk(chunks in prop::collection::vec(prop::sample::select(vec![
        r#"{"choices":[{"delta":{"content":"a"}}]}"#, r#"{"choices":[{"delta":{"reasoning":"a"}}]}"#, "[DONE]", "", "{}", "null",
        r#"{"choices":[{"delta":{"tool_calls":[{"index":7,"function":{"arguments":"x"}}]}}]}"#, r#"{"choices":null}"#,
        r#"{"choices":[{"delta":null,"finish_reason":"stop"}]}"#, r#"{"choices":[{"message":{"content":"b"}}]}"#,
    ]), 0..8)) {
        let chat: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        if let Ok(events) = streamed(chat.as_bytes()) {
            folded(&events);
        }
    }
}
