//! `[[upstreams]]`: their base URLs, credentials, models and quirks.
//!
//! Keys are read from the environment here, once, and never shown.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use figment::value::{Dict, Value};
use globset::GlobSet;
use http::{HeaderName, HeaderValue, header, header::InvalidHeaderValue};
use serde::Deserialize;
use url::Url;

use super::{
    CallIds, ConfigError, DefaultToolChoice, Secret, cassettes,
    quirks::{self, RestoreExtras},
    sources::SettingsSources,
};
use toolmark_cassette::player::MatchMode;
use toolmark_core::{
    config::{
        error::{list, maybe},
        units::duration,
    },
    upstreams::{
        capability_probe::ProbeSchedule,
        quirks::{Quirks, presets::Preset},
    },
};

/// `[[upstreams]]` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlUpstream {
    pub name: String,
    pub base_url: String,
    pub api_key_env: Option<String>,
    pub key_header: Option<KeyHeader>,
    pub models: Option<Vec<String>>,
    #[serde(default)]
    pub call_ids: CallIds,
    #[serde(default)]
    pub tool_choice: DefaultToolChoice,
    #[serde(default)]
    pub fallback: Vec<String>,
    #[serde(default)]
    pub fallback_models: BTreeMap<String, String>,
    pub probe: Option<String>,
    pub responses: Option<ApiSupport>,
    pub messages: Option<ApiSupport>,
    pub chat: Option<ApiSupport>,
    pub preset: Option<Preset>,
    #[serde(default)]
    pub drop: Vec<String>,
    #[serde(default)]
    pub map: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    pub defaults: BTreeMap<String, figment::value::Value>,
    pub put_back: Option<Vec<RestoreExtras>>,
    pub uniform_strict: Option<bool>,
    pub drop_nulls: Option<bool>,
    pub wrap_errors: Option<bool>,
    #[serde(default)]
    pub timeouts: TomlTimeouts,
}

/// `[upstreams.timeouts]` as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TomlTimeouts {
    #[serde(with = "duration")]
    pub connect: Duration,
    #[serde(with = "duration")]
    pub first_byte: Duration,
    #[serde(with = "duration")]
    pub idle: Duration,
}

impl Default for TomlTimeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), first_byte: Duration::from_secs(600), idle: Duration::from_secs(300) }
    }
}

/// `[[upstreams]] responses`, `messages` and `chat`: whether the upstream serves an API.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ApiSupport {
    /// It serves the API itself.
    #[default]
    Native,
    /// It doesn't: toolmark translates the API to one that it serves.
    Translate,
}

/// A model server.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// Name of the upstream in logs and records.
    pub name: Box<str>,
    /// Base URL, to which paths like `/chat/completions` are appended; no slash at the end.
    pub base_url: Box<str>,
    /// Cassette that answers in place of the upstream, if its URL names one.
    pub cassette: Option<std::path::PathBuf>,
    /// Credential of requests to the upstream.
    pub credential: Credential,
    /// Header in which it takes a key: toolmark's own, or one that came as a bearer token with another API's request.
    pub key_header: KeyHeader,
    /// Globs of the models that it serves; `None`: all.
    pub models: Option<Vec<String>>,
    matcher: Option<GlobSet>,
    /// Preset of its provider's quirks.
    pub preset: Preset,
    /// Quirks to apply if the upstream's answers identify it as llama.cpp; `None` if the settings or its host name already determine the
    /// provider.
    pub fitting_of_server: Option<Box<Quirks>>,
    /// Quirks applied to its requests.
    pub fitting: Quirks,
    /// Names of the upstreams that are tried if this one can't answer, in order.
    pub fallback: Vec<Box<str>>,
    /// Models to ask the fallbacks for, by this upstream's models.
    pub fallback_models: Vec<(Box<str>, Box<str>)>,
    /// Schedule of probes for tool calling.
    pub probe: ProbeSchedule,
    /// `tool_choice` for requests that set none.
    pub tool_choice: DefaultToolChoice,
    /// Support of the Responses API, translated to chat completions, or to Messages where there are none.
    pub responses: ApiSupport,
    /// Support of Anthropic's Messages API, translated to chat completions.
    pub messages: ApiSupport,
    /// Support of chat completions, translated to Anthropic's Messages API.
    pub chat: ApiSupport,
    /// Timeouts of requests to it.
    pub timeouts: Timeouts,
}

