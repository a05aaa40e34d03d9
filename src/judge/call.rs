//! Judges one tool call: its name, its arguments as JSON, its arguments against the tool's schema, its values.
//!
//! Comes after a call was assembled and before anything of it is passed on. All issues are reported at once.
//! Pure. It changes no arguments, but for `null`s that the policy lets it leave out, and arguments that
//! aren't there at all, which become `{}` where the tool needs none.

use regex::{RegexSet, RegexSetBuilder};
use serde_json::Value;

use super::{
    call_advice::{Complaints, quote},
    call_arguments::{ParseFault, Parsed, brief, parse_unique},
    correct,
    registry::{Registry, Tool, ToolKind},
    schema::{IssueKind, Schema, SchemaIssue},
    violation::{Checks, Code, Severity, Violation},
};
use crate::policy::{Calls, Correction};

/// Parameters of one call that are reported as unknown.
const UNKNOWN_MAX: usize = 20;
/// Issues with one call's schema that are looked at; fewer are reported.
const ISSUES_MAX: usize = 256;
/// Issues with one call's values that are reported.
const VALUE_ISSUES_MAX: usize = 20;
/// Bytes of the compiled placeholder patterns.
const PLACEHOLDERS_BYTES_MAX: usize = 4 << 20;

/// What kind of call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CallKind {
    /// A function call in `tool_calls`, or a `function_call` item.
    #[default]
    Function,
    /// A custom tool's call, with free text.
    Custom,
    /// The `function_call` of old.
    Legacy,
}

/// A call's arguments, as the upstream sent them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Arguments {
    /// The text in the string: JSON, or a custom tool's input.
    Text(String),
    /// No such member.
    Absent,
    /// `null`, where a string belongs.
    Null,
    /// An object instead of a string: its JSON.
    Object(String),
    /// Anything else instead of a string: its JSON.
    Other(String),
}

/// A call that a model returned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Call {
    /// The tool's name; empty where it was missing.
    pub name: String,
    /// What kind of call.
    pub kind: CallKind,
    /// Its arguments.
    pub arguments: Arguments,
    /// Its id, as the upstream gave it.
    pub id: Option<String>,
}

/// A call that the policy lets through. Only [`judge_call`] makes one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidCall {
    name: String,
    arguments: String,
    corrected: bool,
}

impl ValidCall {
    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments to be passed on.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// True where they aren't, byte for byte, the text that the upstream sent as a string.
    pub fn corrected(&self) -> bool {
        self.corrected
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It may be passed on.
    Accept(ValidCall),
    /// It may not.
    Reject,
}

/// A call's judgement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Judged {
    /// Everything that is wrong with it.
    pub violations: Vec<Violation>,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// Was the answer cut off, by its length limit or a filter?
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// No.
    Whole,
    /// Yes, after this call.
    Later,
    /// Yes, and this call is the last of it.
    Here,
}

/// Checks a text inside arguments for ids that claim an execution; `None` where it has nothing to object to.
pub type IdCheck<'i> = dyn Fn(&str) -> Option<Violation> + 'i;

/// What calls are held to, made once of a policy.
#[derive(Clone, Debug)]
pub struct CallRules {
    pub(crate) checks: Checks,
    pub(crate) calls_max: usize,
    placeholders: RegexSet,
    argument_chars_max: usize,
    null_optional: bool,
}

impl CallRules {
    /// The rules of `[calls]`.
    ///
    /// # Errors
    /// A placeholder pattern that doesn't compile.
    pub fn new(calls: &Calls, checks: &Checks) -> Result<Self, regex::Error> {
        let placeholders = RegexSetBuilder::new(&calls.placeholders).case_insensitive(true).size_limit(PLACEHOLDERS_BYTES_MAX).build()?;
        Ok(Self {
            checks: checks.clone(),
            calls_max: calls.max_per_turn as usize,
            placeholders,
            argument_chars_max: calls.long_argument as usize,
            null_optional: calls.corrections.contains(&Correction::NullOptional),
        })
    }
}

