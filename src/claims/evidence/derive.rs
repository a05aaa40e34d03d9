//! Numbers that follow from those of a result without being in it. Pure.
//!
//! What an honest answer computes: sums, averages, extremes' distances, shares, differences, products, counts of things
//! and of things with one value, days between dates. Only what is small enough to be computed in no time.

use std::collections::BTreeMap;

use super::facts::{ResultFacts, Scalar};
use crate::language::{date, number::numbers, word_list::PhraseList};

/// Columns of which pairs are looked at.
const COLUMNS_OF: usize = 8;
/// Different numbers of which pairs are looked at.
const PAIRS_OF: usize = 20;
/// Values of which it is looked at how often each stands.
const LEAVES_OF: usize = 2000;
/// Dates of which pairs are looked at.
const DATES_OF: usize = 24;

/// Numbers that follow from a result, in no order.
#[derive(Debug, Default)]
pub struct Derived {
    /// Amounts that a result may be said to have without any reckoning: numbers of things, spans of time, sums and averages of columns.
    pub plain: Vec<f64>,
    /// Amounts: sums, differences, averages, products within a record, numbers of things, spans of time.
    pub amounts: Vec<f64>,
    /// Shares and changes in percent.
    pub percents: Vec<f64>,
    /// Ratio of two numbers.
    pub ratios: Vec<f64>,
}

/// Records whose own numbers are put together.
const RECORDS_OF: usize = 60;
/// Columns by whose values numbers are added up.
const GROUPS_OF: usize = 4;
/// Numbers of one record, or of none, that are put together.
const MEMBERS_OF: usize = 10;

impl Derived {
    /// Numbers derived from two numbers of one kind.
    fn alike(&mut self, one: f64, other: f64) {
        self.amounts.extend([one + other, one - other, (one + other) / 2.0]);
        self.share(one, other);
    }

    /// Numbers derived from two numbers of different kinds.
    fn unlike(&mut self, one: f64, other: f64) {
        self.amounts.extend([one + other, one - other, one * other]);
        if one != 0.0 && other != 0.0 {
            self.amounts.extend([one / other, other / one]);
        }
        self.share(one, other);
    }

    fn share(&mut self, one: f64, other: f64) {
        for (one, other) in [(one, other), (other, one)] {
            if other != 0.0 {
                self.ratios.push(one / other);
                self.percents.extend([one / other * 100.0, (one - other) / other * 100.0, 100.0 - one / other * 100.0]);
            }
        }
    }
}

/// Numbers that follow from a result.
pub fn derived(facts: &ResultFacts) -> Derived {
    let mut found = Derived { plain: facts.counts().iter().map(|count| *count as f64).collect(), ..Derived::default() };
    let placed = facts.columns_of(|record, number| (record, number));
    let columns: BTreeMap<&str, Vec<f64>> =
        placed.iter().map(|(key, column)| (*key, column.iter().map(|(_, number)| *number).collect())).collect();
    for numbers in columns.values() {
        let sum = numbers.iter().sum::<f64>();
        found.plain.extend([sum, sum / numbers.len() as f64]);
        let mut shares = Vec::new();
        aggregates(numbers, &mut found.amounts, &mut shares);
        found.percents.extend(shares);
        let mut distinct = numbers.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() <= PAIRS_OF {
            for (at, one) in distinct.iter().enumerate() {
                distinct.iter().skip(at + 1).for_each(|other| found.alike(*one, *other));
            }
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            distinct.iter().for_each(|one| found.alike(*one, mean));
        }
    }
    found.plain.extend(groups(facts));
    found.plain.extend(objects(facts));
    found.plain.extend(means_of_counts(facts));
    found.plain.extend(sums_in_texts(facts));
    found.plain.extend(lengths(facts));
    found.plain.extend(sums_by_place(facts));
    let beside: Vec<&Vec<(usize, f64)>> = placed.values().take(COLUMNS_OF).collect();
    for (at, one) in beside.iter().enumerate() {
        beside.iter().skip(at + 1).for_each(|other| two_columns(one, other, &mut found.amounts));
    }
    // Numbers of one record, and those that stand for the whole.
    let mut by_record: BTreeMap<usize, Vec<(&str, f64)>> = BTreeMap::new();
    for leaf in &facts.leaves {
        if let Some(number) = leaf.value.number() {
            by_record.entry(leaf.record).or_default().push((&leaf.key, number));
        }
    }
    let whole: Vec<(&str, f64)> = by_record.get(&0).cloned().unwrap_or_default().into_iter().take(MEMBERS_OF).collect();
    for numbers in by_record.values().take(RECORDS_OF) {
        for (at, (key, one)) in numbers.iter().take(MEMBERS_OF).enumerate() {
            for (other_key, other) in numbers.iter().take(MEMBERS_OF).skip(at + 1) {
                if key == other_key { found.alike(*one, *other) } else { found.unlike(*one, *other) }
            }
        }
    }
    for (key, total) in &whole {
        for (other_key, numbers) in columns.iter().take(COLUMNS_OF) {
            let (sum, mean) = (numbers.iter().sum::<f64>(), numbers.iter().sum::<f64>() / numbers.len() as f64);
            for number in numbers.iter().take(RECORDS_OF).copied().chain([sum, mean]) {
                if key == other_key { found.alike(*total, number) } else { found.unlike(*total, number) }
            }
        }
    }
    let values: Vec<f64> = distinct(facts);
    found.amounts.push(values.iter().sum());
    if facts.leaves.iter().all(|leaf| leaf.value.number().is_none()) && values.len() <= PAIRS_OF {
        for (at, one) in values.iter().enumerate() {
            values.iter().skip(at + 1).for_each(|other| found.alike(*one, *other));
        }
    }
    spans(facts, &mut found.plain);
    found.amounts.extend_from_slice(&found.plain);
    for numbers in [&mut found.plain, &mut found.amounts, &mut found.percents, &mut found.ratios] {
        numbers.retain(|number| number.is_finite());
        numbers.iter_mut().for_each(|number| *number = number.abs());
    }
    found
}

