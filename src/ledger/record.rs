//! What is kept of one exchange. Values only; the names are those of exports, of the admin API and of what is stored.
//!
//! Never in a record: credentials, and, unless `[ledger] store = "bodies"` asks for them, arguments, results and
//! the messages of violations, which may quote both.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use uuid::Uuid;

use crate::judge::violation::{Code, Severity, Verdict};

/// Characters of a session's name that are kept.
pub const SESSION_CHARS_MAX: usize = 256;
/// Characters of a tool's name that are kept: a model may invent any.
pub const TOOL_CHARS_MAX: usize = 128;

/// Which API.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
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

/// A BLAKE3 digest, as `b3sum` prints it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl<'d> Deserialize<'d> for Digest {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'d, str>::deserialize(deserializer)?;
        blake3::Hash::from_hex(&*text).map(|hash| Self(*hash.as_bytes())).map_err(D::Error::custom)
    }
}

/// Whose marks counted, as 16 hex digits of a keyed digest: equal for equal callers, and of no use to find one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ScopeDigest(pub u64);

impl Serialize for ScopeDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'d> Deserialize<'d> for ScopeDigest {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'d, str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
    }
}

/// One exchange: a downstream request and everything that was done for it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExchangeRecord {
    /// Its id, which the caller got as `toolmark-exchange`.
    pub id: Uuid,
    /// The record that this one corrects: what became of that exchange after it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amends: Option<Uuid>,
    /// When it began, in Unix milliseconds.
    pub at_ms: u64,
    /// Which API.
    pub api: Api,
    /// A stream was asked for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream: bool,
    /// Nothing was changed (`mode = "observe"`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub observed: bool,
    /// Whose marks counted.
    pub scope: ScopeDigest,
    /// The caller's name, where `[[clients]]` name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Box<str>>,
    /// The session, where the caller named one (`toolmark-session`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<str>>,
    /// The policy that judged it: the first 16 hex digits of its digest.
    pub policy: Box<str>,
    /// The model asked for.
    pub model: Box<str>,
    /// The status that the caller got; `None`: the caller went away before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What became of it.
    pub verdict: Verdict,
    /// Repairs made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repairs: u32,
    /// From the request's head to the end of the answer, in microseconds.
    pub total_us: u64,
    /// Of that, spent waiting for upstreams, in microseconds.
    pub upstream_us: u64,
    /// What went upstream, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// What the model called, in all attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    /// The executions that this exchange was the first to show. Those that came again aren't said again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<ExecutionRecord>,
    /// What the answer claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// What was wrong, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<ViolationRecord>,
}

impl ExchangeRecord {
    /// What toolmark itself took, in microseconds.
    pub fn overhead_us(&self) -> u64 {
        self.total_us.saturating_sub(self.upstream_us)
    }

    /// Bytes that it takes in memory, by estimate.
    pub fn weight(&self) -> usize {
        let body = |body: &Option<Body>| body.as_ref().map_or(0, |body| body.text.len());
        let calls: usize = self.calls.iter().map(|call| 200 + call.tool.len() + body(&call.arguments_body)).sum();
        let one = |execution: &ExecutionRecord| 400 + body(&execution.arguments_body) + body(&execution.result_body);
        let executions: usize = self.executions.iter().map(one).sum();
        let violation = |violation: &ViolationRecord| 100 + violation.message.as_ref().map_or(0, |message| message.len());
        let violations: usize = self.violations.iter().map(violation).sum();
        400 + self.model.len() + self.attempts.len() * 150 + calls + executions + violations + self.claims.len() * 100
    }

    /// When it ended, in Unix milliseconds.
    pub fn ended_ms(&self) -> u64 {
        self.at_ms.saturating_add(self.total_us / 1000)
    }
}

/// One upstream request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Attempt {
    /// The upstream's name.
    pub upstream: Box<str>,
    /// The model that it was asked for.
    pub model: Box<str>,
    /// Its status; `None`: no answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Tokens, where the upstream said them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Until its answer was read, in microseconds.
    pub duration_us: u64,
}

/// What an attempt cost.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Tokens {
    /// Of the prompt.
    pub input: u64,
    /// Of the answer.
    pub output: u64,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CallOutcome {
    /// It was passed on.
    Accepted,
    /// It wasn't, for what was wrong with it.
    Rejected,
    /// Nothing was wrong with it, but with the turn that it was part of.
    Withheld,
}

/// A call that a model made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallRecord {
    /// Of which attempt, counting from 1.
    pub attempt: u32,
    /// The tool, as the model named it.
    pub tool: Box<str>,
    /// What became of it.
    pub outcome: CallOutcome,
    /// Its mark, where it was passed on with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Box<str>>,
    /// Digest of its arguments: RFC 8785 where they are JSON, else as they came.
    pub arguments: Digest,
    /// The arguments, where they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_body: Option<Body>,
    /// Its arguments aren't those that the model wrote.
    #[serde(default, skip_serializing_if = "is_false")]
    pub corrected: bool,
    /// What was wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Code>,
}

/// Who saw the tool run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    /// Nobody but the application: it returned this result for this call.
    #[default]
    App,
    /// toolmark ran the tool.
    Proxy,
}

/// A call with its result, as first witnessed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExecutionRecord {
    /// Its execution ID.
    pub id: Box<str>,
    /// The tool.
    pub tool: Box<str>,
    /// The mark of its call, as the client holds it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub mark: Box<str>,
    /// Digest of the call's arguments, as in [`CallRecord::arguments`]; `None` where the call isn't in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Digest>,
    /// Digest of the result's text.
    pub result: Digest,
    /// The arguments, where they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_body: Option<Body>,
    /// The result, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_body: Option<Body>,
    /// Who saw it.
    #[serde(default)]
    pub witness: Witness,
    /// When the call was let through (its mark's time), in Unix milliseconds.
    pub started_ms: u64,
    /// When the result arrived, in Unix milliseconds.
    pub seen_ms: u64,
    /// The result reports a failure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failed: bool,
}

impl ExecutionRecord {
    /// From the call to its result, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.seen_ms.saturating_sub(self.started_ms)
    }
}

/// A text that is kept, perhaps not all of it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Body {
    /// The text, or its beginning.
    pub text: Box<str>,
    /// Bytes of the whole.
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
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Claim {
    /// The execution that it names, where it verifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<str>>,
    /// What is wrong with it; `None`: verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// One thing that was wrong.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ViolationRecord {
    /// What kind of wrong.
    pub code: Code,
    /// What the policy made of it.
    pub severity: Severity,
    /// Found in the answer of this attempt, counting from 1; 0: in the request.
    pub attempt: u32,
    /// The tool concerned, as the model or client named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<str>>,
    /// What is wrong, where bodies are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
