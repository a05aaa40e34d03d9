//! The policy: what is checked and how severely, as its TOML says it. docs/contract.md#policy.
//!
//! Values only; [`load`] reads files and explains their errors.

pub mod bundle;
pub mod compiled;
mod completeness;
pub mod load;
mod loops;
mod protocol;
pub mod state_probe;
pub mod state_rules;
mod tool_files;
pub mod watch;

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

pub use self::loops::{CallRate, Identical, LoopsPolicy, OnLimit, ToolLimits, ToolLoops};
use self::protocol::{ANNOUNCE_TEXT, CITE_TEXT};
use toolmark_base::violation::{Certainty, Severity};
use toolmark_config::units::{bytes, duration, duration_or_off};
use toolmark_schema::FormatChecks;

/// `mode`: whether answers are changed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum PolicyMode {
    /// Judge, repair, block.
    #[default]
    Enforce,
    /// Judge and record; change nothing.
    Observe,
}

/// `[tools] inject`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Inject {
    /// The policy's tools are added to the request's; of two with one name the policy's wins.
    #[default]
    Merge,
    /// The policy's tools replace the request's.
    Replace,
    /// The request's tools stay as they are.
    Off,
}

/// `[tools] undeclared`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Undeclared {
    /// Tools that only the request declares are allowed like those of the files.
    #[default]
    Allow,
    /// Such tools are dropped from the request; calling one is `undeclared_tool`.
    Reject,
}

/// `[calls] on_exhausted`: the answer after failed repairs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OnExhausted {
    /// A final assistant message in plain words.
    #[default]
    Explain,
    /// HTTP 422.
    Error,
}

/// `[calls] on_blocked_json`: the place of the message if JSON was asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OnBlockedJson {
    /// In the `refusal`, so that JSON parsers aren't given text.
    #[default]
    Refusal,
    /// HTTP 422; in a stream, an error event.
    Error,
    /// In the content, as if no JSON was asked for.
    Content,
}

/// `[calls] promote_textual`: conversion of calls written as text to real ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PromoteTextual {
    /// No conversion.
    Off,
    /// Only calls of known tools with valid arguments, outside code fences.
    Exact,
    /// All calls: they are judged like any other call, and repaired if they are invalid.
    #[default]
    On,
}

impl<'de> Deserialize<'de> for PromoteTextual {
    /// `"off"`, `"exact"` or `"on"`. Older policies have booleans, where `true` means `"exact"`.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PromoteTextualVisitor;
        impl serde::de::Visitor<'_> for PromoteTextualVisitor {
            type Value = PromoteTextual;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("\"off\", \"exact\" or \"on\"")
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
                Ok(if value { PromoteTextual::Exact } else { PromoteTextual::Off })
            }

            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
                match value {
                    "off" => Ok(PromoteTextual::Off),
                    "exact" => Ok(PromoteTextual::Exact),
                    "on" => Ok(PromoteTextual::On),
                    other => Err(E::custom(format!("`{other}` is none of \"off\", \"exact\" and \"on\""))),
                }
            }
        }
        deserializer.deserialize_any(PromoteTextualVisitor)
    }
}

/// One of `[calls] corrections`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// Trailing commas, code fences and Python literals are corrected.
    Syntax,
    /// Case, separators and known prefixes of tool names are corrected.
    Name,
    /// `"3"` becomes 3 if the schema is unambiguous.
    Types,
    /// A `null` for an optional parameter is dropped.
    NullOptional,
    /// One unknown parameter is renamed to the one missing required parameter if it is similar.
    Parameters,
}

/// `[results] stamp`: form of the stamps.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum StampForm {
    /// Members in an object, one line before other results.
    #[default]
    Auto,
    /// Results that aren't objects are wrapped in one.
    Json,
    /// No stamps, so nothing can be cited.
    Off,
}

/// `[stream] hold`: text that a stream holds back.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Only text that a check needs.
    #[default]
    Claims,
    /// The whole answer, until it is judged.
    All,
}

