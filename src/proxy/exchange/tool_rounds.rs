//! Tool-call rounds: calls that toolmark runs within an exchange. The model is asked again with their results until it
//! answers, or calls tools that the application runs.
//!
//! ```text
//! accepted ──only ours──▶ run, in parallel ──▶ the request with the round behind it ──▶ next attempt
//!          ──ours and the application's──▶ run; the application gets its own, the rest is kept for its next request
//!          ──none of ours──▶ the answer leaves; rounds before it are kept for the next request
//! ```

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;

use crate::{
    exchange::{
        active_policy::Standard,
        adapter::Adapter,
        attempts::RoundPermit,
        context::{Basis, Begun, Upstream},
        conversation::Memo,
        decision::ChoiceOutcome,
        hidden_turns::{Kept, Key, key_of_answer, key_of_mark, key_of_response},
        request_error::Refusal,
        turn::Said,
    },
    judge::{call::ValidCall, loops::ExternalCounts},
    marks::{MarkTime, Scope},
    mcp::{Mcp, catalog::Offered, outcome::Outcome, runner::Asked},
    proxy::{
        conversations::journal::{Due, Identity, Ordinals},
        exchange::{basis, driver::Run, idempotency},
        http::failure::Failure,
    },
    violation::{Code, Violation},
    wire::{json::Document, sse::SseParser},
};

/// Maximum bytes of an answer's text by which its hidden rounds can be found again.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Rounds of one exchange.
#[derive(Default)]
pub struct Rounds {
    begun: Option<Box<Origin>>,
    /// Ordinals of its calls so far.
    pub(in crate::proxy) ordinals: Ordinals,
    before: Vec<String>,
    mixed: Option<Box<(Vec<Key>, Kept)>>,
    /// The upstream's IDs of responses that the application knows by others.
    known_as: Vec<(Vec<Key>, Kept)>,
    /// Turn of the current attempt, if the application doesn't get all of it.
    last: Vec<String>,
    tap: Tap,
}

/// Function by which an API prepares an exchange again from an extended request.
pub type Again = Box<dyn Fn(&Document, Basis<'_>) -> Result<Begun, Refusal> + Send + Sync>;

/// Inputs from which each round prepares its request.
pub struct Origin {
    /// Policy that judges the exchange.
    pub standard: Arc<Standard>,
    /// The upstream's requirements.
    pub upstream: Upstream,
    /// Loop control's counts from outside the conversation.
    pub beyond: ExternalCounts,
    /// The request as the application sent it.
    pub came: Document,
    /// Fingerprint of the request.
    pub identity: Identity,
    /// Prepares the exchange again with a round appended.
    pub again: Again,
    /// Appends the text in one event's data to a string.
    pub tap: fn(&Bytes, &mut String),
}

/// Continuation after an accepted answer.
pub enum Next {
    /// The model is asked again, with the results of its calls.
    Again,
    /// The answer ends with these choices.
    End(Vec<ChoiceOutcome>),
}

/// Refuses requests that can't be served while toolmark runs tools.
///
/// # Errors
/// 503 if a required MCP server is missing; 400 for more than one choice.
pub fn check(standard: &Standard, choices: u64) -> Result<(), Failure> {
    let offered = &standard.offered.1;
    let enforced = standard.rules.policy.mode == crate::policy::PolicyMode::Enforce;
    if let Some(why) = offered.missing().filter(|_| enforced) {
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "mcp_unavailable", why));
    }
    if choices > 1 && enforced && offered.runs() {
        let message = "toolmark runs tools of MCP servers, and can do so for one answer only: leave `n` out";
        return Err(Failure { param: Some("n".into()), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message) });
    }
    Ok(())
}

impl Rounds {
    /// Rounds of a new exchange; inactive if toolmark runs no tools.
    pub fn of(standard: &Standard, origin: impl FnOnce() -> Origin) -> Self {
        Self { begun: standard.offered.1.runs().then(|| Box::new(origin())), ..Self::default() }
    }

    /// True if toolmark runs tools in this exchange.
    pub fn begun(&self) -> bool {
        self.begun.is_some()
    }

