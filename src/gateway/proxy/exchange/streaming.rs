//! A streamed answer, from the first event to `[DONE]`, including repairs inside the same stream.
//!
//! Runs inside the response body ([`crate::proxy::http::body`]): dropped with it when the client goes away.

use std::{pin::Pin, time::Duration};

use bytes::BytesMut;
use http::StatusCode;

use super::{
    attempt::{self, Downstream, Reply},
    checks::verifier,
    driver::ExchangeDriver,
    provider_extras,
    tool_rounds::{self, RoundOutcome},
    unprocessable,
};
use crate::{
    exchange::{
        adapter::{Adapter, AnswerStream, End},
        attempts::NextStep,
        context::JudgedChoice,
        decision::ChoiceOutcome,
        error::Fault,
        text::places::claims,
        turn::EchoedTurn,
    },
    openai::error::{Reported, masked},
    proxy::{
        http::{body::Outlet, failure::Failure},
        server::error_key_removal,
        upstream::{self, pool::Answer},
    },
    translate::{
        answer::stream::StreamTranslator,
        sse_feed::{Reader, Unread},
    },
    violation::Verdict,
    wire::sse,
};

/// Interval of what keeps a waiting client's connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Factor of `limits.response_bytes` that bounds the memory for the held part of a stream.
const HELD_SHARE: usize = 4;
/// Change in bytes from which the memory permit is updated.
const WEIGHED: usize = 64 << 10;

