//! Names given to another member, and figures told of two members the wrong way round. Pure.

use crate::{
    checks::{
        account::sentence,
        selection::{RecordValue, Records, clauses, denies, folded_words, is_plain},
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    language::{fold::stands_in, lexicon::Word},
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Values of a result that is looked at.
const LEAVES_MAX: usize = 200;
/// Values of a record that are looked at.
const VALUES_MAX: usize = 60;
/// Letters of a word that is the name of a member, or the beginning of one.
const NAME_CHARS_MIN: usize = 4;
/// Words between a figure and the name of what it is told of.
const BESIDE_WORDS: usize = 4;

/// The finding of a sentence that gives one member's name to another (`the captain is Tom Aker`, who is the first officer), or swaps the figures
/// of two (`2402 in rapid and 2341 in blitz`).
pub(crate) fn roles(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources[..] else { return None };
    if scene.bond != CitationScope::Cited || scene.kind == Kind::Heading || scene.plain.asks() || source.failed || source.is_partial() {
        return None;
    }
    // A word that is a member's name, or begins one, must stand in it.
    let keys = source.facts().keys();
    let names = |word: &Word| {
        word.lower.chars().count() >= NAME_CHARS_MIN && !is_plain(word) && {
            let own = word.folded();
            own.get(..NAME_CHARS_MIN).is_some_and(|begins| keys.iter().any(|key| key.starts_with(begins)))
        }
    };
    if source.facts().leaves.len() > LEAVES_MAX || !scene.plain.words.iter().any(names) {
        return None;
    }
    let records = Records::single(source).or_else(|| Records::of(source))?;
    clauses(scene).into_iter().find_map(|clause| name_of_another(scene, &records, clause)).or_else(|| swapped_figures(scene, &records))
}

fn name_of_another(scene: &CheckContext<'_>, records: &Records<'_>, clause: &[Word]) -> Option<ClaimFinding> {
    if clause.iter().any(denies) {
        return None;
    }
    let words = folded_words(clause);
    let folded = words.join(" ");
    let record = records.named_in(&folded, |_| true)?.get(..).filter(|record| record.len() <= VALUES_MAX)?;
    let figures = |value: &RecordValue<'_>| value.text.bytes().any(|byte| byte.is_ascii_digit());
    let is_name = |value: &&RecordValue<'_>| value.flag.is_none() && value.text.contains(' ') && !figures(value);
    let names: Vec<&RecordValue<'_>> = record.iter().filter(is_name).collect();
    let once = |value: &RecordValue<'_>| names.iter().filter(|other| other.key == value.key || other.text == value.text).count() == 1;
    let told = names.iter().find(|value| once(value) && stands_in(&folded, &value.text))?;
    let place = name_place(&words, &told.text)?;
    let passes = |word: &Word| is_plain(word) || record.iter().any(|value| stands_in(&value.text, &word.folded()));
    let role = words.iter().enumerate().filter(|(_, word)| word.chars().count() >= NAME_CHARS_MIN).find_map(|(at, word)| {
        let own = names.iter().find(|value| value.key == *word)?;
        // `The captain of TN 7 is Tom Aker`: nothing else stands between.
        let between = if at < place.start { at + 1..place.start } else { place.end..at };
        let linked = between.len() <= BESIDE_WORDS && clause.get(between).is_some_and(|between| between.iter().all(passes));
        (linked && once(own) && !std::ptr::eq(*own, *told)).then_some(own)
    })?;
    // Both are told of: `captain Lidia Ferrer, with Tom Aker`; a role of the same word: `vice chair`.
    let both = stands_in(&folded, &role.text)
        || told.key.contains(role.key)
        || words.iter().any(|word| word.chars().count() >= NAME_CHARS_MIN && told.key.contains(word.as_str()));
    if both || !is_alike(role, told) {
        return None;
    }
    let expected = format!("{}: {}", role.key, role.text);
    Some(sentence::whole(scene, "roles", Code::ClaimMismatch, &expected, Certainty::Likely))
}

/// Place of a name of several words among these.
fn name_place(words: &[String], name: &str) -> Option<std::ops::Range<usize>> {
    let count = name.split(' ').count();
    (0..words.len()).map(|at| at..at + count).find(|place| words.get(place.clone()).is_some_and(|own| own.join(" ") == name))
}

/// Are both names of the same kind, as far as their forms say: as many words?
fn is_alike(one: &RecordValue<'_>, other: &RecordValue<'_>) -> bool {
    let words = |value: &RecordValue<'_>| value.text.split(' ').count();
    words(one).abs_diff(words(other)) <= 1
}

/// Two figures, each told of the member that has the other one.
fn swapped_figures(scene: &CheckContext<'_>, records: &Records<'_>) -> Option<ClaimFinding> {
    let record = records.named_in(scene.plain.folded(), |_| true)?;
    let named = |word: &Word| {
        let own = word.folded();
        let begins = own.get(..NAME_CHARS_MIN)?.to_owned();
        let mut members = record.iter().filter(|value| value.number.is_some() && value.key.starts_with(&begins));
        let (member, None) = (members.next()?, members.next()) else { return None };
        (!is_plain(word)).then_some(member)
    };
    let mut told: Vec<(f64, &RecordValue<'_>)> = Vec::new();
    let figures: Vec<(usize, usize, f64)> = figures_of(scene);
    for (at, (start, end, figure)) in figures.iter().enumerate() {
        let next = figures.get(at + 1).map_or(usize::MAX, |(start, ..)| *start);
        let behind = scene.words_after(*end).iter().take(BESIDE_WORDS).take_while(|word| word.start < next).find_map(named);
        let previous = at.checked_sub(1).and_then(|at| figures.get(at)).map_or(0, |(_, end, _)| *end);
        let before =
            || scene.words_before(*start).iter().rev().take(BESIDE_WORDS).take_while(|word| word.start >= previous).find_map(named);
        told.extend(behind.or_else(before).map(|member| (*figure, member)));
    }
    let [(one, of_one), (other, of_other)] = told[..] else { return None };
    let swapped = of_one.key != of_other.key && one != other && of_one.number == Some(other) && of_other.number == Some(one);
    swapped.then(|| {
        let expected = format!("{}: {other}, {}: {one}", of_one.key, of_other.key);
        sentence::whole(scene, "roles", Code::ClaimMismatch, &expected, Certainty::Certain)
    })
}

/// The figures of a passage, also as words, with their places.
fn figures_of(scene: &CheckContext<'_>) -> Vec<(usize, usize, f64)> {
    let numbers = scene.plain.numbers().iter().filter(|number| !number.ordinal && !scene.plain.is_taken(&number.span));
    let mut found: Vec<(usize, usize, f64)> =
        numbers.filter_map(|number| Some((number.span.start, number.span.end, number.readings().next()?.value))).collect();
    for word in &scene.plain.words {
        let count = scene.lexicon.count(&word.lower).filter(|_| !found.iter().any(|(start, ..)| *start == word.start));
        found.extend(count.map(|count| (word.start, word.end, count as f64)));
    }
    found.sort_by_key(|(start, ..)| *start);
    found
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    #[test]
    fn names_and_figures_of_other_members() {
        let flight = r#"{"flight":"TN 7","captain":"Lidia Ferrer","first_officer":"Tom Aker","rapid":2341,"blitz":2402}"#;
        let wrong = |text: &str| find(roles, "And?", &[("get_flight", "{}", flight)], 0, text).is_some();
        for text in ["Tom Aker is the captain.", "The captain of TN 7 is Tom Aker.", "It has 2402 in rapid and 2341 in blitz."] {
            assert!(wrong(text), "{text}");
        }
        for text in [
            "Lidia Ferrer is the captain.",
            "The captain, Lidia Ferrer, flies with Tom Aker.",
            "Captain Lidia Ferrer flies with Tom Aker.",
            "The first officer is Tom Aker.",
            "Tom Aker isn't the captain.",
            "It has 2341 in rapid and 2402 in blitz.",
            "Rapid 2341, blitz 2402.",
        ] {
            assert!(!wrong(text), "{text}");
        }
    }
}
