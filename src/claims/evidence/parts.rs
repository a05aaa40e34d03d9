//! Parts of wholes that a result tells by numbers or lists: shares in percent, sums of some parts, what is left of a whole. Pure.

use std::collections::BTreeMap;

use crate::{
    context::CheckContext,
    evidence::{ToolResult, derive, reckon},
    language::{fold::words_of, number::Number},
};

/// Parts of one whole.
const PARTS_MAX: usize = 10;
/// Bytes between a number and what it is a part of.
const GAP_BYTES_MAX: usize = 24;
/// Bytes of a part's name, and of a word by which it is told.
const NAME_BYTES_MIN: usize = 3;
const WORD_BYTES_MIN: usize = 4;
/// Values of a result that are looked at.
const LEAVES_MAX: usize = 200;

/// Parts of members' names that tell no part of anything.
const NO_PARTS: [&str; 20] = [
    "id", "level", "limit", "min", "max", "price", "age", "row", "column", "duration", "time", "second", "ms", "year", "page", "version",
    "port", "warning", "size", "number",
];
/// Parts of the names of wholes, which are no part of a larger one.
const WHOLES: [&str; 8] = ["total", "capacity", "count", "all", "rows", "sum", "pupils", "n"];

/// True if a number is a part of a whole, or the whole of such parts, as a cited result has them.
pub fn is_part(scene: &CheckContext<'_>, number: &Number) -> bool {
    is_rest(scene, number) || scene.sources.iter().any(|source| is_share(scene, number, source))
}

/// False of a member's name that tells no part of anything.
fn may_be_part(name: &str) -> bool {
    !NO_PARTS.iter().any(|part| name.contains(part))
}

/// The words of a passage, as names of members are compared with them.
struct Told<'s> {
    squashed: String,
    words: Vec<&'s str>,
}

impl<'s> Told<'s> {
    fn of(scene: &CheckContext<'s>) -> Self {
        let folded = scene.plain.folded();
        Self { squashed: folded.replace(' ', ""), words: words_of(folded).filter(|word| word.len() >= WORD_BYTES_MIN).collect() }
    }

    /// Those of these names that the passage has: the longest first, none by what another one is named by.
    fn names<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
        let (mut names, mut rest): (Vec<&str>, String) =
            (names.filter(|name| name.len() >= NAME_BYTES_MIN).collect(), self.squashed.clone());
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.retain(|name| {
            let stands = rest.contains(name);
            if stands {
                rest = rest.replace(name, "|");
            }
            stands || self.words.iter().any(|word| name.starts_with(word))
        });
        names
    }
}

/// `98 of the 100 rows`, `two of the 16`: a number, what it is a part of, and what is left; the result has the two others, and the passage
/// calls none of them by another one's name.
fn is_rest(scene: &CheckContext<'_>, number: &Number) -> bool {
    let Some(own) = number.whole() else { return false };
    let near = |start: usize, end: usize| {
        let gap = if start >= number.end { number.end..start } else { end..number.span.start };
        scene.text().get(gap).is_some_and(|gap| gap.len() <= GAP_BYTES_MAX && !gap.contains([';', '.', ':', '(', '+', '-', '–']))
    };
    let digits = scene.plain.numbers().iter().filter(|other| other.span != number.span && near(other.span.start, other.end));
    let words = scene.plain.words.iter().filter(|word| near(word.start, word.end));
    let others = digits.filter_map(Number::whole).chain(words.filter_map(|word| scene.lexicon.numbers.get(&*word.lower).copied()));
    let others: Vec<u64> = others.filter(|other| *other != own).take(PARTS_MAX).collect();
    others.into_iter().any(|other| {
        scene.sources.iter().any(|source| {
            let has = |value: u64| tops(source).find(|(_, top)| *top == value as f64);
            let (Some((told_of, _)), Some((apart, _))) = (has(other), has(own.abs_diff(other))) else { return false };
            let sum = own > other;
            // Rows are counted; a row is a place.
            let plain = |name: &&str| may_be_part(name.trim_end_matches("rows")) && !(sum && WHOLES.contains(name));
            // The names that may be told: that of the part beside a sum, that of the whole beside what is left of it.
            let named = || Told::of(scene).names(tops(source).map(|(name, _)| name));
            [told_of, apart].iter().all(plain) && (sum || !scene.tells_failure()) && named().iter().all(|name| *name == told_of)
        })
    })
}

