//! State of one exchange over all its attempts, as parts that each own what they know.
//!
//! The steps of an exchange are in [`super`]; their number is bounded by [`Attempts`].

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use http::StatusCode;

use super::{
    cassette_session::CassetteSession,
    checks::{ledger::LedgerChecks, state::StateChecks, verifier},
    clock::ExchangeClock,
    conversation::{ConversationPlace, ConversationUpdates},
    finish::ExchangeTracer,
    record_builder::{CallerInfo, Delivery, ExchangeState, RecordBuilder},
    tool_rounds::ToolRounds,
};
use crate::{
    exchange::{
        adapter::{Adapter, Made},
        attempts::{Attempts, FinishedAnswer, NextStep},
        context::{Context, JudgedChoice},
        conversation::Memo,
        conversation::request_prefix::KnownRequest,
        decision::ChoiceOutcome,
        loop_guard::AttemptInputs,
        turn::{EchoedTurn, Said},
    },
    judge::call::ValidCall,
    proxy::{
        app::App,
        helper_threads::{self, Movable},
        http::failure::Failure,
        server::{abreast, admission::Held},
        upstream::{
            Endpoint,
            select::{PendingRequest, UpstreamSelection},
            verifier::Verifier,
        },
        worker::Worker,
    },
    sys::clock::Began,
    translate::answer::Origin,
    violation::{Code, Violation},
    wire::rope::Rope,
};

/// Maximum choices of one request that are judged without moving to another thread. Each choice adds steps of its own.
const CHOICES_AT_ONCE: u64 = 2;

/// State of one exchange.
pub struct ExchangeDriver {
    /// Worker that serves the exchange.
    pub(super) worker: Arc<Worker>,
    /// Inputs for judging.
    pub(super) context: Arc<Context>,
    /// Model that the request names.
    pub(super) model: String,
    /// Request body that goes upstream next, in the caller's API.
    pub(super) body: Rope,
    /// The request as it is kept for later ones.
    known: Option<Arc<KnownRequest>>,
    /// Findings and limits over all attempts.
    pub(super) attempts: Attempts,
    /// Upstreams that may answer, and the one that is asked now.
    pub(in crate::proxy) selection: UpstreamSelection,
    /// Time.
    pub(super) clock: ExchangeClock,
    /// Facts for the record and the log line.
    pub(super) record: RecordBuilder,
    /// Checks that ask the ledger.
    pub(super) ledger: LedgerChecks,
    /// Checks of the state of the world.
    pub(super) state: StateChecks,
    /// Rounds of calls that toolmark runs.
    pub(super) rounds: ToolRounds,
    /// Recording, playback and injected faults.
    pub(super) cassette: CassetteSession,
    /// Updates of the conversation.
    pub(super) conversation: ConversationUpdates,
    /// Trace context.
    pub(super) tracer: ExchangeTracer,
    /// Form in which the answer is asked for.
    pub(super) delivery: Delivery,
    /// Bytes of streamed answers so far.
    pub(super) received: usize,
    /// BLAKE3 of the first body that was sent, if the caller names its request for retries.
    pub(super) first_body: Option<blake3::Hash>,
    _held: Held,
}

/// A request that was prepared: all that an exchange starts with.
pub struct PreparedRun {
    /// Worker that serves the exchange.
    pub worker: Arc<Worker>,
    /// Inputs for judging.
    pub context: Arc<Context>,
    /// Violations found in the request.
    pub violations: Vec<Violation>,
    /// Body for the upstream.
    pub body: Rope,
    /// The request as it is kept for later ones.
    pub known: Option<Arc<KnownRequest>>,
    /// Model that the request names.
    pub model: String,
    /// Form in which the answer is asked for.
    pub delivery: Delivery,
    /// The caller.
    pub caller: CallerInfo,
    /// Upstreams that may answer.
    pub selection: UpstreamSelection,
    /// Recording and playback.
    pub cassette: CassetteSession,
    /// Rounds of calls.
    pub rounds: ToolRounds,
    /// Start of the exchange.
    pub began: Began,
    /// The request's share of the limits.
    pub held: Held,
}

