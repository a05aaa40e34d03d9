//! `toolmark health`: asks a running toolmark whether it lives, for health checks of containers that have no other program to ask with.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::Args;

use super::{
    Error,
    http::{self, HttpAnswer},
};
use crate::{
    settings::{self, Environment, Flags, Settings},
    sys::tls::TrustedRoots,
};

/// Time limit for the answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// An upstream that settings are complete with. It is never asked.
const ANY_UPSTREAM: &str = "http://127.0.0.1/v1";

/// `toolmark health`
#[derive(Args, Clone, Debug)]
pub struct HealthArgs {
    /// The address to ask, instead of the one that the settings name; then no settings are read
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
}

/// The settings, whatever their upstreams are: only addresses are asked for, and `serve` may have been given another one by a flag.
///
/// # Errors
/// Settings that aren't valid.
pub(super) fn settings_without_upstreams(flags: &Flags) -> Result<Settings, Error> {
    let flags = Flags { upstream: Some(ANY_UPSTREAM.to_owned()), ..flags.clone() };
    Ok(settings::load(&flags, &Environment::of_process(), Path::new(""))?)
}

/// Asks `GET /healthz` of the listener that settings or flag name. The exit code is 0 if the answer is 200 within five seconds, else 1.
///
/// # Errors
/// Settings that aren't valid.
pub fn run(arguments: &HealthArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let address = reachable(match arguments.listen {
        Some(listen) => listen,
        None => settings_without_upstreams(flags)?.listen,
    });
    // The listener has no TLS: no certificates are needed, and none may be there.
    let client = http::client(ANSWER_MAX, TrustedRoots::None)?;
    let asked = http::runtime()?.block_on(ask(&client, address));
    let (text, code) = match asked {
        Ok(answer) if answer.status == 200 => (format!("{address} answers\n"), ExitCode::SUCCESS),
        Ok(answer) => (format!("{address} answers with status {}: is it toolmark's?\n", answer.status), ExitCode::FAILURE),
        Err(error) => (format!("{address} doesn't answer: {error}\n"), ExitCode::FAILURE),
    };
    super::print(&text);
    Ok(code)
}

/// Asks `GET /healthz` at this address.
///
/// # Errors
/// A message: there is no answer.
pub(super) async fn ask(client: &reqwest::Client, address: SocketAddr) -> Result<HttpAnswer, String> {
    http::get_json(client, &format!("http://{address}/healthz"), ::http::HeaderMap::new()).await
}

/// The address by which this machine reaches a listener: loopback for one that listens on all addresses.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_loopback() {
        for (listen, asked) in [("0.0.0.0:8787", "127.0.0.1:8787"), ("[::]:1", "[::1]:1"), ("10.0.0.7:80", "10.0.0.7:80")] {
            let address = reachable(listen.parse().expect("an address"));
            assert_eq!(address.to_string(), asked, "{listen}");
        }
    }
}
