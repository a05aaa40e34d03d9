//! `[[state]]`: what the model says it did, checked against the world by a tool that only reads, or by a GET.
//!
//! Values, and their compiling. Issue "MCP and state".

use std::{collections::HashSet, time::Duration};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use super::{duration, probe::CompiledProbe};
use crate::{
    judge::schema::Schema,
    settings::{Fault, layers::Layers},
};

/// Rules of one policy.
const RULES_MAX: usize = 64;
/// Longest that a probe may be set to take.
const DEADLINE_MAX: Duration = Duration::from_secs(60);
const REGEX_BYTES_MAX: usize = 1 << 20;

/// One of `[[state]]`, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRule {
    /// Its name in reports.
    pub name: String,
    /// When it is looked.
    pub when: When,
    /// Where it is looked.
    pub probe: Probe,
    /// What must be found: a JSONPath that selects something, or a JSON Schema.
    pub expect: Value,
    /// What the model is told where it isn't.
    #[serde(default)]
    pub message: String,
    /// How long looking may take.
    #[serde(default = "deadline", with = "duration")]
    pub deadline: Duration,
}

fn deadline() -> Duration {
    Duration::from_secs(10)
}

/// `[[state]] when`: one of the two.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// This tool succeeded since the user spoke last.
    pub tool: Option<String>,
    /// The answer says this; its named groups are values.
    pub phrase: Option<String>,
    /// With `tool`: not where the answer says this, as that it couldn't be done.
    pub unless: Option<String>,
}

/// `[[state]] probe`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// The server of `[[mcp]]`.
    pub mcp: Option<String>,
    /// Its tool.
    pub tool: Option<String>,
    /// The arguments; `{{name}}` stands for a value.
    pub arguments: Map<String, Value>,
    /// The tool only reads, though it doesn't say so itself.
    pub read_only: bool,
    /// A GET instead: `GET https://host/path/{{name}}`; the settings must name the host.
    pub http: Option<String>,
}

/// When it is looked.
#[derive(Clone, Debug)]
pub enum Occasion {
    /// This tool succeeded.
    Tool {
        /// Its name.
        name: Box<str>,
        /// Not where the answer says this.
        unless: Option<Regex>,
    },
    /// The answer says this.
    Phrase(Regex),
}

/// What must be found.
#[derive(Clone, Debug)]
pub enum Expect {
    /// A JSONPath, with `{{name}}` for values, that selects something.
    Path(Box<str>),
    /// A JSON Schema, with `{{name}}` for values.
    Schema(Value),
}

/// A rule made ready.
#[derive(Clone, Debug)]
pub struct CompiledState {
    /// Its name in reports.
    pub name: Box<str>,
    /// When it is looked.
    pub when: Occasion,
    /// Where it is looked.
    pub probe: CompiledProbe,
    /// What must be found.
    pub expect: Expect,
    /// What the model is told; never empty.
    pub message: Box<str>,
    /// How long looking may take.
    pub deadline: Duration,
}

/// Compiles all of them.
///
/// # Errors
/// The first that can't be used.
pub(super) fn compile(layers: &Layers, rules: &[StateRule]) -> Result<Vec<CompiledState>, Fault> {
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

fn compiled(layers: &Layers, index: usize, rule: &StateRule) -> Result<CompiledState, Fault> {
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
            Occasion::Tool { name: tool.as_str().into(), unless }
        }
        (None, Some(phrase)) if rule.when.unless.is_none() => Occasion::Phrase(regex("when.phrase", phrase)?),
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
            Schema::compile(&rule.expect.to_string(), true)
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
