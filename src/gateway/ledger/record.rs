//! The record of one exchange. Values only; the names are those of exports, of the admin API and of stored records.
//!
//! Never in a record: credentials, and, unless `[ledger] store = "bodies"` asks for them, arguments, results and
//! the messages of violations, which may quote both.
//!
//! The numbers of fields are those of the stored form ([`crate::ledger::codec`]): a number is never reused, and new fields are optional.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use super::digest::{Digest, ScopeDigest};
use crate::{
    ledger::codec,
    openai::Api,
    violation::{Certainty, Code, Severity, Verdict},
};

/// Characters of a session's name that are kept.
pub const SESSION_CHARS_MAX: usize = 256;
/// Characters of a tool's name that are kept: a model may invent any.
pub const TOOL_CHARS_MAX: usize = 128;

/// One exchange: a downstream request and everything that was done for it.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct ExchangeRecord {
    /// Id of the exchange, sent to the caller as `toolmark-exchange`.
    #[n(0)]
    #[cbor(with = "codec::id")]
    pub id: Uuid,
    /// Id of the record that this one corrects, where something became known only after the exchange was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(7)]
    #[cbor(with = "codec::other_id", has_nil)]
    pub amends: Option<Uuid>,
    /// Start of the exchange, in Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
    /// API that was called.
    #[n(8)]
    pub api: Api,
    /// The caller asked for a stream.
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(9)]
    pub stream: bool,
    /// The answer was not changed (`mode = "observe"`).
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(10)]
    pub observed: bool,
    /// Digest of the scope whose marks were accepted.
    #[n(11)]
    pub scope: ScopeDigest,
    /// The caller's name, if `[[clients]]` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(12)]
    pub client: Option<Box<str>>,
    /// The session, if the caller named one (`toolmark-session`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(4)]
    pub session: Option<Box<str>>,
    /// The policy in force: the first 16 hex digits of its digest.
    #[n(13)]
    pub policy: Box<str>,
    /// The model asked for.
    #[n(3)]
    pub model: Box<str>,
    /// HTTP status sent to the caller; `None`: the caller disconnected before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(14)]
    pub status: Option<u16>,
    /// Outcome of the exchange.
    #[n(15)]
    pub verdict: Verdict,
    /// Number of repairs.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[n(16)]
    pub repairs: u32,
    /// Time from the request's head to the end of the answer, in microseconds.
    #[n(2)]
    pub total_us: u64,
    /// Part of `total_us` that was spent waiting for upstreams, in microseconds.
    #[n(17)]
    pub upstream_us: u64,
    /// Upstream requests, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(18)]
    pub attempts: Vec<AttemptRecord>,
    /// The model's calls, in all attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(19)]
    pub calls: Vec<CallRecord>,
    /// The executions that this exchange was the first to show. Repeated ones aren't listed again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(5)]
    pub executions: Vec<ExecutionRecord>,
    /// Claims in the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(20)]
    pub claims: Vec<ClaimRecord>,
    /// Violations that were found, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(6)]
    pub violations: Vec<ViolationRecord>,
}

impl ExchangeRecord {
    /// Time that toolmark itself took, in microseconds.
    pub fn overhead_us(&self) -> u64 {
        self.total_us.saturating_sub(self.upstream_us)
    }

    /// End of the exchange, in Unix milliseconds.
    pub fn ended_ms(&self) -> u64 {
        crate::ledger::index::ended_ms(self.at_ms, self.total_us)
    }
}

/// One upstream request.
#[derive(Clone, Debug, Decode, Default, Deserialize, Encode, PartialEq, Serialize)]
pub struct AttemptRecord {
    /// The upstream's name.
    #[n(0)]
    pub upstream: Box<str>,
    /// The model that the upstream was asked for.
    #[n(1)]
    pub model: Box<str>,
    /// HTTP status of the upstream; `None`: it didn't answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(2)]
    pub status: Option<u16>,
    /// Tokens used, if the upstream reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(3)]
    pub tokens: Option<AttemptTokens>,
    /// Time until its answer was read, in microseconds.
    #[n(4)]
    pub duration_us: u64,
}

