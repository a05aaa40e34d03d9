//! End of a streamed response: its calls, toolmark's own text in place of held content, the terminal event. Pure.
//!
//! Source: docs/wire-facts.md#responses-streams: `response.completed` or `response.failed` comes last, and repeats what was said before.

use bytes::{Bytes, BytesMut};

use super::{EventRole, ResponseStream, texts::TEXT};
use crate::{
    exchange::{
        adapter::{End, Made},
        call_ids::CallIdMinter,
        conversation::Fate,
        conversation::{Left, Memo},
        decision::ChoiceOutcome,
        text::place::is_nothing,
    },
    judge::call::{CallKind, ValidCall},
    marks::MarkTime,
    openai::{error::Reported, usage},
    responses::{
        conversation_update,
        output_items::{OutputCall, echoed_status},
        response::write::rename,
        stream::sent::fate_of,
        synthetic,
    },
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// An accepted call.
pub(super) struct OutgoingCall {
    item: usize,
    slot: OutputCall,
    call: ValidCall,
    moment: MarkTime,
    mark: String,
    /// toolmark runs it: it is hidden from the application.
    hidden: bool,
}

/// ChoiceOutcome state of the response object.
struct ResponseEnd<'e> {
    /// `output`, JSON; if `None`, the upstream's output is edited in place.
    output: Option<String>,
    /// It doesn't end as the upstream's terminal event says.
    replaced: bool,
    accepted: &'e [OutgoingCall],
    earlier: Option<serde_json::Value>,
    verdict: &'e str,
    as_member: bool,
}

impl ResponseStream {
    pub(super) fn finish(&mut self, end: End<'_>, out: &mut BytesMut) -> Option<Memo> {
        let End { finals, earlier, verdict, as_member } = end;
        self.sent.flush(out);
        match finals.into_iter().next()? {
            ChoiceOutcome::Accept(calls) => {
                let accepted = self.accept(calls, out);
                let ended = ResponseEnd { output: None, replaced: false, accepted: &accepted, earlier, verdict, as_member };
                let left = self.write_terminal(ended, out);
                let visible = accepted.iter().filter(|own| !own.hidden);
                let calls: Vec<_> = visible.map(|own| (own.mark.clone(), &own.slot, &own.call, own.moment)).collect();
                let memo = conversation_update::remember(
                    &self.context,
                    self.head_id().as_deref(),
                    self.conversation().as_deref(),
                    &calls,
                    Vec::new(),
                    conversation_update::of_one_item(self.sent.fates.clone(), self.received.items.iter().map(|item| &*item.id)),
                );
                conversation_update::worth_keeping(as_left(self.known_upstream_as(memo), left))
            }
            said @ (ChoiceOutcome::Replace(_) | ChoiceOutcome::ReplaceByCall(_)) => {
                self.received.queue.clear();
                match said {
                    ChoiceOutcome::Replace(text) => self.sent.speak(&mut self.received, &text, out),
                    ChoiceOutcome::ReplaceByCall(call) => self.sent.speak_as_call(&self.received, &call.0, call.1, out),
                    ChoiceOutcome::Accept(_) => {}
                }
                let ended = ResponseEnd { output: Some(self.sent.output()), replaced: true, accepted: &[], earlier, verdict, as_member };
                let left = self.write_terminal(ended, out);
                // What was held back was never sent.
                let held = |id: &str| !id.is_empty() && !self.sent.items.iter().any(|sent| *sent.id == *id);
                let held = self.received.items.iter().filter(|item| held(&item.id)).map(|item| (item.id.to_string(), Fate::Dropped));
                let fates = self.sent.fates.iter().cloned().chain(self.sent.items.iter().filter_map(fate_of)).chain(held);
                let items = conversation_update::of_one_item(fates, []);
                let memo = conversation_update::remember(
                    &self.context,
                    self.head_id().as_deref(),
                    self.conversation().as_deref(),
                    &[],
                    self.owed.clone(),
                    items,
                );
                conversation_update::worth_keeping(as_left(self.known_upstream_as(memo), left))
            }
        }
    }

