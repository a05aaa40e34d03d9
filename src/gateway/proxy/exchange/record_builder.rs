//! Builder of an exchange's record: facts are collected while the exchange runs, and assembled when it has ended.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use uuid::Uuid;

use crate::{
    exchange::{attempts::Attempts, context::Context, decision::ExchangeFindings, turn::EchoedTurn},
    judge::{call::ValidCall, history::Execution},
    ledger::record::{
        AttemptRecord, AttemptTokens, CallOutcome, CallRecord, ClaimRecord, Digest, ExchangeRecord, ExecutionRecord, SESSION_CHARS_MAX,
        StoredText, TOOL_CHARS_MAX, ViolationRecord, Witness,
    },
    marks::MarkTime,
    openai::Api,
    proxy::{
        app::App,
        exchange::clock::ExchangeClock,
        http::headers::{CLAUDE_CODE_SESSION, SESSION},
    },
    settings::{LedgerSettings, StoredContent},
    violation::{Detail, Place, Severity, Verdict, Violation},
    wire::json::{Document, Value, canonical::canonical},
};

/// Maximum calls recorded per exchange.
const CALLS_MAX: usize = 1024;

/// The caller, as far as the record names it.
#[derive(Clone, Debug, Default)]
pub struct CallerInfo {
    /// The name that `[[clients]]` give the caller.
    pub client: Option<Box<str>>,
    /// The caller's name for the conversation, from the header `toolmark-session`, else from Claude Code's.
    pub session: Option<Box<str>>,
}

impl CallerInfo {
    /// Reads the session's name from the headers. A name that is empty or not UTF-8 counts as none.
    pub fn of(client: Option<&str>, headers: &HeaderMap) -> Self {
        let session = headers
            .get(SESSION)
            .or_else(|| headers.get(CLAUDE_CODE_SESSION))
            .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
            .map(str::trim);
        let kept = |name: &str| name.chars().take(SESSION_CHARS_MAX).collect();
        Self { client: client.map(Into::into), session: session.filter(|name| !name.is_empty()).map(kept) }
    }
}

/// Form in which the application asked for its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Delivery {
    /// One JSON document.
    Whole,
    /// Server-sent events.
    Stream,
}

impl Delivery {
    /// The form that the request's `stream` asks for.
    pub fn of(stream: bool) -> Self {
        if stream { Self::Stream } else { Self::Whole }
    }
}

/// Builder of one exchange's record: the facts that were collected so far.
#[derive(Debug)]
pub struct RecordBuilder {
    caller: CallerInfo,
    api: Api,
    delivery: Delivery,
    /// Status that the caller got; `None` until then.
    status: Option<u16>,
    /// The record was made.
    is_made: bool,
    attempts: Vec<AttemptRecord>,
    calls: Vec<CallRecord>,
    /// Calls that were passed on, as indices into `calls`, each with the moment of its mark.
    moments: Vec<(usize, MarkTime)>,
    /// Number of violations already found when each attempt began.
    known: Vec<usize>,
    /// Number of attempts that had begun when a check of the request began.
    checked_from: usize,
}

/// State of the exchange that its record and log line are made of.
pub struct ExchangeState<'e> {
    /// The process's state.
    pub app: &'e App,
    /// Inputs for judging.
    pub context: &'e Context,
    /// Findings over all attempts.
    pub attempts: &'e Attempts,
    /// Time.
    pub clock: &'e ExchangeClock,
    /// Model that the request names.
    pub model: &'e str,
    /// Name of the current upstream.
    pub upstream: &'e str,
    /// Indices of the context's executions that are shown for the first time.
    pub first_shown: &'e [usize],
}

impl RecordBuilder {
    /// Builder for an exchange of this caller.
    pub fn new(caller: CallerInfo, api: Api, delivery: Delivery) -> Self {
        let (attempts, calls, moments, known) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { caller, api, delivery, status: None, is_made: false, attempts, calls, moments, known, checked_from: 0 }
    }

    /// Name of the caller's session.
    pub fn session(&self) -> Option<&str> {
        self.caller.session.as_deref()
    }

    /// Records the status that the caller got; from here on the exchange counts as ended.
    pub fn finish(&mut self, status: StatusCode) {
        self.status = Some(status.as_u16());
    }

    /// True if the caller got a status.
    pub fn is_finished(&self) -> bool {
        self.status.is_some()
    }

    /// True if the record was made.
    pub fn is_made(&self) -> bool {
        self.is_made
    }

