//! A sum that a passage shows with its operands, and a span of time between two that it tells, reckoned again: `30 + 4.5 − 11 − 6, so
//! 19.5 are left`, `from 02:11:40 to 02:20:10, that's 11 minutes`. Pure.

use std::ops::Range;

use crate::{
    checks::figures::finding,
    context::{CheckContext, ClaimFinding},
    evidence::reckon,
    language::{
        date::{self, Date},
        lexicon::Word,
        number::Number,
        word_list::{PhraseList, WordList},
    },
};
use toolmark_base::violation::Code;

/// Operands of a sum.
const OPERANDS_MAX: usize = 16;
/// Bytes between a sum's last operand and what it makes.
const RESULT_WITHIN: usize = 40;
const MINUTES_OF_DAY: i64 = 1440;
const COMMON_YEAR: i32 = 2025;
const SECONDS_OF_MINUTE: f64 = 60.0;
const SECONDS_OF_DAY: f64 = 86_400.0;

/// Words behind a sum that lead to what it makes.
static MAKES: WordList = WordList::new(&[
    "makes",
    "make",
    "making",
    "so",
    "thus",
    "leaves",
    "leaving",
    "gives",
    "giving",
    "equals",
    "equal",
    "comes",
    "come",
    "totals",
    "totalling",
    "is",
    "that's",
    "that’s",
    "macht",
    "ergibt",
    "also",
    "bleiben",
    "sind",
    "ist",
    "fait",
    "soit",
    "donc",
    "font",
    "son",
    "suman",
    "quedan",
    "hacen",
    "fanno",
    "quindi",
    "restano",
    "são",
    "dá",
    "maakt",
    "dus",
    "is",
]);

/// The finding of a sum whose operands make another number than the passage tells.
pub(super) fn sum(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let text = scene.text();
    let written = ["plus", "minus", "times"].iter().any(|word| text.contains(word));
    if !written && !text.contains(['+', '−', '×', '·', '÷']) && !text.contains(" - ") && !text.contains(" – ") {
        return None;
    }
    let numbers = scene.plain.numbers();
    let gap = |at: usize| -> Option<&str> {
        let (before, own) = (numbers.get(at.checked_sub(1)?)?, numbers.get(at)?);
        text.get(before.end..own.span.start)
    };
    let operator = |at: usize| Some(reckon::sign_before(scene, at)).filter(|sign| matches!(*sign, "+" | "-" | "−" | "–" | "×" | "·" | "÷"));
    let mut from = 0;
    while from + 2 < numbers.len() {
        let end = (from + 1..numbers.len()).take(OPERANDS_MAX).take_while(|at| operator(*at).is_some()).last();
        let Some(end) = end else {
            from += 1;
            continue;
        };
        let operands = from..=end;
        from = end + 1;
        let signs: Vec<&str> = (operands.start() + 1..=end).filter_map(operator).collect();
        // `5 – 11`: a range, unless something is added.
        let ranges = signs.iter().all(|sign| matches!(*sign, "-" | "–"));
        let told = numbers.get(end + 1)?;
        let between = gap(end + 1)?;
        let leads = reckon::sign_before(scene, end + 1) == "="
            || scene.plain.words.iter().any(|word| numbers[end].end <= word.start && word.end <= told.span.start && MAKES.has(&word.lower));
        let apart = operands
            .clone()
            .chain([end + 1])
            .filter_map(|at| numbers.get(at))
            .any(|number| number.percent || number.ordinal || scene.plain.is_taken(&(number.span.start..number.end)));
        // `= 35 + 14 = 49`: what it makes is taken apart again; brackets are read by no rule here.
        let goes_on = operator(end + 2).is_some() || (operands.start() + 1..=end + 1).filter_map(gap).any(|gap| gap.contains(['(', ')']));
        if goes_on
            || ranges && signs.len() < 2
            || !leads
            || between.len() > RESULT_WITHIN
            || between.contains([';', '\n'])
            || apart
            || told_unit_differs(numbers, end, told)
        {
            continue;
        }
        let made = reckon::shown_sum(scene, operands)?;
        let is = told.readings().any(|shown| shown.rounds(made.abs()) || (shown.value - made.abs()).abs() <= shown.step.max(1e-9));
        if !is && !scene.is_hedged(&(told.span.start..told.end)) && !reckon::is_shown_result(scene, told) {
            return Some(finding(scene, "sum", Code::UngroundedValue, told.span.start..told.end, made.to_string()));
        }
    }
    None
}

