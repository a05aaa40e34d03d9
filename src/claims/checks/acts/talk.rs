//! Messages of a user that ask for nothing a tool could do: they are about the conversation itself. Pure.
//!
//! The whole message must be of that kind: `Keep it short` is, `Refund order A1. Keep it short.` isn't.

use super::readings::{PAUSES, halts};
use crate::{
    checks::acts::speech::verb_forms::has_form,
    evidence::{
        EvidenceIndex,
        tool_capabilities::{Effect, ToolCapabilities},
    },
    language::{
        lexicon::Word,
        request::UserRequest,
        word_list::{PhraseList, WordList},
    },
};

/// Words of the longest such message, without what is to be translated.
const TALK_WORDS_MAX: usize = 12;
/// Words that change nothing in such a message.
static FILLERS: WordList = WordList::new(&[
    "please",
    "bitte",
    "ok",
    "okay",
    "and",
    "und",
    "et",
    "y",
    "e",
    "now",
    "from",
    "on",
    "always",
    "only",
    "just",
    "then",
    "ab",
    "jetzt",
    "nur",
    "immer",
    "désormais",
    "siempre",
    "sempre",
    "de",
    "ahora",
    "adelante",
    "in",
    "auf",
    "en",
    "em",
    "to",
    "into",
    "ins",
    "al",
    "a",
    "the",
    "me",
    "mir",
    "moi",
    "it",
    "this",
    "that",
    "das",
    "following",
    "sentence",
    "text",
    "satz",
    "phrase",
    "frase",
    "your",
    "answers",
    "replies",
    "deine",
    "antworten",
]);
/// Words for how answers are to be given.
static MANNERS: WordList = WordList::new(&[
    "keep", "be", "short", "shorter", "brief", "briefly", "concise", "formal", "formally", "polite", "informal", "fasse", "dich", "kurz",
    "kürzer", "sois", "bref", "sé", "breve", "sii",
]);
/// Words for answering.
static ANSWERS: WordList = WordList::new(&[
    "answer", "reply", "respond", "speak", "write", "talk", "antworte", "sprich", "réponds", "parle", "responde", "habla", "rispondi",
    "parla", "antwoord",
]);
/// Words for translating.
static TRANSLATES: WordList =
    WordList::new(&["translate", "übersetze", "übersetz", "traduis", "traduce", "traduci", "traduza", "vertaal", "przetłumacz", "çevir"]);
/// Names of languages.
static LANGUAGES: WordList = WordList::new(&[
    "english",
    "german",
    "french",
    "spanish",
    "italian",
    "portuguese",
    "dutch",
    "polish",
    "turkish",
    "swedish",
    "japanese",
    "chinese",
    "hindi",
    "arabic",
    "russian",
    "korean",
    "deutsch",
    "deutsche",
    "englisch",
    "englische",
    "französisch",
    "französische",
    "spanisch",
    "italienisch",
    "anglais",
    "français",
    "allemand",
    "espagnol",
    "español",
    "inglés",
    "francés",
    "alemán",
    "italiano",
    "inglese",
    "francese",
    "tedesco",
    "inglês",
    "português",
    "engels",
    "nederlands",
    "duits",
    "frans",
]);
/// Phrases with which an assistant asks leave to go on.
static LEAVE: PhraseList = PhraseList::new(&[
    "shall i",
    "should i",
    "may i",
    "can i go",
    "do you want me to",
    "would you like me to",
    "want me to",
    "ok to",
    "go ahead?",
    "proceed?",
    "ok?",
    "soll ich",
    "darf ich",
    "dois-je",
    "puis-je",
    "voulez-vous que je",
    "veux-tu que je",
    "souhaitez-vous que je",
    "confirmo",
    "quieres que",
    "desea que",
    "procedo",
    "devo ",
    "vuoi che",
    "posso ",
    "quer que",
    "zal ik",
    "wil je dat ik",
    "mag ik",
    "czy mam",
    "yapayım mı",
    "ましょうか",
    "よろしいですか",
    "要我",
    "可以吗",
    "吗？",
    "क्या मैं",
]);
/// Parts of words with which such a question is about taking something back itself: `Shall I cancel it?`
static TAKES_BACK: PhraseList = PhraseList::new(&[
    "cancel",
    "stop",
    "drop",
    "halt",
    "pause",
    "abbrech",
    "stopp",
    "cancela",
    "annul",
    "arrêt",
    "anula",
    "parar",
    "annulla",
    "ferma",
    "annuleer",
    "anuluj",
    "iptal",
    "取消",
    "停",
    "キャンセル",
    "रद्द",
]);

