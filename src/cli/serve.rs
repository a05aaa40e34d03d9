//! `toolmark serve`: the proxy itself, its signals, and the re-reading of its policies.

use std::{net::SocketAddr, path::Path, process::ExitCode, sync::Arc};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Error;
use crate::{
    judge::claims::language::lexicon,
    policy::watch::{Changed, Watch},
    proxy::{app::App, server::Server},
    settings::{self, Environment, Flags, KeySource, Settings},
    telemetry::log,
};

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Settings, policy or keys that can't be used; an address that can't be listened on.
pub fn run(flags: Flags) -> Result<ExitCode, Error> {
    let settings = settings::load(&flags, &Environment::of_process(), Path::new(""))?;
    let guard = log::start(settings.log, std::env::var("RUST_LOG").ok().as_deref()).map_err(failed)?;
    let server = bind(settings)?;
    let (app, address) = (server.app(), server.address());
    announce(&app, address, server.admin_address());
    warm_up();
    let control = Control::start(app.clone(), server.stop()).map_err(failed)?;
    let served = server.run();
    drop(control);
    app.recorder.close();
    tracing::info!("stopped");
    guard.flush();
    served.map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn bind(settings: Settings) -> Result<Server, Error> {
    Server::bind(Arc::new(App::new(settings).map_err(failed)?)).map_err(failed)
}

/// Reads the lexicons beside everything else, so that no exchange is the first to wait for them.
fn warm_up() {
    let ready = || {
        lexicon::warm_up();
        tracing::debug!("the lexicons are ready");
    };
    // Where there is no thread to be had, the first exchange reads them.
    let _detached = std::thread::Builder::new().name("lexicons".into()).spawn(ready);
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

fn announce(app: &App, address: SocketAddr, admin: Option<SocketAddr>) {
    let settings = &app.settings;
    for notice in &settings.notices {
        tracing::warn!("{notice}");
    }
    for upstream in &settings.upstreams {
        let base_url =
            upstream.cassette.as_ref().map_or_else(|| upstream.base_url.to_string(), |file| format!("cassette:{}", file.display()));
        tracing::info!(upstream = &*upstream.name, base_url, "upstream `{}`", upstream.name);
    }
    if app.tracks() && matches!(settings.keys, KeySource::Ring(_)) {
        // A key that is given may be given to several.
        tracing::info!(
            "conversations that an upstream keeps are remembered in this process only: until there is a shared ledger, several replicas need \
             session affinity for /v1/responses, or `[responses] stateful = \"stateless\"`"
        );
    }
    if let Some(admin) = admin {
        tracing::info!(address = %admin, "dashboard, metrics and admin API on http://{admin}/");
    }
    tracing::info!(%address, policy = %settings.policy, "listening on http://{address}: set OPENAI_BASE_URL=http://{address}/v1");
}

/// The thread that hears signals and file changes; it ends when this is dropped.
struct Control {
    ended: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Control {
    fn start(app: Arc<App>, stop: CancellationToken) -> std::io::Result<Self> {
        let ended = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Signals are ours from here on, before the caller goes on.
        let signals = {
            let _entered = runtime.enter();
            [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
                signal(SignalKind::from_raw(FILE_TOO_LARGE))?,
            ]
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

async fn listen(app: Arc<App>, stop: CancellationToken, ended: CancellationToken, signals: [tokio::signal::unix::Signal; 4]) {
    let [mut terminate, mut interrupt, mut hangup, _too_large] = signals;
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
            _ = terminate.recv() => tracing::info!("SIGTERM: no new connections, what runs may finish"),
            _ = interrupt.recv() => tracing::info!("interrupted: no new connections, what runs may finish"),
            _ = hangup.recv() => {
                app.reload();
                watching = watch(&app);
                continue;
            }
            changed = changed => {
                app.reload_changed(&changed);
                watching = watch(&app);
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

/// SIGXFSZ: a file grew over the limit (`ulimit -f`). Heard, it doesn't end the process: writing fails, as on a full disk.
const FILE_TOO_LARGE: i32 = 25;

fn watch(app: &App) -> Option<(Watch, tokio::sync::mpsc::Receiver<Changed>)> {
    Watch::start(&app.watched()).map_err(|error| tracing::warn!(%error, "{error}")).ok()
}
