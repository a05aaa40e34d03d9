//! The listener and its workers: one single-threaded runtime per core, all accepting from one socket.
//!
//! A connection stays with its worker, and so does all that is done for it: nothing on the path of an exchange is handed
//! between threads, but for rare long judging (`helper_threads`). On SIGTERM no new connections are accepted, and running exchanges may finish within [`GRACE`].

pub(super) mod abreast;
pub mod admission;
pub(super) mod error_key_removal;
pub(super) mod idle_timeout;
pub mod passthrough;
pub(super) mod rejections;
pub mod request_checks;
pub mod route;
pub(in crate::proxy) mod stalls;
pub(super) mod stored_objects;

use std::{
    net::{SocketAddr, TcpListener as StdListener},
    pin::pin,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::{body::Incoming as HyperBody, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{
    exchange::{self, Incoming},
    upstream::Endpoint,
};
use crate::{
    chat::adapter::Chat,
    messages::adapter::Messages,
    openai::{Api, path::normalised},
    proxy::{
        app::{App, LastCaller},
        error::Error,
        exchange::responses,
        helper_threads::Movable,
        http::{body::Body, error_response, failure::Failure, headers},
        upstream::timeout::within,
        worker::Worker,
    },
    settings::CONNECTIONS_DEFAULT,
    sys::{
        clock::Began,
        limits::{self, REQUEST_SHARE},
    },
    wire::json::TextMemory,
};
use abreast::EVENTS_AT_ONCE;
use admission::{Held, MemoryPermit};
use idle_timeout::IdleTimeoutIo;
use passthrough::PassthroughTarget;
use rejections::RejectionRewriter;
use route::{Route, of_messages, route};
use stalls::StallWatch;

/// Connections from which nobody needs a warning who set no limit.
const CONNECTIONS_ENOUGH: usize = 1_000;
/// Interval of a timer that keeps each worker's next timer near.
const TICK: Duration = Duration::from_secs(1);
/// Grace period for running exchanges after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(30);
/// Time, and bytes, for which a client whose body is too large may go on sending before it gets the error.
const PASSED_OVER: Duration = Duration::from_secs(2);
const PASSED_OVER_BYTES_MAX: usize = 128 << 20;
/// Bytes of the shortest body that may outlive its exchange: it must not hold more memory than it has bytes, as that of its connection.
const OWN_BYTES_MIN: usize = 8 << 10;
/// Maximum bytes allocated for a body before it arrives.
const RESERVED_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of buffered headers, at which hyper itself refuses the request.
const HEADER_BUFFER_MAX: usize = 512 << 10;

/// The proxy's listener, bound.
pub struct Server {
    app: Arc<App>,
    listener: StdListener,
    address: SocketAddr,
}

impl Server {
    /// Binds the listener.
    ///
    /// # Errors
    /// [`Error`] if it can't be bound, with advice for the user.
    pub fn bind(app: Arc<App>) -> Result<Self, Error> {
        let address = app.settings.listen;
        let listener = StdListener::bind(address).map_err(|source| {
            let hint = match source.kind() {
                std::io::ErrorKind::AddrInUse => ": another process listens there; stop it, or choose another address with --listen",
                std::io::ErrorKind::PermissionDenied => ": ports below 1024 need privileges; choose another with --listen",
                std::io::ErrorKind::AddrNotAvailable => ": this machine has no such address",
                _ => "",
            };
            Error::Listen { address, hint, source }
        })?;
        listener.set_nonblocking(true)?;
        let wanted = app.load.connections_max();
        let most = limits::descriptors_for(wanted);
        if most < wanted {
            app.load.bound_connections(most);
            let raise = "raise the limit (ulimit -n, LimitNOFILE=)";
            // Nobody asked for the default: thousands of connections are enough then, a few are not.
            if app.settings.limits.connections == CONNECTIONS_DEFAULT && most >= CONNECTIONS_ENOUGH {
                tracing::info!(connections = most, "the system gives descriptors for {most} connections; for more {raise}");
            } else {
                tracing::warn!(
                    connections = most,
                    "the system gives descriptors for {most} connections, not the {wanted} of `limits.connections`: {raise}"
                );
            }
        }
        let address = listener.local_addr()?;
        Ok(Self { app, listener, address })
    }

    /// Address that it listens on; for port 0 in the settings, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts a worker per core. Each ends after `stop` is cancelled and its exchanges are done.
    ///
    /// # Errors
    /// [`Error`] if a worker can't start.
    pub fn start(self, stop: &CancellationToken) -> Result<Vec<JoinHandle<std::io::Result<()>>>, Error> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut threads = Vec::new();
        for number in 0..workers {
            let listener = self.listener.try_clone()?;
            let endpoints = Endpoint::all(&self.app.settings)?;
            let worker = Arc::new(Worker { app: self.app.clone(), endpoints });
            let stop = stop.clone();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_io_events_per_tick(EVENTS_AT_ONCE).build()?;
            let serve = move || runtime.block_on(serve(worker, listener, stop));
            threads.push(std::thread::Builder::new().name(format!("worker-{number}")).spawn(serve)?);
        }
        Ok(threads)
    }
}

async fn serve(worker: Arc<Worker>, listener: StdListener, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    // Where the next timer is far off, the runtime wakes itself, at the cost of a system call, for every timer that
    // is nearer: each request sets some. With one that is always near it never does.
    let own = worker.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            own.endpoints.iter().for_each(Endpoint::sweep);
        }
    });
    let client_idle = worker.app.settings.limits.client_idle;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(client_idle).max_buf_size(HEADER_BUFFER_MAX);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(HEADER_BUFFER_MAX as u32).keep_alive_interval(Some(client_idle));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection can't be accepted");
                    // Out of descriptors: give those that are open time to close.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        // Without it, streams stall for 40 ms.
        let _unsupported = stream.set_nodelay(true);
        accept(&worker, &builder, &graceful, stream);
    }
    drop(listener);
    let unfinished = tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err();
    if unfinished {
        tracing::warn!(grace_s = GRACE.as_secs(), "exchanges were cut off: they did not finish in time");
    }
    Ok(())
}

