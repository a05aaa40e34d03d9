//! A count that the question asks for ("Seven", of five), and a count of a part of all ("three of the five are free"). Pure.

use std::ops::Range;

use crate::{
    checks::{
        acts,
        selection::{QUESTION_WORDS_MAX, Reading, Records, SelectionClaim, clauses, denies, is_plain, only_result},
        values::is_of_name,
    },
    context::{CheckContext, ClaimFinding},
    evidence::{derive, facts::NamedValue},
    language::{
        fold::{akin, fold},
        lexicon::Word,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Records of which some are counted.
const RECORDS: std::ops::RangeInclusive<usize> = 2..=64;
/// Words before a count that answers a question, and between the count of a part and that of all.
const BEFORE_WORDS: usize = 5;
const BETWEEN_WORDS: usize = 3;
/// Words that choose records, of which any may be meant.
const DECIDED_MAX: usize = 5;
/// Words that nothing decides.
const OPEN_MAX: usize = 3;

/// Words behind the number of an event's occurrences.
static TIMES: WordList = WordList::new(&["times", "mal", "fois", "veces", "volte", "vezes", "keer", "razy", "kez", "kere"]);

/// A number that counts, and where it stands.
pub struct ToldCount {
    /// Its place.
    pub place: Range<usize>,
    /// The number.
    pub count: u64,
}

/// The finding of a count that none of the words by which it may be chosen makes.
pub(crate) fn asked_counts(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let source = only_result(scene).filter(|source| scene.kind != Kind::Heading && (source.reads() || source.lists_records()))?;
    let may_count = |word: &Word| scene.lexicon.count(&word.lower).is_some() || is_half(&word.lower);
    if scene.plain.numbers().is_empty() && !scene.plain.words.iter().any(may_count) {
        return None;
    }
    let records = Records::of(source)?;
    let all = records.total();
    let told = counts_of(scene, all);
    let first = told.first()?;
    let reading = Reading { scene, source, records: &records };
    if records.are_lines() {
        // `It went down seven times`, of a log that has four lines.
        let lines = source.facts().lines as u64;
        let events = |count: &&ToldCount| scene.words_after(count.place.end).first().is_some_and(|word| TIMES.has(&word.lower));
        let stands = |value: f64| scene.grounds.said_numbers_have(value) || source.facts().numbers.contains(&value);
        let wrong = |count: &&ToldCount| {
            lines > 1 && (lines + 1..=3 * lines).contains(&count.count) && !is_limited(scene, count) && !stands(count.count as f64)
        };
        return told.iter().filter(events).find(wrong).map(|count| finding(scene, count, &lines.to_string()));
    }
    if !RECORDS.contains(&all) {
        return None;
    }
    let question = scene.grounds.asked.words();
    if let Some(finding) = pairs(scene, &records, &told) {
        return Some(finding);
    }
    if let Some(count) = beyond_all(&reading, &told) {
        return Some(finding(scene, count, &all.to_string()));
    }
    let of_part = told.windows(2).find(|two| two[1].count == all as u64 && is_part(scene, &two[0], &two[1]));
    let before = scene.words_before(first.place.start);
    let asked =
        asks_how_many(scene) && before.len() <= BEFORE_WORDS && before.last().is_none_or(|word| leads_to_count(scene, &records, word));
    let (own, whole) = match of_part {
        Some(two) => (&two[0], Some(&two[1])),
        // `One of the two`: of those that another word chose.
        None if asked && !told.get(1).is_some_and(|next| is_part(scene, first, next)) => (first, None),
        None => return None,
    };
    // `Over 300 euros`: what a number limits isn't decided by words. `One of four bays`: of other things.
    let limited = scene.grounds.asked.numbers().iter().any(|number| number.unit.is_some())
        || scene.grounds.asked.numbers().iter().filter(|number| !number.ordinal).count() > 1;
    let of_others = whole.is_some_and(|whole| {
        scene.words_after(whole.place.end).first().is_some_and(|noun| {
            let own = noun.folded();
            let beside = scene.text().get(whole.place.end..noun.start).is_some_and(|gap| gap.trim().is_empty());
            let asked = || question.iter().any(|word| word.lower == noun.lower);
            let same = source.facts().lists.iter().filter(|list| list.length == all).count() <= 1
                && !source.facts().numbers.contains(&(all as f64));
            !same && beside && own.ends_with('s') && !is_plain(noun) && !asked() && !reading.names_list(&own) && !records.decide(&own)
        })
    });
    if limited || of_others || is_limited(scene, own) || own.count > 2 * all as u64 {
        return None;
    }
    let clause = clause_of(scene, own)?;
    let apart =
        |word: &&Word| [Some(own), whole].into_iter().flatten().all(|count| word.end <= count.place.start || word.start >= count.place.end);
    let words: Vec<Word> = clause.iter().filter(apart).cloned().collect();
    let by_clause = reading.read(&words, question, SelectionClaim::Count)?;
    // A question that limits what it counts isn't decided by words.
    let by_question = if question.len() <= QUESTION_WORDS_MAX { Some(reading.read(question, &[], SelectionClaim::Count)?) } else { None };
    // What all records have chooses none.
    let choose = |decided: &[String]| -> Vec<String> {
        decided.iter().filter(|word| records.count(std::slice::from_ref(*word)) < all).cloned().collect()
    };
    let mut decided = choose(&by_clause.decided);
    let own_words = decided.clone();
    let mut open = by_clause.open.len();
    if let Some(question) = by_question {
        let more = choose(&question.decided);
        open = if decided.is_empty() { open.max(question.open.len()) } else { open };
        decided.extend(more);
    }
    decided.sort();
    decided.dedup();
    if decided.is_empty() || decided.len() > DECIDED_MAX || open > OPEN_MAX {
        return None;
    }
    let is_told = |leaf: &NamedValue| leaf.value.number() == Some(own.count as f64) && (leaf.record == 0 || derive::is_count(&leaf.key));
    if source.facts().leaves.iter().any(is_told) {
        return None;
    }
    // `Four units`, of a column of quantities.
    let is_quantity = |word: &String| records.all().iter().flatten().any(|value| value.names(word) && value.number.is_some());
    // `Six beds in Gams`: of something that no record tells.
    let is_foreign = || {
        scene.words_after(own.place.end).first().is_some_and(|noun| {
            let own = noun.folded();
            !is_plain(noun) && question.iter().any(|word| word.lower == noun.lower) && !reading.names_list(&own) && !records.decide(&own)
        })
    };
    if whole.is_none() && (decided.iter().any(is_quantity) || is_foreign()) {
        return None;
    }
    // `Five of the eight are taken`, where the question asks for those that are free.
    let turned = by_clause.decided.is_empty() && !by_clause.open.is_empty();
    let denied = turned || words.iter().chain(question).any(|word| denies(word) || word.lower.starts_with("un") || word.lower == "without");
    let subsets = 1..1_usize << decided.len();
    let mut made = subsets.map(|subset| {
        let own: Vec<String> = decided.iter().enumerate().filter(|(at, _)| subset & 1 << at != 0).map(|(_, word)| word.clone()).collect();
        records.count(&own) as u64
    });
    let expected = records.count(if own_words.is_empty() { &decided } else { &own_words });
    if expected == 0 || made.any(|count| count == own.count || denied && all as u64 - count == own.count) {
        return None;
    }
    Some(finding(scene, own, &expected.to_string()))
}

fn finding(scene: &CheckContext<'_>, count: &ToldCount, expected: &str) -> ClaimFinding {
    ClaimFinding {
        rule: "asked_counts",
        code: Code::CountMismatch,
        found: scene.text().get(count.place.clone()).unwrap_or_default().to_owned(),
        span: count.place.clone(),
        expected: expected.to_owned(),
        certainty: Certainty::Likely,
    }
}

/// `Two washers and three dryers`: each count beside the word of a value that so many records have.
fn pairs(scene: &CheckContext<'_>, records: &Records<'_>, told: &[ToldCount]) -> Option<ClaimFinding> {
    let kinds: Vec<(&ToldCount, String, usize)> = told
        .iter()
        .filter_map(|count| {
            let word = scene.words_after(count.place.end).first()?;
            let beside = scene.text().get(count.place.end..word.start)?.trim().is_empty();
            let kind = fold(&word.lower);
            (beside && !is_plain(word) && kind.chars().all(char::is_alphabetic) && records.say(&kind)).then_some((count, kind, word.end))
        })
        .collect();
    let joined = kinds.windows(2).all(|two| {
        let gap = scene.text().get(two[0].2..two[1].0.place.start).unwrap_or_default();
        matches!(gap.trim(), "and" | "," | ", and" | "und" | "et" | "y" | "e" | "en")
    });
    let closed = kinds.last().is_some_and(|(.., end)| {
        scene.text().get(*end..).is_some_and(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with(['.', '(', ';', '!']))
    });
    if kinds.len() < 2 || kinds.len() != told.len() || !joined || !closed {
        return None;
    }
    kinds.iter().find_map(|(count, kind, _)| {
        let own = records.count(std::slice::from_ref(kind)) as u64;
        (own != count.count && own > 0).then(|| finding(scene, count, &own.to_string()))
    })
}

/// A count of the things that the result lists, above all that it lists, and nothing else that it or anybody says.
fn beyond_all<'t>(reading: &Reading<'_, '_>, told: &'t [ToldCount]) -> Option<&'t ToldCount> {
    let Reading { scene, source, records } = *reading;
    let count = told.first()?;
    let facts = source.facts();
    let longest: usize = facts.lists.iter().map(|list| list.length).sum::<usize>().max(records.total());
    let value = count.count as f64;
    // The question may limit what is added up.
    let limited = || !scene.grounds.asked.numbers().is_empty();
    let stands = || {
        facts.leaves.iter().any(|leaf| leaf.value.number() == Some(value))
            || scene.grounds.said_numbers_have(value)
            || facts.columns().values().any(|column| column.iter().sum::<f64>() == value || limited() && is_sum_of_some(column, value))
            || facts.counts().contains(&count.count)
    };
    // The first line of a table names its columns.
    let head = usize::from(source.rows().columns);
    let lines = || records.total() + head < facts.lines;
    let first = scene.words_before(count.place.start);
    let noun = scene
        .words_after(count.place.end)
        .first()
        .filter(|word| scene.text().get(count.place.end..word.start).is_some_and(|gap| gap.trim().is_empty()));
    let of_list = noun.is_some_and(|noun| reading.names_list(&noun.folded()));
    // `How many crossings are there?`
    // Not `six beds in Gams`, of one of them.
    let of_one = || {
        let own = clause_of(scene, count).unwrap_or_default();
        own.iter().any(|word| !is_plain(word) && word.lower.chars().all(char::is_alphabetic) && records.say(&word.folded()))
    };
    let asked = asks_how_many(scene)
        && !of_one()
        && noun.is_some_and(|noun| {
            let own = noun.folded();
            noun.lower.ends_with('s')
                && scene.grounds.asked.words().iter().any(|word| word.lower == noun.lower || akin(&word.folded(), &own))
        });
    let alone =
        asks_how_many(scene) && first.is_empty() && noun.is_none_or(|noun| is_plain(noun) && !PREPOSITIONS.contains(&noun.lower.as_str()));
    // `6件`, `सात ऑर्डर`: scripts whose nouns have no such ending.
    let script =
        !scene.text().is_ascii() && matches!(acts::speech::language_of(scene.text(), &scene.plain.words), Some("ja" | "zh" | "hi"));
    let asked = asked || script && asks_how_many(scene) && told.iter().all(|other| other.count <= count.count);
    let is_apart = is_limited(scene, count) || first.len() > BEFORE_WORDS || !asked && !first.iter().all(is_plain);
    ((longest as u64 + 1..=3 * longest as u64).contains(&count.count) && (of_list || alone || asked) && !is_apart && !lines() && !stands())
        .then_some(count)
}