impl ExchangeDriver {
    /// Starts an exchange; boxed, as it is passed from stage to stage.
    pub fn new(prepared: PreparedRun) -> Box<Self> {
        let PreparedRun { worker, mut context, violations, body, known, model, delivery, caller, selection, cassette, rounds, began, held } =
            prepared;
        if let Some(context) = Arc::get_mut(&mut context) {
            // Without a session nothing is in the same one.
            context.text.ask_ledger = caller.session.is_some();
        }
        Box::new(Self {
            tracer: ExchangeTracer::new(&worker.app, selection.request_headers()),
            attempts: Attempts::new(violations),
            clock: ExchangeClock::new(began),
            ledger: LedgerChecks::new(caller.session.clone()),
            record: RecordBuilder::new(caller, selection.api(), delivery),
            delivery,
            worker,
            context,
            model,
            body,
            known,
            selection,
            state: StateChecks::default(),
            rounds,
            cassette,
            conversation: ConversationUpdates::default(),
            received: 0,
            first_body: None,
            _held: held,
        })
    }

    /// The process's state.
    pub(super) fn app(&self) -> &Arc<App> {
        &self.worker.app
    }

    /// The current upstream.
    pub(super) fn endpoint(&self) -> &Endpoint {
        self.selection.endpoint(&self.worker)
    }

    /// The selection of the upstream, and the request that it is for.
    pub(super) fn selecting(&mut self) -> (&mut UpstreamSelection, PendingRequest<'_>) {
        let Self { selection, worker, context, model, body, cassette, attempts, clock, .. } = self;
        let (is_played, began_at) = (cassette.plays(), clock.began_at());
        (selection, PendingRequest { worker, context, model, body, is_played, attempts, began_at })
    }

    /// The updates of the conversation, and where they are stored.
    pub(super) fn conversing(&mut self) -> (&mut ConversationUpdates, ConversationPlace<'_>) {
        let Self { conversation, worker, context, selection, .. } = self;
        (conversation, ConversationPlace { app: &worker.app, context, selection, endpoint: selection.endpoint(worker) })
    }

    /// The builder of the record, and the state that it is made of.
    pub(super) fn recording(&mut self) -> (&mut RecordBuilder, ExchangeState<'_>) {
        let Self { record, worker, context, attempts, clock, model, selection, ledger, .. } = self;
        let upstream = &*selection.endpoint(worker).settings.name;
        let first_shown = ledger.first_shown();
        (record, ExchangeState { app: &worker.app, context, attempts, clock, model, upstream, first_shown })
    }

    /// Time of this exchange at the last reading of the clock, in Unix milliseconds; the recorded time if it is played.
    pub(super) fn now_ms(&self) -> u64 {
        self.cassette.recorded_ms().unwrap_or_else(|| self.clock.read_ms())
    }

    /// Facts of the request that a translated answer repeats; `None` if answers aren't translated.
    pub(super) fn origin(&self) -> Option<Origin> {
        let translation = self.selection.translation(&self.endpoint().settings)?;
        let id = format!("{}{:02}", &self.context.id.simple().to_string()[..30], self.attempts.started() % 100);
        Some(Origin::new(translation, self.context.request(), id, self.now_ms() / 1000).offering(&self.body.joined()))
    }

    /// Inputs for judging the current attempt's answer.
    pub(super) fn attempt_inputs(&self) -> AttemptInputs {
        AttemptInputs { now_ms: self.now_ms(), loops: self.attempts.loops() }
    }

    /// Compares the results in the request, from this execution on, with the first ones recorded. Where the policy may refuse the
    /// request for what only the ledger knows, that is waited for; else the ledger answers while the upstream does, and
    /// [`Self::settle_results`] follows before the answer is judged.
    pub(super) async fn check_results(&mut self, from: usize) {
        let Self { ledger, worker, context, attempts, record, .. } = self;
        record.begin_check();
        attempts.report(ledger.begin(&worker.app, context, from));
        if ledger.may_refuse(context) {
            self.settle_results().await;
        }
    }

