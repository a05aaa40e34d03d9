//! Columns by whose values records can be put in order. Pure.

use super::{RecordValue, Records, data};
use crate::language::{
    date,
    fold::{akin, fold},
    lexicon::Word,
};

/// Letters of a word that names a column.
const NAMING_CHARS: usize = 3;
/// Minutes of a day.
pub const DAY: f64 = 1440.0;
/// Names of columns that put nothing in order.
const IDS: [&str; 6] = ["id", "no", "nr", "number", "page", "n"];

/// The columns of which a value fits.
pub fn columns<'s>(records: &Records<'s>, fits: impl Fn(&RecordValue<'s>) -> bool) -> Vec<&'s str> {
    let mut all: Vec<&'s str> = Vec::new();
    for value in records.all().iter().flatten() {
        if fits(value) && !IDS.contains(&value.key) && !all.contains(&value.key) {
            all.push(value.key);
        }
    }
    all
}

/// Those of them that most of the words name.
pub fn named_by<'s, 'w>(columns: &[&'s str], words: impl Iterator<Item = &'w Word>) -> Vec<&'s str> {
    let words: Vec<String> =
        words.map(|word| fold(&word.lower)).filter(|word| word.chars().count() >= NAMING_CHARS && !data().plain.contains(word)).collect();
    let hits = |key: &str| words.iter().filter(|word| key.contains(word.trim_end_matches('s')) || akin(key, word)).count();
    let most = columns.iter().map(|key| hits(key)).max().unwrap_or(0);
    if most == 0 { Vec::new() } else { columns.iter().copied().filter(|key| hits(key) == most).collect() }
}

/// The place of a record on the scale of a column.
pub fn place(record: &[RecordValue<'_>], column: &str) -> Option<f64> {
    let own = record.iter().find(|value| value.key == column)?;
    moment(own).or(own.number)
}

/// Minutes since the epoch of a date, since midnight of a time of day.
pub fn moment(value: &RecordValue<'_>) -> Option<f64> {
    let figures = |byte: u8| byte.is_ascii_digit();
    if !value.raw.bytes().any(figures) || value.raw.bytes().all(figures) {
        return None;
    }
    let found = date::dates(value.raw);
    let day = found.dates.first().and_then(|day| day.days().next());
    let minutes = found.times.first().map(|time| f64::from(time.minutes));
    if day.is_none() && minutes.is_none() { None } else { Some(day.unwrap_or(0) as f64 * DAY + minutes.unwrap_or(0.0)) }
}

/// The words of a question that a record says in another column than this: what they choose is meant.
pub fn chosen(records: &Records<'_>, words: &[Word], column: &str) -> Vec<String> {
    let says = |word: &String| records.all().iter().flatten().any(|value| value.key != column && value.says(word));
    words
        .iter()
        .map(|word| fold(&word.lower))
        .filter(|word| word.chars().count() > NAMING_CHARS && !data().plain.contains(word))
        .filter(says)
        .collect()
}

/// The records that say all of these words.
pub fn among<'r, 's>(records: &'r Records<'s>, chosen: &[String]) -> impl Iterator<Item = &'r [RecordValue<'s>]> {
    let says = |record: &&[RecordValue<'s>]| chosen.iter().all(|word| record.iter().any(|value| value.says(word)));
    records.all().iter().map(|record| &record[..]).filter(says)
}