    /// Ends an attempt with only toolmark's own calls: all other queued events are sent.
    pub(super) fn settle(&mut self, out: &mut BytesMut) {
        self.sent.flush(out);
        self.accept(Vec::new(), out);
        self.settled = true;
    }

    /// Begins a response of toolmark's own if the upstream began none.
    fn begin_made(&mut self, made: &Made<'_>, out: &mut BytesMut) {
        if self.received.head.is_some() {
            return;
        }
        let response = synthetic::response_object("in_progress", "[]", &Made { verdict: "", ..*made }, &self.context);
        self.sent.emitter.made("response.created", &format!(",\"response\":{response}"), out);
        self.received.head = Document::parse(response.into()).ok();
    }

    pub(super) fn explain_with(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo> {
        self.received.queue.clear();
        self.sent.flush(out);
        self.begin_made(made, out);
        self.sent.speak(&mut self.received, made.words, out);
        let head = self.received.head.clone()?;
        let mut edits = Splices::default();
        let root = head.root();
        edits.set_member(root, "status", "\"completed\"");
        edits.set_member(root, "output", &self.sent.output());
        edits.set_member(root, "toolmark", made.verdict);
        let response = String::from_utf8(edits.apply(head.bytes()).to_vec()).ok()?;
        out.extend_from_slice(format!(": toolmark {}\n\n", made.verdict).as_bytes());
        let members = format!(",\"response\":{response},\"toolmark\":{}", made.verdict);
        self.sent.emitter.made("response.completed", &members, out);
        let items = conversation_update::of_one_item(self.sent.fates.iter().cloned().chain(self.sent.items.iter().filter_map(fate_of)), []);
        conversation_update::worth_keeping(conversation_update::remember(&self.context, None, None, &[], self.owed.clone(), items))
    }

    pub(super) fn fail_with(&mut self, envelope: &str, out: &mut BytesMut) {
        self.sent.flush(out);
        let error = Reported::read(envelope.as_bytes()).unwrap_or_default();
        self.begin_made(&Made { words: "", model: "", created: 0, verdict: "" }, out);
        let Some(head) = self.received.head.clone() else { return };
        let mut edits = Splices::default();
        let root = head.root();
        let code = error.code.as_deref().unwrap_or("server_error");
        edits.set_member(root, "status", "\"failed\"");
        edits.set_member(root, "error", &format!(r#"{{"code":{},"message":{}}}"#, quote(code), quote(&error.message)));
        edits.set_member(root, "output", &self.sent.output());
        let response = String::from_utf8(edits.apply(head.bytes()).to_vec()).unwrap_or_default();
        self.sent.emitter.made("response.failed", &format!(",\"response\":{response}"), out);
    }

    /// Sends all queued events, with the calls in their places.
    fn accept(&mut self, calls: Vec<(ValidCall, MarkTime)>, out: &mut BytesMut) -> Vec<OutgoingCall> {
        let mut minter = CallIdMinter::default();
        let slots: Vec<(usize, OutputCall)> =
            self.received.items.iter().enumerate().filter_map(|(at, item)| Some((at, item.call.as_ref()?.slot()))).collect();
        let mint = |((item, slot), (call, moment)): ((usize, OutputCall), (ValidCall, MarkTime))| {
            let mark = minter.mint(&self.context, &slot.call_id, call.name(), call.arguments(), moment);
            let hidden = self.context.tools().runs(call.name()).is_some();
            OutgoingCall { item, slot, call, moment, mark, hidden }
        };
        let accepted: Vec<OutgoingCall> = slots.into_iter().zip(calls).map(mint).collect();
        // INVARIANT: nothing blocks, so every gate has cleared all of its text.
        for waiting in std::mem::take(&mut self.received.queue) {
            match waiting.what {
                EventRole::Call => {
                    let theirs = accepted.iter().find(|own| Some(own.item) == waiting.item && !own.hidden);
                    if let Some(own) = theirs {
                        self.emit_call(own, out);
                    }
                }
                _ => self.emit(&waiting, out),
            }
        }
        // Text that stands in the terminal event only.
        for part in 0..self.received.texts.parts.len() {
            let end = self.received.texts.parts.get(part).map_or(0, super::texts::ContentPart::end);
            let placed = self
                .received
                .texts
                .parts
                .get(part)
                .and_then(|part| self.received.items.get(part.item))
                .is_some_and(|item| item.place.is_some());
            if placed {
                self.rest(part, out);
            } else {
                self.received.texts.take(part, end);
            }
        }
        accepted
    }

    /// Writes the events of an accepted call.
    fn emit_call(&mut self, own: &OutgoingCall, out: &mut BytesMut) {
        let place = self.sent.place(&mut self.received, own.item);
        let custom = own.slot.kind == CallKind::Custom;
        let (events, member) =
            if custom { ("response.custom_tool_call_input", "input") } else { ("response.function_call_arguments", "arguments") };
        let item = |arguments: &str, status: &str| call_item(own, member, arguments, status);
        self.sent.emitter.made(
            "response.output_item.added",
            &format!(",\"output_index\":{place},\"item\":{}", item("", "in_progress")),
            out,
        );
        let id = quote(&own.slot.item_id);
        let said = |name: &str| format!(",\"item_id\":{id},\"output_index\":{place},\"{name}\":{}", quote(own.call.arguments()));
        self.sent.emitter.made(&format!("{events}.delta"), &said("delta"), out);
        let name = if own.call.renamed() { own.call.name() } else { &*own.slot.name };
        let name = if custom { String::new() } else { format!(",\"name\":{}", quote(name)) };
        self.sent.emitter.made(&format!("{events}.done"), &format!("{}{name}", said(member)), out);
        let done = item(own.call.arguments(), "completed");
        self.sent.emitter.made("response.output_item.done", &format!(",\"output_index\":{place},\"item\":{done}"), out);
        if let Some(sent) = self.sent.items.get_mut(place) {
            sent.json = Some(done);
        }
    }

    pub(super) fn head_id(&self) -> Option<String> {
        self.received.head.as_ref()?.root().get("id")?.text().map(Into::into)
    }

    fn conversation(&self) -> Option<String> {
        let conversation = self.received.terminal.as_ref()?.document.root().get("response")?.get_some("conversation")?;
        conversation.text().or_else(|| conversation.get("id")?.text()).map(Into::into)
    }

    /// Records the upstream's id of the response, which is that of the last attempt.
    fn known_upstream_as(&self, mut memo: Memo) -> Memo {
        let own = self.received.terminal.as_ref().and_then(|terminal| terminal.document.root().get("response")?.get("id")?.text());
        memo.thread.upstream_id = own.filter(|own| Some(&**own) != self.head_id().as_deref()).map(|own| own.as_ref().into());
        memo
    }

    /// Writes the terminal event; returns its data.
    fn write_terminal(&mut self, ended: ResponseEnd<'_>, out: &mut BytesMut) -> Option<Bytes> {
        out.extend_from_slice(b": toolmark ");
        out.extend_from_slice(ended.verdict.as_bytes());
        out.extend_from_slice(b"\n\n");
        let terminal = self.received.terminal.take()?;
        let root = terminal.document.root();
        let mut edits = Splices::default();
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
        let mut left = None;
        if let Ok(document) = document {
            left = Some(document.bytes().clone());
            let same = document.bytes() == terminal.document.bytes();
            let mut event = terminal.event.clone();
            if !same {
                event.raw = Bytes::new();
            }
            self.sent.emitter.pass(&event, &document, Splices::default(), out);
        }
        self.received.terminal = Some(terminal);
        left
    }

    fn edit_response(&self, edits: &mut Splices, response: Value<'_>, items: &[usize], ended: &ResponseEnd<'_>) {
        if self.received.again
            && let Some(head) = &self.received.head
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

    fn edit_output(&self, edits: &mut Splices, response: Value<'_>, items: &[usize], ended: &ResponseEnd<'_>) {
        let left: String = self.received.texts.parts.iter().filter(|part| part.kind == TEXT).map(|part| part.left.as_str()).collect();
        if let Some(copy) = response.get_some("output_text").filter(|copy| !is_nothing(*copy) && !copy.is_text(&left)) {
            edits.replace(copy.span(), quote(&left));
        }
        let output = response.get_some("output");
        let values: Vec<Value<'_>> = output.into_iter().flat_map(Value::items).collect();
        let hides = |item: usize| ended.accepted.iter().any(|own| own.hidden && own.item == item);
        let here =
            self.sent.earlier_items == 0 && (!values.is_empty() || self.sent.items.is_empty()) && !items.iter().any(|item| hides(*item));
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
                let earlier = self.sent.items.iter().take(self.sent.earlier_items).filter_map(|sent| sent.json.clone());
                let own = values
                    .iter()
                    .zip(items)
                    .filter(|(_, item)| !hides(**item))
                    .map(|(value, item)| self.final_item(*item, *value, ended.accepted).unwrap_or_else(|| value.raw_str().to_owned()));
                let streamed =
                    self.sent.items.iter().skip(self.sent.earlier_items).filter_map(|sent| sent.json.clone()).filter(|_| values.is_empty());
                let all: Vec<String> = earlier.chain(own).chain(streamed).collect();
                edits.set_member(response, "output", &format!("[{}]", all.join(",")));
            }
        }
    }

    /// An item of the terminal event, as sent; `None` if it is unchanged.
    fn final_item(&self, item: usize, value: Value<'_>, accepted: &[OutgoingCall]) -> Option<String> {
        match accepted.iter().find(|own| own.item == item) {
            Some(own) => {
                let member = if own.slot.kind == CallKind::Custom { "input" } else { "arguments" };
                let document = Document::parse(value.raw_bytes()).ok()?;
                let mut edits = Splices::default();
                edit_call(&mut edits, document.root(), own, member, own.call.arguments());
                String::from_utf8(edits.apply(document.bytes()).to_vec()).ok()
            }
            None => self.item_json(item, value).filter(|json| json.as_bytes() != value.raw()),
        }
    }
}

fn as_left(memo: Memo, left: Option<Bytes>) -> Memo {
    match left {
        Some(left) => conversation_update::with_left(memo, || Left::Whole(left)),
        None => memo,
    }
}

fn edit_call(edits: &mut Splices, item: Value<'_>, own: &OutgoingCall, member: &str, arguments: &str) {
    edits.set_member(item, "call_id", &quote(&own.mark));
    rename(edits, item, &own.call, &[]);
    // The namespace in which it was judged, whatever this copy says.
    let says = item.get_some("namespace").and_then(Value::text).filter(|namespace| !namespace.is_empty());
    match own.slot.namespace.as_deref().filter(|_| !own.call.renamed()) {
        Some(judged) if says.as_deref() != Some(judged) => edits.set_member(item, "namespace", &quote(judged)),
        _ => {}
    }
    if !item.get(member).is_some_and(|text| text.is_text(arguments)) {
        edits.set_member(item, member, &quote(arguments));
    }
}

/// The item of a call, edited from the upstream's.
fn call_item(own: &OutgoingCall, member: &str, arguments: &str, status: &str) -> String {
    let Ok(document) = Document::parse(own.slot.raw.clone().into()) else { return "{}".to_owned() };
    let root = document.root();
    let mut edits = Splices::default();
    edit_call(&mut edits, root, own, member, arguments);
    echoed_status(&mut edits, root, status);
    String::from_utf8(edits.apply(document.bytes()).to_vec()).unwrap_or_default()
}
