//! Results paired with the calls that they answer, as a history proves them. Values only.

use std::sync::Arc;

use crate::marks::MarkTime;

/// A result that answers a call, stamped or not: evidence for what an answer claims.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AnsweredCall {
    /// Name of the tool.
    pub tool: Arc<str>,
    /// Index of the result's item in the history.
    pub item: usize,
    /// Index of the call's item, and of the call within it; `None` if the call isn't in the request.
    pub call: Option<(usize, usize)>,
    /// Arguments of a call that isn't in the request, if they are stored.
    pub arguments: Option<Arc<str>>,
    /// The result reports a failure.
    pub failed: bool,
    /// The result comes after the last user message.
    pub recent: bool,
    /// Index into the history's executions, if the result is one of them.
    pub execution: Option<usize>,
}

/// The call that a result answers.
pub(in crate::judge) struct CallRef {
    /// Name of the tool.
    pub tool: Arc<str>,
    /// Index of the call's item, and of the call within it; `None` if the call isn't in the request.
    pub place: Option<(usize, usize)>,
    /// Arguments of a call that isn't in the request.
    pub arguments: Option<Arc<str>>,
    /// Mark time of the call, if its mark is verified.
    pub moment: Option<MarkTime>,
}
