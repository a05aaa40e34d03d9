//! Blocks as models write them: JSON, JSON5, Python dicts, `key: value` lines, table rows. Read without complaint. Pure.

use crate::evidence::facts::{Scalar, scalar};

/// Nesting.
const DEPTH_MAX: usize = 64;
/// Values of one block.
const VALUES_MAX: usize = 5000;

/// A value of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum LenientNode {
    /// Members in their order.
    Object(Vec<(String, LenientNode)>),
    /// Elements.
    List(Vec<LenientNode>),
    /// A string in quotes.
    Text(String),
    /// A word without quotes.
    Bare(Scalar),
}

/// Reads a block that begins with a brace or bracket; what breaks off is read as far as it goes.
pub fn read(text: &str) -> LenientNode {
    LenientReader { text, at: 0, values: 0 }.value(0)
}

struct LenientReader<'t> {
    text: &'t str,
    at: usize,
    values: usize,
}

impl LenientReader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn value(&mut self, depth: usize) -> LenientNode {
        self.values += 1;
        let full = depth > DEPTH_MAX || self.values > VALUES_MAX;
        match self.peek() {
            Some('{') if !full => self.object(depth),
            Some('[' | '(') if !full => self.list(depth),
            Some(quote @ ('"' | '\'')) => LenientNode::Text(self.string(quote)),
            Some(_) | None => self.bare(),
        }
    }

    fn object(&mut self, depth: usize) -> LenientNode {
        self.take('{');
        let mut members = Vec::new();
        while let Some(c) = self.peek() {
            if self.take('}') {
                break;
            }
            if self.take(',') {
                continue;
            }
            let before = self.at;
            let name = match c {
                '"' | '\'' => self.string(c),
                _ => self.word(&[':', ',', '}']),
            };
            if self.take(':') {
                let value = self.value(depth + 1);
                members.push((name, value));
            }
            if self.at == before {
                self.at += c.len_utf8();
            }
        }
        LenientNode::Object(members)
    }

    fn list(&mut self, depth: usize) -> LenientNode {
        self.at += 1;
        let mut items = Vec::new();
        while let Some(c) = self.peek() {
            if self.take(']') || self.take(')') {
                break;
            }
            if self.take(',') {
                continue;
            }
            let before = self.at;
            items.push(self.value(depth + 1));
            if self.at == before {
                self.at += c.len_utf8();
            }
        }
        LenientNode::List(items)
    }

    fn string(&mut self, quote: char) -> String {
        self.at += quote.len_utf8();
        let mut text = String::new();
        let mut escaped = false;
        for c in self.text.get(self.at..).unwrap_or_default().chars() {
            self.at += c.len_utf8();
            match c {
                _ if escaped => {
                    text.push(match c {
                        'n' | 'r' | 't' => ' ',
                        c => c,
                    });
                    escaped = false;
                }
                '\\' => escaped = true,
                c if c == quote => break,
                c => text.push(c),
            }
        }
        text
    }

    fn word(&mut self, stops: &[char]) -> String {
        let rest = self.rest();
        let length = rest.find(|c| stops.contains(&c) || c == '\n').unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default().trim().to_owned();
        self.at += length;
        word
    }

    fn bare(&mut self) -> LenientNode {
        let word = self.word(&[',', '}', ']', ')']);
        LenientNode::Bare(scalar(&word))
    }
}

/// `key: value`, `- **Key**: value`, `| Key | value |`; `None` for any other line.
pub fn pair(line: &str) -> Option<(String, String)> {
    let bare = line.trim().trim_start_matches(['-', '*', '•', '+', '–', ' ']);
    let strip = |text: &str| text.trim().trim_matches(['*', '`', '_', '"', ' ']).to_owned();
    if let Some(row) = bare.strip_prefix('|') {
        let cells: Vec<&str> = row.trim_end_matches('|').split('|').collect();
        let [key, value] = cells.as_slice() else { return None };
        return Some((strip(key), strip(value))).filter(|(key, value)| !key.is_empty() && !value.is_empty() && !value.contains("---"));
    }
    let (key, value) = bare.split_once(':')?;
    let (key, value) = (strip(key), strip(value));
    let legal =
        !key.is_empty() && key.len() <= 48 && !value.is_empty() && !value.starts_with("//") && !key.ends_with(|c: char| c.is_ascii_digit());
    legal.then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let bare = |number: f64| LenientNode::Bare(Scalar::Number(number));
        let text = |text: &str| LenientNode::Text(text.to_owned());
        assert_eq!(
            read("{'a': 1, \"b\": [True, None, 'x\\'y'], c: {d: 2.5,},}"),
            LenientNode::Object(vec![
                ("a".into(), bare(1.0)),
                ("b".into(), LenientNode::List(vec![LenientNode::Bare(Scalar::Flag(true)), LenientNode::Bare(Scalar::Null), text("x'y")])),
                ("c".into(), LenientNode::Object(vec![("d".into(), bare(2.5))])),
            ])
        );
        assert_eq!(read("{\"a\": 5, \"b"), LenientNode::Object(vec![("a".into(), bare(5.0))]));
        assert_eq!(pair("- **Download**: 93 Mbps"), Some(("Download".into(), "93 Mbps".into())));
        assert_eq!(pair("| Ping | 12 ms |"), Some(("Ping".into(), "12 ms".into())));
        assert_eq!(pair("see https://a.io"), None);
        assert_eq!(pair("It is five"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in "[{}\\[\\]:,'\"a-z0-9 \\\\]{0,40}") {
            let _node = read(&text);
        }
    }
}
