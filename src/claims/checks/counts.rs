//! Counts: "found 12 players" against a result with 7. Pure.

use crate::{
    checks::values,
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        self, ToolResult, derive,
        lists::{MatchConfidence, excused, things},
    },
    language::{
        cues,
        fold::{fold, stands_in},
        lexicon::Word,
        number::Number,
        unit,
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Words of a counted noun.
const NOUN_WORDS_MAX: usize = 3;
/// From there on a number may be a sum: of the guests at some tables.
const SUMMED_FROM: u64 = 12;
/// Numbers of a passage of which two may make a count.
const OTHERS_MAX: usize = 12;
/// Words before a number that are looked at for what makes it no count.
const BEFORE: usize = 2;

/// A number of things, as a passage says it.
struct CountClaim {
    start: usize,
    end: usize,
    value: u64,
    /// Words that also name a unit: `livres`.
    of_unit: bool,
}

/// Findings about the counts of a passage.
pub fn counts(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    // The head of its column says what a cell counts.
    if scene.text().trim_start().starts_with('|') {
        return Vec::new();
    }
    let said = said(scene);
    // Looked up once for all counts of a passage.
    said.into_iter().filter_map(|count| judge(scene, &count)).collect()
}

/// Numbers of a result of which two may make a count.
const MADE_OF: usize = 6;

/// True if two of the few numbers at a result's top make it: `8 of the 10 records`, of 8 that were updated and 2 that failed.
pub(super) fn is_of_two_numbers(value: u64, source: &ToolResult) -> bool {
    const PAGES: [&str; 10] = ["page", "pages", "limit", "offset", "size", "pagesize", "perpage", "total", "count", "id"];
    let at_top = source.facts().leaves.iter().filter(|leaf| leaf.record == 0 && !PAGES.contains(&leaf.key.as_str()));
    let numbers: Vec<f64> = at_top.filter_map(|leaf| leaf.value.number()).take(MADE_OF + 1).collect();
    let rest = |one: &f64| value as f64 - one;
    numbers.len() <= MADE_OF && numbers.iter().any(|one| *one > 0.0 && rest(one) > 0.0 && rest(one) != *one && numbers.contains(&rest(one)))
}

fn said(scene: &CheckContext<'_>) -> Vec<CountClaim> {
    let mut found: Vec<CountClaim> = Vec::new();
    for number in scene.plain.numbers() {
        let unit = scene.text().get(number.span.end..number.end).unwrap_or_default().trim();
        let word = unit.chars().count() > 3 && unit.chars().all(char::is_alphabetic);
        let plain = !number.ordinal
            && !values::is_of_name(scene.text(), number.span.start)
            && (number.unit.is_none() || word)
            && !scene.plain.is_taken(&(number.span.start..number.end));
        // `a 2023 paper`
        let year = |value: &u64| (1900..=2100).contains(value) && number.span.len() == 4;
        if let Some(value) = number.whole().filter(|value| plain && !year(value)) {
            found.push(CountClaim { start: number.span.start, end: number.span.end, value, of_unit: number.unit.is_some() });
        }
    }
    for word in &scene.plain.words {
        let value = scene.lexicon.numbers.get(&*word.lower).copied().filter(|value| *value > 1);
        // `vingt-trois`, `twenty-three`
        let joined = word.lower.split_once('-').and_then(|(tens, ones)| {
            let of = |word: &str| scene.lexicon.numbers.get(word).copied();
            Some(of(tens)? + of(ones)?).filter(|value| *value > 20)
        });
        found.extend(value.or(joined).map(|value| CountClaim { start: word.start, end: word.end, value, of_unit: false }));
    }
    found
}

fn judge(scene: &CheckContext<'_>, count: &CountClaim) -> Option<ClaimFinding> {
    let lexicon = scene.lexicon;
    let before = scene.words_before(count.start);
    let near: Vec<&str> = before.iter().rev().take(BEFORE).map(|word| word.lower.as_str()).collect();
    if near.first().is_some_and(|word| lexicon.parts.contains(word))
        || near.iter().any(|word| {
            lexicon.near.contains(word) || lexicon.bounds.contains(word) && !lexicon.totals.iter().any(|total| total.ends_with(word))
        }) && !after_total(scene, count)
    {
        return None;
    }
    if is_amount(scene, count.start) || is_rate(scene, count.end) {
        return None;
    }
    let after = scene.words_after(count.end);
    // `MX-2 alone accounts for nine of those`: a number of the result.
    let of_those = matches!(after, [of, those, ..] if of.lower == "of" && matches!(those.lower.as_str(), "those" | "them" | "these"));
    if of_those && scene.sources.iter().any(|source| source.facts().numbers.contains(&(count.value as f64))) {
        return None;
    }
    let noun = noun(scene, count.end, after);
    // `dört sınavın ortalaması`: the mean of four exams.
    if lexicon.language == "tr" && noun.first().is_some_and(|word| ["ın", "in", "un", "ün"].iter().any(|ending| word.ends_with(ending))) {
        return None;
    }
    // `due in eight days`: a time.
    let time = |word: &String| unit::named(word).is_some_and(|unit| unit.dimension == "time");
    if noun.first().is_some_and(time) && scene.sources.iter().any(|source| !source.facts().dates.dates.is_empty()) {
        return None;
    }
    let (noun, tail, labelled) = match noun.is_empty() {
        false => {
            let tail = after.get(noun.len()..).unwrap_or_default();
            (noun, tail, false)
        }
        true => (label(scene, count)?, after, true),
    };
    // `925 in all, of which 255 are reserved: 670 are left`
    if (count.value > SUMMED_FROM || cues::reckons(scene.plain)) && is_made_in_passage(scene, count.start, count.value) {
        return None;
    }
    let asserted = || labelled || after_total(scene, count) || scene.says(&lexicon.found);
    let mut fault = None;
    for source in &scene.sources {
        let things = things(&noun, source, lexicon)?;
        let enough = match scene.bond {
            CitationScope::Cited | CitationScope::Introduced => {
                things.fit >= MatchConfidence::Generic || scene.bond == CitationScope::Cited
            }
            CitationScope::Near | CitationScope::Implied => things.fit >= MatchConfidence::Tool,
        };
        let lengths = things.lengths();
        // A measure, or a number that the result has for something else.
        if count.of_unit && things.fit < MatchConfidence::Tool || things.fit == MatchConfidence::Only && stands(count.value, source) {
            return None;
        }
        // `42 findings in all`, of which the result lists the worst and counts all by kind.
        let in_kinds = || count.value > SUMMED_FROM && source.facts().derived().amounts.contains(&(count.value as f64));
        if !enough
            || lengths.contains(&count.value)
            || !asserted()
            || count.value > things.most() && in_kinds()
            || excused(count.value, &noun, source, scene.grounds)
            || counts_part(scene, count.value)
            || count.value > things.most() && is_of_two_numbers(count.value, source)
        {
            return None;
        }
        let narrowed = noun.len() > 1 && !labelled && !noun_is_whole(&noun, things.fit)
            || tail.first().is_some_and(|word| lexicon.narrows.contains(&word.lower)) && !scene.is_open_end(clause(scene, tail), source)
            || !scene.is_open_end(clause(scene, tail), source);
        // `For healers there are two changes`: a word before it that the result doesn't have.
        let leads = scene
            .plain
            .words
            .first()
            .is_some_and(|first| matches!(&*first.lower, "for" | "among" | "für" | "pour" | "para" | "per" | "voor" | "dla"));
        let foreign = |word: &Word| {
            !lexicon.common.contains(&word.lower)
                && !lexicon.found.contains(&word.lower)
                && !stands_in(source.folded(), &word.folded())
                && !stands_in(source.folded_arguments(), &word.folded())
        };
        let narrowed = narrowed || leads && before.iter().any(foreign);
        if narrowed && (count.value <= things.most() || things.fit == MatchConfidence::Only) {
            return None;
        }
        let made = || source.facts().derived().amounts.contains(&(count.value as f64));
        if things.fit == MatchConfidence::Only && (source.facts().counts().contains(&count.value) || count.value > SUMMED_FROM && made()) {
            return None;
        }
        fault.get_or_insert(lengths);
    }
    let lengths: Vec<String> = fault?.iter().map(u64::to_string).collect();
    let end = after.get(..noun.len()).and_then(|words| words.last()).filter(|_| !labelled).map_or(count.end, |word| word.end);
    Some(ClaimFinding {
        rule: "counts",
        code: Code::CountMismatch,
        span: count.start..end,
        found: scene.text().get(count.start..end).unwrap_or_default().to_owned(),
        expected: lengths.join(" or "),
        certainty: Certainty::Likely,
    })
}

/// Is a number that ends there told of each of something: `25 a day`?
fn is_rate(scene: &CheckContext<'_>, end: usize) -> bool {
    const EACH: [&str; 8] = ["a ", "an ", "per ", "each", "every ", "pro ", "par ", "/"];
    let behind = scene.text().get(end..).unwrap_or_default().trim_start();
    EACH.iter().any(|each| behind.starts_with(each))
}

/// Is a number at that place an amount of money: `£700`?
pub(super) fn is_amount(scene: &CheckContext<'_>, start: usize) -> bool {
    scene.sign_before(start).is_some_and(unit::is_currency_sign)
}

/// Letters of a word by which records are chosen, words of a passage that choose some, and results that are looked through.
const CHOICE_CHARS: usize = 3;
const CHOICES_MAX: usize = 24;
const SOURCES_MAX: usize = 4;

/// Do two other numbers of the passage make it, by a sum or a difference?
pub(super) fn is_made_in_passage(scene: &CheckContext<'_>, start: usize, value: u64) -> bool {
    let others = scene.plain.numbers().iter().filter(|other| other.span.start != start);
    let others: Vec<u64> = others.filter_map(Number::whole).take(OTHERS_MAX).collect();
    others
        .iter()
        .enumerate()
        .any(|(at, one)| others.iter().skip(at + 1).any(|other| one.abs_diff(*other) == value || one.checked_add(*other) == Some(value)))
}

/// Is it the number of the records that have a word or a number of the passage: `from 2023 there are three files`?
pub(super) fn counts_part(scene: &CheckContext<'_>, count: u64) -> bool {
    let of = |source: &&evidence::ToolResult| {
        let rows = &source.rows().rows;
        let chooses = |word: &&Word| word.lower.chars().count() >= CHOICE_CHARS && !scene.lexicon.common.contains(&word.lower);
        let words = scene.plain.words.iter().filter(chooses).map(|word| fold(&word.lower)).take(CHOICES_MAX);
        let number = |word: String| rows.iter().filter(|row| row.cells.iter().any(|cell| cell.folded.contains(&word))).count() as u64;
        words.map(number).collect::<Vec<u64>>()
    };
    scene.chosen.get_or_init(|| scene.sources.iter().take(SOURCES_MAX).flat_map(of).collect()).contains(&count)
}

/// Is the number one of the result's own?
fn stands(value: u64, source: &evidence::ToolResult) -> bool {
    source.facts().numbers.contains(&(value as f64))
}

/// The noun right after a number: words up to one that is none.
fn noun(scene: &CheckContext<'_>, from: usize, after: &[Word]) -> Vec<String> {
    let mut noun = Vec::new();
    let mut place = from;
    for word in after.iter().take(NOUN_WORDS_MAX) {
        let gap = scene.text().get(place..word.start).unwrap_or_default();
        let joined = gap.chars().all(|c| matches!(c, ' ' | '*' | '_' | '\u{a0}' | '`'));
        let lexicon = scene.lexicon;
        let stops = lexicon.common.contains(&word.lower) && !is_a_list_word(&word.lower)
            || word.lower == "out"
            || lexicon.narrows.contains(&word.lower)
            || lexicon.found.contains(&word.lower);
        if !joined || stops {
            break;
        }
        noun.push(word.lower.to_string());
        place = word.end;
    }
    noun
}

/// Frequent words that are nouns of things too.
fn is_a_list_word(word: &str) -> bool {
    matches!(word, "aufgaben")
}

/// The words of a sentence's part: up to the next comma or other mark.
fn clause<'w>(scene: &CheckContext<'_>, words: &'w [Word]) -> &'w [Word] {
    let ends = |pair: &[Word]| match pair {
        [one, two] => scene.text().get(one.end..two.start).is_some_and(|gap| gap.contains([',', ';', ':', '.', '(', '–', '—', '!', '?'])),
        _ => false,
    };
    let length = words.windows(2).position(ends).map_or(words.len(), |at| at + 1);
    words.get(..length).unwrap_or_default()
}

/// An adjective in a noun narrows it: `12 approved players`. Names of several words (`speed tests`) don't.
fn noun_is_whole(noun: &[String], fit: MatchConfidence) -> bool {
    noun.len() == 1 || fit == MatchConfidence::Only
}

/// Is the number said to be a total, as in `Total players: 12`?
fn after_total(scene: &CheckContext<'_>, count: &CountClaim) -> bool {
    let lower = scene.text().get(..count.start).unwrap_or_default().to_lowercase();
    scene.lexicon.totals.iter().any(|total| lower.contains(total.as_str()))
}

/// The noun between `total`, `number of` and the number that follows a colon or `is`.
fn label(scene: &CheckContext<'_>, count: &CountClaim) -> Option<Vec<String>> {
    let before = scene.text().get(..count.start)?;
    let lower = before.to_lowercase();
    let (at, total) =
        scene.lexicon.totals.iter().filter_map(|total| Some((lower.rfind(total.as_str())?, total))).max_by_key(|(_, total)| total.len())?;
    let between = before.get(at + total.len()..)?;
    let ends = between.trim_end().ends_with([':', '=', '*', '|'])
        || scene.words_before(count.start).last().is_some_and(|word| scene.lexicon.common.contains(&word.lower));
    let words = scene.words_before(count.start).iter().filter(|word| word.start >= at + total.len());
    let noun: Vec<String> =
        words.filter(|word| !scene.lexicon.common.contains(&word.lower)).map(|word| word.lower.to_string()).take(NOUN_WORDS_MAX).collect();
    let generic = || scene.lexicon.generic.iter().min().cloned().into_iter().collect();
    ends.then(|| if noun.is_empty() { generic() } else { noun })
}

/// "several players" against a result without any.
pub fn something_of_nothing(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let lexicon = scene.lexicon;
    let word = scene.plain.words.iter().find(|word| lexicon.some.contains(&word.lower))?;
    let after = scene.words_after(word.end);
    let noun = noun(scene, word.end, after);
    if noun.is_empty() || !scene.says(&lexicon.found) || scene.bond < CitationScope::Introduced || scene.tells_failure() {
        return None;
    }
    let empty = scene.sources.iter().all(|source| {
        things(&noun, source, lexicon)
            .is_some_and(|things| things.fit >= MatchConfidence::Generic && things.most() == 0 && !excused_by_text(source))
    });
    let end = after.get(..noun.len()).and_then(|words| words.last()).map_or(word.end, |word| word.end);
    empty.then(|| ClaimFinding {
        rule: "empty",
        code: Code::CountMismatch,
        span: word.start..end,
        found: scene.text().get(word.start..end).unwrap_or_default().to_owned(),
        expected: "none".to_owned(),
        certainty: Certainty::Likely,
    })
}

fn excused_by_text(source: &evidence::ToolResult) -> bool {
    let facts = source.facts();
    facts.leaves.iter().any(|leaf| derive::is_count(&leaf.key) && leaf.value.number().is_some_and(|number| number > 0.0))
}
