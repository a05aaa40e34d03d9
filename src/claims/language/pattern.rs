//! Patterns of the lexicons: regular expressions that take little memory, since there are hundreds of them. Pure.

use std::ops::Range;

use regex_automata::{
    meta::Regex,
    util::{captures::Captures, syntax},
};

/// Letters of the languages that are written in Latin ones, in place of `\p{L}`.
const LATIN_LETTER: &str = "[A-Za-zªµºÀ-ÖØ-öø-ɏ]";
/// Such a letter, a digit or `_`, in place of `\w`.
const LATIN_WORD: &str = "[0-9A-Z_a-zªµºÀ-ÖØ-öø-ɏ]";
/// Any other character, in place of `\W`.
const NO_LATIN_WORD: &str = "[^0-9A-Z_a-zªµºÀ-ÖØ-öø-ɏ]";

/// The source of a pattern for texts in Latin letters: letters and digits of other scripts match nothing in it. It takes a quarter of the
/// memory.
pub fn in_latin_letters(source: &str) -> String {
    with_words(source).replace(r"\p{L}", LATIN_LETTER)
}

/// The source of a pattern for texts in lower case whose words have no other letters than `a` to `z`.
pub fn in_ascii_letters(source: &str) -> String {
    with_words(source).replace(r"\p{L}", "[a-z]").replace(r"\b", r"(?-u:\b)")
}

/// With the words of Latin letters in place of those of every script.
fn with_words(source: &str) -> String {
    source.replace(r"\w", LATIN_WORD).replace(r"\W", NO_LATIN_WORD).replace(r"\d", "[0-9]")
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a source in the syntax of the crate `regex`; `None` if it isn't right.
    pub fn new(source: &str) -> Option<Self> {
        Self::compile(source, syntax::Config::new())
    }

    /// One to which upper and lower case are the same.
    pub fn in_any_case(source: &str) -> Option<Self> {
        Self::compile(source, syntax::Config::new().case_insensitive(true))
    }

    fn compile(source: &str, syntax: syntax::Config) -> Option<Self> {
        // What finds the groups in one pass takes as much memory as all else, and most texts never come so far.
        let config = Regex::config().onepass(false);
        Regex::builder().configure(config).syntax(syntax).build(source).ok().map(Self)
    }

    /// True if it matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// True if it has a group of this name.
    #[cfg(test)]
    pub fn has_group(&self, name: &str) -> bool {
        self.0.create_captures().group_info().to_index(regex_automata::PatternID::ZERO, name).is_some()
    }

    /// The first place that it matches.
    pub fn find<'t>(&self, text: &'t str) -> Option<PatternMatch<'t>> {
        self.find_all(text).next()
    }

    /// Each place that it matches.
    pub fn find_all<'t>(&self, text: &'t str) -> impl Iterator<Item = PatternMatch<'t>> {
        self.0.captures_iter(text).map(move |captures| PatternMatch { text, captures })
    }
}

/// A place in a text that a pattern matches.
#[derive(Debug)]
pub struct PatternMatch<'t> {
    text: &'t str,
    captures: Captures,
}

impl<'t> PatternMatch<'t> {
    /// All of it.
    pub fn whole(&self) -> MatchedText<'t> {
        MatchedText::of(self.text, self.captures.get_match().map_or(0..0, |found| found.range()))
    }

    /// The part that the group of this name matched.
    pub fn group(&self, name: &str) -> Option<MatchedText<'t>> {
        self.captures.get_group_by_name(name).map(|span| MatchedText::of(self.text, span.range()))
    }
}

/// A part of a text that a pattern, or a group of it, matched.
#[derive(Clone, Copy, Debug)]
pub struct MatchedText<'t> {
    /// The matched text.
    pub text: &'t str,
    /// Its start in the whole text, in bytes.
    pub start: usize,
}

impl<'t> MatchedText<'t> {
    fn of(text: &'t str, span: Range<usize>) -> Self {
        Self { start: span.start, text: text.get(span).unwrap_or_default() }
    }

    /// Its end in the whole text, in bytes.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        let pattern = Pattern::in_any_case(r"(?P<verb>\w+ed)\b(?P<rest> it)?").unwrap();
        let found = pattern.find("Übrigens Moved it, fixed").unwrap();
        let verb = found.group("verb").unwrap();
        assert_eq!((verb.text, verb.start, verb.end(), found.whole().end()), ("Moved", 10, 15, 18));
        assert_eq!(found.group("rest").unwrap().text, " it");
        assert!(found.group("none").is_none() && !pattern.is_match("moving") && Pattern::new("(").is_none());
        assert_eq!(pattern.find_all("Moved it, fixed").filter(|found| found.group("rest").is_none()).count(), 1);
        assert!(!Pattern::new("a").unwrap().is_match("A"));
    }

    #[test]
    fn letters_of_one_script() {
        let latin = Pattern::new(&in_latin_letters(r"^[\p{L}-]+ \w+ \d$")).unwrap();
        assert!(latin.is_match("größe-łódź ışık_1 7") && !latin.is_match("размер a 7") && !latin.is_match("a b ७"));
        let ascii = Pattern::new(&in_ascii_letters(r"\b\p{L}+\b")).unwrap();
        assert_eq!(ascii.find("über it").unwrap().whole().text, "ber");
    }
}
