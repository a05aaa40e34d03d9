//! Readings of a sentence under which it reports no act: work on words, a form, stage directions, what the user tells, what holds for
//! all of a kind. Pure.

use super::talk;
use crate::{
    checks::{
        acts::{
            act_sentence::ActSentence,
            speech::{
                LANGUAGES_TIED, Speech, languages,
                reported::{ActForm, ReportedAct},
                speeches,
                verb_forms::{is_finished, is_form_of},
            },
        },
        values::quoted,
    },
    evidence::{
        EvidenceIndex,
        tool_capabilities::{Effect, ToolCapabilities, ToolCapability},
    },
    language::{
        fold::{akin, fold},
        lexicon::Word,
        request::UserRequest,
        word_list::{PhraseList, WordList},
    },
};

/// Bytes of a message beyond which the user brings a text to work on.
const ASKED_BYTES_MAX: usize = 400;
/// Words of a quotation that is such a text.
const QUOTED_WORDS: usize = 6;
/// Bytes of a request that is looked through for work on words: a longer one brings a text anyway.
const TEXT_REQUEST_BYTES_MAX: usize = 4096;
/// Words of a request that are compared with a tool's.
const REQUEST_WORDS_MAX: usize = 60;
/// Words of a tool's description that are compared.
const ABOUT_WORDS: usize = 24;

/// Does a clause lead to what the answer holds itself: `Done, here's the shorter version`?
pub(super) fn presents(text: &str) -> bool {
    const STARTS: &[&str] = &[
        "here's",
        "here’s",
        "here is",
        "here are",
        "hier ist",
        "hier sind",
        "hier die",
        "hier der",
        "hier das",
        "hier dein",
        "voici",
        "aquí está",
        "aquí tienes",
        "aqui está",
        "aqui vai",
        "ecco ",
        "hieronder",
        "hier is",
        "oto ",
        "işte",
        "här är",
        "以下",
        "यहाँ",
    ];
    let clauses = text.split([',', ':', ';', '!', '.', '–', '—', '、', '，']);
    // `Done, Tuesday is swapped:`
    let leads = text.trim_end().ends_with([':', '：']);
    let mut starts = clauses.map(|clause| clause.trim_start().trim_start_matches(['-', '*', ' ']).to_lowercase());
    leads || starts.any(|clause| STARTS.iter().any(|start| clause.starts_with(start)) && !clause.starts_with("ecco fatto"))
}

/// Words of requests that tell nothing of what they are about.
pub(super) static EMPTY_WORDS: WordList = WordList::new(&[
    "please", "with", "from", "this", "that", "have", "will", "your", "what", "when", "then", "them", "they", "there", "here", "make",
    "does", "into", "about", "some", "more", "only", "just", "also", "need", "want", "like", "could", "would", "given", "user", "for",
    "the", "and", "all", "its",
]);

/// Does a word of the request, as far as it isn't quoted, stand in the name or the description of a tool that does more than read?
pub(super) fn is_about_tool(abilities: &ToolCapabilities) -> bool {
    *abilities.memo.about_tool.get_or_init(|| {
        let asked = &abilities.asked;
        let quoted = quoted(asked);
        let words = asked.words().iter().take(4 * REQUEST_WORDS_MAX);
        let own = words.filter(|word| !quoted.iter().any(|span| span.contains(&word.start)));
        abilities.tools.iter().any(ToolCapability::may_do_anything) || tell_of_tool(own, abilities)
    })
}

/// True of a request in English, as far as its frequent words tell.
pub(super) fn is_english(asked: &UserRequest) -> bool {
    matches!(speeches(asked, asked.words()).as_slice(), [own] if own.code == "en")
}

