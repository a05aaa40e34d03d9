//! Reads the upstream's events: records their content, and queues those that must wait. Pure.
//!
//! Source: OpenAI API reference, "Responses: streaming events"; docs/wire-facts.md#responses-streams.

use super::{
    EventRole, QueuedEvent, ReceivedResponse, TerminalEvent,
    texts::{ListedParts, REFUSAL, TEXT},
};
use crate::{
    exchange::{
        adapter::Flow,
        error::{Fault, ShapeError},
        text::place::{is_ambiguous, is_nothing},
    },
    judge::call::CallKind,
    responses::{
        output_items::{ItemKind, MessageStrings, OutputCall, arguments_of, is_official_member, is_unoffered, kind_of, part_strings},
        places::swept_event,
        response::read::{call_of, has_unseen_result, is_hosted_call, is_official, message_strings, says_outside},
        stream::{held_calls::HeldCall, misplaced},
    },
    wire::{
        json::{Document, Value},
        sse::SseEvent,
    },
};

impl ReceivedResponse {
    /// Handles one event.
    pub(super) fn document(&mut self, event: SseEvent, document: Document) -> Result<Flow, Fault> {
        let root = document.root();
        if !root.is_object() || is_ambiguous(root) {
            return Err(Fault::Unknown("an event that is no object, or has two members of one name"));
        }
        let kind = root.get("type").and_then(Value::text).unwrap_or_default().into_owned();
        if root.members().next().is_none() {
            // `event: ping` and the like.
            return Ok(Flow::More);
        }
        if kind == "error" || root.get_some("error").is_some_and(|error| !error.is_text("")) {
            return Err(Fault::Reported(root.raw_str().to_owned()));
        }
        let (mut event, mut document) = (event, document);
        if is_known(&kind) {
            let came = document.bytes().as_ptr();
            let (swept, stray) = swept_event(document, &kind, &self.context)?;
            self.stray |= stray;
            document = swept;
            if document.bytes().as_ptr() != came {
                // What came isn't what leaves.
                event = SseEvent::without_bytes(Some(document.bytes().clone()), event.name);
            }
        }
        let root = document.root();
        match &*kind {
            "response.created" | "response.in_progress" | "response.queued" => self.lifecycle(event, document)?,
            "response.output_item.added" => self.item_added(event, document)?,
            "response.output_item.done" => self.item_done(event, document)?,
            "response.content_part.added" | "response.content_part.done" => self.content_part(event, document, &kind)?,
            "response.output_text.delta" => self.text_delta(event, document, TEXT)?,
            "response.refusal.delta" => self.text_delta(event, document, REFUSAL)?,
            "response.output_text.done" => self.text_done(event, document, TEXT, "text")?,
            "response.refusal.done" => self.text_done(event, document, REFUSAL, "refusal")?,
            "response.output_text.annotation.added" => {
                let item = self.named_item(root)?;
                let part = self.texts.part(item, content_index(root)?, TEXT)?;
                self.wait(event, document, Some(item), EventRole::Annotates(part));
            }
            "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta"
            | "response.function_call_arguments.done"
            | "response.custom_tool_call_input.done" => self.arguments(event, document, &kind)?,
            "response.completed" | "response.incomplete" => {
                self.terminal(event, document)?;
                return Ok(Flow::Done);
            }
            "response.failed" | "response.cancelled" => {
                let response = root.get_some("response").unwrap_or(root);
                return Err(Fault::Reported(response.raw_str().to_owned()));
            }
            "" => return Err(Fault::Unknown("an event without a type")),
            _ => self.unknown(event, document, &kind)?,
        }
        Ok(Flow::More)
    }

    pub(super) fn wait(&mut self, event: SseEvent, document: Document, item: Option<usize>, what: EventRole) {
        let waiting = QueuedEvent { event, document, item, what };
        self.held_bytes += waiting.held_bytes();
        self.queue.push_back(waiting);
    }

    fn lifecycle(&mut self, event: SseEvent, document: Document) -> Result<(), Fault> {
        let response = document.root().get_some("response").filter(|response| response.is_object());
        let Some(response) = response else { return Err(Fault::Unknown("an event without its response")) };
        if is_ambiguous(response) || misplaced::says(response) {
            return Err(Fault::Unknown("a response that says something before it has begun"));
        }
        if self.head.is_none() {
            self.head = Some(Document::parse(response.raw_bytes())?);
        }
        self.context.learn_tools(response);
        if !self.again {
            self.wait(event, document, None, EventRole::Passes);
        }
        Ok(())
    }

