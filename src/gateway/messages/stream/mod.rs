//! One attempt's streamed answer: from the upstream's events to the application's.
//!
//! ```text
//!  event ─▶ [`Sequencer`]: one block after the other ─▶ step ─▶ texts to their gates, calls held, the rest queued
//!                                                        └────▶ pump: what is cleared leaves ([`Line`])
//!  end   ─▶ conclude: all judged ─▶ (decided elsewhere) ─▶ end: calls, message_delta, message_stop
//! ```
//! Sans-IO. Never releases a character that a gate hasn't cleared, nor anything of a call. In observe mode every event
//! leaves as it came, and is judged beside that.

pub(super) mod block;
pub(super) mod line;
pub(super) mod sequence;

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use bytes::{Bytes, BytesMut};
use serde_json::Value as Json;

use super::{
    blocks::{BlockKind, call_with, fitting_stop, has_unseen_result, kind_of},
    error,
    places::swept_event,
    response::{Words, answer_kind, call_block, drops_thinking, explanation_of, nature_of},
    thread::MarkedCalls,
};
use crate::{
    claims::text_input::TextInput,
    exchange::{
        adapter::{AnswerStream, End, Flow, Made},
        context::{Context, JudgedChoice},
        conversation::Memo,
        decision::ChoiceOutcome,
        error::{Fault, ShapeError},
        loop_guard::AttemptInputs,
        promotion::{self, HeldText, Promoted, Promotion},
        text::{
            event_template::EventTemplate,
            other_readings::{self, IdReading},
            place::{is_ambiguous, is_nothing},
            places,
        },
        turn::Said,
    },
    judge::{
        call::{Call, ValidCall, turn::FinishReason},
        text::TextGate,
    },
    marks::MarkTime,
    openai::usage,
    wire::{
        json::{Document, Value, splice::Splices, string::quote},
        sse::{SseEvent, keep_alive},
    },
};
use block::{HeldBlock, HeldDelta, HeldEvent, SaidBlock, StreamedCall, TextPiece, TextRun};
use line::{Line, frame, with_members};
use sequence::{Sequencer, Step};

/// Minimum length of cleared text in a partly cleared event for a separate delta, in bytes.
const PART_BYTES_MIN: usize = 16;

/// Name of the events that continue a block.
const DELTA: &str = "content_block_delta";

/// Judge of one attempt's stream.
pub struct MessagesStream {
    context: Arc<Context>,
    sequencer: Sequencer,
    line: Line,
    /// Blocks that haven't left, in order.
    queue: VecDeque<HeldBlock>,
    /// Runs of text blocks, each with its gate.
    runs: Vec<TextRun>,
    /// The text of all runs, if there are several.
    across: Option<IdReading>,
    /// Blocks of runs with several, each alone.
    alone: Vec<IdReading>,
    calls: Vec<StreamedCall>,
    /// The turn's blocks for a repair or a hidden turn; `None` if they aren't needed, or are too large.
    said: Option<Vec<SaidBlock>>,
    said_bytes: usize,
    /// Kinds of the blocks so far; the last one is open unless it was stopped.
    kinds: Vec<BlockKind>,
    text: String,
    keep_text: bool,
    /// `message_start` of this attempt has come.
    started: bool,
    /// The upstream's id of this attempt's answer.
    id: Option<String>,
    /// Calls that have left.
    marked: MarkedCalls,
    /// A call was demanded: no text is released before there is one.
    waits_for_call: bool,
    drops_thinking: bool,
    /// The last `message_delta`.
    ended: Option<Bytes>,
    stop_reason: Option<String>,
    usage: Option<Json>,
    usage_text: Option<String>,
    /// `message_stop` has come.
    done: bool,
    released: bool,
    unjudged: bool,
    stray: bool,
    promoter: Promoter,
    queued_bytes: usize,
    /// Template of the last delta of text, and the index of its block.
    template: Option<(EventTemplate, u64)>,
    scratch: BytesMut,
}

/// Steps that are held because their text may become calls.
#[derive(Default)]
struct Promoter {
    open: bool,
    steps: Vec<Step>,
    text: HeldText,
    tools: Vec<String>,
}

