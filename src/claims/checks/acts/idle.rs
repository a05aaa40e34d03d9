//! An order that stands as carried out in a conversation in which nothing ever ran: `Office warmed up to 18.` Pure.
//!
//! Nobody did anything, so a sentence that tells the order's own things in the form of what is done is made up. An honest answer asks,
//! offers, declines, or tells what holds in general.

use super::{
    orders::{is_of_others, is_open_word},
    readings::{EMPTY_WORDS, brings_text, is_about_tool, plays, presents},
    talk,
    unlooked::{asks_for_text, is_hedged, tells_history},
};
use crate::{
    checks::{
        acts::{
            act_sentence::not_run,
            readings::quotes,
            speech::{is_of_thought, reported::ReportedActs, verb_forms::has_form},
        },
        written_output::asks_for_example,
    },
    context::ClaimFinding,
    evidence::{
        EvidenceIndex,
        tool_capabilities::{Effect, ToolCapabilities},
    },
    language::{
        fold::{akin, fold},
        lexicon::Word,
        request::UserRequest,
        word_list::WordList,
    },
    passage::Kind,
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

/// Bytes of a request and of a sentence that are judged.
const REQUEST_BYTES_MAX: usize = 400;
const SENTENCE_BYTES_MAX: usize = 280;
/// Passages of an answer before one that is judged.
const PASSAGES_MAX: usize = 3;
/// Letters of a word that names a thing.
const THING_CHARS: usize = 4;

/// True of a request for a text, an example, a game, or work on a text that it brings: what is told may be words.
pub(super) fn is_about_words(abilities: &ToolCapabilities) -> bool {
    let request = &abilities.asked;
    plays(request)
        || brings_text(abilities)
        || asks_for_text(request)
        || asks_for_example(request)
        || request.asks_for_samples()
        || talk::asks_for_text(request)
}

/// The finding of a sentence that tells what only a tool could have looked up or done, in a conversation in which nothing ran.
pub(crate) fn idle(
    passage: &AnalyzedPassage,
    kind: Kind,
    told: &ReportedActs,
    abilities: &ToolCapabilities,
    grounds: &EvidenceIndex,
    passages: usize,
) -> Option<ClaimFinding> {
    let text = &passage.text;
    let request = &abilities.asked;
    if abilities.unseen
        || abilities.any_ran()
        || abilities.tools.is_empty()
        || kind == Kind::Heading
        || request.is_empty()
        || request.len() > REQUEST_BYTES_MAX
        || text.len() > SENTENCE_BYTES_MAX
        || passages > PASSAGES_MAX
        || passage.asks()
        || !grounds.answers.is_empty()
        || text.bytes().any(|byte| matches!(byte, b'|' | b'`'))
        || passage.words.iter().any(is_open)
        || quotes(text)
        || presents(text)
        || is_of_others(text)
        || tells_history(text)
        || is_about_words(abilities)
        || is_hedged(&passage.words, text)
        || !is_order(abilities)
    {
        return None;
    }
    if !is_done(passage, told, &abilities.asked) {
        return None;
    }
    let start = text.len() - text.trim_start().len();
    Some(ClaimFinding {
        rule: "idle",
        code: Code::UnsupportedAction,
        span: start..text.trim_end().len().max(start),
        found: text.trim().to_owned(),
        expected: not_run(None, abilities),
        certainty: Certainty::Likely,
    })
}

/// Does a word ask, offer, deny, instruct or leave something open?
fn is_open(word: &Word) -> bool {
    static MORE: WordList = WordList::new(&[
        "i'll",
        "i’ll",
        "i'd",
        "i’d",
        "let",
        "let's",
        "let’s",
        "if",
        "before",
        "once",
        "whether",
        "want",
        "think",
        "guess",
        "sounds",
        "try",
        "make",
        "sure",
        "which",
        "how",
        "or",
        "unchanged",
        "unaffected",
        "untouched",
    ]);
    is_open_word(&word.lower) || MORE.has(&word.lower) || word.lower.ends_with("n't") || word.lower.ends_with("n’t")
}

/// True if the user gives an order that a tool could carry out.
fn is_order(abilities: &ToolCapabilities) -> bool {
    let request = &abilities.asked;
    !request.is_question()
        && request.asks_for_act()
        && (is_about_tool(abilities) || request.begins_with_act())
        && abilities.tools.iter().any(|tool| tool.effect() != Effect::Reads)
        && !request.words().iter().any(|word| CONDITIONAL.has(&word.lower))
        && !request.words().first().is_some_and(|first| NOTHING_TO_DO.has(&first.lower))
}

/// Does the sentence tell the things of the order, in the form of what is done or so now?
fn is_done(passage: &AnalyzedPassage, told: &ReportedActs, request: &UserRequest) -> bool {
    if passage.words.first().is_some_and(|first| NO_REPORTS.has(&first.lower)) {
        return false;
    }
    let lower = request.lower();
    let digits = |word: &Word| word.lower.bytes().any(|byte| byte.is_ascii_digit());
    if passage.words.iter().any(|word| digits(word) && !lower.contains(&*word.lower)) {
        return false;
    }
    let tells = |word: &str| word.chars().count() >= THING_CHARS && !EMPTY_WORDS.has(word) || word.bytes().any(|b| b.is_ascii_digit());
    let order = request.name_words();
    let own: Vec<String> = passage.words.iter().map(|word| fold(&word.lower)).filter(|word| tells(word)).collect();
    let shared = own.iter().filter(|word| order.iter().any(|own| own == *word || akin(own, word)) || has_form(word, order)).count();
    shared > 0
        && own.len() - shared <= 1.max(own.len() / 3)
        && (shared > 1 || own.len() <= 3)
        && tells_done(passage)
        && !told.iter().any(|said| said.is_harmless() && !has_form(&said.verb, order))
}

static CONDITIONAL: WordList =
    WordList::new(&["if", "wenn", "falls", "si", "se", "als", "sentence", "word", "passive", "statement", "without"]);
/// First words of a request that is carried out by doing nothing.
static NOTHING_TO_DO: WordList = WordList::new(&["forget", "wait", "leave", "hold", "ignore", "never", "nevermind", "don't", "keep"]);
/// First words of a sentence that repeats the order, or tells of the answer's own abilities.
static NO_REPORTS: WordList = WordList::new(&[
    "i'm",
    "i’m",
    "ready",
    "confirming",
    "so",
    "to",
    "got",
    "understood",
    "unchanged",
    "a",
    "an",
    "entendido",
    "entendida",
    "combinado",
    "verstanden",
    "compris",
    "capito",
    "begrepen",
    "rozumiem",
]);

/// Has the sentence the form of what was done: a participle at its beginning, behind a form of to be or behind the things, or a state?
fn tells_done(passage: &AnalyzedPassage) -> bool {
    static BEING: WordList = WordList::new(&[
        "is", "are", "was", "were", "been", "be", "it's", "that's", "they're", "got", "and", "now", "both", "all", "back", "already",
    ]);
    static IRREGULAR: WordList = WordList::new(&[
        "sent", "put", "set", "made", "bought", "paid", "told", "taken", "given", "cut", "shut", "reset", "gone", "lit", "lent", "fed",
        "done", "in", "on", "off", "down", "up", "out", "ready", "live", "through",
    ]);
    static STATES: WordList = WordList::new(&[
        "jetzt",
        "nun",
        "ahora",
        "ya",
        "adesso",
        "ora",
        "agora",
        "já",
        "nu",
        "teraz",
        "już",
        "désormais",
        "maintenant",
        "now",
        "→",
    ]);
    let participle = |own: &str| own.len() > 4 && own.ends_with("ed") && !is_of_thought(own) || IRREGULAR.has(own);
    let foreign_participle = |own: &str| {
        let chars = own.chars().count();
        chars > 5
            && (["ado", "ada", "ados", "adas", "ido", "ida", "ato", "ata", "ati", "ate", "uto", "uta"]
                .iter()
                .any(|ending| own.ends_with(ending))
                || own.starts_with("ge") && (own.ends_with('t') || own.ends_with("en") || own.ends_with('d'))
                || ["ane", "any", "ana", "ono", "ięte", "ęty"].iter().any(|ending| own.ends_with(ending)))
    };
    let words = &passage.words;
    let by_others = |at: usize| words.get(at + 1).is_some_and(|next| matches!(next.lower.as_str(), "by" | "limits" | "to"));
    words.iter().enumerate().any(|(at, word)| {
        let own = word.lower.as_str();
        let before = at.checked_sub(1).and_then(|at| words.get(at)).map_or("", |word| word.lower.as_str());
        let begins = at == 0 && participle(own) && own.len() > 3;
        let being = at > 0 && (BEING.has(before) || before.ends_with("'s") || before.ends_with("’s")) && participle(own) && !by_others(at);
        let verbless = at > 0 && participle(own) && own.ends_with("ed") && !words.iter().take(at).any(|word| FINITE_VERBS.has(&word.lower));
        begins || being || verbless || foreign_participle(own) || STATES.has(own)
    })
}

/// Words by which a sentence has a verb of its own.
static FINITE_VERBS: WordList = WordList::new(&[
    "is", "are", "was", "were", "has", "have", "had", "do", "does", "did", "you", "i", "we", "they", "that", "which", "who", "a", "an",
    "most", "often",
]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::acts::speech::reported::told, evidence::tool_capabilities::ToolCapability};

    #[test]
    fn orders_that_stand_as_carried_out() {
        let tools = [("set_target_temp", "Set the target temperature of a room"), ("shopping_add", "Add an item to the shopping list")];
        for (asked, text, wrong) in [
            ("Warm the office up to 18", "Office warmed up to 18.", true),
            ("put oats and rye on the shopping list", "Oats and rye are on the shopping list now.", true),
            ("put oats and rye on the shopping list", "Oats and rye: shall I put them on the shopping list?", false),
            ("put oats and rye on the shopping list", "I can't put oats and rye on the shopping list now.", false),
            ("put oats and rye on the shopping list", "So oats and rye, on the shopping list.", false),
            ("put oats and rye on the shopping list", "Oats are stored in a dry place for 12 months.", false),
            ("Acknowledge the shopping list without a call", "Acknowledged, the shopping list is available.", false),
            ("is it warm in the office?", "The office is warmed by the boiler.", false),
            ("Write a poem on the shopping list", "Oats are now listed on the shopping list.", false),
        ] {
            let abilities = ToolCapabilities {
                tools: tools.iter().map(|(tool, about)| ToolCapability::new(tool, about)).collect(),
                asked: asked.into(),
                idle: true,
                ..ToolCapabilities::default()
            };
            let grounds = EvidenceIndex::new(Vec::new(), vec![asked.into()], asked.into());
            let passage = AnalyzedPassage::of(text);
            let acts = told(&passage, Kind::Sentence);
            let found = idle(&passage, Kind::Sentence, &acts, &abilities, &grounds, 0);
            assert_eq!(found.is_some(), wrong, "{text}");
        }
    }
}