/// Judges one call.
pub fn judge_call(call: &Call, registry: &Registry, rules: &CallRules, cut: Cut, ids: &IdCheck<'_>) -> Judged {
    let mut complaints = Complaints::new(&rules.checks, &call.name);
    let tool = match registry.tool(&call.name) {
        Some(tool) => tool,
        None => {
            complaints.unknown_tool(registry);
            return finish(call, complaints, None);
        }
    };
    if !tool.declared {
        complaints.undeclared(registry);
    }
    match (tool.kind, call.kind) {
        (ToolKind::Function, CallKind::Function | CallKind::Legacy) => {}
        (ToolKind::Custom, CallKind::Custom) => {
            custom(call, cut, ids, &mut complaints);
            return finish(call, complaints, None);
        }
        (ToolKind::Function, CallKind::Custom) | (ToolKind::Custom, CallKind::Function | CallKind::Legacy) => {
            complaints.other_kind(tool.kind);
            return finish(call, complaints, None);
        }
    }
    let text = match &call.arguments {
        Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text.trim_matches([' ', '\n', '\r', '\t']),
        Arguments::Absent | Arguments::Null => "",
    };
    // What isn't there is an empty list of arguments, unless it may yet have come.
    let nothing = (text.is_empty() || text == "null") && cut != Cut::Here && tool.schema.is_ok();
    let parsed = match parse_unique(if nothing { "{}" } else { text }) {
        Ok(parsed) if parsed.value.is_object() => parsed,
        Ok(parsed) if cut == Cut::Here => {
            complaints.truncated(&parsed.value.to_string());
            return finish(call, complaints, None);
        }
        Ok(parsed) => {
            complaints.no_object(&parsed.value);
            return finish(call, complaints, None);
        }
        Err(fault) => {
            malformed(text, &fault, cut, &mut complaints);
            return finish(call, complaints, None);
        }
    };
    let corrected = fit(tool, text, parsed, rules, ids, &mut complaints).or_else(|| nothing.then(|| "{}".to_owned()));
    finish(call, complaints, corrected)
}

fn finish(call: &Call, complaints: Complaints<'_>, corrected: Option<String>) -> Judged {
    let violations = complaints.into_violations();
    if violations.iter().any(Violation::blocks) {
        return Judged { violations, outcome: Outcome::Reject };
    }
    let as_came = matches!(call.arguments, Arguments::Text(_)) && corrected.is_none();
    let arguments = corrected.unwrap_or_else(|| match &call.arguments {
        Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text.clone(),
        Arguments::Absent | Arguments::Null => String::new(),
    });
    Judged { violations, outcome: Outcome::Accept(ValidCall { name: call.name.clone(), arguments, corrected: !as_came }) }
}

fn custom(call: &Call, cut: Cut, ids: &IdCheck<'_>, complaints: &mut Complaints<'_>) {
    match &call.arguments {
        Arguments::Text(text) if cut == Cut::Here => complaints.truncated(text),
        // Free text: no placeholder and no length is suspicious in it, but an id claims what it claims.
        Arguments::Text(text) => complaints.extend(ids(text)),
        Arguments::Absent | Arguments::Null if cut == Cut::Here => complaints.truncated(""),
        Arguments::Absent | Arguments::Null | Arguments::Object(_) | Arguments::Other(_) => {
            let code = Code::MalformedArguments;
            complaints.say(code, "the input of a custom tool must be a text", "call it again with its input as one text");
        }
    }
}

fn malformed(text: &str, fault: &ParseFault, cut: Cut, complaints: &mut Complaints<'_>) {
    let ends = *fault == ParseFault::Ends;
    if cut == Cut::Here || cut == Cut::Later && ends {
        complaints.truncated(text);
    } else {
        complaints.malformed(text, fault);
    }
}

