//! Records of a result that the words of a sentence choose. Pure.
//!
//! The call and its result say what there is. A sentence narrows that by words: each must be one of the call, of the result's lists, or one
//! that a record decides, by a value that has it, or by a member of that name that is true, above zero or not blank. A word that is none of
//! these is open: nothing tells what it chooses.

pub mod another;
pub mod asked_counts;
pub mod compared;
pub mod conditions;
pub mod denial;
pub mod part_counts;
pub mod roles;
pub mod scale;
pub mod totals;
pub mod universal;

use std::sync::OnceLock;

use serde::Deserialize;

use crate::{
    checks::account::weekdays,
    context::{CheckContext, CitationScope, NounPhrase},
    evidence::{
        ToolResult, derive,
        facts::{NamedValue, Scalar},
        rows::Cell,
    },
    language::{
        date,
        fold::{akin, fold, name_words, stands_in, words_of},
        lexicon::{self, Lexicon, Word},
        word_list::{WordList, WordSet, data_file},
    },
};

/// Bytes of a sentence, and words of a question, that are judged.
const SENTENCE_BYTES_MAX: usize = 240;
pub(crate) const QUESTION_WORDS_MAX: usize = 20;
/// Bytes of a call's arguments whose words are compared.
const ARGUMENT_BYTES_MAX: usize = 2048;
/// Values of a result that is looked through.
const LEAVES_MAX: usize = 400;
/// Words of a value that is looked through.
const VALUE_WORDS_MAX: usize = 12;
/// First letters that two words of one stem share: `cancelled`, `cancellations`.
const STEM_CHARS: usize = 7;
/// Bytes of a line of a listing.
const LINE_BYTES_MAX: usize = 80;
/// Values of a record that a message shows.
const SHOWN_VALUES: usize = 4;
/// Letters of a text by which a record is named.
const NAME_CHARS_MIN: usize = 4;
/// Begins a choice by the month that has this number.
const MONTH_MARK: char = '\u{1}';
/// Letters of a word that says something by itself.
const WORD_CHARS: usize = 2;

/// Words of a bound, behind the word that limits; and those that join its figures.
const BOUND_WORDS: usize = 5;
static BOUND_LINKS: WordList =
    WordList::new(&["and", "to", "the", "und", "bis", "dem", "et", "le", "y", "el", "e", "il", "o", "en", "a", "i", "ve", "pm", "am"]);

/// The words of `lexicon/selection.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SelectionWords {
    /// They narrow nothing.
    pub plain: WordSet,
    /// They set apart or compare: what is told isn't decided by words alone.
    pub limits: WordSet,
    /// Of these, such as don't in a sentence that counts: `five are still open`.
    pub of_counts: WordSet,
    /// Times that a call asks for.
    pub times: WordSet,
    /// They begin the answer to a question that is denied.
    pub noes: WordSet,
    /// They deny.
    pub nots: WordSet,
    /// Of these, such as tell that there is none.
    pub nones: WordSet,
    /// They do so behind one that denies.
    pub anys: WordSet,
    /// Behind one that denies they tell that something isn't in a list or a text.
    pub mentions: WordSet,
}

pub fn data() -> &'static SelectionWords {
    static ALL: OnceLock<SelectionWords> = OnceLock::new();
    ALL.get_or_init(|| data_file(include_str!("../../language/lexicon/selection.toml")))
}

/// Does the word deny: `no`, `isn't`?
pub fn denies(word: &Word) -> bool {
    word.lower.ends_with("n't") || word.lower.ends_with("n’t") || words_of(&word.folded()).any(|part| data().nots.contains(part))
}

/// Does the word tell of what isn't so any more, or isn't yet: `previously open`, `until it is paid`?
pub fn is_nothing_said(word: &Word) -> bool {
    const APART: [&str; 12] = ["previously", "formerly", "until", "before", "had", "instead", "rather", "than", "to", "be", "if", "unless"];
    APART.contains(&word.lower.as_str())
}

/// Is it a word that narrows nothing, a time or a number?
pub fn is_plain(word: &Word) -> bool {
    let folded = word.folded();
    data().plain.contains(&folded) || data().times.contains(&folded) || folded.bytes().any(|byte| byte.is_ascii_digit())
}

