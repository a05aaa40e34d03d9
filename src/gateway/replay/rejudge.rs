//! Judges a recorded exchange again: the same core, the same order of attempts and the same decisions as on the wire, with
//! the recorded answers in place of a model.
//!
//! Anything that depends on data outside the recording is reported as not judged: it never counts as a difference, and
//! never as passed. Pure.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use super::{
    explain::{Explanation, Finding, ReadAnswer},
    offline::{Bench, Unheard, When, hear},
};
use crate::{
    cassette::{
        body,
        format::{RecordedAttempt, RecordedExchange, RecordedResponse, RecordedVerdict, RecordedViolation},
    },
    exchange::{
        attempts::{Attempts, NextStep},
        context::{Begun, Context, Upstream, excuse_marks},
        decision::ExchangeFindings,
        error::Fault,
        loop_guard::AttemptInputs,
        turn::EchoedTurn,
    },
    marks::Scope,
    openai::{Api, error::Reported, path::path_of},
    responses::request::Recalled,
    translate::{Translation, answer::Origin},
    violation::{Code, Severity, Violation},
    wire::{json::Document, sse::is_event_stream},
};

/// Result of judging a recorded exchange again.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Judgement {
    /// Verdict and violations; the verdict is empty if nothing was judged.
    pub found: RecordedVerdict,
    /// The reason, if nothing or only a part was judged.
    pub not_judged: Option<String>,
    /// The model named in the request.
    pub model: String,
    /// The model would have been asked again, but its answer isn't recorded.
    pub open: bool,
}

impl Judgement {
    /// A result of an exchange that isn't judged at all.
    fn none(why: impl Into<String>) -> Self {
        Self { not_judged: Some(why.into()), ..Self::default() }
    }

    /// True if at least a part was judged.
    pub fn judged(&self) -> bool {
        !self.found.verdict.is_empty()
    }
}

/// Codes that depend on data outside the exchange: loops over several exchanges, and the ledger.
const ELSEWHERE: [Code; 3] = [Code::LoopDetected, Code::RewrittenResult, Code::ExecutionElsewhere];
/// Codes that depend on a state probe or on the verifier, which aren't asked again.
const ASKED: [Code; 3] = [Code::StateMismatch, Code::StateUnknown, Code::VerifierContradiction];
/// Codes that depend on marks.
const OF_MARKS: [Code; 9] = [
    Code::UnverifiedCall,
    Code::AlteredCall,
    Code::ForgedStamp,
    Code::UnknownExecution,
    Code::ExpiredExecution,
    Code::ExecutionElsewhere,
    Code::ToolMismatch,
    Code::MissingExecutionId,
    Code::MissingCitation,
];

/// Judges a recorded exchange.
pub fn judge(bench: &Bench, exchange: &RecordedExchange) -> Judgement {
    if exchange.mcp.is_some() && Api::of_path(path_of(&exchange.downstream.request.url)).is_some() {
        return Judgement::none("MCP servers offered tools in it, whose schemas and results are theirs to say");
    }
    match Judging::begin(bench, exchange) {
        Ok((mut judging, model)) => {
            judging.run();
            judging.end(model)
        }
        Err(judgement) => *judgement,
    }
}

/// Reads a recorded exchange: what each answer says, and where its violations are. All attempts are read, whatever would have
/// been decided on them now. `None` if the request can't be read, or would be refused.
pub fn explain(bench: &Bench, exchange: &RecordedExchange) -> Option<Explanation> {
    let (mut judging, _) = Judging::begin(bench, exchange).ok()?;
    let of_request = judging.attempts.findings().violations.iter().map(|violation| Finding::of(violation, None)).collect();
    judging.answers = Some(Vec::new());
    judging.run();
    let sent = exchange.downstream.response.as_ref().and_then(|response| judging.read(response));
    Some(Explanation { of_request, attempts: judging.answers.unwrap_or_default(), sent })
}

