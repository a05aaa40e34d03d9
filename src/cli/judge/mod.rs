//! `toolmark judge`: one exchange judged offline, through the same core as on the wire.
//!
//! Reads two files, prints a report, changes nothing. Checks that need a missing key are reported as not judged, and never
//! count as passed.

use std::{
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

use super::Error;
use crate::{
    exchange::{
        active_policy::Standard,
        context::{Begun, JudgedChoice, Upstream},
        error::{Fault, Refusal},
        turn::Said,
    },
    judge::call::{Arguments, CallVerdict},
    marks::{KeyRing, Scope},
    openai::Api,
    policy::PolicyMode,
    replay::offline::{Bench, HELD_BYTES_MAX, Unheard, When, hear},
    responses::request::Recalled,
    settings::{self, Environment, Flags, KeySource, OfflineSettings},
    violation::Violation,
    wire::{
        json::{Document, string::quote},
        sse::is_event_stream,
    },
};

mod report;
pub(super) use report::MarkVerification;
use report::{ChoiceReport, JudgeReport};

/// Runs the command.
///
/// # Errors
/// Files that can't be read or have another format; settings or a policy that aren't valid.
pub fn run(judge: &super::JudgeArgs, flags: Flags) -> Result<ExitCode, Error> {
    let flags = Flags { policy: judge.policy.clone(), ..flags };
    let offline = settings::load_offline(&flags, &Environment::of_process(), Path::new(""))?;
    let files = InputFiles::of(judge)?;
    let (mut request, mut response) = (read(files.request, files.names[0])?, read(files.response, files.names[1])?);
    if files.is_text {
        request = conversation(request);
        let api = Document::parse(request.clone()).map_or(Api::Chat, |document| Api::of_request(&document));
        response = answer(&response, api);
    }
    let report = judge_exchange(&offline, request, response).map_err(|fault| fault.in_files(&files))?;
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

/// The files to judge.
struct InputFiles<'a> {
    request: &'a Path,
    response: &'a Path,
    names: [&'static str; 2],
    /// The second is the answer's text, not a body.
    is_text: bool,
}

impl<'a> InputFiles<'a> {
    fn of(judge: &'a super::JudgeArgs) -> Result<Self, Error> {
        let super::JudgeArgs { request, response, conversation, answer, .. } = judge;
        match (request, response, conversation, answer) {
            (Some(request), Some(response), _, _) => Ok(Self { request, response, names: ["request", "response"], is_text: false }),
            (_, _, Some(request), Some(response)) => Ok(Self { request, response, names: ["conversation", "answer"], is_text: true }),
            _ => Err(Error::Failed("give --request and --response, or --conversation and --answer".to_owned())),
        }
    }
}

/// A request's body; a list of messages is wrapped into one.
fn conversation(body: Bytes) -> Bytes {
    if !body.trim_ascii_start().starts_with(b"[") {
        return body;
    }
    [&br#"{"model":"","messages":"#[..], &body, b"}"].concat().into()
}

/// The body of an answer with this text.
fn answer(text: &[u8], api: Api) -> Bytes {
    let quoted = quote(&String::from_utf8_lossy(text));
    let body = match api {
        Api::Responses => {
            let part = format!(r#"{{"type":"output_text","text":{quoted},"annotations":[]}}"#);
            let item = format!(r#"{{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{part}]}}"#);
            format!(r#"{{"id":"resp_1","object":"response","status":"completed","output":[{item}]}}"#)
        }
        Api::Messages => {
            let content = format!(r#"[{{"type":"text","text":{quoted}}}]"#);
            format!(r#"{{"id":"msg_1","type":"message","role":"assistant","content":{content},"stop_reason":"end_turn"}}"#)
        }
        Api::Chat => {
            format!(r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{quoted}}},"finish_reason":"stop"}}]}}"#)
        }
    };
    body.into()
}

/// Error of reading one of the files.
enum InputError {
    Request(String),
    Response(String),
    Setup(Error),
}

impl InputError {
    fn in_files(self, files: &InputFiles<'_>) -> Error {
        match self {
            Self::Request(why) => {
                let [name, _] = files.names;
                let hint = format!("--{name} takes the body of POST /v1/chat/completions or /v1/responses, as JSON");
                Error::Failed(format!("the {name} file {}: {why}\n{hint}", files.request.display()))
            }
            Self::Response(why) => {
                let hint = "--response takes the body of the answer: a chat completion or response as JSON, or the events of a stream (`data: {…}`)";
                Error::Failed(format!("the response file {}: {why}\n{hint}", files.response.display()))
            }
            Self::Setup(error) => error,
        }
    }
}

fn judge_exchange(offline: &OfflineSettings, request: Bytes, response: Bytes) -> Result<JudgeReport, InputError> {
    let rules = offline.policy.load().map_err(|error| InputError::Setup(error.into()))?;
    let standard = Standard::new(rules, HELD_BYTES_MAX).map_err(|error| InputError::Setup(Error::Failed(error.to_string())))?;
    let (ring, marks) = ring(&offline.keys).map_err(InputError::Setup)?;
    let scope = match offline.scope {
        settings::ScopeKind::Shared => Scope::shared(),
        settings::ScopeKind::Caller => Scope::anonymous(),
    };
    let document = Document::parse(request).map_err(|error| InputError::Request(format!("it is {error}")))?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let bench = Bench { standard: Arc::new(standard), ring, schemas: Arc::default() };
    let when = When { id: uuid::Uuid::nil(), scope, now_ms, upstream: Upstream::default() };
    let api = Api::of_request(&document);
    let refused = |refusal: Refusal| InputError::Request(format!("it would be refused: [{}] {}", refusal.code, refusal.message));
    let Begun { context, violations, .. } = bench.begin(api, &document, &when, &Recalled::default()).map_err(refused)?;
    let policy = &bench.standard.rules.policy;
    let mut report = JudgeReport {
        policy: bench.standard.rules.source.to_string(),
        enforced: policy.mode == PolicyMode::Enforce,
        repairs: if context.choices <= 1 { policy.calls.max_repairs } else { 0 },
        marks,
        tools: context.tools().registry.names().map(str::to_owned).collect(),
        request: violations,
        choices: Vec::new(),
        fault: None,
    };
    let streamed = is_event_stream(&response);
    match hear(api, &context, response, None, context.first_attempt()) {
        Ok(heard) => report.choices = heard.choices.into_iter().map(|(said, judged)| to_choice(said, judged)).collect(),
        Err(unheard) => report.fault = Some(unreadable(unheard, streamed)?),
    }
    if !report.marks.known() {
        report.unjudge_marks(context.data());
    }
    Ok(report)
}

/// The keys, if there are any; a missing key file isn't created.
pub(super) fn ring(keys: &KeySource) -> Result<(Arc<KeyRing>, report::MarkVerification), Error> {
    let missing = match keys {
        KeySource::File(path) if !path.exists() => Some(format!("there is no key in {}", path.display())),
        KeySource::Ephemeral => Some("no key is set".to_owned()),
        KeySource::File(_) | KeySource::Ring(_) => None,
    };
    let marks = missing.map_or(report::MarkVerification::Known, report::MarkVerification::Unknown);
    let keys = match &marks {
        report::MarkVerification::Known => keys.keys().map_err(|error| Error::Failed(error.to_string()))?,
        report::MarkVerification::Unknown(_) => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|error| Error::Failed(format!("the system gives no random numbers: {error}")))?;
            vec![key]
        }
    };
    Ok((Arc::new(KeyRing::new(&keys)), marks))
}

