//! The attempts of one exchange: its findings so far, its limits, and what is done about each answer. Sans-IO.
//!
//! ```text
//!  request ─▶ refusal? ─▶ start ─▶ answer ───────▶ judged ─┬─ nothing blocks ──────▶ Finish, or RunTools ─▶ round ─┐
//!                           ▲    └▶ rejected call ─▶ call_rejected                                                 │
//!                           │                              ├─ blocks, budget left ─▶ Repair ───────────────────────┤
//!                           │                              └─ blocks, none left ───▶ Finish, Replace or Refuse     │
//!                           └──────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Driven by buffered answers (`proxy/`), by streams, and by recordings (`replay/`). Time comes in as the time since the
//! exchange began. All that an exchange may cost is bounded here: repairs, upstream requests, time, and rounds of calls.

use std::time::Duration;

use super::{
    answer_tools,
    context::{Context, JudgedChoice},
    decision::{ChoiceOutcome, ExchangeFindings, rejected_turn, replacement, turn_fingerprint},
    loop_guard::LoopState,
    turn::{EchoedTurn, Said},
};
use crate::{
    judge::{call::ValidCall, messages},
    openai::usage,
    policy::{OnExhausted, PolicyMode},
    violation::{Code, Violation},
};

/// State of an exchange over its attempts.
#[derive(Debug, Default)]
pub struct Attempts {
    findings: ExchangeFindings,
    loops: LoopState,
    /// Upstream requests so far.
    started: u32,
    /// Rounds of calls that toolmark ran.
    rounds: u32,
    /// The answer was requested earlier: it is judged, and never asked for again.
    is_final: bool,
    /// Text of an answer was sent to the application.
    text_sent: bool,
    /// Fingerprint of the last rejected turn.
    fingerprint: Option<blake3::Hash>,
    /// Time of the first rejection in this round of calls.
    rejected_at: Option<Duration>,
    /// End of the last round of calls.
    round_ended_at: Option<Duration>,
    /// Sum of `usage` over the answers that were not passed on.
    usage: Option<serde_json::Value>,
}

/// Step that follows an answer.
#[derive(Debug)]
pub enum NextStep {
    /// The model is asked again, with this turn rejected.
    Repair(EchoedTurn),
    /// toolmark runs calls of the accepted answer.
    RunTools(FinishedAnswer),
    /// The answer ends.
    Finish(FinishedAnswer),
    /// This text takes the place of an answer, whose call the upstream rejected.
    Replace {
        /// The text.
        text: String,
        /// The turn with that call.
        rejected: EchoedTurn,
    },
    /// HTTP 422.
    Refuse {
        /// The violation that is reported.
        violation: Violation,
        /// The turn that has it.
        rejected: Option<EchoedTurn>,
    },
}

/// A judged answer that ends the exchange, or a round of it.
#[derive(Debug)]
pub struct FinishedAnswer {
    /// Outcome of each choice.
    pub choices: Vec<ChoiceOutcome<ValidCall>>,
    /// The turn that isn't passed on; in observe mode it passes all the same.
    pub rejected: Option<EchoedTurn>,
    /// Choices that are replaced because loop control ends the run.
    pub runs_ended: usize,
}

impl NextStep {
    /// The turn that was rejected, if one was.
    pub fn rejected(&self) -> Option<&EchoedTurn> {
        match self {
            Self::Repair(rejected) | Self::Replace { rejected, .. } => Some(rejected),
            Self::RunTools(FinishedAnswer { rejected, .. })
            | Self::Finish(FinishedAnswer { rejected, .. })
            | Self::Refuse { rejected, .. } => rejected.as_ref(),
        }
    }
}

/// Permission for another round of calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RoundPermit {
    /// The calls are run.
    Run,
    /// The limit is reached: the model is told so in place of results.
    LimitReached,
    /// The model called again after that: the exchange ends.
    LimitExceeded,
}

/// Decision on a judged answer.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Decision {
    /// Every choice is passed on.
    Accept,
    /// The model is asked again.
    Repair,
    /// Bad choices are replaced by an explanation.
    Replace,
    /// HTTP 422 with this violation.
    Refuse(Violation),
}

/// Remaining budget for repairs, and conditions that rule them out.
#[derive(Clone, Copy, Debug)]
struct RepairBudget {
    /// Repairs left.
    repairs_left: u32,
    /// Upstream requests left.
    attempts_left: u32,
    /// The repair deadline, which starts with the first rejection, hasn't passed; or nothing was repaired yet.
    in_time: bool,
    /// Text of the answer was already sent to the application.
    text_sent: bool,
    /// The previous attempt gave the same bad turn.
    repeated: bool,
    /// Number of choices requested; with more than one nothing is repaired.
    choices: u64,
    /// Plain text is no valid answer: JSON was requested, and `on_blocked_json` is `error`.
    words_are_error: bool,
}

