//! Numbers that stand on a result only together with what is beside them: `1 h 23 min`, `36–52 °F`, `am 23.11.`, sums of what
//! a passage itself reports. Asked for only where a number stands nowhere by itself. Pure.

use std::{collections::HashMap, sync::OnceLock};

use crate::{
    context::CheckContext,
    evidence::{derive, equals, facts::Scalar, fits, follows},
    language::{
        date,
        lexicon::Word,
        number::{Interpretation, Number, Precision},
        unit::{self, Unit},
    },
};

/// Numbers of a passage with which it is looked for what they make.
const NUMBERS_MAX: usize = 16;
/// Of those, such as are added up with one another.
const RECKONED_OF: usize = 6;
/// Seconds of a minute.
const MINUTE: f64 = 60.0;

/// Does `number` stand on a result, with what is beside it?
pub fn stands(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    is_date(scene, number)
        || begins_a_range(scene, number, precision)
        || is_of_duration(scene, number)
        || is_reckoned(scene, number, precision)
        || is_scaled(scene, number, precision)
        || is_ratio(scene, number)
}

/// Bytes behind a number in which `times` is looked for.
const TIMES_BYTES: usize = 8;

/// `four times as long`, `3.5x`: how often one number of a result is another.
fn is_ratio(scene: &CheckContext<'_>, number: &Number) -> bool {
    let after = scene.text().get(number.end..).unwrap_or_default().trim_start();
    let after = after.get(..after.floor_char_boundary(TIMES_BYTES)).unwrap_or_default().to_lowercase();
    let times = ["times", "x", "×", "mal", "fois", "veces", "volte", "vezes", "keer", "-fold", "fold", "to 1", ": 1", ":1"];
    let said = times.iter().any(|times| after.starts_with(times));
    said && scene.sources.iter().any(|source| equals(number, Precision::Approximate, &source.facts().derived().ratios))
}

/// Words by which a value is told for more or less than the result has it for, and by how much.
const SCALES: &[(&str, &[f64])] = &[
    ("half", &[0.5, 2.0]),
    ("halve", &[0.5]),
    ("halved", &[0.5]),
    ("double", &[2.0]),
    ("doubled", &[2.0]),
    ("twice", &[2.0, 0.5]),
    ("triple", &[3.0]),
    ("quarter", &[0.25, 4.0]),
    ("dozen", &[12.0, 1.0 / 12.0]),
    ("month", &[1.0 / 12.0, 12.0]),
    ("monthly", &[1.0 / 12.0, 12.0]),
    ("year", &[12.0, 365.0, 52.0, 1.0 / 12.0]),
    ("yearly", &[12.0, 52.0]),
    ("annual", &[12.0, 52.0]),
    ("annually", &[12.0, 52.0]),
    ("week", &[7.0, 1.0 / 52.0, 1.0 / 7.0]),
    ("weekly", &[7.0, 1.0 / 52.0]),
    ("day", &[1.0 / 7.0, 1.0 / 30.0, 1.0 / 365.0, 24.0]),
    ("daily", &[1.0 / 7.0, 1.0 / 30.0]),
    ("hour", &[60.0, 1.0 / 24.0, 3600.0]),
    ("minute", &[60.0, 1.0 / 60.0]),
    ("hälfte", &[0.5]),
    ("halbe", &[0.5]),
    ("halben", &[0.5]),
    ("doppelt", &[2.0]),
    ("monat", &[1.0 / 12.0, 12.0]),
    ("monatlich", &[1.0 / 12.0, 12.0]),
    ("jahr", &[12.0, 52.0]),
    ("jährlich", &[12.0, 52.0]),
    ("woche", &[7.0, 1.0 / 52.0]),
    ("tag", &[1.0 / 7.0, 1.0 / 30.0]),
    ("moitié", &[0.5]),
    ("mois", &[1.0 / 12.0, 12.0]),
    ("an", &[12.0]),
    ("mitad", &[0.5]),
    ("mes", &[1.0 / 12.0, 12.0]),
    ("año", &[12.0]),
    ("metà", &[0.5]),
    ("mese", &[1.0 / 12.0, 12.0]),
    ("anno", &[12.0]),
];

