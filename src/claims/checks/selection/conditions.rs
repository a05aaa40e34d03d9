//! Conditions of a record, told in other words than the result's: `sold out` of `qty: 0`, `refused` of `decision: rejected`. Pure.
//!
//! A condition holds of a record by what its members have. Of a record that has no such member, nothing tells.

use std::{borrow::Cow, collections::HashMap, sync::OnceLock};

use foldhash::fast::FixedState;
use serde::Deserialize;

use super::RecordValue;
use crate::language::{
    fold::stands_in,
    lexicon::Word,
    word_list::{WordSet, data_file},
};

/// Words of a phrase, the longest that is looked for.
const PHRASE_WORDS: usize = 4;
/// Words of a text that tells how a thing stands.
const VALUE_WORDS_MAX: usize = 6;
/// Begins a choice by the condition that has this number.
const MARK: char = '\u{2}';

/// The words of `lexicon/conditions.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenConditions {
    conditions: Vec<Condition>,
}

/// A condition, and what a record has that is in it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    words: Vec<String>,
    excludes: Vec<String>,
    values: Vec<String>,
    on: WordSet,
    off: WordSet,
    zero: WordSet,
    above: WordSet,
    blank: WordSet,
    filled: WordSet,
}

/// The conditions, and the phrases that tell each, or that exclude it, with its number.
struct Conditions {
    all: Vec<Condition>,
    told: PhraseNumbers,
    excluded: PhraseNumbers,
}

type PhraseNumbers = HashMap<String, usize, FixedState>;

fn conditions() -> &'static Conditions {
    static ALL: OnceLock<Conditions> = OnceLock::new();
    ALL.get_or_init(|| {
        let WrittenConditions { conditions: all } = data_file(include_str!("../../language/lexicon/conditions.toml"));
        let numbers = |phrases: fn(&Condition) -> &[String]| {
            let mut found = PhraseNumbers::default();
            for (number, condition) in all.iter().enumerate() {
                phrases(condition).iter().for_each(|phrase| _ = found.entry(phrase.clone()).or_insert(number));
            }
            found
        };
        let (told, excluded) = (numbers(|condition| &condition.words), numbers(|condition| &condition.excludes));
        Conditions { all, told, excluded }
    })
}

/// A condition that words tell.
pub struct ToldCondition {
    condition: &'static Condition,
    /// It as one of the words that choose records.
    pub choice: String,
    /// Number of the words that tell it.
    pub length: usize,
}

/// The condition that the words from a place on tell, by the longest phrase.
pub fn told_at(words: &[Word], at: usize) -> Option<ToldCondition> {
    phrase_at(words, at, &conditions().told)
}

/// The condition that no record is in of which the words from a place on are true: `in stock` and sold out.
pub fn excluded_at(words: &[Word], at: usize) -> Option<ToldCondition> {
    phrase_at(words, at, &conditions().excluded)
}

/// The condition of the longest phrase that begins at a word.
fn phrase_at(words: &[Word], at: usize, numbers: &PhraseNumbers) -> Option<ToldCondition> {
    let folded: Vec<Cow<'_, str>> = words.iter().skip(at).take(PHRASE_WORDS).map(Word::folded).collect();
    (1..=folded.len()).rev().find_map(|length| {
        let number = *numbers.get(&folded.get(..length)?.join(" "))?;
        let condition = conditions().all.get(number)?;
        Some(ToldCondition { condition, choice: format!("{MARK}{number}"), length })
    })
}

impl ToldCondition {
    /// True if a record has a member that tells whether it is in this condition.
    pub fn is_told_by(&self, record: &[RecordValue<'_>]) -> bool {
        record.iter().any(|value| self.condition.by(value).is_some())
    }
}

/// True of a choice by a condition that the record is in; `None` of another choice.
pub fn holds(record: &[RecordValue<'_>], choice: &str) -> Option<bool> {
    let number: usize = choice.strip_prefix(MARK)?.parse().ok()?;
    let condition = conditions().all.get(number)?;
    Some(record.iter().any(|value| condition.by(value) == Some(true)))
}

impl Condition {
    /// True if a value tells that its record is in this condition, false if that it isn't; `None` if it tells nothing of it.
    fn by(&self, value: &RecordValue<'_>) -> Option<bool> {
        let key = value.key;
        match (value.flag, value.number) {
            (Some(flag), _) if self.on.contains(key) => Some(flag),
            (Some(flag), _) if self.off.contains(key) => Some(!flag),
            (None, Some(number)) if self.zero.contains(key) => Some(number == 0.0),
            (None, Some(number)) if self.above.contains(key) => Some(number > 0.0),
            _ if self.blank.contains(key) => Some(value.blank),
            _ if self.filled.contains(key) => Some(!value.blank),
            (None, None) if !value.text.is_empty() && value.text.split(' ').count() <= VALUE_WORDS_MAX => {
                self.values.iter().any(|own| stands_in(&value.text, own)).then_some(true)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::cited::find, asked_counts::asked_counts, denial::denial},
        *,
    };

    const SHELF: &str = r#"{"as_of":"2026-03-18","items":[{"name":"tea","qty":4,"loan_to":null,"decision":"accepted","paid":true},{"name":"jam","qty":0,"loan_to":"Ines","decision":"rejected","paid":false},{"name":"oil","qty":3,"loan_to":null,"decision":"accepted","paid":true}]}"#;

    #[test]
    fn each_condition_has_words_and_something_that_tells_it() {
        assert!(conditions().all.len() > 15);
        for condition in &conditions().all {
            let telling = [&condition.on, &condition.off, &condition.zero, &condition.above, &condition.blank, &condition.filled]
                .iter()
                .any(|set| set.iter().next().is_some());
            assert!(!condition.words.is_empty() && (telling || !condition.values.is_empty()), "{condition:?}");
        }
    }

    #[test]
    fn conditions_told_in_other_words() {
        let denied = |text: &str| find(denial, "Tell me about the items.", &[("list_items", "{}", SHELF)], 0, text).is_some();
        for text in ["No item is sold out.", "None of the items is lent out.", "No item has been turned down.", "No items are unpaid."] {
            assert!(denied(text), "{text}");
        }
        let fine =
            SHELF.replace("\"qty\":0", "\"qty\":1").replace("\"Ines\"", "null").replace("rejected", "accepted").replace("false", "true");
        let allowed = |text: &str| find(denial, "Tell me about the items.", &[("list_items", "{}", &fine)], 0, text).is_none();
        for text in ["No item is sold out.", "None of the items is lent out.", "No item has been turned down.", "No items are unpaid."] {
            assert!(allowed(text), "{text}");
        }
        // Nothing tells of it.
        assert!(!denied("No item is out of order.") && !denied("No item has expired."));
    }

    #[test]
    fn conditions_choose_what_is_counted() {
        let counted = |text: &str| {
            find(asked_counts, "How many are sold out?", &[("list_items", "{}", SHELF)], 0, text).map(|finding| finding.expected)
        };
        assert_eq!(counted("Two of the three are sold out."), Some("1".to_owned()));
        assert_eq!(counted("One of the three is sold out."), None);
    }
}
