//! toolmark: an OpenAI-compatible reverse proxy that enforces tool-call integrity inline.

pub mod admin;
pub mod cassette;
pub mod chat;
pub mod cli;
pub mod config;
pub mod counters;
pub mod daemon;
pub mod exchange;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod judge;
pub mod ledger;
pub mod marks;
pub mod mcp;
pub mod messages;
pub mod openai;
pub mod policy;
pub mod proxy;
pub mod replay;
pub mod responses;
pub mod schema;
pub mod settings;
pub mod sys;
pub mod telemetry;
pub mod testing;
pub mod tools;
pub mod translate;
pub mod upstreams;
pub mod violation;
pub mod wire;
