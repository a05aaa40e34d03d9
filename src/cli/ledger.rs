//! `toolmark ledger verify | export | anchor`, and functions shared with `toolmark verify`.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::Error;
use crate::{
    ledger::{
        chain::ChainKeys,
        codec,
        record::Digest,
        store::{ChainStore, Position, StoreError, open::open_to_read},
        verify,
    },
    settings::{self, Environment, Flags, KeySource, LedgerUrl, OfflineSettings},
    telemetry::summary::ended,
};

/// Records read at a time.
const READ: usize = 500;

/// `toolmark ledger`
#[derive(Args, Clone, Debug)]
pub struct LedgerArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: LedgerCommand,
}

/// The commands of `toolmark ledger`.
#[derive(Clone, Debug, Subcommand)]
pub enum LedgerCommand {
    /// Check that no record was changed, removed, inserted or reordered; exit 1 and the first one if so
    #[command(after_help = VERIFY_EXAMPLE)]
    Verify {
        /// Output of an earlier `toolmark ledger anchor`: records cut off since then are noticed too
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
    },
    /// Write the records as JSON lines
    #[command(after_help = EXPORT_EXAMPLE)]
    Export {
        /// Only exchanges that ended within this time, e.g. 1h
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        since: Option<Duration>,
        /// Only exchanges that ended before this time, e.g. 10m
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        until: Option<Duration>,
    },
    /// Print the newest MAC of each chain, to be kept elsewhere
    #[command(after_help = ANCHOR_EXAMPLE)]
    Anchor,
}

/// The output of `toolmark ledger anchor`.
#[derive(Debug, Deserialize, Serialize)]
struct AnchorFile {
    /// The time, as RFC 3339.
    at: String,
    chains: Vec<ChainAnchor>,
}

#[derive(Debug, Deserialize, Serialize)]
struct ChainAnchor {
    writer: u32,
    sequence: u64,
    mac: Digest,
}

/// Runs the command.
///
/// # Errors
/// Settings, keys or a ledger that can't be read.
pub fn run(ledger: &LedgerArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let offline = settings::load_offline(flags, &Environment::of_process(), Path::new(""))?;
    let store = open(&offline)?;
    match &ledger.command {
        LedgerCommand::Verify { anchor } => check(&offline, &*store, anchor.as_deref()),
        LedgerCommand::Export { since, until } => export(&*store, *since, *until),
        LedgerCommand::Anchor => anchor(&*store),
    }
}

/// Opens the ledger named in the settings for reading.
pub(super) fn open(offline: &OfflineSettings) -> Result<Arc<dyn ChainStore>, Error> {
    if offline.ledger.url == LedgerUrl::Memory {
        return Err(Error::Failed("the ledger is `memory:`: it is gone when `serve` ends, so there is nothing to read here. Set `[ledger] url = \"sqlite:toolmark.db\"`".into()));
    }
    open_to_read(&offline.ledger.url).map_err(failed)
}

/// The keys; none are created here.
pub(super) fn keys(offline: &OfflineSettings) -> Result<Vec<[u8; 32]>, Error> {
    if let KeySource::File(path) = &offline.keys
        && !path.exists()
    {
        return Err(Error::Failed(format!(
            "the key file {} isn't there. `serve` makes it beside the ledger: run this with the same settings and in the same directory, or give the key in TOOLMARK_KEY",
            path.display()
        )));
    }
    offline.keys.keys().map_err(|error| Error::Failed(error.to_string()))
}

fn failed(error: StoreError) -> Error {
    Error::Failed(error.to_string())
}

fn written(error: io::Error) -> Error {
    Error::Failed(format!("the output can't be written: {error}"))
}