/// The words of the clause in which a count stands.
fn clause_of<'s>(scene: &'s CheckContext<'_>, count: &ToldCount) -> Option<&'s [Word]> {
    let place = count.place.start;
    clauses(scene).into_iter().find(|clause| clause.iter().any(|word| word.start <= place && place < word.end))
}

/// Values of a column of which any may be added up.
const SUMMED_MAX: usize = 8;

/// True if some values of a short column make this sum.
fn is_sum_of_some(column: &[f64], sum: f64) -> bool {
    let chosen = |subset: u32| column.iter().enumerate().filter(move |(at, _)| subset & 1 << at != 0).map(|(_, value)| value);
    column.len() <= SUMMED_MAX && (1..1_u32 << column.len()).any(|subset| chosen(subset).sum::<f64>() == sum)
}

/// The counts of a passage, in its order.
pub fn counts_of(scene: &CheckContext<'_>, all: usize) -> Vec<ToldCount> {
    let plain = scene.plain;
    let mut found: Vec<ToldCount> = Vec::new();
    for number in plain.numbers() {
        let counts = !number.ordinal
            && !number.percent
            && number.unit.is_none()
            && !plain.is_taken(&(number.span.start..number.end))
            && !is_of_name(scene.text(), number.span.start);
        found.extend(number.whole().filter(|_| counts).map(|count| ToldCount { place: number.span.clone(), count }));
    }
    for word in &plain.words {
        // `Half of the six`
        let half = || is_half(&word.lower);
        let count = scene
            .lexicon
            .count(&word.lower)
            .or_else(|| half().then_some(all as u64 / 2).filter(|_| all.is_multiple_of(2)))
            .filter(|_| !found.iter().any(|count| count.place.start == word.start));
        found.extend(count.map(|count| ToldCount { place: word.start..word.end, count }));
    }
    found.sort_by_key(|count| count.place.start);
    found
}