/// True of a question for any of something: `Is a hive above 3?`
pub fn is_for_any(question: &[Word]) -> bool {
    const ANY: [&str; 20] = [
        "any",
        "anything",
        "anyone",
        "anybody",
        "a",
        "an",
        "ein",
        "eine",
        "einen",
        "irgendein",
        "irgendetwas",
        "was",
        "algún",
        "alguna",
        "algo",
        "qualche",
        "alcuni",
        "quelque",
        "un",
        "une",
    ];
    question.iter().any(|word| ANY.contains(&word.lower.as_str()))
}

/// The only result that a short sentence is judged by, if its records may be read: it didn't fail, and all of it is here.
pub(crate) fn only_result<'s>(scene: &CheckContext<'s>) -> Option<&'s ToolResult> {
    let [source] = scene.sources[..] else { return None };
    let readable = !source.fails() && !source.is_partial() && source.facts().leaves.len() <= LEAVES_MAX;
    (scene.is_judged(CitationScope::Introduced) && scene.text().len() <= SENTENCE_BYTES_MAX && readable).then_some(source)
}

/// The words of a clause, folded.
pub fn folded_words(clause: &[Word]) -> Vec<String> {
    clause.iter().map(|word| fold(&word.lower)).collect()
}

/// The parts of a sentence between two marks.
pub fn clauses<'s>(scene: &'s CheckContext<'_>) -> Vec<&'s [Word]> {
    let words = &scene.plain.words[..];
    let breaks = |pair: &[Word]| match pair {
        // `S. Aydin`: a point behind a single letter ends nothing.
        // `09:00` is one.
        [one, two] => scene.text().get(one.end..two.start).is_some_and(|gap| {
            let time =
                gap == ":" && one.lower.ends_with(|c: char| c.is_ascii_digit()) && two.lower.starts_with(|c: char| c.is_ascii_digit());
            !time && gap.contains([',', ';', ':', '!', '(', ')', '–', '—']) || gap.contains('.') && one.lower.chars().nth(1).is_some()
        }),
        _ => false,
    };
    let mut from = 0;
    let mut clauses = Vec::new();
    for (at, pair) in words.windows(2).enumerate() {
        if breaks(pair) {
            clauses.extend(words.get(from..=at));
            from = at + 1;
        }
    }
    clauses.extend(words.get(from..));
    clauses
}

/// Claim about the records that are chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SelectionClaim {
    /// There are none.
    Absence,
    /// There are so many.
    Count,
}

/// Words read against a result.
pub struct ReadWords {
    /// Those that a record decides.
    pub decided: Vec<String>,
    /// Those that nothing decides.
    pub open: Vec<String>,
}

/// Words, and the result that they are read against.
pub struct Reading<'s, 'c> {
    /// The sentence.
    pub scene: &'s CheckContext<'c>,
    /// The result.
    pub source: &'s ToolResult,
    /// Its records.
    pub records: &'s Records<'s>,
}

impl Reading<'_, '_> {
    /// Is it a noun of the tool's name or of a list of the result?
    pub fn names_list(&self, part: &str) -> bool {
        let said = NounPhrase::new(part, self.scene.lexicon);
        said.names(self.source.nouns()) || self.source.facts().lists.iter().any(|list| said.names(&list.words))
    }

    /// True if the records tell of a condition, and not by the very word that the sentence has.
    fn is_decided_by(&self, told: &conditions::ToldCondition, word: &Word) -> bool {
        let literally = || told.length == 1 && self.records.decide(&word.folded());
        self.records.all().iter().any(|record| told.is_told_by(record)) && !literally()
    }

