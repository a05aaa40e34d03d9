//! Numbers as people and tools write them: separators of several countries, percent signs, magnitudes, units. Pure.
//!
//! A number that can be read in two ways (`1.234`) keeps both readings; a check that accepts one of them accepts it.
//! Signs are left out: `-5` and `minus 5` are the same to every check here.

use std::ops::Range;

use super::unit::{self, Unit};

/// Numbers read of one text.
pub const NUMBERS_MAX: usize = 20_000;

/// One way to read a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interpretation {
    /// Its value, magnitude applied.
    pub value: f64,
    /// The value of one unit of its last digit, magnitude applied.
    pub step: f64,
}

/// Precision with which a text states a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Precision {
    /// The digits are meant.
    Exact,
    /// `about 12`, `~12`.
    Approximate,
}

impl Precision {
    /// True if the value may lie somewhat beside the number.
    pub const fn is_approximate(self) -> bool {
        matches!(self, Self::Approximate)
    }
}

/// A number in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Byte range without the unit.
    pub span: Range<usize>,
    /// End of its unit or magnitude, in bytes.
    pub end: usize,
    /// One or two ways to read it.
    pub readings: [Option<Interpretation>; 2],
    /// A percent sign or word follows.
    pub percent: bool,
    /// A magnitude follows: `1.2 million`.
    pub scaled: bool,
    /// Its unit, if known.
    pub unit: Option<&'static Unit>,
    /// `3rd`, `3.` at the beginning of a line, `No. 3`.
    pub ordinal: bool,
}

impl Number {
    /// The readings.
    pub fn readings(&self) -> impl Iterator<Item = Interpretation> {
        self.readings.iter().flatten().copied()
    }

    /// It is a whole number without unit, percent or magnitude, as `12`: that one.
    pub fn whole(&self) -> Option<u64> {
        let [Some(reading), None] = self.readings else { return None };
        let whole = reading.step == 1.0 && !self.percent && !self.scaled && reading.value < 9e15;
        whole.then_some(reading.value as u64)
    }
}

impl Interpretation {
    /// Is this what `value` is when it is rounded or cut to as many digits?
    pub fn rounds(&self, value: f64) -> bool {
        let (shown, value) = (self.value, value.abs());
        let slack = value * 1e-9 + 1e-12;
        let rounded = (value - shown).abs() <= self.step / 2.0 + slack;
        let cut = self.step < 1.0 && value >= shown - slack && value - shown < self.step + slack;
        rounded || cut
    }

    /// Is it `value` within this share of it, as `about` allows?
    pub fn nears(&self, value: f64, share: f64) -> bool {
        (value.abs() - self.value).abs() <= value.abs() * share + 1e-9
    }
}

/// Does a digit stand right before or right behind this byte range, so that it is a part of a longer number?
pub fn is_within_digits(text: &[u8], span: Range<usize>) -> bool {
    let digit = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_digit);
    digit(span.start.checked_sub(1)) || digit(Some(span.end))
}

/// The numbers of a text, in order. Words that have digits in them (`a1`, `utf8`) are none.
pub fn numbers(text: &str) -> Vec<Number> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(offset) = bytes.get(at..).and_then(|rest| rest.iter().position(u8::is_ascii_digit)) {
        let start = at + offset;
        let (number, end) = read(text, start);
        found.extend(number);
        at = end.max(start + 1);
        if found.len() >= NUMBERS_MAX {
            break;
        }
    }
    found
}

/// Every value that the numbers of a text may have; of those that stand side by side and are read as one (`deck 3 112.2 t`), also
/// each of its own.
pub fn values(text: &str) -> Vec<f64> {
    let found = numbers(text);
    let joined = found.iter().filter_map(|number| text.get(number.span.clone())).filter(|number| number.contains(' '));
    let apart: Vec<Number> = joined.flat_map(|number| number.split(' ').flat_map(numbers)).collect();
    found.iter().chain(&apart).flat_map(Number::readings).map(|reading| reading.value).collect()
}

/// Fractions in one character, and how exactly they are meant.
const FRACTIONS: [(char, f64); 5] = [('½', 0.5), ('¼', 0.25), ('¾', 0.75), ('⅓', 1.0 / 3.0), ('⅔', 2.0 / 3.0)];
const FRACTION_STEP: f64 = 0.1;

