//! Errors of an exchange: of its request, found before anything is sent, and of an answer that can't be passed on. Pure.

use crate::{
    exchange::text::spelling::{is_respelled, is_respelled_in_request, is_spelled_twice},
    judge::messages,
    violation::Violation,
    wire::json::{JsonError, Value},
};

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

/// Kind of a request error.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RefusalKind {
    /// The request can't be taken: HTTP 400.
    #[default]
    Invalid,
    /// What it names isn't there: HTTP 404.
    NotFound,
}

/// A request error, found before anything is sent.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Kind of the error.
    pub kind: RefusalKind,
    /// `error.code`
    pub code: &'static str,
    /// `error.message`
    pub message: String,
    /// `error.param`
    pub param: Option<String>,
}

impl Refusal {
    /// An error with this code about member `param` of the request.
    pub fn new(code: &'static str, param: Option<&str>, message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Invalid, code, message: message.into(), param: param.map(str::to_owned) }
    }

    /// Error for something that isn't there.
    pub fn not_found(code: &'static str, param: &str, message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::NotFound, ..Self::new(code, Some(param), message) }
    }

    /// Error for a member of the wrong type.
    pub fn wrong(param: &str, expected: &str) -> Self {
        Self::new("invalid_request", Some(param), format!("`{param}` must be {expected}"))
    }

    /// Error for a blocking violation of an answer; its message quotes nothing of the answer.
    pub fn of_answer(violation: &Violation) -> Self {
        match messages::without_quotation(violation) {
            Some(message) => Self::new(violation.code.as_str(), None, message),
            None => Self::of(violation),
        }
    }

    /// Error for a blocking violation of the request.
    pub fn of(violation: &Violation) -> Self {
        let advice = if violation.advice.is_empty() { String::new() } else { format!(": {}", violation.advice) };
        Self::new(violation.code.as_str(), None, format!("{}{advice}", violation.message))
    }
}

/// Refuses an object with two members of the same name, or one whose name some parsers take for another: they may read the other one.
///
/// # Errors
/// [`Refusal`] that names the member and the `place`.
pub fn unique(object: Value<'_>, place: &str) -> Result<(), Refusal> {
    known_once(object, place, is_respelled)
}

/// As [`unique`], for a request, or an object in it that names what the upstream stores.
///
/// # Errors
/// [`Refusal`] that names the member and the `place`.
pub fn unique_in_request(object: Value<'_>, place: &str) -> Result<(), Refusal> {
    known_once(object, place, is_respelled_in_request)
}

fn known_once(object: Value<'_>, place: &str, respelled: fn(Value<'_>) -> bool) -> Result<(), Refusal> {
    match object.duplicate_name() {
        Some(name) => Err(Refusal::new("invalid_json", None, format!("{place} has two members named `{name}`"))),
        None if respelled(object) => {
            let message =
                format!("{place} has a member whose name differs from a known one only in its spelling: some parsers ignore case");
            Err(Refusal::new("invalid_json", None, message))
        }
        None => Ok(()),
    }
}

/// As [`unique`], for a part of a content or a result, in which applications may have members of their own.
///
/// # Errors
/// [`Refusal`] that names the `place`.
pub fn unique_part(part: Value<'_>, place: &str) -> Result<(), Refusal> {
    if part.duplicate_name().is_some() || is_spelled_twice(part) {
        return Err(Refusal::new("invalid_json", None, format!("{place} has two members of one name")));
    }
    Ok(())
}

/// Checks that a member is an array.
///
/// # Errors
/// [`Refusal`] if it isn't an array.
pub fn array<'d>(value: Value<'d>, param: &str) -> Result<Value<'d>, Refusal> {
    if value.is_array() { Ok(value) } else { Err(Refusal::wrong(param, "an array")) }
}