/// True if the user's message is about the conversation alone: it takes back what the assistant asked leave for, holds it, says how
/// answers are to be given, begins anew, or has a text translated that it brings. Who says then that it is done needs no execution.
pub(crate) fn is_of_talk(abilities: &ToolCapabilities, grounds: Option<&EvidenceIndex>) -> bool {
    let asked = &abilities.asked;
    let words = asked.words();
    if words.is_empty() {
        return false;
    }
    if words.len() > TALK_WORDS_MAX {
        return is_translation(asked);
    }
    let all = |list: &WordList| words.iter().all(|word| list.has(&word.lower) || LANGUAGES.has(&word.lower) || FILLERS.has(&word.lower));
    let has = |list: &WordList| words.iter().any(|word| list.has(&word.lower));
    // `pause`, of a player that a tool can pause
    let acts = abilities.tools.iter().filter(|tool| tool.effect() != Effect::Reads);
    let is_named = || {
        acts.clone()
            .any(|tool| words.iter().any(|word| has_form(&word.lower, &tool.words) || tool.words.iter().any(|own| *own == word.lower)))
    };
    let leave = || grounds.and_then(|grounds| grounds.answers.last()).is_some_and(|answer| asks_leave(answer));
    let pauses = || words.iter().any(|word| PAUSES.has(&word.lower));
    all(&MANNERS) && has(&MANNERS)
        || all(&ANSWERS) && has(&ANSWERS) && has(&LANGUAGES)
        || begins_anew(asked) && !is_named()
        || halts(asked, grounds) && (leave() || pauses()) && !is_named()
        || is_translation(asked)
}

/// Phrases with which a user ends a conversation, or says to have done it.
static CLOSES: PhraseList = PhraseList::new(&[
    "that's all",
    "that’s all",
    "that is all",
    "myself",
    "das ist alles",
    "das war's",
    "das war’s",
    "selbst gemacht",
    "selber gemacht",
    "selbst erledigt",
    "c'est tout",
    "c’est tout",
    "moi-même",
    "eso es todo",
    "yo mismo",
    "yo misma",
    "lo hice yo",
    "è tutto",
    "io stesso",
    "é tudo",
    "eu mesmo",
    "dat is alles",
    "zelf gedaan",
    "to wszystko",
    "sam zrobi",
    "bu kadar",
    "kendim yaptım",
    "以上です",
    "自分で",
    "就这些",
    "我自己",
    "बस इतना",
]);
/// Words of the longest such message.
const CLOSE_WORDS_MAX: usize = 14;

/// True if the user ends the conversation, or says to have done it themselves.
pub(super) fn closes(asked: &UserRequest) -> bool {
    asked.words().len() <= CLOSE_WORDS_MAX && CLOSES.stands_in(asked.lower())
}

/// Words of what stands behind the colon of a request.
const INLINE_WORDS_MIN: usize = 2;

/// True if the user brings a text, a list or the like behind a colon, on which the answer works.
pub(super) fn brings_inline(asked: &UserRequest) -> bool {
    let text: &str = asked;
    // The colon of `7:30` introduces nothing.
    let of_time =
        |at: usize| text.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit) && at > 0 && text.as_bytes()[at - 1].is_ascii_digit();
    let colon = text.char_indices().find(|(at, c)| matches!(c, ':' | '：') && !of_time(*at));
    let behind = colon.and_then(|(at, c)| text.get(at + c.len_utf8()..));
    behind.is_some_and(|text| text.split([' ', ',']).filter(|word| !word.is_empty()).count() >= INLINE_WORDS_MIN)
}

/// Items of a list that is compared with what the user wrote.
const ITEMS: std::ops::RangeInclusive<usize> = 3..=12;

/// True of a sentence that ends with a list of items of the user's message, each once, where the message has some of them twice: the
/// lists are merged by writing that one.
pub(super) fn takes_doubles_out(asked: &UserRequest, text: &str) -> bool {
    let Some((_, list)) = text.split_once([':', '：']) else { return false };
    let blank = |c: char| !c.is_alphanumeric();
    let items: Vec<&str> = list.split([',', '，', '、', ';']).map(|item| item.trim_matches(blank)).collect();
    if !ITEMS.contains(&items.len()) {
        return false;
    }
    let said = |item: &str| asked.split(|c: char| blank(c) || !c.is_ascii()).filter(|word| *word == item).count();
    let counts: Vec<usize> = items.iter().map(|item| said(item)).collect();
    let once = items.iter().enumerate().all(|(at, item)| items.iter().skip(at + 1).all(|other| other != item));
    once && !counts.contains(&0) && counts.iter().any(|count| *count > 1)
}

