//! Selection of the upstream for one exchange: those that may answer it, the current one, and what is done after a failure.
//!
//! ```text
//!  choose ─▶ (sent elsewhere) ─▶ answer, or an error that another try won't mend ─▶ the exchange goes on
//!    ▲              └▶ failed, and nothing has gone downstream ─▶ recover: again after a pause │ elsewhere │ no more
//!    └──────────────────────────────────────────────────────────────────────┘
//! ```
//! Nothing is sent here but probes; `proxy/exchange/attempt.rs` sends. Decisions are made in [`crate::upstreams`]. A caller's own
//! credential goes to the upstream that its request was routed to, and to no other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{
    Endpoint,
    candidates::{Candidate, Fitness, fitness},
    heard,
    prober::{self, ProbeOutcome},
    shared,
};
use crate::{
    exchange::{
        attempts::Attempts,
        context::{Context, JudgedChoice},
    },
    judge::call::turn::ToolChoice,
    openai::{Api, error::Reported},
    proxy::{
        app::App,
        http::{credentials, failure::Failure, headers},
        worker::Worker,
    },
    settings::{ApiSupport, KeyHeader, UpstreamSettings},
    translate::{self, Translation},
    upstreams::breaker::RequestRole,
    upstreams::{
        breaker::{Admission, BreakerState, RequestOutcome},
        capabilities::ModelEntry,
        capability_probe::ToolCalling,
        health::FailureKind,
        quirks::{
            AdaptContext, Incompatible, fit,
            learn::{LearnedQuirk, lesson},
            presets::Preset,
        },
        retry::{self, AttemptFailure, RetryDecision, RetryLimits, TRIES},
    },
    violation::Code,
    wire::{json::Document, rope::Rope},
};

/// The request that an upstream is selected for.
#[derive(Clone, Copy)]
pub struct PendingRequest<'r> {
    /// Worker that serves the exchange.
    pub worker: &'r Arc<Worker>,
    /// Inputs for judging.
    pub context: &'r Context,
    /// Model that the request names.
    pub model: &'r str,
    /// Body in the caller's API.
    pub body: &'r Rope,
    /// A cassette answers in place of upstreams.
    pub is_played: bool,
    /// Findings and limits over all attempts.
    pub attempts: &'r Attempts,
    /// Start of the exchange.
    pub began_at: Instant,
}

impl PendingRequest<'_> {
    /// Time left for repairs and probes.
    fn time_left(&self) -> Duration {
        self.attempts.repair_time(self.context, self.began_at.elapsed())
    }

    /// True if the body contains the parameter at this path, written as in `drop`.
    fn has_parameter(&self, path: &str) -> bool {
        let Ok(document) = Document::parse(self.body.joined()) else { return false };
        let first = path.split('.').next().unwrap_or_default();
        document.root().get(first).is_some() && (first == path || self.has_member(path.rsplit('.').next().unwrap_or_default()))
    }

    fn has_member(&self, name: &str) -> bool {
        memchr::memmem::find(&self.body.joined(), format!("\"{name}\"").as_bytes()).is_some()
    }

    /// True if tools may be called in this exchange. Always false in observe mode.
    fn wants_tools(&self) -> bool {
        self.context.tools().any && self.context.turn.tool_choice != ToolChoice::None && !self.context.observes()
    }
}

/// Reason for which an upstream isn't asked.
enum Unsuitable {
    /// It is down, or the probe found it down.
    Down(Failure),
    /// The model doesn't call functions there, or that couldn't be found out: the reason, and the milliseconds until it is asked again.
    NoTools(String, u64),
    /// The request can't be adapted to it.
    Misfit(String),
    /// It is asked only if no other upstream is left.
    LastResort,
}