/// Is what a sum makes told in another unit than its last operand: `40 × 3 = 2 hours`?
fn told_unit_differs(numbers: &[Number], end: usize, told: &Number) -> bool {
    let of = |number: &Number| number.unit.map(|unit| unit.factor);
    numbers.get(end).is_some_and(|last| of(last).zip(of(told)).is_some_and(|(one, other)| one != other))
}

/// The finding of a span of time that isn't the one between the two times, or the two days, that the sentence tells, where that is what it is
/// told as.
pub(super) fn span_of_time(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let plain = scene.plain;
    let of_time = |number: &&Number| {
        !number.ordinal && number.unit.is_some_and(|unit| unit.dimension == "time") && !plain.is_taken(&(number.span.start..number.end))
    };
    let parts: Vec<&Number> = plain.numbers().iter().filter(of_time).collect();
    let (first, last) = (parts.first()?, parts.last()?);
    let span = first.span.start..last.end;
    if parts.len() > 3 || !is_told_as_span(scene, &span) {
        return None;
    }
    let seconds: f64 = parts.iter().filter_map(|part| Some(part.readings().next()?.value * part.unit?.factor)).sum();
    let smallest = last.unit?.factor;
    let joined = parts.windows(2).all(|two| {
        scene
            .text()
            .get(two[0].end..two[1].span.start)
            .is_some_and(|gap| matches!(gap.trim_matches([' ', ',', '\u{a0}']), "" | "and" | "und" | "et" | "y" | "e" | "en"))
    });
    if !joined || scene.is_hedged(&span) {
        return None;
    }
    let made: Vec<f64> = match (&plain.dates().times[..], &plain.dates().dates[..]) {
        ([from, to], []) | ([from, to], [_]) => {
            let apart = (i64::from(to.minutes) - i64::from(from.minutes)).rem_euclid(MINUTES_OF_DAY) as f64 * SECONDS_OF_MINUTE;
            vec![apart, SECONDS_OF_DAY - apart]
        }
        ([], [from, to]) if (SECONDS_OF_DAY..=7.0 * SECONDS_OF_DAY).contains(&smallest) => {
            let apart = (day_number(to)? - day_number(from)?).abs() as f64;
            // Both days counted, and over the end of a year.
            [apart, apart + 1.0, 365.0 - apart, 366.0 - apart].map(|days| days * SECONDS_OF_DAY).to_vec()
        }
        _ => return None,
    };
    // Times are read to the minute.
    let slack = if plain.dates().times.is_empty() { smallest * 0.6 } else { smallest.max(SECONDS_OF_MINUTE) };
    if made.iter().any(|made| (made - seconds).abs() <= slack) {
        return None;
    }
    let shown = made.first().map(|made| format!("{} minutes", made / SECONDS_OF_MINUTE))?;
    Some(finding(scene, "span_of_time", Code::UngroundedValue, span, shown))
}

/// The number of a day, in a year that is none of the leap years where it names none.
fn day_number(date: &Date) -> Option<i64> {
    let (year, month, day) = date.readings.iter().flatten().next()?;
    Some(date::days(if *year == 0 { COMMON_YEAR } else { *year }, *month, *day))
}

