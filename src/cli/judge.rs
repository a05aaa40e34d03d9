//! `toolmark judge`: one exchange judged offline, through the same core as on the wire.
//!
//! Reads two files, prints a report, changes nothing. What would need a key that isn't here is said to be
//! not judged, and never counts as passed.

use std::{
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

use super::Error;
use crate::{
    chat::{adapter::Chat, request},
    exchange::{
        adapter::{Adapter, AnswerStream as _, Flow, WholeAnswer as _},
        context::{Basis, Begun, Context, JudgedChoice, Upstream},
        fault::Fault,
        refusal::Refusal,
        tools::ToolSet,
        turn::Said,
    },
    judge::{
        call::{Arguments, Outcome},
        loops::Beyond,
        marks::{KeyRing, Scope},
        registry::SchemaCache,
        violation::Violation,
    },
    policy::Mode,
    proxy::app::Standard,
    responses::{self, adapter::Responses, request::Recalled},
    settings::{self, Environment, Flags, KeySource, Offline},
    wire::{json::Document, sse::Parser},
};

mod report;
use report::{Choice, Report};

/// Runs it.
///
/// # Errors
/// Files that can't be read or aren't what they should be; settings or a policy that are wrong.
pub fn run(judge: &super::Judge, flags: Flags) -> Result<ExitCode, Error> {
    let flags = Flags { policy: judge.policy.clone(), ..flags };
    let offline = settings::load_offline(&flags, &Environment::of_process(), Path::new(""))?;
    let (request, response) = (read(&judge.request, "request")?, read(&judge.response, "response")?);
    let report = judge_exchange(&offline, request, response).map_err(|fault| fault.in_files(judge))?;
    // Through `write_all`, not `println!`: a closed pipe is no panic.
    let _closed = std::io::Write::write_all(&mut std::io::stdout(), report.text().as_bytes());
    Ok(if report.blocked() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn read(path: &Path, what: &str) -> Result<Bytes, Error> {
    let read = std::fs::read(path).map_err(|error| Error::Failed(format!("the {what} file {} can't be read: {error}", path.display())))?;
    if read.trim_ascii().is_empty() {
        return Err(Error::Failed(format!("the {what} file {} is empty", path.display())));
    }
    Ok(read.into())
}

/// What of which file can't be judged.
enum Unreadable {
    Request(String),
    Response(String),
    Setup(Error),
}

impl Unreadable {
    fn in_files(self, judge: &super::Judge) -> Error {
        match self {
            Self::Request(why) => {
                let hint = "--request takes the body of POST /v1/chat/completions or /v1/responses, as JSON";
                Error::Failed(format!("the request file {}: {why}\n{hint}", judge.request.display()))
            }
            Self::Response(why) => {
                let hint = "--response takes the body of the answer: a chat completion or response as JSON, or the events of a stream (`data: {…}`)";
                Error::Failed(format!("the response file {}: {why}\n{hint}", judge.response.display()))
            }
            Self::Setup(error) => error,
        }
    }
}

fn judge_exchange(offline: &Offline, request: Bytes, response: Bytes) -> Result<Report, Unreadable> {
    let rules = offline.policy.load().map_err(|error| Unreadable::Setup(error.into()))?;
    let standard = Standard::new(rules, HELD_BYTES_MAX).map_err(|error| Unreadable::Setup(Error::Failed(error.to_string())))?;
    let (ring, marks) = ring(&offline.keys).map_err(Unreadable::Setup)?;
    let scope = match offline.scope {
        settings::Scope::Shared => Scope::shared(),
        settings::Scope::Caller => Scope::anonymous(),
    };
    let document = Document::parse(request).map_err(|error| Unreadable::Request(format!("it is {error}")))?;
    let of_responses = document.root().get("messages").is_none() && document.root().get("input").is_some();
    let basis = |tools| Basis {
        id: uuid::Uuid::nil(),
        rules: &standard.rules,
        call_rules: &standard.calls,
        text: &standard.text,
        ring: &ring,
        scope: scope.clone(),
        tools,
        now_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
        upstream: Upstream::default(),
        protocol: &standard.protocol,
        held_bytes_max: HELD_BYTES_MAX,
        beyond: Beyond::default(),
    };
    let begun = if of_responses { begin_responses(&document, &standard, basis) } else { begin_chat(&document, &standard, basis) };
    let refused = |refusal: Refusal| Unreadable::Request(format!("it would be refused: [{}] {}", refusal.code, refusal.message));
    let Begun { context, violations, .. } = begun.map_err(refused)?;
    let (context, policy) = (Arc::new(context), &standard.rules.policy);
    let mut report = Report {
        policy: standard.rules.source.to_string(),
        enforced: policy.mode == Mode::Enforce,
        repairs: if context.choices <= 1 { policy.calls.max_repairs } else { 0 },
        marks,
        tools: context.tools.registry.names().map(str::to_owned).collect(),
        request: violations,
        choices: Vec::new(),
        fault: None,
    };
    let judged = if of_responses { judge_response::<Responses>(&context, response)? } else { judge_response::<Chat>(&context, response)? };
    match judged {
        Ok(choices) => report.choices = choices,
        Err(fault) => report.fault = Some(fault),
    }
    if !report.marks.known() {
        report.unjudge_marks(context.data());
    }
    Ok(report)
}

fn begin_chat<'s>(document: &Document, standard: &'s Standard, basis: impl Fn(Arc<ToolSet>) -> Basis<'s>) -> Result<Begun, Refusal> {
    let head = request::Head::read(document)?;
    let (policy, checks) = (&standard.rules.policy, &standard.rules.checks);
    let tools = standard.tools.get(head.brought(), policy, checks, &SchemaCache::default())?;
    request::begin(document, &head, basis(tools))
}

fn begin_responses<'s>(document: &Document, standard: &'s Standard, basis: impl Fn(Arc<ToolSet>) -> Basis<'s>) -> Result<Begun, Refusal> {
    let head = responses::request::Head::read(document)?;
    let further = head.further_tools();
    let (policy, checks) = (&standard.rules.policy, &standard.rules.checks);
    let tools = standard.tools.get(head.brought(&further), policy, checks, &SchemaCache::default())?;
    responses::request::begin(document, &head, &Recalled::default(), further, basis(tools))
}

/// The keys, where there are any; a missing file isn't made.
fn ring(keys: &KeySource) -> Result<(Arc<KeyRing>, report::Marks), Error> {
    let missing = match keys {
        KeySource::File(path) if !path.exists() => Some(format!("there is no key in {}", path.display())),
        KeySource::Ephemeral => Some("no key is set".to_owned()),
        KeySource::File(_) | KeySource::Ring(_) => None,
    };
    let marks = missing.map_or(report::Marks::Known, report::Marks::Unknown);
    let keys = match &marks {
        report::Marks::Known => keys.keys().map_err(|error| Error::Failed(error.to_string()))?,
        report::Marks::Unknown(_) => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|error| Error::Failed(format!("the system gives no random numbers: {error}")))?;
            vec![key]
        }
    };
    Ok((Arc::new(KeyRing::new(&keys)), marks))
}