/// The sums of some of these values, each with how many they are. At most 31 values: there are two to their power.
pub fn sums_of_some(values: &[f64]) -> impl Iterator<Item = (u32, f64)> {
    (1_u32..1 << values.len()).map(|chosen| {
        let own = values.iter().enumerate().filter(move |(at, _)| chosen >> at & 1 == 1);
        (chosen.count_ones(), own.map(|(_, value)| value).sum())
    })
}

/// Members from which the numbers of an object are added up.
const SUMMED_FROM: usize = 3;
/// Letters of a text beside numbers that is their unit.
const UNIT_CHARS_MAX: usize = 8;

/// Sums of the objects that hold nothing but numbers, and their unit: `{"jan": 180, "feb": 150, "mar": 120, "unit": "m3"}`.
fn objects(facts: &ResultFacts) -> impl Iterator<Item = f64> {
    numbers_of_objects(facts, |_| true).map(|numbers| numbers.iter().sum())
}

/// The numbers of each object that holds nothing but numbers, alike as far as their size tells, and perhaps a member that names their unit.
pub fn objects_of_numbers(facts: &ResultFacts) -> impl Iterator<Item = Vec<f64>> {
    let unit = |key: &str| UNIT_KEYS.iter().any(|part| key.contains(part));
    numbers_of_objects(facts, unit).filter(|numbers| {
        let sizes = numbers.iter().map(|number| number.abs()).filter(|size| *size > 0.0);
        let (least, most) = sizes.fold((f64::MAX, 0.0_f64), |(least, most), size| (least.min(size), most.max(size)));
        most <= least * ALIKE
    })
}

/// Parts of the names of members that tell a unit.
const UNIT_KEYS: [&str; 7] = ["unit", "curr", "moned", "moed", "devise", "wahr", "einheit"];
/// The most times that the largest of numbers that are alike may be the least of them.
const ALIKE: f64 = 50.0;

fn numbers_of_objects(facts: &ResultFacts, may_have: impl Fn(&str) -> bool) -> impl Iterator<Item = Vec<f64>> {
    let mut objects: BTreeMap<usize, (Vec<f64>, bool)> = BTreeMap::new();
    for leaf in facts.leaves.iter().filter(|leaf| leaf.object > 0).take(LEAVES_OF) {
        let (numbers, only) = objects.entry(leaf.object).or_insert((Vec::new(), true));
        match &leaf.value {
            Scalar::Number(number) => numbers.push(*number),
            Scalar::Text(text) => *only &= text.chars().count() <= UNIT_CHARS_MAX && may_have(&leaf.key),
            Scalar::Flag(_) | Scalar::Null => *only = false,
        }
    }
    objects.into_values().filter(|(numbers, only)| *only && numbers.len() >= SUMMED_FROM).map(|(numbers, _)| numbers)
}

