//! Blocks of a stream that wait: for their text to be judged, for the calls before them, or for the end. Sans-IO.

use std::{collections::VecDeque, ops::Range};

use bytes::{Bytes, BytesMut};

use super::{PART_BYTES_MIN, line::Line};
use crate::{
    exchange::{context::Context, text::other_readings::IdReading, turn::SaidItem},
    judge::{
        call::{Arguments, Call, CallKind},
        text::TextGate,
    },
    messages::{
        blocks::{BlockKind, call_with},
        history::document,
    },
    wire::json::{
        Document, Value,
        splice::Splices,
        string::{StringJoiner, quote},
    },
};

/// A run of text blocks: no other block stands between them, and they are judged as one text.
#[derive(Default)]
pub struct TextRun {
    /// Gate of the text.
    pub gate: TextGate,
    /// Bytes that the gate was fed.
    pub fed: usize,
    /// Joins the strings that it comes in.
    pub joiner: StringJoiner,
    /// It is what a refusal says, not a block.
    pub is_explanation: bool,
    /// The text has ended.
    pub closed: bool,
    /// End of the text, as far as it is kept.
    tail: String,
    /// Start of the block that came last, in the run's text.
    block: usize,
    /// It has several blocks.
    divided: bool,
    /// Start of the first block that, read alone, makes a blocked claim.
    limit: Option<usize>,
    /// Place of the run's start in the text that is read across the runs.
    across: isize,
}

/// Bytes of a run's end that are kept at most.
const TAIL_BYTES_MAX: usize = 16 << 10;

impl TextRun {
    /// Ends the text. May be called again after the ledger was asked.
    pub fn close(&mut self, context: &Context) {
        if !self.closed || self.gate.cleared() < self.fed {
            context.close(&mut self.gate);
        }
        self.closed = true;
    }

    /// Receives a piece of the text.
    pub fn feed(&mut self, text: &str, context: &Context) {
        self.fed += text.len();
        self.tail.push_str(text);
        if self.tail.len() > 2 * TAIL_BYTES_MAX {
            let cut = self.tail.floor_char_boundary(self.tail.len() - TAIL_BYTES_MAX);
            self.tail.drain(..cut);
        }
        context.feed(&mut self.gate, text);
    }

    /// Ends a block, with others in the run; returns the block read alone, if it may have ids.
    pub fn end_block(&mut self, context: &Context) -> Option<IdReading> {
        let start = self.block.max(self.fed - self.tail.len());
        let text = self.tail.get(self.tail.len() - (self.fed - start)..).unwrap_or_default();
        let reading = TextGate::may_find_ids(text, &context.text).then(|| {
            let mut reading = IdReading::of(text, context);
            reading.close(context);
            reading
        });
        let blocked = reading.as_ref().and_then(|reading| reading.gate().blocked());
        self.limit = self.limit.or(blocked.map(|at| start + at));
        self.block = self.fed;
        self.divided = true;
        reading
    }

    /// True if the run has several blocks, of which the last hasn't ended.
    pub fn is_divided(&self) -> bool {
        self.divided && self.block < self.fed
    }

    /// The reading across runs that begins with this one, which is closed.
    pub fn read_across(&mut self, context: &Context) -> IdReading {
        self.across = self.tail.len() as isize - self.fed as isize;
        IdReading::of(&self.tail, context)
    }

    /// A run that continues a text across runs.
    pub fn after(across: Option<&IdReading>) -> Self {
        Self { across: across.map_or(0, |reading| reading.fed as isize), ..Self::default() }
    }

    /// End of what may leave, in the run's text. `across`: the text across runs, in which an id may go on.
    pub fn cleared(&self, across: Option<&IdReading>) -> usize {
        let own = self.gate.cleared().min(self.limit.unwrap_or(usize::MAX));
        match across.filter(|reading| !(self.is_explanation || self.closed && reading.may_pause())) {
            Some(reading) => own.min((reading.gate().cleared() as isize - self.across).max(0) as usize),
            None => own,
        }
    }

