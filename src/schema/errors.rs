//! Explains what doesn't fit a schema in words that a model can act on, and lists a schema's parameters for advice.
//!
//! Pure. Quotes at most `QUOTED_CHARS_MAX` characters of a value.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::{Map, Value};

use crate::{
    limits::{Target, anchors, inner, references},
    strict_json::brief,
};

/// Characters of a value that are quoted.
pub(crate) const QUOTED_CHARS_MAX: usize = 80;
/// Characters of an expectation that are reported.
const EXPECTED_CHARS_MAX: usize = 300;
/// Alternatives of one `anyOf` that are reported.
const ALTERNATIVES_MAX: usize = 8;
/// Schemas searched for a schema's parameters.
const OUTLINED_MAX: usize = 256;
/// Parameters of one schema above which no name counts as unknown.
const PARAMETERS_MAX: usize = 1024;
/// Patterns for names of parameters.
const NAME_PATTERNS_MAX: usize = 16;
/// Bytes of the longest name that these patterns are tried on.
const MATCHED_BYTES_MAX: usize = 256;
/// Bytes of one such pattern, compiled.
const NAME_PATTERN_BYTES_MAX: usize = 64 << 10;

/// One part of the arguments that doesn't fit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaIssue {
    /// JSON pointer into the arguments; empty for the arguments as a whole.
    pub pointer: String,
    /// The keyword of the schema that objects.
    pub keyword: String,
    /// Kind of the issue.
    pub kind: IssueKind,
    /// Expected type or value, or the fault in words.
    pub expected: String,
    /// Actual value, cut short; empty if there is none.
    pub got: String,
    /// The actual value is `null`.
    pub null: bool,
}

/// Kind of an issue, as far as it determines the violation's code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum IssueKind {
    /// A member of this name is missing.
    Missing(String),
    /// Members of these names are forbidden.
    Unexpected(Vec<String>),
    /// Another type was expected.
    Type,
    /// Anything else.
    Other,
}

impl SchemaIssue {
    /// An issue with the arguments as a whole.
    pub(crate) fn whole(words: &str) -> Self {
        let (pointer, got) = (String::new(), String::new());
        Self { pointer, keyword: "schema".into(), kind: IssueKind::Other, expected: words.into(), got, null: false }
    }

    /// JSON Schema's names of the expected types; `None` if the issue isn't about types.
    pub fn types(&self) -> Option<Vec<&str>> {
        const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
        let types: Vec<&str> = self.expected.split(" or ").collect();
        (self.kind == IssueKind::Type && types.iter().all(|own| TYPES.contains(own))).then_some(types)
    }
}

/// Converts the first `budget` errors with these arguments into issues.
pub(crate) fn collect<'e>(arguments: &Value, errors: impl Iterator<Item = ValidationError<'e>>, budget: usize) -> Vec<SchemaIssue> {
    errors.take(budget).map(|error| issue(arguments, &error)).collect()
}

fn issue(arguments: &Value, error: &ValidationError<'_>) -> SchemaIssue {
    let (kind, expected) = explain(error);
    // The error has no value of its own: see `schema_fuel`. What isn't found there is a member's name.
    let value = arguments.pointer(error.instance_path().as_str()).unwrap_or(&Value::Bool(false));
    let got = if matches!(kind, IssueKind::Missing(_) | IssueKind::Unexpected(_)) { String::new() } else { quoted(value) };
    SchemaIssue {
        pointer: error.instance_path().as_str().to_owned(),
        keyword: error.kind().keyword().to_owned(),
        kind,
        expected: brief(&expected, EXPECTED_CHARS_MAX),
        got,
        null: value.is_null(),
    }
}

fn explain(error: &ValidationError<'_>) -> (IssueKind, String) {
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default().to_owned();
            (IssueKind::Missing(name.clone()), format!("member \"{name}\""))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            (IssueKind::Unexpected(unexpected.clone()), "no further members".into())
        }
        ValidationErrorKind::Type { kind } => (IssueKind::Type, types(kind)),
        ValidationErrorKind::Enum { options } => (IssueKind::Other, format!("one of {}", shown(options, EXPECTED_CHARS_MAX))),
        ValidationErrorKind::Constant { expected_value } => (IssueKind::Other, shown(expected_value, EXPECTED_CHARS_MAX)),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => alternatives(error, context),
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            (IssueKind::Other, "exactly one of the schema's alternatives, not several".into())
        }
        ValidationErrorKind::Pattern { pattern } => (IssueKind::Other, format!("text that matches /{pattern}/")),
        ValidationErrorKind::Format { format } => (IssueKind::Other, format!("text in the format \"{format}\"")),
        ValidationErrorKind::FalseSchema => (IssueKind::Other, "no such value".into()),
        ValidationErrorKind::BacktrackLimitExceeded { .. } | ValidationErrorKind::RegexEngineFailure { .. } => {
            (IssueKind::Other, "text that the schema's pattern can be checked on".into())
        }
        ValidationErrorKind::Custom { message, .. } => (IssueKind::Other, message.clone()),
        ValidationErrorKind::UniqueItems => (IssueKind::Other, "no element twice".into()),
        _ => (IssueKind::Other, error.masked_with("the value").to_string()),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "),
    }
}

