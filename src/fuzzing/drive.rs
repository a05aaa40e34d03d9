//! Passes answers through their adapter as the proxy does, repairs included, without any I/O; and reads the output as an application does.

use std::{collections::BTreeMap, time::Duration};

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::{
    bench::{FORGED, MOMENT},
    input::{Cuts, bounded},
};
use crate::{
    exchange::{
        adapter::{Adapter, AnswerStream as _, End, WholeAnswer as _},
        attempts::{Attempts, FinishedAnswer, NextStep},
        context::{Begun, JudgedChoice},
        decision::ChoiceOutcome,
        error::Fault,
        turn::EchoedTurn,
    },
    judge::call::ValidCall,
    translate::{
        answer::{Origin, answer, stream::StreamTranslator},
        sse_feed::{Reader, Unread},
    },
    violation::{Code, Violation},
    wire::{json::Document, sse::SseParser},
};

/// End of an exchange.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum DriveEnding {
    /// With the model's answer.
    Accepted,
    /// With a message of toolmark's.
    Replaced,
    /// With an error for a violation.
    Refused(Code),
    /// With an error caused by the upstream.
    Fault(String),
    /// The model would be asked again, but the input has no further answer.
    Open,
}

/// Result of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DriveOutcome {
    pub ending: DriveEnding,
    /// Violations by choice, of all attempts.
    pub codes: Vec<Vec<Code>>,
    /// Verified execution IDs that the answer cites.
    pub citations: Vec<String>,
    /// Calls that may be sent: names and arguments.
    pub allowed: Vec<(String, String)>,
    /// At least one of them was corrected.
    pub corrected: bool,
    /// Data of the events that were sent; for a buffered answer, its body.
    pub events: Vec<Vec<u8>>,
    /// Content as an application reads it.
    pub read: Delivered,
}

/// Content that an application reads.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Delivered {
    /// Texts by index of the choice.
    pub texts: BTreeMap<u64, String>,
    /// Names and arguments of the calls.
    pub calls: Vec<(String, String)>,
}

impl DriveOutcome {
    fn new() -> Self {
        let (codes, citations, allowed) = (Vec::new(), Vec::new(), Vec::new());
        Self { ending: DriveEnding::Open, codes, citations, allowed, corrected: false, events: Vec::new(), read: Delivered::default() }
    }

    fn judged(&mut self, judged: &[JudgedChoice]) {
        self.codes.extend(judged.iter().map(|choice| choice.violations().map(|violation| violation.code).collect::<Vec<_>>()));
        self.citations = judged.iter().flat_map(|choice| choice.citations.clone()).collect();
    }

    fn finals(&mut self, finished: FinishedAnswer, ending: DriveEnding) -> Vec<ChoiceOutcome> {
        self.ending = ending;
        let allow = |choice: ChoiceOutcome<ValidCall>| {
            choice.with_moments(|call| {
                self.corrected |= call.corrected();
                self.allowed.push((call.name().to_owned(), call.arguments().to_owned()));
                MOMENT
            })
        };
        finished.choices.into_iter().map(allow).collect()
    }

    /// Codes of all violations, in all attempts.
    pub fn all_codes(&self) -> Vec<Code> {
        self.codes.iter().flatten().copied().collect()
    }