    /// Waits for what [`Self::check_results`] asked the ledger, if anything.
    pub(super) async fn settle_results(&mut self) {
        let Self { ledger, worker, context, attempts, record, .. } = self;
        let found = ledger.settle(&worker.app, context).await;
        if found.is_empty() {
            return;
        }
        let is_known = attempts.findings().violations.iter().any(|violation| violation.code == Code::LedgerUnavailable);
        attempts.report(found.into_iter().filter(|violation| !(is_known && violation.code == Code::LedgerUnavailable)));
        record.end_check(attempts.findings().violations.len());
    }

    /// True if the policy has state rules.
    pub(super) fn has_state_rules(&self) -> bool {
        !self.context.rules.state.is_empty()
    }

    /// Checks what an answer says against the state of the world. `text`: the answer's, if the policy has state rules.
    pub(super) async fn check_state(&mut self, judged: &mut [JudgedChoice], text: Option<String>) {
        self.state.check(&self.worker.app, &self.context, judged, text).await;
    }

    /// Verifier to ask about this answer, if it is to be asked.
    pub(super) fn verifier(&self, judged: &[JudgedChoice]) -> Option<Arc<Verifier>> {
        let verifier = self.worker.app.verifier.as_ref()?;
        (!self.cassette.plays() && verifier::is_asked(&self.context, judged)).then(|| verifier.clone())
    }

    /// Gets a second opinion on an answer with this text.
    pub(super) async fn verify(&mut self, verifier: Arc<Verifier>, judged: &mut [JudgedChoice], text: String) {
        verifier::verify(&verifier, &self.worker, &self.context, &mut self.clock, judged, text).await;
    }

    /// Decides on a judged answer. `turn`: the model's turn in one choice.
    pub(super) fn decide(&mut self, judged: Vec<JudgedChoice>, turn: impl FnOnce(usize) -> Said) -> NextStep {
        let now_ms = self.now_ms();
        let (selection, request) = self.selecting();
        selection.learn(request, &judged, now_ms);
        self.worker.app.loops.note(&judged, self.record.session(), now_ms);
        let next = self.attempts.judged(&self.context, judged, turn, self.clock.elapsed());
        self.note_rejected(&next);
        next
    }

    /// Decides on a call of the model that the upstream rejected.
    pub(super) fn decide_rejected_call(&mut self, turn: EchoedTurn) -> NextStep {
        let next = self.attempts.call_rejected(&self.context, turn, self.clock.elapsed());
        self.note_rejected(&next);
        next
    }

    fn note_rejected(&mut self, next: &NextStep) {
        if let Some(turn) = next.rejected() {
            self.record.rejected(&self.context, turn, &self.worker.app.settings.ledger);
        }
    }

    /// Makes the repair request for the next attempt. `spent`: usage of the rejected answer.
    ///
    /// # Errors
    /// [`Failure`] if that can't be made, which would be toolmark's own fault.
    pub(super) fn prepare_repair<A: Adapter>(&mut self, turn: &EchoedTurn, spent: Option<&str>) -> Result<(), Failure> {
        self.context.repaired.store(true, Ordering::Relaxed);
        self.conversation.reject(A::rejected(&self.context, turn));
        self.attempts.spend(spent);
        let next = A::next_request(&self.body.joined(), turn, self.attempts.findings().repairs, &self.context).map_err(|error| {
            tracing::error!(%error, "the repair request can't be made");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the repair request can't be made")
        })?;
        self.body = next.into();
        Ok(())
    }

    /// The choices of an answer that ends, with the moments of their marks.
    pub(super) fn with_moments(&mut self, finished: FinishedAnswer) -> Vec<ChoiceOutcome> {
        // The calls of one turn have one time, by which they are known for one turn's later.
        let (now_ms, hidden) = (self.now_ms(), self.rounds.hides());
        let Self { worker, context, record, cassette, .. } = self;
        let app = &worker.app;
        (0..finished.runs_ended).for_each(|_| app.loops.end());
        let timed = |choice: ChoiceOutcome<ValidCall>| {
            let accepted = choice.accepted();
            for call in accepted {
                tracing::debug!(exchange = %context.id, tool = call.name(), corrected = call.corrected(), "call of {}", call.name());
            }
            // Where more was run than the application sees, the marks that it gets say so.
            let hides = hidden || accepted.iter().any(|call| context.tools().runs(call.name()).is_some());
            choice.with_moments(|call| {
                let live = || if hides { app.moment(now_ms).hiding() } else { app.moment(now_ms) };
                let moment = cassette.moment(live);
                record.call(call, moment, &app.settings.ledger);
                moment
            })
        };
        finished.choices.into_iter().map(timed).collect()
    }

