//! Places of a response, buffered or one event of its stream, for the table of places ([`crate::exchange::text::places`]).
//! Pure.

use std::borrow::Cow;

use crate::{
    exchange::text::places::TextExtent,
    exchange::{
        context::Context,
        error::{Fault, ShapeError},
        text::{
            place::{is_ambiguous, is_nothing},
            places::{Sweep, is_token, joined, logprobs_of},
        },
    },
    responses::output_items::{ItemKind, kind_of},
    wire::json::{Document, Value},
};

/// Members of a response that are read, or repeat the application's own values.
const RESPONSE: [&str; 13] = [
    "output",
    "output_text",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "metadata",
    "prompt",
    "prompt_cache_key",
    "user",
    "safety_identifier",
    "previous_response_id",
    "toolmark",
];
/// The same if `text` isn't a format object, or `output_text` isn't a string.
const RESPONSE_OF_ODD_TEXT: [&str; 8] = ["output", "instructions", "tools", "tool_choice", "metadata", "prompt", "user", "toolmark"];
/// Members of them that only repeat what the application says.
const ECHOES: [&str; 5] = ["metadata", "prompt_cache_key", "user", "safety_identifier", "previous_response_id"];
/// Members of a message that are read.
const MESSAGE: [&str; 3] = ["id", "role", "content"];
/// Members of a call that are read.
const CALL: [&str; 7] = ["id", "call_id", "name", "namespace", "arguments", "input", "action"];
/// Members in which a part may have its text: the first that isn't empty is read.
pub const PART_TEXTS: [&str; 4] = ["text", "content", "transcript", "output_text"];
/// Members of every event.
const EVENT: [&str; 3] = ["type", "item_id", "logprobs"];

/// A buffered response without anything out of place; true if something was left out that isn't a copy of judged text.
///
/// # Errors
/// [`Fault`] for a call in an unknown place.
pub fn swept(document: Document, context: &Context) -> Result<(Document, bool), Fault> {
    let root = document.root();
    if !root.get("output").is_some_and(Value::is_array) || is_ambiguous(root) {
        return Ok((document, false));
    }
    let mut sweep = Sweep::new(context);
    sweep_response(&mut sweep, root, context)?;
    finished(sweep, document)
}

/// Like [`swept`], for an event of a known type.
///
/// # Errors
/// As [`swept`].
pub fn swept_event(document: Document, kind: &str, context: &Context) -> Result<(Document, bool), Fault> {
    let root = document.root();
    let mut sweep = Sweep::new(context);
    let own: &[&str] = match kind {
        "response.created" | "response.in_progress" | "response.queued" => {
            if let Some(response) = root.get("response").filter(|response| response.is_object() && !is_ambiguous(*response)) {
                sweep_beginning(&mut sweep, response, context)?;
            }
            &["type", "item_id", "response"]
        }
        "response.completed" | "response.incomplete" => {
            if let Some(response) = root.get("response").filter(|response| response.is_object() && !is_ambiguous(*response)) {
                sweep_response(&mut sweep, response, context)?;
            }
            &["type", "item_id", "response"]
        }
        "response.output_item.added" | "response.output_item.done" => {
            if let Some(item) = root.get("item") {
                sweep_item(&mut sweep, item, ItemStage::of(kind), context)?;
            }
            &["type", "item_id", "item"]
        }
        "response.content_part.added" | "response.content_part.done" => {
            if let Some(part) = root.get("part") {
                sweep_part(&mut sweep, part, ItemStage::of(kind))?;
            }
            &["type", "item_id", "part"]
        }
        "response.output_text.delta" | "response.refusal.delta" => {
            if logprobs_of(root).is_some() {
                sweep.logprobs(root, &[joined(root.get("delta"))], TextExtent::Piece, "[]")?;
            }
            &["type", "item_id", "logprobs", "delta"]
        }
        "response.output_text.done" => {
            if logprobs_of(root).is_some() {
                sweep.logprobs(root, &[joined(root.get("text"))], TextExtent::Whole, "[]")?;
            }
            &["type", "item_id", "logprobs", "text"]
        }
        "response.refusal.done" => &["type", "item_id", "refusal"],
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => &["type", "item_id", "delta"],
        "response.function_call_arguments.done" => &["type", "item_id", "arguments", "name", "call_id"],
        "response.custom_tool_call_input.done" => &["type", "item_id", "input", "name", "call_id"],
        _ => &EVENT,
    };
    let text = || joined(["delta", "text", "refusal"].into_iter().find_map(|name| root.get(name)));
    sweep.object(root, own, None, text)?;
    finished(sweep, document)
}

/// True if an event of an unknown type contains anything that an answer might contain: it must not be passed on. It may
/// be only a copy, but that isn't known.
///
/// # Errors
/// [`ShapeError::Text`] for a call.
pub fn speaks(root: Value<'_>, kind: &str, context: &Context) -> Result<bool, ShapeError> {
    let mut sweep = Sweep::new(context);
    // Sound is one long word.
    let sound = kind.contains("audio") && root.get("delta").is_some_and(|delta| delta.is_string() && is_token(delta.raw()));
    let own: &[&str] = if sound { &["type", "item_id", "logprobs", "delta"] } else { &EVENT };
    sweep.object(root, own, None, || Cow::Borrowed(""))?;
    Ok(sweep.changes())
}

