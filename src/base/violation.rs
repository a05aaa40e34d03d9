//! Violations by a model, a client or a tool, as data: codes, severities, violations, verdicts.
//!
//! Every check reports here and nowhere else. Pure; decides nothing about a violation except its severity under the policy.

use std::{fmt, ops::Range};

use minicbor::{
    Decode, Decoder, Encode, Encoder,
    decode::Error as DecodeError,
    encode::{Error as EncodeError, Write},
};
use serde::{Deserialize as _, de::value::StrDeserializer};

/// Severity of a violation under the policy. Ordered: `Off < Info < Warn < Block`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Not looked for, or not recorded.
    Off,
    /// Recorded; leaves the verdict `pass`.
    Info,
    /// Recorded; the verdict is `warn`.
    #[default]
    Warn,
    /// A call is repaired and never passed on, a text repaired and then replaced, a request refused.
    Block,
}

impl Severity {
    /// Name in settings and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Block => "block",
        }
    }
}

/// Certainty that a claim is wrong. Ordered: `Likely < Certain`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Nothing accounts for the claim, but a reader could think of an explanation.
    #[default]
    Likely,
    /// The conversation contradicts the claim, whatever else is true.
    Certain,
}

impl Certainty {
    /// Name in settings and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// Location of a violation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// In a tool call that the model returned.
    Call,
    /// In what the application sent.
    Request,
    /// In the text of an answer.
    Text,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $place:ident $default:ident $strict:ident;)*) => {
        /// The code of a violation. The names are part of the public surface: docs/contract.md#policy.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, in the order in which verdicts list them.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// Name in settings, headers, errors and records.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// Location in which this code is found.
            pub fn place(self) -> Place {
                match self { $(Code::$variant => Place::$place,)* }
            }

            /// Severity in `policies/default.toml`.
            pub fn default_severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$default,)* }
            }

            /// Severity in `policies/strict.toml`.
            pub fn strict_severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$strict,)* }
            }
        }
    };
}

