//! `toolmark verify ID`: checks whether an execution ID is toolmark's own, and shows the ledger's record of it.

use std::{
    fmt::Write as _,
    path::Path,
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use clap::Args;

use super::{Error, ledger};
use crate::{
    ledger::store::FoundExecution,
    marks::{ExecutionId, KeyRing, Scope},
    settings::{self, Environment, Flags, LedgerUrl, OfflineSettings},
};

/// `toolmark verify`
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// The execution ID, as it stands in a result or an answer
    #[arg(value_name = "EXECUTION_ID")]
    pub execution_id: String,
    /// The environment variable that holds the caller's `Authorization` header, e.g. `Bearer sk-…`: IDs are bound to their caller, and one
    /// that isn't in the ledger can only be checked with it
    #[arg(long, value_name = "VARIABLE")]
    pub credential_env: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Settings, keys or a ledger that can't be read.
pub fn run(verify: &VerifyArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let environment = Environment::of_process();
    let offline = settings::load_offline(flags, &environment, Path::new(""))?;
    let credential = match &verify.credential_env {
        None => None,
        Some(name) => {
            let value = environment.lookup(name).ok_or_else(|| Error::Failed(format!("the environment variable {name} isn't set")))?;
            Some(value.to_owned())
        }
    };
    let (text, ours) = explain(&verify.execution_id, &offline, credential.as_deref())?;
    print!("{text}");
    Ok(if ours { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn explain(id: &str, offline: &OfflineSettings, credential: Option<&str>) -> Result<(String, bool), Error> {
    let Some(parsed) = ExecutionId::parse(id) else {
        return Ok(("NOT OURS: it doesn't have the form of an execution ID: tool_milliseconds_16 hex digits\n".to_owned(), false));
    };
    let ring = KeyRing::new(&ledger::keys(offline)?);
    let mut scopes = vec![(Scope::shared(), "every caller".to_owned()), (Scope::anonymous(), "callers without a credential".to_owned())];
    scopes.extend(offline.clients.iter().map(|client| (Scope::client(&client.name), format!("client `{}`", client.name))));
    scopes.extend(credential.map(|credential| (Scope::credential(credential.as_bytes()), "the credential given".to_owned())));
    let whose = scopes.iter().find(|(scope, _)| ring.is_execution(&parsed, scope)).map(|(_, whose)| whose);
    let found = match offline.ledger.url {
        LedgerUrl::Memory => None,
        LedgerUrl::Sqlite(_) | LedgerUrl::Postgres(_) => {
            ledger::open(offline)?.execution(id).map_err(|error| Error::Failed(error.to_string()))?
        }
    };
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = match (whose, &found) {
        (Some(whose), _) => writeln!(text, "ours: the signature fits, for {whose}"),
        (None, Some(_)) => writeln!(text, "ours: the ledger has it; its signature is bound to a caller's credential, which wasn't given"),
        (None, None) => writeln!(
            text,
            "NOT OURS, as far as can be told: the ledger doesn't have it, and the signature fits no caller that is known here; one that is bound \
             to a caller's credential can be checked with --credential-env"
        ),
    };
    match &found {
        Some(found) => describe(&mut text, found),
        None if whose.is_some() => text.push_str("the ledger has no result for it: none came back, or it was removed for its age\n"),
        None => {}
    }
    Ok((text, whose.is_some() || found.is_some()))
}

fn describe(out: &mut String, found: &FoundExecution) {
    let execution = &found.execution;
    let time = |ms: u64| humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string();
    let outcome = if execution.failed { "failed" } else { "succeeded" };
    let rows = [
        ("tool", execution.tool.to_string()),
        ("outcome", outcome.to_owned()),
        ("called", time(execution.started_ms)),
        ("result seen", format!("{}, after {} ms", time(execution.seen_ms), execution.duration_ms())),
        ("result", format!("BLAKE3 {}", execution.result)),
        ("arguments", execution.arguments.map_or("not in the request".to_owned(), |digest| format!("BLAKE3 {digest}"))),
        ("exchange", found.exchange.to_string()),
        ("session", found.session.as_deref().unwrap_or("none named").to_owned()),
        ("client", found.client.as_deref().unwrap_or("none named").to_owned()),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "  {name:<12} {value}");
    }
}
