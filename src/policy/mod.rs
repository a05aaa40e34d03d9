//! The policy: what is checked and how severely, as its TOML says it. CONTRACT.md, "Policy".
//!
//! Values only; reading files and explaining their faults is [`load`]'s.

mod form;
pub mod load;
mod loops;
pub mod probe;
mod responses;
pub mod rules;
pub mod state;
mod tools;
pub mod watch;

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

pub use self::{
    loops::{Identical, Loops, OnLimit, Rate, ToolLimits, ToolLoops},
    responses::{Responses, Stateful},
};
use crate::judge::{
    protocol::{CITE_TEXT, protocol_text},
    violation::{Certainty, Severity},
};

/// `mode`: is anything changed at all?
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
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
    /// The policy's tools stand instead of the request's.
    Replace,
    /// The request's tools stay as they are.
    Off,
}

/// `[tools] undeclared`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Undeclared {
    /// A tool that only the request brings is as good as one of the files'.
    #[default]
    Allow,
    /// It is left out of the request; calling it is `undeclared_tool`.
    Reject,
}

/// `[calls] on_exhausted`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OnExhausted {
    /// A final assistant message in plain words.
    #[default]
    Explain,
    /// HTTP 422.
    Error,
}

/// `[calls] on_blocked_json`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum OnBlockedJson {
    /// Into the `refusal`, so that no parser chokes.
    #[default]
    Refusal,
    /// HTTP 422, in a stream an error.
    Error,
    /// Into the content, as where no JSON was asked for.
    Content,
}

/// `[calls] promote_textual`: which calls that are written as text are made real ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PromoteTextual {
    /// None.
    Off,
    /// Those of known tools whose arguments fit as they are written, and outside code fences.
    Exact,
    /// All: they are judged like any other call, and repaired where they don't fit.
    #[default]
    On,
}

impl<'de> Deserialize<'de> for PromoteTextual {
    /// `"off"`, `"exact"` or `"on"`. Booleans are how it was written before there were three: `true` is what it was then, `"exact"`.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl serde::de::Visitor<'_> for Words {
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
        deserializer.deserialize_any(Words)
    }
}

/// One of `[calls] corrections`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// Trailing commas, code fences, Python literals.
    Syntax,
    /// Case, separators, a known prefix.
    Name,
    /// `"3"` → 3 where the schema is unambiguous.
    Types,
    /// A `null` for an optional parameter is left out.
    NullOptional,
    /// One unknown parameter close to one missing required one.
    Parameters,
}

/// `[results] stamp`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum StampForm {
    /// Members in an object, one line before anything else.
    #[default]
    Auto,
    /// Wrap what is no object.
    Json,
    /// No stamps, so nothing can be cited.
    Off,
}

/// `[stream] hold`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Text flows; what a check needs is held.
    #[default]
    Claims,
    /// The whole answer is held until it is judged.
    All,
}

/// A whole policy, defaults filled in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Enforce or observe.
    pub mode: Mode,
    /// Which tools there are.
    pub tools: Tools,
    /// The text for the model.
    pub protocol: Protocol,
    /// Calls and their repair.
    pub calls: Calls,
    /// Results and their stamps.
    pub results: Results,
    /// What a stream holds back.
    pub stream: Stream,
    /// The Responses API.
    pub responses: Responses,
    /// Citations in answers.
    pub citations: Citations,
    /// Loop control.
    pub loops: Loops,
    /// Phrase rules.
    pub claims: Vec<ClaimRule>,
    /// Rules checked against the world.
    pub state: Vec<state::StateRule>,
    /// Severities by code, as written; [`crate::judge::violation::Checks`] is the full table.
    pub checks: BTreeMap<String, Check>,
}

/// A line of `[checks]`: a severity, or from which certainty on a claim is blocked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Check {
    /// `"warn"`
    Severity(Severity),
    /// `{ block = "certain" }`: `block` from this certainty on, `warn` below it.
    Block(Certainty),
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CheckVisitor)
    }
}

struct CheckVisitor;

impl<'de> serde::de::Visitor<'de> for CheckVisitor {
    type Value = Check;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a severity (`off`, `info`, `warn`, `block`), or { block = \"certain\" } or { block = \"likely\" }")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Check, E> {
        Severity::deserialize(serde::de::value::StrDeserializer::new(word)).map(Check::Severity)
    }

    fn visit_map<M: serde::de::MapAccess<'de>>(self, map: M) -> Result<Check, M::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Block {
            block: Certainty,
        }
        Block::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(|table| Check::Block(table.block))
    }
}