/// The choices as judged, or why toolmark would break off.
fn judge_response<A: Adapter>(context: &Arc<Context>, response: Bytes) -> Result<Result<Vec<Choice>, String>, Unreadable> {
    let start = response.trim_ascii_start();
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    if [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|prefix| start.starts_with(prefix)) {
        return judge_stream::<A>(context, response);
    }
    let answer = match A::Answer::read(response, context) {
        Ok(answer) => answer,
        Err(Fault::Json(error)) => return Err(Unreadable::Response(format!("it is {error}"))),
        Err(Fault::Reported(_)) => {
            return Err(Unreadable::Response("it is an error, not an answer: there is nothing to judge".into()));
        }
        Err(Fault::Unknown(no @ ("no `choices`" | "no `output`"))) => return Err(Unreadable::Response(format!("it has {no}"))),
        Err(fault @ (Fault::Shape(_) | Fault::Unknown(_) | Fault::Cut)) => return Ok(Err(fault.to_string())),
    };
    let judged = answer.judge(context);
    let choices = judged.into_iter().enumerate().map(|(at, judged)| to_choice(answer.said(at), judged));
    Ok(Ok(choices.collect()))
}

fn judge_stream<A: Adapter>(context: &Arc<Context>, response: Bytes) -> Result<Result<Vec<Choice>, String>, Unreadable> {
    let mut events = Vec::new();
    let mut parser = Parser::default();
    parser.handle(response, |event| events.push(event)).map_err(|error| Unreadable::Response(error.to_string()))?;
    events.extend(parser.finish());
    let mut judge = A::Stream::new(context.clone(), None);
    let mut out = bytes::BytesMut::new();
    let read = || -> Result<Vec<JudgedChoice>, Fault> {
        for event in events {
            if judge.handle(event, &mut out)? == Flow::Done {
                break;
            }
        }
        judge.conclude()
    };
    let judged = match read() {
        Ok(judged) => judged,
        Err(Fault::Json(error)) => return Err(Unreadable::Response(format!("an event is {error}"))),
        Err(Fault::Reported(_)) => return Err(Unreadable::Response("the stream reports an error: there is nothing to judge".into())),
        Err(fault @ (Fault::Shape(_) | Fault::Unknown(_) | Fault::Cut)) => return Ok(Err(fault.to_string())),
    };
    let choices = judged.into_iter().enumerate().map(|(at, judged)| to_choice(judge.said(at), judged));
    Ok(Ok(choices.collect()))
}

fn to_choice(said: Said, judged: JudgedChoice) -> Choice {
    let of_turn = judged.turn.violations;
    let calls = said.calls.into_iter().zip(judged.turn.calls).map(|((call, _), judged)| {
        let arguments = match call.arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text,
            Arguments::Absent => "(absent)".to_owned(),
            Arguments::Null => "null".to_owned(),
        };
        let accepted = matches!(judged.outcome, Outcome::Accept(_));
        report::Call { name: call.name, arguments, accepted, violations: judged.violations }
    });
    let calls = calls.collect();
    let says: Vec<Violation> = judged.of_text;
    Choice { calls, of_turn, has_text: !said.text.is_empty(), of_text: says, citations: judged.citations }
}

/// Bytes held of one call or block; the default of `[limits] held_bytes`.
const HELD_BYTES_MAX: usize = 1 << 20;
