//! What a passage that cites says, accounted for: every count, entity, flag and date of it against the results that it cites. Pure.
//!
//! The claim bears the burden of proof. What is allowed can be computed: what the results say, what follows from them, what
//! anybody in the conversation said. What is left over is a finding.

use std::{cell::OnceCell, collections::BTreeSet, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::{
    checks::{
        counts::{counts_part, is_amount, is_made_in_passage, is_of_two_numbers},
        exclusive::exclusive,
        states,
    },
    context::{CheckContext, CitationScope, ClaimFinding, NounPhrase},
    evidence::{
        self, ToolResult, derive,
        facts::{NamedValue, ResultFacts, ResultList, Scalar},
        failure, reckon,
        tool_capabilities::{Effect, ToolCapability},
    },
    language::{
        cues, date,
        fold::{akin, behind_last, fold, folded, key, lower_of, name_words, stands_in, words_of},
        lexicon::{self, Word},
        number::{self, Number, numbers},
        unit,
        word_list::{PhraseList, WordList},
    },
    passage::Kind,
    plain::AnalyzedPassage,
};
use toolmark_base::violation::{Certainty, Code};

/// Words after a number that may name what it counts.
const NOUN_WORDS_MAX: usize = 3;
/// Values of a result that are looked through: for the records that they name, for blank ones.
pub(super) const LEAVES_OF: usize = 2000;
/// Numbers by which a column may have been filtered.
const LIMITS_OF: usize = 12;
/// Words by which records may have been filtered.
const WORDS_OF: usize = 24;
/// Records that a passage names of which each is looked at.
const TOPS_MAX: usize = 6;
/// Numbers above this may be what two numbers of a record leave.
const REMAINDER_FROM: u64 = 12;
/// Letters of a name that tells records apart.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=60;

/// Findings about a passage, at most one of each kind.
pub fn account(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    if scene.endless || scene.plain.asks() || scene.bond < CitationScope::Introduced || scene.sources.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    found.extend(told_of_nothing(scene));
    if found.is_empty() {
        found.extend(denied(scene));
        let names = NamedRecords::new(scene);
        found.extend(counted(scene, &names));
        found.extend(bound(scene, &names));
        found.extend(extreme(scene, &names));
        found.extend(flags(scene));
        found.extend(exclusive(scene, &names));
        found.extend(every(scene));
        found.extend(weekday(scene).or_else(|| weekday_of_call(scene)));
        found.extend(share(scene));
        found.extend(measured(scene));
        found.extend(named_field(scene));
    }
    found
}

/// Words by which a sentence tells that something isn't there or isn't so, in any language. Folded; those of scripts without blanks
/// are looked for inside words.
static NOTHING: WordList = WordList::new(&[
    "no", "not", "none", "nothing", "nobody", "nowhere", "never", "neither", "without", "empty", "zero", "nope", "cannot", "free", "clear",
    "clean", "quiet", "unable", "isnt", "arent", "wasnt", "werent", "doesnt", "didnt", "hasnt", "havent", "couldnt", "cant", "wont",
    "lacks", "missing", "blank", "kein", "keine", "keinen", "keiner", "keinem", "keines", "nicht", "nichts", "nie", "niemand", "leer",
    "ohne", "null", "frei", "pas", "aucun", "aucune", "rien", "jamais", "vide", "sans", "personne", "libre", "ningun", "ninguna",
    "ninguno", "nada", "nunca", "nadie", "ninguem", "nikt", "nikogo", "kimse", "vacio", "vacia", "sin", "sinon", "non", "nessun",
    "nessuno", "nessuna", "niente", "vuoto", "vuota", "senza", "nao", "nenhum", "nenhuma", "vazio", "vazia", "sem", "niet", "geen",
    "niets", "leeg", "nie", "brak", "zaden", "zadnych", "pusty", "yok", "degil", "bos", "0", "ingen", "inga", "inget", "inte",
]);
static NOTHING_INSIDE: PhraseList = PhraseList::new(NOTHING_PARTS);
const NOTHING_PARTS: &[&str] = &[
    "没",
    "無",
    "无",
    "不",
    "未",
    "空",
    "ない",
    "ません",
    "なし",
    "なかった",
    "नहीं",
    "कोई",
    "खाली",
    "शून्य",
    "零",
    "暂无",
    "尚",
    "없",
    "않",
];

/// Phrases with which a success is told: nothing is denied by them.
static SMOOTH: PhraseList = PhraseList::new(SMOOTHLY);
const SMOOTHLY: &[&str] = &[
    "without problems",
    "without any problems",
    "without a problem",
    "without issues",
    "without any issues",
    "without errors",
    "without error",
    "without any errors",
    "without warnings",
    "without any warnings",
    "without trouble",
    "without a hitch",
    "without packet loss",
    "no problems",
    "no problem",
    "no issues",
    "no errors",
    "without incident",
    "ohne probleme",
    "ohne fehler",
    "problemlos",
    "sans problème",
    "sans erreur",
    "sin problemas",
    "sin errores",
    "senza problemi",
];

/// Words by which a failure is told, in any language: beginnings of words, and what stands anywhere in scripts without blanks.
const FAILED: &[&str] = &[
    "fail",
    "error",
    "reject",
    "denied",
    "declin",
    "refus",
    "unsuccess",
    "wrong",
    "problem",
    "issue",
    "unavailab",
    "unreach",
    "timed out",
    "timeout",
    "abort",
    "abgebroch",
    "invalid",
    "sorry",
    "unfortunately",
    "abgelehnt",
    "fehl",
    "verfehl",
    "gescheitert",
    "leider",
    "échou",
    "refusé",
    "erreur",
    "malheureusement",
    "rechaz",
    "falló",
    "fallo",
    "fallid",
    "fallad",
    "fallar",
    "fallan",
    "falla ",
    "fallit",
    "fallim",
    "lamentabl",
    "rifiut",
    "falh",
    "mislukt",
    "geweiger",
    "odrzuc",
    "hata",
    "başarısız",
    "reddet",
    "reddedil",
    "失败",
    "タイムアウト",
    "応答せず",
    "超时",
    "拒绝",
    "错误",
    "失敗",
    "विफल",
];

/// Beginnings of participles of refusals, in any language.
pub(crate) const FAILED_DEEDS: &[&str] = &[
    "reject",
    "declin",
    "refus",
    "denied",
    "abgelehnt",
    "verweigert",
    "rechaz",
    "rifiut",
    "recus",
    "rejeit",
    "geweigerd",
    "afgewezen",
    "odrzuc",
    "redded",
];

/// Does the passage tell of a failure, in any language?
pub fn tells_of_failure(scene: &CheckContext<'_>) -> bool {
    *scene.plain.tells_failure.get_or_init(|| text_tells_failure(scene.text())) || names_status(scene)
}

/// Words between the two of `turned … down`.
const TURNED_WITHIN: usize = 5;

/// `The server turned the file down`, of a text in lower case. `I turned the heating down` and `turned down to 18` tell of none.
fn turns_down(lower: &str) -> bool {
    let down = |word: &str| word.trim_end_matches(|c: char| !c.is_alphanumeric()) == "down";
    lower.match_indices("turn").any(|(at, _)| {
        let (before, from) = lower.split_at(at);
        let mut words = from.split_whitespace();
        let own = matches!(before.split_whitespace().next_back(), Some("i" | "we" | "i've" | "i’ve" | "we've" | "we’ve"));
        let told = matches!(words.next(), Some("turned" | "turns")) && !own && words.by_ref().take(TURNED_WITHIN).any(down);
        let to_figure =
            matches!(words.next(), Some("to" | "by")) && words.next().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        told && !to_figure
    })
}

/// Does it tell the status of what failed, as its result has it: `with a 413` (RFC 9110, section 15)?
fn names_status(scene: &CheckContext<'_>) -> bool {
    let status = |number: &Number| number.whole().filter(|code| (400..600).contains(code) && number.unit.is_none());
    let has = |code: u64| scene.sources.iter().any(|source| source.fails() && stands_in(source.folded(), &code.to_string()));
    scene.plain.numbers().iter().filter_map(status).any(has)
}

/// Does a word of this text deny something, in any language?
pub(crate) fn denies(text: &str) -> bool {
    let plain = ["free", "clear", "clean", "quiet", "libre", "frei", "bos", "0"];
    let word = |word: &str| !plain.contains(&word) && is_nothing(word) || word.ends_with("nt") && text.to_lowercase().contains("n't");
    words_of(&fold(text)).any(word) || NOTHING_INSIDE.stands_in(text)
}

/// Is this a word of nothing? `word`: in lower case.
pub(crate) fn is_nothing(word: &str) -> bool {
    let folded = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if folded { NOTHING.has(word) } else { NOTHING.has(&fold(word)) }
}

/// Is this folded word a Turkish verb that denies (`bulamadım`, "I couldn't find")? The denial is a syllable before its ending.
fn is_turkish_denial(folded: &str) -> bool {
    // `samedi` is Saturday, the others are Italian nouns.
    const OTHERS: [&str; 3] = ["samedi", "rimedi", "intermedi"];
    // Folding leaves the dotless i.
    const ENDINGS: [&str; 13] =
        ["madım", "medim", "madık", "medik", "madı", "medi", "madılar", "mediler", "mamış", "memiş", "mıyor", "miyor", "muyor"];
    // Few words end so: most are told by their last letter.
    folded.ends_with(['m', 'k', 'r', 'i', 'ı', 'ş'])
        && ENDINGS.iter().any(|ending| folded.len() > ending.len() && folded.ends_with(ending))
        && !OTHERS.contains(&folded)
}

/// True of a word of nothing where it stands behind `before`: `une personne` and `par personne` deny nothing.
fn denies_behind(before: &str, word: &str) -> bool {
    let person = word == "personne" && matches!(before, "une" | "la" | "cette" | "chaque" | "par" | "1");
    !person && is_nothing(word)
}

/// True if the part of [`FAILED`] that was found there tells of a failure: at the beginning of a word. `empfehlen`, `Chatham` and `tissue`
/// tell of none, nor does `issued`; compounds of `Fehler` and `error` do.
fn tells_failure_at(lower: &str, start: usize, end: usize) -> bool {
    let (before, part, behind) =
        (lower.get(..start).unwrap_or_default(), lower.get(start..end).unwrap_or_default(), lower.get(end..).unwrap_or_default());
    if !part.is_ascii() {
        return true;
    }
    let begins = !before.ends_with(char::is_alphabetic);
    let compound = part == "error" || part == "fehl" && behind.starts_with("er");
    let issued = part == "issue" && behind.starts_with(['d', 'r']);
    (begins || compound) && !issued
}

/// Does this text tell of a failure, in any language?
pub fn text_tells_failure(text: &str) -> bool {
    static PARTS: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let build = || AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(FAILED.iter().chain(NOTHING_PARTS)).ok();
    let parts = PARTS.get_or_init(build);
    let lower = lower_of(text);
    let parted = |lower: &str| {
        parts
            .as_ref()
            .is_none_or(|parts| parts.find_overlapping_iter(lower).any(|found| tells_failure_at(lower, found.start(), found.end())))
    };
    let tells = |lower: &str| parted(lower) || words_deny(lower) || turns_down(lower);
    // Most texts have no word of it at all.
    let told = tells(&lower);
    if !told || !SMOOTH.stands_in(&lower) {
        return told;
    }
    tells(&SMOOTHLY.iter().fold(lower, |lower, phrase| lower.replace(phrase, " ")))
}

/// Phrases that tell of an outage: of a service, what a call failed at.
static OUTAGES: PhraseList = PhraseList::new(&[
    " is down",
    " was down",
    " are down",
    "'s down",
    "’s down",
    " went down",
    " is taken",
    " already taken",
    " already booked",
    " schon belegt",
    " bereits belegt",
    " deja pris",
    " déjà pris",
    " déjà réservé",
    " ya está ocupad",
    " ya está reservad",
    " già occupat",
    " già prenotat",
    " já está ocupad",
    " já está reservad",
    " al bezet",
    " is bezet",
    " już zajęt",
    "offline",
    "out of order",
    "out of service",
    "unreachable",
    "not reachable",
    "no longer exists",
    "ausgefallen",
    "nicht erreichbar",
    "en panne",
    "hors service",
    "injoignable",
    "está caído",
    "está caída",
    "fuori servizio",
    "non raggiungibile",
    "fora do ar",
    "ligt plat",
    "ligt eruit",
    "niet bereikbaar",
    "nie działa",
    "awaria",
    "çöktü",
    "çevrimdışı",
    "ligger nere",
    "ダウンし",
    "停止して",
    "宕机",
    "无法访问",
    "बंद है",
]);

/// Does this text tell of an outage? Of a result that failed it tells the failure. What is down by so much, or to so much, is a figure.
pub fn tells_outage(text: &str) -> bool {
    let lower = lower_of(text);
    OUTAGES.stands_in(&lower) && {
        let clauses = lower.split([',', ';', '.', '(', '–', '—', '\n', '。', '，']);
        clauses
            .into_iter()
            .any(|clause| OUTAGES.stands_in(clause) && !clause.bytes().any(|byte| byte.is_ascii_digit()) && !clause.contains(" down to "))
    }
}

/// Does a word of this text in lower case deny something?
fn words_deny<'t>(lower: &'t str) -> bool {
    let mut before = "";
    let mut denies = |word| {
        let denies = denies_behind(std::mem::replace(&mut before, word), word);
        denies && !matches!(word, "free" | "clear" | "clean" | "quiet" | "libre" | "frei" | "boş")
            || is_turkish_denial(word)
            || word.ends_with('t') && (word.ends_with("n't") || word.ends_with("n’t"))
    };
    let in_token = |token: &'t str| {
        if token.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return denies(token);
        }
        // `4.2.0` and `10:00` are one word each: their zeros tell nothing.
        let figures = token.bytes().any(|byte| byte.is_ascii_digit());
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’') || figures && matches!(c, '.' | ',' | ':' | '-' | '/');
        token
            .split(|c: char| !inside(c))
            .map(|word| if figures { word.trim_matches(['.', ',', ':', '-', '/']) } else { word })
            .any(&mut denies)
    };
    if lower.is_ascii() { lower.split_ascii_whitespace().any(in_token) } else { lower.split_whitespace().any(in_token) }
}

