//! Reads a Messages request, member by member.
//!
//! Consecutive messages of one role are one turn, as the API merges them. Left out, as nothing of it changes what an answer may contain:
//! `cache_control`, `context_management` (the request holds the whole conversation), thinking of earlier turns (it was signed by, and
//! for, another model), Claude Code's billing block, deferral and examples of tools. Source: Anthropic API reference, "Messages";
//! docs/wire-facts.md#messages-requests. Pure.

use std::borrow::Cow;

use super::{
    NOTE, Untranslatable, checked,
    form::{
        AssistantHistory, CalledInput, CalledTool, ChosenTool, ContentPart, HistoryTurn, OfferedChoice, OfferedTool, RequestPart,
        ToolEnding, ToolInputForm, ToolOutput, TurnContent,
    },
    kind_of, string,
};
use crate::{
    messages::thread,
    wire::json::{Kind, Value, string::quote},
};

/// Start of the block of `system` that only Anthropic reads.
const BILLING: &str = "x-anthropic-billing-header:";
/// Name of the schema of an answer, which chat demands.
const SCHEMA_NAME: &str = "answer";
/// Budget for thinking from which on the effort is medium, in tokens.
const LOW_BELOW: u64 = 4096;
/// The same for high.
const MEDIUM_BELOW: u64 = 16384;

/// Reads the request.
///
/// # Errors
/// [`Untranslatable`] for the first member at fault.
pub(super) fn read(root: Value<'_>) -> Result<Vec<RequestPart<'_>>, Untranslatable> {
    if root.get_some("messages").is_none() {
        return Err(Untranslatable::new("messages", "`messages` is missing"));
    }
    let mut parts = Vec::new();
    let (mut offered, mut choice, mut serial) = (Vec::new(), None, None);
    for member in root.members().filter(|member| !member.value.is_null()) {
        let (name, value) = (member.name(), member.value);
        let json = || Cow::Borrowed(value.raw_str());
        match &*name {
            "messages" => {
                let history = HistoryReader::read(root)?;
                offered.extend(history.offered);
                parts.push(RequestPart::History(history.turns));
            }
            "tools" => offered.splice(0..0, tools(value)?).for_each(drop),
            "tool_choice" => (choice, serial) = tool_choice(value)?,
            // `0` asks only for the cache to be filled.
            "max_tokens" if value.integer() == Some(0) => return Err(Untranslatable::uncarried("max_tokens", "0")),
            "max_tokens" => parts.push(RequestPart::MaxTokens(json())),
            // Some servers refuse an empty list.
            "stop_sequences" if value.is_array() && value.items().next().is_none() => {}
            "stop_sequences" => parts.push(RequestPart::Stop(json())),
            "stream" => parts.push(RequestPart::Stream(json())),
            "model" | "temperature" | "top_p" | "top_k" => parts.push(RequestPart::Other { value: json(), name }),
            "metadata" => parts.extend(value.get_some("user_id").map(|user| RequestPart::User(user.raw_str().into()))),
            "thinking" => parts.extend(effort_of_thinking(root, value)),
            "output_config" => output_config(&mut parts, value)?,
            "output_format" => parts.push(answer_format(value, &name)?),
            "service_tier" if value.is_text("standard_only") => return Err(Untranslatable::uncarried(name, "standard_only")),
            // `system` goes with `messages`.
            "system" | "cache_control" | "context_management" | "diagnostics" | "service_tier" | "speed" => {}
            "thread" => {
                let message = format!("{}; it keeps no conversations: send all messages, without `thread`", thread::CAPABILITY_REJECTED);
                return Err(Untranslatable { code: thread::UNSUPPORTED, ..Untranslatable::new(name, message) });
            }
            "container" | "mcp_servers" | "fallbacks" | "inference_geo" => {
                return Err(Untranslatable::uncarried(&*name, &name));
            }
            _ => return Err(Untranslatable::uncarried(&*name, "a member unknown to toolmark")),
        }
    }
    // Chat refuses a choice where there is no tool.
    if !offered.is_empty() {
        parts.push(RequestPart::Tools(offered));
        parts.extend(choice.map(RequestPart::Choice));
        parts.extend(serial);
    }
    Ok(parts)
}

/// Reasoning effort for a thinking budget; `output_config.effort` says it better.
fn effort_of_thinking<'d>(root: Value<'d>, thinking: Value<'d>) -> Option<RequestPart<'d>> {
    if root.get("output_config").and_then(|config| config.get_some("effort")).is_some() {
        return None;
    }
    let budget = thinking.get("budget_tokens").and_then(Value::integer)?;
    let effort = match budget {
        ..LOW_BELOW => "\"low\"",
        LOW_BELOW..MEDIUM_BELOW => "\"medium\"",
        _ => "\"high\"",
    };
    Some(RequestPart::Effort(effort.into()))
}

fn output_config<'d>(parts: &mut Vec<RequestPart<'d>>, config: Value<'d>) -> Result<(), Untranslatable> {
    for member in checked(config, "output_config")?.members().filter(|member| !member.value.is_null()) {
        match &*member.name() {
            "effort" => parts.push(RequestPart::Effort(match member.value.text().as_deref() {
                // Chat has no more than this.
                Some("xhigh" | "max") => "\"high\"".into(),
                _ => member.value.raw_str().into(),
            })),
            "format" => parts.push(answer_format(member.value, "output_config.format")?),
            name => return Err(Untranslatable::uncarried(format!("output_config.{name}"), name)),
        }
    }
    Ok(())
}

