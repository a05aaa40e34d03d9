//! Folding what hides an id from the eye: one symbol of a text as a reader sees it. Pure.
//!
//! Invisible characters and markup are told apart from letters; full-width and mathematical letters,
//! escapes, entities and short tags are resolved. It never changes the text.

use unicode_normalization::char::decompose_compatible;

/// Bytes of the longest tag or comment that is taken for markup.
const TAG_BYTES_MAX: usize = 160;
/// Bytes of the longest entity.
const ENTITY_BYTES_MAX: usize = 20;
/// Backslashes that may stand before one underscore.
const BACKSLASHES_MAX: usize = 4;
/// Tags that show nothing themselves.
const INLINE_TAGS: [&str; 25] = [
    "a", "b", "big", "bdi", "bdo", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s", "samp", "small", "span", "strong",
    "sub", "sup", "tt", "u", "var", "wbr",
];
/// Named entities that matter here.
const ENTITIES: [(&str, char); 12] = [
    ("lowbar;", '_'),
    ("UnderBar;", '_'),
    ("hyphen;", '-'),
    ("dash;", '-'),
    ("shy;", '\u{ad}'),
    ("ZeroWidthSpace;", '\u{200b}'),
    ("zwj;", '\u{200d}'),
    ("zwnj;", '\u{200c}'),
    ("NoBreak;", '\u{2060}'),
    ("nbsp;", '\u{a0}'),
    ("quot;", '"'),
    ("colon;", ':'),
];

/// What a byte begins, for the quick way through plain text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// A letter, digit, `_` or `-`.
    Word,
    /// Something that ends a run.
    Breaker,
    /// Something that [`next`] must look at.
    Special,
}

/// [`Class`] by byte.
pub(super) const CLASSES: [Class; 256] = {
    let mut classes = [Class::Breaker; 256];
    let mut byte = 0_usize;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'-' {
            classes[byte] = Class::Word;
        } else if b >= 0x80 || matches!(b, b'*' | b'`' | b'~' | b'\\' | b'<' | b'&' | b'%') {
            classes[byte] = Class::Special;
        }
        byte += 1;
    }
    classes
};

/// Up to four letters that one character folds to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Letters {
    bytes: [u8; 4],
    length: u8,
}

impl Letters {
    fn one(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }

    /// The letters.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// What a reader sees.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Symbol {
    /// Letters, digits, `_`, `-`.
    Word(Letters),
    /// Nothing.
    Invisible,
    /// Markup of this character: `*`, `` ` ``, `~`, or `<` for a tag.
    Markup(char),
    /// White space of this character.
    Blank(char),
    /// Anything else, folded.
    Other(char),
}

/// The symbol that `rest` begins with, and its bytes. `None`: more text is needed to say, or there is none.
pub(super) fn next(rest: &str, last: bool) -> Option<(Symbol, usize)> {
    let first = rest.chars().next()?;
    match first {
        '\\' => escape(rest, last),
        '<' => tag(rest, last),
        '&' => entity(rest, last),
        '%' => percent(rest, last),
        _ => Some((fold(first), first.len_utf8())),
    }
}

/// `text` with its disguises taken off: what stands there to the eye.
pub(super) fn plain(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((symbol, length)) = next(rest, true) {
        match symbol {
            Symbol::Word(letters) => seen.extend(letters.as_bytes().iter().copied().map(char::from)),
            Symbol::Blank(c) | Symbol::Other(c) => seen.push(c),
            Symbol::Markup(_) | Symbol::Invisible => {}
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    seen
}

fn fold(c: char) -> Symbol {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => Symbol::Word(Letters::one(c as u8)),
            '*' | '`' | '~' => Symbol::Markup(c),
            ' ' | '\t' | '\n' | '\r' => Symbol::Blank(c),
            _ => Symbol::Other(c),
        };
    }
    match u32::from(c) {
        // Scripts that fold to themselves: kana, Han, Hangul, Cyrillic, Latin with accents, Greek.
        0x3041..=0x30ff | 0x4e00..=0x9fff | 0xac00..=0xd7a3 | 0x400..=0x52f | 0xc0..=0x131 | 0x391..=0x3c9 => Symbol::Other(c),
        0x2010 | 0x2011 | 0x2212 => Symbol::Word(Letters::one(b'-')),
        point if is_invisible(point) => Symbol::Invisible,
        _ if c.is_whitespace() => Symbol::Blank(c),
        _ => fold_compatible(c),
    }
}

fn fold_compatible(c: char) -> Symbol {
    let (mut letters, mut first, mut words) = (Letters { bytes: [0; 4], length: 0 }, None, true);
    decompose_compatible(c, |part| {
        first.get_or_insert(part);
        let legal = part.is_ascii_alphanumeric() || part == '_' || part == '-';
        match letters.bytes.get_mut(usize::from(letters.length)) {
            Some(slot) if legal => {
                *slot = part as u8;
                letters.length += 1;
            }
            Some(_) | None => words = false,
        }
    });
    if words && letters.length > 0 {
        return Symbol::Word(letters);
    }
    Symbol::Other(first.filter(char::is_ascii).unwrap_or(c))
}

/// Default-ignorable code points (Unicode, `DerivedCoreProperties.txt`), and combining marks, which
/// strike letters through without changing how they read.
fn is_invisible(point: u32) -> bool {
    matches!(point,
        0xad | 0x300..=0x36f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff
        | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0x20d0..=0x20f0 | 0x3164 | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f
        | 0xfeff | 0xffa0 | 0xfff0..=0xfff8 | 0x1_bca0..=0x1_bca3 | 0x1_d173..=0x1_d17a | 0xe_0000..=0xe_0fff)
}

