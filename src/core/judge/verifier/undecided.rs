//! Decides if the claim rules left anything of an answer open. Pure.
//!
//! Something is open if a finding is `likely`, if the rules looked at less than there was (`not_judged`), or if a sentence or line that is
//! in a paragraph with a citation, and is no question, has
//!
//! - a number that no cited result has as it is written: rules accept a number that follows from a result by any reading, or that anyone
//!   mentioned, without knowing that it was meant, or
//! - two words of `WORD_CHARS_MIN` letters or more that are neither in a cited result, nor in its tool's name and arguments,
//!   nor in the user's last message: it says something that no rule could compare.
//!
//! A paragraph that is only a citation belongs to the one before it. Headings and code don't count.

use std::collections::HashSet;

use aho_corasick::AhoCorasick;

use super::ShownResult;
use crate::{
    claims::{
        language::fold::{fold, name_words},
        passage::{Kind, PassageSplitter},
        text_input::TextInput,
    },
    violation::{Certainty, Code, Violation},
};

/// Letters of the shortest word that counts.
const WORD_CHARS_MIN: usize = 5;
/// Words not found anywhere, from which on a sentence is open.
const WORDS_MIN: usize = 2;
/// Characters by which words are compared, so that endings don't count.
const STEM_CHARS: usize = 6;
/// Bytes of the user's last message that are looked at.
const ASKED_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
struct Paragraph {
    cites: bool,
    open: bool,
    /// The paragraph has text besides its citations.
    says: bool,
}

/// True if the rules left something of the answer open. `asked`: the user's last message; `found`: violations that the rules found.
pub fn is_undecided(answer: &str, results: &[ShownResult<'_>], asked: &str, found: &[Violation]) -> bool {
    let likely = |own: &Violation| own.detail.as_ref().is_some_and(|detail| detail.certainty == Certainty::Likely);
    if found.iter().any(|own| own.code == Code::NotJudged || likely(own)) {
        return true;
    }
    // More ids than can be looked for together are more than rules can have weighed.
    let Ok(ids) = AhoCorasick::new(results.iter().map(|shown| shown.execution_id).filter(|id| !id.is_empty())) else { return true };
    let known = GivenContent::of(results, asked);
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut passages = PassageSplitter::default();
    passages.push(answer);
    let mut fresh = true;
    while let Some(passage) = passages.take(TextInput::Complete) {
        match passage.kind {
            Kind::Blank => fresh = true,
            Kind::Code | Kind::Heading => {}
            Kind::Sentence | Kind::Line => {
                if std::mem::take(&mut fresh) {
                    paragraphs.push(Paragraph::default());
                }
                let Some(paragraph) = paragraphs.last_mut() else { continue };
                let mut text = passage.text;
                if ids.is_match(&text) {
                    paragraph.cites = true;
                    let mut bare = String::with_capacity(text.len());
                    ids.replace_all_with(&text, &mut bare, |_, _, bare| {
                        bare.push(' ');
                        true
                    });
                    text = bare.replace("execution_id", " ");
                }
                let words = fold(&text);
                paragraph.says |= words.split(' ').any(|word| word.chars().count() > 1);
                paragraph.open |= !text.contains(['?', '？']) && known.leaves_open(&words);
            }
        }
    }
    // What cites without its id in so many letters may speak for all.
    let everywhere = !paragraphs.iter().any(|paragraph| paragraph.cites);
    let mut before: Option<&Paragraph> = None;
    for paragraph in &paragraphs {
        let spoken_for = before.filter(|_| paragraph.cites && !paragraph.says).is_some_and(|before| before.open);
        if spoken_for || (paragraph.open && (everywhere || paragraph.cites)) {
            return true;
        }
        before = Some(paragraph);
    }
    false
}

/// Numbers and words that a sentence may have without saying anything new.
struct GivenContent {
    numbers: HashSet<String>,
    stems: HashSet<String>,
    results: Vec<String>,
}

impl GivenContent {
    fn of(results: &[ShownResult<'_>], asked: &str) -> Self {
        let mut known = Self { numbers: HashSet::new(), stems: HashSet::new(), results: Vec::new() };
        for shown in results {
            let said = fold(shown.text);
            known.numbers.extend(said.split(' ').filter(|word| is_number(word)).map(str::to_owned));
            known.learn(&said);
            known.results.push(said);
            known.learn(&fold(shown.arguments));
            known.learn(&name_words(shown.tool).join(" "));
        }
        known.learn(&fold(asked.get(..asked.floor_char_boundary(ASKED_BYTES_MAX)).unwrap_or_default()));
        known
    }

    fn learn(&mut self, folded: &str) {
        self.stems.extend(folded.split(' ').filter(|word| !word.is_empty()).map(stem));
    }

    fn leaves_open(&self, folded: &str) -> bool {
        let mut new = 0;
        for word in folded.split(' ').filter(|word| !word.is_empty()) {
            if is_number(word) {
                if !self.numbers.contains(word) {
                    return true;
                }
                continue;
            }
            new += match word.chars().count() {
                // Where no blanks part words, a run of letters is a clause.
                count if count >= WORD_CHARS_MIN && is_unparted(word) => {
                    if self.results.iter().any(|result| result.contains(word)) {
                        0
                    } else {
                        WORDS_MIN
                    }
                }
                count if count >= WORD_CHARS_MIN => usize::from(!self.stems.contains(&stem(word))),
                _ => 0,
            };
            if new >= WORDS_MIN {
                return true;
            }
        }
        false
    }
}

fn is_number(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

fn stem(word: &str) -> String {
    word.chars().take(STEM_CHARS).collect()
}

/// True for a word in a script without blanks between words: Chinese, Japanese, Thai and the like.
fn is_unparted(word: &str) -> bool {
    word.chars().any(|c| matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'))
}
