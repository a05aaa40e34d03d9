//! Folds disguises of an id: reads a text symbol by symbol as a reader sees it. Pure.
//!
//! Tells invisible characters and markup from letters; resolves full-width, mathematical and look-alike letters, escapes, entities,
//! percent-encoding, tags, comments and empty links. Never changes the text.

use std::{borrow::Cow, sync::OnceLock};

use crate::claims::text_input::TextInput;
use unicode_normalization::char::decompose_compatible;

/// Bytes of the longest tag, comment or empty link that is taken for markup; a longer one is text.
pub(super) const TAG_BYTES_MAX: usize = 4096;
/// Digits of the longest numeric entity, leading zeros included.
const ENTITY_DIGITS_MAX: usize = 256;
/// Backslashes that may stand before one underscore.
const BACKSLASHES_MAX: usize = 4;
/// Tags that are invisible themselves.
const INLINE_TAGS: [&str; 25] = [
    "a", "b", "big", "bdi", "bdo", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s", "samp", "small", "span", "strong",
    "sub", "sup", "tt", "u", "var", "wbr",
];
/// Tags that break a line or show something: the texts on both sides aren't read as one word.
const BREAKING_TAGS: [&str; 44] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "button",
    "canvas",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "iframe",
    "img",
    "input",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];
/// Named entities that matter here; `true` for names that browsers also read without a semicolon.
const ENTITIES: [(&str, char, bool); 53] = [
    ("lowbar", '_', false),
    ("UnderBar", '_', false),
    ("hyphen", '-', false),
    ("dash", '-', false),
    ("minus", '-', false),
    ("shy", '\u{ad}', true),
    ("ZeroWidthSpace", '\u{200b}', false),
    ("NegativeVeryThinSpace", '\u{200b}', false),
    ("NegativeThinSpace", '\u{200b}', false),
    ("NegativeMediumSpace", '\u{200b}', false),
    ("NegativeThickSpace", '\u{200b}', false),
    ("zwj", '\u{200d}', false),
    ("zwnj", '\u{200c}', false),
    ("lrm", '\u{200e}', false),
    ("rlm", '\u{200f}', false),
    ("NoBreak", '\u{2060}', false),
    ("ApplyFunction", '\u{2061}', false),
    ("af", '\u{2061}', false),
    ("InvisibleTimes", '\u{2062}', false),
    ("it", '\u{2062}', false),
    ("InvisibleComma", '\u{2063}', false),
    ("ic", '\u{2063}', false),
    ("nbsp", '\u{a0}', true),
    ("NonBreakingSpace", '\u{a0}', false),
    ("ensp", ' ', false),
    ("emsp", ' ', false),
    ("thinsp", ' ', false),
    ("ThinSpace", ' ', false),
    ("hairsp", ' ', false),
    ("Tab", '\t', false),
    ("NewLine", '\n', false),
    ("quot", '"', true),
    ("QUOT", '"', true),
    ("apos", '\'', false),
    ("ldquo", '“', false),
    ("rdquo", '”', false),
    ("lsquo", '‘', false),
    ("rsquo", '’', false),
    ("colon", ':', false),
    ("equals", '=', false),
    ("comma", ',', false),
    ("period", '.', false),
    ("lpar", '(', false),
    ("rpar", ')', false),
    ("lbrack", '[', false),
    ("lsqb", '[', false),
    ("rsqb", ']', false),
    ("lcub", '{', false),
    ("lbrace", '{', false),
    ("rcub", '}', false),
    ("rbrace", '}', false),
    ("rarr", '→', false),
    ("rArr", '⇒', false),
];
/// Letters and digits of other scripts that look like those of ids (the relevant part of UTS #39).
const CONFUSABLES: [(char, &str); 49] = [
    ('a', "аɑα"),
    ('b', "ЬьƅᏏ"),
    ('c', "сϲⲥ\u{1d04}"),
    ('d', "ԁᏧ"),
    ('e', "еҽⲉ\u{1d07}"),
    ('f', "ẝꜰք"),
    ('g', "ɡց"),
    ('h', "һհ"),
    ('i', "іιı"),
    ('j', "јϳ"),
    ('k', "к"),
    ('m', "ᴍ"),
    ('n', "ոռɴ"),
    ('o', "оοօⲟᴏ"),
    ('p', "рρ"),
    ('q', "ԛ"),
    ('r', "гᴦ"),
    ('s', "ѕꜱ"),
    ('t', "тτᴛ"),
    ('u', "υսᴜ"),
    ('v', "ѵνᴠ"),
    ('w', "ԝѡᴡ"),
    ('x', "хχ"),
    ('y', "уγʏ"),
    ('z', "ᴢ"),
    ('A', "АΑᎪꓮᴀ"),
    ('B', "ВΒᏴꓐʙв"),
    ('C', "СϹᏟꓚ"),
    ('D', "ᎠꓓᴅԀ"),
    ('E', "ЕΕᎬꓰ"),
    ('F', "ϜꓝᖴҒ"),
    ('G', "ԌᏀꓖ"),
    ('H', "НΗᎻꓧн"),
    ('I', "ІΙӀꓲ"),
    ('J', "ЈͿᎫꓙ"),
    ('K', "КΚᏦꓗ"),
    ('M', "МΜᎷꓟм"),
    ('N', "ΝꓠИ"),
    ('O', "ОΟՕꓳ"),
    ('P', "РΡᏢꓑ"),
    ('S', "ЅՏᏚꓢ"),
    ('T', "ТΤᎢꓔ"),
    ('X', "ХΧꓫ"),
    ('Y', "УΥҮꓬ"),
    ('Z', "ΖᏃꓜ"),
    ('3', "ЗзƷʒȜ"),
    ('5', "Ƽ"),
    ('6', "бᏮ"),
    ('_', "ˍ‗▁"),
];
/// The zeros of decimal digits of other scripts; nine more follow each (Unicode, `Nd`).
const ZEROS: [u32; 22] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x17e0, 0x1810,
    0x1946, 0xa620, 0xa8d0,
];

