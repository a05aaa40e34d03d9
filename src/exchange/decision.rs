//! Decides what is done about a judged answer, and sums up the findings of the exchange.
//!
//! The same for buffered and streamed answers. Pure.

use super::{
    context::JudgedChoice,
    turn::{EchoedCall, EchoedTurn, Said},
};
use crate::{
    judge::{
        call::{Arguments, Outcome, ValidCall},
        messages,
    },
    marks::Moment,
    policy::{Mode, OnExhausted},
    violation::{Code, Severity, Verdict, Violation},
    wire::json::{canonical, string::quote},
};

/// Remaining budget for repairs, and conditions that rule them out.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Repairs left.
    pub repairs_left: u32,
    /// Upstream requests left.
    pub attempts_left: u32,
    /// The repair deadline, which starts with the first rejection, hasn't passed; or nothing was repaired yet.
    pub in_time: bool,
    /// Text of the answer was already sent to the application.
    pub text_released: bool,
    /// The previous attempt gave the same bad turn.
    pub repeated: bool,
    /// Number of choices requested; with more than one nothing is repaired.
    pub choices: u64,
    /// Plain text is no valid answer: JSON was requested, and `on_blocked_json` is `error`.
    pub words_are_error: bool,
}

/// Action for a judged answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Every choice is passed on.
    Accept,
    /// The model is asked again.
    Repair,
    /// Bad choices are replaced by an explanation.
    Replace,
    /// HTTP 422 with this violation.
    Refuse(Violation),
}

/// Outcome of one choice downstream.
pub enum Final {
    /// The model's turn with these calls, each with the time of its mark.
    Accept(Vec<(ValidCall, Moment)>),
    /// This text in place of the rest of the choice.
    Say(String),
    /// This call in place of the rest of the choice; it carries toolmark's text, because a call was demanded.
    Call(Box<(ValidCall, Moment)>),
}

/// Chooses the action for a judged answer.
pub fn decide(judged: &[JudgedChoice], budget: &Budget, mode: Mode, on_exhausted: OnExhausted) -> Decision {
    let Some(bad) = judged.iter().find(|choice| choice.blocks()) else { return Decision::Accept };
    if mode == Mode::Observe {
        return Decision::Accept;
    }
    let text = judged.iter().any(JudgedChoice::blocks_text);
    if may_repair(budget) && !(text && budget.text_released) {
        return Decision::Repair;
    }
    match (bad.blocking().first(), on_exhausted) {
        (Some(violation), _) if budget.words_are_error => Decision::Refuse((*violation).clone()),
        (Some(violation), OnExhausted::Error) if !text && budget.choices <= 1 => Decision::Refuse((*violation).clone()),
        (_, OnExhausted::Error | OnExhausted::Explain) => Decision::Replace,
    }
}

/// Text that replaces a bad choice. `repairs` is the number of repairs made.
pub fn words(choice: &JudgedChoice, repairs: u32) -> String {
    let blocking = choice.blocking();
    let looping = blocking.iter().any(|violation| violation.code == Code::LoopDetected);
    match (choice.blocks_text() || choice.answer_blocked, looping) {
        (true, _) => messages::safe(&blocking, repairs),
        (false, true) => messages::ended(&blocking),
        (false, false) => messages::exhausted(&blocking, repairs),
    }
}

/// The rejected turn, as echoed to the model.
pub fn echo(choice: &JudgedChoice, said: Said) -> EchoedTurn {
    let of_turn: Vec<&Violation> = choice.turn.violations.iter().filter(|violation| violation.blocks()).collect();
    let Said { text, reasoning, calls, items } = said;
    let calls: Vec<EchoedCall> = calls
        .into_iter()
        .zip(&choice.turn.calls)
        .map(|((call, extras), judged)| {
            let arguments = match call.arguments {
                Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text,
                Arguments::Absent | Arguments::Null => String::new(),
            };
            let rejected = matches!(judged.outcome, Outcome::Reject);
            let own = judged.violations.iter().filter(|violation| rejected && violation.severity >= Severity::Warn);
            let violations = own.chain(of_turn.iter().copied()).cloned().collect();
            let example = judged.example.clone().filter(|_| rejected);
            EchoedCall { name: call.name, kind: call.kind, id: call.id, arguments, violations, example, extras }
        })
        .collect();
    let of_turn = of_turn.into_iter().filter(|_| calls.is_empty());
    let violations = choice.of_text.iter().filter(|violation| violation.blocks()).chain(of_turn).cloned().collect();
    EchoedTurn { text, reasoning, calls, items, violations }
}

/// Fingerprint of a rejected turn. If two attempts in a row have the same one, asking again doesn't help.
pub fn signature(turn: &EchoedTurn) -> blake3::Hash {
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
pub struct Tally {
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

impl Tally {
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

/// True if the budget allows another repair.
pub fn may_repair(budget: &Budget) -> bool {
    budget.repairs_left > 0 && budget.attempts_left > 0 && budget.in_time && budget.choices <= 1 && !budget.repeated
}

/// Text for a call that the upstream rejected after the last repair; `None` if the upstream's error is passed on.
pub fn exhausted_words(violations: &[Violation], repairs: u32, on_exhausted: OnExhausted) -> Option<String> {
    match on_exhausted {
        OnExhausted::Explain => Some(messages::exhausted(&violations.iter().collect::<Vec<_>>(), repairs)),
        OnExhausted::Error => None,
    }
}
