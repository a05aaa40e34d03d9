//! What a user's message asks for: that something be done, or to be told something. Pure.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::Deserialize;

use crate::language::{
    cues::CONJUNCTIONS,
    date::{self, Dates},
    fold::{fold, lower_of, name_words},
    lexicon::{Word, WordSet, words},
    number::{Number, numbers},
    samples,
    tool_names::names_act,
    word_list::{OpenerList, PhraseList, WordList, data_file},
};

/// Bytes of a message that is read: a longer one brings a text to work on.
const MESSAGE_BYTES_MAX: usize = 1200;
/// Sentences of a message that are read.
const SENTENCES_MAX: usize = 12;
/// Words of a sentence at which a polite question may begin: `I'm late, can you …`.
const WORDS_MAX: usize = 24;
/// Words at the beginning of a sentence among which its verb is looked for.
const VERB_WORDS: usize = 6;

/// The user's last message, of which each form is made once, when it is first asked for. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct UserRequest(Arc<ReadRequest>);

#[derive(Debug, Default)]
struct ReadRequest {
    text: Arc<str>,
    words: OnceLock<Vec<Word>>,
    name_words: OnceLock<Vec<String>>,
    folded: OnceLock<String>,
    lower: OnceLock<String>,
    numbers: OnceLock<Vec<Number>>,
    dates: OnceLock<Dates>,
    asks_for_act: OnceLock<bool>,
    asks_to_know: OnceLock<bool>,
    is_question: OnceLock<bool>,
    is_order: OnceLock<bool>,
    asks_for_samples: OnceLock<bool>,
    asks_why: OnceLock<bool>,
    writes_to_others: OnceLock<bool>,
}

impl<T: Into<Arc<str>>> From<T> for UserRequest {
    fn from(text: T) -> Self {
        Self(Arc::new(ReadRequest { text: text.into(), ..ReadRequest::default() }))
    }
}

impl Deref for UserRequest {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl UserRequest {
    /// Bytes of memory that what was read of it takes, its text left out.
    pub fn bytes(&self) -> usize {
        let read = &self.0;
        let apart = |words: &[Word]| -> usize {
            words.iter().map(|word| &word.lower).filter(|own| own.is_heap_allocated()).map(|own| own.len()).sum()
        };
        let words = read.words.get().map_or(0, |words| words.capacity() * size_of::<Word>() + apart(words));
        let names = read.name_words.get().map_or(0, |words| words.iter().map(|word| size_of::<String>() + word.len()).sum());
        let texts = [&read.folded, &read.lower].into_iter().filter_map(OnceLock::get).map(String::len).sum::<usize>();
        let numbers = read.numbers.get().map_or(0, |numbers| size_of_val(&**numbers));
        let dates = read.dates.get().map_or(0, |dates| size_of_val(&*dates.dates) + size_of_val(&*dates.times));
        size_of::<ReadRequest>() + words + names + texts + numbers + dates
    }

    /// Its words.
    pub fn words(&self) -> &[Word] {
        self.0.words.get_or_init(|| words(self))
    }

    /// Its words, folded, as those of a name.
    pub fn name_words(&self) -> &[String] {
        self.0.name_words.get_or_init(|| name_words(self))
    }

    /// Its text, folded.
    pub fn folded(&self) -> &str {
        self.0.folded.get_or_init(|| fold(self))
    }

    /// Its text in lower case.
    pub fn lower(&self) -> &str {
        self.0.lower.get_or_init(|| lower_of(self))
    }

    /// Its numbers.
    pub fn numbers(&self) -> &[Number] {
        self.0.numbers.get_or_init(|| numbers(self))
    }

    /// Its dates and times of day.
    pub fn dates(&self) -> &Dates {
        self.0.dates.get_or_init(|| date::dates(self))
    }

    /// It asks, in one of its sentences, that something be done.
    pub fn asks_for_act(&self) -> bool {
        *self.0.asks_for_act.get_or_init(|| asks_for_act(self))
    }

    /// It asks, in one of its sentences, to be told something.
    pub fn asks_to_know(&self) -> bool {
        *self.0.asks_to_know.get_or_init(|| asks_to_know(self))
    }

    /// It is a short order and no more: no sentence of it tells or asks something.
    pub fn is_order(&self) -> bool {
        *self.0.is_order.get_or_init(|| self.len() <= ORDER_BYTES_MAX && is_order(self, self.words()))
    }

