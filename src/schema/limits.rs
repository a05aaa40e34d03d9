//! Bounds of a schema before it is compiled: size, depth, number of parts, references.
//!
//! A schema comes from anyone who sends requests, and compiling or checking one costs what its author likes. So it is measured first. The
//! same pass normalizes dialects: OpenAPI's `nullable`, and unknown values of `$schema`. Pure; knows which keywords hold schemas, not what
//! they mean.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use crate::{SchemaError, strict_json::parse_unique};

/// Bytes of one schema.
pub(crate) const BYTES_MAX: usize = 256 << 10;
/// Levels of JSON in a schema.
const DEPTH_MAX: u32 = 64;
/// Schemas inside a schema; the largest tools of real life have some hundreds.
const SUBSCHEMAS_MAX: usize = 8192;
/// References (`$ref` and the like) in one schema.
const REFERENCES_MAX: usize = 1024;
/// References that only the compiler can follow (`$id`, `$dynamicRef`).
const OPAQUE_MAX: usize = 16;
/// Schemas on one path that all look at the same value.
const CHAIN_MAX: u32 = 64;
/// Schemas with all references expanded: without a cycle, `jsonschema` checks a shared schema once per path to it.
const EXPANDED_MAX: u64 = 1 << 20;
/// Arrays and objects in one `enum`: earlier drafts demand that they differ, and `jsonschema` compares them by a hash that anyone can make
/// collide.
const CONTAINERS_MAX: usize = 256;
/// Schemas on one path from the root, without cycles.
const PATH_MAX: u32 = 256;

/// A schema that may be compiled.
#[derive(Debug)]
pub(crate) struct BoundedSchema {
    /// The schema, dialects normalized.
    pub(crate) value: Value,
    /// The draft that it names, if known.
    pub(crate) draft: Option<Draft>,
    /// Cost of checking against the schema.
    pub(crate) shape: SchemaCost,
}

/// Cost of checking against a schema.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SchemaCost {
    /// True if the schema refers to itself.
    pub(crate) recursive: bool,
    /// The most schemas on one path that check the same value.
    pub(crate) chain: u32,
    /// Approximate bytes of the largest `enum`, `const` or `required`: a fault with one copies it.
    pub(crate) largest: u64,
}

/// Reads and measures a schema.
///
/// # Errors
/// [`SchemaError`] if a bound is exceeded, or it isn't a schema.
pub(crate) fn prepare(raw: &str) -> Result<BoundedSchema, SchemaError> {
    if raw.len() > BYTES_MAX {
        return Err(SchemaError::TooLong);
    }
    let parsed = parse_unique(raw).map_err(|fault| SchemaError::Json(fault.to_string()))?;
    if parsed.depth > DEPTH_MAX {
        return Err(SchemaError::TooDeep);
    }
    let mut value = match parsed.value {
        // "Omitting parameters defines a function with an empty parameter list": OpenAI API reference.
        Value::Null => json!({"type": "object", "properties": {}}),
        value @ (Value::Object(_) | Value::Bool(_)) => value,
        _ => return Err(SchemaError::Invalid("a schema is an object or a boolean".into())),
    };
    let draft = value.get("$schema").and_then(Value::as_str).and_then(draft_named);
    even_out(&mut value, raw.contains("\"nullable\""));
    let shape = SchemaMeasurer::of(&value)?;
    Ok(BoundedSchema { value, draft, shape })
}

