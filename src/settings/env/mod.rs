//! Environment variables as a value, and those among them that are settings.
//!
//! `TOOLMARK_SECTION__KEY` sets `[section] key`, `TOOLMARK_LISTEN` the top-level `listen`. Text stays text: only keys that are numbers,
//! booleans or arrays are parsed, so that `0123` as a name remains a name.

pub mod otel;

use std::collections::BTreeMap;

use figment::value::Value;

use toolmark_core::config::{
    error::{ConfigError, closest, list, maybe},
    layers::Layers,
    sections,
};

/// Snapshot of the environment variables; those that aren't UTF-8 are left out.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect())
    }

    /// The given variables, for tests.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// The value of a variable.
    pub fn lookup(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.0.keys()).finish()
    }
}

/// Adds every variable that is a setting; returns the `TOOLMARK_…` variables that aren't.
///
/// They are judged later, because settings may name them as the source of a secret.
pub(super) fn add(layers: &mut Layers, environment: &Environment) -> Result<Vec<String>, ConfigError> {
    let mut unknown = Vec::new();
    for (name, text) in &environment.0 {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if NO_SETTINGS.contains(&name.as_str()) || is_service_link(rest, text) {
            continue;
        }
        let key = rest.to_lowercase();
        let path: Vec<&str> = key.split("__").collect();
        let top = path.first().copied().unwrap_or_default();
        if path.len() == 1 && !sections::SETTINGS.contains(&top) {
            unknown.push(name.clone());
            continue;
        }
        let place = format!("environment variable {name}");
        if path.len() > 1 && TABLES.contains(&top) {
            let message = format!("write the whole list: {PREFIX}{}='[{{name = \"…\", …}}]'", top.to_uppercase());
            return Err(ConfigError { place, line: None, key: top.into(), message });
        }
        layers.value(&place, &path, value(&path, text));
    }
    Ok(unknown)
}

/// The fault of a variable that is neither a setting nor named by one.
pub(super) fn unknown(name: &str) -> ConfigError {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name).to_lowercase();
    let known: Vec<&str> = sections::SETTINGS.iter().chain(&SECTION_KEYS).copied().collect();
    let hint = match closest(&rest, &known) {
        Some(close) => format!(" (did you mean `{PREFIX}{}`?)", close.replace('.', "__").to_uppercase()),
        None => maybe(name, NO_SETTINGS),
    };
    let message =
        format!("unknown setting{hint}; sections are written {PREFIX}SECTION__KEY; known at the top: {}", list(sections::SETTINGS));
    ConfigError { place: format!("environment variable {name}"), line: None, key: String::new(), message }
}

fn value(path: &[&str], text: &str) -> Value {
    let parsed = || text.parse::<Value>().unwrap_or_else(|never| match never {});
    match path {
        ["allow_anonymous"]
        | ["limits", "connections"]
        | ["admin", "recent"]
        | ["verifier", "calls_per_hour" | "tokens_per_hour" | "cache"]
        | ["upstreams"]
        | ["clients"]
        | ["mcp"]
        | ["alerts"]
        | ["faults"] => parsed(),
        ["passthrough" | "allowed_hosts" | "probe_hosts"] | ["record", "redact" | "headers"] | ["replay", "ignore"]
            if !text.trim_start().starts_with('[') =>
        {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::from(items.map(Value::from).collect::<Vec<_>>())
        }
        ["passthrough" | "allowed_hosts" | "probe_hosts"] | ["record", "redact" | "headers"] | ["replay", "ignore"] => parsed(),
        _ if text.len() > 1 && text.starts_with('"') && text.ends_with('"') => parsed(),
        _ => Value::from(text),
    }
}

/// Returns whether Kubernetes sets this variable for a service named `toolmark…`: such variables are ignored.
fn is_service_link(rest: &str, text: &str) -> bool {
    let port = |name: &str| name.split("_PORT_").nth(1).is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    let named = |part: &str| rest == part || rest.ends_with(&format!("_{part}"));
    named("SERVICE_HOST")
        || named("SERVICE_PORT")
        || rest.starts_with("SERVICE_PORT_")
        || rest.contains("_SERVICE_PORT_")
        || (named("PORT") && text.contains("://"))
        || port(&format!("_{rest}"))
}

const PREFIX: &str = "TOOLMARK_";

/// Variables that are read elsewhere.
const NO_SETTINGS: &[&str] =
    &["TOOLMARK_KEY", "TOOLMARK_ADMIN_TOKEN", "TOOLMARK_ADMIN_READ_TOKEN", "TOOLMARK_SKIP_CLIENTS", "TOOLMARK_SHARED", "TOOLMARK_BIN"];

const TABLES: &[&str] = &["upstreams", "clients", "mcp", "alerts", "faults"];

/// Keys inside sections, for suggestions; those at the top are [`sections::SETTINGS`].
const SECTION_KEYS: [&str; 43] = [
    "ledger.url",
    "ledger.keep",
    "ledger.store",
    "ledger.body_bytes",
    "ledger.conversation_bytes",
    "ledger.exchange_bytes",
    "ledger.only_tools",
    "ledger.except_tools",
    "ledger.durability",
    "ledger.wait",
    "ledger.lookup",
    "counters.url",
    "counters.wait",
    "marks.key_env",
    "marks.scope",
    "admin.listen",
    "admin.recent",
    "admin.bodies",
    "limits.request_bytes",
    "limits.response_bytes",
    "limits.connections",
    "limits.held_bytes",
    "limits.conversation_cache",
    "limits.client_idle",
    "log.format",
    "log.level",
    "record.path",
    "record.rotate_bytes",
    "record.rotate_every",
    "record.redact",
    "record.headers",
    "replay.file",
    "replay.mode",
    "replay.pace",
    "replay.ignore",
    "verifier.upstream",
    "verifier.model",
    "verifier.when",
    "verifier.deadline",
    "verifier.calls_per_hour",
    "verifier.tokens_per_hour",
    "verifier.cache",
    "verifier.max_bytes",
];