fn is_half(word: &str) -> bool {
    matches!(word, "half" | "hälfte" | "moitié" | "mitad" | "metà" | "metade" | "helft")
}

/// Do only words that link two counts stand between them: `three of the five`?
fn is_part(scene: &CheckContext<'_>, part: &ToldCount, whole: &ToldCount) -> bool {
    const LINKS: [&str; 30] = [
        "of", "out", "the", "these", "those", "your", "our", "my", "all", "her", "his", "their", "von", "den", "der", "deinen", "ihren",
        "aller", "sur", "des", "les", "de", "las", "los", "tus", "sus", "su", "delle", "dei", "das",
    ];
    let between = scene.words_after(part.place.end).iter().take_while(|word| word.end <= whole.place.start);
    let words: Vec<&str> = between.map(|word| word.lower.as_str()).collect();
    !words.is_empty() && words.len() <= BETWEEN_WORDS && words.iter().all(|word| LINKS.contains(word)) && part.count < whole.count
}

/// May a count stand right behind this word: no name, and no word that leads to a place, a time or a price?
fn leads_to_count(scene: &CheckContext<'_>, records: &Records<'_>, word: &Word) -> bool {
    small_or_first(scene, word)
        && word.lower != "at"
        && !PREPOSITIONS.contains(&word.lower.as_str())
        && (is_plain(word) || !records.say(&word.folded()))
}

