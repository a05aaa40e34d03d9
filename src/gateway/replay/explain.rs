//! What an exchange's answers say and where their violations are, in terms common to all APIs: values for people and the admin API. Pure.

use std::ops::Range;

use serde::Serialize;

use crate::{
    exchange::{
        context::{Context, JudgedChoice},
        turn::Said,
    },
    judge::call::{Arguments, Call},
    violation::{Code, Severity, Violation},
};

/// Parts of an exchange that were read.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// Violations in the request.
    pub of_request: Vec<Finding>,
    /// The model's answers, one for each attempt; `None` for an attempt without an answer that can be read.
    pub attempts: Vec<Option<ReadAnswer>>,
    /// The answer to the application, without findings; `None` if it can't be read, as an error can't.
    pub sent: Option<ReadAnswer>,
}

/// Words of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadAnswer {
    /// Its text; where there are several choices, one after the other.
    pub text: String,
    /// Its calls.
    pub calls: Vec<ReadCall>,
    /// Findings in the text, and of the turn as a whole.
    pub findings: Vec<Finding>,
}

/// A call in an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadCall {
    /// The tool, as the model named it.
    pub tool: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
    /// The call's id.
    pub id: Option<String>,
    /// The tool as the registry has it, with its schema: JSON. `None` if there is no such tool.
    pub declared: Option<Box<str>>,
    /// Findings in this call.
    pub findings: Vec<Finding>,
}

/// A violation with its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Code of the violation.
    pub code: Code,
    /// Severity under the policy that judged.
    pub severity: Severity,
    /// The tool concerned.
    pub tool: Option<Box<str>>,
    /// Explanation for the model and for people.
    pub message: String,
    /// Advice on how to fix it; may be empty.
    pub advice: String,
    /// JSON pointer into the call's arguments; empty: the arguments as a whole.
    pub pointer: Option<Box<str>>,
    /// Place in the answer's text: first character, and the one after the last. Unicode code points.
    pub span: Option<[usize; 2]>,
}

impl Finding {
    /// The violation, and its place in this text.
    pub fn of(violation: &Violation, text: Option<&str>) -> Self {
        let span = text.and_then(|text| {
            let said = violation.detail.as_ref().map(|detail| detail.span.clone());
            let bytes = said.filter(|span| text.get(span.clone()).is_some_and(|words| !words.is_empty()));
            in_characters(text, bytes.or_else(|| quoted(&violation.message, text))?)
        });
        Self {
            code: violation.code,
            severity: violation.severity,
            tool: violation.tool.clone(),
            message: violation.message.clone(),
            advice: violation.advice.clone(),
            pointer: violation.pointer.clone(),
            span,
        }
    }
}

impl ReadAnswer {
    /// Words of an answer, with the findings in it.
    pub fn of(choices: &[(Said, JudgedChoice)], context: &Context) -> Self {
        let mut read = Self::default();
        for (said, judged) in choices {
            let before = read.text.chars().count();
            for (at, (call, _)) in said.calls.iter().enumerate() {
                let of_call = judged.turn.calls.get(at).map(|call| &call.violations[..]).unwrap_or_default();
                let findings = of_call.iter().map(|violation| Finding::of(violation, None)).collect();
                let declared = context.tools().registry.tool(&call.name).map(|tool| tool.raw.clone());
                read.calls.push(ReadCall { declared, findings, ..ReadCall::of(call) });
            }
            let of_text = judged.of_text.iter().map(|violation| {
                let found = Finding::of(violation, Some(&said.text));
                Finding { span: found.span.map(|span| span.map(|at| at + before)), ..found }
            });
            read.findings.extend(judged.turn.violations.iter().map(|violation| Finding::of(violation, None)).chain(of_text));
            read.text.push_str(&said.text);
        }
        read
    }

    /// Words of an answer.
    pub fn without_findings(choices: impl Iterator<Item = Said>) -> Self {
        let mut read = Self::default();
        for said in choices {
            read.calls.extend(said.calls.iter().map(|(call, _)| ReadCall::of(call)));
            read.text.push_str(&said.text);
        }
        read
    }

    /// All findings.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.calls.iter().flat_map(|call| &call.findings).chain(&self.findings)
    }
}

impl ReadCall {
    fn of(call: &Call) -> Self {
        let arguments = match &call.arguments {
            Arguments::Text(text) | Arguments::Object(text) | Arguments::Other(text) => text.clone(),
            Arguments::Absent | Arguments::Null => String::new(),
        };
        Self { tool: call.name.clone(), arguments, id: call.id.clone(), ..Self::default() }
    }
}

/// Where the first words that a message quotes stand in the text: in bytes.
fn quoted(message: &str, text: &str) -> Option<Range<usize>> {
    let mut parts = message.split('`').skip(1).step_by(2).filter(|words| !words.is_empty());
    parts.find_map(|words| {
        // A quotation may have been cut short.
        let words = words.trim_end_matches('…');
        text.find(words).map(|start| start..start + words.len())
    })
}

/// A range of bytes as one of characters.
fn in_characters(text: &str, bytes: Range<usize>) -> Option<[usize; 2]> {
    let start = text.get(..bytes.start)?.chars().count();
    Some([start, start + text.get(bytes)?.chars().count()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::{Checks, Detail};

    #[test]
    fn spans_are_in_characters() {
        let checks = Checks::default();
        let violation = checks.violation(Code::UnknownExecution, None, "`x_1_2` is no execution ID", "").unwrap();
        assert_eq!(Finding::of(&violation, Some("é: x_1_2")).span, Some([3, 8]));
        assert_eq!(Finding::of(&violation, Some("nothing of it")).span, None);
        let detail =
            Detail { rule: "r", span: 3..4, execution: None, expected: String::new(), found: String::new(), certainty: Default::default() };
        let located = Violation { detail: Some(Box::new(detail)), ..violation.clone() };
        assert_eq!(Finding::of(&located, Some("éé7")).span, None, "in the middle of a character");
        assert_eq!(Finding::of(&located, Some("éx7")).span, Some([2, 3]));
    }
}
