//! Probes whether models really call functions: at startup, at intervals, and before the first use of a new model.
//!
//! The background part has a thread of its own, so that no exchange waits for it. A probe that couldn't be made never
//! counts as passed. A caller's key is used only for a model that the caller is about to ask anyway.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, header};
use tokio_util::sync::CancellationToken;

use super::{
    select::{api_of, headers_of},
    shared, status,
};
use crate::{
    openai::Api,
    proxy::upstream::CallerCredential,
    proxy::{
        app::App,
        error::Error,
        http::failure::Failure,
        upstream::{ERROR_BYTES_MAX, Endpoint, candidates::say_tool_calling, pool::Outgoing},
    },
    settings::{Credential, UpstreamSettings},
    translate::{self, Translation, answer::Origin},
    upstreams::{
        capabilities::{Inconclusive, ModelCapabilities, ModelEntry},
        capability_probe::{LIMITS, ProbeResult, ProbeSchedule, REFUSALS_MAX, TIME_MAX, ToolCalling, finding, question},
    },
    wire::json::Document,
};

/// Maximum models of one upstream that are probed in the background.
const MODELS_MAX: usize = 64;
/// Maximum concurrent probes of one upstream.
const AT_A_TIME: usize = 4;
/// Maximum bytes of a list of models.
const LIST_BYTES_MAX: usize = 16 << 20;
/// Pauses before an inconclusive probe is repeated: the first, and the longest; each is twice the one before.
const AGAIN: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// Outcome of a probe.
pub enum ProbeOutcome {
    /// The capability is known.
    Known(ToolCalling),
    /// The probe was refused, as the request itself would be: a wrong key, no such model.
    Refused,
    /// Inconclusive; with the failure if no response came at all.
    Failed(Option<Failure>),
}

/// Probes a model, or waits for the result of a probe that is running; for at most `limit`.
pub async fn ask(
    app: &App,
    endpoint: &Endpoint,
    upstream: usize,
    model: &str,
    entry: &ModelEntry,
    headers: HeaderMap,
    limit: Duration,
) -> ProbeOutcome {
    let asking = async {
        let _alone = entry.asking.lock().await;
        let known = entry.known().clone();
        match (known.calls_at(app.now_ms()), known.open_at(app.now_ms())) {
            (ToolCalling::Unknown, None) => one(app, endpoint, upstream, model, entry, &headers).await,
            (ToolCalling::Unknown, Some(Inconclusive::Refused)) => ProbeOutcome::Refused,
            (ToolCalling::Unknown, Some(Inconclusive::Failed)) => ProbeOutcome::Failed(None),
            (calls, _) => ProbeOutcome::Known(calls),
        }
    };
    match tokio::time::timeout(limit.min(TIME_MAX), asking).await {
        Ok(asked) => asked,
        Err(_) => {
            ProbeOutcome::Failed(Some(Failure::timeout(&endpoint.settings.name, "it didn't say in time whether its model calls functions")))
        }
    }
}

async fn one(app: &App, endpoint: &Endpoint, upstream: usize, model: &str, entry: &ModelEntry, headers: &HeaderMap) -> ProbeOutcome {
    let name = &*endpoint.settings.name;
    // An upstream that only has another API is asked in that.
    let api = api_of(Api::Chat, &endpoint.settings);
    let translation = Translation::between(Api::Chat, api);
    let Some(target) = endpoint.enforced(api, None) else { return ProbeOutcome::Failed(None) };
    let mut headers = headers_of(Api::Chat, &endpoint.settings, headers.clone());
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    // Not learnt: a caller's own limit isn't left out for it.
    let mut limits: Vec<&'static str> = Vec::new();
    for _ in 0..REFUSALS_MAX + LIMITS.len() {
        let question = question(model, &[&entry.known().refused[..], &limits].concat());
        let Some((question, origin)) = in_form(question, translation) else { return ProbeOutcome::Failed(None) };
        let sent = endpoint.send(Method::POST, target.clone(), headers.clone(), Outgoing::Whole(question)).await;
        let (status, body) = match sent {
            Err(error) => {
                note_open(app, name, model, entry, &error.failure.message, Inconclusive::Failed);
                return ProbeOutcome::Failed(Some(error.failure));
            }
            Ok(response) => {
                if let Some(standing) = app.standings.get(upstream) {
                    standing.hear(&endpoint.settings, response.headers());
                }
                if let Err(failure) = endpoint.usable(status::Asked::Answer, api.path(), &response) {
                    note_open(app, name, model, entry, &failure.message, Inconclusive::Failed);
                    return ProbeOutcome::Failed(Some(failure));
                }
                (response.status().as_u16(), endpoint.read(response, ERROR_BYTES_MAX).await.unwrap_or_default())
            }
        };
        // What isn't an answer is read as it came.
        let body = origin.and_then(|origin| translate::answer::answer(&body, &origin).ok()).unwrap_or(body);
        match finding(status, &body) {
            ProbeResult::Known(calls, why) => {
                note(app, upstream, model, entry, calls, &why);
                return ProbeOutcome::Known(calls);
            }
            ProbeResult::Refuses(path) if LIMITS.contains(&path) && !limits.contains(&path) => limits.push(path),
            ProbeResult::Refuses(path) if entry.refuse(path, app.now_ms()) => {
                tracing::info!(upstream = name, model, parameter = path, "upstream `{name}` refuses `{path}`: it is left out from now on");
                shared::tell_refused(app, upstream, model, path);
            }
            ProbeResult::Refuses(path) => {
                note(app, upstream, model, entry, ToolCalling::No, &format!("it refuses `{path}`, and tools without it"));
                return ProbeOutcome::Known(ToolCalling::No);
            }
            ProbeResult::Cut(why) => {
                note_open(app, name, model, entry, &why, Inconclusive::Refused);
                return ProbeOutcome::Refused;
            }
            ProbeResult::Open(why) => {
                let own = (400..500).contains(&status) && !matches!(status, 408 | 429);
                let open = if own { Inconclusive::Refused } else { Inconclusive::Failed };
                note_open(app, name, model, entry, &why, open);
                return if own { ProbeOutcome::Refused } else { ProbeOutcome::Failed(None) };
            }
        }
    }
    ProbeOutcome::Failed(None)
}

