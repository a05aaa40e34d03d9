//! Reasons why an answer can't be passed on, buffered or streamed. Pure.

use crate::wire::json::JsonError;

/// A call or text in a shape that can't be judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ShapeError {
    /// A call that is neither an object nor a list of objects.
    #[error("a tool call that is no object")]
    NoObject,
    /// Two members have the same name.
    #[error("a tool call with two members of one name")]
    Duplicate,
    /// `function` and `custom` in one call, or a name, arguments or input in two places.
    #[error("a tool call that says twice what is called")]
    Ambiguous,
    /// `tool_calls` and `function_call` in one answer.
    #[error("tool calls in two forms in one answer")]
    Mixed,
    /// A text or call in a place where none belongs.
    #[error("a text or call in a place that can't be judged")]
    Text,
    /// More than [`CALLS_MAX`] calls.
    #[error("more than {CALLS_MAX} tool calls in one answer")]
    TooMany,
}

/// Maximum number of calls in one answer; more are refused.
pub const CALLS_MAX: usize = 1024;

/// Reason why an answer can't be passed on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// The answer is an error, with status 200 or in mid-stream: its JSON.
    #[error("the upstream reported an error in its answer")]
    Reported(String),
    /// The answer isn't JSON.
    #[error("the upstream's answer isn't JSON ({0}): does its `base_url` lead to an OpenAI-compatible API? It usually ends in /v1")]
    Json(#[from] JsonError),
    /// A call or text in a shape that can't be judged.
    #[error("the upstream sent {0}")]
    Shape(#[from] ShapeError),
    /// Anything else that can't be judged.
    #[error("the upstream's answer can't be judged: {0}")]
    Unknown(&'static str),
    /// The stream ended before the answer did.
    #[error("the upstream's stream ended before the answer did")]
    Cut,
}
