//! One choice of a streamed answer: text is released as soon as it is judged, calls are held.
//!
//! ```text
//!  take(event) ─▶ texts ─▶ gates ─▶ queue ─▶ pump: what is cleared leaves
//!              └▶ calls ─▶ assembler         conclude: all is decided, the rest leaves or never does
//! ```
//! Sans-IO. Never releases a character that a gate hasn't cleared, nor anything of a call.

mod ending;
mod pending;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use pending::HeldEvent;

use super::chunk::{ChunkEdit, CompletionIdentity, RoleEdit, TEXTS, TextSpan, choice_of, delta_of, finish_of, has_calls, text_value};
use crate::{
    chat::{
        assembler::{AssembleError, Assembler, PartialCall},
        places,
    },
    exchange::{
        context::{AnswerNature, Context, JudgedChoice},
        loop_guard::AttemptInputs,
        text::{
            place::{PartOrder, is_ambiguous, is_nothing, strings_of},
            places::joined,
        },
        turn::Said,
    },
    judge::call::turn::FinishReason,
    judge::{call::Call, text::TextGate},
    wire::{
        json::{
            Document, Value,
            string::{StringJoiner, quote_into},
        },
        sse::SseEvent,
    },
};

/// Minimum length of cleared text in a partly cleared event for a separate delta, in bytes.
const PART_BYTES_MIN: usize = 16;
/// Limit for the reasoning kept for a repair, in bytes.
const REASONING_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
struct EventFacts {
    texts: Vec<TextSpan>,
    has_calls: bool,
    has_role: bool,
    finish: bool,
}

/// One choice of a streamed answer.
pub struct ChoiceStream {
    index: u64,
    gates: [TextGate; TEXTS.len()],
    fed: [usize; TEXTS.len()],
    texts: [String; TEXTS.len()],
    joiners: [StringJoiner; TEXTS.len()],
    orders: [PartOrder; TEXTS.len()],
    queue: VecDeque<HeldEvent>,
    assembler: Assembler,
    call_event: Option<Bytes>,
    last_event: Option<Bytes>,
    finish_reason: Option<String>,
    reasoning: String,
    has_audio: bool,
    role_said: bool,
    keep_text: bool,
    /// A call was demanded: no text is released before there is one.
    waits_for_call: bool,
    /// Text of the choice was released, in this attempt or an earlier one.
    follows: bool,
    /// An earlier attempt's text was released: this attempt's text starts a new paragraph.
    gap: bool,
    /// Characters of text were released.
    pub released: bool,
    /// Text outside the deltas that doesn't repeat them was left out.
    pub stray: bool,
    /// Memory held by the queued events, in bytes.
    pub held_bytes: usize,
    /// There were calls outside the deltas.
    copied_calls: bool,
    /// The ending was given in another member than `finish_reason`.
    finish_elsewhere: bool,
}

/// Parts of a choice that earlier attempts sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentBefore {
    /// The role.
    pub role: bool,
    /// Some text.
    pub text: bool,
}

impl ChoiceStream {
    /// State of the choice with this index. `sent`: what earlier attempts sent of it.
    pub fn new(index: u64, context: &Context, sent: SentBefore) -> Self {
        let SentBefore { role: role_said, text: follows } = sent;
        Self {
            index,
            gates: Default::default(),
            fed: [0; TEXTS.len()],
            texts: Default::default(),
            joiners: Default::default(),
            orders: Default::default(),
            queue: VecDeque::new(),
            assembler: Assembler::new(context.held_bytes_max),
            call_event: None,
            last_event: None,
            finish_reason: None,
            reasoning: String::new(),
            has_audio: false,
            role_said,
            // The text is needed again only where an attempt may follow.
            keep_text: (context.rules.policy.calls.max_repairs > 0
                || context.tools().runs_any()
                || !context.rules.state.is_empty()
                || context.text.second_opinion)
                && context.choices == 1,
            waits_for_call: context.demands_call(),
            follows,
            gap: follows,
            released: false,
            stray: false,
            held_bytes: 0,
            copied_calls: false,
            finish_elsewhere: false,
        }
    }

    /// True if calls were found only in a place in which no client looks for them.
    pub fn lacks_calls(&self) -> bool {
        self.copied_calls && self.assembler.slots().is_empty()
    }

