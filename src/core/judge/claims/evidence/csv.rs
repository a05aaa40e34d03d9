//! Tables as text: comma-separated values (RFC 4180 without quotes) and the like. Pure.

/// Bytes of a column's name.
const NAME_BYTES_MAX: usize = 48;
/// Column separators.
const MARKS: [char; 4] = [',', ';', '\t', '|'];

/// Reads a table: the columns' names, and the rows with as many fields each; `None` where the text isn't one.
pub fn read(text: &str) -> Option<(Vec<&str>, Vec<Vec<&str>>)> {
    if text.contains('"') {
        return None;
    }
    // Pipes may stand around a row, and a line of dashes below its head.
    let ruled = |line: &&str| line.contains("--") && line.chars().all(|c| matches!(c, '-' | '|' | ':' | '+' | ' ' | '='));
    let bare = |line: &'_ str| -> usize { line.len() - line.trim_start_matches([' ', '|']).len() };
    let mut lines = text
        .lines()
        .map(|line| line.get(if line.trim_start().starts_with('|') { bare(line) } else { 0 }..).unwrap_or_default())
        .map(|line| line.trim_end_matches(['|', ' ', '\r']))
        .filter(|line| !line.trim().is_empty() && !ruled(line));
    let head = lines.next()?;
    let mark = MARKS.into_iter().max_by_key(|mark| head.matches(*mark).count())?;
    let fields = |line: &'_ str| line.matches(mark).count() + 1;
    let columns = fields(head);
    let names: Vec<&str> = head.split(mark).map(str::trim).collect();
    let named = |name: &&str| (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().any(char::is_alphabetic) && !name.contains(". ");
    if columns < 2 || !names.iter().all(named) {
        return None;
    }
    let rows: Vec<Vec<&str>> =
        lines.map(|line| (fields(line) == columns).then(|| line.split(mark).map(str::trim).collect())).collect::<Option<_>>()?;
    // Two lines of prose may have as many commas; a table has values.
    let value = |field: &&str| field.parse::<f64>().is_ok() || !field.contains(' ');
    let valued = rows.iter().flatten().filter(|field| value(field)).count() * 2 >= rows.len() * columns;
    (!rows.is_empty() && valued).then_some((names, rows))
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
    fn listings() {
        for line in ["1001,Lamp,120,19.90", "49.41345,8.70967,114", "latencies_ms=112,340,97,1250", "a,120,340,b"] {
            assert!(is_listing(line), "{line}");
        }
        for line in ["1,234,567 people", "1,234", "12,5 km", "Ann, Bob, 120,340 and 7", "", ",", "a, b, c"] {
            assert!(!is_listing(line), "{line}");
        }
    }
}
