//! Which of a verifier's verdicts are believed, and what becomes of them. Pure.
//!
//! A verdict falls where the words of its claim don't stand in the answer, or those of its evidence in no result that the
//! answer cites, blanks aside; where it says `contradicted` and shows nothing; where the claim itself stands in a cited
//! result, word for word; and where another verdict calls the same words supported.

use std::ops::Range;

use super::{Entry, Shown, Verdict};
use crate::judge::violation::{Certainty, Checks, Code, Detail, Violation};

/// Characters of a quotation: longer ones are no quotation of a sentence, or of what decides it.
const QUOTED_CHARS_MAX: usize = 1000;
/// Letters and digits that a claim has at least: shorter ones stand anywhere.
const CLAIM_CHARS_MIN: usize = 4;
/// Findings that are kept of one answer.
const FINDINGS_MAX: usize = 16;

/// What a verifier objects to, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// Where the claim stands in the answer.
    pub span: Range<usize>,
    /// The claim.
    pub claim: Box<str>,
    /// Which of the results says otherwise, and its words.
    pub evidence: Option<(usize, Box<str>)>,
    /// No result says so, or one says otherwise.
    pub verdict: Verdict,
}

/// What came of all verdicts on one answer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Checked {
    /// What is objected to.
    pub findings: Vec<Finding>,
    /// Claims that are supported.
    pub supported: u64,
    /// Verdicts that weren't believed.
    pub dropped: u64,
}

/// Checks verdicts against what they are about. `beyond`: how many there were besides.
pub fn check(entries: &[Entry], beyond: usize, answer: &str, results: &[Shown<'_>]) -> Checked {
    let mut checked = Checked { dropped: beyond as u64, ..Checked::default() };
    let answer = Folded::of(answer);
    let results: Vec<String> = results.iter().map(|shown| Folded::of(shown.text).text).collect();
    let believed: Vec<Finding> = entries.iter().filter_map(|entry| believed(entry, &answer, &results)).collect();
    checked.dropped += (entries.len() - believed.len()) as u64;
    let supported: Vec<Range<usize>> =
        believed.iter().filter(|own| own.verdict == Verdict::Supported).map(|own| own.span.clone()).collect();
    checked.supported = supported.len() as u64;
    for finding in believed.into_iter().filter(|own| own.verdict != Verdict::Supported) {
        let again = checked.findings.iter().any(|other| other.span == finding.span);
        if again || supported.contains(&finding.span) || checked.findings.len() >= FINDINGS_MAX {
            checked.dropped += 1;
        } else {
            checked.findings.push(finding);
        }
    }
    checked
}

fn believed(entry: &Entry, answer: &Folded, results: &[String]) -> Option<Finding> {
    let claim = quotation(&entry.claim).filter(|claim| claim.chars().filter(|c| c.is_alphanumeric()).count() >= CLAIM_CHARS_MIN)?;
    let span = answer.find(&claim)?;
    let evidence = match &entry.evidence {
        None => None,
        Some(words) => {
            let words = quotation(words)?;
            Some((results.iter().position(|result| stands(result, &words))?, words.into_boxed_str()))
        }
    };
    let said = || results.iter().any(|result| stands(result, &claim));
    let holds = match entry.verdict {
        Verdict::Supported => true,
        Verdict::Contradicted => evidence.is_some() && !said(),
        Verdict::Unsupported => !said(),
    };
    holds.then(|| Finding { span, claim: claim.into_boxed_str(), evidence, verdict: entry.verdict })
}

/// Words that may be a quotation, blanks folded.
fn quotation(words: &str) -> Option<String> {
    // Cheap before exact: no text of so many bytes is short enough.
    if words.len() > QUOTED_CHARS_MAX * 8 {
        return None;
    }
    let folded = Folded::of(words).text;
    let fits = folded.chars().count() <= QUOTED_CHARS_MAX && folded.chars().any(char::is_alphanumeric);
    fits.then_some(folded)
}

fn stands(text: &str, words: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), words.as_bytes()).is_some()
}

/// A text whose blanks are one blank each, none at its ends, and where its bytes stood.
struct Folded {
    text: String,
    /// Of each byte.
    places: Vec<usize>,
}

impl Folded {
    fn of(text: &str) -> Self {
        let mut folded = Self { text: String::with_capacity(text.len()), places: Vec::with_capacity(text.len()) };
        let mut gap = None;
        for (at, c) in text.char_indices() {
            if c.is_whitespace() {
                gap = gap.or(Some(at));
                continue;
            }
            if let Some(place) = gap.take().filter(|_| !folded.text.is_empty()) {
                folded.text.push(' ');
                folded.places.push(place);
            }
            folded.text.push(c);
            folded.places.extend(at..at + c.len_utf8());
        }
        folded
    }

    /// Where the folded `words` stand first, in the text as it was.
    fn find(&self, words: &str) -> Option<Range<usize>> {
        let at = memchr::memmem::find(self.text.as_bytes(), words.as_bytes())?;
        let last = (at + words.len()).checked_sub(1)?;
        // INVARIANT: folded words end with no blank, so the last byte is one of the text's own.
        Some(*self.places.get(at)?..self.places.get(last)? + 1)
    }
}

/// The findings as violations, unless the policy has them off. `model`: who found them.
pub fn violations(findings: &[Finding], results: &[Shown<'_>], model: &str, checks: &Checks) -> Vec<Violation> {
    findings.iter().filter_map(|finding| violation(finding, results, model, checks)).collect()
}

fn violation(finding: &Finding, results: &[Shown<'_>], model: &str, checks: &Checks) -> Option<Violation> {
    let (shown, expected) = match (&finding.evidence, results) {
        (Some((at, words)), _) => (results.get(*at), words.to_string()),
        (None, [only]) => (Some(only), "the result says nothing of it".to_owned()),
        (None, _) => (None, "no cited result says anything of it".to_owned()),
    };
    let result =
        shown.map_or_else(|| "the cited results".to_owned(), |shown| format!("the result of `{}` ({})", shown.tool, shown.execution_id));
    let claim = &finding.claim;
    let message = match (finding.verdict, &finding.evidence) {
        (Verdict::Contradicted, _) => {
            format!("`{claim}` disagrees with {result}: it says `{expected}` (by the verifier `{model}`; likely)")
        }
        (_, Some(_)) => format!("`{claim}` is not what {result} says: `{expected}` (by the verifier `{model}`; likely)"),
        (_, None) => format!("`{claim}` has nothing in {result} to stand on (by the verifier `{model}`; likely)"),
    };
    let advice = "say only what the result says, or leave it out";
    let tool = shown.map(|shown| shown.tool);
    let mut violation = checks.finding(Code::VerifierContradiction, Certainty::Likely, tool, message, advice)?;
    let execution = shown.map(|shown| shown.execution_id.to_owned());
    let found = claim.to_string();
    violation.detail =
        Some(Box::new(Detail { rule: "verifier", span: finding.span.clone(), execution, expected, found, certainty: Certainty::Likely }));
    Some(violation)
}