    /// Index of the choice.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// True if something of the choice was sent.
    pub fn started(&self) -> bool {
        self.role_said
    }

    /// True if the choice has a `finish_reason`.
    pub fn finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Handles an event with this one choice.
    ///
    /// # Errors
    /// A shape that can't be judged.
    pub fn take(&mut self, event: SseEvent, document: Document, context: &Context) -> Result<(), AssembleError> {
        let Some(choice) = choice_of(&document) else { return Ok(()) };
        let mut facts = EventFacts::default();
        if let Some(delta) = delta_of(choice) {
            if !delta.is_object() && !is_nothing(delta) {
                return Err(AssembleError::Text);
            }
            self.take_delta(delta, &mut facts, context)?;
        }
        if let Some(finish) = finish_of(choice) {
            facts.finish = true;
            self.finish_reason = Some(finish);
            self.finish_elsewhere = choice.get("finish_reason").is_none_or(is_nothing);
        }
        // Beside a delta it is dropped when the event is written.
        if let (Some(_), Some(message)) = (choice.get_some("delta"), choice.get_some("message")) {
            self.take_copy(message)?;
        }
        if facts.has_calls {
            self.call_event.get_or_insert_with(|| document.bytes().clone());
        }
        self.last_event = Some(document.bytes().clone());
        let EventFacts { texts, has_calls, has_role, finish } = facts;
        self.push(HeldEvent { event, document: Some(document), texts, has_calls, has_role, finish, begun: false });
        Ok(())
    }

    /// Handles Perplexity's `message` beside a delta, which repeats the text of the deltas so far.
    fn take_copy(&mut self, message: Value<'_>) -> Result<(), AssembleError> {
        places::check_copy(message)?;
        self.copied_calls |= has_calls(message);
        let copy = joined(message.get("content"));
        // Where the text isn't kept there is only its length to go by.
        let whole = self.texts[0].len() == self.fed[0];
        self.stray |= if whole { !self.texts[0].contains(&*copy) } else { copy.len() > self.fed[0] };
        Ok(())
    }

    /// Handles an event that differs from an earlier one only in its text, `text`.
    pub fn take_repeated(&mut self, event: SseEvent, text: String, context: &Context) {
        self.last_event = event.data.clone();
        let texts = vec![self.hear(0, text, context)];
        self.push(HeldEvent { event, document: None, texts, has_calls: false, has_role: false, finish: false, begun: false });
    }

    fn take_delta(&mut self, delta: Value<'_>, facts: &mut EventFacts, context: &Context) -> Result<(), AssembleError> {
        if is_ambiguous(delta) {
            return Err(AssembleError::Duplicate);
        }
        for member in delta.members() {
            let value = member.value;
            match &*member.name() {
                "role" => facts.has_role = !is_nothing(value),
                "content" => self.take_text(0, value, facts, context)?,
                "refusal" => self.take_text(1, value, facts, context)?,
                "audio" => {
                    if is_ambiguous(value) {
                        return Err(AssembleError::Text);
                    }
                    self.has_audio |= !value.is_null();
                    if let Some(transcript) = value.get("transcript") {
                        self.take_text(2, transcript, facts, context)?;
                    }
                }
                "tool_calls" if !is_nothing(value) => {
                    facts.has_calls = true;
                    self.assembler.handle(value, |name| context.tools().registry.tool(name).is_some())?;
                }
                "function_call" if !is_nothing(value) => {
                    facts.has_calls = true;
                    self.assembler.handle_legacy(value)?;
                }
                "reasoning_content" if self.reasoning.len() < REASONING_BYTES_MAX => {
                    self.reasoning.push_str(&value.text().unwrap_or_default());
                }
                "images" => self.has_audio |= !is_nothing(value),
                "tool_calls" | "function_call" => {}
                _ => {}
            }
        }
        Ok(())
    }

    fn take_text(&mut self, kind: usize, value: Value<'_>, facts: &mut EventFacts, context: &Context) -> Result<(), AssembleError> {
        self.orders[kind].note(value)?;
        let joiner = &mut self.joiners[kind];
        let mut respelled = false;
        let text = match joiner.text(value) {
            Some(text) => {
                respelled = joiner.respelled();
                text
            }
            None => {
                let mut text = String::new();
                for string in strings_of(value)? {
                    text.push_str(&joiner.text(string).unwrap_or_default());
                    respelled |= joiner.respelled();
                }
                text.into()
            }
        };
        if !text.is_empty() || respelled {
            let span = self.hear(kind, text.into_owned(), context);
            facts.texts.push(TextSpan { respelled, ..span });
        }
        Ok(())
    }

