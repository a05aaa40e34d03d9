//! Reads chat completions: checks what stands around the message, and the end of the answer.
//!
//! Source: OpenAI API reference, "The chat completion object"; docs/wire-facts.md#odd-answers-to-accept. Pure.

use super::{
    AnswerEnd, AnswerEnding, Origin, TranslateFault,
    chat_message::{self, MessageKind},
    usage::TokenUsage,
    writer::AnswerWriter,
};
use crate::{
    chat::{assembler::Assembler, places, stream::chunk::finish_of},
    exchange::text::{
        place::{is_ambiguous, is_nothing},
        places::refuse_calls_beside,
    },
    judge::call::turn::FinishReason as TurnEnding,
    openai::error::is_base_error,
    wire::json::Value,
};

/// Reads a whole answer; its texts go to `writer`.
///
/// # Errors
/// [`TranslateFault`] if it isn't a completion, or if something of it would be lost.
pub(super) fn whole(root: Value<'_>, origin: &Origin, writer: &mut AnswerWriter) -> Result<AnswerEnd, TranslateFault> {
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
    let mut assembler = Assembler::new(usize::MAX);
    for (kind, text) in chat_message::read(message, MessageKind::Message, &mut assembler, |name| origin.knows(name))? {
        writer.piece(kind, &text, &mut |_| {})?;
    }
    end(&assembler, finish_of(choice).as_deref(), usage_of(root), model_of(root), origin)
}

/// The end of the answer. `finish_reason`: `None` where there is none.
///
/// # Errors
/// [`TranslateFault::Unknown`] for an answer that failed, and for a call that was too long.
pub(super) fn end(
    assembler: &Assembler,
    finish_reason: Option<&str>,
    usage: Option<TokenUsage>,
    model: Option<String>,
    origin: &Origin,
) -> Result<AnswerEnd, TranslateFault> {
    if assembler.slots().iter().any(|slot| slot.too_long()) {
        return Err(TranslateFault::Unknown("a call longer than `limits.held_bytes`"));
    }
    let ending = ending(finish_reason)?;
    let calls = assembler.slots().iter().map(|slot| origin.restored(slot.call(), ending)).collect();
    Ok(AnswerEnd { calls, ending, usage, model })
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
    if root.get_some("error").is_some_and(|error| !error.is_text("")) || is_base_error(root) {
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
fn ending(finish_reason: Option<&str>) -> Result<AnswerEnding, TranslateFault> {
    match finish_reason.map_or(TurnEnding::Complete, TurnEnding::of_finish) {
        TurnEnding::Length => Ok(AnswerEnding::Length),
        TurnEnding::ContentFilter => Ok(AnswerEnding::Filter),
        TurnEnding::Broken => Err(TranslateFault::Unknown("by its `finish_reason`, it failed")),
        TurnEnding::Complete | TurnEnding::Refusal => Ok(AnswerEnding::Complete),
    }
}

/// Tokens used.
pub(super) fn usage_of(root: Value<'_>) -> Option<TokenUsage> {
    let usage = root.get_some("usage").or_else(|| root.get("x_groq")?.get_some("usage")).filter(|value| value.is_object());
    usage.map(TokenUsage::of_chat)
}

/// The answer's model; `None` if empty, as in Azure's first event.
pub(super) fn model_of(root: Value<'_>) -> Option<String> {
    root.get("model").and_then(Value::text).filter(|model| !model.is_empty()).map(Into::into)
}