fn accept(worker: &Arc<Worker>, builder: &auto::Builder<TokioExecutor>, graceful: &GracefulShutdown, stream: TcpStream) {
    let connected = worker.app.load.connect();
    let idle = worker.app.settings.limits.client_idle;
    let worker = worker.clone();
    let overloaded = connected.is_none();
    let (last, answers) = (Arc::new(LastCaller::default()), StallWatch::default());
    let watch = answers.clone();
    let service = service_fn(move |request: Request<HyperBody>| {
        let (worker, last) = (worker.clone(), last.clone());
        let watch = (request.version() == Version::HTTP_2).then(|| watch.clone());
        async move {
            let response = if overloaded {
                too_many(&worker, api_of(request.uri(), request.headers().contains_key(&headers::ANTHROPIC_VERSION)))
            } else {
                handle(worker, &last, request).await
            };
            Ok::<_, std::convert::Infallible>(match watch {
                Some(watch) => response.map(|body| Body::watched(body, &watch)),
                None => response,
            })
        }
    });
    let connection = graceful.watch(
        builder.serve_connection(RejectionRewriter::new(IdleTimeoutIo::new(TokioIo::new(stream), idle, answers)), service).into_owned(),
    );
    tokio::spawn(async move {
        let _counted = connected;
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    });
}

fn too_many(worker: &Worker, api: Api) -> Response<Body> {
    let message = format!("more than {} connections: try again in a moment", worker.app.load.connections_max());
    let mut response = Failure::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message).response(api);
    response.headers_mut().insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

/// Handles one request of any kind.
async fn handle(worker: Arc<Worker>, last: &LastCaller, request: Request<HyperBody>) -> Response<Body> {
    let started = Began::now();
    // Only an error's form depends on the API, so the path isn't read for it before there is one.
    let (uri, version) = (request.uri().clone(), request.headers().contains_key(&headers::ANTHROPIC_VERSION));
    match dispatch(worker, last, request, started).await {
        Ok(response) => response,
        Err(failure) => failure.response(api_of(&uri, version)),
    }
}

/// The API whose errors the caller reads. `version`: the request names a version of the Messages API.
fn api_of(uri: &Uri, version: bool) -> Api {
    let path = normalised(uri.path()).unwrap_or_default();
    if version || of_messages(&path).is_some() { Api::Messages } else { Api::Chat }
}

