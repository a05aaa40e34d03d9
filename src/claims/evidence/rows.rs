//! The records of a result side by side, whatever its form: lists of objects, maps, tables, markup, lines. Pure.
//!
//! A set of rows is a bit mask, so that "which rows have this value" is one word; a result with more rows isn't compared by rows.

use std::collections::BTreeMap;

use super::{
    facts::{NamedValue, ResultFacts, Scalar, amount, scalar},
    table,
};
use crate::language::{
    date::{self, Date},
    fold::fold,
    number::numbers,
};

/// Rows of one set: the bits of a mask.
pub const ROWS_MAX: usize = 64;
/// Bytes of a result that is looked at by rows.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Values of one row.
const CELLS_MAX: usize = 40;
/// Bytes of a cell that is compared as a text.
const CELL_BYTES_MAX: usize = 80;

/// A value of a row.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Key of its column; empty where the result names none.
    pub column: String,
    /// As it stands there.
    pub raw: String,
    /// Folded.
    pub folded: String,
    /// The number that it is.
    pub number: Option<f64>,
    /// It is long enough a text to be looked for in an answer.
    pub is_text: bool,
}

/// A record.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its values, those of what it lies in too.
    pub cells: Vec<Cell>,
    /// Every number in it, without signs, sorted.
    pub numbers: Vec<f64>,
    /// Its dates.
    pub dates: Vec<Date>,
    /// Its times of day, in minutes.
    pub times: Vec<u32>,
}

/// The rows of one result.
#[derive(Debug, Default)]
pub struct Rows {
    /// The rows, at most [`ROWS_MAX`].
    pub rows: Vec<Row>,
    /// What belongs to no row.
    pub free: Row,
    /// The result says which column a value is of.
    pub columns: bool,
}

impl Rows {
    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(Row::bytes).sum::<usize>() + self.free.bytes()
    }
}

impl Row {
    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let cell = |cell: &Cell| size_of::<Cell>() + cell.column.capacity() + cell.raw.capacity() + cell.folded.capacity();
        let (dates, numbers) = (self.dates.capacity() * size_of::<Date>(), self.numbers.capacity() * 8 + self.times.capacity() * 4);
        size_of::<Self>() + self.cells.iter().map(cell).sum::<usize>() + dates + numbers
    }

    fn add(&mut self, column: &str, value: &Scalar) {
        if self.cells.len() >= CELLS_MAX {
            return;
        }
        let raw = value.shown();
        let number = match value {
            Scalar::Text(text) if text.bytes().any(|byte| byte.is_ascii_digit()) => {
                self.read(text);
                value.number().or_else(|| amount(text).number())
            }
            _ => value.number(),
        };
        self.numbers.extend(number.map(f64::abs));
        if raw.len() <= CELL_BYTES_MAX && !matches!(value, Scalar::Null | Scalar::Flag(_)) {
            let folded = fold(&raw);
            let figures = || matches!(value, Scalar::Text(_)) && raw.len() >= ID_FIGURES && raw.bytes().all(|byte| byte.is_ascii_digit());
            // `12 kg`, `3元`: an amount names nothing.
            let amount = || {
                raw.starts_with(|c: char| c.is_ascii_digit())
                    && matches!(numbers(&raw).as_slice(), [one] if one.span.start == 0 && one.end == raw.len())
            };
            let is_text = is_text(&raw, &folded, number) && !amount() || figures();
            self.cells.push(Cell { column: column.to_owned(), folded, number, is_text, raw });
        }
    }

    fn read(&mut self, text: &str) {
        self.numbers.extend(numbers(text).iter().flat_map(|number| number.readings()).map(|reading| reading.value));
        let found = date::dates(text);
        self.dates.extend(found.dates);
        self.times.extend(found.times.iter().map(|time| time.minutes));
    }

    fn sort(&mut self) {
        self.numbers.sort_by(f64::total_cmp);
        self.numbers.dedup();
    }
}

/// Figures of an id that is written as a text.
const ID_FIGURES: usize = 3;
/// Letters of a text that is looked for in an answer; of scripts with their own letters, fewer.
const TEXT_CHARS: usize = 3;
const FOREIGN_CHARS: usize = 2;