fn escape(rest: &str, last: bool) -> Option<(Symbol, usize)> {
    let slashes = rest.bytes().take(BACKSLASHES_MAX).take_while(|b| *b == b'\\').count();
    let after = rest.as_bytes().get(slashes).copied();
    let itself = Some((Symbol::Other('\\'), 1));
    match after {
        None if !last && slashes < BACKSLASHES_MAX => None,
        None => itself,
        Some(byte @ (b'_' | b'-')) => Some((Symbol::Word(Letters::one(byte)), slashes + 1)),
        Some(_) if slashes > 1 => itself,
        Some(b'u') => unicode_escape(rest, last),
        Some(b'n' | b'r') => Some((Symbol::Blank('\n'), 2)),
        Some(b't') => Some((Symbol::Blank('\t'), 2)),
        Some(byte) if byte.is_ascii_punctuation() => Some((Symbol::Other(char::from(byte)), 2)),
        Some(_) => itself,
    }
}

/// `\u005f`, and surrogate pairs of two such.
fn unicode_escape(rest: &str, last: bool) -> Option<(Symbol, usize)> {
    let itself = Some((Symbol::Other('\\'), 1));
    let unit = |at: usize| -> Result<u32, bool> {
        let digits = rest.as_bytes().get(at..).unwrap_or_default();
        let count = digits.iter().take(4).take_while(|b| b.is_ascii_hexdigit()).count();
        if count < 4 {
            return Err(count == digits.len());
        }
        rest.get(at..at + 4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).ok_or(false)
    };
    let first = match unit(2) {
        Ok(first) => first,
        Err(true) if !last => return None,
        Err(_) => return itself,
    };
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first).map_or(Symbol::Other('\u{fffd}'), fold), 6));
    }
    let second = rest.get(6..).unwrap_or_default();
    if !last && second.len() < 2 && "\\u".starts_with(second) {
        return None;
    }
    match (second.starts_with("\\u"), unit(8)) {
        (true, Ok(second)) if (0xdc00..0xe000).contains(&second) => {
            let point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Some((char::from_u32(point).map_or(Symbol::Other('\u{fffd}'), fold), 12))
        }
        (true, Err(true)) if !last => None,
        (_, _) => Some((Symbol::Other('\u{fffd}'), 6)),
    }
}

fn tag(rest: &str, last: bool) -> Option<(Symbol, usize)> {
    let itself = Some((Symbol::Other('<'), 1));
    let window = rest.get(..rest.floor_char_boundary(TAG_BYTES_MAX)).unwrap_or(rest);
    let more = !last && rest.len() < TAG_BYTES_MAX;
    let closed = |end: Option<usize>| match end {
        Some(length) => Some((Symbol::Markup('<'), length)),
        None if more => None,
        None => itself,
    };
    let inside = window.get(1..).unwrap_or_default();
    if inside.starts_with("!--") {
        return closed(window.find("-->").map(|at| at + 3));
    }
    if more && "!--".starts_with(inside) {
        return None;
    }
    let body = inside.strip_prefix('/').unwrap_or(inside);
    let name = body.get(..body.bytes().take_while(u8::is_ascii_alphabetic).count()).unwrap_or_default();
    let after = body.get(name.len()..).unwrap_or_default();
    let begins = |tag: &&str| tag.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if after.is_empty() {
        return if more && INLINE_TAGS.iter().any(begins) { None } else { itself };
    }
    let known = INLINE_TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name));
    if !known || !after.starts_with(['>', '/', ' ', '\t']) {
        return itself;
    }
    match after.find(['>', '<', '\n']) {
        Some(at) if after.as_bytes().get(at) != Some(&b'>') => itself,
        end => closed(end.map(|at| window.len() - after.len() + at + 1)),
    }
}

fn entity(rest: &str, last: bool) -> Option<(Symbol, usize)> {
    let itself = Some((Symbol::Other('&'), 1));
    let body = rest.get(1..).unwrap_or_default();
    if let Some((name, c)) = ENTITIES.iter().find(|(name, _)| body.starts_with(name)) {
        return Some((fold(*c), name.len() + 1));
    }
    if !last && ENTITIES.iter().any(|(name, _)| name.starts_with(body)) {
        return None;
    }
    let Some(number) = body.strip_prefix('#') else { return itself };
    let (digits, radix) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let count = digits.chars().take(ENTITY_BYTES_MAX).take_while(|c| c.is_digit(radix)).count();
    match digits.as_bytes().get(count) {
        None if !last && count < ENTITY_BYTES_MAX => None,
        Some(b';') if count > 0 => {
            let point = digits.get(..count).and_then(|digits| u32::from_str_radix(digits, radix).ok());
            let length = rest.len() - digits.len() + count + 1;
            Some((point.and_then(char::from_u32).map_or(Symbol::Other('\u{fffd}'), fold), length))
        }
        Some(_) | None => itself,
    }
}

fn percent(rest: &str, last: bool) -> Option<(Symbol, usize)> {
    let body = rest.as_bytes().get(1..).unwrap_or_default();
    match body {
        [b'5', b'F' | b'f', ..] => Some((Symbol::Word(Letters::one(b'_')), 3)),
        [b'2', b'D' | b'd', ..] => Some((Symbol::Word(Letters::one(b'-')), 3)),
        [] | [b'5' | b'2'] if !last => None,
        _ => Some((Symbol::Other('%'), 1)),
    }
}
