//! The record that a sentence puts at an end of a scale, where another one lies there: `Elder has the most honey`. Pure.
//!
//! The column is the one that the words beside the superlative name, else the question's, else the one that such a superlative is told of,
//! else the only one. What the question chooses by a value is compared among those that have it.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::{
    checks::{
        account::sentence,
        selection::{
            QUESTION_WORDS_MAX, RecordValue, Records,
            another::{by_columns, named_alone},
            clauses, data, denies, folded_words, is_nothing_said, only_result, scale,
        },
        states,
    },
    context::{CheckContext, ClaimFinding},
    language::{
        date::Date,
        fold::{akin, fold},
        lexicon::Word,
        number::Number,
        word_list::{WordSet, data_file},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Words behind a superlative that may name its column.
const NAMING_WORDS: usize = 4;
/// Records among which one can be wrongly put at an end.
const RECORDS_MIN: usize = 2;

/// Words of what is reckoned from several columns.
const RATES: [&str; 12] = ["per", "pro", "par", "por", "each", "average", "ratio", "value", "total", "altogether", "insgesamt", "pauschal"];
/// Superlatives that need a noun: `the most honey`.
const MOSTS: [&str; 8] = ["most", "least", "fewest", "meisten", "meiste", "wenigsten", "meeste", "najwiecej"];

/// Parts of the names of columns of years.
const YEARS: [&str; 6] = ["year", "jahr", "annee", "anno", "built", "vintage"];

/// A family of superlatives.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScaleEnd {
    words: WordSet,
    /// Two words each, of the second one its beginning: `mas barat`.
    phrases: Vec<(String, String)>,
    /// The upper end.
    most: bool,
    /// Either end may be meant.
    either: bool,
    /// Only a question for one of several means it so.
    asked: bool,
    /// It is told of dates.
    dates: bool,
    /// Parts of the names of the columns that it is told of.
    columns: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScaleEnds {
    end: Vec<ScaleEnd>,
}

impl ScaleEnd {
    /// Are these two words of it: `plus chère` of `plus cher`?
    fn has_phrase(&self, (one, other): (&String, &String)) -> bool {
        let begins = |stem: &str| other.strip_prefix(stem).is_some_and(|ending| ending.chars().count() <= ENDING_CHARS);
        self.phrases.iter().any(|(first, stem)| first == one && begins(stem))
    }
}

/// Letters of an adjective's ending.
const ENDING_CHARS: usize = 3;

fn scale_ends() -> &'static [ScaleEnd] {
    static ALL: OnceLock<ScaleEnds> = OnceLock::new();
    &ALL.get_or_init(|| data_file(include_str!("../../language/lexicon/ends.toml"))).end
}

