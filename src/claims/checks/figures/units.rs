//! A measure told of what another column has: `14 mm of rain` where 14 is the wind in km/h. Pure.

use std::collections::BTreeMap;

use crate::{
    checks::figures::finding,
    context::{CheckContext, ClaimFinding},
    evidence::{self, facts::ResultFacts, rows::ROWS_MAX},
    language::{
        number::{Number, Precision},
        unit::{self, Unit},
    },
};
use toolmark_base::violation::Code;

/// Rows from which a result is a table.
const ROWS_MIN: usize = 3;
/// Letters of the longest unit at the end of a column's name.
const UNIT_CHARS_MAX: usize = 4;

/// The finding of a passage that tells a number in a unit in which no column has it, and a column of another unit does.
pub(super) fn unit_of_another_column(scene: &CheckContext<'_>) -> Option<ClaimFinding> {
    let [source] = scene.sources.as_slice() else { return None };
    let measured = |number: &&Number| number.unit.is_some_and(|unit| !unit.is_money() && unit.dimension != "time") && !number.ordinal;
    let rows = source.rows();
    if source.is_partial() || !rows.columns || rows.rows.len() < ROWS_MIN || !scene.plain.numbers().iter().any(|number| measured(&number)) {
        return None;
    }
    let columns = columns(source.facts());
    for number in scene.plain.numbers().iter().filter(measured) {
        let unit = number.unit?;
        let own: Vec<_> = columns.iter().filter(|(column, _)| has_unit(column, unit)).collect();
        if own.is_empty() || own.iter().any(|(_, values)| accounts_for(number, values)) {
            continue;
        }
        let other = columns.iter().find(|(column, values)| {
            unit_of(column).is_some_and(|other| other.dimension != unit.dimension) && evidence::fits(number, Precision::Exact, values)
        });
        let Some((column, _)) = other else { continue };
        if number.readings().any(|reading| scene.grounds.said_numbers_have(reading.value)) {
            continue;
        }
        let span = number.span.start..number.end;
        let expected = format!("a value of {}; this one is of {column}", own.first().map_or("", |(column, _)| column));
        return Some(finding(scene, "unit_column", Code::ClaimMismatch, span, expected));
    }
    None
}

/// The columns of a result with their numbers, without signs, sorted.
fn columns(facts: &ResultFacts) -> BTreeMap<&str, Vec<f64>> {
    let mut found: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for leaf in &facts.leaves {
        if let Some(value) = leaf.value.number() {
            found.entry(leaf.key.as_str()).or_default().push(value.abs());
        }
    }
    for values in found.values_mut() {
        values.truncate(ROWS_MAX);
        values.sort_by(f64::total_cmp);
    }
    found
}

/// Does a column's name end with this unit: `rainmm`?
fn has_unit(column: &str, unit: &Unit) -> bool {
    unit.names.iter().any(|name| name.len() >= 2 && column.len() > name.len() + 2 && column.ends_with(&name.to_lowercase()))
}

/// The unit with which a column's name ends.
fn unit_of(column: &str) -> Option<&'static Unit> {
    let ends = (2..=UNIT_CHARS_MAX).rev().filter_map(|length| column.get(column.len().checked_sub(length)?..));
    ends.into_iter().find_map(|name| unit::named(name)).filter(|_| column.len() > UNIT_CHARS_MAX)
}

/// Is a number one of these, or their sum, average or difference?
fn accounts_for(number: &Number, values: &[f64]) -> bool {
    let sum: f64 = values.iter().sum();
    let is = |value: f64| number.readings().any(|shown| shown.rounds(value) || shown.nears(value, 0.02));
    evidence::fits(number, Precision::Approximate, values)
        || is(sum)
        || is(sum / values.len().max(1) as f64)
        || values.iter().enumerate().any(|(at, one)| values.iter().skip(at + 1).any(|other| is(other - one) || is(other + one)))
}
