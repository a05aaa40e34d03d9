//! Does a result report a failure, in whatever form a tool writes one? Pure.

use std::ops::Range;

use super::{
    aim::{CallAim, FlagRelation},
    facts::{self, LEAVES_MAX, NamedValue, ResultFacts, Scalar},
};
use crate::language::{
    fold::{fold, key},
    word_list::{PhraseList, WordList},
};
use toolmark_base::wire::json::{Document, Kind, Value};

/// Values of the same object with which each of those is compared.
const BESIDE_MAX: usize = 64;
/// Values at the top of a result that are looked at.
const TOP_MAX: usize = 400;
/// Bytes of a text that is looked through for words of failure: a longer one is content.
const TEXT_BYTES_MAX: usize = 600;

/// Flags that say whether what was asked for was done.
static DONE: WordList = WordList::new(&[
    "succeeded",
    "accepted",
    "delivered",
    "booked",
    "reserved",
    "created",
    "added",
    "saved",
    "stored",
    "updated",
    "changed",
    "deleted",
    "removed",
    "cancelled",
    "canceled",
    "submitted",
    "scheduled",
    "executed",
    "completed",
    "processed",
    "applied",
    "charged",
    "refunded",
    "transferred",
    "paid",
    "published",
    "posted",
    "uploaded",
    "deployed",
    "installed",
    "started",
    "stopped",
    "restarted",
    "merged",
    "pushed",
    "committed",
    "renewed",
    "registered",
    "entered",
    "assigned",
    "issued",
    "granted",
    "confirmed",
    "placed",
    "ordered",
    "notified",
    "queuedforsend",
    "written",
]);

/// Values of a `status` that tell a failure.
pub const STATES: &[&str] = &[
    "error",
    "failed",
    "failure",
    "fail",
    "rejected",
    "denied",
    "declined",
    "refused",
    "conflict",
    "notfound",
    "unauthorized",
    "forbidden",
    "timeout",
    "timedout",
    "aborted",
    "invalid",
    "unavailable",
    "exception",
    "crashed",
    "unsuccessful",
    "blocked",
    "expired",
    "incomplete",
    "notstarted",
    "notaccepted",
];

/// Names under which a result says how the call went, in any language.
const OUTCOMES: &[&str] = &[
    "status",
    "state",
    "result",
    "outcome",
    "esito",
    "stato",
    "risultato",
    "resultado",
    "estado",
    "statut",
    "etat",
    "resultat",
    "ergebnis",
    "durum",
    "sonuc",
    "wynik",
    "stan",
    "resultaat",
    "situacao",
    "状态",
    "结果",
    "状態",
    "結果",
    "स्थिति",
    "परिणाम",
    "상태",
    "결과",
];
/// Values of those that tell a failure, in other languages than English. Folded.
static FOREIGN_STATES: WordList = WordList::new(&[
    "ko",
    "nok",
    "ng",
    "fehlgeschlagen",
    "abgelehnt",
    "fehler",
    "gescheitert",
    "verweigert",
    "echec",
    "refuse",
    "refusee",
    "rejete",
    "erreur",
    "rechazado",
    "rechazada",
    "fallido",
    "fallida",
    "denegado",
    "fallito",
    "rifiutato",
    "rifiutata",
    "negato",
    "errore",
    "recusado",
    "recusada",
    "falhou",
    "negado",
    "mislukt",
    "geweigerd",
    "fout",
    "odrzucono",
    "odrzucony",
    "blad",
    "niepowodzenie",
    "basarisiz",
    "reddedildi",
    "hata",
    "失败",
    "拒绝",
    "错误",
    "失敗",
    "拒否",
    "エラー",
    "却下",
    "विफल",
    "अस्वीकृत",
    "실패",
    "거부",
]);
/// Names under which a result says why, in any language.
static REASONS: WordList = WordList::new(&[
    "msg",
    "message",
    "reason",
    "detail",
    "details",
    "motivo",
    "mensaje",
    "messaggio",
    "motif",
    "grund",
    "meldung",
    "hinweis",
    "mensagem",
    "melding",
    "reden",
    "powod",
    "komunikat",
    "mesaj",
    "neden",
    "消息",
    "信息",
    "原因",
    "理由",
    "メッセージ",
    "संदेश",
    "कारण",
]);
/// Words of a reason by which it tells a failure, in any language. Folded.
const REFUSALS: &[&str] = &[
    "failed",
    "failure",
    "could not",
    "cannot",
    "not possible",
    "not allowed",
    "not permitted",
    "declined",
    "rejected",
    "denied",
    "refused",
    "unable",
    "timed out",
    "timeout",
    "expired",
    "invalid",
    "nicht moglich",
    "fehlgeschlagen",
    "abgelehnt",
    "abgelaufen",
    "impossible",
    "refuse",
    "expire",
    "echoue",
    "no se pudo",
    "rechazad",
    "caducad",
    "fallid",
    "non possibile",
    "rifiutat",
    "scadut",
    "restituita",
    "nao foi",
    "recusad",
    "expirad",
    "niet mogelijk",
    "mislukt",
    "geweigerd",
    "verlopen",
    "nie mozna",
    "odrzucon",
    "yapilamadi",
    "basarisiz",
    "reddedil",
    "失败",
    "拒绝",
    "已满",
    "无法",
    "不能",
    "失敗",
    "できません",
    "拒否",
    "無効",
    "विफल",
    "नहीं हो",
    "실패",
    "불가",
];

/// Does a value of this name tell a failure in any language: `esito: KO`, an error's number with a reason beside it?
fn refuses(leaf: &NamedValue, facts: &ResultFacts, aim: Option<&CallAim<'_>>) -> bool {
    let name = leaf.key.as_str();
    let reason = || {
        let reasons = facts.leaves.iter().filter(|other| other.object == leaf.object && REASONS.has(&other.key));
        reasons.take(BESIDE_MAX).any(|other| match &other.value {
            Scalar::Text(text) => {
                let folded = fold(text);
                REFUSALS.iter().any(|part| folded.contains(part))
            }
            _ => false,
        })
    };
    match &leaf.value {
        Scalar::Text(text) if OUTCOMES.contains(&name) => {
            let folded = fold(text);
            FOREIGN_STATES.has(&folded) && !aim.is_some_and(|aim| aim.ends_in_other_words() || aim.wants(&folded))
        }
        Scalar::Number(number) => {
            matches!(name, "code" | "errcode" | "retcode" | "codigo" | "codice")
                && *number != 0.0
                && !(200.0..300.0).contains(number)
                && reason()
        }
        _ => false,
    }
}

