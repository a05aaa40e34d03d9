//! Removes secrets from a text: JSON is searched member by member, including JSON in strings; the rest of the text stays byte
//! for byte. Pure.

use std::ops::Range;

use bytes::Bytes;

use crate::redact::patterns;
use toolmark_core::wire::json::{Document, Kind, Value, string::quote};

/// Replacement for a secret.
pub const REDACTED: &str = "[redacted]";
/// Levels of JSON in strings that are searched.
const NESTED_MAX: usize = 4;
/// Levels of one document that are searched; deeper documents aren't parsed.
const DEPTH: usize = 127;

/// A replacement in a text: byte range and new text.
pub type Splice = (Range<usize>, String);

/// Redaction rules for one text.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedactionRules<'r> {
    /// Known secrets, removed word for word.
    pub literals: &'r [String],
    /// JSON pointers of values that are always removed; `*` is any member or element. A pointer may continue into JSON in a
    /// string.
    pub pointers: &'r [Vec<String>],
    /// Treatment of credentials.
    pub credentials: Credentials,
}

/// Treatment of credentials.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Credentials {
    /// Removed, found by shape and by name.
    #[default]
    Redact,
    /// Kept: only values at pointers and known secrets are removed.
    Keep,
}

/// The text without its secrets, and the number of secrets; `None` if there are none.
pub fn redact(text: &str, rules: &RedactionRules<'_>) -> Option<(String, u32)> {
    let splices = splices(text, rules, &whole(rules.pointers), 0);
    (!splices.is_empty()).then(|| (applied(text, &splices), splices.len() as u32))
}

/// The pointers at the root of a document.
pub fn whole(pointers: &[Vec<String>]) -> Vec<&[String]> {
    pointers.iter().map(Vec::as_slice).collect()
}

/// Applies splices, which are in order and don't overlap, to a text.
pub fn applied(text: &str, splices: &[Splice]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (range, with) in splices {
        out.push_str(text.get(from..range.start).unwrap_or_default());
        out.push_str(with);
        from = range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// The splices that remove a text's secrets, in order. `pointers`: the remaining steps at this place; `depth`: number of
/// strings around the text.
pub fn splices(text: &str, rules: &RedactionRules<'_>, pointers: &[&[String]], depth: usize) -> Vec<Splice> {
    let structured = depth < NESTED_MAX && matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'['));
    if structured && let Ok(document) = Document::parse_noting(Bytes::copy_from_slice(text.as_bytes()), DEPTH, &[]) {
        let mut walk = JsonRedactor { rules, depth, out: Vec::new() };
        walk.value(document.root(), pointers, "");
        return walk.out;
    }
    plain(text, rules)
}

/// True if a text that isn't JSON contains no secret recognisable by its shape.
pub fn plain_is_clean(text: &str) -> bool {
    patterns::secrets(text).is_empty()
}

/// The splices for a text that isn't JSON.
fn plain(text: &str, rules: &RedactionRules<'_>) -> Vec<Splice> {
    let mut found = match rules.credentials {
        Credentials::Redact => patterns::secrets(text),
        Credentials::Keep => Vec::new(),
    };
    for literal in rules.literals.iter().filter(|literal| !literal.is_empty()) {
        let hits = memchr::memmem::find_iter(text.as_bytes(), literal.as_bytes());
        found.extend(hits.map(|at| at..at + literal.len()));
    }
    patterns::merged(found).into_iter().map(|range| (range, REDACTED.to_owned())).collect()
}

struct JsonRedactor<'w> {
    rules: &'w RedactionRules<'w>,
    depth: usize,
    out: Vec<Splice>,
}

impl JsonRedactor<'_> {
    // INVARIANT: a document is at most `DEPTH` deep, so the recursion is bounded.
    fn value(&mut self, value: Value<'_>, pointers: &[&[String]], name: &str) {
        if pointers.iter().any(|pointer| pointer.is_empty()) && !value.is_text(REDACTED) {
            self.out.push((value.span(), quote(REDACTED)));
            return;
        }
        match value.kind() {
            Kind::Object => {
                for member in value.members() {
                    let key = member.name();
                    self.key(member.key);
                    self.value(member.value, &stepped(pointers, &key), &key);
                }
            }
            Kind::Array => {
                for (at, item) in value.items().enumerate() {
                    let step = if pointers.is_empty() { Vec::new() } else { stepped(pointers, &at.to_string()) };
                    self.value(item, &step, name);
                }
            }
            Kind::Plain | Kind::Escaped => self.string(value, pointers, name),
            Kind::Number if self.names_credential(name) => self.out.push((value.span(), quote(REDACTED))),
            Kind::Number | Kind::True | Kind::False | Kind::Null => {}
        }
    }

    fn names_credential(&self, name: &str) -> bool {
        self.rules.credentials == Credentials::Redact && !name.is_empty() && patterns::names_credential(name)
    }

    fn string(&mut self, value: Value<'_>, pointers: &[&[String]], name: &str) {
        let text = value.text().unwrap_or_default();
        if text.is_empty() || text == REDACTED {
            return;
        }
        let may = self.rules.credentials == Credentials::Redact && patterns::may_name_credential(name) && patterns::looks_like_key(&text);
        if may || self.names_credential(name) {
            self.out.push((value.span(), quote(REDACTED)));
            return;
        }
        let inner = splices(&text, self.rules, pointers, self.depth + 1);
        if !inner.is_empty() {
            self.out.push((value.span(), quote(&applied(&text, &inner))));
        }
    }

    /// Removes secrets from a member's name.
    fn key(&mut self, key: Value<'_>) {
        let text = key.text().unwrap_or_default();
        let inner = plain(&text, self.rules);
        if !inner.is_empty() {
            self.out.push((key.span(), quote(&applied(&text, &inner))));
        }
    }
}

