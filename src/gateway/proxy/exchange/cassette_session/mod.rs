//! Recording, playback and fault injection around one exchange; inactive unless the settings ask for them.

mod calls;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Limited};
use uuid::Uuid;

use crate::{
    cassette::{
        faults::{self, FaultKind},
        format::{self, RecordedPolicy, RecordedToolRun},
        player::{self, CassetteMiss, CassettePlayer, MatchMode, RecordedMatch},
        recorder::{CaptureExtent, RecordingHandle},
    },
    exchange::{
        context::{Basis, Context},
        decision::ExchangeFindings,
    },
    marks::MarkTime,
    openai::Api,
    policy,
    proxy::{
        app::App,
        cassettes::Cassettes,
        http::failure::Failure,
        upstream::{
            Endpoint, SendFailure,
            pool::Outgoing,
            response::{Answer, AnswerBody, Disturbance},
        },
    },
    replay::rejudge::recorded,
    upstreams::retry::AttemptFailure,
    wire::{json::Document, rope::Rope},
};

/// Bytes of an answer after which `dropped_stream` breaks it off.
const DROPPED_AFTER: usize = 160;
/// Pause of `slow_stream` before each piece.
const SLOW: std::time::Duration = std::time::Duration::from_millis(400);

/// Recording and playback of one exchange.
#[derive(Default)]
pub struct CassetteSession {
    tape: Option<RecordingHandle>,
    playing: Playing,
    /// Number of calls that got a mark.
    marked: usize,
    moments: Vec<MarkTime>,
    /// Calls that toolmark ran, for the cassette.
    ran: Vec<RecordedToolRun>,
}

#[derive(Default)]
enum Playing {
    /// Nothing is played.
    #[default]
    No,
    /// This recorded exchange is played.
    Take(Arc<RecordedMatch>),
    /// The cassette has no matching exchange.
    Missed(CassetteMiss),
}

impl CassetteSession {
    /// Session of a request to `path` of the caller's API that goes to this upstream.
    pub fn new(cassettes: &Cassettes, upstream: usize, path: &str, body: &Bytes, tape: Option<RecordingHandle>) -> Self {
        let Some(player) = cassettes.player(upstream) else { return Self { tape, ..Self::default() } };
        let (tape, playing) = match player.find("POST", path, body) {
            Ok(take) => (tape.filter(|_| player.playing().mode != MatchMode::Passthrough), Playing::Take(take)),
            Err(_) if player.playing().mode == MatchMode::Passthrough => (tape, Playing::No),
            Err(miss) => (tape, Playing::Missed(miss)),
        };
        Self { tape, playing, ..Self::default() }
    }

    /// The recorded exchange that is played.
    pub fn take(&self) -> Option<&RecordedMatch> {
        match &self.playing {
            Playing::Take(take) => Some(take),
            Playing::No | Playing::Missed(_) => None,
        }
    }

    /// Inputs for judging; a played exchange has its recorded time and ID.
    pub fn basis<'b>(&self, basis: Basis<'b>) -> Basis<'b> {
        match self.take() {
            Some(take) => Basis { id: take.id, now_ms: take.at_ms, ..basis },
            None => basis,
        }
    }

    /// True if a cassette answers in place of the upstream, even if it has no match: then nothing is worth waiting for.
    pub fn plays(&self) -> bool {
        !matches!(self.playing, Playing::No)
    }

    /// Moment of the next call that is passed on. `live`: its source if nothing is played.
    pub fn moment(&mut self, live: impl FnOnce() -> MarkTime) -> MarkTime {
        let moment = self.take().map(|take| take.moment(self.marked)).unwrap_or_else(live);
        self.marked += 1;
        if self.tape.is_some() {
            self.moments.push(moment);
        }
        moment
    }

    /// Time at which the played exchange was recorded, in Unix milliseconds; `None` if nothing is played.
    pub fn recorded_ms(&self) -> Option<u64> {
        self.take().map(|take| take.at_ms)
    }

    /// Sends a request, plays a recorded answer, or injects a fault. An error has the kind of failure if a retry may help.
    ///
    /// # Errors
    /// [`Failure`] if no answer came.
    pub async fn send(&self, request: UpstreamRequest<'_>) -> Result<Answer, (Failure, Option<AttemptFailure>)> {
        let kind = request.fault();
        let tape = self.record_attempt(&request, kind);
        let (app, endpoint, body) = (request.app, request.endpoint, request.body.clone());
        let sent = match (kind.and_then(|kind| faulty(kind, &body.joined())), &self.playing) {
            (Some(made), _) => Ok(made),
            (None, Playing::Missed(CassetteMiss(why))) => Err((miss(why.clone()), None)),
            (None, Playing::Take(take)) => request.played(take),
            (None, Playing::No) => {
                let sent = endpoint.send(Method::POST, request.target, request.headers, request.body.into()).await;
                sent.map_err(|SendFailure { failed, failure }| (failure, Some(failed)))
            }
        };
        match sent {
            Ok(answer) => {
                let answer =
                    if kind == Some(FaultKind::WrongId) { with_wrong_ids(app, endpoint, answer, &body.joined()).await? } else { answer };
                let answer = recorded_answer(Ok(answer), &tape).map_err(|failure| (failure, None))?;
                let disturbance = kind.map_or(Disturbance::None, disturbance);
                Ok(if kind.is_none() { answer } else { answer.map(|body| body.disturbed(disturbance)) })
            }
            Err((failure, failed)) => recorded_answer(Err(failure), &tape).map_err(|failure| (failure, failed)),
        }
    }

    /// Records an upstream request.
    fn record_attempt(&self, request: &UpstreamRequest<'_>, fault: Option<FaultKind>) -> Option<(RecordingHandle, usize)> {
        let tape = self.tape.clone()?;
        let (tape, number) = record_attempt(tape, request.endpoint, &request.target, &request.headers, &request.body);
        if let Some(kind) = fault {
            tape.fault(number, kind.as_str());
        }
        Some((tape, number))
    }

    /// Adds the exchange's outcome to the recording, and ends it. `findings`: `None` if the application didn't wait for the end.
    pub fn finish_recording(&mut self, context: &Context, findings: Option<&ExchangeFindings>) {
        let Some(tape) = self.tape.take() else { return };
        if findings.is_some_and(|findings| tape.discard(findings.verdict())) {
            return;
        }
        let rules = &context.rules;
        let policy =
            RecordedPolicy { source: rules.source.to_string(), mode: mode(rules.policy.mode).into(), digest: rules.digest.to_string() };
        let verdict = findings.map(recorded);
        let moments = std::mem::take(&mut self.moments);
        let mcp = self.servers(context);
        tape.note(|raw| {
            raw.id = Some(context.id);
            raw.scope = Some(context.scope.clone());
            raw.policy = Some(policy);
            raw.verdict = verdict;
            raw.moments = moments;
            raw.mcp = mcp;
        });
    }
}

