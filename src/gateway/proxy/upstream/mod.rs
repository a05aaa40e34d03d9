//! Access to upstreams: pooled clients, headers that may pass, bounds on every wait and read.
//!
//! Every worker has its own clients, so that no connection is handed between threads.

pub mod candidates;
pub mod heard;
pub(super) mod inline_connection;
pub mod pool;
pub mod prober;
pub mod response;
pub mod select;
pub mod shared;
pub mod state;
pub mod status;
pub(super) mod timeout;
pub mod verifier;

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, uri::PathAndQuery};

use crate::{
    exchange::context,
    openai::Api,
    proxy::{
        error::Error,
        http::{credentials, failure::Failure},
    },
    settings::{ApiSupport, Credential, DefaultToolChoice, Settings, UpstreamSettings},
    sys::tls,
    sys::tls::TrustedRoots,
    upstreams::retry::AttemptFailure,
};
use pool::{Answer, Outgoing, SendError, UpstreamPool};
use response::BodyError;
use status::Asked;
use timeout::within;

/// Maximum bytes read of an error body.
pub const ERROR_BYTES_MAX: usize = 1 << 20;
/// Minimum length in bytes of a key that is masked in headers: a shorter one is a placeholder, whose text may occur anywhere.
const MASKED_BYTES_MIN: usize = 4;

/// Error of a request without an answer.
pub struct SendFailure {
    /// Kind of failure, which decides on a retry.
    pub failed: AttemptFailure,
    /// Error for the caller.
    pub failure: Failure,
}

impl From<SendFailure> for Failure {
    fn from(error: SendFailure) -> Self {
        error.failure
    }
}

/// One upstream as one worker reaches it.
pub struct Endpoint {
    /// Its settings.
    pub settings: UpstreamSettings,
    /// Its requirements for chat requests.
    pub chat: context::Upstream,
    client: UpstreamPool,
    /// Scheme and host of the base URL.
    pub(super) origin: Box<str>,
    /// Path of the base URL, without a slash at the end.
    prefix: Box<str>,
    targets: Vec<PathAndQuery>,
    /// Header with toolmark's own key.
    authorization: Option<(HeaderName, HeaderValue)>,
}

/// Use of the credential that a caller sent with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallerCredential {
    /// It is meant for the upstream.
    Passed,
    /// The upstream doesn't get it: it is meant for toolmark, or for another upstream.
    Withheld,
}

/// Body of an upstream's answer on its way to the application.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyPassage {
    /// It leaves as it came.
    Unchanged,
    /// It may be changed.
    MayChange,
}

impl Endpoint {
    /// The endpoints of all upstreams, in their order.
    ///
    /// # Errors
    /// [`Error`] if a client can't be created.
    pub fn all(settings: &Settings) -> Result<Vec<Self>, Error> {
        let encrypted = settings.upstreams.iter().any(|upstream| upstream.base_url.starts_with("https:"));
        let tls = tls::client_config(if encrypted { TrustedRoots::Platform } else { TrustedRoots::None })?;
        settings.upstreams.iter().map(|upstream| Self::new(upstream, &tls)).collect()
    }

    fn new(settings: &UpstreamSettings, tls: &rustls::ClientConfig) -> Result<Self, Error> {
        let base: Uri = settings.base_url.parse().map_err(http::Error::from)?;
        let client = UpstreamPool::new(&base, settings.timeouts.connect, tls)?;
        let prefix = base.path().trim_end_matches('/').into();
        let target = |path: &str| format!("{prefix}{path}").parse::<PathAndQuery>();
        let targets = Api::ALL.iter().map(|api| target(api.path())).collect::<Result<Vec<_>, _>>().map_err(http::Error::from)?;
        let chat = context::Upstream {
            tool_choice: match settings.tool_choice {
                DefaultToolChoice::Auto => None,
                DefaultToolChoice::Required => Some("required"),
                DefaultToolChoice::None => Some("none"),
            },
        };
        let authorization = match &settings.credential {
            Credential::Own { key, .. } => settings.key_header.header(key.expose()).ok(),
            Credential::Caller | Credential::None => None,
        };
        let origin = settings.base_url.split('/').take(3).collect::<Vec<_>>().join("/").into();
        Ok(Self { settings: settings.clone(), chat, client, origin, prefix, targets, authorization })
    }

