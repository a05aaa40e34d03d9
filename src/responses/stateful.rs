//! What the upstream may keep of a conversation: what of it the policy doesn't take, and how the upstream is told to
//! keep nothing.
//!
//! CONTRACT.md, `[responses] stateful`; FACTS.md, section 2. Pure.

use super::{
    items::Kind,
    request::{Head, Stateful},
};
use crate::{
    exchange::refusal::Refusal,
    wire::{edit::Edits, json::Value},
};

/// What brings a model's reasoning along where the upstream doesn't keep it. Source: OpenAI API reference, `include`.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

/// Refuses what refers to a part of the conversation that isn't in the request, where the policy doesn't take it.
///
/// # Errors
/// [`Refusal`] that names the member.
pub fn check(head: &Head<'_>, stateful: Stateful) -> Result<(), Refusal> {
    if stateful == Stateful::Track {
        return Ok(());
    }
    let refused = |param: &str, what: &str, instead: &str| {
        let why = "this proxy's policy takes only requests that stand alone (`[responses] stateful`)";
        Err(Refusal::new("invalid_request", Some(param), format!("{what} can't be used, because {why}: {instead}")))
    };
    let whole = "send the whole conversation in `input`";
    if head.previous.is_some() {
        return refused("previous_response_id", "`previous_response_id`", whole);
    }
    if head.conversation.is_some() {
        return refused("conversation", "`conversation`", whole);
    }
    if head.background {
        return refused("background", "`background`", "leave it out and wait for the response");
    }
    if head.items().iter().any(|item| item.kind == Kind::Reference) {
        return refused("input", "an `item_reference`", "send the item itself");
    }
    Ok(())
}

/// Has the upstream keep nothing.
pub fn forget(edits: &mut Edits, root: Value<'_>, head: &Head<'_>) {
    if root.get("store").is_none_or(|store| store.raw() != b"false") {
        edits.set_member(root, "store", "false");
    }
    if !reasons(root, head) {
        return;
    }
    match root.get_some("include") {
        Some(include) if include.items().any(|item| item.is_text(ENCRYPTED_REASONING)) => {}
        Some(include) if include.is_array() => edits.append_items(include, &format!("\"{ENCRYPTED_REASONING}\"")),
        // Of a wrong type: the upstream says so.
        Some(_) => {}
        None => edits.set_member(root, "include", &format!("[\"{ENCRYPTED_REASONING}\"]")),
    }
}

/// Does it look like a request to a model that reasons? Others refuse to be asked for reasoning.
fn reasons(root: Value<'_>, head: &Head<'_>) -> bool {
    const FAMILIES: [&str; 5] = ["o1", "o3", "o4", "gpt-5", "gpt-oss"];
    let model = head.model.rsplit('/').next().unwrap_or_default();
    root.get_some("reasoning").is_some() || model.contains("codex") || FAMILIES.iter().any(|family| model.starts_with(family))
}