/// Does one of these words stand in the name or the description of a tool that does more than read?
pub(super) fn tell_of_tool<'w>(words: impl Iterator<Item = &'w Word>, abilities: &ToolCapabilities) -> bool {
    let tells = |word: &str| word.chars().count() >= 3 && !EMPTY_WORDS.has(word);
    let words: Vec<String> = words.take(REQUEST_WORDS_MAX).map(|word| fold(&word.lower)).filter(|word| tells(word)).collect();
    let able = abilities.tools.iter().filter(|ability| ability.effect() != Effect::Reads);
    let mut of_tools = able.flat_map(|ability| ability.words.iter().chain(&ability.nouns).chain(ability.about.iter().take(ABOUT_WORDS)));
    of_tools.any(|own| tells(own) && words.iter().any(|word| akin(word, own) || is_form_of(word, own)))
}

/// Does a word of the request or of the sentence stand in the name or the description of any tool?
pub(super) fn is_about_any_tool(case: &ActSentence<'_>) -> bool {
    case.abilities.asked.words().iter().take(REQUEST_WORDS_MAX).chain(case.words).any(|word| case.abilities.names(&word.lower))
}

/// True of a verb of the past in the first person, by its ending.
pub(super) fn is_own_past(word: &str, speech: &Speech) -> bool {
    let endings: &[&str] = match speech.code.as_str() {
        "es" => &["é", "í"],
        "pt" => &["ei"],
        "pl" => &["łem", "łam"],
        "tr" => &["dım", "dim", "dum", "düm", "tım", "tim", "tum", "tüm"],
        _ => &[],
    };
    word.chars().count() > 3 && endings.iter().any(|ending| word.ends_with(ending))
}

/// `The reading is raised`, `das Tor ist geschlossen`: how it is, with no word of when or of what was done.
pub(super) fn is_plain_present(words: &[Word], said: &ReportedAct) -> bool {
    static COPULAS: WordList =
        WordList::new(&["is", "are", "ist", "sind", "est", "sont", "está", "están", "è", "sono", "são", "zijn", "jest", "są"]);
    static NOW: WordList = WordList::new(&[
        "now",
        "jetzt",
        "nun",
        "nu",
        "teraz",
        "désormais",
        "maintenant",
        "ahora",
        "ya",
        "adesso",
        "ora",
        "agora",
        "já",
        "już",
    ]);
    let before = words.iter().rev().find(|word| word.end <= said.span.start);
    let copula = before.is_some_and(|word| COPULAS.has(&word.lower) || word.lower.ends_with("'s") || word.lower.ends_with("’s"));
    copula && !words.iter().any(|word| NOW.has(&word.lower))
}

/// Does nothing but the form of one word tell the language of the act, and is it another than the user's?
pub(super) fn is_of_other_language(case: &ActSentence<'_>, said: &ReportedAct) -> bool {
    let speech = said.speech;
    if said.form != ActForm::Brief
        || speech.is_script()
        || is_finished(&said.verb)
        || case.words.iter().any(|word| speech.common.contains(&word.lower))
    {
        return false;
    }
    let asked = speeches(&case.abilities.asked, case.abilities.asked.words());
    asked.len() < LANGUAGES_TIED && !asked.iter().any(|own| own.code == speech.code)
}

/// `I've left your thermostat alone`
pub(super) fn leaves_alone(words: &[Word], said: &ReportedAct) -> bool {
    static SO: WordList = WordList::new(&["alone", "untouched", "unchanged", "as", "out", "open", "blank"]);
    said.verb == "left" && words.iter().any(|word| word.start >= said.span.end && SO.has(&word.lower))
}

/// `Vouchers are applied at checkout`: what holds for all or any of a kind.
pub(super) fn is_habitual(words: &[Word], said: &ReportedAct) -> bool {
    const THESE: &[&str] = &[
        "the", "your", "all", "both", "these", "those", "they", "my", "our", "its", "his", "her", "their", "you", "we", "now", "and", "two",
    ];
    let before: Vec<&str> = words.iter().filter(|word| word.end <= said.span.start).map(|word| word.lower.as_str()).collect();
    let kind = |word: &&str| !THESE.contains(word) && !word.bytes().any(|byte| byte.is_ascii_digit());
    let every = || before.last() == Some(&"are") && before.iter().all(kind) && said.speech.code == "en";
    // `A frozen membership is charged at half the price`
    const ANY: &[&str] = &[
        "a", "an", "any", "each", "every", "ein", "eine", "jede", "jeder", "jedes", "un", "une", "chaque", "una", "cada", "ogni", "um",
        "uma", "een", "elk", "elke",
    ];
    // `A mesa está reservada`: the article of one thing.
    let article = |first: &str| matches!(first, "a" | "an") && said.speech.code != "en";
    let any = || before.first().is_some_and(|first| ANY.contains(first) && !article(first)) && is_plain_present(words, said);
    said.form == ActForm::Passive && (every() || any())
}

