//! Checks of all settings but upstreams: listeners, clients, allowed hosts and paths, ledger, limits.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    AdminSettings, BodyTools, ClientRate, ClientSettings, ConfigError, CountersSettings, CountersUrl, Credential, KeySource,
    LedgerSettings, LedgerUrl, Limits, Secret, SettingsSources, UpstreamSettings,
    raw::{TomlAdmin, TomlClient, TomlCounters, TomlLedger, TomlLimits},
};
use crate::mark_keys;
use toolmark_cassette::redact::Redactor;
use toolmark_core::{
    config::host::canonical_host,
    openai::path::normalised,
    policy::load::PolicySource,
    sys::limits::{self, REQUEST_SHARE},
};

pub(super) fn listen_address(sources: &SettingsSources<'_>, key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    let local = text.strip_prefix("localhost:").and_then(|port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))));
    let message = || format!("`{text}` is no address: write IP and port, like \"127.0.0.1:8787\", \"0.0.0.0:8787\" or \"[::1]:8787\"");
    local.or_else(|| text.parse().ok()).ok_or_else(|| sources.fault(key, message()))
}

pub(super) fn admin(sources: &SettingsSources<'_>, raw: &TomlAdmin, listen: SocketAddr) -> Result<AdminSettings, ConfigError> {
    let explicit = sources.layers.says("admin.listen");
    let secret = |name| sources.environment.lookup(name).map(str::trim).filter(|token| !token.is_empty()).map(Secret::new);
    let (token, read_token) = (secret(ADMIN_TOKEN_ENV), secret(ADMIN_READ_TOKEN_ENV));
    if raw.recent > RECENT_MAX {
        return Err(sources.fault("admin.recent", format!("expected 0 to {RECENT_MAX} exchanges")));
    }
    let settings = |listen, recent| AdminSettings { listen, explicit, token, read_token, recent, bodies: raw.bodies };
    if raw.listen.trim() == "off" {
        // Nobody could look at them.
        return Ok(settings(None, 0));
    }
    let address = listen_address(sources, "admin.listen", &raw.listen)?;
    if address == listen && address.port() != 0 && explicit {
        return Err(sources.fault("admin.listen", format!("{address} is where `listen` is: they need two addresses")));
    }
    let settings = settings(Some(address), raw.recent);
    if settings.token.is_none() && !address.ip().to_canonical().is_loopback() {
        let message = format!("beyond loopback the admin listener needs a token: set {ADMIN_TOKEN_ENV}, or listen on 127.0.0.1");
        return Err(sources.fault("admin.listen", message));
    }
    Ok(settings)
}

pub(super) fn clients(sources: &SettingsSources<'_>, all: &[TomlClient]) -> Result<Vec<ClientSettings>, ConfigError> {
    let mut clients: Vec<ClientSettings> = Vec::new();
    for (index, client) in all.iter().enumerate() {
        let fault = |key: &str, message: String| Err(sources.fault(&format!("clients.{index}.{key}"), message));
        if client.name.trim().is_empty() || client.name.chars().any(char::is_control) {
            return fault("name", "a client needs a name".into());
        }
        if clients.iter().any(|other| *other.name == *client.name) {
            return fault("name", format!("two clients are named `{}`: names must differ", client.name));
        }
        let key_sha256 = match mark_keys::parse_hex(client.key_sha256.trim()) {
            Ok(digest) => digest,
            Err(why) => {
                return fault("key_sha256", format!("{why}: write the SHA-256 of the key, e.g. from `printf %s \"$KEY\" | sha256sum`"));
            }
        };
        if clients.iter().any(|other| other.key_sha256 == key_sha256) {
            return fault("key_sha256", "two clients have the same key: give each its own".into());
        }
        let policy = client.policy.as_deref().map(|policy| sources.policy(&format!("clients.{index}.policy"), Some(policy)));
        let rate = match &client.rate {
            Some(rate) if !RATE_WINDOW.contains(&rate.window) => return fault("rate.window", "expected 1s to 24h, e.g. \"1m\"".into()),
            Some(rate) => Some(ClientRate { requests: rate.requests, window: rate.window }),
            None => None,
        };
        clients.push(ClientSettings { name: client.name.as_str().into(), key_sha256, policy, rate, concurrent: client.concurrent });
    }
    Ok(clients)
}