/// Reads what begins with a digit at `start`: the number, and where to go on.
fn read(text: &str, start: usize) -> (Option<Number>, usize) {
    let before = text.get(..start).and_then(|text| text.chars().next_back());
    let in_word = before.is_some_and(joins_digits);
    let (plain, end) = match alone(text, start) {
        Some(end) => (reading(text.get(start..end).unwrap_or_default(), "").map(|only| [Some(only), None]), end),
        None => {
            let (groups, marks, end) = groups(text, start);
            (readings(&groups, &marks), end)
        }
    };
    // `7½`
    let fraction = FRACTIONS.iter().find(|(sign, _)| text.get(end..).is_some_and(|rest| rest.starts_with(*sign)));
    let (plain, end) = match fraction {
        Some((sign, part)) => {
            let with = |whole: Interpretation| Interpretation { value: whole.value + part, step: FRACTION_STEP };
            (plain.map(|readings| readings.map(|reading| reading.map(with))), end + sign.len_utf8())
        }
        None => (plain, end),
    };
    let rest = text.get(end..).unwrap_or_default();
    if in_word {
        let word = rest.find(|c: char| !joins_digits(c)).unwrap_or(rest.len());
        return (None, end + word);
    }
    let Some(plain) = plain else { return (None, end) };
    let suffix = unit::suffix(rest);
    let decimal = plain[1].is_none() && plain[0].is_some_and(|reading| reading.step < 1.0);
    if suffix.is_none() && !decimal && rest.starts_with(|c: char| joins_digits(c) && !c.is_numeric()) {
        // `3D`, `8b7f`: a name.
        let word = rest.find(|c: char| !joins_digits(c)).unwrap_or(rest.len());
        return (None, end + word);
    }
    let suffix = suffix.unwrap_or_default();
    let scale = |reading: Interpretation| Interpretation { value: reading.value * suffix.scale, step: reading.step * suffix.scale };
    // `第3`, `3号`: a place in an order.
    let hash = matches!(before, Some('#' | '№' | '第'))
        || rest.starts_with(['号', '號', '番'])
        || text.get(..start).is_some_and(|text| text.ends_with("No. ") || text.ends_with("Nr. "));
    let number = Number {
        span: start..end,
        end: end + suffix.length,
        readings: plain.map(|reading| reading.map(scale)),
        // `%25`, as Turkish writes it.
        percent: suffix.percent || suffix.unit.is_none() && before == Some('%') && !text.get(..start).is_some_and(ends_with_share),
        scaled: suffix.scale != 1.0,
        unit: suffix.unit,
        ordinal: suffix.ordinal || hash || heads_a_line(text, start, rest),
    };
    let next = number.end;
    (Some(number), next)
}

/// Does it end with a number and its percent sign: `5%`?
fn ends_with_share(before: &str) -> bool {
    before.strip_suffix('%').is_some_and(|before| before.trim_end().ends_with(|c: char| c.is_ascii_digit()))
}

/// Does this letter or digit, beside digits, make a name of them: `3D`, `utf8`? Scripts without blanks write numbers between their words.
fn joins_digits(c: char) -> bool {
    (c.is_alphanumeric() || c == '_') && !unit::is_spaceless(c)
}

/// `3.` or `3)` where a line begins.
fn heads_a_line(text: &str, start: usize, rest: &str) -> bool {
    let before = || text.get(..start).unwrap_or_default().chars().rev().take_while(|c| *c != '\n');
    rest.starts_with(['.', ')']) && before().all(|c| c.is_whitespace() || matches!(c, '*' | '#' | '>' | '(' | '-'))
}

/// End of digits that nothing joins to others, as is usual.
fn alone(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let end = start + bytes.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let joins = match bytes.get(end) {
        Some(b'.' | b',' | b'\'' | b'_' | b' ') => bytes.get(end + 1).is_some_and(u8::is_ascii_digit),
        Some(byte) => !byte.is_ascii(),
        None => false,
    };
    (!joins).then_some(end)
}

/// Digits in groups, and the marks between them.
fn groups(text: &str, start: usize) -> (Vec<&str>, Vec<char>, usize) {
    let (mut groups, mut marks, mut at) = (Vec::new(), Vec::new(), start);
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        groups.push(rest.get(..length).unwrap_or_default());
        at += length;
        let mut after = text.get(at..).unwrap_or_default().chars();
        let Some(mark) = after.next() else { break };
        let next = after.as_str();
        let three = next.bytes().take_while(u8::is_ascii_digit).count() == 3;
        let joins = match mark {
            '.' | ',' => next.starts_with(|c: char| c.is_ascii_digit()),
            '\'' | '’' | '_' | '\u{a0}' | '\u{202f}' | '\u{2009}' => three,
            // `12 345` is one number where the groups fit; `3 100` on its own may be two, but then both are read as one.
            ' ' => three && groups.last().is_some_and(|group| group.len() <= 3) && (marks.is_empty() || marks.contains(&' ')),
            _ => false,
        };
        if !joins || groups.len() > 8 {
            break;
        }
        marks.push(mark);
        at += mark.len_utf8();
    }
    (groups, marks, at)
}

