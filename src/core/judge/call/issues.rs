//! Wording of a call's issues: each becomes a violation, phrased so that a model can correct the call.
//!
//! Pure. Input is quoted in part only, and on one line; nothing here decides whether a call passes.

use serde_json::Value;

use super::example;
use crate::{
    schema::{
        IssueKind, Schema, SchemaError, SchemaIssue,
        errors::quoted,
        strict_json::{JsonFault, brief},
        suggest,
    },
    tools::registry::{Registry, ToolKind},
    violation::{Checks, Code, Violation},
};

/// Tools named to a model that called an unknown one.
const TOOLS_TOLD_MAX: usize = 10;
/// Suggestions for an unknown name.
const MEANT_MAX: usize = 3;
/// Parameters that are listed.
const PARAMETERS_TOLD_MAX: usize = 24;
/// Characters of a name.
const NAME_CHARS_MAX: usize = 128;
/// Characters of a text that is no JSON.
const TEXT_CHARS_MAX: usize = 80;
/// Issues that are reported.
const ISSUES_MAX: usize = 20;

/// Collects the issues of one call.
pub(crate) struct IssueCollector<'c> {
    checks: &'c Checks,
    tool: &'c str,
    violations: Vec<Violation>,
    unknown: Vec<String>,
    /// Number of issues about values so far.
    pub(crate) about_values: usize,
}

impl<'c> IssueCollector<'c> {
    pub(crate) fn new(checks: &'c Checks, tool: &'c str) -> Self {
        Self { checks, tool, violations: Vec::new(), unknown: Vec::new(), about_values: 0 }
    }

    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    pub(crate) fn say(&mut self, code: Code, message: impl Into<String>, advice: impl Into<String>) {
        self.violations.extend(self.checks.violation(code, Some(self.tool), message, advice));
    }

    /// Reports an issue at this place. `pointer`: JSON pointer into the arguments.
    fn say_at(&mut self, code: Code, pointer: &str, message: impl Into<String>, advice: impl Into<String>) {
        let violation = self.checks.violation(code, Some(self.tool), message, advice);
        self.violations.extend(violation.map(|violation| Violation { pointer: Some(pointer.into()), ..violation }));
    }

    pub(crate) fn extend(&mut self, violation: Option<Violation>) {
        self.violations.extend(violation);
    }

    pub(crate) fn unknown_tool(&mut self, registry: &Registry) {
        let message = if self.tool.trim().is_empty() {
            "the call names no tool".to_owned()
        } else {
            format!("tool {} does not exist", quote(&brief(self.tool, NAME_CHARS_MAX)))
        };
        self.say(Code::UnknownTool, message, available(self.tool, registry));
    }

    pub(crate) fn undeclared(&mut self, registry: &Registry) {
        let message = format!("tool {} isn't offered here", quote(&brief(self.tool, NAME_CHARS_MAX)));
        self.say(Code::UndeclaredTool, message, available(self.tool, registry));
    }

    pub(crate) fn other_kind(&mut self, kind: ToolKind) {
        let (is, how) = match kind {
            ToolKind::Function => ("a function", "with its arguments as one JSON object"),
            ToolKind::Custom => ("a custom tool", "with its input as one text"),
        };
        let message = format!("tool {} is {is} and was called as something else", quote(&brief(self.tool, NAME_CHARS_MAX)));
        self.say(Code::MalformedArguments, message, format!("call it again {how}"));
    }

    pub(crate) fn truncated(&mut self, text: &str) {
        let message = format!("the answer was cut off after {} bytes of this call's arguments", text.len());
        self.say(Code::TruncatedCall, message, "call again with shorter arguments, or in several calls");
    }

    pub(crate) fn malformed(&mut self, text: &str, fault: &JsonFault) {
        let shown = quote(&brief(text, TEXT_CHARS_MAX));
        let advice = match fault {
            JsonFault::Duplicate(_) => "give every member of an object a name of its own",
            JsonFault::Trailing(_) => "send exactly one JSON object and nothing else; use one call for each set of arguments",
            JsonFault::Ends => "send the whole JSON object",
            JsonFault::Syntax(_) if text.starts_with("```") => "send the JSON object without a code fence",
            JsonFault::Syntax(_) => "send one JSON object: double quotes, no comments, no trailing commas, `true`, `false` and `null`",
        };
        let message = if text.is_empty() {
            "there are no arguments".to_owned()
        } else {
            format!("the arguments aren't one JSON object: {fault}, in {shown}")
        };
        self.say(Code::MalformedArguments, message, advice);
    }

