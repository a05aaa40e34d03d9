//! A measure told twice, in two units, that isn't the same: `13.2 km, or about 9.8 miles`. Pure.

use crate::{
    checks::figures::finding,
    context::{CheckContext, ClaimFinding},
    language::{number::Number, unit::Unit, word_list::WordList},
};
use toolmark_base::violation::Code;

/// Words between a measure and the same one in another unit.
static EQUALS: WordList = WordList::new(&[
    "or",
    "about",
    "around",
    "roughly",
    "approximately",
    "approx",
    "ca",
    "circa",
    "that",
    "is",
    "which",
    "i",
    "e",
    "some",
    "just",
    "under",
    "over",
    "equals",
    "oder",
    "etwa",
    "rund",
    "das",
    "sind",
    "also",
    "knapp",
    "gut",
    "ou",
    "environ",
    "soit",
    "o",
    "unos",
    "unas",
    "aproximadamente",
    "es",
    "decir",
    "cioè",
    "quasi",
    "cerca",
    "de",
    "of",
    "ongeveer",
    "dus",
    "lub",
    "około",
    "czyli",
    "yaklaşık",
    "yani",
    "約",
    "约",
    "大约",
    "即",
    "लगभग",
    "यानी",
]);
/// Dimensions whose measures are told in two units.
const MEASURED: [&str; 4] = ["length", "mass", "speed", "temperature"];
/// Bytes between the two.
const GAP_BYTES_MAX: usize = 24;
/// Bytes between the two figures of one measure: feet and inches.
const COMPOUND_BYTES_MAX: usize = 4;
/// Share by which what was rounded may be beside it.
const SLACK: f64 = 0.08;

/// The finding of a passage that tells a measure in two units, and not the same.
pub(super) fn conversion(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let numbers = scene.plain.numbers();
    numbers.windows(2).find_map(|pair| {
        let [one, other] = pair else { return None };
        let (own, theirs) = (one.unit?, other.unit?);
        // `13.2 km (460 m up)`: of units that are tens of each other two measures are told, not one.
        let tens = (own.factor / theirs.factor).log10();
        if own == theirs
            || (tens - tens.round()).abs() < 1e-6 && own.offset == theirs.offset
            || own.dimension != theirs.dimension
            || !MEASURED.contains(&own.dimension.as_str())
        {
            return None;
        }
        let gap = scene.text().get(one.end..other.span.start).filter(|gap| gap.len() <= GAP_BYTES_MAX)?;
        let marks = gap.contains(['(', '=', '≈', '~', '/'])
            || gap.split_whitespace().any(|word| matches!(word, "or" | "oder" | "ou" | "o" | "of" | "lub"));
        let words = gap.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        if !marks || gap.contains([';', '.', '\n', '–', '+', '×', '→']) || !words.into_iter().all(|word| EQUALS.has(&word.to_lowercase()))
        {
            return None;
        }
        // `1.80 m (5 ft 11 in)`, `5 ft 11 in (1.80 m)`
        let is_compound = |number: &Number| {
            numbers.iter().any(|next| {
                let (first, second) = if next.span.start >= number.end { (number, next) } else { (next, number) };
                let gap = scene.text().get(first.end..second.span.start).unwrap_or("-");
                next.span != number.span && gap.len() <= COMPOUND_BYTES_MAX && !gap.contains(['(', ')', ',', '/', '=', '≈'])
            })
        };
        if is_compound(one) || is_compound(other) {
            return None;
        }
        let same = one
            .readings()
            .any(|reading| other.readings().any(|shown| is_same(own, reading.value, reading.step, theirs, shown.value, shown.step)));
        if same {
            return None;
        }
        let first = one.readings().next()?;
        let real = (first.value * own.factor + own.offset - theirs.offset) / theirs.factor;
        let expected = format!("{real:.1} {}", theirs.names.first().map_or("", String::as_str));
        Some(finding(scene, "conversion", Code::ClaimMismatch, one.span.start..other.end, expected))
    })
}

/// Are these two the same, as far as they are rounded?
fn is_same(own: &Unit, value: f64, step: f64, theirs: &Unit, shown: f64, shown_step: f64) -> bool {
    let (one, other) = (value * own.factor + own.offset, shown * theirs.factor + theirs.offset);
    let apart = (one - other).abs();
    let rounded = step * own.factor + shown_step * theirs.factor;
    let base = if own.offset == 0.0 && theirs.offset == 0.0 { one.abs().max(other.abs()) * SLACK } else { 1.0 };
    // A difference of temperatures has no offset.
    apart <= rounded + base || (value * own.factor - shown * theirs.factor).abs() <= rounded
}