/// Class of a byte, for the fast path through plain text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// A letter, digit, `_` or `-`.
    Word,
    /// A byte that ends a run.
    Breaker,
    /// A byte that [`next`] must look at.
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
        } else if b >= 0x80 || is_control(b) || matches!(b, b'*' | b'`' | b'~' | b'\\' | b'<' | b'&' | b'%' | b'[' | b']' | b'!') {
            classes[byte] = Class::Special;
        }
        byte += 1;
    }
    classes
};

/// True for control characters, which are invisible.
const fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r') || byte == 0x7f
}

/// Up to four letters that one character folds to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FoldedLetters {
    bytes: [u8; 4],
    length: u8,
}

impl FoldedLetters {
    fn one(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], length: 1 }
    }

    /// The letters.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// A symbol as a reader sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum VisibleSymbol {
    /// Letters, digits, `_`, `-`.
    Word(FoldedLetters),
    /// Something invisible.
    Invisible,
    /// Markup of this character: `*`, `` ` ``, `~`, or `<` for a tag or comment.
    Markup(char),
    /// A tag that may be visible, such as `<id>`: markup inside an id, else text.
    Tag,
    /// White space of this character.
    Blank(char),
    /// Anything else, folded.
    Other(char),
}

/// The first symbol of `rest`, and its bytes. `None`: more text is needed to decide, or there is none.
pub(super) fn next(rest: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let first = rest.chars().next()?;
    match first {
        '\\' => escape(rest, input),
        '<' => tag(rest, input),
        '&' => entity(rest, input),
        '%' => percent(rest, input),
        '[' | '!' => empty_link(rest, input),
        _ => Some((fold(first), first.len_utf8())),
    }
}

/// `text` without its disguises, as a reader sees it.
pub(super) fn plain(text: &str) -> String {
    plain_so_far(text, TextInput::Complete)
}

/// Like [`plain_so_far`]; borrowed where nothing is disguised.
pub(super) fn visible_so_far(text: &str, input: TextInput) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| CLASSES[usize::from(byte)] != Class::Special);
    if plain { Cow::Borrowed(text) } else { Cow::Owned(plain_so_far(text, input)) }
}

