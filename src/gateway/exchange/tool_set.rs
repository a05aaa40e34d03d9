//! Tools of a request: parses each array of tools once, and caches the result.
//!
//! Applications send the same tools with every request, so the set is built once and shared. Pure except for the cache.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use quick_cache::{Weighter, sync::Cache};

use crate::{
    claims::evidence::tool_capabilities::ToolCapability,
    exchange::error::Refusal,
    mcp::catalog::{Catalog, OfferedTool},
    policy::{Inject, Policy, PolicyMode},
    settings::Execute,
    tools::{
        answers,
        registry::{Registry, RequestTool, SchemaCache, Tool, ToolKind, ToolOrigin, ToolSource, ToolsPlanItem},
    },
    violation::{Checks, Violation},
    wire::json::{Document, Value, string::quote},
};

/// Parameters of a tool whose parameters only the upstream knows.
const ANYTHING: &str = r#"{"type":"object","additionalProperties":true}"#;
/// Beginnings of the types of tools that Anthropic runs. Source: its API reference, "Tool reference".
const RUN_UPSTREAM: [&str; 5] = ["web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_"];
/// Limit for cached sets; an application has a handful.
const SETS_MAX: usize = 4096;
/// Limit for the arrays whose sets are cached, in bytes.
const SETS_BYTES_MAX: u64 = 32 << 20;

/// Change to the request's `tools`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ToolsEdit {
    /// They are sent unchanged.
    Keep,
    /// They are replaced by this array.
    Replace(String),
    /// The `tools` member is removed: no tool is left.
    Remove,
}

/// Format of an API's tools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dialect {
    /// Chat completions: the function in an inner object.
    Nested,
    /// Chat's legacy `functions`.
    Legacy,
    /// The Responses API: flat, possibly in namespaces.
    Flat,
    /// Anthropic's: flat, with `input_schema`.
    InputSchema,
}

impl Dialect {
    fn param(self) -> &'static str {
        if self == Self::Legacy { "functions" } else { "tools" }
    }

    /// Prefix of the cache key: sets of different formats are kept apart.
    fn prefix(self) -> &'static [u8] {
        match self {
            Self::Nested => b"",
            Self::Legacy => b"functions:",
            Self::Flat => b"responses:",
            Self::InputSchema => b"messages:",
        }
    }
}

/// Tools of a request, unparsed.
#[derive(Clone, Copy, Debug)]
pub struct Brought<'r> {
    /// Format of the tools.
    pub dialect: Dialect,
    /// The request's array of tools.
    pub array: Option<Value<'r>>,
    /// Additional arrays from input items, JSON; they stay where they are.
    pub further: &'r [Arc<str>],
}