    /// Its first word is an English verb by which tools are named, or by which things are had done.
    pub fn begins_with_act(&self) -> bool {
        let first = self.words().iter().find(|word| !requests().fillers.contains(&word.lower));
        first.is_some_and(|first| names_act(&first.lower) || DEEDS.has(&first.lower))
    }

    /// It asks that somebody else be written to: `Schreib Anna, dass …`.
    pub fn writes_to_others(&self) -> bool {
        *self.0.writes_to_others.get_or_init(|| {
            let words = self.words();
            (0..words.len().min(ORDER_WORDS)).any(|at| writes_to(self, words.get(at..).unwrap_or_default()))
        })
    }

    /// It asks for the cause of something.
    pub fn asks_why(&self) -> bool {
        *self.0.asks_why.get_or_init(|| self.len() <= MESSAGE_BYTES_MAX && asks_why(self))
    }

    /// It asks for a sample of what tools return, or what the tools are.
    pub fn asks_for_samples(&self) -> bool {
        *self.0.asks_for_samples.get_or_init(|| samples::asks_for_samples(self))
    }

    /// It hands over data to be put in another form, and what stands in `block` is all of that data.
    pub fn asks_for_conversion(&self, block: &str) -> bool {
        samples::asks_for_conversion(self, block)
    }

    /// It asks for a program, or a part of one, to be written.
    pub fn asks_for_program(&self) -> bool {
        samples::asks_for_program(self)
    }

    /// Every sentence of it is a question for information.
    pub fn is_question(&self) -> bool {
        *self.0.is_question.get_or_init(|| is_question(self))
    }
}

/// The words of `lexicon/requests.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Requests {
    fillers: WordSet,
    questions: WordSet,
    polite: OpenerList,
    please: WordSet,
    infos: WordSet,
    to_me: WordSet,
    me: WordSet,
    writes: WordSet,
    writes_to: WordSet,
    before_infos: WordSet,
    script_questions: Vec<String>,
    script_infos: Vec<String>,
    script_polite: Vec<String>,
    polite_last: WordSet,
    infos_last: Vec<String>,
    whys: Vec<String>,
}

fn requests() -> &'static Requests {
    static ALL: OnceLock<Requests> = OnceLock::new();
    ALL.get_or_init(|| data_file(include_str!("lexicon/requests.toml")))
}

/// Does the message ask, in one of its sentences, that something be done in the world? A statement counts as such a request: `It is
/// too hot in here`. Generous: it only opens the way for checks that need more than that.
fn asks_for_act(message: &str) -> bool {
    message.len() <= MESSAGE_BYTES_MAX
        && sentences(message).into_iter().take(SENTENCES_MAX).any(|sentence| is_act(sentence, &words(sentence)))
}

/// Does one of its sentences ask to be told something?
fn asks_to_know(message: &str) -> bool {
    let asks = |sentence: &str| !sentence.trim().is_empty() && !is_act(sentence, &words(sentence));
    message.len() <= MESSAGE_BYTES_MAX && sentences(message).into_iter().take(SENTENCES_MAX).any(asks)
}

/// The sentences of a message; a mark ends one where a blank or nothing follows.
fn sentences(message: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(byte) = message.as_bytes().get(at) {
        // Most text is ASCII without marks: one look a byte.
        if byte.is_ascii() && !matches!(byte, b'.' | b'!' | b'?' | b';' | b'\n') {
            at += 1;
            continue;
        }
        let mut rest = message.get(at..).unwrap_or_default().chars();
        let Some(c) = rest.next() else { break };
        at += c.len_utf8();
        let wide = matches!(c, '。' | '！' | '？' | '।' | '\n');
        let mark = matches!(c, '.' | '!' | '?' | ';' | '؟');
        if wide || mark && rest.next().is_none_or(char::is_whitespace) {
            found.extend(message.get(start..at));
            start = at;
        }
    }
    found.extend(message.get(start..));
    found
}

