//! The tools of a chat request: from its bytes to the registry, once for each array that comes along.
//!
//! An application sends the same tools with every request; the set is built for the first and shared
//! with the rest. Pure but for the cache.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use quick_cache::{Weighter, sync::Cache};

use super::request::Refusal;
use crate::{
    judge::{
        registry::{Registry, RequestTool, SchemaCache, Step, ToolKind, ToolSource},
        violation::{Checks, Violation},
    },
    policy::{Mode, Policy},
    wire::json::{Document, Value},
};

/// Sets kept; an application has a handful.
const SETS_MAX: usize = 4096;
/// Bytes of the arrays whose sets are kept.
const SETS_BYTES_MAX: u64 = 32 << 20;

/// What becomes of the request's `tools`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ToolsEdit {
    /// They go upstream as they came.
    Keep,
    /// This array goes instead.
    Replace(String),
    /// None are left.
    Remove,
}

/// The tools of an exchange.
#[derive(Clone, Debug)]
pub struct ToolSet {
    /// What may be called.
    pub registry: Registry,
    /// What is wrong with them.
    pub violations: Vec<Violation>,
    /// What goes upstream.
    pub edit: ToolsEdit,
    /// Names that the request brought and that don't go upstream.
    pub removed: Vec<String>,
    /// There is at least one.
    pub any: bool,
    /// They came as `functions`.
    pub legacy: bool,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Bytes, Arc<ToolSet>> for ByBytes {
    fn weight(&self, key: &Bytes, _: &Arc<ToolSet>) -> u64 {
        key.len() as u64 * 3 + 512
    }
}

/// Arrays that were met last: [`Document::parse_noting`] passes over them.
pub type Recent = Vec<(Bytes, Arc<ToolSet>)>;

/// How many arrays are kept at hand.
const RECENT_MAX: usize = 8;

/// The sets of one policy.
pub struct ToolSets {
    sources: Vec<ToolSource>,
    cache: Cache<Bytes, Arc<ToolSet>, ByBytes>,
    recent: ArcSwap<Recent>,
}

impl ToolSets {
    /// For a policy with these tools.
    pub fn new(sources: Vec<ToolSource>) -> Self {
        Self { sources, cache: Cache::with_weighter(SETS_MAX, SETS_BYTES_MAX, ByBytes), recent: ArcSwap::default() }
    }

    /// The policy's tools.
    pub fn sources(&self) -> &[ToolSource] {
        &self.sources
    }

    /// The arrays that were met last.
    pub fn recent(&self) -> arc_swap::Guard<Arc<Recent>> {
        self.recent.load()
    }

    fn remember(&self, array: &Bytes, set: &Arc<ToolSet>) {
        // Two at a time may lose one of the two, which costs a look-up and nothing else.
        let mut recent = Recent::clone(&self.recent.load());
        recent.retain(|(known, _)| known != array);
        recent.insert(0, (array.clone(), set.clone()));
        recent.truncate(RECENT_MAX);
        self.recent.store(Arc::new(recent));
    }

    /// The set for a request with these `tools` or legacy `functions`.
    ///
    /// # Errors
    /// [`Refusal`] where they can't be read.
    pub fn get(
        &self,
        tools: Option<Value<'_>>,
        functions: Option<Value<'_>>,
        policy: &Policy,
        checks: &Checks,
        schemas: &SchemaCache,
    ) -> Result<Arc<ToolSet>, Refusal> {
        let legacy = tools.is_none() && functions.is_some();
        let raw = tools.or(functions).map_or(&b""[..], Value::raw);
        if let Some((_, set)) = self.recent.load().iter().find(|(known, set)| known == raw && set.legacy == legacy) {
            return Ok(set.clone());
        }
        let mut lookup = Vec::new();
        let key = if legacy {
            lookup.extend_from_slice(b"functions:");
            lookup.extend_from_slice(raw);
            &lookup[..]
        } else {
            raw
        };
        if let Some(set) = self.cache.get(key) {
            if raw.first() == Some(&b'[') {
                self.remember(&Bytes::copy_from_slice(raw), &set);
            }
            return Ok(set);
        }
        // Parsed anew, as the request may have passed over it.
        let array = Bytes::copy_from_slice(raw);
        let document = if array.is_empty() { None } else { Document::parse(array.clone()).ok() };
        let set = Arc::new(self.build(document.as_ref().map(Document::root), legacy, policy, checks, schemas)?);
        self.cache.insert(Bytes::copy_from_slice(key), set.clone());
        if array.first() == Some(&b'[') {
            self.remember(&array, &set);
        }
        Ok(set)
    }