/// The pointers that match this member or element, without their first step.
fn stepped<'p>(pointers: &[&'p [String]], name: &str) -> Vec<&'p [String]> {
    let step = |pointer: &&'p [String]| match pointer.split_first() {
        Some((first, rest)) if first == name || first == "*" => Some(rest),
        _ => None,
    };
    pointers.iter().filter_map(step).collect()
}

/// The steps of a JSON pointer (RFC 6901); `None` if the text isn't one.
pub fn pointer(text: &str) -> Option<Vec<String>> {
    let rest = text.strip_prefix('/')?;
    let step = |part: &str| {
        let legal = part.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        legal.then(|| part.replace("~1", "/").replace("~0", "~"))
    };
    rest.split('/').map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pointers: &[&str], literals: &[&str]) -> String {
        let pointers: Vec<Vec<String>> = pointers.iter().map(|text| pointer(text).unwrap()).collect();
        let literals: Vec<String> = literals.iter().map(|text| (*text).to_owned()).collect();
        let rules = RedactionRules { literals: &literals, pointers: &pointers, credentials: Credentials::Redact };
        redact(text, &rules).map_or_else(|| text.to_owned(), |(text, _)| text)
    }

    #[test]
    fn members_and_strings() {
        for (text, expected) in [
            (r#"{"password": "x" , "n":1.10}"#, r#"{"password": "[redacted]" , "n":1.10}"#),
            (r#"{"api_key":12345}"#, r#"{"api_key":"[redacted]"}"#),
            (r#"{"token":"abcdefghijklmnop1","x":{"token":"Hello"}}"#, r#"{"token":"[redacted]","x":{"token":"Hello"}}"#),
            (r#"{"a":"{\"password\":\"x\"}"}"#, r#"{"a":"{\"password\":\"[redacted]\"}"}"#),
            (r#"{"password":{"type":"string"},"required":["password"]}"#, r#"{"password":{"type":"string"},"required":["password"]}"#),
            ("DB_PASSWORD=hunter2hunter2\n", "DB_PASSWORD=[redacted]\n"),
            (r#"{"a":"s\u006b-abcdefghijklmnop"}"#, r#"{"a":"[redacted]"}"#),
            (r#"{"sk-abcdefghijklmnop":1}"#, r#"{"[redacted]":1}"#),
            ("{\"max_tokens\":5,\"prompt_tokens\":7}", "{\"max_tokens\":5,\"prompt_tokens\":7}"),
            (r#"{"passwords":["a"],"password":["a","b"]}"#, r#"{"passwords":["a"],"password":["[redacted]","[redacted]"]}"#),
        ] {
            assert_eq!(check(text, &[], &[]), expected, "{text}");
            assert_eq!(check(expected, &[], &[]), expected, "twice is once: {text}");
        }
    }

    #[test]
    fn pointers_and_literals() {
        let text = r#"{"user":"bob","messages":[{"content":"{\"customer\":{\"email\":\"a@b\"}}"},{"content":"hi bob"}]}"#;
        let pointers = ["/user", "/messages/*/content/customer/email", "/missing/0"];
        let expected =
            r#"{"user":"[redacted]","messages":[{"content":"{\"customer\":{\"email\":\"[redacted]\"}}"},{"content":"hi [redacted]"}]}"#;
        assert_eq!(check(text, &pointers, &["bob"]), expected);
        assert_eq!(pointer("/a~1b/~0"), Some(vec!["a/b".to_owned(), "~".to_owned()]));
        assert!(pointer("a").is_none() && pointer("/~2").is_none());
    }

    #[test]
    fn kept_where_asked() {
        let rules = RedactionRules { credentials: Credentials::Keep, ..RedactionRules::default() };
        assert!(redact(r#"{"password":"x","a":"sk-abcdefghijklmnop"}"#, &rules).is_none());
    }
}
