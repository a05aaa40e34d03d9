//! Connection to an MCP server: setup, listing of tools, and calls.
//!
//! The SDK (`mcp/sdk.rs`) is hidden behind [`McpConnection`], so that tests can substitute a server, and builds can leave it out. The error of a failed call says if
//! the call may have run.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::catalog::ServerTool;
use crate::{mcp::outcome::ToolOutcome, settings::McpServer};

/// Time limit for connecting and listing; probing a server of an older protocol version alone takes 10 s of it.
pub const CONNECT_MAX: Duration = Duration::from_secs(30);

/// Reason why a call gave no result.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The call certainly didn't run: nothing reached the server.
    #[error("{0}")]
    NotSent(String),
    /// The call may have run: the connection broke during it.
    #[error("{0}")]
    Broken(String),
    /// The call may have run: it exceeded its timeout.
    #[error("no result within {}", humantime::format_duration(*.0))]
    TimedOut(Duration),
    /// The server refused the call.
    #[error("the server refused the call: {0}")]
    Refused(String),
}

/// Result of listing a server's tools.
#[derive(Clone, Debug, Default)]
pub struct ToolList {
    /// The tools.
    pub tools: Vec<ServerTool>,
    /// Time for which the list may be considered fresh, if the server declares one.
    pub ttl: Option<Duration>,
}

/// Connection to a server.
pub trait McpConnection: Send + Sync {
    /// Lists the server's tools.
    fn list(&self) -> BoxFuture<'_, Result<ToolList, String>>;
    /// Makes one call, without retries.
    fn call(&self, tool: &str, arguments: Map<String, Value>, timeout: Duration) -> BoxFuture<'_, Result<ToolOutcome, CallError>>;
    /// Completes when the connection has ended.
    fn closed(&self) -> BoxFuture<'_, ()>;
    /// Ends the connection, so that [`Self::closed`] completes.
    fn close(&self);
    /// Protocol version, for logs.
    fn version(&self) -> String;
}

/// Opens connections.
pub trait Connector: Send + Sync {
    /// Connects to a server; `changed` is notified when the server announces that its tools changed.
    fn connect<'c>(&'c self, server: &'c McpServer, changed: Arc<Notify>) -> BoxFuture<'c, Result<Arc<dyn McpConnection>, String>>;
}
