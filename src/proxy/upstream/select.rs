//! The way of one exchange to its upstreams: which may answer it, which is asked now, what each was found to be.
//!
//! Nothing is sent here; [`crate::proxy::exchange::attempt`] sends. A caller's own credential goes to the upstream that its request was
//! routed to, and to no other.

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    chat::adapter::Chat,
    exchange::adapter::Adapter as _,
    proxy::{
        app::App,
        http::{credentials, error_response::Failure},
        server::Worker,
        upstream::candidates::Candidate,
    },
    settings::{Responses, Upstream},
    upstreams::breaker::Outcome,
};

/// See the module.
pub struct Way {
    /// Those that may answer, the first first; never empty.
    candidates: Vec<Candidate>,
    /// Which of them is asked.
    pub(in crate::proxy) at: usize,
    /// The API that the caller speaks.
    path: &'static str,
    /// For the one that the request was for.
    query: Option<String>,
    /// For others.
    plain_query: Option<String>,
    /// The caller's headers as they came, where another upstream might need its own of them.
    came: Option<HeaderMap>,
    /// The headers for the one that is asked.
    headers: HeaderMap,
    /// Requests to it since the last answer.
    pub(in crate::proxy) tries: u32,
    /// It was found fit.
    pub(in crate::proxy) chosen: bool,
    /// The name of who answered last.
    pub(in crate::proxy) answered: Option<Box<str>>,
}

impl Way {
    /// For a request to `path` of the caller's API.
    ///
    /// # Errors
    /// 404 `model_not_found`.
    pub fn new(worker: &Worker, path: &'static str, model: &str, query: Option<String>, came: HeaderMap) -> Result<Self, Failure> {
        let candidates = worker.candidates(model)?;
        let first = candidates.first().map_or(0, |candidate| candidate.upstream);
        let caller_key = worker.app.settings.clients.is_empty();
        let endpoint = worker.endpoints.get(first);
        let headers = endpoint.map(|endpoint| endpoint.headers(&came, caller_key)).unwrap_or_default();
        let plain_query = query.as_deref().and_then(credentials::plain_query);
        let query = endpoint.and_then(|endpoint| endpoint.query(query, caller_key));
        let came = (candidates.len() > 1).then_some(came);
        Ok(Self { candidates, at: 0, path, query, plain_query, came, headers, tries: 0, chosen: false, answered: None })
    }

    /// Which of `[[upstreams]]` is asked.
    pub fn upstream(&self) -> usize {
        self.candidates.get(self.at).map_or(0, |candidate| candidate.upstream)
    }

    /// The model that it is asked for instead of the request's.
    pub fn model(&self) -> Option<&str> {
        self.candidates.get(self.at)?.model.as_deref()
    }

    /// Is it another than the one that the request was for?
    pub fn is_foreign(&self) -> bool {
        self.at > 0
    }

    /// Does the caller speak chat completions?
    pub fn is_chat(&self) -> bool {
        self.path == Chat::PATH
    }

    /// How many may answer, at least one.
    pub fn count(&self) -> usize {
        self.candidates.len()
    }

    /// Asks another from here on.
    pub fn go_to(&mut self, at: usize, worker: &Worker) {
        if at != self.at
            && let (Some(came), Some(candidate)) = (&self.came, self.candidates.get(at))
            && let Some(endpoint) = worker.endpoints.get(candidate.upstream)
        {
            self.headers = endpoint.headers_elsewhere(came);
        }
        (self.at, self.tries, self.chosen) = (at, 0, false);
    }

    /// Asks this one of `[[upstreams]]`, which has what is asked for.
    pub fn go_to_holder(&mut self, upstream: usize, worker: &Worker) {
        if let Some(at) = self.candidates.iter().position(|candidate| candidate.upstream == upstream) {
            self.go_to(at, worker);
        }
        self.chosen = true;
        self.answered = worker.endpoints.get(upstream).map(|endpoint| endpoint.settings.name.clone());
    }

    /// The headers for the one that is asked.
    pub fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// The query for the one that is asked.
    pub fn query(&self) -> Option<&str> {
        if self.is_foreign() { self.plain_query.as_deref() } else { self.query.as_deref() }
    }

    /// Does the one that is asked get chat completions, and is read as if it had served the Responses API?
    pub fn translates(&self, settings: &Upstream) -> bool {
        self.path != Chat::PATH && settings.responses == Responses::Translate
    }

    /// The path that the one that is asked gets.
    pub fn path(&self, settings: &Upstream) -> &'static str {
        if self.translates(settings) { Chat::PATH } else { self.path }
    }
}

/// A request that was let through to an upstream, until it is known how it came out. Dropped before that, nobody
/// waited for it.
pub struct Passage {
    app: Arc<App>,
    upstream: usize,
    /// It was to find out whether the upstream is back.
    pub trial: bool,
    reported: bool,
}

impl Passage {
    /// Let through.
    pub fn new(app: Arc<App>, upstream: usize, trial: bool) -> Self {
        Self { app, upstream, trial, reported: false }
    }

    /// How it came out, and when.
    pub fn report(&mut self, uptime_ms: u64, outcome: Outcome) {
        self.reported = true;
        let Some(standing) = self.app.standings.get(self.upstream) else { return };
        let Some(condition) = standing.gauge.report(self.trial, outcome, uptime_ms) else { return };
        let name = self.app.settings.upstreams.get(self.upstream).map_or("?", |upstream| &*upstream.name);
        let breaker = condition.as_str();
        match outcome {
            Outcome::Failed => tracing::warn!(upstream = name, breaker, "upstream `{name}` fails: it is left alone for a while"),
            Outcome::Answered | Outcome::Abandoned => tracing::info!(upstream = name, breaker, "upstream `{name}` answers again"),
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        if !self.reported {
            self.report(self.app.uptime_ms(), Outcome::Abandoned);
        }
    }
}