/// The numbers that a result has for the whole, with their names: those outside its lists; of a text, the first.
fn tops(source: &ToolResult) -> impl Iterator<Item = (&str, f64)> {
    let facts = source.facts();
    let leaves = facts.leaves.iter().take(LEAVES_MAX).filter(|leaf| leaf.record == 0);
    let leaves = leaves.filter_map(|leaf| Some((leaf.key.as_str(), leaf.value.number()?)));
    let text = if facts.is_structured() { &[][..] } else { &facts.numbers[..] };
    leaves.chain(text.iter().map(|number| ("", *number)).take(PARTS_MAX))
}

/// Parts of wholes, each with its name: the whole numbers of an object, the lengths of the outermost lists.
fn wholes(source: &ToolResult) -> Vec<Vec<(String, f64)>> {
    let facts = source.facts();
    let mut objects: BTreeMap<usize, Vec<(String, f64)>> = BTreeMap::new();
    for leaf in facts.leaves.iter().take(LEAVES_MAX).filter(|leaf| leaf.record == 0) {
        let plain = may_be_part(&leaf.key) && !WHOLES.contains(&leaf.key.as_str());
        if let Some(value) = leaf.value.number().filter(|value| plain && *value >= 0.0 && value.fract() == 0.0) {
            objects.entry(leaf.object).or_default().push((leaf.key.clone(), value));
        }
    }
    let least = facts.lists.iter().map(|list| list.depth).min();
    let lists = facts.lists.iter().filter(|list| Some(list.depth) == least && !list.words.is_empty());
    let lists: Vec<(String, f64)> = lists.map(|list| (list.words.concat(), list.length as f64)).collect();
    objects.into_values().chain([lists]).filter(|parts| (2..=PARTS_MAX).contains(&parts.len())).collect()
}

/// Is it a share in percent of a part that the passage names, or of what it counts: `82 % (205 people)`?
fn is_share(scene: &CheckContext<'_>, number: &Number, source: &ToolResult) -> bool {
    let other = |other: &&Number| other.span != number.span && other.percent != number.percent;
    if !number.percent && !scene.plain.numbers().iter().any(|other| other.percent) {
        return false;
    }
    let told = Told::of(scene);
    let is = |share: &Number, part: f64, whole: f64| {
        whole > 0.0 && share.percent && share.readings().any(|shown| shown.rounds(part / whole * 100.0))
    };
    wholes(source).iter().any(|parts| {
        let values: Vec<f64> = parts.iter().map(|(_, value)| *value).collect();
        let all: f64 = values.iter().sum();
        let names = told.names(parts.iter().map(|(name, _)| name.as_str()));
        let named: f64 = parts.iter().filter(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value).sum();
        let counted = |share: &Number, count: f64| {
            tops(source).map(|(_, top)| top).chain([all]).any(|whole| count <= whole && is(share, count, whole))
                && if names.is_empty() { derive::sums_of_some(&values).any(|(_, sum)| sum == count) } else { count == named }
        };
        let beside = |other: &Number| {
            let (share, count) = if number.percent { (number, other) } else { (other, number) };
            count.whole().is_some_and(|count| counted(share, count as f64))
        };
        !names.is_empty() && is(number, named, all) || scene.plain.numbers().iter().filter(other).take(reckon::RECKONED_MAX).any(beside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
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
            (tests, "87.5 % failed.", true),
            (tests, "Coverage is 87.5 %.", true),
            (tests, "Two of the 16 tests passed.", true),
            (rows, "98 of the 100 rows were skipped.", true),
            (r#"{"rows":100,"duration_ms":12}"#, "88 of the 100 rows were imported.", true),
            (r#"{"capacity":14,"free":2}"#, "Two of the 16 seats are free.", true),
            (r#"{"used_gb":400,"free_gb":100}"#, "400 of the 500 GB are free.", true),
            (survey, "82 % (205 people) are happy.", false),
            (survey, "85 % (205 people) are happy.", true),
            (survey, "82 % (205 people) are unhappy.", true),
            (survey, "82 % (205 people) are satisfied or very satisfied.", false),
            (survey, "44 % are very satisfied.", true),
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
