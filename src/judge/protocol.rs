//! What the model is told about tools. DESIGN.md, "Stamps". Pure.

/// The protocol text, where the policy has none of its own.
pub const PROTOCOL_TEXT: &str = "\
Tool protocol: Before you use a tool, say in a few words which one and why; then call it and wait for its result. \
Report a tool's result only after it was returned in this conversation. Where a result carries an execution_id, cite it with what you report, \
as (execution_id: …), copied exactly; where it carries none, cite none. Never write an execution_id that no result carries, and never present \
a result that was not returned. If a tool can't be run, say so.";