/// Upstreams that may answer one exchange, with the headers and query for the current one.
pub struct UpstreamSelection {
    /// Upstreams that may answer, in order of preference; never empty.
    candidates: Vec<Candidate>,
    /// Index of the current candidate.
    at: usize,
    /// API of the request.
    api: Api,
    /// Query for the upstream that the request was routed to.
    query: Option<String>,
    /// Query for the others.
    plain_query: Option<String>,
    /// Original request headers; kept only if a fallback may need its own set of them.
    came: Option<HeaderMap>,
    /// Headers for the current upstream.
    headers: HeaderMap,
    /// Requests to the current upstream since its last answer.
    tries: u32,
    /// Requests up to that answer.
    answered_tries: u32,
    /// The current upstream was checked and may be asked.
    is_chosen: bool,
    /// Name of the upstream that answered last.
    answered: Option<Box<str>>,
}

/// API in which an upstream is asked for a request of this API.
pub(super) fn api_of(api: Api, settings: &UpstreamSettings) -> Api {
    let support = match api {
        Api::Chat => settings.chat,
        Api::Responses => settings.responses,
        Api::Messages => settings.messages,
    };
    match (api, support) {
        (api, ApiSupport::Native) => api,
        (Api::Chat, ApiSupport::Translate) => Api::Messages,
        (Api::Messages, ApiSupport::Translate) => Api::Chat,
        (Api::Responses, ApiSupport::Translate) if settings.chat == ApiSupport::Translate => Api::Messages,
        (Api::Responses, ApiSupport::Translate) => Api::Chat,
    }
}

/// Headers that say something of the body's bytes.
const OF_BODIES: [&str; 6] = ["content-md5", "digest", "content-digest", "repr-digest", "signature", "signature-input"];

/// Headers of a request of one API for an upstream that is asked in another: the key in the header where that expects it, and none of what
/// belongs to the first API.
pub(super) fn headers_of(from: Api, upstream: &UpstreamSettings, mut headers: HeaderMap) -> HeaderMap {
    // The body was read as JSON in UTF-8, and may have been changed: nothing else may be said of it.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    OF_BODIES.iter().for_each(|name| drop(headers.remove(*name)));
    match (from, api_of(from, upstream)) {
        (Api::Messages, Api::Chat) => {
            let key = headers.remove(headers::API_KEY);
            if let Some(bearer) = key.filter(|_| !headers.contains_key(header::AUTHORIZATION)).and_then(bearer) {
                headers.insert(header::AUTHORIZATION, bearer);
            }
            let own: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("anthropic-")).cloned().collect();
            own.iter().for_each(|name| drop(headers.remove(name)));
        }
        (Api::Chat | Api::Responses, Api::Messages) => {
            headers.insert(headers::ANTHROPIC_VERSION, HeaderValue::from_static(translate::MESSAGES_VERSION));
            let token = headers.get(header::AUTHORIZATION).filter(|_| upstream.key_header == KeyHeader::XApiKey).and_then(token);
            if let Some(key) = token {
                headers.remove(header::AUTHORIZATION);
                headers.insert(headers::API_KEY, key);
            }
            let own: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("openai-")).cloned().collect();
            own.iter().for_each(|name| drop(headers.remove(name)));
        }
        _ => {}
    }
    headers
}

/// A key as a bearer token.
fn bearer(key: HeaderValue) -> Option<HeaderValue> {
    let mut bearer = HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()).ok()?;
    bearer.set_sensitive(true);
    Some(bearer)
}

/// The key of a bearer token. The scheme's case doesn't matter (RFC 9110, section 11.1).
fn token(authorization: &HeaderValue) -> Option<HeaderValue> {
    let (scheme, key) = authorization.as_bytes().split_at_checked(7)?;
    let mut key = HeaderValue::from_bytes(key).ok().filter(|_| scheme.eq_ignore_ascii_case(b"bearer "))?;
    key.set_sensitive(true);
    Some(key)
}

