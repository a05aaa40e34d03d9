//! A policy compiled for judging: ranges checked, regular expressions compiled, the severity of every code set.
//!
//! Pure. [`CompiledPolicy`] are made only by [`super::load::PolicySource::load`].

use std::{collections::HashSet, ops::RangeInclusive, path::PathBuf, time::Duration};

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::{CallRate, CheckSetting, ClaimScope, Hold, Identical, LoopsPolicy, Policy, PolicyMode, StampForm, Undeclared};
pub use crate::tool_files::PolicyTool;
use crate::{
    completeness::PolicyText,
    state_rules::{self, CompiledState},
    tool_files::ToolFiles,
};
use toolmark_base::violation::{Checks, Code, Severity};
use toolmark_config::{
    error::{ConfigError, list, maybe},
    layers::Layers,
};

/// A compiled policy.
#[derive(Clone, Debug)]
pub struct CompiledPolicy {
    /// The policy as written, defaults filled in.
    pub policy: Policy,
    /// Severities of all codes.
    pub checks: Checks,
    /// `[calls] placeholders`, case-insensitive.
    pub placeholders: RegexSet,
    /// `[results] error_patterns`.
    pub error_patterns: RegexSet,
    /// `[citations] extra_patterns`; each has a group `id`.
    pub extra_patterns: Vec<Regex>,
    /// `[[claims]]`.
    pub claims: Vec<CompiledClaim>,
    /// `[[state]]`.
    pub state: Vec<CompiledState>,
    /// The tools of `[tools] files`, in the order of their files.
    pub tools: Vec<PolicyTool>,
    /// BLAKE3 digest of the policy and its tool files, in hex.
    pub digest: Box<str>,
    /// Description of its source, for messages.
    pub source: Box<str>,
    /// Notices for the user at start.
    pub notices: Vec<String>,
    watched: Vec<PathBuf>,
    /// Content of its file, unless it is built in.
    pub(super) form: Option<PolicyText>,
}

/// One of `[[claims]]`, compiled.
#[derive(Clone, Debug)]
pub struct CompiledClaim {
    /// Name of the rule in reports.
    pub name: Box<str>,
    /// The phrase; `^` and `$` match at line ends, `.` doesn't match them.
    pub regex: Regex,
    /// Tools of which one must have succeeded.
    pub requires: Vec<Box<str>>,
    /// It must have succeeded since the last user message; else anywhere in the conversation.
    pub turn: bool,
    /// Message to the model; never empty.
    pub message: Box<str>,
}

impl CompiledPolicy {
    /// Returns whether the whole answer must be held until it is judged.
    #[inline]
    pub fn hold_all(&self) -> bool {
        self.policy.stream.hold == Hold::All || self.policy.citations.require || !self.state.is_empty()
    }

    /// Files and directories of this policy, for [`super::watch`]; empty if it is built in.
    pub fn watched(&self) -> &[PathBuf] {
        &self.watched
    }

