//! State rules, pure part: plans the checks for an answer, and compares their results with the expectations.
//!
//! Values come from named groups of the claim's pattern, from the call's arguments, or from its result. The shell runs
//! the checks.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use crate::{
    claims::evidence::ToolResult,
    exchange::{context::Context, evidence::material::grounds},
    policy::{
        state_probe::HttpProbe,
        state_rules::{Expect, StateTrigger},
    },
    schema::{FormatChecks, Schema},
};

/// Maximum number of checks for one answer.
pub const LOOKED_MAX: usize = 16;
/// Error for a rule that names a missing value.
pub const MISSING: &str = "a value that the rule names is missing";
/// Limit for a value in bytes.
const VALUE_BYTES_MAX: usize = 4 << 10;

/// Values for a rule's placeholders, by name.
pub type Values = BTreeMap<String, Value>;

/// A check to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// Index of the rule.
    pub rule: usize,
    /// Values for the rule's placeholders.
    pub values: Values,
}

/// A call that succeeded since the last user message.
#[derive(Clone, Debug)]
struct Done {
    tool: String,
    arguments: Map<String, Value>,
    result: Value,
}

/// Checks for an answer with this text, without duplicates; at most [`LOOKED_MAX`].
pub fn due(context: &Context, text: &str) -> Vec<Due> {
    let rules = &context.rules.state;
    let mut due: Vec<Due> = Vec::new();
    let mut add = |rule: usize, values: Values| {
        let new = Due { rule, values };
        if due.len() < LOOKED_MAX && !due.contains(&new) {
            due.push(new);
        }
    };
    let of_tools = rules.iter().any(|rule| matches!(rule.when, StateTrigger::Tool { .. }));
    let done = if of_tools { done(&grounds(context).results) } else { Vec::new() };
    for (at, rule) in rules.iter().enumerate() {
        match &rule.when {
            StateTrigger::Tool { unless: Some(unless), .. } if unless.is_match(text) => {}
            StateTrigger::Tool { name, .. } => done.iter().filter(|own| is(&own.tool, name)).for_each(|own| add(at, values_of(own))),
            StateTrigger::Phrase(regex) => {
                for found in regex.captures_iter(text) {
                    let named = regex.capture_names().flatten().filter_map(|name| Some((name, found.name(name)?.as_str())));
                    add(at, named.map(|(name, value)| (name.to_owned(), Value::from(value))).collect());
                }
            }
        }
    }
    due
}

/// Compares tool names; `tool` may lack the server's prefix (`server__`).
fn is(name: &str, tool: &str) -> bool {
    name == tool || name.strip_suffix(tool).is_some_and(|before| before.ends_with("__"))
}

fn values_of(done: &Done) -> Values {
    let mut values = Values::new();
    let small = |value: &Value| value.to_string().len() <= VALUE_BYTES_MAX;
    for (name, value) in done.result.as_object().into_iter().flatten().filter(|(_, value)| small(value)) {
        values.insert(format!("result.{name}"), value.clone());
        values.insert(name.clone(), value.clone());
    }
    for (name, value) in done.arguments.iter().filter(|(_, value)| small(value)) {
        values.insert(format!("arguments.{name}"), value.clone());
        values.insert(name.clone(), value.clone());
    }
    values
}

/// Calls that succeeded since the last user message.
fn done(results: &[ToolResult]) -> Vec<Done> {
    let succeeded = results.iter().filter(|result| result.recent && !result.failed);
    let done = |result: &ToolResult| Done {
        tool: result.tool.to_string(),
        arguments: serde_json::from_str(&result.arguments).unwrap_or_default(),
        result: serde_json::from_str(&result.text).unwrap_or(Value::Null),
    };
    succeeded.map(done).collect()
}

/// A JSON value with its placeholders filled in; `None` if a value is missing.
pub fn filled(template: &Value, values: &Values) -> Option<Value> {
    Some(match template {
        // A placeholder alone keeps the value's type.
        Value::String(text) => match text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).filter(|name| !name.contains("{{")) {
            Some(name) => values.get(name.trim())?.clone(),
            None => Value::String(filled_text(text, values, plain)?),
        },
        Value::Array(list) => Value::Array(list.iter().map(|own| filled(own, values)).collect::<Option<_>>()?),
        Value::Object(map) => Value::Object(map.iter().map(|(key, own)| Some((key.clone(), filled(own, values)?))).collect::<Option<_>>()?),
        other => other.clone(),
    })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Escapes a value, so that it can't end the string it stands in. Source: RFC 9535, section 2.3.1.1.