/// True if the user asks for a text to be written: a reply, a letter, a note.
pub(super) fn asks_for_text(asked: &UserRequest) -> bool {
    static TEXTS: WordList = WordList::new(&[
        "reply",
        "mail",
        "email",
        "e-mail",
        "letter",
        "note",
        "message",
        "tweet",
        "post",
        "apology",
        "confirmation",
        "announcement",
        "text",
        "antwort",
        "brief",
        "nachricht",
        "notiz",
        "réponse",
        "lettre",
        "courriel",
        "carta",
        "correo",
        "respuesta",
        "nota",
        "lettera",
        "risposta",
        "messaggio",
        "resposta",
        "mensagem",
        "bericht",
        "antwoord",
        "wiadomość",
        "odpowiedź",
    ]);
    static WRITES: WordList = WordList::new(&[
        "write", "draft", "compose", "sample", "schreib", "schreibe", "verfasse", "entwirf", "écris", "rédige", "escribe", "redacta",
        "scrivi", "redigi", "escreva", "redija", "schrijf", "napisz",
    ]);
    let words = asked.words();
    words.iter().take(4).any(|word| WRITES.has(&word.lower)) && words.iter().take(TALK_WORDS_MAX).any(|word| TEXTS.has(&word.lower))
}

/// True if the user no more than begins anew, or says how to be called.
pub(super) fn begins_anew(asked: &UserRequest) -> bool {
    let lower: Vec<&str> = asked.words().iter().map(|word| word.lower.as_str()).filter(|word| *word != "please").collect();
    // `Call me Bo`, but not `Call me a cab`.
    let named = |word: &Word| {
        asked.get(word.start..).is_some_and(|name| name.starts_with(char::is_uppercase) && asked.chars().any(char::is_lowercase))
    };
    match lower.as_slice() {
        ["start", "over"] | ["forget", "what", "i", "said"] => true,
        ["call", "me", _] => asked.words().last().is_some_and(named),
        _ => false,
    }
}

/// Characters before the colon, in a script without blanks.
const SCRIPT_CHARS_MAX: usize = 16;

/// True if it asks for the translation of a text that follows a colon, and for no more.
fn is_translation(asked: &UserRequest) -> bool {
    let Some((head, text)) = asked.split_once([':', '：']) else { return false };
    let colon = asked.len() - text.len();
    // `帮我翻译：…`
    const IN_SCRIPT: [&str; 4] = ["翻译", "翻譯", "訳", "번역"];
    if head.chars().count() <= SCRIPT_CHARS_MAX && IN_SCRIPT.iter().any(|word| head.contains(word)) && !text.trim().is_empty() {
        return true;
    }
    let mut head = asked.words().iter().take_while(|word| word.end < colon);
    let mut count = 0;
    let plain = head.all(|word| {
        count += 1;
        let lower = word.lower.as_str();
        TRANSLATES.has(lower) || LANGUAGES.has(lower) || FILLERS.has(lower) && !matches!(lower, "and" | "und" | "et" | "y" | "e" | "then")
    });
    let translates = asked.words().iter().take(2).any(|word| TRANSLATES.has(&word.lower));
    plain && translates && count <= TALK_WORDS_MAX && !text.trim().is_empty()
}