fn small_or_first(scene: &CheckContext<'_>, word: &Word) -> bool {
    let small = scene.text().get(word.start..).is_some_and(|text| text.starts_with(char::is_lowercase));
    small || scene.plain.words.first().is_some_and(|first| first.start == word.start)
}

/// Words that lead to a place, a time, a price or another thing.
const PREPOSITIONS: [&str; 34] = [
    "on", "of", "in", "with", "by", "for", "to", "from", "until", "since", "and", "or", "auf", "um", "mit", "bis", "ab", "zu", "seit",
    "und", "en", "con", "para", "por", "desde", "y", "avec", "pour", "et", "e", "per", "da", "met", "op",
];

/// Does the question ask for a count?
fn asks_how_many(scene: &CheckContext<'_>) -> bool {
    static MANY: PhraseList = PhraseList::in_any_case(&[
        "how many",
        "how often",
        "number of",
        "anzahl der",
        "nombre de",
        "número de",
        "numero di",
        "wie viele",
        "wieviele",
        "combien",
        "cuánt",
        "cuant",
        "quant",
        "hoeveel",
        "ile ",
        "kaç",
        "多少",
        "几",
        "いくつ",
        "何件",
        "कितन",
    ]);
    MANY.stands_in(scene.grounds.asked.lower())
}

