//! Text about tools for the system prompt: none unless the policy asks for it. Pure.
//!
//! Every sentence costs: with an earlier, longer text a model of half a billion parameters lost two thirds of its right answers. So there
//! is one sentence that enforcement needs, and one that some users want.

/// Default text about citations, which `[citations] require` needs; a policy may replace it.
pub const CITE_TEXT: &str = "When you report a tool result that carries an execution_id, cite it as (execution_id: …).";

/// Text added by `[protocol] announce`.
pub const ANNOUNCE_TEXT: &str = "Before you call a tool, say in a few words which one and why.";
