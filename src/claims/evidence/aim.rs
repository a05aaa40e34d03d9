//! What a call was to do, by its tool's name and its arguments: is a state or a flag of its result what was asked for? Pure.
//!
//! `{"status":"rejected"}` is a failure of `submit_order` and the success of `reject_request`; `{"completed":false}` is a failure of
//! `complete_task` and says nothing of `create_task`.

use std::cell::OnceCell;

use super::facts::{NamedValue, ResultFacts, Scalar};
use crate::language::fold::{fold, name_words};
use crate::language::word_list::WordList;

/// Letters that the roots of a verb and of its participle share at least; one less where they are the same: `deny`, `denied`.
const STEM: usize = 4;
/// Values of arguments that are looked at.
const ARGUMENTS_MAX: usize = 200;
/// Bytes of arguments that are read.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;

/// Verbs with which tools refuse something or keep somebody off: every state below is what they bring about.
const REFUSES: &[&str] = &[
    "block",
    "ban",
    "reject",
    "decline",
    "deny",
    "refuse",
    "expire",
    "revoke",
    "invalidate",
    "void",
    "disable",
    "deactivate",
    "suspend",
    "freeze",
    "lock",
    "quarantine",
    "mute",
    "blacklist",
    "blocklist",
    "denylist",
    "restrict",
    "isolate",
    "dismiss",
    "moderate",
    "fence",
    "cordon",
];
/// Verbs with which they stop something.
const STOPS: &[&str] = &["abort", "cancel", "stop", "kill", "terminate", "end", "shut", "shutdown", "drain", "retire"];
/// Other verbs with which they make an end of something.
const OTHER_ENDS: &[&str] = &["close", "pause", "remove", "delete", "drop", "archive", "unpublish", "withdraw", "fail", "report"];
/// Beginnings of such verbs in other languages. Folded.
const FOREIGN_ENDS: &[&str] = &[
    "ablehn",
    "abweis",
    "verweiger",
    "sperr",
    "bann",
    "storn",
    "absag",
    "kundig",
    "loesch",
    "losch",
    "rejet",
    "refus",
    "bloqu",
    "annul",
    "resili",
    "rechaz",
    "deneg",
    "cancel",
    "anul",
    "rifiut",
    "blocc",
    "respin",
    "disd",
    "recus",
    "rejeit",
    "neg",
    "weiger",
    "afwijs",
    "afwijz",
    "blokk",
    "odrzuc",
    "zablok",
    "odmow",
    "reddet",
    "engelle",
    "iptal",
];
/// Verbs that do what the noun behind them says.
static MAKES: WordList = WordList::new(&[
    "create", "make", "new", "submit", "place", "add", "approve", "process", "confirm", "issue", "request", "execute", "initiate",
    "complete",
]);
/// Arguments that give or refuse consent.
static CONSENTS: WordList = WordList::new(&[
    "approve",
    "approved",
    "accept",
    "accepted",
    "allow",
    "allowed",
    "confirm",
    "confirmed",
    "grant",
    "granted",
    "enable",
    "enabled",
]);
/// States that a refusing verb brings about.
static ENDED: WordList = WordList::new(&[
    "rejected",
    "denied",
    "declined",
    "refused",
    "aborted",
    "invalid",
    "unavailable",
    "blocked",
    "expired",
    "incomplete",
    "notstarted",
]);