codes! {
    UnknownTool "unknown_tool" Call Block Block;
    MalformedArguments "malformed_arguments" Call Block Block;
    MissingRequired "missing_required" Call Block Block;
    WrongType "wrong_type" Call Block Block;
    SchemaViolation "schema_violation" Call Block Block;
    /// A parameter that the schema neither names nor forbids. If it forbids it, `schema_violation`'s severity counts.
    UnknownParameter "unknown_parameter" Call Warn Block;
    NullOptional "null_optional" Call Block Block;
    PlaceholderValue "placeholder_value" Call Warn Warn;
    SuspiciousLength "suspicious_length" Call Warn Warn;
    TooManyCalls "too_many_calls" Call Block Block;
    ToolChoiceIgnored "tool_choice_ignored" Call Block Block;
    LoopDetected "loop_detected" Call Block Block;
    UndeclaredTool "undeclared_tool" Call Block Block;
    TruncatedCall "truncated_call" Call Block Block;
    /// A call of a built-in tool that this request doesn't offer; an unknown earlier part of the conversation may.
    UnofferedCall "unoffered_call" Call Warn Block;
    EmptyAnswer "empty_answer" Call Warn Block;
    DuplicateCallId "duplicate_call_id" Call Info Info;
    CorrectedSyntax "corrected_syntax" Call Info Info;
    CorrectedName "corrected_name" Call Info Info;
    CorrectedTypes "corrected_types" Call Info Info;
    CorrectedNullOptional "corrected_null_optional" Call Info Info;
    CorrectedParameters "corrected_parameters" Call Info Info;
    /// A call written as text was turned into a real call.
    CorrectedTextual "corrected_textual" Call Info Info;
    TextualToolCall "textual_tool_call" Text Warn Block;
    /// A text beside the answer that isn't one of its copies, or makes a claim that it may not; it is left out.
    StrayText "stray_text" Text Info Warn;
    UnansweredCall "unanswered_call" Request Warn Block;
    OrphanResult "orphan_result" Request Warn Block;
    DuplicateResult "duplicate_result" Request Warn Block;
    MisorderedResult "misordered_result" Request Warn Block;
    UnverifiedCall "unverified_call" Request Info Block;
    AlteredCall "altered_call" Request Warn Block;
    /// An integer beyond 2^53 that the application may have rounded.
    ImpreciseNumber "imprecise_number" Request Info Info;
    RewrittenResult "rewritten_result" Request Warn Block;
    /// The application put a placeholder in a result's place, or cut the result: it can't be cited any more.
    TrimmedResult "trimmed_result" Request Info Info;
    ForgedStamp "forged_stamp" Request Warn Block;
    /// The ledger didn't answer in time: facts that only it knows weren't judged, or a record isn't on disk yet.
    LedgerUnavailable "ledger_unavailable" Request Warn Block;
    /// Calls that toolmark let through, or ran itself unseen by the application, aren't known any more.
    HistoryIncomplete "history_incomplete" Request Warn Block;
    InvalidToolSchema "invalid_tool_schema" Request Warn Block;
    SchemaDrift "schema_drift" Request Warn Block;
    MissingTool "missing_tool" Request Block Block;
    LargeResult "large_result" Request Info Warn;
    DuplicatePathSegment "duplicate_path_segment" Request Info Warn;
    FailedResult "failed_result" Request Info Warn;
    MessageOrder "message_order" Request Info Warn;
    UnknownExecution "unknown_execution" Text Block Block;
    ExpiredExecution "expired_execution" Text Block Block;
    ToolMismatch "tool_mismatch" Text Block Block;
    MissingExecutionId "missing_execution_id" Text Block Block;
    UnsupportedClaim "unsupported_claim" Text Block Block;
    ExecutionElsewhere "execution_elsewhere" Text Warn Block;
    ClaimMismatch "claim_mismatch" Text Block Block;
    UnsupportedAction "unsupported_action" Text Block Block;
    FailedExecution "failed_execution" Text Block Block;
    UngroundedValue "ungrounded_value" Text Warn Block;
    FabricatedUrl "fabricated_url" Text Warn Block;
    CountMismatch "count_mismatch" Text Warn Block;
    FalseAbsence "false_absence" Text Warn Block;
    /// Objection of a second model (`[verifier]`) to an answer that cites, after its quotations were checked.
    VerifierContradiction "verifier_contradiction" Text Warn Warn;
    StateMismatch "state_mismatch" Text Block Block;
    StateUnknown "state_unknown" Text Warn Block;
    MissingCitation "missing_citation" Text Off Block;
    /// A part that couldn't be judged in this mode. Never a pass.
    NotJudged "not_judged" Call Info Info;
}

impl Code {
    /// The code with this name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl<'d> serde::Deserialize<'d> for Code {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'d, str>::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| serde::de::Error::custom(format_args!("no code is named `{name}`")))
    }
}

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A violation of one check, with its severity and explanation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// Code of the violation.
    pub code: Code,
    /// Severity under the policy.
    pub severity: Severity,
    /// Tool concerned, if any, as the model or client named it.
    pub tool: Option<Box<str>>,
    /// One-line explanation for the model and for people. May quote input: never logged.
    pub message: String,
    /// One-line advice on how to fix it; may be empty.
    pub advice: String,
    /// JSON pointer into the call's arguments (RFC 6901), where one place in them is at fault; empty: the arguments as a whole.
    pub pointer: Option<Box<str>>,
    /// Comparison that the violation follows from, if a claim was compared.
    pub detail: Option<Box<Detail>>,
}

/// Explanation of a claim's violation. Quotes input: never logged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Detail {
    /// Name of the check that found it, for benches and tests.
    pub rule: &'static str,
    /// Byte range of the claim in the answer's text.
    pub span: Range<usize>,
    /// Execution that the claim was compared with.
    pub execution: Option<String>,
    /// Correct value.
    pub expected: String,
    /// Claimed value.
    pub found: String,
    /// Certainty of the violation.
    pub certainty: Certainty,
}

