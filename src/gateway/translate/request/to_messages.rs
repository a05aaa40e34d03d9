//! Writes a Messages request.
//!
//! Roles are merged; the results of a turn stand first in the user message after it, as the API demands. Leading system messages become
//! `system`, later ones a text of the user ([`NOTE`]), so that what was sent before keeps its place. `max_tokens` is obligatory: a request
//! without it gets [`MAX_TOKENS`]. Hints that change nothing in what an answer may contain are left out ([`IGNORED`]); everything else
//! that the API has no member for is refused by name. A custom tool becomes one that takes its text as the argument [`CUSTOM_INPUT`].
//! Reasoning isn't sent back: it has no signature. Source: Anthropic API reference,
//! "Messages"; docs/wire-facts.md#messages-requests. Pure.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    NOTE, Untranslatable,
    form::{
        AssistantHistory, CalledInput, ContentPart, HistoryTurn, Json, OfferedChoice, OfferedTool, RequestPart, ToolEnding, ToolInputForm,
        TurnContent, text_of,
    },
    kind_is,
    names::messages_id,
    push_member,
};
use crate::wire::json::{Document, string::quote};

/// Limit for an answer where the request has none, in tokens: no current model has a lower maximum.
const MAX_TOKENS: &str = "32000";
/// The same for Claude 3, whose maximum is lower.
const MAX_TOKENS_CLAUDE_3: &str = "4096";
/// The one argument of a custom tool, its text.
pub(in crate::translate) const CUSTOM_INPUT: &str = "input";
/// Members that both APIs share.
const SHARED: [&str; 5] = ["model", "temperature", "top_p", "top_k", "thinking"];
/// Members that only tune, label or store: an answer without them says the same. The streaming options concern only the writer of the
/// answer.
const IGNORED: [&str; 9] = [
    "stream_options",
    "store",
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "seed",
    "verbosity",
];

