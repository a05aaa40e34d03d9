//! A state told of the one thing that a result is about, where the result has the opposite: "passed" of `"result": "failed"`. Pure.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::{
    checks::{
        account::sentence,
        selection::{RecordValue, Records, clauses, denies, folded_words, is_nothing_said},
        states,
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::facts::{ResultFacts, Scalar},
    language::{
        fold::{fold, stands_in},
        lexicon::Word,
        word_list::{FoldedParts, data_file},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Values of a result that is looked at.
const LEAVES_MAX: usize = 200;
/// Bytes of a value that is a state.
const STATE_BYTES_MAX: usize = 32;
/// Words of it.
const STATE_WORDS_MAX: usize = 4;
/// Words between a denial and the state that it denies, with that.
const DENIED_WITHIN: usize = 4;

/// The words of `lexicon/opposites.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOpposites {
    pairs: Vec<Pair>,
}

/// The pairs, and all of their words at once: most sentences have none of them.
#[derive(Debug)]
struct Opposites {
    pairs: Vec<Pair>,
    any: FoldedParts,
}

/// States of which a thing has only one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    one: Vec<String>,
    other: Vec<String>,
    /// Such as count only in a result.
    #[serde(default)]
    one_values: Vec<String>,
    #[serde(default)]
    other_values: Vec<String>,
}

fn data() -> &'static Opposites {
    static ALL: OnceLock<Opposites> = OnceLock::new();
    ALL.get_or_init(|| {
        let WrittenOpposites { pairs } = data_file(include_str!("../../language/lexicon/opposites.toml"));
        let words: Vec<String> = pairs.iter().flat_map(|pair| pair.one.iter().chain(&pair.other)).map(|word| format!("{word}$")).collect();
        Opposites { any: FoldedParts::new(&words, fold), pairs }
    })
}

/// The finding of a sentence that tells a state as the opposite of what the result has.
pub(crate) fn opposites(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources[..] else { return None };
    if scene.bond != CitationScope::Cited
        || scene.kind == Kind::Heading
        || scene.plain.asks()
        || source.failed
        || source.is_partial()
        || source.facts().leaves.len() > LEAVES_MAX
        || !data().any.stand_in(scene.plain.folded())
    {
        return None;
    }
    let records = Records::single(source).or_else(|| Records::of(source))?;
    clauses(scene).into_iter().find_map(|clause| {
        let folded = folded_words(clause).join(" ");
        let is_name = |text: &str| !data().pairs.iter().any(|pair| has(&pair.one, text) || has(&pair.other, text));
        // `The Wooden farm (T-102) is on the shelf`: named before.
        let before = fold(scene.text().get(..clause.last().map_or(0, |last| last.end)).unwrap_or_default());
        let record = records.named_in(&folded, is_name).or_else(|| records.named_in(&before, is_name))?;
        // `Done`, of a call that added a task: the call is done, not the task.
        let of_call = |pair: &&Pair| !source.reads() && pair.one.iter().any(|word| word == "done");
        let mut pairs = data().pairs.iter().filter(|pair| !of_call(pair));
        pairs.find_map(|pair| pair.finding(scene, source.facts(), clause, &folded, record))
    })
}

fn has(words: &[String], text: &str) -> bool {
    words.iter().any(|word| stands_in(text, word))
}

/// Is it short enough to be a state?
fn is_state(text: &str) -> bool {
    !text.is_empty() && text.len() <= STATE_BYTES_MAX && text.split(' ').count() <= STATE_WORDS_MAX
}

impl Pair {
    /// The side of the pair that a value is of, if any.
    fn side(&self, value: &RecordValue<'_>) -> Option<Side> {
        if let Some(flag) = value.flag {
            let named = |words: &[String]| words.iter().any(|word| word.replace(' ', "") == value.key);
            return match (named(&self.one) || named(&self.one_values), named(&self.other) || named(&self.other_values)) {
                (true, false) => Some(if flag { Side::One } else { Side::Other }),
                (false, true) => Some(if flag { Side::Other } else { Side::One }),
                _ => None,
            };
        }
        if !is_state(&value.text) {
            return None;
        }
        let is_one = has(&self.one, &value.text) || has(&self.one_values, &value.text);
        match (is_one, has(&self.other, &value.text) || has(&self.other_values, &value.text)) {
            (true, false) => Some(Side::One),
            (false, true) => Some(Side::Other),
            _ => None,
        }
    }

