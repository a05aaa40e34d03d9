//! A number that a sentence tells behind the two that make it: `119 of 300 euros, which leaves 181`, `48 and 18, so 66 in all`. Pure.

use std::ops::Range;

use crate::{
    checks::figures::finding,
    context::{CheckContext, ClaimFinding},
    evidence::{self, facts::Scalar},
    language::{
        fold::fold,
        number::{Number, Precision},
        word_list::PhraseList,
    },
};
use toolmark_base::violation::Code;

/// Bytes between the two numbers, between them and what they make, and behind that.
const GAP_BYTES_MAX: usize = 72;
const BEHIND_BYTES_MAX: usize = 24;
/// Numbers of the results that may be a third.
const THIRDS_OF: usize = 64;
/// The most by which a rounded number is off, as a share of it.
const ROUNDED: f64 = 0.02;

/// The finding of a number that is told as the difference or the sum of the two before it, and is none.
pub(super) fn made_of_two(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let free = |number: &&Number| !number.ordinal && !scene.plain.is_taken(&(number.span.start..number.end));
    let [one, other, told] = scene.plain.numbers().iter().filter(free).collect::<Vec<&Number>>()[..] else { return None };
    let text = scene.text();
    let between = gap(text, one.end..other.span.start)?;
    let leads = gap(text, other.end..told.span.start)?;
    let behind = text.get(told.end..text.floor_char_boundary(text.len().min(told.end + BEHIND_BYTES_MAX))).unwrap_or_default();
    let behind = behind.split([',', ';', '.', '(', '\n', '。', '，']).next().unwrap_or_default();
    // `Two adults at 48 and a child at 18`: so many of each.
    let counts = scene.plain.words.iter().any(|word| scene.lexicon.count(&word.lower).is_some_and(|count| count > 1));
    let signed = [one, other, told].iter().any(|number| matches!(scene.sign_before(number.span.start), Some('-' | '−' | '×' | '*' | '/')));
    if !tells_result(leads, behind) || counts || signed || !are_alike(one, other) || !are_alike(one, told) || between.contains('%') {
        return None;
    }
    // `in 30:41, 17 seconds ahead`: of two paces, which are no numbers.
    let has_pace = |source: &&evidence::ToolResult| {
        source.facts().leaves.iter().any(|leaf| matches!(&leaf.value, Scalar::Text(text) if is_pace(text)))
            || source.rows().rows.iter().flat_map(|row| &row.cells).any(|cell| is_pace(&cell.raw))
    };
    if told.unit.is_some_and(|unit| unit.dimension == "time") && scene.sources.iter().any(has_pace) {
        return None;
    }
    let stands = |number: &Number| {
        let literal = scene.sources.iter().any(|source| evidence::fits(number, Precision::Exact, &source.facts().numbers));
        literal || number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value))
    };
    // Told by a result, or made of more than the sentence tells: a total of a column.
    let told_elsewhere = || scene.sources.iter().any(|source| scene.grounds.has_plain_number(told, Precision::Exact, source));
    if !stands(one) || !stands(other) || stands(told) || scene.is_hedged(&(told.span.start..told.end)) || told_elsewhere() {
        return None;
    }
    let pairs = || one.readings().zip(other.readings()).map(|(one, other)| (one.value, other.value));
    let made = |(one, other): (f64, f64)| [(one - other).abs(), one + other, one * other, one / other, other / one, (one + other) / 2.0];
    let is = |value: f64| value.is_finite() && told.readings().any(|shown| shown.rounds(value) || shown.nears(value, ROUNDED));
    // `13.50 instead of 19 a month, so 66 less a year`
    const TIMES: [f64; 6] = [7.0, 12.0, 24.0, 30.0, 52.0, 365.0];
    let of_times = |(one, other): (f64, f64)| TIMES.iter().any(|times| is((one - other).abs() * times) || is((one + other) * times));
    // `Without the 6 and the 4, 36 are left` of 46.
    let thirds = || scene.sources.iter().flat_map(|source| source.facts().numbers.iter()).chain(scene.grounds.said_numbers());
    let exactly = |value: f64| told.readings().any(|shown| shown.rounds(value));
    let of_third = |third: &f64| {
        let twos = || pairs().flat_map(|(one, other)| [one + other, one - other]);
        twos().any(|two| exactly((third - two).abs()) || exactly((third + two).abs()))
    };
    if pairs().flat_map(made).any(is) || pairs().any(of_times) || thirds().take(THIRDS_OF).any(of_third) {
        return None;
    }
    let (one, other) = pairs().next()?;
    let expected = format!("{} or {}", shown((one - other).abs()), shown(one + other));
    Some(finding(scene, "made_of_two", Code::UngroundedValue, told.span.start..told.end, expected))
}

