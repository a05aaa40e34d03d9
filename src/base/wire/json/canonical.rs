//! Canonical JSON, so that a client that re-serialises a call's arguments still has the same call.
//!
//! RFC 8785: members sorted by UTF-16 units, ECMAScript numbers, shortest escapes. Integers beyond 2^53 keep their digits, to distinguish
//! calls, or become doubles, to match clients in JavaScript. Pure.

use std::{borrow::Cow, cmp::Ordering, fmt::Write as _};

use super::scan::plain_end;
use crate::wire::json::string::{quote_into, unescape};

/// Largest integer up to which all integers are exact as doubles.
const SAFE_INTEGER_MAX: u64 = 1 << 53;
const DEPTH_MAX: usize = 128;

/// Treatment of integers beyond 2^53.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Integers {
    /// Integers keep their digits.
    Verbatim,
    /// Integers are written as JavaScript writes them after reading them as doubles.
    Doubles,
}

/// The canonical form of `json`; `None` if it isn't a JSON document or is nested deeper than 128 levels. Integers beyond 2^53 keep their
/// digits.
pub fn canonical(json: &str) -> Option<String> {
    write(json, Integers::Verbatim)
}

/// The canonical form with every number as a double: strictly RFC 8785.
pub fn canonical_doubles(json: &str) -> Option<String> {
    write(json, Integers::Doubles)
}

/// Returns whether `digits`, a JSON number, is an integer beyond 2^53 in the form in which a reader of doubles writes it. Such a reader may
/// have rounded it.
pub fn may_be_rounded(digits: &str) -> bool {
    let Some(float) = digits.parse::<f64>().ok().filter(|float| float.is_finite()) else { return false };
    let large = float.abs() > SAFE_INTEGER_MAX as f64 && float.fract() == 0.0;
    large && (digits.contains(['.', 'e', 'E']) || ryu_js::Buffer::new().format_finite(float) == digits)
}

fn write(json: &str, integers: Integers) -> Option<String> {
    let mut cursor = JsonCursor { text: json, at: 0, integers };
    let mut out = String::with_capacity(json.len());
    cursor.blank();
    cursor.value(&mut out, 0)?;
    cursor.blank();
    (cursor.at == json.len()).then_some(out)
}

struct JsonCursor<'t> {
    text: &'t str,
    at: usize,
    integers: Integers,
}

impl<'t> JsonCursor<'t> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn blank(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.blank();
        (self.peek() == byte).then(|| self.at += 1)
    }

    // INVARIANT: depth is at most DEPTH_MAX, so the recursion is bounded.
    fn value(&mut self, out: &mut String, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.peek() {
            b'{' => self.object(out, depth),
            b'[' => self.array(out, depth),
            b'"' => {
                self.string(out)?;
                Some(())
            }
            b't' => self.word("true", out),
            b'f' => self.word("false", out),
            b'n' => self.word("null", out),
            b'-' | b'0'..=b'9' => self.number(out),
            _ => None,
        }
    }

    fn word(&mut self, word: &str, out: &mut String) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            out.push_str(word);
        })
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.at += 1;
        out.push('[');
        let mut first = true;
        while self.eat(b']').is_none() {
            if !first {
                self.eat(b',')?;
                out.push(',');
            }
            first = false;
            self.blank();
            self.value(out, depth + 1)?;
        }
        out.push(']');
        Some(())
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.at += 1;
        let start = out.len();
        out.push('{');
        let mut members: Vec<MemberSpan> = Vec::new();
        let mut sorted = true;
        while self.eat(b'}').is_none() {
            if !members.is_empty() {
                self.eat(b',')?;
                out.push(',');
            }
            self.blank();
            let start = out.len();
            self.string(out)?;
            let name = out.len();
            self.eat(b':')?;
            self.blank();
            out.push(':');
            self.value(out, depth + 1)?;
            let member = MemberSpan { start, name, end: out.len() };
            sorted &= members.last().is_none_or(|last| last.compare(&member, out).is_le());
            members.push(member);
        }
        if !sorted {
            let unsorted = out.split_off(start);
            out.push('{');
            for member in &mut members {
                *member = MemberSpan { start: member.start - start, name: member.name - start, end: member.end - start };
            }
            // Stable, so that members with the same name keep their order.
            members.sort_by(|one, other| one.compare(other, &unsorted));
            for (at, member) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(unsorted.get(member.start..member.end)?);
            }
        }
        out.push('}');
        Some(())
    }

    fn string(&mut self, out: &mut String) -> Option<()> {
        if self.peek() != b'"' {
            return None;
        }
        let rest = &self.text[self.at + 1..];
        let bytes = rest.as_bytes();
        let mut end = plain_end(bytes, 0);
        if bytes.get(end) == Some(&b'"') {
            // Contains nothing that has another spelling.
            out.push_str(self.text.get(self.at..self.at + end + 2)?);
            self.at += end + 2;
            return Some(());
        }
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        quote_into(out, &unescape(rest.get(..end)?));
        self.at += end + 2;
        Some(())
    }

    fn number(&mut self, out: &mut String) -> Option<()> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let digits = &rest[..end];
        self.at += end;
        let float: f64 = digits.parse().ok()?;
        let integer = !digits.contains(['.', 'e', 'E']);
        let safe = digits.parse::<i64>().ok().filter(|number| number.unsigned_abs() <= SAFE_INTEGER_MAX);
        if (integer && safe.is_none() && self.integers == Integers::Verbatim) || !float.is_finite() {
            out.push_str(digits);
        } else if let Some(number) = safe {
            // Writing to a String can't fail. `-0` is 0 here, as in RFC 8785.
            let _ = write!(out, "{number}");
        } else {
            out.push_str(ryu_js::Buffer::new().format_finite(float));
        }
        Some(())
    }
}

