//! One exchange, from the request to the response: the whole path, top to bottom.
//!
//! Waits and sends; judging and deciding are in [`crate::exchange`], the APIs' adapters and
//! [`crate::judge`].

pub mod attempt;
pub mod cassette_session;
pub mod driver;
pub(super) mod finish;
pub mod http_probe;
pub mod idempotency;
pub(super) mod ledger_checks;
pub(super) mod provider_extras;
pub(super) mod record_builder;
pub mod responses;
pub mod state_checks;
pub mod streaming;
pub mod tool_rounds;
pub(super) mod trace;
pub mod verifier;

use std::{pin::pin, sync::Arc};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use uuid::Uuid;

use super::upstream;
use crate::{
    cassette::recorder::RecordingHandle,
    chat::{
        adapter::Chat,
        request::{self, DEPTH_NOTED, Head},
    },
    exchange::{
        active_policy::Standard,
        adapter::{Adapter, AnswerStream as _, WholeAnswer as _},
        answer_error::Fault,
        attempts::NextStep,
        context::{Basis, Begun, Upstream},
        hidden_turns::RoundForm as _,
        request_error::Refusal,
        text::places::claims,
        tool_set::ToolSet,
        turn::EchoedTurn,
    },
    judge::loops::ExternalCounts,
    marks::Scope,
    openai::error::{Reported, masked},
    proxy::conversations::journal::Identity,
    proxy::{
        app::{App, Caller},
        helper_threads,
        http::{
            body::{Body, Outlet},
            error_response,
            failure::Failure,
        },
        server::admission::Held,
        upstream::{pool::Answer, select::Way, timeout::within},
        worker::Worker,
    },
    responses::stored::Ids,
    sys::clock::Began,
    violation::{Verdict, Violation},
    wire::json::{Document, Value},
};
use attempt::Downstream;
use cassette_session::Stage;
use driver::{Fetched, Reply, Run, Who};
use tool_rounds::{Next, Origin, Rounds};

/// Request that was read to its end.
pub struct Incoming {
    /// Request headers.
    pub headers: HeaderMap,
    /// Query string.
    pub query: Option<String>,
    /// Request body.
    pub body: Bytes,
    /// Caller of the request.
    pub caller: Caller,
    /// Time at which the head of the request was read.
    pub started: Began,
    /// Recording of the exchange, if it is recorded.
    pub tape: Option<RecordingHandle>,
    /// The request's share of the limits, released on drop.
    pub held: Held,
}

/// Serves `POST /v1/chat/completions`.
pub async fn chat(worker: Arc<Worker>, incoming: Incoming) -> Response<Body> {
    match begin(worker, incoming).await {
        Ok((run, stream)) => drive::<Chat>(run, stream).await,
        Err(failure) => failure.response(),
    }
}

/// Prepares an exchange: everything before the first byte goes upstream.
async fn begin(worker: Arc<Worker>, incoming: Incoming) -> Result<(Box<Run>, bool), Failure> {
    let Incoming { headers, query, body, caller, started, tape, held } = incoming;
    let app = worker.app.clone();
    let standard = app.standard(&caller).clone();
    let who = Who::of(app.client_name(&caller), &headers);
    helper_threads::step_for(body.len()).await;
    let came = read(body, &standard, DEPTH_NOTED)?;
    let restored = app.kept.restore::<Chat>(app.recorder.shelf(), &standard, &came, &caller.scope, app.now_ms()).await;
    helper_threads::step_for(came.bytes().len()).await;
    let document = restored.body.map(|body| read(body, &standard, DEPTH_NOTED)).transpose()?.unwrap_or_else(|| came.clone());
    let head = Head::read(&document)?;
    tool_rounds::check(&standard, head.choices)?;
    let model = head.model.clone().into_owned();
    let identity = || Identity::of(&caller.scope, Chat::API.path(), &headers, came.bytes());
    let identity = if app.settings.runs_tools() { identity() } else { Identity::default() };
    let way = Way::new(&worker, Chat::API, &model, query, headers)?;
    let rules = &standard.rules;
    if standard.tools.takes_long(&head.brought()) {
        helper_threads::step().await;
    }
    let tools = standard.tools.get(head.brought(), &rules.policy, &rules.checks, &app.schemas)?;
    let stream = head.stream;
    let stage = Stage::new(&app.cassettes, way.upstream(), Chat::API.path(), came.bytes(), tape);
    let basis = stage.basis(Basis {
        beyond: app.loops.beyond(|| app.recorder.scope(&caller.scope), who.session.as_deref()),
        ..basis(&app, &standard, worker.endpoints[way.upstream()].chat, caller.scope, tools)
    });
    let rounds = Rounds::of(&standard, || Origin {
        standard: standard.clone(),
        upstream: basis.upstream,
        beyond: basis.beyond.clone(),
        came: came.clone(),
        identity,
        again: Box::new(|document, basis| request::begin(document, &Head::read(document)?, basis)),
        tap: Chat::tap,
    });
    let Begun { context, body, mut violations } = request::begin(&document, &head, basis)?;
    violations.extend(restored.violations);
    let mut run = Run::new(worker, way, context, violations, model, body, stream, started, who, held);
    run.stage = stage;
    run.rounds = rounds;
    Ok((run, stream))
}

