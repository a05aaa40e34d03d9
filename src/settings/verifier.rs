//! `[verifier]`: a second model that checks answers with citations: its upstream, its use, and its limits.

use std::{ops::RangeInclusive, time::Duration};

use serde::Deserialize;

use super::{ConfigError, Credential, UpstreamSettings, sources::SettingsSources};
use crate::cassettes::TomlReplay;
use toolmark_core::config::{
    error::{list, maybe},
    units::{bytes, duration},
};

/// Answers with citations that are sent to the verifier.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum VerifyWhen {
    /// Answers that the claim rules could not decide completely.
    #[default]
    Undecided,
    /// All answers with citations.
    All,
}

impl VerifyWhen {
    /// Name of the value in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undecided => "undecided",
            Self::All => "all",
        }
    }
}

/// `[verifier]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VerifierSettings {
    /// Name of its upstream.
    pub upstream: Box<str>,
    /// Index of that upstream in `[[upstreams]]`.
    pub at: usize,
    /// The model.
    pub model: Box<str>,
    /// Answers that are sent to it.
    pub when: VerifyWhen,
    /// Longest time that a verification may take.
    pub deadline: Duration,
    /// Highest number of calls within an hour.
    pub calls_per_hour: u64,
    /// Highest number of tokens within an hour, input and output together.
    pub tokens_per_hour: u64,
    /// Number of answers whose verdicts are cached; 0: none.
    pub cache: usize,
    /// Longest answer in bytes, with the results that it cites; longer ones aren't sent.
    pub max_bytes: usize,
}

/// `[verifier]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlVerifier {
    pub upstream: String,
    pub model: String,
    #[serde(default)]
    pub when: VerifyWhen,
    #[serde(default = "deadline", with = "duration")]
    pub deadline: Duration,
    #[serde(default = "calls_per_hour")]
    pub calls_per_hour: u64,
    #[serde(default = "tokens_per_hour")]
    pub tokens_per_hour: u64,
    #[serde(default = "cache")]
    pub cache: usize,
    #[serde(default = "max_bytes", with = "bytes")]
    pub max_bytes: u64,
}

fn deadline() -> Duration {
    Duration::from_secs(5)
}

fn calls_per_hour() -> u64 {
    600
}

fn tokens_per_hour() -> u64 {
    1_000_000
}

fn cache() -> usize {
    1_000
}

fn max_bytes() -> u64 {
    64 << 10
}

/// Checks the section. `upstreams`: those of the settings.
pub(super) fn validate(
    sources: &SettingsSources<'_>,
    raw: Option<&TomlVerifier>,
    replay: &TomlReplay,
    upstreams: &[UpstreamSettings],
) -> Result<Option<VerifierSettings>, ConfigError> {
    let Some(own) = raw else { return Ok(None) };
    let fault = |key: &str, message: String| Err(sources.fault(&format!("verifier.{key}"), message));
    let Some((at, upstream)) = upstreams.iter().enumerate().find(|(_, upstream)| *upstream.name == *own.upstream) else {
        let known: Vec<&str> = upstreams.iter().map(|upstream| &*upstream.name).collect();
        return fault(
            "upstream",
            format!("there is no upstream `{}`{}; known: {}", own.upstream, maybe(&own.upstream, &known), list(&known)),
        );
    };
    if upstream.credential == Credential::Caller {
        let message = format!(
            "the verifier's upstream needs an api_key_env, because no caller's credential is used for it: give `{}` one, \
             or `api_key_env = \"\"` where it needs no key",
            own.upstream
        );
        return fault("upstream", message);
    }
    if upstream.cassette.is_some() || replay.file.is_some() {
        sources.notices.borrow_mut().push("[verifier]: where a cassette answers, nobody is asked for a second opinion".into());
    }
    if own.model.trim().is_empty() {
        return fault("model", "empty: write the name of a model of that upstream".into());
    }
    if !DEADLINE.contains(&own.deadline) {
        return fault("deadline", "expected 10ms to 60s, e.g. \"5s\": answers may wait for so long".into());
    }
    for (key, value) in [("calls_per_hour", own.calls_per_hour), ("tokens_per_hour", own.tokens_per_hour)] {
        if value == 0 {
            return fault(key, "expected more than 0: to ask nobody, leave `[verifier]` out".into());
        }
    }
    if own.cache > CACHE_MAX {
        return fault("cache", format!("expected at most {CACHE_MAX} answers; 0: none are remembered"));
    }
    if !SHOWN_BYTES.contains(&own.max_bytes) {
        let (least, most) = (bytesize::ByteSize(*SHOWN_BYTES.start()), bytesize::ByteSize(*SHOWN_BYTES.end()));
        return fault("max_bytes", format!("{} bytes is out of range: {least} to {most}", own.max_bytes));
    }
    Ok(Some(VerifierSettings {
        upstream: own.upstream.as_str().into(),
        at,
        model: own.model.as_str().into(),
        when: own.when,
        deadline: own.deadline,
        calls_per_hour: own.calls_per_hour,
        tokens_per_hour: own.tokens_per_hour,
        cache: own.cache,
        max_bytes: usize::try_from(own.max_bytes).unwrap_or(usize::MAX),
    }))
}

const DEADLINE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
const SHOWN_BYTES: RangeInclusive<u64> = 1024..=(1 << 20);
const CACHE_MAX: usize = 100_000;
