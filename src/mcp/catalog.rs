//! What all servers offer at a moment: their tools under names that models can call, and the way back.
//!
//! Pure. A name, once given, stays with its tool for as long as the process lives, so that servers that come and go
//! never make a name mean something else.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{pins::Drift, schema};
use crate::{
    judge::{
        registry::ToolSource,
        violation::{Severity, Violation},
    },
    settings::{Execute, McpServer},
};

/// Longest name of a tool. Source: OpenAI API reference, `function.name`.
const NAME_CHARS_MAX: usize = 64;
/// Hex digits that tell names apart.
const SUFFIX_CHARS: usize = 8;
/// Names that are kept.
const NAMES_MAX: usize = 1 << 16;

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTool {
    /// Its name there.
    pub name: Box<str>,
    /// What it says of itself.
    pub description: Option<Box<str>>,
    /// Its `inputSchema`.
    pub schema: Arc<Map<String, Value>>,
    /// It says that it only reads.
    pub read_only: bool,
    /// It says that calling it again changes nothing more.
    pub idempotent: bool,
}

/// A tool as it is offered to models.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The name that models call.
    pub name: Box<str>,
    /// Which of the servers has it.
    pub server: usize,
    /// Its name there.
    pub tool: Box<str>,
    /// Who runs it.
    pub execute: Execute,
    /// It only reads, by its own word or by the settings.
    pub read_only: bool,
    /// It may be called again, by its own word or by the settings.
    pub idempotent: bool,
    source: ToolSource,
}

/// How one server stands, as far as the catalog needs it.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It answers, and has these tools.
    Up(Arc<Vec<ServerTool>>),
    /// It doesn't: why.
    Down(Arc<str>),
}

/// What all servers offer.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    tools: Vec<Offered>,
    places: HashMap<Box<str>, usize>,
    violations: Vec<Violation>,
    missing: Option<String>,
    /// What people should know, a line each.
    pub notices: Vec<String>,
}

impl Catalog {
    /// Puts together what the servers offer, in the order of the settings. `drifts`: by server, what isn't as it was
    /// pinned.
    pub fn build(servers: &[McpServer], standings: &[Standing], drifts: &[Vec<(Box<str>, Drift)>], names: &mut Names) -> Self {
        let mut catalog = Self::default();
        for (at, (server, standing)) in servers.iter().zip(standings).enumerate() {
            match standing {
                Standing::Up(tools) => catalog.add(at, server, tools, drifts.get(at).map_or(&[], Vec::as_slice), names),
                Standing::Down(why) if server.required => {
                    let missing = || format!("the MCP server `{}`, which is required, can't be reached: {why}", server.name);
                    catalog.missing.get_or_insert_with(missing);
                }
                Standing::Down(_) => {}
            }
        }
        catalog
    }

    fn add(&mut self, at: usize, server: &McpServer, tools: &[ServerTool], drifts: &[(Box<str>, Drift)], names: &mut Names) {
        for name in &server.expect {
            if !tools.iter().any(|tool| *tool.name == **name && server.tools.is(name, true)) {
                let message = format!("the MCP server `{}` lacks the tool `{name}`, which is expected", server.name);
                self.notices.push(message.clone());
                if server.required {
                    self.missing.get_or_insert(message);
                }
            }
        }
        for tool in tools.iter().filter(|tool| server.tools.is(&tool.name, true)) {
            let drift = drifts.iter().find(|(name, _)| **name == *tool.name).map(|(_, drift)| *drift);
            if drift == Some(Drift::New) {
                let message = format!(
                    "the tool `{}` of the MCP server `{}` is new since it was pinned, and isn't offered: \
                     see `toolmark mcp diff`, then `toolmark mcp approve {}`",
                    tool.name, server.name, server.name
                );
                self.notices.push(message);
                continue;
            }
            let Some(name) = names.name(server, &tool.name) else { continue };
            match offered(&name, tool) {
                Ok(source) => {
                    self.violations.extend(drift.and_then(|drift| drifted(server, &name, drift)));
                    self.places.insert(name.clone(), self.tools.len());
                    self.tools.push(Offered {
                        name,
                        server: at,
                        tool: tool.name.clone(),
                        execute: server.execute,
                        read_only: tool.read_only || server.read_only.is(&tool.name, false),
                        idempotent: tool.idempotent || server.idempotent.is(&tool.name, false),
                        source,
                    });
                }
                Err(why) => {
                    self.notices.push(format!("the tool `{}` of the MCP server `{}` can't be offered: {why}", tool.name, server.name))
                }
            }
        }
    }

