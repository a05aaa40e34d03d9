//! `toolmark mcp`: lists and calls the servers' tools, and pins them.
//!
//! Reads the same settings as `serve`, and connects in the same way; a required server that is missing is shown, and isn't
//! fatal.

use std::{fmt::Write as _, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};

use super::Error;
use crate::{
    mcp::{
        Mcp,
        catalog::{Catalog, OfferedTool, ServerStatus, ServerTool},
        pins::{Pin, PinDrift, Pins},
        runner::ToolCallRequest,
    },
    settings::{self, Environment, Flags},
};

/// `toolmark mcp`
#[derive(Args, Clone, Debug)]
pub struct McpArgs {
    #[command(subcommand)]
    what: McpCommand,
}

/// The commands of `toolmark mcp`.
#[derive(Clone, Debug, Subcommand)]
pub enum McpCommand {
    /// Connect to the servers and list their tools; exit 1 if one is down
    #[command(after_help = "EXAMPLE\n  toolmark mcp list\n  toolmark mcp list --config /etc/toolmark.toml")]
    List,
    /// Call one tool; exit 1 if it fails
    #[command(after_help = "EXAMPLE\n  toolmark mcp call todo__add_task '{\"title\": \"Buy milk\"}'")]
    Call {
        /// The tool, by the name that `toolmark mcp list` shows
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Its arguments, a JSON object
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
    },
    /// Pin the tools of servers that aren't pinned yet
    #[command(after_help = "EXAMPLE\n  toolmark mcp pin          # all servers\n  toolmark mcp pin todo\n\n\
                            Writes toolmark.pins.json beside the settings. A tool that changes later is blocked (`schema_drift`) until `toolmark mcp approve`.")]
    Pin {
        /// Only this server
        #[arg(value_name = "SERVER")]
        server: Option<String>,
    },
    /// Pin a server's tools as they are now, whatever was pinned
    #[command(
        after_help = "EXAMPLE\n  toolmark mcp diff todo && toolmark mcp approve todo\n\nA running toolmark takes new pins at SIGHUP."
    )]
    Approve {
        /// The server
        #[arg(value_name = "SERVER")]
        server: String,
    },
    /// Compare the tools with their pins; exit 1 if anything differs
    #[command(after_help = "EXAMPLE\n  toolmark mcp diff\n  toolmark mcp diff todo")]
    Diff {
        /// Only this server
        #[arg(value_name = "SERVER")]
        server: Option<String>,
    },
}

/// Runs the command.
///
/// # Errors
/// Settings that can't be used, unknown servers or tools, pins that can't be read or written.
pub fn run(args: &McpArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let settings = settings::load(flags, &Environment::of_process(), std::path::Path::new(""))?;
    if settings.mcp.is_empty() {
        return Err(Error::Failed("no MCP servers: name them with [[mcp]] in the settings".into()));
    }
    let mcp = Arc::new(Mcp::of_settings(&settings).map_err(failed)?);
    let mut out = String::new();
    let fine = match &args.what {
        McpCommand::List => list(&mcp, &mut out),
        McpCommand::Call { tool, arguments } => call(&mcp, tool, arguments, &mut out)?,
        McpCommand::Pin { server } => pin(&mcp, server.as_deref(), &mut out)?,
        McpCommand::Approve { server } => approve(&mcp, server, &mut out)?,
        McpCommand::Diff { server } => diff(&mcp, server.as_deref(), &mut out)?,
    };
    // Through `write_all`, not `println!`: a closed pipe is no panic.
    let _closed = std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes());
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _infallible = writeln!(out, "{text}");
}

/// The present tools of the server with this name.
fn tools(mcp: &Mcp, name: &str) -> Result<Arc<Vec<ServerTool>>, Error> {
    let known: Vec<&str> = mcp.servers().iter().map(|server| &*server.settings.name).collect();
    let server = mcp.servers().iter().find(|server| *server.settings.name == *name);
    let unknown = || Error::Failed(format!("there is no MCP server `{name}`; known: {}", known.join(", ")));
    match server.ok_or_else(unknown)?.standing() {
        ServerStatus::Up(tools) => Ok(tools),
        ServerStatus::Down(why) => Err(Error::Failed(format!("the MCP server `{name}` is down: {why}"))),
    }
}

fn names(mcp: &Mcp, only: Option<&str>) -> Vec<String> {
    match only {
        Some(name) => vec![name.to_owned()],
        None => mcp.servers().iter().map(|server| server.settings.name.to_string()).collect(),
    }
}

/// Lists all servers and their tools; returns false if a server is down.
pub fn list(mcp: &Mcp, out: &mut String) -> bool {
    let catalog = mcp.catalog();
    let mut fine = true;
    for (at, health) in mcp.health().iter().enumerate() {
        let required = if health.required { ", required" } else { "" };
        let name = &health.name;
        match (&health.down, &health.version) {
            (None, version) => {
                let count = catalog.1.tools().iter().filter(|tool| tool.server == at).count();
                let pinned = if mcp.pins().servers.contains_key(&**name) { "pinned" } else { "not pinned" };
                let by = health.execute.as_str();
                let version = version.as_deref().unwrap_or("unknown");
                line(out, format_args!("{name}: up, MCP {version}, {count} tools, run by {by}, {pinned}{required}"));
            }
            (Some(why), _) => {
                fine = false;
                line(out, format_args!("{name}: DOWN{required}: {why}"));
            }
        }
        for tool in catalog.1.tools().iter().filter(|tool| tool.server == at) {
            line(out, format_args!("  {}{}", tool.name, hints(tool)));
        }
    }
    for notice in &catalog.1.notices {
        line(out, format_args!("note: {notice}"));
    }
    for violation in catalog.1.violations() {
        line(out, format_args!("{}: {}", violation.code, violation.message));
    }
    fine
}