/// Does the passage tell that something isn't there or isn't so?
pub fn tells_nothing(scene: &CheckContext<'_>) -> bool {
    *scene.plain.tells_nothing.get_or_init(|| read_tells_nothing(scene.plain))
}

fn read_tells_nothing(plain: &AnalyzedPassage) -> bool {
    let lower = plain.lower();
    let mut before = "";
    let denies = |word| {
        let nothing = denies_behind(std::mem::replace(&mut before, word), word);
        nothing || is_turkish_denial(word) || word.ends_with("nt") && lower.contains("n't")
    };
    words_of(plain.folded()).any(denies) || NOTHING_INSIDE.stands_in(lower)
}

/// Does this result hold nothing but empty lists?
pub(crate) fn is_empty(source: &ToolResult) -> bool {
    let facts = source.facts();
    // Lists of what went wrong or was noted are empty where all is well.
    static FAULTS: WordList = WordList::new(&["errors", "error", "warnings", "warning", "failures", "failed", "rejected"]);
    // Of an act messages are notes, too; of what reads they may be what was looked for.
    static NOTES: WordList = WordList::new(&["messages", "notes", "alerts", "comments", "tags", "labels", "attachments"]);
    let notes = |word: &String| FAULTS.has(word) || !source.reads() && NOTES.has(word);
    // `"drugs": [...]`, as the call named them.
    let echoes = |list: &ResultList| {
        let mut own = facts.leaves.iter().filter(|leaf| list.words.contains(&leaf.key)).peekable();
        own.peek().is_some() && own.all(|leaf| stands_in(source.folded_arguments(), &fold(&leaf.value.shown())))
    };
    let of_things = || facts.lists.iter().filter(|list| !list.words.iter().any(notes) && !echoes(list));
    let lists = of_things().next().is_some() && of_things().all(|list| list.length == 0);
    let values = || {
        facts.leaves.iter().all(|leaf| match &leaf.value {
            Scalar::Number(number) => *number == 0.0 || !derive::is_count(&leaf.key) || !facts.is_structured(),
            _ => true,
        })
    };
    facts.is_structured() && lists && values() && !describes_something(source) || is_empty_yaml(source) || is_bare_head(&source.text)
}

/// Names of columns that a line must have to be known as the first one of a table.
const HEAD_CELLS_MIN: usize = 3;

/// `item,qty,best_before` and no line below it: a table without rows.
fn is_bare_head(text: &str) -> bool {
    let text = text.trim();
    let name = |cell: &str| {
        let cell = cell.trim();
        !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let cells = || text.split([',', ';', '\t']);
    text.len() <= NOTHING_BYTES_MAX && !text.contains('\n') && cells().count() >= HEAD_CELLS_MIN && cells().all(name)
}

/// `kiln: Little Tom`, `shelves: []`
fn is_empty_yaml(source: &ToolResult) -> bool {
    let pair = |line: &str| {
        line.split_once(':')
            .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ' ' | '-')))
    };
    let lines = || source.text.lines().filter(|line| !line.trim().is_empty());
    source.text.len() <= NOTHING_BYTES_MAX && lines().all(pair) && lines().any(|line| line.trim_end().ends_with(": []"))
}

/// Bytes of a result that says no more than that nothing was found.
const NOTHING_BYTES_MAX: usize = 200;
/// Values of such a result.
const NOTHING_LEAVES_MAX: usize = 2;

/// Does this result say, in words, that nothing was found?
fn finds_nothing(source: &ToolResult) -> bool {
    static SAYS: PhraseList = PhraseList::new(&[
        "no match",
        "not found",
        "no result",
        "no rows",
        "no records",
        "no record ",
        "no entries",
        "no entry",
        "no hits",
        "nothing found",
        "none found",
        "no such ",
        "no items",
        "no data",
        " 0 results",
        " 0 rows",
        " 0 matches",
        " 0 hits",
        "does not exist",
        "keine treffer",
        "nicht gefunden",
        "kein eintrag",
        "keine eintrage",
        "keine daten",
        "kein treffer",
        " 0 treffer",
        "aucun resultat",
        "aucune fiche",
        "aucune entree",
        "aucune donnee",
        "introuvable",
        "aucun enregistrement",
        " 0 resultat",
        "sin resultados",
        "no encontrad",
        "ningun resultado",
        "sin datos",
        " 0 resultados",
        "nessun risultato",
        "non trovat",
        "nessuna voce",
        "nessun dato",
        " 0 risultati",
        "nenhum resultado",
        "nao encontrad",
        "sem resultados",
        "nenhum registro",
        "nenhum registo",
        "geen resultaten",
        "niet gevonden",
        "geen gegevens",
        "brak wynikow",
        "nie znaleziono",
        "brak danych",
        "bulunamadi",
        "kayit yok",
        "sonuc yok",
        "見つかりません",
        "該当なし",
        "該当する",
        "未找到",
        "无结果",
        "没有找到",
        "查无",
        "नहीं मिला",
        "नहीं मिली",
        "찾을 수 없",
    ]);
    let facts = source.facts();
    let plain = facts.lists.is_empty() && facts.leaves.len() <= NOTHING_LEAVES_MAX;
    // `No events found in namespace shop.`
    let none_found = || source.folded().starts_with("no ") && stands_in(source.folded(), "found");
    plain && source.text.len() <= NOTHING_BYTES_MAX && (SAYS.stands_in(&format!(" {} ", source.folded())) || none_found())
}

/// Members of a result that say how it was come by, not what a thing is like.
static ABOUT_RESULT: WordList = WordList::new(&[
    "status",
    "state",
    "ok",
    "success",
    "message",
    "msg",
    "note",
    "info",
    "hint",
    "page",
    "pages",
    "perpage",
    "pagesize",
    "limit",
    "offset",
    "took",
    "tookms",
    "ms",
    "query",
    "q",
    "cursor",
    "next",
    "source",
    "requestid",
    "timestamp",
    "time",
    "date",
    "generatedat",
    "timezone",
    "version",
    "filter",
    "unit",
    "currency",
    "from",
    "to",
    "period",
    "range",
    "month",
    "day",
    "week",
    "year",
]);

/// Does a result tell of a thing beside its empty lists: a booking without notes? At least two of its values must be neither repeated from
/// the call nor about the result itself.
fn describes_something(source: &ToolResult) -> bool {
    let telling = |leaf: &&NamedValue| {
        let about = ABOUT_RESULT.has(&leaf.key) || derive::is_count(&leaf.key);
        match &leaf.value {
            Scalar::Text(text) => !about && !text.trim().is_empty() && !stands_in(source.folded_arguments(), &fold(text)),
            Scalar::Number(number) => !about && *number != 0.0 && !source.argument_numbers().contains(&number.abs()),
            Scalar::Flag(flag) => !about && *flag,
            Scalar::Null => false,
        }
    };
    source.facts().leaves.iter().take(LEAVES_OF).filter(telling).nth(1).is_some()
}

/// Things told of where every result that is cited is empty.
pub(crate) fn told_of_nothing(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let said = scene.plain.words.iter().filter(|word| word.lower.chars().count() > 1).count();
    let spaceless = scene.plain.letters_beyond_ascii() > 6;
    let nothing =
        |source: &ToolResult| is_empty(source) || ToolCapability::effect_of(&source.tool) != Effect::Acts && finds_nothing(source);
    let empty = scene.bond >= CitationScope::Introduced && scene.sources.iter().all(|source| nothing(source) && !source.failed);
    // `Fully booked`: nothing is free.
    static FULL: PhraseList = PhraseList::new(&[
        "fully booked",
        "booked out",
        "sold out",
        "all taken",
        "is full",
        "are full",
        "was full",
        "were full",
        "s full",
        "ausgebucht",
        "ausverkauft",
        "belegt",
        "voll",
        "complet",
        "complets",
        "todo ocupado",
        "completo",
        "completa",
        "agotad",
        "pieno",
        "esaurit",
        "lotad",
        "esgotad",
        "volgeboekt",
        "uitverkocht",
        "zajete",
        "wyprzedan",
        "dolu",
        "tukendi",
        "満席",
        "満室",
        "满",
        "售罄",
        "भर",
    ]);
    if !empty || said < 4 && !spaceless || tells_nothing(scene) || FULL.stands_in(scene.plain.folded()) {
        return None;
    }
    // What the call asked for may be said again; something more must be told.
    let unsaid = |date: &date::Date| !scene.grounds.said_dates().dates.iter().any(|said| date.is(said));
    let foreign = scene.plain.numbers().iter().any(|number| !scene.has_number(number, number::Precision::Exact))
        || scene.plain.dates().dates.iter().any(unsaid);
    // In German a capital makes no name.
    let names = scene.lexicon.language != "de" && foreign_names(scene).next().is_some();
    if scene.bond == CitationScope::Introduced && !tells_of_things(scene, names) {
        return None;
    }
    // An offer or a condition says nothing of what there is: "If you are flexible, I can look at other days."
    if !foreign && !names && states::is_offer(scene.plain.folded()) {
        return None;
    }
    let listed = scene.sources.iter().all(|source| is_empty(source));
    let exists = scene.bond == CitationScope::Cited && tells_existence(scene);
    if !listed && (!foreign && !names && !exists || text_tells_failure(scene.text())) {
        return None;
    }
    let certainty = if listed && (foreign || names) { Certainty::Certain } else { Certainty::Likely };
    Some(whole(scene, "told_of_nothing", Code::ClaimMismatch, "the result is empty", certainty))
}

/// Words of a sentence before which it tells that there is something: `Yes, there are …`.
const EXISTENCE_WITHIN: usize = 2;

/// Does the sentence begin by telling that there is something?
fn tells_existence(scene: &CheckContext<'_>) -> bool {
    const PAIRS: [(&str, &str); 8] = [
        ("there", "is"),
        ("there", "are"),
        ("there", "was"),
        ("there", "were"),
        ("es", "gibt"),
        ("ci", "sono"),
        ("il", "y"),
        ("c'è", "un"),
    ];
    let first = scene.plain.words.windows(2).take(EXISTENCE_WITHIN + 1);
    let first = first.into_iter().any(|two| PAIRS.iter().any(|(one, other)| two[0].lower == *one && two[1].lower == *other));
    // `Yes, Corvale holds two patents`.
    let several = || scene.plain.words.iter().any(|word| scene.lexicon.count(&word.lower).is_some_and(|count| count > 1));
    let yes = || {
        scene.plain.words.first().is_some_and(|word| matches!(&*word.lower, "yes" | "ja" | "oui" | "sí" | "sì" | "sim" | "tak" | "evet"))
    };
    first || yes() && several() || scene.plain.words.iter().take(EXISTENCE_WITHIN).any(|word| word.lower == "hay")
}

/// True of a sentence, covered by the citation of a later one, that tells of things: with a number, a date or a name that nobody said. What
/// else such a sentence says may be advice, or how it was looked.
fn tells_of_things(scene: &CheckContext<'_>, names: bool) -> bool {
    let plain = scene.plain;
    let counts = || plain.words.iter().any(|word| scene.lexicon.count(&word.lower).is_some_and(|count| count > 1));
    let numbers = || plain.numbers().iter().any(|number| !scene.has_number(number, number::Precision::Exact));
    let dates = || plain.dates().dates.iter().any(|date| !scene.grounds.said_dates().dates.iter().any(|said| date.is(said)));
    scene.kind == Kind::Sentence && (names || counts() || numbers() || dates()) && !states::is_unsure(plain.folded(), &plain.words)
}

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
pub(super) fn is_capital_inside(scene: &CheckContext<'_>, word: &Word) -> bool {
    let text = scene.text().get(word.start..word.end).unwrap_or_default();
    let first = text.chars().next().is_some_and(char::is_uppercase);
    let rest = text.chars().skip(1).any(char::is_lowercase) && text.chars().count() >= 3;
    let before = scene.text().get(..word.start).unwrap_or_default().trim_end_matches(['"', '“', '„', '*', '_', '(', ' ']);
    let inside = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == ',');
    first && rest && inside
}

/// `twelve hundred`: words that go on with a number.
static MAGNITUDES: WordList = WordList::new(&[
    "hundred", "thousand", "million", "dozen", "hundert", "tausend", "cent", "cents", "mille", "mil", "cento", "duizend", "honderd",
]);

/// Bytes of a range of values.
const RANGE_BYTES_MAX: usize = 16;

/// Number from which on three times as many as there are records may be reckoned.
const FAR_FROM: u64 = 20;
/// Numbers of a passage, and of what was said, by which it is.
const MADE_OF: usize = 12;