async fn dispatch(worker: Arc<Worker>, last: &LastCaller, request: Request<HyperBody>, started: Began) -> Result<Response<Body>, Failure> {
    let settings = &worker.app.settings;
    request_checks::header_bounds(request.headers())?;
    if settings.listen.ip().to_canonical().is_loopback() {
        let authority = request.uri().authority().map(|authority| authority.as_str());
        request_checks::host(request.headers(), authority, &settings.allowed_hosts)?;
    }
    let found = route(request.method(), request.uri().path(), &settings.passthrough);
    match found {
        Route::Hello => return Ok(error_response::json(StatusCode::OK, "{}".to_owned())),
        Route::Health => return Ok(error_response::json(StatusCode::OK, "{\"status\":\"ok\"}".to_owned())),
        Route::InvalidPath => {
            let message = "a server might read another path in this one: send it without dot segments, `;`, backslashes, control characters, and escapes that hide them";
            return Err(Failure::new(StatusCode::BAD_REQUEST, "invalid_path", message));
        }
        Route::NotEnforced => return Err(not_enforced(request.method(), request.uri().path(), settings)),
        Route::Chat
        | Route::Responses
        | Route::Messages
        | Route::CountTokens
        | Route::Stored(_)
        | Route::Pass(_)
        | Route::PassBeside(_) => {}
    }
    let caller = worker.app.caller(last, request.headers(), request.uri().query()).ok_or_else(|| {
        let sent = [http::header::AUTHORIZATION, headers::API_KEY].iter().any(|name| request.headers().contains_key(name));
        let message = if sent {
            "this API key isn't known to toolmark: ask whoever runs it for one (`[[clients]]` of its settings)"
        } else {
            "no API key was sent: send one of toolmark's as `Authorization: Bearer …` or `x-api-key` (`[[clients]]` of its settings)"
        };
        Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    })?;
    let client = worker.app.client(&caller);
    let mut admitted = Held::new(&worker.app.load, client);
    if admitted.is_ok()
        && worker.app.load.counts_over_replicas(client)
        // Boxed: few clients have a rate.
        && let Err(failure) = Box::pin(worker.app.load.of_all_replicas(client)).await
    {
        admitted = Err(failure);
    }
    let held = match admitted {
        Ok(held) => held,
        Err(failure) => {
            Box::pin(pass_over(request.into_body())).await;
            return Err(failure);
        }
    };
    if let Some(passage) = PassthroughTarget::of(&found) {
        return Box::pin(passthrough::pass(worker, passage, request, held)).await;
    }
    if let Err(failure) = request_checks::plain_body(request.headers()) {
        Box::pin(pass_over(request.into_body())).await;
        return Err(failure);
    }
    let mut held = held;
    if !worker.app.recorder.room(settings.ledger.wait).await {
        let message = "the ledger can't be written, and too many records wait for it: try again in a moment";
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message));
    }
    let query = request.uri().query().map(str::to_owned);
    let method = request.method().clone();
    let (parts, body) = request.into_parts();
    let bytes_max = usize::try_from(settings.limits.request_bytes).unwrap_or(usize::MAX);
    let start = if parts.headers.contains_key(http::header::EXPECT) { BodyStart::AfterContinue } else { BodyStart::AtOnce };
    let (body, place) = read_body(body, bytes_max, settings.limits.client_idle, start, &mut held.weight).await?;
    // A conversation is copied when it is read, from where it is known already.
    let conversation = matches!(found, Route::Chat | Route::Responses | Route::Messages);
    let (body, place) = if conversation { (body, place) } else { (place.of(body), TextMemory::Kept) };
    let tape = match found {
        Route::Stored(_) => None,
        _ => worker.app.cassettes.capture(&parts.uri, &parts.headers, &body, started).await,
    };
    let incoming = Incoming { headers: parts.headers, query, body, place, caller, started, tape: tape.clone(), held };
    let response = match found {
        // Boxed: hyper moves what it is given, and either is large.
        Route::Responses => Movable::made(|| responses::responses(worker, incoming)).await,
        Route::Stored(what) => Movable::new(stored_objects::stored(worker, what, method, incoming)).await,
        Route::CountTokens => Movable::new(exchange::count::count::<Messages>(worker, incoming)).await,
        Route::Messages => Movable::made(|| exchange::serve::<Messages>(worker, incoming)).await,
        _ => Movable::made(|| exchange::serve::<Chat>(worker, incoming)).await,
    };
    Ok(match tape {
        Some(tape) => Body::recorded(response, tape),
        None => response,
    })
}

/// Paths of the admin listener.
const ADMIN_PATHS: [&str; 3] = ["/readyz", "/metrics", "/api"];