    /// Number of the words that tell two bounds which the call has: `between 5 and 9 May`. With the word that limits.
    fn bound_of_call(&self, words: &[Word], at: usize) -> Option<usize> {
        let figures: Vec<u64> =
            self.source.arguments.split(|c: char| !c.is_ascii_digit()).filter_map(|figures| figures.parse().ok()).collect();
        let is_figure = |word: &Word| {
            let figure = match word.lower.as_str() {
                "noon" | "midday" => Some(12),
                "midnight" => Some(0),
                lower => lower.parse().ok().or_else(|| self.scene.lexicon.count(lower)),
            };
            figure.map(|figure| figures.contains(&figure) || figure <= 12 && figures.contains(&(figure + 12)))
        };
        let (mut length, mut bound) = (1, 0);
        for word in words.iter().skip(at + 1).take(BOUND_WORDS) {
            match is_figure(word) {
                Some(true) => bound += 1,
                Some(false) => return None,
                None if BOUND_LINKS.has(&word.lower) || lexicon::month(&word.lower).is_some() => {}
                None => break,
            }
            length += 1;
        }
        (bound > 1).then_some(length)
    }

    /// Reads words; those of `known` count as decided. `None` if one of them limits what is denied.
    pub fn read(&self, words: &[Word], known: &[Word], claim: SelectionClaim) -> Option<ReadWords> {
        let (data, lexicon) = (data(), self.scene.lexicon);
        if self.source.arguments.len() > ARGUMENT_BYTES_MAX {
            return None;
        }
        let arguments: Vec<String> = name_words(&self.source.arguments);
        let tool: Vec<String> = name_words(&self.source.tool);
        let mut read = ReadWords { decided: Vec::new(), open: Vec::new() };
        let mut told_up_to = 0;
        for (at, word) in words.iter().enumerate() {
            if at < told_up_to {
                continue;
            }
            // `sold out`, `without changing`: of `qty: 0`, `changes: 0`.
            if let Some(told) = conditions::told_at(words, at).filter(|told| self.is_decided_by(told, word)) {
                told_up_to = at + told.length;
                read.decided.push(told.choice);
                continue;
            }
            if denies(word) {
                continue;
            }
            let folded = word.folded();
            // `between noon and six`, as the call asked.
            if claim == SelectionClaim::Absence
                && data.limits.contains(&folded)
                && let Some(length) = self.bound_of_call(words, at)
            {
                told_up_to = at + length;
                continue;
            }
            if data.limits.contains(&folded) && !(claim == SelectionClaim::Count && data.of_counts.contains(&folded)) {
                return None;
            }
            let month = lexicon::month(&word.lower);
            let dated = month.map(|month| (month, self.records.dated()));
            if let Some((month, columns)) = dated.filter(|(_, columns)| !columns.is_empty()) {
                // `Filed in August`: of several columns of dates the words must name one.
                let named = |key: &&&str| words.iter().any(|word| akin(key, &word.folded()) || **key == word.folded());
                let column = if let [only] = columns[..] { only } else { columns.iter().find(named)? };
                read.decided.push(format!("{MONTH_MARK}{month}{MONTH_MARK}{column}"));
                continue;
            }
            // `of the last six hours`
            let of_time =
                || lexicon.count(&word.lower).is_some() && words.get(at + 1).is_some_and(|next| data.times.contains(&fold(&next.lower)));
            if data.times.contains(&folded) || month.is_some() || of_time() {
                // `this morning`, `today`: as it is now.
                let this = at.checked_sub(1).and_then(|at| words.get(at)).is_some_and(|before| before.lower == "this");
                if this || matches!(&*folded, "today" | "tonight" | "heute" | "oggi" | "hoy" | "aujourd" | "hui" | "hoje" | "vandaag") {
                    continue;
                }
                // A time that the call doesn't ask for chooses among the records.
                if !self.source.arguments.bytes().any(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                continue;
            }
            if folded.bytes().any(|byte| byte.is_ascii_digit()) {
                let bare = |word: &str| word.trim_start_matches('0').to_owned();
                let asked = words_of(&folded).all(|part| arguments.iter().any(|own| bare(own) == bare(part)));
                if asked {
                    continue;
                }
                // `table 2`, `V-11`: a figure of the records chooses some where they are counted.
                // A bare figure of what is denied is that of a name, `tram 6`, or of a day.
                let before = at.checked_sub(1).and_then(|at| words.get(at)).map_or(String::new(), |before| fold(&before.lower));
                let beside_month =
                    [at.wrapping_sub(1), at + 1].iter().filter_map(|at| words.get(*at)).any(|word| lexicon::month(&word.lower).is_some());
                let bare = folded.bytes().all(|byte| byte.is_ascii_digit());
                let named = || self.records.say_phrase(&format!("{before} {folded}"));
                if claim == SelectionClaim::Absence && bare && !beside_month && !named() || !self.records.decide(&word.lower) {
                    return None;
                }
                read.decided.push(word.lower.to_string());
                continue;
            }
            // A day of the week that no record names may be that of any of their dates.
            let single = folded.trim_end_matches('s');
            if is_weekday(word) && !self.records.say(single) {
                // The call asked for that day.
                if arguments.iter().any(|own| own == single) {
                    continue;
                }
                return None;
            }
            let parts: Vec<&str> = words_of(&folded).filter(|part| part.chars().count() >= WORD_CHARS).collect();
            for part in parts {
                let plain = data.plain.contains(part) || is_common(part, lexicon);
                let of_call = || arguments.iter().chain(&tool).any(|own| own == part || akin(own, part));
                if plain || of_call() || self.names_list(part) {
                    continue;
                }
                let is_known = || known.iter().any(|other| akin(&other.folded(), part) || other.folded() == part);
                if self.records.decide(part) {
                    read.decided.push(part.to_owned());
                } else if !is_known() {
                    read.open.push(part.to_owned());
                }
            }
        }
        Some(read)
    }
}

/// Is it a day of the week, or several: `Sundays`?
fn is_weekday(word: &Word) -> bool {
    let single = || Word { lower: word.lower.trim_end_matches('s').into(), ..word.clone() };
    weekdays::weekday_of(word).or_else(|| weekdays::weekday_of(&single())).is_some()
}

fn is_common(part: &str, lexicon: &Lexicon) -> bool {
    lexicon.common.contains(part) || lexicon.found.contains(part) || lexicon.generic.contains(part) || lexicon.pronouns.contains(part)
}

/// The records of a result, of which there is at least one.
pub struct Records<'s> {
    records: Vec<Vec<RecordValue<'s>>>,
    /// They are lines of a text, which may be of anything.
    lines: bool,
    /// It is one for all values of a list of texts or numbers.
    scalars: bool,
}

