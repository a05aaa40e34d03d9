//! What the members of an object say: does it name a tool, an execution, a result? Pure.

use std::ops::Range;

use super::{Evidence, fold, tail::Tail};

/// Names of further members that are kept of one object.
const OTHERS_MAX: usize = 64;
/// Bytes of the longest member name that means something.
const NAME_BYTES_MAX: usize = 24;

/// A member's value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A string's inside, or a bare word or number.
    Plain(Range<usize>),
    /// An object or list.
    Nested,
}

/// An object that names a tool or an execution.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Where it lies, braces included.
    pub span: Range<usize>,
    /// The value of the member that names a tool.
    pub tool: Option<Range<usize>>,
    /// The value of its execution id.
    pub id: Option<Range<usize>>,
    strong: bool,
    definition: bool,
    others: Vec<Range<usize>>,
    others_lost: bool,
}

/// What a member's name makes of its object.
enum Meaning {
    Tool,
    Id,
    Result,
    Definition,
    Neutral,
    Other,
}

impl Object {
    /// One that starts at `start` and has no members yet.
    pub fn new(start: usize) -> Self {
        Self { span: start..start, tool: None, id: None, strong: false, definition: false, others: Vec::new(), others_lost: false }
    }

    /// True if it says anything about tools.
    pub fn counts(&self) -> bool {
        self.tool.is_some() || self.id.is_some()
    }

    /// Takes a member.
    pub fn member(&mut self, tail: &Tail, name: Range<usize>, value: Value) {
        let meaning = meaning(tail.slice(name.clone()));
        let hollow = match &value {
            Value::Plain(span) => is_hollow(tail.slice(span.clone())) || is_ahead(tail.slice(span.clone())),
            Value::Nested => false,
        };
        match (meaning, value) {
            (Meaning::Tool, Value::Plain(span)) => self.tool = Some(span),
            (Meaning::Id, Value::Plain(span)) => self.id = Some(span),
            (Meaning::Tool | Meaning::Definition, _) => self.definition = true,
            (Meaning::Id | Meaning::Neutral, _) => {}
            (Meaning::Result | Meaning::Other, _) if hollow => {}
            (Meaning::Result, _) => {
                self.strong = true;
                self.other(name);
            }
            (Meaning::Other, _) => self.other(name),
        }
    }

    fn other(&mut self, name: Range<usize>) {
        if self.others.len() < OTHERS_MAX {
            self.others.push(name);
        } else {
            self.others_lost = true;
        }
    }

    /// True if its members look like a result of `tool` rather than a definition or a call of it.
    pub fn is_result(&self, tail: &Tail, tool: &str, evidence: &dyn Evidence) -> bool {
        let parameter = |name: &Range<usize>| evidence.has_parameter(tool, tail.slice(name.clone()));
        let call = !self.others_lost && self.others.iter().all(parameter);
        !call && (self.strong || !self.definition)
    }
}

/// `run_speed_test(…)` and `functions.run_speed_test` name `run_speed_test`.
pub(super) fn tool_name(value: &str) -> String {
    let seen = fold::plain(value);
    let name = seen.split('(').next().unwrap_or_default().trim();
    name.strip_prefix("functions.").unwrap_or(name).to_owned()
}

/// True for what stands in templates where a value would.
fn is_hollow(value: &str) -> bool {
    let value = value.trim();
    matches!(value, "" | "null" | "None" | "undefined" | "..." | "…" | "string" | "any") || (value.starts_with('<') && value.ends_with('>'))
}

/// True for what says that something is still to be done: a step of a plan, not what came of it.
fn is_ahead(value: &str) -> bool {
    let words = [
        "pending",
        "todo",
        "to do",
        "to-do",
        "to_do",
        "planned",
        "proposed",
        "queued",
        "waiting",
        "upcoming",
        "not started",
        "not_started",
        "not-started",
    ];
    let value = value.trim();
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn meaning(name: &str) -> Meaning {
    if name.is_ascii() && !name.contains(['\\', '&', '%', '<', '*']) {
        return meaning_of(name);
    }
    meaning_of(&fold::plain(name))
}

fn meaning_of(name: &str) -> Meaning {
    let mut letters = [0_u8; NAME_BYTES_MAX];
    let mut length = 0;
    for byte in name.bytes().filter(|b| !matches!(b, b'_' | b'-' | b' ')) {
        let Some(slot) = letters.get_mut(length) else { return Meaning::Other };
        *slot = byte.to_ascii_lowercase();
        length += 1;
    }
    match letters.get(..length).unwrap_or_default() {
        b"toolname" | b"tool" | b"function" | b"commandexecuted" => Meaning::Tool,
        b"executionid" => Meaning::Id,
        b"result" | b"results" | b"output" | b"outputs" | b"response" | b"data" | b"status" | b"success" | b"ok" | b"error"
        | b"executedat" | b"stdout" | b"stderr" | b"exitcode" | b"returncode" | b"duration" | b"durationms" | b"toolresult"
        | b"tooloutput" => Meaning::Result,
        b"description" | b"parameters" | b"inputschema" | b"arguments" | b"args" | b"kwargs" | b"required" | b"properties" | b"strict"
        | b"params" | b"inputs" | b"input" | b"schema" | b"returns" => Meaning::Definition,
        b"id" | b"type" | b"name" | b"callid" | b"toolcallid" | b"index" | b"step" | b"order" | b"purpose" | b"reason" | b"rationale"
        | b"why" | b"when" | b"usage" | b"signature" | b"example" | b"examples" | b"enabled" | b"title" | b"note" | b"notes"
        | b"category" | b"priority" | b"timeout" | b"timeouts" | b"timeoutms" | b"timeoutseconds" | b"retries" | b"maxretries"
        | b"dependson" | b"after" | b"condition" | b"fallback" | b"optional" | b"goal" | b"phase" | b"expected" | b"expectedoutput"
        | b"expectedresult" => Meaning::Neutral,
        _ => Meaning::Other,
    }
}