fn answer_format<'d>(format: Value<'d>, param: &str) -> Result<RequestPart<'d>, Untranslatable> {
    let kind = kind_of(format, param)?;
    let schema = format.get("schema").filter(|schema| kind == "json_schema" && schema.is_object());
    let schema = schema.ok_or_else(|| Untranslatable::uncarried(param, &kind))?;
    Ok(RequestPart::JsonSchema(format!(r#"{{"name":"{SCHEMA_NAME}","schema":{},"strict":true}}"#, schema.raw_str()).into()))
}

fn tools(tools: Value<'_>) -> Result<Vec<OfferedTool<'_>>, Untranslatable> {
    if !tools.is_array() {
        return Err(Untranslatable::malformed("tools", "an array"));
    }
    tools.items().enumerate().map(|(at, value)| tool(value, &format!("tools[{at}]"))).collect()
}

/// A tool with a schema; the others run at Anthropic, or are known to Anthropic's models only.
fn tool<'d>(tool: Value<'d>, param: &str) -> Result<OfferedTool<'d>, Untranslatable> {
    let kind = checked(tool, param)?.get_some("type").and_then(Value::text);
    if let Some(kind) = kind.filter(|kind| *kind != "custom") {
        return Err(Untranslatable::uncarried(param, &kind));
    }
    Ok(OfferedTool {
        name: string(tool, "name", param)?.text().unwrap_or_default(),
        description: tool.get_some("description").map(|text| text.raw_str().into()),
        takes: ToolInputForm::Arguments {
            schema: tool.get_some("input_schema").map(|schema| schema.raw_str().into()),
            strict: tool.get("strict").is_some_and(|strict| strict.kind() == Kind::True),
        },
    })
}

type ChoiceParts<'d> = (Option<OfferedChoice<'d>>, Option<RequestPart<'d>>);

/// The choice, and whether calls come one at a time.
fn tool_choice(choice: Value<'_>) -> Result<ChoiceParts<'_>, Untranslatable> {
    const PARAM: &str = "tool_choice";
    let choice_of = match &*kind_of(choice, PARAM)? {
        "auto" => OfferedChoice::Mode("\"auto\"".into()),
        "any" => OfferedChoice::Mode("\"required\"".into()),
        "none" => OfferedChoice::Mode("\"none\"".into()),
        "tool" => OfferedChoice::Tool(ChosenTool::Function(string(choice, "name", PARAM)?.text().unwrap_or_default())),
        kind => return Err(Untranslatable::uncarried(PARAM, kind)),
    };
    let serial = choice.get("disable_parallel_tool_use").is_some_and(|own| own.kind() == Kind::True);
    Ok((Some(choice_of), serial.then(|| RequestPart::ParallelCalls("false".into()))))
}

/// Reads `system` and `messages`.
#[derive(Default)]
struct HistoryReader<'d> {
    turns: Vec<HistoryTurn<'d>>,
    /// Tools that messages define.
    offered: Vec<OfferedTool<'d>>,
    /// Index of the last turn of the model.
    last: Option<usize>,
    /// Role of the message before; a message of the same role goes on with it.
    role: Cow<'d, str>,
    /// Messages in the last turn of the model.
    messages: usize,
}

impl<'d> HistoryReader<'d> {
    fn read(root: Value<'d>) -> Result<Self, Untranslatable> {
        let mut reader = Self::default();
        if let Some(system) = root.get_some("system") {
            let texts = texts(system, "system")?;
            let texts: Vec<Cow<'_, str>> = texts.into_iter().filter(|text| !text.starts_with(BILLING)).collect();
            if !texts.is_empty() {
                reader.turns.push(HistoryTurn::System(TurnContent::Plain(quote(&texts.join("\n\n")).into())));
            }
        }
        let messages = root.get("messages").filter(|messages| messages.is_array());
        let messages = messages.ok_or_else(|| Untranslatable::malformed("messages", "an array"))?;
        for (at, message) in messages.items().enumerate() {
            reader.message(message, &format!("messages.{at}"))?;
        }
        reader.check_results()?;
        // Thoughts alone are no turn.
        reader.turns.retain(|turn| !matches!(turn, HistoryTurn::Assistant(said) if said.is_empty()));
        Ok(reader)
    }

    /// Adds what the user says, to the turn before if that is the user's too.
    fn say(&mut self, parts: Vec<ContentPart<'d>>) {
        match self.turns.last_mut() {
            Some(HistoryTurn::User(TurnContent::Parts(before))) => before.extend(parts),
            _ => self.turns.push(HistoryTurn::User(TurnContent::Parts(parts))),
        }
    }

    fn message(&mut self, message: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        let role = string(checked(message, param)?, "role", param)?.text().unwrap_or_default();
        let content =
            message.get("content").ok_or_else(|| Untranslatable::malformed(format!("{param}.content"), "a string or an array"))?;
        let param = format!("{param}.content");
        match &*role {
            "user" => self.user(content, &param)?,
            "assistant" => self.assistant(content, &param)?,
            "system" => self.system(content, &param)?,
            role => return Err(Untranslatable::uncarried(param, role)),
        }
        self.role = role;
        Ok(())
    }

    /// Checks that the calls of the last turn of the model all have results.
    fn check_results(&self) -> Result<(), Untranslatable> {
        let Some(HistoryTurn::Assistant(said)) = self.last.and_then(|at| self.turns.get(at)) else { return Ok(()) };
        let missing: Vec<&str> = said.calls.iter().filter(|call| call.output.is_none()).map(|call| &*call.id).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => {
                let message = format!("`tool_use` ids were found without `tool_result` blocks immediately after: {}", missing.join(", "));
                Err(Untranslatable::new("messages", message))
            }
        }
    }

    fn user(&mut self, content: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        if content.is_string() {
            self.say(vec![ContentPart::Text(content.raw_str().into())]);
            return Ok(());
        }
        let mut parts = Vec::new();
        for (param, block) in blocks(content, param)? {
            match &*kind_of(block, &param)? {
                "tool_result" => self.result(block, &param)?,
                _ => parts.extend(self::parts(block, &param)?),
            }
        }
        if !parts.is_empty() {
            self.say(parts);
        }
        Ok(())
    }

    /// Puts a result to its call in the last turn of the model.
    fn result(&mut self, block: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        let id = string(block, "tool_use_id", param)?.text().unwrap_or_default();
        let call = match self.last.and_then(|at| self.turns.get_mut(at)) {
            Some(HistoryTurn::Assistant(said)) => said.calls.iter_mut().find(|call| call.id == id && call.output.is_none()),
            _ => None,
        };
        let none = || {
            let message = format!("{param}: unexpected `tool_use_id` found in `tool_result` blocks: {id}");
            Untranslatable::new(param, message)
        };
        let failed = block.get("is_error").is_some_and(|failed| failed.kind() == Kind::True);
        let ended = if failed { ToolEnding::Failed } else { ToolEnding::Unsaid };
        call.ok_or_else(none)?.output = Some(ToolOutput { content: result_content(block, param)?, ended });
        Ok(())
    }

    fn assistant(&mut self, content: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        if self.role != "assistant" {
            self.check_results()?;
            self.last = Some(self.turns.len());
            self.messages = 0;
            self.turns.push(HistoryTurn::Assistant(AssistantHistory::default()));
        }
        let number = self.messages;
        self.messages += 1;
        let Some(HistoryTurn::Assistant(said)) = self.last.and_then(|at| self.turns.get_mut(at)) else { return Ok(()) };
        if content.is_string() {
            said.texts.push((number, content.raw_str().into()));
            return Ok(());
        }
        for (param, block) in blocks(content, param)? {
            match &*kind_of(block, &param)? {
                "text" => said.texts.push((number, string(block, "text", &param)?.raw_str().into())),
                "thinking" | "redacted_thinking" => {}
                "tool_use" => said.calls.push(call(block, &param)?),
                kind => return Err(Untranslatable::uncarried(param, kind)),
            }
        }
        Ok(())
    }

    /// Reads a system message: as a text of the user, and tools that it defines.
    fn system(&mut self, content: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        let mut texts = Vec::new();
        if content.is_string() {
            texts.push(content.text().unwrap_or_default());
        } else {
            for (param, block) in blocks(content, param)? {
                match &*kind_of(block, &param)? {
                    "text" => texts.push(string(block, "text", &param)?.text().unwrap_or_default()),
                    "tool_addition" => self.addition(block, &param)?,
                    kind => return Err(Untranslatable::uncarried(param, kind)),
                }
            }
        }
        if !texts.is_empty() {
            self.say(vec![text_part(&format!("{NOTE}{}", texts.join("\n")))]);
        }
        Ok(())
    }

    /// Reads a tool that is offered from here on: chat offers it from the start.
    fn addition(&mut self, block: Value<'d>, param: &str) -> Result<(), Untranslatable> {
        let added = block.get_some("tool").unwrap_or(block);
        // A reference is to one of `tools`, where it stands anyway.
        if let Some(definition) = added.get_some("definition") {
            self.offered.push(tool(definition, &format!("{param}.definition"))?);
        }
        Ok(())
    }
}

