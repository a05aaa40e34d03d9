//! Upstream requests of one exchange: which upstream, how often, and the handling of failures.
//!
//! ```text
//!  choose ─▶ send ─▶ answer, or an error that another try won't mend ─▶ the exchange goes on
//!    ▲         │
//!    │         └▶ failed, and nothing has gone downstream ─▶ again after a pause │ elsewhere │ no more
//!    └───────────────────────────────────────────────────────────────┘
//! ```
//! Decisions are made in [`crate::upstreams`]; this file waits and sends. Everything is bounded by the exchange's
//! `max_attempts` and `repair_deadline`.

use std::time::Instant;

use bytes::Bytes;
use http::{StatusCode, header};

use crate::{
    exchange::context::JudgedChoice,
    judge::call::turn::ToolChoice,
    openai::{Api, error::Reported},
    proxy::{
        exchange::driver::{Reply, Run},
        http::failure::Failure,
        upstream::{
            candidates::{Fitness, fitness},
            prober::{self, Asked},
            select::Passage,
        },
    },
    upstreams::{
        breaker::{Admission, BreakerState, RequestOutcome},
        capabilities::ModelEntry,
        capability_probe::ToolCalling,
        health::FailureKind,
        quirks::{
            AdaptContext, Incompatible, fit,
            learn::{LearnedQuirk, lesson},
        },
        retry::{self, AttemptFailure, RetryDecision, RetryLimits, TRIES},
    },
    violation::Code,
    wire::json::Document,
};

/// State of the response to the client. Once a byte was sent, no request is repeated or sent to another upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Downstream {
    /// Nothing was sent.
    Nothing,
    /// Part of the response was sent.
    Begun,
}

/// Reason for which an upstream isn't asked.
enum Not {
    /// It is down, or the probe found it down.
    Down(Failure),
    /// The model doesn't call functions there, or that couldn't be found out.
    NoTools(String),
    /// The request can't be adapted to it.
    Misfit(String),
    /// It is asked only if no other upstream is left.
    Last,
}

impl Run {
    /// Sends the request as it stands, with retries and fallbacks, until there is a reply that the exchange can go on with.
    ///
    /// # Errors
    /// [`Failure`] if no reply came that could be passed on.
    pub async fn attempt(&mut self, downstream: Downstream) -> Result<Reply, Failure> {
        let mut trial = match self.way.chosen {
            true => false,
            false => self.choose(0).await?,
        };
        loop {
            let (outcome, failed) = self.once(trial).await;
            let Some(failed) = failed else { return outcome };
            if downstream == Downstream::Begun {
                return outcome;
            }
            match self.recover(failed, trial).await {
                Some(next) => trial = next,
                None => return outcome,
            }
        }
    }

    /// Retries after an answer with status 200 that contains an error of this status. True if [`Self::attempt`] is to be called again.
    pub async fn asks_again(&mut self, status: u16) -> bool {
        let failed = AttemptFailure::Status(status, None);
        self.fetched.is_none() && failed.passes() && self.recover(failed, false).await.is_some()
    }

    /// Sends one request. Returns its outcome and, if a retry may help, the kind of failure.
    async fn once(&mut self, trial: bool) -> (Result<Reply, Failure>, Option<AttemptFailure>) {
        self.step_aside(0).await;
        let body = match self.outgoing() {
            Ok(body) => body,
            Err(failure) => return (Err(failure), None),
        };
        self.attempts.start();
        self.way.tries += 1;
        let settings = &self.endpoint().settings;
        let (name, api) = (settings.name.clone(), self.way.api_of(settings));
        self.notes.attempt(&name, self.way.model().unwrap_or(&self.model), self.attempts.findings().violations.len());
        self.seen = Instant::now();
        let begun = self.waits(self.seen);
        let wrong = || Failure::new(StatusCode::BAD_REQUEST, "invalid_path", "the query can't be passed on");
        let Some(target) = self.endpoint().enforced(api, self.way.query()) else { return (Err(wrong()), None) };
        let mut passage = Passage::new(self.worker.app.clone(), self.way.upstream(), trial);
        let headers = self.traced_headers();
        let sent = self.send(target, headers, body).await;
        let (outcome, failed) = match sent {
            Err((failure, failed)) => (Err(failure), failed),
            Ok(response) => {
                let asked = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
                let wait = retry::retry_after(asked("retry-after-ms"), asked(header::RETRY_AFTER.as_str()));
                let status = response.status().as_u16();
                let outcome = self.receive(response).await;
                let failed = match outcome {
                    Ok(Reply::Error(..)) => Some(AttemptFailure::Status(status, wait)),
                    // A redirect and the like: it would be none the next time, but another upstream may answer.
                    Err(_) if !matches!(status, 200..=299 | 400..=599) => Some(AttemptFailure::Nonsense),
                    Ok(Reply::Answer(_) | Reply::FailedCall(_)) | Err(_) => None,
                };
                (outcome, failed)
            }
        };
        self.waited(begun);
        self.report(&mut passage, failed);
        if failed.is_none() {
            self.way.tries = 0;
            self.way.answered = Some(name);
        }
        self.after(outcome, failed)
    }