impl Policy {
    /// What the model is told about tools, if anything: [`crate::judge::protocol`].
    pub fn protocol_text(&self) -> Option<String> {
        let Protocol { inject, announce, text } = &self.protocol;
        let told = inject.unwrap_or(self.citations.require || text.is_some());
        // Without stamps there is nothing to cite; words of the policy's own may be about something else.
        let built_in = || Some(CITE_TEXT).filter(|_| self.results.stamp != StampForm::Off);
        let cite = if told { text.as_deref().or_else(built_in) } else { None };
        protocol_text(cite, *announce)
    }
}

/// `[tools]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tools {
    /// How the files' tools join the request's.
    pub inject: Inject,
    /// Globs of tool files, relative to the policy file.
    pub files: Vec<String>,
    /// What becomes of tools that only the request brings.
    pub undeclared: Undeclared,
    /// Names that must be in every exchange's registry.
    pub expect: Vec<String>,
    /// Names of tools through which answers are given, where they have a text for it.
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
    /// Is the model told to cite? `None`: where citations are required, or a text of the policy's own says how.
    pub inject: Option<bool>,
    /// Is it told to announce its calls?
    pub announce: bool,
    /// Other words about citing.
    pub text: Option<String>,
}

/// `[calls]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calls {
    /// Repairs of one exchange, calls and text together; 0 to 10.
    pub max_repairs: u32,
    /// Upstream requests of one exchange, everything included; 1 to 50.
    pub max_attempts: u32,
    /// After it no further attempt is started; it counts from the first rejection.
    #[serde(with = "duration")]
    pub repair_deadline: Duration,
    /// What the application gets when repair fails.
    pub on_exhausted: OnExhausted,
    /// Where the words of a blocked answer go when JSON was asked for.
    pub on_blocked_json: OnBlockedJson,
    /// Calls in one turn of one choice.
    pub max_per_turn: u32,
    /// Is a schema's `format` asserted?
    pub formats: bool,
    /// What may be changed without asking the model.
    pub corrections: Vec<Correction>,
    /// Which calls that are written as text are made real ones.
    pub promote_textual: PromoteTextual,
    /// Regular expressions of values that stand for a value.
    pub placeholders: Vec<String>,
    /// Characters of one string argument above which it is suspicious.
    pub long_argument: u32,
}

impl Default for Calls {
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
    /// The form of stamps.
    pub stamp: StampForm,
    /// How long after its call an execution may be cited; `None` for ever.
    #[serde(with = "duration_or_off")]
    pub window: Option<Duration>,
    /// Bytes above which a result is `large_result`.
    #[serde(with = "bytes")]
    pub large: u64,
    /// Regular expressions of texts that are errors.
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
    /// What is held back.
    pub hold: Hold,
}

/// `[citations]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Citations {
    /// Does the application get to see verified citations in prose?
    pub show: bool,
    /// Must an answer after results cite one of them?
    pub require: bool,
    /// Further regular expressions with a group `id`.
    pub extra_patterns: Vec<String>,
}

/// `[[claims]] scope`: since when one of the tools must have succeeded.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ClaimScope {
    /// Ever, in this conversation.
    #[default]
    Conversation,
    /// Since the user spoke last.
    Turn,
}

/// `[[claims]]`: what may be said only if one of some tools succeeded in the conversation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRule {
    /// The rule's name in reports.
    pub name: String,
    /// A regular expression, matched within one line.
    pub pattern: String,
    /// One of these must have succeeded.
    pub requires: Vec<String>,
    /// Since when.
    #[serde(default)]
    pub scope: ClaimScope,
    /// What the model is told.
    #[serde(default)]
    pub message: String,
}

/// Durations as `"30s"`, `"10m"`, `"1h"`.
pub mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de::Error};

    /// Reads one.
    ///
    /// # Errors
    /// For what is no duration, saying how one is written.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map_err(|_| D::Error::custom(format!("`{text}` is no duration: write it like \"30s\", \"10m\" or \"1h\"")))
    }
}

/// Durations, or `"off"`.
pub mod duration_or_off {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de::Error};

    /// Reads one.
    ///
    /// # Errors
    /// For what is neither, saying how one is written.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(None);
        }
        let wrong = |_| D::Error::custom(format!("`{text}` is no duration: write it like \"5m\" or \"1h\", or \"off\""));
        humantime::parse_duration(&text).map(Some).map_err(wrong)
    }
}

/// Sizes as `"100KiB"`, `"32MiB"`, or as a number of bytes.
pub mod bytes {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};

    /// Reads one, in bytes.
    ///
    /// # Errors
    /// For what is no size, saying how one is written.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(Size)
    }

    struct Size;

    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a size like \"100KiB\" or \"32MiB\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            let wrong = |_| E::custom(format!("`{text}` is no size: write it like \"100KiB\" or \"32MiB\""));
            text.parse::<bytesize::ByteSize>().map(|size| size.as_u64()).map_err(wrong)
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
            u64::try_from(number).map_err(|_| E::custom(format!("{number} is no size: write it like \"100KiB\"")))
        }
    }
}
