//! Translates a Responses request to a chat request, member by member.
//!
//! Members that chat can't carry are refused by name, never dropped silently, except those that mean nothing to an
//! upstream that stores nothing. Values that both APIs share are copied byte for byte. Source: OpenAI API reference,
//! "Create a model response" and "Create chat completion". Pure.

pub(super) mod content;
pub(super) mod messages;
pub(super) mod tools;

use bytes::Bytes;

use crate::wire::json::{Document, Kind, Value, string::quote_into};

/// A request that can't be translated: HTTP 400.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Untranslatable {
    /// The member at fault, for `error.param`.
    pub param: String,
    /// Error message.
    pub message: String,
}

impl Untranslatable {
    pub(super) fn new(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), message: message.into() }
    }

    /// Error for a member that the Responses API itself would refuse.
    pub(super) fn malformed(param: impl Into<String>, expected: &str) -> Self {
        let param = param.into();
        let message = format!("`{param}` is not {expected}");
        Self { param, message }
    }

    /// Error for a member of a kind that chat can't carry.
    pub(super) fn uncarried(param: impl Into<String>, kind: &str) -> Self {
        let param = param.into();
        let message = format!("`{param}`: this upstream speaks chat completions, which can't carry `{kind}`");
        Self { param, message }
    }
}

/// The chat request for a Responses request. `document` is the request as it would be sent to a native upstream.
///
/// # Errors
/// [`Untranslatable`] for the first member at fault.
pub fn request(document: &Document) -> Result<Bytes, Untranslatable> {
    let root = document.root();
    if !root.is_object() {
        return Err(Untranslatable::new("", "the request is no JSON object"));
    }
    if let Some(name) = root.duplicate_name() {
        return Err(Untranslatable::new(name.clone(), format!("`{name}` is said twice")));
    }
    if root.get_some("input").is_none() {
        return Err(Untranslatable::new("input", "`input` is missing"));
    }
    let has_tools = root.get_some("tools").is_some_and(|tools| !tools.is_array() || tools.items().next().is_some());
    let mut chat = ChatMembers::default();
    for member in root.members().filter(|member| !member.value.is_null()) {
        translate(&mut chat, root, &member.name(), member.value, has_tools)?;
    }
    Ok(chat.object().into())
}

fn translate(chat: &mut ChatMembers, root: Value<'_>, name: &str, value: Value<'_>, has_tools: bool) -> Result<(), Untranslatable> {
    match name {
        "input" => chat.push("messages", &messages::messages(root)?),
        // Those go with `input`; of the others nothing is kept, and so they mean nothing.
        "instructions" | "include" | "store" | "metadata" | "max_tool_calls" | "stream_options" | "prompt_cache_retention" => Ok(()),
        "previous_response_id" | "conversation" | "prompt" | "context_management" | "moderation" => {
            Err(Untranslatable::uncarried(name, name))
        }
        "background" if value.kind() != Kind::False => Err(Untranslatable::uncarried(name, "background")),
        "truncation" if !value.is_text("disabled") => Err(Untranslatable::uncarried(name, "truncation")),
        "background" | "truncation" => Ok(()),
        "tools" if has_tools => chat.push(name, &tools::tools(value)?),
        "tool_choice" if has_tools => chat.push(name, &tools::tool_choice(value)?),
        "parallel_tool_calls" if has_tools => chat.push(name, value.raw_str()),
        // Chat refuses all three where there is no tool.
        "tools" | "tool_choice" | "parallel_tool_calls" => Ok(()),
        "max_output_tokens" => chat.push("max_tokens", value.raw_str()),
        "text" => text(chat, value),
        "reasoning" => reasoning(chat, value),
        "top_logprobs" => {
            chat.push("logprobs", "true")?;
            chat.push(name, value.raw_str())
        }
        "stream" => {
            chat.push(name, value.raw_str())?;
            if value.kind() == Kind::True { chat.push("stream_options", r#"{"include_usage":true}"#) } else { Ok(()) }
        }
        // Chat's own ways to say what was judged in another place, or to ask for more than is read.
        "messages" | "functions" | "function_call" | "n" => {
            Err(Untranslatable::new(name, format!("`{name}` is no member of a Responses request")))
        }
        _ => chat.push(name, value.raw_str()),
    }
}

fn text(chat: &mut ChatMembers, text: Value<'_>) -> Result<(), Untranslatable> {
    if !text.is_object() {
        return Err(Untranslatable::malformed("text", "an object"));
    }
    if let Some(format) = text.get_some("format") {
        match format.get("type").and_then(Value::text).as_deref() {
            Some("text") => {}
            Some("json_object") => chat.push("response_format", r#"{"type":"json_object"}"#)?,
            Some("json_schema") => {
                let inner = picked(format, &["name", "description", "schema", "strict"]);
                chat.push("response_format", &format!(r#"{{"type":"json_schema","json_schema":{inner}}}"#))?;
            }
            kind => return Err(Untranslatable::uncarried("text.format", kind.unwrap_or("a format without a type"))),
        }
    }
    match text.get_some("verbosity") {
        Some(verbosity) => chat.push("verbosity", verbosity.raw_str()),
        None => Ok(()),
    }
}

fn reasoning(chat: &mut ChatMembers, reasoning: Value<'_>) -> Result<(), Untranslatable> {
    if !reasoning.is_object() {
        return Err(Untranslatable::malformed("reasoning", "an object"));
    }
    match reasoning.get_some("effort") {
        Some(effort) => chat.push("reasoning_effort", effort.raw_str()),
        None => Ok(()),
    }
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

/// The members of the chat request.
#[derive(Default)]
struct ChatMembers {
    text: String,
    names: Vec<String>,
}

impl ChatMembers {
    /// `value`: JSON.
    fn push(&mut self, name: &str, value: &str) -> Result<(), Untranslatable> {
        // A request may bring a member that has this name in chat only, beside the one that becomes it.
        if self.names.iter().any(|own| own == name) {
            return Err(Untranslatable::new(name, format!("`{name}` is said in two ways")));
        }
        self.names.push(name.to_owned());
        if self.text.is_empty() {
            self.text.push('{');
        }
        push_member(&mut self.text, name, value);
        Ok(())
    }

    fn object(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

#[cfg(test)]
mod tests;
