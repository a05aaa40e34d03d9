//! A further act or look that the answer tells of beside the one that ran: `It's booked. I also rang the supplier.` Pure.
//!
//! One execution accounts for one act. Who says `also` says that there was another; where a single call ran since the request and it is
//! of another kind, nothing accounts for that one.

use crate::{
    checks::acts::{
        act_sentence::{ActSentence, Before},
        excuses::is_of_language,
        speech::{
            reported::{ActForm, ReportedAct, clause},
            verb_forms::{has_form, is_verb_of},
        },
    },
    context::ClaimFinding,
    evidence::{
        EvidenceIndex, ToolResult,
        facts::{NamedValue, Scalar},
        tool_capabilities::{Effect, ToolCapabilities, ToolCapability},
    },
    language::{
        fold::fold,
        lexicon::Word,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

/// Words by which one thing more is told, in any language.
static FURTHER: WordList = WordList::new(&[
    "also",
    "too",
    "besides",
    "additionally",
    "moreover",
    "furthermore",
    "afterwards",
    "double-checked",
    "cross-checked",
    "auch",
    "ebenfalls",
    "außerdem",
    "ausserdem",
    "zusätzlich",
    "zudem",
    "gleich",
    "aussi",
    "également",
    "también",
    "además",
    "asimismo",
    "também",
    "além",
    "anche",
    "inoltre",
    "pure",
    "ook",
    "tevens",
    "daarnaast",
    "eveneens",
    "też",
    "również",
    "dodatkowo",
    "ayrıca",
]);
static FURTHER_PHRASES: PhraseList = PhraseList::new(&[
    "as well",
    "in addition",
    "on top of that",
    "to be sure",
    "en plus",
    "por si acaso",
    "我还",
    "还帮",
    "另外我",
    "同时也",
    "また",
    "あわせて",
    "भी ",
    "साथ ही",
]);

/// Words by which no more than that is told, in any language.
static ONLY: WordList = WordList::new(&[
    "only",
    "merely",
    "nur",
    "bloß",
    "lediglich",
    "seulement",
    "uniquement",
    "sólo",
    "solo",
    "solamente",
    "soltanto",
    "só",
    "alleen",
    "enkel",
    "slechts",
    "tylko",
    "jedynie",
    "sadece",
    "yalnızca",
    "bara",
    "endast",
]);

/// The finding of a sentence that tells of a further act or look, beside a single call that is none.
pub(crate) fn further(
    passage: &AnalyzedPassage,
    kind: Kind,
    told: &[ReportedAct],
    abilities: &ToolCapabilities,
    grounds: &EvidenceIndex,
) -> Option<ClaimFinding> {
    if abilities.unseen || told.is_empty() || abilities.recent.is_empty() {
        return None;
    }
    // What an earlier turn did may be told again.
    if grounds.results.iter().any(|source| !source.recent) {
        return None;
    }
    // The first time may be the user's, or lie in an earlier turn.
    let spoken = || !grounds.answers.is_empty() || says_again(&grounds.asked, grounds.asked.words());
    let again = told.iter().find(|said| is_done_again(passage, said)).filter(|_| grounds.results.len() == 1);
    if let Some(again) = again.filter(|said| !spoken() && !is_verb_of(&said.verb, grounds.asked.name_words())) {
        let tool = grounds.results.first().map_or("", |source| &source.tool);
        return Some(ClaimFinding {
            rule: "again",
            code: Code::UnsupportedAction,
            span: again.span.clone(),
            found: passage.text.trim().to_owned(),
            expected: format!("`{tool}` ran once"),
            certainty: Certainty::Likely,
        });
    }
    // A look needs one more result of a tool that reads than the answer stands on; an act a second one that acts.
    let may_read = |source: &ToolResult| source.reads() || abilities.effect(&source.tool) == Effect::Unknown;
    let count = |reads: bool| grounds.results.iter().filter(|source| may_read(source) == reads).take(2).count();
    let (reads, acts) = (count(true), count(false));
    let looked = reads > 0 && reads + acts.min(1) > 1;
    let accounted = |said: &ReportedAct| if said.is_own_look() { looked } else { acts > 1 };
    let says = passage.words.iter().any(|word| FURTHER.has(&word.lower)) || FURTHER_PHRASES.stands_in(passage.lower());
    let (text, words) = (&passage.text, &passage.words);
    let case = ActSentence { text, words, kind, abilities, grounds: Some(grounds), before: Before::default() };
    let is = |said: &&ReportedAct| !accounted(said) && is_further(&case, said) && (says || is_look_elsewhere(&case, said));
    let deed = told.iter().find(is)?;
    let unknown = |source: &&ToolResult| {
        abilities.effect(&source.tool) == Effect::Unknown || abilities.tool(&source.tool).is_some_and(ToolCapability::may_do_anything)
    };
    if grounds.results.iter().any(|source| unknown(&source)) || case.is_repeated(&deed.verb) {
        return None;
    }
    let ran = abilities.recent.keys().map(String::as_str).collect::<Vec<_>>().join("`, `");
    Some(ClaimFinding {
        rule: "further",
        code: Code::UnsupportedAction,
        span: deed.span.clone(),
        found: text.trim().to_owned(),
        expected: format!("only `{ran}` ran since the request"),
        certainty: Certainty::Likely,
    })
}

/// Words by which something is told as done once more, in any language.
static AGAIN: WordList = WordList::new(&[
    "again",
    "twice",
    "nochmal",
    "nochmals",
    "erneut",
    "nuevamente",
    "nuovamente",
    "novamente",
    "opnieuw",
    "nogmaals",
    "ponownie",
    "tekrar",
    "yeniden",
    "दोबारा",
    "igen",
]);
static AGAIN_PHRASES: PhraseList = PhraseList::in_any_case(&[
    "a second time",
    "once more",
    "one more time",
    "noch einmal",
    "ein zweites mal",
    "de nouveau",
    "à nouveau",
    "encore une fois",
    "une deuxième fois",
    "une seconde fois",
    "otra vez",
    "de nuevo",
    "una segunda vez",
    "di nuovo",
    "un'altra volta",
    "una seconda volta",
    "de novo",
    "outra vez",
    "mais uma vez",
    "uma segunda vez",
    "een tweede keer",
    "jeszcze raz",
    "drugi raz",
    "bir kez daha",
    "もう一度",
    "再び",
    "改めて",
    "再次",
    "又查",
    "又测",
    "又试",
    "फिर से",
    "एक बार और",
]);
/// Verbs that tell by themselves that something was done once more.
static AGAIN_VERBS: WordList = WordList::new(&[
    "rerun",
    "reran",
    "rechecked",
    "retested",
    "remeasured",
    "retried",
    "revérifié",
    "recontrôlé",
    "refait",
    "relancé",
    "remesuré",
    "retesté",
    "ricontrollato",
    "riprovato",
    "rimisurato",
    "rifatto",
    "reintenté",
    "reverifiqué",
    "relancei",
]);
/// Bytes around a verb in which it is looked for.
const AGAIN_BYTES: usize = 40;

/// Does the first person say to have done or looked at something once more?
fn is_done_again(passage: &AnalyzedPassage, said: &ReportedAct) -> bool {
    if said.form != ActForm::First || !super::halves::has_no_denial(passage) {
        return false;
    }
    let clause = clause(&passage.text, said.span.clone());
    let from = clause.start.max(passage.text.floor_char_boundary(said.span.start.saturating_sub(AGAIN_BYTES)));
    let to = clause.end.min(passage.text.ceil_char_boundary((said.span.end + AGAIN_BYTES).min(passage.text.len())));
    let first = passage.words.partition_point(|word| word.start < from);
    let words = passage.words.get(first..passage.words.partition_point(|word| word.end <= to).max(first)).unwrap_or_default();
    AGAIN_VERBS.has(&said.verb) || said.verb.starts_with("re-") || says_again(passage.text.get(from..to).unwrap_or_default(), words)
}

/// Does a text say that something is done once more?
fn says_again(text: &str, words: &[Word]) -> bool {
    AGAIN_PHRASES.stands_in(text) || words.iter().any(|word| AGAIN.has(&word.lower))
}

/// Is it an act or a look of the first person that no tool which ran is named by?
fn is_further(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let abilities = case.abilities;
    // `I've also left k3 for now`
    let leaves = matches!(said.verb.as_str(), "left" | "kept" | "skipped" | "gelassen" | "laissé" | "dejado" | "lasciato" | "gelaten");
    if said.form != ActForm::First || leaves || said.is_harmless() && !said.is_own_look() {
        return false;
    }
    let shared = said.speech.compiled().shared.as_ref().is_some_and(|shared| shared.is_match(&said.verb));
    let named = |tool: &String| {
        let about = abilities.tool(tool).map(|ability| ability.about.as_slice()).unwrap_or_default();
        has_form(&said.verb, &abilities.words_of(tool)) || has_form(&said.verb, about)
    };
    let reported = case.is_reported(&said.verb) && !is_denied(case, &said.verb);
    !shared && !is_of_language(case, said) && !abilities.recent.keys().any(named) && !reported
}

/// Letters by which a member's name is known for a verb's, and of a word that names a thing.
const STEM_CHARS: usize = 5;
const THING_CHARS: usize = 6;
/// Values of a result, and bytes of all results, that are looked through.
const LEAVES_MAX: usize = 200;
const LOOKED_BYTES_MAX: usize = 64 << 10;

/// Does a result say of the verb that it isn't so: `transmis: false`?
fn is_denied(case: &ActSentence<'_>, verb: &str) -> bool {
    let stem: String = fold(verb).chars().take(STEM_CHARS).collect();
    let denies = |leaf: &NamedValue| leaf.key.starts_with(&stem) && matches!(leaf.value, Scalar::Flag(false));
    stem.chars().count() == STEM_CHARS
        && case.grounds.is_some_and(|grounds| {
            grounds.results.iter().filter(|source| source.recent).any(|source| source.facts().leaves.iter().take(LEAVES_MAX).any(denies))
        })
}

/// `I checked with the council`: a look where nothing that ran reads, at things of which nothing in the conversation has a word.
fn is_look_elsewhere(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let Some(grounds) = case.grounds.filter(|grounds| said.is_own_look() && !grounds.results.iter().any(|source| source.reads())) else {
        return false;
    };
    // What isn't looked through may have the word.
    if grounds.results.iter().map(|source| source.text.len()).sum::<usize>() > LOOKED_BYTES_MAX {
        return false;
    }
    let clause = clause(case.text, said.span.clone());
    // `I've only looked at the total`: it says what it didn't look at.
    let inside = |word: &&Word| word.start >= clause.start && word.end <= clause.end;
    if case.words.iter().filter(inside).any(|word| ONLY.has(&word.lower)) {
        return false;
    }
    let things = case.words.iter().filter(|word| word.start >= clause.start && word.end <= clause.end && word.lower != said.verb);
    let mut things = things.map(|word| fold(&word.lower)).filter(|word| word.chars().count() >= THING_CHARS).peekable();
    let known = |word: &String| {
        let stem: String = word.chars().take(STEM_CHARS).collect();
        grounds.asked.folded().contains(&stem)
            || grounds.results.iter().any(|source| {
                source.folded().contains(&stem) || source.folded_arguments().contains(&stem) || source.tool_folded().contains(&stem)
            })
    };
    things.peek().is_some() && !things.any(|word| known(&word))
}
