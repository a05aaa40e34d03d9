//! Tests of [`super`]: tables of what passes and, more, of what doesn't.

use serde_json::json;

use super::*;

fn check(schema: &Value, arguments: &str) -> Vec<SchemaIssue> {
    let schema = Schema::compile(&schema.to_string(), FormatChecks::Assert).expect("compiles");
    let parsed = crate::strict_json::parse_unique(arguments).expect("parses");
    let issues = schema.issues_of(&parsed, 20);
    assert_eq!(issues.is_empty(), schema.fits(&parsed));
    assert_eq!(issues, schema.violations(&parsed.value, 20));
    issues
}

#[test]
fn faults() {
    let refs = |count: usize| {
        let defs: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)}))).collect();
        json!({"$ref": "#/$defs/d0", "$defs": defs}).to_string()
    };
    let many_refs = json!({"prefixItems": vec![json!({"$ref": "#/$defs/a"}); 1100], "$defs": {"a": {}}}).to_string();
    let many: Vec<Value> = (0..9000).map(|_| json!({})).collect();
    for (raw, fault) in [
        ("", "no JSON"),
        ("{\"type\":\"object\",\"type\":\"object\"}", "no JSON"),
        ("3", "object or a boolean"),
        ("[]", "object or a boolean"),
        (r#"{"type":"strng"}"#, "valid"),
        (r#"{"properties":{"a":{"type":"float"}}}"#, "valid"),
        (r#"{"$ref":"https://example.com/schema.json"}"#, "valid"),
        (r#"{"$ref":"file:///etc/passwd"}"#, "valid"),
        (r##"{"$ref":"#/$defs/none"}"##, "valid"),
        (r##"{"$ref":"#"}"##, "itself"),
        (r##"{"allOf":[{"$ref":"#"}]}"##, "itself"),
        (r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}"##, "itself"),
        (r#"{"pattern":"("}"#, "valid"),
        (r#"{"pattern":"(\\w{1000}){1000}"}"#, "patterns"),
        (r#"{"patternProperties":{"^\\p{L}{200}$":{}}}"#, "patterns"),
        (&json!({"enum": vec![json!([1]); 300]}).to_string(), "too many"),
        (&refs(100), "deep"),
        (&many_refs, "too many"),
        (&json!({ "anyOf": many }).to_string(), "too many"),
        (&format!("{}{}", r#"{"not":"#.repeat(70) + "{}", "}".repeat(70)), "deep"),
        (&format!("{}{}", r#"{"not":"#.repeat(200) + "{}", "}".repeat(200)), "no JSON"),
        (&json!({ "description": "x".repeat(300 << 10) }).to_string(), "longer"),
    ] {
        let error = Schema::compile(raw, FormatChecks::Assert).expect_err(raw.get(..60).unwrap_or(raw)).to_string();
        assert!(error.contains(fault), "{} {error}", raw.get(..60).unwrap_or(raw));
    }
}

#[test]
fn fits_or_not() {
    let lookahead = json!({"properties": {"a": {"pattern": "^(?!x)a"}}});
    let recursive = json!({"properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}, "additionalProperties": false});
    for (schema, arguments, fits) in [
        (Value::Null, "{}", true),
        (Value::Null, r#"{"a":1}"#, true),
        (json!({"$schema": "https://example.com/ours", "required": ["a"]}), "{}", false),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "email"}}}), r#"{"a":"x"}"#, false),
        (json!({"properties": {"a": {"format": "email"}}}), r#"{"a":"x"}"#, false),
        (json!({"properties": {"a": {"format": "ours"}}}), r#"{"a":"x"}"#, true),
        (json!({"properties": {"a": {"items": [{"type": "string"}]}}}), r#"{"a":[1]}"#, false),
        (json!({"properties": {"a": {"minimum": 1, "exclusiveMinimum": true}}}), r#"{"a":1}"#, false),
        (json!({"properties": {"a": {"type": "integer"}}}), r#"{"a":1.0}"#, true),
        (json!({"properties": {"a": {"type": "integer"}}}), r#"{"a":12345678901234567890123}"#, true),
        (json!({"properties": {"a": {"type": "integer"}}}), r#"{"a":1.5}"#, false),
        (json!({"properties": {"a": {"type": "string", "nullable": true}}}), r#"{"a":null}"#, true),
        (json!({"properties": {"a": {"type": "string", "enum": ["x"], "nullable": true}}}), r#"{"a":null}"#, true),
        (json!({"properties": {"a": {"type": "string", "nullable": false}}}), r#"{"a":null}"#, false),
        (json!({"properties": {"a": {"anyOf": [{"type": "string"}], "nullable": true}}}), r#"{"a":null}"#, true),
        (json!({"properties": {"a": {"$ref": "#/$defs/d", "nullable": true}}, "$defs": {"d": {"type": "string"}}}), r#"{"a":null}"#, true),
        (json!({"properties": {"nullable": {"type": "string"}}}), r#"{"nullable":null}"#, false),
        (json!({"properties": {"a": {"const": {"nullable": true, "type": "x"}}}}), r#"{"a":{"nullable":true,"type":"x"}}"#, true),
        (lookahead.clone(), r#"{"a":"ab"}"#, true),
        (lookahead, r#"{"a":"xa"}"#, false),
        (recursive.clone(), r#"{"child":{"child":{"n":1}}}"#, true),
        (recursive, r#"{"child":{"child":{"n":"1"}}}"#, false),
        (json!({"properties": {"a": {"uniqueItems": true}}}), r#"{"a":[1,1.0]}"#, false),
        (json!(false), "{}", false),
        (json!({"$id": "https://example.com/a", "$ref": "#b", "$defs": {"b": {"$anchor": "b", "required": ["x"]}}}), "{}", false),
    ] {
        assert_eq!(check(&schema, arguments).is_empty(), fits, "{schema} {arguments}");
    }
    let loose = Schema::compile(r#"{"properties":{"a":{"format":"email"}}}"#, FormatChecks::Ignore).expect("compiles");
    assert!(loose.violations(&json!({"a": "x"}), 20).is_empty());
}

#[test]
fn issues_are_told() {
    let schema = json!({"type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
        "a": {"type": "integer"}, "b": {"enum": ["x", "y"]}, "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "d": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["e"]}]},
        "l": {"items": {"type": "string", "maxLength": 2}}}});
    let long = format!(r#"{{"a":"{}","c":1,"d":{{}},"l":["abc",{{}}],"z":0}}"#, "x".repeat(1000));
    let told: Vec<String> = check(&schema, &long)
        .iter()
        .map(|issue| format!("{}|{}|{}|{}", issue.pointer, issue.keyword, issue.expected, issue.got.chars().count()))
        .collect();
    for line in [
        "|required|member \"b\"|0",
        "|additionalProperties|no further members|0",
        "/a|type|integer|81",
        "/c|anyOf|string or null|1",
        "/d|anyOf|one of: string; or member \"e\"|2",
        "/l/0|maxLength|the value is longer than 2 characters|5",
        "/l/1|type|string|2",
    ] {
        assert!(told.iter().any(|own| own == line), "{line} in {told:#?}");
    }
    assert_eq!(
        Schema::compile(&schema.to_string(), FormatChecks::Assert)
            .expect("compiles")
            .violations(&json!({"a": "", "l": [1, 2, 3, 4]}), 3)
            .len(),
        3
    );
}

#[test]
fn hostile_schemas_end_soon() {
    // 2^40 ways through acyclic references, and 2^60 through ones that come back.
    let mut defs: serde_json::Map<String, Value> = (0..40)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"properties": {"a": {"anyOf": [next, next]}}}))
        })
        .collect();
    defs.insert("d40".into(), json!(false));
    let acyclic = json!({"$ref": "#/$defs/d0", "$defs": defs});
    assert_eq!(Schema::compile(&acyclic.to_string(), FormatChecks::Assert).expect_err("too many"), SchemaError::TooMany);
    let cyclic = json!({"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["z"]}, {"properties": {"a": {"$ref": "#"}}, "required": ["y"]}]});
    let deep = format!("{}1{}", "{\"a\":".repeat(60), "}".repeat(60));
    let backtracking = json!({"properties": {"a": {"pattern": "^(?=(a+)+$)(a|a)*b$"}}});
    for (schema, arguments) in [(cyclic, deep), (backtracking, format!(r#"{{"a":"{}!"}}"#, "a".repeat(5000)))] {
        assert!(!check(&schema, &arguments).is_empty());
    }
}

/// 30 kinds of blocks, most of which have children, in about 4 KiB.
fn blocks() -> Value {
    let kind = |n: usize| {
        let (kind, children) = (format!("kind_{n}"), json!({"type": "array", "items": {"$ref": "#/$defs/block"}}));
        json!({"type": "object", "properties": {"type": {"const": kind}, "children": children}, "required": ["type"]})
    };
    let kinds: Vec<Value> = (0..30).map(kind).collect();
    json!({"type": "object", "properties": {"block": {"$ref": "#/$defs/block"}}, "required": ["block"], "$defs": {"block": {"anyOf": kinds}}})
}

#[test]
fn explanations_are_bounded() {
    // 155 wrong bytes: twelve levels of children that are of no kind, which 30 alternatives each would explain.
    let deep = |levels: usize| format!("{{\"block\":{}1{}}}", "{\"children\":[".repeat(levels), "]}".repeat(levels));
    assert!(blocks().to_string().len() < 6 << 10);
    for levels in [1, 2, 8, 12, 16] {
        let issues = check(&blocks(), &deep(levels));
        assert!(!issues.is_empty(), "{levels}");
    }
    // One wrong block is explained as ever, where those around it are right.
    let mended = r#"{"block":{"type":"kind_1","children":[{"type":"kind_2"},{"type":"kind_3","children":[]}]}}"#;
    assert!(check(&blocks(), mended).is_empty());
    let issue = check(&blocks(), &mended.replace("\"kind_3\"", "3")).remove(0);
    assert_eq!((issue.pointer.as_str(), issue.keyword.as_str()), ("/block", "anyOf"));
    // 500 kinds, 4,000 items, no recursion.
    let kinds: Vec<Value> = (0..500).map(|n| json!({"properties": {"type": {"const": format!("k{n}")}}, "required": ["type"]})).collect();
    let list = json!({"properties": {"list": {"type": "array", "items": {"anyOf": kinds}}}});
    let many = format!("{{\"list\":[{}]}}", vec!["{\"type\":\"x\"}"; 4000].join(","));
    let issues = check(&list, &many);
    assert_eq!((issues.len(), issues[0].keyword.as_str()), (1, "schema"));
    // An enum that is copied into each fault is counted as often.
    let options: Vec<String> = (0..8000).map(|n| format!("option number {n}")).collect();
    let list = json!({"properties": {"list": {"items": {"enum": options}}}});
    assert_eq!(check(&list, &format!("{{\"list\":[{}]}}", vec!["1"; 4000].join(","))).len(), 1);
}

#[test]
fn patterns_share_a_budget() {
    let schema = |count: usize| {
        let properties: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("p{n}"), json!({"pattern": format!(r"^\p{{L}}{{20}}{n}$")}))).collect();
        json!({ "properties": properties }).to_string()
    };
    assert_eq!(Schema::compile(&schema(800), FormatChecks::Assert).expect_err("too large"), SchemaError::Patterns);
    let two = Schema::compile(&schema(2), FormatChecks::Assert).expect("compiles");
    assert!(two.pattern_bytes() > 100 << 10 && two.pattern_bytes() < 4 << 20, "{}", two.pattern_bytes());
    assert!(!two.violations(&json!({"p0": "x"}), 20).is_empty());
    // One pattern in many places is compiled once.
    let same: serde_json::Map<String, Value> = (0..800).map(|n| (format!("p{n}"), json!({"pattern": r"^\p{L}{20}$"}))).collect();
    assert!(Schema::compile(&json!({ "properties": same }).to_string(), FormatChecks::Assert).is_ok());
    let names: serde_json::Map<String, Value> = (0..800).map(|n| (format!(r"^\p{{L}}{{20}}{n}$"), json!({}))).collect();
    assert_eq!(
        Schema::compile(&json!({ "patternProperties": names }).to_string(), FormatChecks::Assert).expect_err("too large"),
        SchemaError::Patterns
    );
}

#[test]
fn checks_take_bounded_steps() {
    use crate::fuel::{TURN_STEPS_MAX, left};
    let lookahead = json!({"properties": {"a": {"pattern": r"(?=.*x).*y"}}});
    let honest = json!({"properties": {"a": {"pattern": r"^(?!\s*$)[\s\S]+"}}});
    let unique = json!({"properties": {"a": {"uniqueItems": true}}});
    let nest = |shape: usize| {
        // All of them have one hash in `jsonschema`.
        let (open, closed): (String, String) = (0..12).map(|bit| if shape >> bit & 1 == 1 { ("[", "]") } else { ("", "") }).unzip();
        format!("[{open}1{closed},{shape}]")
    };
    let colliding = format!("{{\"a\":[{}]}}", (0..4096).map(nest).collect::<Vec<_>>().join(","));
    let options: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let large_enum = json!({"properties": {"a": {"items": {"enum": options}}}});
    let unevaluated = (0..20).fold(json!({"properties": {"z": {}}}), |inner, n| {
        json!({"anyOf": [inner, {"properties": {format!("p{n}"): {"type": "integer"}}}], "unevaluatedProperties": {"type": "string"}})
    });
    let text = |length: usize| format!("{{\"a\":\"{}\"}}", "a ".repeat(length / 2));
    let list = |item: &str, count: usize| format!("{{\"a\":[{}]}}", vec![item; count].join(","));
    for (schema, arguments, fits) in [
        (&lookahead, text(20_000), false),
        (&honest, text(200_000), true),
        (&unique, colliding, true),
        (&unique, list("7", 100_000), false),
        (&json!({"properties": {"a": {"contains": {"const": 1}, "maxContains": 5}}}), list("2", 100_000), false),
        (&large_enum, list("\"x\"", 100_000), false),
        (&unevaluated, r#"{"p1":"x","p2":"x","z":1}"#.to_owned(), false),
        (&json!({"properties": {"a": {"multipleOf": 1e-300}}}), r#"{"a":1e308}"#.to_owned(), true),
        (&json!({"properties": {"a": {"format": "regex"}}}), format!("{{\"a\":\"{}\"}}", "(".repeat(100_000)), false),
        (&json!({"properties": {"a": {"format": "email"}}}), format!("{{\"a\":\"{}@b.c\"}}", "a.".repeat(50_000)), false),
        (&json!({"properties": {"a": {"format": "uri"}}}), format!("{{\"a\":\"http://{}\"}}", "a/".repeat(50_000)), true),
        (
            &json!({"properties": {"a": {"propertyNames": {"pattern": "^(?!x)"}}}}),
            format!("{{\"a\":{{\"{}\":1}}}}", "y".repeat(100_000)),
            true,
        ),
        (&json!({"patternProperties": {r"(?=.*x).*y": {}}}), format!("{{\"{}\":1}}", "a".repeat(50_000)), false),
    ] {
        let compiled = Schema::compile(&schema.to_string(), FormatChecks::Assert).expect("compiles");
        let parsed = crate::strict_json::parse_unique(&arguments).expect("parses");
        let name: String = schema.to_string().chars().take(80).collect();
        let _ = compiled.issues_of(&parsed, 20);
        assert_eq!(compiled.fits(&parsed), fits, "{name}");
        println!("{} {name}", TURN_STEPS_MAX - left());
    }
}

#[test]
fn unique_items_are_told_by_value() {
    let schema = json!({"properties": {"a": {"uniqueItems": true}}});
    for (list, unique) in [
        ("[1,1.0]", false),
        ("[0,-0.0]", false),
        ("[1,\"1\",true,null,[1],{\"a\":1}]", true),
        (r#"[{"a":1,"b":[2]},{"b":[2.0],"a":1}]"#, false),
        ("[[1,[2]],[[1],2],[[1,2]]]", true),
        ("[18446744073709551615,18446744073709551614]", true),
        ("[1e300,1e300]", false),
        ("[0.1,0.2]", true),
        ("[9007199254740993,9007199254740992.0]", true),
    ] {
        assert_eq!(check(&schema, &format!("{{\"a\":{list}}}")).is_empty(), unique, "{list}");
    }
}

#[test]
fn the_calls_of_a_turn_share_its_steps() {
    use crate::fuel::turn;
    let schema = Schema::compile(
        &json!({"properties": {"a": {"items": {"enum": (0..100).map(|n| n.to_string()).collect::<Vec<_>>()}}}}).to_string(),
        FormatChecks::Assert,
    );
    let schema = schema.expect("compiles");
    let arguments = json!({"a": vec!["99"; 100_000]});
    assert!(schema.violations(&arguments, 20).is_empty());
    let counts = turn(|| (0..100).filter(|_| schema.violations(&arguments, 20).is_empty()).count());
    assert!((1..100).contains(&counts), "{counts}");
}

#[test]
fn the_stack_holds() {
    let mut inner = json!({"properties": {"a": {"$ref": "#"}}});
    for _ in 0..29 {
        inner = json!({"allOf": [inner]});
    }
    let schema = json!({"allOf": [inner]});
    for depth in [5, 18, 19, 120] {
        let arguments = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert_eq!(check(&schema, &arguments).is_empty(), depth < 19, "{depth}");
    }
}

#[test]
fn parameters() {
    let schema = json!({"allOf": [{"$ref": "#/$defs/base"}], "properties": {"b": {"type": ["string", "null"]}}, "required": ["b"],
        "patternProperties": {"^x-": {}}, "$defs": {"base": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}});
    let schema = Schema::compile(&schema.to_string(), FormatChecks::Assert).expect("compiles");
    let mut required: Vec<&str> = schema.required().collect();
    required.sort_unstable();
    assert_eq!(required, ["a", "b"]);
    assert_eq!(["a", "b", "x-y", "c"].map(|name| schema.is_unknown(name)), [false, false, false, true]);
    for (raw, unknown) in [
        ("null", true),
        ("{}", false),
        ("true", false),
        (r#"{"type":"object"}"#, false),
        (r#"{"type":"object","properties":{}}"#, true),
        (r#"{"properties":{},"additionalProperties":true}"#, false),
        (r#"{"properties":{},"additionalProperties":{"type":"string"}}"#, false),
        (r#"{"properties":{},"additionalProperties":false}"#, true),
        (r#"{"anyOf":[{"properties":{"z":{}}},{"properties":{"y":{}}}]}"#, true),
        (r#"{"anyOf":[{"properties":{"z":{}}},{"properties":{"q":{}}}]}"#, false),
    ] {
        assert_eq!(Schema::compile(raw, FormatChecks::Assert).expect(raw).is_unknown("q"), unknown, "{raw}");
    }
}

proptest::proptest! {
    #[test]
    fn any_schema_compiles_or_not(raw in r##"\{("(type|properties|items|anyOf|\$ref|required|enum|pattern|nullable|\$id|\$anchor|not)":("#|#a|string|object|\^a"|"#"|\{\}|\[\]|true|null|\{"a":\{"\$ref":"#"\}\}|\[\{\}\]),?){0,4}\}"##) {
        if let Ok(schema) = Schema::compile(&raw, FormatChecks::Assert) {
            let _ = schema.violations(&json!({"a": {"a": [1, null]}, "b": "c"}), 20);
        }
    }
}
