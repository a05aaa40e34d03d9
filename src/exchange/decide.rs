//! What is done about a judged answer, and what is said about the exchange in the end.
//!
//! The same for whole and streamed answers. Pure.

use super::{
    context::JudgedChoice,
    turn::{EchoedCall, EchoedTurn, Said},
};
use crate::{
    judge::{
        call::{Arguments, Outcome, ValidCall},
        marks::Moment,
        reply,
        violation::{Code, Severity, Verdict, Violation},
    },
    policy::{Mode, OnExhausted},
    wire::text::quote,
};

/// What is left to try with.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Repairs.
    pub repairs_left: u32,
    /// Upstream requests.
    pub attempts_left: u32,
    /// The deadline hasn't passed since the first rejection, or nothing was repaired yet.
    pub in_time: bool,
    /// Text of the answer has left already.
    pub text_released: bool,
    /// The same bad turn came before.
    pub repeated: bool,
    /// Answers asked for; of several none is repaired.
    pub choices: u64,
    /// Words have no place in the answer: JSON was asked for, and `on_blocked_json` is `error`.
    pub words_are_error: bool,
}

/// What is done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Every choice is passed on.
    Accept,
    /// The model is asked again.
    Repair,
    /// Bad choices are replaced by words.
    Replace,
    /// HTTP 422 with this.
    Refuse(Violation),
}

/// How a choice ends downstream.
pub enum Final {
    /// As the model said it: with these calls, each with its mark's moment.
    Accept(Vec<(ValidCall, Moment)>),
    /// With this instead of what is held.
    Say(String),
    /// With this call instead, since a call was demanded: it says the words.
    Call(Box<(ValidCall, Moment)>),
}

/// Decides about an answer.
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

/// The words that stand instead of a bad choice. `repairs`: how often the model was asked again.
pub fn words(choice: &JudgedChoice, repairs: u32) -> String {
    let blocking = choice.blocking();
    let looping = blocking.iter().any(|violation| violation.code == Code::LoopDetected);
    match (choice.blocks_text() || choice.answer_blocked, looping) {
        (true, _) => reply::safe(&blocking, repairs),
        (false, true) => reply::ended(&blocking),
        (false, false) => reply::exhausted(&blocking, repairs),
    }
}

/// The turn as it is echoed to the model.
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

/// What tells one bad turn from another: an equal one again means that asking doesn't help.
pub fn signature(turn: &EchoedTurn) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for call in &turn.calls {
        let arguments = crate::wire::canonical::canonical(&call.arguments).unwrap_or_else(|| call.arguments.clone());
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

/// What was found in an exchange, over all its attempts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Everything that was wrong, in order.
    pub violations: Vec<Violation>,
    /// Verified execution IDs that the answer cites.
    pub citations: Vec<String>,
    /// Repairs made.
    pub repairs: u32,
    /// Something was refused or replaced.
    pub blocked: bool,
    /// There is no answer, and that is no fault of the model's or the caller's.
    pub failed: bool,
}

impl Tally {
    /// Takes up what was found in an answer.
    pub fn add(&mut self, judged: &[JudgedChoice]) {
        for choice in judged {
            self.violations.extend(choice.violations().cloned());
        }
    }

    /// Notes what the answer that leaves cites.
    pub fn cite(&mut self, judged: &[JudgedChoice]) {
        self.citations = judged.iter().flat_map(|choice| choice.citations.clone()).collect();
    }

    /// What became of the exchange.
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

    /// The word for it: a verdict, or `failed` where the upstream gave no answer to judge.
    pub fn word(&self) -> &'static str {
        if self.failed && !self.blocked { "failed" } else { self.verdict().as_str() }
    }

    /// The codes of info and above, each once, in the order of the contract's table.
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

/// Is there anything left to repair with, whatever was wrong?
pub fn may_repair(budget: &Budget) -> bool {
    budget.repairs_left > 0 && budget.attempts_left > 0 && budget.in_time && budget.choices <= 1 && !budget.repeated
}

/// The words where repair of a call that the upstream refused is exhausted; `None` where its error is passed on.
pub fn exhausted_words(violations: &[Violation], repairs: u32, on_exhausted: OnExhausted) -> Option<String> {
    match on_exhausted {
        OnExhausted::Explain => Some(reply::exhausted(&violations.iter().collect::<Vec<_>>(), repairs)),
        OnExhausted::Error => None,
    }
}
