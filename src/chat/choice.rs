//! One choice of a streamed answer: text flows as far as it is decided, calls are held.
//!
//! ```text
//!  take(event) ─▶ texts ─▶ gates ─▶ queue ─▶ pump: what is cleared leaves
//!              └▶ calls ─▶ assembler         conclude: all is decided, the rest leaves or never does
//! ```
//! Sans-IO. Never releases a character that a gate hasn't cleared, nor anything of a call.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{
    assemble::{AssembleError, Assembler, Slot},
    chunk::{self, Changes, Identity, Role, TEXTS, TextSpan, choice_of, delta_of, text_value},
    context::{AnswerNature, Context, JudgedChoice},
};
use crate::{
    judge::{
        call::{Call, CallKind, ValidCall},
        marks::Moment,
        text::TextGate,
    },
    wire::{json::{Document, Value}, sse::Event, text::quote_into},
};

/// Cleared text of an event that is still held in part leaves by itself from so many bytes on.
const PART_BYTES_MIN: usize = 16;
/// Reasoning kept for a repair.
const REASONING_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
struct Facts {
    texts: Vec<TextSpan>,
    has_calls: bool,
    has_role: bool,
    finish: bool,
}

struct Pending {
    event: Event,
    document: Document,
    texts: Vec<TextSpan>,
    has_calls: bool,
    has_role: bool,
    finish: bool,
    /// A part of its text has left already.
    begun: bool,
}

/// See the module.
pub struct ChoiceStream {
    index: u64,
    gates: [TextGate; TEXTS.len()],
    fed: [usize; TEXTS.len()],
    texts: [String; TEXTS.len()],
    queue: VecDeque<Pending>,
    assembler: Assembler,
    call_event: Option<Bytes>,
    last_event: Option<Bytes>,
    finish_reason: Option<String>,
    reasoning: String,
    has_audio: bool,
    role_said: bool,
    keep_text: bool,
    /// Characters of text have left.
    pub released: bool,
}

/// How a choice ends downstream.
pub enum Final {
    /// As the model said it: with these calls, each with its mark's moment.
    Accept(Vec<(ValidCall, Moment)>),
    /// With this instead of what is held.
    Say(String),
}

impl ChoiceStream {
    /// For the choice of this index. `role_said`: an earlier attempt has said it.
    pub fn new(index: u64, context: &Context, role_said: bool) -> Self {
        Self {
            index,
            gates: Default::default(),
            fed: [0; TEXTS.len()],
            texts: Default::default(),
            queue: VecDeque::new(),
            assembler: Assembler::new(context.held_bytes_max),
            call_event: None,
            last_event: None,
            finish_reason: None,
            reasoning: String::new(),
            has_audio: false,
            role_said,
            // The text is needed again only where an attempt may follow.
            keep_text: context.rules.policy.calls.max_repairs > 0 && context.choices == 1,
            released: false,
        }
    }

    /// Which choice.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Something of it has left.
    pub fn started(&self) -> bool {
        self.role_said
    }

    /// It has a `finish_reason`.
    pub fn finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Takes an event with this one choice.
    ///
    /// # Errors
    /// A shape that can't be judged.
    pub fn take(&mut self, event: Event, document: Document, context: &Context) -> Result<(), AssembleError> {
        let Some(choice) = choice_of(&document) else { return Ok(()) };
        let mut facts = Facts::default();
        if let Some(delta) = delta_of(choice) {
            self.take_delta(delta, &mut facts, context)?;
        }
        for member in choice.members() {
            match &*member.name() {
                "finish_reason" if !member.value.is_null() => {
                    facts.finish = true;
                    self.finish_reason = Some(member.value.text().map_or_else(|| member.value.raw_str().to_owned(), Into::into));
                }
                // Calls and texts have one place; another client might look here.
                "tool_calls" | "function_call" | "text" | "content" if !is_nothing(member.value) => return Err(AssembleError::NoObject),
                "message" if choice.get_some("delta").is_some() && !is_nothing(member.value) => return Err(AssembleError::NoObject),
                _ => {}
            }
        }
        if facts.has_calls {
            self.call_event.get_or_insert_with(|| document.bytes().clone());
        }
        self.last_event = Some(document.bytes().clone());
        let Facts { texts, has_calls, has_role, finish } = facts;
        self.queue.push_back(Pending { event, document, texts, has_calls, has_role, finish, begun: false });
        Ok(())
    }

