//! Looks up words in long texts. The third lookup builds an index, so that many lookups cost about one pass.
//!
//! Without the index each lookup would read all texts, which is too slow for long conversations. The remaining linear reading is bounded in
//! steps; beyond them every lookup finds nothing. Pure.

use std::{
    hash::BuildHasher as _,
    sync::{
        OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// Bytes of texts up to which reading them for each lookup is faster than an index.
const SHORT_BYTES: usize = 4096;
/// Lookups without an index.
const UNINDEXED: u32 = 2;
/// Bytes of the shortest word in the index.
const WORD_BYTES_MIN: usize = 3;
/// Words of the sought text among which the rarest is chosen.
const CONSIDERED_MAX: usize = 64;
/// Bytes that may be read and compared linearly, besides four times the texts' bytes.
const STEPS: u64 = 32 << 20;

/// Definition of words for a lookup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WordForm {
    /// Separated by blanks, as in folded text; the sought text is whole words.
    Folded,
    /// Separated by anything but letters, digits and `_`; the sought text isn't part of a longer word.
    Plain,
    /// Separated as in `Plain`, but the sought text may begin and end within a word.
    Parts,
}

impl WordForm {
    fn holds(self, c: char) -> bool {
        match self {
            Self::Folded => c != ' ',
            Self::Plain | Self::Parts => c.is_alphanumeric() || c == '_',
        }
    }
}

/// Texts by index; each may be built when it is first asked for.
pub trait IndexedTexts<'t> {
    /// The text at this index.
    fn text(&self, at: usize) -> Option<&'t str>;
}

impl<'t, F: Fn(usize) -> Option<&'t str>> IndexedTexts<'t> for F {
    fn text(&self, at: usize) -> Option<&'t str> {
        self(at)
    }
}

#[derive(Debug, Default)]
struct WordIndex {
    /// Per word: its hash in the upper half, its offset in all texts in the lower; sorted.
    words: Vec<u64>,
    /// Start offset of each text.
    starts: Vec<u32>,
}

/// Index of a fixed set of texts, built when needed.
#[derive(Debug, Default)]
pub struct LazyWordIndex {
    index: OnceLock<Option<WordIndex>>,
    bytes: OnceLock<usize>,
    lookups: AtomicU32,
    steps: AtomicU64,
}

impl LazyWordIndex {
    /// True if `sought` occurs in one of the texts; false if it is empty.
    pub fn has<'t>(&self, texts: &impl IndexedTexts<'t>, sought: &str, words: WordForm) -> bool {
        if sought.is_empty() {
            return false;
        }
        let bytes = *self.bytes.get_or_init(|| all(texts).map(str::len).sum());
        let lookups = self.lookups.fetch_add(1, Ordering::Relaxed);
        if bytes <= SHORT_BYTES || lookups < UNINDEXED {
            return self.scan(texts, sought, words, bytes);
        }
        let by = if words == WordForm::Folded { WordForm::Folded } else { WordForm::Plain };
        let index = self.index.get_or_init(|| {
            self.steps.fetch_add(bytes as u64, Ordering::Relaxed);
            WordIndex::of(texts, by)
        });
        match index.as_ref().and_then(|index| Some((index, index.rarest(sought, words)?))) {
            Some((index, (offset, places))) => {
                let affordable = places.iter().take_while(|_| self.spend(1 + sought.len() as u64 / 16, bytes));
                affordable.into_iter().any(|place| {
                    let place = (place & u64::from(u32::MAX)) as usize;
                    let at = index.starts.partition_point(|start| *start as usize <= place).saturating_sub(1);
                    let start = index.starts.get(at).map_or(0, |start| *start as usize);
                    let from = (place - start).checked_sub(offset);
                    from.zip(texts.text(at)).is_some_and(|(from, text)| stands_at(text, from, sought, words))
                })
            }
            None => self.scan(texts, sought, words, bytes),
        }
    }

    fn scan<'t>(&self, texts: &impl IndexedTexts<'t>, sought: &str, words: WordForm, bytes: usize) -> bool {
        let find = |text: &str| {
            self.spend(text.len() as u64, bytes)
                && memchr::memmem::find_iter(text.as_bytes(), sought.as_bytes()).any(|at| stands_at(text, at, sought, words))
        };
        all(texts).any(find)
    }

    /// Counts steps; false once too many were made.
    fn spend(&self, steps: u64, bytes: usize) -> bool {
        let before = self.steps.fetch_add(steps, Ordering::Relaxed);
        before < STEPS.saturating_add(4 * bytes as u64)
    }

    /// The steps made so far.
    #[cfg(test)]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

fn all<'t>(texts: &impl IndexedTexts<'t>) -> impl Iterator<Item = &'t str> {
    (0..).map_while(|at| texts.text(at))
}

fn stands_at(text: &str, at: usize, sought: &str, words: WordForm) -> bool {
    if !text.get(at..).is_some_and(|rest| rest.starts_with(sought)) {
        return false;
    }
    let holds = |c: Option<char>| c.is_some_and(|c| words.holds(c));
    let before = text.get(..at).and_then(|text| text.chars().next_back());
    let after = text.get(at + sought.len()..).and_then(|text| text.chars().next());
    let cuts = holds(before) && holds(sought.chars().next()) || holds(after) && holds(sought.chars().next_back());
    words == WordForm::Parts || !cuts
}

