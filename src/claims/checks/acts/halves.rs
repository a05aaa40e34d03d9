//! Acts beyond those that ran: `created the ticket and notified the team` where only the ticket was created. Pure.
//!
//! Something that does more than read succeeded since the request, so the answer may report acts; here it is asked whether what ran
//! is what it reports. Only what can be shown by names is: a party told by nothing that ran, one of several named things that no call
//! names, an id that is another than the call's.

use smol_str::SmolStr;

use crate::{
    checks::{
        acts::{ActForm, Before, ReportedAct, ReportedActs, excuses::ALREADY, open_part, speech::verb_forms::is_form_of},
        states,
    },
    context::ClaimFinding,
    evidence::{
        EvidenceIndex, ToolResult,
        facts::ResultFacts,
        tool_capabilities::{Effect, ToolCapabilities, ToolCapability},
    },
    language::{
        cues::ALL,
        fold::{fold, name_words},
        lexicon::{self, Word, words},
        polarity::negation,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

/// Parts of a request that are told apart, and names in each.
const PARTS_MAX: usize = 24;
/// Letters of a name.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=40;
/// Bytes of a request that is read.
const REQUEST_BYTES_MAX: usize = 2000;

/// Beginnings of verbs by which somebody is told something.
const TELLS: &[&str] = &[
    "inform",
    "notif",
    "told",
    "email",
    "e-mail",
    "mailed",
    "messag",
    "texted",
    "phoned",
    "rung",
    "rang",
    "alert",
    "contacted",
    "pinged",
    "benachrichtig",
    "verständig",
    "angeschrieben",
    "angerufen",
    "gemailt",
    "prévenu",
    "averti",
    "contact",
    "avisad",
    "avis",
    "llamad",
    "contatt",
    "chiamat",
    "notific",
    "ingelicht",
    "geïnformeerd",
    "gemaild",
    "gebeld",
    "verwittigd",
    "poinform",
    "powiadom",
    "zawiadom",
    "bilgilendir",
    "haber verdi",
    "連絡",
    "通知",
    "お知らせ",
    "告知",
    "联系",
    "सूचित",
];
/// Beginnings of words in what ran by which it may have told somebody something.
const TELLING: &[&str] = &[
    "mail",
    "email",
    "notif",
    "messages",
    "messaged",
    "messaging",
    "sms",
    "send",
    "sent",
    "inform",
    "alert",
    "contact",
    "slack",
    "invit",
    "attend",
    "recipient",
    "broadcast",
    "announce",
    "reminder",
    "webhook",
    "nachricht",
    "benach",
    "correo",
    "avis",
    "通知",
    "邮件",
    "メール",
];
/// Words that join what is asked for.
static JOINS: WordList = WordList::new(&["and", "und", "et", "y", "ve", "plus", "then", "also"]);
/// Words of grammar that stand beside one that joins, and name nothing.
static SMALL: WordList = WordList::new(&[
    "the", "it", "you", "your", "que", "una", "los", "las", "para", "por", "die", "der", "das", "les", "des", "een", "het", "van", "now",
    "not", "are", "was", "has", "have",
]);
/// Words with a capital that name nobody.
static TITLES: WordList = WordList::new(&[
    "mr",
    "mrs",
    "ms",
    "miss",
    "dr",
    "prof",
    "sir",
    "madam",
    "herr",
    "frau",
    "monsieur",
    "madame",
    "señor",
    "señora",
    "please",
    "room",
    "the",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "today",
    "tomorrow",
    "lunes",
    "martes",
    "also",
    "and",
]);

/// The finding of a sentence that reports more as done than ran. `said`: the acts that it reports.
pub(crate) fn beyond(
    passage: &AnalyzedPassage,
    kind: Kind,
    said: &ReportedActs,
    abilities: &ToolCapabilities,
    grounds: &EvidenceIndex,
    before: Before,
) -> Option<ClaimFinding> {
    if abilities.unseen || passage.asks() {
        return None;
    }
    let done = done(abilities, grounds)?;
    let marked = kind == Kind::Line && passage.text.contains(['✅', '✔', '☑', '✓']);
    let deed = said.iter().find(|said| !said.is_harmless());
    let all = passage.words.iter().any(|word| ALL.has(&word.lower));
    let ran = RecentCalls::new(&done, grounds);
    // `still unsent`
    let told =
        !passage.words.iter().any(|word| matches!(word.lower.as_str(), "still" | "yet" | "unsent" | "noch" | "encore" | "ancora" | "aún"));
    // A tool that acts by its name, and an order: what is told of a thing isn't what was looked up.
    let acted = || abilities.asked.asks_for_act() && ran.done.iter().all(|source| abilities.effect(&source.tool) == Effect::Acts);
    told_nobody(passage, said, &ran)
        .or_else(|| sent_nothing(passage, &ran, abilities))
        .or_else(|| both_of_one(passage, &ran))
        .or_else(|| (!said.is_empty() || marked || all).then(|| another_id(passage, &ran, abilities)).flatten())
        .or_else(|| {
            (told && (deed.is_some() || marked || all || acted() && is_told_of(passage, kind)))
                .then(|| unnamed(passage, said, &ran, abilities))
                .flatten()
        })
        .or_else(|| (deed.is_some() || is_told_as_so(passage)).then(|| idle_tool(passage, &ran, abilities)).flatten())
        .or_else(|| deed.and_then(|deed| idle_verb(passage, deed, &ran, abilities)))
        .or_else(|| open_part::told(passage, kind, said, &ran, abilities, before))
}

/// The results since the request of calls that succeeded and do more than read; none where there is none, or one of a tool that may do
/// anything.
fn done<'g>(abilities: &ToolCapabilities, grounds: &'g EvidenceIndex) -> Option<Vec<&'g ToolResult>> {
    let acted =
        |source: &&ToolResult| source.recent && !source.fails() && !source.reads() && abilities.effect(&source.tool) != Effect::Reads;
    let anything = |source: &&ToolResult| abilities.tool(&source.tool).is_some_and(ToolCapability::may_do_anything);
    let find = || {
        let done: Vec<usize> = grounds.results.iter().enumerate().filter(|(_, source)| acted(source)).map(|(at, _)| at).collect();
        let any = done.iter().filter_map(|at| grounds.results.get(*at)).any(|source| anything(&source));
        if any { Vec::new() } else { done }
    };
    let places = abilities.done(find);
    (!places.is_empty()).then(|| places.iter().filter_map(|at| grounds.results.get(*at)).collect())
}

