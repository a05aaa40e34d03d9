//! A second opinion on an answer's claims: the request to a verifier, and the check of its verdicts. Pure.
//!
//! ```text
//!  answer, cited results ─▶ undecided? ─▶ question ─▶ (a model, asked by the shell) ─▶ reading ─▶ check ─▶ violations
//! ```
//! The verifier is a model, so nothing that it says is trusted: a verdict counts only if the disputed words are in the answer, and the
//! words quoted as evidence in a result that the answer cites. Nothing else of its output is used. A verdict that counts may still be
//! wrong, so it is only ever `likely`.

pub mod check;
pub mod question;
pub mod reading;
pub mod undecided;

#[cfg(test)]
mod tests;

/// A cited result as shown to the verifier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShownResult<'a> {
    /// Execution ID of the result.
    pub execution_id: &'a str,
    /// Name of the tool.
    pub tool: &'a str,
    /// Arguments of the call.
    pub arguments: &'a str,
    /// Text of the result.
    pub text: &'a str,
}

/// Verdict of the verifier on one claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerifierVerdict {
    /// The results support the claim.
    Supported,
    /// A result contradicts the claim.
    Contradicted,
    /// No result says anything about the claim.
    Unsupported,
}

/// One verdict as the verifier wrote it, unchecked.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierEntry {
    /// Alleged words of the answer.
    pub claim: String,
    /// Alleged words of a result.
    #[serde(deserialize_with = "serde::Deserialize::deserialize")]
    pub evidence: Option<String>,
    /// Verdict on the claim.
    pub verdict: VerifierVerdict,
}
