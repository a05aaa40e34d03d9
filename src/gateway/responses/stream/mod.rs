//! One attempt's streamed response: from the upstream's events to the application's.
//!
//! ```text
//!  event ─▶ text ─▶ gates ─┐
//!        ├▶ calls ─▶ held ─┼▶ queue ─▶ pump: what is cleared leaves, in the order in which it came
//!        └▶ the rest ──────┘
//!  terminal event ─▶ conclude: all is judged ─▶ (decided elsewhere) ─▶ end: the rest, the verdict, the terminal event
//! ```
//! Nothing behind a call that isn't judged yet leaves, so that items keep their order. Sans-IO. In observe mode every
//! event leaves as it came, and is judged beside that.

mod event_writer;
mod finish;
mod held_calls;
mod misplaced;
mod receive;
mod release;
mod sent;
mod texts;

use std::{collections::VecDeque, sync::Arc};

use bytes::BytesMut;

use self::texts::{ListedParts, ResponseTexts};
use crate::{
    exchange::{
        adapter::{AnswerStream, End, Flow, Made},
        context::{AnswerNature, Context, JudgedChoice},
        conversation::{Memo, Owed},
        error::{CALLS_MAX, Fault, ShapeError},
        loop_guard::AttemptInputs,
        text::places,
        turn::{Said, SaidItem},
    },
    judge::call::turn::FinishReason,
    responses::{output_items::ItemKind, promotion::StreamPromoter, response::read::ending_of, synthetic},
    wire::{
        json::{Document, Value, string::quote},
        sse::{SseEvent, keep_alive},
    },
};
use held_calls::HeldCall;
use sent::SentResponse;

/// Limit for the output items of one response.
const ITEMS_MAX: usize = 1024;

/// An output item of this attempt.
struct OutputItemState {
    /// The upstream's index.
    index: Option<u64>,
    /// Id of the item.
    id: String,
    kind: ItemKind,
    call: Option<HeldCall>,
    /// Index downstream, once it has one.
    place: Option<usize>,
    /// The item as received, begun or done: JSON.
    raw: String,
    /// The item is done.
    done: bool,
    /// Parts of a message, as its last copy lists them.
    listed: ListedParts,
}

/// A queued event.
struct QueuedEvent {
    event: SseEvent,
    document: Document,
    /// The item it belongs to.
    item: Option<usize>,
    what: EventRole,
}

impl QueuedEvent {
    /// Memory held by the event, in bytes.
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.event.held_bytes() + self.document.noted_bytes()
    }
}

enum EventRole {
    /// Begins a message or a part of one: is sent with the event that follows.
    Opens,
    /// Text of a part, up to this position in the joined text.
    Delta { part: usize, end: usize },
    /// Repeats the text of a part.
    RepeatsText(usize),
    /// Repeats a part.
    RepeatsPart(usize),
    /// Repeats a message.
    RepeatsItem,
    /// Points into the text of a part.
    Annotates(usize),
    /// Placeholder for a call: its events are written after it is judged.
    Call,
    /// Another item is done.
    Done,
    /// Anything else.
    Passes,
}

/// The event that ends the response.
struct TerminalEvent {
    event: SseEvent,
    document: Document,
    /// Index of the received item for each element of `output`.
    items: Vec<usize>,
}

/// Part of this attempt's response that the upstream has sent.
struct ReceivedResponse {
    context: Arc<Context>,
    items: Vec<OutputItemState>,
    texts: ResponseTexts,
    /// Events that wait until they are cleared.
    queue: VecDeque<QueuedEvent>,
    /// Memory held by the queue, in bytes.
    held_bytes: usize,
    /// Number of events at the front of the queue that only begin something.
    opens: usize,
    terminal: Option<TerminalEvent>,
    /// Response object of the first attempt's first event: JSON.
    head: Option<Document>,
    /// This isn't the first attempt.
    again: bool,
    hosted_calls: bool,
    unoffered_calls: bool,
    /// Text outside the answer was left out.
    stray: bool,
}

/// Judge of one attempt's response stream.
pub struct ResponseStream {
    context: Arc<Context>,
    received: ReceivedResponse,
    sent: SentResponse,
    /// Rejected calls, with the outputs to send for them.
    owed: Vec<Owed>,
    /// The attempt was accepted, and another one follows.
    settled: bool,
    /// A call was demanded: no text is released before there is one.
    waits_for_call: bool,
    unjudged: bool,
    promoter: StreamPromoter,
    scratch: BytesMut,
}

impl ResponseStream {
    fn judge(&mut self, event: SseEvent, out: &mut BytesMut) -> Result<Flow, Fault> {
        let Some(data) = event.data.clone() else {
            // Comments keep connections alive.
            if event.is_comment() {
                keep_alive(out);
            }
            return Ok(Flow::More);
        };
        let trimmed = data.trim_ascii();
        if trimmed == b"[DONE]" {
            return Ok(Flow::Done);
        }
        if trimmed.is_empty() {
            return Ok(Flow::More);
        }
        let document = Document::parse(data)?;
        let mut flow = Flow::More;
        if self.promoter.held.is_open() {
            for (event, document) in self.promoter.take(event, document, &self.context) {
                flow = self.received.document(event, document)?;
            }
        } else {
            flow = self.received.document(event, document)?;
        }
        self.pump(out);
        Ok(flow)
    }
}

impl ReceivedResponse {
    fn item(&mut self, index: Option<u64>, id: &str, kind: ItemKind) -> Result<usize, Fault> {
        if self.items.len() >= ITEMS_MAX {
            return Err(Fault::Unknown("too many output items"));
        }
        self.items.push(OutputItemState {
            index,
            id: id.to_owned(),
            kind,
            call: None,
            place: None,
            raw: String::new(),
            done: false,
            listed: Default::default(),
        });
        Ok(self.items.len() - 1)
    }

