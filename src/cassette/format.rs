//! One line of a cassette: an exchange, as JSON. `schema.json` beside this file is the same format as a JSON Schema.
//!
//! Versioned as a whole: a reader accepts only its own version and reports any other. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::RecordedBody;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// A header's name and value. The name is in lower case if recorded, spelt as in the source if imported.
pub type Header = (String, String);

/// One recorded exchange.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedExchange {
    /// The format's version: [`VERSION`].
    pub cassette: u32,
    /// The exchange's id, a UUID.
    pub id: String,
    /// Start of the exchange, in Unix milliseconds; absent if an import's source doesn't have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// Scope of its marks: `shared`, `anonymous`, `client:NAME`, or `credential:` and a keyed digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The policy that judged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<RecordedPolicy>,
    /// The application's request and the response it got.
    pub downstream: RecordedDownstream,
    /// Every request upstream, in order. Imported traffic has at most one attempt, for the application's own request.
    #[serde(default)]
    pub attempts: Vec<RecordedAttempt>,
    /// Verdict and violations; absent if the exchange wasn't judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<RecordedVerdict>,
    /// Mark time of each accepted call: Unix milliseconds and the counter within that millisecond.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<(u64, u16)>,
    /// Tools and calls of MCP servers; absent if none offered tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<RecordedMcp>,
    /// Number of places from which a secret was removed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redactions: u32,
    /// Data of an imported exchange that has no other place here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ImportSource>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The policy that judged an exchange.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPolicy {
    /// The policy's file or name.
    pub source: String,
    /// `enforce` or `observe`
    pub mode: String,
    /// The policy's digest, in hex.
    pub digest: String,
}

/// Tools and calls of MCP servers in one exchange.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedMcp {
    /// The tools offered, by the names that models call.
    pub tools: Vec<String>,
    /// The calls that toolmark executed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<RecordedToolRun>,
}

/// A call that toolmark executed on an MCP server.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedToolRun {
    /// The call's mark.
    pub call: String,
    /// The tool, by the name that models call.
    pub tool: String,
    /// The arguments, as they were sent.
    pub arguments: String,
    /// The result as the model got it, without its stamp.
    pub result: String,
    /// The call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// The application's side of an exchange.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedDownstream {
    /// The request that the application sent.
    pub request: RecordedRequest,
    /// The response that the application got; absent in imported traffic, where it is the attempt's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedResponse>,
}

/// A recorded request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedRequest {
    /// The HTTP method, as `POST`.
    pub method: String,
    /// Path and query of a downstream request, the whole URL of an upstream one.
    pub url: String,
    /// The headers that are recorded; most are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// The body; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RecordedBody>,
    /// Content encoding of the original body, as `gzip`; `body` holds the decoded bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<String>,
}

/// A recorded response.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedResponse {
    /// The HTTP status.
    pub status: u16,
    /// Time from the request to the head of the response, in milliseconds; absent if an import's source doesn't have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_ms: Option<u64>,
    /// The headers that are recorded; most are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// The body; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RecordedBody>,
    /// Content encoding of the original body, as `gzip`; `body` holds the decoded bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<String>,
    /// The body is incomplete: the upstream cut it off, or the application closed the connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl RecordedResponse {
    /// Value of the first header with this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// True for server-sent events, by the `content-type`.
    pub fn is_stream(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        kind.get(..17).is_some_and(|start| start.eq_ignore_ascii_case("text/event-stream"))
    }
}

/// Value of the first header with this name, in any case.
pub fn header<'h>(headers: &'h [Header], name: &str) -> Option<&'h str> {
    headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// One request upstream.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedAttempt {
    /// The upstream's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Milliseconds after the exchange began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// The request sent upstream; absent if it is the same as the application's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RecordedRequest>,
    /// The upstream's response; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RecordedResponse>,
    /// The failure, if the upstream gave no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RecordedFailure>,
    /// The kind of fault that was injected by `[[faults]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A failed attempt without a response.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedFailure {
    /// The HTTP status reported for the failure.
    pub status: u16,
    /// `error.code`
    pub code: String,
    /// `error.message`
    pub message: String,
}

/// Verdict of one exchange.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedVerdict {
    /// `pass`, `warn`, `repaired` or `blocked`.
    pub verdict: String,
    /// Number of repairs.
    #[serde(default)]
    pub repairs: u32,
    /// The violations of all attempts, in order.
    #[serde(default)]
    pub violations: Vec<RecordedViolation>,
    /// Verified execution IDs that the answer cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<String>,
}

/// One violation.
#[derive(Clone, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedViolation {
    /// The violation's code.
    pub code: String,
    /// `info`, `warn` or `block`.
    pub severity: String,
    /// The tool concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The violation's message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Source of an imported exchange.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImportSource {
    /// `vcr`, `har` or `exchanges`.
    pub format: String,
    /// The source's members that have no other place in an exchange.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub rest: Value,
}

/// Error of reading a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line has another format version.
    #[error("it is of cassette version {0}, and this toolmark reads version {VERSION}")]
    Version(u64),
    /// The line isn't JSON, or doesn't fit the schema.
    #[error("it is no exchange: {0}")]
    Shape(#[from] serde_json::Error),
}

impl RecordedExchange {
    /// Reads a line.
    ///
    /// # Errors
    /// [`LineError`].
    pub fn parse(line: &str) -> Result<Self, LineError> {
        match serde_json::from_str::<Self>(line) {
            Ok(exchange) if exchange.cassette == VERSION => Ok(exchange),
            Ok(exchange) => Err(LineError::Version(exchange.cassette.into())),
            // Another version may have another shape.
            Err(error) => match serde_json::from_str::<Value>(line).ok().and_then(|json| json.get("cassette")?.as_u64()) {
                Some(version) if version != u64::from(VERSION) => Err(LineError::Version(version)),
                _ => Err(error.into()),
            },
        }
    }

    /// Bytes of its longest body.
    pub fn body_bytes_max(&self) -> usize {
        let request = |request: &RecordedRequest| request.body.as_ref().map_or(0, |body| body.bytes().len());
        let response =
            |response: &Option<RecordedResponse>| response.as_ref().and_then(|own| own.body.as_ref()).map_or(0, |body| body.bytes().len());
        let attempts = self.attempts.iter().map(|attempt| attempt.request.as_ref().map_or(0, request).max(response(&attempt.response)));
        request(&self.downstream.request).max(response(&self.downstream.response)).max(attempts.max().unwrap_or(0))
    }

    /// The exchange as JSON, without a line end.
    pub fn line(&self) -> String {
        // INVARIANT: its maps have strings for names and its numbers are finite, so it always is JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The path of its request below the API version, without query and host: as `/chat/completions`.
    pub fn path(&self) -> &str {
        toolmark_core::openai::path::path_of(&self.downstream.request.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"{"cassette":1,"id":"x","downstream":{"request":{"method":"POST","url":"/v1/chat/completions"}}}"#;

    #[test]
    fn lines() {
        let exchange = RecordedExchange::parse(LEAST).unwrap();
        assert_eq!(RecordedExchange::parse(&exchange.line()).unwrap(), exchange);
        let error = |line: &str| RecordedExchange::parse(line).unwrap_err().to_string();
        assert_eq!(error(&LEAST.replace(":1,", ":2,")), "it is of cassette version 2, and this toolmark reads version 1");
        assert!(error(r#"{"cassette":7,"novel":true}"#).contains("version 7"));
        assert!(error(&LEAST.replace("\"id\"", "\"ID\"")).contains("unknown field `ID`"));
        assert!(error("{").starts_with("it is no exchange"));
    }
}
