//! Recorded traffic of real chat providers, translated: the same texts, calls and arguments come out.

use std::{collections::BTreeMap, io::Write as _, path::PathBuf};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Translation,
    answer::{self, TranslateFault, tests::origin},
    request,
};
use crate::{
    translate::{
        answer::{
            Origin, messages_tests,
            stream::tests::{folded, streamed},
            tests::ID,
        },
        request::names::chat_name,
    },
    wire::json::Document,
};

/// What an answer says, in either API's terms.
#[derive(Debug, Default, Eq, PartialEq)]
struct Said {
    text: String,
    refusal: String,
    reasoning: String,
    /// Id, name and arguments; what arguments there are not is empty.
    calls: Vec<(String, String, String)>,
    cut: bool,
}

impl Said {
    fn of_response(response: &Value) -> Self {
        let mut said = Self { cut: response["status"] == "incomplete", ..Self::default() };
        for item in response["output"].as_array().unwrap() {
            let text = |name: &str| item[name].as_str().unwrap().to_owned();
            for part in item["content"].as_array().into_iter().flatten() {
                let (to, name) = match part["type"].as_str().unwrap() {
                    "output_text" => (&mut said.text, "text"),
                    "refusal" => (&mut said.refusal, "refusal"),
                    _ => (&mut said.reasoning, "text"),
                };
                to.push_str(part[name].as_str().unwrap());
            }
            match item["type"].as_str().unwrap() {
                "function_call" => said.calls.push((text("call_id"), text("name"), text("arguments"))),
                "custom_tool_call" => said.calls.push((text("call_id"), text("name"), text("input"))),
                _ => {}
            }
        }
        // Those that were minted here.
        said.calls.iter_mut().filter(|call| call.0.starts_with("call_01234567_")).for_each(|call| call.0.clear());
        said
    }

    /// Of the chunks of a stream, or of the one answer there is.
    fn of_chat(chunks: &[Value]) -> Self {
        let mut said = Self::default();
        let mut indices: Vec<u64> = Vec::new();
        for choice in chunks.iter().flat_map(|chunk| chunk["choices"].as_array().into_iter().flatten()) {
            said.cut |= matches!(choice["finish_reason"].as_str(), Some("length" | "content_filter"));
            let message = if choice["message"].is_object() { &choice["message"] } else { &choice["delta"] };
            said.texts(message);
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                said.call(call, &mut indices);
            }
            let legacy = &message["function_call"];
            if legacy["name"].as_str().is_some_and(|name| !name.is_empty()) {
                said.call(&json!({"function": legacy}), &mut indices);
            }
        }
        said
    }

    fn texts(&mut self, message: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.text += &text(&message["content"]);
        self.refusal += &text(&message["refusal"]);
        let reasoning = Some(text(&message["reasoning_content"])).filter(|text| !text.is_empty());
        self.reasoning += &reasoning.unwrap_or_else(|| text(&message["reasoning"]));
        for part in message["content"].as_array().into_iter().flatten() {
            self.text += &text(&part["text"]);
            part["thinking"].as_array().into_iter().flatten().for_each(|thought| self.reasoning += &text(&thought["text"]));
        }
    }

    fn call(&mut self, call: &Value, indices: &mut Vec<u64>) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let body = if call["type"] == "custom" { &call["custom"] } else { &call["function"] };
        let arguments = if call["type"] == "custom" { &body["input"] } else { &body["arguments"] };
        let (id, index) = (text(&call["id"]), call["index"].as_u64());
        let known = index.and_then(|index| indices.iter().position(|own| *own == index));
        let same = known.filter(|at| id.is_empty() || self.calls[*at].0 == id);
        let at = same.unwrap_or_else(|| {
            self.calls.push((id, text(&body["name"]), String::new()));
            indices.push(index.unwrap_or(u64::MAX));
            self.calls.len() - 1
        });
        let own = &mut self.calls[at].2;
        match arguments {
            Value::Null => {}
            Value::String(more) => own.push_str(more),
            other => *own = other.to_string(),
        }
    }
}

/// Those of one API that went well; none where this machine hasn't got them.
fn exchanges(api: &str) -> Vec<Value> {
    exchanges_of("exchanges.jsonl", api)
}

