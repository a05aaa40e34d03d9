//! Labels: `execution_id: X` in all its spellings, read from the end of the label's name. Pure.
//!
//! Reading starts over while the text is too short to say; [`READ_BYTES_MAX`] bounds what that costs.

use super::{
    around,
    fold::{self, Symbol},
    item::Label,
    shape,
};

/// Bytes that are read after a label's name.
const READ_BYTES_MAX: usize = 512;
/// Symbols between name and value.
const BETWEEN_MAX: usize = 24;
/// Bytes of most values.
const VALUE_BYTES: usize = 64;
/// Marks remembered on either side.
const MARKS_MAX: usize = 8;
/// Words that stand where a value would, have digits, and are types or ways of making one.
const TYPES: [&str; 22] = [
    "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "int32", "int64", "uint32", "uint64", "uuid1", "uuid4", "uuid7",
    "uuidv4", "uuidv7", "sha256", "base64", "md5",
];

/// How much of a label a word is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Name {
    /// All of it: `execution_id`.
    Whole,
    /// `execution`, which `id` must follow.
    Half,
}

/// What came of reading on.
#[derive(Debug)]
pub(super) enum Reading {
    /// More text is needed.
    More,
    /// No label, or none with a value.
    Nothing,
    /// A label; places count from where reading began.
    Found(Label),
}

/// The label that `word` is, or the first half of.
pub(super) fn name(word: &[u8]) -> Option<Name> {
    let word = trim(word);
    let whole = ["execution_id", "execution-id", "executionid"];
    if whole.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes())) {
        return Some(Name::Whole);
    }
    word.eq_ignore_ascii_case(b"execution").then_some(Name::Half)
}

fn trim(word: &[u8]) -> &[u8] {
    let inside = |b: &u8| *b != b'_';
    let start = word.iter().position(inside).unwrap_or(word.len());
    let end = word.iter().rposition(inside).map_or(start, |at| at + 1);
    word.get(start..end).unwrap_or_default()
}

/// True if `value` asserts an id: it has a digit, and is no type.
pub(super) fn asserts(value: &str) -> bool {
    value.bytes().any(|b| b.is_ascii_digit()) && !TYPES.iter().any(|name| value.eq_ignore_ascii_case(name))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    last: bool,
}

