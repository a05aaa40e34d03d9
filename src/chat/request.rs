//! A chat-completions request: read once, verified, and prepared for the upstream by splices.
//!
//! Source: OpenAI API reference, "Create chat completion". Pure. What toolmark needs not understand
//! passes; what it must understand and can't is refused here.

use std::borrow::Cow;

use bytes::Bytes;

use super::tools::{ToolSet, ToolsEdit};
use crate::{
    judge::{
        call::CallKind,
        history::{self, Adjacency, Execution, History, Item, PastCall, PastResult},
        marks::{KeyRing, Scope},
        stamp::{self, Nature, Stamp},
        call_turn::ToolChoice,
        reply,
        violation::{Code, Violation},
    },
    policy::{Mode, rules::Rules},
    wire::{
        edit::Edits,
        json::{Document, Value},
        text::quote,
    },
};

/// Why a request is refused before anything is sent: HTTP 400.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// `error.code`
    pub code: &'static str,
    /// `error.message`
    pub message: String,
    /// `error.param`
    pub param: Option<&'static str>,
}

impl Refusal {
    fn new(code: &'static str, param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param }
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

/// What the upstream that will serve the request demands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Upstream {
    /// Call ids of nine alphanumerics (Mistral).
    pub short_ids: bool,
    /// What `tool_choice` is asked for where the request says nothing and has tools.
    pub tool_choice: Option<&'static str>,
}

/// What preparing needs besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'i> {
    /// The policy.
    pub rules: &'i Rules,
    /// The keys.
    pub ring: &'i KeyRing,
    /// Whose marks count.
    pub scope: &'i Scope,
    /// Unix milliseconds.
    pub now_ms: u64,
    /// The upstream's needs.
    pub upstream: Upstream,
}

/// What a request says, as far as toolmark must know.
#[derive(Clone, Debug)]
pub struct Head<'d> {
    /// The model asked for; empty where none is named.
    pub model: Cow<'d, str>,
    /// Server-sent events are asked for.
    pub stream: bool,
    /// Answers asked for.
    pub choices: u64,
    /// `response_format` asks for JSON.
    pub json_only: bool,
    /// The tools as they lie in the request.
    pub tools: Option<Value<'d>>,
    /// The legacy `functions`.
    pub functions: Option<Value<'d>>,
    messages: Value<'d>,
}

impl<'d> Head<'d> {
    /// Reads what must be known before an upstream is chosen.
    ///
    /// # Errors
    /// [`Refusal`] for members of a wrong type and for two members of one name where it matters.
    pub fn read(document: &'d Document) -> Result<Self, Refusal> {
        let root = document.root();
        if !root.is_object() {
            return Err(Refusal::new("invalid_request", None, "the request must be a JSON object"));
        }
        unique(root, "the request")?;
        let (mut head, mut messages) = (
            Self {
                model: Cow::Borrowed(""),
                stream: false,
                choices: 1,
                json_only: false,
                tools: None,
                functions: None,
                messages: root,
            },
            None,
        );
        for member in root.members() {
            let value = member.value;
            match &*member.name() {
                "model" => head.model = value.text().ok_or_else(|| wrong("model", "a string"))?,
                "messages" => messages = Some(value),
                "stream" => head.stream = value.raw() == b"true",
                "n" if !value.is_null() => head.choices = value.integer().ok_or_else(|| wrong("n", "a whole number"))?,
                "tools" if !value.is_null() => head.tools = Some(array(value, "tools")?),
                "functions" if !value.is_null() => head.functions = Some(array(value, "functions")?),
                "response_format" => {
                    let kind = value.get("type").and_then(Value::text);
                    head.json_only = matches!(kind.as_deref(), Some("json_object" | "json_schema"));
                }
                _ => {}
            }
        }
        head.messages = array(messages.ok_or_else(|| Refusal::new("invalid_request", Some("messages"), "`messages` is missing"))?, "messages")?;
        Ok(head)
    }

    /// The conversation's own data as text: what users, tools and instructions said, not the model.
    pub fn data(&self) -> Vec<String> {
        let mut data: Vec<String> = Vec::new();
        for message in self.messages.items() {
            if message.get("role").is_some_and(|role| role.is_text("assistant")) {
                continue;
            }
            data.extend(message.get("content").and_then(text_of).map(Cow::into_owned));
        }
        let tools = self.tools.into_iter().chain(self.functions);
        data.extend(tools.map(|tools| tools.raw_str().to_owned()));
        data
    }
}

