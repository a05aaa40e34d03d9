//! Why a request is refused before anything is sent. Pure.

use crate::judge::{reply, violation::Violation};

/// Why a request is refused before anything is sent: HTTP 400.
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
    /// With this code, about this member of the request.
    pub fn new(code: &'static str, param: Option<&str>, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: param.map(str::to_owned) }
    }

    /// A member of a wrong type.
    pub fn wrong(param: &str, expected: &str) -> Self {
        Self::new("invalid_request", Some(param), format!("`{param}` must be {expected}"))
    }

    /// The refusal that a blocking violation of an answer is, which quotes nothing of it.
    pub fn of_answer(violation: &Violation) -> Self {
        match reply::without_quotation(violation) {
            Some(message) => Self::new(violation.code.as_str(), None, message),
            None => Self::of(violation),
        }
    }

    /// The refusal that a blocking violation of the request is.
    pub fn of(violation: &Violation) -> Self {
        let advice = if violation.advice.is_empty() { String::new() } else { format!(": {}", violation.advice) };
        Self::new(violation.code.as_str(), None, format!("{}{advice}", violation.message))
    }
}

/// Refuses two members of one name: another parser may read the other one.
///
/// # Errors
/// [`Refusal`] that names the member and the `place`.
pub fn unique(object: crate::wire::json::Value<'_>, place: &str) -> Result<(), Refusal> {
    match object.duplicate_name() {
        Some(name) => Err(Refusal::new("invalid_json", None, format!("{place} has two members named `{name}`"))),
        None => Ok(()),
    }
}

/// A member that must be an array.
///
/// # Errors
/// [`Refusal`] where it is none.
pub fn array<'d>(value: crate::wire::json::Value<'d>, param: &str) -> Result<crate::wire::json::Value<'d>, Refusal> {
    if value.is_array() { Ok(value) } else { Err(Refusal::wrong(param, "an array")) }
}
