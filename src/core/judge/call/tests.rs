//! Tests of [`super`]: tables of what passes and, more, of what doesn't.

use super::*;
use crate::{
    policy::{Tools, Undeclared},
    schema::FormatChecks,
    tools::registry::{RequestTool, SchemaCache, ToolSource},
};

const SCHEMA: &str = r#"{"type":"object","required":["city"],"properties":{"city":{"type":"string"},"days":{"type":"integer"},
    "unit":{"type":"string","enum":["c","f"]},"place":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":["number","null"]}},"required":["y"]},
    "tags":{"type":"array","items":{"type":"string"}}}}"#;
const CLOSED: &str = r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}"#;

fn registry(undeclared: Undeclared) -> Registry {
    let tool = |name, parameters_raw, kind| RequestTool { name, kind, parameters_raw, description: None, raw: "" };
    let tools = [
        tool("get_weather", Some(SCHEMA), ToolKind::Function),
        tool("closed", Some(CLOSED), ToolKind::Function),
        tool("now", None, ToolKind::Function),
        tool("broken", Some(r#"{"type":"strng"}"#), ToolKind::Function),
        tool("shell", None, ToolKind::Custom),
    ];
    let rules = Tools { undeclared, ..Tools::default() };
    Registry::build(&[], &tools, &rules, FormatChecks::Assert, &Checks::default(), &SchemaCache::default()).0
}

fn judge(call: &Call, checks: &Checks, cut: Truncation) -> JudgedCall {
    let rules = CallRules::new(&CallsPolicy::default(), checks).expect("patterns");
    judge_call(call, &registry(Undeclared::Allow), &rules, cut, &|_: &str| None)
}

fn call(name: &str, arguments: Arguments) -> Call {
    Call { name: name.into(), kind: CallKind::Function, arguments, id: None }
}

fn text(name: &str, arguments: &str) -> Call {
    call(name, Arguments::Text(arguments.into()))
}

/// Codes in order, and the arguments if accepted.
fn check(call: &Call) -> (String, Option<String>) {
    let judged = judge(call, &Checks::default(), Truncation::Whole);
    let codes: Vec<&str> = judged.violations.iter().map(|violation| violation.code.as_str()).collect();
    let accepted = match judged.outcome {
        CallVerdict::Accept(valid) => Some(valid.arguments().to_owned()),
        CallVerdict::Reject => None,
    };
    (codes.join(","), accepted)
}

#[test]
fn rejections() {
    for (name, arguments, codes) in [
        ("", "{}", "unknown_tool"),
        ("Get_Weather", r#"{"city":"x"}"#, "unknown_tool"),
        ("get_weather ", r#"{"city":"x"}"#, "unknown_tool"),
        ("functions.get_weather", r#"{"city":"x"}"#, "unknown_tool"),
        ("get_weather", "{\"city\"", "malformed_arguments"),
        ("get_weather", r#"{"city":"x"} "#.repeat(2).as_str(), "malformed_arguments"),
        ("get_weather", r#"{"city":"x","city":"y"}"#, "malformed_arguments"),
        ("get_weather", r#"{"city":"x","place":{"y":1,"y":2}}"#, "malformed_arguments"),
        ("get_weather", r#""{\"city\":\"x\"}""#, "malformed_arguments"),
        ("get_weather", r#"[{"city":"x"}]"#, "malformed_arguments"),
        ("get_weather", "```json\n{\"city\":\"x\"}\n```", "malformed_arguments"),
        ("get_weather", r#"{"city":NaN}"#, "malformed_arguments"),
        ("get_weather", r#"{"city":"\ud800"}"#, "malformed_arguments"),
        ("get_weather", "", "missing_required"),
        ("get_weather", " \n", "missing_required"),
        ("get_weather", "null", "missing_required"),
        ("get_weather", "{}", "missing_required"),
        ("get_weather", r#"{"City":"x"}"#, "missing_required,unknown_parameter"),
        ("get_weather", r#"{"city":1}"#, "wrong_type"),
        ("get_weather", r#"{"city":null}"#, "wrong_type"),
        ("get_weather", r#"{"days":"3","unit":"K"}"#, "missing_required,wrong_type,schema_violation"),
        ("get_weather", r#"{"city":"x","days":null,"unit":"K"}"#, "null_optional,schema_violation"),
        ("get_weather", r#"{"city":"x","place":{}}"#, "schema_violation"),
        ("get_weather", r#"{"city":"x","tags":[null]}"#, "schema_violation"),
        ("closed", r#"{"b":1}"#, "unknown_parameter"),
        ("broken", "[]", "malformed_arguments"),
        ("broken", "", "malformed_arguments"),
        ("shell", "ls", "malformed_arguments"),
    ] {
        assert_eq!(check(&text(name, arguments)), (codes.to_owned(), None), "{name:?} {arguments:?}");
    }
    for arguments in [Arguments::Absent, Arguments::Null] {
        assert_eq!(check(&call("get_weather", arguments)), ("missing_required".into(), None));
    }
    assert_eq!(check(&call("now", Arguments::Other("7".into()))), ("malformed_arguments".into(), None));
    let custom = Call { kind: CallKind::Custom, ..text("get_weather", "{}") };
    assert_eq!(check(&custom), ("malformed_arguments".into(), None));
    let deep = format!("{{\"city\":{}{}}}", "[".repeat(200), "]".repeat(200));
    assert_eq!(check(&text("get_weather", &deep)), ("malformed_arguments".into(), None));
}

#[test]
fn acceptances() {
    for (name, arguments, codes, emitted) in [
        ("get_weather", " {\"city\": \"S\\u00e3o\" , \"days\":3.0}\n", "", None),
        ("get_weather", r#"{"city":"x","place":{"y":null}}"#, "", None),
        ("get_weather", r#"{"city":"x","extra":1}"#, "unknown_parameter", None),
        ("get_weather", r#"{"city":"<CITY>","tags":["todo","[x]"]}"#, "placeholder_value,placeholder_value,placeholder_value", None),
        ("get_weather", r#"{"city":"x", "days":null}"#, "corrected_null_optional", Some(r#"{"city":"x"}"#)),
        (
            "get_weather",
            r#"{"days":null,"city":"x","place":{"x":null,"y":1}}"#,
            "corrected_null_optional,corrected_null_optional",
            Some(r#"{"city":"x","place":{"y":1}}"#),
        ),
        ("now", "", "", Some("{}")),
        ("now", "null", "", Some("{}")),
        ("now", r#"{"tz":1}"#, "unknown_parameter", None),
        ("closed", "", "", Some("{}")),
        ("broken", "{}", "invalid_tool_schema", None),
    ] {
        let emitted = emitted.unwrap_or(arguments).to_owned();
        assert_eq!(check(&text(name, arguments)), (codes.to_owned(), Some(emitted)), "{name:?} {arguments:?}");
    }
    let object = call("closed", Arguments::Object(r#"{"a":"b"}"#.into()));
    assert_eq!(check(&object), (String::new(), Some(r#"{"a":"b"}"#.into())));
    assert_eq!(check(&call("now", Arguments::Absent)), (String::new(), Some("{}".into())));
    let shell = Call { kind: CallKind::Custom, ..text("shell", "ls\n") };
    assert_eq!(check(&shell), (String::new(), Some("ls\n".into())));
    let long = format!(r#"{{"city":"{}"}}"#, "é".repeat(10_001));
    assert_eq!(check(&text("get_weather", &long)).0, "suspicious_length");
    assert_eq!(check(&text("get_weather", &long.replacen('é', "", 1))).0, "");
}

#[test]
fn cut_off() {
    let codes = |call: &Call, cut| {
        let judged = judge(call, &Checks::default(), cut);
        (judged.violations.first().map(|violation| violation.code), judged.outcome == CallVerdict::Reject)
    };
    let truncated = (Some(Code::TruncatedCall), true);
    for arguments in ["", "{", r#"{"city":"x"#, "nul", "null"] {
        assert_eq!(codes(&text("now", arguments), Truncation::Here), truncated, "{arguments:?}");
    }
    assert_eq!(codes(&text("get_weather", r#"{"city":"x"}"#), Truncation::Here), (None, false));
    assert_eq!(codes(&text("now", ""), Truncation::Later), (None, false));
    assert_eq!(codes(&text("now", "{"), Truncation::Later), truncated);
    assert_eq!(codes(&text("now", "{]"), Truncation::Later), (Some(Code::MalformedArguments), true));
    let shell = Call { kind: CallKind::Custom, ..text("shell", "rm -rf /tmp") };
    assert_eq!((codes(&shell, Truncation::Here), codes(&shell, Truncation::Later)), (truncated, (None, false)));
}

#[test]
fn severities_are_the_policys() {
    let forbidden = text("closed", r#"{"b":1}"#);
    let checks = Checks::default().with(Code::SchemaViolation, Severity::Warn).with(Code::UnknownParameter, Severity::Block);
    let judged = judge(&forbidden, &checks, Truncation::Whole);
    assert_eq!(judged.violations.iter().map(|v| (v.code, v.severity)).collect::<Vec<_>>(), [(Code::UnknownParameter, Severity::Warn)]);
    let broken = Checks::default().with(Code::InvalidToolSchema, Severity::Block);
    assert_eq!(judge(&text("broken", "{}"), &broken, Truncation::Whole).outcome, CallVerdict::Reject);
    let rules = CallRules::new(&CallsPolicy { corrections: vec![], ..CallsPolicy::default() }, &Checks::default()).expect("patterns");
    let null = text("get_weather", r#"{"city":"x","days":null}"#);
    let judged = judge_call(&null, &registry(Undeclared::Allow), &rules, Truncation::Whole, &|_: &str| None);
    assert_eq!((judged.violations.len(), judged.violations.first().map(|v| v.code)), (1, Some(Code::NullOptional)));
    let undeclared = judge_call(&text("now", "{}"), &registry(Undeclared::Reject), &rules, Truncation::Whole, &|_: &str| None);
    assert_eq!(undeclared.violations.first().map(|v| v.code), Some(Code::UndeclaredTool));
    assert!(CallRules::new(&CallsPolicy { placeholders: vec!["(".into()], ..CallsPolicy::default() }, &Checks::default()).is_err());
}

#[test]
fn advice() {
    for (name, arguments, words) in [
        ("getWeather", "{}", r#"tool "getWeather" does not exist|did you mean "get_weather"? "#),
        ("get_weather", r#"{"City":"x"}"#, r#"missing required parameter: "city" (string)|did you mean "city" by "City"?"#),
        ("closed", r#"{"b":1}"#, r#"there is no parameter "b"|the parameters are "a""#),
        ("get_weather", r#"{"city":"x","unit":"K"}"#, r#"parameter "unit" should be one of ["c","f"], but is "K" [enum]|"#),
        ("get_weather", r#"{"city":"x","tags":[1]}"#, r#"/tags/0 should be string, but is 1 [type]|"#),
    ] {
        let judged = judge(&text(name, arguments), &Checks::default(), Truncation::Whole);
        let first = judged.violations.first().map(|v| format!("{}|{}", v.message, v.advice)).unwrap_or_default();
        assert!(first.starts_with(words), "{first}");
    }
}

#[test]
fn what_is_no_placeholder() {
    /// A conversation in which the user wrote `TODO`.
    struct UserSaidTodo;
    impl ArgumentCheck for UserSaidTodo {
        fn id(&self, _text: &str) -> Option<Violation> {
            None
        }

        fn is_of_user(&self, text: &str) -> bool {
            text == "TODO"
        }
    }
    let rules = CallRules::new(&CallsPolicy::default(), &Checks::default()).expect("patterns");
    let listed =
        r#"{"type":"function","function":{"name":"move","parameters":{"type":"object","properties":{"to":{"enum":["todo","done"]}}}}}"#;
    let sources = [ToolSource::parse(listed).unwrap()];
    let (listing, _) = Registry::build(&sources, &[], &Tools::default(), FormatChecks::Assert, &Checks::default(), &SchemaCache::default());
    let codes = |name: &str, arguments: &str, conversation: &dyn ArgumentCheck, registry: &Registry| {
        judge_call(&text(name, arguments), registry, &rules, Truncation::Whole, conversation).violations.len()
    };
    let nobody = |_: &str| None;
    let plain = registry(Undeclared::Allow);
    for (city, count) in [
        ("TODO", 1),
        ("[your city]", 1),
        ("[e-mail]", 1),
        ("[a-zA-Z0-9_]+", 0),
        ("<p>Hi</p>", 0),
        ("[1, 2]", 0),
        ("[0-9]+[a-z]", 0),
        ("[a-z]", 0),
    ] {
        assert_eq!(codes("get_weather", &format!(r#"{{"city":"{city}"}}"#), &nobody, &plain), count, "{city}");
    }
    assert_eq!(codes("get_weather", r#"{"city":"TODO"}"#, &UserSaidTodo, &plain), 0);
    assert_eq!(codes("move", r#"{"to":"todo"}"#, &nobody, &listing), 0);
}

#[test]
fn ids_are_looked_at() {
    let rules = CallRules::new(&CallsPolicy::default(), &Checks::default()).expect("patterns");
    let ids = |text: &str| (text == "id").then(|| Checks::default().violation(Code::UnknownExecution, None, "no", ""))?;
    for (name, kind, arguments) in
        [("get_weather", CallKind::Function, r#"{"city":"x","tags":["\u0069d"]}"#), ("shell", CallKind::Custom, "id")]
    {
        let call = Call { kind, ..text(name, arguments) };
        assert_eq!(judge_call(&call, &registry(Undeclared::Allow), &rules, Truncation::Whole, &ids).outcome, CallVerdict::Reject);
    }
}

proptest::proptest! {
    #[test]
    fn anything_is_judged(name in "(get_weather|closed|now|broken|.{0,9})", arguments in r#"(\{("(city|days|place|a)":(null|1|"x"|\{"x":null\}|\[null\]),?){0,3}\}?|.{0,40})"#, here in proptest::bool::ANY) {
        let call = text(&name, &arguments);
        let judged = judge(&call, &Checks::default(), if here { Truncation::Here } else { Truncation::Whole });
        if let CallVerdict::Accept(valid) = &judged.outcome {
            proptest::prop_assert!(valid.corrected() || valid.arguments() == arguments);
            proptest::prop_assert!(serde_json::from_str::<serde_json::Map<String, Value>>(valid.arguments()).is_ok());
        } else {
            proptest::prop_assert!(judged.violations.iter().any(Violation::blocks));
        }
    }
}
