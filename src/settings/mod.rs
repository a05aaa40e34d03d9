//! Settings: defaults, then `toolmark.toml`, then the environment, then flags. CONTRACT.md, "Settings".
//!
//! Runs once, before anything listens. Everything is checked here and turned into types, so that nothing
//! later has to ask whether a setting makes sense. What isn't built yet is refused, or named in a notice.

mod access;
mod alerts;
mod cassettes;
mod env;
pub(crate) mod fault;
mod fitting;
mod keys;
pub(crate) mod layers;
mod mcp;
mod paths;
mod probes;
mod raw;
mod secret;
mod traces;
mod types;
mod upstream;
mod verifier;

use std::{
    cell::RefCell,
    net::SocketAddr,
    path::{Path, PathBuf},
};

pub use alerts::{Alert, Counts, Metric};
pub use cassettes::Cassettes;
pub use env::Environment;
pub use fault::Fault;
pub use keys::{KeyError, KeySource, load_or_make_key};
pub use mcp::{Execute, McpServer, Named, Transport};
pub use probes::ProbeHosts;
pub use raw::{Durability, Store};
pub use secret::Secret;
pub use traces::{Sampler, Traces};
pub use types::{Admin, BodyTools, CallIds, Client, Ledger, LedgerUrl, Limits, Log, LogFormat, LogLevel, Rate, Scope, ToolChoice};
pub use upstream::{Credential, Responses, Timeouts, Upstream};
pub use verifier::{Verifier, When};

use crate::policy::load::PolicySource;
use layers::Layers;
use raw::Raw;

/// What the command line says; each wins over file and environment.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config FILE`; it must exist.
    pub config: Option<PathBuf>,
    /// `--listen ADDR`
    pub listen: Option<String>,
    /// `--upstream URL`: the only upstream, named `upstream`. Where the URL has no path, `/v1` is added.
    pub upstream: Option<String>,
    /// `--policy FILE`
    pub policy: Option<String>,
    /// `--record FILE`: what exchanges are recorded in; a file, or a directory.
    pub record: Option<PathBuf>,
    /// `--replay FILE`: the cassette that answers in place of the upstreams.
    pub replay: Option<PathBuf>,
}

/// All settings, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The policy in force where a client has none of its own.
    pub policy: PolicySource,
    /// Further `/v1/` paths let through unenforced; one that ends in `/*` covers what is below.
    pub passthrough: Vec<String>,
    /// Host names besides loopback's own, in lower case.
    pub allowed_hosts: Vec<String>,
    /// May anyone use toolmark's own upstream keys from beyond loopback?
    pub allow_anonymous: bool,
    /// At least one; the first that serves a model gets it.
    pub upstreams: Vec<Upstream>,
    /// toolmark's own keys for callers; empty: callers aren't told apart.
    pub clients: Vec<Client>,
    /// The lasting record.
    pub ledger: Ledger,
    /// The keys of the marks.
    pub keys: KeySource,
    /// What marks are bound to.
    pub scope: Scope,
    /// Servers of tools.
    pub mcp: Vec<McpServer>,
    /// Whom `[[state]]` may ask over HTTP.
    pub probe_hosts: ProbeHosts,
    /// The admin listener.
    pub admin: Admin,
    /// Who is told when something happens too often.
    pub alerts: Vec<Alert>,
    /// Where traces go, if anywhere; said by OpenTelemetry's own environment variables.
    pub traces: Option<Traces>,
    /// What is recorded and played, and what goes wrong on purpose.
    pub cassettes: Cassettes,
    /// Who is asked for a second opinion, if anybody.
    pub verifier: Option<Verifier>,
    /// Bounds.
    pub limits: Limits,
    /// The log.
    pub log: Log,
    /// What the user should know at start: parts that aren't built yet, keys that are kept nowhere.
    pub notices: Vec<String>,
    /// The settings file that was read, if any.
    pub file: Option<PathBuf>,
}

impl Settings {
    /// The upstream for a model; for no model, the first.
    pub fn upstream_for(&self, model: Option<&str>) -> Option<&Upstream> {
        match model {
            Some(model) => self.upstreams.iter().find(|upstream| upstream.serves(model)),
            None => self.upstreams.first(),
        }
    }
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("the settings file {path} can't be read: {source}{hint}", path = path.display(), hint = remedy(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// There is nobody to pass requests to.
    #[error(
        "no upstream: say where the model server is, e.g. `toolmark serve --upstream https://api.openai.com/v1`, or in {CONFIG_FILE}:\n\
         [[upstreams]]\nname = \"openai\"\nbase_url = \"https://api.openai.com/v1\""
    )]
    NoUpstream,
}