impl UpstreamSettings {
    /// Returns whether it serves this model.
    pub fn serves(&self, model: &str) -> bool {
        self.matcher.as_ref().is_none_or(|globs| globs.is_match(model))
    }
}

/// `[[upstreams]] key_header`: header in which the upstream takes a key.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHeader {
    /// `Authorization: Bearer …`
    Authorization,
    /// `x-api-key`, which some servers of Anthropic's API take only.
    XApiKey,
}

impl KeyHeader {
    /// The header with this key, marked as sensitive.
    ///
    /// # Errors
    /// The key has characters that no header may have.
    pub fn header(self, key: &str) -> Result<(HeaderName, HeaderValue), InvalidHeaderValue> {
        let (name, value) = match self {
            Self::Authorization => (header::AUTHORIZATION, format!("Bearer {key}")),
            Self::XApiKey => (HeaderName::from_static("x-api-key"), key.to_owned()),
        };
        let mut value = HeaderValue::try_from(value)?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

/// Credential of requests to an upstream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Credential {
    /// The caller's own `Authorization` header, passed on.
    Caller,
    /// No credential.
    None,
    /// toolmark's own key for the upstream.
    Own {
        /// Environment variable that holds the key.
        env: Box<str>,
        /// The key.
        key: Secret,
    },
}

/// `[[upstreams]] timeouts`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// Until the connection is established.
    pub connect: Duration,
    /// Until the first byte of the answer.
    pub first_byte: Duration,
    /// Between two bytes of the answer.
    pub idle: Duration,
}

/// Builds the only upstream of `--upstream URL`: `/v1` is added if the URL has no path.
pub(super) fn of_flag(url: &str) -> Value {
    let bare = Url::parse(url).is_ok_and(|url| url.path() == "/" && url.query().is_none() && url.fragment().is_none());
    let url = if bare { format!("{}/v1", url.trim_end_matches('/')) } else { url.to_owned() };
    let upstream = Dict::from([("name".to_owned(), Value::from("upstream")), ("base_url".to_owned(), Value::from(url))]);
    Value::from(vec![Value::from(upstream)])
}

/// Checks the section. `mode`: that of the replay.
pub(super) fn validate(sources: &SettingsSources<'_>, all: &[TomlUpstream], mode: MatchMode) -> Result<Vec<UpstreamSettings>, ConfigError> {
    let mut names = HashSet::new();
    for (index, upstream) in all.iter().enumerate() {
        let key = format!("upstreams.{index}.name");
        if upstream.name.is_empty() || !upstream.name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) {
            return Err(sources.fault(&key, format!("`{}` is no name: use letters, digits, `-`, `_` and `.`", upstream.name)));
        }
        if !names.insert(upstream.name.as_str()) {
            return Err(sources.fault(&key, format!("two upstreams are named `{}`: names must differ", upstream.name)));
        }
    }
    all.iter().enumerate().map(|(index, raw)| upstream(sources, all, mode, index, raw)).collect()
}

