//! Joins the fragments of one choice's calls, in any form that upstreams send.
//!
//! Source: docs/wire-facts.md#odd-answers-to-accept: index missing, repeated or always 0; id missing, empty or
//! repeated; names repeated or split; arguments as object, null, `""` or absent. Nothing is released
//! from here: a prefix of a valid call may still end as a forbidden one. Sans-IO.

use std::{borrow::Cow, collections::HashMap};

pub use crate::exchange::error::ShapeError as AssembleError;
use crate::{
    exchange::{
        error::CALLS_MAX,
        text::place::{is_ambiguous, is_nothing},
    },
    judge::call::{Arguments, Call, CallKind},
    wire::json::{Value, string::StringJoiner},
};

/// A partial call.
#[derive(Clone, Debug, Default)]
pub struct PartialCall {
    /// The upstream's id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Kind of the call.
    pub kind: CallKind,
    /// Members unknown to toolmark, as `"name":value`, in order.
    pub extras: Vec<String>,
    /// Members of `function` (or `custom`) unknown to toolmark.
    pub inner_extras: Vec<String>,
    text: String,
    /// Joins the strings that the arguments come in.
    joiner: StringJoiner,
    form: ArgumentsForm,
    scan: BracketScan,
}

/// Bracket state of the JSON object in the arguments; cheap enough to be updated with every fragment.
#[derive(Clone, Copy, Debug, Default)]
struct BracketScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    ended: bool,
    /// There is text after the object, or there was no object.
    broken: bool,
}

impl BracketScan {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                (self.in_string, self.escaped) = (self.escaped || byte != b'"', !self.escaped && byte == b'\\');
                continue;
            }
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => continue,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b'"' => self.in_string = true,
                _ => {}
            }
            self.broken |= self.ended || (self.depth == 0 && !matches!(byte, b'}' | b']'));
            self.ended = self.depth == 0 && !self.in_string;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum ArgumentsForm {
    #[default]
    Absent,
    Null,
    Text,
    Object,
    Other,
    TooLong,
}

impl PartialCall {
    /// The call in the terms common to all APIs.
    pub fn call(&self) -> Call {
        // Half a pair alone is no character, and becomes what stands for one.
        let text = || self.text.clone() + self.joiner.rest();
        let arguments = match self.form {
            ArgumentsForm::Absent => Arguments::Absent,
            ArgumentsForm::Null => Arguments::Null,
            ArgumentsForm::Text => Arguments::Text(text()),
            ArgumentsForm::Object => Arguments::Object(text()),
            ArgumentsForm::Other | ArgumentsForm::TooLong => Arguments::Other(text()),
        };
        let id = Some(self.id.clone()).filter(|id| !id.is_empty());
        Call { name: self.name.clone(), kind: self.kind, arguments, id }
    }

    /// True if the arguments exceeded the limit and were discarded.
    pub fn too_long(&self) -> bool {
        self.form == ArgumentsForm::TooLong
    }

    fn started(&self) -> bool {
        !self.text.trim().is_empty()
    }

    /// True if the arguments are one complete object, judging by brackets: further fragments belong to another call.
    fn complete(&self) -> bool {
        self.scan.ended && !self.scan.broken
    }

    fn push_arguments(&mut self, value: Value<'_>, bytes_max: usize) {
        let (form, text) = match self.joiner.text(value) {
            Some(text) => (ArgumentsForm::Text, text),
            None if value.is_null() => (ArgumentsForm::Null, "".into()),
            None if value.is_object() => (ArgumentsForm::Object, value.raw_str().into()),
            None => (ArgumentsForm::Other, value.raw_str().into()),
        };
        self.form = match (self.form, form) {
            (ArgumentsForm::TooLong, _) => return,
            (ArgumentsForm::Absent | ArgumentsForm::Null, form) => form,
            (own, ArgumentsForm::Null) => own,
            (ArgumentsForm::Text, ArgumentsForm::Text) => ArgumentsForm::Text,
            // An object after an empty string is the whole; anything else can't be joined.
            (ArgumentsForm::Text, ArgumentsForm::Object) if !self.started() => ArgumentsForm::Object,
            _ => ArgumentsForm::Other,
        };
        if self.text.len() + text.len() > bytes_max {
            self.form = ArgumentsForm::TooLong;
            self.text.truncate(0);
            self.text.push_str("(longer than `limits.held_bytes`)");
            return;
        }
        self.scan.read(&text);
        self.text.push_str(&text);
    }
}

/// Assembles the calls of one choice.
#[derive(Clone, Debug)]
pub struct Assembler {
    slots: Vec<PartialCall>,
    by_index: HashMap<u64, usize>,
    bytes_max: usize,
}

