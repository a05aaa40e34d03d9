//! `toolmark init`: writes a settings file for a model server that is named, or found by its key or on its port.
//!
//! Asks nothing. What it looks at: variables of the environment by name, the usual ports of local servers on loopback, and the manifests of the
//! working directory for clients. Keys are never read into the file.

mod clients;
mod file;
pub mod providers;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use url::Url;

use self::providers::{PROVIDERS, Provider};
use super::{Error, http};
use crate::{
    settings::{CONFIG_FILE, Environment, Flags},
    sys::tls::TrustedRoots,
    upstreams::quirks::presets::Preset,
};

/// Time that a local server has for its list of models.
const LOCAL_MAX: Duration = Duration::from_secs(1);
/// Time that a server that was named has for it.
const NAMED_MAX: Duration = Duration::from_secs(5);

/// `toolmark init`
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// The model server: openai, anthropic, cerebras, groq, mistral, gemini, deepseek, openrouter, llamacpp, vllm, ollama or lmstudio
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Its base URL, where it isn't the usual one. Where it has no path, /v1 is added
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The environment variable that holds the key which toolmark is to use; without it callers bring their own
    #[arg(long, value_name = "VARIABLE")]
    pub key_env: Option<String>,
    /// The policy: a file, or one of `default`, `strict`, `observe`
    #[arg(long, value_name = "FILE", default_value = "default")]
    pub policy: String,
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8787")]
    pub listen: String,
    /// Replace the settings file that is there
    #[arg(long)]
    pub force: bool,
}

/// A model server to be written into the settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChosenServer {
    /// Name of the upstream.
    pub name: String,
    /// Name as its makers write it.
    pub title: String,
    /// Its base URL.
    pub base_url: String,
    /// Variable with toolmark's own key for it.
    pub key_env: Option<String>,
    /// Preset of its quirks.
    pub preset: Preset,
}

impl ChosenServer {
    fn of(provider: &Provider, base_url: Option<String>, key_env: Option<String>) -> Self {
        Self {
            name: provider.name.into(),
            title: provider.title.into(),
            base_url: base_url.unwrap_or_else(|| provider.base_url.into()),
            key_env,
            preset: provider.preset,
        }
    }
}

/// Writes the settings file, and says what comes next.
///
/// # Errors
/// Nothing is named and nothing found; a file that is there already; flags that make no settings.
pub fn run(arguments: &InitArgs, flags: &Flags) -> Result<ExitCode, Error> {
    let path = flags.config.clone().unwrap_or_else(|| PathBuf::from(CONFIG_FILE));
    if path.exists() && !arguments.force {
        return Err(Error::Failed(format!(
            "{} exists already: `toolmark check` explains it; --force replaces it, --config FILE writes another",
            path.display()
        )));
    }
    let environment = Environment::of_process();
    let runtime = http::runtime()?;
    let (chosen, others) = runtime.block_on(choose(arguments, &environment, PROVIDERS))?;
    let text = file::text(&chosen, &others, &arguments.listen, &arguments.policy);
    write_if_valid(&path, &text)?;
    super::print(&next(&path, &chosen, &others, &arguments.listen, Path::new("")));
    Ok(ExitCode::SUCCESS)
}

/// Writes the settings, unless they don't hold: that is said here, and not by the next command, and a file that was there stays.
fn write_if_valid(path: &Path, text: &str) -> Result<(), Error> {
    let unwritable = |error: std::io::Error| Error::Failed(format!("{} can't be written: {error}", path.display()));
    // Beside it: paths in it are relative to it.
    let mut trial = path.as_os_str().to_owned();
    trial.push(".new");
    let trial = PathBuf::from(trial);
    std::fs::write(&trial, text).map_err(unwritable)?;
    let prepared = super::prepare(&Flags { config: Some(trial.clone()), ..Flags::default() });
    let written = match prepared {
        Ok(_) => std::fs::rename(&trial, path).map_err(unwritable),
        Err(error) => Err(Error::Failed(error.to_string().replace(&*trial.to_string_lossy(), &path.to_string_lossy()))),
    };
    // Gone already where all is well.
    let _gone = std::fs::remove_file(&trial);
    written
}

