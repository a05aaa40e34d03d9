//! Strict parser for a call's arguments: JSON in which no object has two members of one name.
//!
//! One pass builds the value and measures its depth, which bounds the stack that checking it needs. Pure; never repairs its input. Grammar:
//! RFC 8259, as strict as `serde_json`.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A parsed value with its depth.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The value.
    pub value: Value,
    /// Levels of nesting; 1 for a scalar or an empty object.
    pub depth: u32,
}

/// Reason why a text isn't exactly one JSON value with unique names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JsonFault {
    /// The text ends too early.
    Ends,
    /// Two members of one object have this name.
    Duplicate(String),
    /// Text follows the value, from this byte on.
    Trailing(usize),
    /// Anything else, in words.
    Syntax(String),
}

impl fmt::Display for JsonFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonFault::Ends => out.write_str("the JSON ends too early"),
            JsonFault::Duplicate(name) => write!(out, "two members of one object are named `{}`", brief(name, 80)),
            JsonFault::Trailing(at) => write!(out, "text follows the JSON value at byte {at}"),
            JsonFault::Syntax(words) => out.write_str(words),
        }
    }
}

/// Reads the one value of `text`.
///
/// # Errors
/// [`JsonFault`] for anything but exactly one JSON value with unique names.
pub fn parse_unique(text: &str) -> Result<Parsed, JsonFault> {
    let mut scan = ParseProgress { depth: 0, deepest: 1, duplicate: None };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    match (ValueSeed { scan: &mut scan }).deserialize(&mut deserializer) {
        Ok(value) => match deserializer.end() {
            Ok(()) => Ok(Parsed { value, depth: scan.deepest }),
            Err(error) => Err(JsonFault::Trailing(offset(text, &error))),
        },
        Err(error) => Err(match scan.duplicate {
            Some(name) => JsonFault::Duplicate(name),
            None if error.is_eof() => JsonFault::Ends,
            None => JsonFault::Syntax(error.to_string()),
        }),
    }
}

/// `text` cut to `chars` characters, on one line.
pub fn brief(text: &str, chars: usize) -> String {
    let mut cut: String = text.chars().take(chars).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Byte offset of a `serde_json` error in `text`.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1)
}

struct ParseProgress {
    depth: u32,
    deepest: u32,
    duplicate: Option<String>,
}

struct ValueSeed<'s> {
    scan: &'s mut ParseProgress,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.scan.enter();
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(ValueSeed { scan: self.scan })? {
            list.push(item);
        }
        self.scan.depth -= 1;
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.scan.enter();
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(ValueSeed { scan: self.scan })?;
            match map.entry(name) {
                serde_json::map::Entry::Vacant(place) => {
                    place.insert(value);
                }
                serde_json::map::Entry::Occupied(taken) => {
                    self.scan.duplicate = Some(taken.key().clone());
                    return Err(de::Error::custom("duplicate name"));
                }
            }
        }
        self.scan.depth -= 1;
        Ok(Value::Object(map))
    }
}

impl ParseProgress {
    fn enter(&mut self) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        for text in [
            "",
            " ",
            "{",
            "{\"a\":",
            "[1,]",
            "{\"a\":1}{\"a\":1}",
            "{\"a\":1} x",
            "{'a':1}",
            "NaN",
            "{\"a\":NaN}",
            "1e400",
            "\"\\ud800\"",
            "\u{feff}{}",
            "{\"a\":1,\"\\u0061\":1}",
            "[{\"x\":{\"b\":1,\"b\":2}}]",
            "```json\n{}\n```",
            "\"a\nb\"",
            "{\"a\":01}",
        ] {
            assert!(parse_unique(text).is_err(), "{text:?}");
        }
        assert!(parse_unique(&"[".repeat(100_000)).is_err());
        assert!(parse_unique(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_err());
        assert_eq!(parse_unique("{\"a\":1,\"a\":1").unwrap_err(), JsonFault::Duplicate("a".into()));
        assert_eq!(parse_unique("{\"a\":{\"b\"").unwrap_err(), JsonFault::Ends);
        assert_eq!(parse_unique("{\"a\":1}\n x").unwrap_err(), JsonFault::Trailing(9));
    }

    #[test]
    fn measures() {
        for (text, depth) in [("1", 1), ("{}", 1), (r#"{"a":[1,{"b":2}]}"#, 3)] {
            let parsed = parse_unique(text).unwrap();
            assert_eq!(parsed.depth, depth, "{text}");
            assert_eq!(parsed.value, serde_json::from_str::<Value>(text).unwrap());
        }
    }
}