/// Does this result say at its top, or in its few words, that what was asked for wasn't done? `aim`: what the call was to do; `None` if its
/// tool only reads: a state in its result, or an error in a text, may be what was read.
pub(super) fn tells_failure(text: &str, facts: &ResultFacts, aim: Option<&CallAim<'_>>) -> bool {
    if !facts.json {
        return words_tell_failure(text, aim);
    }
    let top = || facts.leaves.iter().filter(|leaf| leaf.record == 0 && leaf.object <= 1).take(TOP_MAX);
    let refused = || top().any(|leaf| refuses(leaf, facts, aim));
    let told = |leaf: &NamedValue| {
        fails(&leaf.key, &leaf.value, aim) && (!matches!(leaf.value, Scalar::Flag(false)) || aim.is_none_or(|aim| denies(leaf, facts, aim)))
    };
    let reasoned = |aim: &CallAim<'_>| top().any(|leaf| fails_with_reason(leaf, facts, aim));
    aim.is_some_and(|aim| refuses_all(facts) || refused() || reasoned(aim)) || top().any(told)
}

/// Names of members that hold an error, in other languages. Folded.
static ERRORS: WordList = WordList::new(&["fehler", "erreur", "errore", "erro", "blad", "hata", "fout", "错误", "エラー", "त्रुटि", "오류"]);
/// Names of members that say why something wasn't done, in other languages, and in English. Folded.
static FOREIGN_WHY: WordList = WordList::new(&[
    "motivo",
    "motif",
    "raison",
    "ragione",
    "razon",
    "razao",
    "grund",
    "begrundung",
    "ursache",
    "reden",
    "oorzaak",
    "powod",
    "przyczyna",
    "neden",
    "sebep",
    "orsak",
    "原因",
    "理由",
    "कारण",
    "이유",
]);
static WHY: WordList = WordList::new(&["reason", "cause", "why", "error", "causa"]);

/// Does a member of this name hold an error or its reason, in a language other than English?
pub fn names_error_in_other_words(name: &str) -> bool {
    ERRORS.has(name) || FOREIGN_WHY.has(name)
}

/// Names of members that tell how something was before.
const BEFORE: &[&str] = &["was", "old", "previous", "before", "prior", "last", "from", "vorher", "avant", "antes", "prima"];

/// Flags that say of any call whether it was done.
static SUCCESS: WordList = WordList::new(&["ok", "success", "successful", "succeeded"]);

/// Flags that tell of any deed, where a tool's name has no verb that is known.
static DEEDS: WordList =
    WordList::new(&["accepted", "applied", "executed", "completed", "processed", "changed", "updated", "saved", "written", "sent"]);

/// Does a flag that is false say that what was asked for wasn't done, rather than how something else stands?
fn denies(leaf: &NamedValue, facts: &ResultFacts, aim: &CallAim<'_>) -> bool {
    let name = leaf.key.as_str();
    if SUCCESS.has(name) {
        return true;
    }
    if aim.unsets(name) || is_undecided_beside(leaf, facts) {
        return false;
    }
    match aim.relation(name) {
        FlagRelation::Named => true,
        FlagRelation::Akin => !succeeds_beside(leaf, facts),
        FlagRelation::Open if DEEDS.has(name) => !succeeds_beside(leaf, facts),
        FlagRelation::Open | FlagRelation::Other => says_why(leaf, facts, aim) && !succeeds_beside(leaf, facts),
    }
}

/// The other values of an object.
fn beside<'f>(leaf: &'f NamedValue, facts: &'f ResultFacts) -> impl Iterator<Item = &'f NamedValue> {
    facts.leaves.iter().filter(|other| other.object == leaf.object && other.record == leaf.record).take(BESIDE_MAX)
}

/// States that tell a success.
static SUCCEEDED: WordList = WordList::new(&[
    "succeeded",
    "success",
    "ok",
    "sent",
    "completed",
    "complete",
    "done",
    "created",
    "accepted",
    "active",
    "confirmed",
    "updated",
    "deleted",
    "cancelled",
    "canceled",
    "closed",
    "published",
    "booked",
    "delivered",
    "paid",
    "refunded",
    "processed",
    "applied",
    "saved",
]);

/// Does a flag or a state beside this value tell a success?
fn succeeds_beside(leaf: &NamedValue, facts: &ResultFacts) -> bool {
    beside(leaf, facts).any(|other| {
        let known = SUCCESS.has(&other.key) || DONE.has(&other.key);
        match &other.value {
            Scalar::Flag(flag) => *flag && known,
            Scalar::Text(text) => OUTCOMES.contains(&other.key.as_str()) && SUCCEEDED.has(&fold(text)),
            _ => false,
        }
    })
}

/// Does a list of this name hold what failed? `word`: a word of its name, folded.
pub(super) fn names_failure(word: &str) -> bool {
    const PARTS: &[&str] = &[
        "error", "fail", "reject", "refus", "skipped", "fehl", "echec", "erreur", "fallo", "errore", "falh", "erro", "mislukt", "fout",
        "bled", "hata",
    ];
    PARTS.iter().any(|part| word.starts_with(part))
}

/// Does a flag or a state of it tell a success of what was asked for?
pub(super) fn tells_success(facts: &ResultFacts) -> bool {
    facts.leaves.iter().take(TOP_MAX).any(|leaf| match &leaf.value {
        Scalar::Flag(flag) => *flag && (SUCCESS.has(&leaf.key) || DONE.has(&leaf.key)),
        Scalar::Text(text) => OUTCOMES.contains(&leaf.key.as_str()) && SUCCEEDED.has(&fold(text)),
        _ => false,
    })
}