/// Refuses a policy in a ledger that isn't shared: a file does the same there, and is watched.
pub(super) fn ledger_policies(
    sources: &SettingsSources<'_>,
    policy: &PolicySource,
    clients: &[ClientSettings],
    ledger: &LedgerSettings,
) -> Result<(), ConfigError> {
    let is_in_ledger = |source: &PolicySource| matches!(source, PolicySource::Ledger { .. });
    let of_client = clients.iter().position(|client| client.policy.as_ref().is_some_and(is_in_ledger));
    let key = match of_client {
        _ if matches!(ledger.url, LedgerUrl::Postgres(_)) => return Ok(()),
        _ if is_in_ledger(policy) => "policy".to_owned(),
        Some(at) => format!("clients.{at}.policy"),
        None => return Ok(()),
    };
    let message = "a policy in the ledger needs one that replicas share, `[ledger] url = \"postgres://…\"`; elsewhere name a file, which is re-read when it changes";
    Err(sources.layers.fault(&key, message))
}

/// Refuses settings with which anyone who can reach toolmark could use its own upstream keys.
pub(super) fn open_relay(
    sources: &SettingsSources<'_>,
    listen: SocketAddr,
    upstreams: &[UpstreamSettings],
    clients: &[ClientSettings],
) -> Result<(), ConfigError> {
    let local = listen.ip().to_canonical().is_loopback();
    let own = upstreams.iter().find(|upstream| matches!(upstream.credential, Credential::Own { .. }));
    match own {
        Some(upstream) if !local && clients.is_empty() => {
            let message = format!(
                "{listen} can be reached from other machines, and toolmark holds a key for upstream `{}`, which anyone could then \
                 use: add [[clients]] with a key for each, listen on 127.0.0.1, or set `allow_anonymous = true`",
                upstream.name
            );
            Err(sources.fault("listen", message))
        }
        _ => Ok(()),
    }
}

pub(super) fn passthrough(sources: &SettingsSources<'_>, paths: &[String]) -> Result<Vec<String>, ConfigError> {
    for (index, path) in paths.iter().enumerate() {
        let fault = |message: String| Err(sources.fault(&format!("passthrough.{index}"), message));
        let stem = path.strip_suffix("/*").unwrap_or(path);
        let plain = path.starts_with('/') && !stem.contains(['*', '%']) && normalised(stem).as_deref() == Some(stem);
        if !plain {
            return fault(format!("`{path}` is no path to let through: write it like \"/v1/rerank\", \"/v1/rerank/*\" or \"/health\""));
        }
        let covers = |enforced: &str| stem == enforced || (stem != path && enforced.starts_with(&format!("{stem}/")));
        if let Some(enforced) = ENFORCED.into_iter().find(|enforced| covers(enforced)) {
            return fault(format!("`{path}` would let `{enforced}` through, which is enforced: remove it"));
        }
    }
    Ok(paths.to_vec())
}

pub(super) fn allowed_hosts(sources: &SettingsSources<'_>, hosts: &[String]) -> Result<Vec<String>, ConfigError> {
    for (index, host) in hosts.iter().enumerate() {
        if host.is_empty() || !host.chars().all(|c| c.is_alphanumeric() || "-._:[]".contains(c)) {
            let message = format!("`{host}` is no host name: write it like \"toolmark.example.org\", without scheme and path");
            return Err(sources.fault(&format!("allowed_hosts.{index}"), message));
        }
    }
    Ok(hosts.iter().map(|host| canonical_host(host).to_string()).collect())
}

