//! Calls that a model wrote as text, made real ones: `[calls] promote_textual`. Pure.
//!
//! Only where nothing else is said, and nobody asked for such text ([`super::asked`]). With `"exact"` the tools are known and
//! the arguments fit their schemas as they are written; otherwise the text stays what it is, and the check
//! `textual_tool_call` decides. A promoted call goes on as if the upstream had sent it: it is judged, marked, run, and
//! repaired like any other.

use bytes::Bytes;

use super::{asked, context::Context, tools::Dialect};
use crate::{
    judge::{
        call::{Arguments, Call, CallKind, Cut, Outcome, judge_call},
        call_turn::ToolChoice,
        registry::ToolKind,
        textual::{self, Fences, Names, Reading, WrittenArguments, WrittenCall},
        violation::{Code, Violation},
    },
    policy::PromoteTextual,
    wire::{
        json::{Document, Value},
        sse::Event,
        text::quote,
    },
};

/// What an event that is held takes besides its data.
const EVENT_BYTES: usize = 512;
/// Events say a token each, and so take many times what their text does.
const EVENTS_FACTOR: usize = 8;

/// A call made of text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Promoted {
    /// The tool.
    pub tool: String,
    /// Its arguments: JSON text of an object.
    pub arguments: String,
}

/// What a text is made of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Promotion {
    /// These calls.
    Calls(Vec<Promoted>),
    /// What is there may become calls.
    More,
    /// It stays text.
    Text,
}

/// A text that is held because it may become calls: looked at again when there is a good part more of it, so that many
/// small pieces cost no more than a few large ones.
#[derive(Debug, Default)]
pub struct HeldText {
    text: String,
    next: usize,
}

impl HeldText {
    /// Takes a piece.
    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// Has none come yet?
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// What it is. `last`: no more of it comes.
    pub fn read(&mut self, context: &Context, last: bool) -> Promotion {
        if self.text.len() > context.held_bytes_max {
            return Promotion::Text;
        }
        if !last && self.text.len() < self.next {
            return Promotion::More;
        }
        self.next = self.text.len() + self.text.len() / 4;
        calls(&self.text, context, last)
    }
}

/// Events of a stream as they go on to its judge.
pub type Passed = Vec<(Event, Document)>;

/// What of a stream is held because its text may become calls.
#[derive(Default)]
pub struct Held {
    /// It still may.
    open: bool,
    /// The events, from the first of the text on.
    pub events: Passed,
    /// What they take, about.
    bytes: usize,
    /// The text.
    pub text: HeldText,
    /// The tools of the calls that were made.
    pub tools: Vec<String>,
}

impl Held {
    /// For one attempt, in which this may happen at all or not.
    pub fn new(open: bool) -> Self {
        Self { open, ..Self::default() }
    }

    /// May anything still be held?
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Holds an event; false where that is more than may be held.
    pub fn hold(&mut self, event: Event, document: Document, context: &Context) -> bool {
        self.bytes += event.data.as_ref().map_or(0, Bytes::len) + EVENT_BYTES;
        self.events.push((event, document));
        self.bytes <= context.held_bytes_max.saturating_mul(EVENTS_FACTOR)
    }

    /// What is held, and nothing will be any more.
    pub fn release(&mut self) -> Passed {
        self.open = false;
        std::mem::take(&mut self.events)
    }
}

/// An event like this one with other data.
pub fn made(event: &Event, data: Bytes) -> Option<(Event, Document)> {
    let document = Document::parse(data.clone()).ok()?;
    Some((Event { raw: Bytes::new(), data: Some(data), name: event.name.clone(), plain: false }, document))
}

/// May calls be made of text in this exchange?
pub fn allowed(context: &Context) -> bool {
    // An application of the legacy API would not see them.
    let legacy = context.tools.dialect == Dialect::Legacy;
    context.rules.policy.calls.promote_textual != PromoteTextual::Off
        && !(context.observes() || context.json_only || legacy)
        && context.choices <= 1
        && context.turn.tool_choice != ToolChoice::None
        && !context.tools.registry.is_empty()
}