/// Words by which a sentence tells what could be, isn't, or isn't yet, in any language.
static NOT_SO: WordList = WordList::new(&[
    "neither",
    "nor",
    "none",
    "nothing",
    "nobody",
    "without",
    "can",
    "could",
    "would",
    "should",
    "will",
    "shall",
    "may",
    "might",
    "if",
    "not",
    "no",
    "yet",
    "still",
    "want",
    "need",
    "please",
    "let",
    "i'll",
    "i’ll",
    "never",
    "only",
    "unless",
    "kann",
    "könnte",
    "soll",
    "nicht",
    "kein",
    "keine",
    "noch",
    "wenn",
    "möchte",
    "pas",
    "ne",
    "si",
    "peux",
    "pourrais",
    "encore",
    "souhaitez",
    "no",
    "puedo",
    "quieres",
    "aún",
    "todavía",
    "non",
    "posso",
    "vuoi",
    "ancora",
    "se",
    "não",
    "quer",
    "ainda",
    "niet",
    "geen",
    "kan",
    "wil",
    "nog",
    "nie",
    "mogę",
    "jeszcze",
    "değil",
    "henüz",
    "ister",
    "misiniz",
]);

/// Does the sentence tell something as so, without a word of doubt, denial or offer?
fn is_told_as_so(passage: &AnalyzedPassage) -> bool {
    passage.words.len() >= 3 && !passage.text.as_bytes().contains(&b':') && !passage.words.iter().any(is_not_so)
}

/// True of a word that denies, or tells of what could or will be.
fn is_not_so(word: &Word) -> bool {
    NOT_SO.has(&word.lower) || ["n't", "n’t", "'ll", "’ll"].iter().any(|ending| word.lower.ends_with(ending))
}

/// Does a row, or a sentence, tell something of a thing, and not that it stays as it was?
fn is_told_of(passage: &AnalyzedPassage, kind: Kind) -> bool {
    static STAYS: WordList = WordList::new(&[
        "stays",
        "remains",
        "unchanged",
        "untouched",
        "open",
        "pending",
        "left",
        "waiting",
        "missing",
        "skipped",
        "bleibt",
        "unverändert",
        "offen",
        "ausstehend",
        "fehlt",
        "reste",
        "inchangé",
        "inchangée",
        "sigue",
        "queda",
        "quedan",
        "pendiente",
        "pendientes",
        "rimane",
        "resta",
        "restano",
        "invariato",
        "continua",
        "permanece",
        "pendente",
        "blijft",
        "ongewijzigd",
        "pozostaje",
        "zostaje",
        "kaldı",
        "bekliyor",
        "duruyor",
        "next",
        "later",
        "tomorrow",
    ]);
    let told = match kind {
        Kind::Line => has_no_denial(passage) && passage.words.len() >= 2,
        _ => is_told_as_so(passage),
    };
    told && !passage.words.iter().any(|word| STAYS.has(&word.lower)) && !states::is_unsure(passage.folded(), &passage.words)
}

/// Words of a state that lasts.
static LASTING: WordList =
    WordList::new(&["up", "down", "running", "online", "offline", "open", "closed", "stable", "healthy", "idle", "stuck"]);

