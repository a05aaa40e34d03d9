//! The tools of an exchange: the policy's and the request's own, with their schemas compiled.
//!
//! Built once per set of tools and shared; a schema is compiled once for all exchanges. Pure. Never changes a request: it returns which of
//! the request's tools stay and which of the policy's are inserted.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use foldhash::quality::RandomState;
use serde_json::Value;

use crate::{
    marks,
    policy::{Inject, Tools, Undeclared},
    schema::{FormatChecks, Schema, SchemaError, strict_json::parse_unique, suggest},
    violation::{Checks, Code, Violation},
};

/// Bytes that compiled schemas may take, by estimate.
const CACHE_BYTES_MAX: u64 = 32 << 20;
/// Estimated size of a compiled schema, as a multiple of its text.
const COMPILED_FACTOR: u64 = 12;
/// Estimated bytes of a compiled schema besides that.
const COMPILED_BYTES_MIN: u64 = 2048;

/// Bytes of the schemas that one request may bring.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Bytes of all compiled patterns of one request's schemas.
const REQUEST_PATTERN_BYTES_MAX: u64 = 8 << 20;

/// Kind of a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolKind {
    /// Called with JSON arguments.
    Function,
    /// Called with free text.
    Custom,
}

/// Origin of a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolOrigin {
    /// From the policy's files.
    Policy,
    /// From the request.
    Request,
}

/// A tool as a request brings it, legacy `functions` entries included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestTool<'r> {
    /// Its name, escapes resolved.
    pub name: &'r str,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// The JSON of its `parameters`, if it has any.
    pub parameters_raw: Option<&'r str>,
    /// The tool's `description`.
    pub description: Option<&'r str>,
    /// The element of the request's array, unchanged.
    pub raw: &'r str,
}

/// A tool from the policy's files: `{"type":"function","function":{…}}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolSource {
    name: Box<str>,
    kind: ToolKind,
    parameters_raw: Option<Box<str>>,
    description: Option<Box<str>>,
    raw: Box<str>,
}

impl ToolSource {
    /// Reads one element of a tool file.
    ///
    /// # Errors
    /// A message for people that says what is wrong.
    pub fn parse(raw: &str) -> Result<Self, String> {
        let parsed = parse_unique(raw).map_err(|fault| fault.to_string())?;
        let kind = match parsed.value.get("type").and_then(Value::as_str) {
            Some("function") => ToolKind::Function,
            Some("custom") => ToolKind::Custom,
            Some(other) => return Err(format!("a tool of type `{other}` can't be judged: `function` or `custom` is expected")),
            None => return Err("a tool needs `type` and `function`: {\"type\":\"function\",\"function\":{\"name\":…}}".into()),
        };
        let member = if kind == ToolKind::Function { "function" } else { "custom" };
        let inner = parsed.value.get(member).ok_or_else(|| format!("a tool of this type needs a member `{member}`"))?;
        let name = inner.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or("a tool needs a `name`")?;
        if name.len() > 128 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')) {
            return Err(format!("`{name}` is no name of a tool: 1 to 128 of A-Z a-z 0-9 _ - ."));
        }
        let parameters_raw = inner.get("parameters").filter(|_| kind == ToolKind::Function).map(|value| value.to_string().into());
        let description = inner.get("description").and_then(Value::as_str).map(Into::into);
        Ok(Self { name: name.into(), kind, parameters_raw, description, raw: raw.trim().into() })
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles the schema to check it.
    ///
    /// # Errors
    /// Reason why the schema doesn't compile.
    pub fn compile(&self, formats: FormatChecks) -> Result<Schema, SchemaError> {
        Schema::compile(self.parameters_raw.as_deref().unwrap_or("null"), formats)
    }

    fn as_request(&self) -> RequestTool<'_> {
        RequestTool {
            name: &self.name,
            kind: self.kind,
            parameters_raw: self.parameters_raw.as_deref(),
            description: self.description.as_deref(),
            raw: &self.raw,
        }
    }
}