/// Verbs of tools, and the flags that say whether their deed was done.
const DEEDS: &[(&[&str], &[&str])] = &[
    (
        &[
            "create", "add", "save", "store", "register", "record", "log", "write", "insert", "put", "new", "make", "set", "update",
            "change", "edit", "modify", "patch", "append", "enter", "note", "upsert", "import",
        ],
        &["created", "added", "saved", "stored", "registered", "entered", "written", "updated", "changed", "applied"],
    ),
    (
        &["book", "reserve", "schedule", "order", "buy", "purchase", "place", "hold", "enrol", "enroll"],
        &["booked", "reserved", "scheduled", "ordered", "placed", "created", "confirmed", "accepted"],
    ),
    (
        &["send", "mail", "email", "message", "notify", "sms", "text", "post", "publish", "share", "reply", "forward", "alert", "announce"],
        &["sent", "delivered", "notified", "posted", "published", "queuedforsend"],
    ),
    (&["delete", "remove", "cancel", "clear", "erase", "purge", "unsubscribe"], &["deleted", "removed", "cancelled", "canceled"]),
    (&["pay", "transfer", "charge", "refund", "withdraw", "deposit", "wire"], &["paid", "transferred", "charged", "refunded", "executed"]),
    (
        &["start", "run", "restart", "reboot", "launch", "trigger", "deploy", "execute", "install", "stop", "apply"],
        &["started", "restarted", "deployed", "executed", "installed", "stopped", "applied", "completed"],
    ),
    (&["submit", "file", "upload", "push", "merge", "commit"], &["submitted", "uploaded", "pushed", "merged", "committed", "accepted"]),
    (&["renew", "extend"], &["renewed"]),
    (&["grant", "issue", "approve", "assign"], &["granted", "issued", "assigned"]),
];

/// How a flag of a result is related to what the call was to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FlagRelation {
    /// The tool is named by the flag's verb: `sent` of `send_mail`.
    Named,
    /// The flag tells of such a deed: `delivered` of `send_mail`.
    Akin,
    /// The tool's name has no verb that is known: it may be.
    Open,
    /// It tells of another deed: `completed` of `create_task`.
    Other,
}

/// The aim of a call.
pub(super) struct CallAim<'c> {
    words: Vec<String>,
    arguments: &'c str,
    facts: OnceCell<ResultFacts>,
}

impl<'c> CallAim<'c> {
    /// That of a call of this tool. `arguments`: JSON text.
    pub fn new(tool: &str, arguments: &'c str) -> Self {
        Self { words: name_words(tool), arguments, facts: OnceCell::new() }
    }

    fn arguments(&self) -> &ResultFacts {
        self.facts.get_or_init(|| {
            if self.arguments.len() > ARGUMENTS_BYTES_MAX { ResultFacts::default() } else { ResultFacts::read(self.arguments) }
        })
    }

    /// The verb of the tool's name.
    fn verb(&self) -> Option<&str> {
        let known =
            |word: &str| DEEDS.iter().map(|(verbs, _)| *verbs).chain([REFUSES, STOPS, OTHER_ENDS]).any(|verbs| verbs.contains(&word));
        self.words.iter().map(String::as_str).find(|word| known(word))
    }

    /// Is this state, which elsewhere tells a failure, what was asked for? `state`: folded, without blanks.
    pub fn wants(&self, state: &str) -> bool {
        let given = |leaf: &NamedValue| match &leaf.value {
            Scalar::Text(text) => text.len() <= state.len() + 8 && fold(text).split(' ').any(|word| is_form(state, word)),
            // `approve: false`
            Scalar::Flag(flag) => !flag && CONSENTS.has(&leaf.key) && ENDED.has(state),
            _ => false,
        };
        let brings =
            |verb: &str| REFUSES.contains(&verb) && ENDED.has(state) || STOPS.contains(&verb) && matches!(state, "aborted" | "unavailable");
        self.words.iter().any(|word| is_form(state, word))
            || self.verb().is_some_and(brings)
            || self.arguments().leaves.iter().take(ARGUMENTS_MAX).any(given)
    }

    /// Does the call itself set this flag to false?
    pub fn unsets(&self, flag: &str) -> bool {
        self.arguments().leaves.iter().take(ARGUMENTS_MAX).any(|leaf| leaf.key == flag && matches!(leaf.value, Scalar::Flag(false)))
    }

    /// Does its tool make an end of something, in a language other than English?
    pub fn ends_in_other_words(&self) -> bool {
        self.words.iter().any(|word| FOREIGN_ENDS.iter().any(|verb| word.starts_with(verb)))
    }

    /// Is this text one of its arguments?
    pub fn gives(&self, said: &str) -> bool {
        self.arguments().leaves.iter().take(ARGUMENTS_MAX).any(|leaf| matches!(&leaf.value, Scalar::Text(text) if text == said))
    }