/// `I've replaced "scammed" with "overcharged"`: two quotations are of words that were changed.
pub(super) fn swaps_words(text: &str) -> bool {
    let wide = text.matches(['「', '『']).count();
    quoted(text).len() + wide + text.matches(" '").count().min(text.matches('\'').count() / 2) >= 2
}

/// True where the user tells what they or theirs did, in one clause, and asks for nothing.
pub(super) fn tells_of_own(asked: &UserRequest) -> bool {
    static OWN: WordList = WordList::new(&[
        "i", "we", "i've", "we've", "i’ve", "we’ve", "my", "our", "ho", "ich", "wir", "ik", "jag", "j'ai", "j’ai", "mon", "ma", "mia",
        "mio", "mein", "meine", "mijn", "moja", "mój", "min", "minha", "meu",
    ]);
    static DONE: WordList = WordList::new(&[
        "paid", "sent", "told", "bought", "put", "left", "gave", "took", "made", "went", "got", "habe", "hab", "haben", "heb", "har",
        "j'ai", "j’ai", "ho", "ha", "hat", "heeft", "has", "already", "déjà", "già", "bereits", "schon",
    ]);
    static WANTS: WordList = WordList::new(&[
        "please", "can", "could", "bitte", "want", "need", "should", "bisogno", "besoin", "brauche", "necesito", "nodig", "preciso",
        "behöver", "keine", "keinen", "kein", "no", "not",
    ]);
    // `I moved. My new address is …`: what follows may be what is to be done with it.
    let alone = asked.len() <= ASKED_BYTES_MAX && !asked.trim_end_matches(['.', '!', ' ']).contains(['?', '.', ',', ';', ':', '\n']);
    if !alone {
        return false;
    }
    let words = asked.words();
    // Endings tell it only where the language is known: `drei` is none.
    let spoken = speeches(asked, words);
    let known = spoken.len() <= LANGUAGES_TIED;
    // French has nouns with those of Spanish: `le relevé`.
    let french = spoken.iter().any(|own| own.code == "fr");
    let tells = |own: &&&Speech| !(french && own.code == "es");
    let ending = || known && spoken.iter().filter(tells).any(|own| words.iter().take(4).any(|word| is_own_past(&word.lower, own)));
    let own = || words.iter().take(2).any(|word| OWN.has(&word.lower));
    let done = || words.iter().take(6).any(|word| DONE.has(&word.lower) || word.lower.len() > 4 && word.lower.ends_with("ed"));
    let wants = words.iter().any(|word| WANTS.has(&word.lower));
    let inside =
        ["मैंने", "我已经", "我刚", "했어요", "했습니다"].iter().any(|own| asked.contains(own)) || asked.trim_end().ends_with("ました");
    !wants && (ending() || own() && done() || inside)
}

/// `Hi {{first_name}}, your appointment on [date] has been confirmed`: a form to be filled in.
pub(super) fn has_blanks(text: &str) -> bool {
    let between = |open: char, close: char| {
        text.split(open).skip(1).filter_map(|rest| rest.split_once(close)).any(|(name, rest)| {
            let letters = name.chars().all(|c| c.is_alphabetic() || matches!(c, ' ' | '_' | '-' | '/'));
            let small = name.chars().skip(1).any(char::is_lowercase) && !is_finished(&name.to_lowercase());
            letters && small && (3..=40).contains(&name.len()) && !rest.starts_with(['(', '['])
        })
    };
    memchr::memchr2(b'{', b'[', text.as_bytes()).is_some() && (between('{', '}') || between('[', ']'))
}

