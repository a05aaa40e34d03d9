//! Messages of a request: their meaning, and the position of results in the request. Pure.
//!
//! Source: Anthropic's API reference, "Create a Message", `messages`; docs/wire-facts.md#messages. Consecutive messages
//! of one role are one turn, as the API reads them.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use bytes::Bytes;

use super::blocks::{BlockKind, is_programmatic, kind_of};
use crate::{
    exchange::{
        conversation::{known_items::ItemBytes, recalled::Recalled},
        error::{Refusal, unique, unique_part},
    },
    judge::history::{
        HistoryItem, PastCall,
        memo::{CallMemo, ItemMemo},
        result_classifier::ResultClassifier,
        stamp::ResultReader,
    },
    openai::content::{compared, text_of},
    wire::json::{Document, Value, string::JsonText},
};

/// Levels of content in which texts are looked for.
const TEXT_DEPTH_MAX: usize = 4;

/// One item of the conversation, in its order.
#[derive(Clone, Debug)]
pub enum Place<'d> {
    /// A turn of the model: its messages, and its calls.
    Model(Vec<Value<'d>>, Vec<Value<'d>>),
    /// A `tool_result` block.
    Result(Value<'d>, ResultReader),
    /// A user message.
    User(Value<'d>),
    /// Content beside results in a user message: the user may not have spoken.
    Beside(Value<'d>),
    /// Instructions.
    Instructions(Value<'d>),
}

impl Place<'_> {
    /// The bytes that it consists of, and how they are read: the same bytes may be a message and a block. `None` if it is more than one
    /// message.
    pub fn bytes(&self) -> Option<ItemBytes<'_>> {
        let (kind, value) = match self {
            Self::Model(messages, _) => (0, messages.first().filter(|_| messages.len() == 1)?),
            Self::Result(value, _) => (1, value),
            Self::User(value) => (2, value),
            Self::Beside(value) => (3, value),
            Self::Instructions(value) => (4, value),
        };
        Some(ItemBytes { kind, bytes: value.raw() })
    }

    /// Byte of the request behind it.
    fn end(&self) -> usize {
        match self {
            Self::Model(messages, _) => messages.last().map_or(0, |message| message.span().end),
            Self::Result(value, _) | Self::User(value) | Self::Beside(value) | Self::Instructions(value) => value.span().end,
        }
    }
}

/// Number of the first places that are the same in all requests with the same bytes up to `end`, the end of a message. A turn of the model
/// there isn't one of them: it may go on behind it.
pub fn places_within(places: &[Place<'_>], end: usize) -> usize {
    let within = places.iter().take_while(|place| place.end() <= end).count();
    let may_go_on = places.get(..within).and_then(<[_]>::last).is_some_and(|place| matches!(place, Place::Model(..)));
    within - usize::from(may_go_on)
}

/// Blocks of a message's content; none of a string.
pub fn blocks(message: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    message.get("content").into_iter().flat_map(Value::items)
}

fn is_result(block: Value<'_>) -> bool {
    block.get("type").is_some_and(|kind| kind.is_text("tool_result"))
}

/// Reads the messages. `recalled`: stored state of the conversation before them.
///
/// # Errors
/// [`Refusal`] for a shape that can't be judged.
pub fn places<'d>(messages: Value<'d>, recalled: &Recalled) -> Result<Vec<Place<'d>>, Refusal> {
    let mut places = Vec::new();
    // Calls whose results aren't judged, and calls that code makes.
    let (mut passed, mut of_code): (HashSet<Cow<'_, str>>, HashSet<Cow<'_, str>>) = Default::default();
    of_code.extend(recalled.calls.iter().filter(|(_, call)| call.read_by_code).map(|(mark, _)| Cow::Owned(mark.clone())));
    for message in messages.items() {
        if !message.is_object() {
            return Err(Refusal::wrong("messages", "an array of objects"));
        }
        unique(message, "a message")?;
        let role =
            message.get("role").and_then(Value::text).ok_or_else(|| Refusal::wrong("messages", "an array of messages with a `role`"))?;
        for block in blocks(message) {
            unique(block, "a content block")?;
        }
        match &*role {
            "assistant" => {
                let mut calls = Vec::new();
                for block in blocks(message) {
                    let id = || block.get("id").and_then(Value::text);
                    match kind_of(block) {
                        BlockKind::Call => {
                            of_code.extend(id().filter(|_| is_programmatic(block)));
                            calls.push(block);
                        }
                        BlockKind::ToolsetCall => passed.extend(id()),
                        BlockKind::Text | BlockKind::Thinking | BlockKind::Hosted | BlockKind::Other => {}
                    }
                }
                match places.last_mut() {
                    Some(Place::Model(messages, known)) => {
                        messages.push(message);
                        known.extend(calls);
                    }
                    _ => places.push(Place::Model(vec![message], calls)),
                }
            }
            "user" => {
                let mut results = false;
                for block in blocks(message).filter(|block| is_result(*block)) {
                    results = true;
                    for part in block.get("content").into_iter().flat_map(Value::items) {
                        unique_part(part, "a part of a tool result")?;
                        part.get("content")
                            .into_iter()
                            .flat_map(Value::items)
                            .try_for_each(|inner| unique_part(inner, "a part of a tool result"))?;
                    }
                    let id = block.get("tool_use_id").and_then(Value::text).unwrap_or_default();
                    if block.get_some("toolset_name").is_some() || passed.contains(&id) {
                        continue;
                    }
                    let reader = if of_code.contains(&id) { ResultReader::Code } else { ResultReader::Model };
                    places.push(Place::Result(block, reader));
                }
                let speaks = blocks(message).any(|block| !is_result(block)) || message.get("content").is_some_and(Value::is_string);
                match (results, speaks) {
                    (false, _) => places.push(Place::User(message)),
                    (true, true) => places.push(Place::Beside(message)),
                    (true, false) => {}
                }
            }
            _ => places.push(Place::Instructions(message)),
        }
    }
    Ok(places)
}

