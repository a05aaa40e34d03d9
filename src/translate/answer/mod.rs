//! Translates a chat completion to a response object; also parts shared with streams.
//!
//! Source: OpenAI API reference, "The response object"; docs/wire-facts.md#responses-answers. Pure.

pub(super) mod message;
pub mod stream;
pub(super) mod usage;
pub(super) mod writer;

use std::collections::HashSet;

use bytes::Bytes;

use super::request::push_member;
use crate::{
    chat::{assembler::Assembler, places, stream::chunk::finish_of},
    exchange::{
        context::Context,
        text::{
            place::{is_ambiguous, is_nothing},
            places::refuse_calls_beside,
        },
    },
    judge::call::turn::FinishReason as TurnEnding,
    wire::json::{Document, Value, string::quote},
};
use message::MessageKind;
use usage::usage;
use writer::{AnswerEnding, ResponseWriter};

pub use crate::exchange::error::Fault as TranslateFault;

/// Data that a translated answer takes from the request, and its identity.
#[derive(Clone, Debug)]
pub struct Origin {
    /// 32 hex digits, unique to this attempt.
    pub id: String,
    /// Unix seconds.
    pub created_at: u64,
    /// JSON.
    model: String,
    /// Members that are the same in every answer to the request, JSON.
    echo: String,
    tools: HashSet<String>,
}

impl Origin {
    /// `document`: the Responses request.
    pub fn new(document: &Document, id: String, created_at: u64) -> Self {
        let root = document.root();
        let own = |name: &str, default: &str| root.get_some(name).map_or_else(|| default.to_owned(), one_line);
        let mut echo = String::new();
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
            echo.push_str(&format!(",\"{name}\":{}", own(name, default)));
        }
        echo.push_str(&format!(",\"text\":{}", echoed_text(root)));
        echo.push_str(r#","previous_response_id":null,"store":false,"truncation":"disabled""#);
        let tools = root.get("tools").into_iter().flat_map(Value::items);
        let tools = tools.filter_map(|tool| Some(tool.get("name")?.text()?.into_owned())).collect();
        Self { id, created_at, model: own("model", "\"\""), echo, tools }
    }

