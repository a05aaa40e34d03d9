//! A sentence whose values all stand in another result than the one it cites. Pure.

use crate::{
    checks::{account::sentence, acts, selection::is_plain, unaccounted::id_spans},
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ToolResult, equals,
        facts::{NamedValue, ResultFacts, Scalar},
        fits,
    },
    language::{
        cues,
        date::{Date, Time},
        fold::{akin, fold, stands_in},
        lexicon::Word,
        number::{Number, Precision},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Results that are looked through.
const RESULTS_MAX: usize = 32;
/// Bytes of an act's result that says no more than that it was done.
const LITTLE_BYTES: usize = 32;
/// Whole numbers up to here stand in many results by chance.
const SMALL: f64 = 12.0;
/// A result with a number above this may have moments, which no date is compared with.
const MOMENT_FROM: f64 = 1e8;
/// Time zones lie apart by a multiple of these.
const ZONE_MINUTES: u32 = 30;
/// Words that are looked for among the values of results.
const WORDS_MAX: usize = 48;
/// Ids that are looked for.
const IDS_MAX: usize = 16;
/// Letters of a value that is one word, and values of a result that are looked at.
const VALUE_CHARS_MIN: usize = 5;
const LEAVES_MAX: usize = 100;
/// Letters of a word of a member's name.
const MEMBER_CHARS_MIN: usize = 4;

/// Finds a sentence that cites one result and tells nothing but what another one has: `Novartis closed at 102.00 (id of SAP's quote)`.
pub(crate) fn elsewhere(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [cited] = scene.sources[..] else { return None };
    if scene.grounds.results.len() < 2 {
        return None;
    }
    if !scene.is_judged(CitationScope::Cited) || scene.kind == Kind::Heading || cited.failed || cues::reckons(scene.plain) {
        return None;
    }
    // `204 No Content`: what was done is told by the call.
    let says_little = cited.text.len() <= LITTLE_BYTES;
    if !cited.reads() && (says_little || !acts::speech::reported::told(scene.plain, scene.kind).is_empty()) {
        return None;
    }
    let mut told = ToldValues::of(scene);
    let of_cited = |value: &ToldValue<'_>| value.stands_in(cited) || value.may_follow(cited);
    if !told.is_empty() && told.all(of_cited) {
        return None;
    }
    // Looked for last: it goes through all results.
    told.add_values(scene);
    if told.is_empty() || told.all(of_cited) {
        return None;
    }
    let has_all = |other: &&ToolResult| !other.failed && !scene.is_source(other) && told.all(|value| value.stands_in(other));
    let other = scene.grounds.results.iter().rev().take(RESULTS_MAX).find(has_all)?;
    if names_argument(scene, cited, other) || names_member(scene, cited, other) {
        return None;
    }
    let expected =
        format!("the execution of `{}`, whose result has what the sentence tells; that of `{}` has nothing of it", other.tool, cited.tool);
    Some(sentence::whole(scene, "elsewhere", Code::ClaimMismatch, &expected, Certainty::Likely))
}

/// Does the sentence name a thing that the cited call was about: `bk-0913, taken at 02:00, passes the test (id of the test of bk-0913)`?
fn names_argument(scene: &CheckContext<'_>, cited: &ToolResult, other: &ToolResult) -> bool {
    let facts = ResultFacts::read(&cited.arguments);
    facts.leaves.iter().any(|leaf| match &leaf.value {
        Scalar::Text(text) => {
            let own = fold(text);
            stands_in(scene.plain.folded(), &own) && !stands_in(other.folded_arguments(), &own)
        }
        Scalar::Number(_) | Scalar::Flag(_) | Scalar::Null => false,
    })
}

/// Does the sentence name a member that only the cited result has?
fn names_member(scene: &CheckContext<'_>, cited: &ToolResult, other: &ToolResult) -> bool {
    let has = |result: &ToolResult, word: &str| result.facts().keys().iter().any(|key| key.contains(word));
    let names = |word: &Word| {
        let own = word.folded();
        own.chars().count() >= MEMBER_CHARS_MIN && !is_plain(word) && has(cited, &own) && !has(other, &own)
    };
    scene.plain.words.iter().any(names)
}

/// A value of a sentence that few results have by chance.
enum ToldValue<'s> {
    Number(&'s Number),
    Date(&'s Date),
    Time(&'s Time),
    /// Folded.
    Name(String),
    /// A small number beside the name of a member that has it: `7 days remaining`.
    Member {
        key: String,
        value: f64,
    },
}

struct ToldValues<'s>(Vec<ToldValue<'s>>);

impl<'s> ToldValues<'s> {
    /// Those that nobody but a tool said.
    fn of(scene: &CheckContext<'s>) -> Self {
        let plain = scene.plain;
        let is_free = |number: &&Number| {
            !number.ordinal
                && !plain.is_taken(&(number.span.start..number.end))
                && number.readings().any(|reading| reading.value > SMALL || reading.step < 1.0)
                && !number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value))
        };
        let said = scene.grounds.said_dates();
        let dates = plain.dates().dates.iter().filter(|date| !said.dates.iter().any(|other| date.is(other)));
        let times = plain.dates().times.iter().filter(|time| !said.times.iter().any(|other| other.minutes == time.minutes));
        let names = plain.words.iter().filter(|word| sentence::is_capital_inside(scene, word)).map(|word| fold(&word.lower));
        let written = plain.words.iter().filter(|word| word.lower.contains('_') && word.lower.chars().count() >= VALUE_CHARS_MIN);
        let names = names.chain(written.map(|word| fold(&word.lower)));
        let ids = id_spans(&plain.text).into_iter().take(IDS_MAX).filter_map(|span| plain.text.get(span)).map(fold);
        let names = names.chain(ids).filter(|name| is_told(scene, name));
        let numbers = plain.numbers().iter().filter(is_free).map(ToldValue::Number);
        Self(numbers.chain(dates.map(ToldValue::Date)).chain(times.map(ToldValue::Time)).chain(names.map(ToldValue::Name)).collect())
    }

    /// Adds the words that are a whole value of a result.
    fn add_values(&mut self, scene: &CheckContext<'s>) {
        let values = scene.plain.words.iter().take(WORDS_MAX).filter(|word| is_value(scene, word)).map(|word| fold(&word.lower));
        self.0.extend(values.filter(|value| is_told(scene, value)).map(ToldValue::Name));
        self.0.extend(scene.plain.numbers().iter().filter_map(|number| member(scene, number)));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn all(&self, is: impl Fn(&ToldValue<'_>) -> bool) -> bool {
        self.0.iter().all(is)
    }
}

impl ToldValue<'_> {
    fn stands_in(&self, result: &ToolResult) -> bool {
        let facts = result.facts();
        match self {
            Self::Number(number) => fits(number, Precision::Exact, &facts.numbers),
            Self::Date(date) => facts.dates.dates.iter().any(|other| date.is(other)),
            Self::Time(time) => facts.dates.times.iter().any(|other| other.minutes == time.minutes),
            Self::Name(name) => stands_in(result.folded(), name),
            Self::Member { key, value } => facts.leaves.iter().any(|leaf| leaf.key == *key && leaf.value.number() == Some(*value)),
        }
    }

    /// Does it follow from a result, or from its call?
    fn may_follow(&self, result: &ToolResult) -> bool {
        let facts = result.facts();
        let has_moments = || facts.numbers.last().is_some_and(|number| *number > MOMENT_FROM);
        match self {
            Self::Number(number) => {
                fits(number, Precision::Approximate, &facts.numbers)
                    || fits(number, Precision::Approximate, result.argument_numbers())
                    || equals(number, Precision::Exact, &facts.derived().plain)
            }
            Self::Date(date) => has_moments() || facts.dates.dates.iter().any(|other| date.agrees(other)),
            // In another time zone.
            Self::Time(time) => {
                has_moments() || facts.dates.times.iter().any(|other| other.minutes.abs_diff(time.minutes).is_multiple_of(ZONE_MINUTES))
            }
            Self::Name(name) => stands_in(result.folded_arguments(), name),
            Self::Member { .. } => false,
        }
    }
}

/// Words beside a number among which a member is named.
const BESIDE_WORDS: usize = 4;

/// A small number that a member of a result has, whose name stands beside it.
fn member<'s>(scene: &CheckContext<'s>, number: &Number) -> Option<ToldValue<'s>> {
    let value = number.readings().next().filter(|reading| reading.value <= SMALL && reading.step == 1.0 && !number.ordinal)?.value;
    if scene.plain.is_taken(&(number.span.start..number.end)) || scene.grounds.said_numbers_have(value) {
        return None;
    }
    let behind = scene.words_after(number.span.end).iter().take(BESIDE_WORDS);
    let beside: Vec<String> = behind.chain(scene.words_before(number.span.start).last()).map(|word| fold(&word.lower)).collect();
    let names = |leaf: &&NamedValue| {
        leaf.value.number() == Some(value)
            && beside.iter().any(|word| word.chars().count() >= MEMBER_CHARS_MIN && (*word == leaf.key || akin(word, &leaf.key)))
    };
    let mut leaves = scene.grounds.results.iter().rev().take(RESULTS_MAX).flat_map(|result| result.facts().leaves.iter().take(LEAVES_MAX));
    leaves.find(names).map(|leaf| ToldValue::Member { key: leaf.key.clone(), value })
}

