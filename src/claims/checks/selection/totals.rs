//! A total or an average of the only column of numbers that a result has: "52 kg altogether" of 45. Pure.

use crate::{
    checks::{
        selection::{Records, data, is_plain},
        values::{precision_of, ungrounded},
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        derive, equals,
        facts::{NamedValue, Scalar},
    },
    language::{
        cues::{self, Role},
        lexicon::Word,
        number::{Number, Precision},
    },
    passage::Kind,
};

/// Values of which some may be added up.
const SUMMED_OF: usize = 12;
/// Records of which a total or an average is told.
const RECORDS: std::ops::RangeInclusive<usize> = 2..=64;

/// The finding of a sentence that tells one total, or one average, of all records, where their only numbers make another one.
pub(crate) fn totals(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources[..] else { return None };
    if !scene.is_judged(CitationScope::Cited) || scene.kind == Kind::Heading || source.fails() || source.is_partial() {
        return None;
    }
    let is_average = |number: &Number| cues::is_average(scene.plain, number);
    if !cues::tells_total(scene.plain) && !scene.plain.numbers().iter().any(is_average) {
        return None;
    }
    let facts = source.facts();
    let in_records = || facts.leaves.iter().filter(|leaf| leaf.record > 0 && matches!(leaf.value, Scalar::Number(_)));
    let key = &in_records().next()?.key;
    if in_records().any(|leaf| leaf.key != *key) {
        return None;
    }
    let column: Vec<f64> = in_records().filter_map(|leaf| leaf.value.number()).collect();
    let records = Records::of(source)?;
    if !RECORDS.contains(&column.len()) || column.len() != records.total() {
        return None;
    }
    // What the sentence or the question names of a record chooses some of them.
    let chooses = |word: &Word| !is_plain(word) && records.say(&word.folded());
    let averages = scene.plain.numbers().iter().any(is_average);
    let is_time = |word: &Word| data().times.contains(&word.folded());
    if averages && scene.plain.words.iter().any(is_time) {
        return None;
    }
    if scene.plain.words.iter().chain(scene.grounds.asked.words()).any(chooses) {
        return None;
    }
    let own = |number: &&Number| {
        let counts = number.whole() == Some(column.len() as u64);
        let said = number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value));
        !counts && !said && !scene.plain.is_taken(&(number.span.start..number.end))
    };
    let numbers: Vec<&Number> = scene.plain.numbers().iter().filter(own).collect();
    let [number] = numbers[..] else { return None };
    let stands = |leaf: &NamedValue| leaf.value.number().is_some_and(|value| number.readings().any(|reading| reading.rounds(value)));
    let of_time = number.unit.is_some_and(|unit| unit.dimension == "time");
    let of_some = || column.len() <= SUMMED_OF && derive::sums_of_some(&column).any(|(_, sum)| equals(number, Precision::Exact, &[sum]));
    if of_time || of_some() || number.ordinal || number.percent || number.scaled || facts.leaves.iter().any(stands) {
        return None;
    }
    let sum: f64 = column.iter().sum();
    let mean = sum / column.len() as f64;
    let precision = precision_of(scene, number);
    let made = match cues::role(scene.plain, number) {
        Role::Average => mean,
        Role::Total => sum,
        Role::Share | Role::Any => return None,
    };
    // In another unit, or as the other of the two.
    let known =
        [sum, mean, sum / 1000.0, sum * 1000.0, sum / 60.0, sum / 100.0, sum * 7.0, sum / 7.0, mean / 1000.0, mean * 1000.0, mean / 60.0];
    let fits =
        equals(number, precision, &known) || equals(number, precision, &[made]) || number.readings().any(|reading| reading.rounds(made));
    (!fits).then(|| ClaimFinding { expected: made.to_string(), ..ungrounded(scene, "totals", number.span.start..number.end) })
}
