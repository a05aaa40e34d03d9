//! Tables as text: comma-separated values (RFC 4180 without quotes) and the like. Pure.

use super::table::TextTable;

/// Bytes of a column's name.
const NAME_BYTES_MAX: usize = 48;
/// Words of a column's name where other lines stand above the table.
const WORDS_MAX: usize = 4;
/// Columns of such a table.
const COLUMNS_MAX: usize = 40;
/// Column separators.
const MARKS: [char; 4] = [',', ';', '\t', '|'];

/// Reads a table: the columns' names, and the rows with as many fields each; `None` where the text isn't one.
pub fn read(text: &str) -> Option<(Vec<&str>, Vec<Vec<&str>>)> {
    if text.contains('"') {
        return None;
    }
    let mut lines = text.lines().map(unframed).filter(|line| !line.trim().is_empty() && !is_rule(line));
    let head = lines.next()?;
    let mark = MARKS.into_iter().max_by_key(|mark| head.matches(*mark).count())?;
    let columns = fields(head, mark);
    let names: Vec<&str> = head.split(mark).map(str::trim).collect();
    if columns < 2 || !names.iter().all(|name| is_name(name)) {
        return None;
    }
    let rows: Vec<Vec<&str>> =
        lines.map(|line| (fields(line, mark) == columns).then(|| line.split(mark).map(str::trim).collect())).collect::<Option<_>>()?;
    (!rows.is_empty() && has_values(&rows)).then_some((names, rows))
}

/// The first table among other lines, such as a title or a note below it: a head and two rows at least.
pub fn within<'t>(lines: &[&'t str]) -> Option<TextTable<'t>> {
    MARKS.into_iter().filter_map(|mark| between(lines, mark)).min_by_key(|table| table.head)
}

/// The first table among these lines whose columns this mark parts.
fn between<'t>(lines: &[&'t str], mark: char) -> Option<TextTable<'t>> {
    // Sentences have commas.
    let least = if mark == ',' { 3 } else { 2 };
    let all = lines.iter().enumerate().map(|(at, line)| (at, unframed(line)));
    let all: Vec<(usize, &str)> = all.filter(|(_, line)| !is_rule(line)).collect();
    let columns = |line: &str| if line.contains('"') || line.trim().is_empty() { 0 } else { fields(line, mark) };
    all.chunk_by(|one, other| columns(one.1) == columns(other.1)).filter(|run| run.len() > 2).find_map(|run| {
        let ((head, names), rows) = run.split_first()?;
        let names: Vec<&str> = names.split(mark).map(str::trim).collect();
        let is_head = |name: &&str| is_name(name) && !name.contains(|c: char| c.is_ascii_digit()) && name.split(' ').count() <= WORDS_MAX;
        if !(least..=COLUMNS_MAX).contains(&names.len()) || !names.iter().all(is_head) {
            return None;
        }
        let rows: Vec<(usize, Vec<&str>)> = rows.iter().map(|(at, line)| (*at, line.split(mark).map(str::trim).collect())).collect();
        let valued = has_values(rows.iter().map(|(_, row)| row));
        let rows = rows.into_iter().map(|(at, row)| (at, row.into_iter().enumerate().collect())).collect();
        valued.then_some(TextTable { names, rows, head: *head })
    })
}

/// A line without the pipes that may stand around a row.
fn unframed(line: &str) -> &str {
    let bare = if line.trim_start().starts_with('|') { line.trim_start_matches([' ', '|']) } else { line };
    bare.trim_end_matches(['|', ' ', '\r'])
}

/// Is it a line of dashes, as below a head?
fn is_rule(line: &str) -> bool {
    line.contains("--") && line.chars().all(|c| matches!(c, '-' | '|' | ':' | '+' | ' ' | '='))
}

fn fields(line: &str, mark: char) -> usize {
    line.matches(mark).count() + 1
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().any(char::is_alphabetic) && !name.contains(". ")
}

/// True if half of the fields at least are values. Two lines of prose may have as many commas.
fn has_values<'r, 't: 'r>(rows: impl IntoIterator<Item = &'r Vec<&'t str>>) -> bool {
    let (mut values, mut all) = (0, 0);
    for field in rows.into_iter().flatten() {
        all += 1;
        values += usize::from(field.parse::<f64>().is_ok() || !field.contains(' '));
    }
    values * 2 >= all
}

/// Do commas part the values of this line, rather than the thousands of a number?
pub fn is_listing(line: &str) -> bool {
    let bytes = line.as_bytes();
    let inside = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii_whitespace());
    let tight = |at: &usize| *at > 0 && inside(bytes.get(at - 1)) && inside(bytes.get(at + 1));
    let parting = memchr::memchr_iter(b',', bytes).filter(tight).count();
    parting >= 2 && parting > grouping(line)
}

/// Commas that part the thousands of a number.
fn grouping(line: &str) -> usize {
    let of_number = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.');
    let mut commas = 0;
    for run in line.split(|c| !of_number(c)).filter(|run| run.contains(',')) {
        let (whole, decimals) = run.split_once('.').unwrap_or((run, ""));
        let mut groups = whole.split(',');
        let first = groups.next().unwrap_or_default();
        if (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3) && !decimals.contains([',', '.']) {
            commas += run.matches(',').count();
        }
    }
    commas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let (names, rows) = read("sku,name,stock,price\n1001,Lamp,120,19.90\n1002,Desk,4,249\n").unwrap();
        assert_eq!((names.as_slice(), rows.len()), (&["sku", "name", "stock", "price"][..], 2));
        assert_eq!(rows[0], ["1001", "Lamp", "120", "19.90"]);
        assert!(read("a;b\n1;2").is_some() && read("a\tb\n1\t2\n").is_some());
        for text in ["", "a,b", "a,b\n1", "1,2\n3,4", "Hello, Ann\nI was there, and it was nice", "a,\n1,2", "x: 1\ny: 2"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn tables_among_other_lines() {
        let text = "Report of May\n\n| item | sold | price |\n|---|---|---|\n| socks | 12 | 4.50 |\n| hat | 9 | 19.00 |\n\nprices in EUR";
        let lines: Vec<&str> = text.lines().collect();
        let table = within(&lines).unwrap();
        assert_eq!((table.names.as_slice(), table.head), (&["item", "sold", "price"][..], 2));
        assert_eq!(table.rows[1], (5, vec![(0, "hat"), (1, "9"), (2, "19.00")]));
        let totals: Vec<&str> = "day;kWh\n1;20\n2;30\n(2 rows)".lines().collect();
        assert_eq!(within(&totals).unwrap().rows.len(), 2);
        for text in [
            "We met, as planned, in May\nThen we left, all of us, for home\nIt rained, it snowed, it froze",
            "a;b\n1;2",
            "2026-01-02, ok, 3\n2026-01-03, ok, 4\n2026-01-04, ok, 5",
            "x: 1\ny: 2\nz: 3",
        ] {
            assert!(within(&text.lines().collect::<Vec<_>>()).is_none(), "{text}");
        }
    }

    #[test]
    fn listings() {
        for line in ["1001,Lamp,120,19.90", "49.41345,8.70967,114", "latencies_ms=112,340,97,1250", "a,120,340,b"] {
            assert!(is_listing(line), "{line}");
        }
        for line in ["1,234,567 people", "1,234", "12,5 km", "Ann, Bob, 120,340 and 7", "", ",", "a, b, c"] {
            assert!(!is_listing(line), "{line}");
        }
    }
}
