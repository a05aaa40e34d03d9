//! How a streamed response ends: its calls, the words that stand instead of what is held, the terminal event. Pure.
//!
//! Source: FACTS §2: `response.completed` or `response.failed` comes last, and repeats what was said before.

use bytes::BytesMut;

use super::{ResponseStream, Sent, What, texts::TEXT};
use crate::{
    exchange::{
        adapter::{End, Made},
        decide::Final,
        error::Reported,
        texts::is_nothing,
        thread::{Fate, Memo},
        usage,
    },
    judge::{
        call::{CallKind, ValidCall},
        marks::Moment,
    },
    responses::{
        memo,
        output::{ItemKind, Minter, Slot},
        words,
    },
    wire::{
        edit::Edits,
        json::{Document, Value},
        text::{quote, quote_into},
    },
};

/// A call that leaves.
pub(super) struct Accepted {
    item: usize,
    slot: Slot,
    call: ValidCall,
    moment: Moment,
    mark: String,
}

/// How the response object ends.
struct Ended<'e> {
    /// `output`, JSON; as edited in its place where it isn't given.
    output: Option<String>,
    /// It ended otherwise than the upstream says.
    replaced: bool,
    accepted: &'e [Accepted],
    earlier: Option<serde_json::Value>,
    verdict: &'e str,
    as_member: bool,
}

impl ResponseStream {
    pub(super) fn finish(&mut self, end: End<'_>, out: &mut BytesMut) -> Option<Memo> {
        let End { finals, earlier, verdict, as_member } = end;
        self.flush(out);
        match finals.into_iter().next()? {
            Final::Accept(calls) => {
                let accepted = self.accept(calls, out);
                let ended = Ended { output: None, replaced: false, accepted: &accepted, earlier, verdict, as_member };
                self.write_terminal(ended, out);
                let calls: Vec<_> = accepted.iter().map(|own| (own.mark.clone(), &own.slot, &own.call, own.moment)).collect();
                let memo = memo::remember(
                    &self.context,
                    self.head_id().as_deref(),
                    self.conversation().as_deref(),
                    &calls,
                    Vec::new(),
                    memo::of_one_item(self.fates.clone(), self.items().iter().map(|item| &*item.id)),
                );
                memo::worth_keeping(self.known_upstream_as(memo))
            }
            Final::Say(text) => {
                self.queue.clear();
                self.speak(&text, out);
                let ended = Ended { output: Some(self.output()), replaced: true, accepted: &[], earlier, verdict, as_member };
                self.write_terminal(ended, out);
                let items = memo::of_one_item(self.fates.iter().cloned().chain(self.sent.iter().filter_map(fate_of)), []);
                let memo =
                    memo::remember(&self.context, self.head_id().as_deref(), self.conversation().as_deref(), &[], self.owed.clone(), items);
                memo::worth_keeping(self.known_upstream_as(memo))
            }
        }
    }

    /// Everything that waits, and the calls in their places.
    fn accept(&mut self, calls: Vec<(ValidCall, Moment)>, out: &mut BytesMut) -> Vec<Accepted> {
        let mut minter = Minter::default();
        let slots: Vec<(usize, Slot)> =
            self.items().iter().enumerate().filter_map(|(at, item)| Some((at, item.call.as_ref()?.slot()))).collect();
        let mint = |((item, slot), (call, moment)): ((usize, Slot), (ValidCall, Moment))| {
            let mark = minter.mint(&self.context, &slot, call.name(), call.arguments(), moment);
            Accepted { item, slot, call, moment, mark }
        };
        let accepted: Vec<Accepted> = slots.into_iter().zip(calls).map(mint).collect();
        // INVARIANT: nothing blocks, so every gate has cleared all of its text.
        for waiting in std::mem::take(&mut self.queue) {
            match waiting.what {
                What::Call => {
                    if let Some(own) = accepted.iter().find(|own| Some(own.item) == waiting.item) {
                        self.emit_call(own, out);
                    }
                }
                _ => self.emit(&waiting, out),
            }
        }
        // Text that stands in the terminal event only.
        for part in 0..self.texts.parts.len() {
            let end = self.texts.parts.get(part).map_or(0, super::texts::Part::end);
            let placed = self.texts.parts.get(part).and_then(|part| self.items.get(part.item)).is_some_and(|item| item.place.is_some());
            if placed {
                self.rest(part, out);
            } else {
                self.texts.take(part, end);
            }
        }
        accepted
    }