    /// True if nothing more of the text may leave.
    fn is_blocked(&self, across: Option<&IdReading>) -> bool {
        self.limit.is_some() || self.gate.blocked().is_some() || across.is_some_and(|reading| reading.gate().blocked().is_some())
    }

    /// Goes on with a text that has ended and waited for the ledger.
    pub fn settle(&mut self, context: &Context) {
        if self.closed && self.gate.blocked().is_none() && self.gate.cleared() < self.fed {
            context.close(&mut self.gate);
        }
    }

    /// Bytes to take out between two places.
    pub fn removals_in(&self, start: usize, end: usize) -> Vec<Range<usize>> {
        let inside = self.gate.removals().map(|own| own.start.clamp(start, end)..own.end.clamp(start, end));
        inside.filter(|own| own.start < own.end).collect()
    }
}

/// A piece of a run's text.
pub struct TextPiece {
    /// Start in the run's text.
    pub start: usize,
    /// End in the run's text.
    pub end: usize,
    /// The piece itself.
    pub text: String,
    /// It isn't what the delta says by itself.
    pub respelled: bool,
}

/// A delta as the upstream sent it.
pub struct HeldDelta {
    /// Its JSON.
    pub data: Bytes,
    /// Index of its block there.
    pub index: Option<u64>,
}

impl HeldDelta {
    /// The delta that the document is.
    pub fn of(document: &Document) -> Self {
        Self { data: document.bytes().clone(), index: document.root().get("index").and_then(Value::integer) }
    }
}

/// An event of a block.
pub struct HeldEvent {
    /// The delta; `None` for text that stood elsewhere, or was sent in part.
    pub delta: Option<HeldDelta>,
    /// Its text, in a text block.
    pub text: Option<TextPiece>,
}

impl HeldEvent {
    /// Memory held by the event, in bytes.
    pub fn held_bytes(&self) -> usize {
        let delta = self.delta.as_ref().map_or(0, |delta| delta.data.len());
        size_of::<Self>() + delta + self.text.as_ref().map_or(0, |piece| piece.end - piece.start)
    }
}

/// A block that hasn't left.
pub struct HeldBlock {
    pub kind: BlockKind,
    /// `content_block_start`
    pub start: Document,
    pub events: VecDeque<HeldEvent>,
    /// Index of its text in the runs.
    pub run: usize,
    /// Index of its call in the calls.
    pub call: usize,
    pub stopped: bool,
    /// Its start was sent.
    pub begun: bool,
    /// Deltas before its first text.
    pub before_text: Vec<HeldDelta>,
}

impl HeldBlock {
    /// A block that has just started.
    pub fn new(kind: BlockKind, start: Document) -> Self {
        Self { kind, start, events: VecDeque::new(), run: 0, call: 0, stopped: false, begun: false, before_text: Vec::new() }
    }

