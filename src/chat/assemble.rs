//! Joins the fragments of one choice's calls, in whatever shape an upstream sends them.
//!
//! FACTS, "General normalisation list": index missing, repeated or always 0; id missing, empty or
//! repeated; names repeated or split; arguments as object, null, `""` or absent. Nothing is released
//! from here: a prefix of a valid call may still end as a forbidden one. Sans-IO.

use std::{borrow::Cow, collections::HashMap};

use crate::{
    judge::call::{Arguments, Call, CallKind},
    wire::json::{Document, Value},
};

/// Calls of one choice; more are refused.
const CALLS_MAX: usize = 1024;

/// A fragment in a shape that can't be judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AssembleError {
    /// Neither an object nor a list of objects.
    #[error("a tool call that is no object")]
    NoObject,
    /// Two members of one name.
    #[error("a tool call with two members of one name")]
    Duplicate,
    /// More than [`CALLS_MAX`].
    #[error("more than {CALLS_MAX} tool calls in one answer")]
    TooMany,
}

/// One call as far as it has come.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// The upstream's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What kind of call.
    pub kind: CallKind,
    /// Members that toolmark doesn't know, as `"name":value`, in their order.
    pub extras: Vec<String>,
    /// Members of `function` (or `custom`) that toolmark doesn't know.
    pub inner_extras: Vec<String>,
    text: String,
    form: Form,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Form {
    #[default]
    Absent,
    Null,
    Text,
    Object,
    Other,
    TooLong,
}

impl Slot {
    /// The call in the core's terms.
    pub fn call(&self) -> Call {
        let text = || self.text.clone();
        let arguments = match self.form {
            Form::Absent => Arguments::Absent,
            Form::Null => Arguments::Null,
            Form::Text => Arguments::Text(text()),
            Form::Object => Arguments::Object(text()),
            Form::Other | Form::TooLong => Arguments::Other(text()),
        };
        let id = Some(self.id.clone()).filter(|id| !id.is_empty());
        Call { name: self.name.clone(), kind: self.kind, arguments, id }
    }

    fn started(&self) -> bool {
        !self.text.trim().is_empty()
    }

    /// The arguments are one whole JSON document: what follows belongs to another call.
    fn complete(&self) -> bool {
        self.started() && Document::parse_noting(self.text.clone().into(), 0, &[]).is_ok()
    }

    fn push_arguments(&mut self, value: Value<'_>, bytes_max: usize) {
        let (form, text) = match value.text() {
            Some(text) => (Form::Text, text),
            None if value.is_null() => (Form::Null, "".into()),
            None if value.is_object() => (Form::Object, value.raw_str().into()),
            None => (Form::Other, value.raw_str().into()),
        };
        self.form = match (self.form, form) {
            (Form::TooLong, _) => return,
            (Form::Absent | Form::Null, form) => form,
            (own, Form::Null) => own,
            (Form::Text, Form::Text) => Form::Text,
            // An object after an empty string is the whole; anything else can't be joined.
            (Form::Text, Form::Object) if !self.started() => Form::Object,
            _ => Form::Other,
        };
        if self.text.len() + text.len() > bytes_max {
            self.form = Form::TooLong;
            self.text.truncate(0);
            self.text.push_str("(longer than `limits.held_bytes`)");
            return;
        }
        self.text.push_str(&text);
    }
}

/// The calls of one choice.
#[derive(Clone, Debug)]
pub struct Assembler {
    slots: Vec<Slot>,
    by_index: HashMap<u64, usize>,
    bytes_max: usize,
}

impl Assembler {
    /// `bytes_max`: of one call's arguments.
    pub fn new(bytes_max: usize) -> Self {
        Self { slots: Vec::new(), by_index: HashMap::new(), bytes_max }
    }

    /// The calls so far.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Takes the `tool_calls` of a delta or message. `known`: is there a tool of this name?
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