fn is_text(raw: &str, folded: &str, number: Option<f64>) -> bool {
    let letters = raw.chars().any(char::is_alphabetic) || raw.contains('-') && number.is_none();
    let mark = raw.len() == 2 && raw.starts_with(|c: char| c.is_ascii_uppercase()) && raw.ends_with(|c: char| c.is_ascii_digit());
    // `梨` is a word.
    let ideograph = !raw.is_empty() && raw.chars().all(|c| matches!(c, '\u{4e00}'..='\u{9fff}'));
    letters && (mark || ideograph || folded.chars().count() >= if raw.is_ascii() { TEXT_CHARS } else { FOREIGN_CHARS })
}

/// A result that is no collection as one record, with what it was called with.
pub fn single(facts: &ResultFacts, arguments: &str) -> Row {
    let mut row = Row::default();
    let called = ResultFacts::read(arguments);
    called.leaves.iter().chain(&facts.leaves).for_each(|leaf| row.add(&leaf.key, &leaf.value));
    row.sort();
    row
}

impl Rows {
    /// Those of a result; none where it has too many, or is no collection.
    pub fn read(text: &str, facts: &ResultFacts) -> Self {
        if text.len() > TEXT_BYTES_MAX || facts.partial {
            return Self::default();
        }
        let mut found = if facts.leaves.iter().any(|leaf| leaf.record > 0 && !leaf.key.is_empty() && !leaf.key.starts_with("column")) {
            of_records(facts)
        } else if facts.json {
            of_maps(facts)
        } else if text.trim_start().starts_with('<') {
            of_markup(text)
        } else {
            of_lines(text)
        };
        if found.rows.len() > ROWS_MAX || found.rows.len() < 2 {
            return Self::default();
        }
        found.rows.iter_mut().for_each(Row::sort);
        found.free.sort();
        found
    }
}

/// Elements of lists; each with the values of what it lies in.
fn of_records(facts: &ResultFacts) -> Rows {
    let mut found = Rows { columns: true, ..Rows::default() };
    let mut own: BTreeMap<usize, Vec<&NamedValue>> = BTreeMap::new();
    for leaf in &facts.leaves {
        own.entry(leaf.record).or_default().push(leaf);
    }
    let parent = |record: usize| record.checked_sub(1).and_then(|at| facts.records.get(at)).copied().unwrap_or(0);
    let parents: Vec<usize> = own.keys().map(|record| parent(*record)).collect();
    for (record, leaves) in &own {
        if *record == 0 {
            leaves.iter().for_each(|leaf| found.free.add(&leaf.key, &leaf.value));
            continue;
        }
        if parents.contains(record) || found.rows.len() > ROWS_MAX {
            continue;
        }
        let mut row = Row::default();
        leaves.iter().for_each(|leaf| row.add(&leaf.key, &leaf.value));
        let mut at = parent(*record);
        while at > 0 {
            own.get(&at).into_iter().flatten().for_each(|leaf| row.add(&leaf.key, &leaf.value));
            // INVARIANT: a record lies in one with a smaller number.
            at = parent(at);
        }
        found.rows.push(row);
    }
    found
}

/// Objects whose members are values of one kind by their names: `{"marks": {"Ann": 15, "Ben": 17}}`.
fn of_maps(facts: &ResultFacts) -> Rows {
    let mut found = Rows { columns: true, ..Rows::default() };
    let mut objects: BTreeMap<usize, Vec<&NamedValue>> = BTreeMap::new();
    for leaf in &facts.leaves {
        objects.entry(leaf.object).or_default().push(leaf);
    }
    for (object, leaves) in objects {
        let numbers = leaves.iter().all(|leaf| matches!(leaf.value, Scalar::Number(_)));
        let texts = leaves.iter().all(|leaf| matches!(&leaf.value, Scalar::Text(text) if text.len() <= 24));
        if object <= 1 || leaves.len() < 2 || !(numbers || texts) || leaves.len() > ROWS_MAX {
            leaves.iter().for_each(|leaf| found.free.add(&leaf.key, &leaf.value));
            continue;
        }
        for leaf in leaves {
            let mut row = Row::default();
            row.add("name", &Scalar::Text(leaf.key.clone()));
            row.add(&format!("value{object}"), &leaf.value);
            found.rows.push(row);
        }
    }
    found
}