impl AnswerStream for MessagesStream {
    fn new(context: Arc<Context>, earlier: Option<&Self>) -> Self {
        let mut line = earlier.map(|judge| judge.line.clone()).unwrap_or_default();
        line.gap = line.has_text;
        let calls = &context.rules.policy.calls;
        // The turn is needed again only where an attempt may follow.
        let keeps = calls.max_repairs > 0 || context.tools().runs_any() || !context.rules.state.is_empty() || context.text.second_opinion;
        Self {
            sequencer: Sequencer::default(),
            line,
            queue: VecDeque::new(),
            runs: Vec::new(),
            across: None,
            alone: Vec::new(),
            calls: Vec::new(),
            said: keeps.then(Vec::new),
            said_bytes: 0,
            kinds: Vec::new(),
            text: String::new(),
            keep_text: keeps,
            started: false,
            id: None,
            marked: MarkedCalls::default(),
            waits_for_call: context.demands_call(),
            drops_thinking: drops_thinking(&context),
            ended: None,
            stop_reason: None,
            usage: None,
            usage_text: None,
            done: false,
            released: false,
            unjudged: false,
            stray: false,
            promoter: Promoter { open: promotion::allowed(&context), ..Promoter::default() },
            queued_bytes: 0,
            template: None,
            scratch: BytesMut::new(),
            context,
        }
    }

