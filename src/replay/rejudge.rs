//! Judges a recorded exchange again: the same core, the same order of attempts and the same decisions as on the wire, with
//! the recorded answers in place of a model.
//!
//! Anything that depends on data outside the recording is reported as not judged: it never counts as a difference, and
//! never as passed. Pure.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::offline::{Bench, Unheard, When, hear};
use crate::{
    cassette::{
        body,
        format::{Attempt, Exchange, Found, Recorded, Response},
    },
    exchange::{
        answer_error::Fault,
        context::{Begun, Context, JudgedChoice, Upstream},
        decision::{self, Budget, Decision, Tally},
        loop_guard::Looping,
        turn::EchoedTurn,
    },
    marks::Scope,
    openai::{Api, error::Reported, path::path_of},
    policy::Mode,
    responses::request::Recalled,
    translate::answer::Origin,
    violation::{Code, Severity, Violation},
    wire::{json::Document, sse::is_event_stream},
};

/// Result of judging a recorded exchange again.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Judgement {
    /// Verdict and violations; the verdict is empty if nothing was judged.
    pub found: Recorded,
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
pub fn judge(bench: &Bench, exchange: &Exchange) -> Judgement {
    let request = &exchange.downstream.request;
    let Some(api) = Api::of_path(path_of(&request.url)).filter(|_| request.method.eq_ignore_ascii_case("POST")) else {
        return Judgement::none("its endpoint carries no tool calls, and is not enforced");
    };
    if exchange.mcp.is_some() {
        return Judgement::none("MCP servers offered tools in it, whose schemas and results are theirs to say");
    }
    let body = request.body.as_ref().map(body::Body::bytes).unwrap_or_default();
    let document = match Document::parse(body) {
        Ok(document) => document,
        Err(error) => return Judgement::none(format!("its request is {error}")),
    };
    let model = document.root().get("model").and_then(|model| model.text()).unwrap_or_default().into_owned();
    let opened = exchange.scope.as_deref().and_then(|sealed| Scope::opened(sealed, &bench.ring));
    let now_ms = exchange.at_ms.unwrap_or(0);
    let id = exchange.id.parse().unwrap_or(Uuid::nil());
    let when = When { id, scope: opened.unwrap_or_else(Scope::anonymous), now_ms, upstream: Upstream::default() };
    let begun = match bench.begin(api, &document, &when, &Recalled::default()) {
        Ok(begun) => begun,
        Err(refusal) => {
            let found = Recorded { verdict: "blocked".into(), ..Recorded::default() };
            let why = format!("its request would be refused: [{}] {}", refusal.code, refusal.message);
            return Judgement { found, not_judged: Some(why), model, open: false };
        }
    };
    let Begun { context, violations, .. } = begun;
    let mut judging = Judging {
        exchange,
        api,
        context,
        document,
        tally: Tally { violations, ..Tally::default() },
        signature: None,
        looping: Looping::default(),
        open: false,
    };
    judging.attempts();
    if exchange.scope.is_none() {
        judging.excuse_marks();
    }
    judging.end(model)
}

/// The continuation after an attempt.
enum Next {
    Again,
    Ended,
}

struct Judging<'e> {
    exchange: &'e Exchange,
    api: Api,
    context: Arc<Context>,
    document: Document,
    tally: Tally,
    signature: Option<blake3::Hash>,
    looping: Looping,
    open: bool,
}

