//! Tests of [`super`]: tables of what passes and, more, of what doesn't.

use super::*;
use crate::violation::Severity;

const WEATHER: &str = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;

fn source(name: &str, parameters: &str) -> ToolSource {
    ToolSource::parse(&format!(r#"{{"type":"function","function":{{"name":"{name}","parameters":{parameters}}}}}"#)).expect("parses")
}

fn request<'r>(name: &'r str, parameters: &'r str) -> RequestTool<'r> {
    RequestTool { name, kind: ToolKind::Function, parameters_raw: Some(parameters), description: None, raw: parameters }
}

/// Codes of the violations, the plan, and the declared names.
fn check(policy: &[ToolSource], tools: &[RequestTool<'_>], rules: &Tools) -> (Registry, Vec<&'static str>) {
    let (registry, violations) = Registry::build(policy, tools, rules, FormatChecks::Assert, &Checks::default(), &SchemaCache::default());
    (registry, violations.iter().map(|violation| violation.code.as_str()).collect())
}

#[test]
fn sources() {
    for (raw, fault) in [
        ("", "JSON"),
        ("{}", "type"),
        (r#"{"type":"function"}"#, "function"),
        (r#"{"type":"web_search"}"#, "web_search"),
        (r#"{"type":"function","function":{"name":""}}"#, "name"),
        (r#"{"type":"function","function":{"name":"a b"}}"#, "name"),
        (r#"{"type":"function","function":{"name":"a","name":"b"}}"#, "two members"),
    ] {
        assert!(ToolSource::parse(raw).expect_err(raw).contains(fault), "{raw}");
    }
    assert_eq!(ToolSource::parse(r#"{"type":"custom","custom":{"name":"shell"}}"#).expect("parses").name(), "shell");
}

#[test]
fn joining() {
    let policy = [source("a", WEATHER), source("b", "{}")];
    let tools = [request("c", "{}"), request("a", WEATHER)];
    let rules = |inject, undeclared| Tools { inject, undeclared, ..Tools::default() };
    for (inject, undeclared, names, plan) in [
        (
            Inject::Merge,
            Undeclared::Allow,
            &["c", "a", "b"][..],
            &[ToolsPlanItem::Keep(0), ToolsPlanItem::Put(1), ToolsPlanItem::Put(2)][..],
        ),
        (Inject::Merge, Undeclared::Reject, &["a", "b"], &[ToolsPlanItem::Put(1), ToolsPlanItem::Put(2)]),
        (Inject::Replace, Undeclared::Allow, &["a", "b"], &[ToolsPlanItem::Put(1), ToolsPlanItem::Put(2)]),
        (Inject::Off, Undeclared::Allow, &["c", "a"], &[ToolsPlanItem::Keep(0), ToolsPlanItem::Keep(1)]),
        (Inject::Off, Undeclared::Reject, &["a"], &[ToolsPlanItem::Keep(1)]),
    ] {
        let (registry, codes) = check(&policy, &tools, &rules(inject, undeclared));
        assert_eq!(registry.names().collect::<Vec<_>>(), names, "{inject:?} {undeclared:?}");
        assert_eq!(registry.plan(), plan, "{inject:?} {undeclared:?}");
        assert_eq!(registry.unchanged(), inject == Inject::Off && undeclared == Undeclared::Allow);
        assert_eq!(codes, Vec::<&str>::new());
        assert_eq!(registry.tool("c").map(|tool| tool.declared), Some(inject != Inject::Replace && undeclared == Undeclared::Allow));
    }
    assert!(check(&[], &tools, &Tools::default()).0.unchanged());
    assert!(check(&[], &[], &Tools::default()).0.is_empty());
}

#[test]
fn drift() {
    let spelled = r#"{ "required": ["city"], "properties": {"city": {"type": "string"}}, "type": "object" }"#;
    let other = r#"{"type":"object","properties":{"city":{"type":"integer"}},"required":["city"]}"#;
    for (parameters, codes) in [(WEATHER, &[][..]), (spelled, &[]), (other, &["schema_drift"]), ("{", &["schema_drift"])] {
        let (registry, found) = check(&[source("a", WEATHER)], &[request("a", parameters)], &Tools::default());
        assert_eq!(found, codes, "{parameters}");
        assert_eq!(registry.tool("a").map(|tool| tool.origin), Some(ToolOrigin::Policy));
    }
    let described = RequestTool { description: Some("other"), ..request("a", WEATHER) };
    assert_eq!(check(&[source("a", WEATHER)], &[described], &Tools::default()).1, ["schema_drift"]);
    let custom = RequestTool { kind: ToolKind::Custom, ..request("a", WEATHER) };
    assert_eq!(check(&[source("a", WEATHER)], &[custom], &Tools::default()).1, ["schema_drift"]);
    let numbers = [r#"{"maxProperties":1.0}"#, r#"{"maxProperties":1}"#];
    assert!(check(&[source("a", numbers[0])], &[request("a", numbers[1])], &Tools::default()).1.is_empty());
}

#[test]
fn faults() {
    let (registry, codes) = check(&[], &[request("a", r#"{"type":"strng"}"#), request("b", "{}")], &Tools::default());
    assert_eq!(codes, ["invalid_tool_schema"]);
    assert!(registry.tool("a").is_some_and(|tool| tool.declared && tool.schema.is_err()));
    let (registry, codes) = check(&[], &[request("a", "{}"), request("a", WEATHER), request("a", "{}")], &Tools::default());
    assert_eq!(codes, ["invalid_tool_schema"], "two that differ; the third is the first again");
    assert_eq!(registry.plan(), [ToolsPlanItem::Keep(0), ToolsPlanItem::Keep(2)]);
    assert!(!registry.unchanged());
    let rules = Tools { expect: vec!["a".into(), "b".into()], ..Tools::default() };
    let (registry, violations) =
        Registry::build(&[], &[request("a", "{}")], &rules, FormatChecks::Assert, &Checks::default(), &SchemaCache::default());
    assert_eq!(violations.iter().map(|v| (v.code, v.severity)).collect::<Vec<_>>(), [(Code::MissingTool, Severity::Block)]);
    assert!(registry.tool("b").is_none());
    let undeclared = Tools { expect: vec!["a".into()], undeclared: Undeclared::Reject, ..Tools::default() };
    assert_eq!(check(&[], &[request("a", "{}")], &undeclared).1, ["missing_tool"]);
    assert_eq!(check(&[source("a", "{}"), source("a", WEATHER)], &[], &Tools::default()).1, ["invalid_tool_schema"]);
}

#[test]
fn schemas_are_compiled_once() {
    let cache = SchemaCache::default();
    let first = cache.compile(WEATHER, FormatChecks::Assert);
    assert!(Arc::ptr_eq(&first, &cache.compile(WEATHER, FormatChecks::Assert)));
    assert!(!Arc::ptr_eq(&first, &cache.compile(WEATHER, FormatChecks::Ignore)));
    let fault = cache.compile("{", FormatChecks::Assert);
    assert!(fault.is_err() && Arc::ptr_eq(&fault, &cache.compile("{", FormatChecks::Assert)));
}

#[test]
fn the_schemas_of_a_request_share_a_budget() {
    let patterns = |tool: usize| format!(r#"{{"properties":{{"a":{{"pattern":"^\\p{{L}}{{30}}{tool}$"}}}}}}"#);
    let schemas: Vec<(String, String)> = (0..40).map(|tool| (format!("t{tool}"), patterns(tool))).collect();
    let tools: Vec<RequestTool<'_>> = schemas.iter().map(|(name, schema)| request(name, schema)).collect();
    let (registry, codes) = check(&[], &tools, &Tools::default());
    assert!(registry.tools().first().is_some_and(|tool| tool.schema.is_ok()));
    assert!(registry.tools().last().is_some_and(|tool| matches!(*tool.schema, Err(SchemaError::Request))));
    assert!(codes.contains(&"invalid_tool_schema"));
    let long = format!(r#"{{"description":"{}"}}"#, "x".repeat(200 << 10));
    let names: Vec<String> = (0..30).map(|tool| format!("t{tool}")).collect();
    let tools: Vec<RequestTool<'_>> = names.iter().map(|name| request(name, &long)).collect();
    let (registry, _) = check(&[], &tools, &Tools::default());
    assert_eq!(registry.tools().iter().filter(|tool| tool.schema.is_ok()).count(), 20);
}
