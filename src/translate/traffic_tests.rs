//! Recorded traffic of real chat providers, translated: the same texts, calls and arguments come out.

use std::path::PathBuf;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Translation,
    answer::{self, TranslateFault, tests::origin},
    request,
};
use crate::{
    translate::answer::stream::tests::{folded, streamed},
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
    let shared =
        std::env::var_os("TOOLMARK_SHARED").map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")), PathBuf::from);
    let text = std::fs::read_to_string(shared.join("traffic/exchanges.jsonl")).unwrap_or_default();
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
