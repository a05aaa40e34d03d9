//! A proxy in this process, on a free loopback port.

use std::{net::SocketAddr, path::Path, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::builder::{ProxyBuilder, TempDir};

use crate::{
    daemon::Daemon,
    ledger::store::Store,
    proxy::{app::App, error::Error},
    settings::{self, Environment, Flags},
    testing::client::{ClientError, ClientResponse},
};

/// Environment variable of a process of tests: `limits.conversation_cache` of its proxies. A suite passes with any size of the cache.
const TEST_CACHE: &str = "TOOLMARK_TEST_CONVERSATION_CACHE";

/// Reasons why the proxy can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// The proxy reported an error.
    #[error(transparent)]
    Proxy(#[from] Error),
    /// An error of the operating system.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A running proxy; it stops when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    app: Arc<App>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<Result<(), Error>>>,
    /// Temporary directory, removed last.
    _scratch: Option<TempDir>,
}

impl Proxy {
    /// Starts a proxy with these settings, in the form of `toolmark.toml`. `listen` is always a free port; without `[ledger]` the ledger is
    /// in memory, and without `[admin]` there is no admin listener. `environment`: the proxy's variables; `TOOLMARK_KEY` keeps marks valid
    /// over restarts. `directory`: the base of relative paths.
    ///
    /// # Errors
    /// [`StartError`], as `toolmark serve` would report it.
    pub fn start(settings: &str, environment: &[(&str, &str)], directory: &Path) -> Result<Self, StartError> {
        let file = directory.join("toolmark-under-test.toml");
        let ledger = if settings.contains("[ledger]") { "" } else { "\n[ledger]\nurl = \"memory:\"\n" };
        let admin = if settings.contains("[admin]") { "" } else { "\n[admin]\nlisten = \"off\"\n" };
        std::fs::write(&file, format!("listen = \"127.0.0.1:0\"\n{settings}{ledger}{admin}"))?;
        let flags = Flags { config: Some(file), ..Flags::default() };
        let cache = std::env::var(TEST_CACHE).ok();
        let own = cache.as_deref().map(|size| ("TOOLMARK_LIMITS__CONVERSATION_CACHE", size));
        let environment: Vec<(&str, &str)> = own.into_iter().chain(environment.iter().copied()).collect();
        let settings = settings::load(&flags, &Environment::of(&environment), directory)?;
        let daemon = Daemon::bind(settings)?;
        let (address, admin) = (daemon.address(), daemon.admin_address());
        let (app, stop) = (daemon.app(), daemon.stop());
        let thread = std::thread::Builder::new().name("proxy".into()).spawn(move || daemon.run())?;
        Ok(Self { address, admin, app, stop, thread: Some(thread), _scratch: None })
    }

    /// Starts a proxy in front of this upstream, with the built-in policy of this name or a policy file.
    ///
    /// # Errors
    /// [`StartError`], as `toolmark serve` would report it.
    pub fn in_front_of(base_url: &str, policy: &str, directory: &Path) -> Result<Self, StartError> {
        let settings = format!("policy = \"{policy}\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n");
        Self::start(&settings, &[], directory)
    }

    /// Returns a builder.
    pub fn builder() -> ProxyBuilder {
        ProxyBuilder::default()
    }

    pub(super) fn with_scratch(self, scratch: Option<TempDir>) -> Self {
        // Types with `Drop` don't allow moving fields out.
        let mut own = self;
        own._scratch = scratch;
        own
    }

    /// Posts a chat completion and waits for the end of the answer.
    ///
    /// # Errors
    /// [`ClientError`] if there is no answer. An error response of the API is an answer.
    pub fn chat(&self, request: &serde_json::Value) -> Result<ClientResponse, ClientError> {
        self.post("/v1/chat/completions", request)
    }

    /// Posts JSON to any path and waits for the end of the answer.
    ///
    /// # Errors
    /// [`ClientError`] if there is no answer.
    pub fn post(&self, path: &str, request: &serde_json::Value) -> Result<ClientResponse, ClientError> {
        crate::testing::client::post(self.address, path, request)
    }

    /// Address of the proxy's listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the admin listener; empty if there is none.
    pub fn admin_url(&self) -> String {
        self.admin.map(|address| format!("http://{address}")).unwrap_or_default()
    }

    /// Value for `OPENAI_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The store of its ledger.
    pub fn store(&self) -> Arc<dyn Store> {
        self.app.recorder.store()
    }

    /// State shared by its workers.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Current connections, exchanges and bytes in memory.
    pub fn going_on(&self) -> (usize, usize, u64) {
        self.app.load.now()
    }

    /// Re-reads the policy, as SIGHUP does.
    pub fn reload(&self) {
        self.app.reload();
    }
}

/// Fails the test whose proxy held a worker for too long, or another test of the same process.
#[cfg(debug_assertions)]
fn watch() {
    use crate::proxy::helper_threads::{STEP_MAX, watchdog};
    let longest = watchdog::longest();
    let long = longest > STEP_MAX * watchdog::DEBUG_FACTOR && !std::thread::panicking();
    assert!(!long, "an exchange kept its worker for {longest:?} of processor time: `proxy::aside` says what such a step must do");
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // Errors there were logged.
            let _ended = thread.join();
        }
        #[cfg(debug_assertions)]
        watch();
    }
}
