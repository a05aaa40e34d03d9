//! Differential targets: one answer in several forms, which must have the same result.
//!
//! Each part of the input is one thing the model emits, by its first byte: `c` a call (name, line end, arguments), `k` reasoning, `f`
//! another finish reason, `m` a new message; or the conversation before: `u` the user's question, `r` the tool's result. Anything else is
//! text (a leading `t` is dropped).

use serde_json::{Value, json};

use super::{
    bench::{By, begin, request},
    drive::{DriveEnding, DriveOutcome, streamed, whole},
    input::{Cuts, FuzzInput, repeated},
};
use crate::{
    chat::adapter::Chat,
    exchange::{adapter::Adapter, context::Begun},
    messages::adapter::Messages,
    openai::Api,
    responses::adapter::Responses,
    translate::{Translation, answer::Origin},
    wire::json::Document,
};

#[derive(Clone, Debug, Eq, PartialEq)]
enum Say {
    Text(String),
    Call(String, String),
    Reason(String),
    Message,
}

/// The model's answer, and the conversation before it.
pub(super) struct FuzzScript {
    user: String,
    result: String,
    says: Vec<Say>,
    finish: Option<&'static str>,
    by: By,
    cuts: Cuts,
    stream_cuts: Cuts,
}

impl FuzzScript {
    pub(super) fn of(data: &[u8]) -> Option<Self> {
        let input = FuzzInput::of(data)?;
        let (mut user, mut result) = ("How fast is it?".to_owned(), r#"{"mbit": 90, "ms": 12}"#.to_owned());
        let (mut says, mut finish, mut long) = (Vec::new(), None, input.flag(7));
        for part in input.parts_from(0) {
            let text = String::from_utf8_lossy(part).into_owned();
            let rest = || text.get(1..).unwrap_or_default().to_owned();
            match part.first() {
                None => {}
                Some(b'u') => user = rest(),
                Some(b'r') => result = rest(),
                Some(b'm') => says.push(Say::Message),
                Some(b'k') => says.push(Say::Reason(rest())),
                Some(b'f') => finish = ["length", "content_filter", "stop"].get(part.len() % 4).copied(),
                Some(b'c') => {
                    let said = rest();
                    let (name, arguments) = said.split_once('\n').unwrap_or((&said, ""));
                    says.push(Say::Call(name.to_owned(), arguments.to_owned()));
                }
                Some(b't') => {
                    let text = rest();
                    says.push(Say::Text(if std::mem::take(&mut long) { repeated(&text) } else { text }));
                }
                Some(_) => says.push(Say::Text(text)),
            }
        }
        let (cuts, mut stream_cuts) = (input.cuts(), input.cuts());
        stream_cuts.next();
        Some(Self { user, result, says, finish, by: By::of(input.flags), cuts, stream_cuts })
    }

    fn request(&self, api: Api) -> Document {
        request(api, &self.user, &self.result)
    }

    fn begin(&self, by: By, api: Api) -> Option<Begun> {
        begin(by, api, &self.request(api))
    }

    fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.says.iter().filter_map(|say| if let Say::Text(text) = say { Some(&**text) } else { None }).collect();
        (!texts.is_empty()).then(|| texts.concat())
    }

    fn calls(&self) -> Vec<(&str, &str)> {
        self.says.iter().filter_map(|say| if let Say::Call(name, arguments) = say { Some((&**name, &**arguments)) } else { None }).collect()
    }

