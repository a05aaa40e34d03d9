//! Parts of wholes that a result tells by numbers or lists: shares in percent, sums of some parts, what is left of a whole. Pure.

use std::collections::BTreeMap;

use crate::judge::claims::{
    context::CheckContext,
    evidence::{ToolResult, derive, reckon},
    language::number::Number,
};

/// Parts of one whole.
const PARTS_MAX: usize = 10;
/// Parts of which two make a whole of their own.
const FEW: usize = 4;
/// Bytes between a number and what it is a part of.
const GAP_BYTES_MAX: usize = 24;
/// Letters of a part's name.
const NAME_CHARS_MIN: usize = 4;
/// Values of a result that are looked at.
const LEAVES_MAX: usize = 200;

/// True if a number is a part of a whole, or the whole of such parts, as a cited result has them.
pub fn is_part(scene: &CheckContext<'_>, number: &Number) -> bool {
    is_rest(scene, number) || scene.sources.iter().any(|source| is_share(scene, number, source))
}

/// `98 of the 100 rows`, `two of the 16`: a number, what it is a part of, and what is left; the result has the two others.
fn is_rest(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(own) = number.whole() else { return false };
    let near = |start: usize, end: usize| {
        let gap = if start >= number.end { number.end..start } else { end..number.span.start };
        scene.text().get(gap).is_some_and(|gap| gap.len() <= GAP_BYTES_MAX && !gap.contains([';', '.', ':', '(', '+', '-', '–']))
    };
    let digits = scene.plain.numbers.iter().filter(|other| other.span != number.span && near(other.span.start, other.end));
    let words = scene.plain.words.iter().filter(|word| near(word.start, word.end));
    let told = digits.filter_map(Number::whole).chain(words.filter_map(|word| scene.lexicon.numbers.get(&word.lower).copied()));
    told.filter(|other| *other != own).any(|other| {
        scene.sources.iter().any(|source| {
            let has = |value: u64| tops(source).any(|top| top == value as f64);
            has(other) && has(own.abs_diff(other))
        })
    })
}

/// The numbers that a result has for the whole: those outside its lists; of a text, the first.
fn tops(source: &ToolResult) -> impl Iterator<Item = f64> {
    let facts = source.facts();
    let leaves = facts.leaves.iter().take(LEAVES_MAX).filter(|leaf| leaf.record == 0).filter_map(|leaf| leaf.value.number());
    let text = if facts.json { &[][..] } else { &facts.numbers[..] };
    leaves.chain(text.iter().copied().take(PARTS_MAX))
}

/// Parts of wholes, each with its name: the whole numbers of an object, the lengths of the outermost lists.
fn wholes(source: &ToolResult) -> Vec<Vec<(String, f64)>> {
    let facts = source.facts();
    let mut objects: BTreeMap<usize, Vec<(String, f64)>> = BTreeMap::new();
    for leaf in facts.leaves.iter().take(LEAVES_MAX).filter(|leaf| leaf.record == 0) {
        if let Some(value) = leaf.value.number().filter(|value| *value >= 0.0 && value.fract() == 0.0) {
            objects.entry(leaf.object).or_default().push((leaf.key.clone(), value));
        }
    }
    let least = facts.lists.iter().map(|list| list.depth).min();
    let lists = facts.lists.iter().filter(|list| Some(list.depth) == least && !list.words.is_empty());
    let lists: Vec<(String, f64)> = lists.map(|list| (list.words.concat(), list.length as f64)).collect();
    objects.into_values().chain([lists]).filter(|parts| (2..=PARTS_MAX).contains(&parts.len())).collect()
}

/// Is it a share in percent of a part that the passage names or counts, or their number beside it: `82 % (205 people)`? A share with
/// decimals may be that of one of few parts, whatever it is called: whole ones would fit by chance.
fn is_share(scene: &CheckContext<'_>, number: &Number, source: &ToolResult) -> bool {
    let other = |other: &&Number| other.span != number.span && other.percent != number.percent;
    if !number.percent && !scene.plain.numbers.iter().any(|other| other.percent) {
        return false;
    }
    let told = scene.plain.folded().replace(' ', "");
    let named = |name: &str| name.len() >= NAME_CHARS_MIN && told.contains(name);
    let is = |share: &Number, part: f64, whole: f64| {
        whole > 0.0 && share.percent && share.readings().any(|shown| shown.rounds(part / whole * 100.0))
    };
    let fine = number.readings().all(|shown| shown.step < 1.0);
    wholes(source).iter().any(|parts| {
        let values: Vec<f64> = parts.iter().map(|(_, value)| *value).collect();
        let (all, few) = (values.iter().sum::<f64>(), fine && parts.len() <= FEW);
        let own = |(name, part): &(String, f64)| {
            (named(name) || few) && is(number, *part, all) || few && values.iter().any(|other| is(number, *part, part + other))
        };
        let counted = |share: &Number, count: f64| {
            tops(source).chain([all]).any(|whole| count <= whole && is(share, count, whole))
                && derive::sums_of_some(&values).any(|(_, sum)| sum == count)
        };
        let beside = |other: &Number| {
            let (share, count) = if number.percent { (number, other) } else { (other, number) };
            count.whole().is_some_and(|count| counted(share, count as f64))
        };
        parts.iter().any(own) || scene.plain.numbers.iter().filter(other).take(reckon::RECKONED_MAX).any(beside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::claims::{
        checks::values::values,
        context::CitationScope,
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    #[test]
    fn parts_and_their_wholes() {
        let rows = r#"{"rows":100,"skipped":2}"#;
        let tests = r#"{"passed":14,"failed":2}"#;
        let survey = r#"{"n":250,"answers":{"very satisfied":95,"satisfied":110,"neutral":25,"unhappy":20}}"#;
        let people = r#"{"present":["Ana","Bo","Cas","Dev","Eli"],"absent":["Fay","Gus"]}"#;
        for (result, text, wrong) in [
            (rows, "98 of the 100 rows were imported.", false),
            (rows, "97 of the 100 rows were imported.", true),
            (tests, "Two of the 16 tests failed.", false),
            (tests, "Of the 16, two failed.", false),
            (tests, "Two of the 18 tests failed.", true),
            ("14 controls passed, 2 failed", "Two of the 16 controls failed.", false),
            (tests, "87.5 % passed.", false),
            (tests, "87.9 % passed.", true),
            (survey, "82 % (205 people) are happy.", false),
            (survey, "85 % (205 people) are happy.", true),
            (survey, "10 % are neutral.", false),
            (survey, "13 % are neutral.", true),
            (people, "71 % are present.", false),
            (people, "77 % are present.", true),
        ] {
            let grounds = EvidenceIndex::new(vec![ToolResult::new("t", "{}", result)], Vec::new(), "".into());
            let plain = AnalyzedPassage::of(text);
            let lexicon = language(&words(text), None);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
            let found = values(&scene);
            assert_eq!(!found.is_empty(), wrong, "{text}: {found:?}");
        }
    }
}