/// Is it a value of the result for half of it, a dozen, a month instead of a year, as the passage or the question says?
fn is_scaled(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    let factors = scene.scales.get_or_init(|| {
        static BY_WORD: OnceLock<HashMap<&str, &[f64]>> = OnceLock::new();
        let by_word = BY_WORD.get_or_init(|| SCALES.iter().copied().collect());
        let words = scene.plain.words.iter().chain(scene.grounds.asked.words());
        let of = |word: &Word| {
            let lower = word.lower.as_str();
            by_word.get(lower).or_else(|| by_word.get(lower.strip_suffix('s')?)).copied()
        };
        let mut factors: Vec<f64> = words.filter_map(of).flatten().copied().collect();
        factors.sort_by(f64::total_cmp);
        factors.dedup();
        factors
    });
    factors.iter().any(|factor| {
        let scaled = |reading: Interpretation| Interpretation { value: reading.value / factor, step: reading.step / factor };
        let other = Number { readings: number.readings.map(|reading| reading.map(scaled)), ..number.clone() };
        scene.sources.iter().any(|source| fits(&other, precision, &source.facts().numbers) || follows(&other, precision, source.facts()))
    })
}

/// `23.11.` and `21/11` where the conversation has that day; `9.33 Uhr`, as times of day aren't judged.
fn is_date(scene: &CheckContext<'_>, number: &Number) -> bool {
    let text = scene.text();
    let joins = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'/');
    let (Some(before), Some(after)) = (text.get(..number.span.start), text.get(number.span.start..)) else { return false };
    let start = before.len() - before.bytes().rev().take_while(joins).count();
    let end = number.span.start + after.bytes().take_while(joins).count();
    let run = text.get(start..end).unwrap_or_default();
    if let Some(date) = date::short(run) {
        return scene.grounds.has_date(&date);
    }
    let clock = || run.split_once('.').filter(|(hour, minute)| minute.len() == 2 && hour.parse().is_ok_and(|hour: u32| hour <= 24));
    let minute = || clock().and_then(|(_, minute)| minute.parse().ok()).is_some_and(|minute: u32| minute < 60);
    let rest = text.get(end..).unwrap_or_default().trim_start_matches([' ', '\u{a0}', '\u{202f}']);
    rest.starts_with("Uhr") && minute()
}

/// The first number of a range has the unit of the second: `36–52 °F`.
fn begins_a_range(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    let next = scene.plain.numbers().iter().find(|next| next.span.start >= number.end);
    let Some(next) = next.filter(|next| number.unit.is_none() && !number.percent && (next.unit.is_some() || next.percent)) else {
        return false;
    };
    let gap = scene.text().get(number.end..next.span.start).unwrap_or_default().trim();
    let range = matches!(gap, "-" | "–" | "—" | "/" | "to" | "and" | "bis" | "und" | "a" | "y" | "à" | "et" | "e");
    range && scene.has_number(&Number { unit: next.unit, percent: next.percent, ..number.clone() }, precision)
}

/// `1 h 23 min 45 s` is one amount.
fn is_of_duration(scene: &CheckContext<'_>, number: &Number) -> bool {
    let numbers = scene.plain.numbers();
    let Some(at) = numbers.iter().position(|other| other.span == number.span) else { return false };
    // `1 h 35`: minutes without their unit.
    let bare = |at: usize| {
        let (before, own) = (numbers.get(at.checked_sub(1)?)?, numbers.get(at)?);
        let hours = before.unit.is_some_and(|unit| unit.dimension == "time" && unit.factor == MINUTE * MINUTE);
        let gap = scene.text().get(before.end..own.span.start)?.trim_matches([' ', '\u{a0}', '\u{202f}']);
        (hours && gap.is_empty() && own.whole().is_some_and(|whole| whole < 60)).then_some(MINUTE)
    };
    let seconds = |at: usize| numbers.get(at).and_then(|number| of_time(scene, number)).or_else(|| bare(at));
    let joined = |one: usize| {
        let (Some(first), Some(second)) = (numbers.get(one), numbers.get(one + 1)) else { return false };
        let gap = scene.text().get(first.end..second.span.start).unwrap_or_default().trim_matches([' ', ',', '.', '\u{a0}', '\u{202f}']);
        let smaller = seconds(one).zip(seconds(one + 1)).is_some_and(|(first, second)| first > second);
        smaller && matches!(gap, "" | "and" | "und" | "et" | "y" | "e")
    };
    let first = at - (1..=at).take_while(|back| joined(at - back)).count();
    let last = at + (at..numbers.len()).take_while(|one| joined(*one)).count();
    let before = numbers.get(first).and_then(|first| scene.text().get(..first.span.start)).unwrap_or_default();
    let hour = if is_behind_an_hour(before) { MINUTE * MINUTE } else { 0.0 };
    let (Some(smallest), Some(end)) = (seconds(last).filter(|_| first < last || hour > 0.0), numbers.get(last)) else { return false };
    let value = |at: usize| Some(numbers.get(at)?.readings().next()?.value * seconds(at)?);
    let total: f64 = (first..=last).filter_map(value).sum::<f64>() + hour;
    let Some(step) = end.readings().next().map(|reading| reading.step) else { return false };
    // What is smaller than its last part may be left out: cut, not only rounded.
    let reading = Interpretation { value: total / smallest, step: step * 2.0 };
    let unit = scene.plain.numbers().get(first).and_then(|first| first.unit).and_then(|unit| of_seconds(unit, smallest));
    scene.has_number(&Number { readings: [Some(reading), None], unit, ..end.clone() }, Precision::Exact)
        || is_of_clocks(scene, total, smallest)
}