/// A tool of the registry.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Name of the tool.
    pub name: Box<str>,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Compiled schema, or the reason why there is none.
    pub schema: Arc<Result<Schema, SchemaError>>,
    /// Element of the `tools` array: the request's own form, or for the policy's tools that of chat completions.
    pub raw: Box<str>,
    /// Origin of the tool.
    pub origin: ToolOrigin,
    /// True if the tool is offered to the model. A call of any other tool is `undeclared_tool`.
    pub declared: bool,
}

impl Tool {
    /// A tool that the model is offered.
    fn of(tool: &RequestTool<'_>, schema: Compiled, origin: ToolOrigin) -> Self {
        Self { name: tool.name.into(), kind: tool.kind, schema, raw: tool.raw.into(), origin, declared: true }
    }
}

/// One element of the `tools` array sent upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToolsPlanItem {
    /// The request's tool at this index, byte for byte.
    Keep(usize),
    /// The `raw` of the registry's tool at this index, inserted.
    Put(usize),
}

#[derive(Debug, Default)]
struct Inner {
    tools: Vec<Tool>,
    places: HashMap<Box<str>, usize, RandomState>,
    plan: Vec<ToolsPlanItem>,
    unchanged: bool,
    /// Bytes of the compiled patterns of the request's schemas.
    pattern_bytes: u64,
    /// The tools' names as execution IDs spell them.
    spelled: OnceLock<HashSet<String>>,
}

/// The tools of an exchange, in order. Cheap to clone; keep one per distinct array of tools.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Inner>);

impl Registry {
    /// Merges the policy's and the request's tools as the policy says, and reports violations.
    pub fn build(
        policy_tools: &[ToolSource],
        request_tools: &[RequestTool<'_>],
        tools: &Tools,
        formats: FormatChecks,
        checks: &Checks,
        cache: &SchemaCache,
    ) -> (Self, Vec<Violation>) {
        let mut build =
            RegistryBuilder { inner: Inner::default(), violations: Vec::new(), checks, formats, cache, bytes: 0, pattern_bytes: 0 };
        build.policy_twice(policy_tools);
        let by_name: HashMap<&str, &ToolSource> = policy_tools.iter().rev().map(|source| (source.name(), source)).collect();
        for (place, tool) in request_tools.iter().enumerate() {
            build.take(place, tool, by_name.get(tool.name).copied(), tools);
        }
        if tools.inject != Inject::Off {
            for source in policy_tools {
                if !build.inner.places.contains_key(source.name()) {
                    let place = build.add(&source.as_request(), ToolOrigin::Policy);
                    build.inner.plan.push(ToolsPlanItem::Put(place));
                }
            }
        }
        build.expected(&tools.expect);
        let kept = build.inner.plan.iter().enumerate().all(|(at, step)| *step == ToolsPlanItem::Keep(at));
        build.inner.unchanged = kept && build.inner.plan.len() == request_tools.len();
        build.inner.pattern_bytes = build.pattern_bytes;
        (Self(Arc::new(build.inner)), build.violations)
    }

    /// The tool of this name, declared or not.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.0.places.get(name).and_then(|place| self.0.tools.get(*place))
    }

    /// The tool of this name or nearly this one: in another case.
    pub fn in_any_case(&self, name: &str) -> Option<&str> {
        self.named_by(name, |tool| name.eq_ignore_ascii_case(tool))
    }

    /// The tool of this name or nearly this one: in another case, with other separators or a small typo.
    pub fn nearly(&self, name: &str) -> Option<&str> {
        self.named_by(name, |tool| suggest::nearly_same(name, tool))
    }

    fn named_by(&self, name: &str, same: impl Fn(&str) -> bool) -> Option<&str> {
        let nearly = || self.0.tools.iter().map(|tool| &*tool.name).find(|tool| same(tool));
        self.tool(name).map(|tool| &*tool.name).or_else(nearly)
    }

    /// True if `name` is the name of one of the tools as execution IDs spell it.
    pub fn is_execution_tool(&self, name: &str) -> bool {
        let spelled = || self.0.tools.iter().map(|tool| marks::spelled(&tool.name).collect()).collect();
        self.0.spelled.get_or_init(spelled).contains(name)
    }

    /// All tools, in the order in which the model sees them; hidden ones aren't `declared`.
    pub fn tools(&self) -> &[Tool] {
        &self.0.tools
    }