/// Like [`plain`]; if the input is partial, without a symbol at the end that more text is needed for.
pub(super) fn plain_so_far(text: &str, input: TextInput) -> String {
    let mut seen = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        // What stands for itself, as nearly all does.
        let own = rest.bytes().position(|byte| CLASSES[usize::from(byte)] == Class::Special).unwrap_or(rest.len());
        seen.push_str(rest.get(..own).unwrap_or_default());
        rest = rest.get(own..).unwrap_or_default();
        let Some((symbol, length)) = next(rest, input) else { break };
        match symbol {
            VisibleSymbol::Word(letters) => seen.extend(letters.as_bytes().iter().copied().map(char::from)),
            VisibleSymbol::Blank(c) | VisibleSymbol::Other(c) => seen.push(c),
            VisibleSymbol::Markup(_) | VisibleSymbol::Invisible | VisibleSymbol::Tag => {}
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    seen
}

fn fold(c: char) -> VisibleSymbol {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => VisibleSymbol::Word(FoldedLetters::one(c as u8)),
            '*' | '`' | '~' => VisibleSymbol::Markup(c),
            ' ' | '\t' | '\n' | '\r' => VisibleSymbol::Blank(c),
            _ if c.is_ascii_control() => VisibleSymbol::Invisible,
            _ => VisibleSymbol::Other(c),
        };
    }
    match u32::from(c) {
        // Scripts that fold to themselves: kana, Han, Hangul, Latin with accents.
        0x3041..=0x30ff | 0x4e00..=0x9fff | 0xac00..=0xd7a3 | 0xc0..=0x130 => VisibleSymbol::Other(c),
        0x85 | 0x2800 => VisibleSymbol::Blank(c),
        0x80..=0x9f => VisibleSymbol::Invisible,
        0x2010..=0x2012 | 0x2043 | 0x2212 => VisibleSymbol::Word(FoldedLetters::one(b'-')),
        point if is_invisible(point) => VisibleSymbol::Invisible,
        _ if c.is_whitespace() => VisibleSymbol::Blank(c),
        _ => match confusable(c) {
            Some(letter) => VisibleSymbol::Word(FoldedLetters::one(letter)),
            // Cyrillic and Greek.
            None if matches!(u32::from(c), 0x370..=0x52f) => VisibleSymbol::Other(c),
            None => fold_compatible(c),
        },
    }
}

/// The ASCII letter or digit that `c` looks like.
fn confusable(c: char) -> Option<u8> {
    static BY_CHARACTER: OnceLock<Vec<(char, u8)>> = OnceLock::new();
    let table = BY_CHARACTER.get_or_init(|| {
        let letters = CONFUSABLES.iter().flat_map(|(letter, others)| others.chars().map(|other| (other, *letter as u8)));
        let digit = |zero: u32, digit: u8| Some((char::from_u32(zero + u32::from(digit))?, b'0' + digit));
        let digits = ZEROS.iter().flat_map(|zero| (0..10).filter_map(move |value| digit(*zero, value)));
        let mut table: Vec<(char, u8)> = letters.chain(digits).collect();
        table.sort_unstable();
        table
    });
    let at = table.binary_search_by_key(&c, |(other, _)| *other).ok()?;
    table.get(at).map(|(_, letter)| *letter)
}

fn fold_compatible(c: char) -> VisibleSymbol {
    let (mut letters, mut first, mut words) = (FoldedLetters { bytes: [0; 4], length: 0 }, None, true);
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
        return VisibleSymbol::Word(letters);
    }
    VisibleSymbol::Other(first.filter(char::is_ascii).unwrap_or(c))
}

/// Default-ignorable code points (Unicode, `DerivedCoreProperties.txt`), and combining marks, which
/// strike letters through without changing how they read.
fn is_invisible(point: u32) -> bool {
    matches!(point,
        0xad | 0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x61c | 0x64b..=0x65f | 0x670 | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff
        | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0x20d0..=0x20f0 | 0x3164 | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f
        | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0x1_bca0..=0x1_bca3 | 0x1_d173..=0x1_d17a | 0xe_0000..=0xe_0fff)
}

fn escape(rest: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let slashes = rest.bytes().take(BACKSLASHES_MAX).take_while(|b| *b == b'\\').count();
    let after = rest.as_bytes().get(slashes).copied();
    let itself = Some((VisibleSymbol::Other('\\'), 1));
    match after {
        None if input.is_partial() && slashes < BACKSLASHES_MAX => None,
        None => itself,
        Some(byte @ (b'_' | b'-')) => Some((VisibleSymbol::Word(FoldedLetters::one(byte)), slashes + 1)),
        Some(_) if slashes > 1 => itself,
        Some(b'u') => unicode_escape(rest, input),
        Some(b'n' | b'r') => Some((VisibleSymbol::Blank('\n'), 2)),
        Some(b't') => Some((VisibleSymbol::Blank('\t'), 2)),
        Some(byte) if byte.is_ascii_punctuation() => Some((VisibleSymbol::Other(char::from(byte)), 2)),
        Some(_) => itself,
    }
}