    /// The tools, in the order in which models see them.
    pub fn tools(&self) -> &[Offered] {
        &self.tools
    }

    /// The tools as the policy's files would say them.
    pub fn sources(&self) -> impl Iterator<Item = ToolSource> + '_ {
        self.tools.iter().map(|tool| tool.source.clone())
    }

    /// The tool that models call by this name.
    pub fn tool(&self, name: &str) -> Option<&Offered> {
        self.tools.get(*self.places.get(name)?)
    }

    /// Tools that aren't as they were pinned.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Why nothing can go on, where that is so: a server that is required is missing, or lacks what it must have.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Does toolmark run any of them?
    pub fn runs(&self) -> bool {
        self.tools.iter().any(|tool| tool.execute == Execute::Proxy)
    }
}

fn drifted(server: &McpServer, name: &str, drift: Drift) -> Option<Violation> {
    (server.drift != Severity::Off).then(|| Violation {
        code: crate::judge::violation::Code::SchemaDrift,
        severity: server.drift,
        tool: Some(name.into()),
        message: format!("the {} of tool `{name}` of the MCP server `{}` changed since it was pinned", drift.what(), server.name),
        advice: format!("look at it with `toolmark mcp diff`, then `toolmark mcp approve {}`", server.name),
        detail: None,
    })
}

/// The tool in OpenAI's form.
fn offered(name: &str, tool: &ServerTool) -> Result<ToolSource, String> {
    let parameters = schema::parameters(&tool.schema);
    let mut function = Map::new();
    function.insert("name".into(), name.into());
    if let Some(description) = &tool.description {
        function.insert("description".into(), (&**description).into());
    }
    let strict = schema::qualifies_for_strict(&parameters);
    function.insert("parameters".into(), parameters);
    if strict {
        function.insert("strict".into(), true.into());
    }
    ToolSource::parse(&json!({"type": "function", "function": function}).to_string())
}

/// The names that tools were given, by server and tool.
#[derive(Clone, Debug, Default)]
pub struct Names {
    given: HashMap<(Box<str>, Box<str>), Box<str>>,
    owners: HashMap<Box<str>, (Box<str>, Box<str>)>,
}

impl Names {
    /// The name that a tool has or gets; `None` where there are too many.
    pub fn name(&mut self, server: &McpServer, tool: &str) -> Option<Box<str>> {
        let key: (Box<str>, Box<str>) = (server.name.clone(), tool.into());
        if let Some(name) = self.given.get(&key) {
            return Some(name.clone());
        }
        if self.given.len() >= NAMES_MAX {
            return None;
        }
        let plain = format!("{}{tool}", server.prefix);
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let fits = plain.len() <= NAME_CHARS_MAX && !plain.is_empty() && plain.chars().all(legal);
        let name: Box<str> = if fits && !self.owners.contains_key(plain.as_str()) { plain.into() } else { told_apart(&plain, &key) };
        if self.owners.contains_key(&name) {
            return None;
        }
        self.owners.insert(name.clone(), key.clone());
        self.given.insert(key, name.clone());
        Some(name)
    }
}

/// A legal name that ends with a digest of server and tool.
fn told_apart(plain: &str, (server, tool): &(Box<str>, Box<str>)) -> Box<str> {
    let digest = blake3::hash(format!("{server}\n{tool}").as_bytes()).to_hex();
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let begin: String = plain.chars().map(legal).take(NAME_CHARS_MAX - SUFFIX_CHARS - 1).collect();
    format!("{begin}_{}", digest.get(..SUFFIX_CHARS).unwrap_or_default()).into()
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