/// Positions of a member in the output: its start, the end of its quoted name, and its end.
struct MemberSpan {
    start: usize,
    name: usize,
    end: usize,
}

impl MemberSpan {
    /// Compares two members by the UTF-16 units of their names.
    fn compare(&self, other: &Self, written: &str) -> Ordering {
        let name = |member: &Self| written.get(member.start + 1..member.name - 1).unwrap_or_default();
        let (own, other) = (name(self), name(other));
        resolved(own).encode_utf16().cmp(resolved(other).encode_utf16())
    }
}

/// The text of a string, without its quotes, with escapes resolved.
fn resolved(inside: &str) -> Cow<'_, str> {
    if inside.contains('\\') { Cow::Owned(unescape(inside)) } else { Cow::Borrowed(inside) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        for (json, expected) in [
            (r#" { "b" : 1.0, "a" : [ 1e2 , "\u00e9\/" ] } "#, r#"{"a":[100,"é/"],"b":1}"#),
            ("12345678901234567890123", "12345678901234567890123"),
            ("9007199254740993", "9007199254740993"),
            ("-0", "0"),
            ("1.10", "1.1"),
            ("1e21", "1e+21"),
            (r#"{"€":1,"\r":2,"1":3,"😀":4,"ö":5}"#, r#"{"\r":2,"1":3,"ö":5,"€":1,"😀":4}"#),
            ("[]", "[]"),
            (r#"{"b":{"z":1,"y":[{"d":0,"c":0}]},"a":2}"#, r#"{"a":2,"b":{"y":[{"c":0,"d":0}],"z":1}}"#),
            (r#"{"a":1,"b":2,"a":0}"#, r#"{"a":1,"a":0,"b":2}"#),
            ("{\"a\tb\":\"\u{1}\"}", r#"{"a\tb":"\u0001"}"#),
            (r#"{"ab":1,"a\"":2,"a":3,"":4}"#, r#"{"":4,"a":3,"a\"":2,"ab":1}"#),
        ] {
            assert_eq!(canonical(json).as_deref(), Some(expected), "{json}");
        }
        for (json, expected) in [
            ("1234567890123456789", "1234567890123456800"),
            ("1234567890123456800", "1234567890123456800"),
            ("1.2345678901234568e+18", "1234567890123456800"),
            ("12345678901234567890123", "1.2345678901234568e+22"),
            ("-9007199254740993", "-9007199254740992"),
            ("9007199254740991", "9007199254740991"),
            ("[1,1.0,-0]", "[1,1,0]"),
        ] {
            assert_eq!(canonical_doubles(json).as_deref(), Some(expected), "{json}");
        }
        for (digits, rounded) in [
            ("1234567890123456800", true),
            ("1234567890123456789", false),
            ("1.2345678901234568e+18", true),
            ("9007199254740991", false),
            ("0.1234567890123456789", false),
            ("-9007199254740994", true),
        ] {
            assert_eq!(may_be_rounded(digits), rounded, "{digits}");
        }
        for json in ["", "{", "[1,]", "{\"a\":1,}", "tru", "1 2", "\"a", "{\"a\"}", "\"\\"] {
            assert_eq!(canonical(json), None, "{json}");
        }
        assert_eq!(canonical(&"[".repeat(100_000)), None);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Into::into),
            ".{0,8}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((".{0,4}", inner), 0..4).prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same with the members of every object in the opposite order.
    fn reversed(value: &serde_json::Value) -> String {
        match value {
            serde_json::Value::Array(items) => format!("[{}]", items.iter().map(reversed).collect::<Vec<_>>().join(", ")),
            serde_json::Value::Object(members) => {
                let member = |(name, value)| format!("{} :{}", serde_json::Value::String(Clone::clone(name)), reversed(value));
                format!("{{{}}}", members.iter().rev().map(member).collect::<Vec<_>>().join(","))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn order_does_not_count(value in json()) {
            prop_assert_eq!(canonical(&reversed(&value)), canonical(&value.to_string()));
        }

        #[test]
        fn layout_does_not_count(value in json()) {
            let plain = canonical(&value.to_string()).unwrap();
            prop_assert_eq!(&canonical(&serde_json::to_string_pretty(&value).unwrap()).unwrap(), &plain);
            prop_assert_eq!(&canonical(&plain).unwrap(), &plain);
        }

        #[test]
        fn never_panics(text in r#"[\[\]{}",:0-9eE+.\\/ untrfalsé-]{0,32}"#) {
            let _ = canonical(&text);
        }
    }
}
