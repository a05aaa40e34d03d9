//! A tool's compiled schema: checks if a call's arguments object fits, and explains why not.
//!
//! Compiled offline, within the bounds of `schema_bounds` and `schema_pattern`; checked within the steps of
//! `schema_fuel`: what can't be checked within them doesn't fit. Pure; never panics on what a client sent as a
//! schema, and never loads another one.

pub mod errors;
mod formats;
pub mod fuel;
mod limits;
mod patterns;
pub mod strict_json;
pub mod suggest;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use errors::ParameterList;
use fuel::{Costs, EXPLANATION_STEPS_MAX, Exhausted, Looked, MeteredJson, TURN_STEPS_MAX, within};
use limits::{BoundedSchema, SchemaCost};
use patterns::{NAME_BACKTRACKS_MAX, PatternFault, PatternKeyword, Patterns};
use strict_json::{Parsed, brief};

pub use errors::{IssueKind, Parameter, SchemaIssue};

/// Bytes of one compiled pattern for members' names.
const PATTERN_BYTES_MAX: usize = 2 << 20;
/// Copies of its states that `jsonschema` makes of a pattern for members' names: forwards, backwards, and its caches.
const NAME_PATTERN_COPIES: u64 = 4;
/// Levels of arguments times schemas per level that the stack can hold.
const LEVELS_MAX: u32 = 600;
/// Levels of arguments up to which the faults of a recursive schema are reported one by one.
const DETAILED_DEPTH_MAX: u32 = 16;
/// Bytes of a fault's message.
const MESSAGE_CHARS_MAX: usize = 300;

/// Reason why a tool's schema can't be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// Longer than the limit.
    #[error("the schema is longer than {} KiB", limits::BYTES_MAX >> 10)]
    TooLong,
    /// Nested too deep, references followed.
    #[error("the schema is nested too deep")]
    TooDeep,
    /// Too many schemas or references.
    #[error("the schema has too many parts or references")]
    TooMany,
    /// A schema that refers to itself without end.
    #[error("the schema refers to itself without an end")]
    Loop,
    /// Compiled patterns that are too large.
    #[error("the schema's patterns take too much memory: shorten repetitions like {{1,1000}}, or classes like \\p{{L}} in them")]
    Patterns,
    /// Larger, together with the preceding ones, than one request may have compiled.
    #[error("the schemas of this request's tools are too large together: send fewer tools, or shorter schemas and patterns")]
    Request,
    /// Not JSON, or duplicate names.
    #[error("the schema is no JSON: {0}")]
    Json(String),
    /// Not a schema of a known draft, or one with remote references.
    #[error("the schema isn't valid: {0}")]
    Invalid(String),
}

/// Treatment of the keyword `format`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FormatChecks {
    /// An annotation that is not checked.
    Ignore,
    /// Checked as JSON Schema's format-assertion vocabulary has it.
    Assert,
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator<MeteredJson>,
    shape: SchemaCost,
    costs: Costs,
    /// Bytes of its compiled patterns.
    pattern_bytes: u64,
    outline: ParameterList,
}

impl Schema {
    /// Compiles the JSON of a tool's `parameters`; `null` is an empty parameter list.
    ///
    /// The draft is the one that `$schema` names, else 2020-12; what isn't valid there but in draft 7 or 4
    /// (`items` as an array, `exclusiveMinimum: true`) is taken as that. `formats` says whether `format` is asserted.
    ///
    /// # Errors
    /// [`SchemaError`] for what isn't a schema, is beyond the bounds, or needs another document.
    pub fn compile(raw: &str, formats: FormatChecks) -> Result<Self, SchemaError> {
        let BoundedSchema { value, draft, shape } = limits::prepare(raw)?;
        let drafts: &[Draft] = match &draft {
            Some(draft) => std::slice::from_ref(draft),
            None => &[Draft::Draft202012, Draft::Draft7, Draft::Draft4],
        };
        let mut fault = None;
        for draft in drafts {
            match build(&value, *draft, formats) {
                Ok(Built { validator, pattern_bytes, name_byte }) => {
                    let outline = ParameterList::of(&value);
                    let costs = Costs { fault: shape.largest / 64, name_byte };
                    return Ok(Self { validator, shape, costs, pattern_bytes, outline });
                }
                Err(SchemaError::Patterns) => return Err(SchemaError::Patterns),
                Err(own) => fault = fault.or(Some(own)),
            }
        }
        Err(fault.unwrap_or(SchemaError::Invalid(String::new())))
    }