/// Records a request to an upstream. Returns the attempt's number with the handle.
pub(in crate::proxy) fn record_attempt(
    tape: RecordingHandle,
    endpoint: &Endpoint,
    target: &PathAndQuery,
    headers: &HeaderMap,
    body: &Rope,
) -> (RecordingHandle, usize) {
    let url = [&*endpoint.origin, target.as_str()].concat();
    let headers = match tape.extent() {
        CaptureExtent::Whole => headers.clone(),
        CaptureExtent::UnlessPassed => endpoint.own_header(),
    };
    let number = tape.attempt(&endpoint.settings.name, url, headers, body.clone());
    (tape, number)
}

/// Records what came of a request to an upstream: the answer, whose body is recorded as it is read, or an error.
pub(in crate::proxy) fn recorded_answer(sent: Result<Answer, Failure>, tape: &Option<(RecordingHandle, usize)>) -> Result<Answer, Failure> {
    let Some((tape, number)) = tape else { return sent };
    match sent {
        Ok(answer) => {
            tape.head(*number, answer.status().as_u16(), answer.headers());
            Ok(answer.map(|body| body.taped(Some((tape.clone(), *number)))))
        }
        Err(failure) => {
            tape.failed(*number, failure.status.as_u16(), failure.code, &failure.message);
            Err(failure)
        }
    }
}

/// One request to an upstream, or to what stands in for it.
pub struct UpstreamRequest<'r> {
    /// The process's state.
    pub app: &'r App,
    /// The upstream.
    pub endpoint: &'r Endpoint,
    /// Its index in `[[upstreams]]`.
    pub upstream: usize,
    /// Id of the exchange.
    pub exchange: Uuid,
    /// Number of the request in its exchange, from 0.
    pub number: usize,
    /// Number of repairs so far.
    pub repairs: u32,
    /// Path and query.
    pub target: PathAndQuery,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Rope,
}

impl UpstreamRequest<'_> {
    fn played(&self, take: &RecordedMatch) -> Result<Answer, (Failure, Option<AttemptFailure>)> {
        let Some(attempt) = take.attempt(self.number) else {
            let why = format!(
                "the recorded exchange {} has {} answers of a model, and toolmark asks once more: its policy or its checks differ from those of the recording",
                take.id,
                take.attempts()
            );
            return Err((miss(why), None));
        };
        if let Some(recorded) = &attempt.failure {
            let status = StatusCode::from_u16(recorded.status).unwrap_or(StatusCode::BAD_GATEWAY);
            let (code, failed) = match recorded.code.as_str() {
                "upstream_timeout" => ("upstream_timeout", AttemptFailure::Timeout),
                "upstream_protocol" => ("upstream_protocol", AttemptFailure::BrokenOff),
                _ => ("upstream_unreachable", AttemptFailure::Unreachable),
            };
            return Err((Failure::new(status, code, recorded.message.clone()), Some(failed)));
        }
        let Some(response) = &attempt.response else { return Err((no_answer(take), None)) };
        let pace = self.app.cassettes.player(self.upstream).map_or(player::PlaybackSpeed::None, |player| player.playing().pace);
        Ok(answer(response, pace))
    }

    /// Fault to inject into this attempt, if any.
    fn fault(&self) -> Option<FaultKind> {
        let kind = self.app.cassettes.fault(self.repairs)?;
        tracing::warn!(exchange = %self.exchange, fault = kind.as_str(), "FAULT on purpose: `{}`", kind.as_str());
        Some(kind)
    }
}

