//! Example of the correct form of a rejected call: the tool that was meant, with the model's values that fit. Pure.
//!
//! Only shown to the model; nothing is ever called because of it. Unknown values are left open as `<number>` or `<one of …>`, which isn't
//! JSON, so that no invented value is copied.

use serde_json::{Map, Value};

use crate::{
    schema::suggest,
    tools::registry::{Registry, Tool, ToolKind},
};

/// Tools whose schemas are looked through for a value.
const TOOLS_MAX: usize = 128;
/// Parameters of a tool that are looked at.
const PARAMETERS_MAX: usize = 24;
/// Values of an enum that are looked at.
const VALUES_MAX: usize = 64;
/// Values of an enum that are shown.
const SHOWN_MAX: usize = 12;
/// Bytes of one value that is shown.
const VALUE_BYTES_MAX: usize = 200;
/// Bytes of the longest example; a longer one is dropped.
const EXAMPLE_BYTES_MAX: usize = 1 << 10;
/// Characters of the shortest enum value searched for in names: shorter words (`to`, `in`) are in any name.
const WORD_CHARS_MIN: usize = 3;

/// Probable meaning of a name that no tool has.
#[derive(Clone, Debug)]
pub(crate) struct Meant<'r> {
    /// The tool that was meant.
    pub tool: &'r Tool,
    /// Parameter name and enum value, if the name contains one of the parameter's values.
    pub value: Option<(String, String)>,
}

/// The tool that was probably meant: the one with an enum value in `name` (`divide` of `calculate`'s `operation`), or the closest name.
pub(crate) fn meant<'r>(name: &str, registry: &'r Registry) -> Option<Meant<'r>> {
    value_of(name, registry).or_else(|| {
        let closest = *suggest::closest(name, registry.names(), 1).first()?;
        Some(Meant { tool: registry.tool(closest)?, value: None })
    })
}

/// The only enum value of any tool that is a word of `name`; `None` if there are several.
fn value_of<'r>(name: &str, registry: &'r Registry) -> Option<Meant<'r>> {
    let words = words(name);
    let mut found = None;
    for tool in registry.tools().iter().filter(|tool| tool.declared && tool.kind == ToolKind::Function).take(TOOLS_MAX) {
        let Some(schema) = schema_of(tool) else { continue };
        for (parameter, own) in properties(&schema) {
            let names = |value: &&str| words.iter().any(|word| word.eq_ignore_ascii_case(value));
            let Some(value) = strings(own).filter(|value| value.chars().count() >= WORD_CHARS_MIN).find(names) else { continue };
            if found.is_some() {
                return None;
            }
            found = Some(Meant { tool, value: Some((parameter.clone(), value.to_owned())) });
        }
    }
    found
}