    /// Bytes of its compiled patterns.
    pub fn pattern_bytes(&self) -> u64 {
        self.pattern_bytes
    }

    /// The parameters that the schema names at its top level.
    pub fn parameters(&self) -> &[Parameter] {
        &self.outline.parameters
    }

    /// Names of the required parameters.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.outline.parameters.iter().filter(|parameter| parameter.required).map(|parameter| &*parameter.name)
    }

    /// True if the schema neither names a parameter of this name nor has a rule for further ones that covers it.
    pub fn is_unknown(&self, name: &str) -> bool {
        !self.outline.knows(name)
    }

    /// Everything about `arguments` that doesn't fit, up to `budget` issues; nothing if they fit.
    pub fn violations(&self, arguments: &Value, budget: usize) -> Vec<SchemaIssue> {
        let (mut depth, mut open) = (1, vec![(arguments, 1)]);
        while let Some((value, level)) = open.pop() {
            match value {
                Value::Array(list) => open.extend(list.iter().map(|inner| (inner, level + 1))),
                Value::Object(map) => open.extend(map.values().map(|inner| (inner, level + 1))),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
            }
            depth = depth.max(level);
        }
        self.issues(arguments, depth, budget)
    }

    /// True if the parsed arguments fit.
    pub fn fits(&self, arguments: &Parsed) -> bool {
        self.checkable(arguments.depth) && self.is_valid(&arguments.value) == Ok(true)
    }

    /// [`Self::violations`] of parsed arguments.
    pub fn issues_of(&self, arguments: &Parsed, budget: usize) -> Vec<SchemaIssue> {
        self.issues(&arguments.value, arguments.depth, budget)
    }

    fn issues(&self, arguments: &Value, depth: u32, budget: usize) -> Vec<SchemaIssue> {
        let unchecked = || {
            let words = "the arguments are too large or too deep to be checked against the tool's schema: make them shorter and simpler";
            vec![SchemaIssue::whole(words)]
        };
        if !self.checkable(depth) {
            return unchecked();
        }
        match self.is_valid(arguments) {
            Ok(true) => return Vec::new(),
            Ok(false) => {}
            Err(Exhausted) => return unchecked(),
        }
        let found = if !self.shape.recursive || depth <= DETAILED_DEPTH_MAX { self.explain(arguments, budget) } else { Vec::new() };
        if found.is_empty() { vec![SchemaIssue::whole("the arguments don't fit the tool's schema")] } else { found }
    }

    /// The faults one by one; empty if explaining them takes too many steps.
    fn explain(&self, arguments: &Value, budget: usize) -> Vec<SchemaIssue> {
        let costs = Costs { fault: self.costs.fault + longest_path(arguments) / 64, ..self.costs };
        let explain = || errors::collect(arguments, self.validator.iter_errors(Looked(arguments)), budget);
        within(EXPLANATION_STEPS_MAX, costs, explain).unwrap_or_default()
    }

    /// True if the stack suffices to check arguments of this depth.
    fn checkable(&self, depth: u32) -> bool {
        let levels = depth.saturating_mul(self.shape.chain.saturating_add(1));
        !self.shape.recursive || levels <= LEVELS_MAX
    }

    fn is_valid(&self, arguments: &Value) -> Result<bool, Exhausted> {
        within(TURN_STEPS_MAX, self.costs, || self.validator.is_valid(Looked(arguments)))
    }
}

