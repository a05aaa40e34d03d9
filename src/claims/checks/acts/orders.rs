//! An order that a sentence tells as carried out, where nothing ran that could have done it: `The kiln is now programmed for six.` Pure.
//!
//! Where the user orders something and no tool has done more than read since, an honest answer asks, offers, declines or explains. A
//! sentence that tells of the very things that were ordered, in a form in which something has been done or is so now, tells the order as
//! done, whatever its verb.

use super::talk;
use crate::{
    checks::acts::{
        act_sentence::{ActSentence, not_run, sentence, tells_of_acts},
        excuses::{EARLIER, is_conditional, is_indirect, is_written, tells_of_year},
        readings::{
            EMPTY_WORDS, HERE, HERE_PHRASES, brings_text, is_about_tool, is_plain_present, is_quoted, leaves_alone, plays, presents,
            swaps_words, tell_of_tool, tells_of_own,
        },
        speech::{
            LANGUAGES_TIED, Speech,
            reported::{ActForm, ReportedAct, ReportedActs, said},
            speeches,
            verb_forms::{has_form, is_finished, is_form_of, is_verb_of},
        },
    },
    context::ClaimFinding,
    evidence::tool_capabilities::{Effect, ToolCapabilities},
    language::{
        fold::{akin, fold, stands_in},
        lexicon::Word,
        pattern::Pattern,
        polarity::{failure_words::text_tells_failure, negation},
        word_list::{PhraseList, WordList},
    },
};

use toolmark_base::violation::{Certainty, Code};

/// Words of a sentence that is read.
const WORDS_MAX: usize = 40;
/// Words of a request that are compared with it.
const ORDER_WORDS_MAX: usize = 60;
/// Passages of an answer before one that is read: what was done is told first.
const PASSAGES_MAX: usize = 3;
/// Letters of a word that tells what is ordered.
const THING_CHARS: usize = 4;
/// Words before and behind a verb among which what it is done to is looked for.
const TEXT_WORDS: usize = 5;
/// Words of a sentence that is what was to be told.
const TOLD_ON_WORDS: usize = 3;
/// Words of a first sentence that tells the outcome of an order.
const OUTCOME_WORDS_MAX: usize = 14;
/// Words of a sentence that says no more than that it is done.
const BRIEF_WORDS_MAX: usize = 2;

/// Words by which a whole sentence denies, asks for something or leaves it open, in any language.
static OPEN: WordList = WordList::new(&[
    "not",
    "no",
    "none",
    "nothing",
    "never",
    "cannot",
    "unable",
    "without",
    "need",
    "needs",
    "please",
    "should",
    "could",
    "would",
    "might",
    "maybe",
    "perhaps",
    "will",
    "shall",
    "may",
    "can",
    "must",
    "unfortunately",
    "nicht",
    "kein",
    "keine",
    "keinen",
    "leider",
    "bitte",
    "soll",
    "sollte",
    "könnte",
    "würde",
    "muss",
    "müsste",
    "kann",
    "werde",
    "wird",
    "ne",
    "pas",
    "aucun",
    "aucune",
    "faut",
    "faudrait",
    "doit",
    "peut",
    "pouvez",
    "peux",
    "malheureusement",
    "ningún",
    "ninguna",
    "puede",
    "puedo",
    "debe",
    "lamentablemente",
    "non",
    "nessun",
    "nessuna",
    "può",
    "posso",
    "deve",
    "serve",
    "purtroppo",
    "não",
    "nenhum",
    "nenhuma",
    "pode",
    "precisa",
    "preciso",
    "infelizmente",
    "niet",
    "geen",
    "kan",
    "moet",
    "zal",
    "helaas",
    "nie",
    "żaden",
    "może",
    "mogę",
    "trzeba",
    "niestety",
    "değil",
    "yok",
    "gerek",
    "lazım",
    "maalesef",
    "inte",
    "ingen",
    "måste",
    "tyvärr",
    "every",
    "usually",
    "often",
    "always",
    "according",
    "typically",
    "most",
    "generally",
    "immer",
    "meistens",
    "normalerweise",
    "jeden",
    "jede",
    "toujours",
    "souvent",
    "généralement",
    "chaque",
    "siempre",
    "normalmente",
    "cada",
    "sempre",
    "spesso",
    "ogni",
    "geralmente",
    "altijd",
    "meestal",
    "elke",
    "zawsze",
    "zwykle",
    "genelde",
    "although",
    "though",
    "but",
    "failed",
    "aber",
    "obwohl",
    "mais",
    "pero",
    "aunque",
    "ma",
    "mas",
    "maar",
    "mislukt",
    "ale",
    "ama",
    "jednak",
    "only",
    "nur",
    "solo",
    "sólo",
    "seulement",
    "alleen",
    "tylko",
    "apenas",
    "sadece",
    "yalnızca",
    "beyond",
    "default",
    "standardmäßig",
    "regel",
    "défaut",
    "depois",
    "después",
    "vou",
    "standaard",
    "domyślnie",
    "varsayılan",
]);