    fn report(&self, passage: &mut Passage, failed: Option<AttemptFailure>) {
        let Some(standing) = self.worker.app.standings.get(self.way.upstream()).filter(|_| !self.stage.plays()) else { return };
        if let Some(AttemptFailure::Status(429, wait)) = failed
            && self.endpoint().own_key().is_some()
        {
            // Its own limits are everybody's; a caller's are the caller's.
            let wait = wait.unwrap_or_default().min(retry::RETRY_AFTER_MAX.saturating_mul(6));
            standing.gauge.pause(self.worker.app.uptime_ms().saturating_add(wait.as_millis() as u64));
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
        passage.report(
            self.worker.app.uptime_ms_at(self.seen),
            if fault.is_some() { RequestOutcome::Failed } else { RequestOutcome::Answered },
        );
    }

    /// Learns from an error response, such as a parameter that the upstream rejects. That may make a retry or a fallback worthwhile.
    fn after(
        &mut self,
        outcome: Result<Reply, Failure>,
        failed: Option<AttemptFailure>,
    ) -> (Result<Reply, Failure>, Option<AttemptFailure>) {
        let (Ok(Reply::Error(status, _, body)), Some(_)) = (&outcome, failed) else { return (outcome, failed) };
        let error = Reported::read(body).unwrap_or_default();
        let (upstream, now_ms) = (self.way.upstream(), self.worker.app.now_ms());
        let passes = failed.filter(|failed| failed.passes());
        let Some(found) = lesson(status.as_u16(), &error) else { return self.answered(outcome, passes) };
        let (app, model) = (self.worker.app.clone(), self.way.model().unwrap_or(&self.model).to_owned());
        let Some(standing) = app.standings.get(upstream) else { return (outcome, passes) };
        let entry = standing.models.model(&model);
        match found {
            LearnedQuirk::Refuses(path) if self.says(path) && entry.refuse(path, now_ms) => {
                let name = &*self.endpoint().settings.name;
                tracing::info!(upstream = name, model, parameter = path, "upstream `{name}` refuses `{path}`: it is left out from now on");
                (outcome, Some(AttemptFailure::Refused))
            }
            LearnedQuirk::NoTools if self.wants_tools() => {
                prober::note(&app, upstream, &model, &entry, ToolCalling::No, "tools are refused");
                (outcome, Some(AttemptFailure::NoTools))
            }
            LearnedQuirk::Refuses(_) | LearnedQuirk::NoTools => self.answered(outcome, passes),
        }
    }

    /// Records that the upstream answered, with an error that is passed on.
    fn answered(
        &mut self,
        outcome: Result<Reply, Failure>,
        failed: Option<AttemptFailure>,
    ) -> (Result<Reply, Failure>, Option<AttemptFailure>) {
        self.way.answered = Some(self.endpoint().settings.name.clone());
        (outcome, failed)
    }

    /// True if the request contains the parameter at this path, written as in `drop`.
    fn says(&self, path: &str) -> bool {
        let Ok(document) = Document::parse(self.body.clone()) else { return false };
        let first = path.split('.').next().unwrap_or_default();
        document.root().get(first).is_some() && (first == path || self.body_has(path.rsplit('.').next().unwrap_or_default()))
    }

    fn body_has(&self, member: &str) -> bool {
        memchr::memmem::find(&self.body, format!("\"{member}\"").as_bytes()).is_some()
    }

    /// Plans the next request after a failure: `Some` if it is to be sent again, here or to another upstream; true for a
    /// half-open probe of the breaker.
    async fn recover(&mut self, failed: AttemptFailure, trial: bool) -> Option<bool> {
        let left = RetryLimits {
            tries: if trial { TRIES } else { self.way.tries.max(1) },
            attempts: self.attempts.left(&self.context),
            time: self.repair_time(),
            repeatable: !self.is_kept_upstream(),
        };
        let app = self.worker.app.clone();
        let standing = app.standings.get(self.way.upstream())?;
        let name = self.endpoint().settings.name.clone();
        let next = match retry::next(failed, left, self.way.at + 1 < self.way.count(), chance()) {
            // It is left alone now, or has no retry left: who waits would wait for nothing.
            RetryDecision::Again(_) if standing.gauge.condition(app.uptime_ms()) == BreakerState::Open => RetryDecision::Elsewhere,
            RetryDecision::Again(pause) if failed == AttemptFailure::Refused || standing.gauge.spend() => RetryDecision::Again(pause),
            RetryDecision::Again(_) => RetryDecision::Elsewhere,
            next => next,
        };
        match next {
            RetryDecision::Again(pause) => {
                // Nobody is spared by waiting where a recording answers.
                let pause = if self.stage.plays() { std::time::Duration::ZERO } else { pause };
                let pause_ms = pause.as_millis() as u64;
                tracing::warn!(exchange = %self.context.id, upstream = &*name, failed = failed.as_str(), pause_ms, "upstream `{name}` failed: once more");
                tokio::time::sleep(pause).await;
                Some(false)
            }
            RetryDecision::Elsewhere => {
                let trial = self.choose(self.way.at + 1).await.ok()?;
                let other = &*self.endpoint().settings.name;
                tracing::warn!(exchange = %self.context.id, upstream = &*name, fallback = other, failed = failed.as_str(), "upstream `{name}` failed: `{other}` is asked");
                Some(trial)
            }
            RetryDecision::Stop => None,
        }
    }

    /// True if a retry could do something twice, because the upstream stores the conversation or runs the request in the background.
    fn is_kept_upstream(&self) -> bool {
        self.way.api() == Api::Responses && (self.body_has("conversation") || self.body_has("background"))
    }

    /// Selects the first upstream from this index on that may be asked. True if the request is a half-open probe of its breaker.
    ///
    /// # Errors
    /// [`Failure`] if none may be asked.
    async fn choose(&mut self, from: usize) -> Result<bool, Failure> {
        let before = self.way.at;
        let (mut last, mut down, mut reasons) = (None, None, Vec::new());
        for at in from..self.way.count() {
            self.way.go_to(at, &self.worker.clone());
            let name = self.endpoint().settings.name.clone();
            match self.may().await {
                Ok(trial) => {
                    self.way.chosen = true;
                    return Ok(trial);
                }
                Err(Not::Last) => last = last.or(Some(at)),
                Err(Not::Down(failure)) => down = down.or(Some(failure)),
                Err(Not::NoTools(why) | Not::Misfit(why)) => reasons.push(format!("`{name}`: {why}")),
            }
        }
        if let Some(at) = last {
            self.way.go_to(at, &self.worker.clone());
            self.way.chosen = true;
            return Ok(false);
        }
        self.way.go_to(before.min(self.way.count().saturating_sub(1)), &self.worker.clone());
        Err(match down {
            Some(mut failure) => {
                if !reasons.is_empty() {
                    failure.message.push_str(&format!("; others can't answer: {}", reasons.join(", ")));
                }
                failure
            }
            None => Failure::no_upstream_for_tools(&self.model, &reasons.join(", ")),
        })
    }

    /// Checks whether the current upstream may be asked. True if the request is a half-open probe of its breaker.
    async fn may(&mut self) -> Result<bool, Not> {
        if self.stage.plays() {
            return Ok(false);
        }
        let (app, upstream) = (self.worker.app.clone(), self.way.upstream());
        let standing = app.standings.get(upstream).ok_or(Not::Last)?;
        if self.way.is_foreign() {
            self.fitted(&self.body).map_err(|why| Not::Misfit(format!("it can't take this conversation over: {why}")))?;
        }
        let alone = self.way.count() == 1;
        if !alone && standing.gauge.is_paused(app.uptime_ms()) {
            return Err(Not::Last);
        }
        if self.wants_tools() {
            self.calls_work(upstream).await?;
        }
        match standing.gauge.admit(app.uptime_ms()) {
            Admission::Pass => Ok(false),
            Admission::Trial => Ok(true),
            Admission::Refuse(wait_ms) => {
                let name = &*self.endpoint().settings.name;
                Err(match standing.gauge.trouble() {
                    // It is there: its errors say more than ours would, and one slow model is no reason to refuse all.
                    FailureKind::Errors | FailureKind::Silent => Not::Last,
                    FailureKind::Unreachable => Not::Down(Failure::unreachable(name).retry_after_ms(wait_ms)),
                })
            }
        }
    }

    /// True if tools may be called in this exchange. Always false in observe mode.
    fn wants_tools(&self) -> bool {
        self.context.tools.any && self.context.turn.tool_choice != ToolChoice::None && !self.context.observes()
    }

    /// Checks that the model calls functions there; probes it if that isn't known.
    async fn calls_work(&self, upstream: usize) -> Result<(), Not> {
        let settings = &self.endpoint().settings;
        let model = self.way.model().unwrap_or(&self.model);
        let Some(standing) = self.worker.app.standings.get(upstream) else { return Ok(()) };
        let no_tools = |entry: &ModelEntry| Not::NoTools(format!("the model `{model}` {}", prober::why_not(&entry.known())));
        let Some(entry) = (match settings.probe.asks() {
            true => Some(standing.models.model(model)),
            // Nothing is made of names that nobody will ask about.
            false => standing.models.find(model),
        }) else {
            return Ok(());
        };
        let calls = entry.known().calls_at(self.worker.app.now_ms());
        match fitness(calls, settings.probe.asks()) {
            Fitness::Fit => return Ok(()),
            Fitness::Last => return Err(Not::Last),
            Fitness::Unfit => return Err(no_tools(&entry)),
            Fitness::Ask => {}
        }
        let limit = self.repair_time();
        // Rare, and large: it would make every exchange as large.
        match Box::pin(prober::ask(&self.worker.app, self.endpoint(), upstream, model, &entry, self.way.headers(), limit)).await {
            Asked::Known(ToolCalling::Yes) => Ok(()),
            Asked::Known(_) => Err(no_tools(&entry)),
            // The same would be said to the request itself, in the upstream's own words.
            Asked::Refused => Ok(()),
            Asked::Failed(Some(failure)) => Err(Not::Down(failure)),
            Asked::Failed(None) => {
                Err(Not::NoTools(format!("whether the model `{model}` calls functions couldn't be found out: {}", entry.known().reason)))
            }
        }
    }

    /// Records what judged answers show about the model: that it calls functions, or writes calls as text.
    pub fn learn(&self, judged: &[JudgedChoice]) {
        let Some(standing) = self.worker.app.standings.get(self.way.upstream()) else { return };
        let model = self.way.model().unwrap_or(&self.model);
        let called = judged.iter().any(|choice| choice.turn.has_calls());
        let leaked = || judged.iter().flat_map(JudgedChoice::violations).any(|violation| violation.code == Code::TextualToolCall);
        let now_ms = self.started.ms_at(self.seen);
        if called {
            standing.models.model(model).called(now_ms);
        } else if self.context.tools.any && leaked() && standing.models.model(model).leaked(now_ms) {
            let entry = standing.models.model(model);
            prober::note(&self.worker.app, self.way.upstream(), model, &entry, ToolCalling::TextLeak, "it writes calls as text");
        }
    }

    /// The request as it goes to the current upstream: without the parameters that it rejects, and with those that it needs.
    pub(in crate::proxy) fn fitted(&self, body: &Bytes) -> Result<Bytes, Incompatible> {
        let (settings, foreign) = (&self.endpoint().settings, self.way.is_foreign());
        if self.context.observes() && !foreign {
            return Ok(body.clone());
        }
        let standing = self.worker.app.standings.get(self.way.upstream());
        let known =
            standing.and_then(|standing| standing.models.find(self.way.model().unwrap_or(&self.model))).map(|model| model.known().clone());
        let (memory, scope) = (&self.worker.app.memory, &self.context.scope);
        let recall = |mark: &str| memory.beside(scope, mark);
        let refused = known.as_ref().map_or(&[][..], |known| &known.refused);
        let fitting = standing.map_or(&settings.fitting, |standing| standing.fitting(settings));
        fit(body, fitting, &AdaptContext { model: self.way.model(), foreign, refused, recall: &recall })
    }
}

/// Random number from 0 to 1, for jitter.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness: the longest pause.
    getrandom::fill(&mut bytes).map_or(1.0, |()| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}
