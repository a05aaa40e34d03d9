//! What a passage says of its own figures: which is the most, what all come to, what equals what, when. Pure.
//!
//! Where a passage names a total, an average or an end of a scale, its value must be that of the cited records, not any number that
//! could be made of them.

use std::{borrow::Cow, cell::LazyCell, ops::Range, sync::OnceLock};

use serde::Deserialize;

use crate::{
    checks::account::{sentence, weekdays},
    context::{CheckContext, CitationScope, ClaimFinding, RowSums},
    evidence::{
        self, ToolResult, derive, reckon,
        rows::{Cell, Row},
    },
    language::{
        changes, cues,
        fold::{akin, behind_last, fold, name_words, stands_in, words_of},
        lexicon::{self, Word, WordSet},
        number::{Interpretation, Number, Precision},
        polarity::negation,
        word_list::{WordList, data_file},
    },
};
use toolmark_base::violation::{Certainty, Code};

/// Rows and columns that are added up.
const COLUMNS_MAX: usize = 12;
/// Rows of which each is added up.
const ROW_TOTALS_OF: usize = 60;
/// Words of the question and the passage by which rows may have been chosen.
const CHOICES_MAX: usize = 40;
/// Words of a value by whose words rows may have been chosen.
const CHOICE_WORDS_MAX: usize = 5;
/// Results of which one total may be said.
const SOURCES_MAX: usize = 4;

/// A family of superlatives.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Superlative {
    words: WordSet,
    /// It is the most of its column, not the least.
    most: bool,
    /// Parts of the names of the columns that it may speak of; none where any may be meant.
    columns: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Superlatives {
    superlative: Vec<Superlative>,
    /// Words by which only a part of the records is meant.
    chosen: WordSet,
    /// Words beside a number that is a total, in scripts without blanks.
    totals_inside: Vec<String>,
    /// The same of an average.
    averages_inside: Vec<String>,
    /// Words between two figures of which one is the other.
    equates: Vec<String>,
    /// Words by which something became more or less.
    changes: WordSet,
    /// Words by which a change is told as rounded.
    hedges: WordSet,
}

fn data() -> &'static Superlatives {
    static ALL: OnceLock<Superlatives> = OnceLock::new();
    ALL.get_or_init(|| data_file(include_str!("../language/lexicon/consistency.toml")))
}

/// The findings of a passage about its own figures.
pub fn consistency(scene: &CheckContext<'_>) -> Vec<ClaimFinding> {
    let mut found = Vec::new();
    found.extend(equated(scene));
    if scene.bond < CitationScope::Introduced || scene.text().contains(['?', '？']) || scene.endless {
        return found;
    }
    found.extend(extreme(scene));
    found.extend(aggregate(scene));
    found.extend(changed(scene));
    found.extend(denied_value(scene));
    found
}

fn finding(
    scene: &CheckContext<'_>,
    rule: &'static str,
    code: Code,
    span: Range<usize>,
    expected: String,
    certainty: Certainty,
) -> ClaimFinding {
    let found = scene.text().get(span.clone()).unwrap_or_default().to_owned();
    ClaimFinding { rule, code, span, found, expected, certainty }
}

/// Is only a part of the records meant, as far as the words of the question and the passage say?
fn is_chosen(scene: &CheckContext<'_>) -> bool {
    let chosen = |word: &str| data().chosen.contains(word);
    scene.plain.words.iter().any(|word| chosen(&word.lower)) || scene.grounds.asked.name_words().iter().any(|word| chosen(word))
}

/// `The cheapest is B at 37.90` where another costs less.
fn extreme(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let rows = &source.rows().rows;
    if source.fails() || rows.len() < 3 || is_chosen(scene) {
        return None;
    }
    let mut said = scene
        .plain
        .words
        .iter()
        .filter_map(|word| Some((word, data().superlative.iter().find(|known| known.words.contains(&word.lower))?)));
    let (Some((word, kind)), None) = (said.next(), said.next()) else { return None };
    // `12.50 more than the cheapest`: said of another one.
    let compared = |word: &Word| ["than", "als", "que", "che", "dan", "niż", "to", "with", "from"].contains(&word.lower.as_str());
    if scene.words_before(word.start).iter().rev().take(3).any(compared) {
        return None;
    }
    let before = scene.words_before(word.start).last().map_or("", |word| word.lower.as_str());
    if ["second", "third", "next", "zweit", "two", "three", "zwei", "drei", "deux", "dos", "due", "among", "one"].contains(&before) {
        return None;
    }
    // The number that is told of it, or the record that is named.
    let column = column_of(rows, &kind.columns)?;
    let value = |row: &Row| row.cells.iter().find(|cell| cell.column == column).and_then(|cell| cell.number);
    let values: Vec<f64> = rows.iter().filter_map(value).collect();
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    let best = if kind.most { most } else { least };
    if values.len() < 3 || least >= most {
        return None;
    }
    let folded = scene.plain.folded();
    let named: Vec<&Row> = rows.iter().filter(|row| names(row, rows, folded, scene.text())).collect();
    let own = match named.as_slice() {
        [one] => value(one)?,
        [] => {
            let mut told =
                scene.plain.numbers().iter().filter(|number| !number.ordinal && !scene.plain.is_taken(&(number.span.start..number.end)));
            let of_column = |number: &&Number| values.iter().find(|value| evidence::fits(number, Precision::Exact, &[value.abs()]));
            let value = told.find_map(|number| of_column(&number))?;
            let others = scene.plain.numbers().iter().filter(|number| of_column(number).is_some()).count();
            if others != 1 {
                return None;
            }
            *value
        }
        _ => return None,
    };
    ((own - best).abs() > 1e-9)
        .then(|| finding(scene, "superlative", Code::ClaimMismatch, word.start..word.end, format!("{column}: {best}"), Certainty::Likely))
}

/// The column of numbers that a superlative speaks of: the one with such a name, or the only one.
fn column_of<'r>(rows: &'r [Row], parts: &[String]) -> Option<&'r str> {
    let mut columns: Vec<&str> = Vec::new();
    for cell in rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.number.is_some() && !cell.column.is_empty()) {
        if !columns.contains(&cell.column.as_str()) && columns.len() < COLUMNS_MAX {
            columns.push(&cell.column);
        }
    }
    let ids = |column: &&&str| !matches!(**column, "id" | "number" | "no" | "nr" | "page" | "place" | "rank" | "year");
    let mut fitting = columns.iter().filter(|column| parts.iter().any(|part| column.contains(part.as_str())));
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Some(one),
        (None, _) if parts.is_empty() => {
            let mut all = columns.iter().filter(ids);
            let (Some(one), None) = (all.next(), all.next()) else { return None };
            Some(one)
        }
        _ => None,
    }
}

