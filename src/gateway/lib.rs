//! The proxy: exchanges of every API, and their ledger, counters, telemetry and MCP servers.

pub mod chat;
pub mod counters;
pub mod exchange;
pub mod ledger;
pub mod mcp;
pub mod messages;
pub mod proxy;
pub mod replay;
pub mod responses;
pub mod telemetry;
pub mod translate;

// Every room by the same path in each package.
pub use toolmark_cassette as cassette;
pub use toolmark_core::{claims, config, judge, marks, openai, policy, schema, sys, tools, upstreams, violation, wire};
pub use toolmark_settings as settings;
