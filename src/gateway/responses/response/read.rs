//! Reads a buffered response: its members, its items, and its ending. Pure.
//!
//! Anything that might be a call or a text in a wrong place is refused, never passed on unjudged.

use crate::{
    chat::stream::chunk::is_disguise,
    exchange::{
        context::{AnswerNature, Context},
        error::{CALLS_MAX, Fault, ShapeError},
        text::{
            other_readings,
            place::{TextPlace, is_ambiguous, is_nothing},
        },
    },
    judge::call::{Call, CallKind, turn::FinishReason},
    responses::output_items::{ItemKind, MessageStrings, OutputCall, is_unoffered, kind_of, strings_of},
    wire::json::Value,
};

/// A parsed response.
pub(super) struct ParsedResponse {
    pub kinds: Vec<ItemKind>,
    pub slots: Vec<OutputCall>,
    pub calls: Vec<Call>,
    pub text: Option<TextPlace>,
    pub refusal: Option<TextPlace>,
    /// Other readings of the texts, in which they make claims that they don't make joined.
    pub others: Vec<TextPlace>,
    pub nature: AnswerNature,
}

/// Reads a response and feeds its texts through their gates.
pub(super) fn read(root: Value<'_>, context: &Context) -> Result<ParsedResponse, Fault> {
    check_root(root)?;
    let (mut kinds, mut slots, mut nature) = (Vec::new(), Vec::new(), AnswerNature::default());
    let (mut texts, mut refusals, mut found): (Vec<(Value<'_>, bool)>, _, _) = (Vec::new(), Vec::new(), false);
    let mut official = Vec::new();
    for item in root.get("output").into_iter().flat_map(Value::items) {
        let kind = kind_of(item, context)?;
        match kind {
            ItemKind::Message => {
                let strings = message_strings(item)?;
                // As in a stream, what was found counts for the texts behind it.
                texts.extend(strings.texts.into_iter().map(|text| (text, found)));
                official.extend(strings.official.into_iter().filter(|_| is_official(item)));
                refusals.extend(strings.refusals);
            }
            ItemKind::Call(kind) => slots.push(call_of(item, kind, context)?),
            ItemKind::Reasoning => {}
            ItemKind::Hosted => {
                nature.hosted_calls |= is_hosted_call(item);
                found |= has_unseen_result(item);
                nature.unoffered_calls |= is_unoffered(item, context);
            }
            ItemKind::Other => nature.has_audio |= !is_nothing(item),
        }
        kinds.push(kind);
    }
    if slots.len() > CALLS_MAX {
        return Err(ShapeError::TooMany.into());
    }
    // The convenience of some upstreams: a copy, unless there is nothing that it could be a copy of.
    let copy = root.get("output_text").filter(|copy| copy.is_string());
    let text = TextPlace::read_behind_results(&texts, context).or_else(|| TextPlace::read(copy, context));
    let refusal = TextPlace::read(refusals.iter().copied(), context);
    if found {
        context.evidence.note_unseen();
    }
    let texts: Vec<Value<'_>> = texts.into_iter().map(|(text, _)| text).collect();
    let mut others = self::others(&texts, official, text.as_ref(), context);
    others.extend(self::others(&refusals, refusals.clone(), refusal.as_ref(), context));
    nature.has_text = text.is_some();
    nature.ending = ending_of(root);
    if refusal.is_some() {
        nature = nature.refused();
    }
    let calls = slots.iter().map(|slot| slot.call(context)).collect();
    Ok(ParsedResponse { kinds, slots, calls, text, refusal, others, nature })
}

/// Other readings of strings that were judged joined: each string alone, as an id at the end of one message is no id if the next message
/// continues it with a letter, yet a client that shows them on separate lines shows the id; and the `official` ones joined, if others stand
/// between them.
fn others(strings: &[Value<'_>], official: Vec<Value<'_>>, joined: Option<&TextPlace>, context: &Context) -> Vec<TextPlace> {
    let Some(joined) = joined.filter(|_| strings.len() > 1).map(|joined| &joined.gate) else { return Vec::new() };
    let alone = strings.iter().filter_map(|string| TextPlace::read([*string], context));
    let official = Some(official).filter(|official| official.len() < strings.len());
    let official = official.and_then(|official| TextPlace::read(official, context));
    other_readings::adding(alone.chain(official), |place| &place.gate, &[joined])
}

/// Checks a response's own members, but not its items.
///
/// # Errors
/// [`Fault::Reported`] for an error in place of a response, else [`Fault::Unknown`] for what can't be judged.
pub fn check_root(root: Value<'_>) -> Result<(), Fault> {
    if !root.is_object() {
        let reported = root.items().next().is_some_and(|first| first.get("error").is_some());
        return Err(if reported { Fault::Reported(root.raw_str().to_owned()) } else { Fault::Unknown("no JSON object") });
    }
    if is_ambiguous(root) {
        return Err(Fault::Unknown("two members of one name"));
    }
    let listed = root.get("output").is_some_and(Value::is_array);
    let error = root.get_some("error").is_some_and(|error| !error.is_text(""));
    let response = root.get("object").is_some_and(|object| object.is_text("response"));
    let flat = !response && root.get_some("message").is_some() && (root.get("code").is_some() || root.get("type").is_some());
    if !listed && (error || flat) {
        return Err(Fault::Reported(root.raw_str().to_owned()));
    }
    if says_outside(root) {
        return Err(Fault::Unknown(
            "a call or text outside its `output`; an upstream without the Responses API needs `responses = \"translate\"`",
        ));
    }
    let unfinished = || root.get("status").and_then(Value::text).is_some_and(|status| UNFINISHED.contains(&&*status));
    match root.get_some("output") {
        Some(output) if output.is_array() => Ok(()),
        None if unfinished() => Ok(()),
        Some(_) | None => Err(Fault::Unknown("no `output`")),
    }
}

/// True if there is anything outside the output under which some client might look for a call or a text.
pub fn says_outside(response: Value<'_>) -> bool {
    response.members().any(|member| is_outside(&member.name(), member.value) && !is_nothing(member.value))
}

/// Ending of a response, by its status.
pub fn ending_of(response: Value<'_>) -> FinishReason {
    let status = response.get("status").and_then(Value::text).unwrap_or_default();
    let reason = response.get("incomplete_details").and_then(|details| details.get("reason"));
    match &*status {
        "incomplete" if reason.is_some_and(|reason| reason.is_text("content_filter")) => FinishReason::ContentFilter,
        "incomplete" => FinishReason::Length,
        status if UNFINISHED.contains(&status) => FinishReason::Refusal,
        _ => FinishReason::Complete,
    }
}

/// True for calls of tools that the upstream defines and the application runs.
pub fn is_built_in(call: Value<'_>) -> bool {
    !call.get("type").is_some_and(|kind| kind.is_text("function_call") || kind.is_text("custom_tool_call"))
}

/// True for calls of tools that toolmark doesn't judge; they satisfy a demanded call.
pub fn is_hosted_call(item: Value<'_>) -> bool {
    item.get("type").and_then(Value::text).is_some_and(|kind| kind.ends_with("_call") || kind == "mcp_approval_request")
}

/// True for a call of one of the upstream's own tools that may have found something which only the model has.
pub fn has_unseen_result(item: Value<'_>) -> bool {
    const FINDS: [&str; 4] = ["web_search_call", "file_search_call", "code_interpreter_call", "mcp_call"];
    let of_kind = item.get("type").is_some_and(|kind| FINDS.iter().any(|name| kind.is_text(name)));
    let failed = item.get("status").is_some_and(|status| status.is_text("failed")) || item.get_some("error").is_some();
    of_kind && !failed
}

/// The strings of a message item. The item must be a message and nothing else.
///
/// # Errors
/// [`ShapeError::Text`] for a text or call in a place that can't be judged.
pub fn message_strings(message: Value<'_>) -> Result<MessageStrings<'_>, ShapeError> {
    let call = |name: &str| matches!(name, "call_id" | "arguments" | "input");
    let outside = |name: &str| call(name) || (name != "content" && is_disguise(name));
    if message.members().any(|member| outside(&member.name()) && !is_nothing(member.value)) {
        return Err(ShapeError::Text);
    }
    strings_of(message)
}

/// True for a message as the official clients know it.
pub fn is_official(message: Value<'_>) -> bool {
    message.get("type").is_some_and(|kind| kind.is_text("message"))
}

/// Reads a call. Refuses one whose namespace isn't a string, and a built-in call with the name of a registered tool.
///
/// # Errors
/// [`ShapeError`] if it can't be judged.
pub fn call_of(item: Value<'_>, kind: CallKind, context: &Context) -> Result<OutputCall, ShapeError> {
    if item.get_some("namespace").is_some_and(|namespace| !namespace.is_string()) {
        return Err(ShapeError::Ambiguous);
    }
    let slot = OutputCall::read(item, kind)?;
    // The arguments would be judged of the one tool, and the action be run by the other.
    if is_built_in(item) && context.tools().registry.tool(&slot.call(context).name).is_some() {
        return Err(ShapeError::Ambiguous);
    }
    Ok(slot)
}

/// Statuses of a response that isn't complete, or never will be.
const UNFINISHED: [&str; 4] = ["queued", "in_progress", "failed", "cancelled"];

/// True for members of a response under which some client might look for a call or a text.
fn is_outside(name: &str, value: Value<'_>) -> bool {
    let same = |own: &&str| own.eq_ignore_ascii_case(name);
    match name {
        "output" => false,
        // An object: the format that was asked for.
        "text" => value.is_string() || value.is_array(),
        "output_text" => !value.is_string(),
        _ => is_disguise(name) || OUTSIDE.iter().any(same),
    }
}

const OUTSIDE: [&str; 9] = ["choices", "message", "messages", "delta", "item", "output", "output_text", "outputs", "output_messages"];
