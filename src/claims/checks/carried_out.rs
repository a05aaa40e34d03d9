//! What the result of an act says was done, against what the call asked for: where they differ, telling what was asked for is telling a
//! thing that didn't happen. Pure.
//!
//! `set_feed` was to give 240 kg and answers `{"daily_kg":220,"requested_kg":240}`; `reserve_room` was to last until 12 and answers
//! `{"end":"11:00"}`. The arguments are known to the conversation, so no other check holds them against the answer.

use crate::{
    checks::account::sentence,
    context::{CheckContext, CitationScope, ClaimFinding},
    evidence::{
        ArgumentDifference, ToolResult,
        facts::{NamedValue, ResultFacts, Scalar},
    },
    language::{
        date::{self, Dates},
        fold::{fold, stands_in},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Values of arguments and of a result that are compared.
const ARGUMENTS_MAX: usize = 40;
const LEAVES_MAX: usize = 200;
/// Bytes of arguments that are read.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;
/// Bytes of a text that is compared.
const TEXT_BYTES: std::ops::RangeInclusive<usize> = 2..=60;
/// Beginnings of members' names that repeat what was asked for, and of such as tell how it was before.
const ASKED: &[&str] = &[
    "request",
    "asked",
    "wanted",
    "desired",
    "solicit",
    "pedid",
    "demand",
    "richiest",
    "gewunscht",
    "angefragt",
    "gevraagd",
    "zadan",
    "istenen",
];
const BEFORE: &[&str] = &["previous", "prev", "old", "before", "was", "original", "former", "vorher", "anterior", "ancien", "precedent"];

/// The finding of a passage that tells what was asked for, where the result of the act that it cites has something else in its place.
pub(crate) fn carried_out(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let idle = scene.bond < CitationScope::Introduced || scene.kind == Kind::Heading || scene.plain.asks() || source.reads();
    if idle || source.is_partial() {
        return None;
    }
    let differences = source.differences(|| differences(source));
    let told = differences.iter().find(|difference| tells(scene, &difference.asked) && !tells(scene, &difference.done))?;
    // Who tells both that it was asked for and that it wasn't done so tells the truth.
    if sentence::tells_of_failure(scene) || says_otherwise(scene) {
        return None;
    }
    let expected = format!("{}: {}", told.key, written(&told.done));
    Some(sentence::whole(scene, "carried_out", Code::ClaimMismatch, &expected, Certainty::Likely))
}

/// The arguments whose place in the result holds another value.
fn differences(source: &ToolResult) -> Vec<ArgumentDifference> {
    if source.arguments.len() > ARGUMENTS_BYTES_MAX {
        return Vec::new();
    }
    let (arguments, facts) = (ResultFacts::read(&source.arguments), source.facts());
    if !arguments.json || arguments.partial {
        return Vec::new();
    }
    let of_call = arguments.leaves.iter().take(ARGUMENTS_MAX).filter(|leaf| leaf.record == 0);
    let found = of_call.filter_map(|asked| {
        let own = || facts.leaves.iter().take(LEAVES_MAX).filter(|leaf| leaf.record == 0);
        if matches!(asked.value, Scalar::Text(_)) && ENUMERATED.iter().any(|name| asked.key.ends_with(name)) {
            return None;
        }
        // Once under the same name, and nowhere but where the request is repeated.
        let mut same = own().filter(|leaf| leaf.key == asked.key && is_same_kind(&leaf.value, &asked.value));
        let repeats = |key: &str| names(key, ASKED) || names(key, BEFORE) || names(key, NOTES);
        let stands = own().any(|leaf| is_equal(&leaf.value, &asked.value) && !repeats(&leaf.key));
        if stands {
            return None;
        }
        let done = match (same.next(), same.next()) {
            (Some(one), None) => one,
            (None, None) => instead_of(own(), asked)?,
            _ => return None,
        };
        (!is_equal(&done.value, &asked.value)).then(|| ArgumentDifference {
            key: done.key.clone(),
            asked: asked.value.clone(),
            done: done.value.clone(),
        })
    });
    found.collect()
}

/// Members of a result in words, in which what was asked for may stand, too: `2026-03-30 is full, moved to the next day`.
const NOTES: &[&str] =
    &["note", "notes", "message", "reason", "hint", "info", "detail", "comment", "hinweis", "grund", "motivo", "motif", "nota"];

/// The value that stands beside a repeated request: `daily_kg` beside `requested_kg`.
fn instead_of<'r>(leaves: impl Iterator<Item = &'r NamedValue> + Clone, asked: &NamedValue) -> Option<&'r NamedValue> {
    let repeats = |leaf: &&NamedValue| names(&leaf.key, ASKED) && is_equal(&leaf.value, &asked.value);
    let repeated = leaves.clone().find(repeats)?;
    let mut others = leaves.filter(|leaf| {
        is_same_kind(&leaf.value, &asked.value)
            && !std::ptr::eq(*leaf, repeated)
            && !names(&leaf.key, BEFORE)
            && leaf.object == repeated.object
    });
    others.next()
}

