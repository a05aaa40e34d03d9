//! A request's tools, tool choice and instructions: reads the choice, rewrites the tools, adds the protocol text. Pure.
//!
//! Source: OpenAI API reference, "Create a model response", `tools`, `tool_choice`, `instructions`.

use crate::{
    exchange::{
        context::Upstream,
        tool_set::{ToolSet, ToolsEdit},
    },
    judge::call::{CallKind, turn::ToolChoice},
    responses::{
        call_name::tool_name,
        request::{
            Head,
            input_items::{InputItem, Kind},
        },
    },
    tools::registry::Registry,
    wire::json::{Value, splice::Splices, string::quote},
};

/// Rewrites `tools` as the set says, and a `tool_choice` that names a removed tool.
pub fn edit_tools(edits: &mut Splices, root: Value<'_>, head: &Head<'_>, tools: &ToolSet, upstream: Upstream) {
    match &tools.edit {
        ToolsEdit::Keep => {}
        ToolsEdit::Replace(json) => edits.set_member(root, "tools", json),
        ToolsEdit::Remove => {
            // Legal only where there are tools.
            return edits.remove_members(root, |name| matches!(name, "tools" | "tool_choice" | "parallel_tool_calls"));
        }
    }
    let choice = root.get_some("tool_choice");
    if let Some(choice) = choice.filter(|choice| names_removed(*choice, tools)) {
        edits.replace(choice.span(), "\"auto\"");
    }
    if let Some(wanted) = upstream.tool_choice.filter(|_| tools.any && choice.is_none() && head.tools.is_some()) {
        edits.set_member(root, "tool_choice", &quote(wanted));
    }
}

/// The request's `tool_choice`.
pub fn read_tool_choice(root: Value<'_>, tools: &ToolSet) -> ToolChoice {
    let Some(choice) = root.get_some("tool_choice") else { return ToolChoice::Auto };
    if let Some(word) = choice.text() {
        return match &*word {
            "none" => ToolChoice::None,
            "required" | "any" if tools.any => ToolChoice::Required,
            _ => ToolChoice::Auto,
        };
    }
    if choice.get("type").is_some_and(|kind| kind.is_text("allowed_tools")) {
        return allowed(choice, &tools.registry);
    }
    let Some((kind, name)) = named(choice).filter(|_| !names_removed(choice, tools)) else { return ToolChoice::Auto };
    let mut names = meant(&tools.registry, choice, &name);
    match names.len() {
        0 | 1 => ToolChoice::Named(kind, names.pop().unwrap_or(name)),
        _ => ToolChoice::Allowed { required: true, names },
    }
}

/// True if the choice names a tool of the request that isn't sent to the upstream.
fn names_removed(choice: Value<'_>, tools: &ToolSet) -> bool {
    let Some((_, name)) = named(choice) else { return false };
    let declared = |name: &String| tools.registry.tool(name).is_some_and(|tool| tool.declared);
    let removed = tools.removed.iter().any(|removed| *removed == name || is_within(removed, &name));
    removed && !meant(&tools.registry, choice, &name).iter().any(declared)
}

fn allowed(choice: Value<'_>, registry: &Registry) -> ToolChoice {
    let (mut names, mut hosted) = (Vec::new(), false);
    for tool in choice.get("tools").into_iter().flat_map(Value::items) {
        let name = tool.get("name").and_then(Value::text);
        match (named(tool), name) {
            (Some((_, name)), _) => names.extend(meant(registry, tool, &name)),
            (None, Some(space)) if tool.get("type").is_some_and(|kind| kind.is_text("namespace")) => {
                let inside = |name: &&str| name.strip_prefix(&*space).is_some_and(|rest| rest.starts_with('.'));
                names.extend(registry.names().filter(inside).map(str::to_owned));
            }
            (None, _) => hosted = true,
        }
    }
    // What the upstream runs itself is a call too, and none that is judged here.
    let required = !hosted && choice.get("mode").is_some_and(|mode| mode.is_text("required"));
    ToolChoice::Allowed { required, names }
}

/// The function or custom tool that an object names; `None` for tools that the upstream runs or defines itself.
fn named(choice: Value<'_>) -> Option<(CallKind, String)> {
    let kind = match &*choice.get("type")?.text()? {
        "function" => CallKind::Function,
        "custom" => CallKind::Custom,
        _ => return None,
    };
    Some((kind, choice.get("name")?.text()?.into_owned()))
}

/// Registered names that `name` may stand for, as it may lack the namespace.
fn meant(registry: &Registry, choice: Value<'_>, name: &str) -> Vec<String> {
    let namespace = choice.get("namespace").and_then(Value::text);
    let whole = tool_name(registry, namespace.as_deref(), name);
    if namespace.is_some() || registry.tool(&whole).is_some_and(|tool| tool.declared) {
        return vec![whole];
    }
    let within: Vec<String> = registry.names().filter(|other| is_within(other, name)).map(str::to_owned).collect();
    if within.is_empty() { vec![whole] } else { within }
}

fn is_within(full: &str, name: &str) -> bool {
    full.strip_suffix(name).is_some_and(|space| space.len() > 1 && space.ends_with('.'))
}

/// Appends the protocol text to `instructions`, or to the first system or developer message; without either, sets
/// `instructions`. But those would override the instructions of a `prompt`, so for a request with one an item to put in
/// front of the input is returned, JSON. `gone` tells if the item at an index is not sent to the upstream.
pub fn inject_protocol(
    edits: &mut Splices,
    root: Value<'_>,
    head: &Head<'_>,
    quoted: &str,
    gone: impl Fn(usize) -> bool,
) -> Option<String> {
    if let Some(instructions) = head.instructions {
        append_text(edits, instructions, quoted);
        return None;
    }
    let kept = head.items().iter().enumerate().filter(|(at, _)| !gone(*at)).map(|(_, item)| item);
    let contents = kept.filter(|item| item.kind == Kind::Instructions).filter_map(InputItem::content);
    match contents.into_iter().find(|content| content.is_string() || content.is_array()) {
        Some(content) if content.is_array() => {
            let there = content.items().any(|part| part.get("text").is_some_and(|text| text.raw_str() == quoted));
            if !there {
                edits.append_items(content, &format!(r#"{{"type":"input_text","text":{quoted}}}"#));
            }
        }
        Some(content) => append_text(edits, content, quoted),
        // Instructions of the request's own would stand instead of the prompt's.
        None if head.prompt => return Some(format!(r#"{{"role":"developer","content":{quoted}}}"#)),
        None => edits.set_member(root, "instructions", quoted),
    }
    None
}

/// Appends a text to another, unless that contains it already.
fn append_text(edits: &mut Splices, text: Value<'_>, quoted: &str) {
    let inside = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if text.raw_str().contains(inside) {
        return;
    }
    let gap = if text.raw() == b"\"\"" { "" } else { "\\n\\n" };
    edits.insert(text.span().end - 1, format!("{gap}{inside}"));
}
