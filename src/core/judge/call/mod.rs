//! Judges one tool call: its name, its arguments as JSON, its arguments against the tool's schema, its values.
//!
//! Runs after a call is assembled and before any of it is passed on. Reports all issues at once. Pure. It changes a call only by the
//! corrections that the policy lists; missing arguments become `{}` if the tool needs none.

pub(super) mod corrections;
pub(super) mod example;
pub(super) mod imprecise;
pub(super) mod issues;
pub mod turn;

use regex::{RegexSet, RegexSetBuilder};
use serde_json::Value;

use crate::{
    policy::CallsPolicy,
    schema::{
        Schema,
        strict_json::{JsonFault, Parsed, brief, parse_unique},
    },
    tools::registry::{Registry, Tool, ToolKind},
    violation::{Checks, Code, Severity, Violation},
};
use corrections::{CorrectionLog, EnabledCorrections, ISSUES_MAX, rename};
use example::Meant;
use issues::{IssueCollector, quote};

/// Parameters of one call that are reported as unknown.
const UNKNOWN_MAX: usize = 20;
/// Issues with one call's values that are reported.
const VALUE_ISSUES_MAX: usize = 20;
/// Bytes of the compiled placeholder patterns.
const PLACEHOLDERS_BYTES_MAX: usize = 4 << 20;

/// Kind of a tool call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CallKind {
    /// A function call in `tool_calls`, or a `function_call` item.
    #[default]
    Function,
    /// A custom tool's call, with free text.
    Custom,
    /// The deprecated `function_call`.
    Legacy,
}

/// A call's arguments, as the upstream sent them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Arguments {
    /// The text in the string: JSON, or a custom tool's input.
    Text(String),
    /// No `arguments` member.
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
    /// Kind of the call.
    pub kind: CallKind,
    /// Arguments as the upstream sent them.
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
    renamed: bool,
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

    /// The same call, marked as differing from what the upstream sent.
    #[must_use]
    pub fn into_corrected(self) -> Self {
        Self { corrected: true, ..self }
    }

    /// True if name or arguments differ, byte for byte, from what the upstream sent.
    pub fn corrected(&self) -> bool {
        self.corrected
    }

    /// True if the tool is called by another name than the upstream sent.
    pub fn renamed(&self) -> bool {
        self.renamed
    }
}

/// Verdict on one call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CallVerdict {
    /// The call may be passed on.
    Accept(ValidCall),
    /// The call may not be passed on.
    Reject,
}

/// Result of judging one call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JudgedCall {
    /// All violations found in the call.
    pub violations: Vec<Violation>,
    /// Verdict on the call.
    pub outcome: CallVerdict,
    /// Example of the correct call, for the repair prompt; only for a rejected call.
    pub example: Option<String>,
}

/// Position of a call relative to where the answer was cut off by its length limit or a content filter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Truncation {
    /// The answer wasn't cut off.
    Whole,
    /// The answer was cut off after this call.
    Later,
    /// The answer was cut off, and this is its last call.
    Here,
}

/// Verdicts of the conversation on a text inside a call's arguments. A function that takes a text is one that only looks for ids.
pub trait ArgumentCheck {
    /// Checks the text for ids that claim an execution; `None` if there is nothing to object to.
    fn id(&self, text: &str) -> Option<Violation>;

    /// True if the user wrote the text: it is no placeholder then.
    fn is_of_user(&self, _text: &str) -> bool {
        false
    }
}

impl<F: Fn(&str) -> Option<Violation>> ArgumentCheck for F {
    fn id(&self, text: &str) -> Option<Violation> {
        self(text)
    }
}

/// Rules for judging calls, built once per policy.
#[derive(Clone, Debug)]
pub struct CallRules {
    pub(crate) checks: Checks,
    pub(crate) calls_max: usize,
    placeholders: RegexSet,
    argument_chars_max: usize,
    corrections: EnabledCorrections,
}

impl CallRules {
    /// Builds the rules from the policy's `[calls]` and severities.
    ///
    /// # Errors
    /// A placeholder pattern that doesn't compile.
    pub fn new(calls: &CallsPolicy, checks: &Checks) -> Result<Self, regex::Error> {
        let placeholders = RegexSetBuilder::new(&calls.placeholders).case_insensitive(true).size_limit(PLACEHOLDERS_BYTES_MAX).build()?;
        Ok(Self {
            checks: checks.clone(),
            calls_max: calls.max_per_turn as usize,
            placeholders,
            argument_chars_max: calls.long_argument as usize,
            corrections: EnabledCorrections::of(&calls.corrections),
        })
    }
}