/// `- [ ] Laptop ordered`: what is to be done.
pub(super) fn is_open_box(text: &str) -> bool {
    let item = text.trim_start_matches([' ', '-', '*', '+', '•']);
    item.starts_with("[ ]") || item.starts_with(['☐', '□', '⬜'])
}

/// Words in quotation marks are somebody else's.
pub(super) fn quotes(text: &str) -> bool {
    let text = text.trim();
    // `*The door creaks.*`: stage directions.
    let inner = text.strip_prefix('*').and_then(|rest| rest.strip_suffix('*'));
    let staged = inner.is_some_and(|inner| !inner.contains('*') && !inner.starts_with([' ', 'I']));
    // `—Ya está, señor —dijo.`
    let dialogue = text.starts_with('—') && text.matches('—').count() > 1;
    // `「…」の予約` names a thing.
    let wide = text.starts_with(['「', '『']) && (!text.contains(['」', '』']) || text.trim_end_matches('。').ends_with(['」', '』']));
    staged || dialogue || wide || text.starts_with(['"', '“', '„', '«', '>', '`'])
}

/// Does this place lie in quotation marks, or behind one that another passage closes?
pub(super) fn is_quoted(text: &str, place: usize) -> bool {
    let unclosed = |before: &str| before.rfind(['「', '『']) > before.rfind(['」', '』']);
    let open = || text.get(..place).is_some_and(|before| before.matches('"').count() % 2 == 1 || unclosed(before));
    quoted(text).iter().any(|span| span.contains(&place)) || open()
}

/// Words by which the answer points at its own text.
pub(super) static HERE: WordList = WordList::new(&[
    "below",
    "pasted",
    "beneath",
    "unten",
    "untenstehend",
    "nachstehend",
    "ci-dessous",
    "ci-après",
    "abajo",
    "abaixo",
    "sotto",
    "hieronder",
    "onderstaande",
    "poniżej",
    "niżej",
    "aşağıda",
    "aşağıdaki",
    "nedan",
]);

/// Phrases by which it does.
pub(super) static HERE_PHRASES: PhraseList = PhraseList::in_any_case(&[
    "in this version",
    "in this draft",
    "in my draft",
    "in dieser Fassung",
    "dans cette version",
    "en esta versión",
    "in questa versione",
    "nesta versão",
    "in deze versie",
    "w tej wersji",
    "bu sürümde",
    "以下の",
    "下記",
    "以下是",
    "如下",
    "नीचे",
    "아래",
]);

/// True where the user asks for work on words, and no tool changes files.
pub(super) fn is_text_work(case: &ActSentence<'_>, speech: &Speech) -> bool {
    let asked = &case.abilities.asked;
    let stem = |stem: &String| {
        let inside = speech.is_script() || stem.contains([' ', ';']);
        inside && asked.lower().contains(stem.as_str()) || !inside && asked.words().iter().any(|word| word.lower.starts_with(stem.as_str()))
    };
    asked.len() <= TEXT_REQUEST_BYTES_MAX && speech.text_stems.iter().any(stem) && !case.abilities.tools.iter().any(is_editor)
}

/// True of a tool that changes files.
pub(super) fn is_editor(ability: &ToolCapability) -> bool {
    ability.effect() == Effect::Acts && edits_files(ability)
}

/// True of a word by which a user of any language asks for work on words.
pub(super) fn is_text_stem(word: &str) -> bool {
    languages()
        .iter()
        .filter(|speech| !speech.is_script())
        .flat_map(|speech| &speech.text_stems)
        .any(|stem| word.starts_with(stem.as_str()))
}