    /// The item that an event names by its `output_index` or `item_id`.
    fn named_item(&mut self, root: Value<'_>) -> Result<usize, Fault> {
        let index = output_index(root)?;
        let id = root.get("item_id").and_then(Value::text).unwrap_or_default();
        self.find(index, &id).ok_or(Fault::Unknown("text or arguments of an item that never began"))
    }

    /// The message that an event of a text names. The text of another item would be read by some clients, and not by others.
    fn named_message(&mut self, root: Value<'_>) -> Result<usize, Fault> {
        let at = self.named_item(root)?;
        let message = self.items.get_mut(at).filter(|item| item.kind == ItemKind::Message);
        let message = message.ok_or(Fault::Unknown("text of an item that is no message"))?;
        if message.id.is_empty() {
            message.id = root.get("item_id").and_then(Value::text).unwrap_or_default().into_owned();
        }
        Ok(at)
    }

    pub(super) fn find(&self, index: Option<u64>, id: &str) -> Option<usize> {
        let same_id = |own: &str| id.is_empty() || own.is_empty() || own == id;
        match index {
            Some(index) => self.items.iter().rposition(|item| item.index == Some(index) && same_id(&item.id)),
            None if !id.is_empty() => self.items.iter().rposition(|item| item.id == id),
            None => None,
        }
        .or_else(|| self.items.iter().rposition(|item| !id.is_empty() && item.id == id))
        // GitHub Copilot gives an item another id with every event: its index is what stays.
        .or_else(|| self.items.iter().rposition(|item| index.is_some() && item.index == index))
        .or_else(|| self.items.len().checked_sub(1).filter(|_| index.is_none() && id.is_empty()))
    }

    fn item_added(&mut self, event: SseEvent, document: Document) -> Result<(), Fault> {
        let root = document.root();
        let value = root.get("item").ok_or(Fault::Unknown("an event without its item"))?;
        let kind = kind_of(value, &self.context)?;
        let at = self.begin(output_index(root)?, value, kind)?;
        let what = match kind {
            ItemKind::Message => {
                let MessageStrings { texts, refusals, .. } = message_strings(value)?;
                if texts.iter().chain(&refusals).any(|string| !is_nothing(*string)) {
                    return Err(Fault::Unknown("a message that says something before it has begun"));
                }
                EventRole::Opens
            }
            ItemKind::Call(_) => EventRole::Call,
            ItemKind::Reasoning | ItemKind::Hosted | ItemKind::Other => EventRole::Passes,
        };
        self.wait(event, document, Some(at), what);
        Ok(())
    }

    fn begin(&mut self, index: Option<u64>, value: Value<'_>, kind: ItemKind) -> Result<usize, Fault> {
        let id = value.get("id").and_then(Value::text).unwrap_or_default();
        let at = self.item(index, &id, kind)?;
        let held = match kind {
            ItemKind::Call(kind) => Some(HeldCall::new(kind, Some(call_of(value, kind, &self.context)?))),
            _ => None,
        };
        self.hosted_calls |= kind == ItemKind::Hosted && is_hosted_call(value);
        self.unoffered_calls |= kind == ItemKind::Hosted && is_unoffered(value, &self.context);
        if let Some(item) = self.items.get_mut(at) {
            item.call = held;
            value.raw_str().clone_into(&mut item.raw);
        }
        Ok(at)
    }

    fn item_done(&mut self, event: SseEvent, document: Document) -> Result<(), Fault> {
        let root = document.root();
        let value = root.get("item").ok_or(Fault::Unknown("an event without its item"))?;
        let kind = kind_of(value, &self.context)?;
        let index = output_index(root)?;
        let id = value.get("id").and_then(Value::text).unwrap_or_default();
        let found = self.find(index, &id).filter(|at| self.items.get(*at).is_some_and(|item| item.kind == kind && !item.done));
        let at = match found {
            Some(at) => at,
            None => {
                let at = self.begin(index, value, kind)?;
                if matches!(kind, ItemKind::Call(_)) {
                    self.wait(event.clone(), document.clone(), Some(at), EventRole::Call);
                }
                at
            }
        };
        self.note(at, value, kind)?;
        let what = match kind {
            ItemKind::Message => EventRole::RepeatsItem,
            ItemKind::Call(_) => return Ok(()),
            ItemKind::Reasoning | ItemKind::Hosted | ItemKind::Other => EventRole::Done,
        };
        self.wait(event, document, Some(at), what);
        Ok(())
    }