impl Judging<'_> {
    fn attempts(&mut self) {
        let enforced = !self.context.observes();
        if enforced && self.tally.violations.iter().any(Violation::blocks) {
            self.tally.blocked = true;
            return;
        }
        let count = self.exchange.attempts.len();
        for (at, attempt) in self.exchange.attempts.iter().enumerate() {
            let more = at + 1 < count;
            if matches!(self.attempt(attempt, at as u32 + 1, more), Next::Ended) {
                return;
            }
        }
    }

    fn attempt(&mut self, attempt: &Attempt, number: u32, more: bool) -> Next {
        self.looping.attempt();
        let Some(response) = attempt.response.as_ref().filter(|_| attempt.failure.is_none()) else {
            // The proxy tried again, or the application got an error.
            self.tally.blocked |= !more;
            return if more { Next::Again } else { Next::Ended };
        };
        let body = response.body.as_ref().map(body::Body::bytes).unwrap_or_default();
        if !(200..300).contains(&response.status) {
            return self.reported(&body, number, more);
        }
        let origin = self.origin(attempt);
        let now_ms = self.exchange.at_ms.unwrap_or(0) + attempt.after_ms.unwrap_or(0);
        self.context.loops.judging(now_ms, &self.looping);
        match hear(self.api, &self.context, body.clone(), origin) {
            Ok(heard) => {
                if heard.unjudged {
                    self.not_judged();
                }
                let (said, judged): (Vec<_>, Vec<_>) = heard.choices.into_iter().unzip();
                self.tally.add(&judged);
                self.looping.note(&judged, self.context.rules.policy.loops.on_limit);
                let bad = judged.iter().position(JudgedChoice::blocks);
                let turn = bad.and_then(|at| Some(decision::echo(judged.get(at)?, said.into_iter().nth(at)?)));
                self.decide(&judged, turn, number, heard.released, more)
            }
            Err(Unheard::Fault(Fault::Reported(json))) => self.reported(json.as_bytes(), number, more),
            Err(Unheard::Fault(_) | Unheard::TooLong(_)) if self.context.observes() && !is_stream(response, &body) => {
                self.not_judged();
                Next::Ended
            }
            Err(Unheard::Fault(Fault::Cut)) if response.cut => {
                self.tally.blocked = true;
                Next::Ended
            }
            Err(Unheard::Fault(_) | Unheard::TooLong(_)) => {
                self.tally.blocked = true;
                Next::Ended
            }
        }
    }

    /// Translation context, if the upstream answered a request of the Responses API with chat completions.
    fn origin(&self, attempt: &Attempt) -> Option<Origin> {
        let url = &attempt.request.as_ref()?.url;
        let translated = self.api == Api::Responses && path_of(url) == Api::Chat.path();
        let id = self.context.id.simple().to_string();
        translated.then(|| Origin::new(&self.document, id, self.exchange.at_ms.unwrap_or(0) / 1000))
    }

    /// Handles an error of the upstream, which may be its rejection of a malformed call.
    fn reported(&mut self, json: &[u8], number: u32, more: bool) -> Next {
        let error = Reported::read(json).filter(|_| !self.context.observes());
        let Some(turn) = error.and_then(|error| EchoedTurn::of_failed_call(&error, &self.context.rules.checks)) else {
            // The error was passed on, or the request was tried again.
            return if more { Next::Again } else { Next::Ended };
        };
        self.tally.violations.extend(turn.violations.iter().cloned());
        if decision::may_repair(&self.budget(Some(&turn), number, false)) && more {
            self.tally.repairs += 1;
            return Next::Again;
        }
        self.tally.blocked = true;
        Next::Ended
    }

    fn decide(&mut self, judged: &[JudgedChoice], turn: Option<EchoedTurn>, number: u32, released: bool, more: bool) -> Next {
        let budget = self.budget(turn.as_ref(), number, released);
        let policy = &self.context.rules.policy;
        match decision::decide(judged, &budget, policy.mode, policy.calls.on_exhausted) {
            Decision::Repair if more => {
                self.tally.repairs += 1;
                return Next::Again;
            }
            Decision::Repair => (self.tally.blocked, self.open) = (true, true),
            Decision::Replace | Decision::Refuse(_) => self.tally.blocked = true,
            Decision::Accept => self.tally.cite(judged),
        }
        Next::Ended
    }

    fn budget(&mut self, turn: Option<&EchoedTurn>, attempts: u32, text_released: bool) -> Budget {
        let calls = &self.context.rules.policy.calls;
        let signature = turn.map(decision::signature);
        let repeated = signature.is_some() && signature == self.signature && !self.looping.stopped();
        let repairs_max = if self.looping.ends() { 0 } else { calls.max_repairs };
        self.signature = signature.or(self.signature);
        Budget {
            repairs_left: repairs_max.saturating_sub(self.tally.repairs),
            attempts_left: calls.max_attempts.saturating_sub(attempts),
            in_time: true,
            text_released,
            repeated,
            choices: self.context.choices,
            words_are_error: self.context.words_are_error(),
        }
    }

    fn not_judged(&mut self) {
        let message = "what the upstream sent can't be judged";
        self.tally.violations.extend(self.context.rules.checks.violation(Code::NotJudged, None, message, ""));
    }

    /// Nothing in the exchange was marked or stamped, so violations that depend on marks become `not_judged`.
    fn excuse_marks(&mut self) {
        let needs =
            |violation: &Violation| matches!(violation.code, Code::UnverifiedCall | Code::MissingExecutionId | Code::MissingCitation);
        if !self.tally.violations.iter().any(needs) {
            return;
        }
        self.tally.violations.retain(|violation| !needs(violation));
        let message = "no call was marked and no result stamped, so what needs them is not judged";
        self.tally.violations.extend(self.context.rules.checks.violation(Code::NotJudged, None, message, ""));
        let blocks = self.tally.violations.iter().any(Violation::blocks);
        if !blocks && self.context.rules.policy.mode == Mode::Enforce {
            self.tally.blocked = false;
            self.open = false;
        }
    }

    fn end(self, model: String) -> Judgement {
        let found = recorded(&self.tally);
        let kept_upstream = ["previous_response_id", "conversation"].iter().any(|name| self.document.root().get_some(name).is_some());
        let not_judged = kept_upstream.then(|| "the upstream keeps its conversation, which is not in it".to_owned());
        Judgement { found, not_judged, model, open: self.open }
    }
}

