//! Alerts: checks the counters of `[[alerts]]` once a second, and posts JSON to a webhook when an alert starts or stops firing.
//!
//! Nothing here is on the path of an exchange: alerts read counters that exist anyway. Each alert has its own task and bounded
//! queue, so that a webhook that is down doesn't delay the others.

mod state;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Telemetry,
    metrics::{ACTIONS, APIS, ENDINGS, Metrics, ToolCounters},
};
use crate::{
    settings::{Alert, AlertMetric, Counts},
    sys::tls,
    telemetry::{
        metrics::sources::{MetricFamily, MetricKind},
        stats::counters::CounterField,
    },
};
use state::{AlertState, AlertTransition};

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Messages of one alert that may wait; further ones are dropped and counted.
const WAITING_MAX: usize = 16;
/// Attempts to post one message.
const TRIES: u32 = 8;
/// Pauses between attempts: the first one, which is doubled each time, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An alert's state, and its messages by outcome.
#[derive(Debug, Default)]
struct AlertCounters {
    firing: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// Starts the alerts on their own thread, which ends when `stop` is cancelled; `None` if there are no alerts.
///
/// # Errors
/// The thread or the HTTP client can't be created.
pub fn start(alerts: &[Alert], observed: &Arc<Telemetry>, stop: CancellationToken) -> std::io::Result<Option<std::thread::JoinHandle<()>>> {
    if alerts.is_empty() {
        return Ok(None);
    }
    let outcomes: Vec<Arc<AlertCounters>> = alerts.iter().map(|_| Arc::default()).collect();
    register(alerts, &outcomes, observed);
    let client = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
    let tls = tls::http_client_config(tls::TrustedRoots::Platform).map_err(std::io::Error::other)?;
    let client = client.user_agent("toolmark").tls_backend_preconfigured(tls).build().map_err(std::io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (alerts, observed) = (alerts.to_vec(), observed.clone());
    let watch = move || runtime.block_on(watch(alerts, outcomes, observed, client, stop));
    std::thread::Builder::new().name("alerts".into()).spawn(watch).map(Some)
}

fn register(alerts: &[Alert], outcomes: &[Arc<AlertCounters>], observed: &Telemetry) {
    for alert in alerts {
        if let Counts::Metric(_, Some(tool)) = &alert.counts {
            // A tool named by an alert gets its own counter, even if the table fills up later.
            observed.metrics.tools.with(tool, |_| ());
        }
    }
    let all: Vec<(String, Arc<AlertCounters>)> = alerts.iter().map(|alert| alert.name.to_string()).zip(outcomes.iter().cloned()).collect();
    observed.samples.register(move || {
        let (mut firing, mut messages) = (Vec::new(), Vec::new());
        for (name, outcomes) in &all {
            firing.push((vec![("alert", name.clone())], f64::from(u8::from(outcomes.firing.load(Ordering::Relaxed)))));
            for (outcome, count) in [("sent", &outcomes.sent), ("failed", &outcomes.failed), ("dropped", &outcomes.dropped)] {
                messages.push((vec![("alert", name.clone()), ("outcome", outcome.to_owned())], count.load(Ordering::Relaxed) as f64));
            }
        }
        vec![
            MetricFamily { name: "toolmark_alert_firing", help: "Alerts that fire now", shape: MetricKind::Gauge, values: firing },
            MetricFamily {
                name: "toolmark_alert_messages",
                help: "Messages of alerts by what became of them",
                shape: MetricKind::Counter,
                values: messages,
            },
        ]
    });
}

async fn watch(
    alerts: Vec<Alert>,
    outcomes: Vec<Arc<AlertCounters>>,
    observed: Arc<Telemetry>,
    client: reqwest::Client,
    stop: CancellationToken,
) {
    let begun = Instant::now();
    let mut watched: Vec<_> = alerts
        .into_iter()
        .zip(outcomes)
        .map(|(alert, outcomes)| {
            let (sender, messages) = mpsc::channel(WAITING_MAX);
            tokio::spawn(post_all(alert.clone(), messages, client.clone(), outcomes.clone()));
            (AlertState::new(alert.threshold, alert.window), alert, outcomes, sender)
        })
        .collect();
    let mut tick = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        let now_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        for (window, alert, outcomes, sender) in &mut watched {
            let Some(turn) = window.look(now_ms, total(&observed.metrics, &alert.counts)) else { continue };
            outcomes.firing.store(window.is_firing(), Ordering::Relaxed);
            let message = message(alert, turn);
            tracing::warn!(alert = &*alert.name, state = %message["state"], count = %message["count"], "alert `{}`", alert.name);
            observed.events.publish("alert", &message);
            if sender.try_send(message).is_err() {
                outcomes.dropped.fetch_add(1, Ordering::Relaxed);
                tracing::error!(alert = &*alert.name, "a message of alert `{}` is dropped: too many wait for its webhook", alert.name);
            }
        }
    }
}

fn message(alert: &Alert, turn: AlertTransition) -> Value {
    let (state, count) = match turn {
        AlertTransition::Fire(count) => ("firing", count),
        AlertTransition::Resolve(count) => ("resolved", count),
    };
    let (kind, what, tool) = match &alert.counts {
        Counts::Code(code) => ("code", code.as_str(), None),
        Counts::Metric(metric, tool) => ("metric", metric.as_str(), tool.as_deref()),
    };
    let window = humantime::format_duration(alert.window);
    let of = tool.map(|tool| format!(" of {tool}")).unwrap_or_default();
    // Slack, Mattermost and others show `text`.
    let text = format!("toolmark: {} is {state}: {count} × {what}{of} within {window}, and {} are fine", alert.name, alert.threshold);
    json!({
        "alert": alert.name, "state": state, kind: what, "tool": tool, "count": count, "threshold": alert.threshold,
        "window_s": alert.window.as_secs(), "text": text,
    })
}

async fn post_all(alert: Alert, mut messages: mpsc::Receiver<Value>, client: reqwest::Client, outcomes: Arc<AlertCounters>) {
    while let Some(message) = messages.recv().await {
        let posted = post(&alert, &message, &client).await;
        if posted { &outcomes.sent } else { &outcomes.failed }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Posts one message, with retries if the failure may be temporary; returns true if it was delivered.
async fn post(alert: &Alert, message: &Value, client: &reqwest::Client) -> bool {
    let mut pause = PAUSES.0;
    for tried in 1..=TRIES {
        let mut request = client.post(alert.url.expose()).header("content-type", "application/json").body(message.to_string());
        if let Some(token) = &alert.token {
            request = request.bearer_auth(token.expose());
        }
        let why = match request.send().await {
            Ok(answer) if answer.status().is_success() => return true,
            Ok(answer) => {
                let status = answer.status().as_u16();
                if (300..500).contains(&status) && !matches!(status, 408 | 425 | 429) {
                    let hint = if status < 400 { ": it redirects, which isn't followed: set its `url` to where it leads" } else { "" };
                    tracing::error!(alert = &*alert.name, status, "the webhook of alert `{}` refuses its message{hint}", alert.name);
                    return false;
                }
                format!("it answered {status}")
            }
            // The URL may be a secret.
            Err(error) => error.without_url().to_string(),
        };
        tracing::warn!(alert = &*alert.name, why, tried, "the webhook of alert `{}` can't be reached", alert.name);
        if tried < TRIES {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
    tracing::error!(alert = &*alert.name, tries = TRIES, "a message of alert `{}` is given up", alert.name);
    false
}

/// The present value of an alert's counter.
fn total(metrics: &Metrics, counts: &Counts) -> u64 {
    let (metric, tool) = match counts {
        Counts::Code(code) => return (0..ACTIONS.len()).map(|action| metrics.violations(*code, action)).sum(),
        Counts::Metric(metric, tool) => (metric, tool.as_deref()),
    };
    let of_tools = |count: &dyn Fn(&ToolCounters) -> u64| {
        let wanted = |name: &str| tool.is_none_or(|tool| tool == name);
        metrics.tools.all().iter().filter(|(name, _)| wanted(name)).map(|(_, counters)| count(counters)).sum()
    };
    match metric {
        AlertMetric::Blocked => ended(metrics, CounterField::Blocked),
        AlertMetric::Repaired => ended(metrics, CounterField::Repaired),
        AlertMetric::Failed => ended(metrics, CounterField::Failed),
        AlertMetric::Abandoned => ended(metrics, CounterField::Abandoned),
        AlertMetric::RejectedCalls => of_tools(&|tool| tool.calls[1].value()),
        AlertMetric::FailedExecutions => of_tools(&|tool| tool.failed.value()),
        AlertMetric::RepairTokens => {
            metrics.models.all().iter().flat_map(|(_, model)| &model.repair).map(super::metrics::AtomicCounter::value).sum()
        }
    }
}

fn ended(metrics: &Metrics, how: CounterField) -> u64 {
    let ending = ENDINGS.iter().position(|(field, _)| *field == how).unwrap_or_default();
    (0..APIS.len()).flat_map(|api| [false, true].map(|stream| metrics.requests(api, stream, ending))).sum()
}
