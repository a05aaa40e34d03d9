//! `tools` and `tool_choice` of a Responses request. Pure.

use crate::{
    translate::request::{
        Untranslatable,
        form::{ChosenTool, OfferedChoice, OfferedTool, ToolInputForm},
        kind_is, kind_of, picked, string,
    },
    wire::json::{Kind, Value},
};

/// Reads `tools`.
///
/// # Errors
/// [`Untranslatable`] for tools that chat doesn't have.
pub(super) fn tools(tools: Value<'_>) -> Result<Vec<OfferedTool<'_>>, Untranslatable> {
    if !tools.is_array() {
        return Err(Untranslatable::malformed("tools", "an array"));
    }
    tools.items().enumerate().map(|(at, value)| tool(value, &format!("tools[{at}]"))).collect()
}

fn tool<'d>(tool: Value<'d>, param: &str) -> Result<OfferedTool<'d>, Untranslatable> {
    let takes = match &*kind_of(tool, param)? {
        "function" => ToolInputForm::Arguments {
            schema: tool.get_some("parameters").map(|schema| schema.raw_str().into()),
            // Where it isn't said, the Responses API tries strict and falls back; chat has it off.
            strict: tool.get("strict").is_some_and(|strict| strict.kind() == Kind::True),
        },
        "custom" => {
            let format = tool.get_some("format").map(|format| format_of(format, &format!("{param}.format")));
            ToolInputForm::Custom(format.transpose()?.map(Into::into))
        }
        kind => return Err(Untranslatable::uncarried(param, kind)),
    };
    let name = named(tool, param)?.text().unwrap_or_default();
    Ok(OfferedTool { name, description: tool.get_some("description").map(|text| text.raw_str().into()), takes })
}

fn format_of(format: Value<'_>, param: &str) -> Result<String, Untranslatable> {
    match &*kind_of(format, param)? {
        "text" => Ok(r#"{"type":"text"}"#.to_owned()),
        "grammar" => Ok(format!(r#"{{"type":"grammar","grammar":{}}}"#, picked(format, &["definition", "syntax"]))),
        kind => Err(Untranslatable::uncarried(param, kind)),
    }
}

/// Reads `tool_choice`.
///
/// # Errors
/// [`Untranslatable`] for a choice that chat can't express.
pub(super) fn tool_choice(choice: Value<'_>) -> Result<OfferedChoice<'_>, Untranslatable> {
    const PARAM: &str = "tool_choice";
    if choice.is_string() {
        return Ok(OfferedChoice::Mode(choice.raw_str().into()));
    }
    if !kind_is(choice, "allowed_tools") {
        return chosen(choice, PARAM).map(OfferedChoice::Tool);
    }
    let tools = choice.get("tools").filter(|tools| tools.is_array());
    let tools = tools.ok_or_else(|| Untranslatable::malformed("tool_choice.tools", "an array"))?;
    let each = |(at, tool)| chosen(tool, &format!("tool_choice.tools[{at}]"));
    let tools = tools.items().enumerate().map(each).collect::<Result<_, _>>()?;
    Ok(OfferedChoice::Allowed { mode: choice.get_some("mode").map_or("\"auto\"", Value::raw_str).into(), tools })
}

/// The named tool of a choice.
fn chosen<'d>(tool: Value<'d>, param: &str) -> Result<ChosenTool<'d>, Untranslatable> {
    let form = match &*kind_of(tool, param)? {
        "function" => ChosenTool::Function,
        "custom" => ChosenTool::Custom,
        kind => return Err(Untranslatable::uncarried(param, kind)),
    };
    Ok(form(named(tool, param)?.text().unwrap_or_default()))
}

fn named<'d>(tool: Value<'d>, param: &str) -> Result<Value<'d>, Untranslatable> {
    if let Some(namespace) = tool.get_some("namespace") {
        return Err(Untranslatable::uncarried(format!("{param}.namespace"), namespace.raw_str()));
    }
    string(tool, "name", param)
}