    /// The events of a call that was judged.
    fn emit_call(&mut self, own: &Accepted, out: &mut BytesMut) {
        let place = self.place(own.item);
        let custom = own.slot.kind == CallKind::Custom;
        let (events, member) =
            if custom { ("response.custom_tool_call_input", "input") } else { ("response.function_call_arguments", "arguments") };
        let item = |arguments: &str, status: &str| call_item(own, member, arguments, status);
        self.emitter.made("response.output_item.added", &format!(",\"output_index\":{place},\"item\":{}", item("", "in_progress")), out);
        let id = quote(&own.slot.item_id);
        let said = |name: &str| format!(",\"item_id\":{id},\"output_index\":{place},\"{name}\":{}", quote(own.call.arguments()));
        self.emitter.made(&format!("{events}.delta"), &said("delta"), out);
        let name = if custom { String::new() } else { format!(",\"name\":{}", quote(&own.slot.name)) };
        self.emitter.made(&format!("{events}.done"), &format!("{}{name}", said(member)), out);
        let done = item(own.call.arguments(), "completed");
        self.emitter.made("response.output_item.done", &format!(",\"output_index\":{place},\"item\":{done}"), out);
        if let Some(sent) = self.sent.get_mut(place) {
            sent.json = Some(done);
        }
    }