/// A request made ready for the upstream, and what was found on the way.
#[derive(Debug)]
pub struct Prepared {
    /// What goes upstream; in observe mode the bytes that came.
    pub body: Bytes,
    /// What may be called, and how.
    pub tool_choice: ToolChoice,
    /// `parallel_tool_calls`, where the request says it.
    pub parallel: Option<bool>,
    /// The executions that the history proves.
    pub executions: Vec<Execution>,
    /// Tools with a successful result in the history.
    pub succeeded: Vec<String>,
    /// What is wrong with the request, registry and history.
    pub violations: Vec<Violation>,
}

/// Verifies the history and prepares the request.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged.
pub fn prepare(document: &Document, head: &Head<'_>, tools: &ToolSet, inputs: &Inputs<'_>) -> Result<Prepared, Refusal> {
    let root = document.root();
    let rules = inputs.rules;
    let (items, places) = read_messages(head, rules)?;
    let past = history::verify(
        &items,
        &history::Rules {
            checks: &rules.checks,
            ring: inputs.ring,
            scope: inputs.scope,
            window: rules.policy.results.window,
            now_ms: inputs.now_ms,
            large: rules.policy.results.large,
            adjacency: Adjacency::Required,
        },
    );
    let mut edits = Edits::default();
    let mut forged = Vec::new();
    if rules.policy.mode == Mode::Enforce {
        stamp_results(&mut edits, &past, &items, &places, inputs);
        edit_tools(&mut edits, root, head, tools, inputs.upstream);
        if tools.any && rules.policy.protocol.inject && !head.json_only {
            inject_protocol(&mut edits, head.messages, rules.protocol_text());
        }
        if inputs.upstream.short_ids {
            shorten_ids(&mut edits, &places)?;
        }
    }
    for (item, at) in items.iter().zip(&places) {
        if let Item::Result(PastResult { nature: Nature { stamped: true, .. }, .. }) = item {
            let own = past.executions.iter().find(|execution| std::ptr::eq(&places[execution.item], at));
            forged.extend(forged_stamp(rules, own, at));
        }
    }
    let History { executions, succeeded, mut violations } = past;
    violations.extend(forged);
    violations.extend(tools.violations.iter().cloned());
    Ok(Prepared {
        body: edits.apply(document.bytes()),
        tool_choice: read_tool_choice(root, tools.any),
        parallel: root.get("parallel_tool_calls").and_then(|value| match value.raw() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }),
        executions,
        succeeded,
        violations,
    })
}

fn wrong(param: &'static str, expected: &str) -> Refusal {
    Refusal::new("invalid_request", Some(param), format!("`{param}` must be {expected}"))
}

fn array<'d>(value: Value<'d>, param: &'static str) -> Result<Value<'d>, Refusal> {
    if value.is_array() { Ok(value) } else { Err(wrong(param, "an array")) }
}

/// Two members of one name: another parser may read the other one.
fn unique(object: Value<'_>, place: &str) -> Result<(), Refusal> {
    match object.duplicate_name() {
        Some(name) => Err(Refusal::new("invalid_json", None, format!("{place} has two members named `{name}`"))),
        None => Ok(()),
    }
}

/// Where things lie in one message.
struct Place<'d> {
    content: Option<Value<'d>>,
    /// The ids of calls, or the id that a result answers.
    ids: Vec<Value<'d>>,
}

fn read_messages<'d>(head: &Head<'d>, rules: &Rules) -> Result<(Vec<Item<'d>>, Vec<Place<'d>>), Refusal> {
    let (mut items, mut places) = (Vec::new(), Vec::new());
    for message in head.messages.items() {
        if !message.is_object() {
            return Err(wrong("messages", "an array of objects"));
        }
        unique(message, "a message")?;
        let role = message.get("role").and_then(Value::text).ok_or_else(|| wrong("messages", "an array of messages with a `role`"))?;
        let content = message.get_some("content");
        let mut ids = Vec::new();
        items.push(match &*role {
            "assistant" => Item::Assistant(read_calls(message, &mut ids)?),
            "tool" | "function" => {
                let answers = message.get("tool_call_id");
                ids.extend(answers.filter(|id| id.is_string()));
                let text = content.and_then(text_of).unwrap_or_default();
                Item::Result(PastResult {
                    id: answers.and_then(Value::text).filter(|_| role == "tool"),
                    name: message.get("name").and_then(Value::text),
                    nature: stamp::nature(&text, &rules.error_patterns),
                    bytes: text.len(),
                })
            }
            "user" => Item::User,
            _ => Item::Other,
        });
        places.push(Place { content, ids });
    }
    Ok((items, places))
}