    /// Logs the calls that pass unjudged, of tools that the upstream runs or defines.
    pub(super) fn log_hosted_calls(&self, said: impl FnOnce() -> Said) {
        if tracing::enabled!(tracing::Level::DEBUG) && !self.attempts.findings().blocked {
            for kind in said().hosted() {
                tracing::debug!(exchange = %self.context.id, kind = &*kind, "hosted {kind}");
            }
        }
    }

    /// Parts of an answer in toolmark's own words. `verdict`: a JSON object.
    pub(super) fn synthetic<'m>(&'m self, words: &'m str, verdict: &'m str) -> Made<'m> {
        Made { words, model: &self.model, created: self.now_ms() / 1000, verdict }
    }

    /// Records the error that the application gets for a response that is fetched.
    pub(super) fn refuse_fetched(&mut self, failure: &Failure) {
        let (conversation, place) = self.conversing();
        conversation.refuse(place, failure);
    }

    /// Notes that the caller owns the objects that this answer made.
    pub(super) fn note_owned(&mut self, answer: &Bytes) {
        let (conversation, place) = self.conversing();
        conversation.note_owned_of(place, answer);
    }

    /// Stores the conversation update that later exchanges need.
    pub(super) fn store_conversation(&mut self, memo: Option<Memo>) {
        if let Some(memo) = &memo {
            self.rounds.note_aliases(&self.context.scope, memo);
        }
        let (conversation, place) = self.conversing();
        conversation.store(place, memo);
    }

    /// Stores the conversation update if the upstream gave no answer in the end.
    pub(super) fn store_conversation_without_answer(&mut self, memo: Option<Memo>) {
        if let Some(memo) = &memo {
            self.rounds.note_aliases(&self.context.scope, memo);
        }
        let (conversation, place) = self.conversing();
        conversation.store_without_answer(place, memo);
    }

    /// Ends a wait for the upstream, and adds its time to the attempt.
    pub(super) fn end_wait(&mut self) {
        if let Some(time) = self.clock.end_wait() {
            self.record.waited(time);
        }
    }

    /// Yields to other exchanges between two stages, if there are any.
    pub(super) async fn step(&self) {
        if self.worker.app.load.is_shared() {
            abreast::step().await;
        }
    }

    /// Moves to another thread if this many bytes of an answer, and the request they are compared with, take long to process.
    pub(super) async fn step_aside(&self, bytes: usize) {
        let all = bytes.saturating_add(self.context.request().bytes().len());
        if all > helper_threads::BYTES_MAX || self.context.choices > CHOICES_AT_ONCE {
            helper_threads::step().await;
        }
    }

    /// Ends the exchange in a task of its own, so that the response doesn't wait for the log line.
    pub(super) fn finish_in_background(self: Box<Self>) {
        tokio::spawn(Movable::new(async move {
            self.step_aside(0).await;
            drop(self);
        }));
    }
}

impl Drop for ExchangeDriver {
    /// Ends the exchange, also an abandoned one: conversation, log line, recording and record.
    fn drop(&mut self) {
        self.conversation.end(&self.worker.app, &self.context);
        if let Some(known) = self.known.take().filter(|_| self.context.evidence.was_read()) {
            self.worker.app.prefixes.weigh(&known);
        }
        self.end_wait();
        let total = self.clock.elapsed();
        let (record, state) = self.recording();
        record.log(&state, total);
        let findings = self.record.is_finished().then(|| self.attempts.findings());
        self.cassette.finish_recording(&self.context, findings);
        if !self.record.is_made() {
            let record = self.make_record(total);
            self.worker.app.recorder.take(&record);
        }
    }
}
