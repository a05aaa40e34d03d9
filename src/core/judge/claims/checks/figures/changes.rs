//! A change that its own two figures contradict: `risen from 230 to 198`, `from 2,600 to 3,150, a gain of 450`. Pure.
//!
//! The words lie in `lexicon/changes.toml`.

use std::{ops::Range, sync::OnceLock};

use serde::Deserialize;

use crate::{
    judge::claims::{
        checks::account,
        context::{CheckContext, ClaimFinding},
        evidence,
        language::{
            fold::fold,
            number::{Number, Precision},
            word_list::{FoldedParts, WordList, data_file},
        },
    },
    violation::{Certainty, Code},
};

/// Bytes between the two figures of a change.
const GAP_BYTES_MAX: usize = 48;
/// Bytes behind them in which it is told by how much.
const APART_BYTES_MAX: usize = 160;
/// Years, which change nothing.
const YEARS: Range<f64> = 1900.0..2101.0;

/// The words of `lexicon/changes.toml`, as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenChangeWords {
    arrows: Vec<String>,
    behind: Vec<String>,
    rises: Vec<String>,
    falls: Vec<String>,
    places: Vec<String>,
    from: Vec<FromTo>,
}

/// The words before the two figures of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FromTo {
    before: String,
    between: Vec<String>,
}

/// The words of `lexicon/changes.toml`.
#[derive(Debug)]
struct ChangeWords {
    arrows: Vec<String>,
    behind: Vec<String>,
    rises: FoldedParts,
    falls: FoldedParts,
    places: FoldedParts,
    from: Vec<FromTo>,
}

fn data() -> &'static ChangeWords {
    static ALL: OnceLock<ChangeWords> = OnceLock::new();
    ALL.get_or_init(|| {
        let read: WrittenChangeWords = data_file(include_str!("../../language/lexicon/changes.toml"));
        let parts = |list: &[String]| FoldedParts::new(list, fold);
        let (rises, falls, places) = (parts(&read.rises), parts(&read.falls), parts(&read.places));
        ChangeWords { arrows: read.arrows, behind: read.behind, rises, falls, places, from: read.from }
    })
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Direction {
    Up,
    Down,
}

/// The finding of a passage that tells of a change in another direction, or by more or less, than its two figures make.
pub(super) fn change(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let text = scene.text();
    let plain = |number: &&Number| !number.ordinal && !scene.plain.is_taken(&(number.span.start..number.end));
    let numbers: Vec<&Number> = scene.plain.numbers.iter().filter(plain).collect();
    let mut from = 0;
    for (at, pair) in numbers.windows(2).enumerate() {
        let [one, other] = pair else { continue };
        if !is_from_to(text, one, other) {
            continue;
        }
        let next = numbers.get(at + 2).map_or(text.len(), |next| next.span.start);
        let before = text.get(from..one.span.start).unwrap_or_default();
        let before = before.get(before.rfind([';', '；', '\n']).map_or(0, |mark| mark + 1)..).unwrap_or(before);
        from = other.end;
        let behind = text.get(other.end..text.floor_char_boundary(next.min(other.end + APART_BYTES_MAX))).unwrap_or_default();
        let behind = behind.get(..behind.find([';', '.', '。', '।', '\n']).unwrap_or(behind.len())).unwrap_or(behind);
        let Some(direction) = direction_of(before).or_else(|| direction_of(behind)) else { continue };
        let signs = [one, other].iter().any(|number| matches!(scene.sign_before(number.span.start), Some('-' | '−' | '–')));
        if signs || account::denies(before) || data().places.stand_in(&fold(before)) {
            continue;
        }
        let values: Vec<(f64, f64)> = one.readings().zip(other.readings()).map(|(first, last)| (first.value, last.value)).collect();
        let years = |(first, last): &(f64, f64)| YEARS.contains(first) && YEARS.contains(last);
        if one.readings().count() != other.readings().count()
            || values.iter().any(|(first, last)| first == last)
            || values.iter().any(years)
        {
            continue;
        }
        let goes = |(first, last): &(f64, f64)| if last > first { Direction::Up } else { Direction::Down };
        if values.iter().all(|pair| goes(pair) != direction) {
            let expected = values
                .first()
                .map_or(String::new(), |(first, last)| format!("{last} is {} than {first}", if last > first { "more" } else { "less" }));
            return Some(finding(scene, "change_direction", one.span.start..other.end, expected));
        }
        let is_apart = |number: &Number| values.iter().any(|(first, last)| is_apart(number, (last - first).abs()));
        if let Some(told) = numbers.iter().find(|number| tells_apart(scene, one, other, number) && !is_apart(number)) {
            let expected = values.first().map_or(String::new(), |(first, last)| format!("{}", (last - first).abs()));
            return Some(finding(scene, "change_apart", told.span.start..told.end, expected));
        }
    }
    None
}

/// Bytes between a change and the number that tells by how much.
const APART_GAP_MAX: usize = 72;
const APART_BEFORE_MAX: usize = 24;

