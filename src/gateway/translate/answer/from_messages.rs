//! Reads Messages answers: whole ones, and the events of a stream.
//!
//! Every block is read or the answer is refused: nothing that runs at Anthropic was asked for, so a block of another kind would be lost.
//! Left out: signatures and redacted thinking, citations, and events of unknown kinds. Source: docs/wire-facts.md#messages-streams. Sans-IO.

use std::{borrow::Cow, collections::HashMap};

use super::{AnswerEnd, AnswerEnding, Origin, PartKind, ReasoningSource, TranslateFault, usage::TokenUsage, writer::AnswerWriter};
use crate::{
    exchange::{
        error::{CALLS_MAX, ShapeError},
        text::place::is_ambiguous,
    },
    judge::call::{Arguments, Call, CallKind},
    wire::{
        json::{Document, Value},
        sse::SseEvent,
    },
};

/// Limit for the blocks of one answer.
const BLOCKS_MAX: usize = 4096;
/// Names of the counts in `usage`, and of the one inside its details.
const COUNTS: [&str; 4] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
const THINKING: PartKind = PartKind::Reasoning(ReasoningSource::Thinking);
const UNKNOWN_BLOCK: &str = "a block that a translated answer has no place for";

/// A call that is being read.
#[derive(Debug, Default)]
struct PartialUse {
    id: Option<String>,
    name: String,
    /// `input` of the block, JSON; `None` if it is an empty object, as in streams.
    input: Option<String>,
    /// The deltas, joined.
    text: String,
    /// The block has no `input` at all.
    absent: bool,
}

impl PartialUse {
    fn read(block: Value<'_>) -> Result<Self, TranslateFault> {
        let text =
            |name: &str| block.get_some(name).map(|value| value.text().ok_or(TranslateFault::Shape(ShapeError::Ambiguous))).transpose();
        let input = block.get_some("input");
        let given = input.map(|input| input.text().unwrap_or(Cow::Borrowed(input.raw_str())).into_owned());
        Ok(Self {
            id: text("id")?.map(Cow::into_owned).filter(|id| !id.is_empty()),
            name: text("name")?.unwrap_or_default().into_owned(),
            absent: given.is_none(),
            input: given.filter(|_| input.is_some_and(|input| !input.is_object() || input.members().next().is_some())),
            text: String::new(),
        })
    }

    fn call(self, ending: AnswerEnding) -> Call {
        let Self { id, name, input, text, absent } = self;
        let arguments = match input {
            Some(input) => Arguments::Text(input),
            // Of an answer that was cut off nobody knows whether there was more to come.
            None if text.is_empty() && (absent || ending != AnswerEnding::Complete) => Arguments::Absent,
            // A call without arguments has one empty delta, or none.
            None if text.is_empty() => Arguments::Text("{}".to_owned()),
            None => Arguments::Text(text),
        };
        Call { name, kind: CallKind::Function, arguments, id }
    }
}

/// Counts so far; later ones replace earlier ones.
#[derive(Debug, Default)]
struct CountedTokens(HashMap<String, u64>);

impl CountedTokens {
    fn read(&mut self, usage: Option<Value<'_>>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let details = usage.get("output_tokens_details");
        let all = COUNTS.into_iter().map(|name| (name, usage.get(name)));
        for (name, value) in all.chain([("thinking_tokens", details.and_then(|details| details.get("thinking_tokens")))]) {
            if let Some(count) = value.and_then(Value::integer) {
                self.0.insert(name.to_owned(), count);
            }
        }
    }

    fn usage(&self) -> Option<TokenUsage> {
        (!self.0.is_empty()).then(|| TokenUsage::of_messages(|name| self.0.get(name).copied()))
    }
}

fn model_of(message: Value<'_>) -> Option<String> {
    message.get("model").and_then(Value::text).filter(|model| !model.is_empty()).map(Into::into)
}

fn ending(stop_reason: Option<&str>) -> Result<AnswerEnding, TranslateFault> {
    match stop_reason {
        Some("max_tokens" | "model_context_window_exceeded") => Ok(AnswerEnding::Length),
        Some("refusal") => Ok(AnswerEnding::Filter),
        // It would have to be sent back as it is.
        Some("pause_turn" | "compaction") => {
            Err(TranslateFault::Unknown("an answer that is to be continued, which a translated one can't be"))
        }
        _ => Ok(AnswerEnding::Complete),
    }
}

