//! The output of `toolmark replay`: verdicts, codes by tool and model, and every difference.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::ReplayCase;
use crate::{cassette::format::RecordedVerdict, replay::rejudge::Difference};

/// Differences that the text lists; JSON and JUnit list all.
const SHOWN_MAX: usize = 40;
const VERDICTS: [&str; 4] = ["pass", "warn", "repaired", "blocked"];

/// Code, tool and model.
type FindingKey = (String, String, String);

/// The collected results.
pub struct ReplayReport {
    names: [String; 2],
    /// Differences that a recording can't decide count as failures.
    pub strict: bool,
    /// All cases are stored, not only the failing ones.
    pub keep_cases: bool,
    /// Notices printed before the results.
    pub notices: Vec<String>,
    /// The stored cases: all of them, or those that fail.
    pub cases: Vec<ReplayCase>,
    exchanges: usize,
    verdicts: BTreeMap<String, [usize; 2]>,
    findings: BTreeMap<FindingKey, [usize; 2]>,
    not_judged: BTreeMap<String, usize>,
    excused: BTreeMap<&'static str, usize>,
    open: usize,
    failures: usize,
}

impl ReplayReport {
    /// An empty report. `names`: names of the two sides that are compared.
    pub fn new(names: [String; 2]) -> Self {
        Self {
            names,
            strict: false,
            keep_cases: false,
            notices: Vec::new(),
            cases: Vec::new(),
            exchanges: 0,
            verdicts: BTreeMap::new(),
            findings: BTreeMap::new(),
            not_judged: BTreeMap::new(),
            excused: BTreeMap::new(),
            open: 0,
            failures: 0,
        }
    }

    /// Adds one case.
    pub fn add(&mut self, case: ReplayCase) {
        self.exchanges += 1;
        let sides = [case.before.as_ref(), case.after.judged().then_some(&case.after.found)];
        for (side, found) in sides.into_iter().enumerate() {
            let Some(found) = found else { continue };
            count(&mut self.verdicts, found.verdict.clone(), side);
            findings(found, &case.model).for_each(|finding| count(&mut self.findings, finding, side));
        }
        self.open += usize::from(case.after.open);
        if let Some(why) = &case.after.not_judged {
            *self.not_judged.entry(why.clone()).or_default() += 1;
        }
        if let Difference::Excused(why) = &case.difference {
            *self.excused.entry(why).or_default() += 1;
        }
        let fails = self.failure(&case).is_some();
        self.failures += usize::from(fails);
        if fails || self.keep_cases {
            self.cases.push(case);
        }
    }

