//! Failure: words, in any language, by which a text tells that something failed or is out of order. Pure.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::language::{
    fold::lower_of,
    polarity::negation::{NOTHING_PARTS, words_deny},
    word_list::PhraseList,
};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
