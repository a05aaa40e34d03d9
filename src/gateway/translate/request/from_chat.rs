//! Reads a chat request, member by member.
//!
//! Left out: `name` of messages, reasoning of earlier turns, resolution of images. Source: OpenAI API reference, "Create chat
//! completion"; docs/wire-facts.md#chat-requests. Pure.

use super::{
    Untranslatable, checked,
    form::{
        AssistantHistory, CalledInput, CalledTool, ChosenTool, ContentPart, HistoryTurn, OfferedChoice, OfferedTool, RequestPart,
        ToolEnding, ToolInputForm, ToolOutput, TurnContent,
    },
    kind_of, picked, string,
};
use crate::wire::json::{Kind, Value};

/// Reads the request.
///
/// # Errors
/// [`Untranslatable`] for the first member at fault.
pub(super) fn read(root: Value<'_>) -> Result<Vec<RequestPart<'_>>, Untranslatable> {
    if root.get_some("messages").is_none() {
        return Err(Untranslatable::new("messages", "`messages` is missing"));
    }
    if root.get_some("max_tokens").is_some() && root.get_some("max_completion_tokens").is_some() {
        return Err(Untranslatable::new("max_tokens", "`max_tokens` is said in two ways"));
    }
    let mut parts = Vec::new();
    for member in root.members().filter(|member| !member.value.is_null()) {
        let (name, value) = (member.name(), member.value);
        let json = || value.raw_str().into();
        match &*name {
            "messages" => parts.push(RequestPart::History(turns(value)?)),
            "tools" if value.is_array() && value.items().next().is_none() => {}
            "tools" => parts.push(RequestPart::Tools(tools(value)?)),
            "tool_choice" => parts.push(RequestPart::Choice(tool_choice(value)?)),
            "parallel_tool_calls" => parts.push(RequestPart::ParallelCalls(json())),
            "max_tokens" | "max_completion_tokens" => parts.push(RequestPart::MaxTokens(json())),
            "stop" => parts.push(RequestPart::Stop(json())),
            "user" => parts.push(RequestPart::User(json())),
            "reasoning_effort" => parts.push(RequestPart::Effort(json())),
            "response_format" => match &*kind_of(value, "response_format")? {
                "text" => {}
                "json_object" => parts.push(RequestPart::JsonObject),
                "json_schema" => {
                    let inner = value.get("json_schema").filter(|inner| inner.is_object());
                    let inner = inner.ok_or_else(|| Untranslatable::malformed("response_format.json_schema", "an object"))?;
                    parts.push(RequestPart::JsonSchema(picked(inner, &["name", "description", "schema", "strict"]).into()));
                }
                kind => return Err(Untranslatable::unsaid("response_format", kind)),
            },
            "stream" => parts.push(RequestPart::Stream(json())),
            _ => parts.push(RequestPart::Other { value: json(), name }),
        }
    }
    Ok(parts)
}

fn tools(tools: Value<'_>) -> Result<Vec<OfferedTool<'_>>, Untranslatable> {
    if !tools.is_array() {
        return Err(Untranslatable::malformed("tools", "an array"));
    }
    tools.items().enumerate().map(|(at, value)| tool(value, &format!("tools[{at}]"))).collect()
}

fn tool<'d>(tool: Value<'d>, param: &str) -> Result<OfferedTool<'d>, Untranslatable> {
    let kind = kind_of(tool, param)?;
    if kind != "function" && kind != "custom" {
        return Err(Untranslatable::unsaid(param, &kind));
    }
    let inner = inner_of(tool, &kind, param)?;
    let takes = if kind == "custom" {
        ToolInputForm::Custom(inner.get_some("format").map(|format| format.raw_str().into()))
    } else {
        let schema = inner.get_some("parameters").map(|schema| schema.raw_str().into());
        ToolInputForm::Arguments { schema, strict: inner.get("strict").is_some_and(|strict| strict.kind() == Kind::True) }
    };
    let name = string(inner, "name", &format!("{param}.{kind}"))?.text().unwrap_or_default();
    Ok(OfferedTool { name, description: inner.get_some("description").map(|text| text.raw_str().into()), takes })
}