    /// Takes the `tool_calls` of a whole message: every element is a call of its own.
    ///
    /// # Errors
    /// [`AssembleError`] for what can't be judged.
    pub fn handle_whole(&mut self, tool_calls: Value<'_>) -> Result<(), AssembleError> {
        if !tool_calls.is_array() && !tool_calls.is_null() {
            return Err(AssembleError::NoObject);
        }
        tool_calls.items().try_for_each(|call| {
            let fragment = Fragment::read(call)?;
            let at = self.open(None)?;
            self.fill(at, &fragment);
            Ok(())
        })
    }

    /// Takes a legacy `function_call`.
    ///
    /// # Errors
    /// [`AssembleError`] for what can't be judged.
    pub fn handle_legacy(&mut self, call: Value<'_>) -> Result<(), AssembleError> {
        if !call.is_object() {
            return Err(AssembleError::NoObject);
        }
        if call.duplicate_name().is_some() {
            return Err(AssembleError::Duplicate);
        }
        let at = match self.slots.iter().position(|slot| slot.kind == CallKind::Legacy) {
            Some(at) => at,
            None => self.open(None)?,
        };
        let bytes_max = self.bytes_max;
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        slot.kind = CallKind::Legacy;
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
        keep_extras(&mut slot.extras, fragment.call, |name| match name {
            "index" | "id" | "type" | "function" | "custom" => true,
            "name" | "arguments" | "input" => fragment.body.is_none(),
            _ => false,
        });
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
        let Some(at) = current else { return self.open(index) };
        let slot = &self.slots[at];
        let other_id = !id.is_empty() && !slot.id.is_empty() && id != slot.id;
        let same_id = !id.is_empty() && id == slot.id;
        let other_name = !name.is_empty() && !slot.name.is_empty() && name != slot.name;
        let repeated = !name.is_empty() && name == slot.name && !same_id && brings_text && slot.complete();
        let renamed = other_name && !same_id && (slot.started() || (known(&slot.name) && known(name)));
        if other_id || renamed || repeated { self.open(index) } else { Ok(at) }
    }

    fn open(&mut self, index: Option<u64>) -> Result<usize, AssembleError> {
        if self.slots.len() >= CALLS_MAX {
            return Err(AssembleError::TooMany);
        }
        self.slots.push(Slot::default());
        let at = self.slots.len() - 1;
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        Ok(at)
    }
}

/// A part of a call, read.
struct Fragment<'d> {
    call: Value<'d>,
    /// `function` or `custom`; some upstreams leave out the inner object.
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
        let custom = call.get_some("custom");
        let body = call.get_some("function").or(custom);
        if call.duplicate_name().is_some() || body.is_some_and(|body| body.duplicate_name().is_some()) {
            return Err(AssembleError::Duplicate);
        }
        if body.is_some_and(|body| !body.is_object()) {
            return Err(AssembleError::NoObject);
        }
        let inner = body.unwrap_or(call);
        let text = |object: Value<'d>, name: &str| object.get(name).and_then(Value::text).unwrap_or_default();
        Ok(Self {
            call,
            body,
            custom: custom.is_some() || call.get("type").is_some_and(|kind| kind.is_text("custom")),
            id: text(call, "id"),
            name: text(inner, "name"),
            arguments: inner.get("arguments").or_else(|| inner.get("input")),
        })
    }
}

/// Keeps members that toolmark doesn't know; of one name the first.
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
mod tests {
    use super::*;

    fn joined(deltas: &[&str]) -> Vec<(String, String, String)> {
        let mut assembler = Assembler::new(1000);
        for delta in deltas {
            let document = Document::parse(bytes::Bytes::copy_from_slice(delta.as_bytes())).unwrap();
            assembler.handle(document.root(), |name| matches!(name, "f" | "g")).unwrap();
        }
        assembler.slots().iter().map(|slot| (slot.id.clone(), slot.name.clone(), format!("{:?}", slot.call().arguments))).collect()
    }

