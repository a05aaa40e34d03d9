//! A change that its own two figures contradict: `risen from 230 to 198`, `from 2,600 to 3,150, a gain of 450`. Pure.

use std::ops::Range;

use crate::{
    checks::figures::finding,
    context::{CheckContext, ClaimFinding},
    evidence,
    language::{
        changes::{Direction, direction_of, is_from_to, tells_distance, tells_places},
        number::{Number, Precision},
        polarity::negation,
        word_list::WordList,
    },
};
use toolmark_base::violation::Code;

/// Bytes behind the two figures of a change in which its direction is told.
const APART_BYTES_MAX: usize = 160;
/// Years, which change nothing.
const YEARS: Range<f64> = 1900.0..2101.0;

/// The finding of a passage that tells of a change in another direction, or by more or less, than its two figures make.
pub(super) fn change(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let text = scene.text();
    let plain = |number: &&Number| !number.ordinal && !scene.plain.is_taken(&(number.span.start..number.end));
    let numbers: Vec<&Number> = scene.plain.numbers().iter().filter(plain).collect();
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
        // Without one it may be told behind the number that says by how much.
        let direction = direction_of(before).or_else(|| direction_of(behind));
        let signs = [one, other].iter().any(|number| matches!(scene.sign_before(number.span.start), Some('-' | '−' | '–')));
        if signs || negation::denies(before) || tells_places(before) {
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
        if direction.is_some_and(|direction| values.iter().all(|pair| goes(pair) != direction)) {
            let expected = values
                .first()
                .map_or(String::new(), |(first, last)| format!("{last} is {} than {first}", if last > first { "more" } else { "less" }));
            return Some(finding(scene, "change_direction", Code::ClaimMismatch, one.span.start..other.end, expected));
        }
        let is_apart = |number: &Number| values.iter().any(|(first, last)| is_apart(number, (last - first).abs()));
        if let Some(told) = numbers.iter().find(|number| tells_apart(scene, one, other, number) && !is_apart(number)) {
            let expected = values.first().map_or(String::new(), |(first, last)| format!("{}", (last - first).abs()));
            return Some(finding(scene, "change_apart", Code::ClaimMismatch, told.span.start..told.end, expected));
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
        return is_one_part(gap) && (tells_distance(gap) || is_told_behind(text, number));
    }
    let gap = text.get(number.end..one.span.start).unwrap_or_default();
    gap.len() <= APART_BEFORE_MAX
        && !gap.contains(['(', ')'])
        && is_one_part(gap)
        && scene.words_before(number.span.start).last().is_some_and(|word| BY.has(&word.lower))
}

/// True of what stands between two figures of one sentence, with no other figure.
fn is_one_part(gap: &str) -> bool {
    !gap.contains([';', '.', '。', '।', '\n']) && !gap.bytes().any(|byte| byte.is_ascii_digit())
}

/// `to 3,150, that is 450 more`: true if a word of direction or distance stands right behind the number.
fn is_told_behind(text: &str, number: &Number) -> bool {
    let behind = text.get(number.end..text.floor_char_boundary(text.len().min(number.end + APART_GAP_MAX))).unwrap_or_default();
    let behind = behind.get(..behind.find([',', ';', '.', '。', '।', '，']).unwrap_or(behind.len())).unwrap_or(behind);
    tells_distance(behind)
}

/// Is it this far?
fn is_apart(number: &Number, apart: f64) -> bool {
    number.readings().any(|shown| shown.rounds(apart) || shown.nears(apart, 0.03))
}
