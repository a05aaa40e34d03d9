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
        context::{Basis, Begun, Context, Upstream},
        conversation::Memo,
        decision::ChoiceOutcome,
        error::Refusal,
        hidden_turns::{HistoryExtent, Kept, Key, key_of_answer, key_of_mark, key_of_response},
        turn::Said,
    },
    judge::{call::ValidCall, loops::ExternalCounts},
    marks::{MarkTime, Scope},
    mcp::{Mcp, catalog::OfferedTool, outcome::ToolOutcome, runner::ToolCallRequest},
    proxy::{
        conversations::journal::{Due, Identity, Ordinals},
        exchange::{basis, driver::ExchangeDriver, idempotency},
        http::failure::Failure,
    },
    violation::{Code, Violation},
    wire::{json::Document, sse::SseParser},
};

/// Maximum bytes of an answer's text by which its hidden rounds can be found again.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Rounds of one exchange.
#[derive(Default)]
pub struct ToolRounds {
    /// Inputs of each round's request; `None` if toolmark runs no tools.
    base: Option<Box<RoundBase>>,
    /// Ordinals of its calls so far.
    ordinals: Ordinals,
    /// Messages or items of the rounds so far.
    before: Vec<String>,
    /// Turn of which the application gets only its own calls.
    mixed: Option<Box<(Vec<Key>, Kept)>>,
    /// The upstream's IDs of responses that the application knows by others.
    known_as: Vec<(Vec<Key>, Kept)>,
    /// Turn of the current attempt, if the application doesn't get all of it.
    last: Vec<String>,
    tap: Tap,
}