/// The average of what numbers of things are told of: 4.24 stars of `{"5": 90, "4": 30, "3": 15, "2": 6, "1": 9}`.
fn means_of_counts(facts: &ResultFacts) -> impl Iterator<Item = f64> {
    let mut objects: BTreeMap<usize, Option<(f64, f64)>> = BTreeMap::new();
    for leaf in facts.leaves.iter().filter(|leaf| leaf.object > 0).take(LEAVES_OF) {
        let sums = objects.entry(leaf.object).or_insert(Some((0.0, 0.0)));
        let (value, count) = (leaf.key.parse::<f64>().ok().filter(|value| value.is_finite()), leaf.value.number());
        *sums = sums.zip(value.zip(count)).map(|((sum, all), (value, count))| (sum + value * count, all + count));
    }
    objects.into_values().flatten().filter(|(_, all)| *all > 0.0).map(|(sum, all)| sum / all)
}

/// Rows and their values that are added up by their places.
const ROWS_OF: usize = 200;
const PLACES_OF: usize = 12;

/// The sums of what stands at one place of rows without names: `[["Email", 2740, 137], ["Direct", 6150, 98]]`.
fn sums_by_place(facts: &ResultFacts) -> Vec<f64> {
    let mut rows: BTreeMap<usize, Vec<&super::facts::NamedValue>> = BTreeMap::new();
    for leaf in facts.leaves.iter().filter(|leaf| leaf.record > 0).take(LEAVES_OF) {
        rows.entry(leaf.record).or_default().push(leaf);
    }
    let of_places = |row: &&Vec<&super::facts::NamedValue>| row.len() > 1 && row.windows(2).all(|two| two[0].key == two[1].key);
    let rows: Vec<_> = rows.values().filter(of_places).take(ROWS_OF).collect();
    let width = rows.first().map_or(0, |row| row.len());
    if rows.len() < 2 || rows.iter().any(|row| row.len() != width) {
        return Vec::new();
    }
    let column = |place: usize| rows.iter().map(|row| row.get(place).and_then(|leaf| leaf.value.number())).collect::<Option<Vec<f64>>>();
    (0..width.min(PLACES_OF)).filter_map(column).map(|column| column.iter().sum()).collect()
}

/// Bytes of a length of time with hours, minutes and seconds.
const LENGTH_BYTES: std::ops::RangeInclusive<usize> = 7..=9;

/// Lengths that are written as `01:04:30`, in hours, in minutes and in seconds.
fn lengths(facts: &ResultFacts) -> impl Iterator<Item = f64> {
    let read = |text: &str| -> Option<f64> {
        let mut parts = text.split(':').map(|part| part.parse::<u32>().ok().filter(|_| part.len() <= 3));
        let (Some(hours), Some(minutes), Some(seconds), None) = (parts.next()??.into(), parts.next()?, parts.next()?, parts.next()) else {
            return None;
        };
        (minutes < 60 && seconds < 60).then(|| f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + f64::from(seconds))
    };
    let texts = facts.leaves.iter().take(LEAVES_OF).filter_map(|leaf| if let Scalar::Text(text) = &leaf.value { Some(text) } else { None });
    let own = texts.filter(|text| LENGTH_BYTES.contains(&text.len()) && text.contains(':'));
    own.filter_map(move |text| read(text)).flat_map(|seconds| [seconds / 3600.0, seconds / 60.0, seconds])
}

/// Bytes of a text with an amount.
const AMOUNT_BYTES_MAX: usize = 200;