/// Does a text name this row by a value that no other row has?
fn names(row: &Row, rows: &[Row], folded: &str, text: &str) -> bool {
    row.cells.iter().filter(|cell| cell.number.is_none() && cell.folded.chars().count() >= 3).any(|cell| {
        let told = stands_in(folded, &cell.folded) || !cell.raw.is_ascii() && text.contains(&cell.raw);
        told && rows.iter().filter(|other| other.cells.iter().any(|own| own.folded == cell.folded)).count() == 1
    })
}

/// Role of a number by the words around it: in scripts without blanks, by what stands right before it.
fn is_total(scene: &CheckContext<'_>, number: &Number) -> bool {
    cues::role(scene.plain, number) == cues::Role::Total || stands_before(scene, number, &data().totals_inside)
}

fn is_average(scene: &CheckContext<'_>, number: &Number) -> bool {
    cues::is_average(scene.plain, number) || !number.percent && stands_before(scene, number, &data().averages_inside)
}

fn stands_before(scene: &CheckContext<'_>, number: &Number, parts: &[String]) -> bool {
    let before = scene.text().get(..number.span.start).unwrap_or_default();
    let near = before.get(before.ceil_char_boundary(before.len().saturating_sub(24))..).unwrap_or_default();
    let near = near.rsplit([',', '、', '，', '。', ';', '；']).next().unwrap_or(near);
    parts.iter().any(|part| near.contains(part.as_str()))
}

/// A total or an average that is none of the cited records.
fn aggregate(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    if scene.sources.len() > SOURCES_MAX || scene.sources.iter().any(|source| source.fails() || source.is_partial()) {
        return None;
    }
    let rows: Vec<&Row> = scene.sources.iter().flat_map(|source| &source.rows().rows).collect();
    let of_object = |source: &&ToolResult| derive::objects_of_numbers(source.facts()).next().is_some();
    let objects = || scene.sources.iter().all(of_object);
    if (rows.len() < 2 || scene.sources.iter().any(|source| source.rows().rows.is_empty())) && !objects() {
        return None;
    }
    scene.plain.numbers().iter().find_map(|number| {
        let span = number.span.start..number.end;
        let telling = !is_compound(scene, number) && number.whole().is_none_or(|whole| whole > 10);
        if number.ordinal || !telling || scene.plain.is_taken(&span) {
            return None;
        }
        let total = !number.percent && is_total(scene, number);
        if !total && !is_average(scene, number) {
            return None;
        }
        let precision = Precision::Exact;
        let stands = scene.sources.iter().any(|source| evidence::fits(number, precision, &own_numbers(source)))
            || number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value) || scene.told.contains(&reading.value));
        if stands {
            return None;
        }
        let sums = sums_of(scene);
        if sums.columns.is_empty() {
            return None;
        }
        let others = others(scene, number);
        // Who brought no figures is told what the records come to, and no more than that.
        let plain = reckon::is_plain_report(scene) && !shows_steps(scene);
        // So much a day, where it says so.
        let days = if reckon::says_daily(scene) { &reckon::DAYS[..] } else { &[] };
        let made = match (total, plain) {
            (true, true) => sums.plain_totals(&others),
            (true, false) => sums.totals(&others),
            (false, true) => sums.averages_of(&others, days).0,
            (false, false) => sums.averages(&others, days),
        };
        let hedged = scene.is_hedged(&span);
        let is = |value: &f64| {
            let precision = if hedged { Precision::Approximate } else { Precision::Exact };
            if plain { is_in_plain_units(number, precision, value.abs()) } else { evidence::fits(number, precision, &[value.abs()]) }
        };
        // What somebody's own figures make is reckoned in as many steps as it takes.
        let reckoned = || number.readings().any(|shown| scene.known.get().is_some_and(|known| known.contains(&shown.value)));
        let means = || sums.averages_of(&[], &[]).0;
        let rate = || !total && is_rate_of_result(scene, number, sums);
        if made.iter().any(is)
            || total && means().iter().any(is)
            || rate()
            || !plain && reckoned()
            || !total && is_rate_of_row(scene, number)
            || total && sums.columns.iter().any(|column| is_some_sum(column, number))
        {
            return None;
        }
        let expected = made.first().map(|value| format!("{value}")).unwrap_or_default();
        Some(finding(scene, if total { "total" } else { "average" }, Code::UngroundedValue, span, expected, Certainty::Likely))
    })
}

/// The numbers of a result, without signs, sorted: those of its records where it has any, since of a table's line each part may be read as one.
fn own_numbers(source: &ToolResult) -> Cow<'_, [f64]> {
    let rows = source.rows();
    if rows.rows.is_empty() {
        return Cow::Borrowed(&source.facts().numbers);
    }
    let cells = rows.rows.iter().flat_map(|row| &row.numbers).chain(&rows.free.numbers);
    let mut found: Vec<f64> = cells.copied().collect();
    found.sort_by(f64::total_cmp);
    Cow::Owned(found)
}

/// `from 1.840 s to 1.472 s, 40 % less`: a change that the two figures beside it don't make.
fn changed(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    if scene.bond != CitationScope::Cited
        || !scene.plain.words.iter().any(|word| data().changes.contains(&word.lower))
            && !scene.plain.text.contains(['增', '减', '涨', '跌', '降', '升', '減'])
    {
        return None;
    }
    let standing = |number: &&Number| {
        let plain = !number.ordinal && !number.percent && !scene.plain.is_taken(&(number.span.start..number.end));
        plain && scene.sources.iter().any(|source| evidence::fits(number, Precision::Exact, &source.facts().numbers))
    };
    let mut told = scene.plain.numbers().iter().filter(standing);
    let (Some(one), Some(other), None) = (told.next(), told.next(), told.next()) else { return None };
    let (one_value, other_value) = (one.readings().next()?.value, other.readings().next()?.value);
    if one.unit.is_none() || one.unit != other.unit || one_value == 0.0 || other_value == 0.0 {
        return None;
    }
    let percents = scene.plain.numbers().iter().filter(|number| number.percent && !number.ordinal);
    let mut shares =
        percents.filter(|number| !scene.sources.iter().any(|source| scene.grounds.has_plain_number(number, Precision::Exact, source)));
    let (Some(share), None) = (shares.next(), shares.next()) else { return None };
    let hedged = scene.is_hedged(&(share.span.start..share.end))
        || scene.words_before(share.span.start).iter().rev().take(2).any(|word| data().hedges.contains(&word.lower));
    let (least, most) = (one_value.min(other_value), one_value.max(other_value));
    let apart = (most - least) * 100.0;
    // `from 620 to 465, a drop of 25 %`: of what it was.
    let made = match changes::is_from_to(scene.text(), one, other) {
        true => vec![apart / one_value, other_value / one_value * 100.0],
        false => vec![most / least * 100.0, least / most * 100.0, apart / least, apart / most],
    };
    let slack = if hedged { 0.1 } else { 0.02 };
    let is = |value: &f64| {
        share
            .readings()
            .any(|shown| shown.rounds(*value) || shown.nears(*value, slack) || (shown.value - value).abs() <= 0.6 * shown.step.max(1.0))
    };
    // `12,288 MiB, which is 37.5 % of it`: of a number that the passage doesn't tell.
    let of_results = || {
        let bases = || scene.sources.iter().flat_map(|source| source.facts().numbers.iter()).take(SHARE_BASES_MAX);
        let told =
            scene.plain.numbers().iter().filter(|number| !number.percent && !number.ordinal).filter_map(|number| number.readings().next());
        told.flat_map(|told| bases().map(move |base| told.value / base * 100.0)).any(|value| is(&value))
    };
    if made.iter().any(is) || cues::is_average(scene.plain, share) || of_results() {
        return None;
    }
    let expected = format!("{:.1} or {:.1} %", (most - least) / least * 100.0, (most - least) / most * 100.0);
    Some(finding(scene, "changed", Code::UngroundedValue, share.span.start..share.end, expected, Certainty::Likely))
}

