//! The output of `toolmark judge`: ✅ or ❌ for each call and claim, and the verdict.

use std::fmt::Write as _;

use crate::{
    violation::{Certainty, Code, Detail, Severity, Verdict, Violation},
    wire::json::string::cut,
};

/// Availability of the key that verifies marks.
pub enum MarkVerification {
    /// The key is available.
    Known,
    /// There is no key; the reason.
    Unknown(String),
}

impl MarkVerification {
    /// True if marks can be verified.
    pub fn known(&self) -> bool {
        matches!(self, Self::Known)
    }
}

/// One call of the answer.
pub struct CallReport {
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
    /// The call would be passed on.
    pub accepted: bool,
    /// Violations of the call.
    pub violations: Vec<Violation>,
}

/// One choice of the answer.
pub struct ChoiceReport {
    /// The calls of the choice.
    pub calls: Vec<CallReport>,
    /// Violations of the turn as a whole.
    pub of_turn: Vec<Violation>,
    /// The choice has text.
    pub has_text: bool,
    /// Violations of the text.
    pub of_text: Vec<Violation>,
    /// Verified execution IDs that the text cites.
    pub citations: Vec<String>,
}

/// Result of judging one exchange.
pub struct JudgeReport {
    /// The policy's name.
    pub policy: String,
    /// The policy's mode is `enforce`.
    pub enforced: bool,
    /// Number of repairs allowed; 0 for an answer with several choices.
    pub repairs: u32,
    /// Availability of the key that verifies marks.
    pub marks: MarkVerification,
    /// Names of all known tools.
    pub tools: Vec<String>,
    /// Violations of the request.
    pub request: Vec<Violation>,
    /// The choices of the answer.
    pub choices: Vec<ChoiceReport>,
    /// The error that would end the answer, if any.
    pub fault: Option<String>,
}

impl JudgeReport {
    /// True if the exchange would be blocked.
    pub fn blocked(&self) -> bool {
        self.enforced && self.objects()
    }

    fn objects(&self) -> bool {
        self.fault.is_some() || self.violations().any(Violation::blocks)
    }

    fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.request.iter().chain(self.choices.iter().flat_map(choice_violations))
    }

    /// Without a key, violations that depend on marks become `not_judged`: whether a call of the history was accepted, and
    /// whether an id in a result of this conversation is the original one. `results`: the data of the conversation. A cited id
    /// that doesn't occur in it stays a violation: as far as anyone can see, it is made up.
    pub fn unjudge_marks(&mut self, results: &[String]) {
        let carried =
            |violation: &Violation| violation.message.split('`').skip(1).step_by(2).any(|id| results.iter().any(|data| data.contains(id)));
        for violation in &mut self.request {
            if matches!(violation.code, Code::UnverifiedCall | Code::AlteredCall | Code::ForgedStamp) {
                not_judged(violation);
            }
        }
        for violation in self.choices.iter_mut().flat_map(|choice| &mut choice.of_text) {
            if matches!(violation.code, Code::UnknownExecution | Code::ExecutionElsewhere | Code::ToolMismatch) && carried(violation) {
                not_judged(violation);
            }
        }
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        line(&mut out, "policy", &self.policy);
        let tools = if self.tools.is_empty() { "none".to_owned() } else { self.tools.join(", ") };
        line(&mut out, "tools", &tools);
        let marks = match &self.marks {
            MarkVerification::Known => "verified, as of a caller without a credential unless [marks] scope is shared".to_owned(),
            MarkVerification::Unknown(why) => format!("not_judged: {why}, so nothing can be said of call marks and stamps"),
        };
        line(&mut out, "marks", &marks);
        if !self.request.is_empty() {
            out.push_str("\nrequest\n");
            self.request.iter().for_each(|violation| say(&mut out, violation));
        }
        for (number, choice) in self.choices.iter().enumerate() {
            let _infallible = writeln!(out, "\nchoice {number}");
            choice_text(&mut out, choice);
        }
        if let Some(fault) = &self.fault {
            let _infallible = writeln!(out, "\n  ❌ {fault}");
        }
        out.push('\n');
        line(&mut out, "verdict", &self.verdict());
        out
    }

    fn verdict(&self) -> String {
        let mut codes: Vec<&str> =
            self.violations().filter(|violation| violation.blocks()).map(|violation| violation.code.as_str()).collect();
        codes.dedup();
        let codes = codes.join(", ");
        if self.objects() && !self.enforced {
            return format!("{}: the policy observes, so it would be passed on and recorded ({codes})", Verdict::Warn.as_str());
        }
        if self.request.iter().any(Violation::blocks) {
            return format!("{}: the request would be refused with HTTP 400 ({codes})", Verdict::Blocked.as_str());
        }
        if self.fault.is_some() {
            return format!("{}: the application would get an error, upstream_protocol", Verdict::Blocked.as_str());
        }
        if self.objects() {
            return format!("{}: {codes}; the model would be asked again, up to {} times", Verdict::Blocked.as_str(), self.repairs);
        }
        let warned = self.violations().any(|violation| violation.severity == Severity::Warn);
        if warned {
            format!("{}: it would be passed on", Verdict::Warn.as_str())
        } else {
            format!("{}: nothing to object to", Verdict::Pass.as_str())
        }
    }
}