impl UpstreamSelection {
    /// Selection for a request of this API.
    ///
    /// # Errors
    /// 404 `model_not_found`.
    pub fn new(worker: &Worker, api: Api, model: &str, query: Option<String>, came: HeaderMap) -> Result<Self, Failure> {
        let candidates = worker.candidates(model)?;
        let first = candidates.first().map_or(0, |candidate| candidate.upstream);
        let credential = worker.app.caller_credential();
        let endpoint = worker.endpoints.get(first);
        let asked = |endpoint: &Endpoint| api_of(api, &endpoint.settings);
        let headers = endpoint.map(|endpoint| headers_of(api, &endpoint.settings, endpoint.headers(&came, credential))).unwrap_or_default();
        let plain_query = query.as_deref().and_then(credentials::plain_query);
        let query = match endpoint.filter(|endpoint| asked(endpoint) == api) {
            Some(endpoint) => endpoint.query(query, credential),
            // It belongs to the other API.
            None => plain_query.clone(),
        };
        let came = (candidates.len() > 1).then_some(came);
        Ok(Self {
            candidates,
            at: 0,
            api,
            query,
            plain_query,
            came,
            headers,
            tries: 0,
            answered_tries: 0,
            is_chosen: false,
            answered: None,
        })
    }

    /// Index of the current upstream in `[[upstreams]]`.
    pub fn upstream(&self) -> usize {
        self.candidates.get(self.at).map_or(0, |candidate| candidate.upstream)
    }

    /// Model to request from the current upstream instead of the request's.
    pub fn model(&self) -> Option<&str> {
        self.candidates.get(self.at)?.model.as_deref()
    }

    /// True if the current upstream is a fallback, not the one that the request was routed to.
    pub fn is_foreign(&self) -> bool {
        self.at > 0
    }

    /// API of the request.
    pub fn api(&self) -> Api {
        self.api
    }

    /// Number of upstreams that may answer, at least one.
    pub fn count(&self) -> usize {
        self.candidates.len()
    }

    /// Switches to another candidate.
    pub fn go_to(&mut self, at: usize, worker: &Worker) {
        if at != self.at
            && let (Some(came), Some(candidate)) = (&self.came, self.candidates.get(at))
            && let Some(endpoint) = worker.endpoints.get(candidate.upstream)
        {
            self.headers = headers_of(self.api, &endpoint.settings, endpoint.headers_elsewhere(came));
        }
        (self.at, self.tries, self.is_chosen) = (at, 0, false);
    }

    /// Switches to this index in `[[upstreams]]`, which has the object that is requested.
    pub fn go_to_holder(&mut self, upstream: usize, worker: &Worker) {
        if let Some(at) = self.candidates.iter().position(|candidate| candidate.upstream == upstream) {
            self.go_to(at, worker);
        }
        self.is_chosen = true;
        self.answered = worker.endpoints.get(upstream).map(|endpoint| endpoint.settings.name.clone());
    }

    /// Headers for the current upstream, by reference.
    pub fn request_headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Headers for the current upstream.
    pub fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// Query for the current upstream.
    pub fn query(&self) -> Option<&str> {
        if self.is_foreign() { self.plain_query.as_deref() } else { self.query.as_deref() }
    }

    /// Translation between the request's API and that in which the current upstream is asked; `None` if they are the same.
    pub fn translation(&self, settings: &UpstreamSettings) -> Option<Translation> {
        Translation::between(self.api, api_of(self.api, settings))
    }

    /// API in which the current upstream is asked.
    pub fn api_of(&self, settings: &UpstreamSettings) -> Api {
        api_of(self.api, settings)
    }

