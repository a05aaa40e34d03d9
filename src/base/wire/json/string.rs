//! Texts in JSON strings: resolving and writing escapes. Pure.

use std::{borrow::Cow, fmt::Write as _};

use wide::u8x16;

use super::Value;

/// Text of a JSON string, whose escapes are resolved when it is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JsonText<'d> {
    /// A text without escapes, or one that isn't in a JSON string.
    Plain(&'d str),
    /// The inside of a JSON string with escapes.
    Escaped(&'d str),
}

impl<'d> JsonText<'d> {
    /// The text.
    pub fn get(self) -> Cow<'d, str> {
        match self {
            Self::Plain(text) => Cow::Borrowed(text),
            Self::Escaped(inside) => Cow::Owned(unescape(inside)),
        }
    }
}

/// Resolves the escapes of a JSON string, given without its quotes.
///
/// Expects a string that [`crate::wire::json`] has checked; a lone surrogate, which is valid JSON but not a character, becomes U+FFFD. RFC 8259,
/// section 7.
pub fn unescape(inside: &str) -> String {
    let bytes = inside.as_bytes();
    // No escape becomes longer than it is; more bytes, so that whole chunks always fit.
    let mut out: Vec<u8> = vec![0; bytes.len() + CHUNK];
    let (mut at, mut to) = (0, 0);
    while at < bytes.len() {
        // A chunk at a time; what comes from the escape on is overwritten.
        let ahead = bytes.get(at..).and_then(|rest| rest.first_chunk::<CHUNK>());
        if let (Some(chunk), Some(room)) = (ahead, out.get_mut(to..).and_then(|rest| rest.first_chunk_mut())) {
            *room = *chunk;
            let slashes = u8x16::new(*chunk).simd_eq(u8x16::splat(b'\\')).to_bitmask();
            let plain = (slashes | 1 << CHUNK).trailing_zeros() as usize;
            (at, to) = (at + plain, to + plain);
            if plain == CHUNK {
                continue;
            }
        } else if bytes[at] != b'\\' {
            out[to] = bytes[at];
            (at, to) = (at + 1, to + 1);
            continue;
        }
        let escape = bytes.get(at + 1).copied().unwrap_or(b'\\');
        at += 2;
        out[to] = match escape {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (unit, length) = unescape_unit(bytes.get(at..).unwrap_or_default());
                // At most four bytes, for an escape of at least six.
                to += unit.encode_utf8(&mut out[to..]).len();
                at += length;
                if length < 4 {
                    // Not valid JSON; its replacement is one byte longer than the escape.
                    out.push(0);
                }
                continue;
            }
            other => other,
        };
        to += 1;
    }
    out.truncate(to);
    // The input was UTF-8, and every escape became UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Length of the escape of half a surrogate pair, such as `\ud83d`, in bytes.
const HALF_BYTES: usize = 6;

/// True if the inside of a JSON string ends with a high surrogate.
fn opens_pair(inside: &str) -> bool {
    let Some(at) = inside.len().checked_sub(HALF_BYTES) else { return false };
    let Some(digits) = inside.get(at..).and_then(|end| end.strip_prefix("\\u")) else { return false };
    let high = u32::from_str_radix(digits, 16).is_ok_and(|unit| (0xd800..0xdc00).contains(&unit));
    // A backslash before it makes it two characters and four more.
    high && inside.bytes().take(at).rev().take_while(|byte| *byte == b'\\').count() % 2 == 0
}

/// Text of JSON strings that follow each other, as clients join them that count in UTF-16: a pair of surrogates may lie in two of them.
#[derive(Clone, Debug, Default)]
pub struct StringJoiner {
    /// Escape of a high surrogate, until the low surrogate arrives.
    half: String,
    /// The text of the last string isn't what it says by itself.
    respelled: bool,
}

impl StringJoiner {
    /// Text of the next string, with the high surrogate held back from the one before in front. A high surrogate at its end is held back
    /// for the next one. `None` if the value isn't a string.
    pub fn text<'v>(&mut self, string: Value<'v>) -> Option<Cow<'v, str>> {
        self.respelled = false;
        let JsonText::Escaped(inside) = string.json_text()? else {
            let text = string.text();
            if text.as_ref().is_none_or(|text| text.is_empty()) {
                return text;
            }
            let lost = std::mem::take(self).rest();
            self.respelled = !lost.is_empty();
            return if lost.is_empty() { text } else { text.map(|text| (lost.to_owned() + &text).into()) };
        };
        if self.half.is_empty() && !opens_pair(inside) {
            return string.text();
        }
        self.respelled = true;
        let mut joined = std::mem::take(&mut self.half) + inside;
        if opens_pair(&joined) {
            self.half = joined.split_off(joined.len() - HALF_BYTES);
        }
        Some(unescape(&joined).into())
    }

    /// True if the text of the last string isn't what it says by itself: whoever passes on the string must write the text instead.
    pub fn respelled(&self) -> bool {
        self.respelled
    }

    /// The half that is held back, as the character that stands for it; empty if there is none.
    pub fn rest(&self) -> &'static str {
        if self.half.is_empty() { "" } else { "\u{fffd}" }
    }
}

