//! One exchange, from the request to the response: the whole path, top to bottom in the order in which it happens, down to the start of
//! the response; below that what happens where something is wrong, and responses that are fetched later.
//!
//! Waits and sends; judging and deciding are in [`crate::exchange`], the APIs' adapters and
//! [`crate::judge`].

pub mod attempt;
pub mod cassette_session;
pub(super) mod checks;
pub(super) mod clock;
pub(super) mod conversation;
pub mod count;
pub mod driver;
pub(super) mod finish;
pub mod http_probe;
pub mod idempotency;
pub(super) mod provider_extras;
pub(super) mod record_builder;
pub mod responses;
pub mod streaming;
pub mod tool_rounds;

use std::{pin::pin, sync::Arc};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use uuid::Uuid;

use super::upstream;
use crate::{
    cassette::recorder::RecordingHandle,
    exchange::{
        active_policy::Standard,
        adapter::{Adapter, AnswerStream as _, RequestHead as _, WholeAnswer as _, WholeConversation},
        attempts::NextStep,
        context::{Basis, Begun, JudgedChoice, Upstream},
        conversation::recalled::Recalled,
        conversation::request_prefix::{PrefixOwner, PrefixUse, SharedPrefix},
        error::{Fault, Refusal},
        text::places::claims,
        tool_set::ToolSet,
        turn::EchoedTurn,
    },
    judge::loops::ExternalCounts,
    marks::Scope,
    openai::error::{Reported, masked},
    proxy::conversations::{journal::Identity, recall::recall_for, replicated},
    proxy::upstream::BodyPassage,
    proxy::{
        app::{App, Caller},
        helper_threads,
        http::{
            body::{Body, Outlet},
            error_response,
            failure::Failure,
        },
        server::admission::Held,
        upstream::{pool::Answer, select::UpstreamSelection, timeout::within},
        worker::Worker,
    },
    sys::clock::Began,
    translate,
    violation::{Verdict, Violation},
    wire::json::{Document, TextMemory, Value},
};
use attempt::{Downstream, Reply};
use cassette_session::CassetteSession;
use conversation::Fetched;
use driver::{ExchangeDriver, PreparedRun};
use finish::VerdictState;
use record_builder::{CallerInfo, Delivery};
use tool_rounds::{RoundBase, RoundOutcome, ToolRounds};

/// Request that was read to its end.
pub struct Incoming {
    /// Request headers.
    pub headers: HeaderMap,
    /// Query string.
    pub query: Option<String>,
    /// Request body.
    pub body: Bytes,
    /// Memory of what is read from the body: its own, or a copy.
    pub place: TextMemory,
    /// Caller of the request.
    pub caller: Caller,
    /// Time at which the head of the request was read.
    pub started: Began,
    /// Recording of the exchange, if it is recorded.
    pub tape: Option<RecordingHandle>,
    /// The request's share of the limits, released on drop.
    pub held: Held,
}

/// Serves a request of an API whose requests contain the whole conversation.
pub async fn serve<A: WholeConversation>(worker: Arc<Worker>, incoming: Incoming) -> Response<Body> {
    match begin::<A>(worker, incoming).await {
        Ok(driver) => run::<A>(driver).await,
        Err(failure) => failure.response(A::API),
    }
}