    /// toolmark's own key for the upstream, which no answer may quote.
    pub fn own_key(&self) -> Option<&str> {
        match &self.settings.credential {
            Credential::Own { key, .. } => Some(key.expose()),
            Credential::Caller | Credential::None => None,
        }
    }

    /// The header with toolmark's own key; none if the upstream has no such key.
    pub fn own_header(&self) -> HeaderMap {
        self.authorization.clone().into_iter().collect()
    }

    /// Target of an enforced API. `None` if the query is invalid.
    pub fn enforced(&self, api: Api, query: Option<&str>) -> Option<PathAndQuery> {
        match query {
            None => self.targets.get(api as usize).cloned(),
            Some(_) => self.target(api.path(), query),
        }
    }

    /// Target of a path below the base URL. `None` if it is invalid.
    pub fn target(&self, rest: &str, query: Option<&str>) -> Option<PathAndQuery> {
        let mark = if query.is_some() { "?" } else { "" };
        format!("{}{rest}{mark}{}", self.prefix, query.unwrap_or_default()).parse().ok()
    }

    /// Target of a path beside `/v1`, such as `/health`: a `/v1` at the end of the base URL is removed. `None` if it is invalid.
    pub fn target_beside(&self, path: &str, query: Option<&str>) -> Option<PathAndQuery> {
        let mark = if query.is_some() { "?" } else { "" };
        let root = self.prefix.strip_suffix("/v1").unwrap_or(&self.prefix);
        format!("{root}{path}{mark}{}", query.unwrap_or_default()).parse().ok()
    }

    /// Closes connections that were unused for too long.
    pub fn sweep(&self) {
        self.client.sweep();
    }

    /// True if the upstream gets the caller's credential.
    pub fn takes_callers(&self, caller: CallerCredential) -> bool {
        caller == CallerCredential::Passed && self.settings.credential == Credential::Caller
    }

    /// True if the upstream stores objects that every caller could open: it isn't the caller's credential that opens them.
    pub fn opens_everybodys(&self, caller: CallerCredential) -> bool {
        self.settings.responses == ApiSupport::Native && !self.takes_callers(caller)
    }