/// Does the sentence ask that something be done? `all`: its words.
fn is_act(sentence: &str, all: &[Word]) -> bool {
    // `Tell me when it drops under 180`: something has to watch it.
    static WATCHES: PhraseList = PhraseList::in_any_case(&[
        "tell me when it",
        "tell me when the",
        "let me know when",
        "let me know as soon as",
        "notify me",
        "alert me",
        "remind me",
        "ping me when",
        "sag mir bescheid, wenn",
        "gib mir bescheid",
        "gib bescheid",
        "erinner mich",
        "erinnere mich",
        "préviens-moi",
        "prévenez-moi",
        "alerte-moi",
        "rappelle-moi",
        "rappelez-moi",
        "avísame",
        "avísenme",
        "recuérdame",
        "avvisami",
        "avvertimi",
        "ricordami",
        "avisa-me",
        "me avisa",
        "me avise",
        "lembra-me",
        "me lembra",
        "me lembre",
        "não me deixes esquecer",
        "laat me weten wanneer",
        "laat het me weten",
        "waarschuw me",
        "herinner me",
        "daj znać, gdy",
        "daj mi znać, gdy",
        "powiadom mnie",
        "przypomnij mi",
        "haber ver",
        "hatırlat",
    ]);
    if WATCHES.stands_in(sentence) && !sentence.trim_end().ends_with(['?', '؟']) {
        return true;
    }
    let known = requests();
    if sentence
        .chars()
        .any(|c| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}' | '\u{0900}'..='\u{097f}' | '\u{ac00}'..='\u{d7af}'))
    {
        let has = |parts: &[String]| parts.iter().any(|part| sentence.contains(part.as_str()));
        // `変えてもらえますか`: a question by form only.
        let asks = || has(&known.script_questions) || sentence.trim_end().ends_with(['?', '？', 'か']);
        return !has(&known.script_infos) && (has(&known.script_polite) || !asks());
    }
    let pleases = all.iter().any(|word| known.please.contains(&word.lower));
    let mut left = all;
    while let Some((first, rest)) = left.split_first() {
        if !known.fillers.contains(&first.lower) || is_polite(sentence, left) {
            break;
        }
        left = rest;
    }
    // `Any invoice open? 0664-5550142`: an id orders nothing.
    let first = left.first().filter(|_| left.iter().any(|word| !word.lower.bytes().any(|byte| byte.is_ascii_digit())));
    let Some(first) = first else { return false };
    let polite = (0..left.len().min(WORDS_MAX)).any(|at| left.get(at..).is_some_and(|rest| is_polite(sentence, rest)));
    // `Have the car charge at night`: an order.
    let next = left.get(1).map_or("", |word| word.lower.as_str());
    let causes = first.lower == "have" && !["you", "we", "they", "i", "there", "any", "all", "my", "our"].contains(&next);
    let asks = sentence.trim_end().ends_with(['?', '؟']) || known.questions.contains(&first.lower) && !causes;
    // `alarmını onaylar mısın?`: the verb stands in front of the particle.
    let polite_last = || {
        // `kontrol eder misin`: of two words before it one asks to be told something.
        let told = |before: &[Word]| before.iter().any(|word| known.infos_last.iter().any(|stem| word.lower.starts_with(stem.as_str())));
        let at = all.iter().position(|word| known.polite_last.contains(&word.lower));
        at.and_then(|at| all.get(at.saturating_sub(2)..at)).is_some_and(|before| before.len() == 2 && !told(before))
    };
    if asks && !polite && !pleases && !polite_last() {
        return false;
    }
    // `Check the date and let her know`
    let lets_others = || {
        let others = |next: &Word| !known.me.contains(&next.lower);
        let knows = |at: usize| left.iter().skip(at).take(VERB_WORDS).any(|word| KNOWS.has(&word.lower));
        left.windows(2).enumerate().skip(1).any(|(at, two)| {
            matches!(two, [verb, who] if LETS.has(&verb.lower) && others(who))
                && left.get(at - 1).is_some_and(|word| word.lower == "then" || CONJUNCTIONS.has(&word.lower))
                && knows(at)
        })
    };
    // `Write the notes and put them up`
    let joins = |word: &Word| matches!(word.lower.as_str(), "and" | "then");
    let acts_too =
        || left.windows(2).skip(1).any(|two| matches!(two, [join, verb] if joins(join) && names_act(&verb.lower))) || lets_others();
    // `Let Paula know that …`, `Laat de bakker weten dat …`: somebody else is to be told.
    let lets = left.first().is_some_and(|first| LETS.has(&first.lower))
        && left.get(1).is_some_and(|who| !known.me.contains(&who.lower))
        && left.iter().skip(1).take(VERB_WORDS).any(|word| KNOWS.has(&word.lower));
    // `Get rid of the old record`
    let rids = left.windows(2).take(VERB_WORDS).any(|two| two[0].lower == "get" && two[1].lower == "rid");
    let tells = !rids
        && left.iter().take(VERB_WORDS).enumerate().any(|(at, word)| {
            let before = at == 0 || left.get(at - 1).is_some_and(|before| known.before_infos.contains(&before.lower));
            // `Tell Paula that …`: somebody else is to be told.
            let next = left.get(at + 1).map_or("", |next| next.lower.as_str());
            let others = known.to_me.contains(&word.lower) && !known.me.contains(next);
            let writes = writes_to(sentence, left.get(at..).unwrap_or_default());
            before
                && known.infos.contains(&word.lower)
                && !others
                && !lets
                && !writes
                && !is_errand(left.get(at..).unwrap_or_default(), known)
        });
    !tells || acts_too()
}

