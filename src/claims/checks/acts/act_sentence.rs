//! A sentence that reports an act, with what it is judged by: the tools, what ran, what was said before. Pure.

use crate::{
    checks::acts::{
        readings::is_own_past,
        speech::{
            Speech,
            reported::{SENTENCE_BYTES_MAX, told},
            verb_forms::{STEM, is_form_of},
        },
    },
    evidence::{
        EvidenceIndex,
        tool_capabilities::{ToolCapabilities, ToolCapability},
    },
    language::{
        fold::{akin, fold, stands_in},
        lexicon::Word,
        polarity::failure_words,
    },
    passage::Kind,
    plain::AnalyzedPassage,
};

/// Earlier answers that are looked through for acts.
const ANSWERS_MAX: usize = 8;

/// Words of a request between who did it and what was done.
const OWN_WORDS: usize = 14;

/// The answer up to a sentence, as far as it matters for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// It has cited, and this sentence doesn't.
    pub apart: bool,
    /// It has told of a failure.
    pub failure: bool,
    /// Number of passages before it.
    pub passages: usize,
    /// It has shown a text, a list, a table or code.
    pub shows: bool,
}

/// A sentence and what it is judged by.
pub(super) struct ActSentence<'c> {
    pub(super) text: &'c str,
    pub(super) words: &'c [Word],
    pub(super) kind: Kind,
    pub(super) abilities: &'c ToolCapabilities,
    pub(super) grounds: Option<&'c EvidenceIndex>,
    pub(super) before: Before,
}

impl ActSentence<'_> {
    /// An earlier answer said so already.
    pub(super) fn is_repeated(&self, verb: &str) -> bool {
        let verb = fold(verb);
        self.grounds.is_some_and(|grounds| grounds.answers_folded().iter().any(|answer| stands_in(answer, &verb)))
    }

    /// An earlier answer has a longer word of the request.
    pub(super) fn is_topic_of(&self, grounds: &EvidenceIndex) -> bool {
        let known = |word: &String| word.chars().count() > STEM && grounds.answers_folded().iter().any(|answer| stands_in(answer, word));
        self.abilities.asked.name_words().iter().any(known)
    }

    /// A result has the stem of every word of this.
    pub(super) fn is_reported(&self, said: &str) -> bool {
        let folded = fold(said);
        let stem = |word: &str| word.chars().take(STEM + 1).collect::<String>();
        let mut stems = folded.split(' ').filter(|word| word.chars().count() > 2 && *word != "now").map(stem).peekable();
        stems.peek().is_some()
            && self.grounds.is_some_and(|grounds| {
                let ran = |stem: &str| grounds.results.iter().any(|source| source.reads() && source.tool_folded().contains(stem));
                stems.all(|stem| {
                    grounds.results.iter().any(|source| source.folded().contains(&stem)) || ran(stem.get(..STEM).unwrap_or(&stem))
                })
            })
    }

    /// The answer tells of the failure, and what failed has the stem of the verb: `the marks were released in March`, as its reason says.
    pub(super) fn is_reason(&self, verb: &str) -> bool {
        let stem: String = fold(verb).chars().take(STEM + 1).collect();
        let told = || self.before.failure || failure_words::text_tells_failure(self.text);
        let has = |grounds: &EvidenceIndex| grounds.results.iter().any(|source| source.fails() && source.folded().contains(&stem));
        stem.chars().count() > STEM && self.grounds.is_some_and(has) && told()
    }

    /// The user told of it as done: `it was cancelled`.
    pub(super) fn is_users(&self, verb: &str, speech: &Speech) -> bool {
        const FINITE: &[&str] = &[
            "was", "were", "been", "is", "are", "has", "have", "had", "i've", "i’ve", "got", "already", "wurde", "ist", "habe", "été",
            "est", "ai", "fue", "ha", "he", "está", "foi", "è", "stato", "ho", "werd", "heb", "został",
        ];
        let asked = self.abilities.asked.words();
        // `I've turned off the valve and called the plumber`
        const OWN: &[&str] = &["i've", "i’ve", "we've", "we’ve", "habe", "hab", "haben", "j'ai", "j’ai", "ho", "heb", "hebben"];
        // `I want the report sent` is none of it.
        const WISHES: &[&str] = &[
            "want", "wants", "need", "needs", "like", "please", "would", "could", "möchte", "brauche", "bitte", "voudrais", "veux",
            "quiero", "necesito", "vorrei", "voglio", "wil", "graag",
        ];
        let said = |at: usize| {
            let before = |words: usize| asked.get(at.saturating_sub(words)..at).unwrap_or_default();
            let has = |words: usize, list: &[&str]| before(words).iter().any(|word| list.contains(&word.lower.as_str()));
            has(3, FINITE) || has(OWN_WORDS, OWN) && !has(OWN_WORDS, WISHES)
        };
        // `ya pagué la luz`
        let wishes = asked.iter().any(|word| WISHES.contains(&word.lower.as_str()));
        let own = |word: &Word| !wishes && is_own_past(&word.lower, speech) && is_form_of(verb, &word.folded());
        asked.iter().enumerate().any(|(at, word)| word.lower == verb && said(at) || own(word))
    }
}

/// The reason of a finding: `would`, the tool that would have done it, didn't run, or none did.
pub(super) fn not_run(would: Option<&ToolCapability>, abilities: &ToolCapabilities) -> String {
    match would {
        Some(tool) => format!("`{}` didn't run since the request", tool.tool),
        None if abilities.looked() => "no tool that does more than read ran since the request".to_owned(),
        None => "no tool ran since the request".to_owned(),
    }
}

/// Does an earlier answer report something as done?
pub(super) fn tells_of_acts(grounds: &EvidenceIndex) -> bool {
    let acts = |answer: &std::sync::Arc<str>| {
        let text = answer.get(..answer.floor_char_boundary(SENTENCE_BYTES_MAX)).unwrap_or(answer);
        told(&AnalyzedPassage::of(text), Kind::Sentence).iter().any(|said| !said.is_harmless())
    };
    grounds.answers.iter().rev().take(ANSWERS_MAX).any(acts)
}

/// True if an earlier answer reports an act or a look, or has a figure: it may rest on results that the application doesn't send again.
pub(super) fn may_rest_on_results(grounds: &EvidenceIndex) -> bool {
    let rests = |answer: &std::sync::Arc<str>| {
        let text = answer.get(..answer.floor_char_boundary(SENTENCE_BYTES_MAX)).unwrap_or(answer);
        text.len() < answer.len()
            || text.bytes().any(|byte| byte.is_ascii_digit())
            || !told(&AnalyzedPassage::of(text), Kind::Sentence).is_empty()
    };
    grounds.answers.len() > ANSWERS_MAX || grounds.answers.iter().any(rests)
}

pub(super) fn sentence(text: &str) -> String {
    text.trim().to_owned()
}

impl ToolCapabilities {
    /// True if the word stands in a tool's name or description.
    pub(super) fn names(&self, word: &str) -> bool {
        let word = fold(word);
        word.chars().count() >= 4
            && self.tools.iter().any(|ability| {
                ability.words.iter().chain(&ability.about).any(|other| akin(other, &word)) || stands_in(&ability.folded, &word)
            })
    }
}
