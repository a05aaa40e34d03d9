//! Writes the output items of a Responses answer, and the events about them.
//!
//! ```text
//!  nothing open ─piece▶ item open, part open ─piece of another kind▶ done events, then the next part or item
//!        └──────────────────── end ────────────────────▶ the open item is done, then each call as a whole
//! ```
//! Whole answers take the same way, without events, so that both come to the same items.
//! Source: docs/wire-facts.md#responses-streams, and recorded streams of OpenAI and DeepSeek. Sans-IO.

use bytes::Bytes;

use super::{AnswerEnd, AnswerEnding, Origin, PartKind, ReasoningSource, TranslateFault, chat_message::MessageKind, usage::TokenUsage};
use crate::{
    judge::call::{Arguments, Call, CallKind},
    translate::request::push_member,
    wire::{
        json::{Value, string::quote},
        sse::SseEvent,
    },
};

/// Limit for all texts of one answer, in bytes: the last event repeats them.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Limit for the items and parts of one answer, not counting calls.
const PARTS_MAX: usize = 4096;

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

impl AnswerEnding {
    fn status(self) -> &'static str {
        match self {
            Self::Complete => "completed",
            Self::Length | Self::Filter => "incomplete",
        }
    }

    /// `incomplete_details`, JSON.
    fn details(self) -> &'static str {
        match self {
            Self::Complete => "null",
            Self::Length => r#"{"reason":"max_output_tokens"}"#,
            Self::Filter => r#"{"reason":"content_filter"}"#,
        }
    }
}

/// Members of a response object that are the same in every answer to a request, JSON.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct ResponseEcho {
    /// The model asked for, a string.
    model: String,
    /// The others, each with a comma in front.
    members: String,
}

impl ResponseEcho {
    /// `root`: the Responses request.
    pub(super) fn of(root: Value<'_>) -> Self {
        let own = |name: &str, default: &str| root.get_some(name).map_or_else(|| default.to_owned(), one_line);
        let mut members = String::new();
        for (name, default) in [
            ("instructions", "null"),
            ("max_output_tokens", "null"),
            ("parallel_tool_calls", "true"),
            ("reasoning", r#"{"effort":null,"summary":null}"#),
            ("temperature", "1.0"),
            ("tool_choice", "\"auto\""),
            ("tools", "[]"),
            ("top_p", "1.0"),
            ("user", "null"),
            ("metadata", "{}"),
        ] {
            members.push_str(&format!(",\"{name}\":{}", own(name, default)));
        }
        members.push_str(&format!(",\"text\":{}", echoed_text(root)));
        members.push_str(r#","previous_response_id":null,"store":false,"truncation":"disabled""#);
        Self { model: own("model", "\"\""), members }
    }
}

/// A value on one line, as events need it: in checked JSON, a break can only stand between tokens.
fn one_line(value: Value<'_>) -> String {
    value.raw_str().replace(['\n', '\r'], " ")
}

fn echoed_text(root: Value<'_>) -> String {
    let text = root.get_some("text");
    let mut out = String::from("{");
    let format = text.and_then(|text| text.get_some("format"));
    push_member(&mut out, "format", &format.map_or_else(|| r#"{"type":"text"}"#.to_owned(), one_line));
    if let Some(verbosity) = text.and_then(|text| text.get_some("verbosity")) {
        push_member(&mut out, "verbosity", &one_line(verbosity));
    }
    out.push('}');
    out
}

/// The response object. `end`: `None` before the end; `output`: JSON; `model`: as in the answer.
fn response(origin: &Origin, end: Option<&AnswerEnd>, output: &str, model: Option<&str>) -> String {
    let (status, details) = end.map_or(("in_progress", "null"), |end| (end.ending.status(), end.ending.details()));
    let Origin { id, created_at, echo, .. } = origin;
    let model = model.map_or_else(|| echo.model.clone(), quote);
    let usage = end.and_then(|end| end.usage.as_ref()).map_or_else(|| "null".to_owned(), TokenUsage::to_responses);
    let members = &echo.members;
    format!(
        r#"{{"id":"resp_{id}","object":"response","created_at":{created_at},"status":"{status}","error":null,"incomplete_details":{details},"model":{model},"output":{output},"usage":{usage}{members}}}"#
    )
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
pub(super) struct ResponseWriter {
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
    pub(super) fn new(id: &str, form: MessageKind) -> Self {
        Self { id: id.to_owned(), form, items: Vec::new(), open: None, sequence: 0, bytes: 0, parts: 0 }
    }

    /// The finished items, JSON.
    fn items(&self) -> String {
        format!("[{}]", self.items.join(","))
    }

    /// The response object of a whole answer, JSON.
    pub(super) fn whole(&self, end: &AnswerEnd, origin: &Origin) -> String {
        response(origin, Some(end), &self.items(), end.model.as_deref())
    }

    /// Writes the events that begin an answer.
    pub(super) fn begin(&mut self, model: Option<&str>, origin: &Origin, each: &mut dyn FnMut(SseEvent)) {
        let members = format!("\"response\":{}", response(origin, None, "[]", model));
        self.emit("response.created", &members, each);
        self.emit("response.in_progress", &members, each);
    }

    /// Writes an event. `members`: JSON, without braces.
    fn emit(&mut self, kind: &str, members: &str, each: &mut dyn FnMut(SseEvent)) {
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
    pub(super) fn piece(&mut self, kind: PartKind, text: &str, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
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

    /// Ends the answer: finishes the open item, writes the calls and the last event. A truncation applies to the last item.
    ///
    /// # Errors
    /// [`TranslateFault::Unknown`] for a call that can't be written unchanged.
    pub(super) fn end(&mut self, end: &AnswerEnd, origin: &Origin, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        let AnswerEnd { calls, ending, .. } = end;
        self.close(if calls.is_empty() { *ending } else { AnswerEnding::Complete }, each);
        let last = calls.len().saturating_sub(1);
        for (at, call) in calls.iter().enumerate() {
            self.call(call, if at == last { *ending } else { AnswerEnding::Complete }, each)?;
        }
        let members = format!("\"response\":{}", self.whole(end, origin));
        self.emit(&format!("response.{}", ending.status()), &members, each);
        Ok(())
    }

    fn call(&mut self, call: &Call, ending: AnswerEnding, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        let custom = call.kind == CallKind::Custom;
        let text = match &call.arguments {
            Arguments::Text(text) => text,
            Arguments::Absent | Arguments::Null => "",
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
        let call_id = call.id.clone().unwrap_or_else(|| format!("call_{}_{at}", self.id.get(..8).unwrap_or(&self.id)));
        let (call_id, name, text) = (quote(&call_id), quote(&call.name), quote(text));
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