/// Does it begin with a verb by which somebody is to be written to? `Write to the parents that …`, `Schreib Anna, dass …`.
fn writes_to(text: &str, left: &[Word]) -> bool {
    static THAT: WordList = WordList::new(&["that", "dass", "das", "que", "che", "dat", "że", "att"]);
    static OWN: WordList = WordList::new(&["mi", "mis", "mia", "mio", "miei", "nuestro", "nuestra", "los", "las", "la", "el"]);
    let known = requests();
    let (Some(verb), Some(who)) = (left.first(), left.get(1)) else { return false };
    if !known.writes.contains(&verb.lower) {
        return false;
    }
    let is_name = |word: &Word| text.get(word.start..).is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let told = || text.get(who.end..).is_some_and(|rest| rest.starts_with(',')) || left.get(2).is_some_and(|word| THAT.has(&word.lower));
    // `Escribe a Ana`; `Write a letter` is none.
    let names = || verb.lower != "write" && left.get(2).is_some_and(|word| is_name(word) || OWN.has(&word.lower));
    known.writes_to.contains(&who.lower) || matches!(who.lower.as_str(), "a" | "ad") && names() || is_name(who) && told()
}

/// Words of a message among which it is looked for whom is to be written to.
const ORDER_WORDS: usize = 12;
/// Bytes of an order.
const ORDER_BYTES_MAX: usize = 240;

/// True of a short order: no sentence of it begins as a statement or a question does.
fn is_order(message: &str, all: &[Word]) -> bool {
    // `Forget the ticket for now`: it is carried out by doing nothing.
    static IDLE: WordList = WordList::new(&[
        "forget",
        "never",
        "nevermind",
        "wait",
        "hold",
        "leave",
        "skip",
        "ignore",
        "don't",
        "don’t",
        "stop",
        "lass",
        "vergiss",
        "warte",
        "nicht",
        "oublie",
        "oubliez",
        "attends",
        "attendez",
        "laisse",
        "laissez",
        "olvida",
        "espera",
        "deja",
        "lascia",
        "aspetta",
        "dimentica",
        "esquece",
        "deixa",
        "aguarda",
        "laat",
        "wacht",
        "vergeet",
        "zapomnij",
        "poczekaj",
        "zostaw",
        "vazgeç",
        "bekle",
        "boşver",
        "name",
        "define",
        "solve",
        "diagnose",
        "debug",
        "rate",
        "roast",
        "history",
        "timeline",
        "facts",
        "ideas",
        "order",
        "policy",
        "statement",
        "center",
        "let's",
        "let’s",
    ]);
    // `Hold the print for me`, `Order more toner`: with a thing behind it, it is one to be done.
    static WITH_THINGS: WordList = WordList::new(&["order", "hold", "stop", "skip"]);
    static THINGS: WordList = WordList::new(&[
        "the",
        "my",
        "our",
        "his",
        "her",
        "their",
        "this",
        "that",
        "these",
        "those",
        "a",
        "an",
        "another",
        "some",
        "more",
        "all",
        "two",
        "three",
        "four",
        "five",
        "six",
        "ten",
        "every",
        "tonight's",
        "tomorrow's",
        "today's",
        "today’s",
    ]);
    const IDLE_PARTS: &[&str] = &["算了", "先别", "不用", "やめて", "待って"];
    let mut left = all.iter().skip_while(|word| requests().fillers.contains(&word.lower));
    let (first, next) = (left.next(), left.next());
    let topic = || all.iter().take(4).skip(1).any(|word| matches!(word.lower.as_str(), "policy" | "ideas" | "statement" | "again"));
    let does = || first.is_some_and(|first| WITH_THINGS.has(&first.lower)) && next.is_some_and(|next| THINGS.has(&next.lower));
    if first.is_some_and(|first| IDLE.has(&first.lower)) && !gives(all) && !does()
        || IDLE_PARTS.iter().any(|part| message.contains(part))
        || topic()
    {
        return false;
    }
    let plain = |sentence: &str| {
        let all = words(sentence);
        sentence.trim().is_empty() || (is_act(sentence, &all) || gives(&all)) && !is_statement(sentence, &all)
    };
    !message.trim().is_empty() && sentences(message).into_iter().all(plain)
}

