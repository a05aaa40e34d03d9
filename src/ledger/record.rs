//! What is kept of one exchange. Values only; the names are those of exports, of the admin API and of what is stored.
//!
//! Never in a record: credentials, and, unless `[ledger] store = "bodies"` asks for them, arguments, results and
//! the messages of violations, which may quote both.
//!
//! The numbers of fields are those of the stored form ([`super::stored`]): once given they are never given to another, and
//! what is new can be left out.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use super::digest::{Digest, ScopeDigest};
use super::stored;
use crate::judge::violation::{Certainty, Code, Severity, Verdict};

/// Characters of a session's name that are kept.
pub const SESSION_CHARS_MAX: usize = 256;
/// Characters of a tool's name that are kept: a model may invent any.
pub const TOOL_CHARS_MAX: usize = 128;

/// Which API.
#[derive(Clone, Copy, Debug, Decode, Encode, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `POST /v1/chat/completions`
    #[n(0)]
    Chat,
    /// `POST /v1/responses`
    #[n(1)]
    Responses,
}

impl Api {
    /// Its word in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }
}

/// One exchange: a downstream request and everything that was done for it.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct ExchangeRecord {
    /// Its id, which the caller got as `toolmark-exchange`.
    #[n(0)]
    #[cbor(with = "stored::id")]
    pub id: Uuid,
    /// The record that this one corrects: what became of that exchange after it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(7)]
    #[cbor(with = "stored::other_id", has_nil)]
    pub amends: Option<Uuid>,
    /// When it began, in Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
    /// Which API.
    #[n(8)]
    pub api: Api,
    /// A stream was asked for.
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(9)]
    pub stream: bool,
    /// Nothing was changed (`mode = "observe"`).
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(10)]
    pub observed: bool,
    /// Whose marks counted.
    #[n(11)]
    pub scope: ScopeDigest,
    /// The caller's name, where `[[clients]]` name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(12)]
    pub client: Option<Box<str>>,
    /// The session, where the caller named one (`toolmark-session`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(4)]
    pub session: Option<Box<str>>,
    /// The policy that judged it: the first 16 hex digits of its digest.
    #[n(13)]
    pub policy: Box<str>,
    /// The model asked for.
    #[n(3)]
    pub model: Box<str>,
    /// The status that the caller got; `None`: the caller went away before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(14)]
    pub status: Option<u16>,
    /// What became of it.
    #[n(15)]
    pub verdict: Verdict,
    /// Repairs made.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[n(16)]
    pub repairs: u32,
    /// From the request's head to the end of the answer, in microseconds.
    #[n(2)]
    pub total_us: u64,
    /// Of that, spent waiting for upstreams, in microseconds.
    #[n(17)]
    pub upstream_us: u64,
    /// What went upstream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(18)]
    pub attempts: Vec<Attempt>,
    /// What the model called, in all attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(19)]
    pub calls: Vec<CallRecord>,
    /// The executions that this exchange was the first to show. Those that came again aren't said again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(5)]
    pub executions: Vec<ExecutionRecord>,
    /// What the answer claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(20)]
    pub claims: Vec<Claim>,
    /// What was wrong, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(6)]
    pub violations: Vec<ViolationRecord>,
}

impl ExchangeRecord {
    /// What toolmark itself took, in microseconds.
    pub fn overhead_us(&self) -> u64 {
        self.total_us.saturating_sub(self.upstream_us)
    }

    /// When it ended, in Unix milliseconds.
    pub fn ended_ms(&self) -> u64 {
        super::rows::ended_ms(self.at_ms, self.total_us)
    }
}

/// One upstream request.
#[derive(Clone, Debug, Decode, Default, Deserialize, Encode, PartialEq, Serialize)]
pub struct Attempt {
    /// The upstream's name.
    #[n(0)]
    pub upstream: Box<str>,
    /// The model that it was asked for.
    #[n(1)]
    pub model: Box<str>,
    /// Its status; `None`: no answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(2)]
    pub status: Option<u16>,
    /// Tokens, where the upstream said them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(3)]
    pub tokens: Option<Tokens>,
    /// Until its answer was read, in microseconds.
    #[n(4)]
    pub duration_us: u64,
}