fn exchanges_of(file: &str, api: &str) -> Vec<Value> {
    let shared = std::env::var_os("TOOLMARK_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    let text = std::fs::read_to_string(shared.join("traffic").join(file)).unwrap_or_default();
    if text.is_empty() {
        let line = format!("SKIPPED: {file} ({} has no recorded traffic)\n", shared.display());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|exchange| exchange["api"] == api && exchange["status"] == 200).collect()
}

#[test]
fn recorded_answers_say_the_same() {
    let (mut wrong, mut counts) = (Vec::new(), [0; 3]);
    for exchange in exchanges("chat") {
        let name = format!("{} {}", exchange["sha"], exchange["file"]);
        let body = exchange["response_body"].as_str().unwrap();
        let stream = exchange["response_headers"]["content-type"].as_str().unwrap_or_default().starts_with("text/event-stream");
        let chunks: Vec<Value> = if stream {
            body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok()).collect()
        } else {
            vec![serde_json::from_str(body).unwrap()]
        };
        let several = chunks.iter().flat_map(|chunk| chunk["choices"].as_array().into_iter().flatten()).any(|choice| choice["index"] != 0);
        let error = chunks.iter().any(|chunk| !chunk["error"].is_null());
        let found = if stream {
            streamed(body.as_bytes()).map(|events| folded(&events))
        } else {
            answer::answer(&Bytes::copy_from_slice(body.as_bytes()), &origin()).map(|bytes| serde_json::from_slice(&bytes).unwrap())
        };
        match found {
            Ok(response) if !several && !error => {
                let (expected, found) = (Said::of_chat(&chunks), Said::of_response(&response));
                let used = |chunk: &Value| chunk["usage"].is_object() || chunk["x_groq"]["usage"].is_object();
                let usage = chunks.iter().any(used) == response["usage"].is_object();
                if expected == found && usage { counts[0] += 1 } else { wrong.push(format!("{name}: {expected:?}\n{found:?}")) }
            }
            Err(TranslateFault::Unknown(_)) if several => counts[1] += 1,
            Err(TranslateFault::Reported(_)) if error => counts[2] += 1,
            found => wrong.push(format!("{name}: several {several}, error {error}: {found:?}")),
        }
    }
    eprintln!("the same, refused, reported: {counts:?}");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every output follows its call at once, and every call has one.
fn is_legal(messages: &Value) -> bool {
    let mut waiting: Vec<&str> = Vec::new();
    for message in messages.as_array().unwrap() {
        if message["role"] == "tool" {
            match waiting.iter().position(|id| message["tool_call_id"] == **id) {
                Some(at) => drop(waiting.remove(at)),
                None => return false,
            }
        } else if waiting.is_empty() {
            waiting.extend(message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| call["id"].as_str()));
        } else {
            return false;
        }
    }
    waiting.is_empty()
}

#[test]
fn recorded_requests_become_legal_chat() {
    let (mut translated, mut refused) = (0, std::collections::BTreeMap::<String, usize>::new());
    for exchange in exchanges("responses") {
        let document = Document::parse(Bytes::from(exchange["request_body"].to_string())).unwrap();
        match request::request(&document, Translation::RESPONSES_TO_CHAT) {
            Ok(chat) => {
                let chat: Value = serde_json::from_slice(&chat).unwrap();
                assert!(is_legal(&chat["messages"]), "{} {}: {chat}", exchange["sha"], exchange["file"]);
                translated += 1;
            }
            Err(error) => *refused.entry(error.message.replace(|letter: char| letter.is_ascii_digit(), "N")).or_default() += 1,
        }
    }
    eprintln!("{translated} translated; refused: {refused:#?}");
}

/// What a conversation of the Messages API says, roles merged: texts, and calls with their results. Thinking is left out.
#[derive(Debug, Eq, PartialEq)]
enum Line {
    Said(String, String),
    Called { id: String, name: String, input: Value },
    Returned { id: String, content: String },
}

fn lines(request: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    for message in request["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            blocks => blocks.as_array().unwrap().clone(),
        };
        for block in blocks {
            let text = |name: &str| block[name].as_str().unwrap().to_owned();
            match block["type"].as_str().unwrap() {
                "text" => match lines.last_mut() {
                    Some(Line::Said(author, before)) if author == role => before.push_str(&text("text")),
                    _ => lines.push(Line::Said(role.to_owned(), text("text"))),
                },
                "tool_use" => {
                    lines.push(Line::Called { id: text("id"), name: chat_name(&text("name")).into_owned(), input: block["input"].clone() });
                }
                "tool_result" => {
                    let parts = block["content"].as_array().map(|parts| parts.iter().map(|part| part["text"].as_str().unwrap_or_default()));
                    let content = parts.map_or_else(
                        || block["content"].as_str().unwrap_or_default().to_owned(),
                        |parts| parts.collect::<Vec<_>>().join("\n"),
                    );
                    lines.push(Line::Returned { id: text("tool_use_id"), content });
                }
                "thinking" | "redacted_thinking" => {}
                kind => lines.push(Line::Said(role.to_owned(), kind.to_owned())),
            }
        }
    }
    // White space alone isn't sent, and results stand in the order of their calls.
    lines.retain(|line| !matches!(line, Line::Said(_, text) if text.trim().is_empty()));
    lines
}

/// True if chat has words for all of the history: else the words stand for it, and are tested elsewhere.
fn chat_has_it(request: &Value) -> bool {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().all(|message| {
        let blocks = message["content"].as_array().into_iter().flatten();
        let plain = |block: &Value| {
            let inside = block["content"].as_array().is_none_or(|parts| parts.iter().all(|part| part["type"] == "text"));
            let kind = block["type"].as_str().unwrap();
            matches!(kind, "text" | "tool_use" | "thinking" | "redacted_thinking")
                || (kind == "tool_result" && block["is_error"] != true && inside)
        };
        message["role"] != "system" && blocks.into_iter().all(plain)
    })
}