    /// Releases the cleared text; true if the block has left as a whole.
    pub fn pump_text(
        &mut self,
        (run, across): (&mut TextRun, Option<&IdReading>),
        line: &mut Line,
        released: &mut bool,
        queued: &mut usize,
        out: &mut BytesMut,
    ) -> bool {
        while let Some(mut event) = self.events.pop_front() {
            *queued = queued.saturating_sub(event.held_bytes());
            let Some(piece) = &mut event.text else {
                let Some(delta) = event.delta else { continue };
                if self.begun {
                    line.delta(&delta, out)
                } else {
                    self.before_text.push(delta)
                }
                continue;
            };
            let cleared = run.cleared(across).clamp(piece.start, piece.end);
            let part = cleared < piece.end;
            if part && (cleared == piece.start || (cleared - piece.start < PART_BYTES_MIN && !run.is_blocked(across))) {
                *queued += event.held_bytes();
                self.events.push_front(event);
                return false;
            }
            let removals = run.removals_in(piece.start, cleared);
            if let Some(delta) = event.delta.as_ref().filter(|_| !part && removals.is_empty() && !line.gap && !piece.respelled) {
                // As it came.
                self.begin(line, out);
                (*released, line.has_text) = (true, true);
                line.delta(delta, out);
                run.gate.forget_removals(cleared);
                continue;
            }
            line.edited |= !removals.is_empty();
            let (mut text, mut from) = (String::new(), piece.start);
            let slice = |from: usize, to: usize| piece.text.get(from - piece.start..to - piece.start).unwrap_or_default();
            for removal in &removals {
                text.push_str(slice(from, removal.start));
                from = removal.end;
            }
            text.push_str(slice(from, cleared));
            if !text.is_empty() {
                *released = true;
                self.begin(line, out);
                let text = line.spaced(text);
                line.delta_made("text_delta", "text", &text, out);
            }
            run.gate.forget_removals(cleared);
            if part {
                piece.text.drain(..cleared - piece.start);
                (piece.start, event.delta) = (cleared, None);
                *queued += event.held_bytes();
                self.events.push_front(event);
                return false;
            }
        }
        self.end(line, queued, out)
    }

    /// Releases the events of a block that isn't judged; true if the block has left as a whole.
    pub fn pump_events(&mut self, line: &mut Line, queued: &mut usize, out: &mut BytesMut) -> bool {
        if !self.begun {
            line.start(&self.start, None, out);
            self.begun = true;
        }
        while let Some(event) = self.events.pop_front() {
            *queued = queued.saturating_sub(event.held_bytes());
            if let Some(delta) = event.delta {
                line.delta(&delta, out);
            }
        }
        self.end(line, queued, out)
    }

    /// Drops the events of a block; true if the block has come to its end.
    pub fn drop_events(&mut self, line: &mut Line, queued: &mut usize, out: &mut BytesMut) -> bool {
        for event in self.events.drain(..) {
            *queued = queued.saturating_sub(event.held_bytes());
        }
        self.end(line, queued, out)
    }

    fn begin(&mut self, line: &mut Line, out: &mut BytesMut) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let block = self.start.root().get("content_block");
        let text = block.and_then(|block| block.get("text")).filter(|text| !text.is_text(""));
        let emptied = text.and_then(|text| {
            let (block, mut edits) = (block?, Splices::default());
            edits.replace(text.span(), "\"\"");
            let whole = edits.apply(self.start.bytes());
            let grown = self.start.bytes().len() - whole.len();
            whole.get(block.span().start..block.span().end - grown).map(|block| String::from_utf8_lossy(block).into_owned())
        });
        line.start(&self.start, emptied.as_deref(), out);
        self.before_text.drain(..).for_each(|delta| line.delta(&delta, out));
    }

    fn end(&mut self, line: &mut Line, queued: &mut usize, out: &mut BytesMut) -> bool {
        if self.stopped {
            *queued = queued.saturating_sub(self.start.bytes().len());
            if self.begun {
                line.stop(out);
            }
        }
        self.stopped
    }
}

/// A call of the answer, which is held until all is decided.
pub struct StreamedCall {
    /// Its id.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// Its block as it started, JSON.
    pub block: String,
    /// Input that stood in the start of its block, JSON.
    pub input: Option<String>,
    /// Its input so far.
    pub json: String,
    /// Joins the strings that it comes in.
    pub joiner: StringJoiner,
}

impl StreamedCall {
    /// A call that has just started.
    pub fn new(start: &Document) -> Self {
        let block = start.root().get("content_block").unwrap_or(start.root());
        let text = |name: &str| block.get(name).and_then(Value::text).map(|text| text.into_owned());
        let input = block.get_some("input").filter(|input| !input.is_object() || input.members().next().is_some());
        Self {
            id: text("id"),
            name: text("name").unwrap_or_default(),
            block: block.raw_str().to_owned(),
            input: input.map(|input| input.raw_str().to_owned()),
            json: String::new(),
            joiner: StringJoiner::default(),
        }
    }