    /// True if the application doesn't see some of the rounds.
    pub fn hide(&self) -> bool {
        !self.before.is_empty()
    }

    /// Fingerprint of the request.
    pub(in crate::proxy) fn identity(&self) -> Identity {
        self.begun.as_ref().map(|origin| origin.identity.clone()).unwrap_or_default()
    }

    /// Records the response IDs that the application's next request may refer to.
    pub fn refer(&mut self, scope: &Scope, memo: &Memo) {
        if let (Some(own), true) = (&memo.thread.upstream_id, self.begun()) {
            let keys: Vec<Key> = memo.responses.iter().map(|id| key_of_response(scope, id)).collect();
            self.known_as.extend((!keys.is_empty()).then(|| (keys, Kept { whole: vec![own.to_string()], ..Kept::default() })));
        }
    }

    /// Records the text that the application gets in a stream.
    pub fn tap(&mut self, out: &[u8]) {
        if let Some(origin) = &self.begun {
            self.tap.take(out, origin.tap);
        }
    }
}

/// Calls of one turn that toolmark runs.
struct Own {
    /// Tools, each with the index of its call in the turn.
    tools: Vec<(usize, Offered)>,
    /// The smallest of their servers' limits of rounds.
    limit: u32,
}

impl Run {
    /// Runs the calls of an accepted answer that are toolmark's to run. `spent`: the attempt's usage.
    ///
    /// # Errors
    /// [`Failure`] if the conversation can't be continued.
    pub(in crate::proxy) async fn own_calls<A: Adapter>(
        &mut self,
        mut finals: Vec<ChoiceOutcome>,
        said: Said,
        spent: Option<String>,
    ) -> Result<Next, Failure> {
        let Some(mcp) = self.worker.app.mcp.clone() else { return Ok(Next::End(finals)) };
        let [ChoiceOutcome::Accept(calls)] = &mut finals[..] else { return Ok(Next::End(finals)) };
        let own = self.own(calls, &mcp);
        if !self.rounds.begun() || (own.tools.is_empty() && self.rounds.before.is_empty()) {
            return Ok(Next::End(finals));
        }
        let context = self.context.clone();
        if own.tools.is_empty() {
            let marks = A::marks(&said, calls, &context);
            let again = A::said_again(&said, &passed(calls, &marks), &context);
            if calls.is_empty() {
                self.rounds.last = again;
            } else {
                // The application calls next: what came before is found by its calls.
                let keys = marks.iter().map(|mark| key_of_mark(A::API, &context.scope, mark)).collect();
                let before = std::mem::take(&mut self.rounds.before);
                self.rounds.mixed = Some(Box::new((keys, Kept { before, whole: again, ..Kept::default() })));
            }
            return Ok(Next::End(finals));
        }
        let permit = self.attempts.start_round(own.limit);
        if permit == RoundPermit::LimitExceeded {
            return Ok(Next::End(vec![ChoiceOutcome::Replace(
                self.too_many(own.limit, own.tools.first().map_or("", |(_, tool)| &tool.name)),
            )]));
        }
        let outcomes = if permit == RoundPermit::LimitReached {
            let limit = own.limit;
            let message = format!("this was not run: the limit of {limit} rounds of calls is reached. Answer with what you have.");
            own.tools.iter().map(|_| Outcome::failure(&message)).collect()
        } else {
            self.run_all::<A>(&mcp, &own, &said, calls).await?
        };
        // A call that was run for an attempt before has the moment that it had then.
        let marks = A::marks(&said, calls, &context);
        let again = A::said_again(&said, &passed(calls, &marks), &context);
        let results: Vec<String> =
            own.tools.iter().zip(&outcomes).filter_map(|((at, _), outcome)| Some(A::result(marks.get(*at)?, &outcome.text))).collect();
        self.attempts.end_round(self.started.at.elapsed());
        if own.tools.len() < calls.len() {
            let theirs = calls.iter().zip(&marks).filter(|((call, _), _)| context.tools.runs(call.name()).is_none());
            let keys = theirs.map(|(_, mark)| key_of_mark(A::API, &context.scope, mark)).collect();
            let before = std::mem::take(&mut self.rounds.before);
            self.rounds.mixed = Some(Box::new((keys, Kept { before, whole: again, behind: results, lost: false })));
            return Ok(Next::End(finals));
        }
        self.attempts.spend(spent.as_deref());
        let count = results.len();
        let added: Vec<String> = again.into_iter().chain(results).collect();
        self.go_on::<A>(&added, count).await?;
        self.rounds.before.extend(added);
        Ok(Next::Again)
    }