/// Sums of the amounts of money that a column's texts have, one each: `Invoice 2026-0412 – EUR 18.90`.
fn sums_in_texts(facts: &ResultFacts) -> Vec<f64> {
    let cents = |text: &str| {
        let all = numbers(text);
        let mut own = all.iter().flat_map(|number| number.readings().next()).filter(|reading| reading.step == 0.01);
        own.next().filter(|_| own.next().is_none()).map(|reading| reading.value)
    };
    let mut sums: BTreeMap<&str, Option<(f64, usize)>> = BTreeMap::new();
    for leaf in facts.leaves.iter().filter(|leaf| leaf.record > 0).take(LEAVES_OF) {
        let Scalar::Text(text) = &leaf.value else { continue };
        let sum = sums.entry(&leaf.key).or_insert(Some((0.0, 0)));
        // One text without an amount is enough to leave its column out.
        *sum = sum.filter(|_| text.len() <= AMOUNT_BYTES_MAX && text.contains(['.', ',']));
        *sum = sum.and_then(|(sum, count)| Some((sum + cents(text)?, count + 1)));
    }
    sums.into_values().flatten().filter(|(_, count)| *count > 1).map(|(sum, _)| sum).collect()
}

/// Sums of a column's numbers by the values of another: costs by region.
fn groups(facts: &ResultFacts) -> Vec<f64> {
    let mut kinds: BTreeMap<usize, Vec<(&str, &str)>> = BTreeMap::new();
    for leaf in facts.leaves.iter().filter(|leaf| leaf.record > 0).take(LEAVES_OF) {
        if let Scalar::Text(text) = &leaf.value
            && text.len() <= 40
        {
            kinds.entry(leaf.record).or_default().push((&leaf.key, text));
        }
    }
    let mut sums: BTreeMap<(&str, &str, &str), (f64, usize)> = BTreeMap::new();
    for leaf in facts.leaves.iter().filter(|leaf| leaf.record > 0).take(LEAVES_OF) {
        let Some(number) = leaf.value.number() else { continue };
        for (key, kind) in kinds.get(&leaf.record).into_iter().flatten().filter(|(key, _)| *key != leaf.key).take(GROUPS_OF) {
            let sum = sums.entry((key, kind, &leaf.key)).or_default();
            *sum = (sum.0 + number, sum.1 + 1);
        }
    }
    // Of a part, and of what is left without it.
    let mut all: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for ((key, _, column), (sum, count)) in &sums {
        if sums.keys().next().is_some_and(|(first, ..)| first == key) {
            let whole = all.entry(column).or_default();
            *whole = (whole.0 + sum, whole.1 + count);
        }
    }
    let rest = sums.iter().filter_map(|((_, _, column), (sum, count))| {
        let (whole, of) = all.get(column)?;
        Some([whole - sum, (whole - sum) / of.checked_sub(*count).filter(|rest| *rest > 1)? as f64])
    });
    let rest: Vec<f64> = rest.flatten().take(LEAVES_OF).collect();
    let parts = sums.into_values().filter(|(_, count)| *count > 1).flat_map(|(sum, count)| [sum, sum / count as f64]);
    parts.chain(rest).collect()
}

/// What two columns make of the rows that have both, each number with its record: the sum of their products (prices and quantities),
/// the like by weights in percent, and what there is of one for each of the other.
fn two_columns(one: &[(usize, f64)], other: &[(usize, f64)], found: &mut Vec<f64>) {
    let same = one.len() == other.len();
    let (mut sum, mut of, mut products) = (0.0, 0.0, 0.0);
    let mut rest = other.iter().peekable();
    for (record, value) in one {
        // Records stand in their order.
        while !same && rest.next_if(|(own, _)| own < record).is_some() {}
        let Some((_, beside)) = rest.next_if(|(own, _)| same || own == record) else { continue };
        (sum, of, products) = (sum + value, of + beside, products + value * beside);
    }
    // The sum of the products, and what each of the one weighs by the other.
    found.extend([products, products / sum, products / of]);
    found.extend([sum / of, of / sum]);
    if sum <= WHOLE || of <= WHOLE {
        found.push(products / WHOLE);
    }
}

/// A whole in percent.
const WHOLE: f64 = 100.0;

/// Numbers derived from a pair: sum, difference, product, shares and changes in percent.
pub fn pair(one: f64, other: f64, found: &mut Vec<f64>) {
    found.extend([one + other, one - other, one * other, (one + other) / 2.0]);
    for (one, other) in [(one, other), (other, one)] {
        if other != 0.0 {
            found.extend([one / other, one / other * 100.0, (one - other) / other * 100.0]);
        }
    }
}

/// Numbers derived from a number and a percentage: the share, and the number with it and without it.
pub fn with_percent(number: f64, percent: f64) -> [f64; 3] {
    let share = number * percent / 100.0;
    [share, number + share, (number - share).abs()]
}