    pub(crate) fn no_object(&mut self, value: &Value) {
        let (what, advice) = match value {
            Value::Null => ("null", "send one JSON object"),
            Value::Bool(_) => ("a boolean", "send one JSON object"),
            Value::Number(_) => ("a number", "send one JSON object"),
            Value::Array(_) => ("an array", "send one JSON object; use one call for each set of arguments"),
            Value::String(text) if text.trim_start().starts_with('{') => {
                ("a text", "send the JSON object itself, not encoded a second time")
            }
            Value::String(_) => ("a text", "send one JSON object with the parameters by name"),
            Value::Object(_) => ("an object", ""),
        };
        let message = format!("the arguments are {what} and no JSON object: {}", quoted(value));
        self.say(Code::MalformedArguments, message, advice);
    }

    pub(crate) fn unchecked(&mut self, fault: &SchemaError) {
        let message = format!("the arguments couldn't be checked, since the tool's schema can't be used: {fault}");
        self.say(Code::InvalidToolSchema, message, "mend the tool's JSON Schema");
    }

    /// Reports a parameter that the schema doesn't name. `severity_of`: the code whose severity applies.
    pub(crate) fn unknown_parameter(&mut self, schema: &Schema, name: &str, severity_of: Code) {
        if self.unknown.iter().any(|own| own == name) {
            return;
        }
        self.unknown.push(name.to_owned());
        let known: Vec<&str> = schema.parameters().iter().map(|parameter| &*parameter.name).collect();
        let mut advice = meant(name, known.iter().copied());
        advice.push_str(&listed("the parameters are", &known));
        let message = format!("there is no parameter {}", quote(&brief(name, NAME_CHARS_MAX)));
        let violation = self.checks.violation(severity_of, Some(self.tool), message, advice);
        self.violations.extend(violation.map(|violation| Violation {
            code: Code::UnknownParameter,
            pointer: Some(format!("/{}", step(name)).into()),
            ..violation
        }));
    }

    /// Reports `null`s that should be left out. `pointers`: JSON pointers into the arguments.
    pub(crate) fn nulls(&mut self, pointers: &[String]) {
        for pointer in pointers.iter().take(ISSUES_MAX) {
            let message = format!("{} must not be null", place(pointer));
            self.say_at(Code::NullOptional, pointer, message, "leave an optional parameter out instead of sending null");
        }
    }

    /// Reports corrections, each as its code and message.
    pub(crate) fn notes(&mut self, notes: &[(Code, String)]) {
        notes.iter().take(ISSUES_MAX).for_each(|(code, message)| self.say(*code, message.clone(), ""));
    }

