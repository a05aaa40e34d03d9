//! Request for the next attempt: the last request, the rejected turn's items, and their violations.
//!
//! docs/wire-facts.md#repair. What is echoed is legal upstream: every call has an id of its own, a legal name, and an
//! output; reasoning that the upstream doesn't keep and can't read back is left out, and the items' ids with it.
//! Where the upstream appends to a conversation of its own, only the outputs are sent. Pure.
//!
//! `store` stays as the application said: that an attempt is to be rejected isn't known when it is sent, a conversation
//! is appended to whatever `store` says, and each attempt's own copy is consistent once its calls have outputs.

use std::collections::HashSet;

use bytes::Bytes;

use crate::{
    exchange::conversation::Hidden,
    exchange::{
        context::Context,
        turn::{EchoedCall, EchoedTurn, SaidItem},
    },
    judge::{call::CallKind, messages},
    responses::request::prepare::{assistant_item, output_item, user_item},
    violation::Violation,
    wire::json::{Document, JsonError, Value, splice::Splices, string::quote},
};

/// Longest name of a tool. Source: OpenAI API reference, `FunctionToolParam.name`; docs/wire-facts.md#responses-requests.
const NAME_BYTES_MAX: usize = 128;

/// Builds the request for the next attempt. `attempt` counts from 1 and is used in the ids of echoed calls that have
/// none.
///
/// # Errors
/// [`JsonError`] if `body` isn't the prepared request, which can't happen.
pub fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32, context: &Context) -> Result<Bytes, JsonError> {
    let document = Document::parse(body.clone())?;
    let root = document.root();
    if !root.is_object() {
        return Err(JsonError::Syntax(0));
    }
    let input = root.get_some("input");
    let kept_upstream = context.hidden.conversation.is_some();
    let taken = input.filter(|_| !kept_upstream);
    let ids = call_ids(turn, attempt, taken);
    let mut added = if kept_upstream { Vec::new() } else { echoed(turn, &ids, &context.hidden)? };
    added.extend(answers(turn, &ids));
    let mut edits = Splices::default();
    match input {
        Some(array) if array.is_array() && !kept_upstream && !added.is_empty() => edits.append_items(array, &added.join(",")),
        Some(array) if array.is_array() && !kept_upstream => {}
        Some(text) if text.is_string() && !kept_upstream => {
            added.insert(0, user_item(text.raw_str()));
            edits.replace(text.span(), format!("[{}]", added.join(",")));
        }
        _ => edits.set_member(root, "input", &format!("[{}]", added.join(","))),
    }
    Ok(edits.apply(body))
}

/// Ids of the echoed calls: distinct, and different from those in `input`.
fn call_ids(turn: &EchoedTurn, attempt: u32, input: Option<Value<'_>>) -> Vec<String> {
    let ids = input.into_iter().flat_map(Value::items).filter_map(|item| item.get("call_id")?.text());
    let mut taken: HashSet<String> = ids.map(|id| id.into_owned()).collect();
    let id = |(at, call): (usize, &EchoedCall)| {
        let own = call.id.as_ref().filter(|id| !id.is_empty() && !taken.contains(*id));
        let made = || (at..).map(|number| format!("call_r{attempt}_{number}")).find(|id| !taken.contains(id));
        let id = own.cloned().or_else(made).unwrap_or_default();
        taken.insert(id.clone());
        id
    };
    turn.calls.iter().enumerate().map(id).collect()
}

/// The turn's items as sent back to the upstream: JSON.
fn echoed(turn: &EchoedTurn, ids: &[String], hidden: &Hidden) -> Result<Vec<String>, JsonError> {
    if turn.items.is_empty() && turn.calls.is_empty() {
        // The upstream refused the call itself, and there is nothing but the text.
        let said = assistant_item(&quote(&turn.text));
        return Ok(if turn.text.is_empty() { Vec::new() } else { vec![said] });
    }
    let (mut items, mut unreadable) = (Vec::new(), false);
    for item in &turn.items {
        match item {
            SaidItem::Raw(json) if !hidden.store && unreadable_reasoning(json)? => unreadable = true,
            SaidItem::Raw(json) => items.push(json.clone()),
            SaidItem::Call(at, json) => items.extend(turn.calls.get(*at).zip(ids.get(*at)).map(|(call, id)| call_item(call, id, json))),
        }
    }
    // An output without its call would be refused.
    let has = |place: usize| turn.items.iter().any(|item| matches!(item, SaidItem::Call(at, _) if *at == place));
    items.extend(turn.calls.iter().zip(ids).enumerate().filter(|(at, _)| !has(*at)).map(|(_, (call, id))| new_item(call, id)));
    if unreadable {
        // By its id, an item is bound to the reasoning that came before it.
        return items.iter().map(|item| without_id(item)).collect();
    }
    Ok(items)
}