/// True of a word by which a whole sentence denies, asks for something or leaves it open.
pub(super) fn is_open_word(lower: &str) -> bool {
    OPEN.has(lower)
}

/// True of an exchange that allows no report of an act: the user ordered something, and nothing that could have done it ran.
fn is_open(abilities: &ToolCapabilities) -> bool {
    let asked = &abilities.asked;
    !abilities.unseen
        && !abilities.acted_before
        && !abilities.has_acted()
        && asked.is_order()
        && abilities.tools.iter().any(|ability| ability.effect() != Effect::Reads)
        && !plays(asked)
        && !brings_text(abilities)
        && !tells_of_own(asked)
}

/// The finding of a sentence that tells the user's order as carried out where nothing ran that could have done it.
pub(super) fn told_as_done(case: &ActSentence<'_>, told: &ReportedActs) -> Option<ClaimFinding> {
    let ActSentence { text, words, abilities, grounds, .. } = *case;
    let row = text.trim_start().starts_with(['|', '#']);
    if row
        || case.before.passages > PASSAGES_MAX
        || words.len() > WORDS_MAX
        || !*abilities.memo.open_order.get_or_init(|| is_open(abilities))
    {
        return None;
    }
    // `Tell Ana the shop is closed`: the sentence is what is to be told.
    let told_on = || words.len() >= TOLD_ON_WORDS && stands_in(abilities.asked.folded(), fold(text).trim());
    if is_of_others(text) || told_on() {
        return None;
    }
    let here = || words.iter().any(|word| HERE.has(&word.lower)) || HERE_PHRASES.stands_in(text);
    if here() || presents(text) || swaps_words(text) {
        return None;
    }
    let asked = &abilities.asked;
    let known = speeches(asked, asked.words());
    if known.iter().chain(&told.speeches).any(|speech| is_written(case, speech)) || grounds.is_some_and(tells_of_acts) {
        return None;
    }
    let idle = abilities.recent.is_empty();
    let failed = abilities.recent.values().any(|run| run.failed);
    if failed && (case.before.failure || text_tells_failure(text)) {
        return None;
    }
    // A word alone has the form of a verb in many languages: it is the user's that counts.
    let of_user =
        |speech: &&&'static Speech| speech.is_script() || known.len() >= LANGUAGES_TIED || known.iter().any(|own| own.code == speech.code);
    // `Timeline of the Berlin Wall` orders nothing that could have been done.
    let english = matches!(known.as_slice(), [own] if own.code == "en");
    let meant = !english || is_about_tool(abilities) || asked.begins_with_act() || tell_of_tool(words.iter(), abilities);
    let act = told.speeches.iter().filter(of_user).find_map(|speech| {
        let patterns = speech.compiled().ordered.iter().filter(|(first, _)| *first || idle && meant);
        let of = |(first, pattern): &(bool, Pattern)| {
            let first = *first;
            said(pattern, ActForm::Ordered, speech, &told.lower).into_iter().map(move |act| (first, act))
        };
        patterns.flat_map(of).find(|(first, act)| counts(case, *first, act))
    });
    let (first, act) = act?;
    let would = abilities.tools.iter().find(|ability| ability.effect() != Effect::Reads && has_form(&act.verb, &ability.words));
    let expected = not_run(would, abilities);
    // Who says to have done it, of an order that is about a tool, in the first answer of a conversation in which nothing ran.
    let alone = idle && !abilities.any_ran() && grounds.is_none_or(|grounds| grounds.answers.is_empty());
    let unopposed = || {
        let behind = words.iter().find(|word| word.start >= act.span.end);
        let by_others = behind.is_some_and(|word| AGENTS.has(&word.lower));
        // `Vouchers are applied at checkout`: how it is done.
        let habit = act.speech.code == "en" && !first && is_plain_present(words, &act);
        // `diyemeyiz`: it can't be said.
        let unable = |word: &Word| act.speech.code == "tr" && ["emey", "amay", "emem", "amam"].iter().any(|part| word.lower.contains(part));
        let open = words.iter().any(|word| is_open_word(&word.lower) || unable(word));
        !talk::asks_for_text(asked) && !open && !by_others && !habit
    };
    let about = is_about_tool(abilities);
    // So does who tells the order's own verb as what became of it, or denies nothing beside it. Most tools have English names: an order in
    // another language can't be compared with them.
    let own = || is_verb_of(&act.verb, asked.name_words());
    let plain = || {
        let thought = &act.speech.thought;
        let worded = match act.speech.is_script() {
            true => thought.iter().any(|stem| text.contains(stem.trim_end_matches('$'))),
            false => act.verb == "açık" || words.iter().any(|word| Speech::begins(thought, &word.lower)),
        };
        asked.asks_for_act()
            && (act.speech.code != "en" || asked.begins_with_act())
            && !(worded || negation::denies(text) || tells_of_year(words) || QUOTES_OTHERS.stands_in(text))
    };
    let certain = alone && (first && about || unopposed() && ((about || act.speech.code != "en") && own() || plain()));
    let certainty = if certain { Certainty::Certain } else { Certainty::Likely };
    Some(ClaimFinding {
        rule: "ordered",
        code: Code::UnsupportedAction,
        span: act.span.clone(),
        found: sentence(text),
        expected,
        certainty,
    })
}