fn upstream(
    sources: &SettingsSources<'_>,
    all: &[TomlUpstream],
    mode: MatchMode,
    index: usize,
    raw: &TomlUpstream,
) -> Result<UpstreamSettings, ConfigError> {
    let at = |key: &str| format!("upstreams.{index}.{key}");
    let cassette = cassettes::of_base_url(&raw.base_url, mode).transpose().map_err(|why| sources.fault(&at("base_url"), why))?;
    let url = if cassette.is_some() { cassettes::NOWHERE } else { &raw.base_url };
    let base_url = base_url(url).map_err(|why| sources.fault(&at("base_url"), why))?;
    fallbacks(sources, all, index, raw)?;
    let preset = quirks::preset(raw);
    let lacking = |lacks| if lacks { ApiSupport::Translate } else { ApiSupport::Native };
    let chat = raw.chat.unwrap_or(lacking(preset.lacks_chat()));
    let only_messages = chat == ApiSupport::Translate;
    let messages = raw.messages.unwrap_or(lacking(preset.lacks_messages() && !only_messages));
    if only_messages && messages == ApiSupport::Translate {
        return Err(sources.fault(&at("messages"), "`chat` and `messages` are each translated to the other: one of them must be native"));
    }
    let matcher = match &raw.models {
        Some(globs) if globs.is_empty() => {
            return Err(sources.fault(&at("models"), "no model at all: leave `models` out to serve all"));
        }
        Some(globs) => Some(sources.globs(&at("models"), globs, MODELS_EXAMPLE)?),
        None => None,
    };
    Ok(UpstreamSettings {
        name: raw.name.as_str().into(),
        base_url: base_url.into(),
        cassette: cassette.map(|file| sources.cassette(&at("base_url"), file)),
        credential: credential(sources, &at("api_key_env"), raw.api_key_env.as_deref())?,
        key_header: raw.key_header.unwrap_or(if preset == Preset::Anthropic { KeyHeader::XApiKey } else { KeyHeader::Authorization }),
        models: raw.models.clone(),
        matcher,
        preset,
        // If neither settings nor host identify the provider, its answers may.
        fitting_of_server: match (raw.preset, preset) {
            (None, Preset::None) => Some(Box::new(quirks::fitting(sources, index, raw, Preset::LlamaCpp)?)),
            _ => None,
        },
        fitting: quirks::fitting(sources, index, raw, preset)?,
        fallback: raw.fallback.iter().map(|name| name.as_str().into()).collect(),
        fallback_models: raw.fallback_models.iter().map(|(from, to)| (from.as_str().into(), to.as_str().into())).collect(),
        probe: schedule(sources, &at("probe"), raw.probe.as_deref())?,
        tool_choice: raw.tool_choice,
        responses: raw.responses.unwrap_or(lacking(preset.lacks_responses() || only_messages)),
        messages,
        chat,
        timeouts: timeouts(sources, &at("timeouts"), &raw.timeouts)?,
    })
}

fn fallbacks(sources: &SettingsSources<'_>, all: &[TomlUpstream], index: usize, raw: &TomlUpstream) -> Result<(), ConfigError> {
    for name in &raw.fallback {
        let fault = |message: String| Err(sources.fault(&format!("upstreams.{index}.fallback"), message));
        let Some(other) = all.iter().find(|other| other.name == *name) else {
            let known: Vec<&str> = all.iter().map(|other| other.name.as_str()).collect();
            return fault(format!("there is no upstream `{name}`{}; known: {}", maybe(name, &known), list(&known)));
        };
        if other.name == raw.name {
            return fault(format!("`{name}` can't be its own fallback"));
        }
        if other.api_key_env.is_none() {
            return fault(format!(
                "a fallback needs an api_key_env, because a caller's own credential goes to no other upstream: \
                 give `{name}` one, or `api_key_env = \"\"` where it needs no key"
            ));
        }
    }
    fallback_models(sources, all, index, raw)
}