/// Items of an answer in a form that the upstream can read back. If it doesn't store them, unusable reasoning is
/// dropped, and then the ids of the other items too.
pub(super) fn readable(items: Vec<String>, hidden: &Hidden) -> Vec<String> {
    let unreadable = |item: &String| !hidden.store && unreadable_reasoning(item).unwrap_or(false);
    if !items.iter().any(unreadable) {
        return items;
    }
    let bare = |item: String| without_id(&item).unwrap_or(item);
    items.into_iter().filter(|item| !unreadable(item)).map(bare).collect()
}

/// True for reasoning that has only an id and a summary: an upstream that doesn't store it can't use it.
fn unreadable_reasoning(json: &str) -> Result<bool, JsonError> {
    let document = Document::parse(Bytes::copy_from_slice(json.as_bytes()))?;
    let item = document.root();
    let empty =
        |name: &str| item.get_some(name).is_none_or(|value| value.is_text("") || (value.is_array() && value.items().next().is_none()));
    let reasoning = item.get("type").is_some_and(|kind| kind.is_text("reasoning"));
    let bare = empty("id") && empty("summary");
    Ok(reasoning && empty("encrypted_content") && empty("content") && !bare)
}

fn without_id(json: &str) -> Result<String, JsonError> {
    let bytes = Bytes::copy_from_slice(json.as_bytes());
    let document = Document::parse(bytes.clone())?;
    let mut edits = Splices::default();
    edits.remove_members(document.root(), |name| name == "id");
    Ok(String::from_utf8_lossy(&edits.apply(&bytes)).into_owned())
}

/// The item of a call, with everything illegal corrected.
fn call_item(call: &EchoedCall, id: &str, json: &str) -> String {
    let bytes = Bytes::copy_from_slice(json.as_bytes());
    let Ok(document) = Document::parse(bytes.clone()) else { return new_item(call, id) };
    let item = document.root();
    // INVARIANT: with a `type`, there is a member before those that are added.
    if item.get("type").is_none() || item.duplicate_name().is_some() {
        return new_item(call, id);
    }
    let (mut set, mut edits) = (Vec::new(), Splices::default());
    if !item.get("name").and_then(Value::text).is_some_and(|name| legal(&name)) {
        let own = item.get("name").and_then(Value::text).map(|name| name.into_owned());
        let renamed = EchoedCall { name: own.unwrap_or_else(|| call.name.clone()), ..call.clone() };
        set.push(("name", quote(&renamed.legal_name())));
    }
    let (member, (arguments, broken)) = (body_member(call), call.legal_arguments());
    let said = item.get(member).and_then(Value::text);
    let whole = said.is_some_and(|said| call.kind == CallKind::Custom || !said.trim().is_empty());
    if broken.is_some() || !whole {
        set.push((member, quote(&arguments)));
    }
    if !item.get("call_id").is_some_and(|own| own.is_text(id)) {
        set.push(("call_id", quote(id)));
    }
    set.iter().for_each(|(name, value)| edits.set_member(item, name, value));
    if item.get_some("namespace").is_some_and(|space| !space.text().is_some_and(|space| legal(&space))) {
        edits.remove_members(item, |name| name == "namespace");
    }
    String::from_utf8_lossy(&edits.apply(&bytes)).into_owned()
}

fn legal(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal)
}

fn body_member(call: &EchoedCall) -> &'static str {
    if call.kind == CallKind::Custom { "input" } else { "arguments" }
}

/// A new item for a call.
fn new_item(call: &EchoedCall, id: &str) -> String {
    let kind = if call.kind == CallKind::Custom { "custom_tool_call" } else { "function_call" };
    let (name, arguments) = (quote(&call.legal_name()), quote(&call.legal_arguments().0));
    format!(r#"{{"type":"{kind}","call_id":{},"name":{name},"{}":{arguments}}}"#, quote(id), body_member(call))
}

/// Messages for the model: one output for each call, and the violations of the text.
fn answers(turn: &EchoedTurn, ids: &[String]) -> Vec<String> {
    let of_text: Vec<&Violation> = turn.violations.iter().collect();
    let objection = (!of_text.is_empty()).then(|| messages::objection(&of_text));
    if turn.calls.is_empty() {
        return objection.map(|objection| user_item(&quote(&objection))).into_iter().collect();
    }
    let answer = |(at, (call, id)): (usize, (&EchoedCall, &String))| {
        let mut output = call.answer();
        if let Some(objection) = objection.as_ref().filter(|_| at + 1 == turn.calls.len()) {
            output.push_str(&format!("\n\n{objection}"));
        }
        output_item(call.kind, id, &output)
    };
    turn.calls.iter().zip(ids).enumerate().map(answer).collect()
}
