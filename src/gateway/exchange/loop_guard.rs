//! Loop control of one exchange: stopped calls, warnings to the model, and the end of the run.
//!
//! [`crate::judge::loops`] finds the calls to stop. After the first warning the model may do something else; after the
//! last one the run ends with a plain answer. Pure.

use super::context::{Context, JudgedChoice};
use crate::{
    judge::{
        call::{CallVerdict, turn::TurnVerdict},
        history::calls::CallHistory,
        loops::{ExternalCounts, Limit, LimitHit, LoopDetector},
    },
    policy::OnLimit,
    violation::{Code, Severity, Violation},
};

/// Number of warnings about a limit in one exchange before the run ends.
pub const TOLD_MAX: u32 = 2;

/// A call stopped by loop control.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stopped {
    /// Name of the tool; `None` if all tools are concerned.
    pub tool: Option<Box<str>>,
    /// The limit that was hit.
    pub stop: LimitHit,
}

/// Inputs of a judgement that differ between attempts; the others are in [`Context`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptInputs {
    /// Time of the judgement, in Unix milliseconds.
    pub now_ms: u64,
    /// State of loop control.
    pub loops: LoopState,
}

/// Data for loop control from before the exchange.
#[derive(Debug, Default)]
pub struct LoopHistory {
    /// Calls since the last user message.
    pub trail: CallHistory,
    /// Counts from outside the conversation.
    pub beyond: ExternalCounts,
}

/// Adds violations for calls that exceed a limit, and returns those calls.
pub(super) fn watch(context: &Context, turn: &mut TurnVerdict, inputs: AttemptInputs) -> Vec<Stopped> {
    if turn.calls.is_empty() || context.rules.checks.severity(Code::LoopDetected) == Severity::Off {
        return Vec::new();
    }
    let LoopHistory { trail, beyond } = &context.loops;
    let watch = LoopDetector { limits: &context.rules.policy.loops, trail, beyond, now_ms: inputs.now_ms };
    let LoopState { told, invented, .. } = inputs.loops;
    let object = |tool: Option<&str>, stop: &LimitHit| {
        let advice = if told == 0 {
            stop.advice(watch.now_ms)
        } else {
            format!("{}; if you call it again, the run ends", stop.advice(watch.now_ms))
        };
        context.rules.checks.violation(Code::LoopDetected, tool, stop.message(tool), advice)
    };
    if let Some(stop) = watch.turn() {
        turn.violations.extend(object(None, &stop));
        return vec![Stopped { tool: None, stop }];
    }
    let mut stops = Vec::new();
    for judged in &mut turn.calls {
        let CallVerdict::Accept(call) = &judged.outcome else { continue };
        let Some(stop) = watch.call(call.name(), call.arguments()) else { continue };
        let (tool, violation) = (call.name().into(), object(Some(call.name()), &stop));
        if violation.as_ref().is_some_and(Violation::blocks) {
            judged.outcome = CallVerdict::Reject;
        }
        judged.violations.extend(violation);
        stops.push(Stopped { tool: Some(tool), stop });
    }
    let exists = |tool: &str| context.tools().registry.tool(tool).is_some();
    if let Some(judged) = turn.calls.iter_mut().find(|judged| judged.violations.iter().any(invents))
        && let Some(stop) = watch.invented(invented.saturating_add(1), exists)
    {
        judged.violations.extend(object(None, &stop));
        stops.push(Stopped { tool: None, stop });
    }
    stops
}

/// True for a blocking violation about a tool that doesn't exist.
fn invents(violation: &Violation) -> bool {
    violation.code == Code::UnknownTool && violation.blocks()
}

/// Loop-control state of one exchange, over its attempts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LoopState {
    told: u32,
    /// Attempts in a row with an unknown tool.
    invented: u32,
    /// The last attempt was stopped.
    stopped: bool,
    ends: bool,
}

impl LoopState {
    /// Records a judged answer.
    pub fn note(&mut self, judged: &[JudgedChoice], on_limit: OnLimit) {
        let invents = judged.iter().flat_map(JudgedChoice::violations).any(invents);
        self.invented = if invents { self.invented.saturating_add(1) } else { 0 };
        let blocks =
            |choice: &&JudgedChoice| choice.violations().any(|violation| violation.code == Code::LoopDetected && violation.blocks());
        let mut stops = judged.iter().filter(blocks).flat_map(|choice| &choice.stops).peekable();
        self.stopped = stops.peek().is_some();
        self.ends =
            self.stopped && (on_limit == OnLimit::End || self.told >= TOLD_MAX || stops.any(|own| own.stop.limit == Limit::InventedTools));
        self.told = self.told.saturating_add(u32::from(self.stopped));
    }

    /// Starts another attempt.
    pub fn attempt(&mut self) {
        (self.stopped, self.ends) = (false, false);
    }

    /// True if the last answer was stopped and the model is warned.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// True if the model was warned often enough: the run ends.
    pub fn ends(&self) -> bool {
        self.ends
    }
}