impl Assembler {
    /// `bytes_max`: limit for one call's arguments, in bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { slots: Vec::new(), by_index: HashMap::new(), bytes_max }
    }

    /// The calls so far.
    pub fn slots(&self) -> &[PartialCall] {
        &self.slots
    }

    /// Adds the `tool_calls` of a delta or message. `known` tells if a tool of this name exists.
    ///
    /// # Errors
    /// [`AssembleError`] for what can't be judged.
    pub fn handle(&mut self, tool_calls: Value<'_>, known: impl Fn(&str) -> bool) -> Result<(), AssembleError> {
        if tool_calls.is_null() {
            return Ok(());
        }
        if tool_calls.is_object() {
            return self.fragment(tool_calls, &known);
        }
        if !tool_calls.is_array() {
            return Err(AssembleError::NoObject);
        }
        tool_calls.items().try_for_each(|call| self.fragment(call, &known))
    }

    /// Adds the `tool_calls` of a complete message: every element is a call of its own.
    ///
    /// # Errors
    /// [`AssembleError`] for what can't be judged.
    pub fn handle_whole(&mut self, tool_calls: Value<'_>) -> Result<(), AssembleError> {
        if !tool_calls.is_array() && !is_nothing(tool_calls) {
            return Err(AssembleError::NoObject);
        }
        tool_calls.items().try_for_each(|call| {
            let fragment = Fragment::read(call)?;
            let at = self.open(None, fragment.kind())?;
            self.fill(at, &fragment);
            Ok(())
        })
    }

    /// Adds a legacy `function_call`.
    ///
    /// # Errors
    /// [`AssembleError`] for what can't be judged.
    pub fn handle_legacy(&mut self, call: Value<'_>) -> Result<(), AssembleError> {
        if !call.is_object() {
            return Err(AssembleError::NoObject);
        }
        if is_ambiguous(call) {
            return Err(AssembleError::Duplicate);
        }
        // Snowflake sends one with empty strings in every answer.
        if !says(call) {
            return Ok(());
        }
        let at = match self.slots.iter().position(|slot| slot.kind == CallKind::Legacy) {
            Some(at) => at,
            None => self.open(None, CallKind::Legacy)?,
        };
        let bytes_max = self.bytes_max;
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        if let Some(name) = call.get("name").and_then(Value::text)
            && name != slot.name
        {
            slot.name.push_str(&name);
        }
        if let Some(arguments) = call.get("arguments") {
            slot.push_arguments(arguments, bytes_max);
        }
        Ok(())
    }

    fn fragment(&mut self, call: Value<'_>, known: &impl Fn(&str) -> bool) -> Result<(), AssembleError> {
        if self.slots.first().is_some_and(|slot| slot.kind == CallKind::Legacy) {
            return Err(AssembleError::Mixed);
        }
        let fragment = Fragment::read(call)?;
        let at = self.slot_for(&fragment, known)?;
        self.fill(at, &fragment);
        Ok(())
    }

    fn fill(&mut self, at: usize, fragment: &Fragment<'_>) {
        let bytes_max = self.bytes_max;
        let Some(slot) = self.slots.get_mut(at) else { return };
        if slot.id.is_empty() {
            slot.id.push_str(&fragment.id);
        }
        if !fragment.name.is_empty() && slot.name != *fragment.name {
            slot.name.push_str(&fragment.name);
        }
        if fragment.custom {
            slot.kind = CallKind::Custom;
        }
        if let Some(arguments) = fragment.arguments {
            slot.push_arguments(arguments, bytes_max);
        }
        let known = |name: &str| matches!(name, "index" | "id" | "type" | "function" | "custom" | "name" | "arguments" | "input");
        keep_extras(&mut slot.extras, fragment.call, known);
        if let Some(body) = fragment.body {
            keep_extras(&mut slot.inner_extras, body, |name| matches!(name, "name" | "arguments" | "input"));
        }
    }

    fn slot_for(&mut self, fragment: &Fragment<'_>, known: &impl Fn(&str) -> bool) -> Result<usize, AssembleError> {
        let (id, name, index) = (&*fragment.id, &*fragment.name, fragment.call.get("index").and_then(Value::integer));
        let brings_text = fragment.arguments.is_some_and(|value| !value.is_null() && !value.is_text(""));
        let current = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None if id.is_empty() => self.slots.len().checked_sub(1),
            None => match self.slots.iter().position(|slot| slot.id == id) {
                Some(at) => Some(at),
                // The first fragment of a call may have come without its id.
                None => self.slots.len().checked_sub(1).filter(|at| self.slots[*at].id.is_empty() && !self.slots[*at].started()),
            },
        };
        let Some(at) = current else { return self.open(index, fragment.kind()) };
        let slot = &self.slots[at];
        // Some upstreams make up a new id for every piece: what goes on with arguments and brings no name begins no call.
        let goes_on = index.is_some()
            && brings_text
            && !slot.name.is_empty()
            && !slot.complete()
            && (name.is_empty() || name == slot.name && slot.started());
        let other_id = !id.is_empty() && !slot.id.is_empty() && id != slot.id && !goes_on;
        let same_id = !id.is_empty() && id == slot.id;
        let other_name = !name.is_empty() && !slot.name.is_empty() && name != slot.name;
        let repeated = !name.is_empty() && name == slot.name && !same_id && brings_text && slot.complete();
        let renamed = other_name && !same_id && (slot.started() || (known(&slot.name) && known(name)));
        if other_id || renamed || repeated { self.open(index, fragment.kind()) } else { Ok(at) }
    }

    fn open(&mut self, index: Option<u64>, kind: CallKind) -> Result<usize, AssembleError> {
        if self.slots.len() >= CALLS_MAX {
            return Err(AssembleError::TooMany);
        }
        if self.slots.first().is_some_and(|slot| (slot.kind == CallKind::Legacy) != (kind == CallKind::Legacy)) {
            return Err(AssembleError::Mixed);
        }
        self.slots.push(PartialCall { kind, ..PartialCall::default() });
        let at = self.slots.len() - 1;
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        Ok(at)
    }
}

