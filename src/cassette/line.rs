//! One line of a cassette: an exchange, as JSON. `schema.json` beside this file says the same for everyone else.
//!
//! Versioned as a whole: a reader takes its own version and says so about any other. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::Body;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// A header: its name in lower case where it was recorded, as its source spelt it where it was imported; its value.
pub type Header = (String, String);

/// One exchange.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// [`VERSION`].
    pub cassette: u32,
    /// The exchange's id, a UUID.
    pub id: String,
    /// When it began, in Unix milliseconds; absent where its source doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// Whose marks count in it: `shared`, `anonymous`, `client:NAME`, or `credential:` and a keyed digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The policy that judged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyUsed>,
    /// What the application sent and got.
    pub downstream: Downstream,
    /// Every request upstream, in order. Of imported traffic there is one, whose request is the application's.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// What was found; absent where nothing judged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Recorded>,
    /// When each call that was let through got its mark: Unix milliseconds and the counter in that millisecond.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<(u64, u16)>,
    /// What MCP servers had to do with it; absent where they offered nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Servers>,
    /// Places where a secret was taken out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redactions: u32,
    /// What the source of an imported exchange says besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The policy that judged an exchange.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyUsed {
    /// Its file or name.
    pub source: String,
    /// `enforce` or `observe`
    pub mode: String,
    /// Its digest, hex.
    pub digest: String,
}

/// What MCP servers had to do with an exchange.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    /// The tools that they offered, by the names that models call.
    pub tools: Vec<String>,
    /// The calls that toolmark ran, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<Ran>,
}

/// A call that toolmark ran.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ran {
    /// Its mark.
    pub call: String,
    /// The tool, by the name that models call.
    pub tool: String,
    /// Its arguments, as they were sent.
    pub arguments: String,
    /// What the model read, without its stamp.
    pub result: String,
    /// It failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// The application's side.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Downstream {
    /// What it sent.
    pub request: Request,
    /// What it got; absent in imported traffic, where that is the attempt's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
}

/// A request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// As `POST`.
    pub method: String,
    /// Downstream the path and query, upstream the whole URL.
    pub url: String,
    /// Headers that matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// Its body; absent where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// What the body was encoded with, which is kept decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<String>,
}

/// A response.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// From the request to the head of the response, in milliseconds; absent where its source doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_ms: Option<u64>,
    /// Headers that matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// Its body; absent where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// What the body was encoded with, which is kept decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<String>,
    /// The body isn't whole: it was cut off, or nobody listened any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Response {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// True for server-sent events.
    pub fn is_stream(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        kind.get(..17).is_some_and(|start| start.eq_ignore_ascii_case("text/event-stream"))
    }
}

/// The first header of this name.
pub fn header<'h>(headers: &'h [Header], name: &str) -> Option<&'h str> {
    headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// One request upstream.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The upstream's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Milliseconds after the exchange began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// What was sent; absent where it is what the application sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// What came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// Why nothing came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failed>,
    /// The fault of `[[faults]]` that was put in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Why nothing came from upstream.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// The HTTP status that stands for it.
    pub status: u16,
    /// `error.code`
    pub code: String,
    /// `error.message`
    pub message: String,
}

/// What was found in an exchange.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// `pass`, `warn`, `repaired` or `blocked`.
    pub verdict: String,
    /// Repairs made.
    #[serde(default)]
    pub repairs: u32,
    /// What was wrong, over all attempts, in order.
    #[serde(default)]
    pub violations: Vec<Found>,
    /// Verified execution IDs that the answer cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<String>,
}

/// One violation.
#[derive(Clone, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// Its code.
    pub code: String,
    /// `info`, `warn` or `block`.
    pub severity: String,
    /// The tool concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What was wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Where an imported exchange comes from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// `vcr`, `har` or `exchanges`.
    pub format: String,
    /// What the source says that has no place of its own here.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub rest: Value,
}

/// Why a line is no exchange.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Another version.
    #[error("it is of cassette version {0}, and this toolmark reads version {VERSION}")]
    Version(u64),
    /// No JSON, or not of the schema.
    #[error("it is no exchange: {0}")]
    Shape(#[from] serde_json::Error),
}

impl Exchange {
    /// Reads a line.
    ///
    /// # Errors
    /// [`LineError`].
    pub fn parse(line: &str) -> Result<Self, LineError> {
        match serde_json::from_str::<Self>(line) {
            Ok(exchange) if exchange.cassette == VERSION => Ok(exchange),
            Ok(exchange) => Err(LineError::Version(exchange.cassette.into())),
            // Another version may well have another shape.
            Err(error) => match serde_json::from_str::<Value>(line).ok().and_then(|json| json.get("cassette")?.as_u64()) {
                Some(version) if version != u64::from(VERSION) => Err(LineError::Version(version)),
                _ => Err(error.into()),
            },
        }
    }

    /// The line, without its end.
    pub fn line(&self) -> String {
        // INVARIANT: its maps have strings for names and its numbers are finite, so it always is JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The path of its request, without query, host and whatever stands before `/v1`'s rest: as `/chat/completions`.
    pub fn path(&self) -> &str {
        path_of(&self.downstream.request.url)
    }
}

/// The path of a URL below its version: `https://host/openai/v1/chat/completions?x` is `/chat/completions`.
pub fn path_of(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let known = ["/chat/completions", "/responses"].iter().find_map(|end| path.strip_suffix(end).map(|_| *end));
    let version = || path.split_once("/v1/").and_then(|(before, rest)| path.get(before.len() + 3..).filter(|_| !rest.is_empty()));
    known.or_else(version).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"{"cassette":1,"id":"x","downstream":{"request":{"method":"POST","url":"/v1/chat/completions"}}}"#;

    #[test]
    fn lines() {
        let exchange = Exchange::parse(LEAST).unwrap();
        assert_eq!(Exchange::parse(&exchange.line()).unwrap(), exchange);
        let error = |line: &str| Exchange::parse(line).unwrap_err().to_string();
        assert_eq!(error(&LEAST.replace(":1,", ":2,")), "it is of cassette version 2, and this toolmark reads version 1");
        assert!(error(r#"{"cassette":7,"novel":true}"#).contains("version 7"));
        assert!(error(&LEAST.replace("\"id\"", "\"ID\"")).contains("unknown field `ID`"));
        assert!(error("{").starts_with("it is no exchange"));
    }

    #[test]
    fn paths() {
        for (url, path) in [
            ("https://api.openai.com/v1/chat/completions", "/chat/completions"),
            ("/v1/chat/completions?api-version=1", "/chat/completions"),
            ("https://x.azure.com/openai/deployments/d/chat/completions?api-version=1", "/chat/completions"),
            ("/v1/responses", "/responses"),
            ("https://api.groq.com/openai/v1/models", "/models"),
            ("http://localhost", ""),
            ("/v1/embeddings", "/embeddings"),
        ] {
            assert_eq!(path_of(url), path, "{url}");
        }
    }
}