/// A question in the form of the upstream, and what its answer is translated by.
fn in_form(question: String, translation: Option<Translation>) -> Option<(Bytes, Option<Origin>)> {
    let question = Bytes::from(question);
    let Some(translation) = translation else { return Some((question, None)) };
    let document = Document::parse(question).ok()?;
    let translated = translate::request::request(&document, translation).ok()?;
    // Nobody sees the answer's id and time.
    Some((translated, Some(Origin::new(translation, &document, String::new(), 0))))
}

fn note_open(app: &App, name: &str, model: &str, entry: &ModelEntry, why: &str, open: Inconclusive) {
    if entry.open(why, open, app.now_ms()) {
        tracing::warn!(upstream = name, model, reason = why, "whether `{model}` of `{name}` calls functions couldn't be found out: {why}");
    }
}

/// Records a probe's result, and logs it if it is new.
pub fn note(app: &App, upstream: usize, model: &str, entry: &ModelEntry, calls: ToolCalling, why: &str) {
    if entry.learn(calls, why, app.now_ms()) {
        say_tool_calling(&app.settings.upstreams, upstream, model, calls, why);
        shared::tell_calls(app, upstream, model, calls, why);
    }
}

/// Reason for which exchanges with tools don't go to a model, as words that follow its name.
pub fn why_not(known: &ModelCapabilities) -> String {
    match known.calls {
        ToolCalling::Yes => "calls functions".to_owned(),
        ToolCalling::Unknown => format!("isn't known to call functions ({})", known.reason),
        ToolCalling::No | ToolCalling::TextLeak => format!("doesn't call functions ({})", known.reason),
    }
}