/// Elements of markup that stand more than once.
fn of_markup(text: &str) -> Rows {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let name_at = |rest: &'_ str| rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
    for rest in text.split('<').skip(1).filter(|rest| !rest.starts_with(['/', '?', '!'])) {
        *counts.entry(rest.get(..name_at(rest)).unwrap_or_default()).or_default() += 1;
    }
    // The outermost of those that repeat: the first that does.
    let first = text.split('<').skip(1).find_map(|rest| {
        let name = rest.get(..name_at(rest))?;
        (counts.get(name).is_some_and(|count| *count > 1) && !matches!(name, "b" | "i" | "p" | "br" | "td" | "th" | "span")).then_some(name)
    });
    let Some(name) = first else { return Rows::default() };
    let mut found = Rows::default();
    let open = format!("<{name}");
    let mut parts = text.split(open.as_str());
    if let Some(head) = parts.next() {
        found.free.read(head);
    }
    for part in parts.filter(|part| part.starts_with(['>', ' ', '/', '\n', '\t'])) {
        let mut row = Row::default();
        for piece in part.split(['<', '>', '=', '"']).map(str::trim).filter(|piece| !piece.is_empty() && !piece.starts_with('/')) {
            row.add("", &scalar(piece));
        }
        found.rows.push(row);
        if found.rows.len() > ROWS_MAX {
            break;
        }
    }
    found
}

/// Lines of a listing: columns by tabs, pipes or blanks where every line has as many.
fn of_lines(text: &str) -> Rows {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty() && !is_rule(line)).take(ROWS_MAX + 2).collect();
    if lines.iter().any(|line| line.trim_start().starts_with("- "))
        && lines.iter().any(|line| line.starts_with("  ") && line.contains(": "))
    {
        return of_blocks(&lines);
    }
    if let Some(found) = of_aligned(&lines) {
        return found;
    }
    let columns = |line: &str| fields(line).len();
    let most = lines.iter().map(|line| columns(line)).max().unwrap_or(0);
    let regular = most >= 2 && lines.iter().filter(|line| columns(line) == most).count() * 10 >= lines.len() * 7;
    let mut found = Rows { columns: regular, ..Rows::default() };
    let names: Vec<&str> = lines.first().map(|line| fields(line)).unwrap_or_default();
    let head = regular
        && names.len() == most
        && names.iter().all(|name| !name.contains(char::is_whitespace))
        && lines.iter().skip(1).any(|line| fields(line).iter().any(|field| field.bytes().any(|byte| byte.is_ascii_digit())))
        && heads(&names, lines.get(1).copied().unwrap_or_default());
    // `Pet: Biscuit (beagle)` above lines of columns: what all of them are of.
    let title = regular && !head && names.len() != most && lines.len() > 2 && lines.first().is_some_and(|line| line.contains(": "));
    if title {
        lines.iter().take(1).for_each(|line| found.free.read(line));
    }
    for line in lines.iter().skip(usize::from(head || title)) {
        let mut row = Row::default();
        let own = fields(line);
        for (at, field) in own.iter().enumerate() {
            let column = match (regular && own.len() == most, head) {
                (true, true) => names.get(at).map_or_else(String::new, |name| crate::language::fold::key(name)),
                (true, false) => format!("column{at}"),
                _ => String::new(),
            };
            row.add(&column, &amount(field));
            // Of a field of several words each is one, too: `N: Kowalska, Lis`.
            if !regular || field.contains([',', ':']) {
                field
                    .split([',', ':', ' ', '(', ')'])
                    .map(str::trim)
                    .filter(|word| word.chars().count() > 2 && word.len() < field.len())
                    .for_each(|word| row.add("", &scalar(word)));
            }
        }
        row.read(line);
        found.rows.push(row);
    }
    found
}

/// Are these the names of columns, above that line? One of them may be a figure: `station|95|diesel`.
fn heads(names: &[&str], line: &str) -> bool {
    let figure = |field: &&&str| field.bytes().any(|byte| byte.is_ascii_digit());
    let letters = |name: &&&str| name.chars().any(char::is_alphabetic);
    let figures = names.iter().filter(figure).count();
    figures == 0 && names.iter().filter(letters).count() == names.len()
        || names.first().is_some_and(|first| !figure(&first) && letters(&first))
            && figures * 2 < names.len()
            && figures < fields(line).iter().filter(figure).count()
}