/// Numbers of the results of which a share may be told.
const SHARE_BASES_MAX: usize = 64;

/// Is it a part of a figure of two numbers: `3 hours and 40 minutes`?
fn is_compound(scene: &CheckContext<'_>, number: &Number) -> bool {
    let of_time = |number: &Number| number.unit.is_some_and(|unit| unit.dimension == "time");
    let beside = |other: &Number| {
        let (from, to) = if other.end <= number.span.start { (other.end, number.span.start) } else { (number.end, other.span.start) };
        other.span != number.span && of_time(other) && to.saturating_sub(from) <= COMPOUND_GAP
    };
    of_time(number) && scene.plain.numbers().iter().any(beside)
}

/// Bytes between the hours and the minutes of one figure.
const COMPOUND_GAP: usize = 7;

/// Does the passage show the steps of what it reckons, or tell so much for each, in a year?
fn shows_steps(scene: &CheckContext<'_>) -> bool {
    static STEPS: WordList = WordList::new(&[
        "per",
        "year",
        "yearly",
        "annual",
        "annually",
        "month",
        "monthly",
        "week",
        "weekly",
        "times",
        "pro",
        "je",
        "jahr",
        "jährlich",
        "monat",
        "woche",
        "par",
        "an",
        "mois",
        "semaine",
        "por",
        "año",
        "mes",
        "semana",
        "ogni",
        "anno",
        "mese",
        "settimana",
        "ano",
        "mês",
        "jaar",
        "maand",
        "rok",
        "miesiąc",
        "yıl",
        "ay",
    ]);
    scene.text().contains(['=', '×', '÷', '+', '*', '/']) || scene.plain.words.iter().any(|word| STEPS.has(&word.lower))
}

/// Is it this value, in the unit of the records or in one that is a thousand, a hundred, 60 or 3600 times as much or as little?
fn is_in_plain_units(number: &Number, precision: Precision, value: f64) -> bool {
    const SCALES: [f64; 9] = [1.0, 1000.0, 0.001, 100.0, 0.01, 60.0, 1.0 / 60.0, 3600.0, 1.0 / 3600.0];
    number.readings().any(|shown| {
        SCALES.iter().any(|scale| shown.rounds(value * scale) || precision.is_approximate() && shown.nears(value * scale, 0.06))
    })
}

/// Does a number follow from the rows: a sum or an average of a column, over all rows or over those that a value or a word chooses, or the
/// sum of some of its values, where few sums lie so near that it could be chance?
pub fn follows_from_rows(scene: &CheckContext<'_>, number: &Number, precision: Precision) -> bool {
    if number.percent || scene.sources.iter().take(SOURCES_MAX).map(|source| source.rows().rows.len()).sum::<usize>() < 2 {
        return false;
    }
    let sums = sums_of(scene);
    evidence::fits(number, precision, &sums.plain)
        || sums.columns.iter().any(|column| is_some_sum(column, number))
        || is_rate_of_row(scene, number)
}

/// Rows, and figures of each, of which rates are found.
const RATE_ROWS_MAX: usize = 24;
const RATE_FIGURES_MAX: usize = 6;

/// Is it a figure of a row for one of another figure of it: the price of a litre, of what was paid for so many? Only with decimals: small
/// whole numbers would fit by chance.
fn is_rate_of_row(scene: &CheckContext<'_>, number: &Number) -> bool {
    let decimals = number.readings().next().is_some_and(|reading| reading.step < 1.0) && !number.percent;
    let is = |made: f64| number.readings().any(|shown| shown.rounds(made));
    decimals
        && scene.sources.iter().take(SOURCES_MAX).flat_map(|source| source.rows().rows.iter().take(RATE_ROWS_MAX)).any(|row| {
            let figures: Vec<f64> = row.numbers.iter().copied().filter(|figure| *figure > 0.0).take(RATE_FIGURES_MAX).collect();
            figures
                .iter()
                .any(|one| figures.iter().any(|other| one != other && [1.0, 100.0, 1000.0].iter().any(|unit| is(one / other * unit))))
        })
}

/// Is it one of the result's own figures for one of another: the average gift, of what all came to and how many there were?
fn is_rate_of_result(scene: &CheckContext<'_>, number: &Number, sums: &RowSums) -> bool {
    let is = |made: f64| number.readings().any(|shown| shown.rounds(made));
    let own = scene.sources.iter().take(SOURCES_MAX).flat_map(|source| {
        let leaves = source.facts().leaves.iter().filter(|leaf| leaf.record == 0 && leaf.object <= 1);
        leaves.filter_map(|leaf| leaf.value.number()).chain(source.rows().free.numbers.iter().copied()).take(RATE_OF_MAX)
    });
    let own: Vec<f64> = own.filter(|value| *value > 0.0).collect();
    let totals: Vec<f64> =
        sums.columns.iter().take(COLUMNS_MAX).map(|column| column.iter().sum::<f64>()).filter(|sum| *sum > 0.0).collect();
    own.iter()
        .any(|one| own.iter().any(|other| one != other && is(one / other)) || totals.iter().any(|total| is(one / total) || is(total / one)))
}

/// Figures of a result of which rates are found.
const RATE_OF_MAX: usize = 12;

/// Numbers of a record that are added up in a row.
const RECORD_MAX: usize = 12;