fn read_calls<'d>(message: Value<'d>, ids: &mut Vec<Value<'d>>) -> Result<Vec<PastCall<'d>>, Refusal> {
    let mut calls = Vec::new();
    for call in message.get("tool_calls").into_iter().flat_map(Value::items) {
        unique(call, "a tool call")?;
        let body = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
        unique(body, "a tool call's function")?;
        let id = call.get("id");
        ids.extend(id.filter(|id| id.is_string()));
        calls.push(past_call(body, id.and_then(Value::text).unwrap_or_default().into()));
    }
    if let Some(call) = message.get_some("function_call") {
        unique(call, "a function call")?;
        calls.push(past_call(call, None));
    }
    Ok(calls)
}

fn past_call<'d>(body: Value<'d>, id: Option<Cow<'d, str>>) -> PastCall<'d> {
    let arguments = body.get("arguments").or_else(|| body.get("input"));
    let text = |value: Value<'d>| value.text().unwrap_or(Cow::Borrowed(if value.is_null() { "" } else { value.raw_str() }));
    PastCall { id, name: body.get("name").and_then(Value::text).unwrap_or_default(), arguments: arguments.map(text).unwrap_or_default() }
}

/// The text of a message's content: a string, or the text parts of a list, joined.
fn text_of(content: Value<'_>) -> Option<Cow<'_, str>> {
    if content.is_array() {
        let parts = content.items().filter_map(|part| part.get("text").and_then(Value::text));
        return Some(Cow::Owned(parts.collect::<Vec<_>>().join("\n")));
    }
    content.text()
}

fn stamp_results(edits: &mut Edits, past: &History, items: &[Item<'_>], places: &[Place<'_>], inputs: &Inputs<'_>) {
    let form = inputs.rules.policy.results.stamp;
    for execution in &past.executions {
        let (Some(place), Some(Item::Result(result))) = (places.get(execution.item), items.get(execution.item)) else { continue };
        let stamp = Stamp { execution_id: &execution.id, tool: &execution.tool, moment: execution.moment };
        match place.content {
            Some(content) if content.is_array() => stamp::stamp_parts(edits, content, &stamp, form, "text"),
            Some(content) if content.is_string() => {
                let text = content.text().unwrap_or_default();
                stamp::stamp_string(edits, content, &text, result.nature, &stamp, form);
            }
            _ => {}
        }
    }
}

/// A result that brings an execution ID: fine where it is the very stamp it would get.
fn forged_stamp(rules: &Rules, own: Option<&Execution>, place: &Place<'_>) -> Option<Violation> {
    let text = place.content.and_then(text_of).unwrap_or_default();
    if own.is_some_and(|execution| text.contains(&execution.id)) {
        return None;
    }
    let tool = own.map(|execution| execution.tool.as_str());
    let message = "a tool result carries an execution ID that toolmark didn't put there";
    rules.checks.violation(Code::ForgedStamp, tool, message, "leave `execution_id` to toolmark; the result was wrapped")
}

fn edit_tools(edits: &mut Edits, root: Value<'_>, head: &Head<'_>, tools: &ToolSet, upstream: Upstream) {
    let member = if tools.legacy { "functions" } else { "tools" };
    let choice = if tools.legacy { "function_call" } else { "tool_choice" };
    match &tools.edit {
        ToolsEdit::Keep => {}
        ToolsEdit::Replace(json) => edits.set_member(root, member, json),
        ToolsEdit::Remove => {
            // Legal only where there are tools.
            edits.remove_members(root, |name| name == member || name == choice || name == "parallel_tool_calls");
            return;
        }
    }
    if let Some(name) = named_tool(root, choice)
        && tools.removed.iter().any(|removed| *removed == name)
        && let Some(value) = root.get(choice)
    {
        edits.replace(value.span(), "\"auto\"");
    }
    let asked = root.get_some(choice).is_some();
    if let Some(wanted) = upstream.tool_choice.filter(|_| tools.any && !tools.legacy && !asked && head.tools.is_some()) {
        edits.set_member(root, "tool_choice", &quote(wanted));
    }
}

fn named_tool<'d>(root: Value<'d>, choice: &str) -> Option<Cow<'d, str>> {
    let choice = root.get(choice)?;
    let body = choice.get("function").or_else(|| choice.get("custom")).unwrap_or(choice);
    body.get("name").and_then(Value::text)
}

