//! `[[state]]`: what the model says it did, checked against the world by a tool that only reads, or by a GET.
//!
//! Values, and their compilation. docs/contract.md#policy.

use std::{collections::HashSet, time::Duration};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::state_probe::{CompiledProbe, Probe};
use toolmark_config::{error::ConfigError, layers::Layers, units::duration};
use toolmark_schema::{FormatChecks, Schema};

/// Highest number of rules in a policy.
const RULES_MAX: usize = 64;
/// Highest deadline of a probe.
const DEADLINE_MAX: Duration = Duration::from_secs(60);
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A rule of `[[state]]`, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRule {
    /// Name of the rule in reports.
    pub name: String,
    /// Condition under which the probe is run.
    pub when: StateCondition,
    /// Probe of the state.
    pub probe: Probe,
    /// Expected state: a JSONPath that must select something, or a JSON Schema.
    pub expect: Value,
    /// Message to the model if the state is not as expected.
    #[serde(default)]
    pub message: String,
    /// Timeout of the probe.
    #[serde(default = "deadline", with = "duration")]
    pub deadline: Duration,
}

fn deadline() -> Duration {
    Duration::from_secs(10)
}

/// `[[state]] when`: either `tool` or `phrase`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateCondition {
    /// Name of a tool that succeeded since the last user message.
    pub tool: Option<String>,
    /// Regular expression that the answer matches; its named groups are values for placeholders.
    pub phrase: Option<String>,
    /// With `tool`: regular expression of answers for which the probe isn't run, such as those that report a failure.
    pub unless: Option<String>,
}

/// Condition under which a probe is run.
#[derive(Clone, Debug)]
pub enum StateTrigger {
    /// A tool succeeded.
    Tool {
        /// Name of the tool.
        name: Box<str>,
        /// Answers for which the probe isn't run.
        unless: Option<Regex>,
    },
    /// The answer matches this.
    Phrase(Regex),
}

/// Expected state.
#[derive(Clone, Debug)]
pub enum Expect {
    /// A JSONPath, with `{{name}}` as placeholders, that must select something.
    Path(Box<str>),
    /// A JSON Schema, with `{{name}}` as placeholders.
    Schema(Value),
}

/// A compiled rule of `[[state]]`.
#[derive(Clone, Debug)]
pub struct CompiledState {
    /// Name of the rule in reports.
    pub name: Box<str>,
    /// Condition under which the probe is run.
    pub when: StateTrigger,
    /// Probe of the state.
    pub probe: CompiledProbe,
    /// Expected state.
    pub expect: Expect,
    /// Message to the model; never empty.
    pub message: Box<str>,
    /// Timeout of the probe.
    pub deadline: Duration,
}

/// Compiles all rules.
///
/// # Errors
/// The first error.
pub(super) fn compile(layers: &Layers, rules: &[StateRule]) -> Result<Vec<CompiledState>, ConfigError> {
    if rules.len() > RULES_MAX {
        return Err(layers.fault("state", format!("{} rules, at most {RULES_MAX} are taken", rules.len())));
    }
    let mut names = HashSet::new();
    let mut compiled_rules = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        if rule.name.trim().is_empty() || !names.insert(rule.name.as_str()) {
            return Err(layers.fault(&format!("state.{index}.name"), "a rule needs a name of its own: reports name it"));
        }
        compiled_rules.push(compiled(layers, index, rule)?);
    }
    Ok(compiled_rules)
}

fn compiled(layers: &Layers, index: usize, rule: &StateRule) -> Result<CompiledState, ConfigError> {
    let fault = |key: &str, message: String| layers.fault(&format!("state.{index}.{key}"), message);
    let regex = |key: &str, phrase: &str| {
        let built = RegexBuilder::new(phrase).multi_line(true).size_limit(REGEX_BYTES_MAX).build();
        let regex = built.map_err(|error| fault(key, format!("`{phrase}` is no regular expression that is taken: {error}")))?;
        if regex.is_match("") {
            return Err(fault(key, format!("`{phrase}` matches empty text, so it would match every answer")));
        }
        Ok(regex)
    };
    let when = match (&rule.when.tool, &rule.when.phrase) {
        (Some(tool), None) if !tool.trim().is_empty() => {
            let unless = rule.when.unless.as_deref().map(|phrase| regex("when.unless", phrase)).transpose()?;
            StateTrigger::Tool { name: tool.as_str().into(), unless }
        }
        (None, Some(phrase)) if rule.when.unless.is_none() => StateTrigger::Phrase(regex("when.phrase", phrase)?),
        (None, Some(_)) => return Err(fault("when.unless", "it goes with `tool`: a `phrase` says itself what it matches".into())),
        _ => return Err(fault("when", "say either { tool = \"add_task\" } or { phrase = '…' }".into())),
    };
    let probe = CompiledProbe::of(&rule.probe).map_err(|(key, why)| fault(key, why))?;
    if rule.deadline.is_zero() || rule.deadline > DEADLINE_MAX {
        return Err(fault("deadline", "expected a time from \"1ms\" to \"60s\"".into()));
    }
    let expect = match &rule.expect {
        Value::String(path) => {
            let sample = path.replace("{{", "").replace("}}", "");
            JsonPath::parse(&sample).map_err(|error| fault("expect", format!("`{path}` is no JSONPath (RFC 9535): {error}")))?;
            Expect::Path(path.as_str().into())
        }
        Value::Object(_) => {
            Schema::compile(&rule.expect.to_string(), FormatChecks::Assert)
                .map_err(|error| fault("expect", format!("no JSON Schema that is taken: {error}")))?;
            Expect::Schema(rule.expect.clone())
        }
        _ => return Err(fault("expect", "a JSONPath, as \"$.tasks[?@.title == '{{title}}']\", or a table: a JSON Schema".into())),
    };
    let message = match rule.message.trim() {
        "" => format!("`{}`: what was said was done isn't so", rule.name),
        message => message.to_owned(),
    };
    Ok(CompiledState { name: rule.name.as_str().into(), when, probe, expect, message: message.into(), deadline: rule.deadline })
}
