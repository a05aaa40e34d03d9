//! Output items of a response: calls, texts, and items that pass unjudged.
//!
//! Source: OpenAI API reference, "Responses"; docs/wire-facts.md#responses-answers. Pure. What looks like a call and is
//! in no form that is known is refused, never passed unjudged.

use super::places::PART_TEXTS;
use crate::{
    exchange::{
        context::Context,
        error::ShapeError,
        text::{
            place::{is_ambiguous, is_nothing},
            places::is_call_part,
        },
    },
    judge::call::{Arguments, Call, CallKind},
    tools::registry::Registry,
    violation::{Code, Severity},
    wire::json::{Kind, Member, Value, splice::Splices, string},
};

/// Kind of an output item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ItemKind {
    /// A message.
    Message,
    /// A call for the application to run.
    Call(CallKind),
    /// Reasoning; passes unchanged.
    Reasoning,
    /// A call of a tool that the upstream runs itself, or its result.
    Hosted,
    /// Anything else; passes unchanged.
    Other,
}

/// Item types of tools that the upstream defines and the application runs, with the request's tools that allow them.
const LOCAL: [(&str, &[&str]); 5] = [
    ("computer_call", &["computer", "computer_use", "computer_use_preview"]),
    ("local_shell_call", &["local_shell"]),
    ("shell_call", &["shell"]),
    ("apply_patch_call", &["apply_patch"]),
    ("tool_search_call", &["tool_search"]),
];

/// Kind of an item. A built-in call is judged like any other call if the request has no tool for it.
///
/// # Errors
/// [`ShapeError`] for what might be a call or a text and can't be judged.
pub fn kind_of(item: Value<'_>, context: &Context) -> Result<ItemKind, ShapeError> {
    if !item.is_object() {
        return Err(ShapeError::NoObject);
    }
    if is_ambiguous(item) {
        return Err(ShapeError::Duplicate);
    }
    let kind = item.get("type").and_then(Value::text).unwrap_or_default();
    if let Some((_, tools)) = LOCAL.iter().find(|(local, _)| *local == kind) {
        // Only a search for tools says where it ran.
        let server = kind == "tool_search_call" && item.get("execution").is_some_and(|execution| execution.is_text("server"));
        let passes = server || is_offered(tools, context) || may_be_offered(context);
        return Ok(if passes { ItemKind::Hosted } else { ItemKind::Call(CallKind::Function) });
    }
    let some = |name: &str| item.get(name).is_some_and(|value| !is_nothing(value));
    let known = match &*kind {
        "message" => ItemKind::Message,
        "" if some("role") || some("content") => ItemKind::Message,
        "custom_tool_call" if is_of_x_search(item, context) => ItemKind::Hosted,
        "function_call" => ItemKind::Call(CallKind::Function),
        "custom_tool_call" => ItemKind::Call(CallKind::Custom),
        "reasoning" => ItemKind::Reasoning,
        // The call of a tool that the upstream defines and runs, as Azure's `azure_ai_search`.
        kind if kind.strip_suffix("_call").is_some_and(|tool| is_offered(&[tool], context)) => ItemKind::Hosted,
        "web_search_call"
        | "file_search_call"
        | "code_interpreter_call"
        | "image_generation_call"
        | "mcp_call"
        | "mcp_list_tools"
        | "mcp_approval_request"
        | "tool_search_output"
        | "shell_call_output"
        | "program"
        | "program_output" => ItemKind::Hosted,
        _ => ItemKind::Other,
    };
    let disguised = match known {
        // These are looked through when they are read.
        ItemKind::Message | ItemKind::Call(_) => false,
        ItemKind::Hosted => nests_call(item),
        ItemKind::Reasoning => nests_call(item) || is_like_call(item),
        // What it says is judged ([`super::places`]). A result names the call that it is of.
        ItemKind::Other => nests_call(item) || (is_like_call(item) && !kind.ends_with("_output")),
    };
    if disguised { Err(ShapeError::Text) } else { Ok(known) }
}

/// Calls that xAI makes for its tool `x_search`; they come as calls of custom tools, with their results in what follows. Source: xAI's
/// documentation, "Search tools".
const X_SEARCH: [&str; 5] = ["x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video"];

/// True for a call that xAI runs itself, unless the request has a tool of that name.
fn is_of_x_search(call: Value<'_>, context: &Context) -> bool {
    let name = call.get("name").and_then(Value::text).unwrap_or_default();
    is_offered(&["x_search"], context) && is_x_search(&name, &context.tools().registry)
}

