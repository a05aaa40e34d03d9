//! GETs of state rules: only to hosts in the settings, at checked addresses, one request each, bounded, without redirects.

use std::{net::SocketAddr, sync::Arc};

use reqwest::{
    Client, Response, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
};
use serde_json::Value;

use crate::{
    exchange::state_checks::{self, Values},
    policy::{
        compiled::CompiledPolicy,
        state_probe::{CompiledProbe, HttpProbe},
    },
    settings::ProbeHosts,
    sys::tls,
};

/// Maximum bytes of an answer.
const BYTES_MAX: usize = 1 << 20;

/// Resolver that returns only addresses that may be asked. The connection is made to these very addresses, so that a name
/// that resolves differently later gains nothing.
struct Guarded(ProbeHosts);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| hosts.allows(name.as_str(), address.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{} leads to no address that may be asked", name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// HTTP client, created for each probe: probes are rare, and share nothing with exchanges.
fn client(hosts: &ProbeHosts) -> Result<Client, String> {
    let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).pool_max_idle_per_host(0);
    let client = client.referer(false).user_agent(concat!("toolmark/", env!("CARGO_PKG_VERSION")));
    let tls = tls::http_client_config(tls::TrustedRoots::Platform).map_err(|error| error.to_string())?;
    client.tls_backend_preconfigured(tls).dns_resolver(Arc::new(Guarded(hosts.clone()))).build().map_err(|error| error.to_string())
}

/// First probe of a policy's rules whose host isn't in the settings.
pub fn unnamed<'r>(rules: &'r CompiledPolicy, hosts: &ProbeHosts) -> Option<&'r HttpProbe> {
    rules.state.iter().find_map(|rule| match &rule.probe {
        CompiledProbe::Http(probe) => Some(probe).filter(|probe| !hosts.names(&probe.host, probe.port)),
        CompiledProbe::Mcp { .. } => None,
    })
}

/// Message for a probe whose host isn't in the settings.
pub fn unnamed_words(probe: &HttpProbe) -> String {
    let (host, port) = (&probe.host, probe.port);
    let written = if matches!(port, 80 | 443) { host.to_string() } else { format!("{host}:{port}") };
    format!(
        "a probe of [[state]] asks {host}, which the settings don't name: add `probe_hosts = [\"{written}\"]` to them, or remove the rule"
    )
}

/// Sends the request of a probe. The caller sets the deadline.
///
/// # Errors
/// Message with the reason for which there is no answer.
pub async fn get(hosts: &ProbeHosts, probe: &HttpProbe, values: &Values) -> Result<Value, String> {
    if !hosts.names(&probe.host, probe.port) {
        return Err(unnamed_words(probe));
    }
    let url = reqwest::Url::parse(&state_checks::url(probe, values)?).map_err(|error| error.to_string())?;
    let same = url.host_str() == Some(&*probe.host) && url.port_or_known_default() == Some(probe.port);
    if !same {
        return Err("with these values it would be another host".into());
    }
    // A name is looked at when it is resolved; an address is its own name.
    let response = client(hosts)?.get(url).header("accept", "application/json").send().await.map_err(|error| chain(&error))?;
    let status = response.status();
    if status.is_redirection() {
        return Err(format!("the answer is a redirect ({status}), which isn't followed"));
    }
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        // The world says that there is no such thing.
        return Ok(Value::Null);
    }
    if !status.is_success() {
        return Err(format!("the answer is {status}"));
    }
    let text = String::from_utf8(body(response).await?).map_err(|_| "the answer is no text")?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| chain(&error))? {
        if body.len() + chunk.len() > BYTES_MAX {
            return Err(format!("the answer has more than {BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// An error and its causes in words, without the URL, which contains values of the conversation.
fn chain(error: &reqwest::Error) -> String {
    let mut words = match (error.is_timeout(), error.is_connect()) {
        (true, _) => "no answer in time".to_owned(),
        (false, true) => "no connection".to_owned(),
        (false, false) => "the answer broke off".to_owned(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        words = format!("{words}: {source}");
        cause = source.source();
    }
    words
}