    /// All text of all choices.
    pub fn text(&self) -> String {
        self.read.texts.values().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Builds the next attempt's request and checks that it is valid.
fn ask_again<A: Adapter>(begun: &Begun, turn: &EchoedTurn, repairs: u32) {
    let body = bounded("the next request", || A::next_request(&begun.body.joined(), turn, repairs, &begun.context));
    let parsed = body.and_then(Document::parse);
    assert!(parsed.as_ref().is_ok_and(|request| request.root().is_object()), "the next attempt's request is none: {parsed:?}");
}

/// Judges streamed attempts. `origin`: set if they are translated.
pub(super) fn streamed<A: Adapter>(begun: &Begun, attempts: &[&[u8]], mut cuts: Option<Cuts>, origin: Option<&Origin>) -> DriveOutcome {
    let context = &begun.context;
    let (mut outcome, mut out) = (DriveOutcome::new(), BytesMut::new());
    // Time never runs out here.
    let (mut tries, elapsed) = (Attempts::default(), Duration::ZERO);
    let mut judge = A::Stream::new(context.clone(), None);
    for (at, attempt) in attempts.iter().enumerate() {
        if at > 0 {
            judge = A::Stream::new(context.clone(), Some(&judge));
        }
        tries.start();
        let pieces = cuts.as_mut().map_or_else(|| vec![*attempt], |cuts| cuts.pieces(attempt));
        let translator = origin.map(|origin| StreamTranslator::new(origin.clone(), context.held_bytes_max));
        let judged = read::<A>(&mut judge, Reader::new(translator), &pieces, &mut out);
        let judged = judged.and_then(|()| bounded("the judgement of a stream", || judge.conclude(context.first_attempt())));
        let judged = match judged {
            Ok(judged) => judged,
            Err(fault) => {
                outcome.ending = DriveEnding::Fault(fault.to_string());
                judge.fail(r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, &mut out);
                break;
            }
        };
        outcome.judged(&judged);
        if judge.released() {
            tries.text_sent();
        }
        let finished = match tries.judged(context, judged, |at| judge.said(at), elapsed) {
            NextStep::Repair(turn) => {
                ask_again::<A>(begun, &turn, tries.findings().repairs);
                continue;
            }
            NextStep::Refuse { violation, .. } => {
                outcome.ending = DriveEnding::Refused(violation.code);
                judge.fail(r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, &mut out);
                break;
            }
            NextStep::Finish(finished) | NextStep::RunTools(finished) => finished,
            #[expect(clippy::unreachable, reason = "a fuzz target fails by a panic")]
            NextStep::Replace { text, .. } => unreachable!("no call was rejected by the upstream: {text}"),
        };
        let finals = outcome.finals(finished, if tries.findings().blocked { DriveEnding::Replaced } else { DriveEnding::Accepted });
        let _memo = bounded("the end of a stream", || {
            judge.end(End { finals, earlier: None, verdict: r#"{"verdict":"x"}"#, as_member: at % 2 == 0 }, &mut out)
        });
        break;
    }
    outcome.events = events(&out, begun);
    outcome.read = delivered(&outcome.events);
    hold(begun, &outcome);
    outcome
}

fn read<A: Adapter>(judge: &mut A::Stream, mut reader: Reader, pieces: &[&[u8]], out: &mut BytesMut) -> Result<(), Fault> {
    for piece in pieces {
        if reader.done() {
            break;
        }
        match bounded("a piece of a stream", || reader.handle(Bytes::copy_from_slice(piece), judge, out)) {
            Ok(()) => {}
            Err(Unread::Fault(fault)) => return Err(fault),
            Err(Unread::TooLong(_)) => return Err(Fault::Unknown("too long")),
        }
    }
    bounded("the end of a stream's bytes", || reader.finish(judge, out))
}

/// Judges buffered attempts. `origin`: as in [`streamed`].
pub(super) fn whole<A: Adapter>(begun: &Begun, attempts: &[&[u8]], origin: Option<&Origin>) -> DriveOutcome {
    let context = &begun.context;
    let mut outcome = DriveOutcome::new();
    let (mut tries, elapsed) = (Attempts::default(), Duration::ZERO);
    for attempt in attempts {
        tries.start();
        let body = Bytes::copy_from_slice(attempt);
        let translated = match origin {
            Some(origin) => bounded("the translation of an answer", || answer(&body, origin)),
            None => Ok(body),
        };
        let read = translated.and_then(|body| bounded("the reading of an answer", || A::Answer::read(body, context)));
        let read = match read {
            Ok(read) => read,
            Err(fault) => {
                outcome.ending = DriveEnding::Fault(fault.to_string());
                break;
            }
        };
        let judged = bounded("the judgement of an answer", || read.judge(context, context.first_attempt()));
        outcome.judged(&judged);
        let finished = match tries.judged(context, judged, |at| read.said(at), elapsed) {
            NextStep::Repair(turn) => {
                ask_again::<A>(begun, &turn, tries.findings().repairs);
                continue;
            }
            NextStep::Refuse { violation, .. } => {
                outcome.ending = DriveEnding::Refused(violation.code);
                break;
            }
            NextStep::Finish(finished) | NextStep::RunTools(finished) => finished,
            #[expect(clippy::unreachable, reason = "a fuzz target fails by a panic")]
            NextStep::Replace { text, .. } => unreachable!("no call was rejected by the upstream: {text}"),
        };
        let replaced = tries.findings().blocked;
        let finals = outcome.finals(finished, if replaced { DriveEnding::Replaced } else { DriveEnding::Accepted });
        let written = bounded("the writing of an answer", || read.write(finals, context, None, replaced.then_some("{}")));
        outcome.events = vec![written.body.to_vec()];
        break;
    }
    outcome.read = delivered(&outcome.events);
    hold(begun, &outcome);
    outcome
}

/// The data of the events that were sent.
fn events(out: &[u8], begun: &Begun) -> Vec<Vec<u8>> {
    let (mut parser, mut events) = (SseParser::default(), Vec::new());
    let fed = parser.handle(Bytes::copy_from_slice(out), |event| events.push(event));
    assert!(fed.is_ok(), "an event that left is too long");
    // What is only observed leaves as it came.
    let ended = parser.finish().is_none() || begun.context.observes();
    assert!(ended, "the last event has no end: {}", String::from_utf8_lossy(out));
    events.into_iter().filter_map(|event| event.data).map(|data| data.to_vec()).collect()
}

/// Checks the invariants of everything that is sent.
fn hold(begun: &Begun, outcome: &DriveOutcome) {
    if begun.context.observes() {
        return;
    }
    let shown = || String::from_utf8_lossy(&outcome.events.join(&b"\n"[..])).into_owned();
    for event in outcome.events.iter().filter(|event| event.trim_ascii() != b"[DONE]") {
        assert!(serde_json::from_slice::<Value>(event).is_ok(), "what leaves is no JSON: {}", String::from_utf8_lossy(event));
    }
    for call in &outcome.read.calls {
        assert!(outcome.allowed.contains(call), "a call leaves that wasn't accepted: {call:?}\nof {:?}\n{}", outcome.allowed, shown());
    }
    let said_by_others = String::from_utf8_lossy(begun.context.request().bytes()).contains("deadbeefdeadbeef");
    let text = outcome.text();
    assert!(said_by_others || !has_word(&text, FORGED), "a forged id leaves: {text}\n{:?}\n{}", outcome.codes, shown());
}

/// Returns whether the text contains the word, not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let (before, after) = (
        |at: usize| text.get(..at).and_then(|text| text.chars().next_back()),
        |at: usize| text.get(at..).and_then(|text| text.chars().next()),
    );
    text.match_indices(word).any(|(at, _)| !part(before(at)) && !part(after(at + word.len())))
}

/// Reads the output as an application does, streamed or buffered.
pub(super) fn delivered(events: &[Vec<u8>]) -> Delivered {
    let mut read = Delivered::default();
    let mut chat: BTreeMap<(u64, String), (String, String)> = BTreeMap::new();
    let mut of_responses: BTreeMap<String, (String, String)> = BTreeMap::new();
    for event in events {
        let Ok(event) = serde_json::from_slice::<Value>(event) else { continue };
        for choice in event["choices"].as_array().into_iter().flatten() {
            let index = choice["index"].as_u64().unwrap_or(0);
            let inner = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
            for name in ["content", "refusal"] {
                read.texts.entry(index).or_default().push_str(inner[name].as_str().unwrap_or_default());
            }
            let legacy = &inner["function_call"];
            for (at, call) in inner["tool_calls"].as_array().into_iter().flatten().enumerate() {
                let at = call["index"].as_u64().unwrap_or(at as u64);
                let said = chat.entry((index, at.to_string())).or_default();
                for (inner, arguments) in [("function", "arguments"), ("custom", "input")] {
                    said.0.push_str(call[inner]["name"].as_str().unwrap_or_default());
                    said.1.push_str(call[inner][arguments].as_str().unwrap_or_default());
                }
            }
            if legacy.is_object() {
                let said = chat.entry((index, "legacy".into())).or_default();
                said.0.push_str(legacy["name"].as_str().unwrap_or_default());
                said.1.push_str(legacy["arguments"].as_str().unwrap_or_default());
            }
        }
        items(&event, &mut read, &mut of_responses);
    }
    let of_messages = blocks(events, &mut read);
    read.calls = chat.into_values().chain(of_responses.into_values()).chain(of_messages).collect();
    read
}

/// Reads the blocks of the Messages API, whole or streamed: returns the calls.
fn blocks(events: &[Vec<u8>], read: &mut Delivered) -> Vec<(String, String)> {
    let (mut calls, mut open): (Vec<(String, String)>, BTreeMap<u64, usize>) = (Vec::new(), BTreeMap::new());
    for event in events {
        let Ok(document) = Document::parse(event.clone().into()) else { continue };
        let Ok(said) = serde_json::from_slice::<Value>(event) else { continue };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut texts = vec![text(&said["delta"]["stop_details"]["explanation"]), text(&said["stop_details"]["explanation"])];
        let index = said["index"].as_u64().unwrap_or(0);
        match said["type"].as_str() {
            Some("message") => {
                // The input as it is written.
                for block in document.root().get("content").into_iter().flat_map(|content| content.items()) {
                    let member = |name: &str| block.get(name).and_then(|value| value.text()).unwrap_or_default().into_owned();
                    match &*member("type") {
                        "tool_use" => {
                            calls.push((member("name"), block.get("input").map(|input| input.raw_str().to_owned()).unwrap_or_default()))
                        }
                        _ => texts.insert(texts.len() - 2, member("text")),
                    }
                }
            }
            Some("content_block_start") if said["content_block"]["type"] == "tool_use" => {
                open.insert(index, calls.len());
                calls.push((text(&said["content_block"]["name"]), String::new()));
            }
            Some("content_block_start") => texts.push(text(&said["content_block"]["text"])),
            Some("content_block_delta") => {
                texts.push(text(&said["delta"]["text"]));
                if let Some(call) = open.get(&index).and_then(|at| calls.get_mut(*at)) {
                    call.1.push_str(&text(&said["delta"]["partial_json"]));
                }
            }
            _ => {}
        }
        texts.retain(|text| !text.is_empty());
        if !texts.is_empty() {
            read.texts.entry(0).or_default().push_str(&texts.concat());
        }
    }
    calls
}

/// Reads the items of the Responses API in an event: of a call the last form counts, of a text all parts.
fn items(event: &Value, read: &mut Delivered, calls: &mut BTreeMap<String, (String, String)>) {
    let response = if event["response"].is_object() { &event["response"] } else { event };
    let output = response["output"].as_array().into_iter().flatten();
    let (at, done) = (event["output_index"].as_u64().unwrap_or(0), event["type"] == "response.output_item.done");
    let own = (event["item"].is_object() && done).then_some((at, &event["item"]));
    if event["type"] == "response.output_text.delta" {
        read.texts.entry(0).or_default().push_str(event["delta"].as_str().unwrap_or_default());
    }
    let whole = event["type"].is_null() || event["object"] == "response";
    for (at, item) in output.enumerate().map(|(at, item)| (at as u64, item)).chain(own) {
        let arguments = match item["type"].as_str() {
            Some("function_call") => "arguments",
            Some("custom_tool_call") => "input",
            kind => {
                // Clients join the texts of messages; one of another item stands by itself.
                let place = if matches!(kind, None | Some("message")) { 0 } else { at + 1 };
                for part in item["content"].as_array().into_iter().flatten().filter(|_| whole) {
                    let said = part["text"].as_str().or(part["refusal"].as_str());
                    read.texts.entry(place).or_default().push_str(said.unwrap_or_default());
                }
                continue;
            }
        };
        let (name, arguments) = (item["name"].as_str().unwrap_or_default(), item[arguments].as_str().unwrap_or_default());
        calls.insert(format!("{at:08}"), (name.to_owned(), arguments.to_owned()));
    }
}

/// Returns whether any of these violations blocks.
pub(super) fn block(violations: &[Violation]) -> bool {
    violations.iter().any(Violation::blocks)
}
