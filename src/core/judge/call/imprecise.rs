//! Numbers in a call's arguments that a double-precision reader can't represent. Pure.

use bytes::Bytes;

use crate::wire::json::{Document, Kind, Value, canonical::may_be_rounded};

/// Values of one call that are reported.
const REPORTED_MAX: usize = 4;
/// Digits of the shortest number beyond 2^53.
const DIGITS_MIN: usize = 16;
const DEPTH_MAX: usize = 64;

/// A number that may have been rounded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Imprecise {
    /// JSON pointer to the number.
    pub pointer: String,
    /// The number as written.
    pub digits: String,
}

/// Finds integers beyond 2^53 that are written as a double-precision writer writes them: the model may have written another number. Returns
/// the first few.
pub fn imprecise(arguments: &str) -> Vec<Imprecise> {
    let mut found = Vec::new();
    if !has_many_digits(arguments) {
        return found;
    }
    if let Ok(document) = Document::parse(Bytes::copy_from_slice(arguments.as_bytes())) {
        look(document.root(), &mut String::new(), &mut found, 0);
    }
    found
}

/// Quick check: true if `text` has a long run of digits. Most calls have none and needn't be parsed.
fn has_many_digits(text: &str) -> bool {
    let mut run = 0;
    text.bytes().any(|byte| {
        run = if byte.is_ascii_digit() || byte == b'.' { run + 1 } else { 0 };
        run >= DIGITS_MIN
    })
}

// INVARIANT: depth is at most DEPTH_MAX, so the recursion is bounded.
fn look(value: Value<'_>, pointer: &mut String, found: &mut Vec<Imprecise>, depth: usize) {
    if depth > DEPTH_MAX || found.len() >= REPORTED_MAX {
        return;
    }
    let before = pointer.len();
    match value.kind() {
        Kind::Number if may_be_rounded(value.raw_str()) => {
            found.push(Imprecise { pointer: pointer.clone(), digits: value.raw_str().to_owned() });
        }
        Kind::Array => {
            for (at, item) in value.items().enumerate() {
                pointer.push_str(&format!("/{at}"));
                look(item, pointer, found, depth + 1);
                pointer.truncate(before);
            }
        }
        Kind::Object => {
            for member in value.members() {
                pointer.push('/');
                pointer.push_str(&member.name().replace('~', "~0").replace('/', "~1"));
                look(member.value, pointer, found, depth + 1);
                pointer.truncate(before);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_number_may_have_been_rounded() {
        for (arguments, pointers) in [
            (r#"{"id":1234567890123456800}"#, &["/id"][..]),
            (r#"{"id":1234567890123456789,"n":1.5}"#, &[]),
            (r#"{"a/b":[{"c~":1.2345678901234568e+18}]}"#, &["/a~1b/0/c~0"]),
            (r#"{"id":"1234567890123456800"}"#, &[]),
            (r#"{"at":1763760000123}"#, &[]),
            ("[1234567890123456800", &[]),
            ("1234567890123456800", &[""]),
        ] {
            let found: Vec<String> = imprecise(arguments).into_iter().map(|own| own.pointer).collect();
            assert_eq!(found, pointers, "{arguments}");
        }
        let many = format!("[{}1]", "1234567890123456800,".repeat(100));
        assert_eq!(imprecise(&many).len(), REPORTED_MAX);
    }
}
