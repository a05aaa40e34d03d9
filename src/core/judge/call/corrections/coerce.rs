//! Values in quotes that should have none: `"3"` if a number is required.
//!
//! Converts only a string to the value that it spells, and only if the schema allows that one type. Pure.

use serde_json::Value;

use crate::schema::strict_json::parse_unique;

/// The JSON value that `text` spells, if its type is the only one of `wanted` (JSON Schema's names of types, `null` aside); else `None`.
pub(crate) fn spelled(text: &str, wanted: &[&str]) -> Option<String> {
    let mut types: Vec<&str> = wanted.iter().copied().filter(|wanted| *wanted != "null").collect();
    if types.contains(&"number") {
        types.retain(|wanted| *wanted != "integer");
    }
    let [wanted] = types[..] else { return None };
    let json = match (wanted, text) {
        ("boolean", "true" | "True") => "true",
        ("boolean", "false" | "False") => "false",
        ("integer", _) if is_plain(text) && !text.contains('.') => text,
        ("number", _) if is_plain(text) => text,
        ("array", _) if text.trim_start().starts_with('[') => text.trim(),
        ("object", _) if text.trim_start().starts_with('{') => text.trim(),
        _ => return None,
    };
    let value = parse_unique(json).ok()?.value;
    let fits = match wanted {
        "boolean" => value.is_boolean(),
        "integer" | "number" => value.is_number(),
        "array" => value.is_array(),
        _ => matches!(value, Value::Object(_)),
    };
    fits.then(|| json.to_owned())
}

/// True for plain digits: no exponent, nothing around them. JSON's grammar decides about leading zeros.
fn is_plain(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let all = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all(whole) && all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_texts_spell_out() {
        for (text, wanted, json) in [
            ("3", &["integer"][..], Some("3")),
            ("-12345678901234567890", &["integer"], Some("-12345678901234567890")),
            ("3", &["number", "null"], Some("3")),
            ("0.080", &["number", "integer"], Some("0.080")),
            ("true", &["boolean"], Some("true")),
            ("False", &["boolean"], Some("false")),
            ("[1, 2]", &["array"], Some("[1, 2]")),
            (" {\"a\":1}", &["object", "null"], Some("{\"a\":1}")),
            ("3.0", &["integer"], None),
            ("007", &["integer"], None),
            ("1e3", &["number"], None),
            ("1,000", &["integer"], None),
            (" 3", &["integer"], None),
            ("+3", &["integer"], None),
            (".5", &["number"], None),
            ("5.", &["number"], None),
            ("NaN", &["number"], None),
            ("", &["integer"], None),
            ("twelve", &["integer"], None),
            ("1", &["boolean"], None),
            ("yes", &["boolean"], None),
            ("null", &["null"], None),
            ("3", &["integer", "boolean"], None),
            ("3", &["integer", "array"], None),
            ("3", &["array"], None),
            ("[1,]", &["array"], None),
            ("{\"a\":1,\"a\":2}", &["object"], None),
            ("3", &["string"], None),
            ("3", &[], None),
        ] {
            assert_eq!(spelled(text, wanted).as_deref(), json, "{text:?} {wanted:?}");
        }
    }
}