/// Does a number follow from the one record that the passage names, or that is named right before it: a sum of some of its figures that
/// stand side by side, or the share of one of its figures that such a sum is?
pub fn follows_from_record(scene: &CheckContext<'_>, number: &Number) -> bool {
    let folded = scene.plain.folded();
    // `socks 203, hats 91`: of several, that between the number before and this one.
    let part = || {
        let from = scene.plain.numbers().iter().rfind(|other| other.end <= number.span.start).map_or(0, |other| other.end);
        scene.text().get(from..number.span.start).unwrap_or_default()
    };
    let named = |source: &ToolResult| -> Option<Vec<f64>> {
        let rows = &source.rows().rows;
        let mut own = rows.iter().filter(|row| names(row, rows, folded, scene.text()));
        let row = match (own.next(), own.next()) {
            (Some(row), None) => row,
            (Some(_), Some(_)) => {
                let part = part();
                let folded = fold(part);
                let mut own = rows.iter().filter(|row| names(row, rows, &folded, part));
                own.next().filter(|_| own.next().is_none())?
            }
            _ => return None,
        };
        Some(row.cells.iter().filter_map(|cell| cell.number).take(RECORD_MAX).collect())
    };
    let is = |value: f64| number.readings().any(|shown| shown.rounds(value.abs()));
    let telling = number.percent || number.whole().is_none_or(|whole| whole > 20);
    telling
        && scene.sources.iter().take(SOURCES_MAX).filter_map(|source| named(source)).any(|figures| {
            (0..figures.len()).any(|from| {
                let mut sum = 0.0;
                figures.iter().skip(from).any(|figure| {
                    sum += figure;
                    let share = |other: &f64| *other != 0.0 && (is(sum / other * 100.0) || is((other - sum) / other * 100.0));
                    is(sum) || number.percent && figures.iter().any(share) || figures.iter().any(|other| is(sum - other))
                })
            })
        })
}

/// Figures of a result that is one record, and the least difference that is looked for.
const APART_OF: usize = 8;
const APART_FROM: f64 = 100.0;
/// Figures side by side that are added up, at least.
const NEIGHBOURS_MIN: usize = 3;

/// True of the difference of two figures of a result that is one record: so many kilometres until the next service. Small ones would fit by
/// chance.
pub fn lies_between_figures(scene: &CheckContext<'_>, number: &Number) -> bool {
    let large = number.readings().any(|reading| reading.value >= APART_FROM) && !number.percent;
    let apart = |figures: Vec<f64>| {
        figures.iter().any(|one| figures.iter().any(|other| number.readings().any(|shown| one > other && shown.rounds(one - other))))
    };
    large && few_figures(scene).any(apart)
}

/// True of what some figures side by side of a result that is one record come to: the day's, the evening's and the night's of a meter.
pub fn is_sum_of_neighbours(scene: &CheckContext<'_>, number: &Number) -> bool {
    let large = number.readings().any(|reading| reading.value >= APART_FROM) && !number.percent;
    let made = |figures: Vec<f64>| {
        let mut runs = (NEIGHBOURS_MIN..=figures.len()).flat_map(|length| figures.windows(length));
        runs.any(|run| number.readings().any(|shown| shown.rounds(run.iter().sum())))
    };
    large && few_figures(scene).any(made)
}

/// The figures of each result that has few: those of one record.
fn few_figures(scene: &CheckContext<'_>) -> impl Iterator<Item = Vec<f64>> {
    let of = |source: &&ToolResult| source.facts().leaves.iter().filter_map(|leaf| leaf.value.number()).take(APART_OF + 1).collect();
    scene.sources.iter().take(SOURCES_MAX).map(of).filter(|figures: &Vec<f64>| figures.len() <= APART_OF)
}

/// True of a step of a column, from one value to the next: of what a meter has counted in a month.
pub fn is_step_of_column(scene: &CheckContext<'_>, number: &Number) -> bool {
    let steps = |column: &Vec<f64>| {
        column.windows(2).any(|two| matches!(two, [one, other] if number.readings().any(|shown| shown.rounds(other - one))))
    };
    number.whole().is_none_or(|whole| whole > 20) && !number.percent && {
        let sums = sums_of(scene);
        sums.columns.iter().take(COLUMNS_MAX).any(steps)
    }
}

/// Bytes between two numbers of which the second is said to equal a third.
const EQUATED_BYTES: usize = 80;
/// Values of a column of which some are added up.
const SUBSET_MAX: usize = 12;

fn is_some_sum(column: &[f64], number: &Number) -> bool {
    let Some(reading) = number.readings().next().filter(|_| (2..=SUBSET_MAX).contains(&column.len())) else { return false };
    let whole: f64 = column.iter().map(|value| value.abs()).sum();
    let count = 1_u32 << column.len();
    // The share of all numbers that some sum would fit by chance.
    if whole <= 0.0 || f64::from(count) * reading.step / whole > 0.05 {
        return false;
    }
    derive::sums_of_some(column).any(|(_, sum)| reading.rounds(sum))
}

/// The other numbers of the passage and the answer so far.
fn others(scene: &CheckContext<'_>, number: &Number) -> Vec<f64> {
    let own = scene.plain.numbers().iter().filter(|other| other.span != number.span && !other.ordinal);
    let words = scene.plain.words.iter().filter_map(|word| scene.lexicon.numbers.get(&*word.lower)).map(|count| *count as f64);
    let asked = scene.grounds.asked.numbers();
    let mut found: Vec<f64> = own.chain(asked).flat_map(Number::readings).map(|reading| reading.value).chain(words).collect();
    found.extend(scene.told.iter().rev().take(8));
    found.truncate(24);
    found
}

/// The sums of a passage's sources, made once for all its numbers.
fn sums_of<'c>(scene: &'c CheckContext<'_>) -> &'c RowSums {
    scene.sums.get_or_init(|| {
        let rows: Vec<&Row> = scene.sources.iter().take(SOURCES_MAX).flat_map(|source| &source.rows().rows).collect();
        RowSums::new(scene, &rows)
    })
}

/// Parts of a result's rows, each once: of every row, whether it is in it.
struct RowParts(Vec<Vec<bool>>);

impl RowParts {
    /// All of so many rows.
    fn new(rows: usize) -> Self {
        Self(vec![vec![true; rows]])
    }

    /// Adds a part that has any row.
    fn add(&mut self, part: impl Iterator<Item = bool>) {
        let part: Vec<bool> = part.collect();
        if part.contains(&true) && !self.0.contains(&part) {
            self.0.push(part);
        }
    }

    /// Adds a part, and the rows outside it.
    fn split(&mut self, part: impl Iterator<Item = bool> + Clone) {
        self.add(part.clone());
        self.add(part.map(|inside| !inside));
    }
}

