//! A cause that no result gives: `late because of a crane strike`, where the result has the delay and says nothing of why. Pure.
//!
//! Compared where the user asks why, where the words say plainly that it is a cause, or where a sentence that cites tells it of the past. A
//! cause that has any word or figure of the conversation, weighs one thing against another, is
//! a guess or a denial, isn't judged; nor is any where a result holds text that may tell it in other words. The words lie in
//! `lexicon/reasons.toml`.

use std::{collections::HashSet, sync::OnceLock};

use foldhash::fast::FixedState;
use serde::Deserialize;

use crate::{
    checks::{account::sentence, acts, states},
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ToolResult,
        facts::{NamedValue, Scalar},
    },
    language::{
        fold::fold,
        lexicon::{Word, WordSet},
        word_list::data_file,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Letters of a word that tells something.
const TELLING_CHARS: usize = 4;
/// Words of a cause of which the conversation has none.
const NEW_WORDS_MIN: usize = 2;
/// Words of a cause that are read.
const CAUSE_WORDS_MAX: usize = 24;
/// Words of a value that may tell a cause in other words.
const TEXT_WORDS: usize = 3;
/// Values of a result that are looked at.
const LEAVES_MAX: usize = 400;
/// Results of a conversation that are looked at.
const RESULTS_MAX: usize = 12;

/// The words of `lexicon/reasons.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonWords {
    because: Vec<String>,
    causes: Vec<String>,
    in_clauses: WordSet,
    open: WordSet,
    small: WordSet,
    past: WordSet,
    members: Vec<String>,
}

fn data() -> &'static ReasonWords {
    static DATA: OnceLock<ReasonWords> = OnceLock::new();
    DATA.get_or_init(|| data_file(include_str!("../language/lexicon/reasons.toml")))
}

/// The first words of all phrases: most sentences have none of them.
fn first_words() -> &'static HashSet<&'static str, FixedState> {
    static FIRST: OnceLock<HashSet<&'static str, FixedState>> = OnceLock::new();
    FIRST.get_or_init(|| {
        let all = data().because.iter().chain(&data().causes);
        all.filter_map(|phrase| phrase.split(' ').next()).collect()
    })
}

/// The finding of a passage that tells a cause which nothing in the conversation has a word of.
pub(crate) fn reasons(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let grounds = scene.grounds;
    if scene.bond < CitationScope::Near || scene.endless || scene.plain.asks() || scene.text().contains(['"', '“', '„', '«']) {
        return None;
    }
    let asks = grounds.asked.asks_why();
    let words = scene.plain.words.as_slice();
    let told = match cause(scene) {
        Some((cause, plainly)) => Some(cause).filter(|_| asks || plainly || scene.bond == CitationScope::Cited && is_past(words)),
        // What stands behind the fact that the user asks the cause of.
        None => Some(words).filter(|_| asks && scene.bond == CitationScope::Near && scene.kind == Kind::Sentence && is_past(words)),
    };
    let cause = told.filter(|told| !states::is_unsure(scene.plain.folded(), &scene.plain.words) && is_new(scene, told))?;
    if grounds.results.len() > RESULTS_MAX
        || grounds.results.iter().any(|source| source.fails() || source.is_partial() || may_tell(scene, source))
    {
        return None;
    }
    let (first, last) = (cause.first()?, cause.last()?);
    Some(ClaimFinding {
        rule: "reasons",
        code: Code::UngroundedValue,
        span: first.start..last.end,
        found: scene.text().get(first.start..last.end).unwrap_or_default().to_owned(),
        expected: "a cause that a result or the conversation gives".to_owned(),
        certainty: Certainty::Likely,
    })
}

/// The words of the cause that the passage tells, and whether its words say plainly that it is one.
fn cause<'s>(scene: &CheckContext<'s>) -> Option<(&'s [Word], bool)> {
    let plain = scene.plain;
    if !plain.words.iter().any(|word| !word.lower.is_ascii() || first_words().contains(word.lower.as_str())) {
        return None;
    }
    let folded: Vec<String> = plain.words.iter().map(|word| fold(&word.lower)).collect();
    let stands = |phrase: &str, at: usize| {
        let parts = phrase.split(' ');
        let count = parts.clone().count();
        let own = folded.get(at..at + count)?;
        own.iter().map(String::as_str).eq(parts).then_some(at + count)
    };
    let of = |list: &[String], at: usize| list.iter().filter_map(|phrase| stands(phrase, at)).max();
    // `, as the card had expired`: other words elsewhere.
    let is_clause = |at: usize| {
        let before = plain.words.get(at).and_then(|word| scene.text().get(..word.start)).unwrap_or_default().trim_end();
        !folded.get(at).is_some_and(|word| data().in_clauses.contains(word)) || before.ends_with([',', ')', '–', '—'])
    };
    let follows = |list: &[String]| {
        (1..folded.len()).filter(|at| is_clause(*at)).find_map(|at| of(list, at)).map(|from| {
            let start = plain.words.get(from).map_or(scene.text().len(), |word| word.start);
            let rest = scene.text().get(start..).unwrap_or_default();
            let end = start + rest.find([',', ';', ':', '.', '(', '–', '—', '\n']).unwrap_or(rest.len());
            let count = plain.words.iter().skip(from).take_while(|word| word.end <= end).count();
            from..from + count
        })
    };
    let plainly = follows(&data().causes);
    let found = plainly.clone().or_else(|| follows(&data().because))?;
    Some((plain.words.get(found)?, plainly.is_some()))
}

