//! A proxy in this process, on a free port of loopback.

use std::{net::SocketAddr, path::Path, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{
    answer::{Answer, AskError},
    builder::{ProxyBuilder, Scratch},
};

use crate::{
    ledger::store::Store,
    proxy::{
        app::{App, Error},
        server::Server,
    },
    settings::{self, Environment, Flags},
};

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// The proxy.
    #[error(transparent)]
    Proxy(#[from] Error),
    /// The system.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// See the module.
pub struct Proxy {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    app: Arc<App>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<Result<(), Error>>>,
    /// Removed last.
    _scratch: Option<Scratch>,
}

impl Proxy {
    /// Starts one with these settings, as a `toolmark.toml` would say them but for `listen`, `[ledger]` and
    /// `[admin]`: a free port, and unless they are said, nothing is kept and there is no admin listener.
    /// `environment`: what its variables are; `TOOLMARK_KEY` for marks that hold over restarts. `directory`: from where relative paths are taken.
    ///
    /// # Errors
    /// [`StartError`], as `toolmark serve` would report it.
    pub fn start(settings: &str, environment: &[(&str, &str)], directory: &Path) -> Result<Self, StartError> {
        let file = directory.join("toolmark-under-test.toml");
        let ledger = if settings.contains("[ledger]") { "" } else { "\n[ledger]\nurl = \"memory:\"\n" };
        let admin = if settings.contains("[admin]") { "" } else { "\n[admin]\nlisten = \"off\"\n" };
        std::fs::write(&file, format!("listen = \"127.0.0.1:0\"\n{settings}{ledger}{admin}"))?;
        let flags = Flags { config: Some(file), ..Flags::default() };
        let settings = settings::load(&flags, &Environment::of(environment), directory)?;
        let server = Server::bind(Arc::new(App::new(settings)?))?;
        let (address, admin) = (server.address(), server.admin_address());
        let (app, stop) = (server.app(), server.stop());
        let thread = std::thread::Builder::new().name("proxy".into()).spawn(move || server.run())?;
        Ok(Self { address, admin, app, stop, thread: Some(thread), _scratch: None })
    }

    /// Starts one in front of this upstream, with the built-in policy of this name or a policy file.
    ///
    /// # Errors
    /// [`StartError`], as `toolmark serve` would report it.
    pub fn in_front_of(base_url: &str, policy: &str, directory: &Path) -> Result<Self, StartError> {
        let settings = format!("policy = \"{policy}\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n");
        Self::start(&settings, &[], directory)
    }

    /// Makes one, setting by setting.
    pub fn builder() -> ProxyBuilder {
        ProxyBuilder::default()
    }

    pub(super) fn with_scratch(self, scratch: Option<Scratch>) -> Self {
        // Not by moving fields out, which what is dropped doesn't allow.
        let mut own = self;
        own._scratch = scratch;
        own
    }

    /// Posts a chat completion and waits for the answer's end.
    ///
    /// # Errors
    /// [`AskError`]: no answer. An error of the API's is an answer.
    pub fn chat(&self, request: &serde_json::Value) -> Result<Answer, AskError> {
        self.post("/v1/chat/completions", request)
    }

    /// Posts JSON to any path and waits for the answer's end.
    ///
    /// # Errors
    /// [`AskError`]: no answer.
    pub fn post(&self, path: &str, request: &serde_json::Value) -> Result<Answer, AskError> {
        super::answer::post(self.address, path, request)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its admin listener is; empty where there is none.
    pub fn admin_url(&self) -> String {
        self.admin.map(|address| format!("http://{address}")).unwrap_or_default()
    }

    /// What to set as `OPENAI_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What it keeps.
    pub fn store(&self) -> Arc<dyn Store> {
        self.app.recorder.store()
    }

    /// What its workers share.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Connections, exchanges and bytes in memory, now.
    pub fn going_on(&self) -> (usize, usize, u64) {
        self.app.load.now()
    }

    /// Re-reads the policy, as SIGHUP does.
    pub fn reload(&self) {
        self.app.reload();
    }
}

/// Every test whose proxy held a worker for too long fails, or another test of its process does.
#[cfg(debug_assertions)]
fn watch() {
    use crate::proxy::aside::{STEP_MAX, watchdog};
    let longest = watchdog::longest();
    let long = longest > STEP_MAX * watchdog::DEBUG_FACTOR && !std::thread::panicking();
    assert!(!long, "an exchange kept its worker for {longest:?} of processor time: `proxy::aside` says what such a step must do");
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // What went wrong there was logged.
            let _ended = thread.join();
        }
        #[cfg(debug_assertions)]
        watch();
    }
}
