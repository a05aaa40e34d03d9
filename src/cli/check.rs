//! `toolmark check`: describes the settings and policies in force, or names the place of the first fault.
//!
//! Reads what `serve` reads and starts nothing. Keys are named by their variable, never shown.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use super::{Error, LoadedConfig, prepare};
use crate::{
    mcp::{Mcp, McpError},
    policy::{
        PolicyMode,
        compiled::{CompiledPolicy, is_internal},
    },
    proxy::exchange::http_probe,
    settings::{
        self, ApiSupport, CountersUrl, Credential, Durability, Environment, Flags, KeyHeader, KeySource, LedgerUrl, ScopeKind, Settings,
        StoredContent, UpstreamSettings,
    },
    tools::registry::ToolSource,
    upstreams::{
        capability_probe::ProbeSchedule,
        quirks::{Quirks, presets::Preset},
    },
    violation::{Certainty, Code, Severity},
};

/// Runs the command.
///
/// # Errors
/// Settings, a policy or a tool that isn't valid.
pub fn run(flags: &Flags) -> Result<ExitCode, Error> {
    let prepared = match prepare(flags) {
        Err(Error::Settings(settings::Error::NoUpstream)) if flags.policy.is_some() => return policy_alone(flags),
        prepared => prepared?,
    };
    let all = std::iter::once(&prepared.rules).chain(prepared.client_rules.iter().flatten());
    let asked = |rules: &CompiledPolicy| http_probe::unnamed(rules, &prepared.settings.probe_hosts).map(http_probe::unnamed_words);
    let faults: Vec<String> = all.flat_map(|rules| compile_tools(rules).into_iter().chain(asked(rules))).collect();
    if !faults.is_empty() {
        return Err(Error::Failed(faults.join("\n")));
    }
    let servers = servers(&prepared.settings)?;
    super::print(&format!("{servers}{}", explain(&prepared)));
    Ok(ExitCode::SUCCESS)
}

/// Checks and describes the policy where there is no upstream yet.
fn policy_alone(flags: &Flags) -> Result<ExitCode, Error> {
    let rules = settings::load_offline(flags, &Environment::of_process(), Path::new(""))?.policy.load()?;
    let faults = compile_tools(&rules);
    if !faults.is_empty() {
        return Err(Error::Failed(faults.join("\n")));
    }
    let mut out = String::new();
    line(&mut out, "upstream", "none yet: only the policy is checked");
    out.push('\n');
    policy(&mut out, &rules);
    for notice in &rules.notices {
        line(&mut out, "note", notice);
    }
    out.push_str("\nThe policy is well.\n");
    super::print(&out);
    Ok(ExitCode::SUCCESS)
}

/// Connects to the MCP servers and lists their tools.
fn servers(settings: &Settings) -> Result<String, Error> {
    let mut out = String::new();
    if settings.mcp.is_empty() {
        return Ok(out);
    }
    let failed = |error: McpError| Error::Failed(error.to_string());
    let mcp = Mcp::of_settings(settings).map_err(failed)?;
    super::mcp::list(&mcp, &mut out);
    match mcp.catalog().1.missing() {
        Some(why) => Err(Error::Failed(format!("{out}{why}"))),
        None => Ok(out + "\n"),
    }
}

/// Errors of the tools and their schemas, one line each; empty if there are none.
pub fn compile_tools(rules: &CompiledPolicy) -> Vec<String> {
    let fault = |tool: &crate::policy::compiled::PolicyTool| {
        let compiled = ToolSource::parse(&tool.raw)
            .and_then(|source| source.compile(rules.policy.calls.format_checks()).map_err(|fault| fault.to_string()));
        let why = compiled.err()?;
        Some(format!("{}: tool `{}`: {why}", tool.file.display(), tool.name))
    };
    rules.tools.iter().filter_map(fault).collect()
}

/// Describes everything in force.
pub fn explain(prepared: &LoadedConfig) -> String {
    let LoadedConfig { settings, rules, client_rules } = prepared;
    let mut out = String::new();
    surroundings(&mut out, settings);
    for (client, own) in settings.clients.iter().zip(client_rules) {
        let policy = own.as_ref().map_or("the policy below", |own| &*own.source);
        line(&mut out, "client", &format!("{}: {policy}", client.name));
    }
    out.push('\n');
    policy(&mut out, rules);
    for (client, own) in settings.clients.iter().zip(client_rules) {
        if let Some(own) = own {
            let _infallible = writeln!(out, "\nFor client {}:", client.name);
            policy(&mut out, own);
        }
    }
    out.push('\n');
    let clients = client_rules.iter().flatten().flat_map(|own| &own.notices);
    for notice in settings.notices.iter().chain(&rules.notices).chain(clients) {
        line(&mut out, "note", notice);
    }
    out.push_str("\nAll is well.\n");
    out
}