    /// Reports everything that doesn't fit the schema, each issue by its most specific code.
    pub(crate) fn schema(&mut self, schema: &Schema, arguments: &Value, issues: &[SchemaIssue]) {
        let missing: Vec<&str> = issues
            .iter()
            .filter_map(|issue| match &issue.kind {
                IssueKind::Missing(name) if issue.pointer.is_empty() => Some(name.as_str()),
                IssueKind::Missing(_) | IssueKind::Unexpected(_) | IssueKind::Type | IssueKind::Other => None,
            })
            .collect();
        if !missing.is_empty() {
            self.missing(schema, arguments, &missing);
        }
        for issue in issues.iter().take(ISSUES_MAX) {
            let top = issue.pointer.matches('/').count() == 1;
            match &issue.kind {
                IssueKind::Missing(_) if issue.pointer.is_empty() => {}
                IssueKind::Unexpected(names) if issue.pointer.is_empty() => {
                    for name in names.iter().take(ISSUES_MAX) {
                        self.unknown_parameter(schema, name, Code::SchemaViolation);
                    }
                }
                IssueKind::Unexpected(names) => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let message = format!("{} has {} [{}]", place(&issue.pointer), listed("unknown members", &names), issue.keyword);
                    self.say_at(Code::SchemaViolation, &issue.pointer, message, "leave them out");
                }
                IssueKind::Missing(name) => {
                    let message =
                        format!("{} lacks the member {} [{}]", place(&issue.pointer), quote(&brief(name, NAME_CHARS_MAX)), issue.keyword);
                    self.say_at(Code::SchemaViolation, &issue.pointer, message, "add it");
                }
                IssueKind::Type if top => self.expected(Code::WrongType, issue),
                IssueKind::Type | IssueKind::Other => self.expected(Code::SchemaViolation, issue),
            }
        }
    }

    fn expected(&mut self, code: Code, issue: &SchemaIssue) {
        if issue.keyword == "schema" {
            self.say(code, issue.expected.clone(), "call again with simpler arguments that fit the tool's parameters");
            return;
        }
        let message = format!("{} should be {}, but is {} [{}]", place(&issue.pointer), issue.expected, issue.got, issue.keyword);
        self.say_at(code, &issue.pointer, message, format!("change {} to fit", place(&issue.pointer)));
    }

    fn missing(&mut self, schema: &Schema, arguments: &Value, missing: &[&str]) {
        let present = arguments.as_object();
        let told: Vec<String> = missing
            .iter()
            .take(PARAMETERS_TOLD_MAX)
            .map(|name| {
                let types = schema.parameters().iter().find(|own| *own.name == **name).map(|own| &*own.types).filter(|t| !t.is_empty());
                let types = types.map(|types| format!(" ({types})")).unwrap_or_default();
                format!("{}{types}", quote(&brief(name, NAME_CHARS_MAX)))
            })
            .collect();
        // An unknown parameter that is nearly the missing one is probably meant for it.
        let strangers =
            present.into_iter().flat_map(|map| map.keys()).filter(|name| !schema.parameters().iter().any(|own| *own.name == ***name));
        let renamed =
            strangers.take(ISSUES_MAX).find_map(|name| missing.iter().find(|own| suggest::nearly_same(name, own)).map(|own| (name, own)));
        let advice = match renamed {
            Some((name, own)) => format!("did you mean {} by {}?", quote(own), quote(&brief(name, NAME_CHARS_MAX))),
            None => "call again with all required parameters; ask the user for what you don't know".to_owned(),
        };
        let message = format!("missing required parameter{}: {}", if missing.len() == 1 { "" } else { "s" }, told.join(", "));
        self.say_at(Code::MissingRequired, "", message, advice);
    }

    /// Reports an issue about a value, and counts it. `pointer`: JSON pointer into the arguments.
    pub(crate) fn value(&mut self, code: Code, pointer: &str, message: String, advice: &str) {
        self.about_values += 1;
        self.say_at(code, pointer, message, advice);
    }
}

/// A name as a step of a JSON pointer.
pub(crate) fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// `text` in double quotes.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

/// Advice on which tools to call instead of `name`.
pub(crate) fn available(name: &str, registry: &Registry) -> String {
    if registry.is_empty() {
        return "there are no tools; answer without them".to_owned();
    }
    let mut tools = registry.closest(name, TOOLS_TOLD_MAX);
    for other in registry.names() {
        if tools.len() >= TOOLS_TOLD_MAX {
            break;
        }
        if !tools.contains(&other) {
            tools.push(other);
        }
    }
    let all = registry.names().nth(TOOLS_TOLD_MAX).is_none();
    let value = example::meant(name, registry).and_then(|meant| Some((meant.value?, &meant.tool.name)));
    let meant = match value {
        Some(((parameter, value), tool)) => format!("{} is a value of {} of {}; ", quote(&value), quote(&parameter), quote(tool)),
        None => meant(name, registry.names()),
    };
    format!("{meant}{}", listed(if all { "the tools are" } else { "some of the tools are" }, &tools))
}

fn meant<'n>(name: &str, candidates: impl Iterator<Item = &'n str>) -> String {
    let near: Vec<String> = suggest::closest(name, candidates, MEANT_MAX).into_iter().map(quote).collect();
    if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) }
}

fn listed(what: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return "there are none".to_owned();
    }
    let shown: Vec<String> = names.iter().take(PARAMETERS_TOLD_MAX).map(|name| quote(&brief(name, NAME_CHARS_MAX))).collect();
    format!("{what} {}{}", shown.join(", "), if names.len() > shown.len() { ", …" } else { "" })
}

/// Describes a place in the arguments, for people. `pointer`: JSON pointer.
pub(crate) fn place(pointer: &str) -> String {
    match pointer.strip_prefix('/') {
        None => "the arguments object".to_owned(),
        Some(name) if !name.contains('/') => {
            format!("parameter {}", quote(&brief(&name.replace("~1", "/").replace("~0", "~"), NAME_CHARS_MAX)))
        }
        Some(_) => brief(pointer, NAME_CHARS_MAX * 2),
    }
}
