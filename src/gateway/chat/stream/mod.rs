//! One attempt's streamed answer: from the upstream's events to the application's.
//!
//! ```text
//!  event ─▶ usage, errors, identity ─▶ choice by choice ([`ChoiceStream`]) ─▶ out
//!  end   ─▶ conclude: every choice judged ─▶ (decided elsewhere) ─▶ end: finals, usage, verdict, [DONE]
//! ```
//! Sans-IO. In observe mode every event leaves as it came, and is judged beside that.

pub mod choice;
pub mod chunk;
pub(super) mod delta_template;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::{
    chat::promotion::ChatPromoter,
    exchange::{
        adapter::{AnswerStream, End, Flow, Made},
        context::{Context, JudgedChoice},
        conversation::Memo,
        decision::ChoiceOutcome,
        error::Fault,
        loop_guard::AttemptInputs,
        text::{
            place::{is_ambiguous, is_nothing},
            places,
        },
        turn::Said,
    },
    openai::{error::is_base_error, usage},
    wire::{
        json::{Document, Value, splice::Splices, string::quote},
        sse::{SseEvent, keep_alive},
    },
};
use choice::{ChoiceStream, SentBefore};
use chunk::{ChunkEdit, CompletionIdentity, DeltaSpeech, RoleEdit, data_of, frame, with_member, with_usage};
use delta_template::DeltaTemplate;

/// Limit for the choices of one answer; OpenAI allows 128.
const CHOICES_MAX: u64 = 128;

/// Judge of one attempt's chat stream.
pub struct ChatStream {
    context: Arc<Context>,
    choices: Vec<ChoiceStream>,
    /// Trailing events: usage.
    tail: Vec<(SseEvent, Document)>,
    /// Identity of the first attempt, once known.
    identity: Option<CompletionIdentity>,
    /// The identity is an earlier attempt's, and is written into the events.
    rewrite: bool,
    /// An earlier attempt sent the role of choice 0.
    role_said: bool,
    /// An earlier attempt's text was sent.
    follows: bool,
    own_usage: Option<String>,
    /// The usage in the member `usage`, for writing it in its place.
    root_usage: Option<String>,
    done: bool,
    /// In observe mode: the answer can't be judged, and passes all the same.
    unjudged: bool,
    /// Text outside the answer was left out.
    stray: bool,
    promoter: ChatPromoter,
    /// Template of the previous event.
    pattern: Option<DeltaTemplate>,
    /// Content of the deltas so far.
    spoken: DeltaSpeech,
    scratch: BytesMut,
}

impl AnswerStream for ChatStream {
    fn new(context: Arc<Context>, earlier: Option<&ChatStream>) -> Self {
        let identity = earlier.and_then(|judge| judge.identity.clone());
        let role_said = earlier.is_some_and(|judge| judge.role_said || judge.choices.iter().any(ChoiceStream::started));
        let rewrite = identity.is_some();
        let follows = earlier.is_some_and(|judge| judge.follows || judge.released());
        Self {
            promoter: ChatPromoter::new(&context),
            context,
            choices: Vec::new(),
            tail: Vec::new(),
            identity,
            rewrite,
            role_said,
            follows,
            own_usage: None,
            root_usage: None,
            done: false,
            unjudged: false,
            stray: false,
            pattern: None,
            spoken: DeltaSpeech::default(),
            scratch: BytesMut::new(),
        }
    }

