//! The admin listener: health, metrics, what the ledger holds, live events and the dashboard. docs/contract.md#endpoints.
//!
//! It has its own thread and listener, so that no worker waits for a request here. Queries block, so they run on a few
//! threads of their own.

mod access;
mod api;
mod codes;
mod dashboard;
mod events;
mod exchanges;
mod health;
mod ledger;
mod loops;
mod policy;
mod process_metrics;
mod query;
mod responses;
mod route;
mod upstreams;

use std::{
    net::{SocketAddr, TcpListener as StdListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::proxy::{
    app::App,
    error::Error,
    http::{body::Body, failure::Failure},
    server::request_checks,
};
use access::{AdminCaller, Role};
use ledger::Verification;
use route::{AdminRoute, route};

/// Maximum concurrent connections.
const CONNECTIONS_MAX: usize = 256;
/// Maximum threads for queries.
const LOOKING_UP: usize = 4;
/// Time limit for a client's headers.
const HEADERS: Duration = Duration::from_secs(30);
/// Grace period for running requests at shutdown; feeds end at once.
const GRACE: Duration = Duration::from_secs(5);

/// Admin listener, bound.
pub struct AdminServer {
    state: Arc<AdminState>,
    listener: StdListener,
    address: SocketAddr,
}

/// State shared by its requests.
struct AdminState {
    app: Arc<App>,
    stop: CancellationToken,
    connections: AtomicUsize,
    verification: Verification,
}

impl AdminServer {
    /// Binds the listener; `None` if the settings turn it off, or if they don't name its address and the default one is in
    /// use. It stops when `stop` is cancelled.
    ///
    /// # Errors
    /// [`Error`] if the settings name an address that can't be listened on.
    pub fn bind(app: Arc<App>, stop: CancellationToken) -> Result<Option<Self>, Error> {
        let settings = &app.settings.admin;
        let Some(address) = settings.listen else { return Ok(None) };
        let listener = match StdListener::bind(address) {
            Ok(listener) => listener,
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !settings.explicit => {
                tracing::warn!(
                    %address,
                    "no admin listener, metrics and dashboard: another process listens on {address}; choose another address in [admin] listen"
                );
                return Ok(None);
            }
            Err(source) => return Err(Error::Listen { address, hint: ": see [admin] listen; \"off\" does without", source }),
        };
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        process_metrics::register(&app);
        let state = Arc::new(AdminState { app, stop, connections: AtomicUsize::new(0), verification: Verification::default() });
        Ok(Some(Self { state, listener, address }))
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// [`std::io::Error`] if its runtime can't start.
    pub fn run(self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(LOOKING_UP).build()?;
        let served = runtime.block_on(serve(self.state, self.listener));
        // A look-up that hangs doesn't keep the process from ending.
        runtime.shutdown_timeout(GRACE);
        served
    }
}

async fn serve(state: Arc<AdminState>, listener: StdListener) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(HEADERS));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "an admin connection can't be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = state.stop.cancelled() => break,
        };
        accept(&state, &builder, &graceful, stream);
    }
    drop(listener);
    // Whoever is still served is cut off.
    let _unfinished = tokio::time::timeout(GRACE, graceful.shutdown()).await;
    Ok(())
}

fn accept(state: &Arc<AdminState>, builder: &auto::Builder<TokioExecutor>, graceful: &GracefulShutdown, stream: TcpStream) {
    if state.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
        state.connections.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let _unsupported = stream.set_nodelay(true);
    let counted = ConnectionPermit(state.clone());
    let own = state.clone();
    let peer = stream.peer_addr().ok();
    let service = service_fn(move |request| {
        let state = own.clone();
        async move { Ok::<_, std::convert::Infallible>(handle(state, request, peer).await) }
    });
    let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
    tokio::spawn(async move {
        let _counted = counted;
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an admin connection ended early");
        }
    });
}

