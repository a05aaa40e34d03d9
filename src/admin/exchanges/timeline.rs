//! The timeline of one exchange: what came, what went up, what was wrong and where, what the model was told, what left. Pure.
//!
//! Facts come from the record and the recorded bodies; judging again only adds places to what was recorded (arguments, words, advice),
//! and never a violation.

use serde::Serialize;
use serde_json::Value;

use crate::admin::codes;
use crate::{
    cassette::{
        body::RecordedBody,
        diff::differences,
        format::{Header, RecordedExchange, RecordedRequest, RecordedResponse, RecordedToolRun},
    },
    judge::messages::OBJECTION,
    ledger::record::{AttemptRecord, CallOutcome, ExchangeRecord, ExecutionRecord, ViolationRecord},
    replay::explain::{Explanation, Finding, ReadAnswer},
    telemetry::summary::ExchangeSummary,
    violation::{Certainty, Code, Severity},
};

/// Openings of what toolmark says to a model in a tool's place.
const TOLD: [&str; 3] = ["Tool call rejected: ", "Tool call not run: ", OBJECTION];
/// Texts for the model that are shown of one attempt.
const TOLD_MAX: usize = 50;

/// Where an exchange's bodies are.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyPlace {
    /// In this process's memory.
    Memory,
    /// In the ledger.
    Ledger,
    /// Nowhere: only the record is there.
    Nowhere,
}

/// The timeline of an exchange.
#[derive(Debug, Serialize)]
pub struct Timeline {
    /// The exchange in one row.
    pub summary: ExchangeSummary,
    /// Start of the exchange, in Unix milliseconds.
    pub began_ms: u64,
    /// Digest of the policy that judged, as the record has it.
    pub policy: Box<str>,
    /// Where its bodies are.
    pub kept: BodyPlace,
    /// False if the caller may not read the bodies.
    pub bodies: bool,
    /// A body was too long and is cut.
    pub cut: bool,
    /// Number of places from which a secret was removed.
    pub redactions: u32,
    /// The request, as it came.
    pub request: TimelineRequest,
    /// The upstream requests with their answers.
    pub attempts: Vec<TimelineAttempt>,
    /// What left.
    pub answer: Option<TimelineAnswer>,
    /// The executions that the exchange was the first to show.
    pub executions: Vec<ExecutionRecord>,
    /// The calls that toolmark ran itself.
    pub ran: Vec<RecordedToolRun>,
}

/// The request as it came.
#[derive(Debug, Default, Serialize)]
pub struct TimelineRequest {
    /// Method and path with query.
    pub line: Option<String>,
    /// Its headers, as far as they are kept.
    pub headers: Vec<Header>,
    /// Its body.
    pub body: Option<String>,
    /// Violations found in it.
    pub findings: Vec<TimelineFinding>,
}

/// One upstream request with its answer.
#[derive(Debug, Default, Serialize)]
pub struct TimelineAttempt {
    /// Its number, from 1.
    pub number: usize,
    /// The upstream's name.
    pub upstream: Box<str>,
    /// The model that the upstream was asked for.
    pub model: Box<str>,
    /// HTTP status of the upstream.
    pub status: Option<u16>,
    /// Tokens of prompt and answer.
    pub tokens: Option<crate::ledger::record::AttemptTokens>,
    /// Start, in milliseconds after the exchange's.
    pub after_ms: Option<u64>,
    /// Time until its answer was read, in microseconds.
    pub duration_us: u64,
    /// The failure, if there was no answer.
    pub failure: Option<String>,
    /// Changes to the request as it came; from the second attempt on, to the attempt before.
    pub changes: Vec<Change>,
    /// What toolmark told the model since the attempt before.
    pub told: Vec<String>,
    /// The body that went up.
    pub request: Option<String>,
    /// The answer's body, as it came.
    pub response: Option<String>,
    /// The answer's text.
    pub text: Option<String>,
    /// The calls in the answer.
    pub calls: Vec<TimelineCall>,
    /// Findings in the answer's text, and of the turn as a whole.
    pub findings: Vec<TimelineFinding>,
}

/// A change of one value.
#[derive(Debug, Serialize)]
pub struct Change {
    /// JSON pointer of the value.
    pub at: String,
    /// The value before, as JSON.
    pub before: Option<String>,
    /// The value after, as JSON.
    pub after: Option<String>,
}