pub(super) fn ledger(sources: &SettingsSources<'_>, raw: &TomlLedger) -> Result<LedgerSettings, ConfigError> {
    let url = ledger_url(&raw.url, |path| sources.path("ledger.url", path)).map_err(|why| sources.fault("ledger.url", why))?;
    if raw.keep < Duration::from_secs(60) {
        return Err(sources.fault("ledger.keep", "expected at least 1m, e.g. \"30d\""));
    }
    for (key, value) in [("wait", raw.wait), ("lookup", raw.lookup)] {
        if !LEDGER_WAIT.contains(&value) {
            return Err(sources.fault(&format!("ledger.{key}"), "expected 10ms to 10m, e.g. \"5s\""));
        }
    }
    if !BODY_KEPT_BYTES.contains(&raw.body_bytes) {
        let (least, most) = (bytesize::ByteSize(*BODY_KEPT_BYTES.start()), bytesize::ByteSize(*BODY_KEPT_BYTES.end()));
        return Err(sources.fault("ledger.body_bytes", format!("{} bytes is out of range: {least} to {most}", raw.body_bytes)));
    }
    for (key, value) in [("conversation_bytes", raw.conversation_bytes), ("exchange_bytes", raw.exchange_bytes)] {
        if !LEDGER_TABLE_BYTES.contains(&value) {
            let (least, most) = (bytesize::ByteSize(*LEDGER_TABLE_BYTES.start()), bytesize::ByteSize(*LEDGER_TABLE_BYTES.end()));
            return Err(sources.fault(&format!("ledger.{key}"), format!("{value} bytes is out of range: {least} to {most}")));
        }
    }
    let tools = |key: &str, globs: &[String]| sources.globs(key, globs, "get_*");
    let only = raw.only_tools.as_ref().map(|globs| tools("ledger.only_tools", globs)).transpose()?;
    let body_tools = BodyTools { only, except: tools("ledger.except_tools", &raw.except_tools)? };
    Ok(LedgerSettings {
        url,
        keep: raw.keep,
        store: raw.store,
        body_bytes: usize::try_from(raw.body_bytes).unwrap_or(usize::MAX),
        conversation_bytes: raw.conversation_bytes,
        exchange_bytes: raw.exchange_bytes,
        body_tools,
        redactor: Redactor::default(),
        durability: raw.durability,
        wait: raw.wait,
        lookup: raw.lookup,
    })
}

pub(super) fn counters(sources: &SettingsSources<'_>, raw: &TomlCounters, ledger: &LedgerUrl) -> Result<CountersSettings, ConfigError> {
    if !COUNTERS_WAIT.contains(&raw.wait) {
        return Err(sources.fault("counters.wait", "expected 1ms to 10s, e.g. \"50ms\""));
    }
    let url = counters_url(&raw.url, ledger).map_err(|why| sources.fault("counters.url", why))?;
    Ok(CountersSettings { url, wait: raw.wait })
}

/// Parses the counters' URL. The error never quotes it, because it may hold a password.
fn counters_url(text: &str, ledger: &LedgerUrl) -> Result<CountersUrl, String> {
    match text.split_once(':').map_or(text, |(scheme, _)| scheme) {
        "memory" if text == "memory:" => Ok(CountersUrl::Memory),
        "postgres" if text == "postgres" => match ledger {
            LedgerUrl::Postgres(url) => Ok(CountersUrl::Postgres(url.clone())),
            LedgerUrl::Sqlite(_) | LedgerUrl::Memory => {
                Err("`postgres` is the database of the ledger: set `[ledger] url` to a \"postgres://…\"".into())
            }
        },
        "redis" | "rediss" | "valkey" | "valkeys" if cfg!(not(feature = "redis")) => Err(super::NO_REDIS.into()),
        "redis" | "rediss" | "valkey" | "valkeys" if url::Url::parse(text).is_ok_and(|url| url.has_host()) => {
            Ok(CountersUrl::Redis(Secret::new(text)))
        }
        _ => Err("no place for counters: write \"memory:\", \"postgres\" (the ledger's database), or \"redis://host:6379\"".into()),
    }
}