/// Parses a request's JSON, skipping tools that were parsed before. `depth`: depth down to which members are indexed.
pub(super) fn read(body: Bytes, standard: &Standard, depth: usize) -> Result<Document, Failure> {
    let recent = standard.tools.recent();
    let known: Vec<&[u8]> = recent.iter().map(|(array, _)| &array[..]).collect();
    let invalid = |error| Failure::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the request is {error}"));
    Document::parse_noting(body, depth, &known).map_err(invalid)
}

/// Inputs for judging an exchange that begins now.
pub(super) fn basis<'b>(app: &'b App, standard: &'b Standard, upstream: Upstream, scope: Scope, tools: Arc<ToolSet>) -> Basis<'b> {
    Basis {
        id: Uuid::now_v7(),
        rules: &standard.rules,
        call_rules: &standard.calls,
        natures: &standard.natures,
        text: &standard.text,
        ring: &app.ring,
        scope,
        tools,
        now_ms: app.now_ms(),
        upstream,
        protocol: standard.protocol.as_deref(),
        held_bytes_max: usize::try_from(app.settings.limits.held_bytes).unwrap_or(usize::MAX),
        beyond: ExternalCounts::default(),
    }
}

/// Result of an exchange.
enum Served {
    /// Complete response.
    Whole(Response<Body>),
    /// Answer that streams.
    Stream(Answer),
}

/// Serves a prepared request.
pub(super) async fn drive<A: Adapter>(mut run: Box<Run>, stream: bool) -> Response<Body> {
    match serve::<A>(&mut run, stream).await {
        Served::Whole(response) => {
            let response = run.committed(response).await;
            run.end_behind();
            response
        }
        Served::Stream(response) => streamed::<A>(run, response),
    }
}