/// Is it made of two other numbers of the passage, or of one and one that was said: 105 kg in jars of 500 g?
fn is_made_here(scene: &CheckContext<'_>, start: usize, value: u64) -> bool {
    let others = scene.plain.numbers().iter().filter(|other| other.span.start != start).take(MADE_OF);
    let others: Vec<f64> = others.flat_map(Number::readings).map(|reading| reading.value).take(MADE_OF * 2).collect();
    let said: Vec<f64> = scene.grounds.said_numbers().iter().rev().take(MADE_OF).copied().filter(|said| *said > 1.0).collect();
    let of_said = |one: &f64| {
        let is = |unit: f64, said: f64| (one * unit / said - value as f64).abs() < 1e-6;
        said.iter().any(|said| is(1.0, *said) || is(1000.0, *said))
    };
    is_made_in_passage(scene, start, value) || others.iter().chain(scene.told.iter().rev().take(MADE_OF)).any(of_said)
}

/// A number of things that the results have another number of, however small it is.
fn counted(scene: &CheckContext<'_>, names: &NamedRecords<'_>) -> Option<ClaimFinding> {
    let sources = &scene.sources;
    // A cell of a table says what its column does; a sentence that another one's citation covers may count anything.
    let covered = scene.bond != CitationScope::Cited && scene.kind == Kind::Sentence;
    if covered
        || sources.iter().any(|source| source.is_partial() || source.failed)
        || scene.text().contains('|')
        || excludes(scene, 0..scene.text().len())
    {
        return None;
    }
    let mut said: Vec<(usize, usize, u64)> = Vec::new();
    for number in scene.plain.numbers() {
        let free = !number.ordinal && number.unit.is_none() && !scene.plain.is_taken(&(number.span.start..number.end));
        said.extend(number.whole().filter(|_| free).map(|whole| (number.span.start, number.end, whole)));
    }
    for word in &scene.plain.words {
        let known = scene.lexicon.count(&word.lower);
        said.extend(known.filter(|count| *count > 1).map(|count| (word.start, word.end, count)));
    }
    said.into_iter().find_map(|(start, end, value)| {
        // `five of our objects`
        let of_ours = match scene.words_after(end) {
            [of, our, ..] if of.lower == "of" && matches!(&*our.lower, "our" | "your" | "the" | "my" | "their" | "these" | "those") => {
                our.end
            }
            _ => end,
        };
        let partitive = of_ours != end;
        let end = of_ours;
        let after: Vec<&Word> = scene.words_after(end).iter().take(NOUN_WORDS_MAX).collect();
        let joined = after.first().is_some_and(|word| {
            scene.text().get(end..word.start).is_some_and(|gap| gap.trim_matches([' ', '*', '_', '\u{a0}', '-']).is_empty())
        });
        let before = scene.words_before(start).last();
        let near = before.is_some_and(|word| scene.lexicon.near.contains(&word.lower));
        let vague = before.is_some_and(|word| {
            let lower = word.lower.as_str();
            scene.lexicon.bounds.contains(lower) && !scene.lexicon.near.contains(lower)
                || scene.lexicon.parts.contains(lower) && lower != "of"
        });
        if !joined || vague || !(2..=10_000).contains(&value) || is_of_something(scene, end, start) || is_amount(scene, start) {
            return None;
        }
        // `twelve hundred`
        let magnitude = |word: &Word| MAGNITUDES.has(&word.lower);
        if after.first().copied().is_some_and(magnitude) || scene.words_after(start).first().is_some_and(magnitude) {
            return None;
        }
        let noun = noun(scene, end, &after);
        if noun.is_empty() || !sources.iter().all(|source| counts_of(&noun, scene, source)) {
            return None;
        }
        // `two Alexes`: people of one name.
        let capital =
            after.first().and_then(|word| scene.text().get(word.start..)).is_some_and(|rest| rest.starts_with(char::is_uppercase));
        if capital && scene.lexicon.language != "de" {
            return None;
        }
        let allowed: BTreeSet<u64> = sources.iter().flat_map(|source| allowed(source, scene, &noun)).collect();
        let told = sources.iter().any(|source| source.facts().numbers.contains(&(value as f64)))
            || scene.grounds.said_numbers_have(value as f64)
            || scene
                .grounds
                .results
                .iter()
                .any(|source| source.facts().lists.iter().any(|list| list.length as u64 == value) && !scene.is_source(source));
        let together: u64 = sources.iter().map(|source| most(source)).sum();
        if partitive && value <= together {
            return None;
        }
        let largest = sources.iter().map(|source| most(source)).max().unwrap_or(0);
        // `30 usable slots` of a column `slots`: an amount.
        let of_column = |word: &String| {
            sources
                .iter()
                .any(|source| source.facts().of_key(&key(word)).any(|leaf| leaf.record > 0 && matches!(leaf.value, Scalar::Number(_))))
        };
        let measure = noun.iter().any(|word| MEASURES.has(word));
        let spans = || sources.iter().any(|source| source.facts().derived().amounts.contains(&(value as f64)));
        let roughly = near && (value as f64) >= largest as f64 * 0.6 && (value as f64) <= largest as f64 * 1.5 + 2.0;
        // `39 seats left` of 120 and 81: more than small numbers are seldom counts of records where a record makes them.
        let made = || {
            let amounts = |source: &&ToolResult| source.facts().derived().amounts.contains(&(value as f64));
            value > REMAINDER_FROM && sources.iter().any(amounts)
        };
        let far = value > FAR_FROM && value > largest.saturating_mul(3) && is_made_here(scene, start, value);
        if allowed.contains(&value)
            || told
            || value == together
            || measure && spans()
            || roughly
            || made()
            || noun.iter().any(of_column)
            || far
        {
            return None;
        }
        // `Two open deals; Rail is won`: those that aren't named.
        let named = names.of(0).len() as u64;
        if sources.len() == 1 && named < value && value + named == largest && !names_another_part(scene, names.of(0), value) {
            return None;
        }
        if counts_part(scene, value) || sources.iter().any(|source| value > most(source) && is_of_two_numbers(value, source)) {
            return None;
        }
        // `27 of 36, so she missed nine`; `How many buckets do I need?`, of one kind of them.
        // `On 90 kg that's six sacks`, of 15 kg each.
        let of_rate = || {
            let others = scene.plain.numbers().iter().filter(|other| other.span.start != start).filter_map(Number::whole).take(RATED_OF);
            let rates = || sources.iter().flat_map(|source| source.facts().numbers.iter()).filter(|rate| **rate > 1.0).take(RATED_OF);
            others.into_iter().any(|other| rates().any(|rate| value as f64 * rate == other as f64))
        };
        let made = || value > largest && cues::reckons(scene.plain) && (is_made_in_passage(scene, start, value) || of_rate());
        if made() || (largest == 1 || value > largest) && scene.grounds.asks_to_reckon() {
            return None;
        }
        let last = after.get(noun.len().saturating_sub(1)).map_or(end, |word| word.end);
        let expected: Vec<String> = sources.iter().map(|source| most(source).to_string()).collect();
        let above = sources.iter().all(|source| value > most(source) && most(source) > 0);
        Some(ClaimFinding {
            rule: "counted",
            code: Code::CountMismatch,
            span: start..last,
            found: scene.text().get(start..last).unwrap_or_default().to_owned(),
            expected: expected.join(" or "),
            certainty: if above { Certainty::Certain } else { Certainty::Likely },
        })
    })
}

/// Numbers of a passage, and of results, of which one may be so many times the other.
const RATED_OF: usize = 40;

/// Has the passage a word that stands in some of the records, another number of them than that? What the named records have is told of
/// them.
fn names_another_part(scene: &CheckContext<'_>, named: &[NamedRecord], value: u64) -> bool {
    let Some(source) = scene.sources.first() else { return false };
    let leaves = source.facts().leaves.iter().filter(|leaf| leaf.record > 0).take(LEAVES_OF);
    let text = |leaf: &NamedValue| if let Scalar::Text(text) = &leaf.value { Some((leaf.record, fold(text))) } else { None };
    let texts: Vec<(usize, String)> = leaves.filter_map(text).collect();
    scene.plain.words.iter().map(|word| folded(&word.lower)).any(|word| {
        let own = || texts.iter().filter(|(_, text)| *text == word);
        let of_named = own().any(|(record, _)| named.iter().any(|named| named.record == *record));
        let count = own().count() as u64;
        !of_named && count > 0 && count != value
    })
}

/// True if the question or the passage leaves out some of the records. `part`: where a denial does so, too.
pub(super) fn excludes(scene: &CheckContext<'_>, part: std::ops::Range<usize>) -> bool {
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

/// `3 of the 12`, `3 von 12`: the part is judged by its share's own rules.
fn is_of_something(scene: &CheckContext<'_>, end: usize, start: usize) -> bool {
    let after = scene.words_after(end).first();
    let before = scene.words_before(start).last();
    let unit = ["percent", "prozent", "%", "times", "x", "mal", "fois", "veces", "stars", "o'clock", "uhr"];
    after.is_some_and(|word| unit.contains(&word.lower.as_str()))
        || before.is_some_and(|word| {
            ["number", "no", "nr", "page", "step", "version", "chapter", "room", "hop", "line", "section", "grade", "level"]
                .contains(&word.lower.as_str())
        })
}

/// The words right after a number, up to one that names no thing.
fn noun(scene: &CheckContext<'_>, from: usize, after: &[&Word]) -> Vec<String> {
    let mut noun = Vec::new();
    let mut place = from;
    for word in after {
        let gap = scene.text().get(place..word.start).unwrap_or_default();
        // `four behind the leader`. Hindi says its prepositions behind the word.
        static BEHIND: WordList = WordList::new(&[
            "behind",
            "ahead",
            "above",
            "below",
            "over",
            "under",
            "off",
            "away",
            "short",
            "clear",
            "apart",
            "को",
            "का",
            "की",
            "के",
            "में",
            "से",
            "पर",
            "तक",
            "है",
            "हैं",
        ]);
        let stops = BEHIND.has(&word.lower)
            || scene.lexicon.common.contains(&word.lower)
            || scene.lexicon.found.contains(&word.lower)
            || scene.lexicon.narrows.contains(&word.lower);
        if !gap.chars().all(|c| matches!(c, ' ' | '*' | '_' | '\u{a0}' | '-')) || stops {
            break;
        }
        noun.push(word.lower.to_string());
        place = word.end;
    }
    noun
}

/// Nouns of measures rather than of things.
static MEASURES: WordList = WordList::new(&[
    "day",
    "days",
    "hour",
    "hours",
    "minute",
    "minutes",
    "second",
    "seconds",
    "week",
    "weeks",
    "month",
    "months",
    "year",
    "years",
    "night",
    "nights",
    "evening",
    "evenings",
    "morning",
    "mornings",
    "afternoon",
    "afternoons",
    "abende",
    "abenden",
    "soirées",
    "nuits",
    "noches",
    "tardes",
    "serate",
    "notti",
    "noites",
    "avonden",
    "nachten",
    "time",
    "times",
    "degrees",
    "points",
    "people",
    "euros",
    "dollars",
    "francs",
    "tage",
    "tagen",
    "stunden",
    "minuten",
    "wochen",
    "monate",
    "jahre",
    "jahren",
    "euro",
    "jours",
    "heures",
    "mois",
    "ans",
    "dias",
    "días",
    "horas",
    "meses",
    "giorni",
    "ore",
    "mesi",
    "anni",
    "punkte",
    "punkten",
    "puntos",
    "guests",
    "persons",
    "parts",
    "portions",
    "servings",
    "steps",
    "percent",
    "stars",
    "tablespoons",
    "teaspoons",
    "cups",
    "grams",
    "pieces",
    "nächte",
]);

/// Has each of a result's records its time, so that they may be counted as days or hours?
fn is_of_times(source: &ToolResult) -> bool {
    const TIMES: [&str; 8] = ["day", "date", "hour", "time", "week", "month", "night", "year"];
    let facts = source.facts();
    let named = |leaf: &NamedValue| leaf.record > 0 && TIMES.iter().any(|time| leaf.key.contains(time));
    facts.dates.dates.len() as u64 >= most(source) || facts.leaves.iter().take(LEAVES_OF).any(named)
}

/// Is this noun what the result is a collection of: by its tool, a list, its records' members, or the question?
fn counts_of(noun: &[String], scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let (facts, grounds) = (source.facts(), scene.grounds);
    if facts.lists.is_empty() && facts.lines < 2 {
        return false;
    }
    let Some(last) = noun.last() else { return false };
    let asked = |word: &str| {
        let folded = fold(word);
        let last = folded.rsplit(' ').next().unwrap_or(&folded).to_owned();
        grounds.asked.name_words().iter().any(|word| word.chars().count() > 3 && akin(word, &last))
    };
    if noun.iter().any(|word| MEASURES.has(word)) {
        let many = ["how many", "wie viele", "combien", "cuántos", "cuántas", "quanti", "quante", "quantos", "quantas", "hoeveel"];
        let lower = grounds.asked.lower();
        let counts = many.iter().any(|many| lower.contains(many)) && asked(last) && scene.bond == CitationScope::Cited;
        return counts && is_of_times(source);
    }
    let same = |word: &str| {
        let folded = fold(word);
        let single = folded.strip_suffix('s').unwrap_or(&folded).to_owned();
        let english =
            |word: &str| scene.lexicon.english(word).iter().chain(lexicon::english().english(word)).cloned().collect::<BTreeSet<String>>();
        let own: BTreeSet<String> = english(&single).union(&english(&folded)).cloned().collect();
        let names = facts.lists.iter().flat_map(|list| list.words.iter()).chain(source.nouns());
        !own.is_empty() && names.into_iter().any(|name| !english(name.strip_suffix('s').unwrap_or(name)).is_disjoint(&own))
    };
    let of = |word: &String| {
        if same(word) {
            return true;
        }
        let said = NounPhrase::new(word, scene.lexicon);
        let folded = fold(word);
        let end = folded.rsplit(' ').next().unwrap_or(&folded).to_owned();
        let english = NounPhrase::new(&end, scene.lexicon);
        let record = || facts.keys().iter().any(|key| key.len() > 2 && akin(key, &folded));
        let list = |said: &NounPhrase<'_>| facts.lists.iter().any(|list| said.names(&list.words));
        said.names(source.nouns()) || english.names(source.nouns()) || list(&said) || list(&english) || record() || asked(word)
    };
    let tops = facts.lists.iter().filter(|list| list.depth == 0).count();
    let found = || {
        tops == 1 && facts.lists.iter().all(|list| list.depth > 0 || list.of_things) && scene.says(&scene.lexicon.found) && noun.len() == 1
    };
    noun.iter().rev().take(2).any(of) || found()
}

fn most(source: &ToolResult) -> u64 {
    let facts = source.facts();
    let longest = facts.lists.iter().map(|list| list.length as u64).max().unwrap_or(0);
    longest.max(if facts.is_structured() { 0 } else { facts.lines as u64 })
}

/// Number of occurrences of each value of a column that tells kinds of records apart: `status`, a flag.
fn kinds(facts: &ResultFacts) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for name in facts.keys() {
        let mut values: Vec<String> = Vec::new();
        for leaf in facts.of_key(name).take(LEAVES_OF) {
            match &leaf.value {
                Scalar::Text(text) if text.chars().count() <= 40 => values.push(fold(text)),
                Scalar::Flag(flag) => values.push(flag.to_string()),
                Scalar::Null => values.push(String::new()),
                Scalar::Text(_) | Scalar::Number(_) => {}
            }
        }
        let all = values.len();
        let distinct: BTreeSet<&String> = values.iter().collect();
        if all < 2 || distinct.len() == all && all > 2 {
            continue;
        }
        for value in distinct {
            found.push((value.clone(), values.iter().filter(|own| *own == value).count() as u64));
        }
    }
    found
}