    fn own(&self, calls: &[(ValidCall, MarkTime)], mcp: &Mcp) -> Own {
        let runs = |(at, (call, _)): (usize, &(ValidCall, MarkTime))| Some((at, self.context.tools.runs(call.name())?.clone()));
        let tools: Vec<(usize, Offered)> = calls.iter().enumerate().filter_map(runs).collect();
        let limit = tools.iter().filter_map(|(_, tool)| Some(mcp.servers().get(tool.server)?.settings.max_rounds)).min().unwrap_or(1);
        Own { tools, limit }
    }

    /// Runs the calls of one turn in parallel. Returns their outcomes.
    async fn run_all<A: Adapter>(
        &mut self,
        mcp: &Arc<Mcp>,
        own: &Own,
        said: &Said,
        calls: &mut [(ValidCall, MarkTime)],
    ) -> Result<Vec<Outcome>, Failure> {
        let marks = A::marks(said, calls, &self.context);
        let asked = own.tools.iter().filter_map(|(at, tool)| {
            let ((call, moment), mark) = calls.get(*at).zip(marks.get(*at))?;
            Some((Asked { mark: mark.as_str().into(), tool: tool.clone(), arguments: call.arguments().to_owned() }, *moment))
        });
        let asked: Vec<(Asked, MarkTime)> = asked.collect();
        if let Some(outcomes) = self.recorded_calls(asked.iter().map(|(asked, _)| asked)) {
            return Ok(outcomes);
        }
        let mut dues: Vec<Due> = self.due(asked).await;
        for ((at, _), due) in own.tools.iter().zip(&dues) {
            if let Some((_, moment)) = calls.get_mut(*at).filter(|(_, moment)| *moment != due.moment()) {
                self.notes.moved(*moment, due.moment());
                *moment = due.moment();
            }
        }
        self.begin_calls(&mut dues)
            .await
            .map_err(|violation| Failure { status: StatusCode::SERVICE_UNAVAILABLE, ..Refusal::of(&violation).into() })?;
        let app = self.worker.app.clone();
        let outcomes = join_all(dues.into_iter().map(|due| idempotency::run(app.clone(), mcp.clone(), due))).await;
        let marks = A::marks(said, calls, &self.context);
        for ((at, tool), outcome) in own.tools.iter().zip(&outcomes) {
            if let Some(((call, _), mark)) = calls.get(*at).zip(marks.get(*at)) {
                self.stage.note_ran(mark, &tool.name, call.arguments(), outcome);
            }
        }
        Ok(outcomes)
    }

    fn too_many(&mut self, limit: u32, tool: &str) -> String {
        self.attempts.block();
        let checks = &self.context.rules.checks;
        let message = format!("tools were run in {limit} rounds, which is the limit, and `{tool}` was called again");
        let violation: Option<Violation> = checks.violation(Code::LoopDetected, Some(tool), message, "");
        let words = crate::judge::messages::ended(&violation.iter().collect::<Vec<_>>());
        self.attempts.report(violation);
        words
    }

    /// Continues the exchange with these items appended to its request; `results`: number of results among them.
    async fn go_on<A: Adapter>(&mut self, added: &[String], results: usize) -> Result<(), Failure> {
        let broken =
            || Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the request with the tools' results can't be made");
        let body = A::append(self.context.request(), added).ok_or_else(broken)?;
        let document = Document::parse(body).map_err(|_| broken())?;
        let Some(origin) = &self.rounds.begun else { return Err(broken()) };
        let app = self.worker.app.clone();
        let own = basis(&app, &origin.standard, origin.upstream, self.context.scope.clone(), self.context.tools.clone());
        let mut begun = (origin.again)(&document, Basis { id: self.context.id, beyond: origin.beyond.clone(), ..own })?;
        if let Some(context) = begun.unshared() {
            context.text.ask_ledger = self.context.text.ask_ledger;
        }
        let Begun { context, body, violations } = begun;
        let new: Vec<Violation> = violations.into_iter().filter(|own| !self.attempts.findings().violations.contains(own)).collect();
        let refusal = new.iter().find(|own| own.blocks()).map(Refusal::of);
        self.attempts.report(new);
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        let known = self.context.executions.len();
        for (moment, mark) in self.context.inquiry.marks() {
            context.inquiry.minted(moment, &mark);
        }
        (self.body, self.context) = (A::upstream(body, results, &context), context);
        self.asked.forget();
        self.witness_from(known).await;
        Ok(())
    }