    fn handle(&mut self, event: SseEvent, out: &mut BytesMut) -> Result<Flow, Fault> {
        if !self.context.observes() {
            return self.judge(&event, out);
        }
        out.extend_from_slice(&event.raw);
        if self.unjudged {
            return Ok(Flow::More);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let flow = self.judge(&event, &mut scratch);
        scratch.clear();
        self.scratch = scratch;
        self.unjudged = flow.is_err();
        Ok(flow.unwrap_or(Flow::More))
    }

    fn note_stray(&mut self) {
        self.stray = true;
    }

    fn conclude(&mut self, inputs: AttemptInputs) -> Result<Vec<JudgedChoice>, Fault> {
        let whole = self.started && (self.done || self.stop_reason.is_some());
        if self.context.observes() {
            self.unjudged |= !whole;
        } else if !whole {
            return Err(Fault::Cut);
        }
        let context = self.context.clone();
        self.end_run();
        self.runs.iter_mut().for_each(|run| run.close(&context));
        self.across.iter_mut().chain(&mut self.alone).for_each(|reading| reading.close(&context));
        let calls: Vec<Call> = self.calls.iter().map(StreamedCall::call).collect();
        let mut gates: Vec<&TextGate> = self.runs.iter().map(|run| &run.gate).collect();
        let others = self.across.iter().chain(&self.alone).map(IdReading::gate);
        gates.extend(other_readings::adding(others, |gate| *gate, &gates));
        let texts = self.runs.iter().filter(|run| run.fed > 0 && !run.is_explanation).count();
        let nature = nature_of(&self.kinds, texts, self.stop_reason.as_deref(), &context);
        let mut judged = context.judge_choice(&calls, &gates, nature, inputs);
        judged.turn.violations.extend(promotion::notes(&self.promoter.tools, &context));
        judged.turn.violations.extend(self.stray.then(|| places::stray(&context)).flatten());
        Ok(vec![judged])
    }

    fn said(&self, choice: usize) -> Said {
        if choice > 0 {
            return Said::default();
        }
        let calls = self.calls.iter().map(|call| (call.call(), Vec::new())).collect();
        let items = self.said.iter().flatten().map(|block| block.item(&self.calls)).collect();
        Said { text: self.text.clone(), calls, items, answer_id: self.id.clone(), ..Said::default() }
    }

    fn unjudged(&self) -> bool {
        self.unjudged
    }

    fn released(&self) -> bool {
        self.released
    }

    fn response_id(&self) -> Option<String> {
        // Nothing is fetched by it; what passes unjudged is still its caller's.
        self.id.clone().filter(|_| self.context.hidden.store && self.context.observes())
    }

    fn held_bytes(&self) -> usize {
        let calls: usize = self.calls.iter().map(|call| call.json.len()).sum();
        self.queued_bytes + self.sequencer.held_bytes + self.said_bytes + calls
    }

    fn usage(&self) -> Option<&str> {
        self.usage_text.as_deref()
    }

    fn release(&mut self, out: &mut BytesMut) {
        if !self.context.observes() {
            self.pump(out);
        }
    }

    fn flush(&mut self, out: &mut BytesMut) {
        // INVARIANT: nothing blocks, so every gate has cleared all of its text.
        self.leave(&[], out);
        self.line.stop(out);
    }

    fn end(&mut self, end: End<'_>, out: &mut BytesMut) -> Option<Memo> {
        let End { finals, earlier, verdict, as_member } = end;
        if self.context.observes() {
            return None;
        }
        let mut memo = None;
        let (stop_reason, details) = match finals.into_iter().next().unwrap_or_else(|| ChoiceOutcome::Replace(String::new())) {
            ChoiceOutcome::Accept(calls) => {
                let left = self.leave(&calls, out);
                if self.line.edited {
                    self.marked.change();
                }
                memo = std::mem::take(&mut self.marked).memo(&self.context, self.id.as_deref());
                (fitting_stop(self.stop_reason.as_deref(), left).map(str::to_owned), None)
            }
            ChoiceOutcome::Replace(text) => {
                let words = Words::new(&text, &self.context.clone());
                if let Some(text) = words.text() {
                    self.say(text, out);
                }
                (Some(quote(words.stop_reason())), Some(words.stop_details()))
            }
            ChoiceOutcome::ReplaceByCall(call) => {
                let mark = self.context.mint(call.0.name(), call.0.arguments(), call.1);
                let block = call_with(&call_block(&call.0, &mark), &mark, None, Some("{}")).unwrap_or_default();
                self.line.start_made(&block, out);
                self.line.delta_made("input_json_delta", "partial_json", call.0.arguments(), out);
                (Some("\"tool_use\"".to_owned()), Some("null".to_owned()))
            }
        };
        self.line.stop(out);
        self.queue.clear();
        let mut sum = earlier;
        let added = sum.is_some();
        if let (Some(_), Some(own)) = (&sum, &self.usage_text) {
            usage::add(&mut sum, own);
        }
        self.write_end(stop_reason.as_deref(), details.as_deref(), sum.filter(|_| added), as_member.then_some(verdict), out);
        out.extend_from_slice(b": toolmark ");
        out.extend_from_slice(verdict.as_bytes());
        out.extend_from_slice(b"\n\n");
        frame(out, "message_stop", br#"{"type":"message_stop"}"#);
        memo
    }

    fn explain(&mut self, made: &Made<'_>, out: &mut BytesMut) -> Option<Memo> {
        let mut last = Self::new(self.context.clone(), Some(self));
        if !last.line.begun {
            let (id, model) = (self.context.id.simple(), quote(made.model));
            let usage = r#""usage":{"input_tokens":0,"output_tokens":0}"#;
            let stop = r#""stop_reason":null,"stop_sequence":null"#;
            let message = format!(r#"{{"id":"msg_{id}","type":"message","role":"assistant","model":{model},"content":[],{stop},{usage}}}"#);
            frame(out, "message_start", format!(r#"{{"type":"message_start","message":{message}}}"#).as_bytes());
            last.line.begun = true;
        }
        let finals = vec![ChoiceOutcome::Replace(made.words.to_owned())];
        last.end(End { finals, earlier: None, verdict: made.verdict, as_member: true }, out)
    }

    fn keep_alive(&self, out: &mut BytesMut) {
        if self.line.begun {
            frame(out, "ping", br#"{"type":"ping"}"#);
        } else {
            keep_alive(out);
        }
    }

    fn fail(&mut self, envelope: &str, out: &mut BytesMut) {
        frame(out, "error", &error::converted(&Bytes::copy_from_slice(envelope.as_bytes())));
    }
}

impl MessagesStream {
    fn judge(&mut self, event: &SseEvent, out: &mut BytesMut) -> Result<Flow, Fault> {
        let Some(data) = event.data.clone() else {
            // Comments keep connections alive; anything else upsets clients.
            if event.is_comment() {
                keep_alive(out);
            }
            return Ok(Flow::More);
        };
        if matches!(data.trim_ascii(), b"" | b"[DONE]") {
            return Ok(Flow::More);
        }
        if let Some((text, index)) = self.repeated(event, &data) {
            self.hear(text, Some(HeldDelta { data, index: Some(index) }));
            if !self.context.text.hold_all {
                self.pump(out);
            }
            return Ok(Flow::More);
        }
        let document = Document::parse(data)?;
        let root = document.root();
        if !root.is_object() || is_ambiguous(root) {
            return Err(Fault::Unknown("no object, or two members of one name"));
        }
        let kind = root.get("type").and_then(Value::text).unwrap_or_default().into_owned();
        if event.name.as_deref() == Some(b"error") || kind == "error" || root.get_some("error").is_some() {
            return Err(Fault::Reported(root.raw_str().to_owned()));
        }
        if event.name.as_ref().is_some_and(|name| !name.is_empty() && *name != kind.as_bytes()) {
            return Err(Fault::Unknown("an event whose name isn't its type"));
        }
        if kind == "ping" {
            frame(out, "ping", br#"{"type": "ping"}"#);
            return Ok(Flow::More);
        }
        let known = matches!(
            &*kind,
            "message_start" | "content_block_start" | "content_block_delta" | "content_block_stop" | "message_delta" | "message_stop"
        );
        if !known {
            // Nobody knows what it says.
            return Ok(Flow::More);
        }
        let came = document.bytes().as_ptr();
        let (document, stray) = swept_event(document, &kind, &self.context)?;
        self.stray |= stray;
        self.template = if kind == DELTA && document.bytes().as_ptr() == came { template_of(&document) } else { None };
        self.event(&kind, document, out)
    }

    /// Text of an event that continues the text of the previous one, and the index of its block.
    fn repeated(&self, event: &SseEvent, data: &Bytes) -> Option<(String, u64)> {
        let (template, index) = self.template.as_ref()?;
        if self.promoter.open || event.name.as_deref() != Some(DELTA.as_bytes()) {
            return None;
        }
        // The previous event was a delta of this block, and passed at once.
        Some((template.text(data)?.into_owned(), *index)).filter(|_| self.sequencer.passes(*index))
    }

    fn event(&mut self, kind: &str, document: Document, out: &mut BytesMut) -> Result<Flow, Fault> {
        let root = document.root();
        let index = || root.get("index").and_then(Value::integer).ok_or(Fault::Unknown("a block's `index`"));
        let mut steps = Vec::new();
        match kind {
            "message_start" => return self.start(&document, out).map(|()| Flow::More),
            _ if !self.started => return Err(Fault::Unknown("no `message_start`")),
            "content_block_start" if self.ended.is_some() => return Err(Fault::Unknown("a block after the end")),
            "content_block_start" => self.sequencer.start(index()?, document, &mut steps)?,
            "content_block_delta" => self.sequencer.delta(index()?, document, &mut steps)?,
            "content_block_stop" => self.sequencer.stop(index()?, &mut steps),
            "message_delta" => {
                self.sequencer.finish(&mut steps);
                let delta = root.get("delta").filter(|delta| !is_ambiguous(*delta));
                if let Some(reason) = delta.and_then(|delta| delta.get_some("stop_reason")).and_then(Value::text) {
                    self.stop_reason = Some(reason.into_owned());
                }
                self.hear_explanation(delta.and_then(|delta| explanation_of(delta.get("stop_details"))));
                self.note_usage(root.get_some("usage"));
                self.ended = Some(document.bytes().clone());
            }
            _ => {
                self.sequencer.finish(&mut steps);
                self.done = true;
            }
        }
        for step in steps {
            self.promote(step)?;
        }
        if self.done {
            self.decide_promotion(TextInput::Complete)?;
        }
        if !self.context.text.hold_all {
            self.pump(out);
        }
        Ok(if self.done { Flow::Done } else { Flow::More })
    }

    /// Handles `message_start`. It leaves once, whatever the number of attempts.
    fn start(&mut self, document: &Document, out: &mut BytesMut) -> Result<(), Fault> {
        let message = document.root().get("message").filter(|message| message.is_object() && !is_ambiguous(*message));
        let message = message.ok_or(Fault::Unknown("a `message_start` without a message"))?;
        if message.get("content").is_some_and(|content| !is_nothing(content)) {
            return Err(ShapeError::Text.into());
        }
        if self.started {
            // Some gateways send it twice.
            return Ok(());
        }
        self.started = true;
        self.id = message.get("id").and_then(Value::text).map(|id| id.into_owned());
        self.note_usage(message.get_some("usage"));
        if std::mem::replace(&mut self.line.begun, true) {
            return Ok(());
        }
        let mut edits = Splices::default();
        edits.remove_members(message, |name| name == "toolmark");
        // How it ends is said, and judged, at its end.
        let early = ["stop_details", "error"].into_iter().filter_map(|name| message.get_some(name));
        early.for_each(|value| edits.replace(value.span(), "null"));
        let mut added = String::new();
        if message.get("content").is_none() {
            added.push_str(r#","content":[]"#);
        }
        if message.get_some("usage").is_none() {
            added.push_str(r#","usage":{"input_tokens":0,"output_tokens":0}"#);
        }
        if !added.is_empty() {
            // INVARIANT: a message has members, or is refused by clients in any case.
            let comma = if message.members().next().is_some() { 0 } else { 1 };
            edits.insert(message.span().end - 1, added.get(comma..).unwrap_or_default());
        }
        frame(out, "message_start", &edits.apply(document.bytes()));
        Ok(())
    }

    /// Judges what a refusal says. It leaves with the end.
    fn hear_explanation(&mut self, explanation: Option<Value<'_>>) {
        self.runs.retain(|run| !run.is_explanation);
        let Some(text) = explanation.and_then(Value::text).filter(|text| !text.is_empty()) else { return };
        self.end_run();
        let mut run = TextRun::default();
        run.is_explanation = true;
        run.feed(&text, &self.context);
        run.close(&self.context);
        self.runs.push(run);
    }

    /// Takes the numbers of an event: later ones replace earlier ones.
    fn note_usage(&mut self, usage: Option<Value<'_>>) {
        let Some(Ok(Json::Object(more))) = usage.map(|usage| serde_json::from_str(usage.raw_str())) else { return };
        match &mut self.usage {
            Some(Json::Object(own)) => own.extend(more.into_iter().filter(|(_, value)| !value.is_null())),
            _ => self.usage = Some(Json::Object(more)),
        }
        self.usage_text = self.usage.as_ref().map(Json::to_string);
    }

    /// Holds a step whose text may become calls, or handles it.
    fn promote(&mut self, step: Step) -> Result<(), Fault> {
        if !self.promoter.open {
            return self.step(step);
        }
        let piece = match &step {
            Step::Start(document) => {
                let block = document.root().get("content_block");
                match block.map_or(BlockKind::Other, kind_of) {
                    BlockKind::Thinking if self.promoter.steps.is_empty() => return self.step(step),
                    BlockKind::Text => block.and_then(|block| block.get("text")).and_then(Value::text).unwrap_or_default().into_owned(),
                    _ => {
                        self.release_steps()?;
                        return self.step(step);
                    }
                }
            }
            _ if self.promoter.steps.is_empty() => return self.step(step),
            Step::Delta(document) => {
                document.root().get("delta").and_then(|delta| delta.get("text")).and_then(Value::text).unwrap_or_default().into_owned()
            }
            Step::Stop => String::new(),
        };
        self.promoter.text.push(&piece);
        self.queued_bytes += piece.len();
        self.promoter.steps.push(step);
        self.decide_promotion(TextInput::Partial)
    }

    /// Decides whether the held text is calls. `input`: may more text follow?
    fn decide_promotion(&mut self, input: TextInput) -> Result<(), Fault> {
        if !self.promoter.open || self.promoter.steps.is_empty() || (input == TextInput::Partial && self.promoter.text.is_empty()) {
            return Ok(());
        }
        let cut = super::blocks::finish_of(self.stop_reason.as_deref()) != FinishReason::Complete;
        match (self.promoter.text.read(&self.context, input), input) {
            (Promotion::Calls(calls), TextInput::Complete) if !cut => {
                self.promoter.open = false;
                self.promoter.steps.clear();
                self.promoter.tools = calls.iter().map(|call| call.tool.clone()).collect();
                calls.iter().enumerate().for_each(|(at, call)| self.add_promoted(at, call));
                self.stop_reason = Some("tool_use".to_owned());
                Ok(())
            }
            (Promotion::More, TextInput::Partial) => Ok(()),
            _ => self.release_steps(),
        }
    }

    fn release_steps(&mut self) -> Result<(), Fault> {
        self.promoter.open = false;
        std::mem::take(&mut self.promoter.steps).into_iter().try_for_each(|step| self.step(step))
    }

    fn add_promoted(&mut self, at: usize, call: &Promoted) {
        let block = format!(r#"{{"type":"tool_use","id":"toolu_{at}","name":{},"input":{{}}}}"#, quote(&call.tool));
        let start = format!(r#"{{"type":"content_block_start","index":{at},"content_block":{block}}}"#);
        let Ok(start) = Document::parse(start.into()) else { return };
        let made = StreamedCall { json: call.arguments.clone(), ..StreamedCall::new(&start) };
        self.hold_call(start, made);
    }

    fn hold_call(&mut self, start: Document, call: StreamedCall) {
        self.calls.push(call);
        self.kinds.push(BlockKind::Call);
        let at = self.calls.len() - 1;
        if let Some(said) = &mut self.said {
            said.push(SaidBlock::Call(at));
        }
        self.queue.push_back(HeldBlock { call: at, ..HeldBlock::new(BlockKind::Call, start) });
    }

    /// Handles a step of the block that is open.
    fn step(&mut self, step: Step) -> Result<(), Fault> {
        match step {
            Step::Start(document) => self.start_block(document),
            Step::Delta(document) => self.delta(document),
            Step::Stop => {
                if let Some(block) = self.queue.back_mut() {
                    block.stopped = true;
                }
                Ok(())
            }
        }
    }

    fn start_block(&mut self, document: Document) -> Result<(), Fault> {
        let block = document.root().get("content_block").filter(|block| block.is_object() && !is_ambiguous(*block));
        let block = block.ok_or(Fault::Unknown("a block that is no object, or has two members of one name"))?;
        let kind = answer_kind(block, &self.context);
        if has_unseen_result(block) {
            self.context.evidence.note_unseen();
        }
        let goes_on = kind == BlockKind::Text && self.kinds.last() == Some(&BlockKind::Text);
        match self.runs.last_mut() {
            Some(run) if goes_on => self.alone.extend(run.end_block(&self.context)),
            _ => self.end_run(),
        }
        if kind == BlockKind::Call {
            let call = StreamedCall::new(&document);
            self.hold_call(document, call);
            return Ok(());
        }
        if kind == BlockKind::Text && !goes_on {
            if let Some(first) = self.runs.last_mut().filter(|_| self.across.is_none()) {
                self.across = Some(first.read_across(&self.context));
            }
            self.runs.push(TextRun::after(self.across.as_ref()));
        }
        let joiner = self.runs.last_mut().filter(|_| kind == BlockKind::Text).map(|run| &mut run.joiner);
        let text = joiner.zip(block.get("text")).and_then(|(joiner, text)| joiner.text(text)).map(Cow::into_owned);
        self.kinds.push(kind);
        self.keep(document.bytes().len());
        if let Some(said) = &mut self.said {
            said.push(SaidBlock::new(&document));
        }
        self.queued_bytes += document.bytes().len();
        self.queue.push_back(HeldBlock { run: self.runs.len().saturating_sub(1), ..HeldBlock::new(kind, document) });
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.hear(text, None);
        }
        Ok(())
    }

    /// Ends the last run.
    fn end_run(&mut self) {
        let Some(run) = self.runs.last_mut() else { return };
        if run.is_divided() {
            self.alone.extend(run.end_block(&self.context));
        }
        run.close(&self.context);
    }

    fn delta(&mut self, document: Document) -> Result<(), Fault> {
        let delta = document.root().get("delta").filter(|delta| delta.is_object() && !is_ambiguous(*delta));
        let delta = delta.ok_or(Fault::Unknown("a delta that is no object, or has two members of one name"))?;
        let kind = delta.get("type").and_then(Value::text).unwrap_or_default().into_owned();
        let misplaced = Fault::Unknown("a delta that doesn't belong to its block");
        let Some(block) = self.kinds.last().copied() else { return Err(misplaced) };
        match (block, &*kind) {
            (BlockKind::Text, "text_delta") => {
                let joiner = self.runs.last_mut().map(|run| &mut run.joiner);
                let text = joiner.zip(delta.get("text")).and_then(|(joiner, text)| joiner.text(text)).unwrap_or_default().into_owned();
                if !text.is_empty() {
                    self.hear(text, Some(HeldDelta::of(&document)));
                }
                Ok(())
            }
            (BlockKind::Call, "input_json_delta") => {
                let Some(call) = self.calls.last_mut() else { return Err(misplaced) };
                let piece = delta.get("partial_json").and_then(|piece| call.joiner.text(piece)).unwrap_or_default();
                if call.input.is_some() && !piece.is_empty() {
                    return Err(ShapeError::Ambiguous.into());
                }
                call.json.push_str(&piece);
                if call.json.len() > self.context.held_bytes_max {
                    return Err(Fault::Unknown("a call that is longer than `limits.held_bytes`"));
                }
                Ok(())
            }
            (BlockKind::Call, _) | (_, "text_delta") => Err(misplaced),
            (BlockKind::Text, "thinking_delta" | "signature_delta" | "input_json_delta") => Err(misplaced),
            (BlockKind::Text, "citations_delta") | (_, _) => {
                self.keep(document.bytes().len());
                if let Some(said) = self.said.as_mut().and_then(|said| said.last_mut()) {
                    said.take(delta, &kind);
                }
                // Of a kind that nobody knows, in a text: clients skip it, or fail.
                if block != BlockKind::Text || kind == "citations_delta" {
                    self.queue_event(HeldEvent { delta: Some(HeldDelta::of(&document)), text: None });
                }
                Ok(())
            }
        }
    }

    /// Feeds a piece of text to its gate. `delta`: what it came in; `None` if it stood in the start of its block.
    fn hear(&mut self, text: String, delta: Option<HeldDelta>) {
        let context = self.context.clone();
        let Some(run) = self.runs.last_mut() else { return };
        let start = run.fed;
        run.feed(&text, &context);
        if let Some(across) = &mut self.across {
            across.feed(&text, &context);
        }
        let respelled = run.joiner.respelled() && delta.is_some();
        let piece = TextPiece { start, end: run.fed, text, respelled };
        if self.keep_text && self.text.len() < context.held_bytes_max {
            self.text.push_str(&piece.text);
        }
        self.keep(piece.text.len());
        if let Some(SaidBlock::Raw { text: said, .. }) = self.said.as_mut().and_then(|said| said.last_mut()) {
            said.push_str(&piece.text);
        }
        self.queue_event(HeldEvent { delta, text: Some(piece) });
    }

    /// Counts what is kept of the turn, and gives it up where it is too much.
    fn keep(&mut self, bytes: usize) {
        if self.said.is_some() {
            self.said_bytes += bytes;
            if self.said_bytes > self.context.held_bytes_max {
                (self.said, self.said_bytes) = (None, 0);
            }
        }
    }

    fn queue_event(&mut self, event: HeldEvent) {
        if let Some(block) = self.queue.back_mut() {
            self.queued_bytes += event.held_bytes();
            block.events.push_back(event);
        }
    }

    /// Releases what is cleared, up to the first call.
    fn pump(&mut self, out: &mut BytesMut) {
        let context = self.context.clone();
        while let Some(block) = self.queue.front_mut() {
            match block.kind {
                BlockKind::Call | BlockKind::ToolsetCall => return,
                BlockKind::Text => {
                    if self.waits_for_call && self.calls.is_empty() {
                        return;
                    }
                    let Some(run) = self.runs.get_mut(block.run) else { return };
                    run.settle(&context);
                    if !block.pump_text((run, self.across.as_ref()), &mut self.line, &mut self.released, &mut self.queued_bytes, out) {
                        return;
                    }
                }
                BlockKind::Thinking | BlockKind::Hosted | BlockKind::Other => {
                    let drops = block.kind == BlockKind::Thinking && (self.drops_thinking || self.line.edited);
                    let has_left = match drops {
                        true => block.drop_events(&mut self.line, &mut self.queued_bytes, out),
                        false => block.pump_events(&mut self.line, &mut self.queued_bytes, out),
                    };
                    if !has_left {
                        return;
                    }
                }
            }
            self.queue.pop_front();
        }
    }

    /// Releases everything with these calls; returns the number of calls that left.
    fn leave(&mut self, calls: &[(ValidCall, MarkTime)], out: &mut BytesMut) -> usize {
        let context = self.context.clone();
        self.waits_for_call = false;
        let mut left = 0;
        loop {
            self.pump(out);
            let Some(mut block) = self.queue.pop_front() else { return left };
            block.stopped = true;
            match block.kind {
                BlockKind::Call => {
                    // What toolmark runs never leaves.
                    let Some((call, moment)) = calls.get(block.call).filter(|(call, _)| context.tools().runs(call.name()).is_none()) else {
                        continue;
                    };
                    left += 1;
                    let own = block.start.root().get("content_block").unwrap_or_else(|| block.start.root());
                    let mark = self.marked.mark(&context, own, call, *moment);
                    let json = own.raw_str();
                    let name = call.renamed().then(|| call.name());
                    self.line.start(&block.start, call_with(json, &mark, name, Some("{}")).as_deref(), out);
                    self.line.delta_made("input_json_delta", "partial_json", call.arguments(), out);
                    self.line.stop(out);
                }
                BlockKind::ToolsetCall => {
                    left += 1;
                    block.pump_events(&mut self.line, &mut self.queued_bytes, out);
                }
                // INVARIANT: nothing blocks, and no block is open: they have left.
                BlockKind::Text | BlockKind::Thinking | BlockKind::Hosted | BlockKind::Other => self.line.stop(out),
            }
        }
    }

    /// Says something in toolmark's own words.
    fn say(&mut self, text: &str, out: &mut BytesMut) {
        // What it says doesn't stand in a fence or element that the model had opened.
        let open = if self.released { self.runs.last().map(|run| run.gate.closing()).unwrap_or_default() } else { String::new() };
        self.line.gap = self.line.has_text;
        self.line.start_made(r#"{"type":"text","text":""}"#, out);
        let text = self.line.spaced(text.to_owned());
        self.line.delta_made("text_delta", "text", &format!("{open}{text}"), out);
    }

    fn write_end(&self, stop_reason: Option<&str>, details: Option<&str>, sum: Option<Json>, verdict: Option<&str>, out: &mut BytesMut) {
        let made = || Bytes::from_static(br#"{"type":"message_delta","delta":{"stop_reason":null,"stop_sequence":null}}"#);
        let event = self.ended.clone().unwrap_or_else(made);
        let document = Document::parse(event.clone()).ok();
        let delta = document.as_ref().and_then(|document| document.root().get("delta")).filter(|delta| delta.is_object());
        let mut changes: Vec<(&str, String)> = Vec::new();
        let own = delta.map_or("{\"stop_reason\":null}", Value::raw_str);
        let mut edited = Bytes::copy_from_slice(own.as_bytes());
        if let Some(reason) = stop_reason {
            edited = with_members(&edited, &[("stop_reason", reason)]);
        }
        let explanation = delta.and_then(|delta| explanation_of(delta.get("stop_details")));
        let run = self.runs.last().filter(|run| run.is_explanation && details.is_none());
        if let (Some(run), Some(own), Some(document)) = (run, explanation, &document) {
            let removals = run.removals_in(0, run.fed);
            if !removals.is_empty() {
                let mut text = own.text().unwrap_or_default().into_owned();
                removals.iter().rev().for_each(|removal| text.replace_range(removal.clone(), ""));
                let mut edits = Splices::default();
                edits.replace(own.span(), quote(&text));
                let whole = edits.apply(document.bytes());
                let delta = Document::parse(whole).ok().and_then(|whole| Some(whole.root().get("delta")?.raw_bytes()));
                edited = delta.map_or(edited.clone(), |delta| match stop_reason {
                    Some(reason) => with_members(&delta, &[("stop_reason", reason)]),
                    None => delta,
                });
            }
        }
        let says_details = delta.is_some_and(|delta| delta.get("stop_details").is_some());
        if let Some(details) = details.filter(|details| says_details || *details != "null") {
            edited = with_members(&edited, &[("stop_details", details)]);
        }
        if details.is_some() && delta.is_some_and(|delta| delta.get_some("stop_sequence").is_some()) {
            edited = with_members(&edited, &[("stop_sequence", "null")]);
        }
        if edited != own.as_bytes() || delta.is_none() {
            changes.push(("delta", String::from_utf8_lossy(&edited).into_owned()));
        }
        let has_usage = document.as_ref().is_some_and(|document| document.root().get_some("usage").is_some());
        match sum {
            Some(sum) => changes.push(("usage", sum.to_string())),
            None if !has_usage => {
                let own = self.usage_text.clone();
                changes.push(("usage", own.unwrap_or_else(|| r#"{"input_tokens":0,"output_tokens":0}"#.to_owned())));
            }
            None => {}
        }
        // Whatever the upstream says there isn't toolmark's.
        let said = document.as_ref().is_some_and(|document| document.root().get("toolmark").is_some());
        match verdict {
            Some(verdict) => changes.push(("toolmark", verdict.to_owned())),
            None if said => changes.push(("toolmark", "null".to_owned())),
            None => {}
        }
        let changes: Vec<(&str, &str)> = changes.iter().map(|(name, json)| (*name, json.as_str())).collect();
        frame(out, "message_delta", &with_members(&event, &changes));
    }
}

/// Template of a delta with text and nothing else, and the index of its block.
fn template_of(document: &Document) -> Option<(EventTemplate, u64)> {
    let delta = document.root().get("delta").filter(|delta| !is_ambiguous(*delta))?;
    let text = delta.get("text").filter(|text| text.is_string())?;
    let is_text = delta.get("type").is_some_and(|kind| kind.is_text("text_delta"));
    let index = document.root().get("index").and_then(Value::integer)?;
    is_text.then(|| Some((EventTemplate::new(document.bytes(), text.span(), None)?, index)))?
}
