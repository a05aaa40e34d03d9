//! Lists of words and phrases that are looked for in every sentence: looked up by hash, or all in one pass. Pure.

use std::{collections::HashSet, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use figment::{
    Figment,
    providers::{Format as _, Toml},
};
use foldhash::fast::FixedState;
use serde::{Deserialize, de::DeserializeOwned};

/// Reads one of this house's data files, in TOML; of one that can't be read nothing comes, which tests rule out. Kept out of the code that
/// judges: each file is read once in a process. By way of JSON's value: a struct's reader is compiled for each kind of source in figment, six
/// times, and for this one once.
#[cold]
#[inline(never)]
pub(crate) fn data_file<T: DeserializeOwned + Default>(text: &str) -> T {
    let value: Option<serde_json::Value> = Figment::from(Toml::string(text)).extract().ok();
    value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

/// Lengths of a set's words by their first byte: most words are told not to be in the set without a hash.
#[derive(Clone, Debug)]
struct Lengths([u32; 64]);

impl Lengths {
    const NONE: Self = Self([0; 64]);

    const fn add(mut self, word: &str) -> Self {
        let (row, bit) = Self::place(word.as_bytes());
        self.0[row] |= bit;
        self
    }

    /// False if no word that was added is this one.
    fn may_have(&self, word: &str) -> bool {
        let (row, bit) = Self::place(word.as_bytes());
        self.0[row] & bit != 0
    }

    const fn place(word: &[u8]) -> (usize, u32) {
        let first = if word.is_empty() { 0 } else { word[0] & 63 };
        (first as usize, 1 << if word.len() < 31 { word.len() } else { 31 })
    }
}

/// Words of ours, looked up as a whole.
#[derive(Debug)]
pub struct WordList {
    words: &'static [&'static str],
    lengths: Lengths,
    set: OnceLock<HashSet<&'static str, FixedState>>,
}

impl WordList {
    /// A list of these words.
    pub const fn new(words: &'static [&'static str]) -> Self {
        let (mut lengths, mut at) = (Lengths::NONE, 0);
        while at < words.len() {
            lengths = lengths.add(words[at]);
            at += 1;
        }
        Self { words, lengths, set: OnceLock::new() }
    }

    /// True if `word` is one of them.
    pub fn has(&self, word: &str) -> bool {
        self.lengths.may_have(word) && self.set.get_or_init(|| self.words.iter().copied().collect()).contains(word)
    }
}

/// Words of the data files, looked up as a whole. They are ours: looking one up need not stand up to whoever chooses what is put in.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Vec<String>")]
pub struct WordSet {
    lengths: Lengths,
    words: HashSet<String, FixedState>,
}

impl Default for WordSet {
    fn default() -> Self {
        Self { lengths: Lengths::NONE, words: HashSet::default() }
    }
}

impl From<Vec<String>> for WordSet {
    fn from(words: Vec<String>) -> Self {
        words.into_iter().collect()
    }
}

impl FromIterator<String> for WordSet {
    fn from_iter<I: IntoIterator<Item = String>>(words: I) -> Self {
        let words: HashSet<String, FixedState> = words.into_iter().collect();
        Self { lengths: words.iter().fold(Lengths::NONE, |lengths, word| lengths.add(word)), words }
    }
}

impl WordSet {
    /// True if `word` is one of them.
    pub fn contains(&self, word: &str) -> bool {
        self.lengths.may_have(word) && self.words.contains(word)
    }

    /// The words, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.words.iter()
    }
}

/// Bytes of a text at the beginning of which an opener is looked for.
const OPENER_BYTES_MAX: usize = 24;

/// Phrases of the data files with which a sentence, or a part of one, may begin; in lower case.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Vec<String>")]
pub struct OpenerList {
    phrases: Vec<String>,
    /// Second bytes of the phrases by their first: most texts are told to begin with none of them by two looks.
    seconds: [u32; 64],
}

impl Default for OpenerList {
    fn default() -> Self {
        Self { phrases: Vec::new(), seconds: [0; 64] }
    }
}