/// A complete policy, with defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Mode: enforce or observe.
    pub mode: PolicyMode,
    /// Tool files, and their use.
    pub tools: Tools,
    /// Instructions to the model.
    pub protocol: Protocol,
    /// Judgement and repair of calls.
    pub calls: CallsPolicy,
    /// Results and their stamps.
    pub results: Results,
    /// Holding back of streamed text.
    pub stream: Stream,
    /// Settings for the Responses API.
    pub responses: ResponsesPolicy,
    /// Citations in answers.
    pub citations: Citations,
    /// Loop control.
    pub loops: LoopsPolicy,
    /// Phrase rules: claims that require a tool's success.
    pub claims: Vec<ClaimRule>,
    /// State rules, checked against the outside world.
    pub state: Vec<state_rules::StateRule>,
    /// Severities by code, as written; [`toolmark_base::violation::Checks`] is the full table.
    pub checks: BTreeMap<String, CheckSetting>,
}

/// A line of `[checks]`: a severity, or the certainty from which a claim is blocked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CheckSetting {
    /// `"warn"`
    Severity(Severity),
    /// `{ block = "certain" }`: `block` from this certainty on, `warn` below it.
    Block(Certainty),
}

impl<'de> Deserialize<'de> for CheckSetting {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CheckVisitor)
    }
}

struct CheckVisitor;

impl<'de> serde::de::Visitor<'de> for CheckVisitor {
    type Value = CheckSetting;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a severity (`off`, `info`, `warn`, `block`), or { block = \"certain\" } or { block = \"likely\" }")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<CheckSetting, E> {
        Severity::deserialize(serde::de::value::StrDeserializer::new(word)).map(CheckSetting::Severity)
    }

    fn visit_map<M: serde::de::MapAccess<'de>>(self, map: M) -> Result<CheckSetting, M::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct BlockFrom {
            block: Certainty,
        }
        BlockFrom::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(|table| CheckSetting::Block(table.block))
    }
}

impl Policy {
    /// Instructions to the model about tools, if any, as `protocol.rs` words them.
    pub fn protocol_text(&self) -> Option<String> {
        let Protocol { inject, announce, text } = &self.protocol;
        let told = inject.unwrap_or(self.citations.require || text.is_some());
        // Without stamps there is nothing to cite; the policy's own text may be about something else.
        let built_in = || Some(CITE_TEXT).filter(|_| self.results.stamp != StampForm::Off);
        let cite = if told { text.as_deref().or_else(built_in) } else { None };
        let parts = [announce.then_some(ANNOUNCE_TEXT), cite].into_iter().flatten().collect::<Vec<_>>();
        Some(parts.join(" ")).filter(|text| !text.is_empty())
    }
}

/// `[tools]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tools {
    /// Combination of the files' tools with the request's.
    pub inject: Inject,
    /// Globs of tool files, relative to the policy file.
    pub files: Vec<String>,
    /// Treatment of tools that only the request declares.
    pub undeclared: Undeclared,
    /// Tool names that every exchange's registry must contain.
    pub expect: Vec<String>,
    /// Names of tools that deliver the model's answer, if they have a text parameter for it.
    pub answers: Vec<String>,
}

impl Default for Tools {
    fn default() -> Self {
        let answers = [
            "final_answer",
            "final_result",
            "final_response",
            "submit",
            "submit_answer",
            "submit_final_answer",
            "finish",
            "respond_to_user",
            "give_final_answer",
            "attempt_completion",
            "mark_task_successful",
        ];
        Self {
            inject: Inject::default(),
            files: Vec::new(),
            undeclared: Undeclared::default(),
            expect: Vec::new(),
            answers: answers.map(String::from).into(),
        }
    }
}

/// `[protocol]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Protocol {
    /// Tells the model to cite; `None`: only if citations are required or `text` is set.
    pub inject: Option<bool>,
    /// Tells the model to announce its calls.
    pub announce: bool,
    /// Text about citing in place of the built-in one.
    pub text: Option<String>,
}