    /// Records a turn that isn't passed on.
    pub fn rejected(&mut self, context: &Context, turn: &EchoedTurn, ledger: &LedgerSettings) {
        // Where nothing is changed, valid calls pass and are noted then.
        if !context.observes() || turn.calls.iter().any(|call| !call.violations.is_empty()) {
            self.turn(turn, ledger);
        }
    }

    /// Starts an attempt. `violations`: number found so far.
    pub fn attempt(&mut self, upstream: &str, model: &str, violations: usize) {
        self.attempts.push(AttemptRecord { upstream: upstream.into(), model: model.into(), ..AttemptRecord::default() });
        self.known.push(violations);
    }

    /// Notes that a check of the request begins, whose findings may be known only after the next attempts have started.
    pub fn begin_check(&mut self) {
        self.checked_from = self.known.len();
    }

    /// Notes that the findings of that check are known: they are none of the attempts' that have started since. `violations`: number found
    /// so far.
    pub fn end_check(&mut self, violations: usize) {
        self.known.iter_mut().skip(self.checked_from).for_each(|known| *known = violations);
    }

    /// Records the status of the attempt's response.
    pub fn status(&mut self, status: u16) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.status = Some(status);
        }
    }

    /// Adds time that was spent waiting for the attempt's answer.
    pub fn waited(&mut self, time: Duration) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.duration_us = attempt.duration_us.saturating_add(micros(time));
        }
    }

    /// Records the tokens that `usage` of the attempt's answer states.
    pub fn usage(&mut self, usage: Option<Value<'_>>) {
        if let (Some(attempt), Some(usage)) = (self.attempts.last_mut(), usage) {
            attempt.tokens = tokens(usage);
        }
    }

    /// Records the tokens that `usage`, as JSON text, states.
    pub fn usage_text(&mut self, usage: Option<&str>) {
        let parse = |usage: &str| Document::parse_noting(bytes::Bytes::copy_from_slice(usage.as_bytes()), 1, &[]).ok();
        if let Some(document) = usage.and_then(parse) {
            self.usage(Some(document.root()));
        }
    }

    /// Records the calls of a turn that isn't passed on.
    fn turn(&mut self, turn: &EchoedTurn, ledger: &LedgerSettings) {
        let attempt = self.attempts.len() as u32;
        let room = CALLS_MAX.saturating_sub(self.calls.len());
        self.calls.extend(turn.calls.iter().take(room).map(|call| CallRecord {
            attempt,
            tool: shortened(&call.name),
            outcome: if call.violations.is_empty() { CallOutcome::Withheld } else { CallOutcome::Rejected },
            mark: None,
            arguments: of_arguments(&call.arguments),
            arguments_body: body(&call.name, &call.arguments, ledger),
            corrected: false,
            violations: call.violations.iter().map(|violation| violation.code).collect(),
        }));
    }

    /// Records a call that is passed on.
    pub fn call(&mut self, call: &ValidCall, moment: MarkTime, ledger: &LedgerSettings) {
        if self.calls.len() >= CALLS_MAX {
            return;
        }
        self.moments.push((self.calls.len(), moment));
        self.calls.push(CallRecord {
            attempt: self.attempts.len() as u32,
            tool: shortened(call.name()),
            outcome: CallOutcome::Accepted,
            mark: None,
            arguments: of_arguments(call.arguments()),
            arguments_body: body(call.name(), call.arguments(), ledger),
            corrected: call.corrected(),
            violations: Vec::new(),
        });
    }

    /// Replaces the moment of a call's mark.
    pub fn moved(&mut self, from: MarkTime, to: MarkTime) {
        self.moments.iter_mut().filter(|(_, moment)| *moment == from).for_each(|(_, moment)| *moment = to);
    }

    /// Returns the attempts and calls, and empties the builder. `marks`: the marks that calls were given, by their moments.
    fn take(&mut self, marks: &[(MarkTime, Box<str>)]) -> (Vec<AttemptRecord>, Vec<CallRecord>) {
        for (at, moment) in self.moments.drain(..) {
            if let Some(call) = self.calls.get_mut(at) {
                call.mark = marks.iter().find(|(own, _)| *own == moment).map(|(_, mark)| mark.clone());
            }
        }
        (std::mem::take(&mut self.attempts), std::mem::take(&mut self.calls))
    }

    /// Attempt in which the violation at this place was found, from 1; 0 for those of the request.
    fn attempt_of(&self, at: usize) -> u32 {
        self.known.iter().take_while(|known| **known <= at).count() as u32
    }

    /// Records of all violations.
    fn violations(&self, findings: &ExchangeFindings, ledger: &LedgerSettings) -> Vec<ViolationRecord> {
        let record = |(at, violation): (usize, &Violation)| {
            let detail = violation.detail.as_deref();
            let words = |of: fn(&Detail) -> &str| detail.and_then(|detail| kept(of(detail), violation, ledger));
            let attempt = self.attempt_of(at);
            ViolationRecord {
                tool: violation.tool.as_deref().map(shortened),
                message: kept(&violation.message, violation, ledger),
                certainty: detail.map(|detail| detail.certainty),
                execution: detail.and_then(|detail| detail.execution.as_deref().map(Into::into)),
                found: words(|detail| &detail.found),
                expected: words(|detail| &detail.expected),
                ..ViolationRecord::new(violation.code, violation.severity, attempt)
            }
        };
        findings.violations.iter().enumerate().map(record).collect()
    }

    /// Writes the log line of an exchange that has ended.
    pub fn log(&self, state: &ExchangeState<'_>, total: Duration) {
        let ExchangeState { context, attempts, .. } = state;
        for execution in &context.executions {
            tracing::debug!(exchange = %context.id, tool = &*execution.tool, execution = &*execution.id, "result of {}", execution.tool);
        }
        let findings = attempts.findings();
        for violation in &findings.violations {
            let (code, severity) = (violation.code.as_str(), violation.severity);
            if severity >= Severity::Warn {
                let tool = violation.tool.as_deref().filter(|tool| context.tools().registry.tool(tool).is_some()).unwrap_or("-");
                tracing::warn!(exchange = %context.id, code, tool, severity = ?severity, "violation {code}");
            }
        }
        let verdict = match self.status {
            None => "abandoned",
            Some(400..) if !findings.blocked => "failed",
            Some(_) => findings.word(),
        };
        let mut buffer = Uuid::encode_buffer();
        tracing::info!(
            exchange = &*context.id.hyphenated().encode_lower(&mut buffer),
            model = state.model,
            upstream = state.upstream,
            stream = self.delivery == Delivery::Stream,
            tools = context.tools().registry.tools().len(),
            tool_choice = context.turn.tool_choice.as_str(),
            status = self.status.unwrap_or(499),
            verdict,
            attempts = attempts.started(),
            repairs = findings.repairs,
            violations = findings.violations.len(),
            total_ms = total.as_millis() as u64,
            upstream_ms = state.clock.upstream_time().as_millis() as u64,
            "exchange {verdict}"
        );
    }

    /// Amending record for a violation found after the first record was handed over, which may be written by now.
    pub fn amendment(&self, state: &ExchangeState<'_>, first: &ExchangeRecord, late: Violation) -> ExchangeRecord {
        let late = ExchangeFindings { violations: vec![late], ..ExchangeFindings::default() };
        ExchangeRecord {
            id: Uuid::now_v7(),
            amends: Some(first.id),
            status: self.status,
            verdict: state.attempts.findings().verdict(),
            total_us: micros(state.clock.elapsed()),
            attempts: Vec::new(),
            calls: Vec::new(),
            executions: Vec::new(),
            claims: Vec::new(),
            violations: self.violations(&late, &state.app.settings.ledger),
            ..first.clone()
        }
    }

    /// Makes the record of the exchange.
    pub fn build(&mut self, state: &ExchangeState<'_>, total: Duration) -> ExchangeRecord {
        self.is_made = true;
        let ExchangeState { app, context, attempts, clock, model, .. } = *state;
        let (findings, rules) = (attempts.findings(), &context.rules);
        let verdict = match self.status {
            // What nobody waited for was not judged to its end: it never counts as passed.
            None => findings.verdict().max(Verdict::Warn),
            Some(_) => findings.verdict(),
        };
        let violations = self.violations(findings, &app.settings.ledger);
        let (attempts, calls) = self.take(&context.inquiry.marks());
        ExchangeRecord {
            id: context.id,
            amends: None,
            at_ms: clock.began_ms(),
            api: self.api,
            stream: self.delivery == Delivery::Stream,
            observed: context.observes(),
            scope: app.recorder.scope(&context.scope),
            client: self.caller.client.clone(),
            session: self.caller.session.clone(),
            policy: rules.digest.get(..16).unwrap_or(&rules.digest).into(),
            model: model.into(),
            status: self.status,
            verdict,
            repairs: findings.repairs,
            total_us: micros(total),
            upstream_us: micros(clock.upstream_time()),
            attempts,
            calls,
            executions: executions(context, state.first_shown, clock.arrived_ms(), &app.settings.ledger),
            claims: claims(findings),
            violations,
        }
    }
}