    fn build(
        &self,
        array: Option<Value<'_>>,
        legacy: bool,
        policy: &Policy,
        checks: &Checks,
        schemas: &SchemaCache,
    ) -> Result<ToolSet, Refusal> {
        let own = array.into_iter().flat_map(Value::items).map(|tool| OwnTool::read(tool, legacy)).collect::<Result<Vec<_>, _>>()?;
        let known: Vec<&OwnTool<'_>> = own.iter().filter(|tool| tool.kind.is_some()).collect();
        let request: Vec<RequestTool<'_>> = known.iter().filter_map(|tool| tool.as_request()).collect();
        let (registry, violations) = Registry::build(&self.sources, &request, &policy.tools, policy.calls.formats, checks, schemas);
        let edit = if registry.unchanged() || policy.mode == Mode::Observe {
            ToolsEdit::Keep
        } else {
            // Hosted tools, which nobody but the upstream calls, stay in front.
            let hosted = own.iter().filter(|tool| tool.kind.is_none()).map(|tool| tool.raw.to_owned());
            let planned = registry.plan().iter().filter_map(|step| match step {
                Step::Keep(at) => request.get(*at).map(|tool| tool.raw.to_owned()),
                Step::Put(at) => registry.tools().get(*at).map(|tool| put(&tool.raw, legacy)),
            });
            let elements: Vec<String> = hosted.chain(planned).collect();
            if elements.is_empty() && array.is_some() { ToolsEdit::Remove } else { ToolsEdit::Replace(format!("[{}]", elements.join(","))) }
        };
        let removed = registry.tools().iter().filter(|tool| !tool.declared).map(|tool| tool.name.to_string()).collect();
        let any = !registry.is_empty();
        let edit = if !any && array.is_none() { ToolsEdit::Keep } else { edit };
        Ok(ToolSet { registry, violations, edit, removed, any, legacy })
    }
}

/// The chat form of a tool as `functions` takes it.
fn put(raw: &str, legacy: bool) -> String {
    if !legacy {
        return raw.to_owned();
    }
    let document = Document::parse(Bytes::copy_from_slice(raw.as_bytes()));
    let function = document.as_ref().ok().and_then(|document| document.root().get("function"));
    function.map_or_else(|| raw.to_owned(), |function| function.raw_str().to_owned())
}

struct OwnTool<'r> {
    name: String,
    kind: Option<ToolKind>,
    parameters: Option<&'r str>,
    description: Option<String>,
    raw: &'r str,
}

impl<'r> OwnTool<'r> {
    fn read(tool: Value<'r>, legacy: bool) -> Result<Self, Refusal> {
        let param = Some(if legacy { "functions" } else { "tools" });
        let refuse = |code, message: String| Refusal { code, message, param };
        if !tool.is_object() {
            return Err(refuse("invalid_request", "every tool must be an object".into()));
        }
        let kind = tool.get("type").and_then(Value::text);
        let (kind, body) = match (legacy, kind.as_deref()) {
            (true, _) => (Some(ToolKind::Function), Some(tool)),
            (false, Some("custom")) => (Some(ToolKind::Custom), tool.get("custom")),
            (false, Some("function") | None) => (Some(ToolKind::Function), tool.get("function")),
            (false, Some(_)) => (None, None),
        };
        for object in [Some(tool), body].into_iter().flatten() {
            if let Some(name) = object.duplicate_name() {
                return Err(refuse("invalid_json", format!("a tool has two members named `{name}`")));
            }
        }
        let name = body.and_then(|body| body.get("name")).and_then(Value::text).unwrap_or_default();
        if kind.is_some() && name.is_empty() {
            return Err(refuse("invalid_request", "every tool needs `type` and a `function` with a `name`".into()));
        }
        Ok(Self {
            name: name.into_owned(),
            kind,
            parameters: body.and_then(|body| body.get("parameters")).map(Value::raw_str),
            description: body.and_then(|body| body.get("description")).and_then(Value::text).map(Into::into),
            raw: tool.raw_str(),
        })
    }

    fn as_request(&self) -> Option<RequestTool<'_>> {
        let description = self.description.as_deref();
        Some(RequestTool { name: &self.name, kind: self.kind?, parameters_raw: self.parameters, description, raw: self.raw })
    }
}