impl<'e> Judging<'e> {
    /// Prepares a recorded exchange, or says why it isn't judged.
    fn begin(bench: &Bench, exchange: &'e RecordedExchange) -> Result<(Self, String), Box<Judgement>> {
        let none = |why: String| Err(Box::new(Judgement::none(why)));
        let request = &exchange.downstream.request;
        let Some(api) = Api::of_path(path_of(&request.url)).filter(|_| request.method.eq_ignore_ascii_case("POST")) else {
            return none("its endpoint carries no tool calls, and is not enforced".to_owned());
        };
        let body = request.body.as_ref().map(body::RecordedBody::bytes).unwrap_or_default();
        let document = match Document::parse(body) {
            Ok(document) => document,
            Err(error) => return none(format!("its request is {error}")),
        };
        let model = document.root().get("model").and_then(|model| model.text()).unwrap_or_default().into_owned();
        let opened = exchange.scope.as_deref().and_then(|sealed| Scope::opened(sealed, &bench.ring));
        let now_ms = exchange.at_ms.unwrap_or(0);
        let id = exchange.id.parse().unwrap_or(Uuid::nil());
        let when = When { id, scope: opened.unwrap_or_else(Scope::anonymous), now_ms, upstream: Upstream::default() };
        let begun = match bench.begin(api, &document, &when, &Recalled::default()) {
            Ok(begun) => begun,
            Err(refusal) => {
                let found = RecordedVerdict { verdict: "blocked".into(), ..RecordedVerdict::default() };
                let why = format!("its request would be refused: [{}] {}", refusal.code, refusal.message);
                return Err(Box::new(Judgement { found, not_judged: Some(why), model, open: false }));
            }
        };
        let Begun { context, violations, .. } = begun;
        let attempts = Attempts::new(violations);
        Ok((Self { exchange, api, context, document, attempts, streams: false, open: false, answers: None }, model))
    }
}

/// The continuation after an attempt.
enum Next {
    Again,
    Ended,
}

struct Judging<'e> {
    exchange: &'e RecordedExchange,
    api: Api,
    context: Arc<Context>,
    document: Document,
    attempts: Attempts,
    /// The application's answer had begun as a stream.
    streams: bool,
    open: bool,
    /// Words of the answers, one for each attempt, if they are asked for.
    answers: Option<Vec<Option<ReadAnswer>>>,
}