    /// Names of the tools that the model may call, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.tools.iter().filter(|tool| tool.declared).map(|tool| &*tool.name)
    }

    /// The declared names closest to `name`, best first.
    pub fn closest(&self, name: &str, count: usize) -> Vec<&str> {
        suggest::closest(name, self.names(), count)
    }

    /// True if no tool is declared.
    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// Bytes of the compiled patterns of the request's schemas.
    pub fn pattern_bytes(&self) -> u64 {
        self.0.pattern_bytes
    }

    /// The `tools` array sent upstream, element by element.
    pub fn plan(&self) -> &[ToolsPlanItem] {
        &self.0.plan
    }

    /// True if the request's `tools` are sent upstream unchanged.
    pub fn unchanged(&self) -> bool {
        self.0.unchanged
    }
}

struct RegistryBuilder<'b> {
    inner: Inner,
    violations: Vec<Violation>,
    checks: &'b Checks,
    formats: FormatChecks,
    cache: &'b SchemaCache,
    /// Bytes of the request's schemas so far.
    bytes: usize,
    /// Bytes of their compiled patterns.
    pattern_bytes: u64,
}

impl RegistryBuilder<'_> {
    fn take(&mut self, place: usize, tool: &RequestTool<'_>, policy: Option<&ToolSource>, tools: &Tools) {
        if let Some(source) = policy {
            self.drift(tool, source);
        }
        if let Some(first) = self.inner.places.get(tool.name).and_then(|place| self.inner.tools.get(*place)) {
            // A second tool of the name: two alike are one, and of two that differ only the first is offered.
            if policy.is_some() && tools.inject != Inject::Off {
                return;
            }
            if first.declared && *first.raw == *tool.raw {
                self.inner.plan.push(ToolsPlanItem::Keep(place));
                return;
            }
            let message = format!("two tools are named `{}`; the later one is left out", tool.name);
            self.report(Code::InvalidToolSchema, tool.name, message, "give every tool a name of its own");
            return;
        }
        match (tools.inject, policy) {
            (Inject::Merge | Inject::Replace, Some(source)) => {
                let put = self.add(&source.as_request(), ToolOrigin::Policy);
                self.inner.plan.push(ToolsPlanItem::Put(put));
            }
            (Inject::Off, Some(_)) => self.keep(place, tool),
            (Inject::Merge | Inject::Off, None) if tools.undeclared == Undeclared::Allow => self.keep(place, tool),
            (Inject::Merge | Inject::Off | Inject::Replace, None) => {
                self.add_undeclared(tool);
            }
        }
    }

    fn keep(&mut self, place: usize, tool: &RequestTool<'_>) {
        self.add(tool, ToolOrigin::Request);
        self.inner.plan.push(ToolsPlanItem::Keep(place));
    }

    /// Adds a tool of the request that the model isn't offered.
    fn add_undeclared(&mut self, tool: &RequestTool<'_>) {
        let schema = self.compile(tool.parameters_raw.unwrap_or("null"), ToolOrigin::Request);
        self.push(tool, Tool { declared: false, ..Tool::of(tool, schema, ToolOrigin::Request) });
    }

    /// Adds a tool that the model is offered; returns its place.
    fn add(&mut self, tool: &RequestTool<'_>, origin: ToolOrigin) -> usize {
        let schema = self.compile(tool.parameters_raw.unwrap_or("null"), origin);
        if tool.kind == ToolKind::Function
            && let Err(fault) = schema.as_ref()
        {
            let message = format!("the parameters of tool `{}` can't be used to check its calls: {fault}", tool.name);
            self.report(Code::InvalidToolSchema, tool.name, message, "mend the tool's JSON Schema");
        }
        self.push(tool, Tool::of(tool, schema, origin))
    }

    fn push(&mut self, tool: &RequestTool<'_>, own: Tool) -> usize {
        let place = self.inner.tools.len();
        self.inner.places.insert(tool.name.into(), place);
        self.inner.tools.push(own);
        place
    }

    /// Compiles a schema; one of the request's only within the request's budget.
    fn compile(&mut self, raw: &str, origin: ToolOrigin) -> Compiled {
        if origin == ToolOrigin::Policy {
            return self.cache.compile(raw, self.formats);
        }
        self.bytes = self.bytes.saturating_add(raw.len());
        if self.bytes > REQUEST_BYTES_MAX || self.pattern_bytes > REQUEST_PATTERN_BYTES_MAX {
            return Arc::new(Err(SchemaError::Request));
        }
        let schema = self.cache.compile(raw, self.formats);
        self.pattern_bytes = self.pattern_bytes.saturating_add(schema.as_ref().as_ref().map_or(0, Schema::pattern_bytes));
        schema
    }

    fn drift(&mut self, tool: &RequestTool<'_>, source: &ToolSource) {
        let own = source.as_request();
        let value = |raw: Option<&str>| serde_json::from_str(raw.unwrap_or("null")).unwrap_or(Value::Null);
        let what = if tool.kind != own.kind {
            "kind"
        } else if !same(&value(tool.parameters_raw), &value(own.parameters_raw)) {
            "parameters"
        } else if tool.description.unwrap_or_default() != own.description.unwrap_or_default() {
            "description"
        } else {
            return;
        };
        let message = format!("the {what} of tool `{}` in the request differ from the policy's", tool.name);
        self.report(Code::SchemaDrift, tool.name, message, "bring the application's tool up to date with the policy's");
    }

    fn policy_twice(&mut self, policy_tools: &[ToolSource]) {
        let mut seen = HashMap::new();
        for source in policy_tools {
            if seen.insert(source.name(), source).is_some_and(|first| first != source) {
                let message = format!("the policy's files have two tools named `{}`; the first counts", source.name());
                self.report(Code::InvalidToolSchema, source.name(), message, "give every tool a name of its own");
            }
        }
    }

    fn expected(&mut self, names: &[String]) {
        for name in names {
            let there = self.inner.places.get(name.as_str()).and_then(|place| self.inner.tools.get(*place));
            if !there.is_some_and(|tool| tool.declared) {
                let message = format!("tool `{name}` is expected in every request, and is missing");
                self.report(Code::MissingTool, name, message, "send the tool with the request, or add it to the policy's files");
            }
        }
    }

    fn report(&mut self, code: Code, tool: &str, message: String, advice: &str) {
        self.violations.extend(self.checks.violation(code, Some(tool), message, advice));
    }
}

