//! Judges the calls of one turn together: each by itself, then how many there are and whether they were asked for.
//!
//! Pure. A turn without any text or call is judged elsewhere.

use std::collections::HashSet;

use crate::{
    judge::call::{
        ArgumentCheck, Call, CallKind, CallRules, CallVerdict, JudgedCall, Truncation, ValidCall,
        issues::{available, quote},
        judge_call,
    },
    schema::{fuel, strict_json::brief},
    tools::registry::Registry,
    violation::{Code, Severity, Violation},
};

/// The request's `tool_choice`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum ToolChoice {
    /// `auto`: the model decides.
    #[default]
    Auto,
    /// `none`: no call is allowed.
    None,
    /// `required`: at least one call.
    Required,
    /// This tool must be called.
    Named(CallKind, String),
    /// `allowed_tools`: only these tools; at least one call if `required`.
    Allowed {
        /// At least one call is required.
        required: bool,
        /// Names of the allowed tools.
        names: Vec<String>,
    },
}

impl ToolChoice {
    /// True if at least one call is required.
    pub fn demands(&self) -> bool {
        match self {
            Self::Auto | Self::None => false,
            Self::Required | Self::Named(..) => true,
            Self::Allowed { required, .. } => *required,
        }
    }

    /// The choice that still applies after a call that isn't judged here: no call is `required` any more.
    #[must_use]
    pub fn met(&self) -> Self {
        match self {
            Self::Required => Self::Auto,
            Self::Allowed { names, .. } => Self::Allowed { required: false, names: names.clone() },
            Self::Auto | Self::None | Self::Named(..) => self.clone(),
        }
    }

    /// Name in the log.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Required => "required",
            Self::Named(..) => "named",
            Self::Allowed { .. } => "allowed_tools",
        }
    }
}

/// Reason why a turn ended, from `finish_reason` or the response's status.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FinishReason {
    /// The model finished.
    #[default]
    Complete,
    /// Length limit reached: `finish_reason: length`, `incomplete: max_output_tokens`.
    Length,
    /// Ended by a content filter.
    ContentFilter,
    /// Broken off by the upstream. Its calls may be truncated, but nothing missing in the answer is excused.
    Broken,
    /// Ended by a refusal, or not ended normally: queued, failed, cancelled.
    Refusal,
}

impl FinishReason {
    /// Maps the `finish_reason` of a chat answer. Besides OpenAI's own: Mistral's `model_length`, Gemini's `MAX_TOKENS`, OpenRouter's
    /// `error`, SGLang's and vLLM's `abort`, DeepSeek's `insufficient_system_resource`, GLM's `sensitive`.
    pub fn of_finish(reason: &str) -> Self {
        // What nearly all answers end with.
        if matches!(reason, "stop" | "tool_calls") {
            return Self::Complete;
        }
        let reason = reason.get(..reason.floor_char_boundary(64)).unwrap_or_default().to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| reason.contains(part));
        if has(&["content_filter", "sensitive"]) {
            Self::ContentFilter
        } else if has(&["eos"]) {
            Self::Complete
        } else if has(&["length", "token"]) {
            Self::Length
        } else if has(&["error", "abort", "cancel", "incomplete", "insufficient", "interrupt", "timeout", "time_limit"]) {
            Self::Broken
        } else {
            Self::Complete
        }
    }

    /// True if the ending excuses missing parts: a length limit, a content filter or a refusal.
    pub fn excuses(self) -> bool {
        !matches!(self, Self::Complete | Self::Broken)
    }
}

/// Rules for one turn besides the policy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TurnRules {
    /// The request's `tool_choice`.
    pub tool_choice: ToolChoice,
    /// The request's `parallel_tool_calls`.
    pub parallel_tool_calls: Option<bool>,
    /// Reason why the turn ended.
    pub ending: FinishReason,
}

/// Result of judging one turn.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TurnVerdict {
    /// Results of its calls, in order.
    pub calls: Vec<JudgedCall>,
    /// Violations of the turn as a whole.
    pub violations: Vec<Violation>,
}

impl TurnVerdict {
    /// True if nothing of the turn may be passed on.
    pub fn blocks(&self) -> bool {
        self.violations.iter().any(Violation::blocks) || self.calls.iter().any(|judged| judged.outcome == CallVerdict::Reject)
    }

    /// True if the turn had any calls.
    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The calls that may be passed on: all of the turn's, or none.
    ///
    /// # Errors
    /// The verdict itself, if it [`Self::blocks`].
    pub fn into_calls(self) -> Result<Vec<ValidCall>, Self> {
        if self.blocks() {
            return Err(self);
        }
        let accepted = self.calls.into_iter().filter_map(|judged| match judged.outcome {
            CallVerdict::Accept(call) => Some(call),
            CallVerdict::Reject => None,
        });
        Ok(accepted.collect())
    }

    /// All violations, those of the calls first.
    pub fn all_violations(&self) -> impl Iterator<Item = &Violation> {
        self.calls.iter().flat_map(|judged| &judged.violations).chain(&self.violations)
    }
}