/// The tools of an exchange.
#[derive(Clone, Debug)]
pub struct ToolSet {
    /// Registry of callable tools.
    pub registry: Registry,
    /// Violations in the definitions.
    pub violations: Vec<Violation>,
    /// Change to the request's `tools`.
    pub edit: ToolsEdit,
    /// Names in the request that are not sent to the upstream.
    pub removed: Vec<String>,
    /// True if there is at least one tool.
    pub any: bool,
    /// Format of the tools.
    pub dialect: Dialect,
    /// Types of tools that the upstream runs or defines itself, such as `web_search`.
    pub hosted: Vec<String>,
    /// Names of the tools offered by MCP servers.
    pub offered: Vec<Box<str>>,
    /// The tools that toolmark runs, by name.
    runs: HashMap<Box<str>, OfferedTool>,
    /// The parameters that hold an answer, by the names of the tools that have some.
    answers: HashMap<Box<str>, Box<[Box<str>]>>,
    abilities: OnceLock<Arc<[ToolCapability]>>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Bytes, Arc<ToolSet>> for ByBytes {
    fn weight(&self, key: &Bytes, set: &Arc<ToolSet>) -> u64 {
        key.len() as u64 * 3 + 512 + set.registry.pattern_bytes()
    }
}

/// Recently used arrays: [`Document::parse_noting`] skips their contents.
pub type Recent = Vec<(Bytes, Arc<ToolSet>)>;

/// Number of recently used arrays that are kept.
const RECENT_MAX: usize = 8;
/// Limit for the compiled patterns of a recently used array, in bytes.
const RECENT_PATTERN_BYTES_MAX: u64 = 1 << 20;
/// Up to this size in bytes, compiling the schemas takes negligible time.
const AT_ONCE_BYTES_MAX: usize = 8 << 10;

/// Cache of tool sets for one policy.
pub struct ToolSets {
    sources: Vec<ToolSource>,
    /// Number of the policy's own sources, which precede those of MCP servers.
    own: usize,
    offered: Arc<(u64, Catalog)>,
    cache: Cache<Bytes, Arc<ToolSet>, ByBytes>,
    recent: ArcSwap<Recent>,
}

impl ToolSets {
    /// A cache for a policy with these tools, and the tools of MCP servers.
    pub fn new(mut sources: Vec<ToolSource>, offered: Arc<(u64, Catalog)>) -> Self {
        let own = sources.len();
        sources.extend(offered.1.sources());
        Self { sources, own, offered, cache: Cache::with_weighter(SETS_MAX, SETS_BYTES_MAX, ByBytes), recent: ArcSwap::default() }
    }

    /// The policy's tools.
    pub fn sources(&self) -> &[ToolSource] {
        self.sources.get(..self.own).unwrap_or_default()
    }

    /// Recently used arrays.
    pub fn recent(&self) -> arc_swap::Guard<Arc<Recent>> {
        self.recent.load()
    }

    /// True if these tools are new and so large that compiling their schemas may take long.
    pub fn takes_long(&self, brought: &Brought<'_>) -> bool {
        let raw = brought.array.map_or(&b""[..], Value::raw);
        let bytes = raw.len() + brought.further.iter().map(|array| array.len()).sum::<usize>();
        bytes > AT_ONCE_BYTES_MAX && !self.recent.load().iter().any(|(known, _)| known == raw)
    }

    fn remember(&self, array: &Bytes, set: &Arc<ToolSet>) {
        if set.registry.pattern_bytes() > RECENT_PATTERN_BYTES_MAX {
            return;
        }
        // Two at a time may lose one of the two, which costs a look-up and nothing else.
        let mut recent = Recent::clone(&self.recent.load());
        recent.retain(|(known, _)| known != array);
        recent.insert(0, (array.clone(), set.clone()));
        recent.truncate(RECENT_MAX);
        self.recent.store(Arc::new(recent));
    }

    /// The tool set of a request, from the cache or newly built.
    ///
    /// # Errors
    /// [`Refusal`] if the tools can't be read.
    pub fn get(&self, brought: Brought<'_>, policy: &Policy, checks: &Checks, schemas: &SchemaCache) -> Result<Arc<ToolSet>, Refusal> {
        let raw = brought.array.map_or(&b""[..], Value::raw);
        let plain = brought.further.is_empty();
        let at_hand = |(known, set): &&(Bytes, Arc<ToolSet>)| plain && known == raw && set.dialect == brought.dialect;
        if let Some((_, set)) = self.recent.load().iter().find(at_hand) {
            return Ok(set.clone());
        }
        let mut lookup = Vec::new();
        let key = if plain && brought.dialect == Dialect::Nested {
            raw
        } else {
            lookup.extend_from_slice(brought.dialect.prefix());
            lookup.extend_from_slice(raw);
            // No JSON has a line break of its own between two values here.
            brought.further.iter().for_each(|array| lookup.extend([b"\n", array.as_bytes()].concat()));
            &lookup[..]
        };
        let found = self.cache.get(key);
        let set = match found {
            Some(set) => set,
            None => {
                let set = Arc::new(self.build(brought, policy, checks, schemas)?);
                self.cache.insert(Bytes::copy_from_slice(key), set.clone());
                set
            }
        };
        if plain && raw.first() == Some(&b'[') {
            self.remember(&Bytes::copy_from_slice(raw), &set);
        }
        Ok(set)
    }