/// Does a state beside this value say that it isn't decided yet: `{"confirmed":false,"state":"AWAITING_PAYMENT"}`?
fn is_undecided_beside(leaf: &NamedValue, facts: &ResultFacts) -> bool {
    const OPEN: &[&str] = &[
        "await",
        "pending",
        "wait",
        "queue",
        "process",
        "review",
        "held",
        "hold",
        "submitted",
        "scheduled",
        "draft",
        "requested",
        "in progress",
        "attente",
        "espera",
        "attesa",
        "coda",
        "aguard",
        "beklemede",
        "ausstehend",
        "warte",
    ];
    beside(leaf, facts).any(|other| match &other.value {
        Scalar::Text(text) if OUTCOMES.iter().any(|name| other.key.ends_with(name)) => {
            let folded = fold(text);
            OPEN.iter().any(|open| folded.contains(open))
        }
        _ => false,
    })
}

/// Does a member beside this value say why something wasn't done? A reason that the call gave is none.
fn says_why(leaf: &NamedValue, facts: &ResultFacts, aim: &CallAim<'_>) -> bool {
    let told = |other: &NamedValue| matches!(&other.value, Scalar::Text(text) if is_told(text) && !aim.gives(text));
    let why = |name: &str| WHY.has(name) || FOREIGN_WHY.has(name);
    beside(leaf, facts).any(|other| why(&other.key) && told(other))
}

/// A value of any name that says so, with a reason beside it: `{"gespeichert":false,"grund":"…"}`, `{"change":"rejected","reason":"…"}`.
fn fails_with_reason(leaf: &NamedValue, facts: &ResultFacts, aim: &CallAim<'_>) -> bool {
    let fails = match &leaf.value {
        Scalar::Flag(flag) => {
            !flag
                && !DONE.has(&leaf.key)
                && !aim.unsets(&leaf.key)
                && facts.leaves.iter().all(|other| !matches!(other.value, Scalar::Flag(true)))
        }
        Scalar::Text(text) => !BEFORE.iter().any(|before| leaf.key.starts_with(before)) && is_failing_state(text, aim),
        _ => false,
    };
    fails && says_why(leaf, facts, aim) && !succeeds_beside(leaf, facts)
}

/// As `tells_failure` tells it, for a tool that only reads, of a result that isn't read otherwise: only its top is looked at, which costs a tenth.
/// `None` if it must be read as a whole.
pub fn tells_failure_at_top(text: &str) -> Option<bool> {
    if text.len() >= LEAVES_MAX {
        return None;
    }
    let Some(document) = facts::parse_to(text, TOP_DEPTH) else { return Some(words_tell_failure(text, None)) };
    top_tells_failure(&document)
}

/// The same for a result that is parsed already, down to [`TOP_DEPTH`] at least.
pub fn top_tells_failure(document: &Document) -> Option<bool> {
    let (root, mut tells) = (document.root(), false);
    if !root.is_object() || document.bytes().len() >= LEAVES_MAX {
        return None;
    }
    let mut look = |name: &str, value: Value<'_>| -> Option<()> {
        let scalar = match value.kind() {
            // A nested object or list is a record of its own, or its values are those of another object.
            Kind::Array | Kind::Object => return Some(()),
            Kind::Plain | Kind::Escaped => {
                let text = value.text()?;
                // JSON in a string is read as such.
                if text.trim_start().starts_with(['{', '[']) {
                    return None;
                }
                Scalar::Text(text.into_owned())
            }
            Kind::Number => Scalar::Number(facts::number(value)),
            Kind::True | Kind::False => Scalar::Flag(value.kind() == Kind::True),
            Kind::Null => Scalar::Null,
        };
        tells |= fails(&key(name), &scalar, None);
        Some(())
    };
    for member in root.members() {
        let name = member.name();
        if member.value.is_array() {
            member.value.items().try_for_each(|item| look(&name, item))?;
        } else {
            look(&name, member.value)?;
        }
    }
    Some(tells)
}

/// Depth of the members of an object at the top, and of the elements of their lists.
pub const TOP_DEPTH: usize = 2;

/// Does a value of this name at the top of a result tell a failure? `aim`: what the call was to do; `None` if its tool only reads.
fn fails(name: &str, value: &Scalar, aim: Option<&CallAim<'_>>) -> bool {
    if aim.is_none() && (matches!(name, "status" | "state" | "result" | "outcome") || DONE.has(name)) {
        return false;
    }
    match value {
        // `booked: false` of what was to be booked.
        Scalar::Flag(flag) => {
            !flag && (matches!(name, "ok" | "success" | "successful" | "sent") || DONE.has(name))
                || *flag && matches!(name, "iserror" | "failed" | "rejected" | "rolledback")
        }
        Scalar::Number(number) => match name {
            "exitcode" | "returncode" | "exitstatus" | "rc" | "errno" => *number != 0.0,
            "status" | "statuscode" | "httpstatus" | "httpcode" => (400.0..600.0).contains(number),
            _ => false,
        },
        Scalar::Text(text) => match name {
            "error" | "errormessage" | "errorcode" | "exception" | "failure" => is_told(text),
            _ if aim.is_some() && ERRORS.has(name) => is_told(text),
            "status" | "state" | "result" | "outcome" => aim.is_some_and(|aim| is_failing_state(text, aim)),
            _ => false,
        },
        Scalar::Null => false,
    }
}

/// Words in members for errors where there is none.
const NO_ERROR: &[&str] = &["none", "null", "no error", "noerror", "no_error", "ok", "0", "false", "success", "-", "n/a"];

/// Does a member for errors say that there is one? Many tools write that there is none.
pub fn is_told(error: &str) -> bool {
    let error = error.trim();
    !error.is_empty() && !NO_ERROR.iter().any(|none| error.eq_ignore_ascii_case(none))
}

/// Words with which a state of several words tells no failure: `failed_over`, `0 failed`, `error resolved`.
const NEGATIONS: &[&str] =
    &["not", "no", "non", "un", "without", "never", "0", "zero", "over", "resolved", "cleared", "recovered", "fixed"];

