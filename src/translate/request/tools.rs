//! `tools` and `tool_choice`: flat in the Responses API, nested in chat. Pure.

use crate::{
    translate::request::{Untranslatable, picked},
    wire::json::Value,
};

/// Chat's `tools`, JSON.
///
/// # Errors
/// [`Untranslatable`] for tools that chat doesn't have.
pub(in crate::translate) fn tools(tools: Value<'_>) -> Result<String, Untranslatable> {
    if !tools.is_array() {
        return Err(Untranslatable::malformed("tools", "an array"));
    }
    let all = tools.items().enumerate().map(|(at, value)| tool(value, &format!("tools[{at}]"))).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[{}]", all.join(",")))
}

fn tool(tool: Value<'_>, param: &str) -> Result<String, Untranslatable> {
    let kind = kind_of(tool, param)?;
    match &*kind {
        "function" => {
            named(tool, param)?;
            // Where it isn't said, the Responses API tries strict and falls back; chat has it off.
            let strict = tool.get("strict").is_some_and(|strict| strict.raw() == b"true");
            let names: &[&str] =
                if strict { &["name", "description", "parameters", "strict"] } else { &["name", "description", "parameters"] };
            Ok(format!(r#"{{"type":"function","function":{}}}"#, picked(tool, names)))
        }
        "custom" => {
            named(tool, param)?;
            let mut inner = picked(tool, &["name", "description"]);
            if let Some(format) = tool.get_some("format") {
                inner.pop();
                inner.push_str(",\"format\":");
                inner.push_str(&format_of(format, &format!("{param}.format"))?);
                inner.push('}');
            }
            Ok(format!(r#"{{"type":"custom","custom":{inner}}}"#))
        }
        kind => Err(Untranslatable::uncarried(param, kind)),
    }
}

fn format_of(format: Value<'_>, param: &str) -> Result<String, Untranslatable> {
    match &*kind_of(format, param)? {
        "text" => Ok(r#"{"type":"text"}"#.to_owned()),
        "grammar" => Ok(format!(r#"{{"type":"grammar","grammar":{}}}"#, picked(format, &["definition", "syntax"]))),
        kind => Err(Untranslatable::uncarried(param, kind)),
    }
}

/// Chat's `tool_choice`, JSON.
///
/// # Errors
/// [`Untranslatable`] for a choice that chat can't express.
pub(in crate::translate) fn tool_choice(choice: Value<'_>) -> Result<String, Untranslatable> {
    const PARAM: &str = "tool_choice";
    if choice.is_string() {
        return Ok(choice.raw_str().to_owned());
    }
    if !kind_is(choice, "allowed_tools") {
        return chosen(choice, PARAM);
    }
    let tools = choice.get("tools").filter(|tools| tools.is_array());
    let tools = tools.ok_or_else(|| Untranslatable::malformed("tool_choice.tools", "an array"))?;
    let each = |(at, tool)| chosen(tool, &format!("tool_choice.tools[{at}]"));
    let tools = tools.items().enumerate().map(each).collect::<Result<Vec<_>, _>>()?.join(",");
    let mode = choice.get_some("mode").map_or("\"auto\"", Value::raw_str);
    Ok(format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":{mode},"tools":[{tools}]}}}}"#))
}

/// The named tool of a choice.
fn chosen(tool: Value<'_>, param: &str) -> Result<String, Untranslatable> {
    match &*kind_of(tool, param)? {
        kind @ ("function" | "custom") => {
            let name = named(tool, param)?;
            Ok(format!(r#"{{"type":"{kind}","{kind}":{{"name":{}}}}}"#, name.raw_str()))
        }
        kind => Err(Untranslatable::uncarried(param, kind)),
    }
}

fn named<'d>(tool: Value<'d>, param: &str) -> Result<Value<'d>, Untranslatable> {
    if let Some(namespace) = tool.get_some("namespace") {
        return Err(Untranslatable::uncarried(format!("{param}.namespace"), namespace.raw_str()));
    }
    tool.get("name").filter(|name| name.is_string()).ok_or_else(|| Untranslatable::malformed(format!("{param}.name"), "a string"))
}

fn kind_is(value: Value<'_>, kind: &str) -> bool {
    value.get("type").is_some_and(|own| own.is_text(kind))
}

/// The `type` of an object; objects with two members of the same name are refused.
pub(in crate::translate) fn kind_of<'d>(value: Value<'d>, param: &str) -> Result<std::borrow::Cow<'d, str>, Untranslatable> {
    if !value.is_object() {
        return Err(Untranslatable::malformed(param, "an object"));
    }
    if let Some(name) = value.duplicate_name() {
        return Err(Untranslatable::new(param, format!("`{param}` says `{name}` twice")));
    }
    value.get("type").and_then(Value::text).ok_or_else(|| Untranslatable::malformed(format!("{param}.type"), "a string"))
}