/// Do these words tell something that the conversation has no word of?
fn is_new(scene: &CheckContext<'_>, words: &[Word]) -> bool {
    let own: Vec<String> = words.iter().map(|word| fold(&word.lower)).collect();
    // `n't`, `I'm`: words that hold others.
    let contracted = |word: &Word| word.lower.contains(['\'', '’']) && is_open_contraction(&word.lower);
    if own.len() > CAUSE_WORDS_MAX || own.iter().any(|word| is_open(word)) || words.iter().any(contracted) {
        return false;
    }
    let tells = |word: &&String| {
        word.chars().count() >= TELLING_CHARS && !data().small.contains(word.as_str()) && !scene.lexicon.common.contains(word.as_str())
    };
    let telling: Vec<&String> = own.iter().filter(tells).collect();
    telling.len() >= NEW_WORDS_MIN && !telling.iter().any(|word| sentence::is_known_word(scene, word))
}

/// Do these words tell of what has been?
fn is_past(words: &[Word]) -> bool {
    words.iter().any(|word| data().past.contains(&word.lower) || word.lower.len() > 4 && word.lower.ends_with("ed"))
}

fn is_open(word: &str) -> bool {
    // `closest`, `cheaper` weigh one thing against another.
    let weighs =
        word.len() > 5 && (word.ends_with("est") || word.ends_with("ier") || word == "cheaper" || word == "later" || word == "earlier");
    data().open.contains(word) || weighs || word.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_open_contraction(word: &str) -> bool {
    ["n't", "n’t", "'ll", "’ll", "'d", "’d"].iter().any(|ending| word.ends_with(ending))
        || ["i'", "i’", "we'", "we’", "you'", "you’"].iter().any(|start| word.starts_with(start))
}

/// May a result tell the cause in other words, or in another language?
fn may_tell(scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let facts = source.facts();
    let told = scene.plain.folded();
    let asked = scene.grounds.asked.folded();
    let language = acts::speech::language_of(scene.text(), &scene.plain.words).unwrap_or(scene.lexicon.language.as_str());
    let english = language == "en";
    // Words of a value that neither the passage nor the question has.
    let untold = |text: &str| {
        let word = |word: &&str| word.chars().count() > 2 && word.chars().all(char::is_alphabetic);
        text.split(' ').filter(word).filter(|word| !told.contains(*word) && !asked.contains(*word)).count()
    };
    let text = |leaf: &NamedValue| {
        let Scalar::Text(text) = &leaf.value else { return false };
        let count = untold(&fold(text));
        let named = data().members.iter().any(|part| leaf.key.contains(part.as_str()));
        // A state or a code, in another language than the answer.
        let code = !english && text.chars().filter(|c| c.is_lowercase()).count() >= TELLING_CHARS && !text.contains(char::is_uppercase);
        // `awaiting_stock`: a code of two words.
        let least = if text.contains(char::is_uppercase) { TEXT_WORDS } else { TEXT_WORDS - 1 };
        count >= least || count > 0 && (named || code)
    };
    if facts.leaves.len() > LEAVES_MAX || facts.leaves.iter().any(text) {
        return true;
    }
    facts.leaves.is_empty() && source.text.lines().any(|line| untold(&fold(line)) >= TEXT_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        plain::AnalyzedPassage,
    };

    fn found(asked: &str, result: &str, text: &str) -> bool {
        let grounds =
            EvidenceIndex::new(vec![ToolResult::new("get_schedule", r#"{"vessel":"Orsola"}"#, result)], vec![asked.into()], asked.into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, grounds.results.iter().collect(), CitationScope::Cited, &grounds);
        reasons(&scene).is_some()
    }

    #[test]
    fn causes_that_nothing_gives() {
        let why = "Why's the Orsola late again?";
        let late = r#"{"vessel":"Orsola","port":"GRPIR","planned":"2025-01-20","actual":"2025-01-23"}"#;
        let told = r#"{"vessel":"Orsola","planned":"2025-01-20","actual":"2025-01-23","remark":"berth taken by another ship"}"#;
        for (asked, result, text, wrong) in [
            (why, late, "The Orsola is three days late because of a crane strike there.", true),
            (why, late, "She is late because the pilot boat had broken down, and she is at sea now.", true),
            // It follows from figures, is a guess, is denied; or the user didn't ask.
            (why, late, "It counts as late because she came on the 23rd instead of the 20th.", false),
            (why, late, "She may be late because of a strike, perhaps.", false),
            (why, late, "She is late, perhaps because of a crane strike.", false),
            (why, late, "I can't tell, because no remark gives any cause.", false),
            ("When does the Orsola come?", late, "The Orsola is three days late because of a crane strike there.", false),
            // The result tells it in its own words.
            (why, told, "The Orsola is late because somebody else blocked her place.", false),
        ] {
            assert_eq!(found(asked, result, text), wrong, "{text}");
        }
    }
}