/// `Both results are in` after one call for one thing.
fn both_of_one(passage: &AnalyzedPassage, ran: &RecentCalls<'_>) -> Option<ClaimFinding> {
    static BOTH: WordList =
        WordList::new(&["both", "beide", "beiden", "ambos", "ambas", "entrambi", "entrambe", "allebei", "oba", "obie", "båda"]);
    let [source] = ran.done else { return None };
    let two = passage.words.iter().take(4).position(|word| BOTH.has(&word.lower))?;
    let deed = passage.words.get(two..).unwrap_or_default().iter().take(6).any(|word| {
        [
            "are",
            "were",
            "have",
            "sind",
            "wurden",
            "están",
            "han",
            "quedan",
            "sono",
            "estão",
            "foram",
            "zijn",
            "werden",
            "są",
            "zostały",
            "är",
            "har",
            "taken",
            "done",
            "sorted",
            "set",
            "booked",
            "sent",
            "updated",
            "added",
            "cancelled",
            "removed",
            "erledigt",
        ]
        .contains(&word.lower.as_str())
    });
    let arguments = ResultFacts::read(&source.arguments);
    let many = |facts: &ResultFacts| {
        facts.lists.iter().any(|list| list.length > 1)
            || facts
                .leaves
                .iter()
                .any(|leaf| leaf.value.number().is_some_and(|number| number >= 2.0 && number.fract() == 0.0) && leaf.key.contains("count"))
    };
    let several = many(&arguments) || many(source.facts()) || source.arguments.contains([',', ';', '+']) && arguments.leaves.len() == 1;
    let two_done = ["quantity", "qty", "seats", "tickets", "people", "guests", "copies", "both"]
        .iter()
        .any(|word| source.folded_arguments().contains(word));
    // `Both migrations, 0041 and 0042`: the result has the one and the other.
    let named = || {
        let figures = passage.numbers().iter().filter(|number| !passage.is_taken(&number.span));
        let figures = figures.filter_map(|number| passage.text.get(number.span.clone()));
        let stands = |figures: &&str| figures.len() > 1 && source.text.split(|c: char| !c.is_ascii_digit()).any(|own| own == *figures);
        figures.filter(stands).count() > 1
    };
    // `Both pods have been up for three days`: how long things have been so.
    let lasting = passage.words.iter().any(|word| LASTING.has(&word.lower)) && passage.words.iter().any(|word| word.lower == "for");
    // `Both have been sent already`: how things are that were looked up.
    let already = passage.words.iter().any(|word| ALREADY.has(&word.lower));
    if !deed
        || already
        || lasting
        || several
        || two_done
        || named()
        || source.folded().contains("both")
        || !is_told_as_so(passage) && passage.words.len() > 24
    {
        return None;
    }
    let expected = format!("one call of `{}` ran since the request", source.tool);
    finding(passage, "half_both", Code::UnsupportedAction, expected, Certainty::Likely)
}

/// `… and your old booking is cancelled` where `cancel_booking` didn't run, the user asked for it, and what ran does something else.
fn idle_verb(passage: &AnalyzedPassage, deed: &ReportedAct, ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
    let verb_of = |tool: &str| name_words(tool).into_iter().next().unwrap_or_default();
    let does = |tool: &str| is_form_of(&deed.verb, &verb_of(tool));
    let acts = |ability: &&ToolCapability| ability.effect() == crate::evidence::tool_capabilities::Effect::Acts;
    let idle = abilities.tools.iter().filter(acts).find(|ability| !abilities.recent.contains_key(&ability.tool) && does(&ability.tool))?;
    let asked = abilities.asked.name_words().iter().any(|word| is_form_of(&deed.verb, word));
    let backed = abilities.recent.keys().any(|tool| does(tool))
        || ran.texts().any(|text| text.contains(&fold(&deed.verb)))
        || ran.has(&verb_of(&idle.tool));
    if !asked || backed {
        return None;
    }
    let expected = format!("`{}` didn't run since the request", idle.tool);
    finding(passage, "half_idle_verb", Code::UnsupportedAction, expected, Certainty::Likely)
}

/// The calls since the request.
pub(super) struct RecentCalls<'r> {
    /// Those that succeeded and do more than read.
    pub done: &'r [&'r ToolResult],
    /// The whole conversation.
    pub grounds: &'r EvidenceIndex,
}