/// Reason for which a stream ends before its answer does.
enum Broken {
    Fault(Fault),
    Failure(Failure),
    /// A call that the upstream rejected can't be repaired: the text instead of the answer.
    Exhausted(String),
    /// The upstream refused a further attempt: its error, JSON.
    Refused(String),
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Serves the stream that starts with `response`.
pub async fn stream<A: Adapter>(mut driver: Box<ExchangeDriver>, response: Answer, outlet: Outlet) {
    let mut out = BytesMut::new();
    let mut judge = A::Stream::new(driver.context.clone(), None);
    let ended = attempts::<A>(&mut driver, response, &mut judge, &outlet, &mut out).await;
    let whole = ended.is_ok();
    let mut breaks = false;
    if let Err(Broken::Exhausted(words)) = ended {
        let verdict = driver.attempts.findings().json();
        let memo = judge.explain(&driver.synthetic(&words, &verdict), &mut out);
        driver.store_conversation_without_answer(memo);
        driver.record.finish(StatusCode::OK);
    } else if let Err(broken) = ended {
        if let Broken::Failure(failure) = &broken {
            driver.refuse_fetched(failure);
        }
        // An error that the upstream reports itself ends a stream as it would without toolmark. Any other ending must not
        // be taken for the end of an answer, also not by those who know nothing of errors in streams.
        breaks = !matches!(broken, Broken::Fault(Fault::Reported(_)));
        if !driver.attempts.findings().blocked {
            driver.attempts.fail();
        }
        let failure = failure_json(&driver, broken);
        // The status is long sent; the envelope is what clients still understand (docs/wire-facts.md#emission-rules).
        driver.record.finish(StatusCode::BAD_GATEWAY);
        if !driver.context.observes() {
            out.extend_from_slice(format!(": toolmark {}\n\n", driver.attempts.findings().json()).as_bytes());
        }
        judge.fail(&failure, &mut out);
    }
    driver.rounds.tap(&out);
    let kept = if whole { tool_rounds::store_hidden_of_stream::<A>(&mut driver).await } else { Ok(()) };
    let said = driver.attempts.findings().json();
    let committed = driver.wait_for_durability().await;
    // What is known this late is still said where the verdict stands.
    let now = driver.attempts.findings().json();
    if said != now && !driver.context.observes() {
        let (said, now) = (format!(": toolmark {said}\n"), format!(": toolmark {now}\n"));
        if let Some(at) = memchr::memmem::rfind(&out, said.as_bytes()) {
            let rest = out.split_off(at).split_off(said.len());
            out.extend_from_slice(now.as_bytes());
            out.extend_from_slice(&rest);
        }
    }
    if let Err(failure) = kept.and(committed) {
        driver.attempts.block();
        out.clear();
        judge.fail(&failure.json(), &mut out);
        breaks = true;
    }
    hide_key(&driver, &mut out);
    outlet.write(&mut out);
    if breaks {
        outlet.break_off();
    }
    driver.finish_in_background();
}

async fn attempts<A: Adapter>(
    driver: &mut ExchangeDriver,
    first: Answer,
    judge: &mut A::Stream,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<(), Broken> {
    let mut response = first;
    loop {
        let ended = read::<A>(driver, response, judge, outlet, out).await;
        driver.step_aside(driver.received).await;
        let concluded = match ended {
            Ok(()) => conclude::<A>(driver, judge).await,
            Err(broken) => Err(broken),
        };
        let turn = match concluded {
            Ok(judged) => match settle::<A>(driver, judge, judged, outlet, out).await? {
                Settled::Ended => return Ok(()),
                Settled::AskOn => None,
                Settled::Repair(turn) => Some(turn),
            },
            Err(Broken::Fault(Fault::Reported(json))) => Some(failed_call(driver, json)?),
            Err(broken) => return Err(broken),
        };
        if judge.released() {
            driver.attempts.text_sent();
        }
        if let Some(turn) = turn {
            driver.prepare_repair::<A>(&turn, judge.usage())?;
        }
        leave(driver, outlet, out);
        response = next_attempt::<A>(driver, outlet).await?;
        *judge = A::Stream::new(driver.context.clone(), Some(judge));
    }
}

/// Reads one attempt's events until the answer is complete.
async fn read<A: Adapter>(
    driver: &mut ExchangeDriver,
    mut response: Answer,
    judge: &mut A::Stream,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<(), Broken> {
    driver.clock.start_wait();
    let name = driver.endpoint().settings.name.clone();
    let idle_max = driver.endpoint().settings.timeouts.idle;
    let mut left = usize::try_from(driver.app().settings.limits.response_bytes).unwrap_or(usize::MAX);
    // Events that wait take a multiple of what they took on the wire.
    let held_max = left.saturating_mul(HELD_SHARE);
    let (mut weight, mut weighed) = (driver.app().load.weight(), 0_usize);
    let mut reader = Reader::new(
        driver.origin().map(|origin| StreamTranslator::new(origin, driver.context.held_bytes_max).watched(driver.context.clone())),
    );
    // One timer for the whole stream: set anew when it rings, not with every chunk.
    let tick = KEEP_ALIVE.min(idle_max / 2).max(Duration::from_millis(1));
    let timer = tokio::time::sleep(tick);
    tokio::pin!(timer);
    let mut quiet = Duration::ZERO;
    while !reader.done() {
        let chunk = tokio::select! {
            biased;
            chunk = response.body_mut().chunk() => chunk,
            () = &mut timer => {
                quiet += tick;
                if quiet > idle_max {
                    return Err(Failure::timeout(&name, "its stream stopped coming").into());
                }
                timer.as_mut().reset(tokio::time::Instant::now() + tick);
                if driver.context.observes() {
                    continue;
                }
                judge.keep_alive(out);
                outlet.write(out);
                continue;
            }
        };
        quiet = Duration::ZERO;
        let Some(chunk) = chunk.map_err(|error| {
            tracing::error!(upstream = &*name, error = %upstream::chain(&error), "the stream of upstream `{name}` broke off");
            Fault::Cut
        })?
        else {
            break;
        };
        left = left.checked_sub(chunk.len()).ok_or_else(|| Failure::protocol(&name, "it is longer than `limits.response_bytes`"))?;
        driver.received = driver.received.saturating_add(chunk.len());
        driver.step_aside(driver.received).await;
        reader.handle(chunk, judge, out).map_err(|unread| match unread {
            Unread::Fault(fault) => Broken::Fault(fault),
            Unread::TooLong(error) => Failure::protocol(&name, error).into(),
        })?;
        let (conversation, place) = driver.conversing();
        conversation.begin_response(place, || judge.response_id());
        let held = judge.held_bytes();
        if held > held_max {
            let what = format!("what of it must be held back takes more than {} in memory", bytesize::ByteSize(held_max as u64));
            return Err(Failure::protocol(&name, what).into());
        }
        if held.abs_diff(weighed) > WEIGHED {
            weight.set(held as u64)?;
            weighed = held;
        }
        if driver.context.inquiry.is_open() {
            driver.ledger.answer_queries(driver.app(), &driver.context).await;
        }
        if !out.is_empty() {
            leave(driver, outlet, out);
            outlet.room().await;
        }
    }
    reader.finish(judge, out)?;
    driver.end_wait();
    Ok(())
}

/// Sends the bytes that were released.
fn leave(driver: &mut ExchangeDriver, outlet: &Outlet, out: &mut BytesMut) {
    driver.rounds.tap(out);
    hide_key(driver, out);
    outlet.write(out);
}

/// Hides toolmark's own key: an upstream may quote it in an error, in any kind of event.
fn hide_key(driver: &ExchangeDriver, out: &mut BytesMut) {
    if let Some(key) = driver.endpoint().own_key() {
        error_key_removal::hide(out, key.as_bytes());
    }
}

/// Judges an answer that has ended; again with the ledger's replies, if judging asks the ledger.
async fn conclude<A: Adapter>(driver: &ExchangeDriver, judge: &mut A::Stream) -> Result<Vec<JudgedChoice>, Broken> {
    loop {
        let judged = judge.conclude(driver.attempt_inputs())?;
        if !driver.context.inquiry.is_open() {
            return Ok(judged);
        }
        driver.ledger.answer_queries(driver.app(), &driver.context).await;
    }
}

/// Continuation after a judged answer.
enum Settled {
    /// The stream has ended.
    Ended,
    /// Calls were run: the model is asked again.
    AskOn,
    /// This turn is to be repaired.
    Repair(EchoedTurn),
}

/// Decides on a judged answer.
async fn settle<A: Adapter>(
    driver: &mut ExchangeDriver,
    judge: &mut A::Stream,
    mut judged: Vec<JudgedChoice>,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<Settled, Broken> {
    let text = driver.has_state_rules().then(|| judge.said(0).text);
    driver.check_state(&mut judged, text).await;
    if let Some(asked) = driver.verifier(&judged) {
        if !verifier::holds_text(&driver.context) {
            judge.release(out);
            leave(driver, outlet, out);
        }
        let said = judge.said(0).text;
        kept_alive(Box::pin(driver.verify(asked, &mut judged, said)), KEEP_ALIVE, outlet).await;
    }
    if judge.released() {
        driver.attempts.text_sent();
    }
    driver.record.usage_text(judge.usage());
    let next = driver.decide(judged, |at| judge.said(at));
    if judge.unjudged() {
        driver.attempts.not_judged(&driver.context);
    }
    let finished = match next {
        NextStep::Repair(turn) => return Ok(Settled::Repair(turn)),
        NextStep::Refuse { violation, rejected } => {
            rejected.iter().for_each(|turn| driver.conversation.reject(A::rejected(&driver.context, turn)));
            return Err(unprocessable(&violation).into());
        }
        NextStep::Replace { text, .. } => return Err(Broken::Exhausted(text)),
        NextStep::Finish(finished) | NextStep::RunTools(finished) => finished,
    };
    driver.log_hosted_calls(|| judge.said(0));
    let mut finals = driver.with_moments(finished);
    if driver.rounds.are_active() {
        finals = match own_calls::<A>(driver, judge, finals, outlet, out).await? {
            RoundOutcome::Again => return Ok(Settled::AskOn),
            RoundOutcome::End(finals) => finals,
        };
    }
    let extras = provider_extras::keep(driver.app(), driver.endpoint(), &driver.context, &finals, |at| judge.said(at));
    driver.conversation.replicate(extras);
    let findings = driver.attempts.findings();
    let (verdict, as_member) = (findings.json(), findings.verdict() != Verdict::Pass);
    let memo = judge.end(End { finals, earlier: driver.attempts.take_usage(), verdict: &verdict, as_member }, out);
    driver.store_conversation(memo);
    driver.record.finish(StatusCode::OK);
    Ok(Settled::Ended)
}

/// Runs the calls that are toolmark's to run, while the client's connection is kept alive.
async fn own_calls<A: Adapter>(
    driver: &mut ExchangeDriver,
    judge: &mut A::Stream,
    finals: Vec<ChoiceOutcome>,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<RoundOutcome, Failure> {
    if tool_rounds::runs_all(driver, &finals) {
        judge.flush(out);
        leave(driver, outlet, out);
    }
    let (said, spent) = (judge.said(0), judge.usage().map(str::to_owned));
    kept_alive(Box::pin(tool_rounds::run_own_calls::<A>(driver, finals, said, spent)), KEEP_ALIVE, outlet).await
}

/// Waits for `work`, and sends keep-alive comments: the first after `first`, if it takes that long. Boxed, as a rare large
/// future would make every stream as large.
async fn kept_alive<T>(mut work: Pin<Box<impl Future<Output = T>>>, first: Duration, outlet: &Outlet) -> T {
    let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + first, KEEP_ALIVE);
    loop {
        tokio::select! {
            // Who need not wait hears of no waiting.
            biased;
            done = &mut work => return done,
            _ = beat.tick() => outlet.write(&mut BytesMut::from(sse::KEEP_ALIVE)),
        }
    }
}

/// Handles the upstream's rejection of a call within a stream: the turn to be repaired, or the error to be passed on.
fn failed_call(driver: &mut ExchangeDriver, json: String) -> Result<EchoedTurn, Broken> {
    let turn =
        Reported::read(json.as_bytes()).filter(|_| !driver.context.observes()).and_then(|error| attempt::failed_call(driver, &error));
    let Some(turn) = turn else { return Err(Fault::Reported(json).into()) };
    rejected_call(driver, turn)
}

/// Decides on a call of the model that the upstream rejected: the turn to be repaired.
fn rejected_call(driver: &mut ExchangeDriver, turn: EchoedTurn) -> Result<EchoedTurn, Broken> {
    match driver.decide_rejected_call(turn) {
        NextStep::Repair(turn) => Ok(turn),
        NextStep::Replace { text, .. } => Err(Broken::Exhausted(text)),
        NextStep::Refuse { violation, .. } => Err(unprocessable(&violation).into()),
        // INVARIANT: nothing was accepted.
        NextStep::Finish(_) | NextStep::RunTools(_) => Err(Failure::protocol(&driver.endpoint().settings.name, "no call").into()),
    }
}

/// Starts the next attempt, while the client's connection is kept alive.
async fn next_attempt<A: Adapter>(driver: &mut ExchangeDriver, outlet: &Outlet) -> Result<Answer, Broken> {
    let name = driver.endpoint().settings.name.clone();
    loop {
        let reply = kept_alive(Box::pin(attempt::send(driver, Downstream::Begun)), Duration::ZERO, outlet).await?;
        match reply {
            Reply::Answer(response) if upstream::is_event_stream(response.headers()) => return Ok(response),
            Reply::Answer(_) => return Err(Failure::protocol(&name, "it is no stream, though one was asked for").into()),
            Reply::Error(_, _, body) => return Err(Broken::Refused(String::from_utf8_lossy(&body).into_owned())),
            Reply::FailedCall(turn) => {
                let turn = rejected_call(driver, turn)?;
                driver.prepare_repair::<A>(&turn, None)?;
            }
        }
    }
}

/// Error for the client, in the envelope that clients understand within a stream.
fn failure_json(driver: &ExchangeDriver, broken: Broken) -> String {
    let name = &*driver.endpoint().settings.name;
    let json = match broken {
        Broken::Failure(failure) => return failure.json(),
        Broken::Exhausted(words) => words,
        Broken::Fault(Fault::Reported(json)) | Broken::Refused(json) => json,
        Broken::Fault(fault) => {
            tracing::error!(exchange = %driver.context.id, upstream = name, %fault, "the stream of upstream `{name}` can't be passed on");
            return Failure::protocol(name, fault).json();
        }
    };
    tracing::error!(exchange = %driver.context.id, upstream = name, "the upstream `{name}` reported an error in its stream");
    let envelope = Reported::read(json.as_bytes()).map_or_else(
        || Failure::protocol(name, "an error that can't be read").json(),
        |error| error.judged_envelope(|text| claims(&driver.context, text)),
    );
    let masked = driver.endpoint().own_key().map(|key| masked(envelope.clone().into(), key));
    masked.map_or(envelope, |masked| String::from_utf8_lossy(&masked).into_owned())
}