/// The server that the arguments name, or the first one found, and the others found. `known`: servers to look for.
///
/// # Errors
/// Nothing is named and nothing found; a provider or URL that isn't one.
pub async fn choose(
    arguments: &InitArgs,
    environment: &Environment,
    known: &'static [Provider],
) -> Result<(ChosenServer, Vec<ChosenServer>), Error> {
    let set = |name: &str| environment.lookup(name).is_some_and(|value| !value.trim().is_empty());
    let url = arguments.url.as_deref().map(base_url).transpose()?;
    let key = |provider: Option<&Provider>| {
        let usual = provider.and_then(|provider| provider.key_env).filter(|name| set(name)).map(str::to_owned);
        arguments.key_env.clone().or(usual)
    };
    if let Some(name) = &arguments.key_env
        && !set(name)
    {
        return Err(Error::Failed(format!("--key-env {name}: that variable isn't set here: export it first, or leave the flag out")));
    }
    if let Some(name) = &arguments.provider {
        let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
        let provider = providers::named(name).ok_or_else(|| {
            Error::Failed(format!("--provider {name}: no such provider; there are {}; any other: --url", names.join(", ")))
        })?;
        return Ok((ChosenServer::of(provider, url, key(Some(provider))), Vec::new()));
    }
    if let Some(url) = url {
        let client = http::client(NAMED_MAX, TrustedRoots::Platform)?;
        let provider = ask(&client, &url).await.and_then(|(_, provider)| provider).or_else(|| of_host(&url));
        let server = match provider {
            Some(provider) => ChosenServer::of(provider, Some(url), key(Some(provider))),
            None => ChosenServer {
                name: "upstream".into(),
                title: "an OpenAI-compatible server".into(),
                base_url: url,
                key_env: key(None),
                preset: Preset::None,
            },
        };
        return Ok((server, Vec::new()));
    }
    let mut found: Vec<ChosenServer> = Vec::new();
    for provider in known {
        match provider.key_env {
            Some(name) if set(name) => found.push(ChosenServer::of(provider, None, Some(name.to_owned()))),
            Some(_) => {}
            None => {
                let client = http::client(LOCAL_MAX, TrustedRoots::Platform)?;
                // Several servers may use one port: what answers says who it is.
                if let Some((_, who)) = ask(&client, provider.base_url).await {
                    found.push(ChosenServer::of(who.unwrap_or(provider), Some(provider.base_url.to_owned()), None));
                }
            }
        }
    }
    if found.is_empty() {
        let keys: Vec<&str> = known.iter().filter_map(|provider| provider.key_env).collect();
        let local: Vec<String> = known
            .iter()
            .filter(|provider| provider.key_env.is_none())
            .map(|provider| format!("{} ({})", provider.title, provider.base_url))
            .collect();
        return Err(Error::Failed(format!(
            "no model server found: none of {} is set, and there is no {}. Name one:\n\
             \x20 toolmark init --provider openai            callers bring their own key\n\
             \x20 toolmark init --url http://127.0.0.1:8080/v1",
            keys.join(", "),
            local.join(", ")
        )));
    }
    let chosen = found.remove(0);
    Ok((chosen, found))
}

/// The base URL of `--url`, with `/v1` where it has no path.
fn base_url(text: &str) -> Result<String, Error> {
    let wrong = || Error::Failed(format!("--url {text}: no base URL; write it like http://127.0.0.1:8080/v1"));
    let url = Url::parse(text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong());
    }
    let plain = url.as_str().trim_end_matches('/');
    Ok(if url.path() == "/" { format!("{plain}/v1") } else { plain.to_owned() })
}

fn of_host(url: &str) -> Option<&'static Provider> {
    let url = Url::parse(url).ok()?;
    let preset = Preset::of(url.host_str()?, url.port());
    PROVIDERS.iter().find(|provider| preset != Preset::None && provider.preset == preset)
}

/// Asks a server for its models: the list, and who it is, if it is one of those known. `None`: nothing there speaks OpenAI's API.
async fn ask(client: &reqwest::Client, base_url: &str) -> Option<(serde_json::Value, Option<&'static Provider>)> {
    let answer = http::get_json(client, &format!("{base_url}/models"), ::http::HeaderMap::new()).await.ok()?;
    let models = answer.json.filter(|models| models["data"].is_array())?;
    let provider = providers::of_answer(answer.server.as_deref(), &models);
    Some((models, provider))
}

/// Report of what was written, with the next step.
fn next(path: &Path, chosen: &ChosenServer, others: &[ChosenServer], listen: &str, directory: &Path) -> String {
    let url = format!("http://{listen}/v1");
    let key = chosen.key_env.as_ref().map_or_else(|| "callers bring their own key".into(), |name| format!("key from {name}"));
    let mut out = format!("Wrote {}: {} at {}, {key}.\n", path.display(), chosen.title, chosen.base_url);
    for other in others {
        let _infallible = writeln!(out, "Also found, in the file as a comment: {} at {}.", other.title, other.base_url);
    }
    let config = if path == Path::new(CONFIG_FILE) { String::new() } else { format!(" --config {}", path.display()) };
    let _infallible = write!(
        out,
        "\n  toolmark doctor{config}    does it work, end to end?\n  toolmark serve{config}\n\nThen point applications at it:\n"
    );
    let mut lines = clients::found(directory, &url);
    if lines.is_empty() {
        lines.push(("OpenAI clients", "", format!("export OPENAI_BASE_URL={url}")));
        let root = url.strip_suffix("/v1").unwrap_or(&url);
        lines.push(("Anthropic clients, Claude Code", "", format!("export ANTHROPIC_BASE_URL={root}")));
    }
    for (client, file, line) in lines {
        let client = if file.is_empty() { client.to_owned() } else { format!("{client} ({file})") };
        let _infallible = writeln!(out, "  {client:<32}{line}");
    }
    if chosen.key_env.is_some() {
        out.push_str("  toolmark has the key. Clients that insist on one take any: OPENAI_API_KEY=unused\n");
    }
    out
}

#[cfg(test)]
mod tests;