impl RepairBudget {
    /// True if the budget allows another repair.
    fn allows_repair(&self) -> bool {
        self.repairs_left > 0 && self.attempts_left > 0 && self.in_time && self.choices <= 1 && !self.repeated
    }

    /// Chooses the action for a judged answer.
    fn decide(&self, judged: &[JudgedChoice], mode: PolicyMode, on_exhausted: OnExhausted) -> Decision {
        let Some(bad) = judged.iter().find(|choice| choice.blocks()) else { return Decision::Accept };
        if mode == PolicyMode::Observe {
            return Decision::Accept;
        }
        let text = judged.iter().any(JudgedChoice::blocks_text);
        if self.allows_repair() && !(text && self.text_sent) {
            return Decision::Repair;
        }
        match (bad.blocking().first(), on_exhausted) {
            (Some(violation), _) if self.words_are_error => Decision::Refuse((*violation).clone()),
            (Some(violation), OnExhausted::Error) if !text && self.choices <= 1 => Decision::Refuse((*violation).clone()),
            (_, OnExhausted::Error | OnExhausted::Explain) => Decision::Replace,
        }
    }
}

impl Attempts {
    /// Attempts of an exchange whose request has these violations.
    pub fn new(violations: Vec<Violation>) -> Self {
        Self { findings: ExchangeFindings { violations, ..ExchangeFindings::default() }, ..Self::default() }
    }

    /// The findings so far.
    pub fn findings(&self) -> &ExchangeFindings {
        &self.findings
    }

    /// State of loop control, by which answers are judged.
    pub fn loops(&self) -> LoopState {
        self.loops
    }

    /// Number of upstream requests so far.
    pub fn started(&self) -> u32 {
        self.started
    }

    /// Adds violations that were found beside the answers.
    pub fn report(&mut self, violations: impl IntoIterator<Item = Violation>) {
        self.findings.violations.extend(violations);
    }

    /// Records that something was refused or replaced.
    pub fn block(&mut self) {
        self.findings.blocked = true;
    }

    /// Records that no answer could be given, through no fault of the model or the caller: that never counts as passed.
    pub fn fail(&mut self) {
        self.findings.failed = true;
    }

    /// Rules out that the model is asked again.
    pub fn end_repairs(&mut self) {
        self.is_final = true;
    }

    /// True if the model is never asked again.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Records that text of an answer was sent to the application.
    pub fn text_sent(&mut self) {
        self.text_sent = true;
    }

    /// The violation for which the request is refused before anything is sent, if there is one. The exchange then counts as blocked.
    pub fn refusal(&mut self, context: &Context) -> Option<Violation> {
        let blocking = self.findings.violations.iter().find(|violation| violation.blocks() && !context.observes())?.clone();
        self.block();
        Some(blocking)
    }

    /// Starts an upstream request.
    pub fn start(&mut self) {
        self.started += 1;
        self.loops.attempt();
    }

    /// Upstream requests left. Going on after calls is no attempt at the same answer.
    pub fn left(&self, context: &Context) -> u32 {
        context.rules.policy.calls.max_attempts.saturating_sub(self.started.saturating_sub(self.rounds))
    }

    /// Rest of `repair_deadline`: since the first rejection; before one, since the start of the exchange or the end of the last round.
    pub fn repair_time(&self, context: &Context, elapsed: Duration) -> Duration {
        let since = self.rejected_at.max(self.round_ended_at).unwrap_or_default();
        context.rules.policy.calls.repair_deadline.saturating_sub(elapsed.saturating_sub(since))
    }

    /// Decides on a judged answer. `turn`: the model's turn in one choice. `elapsed`: time since the start of the exchange.
    pub fn judged(
        &mut self,
        context: &Context,
        judged: Vec<JudgedChoice>,
        turn: impl FnOnce(usize) -> Said,
        elapsed: Duration,
    ) -> NextStep {
        let policy = &context.rules.policy;
        self.findings.add(&judged);
        self.loops.note(&judged, policy.loops.on_limit);
        let bad = judged.iter().position(JudgedChoice::blocks);
        let rejected = bad.and_then(|at| Some(rejected_turn(judged.get(at)?, turn(at))));
        let budget = self.budget(context, rejected.as_ref(), elapsed);
        let (replaces, rejected) = match (budget.decide(&judged, policy.mode, policy.calls.on_exhausted), rejected) {
            (Decision::Repair, Some(turn)) => return self.repair(turn),
            (Decision::Refuse(violation), rejected) => {
                self.block();
                return NextStep::Refuse { violation, rejected };
            }
            (Decision::Accept, rejected) => (false, rejected),
            (Decision::Replace | Decision::Repair, rejected) => (true, rejected),
        };
        self.findings.blocked = replaces;
        if !replaces {
            self.findings.cite(&judged);
        }
        let ends = |choice: &&JudgedChoice| replaces && choice.blocks() && !choice.stops.is_empty();
        let runs_ended = judged.iter().filter(ends).count();
        let outcome = |choice: JudgedChoice| match replaces && choice.blocks() {
            true => self.replaced(context, &choice),
            false => ChoiceOutcome::Accept(choice.turn.into_calls().unwrap_or_default()),
        };
        let finished = FinishedAnswer { choices: judged.into_iter().map(outcome).collect(), rejected, runs_ended };
        if self.runs_tools(context, &finished) { NextStep::RunTools(finished) } else { NextStep::Finish(finished) }
    }