/// Judges one call.
pub fn judge_call(call: &Call, registry: &Registry, rules: &CallRules, cut: Truncation, conversation: &dyn ArgumentCheck) -> JudgedCall {
    let mut judged = judged(call, registry, rules, cut, conversation);
    if judged.outcome == CallVerdict::Reject && cut == Truncation::Whole {
        judged.example = example_of(call, registry, &judged.violations);
    }
    judged
}

/// Example of the correct call, if the call was rejected for its name, its syntax or the shape of its arguments.
fn example_of(call: &Call, registry: &Registry, violations: &[Violation]) -> Option<String> {
    let of_shape = |violation: &Violation| {
        matches!(
            violation.code,
            Code::UnknownTool
                | Code::MissingRequired
                | Code::WrongType
                | Code::SchemaViolation
                | Code::UnknownParameter
                | Code::MalformedArguments
        )
    };
    if !violations.iter().filter(|violation| violation.blocks()).all(of_shape) {
        return None;
    }
    let meant = match registry.tool(&call.name) {
        Some(tool) => Meant { tool, value: None },
        None => example::meant(&call.name, registry)?,
    };
    if meant.tool.kind != ToolKind::Function || !meant.tool.declared {
        return None;
    }
    let parsed = match &call.arguments {
        Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => parse_unique(text).ok(),
        Arguments::Absent | Arguments::Null => None,
    };
    example::of(meant.tool, parsed.as_ref().and_then(|parsed| parsed.value.as_object()), meant.value.as_ref())
}

fn judged(call: &Call, registry: &Registry, rules: &CallRules, cut: Truncation, conversation: &dyn ArgumentCheck) -> JudgedCall {
    let judging = CallJudge { call, registry, rules, cut, conversation };
    if let Some(tool) = registry.tool(&call.name) {
        return judging.as_call_of(tool, CorrectionLog::new());
    }
    let guesses = rules.corrections.name && cut == Truncation::Whole;
    if let Some(tool) = guesses.then(|| rename::tool(&call.name, call.kind, registry)).flatten() {
        let judged = judging.as_call_of(tool, corrections::renamed(&call.name, &tool.name));
        if matches!(judged.outcome, CallVerdict::Accept(_)) {
            return judged;
        }
    }
    let mut complaints = IssueCollector::new(&rules.checks, &call.name);
    complaints.unknown_tool(registry);
    reject(complaints)
}

/// One call with everything that it is judged by.
#[derive(Clone, Copy)]
struct CallJudge<'j> {
    call: &'j Call,
    registry: &'j Registry,
    rules: &'j CallRules,
    cut: Truncation,
    conversation: &'j dyn ArgumentCheck,
}

