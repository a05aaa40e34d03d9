//! A tool's `inputSchema` as OpenAI's `parameters`. Pure.
//!
//! Source: MCP specification, "Tools"; OpenAI API reference, "Structured Outputs" for `strict`.

use serde_json::{Map, Value};

/// Maximum depth to which a schema is cleaned; deeper parts stay unchanged.
const DEPTH_MAX: usize = 64;

/// Keywords whose value is a schema.
const SCHEMA: &[&str] = &[
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value is an object of schemas.
const NAMED: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is an array of schemas.
const LISTED: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords that upstreams accept in a strict schema.
const STRICT: &[&str] =
    &["type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "description", "title"];

/// The schema without `$schema` and vendors' keywords. At the top it is an object with `properties`, as upstreams
/// require.
pub fn parameters(schema: &Map<String, Value>) -> Value {
    let mut cleaned = clean_map(schema, 0);
    if !cleaned.contains_key("type") {
        cleaned.insert("type".into(), "object".into());
    }
    if !cleaned.contains_key("properties") {
        cleaned.insert("properties".into(), Value::Object(Map::new()));
    }
    Value::Object(cleaned)
}

fn clean(schema: &Value, depth: usize) -> Value {
    match schema {
        Value::Object(map) if depth < DEPTH_MAX => Value::Object(clean_map(map, depth)),
        other => other.clone(),
    }
}

fn clean_map(schema: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    let vendor = |key: &str| key == "$schema" || key == "$id" && depth == 0 || key.starts_with("x-") || key.starts_with("x_");
    let member = |(key, value): (&String, &Value)| {
        let cleaned = match value {
            Value::Object(named) if NAMED.contains(&key.as_str()) => {
                Value::Object(named.iter().map(|(name, schema)| (name.clone(), clean(schema, depth + 1))).collect())
            }
            Value::Array(list) if LISTED.contains(&key.as_str()) => list.iter().map(|schema| clean(schema, depth + 1)).collect(),
            Value::Object(_) if SCHEMA.contains(&key.as_str()) => clean(value, depth + 1),
            other => other.clone(),
        };
        (key.clone(), cleaned)
    };
    schema.iter().filter(|(key, _)| !vendor(key)).map(member).collect()
}

/// True if the parameters may be sent with `strict: true`: every object in them is closed and requires all its
/// properties.
pub fn qualifies_for_strict(parameters: &Value) -> bool {
    parameters.get("type").is_some_and(|kind| kind == "object") && qualifies(parameters, 0)
}

fn qualifies(schema: &Value, depth: usize) -> bool {
    let Value::Object(map) = schema else { return false };
    if depth > DEPTH_MAX || !map.keys().all(|key| STRICT.contains(&key.as_str())) {
        return false;
    }
    let is_object =
        map.get("type").is_some_and(|kind| kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&"object".into())));
    if is_object || map.contains_key("properties") {
        let (Some(properties), Some(required)) =
            (map.get("properties").and_then(Value::as_object), map.get("required").and_then(Value::as_array))
        else {
            return false;
        };
        let all = properties.keys().all(|name| required.iter().any(|own| own == name)) && required.len() == properties.len();
        if !all || map.get("additionalProperties") != Some(&Value::Bool(false)) {
            return false;
        }
        if !properties.values().all(|property| qualifies(property, depth + 1)) {
            return false;
        }
    }
    let items = map.get("items").is_none_or(|items| qualifies(items, depth + 1));
    let choices = map.get("anyOf").is_none_or(|list| list.as_array().is_some_and(|list| list.iter().all(|own| qualifies(own, depth + 1))));
    let said = ["type", "enum", "const", "anyOf"].iter().any(|key| map.contains_key(*key));
    said && items && choices
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn keywords_that_upstreams_refuse_are_left_out_and_names_are_not() {
        for (schema, expected) in [
            (json!({}), json!({"type": "object", "properties": {}})),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "x-mcp-header": "A", "properties":
                    {"x-a": {"type": "string", "x-b": 1}, "$schema": {"type": "number"}}}),
                json!({"type": "object", "properties": {"x-a": {"type": "string"}, "$schema": {"type": "number"}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"anyOf": [{"x-c": 1, "const": {"x-d": 1}}], "items": {"x-e": 1}}}}),
                json!({"type": "object", "properties": {"a": {"anyOf": [{"const": {"x-d": 1}}], "items": {}}}}),
            ),
        ] {
            assert_eq!(parameters(&map(schema.clone())), expected, "{schema}");
        }
    }

    #[test]
    fn only_closed_schemas_are_strict() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
        assert!(qualifies_for_strict(&closed));
        for (key, value) in [
            ("required", json!([])),
            ("additionalProperties", json!(true)),
            ("minProperties", json!(1)),
            ("properties", json!({"a": {"type": "object"}})),
            ("properties", json!({"a": {"type": "string", "pattern": "x"}})),
            ("properties", json!({"a": {}})),
            ("type", json!("array")),
        ] {
            let mut open = closed.clone();
            open[key] = value.clone();
            assert!(!qualifies_for_strict(&open), "{key}: {value}");
        }
    }
}
