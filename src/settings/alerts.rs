//! `[[alerts]]`: counted events, their thresholds, and the webhooks to call.

use std::{ops::RangeInclusive, time::Duration};

use http::Uri;
use serde::Deserialize;

use super::{ConfigError, Secret, sources::SettingsSources};
use toolmark_core::{
    config::{error::maybe, units::duration},
    violation::Code,
};

/// One of `[[alerts]]`: fires when more than `threshold` are counted within `window`.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Name of the alert.
    pub name: Box<str>,
    /// Counted events.
    pub counts: Counts,
    /// Highest count that doesn't fire.
    pub threshold: u64,
    /// Time window of the count.
    pub window: Duration,
    /// Webhook to which the alert is posted. May contain a secret.
    pub url: Secret,
    /// Bearer token for the webhook.
    pub token: Option<Secret>,
}

/// Events that an alert counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Counts {
    /// Violations with this code, at any severity.
    Code(Code),
    /// A metric, of all tools or of one.
    Metric(AlertMetric, Option<Box<str>>),
}

/// `[[alerts]] metric`
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum AlertMetric {
    /// Exchanges that were blocked.
    Blocked,
    /// Exchanges that were repaired.
    Repaired,
    /// Exchanges that ended with an error.
    Failed,
    /// Exchanges whose caller disconnected.
    Abandoned,
    /// Calls that were rejected.
    RejectedCalls,
    /// Executions whose result reports a failure.
    FailedExecutions,
    /// Tokens used by repairs.
    RepairTokens,
}

impl AlertMetric {
    /// Name of the metric in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Repaired => "repaired",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::RejectedCalls => "rejected_calls",
            Self::FailedExecutions => "failed_executions",
            Self::RepairTokens => "repair_tokens",
        }
    }

    fn is_of_tools(self) -> bool {
        matches!(self, Self::RejectedCalls | Self::FailedExecutions)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlAlert {
    pub name: String,
    pub code: Option<String>,
    pub metric: Option<AlertMetric>,
    pub tool: Option<String>,
    pub threshold: u64,
    #[serde(with = "duration")]
    pub window: Duration,
    pub url: Option<String>,
    pub url_env: Option<String>,
    pub token_env: Option<String>,
}

impl TomlAlert {
    /// Returns whether this variable is named as the source of a secret.
    pub fn names(&self, variable: &str) -> bool {
        [&self.url_env, &self.token_env].into_iter().any(|name| name.as_deref() == Some(variable))
    }
}

pub(super) fn validate(sources: &SettingsSources<'_>, all: &[TomlAlert]) -> Result<Vec<Alert>, ConfigError> {
    let mut alerts: Vec<Alert> = Vec::new();
    if all.len() > ALERTS_MAX {
        return Err(sources.fault("alerts", format!("found {}, at most {ALERTS_MAX} are watched", all.len())));
    }
    for (index, alert) in all.iter().enumerate() {
        let fault = |key: &str, message: String| sources.fault(&format!("alerts.{index}.{key}"), message);
        if alert.name.trim().is_empty() || alert.name.chars().any(char::is_control) {
            return Err(fault("name", "an alert needs a name".into()));
        }
        if alerts.iter().any(|other| *other.name == *alert.name) {
            return Err(fault("name", format!("two alerts are named `{}`: names must differ", alert.name)));
        }
        if !WINDOW.contains(&alert.window) {
            return Err(fault("window", "expected 10s to 24h, e.g. \"10m\"".into()));
        }
        alerts.push(Alert {
            name: alert.name.as_str().into(),
            counts: counts(alert).map_err(|(key, message)| fault(key, message))?,
            threshold: alert.threshold,
            window: alert.window,
            url: webhook(sources, alert).map_err(|(key, message)| fault(key, message))?,
            token: token(sources, alert).map_err(|message| fault("token_env", message))?,
        });
    }
    Ok(alerts)
}

fn webhook(sources: &SettingsSources<'_>, alert: &TomlAlert) -> Result<Secret, (&'static str, String)> {
    let (key, url) = match (&alert.url, &alert.url_env) {
        (Some(url), None) => ("url", url.as_str()),
        (None, Some(name)) => {
            let unset = || ("url_env", format!("the environment variable {name} isn't set: set it to the webhook's URL"));
            ("url_env", sources.environment.lookup(name).map(str::trim).filter(|url| !url.is_empty()).ok_or_else(unset)?)
        }
        _ => return Err(("url", "an alert needs either `url` or `url_env`: where it is posted".into())),
    };
    let wrong = || (key, "no URL of a webhook: write it like \"https://hooks.example.org/toolmark\"".to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let plain = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty());
    if !plain {
        return Err(wrong());
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err((key, "a URL with a password in it isn't taken: name a bearer token by `token_env`".into()));
    }
    Ok(Secret::new(url))
}

fn token(sources: &SettingsSources<'_>, alert: &TomlAlert) -> Result<Option<Secret>, String> {
    let Some(name) = &alert.token_env else { return Ok(None) };
    let token = sources.environment.lookup(name).map(str::trim).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| format!("the environment variable {name} isn't set: set it to the webhook's bearer token"))?;
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("the environment variable {name} holds no bearer token"));
    }
    Ok(Some(Secret::new(token)))
}

fn counts(alert: &TomlAlert) -> Result<Counts, (&'static str, String)> {
    match (&alert.code, alert.metric) {
        (Some(code), None) if alert.tool.is_some() => Err(("tool", format!("`{code}` isn't counted by tool: leave `tool` out"))),
        (Some(code), None) => {
            let known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
            let unknown = || ("code", format!("`{code}` is no code of a violation{}", maybe(code, &known)));
            Code::parse(code).map(Counts::Code).ok_or_else(unknown)
        }
        (None, Some(metric)) if alert.tool.is_some() && !metric.is_of_tools() => {
            Err(("tool", format!("`{}` isn't counted by tool: leave `tool` out", metric.as_str())))
        }
        (None, Some(metric)) => Ok(Counts::Metric(metric, alert.tool.as_deref().map(Into::into))),
        (None, None) => Err(("code", "an alert needs a `code` or a `metric`: what it counts".into())),
        (Some(_), Some(_)) => Err(("metric", "an alert counts either a `code` or a `metric`: remove one".into())),
    }
}

const ALERTS_MAX: usize = 100;
const WINDOW: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(24 * 3600);

#[cfg(test)]
#[path = "alerts_tests.rs"]
mod tests;