/// The places as items of a history. `large`: bytes above which a result is large; `memo`: what was read from each of them before, or
/// empty.
pub fn items<'d>(places: &[Place<'d>], natures: &ResultClassifier, large: u64, memo: &'d [Arc<ItemMemo>]) -> Vec<HistoryItem<'d>> {
    let item = |(at, place): (usize, &Place<'d>)| match place {
        Place::Model(_, calls) => {
            let known = memo.get(at).filter(|_| !calls.is_empty()).map_or(&[][..], |memo| memo.calls(calls.len()));
            let call = |(number, call): (usize, &Value<'d>)| past_call(*call, known.get(number));
            HistoryItem::Assistant(calls.iter().enumerate().map(call).collect())
        }
        Place::Result(block, _) => {
            let content = block.get_some("content");
            let id = block.get("tool_use_id").and_then(Value::text);
            let text = || content.and_then(text_of).unwrap_or_default();
            let memo = memo.get(at).map(|memo| &**memo);
            let mut result = natures.result(id, None, content.map_or(Cow::Borrowed("\"\""), compared), large, memo, text);
            result.nature.failed |= block.get("is_error").is_some_and(|flag| flag.raw() == b"true");
            HistoryItem::Result(result)
        }
        Place::User(_) => HistoryItem::User,
        Place::Beside(_) | Place::Instructions(_) => HistoryItem::Other,
    };
    places.iter().enumerate().map(item).collect()
}

fn past_call<'d>(block: Value<'d>, memo: Option<&'d CallMemo>) -> PastCall<'d> {
    let text = |name: &str| block.get(name).and_then(Value::text);
    let arguments = JsonText::Plain(block.get_some("input").map_or("", Value::raw_str));
    PastCall { id: Some(text("id").unwrap_or_default()), name: text("name").unwrap_or_default(), arguments, memo }
}

/// Texts of a message or of a content: strings, text blocks, and those in documents and search results.
pub fn texts(value: Value<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let content = if value.get("role").is_some() { value.get("content") } else { Some(value) };
    content.into_iter().for_each(|content| collect(content, 0, &mut found));
    found
}

fn collect(content: Value<'_>, depth: usize, found: &mut Vec<String>) {
    if depth > TEXT_DEPTH_MAX {
        return;
    }
    if let Some(text) = content.text() {
        return found.push(text.into_owned());
    }
    for block in content.items().filter(|block| !is_result(*block)) {
        if block.is_string() {
            collect(block, depth + 1, found);
        }
        found.extend(block.get("text").and_then(Value::text).map(Cow::into_owned));
        let source = block.get("source").filter(|source| source.get("type").is_some_and(|kind| kind.is_text("text")));
        found.extend(source.and_then(|source| source.get("data")).and_then(Value::text).map(Cow::into_owned));
        let inner = block.get("content").or_else(|| block.get("source").and_then(|source| source.get("content")));
        inner.into_iter().for_each(|inner| collect(inner, depth + 1, found));
    }
}

/// Definitions of tools inside messages, each as an array of one: JSON.
pub fn inline_tools(messages: Value<'_>) -> Vec<String> {
    let role = |message: &Value<'_>| message.get("role").is_some_and(|role| role.is_text("system"));
    let added =
        messages.items().filter(role).flat_map(blocks).filter(|block| block.get("type").is_some_and(|kind| kind.is_text("tool_addition")));
    let definition = |block: Value<'_>| block.get("tool")?.get_some("definition").map(|tool| format!("[{}]", tool.raw_str()));
    added.filter_map(definition).collect()
}

/// A copy of a JSON text as a document.
pub fn document(json: &str) -> Option<Document> {
    Document::parse(Bytes::copy_from_slice(json.as_bytes())).ok()
}
