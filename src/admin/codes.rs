//! What each code means, in a sentence: from the table of docs/codes.md. Pure.

use std::{collections::HashMap, sync::OnceLock};

use crate::violation::{Code, Place};

const PAGE: &str = include_str!("../../docs/codes.md");

/// The meaning of a code, as docs/codes.md has it; Markdown.
pub fn meaning(code: Code) -> &'static str {
    static MEANINGS: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, code, means, ..] = cells[..] else { return None };
        Some((code.trim_matches('`'), means))
    };
    let all = || PAGE.lines().filter(|line| line.starts_with('|')).filter_map(row).collect();
    MEANINGS.get_or_init(all).get(code.as_str()).copied().unwrap_or_else(|| in_prose(code))
}

/// The meaning of a code that the page's tables leave to its prose.
fn in_prose(code: Code) -> &'static str {
    match code {
        Code::CorrectedSyntax => "arguments that were nearly JSON were written as JSON",
        Code::CorrectedName => "a tool's name that was nearly right was put right",
        Code::CorrectedTypes => "values of the wrong type that mean the right one were put right",
        Code::CorrectedNullOptional => "null in an optional parameter was left out",
        Code::CorrectedParameters => "a parameter's name that was nearly right was put right",
        Code::CorrectedTextual => "a call written as text was made a real call",
        Code::NotJudged => "something that couldn't be judged",
        _ => "",
    }
}

/// Name of the place in which a code is found.
pub fn place(code: Code) -> &'static str {
    match code.place() {
        Place::Call => "call",
        Place::Request => "request",
        Place::Text => "text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_meaning() {
        for code in Code::ALL {
            assert!(meaning(*code).len() > 5, "{code}: docs/codes.md doesn't say what it means");
        }
        assert_eq!(meaning(Code::UnknownTool), "no tool of this name");
    }
}
