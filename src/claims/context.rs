//! A passage made ready for its checks: read, its language known, a result at hand. Pure.

use std::{borrow::Cow, cell::OnceCell, ops::Range};

use super::{passage::Kind, plain::AnalyzedPassage};
use crate::{
    evidence::{EvidenceIndex, ToolResult, reckon},
    language::{
        cues,
        fold::{akin, fold, folded, stands_in},
        lexicon::{Lexicon, Word, WordSet},
        number::{Number, Precision},
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Relation between a passage and a result.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CitationScope {
    /// The result is the only one that the answer can speak of.
    Implied,
    /// A sentence before it in the same paragraph cites it.
    Near,
    /// Cited by the text that introduces it: a heading, a line with a colon.
    Introduced,
    /// It cites it itself.
    Cited,
}

/// A passage and what it is judged by.
pub struct CheckContext<'s> {
    /// The passage.
    pub plain: &'s AnalyzedPassage,
    /// Its kind.
    pub kind: Kind,
    /// Its language.
    pub lexicon: &'static Lexicon,
    /// The results that it reports, and how it does.
    pub sources: Vec<&'s ToolResult>,
    /// Relation between passage and sources.
    pub bond: CitationScope,
    /// The whole conversation.
    pub grounds: &'s EvidenceIndex,
    /// Numbers of the answer so far that were found right.
    pub told: &'s [f64],
    /// The citations in the passage: their places, and the source that each cites.
    pub cites: &'s [(usize, usize)],
    /// The model may have what is told from where it can't be read here: an image, a search of the upstream's own.
    pub unseen: bool,
    /// Nothing can be said to stand nowhere.
    pub endless: bool,
    /// Sums over the rows of its sources, once a number asks for them.
    pub sums: OnceCell<RowSums>,
    /// The passage's numbers that stand on its results and the conversation, or are reckoned from such, once its values were looked at.
    pub known: OnceCell<Vec<f64>>,
    /// Numbers of the records that have a word of the passage, once a count asks for them.
    pub chosen: OnceCell<Vec<u64>>,
    /// Factors by which a word of the passage or the question tells values for more or less, once a number asks for them.
    pub scales: OnceCell<Vec<f64>>,
}

/// Sums over the rows of a passage's sources: over all rows, and over those that words of the question or the passage choose.
#[derive(Debug)]
pub struct RowSums {
    /// Columns of numbers.
    pub columns: Vec<Vec<f64>>,
    /// Sums of the products, and of the sums, of two columns.
    pub products: Vec<f64>,
    /// Sums, averages and ranges of the columns, and the products: without signs, in ascending order.
    pub plain: Vec<f64>,
}

/// Something found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClaimFinding {
    /// The check that made it.
    pub rule: &'static str,
    /// Violation code.
    pub code: Code,
    /// Byte range in the passage.
    pub span: Range<usize>,
    /// Claimed value, as written.
    pub found: String,
    /// Correct value, or what would make the claim true.
    pub expected: String,
    /// Certainty of the finding.
    pub certainty: Certainty,
}

/// Words before a number among which one may say that it is told about.
const HEDGE_WORDS: usize = 2;

impl<'s> CheckContext<'s> {
    /// A passage whose citations have no places, in an answer of which no number was found right so far.
    pub fn new(
        plain: &'s AnalyzedPassage,
        kind: Kind,
        lexicon: &'static Lexicon,
        sources: Vec<&'s ToolResult>,
        bond: CitationScope,
        grounds: &'s EvidenceIndex,
    ) -> Self {
        let unseen = grounds.has_unseen() || sources.iter().any(|source| source.has_media);
        Self {
            plain,
            kind,
            lexicon,
            unseen,
            endless: unseen || grounds.is_endless(),
            sources,
            bond,
            grounds,
            told: &[],
            cites: &[],
            sums: OnceCell::new(),
            known: OnceCell::new(),
            chosen: OnceCell::new(),
            scales: OnceCell::new(),
        }
    }