    fn build(&self, brought: Brought<'_>, policy: &Policy, checks: &Checks, schemas: &SchemaCache) -> Result<ToolSet, Refusal> {
        let dialect = brought.dialect;
        // Parsed anew, as the request may have passed over them.
        let parse = |raw: &[u8]| Document::parse(Bytes::copy_from_slice(raw)).ok();
        let own = brought.array.and_then(|array| parse(array.raw()));
        let elements =
            own.iter().flat_map(|array| array.root().items()).map(|tool| Element::read(tool, dialect)).collect::<Result<Vec<_>, _>>()?;
        let further: Vec<Document> = brought.further.iter().filter_map(|array| parse(array.as_bytes())).collect();
        let further = further.iter().flat_map(|array| array.root().items()).map(|tool| Element::read(tool, dialect));
        let further = further.collect::<Result<Vec<_>, _>>()?;
        let request: Vec<RequestTool<'_>> = elements.iter().flat_map(|element| &element.tools).map(OwnTool::as_request).collect();
        let own_names: HashSet<&str> = request.iter().map(|tool| tool.name).collect();
        let mut seen = own_names.clone();
        // What is said again, as an upstream or client does that loads tools later, is no second tool.
        let later = further.iter().flat_map(|element| &element.tools).filter(|tool| seen.insert(&tool.name)).map(OwnTool::as_request);
        let all: Vec<RequestTool<'_>> = request.iter().copied().chain(later).collect();
        // Legacy calls have no ids: what toolmark runs isn't offered there.
        let offered = |source: &ToolSource| {
            dialect != Dialect::Legacy || self.offered.1.tool(source.name()).is_none_or(|own| own.execute == Execute::App)
        };
        let sources: Vec<ToolSource> = self.sources.iter().filter(|source| offered(source)).cloned().collect();
        let (registry, mut violations) = Registry::build(&sources, &all, &policy.tools, policy.calls.format_checks(), checks, schemas);
        if policy.tools.inject != Inject::Off {
            violations.extend(self.offered.1.violations().iter().cloned());
        }
        let put = |tool: &&Tool| tool.origin == ToolOrigin::Policy && tool.declared && policy.mode == PolicyMode::Enforce;
        let of_servers: Vec<&OfferedTool> =
            registry.tools().iter().filter(put).filter_map(|tool| self.offered.1.tool(&tool.name)).collect();
        let offered = of_servers.iter().map(|own| own.name.clone()).collect();
        let runs = of_servers.into_iter().filter(|own| own.execute == Execute::Proxy).map(|own| (own.name.clone(), own.clone())).collect();
        let any = !registry.is_empty();
        let edit = if registry.unchanged() || policy.mode == PolicyMode::Observe || (!any && brought.array.is_none()) {
            ToolsEdit::Keep
        } else {
            match edited(&elements, &request, &registry, dialect) {
                tools if tools.is_empty() && brought.array.is_some() => ToolsEdit::Remove,
                tools => ToolsEdit::Replace(format!("[{}]", tools.join(","))),
            }
        };
        let removed = registry.tools().iter().filter(|tool| !tool.declared).map(|tool| tool.name.to_string()).collect();
        let hosted = elements.iter().chain(&further).filter_map(|element| element.hosted.clone()).collect();
        let answers = answers_of(&registry, policy);
        Ok(ToolSet { registry, violations, edit, removed, any, dialect, hosted, offered, runs, answers, abilities: OnceLock::new() })
    }
}

impl ToolSet {
    /// The tools of a stored prompt, from the array that the upstream's response says it was made with, in the Responses API's format.
    ///
    /// # Errors
    /// [`Refusal`] if the tools can't be read.
    pub fn of_stored_prompt(array: Value<'_>, policy: &Policy, checks: &Checks, schemas: &SchemaCache) -> Result<Self, Refusal> {
        let dialect = Dialect::Flat;
        let elements = array.items().map(|tool| Element::read(tool, dialect)).collect::<Result<Vec<_>, _>>()?;
        let tools: Vec<RequestTool<'_>> = elements.iter().flat_map(|element| &element.tools).map(OwnTool::as_request).collect();
        let (registry, violations) = Registry::build(&[], &tools, &policy.tools, policy.calls.format_checks(), checks, schemas);
        Ok(Self {
            any: !registry.is_empty(),
            answers: answers_of(&registry, policy),
            hosted: elements.iter().filter_map(|element| element.hosted.clone()).collect(),
            registry,
            violations,
            edit: ToolsEdit::Keep,
            removed: Vec::new(),
            dialect,
            offered: Vec::new(),
            runs: HashMap::new(),
            abilities: OnceLock::new(),
        })
    }

