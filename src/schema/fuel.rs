//! Step budget for checking arguments against a schema, counted at each access to a value.
//!
//! `jsonschema` is generic over how a document is represented. Every keyword accesses the value before it decides, so a representation that
//! counts accesses bounds the whole check, whatever the schema: its time, and when faults are explained also its memory, as each fault
//! takes the value that it is about. A check that has used up its steps is left by unwinding, without a panic message. Pure: steps are no
//! clock, so the same check ends at the same place on every machine.

use std::{
    borrow::Cow,
    cell::Cell,
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object, cmp},
};
use serde_json::{Map, Number, Value};

/// Steps for all the calls of one turn. A step takes some ten nanoseconds, so these take less than 50 ms.
pub const TURN_STEPS_MAX: u64 = 4 << 20;
/// Steps for the explanation of one misfit.
pub(crate) const EXPLANATION_STEPS_MAX: u64 = 1 << 20;
/// Steps counted for one explained fault, which takes about half a kilobyte.
const FAULT_STEPS: u64 = 25;
/// Bytes of text that are looked at in one step.
const BYTES_PER_STEP: u64 = 16;

thread_local! {
    /// Steps left for the current check.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Steps left for the current turn; `None` outside of one.
    static TURN: Cell<Option<u64>> = const { Cell::new(None) };
    static COSTS: Cell<Costs> = const { Cell::new(Costs { fault: 0, name_byte: 0 }) };
}

/// Costs of some accesses that depend on the schema.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// Additional steps per fault.
    pub(crate) fault: u64,
    /// Steps per byte of a member's name.
    pub(crate) name_byte: u64,
}

/// The steps are used up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Exhausted;

/// Counts `steps`; leaves the check by unwinding if fewer are left.
pub(crate) fn spend(steps: u64) {
    LEFT.with(|left| match left.get().checked_sub(steps) {
        Some(rest) => left.set(rest),
        None => exhaust(),
    });
}

/// Leaves the check by unwinding.
pub(crate) fn exhaust() -> ! {
    LEFT.with(|left| left.set(0));
    resume_unwind(Box::new(Exhausted))
}

/// Runs a check with at most `steps_max` steps. A check that panics counts as one that used them up.
///
/// # Errors
/// [`Exhausted`] if the steps are used up or the check panics.
pub(crate) fn within<T>(steps_max: u64, costs: Costs, check: impl FnOnce() -> T) -> Result<T, Exhausted> {
    let turn = TURN.with(Cell::get);
    let steps = turn.map_or(steps_max, |left| left.min(steps_max));
    LEFT.with(|left| left.set(steps));
    COSTS.with(|own| own.set(costs));
    let checked = catch_unwind(AssertUnwindSafe(check)).map_err(|_| Exhausted);
    if let Some(turn) = turn {
        let spent = steps - LEFT.with(Cell::get);
        TURN.with(|left| left.set(Some(turn.saturating_sub(spent))));
    }
    checked
}

/// Judges one turn, whose checks share [`TURN_STEPS_MAX`].
pub fn turn<T>(judge: impl FnOnce() -> T) -> T {
    struct Outer(Option<u64>);
    impl Drop for Outer {
        fn drop(&mut self) {
            TURN.with(|left| left.set(self.0));
        }
    }
    let _outer = Outer(TURN.with(|left| left.replace(Some(left.get().unwrap_or(TURN_STEPS_MAX)))));
    judge()
}

/// Steps left by the last check.
#[cfg(test)]
pub(crate) fn left() -> u64 {
    LEFT.with(Cell::get)
}

/// JSON representation whose accesses are counted.
pub(crate) struct MeteredJson;

/// A value whose accesses are counted.
#[derive(Clone, Copy)]
pub(crate) struct Looked<'a>(pub(crate) &'a Value);

impl Json for MeteredJson {
    type Node<'a> = Looked<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>(buffer: &mut Value, string: &str, f: impl FnOnce(Looked<'_>) -> T) -> T {
        match buffer {
            Value::String(text) => {
                text.clear();
                text.push_str(string);
            }
            _ => *buffer = Value::String(string.to_owned()),
        }
        f(Looked(buffer))
    }
}

fn bytes(length: usize) -> u64 {
    length as u64 / BYTES_PER_STEP
}