/// Is the count one of some that are set apart, or told about: `the first three`, `about five`, `at least two`?
fn is_limited(scene: &CheckContext<'_>, count: &ToldCount) -> bool {
    let before = scene.words_before(count.place.start).iter().rev().take(2);
    before.into_iter().any(|word| {
        let own = fold(&word.lower);
        matches!(
            own.as_str(),
            "first"
                | "last"
                | "top"
                | "next"
                | "other"
                | "another"
                | "remaining"
                | "at"
                | "least"
                | "most"
                | "than"
                | "over"
                | "about"
                | "around"
                | "nearly"
                | "almost"
        ) || scene.lexicon.near.contains(&word.lower)
            || scene.lexicon.bounds.contains(&word.lower)
    })
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    const HUTS: &str = r#"{"huts":[{"hut":"Gams","shower":true,"dogs":false,"kind":"large"},{"hut":"Stein","shower":false,"dogs":false,"kind":"small"},{"hut":"Boden","shower":true,"dogs":true,"kind":"small"},{"hut":"Joch","shower":false,"dogs":false,"kind":"small"}]}"#;

    fn counted(asked: &str, text: &str) -> Option<(String, String)> {
        let finding = find(asked_counts, asked, &[("list_huts", r#"{"night":"2025-08-23"}"#, HUTS)], 0, text)?;
        Some((finding.found, finding.expected))
    }

    #[test]
    fn counts_of_a_part_and_counts_that_were_asked_for() {
        for (asked, text, found, expected) in [
            ("How many huts have a shower?", "Three of the four have a shower.", "Three", "2"),
            ("Which huts have a shower?", "3 of the 4 huts have a shower.", "3", "2"),
            ("How many allow dogs?", "Half of the four huts allow dogs.", "Half", "1"),
            ("How many are small?", "Two are small.", "Two", "3"),
            ("How many huts are there?", "Seven huts.", "Seven", "4"),
            ("How many do you see?", "Six at the moment.", "Six", "4"),
            ("How many huts can I stay at?", "There are six huts, from Gams to Joch.", "six", "4"),
            ("What is there?", "There are two large and two small ones: two large and two small.", "", ""),
            ("What is there?", "It lists two large and two small.", "two", "1"),
        ] {
            let wrong = (!found.is_empty()).then(|| (found.to_owned(), expected.to_owned()));
            assert_eq!(counted(asked, text), wrong, "{text}");
        }
    }

    #[test]
    fn counts_that_may_be_right() {
        for (asked, text) in [
            ("How many huts have a shower?", "Two of the four have a shower."),
            ("How many huts have no shower?", "Two of the four have none."),
            ("How many allow dogs?", "Three of the four don't."),
            ("Which are above 2,000 m and small?", "Two of the four small ones are."),
            ("How many have at least 12 beds?", "One of the four has."),
            ("How many huts are there?", "Four huts."),
            ("How many huts are there?", "About seven huts."),
            ("How many huts are there?", "The first three."),
            ("What is there?", "It lists one large and three small."),
            ("How many beds?", "Six beds in Gams."),
        ] {
            assert_eq!(counted(asked, text), None, "{text}");
        }
    }
}
