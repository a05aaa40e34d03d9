//! What checked settings are made of, section by section. docs/contract.md#settings.
//!
//! Types only: [`super::raw`] defines how they are written, [`crate::validate`] checks them.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{Durability, Secret, StoredContent};
use toolmark_cassette::redact::Redactor;
use toolmark_core::policy::load::PolicySource;

/// One of `[[clients]]`.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Its name, which is also the scope of its marks.
    pub name: Box<str>,
    /// SHA-256 of the key it sends.
    pub key_sha256: [u8; 32],
    /// Its own policy, if any.
    pub policy: Option<PolicySource>,
    /// Limit of its request rate.
    pub rate: Option<ClientRate>,
    /// Limit of its concurrent exchanges.
    pub concurrent: Option<NonZeroU32>,
}

/// `[[clients]] rate`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientRate {
    /// Number of requests that are allowed within a window.
    pub requests: NonZeroU32,
    /// Length of the window.
    pub window: Duration,
}

/// `[ledger]`
#[derive(Clone, Debug)]
pub struct LedgerSettings {
    /// Location of the ledger.
    pub url: LedgerUrl,
    /// Time for which records are kept.
    pub keep: Duration,
    /// Form in which arguments and results are stored.
    pub store: StoredContent,
    /// Longest stored argument or result text in bytes, if they are stored.
    pub body_bytes: usize,
    /// Most bytes of conversations, and of rounds of tools, that are kept for later requests; the oldest go first.
    pub conversation_bytes: u64,
    /// Most bytes of whole exchanges that are kept; the oldest go first.
    pub exchange_bytes: u64,
    /// Tools whose arguments and results are stored.
    pub body_tools: BodyTools,
    /// Removal of secrets from what is stored: the rules of `[record]`.
    pub redactor: Redactor,
    /// Durability of records: whether an answer waits for them.
    pub durability: Durability,
    /// Longest time that an exchange waits for capacity in the ledger's queue, or for its record to be on disk.
    pub wait: Duration,
    /// Longest time that an exchange waits for a look-up.
    pub lookup: Duration,
}

/// `[counters]`
#[derive(Clone, Debug)]
pub struct CountersSettings {
    /// Location of the counters.
    pub url: CountersUrl,
    /// Longest time that an exchange waits for a count.
    pub wait: Duration,
}

/// Location of the counters.
#[derive(Clone, Debug)]
pub enum CountersUrl {
    /// This process alone.
    Memory,
    /// The database of the ledger; the URL may hold a password.
    Postgres(Secret),
    /// Valkey or Redis; the URL may hold a password.
    Redis(Secret),
}

/// `[ledger] only_tools`, `except_tools`
#[derive(Clone, Debug, Default)]
pub struct BodyTools {
    pub(super) only: Option<globset::GlobSet>,
    pub(super) except: globset::GlobSet,
}

impl BodyTools {
    /// Returns whether this tool's arguments and results are stored, if any are.
    pub fn covers(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(tool)) && !self.except.is_match(tool)
    }

    /// Returns whether those of all tools are stored.
    pub fn covers_all(&self) -> bool {
        self.only.is_none() && self.except.is_empty()
    }
}

/// `[ledger] url`
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LedgerUrl {
    /// An embedded database in this file.
    Sqlite(PathBuf),
    /// A shared database; the URL may hold a password.
    Postgres(Secret),
    /// A store in memory; nothing outlives the process.
    Memory,
}

/// `[admin]`
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// Address of the admin listener; `None`: there is none (`"off"`).
    pub listen: Option<SocketAddr>,
    /// The address is set explicitly, so that failing to listen is an error.
    pub explicit: bool,
    /// `TOOLMARK_ADMIN_TOKEN`, which opens all that the listener serves.
    pub token: Option<Secret>,
    /// `TOOLMARK_ADMIN_READ_TOKEN`, which opens all but bodies and what changes anything.
    pub read_token: Option<Secret>,
    /// Exchanges that are kept in memory with their bodies; 0: none.
    pub recent: usize,
    /// Role that may read bodies.
    pub bodies: BodyReaders,
}

/// `[admin] bodies`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum BodyReaders {
    /// Only who has `TOOLMARK_ADMIN_TOKEN`, also on loopback.
    #[default]
    Token,
    /// Everyone who may read the rest.
    Everyone,
}

/// `[limits]`
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest request body in bytes.
    pub request_bytes: u64,
    /// Longest response body in bytes.
    pub response_bytes: u64,
    /// Concurrent connections.
    pub connections: u32,
    /// Concurrent exchanges; `None`: as many as connections.
    pub exchanges: Option<u32>,
    /// Bytes of requests and answers in memory at a time.
    pub bytes_in_flight: u64,
    /// Bytes of one call or claim block that a stream may hold back.
    pub held_bytes: u64,
    /// Bytes of earlier requests that are kept for later ones with the same beginning; 0: none are.
    pub conversation_cache: u64,
    /// Longest time that a client may take for its headers, or pause in the middle of its body.
    pub client_idle: Duration,
}

/// `[log]`
#[derive(Clone, Copy, Debug, Default)]
pub struct Log {
    /// Format of the log.
    pub format: LogFormat,
    /// Level of the log; `RUST_LOG` takes precedence.
    pub level: LogLevel,
}

/// `[log] format`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// `[log] level`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing at all.
    Off,
    /// Failures.
    Error,
    /// Also violations.
    Warn,
    /// Also a line per exchange.
    #[default]
    Info,
    /// Also each call and result.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Name of the level in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// `[marks] scope`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ScopeKind {
    /// Marks are valid only for the client or credential that they were issued to.
    #[default]
    Caller,
    /// Marks are valid for all callers.
    Shared,
}

/// `[[upstreams]] call_ids`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum CallIds {
    /// Chosen according to the upstream's preset.
    #[default]
    Auto,
    /// Complete marks.
    Full,
    /// Nine alphanumerics derived from the mark.
    Short9,
}

/// `[[upstreams]] tool_choice`: default for requests that set none.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum DefaultToolChoice {
    /// No default is added.
    #[default]
    Auto,
    /// A call is asked for.
    Required,
    /// No call is asked for.
    None,
}
