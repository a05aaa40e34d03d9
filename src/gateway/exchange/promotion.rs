//! Promotion of calls that a model wrote as text to real ones: `[calls] promote_textual`. Pure.
//!
//! Only where nothing else is said, and nobody asked for such text ([`crate::exchange::text::asked_for_calls`]). With `"exact"` the tools are known and
//! the arguments fit their schemas as they are written; otherwise the text stays what it is, and the check
//! `textual_tool_call` decides. A promoted call goes on as if the upstream had sent it: it is judged, marked, run, and
//! repaired like any other.

use bytes::Bytes;

use super::context::Context;
use crate::{
    claims::text_input::TextInput,
    exchange::{text::asked_for_calls, tool_set::Dialect},
    judge::{
        call::{Arguments, Call, CallKind, CallVerdict, Truncation, judge_call, turn::ToolChoice},
        textual_calls::{self, FenceMode, TextualArguments, TextualCall, TextualParse, ToolFilter},
    },
    policy::PromoteTextual,
    tools::registry::ToolKind,
    violation::{Code, Violation},
    wire::{
        json::{Document, Value, string::quote},
        sse::SseEvent,
    },
};

/// Estimated memory of a held event besides its data, in bytes.
const EVENT_BYTES: usize = 512;
/// Factor by which held events may exceed the limit for held text; an event often carries a single token.
const EVENTS_FACTOR: usize = 8;

/// A call promoted from text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Promoted {
    /// Name of the tool.
    pub tool: String,
    /// Its arguments: JSON text of an object.
    pub arguments: String,
}

/// Result of reading a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Promotion {
    /// The text is these calls.
    Calls(Vec<Promoted>),
    /// Undecided: the text may become calls.
    More,
    /// The text stays text.
    Text,
}

/// Text that is held because it may become calls. It is read again only after it has grown by a quarter, so that many
/// small pieces cost no more than a few large ones.
#[derive(Debug, Default)]
pub struct HeldText {
    text: String,
    next: usize,
}

impl HeldText {
    /// Appends a piece.
    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// True if there is no text yet.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Reads the text so far. `input`: may more text follow?
    pub fn read(&mut self, context: &Context, input: TextInput) -> Promotion {
        if self.text.len() > context.held_bytes_max {
            return Promotion::Text;
        }
        if input.is_partial() && self.text.len() < self.next {
            return Promotion::More;
        }
        self.next = self.text.len() + self.text.len() / 4;
        calls(&self.text, context, input)
    }
}

/// Events of a stream that are forwarded to its judge.
pub type Passed = Vec<(SseEvent, Document)>;

/// Events of a stream that are held because their text may become calls.
#[derive(Default)]
pub struct Held {
    /// The text may still become calls.
    open: bool,
    /// The events, from the first with text on.
    pub events: Passed,
    /// Estimated memory of the events, in bytes.
    bytes: usize,
    /// Text of the events.
    pub text: HeldText,
    /// Tools of the calls that were promoted.
    pub tools: Vec<String>,
}

impl Held {
    /// Starts an attempt.
    pub fn for_attempt(context: &Context) -> Self {
        Self { open: allowed(context), ..Self::default() }
    }

    /// True while events may still be held.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Holds an event; false if the limit is exceeded.
    pub fn hold(&mut self, event: SseEvent, document: Document, context: &Context) -> bool {
        self.bytes += event.data.as_ref().map_or(0, Bytes::len) + EVENT_BYTES;
        self.events.push((event, document));
        self.bytes <= context.held_bytes_max.saturating_mul(EVENTS_FACTOR)
    }

    /// Takes the held events and stops holding.
    pub fn release(&mut self) -> Passed {
        self.open = false;
        std::mem::take(&mut self.events)
    }
}

/// A copy of an event with other data; `None` if that isn't JSON.
pub fn made(event: &SseEvent, data: Bytes) -> Option<(SseEvent, Document)> {
    let document = Document::parse(data.clone()).ok()?;
    Some((SseEvent::without_bytes(Some(data), event.name.clone()), document))
}

/// True if calls may be promoted from text in this exchange.
pub fn allowed(context: &Context) -> bool {
    // An application of the legacy API would not see them.
    let legacy = context.tools().dialect == Dialect::Legacy;
    context.rules.policy.calls.promote_textual != PromoteTextual::Off
        && !(context.observes() || context.json_only || legacy)
        && context.choices <= 1
        // What the upstream stores would have a text where the application has a call.
        && !context.hidden.store
        && context.hidden.conversation.is_none()
        && context.turn.tool_choice != ToolChoice::None
        && !context.tools().registry.is_empty()
}