    fn hear(&mut self, kind: usize, text: String, context: &Context) -> TextSpan {
        let start = self.fed[kind];
        self.fed[kind] += text.len();
        if self.keep_text && kind == 0 && self.texts[kind].len() < context.held_bytes_max {
            self.texts[kind].push_str(&text);
        }
        context.feed(&mut self.gates[kind], &text);
        TextSpan { kind, start, end: self.fed[kind], text, respelled: false }
    }

    fn push(&mut self, pending: HeldEvent) {
        self.held_bytes += pending.held_bytes();
        self.queue.push_back(pending);
    }

    fn pop(&mut self) -> Option<HeldEvent> {
        let front = self.queue.pop_front()?;
        self.held_bytes = self.held_bytes.saturating_sub(front.held_bytes());
        Some(front)
    }

    /// True if text must wait because a demanded call hasn't arrived.
    fn waits(&self, pending: &HeldEvent) -> bool {
        self.waits_for_call && self.assembler.slots().is_empty() && !pending.texts.is_empty()
    }

    /// Releases cleared events.
    pub fn pump(&mut self, identity: Option<&CompletionIdentity>, out: &mut BytesMut) {
        while let Some(front) = self.queue.front() {
            let cleared = front.texts.iter().all(|span| span.end <= self.gates[span.kind].cleared());
            if front.finish || !cleared || self.waits(front) {
                break;
            }
            let Some(front) = self.pop() else { return };
            self.emit(&front, identity, out);
        }
        self.emit_part(identity, out);
    }

    /// Releases the cleared part of an event that isn't cleared as a whole.
    fn emit_part(&mut self, identity: Option<&CompletionIdentity>, out: &mut BytesMut) {
        let Some(front) = self.queue.front() else { return };
        let [span] = &front.texts[..] else { return };
        if self.waits(front) {
            return;
        }
        let cleared = self.gates[span.kind].cleared().clamp(span.start, span.end);
        let blocked = self.gates[span.kind].blocked().is_some();
        if cleared == span.start || (front.finish && !blocked) || (cleared - span.start < PART_BYTES_MIN && !blocked) {
            return;
        }
        let Some(mut front) = self.pop() else { return };
        let Some(mut span) = front.texts.pop() else { return };
        let text = self.spaced(span.kind, self.allowed(&span, cleared));
        if !text.is_empty() {
            // What else the event says leaves with the rest of its text.
            // An event that isn't parsed has nothing but its text.
            let extra = front.document.as_ref().and_then(extra_of).map(Value::raw_str);
            let delta = self.delta_of_text(span.kind, &text, extra);
            let changes = ChunkEdit { identity, delta: Some(delta), finish: Some("null".into()), drop_usage: true, ..ChunkEdit::default() };
            (self.released, self.follows, self.role_said) = (true, true, true);
            out.extend_from_slice(&front.write(&changes));
        }
        self.gates[span.kind].forget_removals(cleared);
        span.text.drain(..cleared - span.start);
        span.start = cleared;
        front.texts.push(span);
        front.begun = true;
        self.held_bytes += front.held_bytes();
        self.queue.push_front(front);
    }

    /// A delta with a piece of text. `extra`: the JSON of `extra_content`, by which Gemini tells thoughts from answers.
    fn delta_of_text(&self, kind: usize, text: &str, extra: Option<&str>) -> String {
        let mut delta = String::from(if self.role_said { "{" } else { "{\"role\":\"assistant\"," });
        let (name, open, close) = match TEXTS.get(kind) {
            Some(&"audio") => ("audio", "{\"transcript\":", "}"),
            Some(name) => (*name, "", ""),
            None => ("content", "", ""),
        };
        delta.push_str(&format!("\"{name}\":{open}"));
        quote_into(&mut delta, text);
        delta.push_str(close);
        extra.iter().for_each(|extra| delta.push_str(&format!(",\"extra_content\":{extra}")));
        delta.push('}');
        delta
    }

    /// Text of a span up to `cleared`, without removals.
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

