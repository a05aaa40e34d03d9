//! Differences between a request and a recorded one, for people: each with its place and both values. Pure.

use std::fmt::Write as _;

use serde_json::Value;

/// Differences collected at most.
const COUNTED_MAX: usize = 200;
/// Differences shown at most.
const SHOWN_MAX: usize = 6;
/// Characters shown of a value.
const VALUE_CHARS_MAX: usize = 80;

/// One place where two documents differ.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DocumentDiff {
    /// A JSON pointer; empty for the whole document.
    pub at: String,
    /// The recorded value, if any.
    pub recorded: Option<String>,
    /// The requested value, if any.
    pub requested: Option<String>,
}

/// The differences in document order, at most 200.
pub fn differences(recorded: &Value, requested: &Value) -> Vec<DocumentDiff> {
    let mut out = Vec::new();
    compare(recorded, requested, &mut String::new(), &mut out);
    out
}

/// Distance of two requests, computed from their differences. The nearest recorded request has the smallest distance.
pub fn distance(differences: &[DocumentDiff]) -> usize {
    let size = |difference: &DocumentDiff| {
        let only = |value: &Option<String>| value.as_ref().map_or(0, |text| text.len().min(200));
        16 + only(&difference.recorded).abs_diff(only(&difference.requested))
    };
    differences.iter().map(size).sum()
}

/// The differences as lines of text, at most 6.
pub fn shown(differences: &[DocumentDiff]) -> String {
    let mut out = String::new();
    for difference in differences.iter().take(SHOWN_MAX) {
        let at = if difference.at.is_empty() { "the body" } else { difference.at.as_str() };
        // Writing to a String can't fail.
        let _ = match (&difference.recorded, &difference.requested) {
            (Some(recorded), Some(requested)) => write!(out, "\n  {at}: recorded {}, requested {}", cut(recorded), cut(requested)),
            (Some(recorded), None) => write!(out, "\n  {at}: only recorded, {}", cut(recorded)),
            (None, Some(requested)) => write!(out, "\n  {at}: only requested, {}", cut(requested)),
            (None, None) => Ok(()),
        };
    }
    if differences.len() > SHOWN_MAX {
        let _ = write!(out, "\n  and {} more", differences.len() - SHOWN_MAX);
    }
    out
}

fn cut(text: &str) -> String {
    let mut chars = text.char_indices();
    match chars.nth(VALUE_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

// INVARIANT: serde_json refuses what is nested deeper than 128, so the recursion is bounded.
fn compare(recorded: &Value, requested: &Value, at: &mut String, out: &mut Vec<DocumentDiff>) {
    if recorded == requested || out.len() >= COUNTED_MAX {
        return;
    }
    let length = at.len();
    match (recorded, requested) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                step(at, name);
                match b.get(name) {
                    Some(other) => compare(value, other, at, out),
                    None => out.push(DocumentDiff { at: at.clone(), recorded: Some(value.to_string()), requested: None }),
                }
                at.truncate(length);
            }
            for (name, value) in b.iter().filter(|(name, _)| !a.contains_key(*name)) {
                step(at, name);
                out.push(DocumentDiff { at: at.clone(), recorded: None, requested: Some(value.to_string()) });
                at.truncate(length);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for place in 0..a.len().max(b.len()) {
                step(at, &place.to_string());
                match (a.get(place), b.get(place)) {
                    (Some(value), Some(other)) => compare(value, other, at, out),
                    (value, other) => {
                        let text = |value: Option<&Value>| value.map(ToString::to_string);
                        out.push(DocumentDiff { at: at.clone(), recorded: text(value), requested: text(other) });
                    }
                }
                at.truncate(length);
            }
        }
        (Value::String(a), Value::String(b)) => {
            // The values are shown from shortly before the first difference.
            let same =
                a.char_indices().zip(b.chars()).take_while(|((_, a), b)| a == b).map(|((at, a), _)| at + a.len_utf8()).last().unwrap_or(0);
            let from = a.get(..same).map_or(0, |common| common.char_indices().rev().nth(20).map_or(0, |(at, _)| at));
            let part = |text: &str| {
                let rest = text.get(from..).unwrap_or_default();
                format!("{}{}", if from > 0 { "…" } else { "" }, Value::from(rest))
            };
            out.push(DocumentDiff { at: at.clone(), recorded: Some(part(a)), requested: Some(part(b)) });
        }
        (a, b) => out.push(DocumentDiff { at: at.clone(), recorded: Some(a.to_string()), requested: Some(b.to_string()) }),
    }
}

fn step(at: &mut String, name: &str) {
    at.push('/');
    at.push_str(&name.replace('~', "~0").replace('/', "~1"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places() {
        let recorded = json!({"model": "a", "messages": [{"content": "What is the weather in Paris, the capital of France?"}], "seed": 1});
        let requested = json!({"model": "a", "messages": [{"content": "What is the weather in Paris, the capital of Texas?"}, {"role": "user"}], "n/a": 2});
        let found = differences(&recorded, &requested);
        let expected = "\n  /messages/0/content: recorded …\"aris, the capital of France?\", requested …\"aris, the capital of Texas?\"\
                        \n  /messages/1: only requested, {\"role\":\"user\"}\n  /seed: only recorded, 1\n  /n~1a: only requested, 2";
        assert_eq!(shown(&found), expected);
        assert!(differences(&recorded, &recorded).is_empty());
        assert!(distance(&found) > distance(&differences(&json!({"a": 1}), &json!({"a": 2}))));
    }

    #[test]
    fn bounded() {
        let (a, b) = (json!(vec![1; 10_000]), json!(vec![2; 10_000]));
        let found = differences(&a, &b);
        assert_eq!(found.len(), COUNTED_MAX);
        assert!(shown(&found).ends_with("and 194 more"));
        assert!(shown(&differences(&json!("é".repeat(500)), &json!("ü".repeat(500)))).len() < 500);
    }
}