/// `Gib Herrn Roth Zugriff`, `laat de heftruck keuren`: something is to be given to others, or done by them.
fn gives(all: &[Word]) -> bool {
    static GIVES: WordList =
        WordList::new(&["gib", "gebt", "geben", "geef", "give", "donne", "donnez", "laat", "lass", "lassen", "let", "tell", "sag", "zeg"]);
    static TO_USER: WordList = WordList::new(&["me", "us", "mir", "uns", "moi", "nous", "mij", "ons", "it", "mal", "eens", "bitte"]);
    let mut left = all.iter().skip_while(|word| requests().fillers.contains(&word.lower));
    let (first, next) = (left.next(), left.next());
    first.is_some_and(|first| GIVES.has(&first.lower)) && next.is_some_and(|next| !TO_USER.has(&next.lower))
}

/// First words of a sentence that tells something, in any language: who or what it is about.
static SUBJECTS: WordList = WordList::new(&[
    "i", "i'm", "i’m", "i've", "i’ve", "i'd", "i'll", "we", "we're", "we've", "he", "she", "it", "it's", "it’s", "they", "there", "that",
    "this", "my", "our", "the", "a", "an", "his", "her", "their", "your", "you", "next", "latest", "current", "best", "any", "some",
    "more", "no", "ich", "wir", "er", "sie", "es", "mein", "meine", "unser", "unsere", "der", "die", "das", "ein", "eine", "je", "j'ai",
    "j’ai", "nous", "il", "elle", "mon", "ma", "mes", "le", "la", "les", "l'", "un", "une", "yo", "mi", "mis", "el", "los", "las", "una",
    "io", "mio", "mia", "lo", "gli", "ho", "ha", "eu", "meu", "minha", "o", "os", "as", "um", "uma", "ik", "we", "mijn", "de", "het",
    "een", "ja", "mój", "moja", "moje", "ben", "benim", "bizim", "jag", "min", "mitt", "det", "den",
]);

/// Numbers with which a wish for so many lines or ideas begins.
static COUNTS: WordList = WordList::new(&[
    "one", "two", "three", "four", "five", "zwei", "drei", "deux", "trois", "dos", "tres", "due", "tre", "dois", "três", "twee", "drie",
    "dwa", "trzy", "iki", "üç",
]);

/// Marks of a statement in scripts of their own.
const TOLD_FIRST: &[&str] = &["我", "他", "她", "它", "你", "您", "俺", "私", "僕", "मैंने", "मेरे", "मेरी", "हमने"];
const TOLD_LAST: &[&str] =
    &["了没", "た", "たよ", "よ", "そう", "そうです", "らしい", "とのこと", "लिया है", "दिया है", "गया है", "गई है", "चुका है"];
/// Parts by which such a sentence is an order all the same.
const ORDERED: &[&str] = &["帮", "请", "給我", "给我", "让", "ください", "くれ", "して", "ほしい", "कर दो", "कर दीजिए", "करो", "करवा"];

