//! Which of a result's lists a noun means, and how many things it may be said to have. Pure.

use std::borrow::Cow;

use super::{
    derive,
    facts::{ResultFacts, ResultList, Scalar},
};
use crate::{
    context::NounPhrase,
    evidence::{EvidenceIndex, ToolResult},
    language::{
        fold::{akin, fold, folded},
        lexicon::{self, Lexicon},
        number::{Number, numbers},
    },
};

/// Certainty that the noun means these lists.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum MatchConfidence {
    /// It is the only list there is.
    Only,
    /// The noun is one for anything that a search returns.
    Generic,
    /// The tool's name has it.
    Tool,
    /// The list's name has it.
    Named,
}

/// Lists of a result that a noun names.
#[derive(Debug)]
pub struct MatchedLists<'f> {
    /// The lists.
    pub lists: Vec<&'f ResultList>,
    /// Certainty of that reading.
    pub fit: MatchConfidence,
    /// The text says that there is nothing, in words.
    pub none_said: bool,
}

impl MatchedLists<'_> {
    /// Counts that may be stated: of each list, and of those of one name together.
    pub fn lengths(&self) -> Vec<u64> {
        let mut lengths: Vec<u64> = self.lists.iter().map(|list| list.length as u64).collect();
        lengths.push(lengths.iter().sum());
        if self.none_said && self.lists.is_empty() {
            lengths.push(0);
        }
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    /// The most that there may be.
    pub fn most(&self) -> u64 {
        self.lengths().last().copied().unwrap_or(0)
    }
}

/// Meaning of these words in a result; `None` if it can't be told.
pub fn things<'f>(noun: &[String], source: &'f ToolResult, lexicon: &'static Lexicon) -> Option<MatchedLists<'f>> {
    let facts = source.facts();
    let none_said = !facts.is_structured() && source.says_none();
    let said: Vec<NounPhrase<'_>> = noun.iter().map(|word| NounPhrase::new(word, lexicon)).collect();
    let named: Vec<&ResultList> = facts.lists.iter().filter(|list| said.iter().any(|said| said.names(&list.words))).collect();
    if !named.is_empty() {
        return Some(MatchedLists { lists: named, fit: MatchConfidence::Named, none_said });
    }
    let depth = facts.lists.iter().map(|list| list.depth).min();
    let top: Vec<&ResultList> =
        facts.lists.iter().filter(|list| Some(list.depth) == depth && (list.of_things || list.length == 0)).collect();
    let things = |fit| MatchedLists { lists: top.clone(), fit, none_said };
    if top.is_empty() && !none_said {
        return None;
    }
    let alone = top.len() <= 1;
    if alone && said.iter().any(|said| said.names(source.nouns())) {
        return Some(things(MatchConfidence::Tool));
    }
    if noun.iter().any(|word| lexicon.generic.contains(word)) {
        return Some(things(MatchConfidence::Generic));
    }
    let foreign = noun.iter().any(|word| names_a_value(word, facts, lexicon));
    (alone && facts.lists.len() <= 1 && !foreign && !noun.is_empty()).then(|| things(MatchConfidence::Only))
}

/// Does a member's name, or a value, have this word?
pub fn names_a_value(word: &str, facts: &ResultFacts, lexicon: &Lexicon) -> bool {
    let (folded, said) = (folded(word), NounPhrase::new(word, lexicon));
    facts.keys().iter().any(|key| akin(key, &folded) || folded.len() > 3 && key.contains(&*folded) || said.names(std::slice::from_ref(key)))
}

/// May it be said of this result that there are `count` of these, although no list of them is so long?
pub fn excused(count: u64, noun: &[String], source: &ToolResult, grounds: &EvidenceIndex) -> bool {
    let facts = source.facts();
    let value = count as f64;
    let told = facts.leaves.iter().any(|leaf| {
        leaf.value.number() == Some(value)
            && (derive::is_count(&leaf.key) || noun.iter().any(|word| akin(&fold(word), &leaf.key) || leaf.key.contains(&fold(word))))
    });
    // Three lines of two each are six.
    let sum = |key: &String| facts.of_key(key).filter_map(|leaf| leaf.value.number()).sum::<f64>();
    let quantity = || facts.keys().iter().any(|key| derive::is_quantity(key) && facts.of_key(key).nth(1).is_some() && sum(key) == value);
    told || quantity()
        || beside(count, noun, |words| source.has_words(words), source.told())
        || beside(count, noun, |words| grounds.has_said(words), grounds.told())
}

/// Does the text say `count` right before one of these words, as `57 players`? `says` looks folded words up in it.
fn beside(count: u64, noun: &[String], says: impl Fn(&str) -> bool, told: &[(u64, String)]) -> bool {
    let noun: Vec<Cow<'_, str>> = noun.iter().map(|word| folded(word)).collect();
    noun.iter().any(|word| says(&format!("{count} {word}")))
        || told
            .iter()
            .filter(|(told, _)| *told == count)
            .any(|(_, follows)| follows.split(' ').any(|other| noun.iter().any(|word| akin(other, word))))
}

/// The whole numbers of a text, each with what follows it, folded.
pub fn told(text: &str) -> Vec<(u64, String)> {
    let follows = |number: &Number| {
        let rest = text.get(number.end..).unwrap_or_default().trim_start();
        fold(rest.get(..rest.floor_char_boundary(40)).unwrap_or_default())
    };
    numbers(text).iter().filter_map(|number| Some((number.whole()?, follows(number)))).collect()
}

/// Does a text that is no JSON say that there is nothing?
pub fn says_none(text: &str) -> bool {
    let text = text.trim();
    let short = text.len() <= 200;
    text.is_empty()
        || short
            && lexicon::all()
                .iter()
                .any(|lexicon| lexicon.may_be_absent(text) && lexicon.absences().iter().any(|pattern| pattern.is_match(text)))
}

/// Does a result say that there is something: a list with elements, or an object with values, and nothing that says otherwise?
pub fn is_something(things: &MatchedLists<'_>, facts: &ResultFacts) -> bool {
    let zero = facts.leaves.iter().any(|leaf| leaf.value.number() == Some(0.0) && derive::is_count(&leaf.key));
    let denied = facts
        .leaves
        .iter()
        .any(|leaf| matches!(leaf.value, Scalar::Flag(false)) && ["found", "exists", "ok", "success"].contains(&&*leaf.key));
    !zero && !denied && !things.none_said && things.lists.iter().all(|list| list.length > 0) && !things.lists.is_empty()
}
