//! State of one exchange over all its attempts, and the log line at its end.
//!
//! Attempts are bounded in number and time here, and nowhere else.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::{
    exchange::{
        adapter::{Adapter, Made},
        attempts::{Attempts, FinishedAnswer, NextStep},
        context::{Context, JudgedChoice},
        conversation::{Fate, Left, Memo},
        decision::ChoiceOutcome,
        turn::{EchoedTurn, Said},
    },
    judge::call::ValidCall,
    ledger::{record::SESSION_CHARS_MAX, sealed_kv::cipher::KvKey},
    openai::{
        Api,
        error::{Reported, enveloped, masked},
    },
    proxy::{
        conversations::originals::{Got, Object, Turn},
        exchange::{cassette_session::Stage, record_builder::Notes, state_checks::Asked, tool_rounds::Rounds},
        helper_threads::{self, Movable},
        http::{failure::Failure, headers::SESSION},
        server::{abreast, admission::Held},
        upstream::{self, Endpoint, pool::Answer, select::Way, status},
        worker::Worker,
    },
    responses::{conversation_update, stored::Ids},
    sys::clock::Began,
    telemetry::traces::ExchangeTrace,
    translate::{self, answer::Origin, request::Untranslatable},
    upstreams::quirks::Incompatible,
    violation::Violation,
    wire::json::{Document, string::quote},
};

/// Maximum choices of one request that are judged without moving to another thread. Each choice adds steps of its own.
const CHOICES_AT_ONCE: u64 = 2;

/// Outcome of an attempt.
pub enum Reply {
    /// Head of an answer.
    Answer(Answer),
    /// Error of the upstream, to be passed on.
    Error(StatusCode, HeaderMap, Bytes),
    /// The upstream itself rejected the model's call (Groq's `tool_use_failed`).
    FailedCall(EchoedTurn),
}

/// Response that is fetched after it was made in the background.
pub struct Fetched {
    /// ID of the response, as the application has it.
    pub id: String,
    /// Permit to judge it.
    pub turn: Turn,
}

/// The caller, as far as the record names it.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// The name that `[[clients]]` give the caller.
    pub client: Option<Box<str>>,
    /// The caller's name for the conversation, from the header `toolmark-session`.
    pub session: Option<Box<str>>,
}

impl Who {
    /// Reads the session's name from the headers. A name that is empty or not UTF-8 counts as none.
    pub fn of(client: Option<&str>, headers: &HeaderMap) -> Self {
        let session = headers.get(SESSION).and_then(|value| std::str::from_utf8(value.as_bytes()).ok()).map(str::trim);
        let kept = |name: &str| name.chars().take(SESSION_CHARS_MAX).collect();
        Self { client: client.map(Into::into), session: session.filter(|name| !name.is_empty()).map(kept) }
    }
}

/// State of one exchange.
pub struct Run {
    /// Worker that serves the exchange.
    pub worker: Arc<Worker>,
    /// Inputs for judging.
    pub context: Arc<Context>,
    /// Findings and limits over all attempts.
    pub attempts: Attempts,
    /// Model that the request names.
    pub model: String,
    /// Request body that goes upstream next.
    pub body: Bytes,
    /// Facts collected for the record.
    pub notes: Notes,
    /// Rounds of calls that toolmark ran.
    pub rounds: Rounds,
    /// Results of state checks.
    pub(in crate::proxy) asked: Asked,
    pub(in crate::proxy) who: Who,
    pub(in crate::proxy) api: Api,
    /// Indices of the context's executions that are shown for the first time.
    pub(in crate::proxy) fresh: Vec<usize>,
    /// The record was made.
    pub(in crate::proxy) recorded: bool,
    /// Upstreams that may answer, and the one that is asked now.
    pub way: Way,
    pub(in crate::proxy) trace: Option<Box<ExchangeTrace>>,
    _held: Held,
    /// Conversation update to store if the exchange ends without an accepted turn.
    pub(in crate::proxy) unanswered: Option<Memo>,
    pub(in crate::proxy) started: Began,
    /// Last reading of the clock: at the start of an attempt, or at the end of a wait.
    pub(in crate::proxy) seen: Instant,
    /// Time at which the request had arrived completely, in Unix milliseconds.
    pub(in crate::proxy) came_ms: u64,
    pub(in crate::proxy) upstream_time: Duration,
    /// Start of the current wait for the upstream; `None` outside of a wait.
    pub(in crate::proxy) waiting: Option<Instant>,
    pub(in crate::proxy) stream: bool,
    pub(in crate::proxy) outcome: Option<u16>,
    /// Bytes of streamed answers so far.
    pub(in crate::proxy) received: usize,
    /// Recording, playback and injected faults.
    pub(in crate::proxy) stage: Stage,
    /// Response that was requested earlier and is fetched now; it is never repaired or requested again.
    pub(in crate::proxy) fetched: Option<Fetched>,
    /// Entries for the ledger of the objects that the caller owns now.
    pub(in crate::proxy) owned: Vec<(KvKey, Vec<u8>)>,
    /// The start of the stream's response was stored.
    begun: bool,
    /// Dispositions of items of rejected attempts, if the upstream stores them.
    pub(in crate::proxy) dropped: Vec<(String, Fate)>,
}