fn finished(sweep: Sweep<'_>, document: Document) -> Result<(Document, bool), Fault> {
    let differs = sweep.differs;
    let swept = sweep.finish(&document)?;
    Ok((swept.unwrap_or(document), differs))
}

fn sweep_response(sweep: &mut Sweep<'_>, response: Value<'_>, context: &Context) -> Result<(), ShapeError> {
    sweep_members(sweep, response, context)?;
    response.get("output").into_iter().flat_map(Value::items).try_for_each(|item| sweep_item(sweep, item, ItemStage::Filled, context))
}

fn sweep_members(sweep: &mut Sweep<'_>, response: Value<'_>, context: &Context) -> Result<(), ShapeError> {
    // What the request says is given back as the application sent it, not as it went up.
    for (name, came) in &context.hidden.echo {
        if let Some(own) = response.get(name).filter(|own| own.raw_str() != &**came) {
            sweep.restore(own, came);
        }
    }
    // What the application didn't say is no echo.
    let asked = context.request().root();
    for own in ECHOES.iter().filter(|name| asked.get_some(name).is_none()).filter_map(|name| response.get_some(name)) {
        if sweep.objects_to(own)? {
            sweep.replace(own, "null");
        }
    }
    let odd = response.get("text").is_some_and(|text| text.is_string() || text.is_array())
        || response.get("output_text").is_some_and(|text| !text.is_string());
    sweep.object(response, if odd { &RESPONSE_OF_ODD_TEXT } else { &RESPONSE }, None, || said_by(response).into())
}

/// Examines the response object of an event that starts a stream. It has no output yet: calls in it are refused,
/// anything else in its output is removed.
fn sweep_beginning(sweep: &mut Sweep<'_>, response: Value<'_>, context: &Context) -> Result<(), ShapeError> {
    sweep_members(sweep, response, context)?;
    let output = response.get("output").filter(|output| !is_nothing(*output));
    for item in output.into_iter().flat_map(Value::items) {
        if matches!(kind_of(item, context)?, ItemKind::Call(_)) {
            return Err(ShapeError::Text);
        }
    }
    if let Some(output) = output {
        sweep.replace(output, "[]");
    }
    if let Some(copy) = response.get("output_text").filter(|copy| copy.is_string() && !is_nothing(*copy)) {
        sweep.empty(copy);
    }
    Ok(())
}

/// Joined text of a response's messages.
fn said_by(response: Value<'_>) -> String {
    let contents = response.get("output").into_iter().flat_map(Value::items).filter_map(|item| item.get("content"));
    contents.map(|content| joined(Some(content))).collect()
}

/// Stage of an output item or part.
#[derive(Clone, Copy, Eq, PartialEq)]
enum ItemStage {
    /// It begins: it has no content yet.
    Added,
    /// It has its content.
    Filled,
}

impl ItemStage {
    /// Stage in an event of this type.
    fn of(kind: &str) -> Self {
        if kind.ends_with("added") { Self::Added } else { Self::Filled }
    }
}

/// Examines an output item.
fn sweep_item(sweep: &mut Sweep<'_>, item: Value<'_>, stage: ItemStage, context: &Context) -> Result<(), ShapeError> {
    if !item.is_object() || is_ambiguous(item) {
        return Ok(());
    }
    match kind_of(item, context)? {
        ItemKind::Message => {
            let content = item.get("content");
            sweep.role(item);
            sweep.object(item, &MESSAGE, None, || joined(content))?;
            match content {
                Some(text) if text.is_string() => {
                    if stage == ItemStage::Added && !is_nothing(text) {
                        sweep.empty(text);
                    }
                }
                content => content.into_iter().flat_map(Value::items).try_for_each(|part| sweep_part(sweep, part, stage))?,
            }
            Ok(())
        }
        ItemKind::Other => sweep.judge_members(item, &["id", "call_id"]),
        ItemKind::Call(_) => sweep.judge_members(item, &CALL),
        // What was thought is no answer; what the upstream's own tools say is theirs. But who looks for parts of an answer finds them here too.
        ItemKind::Reasoning | ItemKind::Hosted => {
            let parts = item.get("content").into_iter().flat_map(Value::items);
            let mut answers = parts.filter(|part| part.get("type").is_some_and(|kind| kind.is_text("output_text")));
            answers.try_for_each(|part| sweep.judge_members(part, &["type"]))
        }
    }
}

fn sweep_part(sweep: &mut Sweep<'_>, part: Value<'_>, stage: ItemStage) -> Result<(), ShapeError> {
    let kind = part.get("type").and_then(Value::text).unwrap_or_default();
    if !part.is_object() || is_ambiguous(part) || matches!(&*kind, "reasoning_text" | "summary_text") {
        if stage == ItemStage::Added && part.is_string() && !is_nothing(part) {
            sweep.empty(part);
        }
        return Ok(());
    }
    let refuses = kind == "refusal";
    let says = |name: &&str| part.get(name).is_some_and(|own| own.is_string() && !is_nothing(own));
    let own = if refuses { "refusal" } else { PART_TEXTS.into_iter().find(says).unwrap_or("text") };
    sweep.object(part, &["type", "logprobs", own], None, || joined(part.get(own)))?;
    if logprobs_of(part).is_some() {
        sweep.logprobs(part, &[joined(part.get(own))], TextExtent::Whole, "[]")?;
    }
    if let Some(text) = part.get(own).filter(|text| stage == ItemStage::Added && text.is_string() && !is_nothing(*text)) {
        sweep.empty(text);
    }
    Ok(())
}
