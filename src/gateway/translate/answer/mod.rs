//! Translates answers, whole and streamed: one reader and one writer for each API, with these terms between them.
//!
//! ```text
//!  chat      ─▶ [`from_chat`], [`chat_message`] ─┐                                     ┌─▶ [`to_responses`]
//!                                                ├─▶ pieces of text, then [`AnswerEnd`] ─┼─▶ [`to_messages`]
//!  Messages  ─▶ [`from_messages`] ───────────────┘                                     └─▶ [`to_chat`]
//! ```
//! Texts leave at once; calls wait for the end, as only then it is known what they are. Whole answers take the same way without events,
//! so that both come to the same. Pure.

pub(super) mod chat_message;
pub(super) mod from_chat;
pub(super) mod from_messages;
pub mod stream;
mod to_chat;
mod to_messages;
pub(super) mod to_responses;
pub(super) mod usage;
mod writer;

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    Translation, UpstreamForm,
    request::{kind_is, names::chat_name, to_messages::CUSTOM_INPUT},
};
use crate::{
    chat::places,
    exchange::context::Context,
    judge::call::{Arguments, Call, CallKind},
    openai::Api,
    schema::suggest::nearly_same,
    wire::json::{Document, Kind, Value},
};
use chat_message::MessageKind;
use to_responses::ResponseEcho;
use usage::TokenUsage;
use writer::AnswerWriter;

pub use crate::exchange::error::Fault as TranslateFault;

/// Longest request for which an estimate of its tokens is made, in bytes per token: a rough mean over languages and code.
const BYTES_PER_TOKEN: usize = 4;

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

/// Member in which an upstream sends reasoning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::translate) enum ReasoningSource {
    /// `reasoning_content`
    ReasoningContent,
    /// `reasoning`
    Reasoning,
    /// Parts or blocks of kind `thinking`.
    Thinking,
}

/// Ending of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::translate) enum AnswerEnding {
    /// A normal end.
    Complete,
    /// Truncated at a length limit.
    Length,
    /// Ended by a content filter, or by the model's refusal to go on.
    Filter,
}

/// End of an answer: all but its texts.
pub(in crate::translate) struct AnswerEnd {
    /// Calls, under the names that the application knows.
    pub calls: Vec<Call>,
    /// Ending of the answer.
    pub ending: AnswerEnding,
    /// Tokens used.
    pub usage: Option<TokenUsage>,
    /// Model, as in the answer.
    pub model: Option<String>,
}

/// Data that a translated answer takes from the request, and its identity.
#[derive(Clone, Debug)]
pub struct Origin {
    translation: Translation,
    /// 32 hex digits, unique to this attempt.
    pub(super) id: String,
    /// Unix seconds.
    pub(super) created_at: u64,
    /// Model asked for.
    pub(super) model: String,
    /// Tools of the request, by the names under which the upstream knows them.
    tools: HashMap<String, RequestedTool>,
    /// Members of a response object that are the same in every answer to the request.
    pub(super) echo: ResponseEcho,
    /// The request asks for thinking, or for usage at the end of a stream.
    pub(super) extras: RequestedExtras,
    /// Estimate of the request's tokens.
    pub(super) input_tokens: usize,
}

/// A tool as the application knows it.
#[derive(Clone, Debug)]
struct RequestedTool {
    name: String,
    kind: CallKind,
}

/// Parts of an answer that leave only if the request asks for them.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::translate) struct RequestedExtras {
    /// Thinking blocks of a Messages answer.
    pub thinking: bool,
    /// The chunk with the usage of a chat stream.
    pub usage: bool,
}

impl Origin {
    /// `document`: the application's request; `id`: 32 hex digits, unique to this attempt; `created_at`: Unix seconds.
    pub fn new(translation: Translation, document: &Document, id: String, created_at: u64) -> Self {
        let root = document.root();
        let tools = tools_of(root, translation.upstream);
        let thinking = root.get_some("thinking").and_then(|thinking| thinking.get("type"));
        let usage = root.get_some("stream_options").and_then(|options| options.get("include_usage"));
        let echo = if translation.downstream == Api::Responses { ResponseEcho::of(root) } else { ResponseEcho::default() };
        Self {
            translation,
            id,
            created_at,
            model: root.get("model").and_then(Value::text).unwrap_or_default().into_owned(),
            tools: tools.collect(),
            echo,
            extras: RequestedExtras {
                thinking: thinking.is_some_and(|kind| !kind.is_text("disabled")),
                usage: usage.is_some_and(|usage| usage.kind() == Kind::True),
            },
            input_tokens: document.bytes().len() / BYTES_PER_TOKEN,
        }
    }