    fn check(deltas: &[&str], expected: &[(&str, &str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(id, name, arguments)| ((*id).to_owned(), (*name).to_owned(), (*arguments).to_owned())).collect();
        assert_eq!(joined(deltas), expected, "{deltas:?}");
    }

    #[test]
    fn shapes() {
        let text = r#"Text("{\"a\":1}")"#;
        let f = |arguments: &str| format!(r#"[{{"index":0,"id":"x","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]"#);
        let (head, half) = (f("\"\""), r#"[{"index":0,"function":{"arguments":"1}"}}]"#);
        check(&[&head, r#"[{"index":0,"function":{"arguments":"{\"a\":"}}]"#, half], &[("x", "f", text)]);
        // id and name repeated
        check(&[&f(r#""{\"a\":""#), &f("\"1}\"")], &[("x", "f", text)]);
        // all calls on index 0
        check(
            &[&f(r#""{\"a\":1}""#), r#"[{"index":0,"id":"y","function":{"name":"f","arguments":"{\"a\":1}"}}]"#],
            &[("x", "f", text), ("y", "f", text)],
        );
        // no index, no id
        check(
            &[r#"[{"function":{"name":"f","arguments":"{\"a\""}}]"#, r#"[{"function":{"arguments":":1}"}}]"#, r#"[{"function":{"name":"g","arguments":""}}]"#],
            &[("", "f", text), ("", "g", "Text(\"\")")],
        );
        // no index, ids repeated
        check(&[r#"[{"id":"x","function":{"name":"f","arguments":"{\"a\""}},{"id":"x","function":{"arguments":":1}"}}]"#], &[("x", "f", text)]);
        // name split
        check(&[r#"[{"index":0,"id":"x","function":{"name":"get_"}}]"#, r#"[{"index":0,"function":{"name":"x"}}]"#], &[("x", "get_x", "Absent")]);
        // two known tools without arguments on one index
        check(&[r#"[{"index":0,"function":{"name":"f"}}]"#, r#"[{"index":0,"function":{"name":"g"}}]"#], &[("", "f", "Absent"), ("", "g", "Absent")]);
        check(&[&f("null")], &[("x", "f", "Null")]);
        check(&[&f("{\"a\":1}")], &[("x", "f", r#"Object("{\"a\":1}")"#)]);
        check(&[r#"{"id":"x","name":"f","arguments":"{}"}"#], &[("x", "f", "Text(\"{}\")")]);
        // index 1 first
        check(&[r#"[{"index":1,"id":"y","function":{"name":"g"}}]"#, &f("\"{}\"")], &[("y", "g", "Absent"), ("x", "f", "Text(\"{}\")")]);
    }

    #[test]
    fn extras_stay() {
        let mut assembler = Assembler::new(1000);
        for delta in [r#"[{"index":0,"id":"x","function":{"name":"f","z":1}}]"#, r#"[{"index":0,"extra_content":{"google":{"thought_signature":"s"}}}]"#] {
            let document = Document::parse(bytes::Bytes::from(delta)).unwrap();
            assembler.handle(document.root(), |_| true).unwrap();
        }
        let slot = &assembler.slots()[0];
        assert_eq!(slot.extras, [r#""extra_content":{"google":{"thought_signature":"s"}}"#]);
        assert_eq!(slot.inner_extras, [r#""z":1"#]);
    }

    #[test]
    fn refusals() {
        for delta in ["\"x\"", "[1]", r#"[{"id":"a","id":"b"}]"#, r#"[{"function":"f"}]"#, r#"[{"function":{"name":"a","name":"b"}}]"#] {
            let document = Document::parse(bytes::Bytes::copy_from_slice(delta.as_bytes())).unwrap();
            assert!(Assembler::new(10).handle(document.root(), |_| true).is_err(), "{delta}");
        }
        let long = format!(r#"[{{"function":{{"name":"f","arguments":"{}"}}}}]"#, "x".repeat(1001));
        assert!(joined(&[&long])[0].2.contains("held_bytes"));
    }
}