/// A call in an answer.
#[derive(Debug, Default, Serialize)]
pub struct TimelineCall {
    /// The tool, as the model named it.
    pub tool: String,
    /// Outcome of the call, if the record has it.
    pub outcome: Option<CallOutcome>,
    /// The mark that it was passed on with.
    pub mark: Option<Box<str>>,
    /// toolmark changed the arguments.
    pub corrected: bool,
    /// The arguments, as the model wrote them.
    pub arguments: Option<String>,
    /// The tool with its schema, as JSON.
    pub declared: Option<Box<str>>,
    /// Findings in the call.
    pub findings: Vec<TimelineFinding>,
}

/// A violation, with its place and its meaning.
#[derive(Clone, Debug, Serialize)]
pub struct TimelineFinding {
    /// Code of the violation.
    pub code: Code,
    /// Severity under the policy that judged.
    pub severity: Severity,
    /// What the code means, in a sentence; Markdown.
    pub means: &'static str,
    /// The tool concerned.
    pub tool: Option<Box<str>>,
    /// Explanation for the model and for people.
    pub message: Option<String>,
    /// Advice on how to fix it.
    pub advice: Option<String>,
    /// JSON pointer into the call's arguments; empty: the arguments as a whole.
    pub pointer: Option<Box<str>>,
    /// Place in the answer's text: first character, and the one after the last. Unicode code points.
    pub span: Option<[usize; 2]>,
    /// For a checked claim: certainty that it is wrong.
    pub certainty: Option<Certainty>,
    /// For a checked claim: the execution that it was compared with.
    pub execution: Option<Box<str>>,
    /// For a checked claim: the value that it states.
    pub found: Option<Box<str>>,
    /// For a checked claim: the right value.
    pub expected: Option<Box<str>>,
}

/// What left for the application.
#[derive(Debug, Default, Serialize)]
pub struct TimelineAnswer {
    /// HTTP status.
    pub status: Option<u16>,
    /// Its headers, as far as they are kept.
    pub headers: Vec<Header>,
    /// Its body.
    pub body: Option<String>,
    /// The application didn't get all of it.
    pub cut: bool,
    /// Its text.
    pub text: Option<String>,
    /// Its calls: tools with their arguments and ids.
    pub calls: Vec<crate::replay::explain::ReadCall>,
}

/// Bodies of an exchange, and what was read of them.
pub struct ReadBodies<'b> {
    /// The exchange, without its secrets.
    pub exchange: &'b RecordedExchange,
    /// What was read; `None` if that isn't possible.
    pub read: Option<Explanation>,
    /// A body was cut.
    pub cut: bool,
}

impl Timeline {
    /// The timeline of a record, with its bodies if the caller may read them.
    pub fn of(record: &ExchangeRecord, kept: BodyPlace, bodies: Option<ReadBodies<'_>>, may_read: bool) -> Self {
        let exchange = bodies.as_ref().map(|bodies| bodies.exchange);
        let read = bodies.as_ref().and_then(|bodies| bodies.read.clone()).unwrap_or_default();
        let findings = findings(record, exchange, may_read);
        let mut request = exchange.map(|exchange| request(&exchange.downstream.request)).unwrap_or_default();
        let of_request = findings.iter().filter(|(attempt, _)| *attempt == 0).map(|(_, finding)| finding.clone());
        request.findings = of_request.map(|finding| located(finding, read.of_request.iter().collect())).collect();
        let before = exchange.and_then(|exchange| json(exchange.downstream.request.body.as_ref()));
        let attempts = attempts(record, exchange, &read, &findings, before);
        let answer = answer(record, exchange, read.sent);
        let executions = if may_read { record.executions.clone() } else { record.executions.iter().map(without_bodies).collect() };
        let ran = exchange.and_then(|exchange| exchange.mcp.as_ref()).map(|mcp| mcp.ran.clone()).unwrap_or_default();
        Self {
            summary: ExchangeSummary::of(record),
            began_ms: record.at_ms,
            policy: record.policy.clone(),
            kept,
            bodies: may_read,
            cut: bodies.as_ref().is_some_and(|bodies| bodies.cut),
            redactions: exchange.map_or(0, |exchange| exchange.redactions),
            request,
            attempts,
            answer,
            executions,
            ran,
        }
    }
}

/// An execution without its arguments and result.
pub fn without_bodies(execution: &ExecutionRecord) -> ExecutionRecord {
    ExecutionRecord { arguments_body: None, result_body: None, ..execution.clone() }
}

/// A record without what only bodies may show.
pub fn record_without_bodies(record: &ExchangeRecord) -> ExchangeRecord {
    let mut record = record.clone();
    record.executions = record.executions.iter().map(without_bodies).collect();
    record.calls.iter_mut().for_each(|call| call.arguments_body = None);
    record.violations.iter_mut().for_each(hide_words);
    record
}

