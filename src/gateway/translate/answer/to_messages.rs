//! Writes a Messages answer, whole or as events.
//!
//! ```text
//!  message_start ─▶ block open ─piece of another kind▶ closed, the next one opens ─end▶ closed, each call as a block, message_delta, message_stop
//! ```
//! Blocks stand strictly one after another, with indexes from 0; none is empty. A refusal is in
//! `stop_details`, as Anthropic's own. Reasoning becomes thinking with an
//! empty signature, as none can be given, and only where the request asks for thinking. Input that is no JSON object stands as a string,
//! so that the judge sees it as it came. Source: docs/wire-facts.md#messages-streams. Sans-IO.

use bytes::Bytes;

use super::{AnswerEnd, AnswerEnding, Origin, PartKind, TranslateFault, chat_message::MessageKind, usage::TokenUsage};
use crate::{
    judge::call::{Arguments, Call},
    wire::{
        json::{Document, string::quote},
        sse::SseEvent,
    },
};

/// Limit for all texts of one answer, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Limit for the blocks of text and thinking in one answer.
const BLOCKS_MAX: usize = 4096;

/// Kind of a block of text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TextBlock {
    Text,
    Thinking,
}

impl TextBlock {
    /// The block with this text, JSON.
    fn json(self, text: &str) -> String {
        let text = quote(text);
        match self {
            Self::Text => format!(r#"{{"type":"text","text":{text}}}"#),
            Self::Thinking => format!(r#"{{"type":"thinking","thinking":{text},"signature":""}}"#),
        }
    }

    /// The delta with this text, JSON.
    fn delta(self, text: &str) -> String {
        let text = quote(text);
        match self {
            Self::Text => format!(r#"{{"type":"text_delta","text":{text}}}"#),
            Self::Thinking => format!(r#"{{"type":"thinking_delta","thinking":{text}}}"#),
        }
    }
}

/// Blocks and events of one answer.
pub(super) struct MessageWriter {
    id: String,
    form: MessageKind,
    thinks: bool,
    /// The finished blocks, JSON.
    blocks: Vec<String>,
    open: Option<(TextBlock, String)>,
    refusal: String,
    bytes: usize,
}

impl MessageWriter {
    /// Events are written for deltas only.
    pub(super) fn new(origin: &Origin, form: MessageKind) -> Self {
        Self {
            id: origin.id.clone(),
            form,
            thinks: origin.extras.thinking,
            blocks: Vec::new(),
            open: None,
            refusal: String::new(),
            bytes: 0,
        }
    }

    /// Writes an event. `members`: JSON, without braces.
    fn emit(&self, kind: &str, members: &str, each: &mut dyn FnMut(SseEvent)) {
        if self.form == MessageKind::Message {
            return;
        }
        let comma = if members.is_empty() { "" } else { "," };
        let raw = Bytes::from(format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{comma}{members}}}\n\n"));
        let data = raw.slice("event: ".len() + kind.len() + "\ndata: ".len()..raw.len() - 2);
        each(SseEvent { raw, data: Some(data), name: Some(Bytes::copy_from_slice(kind.as_bytes())), plain: false });
    }

    /// Writes `message_start`. The number of input tokens is an estimate: the upstream says it at the end.
    pub(super) fn begin(&mut self, model: Option<&str>, origin: &Origin, each: &mut dyn FnMut(SseEvent)) {
        let usage = TokenUsage::of_input(origin.input_tokens).to_messages();
        let message = message(&self.id, model.unwrap_or(&origin.model), "[]", None, &usage);
        self.emit("message_start", &format!("\"message\":{message}"), each);
    }

    /// Adds a piece of text.
    ///
    /// # Errors
    /// [`TranslateFault::Unknown`] if the answer is too long.
    pub(super) fn piece(&mut self, kind: PartKind, text: &str, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        self.bytes += text.len();
        if self.bytes > TEXT_BYTES_MAX {
            return Err(TranslateFault::Unknown("more text than an answer may have"));
        }
        let kind = match kind {
            PartKind::Text => TextBlock::Text,
            PartKind::Refusal => {
                self.refusal.push_str(text);
                return Ok(());
            }
            PartKind::Reasoning(_) if self.thinks => TextBlock::Thinking,
            PartKind::Reasoning(_) => return Ok(()),
        };
        if self.open.as_ref().is_none_or(|(own, _)| *own != kind) {
            self.close(each);
            if self.blocks.len() >= BLOCKS_MAX {
                return Err(TranslateFault::Unknown("more turns between thought and text than an answer may have"));
            }
            self.open = Some((kind, String::new()));
            self.emit("content_block_start", &format!("\"index\":{},\"content_block\":{}", self.blocks.len(), kind.json("")), each);
        }
        if let Some((_, own)) = &mut self.open {
            own.push_str(text);
        }
        self.emit("content_block_delta", &format!("\"index\":{},\"delta\":{}", self.blocks.len(), kind.delta(text)), each);
        Ok(())
    }

    fn close(&mut self, each: &mut dyn FnMut(SseEvent)) {
        let Some((kind, text)) = self.open.take() else { return };
        self.emit("content_block_stop", &format!("\"index\":{}", self.blocks.len()), each);
        self.blocks.push(kind.json(&text));
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// None so far; as the other writers have it.
    pub(super) fn end(&mut self, end: &AnswerEnd, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        self.close(each);
        for call in &end.calls {
            self.call(call, each);
        }
        let usage = end.usage.as_ref().map_or_else(|| TokenUsage::default().to_messages(), TokenUsage::to_messages);
        let delta =
            format!(r#""delta":{{"stop_reason":"{}","stop_sequence":null{}}},"usage":{usage}"#, self.stop_reason(end), self.details());
        self.emit("message_delta", &delta, each);
        self.emit("message_stop", "", each);
        Ok(())
    }

    fn call(&mut self, call: &Call, each: &mut dyn FnMut(SseEvent)) {
        let index = self.blocks.len();
        let text = match &call.arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text,
            Arguments::Absent | Arguments::Null => "",
        };
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", self.id.get(..8).unwrap_or(&self.id)));
        let block = |input: &str| format!(r#"{{"type":"tool_use","id":{},"name":{}{input}}}"#, quote(&id), quote(&call.name));
        self.emit("content_block_start", &format!("\"index\":{index},\"content_block\":{}", block(",\"input\":{}")), each);
        let delta = format!(r#""index":{index},"delta":{{"type":"input_json_delta","partial_json":{}}}"#, quote(text));
        self.emit("content_block_delta", &delta, each);
        self.emit("content_block_stop", &format!("\"index\":{index}"), each);
        self.blocks.push(block(&input(text)));
    }

    /// The whole answer, JSON.
    pub(super) fn whole(&self, end: &AnswerEnd, origin: &Origin) -> String {
        let usage = end.usage.as_ref().map_or_else(|| TokenUsage::default().to_messages(), TokenUsage::to_messages);
        let content = format!("[{}]", self.blocks.join(","));
        message(&self.id, end.model.as_deref().unwrap_or(&origin.model), &content, Some((self.stop_reason(end), &self.details())), &usage)
    }

    fn stop_reason(&self, end: &AnswerEnd) -> &'static str {
        match end.ending {
            AnswerEnding::Length => "max_tokens",
            AnswerEnding::Filter => "refusal",
            AnswerEnding::Complete if !end.calls.is_empty() => "tool_use",
            AnswerEnding::Complete if !self.refusal.is_empty() => "refusal",
            AnswerEnding::Complete => "end_turn",
        }
    }

    /// `stop_details` with a comma in front; nothing without a refusal.
    fn details(&self) -> String {
        if self.refusal.is_empty() {
            return String::new();
        }
        format!(r#","stop_details":{{"type":"refusal","category":null,"explanation":{}}}"#, quote(&self.refusal))
    }
}

/// A message, JSON. `content`, `usage`: JSON; `stop`: `stop_reason`, and `stop_details` with a comma in front; `None` before the end.
fn message(id: &str, model: &str, content: &str, stop: Option<(&str, &str)>, usage: &str) -> String {
    let (reason, details) = stop.map_or_else(|| ("null".to_owned(), ""), |(reason, details)| (quote(reason), details));
    format!(
        r#"{{"id":"msg_{id}","type":"message","role":"assistant","model":{},"content":{content},"stop_reason":{reason},"stop_sequence":null{details},"usage":{usage}}}"#,
        quote(model)
    )
}

/// Input of a whole call, a member with a comma in front: an object as it is, anything else as a string; none where nothing came.
fn input(text: &str) -> String {
    match Document::parse(Bytes::copy_from_slice(text.as_bytes())) {
        _ if text.is_empty() => String::new(),
        Ok(document) if document.root().is_object() => format!(",\"input\":{}", document.root().raw_str()),
        _ => format!(",\"input\":{}", quote(text)),
    }
}