/// The words of a name, and the whole name.
fn words(name: &str) -> Vec<String> {
    let name = name.get(..name.floor_char_boundary(128)).unwrap_or_default();
    let mut words = vec![name.to_owned(), String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && lower {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.push(c);
        }
        lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Example of the call: `{"name": …, "arguments": {…}}`. `given`: the model's arguments; `value`: as found by [`meant`].
pub(crate) fn of(tool: &Tool, given: Option<&Map<String, Value>>, value: Option<&(String, String)>) -> Option<String> {
    let schema = schema_of(tool)?;
    let required: Vec<&str> = schema.get("required")?.as_array()?.iter().filter_map(Value::as_str).collect();
    let own: Vec<(&String, &Value)> = properties(&schema).collect();
    let nothing = Map::new();
    let given = given.unwrap_or(&nothing);
    let mut strangers: Vec<(&String, &Value)> =
        given.iter().filter(|(name, _)| own.iter().all(|(known, _)| known != name)).take(PARAMETERS_MAX).collect();
    // Each stranger goes to the parameter whose name is the most like its own, where there is such, else to the first that it fits.
    let mut members = Vec::new();
    for (name, rule) in &own {
        let needed = required.contains(&name.as_str());
        let known = value.filter(|(parameter, _)| parameter == *name).map(|(_, value)| Value::from(value.as_str()));
        let kept = || given.get(*name).and_then(|value| fitted(rule, value));
        let taken = known.or_else(kept);
        let taken = taken.or_else(|| {
            if !needed {
                return None;
            }
            let like = |(stranger, _): &(&String, &Value)| {
                suggest::nearly_same(stranger, name) || name.contains(stranger.as_str()) || stranger.contains(name.as_str())
            };
            let fits = |(_, value): &(&String, &Value)| fitted(rule, value).is_some();
            let like = strangers.iter().position(|own| like(own) && fits(own));
            let at = like.or_else(|| strangers.iter().position(fits).filter(|_| strangers.len() == 1 || !is_text(rule)))?;
            fitted(rule, strangers.remove(at).1)
        });
        match taken {
            Some(value) => members.push(format!("{}: {value}", Value::from(name.as_str()))),
            None if needed => members.push(format!("{}: {}", Value::from(name.as_str()), open(rule))),
            None => {}
        }
    }
    let example = format!("{{\"name\": {}, \"arguments\": {{{}}}}}", Value::from(&*tool.name), members.join(", "));
    (example.len() <= EXAMPLE_BYTES_MAX).then_some(example)
}

/// `value` as the parameter accepts it; `None` if it doesn't.
fn fitted(rule: &Value, value: &Value) -> Option<Value> {
    if let Some(text) = value.as_str().filter(|_| rule.get("enum").is_some()) {
        let exact = strings(rule).find(|own| *own == text);
        let same = || strings(rule).find(|own| own.eq_ignore_ascii_case(text));
        let close = || suggest::closest(text, strings(rule), 1).first().copied();
        let begins = || {
            let mut begun =
                strings(rule).filter(|own| own.get(..text.len()).is_some_and(|head| !text.is_empty() && head.eq_ignore_ascii_case(text)));
            begun.next().filter(|_| begun.next().is_none())
        };
        return exact.or_else(same).or_else(close).or_else(begins).map(Value::from);
    }
    let value = match (rule.get("type").and_then(Value::as_str), value) {
        (Some("number" | "integer"), Value::String(text)) => Value::Number(serde_json::from_str(text.trim()).ok()?),
        (Some("boolean"), Value::String(text)) => Value::Bool(text.trim().to_ascii_lowercase().parse().ok()?),
        (_, own) => own.clone(),
    };
    let right = match rule.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => !value.is_null(),
    };
    (right && value.to_string().len() <= VALUE_BYTES_MAX).then_some(value)
}

/// Placeholder for an unknown value: `<number>`, `<one of …>`.
fn open(rule: &Value) -> String {
    let values: Vec<&str> = strings(rule).take(SHOWN_MAX).collect();
    match (values.is_empty(), rule.get("type").and_then(Value::as_str)) {
        (false, _) => format!("<one of {}>", values.iter().map(|value| Value::from(*value).to_string()).collect::<Vec<_>>().join(", ")),
        (true, Some(kind)) => format!("<{kind}>"),
        (true, None) => "<value>".to_owned(),
    }
}

fn is_text(rule: &Value) -> bool {
    rule.get("type").and_then(Value::as_str) == Some("string") && rule.get("enum").is_none()
}

/// Strings in the parameter's `enum`.
fn strings(rule: &Value) -> impl Iterator<Item = &str> {
    rule.get("enum").and_then(Value::as_array).into_iter().flatten().take(VALUES_MAX).filter_map(Value::as_str)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten().take(PARAMETERS_MAX)
}

/// The tool's `parameters` schema.
fn schema_of(tool: &Tool) -> Option<Value> {
    let mut tool: Value = serde_json::from_str(&tool.raw).ok()?;
    let body = if tool.get("function").is_some_and(Value::is_object) { tool.get_mut("function")? } else { &mut tool };
    body.get_mut("parameters").map(Value::take)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::Tools,
        schema::FormatChecks,
        tools::registry::{SchemaCache, ToolSource},
        violation::Checks,
    };

    fn registry() -> Registry {
        let tool = |name: &str, parameters: &str| {
            ToolSource::parse(&format!(r#"{{"type":"function","function":{{"name":"{name}","parameters":{parameters}}}}}"#)).unwrap()
        };
        let tools = [
            tool(
                "calculate",
                r#"{"type":"object","properties":{"operation":{"type":"string","enum":["add","subtract","multiply","divide"]},"a":{"type":"number"},"b":{"type":"number"}},"required":["operation","a","b"]}"#,
            ),
            tool(
                "get_weather",
                r#"{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["city"]}"#,
            ),
            tool(
                "convert_currency",
                r#"{"type":"object","properties":{"amount":{"type":"number"},"from_currency":{"type":"string","enum":["EUR","USD"]},"to_currency":{"type":"string","enum":["EUR","USD"]}},"required":["amount","from_currency","to_currency"]}"#,
            ),
        ];
        Registry::build(&tools, &[], &Tools::default(), FormatChecks::Assert, &Checks::default(), &SchemaCache::default()).0
    }

    #[test]
    fn a_call_as_it_should_have_been() {
        let registry = registry();
        for (name, given, expected) in [
            ("divide", r#"{"a":7,"b":8}"#, r#"calculate {"operation": "divide", "a": 7, "b": 8}"#),
            ("multiply_numbers", r#"{"x":7,"y":8}"#, r#"calculate {"operation": "multiply", "a": 7, "b": 8}"#),
            ("Subtract", "{}", r#"calculate {"operation": "subtract", "a": <number>, "b": <number>}"#),
            ("calculate", r#"{"operation":"Divide","a":"7","b":"8"}"#, r#"calculate {"operation": "divide", "a": 7, "b": 8}"#),
            (
                "calculate",
                r#"{"expression":"7/8"}"#,
                r#"calculate {"operation": <one of "add", "subtract", "multiply", "divide">, "a": <number>, "b": <number>}"#,
            ),
            ("weather", r#"{"city":"Oslo"}"#, r#"get_weather {"city": "Oslo"}"#),
            ("get_weather", r#"{"location":"Oslo","unit":"F"}"#, r#"get_weather {"city": "Oslo", "unit": "fahrenheit"}"#),
            ("get_weather", r#"{"city":7}"#, r#"get_weather {"city": <string>}"#),
            (
                "convert_currency",
                r#"{"amount":1,"to":"USD","from":"EUR"}"#,
                r#"convert_currency {"amount": 1, "from_currency": "EUR", "to_currency": "USD"}"#,
            ),
            ("hammer", "{}", ""),
        ] {
            let given: Value = serde_json::from_str(given).unwrap();
            let found = match registry.tool(name) {
                Some(tool) => Some(Meant { tool, value: None }),
                None => meant(name, &registry),
            };
            let example = found.and_then(|meant| of(meant.tool, given.as_object(), meant.value.as_ref())).unwrap_or_default();
            let expected = match expected.split_once(' ') {
                Some((tool, arguments)) => format!("{{\"name\": \"{tool}\", \"arguments\": {arguments}}}"),
                None => String::new(),
            };
            assert_eq!(example, expected, "{name} {given}");
        }
    }

    #[test]
    fn nothing_long_is_repeated() {
        let registry = registry();
        let given: Value = serde_json::json!({"city": "x".repeat(5000)});
        assert_eq!(
            of(registry.tool("get_weather").unwrap(), given.as_object(), None).unwrap(),
            r#"{"name": "get_weather", "arguments": {"city": <string>}}"#
        );
    }
}