    /// The caller's headers for the upstream.
    pub fn headers(&self, from: &HeaderMap, caller: CallerCredential) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(from.len() + 2);
        let listed = connection_listed(from);
        let takes_callers = self.takes_callers(caller);
        for (name, value) in from {
            let own =
                matches!(*name, header::HOST | header::CONTENT_LENGTH | header::ACCEPT_ENCODING | header::EXPECT | header::AUTHORIZATION);
            if own || is_hop(name) || names_another_request(name) || name.as_str().starts_with("toolmark-") || listed.contains(name) {
                continue;
            }
            if !takes_callers && credentials::is_credential(name) {
                continue;
            }
            headers.append(name, value.clone());
        }
        let authorization = match &self.settings.credential {
            Credential::Own { .. } => self.authorization.clone(),
            Credential::Caller if takes_callers => from.get(header::AUTHORIZATION).cloned().map(|value| (header::AUTHORIZATION, value)),
            Credential::Caller | Credential::None => None,
        };
        if let Some((name, value)) = authorization {
            headers.insert(name, value);
        }
        headers
    }

    /// The caller's headers for an upstream that the request wasn't routed to: only those without credentials.
    pub fn headers_elsewhere(&self, from: &HeaderMap) -> HeaderMap {
        let plain = from.iter().filter(|(name, _)| credentials::is_plain(name)).map(|(name, value)| (name.clone(), value.clone()));
        self.headers(&plain.collect(), CallerCredential::Withheld)
    }

    /// The caller's query for the upstream.
    pub fn query(&self, query: Option<String>, caller: CallerCredential) -> Option<String> {
        if self.takes_callers(caller) { query } else { credentials::without_credentials(&query?) }
    }

    /// The upstream's headers for the client, without toolmark's own key. `body`: headers on the body's length, digest and
    /// encoding are dropped if it may change.
    pub fn downstream_headers(&self, from: &HeaderMap, body: BodyPassage) -> HeaderMap {
        let mut headers = downstream_headers(from, body);
        if let Some(key) = self.own_key().filter(|key| key.len() >= MASKED_BYTES_MIN) {
            for value in headers.values_mut().filter(|value| value.len() >= key.len()) {
                if let Some(masked) = masked(value, key) {
                    *value = masked;
                }
            }
        }
        headers
    }

    /// Sends a request and waits for the head of the answer.
    ///
    /// # Errors
    /// [`SendFailure`] if the upstream is unreachable or too slow.
    pub async fn send(&self, method: Method, target: PathAndQuery, headers: HeaderMap, body: Outgoing) -> Result<Answer, SendFailure> {
        let name = &*self.settings.name;
        let sent = pin!(self.client.send(method, target, headers, body));
        match within(self.settings.timeouts.first_byte, sent).await {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                tracing::error!(upstream = name, error = %chain(&error), "the upstream `{name}` can't be reached");
                let (failed, failure) = match error {
                    SendError::ConnectTimeout => (AttemptFailure::Unreachable, Failure::timeout(name, "no connection in time")),
                    SendError::Connect(_) => (AttemptFailure::Unreachable, Failure::unreachable(name)),
                    SendError::Broken(error) => {
                        let failed = if error.is_parse() { AttemptFailure::Nonsense } else { AttemptFailure::BrokenOff };
                        (failed, Failure::protocol(name, "it broke off, or is no HTTP"))
                    }
                };
                Err(SendFailure { failed, failure })
            }
            None => {
                tracing::error!(upstream = name, "the upstream `{name}` sent nothing in time");
                Err(SendFailure { failed: AttemptFailure::Timeout, failure: Failure::timeout(name, "no answer in time") })
            }
        }
    }

    /// Sends a request and waits for the head of the answer. Has no deadline for the first byte and writes no log lines: the
    /// caller sets the deadline and counts failures.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send_quietly(
        &self,
        method: Method,
        target: PathAndQuery,
        headers: HeaderMap,
        body: Outgoing,
    ) -> Result<Answer, SendError> {
        self.client.send(method, target, headers, body).await
    }

    /// Checks that the response's status may be passed on. `rest`: the path below the base URL.
    ///
    /// # Errors
    /// 502 `upstream_protocol` for a redirect, or a status that is neither an answer's nor an error's.
    pub fn usable(&self, asked: Asked, rest: &str, response: &Answer) -> Result<(), Failure> {
        let (name, base_url) = (&*self.settings.name, &*self.settings.base_url);
        match status::unusable(asked, response.status(), response.headers(), base_url, rest, self.own_key()) {
            None => Ok(()),
            Some(why) => {
                tracing::error!(
                    upstream = name,
                    status = response.status().as_u16(),
                    "the answer of upstream `{name}` can't be passed on: {why}"
                );
                Err(Failure::protocol(name, why))
            }
        }
    }

    /// Reads a body completely.
    ///
    /// # Errors
    /// [`Failure`] if it breaks off, is too slow, or is longer than `bytes_max`.
    pub async fn read(&self, response: Answer, bytes_max: usize) -> Result<Bytes, Failure> {
        self.read_weighed(response, bytes_max, |_| Ok(())).await
    }

    /// [`Self::read`] with a quota: `weigh` gets the number of bytes before they are stored, and may refuse them.
    ///
    /// # Errors
    /// As [`Self::read`], and those of `weigh`.
    pub async fn read_weighed(
        &self,
        mut response: Answer,
        bytes_max: usize,
        mut weigh: impl FnMut(u64) -> Result<(), Failure>,
    ) -> Result<Bytes, Failure> {
        let name = &*self.settings.name;
        let mut first: Option<Bytes> = None;
        let mut joined = BytesMut::new();
        loop {
            let read = within(self.settings.timeouts.idle, pin!(response.body_mut().chunk())).await;
            let Some(chunk) = self.in_time(read)? else { break };
            if joined.len() + first.as_ref().map_or(0, Bytes::len) + chunk.len() > bytes_max {
                return Err(Failure::protocol(name, format_args!("it is longer than {bytes_max} bytes")));
            }
            weigh(chunk.len() as u64)?;
            if first.is_none() && joined.is_empty() {
                first = Some(chunk);
                continue;
            }
            joined.extend_from_slice(&first.take().unwrap_or_default());
            joined.extend_from_slice(&chunk);
        }
        Ok(first.unwrap_or_else(|| joined.freeze()))
    }

    /// Result of a read that was bounded in time (`None`: timeout).
    ///
    /// # Errors
    /// [`Failure`]: 504 after a timeout, 502 if the answer broke off.
    pub fn in_time<T>(&self, read: Option<Result<T, BodyError>>) -> Result<T, Failure> {
        let name = &*self.settings.name;
        match read {
            None => Err(Failure::timeout(name, "its answer stopped coming")),
            Some(Err(error)) => {
                tracing::error!(upstream = name, error = %chain(&error), "the answer of upstream `{name}` broke off");
                Err(Failure::protocol(name, "it broke off"))
            }
            Some(Ok(read)) => Ok(read),
        }
    }
}