impl WordIndex {
    /// Builds the index; `None` if the texts are too long for one.
    fn of<'t>(texts: &impl IndexedTexts<'t>, by: WordForm) -> Option<Self> {
        let (mut index, mut start) = (Self::default(), 0_usize);
        for text in all(texts) {
            index.starts.push(u32::try_from(start).ok()?);
            each_word(text, by, |at, word| {
                if word.len() >= WORD_BYTES_MIN {
                    index.words.push(u64::from(hash(word)) << 32 | (start + at) as u64);
                }
            });
            start += text.len();
            u32::try_from(start).ok()?;
        }
        index.words.sort_unstable();
        Some(index)
    }

    /// The word of `sought` with the fewest occurrences: its offset in `sought`, and the occurrences.
    fn rarest(&self, sought: &str, words: WordForm) -> Option<(usize, &[u64])> {
        let (mut best, mut seen): (Option<(usize, &[u64])>, usize) = (None, 0);
        let by = if words == WordForm::Folded { WordForm::Folded } else { WordForm::Plain };
        each_word(sought, by, |at, word| {
            // One at an edge may be a part of a longer one.
            let whole = words != WordForm::Parts || at > 0 && at + word.len() < sought.len();
            if word.len() < WORD_BYTES_MIN || !whole || seen >= CONSIDERED_MAX {
                return;
            }
            seen += 1;
            let key = u64::from(hash(word));
            let from = self.words.partition_point(|own| own >> 32 < key);
            let rest = self.words.get(from..).unwrap_or_default();
            let places = rest.get(..rest.partition_point(|own| own >> 32 == key)).unwrap_or_default();
            if best.is_none_or(|(_, fewest)| places.len() < fewest.len()) {
                best = Some((at, places));
            }
        });
        best
    }
}

fn hash(word: &str) -> u32 {
    (foldhash::fast::FixedState::default().hash_one(word) >> 16) as u32
}

fn each_word<'t>(text: &'t str, by: WordForm, mut take: impl FnMut(usize, &'t str)) {
    let mut from = None;
    for (at, c) in text.char_indices() {
        match (by.holds(c), from) {
            (true, None) => from = Some(at),
            (false, Some(start)) => {
                take(start, text.get(start..at).unwrap_or_default());
                from = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    if let Some(start) = from {
        take(start, text.get(start..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an index says is what reading says.
    #[test]
    fn lookups() {
        let filler = "filler words of a long text. ".repeat(400);
        let texts =
            [format!("run wf-77a is “done”, Zürich {filler}"), format!("{filler} see a.io/repo/x?id=3; 東京都 and_then"), String::new()];
        let texts = |at: usize| texts.get(at).map(String::as_str);
        for (sought, plain, part) in [
            ("wf-77a", true, true),
            ("wf-77", false, true),
            ("f-77a", false, true),
            ("“done”", true, true),
            ("done", true, true),
            ("one", false, true),
            ("Zürich", true, true),
            ("rich", false, true),
            ("a.io/repo/x", true, true),
            ("a.io/rep", false, true),
            ("東京都", true, true),
            ("東京", false, true),
            ("then", false, true),
            ("nothing like it", false, false),
            ("; ", true, true),
            ("", false, false),
        ] {
            let standing = LazyWordIndex::default();
            for _ in 0..4 {
                assert_eq!(standing.has(&texts, sought, WordForm::Plain), plain, "{sought}");
            }
            let standing = LazyWordIndex::default();
            for _ in 0..4 {
                assert_eq!(standing.has(&texts, sought, WordForm::Parts), part, "{sought}");
            }
        }
        let folded = format!("fc bayern munchen {filler}").replace('.', "");
        let folded = |at: usize| (at == 0).then_some(folded.as_str());
        for (sought, stands) in [("bayern munchen", true), ("bay", false), ("fc", true), ("munchen fc", false)] {
            let standing = LazyWordIndex::default();
            assert!((0..4).all(|_| standing.has(&folded, sought, WordForm::Folded) == stands), "{sought}");
        }
    }

    /// Twice the conversation and twice the lookups make twice the steps, whatever is looked up.
    #[test]
    fn steps_grow_with_the_sizes() {
        let shapes: [fn(usize) -> String; 4] =
            [|n| format!("word{n} "), |n| format!("word{} ", n % 7), |_| "same same ".to_owned(), |n| format!("id_{n:016x}-")];
        for shape in shapes {
            let steps = |size: usize| {
                let text: String = (0..size).map(shape).collect();
                let texts = |at: usize| (at == 0).then_some(text.as_str());
                let standing = LazyWordIndex::default();
                for n in 0..size {
                    standing.has(&texts, &format!("word{n} word"), WordForm::Plain);
                    standing.has(&texts, &format!("id_{n:016x}"), WordForm::Plain);
                }
                standing.steps()
            };
            let (once, twice) = (steps(1000), steps(2000));
            assert!(twice <= once * 5 / 2, "{once} {twice}: {}", shape(1));
        }
        // Where one word is everywhere the steps are bounded.
        let text = "same same same ".repeat(4000);
        let texts = |at: usize| (at == 0).then_some(text.as_str());
        let standing = LazyWordIndex::default();
        for n in 0..5000 {
            assert!(!standing.has(&texts, &format!("same {}x", "same ".repeat(n % 20)), WordForm::Plain));
        }
        assert!(standing.steps() < 2 * (STEPS + 4 * text.len() as u64));
    }
}