fn names(key: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| key.starts_with(part) || key.ends_with(part) || part.len() > 5 && key.contains(part))
}

/// Members whose words tools write in their own way: `done` becomes `completed`, `high` becomes `urgent`.
const ENUMERATED: &[&str] = &[
    "status",
    "state",
    "mode",
    "action",
    "command",
    "operation",
    "type",
    "kind",
    "level",
    "priority",
    "format",
    "unit",
    "currency",
    "visibility",
    "role",
    "category",
    "method",
    "language",
    "locale",
    "timezone",
    "color",
    "colour",
];

/// Are both numbers, both moments, or both names? One that is a code or an abbreviation of the other can't be compared with it.
fn is_same_kind(one: &Scalar, other: &Scalar) -> bool {
    match (one, other) {
        (Scalar::Number(_), Scalar::Number(_)) => true,
        (Scalar::Text(one), Scalar::Text(other)) => {
            let digits = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
            TEXT_BYTES.contains(&one.len())
                && TEXT_BYTES.contains(&other.len())
                && has_moment(one) == has_moment(other)
                && digits(one) == digits(other)
                && !shortens(&fold(one), &fold(other))
                && !shortens(&fold(other), &fold(one))
        }
        _ => false,
    }
}

/// May `short` stand for `long`: does it begin like it, with all its letters in the same order (`UPS` for `Uppsala`)?
fn shortens(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    short.chars().next() == long.chars().next() && short.chars().all(|c| letters.any(|own| own == c))
}

fn has_moment(text: &str) -> bool {
    let Dates { dates, times, .. } = date::dates(text);
    !dates.is_empty() || !times.is_empty()
}

fn is_equal(one: &Scalar, other: &Scalar) -> bool {
    match (one, other) {
        (Scalar::Number(one), Scalar::Number(other)) => {
            // `12.5` dollars are `1250` cents, an hour 60 minutes: the same in another unit.
            const UNITS: [f64; 8] = [1.0, 10.0, 100.0, 1000.0, 1e6, 60.0, 3600.0, 24.0];
            UNITS.iter().any(|unit| (one * unit - other).abs() < 1e-9 || (one - other * unit).abs() < 1e-9)
        }
        (Scalar::Text(one), Scalar::Text(other)) => {
            let (one, other) = (fold(one), fold(other));
            // The one may be written out: `okoro` and `J. Okoro`; `555-0177` and `+1555 0177`.
            let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
            let (figures, others) = (digits(&one), digits(&other));
            let number = figures.len() > 4 && others.len() > 4 && (figures.ends_with(&others) || others.ends_with(&figures));
            one == other || stands_in(&one, &other) || stands_in(&other, &one) || number && !has_moment(&one)
        }
        (Scalar::Text(text), Scalar::Number(number)) | (Scalar::Number(number), Scalar::Text(text)) => {
            text.trim().replace(',', ".").parse::<f64>().is_ok_and(|own| (own - number).abs() < 1e-9)
        }
        _ => false,
    }
}

/// Does the passage tell this value?
fn tells(scene: &CheckContext<'_>, value: &Scalar) -> bool {
    match value {
        Scalar::Number(number) => {
            let amount = number.abs();
            let is = |told: f64| (told - amount).abs() < 1e-9;
            scene.plain.numbers().iter().filter(|own| !own.ordinal).flat_map(|own| own.readings()).any(|reading| is(reading.value))
                || amount.fract() == 0.0
                    && amount <= 99.0
                    && scene.plain.words.iter().any(|word| scene.lexicon.numbers.get(&*word.lower).is_some_and(|count| is(*count as f64)))
        }
        Scalar::Text(text) if has_moment(text) => {
            let (own, said) = (date::dates(text), scene.plain.dates());
            let time =
                own.times.iter().all(|time| said.times.iter().any(|told| told.minutes == time.minutes) || is_bare(scene, time.minutes));
            let day = own.dates.iter().all(|day| said.dates.iter().any(|told| told.is(day)));
            // Of a moment the time may be told alone; a day never without saying it.
            if own.times.is_empty() { day } else { time && (day || said.dates.is_empty()) }
        }
        Scalar::Text(text) => stands_in(scene.plain.folded(), &fold(text)),
        _ => false,
    }
}

