//! Pins: tool descriptions and schemas recorded after review, so that later changes are detected.
//!
//! A changed description is text that a server puts before the model: an attack until somebody has reviewed it. Pure
//! except for reading and writing the file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::catalog::ServerTool;
use crate::wire::json::canonical::canonical;

/// Name of the pin file, beside the settings file.
pub const PIN_FILE: &str = "toolmark.pins.json";
/// Limit for the pin file, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// Error of the pin file.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The file can't be read or written.
    #[error("the pin file {path} {what}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The failed operation, such as `can't be read`.
        what: &'static str,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
    /// The content can't be read or written as pins.
    #[error("the pin file {path} can't be understood: {source}; mend it, or pin anew with `toolmark mcp pin`", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: serde_json::Error,
    },
}

/// Difference of a tool from its pin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PinDrift {
    /// The description differs.
    Description,
    /// The schema differs.
    Schema,
    /// Both differ.
    Both,
    /// The tool isn't pinned.
    New,
}

impl PinDrift {
    /// Text for messages.
    pub fn what(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::Schema => "schema",
            Self::Both => "description and schema",
            Self::New => "whole",
        }
    }
}

/// A tool as it was pinned.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The server's description of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its `inputSchema`.
    pub schema: Map<String, Value>,
}

impl Pin {
    /// Pins the current state of a tool.
    pub fn of(tool: &ServerTool) -> Self {
        Self { description: tool.description.as_deref().map(str::to_owned), schema: Map::clone(&tool.schema) }
    }
}

/// The tools of one server, by name.
pub type ServerPins = BTreeMap<String, Pin>;

/// All pins, by server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    /// The pinned tools, by server.
    pub servers: BTreeMap<String, ServerPins>,
}

impl Pins {
    /// Path of the pin file: beside the settings file, else in the working directory.
    pub fn path(settings_file: Option<&Path>) -> PathBuf {
        settings_file.and_then(Path::parent).map_or_else(|| PIN_FILE.into(), |directory| directory.join(PIN_FILE))
    }

    /// Reads the file; a missing file means that nothing is pinned.
    ///
    /// # Errors
    /// [`PinError`]
    pub fn read(path: &Path) -> Result<Self, PinError> {
        let failed = |source| PinError::File { path: path.into(), what: "can't be read", source };
        match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > BYTES_MAX => return Err(failed(std::io::Error::other("it is larger than 64 MiB"))),
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        serde_json::from_str(&text).map_err(|source| PinError::Content { path: path.into(), source })
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// [`PinError`]
    pub fn write(&self, path: &Path) -> Result<(), PinError> {
        let failed = |source| PinError::File { path: path.into(), what: "can't be written", source };
        let mut text = serde_json::to_string_pretty(self).map_err(|source| PinError::Content { path: path.into(), source })?;
        text.push('\n');
        let beside = path.with_extension("json.new");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(failed)
    }

    /// The tools of a server that differ from their pins; empty if the server isn't pinned at all.
    pub fn drifts(&self, server: &str, tools: &[ServerTool]) -> Vec<(Box<str>, PinDrift)> {
        let Some(pins) = self.servers.get(server) else { return Vec::new() };
        tools.iter().filter_map(|tool| Some((tool.name.clone(), drift(pins.get(&*tool.name), tool)?))).collect()
    }
}

fn drift(pin: Option<&Pin>, tool: &ServerTool) -> Option<PinDrift> {
    let Some(pin) = pin else { return Some(PinDrift::New) };
    let same = |one: &Map<String, Value>, two: &Map<String, Value>| {
        let text = |map: &Map<String, Value>| Value::Object(map.clone()).to_string();
        one == two || canonical(&text(one)).is_some_and(|one| Some(one) == canonical(&text(two)))
    };
    let described = pin.description.as_deref().unwrap_or_default() == tool.description.as_deref().unwrap_or_default();
    match (described, same(&pin.schema, &tool.schema)) {
        (true, true) => None,
        (false, true) => Some(PinDrift::Description),
        (true, false) => Some(PinDrift::Schema),
        (false, false) => Some(PinDrift::Both),
    }
}