/// Judges an answer that was requested earlier and is fetched now: it is never repaired.
pub(super) async fn fetched<A: Adapter>(mut run: Box<Run>, answer: Answer, fetched: Fetched) -> Response<Body> {
    run.fetched = Some(fetched);
    run.attempts.end_repairs();
    run.rounds = Rounds::default();
    run.witness().await;
    if upstream::is_event_stream(answer.headers()) {
        return streamed::<A>(run, answer);
    }
    let response = match whole::<A>(&mut run, answer, false).await {
        Ok(Some(response)) => response,
        // INVARIANT: without repairs and rounds nothing is asked again.
        Ok(None) => fail(&mut run, &Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the answer can't be judged")),
        Err(failure) => {
            run.refused(&failure);
            fail(&mut run, &failure)
        }
    };
    let response = run.committed(response).await;
    run.end_behind();
    response
}

async fn serve<A: Adapter>(run: &mut Run, stream: bool) -> Served {
    run.witness().await;
    let context = run.context.clone();
    if let Some(violation) = run.attempts.refusal(&context) {
        return Served::Whole(fail(run, &Refusal::of(&violation).into()));
    }
    run.step().await;
    loop {
        let reply = run.attempt(Downstream::Nothing).await;
        match reply {
            Ok(Reply::Answer(response)) if stream && upstream::is_event_stream(response.headers()) => return Served::Stream(response),
            Ok(Reply::Answer(mut response)) => {
                if stream {
                    match Box::pin(is_unnamed_stream(run, &mut response)).await {
                        Ok(true) => return Served::Stream(response),
                        Ok(false) => {}
                        Err(failure) => return Served::Whole(fail(run, &failure)),
                    }
                }
                match whole::<A>(run, response, stream).await {
                    Ok(Some(response)) => return Served::Whole(response),
                    Ok(None) => {}
                    Err(failure) => return Served::Whole(fail(run, &failure)),
                }
            }
            Ok(Reply::Error(status, headers, body)) => return Served::Whole(passed(run, status, headers, body)),
            Ok(Reply::FailedCall(turn)) => match rejected_call::<A>(run, turn, stream) {
                Ok(Some(response)) => return Served::Whole(response),
                Ok(None) => {}
                Err(failure) => return Served::Whole(fail(run, &failure)),
            },
            Err(failure) => return Served::Whole(fail(run, &failure)),
        }
    }
}

/// True if the answer is an event stream although its `Content-Type` doesn't say so; the header is then corrected.
async fn is_unnamed_stream(run: &mut Run, response: &mut Answer) -> Result<bool, Failure> {
    let endpoint = run.endpoint();
    let read = within(endpoint.settings.timeouts.idle, pin!(response.body_mut().begins_with_events())).await;
    let events = endpoint.in_time(read)?;
    if events {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    }
    Ok(events)
}

fn fail(run: &mut Run, failure: &Failure) -> Response<Body> {
    // What could not be judged never counts as passed.
    if failure.is_of_upstream() {
        run.attempts.fail();
    } else {
        run.attempts.block();
    }
    let mut response = failure.response();
    run.mark_headers(response.headers_mut(), true);
    run.finish(failure.status);
    response
}

/// Handles a call of the model that the upstream rejected: the response, or `None` if the model is to be asked again.
fn rejected_call<A: Adapter>(run: &mut Run, turn: EchoedTurn, stream: bool) -> Result<Option<Response<Body>>, Failure> {
    match run.decide_rejected_call(turn) {
        NextStep::Repair(turn) => run.ask_again::<A>(&turn, None).map(|()| None),
        NextStep::Replace { text, .. } => Ok(Some(made_answer::<A>(run, &text, stream))),
        NextStep::Refuse { violation, .. } => Err(unprocessable(&violation)),
        // INVARIANT: nothing was accepted.
        NextStep::Finish(_) | NextStep::RunTools(_) => Err(Failure::protocol(&run.endpoint().settings.name, "no call")),
    }
}

/// HTTP 422 for a blocking violation of an answer.
pub(super) fn unprocessable(violation: &Violation) -> Failure {
    Failure { param: None, status: StatusCode::UNPROCESSABLE_ENTITY, ..Refusal::of_answer(violation).into() }
}

fn passed(run: &mut Run, status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    run.mark_passed(response.headers_mut(), status);
    run.finish(status);
    response
}

/// Judges a buffered answer: the response, or `None` if the model is to be asked again.
async fn whole<A: Adapter>(run: &mut Run, response: Answer, stream: bool) -> Result<Option<Response<Body>>, Failure> {
    let begun = run.waits(run.seen);
    let (status, headers) = (response.status(), run.endpoint().downstream_headers(response.headers(), true));
    let name = run.endpoint().settings.name.clone();
    if upstream::is_event_stream(response.headers()) {
        return Err(Failure::protocol(&name, "it is a stream, which wasn't asked for"));
    }
    let bytes_max = usize::try_from(run.worker.app.settings.limits.response_bytes).unwrap_or(usize::MAX);
    let mut weight = run.worker.app.load.weight();
    let body = run.endpoint().read_weighed(response, bytes_max, |bytes| weight.grow(bytes)).await?;
    run.waited(begun);
    run.step().await;
    let body = if body.starts_with("\u{feff}".as_bytes()) { body.slice('\u{feff}'.len_utf8()..) } else { body };
    let context = run.context.clone();
    run.step_aside(body.len()).await;
    let (answer, mut judged) = match run.judge_whole::<A>(&body).await {
        Ok(read) => read,
        Err(_) if context.observes() => {
            run.note_owned(Ids::of(&body));
            run.attempts.not_judged(&context);
            return Ok(Some(passed(run, status, headers, body)));
        }
        // Boxed, as what is rare and large would make every exchange as large.
        Err(Fault::Reported(json)) => return Box::pin(reported::<A>(run, &json, headers, stream)).await,
        Err(fault @ (Fault::Json(_) | Fault::Shape(_) | Fault::Unknown(_) | Fault::Cut)) => {
            return Err(Failure::protocol(&name, fault));
        }
    };
    let text = run.has_state_rules().then(|| answer.said(0).text);
    run.check_state(&mut judged, text).await;
    if let Some(verifier) = run.verifier(&judged) {
        Box::pin(run.verify(verifier, &mut judged, answer.said(0).text)).await;
    }
    run.learn(&judged);
    run.notes.usage(answer.usage());
    let finished = match run.decide(judged, |at| answer.said(at)) {
        NextStep::Repair(turn) => {
            run.ask_again::<A>(&turn, answer.usage().map(Value::raw_str))?;
            return Ok(None);
        }
        NextStep::Refuse { violation, rejected } => {
            rejected.iter().for_each(|turn| run.reject(turn));
            return Err(unprocessable(&violation));
        }
        NextStep::Replace { text, .. } => return Ok(Some(made_answer::<A>(run, &text, stream))),
        NextStep::Finish(finished) | NextStep::RunTools(finished) => finished,
    };
    if !run.attempts.findings().blocked {
        run.record_hosted(|| answer.said(0));
    }
    let mut finals = run.finals(finished);
    if run.rounds.begun() {
        let spent = answer.usage().map(|usage| usage.raw_str().to_owned());
        finals = match Box::pin(run.own_calls::<A>(finals, answer.said(0), spent)).await? {
            Next::Again => return Ok(None),
            Next::End(finals) => finals,
        };
    }
    run.keep_beside(&finals, |at| answer.said(at));
    let verdict = (run.attempts.findings().verdict() != Verdict::Pass).then(|| run.attempts.findings().json());
    if context.observes() {
        run.note_owned(Ids::of(&body));
    }
    let written = answer.write(finals, &context, run.attempts.take_usage(), verdict.as_deref());
    run.remember(written.memo);
    run.keep_rounds::<A>(|| A::text_of(&written.body)).await?;
    Ok(Some(passed(run, status, headers, written.body)))
}

/// Handles an error that came with status 200: it is repaired, retried, or passed on with the status that it contains.
async fn reported<A: Adapter>(run: &mut Run, json: &str, headers: HeaderMap, stream: bool) -> Result<Option<Response<Body>>, Failure> {
    let name = run.endpoint().settings.name.clone();
    let error = Reported::read(json.as_bytes()).ok_or_else(|| Failure::protocol(&name, "an error without a message"))?;
    if let Some(turn) = run.failed_call(&error) {
        return rejected_call::<A>(run, turn, stream);
    }
    if let Some(status) = error.status
        && run.asks_again(status).await
    {
        return Ok(None);
    }
    let status = error.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::BAD_GATEWAY);
    let body = Bytes::from(error.judged_envelope(|text| claims(&run.context, text)));
    let body = run.endpoint().own_key().map_or(body.clone(), |key| masked(body, key));
    let mut response = error_response::json(status, Body::Whole(body));
    for (name, value) in &headers {
        if name != header::CONTENT_TYPE {
            response.headers_mut().append(name, value.clone());
        }
    }
    run.mark_passed(response.headers_mut(), status);
    run.finish(status);
    Ok(Some(response))
}

fn streamed<A: Adapter>(run: Box<Run>, response: Answer) -> Response<Body> {
    let outlet = Outlet::default();
    let status = response.status();
    let mut headers = run.endpoint().downstream_headers(response.headers(), true);
    run.mark_headers(&mut headers, false);
    let body = Body::running(outlet.clone(), streaming::stream::<A>(run, response, outlet));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Answer in toolmark's own words, if the upstream's can't be used.
fn made_answer<A: Adapter>(run: &mut Run, words: &str, stream: bool) -> Response<Body> {
    let verdict = run.attempts.findings().json();
    let made = run.made(words, &verdict);
    let (body, kind) = if stream {
        let mut out = BytesMut::new();
        let memo = A::Stream::new(run.context.clone(), None).explain(&made, &mut out);
        run.remember_without_answer(memo);
        (out.freeze(), "text/event-stream")
    } else {
        (A::words(&made, &run.context), "application/json")
    };
    let mut response = Response::new(Body::Whole(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    run.mark_headers(response.headers_mut(), true);
    run.finish(StatusCode::OK);
    response
}