/// Claims of the answer: the executions that it cites, and the codes of violations in its text.
fn claims(findings: &ExchangeFindings) -> Vec<ClaimRecord> {
    let cited = findings.citations.iter().map(|id| ClaimRecord { execution: Some(id.as_str().into()), code: None });
    let wrong = findings.violations.iter().filter(|violation| violation.code.place() == Place::Text);
    cited.chain(wrong.map(|violation| ClaimRecord { execution: None, code: Some(violation.code) })).collect()
}

/// Executions shown for the first time in this exchange: `fresh` are their indices in the context. `now_ms`: time at which
/// their results arrived.
fn executions(context: &Context, fresh: &[usize], now_ms: u64, ledger: &LedgerSettings) -> Vec<ExecutionRecord> {
    let fresh: Vec<&Execution> = fresh.iter().filter_map(|at| context.executions.get(*at)).collect();
    if fresh.is_empty() {
        return Vec::new();
    }
    let marks: Vec<&str> = fresh.iter().map(|execution| execution.mark.as_str()).collect();
    let mut shown = context.exhibits(&marks);
    let record = |execution: &Execution| {
        let shown = shown.remove(execution.mark.as_str()).unwrap_or_default();
        ExecutionRecord {
            id: (&*execution.id).into(),
            tool: shortened(&execution.tool),
            mark: execution.mark.as_str().into(),
            arguments: shown.arguments.as_deref().map(of_arguments),
            result: Digest(execution.result),
            arguments_body: shown.arguments.and_then(|text| body(&execution.tool, &text, ledger)),
            result_body: shown.result.and_then(|text| body(&execution.tool, &text, ledger)),
            witness: if context.tools().runs(&execution.tool).is_some() { Witness::Proxy } else { Witness::App },
            started_ms: execution.moment.time_ms,
            seen_ms: now_ms,
            failed: execution.failed,
        }
    };
    fresh.into_iter().map(record).collect()
}