    /// The same, with the tools that `body` offers, too: the request as it is sent, which may have tools of toolmark's own.
    #[must_use]
    pub fn offering(mut self, body: &Bytes) -> Self {
        // Only long names are known by others.
        if let Ok(document) = Document::parse(body.clone()) {
            self.tools.extend(tools_of(document.root(), self.translation.upstream));
        }
        self
    }

    /// True if the upstream knows a tool by this name.
    pub(super) fn knows(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// The call as the application knows its tool: by its name and kind. A call of a custom tool without its text stays as it came, so that
    /// the judge sees it.
    pub(super) fn restored(&self, call: Call, ending: AnswerEnding) -> Call {
        let tool = self.tools.get(&call.name);
        let call = tool.map_or(call.clone(), |tool| Call { name: tool.name.clone(), ..call });
        if self.translation.upstream == UpstreamForm::Chat || !self.is_custom(tool, &call.name) {
            return call;
        }
        match custom_text(&call.arguments) {
            Some(text) => Call { kind: CallKind::Custom, arguments: Arguments::Text(text), ..call },
            // It was cut off: no text is whole.
            None if ending != AnswerEnding::Complete => Call { kind: CallKind::Custom, ..call },
            None => call,
        }
    }

    /// Whether a call is one of a custom tool: of this one, or of one that the judge may take it for.
    fn is_custom(&self, tool: Option<&RequestedTool>, name: &str) -> bool {
        match tool {
            Some(tool) => tool.kind == CallKind::Custom,
            None => self.tools.values().any(|tool| tool.kind == CallKind::Custom && nearly_same(name, &tool.name)),
        }
    }
}

/// Text of a call of a custom tool at an upstream that has only arguments.
fn custom_text(arguments: &Arguments) -> Option<String> {
    let (Arguments::Text(text) | Arguments::Object(text)) = arguments else { return None };
    let document = Document::parse(Bytes::copy_from_slice(text.as_bytes())).ok()?;
    let root = document.root();
    let text = root.get(CUSTOM_INPUT).filter(|_| root.members().count() == 1)?.text()?;
    Some(text.into_owned())
}

/// Tools of a request by the name by which the upstream knows each.
fn tools_of(root: Value<'_>, upstream: UpstreamForm) -> impl Iterator<Item = (String, RequestedTool)> {
    root.get("tools").into_iter().flat_map(Value::items).filter_map(move |tool| {
        let named = [Some(tool), tool.get("function"), tool.get("custom")];
        let name = named.into_iter().flatten().find_map(|own| own.get("name")?.text())?.into_owned();
        let upstream_name = match upstream {
            UpstreamForm::Chat => chat_name(&name).into_owned(),
            UpstreamForm::Messages => name.clone(),
        };
        let kind = if kind_is(tool, "custom") { CallKind::Custom } else { CallKind::Function };
        Some((upstream_name, RequestedTool { name, kind }))
    })
}

/// The application's answer for an upstream's whole answer: JSON.
///
/// # Errors
/// [`TranslateFault`] if it isn't an answer, or if the translation would lose something.
pub fn answer(body: &Bytes, origin: &Origin) -> Result<Bytes, TranslateFault> {
    let document = Document::parse(body.clone())?;
    let mut writer = AnswerWriter::new(origin, MessageKind::Message);
    let end = match origin.translation.upstream {
        UpstreamForm::Chat => from_chat::whole(document.root(), origin, &mut writer)?,
        UpstreamForm::Messages => from_messages::whole(document.root(), origin, &mut writer)?,
    };
    writer.end(&end, origin, &mut |_| {})?;
    Ok(writer.whole(&end, origin).into())
}

/// Like [`answer`]; also true if text outside the answer was left out that isn't a copy of it.
///
/// # Errors
/// As [`answer`].
pub fn watched(body: &Bytes, origin: &Origin, context: &Context) -> Result<(Bytes, bool), TranslateFault> {
    let translated = answer(body, origin)?;
    // What can't be translated was refused; only what is left out is of interest here.
    let stray = match origin.translation.upstream {
        UpstreamForm::Chat => places::swept(Document::parse(body.clone())?, context).is_ok_and(|(_, stray)| stray),
        // Every block is read, or the answer is refused.
        UpstreamForm::Messages => false,
    };
    Ok((translated, stray))
}

#[cfg(test)]
pub(super) mod messages_tests;
#[cfg(test)]
pub(super) mod tests;
