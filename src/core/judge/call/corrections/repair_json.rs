//! Repairs arguments that are nearly a JSON object: code fences, trailing commas, Python literals, the same object repeated.
//!
//! Copies the text unchanged except for what has to go. Truncated text is never completed, and ambiguous text is left alone. Pure. Grammar
//! accepted besides JSON: Python's `repr` of a `dict`.

use crate::wire::json::{canonical::canonical, string::escape_into};

/// Levels of nesting.
const DEPTH_MAX: usize = 128;
/// Repetitions of the same object that are accepted.
const COPIES_MAX: usize = 8;

/// The JSON object that `text` was meant to be; `None` if that is ambiguous, or nothing is wrong with it.
pub(crate) fn mend(text: &str) -> Option<String> {
    let inside = unfenced(text)?;
    let mut mender = JsonRepairer { rest: inside, out: String::with_capacity(inside.len()), changed: inside.len() < text.len() };
    mender.blank();
    let start = mender.out.len();
    mender.object(0)?;
    let whole = mender.out.len();
    let first = canonical(mender.out.get(start..whole)?)?;
    for _ in 0..COPIES_MAX {
        mender.blank();
        if mender.rest.is_empty() {
            let mended = mender.out.get(start..whole)?.to_owned();
            return mender.changed.then_some(mended);
        }
        let again = mender.out.len();
        mender.object(0)?;
        if canonical(mender.out.get(again..)?)? != first {
            return None;
        }
        mender.changed = true;
    }
    None
}