/// Reads a text that may be calls. `input`: may more text follow?
pub fn calls(text: &str, context: &Context, input: TextInput) -> Promotion {
    // The first word of most answers names no tool: it isn't held until the next one says so.
    if input.is_partial()
        && textual_calls::is_word(text)
        && !(textual_calls::begins_mark(text) || context.tools().registry.names().any(|name| name.starts_with(text)))
    {
        return Promotion::Text;
    }
    let exact = context.rules.policy.calls.promote_textual == PromoteTextual::Exact;
    let known = |name: &str| context.tools().registry.tool(name).is_some_and(|tool| !exact || tool.kind == ToolKind::Function);
    let read = |names| textual_calls::read(text, &known, names, if exact { FenceMode::Code } else { FenceMode::Wrapper }, input);
    let widest = read(if exact { ToolFilter::Known } else { ToolFilter::Any });
    // Most texts end here, at their first character.
    let Some(names) = (widest != TextualParse::Nothing).then(|| asked_for_calls::names(context)) else { return Promotion::Text };
    let reading = match names {
        None => return Promotion::Text,
        Some(ToolFilter::Any) => widest,
        Some(_) if exact => widest,
        Some(names) => read(names),
    };
    match reading {
        TextualParse::More => Promotion::More,
        TextualParse::Nothing => Promotion::Text,
        TextualParse::Calls(written) => {
            let promoted = |call| if exact { fitting(call, context) } else { Some(as_written(call, context)) };
            written.into_iter().map(promoted).collect::<Option<Vec<_>>>().map_or(Promotion::Text, Promotion::Calls)
        }
    }
}

/// Informational violations about promoted calls, for the verdict.
pub fn notes(tools: &[String], context: &Context) -> impl Iterator<Item = Violation> {
    let note = |tool: &String| {
        let message = format!("the call of {} was written as text and was made a real one", quote(tool));
        context.rules.checks.violation(Code::CorrectedTextual, Some(tool), message, "")
    };
    tools.iter().filter_map(note)
}

/// A call as written, to be judged like any other.
fn as_written(written: TextualCall, context: &Context) -> Promoted {
    let arguments = match written.arguments {
        TextualArguments::Json(json) => json,
        TextualArguments::Values(values) => {
            let tool = context.tools().registry.tool(&written.tool);
            let typed = tool.and_then(|tool| typed(&values, &tool.raw));
            let text = |(name, value): &(String, String)| format!("{}:{}", quote(name), quote(value));
            typed.unwrap_or_else(|| format!("{{{}}}", values.iter().map(text).collect::<Vec<_>>().join(",")))
        }
    };
    Promoted { tool: written.tool, arguments }
}

/// A call that is valid as written; `None` if it isn't.
fn fitting(written: TextualCall, context: &Context) -> Option<Promoted> {
    let tool = context.tools().registry.tool(&written.tool)?;
    let arguments = match written.arguments {
        TextualArguments::Json(json) => json,
        TextualArguments::Values(values) => typed(&values, &tool.raw)?,
    };
    let call = Call { name: written.tool, kind: CallKind::Function, arguments: Arguments::Text(arguments), id: None };
    let judged = judge_call(&call, &context.tools().registry, &context.call_rules, Truncation::Whole, &|_: &str| None);
    match judged.outcome {
        CallVerdict::Accept(valid) if !valid.corrected() => {
            Some(Promoted { tool: valid.name().to_owned(), arguments: valid.arguments().to_owned() })
        }
        CallVerdict::Accept(_) | CallVerdict::Reject => None,
    }
}

/// Untyped values as a JSON object, typed by the tool's schema; `None` if the schema lacks a type.
fn typed(values: &[(String, String)], tool: &str) -> Option<String> {
    let document = Document::parse(Bytes::copy_from_slice(tool.as_bytes())).ok()?;
    let body = document.root().get("function").unwrap_or(document.root());
    let properties = body.get("parameters").or_else(|| body.get("input_schema")).and_then(|parameters| parameters.get("properties"));
    let member = |(name, value): &(String, String)| {
        let kind = properties?.get(name)?.get("type").and_then(Value::text)?;
        let value = if kind == "string" { quote(value) } else { value.trim().to_owned() };
        let is_json = Document::parse(Bytes::copy_from_slice(value.as_bytes())).is_ok();
        is_json.then(|| format!("{}:{value}", quote(name)))
    };
    let members = values.iter().map(member).collect::<Option<Vec<_>>>()?;
    Some(format!("{{{}}}", members.join(",")))
}
