//! Outcomes of judged choices, rejected turns, and the findings of an exchange.
//!
//! The same for buffered and streamed answers. Pure.

use super::{
    context::JudgedChoice,
    turn::{EchoedCall, EchoedTurn, Said},
};
use crate::{
    judge::{
        call::{Arguments, CallVerdict, ValidCall},
        messages,
    },
    marks::MarkTime,
    violation::{Code, Severity, Verdict, Violation},
    wire::json::{canonical, string::quote},
};

/// Outcome of one choice downstream. Calls that are passed on have the moment of their mark.
#[derive(Clone, Debug)]
pub enum ChoiceOutcome<C = (ValidCall, MarkTime)> {
    /// The model's turn with these calls.
    Accept(Vec<C>),
    /// This text in place of the rest of the choice.
    Replace(String),
    /// This call in place of the rest of the choice; it carries toolmark's text, because a call was demanded.
    ReplaceByCall(Box<C>),
}

impl ChoiceOutcome<ValidCall> {
    /// The outcome with a moment for each call that is passed on, in order.
    pub fn with_moments(self, mut moment: impl FnMut(&ValidCall) -> MarkTime) -> ChoiceOutcome {
        let mut timed = |call: ValidCall| {
            let moment = moment(&call);
            (call, moment)
        };
        match self {
            Self::Accept(calls) => ChoiceOutcome::Accept(calls.into_iter().map(timed).collect()),
            Self::Replace(text) => ChoiceOutcome::Replace(text),
            Self::ReplaceByCall(call) => ChoiceOutcome::ReplaceByCall(Box::new(timed(*call))),
        }
    }

    /// The calls of the model that are passed on.
    pub fn accepted(&self) -> &[ValidCall] {
        match self {
            Self::Accept(calls) => calls,
            Self::Replace(_) | Self::ReplaceByCall(_) => &[],
        }
    }
}

/// Text that replaces a bad choice. `repairs` is the number of repairs made.
pub fn replacement(choice: &JudgedChoice, repairs: u32) -> String {
    let blocking = choice.blocking();
    let looping = blocking.iter().any(|violation| violation.code == Code::LoopDetected);
    match (choice.blocks_text() || choice.answer_blocked, looping) {
        (true, _) => messages::safe(&blocking, repairs),
        (false, true) => messages::ended(&blocking),
        (false, false) => messages::exhausted(&blocking, repairs),
    }
}

/// The rejected turn, as echoed to the model.
pub fn rejected_turn(choice: &JudgedChoice, said: Said) -> EchoedTurn {
    let of_turn: Vec<&Violation> = choice.turn.violations.iter().filter(|violation| violation.blocks()).collect();
    let Said { text, reasoning, calls, items, answer_id } = said;
    let calls: Vec<EchoedCall> = calls
        .into_iter()
        .zip(&choice.turn.calls)
        .map(|((call, extras), judged)| {
            let arguments = match call.arguments {
                Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text,
                Arguments::Absent | Arguments::Null => String::new(),
            };
            let rejected = matches!(judged.outcome, CallVerdict::Reject);
            let own = judged.violations.iter().filter(|violation| rejected && violation.severity >= Severity::Warn);
            let violations = own.chain(of_turn.iter().copied()).cloned().collect();
            let example = judged.example.clone().filter(|_| rejected);
            EchoedCall { name: call.name, kind: call.kind, id: call.id, arguments, violations, example, extras }
        })
        .collect();
    let of_turn = of_turn.into_iter().filter(|_| calls.is_empty());
    let violations = choice.of_text.iter().filter(|violation| violation.blocks()).chain(of_turn).cloned().collect();
    EchoedTurn { text, reasoning, calls, items, answer_id, violations }
}

/// Fingerprint of a rejected turn. If two attempts in a row have the same one, asking again doesn't help.
pub fn turn_fingerprint(turn: &EchoedTurn) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for call in &turn.calls {
        let arguments = canonical::canonical(&call.arguments).unwrap_or_else(|| call.arguments.clone());
        hasher.update(call.name.as_bytes()).update(b"\0").update(arguments.as_bytes()).update(b"\0");
    }
    if turn.calls.is_empty() {
        hasher.update(turn.text.as_bytes()).update(b"\0");
    }
    for violation in &turn.violations {
        hasher.update(violation.code.as_str().as_bytes()).update(violation.message.as_bytes()).update(b"\0");
    }
    hasher.finalize()
}

/// Findings of an exchange, over all its attempts.
#[derive(Clone, Debug, Default)]
pub struct ExchangeFindings {
    /// All violations, in order.
    pub violations: Vec<Violation>,
    /// Verified execution IDs cited in the answer.
    pub citations: Vec<String>,
    /// Number of repairs.
    pub repairs: u32,
    /// Something was refused or replaced.
    pub blocked: bool,
    /// No answer could be given, through no fault of the model or the caller.
    pub failed: bool,
}

impl ExchangeFindings {
    /// Adds the violations of a judged answer.
    pub fn add(&mut self, judged: &[JudgedChoice]) {
        for choice in judged {
            self.violations.extend(choice.violations().cloned());
        }
    }

    /// Sets the citations to those of the answer that is sent.
    pub fn cite(&mut self, judged: &[JudgedChoice]) {
        self.citations = judged.iter().flat_map(|choice| choice.citations.clone()).collect();
    }

    /// Verdict of the exchange.
    pub fn verdict(&self) -> Verdict {
        let worst = self.violations.iter().map(|violation| violation.severity).max().unwrap_or_default();
        match (self.blocked, self.repairs, self.violations.is_empty(), worst) {
            (true, ..) => Verdict::Blocked,
            // What could not be judged to its end never counts as passed.
            (..) if self.failed => Verdict::Warn,
            (_, 1.., ..) => Verdict::Repaired,
            (_, _, false, Severity::Warn | Severity::Block) => Verdict::Warn,
            _ => Verdict::Pass,
        }
    }

    /// Name of the verdict, or `failed` if the upstream gave no answer to judge.
    pub fn word(&self) -> &'static str {
        if self.failed && !self.blocked { "failed" } else { self.verdict().as_str() }
    }

    /// Violation codes of severity info and above, without duplicates, in the order of the contract's table.
    pub fn codes(&self) -> Vec<Code> {
        // Declared in that order.
        let mut codes: Vec<Code> = self.violations.iter().map(|violation| violation.code).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// The verdict as a JSON object.
    pub fn json(&self) -> String {
        let list = |items: Vec<String>| items.join(",");
        let codes = list(self.codes().iter().map(|code| format!("\"{code}\"")).collect());
        let citations = list(self.citations.iter().map(|id| quote(id)).collect());
        let verdict = self.word();
        format!(r#"{{"verdict":"{verdict}","repairs":{},"violations":[{codes}],"citations":[{citations}]}}"#, self.repairs)
    }
}
