//! Records that a bound chooses: `No bay is above 30 °C`, `four of them reached 3.0`. Pure.
//!
//! A column decides: the one that the words name, that is of the bound's unit, or the only one of its kind.

use std::{ops::Range, sync::OnceLock};

use serde::Deserialize;

use super::{
    QUESTION_WORDS_MAX, Reading, RecordValue, Records, SHOWN_VALUES, SelectionClaim,
    asked_counts::{ToldCount, counts_of},
    clauses, data,
    denial::denies_all,
    denies, is_for_any, only_result,
    scale::{self, DAY},
};
use crate::{
    checks::account::{member_values, sentence},
    context::{CheckContext, ClaimFinding},
    evidence::{ToolResult, facts::Scalar},
    language::{
        date::{Date, Dates, dates, days},
        fold::{fold, words_of},
        lexicon::Word,
        number::{Number, numbers},
        unit,
        word_list::{PhraseList, WordList, data_file},
    },
    passage::Kind,
};
use toolmark_base::violation::{Certainty, Code};

/// Records among which a bound chooses.
const RECORDS: std::ops::RangeInclusive<usize> = 2..=64;
/// Words from `past` on among which its date stands.
const PAST_WITHIN: usize = 4;
/// Bytes before a bound in which its comparison stands, and behind it.
const NEAR_BYTES: usize = 24;

/// The words of `lexicon/compared.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Comparatives {
    above: Vec<String>,
    below: Vec<String>,
    least: Vec<String>,
    most: Vec<String>,
    or_above: Vec<String>,
    or_below: Vec<String>,
}

fn comparatives() -> &'static Comparatives {
    static ALL: OnceLock<Comparatives> = OnceLock::new();
    ALL.get_or_init(|| data_file(include_str!("../../language/lexicon/compared.toml")))
}

/// A comparison with a bound.
#[derive(Clone, Debug)]
struct Bound {
    /// Its place.
    span: Range<usize>,
    kind: BoundKind,
    /// It chooses from above.
    above: bool,
}

/// Kind of a bound.
#[derive(Clone, Debug)]
enum BoundKind {
    Number(Number),
    /// Minutes since midnight.
    Time(f64),
    /// Seconds.
    Duration(f64),
    /// Minutes since the epoch.
    Date(f64),
}