/// Every number of things that a result may be said to have: its lists, parts of them by value, by limit and by word, and what is left.
fn allowed(source: &ToolResult, scene: &CheckContext<'_>, noun: &[String]) -> BTreeSet<u64> {
    let facts = source.facts();
    let mut found: BTreeSet<u64> = facts.lists.iter().map(|list| list.length as u64).collect();
    let tops: u64 = facts.lists.iter().filter(|list| list.depth == 0).map(|list| list.length as u64).sum();
    found.insert(tops);
    found.insert(facts.lists.iter().map(|list| list.length as u64).sum());
    found.extend(
        facts.leaves.iter().filter(|leaf| derive::is_count(&leaf.key)).filter_map(|leaf| leaf.value.number()).map(|count| count as u64),
    );
    if !facts.is_structured() {
        // A table without a header has one row more than it seems.
        let counted = source.text.lines().take(LEAVES_OF).filter(|line| !line.trim().is_empty()).count();
        let lines = facts.lines.max(counted) as u64;
        found.extend([lines, lines.saturating_sub(1), lines.saturating_sub(2)]);
        found.extend(of_text(source));
    }
    let rows = source.rows();
    let columns = rows.columns.then_some(rows.rows.len() as u64);
    let texts = [scene.text(), &scene.grounds.asked];
    let most = most(source);
    let kinds = kinds(facts);
    // `four open tickets`: as many as are open, where a column says which are.
    let adjectives: Vec<&(String, u64)> = kinds.iter().filter(|(value, _)| noun.iter().any(|word| *value == fold(word))).collect();
    if let [(_, count)] = adjectives.as_slice() {
        // `3 of 5 jobs ok`: how many there are.
        return columns.into_iter().chain([*count]).collect();
    }
    let mut parts: BTreeSet<u64> = kinds.iter().map(|(_, count)| *count).collect();
    for (at, (one, first)) in kinds.iter().enumerate() {
        parts.extend(
            kinds.iter().skip(at + 1).filter(|(other, _)| other != one).map(|(_, second)| first + second).filter(|sum| *sum < most),
        );
    }
    for name in facts.keys() {
        let distinct: BTreeSet<String> = facts.of_key(name).take(LEAVES_OF).map(|leaf| leaf.value.shown()).collect();
        parts.insert(distinct.len() as u64);
    }
    let mut limited = BTreeSet::new();
    let limits: Vec<f64> = texts
        .iter()
        .flat_map(|text| numbers(text))
        .flat_map(|number| number.readings().map(|reading| reading.value).collect::<Vec<f64>>())
        .take(LIMITS_OF)
        .collect();
    for column in facts.columns().values() {
        for limit in &limits {
            let above = column.iter().filter(|value| *value > limit).count() as u64;
            let equal = column.iter().filter(|value| *value == limit).count() as u64;
            let all = column.len() as u64;
            limited.extend([above, above + equal, all - above, all - above - equal]);
        }
        let mean = column.iter().sum::<f64>() / column.len() as f64;
        let above = column.iter().filter(|value| **value > mean).count() as u64;
        parts.extend([
            above,
            column.iter().filter(|value| **value > 0.0).count() as u64,
            column.iter().filter(|value| **value < 0.0).count() as u64,
        ]);
    }
    // `more than 30 points`: as many as the limit leaves.
    let compares = scene.plain.words.windows(2).any(|pair| {
        let [one, two] = pair else { return false };
        (scene.lexicon.bounds.contains(&one.lower) || scene.lexicon.bounds.contains(&two.lower))
            && two.lower.bytes().all(|byte| byte.is_ascii_digit())
    });
    if compares && !limited.is_empty() {
        found.extend(limited);
        return found;
    }
    parts.extend(limited);
    parts.extend(by_word(facts, &texts));
    found.extend(parts.iter().copied());
    // What is left when a part is taken away.
    found.extend(parts.iter().filter(|part| **part > 1 && **part <= most).map(|part| most - part));
    found
}

/// Numbers of things that a listing has: its records, those of each kind, its figures.
fn of_text(source: &ToolResult) -> Vec<u64> {
    let rows = &source.rows().rows;
    let mut cells: Vec<(&str, &str)> =
        rows.iter().flat_map(|row| &row.cells).map(|cell| (cell.column.as_str(), cell.folded.as_str())).take(LEAVES_OF).collect();
    cells.sort_unstable();
    let mut found: Vec<u64> = cells.chunk_by(|one, other| one == other).map(|same| same.len() as u64).collect();
    let text = source.text.get(..source.text.floor_char_boundary(8192)).unwrap_or_default();
    let figures = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    found.extend([rows.len() as u64, text.split([' ', '\n', '\t', ',']).filter(figures).count() as u64]);
    found
}

/// Number of records that have a word of the passage or the question in a value.
fn by_word(facts: &ResultFacts, texts: &[&str]) -> Vec<u64> {
    let words: BTreeSet<String> =
        texts.iter().flat_map(|text| name_words(text)).filter(|word| word.chars().count() > 2).take(WORDS_OF).collect();
    let mut found = Vec::new();
    for word in words {
        let mut records: BTreeSet<usize> = BTreeSet::new();
        let mut loose = 0;
        for leaf in facts.leaves.iter().take(LEAVES_OF) {
            let Scalar::Text(text) = &leaf.value else { continue };
            if fold(text).split(' ').any(|own| akin(own, &word)) {
                if leaf.record > 0 {
                    records.insert(leaf.record);
                } else {
                    loose += 1
                }
            }
        }
        found.extend([records.len() as u64, loose]);
    }
    found
}

/// A record that a passage names, by a value that no other record of the result has.
pub(super) struct NamedRecord {
    /// Its number.
    pub record: usize,
    at: usize,
    end: usize,
}

/// The records that a passage names, of each of its first results.
pub(super) struct NamedRecords<'s> {
    scene: &'s CheckContext<'s>,
    folded: OnceCell<String>,
    of: [OnceCell<Vec<NamedRecord>>; SOURCES_OF],
}

/// Results of which the records are looked for that a passage names.
const SOURCES_OF: usize = 4;

impl<'s> NamedRecords<'s> {
    fn new(scene: &'s CheckContext<'s>) -> Self {
        Self { scene, folded: OnceCell::new(), of: Default::default() }
    }

    /// The passage, folded, without the endings of genitives.
    fn folded(&self) -> &str {
        let text = self.scene.text();
        if text.bytes().all(|byte| byte != b'\'' && byte.is_ascii()) {
            return self.scene.plain.folded();
        }
        self.folded.get_or_init(|| fold(&text.replace("'s ", " ").replace("’s ", " ")))
    }

    /// Those of the result at this place.
    pub(super) fn of(&self, at: usize) -> &[NamedRecord] {
        let (Some(known), Some(source)) = (self.of.get(at), self.scene.sources.get(at)) else { return &[] };
        known.get_or_init(|| named(self.folded(), self.scene.text(), source.facts()))
    }
}

/// The records of a result that this text names.
fn named(folded_text: &str, text: &str, facts: &ResultFacts) -> Vec<NamedRecord> {
    let mut found: Vec<NamedRecord> = Vec::new();
    if facts.leaves.len() > LEAVES_OF {
        return found;
    }
    for leaf in facts.leaves.iter().filter(|leaf| leaf.record > 0) {
        let Scalar::Text(name) = &leaf.value else { continue };
        let length = name.chars().count();
        if !NAME_CHARS.contains(&length)
            || name.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'/' | b' '))
        {
            continue;
        }
        let folded = fold(name);
        if folded.len() < 2 || !stands_in(folded_text, &folded) {
            continue;
        }
        let alone = facts
            .leaves
            .iter()
            .all(|other| other.record == leaf.record || !matches!(&other.value, Scalar::Text(other) if stands_in(&fold(other), &folded)));
        let Some(at) = find_folded(text, name) else { continue };
        if alone && !found.iter().any(|known| known.record == leaf.record) {
            found.push(NamedRecord { record: leaf.record, at, end: at + name.len() });
        }
    }
    found
}

/// Position of a name in a text, ignoring case.
fn find_folded(text: &str, name: &str) -> Option<usize> {
    text.find(name).or_else(|| {
        let (text, name) = (text.to_lowercase(), name.to_lowercase());
        text.find(&name)
    })
}

/// A value told of one record that another record has: "Noah – 9" where Noah's is 6.
fn bound(scene: &CheckContext<'_>, names: &NamedRecords<'_>) -> Option<ClaimFinding> {
    scene.sources.iter().take(SOURCES_OF).enumerate().find_map(|(at, source)| bound_in(scene, source, names.of(at)))
}

fn bound_in(scene: &CheckContext<'_>, source: &ToolResult, all: &[NamedRecord]) -> Option<ClaimFinding> {
    let facts = source.facts();
    if source.failed || facts.records.is_empty() || source.is_partial() {
        return None;
    }
    let tops: Vec<&NamedRecord> =
        all.iter().filter(|one| !all.iter().any(|other| other.record != one.record && facts.lies_in(other.record, one.record))).collect();
    if tops.len() > TOPS_MAX {
        return None;
    }
    // `a and b: 180 and 176`: which value is whose, only their order tells.
    let coordinated = |own: &NamedRecord| {
        tops.iter().any(|other| {
            let (from, to) = if own.at < other.at { (own.end, other.at) } else { (other.end, own.at) };
            let gap = scene.text().get(from..to).map(|gap| gap.trim_matches([' ', '*', '`', '"']));
            other.record != own.record
                && gap.is_some_and(|gap| {
                    matches!(
                        gap,
                        "and" | "," | "&" | "/" | "und" | "et" | "y" | "e" | "or" | "en" | "i" | "ve" | "-" | "–" | ", and" | "with"
                    )
                })
        })
    };
    tops.iter().filter(|own| !coordinated(own)).find_map(|own| {
        // Among several each value belongs to the one whose clause it stands in, where no other stands in that.
        let of_others = |span: &std::ops::Range<usize>| {
            // What stands behind another's name is told of that one.
            let before = |other: &&NamedRecord| other.record != own.record && other.end <= span.start && span.start < own.at;
            tops.len() > 1
                && (!shares_clause(scene.text(), own.at..own.end, span.clone())
                    || tops.iter().any(before)
                    || tops
                        .iter()
                        .any(|other| other.record != own.record && shares_clause(scene.text(), other.at..other.end, span.clone())))
        };
        of_record(scene, source, own, &of_others)
    })
}