fn fallback_models(sources: &SettingsSources<'_>, all: &[TomlUpstream], index: usize, raw: &TomlUpstream) -> Result<(), ConfigError> {
    let fault = |from: &str, message: String| Err(sources.fault(&format!("upstreams.{index}.fallback_models.{from}"), message));
    for (from, to) in &raw.fallback_models {
        if raw.fallback.is_empty() {
            return fault(from, "there is no `fallback` to ask for it: name the upstreams that stand in".into());
        }
        let serves = |other: &TomlUpstream| match &other.models {
            None => true,
            Some(globs) => sources.globs("", globs, MODELS_EXAMPLE).is_ok_and(|globs| globs.is_match(to)),
        };
        if !all.iter().any(|other| raw.fallback.contains(&other.name) && serves(other)) {
            return fault(from, format!("no upstream in `fallback` serves `{to}`: see their `models`"));
        }
    }
    Ok(())
}

fn schedule(sources: &SettingsSources<'_>, key: &str, probe: Option<&str>) -> Result<ProbeSchedule, ConfigError> {
    match probe {
        None | Some("off") => Ok(ProbeSchedule::Off),
        Some("startup") => Ok(ProbeSchedule::Startup),
        Some(text) => match humantime::parse_duration(text) {
            Ok(every) if (PROBE_EVERY_MIN..=TIMEOUT_MAX).contains(&every) => Ok(ProbeSchedule::Every(every)),
            Ok(_) => Err(sources.fault(key, "expected at least 10s and at most 24h: each probe is a request that costs")),
            Err(_) => Err(sources.fault(key, "expected \"off\", \"startup\" or a duration like \"10m\"")),
        },
    }
}

fn credential(sources: &SettingsSources<'_>, key: &str, env: Option<&str>) -> Result<Credential, ConfigError> {
    let env = match env {
        None => return Ok(Credential::Caller),
        Some("") => return Ok(Credential::None),
        Some(env) => env,
    };
    let named = env.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !named {
        // Not quoted: it is most likely the key itself.
        return Err(sources.fault(key, "this is no name of an environment variable: name the variable that holds the key, never the key"));
    }
    let fault = |what: &str| {
        let message = format!("the environment variable {env} {what}; set it, or write \"\" for an upstream that needs no key");
        Err(sources.fault(key, message))
    };
    match sources.environment.lookup(env).map(str::trim) {
        None => fault("isn't set"),
        Some("") => fault("is empty"),
        Some(value) if !value.bytes().all(|byte| byte.is_ascii_graphic()) => fault("holds blanks or characters that no key has"),
        Some(value) => Ok(Credential::Own { env: env.into(), key: Secret::new(value) }),
    }
}

fn timeouts(sources: &SettingsSources<'_>, key: &str, raw: &TomlTimeouts) -> Result<Timeouts, ConfigError> {
    for (name, value) in [("connect", raw.connect), ("first_byte", raw.first_byte), ("idle", raw.idle)] {
        if value.is_zero() || value > TIMEOUT_MAX {
            return Err(sources.fault(&format!("{key}.{name}"), "expected more than 0 and at most 24h"));
        }
    }
    Ok(Timeouts { connect: raw.connect, first_byte: raw.first_byte, idle: raw.idle })
}

/// Checks a base URL and removes slashes at its end. The error never quotes it, because it may contain a password.
fn base_url(text: &str) -> Result<String, String> {
    let example = "write it like \"https://api.openai.com/v1\"";
    let url = Url::parse(text).map_err(|error| format!("no URL ({error}): {example}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        let meant = if url.cannot_be_a_base() { "put http:// or https:// in front of it; " } else { "" };
        return Err(format!("a URL of http or https is needed, found `{}:`: {meant}{example}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("no credentials in the URL: name the variable that holds the key in `api_key_env`".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("no `?` or `#` in it, because paths are added at its end: {example}"));
    }
    if url.path().trim_end_matches('/').ends_with("/chat/completions") {
        return Err(format!("without `/chat/completions`, which is added to it: {example}"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

const MODELS_EXAMPLE: &str = "gpt-*";
/// Shortest interval of probes: each one costs a request.
const PROBE_EVERY_MIN: Duration = Duration::from_secs(10);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