/// True of a time such as `30:41`.
fn is_pace(text: &str) -> bool {
    text.split_once(':').is_some_and(|(minutes, seconds)| {
        minutes.len() <= 3
            && seconds.len() >= 2
            && minutes.bytes().chain(seconds.bytes()).all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':'))
    })
}

/// The text between two numbers of one sentence; `None` if it is long, or ends a part.
fn gap(text: &str, span: Range<usize>) -> Option<&str> {
    let gap = text.get(span)?;
    (gap.len() <= GAP_BYTES_MAX && !gap.contains([';', '(', ')', '\n', '。', '।', '|']) && !gap.contains(". ")).then_some(gap)
}

/// Do the words before a number, or right behind it, tell that it is what two others leave or make together?
fn tells_result(leads: &str, behind: &str) -> bool {
    static LEADS: PhraseList = PhraseList::new(&[
        " leaves",
        " leaving",
        " remain",
        " difference",
        " gap of",
        " jump of",
        " rises by",
        " rise of",
        " rose by",
        " increase of",
        " drop of",
        " decrease of",
        " fell by",
        " margin of",
        " so that s",
        " in all",
        " in total",
        " altogether",
        " together",
        " total of",
        " bleiben",
        " bleibt",
        " differenz",
        " unterschied",
        " zusammen",
        " insgesamt",
        " macht ",
        " reste",
        " laisse",
        " au total",
        " en tout",
        " quedan",
        " queda ",
        " diferencia",
        " en total",
        " restano",
        " resta ",
        " differenza",
        " in totale",
        " restam",
        " diferenca",
        " verschil",
        " samen",
        " totaal",
        " zostaje",
        " razem",
    ]);
    static BEHIND: PhraseList = PhraseList::new(&[
        " left",
        " remain",
        " in all",
        " in total",
        " altogether",
        " together",
        " all told",
        " more ",
        " less ",
        " apart",
        " ahead",
        " behind",
        " ubrig",
        " zusammen",
        " insgesamt",
        " mehr",
        " weniger",
        " restant",
        " de plus",
        " de moins",
        " en tout",
        " au total",
        " en total",
        " mas ",
        " menos ",
        " in totale",
        " in piu",
        " in meno",
        " over ",
        " meer",
        " minder",
        " in totaal",
    ]);
    let said = |text: &str| format!(" {} ", fold(text));
    LEADS.stands_in(&said(leads)) || BEHIND.stands_in(&said(behind))
}

/// Are they of one unit?
fn are_alike(one: &Number, other: &Number) -> bool {
    let same = one.unit == other.unit || one.unit.is_none() || other.unit.is_none();
    same && one.percent == other.percent && one.scaled == other.scaled
}

/// A number as a message shows it.
fn shown(value: f64) -> String {
    format!("{}", (value * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::cited::find;

    #[test]
    fn differences_and_sums_of_two() {
        let result = r#"{"limit":400,"spent":137,"low_m":1.4,"high_m":7.1,"deposit":12,"items":[{"price":52},{"price":19},{"price":30}]}"#;
        let wrong = |text: &str| find(made_of_two, "How much?", &[("get_it", "{}", result)], 0, text).is_some();
        for text in [
            "You have spent 137 of 400 euros, which leaves 283 euros.",
            "The level goes from 1.4 m to 7.1 m, a rise of 6.7 m.",
            "The lamp is 52 and the cable 19, so 81 in all.",
            "Von 400 Euro sind 137 ausgegeben, es bleiben 283.",
        ] {
            assert!(wrong(text), "{text}");
        }
        for text in [
            "You have spent 137 of 400 euros, which leaves 263 euros.",
            "You have spent 137 of 400 euros, which leaves about 260 euros.",
            "The level goes from 1.4 m to 7.1 m, a rise of 5.7 m.",
            "The lamp is 52 and the cable 19, so 71 in all.",
            // Of all three.
            "The lamp is 52 and the cable 19, so with the third 101 in all.",
            "Two lamps at 52 and a cable at 19 make 123 in all.",
            "You pay 137 a month instead of 400, so 3156 less in all.",
            "137 of 400 are spent, 34 % in all.",
            "Between 1.4 m and 7.1 m a boat of 6 m fits.",
        ] {
            assert!(!wrong(text), "{text}");
        }
    }
}
