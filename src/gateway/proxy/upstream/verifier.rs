//! Client for second opinions: asks one model of one upstream within a deadline and a cap, and caches what it says.
//!
//! Failures are counted, and logged once a minute at most. The question and the reading of its answer are in [`crate::judge::verifier`].

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use quick_cache::sync::Cache;

use crate::{
    counters::{SharedCounters, Taken, bucket::Bucket},
    judge::verifier::{
        VerifierVerdict,
        check::{self, CheckedVerdicts},
        question::{VerifierQuestion, tokens_of},
        reading::{self, ANSWER_BYTES_MAX, VerifierReply},
    },
    openai::Api,
    proxy::upstream::CallerCredential,
    proxy::{
        error::Error,
        helper_threads,
        upstream::{
            Endpoint, is_encoded,
            pool::{Answer, Outgoing},
            response,
            state::UpstreamState,
        },
    },
    settings::{self},
    sys::clock::Uptime,
    telemetry::metrics::verifier::{VerifierCounters, VerifierOutcome},
    upstreams::{
        allowance::{Allowance, Reserved},
        breaker::{self, Admission, BreakerState},
        health::UpstreamHealth,
        quirks::{AdaptContext, fit},
        retry,
    },
};

/// Minimum interval between log lines on failures, in milliseconds.
const SAID_EVERY_MS: u64 = 60_000;
/// Time for which a cap holds.
const HOUR: Duration = Duration::from_secs(3_600);
/// Estimate of an answer's tokens before it is known.
const ANSWER_TOKENS: u64 = 1_000;

/// Client for second opinions: cache, caps, health and counts.
pub struct Verifier {
    settings: settings::VerifierSettings,
    secret: [u8; 32],
    cache: Option<Cache<[u8; 32], Arc<CheckedVerdicts>>>,
    /// Health of the verifier. Separate from that of exchanges with the same upstream, which have other deadlines.
    gauge: UpstreamHealth,
    allowance: Mutex<Allowance>,
    /// The same caps over all replicas; `None` without shared counters.
    shared: Option<SharedCaps>,
    counts: Arc<VerifierCounters>,
    quiet_until_ms: AtomicU64,
    unsaid: AtomicU64,
}

/// Caps of calls and tokens over all replicas.
struct SharedCaps {
    counters: Arc<SharedCounters>,
    calls: Bucket,
    tokens: Bucket,
}

impl SharedCaps {
    /// Takes a call of about `tokens` tokens; false if all replicas together have reached a cap. Where the shared counters don't say in
    /// time, what this process counts decides.
    async fn reserve(&self, tokens: u64) -> bool {
        let taken = self.counters.take(vec![self.calls.take(1), self.tokens.take(tokens)]).await;
        match taken.as_deref() {
            None | Some([Taken::Granted, Taken::Granted]) => true,
            Some([Taken::Granted, Taken::Refused(_)]) => {
                self.counters.adjust(self.calls.give_back(1));
                false
            }
            Some([Taken::Refused(_), Taken::Granted]) => {
                self.counters.adjust(self.tokens.give_back(tokens));
                false
            }
            Some(_) => false,
        }
    }

    fn give_back(&self, tokens: u64) {
        self.counters.adjust(self.calls.give_back(1));
        self.counters.adjust(self.tokens.give_back(tokens));
    }
}

/// Failure to get a second opinion.
struct VerifierFailure {
    outcome: VerifierOutcome,
    why: String,
    /// Pause that the upstream asks for (`retry-after`).
    pause: Option<Duration>,
}

impl VerifierFailure {
    fn new(outcome: VerifierOutcome, why: impl Into<String>) -> Self {
        Self { outcome, why: why.into(), pause: None }
    }
}

/// Admitted call of the verifier. If it is dropped without an outcome, it counts as abandoned.
struct Asking<'v> {
    verifier: &'v Verifier,
    uptime: Uptime,
    role: breaker::RequestRole,
    since: Instant,
    told: bool,
}

impl Asking<'_> {
    fn end(mut self, outcome: breaker::RequestOutcome) {
        self.told = true;
        self.verifier.counts.time(self.since.elapsed());
        self.verifier.gauge.report(self.role, outcome, self.uptime.ms());
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.verifier.counts.count(VerifierOutcome::Abandoned);
            self.verifier.gauge.report(self.role, breaker::RequestOutcome::Abandoned, self.uptime.ms());
        }
    }
}