impl RowSums {
    fn new(scene: &CheckContext<'_>, rows: &[&Row]) -> Self {
        let choices: Vec<String> = name_words(scene.text())
            .into_iter()
            .chain(scene.grounds.asked.name_words().iter().cloned())
            .filter(|word| word.chars().count() > 2)
            .take(CHOICES_MAX)
            .collect();
        let mut parts = RowParts::new(rows.len());
        // By each value of a column, with it and without it.
        let mut kinds: Vec<(&str, &str)> = rows
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|cell| cell.number.is_none() && !cell.folded.is_empty())
            .map(|cell| (cell.column.as_str(), cell.folded.as_str()))
            .collect();
        kinds.sort_unstable();
        // What one row alone has chooses nothing, unless somebody names it.
        let told = scene.plain.folded();
        let chosen = |kind: &str| stands_in(told, kind) || stands_in(scene.grounds.asked.folded(), kind);
        let kinds: Vec<(&str, &str)> =
            kinds.chunk_by(|one, other| one == other).filter(|same| same.len() > 1 || chosen(same[0].1)).map(|same| same[0]).collect();
        for (column, kind) in kinds.into_iter().take(CHOICES_MAX) {
            let has = |row: &&Row| row.cells.iter().any(|cell| cell.column == column && cell.folded == kind);
            parts.split(rows.iter().map(has));
        }
        // Those that the passage names, together: `Marta and Ivan: 17.5 hours in total`.
        let named = |row: &&Row| {
            row.cells.iter().any(|cell| cell.number.is_none() && cell.folded.chars().count() > 2 && stands_in(told, &cell.folded))
        };
        parts.add(rows.iter().map(named));
        // A sentence that a record holds chooses none by its words.
        let short = |cell: &&Cell| cell.folded.split(' ').count() <= CHOICE_WORDS_MAX;
        let words: Vec<Vec<&str>> =
            rows.iter().map(|row| row.cells.iter().filter(short).flat_map(|cell| words_of(&cell.folded)).collect()).collect();
        for word in &choices {
            parts.split(words.iter().map(|words| words.iter().any(|own| akin(own, word))));
        }
        let mut names: Vec<&str> =
            rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.number.is_some()).map(|cell| cell.column.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(COLUMNS_MAX);
        let value = |row: &&Row, name: &str| row.cells.iter().find(|cell| cell.column == name).and_then(|cell| cell.number);
        let figures: Vec<Vec<Option<f64>>> = names.iter().map(|name| rows.iter().map(|row| value(row, name)).collect()).collect();
        let (mut columns, mut products) = (Vec::new(), Vec::new());
        for part in &parts.0 {
            let of = |figures: &'_ [Option<f64>]| -> Vec<Option<f64>> {
                figures.iter().zip(part).filter(|(_, own)| **own).map(|(figure, _)| *figure).collect()
            };
            let figures: Vec<Vec<Option<f64>>> = figures.iter().map(|figures| of(figures)).collect();
            for figures in &figures {
                let column: Vec<f64> = figures.iter().copied().flatten().collect();
                if !column.is_empty() && !columns.contains(&column) {
                    columns.push(column);
                }
            }
            for (at, one) in figures.iter().enumerate() {
                for other in figures.iter().skip(at + 1) {
                    let pairs = || one.iter().zip(other).filter_map(|(one, other)| one.zip(*other));
                    products.push(pairs().map(|(one, other)| one * other).sum());
                    products.push(pairs().map(|(one, other)| one + other).sum());
                }
            }
        }
        // Numbers of one thing each: `{"T1": 1.8, "T2": 2.4, "T3": 2.2}`.
        columns
            .extend(scene.sources.iter().take(SOURCES_MAX).flat_map(|source| derive::objects_of_numbers(source.facts()).take(COLUMNS_MAX)));
        let of_columns = columns.iter().flat_map(|column: &Vec<f64>| {
            let sum: f64 = column.iter().sum();
            let (least, most) = column.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
            [sum, sum / column.len() as f64, most - least]
        });
        // `4500, 4700 and 4600` of one row: its quarter.
        let of_rows = rows.iter().take(ROW_TOTALS_OF).filter_map(|row| {
            let figures: Vec<f64> = row.cells.iter().filter_map(|cell| cell.number).take(RECORD_MAX).collect();
            (figures.len() > 1).then(|| figures.iter().sum::<f64>())
        });
        let of_rows: Vec<f64> = of_rows.collect();
        let mut plain: Vec<f64> = of_columns.chain(products.iter().copied()).chain(of_rows).map(f64::abs).collect();
        plain.sort_by(f64::total_cmp);
        Self { columns, products, plain }
    }

    /// Sums of the columns, of what in them is more and what is less than nothing, and of products.
    fn column_totals(&self) -> Vec<f64> {
        let mut found: Vec<f64> = self.columns.iter().map(|column| column.iter().sum()).collect();
        found.extend(&self.products);
        found.extend(self.columns.iter().map(|column| column.iter().filter(|value| **value > 0.0).sum::<f64>()));
        found.extend(self.columns.iter().map(|column| column.iter().filter(|value| **value < 0.0).sum::<f64>()));
        found
    }

    fn totals(&self, others: &[f64]) -> Vec<f64> {
        let bases = self.column_totals();
        let mut found = bases.clone();
        found.extend(made(&bases, others));
        found.push(others.iter().sum());
        // Sums of what the passage lists.
        found.extend(sums_in_a_row(others).map(|(_, sum)| sum));
        found.extend(made(others, others));
        found
    }

    /// Totals that take no more than the records and one figure of the passage.
    fn plain_totals(&self, others: &[f64]) -> Vec<f64> {
        let bases = self.column_totals();
        let mut found = bases.clone();
        let with = bases
            .iter()
            .take(120)
            .flat_map(|base| others.iter().take(16).flat_map(move |other| [base + other, base - other, base * other]));
        found.extend(with);
        found.extend(sums_in_a_row(others).map(|(_, sum)| sum));
        let few = || others.iter().take(12).enumerate();
        let threes = few().flat_map(|(at, one)| {
            few().skip(at + 1).flat_map(move |(next, two)| others.iter().take(12).skip(next + 1).map(move |three| one + two + three))
        });
        found.extend(threes.collect::<Vec<f64>>());
        let pairs = others.iter().take(16).enumerate().flat_map(|(at, one)| {
            others.iter().take(16).skip(at + 1).flat_map(move |other| [one + other, (one - other).abs(), one * other])
        });
        found.extend(pairs);
        found
    }

    fn averages(&self, others: &[f64], days: &[f64]) -> Vec<f64> {
        let (mut found, sums) = self.averages_of(others, days);
        let bases = found.clone();
        found.extend(made(&sums, others));
        found.extend(made(&bases, others));
        found.extend(made(others, others));
        found
    }

    /// Averages of the records and of figures of the passage; and the sums of the columns.
    fn averages_of(&self, others: &[f64], days: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let sums: Vec<f64> = self.columns.iter().map(|column| column.iter().sum()).collect();
        let mut found: Vec<f64> = self.columns.iter().zip(&sums).map(|(column, sum)| sum / column.len() as f64).collect();
        // Over the months in which there was something.
        found.extend(
            self.columns.iter().zip(&sums).map(|(column, sum)| sum / column.iter().filter(|value| **value != 0.0).count().max(1) as f64),
        );
        // How far a value lies from the average.
        let means: Vec<f64> = found.iter().copied().take(self.columns.len()).collect();
        found.extend(
            self.columns.iter().zip(means).flat_map(|(column, mean)| column.iter().take(60).map(move |value| (value - mean).abs())),
        );
        for column in &self.columns {
            let mut sorted = column.clone();
            sorted.sort_by(f64::total_cmp);
            let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
            found.push(if sorted.len() % 2 == 1 {
                at(sorted.len() / 2)
            } else {
                (at(sorted.len() / 2) + at((sorted.len() / 2).saturating_sub(1))) / 2.0
            });
        }
        for one in &sums {
            // So much a day, in the unit of the column or in a thousandth of it.
            found.extend(days.iter().flat_map(|days| [one / days, one * 1000.0 / days]));
            found.extend(sums.iter().filter(|other| **other != 0.0).map(|other| one / other));
            // Weighted by another column.
            found.extend(self.products.iter().filter(|_| *one != 0.0).map(|product| product / one));
        }
        found.extend(sums_in_a_row(others).map(|(count, sum)| sum / count as f64));
        (found, sums)
    }
}

