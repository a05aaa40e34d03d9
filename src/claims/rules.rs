//! What claims are judged by besides the text: the policy's rules, and what the exchange knows of results and tools. Pure.

use toolmark_base::violation::Checks;

use crate::evidence::{EvidenceIndex, tool_capabilities::ToolCapabilities};

/// Rules of the policy and the exchange for claims.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRules<'r> {
    /// Severity of each code.
    pub checks: &'r Checks,
    /// `response_format` asks for JSON, so there is no prose.
    pub json_only: bool,
    /// The exchange has tools.
    pub has_tools: bool,
}

/// Results and tools of the conversation, with which claims are compared. By value, without I/O; the adapters implement it.
pub trait ClaimEvidence {
    /// True if the conversation has any result, stamped or not.
    fn has_results(&self) -> bool {
        false
    }
    /// Index of the results and the other messages; built on first use.
    fn grounds(&self) -> Option<&EvidenceIndex> {
        None
    }
    /// Capabilities of the tools, and which of them ran; built on first use.
    fn abilities(&self) -> Option<&ToolCapabilities> {
        None
    }
}