/// `[calls]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallsPolicy {
    /// Repairs of one exchange, calls and text together; 0 to 10.
    pub max_repairs: u32,
    /// Upstream requests of one exchange, in total; 1 to 50.
    pub max_attempts: u32,
    /// Time from the first rejection after which no further attempt is started.
    #[serde(with = "duration")]
    pub repair_deadline: Duration,
    /// Answer to the application when repairs fail.
    pub on_exhausted: OnExhausted,
    /// Place of a blocked answer's message if JSON was asked for.
    pub on_blocked_json: OnBlockedJson,
    /// Highest number of calls in one turn of one choice.
    pub max_per_turn: u32,
    /// Checks a schema's `format`.
    pub formats: bool,
    /// Corrections that are made without asking the model.
    pub corrections: Vec<Correction>,
    /// Conversion of calls written as text to real ones.
    pub promote_textual: PromoteTextual,
    /// Regular expressions of placeholder values in arguments.
    pub placeholders: Vec<String>,
    /// Length of a string argument in characters above which it is suspicious.
    pub long_argument: u32,
}

impl CallsPolicy {
    /// Treatment of the keyword `format` in schemas.
    pub const fn format_checks(&self) -> FormatChecks {
        if self.formats { FormatChecks::Assert } else { FormatChecks::Ignore }
    }
}

impl Default for CallsPolicy {
    fn default() -> Self {
        Self {
            max_repairs: 2,
            max_attempts: 6,
            repair_deadline: Duration::from_secs(30),
            on_exhausted: OnExhausted::Explain,
            on_blocked_json: OnBlockedJson::Refusal,
            max_per_turn: 128,
            formats: true,
            corrections: vec![Correction::NullOptional],
            promote_textual: PromoteTextual::On,
            placeholders: ["^<.*>$", r"^\[.*\]$", "^(TODO|FIXME)$", r"^example\.com$", r"^127\.0\.0\.1$"].map(String::from).into(),
            long_argument: 10_000,
        }
    }
}

/// `[results]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Results {
    /// Form of the stamps.
    pub stamp: StampForm,
    /// Time after its call in which an execution may be cited; `None`: unlimited.
    #[serde(with = "duration_or_off")]
    pub window: Option<Duration>,
    /// Size in bytes above which a result is `large_result`.
    #[serde(with = "bytes")]
    pub large: u64,
    /// Regular expressions of results that are errors.
    pub error_patterns: Vec<String>,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            stamp: StampForm::Auto,
            window: None,
            large: 100 << 10,
            error_patterns: [r"^(?i)error\b", "^Traceback "].map(String::from).into(),
        }
    }
}

/// `[stream]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Text that a stream holds back.
    pub hold: Hold,
}

/// `[responses] stateful`: treatment of conversation parts that aren't in the request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Stateful {
    /// Stores what is needed of them, and reports what isn't known.
    #[default]
    Track,
    /// Prevents the upstream from storing anything; refuses requests that depend on it.
    Stateless,
    /// Refuses requests that refer to them.
    Refuse,
}

/// `[responses]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsesPolicy {
    /// Treatment of conversations that the upstream stores.
    pub stateful: Stateful,
}

/// `[citations]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Citations {
    /// Shows verified citations in prose to the application.
    pub show: bool,
    /// Requires an answer after results to cite one of them.
    pub require: bool,
    /// Additional regular expressions of citations, with a group `id`.
    pub extra_patterns: Vec<String>,
}

/// `[[claims]] scope`: period in which one of the tools must have succeeded.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ClaimScope {
    /// The whole conversation.
    #[default]
    Conversation,
    /// The turn since the last user message.
    Turn,
}

/// `[[claims]]`: a phrase that is allowed only if one of some tools succeeded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRule {
    /// Name of the rule in reports.
    pub name: String,
    /// Regular expression of the phrase, matched within one line.
    pub pattern: String,
    /// Tools of which one must have succeeded.
    pub requires: Vec<String>,
    /// Period in which it must have succeeded.
    #[serde(default)]
    pub scope: ClaimScope,
    /// Message to the model.
    #[serde(default)]
    pub message: String,
}
