//! Places of a chat answer, buffered or one event of it, for the table of places ([`crate::exchange::text::places`]). Pure.

use std::borrow::Cow;

use crate::{
    chat::stream::chunk::{CALLS, delta_of},
    exchange::text::places::TextExtent,
    exchange::{
        context::Context,
        error::{Fault, ShapeError},
        text::{
            place::{PART_TEXTS, is_ambiguous, is_nothing},
            places::{self, Sweep, is_thought, joined, logprobs_of},
        },
    },
    wire::json::{Document, Value},
};

/// Members of an answer, or of an event, that are read.
pub const ROOT: [&str; 3] = ["choices", "error", "toolmark"];
/// Members of a choice of a buffered answer that are read.
pub const CHOICE: [&str; 2] = ["message", "logprobs"];
/// Members of a choice of an event that are read.
pub const CHOICE_OF_EVENT: [&str; 3] = ["delta", "message", "logprobs"];
/// Members of a message or a delta that are read.
pub const MESSAGE: [&str; 6] = ["role", "content", "refusal", "audio", "tool_calls", "function_call"];
/// Members of a call that are read.
const CALL: [&str; 6] = ["id", "function", "custom", "name", "arguments", "input"];
/// Members of the audio of a message.
const AUDIO: [&str; 2] = ["data", "transcript"];

/// A buffered answer without anything out of place; true if something was left out that isn't a copy of judged text.
///
/// # Errors
/// [`Fault`] for a call in an unknown place.
pub fn swept(document: Document, context: &Context) -> Result<(Document, bool), Fault> {
    let choices = document.root().get("choices").filter(|choices| choices.is_array());
    // Anything else is an error, or no answer.
    let Some(choices) = choices.filter(|_| !is_ambiguous(document.root())) else { return Ok((document, false)) };
    let mut sweep = Sweep::new(context);
    sweep.object(document.root(), &ROOT, None, || joined(choices.items().next().and_then(content_of)))?;
    for choice in choices.items().filter(|choice| !is_ambiguous(*choice)) {
        let message = choice.get("message").filter(|message| !is_ambiguous(*message));
        sweep.object(choice, &CHOICE, message, || joined(content_of(choice)))?;
        if let Some(message) = message {
            sweep_message(&mut sweep, message)?;
        }
        if logprobs_of(choice).is_some() {
            sweep.logprobs(choice, &message.map(said).unwrap_or_default(), TextExtent::Whole, "null")?;
        }
    }
    finished(sweep, document)
}

fn content_of(choice: Value<'_>) -> Option<Value<'_>> {
    choice.get("message")?.get("content")
}

fn delta_content(choice: Value<'_>) -> Cow<'_, str> {
    joined(delta_of(choice).and_then(|delta| delta.get("content")))
}

/// Like [`swept`], for an event.
///
/// # Errors
/// As [`swept`].
pub fn swept_event(document: Document, context: &Context) -> Result<(Document, bool), Fault> {
    let root = document.root();
    let mut sweep = Sweep::new(context);
    let choices = || root.get("choices").into_iter().flat_map(Value::items);
    // Nobody looks for `choices` that are none.
    sweep.object(root, &ROOT, None, || choices().next().map(delta_content).map(|text| text.into_owned().into()).unwrap_or_default())?;
    for choice in choices().filter(|choice| !is_ambiguous(*choice)) {
        sweep.object(choice, &CHOICE_OF_EVENT, None, || delta_content(choice))?;
        let Some(delta) = delta_of(choice).filter(|delta| delta.is_object() && !is_ambiguous(*delta)) else { continue };
        sweep_message(&mut sweep, delta)?;
        let said = if logprobs_of(choice).is_some() { said(delta) } else { Vec::new() };
        // Beside nothing that was said they are left out where the event is written.
        if !said.is_empty() {
            sweep.logprobs(choice, &said, TextExtent::Piece, "null")?;
        }
    }
    finished(sweep, document)
}

fn finished(sweep: Sweep<'_>, document: Document) -> Result<(Document, bool), Fault> {
    let differs = sweep.differs;
    let swept = sweep.finish(&document)?;
    Ok((swept.unwrap_or(document), differs))
}

/// Examines a message or a delta.
fn sweep_message(sweep: &mut Sweep<'_>, message: Value<'_>) -> Result<(), ShapeError> {
    let content = message.get("content");
    sweep.role(message);
    sweep.object(message, &MESSAGE, None, || joined(content))?;
    let parts = content.into_iter().flat_map(|content| content.items().chain(Some(content).filter(|own| own.is_object())));
    for part in parts.filter(|part| part.is_object() && !is_ambiguous(*part)) {
        sweep.object(part, &PART_TEXTS, None, || joined(Some(part)))?;
    }
    let legacy = message.get("function_call").filter(|call| call.is_object());
    for call in message.get("tool_calls").into_iter().flat_map(Value::items).chain(legacy) {
        for body in [Some(call), call.get("function"), call.get("custom")].into_iter().flatten().filter(|body| !is_ambiguous(*body)) {
            sweep.judge_members(body, &CALL)?;
        }
    }
    match message.get("audio") {
        Some(audio) if audio.is_object() && !is_ambiguous(audio) => {
            if audio.get("data").is_some_and(|data| !data.is_string() && !is_nothing(data)) {
                return Err(ShapeError::Text);
            }
            sweep.object(audio, &AUDIO, None, || joined(audio.get("transcript")))?;
        }
        Some(audio) if audio.is_string() && sweep.objects_to(audio)? => sweep.replace(audio, "null"),
        _ => {}
    }
    Ok(())
}

/// Texts that tokens may spell: the content, the refusal, the reasoning, and their concatenations.
fn said(message: Value<'_>) -> Vec<Cow<'_, str>> {
    let own = |member: &crate::wire::json::Member<'_>| {
        let name = member.name();
        matches!(&*name, "content" | "refusal") || is_thought(&name)
    };
    let texts: Vec<Cow<'_, str>> =
        message.members().filter(own).map(|member| joined(Some(member.value))).filter(|text| !text.is_empty()).collect();
    if texts.len() < 2 {
        return texts;
    }
    let (thoughts, rest): (String, String) = message.members().filter(own).fold(Default::default(), |(mut thoughts, mut rest), member| {
        let text = joined(Some(member.value));
        if is_thought(&member.name()) {
            thoughts.push_str(&text)
        } else {
            rest.push_str(&text)
        }
        (thoughts, rest)
    });
    texts.into_iter().chain([Cow::Owned(thoughts + &rest)]).collect()
}

/// Checks the `message` beside a delta, which repeats the deltas so far and is never passed on.
///
/// # Errors
/// [`ShapeError::Text`] for a call under a name of its own.
pub fn check_copy(message: Value<'_>) -> Result<(), ShapeError> {
    places::refuse_calls_beside(message, &CALLS, None)
}