    /// Records a complete item from any event.
    fn note(&mut self, at: usize, value: Value<'_>, kind: ItemKind) -> Result<(), Fault> {
        let bytes_max = self.context.held_bytes_max;
        self.hosted_calls |= kind == ItemKind::Hosted && is_hosted_call(value);
        // Only at its end it is known whether the call found anything.
        if kind == ItemKind::Hosted && has_unseen_result(value) {
            self.context.evidence.note_unseen();
        }
        self.unoffered_calls |= kind == ItemKind::Hosted && is_unoffered(value, &self.context);
        let Some(item) = self.items.get_mut(at) else { return Ok(()) };
        item.done = true;
        value.raw_str().clone_into(&mut item.raw);
        match kind {
            ItemKind::Call(kind) => {
                let slot = call_of(value, kind, &self.context)?;
                if let Some(call) = &mut item.call {
                    call.merge(slot, bytes_max)?;
                }
            }
            ItemKind::Message => self.message(at, value)?,
            ItemKind::Reasoning | ItemKind::Hosted | ItemKind::Other => {}
        }
        Ok(())
    }

    /// Records the text of a complete message: text that its deltas didn't have is fed through the gate.
    fn message(&mut self, at: usize, value: Value<'_>) -> Result<(), Fault> {
        // Also looks whether it hides something where no text belongs.
        let all = message_strings(value)?;
        let content = value.get_some("content").filter(|content| content.is_array());
        let mut listed = ListedParts::default();
        if content.is_none() {
            // A string instead of parts.
            for string in all.texts {
                listed.all.push(self.complete(at, 0, TEXT, string)?);
            }
        }
        for (index, part) in content.into_iter().flat_map(Value::items).enumerate() {
            let said = self.part_said(at, index as u64, part)?;
            listed.official.extend(said.filter(|_| is_official(value) && is_official_part(part)));
            listed.all.extend(said);
        }
        self.texts.judge_copy(&listed, Some(at), &self.context);
        if let Some(item) = self.items.get_mut(at) {
            item.listed = listed;
        }
        Ok(())
    }