impl<'a> Node<'a, MeteredJson> for Looked<'a> {
    type Object = MeteredMembers<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<MeteredMembers<'a>> {
        spend(1);
        self.0.as_object().map(MeteredMembers)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        spend(1);
        self.0.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        spend(1 + bytes(text.map_or(0, str::len)));
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        spend(1);
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        spend(1);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        spend(1);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        spend(1);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        self.as_string().map(|text| text.chars().count() as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        equal(self.0, expected)
    }

    /// Called for each fault: the fault's value is found by its path, so that no fault copies a large value.
    fn to_value(&self) -> Cow<'a, Value> {
        spend(FAULT_STEPS + COSTS.with(Cell::get).fault);
        Cow::Owned(Value::Null)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref::<Value>(self.0) as usize))
    }

    fn container_identity(&self) -> Option<NodeIdentity> {
        if self.0.is_object() || self.0.is_array() { self.identity() } else { None }
    }
}

/// An object's members.
pub(crate) struct MeteredMembers<'a>(&'a Map<String, Value>);

impl<'a> Object<'a, MeteredJson> for MeteredMembers<'a> {
    type Node = Looked<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &Box<str>) -> Option<Looked<'a>> {
        spend(1);
        self.0.get(&**key).map(Looked)
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.0.iter())
    }
}

/// An object's members, one by one.
pub(crate) struct MembersIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Looked<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        let by_patterns = (name.len() as u64).saturating_mul(COSTS.with(Cell::get).name_byte);
        spend(by_patterns.saturating_add(1 + bytes(name.len())));
        Some((name.as_str(), Looked(value)))
    }
}

/// An array's elements.
pub(crate) struct Items<'a>(&'a [Value]);

impl<'a> Array<'a, MeteredJson> for Items<'a> {
    type Node = Looked<'a>;
    type ElementsIter = std::iter::Map<std::slice::Iter<'a, Value>, fn(&'a Value) -> Looked<'a>>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> Self::ElementsIter {
        spend(1 + bytes(self.0.len()));
        self.0.iter().map(Looked)
    }

    /// `jsonschema` compares elements by a hash that anyone can make collide: `[[1],2]` has that of `[1,[2]]`.
    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.0.len().min(1 << 16));
        self.0.iter().all(|item| {
            let mut written = Vec::new();
            write_canonical(item, &mut written);
            seen.insert(written)
        })
    }
}

/// Equality as JSON Schema defines it.
// INVARIANT: the parsers of arguments and schemas bound nesting, so the recursion is bounded; so below.
fn equal(value: &Value, expected: &Value) -> bool {
    spend(1);
    match (value, expected) {
        (Value::String(own), Value::String(other)) => {
            own.len() == other.len() && {
                spend(bytes(own.len()) / 4);
                own == other
            }
        }
        (Value::Array(own), Value::Array(other)) => own.len() == other.len() && own.iter().zip(other).all(|(own, other)| equal(own, other)),
        (Value::Object(own), Value::Object(other)) => {
            let same = |(name, own): (&String, &Value)| {
                spend(1 + bytes(name.len()));
                other.get(name).is_some_and(|other| equal(own, other))
            };
            own.len() == other.len() && own.iter().all(same)
        }
        (own, other) => cmp::equal(own, other),
    }
}

/// Writes a value so that two values are equal in JSON Schema's sense exactly if their bytes are.
fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    spend(1);
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(flag) => out.push(if *flag { b't' } else { b'f' }),
        Value::Number(number) => {
            out.push(b'#');
            match number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)) {
                Some(whole) => out.extend_from_slice(&whole.to_be_bytes()),
                None => write_float(number.as_f64().unwrap_or_default(), out),
            }
        }
        Value::String(text) => {
            spend(bytes(text.len()));
            write_text(text, out);
        }
        Value::Array(items) => {
            out.push(b'[');
            items.iter().for_each(|item| write_canonical(item, out));
            out.push(b']');
        }
        Value::Object(map) => {
            let mut names: Vec<&String> = map.keys().collect();
            names.sort_unstable();
            out.push(b'{');
            for name in names {
                spend(4 + bytes(name.len()));
                write_text(name, out);
                map.get(name).into_iter().for_each(|value| write_canonical(value, out));
            }
            out.push(b'}');
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(&(text.len() as u64).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn write_float(number: f64, out: &mut Vec<u8>) {
    // All that an integer can be equal to is below 2^64.
    if number.fract() == 0.0 && number.abs() <= 2e19 {
        out.extend_from_slice(&(number as i128).to_be_bytes());
    } else {
        out.extend_from_slice(&number.to_bits().to_be_bytes());
        out.push(b'.');
    }
}