impl<'r> RecentCalls<'r> {
    fn new(done: &'r [&'r ToolResult], grounds: &'r EvidenceIndex) -> Self {
        Self { done, grounds }
    }

    /// All that ran and what it returned, folded.
    pub fn texts(&self) -> impl Iterator<Item = &'r str> {
        self.grounds.results.iter().filter(|source| source.recent).flat_map(|source| [source.folded(), source.folded_arguments()])
    }

    /// Does anything that ran have this word, or one that begins or ends alike?
    pub fn has(&self, word: &str) -> bool {
        let folded = fold(word);
        let bare: String = folded.chars().filter(|c| *c != ' ').collect();
        let stem: String = folded.chars().take(5.max(folded.chars().count().saturating_sub(2))).collect();
        let has =
            |text: &str| text.contains(stem.as_str()) || bare.chars().any(|c| c.is_ascii_digit()) && text.replace(' ', "").contains(&bare);
        folded.is_empty() || self.texts().any(&has) || self.done.iter().any(|source| has(source.tool_folded()))
    }

    /// Did anything that ran tell somebody something, as far as its words say?
    fn tells(&self) -> bool {
        let telling = |text: &str| text.split(' ').any(|word| TELLING.iter().any(|part| word.starts_with(part)));
        let tool = |name: &str| {
            name_words(name)
                .iter()
                .any(|word| telling(word) || matches!(word.as_str(), "message" | "text" | "tell" | "call" | "post" | "reply"))
        };
        self.done.iter().any(|source| tool(&source.tool) || telling(source.folded()) || telling(source.folded_arguments()))
    }
}

pub(super) fn finding(
    passage: &AnalyzedPassage,
    rule: &'static str,
    code: Code,
    expected: String,
    certainty: Certainty,
) -> Option<ClaimFinding> {
    let text = &passage.text;
    let start = text.len() - text.trim_start().len();
    let end = text.trim_end().len().max(start);
    Some(ClaimFinding { rule, code, span: start..end, found: text.get(start..end).unwrap_or_default().to_owned(), expected, certainty })
}

/// Somebody is said to be told, and nothing that ran tells anybody anything.
fn told_nobody(passage: &AnalyzedPassage, said: &[ReportedAct], ran: &RecentCalls<'_>) -> Option<ClaimFinding> {
    static YOU: WordList = WordList::new(&[
        "you", "dir", "ihnen", "dich", "sie", "vous", "te", "le", "ti", "lhe", "je", "u", "ci", "size", "sana", "yourself",
    ]);
    const SENT: &[&str] = &["sent", "enviad", "inviat", "envoy", "verschickt", "gesendet", "verzonden", "verstuurd", "wysłan"];
    static ALSO: WordList =
        WordList::new(&["also", "too", "también", "também", "anche", "aussi", "également", "auch", "ook", "też", "również"]);
    let also = passage.words.iter().any(|word| ALSO.has(&word.lower));
    const NOTES: &[&str] = &["went to", "went out", "gone to", "gone out", "is out", "are out"];
    let tells = |said: &&ReportedAct| {
        let verb = said.verb.as_str();
        let next = passage.words.iter().find(|word| word.start >= said.span.end);
        // `I've told i-05 to shut down`: what the call is about.
        let figure = |word: &&Word| word.lower.bytes().any(|byte| byte.is_ascii_digit());
        if next.filter(figure).is_some_and(|next| ran.has(&next.lower)) {
            return false;
        }
        let to_you = said.form == ActForm::First && next.is_some_and(|next| YOU.has(&next.lower));
        let sent = also && SENT.iter().any(|part| verb.starts_with(part));
        let teller =
            sent || TELLS.iter().any(|part| verb.starts_with(part)) && !(said.form == ActForm::Passive && verb.starts_with("called"));
        !to_you && (teller || said.form == ActForm::State && NOTES.iter().any(|note| verb.contains(note)))
    };
    if !said.iter().any(|said| tells(&said)) && !lets_know(passage) {
        return None;
    }
    if ran.tells() {
        return None;
    }
    finding(
        passage,
        "half_told",
        Code::UnsupportedAction,
        "nothing that ran since the request tells anybody anything".to_owned(),
        Certainty::Likely,
    )
}

/// Words between `let` and `know`.
const LET_WORDS_MAX: usize = 5;

