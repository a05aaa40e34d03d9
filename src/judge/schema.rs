//! A tool's schema, compiled: does a call's arguments object fit it, and if not, why not.
//!
//! Compiled offline, within the bounds of `schema_bounds`; what can't be checked within bounds
//! doesn't fit. Pure; never panics on what a client sent as a schema, and never loads another one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use super::{
    call_arguments::{Parsed, brief},
    schema_bounds::{self, Prepared, Shape},
    schema_issue::{self, Outline},
};

pub use super::schema_issue::{IssueKind, Parameter, SchemaIssue};

/// Steps a pattern with look-around may take on one string; others take linear time.
const BACKTRACKS_MAX: usize = 20_000;
/// Values in arguments that such patterns are tried on.
const BACKTRACKED_VALUES_MAX: u32 = 4096;
/// Bytes of one compiled pattern.
const PATTERN_BYTES_MAX: usize = 2 << 20;
/// Levels of arguments times schemas per level: what the stack must hold.
const LEVELS_MAX: u32 = 600;
/// Values in arguments whose faults are told one by one.
const DETAILED_VALUES_MAX: u32 = 10_000;
/// Schemas, written out, whose faults are told one by one.
const DETAILED_SCHEMAS_MAX: u64 = 50_000;
/// Levels of arguments whose faults are told one by one by a schema that contains itself.
const DETAILED_DEPTH_MAX: u32 = 16;
/// Bytes of a fault's message.
const MESSAGE_CHARS_MAX: usize = 300;

/// Why a tool's schema can't be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SchemaFault {
    /// Longer than is compiled.
    #[error("the schema is longer than {} KiB", schema_bounds::BYTES_MAX >> 10)]
    TooLong,
    /// Nested deeper than is compiled, references followed.
    #[error("the schema is nested too deep")]
    TooDeep,
    /// More schemas or references than are compiled.
    #[error("the schema has too many parts or references")]
    TooMany,
    /// A schema that is defined by itself.
    #[error("the schema refers to itself without an end")]
    Loop,
    /// No JSON, or names that aren't unique.
    #[error("the schema is no JSON: {0}")]
    Json(String),
    /// Not a schema of any draft we know, or one with remote references.
    #[error("the schema isn't valid: {0}")]
    Invalid(String),
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    shape: Shape,
    backtracks: bool,
    outline: Outline,
}

impl Schema {
    /// Compiles the JSON of a tool's `parameters`; `null` is an empty parameter list.
    ///
    /// The draft is the one that `$schema` names, else 2020-12; what isn't valid there but in draft 7 or 4
    /// (`items` as an array, `exclusiveMinimum: true`) is taken as that. `format` is asserted if `formats`.
    ///
    /// # Errors
    /// [`SchemaFault`] for what isn't a schema, is beyond the bounds, or needs another document.
    pub fn compile(raw: &str, formats: bool) -> Result<Self, SchemaFault> {
        let Prepared { value, draft, shape } = schema_bounds::prepare(raw)?;
        let drafts: &[Draft] = match &draft {
            Some(draft) => std::slice::from_ref(draft),
            None => &[Draft::Draft202012, Draft::Draft7, Draft::Draft4],
        };
        let mut fault = None;
        for draft in drafts {
            match build(&value, *draft, formats) {
                Ok((validator, backtracks)) => {
                    let outline = Outline::of(&value);
                    return Ok(Self { validator, shape, backtracks, outline });
                }
                Err(words) => fault = fault.or(Some(words)),
            }
        }
        Err(SchemaFault::Invalid(fault.unwrap_or_default()))
    }

    /// The parameters that the schema names at its top level.
    pub fn parameters(&self) -> &[Parameter] {
        &self.outline.parameters
    }

    /// The names of the parameters that must be there.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.outline.parameters.iter().filter(|parameter| parameter.required).map(|parameter| &*parameter.name)
    }

    /// True where a parameter of this name is neither named by the schema nor covered by a rule for further ones.
    pub fn is_unknown(&self, name: &str) -> bool {
        !self.outline.knows(name)
    }

    /// Everything about `arguments` that doesn't fit, up to `budget` issues; nothing if they fit.
    pub fn violations(&self, arguments: &Value, budget: usize) -> Vec<SchemaIssue> {
        let (mut depth, mut values, mut open) = (1, 0_u32, vec![(arguments, 1)]);
        while let Some((value, level)) = open.pop() {
            values = values.saturating_add(1);
            match value {
                Value::Array(list) => open.extend(list.iter().map(|inner| (inner, level + 1))),
                Value::Object(map) => open.extend(map.values().map(|inner| (inner, level + 1))),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
            }
            depth = depth.max(level);
        }
        self.issues(arguments, depth, values, budget)
    }

    /// True where what was read fits.
    pub(crate) fn fits(&self, arguments: &Parsed) -> bool {
        self.checkable(arguments.depth, arguments.values) && self.is_valid(&arguments.value)
    }

    /// [`Self::violations`] of what was read.
    pub(crate) fn issues_of(&self, arguments: &Parsed, budget: usize) -> Vec<SchemaIssue> {
        self.issues(&arguments.value, arguments.depth, arguments.values, budget)
    }

    fn issues(&self, arguments: &Value, depth: u32, values: u32, budget: usize) -> Vec<SchemaIssue> {
        if !self.checkable(depth, values) {
            return vec![SchemaIssue::whole("the arguments are too large or too deep to be checked against the tool's schema")];
        }
        if self.is_valid(arguments) {
            return Vec::new();
        }
        let detailed = values <= DETAILED_VALUES_MAX
            && self.shape.expanded <= DETAILED_SCHEMAS_MAX
            && (!self.shape.recursive || depth <= DETAILED_DEPTH_MAX);
        let found = if detailed {
            let find = || schema_issue::collect(self.validator.iter_errors(arguments), budget);
            catch_unwind(AssertUnwindSafe(find)).unwrap_or_default()
        } else {
            Vec::new()
        };
        if found.is_empty() { vec![SchemaIssue::whole("the arguments don't fit the tool's schema")] } else { found }
    }

    /// Is there stack and time to check this?
    fn checkable(&self, depth: u32, values: u32) -> bool {
        let levels = depth.saturating_mul(self.shape.chain.saturating_add(1));
        (!self.shape.recursive || levels <= LEVELS_MAX) && (!self.backtracks || values <= BACKTRACKED_VALUES_MAX)
    }

    fn is_valid(&self, arguments: &Value) -> bool {
        // A validator that panics has checked nothing, and what isn't checked doesn't pass.
        catch_unwind(AssertUnwindSafe(|| self.validator.is_valid(arguments))).unwrap_or(false)
    }
}

/// Compiles with patterns that take linear time, or else with some that don't.
fn build(schema: &Value, draft: Draft, formats: bool) -> Result<(Validator, bool), String> {
    let options = || jsonschema::options().offline().with_draft(draft).should_validate_formats(formats);
    let linear = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
    let backtracking = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX).size_limit(PATTERN_BYTES_MAX);
    let compile = || {
        let first = match options().with_pattern_options(linear).build(schema) {
            Ok(validator) => return Ok((validator, false)),
            Err(error) => error,
        };
        let pattern = matches!(first.kind().keyword(), "format" | "pattern" | "patternProperties");
        match pattern.then(|| options().with_pattern_options(backtracking).build(schema)) {
            Some(Ok(validator)) => Ok((validator, true)),
            Some(Err(_)) | None => Err(brief(&first.to_string(), MESSAGE_CHARS_MAX)),
        }
    };
    catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| Err("it can't be compiled".into()))
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
