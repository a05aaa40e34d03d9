//! An exchange in one row: for lists, the live feed and `toolmark tail`, with the filter that all of them share. Pure.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    config::error::{list, maybe},
    ledger::record::{CallOutcome, ExchangeRecord},
    telemetry::stats::{aggregate::ending, counters::CounterField},
    violation::{Code, Severity, Verdict},
};

/// Names that a filter may give in `ended`: how an exchange ended.
pub const ENDINGS: [&str; 6] = ["pass", "warn", "repaired", "blocked", "failed", "abandoned"];
/// Names of a filter's parts.
pub const FILTERS: [&str; 6] = ["verdict", "code", "tool", "model", "session", "text"];

/// An exchange in one row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExchangeSummary {
    /// Id of the exchange, which the caller got as `toolmark-exchange`.
    pub id: Uuid,
    /// End of the exchange, in Unix milliseconds.
    pub at_ms: u64,
    /// Name of the API that was called.
    pub api: String,
    /// The caller asked for a stream.
    pub stream: bool,
    /// The answer was not changed.
    #[serde(default)]
    pub observed: bool,
    /// The caller's name, if `[[clients]]` names it.
    pub client: Option<String>,
    /// The session, if the caller named one.
    pub session: Option<String>,
    /// The model asked for.
    pub model: String,
    /// HTTP status sent to the caller; `None`: the caller disconnected before.
    pub status: Option<u16>,
    /// Verdict on the exchange.
    pub verdict: Verdict,
    /// The ending: one of [`ENDINGS`].
    pub ended: String,
    /// Number of repairs.
    pub repairs: u32,
    /// Number of upstream requests.
    pub attempts: usize,
    /// The model's calls, in all attempts.
    pub calls: Vec<CallSummary>,
    /// Codes of its violations, without duplicates.
    #[serde(default)]
    pub codes: Vec<CodeSummary>,
    /// Number of executions that it was the first to show.
    #[serde(default)]
    pub executions: usize,
    /// Tokens of the prompts and answers of all attempts; `None` if no upstream reported any.
    pub tokens: Option<TokenSummary>,
    /// Time from the request's head to the end of the answer, in microseconds.
    pub total_us: u64,
    /// toolmark's own part of it.
    pub overhead_us: u64,
}

/// A call in a row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallSummary {
    /// The tool, as the model named it.
    pub tool: String,
    /// Outcome of the call.
    pub outcome: CallOutcome,
}

/// A code in a row, with the highest severity that it had.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CodeSummary {
    /// The code.
    pub code: Code,
    /// The severity.
    pub severity: Severity,
}

/// Tokens of an exchange.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct TokenSummary {
    /// Tokens of the prompts.
    pub input: u64,
    /// Tokens of the answers.
    pub output: u64,
}

impl ExchangeSummary {
    /// The row of this record.
    pub fn of(record: &ExchangeRecord) -> Self {
        let mut codes: Vec<CodeSummary> = Vec::new();
        for violation in &record.violations {
            match codes.iter_mut().find(|own| own.code == violation.code) {
                Some(own) => own.severity = own.severity.max(violation.severity),
                None => codes.push(CodeSummary { code: violation.code, severity: violation.severity }),
            }
        }
        let mut tokens: Option<TokenSummary> = None;
        for spent in record.attempts.iter().filter_map(|attempt| attempt.tokens) {
            let sum = tokens.get_or_insert_default();
            (sum.input, sum.output) = (sum.input.saturating_add(spent.input), sum.output.saturating_add(spent.output));
        }
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            id: record.id,
            at_ms: record.ended_ms(),
            api: record.api.as_str().to_owned(),
            stream: record.stream,
            observed: record.observed,
            client: text(&record.client),
            session: text(&record.session),
            model: record.model.to_string(),
            status: record.status,
            verdict: record.verdict,
            ended: ended(record).to_owned(),
            repairs: record.repairs,
            attempts: record.attempts.len(),
            calls: record.calls.iter().map(|call| CallSummary { tool: call.tool.to_string(), outcome: call.outcome }).collect(),
            codes,
            executions: record.executions.len(),
            tokens,
            total_us: record.total_us,
            overhead_us: record.overhead_us(),
        }
    }

    /// Tools that the exchange has to do with, as the row names them.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| call.tool.as_str())
    }
}

/// How an exchange ended: one of [`ENDINGS`].
pub fn ended(record: &ExchangeRecord) -> &'static str {
    match ending(record) {
        CounterField::Warn => "warn",
        CounterField::Repaired => "repaired",
        CounterField::Blocked => "blocked",
        CounterField::Failed => "failed",
        CounterField::Abandoned => "abandoned",
        _ => "pass",
    }
}

/// Filter of exchanges. Empty parts match everything; all parts must match.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ExchangeFilter {
    /// The exchange's ending: one of [`ENDINGS`].
    pub verdict: Option<String>,
    /// A code that it has.
    pub code: Option<Code>,
    /// A tool that was called.
    pub tool: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// Words that stand in the row; upper and lower case are the same.
    pub text: Option<String>,
}

