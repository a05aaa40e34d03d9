//! Settings: defaults, then `toolmark.toml`, then the environment, then flags. docs/contract.md#settings.
//!
//! Runs once, before anything listens. Everything is checked here and converted to types, so that later code needn't check settings.
//! Features that don't exist yet are refused, or named in a notice.

mod alerts;
mod cassettes;
mod env;
mod left_out;
mod mark_keys;
mod mcp;
mod probe_hosts;
mod quirks;
mod raw;
mod secret;
mod sources;
mod types;
mod upstreams;
mod validate;
mod verifier;

use std::{
    cell::RefCell,
    net::SocketAddr,
    path::{Path, PathBuf},
};

pub use alerts::{Alert, AlertMetric, Counts};
pub use cassettes::CassetteSettings;
pub use env::Environment;
pub use env::otel::{Sampler, TraceSettings};
pub use left_out::{NO_IMPORT, NO_MCP, NO_POSTGRES, NO_REDIS, NO_TRACES};
pub use mark_keys::{KeyError, KeySource, load_or_make_key};
pub use mcp::{Execute, McpServer, ToolGlobs, Transport};
pub use probe_hosts::ProbeHosts;
pub use raw::{CONNECTIONS_DEFAULT, Durability, StoredContent};
pub use secret::Secret;
pub use toolmark_core::config::error::ConfigError;
pub use types::{
    AdminSettings, BodyReaders, BodyTools, CallIds, ClientRate, ClientSettings, CountersSettings, CountersUrl, DefaultToolChoice,
    LedgerSettings, LedgerUrl, Limits, Log, LogFormat, LogLevel, ScopeKind,
};
pub use upstreams::{ApiSupport, Credential, KeyHeader, Timeouts, UpstreamSettings};
pub use verifier::{VerifierSettings, VerifyWhen};

use raw::TomlSettings;
use sources::SettingsSources;
use toolmark_core::{config::layers::Layers, policy::load::PolicySource};

/// Command-line flags; they take precedence over file and environment.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config FILE`; it must exist.
    pub config: Option<PathBuf>,
    /// `--listen ADDR`
    pub listen: Option<String>,
    /// `--upstream URL`: the only upstream, named `upstream`. If the URL has no path, `/v1` is added.
    pub upstream: Option<String>,
    /// `--policy FILE`
    pub policy: Option<String>,
    /// `--record FILE`: file or directory in which exchanges are recorded.
    pub record: Option<PathBuf>,
    /// `--replay FILE`: the cassette that answers in place of the upstreams.
    pub replay: Option<PathBuf>,
}

/// All settings, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of the proxy's listener.
    pub listen: SocketAddr,
    /// The policy for clients without one of their own.
    pub policy: PolicySource,
    /// Additional `/v1/` paths that are passed through unenforced; one that ends in `/*` covers all paths below.
    pub passthrough: Vec<String>,
    /// Allowed host names besides those of loopback, in lower case.
    pub allowed_hosts: Vec<String>,
    /// Allows anyone to use toolmark's own upstream keys from beyond loopback.
    pub allow_anonymous: bool,
    /// Upstreams, at least one; a request goes to the first that serves its model.
    pub upstreams: Vec<UpstreamSettings>,
    /// toolmark's own keys for callers; if empty, callers aren't distinguished.
    pub clients: Vec<ClientSettings>,
    /// Settings of the ledger.
    pub ledger: LedgerSettings,
    /// Settings of the counters.
    pub counters: CountersSettings,
    /// Source of the keys of the marks.
    pub keys: KeySource,
    /// Scope that marks are bound to.
    pub scope: ScopeKind,
    /// MCP servers.
    pub mcp: Vec<McpServer>,
    /// Hosts that `[[state]]` may query over HTTP.
    pub probe_hosts: ProbeHosts,
    /// Settings of the admin listener.
    pub admin: AdminSettings,
    /// Alerts, and the webhooks they are posted to.
    pub alerts: Vec<Alert>,
    /// Export of traces, if any; set by OpenTelemetry's own environment variables.
    pub traces: Option<TraceSettings>,
    /// Recording, replay and fault injection.
    pub cassettes: CassetteSettings,
    /// The verifier model, if any.
    pub verifier: Option<VerifierSettings>,
    /// Limits.
    pub limits: Limits,
    /// Settings of the log.
    pub log: Log,
    /// Notices for the user at start, for example of keys that aren't stored.
    pub notices: Vec<String>,
    /// The settings file that was read, if any.
    pub file: Option<PathBuf>,
}