/// `10時`, `17 h`, `at 6`: a full hour that is told as a number.
fn is_bare(scene: &CheckContext<'_>, minutes: u32) -> bool {
    minutes.is_multiple_of(60) && scene.plain.numbers().iter().any(|number| number.whole() == Some(u64::from(minutes / 60)))
}

/// Words by which a passage tells that it became otherwise than asked for.
fn says_otherwise(scene: &CheckContext<'_>) -> bool {
    const OTHERWISE: &[&str] = &[
        "instead",
        "rather than",
        "asked",
        "requested",
        "wanted",
        "only",
        "capped",
        "limit",
        "reduced",
        "shortened",
        "adjusted",
        "but",
        "although",
        "statt",
        "anstatt",
        "nur",
        "aber",
        "gewunscht",
        "au lieu",
        "mais",
        "seulement",
        "demande",
        "en lugar",
        "en vez",
        "solo",
        "pero",
        "pedid",
        "solicit",
        "invece",
        "ma",
        "richiest",
        "em vez",
        "apenas",
        "mas",
        "in plaats",
        "maar",
        "slechts",
        "zamiast",
        "tylko",
        "ale",
        "yerine",
        "ama",
        "sadece",
        "代わり",
        "しか",
        "のみ",
        "ただし",
        "而不是",
        "只",
        "但",
        "बजाय",
        "केवल",
        "लेकिन",
    ];
    let folded = scene.plain.folded();
    OTHERWISE.iter().any(|word| if word.is_ascii() { stands_in(folded, word) } else { folded.contains(word) })
}

fn written(value: &Scalar) -> String {
    match value {
        Scalar::Number(number) => number.to_string(),
        Scalar::Text(text) => text.clone(),
        Scalar::Flag(flag) => flag.to_string(),
        Scalar::Null => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::EvidenceIndex,
        language::lexicon::{language, words},
        plain::AnalyzedPassage,
    };

    fn wrong(tool: &str, arguments: &str, result: &str, text: &str) -> bool {
        let grounds = EvidenceIndex::new(vec![ToolResult::new(tool, arguments, result)], Vec::new(), "".into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.iter().collect();
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, CitationScope::Cited, &grounds);
        carried_out(&scene).is_some()
    }

    #[test]
    fn what_was_asked_for_is_not_what_was_done() {
        let feed = (r#"{"barn":"3","kg":240}"#, r#"{"barn":"3","daily_kg":220,"requested_kg":240,"clamped":true}"#);
        let room = (r#"{"room":"A","start":"10:00","end":"12:00"}"#, r#"{"room":"A","start":"10:00","end":"11:00","shortened":true}"#);
        let driver = (r#"{"trip":"T-6","driver":"moss"}"#, r#"{"trip":"T-6","driver":"okoro"}"#);
        let moved = (r#"{"date":"2026-03-30"}"#, r#"{"booked":true,"date":"2026-04-01","note":"2026-03-30 full, moved"}"#);
        for ((arguments, result), text, expected) in [
            (feed, "Barn 3 gets 240 kg a day now.", true),
            (feed, "Barn 3 gets 220 kg a day now.", false),
            (feed, "Barn 3 gets 220 kg a day now, the most that is possible; you had wanted 240.", false),
            (room, "Room A is yours from 10:00 to 12:00.", true),
            (room, "Room A is yours from 10:00 to 11:00.", false),
            (driver, "Moss drives T-6.", true),
            (driver, "Okoro drives T-6.", false),
            (moved, "It's booked for 30 March.", true),
            (moved, "It's booked for 1 April.", false),
            ((r#"{"id":"7","qty":2}"#, r#"{"id":"7","qty":2,"total":40}"#), "Two of 7 are ordered, 40 in all.", false),
            ((r#"{"amount":12.5}"#, r#"{"amount":1250,"currency":"usd"}"#), "The refund of $12.50 went through.", false),
            ((r#"{"to":"Uppsala"}"#, r#"{"to":"UPS","due":"2027-05-31"}"#), "The loan to Uppsala is due on 31 May 2027.", false),
            ((r#"{"id":"t","status":"done"}"#, r#"{"id":"t","status":"completed"}"#), "The task t is done.", false),
            ((r#"{"to":"ann@example.org"}"#, r#"{"to":"Ann <ann@example.org>"}"#), "It went to ann@example.org.", false),
        ] {
            assert_eq!(wrong("set_value", arguments, result, text), expected, "{text}");
        }
        // What only reads asks for something else than it finds.
        assert!(!wrong("get_room", room.0, room.1, "Room A is yours from 10:00 to 12:00."));
    }
}