/// A value told of this record that another one has. `of_others`: what stands there isn't told of it.
fn of_record(
    scene: &CheckContext<'_>,
    source: &ToolResult,
    own: &NamedRecord,
    of_others: &dyn Fn(&std::ops::Range<usize>) -> bool,
) -> Option<ClaimFinding> {
    let facts = source.facts();
    let negated = tells_nothing(scene);
    let leaves = || facts.leaves.iter().filter(|leaf| facts.lies_in(leaf.record, own.record));
    let outside = || {
        facts
            .leaves
            .iter()
            .filter(|leaf| leaf.record > 0 && !facts.lies_in(leaf.record, own.record) && !facts.lies_in(own.record, leaf.record))
    };
    // A word of a column that tells records apart: `pending` where its own is `open`.
    let words = scene.plain.words.iter().filter(|word| word.start >= own.end || word.end <= own.at);
    for word in words {
        let folded = fold(&word.lower);
        if folded.len() < 3
            || negated
            || of_others(&(word.start..word.end))
            || scene.kind == Kind::Sentence && !shares_clause(scene.text(), own.at..own.end, word.start..word.end)
        {
            continue;
        }
        let has = |leaf: &&NamedValue| matches!(&leaf.value, Scalar::Text(text) if fold(text) == folded);
        let Some(other) = outside().find(has) else { continue };
        let domain: BTreeSet<&str> = facts
            .of_key(&other.key)
            .filter_map(|leaf| match &leaf.value {
                Scalar::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let few = domain.len() >= 2 && domain.iter().all(|value| value.len() <= 24);
        let mine = leaves().find(|leaf| leaf.key == other.key);
        let mine_says =
            leaves().any(|leaf| matches!(&leaf.value, Scalar::Text(text) if stands_in(&fold(text), &folded)) || leaf.key.contains(&folded));
        let said = stands_in(scene.grounds.asked.folded(), &folded) || stands_in(source.folded_arguments(), &folded);
        if let Some(mine) = mine.filter(|_| few && !mine_says && !said) {
            let shown = mine.value.shown();
            if !stands_in(scene.plain.folded(), &fold(&shown)) {
                return Some(ClaimFinding {
                    rule: "record_word",
                    code: Code::ClaimMismatch,
                    span: word.start..word.end,
                    found: scene.text().get(word.start..word.end).unwrap_or_default().to_owned(),
                    expected: shown,
                    certainty: Certainty::Likely,
                });
            }
        }
    }
    // A time of day that another record has.
    let times_of = |leaf: &NamedValue| match &leaf.value {
        Scalar::Text(text) if text.len() <= 40 => date::dates(text).times.iter().map(|time| time.minutes).collect(),
        _ => Vec::new(),
    };
    let mine: Vec<u32> = leaves().flat_map(times_of).collect();
    for time in scene.plain.dates().times.iter().filter(|_| !mine.is_empty()) {
        // Of several times each stands in the part of its own comma.
        let (from, to) = if own.at < time.span.start { (own.end, time.span.start) } else { (time.span.end, own.at) };
        let apart = scene.plain.dates().times.len() > 1 && scene.text().get(from..to).is_some_and(|gap| gap.contains(','));
        let near = !apart && shares_clause(scene.text(), own.at..own.end, time.span.clone()) && !of_others(&time.span);
        let theirs = || outside().any(|leaf| times_of(leaf).contains(&time.minutes));
        let said = || scene.grounds.said_dates().times.iter().any(|other| other.minutes == time.minutes);
        if near && !mine.contains(&time.minutes) && theirs() && !said() {
            return Some(ClaimFinding {
                rule: "record_time",
                code: Code::ClaimMismatch,
                span: time.span.clone(),
                found: scene.text().get(time.span.clone()).unwrap_or_default().to_owned(),
                expected: "the time of what it tells of".to_owned(),
                certainty: Certainty::Likely,
            });
        }
    }
    None
}

/// Do two places lie in one clause: no mark between them, and no word that begins another?
fn shares_clause(text: &str, one: std::ops::Range<usize>, other: std::ops::Range<usize>) -> bool {
    let (from, to) = if one.start < other.start { (one.end, other.start) } else { (other.end, one.start) };
    let between = text.get(from.min(to)..to).unwrap_or_default();
    let lower = between.to_lowercase();
    let joins = [
        " and ",
        " but ",
        " while ",
        " whereas ",
        " than ",
        " then ",
        " und ",
        " aber ",
        " et ",
        " mais ",
        " y ",
        " pero ",
        " e ",
        " ma ",
        " up to ",
        " to ",
        " over ",
    ];
    !between.contains([';', '(', ')', '–', '—', '\n', '|', '['])
        && !joins.iter().any(|join| lower.contains(join))
        && between.matches(',').count() <= 1
}

/// A flag told the other way round: "is contaminated" where `contaminated` is false.
fn flags(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if source.failed || facts.leaves.len() > LEAVES_OF {
        return None;
    }
    for leaf in &facts.leaves {
        let Scalar::Flag(flag) = leaf.value else { continue };
        let same = facts.of_key(&leaf.key).count();
        if same != 1 || leaf.key.len() < 4 {
            continue;
        }
        let bare = leaf.key.strip_prefix("is").or_else(|| leaf.key.strip_prefix("has")).unwrap_or(&leaf.key);
        let Some((word, opposite)) = word_of_flag(&scene.plain.words, bare) else { continue };
        // What stands before a mark denies something else: `better not: it's vegetarian`.
        let from = behind_last(scene.text().get(..word.start).unwrap_or_default(), |c| matches!(c, ':' | ';' | '.'));
        let near = scene.words_before(word.start);
        let near = near.get(near.partition_point(|word| word.start < from)..).unwrap_or_default();
        // `"Quiet Keys" is playing`: such words are mostly no denial.
        let plain = ["free", "clear", "clean", "quiet", "empty", "0"];
        let denies = |word: &str| is_nothing(word) && !plain.contains(&word) || word.ends_with("n't") || word.ends_with("n’t");
        let said_not = near.iter().rev().take(4).any(|word| denies(&word.lower));
        let hedged = near.iter().rev().take(4).any(|word| {
            ["if", "whether", "could", "may", "might", "should", "possibly", "as", "was", "were", "or"].contains(&word.lower.as_str())
        });
        let copula = near
            .iter()
            .rev()
            .take(3)
            .any(|word| matches!(word.lower.as_str(), "is" | "are" | "it's" | "be" | "been" | "isn't" | "aren't" | "not"));
        // `online, contactless and cash use are off`: its own verb comes behind it.
        let subject = scene
            .words_after(word.end)
            .iter()
            .take(8)
            .take_while(|word| {
                scene.text().get(near.last().map_or(0, |near| near.end)..word.start).is_some_and(|gap| !gap.contains(['.', ';']))
            })
            .any(|word| matches!(word.lower.as_str(), "is" | "are" | "was" | "were" | "stays" | "stay" | "remains" | "remain"));
        if copula && !subject && !hedged && (said_not != opposite) == flag {
            return Some(ClaimFinding {
                rule: "flags",
                code: Code::ClaimMismatch,
                span: word.start..word.end,
                found: scene.text().get(near.last().map_or(word.start, |word| word.start)..word.end).unwrap_or_default().to_owned(),
                expected: format!("{}: {flag}", leaf.key),
                certainty: Certainty::Certain,
            });
        }
    }
    None
}

/// The word, or the first of the words, that are the name of a flag, and whether it is its opposite: `on display` of `onDisplay`, `unlocked`
/// of `locked`.
fn word_of_flag<'w>(words: &'w [Word], name: &str) -> Option<(&'w Word, bool)> {
    (0..words.len()).find_map(|at| {
        let joined = |count: usize| words.get(at..at + count).map(|words| words.iter().map(|word| key(&word.lower)).collect::<String>());
        let own = key(&words.get(at)?.lower);
        let opposite = own.strip_prefix("un").or_else(|| own.strip_prefix("in")).is_some_and(|rest| rest == name);
        let is = own == name || joined(2).is_some_and(|two| two == name);
        (is || opposite).then(|| Some((words.get(at)?, opposite)))?
    })
}

/// Words behind one for all among which what is left out is named: `all of them but the first`.
const BUT_WITHIN: usize = 3;

/// "All four have a balcony" where one has none.
fn every(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    let all = ["all", "every", "each", "alle", "jede", "jeder", "jedes", "toutes", "tous", "todos", "todas", "tutti", "tutte", "allemaal"];
    let first = scene.plain.words.iter().take(4).find(|word| all.contains(&word.lower.as_str()))?;
    // `33 g each of butter and flour`: an amount.
    let amount = scene
        .words_before(first.start)
        .last()
        .is_some_and(|word| scene.plain.numbers().iter().any(|number| number.end >= word.end && number.span.start < word.end));
    // `All but one`
    static BUT: WordList = WordList::new(&[
        "but", "except", "bar", "save", "außer", "bis", "sauf", "excepté", "menos", "excepto", "salvo", "tranne", "exceto", "behalve", "op",
    ]);
    let but = scene.words_after(first.end).iter().take(BUT_WITHIN).any(|word| BUT.has(&word.lower));
    // `Two each of A and CNAME`
    let shared_out = scene.words_before(first.start).last().is_some_and(|word| scene.lexicon.count(&word.lower).is_some());
    // `All the list tells me is …`
    let of_telling = scene
        .words_after(first.end)
        .iter()
        .take(BUT_WITHIN)
        .any(|word| matches!(word.lower.as_str(), "tells" | "says" | "shows" | "i" | "we" | "you"))
        // `All that is left`
        || scene.words_after(first.end).first().is_some_and(|word| matches!(word.lower.as_str(), "that" | "what"));
    if amount
        || but
        || of_telling
        || shared_out
        || scene.bond != CitationScope::Cited && scene.kind != Kind::Line
        || source.failed
        || facts.records.len() < 2
        || facts.leaves.len() > LEAVES_OF
        || denies(scene.text())
    {
        return None;
    }
    for word in scene.words_after(first.end) {
        let folded = key(&word.lower);
        if folded.len() < 4 {
            continue;
        }
        let fine = ["successfully", "succeeded", "successful", "passed", "erfolgreich", "réussi", "exitosamente", "riuscite"]
            .contains(&word.lower.as_str());
        let failed = || {
            facts.leaves.iter().any(|leaf| {
                leaf.record > 0
                    && matches!(&leaf.value, Scalar::Text(text) if failure::STATES.contains(&fold(text).replace(' ', "").as_str()))
            })
        };
        if fine && failed() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them are so", Certainty::Certain));
        }
        let flags: Vec<bool> = facts
            .leaves
            .iter()
            .filter(|leaf| leaf.key == folded)
            .filter_map(|leaf| match leaf.value {
                Scalar::Flag(flag) => Some(flag),
                _ => None,
            })
            .collect();
        let mixed = flags.len() >= 2 && flags.contains(&false);
        let texts: Vec<&str> = facts
            .leaves
            .iter()
            .filter(|leaf| leaf.record > 0)
            .filter_map(|leaf| match &leaf.value {
                Scalar::Text(text) if text.len() <= 24 => Some((leaf.key.as_str(), text.as_str())),
                _ => None,
            })
            .filter(|(own, _)| facts.of_key(own).any(|leaf| matches!(&leaf.value, Scalar::Text(text) if is_value(text, &word.lower))))
            .map(|(_, text)| text)
            .collect();
        // `All wheels have been given a grade`, of which one has none.
        // `every open issue has somebody assigned`, where an assignee is null.
        let of_null = || {
            let own: Vec<&NamedValue> =
                facts.leaves.iter().filter(|leaf| leaf.record > 0 && (leaf.key == folded || akin(&leaf.key, &folded))).collect();
            own.len() >= 2 && own.iter().any(|leaf| matches!(leaf.value, Scalar::Null)) && folded.len() > 5
        };
        let somebody = || scene.plain.words.iter().any(|word| matches!(word.lower.as_str(), "somebody" | "someone" | "an" | "a" | "its"));
        if somebody() && of_null() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them have one", Certainty::Likely));
        }
        let has_column = || source.rows().columns && source.rows().rows.len() >= 2;
        let given = || {
            has_column()
                && scene
                    .plain
                    .words
                    .iter()
                    .any(|word| matches!(word.lower.as_str(), "have" | "has" | "got" | "given" | "carry" | "carries"))
                && source.rows().rows.iter().flat_map(|row| &row.cells).any(|cell| cell.column == folded)
                && source.rows().rows.iter().any(|row| !row.cells.iter().any(|cell| cell.column == folded && !cell.folded.is_empty()))
        };
        if given() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them have one", Certainty::Likely));
        }
        let differs = texts.len() >= 2 && texts.iter().any(|text| !is_value(text, &word.lower));
        if mixed || differs && !texts.is_empty() {
            return Some(whole(scene, "every", Code::CountMismatch, "not all of them are so", Certainty::Likely));
        }
    }
    None
}

fn is_value(text: &str, word: &str) -> bool {
    let (text, word) = (fold(text), fold(word));
    text == word || akin(&text, &word)
}

/// Names of weekdays, each with its number from Monday on.
const DAYS: &[(&str, i64)] = &[
    ("monday", 0),
    ("tuesday", 1),
    ("wednesday", 2),
    ("thursday", 3),
    ("friday", 4),
    ("saturday", 5),
    ("sunday", 6),
    ("montag", 0),
    ("dienstag", 1),
    ("mittwoch", 2),
    ("donnerstag", 3),
    ("freitag", 4),
    ("samstag", 5),
    ("sonntag", 6),
    ("lundi", 0),
    ("mardi", 1),
    ("mercredi", 2),
    ("jeudi", 3),
    ("vendredi", 4),
    ("samedi", 5),
    ("dimanche", 6),
    ("lunes", 0),
    ("martes", 1),
    ("miércoles", 2),
    ("jueves", 3),
    ("viernes", 4),
    ("sábado", 5),
    ("domingo", 6),
    ("lunedì", 0),
    ("martedì", 1),
    ("mercoledì", 2),
    ("giovedì", 3),
    ("venerdì", 4),
    ("sabato", 5),
    ("domenica", 6),
    ("maandag", 0),
    ("dinsdag", 1),
    ("woensdag", 2),
    ("donderdag", 3),
    ("vrijdag", 4),
    ("zaterdag", 5),
    ("zondag", 6),
];

/// The weekday of this word, from Monday on.
pub(super) fn weekday_of(word: &Word) -> Option<i64> {
    weekday_named(word.lower.trim_end_matches("'s").trim_end_matches("’s"))
}

/// The weekday of this name, in lower case, from Monday on.
pub(super) fn weekday_named(name: &str) -> Option<i64> {
    DAYS.iter().find(|(known, _)| *known == name).map(|(_, day)| *day)
}