/// Text of a tool's call or result for the record, without secrets; `None` unless the settings store bodies of this tool.
fn body(tool: &str, text: &str, ledger: &LedgerSettings) -> Option<StoredText> {
    (ledger.store == StoredContent::Bodies && ledger.body_tools.covers(tool))
        .then(|| StoredText::of(&ledger.redactor.body_text(text), ledger.body_bytes))
}

/// Text of a violation for the record, without secrets; `None` unless the settings store bodies of its tool, or of all tools: it may quote arguments.
fn kept(words: &str, violation: &Violation, ledger: &LedgerSettings) -> Option<Box<str>> {
    let covered = violation.tool.as_deref().map_or_else(|| ledger.body_tools.covers_all(), |tool| ledger.body_tools.covers(tool));
    let cut = || StoredText::of(&ledger.redactor.body_text(words), ledger.body_bytes).text;
    (ledger.store == StoredContent::Bodies && covered).then(cut)
}

/// Duration in whole microseconds.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn shortened(name: &str) -> Box<str> {
    if name.len() <= TOOL_CHARS_MAX { name.into() } else { name.chars().take(TOOL_CHARS_MAX).collect() }
}

fn of_arguments(arguments: &str) -> Digest {
    match canonical(if arguments.trim().is_empty() { "{}" } else { arguments }) {
        Some(json) => Digest::of(json.as_bytes()),
        None => Digest::of(arguments.as_bytes()),
    }
}

/// Token counts in `usage` of either API.
fn tokens(usage: Value<'_>) -> Option<AttemptTokens> {
    let count = |names: [&str; 2]| names.iter().find_map(|name| usage.get(name).and_then(Value::integer));
    let (input, output) = (count(["prompt_tokens", "input_tokens"]), count(["completion_tokens", "output_tokens"]));
    (input.is_some() || output.is_some()).then(|| AttemptTokens { input: input.unwrap_or(0), output: output.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_check_count_before_the_attempts_that_began_meanwhile_and_no_earlier() {
        let mut record = RecordBuilder::new(CallerInfo::default(), Api::Chat, Delivery::Whole);
        let attempts_of = |record: &RecordBuilder, count| (0..count).map(|at| record.attempt_of(at)).collect::<Vec<_>>();
        record.begin_check();
        // It is asked twice before the ledger answers, with one finding.
        record.attempt("u", "m", 0);
        record.attempt("u", "m", 0);
        record.end_check(1);
        assert_eq!(attempts_of(&record, 2), [0, 2], "the second is of the answer");
        // A round of tools: what is found of its results stands behind what the answer before had.
        record.begin_check();
        record.attempt("u", "m", 2);
        record.end_check(3);
        assert_eq!(attempts_of(&record, 4), [0, 2, 2, 3]);
    }
}