/// The answer with all call IDs replaced by one that is invalid.
async fn with_wrong_ids(
    app: &App,
    endpoint: &Endpoint,
    answer: Answer,
    request: &Bytes,
) -> Result<Answer, (Failure, Option<AttemptFailure>)> {
    let (parts, body) = answer.into_parts();
    let bytes_max = usize::try_from(app.settings.limits.response_bytes).unwrap_or(usize::MAX);
    let read = endpoint.read(Response::new(body), bytes_max).await.map_err(|failure| (failure, Some(AttemptFailure::BrokenOff)))?;
    let api = Document::parse(request.clone()).map_or(Api::Chat, |document| Api::of_request(&document));
    let text = faults::with_wrong_ids(&String::from_utf8_lossy(&read), api);
    Ok(Response::from_parts(parts, AnswerBody::played(vec![(0, text.into())], player::PlaybackSpeed::None, false)))
}

fn mode(mode: policy::PolicyMode) -> &'static str {
    match mode {
        policy::PolicyMode::Enforce => "enforce",
        policy::PolicyMode::Observe => "observe",
    }
}

/// Error if a cassette has no answer. Clients don't retry after a 404.
fn miss(why: String) -> Failure {
    tracing::error!("cassette: {why}");
    Failure::new(StatusCode::NOT_FOUND, "cassette_miss", why)
}

/// A recorded response as an answer.
fn answer(response: &format::RecordedResponse, pace: player::PlaybackSpeed) -> Answer {
    let mut answer = Response::new(AnswerBody::played(player::pieces(response), pace, response.cut));
    *answer.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in &response.headers {
        let of_transfer =
            ["content-length", "content-encoding", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str());
        if let (Ok(name), Ok(value), false) = (name.parse::<HeaderName>(), HeaderValue::from_str(value), of_transfer) {
            answer.headers_mut().append(name, value);
        }
    }
    if !answer.headers().contains_key(header::CONTENT_TYPE) {
        let streamed = response.body.as_ref().is_some_and(|body| crate::wire::sse::is_event_stream(&body.bytes()));
        let kind = if streamed { "text/event-stream" } else { "application/json" };
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    answer
}

/// The answer of a fault that replaces the upstream's.
fn faulty(kind: FaultKind, body: &Bytes) -> Option<Answer> {
    let document = Document::parse(body.clone()).ok()?;
    let made = faults::made(kind, Api::of_request(&document), &document)?;
    let pieces = made.answer.pieces.into_iter().map(|piece| (0, piece.into())).collect();
    let mut answer = Response::new(AnswerBody::played(pieces, player::PlaybackSpeed::None, false));
    *answer.status_mut() = StatusCode::from_u16(made.status).unwrap_or(StatusCode::BAD_GATEWAY);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(made.answer.content_type));
    if made.status == 429 {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Some(answer)
}

/// Disturbance of the upstream's answer by a fault.
fn disturbance(kind: FaultKind) -> Disturbance {
    match kind {
        FaultKind::DroppedStream => Disturbance::Drop(DROPPED_AFTER),
        FaultKind::SlowStream => Disturbance::Slow(SLOW),
        FaultKind::UnknownTool
        | FaultKind::MalformedArguments
        | FaultKind::ForgedCitation
        | FaultKind::WrongId
        | FaultKind::TooManyRequests => Disturbance::None,
    }
}

/// Plays the answer to a request that passes through unenforced. Returns the request's body, which was read for the match,
/// and the answer; `None` if the upstream is to be asked.
///
/// # Errors
/// [`Failure`] if the request wasn't recorded, or is longer than `bytes_max`.
pub(in crate::proxy) async fn passed(
    player: &CassettePlayer,
    method: &Method,
    path: &str,
    body: Outgoing,
    bytes_max: u64,
) -> Result<(Outgoing, Option<Answer>), Failure> {
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let unread =
        |_| Failure::new(StatusCode::BAD_REQUEST, "invalid_request", "the request's body broke off, or is too large to be compared");
    let body = Limited::new(body, bytes_max).collect().await.map_err(unread)?.to_bytes();
    let answer = match player.find(method.as_str(), path, &body) {
        Ok(take) => Some(take.response().map(|response| answer(response, player::PlaybackSpeed::None)).ok_or_else(|| no_answer(&take))?),
        Err(_) if player.playing().mode == MatchMode::Passthrough => None,
        Err(CassetteMiss(why)) => return Err(miss(why)),
    };
    Ok((Outgoing::Whole(body), answer))
}

fn no_answer(take: &RecordedMatch) -> Failure {
    miss(format!("the recorded exchange {} has no answer", take.id))
}
