//! An exchange as it is captured while it happens, and its conversion to a line of a cassette. Pure.

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use uuid::Uuid;

use super::body::RecordedBody;
use crate::{
    format::{
        Header, RecordedAttempt, RecordedDownstream, RecordedExchange, RecordedFailure, RecordedMcp, RecordedPolicy, RecordedRequest,
        RecordedResponse, RecordedVerdict, VERSION,
    },
    redact::patterns,
};
use toolmark_core::{
    marks::{KeyRing, MarkTime, Scope},
    violation::Verdict,
    wire::rope::Rope,
};

/// A captured request.
#[derive(Clone, Debug, Default)]
pub struct CapturedRequest {
    /// The HTTP method, as `POST`.
    pub method: String,
    /// Path and query, or a whole URL.
    pub url: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Rope,
}

/// End of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyEnd {
    /// All of the body came.
    Complete,
    /// The connection ended before the body did.
    Truncated,
}

/// A captured response.
#[derive(Clone, Debug, Default)]
pub struct CapturedResponse {
    head: Option<(u16, HeaderMap, u64)>,
    pieces: Vec<(u64, Bytes)>,
    end: Option<BodyEnd>,
}

/// A captured upstream request with its response.
#[derive(Clone, Debug, Default)]
pub struct CapturedAttempt {
    upstream: String,
    /// Milliseconds after the exchange began.
    pub after_ms: u64,
    request: CapturedRequest,
    /// The upstream's response.
    pub answer: CapturedResponse,
    failed: Option<RecordedFailure>,
    /// The injected fault, if any.
    pub fault: Option<String>,
}

/// An exchange as captured, before secrets are removed.
#[derive(Clone, Debug)]
pub struct CapturedExchange {
    at_ms: u64,
    began: Instant,
    request: CapturedRequest,
    /// The response sent to the application.
    pub response: CapturedResponse,
    /// The requests upstream.
    pub attempts: Vec<CapturedAttempt>,
    /// The exchange's id; `None` if the exchange isn't enforced.
    pub id: Option<Uuid>,
    /// Scope of the exchange's marks.
    pub scope: Option<Scope>,
    /// The policy that judged the exchange.
    pub policy: Option<RecordedPolicy>,
    /// Verdict and violations; `None` if judging wasn't completed.
    pub verdict: Option<RecordedVerdict>,
    /// Mark time of each accepted call.
    pub moments: Vec<MarkTime>,
    /// Tools and calls of MCP servers.
    pub mcp: Option<RecordedMcp>,
}

impl Default for CapturedExchange {
    fn default() -> Self {
        Self::new(0, Instant::now(), CapturedRequest::default())
    }
}

impl CapturedExchange {
    /// Starts capturing an exchange.
    pub fn new(at_ms: u64, began: Instant, request: CapturedRequest) -> Self {
        Self {
            at_ms,
            began,
            request,
            response: CapturedResponse::default(),
            attempts: Vec::new(),
            id: None,
            scope: None,
            policy: None,
            verdict: None,
            moments: Vec::new(),
            mcp: None,
        }
    }

    /// Time at which the exchange began, in Unix milliseconds.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// True if it was judged to its end and passed; violations with the severity `info` don't change that.
    pub fn passed(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.verdict == Verdict::Pass.as_str())
    }

    /// Milliseconds since the exchange began.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Holds the request's body in other memory from now on: the same bytes.
    pub fn hold_body(&mut self, body: Bytes) {
        debug_assert_eq!(self.request.body.len(), body.len(), "the body is the same");
        self.request.body = body.into();
    }

    /// Cuts each body to `bytes_max` bytes. True if any was longer. Cut bodies are copied, so that nothing holds the whole of them.
    pub fn cut_bodies(&mut self, bytes_max: usize) -> bool {
        let mut is_cut = self.request.cut(bytes_max);
        for attempt in &mut self.attempts {
            is_cut |= attempt.request.cut(bytes_max);
            is_cut |= attempt.answer.cut(bytes_max);
        }
        self.response.cut(bytes_max) | is_cut
    }

    /// Bytes of all its bodies.
    pub fn body_bytes(&self) -> usize {
        let attempts = self.attempts.iter().map(|attempt| attempt.request.body.len() + attempt.answer.bytes());
        self.request.body.len() + self.response.bytes() + attempts.sum::<usize>()
    }

    /// True if these words stand in one of its bodies. `words`: in lower case; ASCII letters of the bodies count as such.
    pub fn bodies_contain(&self, words: &str) -> bool {
        let holds = |bytes: &[u8]| memchr::memmem::find(&bytes.to_ascii_lowercase(), words.as_bytes()).is_some();
        let answer = |answer: &CapturedResponse| holds(&answer.pieces.iter().flat_map(|(_, piece)| piece.to_vec()).collect::<Vec<u8>>());
        holds(&self.request.body.joined())
            || answer(&self.response)
            || self.attempts.iter().any(|own| holds(&own.request.body.joined()) || answer(&own.answer))
    }

    /// The credentials in the headers of all its requests.
    pub fn credentials(&self) -> Vec<String> {
        let messages = self.attempts.iter().map(|attempt| &attempt.request).chain([&self.request]);
        let named = messages.flat_map(|message| &message.headers).filter(|(name, _)| patterns::is_credential_header(name.as_str()));
        named.filter_map(|(_, value)| value.to_str().ok().map(str::to_owned)).collect()
    }

    /// The exchange as a line of a cassette. `more`: names of headers to record in addition to the fixed ones.
    pub fn exchange(self, ring: &KeyRing, more: &[String]) -> RecordedExchange {
        // The application closed the connection.
        let default_end = if self.response.end.is_none() { BodyEnd::Truncated } else { BodyEnd::Complete };
        let attempts = self.attempts.into_iter().map(|attempt| RecordedAttempt {
            upstream: Some(attempt.upstream),
            after_ms: Some(attempt.after_ms),
            request: Some(request(attempt.request, more)),
            response: attempt.answer.response(more, default_end),
            failure: attempt.failed,
            fault: attempt.fault,
        });
        RecordedExchange {
            cassette: VERSION,
            id: self.id.unwrap_or_else(|| made_id(&self.request, self.at_ms)).to_string(),
            at_ms: Some(self.at_ms),
            scope: self.scope.map(|scope| scope.sealed(ring)),
            policy: self.policy,
            attempts: attempts.collect(),
            downstream: RecordedDownstream { response: self.response.response(more, default_end), request: request(self.request, more) },
            verdict: self.verdict,
            moments: self.moments.iter().map(|moment| (moment.time_ms, moment.counter)).collect(),
            mcp: self.mcp,
            redactions: 0,
            origin: None,
        }
    }
}