/// True of a sentence that begins, or ends, as one that tells something. `all`: its words.
fn is_statement(sentence: &str, all: &[Word]) -> bool {
    let bare = sentence.trim().trim_end_matches(['.', '!', '。', '！', '।', ' ']);
    if ORDERED.iter().any(|part| bare.contains(part)) {
        return false;
    }
    if TOLD_FIRST.iter().any(|part| bare.starts_with(part)) || TOLD_LAST.iter().any(|part| bare.ends_with(part)) {
        return true;
    }
    let known = requests();
    let wishes = all.iter().any(|word| known.please.contains(&word.lower)) || (0..all.len()).any(|at| is_polite(sentence, &all[at..]));
    let first = all.iter().find(|word| !known.fillers.contains(&word.lower));
    let counts = |word: &Word| word.lower.starts_with(|c: char| c.is_ascii_digit()) || COUNTS.has(&word.lower);
    // Turkish has its verbs last: `5120 numaralı bulmacanın ipucunu değiştir`.
    let verb_last = || bare.contains(['ı', 'ğ', 'ş', 'İ']) && all.len() > 3;
    !wishes && first.is_none_or(|first| SUBJECTS.has(&first.lower) || counts(first) && !verb_last())
}

/// English verbs of orders that hardly a tool is named by; of none of them is a text the object.
static DEEDS: WordList = WordList::new(&[
    "shut",
    "dispute",
    "contest",
    "redeem",
    "void",
    "settle",
    "ring",
    "phone",
    "page",
    "warn",
    "bump",
    "push",
    "top",
    "refill",
    "fill",
    "empty",
    "drain",
    "flush",
    "lower",
    "raise",
    "increase",
    "decrease",
    "reduce",
    "crank",
    "warm",
    "heat",
    "cool",
    "preheat",
    "kill",
    "unplug",
    "plug",
    "power",
    "wipe",
    "clean",
    "vacuum",
    "mow",
    "feed",
    "walk",
    "deliver",
    "courier",
    "park",
    "tow",
    "unsubscribe",
    "unfollow",
    "follow",
    "upvote",
    "star",
    "unstar",
    "join",
    "quit",
    "enroll",
    "enrol",
    "unenroll",
    "sell",
    "bid",
    "delist",
    "unlist",
    "relist",
    "reprice",
    "discount",
    "bar",
    "ban",
    "unban",
    "kick",
    "evict",
    "fire",
    "promote",
    "demote",
    "reassign",
    "delegate",
    "route",
    "redirect",
    "divert",
    "reroute",
    "rebook",
    "roll",
    "recall",
    "return",
    "replace",
    "repair",
    "recalibrate",
    "calibrate",
    "squash",
    "rebase",
    "seed",
    "reindex",
    "spin",
    "tear",
    "deprovision",
    "whitelist",
    "blacklist",
    "allow",
    "deny",
    "permit",
    "disarm",
    "draw",
    "spray",
    "harvest",
    "plant",
    "sow",
    "quarantine",
    "isolate",
    "relocate",
    "flick",
    "play",
    "shuffle",
    "queue",
    "stream",
    "cast",
    "unmute",
    "snooze",
    "dismiss",
    "postpone",
    "delay",
    "accept",
    "decline",
    "authorise",
    "authorize",
    "suspend",
    "reinstate",
    "activate",
    "deactivate",
    "upgrade",
    "downgrade",
    "recharge",
    "bill",
    "invoice",
    "donate",
    "tip",
    "lodge",
    "enter",
    "scrap",
    "bin",
    "trash",
    "restore",
    "back",
    "hide",
    "unhide",
    "unpublish",
    "unpin",
    "pull",
    "take",
    "get",
    "have",
    "hold",
    "order",
    "skip",
    "stop",
    "let",
    "tell",
    "remind",
    "wake",
    "call",
    "text",
]);

/// Words that join two orders.
/// Verbs by which somebody is let know something.
static LETS: WordList = WordList::new(&["let", "laat", "lass", "lasst", "fais", "faites", "hazle", "haz", "fai", "fate", "faz", "faça"]);
static KNOWS: WordList = WordList::new(&["know", "weten", "wissen", "savoir", "saber", "sapere"]);