/// Tokens that an attempt used.
#[derive(Clone, Copy, Debug, Decode, Default, Deserialize, Encode, Eq, PartialEq, Serialize)]
pub struct AttemptTokens {
    /// Tokens of the prompt.
    #[n(0)]
    pub input: u64,
    /// Tokens of the answer.
    #[n(1)]
    pub output: u64,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, Decode, Encode, Deserialize, Eq, PartialEq, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum CallOutcome {
    /// The call was passed on.
    #[n(0)]
    Accepted,
    /// The call was rejected for a violation of its own.
    #[n(1)]
    Rejected,
    /// The call was valid, but its turn was rejected.
    #[n(2)]
    Withheld,
}

/// A call that a model made.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct CallRecord {
    /// Number of its attempt, counting from 1.
    #[n(0)]
    pub attempt: u32,
    /// The tool, as the model named it.
    #[n(1)]
    pub tool: Box<str>,
    /// Outcome of the call.
    #[n(2)]
    pub outcome: CallOutcome,
    /// Mark of the call, if it was passed on with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(3)]
    pub mark: Option<Box<str>>,
    /// Digest of the arguments: of their RFC 8785 form if they are JSON, else of the original text.
    #[n(4)]
    pub arguments: Digest,
    /// The arguments, if bodies are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(5)]
    pub arguments_body: Option<StoredText>,
    /// The arguments were changed by toolmark: they aren't those that the model wrote.
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(6)]
    pub corrected: bool,
    /// Codes of the call's violations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[n(7)]
    pub violations: Vec<Code>,
}

/// Witness of a tool's execution.
#[derive(Clone, Copy, Debug, Decode, Default, Encode, Deserialize, Eq, PartialEq, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    /// Only the application: it returned this result for this call.
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
    /// The execution ID.
    #[n(0)]
    pub id: Box<str>,
    /// The tool.
    #[n(1)]
    pub tool: Box<str>,
    /// The mark of its call, as the client has it.
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
    /// The arguments, if bodies are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(5)]
    pub arguments_body: Option<StoredText>,
    /// The result, if bodies are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(6)]
    pub result_body: Option<StoredText>,
    /// Witness of the execution.
    #[serde(default)]
    #[n(7)]
    pub witness: Witness,
    /// Time at which the call was passed on (its mark's time), in Unix milliseconds.
    #[n(8)]
    pub started_ms: u64,
    /// Arrival of the result, in Unix milliseconds.
    #[n(9)]
    pub seen_ms: u64,
    /// The result reports a failure.
    #[serde(default, skip_serializing_if = "is_false")]
    #[n(10)]
    pub failed: bool,
}

impl ExecutionRecord {
    /// Time from the call to its result, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.seen_ms.saturating_sub(self.started_ms)
    }
}

/// A stored text, possibly cut short.
#[derive(Clone, Debug, Decode, Deserialize, Encode, Eq, PartialEq, Serialize)]
pub struct StoredText {
    /// The text, or its beginning.
    #[n(0)]
    pub text: Box<str>,
    /// Bytes of the complete text.
    #[n(1)]
    pub bytes: u64,
}

impl StoredText {
    /// Stores at most `bytes_max` bytes of a text.
    pub fn of(text: &str, bytes_max: usize) -> Self {
        let end = text.floor_char_boundary(bytes_max);
        Self { text: text[..end].into(), bytes: text.len() as u64 }
    }

    /// Returns whether the text was cut short.
    pub fn is_cut(&self) -> bool {
        (self.text.len() as u64) < self.bytes
    }
}

/// A place in the answer that asserts a tool's execution.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct ClaimRecord {
    /// The execution that it names, if it is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(0)]
    pub execution: Option<Box<str>>,
    /// Code of the claim's violation; `None`: verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(1)]
    pub code: Option<Code>,
}

/// One violation.
#[derive(Clone, Debug, Decode, Deserialize, Encode, PartialEq, Serialize)]
pub struct ViolationRecord {
    /// Kind of violation.
    #[n(0)]
    pub code: Code,
    /// Severity that the policy gives it.
    #[n(1)]
    pub severity: Severity,
    /// Number of the attempt in whose answer it was found, counting from 1; 0: it was found in the request.
    #[n(2)]
    pub attempt: u32,
    /// The tool concerned, as the model or client named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(3)]
    pub tool: Option<Box<str>>,
    /// Message of the violation, if bodies are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(4)]
    pub message: Option<Box<str>>,
    /// For a checked claim: certainty that the claim is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(5)]
    pub certainty: Option<Certainty>,
    /// For a checked claim: the execution that it was compared with, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(6)]
    pub execution: Option<Box<str>>,
    /// For a checked claim: the value that it states, if bodies are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(7)]
    pub found: Option<Box<str>>,
    /// For a checked claim: the right value, if bodies are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[n(8)]
    pub expected: Option<Box<str>>,
}

impl ViolationRecord {
    /// A record with only these fields set.
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