/// A parsed fragment of a call.
struct Fragment<'d> {
    call: Value<'d>,
    /// `function` or `custom`; the call itself if an upstream leaves out the inner object.
    body: Option<Value<'d>>,
    custom: bool,
    id: Cow<'d, str>,
    name: Cow<'d, str>,
    arguments: Option<Value<'d>>,
}

impl<'d> Fragment<'d> {
    fn read(call: Value<'d>) -> Result<Self, AssembleError> {
        if !call.is_object() {
            return Err(AssembleError::NoObject);
        }
        let (function, custom) = (call.get_some("function"), call.get_some("custom"));
        let bodies = || function.into_iter().chain(custom);
        if is_ambiguous(call) || bodies().any(is_ambiguous) {
            return Err(AssembleError::Duplicate);
        }
        if bodies().any(|body| !body.is_object()) {
            return Err(AssembleError::NoObject);
        }
        let kind = call.get("type").and_then(Value::text);
        let is_custom = match kind.as_deref() {
            Some("custom") => custom.is_some(),
            Some("function") => function.is_none(),
            _ => !function.is_some_and(says) && custom.is_some_and(says),
        };
        let body = if is_custom { custom } else { function.or(custom) };
        let inner = body.unwrap_or(call);
        let beside = |name: &str| body.is_some() && call.get(name).is_some_and(|value| !is_nothing(value));
        let renamed = beside("name") && call.get("name").map(Value::raw) != inner.get("name").map(Value::raw);
        let twice = (function.is_some_and(says) && custom.is_some_and(says))
            || (inner.get_some("arguments").is_some() && inner.get_some("input").is_some());
        if twice || renamed || beside("arguments") || beside("input") {
            return Err(AssembleError::Ambiguous);
        }
        let text = |object: Value<'d>, name: &str| object.get(name).and_then(Value::text).unwrap_or_default();
        Ok(Self {
            call,
            body,
            custom: (body.is_some() && function.is_none()) || is_custom || kind.as_deref() == Some("custom"),
            id: text(call, "id"),
            name: text(inner, "name"),
            arguments: inner.get_some("arguments").or_else(|| inner.get_some("input")).or_else(|| inner.get("arguments")),
        })
    }

    fn kind(&self) -> CallKind {
        if self.custom { CallKind::Custom } else { CallKind::Function }
    }
}

/// True if the body of a call contains a name or arguments.
fn says(body: Value<'_>) -> bool {
    let some = |name: &str| body.get_some(name).is_some_and(|value| !value.is_text(""));
    ["name", "arguments", "input"].into_iter().any(some)
}

/// Stores members unknown to toolmark; of several with the same name, the first.
fn keep_extras(extras: &mut Vec<String>, object: Value<'_>, known: impl Fn(&str) -> bool) {
    const EXTRAS_MAX: usize = 16;
    for member in object.members().filter(|member| !known(&member.name())) {
        let raw = format!("{}:{}", member.key.raw_str(), member.value.raw_str());
        let key = &raw[..member.key.raw().len() + 1];
        if extras.len() < EXTRAS_MAX && !extras.iter().any(|extra| extra.starts_with(key)) {
            extras.push(raw);
        }
    }
}

#[cfg(test)]
#[path = "assembler_tests.rs"]
mod tests;