impl From<Vec<String>> for OpenerList {
    fn from(phrases: Vec<String>) -> Self {
        let mut seconds = [0; 64];
        for phrase in &phrases {
            match phrase.as_bytes() {
                [first, second, ..] => seconds[usize::from(first & 63)] |= 1 << (second & 31),
                [first] => seconds[usize::from(first & 63)] = u32::MAX,
                [] => seconds = [u32::MAX; 64],
            }
        }
        Self { phrases, seconds }
    }
}

impl OpenerList {
    /// True if `text` begins with one of them as whole words, in any case.
    pub fn opens(&self, text: &str) -> bool {
        // In the last five bits of a letter its case makes no difference; what isn't ASCII may have a lower case that is.
        let may = match *text.as_bytes() {
            [first, second, ..] if first.is_ascii() && second.is_ascii() => {
                self.seconds[usize::from(first.to_ascii_lowercase() & 63)] & 1 << (second & 31) != 0
            }
            _ => true,
        };
        if !may {
            return false;
        }
        let lower = text.get(..text.floor_char_boundary(OPENER_BYTES_MAX)).unwrap_or(text).to_lowercase();
        let whole = |rest: &str| !rest.starts_with(char::is_alphanumeric);
        self.phrases.iter().any(|phrase| lower.strip_prefix(phrase.as_str()).is_some_and(whole))
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
        let patterns: Vec<String> = parts.iter().map(|part| Self::pattern(part, &fold)).collect();
        Self { automaton: any_of(patterns.iter().map(String::as_str), PhraseCase::Counts) }
    }

    /// Pattern of one part, looked for in a text with a blank at both ends.
    pub fn pattern(part: &str, fold: impl Fn(&str) -> String) -> String {
        match part.strip_suffix(WHOLE) {
            _ if !part.is_ascii() => fold(part.trim_end_matches(WHOLE)),
            Some(whole) => format!(" {whole} "),
            None => format!(" {part}"),
        }
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists() {
        static WORDS: WordList = WordList::new(&["one", "twö"]);
        assert!(WORDS.has("one") && WORDS.has("twö") && !WORDS.has("on") && !WORDS.has("One") && !WORDS.has(""));
        let long = "a-word-that-is-longer-than-thirty-one-bytes".to_owned();
        let set: WordSet = vec![long.clone(), String::new()].into();
        assert!(set.contains(&long) && set.contains("") && !set.contains("a-word-that-is-longer-than-thirty") && set.iter().count() == 2);
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

    #[test]
    fn openers() {
        let openers: OpenerList = ["can you", "mind", "können sie", "você pode", "z"].map(str::to_owned).to_vec().into();
        for (text, opens) in [
            ("Can you deal with it?", true),
            ("CAN YOU", true),
            ("can your dog", false),
            ("Mind, it's hot", true),
            ("mindful", false),
            ("Können Sie das?", true),
            ("KÖNNEN SIE das?", true),
            ("konnen sie", false),
            ("Você pode ver?", true),
            ("\u{212a}önnen Sie", true),
            ("z: now", true),
            ("zoo", false),
            ("c", false),
            ("", false),
        ] {
            assert_eq!(openers.opens(text), opens, "{text}");
        }
        assert!(!OpenerList::default().opens("can you"));
    }

    proptest! {
        #[test]
        fn two_looks_hide_no_opener(text in "[cCmMkKv\u{212a}][aAiIöÖoO][nNcCê]?[ a-z]{0,12}") {
            let phrases = requests_like();
            let lower = text.to_lowercase();
            let naive = phrases.iter().any(|phrase| lower.strip_prefix(phrase).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)));
            prop_assert_eq!(OpenerList::from(phrases.map(str::to_owned).to_vec()).opens(&text), naive);
        }
    }

    fn requests_like() -> [&'static str; 7] {
        ["ca", "can", "mi", "kön", "ko", "vo", "voc"]
    }
}