    /// Stores the rounds that the application doesn't see for its next request. `answer`: the text that it gets.
    ///
    /// # Errors
    /// 503 if they may be lost with this process and the policy blocks on that.
    pub(in crate::proxy) async fn keep_rounds<A: Adapter>(&mut self, answer: impl FnOnce() -> Option<String>) -> Result<(), Failure> {
        let Some(origin) = &self.rounds.begun else { return Ok(()) };
        let mut all = std::mem::take(&mut self.rounds.known_as);
        if let Some(mixed) = self.rounds.mixed.take() {
            all.push(*mixed);
        } else if !self.rounds.before.is_empty()
            && !A::continues(&origin.came)
            && let Some(answer) = answer()
        {
            let key = key_of_answer(A::API, &self.context.scope, &A::turns(&origin.came), &answer);
            let (before, whole) = (std::mem::take(&mut self.rounds.before), std::mem::take(&mut self.rounds.last));
            all.push((vec![key], Kept { before, whole, ..Kept::default() }));
        }
        let app = &self.worker.app;
        if app.kept.keep(app.recorder.shelf(), all, app.now_ms()).await.is_ok() {
            return Ok(());
        }
        let message = "the calls that toolmark ran itself can't be kept in the ledger: after a restart the history may lack them";
        let violation = self.context.rules.checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment");
        self.attempts.report(violation.clone());
        match violation.filter(Violation::blocks) {
            Some(_) => Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::LedgerUnavailable.as_str(), message)),
            None => Ok(()),
        }
    }

    /// [`Self::keep_rounds`] for a stream, whose text was recorded.
    ///
    /// # Errors
    /// As [`Self::keep_rounds`].
    pub(in crate::proxy) async fn keep_streamed_rounds<A: Adapter>(&mut self) -> Result<(), Failure> {
        let text = std::mem::take(&mut self.rounds.tap).text;
        self.keep_rounds::<A>(|| text).await
    }

    /// True if an accepted answer consists only of calls that toolmark runs, and text.
    pub(in crate::proxy) fn runs_all(&self, finals: &[ChoiceOutcome]) -> bool {
        let [ChoiceOutcome::Accept(calls)] = finals else { return false };
        self.rounds.begun() && !calls.is_empty() && calls.iter().all(|(call, _)| self.context.tools.runs(call.name()).is_some())
    }
}

/// Calls with their marks.
fn passed<'c>(calls: &'c [(ValidCall, MarkTime)], marks: &'c [String]) -> Vec<(&'c ValidCall, &'c str)> {
    calls.iter().zip(marks).map(|((call, _), mark)| (call, mark.as_str())).collect()
}

/// Extracts the text from the events that are sent.
struct Tap {
    parser: SseParser,
    /// `None` if it is too long, or can't be extracted.
    text: Option<String>,
}

impl Default for Tap {
    fn default() -> Self {
        Self { parser: SseParser::default(), text: Some(String::new()) }
    }
}

impl Tap {
    fn take(&mut self, out: &[u8], read: fn(&Bytes, &mut String)) {
        let Self { parser, text } = self;
        let fed = parser.handle(Bytes::copy_from_slice(out), |event| {
            if let (Some(text), Some(data)) = (text.as_mut(), &event.data) {
                read(data, text);
            }
        });
        if fed.is_err() || self.text.as_ref().is_some_and(|text| text.len() > ANSWER_BYTES_MAX) {
            self.text = None;
        }
    }
}
