//! Numbers that the figures of a result's text make by where they stand: in one line, below one another, side by side. Pure.

use crate::language::{
    number::{Number, numbers},
    unit::Unit,
};

/// Lines of a result that are read, bytes of one, and its figures.
const LINES_OF: usize = 200;
const LINE_BYTES_MAX: usize = 400;
const FIGURES_OF: usize = 6;
/// Figures below one another, from which on they are added up.
const COLUMN_FROM: usize = 3;
/// Bytes of a text in which numbers side by side are looked for.
const SIDES_BYTES_MAX: usize = 4096;

/// Unit of a figure, whether it is in percent, and its place among those of the same unit in its line.
type Place = (Option<&'static Unit>, bool, usize);

/// Numbers that figures of a result's text make.
#[derive(Debug, Default)]
pub struct TextFigures {
    /// Differences of two figures of a line in one unit: 18.5 hours of `41.5 h of 60 h life used`.
    pub apart: Vec<(&'static Unit, f64)>,
    /// Sums of the figures of one unit at one place of neighbouring lines: `build.css 48.20 kB`, `build.js 412.75 kB`.
    pub sums: Vec<f64>,
    /// Averages of the same.
    pub averages: Vec<f64>,
    /// Products of two numbers that stand as the sides of something: `(50000, 25000)`, `1920 × 1080`.
    pub areas: Vec<f64>,
}

impl TextFigures {
    /// Adds what the first lines of a text make, which are lines of a table or a log.
    pub fn add_lines(&mut self, text: &str) {
        let mut open: Vec<(Place, Vec<f64>)> = Vec::new();
        // The last line ends what stands before it.
        for line in text.lines().take(LINES_OF).chain([""]) {
            let figures = if line.len() > LINE_BYTES_MAX { Vec::new() } else { figures_of(line) };
            self.add_differences(&figures);
            let (goes_on, ended): (Vec<_>, Vec<_>) = open.into_iter().partition(|(place, _)| figures.iter().any(|(own, _)| own == place));
            for (_, column) in ended.iter().filter(|(_, column)| column.len() >= COLUMN_FROM) {
                let sum: f64 = column.iter().sum();
                self.sums.push(sum);
                self.averages.push(sum / column.len() as f64);
            }
            open = goes_on;
            for (place, value) in figures {
                match open.iter_mut().find(|(known, _)| *known == place) {
                    Some((_, column)) => column.push(value),
                    None => open.push((place, vec![value])),
                }
            }
        }
    }

    fn add_differences(&mut self, figures: &[(Place, f64)]) {
        for (at, ((unit, ..), one)) in figures.iter().enumerate() {
            let alike = figures.iter().skip(at + 1).filter(|((other, ..), _)| other == unit);
            self.apart.extend(alike.filter_map(|(_, other)| Some(((*unit)?, (one - other).abs()))));
        }
    }

    /// Adds the areas that the beginning of a text names.
    pub fn add_areas(&mut self, text: &str) {
        let text = text.get(..text.floor_char_boundary(SIDES_BYTES_MAX)).unwrap_or_default();
        let figures = numbers(text);
        let beside = |one: &Number, other: &Number| {
            let gap = text.get(one.end..other.span.start).unwrap_or_default().trim();
            let opened = || text.get(..one.span.start).is_some_and(|before| before.ends_with(['(', '[']));
            let closed = || text.get(other.end..).is_some_and(|rest| rest.starts_with([')', ']']));
            matches!(gap, "x" | "×") || gap == "," && opened() && closed()
        };
        let area = |two: &[Number]| match two {
            [one, other] if beside(one, other) => Some(value(one)? * value(other)?),
            _ => None,
        };
        self.areas.extend(figures.windows(2).filter_map(area));
    }
}

fn value(number: &Number) -> Option<f64> {
    number.readings().next().map(|reading| reading.value)
}

/// The figures of a line with a unit, or in percent, each with its place.
fn figures_of(line: &str) -> Vec<(Place, f64)> {
    let mut found: Vec<(Place, f64)> = Vec::new();
    for figure in numbers(line).iter().filter(|figure| figure.unit.is_some() || figure.percent).take(FIGURES_OF) {
        let Some(value) = value(figure) else { continue };
        let before = found.iter().filter(|((unit, percent, _), _)| *unit == figure.unit && *percent == figure.percent).count();
        found.push(((figure.unit, figure.percent, before), value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_figures_make_by_their_places() {
        let text = "a 0.5 kB gzip 0.25 kB\nb 1.5 kB gzip 0.75 kB\nc 4 kB gzip 2 kB\n\nmore than 500 kB, 41.5 h of 60 h, (30, 20)";
        let mut found = TextFigures::default();
        found.add_areas(text);
        found.add_areas(r#"{"size":"1920 × 1080"}"#);
        assert!(found.sums.is_empty() && found.apart.is_empty());
        found.add_lines(text);
        assert_eq!((&found.sums[..], &found.averages[..]), (&[6.0, 3.0][..], &[2.0, 1.0][..]));
        assert!(found.apart.iter().any(|(unit, apart)| unit.dimension == "time" && *apart == 18.5), "{:?}", found.apart);
        assert_eq!(found.areas, [600.0, 1920.0 * 1080.0]);
    }
}