/// The finding of a sentence that denies, counts or tells of all what a bound chooses.
pub(crate) fn compared(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let source = only_result(scene).filter(|_| scene.kind == Kind::Sentence)?;
    let question = scene.grounds.asked.words();
    let clauses = clauses(scene);
    // `past its due date`
    let past = |clause: &[Word]| {
        clause.iter().position(|word| matches!(&*word.lower, "past" | "beyond")).is_some_and(|at| {
            clause.iter().skip(at).take(PAST_WITHIN).any(|word| matches!(&*word.lower, "date" | "due" | "deadline" | "expiry"))
        })
    };
    let denies_overdue = |clause: &&&[Word]| denies_all(clause) && (past(clause) || clause.iter().any(|word| OVERDUE.has(&word.folded())));
    if let Some(clause) = clauses.iter().find(denies_overdue) {
        let records = Records::of(source)?;
        let first = overdue(scene, source, &records, clause)?;
        return Some(sentence::whole(scene, "compared", Code::FalseAbsence, &shown(first), Certainty::Likely));
    }
    if let Some(record) = below_minimum(source, &clauses) {
        return Some(sentence::whole(scene, "compared", Code::FalseAbsence, &record, Certainty::Likely));
    }
    let told = only_bound(scene.plain.numbers(), scene.plain.dates(), scene.plain.lower());
    let asked = || {
        let asked = &scene.grounds.asked;
        let read = only_bound(&numbers(asked), &dates(asked), asked.lower());
        read.filter(|_| question.len() <= QUESTION_WORDS_MAX && is_for_any(question))
    };
    let own = told.as_ref().and_then(|bound| clauses.iter().find(|clause| holds(clause, bound.span.start)));
    let (bound, clause, of_question) = match (&told, own) {
        (Some(bound), Some(clause)) => (bound.clone(), *clause, false),
        _ => {
            let first = clauses.iter().find(|clause| denies_all(clause))?;
            (asked()?, *first, true)
        }
    };
    let records = Records::of(source)?;
    if !RECORDS.contains(&records.total()) || records.are_lines() {
        return None;
    }
    let sets_apart = |word: &Word| {
        let folded = fold(&word.lower);
        matches!(
            folded.as_str(),
            "other" | "another" | "else" | "only" | "except" | "besides" | "apart" | "if" | "would" | "should" | "may" | "might"
        ) || folded.starts_with("ander")
            || folded.starts_with("autre")
            || folded.starts_with("otr")
            || folded.starts_with("altr")
    };
    if clause.iter().any(sets_apart) || of_question && question.iter().any(sets_apart) {
        return None;
    }
    let columns = columns(scene, &records, &bound);
    // What departs after six and arrives after six is after six, whichever is meant.
    let [column, others @ ..] = &columns[..] else { return None };
    let either = matches!(bound.kind, BoundKind::Time(_) | BoundKind::Date(_)) && denies_all(clause);
    if !(others.is_empty() || either) {
        return None;
    }
    let column = *column;
    // `a class 1 paint below 60`: of those with that figure. `none of the published ones`: of those that have a value there.
    let figures = |words: &[Word], bound: Option<&Bound>| {
        words.iter().any(|word| {
            word.lower.bytes().any(|byte| byte.is_ascii_digit())
                && bound.is_none_or(|bound| word.end <= bound.span.start || word.start >= bound.span.end)
        })
    };
    let narrows = |word: &Word| {
        let folded = word.folded();
        records.all().iter().flatten().any(|value| value.key != column && value.blank && value.names(&folded))
    };
    if of_question && (figures(question, Some(&bound)) || figures(clause, None)) || clause.iter().any(narrows) {
        return None;
    }
    let mut chosen = scale::chosen(&records, clause, column);
    chosen.extend(scale::chosen(&records, question, column));
    let among: Vec<&[RecordValue<'_>]> = scale::among(&records, &chosen).collect();
    let (mut inside, mut at_bound, mut outside) = (Vec::new(), 0_u64, 0_u64);
    for record in &among {
        match side(record, column, &bound)? {
            BoundSide::Chosen if others.iter().all(|other| matches!(side(record, other, &bound), Some(BoundSide::Chosen))) => {
                inside.push(*record)
            }
            BoundSide::Chosen => outside += 1,
            BoundSide::AtBound => at_bound += 1,
            BoundSide::Other => outside += 1,
        }
    }
    if denies_all(clause) {
        let first = inside.iter().find(|record| !is_called_off(record))?;
        return Some(sentence::whole(scene, "compared", Code::FalseAbsence, &shown(first), Certainty::Likely));
    }
    if clause.iter().any(denies) || of_question || among.len() < 2 {
        return None;
    }
    let counts = counts_of(scene, among.len());
    let mut before = counts.iter().filter(|count| count.place.end <= bound.span.start && holds(clause, count.place.start));
    let ToldCount { count, place } = before.next()?;
    let all = among.len() as u64;
    let fits = (inside.len() as u64..=inside.len() as u64 + at_bound).contains(count);
    // `Three of the five`: of all that there are.
    let whole = before.next().is_none_or(|whole| whole.count == all);
    let first = scene
        .words_before(place.start)
        .iter()
        .all(|word| data().plain.contains(&word.folded()) || matches!(word.lower.as_str(), "only" | "just" | "exactly"));
    (!fits && whole && first && *count <= all && outside + at_bound + inside.len() as u64 == all).then(|| ClaimFinding {
        rule: "compared",
        code: Code::CountMismatch,
        span: place.clone(),
        found: scene.text().get(place.clone()).unwrap_or_default().to_owned(),
        expected: inside.len().to_string(),
        certainty: Certainty::Likely,
    })
}

/// A record that lies below its own minimum, where a clause denies that any does: `none has fallen below its minimum`.
fn below_minimum(source: &ToolResult, clauses: &[&[Word]]) -> Option<String> {
    const BELOW: [&str; 8] = ["below", "under", "beneath", "unter", "sous", "debajo", "sotto", "onder"];
    let is_below = |clause: &&&[Word]| {
        let has = |parts: &[&str]| clause.iter().any(|word| parts.iter().any(|part| word.folded().starts_with(part)));
        denies_all(clause) && has(&BELOW) && has(&["minim", "mindest"])
    };
    clauses.iter().find(is_below)?;
    let records = Records::of(source)?;
    // `qty` and `min`, `kg` and `min_kg`.
    const STOCK: [&str; 8] = ["qty", "quantity", "stock", "instock", "onhand", "units", "level", "available"];
    let pair = |record: &&Vec<RecordValue<'_>>| {
        record.iter().any(|least| {
            let name = least.key.strip_prefix("min").or_else(|| least.key.strip_suffix("min"));
            let is_own = |name: &str, key: &str| if matches!(name, "" | "imum") { STOCK.contains(&key) } else { key == name };
            let own = name.and_then(|name| record.iter().find(|value| is_own(name, value.key)));
            own.and_then(|own| own.number).zip(least.number).is_some_and(|(own, least)| own < least)
        })
    };
    records.all().iter().find(pair).map(|record| shown(record))
}

