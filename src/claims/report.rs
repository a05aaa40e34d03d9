//! What is found, as a violation that explains itself: what was said, compared with which execution, and what is right. Pure.

use std::ops::Range;

use crate::{context::ClaimFinding, evidence::ToolResult};
use toolmark_base::violation::{Certainty, Checks, Code, Detail, Violation};

/// Characters of an input that a message quotes: whole for all but the longest, as the model is to mend it.
const QUOTED_CHARS_MAX: usize = 2000;

/// The violation, unless the policy has it off. `span`: in the whole text.
pub fn report(finding: &ClaimFinding, span: Range<usize>, source: Option<&ToolResult>, checks: &Checks) -> Option<Violation> {
    let ClaimFinding { code, found, expected, certainty, .. } = finding;
    let code = *code;
    let tool = source.map(|source| &*source.tool);
    let result = source.map_or_else(
        || "the results".to_owned(),
        |source| match &source.execution_id {
            Some(id) => format!("the result of `{}` ({id})", source.tool),
            None => format!("the result of `{}`", source.tool),
        },
    );
    let said = quoted(found.trim());
    let right = quoted(expected);
    let (message, advice) = match code {
        Code::ClaimMismatch => (format!("`{said}` disagrees with {result}: it has `{right}`"), "report the value as the result has it"),
        Code::CountMismatch => {
            (format!("`{said}` is not how many {result} has: {right}"), "count what the result has, or don't say how many")
        }
        Code::FalseAbsence => (format!("`{said}`, but {result} is not empty: {right}"), "report what the result has"),
        Code::FabricatedUrl => (
            format!("the address `{said}` is in no result and nowhere in the conversation"),
            "give only addresses that a result has, copied exactly",
        ),
        Code::UngroundedValue => (
            format!("`{said}` is not in {result}, doesn't follow from it, and is nowhere in the conversation"),
            "report only values that the result has",
        ),
        Code::FailedExecution => (format!("`{said}` reports a success, but {right}"), "say that it failed, or try again"),
        Code::UnsupportedAction => {
            (format!("`{said}` says that something was done, but {right}"), "call the tool first, or say that it isn't done")
        }
        _ => (format!("`{said}`: {right}"), ""),
    };
    let message = match certainty {
        Certainty::Certain => message,
        Certainty::Likely => format!("{message} (likely)"),
    };
    let mut violation = checks.finding(code, *certainty, tool, message, advice)?;
    let execution = source.and_then(|source| source.execution_id.as_deref()).map(str::to_owned);
    violation.detail = Some(Box::new(Detail {
        rule: finding.rule,
        span,
        execution,
        expected: right.to_owned(),
        found: said.to_owned(),
        certainty: *certainty,
    }));
    Some(violation)
}

/// `text`, cut to what a message may quote.
fn quoted(text: &str) -> &str {
    text.char_indices().nth(QUOTED_CHARS_MAX).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}