    fn finish(&self) -> &'static str {
        self.finish.unwrap_or(if self.calls().is_empty() { "stop" } else { "tool_calls" })
    }

    fn chat_whole(&self) -> Vec<u8> {
        let call = |(at, (name, arguments)): (usize, &(&str, &str))| json!({"id": format!("id{at}"), "type": "function", "function": {"name": name, "arguments": arguments}});
        let calls: Vec<Value> = self.calls().iter().enumerate().map(call).collect();
        let mut message = json!({"role": "assistant", "content": self.text()});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let reason: String = self.says.iter().filter_map(|say| if let Say::Reason(text) = say { Some(&**text) } else { None }).collect();
        if !reason.is_empty() {
            message["reasoning_content"] = json!(reason);
        }
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": self.finish()}]})
            .to_string()
            .into_bytes()
    }

    pub(super) fn chat_stream(&self) -> Vec<u8> {
        let (mut cuts, mut out, mut index) = (self.cuts.clone(), String::new(), 0);
        let mut event = |delta: Value, finish: Value| {
            let data = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            out.push_str(&format!("data: {data}\n\n"));
        };
        event(json!({"role": "assistant", "content": ""}), Value::Null);
        for say in &self.says {
            match say {
                Say::Text(text) => cuts.texts(text).into_iter().for_each(|text| event(json!({"content": text}), Value::Null)),
                Say::Reason(text) => cuts.texts(text).into_iter().for_each(|text| event(json!({"reasoning_content": text}), Value::Null)),
                Say::Message => {}
                Say::Call(name, arguments) => {
                    let first = json!({"index": index, "id": format!("id{index}"), "type": "function", "function": {"name": name, "arguments": ""}});
                    event(json!({"tool_calls": [first]}), Value::Null);
                    for piece in cuts.texts(arguments) {
                        event(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), Value::Null);
                    }
                    index += 1;
                }
            }
        }
        event(json!({}), json!(self.finish()));
        format!("{out}data: [DONE]\n\n").into_bytes()
    }

    pub(super) fn responses_both(&self) -> (Vec<u8>, Vec<u8>) {
        let mut written = FuzzAnswer { cuts: self.cuts.clone(), events: String::new(), number: 0, items: Vec::new() };
        let status = match self.finish {
            Some("length" | "content_filter") => "incomplete",
            _ => "completed",
        };
        let details = match self.finish {
            Some("length") => json!({"reason": "max_output_tokens"}),
            Some("content_filter") => json!({"reason": "content_filter"}),
            _ => Value::Null,
        };
        let response = |status: &str, items: &[Value]| json!({"id": "resp_1", "object": "response", "status": status, "incomplete_details": if status == "in_progress" { Value::Null } else { details.clone() }, "output": items});
        written.event("response.created", json!({"response": response("in_progress", &[])}));
        let mut text: Vec<&str> = Vec::new();
        for say in self.says.iter().chain([&Say::Message]) {
            if let Say::Text(piece) = say {
                text.push(piece);
                continue;
            }
            if !text.is_empty() {
                written.message(&std::mem::take(&mut text).concat());
            }
            match say {
                Say::Reason(_) => written.reason(),
                Say::Call(name, arguments) => written.call(name, arguments),
                Say::Text(_) | Say::Message => {}
            }
        }
        let whole = response(status, &written.items);
        written.event(&format!("response.{status}"), json!({"response": whole}));
        (whole.to_string().into_bytes(), written.events.into_bytes())
    }
}