/// The weekday that the user named, told of an act whose call has the date of another one: `Thursday's dinner` of 2025-10-22, a Wednesday.
fn weekday_of_call(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    static EVERY: WordList = WordList::new(&[
        "every",
        "each",
        "weekly",
        "from",
        "until",
        "before",
        "by",
        "jeden",
        "jede",
        "wöchentlich",
        "ab",
        "bis",
        "vor",
        "chaque",
        "hebdomadaire",
        "jusqu'à",
        "avant",
        "cada",
        "todos",
        "todas",
        "hasta",
        "antes",
        "desde",
        "ogni",
        "entro",
        "fino",
        "prima",
        "toda",
        "todo",
        "até",
        "elke",
        "iedere",
        "wekelijks",
        "tot",
        "voor",
        "każdy",
        "każdą",
        "co",
        "do",
        "przed",
        "od",
        "her",
        "kadar",
        "önce",
    ]);
    let [source] = scene.sources.as_slice() else { return None };
    if source.reads() || source.fails() || !scene.plain.dates().dates.is_empty() {
        return None;
    }
    let mut said = scene.plain.words.iter().filter_map(|word| Some((word, weekday_of(word)?)));
    let (Some((word, day)), None) = (said.next(), said.next()) else { return None };
    let asked = scene.grounds.asked.words();
    let mut wanted = asked.iter().filter_map(weekday_of);
    if wanted.next() != Some(day) || wanted.next().is_some() || asked.iter().chain(&scene.plain.words).any(|word| EVERY.has(&word.lower)) {
        return None;
    }
    let days: BTreeSet<i64> = date::dates(&source.arguments).dates.iter().flat_map(date::Date::days).collect();
    let called = days.first().filter(|_| days.len() == 1)?;
    // `Sunday roast` as a title, a day that the result has, `Thursday's call was moved to the 9th`: of another day than the call's.
    let names_it = |text: &str| lexicon::words(text).iter().any(|word| weekday_of(word) == Some(day));
    let has_it = || source.facts().dates.dates.iter().flat_map(date::Date::days).any(|other| date::weekday(other) == day);
    let other_day = || scene.plain.numbers().iter().any(|number| number.ordinal);
    if names_it(&source.arguments) || names_it(&source.text) || has_it() || other_day() {
        return None;
    }
    // The first of January 1970 was a Thursday.
    let own = date::weekday(*called);
    (own != day).then(|| ClaimFinding {
        rule: "weekday_of_call",
        code: Code::ClaimMismatch,
        span: word.start..word.end,
        found: scene.text().get(word.start..word.end).unwrap_or_default().to_owned(),
        expected: format!("the call is for a {}", DAYS.iter().find(|(_, known)| *known == own).map_or("", |(name, _)| name)),
        certainty: Certainty::Likely,
    })
}

/// A weekday beside a date that is another one.
fn weekday(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    for word in &scene.plain.words {
        let Some((_, day)) = DAYS.iter().find(|(name, _)| *name == word.lower) else { continue };
        // `7 March is a Saturday, 22 March a Sunday`: told of the date before it.
        let article = scene.words_before(word.start).last().is_some_and(|last| {
            matches!(
                last.lower.as_str(),
                "a" | "ein" | "un" | "een" | "um" | "är" | "is" | "was" | "ist" | "est" | "es" | "è" | "é" | "fällt"
            )
        });
        if article {
            continue;
        }
        let next = scene
            .plain
            .dates()
            .dates
            .iter()
            .find(|date| date.span.start >= word.end || date.span.start <= word.start && date.span.end >= word.end);
        let Some(date) = next else { continue };
        let gap = scene.text().get(word.end..date.span.start.max(word.end)).unwrap_or_default();
        if gap.chars().count() > 8 || gap.contains(['.', ';', ')', '(']) {
            continue;
        }
        // Without a year it is one of the years that the conversation has.
        let full =
            date.readings.iter().flatten().filter(|(year, _, _)| *year != 0).map(|(year, month, day)| date::days(*year, *month, *day));
        let mut days: Vec<i64> = full.collect();
        if days.is_empty() {
            let known = scene.grounds.results.iter().flat_map(|source| source.facts().dates.dates.iter()).filter(|other| date.is(other));
            days.extend(known.flat_map(|other| other.days()));
        }
        // 1970-01-01 was a Thursday.
        if !days.is_empty() && days.iter().all(|number| date::weekday(*number) != *day) {
            return Some(ClaimFinding {
                rule: "weekday",
                code: Code::ClaimMismatch,
                span: word.start..date.span.end.max(word.end),
                found: scene.text().get(word.start..date.span.end.max(word.end)).unwrap_or_default().to_owned(),
                expected: "another day of the week".to_owned(),
                certainty: Certainty::Likely,
            });
        }
    }
    None
}

/// Words that tell of an absence in so many words; those that deny something else too are not among them.
static ABSENT: WordList = WordList::new(&[
    "no",
    "none",
    "nothing",
    "empty",
    "zero",
    "any",
    "kein",
    "keine",
    "keinen",
    "keinerlei",
    "nichts",
    "leer",
    "aucun",
    "aucune",
    "rien",
    "vide",
    "ningun",
    "ninguna",
    "ningunos",
    "nada",
    "vacio",
    "vacia",
    "nessun",
    "nessuno",
    "nessuna",
    "niente",
    "vuoto",
    "vuota",
    "nenhum",
    "nenhuma",
    "vazio",
    "vazia",
    "geen",
    "niets",
    "leeg",
    "brak",
    "zadnych",
    "hic",
    "yok",
    "bos",
]);

static ABSENT_INSIDE: PhraseList = PhraseList::new(&["没有", "沒有", "无", "無", "ありません", "なし", "ない", "नहीं"]);

/// "You have no appointments" where the result has three: nothing in the sentence narrows what the call asked for.
fn denied(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if scene.bond != CitationScope::Cited
        || source.fails()
        || scene.text().len() > 240
        || scene.text().contains([':']) && scene.kind == Kind::Line
    {
        return None;
    }
    let spaceless = scene.text().chars().any(|c| matches!(c, '\u{3040}'..='\u{9fff}' | '\u{0900}'..='\u{097f}'));
    let absent = match spaceless {
        true => ABSENT_INSIDE.stands_in(scene.text()),
        false => scene.plain.words.iter().any(|word| ABSENT.has(&folded(&word.lower))),
    };
    if !absent {
        return None;
    }
    let something = if facts.is_structured() {
        let least = facts.lists.iter().map(|list| list.depth).min();
        let tops: Vec<_> = facts.lists.iter().filter(|list| Some(list.depth) == least).collect();
        let zero = facts.leaves.iter().any(|leaf| leaf.record == 0 && leaf.value.number() == Some(0.0) && derive::is_count(&leaf.key));
        !tops.is_empty() && tops.iter().all(|list| list.length > 0) && !zero
    } else {
        facts.lines > 1
    };
    if !something
        || !scene.plain.numbers().iter().all(|number| {
            number.whole() == Some(0)
                || scene.grounds.said_numbers_have(number.readings().next().map_or(0.0, |reading| reading.value))
                || scene.has_number(number, number::Precision::Exact)
        })
    {
        return None;
    }
    let about = if spaceless { is_about_question(scene) } else { is_about_call(scene, source) };
    // `5D の工単`, `no V-12`: a name that the result doesn't have.
    let foreign = |own: &str| {
        own.bytes().any(|byte| byte.is_ascii_digit())
            && own.bytes().any(|byte| byte.is_ascii_alphabetic())
            && ![source.folded(), source.folded_arguments()].iter().any(|text| text.contains(own))
    };
    let runs = |word: &Word| word.folded().split(|c: char| !c.is_ascii_alphanumeric()).any(foreign);
    if scene.plain.words.iter().any(runs) {
        return None;
    }
    // Asked last: it reads the whole result for it.
    if !about || source.says_none() || names_blank_record(scene, source) {
        return None;
    }
    let expected = format!("the result has {}", most(source));
    Some(whole(scene, "denied", Code::FalseAbsence, &expected, if spaceless { Certainty::Likely } else { Certainty::Certain }))
}

/// Does the passage name a record that has nothing somewhere: `Ben has no mark` of one whose mark is `null`?
fn names_blank_record(scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let facts = source.facts();
    let blank = |leaf: &NamedValue| match &leaf.value {
        Scalar::Null | Scalar::Flag(false) => true,
        Scalar::Text(text) => text.trim().is_empty() || is_nothing(&fold(text)),
        Scalar::Number(number) => *number == 0.0,
        Scalar::Flag(true) => false,
    };
    let empty = facts.lists.iter().any(|list| list.length == 0);
    named(scene.plain.folded(), scene.text(), facts)
        .iter()
        .any(|own| empty || facts.leaves.iter().any(|leaf| facts.lies_in(leaf.record, own.record) && blank(leaf)))
}

/// Is every word of the passage one of the call, its tool, its lists, of looking or of nothing in particular?
fn is_about_call(scene: &CheckContext<'_>, source: &ToolResult) -> bool {
    let facts = source.facts();
    let lexicon = scene.lexicon;
    let about: Vec<String> = name_words(&source.tool).into_iter().chain(name_words(&source.arguments)).collect();
    let definition = scene.grounds.definition_of(&source.tool);
    let described: Vec<String> = name_words(definition);
    let said_arguments = source.folded_arguments();
    const PLAIN: &[&str] = &[
        "a",
        "an",
        "the",
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "from",
        "with",
        "by",
        "and",
        "or",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "have",
        "has",
        "had",
        "do",
        "does",
        "did",
        "i",
        "you",
        "your",
        "my",
        "our",
        "it",
        "its",
        "there",
        "here",
        "that",
        "this",
        "these",
        "those",
        "any",
        "no",
        "none",
        "nothing",
        "not",
        "dont",
        "doesnt",
        "didnt",
        "couldnt",
        "could",
        "cannot",
        "find",
        "found",
        "see",
        "searched",
        "checked",
        "looked",
        "search",
        "came",
        "up",
        "back",
        "turned",
        "gave",
        "returned",
        "returns",
        "shows",
        "show",
        "hits",
        "results",
        "result",
        "matches",
        "match",
        "records",
        "record",
        "entries",
        "entry",
        "data",
        "empty",
        "completely",
        "currently",
        "right",
        "now",
        "moment",
        "all",
        "quiet",
        "zero",
        "scheduled",
        "planned",
        "booked",
        "registered",
        "listed",
        "recorded",
        "stored",
        "detected",
        "connected",
        "linked",
        "set",
        "available",
        "whatsoever",
        "single",
        "yet",
        "unfortunately",
        "week",
        "day",
        "today",
        "time",
        "period",
        "route",
        "about",
        "under",
        "using",
        "via",
        "me",
        "so",
        "also",
        "system",
        "database",
        "account",
        "list",
        "exist",
        "exists",
        "offers",
        "offer",
        "within",
        "as",
        "per",
        "every",
        "query",
        "rows",
        "web",
    ];
    scene.plain.words.iter().all(|word| {
        let folded = fold(&word.lower);
        let end = folded.rsplit(' ').next().unwrap_or_default().to_owned();
        let lower = word.lower.as_str();
        let plain = PLAIN.contains(&folded.as_str()) || ABSENT.has(&folded) || lower.ends_with("n't") || lower.ends_with("n’t");
        let common = lexicon.common.contains(lower)
            || lexicon.scope.contains(lower)
            || lexicon.found.contains(lower)
            || lexicon.generic.contains(lower)
            || lexicon.pronouns.contains(lower);
        let of_call = || {
            about.iter().any(|own| akin(own, &end))
                || stands_in(said_arguments, &folded)
                || described.iter().any(|own| akin(own, &end) && own.chars().count() > 3)
        };
        let of_list = || {
            let said = NounPhrase::new(lower, lexicon);
            said.names(source.nouns()) || facts.lists.iter().any(|list| said.names(&list.words))
        };
        // A word that narrows is decided by the result where one of its values says that there is such a thing.
        let decided = || {
            facts.leaves.iter().take(LEAVES_OF).any(|leaf| match &leaf.value {
                Scalar::Text(text) => akin(&fold(text), &end),
                _ => false,
            })
        };
        let counted = || {
            scene.plain.numbers().iter().any(|number| {
                number.end <= word.start && word.start <= number.end + 1 && scene.has_number(number, number::Precision::Exact)
            })
        };
        static OTHER: WordList = WordList::new(&[
            "es",
            "sind",
            "ist",
            "gibt",
            "gab",
            "wurden",
            "wurde",
            "ich",
            "habe",
            "mit",
            "deinem",
            "deiner",
            "deinen",
            "dein",
            "deine",
            "ihrem",
            "ihrer",
            "ihr",
            "konto",
            "verbunden",
            "gefunden",
            "hinterlegt",
            "eingetragen",
            "vorhanden",
            "im",
            "in",
            "am",
            "der",
            "die",
            "das",
            "dem",
            "den",
            "für",
            "zu",
            "zum",
            "zur",
            "diese",
            "dieser",
            "diesem",
            "keine",
            "kein",
            "da",
            "aucun",
            "n'est",
            "nest",
            "n'a",
            "na",
            "pas",
            "il",
            "n'y",
            "ny",
            "y",
            "a",
            "été",
            "ete",
            "enregistré",
            "enregistre",
            "trouvé",
            "trouve",
            "pour",
            "ce",
            "cette",
            "ces",
            "dans",
            "votre",
            "ton",
            "ta",
            "le",
            "la",
            "les",
            "de",
            "des",
            "du",
            "je",
            "j'ai",
            "jai",
            "que",
            "est",
            "sont",
            "sur",
            "aucune",
            "no",
            "he",
            "se",
            "ha",
            "han",
            "encontrado",
            "encontró",
            "encontro",
            "hay",
            "ningún",
            "ningun",
            "ninguna",
            "con",
            "en",
            "el",
            "los",
            "las",
            "tu",
            "su",
            "tienes",
            "tiene",
            "para",
            "este",
            "esta",
            "un",
            "una",
            "del",
            "al",
            "registrado",
            "ni",
            "encontraron",
            "non",
            "ho",
            "hai",
            "trovato",
            "trovata",
            "trovati",
            "ci",
            "nessun",
            "nessuna",
            "nel",
            "nella",
            "per",
            "questo",
            "questa",
            "tuo",
            "tua",
            "il",
            "lo",
            "gli",
            "sono",
            "stati",
            "stato",
            "não",
            "nao",
            "há",
            "ha",
            "encontrei",
            "nenhum",
            "nenhuma",
            "seu",
            "sua",
            "na",
            "foram",
            "encontrados",
            "geen",
            "zijn",
            "er",
            "gevonden",
            "het",
            "een",
            "je",
            "uw",
            "voor",
            "van",
            "met",
            "op",
            "heb",
            "ik",
            "werden",
        ]);
        // In other languages the question has the words that the tool has in English; what narrows is left alone.
        static NARROW: WordList = WordList::new(&[
            "offen",
            "offene",
            "offenen",
            "überfällig",
            "überfällige",
            "ausstehend",
            "aktiv",
            "aktive",
            "neue",
            "neuen",
            "dringend",
            "ouvert",
            "ouverts",
            "fermé",
            "fermés",
            "actif",
            "urgent",
            "nouveau",
            "abierto",
            "abiertos",
            "cerrado",
            "pendiente",
            "pendientes",
            "activo",
            "urgente",
            "nuevo",
            "aperto",
            "aperti",
            "chiuso",
            "attivo",
            "aberto",
            "abertos",
            "open",
            "nuevos",
        ]);
        let foreign = || {
            scene.lexicon.language != "en" && {
                let asked = scene.grounds.asked.name_words();
                OTHER.has(lower)
                    || OTHER.has(&folded)
                    || end.chars().count() > 3 && !NARROW.has(lower) && asked.iter().any(|own| akin(own, &end))
            }
        };
        plain
            || common
            || counted()
            || foreign()
            || folded.chars().count() < 2
            || folded.bytes().all(|byte| byte.is_ascii_digit())
            || of_call()
            || of_list()
            || decided()
    })
}

