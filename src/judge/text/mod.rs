//! Judging the text of an answer: the citations and claims in it, whole or as it streams. Pure.
//!
//! One [`TextGate`] stands in the way of one text. It takes pieces, says how much of the text is
//! decided, and what was wrong. Every decision depends on the text alone, never on how it was cut.
//! The way of a piece:
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
//! Each reader says from where on it may still find something; what lies before is decided and clears.

mod around;
mod block;
mod claim;
mod clause;
mod compare;
mod container;
mod explain;
mod fence;
mod fold;
mod gate;
mod item;
mod label;
mod line;
mod mark;
mod object;
mod record;
mod run;
mod shape;
mod start;
mod tail;
mod written;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_honest;
#[cfg(test)]
mod tests_properties;

use std::sync::Arc;

use regex::Regex;

use super::{
    claims::{abilities::Abilities, grounds::Grounds},
    textual::Names,
    violation::Checks,
};
pub use gate::TextGate;

/// Where the execution with some id stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Whereabouts {
    /// Its result stands, stamped, in this conversation.
    Here {
        /// Older than the policy lets executions be cited.
        expired: bool,
    },
    /// The id verifies, but its result isn't in this conversation.
    Elsewhere,
    /// The id doesn't verify.
    NotOurs,
}

/// What the conversation proves. By value, without I/O; the adapters implement it.
pub trait Evidence {
    /// Where `execution_id`, which has our shape and lower-case hex, stands.
    fn whereabouts(&self, execution_id: &str) -> Whereabouts;
    /// True if `text` stands word for word in the conversation's own data.
    fn is_quotation(&self, text: &str) -> bool;
    /// True where not all of the conversation is known: what isn't ours may have been quoted from the rest.
    fn is_incomplete(&self) -> bool;
    /// The registered tool of that name, or nearly so (case, separators, a small typo).
    fn tool_named(&self, name: &str) -> Option<&str>;
    /// True if a tool of exactly that name is registered.
    fn is_registered(&self, name: &str) -> bool;
    /// True if the registered `tool` has a parameter `name`.
    fn has_parameter(&self, tool: &str, name: &str) -> bool;
    /// Whose calls count where they are written as text; `None` where the user asked for such text.
    fn written_calls(&self) -> Option<Names> {
        Some(Names::Any)
    }
    /// True if `tool` succeeded in this conversation.
    fn succeeded(&self, tool: &str) -> bool;
    /// True if any result stands in this conversation, stamped or not.
    fn has_results(&self) -> bool {
        false
    }
    /// The results and what else was said; made when first asked for.
    fn grounds(&self) -> Option<&Grounds> {
        None
    }
    /// The user asks what ids or results look like, and for none.
    fn asks_about_ids(&self) -> bool {
        self.grounds().is_some_and(|grounds| explain::asks(&grounds.asked))
    }
    /// What the tools can do and which of them ran; made when first asked for.
    fn abilities(&self) -> Option<&Abilities> {
        None
    }
}

/// What the ledger answered about an id that is [`Whereabouts::Elsewhere`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Known {
    /// The execution belongs to the session of this exchange, so it may be cited.
    pub same_session: bool,
    /// It didn't say in time.
    pub unavailable: bool,
}

/// A thing that may be said only if a tool succeeded: one of the policy's `[[claims]]`.
#[derive(Clone, Debug)]
pub struct PhraseRule {
    /// The rule's name in reports.
    pub name: String,
    /// What is said; matched within one line. What its named groups match must stand in a result of such a tool.
    pub regex: Regex,
    /// One of these must have succeeded in the conversation.
    pub requires: Vec<String>,
    /// Since the user spoke last, not ever in the conversation.
    pub turn: bool,
    /// What the model is told; may be empty.
    pub message: String,
}

/// What is looked for in one exchange. Cheap to clone; the regular expressions are shared.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Severity of each code.
    pub checks: Checks,
    /// Verified citations stay in prose (`[citations] show`).
    pub show: bool,
    /// Further regular expressions with a group `id`; a match is a labelled id.
    pub extra_patterns: Arc<[Regex]>,
    /// What may be said only after a success.
    pub phrases: Arc<[PhraseRule]>,
    /// `response_format` asks for JSON: ids, labels and the policy's own rules count, blocks and prose don't.
    pub json_only: bool,
    /// Unix milliseconds when the exchange began; 0 where that isn't known. No id of a later time can be ours.
    pub now_ms: u64,
    /// The exchange has tools: labels and blocks count.
    pub has_tools: bool,
    /// Nothing clears before the end.
    pub hold_all: bool,
    /// The whole text is kept, to tell whether it owes a citation.
    pub keep_text: bool,
    /// An answer that cites may be shown to a second model: what a stream says is kept, and held where that may block.
    pub second_opinion: bool,
    /// The ledger can tell whose an id is that isn't in this conversation: ask by [`Progress::Need`].
    pub ask_ledger: bool,
    /// Bytes of one block or one disguised id above which it is refused unread.
    pub held_bytes_max: usize,
}

impl Default for Rules {
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

/// Can the gate go on?
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Progress {
    /// What can be decided is decided: see [`TextGate::cleared`].
    Flow,
    /// Nothing further clears before [`TextGate::answer`] was given for each of these ids, and then
    /// `handle("")` or `finish` was called again.
    Need(Vec<String>),
}
