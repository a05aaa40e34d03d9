//! Words that show how a passage means its numbers: that it reckons, that something is the most of its kind. Data. Pure.

use std::sync::OnceLock;

use serde::Deserialize;

use super::{
    lexicon::WordSet,
    number::Number,
    word_list::{WordList, data_file},
};
use crate::judge::claims::plain::AnalyzedPassage;

/// Role of a number by the words around it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// A share of something, a change, in percent.
    Share,
    /// An average.
    Average,
    /// A total.
    Total,
    /// Not said, or something else.
    Any,
}

/// Words by which all of several things are spoken of, in any language.
pub static ALL: WordList = WordList::new(&[
    "both",
    "all",
    "beide",
    "alle",
    "beiden",
    "allebei",
    "tous",
    "toutes",
    "ambos",
    "ambas",
    "todos",
    "todas",
    "entrambi",
    "entrambe",
    "tutti",
    "tutte",
    "oba",
    "obie",
    "wszystkie",
]);

/// Words that join what they stand between, or set it against each other, in any language.
pub static CONJUNCTIONS: WordList = WordList::new(&[
    "and", "but", "und", "aber", "et", "mais", "y", "pero", "e", "ma", "en", "maar", "i", "ale", "ve", "ama", "och", "men",
]);

/// The words of `lexicon/reckon.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cues {
    reckons: WordSet,
    extremes: WordSet,
    averages: WordSet,
    totals: WordSet,
}

fn cues() -> &'static Cues {
    static ALL: OnceLock<Cues> = OnceLock::new();
    ALL.get_or_init(|| data_file(include_str!("lexicon/reckon.toml")))
}

/// Does the passage show that it reckons? Scripts without blanks show it by no word: it is taken for granted.
pub fn reckons(plain: &AnalyzedPassage) -> bool {
    *plain.reckons.get_or_init(|| read_reckons(plain))
}

fn read_reckons(plain: &AnalyzedPassage) -> bool {
    let sign = plain.text.contains(['=', '×', '÷', '≈', '~', '+', '|']) || plain.text.contains(" x ") || plain.text.contains(" * ");
    let spaceless = !plain.text.is_ascii() && plain.text.chars().any(|c| matches!(c, '\u{3040}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'));
    sign || spaceless || plain.words.iter().any(|word| cues().reckons.contains(&word.lower))
}

/// Do these words ask for something reckoned?
pub fn asks_to_reckon(asked: &[super::lexicon::Word]) -> bool {
    asked.iter().any(|word| {
        let lower = word.lower.as_str();
        cues().averages.contains(lower) || cues().totals.contains(lower) || matches!(lower, "per" | "pro" | "each" | "ratio" | "difference")
    })
}

/// Role of a number by the words right around it.
pub fn role(plain: &AnalyzedPassage, number: &Number) -> Role {
    if number.percent {
        return Role::Share;
    }
    if is_average(plain, number) {
        return Role::Average;
    }
    if is_near(plain, number, &cues().totals) { Role::Total } else { Role::Any }
}

/// True if a word right around a number tells that it is an average.
pub fn is_average(plain: &AnalyzedPassage, number: &Number) -> bool {
    is_near(plain, number, &cues().averages)
}

fn is_near(plain: &AnalyzedPassage, number: &Number, words: &WordSet) -> bool {
    let near = |word: &super::lexicon::Word| {
        let (from, to) = if word.start < number.span.start { (word.end, number.span.start) } else { (number.end, word.start) };
        let gap = plain.text.get(from.min(to)..to).unwrap_or_default();
        gap.len() <= 24 && !gap.contains([',', ';', '(', ':', '–', '—', '.'])
    };
    plain.words.iter().filter(|word| words.contains(&word.lower)).any(near)
}

/// True of a passage that tells a total.
pub fn tells_total(plain: &AnalyzedPassage) -> bool {
    plain.words.iter().any(|word| cues().totals.contains(&word.lower))
}

/// True of a word that tells of an end of a scale.
pub fn is_extreme(word: &str) -> bool {
    cues().extremes.contains(word)
}

/// Words of the passage that tell of an end of a scale, by their places.
pub fn extremes(plain: &AnalyzedPassage) -> impl Iterator<Item = &super::lexicon::Word> {
    plain.words.iter().filter(|word| cues().extremes.contains(&word.lower))
}