/// Does this state tell a failure, and not what was asked for? `payment_declined` does, too.
fn is_failing_state(text: &str, aim: &CallAim<'_>) -> bool {
    let folded = fold(text);
    let failing = |state: &str| STATES.contains(&state) && !aim.wants(state);
    if failing(&folded.replace(' ', "")) {
        return true;
    }
    let words: Vec<&str> = folded.split(' ').collect();
    let negated = words.iter().any(|word| NEGATIONS.contains(word));
    (2..=3).contains(&words.len()) && !negated && words.iter().any(|word| failing(word))
}

/// Does a line say no more than that there is none?
fn is_none_said(rest: &str) -> bool {
    let rest = rest.trim().trim_end_matches(['.', ';', ',']);
    matches!(
        rest,
        "none"
            | "no"
            | "nil"
            | "null"
            | "0"
            | "-"
            | "n/a"
            | "false"
            | "keine"
            | "aucune"
            | "ninguno"
            | "nessuno"
            | "nenhum"
            | "geen"
            | "brak"
            | "yok"
            | "无"
            | "なし"
    )
}

/// Do the words of a result that isn't JSON tell a failure?
fn words_tell_failure(text: &str, aim: Option<&CallAim<'_>>) -> bool {
    if let Some(aim) = aim.filter(|_| text.len() <= MARKUP_BYTES_MAX && text.trim_start().starts_with('<'))
        && tells_in_markup(text, aim)
    {
        return true;
    }
    if is_error_element(text) || aim.is_some() && says_sorry(text) {
        return true;
    }
    if text.len() > TEXT_BYTES_MAX {
        return aim.is_some() && ends_with_failures(text);
    }
    let lower = text.to_lowercase();
    let wanted = |word: &str| aim.is_some_and(|aim| aim.wants(word));
    let begins = |line: &str| {
        let line = line.trim_start_matches([' ', '\t', '!', '*', '-', '>']);
        [
            "error",
            "err:",
            "err ",
            "fatal",
            "failed",
            "failure",
            "traceback",
            "exception",
            "denied",
            "permission denied",
            "access denied",
            "cannot ",
            "could not",
            "unable to",
            "[rejected]",
            "npm err!",
            "fehler",
            "erreur",
            "errore",
            "erro:",
            "timeout",
            "timed out",
        ]
        .iter()
        // What is tried again told nothing yet.
        .any(|word| {
            let rest = line.strip_prefix(word);
            // `error: none`
            let none = || rest.is_some_and(|rest| is_none_said(rest.trim_start_matches(['s', ':', '=', ' ', '\t'])));
            rest.is_some() && !none() && !wanted(word.trim()) && !line.contains("will retry") && !line.contains("retrying")
        })
    };
    let anywhere = [
        "[rejected]",
        "err!",
        "permission denied",
        "access denied",
        "segmentation fault",
        " forbidden",
        "unauthorized",
        "not found:",
        "404 not found",
        "connection refused",
        "timed out after",
        "command not found",
        "no such file",
        "status 4",
        "status 5",
        "http 4",
        "http 5",
        "rolled back",
        "rolling back",
        "commit failed",
        "an error occurred",
        "aborting",
        "operation cancelled",
        "not started",
        "started=false",
        "invalid api key",
        "invalid token",
        "invalid credentials",
        "not sent",
        "not delivered",
        "quota exceeded",
        "rate limit exceeded",
        ": 400 bad",
        ": 401 unauth",
        ": 401 invalid",
        ": 403 forbidden",
        ": 404 not",
        ": 409 conflict",
        ": 422 unproc",
        ": 429 too",
        ": 500 internal",
        ": 502 bad",
        ": 503 service",
        ": 504 gateway",
    ];
    let status = begins_with_status(&lower)
        || lower.strip_prefix("http").is_some_and(|rest| {
            let code = rest.split_whitespace().find(|word| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit()));
            code.is_some_and(|code| code.starts_with(['4', '5']))
        });
    let first = lower.lines().find(|line| !line.trim().is_empty()).is_some_and(begins);
    // A word of failure in the few lines of what does more than read, and none of success: `pitch self-test FAILED`.
    let words = || lower.split(|c: char| !c.is_alphanumeric());
    let states = ["failed", "aborted", "rejected", "denied", "refused", "declined", "unsuccessful"];
    let fails = |word: &str| states.contains(&word) && !wanted(word);
    let succeeds = |word: &str| {
        matches!(
            word,
            "ok" | "success" | "successful" | "successfully" | "succeeded" | "passed" | "done" | "completed" | "complete" | "applied"
        )
    };
    let few_lines = || lower.lines().filter(|line| !line.trim().is_empty()).nth(FEW_LINES).is_none();
    // `22:40 Settled, declined evening snack`: notes of several hours.
    let timed =
        |line: &&str| line.len() > 5 && line.as_bytes().get(2) == Some(&b':') && line.bytes().take(2).all(|byte| byte.is_ascii_digit());
    let are_notes = || lower.lines().filter(timed).count() > 2;
    let failed_words = || {
        aim.is_some()
            && few_lines()
            && !are_notes()
            && words().any(fails)
            && !words().any(succeeds)
            && !lower.contains("0 failed")
            && !lower.contains("no failed")
    };
    let ends = || {
        let line = |line: &str| matches!(line, "failed" | "aborted") && !wanted(line);
        lower.lines().any(|own| line(own.trim()))
    };
    // The last lines of a job's log tell how it ended, whatever went well before: `12:04 checksum mismatch, aborted`.
    let ends_badly = || {
        let last: Vec<&str> = lower.lines().filter(|line| !line.trim().is_empty()).rev().take(LAST_LINES).collect();
        let words = || last.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
        // `4) Lang: 480 kg, 40 kg rejected`: a number of them.
        let counted = || last.iter().any(|line| states.iter().any(|state| is_counted(line, state)));
        lower.lines().nth(LAST_LINES).is_some()
            && words().any(fails)
            && !counted()
            && !words().any(succeeds)
            && !last.iter().any(|line| line.contains("0 failed"))
    };
    status
        || first
        || failed_words()
        || aim.is_some()
            && (exits_with_failure(&lower)
                || ends_badly()
                || lower.lines().any(begins)
                || ends()
                || anywhere.iter().any(|word| lower.contains(word)))
}