fn read_tool_choice(root: Value<'_>, any: bool) -> ToolChoice {
    let Some(choice) = root.get_some("tool_choice").or_else(|| root.get_some("function_call")) else { return ToolChoice::Auto };
    if let Some(word) = choice.text() {
        return match &*word {
            "none" => ToolChoice::None,
            "required" | "any" if any => ToolChoice::Required,
            _ => ToolChoice::Auto,
        };
    }
    if let Some(allowed) = choice.get("allowed_tools") {
        let name = |tool: Value<'_>| {
            let body = tool.get("function").or_else(|| tool.get("custom")).unwrap_or(tool);
            body.get("name").and_then(Value::text).map(Cow::into_owned)
        };
        let names = allowed.get("tools").into_iter().flat_map(Value::items).filter_map(name).collect();
        return ToolChoice::Allowed { required: allowed.get("mode").is_some_and(|mode| mode.is_text("required")), names };
    }
    let kind = if choice.get("custom").is_some() { CallKind::Custom } else { CallKind::Function };
    let named = named_tool(root, "tool_choice").or_else(|| named_tool(root, "function_call"));
    named.map_or(ToolChoice::Auto, |name| ToolChoice::Named(kind, name.into_owned()))
}

/// Puts the protocol text at the end of the first system or developer message, else into a new first one.
fn inject_protocol(edits: &mut Edits, messages: Value<'_>, text: &str) {
    let instructs = |message: &Value<'_>| message.get("role").is_some_and(|role| role.is_text("system") || role.is_text("developer"));
    let content = messages.items().find(instructs).and_then(|message| message.get("content"));
    let quoted = quote(text);
    match content {
        Some(content) if content.is_string() => {
            let gap = if content.raw() == b"\"\"" { "" } else { "\\n\\n" };
            edits.insert(content.span().end - 1, format!("{gap}{}", &quoted[1..quoted.len() - 1]));
        }
        Some(content) if content.is_array() => edits.append_items(content, &format!(r#"{{"type":"text","text":{quoted}}}"#)),
        _ => {
            let comma = if messages.items().next().is_some() { "," } else { "" };
            let message = format!(r#"{{"role":"system","content":{quoted}}}{comma}"#);
            edits.insert(messages.span().start + 1, message);
        }
    }
}

/// Gives every id the short form that some upstreams demand; the same id gets the same one each time.
fn shorten_ids(edits: &mut Edits, places: &[Place<'_>]) -> Result<(), Refusal> {
    let mut taken: Vec<(String, String)> = Vec::new();
    for value in places.iter().flat_map(|place| &place.ids) {
        let id = value.text().unwrap_or_default().into_owned();
        let short = short_id(&id);
        match taken.iter().find(|(_, other)| *other == short) {
            Some((other, _)) if *other != id => {
                return Err(Refusal::new("invalid_request", Some("messages"), "two call ids have the same short form; resend the turn with other ids"));
            }
            Some(_) => {}
            None => taken.push((id.clone(), short.clone())),
        }
        if short != id {
            edits.replace(value.span(), quote(&short));
        }
    }
    Ok(())
}

/// Nine alphanumerics that follow from `id`; an id that is such already stays.
pub fn short_id(id: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let digest = blake3::derive_key("toolmark 2026-11-21 short call id v1", id.as_bytes());
    // 256 is no multiple of 62: the bias costs less than a tenth of a bit.
    digest.iter().take(9).map(|byte| char::from(DIGITS[usize::from(*byte) % 62])).collect()
}