    /// Records the text of a complete part; returns the part, if it has one.
    fn part_said(&mut self, at: usize, index: u64, part: Value<'_>) -> Result<Option<usize>, Fault> {
        let mut strings = MessageStrings::default();
        part_strings(part, &mut strings)?;
        let says = |strings: &[Value<'_>]| strings.iter().any(|string| !is_nothing(*string));
        if says(&strings.texts) && says(&strings.refusals) {
            return Err(ShapeError::Text.into());
        }
        let mut said = None;
        for (kind, strings) in [(TEXT, strings.texts), (REFUSAL, strings.refusals)] {
            match &strings[..] {
                [] => {}
                [string] => {
                    let own = self.complete(at, index, kind, *string)?;
                    said = said.filter(|_| is_nothing(*string)).or(Some(own));
                }
                _ => return Err(ShapeError::Text.into()),
            }
        }
        Ok(said)
    }

    fn complete(&mut self, item: usize, index: u64, kind: usize, string: Value<'_>) -> Result<usize, Fault> {
        let part = self.texts.part(item, index, kind)?;
        let context = self.context.clone();
        self.texts.complete(part, &string.text().unwrap_or_default(), &context);
        Ok(part)
    }

    fn content_part(&mut self, event: SseEvent, document: Document, kind: &str) -> Result<(), Fault> {
        let root = document.root();
        let value = root.get("part").ok_or(Fault::Unknown("an event without its part"))?;
        let mut strings = MessageStrings::default();
        part_strings(value, &mut strings)?;
        if value.get("type").is_some_and(|kind| kind.is_text("reasoning_text")) {
            let item = self.find(output_index(root)?, &root.get("item_id").and_then(Value::text).unwrap_or_default());
            self.wait(event, document, item, EventRole::Passes);
            return Ok(());
        }
        let says = strings.texts.iter().chain(&strings.refusals).any(|string| !is_nothing(*string));
        // vLLM has an empty part of text in an item of reasoning.
        let item = if says { self.named_message(root)? } else { self.named_item(root)? };
        if kind == "response.content_part.added" {
            if says {
                return Err(Fault::Unknown("a part that says something before it has begun"));
            }
            content_index(root)?;
            self.wait(event, document, Some(item), EventRole::Opens);
            return Ok(());
        }
        let index = content_index(root)?;
        self.part_said(item, index, value)?;
        let refuses = strings.refusals.iter().any(|string| !is_nothing(*string));
        let part = self.texts.part(item, index, if refuses { REFUSAL } else { TEXT })?;
        self.wait(event, document, Some(item), EventRole::RepeatsPart(part));
        Ok(())
    }

    fn text_delta(&mut self, event: SseEvent, document: Document, kind: usize) -> Result<(), Fault> {
        let root = document.root();
        let item = self.named_message(root)?;
        let delta = root.get_some("delta");
        if delta.is_some_and(|delta| !delta.is_string()) {
            return Err(ShapeError::Text.into());
        }
        let part = self.texts.part(item, content_index(root)?, kind)?;
        let text = delta.map(|delta| self.texts.text_of(part, delta)).unwrap_or_default();
        let context = self.context.clone();
        let end = self.texts.feed(part, &text, &context)?;
        self.wait(event, document, Some(item), EventRole::Delta { part, end });
        Ok(())
    }

    fn text_done(&mut self, event: SseEvent, document: Document, kind: usize, name: &str) -> Result<(), Fault> {
        let root = document.root();
        let item = self.named_message(root)?;
        let part = self.texts.part(item, content_index(root)?, kind)?;
        if let Some(copy) = root.get_some(name) {
            let copy = copy.text().ok_or(ShapeError::Text)?.into_owned();
            let context = self.context.clone();
            self.texts.complete(part, &copy, &context);
        }
        self.wait(event, document, Some(item), EventRole::RepeatsText(part));
        Ok(())
    }

    fn arguments(&mut self, event: SseEvent, document: Document, kind: &str) -> Result<(), Fault> {
        let root = document.root();
        let at = self.named_item(root)?;
        // Those of a tool that the upstream runs itself, as xAI's `x_search`, are its own.
        if self.items.get(at).is_some_and(|item| item.kind == ItemKind::Hosted) {
            self.wait(event, document, Some(at), EventRole::Passes);
            return Ok(());
        }
        match kind {
            "response.function_call_arguments.delta" => self.arguments_delta(root, CallKind::Function),
            "response.function_call_arguments.done" => self.arguments_done(root, CallKind::Function, "arguments"),
            "response.custom_tool_call_input.delta" => self.arguments_delta(root, CallKind::Custom),
            _ => self.arguments_done(root, CallKind::Custom, "input"),
        }
    }

    fn call_item(&mut self, root: Value<'_>, kind: CallKind) -> Result<&mut HeldCall, Fault> {
        let at = self.named_item(root)?;
        let item = self.items.get_mut(at).filter(|item| item.kind == ItemKind::Call(kind));
        item.and_then(|item| item.call.as_mut()).ok_or(Fault::Unknown("arguments of an item that is no such call"))
    }

    fn arguments_delta(&mut self, root: Value<'_>, kind: CallKind) -> Result<(), Fault> {
        let bytes_max = self.context.held_bytes_max;
        let call = self.call_item(root, kind)?;
        let fragment = root.get_some("delta").map(|delta| call.joiner.text(delta).ok_or(ShapeError::Text)).transpose()?;
        call.push(&fragment.unwrap_or_default(), bytes_max);
        Ok(())
    }

    fn arguments_done(&mut self, root: Value<'_>, kind: CallKind, member: &str) -> Result<(), Fault> {
        let bytes_max = self.context.held_bytes_max;
        let call = self.call_item(root, kind)?;
        if let Some(name) = root.get_some("name").and_then(Value::text) {
            call.named(&name)?;
        }
        if let Some(arguments) = root.get(member) {
            call.whole(arguments_of(arguments), bytes_max)?;
        }
        Ok(())
    }

    /// Handles the terminal event, which repeats everything. Content that is only there is judged too.
    fn terminal(&mut self, event: SseEvent, document: Document) -> Result<(), Fault> {
        let response = document.root().get_some("response").filter(|response| response.is_object());
        let Some(response) = response else { return Err(Fault::Unknown("a terminal event without its response")) };
        if is_ambiguous(response) || says_outside(response) {
            return Err(Fault::Unknown(
                "a call or text outside its `output`; an upstream without the Responses API needs `responses = \"translate\"`",
            ));
        }
        let output = response.get_some("output");
        if output.is_some_and(|output| !output.is_array()) {
            return Err(Fault::Unknown("`output` is no array"));
        }
        if self.head.is_none() {
            self.head = Some(Document::parse(response.raw_bytes())?);
        }
        self.context.learn_tools(response);
        let (mut items, mut taken) = (Vec::new(), Vec::new());
        for (position, value) in output.into_iter().flat_map(Value::items).enumerate() {
            let kind = kind_of(value, &self.context)?;
            let at = match self.repeated(position, value, kind, &taken)? {
                Some(at) => at,
                None => {
                    let at = self.begin(None, value, kind)?;
                    if matches!(kind, ItemKind::Call(_)) {
                        self.wait(event.clone(), document.clone(), Some(at), EventRole::Call);
                    }
                    at
                }
            };
            self.note(at, value, kind)?;
            items.push(at);
            taken.resize(self.items.len(), false);
            taken[at] = true;
        }
        let mut listed = ListedParts::default();
        for item in items.iter().filter_map(|at| self.items.get(*at)).filter(|item| item.kind == ItemKind::Message) {
            listed.all.extend_from_slice(&item.listed.all);
            listed.official.extend_from_slice(&item.listed.official);
        }
        self.texts.judge_copy(&listed, None, &self.context);
        self.terminal = Some(TerminalEvent { event, document, items });
        Ok(())
    }

    /// The received item that this item of the terminal event repeats: found by id, else by call id, else by position.
    fn repeated(&self, position: usize, value: Value<'_>, kind: ItemKind, taken: &[bool]) -> Result<Option<usize>, Fault> {
        let id = value.get("id").and_then(Value::text).unwrap_or_default();
        let slot = if let ItemKind::Call(kind) = kind { Some(OutputCall::read(value, kind)?) } else { None };
        let free = |at: &usize| {
            let Some(item) = self.items.get(*at) else { return false };
            let fits = || slot.as_ref().is_none_or(|slot| item.call.as_ref().is_some_and(|call| call.may_be(slot)));
            item.kind == kind && !taken.get(*at).is_some_and(|taken| *taken) && fits()
        };
        let by_id = (0..self.items.len()).filter(free).find(|at| !id.is_empty() && self.items[*at].id == id);
        let by_call = || {
            (0..self.items.len()).filter(free).find(|at| self.items[*at].call.as_ref().is_some_and(|call| call.is_called(slot.as_ref())))
        };
        let unnamed = |at: &usize| id.is_empty() || self.items[*at].id.is_empty();
        let in_place = Some(position).filter(free).filter(unnamed);
        let renamed = || Some(position).filter(free).filter(|_| kind == ItemKind::Message);
        let first = || (0..self.items.len()).filter(free).find(unnamed);
        Ok(by_id.or_else(by_call).or(in_place).or_else(first).or_else(renamed))
    }
}

/// True for a part of a kind that the official clients read: text, or a refusal.
fn is_official_part(part: Value<'_>) -> bool {
    let kind = part.get("type").and_then(Value::text).unwrap_or_default();
    part.members().any(|member| is_official_member(&kind, member) && member.value.is_string() && !is_nothing(member.value))
}

/// True for a type of events that are read.
fn is_known(kind: &str) -> bool {
    let Some(kind) = kind.strip_prefix("response.") else { return false };
    matches!(
        kind,
        "output_text.delta"
            | "output_text.done"
            | "output_text.annotation.added"
            | "refusal.delta"
            | "refusal.done"
            | "created"
            | "in_progress"
            | "queued"
            | "completed"
            | "incomplete"
            | "output_item.added"
            | "output_item.done"
            | "content_part.added"
            | "content_part.done"
            | "function_call_arguments.delta"
            | "function_call_arguments.done"
            | "custom_tool_call_input.delta"
            | "custom_tool_call_input.done"
    )
}

pub(super) fn output_index(root: Value<'_>) -> Result<Option<u64>, Fault> {
    match root.get_some("output_index") {
        None => Ok(None),
        Some(index) => index.integer().map(Some).ok_or(Fault::Unknown("an `output_index` that is no number")),
    }
}

fn content_index(root: Value<'_>) -> Result<u64, Fault> {
    match root.get_some("content_index") {
        None => Ok(0),
        Some(index) => index.integer().ok_or(Fault::Unknown("a `content_index` that is no number")),
    }
}
