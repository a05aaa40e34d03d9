//! Kinds of content blocks. Pure.
//!
//! Source: Anthropic's API reference, "Create a Message", `content`; docs/wire-facts.md#messages.

use bytes::Bytes;

use crate::{
    judge::call::turn::FinishReason,
    wire::json::{Document, Value, splice::Splices, string::quote},
};

/// `stop_reason` of an answer that the model refused to give or to continue.
pub const REFUSAL: &str = "refusal";

/// Kind of a content block of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockKind {
    /// `text`
    Text,
    /// `tool_use`: a call that the application runs.
    Call,
    /// `tool_use` of a member of a toolset that Anthropic defines: its schema isn't known here, so it passes unjudged.
    ToolsetCall,
    /// `thinking` and `redacted_thinking`
    Thinking,
    /// A call that the upstream runs, or its result, or another block that only the upstream writes.
    Hosted,
    /// Unknown.
    Other,
}

/// Kind of a block.
pub fn kind_of(block: Value<'_>) -> BlockKind {
    let kind = block.get("type").and_then(Value::text).unwrap_or_default();
    match &*kind {
        "text" => BlockKind::Text,
        "tool_use" if block.get_some("toolset_name").is_some() => BlockKind::ToolsetCall,
        "tool_use" => BlockKind::Call,
        "thinking" | "redacted_thinking" => BlockKind::Thinking,
        "server_tool_use" | "mcp_tool_use" | "mcp_tool_listing" | "compaction" | "fallback" | "container_upload" => BlockKind::Hosted,
        kind if kind.ends_with("_tool_result") => BlockKind::Hosted,
        _ => BlockKind::Other,
    }
}

/// True for the result of one of the upstream's own tools, if it found something: only the model has all of it.
pub fn has_unseen_result(block: Value<'_>) -> bool {
    let content = block.get_some("content");
    let failed = content.and_then(|content| content.get("type")).and_then(Value::text).is_some_and(|kind| kind.ends_with("_error"));
    let is_result =
        kind_of(block) == BlockKind::Hosted && block.get("type").and_then(Value::text).is_some_and(|kind| kind.ends_with("_tool_result"));
    is_result && !failed && content.is_some_and(|content| content.is_object() || content.is_string() || content.items().next().is_some())
}

/// True for a call that code in a sandbox of the upstream makes: the code reads its result.
pub fn is_programmatic(call: Value<'_>) -> bool {
    let kind = call.get("caller").and_then(|caller| caller.get("type"));
    kind.is_some_and(|kind| !kind.is_text("direct"))
}

/// Reason why an answer with a text or a call ended, by its `stop_reason`. A refusal behind it cuts it off.
pub fn finish_of(stop_reason: Option<&str>) -> FinishReason {
    match stop_reason {
        Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
        Some(REFUSAL) => FinishReason::ContentFilter,
        Some("compaction" | "pause_turn") => FinishReason::Refusal,
        Some(_) | None => FinishReason::Complete,
    }
}

/// The `stop_reason` that fits the calls, as JSON; `None` if the upstream's does. `calls`: number of calls that leave.
pub fn fitting_stop(stop_reason: Option<&str>, calls: usize) -> Option<&'static str> {
    match (stop_reason, calls > 0) {
        (Some("tool_use"), true) => None,
        (Some("end_turn" | "stop_sequence" | "") | None, true) => Some("\"tool_use\""),
        (Some("tool_use" | "") | None, false) => Some("\"end_turn\""),
        (Some(_), _) => None,
    }
}

/// A `tool_use` block with this id, name and input; its other members are kept. `None` if it isn't JSON.
pub fn call_with(block: &str, id: &str, name: Option<&str>, input: Option<&str>) -> Option<String> {
    let document = Document::parse(Bytes::copy_from_slice(block.as_bytes())).ok()?;
    let mut edits = Splices::default();
    set_call(&mut edits, document.root(), id, name, input);
    String::from_utf8(edits.apply(document.bytes()).to_vec()).ok()
}

/// Sets the id of a `tool_use` block, and its name and input where they differ.
pub fn set_call(edits: &mut Splices, block: Value<'_>, id: &str, name: Option<&str>, input: Option<&str>) {
    let set = [("id", Some(quote(id))), ("name", name.map(quote)), ("input", input.map(str::to_owned))];
    let mut added = String::new();
    for (member, value) in set.iter().filter_map(|(member, value)| Some((member, value.as_ref()?))) {
        match block.get(member) {
            Some(own) => edits.replace(own.span(), value.as_str()),
            None => added.push_str(&format!(",\"{member}\":{value}")),
        }
    }
    if !added.is_empty() {
        // INVARIANT: a block has a `type`.
        edits.insert(block.span().end - 1, added);
    }
}