    /// A message built from the released texts of its parts.
    fn released_message(&self, item: usize) -> String {
        let parts = self.texts.parts.iter().filter(|part| part.item == item);
        let parts: Vec<String> = parts.map(|part| synthetic::message_part(&part.left, part.member())).collect();
        let id = quote(self.items.get(item).map_or("", |item| item.id.as_str()));
        format!(r#"{{"type":"message","id":{id},"status":"completed","role":"assistant","content":[{}]}}"#, parts.join(","))
    }

    /// The held calls, in order.
    fn calls(&self) -> impl Iterator<Item = &HeldCall> {
        self.items.iter().filter_map(|item| item.call.as_ref())
    }

    fn nature(&self) -> AnswerNature {
        let response = self.terminal.as_ref().and_then(|terminal| terminal.document.root().get("response"));
        let (has_text, refused) = (self.texts.has(texts::TEXT), self.texts.has(texts::REFUSAL));
        let ending = response.map_or(FinishReason::Complete, ending_of);
        let has_audio = self.items.iter().any(|item| item.kind == ItemKind::Other);
        let nature = AnswerNature { has_text, has_audio, hosted_calls: self.hosted_calls, unoffered_calls: self.unoffered_calls, ending };
        if refused && response.is_some() { nature.refused() } else { nature }
    }
}

impl AnswerStream for ResponseStream {
    fn new(context: Arc<Context>, earlier: Option<&Self>) -> Self {
        let sent = earlier.map(SentResponse::after).unwrap_or_default();
        let head = earlier.and_then(|earlier| earlier.received.head.clone());
        let mut received = ReceivedResponse {
            context: context.clone(),
            items: Vec::new(),
            texts: ResponseTexts::default(),
            queue: VecDeque::new(),
            held_bytes: 0,
            opens: 0,
            terminal: None,
            again: head.is_some(),
            head,
            hosted_calls: false,
            unoffered_calls: false,
            stray: false,
        };
        received.texts.gap = sent.released_before;
        Self {
            received,
            sent,
            owed: Vec::new(),
            settled: false,
            waits_for_call: context.demands_call(),
            unjudged: false,
            promoter: StreamPromoter::new(&context),
            scratch: BytesMut::new(),
            context,
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
        // What follows the answer leaves too.
        Ok(Flow::More)
    }

    fn conclude(&mut self, inputs: AttemptInputs) -> Result<Vec<JudgedChoice>, Fault> {
        if self.context.observes() {
            self.unjudged |= self.received.terminal.is_none();
        } else if self.received.terminal.is_none() {
            return Err(Fault::Cut);
        }
        let context = self.context.clone();
        self.received.texts.close(&context);
        let slots: Vec<_> = self.received.calls().map(HeldCall::slot).collect();
        if slots.len() > CALLS_MAX {
            return Err(ShapeError::TooMany.into());
        }
        let calls: Vec<_> = slots.iter().map(|slot| slot.call(&context)).collect();
        let mut judged = context.judge_choice(&calls, &self.received.texts.judged(), self.received.nature(), inputs);
        judged.turn.violations.extend(crate::exchange::promotion::notes(&self.promoter.held.tools, &context));
        judged.turn.violations.extend(self.received.stray.then(|| places::stray(&context)).flatten());
        self.owed = crate::responses::conversation_update::owed(&context, &judged, &calls, &slots);
        Ok(vec![judged])
    }

    fn said(&self, _choice: usize) -> Said {
        let mut said = Said { text: self.received.texts.said(), ..Said::default() };
        let ordered = self.received.terminal.as_ref().map_or(&[][..], |terminal| &terminal.items);
        let rest = (0..self.received.items.len()).filter(|at| !ordered.contains(at));
        // The calls in the order in which they are judged, the items in that of the upstream's own list.
        let mut numbers = vec![0; self.received.items.len()];
        for (at, item) in self.received.items.iter().enumerate() {
            if let Some(call) = &item.call {
                numbers[at] = said.calls.len();
                said.calls.push((call.slot().call(&self.context), Vec::new()));
            }
        }
        for at in ordered.iter().copied().chain(rest) {
            let Some(item) = self.received.items.get(at) else { continue };
            match &item.call {
                Some(call) => said.items.push(SaidItem::Call(numbers[at], crate::responses::output_items::echoed(&call.slot()))),
                None if item.done || !item.raw.is_empty() => said.items.push(SaidItem::Raw(item.raw.clone())),
                None => {}
            }
        }
        said
    }

    fn unjudged(&self) -> bool {
        self.unjudged
    }

    fn released(&self) -> bool {
        self.sent.released
    }

    fn note_stray(&mut self) {
        self.received.stray = true;
    }

    fn response_id(&self) -> Option<String> {
        self.head_id()
    }

    fn held_bytes(&self) -> usize {
        self.received.held_bytes + self.received.texts.held_bytes
    }

    fn usage(&self) -> Option<&str> {
        let response = self.received.terminal.as_ref()?.document.root().get("response")?;
        response.get_some("usage").map(Value::raw_str)
    }

    fn release(&mut self, out: &mut BytesMut) {
        if !self.context.observes() {
            self.pump(out);
        }
    }

    fn flush(&mut self, out: &mut BytesMut) {
        self.settle(out);
    }

    fn end(&mut self, end: End<'_>, out: &mut BytesMut) -> Option<Memo> {
        if self.context.observes() {
            return None;
        }
        self.finish(end, out)
    }

    fn explain(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo> {
        self.explain_with(made, out)
    }

    fn fail(&mut self, envelope: &str, out: &mut BytesMut) {
        self.fail_with(envelope, out);
    }
}

#[cfg(test)]
mod tests;
