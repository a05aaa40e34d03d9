//! Supervision of one server: connects, lists, watches, and reconnects after a failure.
//!
//! ```text
//! connecting ──listed──▶ up ──list fails, connection ends──▶ down ──after a pause that doubles──▶ connecting
//! ```

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::catalog::{ServerStatus, ServerTool};
use crate::{
    mcp::connection::{Connector, McpConnection, ToolList},
    mcp::outcome::ToolOutcome,
    settings::McpServer,
};

/// Maximum interval between listings of a server's tools.
const CHECK: Duration = Duration::from_secs(60);
/// Minimum interval between listings, however short the freshness a server declares.
const CHECK_MIN: Duration = Duration::from_secs(5);
/// First and longest pause before a reconnect.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Minimum interval between listings after a server announces changes.
const GAP: Duration = Duration::from_millis(250);
/// Time limit for a server to end.
const ENDING: Duration = Duration::from_secs(8);
/// Time without trouble after which the pauses start anew.
const SETTLED: Duration = Duration::from_secs(30);

/// One supervised server.
pub struct SupervisedServer {
    /// Its settings.
    pub settings: McpServer,
    state: ArcSwap<NumberedState>,
    /// Notified on trouble: the supervisor checks the server at once.
    look: Notify,
    changed: Arc<Notify>,
    /// Notified when the state has changed.
    pub moved: Notify,
    figures: Mutex<Vec<(Box<str>, ToolCallStats)>>,
}

/// A state and the number of changes that led to it, seen together: a catalog of an earlier number lacks this state.
struct NumberedState {
    generation: u64,
    state: ServerState,
}

/// State of a server.
#[derive(Clone)]
enum ServerState {
    Down(Arc<str>),
    Up { connection: Arc<dyn McpConnection>, tools: Arc<Vec<ServerTool>>, version: Arc<str> },
}

/// Statistics of one tool.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ToolCallStats {
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls.
    pub errors: u64,
    /// Total duration of the calls in microseconds.
    pub total_us: u64,
    /// Longest duration of a call in microseconds.
    pub max_us: u64,
}

impl SupervisedServer {
    /// A server that isn't connected yet.
    pub fn new(settings: McpServer) -> Self {
        Self {
            settings,
            state: ArcSwap::from_pointee(NumberedState { generation: 0, state: ServerState::Down("not connected yet".into()) }),
            look: Notify::new(),
            changed: Arc::new(Notify::new()),
            moved: Notify::new(),
            figures: Mutex::default(),
        }
    }

    /// Status of the server.
    pub fn standing(&self) -> ServerStatus {
        match &self.state.load().state {
            ServerState::Down(why) => ServerStatus::Down(why.clone()),
            ServerState::Up { tools, .. } => ServerStatus::Up(tools.clone()),
        }
    }

    /// Connection of the server.
    ///
    /// # Errors
    /// The reason why the server is down.
    pub fn connection(&self) -> Result<Arc<dyn McpConnection>, Arc<str>> {
        match &self.state.load().state {
            ServerState::Down(why) => Err(why.clone()),
            ServerState::Up { connection, .. } => Ok(connection.clone()),
        }
    }

    /// Protocol version used with the server, while it is up.
    pub fn version(&self) -> Option<Arc<str>> {
        match &self.state.load().state {
            ServerState::Down(_) => None,
            ServerState::Up { version, .. } => Some(version.clone()),
        }
    }

    /// Has the supervisor check the server at once.
    pub fn suspect(&self) {
        self.look.notify_one();
    }

