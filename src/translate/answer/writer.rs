//! Writes the output items of a Responses answer, and the events about them.
//!
//! ```text
//!  nothing open ─piece▶ item open, part open ─piece of another kind▶ done events, then the next part or item
//!        └──────────────────── end ────────────────────▶ the open item is done, then each call as a whole
//! ```
//! Whole answers take the same way, without events, so that both come to the same items.
//! Source: docs/wire-facts.md#responses-streams, and recorded streams of OpenAI and DeepSeek. Sans-IO.

use bytes::Bytes;

use super::message::MessageKind;
use crate::{
    chat::assembler::PartialCall,
    judge::call::{Arguments, CallKind},
    translate::answer::TranslateFault,
    wire::{json::string::quote, sse::SseEvent},
};

/// Limit for all texts of one answer, in bytes: the last event repeats them.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Limit for the items and parts of one answer, not counting calls.
const PARTS_MAX: usize = 4096;

/// Member in which a chat upstream sends reasoning. The item's id records it for later requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::translate) enum ReasoningSource {
    /// `reasoning_content`
    ReasoningContent,
    /// `reasoning`
    Reasoning,
    /// Parts of kind `thinking`.
    Thinking,
}

impl ReasoningSource {
    const ALL: [Self; 3] = [Self::ReasoningContent, Self::Reasoning, Self::Thinking];

    fn prefix(self) -> &'static str {
        match self {
            Self::ReasoningContent => "rs_c_",
            Self::Reasoning => "rs_r_",
            Self::Thinking => "rs_t_",
        }
    }
}

/// Source of a reasoning item, by its id; `None` if the item wasn't made here.
pub(in crate::translate) fn source_of_id(id: &str) -> Option<ReasoningSource> {
    ReasoningSource::ALL.into_iter().find(|source| id.starts_with(source.prefix()))
}

/// Kind of a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::translate) enum PartKind {
    /// Output text.
    Text,
    /// A refusal.
    Refusal,
    /// Reasoning.
    Reasoning(ReasoningSource),
}

impl PartKind {
    /// The part, JSON.
    fn part(self, text: &str) -> String {
        let text = quote(text);
        match self {
            Self::Text => format!(r#"{{"type":"output_text","text":{text},"annotations":[],"logprobs":[]}}"#),
            Self::Refusal => format!(r#"{{"type":"refusal","refusal":{text}}}"#),
            Self::Reasoning(_) => format!(r#"{{"type":"reasoning_text","text":{text}}}"#),
        }
    }

    /// Infix of its event names.
    fn event(self) -> &'static str {
        match self {
            Self::Text => "output_text",
            Self::Refusal => "refusal",
            Self::Reasoning(_) => "reasoning_text",
        }
    }
}

/// Ending of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::translate) enum AnswerEnding {
    /// A normal end.
    Complete,
    /// Truncated, for this reason.
    Cut(&'static str),
}

impl AnswerEnding {
    pub(in crate::translate) fn status(self) -> &'static str {
        match self {
            Self::Complete => "completed",
            Self::Cut(_) => "incomplete",
        }
    }
}

/// The item that is being written.
struct OpenItem {
    /// Kind of the part that is being written.
    kind: PartKind,
    text: String,
    /// The finished parts, JSON.
    parts: Vec<String>,
}

/// Output items and events of one answer.
pub(in crate::translate) struct ResponseWriter {
    id: String,
    form: MessageKind,
    items: Vec<String>,
    open: Option<OpenItem>,
    sequence: u64,
    bytes: usize,
    parts: usize,
}

impl ResponseWriter {
    /// `id`: that of the answer. Events are written for deltas only.
    pub(in crate::translate) fn new(id: &str, form: MessageKind) -> Self {
        Self { id: id.to_owned(), form, items: Vec::new(), open: None, sequence: 0, bytes: 0, parts: 0 }
    }