impl Run {
    /// Starts an exchange with a prepared request; boxed, as it is passed from stage to stage.
    #[expect(clippy::too_many_arguments, reason = "each is one fact of the exchange, said once")]
    pub fn new(
        worker: Arc<Worker>,
        way: Way,
        mut context: Arc<Context>,
        violations: Vec<Violation>,
        model: String,
        body: Bytes,
        stream: bool,
        started: Began,
        who: Who,
        held: Held,
    ) -> Box<Self> {
        let api = way.api();
        let came = Instant::now();
        let trace = worker.app.observed.traces.as_ref().map(|traces| Box::new(traces.begin(&way.headers())));
        if let Some(context) = Arc::get_mut(&mut context) {
            // Without a session nothing is in the same one.
            context.text.ask_ledger = who.session.is_some();
        }
        Box::new(Self {
            worker,
            context,
            attempts: Attempts::new(violations),
            model,
            body,
            notes: Notes::default(),
            rounds: Rounds::default(),
            asked: Asked::default(),
            who,
            _held: held,
            api,
            recorded: false,
            fresh: Vec::new(),
            way,
            trace,
            unanswered: None,
            received: 0,
            stage: Stage::default(),
            fetched: None,
            owned: Vec::new(),
            begun: false,
            dropped: Vec::new(),
            started,
            seen: came,
            came_ms: started.ms_at(came),
            upstream_time: Duration::ZERO,
            waiting: None,
            stream,
            outcome: None,
        })
    }

    /// Facts of the request that a translated answer repeats; `None` if answers aren't translated.
    pub fn origin(&self) -> Option<Origin> {
        let id = format!("{}{:02}", &self.context.id.simple().to_string()[..30], self.attempts.started() % 100);
        self.way.translates(&self.endpoint().settings).then(|| Origin::new(self.context.request(), id, self.now_ms() / 1000))
    }