impl FuzzScript {
    pub(super) fn messages_both(&self) -> (Vec<u8>, Vec<u8>) {
        let stop = match self.finish {
            Some("length") => "max_tokens",
            Some("content_filter") => "refusal",
            Some(_) => "end_turn",
            None if self.calls().is_empty() => "end_turn",
            None => "tool_use",
        };
        let message = |content: &str, stop: Value| {
            format!(
                r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{content}],"stop_reason":{stop},"stop_sequence":null,"usage":{{"input_tokens":1,"output_tokens":1}}}}"#
            )
        };
        let (mut cuts, mut blocks, mut out) = (self.cuts.clone(), Vec::new(), String::new());
        let mut event = |kind: &str, members: String| out.push_str(&format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{members}}}\n\n"));
        event("message_start", format!(",\"message\":{}", message("", Value::Null)));
        for say in &self.says {
            let (index, start, whole, deltas): (_, _, _, Vec<Value>) = match say {
                Say::Message => continue,
                Say::Text(text) => {
                    let deltas = cuts.texts(text).into_iter().map(|text| json!({"type": "text_delta", "text": text}));
                    let block = |text: &str| json!({"type": "text", "text": text}).to_string();
                    (blocks.len(), block(""), block(text), deltas.collect())
                }
                Say::Reason(text) => {
                    let deltas = cuts.texts(text).into_iter().map(|text| json!({"type": "thinking_delta", "thinking": text}));
                    let block =
                        |text: &str, signature: &str| json!({"type": "thinking", "thinking": text, "signature": signature}).to_string();
                    let signed = [json!({"type": "signature_delta", "signature": "c2ln"})];
                    (blocks.len(), block("", ""), block(text, "c2ln"), deltas.chain(signed).collect())
                }
                Say::Call(name, arguments) => {
                    let deltas = cuts.texts(arguments).into_iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
                    let block =
                        |input: &str| format!(r#"{{"type":"tool_use","id":"toolu_{}","name":{}{input}}}"#, blocks.len(), json!(name));
                    (blocks.len(), block(",\"input\":{}"), block(&whole_input(arguments)), deltas.collect())
                }
            };
            event("content_block_start", format!(",\"index\":{index},\"content_block\":{start}"));
            for delta in deltas {
                event("content_block_delta", format!(",\"index\":{index},\"delta\":{delta}"));
            }
            event("content_block_stop", format!(",\"index\":{index}"));
            blocks.push(whole);
        }
        let delta = json!({"stop_reason": stop, "stop_sequence": null});
        event("message_delta", format!(",\"delta\":{delta},\"usage\":{{\"output_tokens\":1}}"));
        event("message_stop", String::new());
        (message(&blocks.join(","), json!(stop)).into_bytes(), out.into_bytes())
    }
}

/// `input` of a whole block with a comma in front: an object where the arguments are one, else a string; none where there is nothing. An
/// empty object stands as a string, since at the end of an answer that was cut off it means that nothing is known of the input.
fn whole_input(arguments: &str) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let document = Document::parse(arguments.as_bytes().to_vec().into());
    let is_object = document.is_ok_and(|document| {
        let root = document.root();
        root.is_object() && root.raw_str() == arguments && root.members().next().is_some()
    });
    let input = if is_object { arguments.to_owned() } else { json!(arguments).to_string() };
    format!(",\"input\":{input}")
}

/// Writer of a Responses API stream.
struct FuzzAnswer {
    cuts: Cuts,
    events: String,
    number: u64,
    items: Vec<Value>,
}

impl FuzzAnswer {
    fn event(&mut self, kind: &str, mut data: Value) {
        (data["type"], data["sequence_number"]) = (json!(kind), json!(self.number));
        self.number += 1;
        self.events.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    }

    fn item(&mut self, begun: Value, done: Value, between: impl FnOnce(&mut Self, usize)) {
        let index = self.items.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": begun}));
        between(self, index);
        self.event("response.output_item.done", json!({"output_index": index, "item": done}));
        self.items.push(done);
    }

    fn message(&mut self, text: &str) {
        let id = format!("msg_{}", self.items.len());
        let part = |text: &str| json!({"type": "output_text", "annotations": [], "text": text});
        let item =
            |content: Value, status: &str| json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content});
        self.item(item(json!([]), "in_progress"), item(json!([part(text)]), "completed"), |written, index| {
            let place = |name: &str, value: Value| {
                let mut place = json!({"item_id": id, "output_index": index, "content_index": 0});
                place[name] = value;
                place
            };
            written.event("response.content_part.added", place("part", part("")));
            for piece in written.cuts.clone().texts(text) {
                written.event("response.output_text.delta", place("delta", json!(piece)));
            }
            written.event("response.output_text.done", place("text", json!(text)));
            written.event("response.content_part.done", place("part", part(text)));
        });
    }

    fn reason(&mut self) {
        let item = json!({"type": "reasoning", "id": format!("rs_{}", self.items.len()), "summary": []});
        self.item(item.clone(), item, |_, _| {});
    }

    fn call(&mut self, name: &str, arguments: &str) {
        let (at, id) = (self.items.len(), format!("fc_{}", self.items.len()));
        let item = |arguments: &str, status: &str| json!({"type": "function_call", "id": id, "call_id": format!("call_{at}"), "name": name, "arguments": arguments, "status": status});
        self.item(item("", "in_progress"), item(arguments, "completed"), |written, index| {
            for piece in written.cuts.clone().texts(arguments) {
                written.event("response.function_call_arguments.delta", json!({"item_id": id, "output_index": index, "delta": piece}));
            }
            written.event("response.function_call_arguments.done", json!({"item_id": id, "output_index": index, "arguments": arguments}));
        });
    }
}

