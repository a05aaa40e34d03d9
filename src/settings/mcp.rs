//! `[[mcp]]`: servers whose tools are offered to models, their transports, and who executes their tools.
//!
//! Values of headers are read from the environment here, once, and never shown; a child process gets its variables by name. `mcp/`
//! checks the servers' own data.

use std::{collections::BTreeMap, time::Duration};

use globset::GlobSet;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use url::Url;

use super::{ConfigError, Secret, sources::SettingsSources};
use toolmark_core::{config::units::duration, violation::Severity};

/// Longest timeout of a call.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// Highest number of retries.
const RETRIES_MAX: u32 = 10;
/// Highest number of rounds.
const ROUNDS_MAX: u32 = 100;
/// Highest number of servers.
const SERVERS_MAX: usize = 64;
/// Longest name of a server: half the length of a tool's name.
const NAME_CHARS_MAX: usize = 32;

/// Executor of a server's tools.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Execute {
    /// The application: only the tools' schemas are added to requests.
    #[default]
    App,
    /// toolmark itself.
    Proxy,
}

impl Execute {
    /// Name of the executor in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Proxy => "proxy",
        }
    }
}

/// Transport to a server.
#[derive(Clone, Debug)]
pub enum Transport {
    /// A child process with MCP over its standard streams.
    Command {
        /// The program.
        program: Box<str>,
        /// Its arguments.
        arguments: Vec<String>,
        /// Its complete environment.
        environment: Vec<(String, Secret)>,
    },
    /// Streamable HTTP.
    Http {
        /// URL of the server.
        url: Box<str>,
        /// Headers of every request; marked sensitive.
        headers: Vec<(HeaderName, HeaderValue)>,
    },
}

/// A selection of a server's tools, by globs over the server's own names.
#[derive(Clone, Debug, Default)]
pub struct ToolGlobs(Option<GlobSet>);

impl ToolGlobs {
    /// Returns whether the tool is selected; `None` if there is no selection.
    pub fn selects(&self, tool: &str) -> Option<bool> {
        self.0.as_ref().map(|globs| globs.is_match(tool))
    }
}

/// One of `[[mcp]]`.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// Name of the server in tool names, logs and records.
    pub name: Box<str>,
    /// Transport to the server.
    pub transport: Transport,
    /// Executor of its tools.
    pub execute: Execute,
    /// Enforced requests are refused while it is unavailable or lacks an expected tool.
    pub required: bool,
    /// Tools that it must have.
    pub expect: Vec<String>,
    /// Timeout of one call.
    pub timeout: Duration,
    /// Number of retries after transport failures, for calls that may be repeated.
    pub retries: u32,
    /// Highest number of rounds of calls in one exchange.
    pub max_rounds: u32,
    /// The tools that are offered.
    pub tools: ToolGlobs,
    /// Prefix of its tools' names.
    pub prefix: Box<str>,
    /// Tools that only read, besides those that declare it themselves.
    pub read_only: ToolGlobs,
    /// Tools that may be called again, besides those that declare it themselves.
    pub idempotent: ToolGlobs,
    /// Severity of a tool that changed since it was pinned.
    pub drift: Severity,
}

/// `[[mcp]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlMcp {
    pub name: String,
    pub command: Option<Vec<String>>,
    pub url: Option<String>,
    #[serde(default)]
    pub env: Vec<String>,
    #[serde(default)]
    pub headers_env: BTreeMap<String, String>,
    #[serde(default)]
    pub execute: Execute,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    pub expect: Vec<String>,
    #[serde(default = "timeout", with = "duration")]
    pub timeout: Duration,
    #[serde(default = "retries")]
    pub retries: u32,
    #[serde(default = "max_rounds")]
    pub max_rounds: u32,
    pub tools: Option<Vec<String>>,
    pub prefix: Option<String>,
    pub read_only: Option<Vec<String>>,
    pub idempotent: Option<Vec<String>>,
    #[serde(default = "drift")]
    pub drift: Severity,
}

fn timeout() -> Duration {
    Duration::from_secs(30)
}

fn retries() -> u32 {
    3
}

fn max_rounds() -> u32 {
    10
}

fn drift() -> Severity {
    Severity::Block
}

pub(super) fn validate(sources: &SettingsSources<'_>, all: &[TomlMcp]) -> Result<Vec<McpServer>, ConfigError> {
    if cfg!(not(feature = "mcp")) && !all.is_empty() {
        return Err(sources.fault("mcp", super::NO_MCP.to_owned()));
    }
    if all.len() > SERVERS_MAX {
        return Err(sources.fault("mcp", format!("{} servers: at most {SERVERS_MAX}", all.len())));
    }
    for (index, server) in all.iter().enumerate() {
        let earlier = all.iter().take(index).any(|other| other.name == server.name);
        if earlier {
            let message = format!("two servers are named `{}`: names must differ", server.name);
            return Err(sources.fault(&format!("mcp.{index}.name"), message));
        }
    }
    all.iter().enumerate().map(|(index, server)| mcp_server(sources, index, server)).collect()
}

