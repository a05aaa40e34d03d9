//! Values of members: shares of two numbers, units that a member's name has, and values told by the member's name. Pure.

use crate::{
    checks::account::sentence::{LEAVES_OF, tells_nothing},
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{self, ToolResult, facts::NamedValue, reckon},
    language::{
        cues,
        fold::key,
        number::{self, Number},
        unit,
        word_list::WordList,
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Words between two numbers and the percentage that they make, where it stands behind them, and where it stands in front: `with 10 % off
/// the customer paid 81 of 100` tells of two things.
const SHARE_WORDS: usize = 4;
const SHARE_WORDS_IN_FRONT: usize = 2;

/// "22 of 40 points, so 65 %".
pub(super) fn share(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let numbers = scene.plain.numbers();
    let percents: Vec<_> = numbers.iter().filter(|number| number.percent).collect();
    let [percent] = percents.as_slice() else { return None };
    if scene.bond != CitationScope::Cited {
        return None;
    }
    let told = scene.sources.iter().any(|source| evidence::fits(percent, number::Precision::Exact, &source.facts().numbers));
    if told || scene.grounds.said_numbers_have(percent.readings().next()?.value) {
        return None;
    }
    let mut pairs = numbers.iter().zip(numbers.iter().skip(1)).filter_map(|(one, two)| {
        let gap = scene.text().get(one.end..two.span.start)?.trim().to_lowercase();
        let of = ["of", "/", "out of", "of the", "von", "von den", "sur", "de", "su", "van de", "of its", "of your", "out of the"]
            .contains(&gap.as_str());
        // `92 % of the 317`: the share itself.
        let plain = !one.percent && !two.percent;
        let (one, two) = (one.readings().next()?.value, two.readings().next()?.value);
        (of && plain && one <= two && two > 0.0).then_some(one / two * 100.0)
    });
    // The percentage stands right before or behind them.
    let near = |number: &Number| {
        let (from, to, words) = match number.end <= percent.span.start {
            true => (number.end, percent.span.start, SHARE_WORDS),
            false => (percent.end, number.span.start, SHARE_WORDS_IN_FRONT),
        };
        scene.text().get(from..to).is_some_and(|gap| gap.split_whitespace().count() <= words)
    };
    let beside = numbers.iter().zip(numbers.iter().skip(1)).any(|(one, two)| near(one) || near(two));
    if !beside {
        return None;
    }
    let (first, None) = (pairs.next()?, pairs.next()) else { return None };
    let fits =
        percent.readings().any(|reading| reading.rounds(first) || reading.rounds(100.0 - first) || (reading.value - first).abs() <= 1.0);
    (!fits).then(|| ClaimFinding {
        rule: "share",
        code: Code::ClaimMismatch,
        span: percent.span.start..percent.end,
        found: scene.text().get(percent.span.start..percent.end).unwrap_or_default().to_owned(),
        expected: format!("{first:.1} %"),
        certainty: Certainty::Certain,
    })
}

/// Bytes of a result in which members' names are looked at, and values of one number that are compared.
const NAMES_BYTES_MAX: usize = 16 << 10;
const EQUAL_MAX: usize = 16;

/// Is it a word of a member's name, as the result writes it: `range_km`, `rangeKm`, but not `in_stock_m`?
pub(crate) fn is_word_of_name(word: &str, source: &ToolResult) -> bool {
    let mut capital = word.to_owned();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let text = source.text.get(..source.text.floor_char_boundary(NAMES_BYTES_MAX)).unwrap_or_default();
    let stands = |word: &str, begins: fn(Option<&u8>) -> bool| {
        text.match_indices(word).any(|(at, _)| {
            let (before, behind) = (at.checked_sub(1).and_then(|at| text.as_bytes().get(at)), text.as_bytes().get(at + word.len()));
            begins(before) && !behind.is_some_and(u8::is_ascii_alphanumeric)
        })
    };
    stands(word, |before| !before.is_some_and(u8::is_ascii_alphanumeric))
        || stands(&capital, |before| before.is_some_and(u8::is_ascii_lowercase))
}

/// "15 seconds" of a member that has 15 and is named in milliseconds.
pub(super) fn measured(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    const SUFFIXES: &[(&str, &str)] = &[
        ("ms", "ms"),
        ("millis", "ms"),
        ("milliseconds", "ms"),
        ("sec", "s"),
        ("secs", "s"),
        ("seconds", "s"),
        ("min", "min"),
        ("minutes", "min"),
        ("hours", "h"),
        ("hrs", "h"),
        ("days", "day"),
        ("km", "km"),
        ("meters", "m"),
        ("cm", "cm"),
        ("mm", "mm"),
        ("miles", "mi"),
        ("kg", "kg"),
        ("grams", "g"),
        ("ml", "ml"),
        ("liters", "l"),
        ("kb", "KB"),
        ("mb", "MB"),
        ("gb", "GB"),
        ("tb", "TB"),
        ("kwh", "kWh"),
        ("mbps", "Mbit/s"),
        ("kbps", "kbit/s"),
        ("gbps", "Gbit/s"),
        ("kw", "kW"),
        ("hz", "Hz"),
        ("s", "s"),
        ("h", "h"),
        ("hour", "h"),
        ("m", "m"),
        ("metres", "m"),
        ("meter", "m"),
        ("ft", "ft"),
        ("feet", "ft"),
        ("mi", "mi"),
        ("yards", "yd"),
        ("inches", "in"),
        ("g", "g"),
        ("lb", "lb"),
        ("lbs", "lb"),
        ("oz", "oz"),
        ("l", "l"),
        ("litres", "l"),
        ("cl", "cl"),
        ("kmh", "km/h"),
        ("kph", "km/h"),
        ("mph", "mph"),
        ("mw", "MW"),
        ("mwh", "MWh"),
        ("wh", "Wh"),
        ("ha", "ha"),
    ];
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    for number in scene.plain.numbers().iter().filter(|number| number.unit.is_some() && !number.percent && !number.scaled) {
        let unit = number.unit?;
        let value = number.readings().next()?.value;
        let equal: Vec<&NamedValue> =
            facts.leaves.iter().take(LEAVES_OF).filter(|leaf| leaf.value.number() == Some(value)).take(EQUAL_MAX + 1).collect();
        let named: Vec<&unit::Unit> = equal
            .iter()
            .filter_map(|leaf| {
                // A name that is no more than a unit says it whole: `km` doesn't end with `m`.
                let whole = SUFFIXES.iter().find(|(suffix, _)| leaf.key == *suffix);
                // `dose_mg_per_kg` is no mass.
                let rate = leaf.key.contains("per") && is_word_of_name("per", source);
                if rate {
                    return None;
                }
                let ends = |suffix: &str| leaf.key.len() > suffix.len() && leaf.key.ends_with(suffix) && is_word_of_name(suffix, source);
                let last = || SUFFIXES.iter().filter(|(suffix, _)| ends(suffix)).max_by_key(|(suffix, _)| suffix.len());
                let (_, symbol) = whole.or_else(last)?;
                unit::named(symbol)
            })
            .collect();
        let wrong = !equal.is_empty()
            && equal.len() <= EQUAL_MAX
            && named.len() == equal.len()
            && named.iter().all(|other| other.dimension == unit.dimension && (other.factor / unit.factor - 1.0).abs() > 0.01);
        // `18 km are closed`, of 62 and 80: what two of the result's own numbers make.
        let of_two = || {
            let others = facts.numbers.iter().take(LEAVES_OF).filter(|other| **other != value);
            facts.numbers.len() <= EQUAL_MAX
                && others.into_iter().any(|other| facts.numbers.contains(&(other + value)) && other + value != 2.0 * value)
        };
        if wrong && !scene.grounds.said_numbers_have(value) && !of_two() {
            return Some(ClaimFinding {
                rule: "measured",
                code: Code::ClaimMismatch,
                span: number.span.start..number.end,
                found: scene.text().get(number.span.start..number.end).unwrap_or_default().to_owned(),
                expected: equal.first().map(|leaf| format!("{}: {}", leaf.key, leaf.value.shown())).unwrap_or_default(),
                certainty: Certainty::Certain,
            });
        }
    }
    None
}

/// A value told of a member by its name: "the upload is 81.5" of `upload_mbps: 18.05`.
pub(super) fn named_field(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if scene.bond != CitationScope::Cited
        || source.fails()
        || facts.leaves.len() > LEAVES_OF
        || tells_nothing(scene)
        || !facts.is_structured()
    {
        return None;
    }
    static BETWEEN: WordList = WordList::new(&[
        "is",
        "was",
        "of",
        "at",
        "the",
        "a",
        "are",
        "were",
        "ist",
        "war",
        "beträgt",
        "est",
        "es",
        "era",
        "è",
        "e",
        "de",
        "di",
        "now",
        "currently",
    ]);
    let reckons = cues::reckons(scene.plain);
    scene.plain.numbers().iter().filter(|number| !number.ordinal && !number.scaled).find_map(|number| {
        if scene.plain.is_taken(&(number.span.start..number.end)) {
            return None;
        }
        let before = scene.words_before(number.span.start);
        let last = before.iter().rev().take(4).find(|word| !BETWEEN.has(&word.lower))?;
        let gap = scene.text().get(last.end..number.span.start)?;
        let name = key(&last.lower);
        let adjacent = gap.trim_matches([':', '=', ' ', '*', '`']).is_empty();
        if gap.contains([',', ';', '(', '/', '–', '—']) || name.len() < 4 || !adjacent && reckons {
            return None;
        }
        let of_name = |leaf: &&NamedValue| leaf.key == name || leaf.key.starts_with(&name) && leaf.key.len() <= name.len() + 6;
        let mut leaves = facts.leaves.iter().filter(of_name).filter(|leaf| leaf.value.number().is_some());
        let (leaf, None) = (leaves.next()?, leaves.next()) else { return None };
        let value = leaf.value.number()?;
        // `videos 800 MB` of so many videos, `water: 73 %` of its grams.
        let parts = ["pct", "percent", "rate", "share", "ratio"];
        let foreign = number.percent && !parts.iter().any(|part| leaf.key.contains(part));
        let stem = name.trim_end_matches('s');
        let of_stem = || facts.keys().iter().any(|key| key != &leaf.key && key.starts_with(stem));
        let counted = number.unit.is_some() && leaf.key == name && value.fract() == 0.0 && of_stem();
        if foreign || counted {
            return None;
        }
        let own = evidence::fits(number, number::Precision::Exact, &[value.abs()]);
        let anywhere = evidence::fits(number, number::Precision::Exact, &facts.numbers)
            || reckons && scene.has_number(number, number::Precision::Exact);
        let said = number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value));
        // In cents, in percent.
        let scaled = number.readings().any(|reading| [100.0, 0.01, 1000.0, 0.001].iter().any(|scale| reading.rounds(value * scale)));
        let wrong = !own && !anywhere && !said && !scaled && !reckon::is_rescaled(scene, number, value.abs());
        wrong.then(|| ClaimFinding {
            rule: "named_field",
            code: Code::ClaimMismatch,
            span: last.start..number.end,
            found: scene.text().get(last.start..number.end).unwrap_or_default().to_owned(),
            expected: format!("{}: {}", leaf.key, leaf.value.shown()),
            certainty: Certainty::Likely,
        })
    })
}
