//! A share whose whole, or both of whose numbers, the passage tells beside it: `48 %: 21 of 50`, `68 % of the 1,250`. Pure.

use crate::{
    checks::figures::finding,
    context::{CheckContext, ClaimFinding},
    language::{
        cues,
        number::{Interpretation, Number},
        word_list::WordList,
    },
};
use toolmark_base::violation::Code;

/// Words between a part and its whole.
static OF: WordList = WordList::new(&[
    "of", "out", "von", "der", "sur", "des", "de", "di", "su", "dei", "delle", "van", "z", "ze", "from", "among", "los", "las", "os", "as",
    "i", "the", "all", "les", "den",
]);
/// Words that make a number between them the whole: others may stand there, too.
static PARTS: WordList = WordList::new(&["of", "on", "von", "sur", "de", "di", "su", "van", "z", "ze", "den", "des"]);
/// Bytes between a share and its whole, and between a part and its whole.
const WHOLE_BYTES_MAX: usize = 16;
const PART_BYTES_MAX: usize = 24;
/// Bytes between a share and the two numbers that it is made of.
const SHARE_BYTES_MAX: usize = 24;
/// Values of a result that may be a part.
const VALUES_MAX: usize = 400;
/// Of those, such as are added up in pairs.
const SUMMED_MAX: usize = 60;
/// Least whole of which a share is compared.
const WHOLE_MIN: f64 = 5.0;

/// The finding of a passage that tells a share which its two numbers don't make, or which no value of its results is of the whole.
pub(super) fn share(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    if scene.text().contains('|') {
        return None;
    }
    let numbers = scene.plain.numbers();
    let mut shares = numbers.iter().filter(|number| number.percent && !number.ordinal);
    let (Some(share), None) = (shares.next(), shares.next()) else { return None };
    let shown = only(share).filter(|shown| (1.0..=99.0).contains(&shown.value))?;
    let before = scene.words_before(share.span.start);
    let near = scene.is_hedged(&(share.span.start..share.end))
        || before.iter().rev().take(2).any(|word| scene.lexicon.bounds.contains(&word.lower));
    let slack = if near { 3.0 } else { shown.step * 0.51 + 1e-9 };
    let fits = |part: f64, whole: f64| {
        let made = part / whole * 100.0;
        let cut = shown.step <= made - shown.value + 1e-9;
        [made, 100.0 - made]
            .iter()
            .any(|made| (made - shown.value).abs() <= slack || !cut && *made >= shown.value && made - shown.value < shown.step)
    };
    let is_plain = |number: &&Number| !number.percent && !number.ordinal && !scene.plain.is_taken(&(number.span.start..number.end));
    let plain: Vec<&Number> = numbers.iter().filter(is_plain).collect();
    // `21 of 50`
    let pairs: Vec<(&Number, &Number)> = plain
        .windows(2)
        .filter_map(|two| Some((*two.first()?, *two.get(1)?)))
        .filter(|(part, whole)| is_part_of(scene, part, whole))
        .collect();
    if let [(part, whole)] = pairs.as_slice() {
        let gap = if share.end <= part.span.start { share.end..part.span.start } else { whole.end..share.span.start };
        let beside = scene
            .text()
            .get(gap)
            .is_some_and(|gap| gap.len() <= SHARE_BYTES_MAX && gap.contains(['(', ',', ':', '=', '–', '—']) && !gap.contains([';', '.']));
        let (one, all) = (value_in(scene, part)?, value_in(scene, whole)?);
        if beside && all >= WHOLE_MIN && one < all && !fits(one, all) {
            return Some(finding(
                scene,
                "share",
                Code::UngroundedValue,
                share.span.start..share.end,
                format!("{one} of {all} are {:.1} %", one / all * 100.0),
            ));
        }
        return None;
    }
    if cues::is_average(scene.plain, share) {
        return None;
    }
    // `68 % of the 1,250`
    let whole = plain.iter().find(|number| {
        let gap = scene.text().get(share.end..number.span.start);
        gap.is_some_and(|gap| {
            let mut words = gap.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
            gap.len() <= WHOLE_BYTES_MAX
                && words.peek().is_some()
                && !gap.contains([',', '.', ';', ':', '(', ')'])
                && words.all(|word| OF.has(&word.to_lowercase()))
        })
    })?;
    let all = value_in(scene, whole).filter(|whole| *whole >= WHOLE_MIN)?;
    let values: Vec<f64> = scene
        .sources
        .iter()
        .flat_map(|source| &source.facts().leaves)
        .take(VALUES_MAX)
        .filter_map(|leaf| leaf.value.number().map(f64::abs))
        .chain(plain.iter().flat_map(|number| number.readings()).map(|reading| reading.value))
        .chain(scene.told.iter().copied())
        .chain(scene.sources.iter().flat_map(|source| source.facts().columns().into_values().map(|column| column.iter().sum())))
        .collect();
    let known =
        scene.sources.iter().flat_map(|source| &source.facts().leaves).take(VALUES_MAX).any(|leaf| leaf.value.number() == Some(all));
    let counts = scene.sources.iter().flat_map(|source| &source.facts().lists).map(|list| list.length as f64);
    let small = (1..=all.min(64.0) as u32).map(f64::from).filter(|_| all <= 64.0);
    let made = values.iter().copied().chain(counts).chain(small).filter(|part| *part < all).any(|part| fits(part, all));
    let summed = values.get(..values.len().min(SUMMED_MAX)).unwrap_or_default();
    let fit = |one: f64, other: f64| one + other < all && fits(one + other, all);
    let sums = || summed.iter().enumerate().any(|(at, one)| summed.iter().skip(at + 1).any(|other| fit(*one, *other)));
    (known && !made && !sums()).then(|| {
        finding(
            scene,
            "share",
            Code::UngroundedValue,
            share.span.start..share.end,
            format!("no value of the result is that share of {all}"),
        )
    })
}

/// `21 of the 50`, `21 agents sur 50`
fn is_part_of(scene: &CheckContext<'_>, part: &Number, whole: &Number) -> bool {
    let Some(gap) = scene.text().get(part.end..whole.span.start).filter(|gap| gap.len() <= PART_BYTES_MAX) else { return false };
    let words = || gap.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    !gap.contains([',', ';', '.', ':', '(', ')', '–', '-', '/'])
        && words().any(|word| PARTS.has(&word.to_lowercase()))
        && words().count() <= 3
        && part.unit.is_none()
        && whole.unit.is_none()
}

/// The value of a number: of two readings, `1,250`, the one that a result has.
fn value_in(scene: &CheckContext<'_>, number: &Number) -> Option<f64> {
    let leaves = || scene.sources.iter().flat_map(|source| &source.facts().leaves).take(VALUES_MAX);
    let has = |reading: &Interpretation| leaves().any(|leaf| leaf.value.number() == Some(reading.value));
    only(number).or_else(|| number.readings().find(has)).map(|reading| reading.value)
}

/// The only reading of a number.
fn only(number: &Number) -> Option<Interpretation> {
    let mut readings = number.readings();
    let one = readings.next()?;
    readings.next().is_none().then_some(one)
}