/// The object named as the kind is.
fn inner_of<'d>(object: Value<'d>, kind: &str, param: &str) -> Result<Value<'d>, Untranslatable> {
    let param = format!("{param}.{kind}");
    let inner = object.get(kind).ok_or_else(|| Untranslatable::malformed(&*param, "an object"))?;
    checked(inner, &param)
}

fn tool_choice(choice: Value<'_>) -> Result<OfferedChoice<'_>, Untranslatable> {
    const PARAM: &str = "tool_choice";
    if choice.is_string() {
        return Ok(OfferedChoice::Mode(choice.raw_str().into()));
    }
    let kind = kind_of(choice, PARAM)?;
    let form = match &*kind {
        "function" => ChosenTool::Function,
        "custom" => ChosenTool::Custom,
        kind => return Err(Untranslatable::unsaid(PARAM, kind)),
    };
    let name = string(inner_of(choice, &kind, PARAM)?, "name", "tool_choice.function")?;
    Ok(OfferedChoice::Tool(form(name.text().unwrap_or_default())))
}

fn turns(messages: Value<'_>) -> Result<Vec<HistoryTurn<'_>>, Untranslatable> {
    if !messages.is_array() {
        return Err(Untranslatable::malformed("messages", "an array"));
    }
    let mut turns: Vec<HistoryTurn<'_>> = Vec::new();
    for (at, message) in messages.items().enumerate() {
        let param = format!("messages[{at}]");
        let role = string(checked(message, &param)?, "role", &param)?.text().unwrap_or_default();
        if role == "tool" {
            answer(turns.iter_mut().rfind(|turn| matches!(turn, HistoryTurn::Assistant(_))), message, &param)?;
            continue;
        }
        if role == "assistant" {
            answered(&turns)?;
        }
        turns.push(match &*role {
            "system" | "developer" => HistoryTurn::System(content(message, ContentAuthor::Other, &param)?),
            "user" => HistoryTurn::User(content(message, ContentAuthor::User, &param)?),
            "assistant" => HistoryTurn::Assistant(assistant(message, &param)?),
            role => return Err(Untranslatable::unsaid(format!("{param}.role"), role)),
        });
    }
    answered(&turns)?;
    Ok(turns)
}

/// Checks that the calls of the model's last turn all have results. Others may speak before them: the results go to their calls.
fn answered(turns: &[HistoryTurn<'_>]) -> Result<(), Untranslatable> {
    let said = turns.iter().rev().find_map(|turn| if let HistoryTurn::Assistant(said) = turn { Some(said) } else { None });
    let Some(said) = said else { return Ok(()) };
    let missing =
        |call: &CalledTool<'_>| Untranslatable::new("messages", format!("the call `{}` has no tool message with its result", call.id));
    said.calls.iter().find(|call| call.output.is_none()).map_or(Ok(()), |call| Err(missing(call)))
}

/// Puts a tool message to its call.
fn answer<'d>(turn: Option<&mut HistoryTurn<'d>>, message: Value<'d>, param: &str) -> Result<(), Untranslatable> {
    let id = string(message, "tool_call_id", param)?.text().unwrap_or_default();
    let call = match turn {
        Some(HistoryTurn::Assistant(said)) => said.calls.iter_mut().find(|call| call.id == id && call.output.is_none()),
        _ => None,
    };
    let none = || Untranslatable::new(format!("{param}.tool_call_id"), format!("no call `{id}` without a result is in the turn before"));
    call.ok_or_else(none)?.output = Some(ToolOutput { content: content(message, ContentAuthor::Other, param)?, ended: ToolEnding::Unsaid });
    Ok(())
}

/// Author of a content; users may send more than texts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ContentAuthor {
    User,
    Other,
}

fn content<'d>(message: Value<'d>, author: ContentAuthor, param: &str) -> Result<TurnContent<'d>, Untranslatable> {
    let param = format!("{param}.content");
    match message.get_some("content") {
        None => Ok(TurnContent::Plain("\"\"".into())),
        Some(text) if text.is_string() => Ok(TurnContent::Plain(text.raw_str().into())),
        Some(parts) if parts.is_array() => {
            let each = |(at, own)| part(own, author, &format!("{param}[{at}]"));
            parts.items().enumerate().map(each).collect::<Result<_, _>>().map(TurnContent::Parts)
        }
        Some(_) => Err(Untranslatable::malformed(param, "a string or an array")),
    }
}