/// The blocks of a content with their places.
fn blocks<'d>(content: Value<'d>, param: &str) -> Result<Vec<(String, Value<'d>)>, Untranslatable> {
    if !content.is_array() {
        return Err(Untranslatable::malformed(param, "a string or an array"));
    }
    Ok(content.items().enumerate().map(|(at, block)| (format!("{param}.{at}"), block)).collect())
}

/// The texts of `system`.
fn texts<'d>(content: Value<'d>, param: &str) -> Result<Vec<Cow<'d, str>>, Untranslatable> {
    if let Some(text) = content.text() {
        return Ok(vec![text]);
    }
    let text = |(param, block): (String, Value<'d>)| match &*kind_of(block, &param)? {
        "text" => Ok(string(block, "text", &param)?.text().unwrap_or_default()),
        kind => Err(Untranslatable::uncarried(param, kind)),
    };
    blocks(content, param)?.into_iter().map(text).collect()
}

/// The parts that a block of a user becomes.
fn parts<'d>(block: Value<'d>, param: &str) -> Result<Vec<ContentPart<'d>>, Untranslatable> {
    match &*kind_of(block, param)? {
        "text" => Ok(vec![ContentPart::Text(string(block, "text", param)?.raw_str().into())]),
        "image" => Ok(vec![ContentPart::Image { url: url(block, param)?, detail: None }]),
        "document" => document(block, param),
        "search_result" => {
            uncited(block, param)?;
            let named = |name: &str| block.get(name).and_then(Value::text).unwrap_or_default();
            let mut all = vec![text_part(&format!("{}\n{}", named("title"), named("source")))];
            for (param, inner) in blocks(member(block, "content", param)?, &format!("{param}.content"))? {
                all.extend(parts(inner, &param)?);
            }
            Ok(all)
        }
        "tool_reference" => {
            let name = string(block, "tool_name", param)?.text().unwrap_or_default();
            Ok(vec![text_part(&format!("The tool `{}` is available.", super::names::chat_name(&name)))])
        }
        kind => Err(Untranslatable::uncarried(param, kind)),
    }
}

