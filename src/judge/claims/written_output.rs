//! A tool's output that the answer writes itself: a call or a label with a tool's name, and values below it, where nothing ran. Pure.

use super::{
    abilities::Abilities,
    fold::{name_words, stands_in},
    passage::{Kind, Passage},
    scene::Finding,
};
use crate::judge::violation::{Certainty, Code};

/// Lines behind the name that are looked at.
const LINES_MAX: usize = 6;
/// Words of a line that may label an output.
const LABEL_WORDS_MAX: usize = 14;
/// Languages of a fence that hold data; in any other stands a program.
const DATA: &[&str] = &["", "text", "txt", "plain", "plaintext", "output", "console", "json", "yaml", "yml", "shell", "bash", "sh"];
/// Words of a question for an example, of how something is called, of a program.
const EXAMPLES: &[&str] = &[
    "example",
    "examples",
    "sample",
    "mock",
    "format",
    "schema",
    "syntax",
    "code",
    "script",
    "snippet",
    "how",
    "explain",
    "would",
    "could",
    "template",
    "beispiel",
    "muster",
    "wie",
    "format",
    "erkläre",
    "exemple",
    "comment",
    "explique",
    "ejemplo",
    "cómo",
    "explica",
    "esempio",
    "come",
    "exemplo",
    "como",
    "voorbeeld",
    "hoe",
    "przykład",
    "jak",
    "örnek",
    "nasıl",
    "例",
    "例子",
    "उदाहरण",
];

/// Follows an answer's lines.
#[derive(Debug, Default)]
pub struct WrittenOutput {
    /// Lines since a tool's name stood there.
    since: Option<usize>,
    /// In a fence: does it hold data?
    fence: Option<bool>,
    done: bool,
}

impl WrittenOutput {
    /// Takes the next passage of an answer before which nothing ran.
    pub fn take(&mut self, passage: &Passage, abilities: &Abilities) -> Option<Finding> {
        let text = passage.text.trim();
        if self.done || text.is_empty() || abilities.any_ran() || abilities.unseen {
            return None;
        }
        if let Some(info) = text.strip_prefix("```").or_else(|| text.strip_prefix("~~~")) {
            self.fence = match self.fence {
                Some(_) => None,
                None => Some(DATA.iter().any(|name| info.trim().eq_ignore_ascii_case(name))),
            };
            return None;
        }
        if self.fence == Some(false) {
            return None;
        }
        let example = || {
            let words = |text: &str| name_words(text).iter().any(|word| EXAMPLES.contains(&word.as_str()));
            words(&abilities.asked) || words(text)
        };
        let values = text.bytes().any(|byte| byte.is_ascii_digit()) || text.contains(['"', '|']) && text.contains(':');
        let data = self.fence == Some(true)
            || text.starts_with(['{', '[', '|'])
            || passage.text.starts_with("    ")
            || text.trim_start_matches(['-', '>', ' ']).len() < text.len() && text.contains("->");
        if self.since.is_some_and(|since| since < LINES_MAX) && data && values && !is_name(text, abilities) {
            self.done = true;
            let start = passage.text.len() - passage.text.trim_start().len();
            return Some(Finding {
                rule: "written_output",
                code: Code::MissingExecutionId,
                span: start..start + text.len(),
                found: text.to_owned(),
                expected: "a tool's output is written here, and no tool ran".to_owned(),
                certainty: Certainty::Likely,
            });
        }
        self.since = self.since.map(|since| since + 1);
        let label = text.split_whitespace().count() <= LABEL_WORDS_MAX && passage.kind != Kind::Blank;
        if label && is_name(text, abilities) && !example() {
            self.since = Some(0);
            // The output stands in the line itself: `{"tool": "search", "result": …`.
            let whole = text.starts_with('{') && text.contains("result");
            self.since = if whole { Some(0) } else { self.since };
        }
        None
    }
}

/// Does the line have an own tool's name, which is no common word?
fn is_name(text: &str, abilities: &Abilities) -> bool {
    abilities.tools.iter().any(|ability| {
        let name = ability.tool.as_str();
        name.contains(['_', '-', '.'])
            && text.contains(name)
            && stands_in(&text.replace(|c: char| !c.is_alphanumeric() && c != '_' && c != '-' && c != '.', " "), name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::claims::{abilities::Ability, passage::Passages};

    #[test]
    fn outputs_that_nothing_gave() {
        for (asked, text, wrong) in [
            ("Which rooms?", "```\nget_rooms(floor=6)\n-> {\"601\":\"clean\"}\n```\nSo one.", true),
            ("Balances?", "Here's the output of get_rooms:\n\n```json\n{\n  \"id\": 12\n}\n```", true),
            ("Rooms", "**Result (get_rooms):**\n\n| A | B |\n|---|---|\n| 1 | 2 |\n", true),
            ("How do I call it?", "```\nget_rooms(floor=6)\n-> {\"601\":\"clean\"}\n```\n", false),
            ("Write a program", "```python\nget_rooms(6)\nprint(12)\n```\n", false),
            ("Which rooms?", "I would call get_rooms with 6 for that.\n", false),
            ("Which rooms?", "I can look with get_rooms. There are 12 of them.\n", false),
        ] {
            let abilities = Abilities { tools: [Ability::new("get_rooms", "Rooms")].into(), asked: asked.into(), ..Abilities::default() };
            let (mut passages, mut output) = (Passages::default(), WrittenOutput::default());
            passages.push(text);
            let found = std::iter::from_fn(|| passages.take(true)).filter_map(|passage| output.take(&passage, &abilities)).count();
            assert_eq!(found > 0, wrong, "{text}");
        }
    }
}