fn line(out: &mut String, name: &str, text: &str) {
    let _infallible = writeln!(out, "{name:<12}{text}");
}

fn surroundings(out: &mut String, settings: &Settings) {
    let file = settings.file.as_ref().map_or("none: defaults, environment and flags".into(), |file| file.display().to_string());
    line(out, "settings", &file);
    let anonymous = if settings.allow_anonymous { " (anonymous callers allowed)" } else { "" };
    line(out, "listen", &format!("http://{}{anonymous}", settings.listen));
    let admin = settings.admin.listen.map_or("off".to_owned(), |listen| format!("http://{listen}: dashboard, /readyz, /metrics, /api"));
    line(out, "admin", &admin);
    for upstream in &settings.upstreams {
        line(out, "upstream", &self::upstream(upstream));
    }
    if let Some(own) = &settings.verifier {
        let (upstream, model, when) = (&own.upstream, &own.model, own.when.as_str());
        let deadline = humantime::format_duration(own.deadline);
        let text = format!(
            "`{model}` of {upstream} is shown answers that cite ({when}), within {deadline}, up to {} calls and {} tokens an hour",
            own.calls_per_hour, own.tokens_per_hour
        );
        line(out, "verifier", &text);
    }
    let keys = match &settings.keys {
        KeySource::Ring(keys) if keys.len() == 1 => "one key, from the environment".into(),
        KeySource::Ring(keys) => format!("{} keys, from the environment: the first mints, all verify", keys.len()),
        KeySource::File(path) if path.exists() => format!("key in {}", path.display()),
        KeySource::File(path) => format!("key in {}, made on the first start", path.display()),
        KeySource::Ephemeral => "a key for this run only".into(),
    };
    let scope = match settings.scope {
        ScopeKind::Caller => "bound to the caller",
        ScopeKind::Shared => "shared by all callers",
    };
    line(out, "marks", &format!("{keys}; {scope}"));
    let ledger = match &settings.ledger.url {
        LedgerUrl::Sqlite(path) => format!("sqlite, {}", path.display()),
        LedgerUrl::Postgres(_) => "postgres".into(),
        LedgerUrl::Memory => "in memory, for this run only".into(),
    };
    let kept = match settings.ledger.store {
        StoredContent::Digests => "digests of arguments and results",
        StoredContent::Bodies => "arguments and results",
    };
    let durability = if settings.ledger.durability == Durability::Commit { "; answers wait for their records" } else { "" };
    line(out, "ledger", &format!("{ledger}; {kept}, for {}{durability}", humantime::format_duration(settings.ledger.keep)));
    let counters = match &settings.counters.url {
        CountersUrl::Memory => None,
        CountersUrl::Postgres(_) => Some("in the ledger's database"),
        CountersUrl::Redis(_) => Some("in Valkey or Redis"),
    };
    if let Some(place) = counters {
        let wait = humantime::format_duration(settings.counters.wait);
        line(out, "counters", &format!("{place}, shared by replicas; own counts where they don't answer within {wait}"));
    }
    let limits = &settings.limits;
    let size = |bytes| bytesize::ByteSize(bytes);
    let text = format!(
        "request {}, response {}, held {}, conversations {}, {} connections",
        size(limits.request_bytes),
        size(limits.response_bytes),
        size(limits.held_bytes),
        size(limits.conversation_cache),
        limits.connections
    );
    line(out, "limits", &text);
    if !settings.passthrough.is_empty() {
        line(out, "unenforced", &settings.passthrough.join(", "));
    }
    if !settings.allowed_hosts.is_empty() {
        line(out, "hosts", &settings.allowed_hosts.join(", "));
    }
}