/// True where the user has somebody else written to, and a tool sends messages: no text is asked for.
pub(super) fn sends_message(abilities: &ToolCapabilities) -> bool {
    static MESSAGES: WordList = WordList::new(&[
        "send",
        "sms",
        "text",
        "message",
        "messages",
        "mail",
        "email",
        "notify",
        "chat",
        "post",
        "whatsapp",
        "slack",
        "telegram",
        "dm",
        "nachricht",
        "senden",
        "sende",
        "schicke",
        "envoyer",
        "enviar",
        "mensaje",
        "mensagem",
        "invia",
        "messaggio",
        "stuur",
        "bericht",
        "wyslij",
        "wiadomosc",
        "gonder",
        "mesaj",
        "bhejo",
    ]);
    // `Anna ni tsutaete`, to tell Anna, in the languages with scripts of their own.
    static TELLS: PhraseList = PhraseList::new(&[
        "に伝えて",
        "と伝えて",
        "を伝えて",
        "に連絡して",
        "と連絡して",
        "に知らせて",
        "と知らせて",
        "को बता दो",
        "को बता देना",
        "को बताओ",
        "को लिख",
    ]);
    let sends = |ability: &ToolCapability| ability.effect() != Effect::Reads && ability.words.iter().any(|word| MESSAGES.has(word));
    (abilities.asked.writes_to_others() || TELLS.stands_in(&abilities.asked)) && abilities.tools.iter().any(sends)
}

/// Words that take back or hold what was spoken of.
static HALTS: WordList = WordList::new(&[
    "cancel",
    "drop",
    "never",
    "stop",
    "wait",
    "hold",
    "pause",
    "nevermind",
    "forget",
    "restart",
    "reset",
    "abbrechen",
    "abbruch",
    "stopp",
    "warte",
    "halt",
    "vergiss",
    "cancela",
    "cancelar",
    "espera",
    "olvida",
    "olvídalo",
    "annule",
    "annuler",
    "arrête",
    "attends",
    "oublie",
    "annulla",
    "ferma",
    "aspetta",
    "lascia",
    "pare",
    "espere",
    "esquece",
    "annuleer",
    "wacht",
    "anuluj",
    "czekaj",
    "iptal",
    "dur",
    "bekle",
    "avbryt",
    "vänta",
    "取消",
    "停",
    "停止",
    "等等",
    "やめて",
    "キャンセル",
    "待って",
    "रद्द",
    "रुको",
    "취소",
    "잠깐",
]);
/// Words that may stand beside them in a message that says no more.
static HALTS_WITH: WordList = WordList::new(&[
    "it",
    "mind",
    "that",
    "this",
    "please",
    "no",
    "now",
    "on",
    "actually",
    "oh",
    "ok",
    "es",
    "das",
    "bitte",
    "doch",
    "nein",
    "le",
    "lo",
    "por",
    "favor",
    "stp",
    "per",
    "favore",
    "de",
    "a",
    "moment",
    "minute",
    "second",
    "sec",
    "all",
    "everything",
]);
/// Those of them that hold it, and take nothing back.
pub(super) static PAUSES: WordList =
    WordList::new(&["wait", "hold", "pause", "warte", "attends", "espera", "aspetta", "wacht", "czekaj", "bekle"]);
/// Words of such a message.
const HALT_WORDS_MAX: usize = 4;

/// True if the user no more than takes back or holds what was spoken of (`cancel`, behind a question whether to go on), begins anew, or
/// says how to be called. Who obeys that says so, and no tool is needed for it.
pub(super) fn halts(asked: &UserRequest, grounds: Option<&EvidenceIndex>) -> bool {
    let words = asked.words();
    if words.is_empty() || words.len() > HALT_WORDS_MAX {
        return false;
    }
    let spoken = grounds.is_some_and(|grounds| !grounds.answers.is_empty());
    let halt = words.iter().any(|word| HALTS.has(&word.lower));
    // `wait`, `hold on` take nothing back, whatever was spoken of.
    let pause = || words.iter().any(|word| PAUSES.has(&word.lower));
    talk::begins_anew(asked)
        || halt && (spoken || pause()) && words.iter().all(|word| HALTS.has(&word.lower) || HALTS_WITH.has(&word.lower))
}

/// Does the user bring a text to work on: a long message, one of several lines, a quotation of a sentence?
pub(super) fn brings_text(abilities: &ToolCapabilities) -> bool {
    *abilities.memo.brings_text.get_or_init(|| has_text_to_work_on(&abilities.asked))
}

