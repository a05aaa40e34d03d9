//! The names of toolmark's own headers, checked and hashed once.

use http::HeaderName;

/// What the caller calls the conversation.
pub const SESSION: HeaderName = HeaderName::from_static("toolmark-session");
/// The exchange's id.
pub const EXCHANGE: HeaderName = HeaderName::from_static("toolmark-exchange");
/// The codes of its violations.
pub const VIOLATIONS: HeaderName = HeaderName::from_static("toolmark-violations");
/// The upstream that answered.
pub const UPSTREAM: HeaderName = HeaderName::from_static("toolmark-upstream");
/// Its verdict.
pub const VERDICT: HeaderName = HeaderName::from_static("toolmark-verdict");
/// How often the model was asked again.
pub const REPAIRS: HeaderName = HeaderName::from_static("toolmark-repairs");
