//! Request errors found before anything is sent. Pure.

use crate::{judge::messages, violation::Violation};

/// A request error, found before anything is sent: HTTP 400.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
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
        Self { code, message: message.into(), param: param.map(str::to_owned) }
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

/// Refuses an object with two members of the same name: another parser may read the other one.
///
/// # Errors
/// [`Refusal`] that names the member and the `place`.
pub fn unique(object: crate::wire::json::Value<'_>, place: &str) -> Result<(), Refusal> {
    match object.duplicate_name() {
        Some(name) => Err(Refusal::new("invalid_json", None, format!("{place} has two members named `{name}`"))),
        None => Ok(()),
    }
}

/// Checks that a member is an array.
///
/// # Errors
/// [`Refusal`] if it isn't an array.
pub fn array<'d>(value: crate::wire::json::Value<'d>, param: &str) -> Result<crate::wire::json::Value<'d>, Refusal> {
    if value.is_array() { Ok(value) } else { Err(Refusal::wrong(param, "an array")) }
}