/// Is every character of the passage one of the question, or of saying that nothing was found? For scripts without blanks.
fn is_about_question(scene: &CheckContext<'_>) -> bool {
    const PLAIN: &str = "没有沒無无任何的了找到发现查询结果记录相关目前现在您你我该这个中在里显示返回是为何も件のはがをに見つかりませんでしたありなしないनहींमिलाहैकोईभीकेबारेमेंइसआपकोकीका";
    let arguments = &scene.grounds.results.iter().map(|source| &*source.arguments).collect::<String>();
    let known = |c: char| PLAIN.contains(c) || scene.grounds.asked.contains(c) || arguments.contains(c);
    scene.text().chars().filter(|c| c.is_alphanumeric()).all(known)
}

/// Words between two numbers and the percentage that they make, where it stands behind them, and where it stands in front: `with 10 % off
/// the customer paid 81 of 100` tells of two things.
const SHARE_WORDS: usize = 4;
const SHARE_WORDS_IN_FRONT: usize = 2;

/// "22 of 40 points, so 65 %".
fn share(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let numbers = scene.plain.numbers();
    let percents: Vec<_> = numbers.iter().filter(|number| number.percent).collect();
    let [percent] = percents.as_slice() else { return None };
    if scene.bond != CitationScope::Cited {
        return None;
    }
    let told = scene.sources.iter().any(|source| evidence::fits(percent, number::Precision::Exact, &source.facts().numbers));
    if told || scene.grounds.said_numbers_have(percent.readings().next()?.value) {
        return None;
    }
    let mut pairs = numbers.iter().zip(numbers.iter().skip(1)).filter_map(|(one, two)| {
        let gap = scene.text().get(one.end..two.span.start)?.trim().to_lowercase();
        let of = ["of", "/", "out of", "of the", "von", "von den", "sur", "de", "su", "van de", "of its", "of your", "out of the"]
            .contains(&gap.as_str());
        // `92 % of the 317`: the share itself.
        let plain = !one.percent && !two.percent;
        let (one, two) = (one.readings().next()?.value, two.readings().next()?.value);
        (of && plain && one <= two && two > 0.0).then_some(one / two * 100.0)
    });
    // The percentage stands right before or behind them.
    let near = |number: &Number| {
        let (from, to, words) = match number.end <= percent.span.start {
            true => (number.end, percent.span.start, SHARE_WORDS),
            false => (percent.end, number.span.start, SHARE_WORDS_IN_FRONT),
        };
        scene.text().get(from..to).is_some_and(|gap| gap.split_whitespace().count() <= words)
    };
    let beside = numbers.iter().zip(numbers.iter().skip(1)).any(|(one, two)| near(one) || near(two));
    if !beside {
        return None;
    }
    let (first, None) = (pairs.next()?, pairs.next()) else { return None };
    let fits =
        percent.readings().any(|reading| reading.rounds(first) || reading.rounds(100.0 - first) || (reading.value - first).abs() <= 1.0);
    (!fits).then(|| ClaimFinding {
        rule: "share",
        code: Code::ClaimMismatch,
        span: percent.span.start..percent.end,
        found: scene.text().get(percent.span.start..percent.end).unwrap_or_default().to_owned(),
        expected: format!("{first:.1} %"),
        certainty: Certainty::Certain,
    })
}

/// Bytes of a result in which members' names are looked at, and values of one number that are compared.
const NAMES_BYTES_MAX: usize = 16 << 10;
const EQUAL_MAX: usize = 16;

/// Is it a word of a member's name, as the result writes it: `range_km`, `rangeKm`, but not `in_stock_m`?
pub(super) fn is_word_of_name(word: &str, source: &ToolResult) -> bool {
    let mut capital = word.to_owned();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let text = source.text.get(..source.text.floor_char_boundary(NAMES_BYTES_MAX)).unwrap_or_default();
    let stands = |word: &str, begins: fn(Option<&u8>) -> bool| {
        text.match_indices(word).any(|(at, _)| {
            let (before, behind) = (at.checked_sub(1).and_then(|at| text.as_bytes().get(at)), text.as_bytes().get(at + word.len()));
            begins(before) && !behind.is_some_and(u8::is_ascii_alphanumeric)
        })
    };
    stands(word, |before| !before.is_some_and(u8::is_ascii_alphanumeric))
        || stands(&capital, |before| before.is_some_and(u8::is_ascii_lowercase))
}

/// "15 seconds" of a member that has 15 and is named in milliseconds.
fn measured(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    const SUFFIXES: &[(&str, &str)] = &[
        ("ms", "ms"),
        ("millis", "ms"),
        ("milliseconds", "ms"),
        ("sec", "s"),
        ("secs", "s"),
        ("seconds", "s"),
        ("min", "min"),
        ("minutes", "min"),
        ("hours", "h"),
        ("hrs", "h"),
        ("days", "day"),
        ("km", "km"),
        ("meters", "m"),
        ("cm", "cm"),
        ("mm", "mm"),
        ("miles", "mi"),
        ("kg", "kg"),
        ("grams", "g"),
        ("ml", "ml"),
        ("liters", "l"),
        ("kb", "KB"),
        ("mb", "MB"),
        ("gb", "GB"),
        ("tb", "TB"),
        ("kwh", "kWh"),
        ("mbps", "Mbit/s"),
        ("kbps", "kbit/s"),
        ("gbps", "Gbit/s"),
        ("kw", "kW"),
        ("hz", "Hz"),
        ("s", "s"),
        ("h", "h"),
        ("hour", "h"),
        ("m", "m"),
        ("metres", "m"),
        ("meter", "m"),
        ("ft", "ft"),
        ("feet", "ft"),
        ("mi", "mi"),
        ("yards", "yd"),
        ("inches", "in"),
        ("g", "g"),
        ("lb", "lb"),
        ("lbs", "lb"),
        ("oz", "oz"),
        ("l", "l"),
        ("litres", "l"),
        ("cl", "cl"),
        ("kmh", "km/h"),
        ("kph", "km/h"),
        ("mph", "mph"),
        ("mw", "MW"),
        ("mwh", "MWh"),
        ("wh", "Wh"),
        ("ha", "ha"),
    ];
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    for number in scene.plain.numbers().iter().filter(|number| number.unit.is_some() && !number.percent && !number.scaled) {
        let unit = number.unit?;
        let value = number.readings().next()?.value;
        let equal: Vec<&NamedValue> =
            facts.leaves.iter().take(LEAVES_OF).filter(|leaf| leaf.value.number() == Some(value)).take(EQUAL_MAX + 1).collect();
        let named: Vec<&unit::Unit> = equal
            .iter()
            .filter_map(|leaf| {
                // A name that is no more than a unit says it whole: `km` doesn't end with `m`.
                let whole = SUFFIXES.iter().find(|(suffix, _)| leaf.key == *suffix);
                // `dose_mg_per_kg` is no mass.
                let rate = leaf.key.contains("per") && is_word_of_name("per", source);
                if rate {
                    return None;
                }
                let ends = |suffix: &str| leaf.key.len() > suffix.len() && leaf.key.ends_with(suffix) && is_word_of_name(suffix, source);
                let last = || SUFFIXES.iter().filter(|(suffix, _)| ends(suffix)).max_by_key(|(suffix, _)| suffix.len());
                let (_, symbol) = whole.or_else(last)?;
                unit::named(symbol)
            })
            .collect();
        let wrong = !equal.is_empty()
            && equal.len() <= EQUAL_MAX
            && named.len() == equal.len()
            && named.iter().all(|other| other.dimension == unit.dimension && (other.factor / unit.factor - 1.0).abs() > 0.01);
        // `18 km are closed`, of 62 and 80: what two of the result's own numbers make.
        let of_two = || {
            let others = facts.numbers.iter().take(LEAVES_OF).filter(|other| **other != value);
            facts.numbers.len() <= EQUAL_MAX
                && others.into_iter().any(|other| facts.numbers.contains(&(other + value)) && other + value != 2.0 * value)
        };
        if wrong && !scene.grounds.said_numbers_have(value) && !of_two() {
            return Some(ClaimFinding {
                rule: "measured",
                code: Code::ClaimMismatch,
                span: number.span.start..number.end,
                found: scene.text().get(number.span.start..number.end).unwrap_or_default().to_owned(),
                expected: equal.first().map(|leaf| format!("{}: {}", leaf.key, leaf.value.shown())).unwrap_or_default(),
                certainty: Certainty::Certain,
            });
        }
    }
    None
}

/// A value told of a member by its name: "the upload is 81.5" of `upload_mbps: 18.05`.
fn named_field(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    if scene.bond != CitationScope::Cited
        || source.fails()
        || facts.leaves.len() > LEAVES_OF
        || tells_nothing(scene)
        || !facts.is_structured()
    {
        return None;
    }
    static BETWEEN: WordList = WordList::new(&[
        "is",
        "was",
        "of",
        "at",
        "the",
        "a",
        "are",
        "were",
        "ist",
        "war",
        "beträgt",
        "est",
        "es",
        "era",
        "è",
        "e",
        "de",
        "di",
        "now",
        "currently",
    ]);
    let reckons = cues::reckons(scene.plain);
    scene.plain.numbers().iter().filter(|number| !number.ordinal && !number.scaled).find_map(|number| {
        if scene.plain.is_taken(&(number.span.start..number.end)) {
            return None;
        }
        let before = scene.words_before(number.span.start);
        let last = before.iter().rev().take(4).find(|word| !BETWEEN.has(&word.lower))?;
        let gap = scene.text().get(last.end..number.span.start)?;
        let name = key(&last.lower);
        let adjacent = gap.trim_matches([':', '=', ' ', '*', '`']).is_empty();
        if gap.contains([',', ';', '(', '/', '–', '—']) || name.len() < 4 || !adjacent && reckons {
            return None;
        }
        let of_name = |leaf: &&NamedValue| leaf.key == name || leaf.key.starts_with(&name) && leaf.key.len() <= name.len() + 6;
        let mut leaves = facts.leaves.iter().filter(of_name).filter(|leaf| leaf.value.number().is_some());
        let (leaf, None) = (leaves.next()?, leaves.next()) else { return None };
        let value = leaf.value.number()?;
        // `videos 800 MB` of so many videos, `water: 73 %` of its grams.
        let parts = ["pct", "percent", "rate", "share", "ratio"];
        let foreign = number.percent && !parts.iter().any(|part| leaf.key.contains(part));
        let stem = name.trim_end_matches('s');
        let of_stem = || facts.keys().iter().any(|key| key != &leaf.key && key.starts_with(stem));
        let counted = number.unit.is_some() && leaf.key == name && value.fract() == 0.0 && of_stem();
        if foreign || counted {
            return None;
        }
        let own = evidence::fits(number, number::Precision::Exact, &[value.abs()]);
        let anywhere = evidence::fits(number, number::Precision::Exact, &facts.numbers)
            || reckons && scene.has_number(number, number::Precision::Exact);
        let said = number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value));
        // In cents, in percent.
        let scaled = number.readings().any(|reading| [100.0, 0.01, 1000.0, 0.001].iter().any(|scale| reading.rounds(value * scale)));
        let wrong = !own && !anywhere && !said && !scaled && !reckon::is_rescaled(scene, number, value.abs());
        wrong.then(|| ClaimFinding {
            rule: "named_field",
            code: Code::ClaimMismatch,
            span: last.start..number.end,
            found: scene.text().get(last.start..number.end).unwrap_or_default().to_owned(),
            expected: format!("{}: {}", leaf.key, leaf.value.shown()),
            certainty: Certainty::Likely,
        })
    })
}