    /// Puts a paragraph break before the first text of an attempt if an earlier attempt's text was released.
    fn spaced(&mut self, kind: usize, text: String) -> String {
        if kind != 0 || text.is_empty() || !std::mem::take(&mut self.gap) {
            return text;
        }
        format!("\n\n{text}")
    }

    fn role_of(&self, pending: &HeldEvent) -> RoleEdit {
        match (self.role_said, pending.has_role) {
            (false, false) => RoleEdit::Add,
            (true, true) => RoleEdit::Drop,
            _ => RoleEdit::Keep,
        }
    }

    fn emit(&mut self, pending: &HeldEvent, identity: Option<&CompletionIdentity>, out: &mut BytesMut) {
        let texts = self.leaving(pending);
        let rest = texts.iter().any(|(_, text)| !text.is_empty());
        let emptied = (pending.has_calls || !texts.is_empty()) && !rest && texts.len() == pending.texts.len();
        if emptied && self.role_said && !pending.document().is_some_and(|document| says_more(&document)) {
            return;
        }
        // It is said in the last event how the choice ended.
        let finish = pending.finish.then(|| "null".to_owned());
        let (role, drop_logprobs) = (self.role_of(pending), pending.logprobs_of_nothing());
        let drop_usage = pending.finish;
        let changes =
            ChunkEdit { identity, texts, drop_calls: pending.has_calls, drop_logprobs, role, finish, drop_usage, ..ChunkEdit::default() };
        self.role_said = true;
        out.extend_from_slice(&pending.write(&changes));
    }

    /// The changed texts of an event that is sent; records that text was released.
    fn leaving(&mut self, pending: &HeldEvent) -> Vec<(usize, String)> {
        let mut texts = Vec::new();
        for span in &pending.texts {
            let text = self.spaced(span.kind, self.allowed(span, span.end));
            self.released |= !text.is_empty();
            if pending.begun || span.respelled || text.len() != span.text.len() {
                texts.push((span.kind, text));
            }
            self.gates[span.kind].forget_removals(span.end);
        }
        self.follows |= self.released;
        texts
    }

    /// Releases everything except calls: another attempt follows.
    pub fn flush(&mut self, identity: Option<&CompletionIdentity>, out: &mut BytesMut) {
        // INVARIANT: nothing blocks, so every gate has cleared all of its text.
        for pending in std::mem::take(&mut self.queue) {
            self.emit(&pending, identity, out);
        }
    }

    /// Judges the choice after its last event.
    pub fn conclude(&mut self, context: &Context, inputs: AttemptInputs) -> JudgedChoice {
        for gate in &mut self.gates {
            context.close(gate);
        }
        let calls: Vec<Call> = self.assembler.slots().iter().map(PartialCall::call).collect();
        let has_text = self.fed[0] > 0;
        let ending = self.finish_reason.as_deref().map_or(FinishReason::Complete, FinishReason::of_finish);
        let answer = AnswerNature { has_text, has_audio: self.has_audio, ending, ..AnswerNature::default() };
        let answer = if self.fed[1] > 0 { answer.refused() } else { answer };
        context.judge_choice(&calls, &self.gates.each_ref(), answer, inputs)
    }

    /// The calls as received.
    pub fn slots(&self) -> &[PartialCall] {
        self.assembler.slots()
    }

    /// The model's turn, as far as it was kept.
    pub fn said(&self) -> Said {
        let calls = self.slots().iter().map(|slot| (slot.call(), slot.extras.clone())).collect();
        Said { text: self.texts[0].clone(), reasoning: self.reasoning.clone(), calls, ..Said::default() }
    }
}

/// True if an event has more than a role, calls and texts.
fn extra_of(document: &Document) -> Option<Value<'_>> {
    delta_of(choice_of(document)?)?.get_some("extra_content")
}

fn says_more(document: &Document) -> bool {
    let root = document.root();
    let Some(choice) = choice_of(document) else { return true };
    let usage = root.get_some("usage").is_some() || root.get_some("x_groq").is_some();
    let known = |name: &str| matches!(name, "role" | "tool_calls" | "function_call" | "content" | "refusal");
    let more = |delta: Value<'_>| delta.members().any(|member| !known(&member.name()) && !is_nothing(member.value));
    let array = delta_of(choice).and_then(|delta| text_value(delta, 0)).is_some_and(Value::is_array);
    usage || array || delta_of(choice).is_some_and(more)
}