/// `<error code="409">Renewal limit reached</error>`: all of a result in markup is an error.
fn is_error_element(text: &str) -> bool {
    const ROOTS: [&str; 4] = ["<error", "<fault", "<exception", "<soap:fault"];
    let body = text.trim_start();
    // Behind a declaration.
    let body = body.strip_prefix("<?").and_then(|rest| rest.split_once("?>")).map_or(body, |(_, rest)| rest.trim_start());
    let begins = |root: &str| {
        let start = body.get(..root.len()).is_some_and(|start| start.eq_ignore_ascii_case(root));
        start && body.get(root.len()..).is_some_and(|rest| rest.starts_with(['>', ' ', '/']))
    };
    ROOTS.iter().any(|root| begins(root)) || titles_status(body)
}

/// Bytes of a page in which its title is looked for.
const TITLE_BYTES_MAX: usize = 600;

/// `<title>504 Gateway Time-out</title>`: a page that a gateway made of a failure.
fn titles_status(page: &str) -> bool {
    let head = page.get(..page.floor_char_boundary(TITLE_BYTES_MAX)).unwrap_or(page).to_ascii_lowercase();
    let is_page = head.starts_with("<html") || head.starts_with("<!doctype");
    let title = head.split_once("<title>").map_or("", |(_, rest)| rest).trim_start();
    is_page && begins_with_status(title)
}

/// Bytes of a result that says no more than that something wasn't done.
const SORRY_BYTES_MAX: usize = 240;

/// `Sorry, it is fully booked. Nothing was reserved.`
fn says_sorry(text: &str) -> bool {
    let folded = fold(text.get(..text.floor_char_boundary(SORRY_BYTES_MAX)).unwrap_or(text));
    let sorry = folded.starts_with("sorry ")
        && [" not ", " no ", " nothing ", " full", "cannot", " can t", " already ", " unavailable"]
            .iter()
            .any(|part| folded.contains(part));
    let mut words = folded.split(' ');
    let nothing_done = words.any(|word| word == "nothing")
        && words.next().is_some_and(|deed| deed.ends_with("ed") || matches!(deed, "sent" | "done" | "made" | "written"));
    text.len() <= SORRY_BYTES_MAX && (sorry || nothing_done || folded.contains("nothing was ") || folded.contains("nothing has been "))
}

/// `404 Not Found`, `503: …`, `550 5.1.1 …`: a status of HTTP or SMTP (RFC 9110, section 15; RFC 5321, section 4.2). `412 messages queued`
/// counts something.
fn begins_with_status(lower: &str) -> bool {
    // Words with that ending that count nothing: `403 access denied`, `404 address unknown`.
    static REASONS: WordList = WordList::new(&["access", "address", "does", "was", "is", "has", "process", "too", "errors"]);
    let mut words = lower.split_whitespace();
    let Some(first) = words.next() else { return false };
    let code = first.trim_end_matches(':').parse::<u32>().is_ok_and(|code| (400..600).contains(&code));
    let counted =
        |word: &str| word.len() > 3 && word.ends_with('s') && word.bytes().all(|byte| byte.is_ascii_lowercase()) && !REASONS.has(word);
    code && (first.ends_with(':') || !words.next().is_some_and(counted))
}

/// `2 failed, 17 passed in 0.9s`, `test result: FAILED. 22 passed; 2 failed`: the last lines of a long output tell that checks failed.
fn ends_with_failures(text: &str) -> bool {
    let tail = text.get(text.ceil_char_boundary(text.len().saturating_sub(TEXT_BYTES_MAX))..).unwrap_or_default().to_lowercase();
    let last = tail.lines().rev().filter(|line| !line.trim().is_empty()).take(SUMMARY_LINES);
    let counts = |line: &str| {
        let sums_up = || line.split(|c: char| !c.is_alphanumeric()).any(|word| matches!(word, "passed" | "passing" | "tests" | "total"));
        ["failed", "failures", "failing"].iter().any(|word| line.match_indices(word).any(|(at, word)| has_count(line, at..at + word.len())))
            && sums_up()
    };
    last.into_iter().any(|line| counts(line) || line.trim_start().starts_with("test result: failed"))
}

/// Does a number with a unit stand right before the word: `40 kg rejected`?
fn is_counted(line: &str, state: &str) -> bool {
    line.split_once(state).is_some_and(|(before, _)| {
        let mut words = before.split_whitespace().rev();
        let unit = words.next().is_some_and(|unit| unit.len() <= 3 && unit.bytes().all(|byte| byte.is_ascii_alphabetic()));
        unit && words.next().is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    })
}

/// Has the word at this place of a line a number beside it that isn't 0: `2 failed`, or `Failures: 2`?
fn has_count(line: &str, word: Range<usize>) -> bool {
    let behind = line.get(word.end..).unwrap_or_default();
    let counts = |figures: &str| figures.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    match behind.strip_prefix([':', '=']) {
        Some(rest) => {
            let rest = rest.trim_start();
            counts(rest.get(..rest.bytes().take_while(u8::is_ascii_digit).count()).unwrap_or_default())
        }
        None => {
            let before = line.get(..word.start).unwrap_or_default().trim_end();
            counts(before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default())
        }
    }
}

/// Lines of a text that is no list of many things.
const FEW_LINES: usize = 5;
/// Last lines of an output that may sum it up.
const SUMMARY_LINES: usize = 4;
/// Last lines of a log that tell how it ended.
const LAST_LINES: usize = 2;

/// `exit code 3`, `exit status 127`, `exited with code 2`: the program says that it failed. `lower`: in lower case.
fn exits_with_failure(lower: &str) -> bool {
    const CODES: [&str; 5] = ["exit code", "exit status", "exited with code", "exited with status", "exit"];
    CODES.iter().any(|code| {
        lower.match_indices(code).any(|(at, code)| {
            let begins = !lower.get(..at).is_some_and(|before| before.ends_with(char::is_alphanumeric));
            let rest = lower.get(at + code.len()..).unwrap_or_default();
            let figures = rest.trim_start_matches([' ', ':', '=']);
            let number = figures.get(..figures.bytes().take_while(u8::is_ascii_digit).count()).unwrap_or_default();
            // `exit 12` is one of a motorway, too: alone on its line it is a program's.
            let plain = code != "exit" || lower.lines().any(|line| line.trim().strip_prefix("exit ").is_some_and(|own| own == number));
            begins
                && rest.len() > figures.len()
                && plain
                && (1..=3).contains(&number.len())
                && number.parse::<u32>().is_ok_and(|code| code != 0)
        })
    })
}