    /// The call in the terms common to all APIs.
    pub fn call(&self) -> Call {
        let arguments = match (&self.input, self.json.is_empty()) {
            (Some(input), _) => Arguments::Text(input.clone()),
            (None, true) => Arguments::Absent,
            (None, false) => Arguments::Text(self.json.clone()),
        };
        Call { name: self.name.clone(), kind: CallKind::Function, arguments, id: self.id.clone() }
    }
}

/// A block of the turn as the model said it.
pub enum SaidBlock {
    /// Anything but a call: its start, its text or thinking, and what else its deltas say.
    Raw { block: String, text: String, json: String, signature: Option<String>, citations: Vec<String>, content: Option<String> },
    /// The call of this index.
    Call(usize),
}

impl SaidBlock {
    /// A block that has just started; its own text is among what is heard.
    pub fn new(start: &Document) -> Self {
        let block = start.root().get("content_block").unwrap_or(start.root());
        let thinking = block.get("thinking").and_then(Value::text).unwrap_or_default().into_owned();
        Self::Raw {
            block: block.raw_str().to_owned(),
            text: thinking,
            json: String::new(),
            signature: None,
            citations: Vec::new(),
            content: None,
        }
    }

    /// Takes a delta that isn't text.
    pub fn take(&mut self, delta: Value<'_>, kind: &str) {
        let Self::Raw { text, json, signature, citations, content, .. } = self else { return };
        let own = |name: &str| delta.get(name).and_then(Value::text).unwrap_or_default();
        match kind {
            "thinking_delta" => text.push_str(&own("thinking")),
            "signature_delta" => *signature = Some(own("signature").into_owned()),
            "input_json_delta" => json.push_str(&own("partial_json")),
            "citations_delta" => citations.extend(delta.get("citation").map(|citation| citation.raw_str().to_owned())),
            "compaction_delta" => *content = delta.get("content").map(|content| content.raw_str().to_owned()),
            _ => {}
        }
    }

    /// The block as an item of the turn.
    pub fn item(&self, calls: &[StreamedCall]) -> SaidItem {
        match self {
            Self::Call(at) => {
                let call = calls.get(*at);
                let input = call.map(|call| if call.json.is_empty() { "{}" } else { &*call.json }).filter(|json| document(json).is_some());
                let whole = call.map(|call| {
                    let kept = call.input.as_deref().or(input);
                    let id = call.id.as_deref().unwrap_or_default();
                    call_with(&call.block, id, None, kept).unwrap_or_else(|| call.block.clone())
                });
                SaidItem::Call(*at, whole.unwrap_or_default())
            }
            Self::Raw { block, text, json, signature, citations, content } => {
                let Some(started) = document(block) else { return SaidItem::Raw(block.clone()) };
                let (root, mut edits) = (started.root(), Splices::default());
                for name in ["text", "thinking"] {
                    if let Some(own) = root.get(name) {
                        edits.replace(own.span(), quote(text));
                    }
                }
                let mut set = |name: &str, value: String| match root.get(name) {
                    Some(own) => edits.replace(own.span(), value),
                    // INVARIANT: a block has a `type`.
                    None => edits.insert(root.span().end - 1, format!(",\"{name}\":{value}")),
                };
                if let Some(signature) = signature {
                    set("signature", quote(signature));
                }
                if !json.is_empty() && document(json).is_some() {
                    set("input", json.clone());
                }
                if !citations.is_empty() {
                    set("citations", format!("[{}]", citations.join(",")));
                }
                if let Some(content) = content {
                    set("content", content.clone());
                }
                let whole: Bytes = edits.apply(started.bytes());
                SaidItem::Raw(String::from_utf8_lossy(&whole).into_owned())
            }
        }
    }
}