fn part<'d>(part: Value<'d>, author: ContentAuthor, param: &str) -> Result<ContentPart<'d>, Untranslatable> {
    match (&*kind_of(part, param)?, author) {
        ("text", _) => Ok(ContentPart::Text(string(part, "text", param)?.raw_str().into())),
        ("image_url", ContentAuthor::User) => {
            let image = inner_of(part, "image_url", param)?;
            let url = string(image, "url", &format!("{param}.image_url"))?.raw_str().into();
            Ok(ContentPart::Image { url, detail: image.get_some("detail").map(|detail| detail.raw_str().into()) })
        }
        ("file", ContentAuthor::User) => {
            let file = inner_of(part, "file", param)?;
            if file.get_some("file_id").is_some() {
                return Err(Untranslatable::unsaid(format!("{param}.file.file_id"), "file_id"));
            }
            let data = string(file, "file_data", &format!("{param}.file"))?.raw_str().into();
            Ok(ContentPart::File { name: file.get_some("filename").map(|name| name.raw_str().into()), data })
        }
        ("input_audio", ContentAuthor::User) => Ok(ContentPart::Audio(part.raw_str().into())),
        (kind, _) => Err(Untranslatable::unsaid(param, kind)),
    }
}

fn assistant<'d>(message: Value<'d>, param: &str) -> Result<AssistantHistory<'d>, Untranslatable> {
    let mut said = AssistantHistory::default();
    match message.get_some("content") {
        None => {}
        Some(text) if text.is_string() => said.texts.push((0, text.raw_str().into())),
        Some(parts) if parts.is_array() => {
            for (at, part) in parts.items().enumerate() {
                let param = format!("{param}.content[{at}]");
                match &*kind_of(part, &param)? {
                    "text" => said.texts.push((0, string(part, "text", &param)?.raw_str().into())),
                    "refusal" => said.refusal.push_str(&string(part, "refusal", &param)?.text().unwrap_or_default()),
                    kind => return Err(Untranslatable::unsaid(param, kind)),
                }
            }
        }
        Some(_) => return Err(Untranslatable::malformed(format!("{param}.content"), "a string or an array")),
    }
    if let Some(refusal) = message.get_some("refusal").and_then(Value::text) {
        said.refusal.push_str(&refusal);
    }
    for name in ["function_call", "audio"] {
        if message.get_some(name).is_some() {
            return Err(Untranslatable::unsaid(format!("{param}.{name}"), name));
        }
    }
    let calls = message.get_some("tool_calls");
    if calls.is_some_and(|calls| !calls.is_array()) {
        return Err(Untranslatable::malformed(format!("{param}.tool_calls"), "an array"));
    }
    for (at, value) in calls.into_iter().flat_map(Value::items).enumerate() {
        said.calls.push(call(value, &format!("{param}.tool_calls[{at}]"))?);
    }
    Ok(said)
}

fn call<'d>(call: Value<'d>, param: &str) -> Result<CalledTool<'d>, Untranslatable> {
    // Many applications leave the type out.
    let kind = if checked(call, param)?.get("custom").is_some() { "custom" } else { "function" };
    let (inner, inner_param) = (inner_of(call, kind, param)?, format!("{param}.{kind}"));
    let (member, form): (_, fn(_) -> _) =
        if kind == "custom" { ("input", CalledInput::Custom) } else { ("arguments", CalledInput::Arguments) };
    let input = form(string(inner, member, &inner_param)?.raw_str().into());
    let (id, name) = (string(call, "id", param)?, string(inner, "name", &inner_param)?);
    Ok(CalledTool { id: id.text().unwrap_or_default(), name: name.text().unwrap_or_default(), input, output: None })
}
