//! What checked settings are made of, section by section. CONTRACT.md, "Settings".
//!
//! Types only: how they are written is in [`super::raw`], what they must satisfy in [`super::access`].

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{Durability, Secret, Store};
use crate::policy::load::PolicySource;

/// One of `[[clients]]`.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name, which is also the scope of its marks.
    pub name: Box<str>,
    /// SHA-256 of the key it sends.
    pub key_sha256: [u8; 32],
    /// Its own policy, if it has one.
    pub policy: Option<PolicySource>,
    /// How many requests it may send.
    pub rate: Option<Rate>,
    /// How many may run at a time.
    pub concurrent: Option<NonZeroU32>,
}

/// `[[clients]] rate`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// So many requests
    pub requests: NonZeroU32,
    /// in any such time.
    pub window: Duration,
}

/// `[ledger]`
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Where it is.
    pub url: LedgerUrl,
    /// How long records are kept.
    pub keep: Duration,
    /// What of arguments and results is kept.
    pub store: Store,
    /// Bytes that are kept of each, where they are.
    pub body_bytes: usize,
    /// Whose are kept.
    pub body_tools: BodyTools,
    /// Does the answer wait for its records?
    pub durability: Durability,
    /// How long an exchange waits, where the ledger can't take its record, or hasn't got it on disk.
    pub wait: Duration,
    /// How long an exchange waits for what is looked up.
    pub lookup: Duration,
}

/// `[ledger] only_tools`, `except_tools`
#[derive(Clone, Debug, Default)]
pub struct BodyTools {
    pub(super) only: Option<globset::GlobSet>,
    pub(super) except: globset::GlobSet,
}

impl BodyTools {
    /// Are the arguments and results of this tool kept, where any are?
    pub fn covers(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(tool)) && !self.except.is_match(tool)
    }

    /// Are those of all tools?
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
    /// Nothing is kept.
    Memory,
}

/// `[admin]`
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where it listens; `None`: nowhere (`"off"`).
    pub listen: Option<SocketAddr>,
    /// The settings say where, so that it must be there.
    pub explicit: bool,
    /// `TOOLMARK_ADMIN_TOKEN`
    pub token: Option<Secret>,
}

/// `[limits]`
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one request body.
    pub request_bytes: u64,
    /// Bytes of one response body.
    pub response_bytes: u64,
    /// Connections at a time.
    pub connections: u32,
    /// Exchanges at a time; `None`: as many as connections.
    pub exchanges: Option<u32>,
    /// Bytes of requests and answers in memory.
    pub bytes_in_flight: u64,
    /// Bytes held of one call or claim block in a stream.
    pub held_bytes: u64,
    /// How long a client may take over its headers, or stop in the middle of its body.
    pub client_idle: Duration,
}

/// `[log]`
#[derive(Clone, Copy, Debug, Default)]
pub struct Log {
    /// Its form.
    pub format: LogFormat,
    /// Its level, unless `RUST_LOG` says otherwise.
    pub level: LogLevel,
}

/// `[log] format`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
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
    /// And violations.
    Warn,
    /// And a line per exchange.
    #[default]
    Info,
    /// And each call and result.
    Debug,
    /// And everything else.
    Trace,
}

impl LogLevel {
    /// The word for it.
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
pub enum Scope {
    /// Marks are worth nothing to another client or credential.
    #[default]
    Caller,
    /// Marks are worth the same to all.
    Shared,
}

/// `[[upstreams]] call_ids`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum CallIds {
    /// As the upstream needs them.
    #[default]
    Auto,
    /// Marks as they are.
    Full,
    /// Nine alphanumerics derived from the mark.
    Short9,
}

/// `[[upstreams]] tool_choice`: what is asked for where the request says nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// Nothing is added.
    #[default]
    Auto,
    /// A call is asked for.
    Required,
    /// No call is asked for.
    None,
}
