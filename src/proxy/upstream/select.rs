//! Selection of the upstream for one exchange: those that may answer it, the current one, and what is known of it.
//!
//! Nothing is sent here; `proxy/exchange/attempt.rs` sends. A caller's own credential goes to the upstream that its request was
//! routed to, and to no other.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    openai::Api,
    proxy::{
        app::App,
        http::{credentials, failure::Failure},
        upstream::candidates::Candidate,
        worker::Worker,
    },
    settings::{Responses, Upstream},
    upstreams::breaker::RequestOutcome,
};

/// Upstreams that may answer one exchange, with the headers and query for the current one.
pub struct Way {
    /// Upstreams that may answer, in order of preference; never empty.
    candidates: Vec<Candidate>,
    /// Index of the current candidate.
    pub(in crate::proxy) at: usize,
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
    pub(in crate::proxy) tries: u32,
    /// The current upstream was checked and may be asked.
    pub(in crate::proxy) chosen: bool,
    /// Name of the upstream that answered last.
    pub(in crate::proxy) answered: Option<Box<str>>,
}

impl Way {
    /// Selection for a request of this API.
    ///
    /// # Errors
    /// 404 `model_not_found`.
    pub fn new(worker: &Worker, api: Api, model: &str, query: Option<String>, came: HeaderMap) -> Result<Self, Failure> {
        let candidates = worker.candidates(model)?;
        let first = candidates.first().map_or(0, |candidate| candidate.upstream);
        let caller_key = worker.app.settings.clients.is_empty();
        let endpoint = worker.endpoints.get(first);
        let headers = endpoint.map(|endpoint| endpoint.headers(&came, caller_key)).unwrap_or_default();
        let plain_query = query.as_deref().and_then(credentials::plain_query);
        let query = endpoint.and_then(|endpoint| endpoint.query(query, caller_key));
        let came = (candidates.len() > 1).then_some(came);
        Ok(Self { candidates, at: 0, api, query, plain_query, came, headers, tries: 0, chosen: false, answered: None })
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
            self.headers = endpoint.headers_elsewhere(came);
        }
        (self.at, self.tries, self.chosen) = (at, 0, false);
    }

    /// Switches to this index in `[[upstreams]]`, which has the object that is requested.
    pub fn go_to_holder(&mut self, upstream: usize, worker: &Worker) {
        if let Some(at) = self.candidates.iter().position(|candidate| candidate.upstream == upstream) {
            self.go_to(at, worker);
        }
        self.chosen = true;
        self.answered = worker.endpoints.get(upstream).map(|endpoint| endpoint.settings.name.clone());
    }

    /// Headers for the current upstream.
    pub fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// Query for the current upstream.
    pub fn query(&self) -> Option<&str> {
        if self.is_foreign() { self.plain_query.as_deref() } else { self.query.as_deref() }
    }

    /// True if the current upstream gets chat completions, and its answers are translated to the Responses API.
    pub fn translates(&self, settings: &Upstream) -> bool {
        self.api == Api::Responses && settings.responses == Responses::Translate
    }

    /// API in which the current upstream is asked.
    pub fn api_of(&self, settings: &Upstream) -> Api {
        if self.translates(settings) { Api::Chat } else { self.api }
    }
}

/// Breaker permit of a request to an upstream. If it is dropped without an outcome, the request counts as abandoned.
pub struct Passage {
    app: Arc<App>,
    upstream: usize,
    /// The request is a half-open probe of the breaker.
    pub trial: bool,
    reported: bool,
}

impl Passage {
    /// Permit for a request that was admitted.
    pub fn new(app: Arc<App>, upstream: usize, trial: bool) -> Self {
        Self { app, upstream, trial, reported: false }
    }

    /// Reports the request's outcome to the breaker, at this uptime, and logs a change of its state.
    pub fn report(&mut self, uptime_ms: u64, outcome: RequestOutcome) {
        self.reported = true;
        let Some(standing) = self.app.standings.get(self.upstream) else { return };
        let Some(condition) = standing.gauge.report(self.trial, outcome, uptime_ms) else { return };
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

impl Drop for Passage {
    fn drop(&mut self) {
        if !self.reported {
            self.report(self.app.uptime_ms(), RequestOutcome::Abandoned);
        }
    }
}