fn alternatives(error: &ValidationError<'_>, context: &[Vec<ValidationError<'static>>]) -> (IssueKind, String) {
    let here = error.instance_path();
    let mut words: Vec<String> = Vec::new();
    let mut all_types = !context.is_empty();
    for alternative in context {
        let firsts: Vec<String> = alternative
            .iter()
            .take(2)
            .map(|inner| {
                let (kind, expected) = explain(inner);
                let place = inner.instance_path().as_str().strip_prefix(here.as_str()).unwrap_or_default().trim_start_matches('/');
                all_types &= kind == IssueKind::Type && place.is_empty();
                let expected = brief(&expected, EXPECTED_CHARS_MAX / 2);
                if place.is_empty() { expected } else { format!("{expected} at {}", brief(place, QUOTED_CHARS_MAX)) }
            })
            .collect();
        let one = firsts.join(" and ");
        if !one.is_empty() && !words.contains(&one) && words.len() < ALTERNATIVES_MAX {
            words.push(one);
        }
    }
    if all_types { (IssueKind::Type, words.join(" or ")) } else { (IssueKind::Other, format!("one of: {}", words.join("; or "))) }
}

/// A value as JSON, cut short.
pub fn quoted(value: &Value) -> String {
    shown(value, QUOTED_CHARS_MAX)
}

fn shown(value: &Value, chars: usize) -> String {
    // Four bytes at most to a character, and one more to see that it was cut.
    let mut cut = TruncatedWriter { bytes: Vec::new(), max: chars * 4 + 4 };
    let whole = serde_json::to_writer(&mut cut, value).is_ok();
    let text = String::from_utf8_lossy(&cut.bytes);
    let shown = brief(&text, chars);
    if whole || shown.ends_with('…') { shown } else { format!("{shown}…") }
}

/// Writer that stops after the first bytes, so that a long value isn't written in full.
struct TruncatedWriter {
    bytes: Vec<u8>,
    max: usize,
}

impl io::Write for TruncatedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.max.saturating_sub(self.bytes.len());
        if room == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.bytes.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A parameter that a schema names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: Box<str>,
    /// True if it is required.
    pub required: bool,
    /// Its types or values in words; empty where the schema doesn't say.
    pub types: Box<str>,
}

/// Reach of a schema within another one.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Presence {
    /// It holds for every value.
    Always,
    /// It holds for some values.
    Sometimes,
}

/// A schema's parameters.
#[derive(Debug, Default)]
pub(crate) struct ParameterList {
    /// Parameters named at the top level, also within combinations such as `allOf`.
    pub(crate) parameters: Vec<Parameter>,
    /// True if other parameters are allowed.
    open: bool,
    names: HashSet<Box<str>>,
    patterns: Vec<regex::Regex>,
}

impl ParameterList {
    /// Reads the parameters of `root`.
    pub(crate) fn of(root: &Value) -> Self {
        let mut outline = Self::default();
        let anchors = anchors(root);
        let (mut queue, mut seen, mut named) = (vec![(root, Presence::Always)], 0, false);
        while let Some((schema, presence)) = queue.pop() {
            seen += 1;
            let Value::Object(map) = schema else { continue };
            if seen > OUTLINED_MAX || outline.parameters.len() > PARAMETERS_MAX {
                outline.open = true;
                break;
            }
            named |= outline.take(map, presence);
            for (keyword, same, inner) in inner(map) {
                if same && keyword != "not" {
                    queue.push((inner, if keyword == "allOf" { presence } else { Presence::Sometimes }));
                }
            }
            for target in references(map, root, &anchors) {
                match target {
                    Target::Schema(target) => queue.push((target, presence)),
                    Target::Opaque => outline.open = true,
                }
            }
        }
        outline.open |= !named || outline.parameters.len() > PARAMETERS_MAX;
        if !outline.open {
            outline.names = outline.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        }
        outline
    }

    /// True if the schema covers this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        // A name as long as that is no typo of a parameter's, and the schema itself has judged it.
        self.open || self.names.contains(name) || name.len() > MATCHED_BYTES_MAX || self.patterns.iter().any(|own| own.is_match(name))
    }

    /// Adds one schema's parameters; true if it names any.
    fn take(&mut self, map: &Map<String, Value>, presence: Presence) -> bool {
        let further = ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|keyword| map.get(*keyword));
        self.open |= further.into_iter().any(|rule| *rule != Value::Bool(false));
        if let Some(Value::Object(patterns)) = map.get("patternProperties") {
            for pattern in patterns.keys() {
                if self.patterns.len() >= NAME_PATTERNS_MAX {
                    self.open = true;
                    break;
                }
                match regex::RegexBuilder::new(pattern).size_limit(NAME_PATTERN_BYTES_MAX).build() {
                    Ok(compiled) => self.patterns.push(compiled),
                    Err(_) => self.open = true,
                }
            }
        }
        let properties = map.get("properties").and_then(Value::as_object);
        // By name, so that a schema of ten thousand parameters doesn't cost their square.
        let mut places: HashMap<Box<str>, usize> =
            self.parameters.iter().enumerate().map(|(place, own)| (own.name.clone(), place)).collect();
        for (name, schema) in properties.into_iter().flatten() {
            let name: Box<str> = name.as_str().into();
            if let std::collections::hash_map::Entry::Vacant(place) = places.entry(name.clone()) {
                place.insert(self.parameters.len());
                self.parameters.push(Parameter { name, required: false, types: types_of(schema) });
            }
        }
        let required = map.get("required").and_then(Value::as_array).filter(|_| presence == Presence::Always);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            match places.get(name).and_then(|place| self.parameters.get_mut(*place)) {
                Some(parameter) => parameter.required = true,
                None => self.parameters.push(Parameter { name: name.into(), required: true, types: "".into() }),
            }
        }
        properties.is_some()
    }
}

fn types_of(schema: &Value) -> Box<str> {
    if let Some(values) = schema.get("enum") {
        return format!("one of {}", shown(values, EXPECTED_CHARS_MAX / 2)).into();
    }
    match schema.get("type") {
        Some(Value::String(own)) => brief(own, QUOTED_CHARS_MAX).into(),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).take(7).collect::<Vec<_>>().join(" or ").into(),
        _ => "".into(),
    }
}