    fn take_delta(&mut self, delta: Value<'_>, facts: &mut Facts, context: &Context) -> Result<(), AssembleError> {
        if delta.duplicate_name().is_some() {
            return Err(AssembleError::Duplicate);
        }
        for member in delta.members() {
            let value = member.value;
            match &*member.name() {
                "role" => facts.has_role = !value.is_null(),
                "content" => self.take_text(0, value, facts, context),
                "refusal" => self.take_text(1, value, facts, context),
                "audio" => {
                    self.has_audio |= !value.is_null();
                    if let Some(transcript) = value.get("transcript") {
                        self.take_text(2, transcript, facts, context);
                    }
                }
                "tool_calls" if !is_nothing(value) => {
                    facts.has_calls = true;
                    self.assembler.handle(value, |name| context.tools.registry.tool(name).is_some())?;
                }
                "function_call" if !is_nothing(value) => {
                    facts.has_calls = true;
                    self.assembler.handle_legacy(value)?;
                }
                "tool_call" | "function_calls" | "custom_tool_call" if !is_nothing(value) => return Err(AssembleError::NoObject),
                "reasoning_content" if self.reasoning.len() < REASONING_BYTES_MAX => {
                    self.reasoning.push_str(&value.text().unwrap_or_default());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_text(&mut self, kind: usize, value: Value<'_>, facts: &mut Facts, context: &Context) {
        let text = match value.text() {
            Some(text) => text,
            None => value.items().filter_map(|part| part.get("text").and_then(Value::text)).collect::<String>().into(),
        };
        if text.is_empty() {
            return;
        }
        let start = self.fed[kind];
        self.fed[kind] += text.len();
        if self.keep_text && kind == 0 && self.texts[kind].len() < context.held_bytes_max {
            self.texts[kind].push_str(&text);
        }
        context.feed(&mut self.gates[kind], &text);
        facts.texts.push(TextSpan { kind, start, end: self.fed[kind], text: text.into_owned() });
    }

    /// Lets go of what is cleared.
    pub fn pump(&mut self, identity: Option<&Identity>, out: &mut BytesMut) {
        while let Some(front) = self.queue.front() {
            let cleared = front.texts.iter().all(|span| span.end <= self.gates[span.kind].cleared());
            if front.finish || !cleared {
                break;
            }
            let Some(front) = self.queue.pop_front() else { return };
            self.emit(&front, identity, out);
        }
        self.emit_part(identity, out);
    }

    /// The cleared part of an event that isn't cleared as a whole.
    fn emit_part(&mut self, identity: Option<&Identity>, out: &mut BytesMut) {
        let Some(front) = self.queue.front() else { return };
        let [span] = &front.texts[..] else { return };
        let cleared = self.gates[span.kind].cleared().clamp(span.start, span.end);
        let blocked = self.gates[span.kind].blocked().is_some();
        if cleared == span.start || (front.finish && !blocked) || (cleared - span.start < PART_BYTES_MIN && !blocked) {
            return;
        }
        let Some(mut front) = self.queue.pop_front() else { return };
        let Some(mut span) = front.texts.pop() else { return };
        let text = self.allowed(&span, cleared);
        let role = self.role_of(&front);
        let finish = front.finish.then(|| "null".to_owned());
        let changes = Changes { identity, texts: vec![(span.kind, text.clone())], drop_calls: true, role, finish, drop_usage: true, ..Changes::default() };
        if !text.is_empty() {
            self.released = true;
            self.role_said = true;
            out.extend_from_slice(&chunk::write(&front.event, &front.document, &changes));
        }
        span.text.drain(..cleared - span.start);
        span.start = cleared;
        front.texts.push(span);
        front.begun = true;
        self.queue.push_front(front);
    }

    /// The text of a span up to `cleared`, without what is taken out.
    fn allowed(&self, span: &TextSpan, cleared: usize) -> String {
        let mut text = String::with_capacity(cleared - span.start);
        let mut from = span.start;
        let slice = |from: usize, to: usize| span.text.get(from - span.start..to - span.start).unwrap_or_default();
        for removal in self.gates[span.kind].removals() {
            let (start, end) = (removal.start.clamp(from, cleared), removal.end.clamp(from, cleared));
            text.push_str(slice(from, start));
            from = end;
        }
        text.push_str(slice(from, cleared));
        text
    }

    fn role_of(&self, pending: &Pending) -> Role {
        match (self.role_said, pending.has_role) {
            (false, false) => Role::Add,
            (true, true) => Role::Drop,
            _ => Role::Keep,
        }
    }

    fn emit(&mut self, pending: &Pending, identity: Option<&Identity>, out: &mut BytesMut) {
        let mut texts = Vec::new();
        for span in &pending.texts {
            let text = self.allowed(span, span.end);
            if pending.begun || text.len() != span.text.len() {
                texts.push((span.kind, text));
            } else {
                self.released = true;
            }
        }
        let rest = texts.iter().any(|(_, text)| !text.is_empty());
        self.released |= rest;
        let emptied = (pending.has_calls || !texts.is_empty()) && !rest && texts.len() == pending.texts.len();
        if emptied && self.role_said && !says_more(&pending.document) {
            return;
        }
        let changes = Changes { identity, texts, drop_calls: pending.has_calls, role: self.role_of(pending), ..Changes::default() };
        self.role_said = true;
        out.extend_from_slice(&chunk::write(&pending.event, &pending.document, &changes));
    }

    /// No more events: judges the choice.
    pub fn conclude(&mut self, context: &Context) -> JudgedChoice {
        for gate in &mut self.gates {
            context.close(gate);
        }
        let calls: Vec<Call> = self.assembler.slots().iter().map(Slot::call).collect();
        let has_text = self.fed[0] > 0;
        let answer = AnswerNature::new(has_text, self.has_audio, self.fed[1] > 0, self.finish_reason.as_deref());
        context.judge_choice(&calls, &self.gates.each_ref(), answer)
    }

    /// The calls as they came.
    pub fn slots(&self) -> &[Slot] {
        self.assembler.slots()
    }

    /// What the model said, as far as it is kept.
    pub fn text(&self) -> &str {
        &self.texts[0]
    }

    /// What it thought, as far as it is kept.
    pub fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// Ends the choice: the rest of its events, each as the data of one event; the last has the `finish_reason`.
    pub fn end(&mut self, ending: Final, context: &Context, identity: Option<&Identity>, out: &mut BytesMut) -> Vec<Bytes> {
        let queue = std::mem::take(&mut self.queue);
        let (mut finish_events, mut rest) = (Vec::new(), VecDeque::new());
        for pending in queue {
            if pending.finish { finish_events.push(pending) } else { rest.push_back(pending) }
        }
        let template = self.last_event.clone();
        match ending {
            Final::Accept(calls) => {
                // INVARIANT: nothing blocks, so every gate has cleared all of its text.
                for pending in &rest {
                    self.emit(pending, identity, out);
                }
                self.emit_calls(&calls, context, identity, out);
                let legacy = self.slots().iter().any(|slot| slot.kind == CallKind::Legacy);
                let finish = chunk::fitting_finish(self.finish_reason.as_deref(), calls.len(), legacy);
                self.finish_with(finish_events, finish, identity, template)
            }
            Final::Say(text) => {
                self.say(&text, context.json_only, identity, template.as_ref(), out);
                let kept = finish_events.pop().map(|pending| Pending { texts: Vec::new(), has_calls: true, ..pending });
                let Some(pending) = kept else { return self.finish_with(Vec::new(), Some("\"stop\""), identity, template) };
                let changes = Changes { identity, delta: Some("{}".into()), finish: Some("\"stop\"".into()), ..Changes::default() };
                vec![chunk::write(&pending.event, &pending.document, &changes)]
            }
        }
    }

    fn finish_with(&mut self, events: Vec<Pending>, finish: Option<&str>, identity: Option<&Identity>, template: Option<Bytes>) -> Vec<Bytes> {
        let count = events.len();
        let mut out = Vec::new();
        for (at, pending) in events.into_iter().enumerate() {
            let last = at + 1 == count;
            let mut texts = Vec::new();
            for span in &pending.texts {
                let text = self.allowed(span, span.end);
                self.released |= !text.is_empty();
                if pending.begun || text.len() != span.text.len() {
                    texts.push((span.kind, text));
                }
            }
            // Only the last says how it ended.
            let finish = if last { finish.map(str::to_owned) } else { Some("null".to_owned()) };
            if !last && texts.is_empty() && !says_more(&pending.document) && pending.texts.is_empty() {
                continue;
            }
            let changes = Changes { identity, texts, drop_calls: pending.has_calls, role: self.role_of(&pending), finish, ..Changes::default() };
            self.role_said = true;
            out.push(chunk::write(&pending.event, &pending.document, &changes));
        }
        if out.is_empty() {
            let finish = Some(finish.unwrap_or("\"stop\"").to_owned());
            let changes = Changes { identity, delta: Some("{}".into()), finish, drop_usage: true, ..Changes::default() };
            out.extend(template.and_then(|data| made(data, &changes)));
        }
        out
    }

    fn emit_calls(&mut self, calls: &[(ValidCall, Moment)], context: &Context, identity: Option<&Identity>, out: &mut BytesMut) {
        let Some(template) = self.call_event.clone() else { return };
        let slots = self.assembler.slots();
        let mut deltas = Vec::new();
        for (at, ((call, moment), slot)) in calls.iter().zip(slots).enumerate() {
            let mark = context.mint(call.name(), call.arguments(), *moment);
            deltas.push(call_json(at, slot, call, &mark));
        }
        for delta in deltas {
            let role = if self.role_said { "" } else { "\"role\":\"assistant\",\"content\":null," };
            self.role_said = true;
            let changes = Changes {
                identity,
                delta: Some(format!("{{{role}{delta}}}")),
                finish: Some("null".into()),
                drop_usage: true,
                ..Changes::default()
            };
            out.extend(made(template.clone(), &changes));
        }
    }

    fn say(&mut self, text: &str, json_only: bool, identity: Option<&Identity>, template: Option<&Bytes>, out: &mut BytesMut) {
        let mut delta = String::from("{");
        if !self.role_said {
            delta.push_str("\"role\":\"assistant\",");
        }
        self.role_said = true;
        delta.push_str(if json_only { "\"refusal\":" } else { "\"content\":" });
        let gap = if self.released && !json_only { "\n\n" } else { "" };
        quote_into(&mut delta, &format!("{gap}{text}"));
        delta.push('}');
        let changes = Changes { identity, delta: Some(delta), finish: Some("null".into()), drop_usage: true, ..Changes::default() };
        out.extend(template.and_then(|data| made(data.clone(), &changes)).unwrap_or_default());
    }
}

/// `null`, `""`, `[]` and `{}` say nothing.
fn is_nothing(value: Value<'_>) -> bool {
    matches!(value.raw(), b"null" | b"\"\"" | b"[]" | b"{}") || (value.is_array() && value.items().next().is_none())
}

/// An event made after the one that came.
fn made(data: Bytes, changes: &Changes<'_>) -> Option<Bytes> {
    let document = Document::parse(data).ok()?;
    let event = Event { raw: Bytes::new(), data: None, name: None, plain: false };
    Some(chunk::write(&event, &document, changes))
}

/// Does an event say more than role, calls and texts?
fn says_more(document: &Document) -> bool {
    let root = document.root();
    let Some(choice) = choice_of(document) else { return true };
    let usage = root.get_some("usage").is_some() || root.get_some("x_groq").is_some();
    let known = |name: &str| matches!(name, "role" | "tool_calls" | "function_call" | "content" | "refusal");
    let more = |delta: Value<'_>| delta.members().any(|member| !known(&member.name()) && !is_nothing(member.value));
    let array = delta_of(choice).and_then(|delta| text_value(delta, 0)).is_some_and(Value::is_array);
    usage || array || delta_of(choice).is_some_and(more)
}

/// `"tool_calls":[…]` or `"function_call":…` with one call, whole.
pub fn call_json(index: usize, slot: &Slot, call: &ValidCall, mark: &str) -> String {
    let mut out = String::with_capacity(call.arguments().len() + 160);
    let inner = |out: &mut String, text: &str| {
        out.push_str("{\"name\":");
        quote_into(out, call.name());
        out.push_str(text);
        quote_into(out, call.arguments());
        for extra in &slot.inner_extras {
            out.push(',');
            out.push_str(extra);
        }
        out.push('}');
    };
    if slot.kind == CallKind::Legacy {
        out.push_str("\"function_call\":");
        inner(&mut out, ",\"arguments\":");
        return out;
    }
    out.push_str(&format!("\"tool_calls\":[{{\"index\":{index},\"id\":\"{mark}\",\"type\":"));
    match slot.kind {
        CallKind::Custom => {
            out.push_str("\"custom\",\"custom\":");
            inner(&mut out, ",\"input\":");
        }
        CallKind::Function | CallKind::Legacy => {
            out.push_str("\"function\",\"function\":");
            inner(&mut out, ",\"arguments\":");
        }
    }
    for extra in &slot.extras {
        out.push(',');
        out.push_str(extra);
    }
    out.push_str("}]");
    out
}