/// Prepares an exchange: everything before the first byte goes upstream.
async fn begin<A: WholeConversation>(worker: Arc<Worker>, incoming: Incoming) -> Result<Box<ExchangeDriver>, Failure> {
    let Incoming { headers, query, body, place, caller, started, tape, held } = incoming;
    let app = worker.app.clone();
    let now_ms = app.now_ms();
    let standard = app.standard(&caller).clone();
    let info = CallerInfo::of(app.client_name(&caller), &headers);
    let owner = PrefixOwner { api: A::API, scope: caller.scope.clone(), rules: standard.rules.clone() };
    let (came, mut prefix) = read_known(&app, &owner, (body, place), tape.as_ref(), &standard, A::DEPTH_NOTED).await?;
    let restored = app.kept.restore::<A>(app.recorder.shelf(), &standard, &came, &caller.scope, now_ms).await;
    let document = match restored.body {
        Some(body) => {
            helper_threads::step_for(body.len()).await;
            // What was put back is no part of what came.
            prefix = PrefixUse::Off;
            read(body, &standard, A::DEPTH_NOTED)?
        }
        None => came.clone(),
    };
    let head = A::Head::read(&document)?;
    tool_rounds::check(&standard, head.choices())?;
    let model = head.model().to_owned();
    let identity = || Identity::of(&caller.scope, A::API.path(), &headers, came.bytes());
    let identity = if app.settings.runs_tools() { identity() } else { Identity::default() };
    let selection = UpstreamSelection::new(&worker, A::API, &model, query, headers)?;
    let rules = &standard.rules;
    let recalled = recall_for(&app, &standard, &caller.scope, &worker.endpoints[selection.upstream()], &head).await?;
    let further = recalled.tools_with(head.further_tools());
    if standard.tools.takes_long(&head.brought(&further)) {
        helper_threads::step().await;
    }
    let tools = standard.tools.get(head.brought(&further), &rules.policy, &rules.checks, &app.schemas)?;
    let delivery = Delivery::of(head.streams());
    let cassette = CassetteSession::new(&app.cassettes, selection.upstream(), A::API.path(), came.bytes(), tape);
    let basis = cassette.basis(Basis {
        beyond: app.loops.beyond(|| app.recorder.scope(&caller.scope), info.session.as_deref(), now_ms).await,
        prefix: prefix.clone(),
        ..basis(&app, &standard, worker.endpoints[selection.upstream()].chat, caller.scope, tools, now_ms)
    });
    let rounds = ToolRounds::of(&standard, || RoundBase {
        standard: standard.clone(),
        upstream: basis.upstream,
        beyond: basis.beyond.clone(),
        came: came.clone(),
        identity,
        prepare: Box::new(|document, basis| A::begin(document, &A::Head::read(document)?, &Recalled::default(), basis)),
        tap: A::tap,
    });
    let Begun { context, body, known, mut violations } = A::begin(&document, &head, &recalled, basis)?;
    violations.extend(restored.violations);
    if !worker.endpoints[selection.upstream()].settings.fitting.put_back.is_nothing() {
        let marks = context.executions.iter().map(|execution| &*execution.mark);
        if replicated::load_extras(&app, &context.scope, marks).await.is_err() {
            violations.extend(replicated::unavailable(&standard.rules.checks));
        }
    }
    let known = known.and_then(|known| app.prefixes.keep(known, prefix));
    Ok(ExchangeDriver::new(PreparedRun {
        worker,
        context,
        violations,
        body,
        known,
        model,
        delivery,
        caller: info,
        selection,
        cassette,
        rounds,
        began: started,
        held,
    }))
}

/// Parses a request's JSON as [`read`] does, but what it shares with an earlier request. From then on nothing holds a body that is copied,
/// the recording neither.
pub(super) async fn read_known(
    app: &App,
    owner: &PrefixOwner,
    (body, place): (Bytes, TextMemory),
    tape: Option<&RecordingHandle>,
    standard: &Standard,
    depth: usize,
) -> Result<(Document, PrefixUse), Failure> {
    let prefix = app.prefixes.find(owner, &body);
    helper_threads::step_for(body.len() - prefix.shared().map_or(0, SharedPrefix::len)).await;
    let read = read_behind((body.clone(), place), standard, depth, prefix);
    if let Some(tape) = tape.filter(|_| place == TextMemory::Copied) {
        tape.hold_body(read.as_ref().map_or_else(|_| place.of(body), |(document, _)| document.bytes().clone()));
    }
    read
}

fn read_behind(
    (body, place): (Bytes, TextMemory),
    standard: &Standard,
    depth: usize,
    prefix: PrefixUse,
) -> Result<(Document, PrefixUse), Failure> {
    let recent = standard.tools.recent();
    let known: Vec<&[u8]> = recent.iter().map(|(array, _)| &array[..]).collect();
    let invalid = |error| Failure::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the request is {error}"));
    prefix.parse(body, place, depth, &known).map_err(invalid)
}

/// Parses a request's JSON, skipping tools that were parsed before. `depth`: depth down to which members are indexed.
pub(super) fn read(body: Bytes, standard: &Standard, depth: usize) -> Result<Document, Failure> {
    Ok(read_behind((body, TextMemory::Kept), standard, depth, PrefixUse::Off)?.0)
}

