//! Limits on the state that the upstream keeps: refuses requests that the policy doesn't allow, and tells the upstream
//! to store nothing.
//!
//! `[responses] stateful`: docs/contract.md#policy; docs/wire-facts.md#conversations-that-the-upstream-keeps. Pure.

use crate::{
    exchange::error::Refusal,
    responses::request::{Head, Stateful, input_items::Kind},
    wire::json::{Value, splice::Splices},
};

/// The `include` value that returns a model's reasoning if the upstream doesn't store it. Source: OpenAI API reference,
/// `include`.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

/// Refuses references to a part of the conversation that isn't in the request, if the policy doesn't allow them.
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

/// Tells the upstream to store nothing.
pub fn forget(edits: &mut Splices, root: Value<'_>, head: &Head<'_>) {
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

/// True if the request looks like one to a reasoning model. Other models reject a request for reasoning.
fn reasons(root: Value<'_>, head: &Head<'_>) -> bool {
    const FAMILIES: [&str; 5] = ["o1", "o3", "o4", "gpt-5", "gpt-oss"];
    let model = head.model.rsplit('/').next().unwrap_or_default();
    root.get_some("reasoning").is_some() || model.contains("codex") || FAMILIES.iter().any(|family| model.starts_with(family))
}
