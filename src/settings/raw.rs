//! Settings as they are written, before anything is made of them. docs/contract.md#settings.
//!
//! Shapes and defaults only: the files of the sections check the values, and those that no file is named for are checked in `validate.rs`.

use std::{num::NonZeroU32, time::Duration};

use serde::Deserialize;

use super::cassettes::{TomlFault, TomlRecord, TomlReplay};
use super::{
    BodyReaders, LogFormat, LogLevel, ScopeKind, alerts::TomlAlert, mcp::TomlMcp, upstreams::TomlUpstream, verifier::TomlVerifier,
};

use toolmark_core::config::units::{bytes, duration};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlSettings {
    pub listen: String,
    pub policy: Option<String>,
    pub passthrough: Vec<String>,
    pub allowed_hosts: Vec<String>,
    pub allow_anonymous: bool,
    pub upstreams: Vec<TomlUpstream>,
    pub clients: Vec<TomlClient>,
    pub ledger: TomlLedger,
    pub counters: TomlCounters,
    pub marks: TomlMarks,
    pub mcp: Vec<TomlMcp>,
    pub probe_hosts: Vec<String>,
    pub admin: TomlAdmin,
    pub alerts: Vec<TomlAlert>,
    pub limits: TomlLimits,
    pub log: TomlLog,
    pub record: TomlRecord,
    pub replay: TomlReplay,
    pub faults: Vec<TomlFault>,
    pub verifier: Option<TomlVerifier>,
}

impl Default for TomlSettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8787".into(),
            policy: None,
            passthrough: Vec::new(),
            allowed_hosts: Vec::new(),
            allow_anonymous: false,
            upstreams: Vec::new(),
            clients: Vec::new(),
            ledger: TomlLedger::default(),
            counters: TomlCounters::default(),
            marks: TomlMarks::default(),
            mcp: Vec::new(),
            probe_hosts: Vec::new(),
            admin: TomlAdmin::default(),
            alerts: Vec::new(),
            limits: TomlLimits::default(),
            log: TomlLog::default(),
            record: TomlRecord::default(),
            replay: TomlReplay::default(),
            faults: Vec::new(),
            verifier: None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlClient {
    pub name: String,
    pub key_sha256: String,
    pub policy: Option<String>,
    pub rate: Option<TomlRate>,
    pub concurrent: Option<NonZeroU32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlRate {
    pub requests: NonZeroU32,
    #[serde(with = "duration")]
    pub window: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlLedger {
    pub url: String,
    #[serde(with = "duration")]
    pub keep: Duration,
    pub store: StoredContent,
    #[serde(with = "bytes")]
    pub body_bytes: u64,
    #[serde(with = "bytes")]
    pub conversation_bytes: u64,
    #[serde(with = "bytes")]
    pub exchange_bytes: u64,
    pub only_tools: Option<Vec<String>>,
    pub except_tools: Vec<String>,
    pub durability: Durability,
    #[serde(with = "duration")]
    pub wait: Duration,
    #[serde(with = "duration")]
    pub lookup: Duration,
}

impl Default for TomlLedger {
    fn default() -> Self {
        Self {
            url: "sqlite:toolmark.db".into(),
            keep: Duration::from_secs(30 * 24 * 3600),
            store: StoredContent::default(),
            body_bytes: 16 << 10,
            conversation_bytes: 1 << 30,
            exchange_bytes: 1 << 30,
            only_tools: None,
            except_tools: Vec::new(),
            durability: Durability::default(),
            wait: Duration::from_secs(5),
            lookup: Duration::from_secs(1),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlCounters {
    pub url: String,
    #[serde(with = "duration")]
    pub wait: Duration,
}

impl Default for TomlCounters {
    fn default() -> Self {
        Self { url: "memory:".into(), wait: Duration::from_millis(50) }
    }
}

/// `[ledger] store`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum StoredContent {
    /// Only digests of arguments and results.
    #[default]
    Digests,
    /// The arguments and results themselves.
    Bodies,
}

/// `[ledger] durability`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Records reach the disk shortly after the answer.
    #[default]
    Batch,
    /// The answer waits until its records are on disk.
    Commit,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlMarks {
    pub key_env: String,
    pub scope: ScopeKind,
}

impl Default for TomlMarks {
    fn default() -> Self {
        Self { key_env: super::KEY_ENV.into(), scope: ScopeKind::default() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlAdmin {
    pub listen: String,
    pub recent: usize,
    pub bodies: BodyReaders,
}

impl Default for TomlAdmin {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8788".into(), recent: 200, bodies: BodyReaders::default() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlLimits {
    #[serde(with = "bytes")]
    pub request_bytes: u64,
    #[serde(with = "bytes")]
    pub response_bytes: u64,
    pub connections: u32,
    pub exchanges: Option<u32>,
    /// 0: half of the available memory.
    #[serde(with = "bytes")]
    pub bytes_in_flight: u64,
    #[serde(with = "bytes")]
    pub held_bytes: u64,
    #[serde(with = "bytes")]
    pub conversation_cache: u64,
    #[serde(with = "duration")]
    pub client_idle: Duration,
}

/// `[limits] connections` where it isn't set.
pub const CONNECTIONS_DEFAULT: u32 = 10_000;

impl Default for TomlLimits {
    fn default() -> Self {
        Self {
            request_bytes: 32 << 20,
            response_bytes: 64 << 20,
            connections: CONNECTIONS_DEFAULT,
            exchanges: None,
            bytes_in_flight: 0,
            held_bytes: 1 << 20,
            conversation_cache: 64 << 20,
            client_idle: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlLog {
    pub format: LogFormat,
    pub level: LogLevel,
}
