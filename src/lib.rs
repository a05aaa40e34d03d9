//! toolmark: an OpenAI-compatible reverse proxy that enforces tool-call integrity inline.

pub mod admin;
pub mod cassette;
pub mod chat;
pub mod cli;
pub mod exchange;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod judge;
pub mod ledger;
pub mod log;
mod log_line;
pub mod mcp;
pub mod observe;
pub mod policy;
pub mod proxy;
pub mod responses;
pub mod settings;
pub mod testing;
pub mod upstreams;
pub mod wire;
