//! toolmark: an OpenAI-compatible reverse proxy that enforces tool-call integrity inline.

pub mod admin;
pub mod cli;
pub mod daemon;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod testing;

// Every room by the same path in each package.
pub use toolmark_cassette as cassette;
pub use toolmark_core::{claims, config, judge, marks, openai, policy, schema, sys, tools, upstreams, violation, wire};
pub use toolmark_gateway::{chat, counters, exchange, ledger, mcp, messages, proxy, replay, responses, telemetry, translate};
pub use toolmark_settings as settings;