    pub(super) fn compile(
        layers: &Layers,
        policy: Policy,
        files: ToolFiles,
        digest: String,
        source: String,
        watched: Vec<PathBuf>,
    ) -> Result<Self, ConfigError> {
        ranges(layers, &policy)?;
        words(layers, &policy)?;
        let checks = checks(layers, &policy)?;
        let claims = claims(layers, &policy)?;
        let state = state_rules::compile(layers, &policy.state)?;
        let extra_patterns = patterns(layers, "citations.extra_patterns", &policy.citations.extra_patterns)?;
        for (index, pattern) in extra_patterns.iter().enumerate() {
            if !pattern.capture_names().flatten().any(|name| name == "id") {
                let message = format!("`{pattern}` has no group `id`: mark the id, as in 'ref (?<id>[a-z_]+_[0-9]+)'");
                return Err(layers.fault(&format!("citations.extra_patterns.{index}"), message));
            }
        }
        let notices = notices(&policy, &files.tools);
        Ok(Self {
            placeholders: set(layers, "calls.placeholders", &policy.calls.placeholders, CaseSensitivity::Ignore)?,
            error_patterns: set(layers, "results.error_patterns", &policy.results.error_patterns, CaseSensitivity::Regard)?,
            policy,
            checks,
            extra_patterns,
            claims,
            state,
            tools: files.tools,
            digest: digest.into(),
            source: source.into(),
            notices,
            watched,
            form: None,
        })
    }
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum CaseSensitivity {
    Ignore,
    Regard,
}

fn ranges(layers: &Layers, policy: &Policy) -> Result<(), ConfigError> {
    let calls = &policy.calls;
    for (key, value, range) in [
        ("calls.max_repairs", u64::from(calls.max_repairs), 0..=10),
        ("calls.max_attempts", u64::from(calls.max_attempts), 1..=50),
        ("calls.max_per_turn", u64::from(calls.max_per_turn), 1..=10_000),
        ("calls.long_argument", u64::from(calls.long_argument), 1..=u64::from(u32::MAX)),
        ("results.large", policy.results.large, 1..=(1 << 40)),
    ] {
        count(layers, key, value, range)?;
    }
    for (key, value, most) in [
        ("calls.repair_deadline", calls.repair_deadline, HOUR),
        ("results.window", policy.results.window.unwrap_or(HOUR), 100 * 365 * 24 * HOUR),
    ] {
        span(layers, key, value, most)?;
    }
    loops(layers, &policy.loops)
}

fn loops(layers: &Layers, loops: &LoopsPolicy) -> Result<(), ConfigError> {
    let rate = |key: &str, rate: &CallRate| {
        count(layers, &format!("{key}.calls"), u64::from(rate.calls), COUNT)?;
        let window = if rate.calls == 0 { Duration::from_secs(1) } else { rate.window };
        span(layers, &format!("{key}.window"), window, HOUR)
    };
    count(layers, "loops.consecutive_failures", u64::from(loops.consecutive_failures), COUNT)?;
    let identical = |key: &str, own: &Identical| {
        count(layers, key, u64::from(own.calls.max(own.in_a_row)), COUNT)?;
        span(layers, &format!("{key}.within"), own.within, HOUR)
    };
    identical("loops.identical_calls", &loops.identical_calls)?;
    rate("loops.same_tool", &loops.same_tool)?;
    rate("loops.all_tools", &loops.all_tools)?;
    span(layers, "loops.cooldown", loops.cooldown, 24 * HOUR)?;
    for (name, own) in &loops.tools {
        let key = |member: &str| format!("loops.tools.{name}.{member}");
        count(layers, &key("consecutive_failures"), own.consecutive_failures.map_or(0, u64::from), COUNT)?;
        identical(&key("identical_calls"), &own.identical_calls.unwrap_or(loops.identical_calls))?;
        rate(&key("same_tool"), &own.same_tool.unwrap_or(loops.same_tool))?;
        span(layers, &key("cooldown"), own.cooldown.unwrap_or(loops.cooldown), 24 * HOUR)?;
    }
    Ok(())
}

fn count(layers: &Layers, key: &str, value: u64, range: RangeInclusive<u64>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(layers.fault(key, format!("{value} is out of range: {} to {}", range.start(), range.end())))
}

fn span(layers: &Layers, key: &str, value: Duration, most: Duration) -> Result<(), ConfigError> {
    if !value.is_zero() && value <= most {
        return Ok(());
    }
    let (value, most) = (humantime::format_duration(value), humantime::format_duration(most));
    Err(layers.fault(key, format!("{value} is out of range: more than 0, at most {most}")))
}

fn words(layers: &Layers, policy: &Policy) -> Result<(), ConfigError> {
    if let Some(text) = &policy.protocol.text {
        if text.trim().is_empty() {
            return Err(layers.fault("protocol.text", "empty: leave it out for the built-in text, or write `inject = false` for none"));
        }
        if text.len() > PROTOCOL_BYTES_MAX {
            return Err(layers.fault("protocol.text", format!("{} bytes long, at most {PROTOCOL_BYTES_MAX} are taken", text.len())));
        }
    }
    for (index, name) in policy.tools.expect.iter().enumerate() {
        if name.trim().is_empty() {
            return Err(layers.fault(&format!("tools.expect.{index}"), "empty: write the name of a tool"));
        }
    }
    Ok(())
}

/// Returns whether the code belongs to claims in answers, which have a certainty.
fn is_claim(code: Code) -> bool {
    matches!(
        code,
        Code::ClaimMismatch
            | Code::UnsupportedAction
            | Code::FailedExecution
            | Code::UngroundedValue
            | Code::FabricatedUrl
            | Code::CountMismatch
            | Code::FalseAbsence
    )
}

fn checks(layers: &Layers, policy: &Policy) -> Result<Checks, ConfigError> {
    let known: Vec<&str> = Code::ALL.iter().copied().filter(|code| !is_internal(*code)).map(Code::as_str).collect();
    let mut checks = Checks::default();
    for (name, check) in &policy.checks {
        let fault = |message| Err(layers.fault(&format!("checks.{name}"), message));
        checks = match Code::parse(name) {
            None => return fault(format!("unknown code{}; known: {}", maybe(name, &known), list(&known))),
            Some(code) if is_internal(code) => return fault("always recorded at info, can't be set: remove it".into()),
            Some(code) => match *check {
                CheckSetting::Severity(severity) => checks.with(code, severity),
                CheckSetting::Block(from) if is_claim(code) => checks.with_block(code, from),
                CheckSetting::Block(_) => return fault("has no certainty, only what claims say has: write a severity".into()),
            },
        };
    }
    for code in UNPASSABLE {
        if policy.mode == PolicyMode::Enforce && checks.severity(code) != Severity::Block {
            checks = checks.with(code, Severity::Block);
        }
    }
    // `require` needs this check; a milder severity is kept as written.
    if policy.citations.require && checks.severity(Code::MissingCitation) == Severity::Off {
        checks = checks.with(Code::MissingCitation, Severity::Block);
    }
    Ok(checks)
}

/// Codes of calls that can't be passed on, whatever a policy says: there is no tool, or nothing that it could be called with.
const UNPASSABLE: [Code; 3] = [Code::UnknownTool, Code::MalformedArguments, Code::TruncatedCall];

/// Returns whether toolmark records this code about its own actions; policies can't set it.
pub fn is_internal(code: Code) -> bool {
    matches!(
        code,
        Code::CorrectedSyntax
            | Code::CorrectedName
            | Code::CorrectedTypes
            | Code::CorrectedNullOptional
            | Code::CorrectedParameters
            | Code::CorrectedTextual
            | Code::NotJudged
    )
}

fn claims(layers: &Layers, policy: &Policy) -> Result<Vec<CompiledClaim>, ConfigError> {
    let mut names = HashSet::new();
    let mut claims = Vec::new();
    for (index, rule) in policy.claims.iter().enumerate() {
        let at = |key: &str| format!("claims.{index}.{key}");
        if rule.name.trim().is_empty() {
            return Err(layers.fault(&at("name"), "empty: reports name the rule by it"));
        }
        if !names.insert(rule.name.as_str()) {
            return Err(layers.fault(&at("name"), format!("two rules are named `{}`: names must differ", rule.name)));
        }
        if rule.requires.is_empty() || rule.requires.iter().any(|tool| tool.trim().is_empty()) {
            return Err(layers.fault(&at("requires"), "name the tools of which one must have succeeded, as in [\"get_all_players\"]"));
        }
        let regex = pattern(layers, &at("pattern"), &rule.pattern, CaseSensitivity::Regard)?;
        if regex.is_match("") {
            let message = format!("`{}` matches empty text, so it would match every answer: make it narrower", rule.pattern);
            return Err(layers.fault(&at("pattern"), message));
        }
        let message = match rule.message.trim() {
            "" => format!("`{}` may be said only after one of these tools succeeded: {}", rule.name, rule.requires.join(", ")),
            message => message.to_owned(),
        };
        let requires = rule.requires.iter().map(|tool| tool.as_str().into()).collect();
        claims.push(CompiledClaim {
            name: rule.name.as_str().into(),
            regex,
            requires,
            turn: rule.scope == ClaimScope::Turn,
            message: message.into(),
        });
    }
    Ok(claims)
}

fn patterns(layers: &Layers, key: &str, texts: &[String]) -> Result<Vec<Regex>, ConfigError> {
    if texts.len() > PATTERNS_MAX {
        return Err(layers.fault(key, format!("{} patterns, at most {PATTERNS_MAX} are taken", texts.len())));
    }
    texts.iter().enumerate().map(|(index, text)| pattern(layers, &format!("{key}.{index}"), text, CaseSensitivity::Regard)).collect()
}

fn pattern(layers: &Layers, key: &str, text: &str, case: CaseSensitivity) -> Result<Regex, ConfigError> {
    let built =
        RegexBuilder::new(text).case_insensitive(case == CaseSensitivity::Ignore).multi_line(true).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| {
        let why = match &error {
            regex::Error::CompiledTooBig(_) => "too big when compiled: write smaller repetitions".to_owned(),
            error => error.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        };
        layers.fault(key, format!("`{text}` is no regular expression that is taken: {why}"))
    })
}