/// Starts probing in the background; `None` if there is no upstream to probe. The thread ends with `stop`.
///
/// # Errors
/// [`Error`] if the system provides no thread.
pub fn start(app: &Arc<App>, stop: CancellationToken) -> Result<Option<std::thread::JoinHandle<()>>, Error> {
    let asked = |upstream: &UpstreamSettings| upstream.probe.asks() && upstream.credential != Credential::Caller;
    for upstream in app.settings.upstreams.iter().filter(|upstream| upstream.probe.asks() && !asked(upstream)) {
        let name = &*upstream.name;
        tracing::info!(
            upstream = name,
            "`{name}` is called with the callers' own keys: its models are probed before their first use with tools"
        );
    }
    if !app.settings.upstreams.iter().any(asked) {
        return Ok(None);
    }
    let endpoints = Endpoint::all(&app.settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let app = app.clone();
    let work = move || {
        runtime.block_on(async {
            // What is played from a cassette isn't there to be asked.
            let all =
                endpoints.iter().enumerate().filter(|(at, endpoint)| asked(&endpoint.settings) && app.cassettes.player(*at).is_none());
            let rounds = futures_util::future::join_all(all.map(|(at, endpoint)| rounds(&app, at, endpoint)));
            tokio::select! {
                () = stop.cancelled() => {}
                _never = rounds => {}
            }
        });
    };
    Ok(Some(std::thread::Builder::new().name("prober".into()).spawn(work)?))
}

/// Probes the models of one upstream, repeatedly.
async fn rounds(app: &App, upstream: usize, endpoint: &Endpoint) {
    let mut pause = AGAIN.0;
    loop {
        let mut models = named(&app.settings.upstreams, upstream);
        models.extend(listed(endpoint).await.into_iter().filter(|model| endpoint.settings.serves(model)));
        models.sort_unstable();
        models.dedup();
        if models.len() > MODELS_MAX {
            let name = &*endpoint.settings.name;
            tracing::warn!(
                upstream = name,
                models = models.len(),
                "more than {MODELS_MAX} models of `{name}`: the rest is probed before first use"
            );
            models.truncate(MODELS_MAX);
        }
        let every = match endpoint.settings.probe {
            ProbeSchedule::Every(every) => Some(every),
            ProbeSchedule::Startup | ProbeSchedule::Off => None,
        };
        let headers = endpoint.headers(&HeaderMap::new(), CallerCredential::Withheld);
        if every.is_none() {
            models.retain(|model| !is_known(app, upstream, model));
        }
        let questions = models.iter().map(|model| background(app, upstream, endpoint, model, &headers));
        let open = stream::iter(questions).buffer_unordered(AT_A_TIME).filter(|known| std::future::ready(!known)).count().await;
        let Some(wait) = waits(every, open, &mut pause) else { return std::future::pending().await };
        tokio::time::sleep(wait).await;
    }
}

/// Pause until models are probed again; `None` for never. `open`: number of inconclusive probes. An upstream that is slow
/// to answer may serve one request at a time: its pauses grow, and are never shorter than the settings say.
fn waits(every: Option<Duration>, open: usize, pause: &mut Duration) -> Option<Duration> {
    if open == 0 {
        *pause = AGAIN.0;
        return every;
    }
    let wait = (*pause).max(every.unwrap_or_default());
    *pause = (*pause * 2).min(AGAIN.1);
    Some(wait)
}

/// True if it is known whether the model calls functions.
fn is_known(app: &App, upstream: usize, model: &str) -> bool {
    app.standings.get(upstream).is_none_or(|standing| standing.models.model(model).known().calls != ToolCalling::Unknown)
}

/// Probes one model. True if its capability is known afterwards.
async fn background(app: &App, upstream: usize, endpoint: &Endpoint, model: &str, headers: &HeaderMap) -> bool {
    let Some(standing) = app.standings.get(upstream) else { return true };
    let entry = standing.models.model(model);
    let asking = async {
        let _alone = entry.asking.lock().await;
        one(app, endpoint, upstream, model, &entry, headers).await
    };
    match tokio::time::timeout(TIME_MAX, asking).await {
        Ok(asked) => matches!(asked, ProbeOutcome::Known(_)),
        Err(_) => {
            let why = format!("no answer within {} s: is it slow, or busy?", TIME_MAX.as_secs());
            note_open(app, &endpoint.settings.name, model, &entry, &why, Inconclusive::Failed);
            false
        }
    }
}

/// Models of an upstream that the settings name without globs.
fn named(upstreams: &[UpstreamSettings], upstream: usize) -> Vec<String> {
    let Some(own) = upstreams.get(upstream) else { return Vec::new() };
    let is_name = |name: &&String| !name.contains(['*', '?', '[', '{']);
    let mut names: Vec<String> = own.models.iter().flatten().filter(is_name).cloned().collect();
    names.extend(own.fallback_models.iter().map(|(from, _)| from.to_string()));
    let stands_in = upstreams.iter().filter(|other| other.fallback.contains(&own.name));
    names.extend(stands_in.flat_map(|other| &other.fallback_models).map(|(_, to)| to.to_string()));
    names.retain(|name| own.serves(name));
    names
}

/// Model IDs from the upstream's `/models`; empty if its settings contain no globs or the list can't be read.
async fn listed(endpoint: &Endpoint) -> Vec<String> {
    let has_globs = endpoint.settings.models.iter().flatten().any(|name| name.contains(['*', '?', '[', '{']));
    let Some(target) = endpoint.target("/models", None).filter(|_| has_globs) else { return Vec::new() };
    let mut headers = endpoint.headers(&HeaderMap::new(), CallerCredential::Withheld);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let listing = async {
        let response = endpoint.send(Method::GET, target, headers, Outgoing::Whole(bytes::Bytes::new())).await.ok()?;
        endpoint.usable(status::Asked::Answer, "/models", &response).ok()?;
        let body = endpoint.read(response, LIST_BYTES_MAX).await.ok()?;
        let document = Document::parse(body).ok()?;
        let ids = document.root().get("data")?.items().filter_map(|model| Some(model.get("id")?.text()?.into_owned()));
        Some(ids.collect())
    };
    tokio::time::timeout(TIME_MAX, listing).await.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_open_is_asked_ever_more_rarely() {
        let minutes = |every: Option<u64>, open: &[usize]| -> Vec<Option<u64>> {
            let mut pause = AGAIN.0;
            let every = every.map(|every| Duration::from_secs(60 * every));
            open.iter().map(|open| waits(every, *open, &mut pause).map(|wait| wait.as_secs() / 60)).collect()
        };
        let rising = [1, 2, 4, 8, 16, 32, 60, 60].map(Some);
        assert_eq!(minutes(None, &[1; 8]), rising);
        assert_eq!(minutes(Some(1), &[2; 8]), rising);
        assert_eq!(minutes(Some(10), &[1; 8]), [10, 10, 10, 10, 16, 32, 60, 60].map(Some));
        assert_eq!(minutes(Some(1), &[1, 1, 0, 1, 1]), [1, 2, 1, 1, 2].map(Some));
        assert_eq!(minutes(None, &[1, 0]), [Some(1), None]);
    }
}