/// A value of a record, folded, with the name of its member.
pub struct RecordValue<'s> {
    /// Key of the member.
    pub key: &'s str,
    /// Its text, folded; empty if it is none.
    pub text: String,
    /// Its text as it stands there; empty if it is none.
    pub raw: &'s str,
    /// The number that it is.
    pub number: Option<f64>,
    /// The flag that it is.
    pub flag: Option<bool>,
    /// It is false, zero, blank or says that there is nothing.
    pub blank: bool,
}

impl<'s> Records<'s> {
    /// Those of a result; `None` if it has none, or they can't be told apart.
    pub fn of(source: &'s ToolResult) -> Option<Self> {
        let facts = source.facts();
        if facts.is_structured() {
            let least = facts.lists.iter().map(|list| list.depth).min()?;
            let none = facts.lists.iter().any(|list| list.depth == least && list.length == 0);
            let zero = facts.leaves.iter().any(|leaf| leaf.record == 0 && leaf.value.number() == Some(0.0) && derive::is_count(&leaf.key));
            if none || zero || facts.leaves.len() > LEAVES_MAX {
                return None;
            }
            let mut records: Vec<(usize, Vec<RecordValue<'s>>)> = Vec::new();
            for leaf in facts.leaves.iter().filter(|leaf| leaf.record > 0) {
                match records.iter_mut().rev().find(|(record, _)| *record == leaf.record) {
                    Some((_, values)) => values.push(RecordValue::of(leaf)),
                    None => records.push((leaf.record, vec![RecordValue::of(leaf)])),
                }
            }
            let scalars = records.is_empty();
            if scalars {
                records.push((0, facts.leaves.iter().map(RecordValue::of).collect()));
            }
            return Some(Self { records: records.into_iter().map(|(_, values)| values).collect(), lines: false, scalars });
        }
        let rows = &source.rows().rows;
        if rows.is_empty() || !source.rows().columns && source.text.lines().any(|line| line.len() > LINE_BYTES_MAX) {
            return None;
        }
        let of_cell = |cell: &'s Cell| RecordValue {
            key: &cell.column,
            number: cell.number,
            flag: None,
            blank: cell.number == Some(0.0) || is_blank(&cell.folded),
            text: cell.folded.clone(),
            raw: &cell.raw,
        };
        Some(Self {
            records: rows.iter().map(|row| row.cells.iter().map(of_cell).collect()).collect(),
            lines: !source.rows().columns,
            scalars: false,
        })
    }

