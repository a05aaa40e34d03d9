//! Errors of exchanges that callers get, with the status that clients expect.
//!
//! docs/contract.md#what-a-caller-sees; docs/wire-facts.md#statuses-that-clients-retry.

use http::StatusCode;

use crate::{
    exchange::error::{Refusal, RefusalKind},
    openai::error::envelope,
};

/// Maximum bytes of all header lines together; OpenAI documents 64 KiB.
pub const HEADER_BYTES_MAX: usize = 64 << 10;
/// Maximum number of header lines; hyper has room for as many without allocating.
pub const HEADERS_MAX: usize = 100;

/// Error of one exchange, as the caller gets it. Its message never contains bodies or keys.
#[derive(Clone, Debug)]
pub struct Failure {
    /// HTTP status.
    pub status: StatusCode,
    /// `error.code`
    pub code: &'static str,
    /// `error.message`
    pub message: String,
    /// `error.param`
    pub param: Option<String>,
    /// Seconds that the caller is to wait before a retry.
    pub retry_after: Option<u64>,
}

impl Failure {
    /// Error with this status and code.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None, retry_after: None }
    }

    /// Too many header lines, or too long ones.
    pub fn headers_too_large() -> Self {
        let message = format!("the headers are too large: at most {HEADERS_MAX} lines and {HEADER_BYTES_MAX} bytes are taken");
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", message)
    }

    /// The request is malformed HTTP.
    pub fn not_http() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", "what came can't be read as an HTTP request")
    }

    /// The upstream can't be reached.
    pub fn unreachable(upstream: &str) -> Self {
        let message = format!("the upstream `{upstream}` can't be reached: is its base_url right, and is it up?");
        Self::new(StatusCode::BAD_GATEWAY, "upstream_unreachable", message)
    }

    /// The upstream's response can't be interpreted (502).
    pub fn protocol(upstream: &str, what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "upstream_protocol", format!("the answer of upstream `{upstream}` can't be passed on: {what}"))
    }

    /// The upstream took too long.
    pub fn timeout(upstream: &str, what: &str) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", format!("the upstream `{upstream}` took too long: {what}"))
    }

    /// No upstream is left on which the model calls functions. `why`: the reason for each.
    pub fn no_upstream_for_tools(model: &str, why: &str) -> Self {
        let message = format!("no upstream can answer this for the model `{model}`, and tools are never silently ignored: {why}");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_upstream_for_tools", message)
    }

    /// Sets the time after which a retry is worthwhile, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(mut self, milliseconds: u64) -> Self {
        self.retry_after = Some(milliseconds.div_ceil(1_000));
        self
    }

    /// True if the cause is the upstream or its absence alone.
    pub fn is_of_upstream(&self) -> bool {
        self.code.starts_with("upstream_") || self.code == "no_upstream_for_tools"
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            422 => "tool_integrity_error",
            400..=499 | 501 => "invalid_request_error",
            _ => "upstream_error",
        }
    }

    /// The error envelope as JSON.
    pub fn json(&self) -> String {
        envelope(&self.message, self.kind(), self.param.as_deref(), Some(self.code))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.kind {
            RefusalKind::Invalid => StatusCode::BAD_REQUEST,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
        };
        Self { param: refusal.param, ..Self::new(status, refusal.code, refusal.message) }
    }
}
