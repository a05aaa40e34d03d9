//! A state told of the one thing that a result is about, where the result has the opposite: "passed" of `"result": "failed"`. Pure.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::{
    judge::claims::{
        checks::{
            account,
            selection::{clauses, denies, is_nothing_said},
            states,
        },
        context::{CheckContext, CitationScope, ClaimFinding},
        evidence::facts::{NamedValue, ResultFacts, Scalar},
        language::{
            fold::{fold, stands_in},
            lexicon::Word,
            word_list::data_file,
        },
        passage::Kind,
    },
    violation::{Certainty, Code},
};

/// Values of a result that is looked at.
const LEAVES_MAX: usize = 60;
/// Letters of a value that is a state.
const STATE_CHARS_MAX: usize = 32;
/// Words of it.
const STATE_WORDS_MAX: usize = 4;
/// Words between a denial and the state that it denies, with that.
const DENIED_WITHIN: usize = 4;

/// The words of `lexicon/opposites.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opposites {
    pairs: Vec<Pair>,
}

/// States of which a thing has only one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    one: Vec<String>,
    other: Vec<String>,
}

fn data() -> &'static Opposites {
    static ALL: OnceLock<Opposites> = OnceLock::new();
    ALL.get_or_init(|| data_file(include_str!("../../language/lexicon/opposites.toml")))
}

/// The finding of a sentence that tells a state as the opposite of what the result has.
pub(in crate::judge::claims) fn opposites(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources[..] else { return None };
    if scene.bond != CitationScope::Cited || scene.kind == Kind::Heading || scene.plain.asks() || source.fails() || source.is_partial() {
        return None;
    }
    let facts = source.facts();
    let states = states_of(facts)?;
    let told = scene.plain.folded();
    data().pairs.iter().find_map(|pair| {
        let has = |words: &[String], text: &str| words.iter().any(|word| stands_in(text, word));
        let (one, other) = (states.iter().any(|state| has(&pair.one, state)), states.iter().any(|state| has(&pair.other, state)));
        if one == other {
            return None;
        }
        let (own, opposite) = if one { (&pair.one, &pair.other) } else { (&pair.other, &pair.one) };
        if has(own, told) {
            return None;
        }
        let place = opposite.iter().find_map(|word| place_of(scene, word))?;
        // Hours of opening: `closed` of one day.
        if !facts.dates.times.is_empty() && pair.one.iter().any(|word| word == "open") {
            return None;
        }
        if is_denied(scene, place) || is_unsure(scene, place) || elsewhere_in(facts, opposite) {
            return None;
        }
        let state = states.iter().find(|state| has(own, state))?;
        let expected = format!("the result has the state `{state}`");
        Some(account::whole(scene, "opposites", Code::ClaimMismatch, &expected, Certainty::Likely))
    })
}

/// The texts of a result about one thing that may be states, folded; `None` if it is about several.
fn states_of(facts: &ResultFacts) -> Option<Vec<String>> {
    let several = facts.lists.iter().any(|list| list.of_things && list.length > 1);
    if several || !facts.is_structured() || facts.leaves.len() > LEAVES_MAX {
        return None;
    }
    let state = |leaf: &NamedValue| match &leaf.value {
        Scalar::Text(text) if text.len() <= STATE_CHARS_MAX && text.split([' ', '_', '-']).count() <= STATE_WORDS_MAX => Some(fold(text)),
        _ => None,
    };
    Some(facts.leaves.iter().filter_map(state).collect())
}

/// Has the result one of these words in a longer text, or a member of that name?
fn elsewhere_in(facts: &ResultFacts, words: &[String]) -> bool {
    facts.leaves.iter().any(|leaf| {
        let text = if let Scalar::Text(text) = &leaf.value { fold(text) } else { String::new() };
        words.iter().any(|word| leaf.key == *word || stands_in(&text, word))
    })
}

/// Where a state of one or more words begins in the passage.
fn place_of(scene: &CheckContext<'_>, state: &str) -> Option<usize> {
    let words = &scene.plain.words;
    let parts: Vec<&str> = state.split(' ').collect();
    let is = |at: usize| parts.iter().enumerate().all(|(nth, part)| words.get(at + nth).is_some_and(|word| fold(&word.lower) == *part));
    (0..words.len()).find(|at| is(*at))
}

/// Does the part of the sentence that has this word tell what could or will be?
fn is_unsure(scene: &CheckContext<'_>, at: usize) -> bool {
    let Some(place) = scene.plain.words.get(at).map(|word| word.start) else { return false };
    let of_clause = |clause: &&[Word]| clause.iter().any(|word| word.start == place);
    let clause = clauses(scene).into_iter().find(of_clause).unwrap_or(&scene.plain.words);
    let folded: Vec<String> = clause.iter().map(|word| fold(&word.lower)).collect();
    states::is_unsure(&folded.join(" "), clause)
}

/// Is the word there denied, or one of a condition?
fn is_denied(scene: &CheckContext<'_>, at: usize) -> bool {
    let before = scene.plain.words.get(at.saturating_sub(DENIED_WITHIN)..at).unwrap_or_default();
    before.iter().any(|word: &Word| denies(word) || is_nothing_said(word))
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    #[test]
    fn states_that_exclude_each_other() {
        let wrong = |result: &str, text: &str| find(opposites, "And?", &[("get_item", "{}", result)], 0, text).is_some();
        for (result, text) in [
            (r#"{"result":"failed"}"#, "It passed on Monday."),
            (r#"{"rights":"pending"}"#, "The track is fully cleared, you can play it."),
            (r#"{"stato":"chiuso"}"#, "Lo sportello è aperto."),
            (r#"{"place":"in storage"}"#, "It is on display."),
        ] {
            assert!(wrong(result, text), "{text}");
        }
        for (result, text) in [
            (r#"{"result":"failed"}"#, "It failed, and isn't passed."),
            (r#"{"result":"failed"}"#, "It hasn't passed."),
            (r#"{"result":"failed"}"#, "It can be passed next week."),
            (r#"{"result":"failed","note":"passed in 2024"}"#, "It passed in 2024."),
            (r#"{"state":"closed","hours":"9:00-17:00"}"#, "It is open from 9."),
            (r#"{"list":[{"state":"open"},{"state":"closed"}]}"#, "It is open."),
            (r#"{"state":"closed"}"#, "It was open before."),
        ] {
            assert!(!wrong(result, text), "{text}");
        }
    }
}