/// Phrases by which a sentence says where it has something from, in any language.
static TOLD_BY_OTHERS: PhraseList = PhraseList::in_any_case(&[
    "according to",
    "you told",
    "you said",
    "you mentioned",
    "as you ",
    "laut ",
    "wie du ",
    "wie sie sagen",
    "selon ",
    "comme vous ",
    "comme tu ",
    "según ",
    "como dices",
    "como dice ",
    "secondo ",
    "come dic",
    "segundo ",
    "como disse",
    "volgens ",
    "zoals je ",
    "zoals u ",
    "według ",
    "jak pan",
    "göre ",
    "によると",
    "据您",
    "您说",
    "के अनुसार",
]);

/// Phrases by which a sentence says what somebody else says, in any language.
static QUOTES_OTHERS: PhraseList = PhraseList::in_any_case(&[
    "says that",
    "writes that",
    "schreibt, dass",
    "sagt, dass",
    "écrit que",
    "dit que",
    "dice que",
    "escribe que",
    "dice che",
    "scrive che",
    "diz que",
    "escreve que",
    "zegt dat",
    "schrijft dat",
    "pisze, że",
    "pisze, ze",
    "mówi, że",
    "diyor",
    "と言って",
    "と書いて",
    "写道",
    "कहते हैं कि",
]);

