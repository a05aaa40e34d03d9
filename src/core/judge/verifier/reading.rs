//! Parses a verifier's answer. Every size is bounded, and an answer of another form is invalid. Pure.

use bytes::Bytes;
use serde::Deserialize;

use super::VerifierEntry;
use crate::wire::json::{Document, Value};

/// Bytes of the longest answer: dozens of verdicts with their quotations take a tenth of it.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Verdicts that are looked at; further ones count as dropped.
pub const ENTRIES_MAX: usize = 64;

/// Reason why an answer is invalid.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// It is longer than [`ANSWER_BYTES_MAX`].
    #[error("its answer is too long")]
    TooLong,
    /// It isn't JSON.
    #[error("its answer is no JSON")]
    NotJson,
    /// It has no text: a refusal, a call, an error.
    #[error("its answer has no text: a refusal, a call or an error")]
    NoText,
    /// Its text isn't of the form that was asked for.
    #[error("its text isn't of the schema that was asked for: does the model know `response_format` with `json_schema`?")]
    NotTheSchema,
}

/// A parsed answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VerifierReply {
    /// Tokens according to the reported usage: input, output.
    pub tokens: Option<(u64, u64)>,
    /// Verdicts, at most [`ENTRIES_MAX`], and the number of further ones.
    pub verdicts: Result<(Vec<VerifierEntry>, usize), Invalid>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdicts {
    verdicts: Vec<VerifierEntry>,
}

/// Parses the body of the verifier's answer, a chat completion.
pub fn read(body: &Bytes) -> VerifierReply {
    if body.len() > ANSWER_BYTES_MAX {
        return VerifierReply { tokens: None, verdicts: Err(Invalid::TooLong) };
    }
    let Ok(document) = Document::parse(body.clone()) else { return VerifierReply { tokens: None, verdicts: Err(Invalid::NotJson) } };
    let root = document.root();
    VerifierReply { tokens: root.get_some("usage").and_then(tokens), verdicts: verdicts(root) }
}

fn verdicts(root: Value<'_>) -> Result<(Vec<VerifierEntry>, usize), Invalid> {
    let choice = root.get("choices").and_then(|choices| choices.items().next());
    let text = choice.and_then(|choice| choice.get("message")?.get_some("content")?.text()).ok_or(Invalid::NoText)?;
    let Verdicts { mut verdicts } = serde_json::from_str(&text).map_err(|_| Invalid::NotTheSchema)?;
    let beyond = verdicts.len().saturating_sub(ENTRIES_MAX);
    verdicts.truncate(ENTRIES_MAX);
    Ok((verdicts, beyond))
}

fn tokens(usage: Value<'_>) -> Option<(u64, u64)> {
    let count = |name: &str| usage.get(name).and_then(Value::integer);
    match (count("prompt_tokens"), count("completion_tokens")) {
        (None, None) => Some((count("total_tokens")?, 0)),
        (input, output) => Some((input.unwrap_or(0), output.unwrap_or(0))),
    }
}