    /// toolmark's own text in place of the choice.
    fn replaced(&self, context: &Context, choice: &JudgedChoice) -> ChoiceOutcome<ValidCall> {
        let text = replacement(choice, self.findings.repairs);
        match answer_tools::words_as_call(context, &text) {
            Some(call) => ChoiceOutcome::ReplaceByCall(Box::new(call)),
            None => ChoiceOutcome::Replace(text),
        }
    }

    fn runs_tools(&self, context: &Context, finished: &FinishedAnswer) -> bool {
        let [ChoiceOutcome::Accept(calls)] = &finished.choices[..] else { return false };
        !self.is_final && calls.iter().any(|call| context.tools().runs(call.name()).is_some())
    }

    /// Decides on a call of the model that the upstream itself rejected. `elapsed`: time since the start of the exchange.
    pub fn call_rejected(&mut self, context: &Context, rejected: EchoedTurn, elapsed: Duration) -> NextStep {
        self.report(rejected.violations.iter().cloned());
        if self.budget(context, Some(&rejected), elapsed).allows_repair() {
            return self.repair(rejected);
        }
        self.block();
        let on_exhausted = if context.words_are_error() { OnExhausted::Error } else { context.rules.policy.calls.on_exhausted };
        match (on_exhausted, rejected.violations.first().cloned()) {
            (OnExhausted::Error, Some(violation)) => NextStep::Refuse { violation, rejected: Some(rejected) },
            (OnExhausted::Error | OnExhausted::Explain, _) => {
                // The upstream's own error would quote the call that was refused.
                let text = messages::exhausted(&rejected.violations.iter().collect::<Vec<_>>(), self.findings.repairs);
                NextStep::Replace { text, rejected }
            }
        }
    }

    /// Records that the answer can't be judged and passes all the same: only in observe mode.
    pub fn not_judged(&mut self, context: &Context) {
        let message = "what the upstream sent can't be judged";
        self.report(context.rules.checks.violation(Code::NotJudged, None, message, ""));
    }

    /// Starts a round of calls. `rounds_max`: the smallest limit of the servers that run them.
    pub fn start_round(&mut self, rounds_max: u32) -> RoundPermit {
        self.rounds += 1;
        match self.rounds.checked_sub(rounds_max) {
            None | Some(0) => RoundPermit::Run,
            Some(1) => RoundPermit::LimitReached,
            Some(_) => RoundPermit::LimitExceeded,
        }
    }

    /// Ends a round of calls; from here on the time for repairs is counted. `elapsed`: time since the start of the exchange.
    pub fn end_round(&mut self, elapsed: Duration) {
        self.round_ended_at = Some(elapsed);
    }

    /// Adds the `usage` of an answer that isn't passed on: JSON.
    pub fn spend(&mut self, usage: Option<&str>) {
        if let Some(usage) = usage {
            usage::add(&mut self.usage, usage);
        }
    }

    /// Takes the sum of `usage` over the answers that weren't passed on.
    pub fn take_usage(&mut self) -> Option<serde_json::Value> {
        self.usage.take()
    }

    fn repair(&mut self, turn: EchoedTurn) -> NextStep {
        self.findings.repairs += 1;
        NextStep::Repair(turn)
    }

    /// Limits left for a repair of a turn like this one. Records the turn as rejected.
    fn budget(&mut self, context: &Context, turn: Option<&EchoedTurn>, elapsed: Duration) -> RepairBudget {
        if turn.is_some() {
            let earlier = self.rejected_at.filter(|at| self.round_ended_at.is_none_or(|ended| *at >= ended));
            self.rejected_at = earlier.or(Some(elapsed));
        }
        let calls = &context.rules.policy.calls;
        let fingerprint = turn.map(turn_fingerprint);
        // Who goes in circles is told so twice.
        let repeated = fingerprint.is_some() && fingerprint == self.fingerprint && !self.loops.stopped();
        let repairs_max = if self.loops.ends() || self.is_final { 0 } else { calls.max_repairs };
        self.fingerprint = fingerprint.or(self.fingerprint);
        RepairBudget {
            repairs_left: repairs_max.saturating_sub(self.findings.repairs),
            attempts_left: self.left(context),
            // However long the first answer took: one repair is always allowed.
            in_time: turn.is_none() || self.findings.repairs == 0 || !self.repair_time(context, elapsed).is_zero(),
            text_sent: self.text_sent,
            repeated,
            choices: context.choices,
            words_are_error: context.words_are_error(),
        }
    }
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
