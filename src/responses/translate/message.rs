//! A chat message, or the delta of one, taken apart: what was thought, said and refused; calls go to the assembler.
//!
//! Refuses the shapes that the chat adapter refuses, and what a Responses answer has no place for: whatever
//! isn't read here would be lost. Pure.

use std::borrow::Cow;

use super::{
    answer::TranslateFault,
    output::{PartKind, Source},
};
use crate::{
    chat::{
        assemble::{AssembleError, Assembler},
        chunk::is_disguise,
    },
    exchange::texts::{is_ambiguous, is_nothing, strings_of},
    wire::json::Value,
};

/// Where it comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// Of a whole answer.
    Message,
    /// Of an event.
    Delta,
}

/// A text, never empty.
pub(super) type Piece<'d> = (PartKind, Cow<'d, str>);

/// What a message says, in the order in which it is to leave.
#[derive(Default)]
struct Pieces<'d> {
    thoughts: Vec<Piece<'d>>,
    texts: Vec<Piece<'d>>,
    refusals: Vec<Piece<'d>>,
}

impl<'d> Pieces<'d> {
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
        if content.is_string() {
            self.push(PartKind::Text, content);
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
        match part.get("type").and_then(Value::text).as_deref() {
            Some("thinking") => return self.thinking(part),
            // Mistral's, numbers only.
            Some("text" | "output_text" | "refusal" | "reference") => {}
            None if part.get_some("type").is_none() => {}
            _ => return Err(TranslateFault::Unknown("a part of a content that a Responses answer has no place for")),
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

    /// Mistral's thoughts.
    fn thinking(&mut self, part: Value<'d>) -> Result<(), TranslateFault> {
        const KIND: PartKind = PartKind::Reasoning(Source::Thinking);
        if ["text", "content", "refusal"].into_iter().any(|name| part.get(name).is_some_and(|value| !is_nothing(value))) {
            return Err(AssembleError::Text.into());
        }
        let Some(thoughts) = part.get("thinking") else { return Ok(()) };
        self.push(KIND, thoughts);
        for thought in thoughts.items() {
            self.push(KIND, thought.get("text").unwrap_or(thought));
        }
        Ok(())
    }
}

/// Takes a message apart. `known`: is there a tool of this name?
///
/// # Errors
/// [`TranslateFault`] for what would be lost.
pub(super) fn read<'d>(
    message: Value<'d>,
    form: Form,
    assembler: &mut Assembler,
    known: impl Fn(&str) -> bool,
) -> Result<Vec<Piece<'d>>, TranslateFault> {
    if is_ambiguous(message) {
        return Err(TranslateFault::Unknown("a message with two members of one name"));
    }
    let mut pieces = Pieces::default();
    for member in message.members() {
        let value = member.value;
        match (&*member.name(), form) {
            ("content", _) => pieces.content(value)?,
            ("refusal", _) => strings_of(value)?.into_iter().for_each(|text| pieces.push(PartKind::Refusal, text)),
            ("audio", _) => silent(value)?,
            ("tool_calls", Form::Message) => assembler.handle_whole(value)?,
            ("tool_calls", Form::Delta) if !is_nothing(value) => assembler.handle(value, &known)?,
            ("function_call", _) if !is_nothing(value) => assembler.handle_legacy(value)?,
            ("tool_calls" | "function_call", _) => {}
            (name, _) if is_disguise(name) && !is_nothing(value) => return Err(AssembleError::Text.into()),
            _ => {}
        }
    }
    let reasoning = message.get("reasoning_content").filter(|value| !is_nothing(*value));
    if let Some(reasoning) = reasoning {
        pieces.push(PartKind::Reasoning(Source::ReasoningContent), reasoning);
    }
    // Some say the same under both names.
    if let Some(value) = message.get("reasoning").filter(|value| reasoning.is_none_or(|other| other.text() != value.text())) {
        pieces.push(PartKind::Reasoning(Source::Reasoning), value);
    }
    let Pieces { thoughts, texts, refusals } = pieces;
    Ok(thoughts.into_iter().chain(texts).chain(refusals).collect())
}

/// Sound can't be carried; some upstreams send the empty form of it with every answer.
fn silent(audio: Value<'_>) -> Result<(), TranslateFault> {
    if !(audio.is_object() || is_nothing(audio)) || is_ambiguous(audio) {
        return Err(AssembleError::Text.into());
    }
    let sounds = |name: &str| audio.get(name).is_some_and(|value| !is_nothing(value));
    if sounds("data") || sounds("transcript") {
        return Err(TranslateFault::Unknown("sound, which a Responses answer has no place for"));
    }
    Ok(())
}