    /// Body for the upstream: the current request, translated if the upstream needs that, and adapted to it.
    pub(in crate::proxy) fn outgoing(&self) -> Result<Bytes, Failure> {
        let misfit = |why: Incompatible| {
            let message = format!("this can't go to the upstream `{}`: {why}", self.endpoint().settings.name);
            Failure { param: Some("messages".to_owned()), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message) }
        };
        if !self.way.translates(&self.endpoint().settings) {
            return self.fitted(&self.body).map_err(misfit);
        }
        let refused = |why: Untranslatable| {
            let message = format!(
                "the upstream `{}` has no Responses API, and this can't be translated: {}",
                self.endpoint().settings.name,
                why.message
            );
            Failure { param: Some(why.param), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message) }
        };
        let document = Document::parse(self.body.clone()).map_err(|error| Failure::protocol(&self.endpoint().settings.name, error))?;
        self.fitted(&translate::request::request(&document).map_err(refused)?).map_err(misfit)
    }

    /// The current upstream.
    pub fn endpoint(&self) -> &Endpoint {
        // INVARIANT: the index came from this very list.
        &self.worker.endpoints[self.way.upstream()]
    }

    pub(in crate::proxy) async fn receive(&mut self, response: Answer) -> Result<Reply, Failure> {
        self.notes.status(response.status().as_u16());
        let endpoint = self.endpoint();
        endpoint.usable(status::Asked::Answer, self.way.api_of(&endpoint.settings).path(), &response)?;
        if let Some(standing) = self.worker.app.standings.get(self.way.upstream()) {
            standing.hear(&endpoint.settings, response.headers());
        }
        if upstream::is_encoded(response.headers()) {
            return Err(Failure::protocol(&endpoint.settings.name, "it is compressed, though that wasn't asked for"));
        }
        if upstream::is_answer(response.status()) {
            return Ok(Reply::Answer(response));
        }
        let (status, headers) = (response.status(), endpoint.downstream_headers(response.headers(), true));
        let body = endpoint.read(response, upstream::ERROR_BYTES_MAX).await?;
        let body = if endpoint.settings.fitting.wrap_errors && !self.context.observes() { enveloped(body) } else { body };
        let body = endpoint.own_key().map_or(body.clone(), |key| masked(body, key));
        let failed = Reported::read(&body).filter(|_| !self.context.observes()).and_then(|error| self.failed_call(&error));
        Ok(match failed {
            Some(turn) => Reply::FailedCall(turn),
            None => Reply::Error(status, headers, body),
        })
    }

    /// The turn with the rejected call, if the error reports that the upstream rejected one.
    pub fn failed_call(&self, error: &Reported) -> Option<EchoedTurn> {
        EchoedTurn::of_failed_call(error, &self.context.rules.checks)
    }

    /// Prepares loop control for judging an answer.
    pub fn judging(&self) {
        self.context.loops.judging(self.now_ms(), &self.attempts.loops());
    }

    /// Time since the exchange began.
    pub fn elapsed(&self) -> Duration {
        self.started.at.elapsed()
    }

    /// Decides on a judged answer. `turn`: the model's turn in one choice.
    pub fn decide(&mut self, judged: Vec<JudgedChoice>, turn: impl FnOnce(usize) -> Said) -> NextStep {
        self.worker.app.loops.note(&judged, self.who.session.as_deref(), self.now_ms());
        let elapsed = self.elapsed();
        let next = self.attempts.judged(&self.context, judged, turn, elapsed);
        self.note_rejected(&next);
        next
    }

    /// Decides on a call of the model that the upstream rejected.
    pub fn decide_rejected_call(&mut self, turn: EchoedTurn) -> NextStep {
        let elapsed = self.elapsed();
        let next = self.attempts.call_rejected(&self.context, turn, elapsed);
        self.note_rejected(&next);
        next
    }

    fn note_rejected(&mut self, next: &NextStep) {
        // Where nothing is changed, valid calls pass and are noted then.
        let bad = |turn: &&EchoedTurn| !self.context.observes() || turn.calls.iter().any(|call| !call.violations.is_empty());
        if let Some(turn) = next.rejected().filter(bad) {
            self.notes.turn(turn, &self.worker.app.settings.ledger);
        }
    }

    /// Rest of the time for repairs.
    pub(in crate::proxy) fn repair_time(&self) -> Duration {
        self.attempts.repair_time(&self.context, self.elapsed())
    }

    /// Makes the repair request for the next attempt. `spent`: usage of the rejected answer.
    ///
    /// # Errors
    /// [`Failure`] if that can't be made, which would be toolmark's own fault.
    pub fn ask_again<A: Adapter>(&mut self, turn: &EchoedTurn, spent: Option<&str>) -> Result<(), Failure> {
        self.reject(turn);
        self.attempts.spend(spent);
        self.body = A::next_request(&self.body, turn, self.attempts.findings().repairs, &self.context).map_err(|error| {
            tracing::error!(%error, "the repair request can't be made");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the repair request can't be made")
        })?;
        Ok(())
    }

    /// Stores a rejected turn for the conversation update.
    pub fn reject(&mut self, turn: &EchoedTurn) {
        self.dropped.extend(conversation_update::dropped(&self.context, turn));
        self.unanswered = conversation_update::unanswered(&self.context, turn);
    }

    /// The choices of an answer that ends, with the moments of their marks.
    pub fn finals(&mut self, finished: FinishedAnswer) -> Vec<ChoiceOutcome> {
        // The calls of one turn have one time, by which they are known for one turn's later.
        let now_ms = self.now_ms();
        let (context, hidden) = (self.context.clone(), self.rounds.hide());
        let (app, notes, stage) = (&self.worker.app, &mut self.notes, &mut self.stage);
        (0..finished.runs_ended).for_each(|_| app.loops.end());
        let mut timed = |choice: ChoiceOutcome<ValidCall>| {
            let accepted = choice.accepted();
            for call in accepted {
                tracing::debug!(exchange = %context.id, tool = call.name(), corrected = call.corrected(), "call of {}", call.name());
            }
            // Where more was run than the application sees, the marks that it gets say so.
            let hides = hidden || accepted.iter().any(|call| context.tools.runs(call.name()).is_some());
            choice.with_moments(|call| {
                let moment = stage.moment(|| app.moment(now_ms, hides));
                notes.call(call, moment, &app.settings.ledger);
                moment
            })
        };
        finished.choices.into_iter().map(&mut timed).collect()
    }

    /// Logs the calls that pass unjudged, of tools that the upstream runs or defines.
    pub fn record_hosted(&self, said: impl FnOnce() -> Said) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            for kind in said().hosted() {
                tracing::debug!(exchange = %self.context.id, kind = &*kind, "hosted {kind}");
            }
        }
    }

    /// Parts of an answer in toolmark's own words. `verdict`: a JSON object.
    pub fn made<'m>(&'m self, words: &'m str, verdict: &'m str) -> Made<'m> {
        Made { words, model: &self.model, created: self.now_ms() / 1000, verdict }
    }

    /// Stores the conversation update that later exchanges need.
    pub fn remember(&mut self, memo: Option<Memo>) {
        self.unanswered = None;
        if let Some(mut memo) = memo {
            self.rounds.refer(&self.context.scope, &memo);
            let mut dropped = std::mem::take(&mut self.dropped);
            if let Some(Left::Whole(left)) = &memo.left {
                // Upstreams may number the items of each answer anew: what was passed on stands.
                dropped.retain(|(id, _)| memchr::memmem::find(left, quote(id).as_bytes()).is_none());
            }
            memo.items.append(&mut dropped);
            let items = match &memo.left {
                Some(Left::Whole(left)) if self.is_everybodys() => Ids::of(left).items,
                Some(_) | None => Vec::new(),
            };
            self.note_owned(Ids { response: memo.responses.first().cloned(), conversation: memo.conversation.clone(), items });
            if let (Some(left), Some(id)) = (memo.left.take(), memo.responses.first()) {
                let request = || Got::Awaited(self.context.request().bytes().clone());
                self.keep_object(id, if let Left::Whole(left) = left { Got::Whole(left) } else { request() });
            }
            if let Some(id) = &memo.conversation {
                self.keep_object(id, Got::Withheld);
            }
            memo.items.extend(memo.thread.owed.iter().map(|owed| (owed.call_id.clone(), Fate::Dropped)));
            self.keep_memo(memo);
        }
    }

    /// Stores a conversation update. One of a response that is fetched is added to what is known by now.
    pub(in crate::proxy) fn keep_memo(&self, memo: Memo) {
        let (memory, scope) = (&self.worker.app.memory, &self.context.scope);
        let known = self.fetched.as_ref().and_then(|fetched| memory.response(scope, &fetched.id));
        if let (Some(id), true) = (&memo.conversation, self.fetched.is_some()) {
            let thread = memory.conversation(scope, id).map_or_else(|| memo.thread.clone(), |thread| thread.answered(&memo));
            memory.keep(scope, Memo { conversation: Some(id.clone()), thread, ..Memo::default() });
        }
        match known {
            Some(thread) => memory.keep(scope, Memo { conversation: None, thread: thread.answered(&memo), ..memo }),
            None if self.fetched.is_some() => memory.keep(scope, Memo { conversation: None, ..memo }),
            None => memory.keep(scope, memo),
        }
    }

    /// Records the error that the application got for a response that was fetched: it gets the same again.
    pub(in crate::proxy) fn refused(&mut self, failure: &Failure) {
        if let Some(fetched) = self.fetched.as_ref().filter(|_| failure.status == StatusCode::UNPROCESSABLE_ENTITY) {
            self.keep_object(&fetched.id, Got::Refused(failure.json().into()));
        }
    }

    /// True if the upstream would open what this exchange stores there to every caller.
    fn is_everybodys(&self) -> bool {
        let caller_key = self.worker.app.settings.clients.is_empty();
        self.api == Api::Responses && self.endpoint().opens_everybodys(caller_key, self.way.is_foreign())
    }

    /// Notes that the caller owns these objects. INVARIANT: those that the request itself names were found to be the
    /// caller's before it was sent.
    pub(in crate::proxy) fn note_owned(&mut self, mut ids: Ids) {
        if !self.is_everybodys() {
            return;
        }
        if self.context.observes() && self.context.hidden.conversation.is_some() {
            // What nobody is known to own is asked for there, and to name it makes nobody its owner.
            ids.conversation = None;
        }
        let noted = self.worker.app.owners.note(&self.context.scope, &self.endpoint().settings.name, &ids);
        self.owned.extend(noted);
    }

    /// Stores the upstream that has an object, and what the application got of it.
    fn keep_object(&self, id: &str, got: Got) {
        let (app, upstream) = (&self.worker.app, self.way.upstream());
        // Who has it is known, and stays so.
        let known = self.fetched.as_ref().and_then(|_| app.originals.get(&self.context.scope, id));
        let (upstream, foreign) = known.map_or((upstream, self.way.is_foreign()), |known| (known.upstream, known.foreign));
        app.originals.keep(&self.context.scope, id, Object { upstream, foreign, got });
    }

    /// Records the start of a stream's response: until it has ended, it can't be retrieved otherwise, unless it is
    /// generated in the background.
    pub(in crate::proxy) fn begun_with(&mut self, id: impl FnOnce() -> Option<String>) {
        if self.begun || self.fetched.is_some() || !self.context.hidden.store {
            return;
        }
        let Some(id) = id().filter(|id| !id.is_empty()) else { return };
        self.begun = true;
        self.note_owned(Ids { response: Some(id.clone()), ..Ids::default() });
        if self.context.observes() {
            return;
        }
        let background = self.context.hidden.background;
        self.keep_object(&id, if background { Got::Awaited(self.context.request().bytes().clone()) } else { Got::Withheld });
    }

    /// [`Self::remember`] if the upstream gave no answer in the end: the conversation stays where the attempt before left it.
    pub fn remember_without_answer(&mut self, memo: Option<Memo>) {
        let unanswered = self.unanswered.take();
        self.remember(memo.map(|memo| Memo { conversation: None, ..memo }));
        self.unanswered = unanswered;
    }

    /// Yields to other exchanges between two stages, if there are any.
    pub async fn step(&self) {
        if self.worker.app.load.is_shared() {
            abreast::step().await;
        }
    }

    /// Starts a wait for the upstream at this instant. A client that disconnects meanwhile has waited for the upstream, not for toolmark.
    pub fn waits(&mut self, since: Instant) -> Instant {
        self.waiting = Some(since);
        since
    }

    /// Moves to another thread if this many bytes of an answer, and the request they are compared with, take long to process.
    pub async fn step_aside(&self, bytes: usize) {
        let all = bytes.saturating_add(self.context.request().bytes().len());
        if all > helper_threads::BYTES_MAX || self.context.choices > CHOICES_AT_ONCE {
            helper_threads::step().await;
        }
    }

    /// Ends a wait for the upstream, and adds its time.
    pub fn waited(&mut self, since: Instant) {
        self.waiting = None;
        self.seen = Instant::now();
        let time = self.seen.saturating_duration_since(since);
        self.upstream_time += time;
        self.notes.waited(time);
    }

    /// Ends the exchange in a task of its own, so that the response doesn't wait for the log line.
    pub fn end_behind(self: Box<Self>) {
        tokio::spawn(Movable::new(async move {
            self.step_aside(0).await;
            drop(self);
        }));
    }

    /// Records the status that the caller got; from here on the exchange counts as ended.
    pub fn finish(&mut self, status: StatusCode) {
        self.outcome = Some(status.as_u16());
    }
}