/// `from 2,600 to 3,150, a gain of 450`, `by 450, from 2,600`: does this number tell by how much the two of a change lie apart?
fn tells_apart(scene: &CheckContext<'_>, one: &Number, other: &Number, number: &Number) -> bool {
    static BY: WordList = WordList::new(&["by", "um", "de", "di", "met", "o", "of", "com", "en"]);
    let alike = !number.percent && number.unit == other.unit && number.span != one.span && number.span != other.span;
    if !alike || scene.sources.iter().any(|source| evidence::fits(number, Precision::Exact, &source.facts().numbers)) {
        return false;
    }
    let text = scene.text();
    if number.span.start >= other.end {
        let Some(gap) = text.get(other.end..number.span.start).filter(|gap| gap.len() <= APART_GAP_MAX) else { return false };
        return !gap.contains([';', '.', '。', '।', '\n']) && !gap.bytes().any(|byte| byte.is_ascii_digit()) && direction_of(gap).is_some()
            || is_apart_behind(text, other.end, number);
    }
    let gap = text.get(number.end..one.span.start).unwrap_or_default();
    gap.len() <= APART_BEFORE_MAX
        && !gap.contains([';', '.', '(', ')', '。', '।', '\n'])
        && !gap.bytes().any(|byte| byte.is_ascii_digit())
        && scene.words_before(number.span.start).last().is_some_and(|word| BY.has(&word.lower))
}

/// `to 3,150, that is 450 more`: does a word of direction stand right behind the number?
fn is_apart_behind(text: &str, from: usize, number: &Number) -> bool {
    let gap = text.get(from..number.span.start).unwrap_or_default();
    let behind = text.get(number.end..text.floor_char_boundary(text.len().min(number.end + APART_GAP_MAX))).unwrap_or_default();
    let behind = behind.get(..behind.find([',', ';', '.', '。', '।', '，']).unwrap_or(behind.len())).unwrap_or(behind);
    gap.len() <= APART_GAP_MAX
        && !gap.contains([';', '.', '。', '।', '\n'])
        && !gap.bytes().any(|byte| byte.is_ascii_digit())
        && direction_of(behind).is_some()
}

/// Is it this far?
fn is_apart(number: &Number, apart: f64) -> bool {
    number.readings().any(|shown| shown.rounds(apart) || shown.nears(apart, 0.03))
}

/// True of one of the two figures of a change: what was, and what became of it.
pub(in crate::judge::claims) fn is_of_change(scene: &CheckContext<'_>, number: &Number) -> bool {
    let tells = |pair: &[Number]| matches!(pair, [one, other] if (one.span == number.span || other.span == number.span) && is_from_to(scene.text(), one, other));
    scene.plain.numbers.windows(2).any(tells)
}

/// The direction that a part of the passage tells of, if it tells of one only.
fn direction_of(part: &str) -> Option<Direction> {
    let folded = fold(part);
    match (data().rises.stand_in(&folded), data().falls.stand_in(&folded)) {
        (true, false) => Some(Direction::Up),
        (false, true) => Some(Direction::Down),
        _ => None,
    }
}

/// `from 230 to 198`, `1450 → 1480`: is the first of these numbers what was, and the second what became of it?
pub(in crate::judge::claims) fn is_from_to(text: &str, one: &Number, other: &Number) -> bool {
    let same = one.percent == other.percent && (one.unit == other.unit || one.unit.is_none() || other.unit.is_none());
    let Some(gap) = text.get(one.end..other.span.start).filter(|gap| same && gap.len() <= GAP_BYTES_MAX) else { return false };
    if gap.contains([';', '.', ':', '\n', '(', ')', '。', '，', '、']) {
        return false;
    }
    let gap = gap.to_lowercase();
    if data().arrows.iter().any(|arrow| gap.contains(arrow.as_str())) {
        return true;
    }
    let trimmed = gap.trim_start_matches(['\'', '’', ' ']);
    if data().behind.iter().any(|word| trimmed.strip_prefix(word.as_str()).is_some_and(|rest| !word.is_ascii() || rest.starts_with(' '))) {
        return true;
    }
    let before = text.get(..one.span.start).unwrap_or_default().trim_end_matches(|c: char| !c.is_alphanumeric());
    data().from.iter().any(|pair| {
        let begins = if pair.before.is_ascii() {
            let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            word.eq_ignore_ascii_case(&pair.before)
        } else {
            before.ends_with(pair.before.as_str())
        };
        begins
            && pair.between.iter().any(|word| {
                if pair.before.is_ascii() {
                    gap.split(|c: char| !c.is_alphanumeric()).any(|own| own == word)
                } else {
                    gap.contains(word.as_str())
                }
            })
    })
}

fn finding(scene: &CheckContext<'_>, rule: &'static str, span: Range<usize>, expected: String) -> ClaimFinding {
    let found = scene.text().get(span.clone()).unwrap_or_default().to_owned();
    ClaimFinding { rule, code: Code::ClaimMismatch, span, found, expected, certainty: Certainty::Likely }
}
