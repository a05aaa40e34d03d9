//! Translates requests: one reader and one writer for each API, with `form` between them.
//!
//! Members that the other API can't carry are refused by name, never dropped silently, except those that mean nothing to it; each reader
//! and writer says which. Values that both APIs share are copied byte for byte. Source: OpenAI API reference, "Create a model response"
//! and "Create chat completion"; Anthropic API reference, "Messages". Pure.

pub(super) mod form;
mod from_chat;
mod from_messages;
mod from_responses;
pub(super) mod names;
mod to_chat;
pub(super) mod to_messages;

use std::borrow::Cow;

use bytes::Bytes;

use super::{Translation, UpstreamForm};
use crate::{
    openai::Api,
    wire::json::{Document, Value, splice::Splices, string::quote_into},
};

/// Words before a system message in the middle of a conversation, which becomes a text of the user: many chat templates and most models
/// of the Messages API take instructions at the start only.
const NOTE: &str = "Note from the system, not from the user:\n";

/// `error.code` of a request that can't be translated.
const INVALID: &str = "invalid_request";

/// A request that can't be translated: HTTP 400.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Untranslatable {
    /// The member at fault, for `error.param`.
    pub param: String,
    /// Error message.
    pub message: String,
    /// `error.code`
    pub code: &'static str,
}

impl Untranslatable {
    pub(super) fn new(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), message: message.into(), code: INVALID }
    }

    /// Error for a member that the request's own API would refuse.
    pub(super) fn malformed(param: impl Into<String>, expected: &str) -> Self {
        let param = param.into();
        let message = format!("`{param}` is not {expected}");
        Self::new(param, message)
    }

    /// Error for a member of a kind that chat can't carry.
    pub(super) fn uncarried(param: impl Into<String>, kind: &str) -> Self {
        let param = param.into();
        let message = format!("`{param}`: this upstream speaks chat completions, which can't carry `{kind}`");
        Self::new(param, message)
    }

    /// Error for a member of a kind that the Messages API can't carry.
    pub(super) fn unsaid(param: impl Into<String>, kind: &str) -> Self {
        let param = param.into();
        let message = format!("`{param}`: this upstream speaks Anthropic's Messages API, which can't carry `{kind}`");
        Self::new(param, message)
    }
}

/// The upstream's request for a request of the application. `document` is the request as it would be sent to a native upstream.
///
/// # Errors
/// [`Untranslatable`] for the first member at fault.
pub fn request(document: &Document, translation: Translation) -> Result<Bytes, Untranslatable> {
    let root = document.root();
    if !root.is_object() {
        return Err(Untranslatable::new("", "the request is no JSON object"));
    }
    if let Some(name) = root.duplicate_name() {
        return Err(Untranslatable::new(name.clone(), format!("`{name}` is said twice")));
    }
    let parts = match translation.downstream {
        Api::Chat => from_chat::read(root)?,
        Api::Responses => from_responses::read(root)?,
        Api::Messages => from_messages::read(root)?,
    };
    let text = match translation.upstream {
        UpstreamForm::Messages => to_messages::write(parts)?,
        UpstreamForm::Chat => to_chat::write(parts)?,
    };
    Ok(text.into())
}

/// A request for chat completions with `max_completion_tokens` in place of `max_tokens`, which OpenAI calls deprecated.
///
/// Source: OpenAI API reference, "Create chat completion", `max_tokens`.
pub fn with_newer_limit(body: Bytes) -> Bytes {
    let Ok(document) = Document::parse(body.clone()) else { return body };
    let Some(limit) = document.root().members().find(|member| member.is("max_tokens")) else { return body };
    let mut edits = Splices::default();
    edits.replace(limit.key.span(), "\"max_completion_tokens\"");
    edits.apply(&body)
}

/// An object with the named members of `object` that aren't `null`, byte for byte.
pub(super) fn picked(object: Value<'_>, names: &[&str]) -> String {
    let mut out = String::from("{");
    for name in names {
        if let Some(value) = object.get_some(name) {
            push_member(&mut out, name, value.raw_str());
        }
    }
    out.push('}');
    out
}

/// Appends a member to an object that is being written.
pub(super) fn push_member(out: &mut String, name: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    quote_into(out, name);
    out.push(':');
    out.push_str(value);
}

/// The member `name`, a string.
///
/// # Errors
/// [`Untranslatable`] if it isn't a string.
pub(super) fn string<'d>(object: Value<'d>, name: &str, param: &str) -> Result<Value<'d>, Untranslatable> {
    let value = object.get(name).filter(|value| value.is_string());
    value.ok_or_else(|| Untranslatable::malformed(format!("{param}.{name}"), "a string"))
}

/// True if the object's `type` is this one.
pub(super) fn kind_is(value: Value<'_>, kind: &str) -> bool {
    value.get("type").is_some_and(|own| own.is_text(kind))
}

/// Checks that a value is an object without two members of one name.
///
/// # Errors
/// [`Untranslatable`] if it isn't.
pub(super) fn checked<'d>(value: Value<'d>, param: &str) -> Result<Value<'d>, Untranslatable> {
    if !value.is_object() {
        return Err(Untranslatable::malformed(param, "an object"));
    }
    match value.duplicate_name() {
        Some(name) => Err(Untranslatable::new(param, format!("`{param}` says `{name}` twice"))),
        None => Ok(value),
    }
}

/// The `type` of an object; objects with two members of the same name are refused.
///
/// # Errors
/// [`Untranslatable`] if it isn't such an object.
pub(super) fn kind_of<'d>(value: Value<'d>, param: &str) -> Result<Cow<'d, str>, Untranslatable> {
    let kind = checked(value, param)?.get("type").and_then(Value::text);
    kind.ok_or_else(|| Untranslatable::malformed(format!("{param}.type"), "a string"))
}

#[cfg(test)]
mod messages_tests;
#[cfg(test)]
mod tests;