impl Settings {
    /// True if toolmark is configured to run the tools of at least one MCP server.
    pub fn runs_tools(&self) -> bool {
        self.mcp.iter().any(|server| server.execute == Execute::Proxy)
    }

    /// The upstream for a model; without a model, the first one.
    pub fn upstream_for(&self, model: Option<&str>) -> Option<&UpstreamSettings> {
        match model {
            Some(model) => self.upstreams.iter().find(|upstream| upstream.serves(model)),
            None => self.upstreams.first(),
        }
    }
}

/// Reasons why the settings can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("the settings file {path} can't be read: {source}{hint}", path = path.display(), hint = remedy(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Fault(#[from] ConfigError),
    /// There is no upstream.
    #[error(
        "no upstream: nothing says where the model server is. One of:\n\
         \x20 toolmark init                                        writes {CONFIG_FILE} for the key or local server that it finds\n\
         \x20 toolmark serve --upstream https://api.openai.com/v1   for this run\n\
         \x20 in {CONFIG_FILE}:  [[upstreams]]  name = \"openai\"  base_url = \"https://api.openai.com/v1\""
    )]
    NoUpstream,
}

/// Settings for offline judging, which needs neither an upstream nor its key.
#[derive(Clone, Debug)]
pub struct OfflineSettings {
    /// The policy in force.
    pub policy: PolicySource,
    /// Source of the keys of the marks. [`KeySource::keys`] creates a missing file: offline, check first whether it exists.
    pub keys: KeySource,
    /// Scope that marks are bound to.
    pub scope: ScopeKind,
    /// Settings of the ledger.
    pub ledger: LedgerSettings,
    /// toolmark's own keys for callers.
    pub clients: Vec<ClientSettings>,
}

/// Reads the settings for offline judging, from the same layers as [`load`].
///
/// # Errors
/// The first error.
pub fn load_offline(flags: &Flags, environment: &Environment, directory: &Path) -> Result<OfflineSettings, Error> {
    let (layers, raw, file) = read(flags, environment, directory)?;
    let sources = SettingsSources { layers: &layers, environment, directory, file: file.as_deref(), notices: RefCell::default() };
    let (ledger, clients) = (validate::ledger(&sources, &raw.ledger)?, validate::clients(&sources, &raw.clients)?);
    let keys = KeySource::choose(&raw.marks.key_env, environment, &ledger.url).map_err(|why| layers.fault("marks.key_env", why))?;
    Ok(OfflineSettings { policy: sources.policy("policy", raw.policy.as_deref()), keys, scope: raw.marks.scope, ledger, clients })
}

/// Reads and checks all settings. `directory`: the working directory, the base of relative paths that no file contains.
///
/// # Errors
/// The first error, with its place and its remedy.
pub fn load(flags: &Flags, environment: &Environment, directory: &Path) -> Result<Settings, Error> {
    let (layers, mut raw, file) = read(flags, environment, directory)?;
    cassettes::stand_in(&raw.replay, &mut raw.upstreams);
    if raw.upstreams.is_empty() {
        return Err(Error::NoUpstream);
    }
    let sources = SettingsSources { layers: &layers, environment, directory, file: file.as_deref(), notices: RefCell::default() };
    let mut notices = Vec::new();
    let upstreams = upstreams::validate(&sources, &raw.upstreams, raw.replay.mode)?;
    let clients = validate::clients(&sources, &raw.clients)?;
    let mut ledger = validate::ledger(&sources, &raw.ledger)?;
    let counters = validate::counters(&sources, &raw.counters, &ledger.url)?;
    let keys = KeySource::choose(&raw.marks.key_env, environment, &ledger.url).map_err(|why| layers.fault("marks.key_env", why))?;
    let listen = validate::listen_address(&sources, "listen", &raw.listen)?;
    let admin = validate::admin(&sources, &raw.admin, listen)?;
    if !raw.allow_anonymous {
        validate::open_relay(&sources, listen, &upstreams, &clients)?;
    }
    let cassettes = cassettes::validate(&sources, &raw.record, &raw.replay, &raw.faults, &upstreams)?;
    ledger.redactor = cassettes.redactor.clone();
    let verifier = verifier::validate(&sources, raw.verifier.as_ref(), &raw.replay, &upstreams)?;
    let policy = sources.policy("policy", raw.policy.as_deref());
    validate::ledger_policies(&sources, &policy, &clients, &ledger)?;
    notices.extend(sources.notices.take());
    notices.dedup();
    validate::notices(&mut notices, &keys, &upstreams, &clients, &counters);
    Ok(Settings {
        listen,
        policy,
        passthrough: validate::passthrough(&sources, &raw.passthrough)?,
        allowed_hosts: validate::allowed_hosts(&sources, &raw.allowed_hosts)?,
        allow_anonymous: raw.allow_anonymous,
        upstreams,
        clients,
        ledger,
        counters,
        keys,
        scope: raw.marks.scope,
        mcp: mcp::validate(&sources, &raw.mcp)?,
        probe_hosts: probe_hosts::validate(&sources, &raw.probe_hosts)?,
        admin,
        alerts: alerts::validate(&sources, &raw.alerts)?,
        traces: env::otel::traces(environment)?,
        cassettes,
        verifier,
        limits: validate::limits(&sources, &raw.limits)?,
        log: Log { format: raw.log.format, level: raw.log.level },
        notices,
        file,
    })
}