/// Explanation of a refusal, if it has one.
fn explanation_of(details: Option<Value<'_>>) -> Result<Option<Cow<'_, str>>, TranslateFault> {
    match details.and_then(|details| details.get_some("explanation")) {
        Some(words) if !words.is_string() => Err(ShapeError::Text.into()),
        words => Ok(words.and_then(Value::text).filter(|words| !words.is_empty())),
    }
}

/// Refuses errors, and what is no message.
fn check_root(root: Value<'_>) -> Result<(), TranslateFault> {
    if !root.is_object() {
        return Err(TranslateFault::Unknown("no JSON object"));
    }
    if is_ambiguous(root) {
        return Err(TranslateFault::Unknown("two members of one name"));
    }
    if root.get("type").is_some_and(|kind| kind.is_text("error")) || root.get_some("error").is_some() {
        return Err(TranslateFault::Reported(root.raw_str().to_owned()));
    }
    Ok(())
}

/// Reads a whole answer; its texts go to `writer`.
///
/// # Errors
/// [`TranslateFault`] if it isn't a message, or if something of it would be lost.
pub(super) fn whole(root: Value<'_>, origin: &Origin, writer: &mut AnswerWriter) -> Result<AnswerEnd, TranslateFault> {
    check_root(root)?;
    let content = root.get("content").filter(|content| content.is_array()).ok_or(TranslateFault::Unknown("no `content`"))?;
    let reason = root.get("stop_reason").and_then(Value::text);
    let ending = ending(reason.as_deref())?;
    let count = content.items().count();
    let mut calls: Vec<PartialUse> = Vec::new();
    for (at, block) in content.items().enumerate() {
        match block_of(block)? {
            OpenBlock::Text(kind, text) => {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    writer.piece(kind, &text, &mut |_| {})?;
                }
            }
            OpenBlock::Call(mut call) if calls.len() < CALLS_MAX => {
                // The input of a call that was cut off is empty.
                let cut = ending != AnswerEnding::Complete && at + 1 == count;
                if !call.absent && !cut {
                    call.input.get_or_insert_with(|| "{}".to_owned());
                }
                calls.push(call);
            }
            OpenBlock::Call(_) => return Err(ShapeError::TooMany.into()),
            OpenBlock::Nothing => {}
        }
    }
    if let Some(words) = explanation_of(root.get("stop_details"))? {
        writer.piece(PartKind::Refusal, &words, &mut |_| {})?;
    }
    let mut counted = CountedTokens::default();
    counted.read(root.get("usage"));
    let calls = calls.into_iter().map(|call| origin.restored(call.call(ending), ending)).collect();
    Ok(AnswerEnd { calls, ending, usage: counted.usage(), model: model_of(root) })
}

/// Start of a block.
enum OpenBlock<'d> {
    Text(PartKind, Option<Cow<'d, str>>),
    Call(PartialUse),
    /// Redacted thinking.
    Nothing,
}

