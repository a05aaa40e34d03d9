//! Weekdays: beside a date that is another one, and of an act whose call has another day. Pure.

use std::collections::BTreeSet;

use crate::{
    context::{CheckContext, ClaimFinding},
    language::{
        date,
        lexicon::{self, Word},
        word_list::WordList,
    },
};
use toolmark_base::violation::{Certainty, Code};

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
pub(crate) fn weekday_of(word: &Word) -> Option<i64> {
    weekday_named(word.lower.trim_end_matches("'s").trim_end_matches("’s"))
}

/// The weekday of this name, in lower case, from Monday on.
pub(crate) fn weekday_named(name: &str) -> Option<i64> {
    DAYS.iter().find(|(known, _)| *known == name).map(|(_, day)| *day)
}

/// The weekday that the user named, told of an act whose call has the date of another one: `Thursday's dinner` of 2025-10-22, a Wednesday.
pub(super) fn weekday_of_call(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
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
pub(super) fn weekday(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        context::CitationScope,
        evidence::{EvidenceIndex, ToolResult},
        language::lexicon::{language, words},
        passage::Kind,
        plain::AnalyzedPassage,
    };

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
}
