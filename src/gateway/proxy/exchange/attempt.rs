//! Upstream requests of one exchange, until there is a reply that the exchange can go on with.
//!
//! Which upstream is asked, how often and after which pause is in [`crate::proxy::upstream::select`]; this file sends. Everything is
//! bounded by the exchange's `max_attempts` and `repair_deadline`.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{cassette_session::UpstreamRequest, driver::ExchangeDriver};
use crate::{
    exchange::turn::EchoedTurn,
    openai::error::{Reported, enveloped, masked},
    proxy::upstream::BodyPassage,
    proxy::{
        http::{error_response, failure::Failure},
        upstream::{self, pool::Answer, select::BreakerPermit, status},
    },
    upstreams::breaker::RequestRole,
    upstreams::retry::{self, AttemptFailure},
    wire::rope::Rope,
};

/// Header by which OpenAI's clients, and others, mark the retries of one request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Reply of an upstream.
pub enum Reply {
    /// Head of an answer.
    Answer(Answer),
    /// Error of the upstream, to be passed on.
    Error(StatusCode, HeaderMap, Bytes),
    /// The upstream itself rejected the model's call (Groq's `tool_use_failed`).
    FailedCall(EchoedTurn),
}

/// State of the response to the client. Once a byte was sent, no request is repeated or sent to another upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Downstream {
    /// Nothing was sent.
    Nothing,
    /// Part of the response was sent.
    Begun,
}

/// Outcome of one request, and the kind of failure if a retry may help.
type Sent = (Result<Reply, Failure>, Option<AttemptFailure>);

/// Sends the request as it stands, with retries and fallbacks, until there is a reply that the exchange can go on with, and the ledger has
/// said what it was asked of the request's results.
///
/// # Errors
/// [`Failure`] if no reply came that could be passed on.
pub async fn send(driver: &mut ExchangeDriver, downstream: Downstream) -> Result<Reply, Failure> {
    let reply = send_until_reply(driver, downstream).await;
    driver.settle_results().await;
    reply
}

async fn send_until_reply(driver: &mut ExchangeDriver, downstream: Downstream) -> Result<Reply, Failure> {
    let (selection, request) = driver.selecting();
    let mut permit = match selection.is_chosen() {
        true => selection.permit(&request.worker.app),
        false => selection.choose(0, request).await?,
    };
    loop {
        let (outcome, failed) = send_once(driver, &mut permit).await;
        let Some(failed) = failed else { return outcome };
        if downstream == Downstream::Begun {
            return outcome;
        }
        match recover(driver, failed, permit.role()).await {
            Some(next) => permit = next,
            None => return outcome,
        }
    }
}

/// Prepares a retry after an answer with status 200 that contains an error of this status. True if [`send`] is to be called again.
pub async fn retries_after(driver: &mut ExchangeDriver, status: u16) -> bool {
    let failed = AttemptFailure::Status(status, None);
    if !failed.passes() || driver.attempts.is_final() {
        return false;
    }
    driver.selecting().0.note_error_in_answer();
    recover(driver, failed, RequestRole::Regular).await.is_some()
}

/// Permit for the next request after a failed one, if there is to be one. The pause before it isn't toolmark's own time.
async fn recover(driver: &mut ExchangeDriver, failed: AttemptFailure, role: RequestRole) -> Option<BreakerPermit> {
    driver.clock.start_wait();
    let (selection, request) = driver.selecting();
    let next = selection.recover(request, failed, role).await;
    let _pause = driver.clock.end_wait();
    next
}