impl<'t> Reader<'t> {
    /// Takes what word characters of ASCII come next.
    fn plain(&mut self) -> &'t str {
        let rest = self.text.get(self.at..self.text.floor_char_boundary(READ_BYTES_MAX)).unwrap_or_default();
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')).count();
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// The next symbol, and where it starts. `Err`: nothing more, now or within the bound.
    fn next(&mut self) -> Result<(Symbol, usize), Reading> {
        if self.at >= READ_BYTES_MAX {
            return Err(Reading::Nothing);
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        match fold::next(rest, self.last) {
            Some((symbol, length)) => {
                let start = self.at;
                self.at += length;
                Ok((symbol, start))
            }
            None if self.last => Err(Reading::Nothing),
            None => Err(Reading::More),
        }
    }
}

/// Reads what follows a label's name.
pub(super) fn read(text: &str, name: Name, last: bool) -> Reading {
    let mut reader = Reader { text, at: 0, last };
    match read_label(&mut reader, name) {
        Ok(label) if label.text.is_empty() => Reading::Nothing,
        Ok(label) => Reading::Found(label),
        Err(reading) => reading,
    }
}

fn read_label(reader: &mut Reader, name: Name) -> Result<Label, Reading> {
    if name == Name::Half {
        second_half(reader)?;
    }
    let closers = separator(reader)?;
    let (openers, start) = opening(reader)?;
    value(reader, start, openers, closers)
}

fn second_half(reader: &mut Reader) -> Result<(), Reading> {
    let (mut blanks, mut word) = (0, String::new());
    loop {
        let before = reader.at;
        match reader.next()?.0 {
            Symbol::Blank(' ' | '\t' | '\u{a0}') if word.is_empty() && blanks < 3 => blanks += 1,
            Symbol::Markup(_) | Symbol::Invisible if word.is_empty() => {}
            Symbol::Word(letters) if blanks > 0 && word.len() < 3 => word.extend(letters.as_bytes().iter().copied().map(char::from)),
            _ if word.trim_end_matches('_').eq_ignore_ascii_case("id") => {
                reader.at = before;
                return Ok(());
            }
            _ => return Err(Reading::Nothing),
        }
    }
}

/// Up to the colon or equals sign; returns the marks closed before it.
fn separator(reader: &mut Reader) -> Result<String, Reading> {
    let mut closers = String::new();
    for _ in 0..BETWEEN_MAX {
        let mark = match reader.next()?.0 {
            Symbol::Other(':' | '=') => return Ok(closers),
            Symbol::Other(c @ ('"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」')) => c,
            Symbol::Markup(c) if c != '<' => c,
            Symbol::Blank(' ' | '\t' | '\u{a0}') | Symbol::Markup(_) | Symbol::Invisible => continue,
            Symbol::Word(_) | Symbol::Blank(_) | Symbol::Other(_) => return Err(Reading::Nothing),
        };
        if closers.chars().count() < MARKS_MAX {
            closers.push(mark);
        }
    }
    Err(Reading::Nothing)
}

/// Up to the value's first character; returns the marks opened before it, and its place.
fn opening(reader: &mut Reader) -> Result<(String, usize), Reading> {
    let mut openers = String::new();
    let mut lines = 0;
    for _ in 0..BETWEEN_MAX {
        let (symbol, start) = reader.next()?;
        let mark = match symbol {
            Symbol::Blank('\n') if lines == 2 => return Err(Reading::Nothing),
            Symbol::Blank(c) => {
                lines += usize::from(c == '\n');
                continue;
            }
            Symbol::Invisible | Symbol::Other(':' | '=' | '>') => continue,
            Symbol::Markup(c) if c != '<' => c,
            Symbol::Markup(_) => continue,
            Symbol::Other(c) if around::closer(c).is_some() => c,
            Symbol::Word(_) | Symbol::Other(_) => {
                reader.at = start;
                return Ok((openers, start));
            }
        };
        if openers.chars().count() < MARKS_MAX {
            openers.push(mark);
        }
    }
    Err(Reading::Nothing)
}

fn value(reader: &mut Reader, start: usize, openers: String, closers: String) -> Result<Label, Reading> {
    let quote = openers.chars().rfind(|c| matches!(c, '"' | '\'' | '`' | '“' | '‘' | '«' | '「')).and_then(around::closer);
    let mut text = String::with_capacity(VALUE_BYTES);
    let (mut end, mut called) = (start, false);
    loop {
        // Letters that stand for themselves, as nearly all do.
        let plain = reader.plain();
        if !plain.is_empty() {
            text.push_str(plain);
            end = reader.at;
        }
        let (symbol, _) = match reader.next() {
            Ok(next) => next,
            Err(Reading::More) => return Err(Reading::More),
            Err(_) => break,
        };
        match symbol {
            Symbol::Markup(c) | Symbol::Other(c) if quote == Some(c) => break,
            Symbol::Blank('\n') | Symbol::Markup('`') => break,
            Symbol::Blank(_) | Symbol::Other(',' | ';' | ')' | ']' | '}' | '|' | '"' | '\'' | '{' | '<' | '>' | '&') if quote.is_none() => {
                break;
            }
            Symbol::Other('(') if quote.is_none() => {
                called = !shape::is_id(&text);
                break;
            }
            Symbol::Other(c) if !c.is_ascii() && quote.is_none() => break,
            Symbol::Invisible | Symbol::Markup(_) => continue,
            Symbol::Word(letters) => text.extend(letters.as_bytes().iter().copied().map(char::from)),
            Symbol::Blank(c) | Symbol::Other(c) => text.push(c),
        }
        end = reader.at;
    }
    let kept = text.trim_end_matches(['.', ':', '!', '?']).len();
    if reader.text.get(..end).is_some_and(|read| read.ends_with(text.get(kept..).unwrap_or_default())) {
        end -= text.len() - kept;
        text.truncate(kept);
    }
    // `execution_id = uuid4()` calls something; it cites nothing.
    if called {
        text.clear();
    }
    Ok(Label { value: start..end, text, openers, closers })
}
