//! Settings as they are written, before anything is made of them. docs/contract.md#settings.
//!
//! Shapes and defaults only: the files of the sections check the values, and those that no file is named for are checked in `validate.rs`.

use std::{num::NonZeroU32, time::Duration};

use serde::Deserialize;

use super::cassettes::{RawFault, RawRecord, RawReplay};
use super::{LogFormat, LogLevel, Scope, alerts::RawAlert, mcp::RawMcp, upstreams::RawUpstream, verifier::RawVerifier};
use crate::policy::{bytes, duration};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub listen: String,
    pub policy: Option<String>,
    pub passthrough: Vec<String>,
    pub allowed_hosts: Vec<String>,
    pub allow_anonymous: bool,
    pub upstreams: Vec<RawUpstream>,
    pub clients: Vec<RawClient>,
    pub ledger: RawLedger,
    pub marks: RawMarks,
    pub mcp: Vec<RawMcp>,
    pub probe_hosts: Vec<String>,
    pub admin: RawAdmin,
    pub alerts: Vec<RawAlert>,
    pub limits: RawLimits,
    pub log: RawLog,
    pub record: RawRecord,
    pub replay: RawReplay,
    pub faults: Vec<RawFault>,
    pub verifier: Option<RawVerifier>,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8787".into(),
            policy: None,
            passthrough: Vec::new(),
            allowed_hosts: Vec::new(),
            allow_anonymous: false,
            upstreams: Vec::new(),
            clients: Vec::new(),
            ledger: RawLedger::default(),
            marks: RawMarks::default(),
            mcp: Vec::new(),
            probe_hosts: Vec::new(),
            admin: RawAdmin::default(),
            alerts: Vec::new(),
            limits: RawLimits::default(),
            log: RawLog::default(),
            record: RawRecord::default(),
            replay: RawReplay::default(),
            faults: Vec::new(),
            verifier: None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClient {
    pub name: String,
    pub key_sha256: String,
    pub policy: Option<String>,
    pub rate: Option<RawRate>,
    pub concurrent: Option<NonZeroU32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRate {
    pub requests: NonZeroU32,
    #[serde(with = "duration")]
    pub window: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLedger {
    pub url: String,
    #[serde(with = "duration")]
    pub keep: Duration,
    pub store: Store,
    #[serde(with = "bytes")]
    pub body_bytes: u64,
    pub only_tools: Option<Vec<String>>,
    pub except_tools: Vec<String>,
    pub durability: Durability,
    #[serde(with = "duration")]
    pub wait: Duration,
    #[serde(with = "duration")]
    pub lookup: Duration,
}

impl Default for RawLedger {
    fn default() -> Self {
        Self {
            url: "sqlite:toolmark.db".into(),
            keep: Duration::from_secs(30 * 24 * 3600),
            store: Store::default(),
            body_bytes: 16 << 10,
            only_tools: None,
            except_tools: Vec::new(),
            durability: Durability::default(),
            wait: Duration::from_secs(5),
            lookup: Duration::from_secs(1),
        }
    }
}

/// `[ledger] store`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Store {
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
pub(super) struct RawMarks {
    pub key_env: String,
    pub scope: Scope,
}

impl Default for RawMarks {
    fn default() -> Self {
        Self { key_env: super::KEY_ENV.into(), scope: Scope::default() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAdmin {
    pub listen: String,
}

impl Default for RawAdmin {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8788".into() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
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
    #[serde(with = "duration")]
    pub client_idle: Duration,
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            request_bytes: 32 << 20,
            response_bytes: 64 << 20,
            connections: 10_000,
            exchanges: None,
            bytes_in_flight: 0,
            held_bytes: 1 << 20,
            client_idle: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLog {
    pub format: LogFormat,
    pub level: LogLevel,
}