/// Sends one request.
async fn send_once(driver: &mut ExchangeDriver, permit: &mut BreakerPermit) -> Sent {
    driver.step_aside(0).await;
    let (selection, request) = driver.selecting();
    let body = match selection.outgoing(request) {
        Ok(body) => body,
        Err(failure) => return (Err(failure), None),
    };
    selection.note_request();
    driver.attempts.start();
    let ExchangeDriver { selection, worker, context, model, attempts, clock, record, cassette, tracer, first_body, .. } = driver;
    let (app, endpoint) = (&worker.app, selection.endpoint(worker));
    record.attempt(&endpoint.settings.name, selection.model().unwrap_or(model), attempts.findings().violations.len());
    clock.start_wait();
    let wrong = || Failure::new(StatusCode::BAD_REQUEST, "invalid_path", "the query can't be passed on");
    let Some(target) = endpoint.enforced(selection.api_of(&endpoint.settings), selection.query()) else { return (Err(wrong()), None) };
    let sending = UpstreamRequest {
        app,
        endpoint,
        upstream: selection.upstream(),
        exchange: context.id,
        number: attempts.started().saturating_sub(1) as usize,
        repairs: attempts.findings().repairs,
        target,
        headers: with_own_key(tracer.attempt(app, selection.headers()), &body, first_body),
        body,
    };
    let sent_at = clock.read_at();
    let (outcome, failed) = match cassette.send(sending).await {
        Err((failure, failed)) => (Err(failure), failed),
        Ok(response) => {
            let asked = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let wait = retry::retry_after(asked("retry-after-ms"), asked(header::RETRY_AFTER.as_str()));
            let status = response.status().as_u16();
            record.status(status);
            if status == 401 && endpoint.own_key().is_some() {
                let (name, exchange) = (&endpoint.settings.name, context.id);
                tracing::warn!(%exchange, upstream = &**name, status, "upstream `{name}` refuses toolmark's own key: see its `api_key_env`");
            }
            let outcome = read_head(driver, response).await;
            let failed = match outcome {
                Ok(Reply::Error(..)) => Some(AttemptFailure::Status(status, wait)),
                // A redirect and the like: it would be none the next time, but another upstream may answer.
                Err(_) if !matches!(status, 200..=299 | 400..=599) => Some(AttemptFailure::Nonsense),
                Ok(Reply::Answer(_) | Reply::FailedCall(_)) | Err(_) => None,
            };
            (outcome, failed)
        }
    };
    driver.end_wait();
    let (selection, request) = driver.selecting();
    selection.report(request, permit, sent_at, failed);
    let failed = match (&outcome, failed) {
        (Ok(Reply::Error(status, _, body)), Some(failed)) => selection.learn_from_error(request, *status, body, failed),
        (_, failed) => failed,
    };
    (outcome, failed)
}

/// The headers with another `Idempotency-Key` if the body isn't the first one that was sent, as it is after a repair: under the caller's key
/// an upstream would play its first answer again, or refuse. The same request leads to the same keys, so that a caller's retry stays one.
fn with_own_key(mut headers: HeaderMap, body: &Rope, first: &mut Option<blake3::Hash>) -> HeaderMap {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return headers };
    let digest = blake3::hash(&body.joined());
    if *first.get_or_insert(digest) == digest {
        return headers;
    }
    let own = blake3::Hasher::new().update(key.as_bytes()).update(digest.as_bytes()).finalize().to_hex();
    match HeaderValue::from_str(&own) {
        Ok(own) => drop(headers.insert(IDEMPOTENCY_KEY, own)),
        Err(_) => drop(headers.remove(IDEMPOTENCY_KEY)),
    }
    headers
}

/// Reads the head of a response: an answer, or the error that it is.
async fn read_head(driver: &ExchangeDriver, response: Answer) -> Result<Reply, Failure> {
    let (selection, endpoint, context) = (&driver.selection, driver.endpoint(), &driver.context);
    endpoint.usable(status::Asked::Answer, selection.api_of(&endpoint.settings).path(), &response)?;
    if let Some(standing) = driver.app().standings.get(selection.upstream()) {
        standing.hear(&endpoint.settings, response.headers());
    }
    if upstream::is_encoded(response.headers()) {
        return Err(Failure::protocol(&endpoint.settings.name, "it is compressed, though that wasn't asked for"));
    }
    if upstream::is_answer(response.status()) {
        return Ok(Reply::Answer(response));
    }
    let (status, headers) = (response.status(), endpoint.downstream_headers(response.headers(), BodyPassage::MayChange));
    let body = endpoint.read(response, upstream::ERROR_BYTES_MAX).await?;
    let body = if endpoint.settings.fitting.wrap_errors && !context.observes() { enveloped(body) } else { body };
    let body = endpoint.own_key().map_or(body.clone(), |key| masked(body, key));
    let failed = Reported::read(&body).filter(|_| !context.observes()).and_then(|error| failed_call(driver, &error));
    let body = match selection.translation(&endpoint.settings) {
        Some(translation) => error_response::in_form_of(translation.downstream, body),
        None => body,
    };
    Ok(match failed {
        Some(turn) => Reply::FailedCall(turn),
        None => Reply::Error(status, headers, body),
    })
}

/// The turn with the rejected call, if the error reports that the upstream rejected one.
pub fn failed_call(driver: &ExchangeDriver, error: &Reported) -> Option<EchoedTurn> {
    EchoedTurn::of_failed_call(error, &driver.context.rules.checks)
}