    /// Relation of a flag to what the call was to do.
    pub fn relation(&self, flag: &str) -> FlagRelation {
        let Some(verb) = self.verb() else {
            return if self.words.iter().any(|word| is_form(flag, word)) { FlagRelation::Named } else { FlagRelation::Open };
        };
        if is_form(flag, verb) {
            return FlagRelation::Named;
        }
        // `create_booking`
        let made = MAKES.has(verb) && self.words.last().is_some_and(|last| is_form(flag, last));
        let akin = made || DEEDS.iter().any(|(verbs, flags)| verbs.contains(&verb) && flags.contains(&flag));
        if akin { FlagRelation::Akin } else { FlagRelation::Other }
    }
}

/// Is `said` a participle of this verb: `denied` of `deny`, `sent` of `send`?
fn is_form(said: &str, verb: &str) -> bool {
    const IRREGULAR: [(&str, &str); 8] = [
        ("sent", "send"),
        ("paid", "pay"),
        ("paid", "payment"),
        ("written", "write"),
        ("sold", "sell"),
        ("bought", "buy"),
        ("withdrawn", "withdraw"),
        ("frozen", "freeze"),
    ];
    let root = |word: &str| -> String {
        let word = word.strip_suffix("ed").or_else(|| word.strip_suffix("ing")).or_else(|| word.strip_suffix('s')).unwrap_or(word);
        let word = word.strip_suffix(['e', 'y', 'i']).unwrap_or(word);
        word.to_owned()
    };
    if IRREGULAR.contains(&(said, verb)) || said == verb {
        return true;
    }
    let (said, verb) = (root(said), root(verb));
    let shared = said.chars().zip(verb.chars()).take_while(|(one, other)| one == other).count();
    let least = said.chars().count().min(verb.chars().count());
    // `den` of `deny`; `abort` of `aborted`; `cancell` of `cancel`.
    let apart = said.chars().count().abs_diff(verb.chars().count());
    // Three letters alone tell little: `Denver` is no form of `deny`.
    shared == least && (least >= STEM && apart <= 3 || least + 1 == STEM && apart == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_were_asked_for() {
        for (tool, arguments, state, wanted) in [
            ("reject_request", "{}", "rejected", true),
            ("denyAccess", "{}", "denied", true),
            ("block_card", "{}", "blocked", true),
            ("freeze_card", "{}", "blocked", true),
            ("update_ticket", r#"{"status":"invalid"}"#, "invalid", true),
            ("decide_leave", r#"{"approve":false}"#, "rejected", true),
            ("review_post", r#"{"decision":"reject"}"#, "rejected", true),
            ("submit_order", "{}", "rejected", false),
            ("pay_invoice", r#"{"invoice":"I-5"}"#, "declined", false),
            ("cancel_order", "{}", "error", false),
            ("submit_block", "{}", "rejected", false),
            ("delete_file", "{}", "denied", false),
            ("stop_job", "{}", "aborted", true),
            ("pay_invoice", r#"{"urgent":false}"#, "declined", false),
            ("book_flight", r#"{"city":"Denver"}"#, "denied", false),
            ("block_card", "{}", "failed", false),
            ("block_card", "no JSON", "notfound", false),
        ] {
            assert_eq!(CallAim::new(tool, arguments).wants(state), wanted, "{tool} {arguments} {state}");
        }
    }

    #[test]
    fn flags_of_the_deed_and_of_others() {
        use FlagRelation::{Akin, Named, Open, Other};
        for (tool, flag, relation) in [
            ("send_mail", "sent", Named),
            ("send_mail", "delivered", Akin),
            ("create_booking", "booked", Akin),
            ("create_payment_link", "paid", Other),
            ("update_order", "ordered", Other),
            ("approve_payment", "paid", Akin),
            ("reserve_table", "booked", Akin),
            ("complete_task", "completed", Named),
            ("create_task", "completed", Other),
            ("create_draft", "sent", Other),
            ("cancel_order", "cancelled", Named),
            ("cancel_order", "refunded", Other),
            ("water_plants", "executed", Open),
        ] {
            assert_eq!(CallAim::new(tool, "{}").relation(flag), relation, "{tool} {flag}");
        }
    }
}