/// Inputs for judging an exchange that begins now.
pub(super) fn basis<'b>(
    app: &'b App,
    standard: &'b Standard,
    upstream: Upstream,
    scope: Scope,
    tools: Arc<ToolSet>,
    now_ms: u64,
) -> Basis<'b> {
    Basis {
        id: Uuid::now_v7(),
        rules: &standard.rules,
        call_rules: &standard.calls,
        natures: &standard.natures,
        text: &standard.text,
        ring: &app.ring,
        scope,
        tools,
        schemas: &app.schemas,
        now_ms,
        upstream,
        protocol: standard.protocol.as_deref(),
        held_bytes_max: usize::try_from(app.settings.limits.held_bytes).unwrap_or(usize::MAX),
        beyond: ExternalCounts::default(),
        prefix: PrefixUse::Off,
    }
}

/// Result of an exchange.
enum Outcome {
    /// Complete response.
    Whole(Response<Body>),
    /// Answer that streams.
    Stream(Answer),
}

/// Serves a prepared request.
pub(super) async fn run<A: Adapter>(mut driver: Box<ExchangeDriver>) -> Response<Body> {
    match run_until_answer::<A>(&mut driver).await {
        Outcome::Whole(response) => driver.finish(response).await,
        Outcome::Stream(response) => start_stream::<A>(driver, response),
    }
}

/// Asks until there is a complete response, or an answer that streams.
async fn run_until_answer<A: Adapter>(driver: &mut ExchangeDriver) -> Outcome {
    driver.check_results(0).await;
    if let Some(violation) = driver.attempts.refusal(&driver.context) {
        return Outcome::Whole(fail(driver, &Refusal::of(&violation).into()));
    }
    driver.step().await;
    let streams = driver.delivery == Delivery::Stream;
    loop {
        let reply = attempt::send(driver, Downstream::Nothing).await;
        match reply {
            Ok(Reply::Answer(response)) if streams && upstream::is_event_stream(response.headers()) => return Outcome::Stream(response),
            Ok(Reply::Answer(mut response)) => {
                if streams {
                    match Box::pin(is_unnamed_stream(driver, &mut response)).await {
                        Ok(true) => return Outcome::Stream(response),
                        Ok(false) => {}
                        Err(failure) => return Outcome::Whole(fail(driver, &failure)),
                    }
                }
                match judge_buffered::<A>(driver, response).await {
                    Ok(Some(response)) => return Outcome::Whole(response),
                    Ok(None) => {}
                    Err(failure) => return Outcome::Whole(fail(driver, &failure)),
                }
            }
            Ok(Reply::Error(status, headers, body)) => return Outcome::Whole(pass_on(driver, status, headers, body)),
            Ok(Reply::FailedCall(turn)) => match replace_rejected_call::<A>(driver, turn) {
                Ok(Some(response)) => return Outcome::Whole(response),
                Ok(None) => {}
                Err(failure) => return Outcome::Whole(fail(driver, &failure)),
            },
            Err(failure) => return Outcome::Whole(fail(driver, &failure)),
        }
    }
}

/// True if the answer is an event stream although its `Content-Type` doesn't say so; the header is then corrected.
async fn is_unnamed_stream(driver: &mut ExchangeDriver, response: &mut Answer) -> Result<bool, Failure> {
    let endpoint = driver.endpoint();
    let read = within(endpoint.settings.timeouts.idle, pin!(response.body_mut().begins_with_events())).await;
    let events = endpoint.in_time(read)?;
    if events {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    }
    Ok(events)
}