/// The finding of a sentence that puts a record at an end where it doesn't lie.
pub(crate) fn ends(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let source = only_result(scene).filter(|_| scene.kind == Kind::Sentence)?;
    let question = scene.grounds.asked.words();
    if question.len() > QUESTION_WORDS_MAX
        || scene.plain.asks()
        || scene.text().contains(['+', '='])
        || [&scene.plain.words[..], question].into_iter().any(|words| words.iter().any(denies) || set_apart(words))
        || scene.plain.words.iter().any(is_nothing_said)
        || super::superlative::holds_for_neighbours(scene.text())
        || super::superlative::holds_for_neighbours(&scene.grounds.asked)
    {
        return None;
    }
    let own = only_end(&scene.plain.words, |end| !end.asked);
    let (end, words, at) = match own {
        EndSearch::One(end, at) => (end, &scene.plain.words[..], at),
        EndSearch::Several => return None,
        // What the question asks for is told first.
        EndSearch::None if scene.told.is_empty() => match only_end(question, |end| !end.asked || asks_for_one(question)) {
            EndSearch::One(end, at) => (end, question, at),
            _ => return None,
        },
        EndSearch::None => return None,
    };
    let next = words.get(at + 1).map(|word| fold(&word.lower));
    let before = at.checked_sub(1).and_then(|at| words.get(at)).map_or("", |word| word.lower.as_str());
    // `Am günstigsten ist die dritte`; elsewhere `am` tells how something is done.
    let predicate = || at == 1 && words.get(2).is_some_and(|verb| matches!(verb.lower.as_str(), "ist" | "sind" | "war" | "waren"));
    if before == "am" && !predicate() || is_of_rate(words) || is_of_rate(question) {
        return None;
    }
    // `Twelve weeks from the last, the earliest date is 27 April`: a day that no record has.
    let of_records = |date: &Date| source.facts().dates.dates.iter().any(|own| date.is(own));
    if !scene.plain.dates().dates.iter().all(of_records) {
        return None;
    }
    let records = Records::of(source)?;
    if records.total() < RECORDS_MIN || records.are_lines() {
        return None;
    }
    let of_sentence = std::ptr::eq(words, &raw const scene.plain.words[..]);
    let superlative = of_sentence.then(|| words.get(at)).flatten();
    let by_words = column(&records, end, words, at, &scene.plain.words, question);
    let column = by_words.or_else(|| {
        let of_figure = || column_of_figure(scene, named(scene, &records, superlative)?);
        (end.columns.is_empty() && !end.either && !end.dates).then(of_figure).flatten()
    })?;
    let record = named(scene, &records, superlative).or_else(|| told(scene, &records, column))?;
    // `The most expensive bottle`: not the one with the most bottles.
    let names_column = |next: &String| column.contains(next.trim_end_matches('s')) || akin(column, next) || data().plain.contains(next);
    if MOSTS.contains(&&*fold(&words.get(at)?.lower)) && !next.as_ref().is_some_and(names_column) {
        return None;
    }
    // `the cheapest in Porto`: among those that the question chooses.
    let chosen: Vec<String> = scale::chosen(&records, question, column);
    let among: Vec<&[RecordValue<'_>]> = scale::among(&records, &chosen).collect();
    if among.len() < RECORDS_MIN || !among.iter().any(|other| std::ptr::eq(*other, record)) {
        return None;
    }
    let mine = scale::place(record, column)?;
    let others: Vec<f64> = among.iter().filter_map(|record| scale::place(record, column)).collect();
    let (above, below) = (others.iter().any(|other| *other > mine), others.iter().any(|other| *other < mine));
    let wrong = match (end.either, end.most) {
        (true, _) => above && below,
        (false, true) => above,
        (false, false) => below,
    };
    let best = others.iter().copied().reduce(if end.most { f64::max } else { f64::min })?;
    let shown = among.iter().find(|record| scale::place(record, column) == Some(best))?;
    let shown: Vec<String> = shown.iter().take(3).map(RecordValue::shown).filter(|shown| !shown.is_empty()).collect();
    wrong.then(|| sentence::whole(scene, "ends", Code::ClaimMismatch, &shown.join(", "), Certainty::Likely))
}

/// True of words of what is reckoned from several columns. `por 189 €` is none.
fn is_of_rate(words: &[Word]) -> bool {
    let figure = |at: usize| words.get(at + 1).is_some_and(|next| next.lower.starts_with(|c: char| c.is_ascii_digit()));
    words.iter().enumerate().any(|(at, word)| RATES.contains(&word.lower.as_str()) && !figure(at))
}

/// True where a word sets records apart, or compares some with others. A word of a superlative doesn't: `le plus cher`.
fn set_apart(words: &[Word]) -> bool {
    let folded: Vec<String> = words.iter().map(|word| fold(&word.lower)).collect();
    let begins_end =
        |at: usize| folded.get(at).zip(folded.get(at + 1)).is_some_and(|two| scale_ends().iter().any(|end| end.has_phrase(two)));
    folded.iter().enumerate().any(|(at, word)| sets_apart(word) && !begins_end(at))
}

/// True of such a word, folded.
fn sets_apart(folded: &str) -> bool {
    let own = scale_ends().iter().any(|end| end.words.contains(folded));
    let of_order = matches!(
        folded,
        "new"
            | "single"
            | "still"
            | "already"
            | "yet"
            | "all"
            | "every"
            | "other"
            | "others"
            | "alle"
            | "allen"
            | "tous"
            | "toutes"
            | "todos"
            | "todas"
    );
    data().limits.contains(folded) && !own && !of_order
}

/// A search for superlatives.
enum EndSearch {
    None,
    One(&'static ScaleEnd, usize),
    Several,
}

/// The only superlative among these words, and its place.
fn only_end(words: &[Word], is_meant: impl Fn(&ScaleEnd) -> bool) -> EndSearch {
    let folded: Vec<String> = words.iter().map(|word| fold(&word.lower)).collect();
    let phrase = |at: usize| {
        let two = (at.checked_sub(1).and_then(|before| folded.get(before))?, folded.get(at)?);
        scale_ends().iter().find(|end| end.has_phrase(two))
    };
    let mut all = folded.iter().enumerate().filter_map(|(at, word)| {
        // `last week`, `the first of May`: a time.
        let time = || words.get(at + 1).is_some_and(|next| data().times.contains(&next.folded()) || next.lower == "of");
        let single = || scale_ends().iter().find(|end| is_meant(end) && end.words.contains(word) && phrase(at + 1).is_none());
        let end = phrase(at).filter(|end| is_meant(end)).or_else(single)?;
        if end.asked && time() {
            return None;
        }
        Some((end, at))
    });
    match (all.next(), all.next()) {
        (None, _) => EndSearch::None,
        (Some((end, at)), None) => EndSearch::One(end, at),
        _ => EndSearch::Several,
    }
}

/// True of a question for one of several: `Which loan is due first?`
fn asks_for_one(question: &[Word]) -> bool {
    const FIRST: [&str; 17] = [
        "which", "who", "who's", "what", "what's", "welche", "welcher", "welches", "wer", "quel", "quelle", "qui", "cuál", "quién",
        "quale", "chi", "welk",
    ];
    question.first().is_some_and(|first| FIRST.contains(&first.lower.as_str()))
}

/// The record that the sentence names in the clause of its superlative, or up to there; where only the question has one, the first.
fn named<'r, 's>(scene: &CheckContext<'_>, records: &'r Records<'s>, superlative: Option<&Word>) -> Option<&'r [RecordValue<'s>]> {
    let clauses = clauses(scene);
    let own = clauses.iter().find(|clause| superlative.is_none_or(|word| clause.iter().any(|own| own.start == word.start)))?;
    let folded = folded_words(own).join(" ");
    if states::is_unsure(&folded, own) {
        return None;
    }
    let in_clause = by_columns(records, &folded);
    if in_clause.iter().any(|(_, named)| named.len() > 1) {
        return None;
    }
    let end = own.last().map_or(0, |last| last.end);
    in_clause
        .into_iter()
        .find_map(|(_, named)| named.first().copied())
        .or_else(|| named_alone(records, &fold(scene.text().get(..end).unwrap_or_default())).map(|(_, record)| record))
}

/// The only record that has a number of the sentence in that column, and no other number of it is told.
fn told<'r>(scene: &CheckContext<'_>, records: &'r Records<'_>, column: &str) -> Option<&'r [RecordValue<'r>]> {
    let numbers = scene.plain.numbers().iter().filter(|number| !number.ordinal && !scene.plain.is_taken(&(number.span.start..number.end)));
    let mut all = numbers.flat_map(|number| {
        let has = move |record: &&Vec<RecordValue<'_>>| {
            record.iter().any(|value| value.key == column && value.number.is_some_and(|own| number.readings().any(|told| told.rounds(own))))
        };
        records.all().iter().filter(has)
    });
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    Some(one)
}