/// Reads `\u005f`, and surrogate pairs of two such escapes.
fn unicode_escape(rest: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let itself = Some((VisibleSymbol::Other('\\'), 1));
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
        Err(true) if input.is_partial() => return None,
        Err(_) => return itself,
    };
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first).map_or(VisibleSymbol::Other('\u{fffd}'), fold), 6));
    }
    let second = rest.get(6..).unwrap_or_default();
    if input.is_partial() && second.len() < 2 && "\\u".starts_with(second) {
        return None;
    }
    match (second.starts_with("\\u"), unit(8)) {
        (true, Ok(second)) if (0xdc00..0xe000).contains(&second) => {
            let point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Some((char::from_u32(point).map_or(VisibleSymbol::Other('\u{fffd}'), fold), 12))
        }
        (true, Err(true)) if input.is_partial() => None,
        (_, _) => Some((VisibleSymbol::Other('\u{fffd}'), 6)),
    }
}

fn tag(rest: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let itself = Some((VisibleSymbol::Other('<'), 1));
    let window = rest.get(..rest.floor_char_boundary(TAG_BYTES_MAX)).unwrap_or(rest);
    let more = input.is_partial() && rest.len() < TAG_BYTES_MAX;
    let closed = |symbol: VisibleSymbol, end: Option<usize>| match end {
        Some(length) => Some((symbol, length)),
        None if more => None,
        None => itself,
    };
    let inside = window.get(1..).unwrap_or_default();
    if inside.starts_with("!--") {
        let body = window.get(4..).unwrap_or_default();
        // `<!-->` and `<!--->` are whole comments in HTML.
        let short = [">", "->"].iter().find(|end| body.starts_with(**end)).map(|end| 4 + end.len());
        return closed(VisibleSymbol::Markup('<'), short.or_else(|| memchr::memmem::find(body.as_bytes(), b"-->").map(|at| at + 7)));
    }
    if more && "!--".starts_with(inside) {
        return None;
    }
    // `<!…>` and `<?…?>`: declarations and instructions.
    if inside.starts_with(['!', '?']) {
        return match inside.find(['>', '<', '\n']) {
            Some(at) if inside.as_bytes().get(at) != Some(&b'>') => itself,
            end => closed(VisibleSymbol::Markup('<'), end.map(|at| at + 2)),
        };
    }
    let body = inside.strip_prefix('/').unwrap_or(inside);
    let length = body.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b':' | b'_')).count();
    let name = body.get(..length).unwrap_or_default();
    let after = body.get(length..).unwrap_or_default();
    if after.is_empty() {
        // A letter begins a tag's name.
        let begins = name.is_empty() || name.starts_with(|c: char| c.is_ascii_alphabetic());
        return if more && begins { None } else { itself };
    }
    let is = |tags: &[&str]| tags.iter().any(|tag| tag.eq_ignore_ascii_case(name));
    let legal = name.starts_with(|c: char| c.is_ascii_alphabetic()) && after.starts_with(['>', '/', ' ', '\t', '\n', '\r']);
    // What is named after an execution, or says something of one, is read as text.
    if !legal || is(&BREAKING_TAGS) || is_label(name) {
        return itself;
    }
    let end = match tag_end(after) {
        TagEnd::At(at) => Some(window.len() - after.len() + at + 1),
        TagEnd::Never => return itself,
        TagEnd::Unknown => None,
    };
    closed(if is(&INLINE_TAGS) { VisibleSymbol::Markup('<') } else { VisibleSymbol::Tag }, end)
}

/// True if a tag's name begins as a label's does.
fn is_label(name: &str) -> bool {
    name.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("execution"))
}

enum TagEnd {
    At(usize),
    /// Another tag begins before this one ends.
    Never,
    Unknown,
}