impl CallJudge<'_> {
    /// Judges the call as a call of `tool`. `notes`: corrections made so far.
    fn as_call_of(self, tool: &Tool, notes: CorrectionLog) -> JudgedCall {
        let Self { call, cut, .. } = self;
        let mut complaints = self.complaints(&notes);
        if !tool.declared {
            complaints.undeclared(self.registry);
        }
        match (tool.kind, call.kind) {
            (ToolKind::Function, CallKind::Function | CallKind::Legacy) => {}
            (ToolKind::Custom, CallKind::Custom) => {
                custom(call, cut, self.conversation, &mut complaints);
                return self.finish(tool, complaints, None);
            }
            (ToolKind::Function, CallKind::Custom) | (ToolKind::Custom, CallKind::Function | CallKind::Legacy) => {
                complaints.other_kind(tool.kind);
                return reject(complaints);
            }
        }
        let text = match &call.arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text.trim_matches([' ', '\n', '\r', '\t']),
            Arguments::Absent | Arguments::Null => "",
        };
        // What isn't there is an empty list of arguments, unless it may yet have come.
        let nothing = (text.is_empty() || text == "null") && cut != Truncation::Here && tool.schema.is_ok();
        let parsed = match parse_unique(if nothing { "{}" } else { text }) {
            Ok(parsed) if parsed.value.is_object() => parsed,
            Ok(parsed) if cut == Truncation::Here => {
                complaints.truncated(&parsed.value.to_string());
                return reject(complaints);
            }
            Ok(parsed) => {
                complaints.no_object(&parsed.value);
                return reject(complaints);
            }
            Err(fault) => {
                if let Some(judged) = self.mended(tool, text, &fault, notes) {
                    return judged;
                }
                malformed(text, &fault, cut, &mut complaints);
                return reject(complaints);
            }
        };
        let unknown = if notes.is_empty() { Code::UnknownParameter } else { Code::SchemaViolation };
        let corrected = self.fit(tool, text, parsed, unknown, &mut complaints).or_else(|| nothing.then(|| "{}".to_owned()));
        self.finish(tool, complaints, corrected)
    }

    /// Repairs arguments that aren't valid JSON and judges the result; `None` if that isn't allowed or the repaired call doesn't pass.
    fn mended(self, tool: &Tool, text: &str, fault: &JsonFault, mut notes: CorrectionLog) -> Option<JudgedCall> {
        let broken = matches!(fault, JsonFault::Syntax(_) | JsonFault::Trailing(_));
        if !(self.rules.corrections.syntax && self.cut == Truncation::Whole && broken) {
            return None;
        }
        let mended = corrections::mend(text)?;
        let parsed = parse_unique(&mended).ok().filter(|parsed| parsed.value.is_object())?;
        notes.push((Code::CorrectedSyntax, "the arguments were nearly JSON and were written as JSON".to_owned()));
        let mut complaints = self.complaints(&notes);
        let corrected = self.fit(tool, &mended, parsed, Code::SchemaViolation, &mut complaints).unwrap_or(mended);
        let judged = self.finish(tool, complaints, Some(corrected));
        matches!(judged.outcome, CallVerdict::Accept(_)).then_some(judged)
    }

    fn complaints(&self, notes: &CorrectionLog) -> IssueCollector<'_> {
        let mut complaints = IssueCollector::new(&self.rules.checks, &self.call.name);
        complaints.notes(notes);
        complaints
    }

    /// Checks arguments that are one object; returns their text if it was corrected. `unknown`: code for an unknown parameter; a
    /// schema violation if another part of the call was already corrected.
    fn fit(self, tool: &Tool, text: &str, parsed: Parsed, unknown: Code, complaints: &mut IssueCollector<'_>) -> Option<String> {
        let (rules, mut corrected, mut parsed) = (self.rules, None, parsed);
        match tool.schema.as_ref() {
            Err(fault) => complaints.unchecked(fault),
            Ok(schema) => {
                if !schema.fits(&parsed) {
                    match corrections::arguments(schema, text, &parsed, rules.corrections) {
                        Some(own) => {
                            complaints.notes(&own.notes);
                            (corrected, parsed) = (Some(own.text), own.parsed);
                        }
                        None => misfit(schema, &parsed, complaints),
                    }
                }
                if rules.checks.severity(unknown) != Severity::Off {
                    let names = parsed.value.as_object().into_iter().flat_map(|map| map.keys());
                    for name in names.filter(|name| schema.is_unknown(name)).take(UNKNOWN_MAX) {
                        complaints.unknown_parameter(schema, name, unknown);
                    }
                }
            }
        }
        let by = ValueRules { rules, conversation: self.conversation, schema: tool.schema.as_ref().as_ref().ok() };
        by.check(&ValuePath::ROOT, &parsed.value, complaints);
        corrected
    }

    fn finish(self, tool: &Tool, complaints: IssueCollector<'_>, corrected: Option<String>) -> JudgedCall {
        let violations = complaints.into_violations();
        if violations.iter().any(Violation::blocks) {
            return JudgedCall { violations, outcome: CallVerdict::Reject, example: None };
        }
        let arguments = &self.call.arguments;
        let as_came = matches!(arguments, Arguments::Text(_)) && corrected.is_none();
        let arguments = corrected.unwrap_or_else(|| match arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text.clone(),
            Arguments::Absent | Arguments::Null => String::new(),
        });
        let renamed = *tool.name != *self.call.name;
        JudgedCall {
            violations,
            outcome: CallVerdict::Accept(ValidCall { name: tool.name.to_string(), arguments, corrected: renamed || !as_came, renamed }),
            example: None,
        }
    }
}

fn reject(complaints: IssueCollector<'_>) -> JudgedCall {
    JudgedCall { violations: complaints.into_violations(), outcome: CallVerdict::Reject, example: None }
}

fn custom(call: &Call, cut: Truncation, conversation: &dyn ArgumentCheck, complaints: &mut IssueCollector<'_>) {
    match &call.arguments {
        Arguments::Text(text) if cut == Truncation::Here => complaints.truncated(text),
        // Free text: no placeholder and no length is suspicious in it, but an id claims what it claims.
        Arguments::Text(text) => complaints.extend(conversation.id(text)),
        Arguments::Absent | Arguments::Null if cut == Truncation::Here => complaints.truncated(""),
        Arguments::Absent | Arguments::Null | Arguments::Object(_) | Arguments::Other(_) => {
            let code = Code::MalformedArguments;
            complaints.say(code, "the input of a custom tool must be a text", "call it again with its input as one text");
        }
    }
}

fn malformed(text: &str, fault: &JsonFault, cut: Truncation, complaints: &mut IssueCollector<'_>) {
    let ends = *fault == JsonFault::Ends;
    if cut == Truncation::Here || cut == Truncation::Later && ends {
        complaints.truncated(text);
    } else {
        complaints.malformed(text, fault);
    }
}

