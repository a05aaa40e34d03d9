//! Events of toolmark's own in a streamed response: text in place of held content, the ends of a rejected attempt's
//! items, a response that the upstream never gave, a failure. Pure.

use bytes::BytesMut;

use super::{EmittedItem, ResponseStream, texts::TEXT};
use crate::{
    exchange::{
        adapter::Made,
        conversation::{Fate, Memo},
    },
    judge::call::ValidCall,
    marks::MarkTime,
    openai::error::Reported,
    responses::{conversation_update, output_items::ItemKind, request::prepare::assistant_item, synthetic},
    wire::json::{
        Document, Value,
        splice::Splices,
        string::{quote, quote_into},
    },
};

impl ResponseStream {
    /// Adds toolmark's own text: to the open message, else in a new one.
    pub(super) fn speak(&mut self, words: &str, out: &mut BytesMut) {
        let json_only = self.context.words_are_refusal();
        let open = self.open_text().filter(|_| !json_only);
        if let Some(part) = open {
            let gap = if self.texts.parts.get(part).is_some_and(|part| !part.left.is_empty()) { "\n\n" } else { "" };
            // What it says doesn't stand in a fence or element that the model had opened.
            let open = if gap.is_empty() { String::new() } else { self.texts.closing() };
            let words = format!("{open}{gap}{words}");
            self.say(part, &words, out);
            if let Some(part) = self.texts.parts.get_mut(part) {
                part.left.push_str(&words);
            }
            self.close_open(out);
            return;
        }
        self.close_open(out);
        let gap = if (self.released || self.released_before) && !json_only { "\n\n" } else { "" };
        let words = format!("{gap}{words}");
        let (place, id) = (self.sent.len(), synthetic::item_id(&self.context));
        let added = format!(r#"{{"type":"message","id":"{id}","status":"in_progress","role":"assistant","content":[]}}"#);
        self.emitter.made("response.output_item.added", &format!(",\"output_index\":{place},\"item\":{added}"), out);
        let at = format!(",\"item_id\":\"{id}\",\"output_index\":{place},\"content_index\":0");
        self.emitter.made("response.content_part.added", &format!("{at},\"part\":{}", synthetic::message_part("", json_only)), out);
        let kind = if json_only { "response.refusal.delta" } else { "response.output_text.delta" };
        self.emitter.made_delta(kind, &id, place, 0, &words, out);
        let item = synthetic::message_item(&words, &id, json_only);
        for (kind, members) in
            done_events(&at, if json_only { "refusal" } else { "output_text" }, &words, &synthetic::message_part(&words, json_only))
        {
            self.emitter.made(&kind, &members, out);
        }
        self.emitter.made("response.output_item.done", &format!(",\"output_index\":{place},\"item\":{item}"), out);
        self.sent.push(EmittedItem { id, json: Some(item) });
    }

    /// Sends toolmark's own text as a call, because one was demanded.
    pub(super) fn speak_as_call(&mut self, call: &ValidCall, moment: MarkTime, out: &mut BytesMut) {
        self.close_open(out);
        let mark = self.context.mint(call.name(), call.arguments(), moment);
        let (place, id) = (self.sent.len(), synthetic::call_item_id(&self.context));
        let item = |arguments: &str, status: &str| synthetic::call_item(call, arguments, &mark, status, &self.context);
        let (added, done) = (item("", "in_progress"), item(call.arguments(), "completed"));
        let arguments = quote(call.arguments());
        let at = format!(",\"item_id\":\"{id}\",\"output_index\":{place}");
        for (kind, members) in [
            ("output_item.added", format!(",\"output_index\":{place},\"item\":{added}")),
            ("function_call_arguments.delta", format!("{at},\"delta\":{arguments}")),
            ("function_call_arguments.done", format!("{at},\"arguments\":{arguments},\"name\":{}", quote(call.name()))),
            ("output_item.done", format!(",\"output_index\":{place},\"item\":{done}")),
        ] {
            self.emitter.made(&format!("response.{kind}"), &members, out);
        }
        self.sent.push(EmittedItem { id, json: Some(done) });
    }

    /// The text part that was begun downstream and isn't done.
    fn open_text(&self) -> Option<usize> {
        let last = self.texts.parts.iter().rposition(|part| !part.left.is_empty())?;
        let part = self.texts.parts.get(last).filter(|part| part.kind == TEXT)?;
        let place = self.items.get(part.item)?.place?;
        self.sent.get(place).is_some_and(|sent| sent.json.is_none()).then_some(last)
    }

    /// Ends everything that was begun downstream.
    fn close_open(&mut self, out: &mut BytesMut) {
        let (events, sent) = self.closing();
        for (kind, members) in events {
            self.emitter.made(&kind, &members, out);
        }
        self.sent = sent;
    }

    /// The events that end everything begun downstream, and the items as the application then has them.
    fn closing(&self) -> (Vec<(String, String)>, Vec<EmittedItem>) {
        let (mut events, mut sent) = (Vec::new(), self.sent.clone());
        for (number, item) in self.items.iter().enumerate() {
            let Some((place, own)) = item.place.and_then(|place| Some((place, sent.get_mut(place)?))) else { continue };
            if own.json.is_some() {
                continue;
            }
            if item.kind != ItemKind::Message {
                // Nothing of a call is begun before it is judged.
                if item.call.is_none() && !item.raw.is_empty() {
                    events.push(("response.output_item.done".to_owned(), format!(",\"output_index\":{place},\"item\":{}", item.raw)));
                    own.json = Some(item.raw.clone());
                }
                continue;
            }
            let mut parts = Vec::new();
            for part in self.texts.parts.iter().filter(|part| part.item == number) {
                let at = format!(",\"item_id\":{},\"output_index\":{place},\"content_index\":{}", quote(&item.id), part.content_index);
                let json = synthetic::message_part(&part.left, part.kind != TEXT);
                events.extend(done_events(&at, if part.kind == TEXT { "output_text" } else { "refusal" }, &part.left, &json));
                parts.push(json);
            }
            let id = quote(&item.id);
            let json = format!(r#"{{"type":"message","id":{id},"status":"completed","role":"assistant","content":[{}]}}"#, parts.join(","));
            events.push(("response.output_item.done".to_owned(), format!(",\"output_index\":{place},\"item\":{json}")));
            own.json = Some(json);
        }
        (events, sent)
    }

    /// Continues after an earlier attempt; everything that it had begun is ended first.
    pub(super) fn follow(&mut self, earlier: &Self) {
        let (events, sent) = earlier.closing();
        self.before = earlier.before.iter().cloned().chain(events).collect();
        // What was accepted stands for itself.
        let rejected = sent.iter().skip(earlier.sent_before).filter(|_| !earlier.settled);
        self.fates = earlier.fates.iter().cloned().chain(rejected.filter_map(fate_of)).collect();
        self.sent = sent;
        self.sent_before = self.sent.len();
    }

    /// Writes the events that end an earlier attempt's items, before anything else is sent.
    pub(super) fn flush(&mut self, out: &mut BytesMut) {
        for (kind, members) in std::mem::take(&mut self.before) {
            self.emitter.made(&kind, &members, out);
        }
    }

    pub(super) fn output(&self) -> String {
        format!("[{}]", self.sent.iter().filter_map(|sent| sent.json.as_deref()).collect::<Vec<_>>().join(","))
    }

    /// Begins a response of toolmark's own if the upstream began none.
    fn begin_made(&mut self, made: &Made<'_>, out: &mut BytesMut) {
        if self.head.is_some() {
            return;
        }
        let response = synthetic::response_object("in_progress", "[]", &Made { verdict: "", ..*made }, &self.context);
        self.emitter.made("response.created", &format!(",\"response\":{response}"), out);
        self.head = Document::parse(response.into()).ok();
    }

    pub(super) fn explain_with(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo> {
        self.queue.clear();
        self.flush(out);
        self.begin_made(made, out);
        self.speak(made.words, out);
        let head = self.head.clone()?;
        let mut edits = Splices::default();
        let root = head.root();
        edits.set_member(root, "status", "\"completed\"");
        edits.set_member(root, "output", &self.output());
        edits.set_member(root, "toolmark", made.verdict);
        let response = String::from_utf8(edits.apply(head.bytes()).to_vec()).ok()?;
        out.extend_from_slice(format!(": toolmark {}\n\n", made.verdict).as_bytes());
        let members = format!(",\"response\":{response},\"toolmark\":{}", made.verdict);
        self.emitter.made("response.completed", &members, out);
        let items = conversation_update::of_one_item(self.fates.iter().cloned().chain(self.sent.iter().filter_map(fate_of)), []);
        conversation_update::worth_keeping(conversation_update::remember(&self.context, None, None, &[], self.owed.clone(), items))
    }

    pub(super) fn fail_with(&mut self, envelope: &str, out: &mut BytesMut) {
        self.flush(out);
        let error = Reported::read(envelope.as_bytes()).unwrap_or_default();
        self.begin_made(&Made { words: "", model: "", created: 0, verdict: "" }, out);
        let Some(head) = self.head.clone() else { return };
        let mut edits = Splices::default();
        let root = head.root();
        let code = error.code.as_deref().unwrap_or("server_error");
        edits.set_member(root, "status", "\"failed\"");
        edits.set_member(root, "error", &format!(r#"{{"code":{},"message":{}}}"#, quote(code), quote(&error.message)));
        edits.set_member(root, "output", &self.output());
        let response = String::from_utf8(edits.apply(head.bytes()).to_vec()).unwrap_or_default();
        self.emitter.made("response.failed", &format!(",\"response\":{response}"), out);
    }
}

/// Disposition of an item of a rejected attempt, for later requests.
pub(super) fn fate_of(sent: &EmittedItem) -> Option<(String, Fate)> {
    let id = Some(sent.id.clone()).filter(|id| !id.is_empty())?;
    let document = Document::parse(sent.json.clone()?.into()).ok()?;
    let root = document.root();
    if !root.get("type").is_some_and(|kind| kind.is_text("message")) {
        return Some((id, Fate::Dropped));
    }
    let parts = root.get("content").into_iter().flat_map(Value::items);
    let text: String = parts.filter_map(|part| part.get("text").or_else(|| part.get("refusal"))?.text()).collect();
    Some((id, Fate::Instead(assistant_item(&quote(&text)).into())))
}

/// `…_text.done` and `content_part.done` events of a part.
fn done_events(at: &str, kind: &str, text: &str, part: &str) -> [(String, String); 2] {
    let member = if kind == "refusal" { "refusal" } else { "text" };
    let mut said = format!("{at},\"{member}\":");
    quote_into(&mut said, text);
    if kind == "output_text" {
        said.push_str(",\"logprobs\":[]");
    }
    [(format!("response.{kind}.done"), said), ("response.content_part.done".to_owned(), format!("{at},\"part\":{part}"))]
}