/// True if the assistant asks leave for what it would do, and not to take something back.
fn asks_leave(answer: &str) -> bool {
    let answer = answer.trim_end();
    let ends = answer.trim_end_matches(['?', '？', '*', ' ']);
    let start = ends.rfind(['.', '!', '\n', '。', '！', '?', '？', ':']).map_or(0, |at| at + 1);
    let question = answer.get(answer.ceil_char_boundary(start)..).unwrap_or_default().to_lowercase();
    answer.ends_with(['?', '？']) && LEAVE.stands_in(&question) && !TAKES_BACK.stands_in(&question)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::tool_capabilities::ToolCapability;

    fn able(name: &str, asked: &str) -> ToolCapabilities {
        ToolCapabilities { tools: [ToolCapability::new(name, "")].into(), asked: asked.into(), ..ToolCapabilities::default() }
    }

    #[test]
    fn what_makes_an_act_less_than_certain() {
        for (asked, closed, inline, text) in [
            ("Merci, c'est tout !", true, false, false),
            ("Never mind, I sent it myself", true, false, false),
            ("Ersetze Montag durch Dienstag: Das Treffen ist am Montag.", false, true, false),
            ("Merge these lists, no duplicates: a,b,c and b,c,d", false, true, false),
            ("Write a chat reply to a customer who wants a refund", false, false, true),
            ("Book room 2 at 9:00", false, false, false),
            ("Add Kilian to the squad", false, false, false),
        ] {
            let asked = UserRequest::from(asked);
            assert_eq!((closes(&asked), brings_inline(&asked), asks_for_text(&asked)), (closed, inline, text), "{}", &*asked);
        }
    }

    #[test]
    fn a_time_of_day_brings_no_text() {
        for (asked, brings) in [
            ("Book a table for four on Friday around 7:30, the name is Okafor", false),
            ("Set this as the subject: the minutes of our meeting on Friday", true),
            ("At 7:30 send this: we will be late by some ten minutes", true),
        ] {
            assert_eq!(brings_inline(&asked.into()), brings, "{asked}");
        }
    }

    #[test]
    fn merged_lists() {
        let asked = UserRequest::from("Merge a,b,c and b,c,d without duplicates");
        for (text, takes) in [
            ("Merged, without the duplicates: a, b, c, d.", true),
            ("Merged: a, b, c, c, d.", false),
            ("Merged: a, b, c, e.", false),
            ("Merged: a.", false),
            ("I've merged them.", false),
        ] {
            assert_eq!(takes_doubles_out(&asked, text), takes, "{text}");
        }
        assert!(!takes_doubles_out(&UserRequest::from("Delete alpha, beta and gamma"), "Deleted: alpha, beta, gamma."));
    }

    #[test]
    fn what_is_of_the_talk_alone_needs_no_tool() {
        let mut asks = EvidenceIndex::default();
        asks.answers.push("It costs 10 euros. Shall I refund A1?".into());
        let (mut offers, mut told, first) = (EvidenceIndex::default(), EvidenceIndex::default(), EvidenceIndex::default());
        offers.answers.push("Your Pro plan renews on 3 May. Would you like to know more?".into());
        told.answers.push("Your subscription costs 10 euros a month.".into());
        for (asked, grounds, tool, is) in [
            ("cancel", &asks, "refund_order", true),
            ("Never mind, drop it", &asks, "refund_order", true),
            ("cancel", &asks, "cancel_order", false),
            ("cancel", &told, "refund_order", false),
            ("Cancel it please", &offers, "refund_order", false),
            ("cancel", &first, "refund_order", false),
            ("wait", &first, "refund_order", true),
            ("Pause", &first, "pause_playback", false),
            ("stop", &told, "refund_order", false),
            ("Please answer in German from now on", &first, "refund_order", true),
            ("Speak French", &first, "refund_order", true),
            ("Reply in German to ticket 4411", &first, "refund_order", false),
            ("Talk to Dutch supplier about 5 pallets", &first, "refund_order", false),
            ("Keep it short", &first, "refund_order", true),
            ("Refund order A1. Keep it short.", &first, "refund_order", false),
            ("Be brief: cancel order A1", &first, "refund_order", false),
            ("Describe briefly and refund order A1", &first, "refund_order", false),
            ("Call me Bo", &first, "refund_order", true),
            ("Call me a cab", &first, "refund_order", false),
            ("CALL ME CAB", &first, "refund_order", false),
            ("Start over the dishwasher", &first, "refund_order", false),
            ("Translate to French: I sent the mail and refunded it.", &first, "refund_order", true),
            ("Translate 'See you at nine' to French and email it to bo@x.org", &first, "send_email", false),
            ("帮我翻译：The refund has been sent.", &first, "refund_order", true),
            ("Translate and mail to Bo: see you", &first, "send_email", false),
            ("Transfer 500 to 12345678", &first, "transfer_money", false),
            ("From now on, mail Bo each Monday", &first, "refund_order", false),
            ("Reply to Bo", &first, "refund_order", false),
            ("yes", &asks, "refund_order", false),
        ] {
            assert_eq!(is_of_talk(&able(tool, asked), Some(grounds)), is, "{asked}");
        }
    }
}
