//! Tools from MCP servers: connected, supervised, offered to models, and run if the settings say so.
//!
//! A dedicated thread owns the connections; workers wait for it only during calls. The offered tools are a
//! [`catalog::Catalog`], whose generation tells workers that it changed.

pub mod catalog;
pub mod connection;
pub mod metrics;
pub mod outcome;
pub mod pins;
pub mod runner;
pub mod schema;
#[cfg(feature = "mcp")]
pub mod sdk;
#[cfg(not(feature = "mcp"))]
#[path = "no_sdk.rs"]
pub mod sdk;
pub mod server;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::settings::{Execute, McpServer, Settings};
use catalog::{Catalog, NameAllocator, ServerStatus};
use connection::{CONNECT_MAX, Connector};
use pins::{PinError, Pins};
use runner::CallRunner;
use sdk::RmcpConnector;
use server::{SupervisedServer, ToolCallStats};

/// Time limit for connecting and listing at startup.
const START_MAX: Duration = Duration::from_secs(2 * CONNECT_MAX.as_secs());

/// Startup error of the MCP servers.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// A required server is missing, or lacks required tools.
    #[error("{0}; start it, or set `required = false`")]
    Required(String),
    /// The pin file can't be used.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The thread could not be started.
    #[error("the thread of the MCP servers can't start: {0}")]
    Thread(#[from] std::io::Error),
}

/// All MCP servers, their catalog, and their calls.
pub struct Mcp {
    servers: Vec<Arc<SupervisedServer>>,
    pins: ArcSwap<Pins>,
    /// Number of times that the pins were read again.
    pins_read: AtomicU64,
    pin_file: PathBuf,
    names: Mutex<NameAllocator>,
    catalog: ArcSwap<(u64, Catalog)>,
    calls: CallRunner,
    runtime: tokio::runtime::Handle,
    stop: CancellationToken,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// Health of one server, for people and for `/readyz`.
#[derive(Clone, Debug)]
pub struct ServerHealth {
    /// Its name.
    pub name: Box<str>,
    /// The server is required.
    pub required: bool,
    /// Party that runs its tools: the application or toolmark.
    pub execute: Execute,
    /// Reason why it is down; `None` while it is up.
    pub down: Option<Arc<str>>,
    /// Protocol version, while it is up.
    pub version: Option<Arc<str>>,
    /// Statistics by tool.
    pub figures: Vec<(Box<str>, ToolCallStats)>,
}

impl Mcp {
    /// Connects to the servers in the settings, with the pins beside the settings' file.
    ///
    /// # Errors
    /// [`McpError`] of [`Self::connect`].
    pub fn of_settings(settings: &Settings) -> Result<Self, McpError> {
        Self::connect(settings.mcp.clone(), Pins::path(settings.file.as_deref()), Arc::new(RmcpConnector))
    }

    /// Connects to the servers in the settings; `None` if there are none.
    ///
    /// # Errors
    /// [`McpError`]: a required server can't be used.
    pub fn start(settings: &Settings) -> Result<Option<Arc<Self>>, McpError> {
        if settings.mcp.is_empty() {
            return Ok(None);
        }
        let mcp = Self::of_settings(settings)?;
        let catalog = mcp.catalog();
        if let Some(why) = catalog.1.missing() {
            return Err(McpError::Required(why.to_owned()));
        }
        for notice in &catalog.1.notices {
            tracing::warn!("{notice}");
        }
        let pins = mcp.pins();
        for server in mcp.servers.iter().filter(|server| !pins.servers.contains_key(&*server.settings.name)) {
            let name = &server.settings.name;
            tracing::info!(
                server = &**name,
                "the tools of the MCP server `{name}` aren't pinned: pin what you looked at with `toolmark mcp pin`"
            );
        }
        Ok(Some(Arc::new(mcp)))
    }