    fn finding(
        &self,
        scene: &CheckContext<'_>,
        facts: &ResultFacts,
        clause: &[Word],
        folded: &str,
        record: &[RecordValue<'_>],
    ) -> Option<ClaimFinding> {
        // Most clauses have none of its words.
        if !has(&self.one, folded) && !has(&self.other, folded) {
            return None;
        }
        let mut sides = record.iter().filter_map(|value| Some((self.side(value)?, value)));
        let (side, value) = sides.next()?;
        if sides.any(|(other, _)| other != side) {
            return None;
        }
        let (own, own_values, opposite) =
            if side == Side::One { (&self.one, &self.one_values, &self.other) } else { (&self.other, &self.other_values, &self.one) };
        // Hours of opening: `closed` of one day.
        let hours = || !facts.dates.times.is_empty() && self.one.iter().any(|word| word == "open");
        if has(own, folded) || has(own_values, folded) || hours() {
            return None;
        }
        let place = opposite.iter().find_map(|word| place_of(clause, word))?;
        let beside = record
            .iter()
            .any(|value| value.flag.is_none() && (has(opposite, &value.text) || opposite.iter().any(|word| word == value.key)));
        // A later call changed it: `bloque: false`, then `bloque: true`.
        let changed = || {
            let others = scene.grounds.results.iter().filter(|other| !scene.is_source(other) && !other.reads());
            others.flat_map(|other| other.facts().leaves.iter().take(LEAVES_MAX)).any(|leaf| {
                leaf.key == value.key && value.flag.is_some_and(|flag| matches!(leaf.value, Scalar::Flag(other) if other != flag))
            })
        };
        if changed() || is_denied(clause, place) || states::is_unsure(&folded.replace("still ", ""), clause) || beside {
            return None;
        }
        let state = if value.flag.is_some() { format!("{}: {}", value.key, value.flag == Some(true)) } else { value.text.clone() };
        let expected = format!("the result has the state `{state}`");
        Some(sentence::whole(scene, "opposites", Code::ClaimMismatch, &expected, Certainty::Likely))
    }
}

/// One of the two states of a pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    One,
    Other,
}

/// Number of the clause's word with which a state of one or more words begins.
fn place_of(words: &[Word], state: &str) -> Option<usize> {
    let parts: Vec<&str> = state.split(' ').collect();
    let is = |at: usize| parts.iter().enumerate().all(|(nth, part)| words.get(at + nth).is_some_and(|word| word.folded() == *part));
    (0..words.len()).find(|at| is(*at))
}

/// Is the word there denied, or one of a condition?
fn is_denied(clause: &[Word], at: usize) -> bool {
    let before = clause.get(at.saturating_sub(DENIED_WITHIN)..at).unwrap_or_default();
    let past = |word: &Word| {
        matches!(
            word.lower.as_str(),
            "before"
                | "previously"
                | "formerly"
                | "earlier"
                | "originally"
                | "initially"
                | "était"
                | "étaient"
                | "war"
                | "estaba"
                | "stava"
        )
    };
    // `veröffentlicht ist er noch nicht`
    let behind =
        clause.get(at..).unwrap_or_default().iter().take(DENIED_WITHIN + 1).any(|word| matches!(word.lower.as_str(), "nicht" | "niet"));
    clause.iter().any(past) || behind || before.iter().any(|word| denies(word) || is_elided(word) || is_nothing_said(word))
}

/// True of a French word that denies: `n'est plus disponible`.
fn is_elided(word: &Word) -> bool {
    word.lower.starts_with("n'") || word.lower.starts_with("n’")
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
            (r#"{"reply":"declined"}"#, "She is coming."),
            (r#"{"available":false}"#, "It is on the shelf."),
            (r#"{"status":"waiting_parts"}"#, "It has been fixed."),
        ] {
            assert!(wrong(result, text), "{text}");
        }
        let added = ("add_task", r#"{"title":"Call Ann"}"#, r#"{"id":4,"title":"Call Ann","done":false}"#);
        assert!(find(opposites, "Add a task", &[added], 0, "Done with it.").is_none());
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