/// Checks that a buffered answer and its stream have the same result. If they are replaced, the stream may have released text before.
fn same(whole: &DriveOutcome, stream: &DriveOutcome, what: &str) {
    assert_eq!((&whole.codes, &whole.citations), (&stream.codes, &stream.citations), "{what}: other findings");
    // Text that a stream has released can't be taken back, so a stream ends with a message where a buffered answer is repaired.
    let ended = |outcome: &DriveOutcome| if outcome.ending == DriveEnding::Open { DriveEnding::Replaced } else { outcome.ending.clone() };
    assert_eq!(ended(whole), ended(stream), "{what}: another end");
    assert_eq!(whole.read.calls, stream.read.calls, "{what}: other calls");
    if whole.ending == DriveEnding::Accepted {
        assert_eq!(whole.text(), stream.text(), "{what}: another text");
    } else if whole.ending == DriveEnding::Replaced && stream.ending == DriveEnding::Replaced {
        assert!(stream.text().ends_with(&whole.text()), "{what}: other words: {:?} {:?}", stream.text(), whole.text());
    }
}

/// Checks that an answer without violations is passed on unchanged.
fn lossless(script: &FuzzScript, outcome: &DriveOutcome) {
    if outcome.ending == DriveEnding::Accepted && outcome.all_codes().is_empty() && outcome.citations.is_empty() {
        assert_eq!(outcome.text(), script.text().unwrap_or_default(), "a text that is right is changed");
        let calls: Vec<(String, String)> =
            script.calls().into_iter().map(|(name, arguments)| (name.to_owned(), arguments.to_owned())).collect();
        let nothing = |arguments: &str| matches!(arguments.trim(), "" | "null" | "{}");
        let alike = outcome.read.calls.len() == calls.len()
            && outcome
                .read
                .calls
                .iter()
                .zip(&calls)
                .all(|(left, said)| left.0 == said.0 && (left.1.trim() == said.1.trim() || nothing(&left.1) && nothing(&said.1)));
        assert!(alike, "calls that are right are changed: {:?} {calls:?}", outcome.read.calls);
    }
}

/// An answer in its two forms: buffered, and streamed in one piece or in any pieces.
fn forms<A: Adapter>(data: &[u8], api: Api, write: impl Fn(&FuzzScript) -> (Vec<u8>, Vec<u8>)) {
    let Some(script) = FuzzScript::of(data) else { return };
    let Some(begun) = script.begin(script.by, api) else { return };
    let (body, stream) = write(&script);
    let of_whole = whole::<A>(&begun, &[&body], None);
    let run = |cuts| script.begin(script.by, api).map(|begun| streamed::<A>(&begun, &[&stream], cuts, None));
    let (Some(once), Some(again)) = (run(None), run(Some(script.stream_cuts.clone()))) else { return };
    assert_eq!(once, again, "a cut changes what leaves");
    if !begun.context.observes() {
        same(&of_whole, &once, "whole and streamed");
        lossless(&script, &of_whole);
    }
}

/// A chat completion.
pub(super) fn chat_forms(data: &[u8]) {
    forms::<Chat>(data, Api::Chat, |script| (script.chat_whole(), script.chat_stream()));
}