impl ExchangeFilter {
    /// Reads a filter as people write it: `verdict=blocked tool=get_weather paris`.
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn parse(written: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        let mut words = Vec::new();
        for part in written.split_whitespace() {
            match part.split_once('=') {
                Some((name, value)) if !value.is_empty() => filter.set(name, value)?,
                _ => words.push(part),
            }
        }
        if !words.is_empty() {
            filter.set("text", &words.join(" "))?;
        }
        Ok(filter)
    }

    /// Sets one part.
    ///
    /// # Errors
    /// A message that says what is wrong with the name or the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let own = || Some(value.to_owned());
        match name {
            "verdict" if !ENDINGS.contains(&value) => {
                return Err(format!("`{value}` is no verdict{}: {}", maybe(value, &ENDINGS), list(&ENDINGS)));
            }
            "verdict" => self.verdict = own(),
            "code" => {
                let known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
                self.code = Some(Code::parse(value).ok_or_else(|| format!("`{value}` is no code of a violation{}", maybe(value, &known)))?);
            }
            "tool" => self.tool = own(),
            "model" => self.model = own(),
            "session" => self.session = own(),
            "text" => self.text = Some(value.to_lowercase()),
            _ => return Err(format!("nothing can be filtered by `{name}`{}: {}", maybe(name, &FILTERS), list(&FILTERS))),
        }
        Ok(())
    }

    /// Texts that stand word for word in the stored record of every exchange that matches.
    pub fn texts(&self) -> Vec<&str> {
        let names = [&self.model, &self.session, &self.tool].into_iter().filter_map(|part| part.as_deref());
        // The endings that are verdicts are stored as such.
        let verdict = self.verdict.as_deref().filter(|ended| !matches!(*ended, "failed" | "abandoned"));
        names.chain(self.code.map(Code::as_str)).chain(verdict).collect()
    }

    /// True if the row matches all parts but the text.
    pub fn matches_but_text(&self, row: &ExchangeSummary) -> bool {
        let is = |part: &Option<String>, own: Option<&str>| part.as_deref().is_none_or(|part| own == Some(part));
        is(&self.verdict, Some(&row.ended))
            && is(&self.model, Some(&row.model))
            && is(&self.session, row.session.as_deref())
            && self.tool.as_deref().is_none_or(|tool| row.tools().any(|own| own == tool))
            && self.code.is_none_or(|code| row.codes.iter().any(|own| own.code == code))
    }

    /// True if the filter's text stands in the row, or there is none.
    pub fn matches_text(&self, row: &ExchangeSummary) -> bool {
        let Some(text) = &self.text else { return true };
        let holds = |own: &str| own.to_lowercase().contains(text.as_str());
        holds(&row.id.to_string())
            || holds(&row.model)
            || [&row.session, &row.client].into_iter().flatten().any(|own| holds(own))
            || row.tools().any(holds)
            || row.codes.iter().any(|own| holds(own.code.as_str()))
    }

    /// True if the row matches.
    pub fn matches(&self, row: &ExchangeSummary) -> bool {
        self.matches_but_text(row) && self.matches_text(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::fixtures::RecordGenerator;

    #[test]
    fn a_filter_is_read_as_it_is_written() {
        let filter = ExchangeFilter::parse("verdict=blocked  code=unknown_tool New York").unwrap();
        let whole = ExchangeFilter {
            verdict: Some("blocked".into()),
            code: Some(Code::UnknownTool),
            text: Some("new york".into()),
            ..ExchangeFilter::default()
        };
        assert_eq!(filter, whole);
        assert_eq!(ExchangeFilter::parse("a= x").unwrap().text.as_deref(), Some("a= x"));
        for (written, words) in [
            ("verdict=block", "did you mean `blocked`?"),
            ("code=unknown_tol", "did you mean `unknown_tool`?"),
            ("modl=x", "did you mean `model`?"),
        ] {
            let refused = ExchangeFilter::parse(written).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn rows_are_filtered_by_all_parts() {
        // Repaired, `unknown_tool`, calls `get_weather`.
        let row = ExchangeSummary::of(&RecordGenerator::record(12));
        for (written, matches) in [
            ("", true),
            ("verdict=repaired", true),
            ("verdict=pass", false),
            ("code=unknown_tool", true),
            ("code=wrong_type", false),
            ("tool=get_weather model=gpt-4o session=session-0", true),
            ("tool=add_task", false),
            ("session=session-1", false),
            ("GPT-4", true),
            ("unknown_tool", true),
            ("paris", false),
            ("verdict=repaired paris", false),
        ] {
            assert_eq!(ExchangeFilter::parse(written).unwrap().matches(&row), matches, "{written}");
        }
        let read: ExchangeSummary = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!(read, row);
    }
}
