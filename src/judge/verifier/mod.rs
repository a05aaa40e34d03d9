//! A second opinion on what an answer claims: what a verifier is shown, and what of its verdicts is believed. Pure.
//!
//! ```text
//!  answer, cited results ─▶ undecided? ─▶ question ─▶ (a model, asked by the shell) ─▶ reading ─▶ check ─▶ violations
//! ```
//! The verifier is a model, so nothing that it says is taken on trust: a verdict counts only where the words that it objects
//! to stand in the answer, and the words that it objects with in a result which the answer cites. Nothing else of what it
//! wrote goes anywhere. What is left may still be wrong, so it is only ever `likely`.

pub mod check;
pub mod question;
pub mod reading;
pub mod undecided;

#[cfg(test)]
mod tests;

/// A result that the answer cites, as the verifier is shown it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shown<'a> {
    /// Its execution ID.
    pub execution_id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// What the tool was called with.
    pub arguments: &'a str,
    /// What it returned.
    pub text: &'a str,
}

/// What the verifier makes of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The results say so.
    Supported,
    /// A result says otherwise.
    Contradicted,
    /// No result says anything of it.
    Unsupported,
}

/// One verdict as the verifier wrote it: nothing of it is checked yet.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Words of the answer, it says.
    pub claim: String,
    /// Words of a result, it says.
    #[serde(deserialize_with = "serde::Deserialize::deserialize")]
    pub evidence: Option<String>,
    /// What it makes of them.
    pub verdict: Verdict,
}