fn check(offline: &OfflineSettings, store: &dyn ChainStore, anchor: Option<&Path>) -> Result<ExitCode, Error> {
    let keys = ChainKeys::new(&keys(offline)?);
    let kept = anchor.map_or(Ok(Vec::new()), read_anchor)?;
    let report = verify::verify(store, &keys, &kept);
    let mut out = io::stdout().lock();
    let report = match report {
        Ok(report) => report,
        Err(StoreError::Corrupt(what)) => {
            writeln!(out, "NOT WHOLE: {what}").map_err(written)?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(failed(error)),
    };
    let removed = if report.removed > 0 {
        format!("; {} older ones were removed for their age, under a seal", report.removed)
    } else {
        String::new()
    };
    match &report.fault {
        None => {
            let (chains, records) = (report.chains, report.records);
            writeln!(out, "whole: {records} records in {chains} chains, and all that is written beside them to find them{removed}")
                .map_err(written)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(fault) => {
            writeln!(out, "NOT WHOLE: {fault}\n{} records before it are whole{removed}", report.records).map_err(written)?;
            if report.records == 0 {
                let hint = "No record fits these keys: an older key may have written it, and then nothing was changed. Give it behind the new one, TOOLMARK_KEY=new,old, or, where TOOLMARK_KEY isn't set, with the key file beside the ledger.";
                writeln!(out, "{hint}").map_err(written)?;
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

fn read_anchor(path: &Path) -> Result<Vec<Position>, Error> {
    let wrong = |why: String| Error::Failed(format!("the anchor {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let noted: AnchorFile =
        serde_json::from_str(&text).map_err(|error| wrong(format!("{error}. Expected: the output of `toolmark ledger anchor`")))?;
    Ok(noted.chains.into_iter().map(|chain| Position { writer: chain.writer, sequence: chain.sequence, mac: chain.mac.0 }).collect())
}

fn anchor(store: &dyn ChainStore) -> Result<ExitCode, Error> {
    let chains = store.chains().map_err(failed)?;
    let noted = |position: Position| ChainAnchor { writer: position.writer, sequence: position.sequence, mac: Digest(position.mac) };
    let chains = chains.into_iter().filter_map(|chain| chain.tip.map(noted)).collect();
    let noted = AnchorFile { at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(), chains };
    let json = serde_json::to_string(&noted).map_err(|error| Error::Failed(error.to_string()))?;
    writeln!(io::stdout().lock(), "{json}").map_err(written)?;
    Ok(ExitCode::SUCCESS)
}

fn export(store: &dyn ChainStore, since: Option<Duration>, until: Option<Duration>) -> Result<ExitCode, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago = |time: Option<Duration>| time.map(|time| now.saturating_sub(time).as_millis() as u64);
    let (since, until) = (ago(since).unwrap_or(0), ago(until).unwrap_or(u64::MAX));
    let mut out = BufWriter::new(io::stdout().lock());
    let mut unreadable = 0;
    for chain in store.chains().map_err(failed)? {
        let mut after = 0;
        loop {
            let records = store.records(chain.writer, after, READ).map_err(failed)?;
            let Some(last) = records.last() else { break };
            after = last.position.sequence;
            for record in records.iter().filter(|record| (since..=until).contains(&record.ended_ms)) {
                let Position { writer, sequence, mac } = &record.position;
                let read = codec::read(&record.body).ok();
                let ended = read.as_ref().map_or_else(|| "null".to_owned(), |own| format!("\"{}\"", ended(own)));
                let body = read.and_then(|own| serde_json::to_string(&own).ok());
                unreadable += u64::from(body.is_none());
                let (body, mac) = (body.as_deref().unwrap_or("null"), Digest(*mac));
                match writeln!(out, "{{\"writer\":{writer},\"sequence\":{sequence},\"mac\":\"{mac}\",\"ended\":{ended},\"record\":{body}}}")
                {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                    line => line.map_err(written)?,
                }
            }
        }
    }
    out.flush().map_err(written)?;
    if unreadable > 0 {
        return Err(Error::Failed(format!(
            "{unreadable} records can't be read and are `null`: `toolmark ledger verify` names the first that isn't as it was written"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

const VERIFY_EXAMPLE: &str = "\
EXAMPLE
  toolmark ledger verify
  toolmark ledger verify --anchor /mnt/elsewhere/anchor.json

It needs the key that the records were sealed with. Whoever has that key can write the ledger anew; that the newest
records were cut off is noticed only against an anchor that was kept elsewhere. Exit 0 if whole, 1 if not.";

const EXPORT_EXAMPLE: &str = "\
EXAMPLE
  toolmark ledger export > records.jsonl
  toolmark ledger export --since 1h | jq .ended

`ended` is how the exchange ended: pass, warn, repaired, blocked, failed (the upstream gave no answer that could be judged)
or abandoned (the caller left). `record.verdict` is only what was found in what was judged.";

const ANCHOR_EXAMPLE: &str = "\
EXAMPLE
  toolmark ledger anchor > /mnt/elsewhere/anchor.json

Keep it where whoever could change the ledger can't reach it, and give it to `toolmark ledger verify --anchor`.";
