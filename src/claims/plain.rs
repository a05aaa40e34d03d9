//! A passage as its checks read it: citations blanked out; its words, numbers, dates and addresses, each read once. Pure.

use std::{ops::Range, sync::OnceLock};

use super::passage::Passage;
use crate::language::{
    date::{self, Dates},
    fold::{fold, lower_of},
    lexicon::{Word, words},
    number::{Number, numbers},
    url,
};

/// A passage that is read when a check first needs it.
#[derive(Debug)]
pub struct LazyPassage {
    /// It itself.
    pub passage: Passage,
    plain: OnceLock<AnalyzedPassage>,
}

impl LazyPassage {
    /// One that isn't read yet.
    pub fn new(passage: Passage) -> Self {
        Self { passage, plain: OnceLock::new() }
    }

    /// The passage, read.
    pub fn plain(&self) -> &AnalyzedPassage {
        self.plain.get_or_init(|| AnalyzedPassage::of(&self.passage.text))
    }
}

/// Passage without its markup and citations, analysed on demand.
#[derive(Debug, Default)]
pub struct AnalyzedPassage {
    /// The passage, with citations blanked out: places are those of the passage.
    pub text: String,
    /// Its words, citations and addresses left out.
    pub words: Vec<Word>,
    /// The addresses in it.
    pub urls: Vec<Range<usize>>,
    dates: OnceLock<Dates>,
    numbers: OnceLock<Vec<Number>>,
    folded: OnceLock<String>,
    lower: OnceLock<String>,
    asks: OnceLock<bool>,
    /// It shows that it reckons; see `cues::reckons`.
    pub reckons: OnceLock<bool>,
    /// It tells that something isn't there or isn't so; see `sentence::tells_nothing`.
    pub tells_nothing: OnceLock<bool>,
    /// It tells of a failure; see `sentence::tells_of_failure`.
    pub tells_failure: OnceLock<bool>,
}

impl AnalyzedPassage {
    /// Number of its letters beyond ASCII: what tells how much a sentence says in a script without blanks.
    pub fn letters_beyond_ascii(&self) -> usize {
        self.text.chars().filter(|c| !c.is_ascii() && c.is_alphabetic()).count()
    }

    /// Reads a passage.
    pub fn of(passage: &str) -> Self {
        let mut text = passage.to_owned();
        let mut words = words(passage);
        let citations = citations(passage, &words);
        if !citations.is_empty() {
            citations.iter().for_each(|span| blank(&mut text, span.clone()));
            words.retain(|word| !citations.iter().any(|span| span.start < word.end && word.start < span.end));
        }
        let urls = url::urls(&text);
        if !urls.is_empty() {
            words = without(&text, &urls);
        }
        Self { text, words, urls, ..Self::default() }
    }

    /// The dates and times in it.
    pub fn dates(&self) -> &Dates {
        self.dates.get_or_init(|| if self.has_digits() { date::dates(&self.text) } else { Dates::default() })
    }

    /// The numbers in it.
    pub fn numbers(&self) -> &[Number] {
        self.numbers.get_or_init(|| if self.has_digits() { numbers(&self.text) } else { Vec::new() })
    }

    /// It has a digit.
    pub fn has_digits(&self) -> bool {
        self.text.bytes().any(|byte| byte.is_ascii_digit())
    }

    /// Its text, folded.
    pub fn folded(&self) -> &str {
        self.folded.get_or_init(|| fold(&self.text))
    }

    /// Its text in lower case.
    pub fn lower(&self) -> &str {
        self.lower.get_or_init(|| lower_of(&self.text))
    }

    /// It has a question mark.
    pub fn asks(&self) -> bool {
        *self.asks.get_or_init(|| memchr::memchr(b'?', self.text.as_bytes()).is_some() || !self.text.is_ascii() && self.text.contains('？'))
    }

    /// Does something lie there that is read as a whole: a date, a time of day, an address?
    pub fn is_taken(&self, span: &Range<usize>) -> bool {
        let dates = self.dates().dates.iter().map(|date| &date.span);
        let times = self.dates().times.iter().map(|time| &time.span);
        dates.chain(times).chain(&self.urls).any(|taken| taken.start < span.end && span.start < taken.end)
    }
}

/// The words of a text outside these spans.
fn without(text: &str, spans: &[Range<usize>]) -> Vec<Word> {
    let mut text = text.to_owned();
    spans.iter().for_each(|span| blank(&mut text, span.clone()));
    words(&text)
}

/// Byte ranges of its citations: execution IDs, and labels with their values.
fn citations(passage: &str, words: &[Word]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut labelled = None;
    for word in words {
        let of_label = labelled.take();
        // Most words are neither a label nor behind one, nor long enough for an id.
        if of_label.is_none() && word.lower.len() < "execution".len() {
            continue;
        }
        let plain = || word.lower.chars().filter(|c| c.is_alphanumeric());
        if is_id(&word.lower) {
            found.push(of_label.unwrap_or(word.start)..word.end);
        } else if plain().eq("executionid".chars()) || plain().eq("execution".chars()) {
            labelled = Some(word.start);
        } else if let Some(from) = of_label {
            if plain().eq("id".chars()) {
                labelled = Some(from);
            } else if passage.get(from..word.start).is_some_and(|label| label.contains([':', '='])) {
                found.push(from..word.end);
            }
        }
    }
    found
}

/// `tool_1763760000123_0123456789abcdef`
fn is_id(word: &str) -> bool {
    let mut parts = word.rsplitn(3, '_');
    let (hex, digits, tool) = (parts.next(), parts.next(), parts.next());
    hex.is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
        && digits.is_some_and(|digits| digits.len() == 13 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        && tool.is_some()
}

/// Blanks instead of what stands there, the places of the rest unchanged.
fn blank(text: &mut String, span: Range<usize>) {
    if text.is_char_boundary(span.start) && text.is_char_boundary(span.end) {
        text.replace_range(span.clone(), &" ".repeat(span.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_no_words() {
        for (text, plain) in [
            ("It is 5 (execution_id: t_1763760000123_0123456789abcdef).", "It is 5 (                                              )."),
            ("(Execution ID: `a-1`) 7", "(                   ) 7"),
            ("the execution of 5", "the execution of 5"),
        ] {
            let found = AnalyzedPassage::of(text);
            assert_eq!(found.text.replace('`', " "), plain.replace('`', " "), "{text}");
            let (own, again): (Vec<_>, Vec<_>) =
                (found.words.iter().map(|word| word.start).collect(), words(&found.text).iter().map(|word| word.start).collect());
            assert_eq!(own, again, "{text}");
        }
    }

    #[test]
    fn addresses_are_no_words() {
        let plain = AnalyzedPassage::of("See https://a.io/found on May 3, 2025: 7 of them.");
        let words: Vec<&str> = plain.words.iter().map(|word| word.lower.as_str()).collect();
        assert_eq!(words, ["see", "on", "may", "3", "2025", "7", "of", "them"]);
        assert!(plain.is_taken(&(4..5)) && plain.is_taken(&(26..27)) && !plain.is_taken(&(39..40)));
    }

    proptest::proptest! {
        /// Citations taken out of the words are those that are blanked out of the text.
        #[test]
        fn words_are_those_of_the_text(text in "([ ':=(-]|execution|_|id|a|ä|’|t_1763760000123_0123456789abcdef){0,14}") {
            let plain = AnalyzedPassage::of(&text);
            let of = |words: &[Word]| words.iter().map(|word| (word.start, word.end, word.lower.clone())).collect::<Vec<_>>();
            assert_eq!(of(&plain.words), of(&words(&plain.text)), "{text}");
        }
    }
}
