//! toolmark's own headers: their names, parsed once.

use http::HeaderName;

/// Request header: the caller's name for the conversation.
pub const SESSION: HeaderName = HeaderName::from_static("toolmark-session");
/// Request header of Anthropic's API: its version.
pub const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// Request header in which Anthropic's API takes a key.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Request header: Claude Code's name for the conversation.
pub const CLAUDE_CODE_SESSION: HeaderName = HeaderName::from_static("x-claude-code-session-id");
/// Response header: the exchange's ID.
pub const EXCHANGE: HeaderName = HeaderName::from_static("toolmark-exchange");
/// Response header: codes of the exchange's violations.
pub const VIOLATIONS: HeaderName = HeaderName::from_static("toolmark-violations");
/// Response header: name of the upstream that answered.
pub const UPSTREAM: HeaderName = HeaderName::from_static("toolmark-upstream");
/// Response header: verdict on the exchange.
pub const VERDICT: HeaderName = HeaderName::from_static("toolmark-verdict");
/// Response header: number of repairs.
pub const REPAIRS: HeaderName = HeaderName::from_static("toolmark-repairs");