/// True if equal as JSON values, independent of the order of members and the spelling of numbers.
// INVARIANT: both came through a parser that bounds nesting.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| same(value, other)))
        }
        (a, b) => a == b,
    }
}

type Key = ([u8; 32], FormatChecks);
type Compiled = Arc<Result<Schema, SchemaError>>;

#[derive(Clone, Copy, Debug)]
struct SchemaWeighter;

impl quick_cache::Weighter<Key, (Compiled, u64)> for SchemaWeighter {
    fn weight(&self, _: &Key, (_, bytes): &(Compiled, u64)) -> u64 {
        *bytes
    }
}

/// Compiled schemas, shared by all exchanges and threads; bounded.
#[derive(Debug)]
pub struct SchemaCache(quick_cache::sync::Cache<Key, (Compiled, u64), SchemaWeighter>);

impl Default for SchemaCache {
    fn default() -> Self {
        Self(quick_cache::sync::Cache::with_weighter(4096, CACHE_BYTES_MAX, SchemaWeighter))
    }
}

impl SchemaCache {
    /// Compiles this schema, or returns it from the cache. Faults are cached too.
    pub fn compile(&self, raw: &str, formats: FormatChecks) -> Arc<Result<Schema, SchemaError>> {
        let key = (*blake3::hash(raw.as_bytes()).as_bytes(), formats);
        let compile = || {
            let schema = Schema::compile(raw, formats);
            // A fault is its words alone.
            let bytes = schema.as_ref().map_or(0, |own| (raw.len() as u64).saturating_mul(COMPILED_FACTOR) + own.pattern_bytes());
            Ok::<_, std::convert::Infallible>((Arc::new(schema), bytes + COMPILED_BYTES_MIN))
        };
        match self.0.get_or_insert_with(&key, compile) {
            Ok((compiled, _)) => compiled,
            Err(never) => match never {},
        }
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