    /// The passage's text, without citations.
    pub fn text(&self) -> &'s str {
        &self.plain.text
    }

    /// Is its value to be looked for: does a citation cover it as near as this, is all of the conversation known, and is it no question?
    pub fn is_judged(&self, from: CitationScope) -> bool {
        self.bond >= from && !self.endless && !self.plain.asks()
    }

    /// Does any of its words stand in this set, or end with one of its endings (`n't`)?
    pub fn says(&self, set: &WordSet) -> bool {
        let ending = |word: &str| {
            set.iter()
                .filter(|known| known.starts_with(['\'', '’']) || *known == "n't" || *known == "n’t")
                .any(|known| word.ends_with(known.as_str()))
        };
        // `since May 2016` hedges nothing.
        let month = |word: &Word| word.lower == "may" && word.start > 0 && self.text().get(word.start..word.end) == Some("May");
        let says = |word: &Word| set.contains(&word.lower) || (word.lower.contains(['\'', '’']) && ending(&word.lower));
        self.plain.words.iter().any(|word| says(word) && !month(word))
    }

    /// Does it tell of a failure?
    pub fn tells_failure(&self) -> bool {
        let lower = self.plain.lower();
        self.lexicon.failures.iter().any(|part| lower.contains(part.as_str()))
    }

    /// Does this number follow from one of its results, or stand anywhere in the conversation?
    pub fn has_number(&self, number: &Number, precision: Precision) -> bool {
        self.sources.iter().any(|source| self.grounds.has_number(number, precision, source)) || reckon::lies_between_times(self, number)
    }

    /// Is what lies there, a number with its unit or a time, told about: `about 20 km`, `約20分`?
    pub fn is_hedged(&self, span: &Range<usize>) -> bool {
        let says = |word: &Word| self.lexicon.near.contains(&word.lower) || cues::is_about(&word.lower);
        self.words_before(span.start).iter().rev().take(HEDGE_WORDS).any(says) || cues::is_marked_about(self.text(), span)
    }

    /// The character before a place, blanks left out.
    pub fn sign_before(&self, place: usize) -> Option<char> {
        self.text().get(..place).unwrap_or_default().trim_end().chars().next_back()
    }

    /// Is this result among those that it is compared with?
    pub fn is_source(&self, other: &ToolResult) -> bool {
        self.sources.iter().any(|source| std::ptr::eq(*source, other))
    }

    /// The words that begin at or after `place`.
    pub fn words_after(&self, place: usize) -> &[Word] {
        let from = self.plain.words.partition_point(|word| word.start < place);
        self.plain.words.get(from..).unwrap_or_default()
    }

    /// The words that end at or before `place`.
    pub fn words_before(&self, place: usize) -> &[Word] {
        let to = self.plain.words.partition_point(|word| word.end <= place);
        self.plain.words.get(..to).unwrap_or_default()
    }

    /// Does what follows `place` narrow nothing: only words of the language's scope, or of what was asked for?
    pub fn is_open_end(&self, words: &[Word], source: &ToolResult) -> bool {
        let asked = |word: &str| stands_in(source.folded_arguments(), &fold(word));
        let known = |word: &Word| {
            let lower = word.lower.as_str();
            self.lexicon.scope.contains(lower) || self.lexicon.found.contains(lower) || self.lexicon.common.contains(lower) || asked(lower)
        };
        words.iter().all(known)
    }
}

/// Do these words, as a text has them, name the thing that these words of a name (`get_all_players`) do?
pub fn names_thing(said: &str, name: &[String], lexicon: &Lexicon) -> bool {
    NounPhrase::new(said, lexicon).names(name)
}

/// Words as a text has them, to be compared with many names.
pub struct NounPhrase<'l> {
    /// Folded.
    pub folded: Cow<'l, str>,
    english: &'l [String],
}

impl<'l> NounPhrase<'l> {
    /// Reads them.
    pub fn new(said: &'l str, lexicon: &'l Lexicon) -> Self {
        // `l'attività`, `d’un`: what is behind the apostrophe.
        let said = said.split_once(['\'', '’']).map_or(said, |(_, rest)| if rest.chars().count() > 2 { rest } else { said });
        let folded = folded(said);
        let english = lexicon.english(&folded);
        Self { folded, english }
    }

    /// Do they name the thing that these words of a name do?
    pub fn names(&self, name: &[String]) -> bool {
        name.iter().any(|word| {
            let known = akin(&self.folded, word) || self.folded == word.as_str() && word.len() > 1;
            known || self.english.iter().any(|noun| noun == word || noun == word.trim_end_matches('s') || *noun == singular(word))
        })
    }
}

fn singular(word: &str) -> String {
    word.strip_suffix("ies").map_or_else(|| word.strip_suffix("es").unwrap_or(word).to_owned(), |stem| format!("{stem}y"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::{fold::name_words, lexicon::all, tool_names::tool_nouns};

    #[test]
    fn things() {
        let names = |said: &str, name: &str, at: usize| names_thing(said, &name_words(name), &all()[at]);
        assert!(names("players", "get_all_players", 0) && names("Spieler", "get_all_players", 1) && names("tâches", "list_tasks", 3));
        assert!(names("cities", "city_list", 0) && !names("goals", "get_all_players", 0));
        assert_eq!(tool_nouns("get_all_players", &all()[0]), ["players"]);
    }
}