/// What this text is. `last`: no more of it comes.
pub fn calls(text: &str, context: &Context, last: bool) -> Promotion {
    // The first word of most answers names no tool: it isn't held until the next one says so.
    if !last && textual::is_word(text) && !(textual::begins_mark(text) || context.tools.registry.names().any(|name| name.starts_with(text)))
    {
        return Promotion::Text;
    }
    let exact = context.rules.policy.calls.promote_textual == PromoteTextual::Exact;
    let known = |name: &str| context.tools.registry.tool(name).is_some_and(|tool| !exact || tool.kind == ToolKind::Function);
    let read = |names| textual::read(text, &known, names, if exact { Fences::Code } else { Fences::Wrapper }, last);
    let widest = read(if exact { Names::Known } else { Names::Any });
    // Most texts end here, at their first character.
    let Some(names) = (widest != Reading::Nothing).then(|| asked::names(context)) else { return Promotion::Text };
    let reading = match names {
        None => return Promotion::Text,
        Some(Names::Any) => widest,
        Some(_) if exact => widest,
        Some(names) => read(names),
    };
    match reading {
        Reading::More => Promotion::More,
        Reading::Nothing => Promotion::Text,
        Reading::Calls(written) => {
            let promoted = |call| if exact { fitting(call, context) } else { Some(as_written(call, context)) };
            written.into_iter().map(promoted).collect::<Option<Vec<_>>>().map_or(Promotion::Text, Promotion::Calls)
        }
    }
}

/// That it was done, for the verdict.
pub fn notes(tools: &[String], context: &Context) -> impl Iterator<Item = Violation> {
    let note = |tool: &String| {
        let message = format!("the call of {} was written as text and was made a real one", quote(tool));
        context.rules.checks.violation(Code::CorrectedTextual, Some(tool), message, "")
    };
    tools.iter().filter_map(note)
}

/// A call to be judged like any other.
fn as_written(written: WrittenCall, context: &Context) -> Promoted {
    let arguments = match written.arguments {
        WrittenArguments::Json(json) => json,
        WrittenArguments::Values(values) => {
            let tool = context.tools.registry.tool(&written.tool);
            let typed = tool.and_then(|tool| typed(&values, &tool.raw));
            let text = |(name, value): &(String, String)| format!("{}:{}", quote(name), quote(value));
            typed.unwrap_or_else(|| format!("{{{}}}", values.iter().map(text).collect::<Vec<_>>().join(",")))
        }
    };
    Promoted { tool: written.tool, arguments }
}

/// A call that needs no judging any more; `None` where it doesn't fit.
fn fitting(written: WrittenCall, context: &Context) -> Option<Promoted> {
    let tool = context.tools.registry.tool(&written.tool)?;
    let arguments = match written.arguments {
        WrittenArguments::Json(json) => json,
        WrittenArguments::Values(values) => typed(&values, &tool.raw)?,
    };
    let call = Call { name: written.tool, kind: CallKind::Function, arguments: Arguments::Text(arguments), id: None };
    let judged = judge_call(&call, &context.tools.registry, &context.call_rules, Cut::Whole, &|_| None);
    match judged.outcome {
        Outcome::Accept(valid) if !valid.corrected() => {
            Some(Promoted { tool: valid.name().to_owned(), arguments: valid.arguments().to_owned() })
        }
        Outcome::Accept(_) | Outcome::Reject => None,
    }
}

/// Values without types as an object, where the tool's schema says each type.
fn typed(values: &[(String, String)], tool: &str) -> Option<String> {
    let document = Document::parse(Bytes::copy_from_slice(tool.as_bytes())).ok()?;
    let body = document.root().get("function").unwrap_or(document.root());
    let properties = body.get("parameters").and_then(|parameters| parameters.get("properties"));
    let member = |(name, value): &(String, String)| {
        let kind = properties?.get(name)?.get("type").and_then(Value::text)?;
        let value = if kind == "string" { quote(value) } else { value.trim().to_owned() };
        let is_json = Document::parse(Bytes::copy_from_slice(value.as_bytes())).is_ok();
        is_json.then(|| format!("{}:{value}", quote(name)))
    };
    let members = values.iter().map(member).collect::<Option<Vec<_>>>()?;
    Some(format!("{{{}}}", members.join(",")))
}