fn text_part<'d>(text: &str) -> ContentPart<'d> {
    ContentPart::Text(quote(text).into())
}

fn member<'d>(object: Value<'d>, name: &str, param: &str) -> Result<Value<'d>, Untranslatable> {
    object.get(name).ok_or_else(|| Untranslatable::malformed(format!("{param}.{name}"), "there"))
}

/// Refuses a source that the answer should cite: chat has no place for citations.
fn uncited(block: Value<'_>, param: &str) -> Result<(), Untranslatable> {
    let asked = block.get_some("citations").and_then(|own| own.get("enabled")).is_some_and(|own| own.kind() == Kind::True);
    if asked { Err(Untranslatable::uncarried(format!("{param}.citations"), "citations")) } else { Ok(()) }
}

fn document<'d>(block: Value<'d>, param: &str) -> Result<Vec<ContentPart<'d>>, Untranslatable> {
    uncited(block, param)?;
    let source_param = format!("{param}.source");
    let source = member(block, "source", param)?;
    let mut head = Vec::new();
    for name in ["title", "context"] {
        head.extend(block.get_some(name).and_then(Value::text).map(|text| text_part(&text)));
    }
    match &*kind_of(source, &source_param)? {
        "text" => {
            head.push(ContentPart::Text(string(source, "data", &source_param)?.raw_str().into()));
            Ok(head)
        }
        "content" => {
            let content = member(source, "content", &source_param)?;
            if content.is_string() {
                head.push(ContentPart::Text(content.raw_str().into()));
                return Ok(head);
            }
            for (param, inner) in blocks(content, &source_param)? {
                head.extend(parts(inner, &param)?);
            }
            Ok(head)
        }
        "base64" => {
            let name = block.get_some("title").map(|title| title.raw_str().into());
            Ok(vec![ContentPart::File { name: name.or(Some("\"document.pdf\"".into())), data: url(block, param)? }])
        }
        kind => Err(Untranslatable::uncarried(source_param, kind)),
    }
}