impl Verifier {
    /// Verifier with these settings.
    ///
    /// # Errors
    /// [`Error`] if the system provides no random numbers.
    pub fn new(
        settings: &settings::VerifierSettings,
        counts: Arc<VerifierCounters>,
        counters: Option<Arc<SharedCounters>>,
    ) -> Result<Self, Error> {
        let shared = counters.map(|counters| SharedCaps {
            calls: Bucket::new(counters.key("verifier calls", &[]), settings.calls_per_hour, HOUR),
            tokens: Bucket::new(counters.key("verifier tokens", &[]), settings.tokens_per_hour, HOUR),
            counters,
        });
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(Error::Random)?;
        Ok(Self {
            settings: settings.clone(),
            secret,
            cache: (settings.cache > 0).then(|| Cache::new(settings.cache)),
            gauge: UpstreamHealth::default(),
            allowance: Mutex::new(Allowance::new(settings.calls_per_hour, settings.tokens_per_hour)),
            shared,
            counts,
            quiet_until_ms: AtomicU64::new(0),
            unsaid: AtomicU64::new(0),
        })
    }

    /// Index of its upstream in `[[upstreams]]`.
    pub fn upstream(&self) -> usize {
        self.settings.at
    }

    /// Its settings.
    pub fn settings(&self) -> &settings::VerifierSettings {
        &self.settings
    }

    /// Counts of its outcomes.
    pub fn counts(&self) -> &VerifierCounters {
        &self.counts
    }

    fn allowance(&self) -> MutexGuard<'_, Allowance> {
        // Held for a few instructions, twice per call.
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Findings on an answer; `None` if there is no second opinion. `upstream`: the one of [`Self::upstream`], which is asked.
    pub async fn opinion(
        &self,
        upstream: Option<(&Endpoint, &UpstreamState)>,
        uptime: Uptime,
        question: &VerifierQuestion<'_>,
    ) -> Option<Arc<CheckedVerdicts>> {
        let Self { settings, counts, .. } = self;
        let key = self.cache.as_ref().map(|cache| (cache, question.key(&self.secret, &settings.upstream, &settings.model)));
        if let Some(known) = key.as_ref().and_then(|(cache, key)| cache.get(key)) {
            counts.count(VerifierOutcome::Cached);
            return Some(known);
        }
        match self.ask(upstream, uptime, question).await {
            Ok(checked) => {
                let objects = |verdict: VerifierVerdict| checked.findings.iter().filter(|own| own.verdict == verdict).count() as u64;
                counts.claims([
                    checked.supported,
                    objects(VerifierVerdict::Contradicted),
                    objects(VerifierVerdict::Unsupported),
                    checked.dropped,
                ]);
                counts.count(if checked.findings.is_empty() { VerifierOutcome::Supported } else { VerifierOutcome::Objected });
                let checked = Arc::new(checked);
                if let Some((cache, key)) = key {
                    cache.insert(key, checked.clone());
                }
                Some(checked)
            }
            Err(failed) => {
                counts.count(failed.outcome);
                self.say(&failed, uptime.ms());
                None
            }
        }
    }

    /// Makes one call, within its deadline.
    async fn ask(
        &self,
        upstream: Option<(&Endpoint, &UpstreamState)>,
        uptime: Uptime,
        question: &VerifierQuestion<'_>,
    ) -> Result<CheckedVerdicts, VerifierFailure> {
        let resting = || VerifierFailure::new(VerifierOutcome::Resting, "it failed of late and is left alone for a while");
        let (endpoint, standing) = upstream.ok_or_else(resting)?;
        let now_ms = uptime.ms();
        if standing.gauge.condition(now_ms) == BreakerState::Open || standing.gauge.is_paused(now_ms) || self.gauge.is_paused(now_ms) {
            return Err(resting());
        }
        let request = self.request(endpoint, standing, question)?;
        let input = tokens_of(request.len());
        let spent = || VerifierFailure::new(VerifierOutcome::OverCap, "`calls_per_hour` or `tokens_per_hour` is reached");
        let about = input.saturating_add(ANSWER_TOKENS);
        let reserved = self.allowance().reserve(about, now_ms).ok_or_else(spent)?;
        if let Some(shared) = &self.shared
            && !shared.reserve(about).await
        {
            self.allowance().give_back(reserved);
            return Err(spent());
        }
        let role = match self.gauge.admit(now_ms) {
            Admission::Pass => breaker::RequestRole::Regular,
            Admission::Trial => breaker::RequestRole::Trial,
            Admission::Refuse(_) => {
                self.allowance().give_back(reserved);
                self.shared.iter().for_each(|shared| shared.give_back(about));
                return Err(resting());
            }
        };
        let asking = Asking { verifier: self, uptime, role, since: Instant::now(), told: false };
        let asked =
            tokio::time::timeout(self.settings.deadline, self.exchange(endpoint, request, (reserved, about), input, question)).await;
        let came = asked.unwrap_or_else(|_| Err(VerifierFailure::new(VerifierOutcome::Late, "no verdict within `deadline`")));
        if let Some(pause) = came.as_ref().err().and_then(|failed| failed.pause) {
            self.gauge.pause(uptime.ms().saturating_add(pause.min(retry::RETRY_AFTER_MAX.saturating_mul(6)).as_millis() as u64));
        }
        asking.end(if came.is_ok() { breaker::RequestOutcome::Answered } else { breaker::RequestOutcome::Failed });
        came
    }

