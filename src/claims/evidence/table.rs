//! Records in texts that aren't JSON: tables whose columns stand below their names, as command lines print them, and blocks of
//! `key: value` lines that begin with the same key. Pure.

use std::collections::{HashMap, HashSet};

/// Columns of a table, and bytes of one of its lines, that are read.
const COLUMNS_MAX: usize = 40;
const LINE_BYTES_MAX: usize = 1000;
/// Lines above a table's head.
const TITLES_MAX: usize = 3;

/// A table among other lines: its columns stand below their names, or a mark parts them.
pub struct TextTable<'t> {
    /// Names of the columns.
    pub names: Vec<&'t str>,
    /// Line of each row, and its fields with the number of their column, in order.
    pub rows: Vec<(usize, Vec<(usize, &'t str)>)>,
    /// Line of the names.
    pub head: usize,
}

/// The table in these lines whose columns stand below their names, parted by two blanks at least. A cell may be missing.
pub fn aligned<'t>(lines: &[&'t str]) -> Option<TextTable<'t>> {
    (0..=TITLES_MAX.min(lines.len())).find_map(|at| below_head(lines, at))
}

/// The table below the line `at`, where that is its head.
fn below_head<'t>(lines: &[&'t str], at: usize) -> Option<TextTable<'t>> {
    let names = spaced(lines.get(at).filter(|line| line.len() <= LINE_BYTES_MAX)?);
    let figures = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let begins = |name: &str| name.starts_with(|c: char| !c.is_ascii_digit() && !matches!(c, '|' | '-' | '[' | '{' | '<'));
    let year = |name: &str| name.len() == 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    let named = names.iter().all(|(.., name)| {
        year(name) || begins(name) && name.chars().any(char::is_alphabetic) && name.split(' ').count() <= 3 && !name.contains(": ")
    });
    // A head without figures, but for those of years, over lines that have some.
    let head = !names.iter().any(|(.., name)| figures(name)) || names.first().is_some_and(|(.., name)| !figures(name));
    let rest = lines.get(at + 1..)?;
    let body = rest.iter().filter(|line| figures(line)).count() * 2 > rest.len();
    if names.len() < 3 || names.len() > COLUMNS_MAX || !named || !head || !body {
        return None;
    }
    let (mut rows, mut fitting, mut all) = (Vec::new(), 0, 0);
    for (place, line) in rest.iter().enumerate().filter(|(_, line)| line.len() <= LINE_BYTES_MAX) {
        let cells: Vec<(usize, usize, &str)> = spaced(line).into_iter().flat_map(|cell| at_names(cell, &names)).collect();
        let mut row: Vec<(usize, &str)> = Vec::new();
        for (start, end, text) in &cells {
            // Flush left or right with its name, else below it.
            let flush = names.iter().position(|(from, to, _)| from == start || to == end);
            let below = || names.iter().position(|(from, to, _)| from < end && start < to);
            let behind = || names.iter().rposition(|(from, ..)| from <= start);
            all += 1;
            fitting += usize::from(flush.is_some());
            row.extend(flush.or_else(below).or_else(behind).map(|column| (column, *text)));
        }
        if cells.len() >= 2 {
            rows.push((at + 1 + place, row));
        }
    }
    let names = names.into_iter().map(|(.., name)| name).collect();
    (rows.len() >= 2 && fitting * 10 >= all * 6).then_some(TextTable { names, rows, head: at })
}

/// Bytes of a key.
const KEY_BYTES_MAX: usize = 48;

/// The key and the value of a line, marks of a list in front of it left out.
pub fn pair(line: &str) -> Option<(&str, &str)> {
    let item = line.trim().trim_start_matches(['-', '*', '•', '–']).trim_start();
    let pair = item.split_once(": ").or_else(|| item.split_once('='));
    pair.filter(|(name, value)| name.len() <= KEY_BYTES_MAX && !value.trim().is_empty() && !name.contains("//"))
}