    /// All of a result about one thing as its only record; `None` if it is no structure.
    pub fn single(source: &'s ToolResult) -> Option<Self> {
        let facts = source.facts();
        let one = facts.is_structured() && !facts.lists.iter().any(|list| list.of_things && list.length > 1);
        one.then(|| Self { records: vec![facts.leaves.iter().map(RecordValue::of).collect()], lines: false, scalars: false })
    }

    /// The records.
    pub fn all(&self) -> &[Vec<RecordValue<'s>>] {
        &self.records
    }

    /// Does a record say anything of this word?
    pub fn decide(&self, word: &str) -> bool {
        self.records.iter().flatten().any(|value| value.names(word) || value.says(word) || value.is_not(word))
    }

    /// Does a record have these words in a value?
    pub fn say_phrase(&self, words: &str) -> bool {
        self.records.iter().flatten().any(|value| !value.text.is_empty() && stands_in(&value.text, words))
    }

    /// Does a record have this word in a value?
    pub fn say(&self, word: &str) -> bool {
        self.records.iter().flatten().any(|value| value.says(word))
    }

    /// The record that a folded text names: the only one with a text of its own there that may be a name, or the only one that there is.
    pub fn named_in(&self, text: &str, is_name: impl Fn(&str) -> bool) -> Option<&[RecordValue<'s>]> {
        if let [one] = &self.records[..] {
            return Some(one);
        }
        let own = |record: &&Vec<RecordValue<'s>>| {
            record.iter().any(|value| {
                value.text.chars().count() >= NAME_CHARS_MIN
                    && stands_in(text, &value.text)
                    && is_name(&value.text)
                    && self.records.iter().filter(|other| other.iter().any(|other| other.text == value.text)).count() == 1
            })
        };
        let mut named = self.records.iter().filter(own);
        let (record, None) = (named.next()?, named.next()) else { return None };
        Some(record)
    }

    /// Does a record have, in a value, a word of the sentence that isn't one of this clause?
    pub fn stand_outside(&self, scene: &CheckContext<'_>, clause: &[Word]) -> bool {
        words_outside(scene, clause).any(|word| self.say(&word.folded()))
    }

    /// Does the sentence name, before this clause, any record, or behind it one that has one of these words: `no calls from Ann, but for hers at noon`?
    pub fn stand_beside(&self, scene: &CheckContext<'_>, clause: &[Word], chosen: &[String]) -> bool {
        let begin = clause.first().map_or(0, |word| word.start);
        let (before, behind): (Vec<&Word>, Vec<&Word>) = words_outside(scene, clause).partition(|word| word.start < begin);
        let is_chosen = |record: &Vec<RecordValue<'_>>| chosen.iter().any(|word| has(record, word));
        let chosen_say = |word: &str| self.records.iter().any(|record| record.iter().any(|value| value.says(word)) && is_chosen(record));
        before.iter().any(|word| self.say(&word.folded())) || behind.iter().any(|word| chosen_say(&word.folded()))
    }

    /// The names of the members that are dates.
    pub fn dated(&self) -> Vec<&'s str> {
        let mut keys: Vec<&str> =
            self.records.iter().flatten().filter(|value| value.months().next().is_some()).map(|value| value.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Number of the records that have all of these.
    pub fn count(&self, words: &[String]) -> usize {
        self.records.iter().filter(|record| words.iter().all(|word| has(record, word))).count()
    }

    /// True if they are lines of a text, which may be of anything.
    pub fn are_lines(&self) -> bool {
        self.lines
    }

    /// Number of all records; 0 where a list has no records but texts or numbers.
    pub fn total(&self) -> usize {
        if self.scalars { 0 } else { self.records.len() }
    }

    /// The first values of a record that has all of these, as the message shows it.
    pub fn shown(&self, words: &[String]) -> String {
        let record = self.records.iter().find(|record| words.iter().all(|word| has(record, word)));
        record.map_or_else(String::new, |record| shown_values(record))
    }

    /// Have all records with these words nothing in the column of that name, in which others have something?
    pub fn lack_member(&self, words: &[String], name: &str) -> bool {
        let named = |value: &&RecordValue<'s>| value.names(name) && !value.blank;
        let (chosen, others): (Vec<_>, Vec<_>) = self.records.iter().partition(|record| words.iter().all(|word| has(record, word)));
        let has_it = |record: &&Vec<RecordValue<'s>>| record.iter().any(|value| named(&value));
        !chosen.is_empty() && !chosen.iter().any(has_it) && others.iter().any(has_it)
    }

    /// Have all records with these words nothing in a column in which others have something?
    pub fn lack_something(&self, words: &[String]) -> bool {
        let (chosen, others): (Vec<_>, Vec<_>) = self.records.iter().partition(|record| words.iter().all(|word| has(record, word)));
        // An empty list leaves no value.
        let blank = |record: &Vec<RecordValue<'s>>, key: &str| record.iter().find(|value| value.key == key).is_none_or(|value| value.blank);
        let mut keys = self.records.iter().flatten().map(|value| value.key);
        !chosen.is_empty()
            && keys.any(|key| chosen.iter().all(|record| blank(record, key)) && others.iter().any(|record| !blank(record, key)))
    }

    /// Does a text of a record tell that there is none of one of these: `critical: 0`?
    pub fn tell_zero(&self, words: &[String]) -> bool {
        let is_none = |text: &str| {
            let none = |mark: &str| text.strip_prefix(mark).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
            none(": 0") || none("=0") || none(" = 0")
        };
        let mut texts = self.records.iter().flatten().filter(|value| value.raw.contains('0')).map(|value| value.raw.to_lowercase());
        texts.any(|text| {
            words
                .iter()
                .any(|word| text.match_indices(word.as_str()).any(|(at, own)| is_none(text.get(at + own.len()..).unwrap_or_default())))
        })
    }

    /// Has one record all of these, and no zero: of none there are `0` left?
    pub fn have_some(&self, words: &[String]) -> bool {
        let zero = |record: &Vec<RecordValue<'_>>| record.iter().any(|value| value.number == Some(0.0) || value.text.ends_with(" 0"));
        self.records.iter().any(|record| words.iter().all(|word| has(record, word)) && !zero(record))
    }

    /// Has one record all of these?
    pub fn have(&self, words: &[String]) -> bool {
        (!self.lines || !words.is_empty()) && self.records.iter().any(|record| words.iter().all(|word| has(record, word)))
    }
}