    /// Number of exchanges that make the exit code 1.
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// The reason why a case fails, if it does.
    pub fn failure(&self, case: &ReplayCase) -> Option<String> {
        if let Difference::Differs { verdicts: [before, after], gone, new } = &case.difference {
            let mut text = if before == after { format!("{after} as before") } else { format!("{before} became {after}") };
            let list = |text: &mut String, word: &str, codes: &[String]| {
                if !codes.is_empty() {
                    let _ = write!(text, "; {word} {}", codes.join(", "));
                }
            };
            list(&mut text, "new:", new);
            list(&mut text, "gone:", gone);
            return Some(text);
        }
        (self.strict && case.before.is_none() && case.after.found.verdict == "blocked")
            .then(|| format!("blocked: {}", codes(&case.after.found)))
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for notice in &self.notices {
            let _ = writeln!(out, "{notice}");
        }
        let [before, after] = &self.names;
        let _ = writeln!(out, "{} exchanges, {before} → {after}\n", self.exchanges);
        let _ = writeln!(out, "{:<28}{:>12}{:>12}", "verdict", short(before), short(after));
        for verdict in VERDICTS {
            let [a, b] = self.verdicts.get(verdict).copied().unwrap_or_default();
            let _ = writeln!(out, "{verdict:<28}{a:>12}{b:>12}");
        }
        if !self.findings.is_empty() {
            let _ = writeln!(out, "\n{:<22}{:<24}{:<28}{:>12}{:>12}", "code", "tool", "model", short(before), short(after));
        }
        for ((code, tool, model), [a, b]) in &self.findings {
            let _ = writeln!(out, "{code:<22}{:<24}{:<28}{a:>12}{b:>12}", cut(tool, 22), cut(model, 26));
        }
        for (why, number) in &self.not_judged {
            let _ = writeln!(out, "\nnot judged, or not all of it: {number}, because {why}");
        }
        for (why, number) in &self.excused {
            let _ = writeln!(out, "\nnot compared: {number} that differ, because {why}");
        }
        if self.open > 0 {
            let _ =
                writeln!(out, "\n{} count as blocked where the model would have been asked again: its answer isn't recorded", self.open);
        }
        let failing: Vec<(&ReplayCase, String)> = self.cases.iter().filter_map(|case| Some((case, self.failure(case)?))).collect();
        let left_out: usize = self.excused.values().sum();
        let ending = match (failing.len(), left_out) {
            (0, 0) => "no difference".to_owned(),
            (0, _) => format!("no difference in what was compared; {left_out} of {} exchanges were not", self.exchanges),
            (number, _) => format!("{number} differ"),
        };
        let _ = writeln!(out, "\n{ending}");
        for (case, why) in failing.iter().take(SHOWN_MAX) {
            let _ = writeln!(out, "  {} {} {}: {why}", case.place, case.id, case.model);
        }
        if failing.len() > SHOWN_MAX {
            let _ = writeln!(out, "  and {} more: --json and --junit list all", failing.len() - SHOWN_MAX);
        }
        out
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        let side = |[a, b]: [usize; 2]| json!({ "before": a, "after": b });
        let verdicts: serde_json::Map<String, Value> = VERDICTS
            .iter()
            .map(|verdict| ((*verdict).to_owned(), side(self.verdicts.get(*verdict).copied().unwrap_or_default())))
            .collect();
        let finding = |((code, tool, model), [a, b]): (&FindingKey, &[usize; 2])| json!({ "code": code, "tool": tool, "model": model, "before": a, "after": b });
        let failing = self.cases.iter().filter_map(|case| Some((case, self.failure(case)?)));
        let differences = failing.map(|(case, why)| {
            json!({ "id": case.id, "place": case.place, "model": case.model, "why": why, "before": case.before, "after": case.after.found, "open": case.after.open })
        });
        let report = json!({
            "before": self.names[0],
            "after": self.names[1],
            "exchanges": self.exchanges,
            "verdicts": verdicts,
            "codes": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "not_judged": self.not_judged,
            "not_compared": self.excused,
            "differences": differences.collect::<Vec<_>>(),
            "notices": self.notices,
        });
        format!("{}\n", serde_json::to_string_pretty(&report).unwrap_or_default())
    }

    /// A title that names the two sides that are compared.
    pub fn title(&self) -> String {
        format!("toolmark replay: {} → {}", self.names[0], self.names[1])
    }
}

fn count<K: Ord>(map: &mut BTreeMap<K, [usize; 2]>, key: K, side: usize) {
    if let Some(number) = map.entry(key).or_default().get_mut(side) {
        *number += 1;
    }
}

/// The findings of one exchange, without duplicates.
fn findings<'f>(found: &'f RecordedVerdict, model: &'f str) -> impl Iterator<Item = FindingKey> {
    let of = found.violations.iter().map(|found| (found.code.clone(), found.tool.clone().unwrap_or_default(), model.to_owned()));
    of.collect::<std::collections::BTreeSet<_>>().into_iter()
}

/// The codes of the violations, without duplicates.
pub fn codes(found: &RecordedVerdict) -> String {
    let codes: std::collections::BTreeSet<&str> = found.violations.iter().map(|found| found.code.as_str()).collect();
    codes.into_iter().collect::<Vec<_>>().join(", ")
}

/// The last part of a policy's path.
fn short(name: &str) -> String {
    cut(name.rsplit('/').next().unwrap_or(name), 11)
}

fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars { text.to_owned() } else { text.chars().take(chars.saturating_sub(1)).chain(['…']).collect() }
}