fn read(flags: &Flags, environment: &Environment, directory: &Path) -> Result<(Layers, TomlSettings, Option<PathBuf>), Error> {
    let mut layers = Layers::default();
    let file = read_file(&mut layers, flags, directory)?;
    let unknown = env::add(&mut layers, environment)?;
    add_flags(&mut layers, flags);
    let raw: TomlSettings = layers.extract()?;
    refuse_unknown(&raw, &unknown)?;
    Ok((layers, raw, file))
}

/// Advice for a settings file that can't be read.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => ": is the path after --config right? Without --config, `--upstream URL` needs no file",
        std::io::ErrorKind::PermissionDenied => ": let the user who runs toolmark read it",
        std::io::ErrorKind::IsADirectory => ": name the file in it",
        _ => "",
    }
}

fn read_file(layers: &mut Layers, flags: &Flags, directory: &Path) -> Result<Option<PathBuf>, Error> {
    let path = directory.join(flags.config.as_deref().unwrap_or(Path::new(CONFIG_FILE)));
    match std::fs::read_to_string(&path) {
        Ok(text) => layers.toml(&path.display().to_string(), &text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && flags.config.is_none() => return Ok(None),
        Err(source) => return Err(Error::Read { path, source }),
    }
    Ok(Some(path))
}

fn add_flags(layers: &mut Layers, flags: &Flags) {
    if let Some(listen) = &flags.listen {
        layers.value("--listen", &["listen"], listen.as_str().into());
    }
    if let Some(policy) = &flags.policy {
        layers.value("--policy", &["policy"], policy.as_str().into());
    }
    for (flag, section, key, path) in [("--record", "record", "path", &flags.record), ("--replay", "replay", "file", &flags.replay)] {
        if let Some(path) = path {
            layers.value(flag, &[section, key], path.display().to_string().into());
        }
    }
    if let Some(url) = &flags.upstream {
        layers.value("--upstream", &["upstreams"], upstreams::of_flag(url));
    }
}

/// Refuses unknown variables, except those that a setting names as the source of a secret.
fn refuse_unknown(raw: &TomlSettings, unknown: &[String]) -> Result<(), ConfigError> {
    let of_mcp =
        |name: &String| raw.mcp.iter().any(|server| server.env.contains(name) || server.headers_env.values().any(|env| env == name));
    let named = |name: &&String| {
        raw.marks.key_env == **name
            || raw.alerts.iter().any(|alert| alert.names(name))
            || raw.upstreams.iter().any(|upstream| upstream.api_key_env.as_deref() == Some(name.as_str()))
            || of_mcp(name)
    };
    match unknown.iter().find(|name| !named(name)) {
        Some(name) => Err(env::unknown(name)),
        None => Ok(()),
    }
}

/// Name of the settings file in the working directory.
pub const CONFIG_FILE: &str = "toolmark.toml";
/// Variable with the keys of the marks, unless `[marks] key_env` names another one.
pub const KEY_ENV: &str = "TOOLMARK_KEY";

#[cfg(test)]
mod tests;