/// What an attempt cost.
#[derive(Clone, Copy, Debug, Decode, Default, Deserialize, Encode, Eq, PartialEq, Serialize)]
pub struct Tokens {
    /// Of the prompt.
    #[n(0)]
    pub input: u64,
    /// Of the answer.
    #[n(1)]
    pub output: u64,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, Decode, Encode, Deserialize, Eq, PartialEq, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum CallOutcome {
    /// It was passed on.
    #[n(0)]
    Accepted,
    /// It wasn't, for what was wrong with it.
    #[n(1)]
    Rejected,
    /// Nothing was wrong with it, but with the turn that it was part of.
    #[n(2)]
    Withheld,
}

/// A call that a model made.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct CallRecord {
    /// Of which attempt, counting from 1.
    #[n(0)]
    pub attempt: u32,
    /// The tool, as the model named it.
    #[n(1)]
    pub tool: Box<str>,
    /// What became of it.
    #[n(2)]
    pub outcome: CallOutcome,
    /// Its mark, where it was passed on with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(3)]
    pub mark: Option<Box<str>>,
    /// Digest of its arguments: RFC 8785 where they are JSON, else as they came.
    #[n(4)]
    pub arguments: Digest,
    /// The arguments, where they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(5)]
    pub arguments_body: Option<Body>,
    /// Its arguments aren't those that the model wrote.
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(6)]
    pub corrected: bool,
    /// What was wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(7)]
    pub violations: Vec<Code>,
}

/// Who saw the tool run.
#[derive(Clone, Copy, Debug, Decode, Default, Encode, Deserialize, Eq, PartialEq, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    /// Nobody but the application: it returned this result for this call.
    #[default]
    #[n(0)]
    App,
    /// toolmark ran the tool.
    #[n(1)]
    Proxy,
}

/// A call with its result, as first witnessed.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct ExecutionRecord {
    /// Its execution ID.
    #[n(0)]
    pub id: Box<str>,
    /// The tool.
    #[n(1)]
    pub tool: Box<str>,
    /// The mark of its call, as the client holds it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[n(2)]
    pub mark: Box<str>,
    /// Digest of the call's arguments, as in [`CallRecord::arguments`]; `None` where the call isn't in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(3)]
    pub arguments: Option<Digest>,
    /// Digest of the result's text.
    #[n(4)]
    pub result: Digest,
    /// The arguments, where they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(5)]
    pub arguments_body: Option<Body>,
    /// The result, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(6)]
    pub result_body: Option<Body>,
    /// Who saw it.
    #[serde(default)]
    #[n(7)]
    pub witness: Witness,
    /// When the call was let through (its mark's time), in Unix milliseconds.
    #[n(8)]
    pub started_ms: u64,
    /// When the result arrived, in Unix milliseconds.
    #[n(9)]
    pub seen_ms: u64,
    /// The result reports a failure.
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(10)]
    pub failed: bool,
}

impl ExecutionRecord {
    /// From the call to its result, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.seen_ms.saturating_sub(self.started_ms)
    }
}

/// A text that is kept, perhaps not all of it.
#[derive(Clone, Debug, Decode, Deserialize, Encode, Eq, PartialEq, Serialize)]
pub struct Body {
    /// The text, or its beginning.
    #[n(0)]
    pub text: Box<str>,
    /// Bytes of the whole.
    #[n(1)]
    pub bytes: u64,
}

impl Body {
    /// Keeps at most `bytes_max` bytes of a text.
    pub fn of(text: &str, bytes_max: usize) -> Self {
        let end = text.floor_char_boundary(bytes_max);
        Self { text: text[..end].into(), bytes: text.len() as u64 }
    }

    /// Is a part missing?
    pub fn is_cut(&self) -> bool {
        (self.text.len() as u64) < self.bytes
    }
}

/// A place in the answer that asserts a tool's execution.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct Claim {
    /// The execution that it names, where it verifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(0)]
    pub execution: Option<Box<str>>,
    /// What is wrong with it; `None`: verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(1)]
    pub code: Option<Code>,
}

/// One thing that was wrong.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct ViolationRecord {
    /// What kind of wrong.
    #[n(0)]
    pub code: Code,
    /// What the policy made of it.
    #[n(1)]
    pub severity: Severity,
    /// Found in the answer of this attempt, counting from 1; 0: in the request.
    #[n(2)]
    pub attempt: u32,
    /// The tool concerned, as the model or client named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(3)]
    pub tool: Option<Box<str>>,
    /// What is wrong, where bodies are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(4)]
    pub message: Option<Box<str>>,
    /// Of a claim that was checked: how sure it is that it is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(5)]
    pub certainty: Option<Certainty>,
    /// Of a claim that was checked: the execution that it was compared with, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(6)]
    pub execution: Option<Box<str>>,
    /// Of a claim that was checked: what it says, where bodies are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(7)]
    pub found: Option<Box<str>>,
    /// Of a claim that was checked: what would be right, where bodies are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(8)]
    pub expected: Option<Box<str>>,
}

impl ViolationRecord {
    /// A record of nothing but this.
    pub fn new(code: Code, severity: Severity, attempt: u32) -> Self {
        Self { code, severity, attempt, tool: None, message: None, certainty: None, execution: None, found: None, expected: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
