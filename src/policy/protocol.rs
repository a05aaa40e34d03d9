//! Text about tools for the system prompt: none unless the policy asks for it. Pure.
//!
//! Every sentence costs: with an earlier, longer text a model of half a billion parameters lost two thirds of its right answers. So there
//! is one sentence that enforcement needs, and one that some users want.

/// Default text about citations, which `[citations] require` needs; a policy may replace it.
pub const CITE_TEXT: &str = "When you report a tool result that carries an execution_id, cite it as (execution_id: …).";

/// Text added by `[protocol] announce`.
pub const ANNOUNCE_TEXT: &str = "Before you call a tool, say in a few words which one and why.";

/// The complete text; `None` if there is none. `cite`: the text about citations, if the model gets one.
pub fn protocol_text(cite: Option<&str>, announce: bool) -> Option<String> {
    match (cite, announce) {
        (None, false) => None,
        (Some(cite), false) => Some(cite.to_owned()),
        (None, true) => Some(ANNOUNCE_TEXT.to_owned()),
        (Some(cite), true) => Some(format!("{ANNOUNCE_TEXT} {cite}")),
    }
}
