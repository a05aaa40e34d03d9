//! Results that answer calls, as a history proves them. Values only.

use std::sync::Arc;

use super::marks::Moment;

/// A result that answers a call, stamped or not: evidence for what an answer claims.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answered {
    /// The tool.
    pub tool: String,
    /// Which item is the result.
    pub item: usize,
    /// Which item has the call, and which of its calls it is; `None` where it isn't in the request.
    pub call: Option<(usize, usize)>,
    /// The arguments of a call that isn't in the request, where they are remembered.
    pub arguments: Option<Arc<str>>,
    /// It reports a failure.
    pub failed: bool,
    /// After the last user message.
    pub recent: bool,
    /// Which of the executions it is, where it is one.
    pub execution: Option<usize>,
}

/// The call that a result answers.
pub(super) struct Answers {
    /// The tool.
    pub tool: String,
    /// Its item, and which of the item's calls it is.
    pub place: Option<(usize, usize)>,
    /// The call's arguments, where it isn't in the request.
    pub arguments: Option<Arc<str>>,
    /// Its mark's moment, where it is verified.
    pub moment: Option<Moment>,
}