/// Digits as a number.
fn reading(whole: &str, decimals: &str) -> Option<Interpretation> {
    // So many digits fit without rounding.
    let short = decimals.is_empty() && whole.len() <= 15;
    let value = if short { whole.parse::<u64>().ok()? as f64 } else { format!("{whole}.{decimals}0").parse().ok()? };
    Some(Interpretation { value, step: 10_f64.powi(-(i32::try_from(decimals.len()).unwrap_or(0))) })
}

/// Possible readings of groups of digits; `None` if they aren't a number: dates, versions, addresses.
fn readings(groups: &[&str], marks: &[char]) -> Option<[Option<Interpretation>; 2]> {
    let of = reading;
    let (last, heads) = groups.split_last()?;
    let Some(mark) = marks.last() else { return Some([of(last, ""), None]) };
    let thousands = |groups: &[&str]| {
        let (first, rest) = groups.split_first()?;
        ((1..=3).contains(&first.len()) && rest.iter().all(|group| group.len() == 3)).then(|| groups.concat())
    };
    let point = matches!(mark, '.' | ',');
    let same = marks.iter().all(|other| other == mark);
    match (same, marks.len(), point) {
        (true, 1, true) => {
            let decimal = of(heads.first()?, last);
            let joined = thousands(groups).filter(|_| !groups.first().is_some_and(|first| first.starts_with('0')));
            match joined {
                Some(joined) => Some([of(&joined, ""), decimal]),
                None => Some([decimal, None]),
            }
        }
        (true, _, _) => thousands(groups).map(|joined| [of(&joined, ""), None]),
        // The last mark is the point, the others part thousands.
        (false, _, true) => {
            let before = marks.split_last().map(|(_, before)| before).unwrap_or_default();
            let uniform = before.windows(2).all(|pair| pair.first() == pair.last());
            thousands(heads).filter(|_| uniform).map(|whole| [of(&whole, last), None])
        }
        (false, _, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Vec<f64>> {
        numbers(text).iter().map(|number| number.readings().map(|reading| reading.value).collect()).collect()
    }

    #[test]
    fn numbers_of_several_countries() {
        for (text, expected) in [
            ("12 and 3.5", vec![vec![12.0], vec![3.5]]),
            ("1,234", vec![vec![1234.0, 1.234]]),
            ("1.234.567,89 €", vec![vec![1_234_567.89]]),
            ("1,234,567.5", vec![vec![1_234_567.5]]),
            ("12 345 km", vec![vec![12_345.0]]),
            ("12\u{202f}345", vec![vec![12_345.0]]),
            ("1'000", vec![vec![1000.0]]),
            ("0,125", vec![vec![0.125]]),
            ("1.2 million, 3k, 4 Mio. and 2.5 Milliarden", vec![vec![1.2e6], vec![3e3], vec![4e6], vec![2.5e9]]),
            ("v1.2.3 at 10.0.0.1 utf8 a1 3D", vec![]),
            ("-5.5°C", vec![vec![5.5]]),
            ("420kWhで13,860円", vec![vec![420.0], vec![13_860.0, 13.860]]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(numbers("up 45% now").first().is_some_and(|number| number.percent));
        assert!(numbers("TL'nin %25'i").first().is_some_and(|number| number.percent));
        assert!(numbers("the 3rd").first().is_some_and(|number| number.ordinal));
        assert!(numbers("a\n2. b").first().is_some_and(|number| number.ordinal));
    }

    #[test]
    fn rounding() {
        for (shown, value, fits) in
            [("93", 93.4, true), ("93", 94.0, false), ("93.9", 93.97, true), ("93.5", 93.4, false), ("1.2 million", 1_234_567.0, true)]
        {
            let numbers = numbers(shown);
            assert_eq!(numbers[0].readings().any(|reading| reading.rounds(value)), fits, "{shown} {value}");
        }
    }

    #[test]
    fn fractions_in_one_character() {
        let value = |text: &str| numbers(text).first().and_then(|number| number.readings().next()).map(|reading| reading.value);
        assert_eq!(value("47½ hours"), Some(47.5));
        assert_eq!(value("1¼ tsp"), Some(1.25));
        assert_eq!(value("7 ½"), Some(7.0));
        assert_eq!(numbers("47½ hours").first().and_then(|number| number.unit).map(|unit| unit.dimension.as_str()), Some("time"));
    }
}