/// A record said to have the most or the least of something, and it has so in no column, nor in what two columns make.
fn extreme(scene: &CheckContext<'_>, names: &NamedRecords<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let facts = source.facts();
    let mut said = cues::extremes(scene.plain);
    let (Some(word), None) = (said.next(), said.next()) else { return None };
    if source.fails() || source.is_partial() || facts.leaves.len() > LEAVES_OF || tells_nothing(scene) {
        return None;
    }
    let [own] = names.of(0) else { return None };
    // `the longest of those`
    static AMONG: PhraseList = PhraseList::new(&[
        "of those",
        "of these",
        "of them",
        "of the two",
        "of the three",
        "among them",
        "among those",
        "davon",
        "von denen",
        "unter ihnen",
        "d entre",
        "parmi",
        "de ellos",
        "de ellas",
        "entre ellos",
        "di questi",
        "di queste",
        "tra questi",
        "deles",
        "delas",
        "entre eles",
        "daarvan",
        "hiervan",
        "z nich",
        "wsrod nich",
        "bunlarin",
        "bunlardan",
        "その中",
        "このうち",
        "其中",
        "इनमें",
    ]);
    if AMONG.stands_in(scene.plain.folded()) || !shares_clause(scene.text(), own.at..own.end, word.start..word.end) {
        return None;
    }
    let values = |record: usize| -> Vec<(&str, f64)> {
        let of = facts.leaves.iter().filter(|leaf| leaf.record == record);
        let number = |leaf: &NamedValue| match &leaf.value {
            Scalar::Text(text) => leaf.value.number().or_else(|| Some(date::dates(text).dates.first()?.days().next()? as f64)),
            _ => leaf.value.number(),
        };
        of.filter_map(|leaf| Some((leaf.key.as_str(), number(leaf)?))).take(6).collect()
    };
    let records: Vec<usize> =
        facts.leaves.iter().map(|leaf| leaf.record).filter(|record| *record > 0).collect::<BTreeSet<usize>>().into_iter().collect();
    // `64` beside `<5`: a range, by which another one may be the furthest.
    let ranged = |leaf: &NamedValue| {
        let Scalar::Text(text) = &leaf.value else { return false };
        leaf.record == own.record
            && text.len() <= RANGE_BYTES_MAX
            && text.bytes().any(|byte| byte.is_ascii_digit())
            && text.contains(['<', '>', '-', '–', '±'])
            && date::dates(text).dates.is_empty()
    };
    if facts.leaves.iter().any(ranged) {
        return None;
    }
    let mine = values(own.record);
    let others: Vec<Vec<(&str, f64)>> = records.iter().filter(|record| **record != own.record).map(|record| values(*record)).collect();
    let rivals = others.iter().filter(|other| other.iter().any(|(key, _)| mine.iter().any(|(own, _)| own == key))).count();
    if mine.is_empty() || rivals < 2 {
        return None;
    }
    let ends = |own: f64, others: Vec<f64>| others.iter().all(|other| *other <= own) || others.iter().all(|other| *other >= own);
    let single = mine
        .iter()
        .any(|(key, own)| ends(*own, others.iter().flatten().filter(|(other, _)| other == key).map(|(_, value)| *value).collect()));
    let ratio = || {
        mine.iter().enumerate().any(|(at, (one, first))| {
            mine.iter().skip(at + 1).any(|(two, second)| {
                let of = |values: &[(&str, f64)], key: &str| values.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
                let pairs = || others.iter().filter_map(|other| Some((of(other, one)?, of(other, two)?)));
                let made = |make: fn(f64, f64) -> f64| ends(make(*first, *second), pairs().map(|(one, two)| make(one, two)).collect());
                made(|one, two| one / two) || made(|one, two| one * two) || made(|one, two| one - two) || made(|one, two| one + two)
            })
        })
    };
    (!single && !ratio()).then(|| whole(scene, "extreme", Code::ClaimMismatch, "another one has the most or the least", Certainty::Likely))
}

/// Has anybody said this word, folded, or one that begins like it?
pub(super) fn is_known_word(scene: &CheckContext<'_>, folded: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

    #[test]
    fn words_that_only_look_like_a_failure() {
        for tells in [
            "The upload failed.",
            "Netzwerkfehler beim Speichern.",
            "Das ist fehlgeschlagen.",
            "Leider nein.",
            "An unforeseen error.",
            "The shop turned the order down because the account is empty.",
            "Your application has been turned down.",
            "It was turned down by the bank.",
            "`npm ci` aborted.",
            "There is an issue.",
            "Je n'ai trouvé personne.",
            "Bulamadım.",
        ] {
            assert!(text_tells_failure(tells), "{tells}");
        }
        for plain in [
            "Votre table est réservée samedi.",
            "Ich empfehle das Zimmer.",
            "Die Kleider sind bestellt.",
            "The ticket to Chatham was issued.",
            "Le 12 mai, 20 € par personne.",
            "Der Befehl lief.",
            "I turned the heating down.",
            "The heating was turned down to 18.",
        ] {
            assert!(!text_tells_failure(plain), "{plain}");
        }
    }

    fn tells_of_nothing(grounds: &EvidenceIndex, bond: CitationScope, text: &str) -> bool {
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, grounds.results.iter().collect(), bond, grounds);
        told_of_nothing(&scene).is_some()
    }

    #[test]
    fn told_of_nothing_is_what_is_told_and_no_offer() {
        let found = ToolResult::new("search_flights", r#"{"origin":"JFK"}"#, "[]");
        let grounds = EvidenceIndex::new(vec![found], Vec::new(), "Which flights are there?".into());
        for (text, wrong) in [
            ("The culture grew, and it is sensitive.", true),
            ("There are many flights in the morning.", true),
            ("If that helps, there are 7 flights a day.", true),
            ("There are no flights.", false),
            ("If you are flexible with your travel dates, please tell me.", false),
            ("Wenn Sie an anderen Tagen reisen möchten, suche ich gern weiter.", false),
            ("Si vous voulez, je peux chercher un autre jour de voyage.", false),
            ("別の日付で検索してみましょうか。", false),
            ("Sabah saatlerinde uçan bir sefer bulamadım.", false),
            ("Sabah saatlerinde uçan bir sefer buldum.", true),
        ] {
            assert_eq!(tells_of_nothing(&grounds, CitationScope::Cited, text), wrong, "{text}");
        }
    }

    #[test]
    fn what_a_later_citation_covers_tells_of_things() {
        let found = ToolResult::new("list_issues", r#"{"assignee":"pkeller","from":"2026-05-04"}"#, "[]");
        let grounds = EvidenceIndex::new(vec![found], Vec::new(), "Is anything assigned to me?".into());
        for (text, wrong) in [
            ("You've got two on your plate: one on the importer and one about dates.", true),
            ("One is due on 9 June.", true),
            ("The importer is the first on your plate.", false),
            ("I looked from 4 May on.", false),
            ("You could take over two of Ann's.", false),
        ] {
            assert_eq!(tells_of_nothing(&grounds, CitationScope::Introduced, text), wrong, "{text}");
        }
    }

    #[test]
    fn the_day_that_was_asked_for_is_nothing_that_is_told() {
        let found = ToolResult::new("list_issues", r#"{"from":"2026-05-04"}"#, "[]");
        let grounds = EvidenceIndex::new(vec![found], vec!["Is anything due on 4 May?".into()], "Is anything due on 4 May?".into());
        let certainty = |text: &str| {
            let plain = AnalyzedPassage::of(text);
            let sources = grounds.results.iter().collect();
            let scene = CheckContext::new(&plain, Kind::Sentence, language(&words(text), None), sources, CitationScope::Cited, &grounds);
            told_of_nothing(&scene).map(|finding| finding.certainty)
        };
        assert_eq!(certainty("The importer is due on 9 May."), Some(Certainty::Certain));
        assert_eq!(certainty("The importer is what is due on 4 May."), Some(Certainty::Likely));
        assert_eq!(certainty("Nothing is due on 4 May."), None);
    }

    #[test]
    fn a_text_that_says_that_nothing_was_found_is_empty() {
        for (tool, result, text, wrong) in [
            ("find_member", "no match for 'Gareth Poole'", "Gareth Poole has been a member since May 2016.", true),
            ("find_member", "no match for 'Gareth Poole'", "Nobody of that name is a member.", false),
            ("cerca_fattura", "0 risultati", "La 318/B è stata saldata il 7 aprile.", true),
            ("find_member", "Members: 12. No such category as 'senior'.\n1 Ann\n2 Bob\n3 Cid", "There are 12 members, as of 3 May.", false),
        ] {
            let grounds =
                EvidenceIndex::new(vec![ToolResult::new(tool, r#"{"number":"318/B"}"#, result)], Vec::new(), "Gareth Poole? 318/B?".into());
            assert_eq!(tells_of_nothing(&grounds, CitationScope::Cited, text), wrong, "{text}");
        }
    }

    fn rules(result: &str, text: &str) -> Vec<&'static str> {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("get_state", "{}", result)], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.iter().collect();
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
        account(&scene).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn units_shares_and_names_of_members() {
        let album = r#"{"photos":1480,"videos":36,"video_bytes":28800000000}"#;
        for (result, text, rule) in [
            (r#"{"range_km":62}"#, "The range is 62 miles.", Some("measured")),
            (r#"{"altitude_m":100}"#, "It flew at 100 feet.", Some("measured")),
            (r#"{"dose_mg_per_kg":15}"#, "She needs 15 mg per kg.", None),
            (r#"{"altitude_m":100}"#, "It flew at 100 metres.", None),
            (r#"{"km":10,"ascent_m":52}"#, "It was 10 km.", None),
            (r#"{"in_stock_m":7.2}"#, "There are only 7.2 m in stock.", None),
            (r#"{"passed":22,"of":40}"#, "She has 22 of 40 points, so 65 %.", Some("share")),
            (r#"{"late":4,"of":10}"#, "4 of 10 orders are late, while the two weeks before had seen 15 % of them late.", None),
            (r#"{"upload_mbps":18.05}"#, "The upload is 81.5.", Some("named_field")),
            (album, "They have 800 MB on average, videos: 800 MB.", None),
            (r#"{"water_g":350}"#, "The dough has water: 73 %.", None),
        ] {
            let found = rules(result, text);
            let own = ["measured", "share", "named_field"].into_iter().find(|own| found.contains(own));
            assert_eq!(own, rule, "{text}: {found:?}");
        }
    }

    #[test]
    fn counts_of_records() {
        let deals = r#"{"deals":[{"name":"Lusitex","stage":"open"},{"name":"Blum","stage":"offer"},{"name":"Rail","stage":"won"}]}"#;
        for (text, wrong) in [
            ("There are three deals.", false),
            ("There are two running deals; Rail is won.", false),
            ("There are two offer deals; Rail is won.", true),
            ("There are two deals.", true),
            ("There are five deals.", true),
        ] {
            let found = rules(deals, text);
            assert_eq!(found.contains(&"counted"), wrong, "{text}: {found:?}");
        }
    }

    #[test]
    fn days_of_the_week_are_those_of_the_call() {
        let day = |asked: &str, tool: &str, date: &str, text: &str| {
            let planned = ToolResult::new(tool, &format!(r#"{{"date":"{date}","meal":"dinner"}}"#), r#"{"planned":true}"#);
            let grounds = EvidenceIndex::new(vec![planned], vec![asked.into()], asked.into());
            let plain = AnalyzedPassage::of(text);
            let sources = grounds.results.iter().collect();
            let lexicon = language(&words(text), None);
            let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
            weekday_of_call(&scene).map(|finding| finding.expected)
        };
        let wednesday = "2025-10-22";
        let expected = Some("the call is for a wednesday".to_owned());
        assert_eq!(day("Put the curry on Thursday.", "set_meal", wednesday, "The curry is planned for Thursday's dinner."), expected);
        assert_eq!(day("Put the curry on Wednesday.", "set_meal", wednesday, "The curry is planned for Wednesday."), None);
        // What repeats has another first day; what reads, or is told with its date, is judged elsewhere.
        assert_eq!(day("Put the curry on every Thursday.", "set_meal", wednesday, "The curry is planned for Thursday."), None);
        assert_eq!(day("What is there on Thursday?", "get_meal", wednesday, "There is curry on Thursday."), None);
        assert_eq!(day("Put the curry on Thursday.", "set_meal", wednesday, "It is on 22 October, not on Thursday."), None);
    }

    #[test]
    fn opposites_are_of_what_is_told() {
        let hours = r#"{"mon":"closed","tue":"10:00-17:00","sat":"09:00-18:00"}"#;
        for (result, text, wrong) in [
            (r#"{"door":"locked","battery":"80%"}"#, "The front door is unlocked.", true),
            (r#"{"door":"locked","battery":"80%"}"#, "The front door is locked.", false),
            (hours, "At weekends it's open from 9 to 6.", false),
            (hours, "On Monday it's open as well.", true),
        ] {
            let found = rules(result, text);
            assert_eq!(found.contains(&"exclusive"), wrong, "{text}: {found:?}");
        }
    }
}