/// A header with the key masked; `None` if it doesn't contain the key.
fn masked(value: &HeaderValue, key: &str) -> Option<HeaderValue> {
    let text = String::from_utf8_lossy(value.as_bytes());
    let hidden = if text.contains(key) {
        text.replace(key, "[masked]")
    } else {
        // As a parameter of a URL.
        let plain: String = form_urlencoded::parse(text.replace(['&', '='], " ").as_bytes()).map(|(text, _)| text.into_owned()).collect();
        plain.contains(key).then(|| "[masked]".to_owned())?
    };
    HeaderValue::try_from(hidden).ok().or(Some(HeaderValue::from_static("[masked]")))
}

/// An error with its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// True for headers of one connection, which never pass (RFC 9110, 7.6.1).
fn is_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
    )
}

/// True for headers by which some servers take a request for one to another path, or with another method.
fn names_another_request(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "x-original-url" | "x-rewrite-url" | "x-original-uri" | "x-http-method-override" | "x-http-method" | "x-method-override"
    )
}

/// Headers that `Connection` lists.
fn connection_listed(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

/// The upstream's headers for the client. `body`: as for [`Endpoint::downstream_headers`].
fn downstream_headers(from: &HeaderMap, body: BodyPassage) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(from.len() + 4);
    let listed = connection_listed(from);
    for (name, value) in from {
        let of_body = body == BodyPassage::MayChange
            && matches!(
                name.as_str(),
                "content-length" | "content-encoding" | "etag" | "content-md5" | "digest" | "repr-digest" | "content-digest"
            );
        if body == BodyPassage::MayChange && name == header::CONTENT_TYPE {
            headers.entry(name).or_insert_with(|| in_utf8(value));
            continue;
        }
        // What these say of an origin would be said of toolmark's: where else to send requests to.
        let of_origin = matches!(name.as_str(), "alt-svc" | "refresh");
        if !of_body && !of_origin && !is_hop(name) && !name.as_str().starts_with("toolmark-") && !listed.contains(name) {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// The type of a body that was judged, without any parameter but `charset=utf-8`: JSON and events are UTF-8 (RFC 8259, section 8.1), and were
/// read as that. Clients differ in how they read a parameter that is spelled in another way.
fn in_utf8(value: &HeaderValue) -> HeaderValue {
    let bytes = value.as_bytes();
    let mut parts = bytes.splitn(2, |byte| *byte == b';');
    let (kind, parameters) = (parts.next().unwrap_or_default(), parts.next().map(|rest| rest.trim_ascii().to_ascii_lowercase()));
    let known =
        parameters.is_none_or(|own| matches!(&*own, b"charset=utf-8" | b"charset=\"utf-8\"" | b"charset=utf8" | b"charset=\"utf8\""));
    // A list of types is two, of which a client may read the other one.
    let plain = || HeaderValue::from_bytes(kind.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()).ok();
    if known && !bytes.contains(&b',') { value.clone() } else { plain().unwrap_or_else(|| HeaderValue::from_static("application/json")) }
}

/// True for server-sent events.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"))
}

/// True if the body is encoded, although identity was requested.
pub fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// True for the status of an answer.
pub fn is_answer(status: StatusCode) -> bool {
    status.is_success()
}