/// The message with which toolmark would end the answer.
///
/// # Errors
/// [`InputError`] if the file isn't an answer at all.
fn unreadable(unheard: Unheard, streamed: bool) -> Result<String, InputError> {
    let fault = match unheard {
        Unheard::Fault(fault) => fault,
        Unheard::TooLong(error) => return Err(InputError::Response(error.to_string())),
    };
    match fault {
        Fault::Json(error) if streamed => Err(InputError::Response(format!("an event is {error}"))),
        Fault::Json(error) => Err(InputError::Response(format!("it is {error}"))),
        Fault::Reported(_) if streamed => Err(InputError::Response("the stream reports an error: there is nothing to judge".into())),
        Fault::Reported(_) => Err(InputError::Response("it is an error, not an answer: there is nothing to judge".into())),
        Fault::Unknown(no @ ("no `choices`" | "no `output`")) if !streamed => Err(InputError::Response(format!("it has {no}"))),
        fault @ (Fault::Shape(_) | Fault::Unknown(_) | Fault::Cut) => Ok(fault.to_string()),
    }
}

fn to_choice(said: Said, judged: JudgedChoice) -> ChoiceReport {
    let of_turn = judged.turn.violations;
    let calls = said.calls.into_iter().zip(judged.turn.calls).map(|((call, _), judged)| {
        let arguments = match call.arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text,
            Arguments::Absent => "(absent)".to_owned(),
            Arguments::Null => "null".to_owned(),
        };
        let accepted = matches!(judged.outcome, CallVerdict::Accept(_));
        report::CallReport { name: call.name, arguments, accepted, violations: judged.violations }
    });
    let calls = calls.collect();
    let says: Vec<Violation> = judged.of_text;
    ChoiceReport { calls, of_turn, has_text: !said.text.is_empty(), of_text: says, citations: judged.citations }
}