/// Bytes of a result in markup that is looked through for a state.
const MARKUP_BYTES_MAX: usize = 2000;

/// `<status>REJECTED</status>`, `<order state="refused">`.
fn tells_in_markup(text: &str, aim: &CallAim<'_>) -> bool {
    let fails = |word: &str| {
        let word = word.to_ascii_lowercase().replace(['_', '-', ' '], "");
        (STATES.contains(&word.as_str()) || FOREIGN_STATES.has(&fold(&word))) && !aim.wants(&word)
    };
    states_of_markup(text).any(fails)
}

/// The states that a result in markup names, as elements and as attributes.
pub fn states_of_markup(text: &str) -> impl Iterator<Item = &str> {
    let text = text.get(..text.floor_char_boundary(MARKUP_BYTES_MAX)).unwrap_or_default();
    let text = if text.trim_start().starts_with('<') { text } else { "" };
    let is_state = |name: &str| {
        let begins = |known: &&str| name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
        ["status", "state", "result", "outcome"].iter().any(begins)
    };
    let elements = text.split("</").filter_map(move |before| {
        let (name, value) = before.rsplit('<').next()?.split_once('>')?;
        is_state(name).then_some(value.trim()).filter(|value| !value.is_empty())
    });
    let attributes = text.split_inclusive("=\"").zip(text.split("=\"").skip(1)).filter_map(move |(before, behind)| {
        let name = before.strip_suffix("=\"")?.rsplit([' ', '<', '\n', '\t']).next()?;
        is_state(name).then_some(behind.split('"').next()?.trim())
    });
    elements.chain(attributes)
}

/// Lists of what was done and of what was refused, by their names.
const DID: &[&str] = &[
    "renewed",
    "done",
    "succeeded",
    "created",
    "updated",
    "deleted",
    "sent",
    "booked",
    "accepted",
    "added",
    "released",
    "applied",
    "processed",
    "delivered",
    "ok",
    "success",
];
const DIDNT: &[&str] = &["refused", "failed", "rejected", "errors", "failures", "denied", "notrenewed", "skipped", "undelivered"];

/// Is the list of what was done empty, and that of what was refused not?
fn refuses_all(facts: &ResultFacts) -> bool {
    let top = |names: &[&str], empty: bool| {
        facts
            .lists
            .iter()
            .any(|list| list.depth == 0 && (list.length == 0) == empty && list.words.iter().any(|word| names.contains(&word.as_str())))
    };
    let only_errors = || {
        let of_things = || facts.lists.iter().filter(|list| list.depth == 0);
        of_things().count() == 1
            && of_things().all(|list| list.length > 0 && list.words.iter().any(|word| word == "errors" || word == "error"))
    };
    // `{"errors": [{"status": 409, …}]}`: nothing but errors.
    let bare = || facts.leaves.iter().all(|leaf| leaf.record > 0 || matches!(leaf.value, Scalar::Null));
    top(DID, true) && top(DIDNT, false) || only_errors() && bare()
}

/// Members that say how many failed.
static FAILED_COUNTS: WordList = WordList::new(&[
    "failed",
    "rejected",
    "errors",
    "failures",
    "refused",
    "notsent",
    "undelivered",
    "bounced",
    "failedcount",
    "errorcount",
    "rejectedcount",
    "fehlgeschlagen",
    "abgelehnt",
    "fallidos",
    "rechazados",
    "echecs",
    "rejetes",
    "falliti",
    "scartati",
    "falhas",
    "mislukt",
    "odrzucone",
    "basarisiz",
]);

/// Does a record of the result say that it wasn't done, or does a list name what wasn't?
pub fn refuses_some(facts: &ResultFacts) -> bool {
    let record = |leaf: &NamedValue| match &leaf.value {
        Scalar::Flag(flag) => !flag && (matches!(leaf.key.as_str(), "ok" | "success" | "successful" | "sent") || DONE.has(&leaf.key)),
        Scalar::Text(text) => {
            matches!(leaf.key.as_str(), "status" | "state" | "result" | "outcome") && STATES.contains(&fold(text).replace(' ', "").as_str())
        }
        Scalar::Number(number) => *number >= 1.0 && FAILED_COUNTS.has(&leaf.key),
        _ => false,
    };
    let list = |names: &[String]| names.iter().any(|name| DIDNT.contains(&name.as_str()) || matches!(name.as_str(), "held" | "conflicts"));
    facts.json
        && (facts.leaves.iter().any(|leaf| (leaf.record > 0 || matches!(leaf.value, Scalar::Number(_))) && record(leaf))
            || facts.lists.iter().any(|found| found.length > 0 && list(&found.words)))
}

/// Lines of a result by which it is known for a log.
const LOG_LINES: usize = 3;

/// Is it a log: do its first lines begin with the time that they are of?
pub fn is_log(text: &str) -> bool {
    let timed = |line: &str| {
        let line = line.trim_start_matches(['[', '(', ' ']);
        let figures = |from: usize, to: usize| line.get(from..to).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let mark = |at: usize, marks: &[u8]| line.as_bytes().get(at).is_some_and(|byte| marks.contains(byte));
        figures(0, 4) && mark(4, b"-/") && figures(5, 7) || figures(0, 2) && mark(2, b":") && figures(3, 5) && mark(5, b":")
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).take(LOG_LINES).peekable();
    lines.peek().is_some() && text.lines().nth(1).is_some() && lines.all(timed)
}

/// Bytes of a text that says no more than that nothing was changed.
const UNCHANGED_BYTES_MAX: usize = 200;

