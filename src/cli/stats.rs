//! `toolmark stats`: prints the statistics of the ledger named in the settings, as a table or as JSON.
//!
//! Reads only; `toolmark serve` may be writing the same ledger. The dashboard shows the same figures.

use std::{
    fmt::Write as _,
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;

use super::Error;
use crate::{
    ledger::store::open::open_to_read,
    settings::{self, Environment, Flags, LedgerUrl},
    telemetry::stats::{CallCounts, Stats, Totals, query::statistics},
};

/// Rows of each table at most.
const ROWS_MAX: usize = 20;
/// Characters of a name at most.
const NAME_CHARS_MAX: usize = 40;

/// `toolmark stats`
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {
    /// Only the last DURATION, e.g. 60s, 24h or 7d; above 1h it begins at a full hour
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub window: Option<Duration>,
    /// As JSON, like `GET /api/stats`
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// Settings or a ledger that can't be read.
pub fn run(arguments: &StatsArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let offline = settings::load_offline(flags, &Environment::of_process(), Path::new(""))?;
    if offline.ledger.url == LedgerUrl::Memory {
        let message = "the ledger is kept in memory (`memory:`), so only the running process knows its statistics: ask its admin listener, GET /api/stats";
        return Err(Error::Failed(message.into()));
    }
    let failed = |error: crate::ledger::store::StoreError| Error::Failed(error.to_string());
    let store = open_to_read(&offline.ledger.url).map_err(failed)?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let stats = statistics(&*store, arguments.window, now_ms).map_err(failed)?;
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&stats).map_err(|error| Error::Failed(error.to_string()))? + "\n",
        false => table(&stats),
    };
    // Through `write_all`, not `print!`: a closed pipe is no panic.
    let _closed = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// The statistics as text.
pub fn table(stats: &Stats) -> String {
    let mut out = String::new();
    let time = |ms: u64| humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string();
    let _infallible = writeln!(out, "{} to {}", time(stats.since_ms), time(stats.until_ms));
    if !stats.complete {
        out.push_str("There was more in the window than is looked at: this is the latest part of it.\n");
    }
    out.push('\n');
    totals(&mut out, &stats.totals);
    let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
    let failing = stats.failing.iter().map(|row| vec![name(&row.tool), row.failures.to_string(), time(row.last_failure_ms)]);
    section(&mut out, "Tools that fail now", &["tool", "failures in a row", "last failure"], failing);
    let tools = stats.tools.iter().map(|row| {
        let CallCounts { accepted, rejected, withheld } = row.calls;
        let durations =
            row.duration_ms.as_ref().map_or(["-", "-", "-"].map(String::from), |all| [all.p50, all.p90, all.p99].map(|ms| ms.to_string()));
        let counts = [accepted, rejected, withheld, row.executions].map(|count| count.to_string());
        [vec![name(&row.tool)], counts.into(), vec![percent(row.success_rate)], durations.into(), vec![row.tokens.to_string()]].concat()
    });
    let head = ["tool", "accepted", "rejected", "withheld", "executions", "success", "p50 ms", "p90 ms", "p99 ms", "tokens"];
    section(&mut out, "Tools", &head, tools);
    let models = stats.models.iter().map(|row| {
        let of = &row.totals;
        let counts = [of.exchanges, of.endings.repaired, of.endings.blocked, of.calls.rejected, of.tokens.input + of.tokens.output];
        let repairs = of.repair_tokens.input + of.repair_tokens.output;
        [vec![name(&row.model)], counts.map(|count| count.to_string()).into(), vec![repairs.to_string()]].concat()
    });
    section(&mut out, "Models", &["model", "exchanges", "repaired", "blocked", "rejected calls", "tokens", "of repairs"], models);
    let codes = stats.codes.iter().map(|row| vec![row.code.to_string(), row.info.to_string(), row.warn.to_string(), row.block.to_string()]);
    section(&mut out, "Violations", &["code", "info", "warn", "block"], codes);
    let invented = stats.invented.iter().map(|row| vec![name(&row.name), row.calls.to_string()]);
    section(&mut out, "Invented tools", &["name", "calls"], invented);
    out
}

fn totals(out: &mut String, totals: &Totals) {
    let Totals { endings, calls, .. } = totals;
    let rows = [
        (
            "exchanges",
            format!(
                "{}: {} pass, {} warn, {} repaired, {} blocked, {} failed, {} abandoned",
                totals.exchanges, endings.pass, endings.warn, endings.repaired, endings.blocked, endings.failed, endings.abandoned
            ),
        ),
        ("of 1000 exchanges", format!("{:.1} blocked, {:.1} calls rejected", totals.blocked_per_1000, totals.rejected_calls_per_1000)),
        ("calls", format!("{} accepted, {} rejected, {} withheld", calls.accepted, calls.rejected, calls.withheld)),
        ("executions", format!("{}, {} failed", totals.executions, totals.failed_executions)),
        ("repairs", format!("{} in {} upstream requests", totals.repairs, totals.attempts)),
        (
            "tokens",
            format!(
                "{} in, {} out; repairs {} in, {} out",
                totals.tokens.input, totals.tokens.output, totals.repair_tokens.input, totals.repair_tokens.output
            ),
        ),
        ("on average", format!("toolmark {:.0} µs, upstream {:.1} ms", totals.overhead_us_mean, totals.upstream_ms_mean)),
    ];
    for (title, value) in rows {
        let _infallible = writeln!(out, "{title:<18} {value}");
    }
}

fn section(out: &mut String, title: &str, head: &[&str], rows: impl ExactSizeIterator<Item = Vec<String>>) {
    let count = rows.len();
    if count == 0 {
        return;
    }
    let mut all: Vec<Vec<String>> = vec![head.iter().map(|&cell| cell.to_owned()).collect()];
    all.extend(rows.take(ROWS_MAX));
    let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let _infallible = writeln!(out, "\n{title}");
    for row in &all {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let _infallible = if column == 0 { write!(line, "  {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    if count > ROWS_MAX {
        let _infallible = writeln!(out, "  … and {} more: see --json", count - ROWS_MAX);
    }
}

/// A name chosen by models or clients, made safe for a terminal.
fn name(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(NAME_CHARS_MAX + 1).collect();
    if plain.chars().count() > NAME_CHARS_MAX { plain.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect() } else { plain }
}