/// The column in which a record has the only figure that the sentence tells: `Steinkar, at 2,410 m`.
fn column_of_figure<'s>(scene: &CheckContext<'_>, record: &[RecordValue<'s>]) -> Option<&'s str> {
    let told = |number: &&Number| !number.ordinal && !number.percent && !scene.plain.is_taken(&(number.span.start..number.end));
    let mut numbers = scene.plain.numbers().iter().filter(told);
    let (Some(number), None) = (numbers.next(), numbers.next()) else { return None };
    let is = |value: &&RecordValue<'s>| value.number.is_some_and(|own| number.readings().any(|told| told.rounds(own)));
    let mut columns = record.iter().filter(is);
    let (Some(one), None) = (columns.next(), columns.next()) else { return None };
    Some(one.key)
}

/// The column that the superlative is told of.
fn column<'s>(records: &Records<'s>, end: &ScaleEnd, words: &[Word], at: usize, sentence: &[Word], question: &[Word]) -> Option<&'s str> {
    let all = scale::columns(records, |value| {
        let of_year = YEARS.iter().any(|part| value.key.contains(part));
        scale::moment(value).is_some() || (!end.dates || of_year) && value.number.is_some()
    });
    let only = |columns: Vec<&'s str>| {
        if let [one] = columns[..] {
            Some(Some(one))
        } else if columns.is_empty() {
            None
        } else {
            Some(None)
        }
    };
    let behind = scale::named_by(&all, words.iter().skip(at + 1).take(NAMING_WORDS));
    let numbers: Vec<&str> = if end.dates {
        all.clone()
    } else {
        let has_number = |key: &&str| records.all().iter().flatten().any(|value| value.key == *key && value.number.is_some());
        all.iter().copied().filter(has_number).collect()
    };
    let hinted: Vec<&str> = numbers.iter().copied().filter(|key| end.columns.iter().any(|part| key.contains(part.as_str()))).collect();
    // `the most expensive bottle`: the price is meant, not the number of bottles.
    if let [one] = hinted[..]
        && !behind.iter().any(|key| hinted.contains(key))
    {
        return Some(one);
    }
    if let Some(found) = only(behind) {
        return found;
    }
    if let Some(found) = only(scale::named_by(&all, sentence.iter().chain(question))) {
        return found;
    }
    let all = numbers;
    if let Some(found) = only(hinted) {
        return found;
    }
    match all[..] {
        [one] if end.dates || end.columns.is_empty() => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    const HIVES: &str = r#"[{"hive":"Aspen","honey_kg":14.5,"mites":1.2,"queen":"2025-05-02"},{"hive":"Cedar","honey_kg":22,"mites":2.1,"queen":"2024-06-11"},{"hive":"Elder","honey_kg":18,"mites":3.6,"queen":"2023-05-30"}]"#;

    #[test]
    fn records_at_an_end() {
        let wrong = |asked: &str, text: &str| find(ends, asked, &[("list_hives", "{}", HIVES)], 0, text).is_some();
        for (asked, text) in [
            ("Which hive has the most honey?", "Elder has the most honey."),
            ("Which hive has the most honey?", "Aspen, ahead of Cedar."),
            ("And the mites?", "Cedar has the highest mites count of all."),
            ("And the mites?", "At 3.6 Elder has the lowest mites count."),
            ("Whose queen is the oldest?", "The oldest queen is that of Aspen."),
            ("Which queen came first?", "Aspen."),
            // The figure tells the column.
            ("Which of them is the highest?", "Elder, at 18."),
        ] {
            assert!(wrong(asked, text), "{text}");
        }
        for (asked, text) in [
            ("Which hive has the most honey?", "Cedar has the most honey."),
            ("Which hive has the most honey?", "Elder has the second most honey."),
            ("Which hive has the most honey per mite?", "Aspen has the most honey."),
            ("Which hive has the most brood?", "Aspen has the most brood."),
            ("And?", "Elder is the most defensive hive."),
            ("Whose queen is the oldest?", "Elder has the oldest queen."),
            ("Which of them is the highest?", "Cedar, at 22."),
            ("Which of them is the highest?", "Elder, at 7."),
            ("What happened last week?", "Aspen was fed."),
        ] {
            assert!(!wrong(asked, text), "{text}");
        }
    }

    #[test]
    fn superlatives_of_two_words() {
        const FARES: &str = r#"[{"flight":"TP762","departs":"07:10","price_eur":189,"bottles":3},{"flight":"SK4680","departs":"11:35","price_eur":142,"bottles":9},{"flight":"DY1793","departs":"18:20","price_eur":97,"bottles":1}]"#;
        let wrong = |text: &str| find(ends, "Flights on Friday?", &[("search_flights", "{}", FARES)], 0, text).is_some();
        for (text, expected) in [
            ("The most expensive is DY1793.", true),
            ("The most expensive is TP762.", false),
            ("The most expensive bottles are on SK4680.", true),
            ("Le moins cher est le TP762 à 189 €.", true),
            ("Le moins cher est le DY1793 à 97 €.", false),
            ("El más barato es el TP762, por 189 €.", true),
            ("Il più economico è il DY1793 a 97 €.", false),
            ("O mais barato é o TP762, por 189 €.", true),
            ("En ucuzu 189 EUR ile TP762.", true),
            ("Am günstigsten ist TP762.", true),
            ("Am günstigsten ist DY1793.", false),
            ("TP762 costs more per bottle.", false),
        ] {
            assert_eq!(wrong(text), expected, "{text}");
        }
    }
}