    fn handle(&mut self, event: SseEvent, out: &mut BytesMut) -> Result<Flow, Fault> {
        if !self.context.observes() {
            return self.judge(event, out);
        }
        out.extend_from_slice(&event.raw);
        if self.unjudged {
            return Ok(Flow::More);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let flow = self.judge(event, &mut scratch);
        scratch.clear();
        self.scratch = scratch;
        self.unjudged = flow.is_err();
        Ok(flow.unwrap_or(Flow::More))
    }

    fn unjudged(&self) -> bool {
        self.unjudged
    }

    fn conclude(&mut self, inputs: AttemptInputs) -> Result<Vec<JudgedChoice>, Fault> {
        let whole = !self.choices.is_empty() && (self.done || self.choices.iter().all(ChoiceStream::finished));
        if self.context.observes() {
            self.unjudged |= !whole;
        } else if !whole {
            return Err(Fault::Cut);
        }
        if !self.context.observes() && self.choices.iter().any(ChoiceStream::lacks_calls) {
            return Err(Fault::Unknown("a choice whose calls stand beside its deltas only"));
        }
        let context = self.context.clone();
        let mut judged: Vec<JudgedChoice> = self.choices.iter_mut().map(|choice| choice.conclude(&context, inputs)).collect();
        if let Some(first) = judged.first_mut() {
            first.turn.violations.extend(crate::exchange::promotion::notes(&self.promoter.held.tools, &context));
            let stray = self.stray || self.choices.iter().any(|choice| choice.stray);
            first.turn.violations.extend(stray.then(|| places::stray(&context)).flatten());
        }
        Ok(judged)
    }

    fn said(&self, choice: usize) -> Said {
        self.choices.get(choice).map(ChoiceStream::said).unwrap_or_default()
    }

    fn released(&self) -> bool {
        self.choices.iter().any(|choice| choice.released)
    }

    fn held_bytes(&self) -> usize {
        self.choices.iter().map(|choice| choice.held_bytes).sum()
    }

    fn usage(&self) -> Option<&str> {
        self.own_usage.as_deref()
    }

    fn release(&mut self, out: &mut BytesMut) {
        if !self.context.observes() {
            let identity = self.identity.as_ref().filter(|_| self.rewrite);
            self.choices.iter_mut().for_each(|choice| choice.pump(identity, out));
        }
    }

    fn flush(&mut self, out: &mut BytesMut) {
        let identity = self.identity.as_ref().filter(|_| self.rewrite);
        self.choices.iter_mut().for_each(|choice| choice.flush(identity, out));
    }

    fn end(&mut self, end: End<'_>, out: &mut BytesMut) -> Option<Memo> {
        let End { finals, earlier, verdict, as_member } = end;
        if self.context.observes() {
            return None;
        }
        let identity = self.identity.as_ref().filter(|_| self.rewrite);
        let mut last: Vec<Bytes> = Vec::new();
        for (choice, ending) in self.choices.iter_mut().zip(finals) {
            last.extend(choice.end(ending, &self.context, identity, out));
        }
        let sum = |usage: Value<'_>| {
            let mut sum = earlier.clone();
            sum.is_some().then(|| usage::add(&mut sum, usage.raw_str()));
            sum.map(|sum| sum.to_string())
        };
        for event in &mut last {
            if let Some(usage) = data_of(event).as_ref().and_then(|data| data.root().get_some("usage")).and_then(sum) {
                *event = with_usage(event, &usage);
            }
        }
        for (event, document) in &self.tail {
            let usage = document.root().get_some("usage").and_then(sum);
            // A choice in it has ended, and its role was said.
            let role = if chunk::choice_of(document).is_some() { RoleEdit::Drop } else { RoleEdit::Keep };
            let changes = ChunkEdit { identity, usage, role, ..ChunkEdit::default() };
            last.push(chunk::write(event, document, &changes));
        }
        // An event that said it may have left before others that don't: clients keep what the last one says.
        let says = |event: &Bytes| data_of(event).is_some_and(|data| data.root().get_some("usage").is_some());
        if let (Some(usage), Some(event)) = (self.root_usage.take(), last.last_mut().filter(|event| !says(event))) {
            let mut sum = earlier.clone();
            usage::add(&mut sum, &usage);
            *event = with_usage(event, &sum.unwrap_or_default().to_string());
        }
        let count = last.len();
        for (at, event) in last.into_iter().enumerate() {
            let event = if as_member && at + 1 == count { with_member(event, verdict) } else { event };
            out.extend_from_slice(&event);
        }
        out.extend_from_slice(b": toolmark ");
        out.extend_from_slice(verdict.as_bytes());
        out.extend_from_slice(b"\n\ndata: [DONE]\n\n");
        None
    }