/// Takes out what a violation quotes.
pub fn hide_words(violation: &mut ViolationRecord) {
    (violation.message, violation.found, violation.expected) = (None, None, None);
}

/// The recorded violations in order, each with the number of its attempt.
fn findings(record: &ExchangeRecord, exchange: Option<&RecordedExchange>, may_read: bool) -> Vec<(u32, TimelineFinding)> {
    // Both lists are of the same violations, but for those that were found after the answer was sent.
    let recorded = exchange.and_then(|exchange| exchange.verdict.as_ref()).map(|verdict| &verdict.violations[..]).unwrap_or_default();
    let finding = |(at, own): (usize, &ViolationRecord)| {
        let words = recorded.get(at).filter(|other| other.code == own.code.as_str()).map(|other| other.message.clone());
        let shown = |text: &Option<Box<str>>| text.clone().filter(|_| may_read);
        let message = words.or_else(|| own.message.as_deref().filter(|_| may_read).map(str::to_owned));
        let finding = TimelineFinding {
            code: own.code,
            severity: own.severity,
            means: codes::meaning(own.code),
            tool: own.tool.clone(),
            message: message.filter(|message| !message.is_empty()),
            advice: None,
            pointer: None,
            span: None,
            certainty: own.certainty,
            execution: own.execution.clone(),
            found: shown(&own.found),
            expected: shown(&own.expected),
        };
        (own.attempt, finding)
    };
    record.violations.iter().enumerate().map(finding).collect()
}

/// Adds the place and the advice of the finding that is the same.
fn located(finding: TimelineFinding, candidates: Vec<&Finding>) -> TimelineFinding {
    match candidates.into_iter().find(|candidate| is_same(candidate, &finding)) {
        Some(found) => with_place(finding, found),
        None => finding,
    }
}

fn is_same(found: &Finding, own: &TimelineFinding) -> bool {
    found.code == own.code && own.message.as_deref().is_none_or(|message| message == found.message) && found.tool == own.tool
}

fn with_place(finding: TimelineFinding, found: &Finding) -> TimelineFinding {
    let advice = Some(found.advice.clone()).filter(|advice| !advice.is_empty());
    TimelineFinding { advice, pointer: found.pointer.clone(), span: found.span, ..finding }
}

fn attempts(
    record: &ExchangeRecord,
    exchange: Option<&RecordedExchange>,
    read: &Explanation,
    findings: &[(u32, TimelineFinding)],
    came: Option<Value>,
) -> Vec<TimelineAttempt> {
    let recorded = exchange.map(|exchange| &exchange.attempts[..]).unwrap_or_default();
    let mut before = came;
    let mut all = Vec::new();
    for at in 0..record.attempts.len().max(recorded.len()) {
        let number = at + 1;
        let own: Option<&AttemptRecord> = record.attempts.get(at);
        let mut attempt = TimelineAttempt { number, ..TimelineAttempt::default() };
        if let Some(own) = own {
            (attempt.upstream, attempt.model, attempt.status) = (own.upstream.clone(), own.model.clone(), own.status);
            (attempt.tokens, attempt.duration_us) = (own.tokens, own.duration_us);
        }
        if let Some(taped) = recorded.get(at) {
            attempt.after_ms = taped.after_ms;
            attempt.failure = taped.failure.as_ref().map(|failure| format!("{}: {}", failure.code, failure.message));
            attempt.status = attempt.status.or(taped.response.as_ref().map(|response| response.status));
            attempt.request = taped.request.as_ref().and_then(|request| text(request.body.as_ref()));
            attempt.response = taped.response.as_ref().and_then(|response| text(response.body.as_ref()));
            let sent = taped.request.as_ref().and_then(|request| json(request.body.as_ref()));
            if let (Some(before), Some(sent)) = (&before, &sent) {
                (attempt.changes, attempt.told) = changes(before, sent, at > 0);
            }
            before = sent.or(before);
        }
        let answer = read.attempts.get(at).and_then(Option::as_ref);
        fill_calls(&mut attempt, record, answer, findings);
        all.push(attempt);
    }
    all
}