/// Function by which an API prepares an exchange again from an extended request.
pub type PrepareAgain = Box<dyn Fn(&Document, Basis<'_>) -> Result<Begun, Refusal> + Send + Sync>;

/// Inputs from which each round prepares its request.
pub struct RoundBase {
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
    pub prepare: PrepareAgain,
    /// Appends the text in one event's data to a string.
    pub tap: fn(&Bytes, &mut String),
}

/// Continuation after an accepted answer.
pub enum RoundOutcome {
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

impl ToolRounds {
    /// Rounds of a new exchange; inactive if toolmark runs no tools.
    pub fn of(standard: &Standard, base: impl FnOnce() -> RoundBase) -> Self {
        Self { base: standard.offered.1.runs().then(|| Box::new(base())), ..Self::default() }
    }

    /// True if toolmark runs tools in this exchange.
    pub fn are_active(&self) -> bool {
        self.base.is_some()
    }

    /// True if the application doesn't see some of the rounds.
    pub fn hides(&self) -> bool {
        !self.before.is_empty()
    }

    /// Records the response IDs that the application's next request may refer to.
    pub fn note_aliases(&mut self, scope: &Scope, memo: &Memo) {
        if let (Some(own), true) = (&memo.thread.upstream_id, self.are_active()) {
            let keys: Vec<Key> = memo.responses.iter().map(|id| key_of_response(scope, id)).collect();
            self.known_as.extend((!keys.is_empty()).then(|| (keys, Kept { whole: vec![own.to_string()], ..Kept::default() })));
        }
    }

    /// Records the text that the application gets in a stream.
    pub fn tap(&mut self, out: &[u8]) {
        if let Some(base) = &self.base {
            self.tap.take(out, base.tap);
        }
    }

    /// Takes the turns that later requests lack, each with the keys under which they are found. `answer`: the text that the application
    /// gets.
    fn take_hidden<A: Adapter>(&mut self, context: &Context, answer: impl FnOnce() -> Option<String>) -> Vec<(Vec<Key>, Kept)> {
        let Some(base) = &self.base else { return Vec::new() };
        let mut all = std::mem::take(&mut self.known_as);
        if let Some(mixed) = self.mixed.take() {
            all.push(*mixed);
        } else if !self.before.is_empty()
            && A::extent(&base.came) == HistoryExtent::Whole
            && let Some(answer) = answer()
        {
            let key = key_of_answer(A::API, &context.scope, &A::turns(&base.came), &answer);
            let (before, whole) = (std::mem::take(&mut self.before), std::mem::take(&mut self.last));
            all.push((vec![key], Kept { before, whole, ..Kept::default() }));
        }
        all
    }

    /// Records a turn of which the application gets only its own calls, found by their keys.
    fn hide_turn(&mut self, keys: Vec<Key>, whole: Vec<String>, behind: Vec<String>) {
        let before = std::mem::take(&mut self.before);
        self.mixed = Some(Box::new((keys, Kept { before, whole, behind, lost: false })));
    }
}

/// Calls of one turn that toolmark runs.
struct Own {
    /// Tools, each with the index of its call in the turn.
    tools: Vec<(usize, OfferedTool)>,
    /// The smallest of their servers' limits of rounds.
    limit: u32,
}

impl Own {
    fn of(context: &Context, calls: &[(ValidCall, MarkTime)], mcp: &Mcp) -> Self {
        let runs = |(at, (call, _)): (usize, &(ValidCall, MarkTime))| Some((at, context.tools().runs(call.name())?.clone()));
        let tools: Vec<(usize, OfferedTool)> = calls.iter().enumerate().filter_map(runs).collect();
        let limit = tools.iter().filter_map(|(_, tool)| Some(mcp.servers().get(tool.server)?.settings.max_rounds)).min().unwrap_or(1);
        Self { tools, limit }
    }
}

/// Runs the calls of an accepted answer that are toolmark's to run. `spent`: the attempt's usage.
///
/// # Errors
/// [`Failure`] if the conversation can't be continued.
pub async fn run_own_calls<A: Adapter>(
    driver: &mut ExchangeDriver,
    mut finals: Vec<ChoiceOutcome>,
    said: Said,
    spent: Option<String>,
) -> Result<RoundOutcome, Failure> {
    let Some(mcp) = driver.app().mcp.clone() else { return Ok(RoundOutcome::End(finals)) };
    let [ChoiceOutcome::Accept(calls)] = &mut finals[..] else { return Ok(RoundOutcome::End(finals)) };
    let context = driver.context.clone();
    let own = Own::of(&context, calls, &mcp);
    if !driver.rounds.are_active() || (own.tools.is_empty() && !driver.rounds.hides()) {
        return Ok(RoundOutcome::End(finals));
    }
    if own.tools.is_empty() {
        let marks = A::marks(&said, calls, &context);
        let again = A::said_again(&said, &passed(calls, &marks), &context);
        if calls.is_empty() {
            driver.rounds.last = again;
        } else {
            // The application calls next: what came before is found by its calls.
            let keys = marks.iter().map(|mark| key_of_mark(A::API, &context.scope, mark)).collect();
            driver.rounds.hide_turn(keys, again, Vec::new());
        }
        return Ok(RoundOutcome::End(finals));
    }
    let outcomes = match driver.attempts.start_round(own.limit) {
        RoundPermit::Run => run_calls::<A>(driver, &mcp, &own, &said, calls).await?,
        RoundPermit::LimitReached => {
            let limit = own.limit;
            let message = format!("this was not run: the limit of {limit} rounds of calls is reached. Answer with what you have.");
            own.tools.iter().map(|_| ToolOutcome::failure(&message)).collect()
        }
        RoundPermit::LimitExceeded => {
            let tool = own.tools.first().map_or("", |(_, tool)| &tool.name);
            return Ok(RoundOutcome::End(vec![ChoiceOutcome::Replace(too_many_rounds(driver, own.limit, tool))]));
        }
    };
    // A call that was run for an attempt before has the moment that it had then.
    let marks = A::marks(&said, calls, &context);
    let again = A::said_again(&said, &passed(calls, &marks), &context);
    let results: Vec<String> =
        own.tools.iter().zip(&outcomes).filter_map(|((at, _), outcome)| Some(A::result(marks.get(*at)?, &outcome.text))).collect();
    driver.attempts.end_round(driver.clock.elapsed());
    if own.tools.len() < calls.len() {
        let theirs = calls.iter().zip(&marks).filter(|((call, _), _)| context.tools().runs(call.name()).is_none());
        let keys = theirs.map(|(_, mark)| key_of_mark(A::API, &context.scope, mark)).collect();
        driver.rounds.hide_turn(keys, again, results);
        return Ok(RoundOutcome::End(finals));
    }
    driver.attempts.spend(spent.as_deref());
    let count = results.len();
    let added: Vec<String> = again.into_iter().chain(results).collect();
    continue_with::<A>(driver, &added, count).await?;
    driver.rounds.before.extend(added);
    Ok(RoundOutcome::Again)
}

/// Runs the calls of one turn in parallel. Returns their outcomes.
async fn run_calls<A: Adapter>(
    driver: &mut ExchangeDriver,
    mcp: &Arc<Mcp>,
    own: &Own,
    said: &Said,
    calls: &mut [(ValidCall, MarkTime)],
) -> Result<Vec<ToolOutcome>, Failure> {
    let ExchangeDriver { worker, context, attempts, record, rounds, cassette, .. } = driver;
    let app = &worker.app;
    let marks = A::marks(said, calls, context);
    let asked = own.tools.iter().filter_map(|(at, tool)| {
        let ((call, moment), mark) = calls.get(*at).zip(marks.get(*at))?;
        Some((ToolCallRequest { mark: mark.as_str().into(), tool: tool.clone(), arguments: call.arguments().to_owned() }, *moment))
    });
    let asked: Vec<(ToolCallRequest, MarkTime)> = asked.collect();
    if let Some(outcomes) = cassette.recorded_calls(asked.iter().map(|(asked, _)| asked)) {
        return Ok(outcomes);
    }
    let identity = rounds.base.as_ref().map(|base| base.identity.clone()).unwrap_or_default();
    let mut dues: Vec<Due> = app.journal.due(app.recorder.shelf(), &identity, &mut rounds.ordinals, asked, app.now_ms()).await;
    for ((at, _), due) in own.tools.iter().zip(&dues) {
        if let Some((_, moment)) = calls.get_mut(*at).filter(|(_, moment)| *moment != due.moment()) {
            record.moved(*moment, due.moment());
            *moment = due.moment();
        }
    }
    if app.journal.begin(app.recorder.shelf(), &mut dues, app.now_ms()).await.is_err() {
        let message = "that calls begin can't be noted in the ledger: a request that comes again might run them again";
        let violation = context.rules.checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment");
        attempts.report(violation.clone());
        if let Some(violation) = violation.filter(Violation::blocks) {
            return Err(Failure { status: StatusCode::SERVICE_UNAVAILABLE, ..Refusal::of(&violation).into() });
        }
    }
    let outcomes = join_all(dues.into_iter().map(|due| idempotency::run(app.clone(), mcp.clone(), due))).await;
    let marks = A::marks(said, calls, context);
    for ((at, tool), outcome) in own.tools.iter().zip(&outcomes) {
        if let Some(((call, _), mark)) = calls.get(*at).zip(marks.get(*at)) {
            cassette.note_ran(mark, &tool.name, call.arguments(), outcome);
        }
    }
    Ok(outcomes)
}

/// Text of an answer that ends because of too many rounds; the violation is recorded.
fn too_many_rounds(driver: &mut ExchangeDriver, limit: u32, tool: &str) -> String {
    driver.attempts.block();
    let checks = &driver.context.rules.checks;
    let message = format!("tools were run in {limit} rounds, which is the limit, and `{tool}` was called again");
    let violation: Option<Violation> = checks.violation(Code::LoopDetected, Some(tool), message, "");
    let words = crate::judge::messages::ended(&violation.iter().collect::<Vec<_>>());
    driver.attempts.report(violation);
    words
}

/// Continues the exchange with these items appended to its request; `results`: number of results among them.
async fn continue_with<A: Adapter>(driver: &mut ExchangeDriver, added: &[String], results: usize) -> Result<(), Failure> {
    let broken = || Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the request with the tools' results can't be made");
    let body = A::append(driver.context.request(), added).ok_or_else(broken)?;
    let document = Document::parse(body).map_err(|_| broken())?;
    let earlier = driver.context.clone();
    let Some(base) = &driver.rounds.base else { return Err(broken()) };
    let own = basis(driver.app(), &base.standard, base.upstream, earlier.scope.clone(), earlier.tools().clone(), driver.app().now_ms());
    let mut begun = (base.prepare)(&document, Basis { id: earlier.id, beyond: base.beyond.clone(), ..own })?;
    if let Some(context) = begun.unshared() {
        context.text.ask_ledger = earlier.text.ask_ledger;
    }
    let Begun { context, body, violations, .. } = begun;
    let new: Vec<Violation> = violations.into_iter().filter(|own| !driver.attempts.findings().violations.contains(own)).collect();
    let refusal = new.iter().find(|own| own.blocks()).map(Refusal::of);
    driver.attempts.report(new);
    if let Some(refusal) = refusal {
        return Err(refusal.into());
    }
    for (moment, mark) in earlier.inquiry.marks() {
        context.inquiry.minted(moment, &mark);
    }
    (driver.body, driver.context) = (A::upstream(body.joined(), results, &context).into(), context);
    driver.state.forget();
    driver.check_results(earlier.executions.len()).await;
    Ok(())
}

/// Stores the rounds that the application doesn't see for its next request. `answer`: the text that it gets.
///
/// # Errors
/// 503 if they may be lost with this process and the policy blocks on that.
pub async fn store_hidden<A: Adapter>(driver: &mut ExchangeDriver, answer: impl FnOnce() -> Option<String>) -> Result<(), Failure> {
    let ExchangeDriver { worker, context, attempts, rounds, .. } = driver;
    if !rounds.are_active() {
        return Ok(());
    }
    let all = rounds.take_hidden::<A>(context, answer);
    let app = &worker.app;
    if app.kept.keep(app.recorder.shelf(), all, app.now_ms()).await.is_ok() {
        return Ok(());
    }
    let message = "the calls that toolmark ran itself can't be kept in the ledger: after a restart the history may lack them";
    let violation = context.rules.checks.violation(Code::LedgerUnavailable, None, message, "try again in a moment");
    attempts.report(violation.clone());
    match violation.filter(Violation::blocks) {
        Some(_) => Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::LedgerUnavailable.as_str(), message)),
        None => Ok(()),
    }
}

/// [`store_hidden`] for a stream, whose text was recorded.
///
/// # Errors
/// As [`store_hidden`].
pub async fn store_hidden_of_stream<A: Adapter>(driver: &mut ExchangeDriver) -> Result<(), Failure> {
    let text = std::mem::take(&mut driver.rounds.tap).text;
    store_hidden::<A>(driver, || text).await
}

/// True if an accepted answer consists only of calls that toolmark runs, and text.
pub fn runs_all(driver: &ExchangeDriver, finals: &[ChoiceOutcome]) -> bool {
    let [ChoiceOutcome::Accept(calls)] = finals else { return false };
    driver.rounds.are_active() && !calls.is_empty() && calls.iter().all(|(call, _)| driver.context.tools().runs(call.name()).is_some())
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