/// `Get me a cab`, `find us two seats`: a thing is wanted, not a piece of information.
fn is_errand(left: &[Word], known: &Requests) -> bool {
    static INFORMATION: WordList = WordList::new(&[
        "list",
        "summary",
        "overview",
        "quote",
        "price",
        "number",
        "report",
        "status",
        "breakdown",
        "idea",
        "sense",
        "look",
        "count",
        "rate",
        "picture",
        "update",
        "estimate",
        "total",
        "table",
        "figure",
        "copy",
        "reading",
        "forecast",
        "map",
        "quick",
        "short",
        "brief",
        "rough",
    ]);
    let word = |at: usize| left.get(at).map_or("", |word| word.lower.as_str());
    let fetched = word(0) == "get" && matches!(word(1), "me" | "us" | "her" | "him" | "them");
    let one =
        ["a", "an", "another", "one", "two", "three", "four", "the"].contains(&word(2)) || word(2).bytes().all(|b| b.is_ascii_digit());
    let told = (3..6).any(|at| INFORMATION.has(word(at)) || known.infos.contains(word(at)));
    fetched && one && !word(2).is_empty() && word(2) != "the" && !told
}

/// Does the message ask for a cause?
fn asks_why(message: &str) -> bool {
    let folded = format!(" {} ", fold(&message.replace(['\'', '’'], " ")));
    requests().whys.iter().any(|phrase| folded.contains(&format!(" {phrase} ")))
}

/// Is every sentence of the message a question for information?
fn is_question(message: &str) -> bool {
    let asks = |sentence: &str| sentence.trim_end().ends_with(['?', '？', '؟']) && !is_act(sentence, &words(sentence));
    let all: Vec<&str> = sentences(message).into_iter().filter(|sentence| !sentence.trim().is_empty()).take(SENTENCES_MAX).collect();
    !all.is_empty() && all.into_iter().all(asks)
}

/// Does the rest of the sentence begin as a question that asks for something to be done?
fn is_polite(sentence: &str, left: &[Word]) -> bool {
    left.first().and_then(|first| sentence.get(first.start..)).is_some_and(|rest| requests().polite.opens(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        for (message, act) in [
            ("Restart the router please", true),
            ("Get me a cab from the Grand to Pier 4 at 7:15", true),
            ("Get me a list of the cabs", false),
            ("Tell me when the headphones drop under 180.", true),
            ("Não me deixes esquecer do comprimido às 21h.", true),
            ("Can you tell me when the shop opens?", false),
            ("Get me the balance", false),
            ("push it", true),
            ("715 would like two extra towels.", true),
            ("it's too hot in here, 19 is plenty", true),
            ("Can you deal with it?", true),
            ("We're running late, can you move it to the 17:15?", true),
            ("Who's on for Friday morning? And the owners should know to keep their animals fasted.", true),
            ("Can the €6.40 be dropped?", true),
            ("cache-03 hängt, bitte einmal durchstarten.", true),
            ("Könntest du den Termin verschieben?", true),
            ("Prenotami L'amica geniale alla sede Centro.", true),
            ("A-811 alarmını onaylar mısın?", true),
            ("A-811 alarmını kontrol eder misin?", false),
            ("Rezervasyonu iptal eder misin?", true),
            ("Bugün açık mısın?", false),
            ("荷物の配達を土曜に変えてもらえますか。", true),
            ("残高を教えてもらえますか。", false),
            ("土曜は開いていますか。", false),
            ("क्या आप टेबल बुक कर सकते हैं?", true),
            ("安排周五中午和Kai吃饭", true),
            ("カメラをオフにして", true),
            ("Tell Paula I am late", true),
            ("Let Paula know I am late", true),
            ("Let me know the balance", false),
            ("Laat de bakker weten dat het later wordt", true),
            ("Write show notes for episode 58 and put them up.", true),
            ("Show me invoices and payments", false),
            ("Tell me the balance", false),
            ("How full are we on the 6th of October?", false),
            ("Show me my account balances", false),
            ("Can you tell me the balance?", false),
            ("Could you please check whether he paid?", false),
            ("Write a short apology to Ms Novak in 207.", false),
            ("Is Elm Street open tonight?", false),
            ("Are we too dear on the Pauillac?", false),
            ("TSH for Nowak?", false),
            ("I'd like to know the opening hours.", false),
            ("Haben wir morgen VIP-Anreisen?", false),
            ("Montre-moi à quoi ressemblerait un relevé.", false),
            ("我的包裹在哪里？", false),
            ("昨日の振込がなぜ戻ってきたのか教えてください。", false),
            ("", false),
        ] {
            assert_eq!(asks_for_act(message), act, "{message}");
        }
    }
}