/// Does a result have this name, and nobody else?
fn is_told(scene: &CheckContext<'_>, name: &str) -> bool {
    !scene.grounds.has_said(name) && scene.sources.first().is_some_and(|first| scene.grounds.has_words(name, first))
}

/// Is it a word that is a whole value of a result, as a state is?
fn is_value(scene: &CheckContext<'_>, word: &Word) -> bool {
    if word.lower.chars().count() < VALUE_CHARS_MIN || scene.lexicon.common.contains(&word.lower) || is_plain(word) {
        return false;
    }
    let is = |leaf: &NamedValue| matches!(&leaf.value, Scalar::Text(text) if text.eq_ignore_ascii_case(&word.lower));
    scene.grounds.results.iter().rev().take(RESULTS_MAX).any(|result| result.facts().leaves.iter().take(LEAVES_MAX).any(is))
}

#[cfg(test)]
mod tests {
    use super::{super::cited::find, *};

    const CALLS: &[(&str, &str, &str)] = &[
        ("get_rate", r#"{"from":"EUR"}"#, r#"{"from":"EUR","rate":1.083,"as_of":"2026-02-03"}"#),
        ("get_train", r#"{"no":"IC 71"}"#, r#"{"no":"IC 71","leaves":"14:32","platform":7,"driver":"Nora Held","delay_min":38}"#),
    ];

    #[test]
    fn a_sentence_that_tells_of_another_result() {
        let wrong = |cited: usize, text: &str| find(elsewhere, "Rate and train?", CALLS, cited, text).is_some();
        for text in ["It departs at 14:32, 38 minutes late.", "The train is driven by Nora Held.", "IC 71 is 38 minutes late."] {
            assert_eq!((wrong(0, text), wrong(1, text)), (true, false), "{text}");
        }
        // Something of it is the cited result's own, or may follow from it; nobody has the value; it is about the cited call.
        for text in [
            "The rate is 1.083, and the train is 38 minutes late.",
            "The train is 44 minutes late.",
            "In EUR: 38 minutes late.",
            "Seven of them.",
            "Is it 38 minutes late?",
            "On average it is 38 minutes late.",
        ] {
            assert!(!wrong(0, text), "{text}");
        }
        // What the user said is nobody's.
        assert!(find(elsewhere, "Is it 38 minutes late?", CALLS, 0, "It is 38 minutes late.").is_none());
    }
}