/// The first values of a record, as a message shows them.
fn shown_values(record: &[RecordValue<'_>]) -> String {
    let shown = |value: &RecordValue<'_>| match (value.flag, value.number) {
        (Some(flag), _) => format!("{}: {flag}", value.key),
        (None, Some(number)) => format!("{}: {number}", value.key),
        (None, None) => value.text.clone(),
    };
    record.iter().map(shown).filter(|value| !value.is_empty()).take(SHOWN_VALUES).collect::<Vec<String>>().join(", ")
}

/// The words of a sentence that aren't of this clause, but for those that say nothing. `VN5` is a name, `20` is none.
fn words_outside<'s>(scene: &'s CheckContext<'_>, clause: &'s [Word]) -> impl Iterator<Item = &'s Word> {
    let is_name = |word: &Word| word.lower.bytes().any(|byte| byte.is_ascii_digit()) && word.lower.contains(char::is_alphabetic);
    let outside = move |word: &&Word| !clause.iter().any(|own| own.start == word.start) && (!is_plain(word) || is_name(word));
    scene.plain.words.iter().filter(outside)
}

/// Has a record a value that has this word, or a member of that name that isn't blank?
fn has(record: &[RecordValue<'_>], word: &str) -> bool {
    if let Some((month, column)) = word.strip_prefix(MONTH_MARK).and_then(|rest| rest.split_once(MONTH_MARK)) {
        return record.iter().filter(|value| value.key == column).flat_map(RecordValue::months).any(|own| month.parse() == Ok(own));
    }
    if let Some(holds) = conditions::holds(record, word) {
        return holds;
    }
    record.iter().any(|value| !value.blank && (value.names(word) || value.says(word)) || value.is_not(word))
}

impl<'s> RecordValue<'s> {
    fn of(leaf: &'s NamedValue) -> Self {
        let (text, blank) = match &leaf.value {
            Scalar::Null | Scalar::Flag(false) => (String::new(), true),
            Scalar::Flag(true) => (String::new(), false),
            Scalar::Number(number) => (String::new(), *number == 0.0),
            Scalar::Text(text) => {
                let folded = fold(text);
                let blank = is_blank(&folded);
                (folded, blank)
            }
        };
        let raw = if let Scalar::Text(text) = &leaf.value { text.as_str() } else { "" };
        let flag = if let Scalar::Flag(flag) = leaf.value { Some(flag) } else { None };
        Self { key: &leaf.key, text, raw, number: leaf.value.number(), flag, blank }
    }

    /// It as a message shows it.
    pub fn shown(&self) -> String {
        self.number.map_or_else(|| self.text.clone(), |number| number.to_string())
    }

    /// The months of its dates.
    fn months(&self) -> impl Iterator<Item = u32> {
        let figures = |byte: u8| byte.is_ascii_digit();
        let may = self.raw.len() <= LINE_BYTES_MAX && self.raw.bytes().any(figures) && !self.raw.bytes().all(figures);
        let dates = if may { date::dates(self.raw).dates } else { Vec::new() };
        dates.into_iter().filter_map(|date| date.readings.first().copied().flatten()).map(|(_, month, _)| month)
    }

    /// Is the word the name of its member?
    pub fn names(&self, word: &str) -> bool {
        // `open` isn't the name of `opened: 2026-02-20`.
        !self.key.is_empty() && (self.key == word || akin(self.key, word) && self.months().next().is_none())
    }

    /// Is the word the opposite of a flag that is false: `unlocked` of `locked: false`?
    fn is_not(&self, word: &str) -> bool {
        const OPEN: [&str; 5] = ["open", "outstanding", "pending", "unfinished", "offen"];
        const OVER: [&str; 8] = ["done", "completed", "complete", "closed", "resolved", "finished", "paid", "erledigt"];
        // `closed` of `open: false`
        const OPPOSITES: [(&str, &str); 10] = [
            ("closed", "open"),
            ("shut", "open"),
            ("offline", "online"),
            ("taken", "free"),
            ("booked", "free"),
            ("occupied", "free"),
            ("absent", "present"),
            ("disabled", "enabled"),
            ("geschlossen", "offen"),
            ("off", "on"),
        ];
        let named = || OPPOSITES.iter().any(|(own, key)| *own == word && *key == self.key);
        let opposite = || word.strip_prefix("un").or_else(|| word.strip_prefix("in")).is_some_and(|rest| rest == self.key);
        self.flag == Some(false) && (named() || opposite() || OPEN.contains(&word) && OVER.contains(&self.key))
    }

    /// Is the word one of its text, or the number that it is?
    pub fn says(&self, word: &str) -> bool {
        if word.bytes().any(|byte| byte.is_ascii_digit()) {
            let figures = || word.parse::<f64>().is_ok_and(|number| self.number == Some(number));
            return figures() || !self.text.is_empty() && stands_in(&self.text, &fold(word));
        }
        words_of(&self.text).take(VALUE_WORDS_MAX).any(|own| own == word || akin(own, word) || is_of_stem(own, word))
    }
}

/// Is a folded text blank, or one that says that there is nothing?
fn is_blank(folded: &str) -> bool {
    const BLANKS: [&str; 4] = ["n a", "null", "nil", "false"];
    folded.is_empty() || BLANKS.contains(&folded) || words_of(folded).any(|word| data().nots.contains(word))
}

fn is_of_stem(one: &str, other: &str) -> bool {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count() >= STEM_CHARS
}