struct ConnectionPermit(Arc<AdminState>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn handle(state: Arc<AdminState>, request: Request<Incoming>, peer: Option<SocketAddr>) -> Response<Body> {
    let mut response = match dispatch(&state, request, peer).await {
        Ok(response) => response,
        Err(failure) => responses::failure(&failure),
    };
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(http::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, http::HeaderValue::from_static("nosniff"));
    response
}

async fn dispatch(state: &Arc<AdminState>, request: Request<Incoming>, peer: Option<SocketAddr>) -> Result<Response<Body>, Failure> {
    let settings = &state.app.settings;
    request_checks::header_bounds(request.headers())?;
    if settings.admin.listen.is_none_or(|address| address.ip().to_canonical().is_loopback()) {
        let authority = request.uri().authority().map(|authority| authority.as_str());
        request_checks::host(request.headers(), authority, &settings.allowed_hosts)?;
    }
    let found = route(request.method(), request.uri().path())?;
    let caller = AdminCaller::of(&settings.admin, request.headers(), peer);
    if caller.role < found.needs() {
        return Err(if caller.role == Role::Nobody { responses::unauthorized() } else { responses::forbidden() });
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    let app = &state.app;
    match found {
        AdminRoute::Page(file) => Ok(dashboard::file(file)),
        AdminRoute::Health => Ok(responses::json(&serde_json::json!({"status": "ok"}))),
        AdminRoute::Ready => {
            let detail = if caller.role > Role::Nobody { health::ReadinessDetail::Parts } else { health::ReadinessDetail::Ready };
            health::ready(state, detail).await
        }
        AdminRoute::Metrics => Ok(health::metrics(app, request.headers())),
        AdminRoute::Executions => api::executions(app, &caller, &query).await,
        AdminRoute::Execution(id) => api::execution(app, &caller, id, &query).await,
        AdminRoute::Violations => api::violations(app, &caller, &query).await,
        AdminRoute::Stats => api::statistics(app, &query).await,
        AdminRoute::Exchanges => exchanges::list(app, &caller, &query).await,
        AdminRoute::Exchange(id) => exchanges::record(app, &caller, &id, &query).await,
        AdminRoute::Timeline(id) => exchanges::timeline(app, &caller, &id, &query).await,
        AdminRoute::Cassette(id) => exchanges::cassette(app, &caller, &id, &query).await,
        AdminRoute::Sessions => exchanges::sessions(app, &query).await,
        AdminRoute::Session(name) => exchanges::session(app, &caller, name, &query).await,
        AdminRoute::Refusals => exchanges::refusals(app, &caller, &query).await,
        AdminRoute::Failures => api::failure_history(app, &query).await,
        AdminRoute::Policy => policy::policy(app, &query).await,
        AdminRoute::WhatIf => policy::what_if(app, request).await,
        AdminRoute::Ledger => ledger::ledger(state, &query).await,
        AdminRoute::VerifyLedger => ledger::verify(state, &query),
        AdminRoute::Upstreams => upstreams::upstreams(app, &query).await,
        AdminRoute::WhoAmI => Ok(responses::json(&who_am_i(app, &caller))),
        AdminRoute::OpenApi => Ok(responses::of(http::StatusCode::OK, "application/json", OPENAPI)),
        AdminRoute::Events => events::events(state, &query),
        AdminRoute::ResetLoops => loops::reset(app, request).await,
    }
}

/// The document that describes the API.
const OPENAPI: &str = include_str!("openapi.json");

/// The caller's role, and what it may read.
fn who_am_i(app: &App, caller: &AdminCaller) -> serde_json::Value {
    let needs_token = app.settings.admin.token.is_some() || app.settings.admin.read_token.is_some();
    serde_json::json!({
        "role": caller.role.as_str(), "bodies": caller.reads_bodies, "needs_token": needs_token, "version": env!("CARGO_PKG_VERSION"),
    })
}
