//! Words that show how a passage means its numbers: that it reckons, that something is the most of its kind. Data. Pure.

use std::{ops::Range, sync::OnceLock};

use serde::Deserialize;

use super::{
    lexicon::WordSet,
    number::Number,
    word_list::{WordList, data_file},
};
use crate::plain::AnalyzedPassage;

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

/// Those of [`ALL`] that tell of two.
pub static BOTH: WordList = WordList::new(&["both", "beide", "beiden", "allebei", "ambos", "ambas", "entrambi", "entrambe", "oba", "obie"]);

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
    about: WordSet,
    about_before: Vec<String>,
    about_behind: Vec<String>,
}

/// Does this word, in lower case, say in a language without a file of its own that what follows is told about?
pub fn is_about(word: &str) -> bool {
    cues().about.contains(word)
}

/// Characters of a counter behind a number, and of the mark behind it.
const COUNTER_CHARS: usize = 4;

/// Do the letters right before this place, or right behind that one, say that what lies between is told about: `約20分`, `20 kadar`?
pub fn is_marked_about(text: &str, span: &Range<usize>) -> bool {
    let before = text.get(..span.start).unwrap_or_default().trim_end();
    let behind = text.get(span.end..).unwrap_or_default().trim_start();
    let ends = || cues().about_before.iter().any(|mark| before.ends_with(mark.as_str()));
    // `20分ほど`
    let near = behind.char_indices().nth(COUNTER_CHARS).map_or(behind, |(at, _)| behind.get(..at).unwrap_or_default());
    ends() || cues().about_behind.iter().any(|mark| behind.starts_with(mark.as_str()) || !near.is_ascii() && near.contains(mark.as_str()))
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
    // `What part of it`, `how much of it`
    let part = |two: &[super::lexicon::Word]| {
        matches!((two[0].lower.as_str(), two[1].lower.as_str()), ("part", "of") | ("share", "of") | ("how", "far"))
    };
    // `What will that be?`, `what do I owe?`
    let comes_to = || {
        let begins = asked.windows(2).any(|two| {
            let lower = (two[0].lower.as_str(), two[1].lower.as_str());
            matches!(lower, ("what", "will" | "would" | "do" | "does" | "did") | ("how", "much"))
        });
        let sums = ["be", "owe", "pay", "cost", "come", "make"];
        begins
            && asked.iter().any(|word| sums.contains(&word.lower.as_str()))
            && asked.iter().any(|word| {
                word.lower.parse::<u64>().is_ok()
                    || matches!(word.lower.as_str(), "two" | "three" | "four" | "five" | "six" | "all" | "both")
            })
    };
    // `for ten people`: amounts for so many.
    let of_people = |two: &[super::lexicon::Word]| {
        const PEOPLE: [&str; 16] = [
            "people",
            "persons",
            "guests",
            "servings",
            "portions",
            "kids",
            "personen",
            "portionen",
            "personnes",
            "convives",
            "personas",
            "persone",
            "pessoas",
            "osób",
            "kişi",
            "kişilik",
        ];
        PEOPLE.contains(&two[1].lower.as_str())
    };
    // `Wie viele Eimer brauche ich?`
    let of_need = || {
        const HOW: [&str; 16] = [
            "how", "viele", "viel", "wieviel", "wieviele", "combien", "cuántos", "cuántas", "cuánto", "cuánta", "quanti", "quante",
            "quanto", "quantos", "hoeveel", "ile",
        ];
        const NEED: [&str; 14] = [
            "need",
            "brauche",
            "brauchen",
            "benötige",
            "benötigen",
            "faut",
            "necesito",
            "necesitamos",
            "servono",
            "serve",
            "preciso",
            "precisamos",
            "nodig",
            "potrzebuję",
        ];
        let has = |list: &[&str]| asked.iter().any(|word| list.contains(&word.lower.as_str()));
        has(&HOW) && has(&NEED)
    };
    asked.windows(2).any(part)
        || comes_to()
        || of_need()
        || asked.windows(2).any(of_people)
        || asked.iter().any(|word| {
            let lower = word.lower.as_str();
            cues().averages.contains(lower)
                || cues().totals.contains(lower)
                || matches!(lower, "per" | "pro" | "each" | "ratio" | "difference")
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
    if is_near(plain, number, &cues().totals) || adds_up(plain, number) { Role::Total } else { Role::Any }
}

/// True if a word right around a number tells that it is an average.
pub fn is_average(plain: &AnalyzedPassage, number: &Number) -> bool {
    is_near(plain, number, &cues().averages)
}

/// `They add up to 67.50`
fn adds_up(plain: &AnalyzedPassage, number: &Number) -> bool {
    let before: Vec<&str> = plain.words.iter().filter(|word| word.end <= number.span.start).map(|word| word.lower.as_str()).collect();
    matches!(before.as_slice(), [.., "add" | "adds" | "added", "up", "to"])
}

/// Characters between a number and a word that tells its role.
const NEAR_CHARS: usize = 24;

fn is_near(plain: &AnalyzedPassage, number: &Number, words: &WordSet) -> bool {
    let near = |word: &super::lexicon::Word| {
        let (from, to) = if word.start < number.span.start { (word.end, number.span.start) } else { (number.end, word.start) };
        let gap = plain.text.get(from.min(to)..to).unwrap_or_default();
        gap.chars().count() <= NEAR_CHARS && !gap.contains([',', ';', '(', ':', '–', '—', '.'])
    };
    plain.words.iter().filter(|word| words.contains(&word.lower)).any(near)
}

/// True of a passage that tells a total.
pub fn tells_total(plain: &AnalyzedPassage) -> bool {
    plain.words.iter().any(|word| cues().totals.contains(&word.lower))
}

/// True if the passage tells of an average.
pub fn tells_average(plain: &AnalyzedPassage) -> bool {
    plain.words.iter().any(|word| cues().averages.contains(&word.lower))
}

/// True of a word that tells of an end of a scale.
pub fn is_extreme(word: &str) -> bool {
    cues().extremes.contains(word)
}

/// Words of the passage that tell of an end of a scale, by their places.
pub fn extremes(plain: &AnalyzedPassage) -> impl Iterator<Item = &super::lexicon::Word> {
    plain.words.iter().filter(|word| cues().extremes.contains(&word.lower))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::number::numbers;

    #[test]
    fn what_is_told_about() {
        for (text, about) in [
            ("約20分です", true),
            ("20分ほど", true),
            ("saat 20 civarı", true),
            ("20 लोग के करीब", false),
            ("20 के करीब", true),
            ("koszt ok. 20 zł", true),
            ("20 people", false),
        ] {
            let number = &numbers(text)[0];
            assert_eq!(is_marked_about(text, &(number.span.start..number.end)), about, "{text}");
        }
        assert!(is_about("ongeveer") && !is_about("exactly"));
    }
}