fn is_stream(response: &Response, body: &Bytes) -> bool {
    response.is_stream() || is_event_stream(body)
}

/// The findings in the form of a cassette.
pub fn recorded(tally: &Tally) -> Recorded {
    let found = |violation: &Violation| Found {
        code: violation.code.as_str().into(),
        severity: severity(violation.severity).into(),
        tool: violation.tool.as_deref().map(str::to_owned),
        message: violation.message.clone(),
    };
    Recorded {
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

/// Compares a judgement with an earlier one of the same exchange. `marks`: marks could be verified. `alike`: the earlier
/// judgement used the same data, so that every difference counts.
pub fn compare(before: &Recorded, after: &Judgement, exchange: &Exchange, marks: bool, alike: bool) -> Difference {
    let codes = |found: &Recorded| {
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
    let excuse = if alike { None } else { excuse(&gone, &new, after, exchange, marks) };
    if let Some(why) = excuse {
        return Difference::Excused(why);
    }
    Difference::Differs { verdicts: [before.verdict.clone(), after.found.verdict.clone()], gone, new }
}

/// The reason why a recording can't decide the difference, if there is one.
fn excuse(gone: &[String], new: &[String], after: &Judgement, exchange: &Exchange, marks: bool) -> Option<&'static str> {
    let all_of = |codes: &[Code]| gone.iter().chain(new).all(|code| codes.iter().any(|own| own.as_str() == code));
    let changed = !gone.is_empty() || !new.is_empty();
    let cut = || exchange.attempts.iter().filter_map(|attempt| attempt.response.as_ref()).any(|response| response.cut);
    match () {
        () if changed && all_of(&ELSEWHERE) => Some("it hangs on other exchanges, or on the ledger"),
        () if changed && all_of(&ASKED) => Some("it hangs on what was asked of the world, or of a second model"),
        () if changed && !marks && all_of(&OF_MARKS) => Some("it hangs on marks, which can't be told without the key"),
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
        let exchange: Exchange = serde_json::from_value(json!({"cassette": 1, "id": "x", "downstream": {"request": request}})).unwrap();
        let after = Judgement { found: Recorded { verdict: "pass".into(), ..Recorded::default() }, ..Judgement::default() };
        for (codes, excused) in [
            (&["verifier_contradiction"][..], true),
            (&["state_mismatch", "state_unknown"], true),
            (&["verifier_contradiction", "claim_mismatch"], false),
        ] {
            let violations = codes.iter().map(|code| Found { code: (*code).into(), severity: "warn".into(), ..Found::default() }).collect();
            let before = Recorded { verdict: "warn".into(), violations, ..Recorded::default() };
            assert_eq!(matches!(compare(&before, &after, &exchange, true, false), Difference::Excused(_)), excused, "{codes:?}");
        }
    }
}
