//! Checks a verifier's verdicts before they count. Pure.
//!
//! A verdict is dropped if its claim isn't in the answer, or its evidence is in no cited result, blanks aside; if it says `contradicted`
//! without evidence; if the claim is in a cited result, word for word; or if another verdict calls the same words supported.

use std::ops::Range;

use super::{ShownResult, VerifierEntry, VerifierVerdict};
use crate::violation::{Certainty, Checks, Code, Detail, Violation};

/// Characters of a quotation: longer ones don't quote a sentence, or the words that decide it.
const QUOTED_CHARS_MAX: usize = 1000;
/// Letters and digits of the shortest claim: shorter ones occur anywhere.
const CLAIM_CHARS_MIN: usize = 4;
/// Findings that are kept of one answer.
const FINDINGS_MAX: usize = 16;

/// A checked objection of the verifier.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VerifierFinding {
    /// Byte range of the claim in the answer.
    pub span: Range<usize>,
    /// The claim.
    pub claim: Box<str>,
    /// Index of the result with the evidence, and the words quoted from it.
    pub evidence: Option<(usize, Box<str>)>,
    /// Verdict of the verifier on the claim.
    pub verdict: VerifierVerdict,
}

/// Result of checking all verdicts on one answer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CheckedVerdicts {
    /// Objections to the answer.
    pub findings: Vec<VerifierFinding>,
    /// Number of supported claims.
    pub supported: u64,
    /// Number of dropped verdicts.
    pub dropped: u64,
}

/// Checks verdicts against the answer and its cited results. `beyond`: number of verdicts besides `entries`.
pub fn check(entries: &[VerifierEntry], beyond: usize, answer: &str, results: &[ShownResult<'_>]) -> CheckedVerdicts {
    let mut checked = CheckedVerdicts { dropped: beyond as u64, ..CheckedVerdicts::default() };
    let answer = NormalizedText::of(answer);
    let results: Vec<String> = results.iter().map(|shown| NormalizedText::of(shown.text).text).collect();
    let believed: Vec<VerifierFinding> = entries.iter().filter_map(|entry| believed(entry, &answer, &results)).collect();
    checked.dropped += (entries.len() - believed.len()) as u64;
    let supported: Vec<Range<usize>> =
        believed.iter().filter(|own| own.verdict == VerifierVerdict::Supported).map(|own| own.span.clone()).collect();
    checked.supported = supported.len() as u64;
    for finding in believed.into_iter().filter(|own| own.verdict != VerifierVerdict::Supported) {
        let again = checked.findings.iter().any(|other| other.span == finding.span);
        if again || supported.contains(&finding.span) || checked.findings.len() >= FINDINGS_MAX {
            checked.dropped += 1;
        } else {
            checked.findings.push(finding);
        }
    }
    checked
}

fn believed(entry: &VerifierEntry, answer: &NormalizedText, results: &[String]) -> Option<VerifierFinding> {
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
        VerifierVerdict::Supported => true,
        VerifierVerdict::Contradicted => evidence.is_some() && !said(),
        VerifierVerdict::Unsupported => !said(),
    };
    holds.then(|| VerifierFinding { span, claim: claim.into_boxed_str(), evidence, verdict: entry.verdict })
}

/// `words` with blanks folded, if they may be a quotation.
fn quotation(words: &str) -> Option<String> {
    // Cheap before exact: no text of so many bytes is short enough.
    if words.len() > QUOTED_CHARS_MAX * 8 {
        return None;
    }
    let folded = NormalizedText::of(words).text;
    let fits = folded.chars().count() <= QUOTED_CHARS_MAX && folded.chars().any(char::is_alphanumeric);
    fits.then_some(folded)
}

fn stands(text: &str, words: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), words.as_bytes()).is_some()
}

/// A text with each run of blanks folded to one, none at its ends, and the original offsets.
struct NormalizedText {
    text: String,
    /// Original offset of each byte.
    places: Vec<usize>,
}

impl NormalizedText {
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

    /// Range of the first occurrence of the folded `words` in the original text.
    fn find(&self, words: &str) -> Option<Range<usize>> {
        let at = memchr::memmem::find(self.text.as_bytes(), words.as_bytes())?;
        let last = (at + words.len()).checked_sub(1)?;
        // INVARIANT: folded words end with no blank, so the last byte is one of the text's own.
        Some(*self.places.get(at)?..self.places.get(last)? + 1)
    }
}

/// The findings as violations, unless the policy has them off. `model`: the verifier's model.
pub fn violations(findings: &[VerifierFinding], results: &[ShownResult<'_>], model: &str, checks: &Checks) -> Vec<Violation> {
    findings.iter().filter_map(|finding| violation(finding, results, model, checks)).collect()
}

fn violation(finding: &VerifierFinding, results: &[ShownResult<'_>], model: &str, checks: &Checks) -> Option<Violation> {
    let (shown, expected) = match (&finding.evidence, results) {
        (Some((at, words)), _) => (results.get(*at), words.to_string()),
        (None, [only]) => (Some(only), "the result says nothing of it".to_owned()),
        (None, _) => (None, "no cited result says anything of it".to_owned()),
    };
    let result =
        shown.map_or_else(|| "the cited results".to_owned(), |shown| format!("the result of `{}` ({})", shown.tool, shown.execution_id));
    let claim = &finding.claim;
    let message = match (finding.verdict, &finding.evidence) {
        (VerifierVerdict::Contradicted, _) => {
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
