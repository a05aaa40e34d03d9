//! Connections to one upstream, kept open between requests: HTTP/1.1, or HTTP/2 where TLS negotiates it.
//!
//! An upstream is one origin and a worker one thread, so a pool is a list: without keys, waiting, or a task that hands
//! connections back. hyper speaks the protocol; this file only selects the connection for a request. HTTP/1.1 connections
//! are polled by `inline_connection.rs`.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header, uri::PathAndQuery};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, client::conn::http2};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::connect::{Connection as _, HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tower_service::Service as _;

use crate::{proxy::upstream::inline_connection::InlineConnection, wire::rope::Rope};

/// Time after which an unused connection is closed.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// Maximum bytes of an upstream's headers.
pub(in crate::proxy) const HEADER_BUFFER_MAX: usize = 512 << 10;
/// Interval of the pings on an HTTP/2 connection.
const PING: Duration = Duration::from_secs(30);

/// Error of a request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No connection within the timeout.
    #[error("no connection in time")]
    ConnectTimeout,
    /// The connection failed.
    #[error("no connection: {0}")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke, or the upstream doesn't speak HTTP.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

impl SendError {
    fn connect(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
        while let Some(one) = cause {
            if one.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut) {
                return Self::ConnectTimeout;
            }
            cause = one.source();
        }
        Self::Connect(error)
    }
}

/// Body of a request to an upstream.
pub enum Outgoing {
    /// Complete body.
    Whole(Bytes),
    /// Complete body in pieces, and the number of bytes that are left of it.
    Pieces(std::vec::IntoIter<Bytes>, usize),
    /// Body passed on as it arrives.
    Pass(Incoming),
}

/// Body of a live answer. Its connection goes back to the pool when the body has been read, or is dropped.
pub struct LiveBody {
    incoming: Incoming,
    /// Must be dropped after `incoming`: that tells the connection that nobody reads on.
    lease: Option<Lease>,
}

pub use crate::proxy::upstream::response::{Answer, AnswerBody};

/// Connection pool of one worker for one upstream.
pub struct UpstreamPool {
    connector: HttpsConnector<HttpConnector>,
    origin: Uri,
    host: HeaderValue,
    connect_timeout: Duration,
    open: Arc<Mutex<Connections>>,
}

#[derive(Default)]
struct Connections {
    /// Unused HTTP/1.1 connections, the one used last at the end.
    idle: Vec<(InlineConnection, Instant)>,
    shared: Option<http2::SendRequest<Outgoing>>,
}

/// HTTP/1.1 connection in use; it goes back to the pool on drop.
struct Lease {
    /// `None` once it is back in the pool.
    driven: Option<InlineConnection>,
    open: Arc<Mutex<Connections>>,
}

enum Connection {
    One(InlineConnection),
    Shared(http2::SendRequest<Outgoing>),
}