fn has_text_to_work_on(asked: &str) -> bool {
    let long = |part: &str| part.split_whitespace().count() >= QUOTED_WORDS;
    let parts = asked.split('\'').count();
    let single = parts > 2 && asked.contains(" '") && asked.split('\'').take(parts - 1).skip(1).step_by(2).any(long);
    let closed = quoted(asked).iter().any(|span| asked.get(span.clone()).is_some_and(long));
    let code = asked.contains('{') && asked.contains('}') || ["```", "()", "</", "=>"].iter().any(|mark| asked.contains(mark));
    asked.len() > ASKED_BYTES_MAX || asked.trim().contains('\n') || single || closed || code
}

/// Does the tool change files, as its name says?
pub(super) fn edits_files(ability: &ToolCapability) -> bool {
    let has = |list: &[&str]| ability.words.iter().any(|word| list.contains(&word.as_str()));
    has(&["file", "files", "code", "patch", "source"])
        && has(&["edit", "write", "apply", "replace", "update", "modify", "patch", "save", "create", "str"])
}

/// Does the user ask for a game, a story, an exercise? What is told in it isn't told as so.
pub(super) fn plays(asked: &UserRequest) -> bool {
    static PLAYS: WordList = WordList::new(&[
        "roleplay",
        "role-play",
        "pretend",
        "quiz",
        "story",
        "imagine",
        "rehearse",
        "practise",
        "practice",
        "joke",
        "improvise",
        "scene",
        "dialogue",
        "rollenspiel",
        "spielen",
        "geschichte",
        "üben",
        "jouer",
        "histoire",
        "imagine",
        "jugar",
        "imagina",
        "giochiamo",
        "storia",
        "immagina",
        "história",
        "verhaal",
        "opowiadanie",
        "hikaye",
        "fable",
        "monologue",
        "riddle",
        "witz",
        "märchen",
        "blague",
        "conte",
        "chiste",
        "barzelletta",
        "battuta",
        "battute",
        "scenetta",
        "sketch",
        "dialog",
        "dialogo",
        "diálogo",
        "fiaba",
        "favola",
        "racconto",
        "piada",
        "anedota",
        "grap",
        "grapje",
        "sprookje",
        "dagboek",
        "żart",
        "dowcip",
        "bajkę",
        "bajka",
        "bajki",
        "fıkra",
        "şaka",
        "masal",
        "masalı",
        "öykü",
        "skämt",
        "pirate",
        "dialog",
        "diálogo",
        "dialogo",
        "parody",
    ]);
    static PLAYS_INSIDE: PhraseList = PhraseList::in_any_case(&[
        "role play",
        "diary entry",
        "journal entry",
        "fairy tale",
        "make up a ",
        "make up an ",
        "invent a ",
        "tagebucheintrag",
        "stell dir",
        "stellt euch",
        "stellen sie sich",
        "冗談",
        "ジョーク",
        "物語",
        "童話",
        "笑话",
        "故事",
        "चुटकुल",
        "कहानी",
        "농담",
    ]);
    // `Get us a van for the away game` is no game.
    static GAMES: WordList = WordList::new(&["game", "spiel", "jeu", "juego", "gioco", "jogo", "spel", "oyun"]);
    static ONE: WordList = WordList::new(&["a", "another", "word", "ein", "un", "une", "um", "een", "bir", "play"]);
    let game = |two: &[Word]| matches!(two, [one, game] if ONE.has(&one.lower) && GAMES.has(&game.lower));
    asked.words().iter().any(|word| PLAYS.has(&word.lower))
        || asked.words().windows(2).any(game)
        || PLAYS_INSIDE.stands_in(asked)
        || ["act as ", "you are a ", "you're a "].iter().any(|start| asked.lower().starts_with(start))
}

/// Phrases that point at what the user brought.
pub(super) static OF_USER: PhraseList = PhraseList::new(&[
    "you pasted",
    "you shared",
    "you sent",
    "you gave",
    "you listed",
    "you wrote",
    "pegaste",
    "compartiste",
    "que tu as",
    "que vous avez",
    "che hai",
    "che mi hai",
    "que você",
    "que colou",
    "wklei",
    "yapıştır",
    "paylaştığın",
]);
