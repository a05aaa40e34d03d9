//! Releases the judged part of a streamed response while the rest still arrives. Pure.
//!
//! Never releases a character that a gate hasn't cleared, nor anything of a call or behind one.

use bytes::BytesMut;

use super::{EventRole, QueuedEvent, ResponseStream, texts::TEXT};
use crate::{
    exchange::text::annotations,
    responses::{
        output_items::{ItemKind, MessageStrings, part_strings},
        synthetic,
    },
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// Minimum length of cleared text in a partly cleared event for a separate delta, in bytes.
const PART_BYTES_MIN: usize = 16;

impl ResponseStream {
    /// Releases cleared events.
    pub(super) fn pump(&mut self, out: &mut BytesMut) {
        while let Some(at) = self.first() {
            if !self.received.queue.get(at).is_some_and(|waiting| self.may_leave(waiting)) {
                break;
            }
            self.let_go(at + 1, out);
        }
        self.emit_part(out);
    }

    /// Index of the first queued event behind those that only begin something.
    fn first(&mut self) -> Option<usize> {
        while self.received.queue.get(self.received.opens).is_some_and(|waiting| matches!(waiting.what, EventRole::Opens)) {
            self.received.opens += 1;
        }
        (self.received.opens < self.received.queue.len()).then_some(self.received.opens)
    }

    fn let_go(&mut self, count: usize, out: &mut BytesMut) {
        self.received.opens = self.received.opens.saturating_sub(count);
        for _ in 0..count {
            if let Some(waiting) = self.received.queue.pop_front() {
                self.received.held_bytes = self.received.held_bytes.saturating_sub(waiting.held_bytes());
                self.emit(&waiting, out);
            }
        }
    }

    fn may_leave(&self, waiting: &QueuedEvent) -> bool {
        let cleared =
            |part: &usize| self.received.texts.parts.get(*part).is_some_and(|part| self.received.texts.cleared(part.kind) >= part.end());
        match &waiting.what {
            EventRole::Delta { part, end } => {
                !self.waits() && self.received.texts.parts.get(*part).is_some_and(|part| self.received.texts.cleared(part.kind) >= *end)
            }
            EventRole::RepeatsText(part) | EventRole::RepeatsPart(part) => !self.waits() && cleared(part),
            EventRole::RepeatsItem => !self.waits() && self.received.texts.parts_of(waiting.item).all(|part| cleared(&part)),
            EventRole::Call => false,
            EventRole::Opens | EventRole::Annotates(_) | EventRole::Done | EventRole::Passes => true,
        }
    }

    /// True if text must wait because a demanded call hasn't arrived.
    fn waits(&self) -> bool {
        self.waits_for_call && !self.received.hosted_calls && self.received.calls().next().is_none()
    }

    /// Releases the cleared part of an event that isn't cleared as a whole.
    fn emit_part(&mut self, out: &mut BytesMut) {
        let Some(at) = self.first() else { return };
        let Some(EventRole::Delta { part, end }) = self.received.queue.get(at).map(|waiting| &waiting.what) else { return };
        let (number, end) = (*part, *end);
        let Some(part) = self.received.texts.parts.get(number).filter(|_| !self.waits()) else { return };
        let (cleared, blocked) = (self.received.texts.cleared(part.kind).min(end), self.received.texts.blocked(part.kind));
        let ready = cleared.saturating_sub(part.taken());
        if ready == 0 || (ready < PART_BYTES_MIN && !blocked) {
            return;
        }
        self.let_go(at, out);
        let text = self.received.texts.take(number, cleared);
        self.sent.say(&mut self.received, number, &text, out);
    }

    fn edit_place(&mut self, waiting: &QueuedEvent, edits: &mut Splices) -> Option<usize> {
        let place = self.sent.place(&mut self.received, waiting.item?);
        let own = waiting.document.root().get_some("output_index");
        if let Some(own) = own.filter(|own| own.integer() != Some(place as u64)) {
            edits.replace(own.span(), place.to_string());
        }
        self.edit_part(waiting, place, edits);
        Some(place)
    }

    /// Sets the place that an event of a text names to that of the part as which it was judged: clients join by place.
    fn edit_part(&self, waiting: &QueuedEvent, place: usize, edits: &mut Splices) {
        let part = match &waiting.what {
            EventRole::Delta { part, .. } | EventRole::RepeatsText(part) | EventRole::RepeatsPart(part) | EventRole::Annotates(part) => {
                *part
            }
            EventRole::Opens | EventRole::RepeatsItem | EventRole::Call | EventRole::Done | EventRole::Passes => return,
        };
        let (root, parts, items) = (waiting.document.root(), &self.received.texts.parts, &self.received.items);
        let Some((part, item)) = parts.get(part).and_then(|part| Some((part, items.get(part.item)?))) else { return };
        if root.get_some("output_index").is_none() {
            edits.set_member(root, "output_index", &place.to_string());
        }
        if root.get_some("content_index").is_none() {
            edits.set_member(root, "content_index", &part.content_index.to_string());
        }
        // GitHub Copilot gives an item another id with every event.
        if !item.id.is_empty() && !root.get_some("item_id").is_some_and(|id| id.is_text(&item.id)) {
            edits.set_member(root, "item_id", &quote(&item.id));
        }
    }

    /// Writes a released event.
    pub(super) fn emit(&mut self, waiting: &QueuedEvent, out: &mut BytesMut) {
        self.sent.flush(out);
        let mut edits = Splices::default();
        let root = waiting.document.root();
        match &waiting.what {
            EventRole::Call => return,
            EventRole::Delta { part, end } => {
                let text = self.received.texts.take(*part, *end);
                let own = root.get_some("delta").and_then(Value::text).unwrap_or_default();
                self.sent.released |= !text.is_empty();
                if text.is_empty() && !own.is_empty() {
                    return;
                }
                if text != own {
                    replace_text(&mut edits, root, "delta", &text);
                }
            }
            EventRole::RepeatsText(part) => {
                self.rest(*part, out);
                self.edit_text(&mut edits, *part, root);
            }
            EventRole::RepeatsPart(part) => {
                self.rest(*part, out);
                if let Some(value) = root.get_some("part") {
                    self.edit_copy(&mut edits, *part, value);
                }
            }
            EventRole::RepeatsItem => {
                self.received.texts.parts_of(waiting.item).collect::<Vec<_>>().into_iter().for_each(|part| self.rest(part, out));
                if let (Some(item), Some(value)) = (waiting.item, root.get_some("item")) {
                    self.edit_message(&mut edits, item, value);
                }
            }
            EventRole::Annotates(part) => {
                if let (Some(part), Some(annotation)) = (self.received.texts.parts.get(*part), root.get_some("annotation")) {
                    annotations::shift_one(&mut edits, annotation, &part.text, &part.removals);
                }
            }
            EventRole::Opens | EventRole::Done | EventRole::Passes => {}
        }
        let place = self.edit_place(waiting, &mut edits);
        if let (Some(place), EventRole::RepeatsItem | EventRole::Done, Some(value)) = (place, &waiting.what, root.get_some("item")) {
            let json = waiting.item.and_then(|item| self.item_json(item, value)).unwrap_or_else(|| value.raw_str().to_owned());
            let message = waiting.item.filter(|_| matches!(waiting.what, EventRole::RepeatsItem));
            let text = message.map(|item| self.received.texts.released_text(item));
            if let Some(sent) = self.sent.items.get_mut(place) {
                sent.json = Some(json);
                sent.text = text;
            }
        }
        self.sent.emitter.pass(&waiting.event, &waiting.document, edits, out);
    }

    /// Writes the text of a part that its deltas didn't have.
    pub(super) fn rest(&mut self, part: usize, out: &mut BytesMut) {
        let Some(end) = self.received.texts.parts.get(part).filter(|part| !part.is_taken()).map(super::texts::ContentPart::end) else {
            return;
        };
        let text = self.received.texts.take(part, end);
        self.sent.say(&mut self.received, part, &text, out);
    }

    /// Sets the text of a `….done` event, which has it in one member, to the released text.
    fn edit_text(&self, edits: &mut Splices, part: usize, event: Value<'_>) {
        let Some(part) = self.received.texts.parts.get(part) else { return };
        let own = event.get(if part.kind == TEXT { "text" } else { "refusal" });
        if let Some(own) = own.filter(|own| !own.is_text(&part.left)) {
            edits.replace(own.span(), quote(&part.left));
            drop_logprobs(edits, event);
        }
    }

    /// Sets the text in a copy of a part to the released text.
    fn edit_copy(&self, edits: &mut Splices, part: usize, value: Value<'_>) {
        let Some(part) = self.received.texts.parts.get(part) else { return };
        // The very strings that were read, under whatever name.
        let mut strings = MessageStrings::default();
        let own = match part_strings(value, &mut strings) {
            Ok(()) if part.kind == TEXT => strings.texts,
            Ok(()) => strings.refusals,
            // INVARIANT: what can't be read is refused as it comes. Were it here all the same, nothing of it may leave.
            Err(_) => {
                edits.replace(value.span(), synthetic::message_part(&part.left, part.member()));
                return;
            }
        };
        for own in own.into_iter().filter(|own| !own.is_text(&part.left)) {
            edits.replace(own.span(), quote(&part.left));
            drop_logprobs(edits, value);
            annotations::shift(edits, value, &part.text, &part.removals);
        }
    }

    /// Sets the texts in a copy of a message to the released texts.
    pub(super) fn edit_message(&self, edits: &mut Splices, item: usize, value: Value<'_>) {
        let Some(content) = value.get_some("content") else { return };
        let part_at = |index: u64, kind: usize| {
            self.received.texts.parts.iter().position(|part| part.item == item && part.content_index == index && part.kind == kind)
        };
        if content.is_string() {
            let left =
                part_at(0, TEXT).and_then(|part| self.received.texts.parts.get(part)).map(|part| part.left.as_str()).unwrap_or_default();
            if !content.is_text(left) {
                edits.replace(content.span(), quote(left));
            }
            return;
        }
        for (index, value) in content.items().enumerate() {
            for kind in [TEXT, super::texts::REFUSAL] {
                if let Some(part) = part_at(index as u64, kind) {
                    self.edit_copy(edits, part, value);
                }
            }
        }
    }

    /// A complete item, as sent; `None` if it is unchanged.
    pub(super) fn item_json(&self, item: usize, value: Value<'_>) -> Option<String> {
        if self.received.items.get(item).is_none_or(|item| item.kind != ItemKind::Message) {
            return None;
        }
        let read = || {
            let document = Document::parse(value.raw_bytes()).ok()?;
            let mut edits = Splices::default();
            self.edit_message(&mut edits, item, document.root());
            String::from_utf8(edits.apply(document.bytes()).to_vec()).ok()
        };
        // A copy that can't be read again is never passed on as it came.
        Some(read().unwrap_or_else(|| self.received.released_message(item)))
    }
}

/// Sets a text, and drops its `logprobs`, which spell the removed text.
fn replace_text(edits: &mut Splices, object: Value<'_>, name: &str, text: &str) {
    edits.set_member(object, name, &quote(text));
    drop_logprobs(edits, object);
}

fn drop_logprobs(edits: &mut Splices, object: Value<'_>) {
    if let Some(logprobs) = object.get_some("logprobs") {
        edits.replace(logprobs.span(), "[]");
    }
}