fn not_enforced(method: &Method, path: &str, settings: &crate::settings::Settings) -> Failure {
    let path = crate::wire::json::string::cut(path, 200);
    let plain = path.strip_prefix("/openai").unwrap_or(path);
    let plain = plain.strip_prefix("/v1").unwrap_or(plain).trim_end_matches('/');
    let admin = ADMIN_PATHS.iter().any(|own| plain == *own || plain.starts_with(&format!("{own}/")));
    // `/v1/v1/chat/completions`, `/api/chat/completions`, `/chat/completion`
    let enforced = ["/chat/completions", "/responses", "/messages"];
    let near = enforced.into_iter().find(|own| plain.ends_with(own) || plain.trim_end_matches('s') == own.trim_end_matches('s'));
    let advice = match settings.admin.listen {
        _ if enforced.contains(&plain) => ". It takes POST only".to_owned(),
        _ if let Some(near) = near => {
            format!(". Did you mean /v1{near}? A client's base URL is this address with /v1 behind it, once")
        }
        _ if matches!(plain, "/api/chat" | "/api/generate") => {
            ". That is Ollama's own API; toolmark takes OpenAI's, which Ollama serves too: /v1/chat/completions".to_owned()
        }
        Some(listen) if admin => format!(". It is served by the admin listener: http://{listen}{plain}"),
        _ if plain.is_empty() => ". Set your client's base URL to this address with /v1 behind it".to_owned(),
        _ if route::may_pass(path) => format!(". A path that carries none can be let through: `passthrough = [\"{path}\"]`"),
        _ => String::new(),
    };
    let message = format!("{method} {path} is not enforced by toolmark, so it is refused: tool calls could pass unseen{advice}");
    Failure::new(StatusCode::NOT_IMPLEMENTED, "endpoint_not_enforced", message)
}

/// Time at which a client sends the body of its request.
#[derive(Clone, Copy, Eq, PartialEq)]
enum BodyStart {
    /// Right after the head.
    AtOnce,
    /// Not before it gets `100 Continue` (`Expect: 100-continue`).
    AfterContinue,
}

/// Reads a request's body, bounded in bytes and in the time that the client may pause; and tells whether it has memory of its own.
async fn read_body(
    mut body: HyperBody,
    bytes_max: usize,
    idle_max: Duration,
    start: BodyStart,
    weight: &mut MemoryPermit,
) -> Result<(Bytes, TextMemory), Failure> {
    let own = |body: Bytes| Ok((body, TextMemory::Kept));
    let too_large = || {
        let message = format!("the request is larger than {bytes_max} bytes: see `limits.request_bytes`");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    };
    let mut large = body.size_hint().lower() > bytes_max as u64;
    let expected = body.size_hint().exact().unwrap_or(0) as usize;
    let mut joined = BytesMut::new();
    while !large {
        let frame = match within(idle_max, pin!(body.frame())).await {
            None => return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the request's body stopped coming")),
            Some(Some(Err(_))) => return Err(Failure::new(StatusCode::BAD_REQUEST, "invalid_request", "the request's body broke off")),
            Some(None) if joined.capacity() - joined.len() > OWN_BYTES_MIN => return own(Bytes::copy_from_slice(&joined)),
            Some(None) => return own(joined.freeze()),
            Some(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if let Err(failure) = weight.grow((data.len() as u64).saturating_mul(REQUEST_SHARE)) {
            drop(joined);
            Box::pin(pass_over(body)).await;
            return Err(failure);
        }
        // The usual case: it all came at once.
        if joined.is_empty() && data.len() == expected && expected > 0 {
            let place = if data.len() < OWN_BYTES_MIN { TextMemory::Kept } else { TextMemory::Copied };
            return Ok((data, place));
        }
        large = joined.len() + data.len() > bytes_max;
        if !large {
            if joined.is_empty() {
                // Not all that was announced: nothing of it may ever come.
                joined.reserve(expected.min(RESERVED_BYTES_MAX));
            }
            joined.extend_from_slice(&data);
        }
    }
    if start == BodyStart::AtOnce {
        drop(joined);
        Box::pin(pass_over(body)).await;
    }
    Err(too_large())
}

/// Reads and drops what the client still sends: a client that is cut off while it sends never sees the answer.
async fn pass_over(mut body: HyperBody) {
    let mut passed = 0;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            passed += frame.data_ref().map_or(0, Bytes::len);
            if passed > PASSED_OVER_BYTES_MAX {
                return;
            }
        }
    };
    // Whoever takes longer may miss the answer.
    let _cut_off = tokio::time::timeout(PASSED_OVER, reading).await;
}