    fn explain(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo> {
        let (id, created, model) = (self.context.id.simple(), made.created, quote(made.model));
        let choice = r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}"#;
        let data = format!(
            r#"{{"id":"chatcmpl-{id}","object":"chat.completion.chunk","created":{created},"model":{model},"choices":[{choice}]}}"#
        );
        let mut last = Self::new(self.context.clone(), Some(self));
        let event = SseEvent::without_bytes(Some(data.into()), None);
        // INVARIANT: it is an event like any other, and its choice is held as it has ended.
        let _more = last.handle(event, out);
        last.end(
            End { finals: vec![ChoiceOutcome::Replace(made.words.to_owned())], earlier: None, verdict: made.verdict, as_member: true },
            out,
        )
    }

    fn keep_alive(&self, out: &mut BytesMut) {
        match &self.identity {
            Some(identity) => out.extend_from_slice(&frame(identity.empty_chunk().as_bytes())),
            None => keep_alive(out),
        }
    }

    fn fail(&mut self, envelope: &str, out: &mut BytesMut) {
        out.extend_from_slice(&frame(envelope.as_bytes()));
    }
}

impl ChatStream {
    fn judge(&mut self, event: SseEvent, out: &mut BytesMut) -> Result<Flow, Fault> {
        let Some(data) = event.data.clone() else {
            // Comments keep connections alive; anything else upsets clients.
            if event.is_comment() {
                keep_alive(out);
            }
            return Ok(Flow::More);
        };
        let trimmed = data.trim_ascii();
        if trimmed == b"[DONE]" {
            for (event, document) in self.promoter.finish(&self.context) {
                self.document(event, document, out)?;
            }
            self.done = true;
            return Ok(Flow::Done);
        }
        if trimmed.is_empty() {
            return Ok(Flow::More);
        }
        let repeated = self.pattern.as_ref().and_then(|pattern| Some((pattern.index(), pattern.text(&event)?.into_owned())));
        if let Some((index, text)) = repeated {
            return Ok(self.repeated(index, event, text, out));
        }
        let mut document = Document::parse(data)?;
        let mut event = event;
        if let Some(rest) = self.spoken.without_copies(&document) {
            event = SseEvent::without_bytes(Some(rest.bytes().clone()), event.name);
            document = rest;
        }
        if !self.promoter.held.is_open() {
            return self.document(event, document, out).map(|()| Flow::More);
        }
        for (event, document) in self.promoter.take(event, document, &self.context) {
            self.document(event, document, out)?;
        }
        Ok(Flow::More)
    }

    fn document(&mut self, event: SseEvent, document: Document, out: &mut BytesMut) -> Result<(), Fault> {
        let root = document.root();
        if root.is_array() && root.items().next().is_some_and(|first| first.get_some("error").is_some()) {
            return Err(Fault::Reported(root.raw_str().to_owned()));
        }
        if !root.is_object() || is_ambiguous(root) {
            return Err(Fault::Unknown("no object, or two members of one name"));
        }
        let parts = chunk::ChunkFields::of(root);
        let named_error = event.name.as_deref() == Some(b"error");
        if parts.error.is_some_and(|error| !error.is_null() && !error.is_text("")) || named_error {
            return Err(Fault::Reported(document.root().raw_str().to_owned()));
        }
        if let Some(groq) = parts.groq.filter(|groq| groq.get_some("error").is_some()) {
            return Err(Fault::Reported(groq.raw_str().to_owned()));
        }
        // Some send errors without `error` around them.
        let flat = parts.choices.is_none() && root.get("message").is_some() && (root.get("code").is_some() || root.get("type").is_some());
        if flat || is_base_error(root) {
            return Err(Fault::Reported(root.raw_str().to_owned()));
        }
        let came = document.bytes().as_ptr();
        let (document, stray) = super::places::swept_event(document, &self.context)?;
        self.stray |= stray;
        let document = if self.context.choices > 1 { document } else { of_only_choice(document)? };
        let mut event = event;
        if document.bytes().as_ptr() != came {
            // What came isn't what leaves.
            event = SseEvent::without_bytes(Some(document.bytes().clone()), event.name);
        }
        let parts = chunk::ChunkFields::of(document.root());
        self.note_usage(&parts);
        let choices: Vec<Value<'_>> = parts.choices.into_iter().flat_map(Value::items).collect();
        match choices.len() {
            0 => self.choiceless(event, document, out),
            1 => self.single(event, document, out),
            // Each is written with all that the event says besides.
            count if count as u64 > CHOICES_MAX => Err(Fault::Unknown("too many choices in one event")),
            _ => {
                let raws: Vec<String> = choices.iter().map(|choice| choice.raw_str().to_owned()).collect();
                (0..raws.len()).try_for_each(|at| self.split(&event, &document, &raws, at, out))
            }
        }
    }