/// True for the name of such a call, unless a tool has it.
pub(super) fn is_x_search(name: &str, registry: &Registry) -> bool {
    X_SEARCH.contains(&name) && registry.tool(name).is_none()
}

fn is_offered(tools: &[&str], context: &Context) -> bool {
    context.tools().hosted.iter().any(|hosted| tools.iter().any(|tool| hosted == tool))
}

/// True if an unknown part of the conversation may offer a tool that the request doesn't. If the policy blocks
/// unoffered calls, the tool counts as not offered.
fn may_be_offered(context: &Context) -> bool {
    let blocks = context.rules.checks.severity(Code::UnofferedCall) == Severity::Block && !context.observes();
    context.hidden.unseen && !blocks
}

/// True for a call of a built-in tool that the application runs and that the request doesn't offer.
pub fn is_unoffered(item: Value<'_>, context: &Context) -> bool {
    let kind = item.get("type").and_then(Value::text).unwrap_or_default();
    let server = || item.get("execution").is_some_and(|execution| execution.is_text("server"));
    let local = LOCAL.iter().find(|(local, _)| *local == kind);
    local.is_some_and(|(_, tools)| !is_offered(tools, context)) && !(kind == "tool_search_call" && server())
}

/// True if an object has a member under which some client might look for calls, as in a chat message.
pub(super) fn nests_call(object: Value<'_>) -> bool {
    const NAMES: [&str; 6] = ["tool_call", "tool_calls", "function_call", "function_calls", "custom_tool_call", "function"];
    let nests = |name: &str| NAMES.iter().any(|own| own.eq_ignore_ascii_case(name));
    object.members().any(|member| nests(&member.name()) && !is_nothing(member.value))
}

/// True if an object has the members of a call, whatever its type.
pub(super) fn is_like_call(object: Value<'_>) -> bool {
    let some = |name: &str| object.get(name).is_some_and(|value| !is_nothing(value));
    some("call_id") || (some("name") && (some("arguments") || some("input")))
}

/// One call of an answer, as the upstream sent it.
#[derive(Clone, Debug, Default)]
pub struct OutputCall {
    /// Id of the item.
    pub item_id: String,
    /// The upstream's id of the call.
    pub call_id: String,
    /// Name of the tool, without its namespace.
    pub name: String,
    /// Namespace of the tool.
    pub namespace: Option<String>,
    /// Kind of the call.
    pub kind: CallKind,
    /// Its arguments, or a custom tool's input.
    pub arguments: Option<Arguments>,
    /// The unchanged item: JSON.
    pub raw: String,
}

impl OutputCall {
    /// Reads a call.
    ///
    /// # Errors
    /// [`ShapeError`] if it can't be judged.
    pub fn read(item: Value<'_>, kind: CallKind) -> Result<Self, ShapeError> {
        let text = |name: &str| item.get(name).and_then(Value::text).map(|text| text.into_owned());
        let (own, other) = if kind == CallKind::Custom { ("input", "arguments") } else { ("arguments", "input") };
        let disguised =
            ["function", "custom", "tool_calls", "function_call"].iter().any(|name| item.get(name).is_some_and(|value| !is_nothing(value)));
        if disguised || (item.get(other).is_some_and(|value| !is_nothing(value)) && item.get(own).is_some_and(|value| !is_nothing(value))) {
            return Err(ShapeError::Ambiguous);
        }
        let built_in = item.get("type").and_then(Value::text).filter(|kind| LOCAL.iter().any(|(local, _)| local == kind));
        Ok(Self {
            item_id: text("id").unwrap_or_default(),
            call_id: text("call_id").unwrap_or_default(),
            name: built_in.map(|kind| kind.trim_end_matches("_call").to_owned()).or_else(|| text("name")).unwrap_or_default(),
            namespace: text("namespace").filter(|namespace| !namespace.is_empty()),
            kind,
            arguments: item.get(own).or_else(|| item.get(other)).map(arguments_of),
            raw: item.raw_str().to_owned(),
        })
    }

    /// The call in the terms common to all APIs.
    pub fn call(&self, context: &Context) -> Call {
        let name = crate::responses::call_name::tool_name(&context.tools().registry, self.namespace.as_deref(), &self.name);
        let id = Some(self.call_id.clone()).filter(|id| !id.is_empty());
        Call { name, kind: self.kind, arguments: self.arguments.clone().unwrap_or(Arguments::Absent), id }
    }

    /// Text of its arguments, in whatever form they came.
    pub fn text(&self) -> &str {
        match &self.arguments {
            Some(Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text)) => text,
            Some(Arguments::Absent | Arguments::Null) | None => "",
        }
    }
}