/// Labels of a draft, and salutations, in any language. In lower case.
const DRAFTS: &[&str] = &[
    "proposed",
    "proposal",
    "suggest",
    "draft",
    "text",
    "subject",
    "how about",
    "something like",
    "hi ",
    "dear ",
    "hello ",
    "vorschlag",
    "entwurf",
    "betreff",
    "hallo ",
    "sehr geehrte",
    "liebe",
    "proposition",
    "brouillon",
    "objet",
    "bonjour",
    "monsieur",
    "madame",
    "cher ",
    "chère ",
    "propuesta",
    "borrador",
    "asunto",
    "estimad",
    "hola ",
    "bozza",
    "proposta",
    "oggetto",
    "gentile",
    "caro ",
    "cara ",
    "rascunho",
    "sugestão",
    "assunto",
    "prezad",
    "olá ",
    "voorstel",
    "concept",
    "onderwerp",
    "geachte",
    "beste ",
    "propozycja",
    "szkic",
    "temat",
    "szanown",
    "dzień dobry",
    "taslak",
    "öneri",
    "konu",
    "sayın",
    "merhaba",
    "案",
    "件名",
    "草拟",
    "拟",
    "主题",
    "您好",
    "尊敬",
    "प्रिय",
    "विषय",
    "मसौदा",
];

/// True of a sentence that begins as a draft does: with a label of one, or a salutation.
pub(super) fn is_draft(text: &str) -> bool {
    let start = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let start = start.get(..start.floor_char_boundary(LABEL_BYTES)).unwrap_or(start).to_lowercase();
    DRAFTS.iter().any(|label| start.starts_with(label)) || start.contains("様、")
}

/// Bytes at the beginning of a sentence in which a label is looked for.
const LABEL_BYTES: usize = 32;

/// Participles that tell how something is, whoever made it so, by their beginnings and in any language.
const STATIVE: &[&str] = &[
    "limit",
    "restrict",
    "bill",
    "bound",
    "tied",
    "link",
    "handl",
    "offer",
    "based",
    "cover",
    "controll",
    "manag",
    "connect",
    "fitted",
    "caus",
    "oblig",
    "call",
    "made",
    "built",
    "owned",
    "located",
    "left",
    "known",
    "used",
    "meant",
    "intended",
    "supposed",
    "required",
    "allowed",
    "begrenzt",
    "beschränkt",
    "vorbehalten",
    "gebunden",
    "verpflichtet",
    "gesteuert",
    "verwaltet",
    "verursacht",
    "lié",
    "tenu",
    "géré",
    "factur",
    "vinculad",
    "obligad",
    "gestionad",
    "gestit",
    "legat",
    "obbligat",
    "fatturat",
    "gerid",
    "obrigad",
    "beperkt",
    "gebonden",
    "voorbehouden",
    "verplicht",
    "bevoegd",
    "ogranicz",
    "opłacan",
    "zobowiąz",
];

/// Participles that may tell so too, where nothing but its place says that a sentence tells what became of an order: `sold by the dozen`.
const STATIVE_AT_FIRST: &[&str] = &[
    "confin",
    "sold",
    "vend",
    "verkauft",
    "verkocht",
    "sprzeda",
    "pakow",
    "packag",
    "exclud",
    "attach",
    "ligad",
    "związan",
    "przypisan",
    "abgebrochen",
    "interromp",
    "afgebroken",
    "przerwan",
    "aborted",
];

/// Words by which somebody else is named as who does it.
static AGENTS: WordList = WordList::new(&[
    "by",
    "von",
    "durch",
    "par",
    "por",
    "da",
    "dal",
    "dalla",
    "dall'assistenza",
    "pelo",
    "pela",
    "door",
    "przez",
    "tarafından",
]);