/// End of a tag; the contents of its quoted attributes don't count. Looks at each byte once: a `<` outside quotes ends it.
fn tag_end(attributes: &str) -> TagEnd {
    let bytes = attributes.as_bytes();
    let mut at = 0;
    while let Some(offset) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'>' | b'<' | b'"' | b'\''))) {
        at += offset;
        match bytes.get(at) {
            Some(b'>') => return TagEnd::At(at),
            Some(quote @ (b'"' | b'\'')) => match bytes.get(at + 1..).and_then(|rest| memchr::memchr(*quote, rest)) {
                Some(length) => at += length + 2,
                None => return TagEnd::Unknown,
            },
            Some(_) | None => return TagEnd::Never,
        }
    }
    TagEnd::Unknown
}

/// Reads `[](…)`, `[][…]`, `![](…)`: links without words are invisible.
fn empty_link(rest: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let first = rest.chars().next().unwrap_or('[');
    let itself = Some((VisibleSymbol::Other(first), 1));
    let bang = usize::from(first == '!');
    let body = rest.get(bang..).unwrap_or_default();
    let at = 1;
    if !body.starts_with('[') {
        return if body.is_empty() && input.is_partial() { None } else { itself };
    }
    let close = match (body.as_bytes().get(at), body.as_bytes().get(at + 1)) {
        (Some(b']'), Some(b'(')) => b')',
        (Some(b']'), Some(b'[')) => b']',
        (None, _) | (Some(b']'), None) if input.is_partial() => return None,
        (_, _) => return itself,
    };
    let window = body.as_bytes().get(at + 2..body.len().min(TAG_BYTES_MAX)).unwrap_or_default();
    match memchr::memchr2(close, b'\n', window) {
        Some(end) if window.get(end) == Some(&close) => Some((VisibleSymbol::Invisible, bang + at + 2 + end + 1)),
        None if input.is_partial() && body.len() < TAG_BYTES_MAX => None,
        Some(_) | None => itself,
    }
}

fn entity(rest: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let itself = Some((VisibleSymbol::Other('&'), 1));
    let body = rest.get(1..).unwrap_or_default();
    let Some(number) = body.strip_prefix('#') else { return named_entity(body, input) };
    let (digits, radix) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let count = digits.bytes().take(ENTITY_DIGITS_MAX).take_while(|byte| char::from(*byte).is_digit(radix)).count();
    let ended = match digits.as_bytes().get(count) {
        None if input.is_partial() && count < ENTITY_DIGITS_MAX => return None,
        Some(b';') => 1,
        // Browsers read `&#95x` too.
        Some(_) | None => 0,
    };
    if count == 0 || count == ENTITY_DIGITS_MAX {
        return itself;
    }
    let point = digits.get(..count).and_then(|digits| u32::from_str_radix(digits, radix).ok());
    let length = rest.len() - digits.len() + count + ended;
    Some((point.and_then(char::from_u32).map_or(VisibleSymbol::Other('\u{fffd}'), fold), length))
}

fn named_entity(body: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let length = body.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (name, after) = body.split_at(length);
    if after.is_empty() && input.is_partial() && ENTITIES.iter().any(|(known, ..)| known.starts_with(name)) {
        return None;
    }
    if after.starts_with(';')
        && let Some((_, c, _)) = ENTITIES.iter().find(|(known, ..)| *known == name)
    {
        return Some((fold(*c), length + 2));
    }
    let bare = ENTITIES.iter().find(|(known, _, bare)| *bare && name.starts_with(known));
    match bare {
        Some((known, ..)) if after.is_empty() && input.is_partial() && known.len() == length => None,
        Some((known, c, _)) => Some((fold(*c), known.len() + 1)),
        None => Some((VisibleSymbol::Other('&'), 1)),
    }
}

fn percent(rest: &str, input: TextInput) -> Option<(VisibleSymbol, usize)> {
    let digit = |at: usize| rest.as_bytes().get(at).map(|byte| char::from(*byte).to_digit(16));
    let (high, low) = match (digit(1), digit(2)) {
        (None, _) | (Some(Some(_)), None) if input.is_partial() => return None,
        (Some(Some(high)), Some(Some(low))) => (high, low),
        (_, _) => return Some((VisibleSymbol::Other('%'), 1)),
    };
    match u8::try_from(high * 16 + low) {
        Ok(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') => Some((VisibleSymbol::Word(FoldedLetters::one(byte)), 3)),
        Ok(byte @ (b':' | b'=' | b'"' | b'\'')) => Some((VisibleSymbol::Other(char::from(byte)), 3)),
        Ok(_) | Err(_) => Some((VisibleSymbol::Other('%'), 1)),
    }
}