/// Sets text, calls and findings of an attempt.
fn fill_calls(attempt: &mut TimelineAttempt, record: &ExchangeRecord, answer: Option<&ReadAnswer>, findings: &[(u32, TimelineFinding)]) {
    let number = attempt.number as u32;
    let of_record: Vec<_> = record.calls.iter().filter(|call| call.attempt == number).collect();
    let read = answer.map(|answer| &answer.calls[..]).unwrap_or_default();
    attempt.text = answer.map(|answer| answer.text.clone()).filter(|text| !text.is_empty());
    for at in 0..read.len().max(of_record.len()) {
        let (read, own) = (read.get(at), of_record.get(at));
        // Where both know the call, they must mean the same one.
        let own = own.filter(|own| read.is_none_or(|read| read.tool.starts_with(&*own.tool) || own.corrected));
        attempt.calls.push(TimelineCall {
            tool: read.map(|read| read.tool.clone()).or_else(|| own.map(|own| own.tool.to_string())).unwrap_or_default(),
            outcome: own.map(|own| own.outcome),
            mark: own.and_then(|own| own.mark.clone()),
            corrected: own.is_some_and(|own| own.corrected),
            arguments: read.map(|read| read.arguments.clone()),
            declared: read.and_then(|read| read.declared.clone()),
            findings: Vec::new(),
        });
    }
    let mut used: Vec<(usize, usize)> = Vec::new();
    for (_, finding) in findings.iter().filter(|(attempt, _)| *attempt == number) {
        let calls = answer.map(|answer| &answer.calls[..]).unwrap_or_default().iter().enumerate();
        let mut places = calls.flat_map(|(call, read)| read.findings.iter().enumerate().map(move |(at, found)| (call, at, found)));
        // Two calls may have the same fault.
        if let Some((call, at, found)) = places.find(|(call, at, found)| is_same(found, finding) && !used.contains(&(*call, *at))) {
            used.push((call, at));
            if let Some(call) = attempt.calls.get_mut(call) {
                call.findings.push(with_place(finding.clone(), found));
                continue;
            }
        }
        let of_turn = answer.map(|answer| answer.findings.iter().collect()).unwrap_or_default();
        let finding = located(finding.clone(), of_turn);
        let same_tool = |call: &&mut TimelineCall| finding.tool.as_deref() == Some(&*call.tool);
        // Without bodies a call's findings are known by its tool.
        match attempt.calls.iter_mut().find(same_tool).filter(|_| codes::place(finding.code) == "call") {
            Some(call) => call.findings.push(finding),
            None => attempt.findings.push(finding),
        }
    }
}

fn answer(record: &ExchangeRecord, exchange: Option<&RecordedExchange>, read: Option<ReadAnswer>) -> Option<TimelineAnswer> {
    let taped: Option<&RecordedResponse> = exchange.and_then(|exchange| exchange.downstream.response.as_ref());
    let read = read.unwrap_or_default();
    Some(TimelineAnswer {
        status: record.status,
        headers: taped.map(|taped| taped.headers.clone()).unwrap_or_default(),
        body: taped.and_then(|taped| text(taped.body.as_ref())),
        cut: taped.is_some_and(|taped| taped.cut),
        text: Some(read.text).filter(|text| !text.is_empty()),
        calls: read.calls,
    })
}

fn request(request: &RecordedRequest) -> TimelineRequest {
    TimelineRequest {
        line: Some(format!("{} {}", request.method, request.url)),
        headers: request.headers.clone(),
        body: text(request.body.as_ref()),
        findings: Vec::new(),
    }
}

fn text(body: Option<&RecordedBody>) -> Option<String> {
    let bytes = body?.bytes();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn json(body: Option<&RecordedBody>) -> Option<Value> {
    serde_json::from_slice(&body?.bytes()).ok()
}

/// Changes from one request to the next, and what the next one tells the model. `is_repair`: there was an attempt before.
fn changes(before: &Value, after: &Value, is_repair: bool) -> (Vec<Change>, Vec<String>) {
    let mut told = Vec::new();
    let mut list = Vec::new();
    for difference in differences(before, after) {
        if is_repair && let Some(added) = difference.requested.as_deref().and_then(|json| serde_json::from_str::<Value>(json).ok()) {
            collect_told(&added, &mut told);
        }
        list.push(Change { at: difference.at, before: difference.recorded, after: difference.requested });
    }
    (list, told)
}

// INVARIANT: serde_json refuses what is nested deeper than 128, so the recursion is bounded.
fn collect_told(value: &Value, told: &mut Vec<String>) {
    match value {
        Value::String(text) if told.len() < TOLD_MAX && TOLD.iter().any(|start| text.starts_with(start)) => told.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|inner| collect_told(inner, told)),
        Value::Object(map) => map.values().for_each(|inner| collect_told(inner, told)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