    /// Handles one of the choices of an event, as an event of its own; the last one keeps the usage.
    fn split(&mut self, event: &SseEvent, document: &Document, choices: &[String], at: usize, out: &mut BytesMut) -> Result<(), Fault> {
        let mut edits = Splices::default();
        if let (Some(own), Some(choice)) = (document.root().get("choices"), choices.get(at)) {
            edits.replace(own.span(), format!("[{choice}]"));
        }
        if let Some(usage) = document.root().get_some("usage").filter(|_| at + 1 < choices.len()) {
            edits.replace(usage.span(), "null");
        }
        let data = edits.apply(document.bytes());
        let event = SseEvent::without_bytes(None, event.name.clone());
        self.single(event, Document::parse(data)?, out)
    }

    fn note_usage(&mut self, parts: &chunk::ChunkFields<'_>) {
        let of_root = parts.usage.filter(|usage| !usage.is_null());
        if let Some(usage) = of_root {
            self.root_usage = Some(usage.raw_str().to_owned());
        }
        if let Some(usage) = of_root.or_else(|| parts.groq?.get_some("usage")) {
            self.own_usage = Some(usage.raw_str().to_owned());
        }
    }

    fn choiceless(&mut self, event: SseEvent, document: Document, out: &mut BytesMut) -> Result<(), Fault> {
        let root = document.root();
        match root.get("choices") {
            Some(choices) if choices.is_array() || choices.is_null() => {}
            Some(_) => return Err(Fault::Unknown("`choices` is no array")),
            // `event: ping` and the like, or what some upstream says about itself: clients take it for a chunk. So is what
            // nothing is left of.
            None if root.get_some("usage").is_none() && (event.name.is_some() || event.raw.is_empty()) => return Ok(()),
            None => {}
        }
        if root.get_some("usage").is_some() {
            self.tail.push((event, document));
            return Ok(());
        }
        self.first_identity(root);
        let changes = ChunkEdit { identity: self.identity_to_write(), ..ChunkEdit::default() };
        out.extend_from_slice(&chunk::write(&event, &document, &changes));
        Ok(())
    }

    fn first_identity(&mut self, root: Value<'_>) {
        // Azure's first event has an empty id.
        if self.identity.is_none() && root.get_some("id").is_none_or(|id| !id.is_text("")) {
            self.identity = Some(CompletionIdentity::read(root));
        }
    }

    fn identity_to_write(&self) -> Option<&CompletionIdentity> {
        self.identity.as_ref().filter(|_| self.rewrite)
    }