/// Reports arguments that don't fit the schema: superfluous `null`s as such, everything else by its most specific code.
fn misfit(schema: &Schema, parsed: &Parsed, complaints: &mut IssueCollector<'_>) {
    let mut issues = schema.issues_of(parsed, ISSUES_MAX);
    let nulls = corrections::needless_nulls(schema, parsed, &issues);
    if !nulls.is_empty() {
        complaints.nulls(&nulls);
        issues.retain(|issue| !nulls.contains(&issue.pointer));
    }
    complaints.schema(schema, &parsed.value, &issues);
}

/// Path to a value inside the arguments: written out only where there is something to report.
struct ValuePath<'p> {
    parent: Option<&'p ValuePath<'p>>,
    /// Name of the innermost member around the value.
    name: &'p str,
    /// Index, where the value is an element of a list.
    index: Option<usize>,
}

impl ValuePath<'_> {
    const ROOT: ValuePath<'static> = ValuePath { parent: None, name: "", index: None };

    /// The path as a JSON pointer.
    fn pointer(&self) -> String {
        let Some(parent) = self.parent else { return String::new() };
        match self.index {
            Some(index) => format!("{}/{index}", parent.pointer()),
            None => format!("{}/{}", parent.pointer(), issues::step(self.name)),
        }
    }
}

/// True of markup with its end, of a list in JSON and of a class of characters: `<p>Hi</p>`, `[1, 2]`, `[a-z]+[0-9]`.
fn is_expression(text: &str) -> bool {
    let list = || text.starts_with('[') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    text.contains("</") || list() || begins_with_class(text)
}

/// True of a class of characters that begins with a range: `[a-z]`, `[a-zA-Z0-9_]`; `[e-mail]` is none.
fn begins_with_class(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or_default();
    match inside.as_bytes() {
        [from, b'-', to, rest @ ..] if from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric() => match rest {
            [] | [_, b'-', ..] => true,
            [next, ..] => !next.is_ascii_alphanumeric() && !inside.contains(' '),
        },
        _ => false,
    }
}

/// Rules for the values of a call.
#[derive(Clone, Copy)]
struct ValueRules<'v> {
    rules: &'v CallRules,
    conversation: &'v dyn ArgumentCheck,
    schema: Option<&'v Schema>,
}

impl ValueRules<'_> {
    /// True if the text stands for a value and is none: neither did the user write it, nor does the schema list it.
    fn is_placeholder(&self, path: &ValuePath<'_>, text: &str) -> bool {
        let listed = || {
            let parameters = self.schema.into_iter().flat_map(Schema::parameters);
            let at_top = path.index.is_none() && path.parent.is_some_and(|parent| parent.parent.is_none());
            let own = parameters.filter(|parameter| at_top && &*parameter.name == path.name);
            own.into_iter().any(|parameter| parameter.types.contains(&quote(text)))
        };
        self.rules.placeholders.is_match(text) && !is_expression(text) && !self.conversation.is_of_user(text) && !listed()
    }

    /// Checks every string inside `value`.
    // INVARIANT: the parser bounds nesting, so the recursion is bounded.
    fn check(&self, path: &ValuePath<'_>, value: &Value, complaints: &mut IssueCollector<'_>) {
        let name = path.name;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::Array(list) => list.iter().enumerate().for_each(|(index, inner)| {
                self.check(&ValuePath { parent: Some(path), name, index: Some(index) }, inner, complaints);
            }),
            Value::Object(map) => map.iter().for_each(|(name, inner)| {
                self.check(&ValuePath { parent: Some(path), name, index: None }, inner, complaints);
            }),
            Value::String(text) => self.check_text(path, text, complaints),
        }
    }

    fn check_text(&self, path: &ValuePath<'_>, text: &str, complaints: &mut IssueCollector<'_>) {
        let (rules, name) = (self.rules, path.name);
        complaints.extend(self.conversation.id(text).map(|violation| Violation { pointer: Some(path.pointer().into()), ..violation }));
        if complaints.about_values >= VALUE_ISSUES_MAX {
            return;
        }
        if self.is_placeholder(path, text) {
            let message = format!("{} in {} stands for a value and is none", quote(&brief(text, 80)), quote(&brief(name, 80)));
            complaints.value(Code::PlaceholderValue, &path.pointer(), message, "use a real value; ask the user if you don't know it");
        }
        if text.len() > rules.argument_chars_max && text.chars().count() > rules.argument_chars_max {
            let message = format!("{} characters in {} are suspiciously many", text.chars().count(), quote(&brief(name, 80)));
            complaints.value(Code::SuspiciousLength, &path.pointer(), message, "make sure that the text is meant for this tool");
        }
    }
}

#[cfg(test)]
mod tests;