fn in_path(value: &Value) -> String {
    let escape = |c: char| match c {
        '\'' | '"' | '\\' => format!("\\u{:04x}", c as u32),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    };
    plain(value).chars().map(escape).collect()
}

/// Percent-encodes a value, so that it can't end its part of a URL. Source: RFC 3986, section 2.3.
fn in_url(value: &Value) -> String {
    let mut out = String::new();
    for byte in plain(value).bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A JSONPath with its placeholders filled in. Each value is written according to its position: within a string, as a
/// member name, or as a literal. Source: RFC 9535, sections 2.3 and 2.5.
fn filled_path(template: &str, values: &Values) -> Result<String, String> {
    let name_char = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
    let (mut out, mut rest, mut quote) = (String::new(), template, None);
    while let Some(c) = rest.chars().next() {
        if !rest.starts_with("{{") {
            match (quote, c) {
                (Some(_), '\\') => {
                    let end = rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at);
                    out.push_str(&rest[..end]);
                    rest = &rest[end..];
                    continue;
                }
                (Some(open), c) if open == c => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                _ => {}
            }
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        if quote.is_some() {
            let (value, behind) = placeholder(rest, values)?;
            out.push_str(&in_path(value));
            rest = behind;
            continue;
        }
        let head = out.trim_end_matches(name_char).len();
        if !out[..head].ends_with('.') {
            if head < out.len() {
                return Err("a value can't stand there in `expect`".into());
            }
            let (value, behind) = placeholder(rest, values)?;
            if behind.starts_with(name_char) || behind.starts_with("{{") {
                return Err("a value can't stand there in `expect`".into());
            }
            out.push_str(&literal(value));
            rest = behind;
            continue;
        }
        // `.name` with values in it becomes `['name']`.
        let mut name = out.split_off(head);
        loop {
            if rest.starts_with("{{") {
                let (value, behind) = placeholder(rest, values)?;
                name.push_str(&in_path(value));
                rest = behind;
            } else if let Some(c) = rest.chars().next().filter(|c| name_char(*c)) {
                name.push(c);
                rest = &rest[c.len_utf8()..];
            } else {
                break;
            }
        }
        if !out.ends_with("..") {
            out.pop();
        }
        out.push_str(&format!("['{name}']"));
    }
    Ok(out)
}

/// The value of the placeholder at the start of `text`, and the text after it.
fn placeholder<'t>(text: &'t str, values: &'t Values) -> Result<(&'t Value, &'t str), String> {
    let (name, behind) = text.strip_prefix("{{").and_then(|text| text.split_once("}}")).ok_or(MISSING)?;
    Ok((values.get(name.trim()).ok_or(MISSING)?, behind))
}

/// A value as a JSONPath literal: numbers unquoted, also those in the text of a phrase; anything else as a string.
fn literal(value: &Value) -> String {
    let text = plain(value);
    let number = serde_json::from_str::<serde_json::Number>(&text).is_ok();
    if number || value.is_boolean() || value.is_null() { text } else { format!("'{}'", in_path(value)) }
}

/// Position of a placeholder in a schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Data to compare with: any value.
    Data,
    /// A regular expression: the value is escaped.
    Pattern,
    /// Value of a keyword: a text or a number. Anything else would let the model supply a schema.
    Schema,
}