/// The sums of numbers that follow one another, each with how many they are: a dozen at most, from one of the first dozen on.
fn sums_in_a_row(numbers: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    (0..numbers.len().min(12)).flat_map(move |from| {
        let sums = numbers.iter().skip(from).take(12).scan(0.0, |sum, number| {
            *sum += number;
            Some(*sum)
        });
        (1..).zip(sums)
    })
}

/// What a base and a number of the passage make in one step.
fn made(bases: &[f64], others: &[f64]) -> Vec<f64> {
    let mut found = Vec::new();
    for base in bases.iter().take(120) {
        for other in others.iter().take(16) {
            found.extend([base + other, base - other, base * other]);
            if *other != 0.0 {
                found.push(base / other);
            }
            if (0.0..100.0).contains(other) {
                found.extend([base * (1.0 + other / 100.0), base * (1.0 - other / 100.0), base * other / 100.0]);
            }
        }
        found.extend([
            base * 12.0,
            base / 12.0,
            base * 7.0,
            base / 7.0,
            base / 60.0,
            base * 60.0,
            base / 100.0,
            base * 52.0,
            base * 30.0,
            base / 1000.0,
        ]);
    }
    found
}

/// A quantity: one number with its unit, or hours with minutes.
struct Quantity {
    start: usize,
    end: usize,
    dimension: &'static str,
    /// In the base unit.
    value: f64,
    /// In the base unit, one unit of its last digit.
    step: f64,
}

/// `165 minutes, which is 3 hours and 15 minutes`
fn equated(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let mut all: Vec<Quantity> = Vec::new();
    for number in scene.plain.numbers().iter().filter(|number| !number.ordinal && !number.percent) {
        let Some(unit) = number.unit else { continue };
        // `1,920` in English has thousands.
        let grouped =
            is_english(scene) && scene.text().get(number.span.clone()).is_some_and(|text| text.contains(',') && !text.contains('.'));
        let reading = match (number.readings().next(), number.readings().nth(1)) {
            (Some(reading), None) => reading,
            (Some(one), Some(other)) if grouped => {
                if one.value > other.value {
                    one
                } else {
                    other
                }
            }
            _ => continue,
        };
        let Interpretation { value, step } = reading;
        let scaled = |value: f64| value * unit.factor + unit.offset;
        let joins = all.last().is_some_and(|last| {
            let gap = scene.text().get(last.end..number.span.start).unwrap_or("?").trim().to_lowercase();
            last.dimension == "time"
                && unit.dimension == "time"
                && last.step > unit.factor * 1.5
                && (gap.is_empty() || cues::CONJUNCTIONS.has(&gap))
        });
        match all.last_mut().filter(|_| joins) {
            Some(last) => {
                last.end = number.end;
                last.value += value * unit.factor;
                last.step = step * unit.factor;
            }
            None => all.push(Quantity {
                start: number.span.start,
                end: number.end,
                dimension: &unit.dimension,
                value: scaled(value),
                step: step * unit.factor,
            }),
        }
    }
    all.windows(2).find_map(|pair| {
        let [one, other] = pair else { return None };
        let gap = scene.text().get(one.end..other.start)?.to_lowercase();
        let gap = gap.trim().trim_start_matches([',', '(']).trim();
        let equates = gap == "=" || data().equates.iter().any(|words| gap == words);
        // `from 43.5 to 41.1 kg, that is 2.4 kg`, `6 × 17.8 kg = 106.8 kg`: said of more than the one before it.
        let several = scene.plain.numbers().iter().any(|before| before.end <= one.start && one.start - before.end <= EQUATED_BYTES);
        let measured = ["time", "length", "mass", "data", "volume", "area", "speed", "distance", "weight"].contains(&one.dimension);
        // `50 km, das sind 3 h pro Tag`: a rate is another thing.
        let after = scene.text().get(other.end..).unwrap_or_default().trim_start().to_lowercase();
        let rate = ["per", "pro", "par", "por", "al ", "a ", "an ", "each", "je", "/", "more", "less", "mehr", "weniger"]
            .iter()
            .any(|word| after.starts_with(word));
        let slack = one.step.max(other.step) * 1.01 + one.value.abs().max(other.value.abs()) * 0.06;
        let wrong = one.dimension == other.dimension && equates && measured && !rate && !several && (one.value - other.value).abs() > slack;
        wrong.then(|| {
            finding(
                scene,
                "equated",
                Code::ClaimMismatch,
                one.start..other.end,
                "two figures that equal each other".to_owned(),
                Certainty::Likely,
            )
        })
    })
}

/// Words behind a denial among which the thing denied is looked for, and words beside one that was asked for that nobody said.
const DENIED_WORDS: usize = 3;
/// Words of a passage that deny.
const DENIALS_MAX: usize = 4;
const STRANGE_MAX: usize = 1;
/// Numbers of a passage by which records are narrowed.
const NUMBERS_OF: usize = 24;
/// Letters of a word that was asked for, and bytes of a value that it is looked for in.
const SOUGHT_CHARS: usize = 5;
const SOUGHT_BYTES: usize = 90;

