//! Places of a Messages answer, buffered or one event of it, for the table of places ([`crate::exchange::text::places`]).
//! Pure.

use super::blocks::{BlockKind, kind_of};
use crate::{
    exchange::{
        context::Context,
        error::{Fault, ShapeError},
        text::{
            place::{is_ambiguous, is_nothing},
            places::{Sweep, is_call_part, joined},
        },
    },
    wire::json::{Document, Value},
};

/// Members of an answer that are read.
const MESSAGE: [&str; 5] = ["role", "content", "stop_details", "error", "toolmark"];
/// Members of a call that are read.
const CALL: [&str; 6] = ["type", "id", "name", "input", "caller", "toolset_name"];
/// Members of a block that only the upstream writes.
const HOSTED: [&str; 8] = ["id", "name", "input", "content", "tool_use_id", "caller", "server_name", "tools"];

/// A buffered answer without anything out of place; true if something was left out that isn't a copy of judged text.
///
/// # Errors
/// [`Fault`] for a call in an unknown place.
pub fn swept(document: Document, context: &Context) -> Result<(Document, bool), Fault> {
    let root = document.root();
    let Some(content) = root.get("content").filter(|content| content.is_array() && !is_ambiguous(root)) else {
        return Ok((document, false));
    };
    let mut sweep = Sweep::new(context);
    sweep.role(root);
    sweep.object(root, &MESSAGE, None, || joined(Some(content)))?;
    content.items().try_for_each(|block| sweep_block(&mut sweep, block))?;
    sweep_details(&mut sweep, root.get("stop_details"))?;
    finished(sweep, document)
}

/// An event without anything out of place.
///
/// # Errors
/// As [`swept`].
pub fn swept_event(document: Document, kind: &str, context: &Context) -> Result<(Document, bool), Fault> {
    let root = document.root();
    let mut sweep = Sweep::new(context);
    match kind {
        "message_start" => {
            if let Some(message) = root.get("message") {
                unambiguous(message)?;
                sweep.role(message);
                sweep.object(message, &MESSAGE, None, Default::default)?;
            }
            sweep.object(root, &["type", "message"], None, Default::default)?;
        }
        "content_block_start" => {
            if let Some(block) = root.get("content_block") {
                sweep_block(&mut sweep, block)?;
            }
            sweep.object(root, &["type", "index", "content_block"], None, Default::default)?;
        }
        "content_block_delta" => {
            if let Some(delta) = root.get("delta") {
                unambiguous(delta)?;
                // Others belong to other deltas, and clients may read them all the same.
                let own: &[&'static str] = match delta.get("type").and_then(Value::text).as_deref() {
                    Some("text_delta") => &["type", "text"],
                    Some("input_json_delta") => &["type", "partial_json"],
                    Some("thinking_delta") => &["type", "thinking"],
                    Some("signature_delta") => &["type", "signature"],
                    Some("compaction_delta") => &["type", "content", "encrypted_content"],
                    _ => &["type"],
                };
                sweep.object(delta, own, None, Default::default)?;
            }
            sweep.object(root, &["type", "index", "delta"], None, Default::default)?;
        }
        _ => {
            if let Some(delta) = root.get("delta") {
                unambiguous(delta)?;
                sweep.object(delta, &["type", "stop_details"], None, Default::default)?;
                sweep_details(&mut sweep, delta.get("stop_details"))?;
            }
            sweep.object(root, &["type", "delta", "toolmark"], None, Default::default)?;
        }
    }
    finished(sweep, document)
}

fn finished(sweep: Sweep<'_>, document: Document) -> Result<(Document, bool), Fault> {
    let differs = sweep.differs;
    let swept = sweep.finish(&document)?;
    Ok((swept.unwrap_or(document), differs))
}

/// Examines `stop_details`, whose `explanation` is judged as a text.
fn sweep_details(sweep: &mut Sweep<'_>, details: Option<Value<'_>>) -> Result<(), ShapeError> {
    let Some(details) = details.filter(|details| !is_nothing(*details)) else { return Ok(()) };
    unambiguous(details)?;
    let explanation = details.get("explanation");
    if !details.is_object() || explanation.is_some_and(|explanation| !explanation.is_string() && !is_nothing(explanation)) {
        return Err(ShapeError::Text);
    }
    sweep.object(details, &["type", "explanation"], None, Default::default)
}

/// Refuses an object that says two things under one name.
fn unambiguous(object: Value<'_>) -> Result<(), ShapeError> {
    if is_ambiguous(object) { Err(ShapeError::Text) } else { Ok(()) }
}

fn sweep_block(sweep: &mut Sweep<'_>, block: Value<'_>) -> Result<(), ShapeError> {
    if !block.is_object() || is_ambiguous(block) {
        return Err(ShapeError::Text);
    }
    match kind_of(block) {
        BlockKind::Text => sweep.object(block, &["text"], None, || joined(block.get("text"))),
        BlockKind::Call | BlockKind::ToolsetCall => sweep.judge_members(block, &CALL),
        BlockKind::Thinking => sweep.object(block, &["thinking", "signature", "data"], None, Default::default),
        BlockKind::Hosted => sweep.object(block, &HOSTED, None, Default::default),
        BlockKind::Other if is_call_part(block) => Err(ShapeError::Text),
        BlockKind::Other => sweep.object(block, &["type"], None, Default::default),
    }
}