/// Judges the calls of one turn of one choice. Their schema checks share one step budget.
pub fn judge_turn(
    calls: &[Call],
    registry: &Registry,
    rules: &CallRules,
    turn: &TurnRules,
    conversation: &dyn ArgumentCheck,
) -> TurnVerdict {
    fuel::turn(|| judged(calls, registry, rules, turn, conversation))
}

fn judged(calls: &[Call], registry: &Registry, rules: &CallRules, turn: &TurnRules, conversation: &dyn ArgumentCheck) -> TurnVerdict {
    let mut violations = Vec::new();
    let too_many = calls.len() > rules.calls_max;
    if too_many {
        let message = format!("{} calls in one turn, where {} are allowed (setting `calls.max_per_turn`)", calls.len(), rules.calls_max);
        violations.extend(rules.checks.violation(Code::TooManyCalls, None, message, "make fewer calls at a time"));
    }
    // Where too many are refused anyway, the rest isn't worth looking at.
    let judged_max = if too_many && rules.checks.severity(Code::TooManyCalls) == Severity::Block { rules.calls_max } else { calls.len() };
    let judge = |(place, call): (usize, &Call)| {
        if place >= judged_max {
            return JudgedCall { violations: Vec::new(), outcome: CallVerdict::Reject, example: None };
        }
        let cut = match turn.ending {
            FinishReason::Length | FinishReason::ContentFilter | FinishReason::Broken if place + 1 == calls.len() => Truncation::Here,
            FinishReason::Length | FinishReason::ContentFilter | FinishReason::Broken => Truncation::Later,
            FinishReason::Complete | FinishReason::Refusal => Truncation::Whole,
        };
        let mut judged = judge_call(call, registry, rules, cut, conversation);
        let called = match &judged.outcome {
            CallVerdict::Accept(valid) => valid.name(),
            CallVerdict::Reject => &call.name,
        };
        if let Some(violation) = unasked(called, registry, rules, turn) {
            if violation.blocks() {
                judged.outcome = CallVerdict::Reject;
            }
            judged.violations.push(violation);
        }
        judged
    };
    let judged = calls.iter().enumerate().map(judge).collect();
    violations.extend(unanswered(calls, rules, turn));
    violations.extend(repeated_id(calls, rules));
    TurnVerdict { calls: judged, violations }
}

/// Reports a call that `tool_choice` doesn't allow.
fn unasked(called: &str, registry: &Registry, rules: &CallRules, turn: &TurnRules) -> Option<Violation> {
    let name = brief(called, 128);
    let (message, advice) = match &turn.tool_choice {
        ToolChoice::Auto | ToolChoice::Required => return None,
        ToolChoice::None => ("no tool may be called now".to_owned(), "answer without calling a tool".to_owned()),
        ToolChoice::Named(_, own) if own == called => return None,
        ToolChoice::Named(_, own) => {
            (format!("tool {} was called where {} was asked for", quote(&name), quote(own)), format!("call {}", quote(own)))
        }
        ToolChoice::Allowed { names, .. } if names.iter().any(|own| own == called) => return None,
        ToolChoice::Allowed { names, .. } => {
            let some: Vec<String> = names.iter().take(10).map(|name| quote(name)).collect();
            let advice = if some.is_empty() { available(called, registry) } else { format!("call one of {}", some.join(", ")) };
            (format!("tool {} isn't among those allowed now", quote(&name)), advice)
        }
    };
    rules.checks.violation(Code::ToolChoiceIgnored, Some(called), message, advice)
}

/// Reports a required call that is missing, or several calls if the request allows one at a time.
fn unanswered(calls: &[Call], rules: &CallRules, turn: &TurnRules) -> Option<Violation> {
    let report = |message: &str, advice: String| rules.checks.violation(Code::ToolChoiceIgnored, None, message, advice);
    if turn.parallel_tool_calls == Some(false) && calls.len() > 1 {
        return report("several calls, where one at a time was asked for", "make one call, and wait for its result".into());
    }
    if !calls.is_empty() || turn.ending.excuses() {
        return None;
    }
    match &turn.tool_choice {
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed { required: false, .. } => None,
        ToolChoice::Required => report("no tool was called, where a call was asked for", "call one of the tools".into()),
        ToolChoice::Named(_, own) => report("no tool was called, where a call was asked for", format!("call {}", quote(own))),
        ToolChoice::Allowed { required: true, names } => {
            let some: Vec<String> = names.iter().take(10).map(|name| quote(name)).collect();
            report("no tool was called, where a call was asked for", format!("call one of {}", some.join(", ")))
        }
    }
}

fn repeated_id(calls: &[Call], rules: &CallRules) -> Option<Violation> {
    let mut seen = HashSet::new();
    let mut ids = calls.iter().filter_map(|call| call.id.as_deref()).filter(|id| !id.is_empty());
    let twice = calls.len() > 1 && ids.any(|id| !seen.insert(id));
    twice.then(|| rules.checks.violation(Code::DuplicateCallId, None, "two calls have one id", ""))?
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
