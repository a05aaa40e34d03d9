//! Writes a chat request.
//!
//! What chat has no member for is said in words: that a tool failed ([`FAILED`]), and which result an image belongs to, as a tool message
//! holds nothing but text. Source: OpenAI API reference, "Create chat completion"; docs/wire-facts.md#chat-requests. Pure.

use super::{
    Untranslatable,
    form::{
        AssistantHistory, CalledInput, CalledTool, ChosenTool, ContentPart, HistoryTurn, OfferedChoice, OfferedTool, RequestPart,
        ToolEnding, ToolInputForm, ToolOutput, TurnContent, text_of,
    },
    names::chat_name,
    push_member,
};
use crate::wire::json::string::quote;

/// Words before the result of a tool that failed.
pub(in crate::translate) const FAILED: &str = "The tool reported an error (is_error):\n";

/// Beginnings of toolmark's own results, for calls that it rejected.
const REJECTED: [&str; 2] = ["Tool call rejected: ", "Tool call not run"];

/// Writes the request, JSON.
///
/// # Errors
/// [`Untranslatable`] for a member that would stand in it twice.
pub(super) fn write(parts: Vec<RequestPart<'_>>) -> Result<String, Untranslatable> {
    let mut chat = ChatMembers::default();
    for part in parts {
        match part {
            RequestPart::History(turns) => chat.push("messages", &messages(&turns))?,
            RequestPart::Tools(tools) => chat.push("tools", &list(tools.iter().map(tool)))?,
            RequestPart::Choice(choice) => chat.push("tool_choice", &tool_choice(&choice))?,
            RequestPart::ParallelCalls(value) => chat.push("parallel_tool_calls", &value)?,
            RequestPart::MaxTokens(value) => chat.push("max_tokens", &value)?,
            RequestPart::Stop(value) => chat.push("stop", &value)?,
            RequestPart::User(value) => chat.push("user", &value)?,
            RequestPart::Effort(value) => chat.push("reasoning_effort", &value)?,
            RequestPart::JsonObject => chat.push("response_format", r#"{"type":"json_object"}"#)?,
            RequestPart::JsonSchema(inner) => {
                chat.push("response_format", &format!(r#"{{"type":"json_schema","json_schema":{inner}}}"#))?;
            }
            RequestPart::Stream(value) => {
                chat.push("stream", &value)?;
                if value == "true" {
                    chat.push("stream_options", r#"{"include_usage":true}"#)?;
                }
            }
            RequestPart::Other { name, value } => chat.push(&name, &value)?,
        }
    }
    Ok(chat.object())
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn tool(tool: &OfferedTool<'_>) -> String {
    let mut inner = String::from("{");
    push_member(&mut inner, "name", &quote(&chat_name(&tool.name)));
    if let Some(description) = &tool.description {
        push_member(&mut inner, "description", description);
    }
    let kind = match &tool.takes {
        ToolInputForm::Arguments { schema, strict } => {
            if let Some(schema) = schema {
                push_member(&mut inner, "parameters", schema);
            }
            if *strict {
                push_member(&mut inner, "strict", "true");
            }
            "function"
        }
        ToolInputForm::Custom(format) => {
            if let Some(format) = format {
                push_member(&mut inner, "format", format);
            }
            "custom"
        }
    };
    inner.push('}');
    format!(r#"{{"type":"{kind}","{kind}":{inner}}}"#)
}

fn tool_choice(choice: &OfferedChoice<'_>) -> String {
    match choice {
        OfferedChoice::Mode(mode) => mode.clone().into_owned(),
        OfferedChoice::Tool(tool) => chosen(tool),
        OfferedChoice::Allowed { mode, tools } => {
            let tools = list(tools.iter().map(chosen));
            format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":{mode},"tools":{tools}}}}}"#)
        }
    }
}

fn chosen(tool: &ChosenTool<'_>) -> String {
    let kind = match tool {
        ChosenTool::Function(_) => "function",
        ChosenTool::Custom(_) => "custom",
    };
    format!(r#"{{"type":"{kind}","{kind}":{{"name":{}}}}}"#, quote(&chat_name(tool.name())))
}

fn messages(turns: &[HistoryTurn<'_>]) -> String {
    let mut messages = Vec::new();
    for turn in turns {
        match turn {
            HistoryTurn::System(said) => messages.push(message("system", &content(said))),
            HistoryTurn::User(said) => messages.push(message("user", &content(said))),
            HistoryTurn::Assistant(said) => {
                messages.push(assistant(said));
                messages.extend(said.calls.iter().filter_map(|call| Some(result(call, call.output.as_ref()?))));
                messages.extend(media(said));
            }
        }
    }
    list(messages.into_iter())
}

fn message(role: &str, content: &str) -> String {
    format!(r#"{{"role":"{role}","content":{content}}}"#)
}

fn content(content: &TurnContent<'_>) -> String {
    match content {
        TurnContent::Plain(text) => text.clone().into_owned(),
        // Chat wants at least one part.
        TurnContent::Parts(parts) if parts.is_empty() => "\"\"".to_owned(),
        TurnContent::Parts(parts) => list(parts.iter().map(part)),
    }
}

fn part(part: &ContentPart<'_>) -> String {
    match part {
        ContentPart::Text(text) => format!(r#"{{"type":"text","text":{text}}}"#),
        ContentPart::Image { url, detail } => {
            let detail = detail.as_ref().map(|detail| format!(",\"detail\":{detail}")).unwrap_or_default();
            format!(r#"{{"type":"image_url","image_url":{{"url":{url}{detail}}}}}"#)
        }
        ContentPart::Audio(part) => part.clone().into_owned(),
        ContentPart::File { name, data } => {
            let name = name.as_ref().map(|name| format!("\"filename\":{name},")).unwrap_or_default();
            format!(r#"{{"type":"file","file":{{{name}"file_data":{data}}}}}"#)
        }
    }
}

fn assistant(said: &AssistantHistory<'_>) -> String {
    let mut message = String::from("{\"role\":\"assistant\"");
    push_member(&mut message, "content", &text(said).unwrap_or_else(|| "null".to_owned()));
    if !said.refusal.is_empty() {
        push_member(&mut message, "refusal", &quote(&said.refusal));
    }
    for (name, text) in ["reasoning_content", "reasoning"].into_iter().zip(&said.reasoning) {
        if !text.is_empty() {
            push_member(&mut message, name, &quote(text));
        }
    }
    if !said.calls.is_empty() {
        push_member(&mut message, "tool_calls", &list(said.calls.iter().map(call)));
    }
    message.push('}');
    message
}

/// The texts as one string: many chat upstreams accept nothing else from an assistant.
fn text(said: &AssistantHistory<'_>) -> Option<String> {
    if let [(_, text)] = &said.texts[..] {
        return Some(text.clone().into_owned());
    }
    let mut joined = String::new();
    let mut before = said.texts.first()?.0;
    for (message, text) in &said.texts {
        if *message != before {
            joined.push_str("\n\n");
        }
        before = *message;
        joined.push_str(&text_of(text));
    }
    Some(quote(&joined))
}

fn call(call: &CalledTool<'_>) -> String {
    let (id, name) = (quote(&call.id), quote(&chat_name(&call.name)));
    match &call.input {
        CalledInput::Arguments(text) => format!(r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{text}}}}}"#),
        CalledInput::Custom(text) => format!(r#"{{"id":{id},"type":"custom","custom":{{"name":{name},"input":{text}}}}}"#),
    }
}

fn result(call: &CalledTool<'_>, output: &ToolOutput<'_>) -> String {
    let content = match (&output.content, output.ended) {
        (said, ToolEnding::Failed) => {
            let text = match said {
                TurnContent::Plain(text) => text_of(text).into_owned(),
                TurnContent::Parts(parts) => {
                    let texts = parts.iter().filter_map(|part| if let ContentPart::Text(text) = part { Some(text_of(text)) } else { None });
                    texts.collect::<Vec<_>>().join("\n")
                }
            };
            // No tool reports what toolmark rejected, and the words say so themselves.
            if REJECTED.iter().any(|start| text.starts_with(start)) { quote(&text) } else { quote(&format!("{FAILED}{text}")) }
        }
        (TurnContent::Parts(parts), ToolEnding::Unsaid) => {
            let texts: Vec<String> = parts.iter().filter(|own| matches!(own, ContentPart::Text(_))).map(part).collect();
            if texts.is_empty() { "\"\"".to_owned() } else { list(texts.into_iter()) }
        }
        (said @ TurnContent::Plain(_), ToolEnding::Unsaid) => self::content(said),
    };
    format!(r#"{{"role":"tool","tool_call_id":{},"content":{content}}}"#, quote(&call.id))
}

/// A user message with the images and files of a turn's results.
fn media(said: &AssistantHistory<'_>) -> Option<String> {
    let mut parts = Vec::new();
    for call in &said.calls {
        let Some(ToolOutput { content: TurnContent::Parts(own), .. }) = &call.output else { continue };
        let own: Vec<String> = own.iter().filter(|own| !matches!(own, ContentPart::Text(_))).map(part).collect();
        if !own.is_empty() {
            let words = format!("From the result of the call `{}` of `{}`:", call.id, chat_name(&call.name));
            parts.push(part(&ContentPart::Text(quote(&words).into())));
            parts.extend(own);
        }
    }
    (!parts.is_empty()).then(|| message("user", &list(parts.into_iter())))
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
        if self.text.is_empty() {
            self.text.push('{');
        }
        self.text.push('}');
        self.text
    }
}