/// Every number of things that the result may be said to have.
pub fn counts(facts: &ResultFacts) -> Vec<u64> {
    let mut counts: Vec<u64> = facts.lists.iter().map(|list| list.length as u64).collect();
    let mut by_name: BTreeMap<&[String], u64> = BTreeMap::new();
    for list in &facts.lists {
        *by_name.entry(&list.words).or_default() += list.length as u64;
    }
    counts.extend(by_name.into_values());
    counts.extend(by_value(facts));
    let numbers = facts.leaves.iter().filter_map(|leaf| Some((leaf, leaf.value.number()?)));
    // That of a record is its own.
    counts.extend(numbers.filter(|(leaf, _)| leaf.record == 0 && is_count(&leaf.key)).map(|(_, count)| count as u64));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Does a member of this name say how many there are?
pub fn is_count(key: &str) -> bool {
    static COUNTS: PhraseList = PhraseList::new(&[
        "total", "count", "number", "num", "size", "length", "amount", "hits", "found", "matches", "anzahl", "results", "quantity",
    ]);
    COUNTS.stands_in(key) || key.starts_with("n") && key.len() <= 2
}

/// Does a member of this name say how many of its thing there are?
pub fn is_quantity(key: &str) -> bool {
    ["qty", "quantity", "quantities", "units", "pieces", "pcs", "menge", "anzahl", "stück", "cantidad", "quantité", "quantità", "count"]
        .contains(&key)
}

/// Number of occurrences of each value of each key, and number of values of each key.
fn by_value(facts: &ResultFacts) -> Vec<u64> {
    let mut values: Vec<(&str, ComparedValue<'_>)> = Vec::with_capacity(facts.leaves.len().min(LEAVES_OF));
    for leaf in facts.leaves.iter().take(LEAVES_OF) {
        values.push((
            &leaf.key,
            match &leaf.value {
                Scalar::Text(text) if text.len() > 64 => continue,
                Scalar::Text(text) => ComparedValue::Text(text),
                Scalar::Number(number) => ComparedValue::Number(number.to_bits()),
                Scalar::Flag(flag) => ComparedValue::Flag(*flag),
                Scalar::Null => ComparedValue::Null,
            },
        ));
    }
    values.sort_unstable();
    let mut found = Vec::new();
    for of_key in values.chunk_by(|one, other| one.0 == other.0) {
        let before = found.len();
        found.extend(of_key.chunk_by(|one, other| one.1 == other.1).map(|same| same.len() as u64));
        found.push((found.len() - before) as u64);
    }
    found
}

/// A value, to be told from others.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum ComparedValue<'f> {
    Text(&'f str),
    Number(u64),
    Flag(bool),
    Null,
}

/// Numbers derived from a column: sum, average, range, median, shares, partial sums.
pub fn aggregates(numbers: &[f64], found: &mut Vec<f64>, shares: &mut Vec<f64>) {
    let sum: f64 = numbers.iter().sum();
    let count = numbers.len() as f64;
    let (least, most) = numbers.iter().fold((f64::MAX, f64::MIN), |(least, most), number| (least.min(*number), most.max(*number)));
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
    let median =
        if sorted.len() % 2 == 1 { at(sorted.len() / 2) } else { (at(sorted.len() / 2) + at((sorted.len() / 2).saturating_sub(1))) / 2.0 };
    let (above, below): (Vec<f64>, Vec<f64>) = numbers.iter().partition(|number| **number >= 0.0);
    found.extend([above.iter().sum::<f64>(), below.iter().sum::<f64>()]);
    found.extend([sum, sum / count, most - least, median, (most + least) / 2.0]);
    if sum != 0.0 {
        shares.extend(numbers.iter().flat_map(|number| [number / sum * 100.0, 100.0 - number / sum * 100.0]));
    }
    for _end in 0..2 {
        let mut running = 0.0;
        for (at, number) in sorted.iter().enumerate() {
            running += number;
            found.extend([running, running / (at + 1) as f64]);
        }
        // From the least on, then from the most.
        sorted.reverse();
    }
}

fn distinct(facts: &ResultFacts) -> Vec<f64> {
    let mut values: Vec<f64> =
        facts.leaves.iter().filter_map(|leaf| leaf.value.number()).map(f64::abs).filter(|value| *value > 1.0).collect();
    if values.is_empty() {
        values = facts.numbers.iter().copied().filter(|value| *value > 1.0).collect();
    }
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Minutes since the epoch of a value that is a date with a time: `2025-05-03T10:00Z`.
fn moment(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
    let legal = matches!(bytes.get(10), Some(b'T' | b' ')) && bytes.get(4) == Some(&b'-') && bytes.get(13) == Some(&b':');
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let days = date::days(i32::try_from(year).ok()?, month.clamp(1, 12), day.clamp(1, 31));
    legal.then_some(days as f64 * 1440.0 + f64::from(hour * 60 + minute))
}

/// Days, hours and minutes between the dates and times.
fn spans(facts: &ResultFacts, found: &mut Vec<f64>) {
    let moments = facts.leaves.iter().filter_map(|leaf| match &leaf.value {
        Scalar::Text(text) if (16..=32).contains(&text.len()) => moment(text),
        _ => None,
    });
    let moments: Vec<f64> = moments.take(DATES_OF / 2).collect();
    for (at, one) in moments.iter().enumerate() {
        for other in moments.iter().skip(at + 1) {
            let apart = (one - other).abs();
            found.extend([apart, apart / 60.0, apart / 1440.0, (apart / 1440.0).floor(), ((apart % 1440.0) / 60.0).floor(), apart % 60.0]);
        }
    }
    let days: Vec<i64> = facts.dates.dates.iter().flat_map(|date| date.days()).take(DATES_OF).collect();
    for (at, one) in days.iter().enumerate() {
        for other in days.iter().skip(at + 1) {
            let apart = (one - other).unsigned_abs() as f64;
            found.extend([apart, apart + 1.0, (apart / 7.0).round(), (apart / 30.44).round(), (apart / 365.25).floor()]);
        }
    }
    let times: Vec<u32> = facts.dates.times.iter().map(|time| time.minutes).take(DATES_OF).collect();
    for (at, one) in times.iter().enumerate() {
        for other in times.iter().skip(at + 1) {
            let apart = f64::from(one.abs_diff(*other));
            let round = 1440.0 - apart;
            found.extend([
                apart,
                round,
                apart / 60.0,
                round / 60.0,
                apart % 60.0,
                round % 60.0,
                (apart / 60.0).floor(),
                (round / 60.0).floor(),
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows() {
        let facts = ResultFacts::read(r#"[{"price":12.5,"state":"open"},{"price":7.5,"state":"open"},{"price":10,"state":"closed"}]"#);
        let derived = &facts.derived().amounts;
        let has = |wanted: f64| derived.iter().any(|number| (number - wanted).abs() < 1e-9);
        for wanted in [30.0, 10.0, 5.0, 3.0, 2.0, 20.0] {
            assert!(has(wanted), "{wanted} of {derived:?}");
        }
        // Of one column nothing is multiplied.
        assert!(!has(31.0) && !has(125.0));
        let facts = ResultFacts::read(r#"{"count":150,"stars":{"5":90,"4":30,"3":15,"2":6,"1":9}}"#);
        assert!(facts.derived().plain.iter().any(|mean| (mean - 4.24).abs() < 1e-9));
        let facts = ResultFacts::read(r#"[{"subject":"Invoice 2026-0412, EUR 18.90"},{"subject":"Invoice 88-10, EUR 142.35"}]"#);
        assert!(facts.derived().plain.iter().any(|sum| (sum - 161.25).abs() < 1e-9));
        // The three that aren't closed; what is left of two is no average.
        let ages = r#"[{"h":30,"is":"open"},{"h":22,"is":"open"},{"h":17,"is":"waiting"},{"h":5,"is":"closed"}]"#;
        assert!(ResultFacts::read(ages).derived().plain.contains(&23.0));
        let facts = ResultFacts::read(r#"{"rows":[["Email",2740,137],["Direct",6150,98]],"length":"01:04:30"}"#);
        for wanted in [8890.0, 235.0, 64.5] {
            assert!(facts.derived().plain.contains(&wanted), "{wanted}");
        }
        let facts = ResultFacts::read(r#"{"from":"2025-05-03","to":"2025-05-10"}"#);
        assert!(facts.derived().amounts.contains(&7.0));
    }
}
