//! `toolmark doctor`: tries what `serve` will need, end to end, and says what to do about what fails.
//!
//! Sends some fourteen small requests to each upstream, with its own key or a caller's. Nothing is recorded; the ledger is only read.

mod report;
mod upstream;

use std::{
    fs::{File, OpenOptions},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;

use self::report::Row;
use super::{Error, LoadedConfig, check, health, http, init::providers::PROVIDERS};
use crate::{
    ledger::store::{self, StoreError},
    mcp::{Mcp, ServerHealth},
    settings::{CountersUrl, Credential, Environment, Flags, KeySource, LedgerUrl, Settings},
    sys::{limits, tls::TrustedRoots},
    violation::Severity,
};

/// Time that one request has.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// File by which a directory is tried.
const TRIAL: &str = ".toolmark-doctor";

/// `toolmark doctor`
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// The model server, instead of the upstreams in the settings, as for `serve`
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// The model to try, instead of the first that an upstream lists
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// The variable with a caller's key, for upstreams to which callers bring their own [default: the provider's usual one]
    #[arg(long, value_name = "VARIABLE")]
    pub key_env: Option<String>,
}

/// Data that the checks of all upstreams share.
struct Diagnosis<'d> {
    settings: &'d Settings,
    client: reqwest::Client,
    model: Option<String>,
    caller_key: Option<String>,
    now_unix: u64,
}

/// Tries everything and prints the table; exit code 1 if something is at fault.
///
/// # Errors
/// Settings or a policy that aren't valid: `toolmark check` says the same.
pub fn run(arguments: &DoctorArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let flags = Flags { upstream: arguments.upstream.clone(), ..flags.clone() };
    let prepared = super::prepare(&flags)?;
    let environment = Environment::of_process();
    let now_unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let context = Diagnosis {
        settings: &prepared.settings,
        client: http::client(REQUEST_MAX, TrustedRoots::Platform)?,
        model: arguments.model.clone(),
        caller_key: caller_key(arguments, &prepared.settings, &environment)?,
        now_unix,
    };
    let rows = rows(&context, &prepared)?;
    super::print(&report::table(&rows));
    Ok(if report::is_well(&rows) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn rows(context: &Diagnosis<'_>, prepared: &LoadedConfig) -> Result<Vec<Row>, Error> {
    let (settings, runtime) = (context.settings, http::runtime()?);
    let from = settings.file.as_ref().map_or("defaults, environment and flags".into(), |file| file.display().to_string());
    let mut rows = vec![Row::well("settings", format!("{from}, policy {}", settings.policy))];
    let faults = check::compile_tools(&prepared.rules);
    if !faults.is_empty() {
        rows.push(Row::fault("tools", faults.join("\n"), "mend the schemas that the policy names"));
    }
    for upstream in &settings.upstreams {
        match &upstream.cassette {
            Some(file) => rows.push(Row::note(format!("{}: reached", upstream.name), format!("a cassette: {}", file.display()), "")),
            None => rows.extend(runtime.block_on(upstream::rows(context, upstream))),
        }
    }
    // Clients of databases and MCP servers have runtimes of their own: they can't be called within this one.
    rows.extend(mcp(settings));
    rows.push(ledger(&settings.ledger.url));
    rows.extend(counters(&settings.counters.url));
    rows.push(marks(&settings.keys));
    rows.push(descriptors(settings.limits.connections as usize));
    rows.push(runtime.block_on(port("port", settings.listen, &context.client)));
    if let Some(listen) = settings.admin.listen {
        rows.push(runtime.block_on(port("admin port", listen, &context.client)));
    }
    Ok(rows)
}

/// A row for each MCP server, and one more where `expect` or drift keeps exchanges back.
fn mcp(settings: &Settings) -> Vec<Row> {
    if settings.mcp.is_empty() {
        return Vec::new();
    }
    let advice = "start it, or mend `command` or `url` of its [[mcp]]; `required = false` goes on without it";
    let mcp = match Mcp::of_settings(settings) {
        Ok(mcp) => mcp,
        Err(error) => return vec![Row::fault("mcp", error.to_string(), "")],
    };
    let catalog = mcp.catalog();
    let row = |(at, health): (usize, &ServerHealth)| {
        let check = format!("mcp: {}", health.name);
        let offered = catalog.1.tools().iter().filter(|tool| tool.server == at).count();
        match &health.down {
            None => Row::well(check, format!("{offered} tools, run by {}", health.execute.as_str())),
            Some(why) if health.required => Row::fault(check, why.to_string(), advice),
            Some(why) => Row::note(check, why.to_string(), advice),
        }
    };
    let mut rows: Vec<Row> = mcp.health().iter().enumerate().map(row).collect();
    let is_up = mcp.health().iter().all(|health| !health.required || health.down.is_none());
    rows.extend(catalog.1.missing().filter(|_| is_up).map(|why| Row::fault("mcp", why, "mend `expect`, or the server")));
    rows.extend(catalog.1.violations().iter().map(|violation| {
        let (said, advice) = (&*violation.message, &*violation.advice);
        if violation.severity == Severity::Block { Row::fault("mcp", said, advice) } else { Row::note("mcp", said, advice) }
    }));
    rows
}

/// A caller's key: from `--key-env`, else from the usual variable of the provider.
fn caller_key(arguments: &DoctorArgs, settings: &Settings, environment: &Environment) -> Result<Option<String>, Error> {
    let value = |name: &str| environment.lookup(name).map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned);
    if let Some(name) = &arguments.key_env {
        let key = value(name).ok_or_else(|| Error::Failed(format!("--key-env {name}: that variable isn't set")))?;
        return Ok(Some(key));
    }
    // A key goes only to the provider that it is for.
    let passed_on = settings.upstreams.iter().find(|upstream| upstream.credential == Credential::Caller);
    let Some(upstream) = passed_on else { return Ok(None) };
    let usual = PROVIDERS.iter().find(|provider| provider.key_env.is_some() && *provider.base_url == *upstream.base_url);
    Ok(usual.and_then(|provider| provider.key_env).and_then(value))
}

fn ledger(url: &LedgerUrl) -> Row {
    let check = "ledger";
    match url {
        LedgerUrl::Memory => Row::note(check, "kept in memory", "for a record that lasts: [ledger] url = \"sqlite:toolmark.db\""),
        LedgerUrl::Sqlite(path) => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if let Err(error) = is_writable(directory) {
                return Row::fault(
                    check,
                    format!("{} can't be written: {error}", directory.display()),
                    "let the user who runs toolmark write there, or name another file in [ledger] url",
                );
            }
            if !path.exists() {
                return Row::well(check, format!("{}, made on the first start", path.display()));
            }
            opened(store::open::open_to_read(url).map(|_| ()), path.display().to_string())
        }
        LedgerUrl::Postgres(_) => match store::open::open_to_read(url) {
            // Reached, and empty: `serve` makes the tables.
            Err(StoreError::Corrupt(why)) if why.contains("holds no ledger") => {
                Row::well(check, "PostgreSQL is reached; the first start makes the tables")
            }
            other => opened(other.map(|_| ()), "PostgreSQL".into()),
        },
    }
}