/// The rows of a table whose columns stand below their names.
fn of_aligned(lines: &[&str]) -> Option<Rows> {
    let table = table::aligned(lines)?;
    let mut found = Rows { columns: true, ..Rows::default() };
    for (line, cells) in &table.rows {
        let mut row = Row::default();
        for (column, text) in cells {
            row.add(&table.names.get(*column).map_or_else(String::new, |name| crate::language::fold::key(name)), &amount(text));
            parts(text).for_each(|part| row.add("", &scalar(part)));
        }
        if let Some(line) = lines.get(*line) {
            row.read(line);
        }
        found.rows.push(row);
    }
    lines.iter().take(table.head).for_each(|line| found.free.read(line));
    Some(found)
}

/// Parts of a cell that name something by themselves: a path, a name with a mark in it.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let several = text.contains([' ', ',']);
    text.split([' ', ',', '(', ')']).filter(move |part| {
        several && part.len() > 2 && part.contains(['/', '_', '-', '.']) && part.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

/// Blocks that begin with a dash.
fn of_blocks(lines: &[&str]) -> Rows {
    let mut found = Rows { columns: true, ..Rows::default() };
    for line in lines {
        let bare = line.trim_start();
        let begins = bare.starts_with("- ");
        if begins {
            found.rows.push(Row::default());
        }
        let pair = bare.trim_start_matches("- ").split_once(": ");
        let row = found.rows.last_mut().unwrap_or(&mut found.free);
        match pair {
            Some((name, value)) => row.add(&crate::language::fold::key(name), &scalar(value)),
            None => row.add("", &scalar(bare.trim_start_matches("- "))),
        }
    }
    found
}

/// The fields of a line.
fn fields(line: &str) -> Vec<&str> {
    let bare = line.trim();
    let parts: Vec<&str> = if bare.contains('\t') {
        bare.split('\t').collect()
    } else if bare.contains('|') {
        bare.trim_matches('|').split('|').collect()
    } else if bare.contains("  ") {
        bare.split("  ").collect()
    } else if bare.contains(';') {
        bare.split(';').collect()
    } else if bare.matches(',').count() >= 2 && !bare.contains(", ") {
        bare.split(',').collect()
    } else if bare.split(' ').count() <= 6 && !bare.contains(": ") {
        bare.split(' ').collect()
    } else {
        vec![bare]
    };
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn is_rule(line: &str) -> bool {
    line.chars().all(|c| matches!(c, '-' | '|' | ':' | '+' | ' ' | '='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_form() {
        for (text, rows, columns) in [
            (r#"[{"n":412,"by":"ann"},{"n":415,"by":"ben"}]"#, 2, true),
            (r#"{"team":"A","marks":{"Ann":15.5,"Ben":17.2,"Cem":14}}"#, 3, true),
            ("id   type   value\nr1   A      203.0.113.24\nr2   AAAA   2001:db8::24", 2, true),
            ("18:00 0.412\n19:00 0.398\n20:00 0.341", 3, true),
            ("<devices>\n<d n=\"Hall\" bat=\"88\"/>\n<d n=\"Kitchen\" bat=\"17\"/>\n</devices>", 2, true),
            ("<ul><li>Hall <b>88</b></li><li>Kitchen <b>17</b></li></ul>", 2, false),
            ("- name: api-a\n  region: waw-1\n- name: api-b\n  region: fra-2", 2, true),
            ("datum;betrag\n02.05.;840\n06.05.;96", 2, true),
            ("Pet: Biscuit (beagle)\nDHP     2024-09-12   valid 3y\nKC      2025-11-28   valid 1y\nRabies  2024-05-02   valid 3y", 3, true),
            (r#"{"ok":true,"id":7}"#, 0, false),
            ("All went well.", 0, false),
        ] {
            let found = Rows::read(text, &ResultFacts::read(text));
            assert_eq!((found.rows.len(), found.columns && !found.rows.is_empty()), (rows, columns), "{text}");
        }
    }
}