/// Bytes of the member names on the longest path into a value: each fault carries its path.
// INVARIANT: the parser bounds nesting, so the recursion is bounded.
fn longest_path(value: &Value) -> u64 {
    match value {
        Value::Array(list) => list.iter().map(longest_path).max().map_or(0, |longest| longest + 8),
        Value::Object(map) => map.iter().map(|(name, value)| name.len() as u64 + longest_path(value)).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

struct Built {
    validator: Validator<MeteredJson>,
    pattern_bytes: u64,
    /// Steps per byte of a member's name that the patterns for names take.
    name_byte: u64,
}

/// Compiles a schema with toolmark's own pattern engine.
fn build(schema: &Value, draft: Draft, formats: FormatChecks) -> Result<Built, SchemaError> {
    let mut patterns = Patterns::default();
    let (mut states, mut looks_around) = (0_u64, false);
    for name in name_patterns(schema) {
        match patterns.compile(name, NAME_PATTERN_COPIES) {
            Ok(pattern) => {
                states = states.saturating_add(pattern.states());
                looks_around |= pattern.looks_around();
            }
            Err(PatternFault::TooLarge) => return Err(SchemaError::Patterns),
            // Where it is one at all, compiling says so.
            Err(PatternFault::Invalid) => {}
        }
    }
    let name_byte = if looks_around { NAME_BACKTRACKS_MAX as u64 / 8 } else { states / 2 };
    let for_names = |options: jsonschema::ValidationOptions<'static, Arc<dyn jsonschema::Retrieve>, MeteredJson>| {
        if looks_around {
            let limits = PatternOptions::fancy_regex().backtrack_limit(NAME_BACKTRACKS_MAX);
            options.with_pattern_options(limits.size_limit(PATTERN_BYTES_MAX))
        } else {
            options.with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
        }
    };
    let patterns = Arc::new(Mutex::new(patterns));
    let shared = patterns.clone();
    let compile = || {
        let options =
            jsonschema::options_for::<MeteredJson>().offline().with_draft(draft).should_validate_formats(formats == FormatChecks::Assert);
        let options = options
            .with_format("date-time", formats::is_date_time)
            .with_format("time", formats::is_time)
            .with_format("uri", formats::is_uri)
            .with_format("hostname", formats::is_hostname)
            .with_format("uuid", formats::is_uuid)
            .with_format("duration", formats::is_duration)
            .with_format("regex", formats::is_regex);
        let options = options.with_keyword("pattern", move |_, value, _| {
            let source = value.as_str().ok_or_else(|| ValidationError::schema("a pattern is a text"))?;
            let compiled = shared.lock().unwrap_or_else(PoisonError::into_inner).compile(source, 1);
            let pattern = compiled.map_err(|_| ValidationError::schema("this is no regular expression"))?;
            let keyword: Box<dyn for<'i> Keyword<'i, MeteredJson>> = Box::new(PatternKeyword(pattern));
            Ok(keyword)
        });
        for_names(options).build(schema).map_err(|error| brief(&error.to_string(), MESSAGE_CHARS_MAX))
    };
    let built = catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| Err("it can't be compiled".into()));
    let patterns = patterns.lock().unwrap_or_else(PoisonError::into_inner);
    match built {
        Ok(validator) => Ok(Built { validator, pattern_bytes: patterns.bytes(), name_byte }),
        Err(_) if patterns.too_large() => Err(SchemaError::Patterns),
        Err(words) => Err(SchemaError::Invalid(words)),
    }
}

/// Every string that may be a pattern for members' names, wherever it is.
fn name_patterns(schema: &Value) -> Vec<&str> {
    let (mut found, mut open) = (Vec::new(), vec![schema]);
    while let Some(value) = open.pop() {
        match value {
            Value::Array(list) => open.extend(list),
            Value::Object(map) => {
                if let Some(Value::Object(patterns)) = map.get("patternProperties") {
                    found.extend(patterns.keys().map(String::as_str));
                }
                open.extend(map.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