    /// Like [`Self::start`] with another connector; missing servers are no error.
    ///
    /// # Errors
    /// [`McpError`]
    pub fn connect(servers: Vec<McpServer>, pin_file: PathBuf, connect: Arc<dyn Connector>) -> Result<Self, McpError> {
        let pins = Pins::read(&pin_file)?;
        let servers: Vec<Arc<SupervisedServer>> = servers.into_iter().map(|server| Arc::new(SupervisedServer::new(server))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (handle, stop) = (runtime.handle().clone(), CancellationToken::new());
        let (done, all) = std::sync::mpsc::channel();
        let (own, token) = (servers.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("mcp".into()).spawn(move || runtime.block_on(run(own, connect, token, done)))?;
        // Who isn't there by now is down.
        let _late = all.recv_timeout(START_MAX);
        let mcp = Self {
            servers,
            pins: ArcSwap::from_pointee(pins),
            pins_read: AtomicU64::new(0),
            pin_file,
            names: Mutex::default(),
            catalog: ArcSwap::default(),
            calls: CallRunner::default(),
            runtime: handle,
            stop,
            thread: Mutex::new(Some(thread)),
        };
        mcp.build();
        Ok(mcp)
    }

    /// Generation of the catalog: the number of changes of all servers and of the pins.
    pub fn generation(&self) -> u64 {
        self.servers.iter().map(|server| server.generation()).sum::<u64>() + self.pins_read.load(Ordering::Acquire)
    }

    /// Reads the pins again, after `toolmark mcp pin` or `approve`. Where they can't be read, those of before stay.
    pub fn reread_pins(&self) {
        match Pins::read(&self.pin_file) {
            Ok(pins) => {
                self.pins.store(Arc::new(pins));
                self.pins_read.fetch_add(1, Ordering::Release);
                tracing::info!(path = %self.pin_file.display(), "the pins of the MCP servers' tools were read again");
            }
            Err(error) => tracing::error!(%error, "the pins can't be read: those of before stay"),
        }
    }

    /// The current catalog with its generation; rebuilt if a server changed.
    pub fn catalog(&self) -> Arc<(u64, Catalog)> {
        let catalog = self.catalog.load_full();
        if catalog.0 == self.generation() { catalog } else { self.build() }
    }

    fn build(&self) -> Arc<(u64, Catalog)> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken first: what changes meanwhile is seen the next time.
        let generation = self.generation();
        let settings: Vec<McpServer> = self.servers.iter().map(|server| server.settings.clone()).collect();
        let standings: Vec<ServerStatus> = self.servers.iter().map(|server| server.standing()).collect();
        let pins = self.pins();
        let drift = |(server, standing): (&McpServer, &ServerStatus)| match standing {
            ServerStatus::Up(tools) => pins.drifts(&server.name, tools),
            ServerStatus::Down(_) => Vec::new(),
        };
        let drifts: Vec<_> = settings.iter().zip(&standings).map(drift).collect();
        let catalog = Arc::new((generation, Catalog::build(&settings, &standings, &drifts, &mut names)));
        self.catalog.store(catalog.clone());
        catalog
    }

    /// The servers.
    pub fn servers(&self) -> &[Arc<SupervisedServer>] {
        &self.servers
    }

    /// Outcomes of calls.
    pub fn calls(&self) -> &CallRunner {
        &self.calls
    }

    /// Handle of the runtime that owns the connections.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }

    /// The pins, as they were read last.
    pub fn pins(&self) -> Arc<Pins> {
        self.pins.load_full()
    }

    /// Path of the pin file.
    pub fn pin_file(&self) -> &std::path::Path {
        &self.pin_file
    }

    /// Health of all servers.
    pub fn health(&self) -> Vec<ServerHealth> {
        let health = |server: &Arc<SupervisedServer>| ServerHealth {
            name: server.settings.name.clone(),
            required: server.settings.required,
            execute: server.settings.execute,
            down: match server.standing() {
                ServerStatus::Up(_) => None,
                ServerStatus::Down(why) => Some(why),
            },
            version: server.version(),
            figures: server.figures(),
        };
        self.servers.iter().map(health).collect()
    }
}

impl Mcp {
    /// Ends all connections, even if calls are in flight.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        self.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last to hold it may be a call that runs on that very thread.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

async fn run(servers: Vec<Arc<SupervisedServer>>, connect: Arc<dyn Connector>, stop: CancellationToken, done: std::sync::mpsc::Sender<()>) {
    let mut firsts = Vec::new();
    let mut supervised = tokio::task::JoinSet::new();
    for server in servers {
        let (first, was_first) = oneshot::channel();
        firsts.push(was_first);
        supervised.spawn(server.supervise(connect.clone(), stop.clone(), first));
    }
    for first in firsts {
        // Gone without a word: stopped.
        let _gone = first.await;
    }
    let _nobody_waits = done.send(());
    stop.cancelled().await;
    while supervised.join_next().await.is_some() {}
}