/// For each line the block that it is of, from 1 on, or 0: blocks of `key: value` lines, each of which begins with the same key. None where
/// most have one line.
pub fn blocks(lines: &[&str]) -> Option<Vec<usize>> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let keys: Vec<Option<(usize, &str)>> = lines.iter().map(|line| pair(line).map(|(name, _)| (indent(line), name))).collect();
    let mut last: HashMap<(usize, &str), usize> = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        last.extend(key.map(|key| (key, at)));
    }
    // The first key that stands again begins each block.
    let (first, begins) = keys
        .iter()
        .enumerate()
        .find_map(|(at, own)| own.filter(|own| last.get(own).is_some_and(|last| *last > at)).map(|own| (at, own)))?;
    let end = last.get(&begins).copied()?;
    let (mut found, mut lengths, mut known) = (vec![0; lines.len()], Vec::new(), HashSet::new());
    for (at, own) in keys.iter().enumerate().skip(first) {
        let Some((depth, name)) = *own else { continue };
        if (depth, name) == begins {
            lengths.push(0_usize);
        } else if at > end && (depth < begins.0 || depth == begins.0 && lengths.len() > 1 && !known.contains(name)) {
            // What none of the blocks before the last one has is of none.
            break;
        } else {
            known.insert(name);
        }
        let block = lengths.len();
        if let (Some(place), Some(length)) = (found.get_mut(at), lengths.last_mut()) {
            *length += 1;
            *place = block;
        }
    }
    let several = lengths.iter().filter(|length| **length > 1).count();
    (lengths.len() > 1 && several * 2 > lengths.len()).then_some(found)
}

/// A field of a line, cut where the name of a column begins behind a single blank: `7704 Mistral Eco` below `id   name`.
fn at_names<'t>((start, end, text): (usize, usize, &'t str), names: &[(usize, usize, &str)]) -> Vec<(usize, usize, &'t str)> {
    let mut found = Vec::new();
    let (mut from, mut first) = (0, start);
    for (place, (at, c)) in text.char_indices().enumerate() {
        let begins = c == ' ' && names.iter().any(|(name, ..)| *name == start + place + 1 && *name > first);
        if begins && names.iter().any(|(name, ..)| *name == first) {
            found.extend(text.get(from..at).map(|text| (first, start + place, text)));
            (from, first) = (at + 1, start + place + 1);
        }
    }
    found.extend(text.get(from..).map(|text| (first, end, text)));
    found
}

/// The fields of a line parted by two blanks or more, with the places of their first and last letters.
fn spaced(line: &str) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    let (mut start, mut blanks, mut end, mut place) = (None, 0, (0, 0), 0);
    for (at, c) in line.char_indices().chain([(line.len(), ' '), (line.len(), ' ')]) {
        if c == ' ' {
            blanks += 1;
            if blanks == 2
                && let Some((from, first)) = start.take()
            {
                found.extend(line.get(from..end.0).map(|text| (first, end.1, text)));
            }
        } else {
            (start, blanks, end) = (start.or(Some((at, place))), 0, (at + c.len_utf8(), place + 1));
        }
        place += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_below_their_names() {
        let lines = [
            "Stock",
            "id   name              eur    stock",
            "7701 Velox X11         24.90  12",
            "7704 Mistral Eco 11    18.40",
            "(all prices in EUR)",
        ];
        let table = aligned(&lines).unwrap();
        assert_eq!((table.names.as_slice(), table.head), (&["id", "name", "eur", "stock"][..], 1));
        assert_eq!(table.rows[0], (2, vec![(0, "7701"), (1, "Velox X11"), (2, "24.90"), (3, "12")]));
        assert_eq!(table.rows[1], (3, vec![(0, "7704"), (1, "Mistral Eco 11"), (2, "18.40")]));
        for text in [
            "m       | rev       | n\n2025-07 | 184000.00 | 4600\n2025-08 | 161920.00 | 4400",
            "-rw-r--r--  1 dev dev   311 Nov  3 a\n-rw-r--r--  1 dev dev   702 Oct  8 b",
        ] {
            assert!(aligned(&text.lines().collect::<Vec<_>>()).is_none(), "{text}");
        }
    }

    #[test]
    fn blocks_begin_with_the_same_key() {
        for (text, found) in [
            ("point: A\n  am: 1\n  pm: 2\npoint: B\n  am: 3\nweather: dry", Some(vec![1, 1, 1, 2, 2, 0])),
            ("prices:\n  - day: 1\n    eur: 3\n  - day: 2\n    eur: 4\nstock: 17", Some(vec![0, 1, 1, 2, 2, 0])),
            ("room: 2\n---\nno: 1\ntitle: a\n---\nno: 2\ntitle: b", Some(vec![0, 0, 1, 1, 0, 2, 2])),
            ("ERROR: a\nERROR: b\nERROR: c", None),
            ("a: 1\nb: 2", None),
            ("", None),
        ] {
            assert_eq!(blocks(&text.lines().collect::<Vec<_>>()), found, "{text}");
        }
    }
}