fn draft_named(uri: &str) -> Option<Draft> {
    let uri = uri.trim_end_matches('#').trim_end_matches('/');
    let uri = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
    match uri {
        "json-schema.org/draft-04/schema" => Some(Draft::Draft4),
        "json-schema.org/draft-06/schema" => Some(Draft::Draft6),
        "json-schema.org/draft-07/schema" => Some(Draft::Draft7),
        "json-schema.org/draft/2019-09/schema" => Some(Draft::Draft201909),
        "json-schema.org/draft/2020-12/schema" => Some(Draft::Draft202012),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum SubschemaKind {
    /// One schema; several if `items` is an array.
    Schemas,
    /// Schemas by name.
    Named,
}

/// Kind of subschemas that a keyword holds, and true if they check the same value as the schema around them.
fn holds(keyword: &str) -> Option<(SubschemaKind, bool)> {
    match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => Some((SubschemaKind::Schemas, true)),
        "dependentSchemas" | "dependencies" => Some((SubschemaKind::Named, true)),
        "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" => Some((SubschemaKind::Schemas, false)),
        "additionalProperties" | "unevaluatedProperties" | "propertyNames" | "contentSchema" => Some((SubschemaKind::Schemas, false)),
        "properties" | "patternProperties" | "$defs" | "definitions" => Some((SubschemaKind::Named, false)),
        _ => None,
    }
}

/// Subschemas of `schema`: the keyword, true if they check the same value, and the subschema.
pub(crate) fn inner(schema: &Map<String, Value>) -> impl Iterator<Item = (&str, bool, &Value)> {
    schema.iter().filter_map(|(keyword, value)| holds(keyword).map(|(holds, same)| (keyword, holds, same, value))).flat_map(
        |(keyword, holds, same, value)| {
            let found: Box<dyn Iterator<Item = &Value>> = match (holds, value) {
                (SubschemaKind::Named, Value::Object(map)) => Box::new(map.values()),
                (SubschemaKind::Schemas, Value::Array(list)) => Box::new(list.iter()),
                (SubschemaKind::Schemas, Value::Object(_)) => Box::new(std::iter::once(value)),
                _ => Box::new(std::iter::empty()),
            };
            found.map(move |inner| (keyword.as_str(), same, inner))
        },
    )
}

// INVARIANT: depth is at most DEPTH_MAX, so the recursion is bounded; so in the walks below.
fn even_out(schema: &mut Value, nullable: bool) {
    let Value::Object(map) = schema else { return };
    map.shift_remove("$schema");
    for (keyword, value) in map.iter_mut() {
        match (holds(keyword), value) {
            (Some((SubschemaKind::Named, _)), Value::Object(map)) => map.values_mut().for_each(|inner| even_out(inner, nullable)),
            (Some((SubschemaKind::Schemas, _)), Value::Array(list)) => list.iter_mut().for_each(|inner| even_out(inner, nullable)),
            (Some((SubschemaKind::Schemas, _)), value @ Value::Object(_)) => even_out(value, nullable),
            _ => {}
        }
    }
    if nullable && map.get("nullable") == Some(&Value::Bool(true)) {
        allow_null(map);
    }
}

/// Translates OpenAPI 3.0's `nullable: true`. In place if possible, so that references into the schema stay valid.
fn allow_null(map: &mut Map<String, Value>) {
    map.shift_remove("nullable");
    if ["$ref", "allOf", "const", "not", "if"].iter().any(|keyword| map.contains_key(*keyword)) {
        let own = Value::Object(std::mem::take(map));
        map.insert("anyOf".into(), json!([own, {"type": "null"}]));
        return;
    }
    match map.get_mut("type") {
        Some(Value::Array(types)) if !types.iter().any(|t| t == "null") => types.push("null".into()),
        Some(Value::String(own)) if own != "null" => {
            let own = std::mem::take(own);
            map.insert("type".into(), json!([own, "null"]));
        }
        _ => {}
    }
    if let Some(Value::Array(values)) = map.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(list)) = map.get_mut(keyword)
            && !list.iter().any(accepts_null)
        {
            list.push(json!({"type": "null"}));
        }
    }
}

fn accepts_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(own)) => own == "null",
        Some(Value::Array(types)) => types.iter().any(|t| t == "null"),
        _ => false,
    }
}

/// Target of a reference.
pub(crate) enum Target<'v> {
    /// This schema.
    Schema(&'v Value),
    /// A place that only the compiler can find.
    Opaque,
}

/// Targets of the references in `schema` itself.
pub(crate) fn references<'v>(schema: &'v Map<String, Value>, root: &'v Value, anchors: &HashMap<&str, &'v Value>) -> Vec<Target<'v>> {
    ["$ref", "$dynamicRef", "$recursiveRef"]
        .iter()
        .filter_map(|keyword| schema.get(*keyword).and_then(Value::as_str).map(|to| (*keyword, to)))
        .map(|(keyword, to)| {
            let fragment = to.strip_prefix('#').filter(|_| keyword == "$ref");
            let found = match fragment {
                Some("") => Some(root),
                Some(pointer) if pointer.starts_with('/') => root.pointer(&percent_decoded(pointer)),
                Some(name) => anchors.get(name).copied(),
                None => None,
            };
            found.map_or(Target::Opaque, Target::Schema)
        })
        .collect()
}

fn percent_decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Schemas by the names that `$ref: "#name"` may use.
pub(crate) fn anchors(root: &Value) -> HashMap<&str, &Value> {
    let mut found = HashMap::new();
    let mut open = vec![root];
    while let Some(schema) = open.pop() {
        let Value::Object(map) = schema else { continue };
        for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
            if let Some(name) = map.get(keyword).and_then(Value::as_str) {
                found.insert(name.strip_prefix('#').unwrap_or(name), schema);
            }
        }
        open.extend(inner(map).map(|(_, _, inner)| inner));
    }
    found
}

fn is_container(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// Approximate bytes of a value.
// INVARIANT: depth is at most DEPTH_MAX.
fn size(value: &Value) -> u64 {
    let inside: u64 = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| name.len() as u64 + size(value)).sum(),
    };
    inside + 32
}

#[derive(Clone, Copy)]
struct ReferenceGraph {
    path: u32,
    expanded: u64,
}

