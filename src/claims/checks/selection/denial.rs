//! A question that is answered by "no" or "there are none", where the result has records that answer it by "yes". Pure.

use crate::{
    checks::{
        account::sentence,
        acts,
        selection::{
            QUESTION_WORDS_MAX, ReadWords, Reading, Records, SENTENCE_BYTES_MAX, SelectionClaim, clauses, data, denies, is_for_any,
            is_plain,
        },
    },
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ToolResult,
        facts::{NamedValue, Scalar},
        tool_capabilities::{Effect, ToolCapability},
    },
    language::{
        fold::{fold, words_of},
        lexicon::Word,
        word_list::WordSet,
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Words that nothing decides, beside one that chooses: of the clause that denies, and of the question.
const OPEN_MAX: usize = 4;
const QUESTION_OPEN_MAX: usize = 2;
/// Clauses of a sentence that deny.
const CLAUSES_MAX: usize = 3;
/// Words from a denial on in which `any` makes it one of all.
const ANY_WITHIN: usize = 4;

/// The finding of a sentence that denies what the result has.
pub(crate) fn denial(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources[..] else { return None };
    let text = scene.text();
    if !scene.is_judged(CitationScope::Introduced)
        || scene.kind == Kind::Heading
        || text.len() > SENTENCE_BYTES_MAX
        || scene.kind == Kind::Line && (text.contains([':', '|']) || scene.bond < CitationScope::Cited)
        || !scene.plain.words.iter().any(denies)
        || ToolCapability::effect_of(&source.tool) == Effect::Acts && !source.lists_records()
        || source.fails()
        || source.is_partial()
        || source.says_none()
    {
        return None;
    }
    denied_clauses(scene).into_iter().find_map(|clause| denial_of(scene, source, clause))
}

/// The finding of one clause that denies.
fn denial_of(scene: &CheckContext<'_>, source: &ToolResult, clause: &[Word]) -> Option<ClaimFinding> {
    // `The trips in your own car aren't in this list`: of others than those.
    const OWN: [&str; 8] = ["own", "eigene", "eigenen", "propre", "propres", "propio", "proprio", "eigen"];
    if !denies_all(clause) && clause.iter().any(|word| OWN.contains(&word.lower.as_str())) {
        return None;
    }
    // `no Hemocentro`: in Portuguese it denies nothing.
    let others = || scene.plain.words.iter().any(|word| denies(word) && word.lower != "no");
    if !others() && acts::speech::language_of(scene.text(), &scene.plain.words) == Some("pt") {
        return None;
    }
    if let Some(amount) = denied_amount(source, clause) {
        return Some(sentence::whole(scene, "denial", Code::FalseAbsence, &amount, Certainty::Likely));
    }
    // `No te queda ninguna multa pendiente` of `pendientes: 0`.
    let zero = |leaf: &&NamedValue| leaf.record == 0 && matches!(leaf.value, Scalar::Number(0.0) | Scalar::Flag(false) | Scalar::Null);
    let named = |leaf: &NamedValue| clause.iter().any(|word| leaf.is_named_by(word));
    if source.facts().leaves.iter().filter(zero).any(named) {
        return None;
    }
    let records = Records::of(source)?;
    let reading = Reading { scene, source, records: &records };
    // `Dotty is out: no cats`: it is told of one record. What only follows may be told of others: `no dogs, just a cat`.
    let names_others = records.stand_outside(scene, clause);
    if names_others && counts_some(scene, clause) {
        return None;
    }
    // `no faults or stoppages`: the first alone is denied, too.
    let first_of_two = clause.windows(3).position(|three| {
        denies(&three[0]) && matches!(three[2].lower.as_str(), "or" | "oder" | "ou" | "o" | "nor") && records.decide(&fold(&three[1].lower))
    });
    let own = first_of_two.map_or(clause, |at| clause.get(..at + 2).unwrap_or(clause));
    let of_clause = reading.read(own, &[], SelectionClaim::Absence);
    let asked = scene.grounds.asked.words();
    let of_question = if asked.len() <= QUESTION_WORDS_MAX { reading.read(asked, &[], SelectionClaim::Absence) } else { None };
    // `No, none.` denies what was asked: with all that narrows it.
    let says_what = || clause.iter().any(|word| words_of(&word.folded()).any(|part| reading.names_list(part)));
    let is_open = of_question.as_ref().is_none_or(|question| !question.open.is_empty());
    let last_denies = clause.last().is_some_and(denies);
    let stands_alone = |own: &ReadWords| !is_open || !last_denies && (!own.decided.is_empty() || says_what());
    let all = records.total();
    // `No annual discount`: what is denied itself must be known. `None of them`, `nothing` deny anything.
    let of_known = clause.windows(2).all(|two| {
        let bare = matches!(
            two[0].lower.as_str(),
            "no" | "kein" | "keine" | "keinen" | "aucun" | "aucune" | "ningún" | "ninguna" | "nessun" | "nessuna" | "geen"
        );
        let own = fold(&two[1].lower);
        !bare || reading.names_list(&own) || records.decide(&own) || is_plain(&two[1])
    });
    let selects = |decided: &[String]| {
        all > 1
            && of_known
            && !records.are_lines()
            && denies_all(clause)
            && decided.iter().any(|word| records.count(std::slice::from_ref(word)) < all)
    };
    // `Nothing was charged for B-117`, whose rides cost 0.00: what nothing decides may be told of that.
    let selective = |own: &ReadWords| own.open.len() <= OPEN_MAX && selects(&own.decided) && !records.lack_something(&own.decided);
    let by_clause = of_clause
        .filter(|_| clause.iter().any(denies))
        .filter(|own| own.open.is_empty() || selective(own))
        .filter(|own| records.have(&own.decided) && stands_alone(own))
        .map(|own| own.decided)
        .filter(|decided| {
            !names_others || !decided.is_empty() && records.have_some(decided) && !records.stand_beside(scene, clause, decided)
        });
    // `Is there a day on which nothing was sold?` is denied by telling of some.
    let asked_for_none = asked.iter().any(|word| data().nones.contains(&word.folded()));
    // `Is Delphine in?`, `Is her simvastatin running?`: asked of one record, which is there.
    let names_one = |decided: &[String]| {
        all > 1 && !is_for_any(asked) && !decided.is_empty() && decided.iter().all(|word| records.count(std::slice::from_ref(word)) == 1)
    };
    let by_question = |question: ReadWords| {
        if asked_for_none {
            return None;
        }
        let listed = source.lists_records() || all > 1 && Records::single(source).is_none();
        let nouns = usize::from(scene.lexicon.language != "en" && listed).max(usize::from(!question.decided.is_empty()));
        let beyond = reading.read(clause, asked, SelectionClaim::Absence).filter(|own| own.open.len() <= 1);
        let own_closed = beyond.as_ref().is_some_and(|own| own.open.is_empty());
        let both = beyond.map(|own| [&question.decided[..], &own.decided].concat()).filter(|both| records.have(both));
        let closed =
            |both: &Vec<String>| question.open.len() <= nouns || question.open.len() <= QUESTION_OPEN_MAX && own_closed && selects(both);
        if let Some(both) = both.filter(closed).filter(|both| !names_one(both)) {
            return Some(both);
        }
        let says_no = scene.plain.words.first().is_some_and(|word| data().noes.contains(&word.folded()));
        let decided = says_no
            && question.open.is_empty()
            && !question.decided.is_empty()
            && !names_one(&question.decided)
            && records.have(&question.decided);
        decided.then_some(question.decided)
    };
    // What stands before the sentence that cites may be told of less than the question asks for.
    let cites = scene.bond == CitationScope::Cited;
    let decided = by_clause.or_else(|| of_question.filter(|_| cites && !names_others).and_then(by_question))?;
    // `No critical ones` of `HIGH: 3, CRITICAL: 0`.
    if records.tell_zero(&decided) {
        return None;
    }
    // `The thyroid panel carries no flags`, whose list of them is empty.
    let lacks = |word: &Word| !decided.is_empty() && records.lack_member(&decided, &word.folded());
    if clause.iter().any(lacks) {
        return None;
    }
    Some(sentence::whole(scene, "denial", Code::FalseAbsence, &records.shown(&decided), Certainty::Likely))
}

/// Words behind a denial among which an amount is named, and letters of its name.
const AMOUNT_WITHIN: usize = 3;
const AMOUNT_CHARS: usize = 4;

/// An amount above zero at the top of the result, where a clause denies it: `no fees are outstanding` of `fees_due: 2.5`.
fn denied_amount(source: &ToolResult, clause: &[Word]) -> Option<String> {
    let at = clause.iter().position(denies)?;
    if clause.iter().any(|word| data().limits.contains(&word.folded())) {
        return None;
    }
    let named: Vec<String> = clause.iter().skip(at + 1).take(AMOUNT_WITHIN).map(|word| fold(&word.lower)).collect();
    let names = |key: &str| named.iter().any(|word| word.chars().count() >= AMOUNT_CHARS && key.contains(word.trim_end_matches('s')));
    let owed = ["fee", "fine", "due", "balance", "debt", "owe", "charge", "cost", "outstanding", "arrears"];
    let is_above =
        |leaf: &&NamedValue| leaf.value.number().is_some_and(|amount| amount > 0.0) && owed.iter().any(|part| leaf.key.contains(part));
    let first = source.facts().leaves.iter().filter(|leaf| leaf.record == 0).find(|leaf| names(&leaf.key)).filter(is_above);
    let owes = || clause.iter().any(|word| matches!(&*word.lower, "owe" | "owes" | "owing" | "owed"));
    let amount = first.or_else(|| owes().then(|| owed_amount(source)).flatten())?;
    Some(format!("{}: {}", amount.key, amount.value.shown()))
}

/// The amount owed by a result about debts: `balance: 4.6` of fees.
fn owed_amount(source: &ToolResult) -> Option<&NamedValue> {
    const DEBTS: [&str; 9] = ["fee", "fine", "debt", "bill", "invoice", "charge", "due", "owed", "arrears"];
    const SUMS: [&str; 6] = ["balance", "due", "owed", "total", "outstanding", "fees"];
    let has = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let owing = |leaf: &&NamedValue| {
        leaf.record == 0
            && has(&leaf.key, &SUMS)
            && (has(&leaf.key, &DEBTS) || has(source.tool_folded(), &DEBTS))
            && leaf.value.number().is_some_and(|amount| amount > 0.0)
    };
    source.facts().leaves.iter().find(owing)
}

/// Is there a word for a number before the denial: `two of them have no nuts`?
fn counts_some(scene: &CheckContext<'_>, clause: &[Word]) -> bool {
    clause.iter().take_while(|word| !denies(word)).any(|word| scene.lexicon.count(&word.lower).is_some())
}

/// Does a clause tell that there is none, or that something isn't in a list: `no orders`, `doesn't mention chalkbrood`?
fn tells_of_none(clause: &[Word]) -> bool {
    let mentions = |word: &Word| words_of(&word.folded()).any(|part| data().mentions.contains(part));
    denies_all(clause) || clause.iter().any(denies) && clause.iter().any(mentions)
}

/// May a sentence deny all of them? Cheap.
pub fn may_deny_all(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|word| data().nones.contains(&word.to_lowercase()))
}