/// Does a record say that it isn't there after all, or that none of it is left?
fn is_called_off(record: &[RecordValue<'_>]) -> bool {
    const OFF: [&str; 9] = ["cancel", "annul", "storn", "ausgefallen", "sold", "full", "closed", "unavailable", "soppress"];
    record.iter().any(|value| value.number == Some(0.0) || words_of(&value.text).any(|word| OFF.iter().any(|off| word.starts_with(off))))
}

/// The first values of a record, as a message shows them.
fn shown(record: &[RecordValue<'_>]) -> String {
    record.iter().map(RecordValue::shown).filter(|shown| !shown.is_empty()).take(SHOWN_VALUES).collect::<Vec<String>>().join(", ")
}

fn holds(clause: &[Word], place: usize) -> bool {
    clause.first().is_some_and(|first| first.start <= place) && clause.last().is_some_and(|last| place < last.end)
}

/// The only bound of a text; `None` if it has none, or several.
fn only_bound(numbers: &[Number], dates: &Dates, lower: &str) -> Option<Bound> {
    let taken = |span: &Range<usize>| {
        let dates = dates.dates.iter().map(|date| &date.span).chain(dates.times.iter().map(|time| &time.span));
        dates.into_iter().any(|own| own.start < span.end && span.start < own.end)
    };
    let of_numbers = numbers.iter().filter(|number| !number.ordinal && !taken(&(number.span.start..number.end))).filter_map(|number| {
        let above = direction(lower, number.span.start, number.end)?;
        let lasts = number.unit.filter(|unit| unit.dimension == "time").zip(number.readings().next());
        let kind = match lasts {
            Some((unit, told)) => BoundKind::Duration(told.value * unit.factor),
            None => BoundKind::Number(number.clone()),
        };
        Some(Bound { span: number.span.start..number.end, kind, above })
    });
    // `over half an hour`
    static UNITS: PhraseList = PhraseList::new(&["hour", "minute", "stunde", "heure", "hora", "'ora", "uur"]);
    let spans = if UNITS.stands_in(lower) { &SPANS[..] } else { &[] };
    let of_words = spans.iter().filter_map(|(words, seconds)| {
        let start = lower.find(words)?;
        let end = start + words.len();
        let whole = !lower.get(end..)?.starts_with(char::is_alphabetic) && !lower.get(..start)?.ends_with(char::is_alphabetic);
        let above = direction(lower, start, end).filter(|_| whole)?;
        Some(Bound { span: start..end, kind: BoundKind::Duration(*seconds), above })
    });
    let of_words = of_words.take(1);
    let of_times = dates.times.iter().filter_map(|time| {
        let above = direction(lower, time.span.start, time.span.end)?;
        Some(Bound { span: time.span.clone(), kind: BoundKind::Time(f64::from(time.minutes)), above })
    });
    let of_dates = dates.dates.iter().filter_map(|date| {
        let above = direction(lower, date.span.start, date.span.end)?;
        let day = date.days().next()?;
        Some(Bound { span: date.span.clone(), kind: BoundKind::Date(day as f64 * DAY), above })
    });
    let mut all = of_numbers.chain(of_times).chain(of_dates).chain(of_words);
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    Some(one)
}

/// Spans of time in words, in any language, each with its seconds. The longer ones first.
const SPANS: [(&str, f64); 24] = [
    ("half an hour", 1800.0),
    ("a quarter of an hour", 900.0),
    ("an hour and a half", 5400.0),
    ("one hour", 3600.0),
    ("an hour", 3600.0),
    ("two hours", 7200.0),
    ("three hours", 10800.0),
    ("a minute", 60.0),
    ("one minute", 60.0),
    ("eine halbe stunde", 1800.0),
    ("einer halben stunde", 1800.0),
    ("eine stunde", 3600.0),
    ("einer stunde", 3600.0),
    ("zwei stunden", 7200.0),
    ("une demi-heure", 1800.0),
    ("une heure", 3600.0),
    ("deux heures", 7200.0),
    ("media hora", 1800.0),
    ("una hora", 3600.0),
    ("dos horas", 7200.0),
    ("mezz'ora", 1800.0),
    ("un'ora", 3600.0),
    ("meia hora", 1800.0),
    ("een uur", 3600.0),
];

/// Endings of the names of columns that tell how long something lasts, each with the word that it is there, and its seconds.
const LASTING: [(&str, &str, f64); 15] = [
    ("weeks", "weeks", 604_800.0),
    ("days", "days", 86_400.0),
    ("hours", "hours", 3600.0),
    ("hrs", "hrs", 3600.0),
    ("durationh", "h", 3600.0),
    ("minutes", "minutes", 60.0),
    ("mins", "mins", 60.0),
    ("min", "min", 60.0),
    ("seconds", "seconds", 1.0),
    ("secs", "secs", 1.0),
    ("durations", "s", 1.0),
    ("elapseds", "s", 1.0),
    ("tooks", "s", 1.0),
    ("millis", "millis", 0.001),
    ("ms", "ms", 0.001),
];

/// True if the name of a column has its unit as a word: `duration_s`, but not `rooms` with its `ms`.
fn names_unit(scene: &CheckContext<'_>, key: &str) -> bool {
    let unit = LASTING.iter().find(|(ending, ..)| key.ends_with(ending));
    unit.is_some_and(|(ending, word, _)| key == *ending || scene.sources.iter().any(|source| member_values::is_word_of_name(word, source)))
}

/// Seconds that a value lasts: `67` minutes, `7m02s`; `34:12` where a bound in minutes says what it is.
fn lasting(value: &RecordValue<'_>) -> Option<f64> {
    if let Some(number) = value.number {
        return LASTING.iter().find(|(ending, ..)| value.key.ends_with(ending)).map(|(.., seconds)| number * seconds);
    }
    let raw = value.raw.trim();
    let part = |text: &str| text.parse::<f64>().ok().filter(|_| text.len() <= 3);
    let clock: Vec<&str> = raw.split(':').collect();
    let race = value.key.contains("time") || value.key.contains("duration") || value.key.contains("length");
    match clock[..] {
        [hours, minutes, seconds] => Some(part(hours)? * 3600.0 + part(minutes)? * 60.0 + part(seconds)?),
        [minutes, seconds] if race && seconds.len() == 2 => Some(part(minutes)? * 60.0 + part(seconds)?),
        [text] => {
            let mut sum = 0.0;
            let mut digits = String::new();
            let mut units = 0;
            for c in text.chars().filter(|c| *c != ' ') {
                match c {
                    '0'..='9' => digits.push(c),
                    'h' | 'm' | 's' => {
                        let seconds = match c {
                            'h' => 3600.0,
                            'm' => 60.0,
                            _ => 1.0,
                        };
                        sum += part(&digits)? * seconds;
                        digits.clear();
                        units += 1;
                    }
                    _ => return None,
                }
            }
            (units > 0 && digits.is_empty()).then_some(sum)
        }
        _ => None,
    }
}

/// Words for what is past its date, in any language, folded.
static OVERDUE: WordList = WordList::new(&[
    "overdue",
    "late",
    "lapsed",
    "expired",
    "outdated",
    "uberfallig",
    "abgelaufen",
    "retard",
    "expire",
    "expires",
    "perime",
    "vencido",
    "vencida",
    "vencidos",
    "caducado",
    "caducada",
    "scaduto",
    "scaduta",
    "scaduti",
    "verlopen",
    "atrasado",
    "atrasada",
]);
/// Words of `past its due date`.
const PAST: [&str; 7] = ["past", "beyond", "its", "due", "date", "deadline", "expiry"];
/// Parts of the names of columns of such dates.
const DUE: [&str; 9] = ["due", "expir", "valid", "until", "notafter", "deadline", "fallig", "frist", "renew"];
/// Flags of what is over, whatever its date.
const OVER: [&str; 8] = ["done", "completed", "complete", "paid", "returned", "closed", "resolved", "finished"];

/// A record that is past its date on the day that the result or the user names, where a clause denies that any is.
fn overdue<'r, 's>(
    scene: &CheckContext<'_>,
    source: &ToolResult,
    records: &'r Records<'s>,
    clause: &[Word],
) -> Option<&'r [RecordValue<'s>]> {
    // `as_of`, `It's 1 June 2026`.
    let of_result: Vec<i64> = source
        .facts()
        .leaves
        .iter()
        .filter(|leaf| leaf.record == 0)
        .filter_map(|leaf| match &leaf.value {
            Scalar::Text(text) => dates(text).dates.first().and_then(|date| date.days().next()),
            _ => None,
        })
        .collect();
    let asked: Vec<i64> = dates(&scene.grounds.asked).dates.iter().flat_map(Date::days).collect();
    let today = match (asked.as_slice(), of_result.as_slice()) {
        ([day], _) | ([], [day]) => *day as f64 * DAY,
        _ => return None,
    };
    let dated = |value: &RecordValue<'_>| scale::moment(value).is_some_and(|moment| moment >= DAY) || end_of_month(value.raw).is_some();
    let columns = scale::columns(records, |value| dated(value) && DUE.iter().any(|part| value.key.contains(part)));
    let [column] = columns[..] else { return None };
    let place = |record: &[RecordValue<'_>]| {
        let month = record.iter().find(|value| value.key == column).and_then(|value| end_of_month(value.raw));
        month.or_else(|| scale::place(record, column))
    };
    // `Nothing prescription-only has expired`: a word that nothing decides narrows it.
    let told: Vec<Word> = clause.iter().filter(|word| !OVERDUE.has(&word.folded()) && !PAST.contains(&&*word.lower)).cloned().collect();
    let read = Reading { scene, source, records }.read(&told, &[], SelectionClaim::Absence);
    if read.is_some_and(|read| !read.open.is_empty()) {
        return None;
    }
    let over = |record: &[RecordValue<'_>]| {
        record.iter().any(|value| value.flag == Some(true) && OVER.contains(&value.key) || OVER.contains(&value.text.as_str()))
    };
    let chosen = scale::chosen(records, clause, column);
    scale::among(records, &chosen).find(|record| !over(record) && place(record).is_some_and(|due| due > 0.0 && due + DAY <= today))
}

/// The last day of a month, in minutes since the epoch: of `2026-08`, until which something is good.
fn end_of_month(raw: &str) -> Option<f64> {
    let (year, month) = raw.split_once('-').filter(|(year, month)| year.len() == 4 && month.len() == 2)?;
    let (year, month): (i32, u32) = (year.parse().ok()?, month.parse().ok()?);
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (1..=12).contains(&month).then(|| (days(next_year, next_month, 1) - 1) as f64 * DAY)
}

/// True if the words around a bound choose what is above it, false for what is below.
fn direction(lower: &str, start: usize, end: usize) -> Option<bool> {
    let words = comparatives();
    let before = lower.get(..start)?;
    let near = before.get(before.ceil_char_boundary(before.len().saturating_sub(NEAR_BYTES))..)?;
    // `above £30`, `above -5`
    let near = near.trim_end_matches(|c: char| c == ' ' || c == '-' || c == '−' || unit::is_currency_sign(c));
    let behind = lower.get(end..)?.trim_start();
    let stands = |list: &[String]| {
        list.iter().any(|word| near.strip_suffix(word.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with([' ', '('])))
    };
    let follows = |list: &[String]| list.iter().any(|word| behind.starts_with(word.as_str()));
    // `not more than`, `no later than`: the other side.
    let turned = near.contains("not ") || near.contains("nicht ");
    if turned {
        return None;
    }
    if stands(&words.above) || stands(&words.least) || follows(&words.or_above) {
        return Some(true);
    }
    (stands(&words.below) || stands(&words.most) || follows(&words.or_below)).then_some(false)
}

/// The columns that a bound may be of.
fn columns<'s>(scene: &CheckContext<'_>, records: &Records<'s>, bound: &Bound) -> Vec<&'s str> {
    let all = scale::columns(records, |value| match bound.kind {
        BoundKind::Number(_) => value.number.is_some() && scale::moment(value).is_none(),
        BoundKind::Time(_) => value.raw.contains(':') && scale::moment(value).is_some(),
        BoundKind::Duration(_) => lasting(value).is_some() && (value.number.is_none() || names_unit(scene, value.key)),
        BoundKind::Date(_) => scale::moment(value).is_some_and(|moment| moment >= DAY),
    });
    // A bound with a unit is of a column that has it.
    let all: Vec<&str> = match &bound.kind {
        BoundKind::Number(number) => all.into_iter().filter(|key| may_be_of_unit(key, number)).collect(),
        _ => all,
    };
    let named = scale::named_by(&all, scene.plain.words.iter().chain(scene.grounds.asked.words()));
    if !named.is_empty() {
        return named;
    }
    match &bound.kind {
        BoundKind::Number(number) => {
            let of_unit: Vec<&str> = all.iter().copied().filter(|key| is_of_unit(key, number)).collect();
            if of_unit.is_empty() { all } else { of_unit }
        }
        _ => all,
    }
}

/// May a column be of the unit of a number: not `girth_cm` of 2 m, nor a date of 30 days?
fn may_be_of_unit(key: &str, number: &Number) -> bool {
    const SHORT: [&str; 14] = ["km", "cm", "mm", "kg", "mg", "ml", "ms", "min", "minutes", "seconds", "hours", "days", "weeks", "litres"];
    if number.percent {
        return ["pct", "percent", "share", "humidity", "charge", "battery", "rate"].iter().any(|part| key.contains(part))
            || key.ends_with('%');
    }
    let Some(unit) = number.unit else { return true };
    let own = |part: &&str| unit::named(part).is_some_and(|other| other == unit);
    let in_key = SHORT.iter().find(|part| key.ends_with(**part));
    match in_key {
        Some(part) => own(part),
        None => !matches!(unit.dimension.as_str(), "time"),
    }
}

/// True of a column whose name ends or begins with the unit of a number, or one of its kind: `temp_c` of 30 °C.
fn is_of_unit(key: &str, number: &Number) -> bool {
    const PARTS: [(&str, &[&str]); 9] = [
        ("temperature", &["tempc", "temp", "celsius", "tempf"]),
        ("mass", &["kg", "grams", "weight"]),
        ("length", &["km", "cm", "mm", "metres", "meters", "distance"]),
        ("time", &["min", "minutes", "seconds", "hours", "days", "duration"]),
        ("volume", &["litres", "liters", "ml"]),
        ("euro", &["eur", "euro", "price", "cost", "fare", "fee", "amount", "total"]),
        ("dollar", &["usd", "dollar", "price", "cost", "fare", "fee", "amount", "total"]),
        ("sterling", &["gbp", "price", "cost", "fare", "fee", "amount", "total"]),
        ("franc", &["chf", "price", "cost", "fare", "fee", "amount", "total"]),
    ];
    if number.percent {
        return ["pct", "percent", "share", "humidity"].iter().any(|part| key.contains(part));
    }
    number.unit.is_some_and(|unit| {
        PARTS
            .iter()
            .find(|(dimension, _)| unit.dimension == *dimension)
            .is_some_and(|(_, parts)| parts.iter().any(|part| key.contains(part)))
    })
}

/// BoundSide of a bound on which a record lies.
enum BoundSide {
    Chosen,
    AtBound,
    Other,
}

fn side(record: &[RecordValue<'_>], column: &str, bound: &Bound) -> Option<BoundSide> {
    let own = record.iter().find(|value| value.key == column)?;
    let (value, limit) = match &bound.kind {
        BoundKind::Number(number) => (own.number?, number.readings().next()?.value),
        BoundKind::Time(minutes) => (scale::moment(own)?.rem_euclid(DAY), *minutes),
        BoundKind::Duration(seconds) => (lasting(own)?, *seconds),
        BoundKind::Date(minutes) => ((scale::moment(own)? / DAY).floor() * DAY, *minutes),
    };
    Some(if (value - limit).abs() < 1e-9 {
        BoundSide::AtBound
    } else if (value > limit) == bound.above {
        BoundSide::Chosen
    } else {
        BoundSide::Other
    })
}

#[cfg(test)]
mod tests {
    use super::{super::super::cited::find, *};

    const BAYS: &str = r#"{"as_of":"2026-03-18","bays":[{"bay":"B1","crop":"tomato","temp_c":31.4,"kg":0.8,"min_kg":1.5,"due":"2026-03-11","done":false},{"bay":"B2","crop":"basil","temp_c":26.1,"kg":3,"min_kg":1,"due":"2026-03-25","done":false},{"bay":"B3","crop":"basil","temp_c":22.7,"kg":2,"min_kg":1,"due":"2026-03-02","done":true}]}"#;

    #[test]
    fn what_a_bound_chooses() {
        let found = |asked: &str, text: &str| find(compared, asked, &[("read_bays", "{}", BAYS)], 0, text).map(|finding| finding.code);
        let (absent, counted) = (Some(Code::FalseAbsence), Some(Code::CountMismatch));
        for (asked, text, code) in [
            ("Any bay above 30 degrees?", "No bay is above 30 °C.", absent),
            ("Any bay above 30 °C?", "No, none of them.", absent),
            ("And below 25?", "None of the bays is below 25 °C.", absent),
            ("How many are above 25 °C?", "Three of the three are above 25 °C.", counted),
            ("Is anything overdue?", "Nothing is overdue.", absent),
            ("Do we have to reorder?", "No, none has fallen below its minimum.", absent),
            ("Any bay above 35 degrees?", "No bay is above 35 °C.", None),
            ("How many are above 25 °C?", "Two of the three are above 25 °C.", None),
            ("Any basil above 30 degrees?", "No basil is above 30 °C.", None),
            ("Any other bay above 30 degrees?", "No other bay is above 30 °C.", None),
            ("Is any basil overdue?", "No basil is overdue.", None),
            ("Any bay above 30 percent?", "No bay is above 30 %.", None),
            ("Is bay B2 above 30?", "No.", None),
        ] {
            assert_eq!(found(asked, text), code, "{asked} {text}");
        }
    }

    #[test]
    fn what_either_column_chooses() {
        let boats = r#"[{"out":"07:10","back":"08:05","state":"sails"},{"out":"19:20","back":"20:15","state":"STATE"}]"#;
        let parts = r#"[{"part":"bolt","qty":640,"min":200},{"part":"seal","qty":QTY,"min":150}]"#;
        let found = |result: String, text: &str| find(compared, "Is there one?", &[("list_them", "{}", &result)], 0, text).is_some();
        assert!(found(boats.replace("STATE", "sails"), "There is no boat after 18:00."));
        assert!(!found(boats.replace("STATE", "cancelled"), "There is no boat after 18:00."));
        // One sails before it and is back behind it.
        assert!(!found(boats.replace("STATE", "sails"), "There is no boat after 20:00."));
        assert!(found(parts.replace("QTY", "75"), "No part is below its minimum."));
        assert!(!found(parts.replace("QTY", "175"), "No part is below its minimum."));
    }

    #[test]
    fn spans_of_time_and_due_dates() {
        let runs = r#"{"as_of":"2026-09-10","runs":[{"id":"r1","duration_s":1260,"state":"ok","expiry":"2026-08"},{"id":"r2","duration_s":3600,"state":"ok","expiry":"2027-01"},{"id":"r3","duration_s":97,"state":"ok","expiry":"2026-12"}]}"#;
        let laps = r#"[{"lap":1,"time":"6:42"},{"lap":2,"time":"13:31"},{"lap":3,"time":"34:12"}]"#;
        let flats = r#"[{"flat":"A","rooms":3},{"flat":"B","rooms":2}]"#;
        let jobs = "job    took\nlint   0m41s\ntests  7m02s\n";
        let found = |result: &str, asked: &str, text: &str| find(compared, asked, &[("list_runs", "{}", result)], 0, text).is_some();
        for (result, asked, text) in [
            (runs, "Did one take over half an hour?", "No, none of the runs took more than half an hour."),
            (runs, "Did one take over 50 minutes?", "No, none of the runs took longer than 50 minutes."),
            (laps, "Was a lap under 10 minutes?", "No lap was under 10 minutes."),
            (jobs, "Did a job take more than five minutes?", "No job took more than 5 minutes."),
            (runs, "Anything past its expiry date?", "No run has expired."),
            (runs, "Anything past its expiry date?", "No run is past its expiry date."),
        ] {
            assert!(found(result, asked, text), "{text}");
        }
        for (result, asked, text) in [
            (runs, "Did one take over two hours?", "No, none of the runs took more than two hours."),
            (laps, "Was a lap under 5 minutes?", "No lap was under 5 minutes."),
            (jobs, "Did a job take more than ten minutes?", "No job took more than 10 minutes."),
            (flats, "Is one under an hour away?", "No flat is under an hour away."),
            (runs, "Anything nightly past its expiry date?", "No nightly-only run has expired."),
        ] {
            assert!(!found(result, asked, text), "{text}");
        }
    }

    #[test]
    fn how_long_a_value_lasts() {
        let value = |key: &'static str, raw: &'static str| RecordValue {
            key,
            text: String::new(),
            raw,
            number: raw.parse().ok(),
            flag: None,
            blank: false,
        };
        for (key, raw, seconds) in [
            ("minutes", "67", Some(4020.0)),
            ("durations", "3600", Some(3600.0)),
            ("took", "7m02s", Some(422.0)),
            ("took", "1h 05m", Some(3900.0)),
            ("time", "34:12", Some(2052.0)),
            ("dep", "08:40", None),
            ("qty", "67", None),
            ("name", "hms", None),
        ] {
            assert_eq!(lasting(&value(key, raw)), seconds, "{key} {raw}");
        }
        assert_eq!(end_of_month("2026-13"), None);
        assert_eq!(end_of_month("2026-12").map(|end| end / DAY), Some(days(2026, 12, 31) as f64));
    }
}