/// Judges a buffered answer: the response, or `None` if the model is to be asked again.
async fn judge_buffered<A: Adapter>(driver: &mut ExchangeDriver, response: Answer) -> Result<Option<Response<Body>>, Failure> {
    driver.clock.resume_wait();
    let (status, headers) = (response.status(), driver.endpoint().downstream_headers(response.headers(), BodyPassage::MayChange));
    let name = driver.endpoint().settings.name.clone();
    if upstream::is_event_stream(response.headers()) {
        return Err(Failure::protocol(&name, "it is a stream, which wasn't asked for"));
    }
    let bytes_max = usize::try_from(driver.app().settings.limits.response_bytes).unwrap_or(usize::MAX);
    let mut weight = driver.app().load.weight();
    let body = driver.endpoint().read_weighed(response, bytes_max, |bytes| weight.grow(bytes)).await?;
    driver.end_wait();
    driver.step().await;
    let body = if body.starts_with("\u{feff}".as_bytes()) { body.slice('\u{feff}'.len_utf8()..) } else { body };
    let context = driver.context.clone();
    driver.step_aside(body.len()).await;
    let (answer, mut judged) = match read_and_judge::<A>(driver, &body).await {
        Ok(read) => read,
        Err(_) if context.observes() => {
            driver.note_owned(&body);
            driver.attempts.not_judged(&context);
            return Ok(Some(pass_on(driver, status, headers, body)));
        }
        // Boxed, as what is rare and large would make every exchange as large.
        Err(Fault::Reported(json)) => return Box::pin(handle_reported_error::<A>(driver, &json, headers)).await,
        Err(fault @ (Fault::Json(_) | Fault::Shape(_) | Fault::Unknown(_) | Fault::Cut)) => {
            return Err(Failure::protocol(&name, fault));
        }
    };
    let text = driver.has_state_rules().then(|| answer.said(0).text);
    driver.check_state(&mut judged, text).await;
    if let Some(verifier) = driver.verifier(&judged) {
        Box::pin(driver.verify(verifier, &mut judged, answer.said(0).text)).await;
    }
    driver.record.usage(answer.usage());
    let finished = match driver.decide(judged, |at| answer.said(at)) {
        NextStep::Repair(turn) => {
            driver.prepare_repair::<A>(&turn, answer.usage().map(Value::raw_str))?;
            return Ok(None);
        }
        NextStep::Refuse { violation, rejected } => {
            rejected.iter().for_each(|turn| driver.conversation.reject(A::rejected(&context, turn)));
            return Err(unprocessable(&violation));
        }
        NextStep::Replace { text, .. } => return Ok(Some(synthetic_response::<A>(driver, &text))),
        NextStep::Finish(finished) | NextStep::RunTools(finished) => finished,
    };
    driver.log_hosted_calls(|| answer.said(0));
    let mut finals = driver.with_moments(finished);
    if driver.rounds.are_active() {
        let spent = answer.usage().map(|usage| usage.raw_str().to_owned());
        finals = match Box::pin(tool_rounds::run_own_calls::<A>(driver, finals, answer.said(0), spent)).await? {
            RoundOutcome::Again => return Ok(None),
            RoundOutcome::End(finals) => finals,
        };
    }
    let extras = provider_extras::keep(driver.app(), driver.endpoint(), &context, &finals, |at| answer.said(at));
    driver.conversation.replicate(extras);
    let verdict = (driver.attempts.findings().verdict() != Verdict::Pass).then(|| driver.attempts.findings().json());
    if context.observes() {
        driver.note_owned(&body);
    }
    let written = answer.write(finals, &context, driver.attempts.take_usage(), verdict.as_deref());
    driver.store_conversation(written.memo);
    tool_rounds::store_hidden::<A>(driver, || A::text_of(&written.body)).await?;
    let mut response = pass_on(driver, status, headers, Bytes::new());
    *response.body_mut() = Body::weighed(written.body, weight);
    Ok(Some(response))
}

/// Reads and judges a buffered answer; again with the ledger's replies, if judging asks the ledger.
///
/// # Errors
/// [`Fault`] if the answer can't be read or judged.
async fn read_and_judge<A: Adapter>(driver: &ExchangeDriver, body: &Bytes) -> Result<(A::Answer, Vec<JudgedChoice>), Fault> {
    let context = &driver.context;
    loop {
        let (body, stray) = match driver.origin() {
            Some(origin) => translate::answer::watched(body, &origin, context)?,
            None => (body.clone(), false),
        };
        let mut answer = A::Answer::read(body, context)?;
        if stray {
            answer.note_stray();
        }
        let judged = answer.judge(context, driver.attempt_inputs());
        if !context.inquiry.is_open() {
            return Ok((answer, judged));
        }
        drop(answer);
        driver.ledger.answer_queries(driver.app(), context).await;
    }
}

/// Handles an error that came with status 200: it is repaired, retried, or passed on with the status that it contains.
async fn handle_reported_error<A: Adapter>(
    driver: &mut ExchangeDriver,
    json: &str,
    headers: HeaderMap,
) -> Result<Option<Response<Body>>, Failure> {
    let name = driver.endpoint().settings.name.clone();
    let error = Reported::read(json.as_bytes()).ok_or_else(|| Failure::protocol(&name, "an error without a message"))?;
    if let Some(turn) = attempt::failed_call(driver, &error) {
        return replace_rejected_call::<A>(driver, turn);
    }
    if let Some(status) = error.status
        && attempt::retries_after(driver, status).await
    {
        return Ok(None);
    }
    let status = error.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::BAD_GATEWAY);
    let body = Bytes::from(error.judged_envelope(|text| claims(&driver.context, text)));
    let body = driver.endpoint().own_key().map_or(body.clone(), |key| masked(body, key));
    let mut response = error_response::json(status, Body::Whole(error_response::in_form_of(driver.selection.api(), body)));
    for (name, value) in &headers {
        if name != header::CONTENT_TYPE {
            response.headers_mut().append(name, value.clone());
        }
    }
    driver.set_headers_of(response.headers_mut(), status);
    driver.record.finish(status);
    Ok(Some(response))
}

