//! Counts: a number of things that the cited results have another number of. Pure.

use std::collections::BTreeSet;

use crate::{
    checks::{
        account::{
            named_records::{NamedRecord, NamedRecords},
            sentence::{LEAVES_OF, excludes},
        },
        counts::{counts_part, is_amount, is_made_in_passage, is_of_two_numbers},
    },
    context::{CheckContext, CitationScope, ClaimFinding, NounPhrase},
    evidence::{
        ToolResult, derive,
        facts::{NamedValue, ResultFacts, Scalar},
    },
    language::{
        cues,
        fold::{akin, fold, folded, key, name_words},
        lexicon::{self, Word},
        number::{Number, numbers},
        word_list::WordList,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Words after a number that may name what it counts.
const NOUN_WORDS_MAX: usize = 3;
/// Numbers by which a column may have been filtered.
const LIMITS_OF: usize = 12;
/// Words by which records may have been filtered.
const WORDS_OF: usize = 24;
/// Numbers above this may be what two numbers of a record leave.
const REMAINDER_FROM: u64 = 12;

/// `twelve hundred`: words that go on with a number.
static MAGNITUDES: WordList = WordList::new(&[
    "hundred", "thousand", "million", "dozen", "hundert", "tausend", "cent", "cents", "mille", "mil", "cento", "duizend", "honderd",
]);

/// Bytes of a range of values.
pub(super) const RANGE_BYTES_MAX: usize = 16;
/// Number from which on three times as many as there are records may be reckoned.
const FAR_FROM: u64 = 20;
/// Numbers of a passage, and of what was said, by which it is.
const MADE_OF: usize = 12;

/// Is it made of two other numbers of the passage, or of one and one that was said: 105 kg in jars of 500 g?
fn is_made_here(scene: &CheckContext<'_>, start: usize, value: u64) -> bool {
    let others = scene.plain.numbers().iter().filter(|other| other.span.start != start).take(MADE_OF);
    let others: Vec<f64> = others.flat_map(Number::readings).map(|reading| reading.value).take(MADE_OF * 2).collect();
    let said: Vec<f64> = scene.grounds.said_numbers().iter().rev().take(MADE_OF).copied().filter(|said| *said > 1.0).collect();
    let of_said = |one: &f64| {
        let is = |unit: f64, said: f64| (one * unit / said - value as f64).abs() < 1e-6;
        said.iter().any(|said| is(1.0, *said) || is(1000.0, *said))
    };
    is_made_in_passage(scene, start, value) || others.iter().chain(scene.told.iter().rev().take(MADE_OF)).any(of_said)
}

/// A number of things that the results have another number of, however small it is.
pub(super) fn counted(scene: &CheckContext<'_>, names: &NamedRecords<'_>) -> Option<ClaimFinding> {
    let sources = &scene.sources;
    // A cell of a table says what its column does; a sentence that another one's citation covers may count anything.
    let covered = scene.bond != CitationScope::Cited && scene.kind == Kind::Sentence;
    if covered
        || sources.iter().any(|source| source.is_partial() || source.failed)
        || scene.text().contains('|')
        || excludes(scene, 0..scene.text().len())
    {
        return None;
    }
    let mut said: Vec<(usize, usize, u64)> = Vec::new();
    for number in scene.plain.numbers() {
        let free = !number.ordinal && number.unit.is_none() && !scene.plain.is_taken(&(number.span.start..number.end));
        said.extend(number.whole().filter(|_| free).map(|whole| (number.span.start, number.end, whole)));
    }
    for word in &scene.plain.words {
        let known = scene.lexicon.count(&word.lower);
        said.extend(known.filter(|count| *count > 1).map(|count| (word.start, word.end, count)));
    }
    said.into_iter().find_map(|(start, end, value)| {
        // `five of our objects`
        let of_ours = match scene.words_after(end) {
            [of, our, ..] if of.lower == "of" && matches!(&*our.lower, "our" | "your" | "the" | "my" | "their" | "these" | "those") => {
                our.end
            }
            _ => end,
        };
        let partitive = of_ours != end;
        let end = of_ours;
        let after: Vec<&Word> = scene.words_after(end).iter().take(NOUN_WORDS_MAX).collect();
        let joined = after.first().is_some_and(|word| {
            scene.text().get(end..word.start).is_some_and(|gap| gap.trim_matches([' ', '*', '_', '\u{a0}', '-']).is_empty())
        });
        let before = scene.words_before(start).last();
        let near = before.is_some_and(|word| scene.lexicon.near.contains(&word.lower));
        let vague = before.is_some_and(|word| {
            let lower = word.lower.as_str();
            scene.lexicon.bounds.contains(lower) && !scene.lexicon.near.contains(lower)
                || scene.lexicon.parts.contains(lower) && lower != "of"
        });
        if !joined || vague || !(2..=10_000).contains(&value) || is_of_something(scene, end, start) || is_amount(scene, start) {
            return None;
        }
        // `twelve hundred`
        let magnitude = |word: &Word| MAGNITUDES.has(&word.lower);
        if after.first().copied().is_some_and(magnitude) || scene.words_after(start).first().is_some_and(magnitude) {
            return None;
        }
        let noun = noun(scene, end, &after);
        if noun.is_empty() || !sources.iter().all(|source| counts_of(&noun, scene, source)) {
            return None;
        }
        // `two Alexes`: people of one name.
        let capital =
            after.first().and_then(|word| scene.text().get(word.start..)).is_some_and(|rest| rest.starts_with(char::is_uppercase));
        if capital && scene.lexicon.language != "de" {
            return None;
        }
        let allowed: BTreeSet<u64> = sources.iter().flat_map(|source| allowed(source, scene, &noun)).collect();
        let told = sources.iter().any(|source| source.facts().numbers.contains(&(value as f64)))
            || scene.grounds.said_numbers_have(value as f64)
            || scene
                .grounds
                .results
                .iter()
                .any(|source| source.facts().lists.iter().any(|list| list.length as u64 == value) && !scene.is_source(source));
        let together: u64 = sources.iter().map(|source| most(source)).sum();
        if partitive && value <= together {
            return None;
        }
        let largest = sources.iter().map(|source| most(source)).max().unwrap_or(0);
        // `30 usable slots` of a column `slots`: an amount.
        let of_column = |word: &String| {
            sources
                .iter()
                .any(|source| source.facts().of_key(&key(word)).any(|leaf| leaf.record > 0 && matches!(leaf.value, Scalar::Number(_))))
        };
        let measure = noun.iter().any(|word| MEASURES.has(word));
        let spans = || sources.iter().any(|source| source.facts().derived().amounts.contains(&(value as f64)));
        let roughly = near && (value as f64) >= largest as f64 * 0.6 && (value as f64) <= largest as f64 * 1.5 + 2.0;
        // `39 seats left` of 120 and 81: more than small numbers are seldom counts of records where a record makes them.
        let made = || {
            let amounts = |source: &&ToolResult| source.facts().derived().amounts.contains(&(value as f64));
            value > REMAINDER_FROM && sources.iter().any(amounts)
        };
        let far = value > FAR_FROM && value > largest.saturating_mul(3) && is_made_here(scene, start, value);
        if allowed.contains(&value)
            || told
            || value == together
            || measure && spans()
            || roughly
            || made()
            || noun.iter().any(of_column)
            || far
        {
            return None;
        }
        // `Two open deals; Rail is won`: those that aren't named.
        let named = names.of(0).len() as u64;
        if sources.len() == 1 && named < value && value + named == largest && !names_another_part(scene, names.of(0), value) {
            return None;
        }
        if counts_part(scene, value) || sources.iter().any(|source| value > most(source) && is_of_two_numbers(value, source)) {
            return None;
        }
        // `27 of 36, so she missed nine`; `How many buckets do I need?`, of one kind of them.
        // `On 90 kg that's six sacks`, of 15 kg each.
        let of_rate = || {
            let others = scene.plain.numbers().iter().filter(|other| other.span.start != start).filter_map(Number::whole).take(RATED_OF);
            let rates = || sources.iter().flat_map(|source| source.facts().numbers.iter()).filter(|rate| **rate > 1.0).take(RATED_OF);
            others.into_iter().any(|other| rates().any(|rate| value as f64 * rate == other as f64))
        };
        let made = || value > largest && cues::reckons(scene.plain) && (is_made_in_passage(scene, start, value) || of_rate());
        if made() || (largest == 1 || value > largest) && scene.grounds.asks_to_reckon() {
            return None;
        }
        let last = after.get(noun.len().saturating_sub(1)).map_or(end, |word| word.end);
        let expected: Vec<String> = sources.iter().map(|source| most(source).to_string()).collect();
        let above = sources.iter().all(|source| value > most(source) && most(source) > 0);
        Some(ClaimFinding {
            rule: "counted",
            code: Code::CountMismatch,
            span: start..last,
            found: scene.text().get(start..last).unwrap_or_default().to_owned(),
            expected: expected.join(" or "),
            certainty: if above { Certainty::Certain } else { Certainty::Likely },
        })
    })
}

/// Numbers of a passage, and of results, of which one may be so many times the other.
const RATED_OF: usize = 40;

/// Has the passage a word that stands in some of the records, another number of them than that? What the named records have is told of
/// them.
fn names_another_part(scene: &CheckContext<'_>, named: &[NamedRecord], value: u64) -> bool {
    let Some(source) = scene.sources.first() else { return false };
    let leaves = source.facts().leaves.iter().filter(|leaf| leaf.record > 0).take(LEAVES_OF);
    let text = |leaf: &NamedValue| if let Scalar::Text(text) = &leaf.value { Some((leaf.record, fold(text))) } else { None };
    let texts: Vec<(usize, String)> = leaves.filter_map(text).collect();
    scene.plain.words.iter().map(|word| folded(&word.lower)).any(|word| {
        let own = || texts.iter().filter(|(_, text)| *text == word);
        let of_named = own().any(|(record, _)| named.iter().any(|named| named.record == *record));
        let count = own().count() as u64;
        !of_named && count > 0 && count != value
    })
}

/// `3 of the 12`, `3 von 12`: the part is judged by its share's own rules.
fn is_of_something(scene: &CheckContext<'_>, end: usize, start: usize) -> bool {
    let after = scene.words_after(end).first();
    let before = scene.words_before(start).last();
    let unit = ["percent", "prozent", "%", "times", "x", "mal", "fois", "veces", "stars", "o'clock", "uhr"];
    after.is_some_and(|word| unit.contains(&word.lower.as_str()))
        || before.is_some_and(|word| {
            ["number", "no", "nr", "page", "step", "version", "chapter", "room", "hop", "line", "section", "grade", "level"]
                .contains(&word.lower.as_str())
        })
}

/// The words right after a number, up to one that names no thing.
fn noun(scene: &CheckContext<'_>, from: usize, after: &[&Word]) -> Vec<String> {
    let mut noun = Vec::new();
    let mut place = from;
    for word in after {
        let gap = scene.text().get(place..word.start).unwrap_or_default();
        // `four behind the leader`. Hindi says its prepositions behind the word.
        static BEHIND: WordList = WordList::new(&[
            "behind",
            "ahead",
            "above",
            "below",
            "over",
            "under",
            "off",
            "away",
            "short",
            "clear",
            "apart",
            "को",
            "का",
            "की",
            "के",
            "में",
            "से",
            "पर",
            "तक",
            "है",
            "हैं",
        ]);
        let stops = BEHIND.has(&word.lower)
            || scene.lexicon.common.contains(&word.lower)
            || scene.lexicon.found.contains(&word.lower)
            || scene.lexicon.narrows.contains(&word.lower);
        if !gap.chars().all(|c| matches!(c, ' ' | '*' | '_' | '\u{a0}' | '-')) || stops {
            break;
        }
        noun.push(word.lower.to_string());
        place = word.end;
    }
    noun
}

/// Nouns of measures rather than of things.
static MEASURES: WordList = WordList::new(&[
    "day",
    "days",
    "hour",
    "hours",
    "minute",
    "minutes",
    "second",
    "seconds",
    "week",
    "weeks",
    "month",
    "months",
    "year",
    "years",
    "night",
    "nights",
    "evening",
    "evenings",
    "morning",
    "mornings",
    "afternoon",
    "afternoons",
    "abende",
    "abenden",
    "soirées",
    "nuits",
    "noches",
    "tardes",
    "serate",
    "notti",
    "noites",
    "avonden",
    "nachten",
    "time",
    "times",
    "degrees",
    "points",
    "people",
    "euros",
    "dollars",
    "francs",
    "tage",
    "tagen",
    "stunden",
    "minuten",
    "wochen",
    "monate",
    "jahre",
    "jahren",
    "euro",
    "jours",
    "heures",
    "mois",
    "ans",
    "dias",
    "días",
    "horas",
    "meses",
    "giorni",
    "ore",
    "mesi",
    "anni",
    "punkte",
    "punkten",
    "puntos",
    "guests",
    "persons",
    "parts",
    "portions",
    "servings",
    "steps",
    "percent",
    "stars",
    "tablespoons",
    "teaspoons",
    "cups",
    "grams",
    "pieces",
    "nächte",
]);

/// Has each of a result's records its time, so that they may be counted as days or hours?
fn is_of_times(source: &ToolResult) -> bool {
    const TIMES: [&str; 8] = ["day", "date", "hour", "time", "week", "month", "night", "year"];
    let facts = source.facts();
    let named = |leaf: &NamedValue| leaf.record > 0 && TIMES.iter().any(|time| leaf.key.contains(time));
    facts.dates.dates.len() as u64 >= most(source) || facts.leaves.iter().take(LEAVES_OF).any(named)
}

/// Is this noun what the result is a collection of: by its tool, a list, its records' members, or the question?
fn counts_of(noun: &[String], scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let (facts, grounds) = (source.facts(), scene.grounds);
    if facts.lists.is_empty() && facts.lines < 2 {
        return false;
    }
    let Some(last) = noun.last() else { return false };
    let asked = |word: &str| {
        let folded = fold(word);
        let last = folded.rsplit(' ').next().unwrap_or(&folded).to_owned();
        grounds.asked.name_words().iter().any(|word| word.chars().count() > 3 && akin(word, &last))
    };
    if noun.iter().any(|word| MEASURES.has(word)) {
        let many = ["how many", "wie viele", "combien", "cuántos", "cuántas", "quanti", "quante", "quantos", "quantas", "hoeveel"];
        let lower = grounds.asked.lower();
        let counts = many.iter().any(|many| lower.contains(many)) && asked(last) && scene.bond == CitationScope::Cited;
        return counts && is_of_times(source);
    }
    let same = |word: &str| {
        let folded = fold(word);
        let single = folded.strip_suffix('s').unwrap_or(&folded).to_owned();
        let english =
            |word: &str| scene.lexicon.english(word).iter().chain(lexicon::english().english(word)).cloned().collect::<BTreeSet<String>>();
        let own: BTreeSet<String> = english(&single).union(&english(&folded)).cloned().collect();
        let names = facts.lists.iter().flat_map(|list| list.words.iter()).chain(source.nouns());
        !own.is_empty() && names.into_iter().any(|name| !english(name.strip_suffix('s').unwrap_or(name)).is_disjoint(&own))
    };
    let of = |word: &String| {
        if same(word) {
            return true;
        }
        let said = NounPhrase::new(word, scene.lexicon);
        let folded = fold(word);
        let end = folded.rsplit(' ').next().unwrap_or(&folded).to_owned();
        let english = NounPhrase::new(&end, scene.lexicon);
        let record = || facts.keys().iter().any(|key| key.len() > 2 && akin(key, &folded));
        let list = |said: &NounPhrase<'_>| facts.lists.iter().any(|list| said.names(&list.words));
        said.names(source.nouns()) || english.names(source.nouns()) || list(&said) || list(&english) || record() || asked(word)
    };
    let tops = facts.lists.iter().filter(|list| list.depth == 0).count();
    let found = || {
        tops == 1 && facts.lists.iter().all(|list| list.depth > 0 || list.of_things) && scene.says(&scene.lexicon.found) && noun.len() == 1
    };
    noun.iter().rev().take(2).any(of) || found()
}

pub(super) fn most(source: &ToolResult) -> u64 {
    let facts = source.facts();
    let longest = facts.lists.iter().map(|list| list.length as u64).max().unwrap_or(0);
    longest.max(if facts.is_structured() { 0 } else { facts.lines as u64 })
}

/// Number of occurrences of each value of a column that tells kinds of records apart: `status`, a flag.
fn kinds(facts: &ResultFacts) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for name in facts.keys() {
        let mut values: Vec<String> = Vec::new();
        for leaf in facts.of_key(name).take(LEAVES_OF) {
            match &leaf.value {
                Scalar::Text(text) if text.chars().count() <= 40 => values.push(fold(text)),
                Scalar::Flag(flag) => values.push(flag.to_string()),
                Scalar::Null => values.push(String::new()),
                Scalar::Text(_) | Scalar::Number(_) => {}
            }
        }
        let all = values.len();
        let distinct: BTreeSet<&String> = values.iter().collect();
        if all < 2 || distinct.len() == all && all > 2 {
            continue;
        }
        for value in distinct {
            found.push((value.clone(), values.iter().filter(|own| *own == value).count() as u64));
        }
    }
    found
}

/// Every number of things that a result may be said to have: its lists, parts of them by value, by limit and by word, and what is left.
fn allowed(source: &ToolResult, scene: &CheckContext<'_>, noun: &[String]) -> BTreeSet<u64> {
    let facts = source.facts();
    let mut found: BTreeSet<u64> = facts.lists.iter().map(|list| list.length as u64).collect();
    let tops: u64 = facts.lists.iter().filter(|list| list.depth == 0).map(|list| list.length as u64).sum();
    found.insert(tops);
    found.insert(facts.lists.iter().map(|list| list.length as u64).sum());
    found.extend(
        facts.leaves.iter().filter(|leaf| derive::is_count(&leaf.key)).filter_map(|leaf| leaf.value.number()).map(|count| count as u64),
    );
    if !facts.is_structured() {
        // A table without a header has one row more than it seems.
        let counted = source.text.lines().take(LEAVES_OF).filter(|line| !line.trim().is_empty()).count();
        let lines = facts.lines.max(counted) as u64;
        found.extend([lines, lines.saturating_sub(1), lines.saturating_sub(2)]);
        found.extend(of_text(source));
    }
    let rows = source.rows();
    let columns = rows.columns.then_some(rows.rows.len() as u64);
    let texts = [scene.text(), &scene.grounds.asked];
    let most = most(source);
    let kinds = kinds(facts);
    // `four open tickets`: as many as are open, where a column says which are.
    let adjectives: Vec<&(String, u64)> = kinds.iter().filter(|(value, _)| noun.iter().any(|word| *value == fold(word))).collect();
    if let [(_, count)] = adjectives.as_slice() {
        // `3 of 5 jobs ok`: how many there are.
        return columns.into_iter().chain([*count]).collect();
    }
    let mut parts: BTreeSet<u64> = kinds.iter().map(|(_, count)| *count).collect();
    for (at, (one, first)) in kinds.iter().enumerate() {
        parts.extend(
            kinds.iter().skip(at + 1).filter(|(other, _)| other != one).map(|(_, second)| first + second).filter(|sum| *sum < most),
        );
    }
    for name in facts.keys() {
        let distinct: BTreeSet<String> = facts.of_key(name).take(LEAVES_OF).map(|leaf| leaf.value.shown()).collect();
        parts.insert(distinct.len() as u64);
    }
    let mut limited = BTreeSet::new();
    let limits: Vec<f64> = texts
        .iter()
        .flat_map(|text| numbers(text))
        .flat_map(|number| number.readings().map(|reading| reading.value).collect::<Vec<f64>>())
        .take(LIMITS_OF)
        .collect();
    for column in facts.columns().values() {
        for limit in &limits {
            let above = column.iter().filter(|value| *value > limit).count() as u64;
            let equal = column.iter().filter(|value| *value == limit).count() as u64;
            let all = column.len() as u64;
            limited.extend([above, above + equal, all - above, all - above - equal]);
        }
        let mean = column.iter().sum::<f64>() / column.len() as f64;
        let above = column.iter().filter(|value| **value > mean).count() as u64;
        parts.extend([
            above,
            column.iter().filter(|value| **value > 0.0).count() as u64,
            column.iter().filter(|value| **value < 0.0).count() as u64,
        ]);
    }
    // `more than 30 points`: as many as the limit leaves.
    let compares = scene.plain.words.windows(2).any(|pair| {
        let [one, two] = pair else { return false };
        (scene.lexicon.bounds.contains(&one.lower) || scene.lexicon.bounds.contains(&two.lower))
            && two.lower.bytes().all(|byte| byte.is_ascii_digit())
    });
    if compares && !limited.is_empty() {
        found.extend(limited);
        return found;
    }
    parts.extend(limited);
    parts.extend(by_word(facts, &texts));
    found.extend(parts.iter().copied());
    // What is left when a part is taken away.
    found.extend(parts.iter().filter(|part| **part > 1 && **part <= most).map(|part| most - part));
    found
}

/// Numbers of things that a listing has: its records, those of each kind, its figures.
fn of_text(source: &ToolResult) -> Vec<u64> {
    let rows = &source.rows().rows;
    let mut cells: Vec<(&str, &str)> =
        rows.iter().flat_map(|row| &row.cells).map(|cell| (cell.column.as_str(), cell.folded.as_str())).take(LEAVES_OF).collect();
    cells.sort_unstable();
    let mut found: Vec<u64> = cells.chunk_by(|one, other| one == other).map(|same| same.len() as u64).collect();
    let text = source.text.get(..source.text.floor_char_boundary(8192)).unwrap_or_default();
    let figures = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    found.extend([rows.len() as u64, text.split([' ', '\n', '\t', ',']).filter(figures).count() as u64]);
    found
}

/// Number of records that have a word of the passage or the question in a value.
fn by_word(facts: &ResultFacts, texts: &[&str]) -> Vec<u64> {
    let words: BTreeSet<String> =
        texts.iter().flat_map(|text| name_words(text)).filter(|word| word.chars().count() > 2).take(WORDS_OF).collect();
    let mut found = Vec::new();
    for word in words {
        let mut records: BTreeSet<usize> = BTreeSet::new();
        let mut loose = 0;
        for leaf in facts.leaves.iter().take(LEAVES_OF) {
            let Scalar::Text(text) = &leaf.value else { continue };
            if fold(text).split(' ').any(|own| akin(own, &word)) {
                if leaf.record > 0 {
                    records.insert(leaf.record);
                } else {
                    loose += 1
                }
            }
        }
        found.extend([records.len() as u64, loose]);
    }
    found
}