/// Bytes that are copied at once.
const CHUNK: usize = 16;

/// The character of the hex digits after `\u`, and their length in bytes.
fn unescape_unit(rest: &[u8]) -> (char, usize) {
    const LOST: char = '\u{fffd}';
    let unit = |at: &[u8]| std::str::from_utf8(at.get(..4)?).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let Some(first) = unit(rest) else { return (LOST, 0) };
    if (0xd800..0xdc00).contains(&first)
        && let Some(second) = rest.get(4..).and_then(|rest| rest.strip_prefix(b"\\u")).and_then(unit)
        && (0xdc00..0xe000).contains(&second)
    {
        let point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(point).unwrap_or(LOST), 10);
    }
    (char::from_u32(first).unwrap_or(LOST), 4)
}

/// Appends `text` as a JSON string, quotes included, with RFC 8785's escapes, the shortest ones.
pub fn quote_into(out: &mut String, text: &str) {
    out.push('"');
    escape_into(out, text);
    out.push('"');
}

/// Appends `text` escaped for the inside of a JSON string.
pub fn escape_into(out: &mut String, text: &str) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            8 => out.push_str("\\b"),
            12 => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                // Writing to a String can't fail.
                let _ = write!(out, "\\u{control:04x}");
            }
        }
    }
    out.push_str(&text[from..]);
}

/// `text` as a JSON string, quotes included.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(&mut out, text);
    out
}

/// `text` cut to at most `bytes_max` bytes, at a character boundary.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::json::Document;

    #[test]
    fn surrogates() {
        assert_eq!(unescape(r"\ud83d\ude00"), "😀");
        assert_eq!(unescape(r"\ud83dx"), "\u{fffd}x");
        assert_eq!(unescape(r"\ud83d\u0041"), "\u{fffd}A");
        assert_eq!(unescape(r"\/\u00e9"), "/é");
        assert_eq!(unescape(&r"\u".repeat(99)), "\u{fffd}".repeat(99));
        for (cut, whole) in
            [("\\", "\\"), ("\\u", "\u{fffd}"), ("\\u00", "\u{fffd}00"), ("1234567\\", "1234567\\"), ("12345678\\n", "12345678\n")]
        {
            assert_eq!(unescape(cut), whole, "{cut}");
        }
    }

    /// The texts of these strings, one behind the other, and what is held back at the end.
    fn joined(strings: &[String]) -> String {
        let document = Document::parse(format!("[{}]", strings.join(",")).into()).unwrap();
        let mut joiner = StringJoiner::default();
        let text: String = document.root().items().filter_map(|string| joiner.text(string)).collect();
        text + joiner.rest()
    }

    #[test]
    fn halves_without_the_other_half() {
        for (strings, text) in [
            (&[r#""a\ud83d""#, r#""b""#][..], "a\u{fffd}b"),
            (&[r#""a\ud83d""#, r#""""#, r#""\ude00b""#], "a😀b"),
            (&[r#""a\ud83d""#, r#""\ud83d\ude00""#], "a\u{fffd}😀"),
            (&[r#""a\\ud83d""#, r#""\ude00""#], "a\\ud83d\u{fffd}"),
            (&[r#""a""#, r#""\ud83d""#], "a\u{fffd}"),
        ] {
            let strings: Vec<String> = strings.iter().map(|string| (*string).to_owned()).collect();
            assert_eq!(joined(&strings), text, "{strings:?}");
        }
    }

    proptest! {
        /// However a text is cut between its UTF-16 units, its strings are joined to it again.
        #[test]
        fn strings_are_joined(text in "[a-z\\\\\"😀𝟏é ]{0,24}", cuts in prop::collection::vec(any::<bool>(), 64)) {
            let mut strings = vec![String::new()];
            for (unit, cut) in text.encode_utf16().zip(cuts) {
                if cut {
                    strings.push(String::new());
                }
                let last = strings.last_mut().unwrap();
                match char::from_u32(u32::from(unit)) {
                    Some(c) if c.is_ascii() => escape_into(last, c.encode_utf8(&mut [0; 4])),
                    _ => last.push_str(&format!("\\u{unit:04x}")),
                }
            }
            let strings: Vec<String> = strings.iter().map(|inside| format!("\"{inside}\"")).collect();
            prop_assert_eq!(joined(&strings), text);
        }

        #[test]
        fn round_trip(text in ".{0,64}") {
            let quoted = quote(&text);
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text.clone());
            prop_assert_eq!(unescape(&quoted[1..quoted.len() - 1]), text);
        }
    }
}