    /// Request body of the question, without the parameters that its upstream is known to reject.
    fn request(&self, endpoint: &Endpoint, standing: &UpstreamState, question: &VerifierQuestion<'_>) -> Result<Bytes, VerifierFailure> {
        let request = Bytes::from(question.request(&self.settings.model));
        let known = standing.models.find(&self.settings.model).map(|model| model.known().clone());
        let refused = known.as_ref().map_or(&[][..], |known| &known.refused);
        let attempt = AdaptContext { model: None, foreign: false, refused, recall: &|_| None };
        fit(&request, standing.fitting(&endpoint.settings), &attempt)
            .map_err(|why| VerifierFailure::new(VerifierOutcome::Error, format!("the question can't be made to fit: {why}")))
    }

    async fn exchange(
        &self,
        endpoint: &Endpoint,
        request: Bytes,
        (reserved, about): (Reserved, u64),
        input: u64,
        question: &VerifierQuestion<'_>,
    ) -> Result<CheckedVerdicts, VerifierFailure> {
        let error = |why: String| VerifierFailure::new(VerifierOutcome::Error, why);
        let target = endpoint.enforced(Api::Chat, None).ok_or_else(|| error("its address can't be made".into()))?;
        // Nothing of the caller's.
        let mut headers = endpoint.headers(&HeaderMap::new(), CallerCredential::Withheld);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let sent = endpoint.send_quietly(Method::POST, target, headers, Outgoing::Whole(request)).await;
        let response = sent.map_err(|why| VerifierFailure::new(VerifierOutcome::Unreachable, crate::proxy::upstream::chain(&why)))?;
        if response.status() != StatusCode::OK || is_encoded(response.headers()) {
            let said = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let pause = retry::retry_after(said("retry-after-ms"), said(header::RETRY_AFTER.as_str()));
            let pause = pause.filter(|_| matches!(response.status().as_u16(), 429 | 503));
            return Err(VerifierFailure { pause, ..error(format!("it answered with status {}", response.status().as_u16())) });
        }
        let body = body(response).await?;
        let VerifierReply { tokens, verdicts } = reading::read(&body);
        let (input, output) = tokens.unwrap_or((input, tokens_of(body.len())));
        self.counts.tokens(input, output);
        let used = input.saturating_add(output);
        self.allowance().settle(reserved, used);
        self.shared.iter().for_each(|shared| shared.counters.adjust(shared.tokens.settle(about, used)));
        helper_threads::step_for(question.bytes().saturating_mul(2)).await;
        let (entries, beyond) = verdicts.map_err(|why| VerifierFailure::new(VerifierOutcome::Invalid, why.to_string()))?;
        Ok(check::check(&entries, beyond, question.answer, &question.results))
    }

    /// Logs that there is no second opinion, at most once per interval.
    fn say(&self, failed: &VerifierFailure, now_ms: u64) {
        let Some(times) = self.unsaid(now_ms) else { return };
        let (upstream, model, why) = (&*self.settings.upstream, &*self.settings.model, &*failed.why);
        let outcome = failed.outcome.as_str();
        tracing::warn!(
            upstream,
            model,
            outcome,
            why,
            times,
            "the verifier gave no second opinion ({outcome}): {why}; answers go on without it, and this is said once a minute at most"
        );
    }

    /// Counts a failure. Returns the number of failures since the last log line, if another is due.
    fn unsaid(&self, now_ms: u64) -> Option<u64> {
        self.unsaid.fetch_add(1, Ordering::Relaxed);
        let until = self.quiet_until_ms.load(Ordering::Relaxed);
        let next = now_ms.saturating_add(SAID_EVERY_MS);
        // Of several at once one says it.
        let says = now_ms >= until && self.quiet_until_ms.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        says.then(|| self.unsaid.swap(0, Ordering::Relaxed))
    }
}

/// Body of an answer, bounded in bytes.
async fn body(mut response: Answer) -> Result<Bytes, VerifierFailure> {
    let mut body = BytesMut::new();
    loop {
        let broken = |why: response::BodyError| VerifierFailure::new(VerifierOutcome::Unreachable, format!("its answer broke off: {why}"));
        let Some(chunk) = response.body_mut().chunk().await.map_err(broken)? else { return Ok(body.freeze()) };
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(VerifierFailure::new(VerifierOutcome::Invalid, reading::Invalid::TooLong.to_string()));
        }
        body.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_it_once_a_minute() {
        let settings = settings::VerifierSettings {
            upstream: "u".into(),
            at: 0,
            model: "m".into(),
            when: settings::VerifyWhen::All,
            deadline: Duration::from_secs(5),
            calls_per_hour: 1,
            tokens_per_hour: 1,
            cache: 0,
            max_bytes: 1,
        };
        let verifier = Verifier::new(&settings, Arc::default(), None).unwrap();
        let said: Vec<u64> = (0..150).filter_map(|second| verifier.unsaid(7_000 + second * 1_000)).collect();
        assert_eq!(said, [1, 60, 60]);
    }
}