/// Measures a schema and its references.
struct SchemaMeasurer<'v> {
    root: &'v Value,
    anchors: HashMap<&'v str, &'v Value>,
    /// Chain lengths by the schema's address; `None` while one is being measured.
    chains: HashMap<*const Value, Option<u32>>,
    reaches: HashMap<*const Value, Option<ReferenceGraph>>,
    recursive: bool,
}

impl<'v> SchemaMeasurer<'v> {
    fn of(root: &'v Value) -> Result<SchemaCost, SchemaError> {
        let mut survey = SchemaMeasurer { root, anchors: anchors(root), chains: HashMap::new(), reaches: HashMap::new(), recursive: false };
        let (mut open, mut subschemas, mut refs, mut opaque, mut chain) = (vec![root], 0_usize, 0_usize, 0_usize, 0);
        let mut largest = 0;
        while let Some(schema) = open.pop() {
            subschemas += 1;
            let Value::Object(map) = schema else { continue };
            let targets = references(map, root, &survey.anchors);
            refs += targets.len();
            opaque += targets.iter().filter(|target| matches!(target, Target::Opaque)).count();
            open.extend(inner(map).map(|(_, _, inner)| inner));
            if subschemas + open.len() > SUBSCHEMAS_MAX || refs > REFERENCES_MAX || opaque > OPAQUE_MAX {
                return Err(SchemaError::TooMany);
            }
            chain = chain.max(survey.chain(schema, 0)?);
            for keyword in ["enum", "const", "required", "dependentRequired"] {
                largest = largest.max(map.get(keyword).map_or(0, size));
            }
            if map
                .get("enum")
                .and_then(Value::as_array)
                .is_some_and(|list| list.iter().filter(|own| is_container(own)).count() > CONTAINERS_MAX)
            {
                return Err(SchemaError::TooMany);
            }
        }
        let reach = survey.reach(root, 0)?;
        if reach.expanded > EXPANDED_MAX {
            return Err(SchemaError::TooMany);
        }
        let recursive = survey.recursive || opaque > 0;
        let chain = chain + if opaque > 0 { OPAQUE_MAX as u32 } else { 0 };
        Ok(SchemaCost { recursive, chain, largest })
    }

    /// Longest path of schemas from here that all check the same value.
    fn chain(&mut self, schema: &'v Value, level: u32) -> Result<u32, SchemaError> {
        let Value::Object(map) = schema else { return Ok(1) };
        if level > CHAIN_MAX {
            return Err(SchemaError::TooDeep);
        }
        match self.chains.insert(schema, None) {
            Some(None) => return Err(SchemaError::Loop),
            Some(Some(known)) => {
                self.chains.insert(schema, Some(known));
                return Ok(known);
            }
            None => {}
        }
        let mut longest = 0;
        for (_, same, inner) in inner(map) {
            if same {
                longest = longest.max(self.chain(inner, level + 1)?);
            }
        }
        for target in references(map, self.root, &self.anchors) {
            if let Target::Schema(target) = target {
                longest = longest.max(self.chain(target, level + 1)?);
            }
        }
        self.chains.insert(schema, Some(longest + 1));
        Ok(longest + 1)
    }

    /// Longest path from here, and the number of schemas with all references expanded.
    fn reach(&mut self, schema: &'v Value, level: u32) -> Result<ReferenceGraph, SchemaError> {
        let Value::Object(map) = schema else { return Ok(ReferenceGraph { path: 1, expanded: 1 }) };
        if level > PATH_MAX {
            return Err(SchemaError::TooDeep);
        }
        match self.reaches.insert(schema, None) {
            Some(None) => {
                self.recursive = true;
                return Ok(ReferenceGraph { path: 1, expanded: 1 });
            }
            Some(Some(known)) => {
                self.reaches.insert(schema, Some(known));
                if level + known.path > PATH_MAX {
                    return Err(SchemaError::TooDeep);
                }
                return Ok(known);
            }
            None => {}
        }
        let mut sum = ReferenceGraph { path: 0, expanded: 1 };
        let mut inside: Vec<&Value> =
            inner(map).filter(|(keyword, _, _)| !matches!(*keyword, "$defs" | "definitions")).map(|(_, _, inner)| inner).collect();
        inside.extend(references(map, self.root, &self.anchors).into_iter().filter_map(|target| match target {
            Target::Schema(target) => Some(target),
            Target::Opaque => None,
        }));
        for inner in inside {
            let reach = self.reach(inner, level + 1)?;
            sum = ReferenceGraph { path: sum.path.max(reach.path), expanded: sum.expanded.saturating_add(reach.expanded) };
        }
        let reach = ReferenceGraph { path: sum.path + 1, expanded: sum.expanded };
        self.reaches.insert(schema, Some(reach));
        Ok(reach)
    }
}