fn choice_violations(choice: &ChoiceReport) -> impl Iterator<Item = &Violation> {
    choice.calls.iter().flat_map(|call| &call.violations).chain(&choice.of_turn).chain(&choice.of_text)
}

fn not_judged(violation: &mut Violation) {
    violation.message = format!("{} can't be told without the key: {}", violation.code, violation.message);
    violation.advice = "judge where the key is: TOOLMARK_KEY, or the key file beside the ledger".into();
    violation.code = Code::NotJudged;
    violation.severity = Severity::Info;
}

fn choice_text(out: &mut String, choice: &ChoiceReport) {
    for call in &choice.calls {
        let sign = if call.accepted { "✅" } else { "❌" };
        let arguments = cut(&call.arguments, ARGUMENTS_SHOWN_MAX);
        let more = if arguments.len() < call.arguments.len() { "…" } else { "" };
        let _infallible = writeln!(out, "  {sign} call {}({arguments}{more})", call.name);
        call.violations.iter().for_each(|violation| detail(out, violation));
    }
    choice.of_turn.iter().for_each(|violation| say(out, violation));
    for citation in &choice.citations {
        let _infallible = writeln!(out, "  ✅ citation {citation}");
    }
    choice.of_text.iter().for_each(|violation| say(out, violation));
    if choice.has_text && choice.of_text.is_empty() && choice.citations.is_empty() {
        out.push_str("  ✅ text: it claims no execution\n");
    }
}

fn say(out: &mut String, violation: &Violation) {
    let sign = match violation.severity {
        Severity::Block => "❌",
        Severity::Warn => "⚠️ ",
        Severity::Info | Severity::Off => "ℹ️ ",
    };
    let _infallible = writeln!(out, "  {sign} [{}] {}", violation.code, violation.message);
    explain(out, violation);
    advice(out, violation);
}

/// Adds the execution that a claim was compared with.
fn explain(out: &mut String, violation: &Violation) {
    let Some(detail) = &violation.detail else { return };
    let Detail { span, expected, found, certainty, .. } = &**detail;
    let with = match detail.execution.as_deref() {
        Some(execution) => format!("the result {execution}"),
        None => "what ran in the conversation".to_owned(),
    };
    let sure = match certainty {
        Certainty::Certain => "certain: the conversation contradicts it",
        Certainty::Likely => "likely: nothing in the conversation accounts for it",
    };
    let said = format!("`{found}` (bytes {} to {})", span.start, span.end);
    let lines = [("the answer says", said), ("compared with", with), ("which says", expected.clone()), ("how sure", sure.to_owned())];
    for (name, text) in lines {
        let _infallible = writeln!(out, "     {name:<16} {}", text.replace('\n', " "));
    }
}

fn detail(out: &mut String, violation: &Violation) {
    let _infallible = writeln!(out, "     [{}] {}", violation.code, violation.message);
    advice(out, violation);
}

fn advice(out: &mut String, violation: &Violation) {
    if !violation.advice.is_empty() {
        let _infallible = writeln!(out, "     → {}", violation.advice);
    }
}

fn line(out: &mut String, name: &str, text: &str) {
    let _infallible = writeln!(out, "{name:<12}{text}");
}

const ARGUMENTS_SHOWN_MAX: usize = 200;
