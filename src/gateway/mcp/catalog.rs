//! Catalog of the tools that all servers offer, under names that models can call.
//!
//! Pure. A name, once given, belongs to its tool for the life of the process, so that servers that come and go never
//! change its meaning.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{pins::PinDrift, schema};
use crate::{
    settings::{Execute, McpServer},
    tools::registry::ToolSource,
    violation::{Severity, Violation},
};

/// Longest name of a tool. Source: OpenAI API reference, `function.name`.
const NAME_CHARS_MAX: usize = 64;
/// Number of hex digits that distinguish names.
const SUFFIX_CHARS: usize = 8;
/// Limit for the names that are remembered.
const NAMES_MAX: usize = 1 << 16;

/// A tool as described by its server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTool {
    /// The server's name for it.
    pub name: Box<str>,
    /// The server's description of it.
    pub description: Option<Box<str>>,
    /// Its `inputSchema`.
    pub schema: Arc<Map<String, Value>>,
    /// The server declares that it only reads.
    pub read_only: bool,
    /// The server declares that repeated calls change nothing more.
    pub idempotent: bool,
}

/// A tool as offered to models.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    /// The name that models call.
    pub name: Box<str>,
    /// Index of its server.
    pub server: usize,
    /// The server's name for it.
    pub tool: Box<str>,
    /// Party that runs it: the application or toolmark.
    pub execute: Execute,
    /// It only reads, as declared by the server or in the settings.
    pub read_only: bool,
    /// It may be called again, as declared by the server or in the settings.
    pub idempotent: bool,
    source: ToolSource,
}

/// Status of a server, as the catalog needs it.
#[derive(Clone, Debug)]
pub enum ServerStatus {
    /// The server is up and has these tools.
    Up(Arc<Vec<ServerTool>>),
    /// The server is down, for this reason.
    Down(Arc<str>),
}

/// All tools that the servers offer.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    tools: Vec<OfferedTool>,
    places: HashMap<Box<str>, usize>,
    violations: Vec<Violation>,
    missing: Option<String>,
    /// Notices for operators, one line each.
    pub notices: Vec<String>,
}

impl Catalog {
    /// Builds the catalog from what the servers offer, in the order of the settings. `drifts`: for each server, the
    /// tools that differ from their pins.
    pub fn build(
        servers: &[McpServer],
        standings: &[ServerStatus],
        drifts: &[Vec<(Box<str>, PinDrift)>],
        names: &mut NameAllocator,
    ) -> Self {
        let mut catalog = Self::default();
        for (at, (server, standing)) in servers.iter().zip(standings).enumerate() {
            match standing {
                ServerStatus::Up(tools) => catalog.add(at, server, tools, drifts.get(at).map_or(&[], Vec::as_slice), names),
                ServerStatus::Down(why) if server.required => {
                    let missing = || format!("the MCP server `{}`, which is required, can't be reached: {why}", server.name);
                    catalog.missing.get_or_insert_with(missing);
                }
                ServerStatus::Down(_) => {}
            }
        }
        catalog
    }

    fn add(&mut self, at: usize, server: &McpServer, tools: &[ServerTool], drifts: &[(Box<str>, PinDrift)], names: &mut NameAllocator) {
        for name in &server.expect {
            if !tools.iter().any(|tool| *tool.name == **name && server.tools.selects(name).unwrap_or(true)) {
                let message = format!("the MCP server `{}` lacks the tool `{name}`, which is expected", server.name);
                self.notices.push(message.clone());
                if server.required {
                    self.missing.get_or_insert(message);
                }
            }
        }
        for tool in tools.iter().filter(|tool| server.tools.selects(&tool.name).unwrap_or(true)) {
            let drift = drifts.iter().find(|(name, _)| **name == *tool.name).map(|(_, drift)| *drift);
            if drift == Some(PinDrift::New) {
                let message = format!(
                    "the tool `{}` of the MCP server `{}` is new since it was pinned, and isn't offered: \
                     see `toolmark mcp diff`, then `toolmark mcp approve {}`, and SIGHUP to the running toolmark",
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
                    self.tools.push(OfferedTool {
                        name,
                        server: at,
                        tool: tool.name.clone(),
                        execute: server.execute,
                        read_only: tool.read_only || server.read_only.selects(&tool.name).unwrap_or(false),
                        idempotent: tool.idempotent || server.idempotent.selects(&tool.name).unwrap_or(false),
                        source,
                    });
                }
                Err(why) => {
                    self.notices.push(format!("the tool `{}` of the MCP server `{}` can't be offered: {why}", tool.name, server.name))
                }
            }
        }
    }

    /// The tools, in the order in which models get them.
    pub fn tools(&self) -> &[OfferedTool] {
        &self.tools
    }

    /// The tools in the form of the policy's files.
    pub fn sources(&self) -> impl Iterator<Item = ToolSource> + '_ {
        self.tools.iter().map(|tool| tool.source.clone())
    }

    /// The tool with this name for models.
    pub fn tool(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.get(*self.places.get(name)?)
    }

    /// Violations for tools that differ from their pins.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Error if a required server is missing, or lacks required tools; `None` if all is well.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// True if toolmark runs any of the tools.
    pub fn runs(&self) -> bool {
        self.tools.iter().any(|tool| tool.execute == Execute::Proxy)
    }
}

fn drifted(server: &McpServer, name: &str, drift: PinDrift) -> Option<Violation> {
    (server.drift != Severity::Off).then(|| Violation {
        code: crate::violation::Code::SchemaDrift,
        severity: server.drift,
        tool: Some(name.into()),
        message: format!("the {} of tool `{name}` of the MCP server `{}` changed since it was pinned", drift.what(), server.name),
        advice: format!(
            "look at it with `toolmark mcp diff`, then `toolmark mcp approve {}`, and SIGHUP to the running toolmark",
            server.name
        ),
        pointer: None,
        detail: None,
    })
}

/// The tool in OpenAI's format.
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

/// Names given to tools, by server and tool.
#[derive(Clone, Debug, Default)]
pub struct NameAllocator {
    given: HashMap<(Box<str>, Box<str>), Box<str>>,
    owners: HashMap<Box<str>, (Box<str>, Box<str>)>,
}

impl NameAllocator {
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

// Without the feature no settings name a server.
#[cfg(test)]
#[cfg(feature = "mcp")]
#[path = "catalog_tests.rs"]
mod tests;
