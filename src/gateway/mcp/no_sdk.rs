//! Builds without the feature `mcp`: the settings refuse `[[mcp]]`, so nothing here is ever asked to connect.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::connection::{Connector, McpConnection};
use crate::settings::{McpServer, NO_MCP};

/// Connects to nothing.
#[derive(Debug, Default)]
pub struct RmcpConnector;

impl Connector for RmcpConnector {
    fn connect<'c>(&'c self, _: &'c McpServer, _: Arc<Notify>) -> BoxFuture<'c, Result<Arc<dyn McpConnection>, String>> {
        Box::pin(std::future::ready(Err(NO_MCP.into())))
    }
}
