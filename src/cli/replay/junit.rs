//! JUnit XML for CI: a test case for each exchange.

use quick_junit::{NonSuccessKind, Report as Junit, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::{
    ReplayCase,
    report::{ReplayReport, codes},
};
use crate::replay::rejudge::Difference;

/// The report as XML.
///
/// # Errors
/// The XML can't be written.
pub fn write(report: &ReplayReport) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new(report.title());
    for case in &report.cases {
        suite.add_test_case(test_case(report, case));
    }
    let mut junit = Junit::new("toolmark replay");
    junit.add_test_suite(suite);
    junit.to_string()
}

fn test_case(report: &ReplayReport, case: &ReplayCase) -> TestCase {
    let status = match (report.failure(case), &case.after.not_judged) {
        (Some(why), _) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(why).set_type("verdict").set_description(described(case));
            status
        }
        (None, Some(why)) if !case.after.judged() => skipped(why),
        (None, _) => match &case.difference {
            Difference::Excused(why) => skipped(why),
            Difference::None | Difference::Differs { .. } => TestCaseStatus::success(),
        },
    };
    let name = if case.id.is_empty() { case.place.clone() } else { case.id.clone() };
    let mut test = TestCase::new(name, status);
    test.set_classname(if case.model.is_empty() { "toolmark" } else { case.model.as_str() });
    test.set_system_out(format!("{}: {} {}", case.place, case.after.found.verdict, codes(&case.after.found)));
    test
}

fn skipped(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(why);
    status
}

/// The violations found now, one line each.
fn described(case: &ReplayCase) -> String {
    let lines = case.after.found.violations.iter().map(|found| {
        let tool = found.tool.as_deref().map_or(String::new(), |tool| format!(" {tool}:"));
        format!("[{}]{tool} {}", found.code, found.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}
