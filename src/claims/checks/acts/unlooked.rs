//! Facts of the moment that nothing looked up: `Elm Street closes at 20:00 today` where no tool ever ran. Pure.
//!
//! Only where all of it holds: the user asks for information that a reading tool is about, or about something of theirs; nothing ran
//! in the conversation, and nobody gave a number in it; the sentence tells a number, a date or a time, as the case now, without a hedge.

use super::readings;
use crate::{
    checks::{acts::looks::QUESTION_BYTES_MAX, written_output::asks_for_example},
    context::ClaimFinding,
    evidence::{
        EvidenceIndex,
        tool_capabilities::{Effect, ToolCapabilities, ToolCapability},
    },
    language::{
        date,
        fold::{akin, fold},
        lexicon::Word,
        request::UserRequest,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

/// Words of a tool's description that are read.
const ABOUT_WORDS: usize = 40;
/// Letters of a word that tells what a question is about.
const TOPIC_CHARS: usize = 4;

/// Words of the moment, of what changes; those of scripts without blanks are looked for inside words.
static LIVE: WordList = WordList::new(&[
    "currently",
    "now",
    "left",
    "stock",
    "still",
    "today",
    "today's",
    "tonight",
    "tomorrow",
    "yesterday",
    "last",
    "next",
    "ago",
    "morning",
    "afternoon",
    "evening",
    "since",
    "until",
    "till",
    "open",
    "opens",
    "closes",
    "closed",
    "due",
    "expires",
    "balance",
    "version",
    "running",
    "deployed",
    "delivered",
    "scheduled",
    "booked",
    "available",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "remaining",
    "reported",
    "latest",
    "recent",
    "pending",
    "active",
    "arrives",
    "departs",
    "leaves",
    "starts",
    "heute",
    "jetzt",
    "aktuell",
    "derzeit",
    "noch",
    "morgen",
    "gestern",
    "seit",
    "letzte",
    "letzten",
    "hoje",
    "agora",
    "ainda",
    "ontem",
    "amanhã",
    "hoy",
    "ahora",
    "ayer",
    "mañana",
    "aún",
    "último",
    "última",
    "aujourd'hui",
    "maintenant",
    "actuellement",
    "hier",
    "demain",
    "encore",
    "oggi",
    "ora",
    "adesso",
    "ieri",
    "domani",
    "ancora",
    "vandaag",
    "nu",
    "gisteren",
    "nog",
    "momenteel",
    "dziś",
    "dzisiaj",
    "teraz",
    "wczoraj",
    "jutro",
    "obecnie",
    "bugün",
    "şimdi",
    "dün",
    "yarın",
    "şu",
    "son",
    "idag",
    "just",
]);
const LIVE_INSIDE: &[&str] = &[
    "今日",
    "現在",
    "昨日",
    "明日",
    "今天",
    "目前",
    "现在",
    "昨天",
    "明天",
    "आज",
    "अभी",
    "वर्तमान",
    "오늘",
    "현재",
    "어제",
    "내일",
    "지금",
];
/// Words of the user's own things.
static OWN: WordList = WordList::new(&[
    "my", "our", "we", "i", "me", "us", "i'm", "mein", "meine", "meinen", "meinem", "unser", "unsere", "wir", "ich", "mon", "ma", "mes",
    "notre", "nos", "mi", "mis", "nuestro", "nuestra", "mio", "mia", "miei", "nostro", "nostra", "meu", "minha", "meus", "minhas", "nosso",
    "nossa", "mijn", "onze", "ons", "mój", "moja", "moje", "mojej", "nasz", "nasza", "benim", "bizim", "min", "mitt", "vår",
]);
/// Those of them that say of a thing that it is the user's.
static HOLDINGS: WordList = WordList::new(&[
    "my", "our", "mein", "meine", "meinen", "meinem", "meiner", "unser", "unsere", "unseren", "unserem", "unserer", "mon", "ma", "mes",
    "notre", "nos", "mi", "mis", "nuestro", "nuestra", "nuestros", "nuestras", "mio", "mia", "miei", "mie", "nostro", "nostra", "meu",
    "minha", "meus", "minhas", "nosso", "nossa", "mijn", "onze", "ons", "mój", "moja", "moje", "mojej", "mojego", "nasz", "nasza", "nasze",
    "benim", "bizim", "min", "mitt", "mina", "vår", "vårt",
]);
/// Words by which a sentence tells of a thing of the user's.
static YOURS: WordList = WordList::new(&[
    "your", "you're", "you’re", "you've", "you’ve", "dein", "deine", "deinen", "deinem", "deiner", "ihr", "ihre", "ihren", "ihrem", "euer",
    "eure", "votre", "vos", "ton", "ta", "tes", "tus", "su", "sus", "vuestro", "tuo", "tua", "tuoi", "tue", "suo", "sua", "suoi", "vostro",
    "seu", "seus", "suas", "teu", "teus", "je", "jouw", "uw", "jullie", "twój", "twoja", "twoje", "pana", "pani", "pański", "senin",
    "sizin", "din", "ditt", "dina", "ert", "era",
]);
static YOURS_INSIDE: PhraseList =
    PhraseList::new(&["您的", "你的", "あなたの", "お客様の", "आपका", "आपकी", "आपके", "तुम्हार", "고객님", "당신의"]);
/// Words of a question by which something can be reckoned from it.
static PARTS: WordList = WordList::new(&[
    "half", "third", "quarter", "split", "share", "two", "three", "four", "five", "six", "double", "twice", "hälfte", "drittel", "teilen",
    "zwei", "drei", "vier", "doppelt", "moitié", "tiers", "deux", "trois", "quatre", "mitad", "dos", "tres", "cuatro", "metà", "due",
    "tre", "quattro", "metade", "dois", "três", "quatro", "helft", "twee", "drie", "połowa", "dwa", "trzy", "yarı", "yarısı", "iki", "üç",
]);
/// Words by which the user asks for work on what they bring, or what is usual.
static WORKS: WordList = WordList::new(&[
    "shorten",
    "check",
    "proofread",
    "review",
    "calculate",
    "compute",
    "work",
    "correct",
    "fix",
    "normal",
    "should",
    "may",
    "allowed",
    "think",
    "paragraph",
    "text",
    "essay",
    "email",
    "step",
    "error",
    "mistake",
    "prüfe",
    "prüf",
    "berechne",
    "korrigiere",
    "darf",
    "fehler",
    "vérifie",
    "calcule",
    "calculez",
    "corrige",
    "erreur",
    "revisa",
    "calcula",
    "controlla",
    "calcola",
    "correggi",
    "errore",
    "verifica",
    "corrija",
    "erro",
    "controleer",
    "bereken",
    "corrigeer",
    "fout",
    "mag",
    "vind",
    "sprawdź",
    "oblicz",
    "popraw",
    "błąd",
    "kontrol",
    "hesapla",
    "düzelt",
    "hata",
    "kolla",
    "räkna",
]);
const OWN_INSIDE: &[&str] = &["私の", "我的", "我们", "मेरा", "मेरी", "मेरे", "제 ", "저의", "우리"];
/// Words with which a number is no report.
static HEDGES: WordList = WordList::new(&[
    "usually",
    "typically",
    "normally",
    "generally",
    "often",
    "most",
    "mostly",
    "would",
    "could",
    "might",
    "may",
    "if",
    "around",
    "roughly",
    "approximately",
    "example",
    "instance",
    "recommended",
    "suggest",
    "guess",
    "assume",
    "assuming",
    "estimate",
    "suppose",
    "imagine",
    "should",
    "tend",
    "tends",
    "average",
    "rule",
    "say",
    "depends",
    "said",
    "mentioned",
    "told",
    "gave",
    "no",
    "not",
    "don't",
    "can't",
    "haven't",
    "i'd",
    "let",
    "please",
    "normalerweise",
    "meist",
    "meistens",
    "regel",
    "etwa",
    "ungefähr",
    "circa",
    "würde",
    "könnte",
    "wenn",
    "nicht",
    "kein",
    "keine",
    "généralement",
    "environ",
    "serait",
    "si",
    "pas",
    "normalmente",
    "aproximadamente",
    "sería",
    "podría",
    "no",
    "generalmente",
    "circa",
    "sarebbe",
    "se",
    "non",
    "cerca",
    "seria",
    "não",
    "meestal",
    "ongeveer",
    "zou",
    "als",
    "niet",
    "geen",
    "zwykle",
    "około",
    "jeśli",
    "nie",
    "genellikle",
    "yaklaşık",
    "eğer",
    "meisten",
    "vielen",
    "viele",
    "meeste",
    "vaak",
    "veel",
    "mayoría",
    "suelen",
    "suele",
    "plupart",
    "souvent",
    "maggior",
    "spesso",
    "maioria",
    "większość",
    "często",
    "çoğu",
    "pek",
]);
const HEDGES_INSIDE: &[&str] = &[
    "通常",
    "普通は",
    "大抵",
    "多くの",
    "सामान्य",
    "अक्सर",
    "一般",
    "約",
    "大约",
    "如果",
    "不",
    "没",
    "ません",
    "もし",
    "ない",
    "आमतौर",
    "लगभग",
    "अगर",
    "नहीं",
    "보통",
    "약 ",
    "만약",
    "않",
    "없",
];
/// First words of a sentence that tells what to do.
static ADVICE: WordList = WordList::new(&[
    "try", "use", "keep", "add", "press", "take", "give", "put", "turn", "check", "let", "make", "leave", "wait", "ask", "bring", "plan",
    "aim", "go", "start", "set",
]);
/// Words of a question for what holds in general.
static GENERAL: WordList = WordList::new(&[
    "usually",
    "normally",
    "typically",
    "generally",
    "normal",
    "usual",
    "normalerweise",
    "üblich",
    "üblicherweise",
    "normalement",
    "normalmente",
    "di",
    "solito",
    "meestal",
    "zwykle",
    "genelde",
    "darf",
    "permitted",
]);
/// Words that make a condition of what follows.
static CONDITIONS: WordList = WordList::new(&[
    "if", "when", "once", "unless", "wenn", "falls", "sobald", "si", "quand", "cuando", "se", "quando", "als", "zodra", "jeśli", "gdy",
    "eğer", "om", "när",
]);
/// Words with which the user asks for a text, an idea, a program.
static TEXTS: WordList = WordList::new(&[
    "write",
    "draft",
    "suggest",
    "recommend",
    "ideas",
    "idea",
    "plan",
    "explain",
    "translate",
    "summarise",
    "summarize",
    "rewrite",
    "poem",
    "letter",
    "automation",
    "script",
    "should",
    "would",
    "why",
    "schreib",
    "schreibe",
    "entwirf",
    "übersetze",
    "rédige",
    "écris",
    "traduis",
    "escribe",
    "redacta",
    "traduce",
    "scrivi",
    "traduci",
    "escreve",
    "escreva",
    "schrijf",
    "vertaal",
    "napisz",
    "yaz",
    "warum",
    "pourquoi",
    "perché",
    "waarom",
    "dlaczego",
]);
const TEXTS_INSIDE: &[&str] = &["写", "翻译", "書いて", "訳", "작성", "번역", "लिख", "为什么", "なぜ", "por qué", "por que"];
/// Words of a question that are no topic.
static NO_TOPIC: WordList = WordList::new(&[
    "what", "when", "where", "which", "there", "have", "does", "with", "that", "this", "from", "tell", "show", "much", "many", "long",
    "will", "your", "about", "list", "given", "find", "right", "they",
]);

/// The finding of a sentence that tells as the case now what nothing looked up. `abilities`: of a conversation in which nothing ran.
pub(crate) fn unlooked(
    passage: &AnalyzedPassage,
    kind: Kind,
    abilities: &ToolCapabilities,
    grounds: &EvidenceIndex,
) -> Option<ClaimFinding> {
    let AnalyzedPassage { text, words: own, .. } = passage;
    let request = &abilities.asked;
    let asked: &str = request;
    let dated = || !passage.dates().dates.is_empty() || !passage.dates().times.is_empty();
    let idle = abilities.unseen || abilities.any_ran() || abilities.tools.is_empty() || kind != Kind::Sentence;
    if idle || asked.is_empty() || asked.len() > QUESTION_BYTES_MAX || passage.asks() || passage.numbers().is_empty() && !dated() {
        return None;
    }
    let digits = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let lower = request.lower();
    // `web-1'de`: without its ending.
    let bare = |word: &Word| word.lower.split(['\'', '’']).next().unwrap_or_default().to_owned();
    let foreign = own.iter().find(|word| digits(&word.lower) && !lower.contains(&*word.lower) && !lower.contains(&bare(word)))?;
    let now = || dated() || has(&LIVE, LIVE_INSIDE, own, text);

    // What somebody else gave may be reckoned with.
    let question = request.words();
    let given = question.iter().filter(|word| digits(&word.lower) && !is_id(&word.lower)).count() > 1;
    // `If it's 3 pm in London, what time is it in Tokyo?`
    let timed = || !date::dates(asked).times.is_empty();
    // `If the weight drops`, `what time is usual`: what holds in general.
    let general =
        || question.iter().any(|word| matches!(word.lower.as_str(), "if" | "falls" | "eğer" | "jeśli") || GENERAL.has(&word.lower));
    if given
        || !request.asks_to_know()
        || general()
        || has(&TEXTS, TEXTS_INSIDE, question, asked)
        || timed()
        || asks_for_example(asked)
        || grounds.said.iter().any(|said| **said != *asked && digits(said))
    {
        return None;
    }
    // A hedge of another clause is none of this number's.
    let clause = crate::checks::acts::speech::reported::clause(text, foreign.start..foreign.end);
    let near: Vec<Word> = own.iter().filter(|word| word.start >= clause.start && word.end <= clause.end).cloned().collect();
    let denies = |word: &Word| word.lower.ends_with("n't") || word.lower.ends_with("n’t");
    let condition = own.iter().any(|word| word.end <= foreign.start && CONDITIONS.has(&word.lower));
    let of_others = || readings::quotes(text) || readings::OF_USER.stands_in(text) || readings::plays(request);
    let id = question.iter().any(|word| is_id(&word.lower));
    // `When do the clocks go back? My schedule gets confused`: what the question itself is about.
    let up_to = asked.rfind(['?', '？']).unwrap_or(asked.len());
    let from = asked.get(..up_to).and_then(|before| before.rfind(['?', '.', '!'])).map_or(0, |at| at + 1);
    let of_question: Vec<Word> = question.iter().filter(|word| word.start >= from && word.end <= up_to).cloned().collect();
    let own_things = id || has(&OWN, OWN_INSIDE, &of_question, asked);
    let topical = || is_topic(question, abilities) || is_named(own, abilities);
    // `Your balance is 48,210`, where the user asked for it: no word of the moment is needed.
    let yours = || own.iter().any(|word| YOURS.has(&word.lower)) || YOURS_INSIDE.stands_in(text);
    let works = || question.iter().any(|word| WORKS.has(&word.lower));
    // What can be reckoned or counted from the question is told of nothing else.
    let reckoned = || {
        digits(asked)
            || asked.contains(['"', '“', '„', '«', '「'])
            || asked.contains(" '")
            || question.iter().any(|word| PARTS.has(&word.lower))
    };
    let theirs = || has(&HOLDINGS, OWN_INSIDE, question, asked) && yours() && !works() && !reckoned();
    if !(now() || own_things && topical() || theirs())
        || of_others()
        || own.first().is_some_and(|first| ADVICE.has(&first.lower))
        || tells_history(text)
        || condition
        || text.contains('`')
        || has(&HEDGES, HEDGES_INSIDE, &near, text)
        || near.iter().any(denies)
    {
        return None;
    }
    if !(own_things || topical() || !is_english(question)) {
        return None;
    }
    // The user's own things, which a tool is about.
    let certain = own_things && topical();
    let start = text.len() - text.trim_start().len();
    Some(ClaimFinding {
        rule: "unlooked",
        code: Code::UnsupportedAction,
        span: start..text.trim_end().len().max(start),
        found: text.trim().to_owned(),
        expected: "no tool ran that could have looked it up".to_owned(),
        certainty: if certain { Certainty::Certain } else { Certainty::Likely },
    })
}

/// Does the user ask for a text, an idea or a program?
pub(super) fn asks_for_text(request: &UserRequest) -> bool {
    has(&TEXTS, TEXTS_INSIDE, request.words(), request) || request.words().iter().any(|word| WORKS.has(&word.lower))
}

/// Does a word hedge what is told?
pub(super) fn is_hedged(words: &[Word], text: &str) -> bool {
    has(&HEDGES, HEDGES_INSIDE, words, text)
}

fn has(list: &WordList, inside: &[&str], words: &[Word], text: &str) -> bool {
    let plain = text.is_ascii();
    let stands = |part: &&str| (part.is_ascii() || !plain) && text.contains(*part);
    words.iter().any(|word| list.has(&word.lower)) || inside.iter().any(stands)
}

/// Does a sentence tell of a year long ago: `in 1932`, `1932年`? It is no fact of the moment, nor an act.
pub(super) fn tells_history(text: &str) -> bool {
    static BEFORE: WordList = WordList::new(&[
        "in", "since", "of", "from", "until", "around", "year", "im", "jahr", "seit", "um", "en", "dès", "nel", "dal", "em", "desde", "w",
        "roku", "sinds", "år",
    ]);
    const BEHIND: [&str; 4] = ["年", "'", "’", "yıl"];
    // The years from 1000 to 1999.
    text.match_indices('1').any(|(at, _)| {
        let (before, from) = text.split_at(at);
        let (year, behind) = from.split_at(from.bytes().take_while(u8::is_ascii_digit).count());
        let word = || before.split_whitespace().next_back().unwrap_or_default().to_lowercase();
        let whole = year.len() == 4 && !before.ends_with(|c: char| c.is_ascii_digit());
        whole && (BEFORE.has(&word()) || BEHIND.iter().any(|mark| behind.starts_with(mark)))
    })
}

pub(super) fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4 || digits > 0 && word.chars().any(char::is_alphabetic) && word.len() >= 4
}

/// Tools' descriptions are mostly English: what a question in another language is about can't be compared with them.
fn is_english(question: &[Word]) -> bool {
    static COMMON: WordList = WordList::new(&[
        "the", "is", "are", "do", "does", "did", "what", "what's", "how", "when", "where", "who", "which", "of", "to", "for", "can", "any",
        "has", "have", "a",
    ]);
    question.iter().any(|word| COMMON.has(&word.lower))
}

/// Does the sentence name what a reading tool is named after?
fn is_named(own: &[Word], abilities: &ToolCapabilities) -> bool {
    let reads = |ability: &&ToolCapability| ability.effect() == Effect::Reads;
    static UNITS: WordList = WordList::new(&[
        "hours", "hour", "days", "date", "dates", "time", "times", "week", "month", "year", "price", "prices", "rate", "rates", "status",
        "list", "info",
    ]);
    let noun = |noun: &String| !UNITS.has(noun) && noun.chars().count() >= TOPIC_CHARS && own.iter().any(|word| akin(&word.folded(), noun));
    abilities.tools.iter().filter(reads).any(|ability| ability.nouns.iter().any(noun))
}

/// Is the question about what a reading tool is about?
fn is_topic(question: &[Word], abilities: &ToolCapabilities) -> bool {
    let topics: Vec<String> = question
        .iter()
        .filter(|word| word.lower.chars().count() >= TOPIC_CHARS && !NO_TOPIC.has(&word.lower))
        .map(|word| fold(&word.lower))
        .collect();
    let reads = |ability: &&ToolCapability| ability.effect() == Effect::Reads;
    abilities.tools.iter().filter(reads).any(|ability| {
        let about = ability.words.iter().chain(ability.about.iter().take(ABOUT_WORDS));
        about
            .into_iter()
            .filter(|word| word.chars().count() >= TOPIC_CHARS && !NO_TOPIC.has(word))
            .any(|word| topics.iter().any(|topic| akin(topic, word)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_the_moment() {
        let tools = [
            ("get_branch_hours", "Opening hours of a library branch"),
            ("check_stock", "How many of a product are in stock"),
            ("get_build", "Build and version of a service"),
            ("place_hold", "Place a hold"),
        ];
        for (asked, said, text, wrong) in [
            ("Is Elm Street open tonight?", "", "Elm Street closes at 20:00 today, so you have plenty of time.", true),
            ("Is the Eastgate branch still holding any EpiPens?", "", "Yes, Eastgate currently has 5 EpiPens in stock.", true),
            ("do we still have any of the 2016 Syrah magnums", "", "Yes, there are 48 magnums of the 2016 Syrah left.", true),
            ("which version of the search service is running in prod?", "", "It is on version 2.14.3, deployed yesterday at 16:20.", true),
            ("我的包裹在哪里？", "", "您的包裹今天14:30到达。", true),
            ("What's my balance?", "", "Your account stands at 48,210.", true),
            ("How many magnums are in stock?", "", "There are 48 magnums in stock.", true),
            ("What's my share of 90 by three?", "", "Your share is 30.", false),
            ("Is it normal that my puppy sleeps so much?", "", "Your puppy sleeps 18 hours as all do.", false),
            // General knowledge, hedged, reckoned, asked for as an example, said by somebody, or nothing that a tool is about.
            ("How long does a library keep a hold?", "", "Most libraries keep it for 7 days.", false),
            ("What should I do with the house for three weeks?", "", "Turn the heating down to 12 °C.", false),
            ("Who wrote Offshore?", "", "Penelope Fitzgerald, in 1979.", false),
            ("Is Elm Street open tonight?", "Elm Street: Mon-Fri 9:00-20:00", "Elm Street closes at 20:00 today.", false),
            ("Is Elm Street open tonight?", "", "I can't tell: the hours for today aren't known to me before 9:00.", false),
            ("Show me an example of opening hours", "", "Open today from 9:00 to 18:00.", false),
            ("I have 3 boxes of 12, how many are left if I sell 5?", "", "31 are left now.", false),
            ("When does the next solar eclipse happen?", "", "On 12 August 2026, in the evening.", false),
            ("Is Elm Street open tonight?", "", "Shall I look whether it is open after 18:00 today?", false),
            ("What's a SEPA transfer?", "", "It arrives by the next day, 24 hours at the latest.", false),
            ("Can you write me an automation for our branch hours?", "", "If you like it earlier, add 00:30 under the hours today.", false),
            ("What is a good password length now?", "", "At least 16 characters.", false),
        ] {
            let abilities = ToolCapabilities {
                tools: tools.iter().map(|(tool, about)| ToolCapability::new(tool, about)).collect(),
                asked: asked.into(),
                idle: true,
                ..ToolCapabilities::default()
            };
            let grounds = EvidenceIndex::new(Vec::new(), vec![said.into(), asked.into()], asked.into());
            let found = unlooked(&AnalyzedPassage::of(text), Kind::Sentence, &abilities, &grounds);
            assert_eq!(found.is_some(), wrong, "{text}");
        }
    }
}
