//! Compares a block that has a valid id with the result that it cites. Pure.

use super::{Evidence, TextRules, object::BlockObject, tail::TextWindow};
use crate::{
    claims::{checks::fields, context::ClaimFinding, language::lenient_json, report::report},
    violation::{Certainty, Code, Severity, Violation},
};

/// Violations of an object's fields, compared with the result of the execution that it cites.
pub(super) fn compare(
    object: &BlockObject,
    execution_id: &str,
    tail: &TextWindow,
    rules: &TextRules,
    evidence: &dyn Evidence,
) -> Vec<Violation> {
    let off = |code| rules.checks.severity(code) == Severity::Off;
    if [Code::ClaimMismatch, Code::UngroundedValue, Code::CountMismatch, Code::FailedExecution].into_iter().all(off) {
        return Vec::new();
    }
    let Some((grounds, source)) = evidence.grounds().and_then(|grounds| Some((grounds, grounds.result(execution_id)?))) else {
        return Vec::new();
    };
    let block = lenient_json::read(tail.slice(object.span.clone()));
    let wrong = fields::fields(&block, source, grounds);
    let report = |wrong: &fields::FieldMismatch| {
        let said = format!("{}: {}", wrong.field, wrong.found);
        let code = if source.failed { Code::FailedExecution } else { wrong.code };
        let expected = if source.failed { "the result reports a failure".to_owned() } else { wrong.expected.clone() };
        let certainty = if source.failed { Certainty::Likely } else { Certainty::Certain };
        let finding = ClaimFinding { rule: "block", code, span: object.span.clone(), found: said, expected, certainty };
        report(&finding, object.span.clone(), Some(source), &rules.checks)
    };
    wrong.iter().take(if source.failed { 1 } else { usize::MAX }).filter_map(report).collect()
}