    /// Capabilities of the tools, derived from their names and descriptions.
    pub fn abilities(&self) -> Arc<[ToolCapability]> {
        let of = |tool: &Tool| {
            let document = Document::parse(Bytes::copy_from_slice(tool.raw.as_bytes())).ok();
            let root = document.as_ref().map(Document::root);
            let body = root.and_then(|root| root.get("function").or_else(|| root.get("custom")).or(Some(root)));
            let description = body.and_then(|body| body.get("description")).and_then(Value::text).unwrap_or_default();
            ToolCapability::new(&tool.name, &description)
        };
        self.abilities.get_or_init(|| self.registry.tools().iter().map(of).collect()).clone()
    }

    /// The parameters of this tool that hold an answer; none if it isn't an answer tool.
    pub fn answer_parameters(&self, tool: &str) -> &[Box<str>] {
        if self.answers.is_empty() { &[] } else { self.answers.get(tool).map(|names| &**names).unwrap_or_default() }
    }

    /// True if toolmark runs any of them.
    pub fn runs_any(&self) -> bool {
        !self.runs.is_empty()
    }

    /// The tool of this name, if toolmark runs it.
    pub fn runs(&self, name: &str) -> Option<&OfferedTool> {
        if self.runs.is_empty() { None } else { self.runs.get(name) }
    }
}

/// Elements of the changed array. Tools that only the upstream calls stay at its front.
fn edited(elements: &[Element<'_>], request: &[RequestTool<'_>], registry: &Registry, dialect: Dialect) -> Vec<String> {
    let kept: HashSet<usize> =
        registry.plan().iter().filter_map(|step| if let ToolsPlanItem::Keep(at) = step { Some(*at) } else { None }).collect();
    let (mut place, mut out, mut inside) = (0, Vec::new(), HashSet::new());
    for element in elements {
        let from = place;
        place += element.tools.len();
        match element.namespace {
            Some(tools) => {
                inside.extend(from..place);
                let left: Vec<&str> = (from..place).filter(|at| kept.contains(at)).map(|at| request[at].raw).collect();
                out.extend((!left.is_empty()).then(|| element.raw.replacen(tools, &format!("[{}]", left.join(",")), 1)));
            }
            None if element.hosted.is_some() => out.push(element.raw.to_owned()),
            None => {}
        }
    }
    out.extend(registry.plan().iter().filter_map(|step| match step {
        ToolsPlanItem::Keep(at) => request.get(*at).filter(|_| !inside.contains(at)).map(|tool| tool.raw.to_owned()),
        ToolsPlanItem::Put(at) => registry.tools().get(*at).map(|tool| put(&tool.raw, dialect)),
    }));
    out
}

/// A tool from the policy's files, which have chat's format, written in `dialect`.
fn put(raw: &str, dialect: Dialect) -> String {
    let document = Document::parse(Bytes::copy_from_slice(raw.as_bytes()));
    let Some(root) = document.as_ref().ok().map(Document::root).filter(|_| dialect != Dialect::Nested) else { return raw.to_owned() };
    let Some((kind, body)) = ["function", "custom"].into_iter().find_map(|kind| Some((kind, root.get(kind)?))) else {
        return raw.to_owned();
    };
    if dialect == Dialect::Legacy {
        return body.raw_str().to_owned();
    }
    if dialect == Dialect::InputSchema {
        let member = |name: &str| body.get(name).map(|value| value.raw_str().to_owned());
        let named = |(own, name): (&str, &str)| member(own).map(|raw| format!("{}:{raw}", quote(name)));
        let mut members: Vec<String> = [("name", "name"), ("description", "description")].into_iter().filter_map(named).collect();
        members.push(format!("\"input_schema\":{}", member("parameters").unwrap_or_else(|| r#"{"type":"object"}"#.to_owned())));
        members.extend(named(("strict", "strict")));
        return format!("{{{}}}", members.join(","));
    }
    // Left out, `strict` would be tried here, other than on chat.
    let strict = if kind == "function" && body.get("strict").is_none() { ",\"strict\":false" } else { "" };
    let members: Vec<String> = body.members().map(|member| format!("{}:{}", member.key.raw_str(), member.value.raw_str())).collect();
    format!(r#"{{"type":"{kind}",{}{strict}}}"#, members.join(","))
}

/// The parameters that hold an answer, by the names of the tools that have some.
fn answers_of(registry: &Registry, policy: &Policy) -> HashMap<Box<str>, Box<[Box<str>]>> {
    let held = registry.tools().iter().filter_map(|tool| {
        let names = answers::parameters(tool, &policy.tools.answers);
        (!names.is_empty()).then(|| (tool.name.clone(), names.into_iter().map(Box::from).collect()))
    });
    held.collect()
}

/// An element of an array of tools.
struct Element<'r> {
    raw: &'r str,
    tools: Vec<OwnTool<'r>>,
    /// The `tools` of a namespace, raw.
    namespace: Option<&'r str>,
    /// The type of a tool that toolmark doesn't judge.
    hosted: Option<String>,
}

struct OwnTool<'r> {
    name: String,
    kind: ToolKind,
    parameters: Option<&'r str>,
    description: Option<String>,
    raw: &'r str,
}

impl<'r> Element<'r> {
    fn read(tool: Value<'r>, dialect: Dialect) -> Result<Self, Refusal> {
        let refuse = |code, message: String| Refusal::new(code, Some(dialect.param()), message);
        if !tool.is_object() {
            return Err(refuse("invalid_request", "every tool must be an object".into()));
        }
        let kind = tool.get("type").and_then(Value::text);
        let raw = tool.raw_str();
        if dialect == Dialect::Flat && kind.as_deref() == Some("namespace") {
            let name = tool.get("name").and_then(Value::text).unwrap_or_default();
            let inner = tool.get("tools").filter(|tools| tools.is_array());
            let Some(inner) = inner.filter(|_| !name.is_empty() && tool.duplicate_name().is_none()) else {
                return Err(refuse("invalid_request", "a namespace needs a `name` and `tools`, each once".into()));
            };
            let tools = inner.items().map(|tool| OwnTool::read(tool, dialect)).collect::<Result<Vec<_>, _>>()?;
            let named = |tool: OwnTool<'r>| OwnTool { name: format!("{name}.{}", tool.name), ..tool };
            let tools = tools.into_iter().flatten().map(named).collect();
            return Ok(Self { raw, tools, namespace: Some(inner.raw_str()), hosted: None });
        }
        let own = OwnTool::read(tool, dialect)?;
        let hosted = own.is_none().then(|| kind.or_else(|| named_alone(tool)).unwrap_or_default().into_owned());
        Ok(Self { raw, tools: own.into_iter().collect(), namespace: None, hosted })
    }
}

/// The name of a tool that the upstream runs, as Gemini's API names it: by the only member, an object (`{"googleSearch": {}}`).
fn named_alone(tool: Value<'_>) -> Option<Cow<'_, str>> {
    let mut members = tool.members();
    let (only, None) = (members.next()?, members.next()) else { return None };
    let name = only.name();
    (only.value.is_object() && !matches!(&*name, "function" | "custom")).then_some(name)
}

impl<'r> OwnTool<'r> {
    /// Reads a tool; `None` if toolmark doesn't judge it.
    fn read(tool: Value<'r>, dialect: Dialect) -> Result<Option<Self>, Refusal> {
        let refuse = |code, message: String| Refusal::new(code, Some(dialect.param()), message);
        let kind = tool.get("type").and_then(Value::text);
        if dialect == Dialect::InputSchema {
            return Self::read_with_input_schema(tool, kind.as_deref());
        }
        let flat = dialect != Dialect::Nested;
        let own_kind = !flat && !matches!(kind.as_deref(), None | Some("function" | "custom"));
        let (kind, body) = match kind.as_deref() {
            _ if dialect == Dialect::Legacy => (ToolKind::Function, Some(tool)),
            Some("custom") => (ToolKind::Custom, if flat { Some(tool) } else { tool.get("custom") }),
            Some("function") => (ToolKind::Function, if flat { Some(tool) } else { tool.get("function") }),
            None if !flat && named_alone(tool).is_some() => return Ok(None),
            None if !flat => (ToolKind::Function, tool.get("function")),
            // Of a kind of the upstream's own (Moonshot's `builtin_function`), and called like any other.
            Some(_) if !flat && tool.get("function").is_some_and(|body| body.get("name").is_some()) => {
                (ToolKind::Function, tool.get("function"))
            }
            Some(_) | None => return Ok(None),
        };
        for object in [Some(tool), body].into_iter().flatten() {
            if let Some(name) = object.duplicate_name() {
                return Err(refuse("invalid_json", format!("a tool has two members named `{name}`")));
            }
        }
        let name = body.and_then(|body| body.get("name")).and_then(Value::text).unwrap_or_default();
        if name.is_empty() {
            let needed = if flat { "`type` and a `name`" } else { "`type` and a `function` with a `name`" };
            return Err(refuse("invalid_request", format!("every tool needs {needed}")));
        }
        Ok(Some(Self {
            name: name.into_owned(),
            kind,
            parameters: body.and_then(|body| body.get("parameters")).map(Value::raw_str).or(own_kind.then_some(ANYTHING)),
            description: body.and_then(|body| body.get("description")).and_then(Value::text).map(Into::into),
            raw: tool.raw_str(),
        }))
    }

    /// Reads a tool of Anthropic's API; `None` for those that the upstream runs, and for sets of tools that it defines.
    fn read_with_input_schema(tool: Value<'r>, kind: Option<&str>) -> Result<Option<Self>, Refusal> {
        if let Some(name) = tool.duplicate_name() {
            return Err(Refusal::new("invalid_json", Some("tools"), format!("a tool has two members named `{name}`")));
        }
        let own = matches!(kind, None | Some("custom"));
        if kind.is_some_and(|kind| RUN_UPSTREAM.iter().any(|run| kind.starts_with(run)) || kind.contains("toolset")) {
            return Ok(None);
        }
        let name = tool.get("name").and_then(Value::text).unwrap_or_default();
        if name.is_empty() {
            return Err(Refusal::new("invalid_request", Some("tools"), "every tool needs a `name`"));
        }
        Ok(Some(Self {
            name: name.into_owned(),
            kind: ToolKind::Function,
            // The upstream alone knows the parameters of the tools that it defines.
            parameters: tool.get("input_schema").map(Value::raw_str).or((!own).then_some(ANYTHING)),
            description: tool.get("description").and_then(Value::text).map(Into::into),
            raw: tool.raw_str(),
        }))
    }

    fn as_request(&self) -> RequestTool<'_> {
        let description = self.description.as_deref();
        RequestTool { name: &self.name, kind: self.kind, parameters_raw: self.parameters, description, raw: self.raw }
    }
}
