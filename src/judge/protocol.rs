//! What the model is told about tools: nothing, unless the policy asks for it. Pure.
//!
//! Every sentence costs: a model of half a billion parameters lost two thirds of its right answers to an earlier, longer
//! text. So there is one sentence for what enforcement needs, and one for what some users want.

/// The citation text, where the policy has no words of its own: what `[citations] require` needs the model to know.
pub const CITE_TEXT: &str = "When you report a tool result that carries an execution_id, cite it as (execution_id: …).";

/// What `[protocol] announce` adds.
pub const ANNOUNCE_TEXT: &str = "Before you call a tool, say in a few words which one and why.";

/// The whole text. `cite`: the words about citing, where the model is told to.
pub fn protocol_text(cite: Option<&str>, announce: bool) -> Option<String> {
    match (cite, announce) {
        (None, false) => None,
        (Some(cite), false) => Some(cite.to_owned()),
        (None, true) => Some(ANNOUNCE_TEXT.to_owned()),
        (Some(cite), true) => Some(format!("{ANNOUNCE_TEXT} {cite}")),
    }
}