fn block_of(block: Value<'_>) -> Result<OpenBlock<'_>, TranslateFault> {
    if !block.is_object() || is_ambiguous(block) {
        return Err(TranslateFault::Unknown("a block that is no object, or has two members of one name"));
    }
    let text = |name: &str| match block.get_some(name) {
        Some(value) if !value.is_string() => Err(TranslateFault::Shape(ShapeError::Text)),
        value => Ok(value.and_then(Value::text)),
    };
    match block.get("type").and_then(Value::text).as_deref() {
        Some("text") => Ok(OpenBlock::Text(PartKind::Text, text("text")?)),
        Some("thinking") => Ok(OpenBlock::Text(THINKING, text("thinking")?)),
        Some("redacted_thinking") => Ok(OpenBlock::Nothing),
        Some("tool_use") => PartialUse::read(block).map(OpenBlock::Call),
        _ => Err(TranslateFault::Unknown(UNKNOWN_BLOCK)),
    }
}

/// Kind of a block whose deltas may follow.
#[derive(Clone, Copy, Debug)]
enum StreamedBlock {
    Text(PartKind),
    /// Index of the call.
    Call(usize),
    Nothing,
}

/// Reader of one stream.
pub(super) struct MessageStreamReader {
    begun: bool,
    blocks: HashMap<u64, StreamedBlock>,
    calls: Vec<PartialUse>,
    counted: CountedTokens,
    model: Option<String>,
    stop_reason: Option<String>,
    bytes_max: usize,
}

/// Effect of an event on the stream.
pub(super) enum EventEffect {
    /// The answer goes on.
    More,
    /// The answer is complete.
    Done,
}

impl MessageStreamReader {
    /// `bytes_max`: limit for one call's input, in bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            begun: false,
            blocks: HashMap::new(),
            calls: Vec::new(),
            counted: CountedTokens::default(),
            model: None,
            stop_reason: None,
            bytes_max,
        }
    }

    /// True if the stream may end here.
    pub(super) fn may_end(&self) -> bool {
        self.stop_reason.is_some()
    }

    /// Handles one event; its texts go to `writer`.
    ///
    /// # Errors
    /// [`TranslateFault`]: the stream must be aborted.
    pub(super) fn handle(
        &mut self,
        document: &Document,
        origin: &Origin,
        writer: &mut AnswerWriter,
        each: &mut dyn FnMut(SseEvent),
    ) -> Result<EventEffect, TranslateFault> {
        let root = document.root();
        check_root(root)?;
        let kind = root.get("type").and_then(Value::text).unwrap_or_default();
        match &*kind {
            "message_start" => {
                let message = root.get("message").filter(|message| message.is_object() && !is_ambiguous(*message));
                let message = message.ok_or(TranslateFault::Unknown("a message_start without a message"))?;
                if std::mem::replace(&mut self.begun, true) {
                    return Err(TranslateFault::Unknown("two answers in one stream"));
                }
                if message.get("content").is_some_and(|content| content.items().next().is_some()) {
                    return Err(TranslateFault::Unknown("a message_start with content"));
                }
                self.model = model_of(message);
                self.counted.read(message.get("usage"));
                writer.begin(self.model.as_deref(), origin, each);
            }
            "content_block_start" | "content_block_delta" | "content_block_stop" | "message_delta" if !self.begun => {
                return Err(TranslateFault::Unknown("a block or an end before the message_start"));
            }
            "content_block_start" => {
                let block = root.get("content_block").ok_or(TranslateFault::Unknown("a content_block_start without a block"))?;
                self.open(index_of(root)?, block, writer, each)?;
            }
            "content_block_delta" => {
                let delta = root.get("delta").filter(|delta| delta.is_object() && !is_ambiguous(*delta));
                self.delta(index_of(root)?, delta.ok_or(TranslateFault::Unknown("a content_block_delta without a delta"))?, writer, each)?;
            }
            "message_delta" => {
                let reason = root.get("delta").and_then(|delta| delta.get_some("stop_reason")).and_then(Value::text);
                self.stop_reason = reason.map(Into::into).or(self.stop_reason.take());
                if let Some(words) = explanation_of(root.get("delta").and_then(|delta| delta.get("stop_details")))? {
                    writer.piece(PartKind::Refusal, &words, each)?;
                }
                self.counted.read(root.get("usage"));
            }
            "message_stop" => return Ok(EventEffect::Done),
            _ => {}
        }
        Ok(EventEffect::More)
    }

    fn open(
        &mut self,
        index: u64,
        block: Value<'_>,
        writer: &mut AnswerWriter,
        each: &mut dyn FnMut(SseEvent),
    ) -> Result<(), TranslateFault> {
        let streamed = match block_of(block)? {
            OpenBlock::Text(kind, text) => {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    writer.piece(kind, &text, each)?;
                }
                StreamedBlock::Text(kind)
            }
            OpenBlock::Call(_) if self.calls.len() >= CALLS_MAX => return Err(ShapeError::TooMany.into()),
            OpenBlock::Call(call) => {
                self.calls.push(call);
                StreamedBlock::Call(self.calls.len() - 1)
            }
            OpenBlock::Nothing => StreamedBlock::Nothing,
        };
        if self.blocks.len() >= BLOCKS_MAX || self.blocks.insert(index, streamed).is_some() {
            return Err(TranslateFault::Unknown("too many blocks, or two of one index"));
        }
        Ok(())
    }

    fn delta(
        &mut self,
        index: u64,
        delta: Value<'_>,
        writer: &mut AnswerWriter,
        each: &mut dyn FnMut(SseEvent),
    ) -> Result<(), TranslateFault> {
        let block = *self.blocks.get(&index).ok_or(TranslateFault::Unknown("a delta without a block"))?;
        let kind = delta.get("type").and_then(Value::text).unwrap_or_default();
        let member = match (&*kind, block) {
            ("text_delta", StreamedBlock::Text(PartKind::Text)) => "text",
            ("thinking_delta", StreamedBlock::Text(PartKind::Reasoning(_))) => "thinking",
            ("input_json_delta", StreamedBlock::Call(_)) => "partial_json",
            ("signature_delta" | "citations_delta", _) => return Ok(()),
            _ => return Err(TranslateFault::Unknown("a delta that doesn't belong to its block")),
        };
        let text = delta.get(member).and_then(Value::text).ok_or(TranslateFault::Shape(ShapeError::Text))?;
        match block {
            _ if text.is_empty() => Ok(()),
            StreamedBlock::Text(kind) => writer.piece(kind, &text, each),
            StreamedBlock::Call(at) => match self.calls.get_mut(at) {
                Some(call) if call.input.is_some() => Err(TranslateFault::Shape(ShapeError::Ambiguous)),
                Some(call) if call.text.len() + text.len() > self.bytes_max => {
                    Err(TranslateFault::Unknown("a call longer than `limits.held_bytes`"))
                }
                Some(call) => {
                    call.text.push_str(&text);
                    Ok(())
                }
                None => Ok(()),
            },
            StreamedBlock::Nothing => Ok(()),
        }
    }

    /// The end of the answer.
    ///
    /// # Errors
    /// [`TranslateFault::Cut`] if nothing has come, [`TranslateFault::Unknown`] for an answer that is to be continued.
    pub(super) fn end(&mut self, origin: &Origin) -> Result<AnswerEnd, TranslateFault> {
        if !self.begun {
            return Err(TranslateFault::Cut);
        }
        let ending = ending(self.stop_reason.as_deref())?;
        let calls = std::mem::take(&mut self.calls).into_iter().map(|call| origin.restored(call.call(ending), ending)).collect();
        Ok(AnswerEnd { calls, ending, usage: self.counted.usage(), model: self.model.take() })
    }
}

fn index_of(root: Value<'_>) -> Result<u64, TranslateFault> {
    root.get("index").and_then(Value::integer).ok_or(TranslateFault::Unknown("a block without an index"))
}