/// `an hour and`, of what stands before a number.
fn is_behind_an_hour(before: &str) -> bool {
    const HOURS: [&str; 10] = [
        "an hour and",
        "one hour and",
        "an hour",
        "one hour",
        "eine stunde und",
        "einer stunde und",
        "une heure et",
        "una hora y",
        "un'ora e",
        "uma hora e",
    ];
    let tail = before.trim_end();
    let tail = tail.get(tail.ceil_char_boundary(tail.len().saturating_sub(HOUR_BYTES_MAX))..).unwrap_or_default().to_lowercase();
    HOURS.iter().any(|hour| tail.strip_suffix(hour).is_some_and(|rest| !rest.ends_with(char::is_alphanumeric)))
}

/// Bytes of the longest of those.
const HOUR_BYTES_MAX: usize = 24;

/// Texts of a column that are added up.
const CLOCKS_MAX: usize = 64;

/// Does a span of time follow from a column of such as `42:10`: all of them, one, or two of them apart? `total`, `slack`: in seconds.
fn is_of_clocks(scene: &CheckContext<'_>, total: f64, slack: f64) -> bool {
    let is = |made: f64| (made - total).abs() < slack;
    scene.sources.iter().any(|source| {
        let facts = source.facts();
        facts.keys().iter().any(|key| {
            let texts = facts.of_key(key).map(|leaf| if let Scalar::Text(text) = &leaf.value { text.as_str() } else { "" });
            let clocks: Vec<[f64; 2]> = texts.map_while(seconds_of).take(CLOCKS_MAX).collect();
            [0, 1].into_iter().any(|reading| {
                let values: Vec<f64> = clocks.iter().filter_map(|clock| clock.get(reading).copied()).collect();
                let apart = || values.iter().enumerate().any(|(at, one)| values.iter().skip(at + 1).any(|other| is((one - other).abs())));
                is(values.iter().sum()) || values.iter().any(|value| is(*value)) || apart()
            })
        })
    })
}

/// `42:10` in seconds, read as minutes and as hours; `1:02:10` in one way.
fn seconds_of(text: &str) -> Option<[f64; 2]> {
    let parts: Vec<f64> = text.split(':').map(|part| part.parse::<u32>().ok().map(f64::from)).collect::<Option<_>>()?;
    match parts[..] {
        [large, small] => Some([large * MINUTE + small, (large * MINUTE + small) * MINUTE]),
        [hours, minutes, seconds] => Some([(hours * MINUTE + minutes) * MINUTE + seconds; 2]),
        _ => None,
    }
}

/// The seconds of one of its unit; `m` is taken for minutes, as what is beside it must be a time too.
fn of_time(scene: &CheckContext<'_>, number: &Number) -> Option<f64> {
    let unit = number.unit?;
    let minutes = scene.text().get(number.span.end..number.end).is_some_and(|unit| unit.trim() == "m");
    if minutes { Some(MINUTE) } else { (unit.dimension == "time").then_some(unit.factor) }
}

fn of_seconds(time: &Unit, seconds: f64) -> Option<&'static Unit> {
    unit::siblings(time).find(|unit| unit.dimension == "time" && (unit.factor - seconds).abs() < 1e-9)
}