/// Shared counters; none where each process counts for itself.
fn counters(url: &CountersUrl) -> Option<Row> {
    let advice = "until they answer, each replica counts for itself: look at [counters] url";
    Some(match crate::counters::try_out(url)? {
        Ok(()) => Row::well("counters", "they answer"),
        Err(error) => Row::fault("counters", error.to_string(), advice),
    })
}

fn opened(result: Result<(), StoreError>, what: String) -> Row {
    match result {
        Ok(()) => Row::well("ledger", format!("{what} opens")),
        Err(error) => Row::fault("ledger", error.to_string(), ""),
    }
}

fn is_writable(directory: &Path) -> std::io::Result<()> {
    let trial = directory.join(TRIAL);
    let made: std::io::Result<File> = OpenOptions::new().write(true).create(true).truncate(true).open(&trial);
    made.and_then(|_| std::fs::remove_file(&trial))
}

fn marks(keys: &KeySource) -> Row {
    match keys {
        KeySource::Ring(keys) => Row::well("marks", format!("{} from the environment", if keys.len() == 1 { "a key" } else { "keys" })),
        KeySource::File(path) if !path.exists() => Row::well("marks", format!("the key is made in {} on the first start", path.display())),
        KeySource::File(_) => match keys.keys() {
            Ok(_) => Row::well("marks", "the key file is read"),
            Err(error) => Row::fault("marks", error.to_string(), ""),
        },
        KeySource::Ephemeral => {
            Row::note("marks", "a key for this run only", "ids made before a restart are unknown after it: set TOOLMARK_KEY")
        }
    }
}

fn descriptors(connections: usize) -> Row {
    let enough = limits::descriptors_for(connections);
    let text = format!("enough for {enough} connections");
    match enough {
        _ if enough >= connections => Row::well("descriptors", text),
        1000.. => Row::well("descriptors", text),
        _ => Row::note("descriptors", text, "more: ulimit -n 65536, or LimitNOFILE=65536 in a systemd unit"),
    }
}

async fn port(check: &str, address: SocketAddr, client: &reqwest::Client) -> Row {
    match TcpListener::bind(address) {
        Ok(_) => Row::well(check, format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => match health::ask(client, address).await {
            Ok(answer) if answer.status == 200 => Row::note(check, format!("{address} is served already, it seems by toolmark"), ""),
            Ok(_) | Err(_) => Row::fault(
                check,
                format!("{address} is another process's"),
                "stop it, or choose another address: listen, or [admin] listen",
            ),
        },
        Err(error) => Row::fault(check, format!("{address}: {error}"), "choose another address"),
    }
}