    /// The finished items, JSON.
    pub(in crate::translate) fn items(&self) -> String {
        format!("[{}]", self.items.join(","))
    }

    /// Writes an event. `members`: JSON, without braces.
    pub(in crate::translate) fn emit(&mut self, kind: &str, members: &str, each: &mut dyn FnMut(SseEvent)) {
        if self.form == MessageKind::Message {
            return;
        }
        let raw = format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{},{members}}}\n\n", self.sequence);
        self.sequence += 1;
        let raw = Bytes::from(raw);
        let data = raw.slice("event: ".len() + kind.len() + "\ndata: ".len()..raw.len() - 2);
        each(SseEvent { raw, data: Some(data), name: Some(Bytes::copy_from_slice(kind.as_bytes())), plain: false });
    }

    /// Adds a piece of text.
    ///
    /// # Errors
    /// [`TranslateFault::Unknown`] if the answer is too long.
    pub(in crate::translate) fn piece(&mut self, kind: PartKind, text: &str, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        self.bytes += text.len();
        if self.bytes > TEXT_BYTES_MAX {
            return Err(TranslateFault::Unknown("more text than an answer may have"));
        }
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.parts += 1;
            if self.parts > PARTS_MAX {
                return Err(TranslateFault::Unknown("more turns between thought and text than an answer may have"));
            }
            self.turn_to(kind, each);
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
        }
        let logprobs = if kind == PartKind::Text { ",\"logprobs\":[]" } else { "" };
        let members = format!(r#"{},"delta":{}{logprobs}"#, self.place(), quote(text));
        self.emit(&format!("response.{}.delta", kind.event()), &members, each);
        Ok(())
    }

    /// Opens a part of this kind, in the open item if it belongs there.
    fn turn_to(&mut self, kind: PartKind, each: &mut dyn FnMut(SseEvent)) {
        let spoken = |kind| matches!(kind, PartKind::Text | PartKind::Refusal);
        if self.open.as_ref().is_some_and(|open| spoken(open.kind) && spoken(kind)) {
            self.close_part(each);
            if let Some(open) = &mut self.open {
                open.kind = kind;
            }
        } else {
            self.close(AnswerEnding::Complete, each);
            self.open = Some(OpenItem { kind, text: String::new(), parts: Vec::new() });
            let members = format!(r#""output_index":{},"item":{}"#, self.items.len(), self.item("in_progress"));
            self.emit("response.output_item.added", &members, each);
        }
        let members = format!(r#"{},"part":{}"#, self.place(), kind.part(""));
        self.emit("response.content_part.added", &members, each);
    }

    fn close_part(&mut self, each: &mut dyn FnMut(SseEvent)) {
        let place = self.place();
        let Some(open) = &mut self.open else { return };
        let (kind, text) = (open.kind, std::mem::take(&mut open.text));
        let part = kind.part(&text);
        let said = match kind {
            PartKind::Text => format!(r#""text":{},"logprobs":[]"#, quote(&text)),
            PartKind::Refusal => format!(r#""refusal":{}"#, quote(&text)),
            PartKind::Reasoning(_) => format!(r#""text":{}"#, quote(&text)),
        };
        open.parts.push(part.clone());
        self.emit(&format!("response.{}.done", kind.event()), &format!("{place},{said}"), each);
        self.emit("response.content_part.done", &format!(r#"{place},"part":{part}"#), each);
    }

    fn close(&mut self, ending: AnswerEnding, each: &mut dyn FnMut(SseEvent)) {
        if self.open.is_none() {
            return;
        }
        self.close_part(each);
        let item = self.item(ending.status());
        self.open = None;
        self.done(item, each);
    }

    fn done(&mut self, item: String, each: &mut dyn FnMut(SseEvent)) {
        self.emit("response.output_item.done", &format!(r#""output_index":{},"item":{item}"#, self.items.len()), each);
        self.items.push(item);
    }

    fn item_id(&self) -> String {
        let prefix = match &self.open {
            Some(OpenItem { kind: PartKind::Reasoning(source), .. }) => source.prefix(),
            _ => "msg_",
        };
        format!("{prefix}{}_{}", self.id, self.items.len())
    }

    /// Position of the open part, as members of an event.
    fn place(&self) -> String {
        let part = self.open.as_ref().map_or(0, |open| open.parts.len());
        format!(r#""item_id":"{}","output_index":{},"content_index":{part}"#, self.item_id(), self.items.len())
    }

    /// The open item with its finished parts, JSON.
    fn item(&self, status: &str) -> String {
        let (id, content) = (self.item_id(), self.open.as_ref().map(|open| open.parts.join(",")).unwrap_or_default());
        match &self.open {
            Some(OpenItem { kind: PartKind::Reasoning(_), .. }) => {
                format!(r#"{{"type":"reasoning","id":"{id}","summary":[],"content":[{content}]}}"#)
            }
            _ => format!(r#"{{"type":"message","id":"{id}","status":"{status}","role":"assistant","content":[{content}]}}"#),
        }
    }

    /// Ends the answer: finishes the open item and writes the calls. A truncation applies to the last item.
    ///
    /// # Errors
    /// [`TranslateFault::Unknown`] for a call that can't be written unchanged.
    pub(in crate::translate) fn end(
        &mut self,
        slots: &[PartialCall],
        ending: AnswerEnding,
        each: &mut dyn FnMut(SseEvent),
    ) -> Result<(), TranslateFault> {
        self.close(if slots.is_empty() { ending } else { AnswerEnding::Complete }, each);
        let last = slots.len().saturating_sub(1);
        slots.iter().enumerate().try_for_each(|(at, slot)| self.call(slot, if at == last { ending } else { AnswerEnding::Complete }, each))
    }

    fn call(&mut self, slot: &PartialCall, ending: AnswerEnding, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        let call = slot.call();
        let custom = call.kind == CallKind::Custom;
        let text = match call.arguments {
            _ if slot.too_long() => return Err(TranslateFault::Unknown("a call longer than `limits.held_bytes`")),
            Arguments::Text(text) => text,
            Arguments::Absent | Arguments::Null => String::new(),
            // As a text, this would be valid where it isn't.
            Arguments::Object(_) | Arguments::Other(_) if custom => {
                return Err(TranslateFault::Unknown("the input of a custom tool, and it is no string"));
            }
            Arguments::Object(text) | Arguments::Other(text) => text,
        };
        let at = self.items.len();
        let (kind, prefix, member, event) = if custom {
            ("custom_tool_call", "ctc_", "input", "response.custom_tool_call_input")
        } else {
            ("function_call", "fc_", "arguments", "response.function_call_arguments")
        };
        let item_id = format!("{prefix}{}_{at}", self.id);
        let call_id = call.id.unwrap_or_else(|| format!("call_{}_{at}", self.id.get(..8).unwrap_or(&self.id)));
        let (call_id, name, text) = (quote(&call_id), quote(&call.name), quote(&text));
        let item = |status: &str, text: &str| {
            format!(r#"{{"type":"{kind}","id":"{item_id}","call_id":{call_id},"name":{name},"{member}":{text},"status":"{status}"}}"#)
        };
        self.emit("response.output_item.added", &format!(r#""output_index":{at},"item":{}"#, item("in_progress", "\"\"")), each);
        let place = format!(r#""item_id":"{item_id}","output_index":{at}"#);
        self.emit(&format!("{event}.delta"), &format!(r#"{place},"delta":{text}"#), each);
        let mut done = place;
        if !custom {
            done.push_str(",\"name\":");
            done.push_str(&name);
        }
        self.emit(&format!("{event}.done"), &format!(r#"{done},"{member}":{text}"#), each);
        self.done(item(ending.status(), &text), each);
        Ok(())
    }
}
