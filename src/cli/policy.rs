//! `toolmark policy put | list | get`: policies that replicas share in their ledger.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::{Args, Subcommand};

use super::{Error, ledger};
use crate::{
    ledger::{
        policy_versions::{FIRST, PolicyKeys, PolicyTable, PolicyVersion},
        store::{StoreError, open},
    },
    policy::{
        bundle::PolicyBundle,
        load::{LEDGER_NAME, is_ledger_name},
    },
    settings::{self, Environment, Flags, OfflineSettings},
};

/// Versions that are listed at most.
const LISTED_MAX: usize = 1000;

/// `toolmark policy`
#[derive(Args, Clone, Debug)]
pub struct PolicyArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// The commands of `toolmark policy`.
#[derive(Clone, Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy and put it into the ledger, with its tool files: replicas take it within a second
    #[command(after_help = PUT_EXAMPLE)]
    Put {
        /// The policy file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Name of the policy, for `policy = "ledger:NAME"`
        #[arg(long, value_name = "NAME", default_value = LEDGER_NAME)]
        name: String,
        /// Who puts it, as it is listed later [default: the user that runs this]
        #[arg(long, value_name = "WHO")]
        by: Option<String>,
    },
    /// List the versions, the newest first; exit 1 if one isn't as it was put
    #[command(after_help = LIST_EXAMPLE)]
    List {
        /// Only of this name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Print the text of a policy
    #[command(after_help = GET_EXAMPLE)]
    Get {
        /// Name of the policy
        #[arg(long, value_name = "NAME", default_value = LEDGER_NAME)]
        name: String,
        /// Its version [default: the newest]
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
    },
}

/// Runs the command.
///
/// # Errors
/// Settings, keys, a policy or a ledger that can't be used.
pub fn run(policy: &PolicyArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let environment = Environment::of_process();
    let offline = settings::load_offline(flags, &environment, Path::new(""))?;
    let table = open::policies(&offline.ledger.url).map_err(failed)?;
    match &policy.command {
        PolicyCommand::Put { file, name, by } => {
            let user = || environment.lookup("USER").or_else(|| environment.lookup("LOGNAME")).unwrap_or("unknown").to_owned();
            put(&offline, &*table, file, name, by.clone().unwrap_or_else(user))
        }
        PolicyCommand::List { name } => list(&offline, &*table, name.as_deref()),
        PolicyCommand::Get { name, version } => get(&offline, &*table, name, *version),
    }
}

fn failed(error: StoreError) -> Error {
    Error::Failed(error.to_string())
}

fn written(error: io::Error) -> Error {
    Error::Failed(format!("the output can't be written: {error}"))
}

fn put(offline: &OfflineSettings, table: &dyn PolicyTable, file: &Path, name: &str, author: String) -> Result<ExitCode, Error> {
    if !is_ledger_name(name) {
        return Err(Error::Failed(format!("`{name}` is no name of a policy: 1 to 64 of A-Z a-z 0-9 _ -")));
    }
    let keys = PolicyKeys::new(&ledger::keys(offline)?);
    let bundle = PolicyBundle::read(file)?;
    let rules = bundle.compile(&file.display().to_string())?;
    let body = bundle.bytes().map_err(|error| Error::Failed(format!("{}: {error}", file.display())))?;
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let new = PolicyVersion { name: name.to_owned(), version: 0, at_ms, author, body, before: FIRST, mac: FIRST };
    let version = table.put(&keys, new).map_err(failed)?;
    let (tools, digest) = (rules.tools.len(), &rules.digest[..16]);
    writeln!(
        io::stdout().lock(),
        "version {version} of `{name}`, digest {digest}, {tools} tools: replicas with `policy = \"ledger{}\"` take it within a second",
        if name == LEDGER_NAME { String::new() } else { format!(":{name}") }
    )
    .map_err(written)?;
    Ok(ExitCode::SUCCESS)
}

fn list(offline: &OfflineSettings, table: &dyn PolicyTable, name: Option<&str>) -> Result<ExitCode, Error> {
    let keys = PolicyKeys::new(&ledger::keys(offline)?);
    let versions = table.versions(name, LISTED_MAX).map_err(failed)?;
    let mut out = io::stdout().lock();
    if versions.is_empty() {
        writeln!(out, "no version: replicas use their files. `toolmark policy put FILE` puts the first").map_err(written)?;
    }
    let mut all_whole = true;
    for version in &versions {
        let before = versions.iter().find(|before| before.name == version.name && before.version + 1 == version.version);
        // The oldest that is listed may have one before it that isn't.
        let follows = before.is_none_or(|before| before.mac == version.before);
        let whole = keys.is_whole(version) && follows;
        all_whole &= whole;
        let rules = PolicyBundle::parse(&version.body).ok().and_then(|bundle| bundle.compile("the policy").ok());
        let digest = rules.map_or("-".to_owned(), |rules| rules.digest[..16].to_owned());
        let at = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(version.at_ms));
        let state = if whole { "" } else { "  NOT AS IT WAS PUT" };
        writeln!(out, "{}  {}  {at}  {digest}  by {}{state}", version.name, version.version, version.author).map_err(written)?;
    }
    Ok(if all_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn get(offline: &OfflineSettings, table: &dyn PolicyTable, name: &str, version: Option<u64>) -> Result<ExitCode, Error> {
    let keys = PolicyKeys::new(&ledger::keys(offline)?);
    let found = match version {
        Some(version) => table.version(name, version).map_err(failed)?,
        None => table.newest(name, 0).map_err(failed)?,
    };
    let Some(found) = found else { return Err(Error::Failed(format!("there is no such version of `{name}`: `toolmark policy list`"))) };
    if !keys.is_whole(&found) {
        return Err(Error::Failed(format!("version {} of `{name}` isn't as it was put, or its key isn't known here", found.version)));
    }
    let bundle = PolicyBundle::parse(&found.body).map_err(|error| Error::Failed(error.to_string()))?;
    if bundle.file_count() > 0 {
        eprintln!("with {} tool files, which aren't printed", bundle.file_count());
    }
    io::stdout().lock().write_all(bundle.text().as_bytes()).map_err(written)?;
    Ok(ExitCode::SUCCESS)
}

const PUT_EXAMPLE: &str = "\
EXAMPLE
  toolmark policy put policies/mine.toml
  toolmark policy put strict.toml --name strict --by alice

Needs a ledger that replicas share (`[ledger] url = \"postgres://…\"`) and their key. The policy is checked first; exit 2 and the
place of the fault if it is wrong. Replicas with `policy = \"ledger\"` take the new version within a second, whole or not at all.";

const LIST_EXAMPLE: &str = "\
EXAMPLE
  toolmark policy list
  toolmark policy list --name strict

One line for each version: name, number, time, digest, who put it. Versions are never removed.";

const GET_EXAMPLE: &str = "\
EXAMPLE
  toolmark policy get > policy.toml
  toolmark policy get --version 3 > before.toml && toolmark policy put before.toml     # back to version 3";