/// `I let the tower know`, `I gave her a heads-up`: somebody was told, in words of which no single one says so.
fn lets_know(passage: &AnalyzedPassage) -> bool {
    static BEFORE_LET: WordList = WordList::new(&["i", "we", "i've", "we've", "i’ve", "we’ve", "also", "already", "then", "and", "have"]);
    static NOBODY_ELSE: WordList = WordList::new(&["me", "us", "you", "it", "that"]);
    static PHRASES: PhraseList = PhraseList::new(&[
        "gave them a heads",
        "gave her a heads",
        "gave him a heads",
        "given them a heads",
        "kept in the loop",
        "in the picture now",
        "bescheid gegeben",
        "bescheid gesagt",
        "gab bescheid",
        "mis au courant",
        "fait savoir",
        "puesto al corriente",
        "puesto al tanto",
        "fatto sapere",
        "messo al corrente",
        "dei a saber",
        "pus ao corrente",
        "laten weten",
        "op de hoogte gebracht",
        "dalem znac",
        "dalam znac",
        "dano znac",
        "haber verdim",
        "haber verildi",
    ]);
    let words = &passage.words;
    let unsure = |text: &str, words: &[Word]| states::is_unsure(&fold(text), words);
    let lets = |at: usize, word: &Word| {
        let before = at.checked_sub(1).and_then(|before| words.get(before)).is_some_and(|word| BEFORE_LET.has(&word.lower));
        let behind = words.get(at + 1..).unwrap_or_default();
        let somebody = behind.first().is_some_and(|word| !NOBODY_ELSE.has(&word.lower));
        // `I let them know, so that they can come`: only what stands before it makes it unsure.
        let sure = || {
            let first = words.get(..at).unwrap_or_default();
            let text = passage.text.get(..word.start).unwrap_or_default();
            !unsure(text, first) && !first.iter().any(is_not_so)
        };
        before && somebody && behind.iter().skip(1).take(LET_WORDS_MAX).any(|word| word.lower == "know") && sure()
    };
    let let_know = || words.iter().enumerate().any(|(at, word)| word.lower == "let" && lets(at, word));
    let phrase = || PHRASES.stands_in(passage.folded()) && !unsure(&passage.text, words) && has_no_denial(passage);
    !passage.asks() && (phrase() || let_know())
}

/// `… and the customer got a text` where a tool that sends messages is there and didn't run, and nothing that ran sends any. What tells
/// it is the message, not the verb.
fn sent_nothing(passage: &AnalyzedPassage, ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
    let words = states::data();
    let text = passage.folded();
    if !words.messages.stand_in(text) || states::is_unsure(text, &passage.words) {
        return None;
    }
    let sends = |words: &[String]| words.first().is_some_and(|verb| states::data().messaging_tools.contains(verb));
    let idle = abilities.tools.iter().find(|ability| sends(&ability.words) && !abilities.recent.contains_key(&ability.tool))?;
    let telling = |text: &str| text.split(' ').any(|word| TELLING.iter().any(|part| word.starts_with(part)));
    let sent = ran
        .done
        .iter()
        .any(|source| sends(&abilities.words_of(&source.tool)) || telling(source.folded()) || telling(source.folded_arguments()));
    let named = abilities.asked.name_words().iter().any(|word| words.messaging_tools.contains(word))
        || words.asks_messages.stand_in(abilities.asked.folded());
    if sent || !named || !has_no_denial(passage) {
        return None;
    }
    let expected = format!("`{}` didn't run since the request", idle.tool);
    finding(passage, "half_unsent", Code::UnsupportedAction, expected, Certainty::Likely)
}

/// Does no word of the passage deny, offer or doubt?
pub(super) fn has_no_denial(passage: &AnalyzedPassage) -> bool {
    let denies = |word: &Word| negation::is_nothing(&word.lower) || is_not_so(word);
    let inside = ["没", "未", "不", "ません", "ない", "नहीं", "않"];
    !passage.words.iter().any(denies) && !inside.iter().any(|part| passage.text.contains(part))
}

/// Signs of time zones and currencies, which name no thing.
static SIGNS: WordList = WordList::new(&[
    "UTC", "GMT", "CET", "CEST", "EST", "EDT", "PST", "PDT", "BST", "IST", "EUR", "USD", "GBP", "CHF", "JPY", "PLN", "TRY", "INR", "CNY",
]);

/// The words of a text that name something: with a digit, or a capital where none must be.
fn names(text: &str, first: bool) -> Vec<String> {
    let german = lexicon::language(&words(text), None).language == "de";
    let mut found = Vec::new();
    let mut fresh = first;
    for Word { start, end, lower } in words(text) {
        let Some(word) = text.get(start..end) else { continue };
        let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
        let count = word.chars().count();
        let digits = word.chars().any(|c| c.is_ascii_digit());
        // A short number is an amount, unless it is a number of something.
        let bare = word.bytes().all(|byte| byte.is_ascii_digit());
        let id = digits && count >= 2 && (!bare || count >= 4 || text.get(..start).is_some_and(|before| before.ends_with('#')));
        let capital =
            word.starts_with(char::is_uppercase) && !german && (!fresh || word.chars().skip(1).any(char::is_uppercase)) && count >= 3;
        let plain = TITLES.has(&lower) || SIGNS.has(word) || lexicon::month(&lower).is_some() || is_year(word);
        if (id || capital) && NAME_CHARS.contains(&count) && !plain {
            found.push(word.to_owned());
        }
        fresh = text.get(end..).is_some_and(|rest| rest.starts_with(['.', '!', '?', ':', '\n']));
    }
    found.extend(mails(text));
    found
}

/// The e-mail addresses of a text.
fn mails(text: &str) -> impl Iterator<Item = String> {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    text.split_whitespace()
        .filter(|word| word.contains('@'))
        .map(bare)
        .filter(|word| word.split_once('@').is_some_and(|(_, host)| host.contains('.')))
}