/// The item in a form that can be echoed to the model; an unoffered built-in call becomes a function call.
pub fn echoed(slot: &OutputCall) -> String {
    use crate::wire::json::string::quote;
    if slot.raw.contains("\"function_call\"") || slot.raw.contains("\"custom_tool_call\"") {
        return slot.raw.clone();
    }
    let (kind, member, empty) =
        if slot.kind == CallKind::Custom { ("custom_tool_call", "input", "") } else { ("function_call", "arguments", "{}") };
    let text = if slot.text().is_empty() { empty } else { slot.text() };
    let (id, name, text) = (quote(&slot.call_id), quote(&slot.name), quote(text));
    format!(r#"{{"type":"{kind}","call_id":{id},"name":{name},"{member}":{text}}}"#)
}

/// Sets the `status` of an item that has one.
pub fn echoed_status(edits: &mut Splices, item: Value<'_>, status: &str) {
    if item.get("status").is_some_and(|own| !own.is_text(status) && !own.is_text("incomplete")) {
        edits.set_member(item, "status", &string::quote(status));
    }
}

/// Arguments in whatever form they came.
pub fn arguments_of(value: Value<'_>) -> Arguments {
    match value.text() {
        Some(text) => Arguments::Text(text.into_owned()),
        None if value.is_null() => Arguments::Null,
        None if value.is_object() => Arguments::Object(value.raw_str().to_owned()),
        None => Arguments::Other(value.raw_str().to_owned()),
    }
}

/// The strings of a message: texts and refusals.
#[derive(Debug, Default)]
pub struct MessageStrings<'d> {
    /// Its text.
    pub texts: Vec<Value<'d>>,
    /// Those of [`Self::texts`] that the official clients read: the member `text` of an `output_text` part.
    pub official: Vec<Value<'d>>,
    /// Its refusals.
    pub refusals: Vec<Value<'d>>,
}

/// The strings of a message item.
///
/// # Errors
/// [`ShapeError::Text`] for any unknown shape: unread text would be unjudged.
pub fn strings_of(message: Value<'_>) -> Result<MessageStrings<'_>, ShapeError> {
    let mut strings = MessageStrings::default();
    let hides = |name: &str| matches!(name, "tool_calls" | "function_call" | "tool_call" | "text" | "output_text" | "refusal" | "audio");
    if message.members().any(|member| hides(&member.name()) && !is_nothing(member.value)) {
        return Err(ShapeError::Text);
    }
    let Some(content) = message.get_some("content") else { return Ok(strings) };
    if content.is_string() {
        strings.texts.push(content);
        return Ok(strings);
    }
    if !content.is_array() {
        return Err(ShapeError::Text);
    }
    content.items().try_for_each(|part| part_strings(part, &mut strings)).map(|()| strings)
}

/// True for the member of a part that the official clients read. `kind`: type of the part.
pub fn is_official_member(kind: &str, member: Member<'_>) -> bool {
    kind == "output_text" && member.is("text") || kind == "refusal" && member.is("refusal")
}

/// The strings of one content part.
///
/// # Errors
/// [`ShapeError::Text`] for any unknown shape.
pub fn part_strings<'d>(part: Value<'d>, strings: &mut MessageStrings<'d>) -> Result<(), ShapeError> {
    if part.is_string() {
        strings.texts.push(part);
        return Ok(());
    }
    let kind = part.get("type").and_then(Value::text).unwrap_or_default();
    if !part.is_object() || is_ambiguous(part) || matches!(&*kind, "tool_use" | "tool_call" | "function_call") {
        return Err(ShapeError::Text);
    }
    if nests_call(part) || is_like_call(part) || is_call_part(part) {
        return Err(ShapeError::Text);
    }
    // What the model thought, on upstreams that show it: no answer.
    if kind == "reasoning_text" {
        return Ok(());
    }
    for member in part.members() {
        let texts = match &*member.name() {
            name if PART_TEXTS.contains(&name) => &mut strings.texts,
            "refusal" => &mut strings.refusals,
            _ => continue,
        };
        match member.value.kind() {
            Kind::Plain | Kind::Escaped => {
                texts.push(member.value);
                if member.is("text") && is_official_member(&kind, member) {
                    strings.official.push(member.value);
                }
            }
            Kind::Null => {}
            Kind::True | Kind::False | Kind::Number | Kind::Array | Kind::Object => return Err(ShapeError::Text),
        }
    }
    Ok(())
}
