//! An exchange as it is noted while it happens, and how a line of a cassette is made of that. Pure.

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use uuid::Uuid;

use super::{
    body::Body,
    line::{Attempt, Downstream, Exchange, Failed, Header, PolicyUsed, Recorded, Request, Response, Servers, VERSION},
    redact::shapes,
};
use crate::judge::marks::{KeyRing, Moment, Scope};

/// A request as it was noted.
#[derive(Debug, Default)]
pub struct RawMessage {
    /// As `POST`.
    pub method: String,
    /// Path and query, or a whole URL.
    pub url: String,
    /// All of them.
    pub headers: HeaderMap,
    /// All of it.
    pub body: Bytes,
}

/// An answer as it was noted.
#[derive(Debug, Default)]
pub struct RawAnswer {
    head: Option<(u16, HeaderMap, u64)>,
    pieces: Vec<(u64, Bytes)>,
    whole: Option<bool>,
}

/// A request upstream as it was noted.
#[derive(Debug, Default)]
pub struct RawAttempt {
    upstream: String,
    /// Milliseconds after the exchange began.
    pub after_ms: u64,
    request: RawMessage,
    /// What came.
    pub answer: RawAnswer,
    failed: Option<Failed>,
    /// The fault that was put in.
    pub fault: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub struct Raw {
    at_ms: u64,
    began: Instant,
    request: RawMessage,
    /// What the application got.
    pub response: RawAnswer,
    /// The requests upstream.
    pub attempts: Vec<RawAttempt>,
    /// The exchange's id; none where it wasn't enforced.
    pub id: Option<Uuid>,
    /// Whose marks count.
    pub scope: Option<Scope>,
    /// What judged it.
    pub policy: Option<PolicyUsed>,
    /// What was found; none where it was not judged to its end.
    pub verdict: Option<Recorded>,
    /// When each call got its mark.
    pub moments: Vec<Moment>,
    /// What MCP servers had to do with it.
    pub mcp: Option<Servers>,
}

impl Default for Raw {
    fn default() -> Self {
        Self::new(0, Instant::now(), RawMessage::default())
    }
}

impl Raw {
    /// An exchange that begins.
    pub fn new(at_ms: u64, began: Instant, request: RawMessage) -> Self {
        Self {
            at_ms,
            began,
            request,
            response: RawAnswer::default(),
            attempts: Vec::new(),
            id: None,
            scope: None,
            policy: None,
            verdict: None,
            moments: Vec::new(),
            mcp: None,
        }
    }

    /// Milliseconds since it began.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The credentials that it was carried out with.
    pub fn credentials(&self) -> Vec<String> {
        let messages = self.attempts.iter().map(|attempt| &attempt.request).chain([&self.request]);
        let named = messages.flat_map(|message| &message.headers).filter(|(name, _)| shapes::is_credential_header(name.as_str()));
        named.filter_map(|(_, value)| value.to_str().ok().map(str::to_owned)).collect()
    }

    /// The exchange. `more`: headers that are kept besides those that always are.
    pub fn exchange(self, ring: &KeyRing, more: &[String]) -> Exchange {
        // Nobody listened any more.
        let left = self.response.whole.is_none();
        let attempts = self.attempts.into_iter().map(|attempt| Attempt {
            upstream: Some(attempt.upstream),
            after_ms: Some(attempt.after_ms),
            request: Some(request(attempt.request, more)),
            response: attempt.answer.response(more, left),
            failure: attempt.failed,
            fault: attempt.fault,
        });
        Exchange {
            cassette: VERSION,
            id: self.id.unwrap_or_else(|| made_id(&self.request, self.at_ms)).to_string(),
            at_ms: Some(self.at_ms),
            scope: self.scope.map(|scope| scope.sealed(ring)),
            policy: self.policy,
            attempts: attempts.collect(),
            downstream: Downstream { response: self.response.response(more, left), request: request(self.request, more) },
            verdict: self.verdict,
            moments: self.moments.iter().map(|moment| (moment.time_ms, moment.counter)).collect(),
            mcp: self.mcp,
            redactions: 0,
            origin: None,
        }
    }
}

/// The id of an exchange that got none.
fn made_id(request: &RawMessage, at_ms: u64) -> Uuid {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&at_ms.to_le_bytes()).update(request.url.as_bytes()).update(&request.body);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

impl RawAttempt {
    /// A request that goes out.
    pub fn new(upstream: &str, after_ms: u64, request: RawMessage) -> Self {
        Self { upstream: upstream.to_owned(), after_ms, request, ..Self::default() }
    }

    /// Nothing came.
    pub fn fail(&mut self, status: u16, code: &str, message: &str) {
        self.failed = Some(Failed { status, code: code.to_owned(), message: message.to_owned() });
    }
}

impl RawAnswer {
    /// Its head. `ms`: since its request.
    pub fn head(&mut self, status: u16, headers: HeaderMap, ms: u64) {
        self.head = Some((status, headers, ms));
    }

    /// A piece of its body. `ms`: since its request.
    pub fn piece(&mut self, bytes: Bytes, ms: u64) {
        let head_ms = self.head.as_ref().map_or(0, |(_, _, head_ms)| *head_ms);
        self.pieces.push((ms.saturating_sub(head_ms), bytes));
    }

    /// Its end.
    pub fn end(&mut self, whole: bool) {
        self.whole = Some(whole);
    }

    fn response(self, more: &[String], left: bool) -> Option<Response> {
        let (status, headers, head_ms) = self.head?;
        let streamed = headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
        let body = match &self.pieces[..] {
            [] => None,
            pieces if streamed => Some(Body::of_stream(pieces)),
            [(_, piece)] => Some(Body::of_bytes(piece.clone())),
            pieces => Some(Body::of_bytes(pieces.iter().flat_map(|(_, piece)| piece.to_vec()).collect::<Vec<u8>>().into())),
        };
        let cut = self.whole.map_or(left, |whole| !whole);
        Some(Response { status, head_ms: Some(head_ms), headers: kept(&headers, more), body, encoded: None, cut })
    }
}

fn request(message: RawMessage, more: &[String]) -> Request {
    let body = (!message.body.is_empty()).then(|| Body::of_bytes(message.body));
    Request { method: message.method, url: message.url, headers: kept(&message.headers, more), body, encoded: None }
}

/// Headers that say something of the exchange; and that there was a credential, though not which.
fn kept(headers: &HeaderMap, more: &[String]) -> Vec<Header> {
    const WHOLE: [&str; 18] = [
        "accept",
        "content-type",
        "content-encoding",
        "user-agent",
        "date",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "x-request-id",
        "request-id",
        "idempotency-key",
        "location",
        "authorization",
        "api-key",
        "x-api-key",
        "x-goog-api-key",
        "x-stainless-retry-count",
        "traceparent",
    ];
    const STARTS: [&str; 4] = ["toolmark-", "openai-", "x-ratelimit-", "x-groq-"];
    let matters =
        |name: &str| WHOLE.contains(&name) || STARTS.iter().any(|start| name.starts_with(start)) || more.iter().any(|own| own == name);
    let kept = headers.iter().filter(|(name, _)| matters(name.as_str()));
    kept.map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect()
}