/// Does the result of an act say that it changed nothing: `0 replacements made (pattern not found)`, `UPDATE 0`, `{"modified": 0}`?
pub fn changed_nothing(text: &str, facts: &ResultFacts) -> bool {
    static COUNTS: WordList = WordList::new(&[
        "replacements",
        "replaced",
        "replacementsmade",
        "modified",
        "modifiedcount",
        "updated",
        "updatedcount",
        "deleted",
        "deletedcount",
        "inserted",
        "removed",
        "affected",
        "rowsaffected",
        "affectedrows",
        "rowsupdated",
        "rowsdeleted",
        "matched",
        "matchedcount",
    ]);
    if facts.json {
        let counts = |leaf: &&NamedValue| leaf.record == 0 && COUNTS.has(&leaf.key);
        let mut counts = facts.leaves.iter().filter(counts).filter_map(|leaf| leaf.value.number()).peekable();
        return counts.peek().is_some() && counts.all(|count| count == 0.0);
    }
    static PHRASES: PhraseList = PhraseList::new(&[
        "0 replacement",
        "0 rows affected",
        "0 row s affected",
        "0 rows updated",
        "0 rows deleted",
        "0 rows inserted",
        "0 records updated",
        "0 records affected",
        "0 records deleted",
        "0 items updated",
        "0 items deleted",
        "0 items removed",
        "0 files changed",
        "0 occurrences",
        "0 documents",
        "0 changes",
        "nothing to commit",
        "nothing to update",
        "nothing to do",
        "nothing changed",
        "no changes",
        "no rows affected",
        "no replacements",
        "no match",
        "no matching",
        "pattern not found",
        "string not found",
        "text not found",
        "did not match",
    ]);
    let counted = |word: &str| text.trim().strip_prefix(word).is_some_and(|rest| rest.trim() == "0");
    let words = ["UPDATE", "DELETE", "INSERT 0"];
    text.len() <= UNCHANGED_BYTES_MAX && (words.into_iter().any(counted) || has_whole(&PHRASES, facts.folded(text)))
}