/// Placeholders and errors are matched as whole texts: here `^` and `$` match only at the text's ends.
fn set(layers: &Layers, key: &str, texts: &[String], case: CaseSensitivity) -> Result<RegexSet, ConfigError> {
    patterns(layers, key, texts)?;
    RegexSetBuilder::new(texts)
        .case_insensitive(case == CaseSensitivity::Ignore)
        .size_limit(PATTERNS_MAX * REGEX_BYTES_MAX)
        .build()
        .map_err(|error| layers.fault(key, error.to_string()))
}

fn notices(policy: &Policy, tools: &[PolicyTool]) -> Vec<String> {
    let mut notices = Vec::new();
    let mut say = |when: bool, text: &str| {
        if when {
            notices.push(text.to_owned());
        }
    };
    let require = policy.citations.require;
    say(require && policy.results.stamp == StampForm::Off, "citations.require is true, but results.stamp is off: there is nothing to cite");
    let protocol = &policy.protocol;
    say(
        require && protocol.inject == Some(false),
        "citations.require is true, but protocol.inject is false: the model must learn from your own prompt that it has to cite",
    );
    say(protocol.text.is_some() && protocol.inject == Some(false), "protocol.text is not used: protocol.inject is false");
    say(
        policy.tools.undeclared == Undeclared::Reject && tools.is_empty(),
        "tools.undeclared is reject and no tool file has a tool: every tool of every request is left out",
    );
    for code in UNPASSABLE {
        let milder = policy.checks.get(code.as_str()).is_some_and(|check| !matches!(check, CheckSetting::Severity(Severity::Block)));
        let text = format!("checks.{code} is below block, and such a call is blocked all the same: it can't be passed on");
        say(milder && policy.mode == PolicyMode::Enforce, &text);
    }
    say(policy.mode == PolicyMode::Observe, "mode is observe: exchanges are judged and nothing is changed or blocked");
    notices
}

const HOUR: Duration = Duration::from_secs(3600);
const COUNT: RangeInclusive<u64> = 0..=1_000_000;
const PROTOCOL_BYTES_MAX: usize = 16 << 10;
const PATTERNS_MAX: usize = 200;
const REGEX_BYTES_MAX: usize = 1 << 20;
