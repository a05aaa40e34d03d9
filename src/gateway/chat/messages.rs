//! Messages of a chat request: their meaning, and where their contents are.
//!
//! Source: OpenAI API reference, "Create chat completion", `messages`. Pure.

use std::{borrow::Cow, sync::Arc};

use crate::{
    exchange::{
        error::{Refusal, unique, unique_part},
        text::place::is_nothing,
    },
    judge::history::{HistoryItem, PastCall, memo::ItemMemo, result_classifier::ResultClassifier},
    openai::content::{arguments_text, compared, text_of},
    wire::json::Value,
};

/// Reads the messages from the one at `first` on: each as an item of the history, and its content. `large`: bytes above which a result is
/// large; `memo`: what was read from each of all messages before, or empty.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged.
pub fn read_messages<'d>(
    messages: Value<'d>,
    first: usize,
    natures: &ResultClassifier,
    large: u64,
    memo: &'d [Arc<ItemMemo>],
) -> Result<(Vec<HistoryItem<'d>>, Vec<Option<Value<'d>>>), Refusal> {
    let (mut items, mut contents) = (Vec::new(), Vec::new());
    for (at, message) in messages.items().enumerate().skip(first) {
        let memo = memo.get(at).map(|memo| &**memo);
        if !message.is_object() {
            return Err(Refusal::wrong("messages", "an array of objects"));
        }
        let parts = MessageParts::of(message)?;
        let role = parts.role.and_then(Value::text).ok_or_else(|| Refusal::wrong("messages", "an array of messages with a `role`"))?;
        let content = parts.content.filter(|content| !content.is_null());
        content.into_iter().flat_map(Value::items).try_for_each(|part| unique_part(part, "a content part"))?;
        items.push(match &*role {
            "assistant" => HistoryItem::Assistant(read_calls(&parts, memo)?),
            "tool" | "function" => {
                let id = parts.answers.and_then(Value::text).filter(|_| role == "tool");
                let (name, raw) = (parts.name.and_then(Value::text), content.map_or(Cow::Borrowed(""), compared));
                let text = || content.and_then(text_of).unwrap_or_default();
                HistoryItem::Result(natures.result(id, name, raw, large, memo, text))
            }
            "user" => HistoryItem::User,
            _ => HistoryItem::Other,
        });
        contents.push(content);
    }
    Ok((items, contents))
}

/// Members of a message that are read, found in one pass.
#[derive(Default)]
struct MessageParts<'d> {
    role: Option<Value<'d>>,
    content: Option<Value<'d>>,
    calls: Option<Value<'d>>,
    /// The legacy `function_call`.
    call: Option<Value<'d>>,
    /// `tool_call_id`: the call that a result answers.
    answers: Option<Value<'d>>,
    name: Option<Value<'d>>,
}

impl<'d> MessageParts<'d> {
    fn of(message: Value<'d>) -> Result<Self, Refusal> {
        unique(message, "a message")?;
        let mut parts = Self::default();
        for member in message.members() {
            let part = match &*member.name() {
                "role" => &mut parts.role,
                "content" => &mut parts.content,
                "tool_calls" => &mut parts.calls,
                "function_call" => &mut parts.call,
                "tool_call_id" => &mut parts.answers,
                "name" => &mut parts.name,
                _ => continue,
            };
            *part = Some(member.value);
        }
        Ok(parts)
    }
}

fn read_calls<'d>(message: &MessageParts<'d>, memo: Option<&'d ItemMemo>) -> Result<Vec<PastCall<'d>>, Refusal> {
    let mut calls = Vec::new();
    if message.calls.is_some_and(|calls| !calls.is_array() && !is_nothing(calls)) {
        return Err(Refusal::wrong("tool_calls", "an array"));
    }
    for call in message.calls.into_iter().flat_map(Value::items) {
        unique(call, "a tool call")?;
        let [function, custom] = ["function", "custom"].map(|name| call.get(name).filter(|body| !is_nothing(*body)));
        if function.is_some() && custom.is_some() {
            return Err(Refusal::wrong("tool_calls", "an array of calls, each with `function` or with `custom`"));
        }
        let body = function.or(custom).unwrap_or(call);
        unique(body, "a tool call's function")?;
        if ["arguments", "input"].iter().all(|name| body.get(name).is_some_and(|own| !is_nothing(own))) {
            return Err(Refusal::wrong("tool_calls", "an array of calls, each with `arguments` or with `input`"));
        }
        let id = call.get("id");
        calls.push(past_call(body, id.and_then(Value::text).unwrap_or_default().into()));
    }
    if let Some(call) = message.call.filter(|call| !call.is_null()) {
        unique(call, "a function call")?;
        calls.push(past_call(call, None));
    }
    if let Some(memo) = memo.filter(|_| !calls.is_empty()) {
        let memos = memo.calls(calls.len());
        calls.iter_mut().zip(memos).for_each(|(call, memo)| call.memo = Some(memo));
    }
    Ok(calls)
}

fn past_call<'d>(body: Value<'d>, id: Option<Cow<'d, str>>) -> PastCall<'d> {
    let arguments = body.get("arguments").or_else(|| body.get("input"));
    PastCall { id, name: body.get("name").and_then(Value::text).unwrap_or_default(), arguments: arguments_text(arguments), memo: None }
}
