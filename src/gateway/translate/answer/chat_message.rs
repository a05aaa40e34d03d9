//! Reads a chat message or delta: reasoning, texts and refusals; calls go to the assembler.
//!
//! Refuses the shapes that the chat adapter refuses, and content that no other API's answer can carry: anything unread
//! would be lost. Pure.

use std::borrow::Cow;

use crate::{
    chat::{
        assembler::{AssembleError, Assembler},
        places,
    },
    exchange::text::{
        place::{is_ambiguous, is_nothing, strings_of},
        places::{is_thought, refuse_calls_beside},
    },
    translate::answer::{PartKind, ReasoningSource, TranslateFault},
    wire::json::Value,
};

/// Source of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::translate) enum MessageKind {
    /// A buffered answer.
    Message,
    /// A stream event.
    Delta,
}

/// A non-empty text.
pub(in crate::translate) type TextPiece<'d> = (PartKind, Cow<'d, str>);

/// Contents of a message, in the order in which they are sent.
#[derive(Default)]
struct MessageParts<'d> {
    thoughts: Vec<TextPiece<'d>>,
    texts: Vec<TextPiece<'d>>,
    refusals: Vec<TextPiece<'d>>,
}

impl<'d> MessageParts<'d> {
    fn push(&mut self, kind: PartKind, value: Value<'d>) {
        let Some(text) = value.text().filter(|text| !text.is_empty()) else { return };
        let pieces = match kind {
            PartKind::Text => &mut self.texts,
            PartKind::Refusal => &mut self.refusals,
            PartKind::Reasoning(_) => &mut self.thoughts,
        };
        pieces.push((kind, text));
    }

    fn content(&mut self, content: Value<'d>) -> Result<(), TranslateFault> {
        if !content.is_array() {
            strings_of(content)?.into_iter().for_each(|text| self.push(PartKind::Text, text));
            return Ok(());
        }
        // This refuses the shapes that the chat adapter refuses.
        strings_of(content)?;
        content.items().try_for_each(|part| self.part(part))
    }

    fn part(&mut self, part: Value<'d>) -> Result<(), TranslateFault> {
        if part.is_string() {
            self.push(PartKind::Text, part);
            return Ok(());
        }
        let kind = part.get("type").and_then(Value::text).unwrap_or_default();
        if is_thought(&kind) {
            self.thinking(part);
            return Ok(());
        }
        // Images and sounds.
        if strings_of(part)?.is_empty() && !matches!(&*kind, "" | "text" | "output_text" | "refusal" | "reference") {
            return Err(TranslateFault::Unknown("a part of a content that a translated answer has no place for"));
        }
        for member in part.members() {
            match &*member.name() {
                "text" | "content" => self.push(PartKind::Text, member.value),
                "refusal" => self.push(PartKind::Refusal, member.value),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads reasoning parts of Mistral and Databricks.
    fn thinking(&mut self, part: Value<'d>) {
        const KIND: PartKind = PartKind::Reasoning(ReasoningSource::Thinking);
        for thoughts in ["thinking", "summary", "text", "content", "reasoning"].iter().filter_map(|name| part.get(name)) {
            self.push(KIND, thoughts);
            for thought in thoughts.items() {
                self.push(KIND, thought.get("text").unwrap_or(thought));
            }
        }
    }
}

/// Reads a message. `known` tells if a tool of this name exists.
///
/// # Errors
/// [`TranslateFault`] for content that would be lost.
pub(in crate::translate) fn read<'d>(
    message: Value<'d>,
    form: MessageKind,
    assembler: &mut Assembler,
    known: impl Fn(&str) -> bool,
) -> Result<Vec<TextPiece<'d>>, TranslateFault> {
    if is_ambiguous(message) {
        return Err(TranslateFault::Unknown("a message with two members of one name"));
    }
    let mut pieces = MessageParts::default();
    for member in message.members() {
        let value = member.value;
        match (&*member.name(), form) {
            ("content", _) => pieces.content(value)?,
            ("refusal", _) => strings_of(value)?.into_iter().for_each(|text| pieces.push(PartKind::Refusal, text)),
            ("audio", _) => silent(value)?,
            ("tool_calls", MessageKind::Message) => assembler.handle_whole(value)?,
            ("tool_calls", MessageKind::Delta) if !is_nothing(value) => assembler.handle(value, &known)?,
            ("function_call", _) if !is_nothing(value) => assembler.handle_legacy(value)?,
            ("tool_calls" | "function_call", _) => {}
            _ => {}
        }
    }
    refuse_calls_beside(message, &places::MESSAGE, None)?;
    let reasoning = message.get("reasoning_content").filter(|value| !is_nothing(*value));
    if let Some(reasoning) = reasoning {
        pieces.push(PartKind::Reasoning(ReasoningSource::ReasoningContent), reasoning);
    }
    // Some say the same under both names.
    if let Some(value) = message.get("reasoning").filter(|value| reasoning.is_none_or(|other| other.text() != value.text())) {
        pieces.push(PartKind::Reasoning(ReasoningSource::Reasoning), value);
    }
    let MessageParts { thoughts, texts, refusals } = pieces;
    Ok(thoughts.into_iter().chain(texts).chain(refusals).collect())
}

/// Refuses audio, which can't be translated. Some upstreams send an empty form of it with every answer.
fn silent(audio: Value<'_>) -> Result<(), TranslateFault> {
    if !(audio.is_object() || is_nothing(audio)) || is_ambiguous(audio) {
        return Err(AssembleError::Text.into());
    }
    let sounds = |name: &str| audio.get(name).is_some_and(|value| !is_nothing(value));
    if sounds("data") || sounds("transcript") {
        return Err(TranslateFault::Unknown("sound, which a translated answer has no place for"));
    }
    Ok(())
}