/// The inside of a code fence; the text itself if there is none, `None` if the fence isn't closed.
fn unfenced(text: &str) -> Option<&str> {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```") else { return Some(text) };
    let inside = inside.strip_suffix("```")?.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    (!inside.contains("```")).then_some(inside.trim())
}

struct JsonRepairer<'t> {
    rest: &'t str,
    out: String,
    changed: bool,
}

impl<'t> JsonRepairer<'t> {
    fn peek(&self) -> u8 {
        self.rest.as_bytes().first().copied().unwrap_or(0)
    }

    /// Copies `bytes` bytes to the output.
    fn copy(&mut self, bytes: usize) -> Option<()> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.out.push_str(taken);
        self.rest = rest;
        Some(())
    }

    fn blank(&mut self) {
        let blank = self.rest.len() - self.rest.trim_start_matches([' ', '\n', '\r', '\t']).len();
        let _ = self.copy(blank);
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.blank();
        if self.peek() == byte { self.copy(1) } else { None }
    }

    // INVARIANT: depth is at most DEPTH_MAX, so the recursion is bounded.
    fn value(&mut self, depth: usize) -> Option<()> {
        self.blank();
        match self.peek() {
            b'{' => self.object(depth + 1),
            b'[' => self.list(b'[', b']', depth + 1, |own, depth| own.value(depth)),
            b'"' | b'\'' => self.string(),
            b'-' | b'0'..=b'9' => {
                let length =
                    self.rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')).count();
                self.copy(length)
            }
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.list(b'{', b'}', depth, |own, depth| {
            own.blank();
            own.string()?;
            own.eat(b':')?;
            own.value(depth)
        })
    }

    /// Elements between brackets; a trailing comma is dropped.
    fn list(&mut self, open: u8, close: u8, depth: usize, element: impl Fn(&mut Self, usize) -> Option<()>) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.eat(open)?;
        self.blank();
        if self.peek() == close {
            return self.copy(1);
        }
        loop {
            element(self, depth)?;
            self.blank();
            if self.peek() == close {
                return self.copy(1);
            }
            let comma = self.out.len();
            self.eat(b',')?;
            self.blank();
            if self.peek() == close {
                self.out.remove(comma);
                self.changed = true;
                return self.copy(1);
            }
        }
    }

    fn word(&mut self) -> Option<()> {
        let length = self.rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let json = match self.rest.get(..length)? {
            "true" | "false" | "null" => return self.copy(length),
            "True" => "true",
            "False" => "false",
            "None" => "null",
            _ => return None,
        };
        self.out.push_str(json);
        self.rest = self.rest.get(length..)?;
        self.changed = true;
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        match self.peek() {
            b'"' => {
                let mut escaped = false;
                let end = self.rest.bytes().skip(1).position(|byte| {
                    let ends = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    ends
                });
                self.copy(end? + 2)
            }
            b'\'' => self.python_string(),
            _ => None,
        }
    }

    /// A string in single quotes, as Python and JavaScript write it.
    fn python_string(&mut self) -> Option<()> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        let end = loop {
            match chars.next()? {
                (at, '\'') => break at,
                (_, '\\') => text.push(match chars.next()?.1 {
                    same @ ('\\' | '\'' | '"') => same,
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'x' => {
                        let mut digit = || chars.next()?.1.to_digit(16);
                        char::from_u32(digit()? * 16 + digit()?)?
                    }
                    // Rare, and not the same everywhere.
                    _ => return None,
                }),
                (_, c) if c.is_control() => return None,
                (_, c) => text.push(c),
            }
        };
        self.out.push('"');
        escape_into(&mut self.out, &text);
        self.out.push('"');
        self.rest = self.rest.get(end + 1..)?;
        self.changed = true;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mended() {
        for (text, mended) in [
            (r#"{"a":1,}"#, r#"{"a":1}"#),
            ("{\"a\": [1, 2 , ] ,\n}", "{\"a\": [1, 2  ] \n}"),
            ("```json\n{\"a\":1}\n```", r#"{"a":1}"#),
            ("  ```\n{ \"a\":\"```\" }", ""),
            ("``` {\"a\":1.50}```", r#"{"a":1.50}"#),
            (r#"{"a": True, "b": [None, False]}"#, r#"{"a": true, "b": [null, false]}"#),
            (r#"{'a': 'b', "c": "it's"}"#, r#"{"a": "b", "c": "it's"}"#),
            (r#"{'a': 'it\'s "so"\n\xe9'}"#, r#"{"a": "it's \"so\"\né"}"#),
            (r#"{"a":1}{"a":1}"#, r#"{"a":1}"#),
            ("{\"a\":1, \"b\":2}\n{ \"b\":2.0,\"a\":1 }", r#"{"a":1, "b":2}"#),
            (r#"{"a":"x, }","b":"True",}"#, r#"{"a":"x, }","b":"True"}"#),
            (r#"{"a":"\\",}"#, r#"{"a":"\\"}"#),
        ] {
            assert_eq!(mend(text), Some(mended.to_owned()).filter(|mended| !mended.is_empty()), "{text}");
        }
    }

    #[test]
    fn what_is_left_alone() {
        for text in [
            r#"{"a":1}"#,
            "",
            "null",
            r#"[{"a":1,}]"#,
            r#""{\"a\":1}""#,
            r#"{"a":1"#,
            r#"{"a":1,"#,
            r#"{"a":[1,}"#,
            r#"{"a":1,,}"#,
            r#"{,}"#,
            r#"{"a":1}{"a":2}"#,
            r#"{"a":1}{"a":1"#,
            r#"{"a":1}, {"a":1}"#,
            r#"{"a":1} I hope this helps"#,
            "```json\n{\"a\":1}",
            "```json\n{\"a\":1}\n```\n```json\n{\"a\":1}\n```",
            "Here: ```{\"a\":1}```",
            r#"{'a': 'it's'}"#,
            r#"{'a': 'b\u0041'}"#,
            r#"{'a': r'b'}"#,
            "{'a': 'b\nc'}",
            r#"{'a': ('b', 'c')}"#,
            r#"{a: 1}"#,
            r#"{"a": NaN,}"#,
            r#"{"a": undefined,}"#,
            r#"{"a": 1, # one"#,
            r#"{"a": Truest,}"#,
        ] {
            assert_eq!(mend(text), None, "{text}");
        }
        let deep = format!("{{\"a\":{}1,{}}}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(mend(&deep), None);
    }
}