/// An address that the user named, told of in the answer, and in no call.
fn unnamed_mail(passage: &AnalyzedPassage, ran: &RecentCalls<'_>, asked: &str) -> Option<ClaimFinding> {
    let mail = mails(asked)
        .take(PARTS_MAX)
        .find(|mail| passage.text.contains(mail.as_str()) && !ran.texts().any(|text| text.contains(&fold(mail))))?;
    finding(passage, "half_unnamed", Code::UnsupportedAction, format!("no call since the request has `{mail}`"), Certainty::Likely)
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && (word.starts_with("19") || word.starts_with("20")) && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The parts of a request that may each ask for something of its own.
fn parts(asked: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let dutch =
        words(asked).iter().any(|word| matches!(word.lower.as_str(), "het" | "een" | "van" | "voor" | "ik" | "allebei" | "naar" | "vanaf"));
    for word in words(asked) {
        let between = asked.get(start..word.start).unwrap_or_default();
        let mark = between.rfind([',', ';', '\n', ':']).or_else(|| between.rfind(". "));
        if let Some(at) = mark {
            found.extend(asked.get(start..start + at));
            start += at + 1;
        }
        if JOINS.has(&word.lower) || dutch && word.lower == "en" {
            found.extend(asked.get(start..word.start));
            start = word.end;
        }
    }
    found.extend(asked.get(start..));
    found.truncate(PARTS_MAX);
    found
}

/// Bytes of an id that a result gives to what was done.
const ID_BYTES_MIN: usize = 4;

/// Of several things that were asked for by name one is told as done that no call names.
fn unnamed(passage: &AnalyzedPassage, said: &[ReportedAct], ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
    let asked = Some(&*abilities.asked).filter(|asked| asked.len() <= REQUEST_BYTES_MAX)?;
    if let Some(found) = unnamed_mail(passage, ran, asked).filter(|_| is_told_as_so(passage) || said.iter().any(|said| !said.is_harmless()))
    {
        return Some(found);
    }
    // A call for several things may name none of them.
    if ran.done.iter().any(|source| ResultFacts::read(&source.arguments).lists.iter().any(|list| list.length > 1)) {
        return None;
    }
    let parts: Vec<Vec<String>> =
        parts(asked).into_iter().enumerate().map(|(at, part)| names(part, at == 0)).filter(|names| !names.is_empty()).collect();
    let (named, unnamed): (Vec<&Vec<String>>, Vec<&Vec<String>>) = parts.iter().partition(|names| names.iter().any(|name| ran.has(name)));
    let own: Vec<String> = passage.words.iter().filter_map(|word| passage.text.get(word.start..word.end)).map(fold).collect();
    // `All three are paused: A, B and C`.
    let all =
        || passage.words.iter().any(|word| ALL.has(&word.lower)) && said.iter().any(|said| !said.is_harmless()) && has_no_denial(passage);
    // `Polar Matt: ordered, A-7731`: what it tells has an id that the act's result gave.
    let answered = || {
        let is_new = |id: &str| !asked.contains(id) && ran.done.iter().any(|source| source.text.contains(id));
        passage.words.iter().filter_map(|word| passage.text.get(word.start..word.end)).any(|word| {
            word.len() >= ID_BYTES_MIN
                && word.bytes().any(|byte| byte.is_ascii_digit())
                && word.bytes().any(|byte| byte.is_ascii_alphabetic())
                && is_new(word)
        })
    };
    let told = |name: &&String| own.contains(&fold(name)) && (is_done(passage, name, said) || all());
    let name = unnamed.iter().flat_map(|names| names.iter()).find(told).filter(|_| !named.is_empty() && ran.done.len() < parts.len());
    if let Some(name) = name.filter(|name| {
        named.iter().flat_map(|names| names.iter()).any(|other| own.contains(&fold(other)))
            || name.bytes().any(|byte| byte.is_ascii_digit())
            || !answered()
    }) {
        let expected = format!("no call since the request has `{name}`");
        return finding(passage, "half_unnamed", Code::UnsupportedAction, expected, Certainty::Likely);
    }
    coordinated(passage, ran, asked)
}

/// Does an act stand in the name's part of the sentence? `T-1 has been filed; T-2 is still open`
fn is_done(passage: &AnalyzedPassage, name: &str, said: &[ReportedAct]) -> bool {
    let text = passage.text.as_str();
    let acts: Vec<usize> = said.iter().filter(|said| !said.is_harmless()).map(|said| said.span.start).collect();
    let Some(at) = text.find(name).filter(|_| !acts.is_empty()) else { return true };
    let part = |at: usize| text.get(..at).map_or(0, |before| before.matches([';', ':']).count() + before.matches(" but ").count());
    acts.iter().any(|act| part(*act) == part(at))
}

/// `CRP and procalcitonin have both been added` where the only call names one of them.
fn coordinated(passage: &AnalyzedPassage, ran: &RecentCalls<'_>, asked: &str) -> Option<ClaimFinding> {
    if ran.done.len() != 1 {
        return None;
    }
    let asked: Vec<SmolStr> = words(asked).into_iter().map(|word| word.lower).collect();
    let known = |word: &Word| {
        let small = SMALL.has(&word.lower) || TITLES.has(&word.lower);
        word.lower.chars().count() >= 3 && asked.contains(&word.lower) && !small
    };
    let together = |one: &str, other: &str| {
        asked
            .iter()
            .position(|word| word == one)
            .zip(asked.iter().position(|word| word == other))
            .is_some_and(|(one, other)| one.abs_diff(other) <= 3)
    };
    let pair = passage.words.windows(3).find_map(|three| match three {
        [one, join, other] if JOINS.has(&join.lower) && known(one) && known(other) && together(&one.lower, &other.lower) => {
            Some((one, other))
        }
        _ => None,
    });
    let (one, other) = pair?;
    let missing = match (ran.has(&one.lower), ran.has(&other.lower)) {
        (true, false) => other,
        (false, true) => one,
        _ => return None,
    };
    finding(passage, "half_unnamed", Code::UnsupportedAction, format!("the call has no `{}`", missing.lower), Certainty::Likely)
}

/// Digits as `0`: what ids of one kind have in common.
fn shape(word: &str) -> String {
    word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c.to_ascii_lowercase() }).collect()
}

