//! A streamed answer, from the first event to `[DONE]`, including repairs inside the same stream.
//!
//! Runs inside the response body ([`crate::proxy::http::body`]): dropped with it when the client goes away.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use http::StatusCode;

use super::attempt::Downstream;
use crate::{
    exchange::{
        adapter::{Adapter, AnswerStream, End},
        answer_error::Fault,
        attempts::NextStep,
        context::JudgedChoice,
        decision::ChoiceOutcome,
        text::places::claims,
        turn::EchoedTurn,
    },
    openai::error::{Reported, masked},
    proxy::{
        exchange::{
            driver::{Reply, Run},
            tool_rounds::Next,
            unprocessable,
        },
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

/// Interval of the comments that keep a waiting client's connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

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
pub async fn stream<A: Adapter>(mut run: Box<Run>, response: Answer, outlet: Outlet) {
    let mut out = BytesMut::new();
    let mut judge = A::Stream::new(run.context.clone(), None);
    let ended = attempts::<A>(&mut run, response, &mut judge, &outlet, &mut out).await;
    let whole = ended.is_ok();
    let mut breaks = false;
    if let Err(Broken::Exhausted(words)) = ended {
        let verdict = run.attempts.findings().json();
        let memo = judge.explain(&run.made(&words, &verdict), &mut out);
        run.remember_without_answer(memo);
        run.finish(StatusCode::OK);
    } else if let Err(broken) = ended {
        // An error that the upstream reports itself ends a stream as it would without toolmark. Any other ending must not
        // be taken for the end of an answer, also not by those who know nothing of errors in streams.
        breaks = !matches!(broken, Broken::Fault(Fault::Reported(_)));
        if !run.attempts.findings().blocked {
            run.attempts.fail();
        }
        if let Broken::Failure(failure) = &broken {
            run.refused(failure);
        }
        let failure = failure_json(&run, broken);
        // The status is long sent; the envelope is what clients still understand (docs/wire-facts.md#emission-rules).
        run.finish(StatusCode::BAD_GATEWAY);
        if !run.context.observes() {
            out.extend_from_slice(format!(": toolmark {}\n\n", run.attempts.findings().json()).as_bytes());
        }
        judge.fail(&failure, &mut out);
    }
    run.rounds.tap(&out);
    let kept = if whole { run.keep_streamed_rounds::<A>().await } else { Ok(()) };
    let committed = run.commit().await;
    if let Err(failure) = kept.and(committed) {
        run.attempts.block();
        out.clear();
        judge.fail(&failure.json(), &mut out);
        breaks = true;
    }
    hide_key(&run, &mut out);
    outlet.write(&mut out);
    if breaks {
        outlet.break_off();
    }
    run.end_behind();
}

async fn attempts<A: Adapter>(
    run: &mut Run,
    first: Answer,
    judge: &mut A::Stream,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<(), Broken> {
    let mut response = first;
    loop {
        let ended = read::<A>(run, response, judge, outlet, out).await;
        run.step_aside(run.received).await;
        run.judging();
        let concluded = match ended {
            Ok(()) => conclude::<A>(run, judge).await,
            Err(broken) => Err(broken),
        };
        let turn = match concluded {
            Ok(judged) => match settle::<A>(run, judge, judged, outlet, out).await? {
                Settled::Ended => return Ok(()),
                Settled::AskOn => None,
                Settled::Repair(turn) => Some(turn),
            },
            Err(Broken::Fault(Fault::Reported(json))) => Some(failed_call(run, json)?),
            Err(broken) => return Err(broken),
        };
        if judge.released() {
            run.attempts.text_sent();
        }
        if let Some(turn) = turn {
            run.ask_again::<A>(&turn, judge.usage())?;
        }
        leave(run, outlet, out);
        response = next_attempt::<A>(run, outlet).await?;
        *judge = A::Stream::new(run.context.clone(), Some(judge));
    }
}

/// Handles the upstream's rejection of a call within a stream: the turn to be repaired, or the error to be passed on.
fn failed_call(run: &mut Run, json: String) -> Result<EchoedTurn, Broken> {
    let turn = Reported::read(json.as_bytes()).filter(|_| !run.context.observes()).and_then(|error| run.failed_call(&error));
    let Some(turn) = turn else { return Err(Fault::Reported(json).into()) };
    rejected_call(run, turn)
}

/// Decides on a call of the model that the upstream rejected: the turn to be repaired.
fn rejected_call(run: &mut Run, turn: EchoedTurn) -> Result<EchoedTurn, Broken> {
    match run.decide_rejected_call(turn) {
        NextStep::Repair(turn) => Ok(turn),
        NextStep::Replace { text, .. } => Err(Broken::Exhausted(text)),
        NextStep::Refuse { violation, .. } => Err(unprocessable(&violation).into()),
        // INVARIANT: nothing was accepted.
        NextStep::Finish(_) | NextStep::RunTools(_) => Err(Failure::protocol(&run.endpoint().settings.name, "no call").into()),
    }
}

/// Judges an answer that has ended; again with the ledger's replies, if judging asks the ledger.
async fn conclude<A: Adapter>(run: &Run, judge: &mut A::Stream) -> Result<Vec<JudgedChoice>, Broken> {
    loop {
        let judged = judge.conclude()?;
        if !run.context.inquiry.is_open() {
            return Ok(judged);
        }
        run.answer().await;
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
    run: &mut Run,
    judge: &mut A::Stream,
    mut judged: Vec<JudgedChoice>,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<Settled, Broken> {
    let text = run.has_state_rules().then(|| judge.said(0).text);
    run.check_state(&mut judged, text).await;
    if let Some(verifier) = run.verifier(&judged) {
        if !run.holds_for_verifier() {
            judge.release(out);
            leave(run, outlet, out);
        }
        let said = judge.said(0).text;
        kept_alive(Box::pin(run.verify(verifier, &mut judged, said)), KEEP_ALIVE, outlet).await;
    }
    if judge.released() {
        run.attempts.text_sent();
    }
    run.learn(&judged);
    run.notes.usage_text(judge.usage());
    let next = run.decide(judged, |at| judge.said(at));
    if judge.unjudged() {
        let context = run.context.clone();
        run.attempts.not_judged(&context);
    }
    let finished = match next {
        NextStep::Repair(turn) => return Ok(Settled::Repair(turn)),
        NextStep::Refuse { violation, rejected } => {
            rejected.iter().for_each(|turn| run.reject(turn));
            return Err(unprocessable(&violation).into());
        }
        NextStep::Replace { text, .. } => return Err(Broken::Exhausted(text)),
        NextStep::Finish(finished) | NextStep::RunTools(finished) => finished,
    };
    if !run.attempts.findings().blocked {
        run.record_hosted(|| judge.said(0));
    }
    let mut finals = run.finals(finished);
    if run.rounds.begun() {
        finals = match own_calls::<A>(run, judge, finals, outlet, out).await? {
            Next::Again => return Ok(Settled::AskOn),
            Next::End(finals) => finals,
        };
    }
    run.keep_beside(&finals, |at| judge.said(at));
    let findings = run.attempts.findings();
    let (verdict, as_member) = (findings.json(), findings.verdict() != Verdict::Pass);
    let memo = judge.end(End { finals, earlier: run.attempts.take_usage(), verdict: &verdict, as_member }, out);
    run.remember(memo);
    run.finish(StatusCode::OK);
    Ok(Settled::Ended)
}

/// Runs the calls that are toolmark's to run, while the client's connection is kept alive.
async fn own_calls<A: Adapter>(
    run: &mut Run,
    judge: &mut A::Stream,
    finals: Vec<ChoiceOutcome>,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<Next, Failure> {
    if run.runs_all(&finals) {
        judge.flush(out);
        leave(run, outlet, out);
    }
    let (said, spent) = (judge.said(0), judge.usage().map(str::to_owned));
    kept_alive(Box::pin(run.own_calls::<A>(finals, said, spent)), KEEP_ALIVE, outlet).await
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

/// Sends the bytes that were released.
fn leave(run: &mut Run, outlet: &Outlet, out: &mut BytesMut) {
    run.rounds.tap(out);
    hide_key(run, out);
    outlet.write(out);
}

/// Hides toolmark's own key: an upstream may quote it in an error, in any kind of event.
fn hide_key(run: &Run, out: &mut BytesMut) {
    if let Some(key) = run.endpoint().own_key() {
        error_key_removal::hide(out, key.as_bytes());
    }
}

/// Reads one attempt's events until the answer is complete.
async fn read<A: Adapter>(
    run: &mut Run,
    mut response: Answer,
    judge: &mut A::Stream,
    outlet: &Outlet,
    out: &mut BytesMut,
) -> Result<(), Broken> {
    let begun = run.waits(Instant::now());
    let name = run.endpoint().settings.name.clone();
    let idle_max = run.endpoint().settings.timeouts.idle;
    let mut left = usize::try_from(run.worker.app.settings.limits.response_bytes).unwrap_or(usize::MAX);
    // Events that wait take a multiple of what they took on the wire.
    let held_max = left.saturating_mul(HELD_SHARE);
    let (mut weight, mut weighed) = (run.worker.app.load.weight(), 0_usize);
    let mut reader =
        Reader::new(run.origin().map(|origin| StreamTranslator::new(origin, run.context.held_bytes_max).watched(run.context.clone())));
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
                if run.context.observes() {
                    continue;
                }
                sse::keep_alive(out);
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
        run.received = run.received.saturating_add(chunk.len());
        run.step_aside(run.received).await;
        reader.handle(chunk, judge, out).map_err(|unread| match unread {
            Unread::Fault(fault) => Broken::Fault(fault),
            Unread::TooLong(error) => Failure::protocol(&name, error).into(),
        })?;
        run.begun_with(|| judge.response_id());
        let held = judge.held_bytes();
        if held > held_max {
            let what = format!("what of it must be held back takes more than {} in memory", bytesize::ByteSize(held_max as u64));
            return Err(Failure::protocol(&name, what).into());
        }
        if held.abs_diff(weighed) > WEIGHED {
            weight.set(held as u64)?;
            weighed = held;
        }
        if run.context.inquiry.is_open() {
            run.answer().await;
        }
        if !out.is_empty() {
            leave(run, outlet, out);
            outlet.room().await;
        }
    }
    reader.finish(judge, out)?;
    run.waited(begun);
    Ok(())
}

/// Starts the next attempt, while the client's connection is kept alive.
async fn next_attempt<A: Adapter>(run: &mut Run, outlet: &Outlet) -> Result<Answer, Broken> {
    let name = run.endpoint().settings.name.clone();
    loop {
        let reply = kept_alive(Box::pin(run.attempt(Downstream::Begun)), Duration::ZERO, outlet).await?;
        match reply {
            Reply::Answer(response) if upstream::is_event_stream(response.headers()) => return Ok(response),
            Reply::Answer(_) => return Err(Failure::protocol(&name, "it is no stream, though one was asked for").into()),
            Reply::Error(_, _, body) => return Err(Fault::Reported(String::from_utf8_lossy(&body).into_owned()).into()),
            Reply::FailedCall(turn) => {
                let turn = rejected_call(run, turn)?;
                run.ask_again::<A>(&turn, None)?;
            }
        }
    }
}

/// Error for the client, in the envelope that clients understand within a stream.
fn failure_json(run: &Run, broken: Broken) -> String {
    let name = &*run.endpoint().settings.name;
    let json = match broken {
        Broken::Failure(failure) => return failure.json(),
        Broken::Exhausted(words) => words,
        Broken::Fault(Fault::Reported(json)) => json,
        Broken::Fault(fault) => {
            tracing::error!(exchange = %run.context.id, upstream = name, %fault, "the stream of upstream `{name}` can't be passed on");
            return Failure::protocol(name, fault).json();
        }
    };
    tracing::error!(exchange = %run.context.id, upstream = name, "the upstream `{name}` reported an error in its stream");
    let envelope = Reported::read(json.as_bytes()).map_or_else(
        || Failure::protocol(name, "an error that can't be read").json(),
        |error| error.judged_envelope(|text| claims(&run.context, text)),
    );
    let masked = run.endpoint().own_key().map(|key| masked(envelope.clone().into(), key));
    masked.map_or(envelope, |masked| String::from_utf8_lossy(&masked).into_owned())
}