/// True if one of these phrases stands in a folded text, and not as the end of a larger number: `10 rows affected`.
fn has_whole(phrases: &PhraseList, folded: &str) -> bool {
    phrases.stands_in(folded)
        && !folded.split(' ').any(|word| word.len() > 1 && word.ends_with('0') && word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Does the result say that it was only a trial, and nothing was done?
pub fn is_trial(text: &str, facts: &ResultFacts) -> bool {
    if facts.json {
        return facts.leaves.iter().any(|leaf| {
            let name = leaf.key.as_str();
            leaf.record == 0
                && match &leaf.value {
                    Scalar::Flag(flag) => {
                        *flag
                            && matches!(
                                name,
                                "dryrun"
                                    | "testlauf"
                                    | "probelauf"
                                    | "simulacro"
                                    | "simulacion"
                                    | "simulazione"
                                    | "prova"
                                    | "essai"
                                    | "proefdraai"
                                    | "simulated"
                                    | "simulation"
                                    | "testmode"
                                    | "preview"
                                    | "whatif"
                            )
                    }
                    Scalar::Text(text) => {
                        matches!(name, "mode" | "status")
                            && matches!(fold(text).as_str(), "dry run" | "simulation" | "simulated" | "preview")
                    }
                    _ => false,
                }
        });
    }
    let lower = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text).to_lowercase();
    ["dry run", "dry-run", "--dry-run", "no changes written", "no changes made", "nothing was changed", "simulation only"]
        .iter()
        .any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_and_elements_of_errors() {
        for (text, is) in [
            ("<error code=\"409\">Renewal limit reached</error>", true),
            ("<?xml version=\"1.0\"?>\n<error>no</error>", true),
            ("<html><head><title>504 Gateway Time-out</title></head></html>", true),
            ("<html><head><title>Opening hours</title></head></html>", false),
            ("<errors count=\"0\"/>", false),
            ("<order><error/></order>", false),
        ] {
            assert_eq!(is_error_element(text), is, "{text}");
        }
        for (text, is) in [
            ("Sorry, it is fully booked. Nothing was reserved.", true),
            ("smtp: 421 too many recipients, nothing sent", true),
            ("Sorry to hear that. A refund is on its way.", false),
            ("Nothing new.", false),
        ] {
            assert_eq!(says_sorry(text), is, "{text}");
        }
        assert!(refuses_all(&ResultFacts::read(r#"{"errors":[{"status":409,"code":"NO"}]}"#)));
        assert!(!refuses_all(&ResultFacts::read(r#"{"errors":[],"data":[{"id":1}]}"#)));
    }

    #[test]
    fn logs_are_known_by_the_times_of_their_lines() {
        assert!(is_log("2026-03-01T10:00:01Z INFO start\n2026-03-01T10:00:15Z Killed (exit 137)"));
        assert!(is_log("[10:00:01] start\n[10:00:15] error"));
        for text in ["2026-03-01: denied", "error: denied\n2026-03-01 try again", "", "ok\nok"] {
            assert!(!is_log(text), "{text}");
        }
    }

    #[test]
    fn long_outputs_tell_at_their_end() {
        let long = "test core::rounds ... ok\n".repeat(60);
        for (end, fails) in [
            ("FAILED tests/test_due.py::test_format\n2 failed, 17 passed in 0.91s\n", true),
            ("test result: FAILED. 22 passed; 2 failed; 0 ignored\n", true),
            ("Tests:       3 failed, 88 passed, 91 total\nTime: 4.1 s\n", true),
            ("test result: ok. 24 passed; 0 failed; 0 ignored\n", false),
            ("19 passed in 0.80s\n", false),
            ("Tests: 0 failed, 60 passed, 60 total\n", false),
            ("Tests run: 60, Failures: 0, Errors: 0, Skipped: 0\nBUILD SUCCESS\n", false),
            ("Tests run: 60, Failures: 2, Errors: 0, Skipped: 0\n", true),
            ("3 failed logins since Monday\n", false),
        ] {
            let run = crate::evidence::ToolResult::new("run_command", "{}", &format!("{long}{end}"));
            assert_eq!(run.fails(), fails, "{end}");
        }
    }

    #[test]
    fn acts_that_changed_nothing() {
        for (text, nothing) in [
            ("0 replacements made (pattern not found)", true),
            ("UPDATE 0", true),
            ("UPDATE 10", false),
            ("10 rows affected", false),
            ("Query OK, 0 rows affected (0.01 sec)", true),
            (r#"{"matched":0,"modified":0}"#, true),
            (r#"{"matched":3,"modified":0}"#, false),
            (r#"{"id":4,"status":"ok"}"#, false),
            ("saved", false),
        ] {
            assert_eq!(changed_nothing(text, &ResultFacts::read(text)), nothing, "{text}");
        }
    }

    #[test]
    fn failures_by_form() {
        for (text, fails) in [
            (r#"{"error":"reading lower than previous"}"#, true),
            (r#"{"error":""}"#, false),
            (r#"{"status":"conflict","event":null}"#, true),
            (r#"{"status":"queued"}"#, false),
            (r#"{"esito":"KO","motivo":"giacenza scaduta"}"#, true),
            (r#"{"code":4003,"msg":"该日期车位已满,预订失败"}"#, true),
            (r#"{"code":200,"msg":"ok"}"#, false),
            (r#"{"code":4711,"name":"Lamp"}"#, false),
            ("ERR timeout: no ack from actuator V12", true),
            ("Mail relay: 401 invalid API key. Letter 77 NOT sent.", true),
            ("Saved: 422 rows, 401 of them new", false),
            ("HTTP 504 Gateway Timeout\nrequest-id: 7f1c", true),
            (r#"{"ok":false}"#, true),
            (r#"{"exit_code":68}"#, true),
            (r#"{"status":404}"#, true),
            (r#"{"tickets":[{"status":"failed"}]}"#, false),
            ("! [rejected] a -> a (non-fast-forward)\nerror: failed to push", true),
            ("npm ERR! code E404", true),
            ("To git@host\n  1..2 a -> a", false),
            ("3 errors were found in the log", false),
            ("upgraded: 14\nerror: none", false),
            ("job 9 started\nchecking target ... ok\ncopying\nchecksum mismatch, aborted\nexit code 3", true),
            ("building ... ok\ntests: failed once\nretried ... ok\nexit code 0", false),
            ("take exit 12 for the valve", false),
            ("412 messages queued\n14 others", false),
            ("404 Not Found", true),
            ("503 backend away", true),
            ("404 does not exist", true),
            ("550 5.1.1 user unknown", true),
            (r#"{"accepte":false,"raison":"complet"}"#, true),
            ("upgraded: 0\nerror: none of the mirrors answers", true),
        ] {
            assert_eq!(tells_failure(text, &ResultFacts::read(text), Some(&CallAim::new("set_valve", "{}"))), fails, "{text}");
            same_at_top(text);
        }
        for (tool, arguments, text, fails) in [
            ("reject_request", "{}", r#"{"request":"R-12","status":"rejected"}"#, false),
            ("submit_request", "{}", r#"{"request":"R-12","status":"rejected"}"#, true),
            ("book_seats", "{}", r#"{"status":"payment_declined"}"#, true),
            ("create_task", "{}", r#"{"id":7,"title":"Milk","completed":false}"#, false),
            ("create_draft", "{}", r#"{"id":"d4","sent":false}"#, false),
            ("send_mail", "{}", r#"{"id":"d4","ok":true,"sent":false}"#, true),
            ("book_berth", "{}", r#"{"state":"AWAITING_PAYMENT","confirmed":false}"#, false),
            ("cancel_order", "{}", r#"{"cancelled":true,"refunded":false}"#, false),
            ("add_item", "{}", r#"{"cart":"c1","ordered":false}"#, false),
            ("add_item", "{}", r#"{"cart":"c1","ordered":false,"reason":"sold out"}"#, true),
            ("set_post", r#"{"published":false}"#, r#"{"published":false}"#, false),
            ("deny_access", "{}", "Denied: sam", false),
            ("abort_job", "{}", "job 77 aborted", false),
            ("create_refund", "{}", r#"{"status":"succeeded","livemode":false,"reason":"requested_by_customer"}"#, false),
            ("send_sms", "{}", r#"{"status":"sent","delivered":false}"#, false),
            ("run_import", "{}", r#"{"result":"0 failed","imported":12}"#, false),
            ("trigger_failover", "{}", r#"{"status":"failed_over"}"#, false),
            ("delete_file", "{}", r#"{"status":"denied"}"#, true),
            ("run_query", "{}", "Error: rate limit exceeded, please retry in 30 s", true),
            ("start_job", "{}", "job 77 aborted", true),
        ] {
            let aim = CallAim::new(tool, arguments);
            assert_eq!(tells_failure(text, &ResultFacts::read(text), Some(&aim)), fails, "{tool} {text}");
        }
        assert_eq!(tells_failure_at_top(r#"{"error":"no such city","rows":[1]}"#), Some(true));
        assert_eq!(tells_failure_at_top(r#"{"orders":[{"error":"x"}],"error":{"text":"x"}}"#), Some(false));
    }

    /// Reading the top alone finds the same, where it finds anything.
    fn same_at_top(text: &str) {
        if let Some(at_top) = tells_failure_at_top(text) {
            assert_eq!(at_top, tells_failure(text, &ResultFacts::read(text), None), "{text}");
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(
            &[
                "0",
                "1",
                "404",
                "1e999",
                "true",
                "false",
                "null",
                r#""""#,
                r#""none""#,
                r#""failed""#,
                r#""x""#,
                r#""{\"error\":\"x\"}""#,
                r#"" [{\"ok\":false}]""#,
                r#""\u0065rror""#,
                "{}",
                "[]",
            ][..],
        );
        let name = || {
            prop::sample::select(
                &["error", "Error_Code", "ok", "status", "exit_code", "rows", "columns", "is_error", "data", "sent", "a"][..],
            )
        };
        leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, move |inner| {
            let member = (name(), inner.clone()).prop_map(|(name, value)| format!(r#""{name}":{value}"#));
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_top_tells_the_same(text in json(), noise in "[ \\n]{0,2}|x|error: ") {
            same_at_top(&text);
            same_at_top(&(noise + &text));
        }
    }
}
