//! A scripted upstream: any status and bytes, in any pieces, cut or hanging anywhere.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener as StdListener},
    pin::Pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Timeout of [`ScriptedUpstream::wait`].
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A request that the upstream received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Number of the request, counting from 0.
    pub number: usize,
    /// Method and path, as `POST /v1/chat/completions`.
    pub line: String,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// Body of the request.
    pub body: Bytes,
}

impl Received {
    /// The body as JSON; `null` if it isn't JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A part of an answer's body.
#[derive(Clone, Debug)]
pub enum BodyPart {
    /// These bytes, in a separate write.
    Bytes(Bytes),
    /// The connection is cut here.
    Cut,
    /// Nothing more is sent, and the connection stays open.
    Hang,
}

/// A scripted response.
#[derive(Clone, Debug)]
pub struct ScriptedReply {
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    pieces: Vec<BodyPart>,
}

impl ScriptedReply {
    /// A JSON response with this status.
    pub fn json(status: u16, body: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, headers: vec![("content-type", "application/json".into())], pieces: vec![BodyPart::Bytes(body.into().into())] }
    }

    /// Server-sent events, in these pieces.
    pub fn events(pieces: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        let pieces = pieces.into_iter().map(|piece| BodyPart::Bytes(piece.into())).collect();
        Self { status: StatusCode::OK, headers: vec![("content-type", "text/event-stream".into())], pieces }
    }

    /// Server-sent events: one with each value as its data, then `[DONE]`.
    pub fn chunks(data: impl IntoIterator<Item = impl std::fmt::Display>) -> Self {
        let events = data.into_iter().map(|data| format!("data: {data}\n\n"));
        Self::events(events.chain(["data: [DONE]\n\n".to_owned()]).collect::<Vec<_>>())
    }

    /// Sets a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(own, _)| *own != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self
    }

    /// Appends a piece to the body.
    #[must_use]
    pub fn then(mut self, piece: BodyPart) -> Self {
        self.pieces.push(piece);
        self
    }

    fn response(self, shared: Arc<ScriptState>) -> Response<BodyParts> {
        let mut response = Response::new(BodyParts { left: self.pieces.into(), shared });
        *response.status_mut() = self.status;
        for (name, value) in self.headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().append(name, value);
            }
        }
        response
    }
}

struct BodyParts {
    left: std::collections::VecDeque<BodyPart>,
    shared: Arc<ScriptState>,
}

impl Drop for BodyParts {
    fn drop(&mut self) {
        if matches!(self.left.front(), Some(BodyPart::Hang)) {
            self.shared.note(|progress| progress.abandoned += 1);
        }
    }
}

impl http_body::Body for BodyParts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.left.pop_front() {
            None => Poll::Ready(None),
            Some(BodyPart::Bytes(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(BodyPart::Cut) => Poll::Ready(Some(Err(io::Error::other("cut, as scripted")))),
            Some(BodyPart::Hang) => {
                self.left.push_front(BodyPart::Hang);
                Poll::Pending
            }
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self.left.iter().collect::<Vec<_>>()[..] {
            [BodyPart::Bytes(bytes)] => http_body::SizeHint::with_exact(bytes.len() as u64),
            _ => http_body::SizeHint::default(),
        }
    }
}

type ReplyFn = dyn Fn(&Received) -> ScriptedReply + Send + Sync;

/// Progress of the upstream, for tests that wait for it.
#[derive(Default)]
struct Progress {
    received: Vec<Received>,
    /// Number of hanging answers whose connection was closed.
    abandoned: usize,
}

struct ScriptState {
    script: Box<ReplyFn>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl ScriptState {
    fn note<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        let changed = change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        changed
    }
}

/// A running scripted upstream; it stops when it is dropped.
pub struct ScriptedUpstream {
    address: SocketAddr,
    shared: Arc<ScriptState>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl ScriptedUpstream {
    /// Starts an upstream on a free loopback port.
    ///
    /// # Errors
    /// An error of the operating system, if there is no port or thread.
    pub fn start(script: impl Fn(&Received) -> ScriptedReply + Send + Sync + 'static) -> io::Result<Self> {
        let listener = StdListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ScriptState { script: Box::new(script), progress: Mutex::default(), changed: Condvar::new() });
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (own, token) = (shared.clone(), stop.clone());
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = token.cancelled() => {}
                    _ended = serve(own, listener) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("upstream".into()).spawn(serve)?;
        Ok(Self { address, shared, stop, thread: Some(thread) })
    }

    /// Value for `base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Requests received so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner).received.clone()
    }

    /// Waits until it received `received` requests and `abandoned` hanging answers were closed by the client; `false` after `PATIENCE`.
    pub fn wait(&self, received: usize, abandoned: usize) -> bool {
        let progress = self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let short = |progress: &mut Progress| progress.received.len() < received || progress.abandoned < abandoned;
        let waited = self.shared.changed.wait_timeout_while(progress, PATIENCE, short);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for ScriptedUpstream {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

async fn serve(shared: Arc<ScriptState>, listener: StdListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let _unsupported = stream.set_nodelay(true);
        let shared = shared.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let shared = shared.clone();
            async move { Ok::<_, Infallible>(answer(&shared, request).await) }
        });
        tokio::spawn(async move {
            // A client that disconnects doesn't concern the script.
            let _ended = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(shared: &Arc<ScriptState>, request: Request<Incoming>) -> Response<BodyParts> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let line = format!("{} {}", parts.method, parts.uri);
    let received = shared.note(|progress| {
        let received = Received { number: progress.received.len(), line, headers: parts.headers, body };
        progress.received.push(received.clone());
        received
    });
    let mut response = (shared.script)(&received).response(shared.clone());
    response.headers_mut().entry(header::SERVER).or_insert(http::HeaderValue::from_static("scripted"));
    response
}