impl Violation {
    /// True if the policy blocks because of it.
    pub fn blocks(&self) -> bool {
        self.severity == Severity::Block
    }
}

/// The severity of every code, as the policy sets it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checks {
    severities: [Severity; Code::ALL.len()],
    /// Certainty from which a code of severity `block` blocks; below it warns.
    blocks_from: [Certainty; Code::ALL.len()],
}

/// Codes that block only if certain in `policies/default.toml`.
pub const CERTAIN_BY_DEFAULT: [Code; 3] = [Code::ClaimMismatch, Code::UnsupportedAction, Code::FailedExecution];

impl Default for Checks {
    fn default() -> Self {
        let mut checks = Self { severities: [Severity::Off; Code::ALL.len()], blocks_from: [Certainty::Likely; Code::ALL.len()] };
        for code in Code::ALL {
            checks.severities[*code as usize] = code.default_severity();
        }
        for code in CERTAIN_BY_DEFAULT {
            checks.blocks_from[code as usize] = Certainty::Certain;
        }
        checks
    }
}

impl Checks {
    /// Severity of `code` under the policy.
    pub fn severity(&self, code: Code) -> Severity {
        self.severities[code as usize]
    }

    /// Certainty from which `code` blocks, if its severity is `block`; below it warns.
    pub fn blocks_from(&self, code: Code) -> Certainty {
        self.blocks_from[code as usize]
    }

    /// The same table with `code` at `severity`, whatever the certainty.
    pub fn with(mut self, code: Code, severity: Severity) -> Self {
        self.severities[code as usize] = severity;
        self.blocks_from[code as usize] = Certainty::Likely;
        self
    }

    /// The same table with `code` at `block` from this certainty on, and at `warn` below it.
    pub fn with_block(mut self, code: Code, from: Certainty) -> Self {
        self.severities[code as usize] = Severity::Block;
        self.blocks_from[code as usize] = from;
        self
    }

    /// The same table with every code off but these.
    pub fn only(&self, codes: &[Code]) -> Self {
        let mut checks = self.clone();
        for code in Code::ALL.iter().filter(|code| !codes.contains(code)) {
            checks.severities[*code as usize] = Severity::Off;
        }
        checks
    }

    /// A violation of `code` with this certainty; `None` if the policy has it off.
    pub fn finding(&self, code: Code, certainty: Certainty, tool: Option<&str>, message: String, advice: &str) -> Option<Violation> {
        let mut violation = self.violation(code, tool, message, advice)?;
        if violation.severity == Severity::Block && certainty < self.blocks_from(code) {
            violation.severity = Severity::Warn;
        }
        Some(violation)
    }

    /// A violation of `code`; `None` if the policy has it off.
    pub fn violation(&self, code: Code, tool: Option<&str>, message: impl Into<String>, advice: impl Into<String>) -> Option<Violation> {
        let severity = self.severity(code);
        (severity != Severity::Off).then(|| Violation {
            code,
            severity,
            tool: tool.map(Into::into),
            message: message.into(),
            advice: advice.into(),
            pointer: None,
            detail: None,
        })
    }
}

/// Verdict on an exchange. Ordered from best to worst.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No violation above `info`.
    #[default]
    Pass,
    /// At least one violation at `warn`.
    Warn,
    /// The model repaired a violation, unseen by the application.
    Repaired,
    /// Refused, or replaced by a safe reply.
    Blocked,
}

impl Verdict {
    /// Name in headers and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Warn => "warn",
            Verdict::Repaired => "repaired",
            Verdict::Blocked => "blocked",
        }
    }
}

/// In CBOR, as in JSON, these enums are their names.
macro_rules! words {
    ($($kind:ty),*) => { $(
        impl<C> Encode<C> for $kind {
            fn encode<W: Write>(&self, encoder: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
                encoder.str(self.as_str())?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $kind {
            fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
                let word = StrDeserializer::<serde::de::value::Error>::new(decoder.str()?);
                Self::deserialize(word).map_err(DecodeError::message)
            }
        }
    )* };
}

words!(Certainty, Code, Severity, Verdict);
