//! Reads a Responses request, member by member.
//!
//! Members that chat can't carry are refused by name, never dropped silently, except those that mean nothing to an
//! upstream that stores nothing. Source: OpenAI API reference, "Create a model response". Pure.

mod content;
mod history;
mod tools;

use super::{
    Untranslatable,
    form::{OfferedTool, RequestPart},
    picked,
};
use crate::wire::json::{Kind, Value};

/// Reads the request.
///
/// # Errors
/// [`Untranslatable`] for the first member at fault.
pub(super) fn read(root: Value<'_>) -> Result<Vec<RequestPart<'_>>, Untranslatable> {
    if root.get_some("input").is_none() {
        return Err(Untranslatable::new("input", "`input` is missing"));
    }
    let offers_tools = root.get_some("tools").is_some_and(|tools| !tools.is_array() || tools.items().next().is_some());
    let mut parts = Vec::new();
    for member in root.members().filter(|member| !member.value.is_null()) {
        let (name, value) = (member.name(), member.value);
        match &*name {
            "input" => parts.push(RequestPart::History(history::turns(root)?)),
            // Those go with `input`; of the others nothing is kept, and so they mean nothing.
            "instructions" | "include" | "store" | "metadata" | "max_tool_calls" | "stream_options" | "prompt_cache_retention" => {}
            "previous_response_id" | "conversation" | "prompt" | "context_management" | "moderation" => {
                return Err(Untranslatable::uncarried(&*name, &name));
            }
            "background" if value.kind() != Kind::False => return Err(Untranslatable::uncarried(name, "background")),
            "truncation" if !value.is_text("disabled") => return Err(Untranslatable::uncarried(name, "truncation")),
            "background" | "truncation" => {}
            // Chat refuses all three where there is no tool.
            "tools" | "tool_choice" | "parallel_tool_calls" if !offers_tools => {}
            "tools" => {
                let tools: Vec<OfferedTool<'_>> = tools::tools(value)?;
                parts.push(RequestPart::Tools(tools));
            }
            "tool_choice" => parts.push(RequestPart::Choice(tools::tool_choice(value)?)),
            "parallel_tool_calls" => parts.push(RequestPart::ParallelCalls(value.raw_str().into())),
            "max_output_tokens" => parts.push(RequestPart::MaxTokens(value.raw_str().into())),
            "user" => parts.push(RequestPart::User(value.raw_str().into())),
            "stream" => parts.push(RequestPart::Stream(value.raw_str().into())),
            "text" => text(&mut parts, value)?,
            "reasoning" => reasoning(&mut parts, value)?,
            "top_logprobs" => {
                parts.push(RequestPart::Other { name: "logprobs".into(), value: "true".into() });
                parts.push(RequestPart::Other { name, value: value.raw_str().into() });
            }
            // Chat's own ways to say what was judged in another place, or to ask for more than is read.
            "messages" | "functions" | "function_call" | "n" => {
                return Err(Untranslatable::new(&*name, format!("`{name}` is no member of a Responses request")));
            }
            _ => parts.push(RequestPart::Other { name, value: value.raw_str().into() }),
        }
    }
    Ok(parts)
}

fn text<'d>(parts: &mut Vec<RequestPart<'d>>, text: Value<'d>) -> Result<(), Untranslatable> {
    if !text.is_object() {
        return Err(Untranslatable::malformed("text", "an object"));
    }
    if let Some(format) = text.get_some("format") {
        match format.get("type").and_then(Value::text).as_deref() {
            Some("text") => {}
            Some("json_object") => parts.push(RequestPart::JsonObject),
            Some("json_schema") => {
                parts.push(RequestPart::JsonSchema(picked(format, &["name", "description", "schema", "strict"]).into()));
            }
            kind => return Err(Untranslatable::uncarried("text.format", kind.unwrap_or("a format without a type"))),
        }
    }
    if let Some(verbosity) = text.get_some("verbosity") {
        parts.push(RequestPart::Other { name: "verbosity".into(), value: verbosity.raw_str().into() });
    }
    Ok(())
}

fn reasoning<'d>(parts: &mut Vec<RequestPart<'d>>, reasoning: Value<'d>) -> Result<(), Untranslatable> {
    if !reasoning.is_object() {
        return Err(Untranslatable::malformed("reasoning", "an object"));
    }
    if let Some(effort) = reasoning.get_some("effort") {
        parts.push(RequestPart::Effort(effort.raw_str().into()));
    }
    Ok(())
}