    /// True if the request has a tool with this name.
    pub(super) fn knows(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    /// The response object. `ending`: `None` before the end; `output`, `usage`: JSON; `model`: as in the answer.
    pub(super) fn response(&self, ending: Option<AnswerEnding>, output: &str, usage: Option<&str>, model: Option<&str>) -> String {
        let details = match ending {
            Some(AnswerEnding::Cut(reason)) => format!(r#"{{"reason":"{reason}"}}"#),
            Some(AnswerEnding::Complete) | None => "null".to_owned(),
        };
        let status = ending.map_or("in_progress", AnswerEnding::status);
        let Self { id, created_at, echo, .. } = self;
        let (model, usage) = (model.map_or_else(|| self.model.clone(), quote), usage.unwrap_or("null"));
        format!(
            r#"{{"id":"resp_{id}","object":"response","created_at":{created_at},"status":"{status}","error":null,"incomplete_details":{details},"model":{model},"output":{output},"usage":{usage}{echo}}}"#
        )
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

/// The response object for a buffered chat completion: JSON.
///
/// # Errors
/// [`TranslateFault`] if it isn't a completion, or if the translation would lose something.
pub fn answer(body: &Bytes, origin: &Origin) -> Result<Bytes, TranslateFault> {
    let document = Document::parse(body.clone())?;
    let root = document.root();
    check_root(root)?;
    let Some(choices) = root.get("choices") else { return Err(choiceless(root)) };
    let mut choices = choices.items();
    let choice = choices.next().ok_or(TranslateFault::Unknown("no `choices`"))?;
    if choices.next().is_some() {
        return Err(TranslateFault::Unknown(SEVERAL));
    }
    check_choice(choice, &places::CHOICE, choice.get("message"))?;
    let message = choice.get("message").filter(|message| message.is_object());
    let message = message.ok_or(TranslateFault::Unknown("a choice without a message"))?;
    let (mut assembler, mut output) = (Assembler::new(usize::MAX), ResponseWriter::new(&origin.id, MessageKind::Message));
    for (kind, text) in message::read(message, MessageKind::Message, &mut assembler, |name| origin.knows(name))? {
        output.piece(kind, &text, &mut |_| {})?;
    }
    let ending = ending(finish_of(choice).as_deref())?;
    output.end(assembler.slots(), ending, &mut |_| {})?;
    let usage = usage_of(root);
    Ok(origin.response(Some(ending), &output.items(), usage.as_deref(), model_of(root).as_deref()).into())
}

/// Like [`answer`]; also true if text outside the answer was left out that isn't a copy of it.
///
/// # Errors
/// As [`answer`].
pub fn watched(body: &Bytes, origin: &Origin, context: &Context) -> Result<(Bytes, bool), TranslateFault> {
    let translated = answer(body, origin)?;
    // What can't be translated was refused; only what is left out is of interest here.
    let stray = places::swept(Document::parse(body.clone())?, context).is_ok_and(|(_, stray)| stray);
    Ok((translated, stray))
}

pub(super) const SEVERAL: &str = "several choices";

/// Refuses errors, and calls and texts outside the choices.
pub(super) fn check_root(root: Value<'_>) -> Result<(), TranslateFault> {
    let reported = |value: Value<'_>| Err(TranslateFault::Reported(value.raw_str().to_owned()));
    if root.items().next().is_some_and(|first| first.get_some("error").is_some()) {
        return reported(root);
    }
    if !root.is_object() {
        return Err(TranslateFault::Unknown("no JSON object"));
    }
    if is_ambiguous(root) {
        return Err(TranslateFault::Unknown("two members of one name"));
    }
    if root.get_some("error").is_some_and(|error| !error.is_text("")) {
        return reported(root);
    }
    if let Some(groq) = root.get("x_groq").filter(|groq| groq.get_some("error").is_some()) {
        return reported(groq);
    }
    // Only what is read is written: texts elsewhere are left out.
    refuse_calls_beside(root, &places::ROOT, None)?;
    match root.get("choices") {
        Some(choices) if !choices.is_array() && !choices.is_null() => Err(TranslateFault::Unknown("`choices` is no array")),
        _ => Ok(()),
    }
}

/// Error for an answer without `choices`.
fn choiceless(root: Value<'_>) -> TranslateFault {
    let error = root.get("object").is_some_and(|object| object.is_text("error"));
    if error || ["message", "detail"].into_iter().any(|name| root.get(name).is_some()) {
        TranslateFault::Reported(root.raw_str().to_owned())
    } else {
        TranslateFault::Unknown("no `choices`")
    }
}

/// Checks that this is the only choice, without an error, and without calls and texts outside its message. `own`: its
/// members that are read; `original`: a value that another member may repeat as a whole.
pub(super) fn check_choice(choice: Value<'_>, own: &[&str], original: Option<Value<'_>>) -> Result<(), TranslateFault> {
    if !choice.is_object() || is_ambiguous(choice) {
        return Err(TranslateFault::Unknown("a choice that is no object, or has two members of one name"));
    }
    if choice.get_some("index").is_some_and(|index| index.integer() != Some(0)) {
        return Err(TranslateFault::Unknown(SEVERAL));
    }
    // OpenRouter's place for what went wrong with its provider.
    if choice.get_some("error").is_some_and(|error| !is_nothing(error)) {
        return Err(TranslateFault::Reported(choice.raw_str().to_owned()));
    }
    Ok(refuse_calls_beside(choice, own, original)?)
}

/// Ending of the answer, by its `finish_reason`.
pub(super) fn ending(finish_reason: Option<&str>) -> Result<AnswerEnding, TranslateFault> {
    match finish_reason.map_or(TurnEnding::Complete, TurnEnding::of_finish) {
        TurnEnding::Length => Ok(AnswerEnding::Cut("max_output_tokens")),
        TurnEnding::ContentFilter => Ok(AnswerEnding::Cut("content_filter")),
        TurnEnding::Broken => Err(TranslateFault::Unknown("by its `finish_reason`, it failed")),
        TurnEnding::Complete | TurnEnding::Refusal => Ok(AnswerEnding::Complete),
    }
}

/// `usage` for the response object, JSON.
pub(super) fn usage_of(root: Value<'_>) -> Option<String> {
    root.get_some("usage").or_else(|| root.get("x_groq")?.get_some("usage")).filter(|value| value.is_object()).map(usage)
}

/// The answer's model; `None` if empty, as in Azure's first event.
pub(super) fn model_of(root: Value<'_>) -> Option<String> {
    root.get("model").and_then(Value::text).filter(|model| !model.is_empty()).map(Into::into)
}

#[cfg(test)]
pub(super) mod tests;