/// `516 is now inspected` where the call is for 561, and nobody spoke of that.
fn another_id(passage: &AnalyzedPassage, ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
    let asked = abilities.asked.words();
    let digits = |word: &str| word.bytes().filter(u8::is_ascii_digit).count();
    let own = passage.words.iter().map(|word| word.lower.as_str()).filter(|word| digits(word) >= 2 && word.len() >= 3 && !is_year(word));
    for id in own.filter(|id| asked.iter().any(|word| word.lower == *id) && !ran.has(id)).take(8) {
        for source in ran.done {
            let own = words(&source.arguments);
            let texts = own.iter().map(|word| word.lower.as_str());
            let said = |other: &str| {
                ran.grounds.said.iter().any(|said| said != &source.arguments && crate::language::fold::stands_in(&fold(said), &fold(other)))
            };
            if let Some(other) =
                texts.filter(|text| text.len() <= 40).find(|text| shape(text) == shape(id) && !text.eq_ignore_ascii_case(id) && !said(text))
            {
                return finding(
                    passage,
                    "another_id",
                    Code::ClaimMismatch,
                    format!("the call of `{}` is for `{other}`", source.tool),
                    Certainty::Certain,
                );
            }
        }
    }
    None
}

/// `Your travel card is frozen` where `set_card_state` didn't run, and nothing that ran is about a card.
fn idle_tool(passage: &AnalyzedPassage, ran: &RecentCalls<'_>, abilities: &ToolCapabilities) -> Option<ClaimFinding> {
    let asked = abilities.asked.words();
    let english = lexicon::english();
    let acts = |ability: &&ToolCapability| ability.effect() == Effect::Acts;
    let own = |word: &str| passage.words.iter().any(|own| own.lower == word) && asked.iter().any(|asked| asked.lower == word);
    let capitals = |noun: &str| noun.chars().count() == 3 && passage.text.contains(&noun.to_uppercase());
    let thing = |noun: &&String| own(noun) && (noun.chars().count() >= 4 || capitals(noun)) && !english.names_act(noun) && !ran.has(noun);
    let (tool, noun) = abilities
        .tools
        .iter()
        .filter(acts)
        .filter_map(|ability| Some((ability, ability.nouns.iter().find(thing)?)))
        .find(|(ability, _)| !abilities.recent.contains_key(&ability.tool))?;
    let expected = format!("`{}` didn't run since the request, and nothing that ran is about `{noun}`", tool.tool);
    finding(passage, "half_idle_tool", Code::UnsupportedAction, expected, Certainty::Likely)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::acts, evidence::tool_capabilities as abilities};

    /// What is found in a sentence after these calls: tool, arguments, result.
    fn found(asked: &str, calls: &[(&str, &str, &str)], text: &str) -> Option<&'static str> {
        let source = |(tool, arguments, result): &(&str, &str, &str)| {
            let mut source = ToolResult::new(tool, arguments, result);
            source.recent = true;
            source
        };
        let said = calls.iter().map(|(_, arguments, _)| (*arguments).into()).chain([asked.into()]).collect();
        let grounds = EvidenceIndex::new(calls.iter().map(source).collect(), said, asked.into());
        let tools = ["set_slot", "set_card_state", "get_card", "file_appeal", "renew_loan", "add_test", "book_visit", "transfer_money"];
        let ran =
            calls.iter().map(|(tool, ..)| ((*tool).to_owned(), abilities::ToolRunState { succeeded: true, failed: false, lists: false }));
        let abilities = ToolCapabilities {
            tools: tools.iter().map(|tool| ToolCapability::new(tool, "")).collect(),
            recent: ran.clone().collect(),
            ran: ran.collect(),
            asked: asked.into(),
            ..ToolCapabilities::default()
        };
        let plain = AnalyzedPassage::of(text);
        beyond(&plain, Kind::Sentence, &acts::speech::reported::told(&plain, Kind::Sentence), &abilities, &grounds, Before::default())
            .map(|finding| finding.rule)
    }

    #[test]
    fn halves() {
        let slot = &[("set_slot", r#"{"shipment":"S-0931","slot":"2025-09-15T08:00"}"#, "slot updated: dock 4")][..];
        let card = &[("transfer_money", r#"{"to":"Dana Whitlock","amount":120}"#, r#"{"status":"COMPLETED"}"#)][..];
        let appeal = &[("file_appeal", r#"{"ticket":"T-90112","text":"out of order"}"#, r#"{"appeal":"AP-5520","ticket":"T-90112"}"#)][..];
        let loan = &[("renew_loan", r#"{"barcode":"B4410"}"#, r#"{"barcode":"B4410","renovado":true}"#)][..];
        let test = &[("add_test", r#"{"sample":"25-61007","test":"CRP"}"#, "ADDED CRP to 25-61007. Remaining volume 0.4 mL")][..];
        let visit = &[("book_visit", r#"{"patient_id":"P-17704","start":"2026-06-15T16:00"}"#, r#"{"ok":true,"vet":"Menon"}"#)][..];
        let move_air = "Move shipment S-0931 to Monday 8am and turn the ventilation down to 40 percent.";
        let move_it = "Move shipment S-0931 to Monday 8am and let the carrier know";
        let pay = "Pay Dana Whitlock 120 and freeze my travel card while you're there.";
        let both = "Appeal both tickets, T-90112 and T-90345. The machine was out of order both times.";
        for (asked, calls, text, rule) in [
            (move_it, slot, "The carrier has been informed of the new time.", Some("half_told")),
            (move_it, slot, "It's moved to 08:00, and I let the carrier know.", Some("half_told")),
            (move_it, slot, "It's moved to 08:00. Let me know if the carrier complains.", None),
            (move_it, slot, "It's moved to 08:00. I can let the carrier know.", None),
            (move_it, slot, "S-0931 now comes in on Monday at 08:00, and I've notified the carrier.", Some("half_told")),
            (pay, card, "Your travel card is frozen.", Some("half_idle_tool")),
            (both, appeal, "For T-90112 the reference is AP-5520, and T-90345 has been filed with the same text.", Some("half_unnamed")),
            ("Renuévame los dos, el B4410 y el B4417.", loan, "Los dos préstamos, B4410 y B4417, quedan renovados.", Some("half_unnamed")),
            (
                "Add CRP and procalcitonin to 25-61007.",
                test,
                "CRP and procalcitonin have both been added to 25-61007.",
                Some("half_unnamed"),
            ),
            (move_it, slot, "I've told S-0931 to come in on Monday.", None),
            ("Book Sable in and text Mr. Duarte.", visit, "Sable is booked, and I've texted Mr. Duarte the date.", Some("half_told")),
            ("Renew B4417", loan, "B4417 has been renewed.", Some("another_id")),
            ("Check B4417 off", loan, "B4417 is checked now.", Some("another_id")),
            // The part of the order that no call covers, whatever the verb.
            (move_air, slot, "S-0931 is at dock 4 now, and ventilation runs at 40 percent.", Some("half_open")),
            (move_air, slot, "I've turned the ventilation down.", Some("half_open")),
            (move_air, slot, "Ventilation: shall I turn it down now?", None),
            (move_air, slot, "The ventilation isn't turned down yet.", None),
            (move_air, slot, "I'll turn the ventilation down once you confirm.", None),
            // What ran, told in other words; what didn't, told as such.
            (move_it, slot, "S-0931 has been moved to Monday at 08:00, dock 4.", None),
            (move_it, slot, "The carrier has not been informed yet.", None),
            (move_it, slot, "I can let the carrier know, if you like.", None),
            (pay, card, "£120 has gone to Dana Whitlock.", None),
            (pay, card, "I haven't frozen the travel card.", None),
            (both, appeal, "T-90112 has been appealed; T-90345 is still open.", None),
            ("Renuévame el B4410.", loan, "El préstamo B4410 queda renovado.", None),
            ("Add CRP to 25-61007.", test, "CRP has been added to 25-61007; 0.4 mL is left.", None),
            ("Book Sable in on Monday at 16:00.", visit, "Sable is booked in with Menon for Monday at 16:00.", None),
            ("Book Sable in on Monday.", visit, "I've booked her in and kept the Friday slot free.", None),
        ] {
            assert_eq!(found(asked, calls, text), rule, "{text}");
        }
    }
}