    fn single(&mut self, event: SseEvent, document: Document, out: &mut BytesMut) -> Result<(), Fault> {
        let Some(choice) = chunk::choice_of(&document) else { return Ok(()) };
        if !choice.is_object() || is_ambiguous(choice) {
            return Err(Fault::Unknown("a choice that is no object, or has two members of one name"));
        }
        let index = match choice.get_some("index") {
            None => 0,
            Some(index) => {
                let asked = self.context.choices.clamp(1, CHOICES_MAX);
                index.integer().filter(|index| *index < asked).ok_or(Fault::Unknown("a choice's `index`"))?
            }
        };
        self.first_identity(document.root());
        let at = match self.choices.iter().position(|stream| stream.index() >= index) {
            Some(at) if self.choices.get(at).is_some_and(|stream| stream.index() == index) => at,
            at => {
                let at = at.unwrap_or(self.choices.len());
                let sent = if index == 0 { SentBefore { role: self.role_said, text: self.follows } } else { SentBefore::default() };
                self.choices.insert(at, ChoiceStream::new(index, &self.context, sent));
                at
            }
        };
        // OpenRouter's last event: the usage, beside a choice that has ended and says nothing more. In front of that end, clients that add
        // what events say would count it twice.
        let ended = self.choices.get(at).is_some_and(ChoiceStream::finished);
        if ended && document.root().get_some("usage").is_some() && says_nothing(choice) {
            self.tail.push((event, document));
            return Ok(());
        }
        // While calls may be made of text, and where events are written anew, each is read.
        let plain = !self.rewrite && !self.promoter.held.is_open();
        self.pattern = if plain { DeltaTemplate::of(&event, &document) } else { None };
        if let Some(stream) = self.choices.get_mut(at) {
            stream.take(event, document, &self.context)?;
        }
        self.pump(at, out);
        Ok(())
    }

    /// Handles an event that continues the text of the previous one.
    fn repeated(&mut self, index: u64, event: SseEvent, text: String, out: &mut BytesMut) -> Flow {
        self.spoken.text = true;
        if let Some((at, stream)) = self.choices.iter_mut().enumerate().find(|(_, stream)| stream.index() == index) {
            stream.take_repeated(event, text, &self.context);
            self.pump(at, out);
        }
        Flow::More
    }

    /// Releases the cleared events of this choice and of those that waited for it to start: clients expect
    /// the first event of choice 0 before that of choice 1 (docs/wire-facts.md#emission-rules, rule 4).
    fn pump(&mut self, from: usize, out: &mut BytesMut) {
        let identity = self.identity.as_ref().filter(|_| self.rewrite);
        for at in from..self.choices.len() {
            let expected = |(place, stream): (usize, &ChoiceStream)| stream.index() == place as u64 && (place == at || stream.started());
            if !self.choices.iter().enumerate().take(at + 1).all(expected) {
                return;
            }
            let Some(stream) = self.choices.get_mut(at) else { return };
            let before = stream.started();
            stream.pump(identity, out);
            if before || !stream.started() {
                return;
            }
        }
    }
}

/// True of a choice that has nothing but its index, how it ended, and perhaps a role.
fn says_nothing(choice: Value<'_>) -> bool {
    let known = |name: &str| matches!(name, "index" | "finish_reason" | "native_finish_reason" | "role");
    let silent = |object: Value<'_>| object.members().all(|member| known(&member.name()) || is_nothing(member.value));
    choice.members().all(|member| match &*member.name() {
        "delta" | "message" => member.value.is_object() && silent(member.value) || is_nothing(member.value),
        name => known(name) || is_nothing(member.value),
    })
}

/// An event of an answer with one choice, as of the first: Foundry Local counts `index` up with each piece, and most clients read the first
/// choice of an event whatever its `index` says.
fn of_only_choice(document: Document) -> Result<Document, Fault> {
    let choices = || document.root().get("choices").into_iter().flat_map(Value::items);
    if choices().nth(1).is_some() {
        return Err(Fault::Unknown("more choices than were asked for"));
    }
    let further = |index: &Value<'_>| index.integer().is_some_and(|index| (1..CHOICES_MAX).contains(&index));
    let mut edits = Splices::default();
    let index = choices().next().and_then(|choice| choice.get_some("index")).filter(further);
    index.into_iter().for_each(|index| edits.replace(index.span(), "0"));
    if edits.is_empty() { Ok(document) } else { Ok(Document::parse(edits.apply(document.bytes()))?) }
}

#[cfg(test)]
mod tests;
