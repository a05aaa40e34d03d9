//! The marks and execution IDs found in a cassette: the id of every accepted call, as the application got it or as toolmark
//! executed it, and the stamp of every stamped result. Pure.

use std::sync::LazyLock;

use bytes::Bytes;
use regex::Regex;

use super::body::RecordedBody;
use crate::format::{RecordedExchange, RecordedResponse};
use toolmark_core::{
    marks::{CallMark, RecordedMarks},
    wire::{
        json::{Document, Value},
        sse::SseParser,
    },
};

/// Levels of an answer that are searched for calls.
const DEPTH: usize = 12;

static STAMPS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[A-Za-z0-9_-]{1,128}_[0-9]{13}_[0-9a-f]{16}").ok());

/// Adds the marks and execution IDs of one exchange.
pub fn collect(exchange: &RecordedExchange, marks: &mut RecordedMarks) {
    if let Some(response) = &exchange.downstream.response {
        documents(response, |document| calls(document.root(), marks));
    }
    exchange.mcp.iter().flat_map(|mcp| &mcp.ran).for_each(|ran| marks.issue(&ran.call, &ran.tool, &ran.arguments));
    let Some(stamps) = &*STAMPS else { return };
    for attempt in &exchange.attempts {
        let Some(text) = attempt.request.as_ref().and_then(|request| request.body.as_ref()).and_then(RecordedBody::text) else { continue };
        stamps.find_iter(&text).for_each(|id| marks.stamp(id.as_str()));
    }
}

/// The marks and execution IDs of a whole cassette.
pub fn of<'e>(exchanges: impl Iterator<Item = &'e RecordedExchange> + Clone) -> RecordedMarks {
    let mut marks = RecordedMarks::default();
    // A result may have been recorded before its call, where a rotation or a retry put it there.
    for _ in 0..2 {
        exchanges.clone().for_each(|exchange| collect(exchange, &mut marks));
    }
    marks
}

/// The JSON documents of an answer: its body, or the data of its events.
fn documents(response: &RecordedResponse, mut each: impl FnMut(Document)) {
    let Some(body) = &response.body else { return };
    let mut read = |bytes: Bytes| {
        if let Ok(document) = Document::parse_noting(bytes, DEPTH, &[]) {
            each(document);
        }
    };
    if !response.is_stream() {
        return read(body.bytes());
    }
    let mut parser = SseParser::default();
    // An event that is too long contains no call of toolmark's.
    let _too_long = parser.handle(body.bytes(), |event| event.data.into_iter().for_each(&mut read));
}

// INVARIANT: a document is noted to `DEPTH`, so the recursion is bounded.
fn calls(value: Value<'_>, marks: &mut RecordedMarks) {
    if value.is_object() {
        let text = |of: Value<'_>, name: &str| of.get(name).and_then(Value::text).map(std::borrow::Cow::into_owned);
        for name in ["id", "call_id"] {
            let Some(mark) = text(value, name).filter(|id| CallMark::parse(id).is_some()) else { continue };
            let inner = value.get("function").or_else(|| value.get("custom")).unwrap_or(value);
            let arguments = text(inner, "arguments").or_else(|| text(inner, "input"));
            if let (Some(tool), Some(arguments)) = (text(inner, "name"), arguments) {
                marks.issue(&mark, &tool, &arguments);
            }
        }
        value.members().for_each(|member| calls(member.value, marks));
    }
    value.items().for_each(|item| calls(item, marks));
}