    /// The current upstream, as this worker reaches it.
    pub fn endpoint<'w>(&self, worker: &'w Worker) -> &'w Endpoint {
        // INVARIANT: the index came from this very list.
        &worker.endpoints[self.upstream()]
    }

    /// Name of the upstream that answered last.
    pub fn answered(&self) -> Option<&str> {
        self.answered.as_deref()
    }

    /// True if the current upstream was checked and may be asked.
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Permit for another request to the current upstream.
    pub fn permit(&self, app: &Arc<App>) -> BreakerPermit {
        BreakerPermit::new(app.clone(), self.upstream(), RequestRole::Regular)
    }

    /// Selects the first upstream from this index on that may be asked.
    ///
    /// # Errors
    /// [`Failure`] if none may be asked.
    pub async fn choose(&mut self, from: usize, request: PendingRequest<'_>) -> Result<BreakerPermit, Failure> {
        let worker = request.worker;
        let before = self.at;
        let (mut last, mut down, mut reasons, mut again_ms) = (None, None, Vec::new(), None::<u64>);
        for at in from..self.count() {
            self.go_to(at, worker);
            let name = &self.endpoint(worker).settings.name;
            match self.admit(request).await {
                Ok(permit) => {
                    self.is_chosen = true;
                    return Ok(permit);
                }
                Err(Unsuitable::LastResort) => last = last.or(Some(at)),
                Err(Unsuitable::Down(failure)) => down = down.or(Some(failure)),
                Err(Unsuitable::NoTools(why, ms)) => {
                    reasons.push(format!("`{name}`: {why}"));
                    again_ms = again_ms.into_iter().chain([ms]).min();
                }
                Err(Unsuitable::Misfit(why)) => reasons.push(format!("`{name}`: {why}")),
            }
        }
        if let Some(at) = last {
            self.go_to(at, worker);
            self.is_chosen = true;
            return Ok(self.permit(&worker.app));
        }
        self.go_to(before.min(self.count().saturating_sub(1)), worker);
        Err(match down {
            Some(mut failure) => {
                if !reasons.is_empty() {
                    failure.message.push_str(&format!("; others can't answer: {}", reasons.join(", ")));
                }
                failure
            }
            None => {
                let failure = Failure::no_upstream_for_tools(request.model, &reasons.join(", "));
                again_ms.map_or(failure.clone(), |ms| failure.retry_after_ms(ms))
            }
        })
    }

    /// Checks whether the current upstream may be asked.
    async fn admit(&self, request: PendingRequest<'_>) -> Result<BreakerPermit, Unsuitable> {
        let (app, upstream) = (&request.worker.app, self.upstream());
        if request.is_played {
            return Ok(self.permit(app));
        }
        let standing = app.standings.get(upstream).ok_or(Unsuitable::LastResort)?;
        if self.is_foreign() {
            self.fitted(request.body, request).map_err(|why| Unsuitable::Misfit(format!("it can't take this conversation over: {why}")))?;
        }
        let alone = self.count() == 1;
        if !alone && standing.gauge.is_paused(app.uptime_ms()) {
            return Err(Unsuitable::LastResort);
        }
        if request.wants_tools() {
            self.check_calls(request).await?;
        }
        match standing.gauge.admit(app.uptime_ms()) {
            Admission::Pass => Ok(self.permit(app)),
            Admission::Trial => Ok(BreakerPermit::new(app.clone(), upstream, RequestRole::Trial)),
            Admission::Refuse(wait_ms) => {
                let name = &*self.endpoint(request.worker).settings.name;
                Err(match standing.gauge.trouble() {
                    // It is there: its errors say more than ours would, and one slow model is no reason to refuse all.
                    FailureKind::Errors | FailureKind::Silent => Unsuitable::LastResort,
                    FailureKind::Unreachable => Unsuitable::Down(Failure::unreachable(name).retry_after_ms(wait_ms)),
                })
            }
        }
    }

    /// Checks that the model calls functions there; probes it if that isn't known.
    async fn check_calls(&self, request: PendingRequest<'_>) -> Result<(), Unsuitable> {
        let (worker, endpoint) = (request.worker, self.endpoint(request.worker));
        let model = self.model().unwrap_or(request.model);
        let Some(standing) = worker.app.standings.get(self.upstream()) else { return Ok(()) };
        let now_ms = worker.app.now_ms();
        let no_tools = |entry: &ModelEntry| {
            let known = entry.known();
            Unsuitable::NoTools(format!("the model `{model}` {}", prober::why_not(&known)), known.asked_again_in_ms(now_ms))
        };
        let textual = request.context.rules.policy.calls.promote_textual;
        let Some(entry) = (match endpoint.settings.probe.asks() {
            true => Some(standing.models.model(model)),
            // Nothing is made of names that nobody will ask about.
            false => standing.models.find(model),
        }) else {
            return Ok(());
        };
        let checked = |calls: ToolCalling| match fitness(calls, endpoint.settings.probe, textual) {
            Fitness::Fit => Some(Ok(())),
            Fitness::Last => Some(Err(Unsuitable::LastResort)),
            Fitness::Unfit => Some(Err(no_tools(&entry))),
            Fitness::Ask => None,
        };
        if let Some(checked) = checked(entry.known().calls_at(now_ms)) {
            return checked;
        }
        // Rare, and large: it would make every exchange as large.
        let asking = prober::ask(&worker.app, endpoint, self.upstream(), model, &entry, self.headers(), request.time_left());
        match Box::pin(asking).await {
            ProbeOutcome::Known(calls) => checked(calls).unwrap_or_else(|| Err(no_tools(&entry))),
            // The same would be said to the request itself, in the upstream's own words.
            ProbeOutcome::Refused => Ok(()),
            ProbeOutcome::Failed(Some(failure)) => Err(Unsuitable::Down(failure)),
            ProbeOutcome::Failed(None) => {
                let known = entry.known();
                let why = format!("whether the model `{model}` calls functions couldn't be found out: {}", known.reason);
                Err(Unsuitable::NoTools(why, known.asked_again_in_ms(worker.app.now_ms())))
            }
        }
    }

    /// Body for the current upstream: the request, translated if the upstream needs that, and adapted to it.
    ///
    /// # Errors
    /// 400 if it can't be translated or adapted.
    pub fn outgoing(&self, request: PendingRequest<'_>) -> Result<Rope, Failure> {
        let settings = &self.endpoint(request.worker).settings;
        let refused = |param: &str, message: String| Failure {
            param: Some(param.to_owned()),
            ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message)
        };
        let misfit = |why: Incompatible| refused("messages", format!("this can't go to the upstream `{}`: {why}", settings.name));
        let Some(translation) = self.translation(settings) else { return self.fitted(request.body, request).map_err(misfit) };
        let document = Document::parse(request.body.joined()).map_err(|error| Failure::protocol(&settings.name, error))?;
        let translated = translate::request::request(&document, translation).map_err(|why| {
            let api = match translation.downstream {
                Api::Chat => "chat completions",
                Api::Responses => "Responses API",
                Api::Messages => "Messages API",
            };
            let message = format!("the upstream `{}` has no {api}, and this can't be translated: {}", settings.name, why.message);
            Failure { code: why.code, ..refused(&why.param, message) }
        })?;
        // OpenAI's newer models refuse the older name of the limit, and its older ones take the newer name.
        let body = if settings.preset == Preset::OpenAi { translate::request::with_newer_limit(translated) } else { translated };
        self.fitted(&body.into(), request).map_err(misfit)
    }

    /// A body without the parameters that the current upstream rejects, and with those that it needs.
    fn fitted(&self, body: &Rope, request: PendingRequest<'_>) -> Result<Rope, Incompatible> {
        let (app, settings, foreign) = (&request.worker.app, &self.endpoint(request.worker).settings, self.is_foreign());
        if request.context.observes() && !foreign {
            return Ok(body.clone());
        }
        let standing = app.standings.get(self.upstream());
        let known =
            standing.and_then(|standing| standing.models.find(self.model().unwrap_or(request.model))).map(|model| model.known().clone());
        let (memory, scope) = (&app.memory, &request.context.scope);
        let recall = |mark: &str| memory.beside(scope, mark);
        let refused = known.as_ref().map_or(&[][..], |known| &known.refused);
        let fitting = standing.map_or(&settings.fitting, |standing| standing.fitting(settings));
        let attempt = AdaptContext { model: self.model(), foreign, refused, recall: &recall };
        if fitting.leaves(&attempt) {
            return Ok(body.clone());
        }
        fit(&body.joined(), fitting, &attempt).map(Rope::from)
    }

    /// Counts a request to the current upstream.
    pub fn note_request(&mut self) {
        self.tries += 1;
    }

    /// The last answer turned out to be an error: its requests count as failed.
    pub fn note_error_in_answer(&mut self) {
        self.tries += std::mem::take(&mut self.answered_tries);
    }

    /// Records the outcome of a request with this permit, which was sent at this instant, for health and breaker.
    pub fn report(&mut self, request: PendingRequest<'_>, permit: &mut BreakerPermit, sent_at: Instant, failed: Option<AttemptFailure>) {
        let (app, endpoint) = (&request.worker.app, self.endpoint(request.worker));
        if failed.is_none() {
            self.answered_tries = std::mem::take(&mut self.tries);
            self.answered = Some(endpoint.settings.name.clone());
        }
        let Some(standing) = app.standings.get(self.upstream()).filter(|_| !request.is_played) else { return };
        if let Some(AttemptFailure::Status(429, wait)) = failed
            && endpoint.own_key().is_some()
        {
            // Its own limits are everybody's; a caller's are the caller's.
            let wait = wait.unwrap_or_default().min(heard::PAUSE_MAX);
            standing.gauge.pause(app.uptime_ms().saturating_add(wait.as_millis() as u64));
            if !wait.is_zero() {
                shared::tell_paused(app, self.upstream(), wait);
            }
        }
        let fault = failed.filter(|failed| failed.is_upstreams_fault());
        if let Some(failed) = fault {
            standing.gauge.fail(match failed {
                AttemptFailure::Unreachable => FailureKind::Unreachable,
                AttemptFailure::Timeout => FailureKind::Silent,
                AttemptFailure::BrokenOff
                | AttemptFailure::Nonsense
                | AttemptFailure::Status(..)
                | AttemptFailure::Refused
                | AttemptFailure::NoTools => FailureKind::Errors,
            });
        }
        permit.report(app.uptime_ms_at(sent_at), if fault.is_some() { RequestOutcome::Failed } else { RequestOutcome::Answered });
    }

    /// Learns from an error response, such as a parameter that the upstream rejects. Returns the kind of failure if a retry or a
    /// fallback may help.
    pub fn learn_from_error(
        &mut self,
        request: PendingRequest<'_>,
        status: StatusCode,
        body: &Bytes,
        failed: AttemptFailure,
    ) -> Option<AttemptFailure> {
        let app = &request.worker.app;
        let name = self.endpoint(request.worker).settings.name.clone();
        let model = self.model().unwrap_or(request.model).to_owned();
        let error = Reported::read(body).unwrap_or_default();
        if let Some(found) = lesson(status.as_u16(), &error) {
            let Some(standing) = app.standings.get(self.upstream()) else { return Some(failed).filter(|failed| failed.passes()) };
            let entry = standing.models.model(&model);
            match found {
                LearnedQuirk::Refuses(path) if request.has_parameter(path) && entry.refuse(path, app.now_ms()) => {
                    tracing::info!(
                        upstream = &*name,
                        model,
                        parameter = path,
                        "upstream `{name}` refuses `{path}`: it is left out from now on"
                    );
                    shared::tell_refused(app, self.upstream(), &model, path);
                    return Some(AttemptFailure::Refused);
                }
                LearnedQuirk::NoTools if request.wants_tools() => {
                    prober::note(app, self.upstream(), &model, &entry, ToolCalling::No, "tools are refused");
                    return Some(AttemptFailure::NoTools);
                }
                LearnedQuirk::Refuses(_) | LearnedQuirk::NoTools => {}
            }
        }
        self.answered = Some(name);
        Some(failed).filter(|failed| failed.passes())
    }

    /// Records what judged answers show about the model: that it calls functions, or writes calls as text.
    pub fn learn(&self, request: PendingRequest<'_>, judged: &[JudgedChoice], now_ms: u64) {
        let app = &request.worker.app;
        let Some(standing) = app.standings.get(self.upstream()) else { return };
        let model = self.model().unwrap_or(request.model);
        let called = judged.iter().any(|choice| choice.turn.has_calls());
        let leaked = || judged.iter().flat_map(JudgedChoice::violations).any(|violation| violation.code == Code::TextualToolCall);
        if called {
            if standing.models.model(model).called(now_ms) {
                shared::tell_calls(app, self.upstream(), model, ToolCalling::Yes, "");
            }
        } else if request.context.tools().any && leaked() && standing.models.model(model).leaked(now_ms) {
            let entry = standing.models.model(model);
            prober::note(app, self.upstream(), model, &entry, ToolCalling::TextLeak, "it writes calls as text");
        }
    }

    /// Prepares the next request after a failure, if there is one: waits, or selects another upstream. `role`: that of the failed
    /// request.
    pub async fn recover(&mut self, request: PendingRequest<'_>, failed: AttemptFailure, role: RequestRole) -> Option<BreakerPermit> {
        let left = RetryLimits {
            tries: if role == RequestRole::Trial { TRIES } else { self.tries.max(1) },
            attempts: request.attempts.left(request.context),
            time: request.time_left(),
            repeatable: !self.is_stored_upstream(request),
            upstreams: self.count().saturating_sub(self.at + 1),
        };
        let app = &request.worker.app;
        let standing = app.standings.get(self.upstream())?;
        let name = self.endpoint(request.worker).settings.name.clone();
        let next = match retry::next(failed, left, chance()) {
            // It is left alone now, or has no retry left: who waits would wait for nothing.
            RetryDecision::Again(_) if standing.gauge.condition(app.uptime_ms()) == BreakerState::Open => RetryDecision::Elsewhere,
            RetryDecision::Again(pause) if failed == AttemptFailure::Refused || standing.gauge.spend() => RetryDecision::Again(pause),
            RetryDecision::Again(_) => RetryDecision::Elsewhere,
            next => next,
        };
        let exchange = request.context.id;
        match next {
            RetryDecision::Again(pause) => {
                // Nobody is spared by waiting where a recording answers.
                let pause = if request.is_played { Duration::ZERO } else { pause };
                let pause_ms = pause.as_millis() as u64;
                tracing::warn!(%exchange, upstream = &*name, failed = failed.as_str(), pause_ms, "upstream `{name}` failed: once more");
                tokio::time::sleep(pause).await;
                Some(self.permit(app))
            }
            RetryDecision::Elsewhere => {
                let permit = self.choose(self.at + 1, request).await.ok()?;
                let other = &*self.endpoint(request.worker).settings.name;
                let failed = failed.as_str();
                tracing::warn!(%exchange, upstream = &*name, fallback = other, failed, "upstream `{name}` failed: `{other}` is asked");
                Some(permit)
            }
            RetryDecision::Stop => None,
        }
    }

    /// True if a retry could do something twice, because the upstream stores the conversation or runs the request in the background.
    fn is_stored_upstream(&self, request: PendingRequest<'_>) -> bool {
        self.api == Api::Responses && (request.has_member("conversation") || request.has_member("background"))
    }
}

