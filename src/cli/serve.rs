//! `toolmark serve`: the proxy itself, announced and run until it is stopped.

use std::{net::SocketAddr, path::Path, process::ExitCode};

use super::Error;
use crate::{
    claims,
    daemon::{Control, Daemon},
    proxy::app::App,
    settings::{self, Environment, Flags, KeySource},
    telemetry::log,
};

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Settings, policy or keys that can't be used; an address that can't be listened on.
pub fn run(flags: Flags) -> Result<ExitCode, Error> {
    let settings = settings::load(&flags, &Environment::of_process(), Path::new(""))?;
    let guard = log::start(settings.log, std::env::var("RUST_LOG").ok().as_deref()).map_err(failed)?;
    let daemon = Daemon::bind(settings).map_err(failed)?;
    let (app, address) = (daemon.app(), daemon.address());
    announce(&app, address, daemon.admin_address());
    warm_up();
    let control = Control::start(app.clone(), daemon.stop()).map_err(failed)?;
    let served = daemon.run();
    drop(control);
    app.recorder.close();
    tracing::info!("stopped");
    guard.flush();
    served.map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the lexicons beside everything else, so that no exchange is the first to wait for them.
fn warm_up() {
    let ready = || {
        claims::warm_up();
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
    if app.tracks() && matches!(settings.keys, KeySource::Ring(_)) && !app.recorder.is_shared() {
        // A key that is given may be given to several.
        tracing::info!(
            "conversations that an upstream keeps are remembered by this process and its ledger only: several replicas need a shared ledger \
             (`[ledger] url = \"postgres://…\"`), session affinity for /v1/responses, or `[responses] stateful = \"stateless\"`"
        );
    }
    if let Some(admin) = admin {
        tracing::info!(address = %admin, "dashboard, metrics and admin API on http://{admin}/");
    }
    tracing::info!(%address, policy = %settings.policy, "listening on http://{address}: set OPENAI_BASE_URL=http://{address}/v1");
}