/// An id for an exchange without one, derived from its time and request.
fn made_id(request: &CapturedRequest, at_ms: u64) -> Uuid {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&at_ms.to_le_bytes()).update(request.url.as_bytes());
    request.body.pieces().iter().for_each(|piece| {
        hasher.update(piece);
    });
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

impl CapturedRequest {
    fn cut(&mut self, bytes_max: usize) -> bool {
        let is_cut = self.body.len() > bytes_max;
        if is_cut {
            self.body = self.body.beginning(bytes_max).into();
        }
        is_cut
    }
}

impl CapturedAttempt {
    /// Starts capturing an attempt.
    pub fn new(upstream: &str, after_ms: u64, request: CapturedRequest) -> Self {
        Self { upstream: upstream.to_owned(), after_ms, request, ..Self::default() }
    }

    /// Records a failure without a response.
    pub fn fail(&mut self, status: u16, code: &str, message: &str) {
        self.failed = Some(RecordedFailure { status, code: code.to_owned(), message: message.to_owned() });
    }
}

impl CapturedResponse {
    /// Records the head. `ms`: time since the request.
    pub fn head(&mut self, status: u16, headers: HeaderMap, ms: u64) {
        self.head = Some((status, headers, ms));
    }

    /// Records a piece of the body. `ms`: time since the request.
    pub fn piece(&mut self, bytes: Bytes, ms: u64) {
        let head_ms = self.head.as_ref().map_or(0, |(_, _, head_ms)| *head_ms);
        self.pieces.push((ms.saturating_sub(head_ms), bytes));
    }

    /// Bytes of the body so far.
    fn bytes(&self) -> usize {
        self.pieces.iter().map(|(_, piece)| piece.len()).sum()
    }

    fn cut(&mut self, bytes_max: usize) -> bool {
        let mut left = bytes_max;
        for at in 0..self.pieces.len() {
            let Some((_, piece)) = self.pieces.get_mut(at) else { break };
            if piece.len() > left {
                *piece = Bytes::copy_from_slice(piece.get(..left).unwrap_or_default());
                self.pieces.truncate(at + 1);
                return true;
            }
            left -= piece.len();
        }
        false
    }

    /// Records the end of the body.
    pub fn end(&mut self, end: BodyEnd) {
        self.end = Some(end);
    }

    fn response(self, more: &[String], default_end: BodyEnd) -> Option<RecordedResponse> {
        let (status, headers, head_ms) = self.head?;
        let streamed = headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
        let body = match &self.pieces[..] {
            [] => None,
            pieces if streamed => Some(RecordedBody::of_stream(pieces)),
            [(_, piece)] => Some(RecordedBody::of_bytes(piece.clone())),
            pieces => Some(RecordedBody::of_bytes(pieces.iter().flat_map(|(_, piece)| piece.to_vec()).collect::<Vec<u8>>().into())),
        };
        let cut = self.end.unwrap_or(default_end) == BodyEnd::Truncated;
        Some(RecordedResponse { status, head_ms: Some(head_ms), headers: kept(&headers, more), body, encoded: None, cut })
    }
}

fn request(message: CapturedRequest, more: &[String]) -> RecordedRequest {
    let body = (!message.body.is_empty()).then(|| RecordedBody::of_bytes(message.body.joined()));
    RecordedRequest { method: message.method, url: message.url, headers: kept(&message.headers, more), body, encoded: None }
}

/// The headers that are recorded. Credential headers are among them; the redactor removes their values, unless they are to be kept.
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