/// Random number from 0 to 1, for jitter.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness: the longest pause.
    getrandom::fill(&mut bytes).map_or(1.0, |()| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}

/// Breaker permit of a request to an upstream. If it is dropped without an outcome, the request counts as abandoned.
pub struct BreakerPermit {
    app: Arc<App>,
    upstream: usize,
    role: RequestRole,
    reported: bool,
}

impl BreakerPermit {
    /// Permit for a request that was admitted.
    fn new(app: Arc<App>, upstream: usize, role: RequestRole) -> Self {
        Self { app, upstream, role, reported: false }
    }

    /// Role of the request for the breaker.
    pub fn role(&self) -> RequestRole {
        self.role
    }

    /// Reports the request's outcome to the breaker, at this uptime, and logs a change of its state.
    pub fn report(&mut self, uptime_ms: u64, outcome: RequestOutcome) {
        self.reported = true;
        let Some(standing) = self.app.standings.get(self.upstream) else { return };
        let Some(condition) = standing.gauge.report(self.role, outcome, uptime_ms) else { return };
        shared::tell_opened(&self.app, self.upstream, condition);
        let name = self.app.settings.upstreams.get(self.upstream).map_or("?", |upstream| &*upstream.name);
        let breaker = condition.as_str();
        match outcome {
            RequestOutcome::Failed => tracing::warn!(upstream = name, breaker, "upstream `{name}` fails: it is left alone for a while"),
            RequestOutcome::Answered | RequestOutcome::Abandoned => {
                tracing::info!(upstream = name, breaker, "upstream `{name}` answers again")
            }
        }
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if !self.reported {
            self.report(self.app.uptime_ms(), RequestOutcome::Abandoned);
        }
    }
}
