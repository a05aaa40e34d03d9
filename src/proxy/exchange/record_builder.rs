//! Builder of an exchange's record: facts are collected while the exchange runs, and assembled when it has ended.

use std::time::Duration;

use crate::{
    chat,
    exchange::{context::Context, decision::ExchangeFindings, turn::EchoedTurn},
    judge::{call::ValidCall, history::Execution},
    ledger::record::{
        AttemptRecord, AttemptTokens, CallOutcome, CallRecord, ClaimRecord, Digest, ExecutionRecord, StoredText, TOOL_CHARS_MAX,
        ViolationRecord, Witness,
    },
    marks::MarkTime,
    openai::Api,
    responses,
    settings::{Ledger, Store},
    violation::{Detail, Place, Violation},
    wire::json::{Document, Value, canonical::canonical},
};

/// Maximum calls recorded per exchange.
const CALLS_MAX: usize = 1024;

/// Facts for the record that were collected so far.
#[derive(Debug, Default)]
pub struct Notes {
    attempts: Vec<AttemptRecord>,
    calls: Vec<CallRecord>,
    /// Calls that were passed on, as indices into `calls`, each with the moment of its mark.
    moments: Vec<(usize, MarkTime)>,
    /// Number of violations already found when each attempt began.
    known: Vec<usize>,
}

impl Notes {
    /// Starts an attempt. `violations`: number found so far.
    pub fn attempt(&mut self, upstream: &str, model: &str, violations: usize) {
        self.attempts.push(AttemptRecord { upstream: upstream.into(), model: model.into(), ..AttemptRecord::default() });
        self.known.push(violations);
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
    pub fn turn(&mut self, turn: &EchoedTurn, ledger: &Ledger) {
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
    pub fn call(&mut self, call: &ValidCall, moment: MarkTime, ledger: &Ledger) {
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
    pub fn take(&mut self, marks: &[(MarkTime, Box<str>)]) -> (Vec<AttemptRecord>, Vec<CallRecord>) {
        for (at, moment) in self.moments.drain(..) {
            if let Some(call) = self.calls.get_mut(at) {
                call.mark = marks.iter().find(|(own, _)| *own == moment).map(|(_, mark)| mark.clone());
            }
        }
        (std::mem::take(&mut self.attempts), std::mem::take(&mut self.calls))
    }

    /// Records of all violations.
    pub fn violations(&self, tally: &ExchangeFindings, ledger: &Ledger) -> Vec<ViolationRecord> {
        let record = |(at, violation): (usize, &Violation)| {
            let detail = violation.detail.as_deref();
            let words = |of: fn(&Detail) -> &str| detail.and_then(|detail| kept(of(detail), violation, ledger));
            let attempt = self.known.iter().take_while(|known| **known <= at).count() as u32;
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
        tally.violations.iter().enumerate().map(record).collect()
    }
}

/// Claims of the answer: the executions that it cites, and the codes of violations in its text.
pub fn claims(tally: &ExchangeFindings) -> Vec<ClaimRecord> {
    let cited = tally.citations.iter().map(|id| ClaimRecord { execution: Some(id.as_str().into()), code: None });
    let wrong = tally.violations.iter().filter(|violation| violation.code.place() == Place::Text);
    cited.chain(wrong.map(|violation| ClaimRecord { execution: None, code: Some(violation.code) })).collect()
}

/// Executions shown for the first time in this exchange: `fresh` are their indices in the context. `now_ms`: time at which
/// their results arrived.
pub fn executions(context: &Context, fresh: &[usize], api: Api, now_ms: u64, ledger: &Ledger) -> Vec<ExecutionRecord> {
    let fresh: Vec<&Execution> = fresh.iter().filter_map(|at| context.executions.get(*at)).collect();
    if fresh.is_empty() {
        return Vec::new();
    }
    let marks = fresh.iter().map(|execution| execution.mark.as_str());
    let mut shown = match api {
        Api::Chat => chat::exhibit::exhibits(context.request(), marks),
        Api::Responses => responses::request::exhibit::exhibits(context.request(), marks),
    };
    let record = |execution: &Execution| {
        let shown = shown.remove(execution.mark.as_str()).unwrap_or_default();
        ExecutionRecord {
            id: execution.id.as_str().into(),
            tool: shortened(&execution.tool),
            mark: execution.mark.as_str().into(),
            arguments: shown.arguments.as_deref().map(of_arguments),
            result: Digest(execution.result),
            arguments_body: shown.arguments.and_then(|text| body(&execution.tool, &text, ledger)),
            result_body: shown.result.and_then(|text| body(&execution.tool, &text, ledger)),
            witness: if context.tools.runs(&execution.tool).is_some() { Witness::Proxy } else { Witness::App },
            started_ms: execution.moment.time_ms,
            seen_ms: now_ms,
            failed: execution.failed,
        }
    };
    fresh.into_iter().map(record).collect()
}

/// Text of a tool's call or result for the record; `None` unless the settings store bodies of this tool.
fn body(tool: &str, text: &str, ledger: &Ledger) -> Option<StoredText> {
    (ledger.store == Store::Bodies && ledger.body_tools.covers(tool)).then(|| StoredText::of(text, ledger.body_bytes))
}

/// Text of a violation for the record; `None` unless the settings store bodies of its tool, or of all tools: it may quote arguments.
fn kept(words: &str, violation: &Violation, ledger: &Ledger) -> Option<Box<str>> {
    let covered = violation.tool.as_deref().map_or_else(|| ledger.body_tools.covers_all(), |tool| ledger.body_tools.covers(tool));
    let cut = || StoredText::of(words, ledger.body_bytes).text;
    (ledger.store == Store::Bodies && covered).then(cut)
}

/// Duration in whole microseconds.
pub fn micros(time: Duration) -> u64 {
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