/// Words by which a state is a new one, in any language.
static CHANGED: WordList = WordList::new(&[
    "now",
    "been",
    "all",
    "back",
    "successfully",
    "jetzt",
    "nun",
    "worden",
    "wurde",
    "wurden",
    "wieder",
    "désormais",
    "maintenant",
    "été",
    "vient",
    "ya",
    "ahora",
    "sido",
    "ora",
    "adesso",
    "già",
    "stato",
    "stata",
    "stati",
    "state",
    "agora",
    "já",
    "foi",
    "foram",
    "ficou",
    "ficaram",
    "nu",
    "inmiddels",
    "werd",
    "werden",
    "weer",
    "już",
    "teraz",
    "został",
    "została",
    "zostało",
    "zostały",
    "artık",
    "şimdi",
    "was",
    "were",
]);

/// True of a sentence that reports no act of the answer's, for its words: a draft, what others said.
pub(super) fn is_of_others(text: &str) -> bool {
    TOLD_BY_OTHERS.stands_in(text) || is_draft(text)
}

/// True of a verb that tells how something is, whoever made it so.
pub(super) fn is_stative(verb: &str) -> bool {
    STATIVE.iter().any(|stem| verb.starts_with(stem))
}

/// True of a state that the order was to bring about: told with the order's own verb, with one that nobody does in words, or as a change.
fn is_outcome(case: &ActSentence<'_>, act: &ReportedAct) -> bool {
    let words = case.words;
    let next = words.iter().find(|word| word.start >= act.span.end).map_or("", |word| word.lower.as_str());
    if AGENTS.has(next) || is_stative(&act.verb) {
        return false;
    }
    // `An order is locked after packing`: what holds for all of a kind.
    let first = words.first().map_or("", |word| word.lower.as_str());
    let kind = matches!(first, "a" | "an" | "ein" | "eine" | "un" | "une" | "una" | "um" | "uma" | "een" | "most" | "some");
    let asked = case.abilities.asked.name_words();
    let bare = fold(&act.verb).replacen("ge", "", 1);
    let ordered = is_verb_of(&act.verb, asked) || asked.iter().any(|word| is_form_of(&bare, word));
    let listed = !act.speech.strong.is_empty() && act.is_strong();
    let changed = || words.iter().any(|word| CHANGED.has(&word.lower));
    // The first sentence of an answer to an order, and a short one: what it tells is what became of it.
    let first_told = case.before.passages == 0
        && case.abilities.recent.is_empty()
        && words.len() <= OUTCOME_WORDS_MAX
        && !STATIVE_AT_FIRST.iter().any(|stem| act.verb.starts_with(stem))
        && !case.text.trim_end().ends_with([':', '…']);
    !kind && (first_told || ordered || listed || act.speech.is_script() || act.speech.code == "tr" || changed())
}