    /// Records a call in the statistics.
    pub fn count(&self, tool: &str, took: Duration, outcome: &ToolOutcome) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let at = figures.iter().position(|(name, _)| **name == *tool);
        let at = at.unwrap_or_else(|| {
            figures.push((tool.into(), ToolCallStats::default()));
            figures.len() - 1
        });
        if let Some((_, own)) = figures.get_mut(at) {
            own.calls += 1;
            own.errors += u64::from(outcome.failed);
            own.total_us = own.total_us.saturating_add(us);
            own.max_us = own.max_us.max(us);
        }
    }

    /// Statistics by tool. Only tools of the catalog are called, so their number is bounded.
    pub fn figures(&self) -> Vec<(Box<str>, ToolCallStats)> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of changes of the state. Whoever sees a state sees its number.
    pub fn generation(&self) -> u64 {
        self.state.load().generation
    }

    /// Called by the supervisor alone.
    fn set(&self, state: ServerState) {
        let generation = self.state.load().generation + 1;
        self.state.store(Arc::new(NumberedState { generation, state }));
        self.moved.notify_waiters();
    }

    fn down(&self, why: &str) {
        tracing::error!(server = &*self.settings.name, why, "the MCP server `{}` is down: {why}", self.settings.name);
        self.set(ServerState::Down(why.into()));
    }

    fn up(&self, connection: &Arc<dyn McpConnection>, listed: ToolList) {
        let name = &self.settings.name;
        let version: Arc<str> = connection.version().into();
        let before = match self.standing() {
            ServerStatus::Up(tools) => Some(tools),
            ServerStatus::Down(_) => None,
        };
        match &before {
            Some(tools) if **tools == listed.tools => return,
            Some(_) => tracing::warn!(server = &**name, tools = listed.tools.len(), "the tools of the MCP server `{name}` changed"),
            None => tracing::info!(
                server = &**name,
                version = &*version,
                tools = listed.tools.len(),
                execute = self.settings.execute.as_str(),
                "MCP server `{name}`: {} tools",
                listed.tools.len()
            ),
        }
        self.set(ServerState::Up { connection: connection.clone(), tools: Arc::new(listed.tools), version });
    }

    /// Keeps the server connected until stopped. `first` is sent when the first attempt to connect has succeeded or
    /// failed.
    pub async fn supervise(self: Arc<Self>, connect: Arc<dyn Connector>, stop: CancellationToken, first: tokio::sync::oneshot::Sender<()>) {
        let mut first = Some(first);
        let mut pause = PAUSE_MIN;
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let connected = tokio::select! {
                connected = connect.connect(&self.settings, self.changed.clone()) => connected,
                () = stop.cancelled() => return,
            };
            match connected {
                Ok(connection) => self.serve(connection, &stop, &mut first).await,
                Err(why) => self.down(&why),
            }
            if let Some(first) = first.take() {
                let _nobody_waits = first.send(());
            }
            pause = if begun.elapsed() > SETTLED { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Watches a connection until it ends.
    async fn serve(
        &self,
        connection: Arc<dyn McpConnection>,
        stop: &CancellationToken,
        first: &mut Option<tokio::sync::oneshot::Sender<()>>,
    ) {
        let closed = connection.closed();
        tokio::pin!(closed);
        loop {
            let listed = tokio::select! {
                listed = connection.list() => listed,
                () = &mut closed => Err("the connection ended".into()),
                () = stop.cancelled() => return end(&*connection, closed).await,
            };
            let ttl = match listed {
                Ok(listed) => {
                    let ttl = listed.ttl;
                    self.up(&connection, listed);
                    ttl
                }
                Err(why) => return self.down(&why),
            };
            if let Some(first) = first.take() {
                let _nobody_waits = first.send(());
            }
            tokio::select! {
                () = tokio::time::sleep(GAP) => {}
                () = &mut closed => return self.down("the connection ended"),
                () = stop.cancelled() => return end(&*connection, closed).await,
            }
            tokio::select! {
                () = tokio::time::sleep(ttl.unwrap_or(CHECK).clamp(CHECK_MIN, CHECK)) => {}
                () = self.changed.notified() => {}
                () = self.look.notified() => {}
                () = &mut closed => return self.down("the connection ended"),
                () = stop.cancelled() => return end(&*connection, closed).await,
            }
        }
    }
}

async fn end(connection: &dyn McpConnection, closed: impl Future<Output = ()>) {
    connection.close();
    // Whoever doesn't end is killed with the connection.
    let _ended = tokio::time::timeout(ENDING, closed).await;
}