/// A response.
pub(super) fn responses_forms(data: &[u8]) {
    forms::<Responses>(data, Api::Responses, FuzzScript::responses_both);
}

/// A message of the Messages API.
pub(super) fn messages_forms(data: &[u8]) {
    forms::<Messages>(data, Api::Messages, FuzzScript::messages_both);
}

/// A chat completion, and the same translated for the other APIs, buffered and streamed.
pub(super) fn apis(data: &[u8]) {
    let Some(mut script) = FuzzScript::of(data) else { return };
    // In chat completions text comes before calls, and there is one message.
    script.says.retain(|say| matches!(say, Say::Text(_) | Say::Call(..)));
    script.says.sort_by_key(|say| matches!(say, Say::Call(..)));
    let Some(chat) = script.begin(script.by, Api::Chat) else { return };
    if chat.context.observes() {
        return;
    }
    let of_chat = whole::<Chat>(&chat, &[&script.chat_whole()], None);
    judged_alike::<Responses>(&script, Translation::RESPONSES_TO_CHAT, &of_chat);
    judged_alike::<Messages>(&script, Translation::MESSAGES_TO_CHAT, &of_chat);
}

/// Checks that the script's chat completion is judged the same once it is translated.
fn judged_alike<A: Adapter>(script: &FuzzScript, translation: Translation, of_chat: &DriveOutcome) {
    let api = translation.downstream;
    let (Some(begun), Some(again)) = (script.begin(script.by, api), script.begin(script.by, api)) else { return };
    let origin = Origin::new(translation, &script.request(api), "0".repeat(32), 1_700_000_000);
    let translated = whole::<A>(&begun, &[&script.chat_whole()], Some(&origin));
    let stream = streamed::<A>(&again, &[&script.chat_stream()], Some(script.stream_cuts.clone()), Some(&origin));
    same(&translated, &stream, "translated, whole and streamed");
    assert_eq!(of_chat.codes, translated.codes, "the two APIs judge differently");
    assert_eq!(of_chat.citations, translated.citations, "the two APIs cite differently");
    assert_eq!(of_chat.ending, translated.ending, "the two APIs end differently");
    assert_eq!(of_chat.read.calls, translated.read.calls, "the two APIs let other calls leave");
    if of_chat.ending == DriveEnding::Accepted {
        assert_eq!(of_chat.text(), translated.text(), "the two APIs let another text leave");
    }
}

/// With all corrections and with none: an accepted answer isn't changed, and a corrected answer is accepted without corrections.
pub(super) fn corrections(data: &[u8]) {
    let Some(script) = FuzzScript::of(data) else { return };
    let run = |by: By, body: &[u8]| script.begin(by, Api::Chat).map(|begun| whole::<Chat>(&begun, &[body], None));
    let body = script.chat_whole();
    let (Some(exact), Some(correcting)) = (run(By::Exact, &body), run(By::Correcting, &body)) else { return };
    if exact.ending == DriveEnding::Accepted {
        assert_eq!(exact, correcting, "what is right is corrected");
    }
    if correcting.ending == DriveEnding::Accepted && correcting.corrected {
        let says = correcting.allowed.iter().map(|(name, arguments)| Say::Call(name.clone(), arguments.clone()));
        let text = script.says.iter().filter(|say| !matches!(say, Say::Call(..))).cloned();
        let corrected = FuzzScript {
            says: text.chain(says).collect(),
            user: script.user.clone(),
            result: script.result.clone(),
            cuts: script.cuts.clone(),
            stream_cuts: script.stream_cuts.clone(),
            ..script
        };
        let Some(again) = corrected.begin(By::Exact, Api::Chat).map(|begun| whole::<Chat>(&begun, &[&corrected.chat_whole()], None)) else {
            return;
        };
        assert_eq!(again.ending, DriveEnding::Accepted, "what was corrected is not right: {:?} {:?}", correcting.allowed, again.codes);
        assert_eq!(again.allowed, correcting.allowed, "what was corrected is changed");
    }
}