/// Answer in toolmark's own words, if the upstream's can't be used.
fn synthetic_response<A: Adapter>(driver: &mut ExchangeDriver, words: &str) -> Response<Body> {
    let verdict = driver.attempts.findings().json();
    let made = driver.synthetic(words, &verdict);
    let (body, kind) = if driver.delivery == Delivery::Stream {
        let mut out = BytesMut::new();
        let memo = A::Stream::new(driver.context.clone(), None).explain(&made, &mut out);
        driver.store_conversation_without_answer(memo);
        (out.freeze(), "text/event-stream")
    } else {
        (A::words(&made, &driver.context), "application/json")
    };
    let mut response = Response::new(Body::Whole(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    driver.set_headers(response.headers_mut(), VerdictState::Final);
    driver.record.finish(StatusCode::OK);
    response
}

fn pass_on(driver: &mut ExchangeDriver, status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    driver.set_headers_of(response.headers_mut(), status);
    driver.record.finish(status);
    response
}

/// Handles a call of the model that the upstream rejected: the response, or `None` if the model is to be asked again.
fn replace_rejected_call<A: Adapter>(driver: &mut ExchangeDriver, turn: EchoedTurn) -> Result<Option<Response<Body>>, Failure> {
    match driver.decide_rejected_call(turn) {
        NextStep::Repair(turn) => driver.prepare_repair::<A>(&turn, None).map(|()| None),
        NextStep::Replace { text, .. } => Ok(Some(synthetic_response::<A>(driver, &text))),
        NextStep::Refuse { violation, .. } => Err(unprocessable(&violation)),
        // INVARIANT: nothing was accepted.
        NextStep::Finish(_) | NextStep::RunTools(_) => Err(Failure::protocol(&driver.endpoint().settings.name, "no call")),
    }
}

/// Starts the response to an answer that streams; the rest is in [`streaming`].
fn start_stream<A: Adapter>(driver: Box<ExchangeDriver>, response: Answer) -> Response<Body> {
    let outlet = Outlet::default();
    let status = response.status();
    let mut headers = driver.endpoint().downstream_headers(response.headers(), BodyPassage::MayChange);
    driver.set_headers(&mut headers, VerdictState::Pending);
    let body = Body::running(outlet.clone(), streaming::stream::<A>(driver, response, outlet));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Judges an answer that was requested earlier and is fetched now: it is never repaired.
pub(super) async fn run_fetched<A: Adapter>(mut driver: Box<ExchangeDriver>, answer: Answer, fetched: Fetched) -> Response<Body> {
    driver.conversation.fetch(fetched);
    driver.attempts.end_repairs();
    driver.rounds = ToolRounds::default();
    driver.delivery = Delivery::Whole;
    driver.check_results(0).await;
    driver.settle_results().await;
    if upstream::is_event_stream(answer.headers()) {
        return start_stream::<A>(driver, answer);
    }
    let response = match judge_buffered::<A>(&mut driver, answer).await {
        Ok(Some(response)) => response,
        // INVARIANT: without repairs and rounds nothing is asked again.
        Ok(None) => fail(&mut driver, &Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the answer can't be judged")),
        Err(failure) => {
            driver.refuse_fetched(&failure);
            fail(&mut driver, &failure)
        }
    };
    driver.finish(response).await
}

fn fail(driver: &mut ExchangeDriver, failure: &Failure) -> Response<Body> {
    // What could not be judged never counts as passed.
    if failure.is_of_upstream() {
        driver.attempts.fail();
    } else {
        driver.attempts.block();
    }
    let mut response = failure.response(driver.selection.api());
    driver.set_headers(response.headers_mut(), VerdictState::Final);
    driver.record.finish(failure.status);
    response
}

/// HTTP 422 for a blocking violation of an answer.
pub(super) fn unprocessable(violation: &Violation) -> Failure {
    Failure { param: None, status: StatusCode::UNPROCESSABLE_ENTITY, ..Refusal::of_answer(violation).into() }
}