fn upstream(upstream: &UpstreamSettings) -> String {
    let key = match &upstream.credential {
        Credential::Caller => "the caller's own key".into(),
        Credential::None => "no key".into(),
        Credential::Own { env, .. } if upstream.key_header == KeyHeader::XApiKey => format!("key from {env}, sent in x-api-key"),
        Credential::Own { env, .. } => format!("key from {env}"),
    };
    let models = upstream.models.as_ref().map_or("all models".into(), |globs| format!("models {}", globs.join(", ")));
    let name = &upstream.name;
    let mut text = format!("{name}: {}, {key}, {models}", upstream.base_url);
    for (api, support) in [("Responses API", upstream.responses), ("Messages API", upstream.messages), ("chat completions", upstream.chat)]
    {
        if support == ApiSupport::Translate {
            text.push_str(&format!(", {api} translated"));
        }
    }
    if upstream.preset != Preset::None {
        text.push_str(&format!(", preset {}", upstream.preset.as_str()));
    }
    let fitting = fitting(&upstream.fitting);
    if !fitting.is_empty() {
        text.push_str(&format!("\n            {name}: {fitting}"));
    }
    match upstream.probe {
        ProbeSchedule::Off => {}
        // Nobody's key is used behind their back, and a cassette isn't there to be asked.
        _ if upstream.cassette.is_some() => {}
        _ if upstream.credential == Credential::Caller => {
            text.push_str(&format!("\n            {name}: models are probed before their first use with tools, with the caller's own key"))
        }
        ProbeSchedule::Startup => text.push_str(&format!("\n            {name}: models are probed at startup and before first use")),
        ProbeSchedule::Every(every) => {
            text.push_str(&format!("\n            {name}: models are probed every {}", humantime::format_duration(every)))
        }
    }
    if !upstream.fallback.is_empty() {
        let models: Vec<String> = upstream.fallback_models.iter().map(|(from, to)| format!("{from} as {to}")).collect();
        let models = if models.is_empty() { String::new() } else { format!(": {}", models.join(", ")) };
        text.push_str(&format!("\n            {name}: falls back to {}{models}", upstream.fallback.join(", ")));
    }
    text
}

/// Describes the changes made to requests for an upstream.
fn fitting(fitting: &Quirks) -> String {
    let mut parts = Vec::new();
    if !fitting.drop.is_empty() {
        parts.push(format!("leaves out {}", fitting.drop.join(", ")));
    }
    parts.extend(fitting.map.iter().map(|map| format!("says {} {} as {}", map.parameter, map.from, map.to)));
    parts.extend(fitting.defaults.iter().map(|default| format!("adds {} {}", default.parameter, default.json)));
    let flags = [
        (fitting.uniform_strict, "leaves out `strict` where tools differ in it"),
        (fitting.drop_nulls, "leaves out nulls of assistant messages"),
        (fitting.wrap_errors, "gives its errors OpenAI's shape"),
        (fitting.short_ids, "gives call ids nine characters"),
        (fitting.put_back.signatures, "puts `extra_content` back"),
        (fitting.put_back.reasoning, "puts `reasoning_content` back"),
    ];
    parts.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, words)| words.to_owned()));
    parts.join("; ")
}

fn policy(out: &mut String, rules: &CompiledPolicy) {
    line(out, "policy", &rules.source);
    line(out, "digest", &rules.digest);
    let mode = match rules.policy.mode {
        PolicyMode::Enforce => "enforce: judged, repaired, blocked",
        PolicyMode::Observe => "observe: judged and recorded, nothing changed",
    };
    line(out, "mode", mode);
    if rules.hold_all() {
        line(out, "streams", "the whole answer is held until it is judged");
    }
    let tools: Vec<&str> = rules.tools.iter().map(|tool| &*tool.name).collect();
    let tools = if tools.is_empty() { "those that requests bring".into() } else { format!("{}: {}", tools.len(), tools.join(", ")) };
    line(out, "tools", &tools);
    let known = |name: &&String| rules.tools.iter().any(|tool| *tool.name == ***name);
    let (files, requests): (Vec<&String>, Vec<&String>) = rules.policy.tools.expect.iter().partition(known);
    if !files.is_empty() {
        line(out, "expected", &format!("in the files: {}", listed(&files)));
    }
    if !requests.is_empty() {
        line(out, "expected", &format!("in no file, so a request without them is answered 400: {}", listed(&requests)));
    }
    for rule in &rules.claims {
        line(out, "claim", &format!("{}: needs {}", rule.name, rule.requires.join(" or ")));
    }
    for (severity, word) in [(Severity::Block, "block"), (Severity::Warn, "warn"), (Severity::Info, "info"), (Severity::Off, "off")] {
        let codes = Code::ALL.iter().copied().filter(|code| !is_internal(*code) && rules.checks.severity(*code) == severity);
        let certain = |code: &Code| severity == Severity::Block && rules.checks.blocks_from(*code) == Certainty::Certain;
        let codes: Vec<String> =
            codes.map(|code| if certain(&code) { format!("{code} (if certain, else warn)") } else { code.to_string() }).collect();
        let rows: Vec<String> = codes.chunks(CODES_IN_ROW).map(|row| row.join(", ")).collect();
        line(out, word, if rows.is_empty() { "–".into() } else { rows.join(",\n            ") }.as_str());
    }
}

const CODES_IN_ROW: usize = 5;

fn listed(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}