/// `no AAAA record` where a record has that value: what is denied is a value of the result, and nothing narrows it.
fn denied_value(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    static DENIES: WordList = WordList::new(&[
        "no",
        "none",
        "nobody",
        "zero",
        "kein",
        "keine",
        "keinen",
        "keiner",
        "keinerlei",
        "aucun",
        "aucune",
        "ningún",
        "ninguna",
        "ningun",
        "nessun",
        "nessuna",
        "nenhum",
        "nenhuma",
        "geen",
        "brak",
        "żadnych",
        "żaden",
        "żadna",
        "inga",
        "ingen",
    ]);
    let [source] = scene.sources.as_slice() else { return None };
    let rows = &source.rows().rows;
    if source.fails() || rows.len() < 2 || scene.bond != CitationScope::Cited {
        return None;
    }
    // In Portuguese and Spanish `no` stands before a noun in another sense, or before a verb.
    let denies = |word: &Word| DENIES.has(&word.lower) && (word.lower != "no" || is_english(scene));
    let places = scene.plain.words.iter().enumerate().filter(|(_, word)| denies(word)).map(|(at, _)| at);
    places.take(DENIALS_MAX).find_map(|deny| denied_value_behind(scene, source, deny))
}

/// The finding of one word that denies.
fn denied_value_behind(scene: &CheckContext<'_>, source: &ToolResult, deny: usize) -> Option<ClaimFinding> {
    let rows = &source.rows().rows;
    let denies = scene.plain.words.get(deny)?;
    let after = scene.plain.words.get(deny + 1..).unwrap_or_default();
    let end = clause_end(scene, denies.end);
    if sentence::excludes(scene, clause_start(scene, denies.start)..end) {
        return None;
    }
    let clause: Vec<&Word> = after.iter().filter(|word| word.end <= end).take(8).collect();
    // `no surgery on the 14th`: numbers that other rows have narrow it to those.
    let numbers = LazyCell::new(|| -> Vec<&Number> {
        let stands = |number: &&Number| rows.iter().any(|row| evidence::fits(number, Precision::Exact, &row.numbers));
        scene.plain.numbers().iter().take(NUMBERS_OF).filter(stands).collect()
    });
    let asked = scene.grounds.asked.name_words();
    let is_asked = |folded: &str| asked.iter().any(|own| akin(own, folded));
    // What the user asked for may be a word of a value, too.
    let is_sought = |folded: &str| {
        folded.chars().count() >= SOUGHT_CHARS
            && is_asked(folded)
            && !stands_in(source.folded_arguments(), folded)
            && !source.nouns().iter().any(|noun| akin(noun, folded))
    };
    let has = |word: &Word| {
        let folded = word.folded();
        let one = folded.strip_suffix("es").unwrap_or(&folded);
        let single = folded.strip_suffix('s').unwrap_or(&folded);
        let sought = is_sought(&folded);
        let part = |cell: &str| sought && cell.len() <= SOUGHT_BYTES && words_of(cell).any(|own| own == folded || akin(own, &folded));
        let is = |cell: &str| cell == folded || cell == single || cell == one || part(cell);
        folded.chars().count() >= 3
            && rows.iter().any(|row| {
                // `GPS: none`, `Hepatitis B;0`
                let blank = |cell: &Cell| match cell.number {
                    Some(number) => number == 0.0,
                    None => words_of(&cell.folded).any(negation::is_nothing),
                };
                let all = || numbers.iter().all(|number| evidence::fits(number, Precision::Exact, &row.numbers));
                row.cells.iter().any(|cell| cell.number.is_none() && is(&cell.folded)) && !row.cells.iter().any(blank) && all()
            })
    };
    let sought = |word: &Word| is_sought(&word.folded());
    let reach = |(at, word): &(usize, &&Word)| *at < DENIED_WORDS || sought(word);
    let (at, word) = clause.iter().enumerate().filter(reach).find(|(_, word)| has(word))?;
    // `indexes on a and b, but none on c`: what is denied isn't the thing that stands behind the preposition.
    if !sought(word) && clause.iter().take(at).any(|word| PREPOSITIONS.has(&word.lower)) {
        return None;
    }
    let common = scene.lexicon.common.contains(&word.lower) || scene.lexicon.scope.contains(&word.lower);
    // Whatever else the clause says narrows what is denied, but for words of the call and of nothing in particular.
    let rest: Vec<Word> = clause.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, word)| (*word).clone()).collect();
    // What was asked for in another language can't be compared with the result's words; a day or a month is the call's.
    let english = is_english(scene);
    let dated = source.arguments.bytes().any(|byte| byte.is_ascii_digit());
    let plain = |word: &Word| {
        let folded = word.folded();
        scene.is_open_end(std::slice::from_ref(word), source)
            || PREPOSITIONS.has(&word.lower)
            || THEM.has(&word.lower)
            || scene.lexicon.generic.contains(&word.lower)
            || source.nouns().iter().any(|noun| akin(noun, &folded))
            || stands_in(source.folded_arguments(), &folded)
            || !english && is_asked(&folded)
            || dated && (lexicon::month(&word.lower).is_some() || weekdays::weekday_of(word).is_some())
    };
    let own = word.folded();
    let says = |row: &Row, folded: &str| {
        row.cells.iter().any(|cell| words_of(&cell.folded).any(|part| part == folded || akin(part, folded)) || akin(&cell.column, folded))
    };
    let beside = |folded: &str| rows.iter().any(|row| says(row, &own) && says(row, folded));
    let strange: Vec<&Word> = rest.iter().filter(|word| !plain(word) && !beside(&word.folded())).collect();
    // `No Encrypta certificate has expired`, `none at Harbour is ready`: what was asked for, or what other records have, narrows it. So does
    // what stands before the noun: `no open tasks`.
    let narrows = |word: &&&Word| {
        let folded = word.folded();
        let first = clause.first().is_some_and(|first| first.start == word.start) && word.lower != "one";
        is_asked(&folded) || first || rows.iter().any(|row| says(row, &folded))
    };
    // `Wim has no entry for Birch`: told of somebody whom no record has beside it.
    let of_another = || {
        let from = clause_start(scene, denies.start);
        let first = scene.plain.words.iter().find(|word| word.start >= from);
        first.filter(|word| word.start < denies.start).is_some_and(|word| {
            let folded = word.folded();
            folded.chars().count() >= 3
                && rows.iter().any(|row| says(row, &folded))
                && !rows.iter().all(|row| says(row, &folded))
                && !beside(&folded)
        })
    };
    // `carries the security label`, `ist keine Nussallergie vermerkt`
    let others = !sought(word) && rest.iter().any(|word| !plain(word) && !is_asked(&word.folded()));
    let narrowed = others || strange.len() > STRANGE_MAX || strange.iter().any(|word| narrows(&word)) || of_another();
    // `Four were under three hours, none of them a Harrier`: of some records only.
    let them = |word: &&Word| THEM.has(&word.lower);
    let count = || scene.words_before(denies.start).iter().find_map(|word| scene.lexicon.count(&word.lower));
    if clause.iter().any(them) && count().is_some_and(|count| count != rows.len() as u64) {
        return None;
    }
    // `0 conflicts` says so itself.
    let zero = format!("0 {}", word.folded());
    if common || narrowed || stands_in(source.folded(), &zero) {
        return None;
    }
    let span = denies.start..word.end;
    Some(finding(scene, "denied_value", Code::FalseAbsence, span, format!("the result has `{}`", word.lower), Certainty::Likely))
}