/// Sum, difference or product of two numbers of the passage that stand on a result, or one of them with a percentage.
fn is_reckoned(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    let numbers = scene.plain.numbers();
    if numbers.len() > NUMBERS_MAX {
        return false;
    }
    let other = |other: &&Number| other.span != number.span && !other.ordinal && other.whole().is_none_or(|whole| whole > 2);
    let known = numbers.iter().filter(other).filter(|other| scene.has_number(other, Precision::Exact));
    let known: Vec<(f64, bool)> =
        known.filter_map(|known| Some((known.readings().next()?.value, known.percent))).take(RECKONED_OF).collect();
    let mut made = Vec::new();
    for (at, (one, percent)) in known.iter().enumerate() {
        for (other, other_percent) in known.iter().skip(at + 1) {
            match (percent, other_percent) {
                (false, false) if number.percent => derive::pair(*one, *other, &mut made),
                (false, false) => made.extend([one + other, (one - other).abs(), one * other]),
                (true, false) => made.extend(derive::with_percent(*other, *one)),
                (false, true) => made.extend(derive::with_percent(*one, *other)),
                (true, true) => {}
            }
        }
    }
    equals(number, precision, &made)
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::values::values,
        context::{CheckContext, CitationScope},
        evidence::{EvidenceIndex, ToolResult},
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    fn wrong(result: &str, said: &str) -> Vec<String> {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("t", "{}", result)], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(said);
        let lexicon = language(&words(said), None);
        let sources = grounds.results.iter().collect();
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
        values(&scene).into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn durations_in_parts() {
        let result = r#"{"elapsed_s":5025}"#;
        for said in ["It took 1 h 23 min 45 s.", "It took 1h 23m.", "83 minutes and 45 seconds", "Das dauert 1 Std. 23 Min. heute."] {
            assert_eq!(wrong(result, said), Vec::<String>::new(), "{said}");
        }
        assert_eq!(wrong(r#"{"took_min":95}"#, "It took an hour and 35 minutes."), Vec::<String>::new());
        assert_eq!(wrong(r#"{"took_min":95}"#, "It took an hour and 45 minutes."), ["45 minutes"]);
        assert_eq!(wrong(result, "It took 1 h 43 min 45 s."), ["43 min", "45 s"]);
        assert_eq!(wrong(result, "It took 23 km and 45 s."), ["23 km", "45 s"]);
    }

    #[test]
    fn ranges_with_one_unit() {
        let result = r#"{"low_c":2.2,"high_c":11.0}"#;
        assert_eq!(wrong(result, "It will be 36–52 °F."), Vec::<String>::new());
        assert_eq!(wrong(result, "It will be 36 to 52 °F."), Vec::<String>::new());
        assert_eq!(wrong(result, "It will be 47–52 °F."), ["47"]);
    }

    #[test]
    fn days_without_a_year() {
        let result = r#"{"eta":"2026-11-23","from":"2026-11-21"}"#;
        for said in ["Es kommt am 23.11. an.", "It comes on 23/11.", "21/11 to 23/11", "Der Zug geht um 9.33 Uhr."] {
            assert_eq!(wrong(result, said), Vec::<String>::new(), "{said}");
        }
        assert_eq!(wrong(result, "Es kommt am 28.12. an."), ["28.12"]);
        assert_eq!(wrong(r#"{"eta":"2026-08-17"}"#, "It makes 17.08 here."), ["17.08"]);
    }

    #[test]
    fn what_a_passage_adds_up() {
        let result = r#"{"items":"227.40 EUR","id":7,"shipping":"4.90","note":"rates 19 % and 118"}"#;
        assert_eq!(wrong(result, "227.40 plus 4.90 makes 232.30."), Vec::<String>::new());
        assert_eq!(wrong(result, "118 plus 19 % VAT is 140.42."), Vec::<String>::new());
        assert_eq!(wrong(result, "227.40 plus 4.90 makes 252.30."), ["252.30"]);
    }

    #[test]
    fn prices_and_quantities() {
        let result = r#"{"items":[{"sku":"a","qty":1,"price":89.5},{"sku":"b","qty":2,"price":34.2},{"sku":"c","qty":3,"price":23.17}],"shipping":4.9}"#;
        assert_eq!(wrong(result, "Your items make 227.41, with 4.90 shipping 232.31."), Vec::<String>::new());
        assert_eq!(wrong(result, "Your items make 481.63."), ["481.63"]);
    }

    #[test]
    fn of_is_no_excuse() {
        let result = r#"{"total_eur":247.80,"done":33,"all":75}"#;
        for said in ["El total es de 281,80 €", "Il totale è di 281,80 €", "Le total est de 281,80 €", "It makes a total of 281.80 €"]
        {
            assert_eq!(wrong(result, said), ["281,80 €".replace(',', if said.contains("281.") { "." } else { "," })], "{said}");
        }
        for said in ["Hay más de 150 aquí", "Son 33 de 150", "He scored 33 out of 150", "33 of 150 are done"] {
            assert_eq!(wrong(result, said), Vec::<String>::new(), "{said}");
        }
    }
}