pub(super) fn limits(sources: &SettingsSources<'_>, raw: &TomlLimits) -> Result<Limits, ConfigError> {
    for (key, value, range) in [
        ("request_bytes", raw.request_bytes, BODY_BYTES),
        ("response_bytes", raw.response_bytes, BODY_BYTES),
        ("held_bytes", raw.held_bytes, HELD_BYTES),
    ] {
        if !range.contains(&value) {
            let (least, most) = (bytesize::ByteSize(*range.start()), bytesize::ByteSize(*range.end()));
            return Err(sources.fault(&format!("limits.{key}"), format!("{value} bytes is out of range: {least} to {most}")));
        }
    }
    if !(1..=CONNECTIONS_MAX).contains(&raw.connections) {
        return Err(sources.fault("limits.connections", format!("expected 1 to {CONNECTIONS_MAX}, found {}", raw.connections)));
    }
    if !CLIENT_IDLE.contains(&raw.client_idle) {
        return Err(sources.fault("limits.client_idle", "expected 10ms to 1h, e.g. \"30s\""));
    }
    if raw.exchanges.is_some_and(|most| !(1..=CONNECTIONS_MAX).contains(&most)) {
        return Err(sources.fault("limits.exchanges", format!("expected 1 to {CONNECTIONS_MAX}, or leave it out")));
    }
    let TomlLimits { request_bytes, response_bytes, connections, exchanges, bytes_in_flight, held_bytes, conversation_cache, client_idle } =
        *raw;
    let bytes_in_flight = match bytes_in_flight {
        0 => limits::bytes_in_flight(),
        own if own < request_bytes.saturating_mul(REQUEST_SHARE) => {
            let least = bytesize::ByteSize(request_bytes.saturating_mul(REQUEST_SHARE));
            let message = format!(
                "{} is less than one request needs: at least {least} ({REQUEST_SHARE} times `request_bytes`)",
                bytesize::ByteSize(own)
            );
            return Err(sources.fault("limits.bytes_in_flight", message));
        }
        own => own,
    };
    Ok(Limits { request_bytes, response_bytes, connections, exchanges, bytes_in_flight, held_bytes, conversation_cache, client_idle })
}

/// Parses the ledger's URL. The error never quotes it, because it may hold a password.
fn ledger_url(text: &str, place: impl Fn(&str) -> PathBuf) -> Result<LedgerUrl, String> {
    let forms = "write \"sqlite:toolmark.db\", \"postgres://…\" or \"memory:\"";
    if text == "memory:" {
        return Ok(LedgerUrl::Memory);
    }
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        if cfg!(not(feature = "postgres")) {
            return Err(super::NO_POSTGRES.into());
        }
        return Ok(LedgerUrl::Postgres(Secret::new(text)));
    }
    let Some(path) = text.strip_prefix("sqlite:") else {
        return Err(format!("no ledger URL: {forms}"));
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.contains(":memory:") {
        return Err("for a ledger that keeps nothing, write \"memory:\"".into());
    }
    if path.contains('?') || Path::new(path).file_name().is_none() || path.ends_with('/') {
        return Err(format!("no path of a file: {forms}"));
    }
    Ok(LedgerUrl::Sqlite(place(path)))
}

/// Adds notices for the user at start.
pub(super) fn notices(
    out: &mut Vec<String>,
    keys: &KeySource,
    upstreams: &[UpstreamSettings],
    clients: &[ClientSettings],
    counters: &CountersSettings,
) {
    if !matches!(counters.url, CountersUrl::Memory) && !matches!(keys, KeySource::Ring(_)) {
        out.push("replicas count together only under the same key: give each of them the same TOOLMARK_KEY".into());
    }
    if *keys == KeySource::Ephemeral {
        out.push("the key is made for this run and kept nowhere: after a restart, marks and execution IDs made before are unknown".into());
    }
    let passed_on = upstreams.iter().find(|upstream| upstream.credential == Credential::Caller);
    if let (Some(upstream), false) = (passed_on, clients.is_empty()) {
        out.push(format!(
            "clients identify themselves with toolmark's keys, which never go upstream, and upstream `{}` has no api_key_env: it is called without a key",
            upstream.name
        ));
    }
}

const ADMIN_TOKEN_ENV: &str = "TOOLMARK_ADMIN_TOKEN";
const ADMIN_READ_TOKEN_ENV: &str = "TOOLMARK_ADMIN_READ_TOKEN";
/// Upper limit of `[admin] recent`.
const RECENT_MAX: usize = 10_000;
const ENFORCED: [&str; 6] =
    ["/v1/chat/completions", "/v1/responses", "/v1/conversations", "/chat/completions", "/responses", "/conversations"];
const BODY_BYTES: RangeInclusive<u64> = 256..=(2 << 30);
const HELD_BYTES: RangeInclusive<u64> = 256..=(256 << 20);
/// Allowed windows for a client's rate.
const RATE_WINDOW: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
const CLIENT_IDLE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
const COUNTERS_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
const LEDGER_WAIT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(600);
const BODY_KEPT_BYTES: RangeInclusive<u64> = 16..=(1 << 20);
/// Bounds of what a table of the ledger may hold: 1 MiB to 1 PiB.
const LEDGER_TABLE_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 50);
const CONNECTIONS_MAX: u32 = 1_000_000;