/// True of an act, found by a generous pattern, that tells the order as done. `first`: it is of the first person.
fn counts(case: &ActSentence<'_>, first: bool, act: &ReportedAct) -> bool {
    let ActSentence { text, words, abilities, .. } = *case;
    let speech = act.speech;
    let hedged =
        is_quoted(text, act.span.start) || speech.hedges(text, words, act) || is_conditional(words, act) || is_indirect(text, words, act);
    // Portuguese `no` is a preposition.
    let open = |word: &&Word| {
        OPEN.has(&word.lower) && (speech.code != "pt" || word.lower != "no") || word.lower.ends_with("n't") || word.lower.ends_with("n’t")
    };
    // Who says to have done it may go on to tell what will be.
    let before = |word: &&Word| !first || word.end <= act.span.end;
    let denied = || words.iter().filter(before).any(|word| open(&word) || EARLIER.has(&word.lower));
    let at = words.iter().position(|word| word.end >= act.span.end).unwrap_or(words.len());
    let mut near = words.iter().take(at + TEXT_WORDS).skip(at.saturating_sub(TEXT_WORDS));
    // `taken off the list`, where the user spoke of that list.
    let is_list = |word: &str| word.starts_with("list") || word.starts_with("lijst");
    let spoken = |word: &Word| is_list(&word.lower) && abilities.asked.words().iter().any(|own| own.lower.ends_with(&*word.lower));
    let mut texts = || near.any(|word| speech.texts.contains(&word.lower) && !abilities.names(&word.lower) && !spoken(word));
    let draft = || speech.is_script() && speech.text_stems.iter().any(|stem| text.contains(stem.as_str()));
    // `I've held off`
    let next = words.iter().find(|word| word.start >= act.span.end).map_or("", |word| word.lower.as_str());
    let waits = act.verb == "held" && matches!(next, "off" | "back")
        || matches!(act.verb.as_str(), "refrained" | "abstained" | "ruled" | "stopped")
        || act.verb == "left" && matches!(next, "the" | "it" | "that" | "this" | "everything");
    // `Skip this week's box`: `All skipped!`
    let ordered = || matches!(act.verb.as_str(), "skipped" | "stopped") && has_form(&act.verb, abilities.asked.name_words());
    // `Abonnement pauzeren`: what would be done. `Raised to six: 600 g flour, 12 eggs`: done by writing it.
    let infinitive = speech.code == "nl" && act.verb.ends_with("eren") && !act.verb.starts_with("ge");
    let behind = text.get(act.span.end..).and_then(|rest| rest.split_once(": ")).map_or("", |(_, shown)| shown);
    let shown = !first && behind.contains(',') && behind.bytes().any(|byte| byte.is_ascii_digit());
    let own_words =
        || waits || infinitive || shown || act.is_harmless() && !ordered() || case.is_repeated(&act.verb) || leaves_alone(words, act);
    !hedged
        && !denied()
        && !own_words()
        && !texts()
        && !draft()
        && (abilities.recent.is_empty() || !case.is_reported(&act.verb))
        && (is_brief(case, act) || (first || is_outcome(case, act)) && is_about(case, act))
}

/// True of a sentence that says no more than that it is done.
fn is_brief(case: &ActSentence<'_>, act: &ReportedAct) -> bool {
    let first = case.words.iter().take_while(|word| word.end <= act.span.start).count() <= 2;
    let alone = case.words.len() <= BRIEF_WORDS_MAX && !act.speech.is_script();
    let meant = || has_form(&act.verb, case.abilities.asked.name_words()) || is_finished(&act.verb);
    first && case.abilities.recent.is_empty() && (alone || meant())
}

/// True of a sentence that names a thing of the order.
fn is_about(case: &ActSentence<'_>, act: &ReportedAct) -> bool {
    let asked = &case.abilities.asked;
    if act.speech.is_script() && act.speech.code != "hi" {
        return shares_characters(asked, case.text);
    }
    let tells = |word: &str| word.chars().count() >= THING_CHARS && !EMPTY_WORDS.has(word) || word.bytes().any(|b| b.is_ascii_digit());
    let order: Vec<&String> = asked.name_words().iter().filter(|word| tells(word)).take(ORDER_WORDS_MAX).collect();
    case.words.iter().any(|word| {
        let word = word.folded();
        // `gekündigt` of `kündige`, `umgestellt` of `umstellen`.
        let bare = word.replacen("ge", "", 1);
        tells(&word)
            && order
                .iter()
                .any(|own| **own == word || akin(own, &word) || is_form_of(&word, own) || bare.len() < word.len() && is_form_of(&bare, own))
    })
}

/// True of two texts without blanks that share two characters in a row which stand for a thing.
pub(super) fn shares_characters(one: &str, other: &str) -> bool {
    character_pairs(one).iter().any(|pair| other.contains(pair.as_str()))
}

/// The pairs of characters in a row that stand for a thing, of a text without blanks.
pub(super) fn character_pairs(text: &str) -> Vec<String> {
    let thing =
        |c: char| matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{30a1}'..='\u{30ff}' | '\u{ac00}'..='\u{d7af}') || c.is_ascii_alphanumeric();
    let own: Vec<char> = text.chars().take(8 * ORDER_WORDS_MAX).collect();
    own.windows(2).filter(|pair| pair.iter().all(|c| thing(*c))).map(|pair| pair.iter().collect()).collect()
}
