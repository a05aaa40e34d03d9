//! Questions that many checks ask of a sentence: what it denies, leaves out and names, and a finding about all of it. Pure.

use crate::{
    context::{CheckContext, ClaimFinding},
    language::{
        fold::{akin, fold, stands_in},
        lexicon::Word,
        number::Number,
        polarity::{failure_words::text_tells_failure, negation::read_tells_nothing},
        word_list::WordList,
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Values of a result that are looked through: for the records that they name, for blank ones.
pub(crate) const LEAVES_OF: usize = 2000;

/// Does the passage tell of a failure, in any language?
pub fn tells_of_failure(scene: &CheckContext<'_>) -> bool {
    *scene.plain.tells_failure.get_or_init(|| text_tells_failure(scene.text())) || names_status(scene)
}

/// Does it tell the status of what failed, as its result has it: `with a 413` (RFC 9110, section 15)?
fn names_status(scene: &CheckContext<'_>) -> bool {
    let status = |number: &Number| number.whole().filter(|code| (400..600).contains(code) && number.unit.is_none());
    let has = |code: u64| scene.sources.iter().any(|source| source.fails() && stands_in(source.folded(), &code.to_string()));
    scene.plain.numbers().iter().filter_map(status).any(has)
}

/// Does the passage tell that something isn't there or isn't so?
pub fn tells_nothing(scene: &CheckContext<'_>) -> bool {
    *scene.plain.tells_nothing.get_or_init(|| read_tells_nothing(scene.plain))
}

/// A finding about the whole sentence.
pub(crate) fn whole(scene: &CheckContext<'_>, rule: &'static str, code: Code, expected: &str, certainty: Certainty) -> ClaimFinding {
    let start = scene.text().len() - scene.text().trim_start().len();
    let end = scene.text().trim_end().len().max(start);
    let found = scene.text().get(start..end).unwrap_or_default().to_owned();
    ClaimFinding { rule, code, span: start..end, found, expected: expected.to_owned(), certainty }
}

/// Words with a capital inside the sentence that nobody said: likely names.
pub(crate) fn foreign_names<'s>(scene: &'s CheckContext<'_>) -> impl Iterator<Item = &'s Word> {
    let known = |word: &Word| {
        let folded = word.folded();
        scene.grounds.results.iter().any(|source| stands_in(source.folded(), &folded) || stands_in(source.folded_arguments(), &folded))
            || stands_in(scene.grounds.said_folded(), &folded)
    };
    scene.plain.words.iter().filter(move |word| is_capital_inside(scene, word) && !known(word))
}

/// Is it a word with a capital inside the sentence, of three letters at least?
pub(crate) fn is_capital_inside(scene: &CheckContext<'_>, word: &Word) -> bool {
    let text = scene.text().get(word.start..word.end).unwrap_or_default();
    let first = text.chars().next().is_some_and(char::is_uppercase);
    let rest = text.chars().skip(1).any(char::is_lowercase) && text.chars().count() >= 3;
    let before = scene.text().get(..word.start).unwrap_or_default().trim_end_matches(['"', '“', '„', '*', '_', '(', ' ']);
    let inside = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == ',');
    first && rest && inside
}

/// True if the question or the passage leaves out some of the records. `part`: where a denial does so, too.
pub(crate) fn excludes(scene: &CheckContext<'_>, part: std::ops::Range<usize>) -> bool {
    static EXCLUDES: WordList = WordList::new(&[
        "without",
        "except",
        "excluding",
        "leaving",
        "apart",
        "besides",
        "other",
        "others",
        "ohne",
        "außer",
        "abgesehen",
        "sauf",
        "sans",
        "hormis",
        "salvo",
        "sin",
        "excepto",
        "tranne",
        "senza",
        "escluso",
        "sem",
        "exceto",
        "zonder",
        "behalve",
        "bez",
        "oprócz",
        "hariç",
        "utan",
        "utom",
    ]);
    static DENIES: WordList = WordList::new(&["not", "don't", "doesn't", "nicht"]);
    let says = |word: &Word| EXCLUDES.has(&word.lower);
    let denies = |word: &Word| DENIES.has(&word.lower);
    let asked = scene.grounds.asked.words();
    let in_part = scene.plain.words.iter().filter(|word| part.contains(&word.start)).any(denies);
    in_part || scene.plain.words.iter().chain(asked).any(says) || asked.iter().any(denies)
}

/// Has anybody said this word, folded, or one that begins like it?
pub(crate) fn is_known_word(scene: &CheckContext<'_>, folded: &str) -> bool {
    let stem: String = folded.chars().take(folded.chars().count().saturating_sub(2).max(4)).collect();
    let begins = |text: &str| {
        text.split(' ').any(|word| word == folded || word.starts_with(&stem) && folded.chars().count() > 4 || akin(word, folded))
    };
    // `D-AXLM` is two folded words.
    let bare = folded.replace(' ', "");
    let squashed = |text: &str| text.replace(' ', "").contains(&bare) && bare.chars().count() > 3;
    scene.grounds.results.iter().any(|source| begins(source.folded()) || begins(source.folded_arguments()) || squashed(source.folded()))
        || begins(scene.grounds.said_folded())
        || squashed(&fold(&scene.grounds.definitions))
}
