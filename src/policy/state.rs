//! `[[state]]`: what the model says it did, checked against the world by a tool that only reads.
//!
//! Values, and their compiling. Issue "MCP and state".

use std::{collections::HashSet, time::Duration};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use super::duration;
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
    /// Not built yet.
    pub http: Option<String>,
}

/// When it is looked.
#[derive(Clone, Debug)]
pub enum Occasion {
    /// This tool succeeded.
    Tool(Box<str>),
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
    /// The server.
    pub server: Box<str>,
    /// Its tool.
    pub tool: Box<str>,
    /// The arguments, with `{{name}}` for values.
    pub arguments: Value,
    /// The rule says that the tool only reads.
    pub read_only: bool,
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
    let when = match (&rule.when.tool, &rule.when.phrase) {
        (Some(tool), None) if !tool.trim().is_empty() => Occasion::Tool(tool.as_str().into()),
        (None, Some(phrase)) => {
            let built = RegexBuilder::new(phrase).multi_line(true).size_limit(REGEX_BYTES_MAX).build();
            let regex =
                built.map_err(|error| fault("when.phrase", format!("`{phrase}` is no regular expression that is taken: {error}")))?;
            if regex.is_match("") {
                return Err(fault("when.phrase", format!("`{phrase}` matches empty text, so it would match every answer")));
            }
            Occasion::Phrase(regex)
        }
        _ => return Err(fault("when", "say either { tool = \"add_task\" } or { phrase = '…' }".into())),
    };
    if rule.probe.http.is_some() {
        return Err(fault(
            "probe.http",
            "not built yet: this version looks by tools of MCP servers only; write { mcp = \"…\", tool = \"…\" }".into(),
        ));
    }
    let (Some(server), Some(tool)) = (&rule.probe.mcp, &rule.probe.tool) else {
        return Err(fault(
            "probe",
            "say { mcp = \"todo\", tool = \"list_tasks\" }: a server of [[mcp]] and a tool of it that only reads".into(),
        ));
    };
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
    Ok(CompiledState {
        name: rule.name.as_str().into(),
        when,
        server: server.as_str().into(),
        tool: tool.as_str().into(),
        arguments: Value::Object(rule.probe.arguments.clone()),
        read_only: rule.probe.read_only,
        expect,
        message: message.into(),
        deadline: rule.deadline,
    })
}
