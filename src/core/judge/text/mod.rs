//! Judges the text of an answer: the citations and claims in it, complete or as it streams. Pure.
//!
//! One [`TextGate`] judges one text. It receives pieces; it returns how much of the text is decided, and the violations. Every decision
//! depends on the text alone, never on how it was split. The path of a piece:
//!
//! ```text
//! piece ─▶ tail ─▶ fence   (where is code?)
//!                ├▶ run     (ids and labels in word runs, disguises folded by `fold`)
//!                ├▶ block   (JSON and Python-dict blocks, members weighed by `object`)
//!                ├▶ record  (YAML, TOML, tables, CSV, XML, `key: value` lines, calls with what came of them)
//!                ├▶ written, start   (calls and results written as text)
//!                └▶ line    (the policy's patterns and phrases)
//!                     └─▶ items, in order of place ─▶ gate + claim ─▶ violations, citations, removals
//! ```
//!
//! Each scanner returns the place from which it may still find something; text before it is decided and is cleared.

mod around;
mod claim;
mod clause;
mod compare;
mod container;
mod explain;
mod fence;
mod fold;
mod gate;
mod item;
mod object;
pub mod scan;
mod shape;
mod tail;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_honest;
#[cfg(test)]
mod tests_properties;

use std::sync::Arc;

use regex::Regex;

use crate::{
    claims::rules::{ClaimEvidence, ClaimRules},
    judge::textual_calls::ToolFilter,
    violation::Checks,
};
pub use gate::TextGate;
pub(in crate::judge) use shape::has_id;

/// Location of the execution with some id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExecutionOrigin {
    /// Its result is in this conversation, stamped.
    Here {
        /// Too old to be cited under the policy.
        expired: bool,
    },
    /// The id verifies, but its result isn't in this conversation.
    Elsewhere,
    /// The id doesn't verify.
    NotOurs,
}

/// Evidence that the conversation provides. By value, without I/O; the adapters implement it.
pub trait Evidence: ClaimEvidence {
    /// Location of `execution_id`, which has the form of an execution ID with lower-case hex.
    fn whereabouts(&self, execution_id: &str) -> ExecutionOrigin;
    /// True if `text` is word for word in the conversation's own data.
    fn is_quotation(&self, text: &str) -> bool;
    /// True if part of the conversation isn't known: foreign ids may have been quoted from it.
    fn is_incomplete(&self) -> bool;
    /// The registered tool of that name, or nearly so (case, separators, a small typo).
    fn tool_named(&self, name: &str) -> Option<&str>;
    /// True if a tool of exactly that name is registered.
    fn is_registered(&self, name: &str) -> bool;
    /// True if the registered `tool` has a parameter `name`.
    fn has_parameter(&self, tool: &str, name: &str) -> bool;
    /// Tools whose calls count if they are written as text; `None` if the user asked for such text.
    fn written_calls(&self) -> Option<ToolFilter> {
        Some(ToolFilter::Any)
    }
    /// True if `tool` succeeded in this conversation.
    fn succeeded(&self, tool: &str) -> bool;
    /// True if the user asks what ids or results look like, and asks for none.
    fn asks_about_ids(&self) -> bool {
        self.grounds().is_some_and(|grounds| explain::asks(&grounds.asked))
    }
    /// True if the user asks for a sample of what tools return, or about the tools themselves: what looks like a result then is none.
    fn asks_for_samples(&self) -> bool {
        self.grounds().is_some_and(|grounds| grounds.asked.asks_for_samples())
    }
    /// True if the user hands over data to be put in another form, and `block` has no other.
    fn asks_for_conversion(&self, block: &str) -> bool {
        self.grounds().is_some_and(|grounds| grounds.asked.asks_for_conversion(block))
    }
    /// True if the user asks for a program: what the answer says that it prints is no result.
    fn asks_for_program(&self) -> bool {
        self.grounds().is_some_and(|grounds| grounds.asked.asks_for_program())
    }
}

/// The ledger's answer about an id that is [`ExecutionOrigin::Elsewhere`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LedgerAnswer {
    /// The execution belongs to the session of this exchange, so it may be cited.
    pub same_session: bool,
    /// The ledger didn't answer in time.
    pub unavailable: bool,
}

/// A phrase that is allowed only if a tool succeeded: one of the policy's `[[claims]]`.
#[derive(Clone, Debug)]
pub struct PhraseRule {
    /// The rule's name in reports.
    pub name: String,
    /// Pattern of the phrase, matched within one line. The matches of its named groups must be in a result of such a tool.
    pub regex: Regex,
    /// Tools of which one must have succeeded in the conversation.
    pub requires: Vec<String>,
    /// The tool must have succeeded since the last user message, not just anywhere in the conversation.
    pub turn: bool,
    /// Text for the model; may be empty.
    pub message: String,
}

/// Rules for the texts of one exchange. Cheap to clone; the regular expressions are shared.
#[derive(Clone, Debug)]
pub struct TextRules {
    /// Severity of each code.
    pub checks: Checks,
    /// Verified citations stay in prose (`[citations] show`).
    pub show: bool,
    /// Further regular expressions with a group `id`; a match is a labelled id.
    pub extra_patterns: Arc<[Regex]>,
    /// Phrases that require a success.
    pub phrases: Arc<[PhraseRule]>,
    /// `response_format` asks for JSON: ids, labels and the policy's own rules count, blocks and prose don't.
    pub json_only: bool,
    /// Start of the exchange in Unix milliseconds; 0 if unknown. An id of a later time can't be genuine.
    pub now_ms: u64,
    /// The exchange has tools: labels and blocks count.
    pub has_tools: bool,
    /// Nothing is cleared before the end.
    pub hold_all: bool,
    /// The whole text is kept, to decide if it owes a citation.
    pub keep_text: bool,
    /// An answer that cites may be shown to a second model: streamed text is kept, and held if its verdict may block.
    pub second_opinion: bool,
    /// The ledger may know ids that aren't in this conversation: ask by [`GateProgress::Need`].
    pub ask_ledger: bool,
    /// Bytes of one block or one disguised id above which it is refused unread.
    pub held_bytes_max: usize,
}

impl TextRules {
    /// The rules for claims.
    pub fn claims(&self) -> ClaimRules<'_> {
        ClaimRules { checks: &self.checks, json_only: self.json_only, has_tools: self.has_tools }
    }
}

impl Default for TextRules {
    fn default() -> Self {
        Self {
            checks: Checks::default(),
            show: false,
            extra_patterns: Arc::new([]),
            phrases: Arc::new([]),
            json_only: false,
            now_ms: 0,
            has_tools: true,
            hold_all: false,
            keep_text: false,
            second_opinion: false,
            ask_ledger: false,
            held_bytes_max: 1 << 20,
        }
    }
}

/// Result of advancing the gate.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum GateProgress {
    /// Everything that can be decided is decided: see [`TextGate::cleared`].
    Flow,
    /// Nothing further is cleared until [`TextGate::answer`] was called for each of these ids, and then `handle("")` or `finish` again.
    Need(Vec<String>),
}