/// A schema with its placeholders filled in.
fn filled_schema(template: &Value, values: &Values, place: Place) -> Result<Value, String> {
    Ok(match template {
        Value::String(text) if place == Place::Pattern => {
            Value::String(filled_text(text, values, |value| regex::escape(&plain(value))).ok_or(MISSING)?)
        }
        Value::String(_) => {
            let value = filled(template, values).ok_or(MISSING)?;
            if place == Place::Schema && !(value.is_string() || value.is_number()) {
                return Err("a value that is no text or number can stand only under `const` or `enum` in `expect`".into());
            }
            value
        }
        Value::Array(list) => Value::Array(list.iter().map(|own| filled_schema(own, values, place)).collect::<Result<_, _>>()?),
        Value::Object(map) => {
            let member = |(key, own): (&String, &Value)| {
                let place = match (place, key.as_str()) {
                    (Place::Data, _) | (_, "const" | "enum" | "default" | "examples") => Place::Data,
                    (_, "pattern") => Place::Pattern,
                    _ => Place::Schema,
                };
                Ok::<_, String>((key.clone(), filled_schema(own, values, place)?))
            };
            Value::Object(map.iter().map(member).collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

/// URL of a probe with these values.
///
/// # Errors
/// A value is missing, or would change the path's segments.
pub fn url(probe: &HttpProbe, values: &Values) -> Result<String, String> {
    let filled = filled_text(&probe.template, values, in_url).ok_or(MISSING)?;
    let climbs = |value: &Value| {
        // Servers that decode before they look would go up.
        plain(value).split(['/', '\\']).any(|part| matches!(part.split(';').next(), Some("." | "..")))
    };
    let mut rest = probe.template.split('?').next().unwrap_or_default();
    while let Ok((value, behind)) = placeholder(rest.find("{{").map_or("", |at| &rest[at..]), values) {
        if climbs(value) {
            return Err("a value can't stand in the path".into());
        }
        rest = behind;
    }
    let path = |text: &str| text.split('?').next().unwrap_or_default().to_owned();
    for (written, filled) in path(&probe.template).split('/').zip(path(&filled).split('/')) {
        // Parsers go up on such a segment, encoded or not, and take an empty one for the whole list.
        if written.contains("{{") && matches!(filled, "" | "." | "..") {
            return Err("a value can't stand in the path".into());
        }
    }
    Ok(format!("{}{filled}", probe.origin))
}

fn filled_text(template: &str, values: &Values, write: fn(&Value) -> String) -> Option<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, behind) = after.split_once("}}")?;
        out.push_str(before);
        out.push_str(&write(values.get(name.trim())?));
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}

/// True if the result of a check meets the expectation.
///
/// # Errors
/// The expectation can't be evaluated with these values.
pub fn agrees(expect: &Expect, values: &Values, found: &Value) -> Result<bool, String> {
    match expect {
        Expect::Path(template) => {
            let path = filled_path(template, values)?;
            let path = JsonPath::parse(&path).map_err(|error| format!("`expect` is no JSONPath with these values: {error}"))?;
            Ok(!path.query(found).is_empty())
        }
        Expect::Schema(template) => {
            let schema = filled_schema(template, values, Place::Schema)?;
            let schema = Schema::compile(&schema.to_string(), FormatChecks::Assert).map_err(|error| error.to_string())?;
            Ok(schema.violations(found, 1).is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(pairs: &[(&str, Value)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    #[test]
    fn the_world_is_asked_by_the_values_of_the_claim() {
        let path = Expect::Path("$.tasks[?@.title == '{{title}}']".into());
        let schema = Expect::Schema(
            json!({"type": "object", "properties": {"tasks": {"contains": {"properties": {"title": {"const": "{{title}}"}}}}}}),
        );
        let found = json!({"tasks": [{"title": "it's \"milk\""}, {"title": "tea"}]});
        for (title, is) in [("tea", true), ("it's \"milk\"", true), ("coffee", false), ("' || @.title == 'tea", false), ("", false)] {
            for expect in [&path, &schema] {
                assert_eq!(agrees(expect, &values(&[("title", json!(title))]), &found), Ok(is), "{title} {expect:?}");
            }
        }
        assert!(agrees(&path, &Values::new(), &found).is_err());
    }

    #[test]
    fn values_are_data_in_a_path() {
        let found = json!({"tasks": {"7": 1, "a": {"b": 2}, "task *": 3, "it's": 4, "x.y": 5}, "list": [{"id": 7}, {"id": "7"}]});
        let agrees_with = |template: &str, value: Value| agrees(&Expect::Path(template.into()), &values(&[("id", value)]), &found);
        for (template, value, is) in [
            ("$.tasks.{{id}}", json!("task *"), Ok(true)),
            ("$.tasks.{{id}}", json!("*"), Ok(false)),
            ("$.tasks.{{id}}", json!("task *]"), Ok(false)),
            ("$.tasks.{{id}}", json!("a.b"), Ok(false)),
            ("$.tasks.{{id}}", json!("x.y"), Ok(true)),
            ("$.tasks.{{id}}", json!("it's"), Ok(true)),
            ("$.tasks.{{id}}", json!("']|$..['7"), Ok(false)),
            ("$.tasks.{{id}}", json!(7), Ok(true)),
            ("$.tasks.{{id}}.b", json!("a"), Ok(true)),
            ("$.tasks.task{{id}}", json!(" *"), Ok(true)),
            ("$.tasks.task{{id}}", json!(".*"), Ok(false)),
            ("$..{{id}}", json!("b"), Ok(true)),
            ("$..{{id}}", json!("*"), Ok(false)),
            ("$.tasks['{{id}}']", json!("*"), Ok(false)),
            ("$.tasks[\"{{id}}\"]", json!("a"), Ok(true)),
            ("$.list[?@.id == {{id}}]", json!(7), Ok(true)),
            ("$.list[?@.id == {{id}}]", json!("7 || true"), Ok(false)),
            ("$.list[?@.{{id}} == 7]", json!("id"), Ok(true)),
            ("$.list[?@.{{id}} == 7]", json!("*"), Ok(false)),
        ] {
            assert_eq!(agrees_with(template, value.clone()), is, "{template} {value}");
        }
        assert!(agrees_with("$.tasks[1{{id}}]", json!(1)).is_err());
    }

    #[test]
    fn values_are_data_in_a_schema() {
        let agrees_with = |schema: Value, value: Value| agrees(&Expect::Schema(schema), &values(&[("x", value)]), &json!("tea"));
        assert_eq!(agrees_with(json!({"pattern": "^{{x}}$"}), json!("tea")), Ok(true));
        assert_eq!(agrees_with(json!({"pattern": "^{{x}}$"}), json!(".*")), Ok(false));
        assert_eq!(agrees_with(json!({"const": "{{x}}"}), json!({})), Ok(false));
        assert!(agrees_with(json!({"not": "{{x}}"}), json!(false)).is_err(), "no schema of the model's");
        assert!(agrees_with(json!({"allOf": ["{{x}}"]}), json!({})).is_err());
    }

    #[test]
    fn values_never_leave_their_place_in_a_url() {
        let probe = HttpProbe::parse("GET https://a.example/tasks/{{id}}/x?by={{name}}").unwrap();
        let of = |id: &str, name: &str| url(&probe, &values(&[("id", json!(id)), ("name", json!(name))]));
        assert_eq!(of("a/b?c#d%", "é&x=1 +").unwrap(), "https://a.example/tasks/a%2Fb%3Fc%23d%25/x?by=%C3%A9%26x%3D1%20%2B");
        assert_eq!(of("..a", "").unwrap(), "https://a.example/tasks/..a/x?by=");
        for id in ["", ".", "..", "../admin", "a/../b", "..\\x", "..;/x", "a/..;x"] {
            assert!(of(id, "x").is_err(), "{id}");
        }
        assert!(url(&probe, &values(&[("id", json!(1))])).is_err());
    }

    #[test]
    fn placeholders_alone_keep_their_type() {
        let values = values(&[("id", json!(7)), ("title", json!("x"))]);
        let template = json!({"id": "{{id}}", "text": "{{title}}-{{id}}", "list": ["{{ id }}", 1]});
        assert_eq!(filled(&template, &values), Some(json!({"id": 7, "text": "x-7", "list": [7, 1]})));
        assert_eq!(filled(&json!("{{other}}"), &values), None);
    }

    #[test]
    fn calls_that_succeeded_since_the_user_spoke_have_values() {
        let result = |arguments: &str, text: &str, recent, failed| {
            let mut result = ToolResult::new("todo__add", arguments, text);
            (result.recent, result.failed) = (recent, failed);
            result
        };
        let results = [
            result("{}", "ok", false, false),
            result(r#"{"title":"a"}"#, r#"{"id":3}"#, true, false),
            result("{}", "Error: no", true, true),
        ];
        let done = done(&results);
        let [only] = &done[..] else { panic!("{done:?}") };
        assert!(is(&only.tool, "add") && is(&only.tool, "todo__add") && !is(&only.tool, "dd"));
        let values = values_of(only);
        assert_eq!((values.get("title"), values.get("id"), values.get("result.id")), (Some(&json!("a")), Some(&json!(3)), Some(&json!(3))));
    }
}