impl Judging<'_> {
    fn run(&mut self) {
        if self.attempts.refusal(&self.context).is_some() && self.answers.is_none() {
            return;
        }
        let mut attempts = self.exchange.attempts.iter().peekable();
        let mut number = 0;
        while let Some(attempt) = attempts.next() {
            number += 1;
            let next = self.attempt(attempt, attempts.peek().copied());
            match &mut self.answers {
                Some(answers) => answers.resize(number, None),
                None if matches!(next, Next::Ended) => return,
                None => {}
            }
        }
    }

    /// Words of an answer to the application, without any judgement.
    fn read(&self, response: &RecordedResponse) -> Option<ReadAnswer> {
        let body = response.body.as_ref().filter(|_| (200..300).contains(&response.status))?.bytes();
        let inputs = AttemptInputs { now_ms: self.exchange.at_ms.unwrap_or(0), loops: self.attempts.loops() };
        let heard = hear(self.api, &self.context, body, None, inputs).ok()?;
        Some(ReadAnswer::without_findings(heard.choices.into_iter().map(|(said, _)| said)))
    }

    /// Judges one attempt; `next` is the attempt that was recorded after it.
    fn attempt(&mut self, attempt: &RecordedAttempt, next: Option<&RecordedAttempt>) -> Next {
        self.attempts.start();
        // What was decided on this answer was decided before the next request.
        let decided_ms = next.and_then(|next| next.after_ms).or(attempt.after_ms).unwrap_or(0);
        let elapsed = Duration::from_millis(decided_ms);
        let Some(response) = attempt.response.as_ref().filter(|_| attempt.failure.is_none()) else {
            // The proxy tried again, or the application got an error.
            return self.failed(next);
        };
        let body = response.body.as_ref().map(body::RecordedBody::bytes).unwrap_or_default();
        if !(200..300).contains(&response.status) {
            return self.reported(&body, elapsed, next);
        }
        let streams = is_stream(response, &body);
        self.streams |= streams;
        let origin = self.origin(attempt);
        let now_ms = self.exchange.at_ms.unwrap_or(0) + attempt.after_ms.unwrap_or(0);
        let inputs = AttemptInputs { now_ms, loops: self.attempts.loops() };
        match hear(self.api, &self.context, body.clone(), origin, inputs) {
            Ok(heard) => {
                if heard.released {
                    self.attempts.text_sent();
                }
                if let Some(answers) = &mut self.answers {
                    answers.push(Some(ReadAnswer::of(&heard.choices, &self.context)));
                }
                let (mut said, judged): (Vec<_>, Vec<_>) = heard.choices.into_iter().unzip();
                let turn = |at: usize| said.get_mut(at).map(std::mem::take).unwrap_or_default();
                let step = self.attempts.judged(&self.context, judged, turn, elapsed);
                if heard.unjudged {
                    self.attempts.not_judged(&self.context);
                }
                self.follow(&step, next)
            }
            Err(Unheard::Fault(Fault::Reported(json))) => self.reported(json.as_bytes(), elapsed, next),
            Err(Unheard::Fault(_) | Unheard::TooLong(_)) if self.context.observes() && !streams => {
                self.attempts.not_judged(&self.context);
                Next::Ended
            }
            Err(Unheard::Fault(_) | Unheard::TooLong(_)) => self.failed(None),
        }
    }

    /// Translation context, if the upstream answered in another API than it was asked in.
    fn origin(&self, attempt: &RecordedAttempt) -> Option<Origin> {
        let url = &attempt.request.as_ref()?.url;
        let translation = Translation::between(self.api, Api::of_path(path_of(url))?)?;
        let id = self.context.id.simple().to_string();
        Some(Origin::new(translation, &self.document, id, self.exchange.at_ms.unwrap_or(0) / 1000))
    }

    /// Ends the exchange without an answer, unless the proxy tried again.
    fn failed(&mut self, next: Option<&RecordedAttempt>) -> Next {
        if next.is_some() {
            return Next::Again;
        }
        self.attempts.fail();
        Next::Ended
    }

    /// Handles an error of the upstream, which may be its rejection of a malformed call.
    fn reported(&mut self, json: &[u8], elapsed: Duration, next: Option<&RecordedAttempt>) -> Next {
        let error = Reported::read(json).filter(|_| !self.context.observes());
        if let Some(turn) = error.and_then(|error| EchoedTurn::of_failed_call(&error, &self.context.rules.checks)) {
            let step = self.attempts.call_rejected(&self.context, turn, elapsed);
            return self.follow(&step, next);
        }
        match next {
            // The request was tried again.
            Some(_) => Next::Again,
            // A stream that had begun ends with the error.
            None if self.streams => self.failed(None),
            // The error was passed on.
            None => Next::Ended,
        }
    }

    /// Goes on to the next recorded attempt if the model would have been asked again.
    fn follow(&mut self, step: &NextStep, next: Option<&RecordedAttempt>) -> Next {
        match (step, next) {
            (NextStep::Repair(_), Some(_)) => Next::Again,
            (NextStep::Repair(_), None) => {
                self.open = true;
                Next::Ended
            }
            (NextStep::Finish(_) | NextStep::RunTools(_) | NextStep::Replace { .. } | NextStep::Refuse { .. }, _) => Next::Ended,
        }
    }

    /// The findings; without an answer to the last repair they count as blocked, and the repair as not made.
    fn findings(&self) -> ExchangeFindings {
        let mut findings = self.attempts.findings().clone();
        if self.open {
            findings.blocked = true;
            findings.repairs = findings.repairs.saturating_sub(1);
        }
        findings
    }

    /// The findings of an exchange in which nothing was marked or stamped: violations that depend on marks become `not_judged`.
    fn without_marks(&mut self) -> ExchangeFindings {
        let mut findings = self.findings();
        let message = "no call was marked and no result stamped, so what needs them is not judged";
        if excuse_marks(&mut findings.violations, &self.context.rules.checks, message)
            && !findings.violations.iter().any(Violation::blocks)
            && !self.context.observes()
        {
            findings.blocked = false;
            self.open = false;
        }
        findings
    }

    fn end(mut self, model: String) -> Judgement {
        let findings = if self.exchange.scope.is_none() { self.without_marks() } else { self.findings() };
        let kept_upstream = ["previous_response_id", "conversation"].iter().any(|name| self.document.root().get_some(name).is_some());
        let not_judged = kept_upstream.then(|| "the upstream keeps its conversation, which is not in it".to_owned());
        Judgement { found: recorded(&findings), not_judged, model, open: self.open }
    }
}

fn is_stream(response: &RecordedResponse, body: &Bytes) -> bool {
    response.is_stream() || is_event_stream(body)
}