fn hints(tool: &OfferedTool) -> String {
    let said = [
        (tool.read_only, "read-only".to_owned()),
        (tool.idempotent, "idempotent".to_owned()),
        (!tool.name.ends_with(&*tool.tool), format!("`{}` there", tool.tool)),
    ];
    let said: Vec<String> = said.into_iter().filter_map(|(is, word)| is.then_some(word)).collect();
    if said.is_empty() { String::new() } else { format!("  ({})", said.join(", ")) }
}

fn call(mcp: &Arc<Mcp>, name: &str, arguments: &str, out: &mut String) -> Result<bool, Error> {
    let catalog = mcp.catalog();
    let known = || -> Vec<&str> { catalog.1.tools().iter().map(|tool| &*tool.name).collect() };
    let unknown = |catalog: &Catalog| {
        let down: Vec<String> =
            mcp.health().iter().filter_map(|own| Some(format!("; `{}` is down: {}", own.name, own.down.as_ref()?))).collect();
        let hint = crate::config::error::maybe(name, &known());
        let names: Vec<&str> = catalog.tools().iter().map(|tool| &*tool.name).collect();
        Error::Failed(format!("there is no tool `{name}`{hint}; known: {}{}", names.join(", "), down.concat()))
    };
    let tool = catalog.1.tool(name).ok_or_else(|| unknown(&catalog.1))?;
    let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments);
    object.map_err(|error| Error::Failed(format!("the arguments are no JSON object: {error}; write them like '{{\"title\": \"x\"}}'")))?;
    let asked = ToolCallRequest { mark: "by hand".into(), tool: tool.clone(), arguments: arguments.to_owned() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let outcome = runtime.block_on(mcp.run(asked));
    line(out, format_args!("{}", outcome.text));
    Ok(!outcome.failed)
}

fn pin(mcp: &Mcp, only: Option<&str>, out: &mut String) -> Result<bool, Error> {
    let mut pins = Pins::clone(&mcp.pins());
    let mut fine = true;
    for name in names(mcp, only) {
        let tools = tools(mcp, &name)?;
        if pins.servers.contains_key(&name) {
            let drifts = pins.drifts(&name, &tools);
            fine &= drifts.is_empty();
            let how =
                if drifts.is_empty() { "as it was" } else { "and changed since: see `toolmark mcp diff`, then `toolmark mcp approve`" };
            line(out, format_args!("{name}: pinned already, {how}"));
            continue;
        }
        pins.servers.insert(name.clone(), pinned(&tools));
        line(out, format_args!("{name}: {} tools pinned in {}", tools.len(), mcp.pin_file().display()));
    }
    pins.write(mcp.pin_file()).map_err(failed)?;
    Ok(fine)
}

fn pinned(tools: &[ServerTool]) -> std::collections::BTreeMap<String, Pin> {
    tools.iter().map(|tool| (tool.name.to_string(), Pin::of(tool))).collect()
}

fn approve(mcp: &Mcp, name: &str, out: &mut String) -> Result<bool, Error> {
    let tools = tools(mcp, name)?;
    let mut pins = Pins::clone(&mcp.pins());
    let drifts = pins.drifts(name, &tools);
    pins.servers.insert(name.to_owned(), pinned(&tools));
    pins.write(mcp.pin_file()).map_err(failed)?;
    for (tool, drift) in &drifts {
        line(out, format_args!("{name}: `{tool}`: {} approved", drift.what()));
    }
    line(out, format_args!("{name}: {} tools pinned in {}", tools.len(), mcp.pin_file().display()));
    Ok(true)
}

fn diff(mcp: &Mcp, only: Option<&str>, out: &mut String) -> Result<bool, Error> {
    let mut same = true;
    for name in names(mcp, only) {
        let tools = tools(mcp, &name)?;
        let all = mcp.pins();
        let Some(pins) = all.servers.get(&name) else {
            line(out, format_args!("{name}: not pinned: pin what you looked at with `toolmark mcp pin {name}`"));
            same = false;
            continue;
        };
        let drifts = mcp.pins().drifts(&name, &tools);
        same &= drifts.is_empty();
        for (tool, drift) in &drifts {
            line(out, format_args!("{name}: `{tool}`: {}", if *drift == PinDrift::New { "new" } else { drift.what() }));
            let now = tools.iter().find(|own| own.name == *tool).map(Pin::of);
            shown(out, '-', pins.get(&**tool));
            shown(out, '+', now.as_ref());
        }
        for gone in pins.keys().filter(|pinned| !tools.iter().any(|tool| *tool.name == ***pinned)) {
            line(out, format_args!("{name}: `{gone}`: gone"));
        }
        if drifts.is_empty() {
            line(out, format_args!("{name}: as it was pinned"));
        }
    }
    Ok(same)
}

fn shown(out: &mut String, sign: char, pin: Option<&Pin>) {
    let text = pin.and_then(|pin| serde_json::to_string_pretty(pin).ok()).unwrap_or_default();
    text.lines().for_each(|own| line(out, format_args!("  {sign} {own}")));
}