/// The URL of an image or document, a string.
fn url<'d>(block: Value<'d>, param: &str) -> Result<Cow<'d, str>, Untranslatable> {
    let param = format!("{param}.source");
    let source = block.get("source").ok_or_else(|| Untranslatable::malformed(&*param, "an object"))?;
    match &*kind_of(source, &param)? {
        "url" => Ok(string(source, "url", &param)?.raw_str().into()),
        "base64" => {
            let kind = string(source, "media_type", &param)?.text().unwrap_or_default();
            let data = string(source, "data", &param)?.text().unwrap_or_default();
            Ok(quote(&format!("data:{kind};base64,{data}")).into())
        }
        kind => Err(Untranslatable::uncarried(param, kind)),
    }
}

/// The content of a result: one string if it has only texts.
fn result_content<'d>(block: Value<'d>, param: &str) -> Result<TurnContent<'d>, Untranslatable> {
    let param = format!("{param}.content");
    match block.get_some("content") {
        None => Ok(TurnContent::Plain("\"\"".into())),
        Some(text) if text.is_string() => Ok(TurnContent::Plain(text.raw_str().into())),
        Some(content) => {
            let mut all = Vec::new();
            for (param, inner) in blocks(content, &param)? {
                all.extend(parts(inner, &param)?);
            }
            if !all.iter().all(|part| matches!(part, ContentPart::Text(_))) {
                return Ok(TurnContent::Parts(all));
            }
            let texts: Vec<_> = all.iter().filter_map(|part| if let ContentPart::Text(text) = part { Some(text) } else { None }).collect();
            if let [text] = texts[..] {
                return Ok(TurnContent::Plain(text.clone()));
            }
            let texts: Vec<_> = texts.into_iter().map(super::form::text_of).collect();
            Ok(TurnContent::Plain(quote(&texts.join("\n")).into()))
        }
    }
}

fn call<'d>(block: Value<'d>, param: &str) -> Result<CalledTool<'d>, Untranslatable> {
    if let Some(caller) = block.get_some("caller").filter(|caller| !super::kind_is(*caller, "direct")) {
        return Err(Untranslatable::uncarried(format!("{param}.caller"), &kind_of(caller, &format!("{param}.caller"))?));
    }
    if block.get_some("toolset_name").is_some() {
        return Err(Untranslatable::uncarried(format!("{param}.toolset_name"), "toolset_name"));
    }
    let input = block.get("input").filter(|input| input.is_object());
    let input = input.ok_or_else(|| Untranslatable::malformed(format!("{param}.input"), "an object"))?;
    let (id, name) = (string(block, "id", param)?, string(block, "name", param)?);
    Ok(CalledTool {
        id: id.text().unwrap_or_default(),
        name: name.text().unwrap_or_default(),
        input: CalledInput::Arguments(quote(input.raw_str()).into()),
        output: None,
    })
}