/// The findings in the form of a cassette.
pub fn recorded(tally: &ExchangeFindings) -> RecordedVerdict {
    let found = |violation: &Violation| RecordedViolation {
        code: violation.code.as_str().into(),
        severity: severity(violation.severity).into(),
        tool: violation.tool.as_deref().map(str::to_owned),
        message: violation.message.clone(),
    };
    RecordedVerdict {
        verdict: tally.verdict().as_str().into(),
        repairs: tally.repairs,
        violations: tally.violations.iter().map(found).collect(),
        citations: tally.citations.clone(),
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Off => "off",
        Severity::Info => "info",
        Severity::Warn => "warn",
        Severity::Block => "block",
    }
}

/// Difference between two judgements of one exchange.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Difference {
    /// No difference.
    None,
    /// A difference that a recording can't decide, with the reason.
    Excused(&'static str),
    /// A difference in verdict or codes.
    Differs {
        /// The verdicts, before and after.
        verdicts: [String; 2],
        /// Codes found only before.
        gone: Vec<String>,
        /// Codes found only after.
        new: Vec<String>,
    },
}

/// Basis of a judgement and an earlier one of the same exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ComparisonBasis {
    /// Both used the same data: every difference counts.
    SameData,
    /// The marks could be verified.
    MarksVerified,
    /// The marks couldn't be verified.
    MarksUnverified,
}

/// Compares a judgement with an earlier one of the same exchange.
pub fn compare(before: &RecordedVerdict, after: &Judgement, exchange: &RecordedExchange, basis: ComparisonBasis) -> Difference {
    let codes = |found: &RecordedVerdict| {
        let listed = found.violations.iter().map(|found| found.code.clone()).filter(|code| code != Code::NotJudged.as_str());
        listed.collect::<std::collections::BTreeSet<_>>()
    };
    let (old, new) = (codes(before), codes(&after.found));
    if old == new && before.verdict == after.found.verdict {
        return Difference::None;
    }
    let only = |these: &std::collections::BTreeSet<String>, those: &std::collections::BTreeSet<String>| -> Vec<String> {
        these.difference(those).cloned().collect()
    };
    let (gone, new) = (only(&old, &new), only(&new, &old));
    let excuse = if basis == ComparisonBasis::SameData { None } else { excuse(&gone, &new, after, exchange, basis) };
    if let Some(why) = excuse {
        return Difference::Excused(why);
    }
    Difference::Differs { verdicts: [before.verdict.clone(), after.found.verdict.clone()], gone, new }
}

/// The reason why a recording can't decide the difference, if there is one.
fn excuse(gone: &[String], new: &[String], after: &Judgement, exchange: &RecordedExchange, basis: ComparisonBasis) -> Option<&'static str> {
    let all_of = |codes: &[Code]| gone.iter().chain(new).all(|code| codes.iter().any(|own| own.as_str() == code));
    let changed = !gone.is_empty() || !new.is_empty();
    let cut = || exchange.attempts.iter().filter_map(|attempt| attempt.response.as_ref()).any(|response| response.cut);
    match () {
        () if changed && all_of(&ELSEWHERE) => Some("it hangs on other exchanges, or on the ledger"),
        () if changed && all_of(&ASKED) => Some("it hangs on what was asked of the world, or of a second model"),
        () if changed && basis == ComparisonBasis::MarksUnverified && all_of(&OF_MARKS) => {
            Some("it hangs on marks, which can't be told without the key")
        }
        () if after.not_judged.is_some() => Some("the upstream keeps its conversation"),
        () if exchange.redactions > 0 && changed => Some("secrets were taken out of it"),
        () if cut() => Some("it was broken off"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_is_asked_again_is_no_difference() {
        let request = json!({"method": "POST", "url": "/v1/chat/completions"});
        let exchange: RecordedExchange =
            serde_json::from_value(json!({"cassette": 1, "id": "x", "downstream": {"request": request}})).unwrap();
        let after = Judgement { found: RecordedVerdict { verdict: "pass".into(), ..RecordedVerdict::default() }, ..Judgement::default() };
        for (codes, excused) in [
            (&["verifier_contradiction"][..], true),
            (&["state_mismatch", "state_unknown"], true),
            (&["verifier_contradiction", "claim_mismatch"], false),
        ] {
            let violations = codes
                .iter()
                .map(|code| RecordedViolation { code: (*code).into(), severity: "warn".into(), ..RecordedViolation::default() })
                .collect();
            let before = RecordedVerdict { verdict: "warn".into(), violations, ..RecordedVerdict::default() };
            assert_eq!(
                matches!(compare(&before, &after, &exchange, ComparisonBasis::MarksVerified), Difference::Excused(_)),
                excused,
                "{codes:?}"
            );
        }
    }
}