/// Text, calls and stop reason of an answer.
fn essence(message: &Value) -> (String, Vec<(Value, Value, Value)>, Value) {
    let blocks = || message["content"].as_array().unwrap().iter();
    let text = blocks().filter(|block| block["type"] == "text").map(|block| block["text"].as_str().unwrap()).collect();
    let calls = blocks().filter(|block| block["type"] == "tool_use");
    (text, calls.map(|call| (call["id"].clone(), call["name"].clone(), call["input"].clone())).collect(), message["stop_reason"].clone())
}

/// Every recorded exchange that has only what chat can say goes over chat and comes back the same.
#[test]
fn recorded_messages_make_the_round_trip() {
    let (mut wrong, mut same) = (Vec::new(), [0; 3]);
    let mut refused = BTreeMap::<String, usize>::new();
    for exchange in exchanges_of("messages.jsonl", "messages") {
        let name = format!("{} {}", exchange["sha"], exchange["file"]);
        let asked = &exchange["request_body"];
        let document = Document::parse(Bytes::from(asked.to_string())).unwrap();
        let chat = match request::request(&document, Translation::MESSAGES_TO_CHAT) {
            Ok(chat) => chat,
            Err(error) => {
                *refused.entry(error.message.replace(|letter: char| letter.is_ascii_digit(), "N")).or_default() += 1;
                continue;
            }
        };
        let chat_document = Document::parse(chat.clone()).unwrap();
        assert!(is_legal(&serde_json::from_slice::<Value>(&chat).unwrap()["messages"]), "{name}");
        if chat_has_it(asked) {
            let back = request::request(&chat_document, Translation::CHAT_TO_MESSAGES).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let back: Value = serde_json::from_slice(&back).unwrap();
            let (mut expected, mut found) = (lines(asked), lines(&back));
            for lines in [&mut expected, &mut found] {
                lines.sort_by_key(|line| if let Line::Returned { id, .. } = line { id.clone() } else { String::new() });
            }
            if expected == found { same[0] += 1 } else { wrong.push(format!("{name}: request\n{expected:?}\n{found:?}")) }
        }
        // Forth as a chat application gets it, and back as a Messages application would.
        let forth = Origin::new(Translation::CHAT_TO_MESSAGES, &chat_document, ID.to_owned(), 7);
        let home = Origin::new(Translation::MESSAGES_TO_CHAT, &document, ID.to_owned(), 7);
        let body = exchange["response_body"].as_str().unwrap().as_bytes();
        let stream = exchange["response_headers"]["content-type"].as_str().unwrap_or_default().starts_with("text/event-stream");
        let (original, found) = if stream {
            let found = messages_tests::streamed(body, forth, 4096).and_then(|chat| messages_tests::streamed(&chat, home, 4096));
            (folded_recording(body), found.map(|bytes| messages_tests::folded_messages(&bytes)))
        } else {
            let found = answer::answer(&Bytes::copy_from_slice(body), &forth).and_then(|chat| answer::answer(&chat, &home));
            (serde_json::from_slice(body).unwrap(), found.map(|bytes| serde_json::from_slice(&bytes).unwrap()))
        };
        let sayable = original["content"]
            .as_array()
            .unwrap()
            .iter()
            .all(|block| matches!(block["type"].as_str(), Some("text" | "tool_use" | "thinking" | "redacted_thinking")))
            && matches!(original["stop_reason"].as_str(), Some("end_turn" | "tool_use" | "max_tokens" | "refusal"));
        match found {
            Ok(found) if essence(&original) == essence(&found) => same[if stream { 2 } else { 1 }] += 1,
            Ok(found) if sayable => wrong.push(format!("{name}: answer\n{:?}\n{:?}", essence(&original), essence(&found))),
            Err(error) if sayable => wrong.push(format!("{name}: {error:?}")),
            found => *refused.entry(format!("answer: {:?} {}", original["stop_reason"], found.is_ok())).or_default() += 1,
        }
    }
    eprintln!("the same (requests, whole answers, streams): {same:?}; not: {refused:#?}");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The message that a recorded stream says.
fn folded_recording(body: &[u8]) -> Value {
    let (mut message, mut inputs) = (Value::Null, BTreeMap::<usize, String>::new());
    for line in String::from_utf8_lossy(body).lines().filter_map(|line| line.strip_prefix("data:")) {
        let Ok(data) = serde_json::from_str::<Value>(line.trim()) else { continue };
        let at = data["index"].as_u64().unwrap_or(0) as usize;
        match data["type"].as_str().unwrap_or_default() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => message["content"].as_array_mut().unwrap().push(data["content_block"].clone()),
            "content_block_delta" => {
                let delta = &data["delta"];
                if let Some(text) = delta["text"].as_str() {
                    let before = message["content"][at]["text"].as_str().unwrap().to_owned();
                    message["content"][at]["text"] = json!(before + text);
                }
                inputs.entry(at).or_default().push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            "message_delta" => message["stop_reason"] = data["delta"]["stop_reason"].clone(),
            _ => {}
        }
    }
    for (at, input) in inputs.into_iter().filter(|(_, input)| !input.is_empty()) {
        message["content"][at]["input"] = serde_json::from_str(&input).unwrap_or(json!(input));
    }
    message
}