/// Checks arguments that are one object. Returns their text where it was corrected.
fn fit(tool: &Tool, text: &str, parsed: Parsed, rules: &CallRules, ids: &IdCheck<'_>, complaints: &mut Complaints<'_>) -> Option<String> {
    let mut corrected = None;
    match tool.schema.as_ref() {
        Err(fault) => complaints.unchecked(fault),
        Ok(schema) => {
            if !schema.fits(&parsed) {
                corrected = misfit(schema, text, &parsed, rules, complaints);
            }
            if rules.checks.severity(Code::UnknownParameter) != Severity::Off {
                let names = parsed.value.as_object().into_iter().flat_map(|map| map.keys());
                for name in names.filter(|name| schema.is_unknown(name)).take(UNKNOWN_MAX) {
                    complaints.unknown_parameter(schema, name, Code::UnknownParameter);
                }
            }
        }
    }
    values("", &parsed.value, rules, ids, complaints);
    corrected
}

/// Arguments that don't fit: `null`s are left out where that is all that is wrong, the rest is reported.
fn misfit(schema: &Schema, text: &str, parsed: &Parsed, rules: &CallRules, complaints: &mut Complaints<'_>) -> Option<String> {
    let mut issues = schema.issues_of(parsed, ISSUES_MAX);
    let nulls = needless_nulls(schema, parsed, &issues);
    if !nulls.is_empty() {
        let pointers: Vec<&str> = nulls.iter().map(String::as_str).collect();
        if rules.null_optional
            && let Some(shorter) = correct::without(text, &pointers)
            && parse_unique(&shorter).is_ok_and(|parsed| schema.fits(&parsed))
        {
            complaints.nulls(&nulls, Code::CorrectedNullOptional);
            return Some(shorter);
        }
        complaints.nulls(&nulls, Code::NullOptional);
        issues.retain(|issue| !nulls.contains(&issue.pointer));
    }
    complaints.schema(schema, &parsed.value, &issues);
    None
}

/// The members that are `null`, mustn't be, and needn't be there, by JSON pointer.
fn needless_nulls(schema: &Schema, parsed: &Parsed, issues: &[SchemaIssue]) -> Vec<String> {
    let mut nulls: Vec<String> = Vec::new();
    for issue in issues.iter().filter(|issue| issue.null) {
        let (parent, _) = issue.pointer.rsplit_once('/').unwrap_or_default();
        let member = !issue.pointer.is_empty() && parsed.value.pointer(parent).is_some_and(Value::is_object);
        if member && !nulls.contains(&issue.pointer) {
            nulls.push(issue.pointer.clone());
        }
    }
    if nulls.is_empty() {
        return nulls;
    }
    // Left out by way of trial: what is then missed was required.
    let mut trial = parsed.value.clone();
    for pointer in &nulls {
        let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(map)) = trial.pointer_mut(parent) {
            map.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
        }
    }
    let missed: Vec<String> = schema
        .violations(&trial, ISSUES_MAX)
        .into_iter()
        .filter_map(|issue| match issue.kind {
            IssueKind::Missing(name) => Some(format!("{}/{}", issue.pointer, name.replace('~', "~0").replace('/', "~1"))),
            IssueKind::Unexpected(_) | IssueKind::Type | IssueKind::Other => None,
        })
        .collect();
    nulls.retain(|pointer| !missed.contains(pointer));
    nulls
}

/// Looks at every text inside.
// INVARIANT: the parser bounds nesting, so the recursion is bounded.
fn values(name: &str, value: &Value, rules: &CallRules, ids: &IdCheck<'_>, complaints: &mut Complaints<'_>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::Array(list) => list.iter().for_each(|inner| values(name, inner, rules, ids, complaints)),
        Value::Object(map) => map.iter().for_each(|(name, inner)| values(name, inner, rules, ids, complaints)),
        Value::String(text) => {
            complaints.extend(ids(text));
            if complaints.about_values >= VALUE_ISSUES_MAX {
                return;
            }
            if rules.placeholders.is_match(text) {
                let message = format!("{} in {} stands for a value and is none", quote(&brief(text, 80)), quote(&brief(name, 80)));
                complaints.value(Code::PlaceholderValue, message, "use a real value; ask the user if you don't know it");
            }
            if text.len() > rules.argument_chars_max && text.chars().count() > rules.argument_chars_max {
                let message = format!("{} characters in {} are suspiciously many", text.chars().count(), quote(&brief(name, 80)));
                complaints.value(Code::SuspiciousLength, message, "make sure that the text is meant for this tool");
            }
        }
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