/// Does a clause deny all of them: `none`, `not a single one`?
pub fn denies_all(clause: &[Word]) -> bool {
    let has = |list: &WordSet| clause.iter().any(|word| words_of(&word.folded()).any(|part| list.contains(part)));
    // `Not a single one`, not `isn't counted because that one was cancelled`.
    let near = |list: &WordSet| {
        clause.iter().enumerate().filter(|(_, word)| denies(word)).any(|(at, _)| {
            let behind = clause.get(at..).unwrap_or_default().iter().take(ANY_WITHIN);
            behind.into_iter().any(|word| words_of(&word.folded()).any(|part| list.contains(part)))
        })
    };
    has(&data().nones) || near(&data().anys)
}

/// The words of each part of a sentence that denies: between two marks.
fn denied_clauses<'s>(scene: &'s CheckContext<'_>) -> Vec<&'s [Word]> {
    let clauses = clauses(scene);
    // `No` alone denies what was asked.
    let alone = clauses.len() > 1 && clauses.first().is_some_and(|first| first.len() == 1 && first.iter().any(denies));
    let behind = clauses.iter().skip(usize::from(alone));
    let mut own: Vec<&[Word]> = behind.filter(|clause| tells_of_none(clause)).take(CLAUSES_MAX).copied().collect();
    if own.is_empty() && alone {
        own.extend(clauses.get(1));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    fn denied(asked: &str, call: (&str, &str, &str), text: &str) -> bool {
        find(denial, asked, &[call], 0, text).is_some()
    }

    #[test]
    fn denials_of_what_is_there() {
        let boats =
            ("find_boats", r#"{"lake":"Arn"}"#, r#"{"boats":[{"name":"Ente","free":false},{"name":"Otter","free":true,"leaks":2}]}"#);
        let rooms = ("list_rooms", "{}", "room  state\nR1    occupied\nR2    empty\n");
        let books = ("search_books", r#"{"author":"Ida Blum"}"#, "id,title,author\n7,Moor,Ida Blum\n9,Watt,Ida Blum\n");
        let loans = ("list_loans", "{}", r#"{"loans":[{"title":"Moor","due":"2025-05-12"},{"title":"Watt","due":"2025-06-02"}]}"#);
        let quakes = (
            "query_quakes",
            "{}",
            "<quakes><quake region=\"Valais\" felt=\"true\"/><quake region=\"Valais\" felt=\"false\"/><quake region=\"Friuli\" felt=\"true\"/></quakes>",
        );
        for (asked, call, text) in [
            ("Any boats on the Arn?", boats, "There are no boats on the Arn."),
            ("Is any boat free?", boats, "No, there isn't a single boat free."),
            ("Is any room empty?", rooms, "No, every guest has one."),
            ("Do we have anything by Ida Blum?", books, "We don't hold any novels by Ida Blum."),
            ("Haben wir Bücher von Ida Blum?", books, "Nein, von Ida Blum gibt es keine Bücher."),
            ("Ci sono libri di Ida Blum?", books, "No, di Ida Blum non risulta alcun libro."),
            // A word that chooses, beside one that nothing decides.
            ("Anything due in June?", loans, "No, none of your loans falls due in June."),
            ("Did people feel the Valais quakes?", quakes, "None of the earthquakes in Valais was felt by anybody."),
            // What follows is told of others.
            ("Is any room empty?", rooms, "No room is empty, just the occupied R1."),
            // Each clause that denies.
            ("Is any room empty?", rooms, "I'm afraid there's none in your price range, no room is empty."),
        ] {
            assert!(denied(asked, call, text), "{text}");
        }
    }

    #[test]
    fn denials_that_may_be_true() {
        let boats =
            ("find_boats", r#"{"lake":"Arn"}"#, r#"{"boats":[{"name":"Ente","free":false},{"name":"Otter","free":false,"leaks":0}]}"#);
        let rooms = ("list_rooms", "{}", "room  state\nR1    occupied\nR2    empty\n");
        let loans = ("list_loans", "{}", r#"{"loans":[{"title":"Moor","due":"2025-05-12"},{"title":"Watt","due":"2025-06-02"}]}"#);
        let scan =
            ("scan", "{}", "shop:5 (debian 12)\nTotal: 13 (LOW: 11, HIGH: 2, CRITICAL: 0)\n\nHIGH  libx  2.5.0\nHIGH  liby  3.0.1\n");
        let fruit = ("stock", "{}", "kind    crates\napples  0\npears   4\n");
        let notes = ("list_messages", "{}", r#"{"messages":[{"from":"Ann","text":"Thanks!"},{"from":"Ben","text":"no leaks here"}]}"#);
        for (asked, call, text) in [
            ("Is any boat free?", boats, "No, no boat is free."),
            ("Any leaks?", boats, "No boat has any leaks."),
            ("Any sailing boats?", boats, "There are no sailing boats."),
            ("Any boats on the Brenn?", boats, "There are no boats on the Brenn."),
            ("Any boats tomorrow?", boats, "There are no boats tomorrow."),
            ("Any more boats?", boats, "There are no other boats."),
            ("Is R1 empty?", rooms, "No, R1 isn't empty."),
            ("Any complaints?", notes, "No complaints."),
            ("Any leaks?", notes, "No, nobody writes of leaks."),
            ("Any boats?", ("find_boats", "{}", r#"{"boats":[]}"#), "There are no boats."),
            // What narrows the question narrows "none", too.
            ("Is any boat longer than 9 m?", boats, "No, none."),
            ("Is any boat free on Sundays?", boats, "None of them is free on a Sunday."),
            ("Anything due in August?", loans, "Nothing is due in August."),
            ("What about Moor?", loans, "Moor isn't counted because that one is another reader's."),
            // What follows is told of what is denied, or only some of them lack it.
            ("Anything due in June?", loans, "Nothing due in June, but for Watt."),
            ("Any leaks?", boats, "One of the two boats has no leaks: the Ente."),
            ("Any critical ones?", scan, "No critical ones."),
            ("Is my bike in there?", fruit, "The pears of your own garden aren't in this list."),
            ("Any apples left?", fruit, "No apples are left; there are pears."),
        ] {
            assert!(!denied(asked, call, text), "{text}");
        }
    }

    #[test]
    fn what_is_owed() {
        let fees = |balance: &str| format!(r#"{{"member":"O. Pryce","balance_eur":{balance},"items":[{{"title":"Emma","eur":4.0}}]}}"#);
        let owes_nothing =
            |tool: &str, balance: &str| denied("Do I owe anything?", (tool, "{}", &fees(balance)), "You don't owe anything.");
        assert!(owes_nothing("get_fees", "4.6"));
        assert!(!owes_nothing("get_fees", "0") && !owes_nothing("get_account", "4.6"));
        let fees = ("get_fees", "{}", r#"{"debt":12,"balance":4.6}"#);
        assert!(denied("Do I owe anything?", fees, "There is no debt owed."));
        assert!(!denied("Do I owe anything else?", fees, "You don't owe anything else."));
    }
}