/// What judging offline needs: neither an upstream nor its key.
#[derive(Clone, Debug)]
pub struct Offline {
    /// The policy in force.
    pub policy: PolicySource,
    /// The keys of the marks. [`KeySource::keys`] makes a missing file; offline, look before asking.
    pub keys: KeySource,
    /// What marks are bound to.
    pub scope: Scope,
    /// The lasting record.
    pub ledger: Ledger,
    /// toolmark's own keys for callers.
    pub clients: Vec<Client>,
}

/// Reads what judging offline needs, from the same layers as [`load`].
///
/// # Errors
/// The first thing that is wrong with it.
pub fn load_offline(flags: &Flags, environment: &Environment, directory: &Path) -> Result<Offline, Error> {
    let (layers, raw, file) = read(flags, environment, directory)?;
    let checker = Checker { layers: &layers, environment, directory, file: file.as_deref(), notices: RefCell::default() };
    let (ledger, clients) = (checker.ledger(&raw.ledger)?, checker.clients(&raw)?);
    let keys = KeySource::choose(&raw.marks.key_env, environment, &ledger.url).map_err(|why| layers.fault("marks.key_env", why))?;
    Ok(Offline { policy: checker.policy("policy", raw.policy.as_deref()), keys, scope: raw.marks.scope, ledger, clients })
}

/// Reads and checks all settings. `directory`: the working directory, from which relative paths are taken that no file says.
///
/// # Errors
/// The first thing that is wrong, with its place and what to do.
pub fn load(flags: &Flags, environment: &Environment, directory: &Path) -> Result<Settings, Error> {
    let (layers, mut raw, file) = read(flags, environment, directory)?;
    cassettes::stand_in(&mut raw);
    if raw.upstreams.is_empty() {
        return Err(Error::NoUpstream);
    }
    let checker = Checker { layers: &layers, environment, directory, file: file.as_deref(), notices: RefCell::default() };
    let mut notices = Vec::new();
    let upstreams = checker.upstreams(&raw)?;
    let clients = checker.clients(&raw)?;
    let ledger = checker.ledger(&raw.ledger)?;
    let keys = KeySource::choose(&raw.marks.key_env, environment, &ledger.url).map_err(|why| layers.fault("marks.key_env", why))?;
    let listen = checker.listen("listen", &raw.listen)?;
    let admin = checker.admin(&raw, listen)?;
    checker.open_relay(&raw, listen, &upstreams)?;
    let cassettes = checker.cassettes(&raw, &upstreams)?;
    let verifier = checker.verifier(&raw, &upstreams)?;
    let policy = checker.policy("policy", raw.policy.as_deref());
    notices.extend(checker.notices.take());
    notices.dedup();
    access::notices(&mut notices, &keys, &upstreams, &clients);
    Ok(Settings {
        listen,
        policy,
        passthrough: checker.passthrough(&raw.passthrough)?,
        allowed_hosts: checker.allowed_hosts(&raw.allowed_hosts)?,
        allow_anonymous: raw.allow_anonymous,
        upstreams,
        clients,
        ledger,
        keys,
        scope: raw.marks.scope,
        mcp: checker.mcp(&raw)?,
        probe_hosts: checker.probe_hosts(&raw.probe_hosts)?,
        admin,
        alerts: checker.alerts(&raw)?,
        traces: traces::traces(environment)?,
        cassettes,
        verifier,
        limits: checker.limits(&raw.limits)?,
        log: Log { format: raw.log.format, level: raw.log.level },
        notices,
        file,
    })
}

/// What every check needs to look at.
struct Checker<'s> {
    layers: &'s Layers,
    environment: &'s Environment,
    directory: &'s Path,
    /// The settings file, if any.
    file: Option<&'s Path>,
    /// What is found that the user should know.
    notices: RefCell<Vec<String>>,
}

fn read(flags: &Flags, environment: &Environment, directory: &Path) -> Result<(Layers, Raw, Option<PathBuf>), Error> {
    let mut layers = Layers::default();
    let file = read_file(&mut layers, flags, directory)?;
    let unknown = env::add(&mut layers, environment)?;
    add_flags(&mut layers, flags);
    let raw: Raw = layers.extract()?;
    refuse_unknown(&raw, &unknown)?;
    Ok((layers, raw, file))
}

/// What to do about a settings file that can't be read.
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
        layers.value("--upstream", &["upstreams"], upstream::of_flag(url));
    }
}

/// A variable may have any name where a setting names it as the place of a secret.
fn refuse_unknown(raw: &Raw, unknown: &[String]) -> Result<(), Fault> {
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

/// The settings file of the working directory.
pub const CONFIG_FILE: &str = "toolmark.toml";
/// Where the keys of the marks are, unless `[marks] key_env` names another variable.
pub const KEY_ENV: &str = "TOOLMARK_KEY";

#[cfg(test)]
mod tests;