    /// Says words of toolmark's own: in the message that is open, else in a new one.
    fn speak(&mut self, words: &str, out: &mut BytesMut) {
        let json_only = self.context.json_only;
        let open = self.open_text().filter(|_| !json_only);
        if let Some(part) = open {
            let gap = if self.texts.parts.get(part).is_some_and(|part| !part.left.is_empty()) { "\n\n" } else { "" };
            let words = format!("{gap}{words}");
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
        let (place, id) = (self.sent.len(), words::item_id(&self.context));
        let added = format!(r#"{{"type":"message","id":"{id}","status":"in_progress","role":"assistant","content":[]}}"#);
        self.emitter.made("response.output_item.added", &format!(",\"output_index\":{place},\"item\":{added}"), out);
        let at = format!(",\"item_id\":\"{id}\",\"output_index\":{place},\"content_index\":0");
        self.emitter.made("response.content_part.added", &format!("{at},\"part\":{}", words::message_part("", json_only)), out);
        let kind = if json_only { "response.refusal.delta" } else { "response.output_text.delta" };
        self.emitter.made_delta(kind, &id, place, 0, &words, out);
        let item = words::message_item(&words, &id, json_only);
        for (kind, members) in
            done_events(&at, if json_only { "refusal" } else { "output_text" }, &words, &words::message_part(&words, json_only))
        {
            self.emitter.made(&kind, &members, out);
        }
        self.emitter.made("response.output_item.done", &format!(",\"output_index\":{place},\"item\":{item}"), out);
        self.sent.push(Sent { id, json: Some(item) });
    }

    /// The part of text that was begun downstream and not ended.
    fn open_text(&self) -> Option<usize> {
        let last = self.texts.parts.iter().rposition(|part| !part.left.is_empty())?;
        let part = self.texts.parts.get(last).filter(|part| part.kind == TEXT)?;
        let place = self.items.get(part.item)?.place?;
        self.sent.get(place).is_some_and(|sent| sent.json.is_none()).then_some(last)
    }

    /// Ends what was begun downstream.
    fn close_open(&mut self, out: &mut BytesMut) {
        let (events, sent) = self.closing();
        for (kind, members) in events {
            self.emitter.made(&kind, &members, out);
        }
        self.sent = sent;
    }

    /// The events that end what was begun downstream, and the items as the application then has them.
    fn closing(&self) -> (Vec<(String, String)>, Vec<Sent>) {
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
                let json = words::message_part(&part.left, part.kind != TEXT);
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

    /// Goes on after an attempt that was rejected: what it had begun is ended first.
    pub(super) fn follow(&mut self, earlier: &Self) {
        let (events, sent) = earlier.closing();
        self.before = earlier.before.iter().cloned().chain(events).collect();
        self.fates = earlier.fates.iter().cloned().chain(sent.iter().filter_map(fate_of)).collect();
        self.sent = sent;
        self.sent_before = self.sent.len();
    }

    /// Ends what an earlier attempt had begun, before anything else leaves.
    pub(super) fn flush(&mut self, out: &mut BytesMut) {
        for (kind, members) in std::mem::take(&mut self.before) {
            self.emitter.made(&kind, &members, out);
        }
    }

    fn output(&self) -> String {
        format!("[{}]", self.sent.iter().filter_map(|sent| sent.json.as_deref()).collect::<Vec<_>>().join(","))
    }

    fn head_id(&self) -> Option<String> {
        self.head.as_ref()?.root().get("id")?.text().map(Into::into)
    }

    fn conversation(&self) -> Option<String> {
        let conversation = self.terminal.as_ref()?.document.root().get("response")?.get_some("conversation")?;
        conversation.text().or_else(|| conversation.get("id")?.text()).map(Into::into)
    }

    /// The upstream knows the response by the id of the attempt that ended it.
    fn known_upstream_as(&self, mut memo: Memo) -> Memo {
        let own = self.terminal.as_ref().and_then(|terminal| terminal.document.root().get("response")?.get("id")?.text());
        memo.thread.upstream_id = own.filter(|own| Some(&**own) != self.head_id().as_deref()).map(|own| own.as_ref().into());
        memo
    }

    fn write_terminal(&mut self, ended: Ended<'_>, out: &mut BytesMut) {
        out.extend_from_slice(b": toolmark ");
        out.extend_from_slice(ended.verdict.as_bytes());
        out.extend_from_slice(b"\n\n");
        let Some(terminal) = self.terminal.take() else { return };
        let root = terminal.document.root();
        let mut edits = Edits::default();
        if let Some(response) = root.get_some("response") {
            self.edit_response(&mut edits, response, &terminal.items, &ended);
        }
        if ended.replaced && !root.get("type").is_some_and(|kind| kind.is_text("response.completed")) {
            edits.set_member(root, "type", "\"response.completed\"");
        }
        if ended.as_member {
            edits.set_member(root, "toolmark", ended.verdict);
        } else {
            edits.remove_members(root, |name| name == "toolmark");
        }
        let document = match edits.is_empty() {
            true => Ok(terminal.document.clone()),
            false => Document::parse(edits.apply(terminal.document.bytes())),
        };
        if let Ok(document) = document {
            let same = document.bytes() == terminal.document.bytes();
            let mut event = terminal.event.clone();
            if !same {
                event.raw = bytes::Bytes::new();
            }
            self.emitter.pass(&event, &document, Edits::default(), out);
        }
        self.terminal = Some(terminal);
    }

    fn edit_response(&self, edits: &mut Edits, response: Value<'_>, items: &[usize], ended: &Ended<'_>) {
        if self.again
            && let Some(head) = &self.head
        {
            for name in ["id", "created_at"] {
                if let (Some(own), Some(first)) = (response.get(name), head.root().get(name)) {
                    edits.replace(own.span(), first.raw());
                }
            }
        }
        self.edit_output(edits, response, items, ended);
        if ended.replaced {
            edits.set_member(response, "status", "\"completed\"");
            if let Some(details) = response.get_some("incomplete_details") {
                edits.replace(details.span(), "null");
            }
        }
        if let Some(mut sum) = ended.earlier.clone() {
            if let Some(own) = response.get_some("usage") {
                usage::merge(&mut sum, own.raw_str());
            }
            edits.set_member(response, "usage", &sum.to_string());
        }
        if ended.as_member {
            edits.set_member(response, "toolmark", ended.verdict);
        } else {
            edits.remove_members(response, |name| name == "toolmark");
        }
    }

    fn edit_output(&self, edits: &mut Edits, response: Value<'_>, items: &[usize], ended: &Ended<'_>) {
        let left: String = self.texts.parts.iter().filter(|part| part.kind == TEXT).map(|part| part.left.as_str()).collect();
        if let Some(copy) = response.get_some("output_text").filter(|copy| !is_nothing(*copy) && !copy.is_text(&left)) {
            edits.replace(copy.span(), quote(&left));
        }
        let output = response.get_some("output");
        let values: Vec<Value<'_>> = output.into_iter().flat_map(Value::items).collect();
        let here = self.sent_before == 0 && (!values.is_empty() || self.sent.is_empty());
        match (&ended.output, output) {
            (Some(own), _) => edits.set_member(response, "output", own),
            (None, Some(_)) if here => {
                for (value, item) in values.iter().zip(items) {
                    if let Some(json) = self.final_item(*item, *value, ended.accepted) {
                        edits.replace(value.span(), json);
                    }
                }
            }
            (None, _) => {
                let earlier = self.sent.iter().take(self.sent_before).filter_map(|sent| sent.json.clone());
                let own = values
                    .iter()
                    .zip(items)
                    .map(|(value, item)| self.final_item(*item, *value, ended.accepted).unwrap_or_else(|| value.raw_str().to_owned()));
                let streamed = self.sent.iter().skip(self.sent_before).filter_map(|sent| sent.json.clone()).filter(|_| values.is_empty());
                let all: Vec<String> = earlier.chain(own).chain(streamed).collect();
                edits.set_member(response, "output", &format!("[{}]", all.join(",")));
            }
        }
    }

    /// An item of the terminal event as it leaves, where that isn't as it came.
    fn final_item(&self, item: usize, value: Value<'_>, accepted: &[Accepted]) -> Option<String> {
        match accepted.iter().find(|own| own.item == item) {
            Some(own) => {
                let member = if own.slot.kind == CallKind::Custom { "input" } else { "arguments" };
                let document = Document::parse(value.raw_bytes()).ok()?;
                let mut edits = Edits::default();
                edit_call(&mut edits, document.root(), own, member, own.call.arguments());
                String::from_utf8(edits.apply(document.bytes()).to_vec()).ok()
            }
            None => self.item_json(item, value).filter(|json| json.as_bytes() != value.raw()),
        }
    }

    /// Begins a response of toolmark's own where the upstream began none.
    fn begin_made(&mut self, made: &Made<'_>, out: &mut BytesMut) {
        if self.head.is_some() {
            return;
        }
        let response = words::response_object("in_progress", "[]", &Made { verdict: "", ..*made }, &self.context);
        self.emitter.made("response.created", &format!(",\"response\":{response}"), out);
        self.head = Document::parse(response.into()).ok();
    }

    pub(super) fn explain_with(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo> {
        self.queue.clear();
        self.flush(out);
        self.begin_made(made, out);
        self.speak(made.words, out);
        let head = self.head.clone()?;
        let mut edits = Edits::default();
        let root = head.root();
        edits.set_member(root, "status", "\"completed\"");
        edits.set_member(root, "output", &self.output());
        edits.set_member(root, "toolmark", made.verdict);
        let response = String::from_utf8(edits.apply(head.bytes()).to_vec()).ok()?;
        out.extend_from_slice(format!(": toolmark {}\n\n", made.verdict).as_bytes());
        let members = format!(",\"response\":{response},\"toolmark\":{}", made.verdict);
        self.emitter.made("response.completed", &members, out);
        let items = memo::of_one_item(self.fates.iter().cloned().chain(self.sent.iter().filter_map(fate_of)), []);
        memo::worth_keeping(memo::remember(&self.context, None, None, &[], self.owed.clone(), items))
    }

    pub(super) fn fail_with(&mut self, envelope: &str, out: &mut BytesMut) {
        self.flush(out);
        let error = Reported::read(envelope.as_bytes()).unwrap_or_default();
        self.begin_made(&Made { words: "", model: "", created: 0, verdict: "" }, out);
        let Some(head) = self.head.clone() else { return };
        let mut edits = Edits::default();
        let root = head.root();
        let code = error.code.as_deref().unwrap_or("server_error");
        edits.set_member(root, "status", "\"failed\"");
        edits.set_member(root, "error", &format!(r#"{{"code":{},"message":{}}}"#, quote(code), quote(&error.message)));
        edits.set_member(root, "output", &self.output());
        let response = String::from_utf8(edits.apply(head.bytes()).to_vec()).unwrap_or_default();
        self.emitter.made("response.failed", &format!(",\"response\":{response}"), out);
    }
}

/// What a later request may do with an item of an attempt that was rejected.
fn fate_of(sent: &Sent) -> Option<(String, Fate)> {
    let id = Some(sent.id.clone()).filter(|id| !id.is_empty())?;
    let document = Document::parse(sent.json.clone()?.into()).ok()?;
    let root = document.root();
    if !root.get("type").is_some_and(|kind| kind.is_text("message")) {
        return Some((id, Fate::Dropped));
    }
    let parts = root.get("content").into_iter().flat_map(Value::items);
    let text: String = parts.filter_map(|part| part.get("text").or_else(|| part.get("refusal"))?.text()).collect();
    Some((id, Fate::Instead(format!(r#"{{"role":"assistant","content":{}}}"#, quote(&text)).into())))
}

/// `…_text.done` and `content_part.done` of a part.
fn done_events(at: &str, kind: &str, text: &str, part: &str) -> [(String, String); 2] {
    let member = if kind == "refusal" { "refusal" } else { "text" };
    let mut said = format!("{at},\"{member}\":");
    quote_into(&mut said, text);
    if kind == "output_text" {
        said.push_str(",\"logprobs\":[]");
    }
    [(format!("response.{kind}.done"), said), ("response.content_part.done".to_owned(), format!("{at},\"part\":{part}"))]
}

fn edit_call(edits: &mut Edits, item: Value<'_>, own: &Accepted, member: &str, arguments: &str) {
    edits.set_member(item, "call_id", &quote(&own.mark));
    if !item.get(member).is_some_and(|text| text.is_text(arguments)) {
        edits.set_member(item, member, &quote(arguments));
    }
}

/// The item of a call, as its upstream's own but for what changes.
fn call_item(own: &Accepted, member: &str, arguments: &str, status: &str) -> String {
    let Ok(document) = Document::parse(own.slot.raw.clone().into()) else { return "{}".to_owned() };
    let root = document.root();
    let mut edits = Edits::default();
    edit_call(&mut edits, root, own, member, arguments);
    if root.get("status").is_some_and(|own| !own.is_text(status) && !own.is_text("incomplete")) {
        edits.set_member(root, "status", &quote(status));
    }
    String::from_utf8(edits.apply(document.bytes()).to_vec()).unwrap_or_default()
}
