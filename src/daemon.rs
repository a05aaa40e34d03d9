//! The running proxy: all its threads and listeners, and their end in order.
//!
//! Composition only: the workers of the proxy, the admin listener, the prober, the alerts, and [`Control`], which hears signals and
//! changes of policy files. Imports from every room that has a thread, and is imported by those that start a proxy.

pub mod signals;

use std::{net::SocketAddr, sync::Arc, thread::JoinHandle};

use signals::{Asked, Signals};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::AdminServer,
    policy::watch::{Changed, FileWatcher},
    proxy::{app::App, error::Error, ledger_policies::POLL, server::Server, upstream::prober},
    settings::Settings,
    telemetry::alerts,
};

/// The proxy and its admin listener, bound.
pub struct Daemon {
    app: Arc<App>,
    server: Server,
    admin: Option<AdminServer>,
    stop: CancellationToken,
}

impl Daemon {
    /// Loads policies and keys, and binds the listeners.
    ///
    /// # Errors
    /// [`Error`] for what can't be used, or an address that can't be bound, with advice for the user.
    pub fn bind(settings: Settings) -> Result<Self, Error> {
        let app = Arc::new(App::new(settings)?);
        let server = Server::bind(app.clone())?;
        let stop = CancellationToken::new();
        let admin = AdminServer::bind(app.clone(), stop.clone())?;
        Ok(Self { app, server, admin, stop })
    }

    /// Address of the proxy's listener; for port 0 in the settings, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Address of the admin listener; `None` if there is none.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(AdminServer::address)
    }

    /// Token to cancel for a graceful shutdown.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// State shared by all workers.
    pub fn app(&self) -> Arc<App> {
        self.app.clone()
    }

    /// Serves until stopped: the workers end first, then the admin listener, the prober and the alerts, then telemetry.
    ///
    /// # Errors
    /// [`Error`] if a thread can't start, or a worker ended badly.
    pub fn run(self) -> Result<(), Error> {
        let workers = self.server.start(&self.stop)?;
        let alerts = alerts::start(&self.app.settings.alerts, &self.app.observed, self.stop.clone())?;
        let admin = self.admin.map(|admin| std::thread::Builder::new().name("admin".into()).spawn(move || admin.run())).transpose()?;
        let prober = prober::start(&self.app, self.stop.clone())?;
        let policies = follow_policies(&self.app, self.stop.clone())?;
        for worker in workers {
            if !matches!(worker.join(), Ok(Ok(()))) {
                return Err(Error::System(std::io::Error::other("a worker ended badly")));
            }
        }
        if admin.is_some_and(|admin| !matches!(admin.join(), Ok(Ok(())))) {
            tracing::error!("the admin listener ended badly");
        }
        if let Some(prober) = prober {
            // A panic there was reported by its own hook.
            let _ended = prober.join();
        }
        if alerts.is_some_and(|alerts| alerts.join().is_err()) {
            tracing::error!("watching for alerts ended badly");
        }
        if policies.is_some_and(|policies| policies.join().is_err()) {
            tracing::error!("following the policies in the ledger ended badly");
        }
        self.app.observed.close();
        Ok(())
    }
}

/// Starts the thread that takes newer policies from the ledger, if any come from there.
fn follow_policies(app: &Arc<App>, stop: CancellationToken) -> Result<Option<JoinHandle<()>>, Error> {
    if !app.follows_policies() {
        return Ok(None);
    }
    let app = app.clone();
    let follow = move || {
        while !stop.is_cancelled() {
            app.follow_policies();
            std::thread::park_timeout(POLL);
        }
    };
    Ok(Some(std::thread::Builder::new().name("policies".into()).spawn(follow)?))
}

/// The thread that hears signals and file changes; it ends when this is dropped.
pub struct Control {
    ended: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the thread, after which signals are ours. `stop` is cancelled by the first SIGTERM or SIGINT.
    ///
    /// # Errors
    /// [`std::io::Error`] if signals can't be heard or the thread can't start.
    pub fn start(app: Arc<App>, stop: CancellationToken) -> std::io::Result<Self> {
        let ended = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Signals are ours from here on, before the caller goes on.
        let signals = {
            let _entered = runtime.enter();
            Signals::hear()?
        };
        let token = ended.clone();
        let listen = move || runtime.block_on(listen(app, stop, token, signals));
        let thread = std::thread::Builder::new().name("control".into()).spawn(listen)?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ended.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

async fn listen(app: Arc<App>, stop: CancellationToken, ended: CancellationToken, mut signals: Signals) {
    let mut watching = watch(&app);
    loop {
        let changed = async {
            match &mut watching {
                Some((_, changes)) => match changes.recv().await {
                    Some(changed) => changed,
                    None => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended.cancelled() => return,
            asked = signals.next() => match asked {
                Asked::Stop(why) => tracing::info!("{why}: no new connections, what runs may finish"),
                Asked::Reload => {
                    watching = watch_and_read(&app, || app.reload());
                    continue;
                }
            },
            changed = changed => {
                watching = watch_and_read(&app, || app.reload_changed(&changed));
                continue;
            }
        }
        if stop.is_cancelled() {
            tracing::warn!("asked to stop a second time: stopping at once");
            std::process::exit(1);
        }
        stop.cancel();
    }
}

/// Reads policies again. Their files are watched from before they are read, so that a change meanwhile is noticed.
fn watch_and_read(app: &App, read: impl Fn()) -> Option<(FileWatcher, tokio::sync::mpsc::Receiver<Changed>)> {
    let (before, watching) = (app.watched(), watch(app));
    read();
    if app.watched() == before {
        return watching;
    }
    // They are made of other files now.
    let watching = watch(app);
    read();
    watching
}

fn watch(app: &App) -> Option<(FileWatcher, tokio::sync::mpsc::Receiver<Changed>)> {
    FileWatcher::start(&app.watched()).map_err(|error| tracing::warn!(%error, "{error}")).ok()
}