/// Is a span of time told as that between the two: does the question ask for it, or the sentence say so?
fn is_told_as_span(scene: &CheckContext<'_>, span: &Range<usize>) -> bool {
    static ASKS: PhraseList = PhraseList::in_any_case(&[
        "how long",
        "how many days",
        "how many hours",
        "how many minutes",
        "how much time",
        "time span",
        "duration",
        "wie lange",
        "wie viele tage",
        "combien de temps",
        "combien de jours",
        "cuánto tiempo",
        "cuanto tiempo",
        "cuánto dura",
        "cuántos días",
        "quanto tempo",
        "quanto dura",
        "quanti giorni",
        "hoe lang",
        "hoeveel dagen",
    ]);
    static LINKS: WordList = WordList::new(&[
        "that's", "that’s", "so", "makes", "apart", "later", "between", "lasts", "takes", "das", "also", "dauert", "soit", "dure", "dura",
        "son",
    ]);
    // `After a break of 45 minutes`, `with 20 minutes to change`: of something else.
    static OTHERS: WordList = WordList::new(&[
        "break",
        "ahead",
        "behind",
        "zone",
        "utc",
        "reste",
        "restent",
        "quedan",
        "faltan",
        "restano",
        "mancano",
        "bleiben",
        "breaks",
        "pause",
        "change",
        "wait",
        "layover",
        "stop",
        "stops",
        "delay",
        "late",
        "early",
        "every",
        "ago",
        "before",
        "after",
        "within",
        "notice",
        "left",
        "working",
        "business",
        "pausen",
        "umsteigen",
        "verspätung",
        "vor",
        "nach",
        "alle",
        "werktage",
        "arbeitstage",
        "avant",
        "après",
        "toutes",
        "ouvrés",
        "antes",
        "después",
        "cada",
        "prima",
        "dopo",
        "ogni",
        "remaining",
        "per",
        "pro",
        "par",
        "each",
    ]);
    let words = &scene.plain.words;
    if words.iter().any(|word| OTHERS.has(&word.lower)) {
        return false;
    }
    // Behind both, with nothing between but the word that leads to it.
    let times = scene.plain.dates().times.iter().map(|time| &time.span).chain(scene.plain.dates().dates.iter().map(|date| &date.span));
    let last = times.map(|time| time.end).max().unwrap_or(usize::MAX);
    let leads = |word: &Word| word.start >= last && LINKS.has(&word.lower);
    // `11 March and 25 March, 14 days apart`
    static APART: WordList = WordList::new(&["apart", "auseinander"]);
    if scene.words_after(span.end).first().is_some_and(|word| APART.has(&word.lower)) {
        return true;
    }
    let close = last <= span.start && span.start - last <= NEAR_BYTES;
    close && scene.words_before(span.start).iter().rev().take(LINK_WORDS).any(leads) && ASKS.stands_in(scene.grounds.asked.lower())
}

/// Words before a span of time among which one leads to it.
const LINK_WORDS: usize = 5;
/// Bytes between a span of time and a time that it is told of.
const NEAR_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::cited::find;

    #[test]
    fn sums_and_spans_that_are_shown() {
        let leave = r#"{"days":30,"carried":4.5,"taken":11,"planned":6,"from":"2026-01-05","to":"2026-01-26"}"#;
        let wrong = |asked: &str, text: &str| {
            let of = |check| find(check, asked, &[("get_leave", "{}", leave)], 0, text).map(|finding| finding.rule);
            of(sum).or_else(|| of(span_of_time))
        };
        for (asked, text, rule) in [
            ("What's left?", "30 + 4.5 − 11 − 6, so 19.5 days are left.", Some("sum")),
            ("What's left?", "30 + 4.5 − 11 − 6, so 17.5 days are left.", None),
            ("What's left?", "30 + 4.5 = 35.5 days.", Some("sum")),
            ("What's left?", "30 + 4.5, of which 11 are taken.", None),
            ("How long was it?", "From 02:11:40 to 02:20:10, that's 11 minutes and 30 seconds.", Some("span_of_time")),
            ("How long was it?", "From 02:11:40 to 02:20:10, that's 8 minutes and 30 seconds.", None),
            ("How long is it?", "It leaves at 19:59 and arrives at 08:05, so 13 hours and 6 minutes.", Some("span_of_time")),
            ("How long is it?", "It leaves at 19:59 and arrives at 08:05, so 12 hours and 6 minutes.", None),
            ("How long is it?", "It leaves at 09:00 and arrives at 12:00, with a break of 20 minutes.", None),
            ("How many days?", "From 5 January to 26 January, so 31 days in all.", Some("span_of_time")),
            ("How many days?", "From 5 January to 26 January, so 21 days in all.", None),
            ("And then?", "Once on 5 January and again on 26 January, so they are 19 days apart.", Some("span_of_time")),
            ("And then?", "Once on 5 January and again on 26 January, so they are 3 weeks apart.", None),
            ("Any rain?", "Rain from 09:00 to 12:00, for 20 minutes at a time.", None),
        ] {
            assert_eq!(wrong(asked, text), rule, "{text}");
        }
    }
}