/// Writes the request, JSON.
///
/// # Errors
/// [`Untranslatable`] for the first member that the API can't carry.
pub(super) fn write(parts: Vec<RequestPart<'_>>) -> Result<String, Untranslatable> {
    let claude_3 = parts
        .iter()
        .any(|part| matches!(part, RequestPart::Other { name, value } if name == "model" && text_of(value).starts_with("claude-3")));
    let mut max_tokens = Json::Borrowed(if claude_3 { MAX_TOKENS_CLAUDE_3 } else { MAX_TOKENS });
    let (mut body, mut output_config) = (String::from("{"), String::from("{"));
    let (mut choice, mut parallel, mut offers_tools) = (None, None, false);
    for part in parts {
        match part {
            RequestPart::History(turns) => history(&mut body, &turns)?,
            RequestPart::Tools(tools) => {
                offers_tools = true;
                push_member(&mut body, "tools", &all(tools.iter().enumerate().map(|(at, own)| tool(own, &format!("tools[{at}]"))))?);
            }
            RequestPart::Choice(own) => choice = Some(own),
            RequestPart::ParallelCalls(own) => parallel = Some(own),
            RequestPart::MaxTokens(own) => max_tokens = own,
            RequestPart::Stop(stop) => {
                let list = if stop.starts_with('[') { stop.into_owned() } else { format!("[{stop}]") };
                push_member(&mut body, "stop_sequences", &list);
            }
            RequestPart::User(user) => push_member(&mut body, "metadata", &format!("{{\"user_id\":{user}}}")),
            RequestPart::Effort(effort) => match &*text_of(&effort) {
                // Thinking isn't asked for here.
                "none" => {}
                "minimal" => push_member(&mut output_config, "effort", "\"low\""),
                _ => push_member(&mut output_config, "effort", &effort),
            },
            RequestPart::JsonObject => return Err(Untranslatable::unsaid("response_format", "json_object")),
            RequestPart::JsonSchema(inner) => {
                let document = Document::parse(Bytes::from(inner.into_owned()));
                let document = document.map_err(|_| Untranslatable::malformed("response_format", "JSON"))?;
                let schema = document.root().get_some("schema").filter(|schema| schema.is_object());
                let schema = schema.ok_or_else(|| Untranslatable::malformed("response_format.json_schema.schema", "an object"))?;
                push_member(&mut output_config, "format", &format!(r#"{{"type":"json_schema","schema":{}}}"#, schema.raw_str()));
            }
            RequestPart::Stream(value) => push_member(&mut body, "stream", &value),
            RequestPart::Other { name, value } if SHARED.contains(&&*name) => push_member(&mut body, &name, &value),
            RequestPart::Other { name, .. } if IGNORED.contains(&&*name) => {}
            RequestPart::Other { name, value } => other(&name, &value)?,
        }
    }
    push_member(&mut body, "max_tokens", &max_tokens);
    if offers_tools && let Some(choice) = tool_choice(choice.as_ref(), parallel.as_deref())? {
        push_member(&mut body, "tool_choice", &choice);
    }
    if output_config.len() > 1 {
        output_config.push('}');
        push_member(&mut body, "output_config", &output_config);
    }
    body.push('}');
    Ok(body)
}

/// Refuses a member, unless its value is what the API does anyway.
fn other(name: &str, value: &str) -> Result<(), Untranslatable> {
    let usual = match name {
        "n" => value == "1",
        "frequency_penalty" | "presence_penalty" => value.parse::<f64>().is_ok_and(|penalty| penalty == 0.0),
        "logprobs" => value == "false",
        "top_logprobs" => value == "0",
        "logit_bias" => value.chars().all(|letter| letter.is_whitespace() || matches!(letter, '{' | '}')),
        "modalities" => text_only(value),
        _ => false,
    };
    if usual { Ok(()) } else { Err(Untranslatable::unsaid(name, name)) }
}

fn text_only(value: &str) -> bool {
    let inside = value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).unwrap_or_default();
    inside.trim() == "\"text\""
}

/// A JSON array of the items, or the first error.
fn all(items: impl Iterator<Item = Result<String, Untranslatable>>) -> Result<String, Untranslatable> {
    Ok(format!("[{}]", items.collect::<Result<Vec<_>, _>>()?.join(",")))
}

fn tool(tool: &OfferedTool<'_>, param: &str) -> Result<String, Untranslatable> {
    let (schema, strict) = match &tool.takes {
        ToolInputForm::Arguments { schema, strict } => {
            (schema.as_deref().unwrap_or(r#"{"type":"object","properties":{}}"#).into(), *strict)
        }
        ToolInputForm::Custom(format) if format.as_deref().is_none_or(is_plain_text) => (custom_schema(), false),
        ToolInputForm::Custom(_) => return Err(Untranslatable::unsaid(format!("{param}.format"), "grammar")),
    };
    let mut out = String::from("{");
    push_member(&mut out, "name", &quote(&tool.name));
    if let Some(description) = &tool.description {
        push_member(&mut out, "description", description);
    }
    push_member(&mut out, "input_schema", &schema);
    if strict {
        push_member(&mut out, "strict", "true");
    }
    out.push('}');
    Ok(out)
}

/// Schema of a custom tool.
fn custom_schema() -> Cow<'static, str> {
    let input = CUSTOM_INPUT;
    format!(r#"{{"type":"object","properties":{{"{input}":{{"type":"string"}}}},"required":["{input}"],"additionalProperties":false}}"#)
        .into()
}

/// True if the format of a custom tool allows any text.
fn is_plain_text(format: &str) -> bool {
    let document = Document::parse(Bytes::copy_from_slice(format.as_bytes()));
    document.is_ok_and(|document| kind_is(document.root(), "text"))
}

/// `tool_choice`; `None` if it says nothing but the default. `parallel`: raw value of `parallel_tool_calls`.
fn tool_choice(choice: Option<&OfferedChoice<'_>>, parallel: Option<&str>) -> Result<Option<String>, Untranslatable> {
    let one_at_a_time = parallel == Some("false");
    let inner = match choice {
        None if !one_at_a_time => return Ok(None),
        None => r#""type":"auto""#.to_owned(),
        Some(OfferedChoice::Mode(mode)) => match &*text_of(mode) {
            "auto" => r#""type":"auto""#.to_owned(),
            // Without a call there is nothing in parallel.
            "none" => return Ok(Some(r#"{"type":"none"}"#.to_owned())),
            "required" | "any" => r#""type":"any""#.to_owned(),
            mode => return Err(Untranslatable::unsaid("tool_choice", mode)),
        },
        Some(OfferedChoice::Tool(tool)) => format!(r#""type":"tool","name":{}"#, quote(tool.name())),
        Some(OfferedChoice::Allowed { .. }) => return Err(Untranslatable::unsaid("tool_choice", "allowed_tools")),
    };
    let serial = if one_at_a_time { r#","disable_parallel_tool_use":true"# } else { "" };
    Ok(Some(format!("{{{inner}{serial}}}")))
}

/// Writes `system` and `messages`.
fn history(body: &mut String, turns: &[HistoryTurn<'_>]) -> Result<(), Untranslatable> {
    let leading = turns.iter().take_while(|turn| matches!(turn, HistoryTurn::System(_))).count();
    let (system, turns) = turns.split_at(leading);
    let mut blocks = Vec::new();
    for turn in system {
        if let HistoryTurn::System(content) = turn {
            self::blocks(content, &mut blocks, "messages")?;
        }
    }
    if !blocks.is_empty() {
        push_member(body, "system", &format!("[{}]", blocks.join(",")));
    }
    let mut messages = MessagesWriter::default();
    for turn in turns {
        match turn {
            HistoryTurn::System(content) => messages.user_text(&format!("{NOTE}{}", joined(content))),
            HistoryTurn::User(content) => blocks_into(content, &mut messages)?,
            HistoryTurn::Assistant(said) => messages.assistant(said)?,
        }
    }
    push_member(body, "messages", &messages.finish());
    Ok(())
}

fn joined(content: &TurnContent<'_>) -> String {
    match content {
        TurnContent::Plain(text) => text_of(text).into_owned(),
        TurnContent::Parts(parts) => {
            let texts = parts.iter().filter_map(|part| if let ContentPart::Text(text) = part { Some(text_of(text)) } else { None });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

fn blocks_into(content: &TurnContent<'_>, messages: &mut MessagesWriter) -> Result<(), Untranslatable> {
    let mut own = Vec::new();
    blocks(content, &mut own, "messages")?;
    messages.user(own);
    Ok(())
}

/// Appends the blocks of a content; blank texts are left out, as the API refuses them.
fn blocks(content: &TurnContent<'_>, out: &mut Vec<String>, param: &str) -> Result<(), Untranslatable> {
    match content {
        TurnContent::Plain(text) => out.extend(text_block(text)),
        TurnContent::Parts(parts) => {
            for part in parts {
                out.extend(block(part, param)?);
            }
        }
    }
    Ok(())
}

fn text_block(text: &Json<'_>) -> Option<String> {
    (!text_of(text).trim().is_empty()).then(|| format!(r#"{{"type":"text","text":{text}}}"#))
}

fn block(part: &ContentPart<'_>, param: &str) -> Result<Option<String>, Untranslatable> {
    match part {
        ContentPart::Text(text) => Ok(text_block(text)),
        ContentPart::Image { url, .. } => Ok(Some(format!(r#"{{"type":"image","source":{}}}"#, source(url, param)?))),
        ContentPart::Audio(_) => Err(Untranslatable::unsaid(param, "input_audio")),
        ContentPart::File { name, data } => {
            let title = name.as_ref().map(|name| format!(",\"title\":{name}")).unwrap_or_default();
            Ok(Some(format!(r#"{{"type":"document","source":{}{title}}}"#, source(data, param)?)))
        }
    }
}

/// The source of an image or document for a URL.
fn source(url: &Json<'_>, param: &str) -> Result<String, Untranslatable> {
    let text = text_of(url);
    let Some(data) = text.strip_prefix("data:") else { return Ok(format!(r#"{{"type":"url","url":{url}}}"#)) };
    let (kind, data) = data.split_once(";base64,").ok_or_else(|| Untranslatable::unsaid(param, "a `data:` URL without base64"))?;
    let kind = kind.split(';').next().unwrap_or_default();
    Ok(format!(r#"{{"type":"base64","media_type":{},"data":{}}}"#, quote(kind), quote(data)))
}

/// Author of the message that is being written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Author {
    #[default]
    Nobody,
    User,
    Assistant,
}

/// The messages, roles merged.
#[derive(Default)]
struct MessagesWriter {
    messages: Vec<String>,
    author: Author,
    /// Blocks of the last message.
    blocks: Vec<String>,
}

impl MessagesWriter {
    fn turn_to(&mut self, author: Author) {
        if self.author == author {
            return;
        }
        let role = match std::mem::replace(&mut self.author, author) {
            Author::Assistant => "assistant",
            Author::User | Author::Nobody => "user",
        };
        let blocks = std::mem::take(&mut self.blocks);
        // A message of blank texts alone says nothing, and would be refused.
        if !blocks.is_empty() {
            self.messages.push(format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(",")));
        }
    }

    fn user(&mut self, blocks: Vec<String>) {
        if !blocks.is_empty() {
            self.turn_to(Author::User);
            self.blocks.extend(blocks);
        }
    }

    fn user_text(&mut self, text: &str) {
        self.user(vec![format!(r#"{{"type":"text","text":{}}}"#, quote(text))]);
    }

    fn assistant(&mut self, said: &AssistantHistory<'_>) -> Result<(), Untranslatable> {
        let mut texts: Vec<String> = Vec::new();
        let mut before = None;
        for (message, text) in &said.texts {
            // Texts of one message are parts of one text.
            match texts.last_mut().filter(|_| before == Some(*message)) {
                Some(last) => last.push_str(&text_of(text)),
                None => texts.push(text_of(text).into_owned()),
            }
            before = Some(*message);
        }
        let refusal = Some(said.refusal.clone());
        let texts = texts.into_iter().chain(refusal).filter(|text| !text.trim().is_empty());
        let mut blocks: Vec<String> = texts.map(|text| format!(r#"{{"type":"text","text":{}}}"#, quote(&text))).collect();
        let mut results = Vec::new();
        for call in &said.calls {
            let input = match &call.input {
                CalledInput::Arguments(arguments) => input(&text_of(arguments), &call.id)?,
                CalledInput::Custom(text) => format!(r#"{{"{CUSTOM_INPUT}":{text}}}"#),
            };
            let (id, name) = (quote(&messages_id(&call.id)), quote(&call.name));
            blocks.push(format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}"#));
            let Some(output) = &call.output else { continue };
            let content = match &output.content {
                TurnContent::Plain(text) => text.clone().into_owned(),
                content @ TurnContent::Parts(_) => {
                    let mut own = Vec::new();
                    self::blocks(content, &mut own, "messages")?;
                    format!("[{}]", own.join(","))
                }
            };
            let failed = if output.ended == ToolEnding::Failed { ",\"is_error\":true" } else { "" };
            results.push(format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{content}{failed}}}"#));
        }
        if !blocks.is_empty() {
            self.turn_to(Author::Assistant);
            self.blocks.extend(blocks);
        }
        self.user(results);
        Ok(())
    }

    fn finish(mut self) -> String {
        self.turn_to(Author::Nobody);
        format!("[{}]", self.messages.join(","))
    }
}

/// The input of a call, an object.
fn input(arguments: &str, id: &str) -> Result<String, Untranslatable> {
    if arguments.trim().is_empty() {
        return Ok("{}".to_owned());
    }
    match Document::parse(Bytes::copy_from_slice(arguments.as_bytes())) {
        Ok(document) if document.root().is_object() => Ok(document.root().raw_str().to_owned()),
        _ => Err(Untranslatable::new("messages", format!("the arguments of the call `{id}` are no JSON object, as this upstream demands"))),
    }
}