/// Words for what was told of before, in any language.
static THEM: WordList = WordList::new(&[
    "them", "these", "those", "davon", "ihnen", "dont", "eux", "elles", "ellos", "ellas", "loro", "deles", "delas", "daarvan", "nich",
]);
/// Words between a thing and what it belongs to.
static PREPOSITIONS: WordList = WordList::new(&[
    "on", "of", "for", "in", "with", "at", "by", "from", "to", "about", "under", "auf", "für", "von", "mit", "bei", "zu", "im", "am",
    "sur", "pour", "de", "des", "du", "dans", "avec", "à", "par", "en", "con", "para", "sobre", "del", "su", "per", "di", "della", "dal",
    "op", "voor", "van", "met", "na", "dla", "z", "w", "u", "do", "em", "com", "no", "på", "för", "av", "med", "i",
]);

/// True if it is in English, as far as its frequent words tell, or those of the question.
fn is_english(scene: &CheckContext<'_>) -> bool {
    static COMMON: WordList =
        WordList::new(&["the", "is", "are", "there", "has", "have", "of", "it", "and", "was", "were", "i", "to", "you"]);
    let asked = || scene.grounds.asked.words().iter();
    scene.plain.words.iter().chain(asked()).any(|word| COMMON.has(&word.lower))
}

fn clause_start(scene: &CheckContext<'_>, place: usize) -> usize {
    scene.text().get(..place).map_or(0, |before| behind_last(before, |c| matches!(c, ',' | ';' | ':' | '.' | '!' | '–' | '—' | '\n' | '(')))
}

fn clause_end(scene: &CheckContext<'_>, from: usize) -> usize {
    let rest = scene.text().get(from..).unwrap_or_default();
    from + rest.find([',', ';', ':', '.', '!', '–', '—', '\n', '(']).unwrap_or(rest.len())
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

    fn rules(result: &str, text: &str) -> Vec<&'static str> {
        rules_asked("", result, text)
    }

    fn rules_asked(asked: &str, result: &str, text: &str) -> Vec<&'static str> {
        let grounds = EvidenceIndex::new(vec![ToolResult::new("list_items", "{}", result)], Vec::new(), asked.into());
        let plain = AnalyzedPassage::of(text);
        let lexicon = language(&words(text), None);
        let sources = grounds.results.iter().collect();
        let bond = CitationScope::Cited;
        let scene = CheckContext::new(&plain, Kind::Sentence, lexicon, sources, bond, &grounds);
        consistency(&scene).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn what_was_asked_for_is_denied() {
        let items = r#"[{"no":"a1","labels":"docs"},{"no":"a2","labels":"bug,security"},{"no":"a3","labels":"bug","note":"none"}]"#;
        for (text, wrong) in [
            ("There is no security label.", true),
            ("All three are open; none of them carries the security label.", true),
            ("Two are bugs; none of them carries the security label.", false),
            ("There are no performance labels.", false),
            ("No security label stands on the board of Ann.", false),
        ] {
            let found = rules_asked("Is anything open with a security or performance label?", items, text);
            assert_eq!(found.contains(&"denied_value"), wrong, "{text}: {found:?}");
        }
    }

    #[test]
    fn figures_of_the_records() {
        let hours = r#"[{"who":"Marta","hours":6.5},{"who":"Ivan","hours":11},{"who":"Rosa","hours":4},{"who":"Luis","hours":8.5}]"#;
        let trains = r#"[{"id":"ICE-571","dep":"08:05","price_eur":59.9},{"id":"ICE-1092","dep":"09:12","price_eur":37.9},{"id":"NJ-40490","dep":"22:10","price_eur":29.9}]"#;
        let tunnels = r#"{"unit":"mS/cm","T1":1.8,"T2":2.4,"T3":2.2,"T4":3.2}"#;
        let runs = "old 1.840 s\nnew 1.472 s";
        let surgeries = r#"[{"day":13,"what":"surgery"},{"day":14,"what":"checkup"},{"day":15,"what":"surgery"}]"#;
        let doses = r#"[{"vaccine":"Tetanus","doses":0},{"vaccine":"Measles","doses":12}]"#;
        let zone = "id   type   value\nr1   A      203.0.113.24\nr2   AAAA   2001:db8::24\nr3   MX     mail";
        for (result, text, wrong) in [
            (hours, "30 hours in total.", &[][..]),
            (hours, "Marta and Ivan: 17.5 hours in total.", &[]),
            (hours, "On average 7.5 hours each.", &[]),
            (hours, "You trained 165 minutes, which is 2 hours and 45 minutes.", &[]),
            (trains, "The cheapest is ICE 1092 at €37.90.", &["superlative"]),
            (trains, "The cheapest is NJ 40490 at €29.90.", &[]),
            (trains, "The cheapest direct one is ICE 1092.", &[]),
            // An average and a total are those of the records, and no number that could be made of them; so is a change.
            (hours, "On average 9.1 hours each.", &["average"]),
            (hours, "36 hours in total.", &["total"]),
            (tunnels, "The four tunnels average 2.4 mS/cm.", &[]),
            (tunnels, "The four tunnels average 2.6 mS/cm.", &["average"]),
            (runs, "It takes 1.472 s now instead of 1.840 s, 20% less.", &[]),
            (runs, "It takes 1.472 s now instead of 1.840 s, about 25% faster.", &[]),
            (runs, "It takes 1.472 s now instead of 1.840 s, 40% less.", &["changed"]),
            (zone, "The zone has no AAAA record.", &["denied_value"]),
            (zone, "I don't see one: the zone has no AAAA record.", &["denied_value"]),
            (zone, "There is no TXT record, and no AAAA record.", &["denied_value"]),
            (zone, "There is no TXT record, and no SRV record.", &[]),
            (zone, "It has no AAAA record that doesn't expire.", &[]),
            (doses, "There is no tetanus.", &[]),
            (doses, "There is no measles.", &["denied_value"]),
            (zone, "The zone has no TXT record.", &[]),
            (zone, "Apart from the one for @ the zone has no AAAA record.", &[]),
            (surgeries, "There is no surgery.", &["denied_value"]),
            (surgeries, "On the 14th there is no surgery.", &[]),
            (surgeries, "On the 13th there is no surgery.", &["denied_value"]),
        ] {
            assert_eq!(rules(result, text), wrong, "{text}");
        }
    }
}
