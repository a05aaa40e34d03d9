//! Writes a chat completion, whole or as chunks.
//!
//! Reasoning leaves as `reasoning_content`, which most clients read. Source: OpenAI API reference, "The chat completion object" and
//! "The chat completion chunk object"; docs/wire-facts.md#emission-rules. Sans-IO.

use bytes::Bytes;

use super::{AnswerEnd, AnswerEnding, Origin, PartKind, TranslateFault, chat_message::MessageKind};
use crate::{
    judge::call::{Arguments, Call, CallKind},
    translate::request::push_member,
    wire::{json::string::quote, sse::SseEvent},
};

/// Limit for all texts of one answer, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Message and chunks of one answer.
pub(super) struct ChatWriter {
    id: String,
    created_at: u64,
    model: String,
    form: MessageKind,
    /// The chunk with the usage is asked for.
    counts: bool,
    text: String,
    refusal: String,
    reasoning: String,
    bytes: usize,
}

impl ChatWriter {
    /// Events are written for deltas only.
    pub(super) fn new(origin: &Origin, form: MessageKind) -> Self {
        Self {
            id: origin.id.clone(),
            created_at: origin.created_at,
            model: origin.model.clone(),
            form,
            counts: origin.extras.usage,
            text: String::new(),
            refusal: String::new(),
            reasoning: String::new(),
            bytes: 0,
        }
    }

    /// Identity of the answer, members with a comma behind.
    fn identity(&self, object: &str) -> String {
        let Self { id, created_at, model, .. } = self;
        format!(r#""id":"chatcmpl-{id}","object":"{object}","created":{created_at},"model":{},"#, quote(model))
    }

    /// Writes a chunk. `rest`: its other members, JSON without braces.
    fn emit(&self, rest: &str, each: &mut dyn FnMut(SseEvent)) {
        if self.form == MessageKind::Delta {
            each(event(&format!("{{{}{rest}}}", self.identity("chat.completion.chunk"))));
        }
    }

    fn emit_delta(&self, delta: &str, finish: Option<&str>, each: &mut dyn FnMut(SseEvent)) {
        let finish = finish.map_or_else(|| "null".to_owned(), quote);
        self.emit(&format!(r#""choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]"#), each);
    }

    /// Writes the first chunk.
    pub(super) fn begin(&mut self, model: Option<&str>, each: &mut dyn FnMut(SseEvent)) {
        self.model = model.map_or_else(|| std::mem::take(&mut self.model), str::to_owned);
        self.emit_delta(r#"{"role":"assistant","content":""}"#, None, each);
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
        let (member, own) = match kind {
            PartKind::Text => ("content", &mut self.text),
            PartKind::Refusal => ("refusal", &mut self.refusal),
            PartKind::Reasoning(_) => ("reasoning_content", &mut self.reasoning),
        };
        if self.form == MessageKind::Message {
            own.push_str(text);
        }
        self.emit_delta(&format!(r#"{{"{member}":{}}}"#, quote(text)), None, each);
        Ok(())
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// None so far; as the other writers have it.
    pub(super) fn end(&mut self, end: &AnswerEnd, each: &mut dyn FnMut(SseEvent)) -> Result<(), TranslateFault> {
        for (at, call) in end.calls.iter().enumerate() {
            self.emit_delta(&format!(r#"{{"tool_calls":[{{"index":{at},{}}}]}}"#, self.call(at, call)), None, each);
        }
        self.emit_delta("{}", Some(finish_reason(end)), each);
        if let Some(usage) = end.usage.as_ref().filter(|_| self.counts) {
            self.emit(&format!(r#""choices":[],"usage":{}"#, usage.to_chat()), each);
        }
        if self.form == MessageKind::Delta {
            each(event("[DONE]"));
        }
        Ok(())
    }

    /// A call, members without braces.
    fn call(&self, at: usize, call: &Call) -> String {
        let text = match &call.arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text,
            Arguments::Absent | Arguments::Null => "",
        };
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{at}", self.id.get(..8).unwrap_or(&self.id)));
        let (kind, member) = if call.kind == CallKind::Custom { ("custom", "input") } else { ("function", "arguments") };
        let (id, name, text) = (quote(&id), quote(&call.name), quote(text));
        format!(r#""id":{id},"type":"{kind}","{kind}":{{"name":{name},"{member}":{text}}}"#)
    }

    /// The whole completion, JSON.
    pub(super) fn whole(&self, end: &AnswerEnd) -> String {
        let mut message = String::from(r#"{"role":"assistant""#);
        let content = if self.text.is_empty() && !end.calls.is_empty() { "null".to_owned() } else { quote(&self.text) };
        push_member(&mut message, "content", &content);
        push_member(&mut message, "refusal", &if self.refusal.is_empty() { "null".to_owned() } else { quote(&self.refusal) });
        if !self.reasoning.is_empty() {
            push_member(&mut message, "reasoning_content", &quote(&self.reasoning));
        }
        if !end.calls.is_empty() {
            let calls = end.calls.iter().enumerate().map(|(at, call)| format!("{{{}}}", self.call(at, call))).collect::<Vec<_>>();
            push_member(&mut message, "tool_calls", &format!("[{}]", calls.join(",")));
        }
        message.push('}');
        let usage = end.usage.as_ref().map(|usage| format!(",\"usage\":{}", usage.to_chat())).unwrap_or_default();
        let model = end.model.as_deref().unwrap_or(&self.model);
        let Self { id, created_at, .. } = self;
        format!(
            r#"{{"id":"chatcmpl-{id}","object":"chat.completion","created":{created_at},"model":{},"choices":[{{"index":0,"message":{message},"logprobs":null,"finish_reason":"{}"}}]{usage}}}"#,
            quote(model),
            finish_reason(end)
        )
    }
}

fn event(data: &str) -> SseEvent {
    let raw = Bytes::from(format!("data: {data}\n\n"));
    let data = raw.slice("data: ".len()..raw.len() - 2);
    SseEvent { plain: !crate::wire::sse::splits(&data), raw, data: Some(data), name: None }
}

fn finish_reason(end: &AnswerEnd) -> &'static str {
    match end.ending {
        AnswerEnding::Length => "length",
        AnswerEnding::Filter => "content_filter",
        AnswerEnding::Complete if end.calls.is_empty() => "stop",
        AnswerEnding::Complete => "tool_calls",
    }
}
