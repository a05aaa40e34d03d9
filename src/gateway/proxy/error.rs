//! Errors of the proxy's start and of a reload.

use crate::settings;

/// Error at start, or of a policy that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy can't be loaded.
    #[error(transparent)]
    Policy(#[from] crate::policy::load::Error),
    /// The policy's tools or patterns can't be used.
    #[error(transparent)]
    ActivePolicy(#[from] crate::exchange::active_policy::ActivePolicyError),
    /// A probe of a host that isn't in the settings.
    #[error("{0}")]
    Probe(String),
    /// The keys for marks can't be loaded.
    #[error(transparent)]
    Keys(#[from] settings::KeyError),
    /// The ledger can't be opened.
    #[error("[ledger] {0}")]
    Ledger(#[from] crate::ledger::store::StoreError),
    /// A policy in the ledger can't be used.
    #[error("version {version} of the policy `{name}` in the ledger can't be used: {why}")]
    LedgerPolicy {
        /// Name of the policy.
        name: String,
        /// Its newest version.
        version: u64,
        /// The reason.
        why: String,
    },
    /// Traces can't be set up.
    #[error(transparent)]
    Traces(#[from] crate::telemetry::traces::Error),
    /// A cassette to be played can't be read.
    #[error(transparent)]
    Played(#[from] crate::cassette::reader::ReadError),
    /// A cassette to be recorded can't be written.
    #[error(transparent)]
    Recorded(#[from] crate::cassette::writer::WriteError),
    /// The system provides no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
    /// The HTTP client for an upstream can't be created.
    #[error("the client for upstreams can't be made: {0}")]
    Client(#[from] http::Error),
    /// The check of upstreams' certificates can't be set up.
    #[error("the certificates of upstreams can't be checked: {0}")]
    Tls(#[from] rustls::Error),
    /// The MCP servers can't be set up.
    #[error(transparent)]
    Mcp(#[from] crate::mcp::McpError),
    /// The listener can't be bound.
    #[error("can't listen on {address}: {source}{hint}")]
    Listen {
        /// Address to listen on.
        address: std::net::SocketAddr,
        /// Advice to the user; begins with a colon, or is empty.
        hint: &'static str,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// Another error of the system.
    #[error("{0}")]
    System(#[from] std::io::Error),
}