fn mcp_server(sources: &SettingsSources<'_>, index: usize, raw: &TomlMcp) -> Result<McpServer, ConfigError> {
    let at = |key: &str| format!("mcp.{index}.{key}");
    let fault = |key: &str, message: String| Err(sources.fault(&at(key), message));
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !(1..=NAME_CHARS_MAX).contains(&raw.name.len()) || !raw.name.chars().all(legal) {
        return fault("name", format!("`{}` is no name: use 1 to {NAME_CHARS_MAX} of A-Z a-z 0-9 _ -", raw.name));
    }
    if let Some(prefix) = raw.prefix.as_deref().filter(|prefix| prefix.len() > NAME_CHARS_MAX + 2 || !prefix.chars().all(legal)) {
        return fault("prefix", format!("`{prefix}` can't begin a tool's name: use at most {} of A-Z a-z 0-9 _ -", NAME_CHARS_MAX + 2));
    }
    if raw.timeout.is_zero() || raw.timeout > TIMEOUT_MAX {
        return fault("timeout", "expected a time from \"1ms\" to \"1h\", like \"30s\"".into());
    }
    if raw.retries > RETRIES_MAX {
        return fault("retries", format!("at most {RETRIES_MAX}"));
    }
    if !(1..=ROUNDS_MAX).contains(&raw.max_rounds) {
        return fault("max_rounds", format!("expected 1 to {ROUNDS_MAX}"));
    }
    let globs = |key: &str, globs: &Option<Vec<String>>| globs.as_ref().map(|globs| sources.globs(&at(key), globs, "get_*")).transpose();
    Ok(McpServer {
        name: raw.name.as_str().into(),
        transport: transport(sources, index, raw)?,
        execute: raw.execute,
        required: raw.required,
        expect: raw.expect.clone(),
        timeout: raw.timeout,
        retries: raw.retries,
        max_rounds: raw.max_rounds,
        tools: ToolGlobs(globs("tools", &raw.tools)?),
        prefix: raw.prefix.clone().unwrap_or_else(|| format!("{}__", raw.name)).into(),
        read_only: ToolGlobs(globs("read_only", &raw.read_only)?),
        idempotent: ToolGlobs(globs("idempotent", &raw.idempotent)?),
        drift: raw.drift,
    })
}

fn transport(sources: &SettingsSources<'_>, index: usize, raw: &TomlMcp) -> Result<Transport, ConfigError> {
    let at = |key: &str| format!("mcp.{index}.{key}");
    let fault = |key: &str, message: &str| Err(sources.fault(&at(key), message.to_owned()));
    match (&raw.command, &raw.url) {
        (Some(command), None) => {
            let Some((program, arguments)) = command.split_first().filter(|(program, _)| !program.trim().is_empty()) else {
                return fault("command", "no program: write it like [\"npx\", \"-y\", \"my-server\"]");
            };
            if !raw.headers_env.is_empty() {
                return fault("headers_env", "a child process has no headers: name its variables with `env`");
            }
            let environment = child_environment(sources, &at("env"), &raw.env)?;
            Ok(Transport::Command { program: program.as_str().into(), arguments: arguments.to_vec(), environment })
        }
        (None, Some(url)) => {
            if !raw.env.is_empty() {
                return fault("env", "a server that is reached by `url` gets no environment: use `headers_env` for credentials");
            }
            let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            let Some(parsed) = parsed else { return fault("url", "expected an http or https URL, like \"http://127.0.0.1:9000/mcp\"") };
            if !parsed.username().is_empty() || parsed.password().is_some() {
                return fault("url", "credentials don't belong in the file: name the variable with `headers_env`");
            }
            let headers = raw.headers_env.iter().map(|(name, env)| header(sources, &at("headers_env"), name, env));
            Ok(Transport::Http { url: url.as_str().into(), headers: headers.collect::<Result<_, _>>()? })
        }
        (Some(_), Some(_)) => fault("url", "either `command` or `url`: a server is reached one way"),
        (None, None) => fault("command", "say how it is reached: `command = [\"program\", …]` or `url = \"http://…/mcp\"`"),
    }
}

/// Collects a child process's environment: none of toolmark's own secrets, unless they are named.
fn child_environment(sources: &SettingsSources<'_>, key: &str, names: &[String]) -> Result<Vec<(String, Secret)>, ConfigError> {
    let mut environment = Vec::new();
    for name in ["PATH", "HOME"] {
        environment.extend(sources.environment.lookup(name).map(|value| (name.to_owned(), Secret::new(value))));
    }
    for name in names {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            // Not quoted: it may be a secret.
            let message = "these are names of environment variables, like [\"GITHUB_TOKEN\"]; values don't belong in the file";
            return Err(sources.fault(key, message.to_owned()));
        }
        let Some(value) = sources.environment.lookup(name) else {
            return Err(sources.fault(key, format!("the environment variable {name} isn't set; set it, or leave it out")));
        };
        environment.push((name.clone(), Secret::new(value)));
    }
    Ok(environment)
}

fn header(sources: &SettingsSources<'_>, key: &str, name: &str, env: &str) -> Result<(HeaderName, HeaderValue), ConfigError> {
    let fault = |message: String| sources.fault(key, message);
    let header = HeaderName::try_from(name).map_err(|_| fault(format!("`{name}` is no name of a header")))?;
    if env.is_empty() || !env.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        // Not quoted: it is most likely the value itself.
        return Err(fault(format!("`{name}`: name the environment variable that holds the header's value, never the value")));
    }
    let value = sources.environment.lookup(env).map(str::trim).filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| fault(format!("the environment variable {env} isn't set, or empty")))?;
    let mut value = HeaderValue::from_str(value).map_err(|_| fault(format!("what the variable {env} holds can't be in a header")))?;
    value.set_sensitive(true);
    Ok((header, value))
}