impl UpstreamPool {
    /// Pool for the origin of `base`, an http or https URL; `tls` is used for https.
    ///
    /// # Errors
    /// [`http::Error`] if `base` has no valid origin.
    pub fn new(base: &Uri, connect_timeout: Duration, tls: &rustls::ClientConfig) -> Result<Self, http::Error> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect_timeout));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http().enable_all_versions().wrap_connector(http);
        let authority = base.authority().map_or("", |authority| authority.as_str());
        let origin = Uri::builder().scheme(base.scheme_str().unwrap_or("http")).authority(authority).path_and_query("/").build()?;
        let host = HeaderValue::from_str(authority)?;
        Ok(Self { connector, origin, host, connect_timeout, open: Arc::default() })
    }

    /// Sends a request and waits for the head of the answer. If a pooled connection rejects the request unsent, as when the
    /// upstream has just closed it, the request goes out on another connection; nothing is ever sent twice.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send(&self, method: Method, target: PathAndQuery, headers: HeaderMap, body: Outgoing) -> Result<Answer, SendError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        loop {
            let (connection, fresh) = match self.kept() {
                Some(kept) => (kept, false),
                // Rare, and large: it would make every exchange as large.
                None => (Box::pin(self.connect()).await?, true),
            };
            let mut failed = match connection {
                Connection::One(mut driven) => {
                    *request.uri_mut() = Uri::from(target.clone());
                    request.headers_mut().insert(header::HOST, self.host.clone());
                    match driven.send(request).await {
                        Ok(response) => return Ok(self.answer(response, Some(driven))),
                        Err(failed) => failed,
                    }
                }
                Connection::Shared(mut sender) => {
                    let mut parts = self.origin.clone().into_parts();
                    parts.path_and_query = Some(target.clone());
                    // INVARIANT: an origin with another path is a URI.
                    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
                    request.headers_mut().remove(header::HOST);
                    match sender.try_send_request(request).await {
                        Ok(response) => return Ok(self.answer(response, None)),
                        Err(failed) => failed,
                    }
                }
            };
            // What turned a request away takes no other.
            self.open().shared = None;
            // A pooled connection may hand the request back unsent.
            request = match failed.take_message() {
                Some(request) if !fresh => request,
                _ => return Err(failed.into_error().into()),
            };
        }
    }

    /// Closes connections that were unused for more than 90 s.
    pub fn sweep(&self) {
        let now = Instant::now();
        self.open().idle.retain_mut(|(driven, since)| driven.lives() && now.duration_since(*since) < IDLE_MAX);
    }

    fn open(&self) -> MutexGuard<'_, Connections> {
        open(&self.open)
    }

    fn kept(&self) -> Option<Connection> {
        let mut open = self.open();
        open.shared.take_if(|shared| shared.is_closed());
        if let Some(shared) = &open.shared {
            return Some(Connection::Shared(shared.clone()));
        }
        // One that is still busy with the rest of an answer stays where it is.
        let at = open.idle.iter_mut().rposition(|(driven, _)| driven.is_free())?;
        Some(Connection::One(open.idle.remove(at).0))
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let connecting = async {
            let stream = self.connector.clone().call(self.origin.clone()).await.map_err(SendError::connect)?;
            if stream.connected().is_negotiated_h2() {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.timer(TokioTimer::new()).keep_alive_interval(PING).max_header_list_size(HEADER_BUFFER_MAX as u32);
                let (mut sender, connection) = builder.adaptive_window(true).handshake(stream).await?;
                tokio::spawn(connection);
                sender.ready().await?;
                self.open().shared = Some(sender.clone());
                return Ok(Connection::Shared(sender));
            }
            Ok(Connection::One(InlineConnection::open(stream).await?))
        };
        tokio::time::timeout(self.connect_timeout, connecting).await.map_err(|_| SendError::ConnectTimeout)?
    }

    fn answer(&self, response: Response<Incoming>, driven: Option<InlineConnection>) -> Answer {
        let lease = driven.map(|driven| Lease { driven: Some(driven), open: self.open.clone() });
        response.map(|incoming| LiveBody { incoming, lease }.into())
    }
}

fn open(open: &Mutex<Connections>) -> MutexGuard<'_, Connections> {
    // Never contended: a worker's connections are its own.
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Lease {
    /// Puts the connection back into the pool. hyper skips unread bytes that have arrived already; if more are missing it
    /// closes the connection, which tells the upstream that nobody reads on.
    fn drop(&mut self) {
        if let Some(mut driven) = self.driven.take()
            // What a panic left half done is not touched again.
            && !std::thread::panicking()
            && driven.lives()
        {
            open(&self.open).idle.push((driven, Instant::now()));
        }
    }
}

impl LiveBody {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`hyper::Error`] if the connection broke.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, hyper::Error> {
        loop {
            match self.frame().await.transpose()? {
                None => return Ok(None),
                // Trailers say nothing to anyone here.
                Some(frame) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => continue,
                },
            }
        }
    }
}

impl HttpBody for LiveBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming, lease } = &mut *self;
        let polled = match lease.as_mut().and_then(|lease| lease.driven.as_mut()) {
            Some(driven) => driven.poll(cx, |_, cx| Pin::new(&mut *incoming).poll_frame(cx)),
            None => Pin::new(incoming).poll_frame(cx),
        };
        if matches!(polled, Poll::Ready(None)) {
            *lease = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Pieces(pieces, left) => {
                let piece = pieces.next();
                *left = left.saturating_sub(piece.as_ref().map_or(*left, Bytes::len));
                Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
            }
            Self::Pass(incoming) => Pin::new(incoming).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Pieces(_, left) => *left == 0,
            Self::Pass(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(_, left) => SizeHint::with_exact(*left as u64),
            Self::Pass(incoming) => incoming.size_hint(),
        }
    }
}

impl From<Rope> for Outgoing {
    fn from(rope: Rope) -> Self {
        match rope.pieces() {
            [_, _, ..] => {
                let left = rope.len();
                Self::Pieces(rope.into_iter(), left)
            }
            _ => Self::Whole(rope.joined()),
        }
    }
}

impl From<Bytes> for Outgoing {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
