//! The table of `toolmark doctor`. Pure.

use std::fmt::Write as _;

/// Result of one check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Finding {
    /// It works.
    Well,
    /// It works, and something should be known.
    Note,
    /// It doesn't work.
    Fault,
    /// It wasn't tried: something before it failed.
    Untried,
}

/// One row: what was tried, what was found, what to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    /// Name of the check.
    pub check: String,
    /// The result.
    pub finding: Finding,
    /// Finding of the check.
    pub said: String,
    /// Advice; empty if there is nothing to do.
    pub remedy: String,
}

impl Row {
    /// A row about something that works.
    pub fn well(check: impl Into<String>, said: impl Into<String>) -> Self {
        Self { check: check.into(), finding: Finding::Well, said: said.into(), remedy: String::new() }
    }

    /// A row about something that works, with advice.
    pub fn note(check: impl Into<String>, said: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check: check.into(), finding: Finding::Note, said: said.into(), remedy: remedy.into() }
    }

    /// A row about something that doesn't work.
    pub fn fault(check: impl Into<String>, said: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check: check.into(), finding: Finding::Fault, said: said.into(), remedy: remedy.into() }
    }

    /// A row about something that couldn't be tried.
    pub fn untried(check: impl Into<String>, why: impl Into<String>) -> Self {
        Self { check: check.into(), finding: Finding::Untried, said: why.into(), remedy: String::new() }
    }
}

/// The rows as a table, with what to do below each, and the verdict.
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.check.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for row in rows {
        let sign = match row.finding {
            Finding::Well => "✅",
            Finding::Note => "⚠️ ",
            Finding::Fault => "❌",
            Finding::Untried => "– ",
        };
        let _infallible = writeln!(out, "{sign} {:<width$}  {}", row.check, row.said);
        for line in row.remedy.lines() {
            let _infallible = writeln!(out, "   {:<width$}  → {line}", "");
        }
    }
    let count = |finding| rows.iter().filter(|row| row.finding == finding).count();
    let (faults, notes, untried) = (count(Finding::Fault), count(Finding::Note), count(Finding::Untried));
    let _infallible = match (faults, notes, untried) {
        (0, 0, 0) => writeln!(out, "\nAll is well."),
        (0, notes, 0) => writeln!(out, "\nIt works; {notes} to know of."),
        (0, _, untried) => writeln!(out, "\nWhat was tried works; {untried} marked – not tried, as the lines above say."),
        (faults, ..) => writeln!(out, "\n{faults} to mend, marked ❌."),
    };
    out
}

/// True if nothing is at fault.
pub fn is_well(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.finding != Finding::Fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_tried_is_no_success() {
        let (well, note, fault, untried) = (Row::well("a", ""), Row::note("b", "", ""), Row::fault("c", "", ""), Row::untried("d", ""));
        for (rows, verdict) in [
            (vec![well.clone()], "All is well."),
            (vec![well.clone(), note.clone()], "It works; 1 to know of."),
            (vec![well, note, untried.clone()], "What was tried works; 1 marked – not tried, as the lines above say."),
            (vec![fault, untried], "1 to mend, marked ❌."),
        ] {
            assert!(table(&rows).trim_end().ends_with(verdict), "{}", table(&rows));
        }
    }
}
