//! Lists of words and phrases that are looked for in every sentence: looked up by hash, or all in one pass. Pure.

use std::{collections::HashSet, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use foldhash::fast::FixedState;

/// Words of ours, looked up as a whole.
#[derive(Debug)]
pub struct WordList {
    words: &'static [&'static str],
    set: OnceLock<HashSet<&'static str, FixedState>>,
}

impl WordList {
    /// A list of these words.
    pub const fn new(words: &'static [&'static str]) -> Self {
        Self { words, set: OnceLock::new() }
    }

    /// True if `word` is one of them.
    pub fn has(&self, word: &str) -> bool {
        self.set.get_or_init(|| self.words.iter().copied().collect()).contains(word)
    }
}

/// Phrases and parts of words of ours, which may stand anywhere in a text.
#[derive(Debug)]
pub struct PhraseList {
    phrases: &'static [&'static str],
    case: PhraseCase,
    automaton: OnceLock<Option<AhoCorasick>>,
}

/// Whether the case of letters counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PhraseCase {
    Counts,
    /// That of ASCII letters doesn't.
    Ascii,
}

impl PhraseList {
    /// A list of these phrases, as they are written.
    pub const fn new(phrases: &'static [&'static str]) -> Self {
        Self { phrases, case: PhraseCase::Counts, automaton: OnceLock::new() }
    }

    /// A list of these phrases; upper case of ASCII letters is read as lower case.
    pub const fn in_any_case(phrases: &'static [&'static str]) -> Self {
        Self { phrases, case: PhraseCase::Ascii, automaton: OnceLock::new() }
    }

    /// True if one of them stands in `text`.
    pub fn stands_in(&self, text: &str) -> bool {
        let build = || any_of(self.phrases.iter().copied(), self.case);
        match self.automaton.get_or_init(build) {
            Some(automaton) => automaton.is_match(text),
            None => true,
        }
    }
}

fn any_of<'p>(phrases: impl Iterator<Item = &'p str>, case: PhraseCase) -> Option<AhoCorasick> {
    let insensitive = case == PhraseCase::Ascii;
    AhoCorasick::builder().ascii_case_insensitive(insensitive).kind(Some(AhoCorasickKind::DFA)).build(phrases).ok()
}

/// Mark behind a part that is a whole word or ends with one.
const WHOLE: char = '$';

/// Parts of folded texts, read from data: of one that is ASCII the beginning of a word, with `$` behind it whole words; of others, whose
/// scripts have no blanks, anything.
#[derive(Debug, Default)]
pub struct FoldedParts {
    automaton: Option<AhoCorasick>,
}

impl FoldedParts {
    /// Those of these parts; `fold` folds one.
    pub fn new(parts: &[String], fold: impl Fn(&str) -> String) -> Self {
        let pattern = |part: &String| match part.strip_suffix(WHOLE) {
            _ if !part.is_ascii() => fold(part.trim_end_matches(WHOLE)),
            Some(whole) => format!(" {whole} "),
            None => format!(" {part}"),
        };
        let patterns: Vec<String> = parts.iter().map(pattern).collect();
        Self { automaton: any_of(patterns.iter().map(String::as_str), PhraseCase::Counts) }
    }

    /// True if one of them stands in a folded text.
    pub fn stand_in(&self, folded: &str) -> bool {
        let Some(automaton) = &self.automaton else { return false };
        let mut edged = String::with_capacity(folded.len() + 2);
        edged.push(' ');
        edged.push_str(folded);
        edged.push(' ');
        automaton.is_match(&edged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        static WORDS: WordList = WordList::new(&["one", "twö"]);
        assert!(WORDS.has("one") && WORDS.has("twö") && !WORDS.has("on") && !WORDS.has("One"));
        static PHRASES: PhraseList = PhraseList::new(&["no way", "ない"]);
        assert!(PHRASES.stands_in("there is no way") && PHRASES.stands_in("ではない。") && !PHRASES.stands_in("No Way"));
        static CASELESS: PhraseList = PhraseList::in_any_case(&["no way", "für"]);
        assert!(CASELESS.stands_in("No Way") && CASELESS.stands_in("FüR") && !CASELESS.stands_in("FÜR"));
    }

    #[test]
    fn folded_parts() {
        let parts = FoldedParts::new(&["pend".into(), "is out$".into(), "審査中".into()], |part| part.to_owned());
        for (text, stands) in [
            ("it is pending", true),
            ("pending", true),
            ("it is out", true),
            ("this out", false),
            ("it is outside", false),
            ("is out of it", true),
            ("depend on it", false),
            ("申請は審査中です", true),
            ("", false),
        ] {
            assert_eq!(parts.stand_in(text), stands, "{text}");
        }
    }
}
