//! Corrections: what is changed, what is left, and that the rest stays as it came.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    judge::call::{Arguments, Call, CallKind, CallRules, CallVerdict, JudgedCall, Truncation, judge_call},
    policy::{CallsPolicy, Tools},
    schema::FormatChecks,
    tools::registry::{Registry, RequestTool, SchemaCache, ToolKind},
    violation::Checks,
};

const ALL: [Correction; 5] = [Correction::Syntax, Correction::Name, Correction::Types, Correction::NullOptional, Correction::Parameters];

const BOOK: &str = r#"{"type":"object","properties":{"hotel_id":{"type":"integer"},"nights":{"type":["integer","null"]},"price":{"type":"number"},
    "breakfast":{"type":"boolean"},"guests":{"type":"array","items":{"type":"string"}},"note":{"type":"string"},
    "room":{"anyOf":[{"type":"integer"},{"type":"array"}]}},"required":["hotel_id"]}"#;
const OPEN: &str = r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],"additionalProperties":true}"#;
const LIST: &str = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;

fn registry() -> Registry {
    let tool = |name, schema| RequestTool { name, kind: ToolKind::Function, parameters_raw: Some(schema), description: None, raw: "" };
    let tools = [tool("book_room", BOOK), tool("search", OPEN), tool("list_files", LIST)];
    Registry::build(&[], &tools, &Tools::default(), FormatChecks::Assert, &Checks::default(), &SchemaCache::default()).0
}

fn judged(name: &str, arguments: &str, corrections: &[Correction], cut: Truncation) -> JudgedCall {
    let calls = CallsPolicy { corrections: corrections.to_vec(), ..CallsPolicy::default() };
    let rules = CallRules::new(&calls, &Checks::default()).unwrap();
    let call = Call { name: name.into(), kind: CallKind::Function, arguments: Arguments::Text(arguments.into()), id: None };
    judge_call(&call, &registry(), &rules, cut, &|_: &str| None)
}

/// The codes, and the call where it passes.
fn check(name: &str, arguments: &str, corrections: &[Correction]) -> (String, Option<(String, String)>) {
    let JudgedCall { violations, outcome, .. } = judged(name, arguments, corrections, Truncation::Whole);
    let codes: Vec<&str> = violations.iter().map(|violation| violation.code.as_str()).collect();
    let passes = match outcome {
        CallVerdict::Accept(call) => Some((call.name().to_owned(), call.arguments().to_owned())),
        CallVerdict::Reject => None,
    };
    (codes.join(","), passes)
}

#[test]
fn what_is_corrected() {
    for (name, arguments, codes, passes) in [
        ("BookRoom", r#"{"hotel_id": 7}"#, "corrected_name", ("book_room", r#"{"hotel_id": 7}"#)),
        ("book_room", "```json\n{\"hotel_id\": 7,}\n```", "corrected_syntax", ("book_room", r#"{"hotel_id": 7}"#)),
        ("book_room", r#"{"hotel_id": "7", "note": "7"}"#, "corrected_types", ("book_room", r#"{"hotel_id": 7, "note": "7"}"#)),
        (
            "book_room",
            r#"{"hotel_id":7,"nights":"2","price":"80.50"}"#,
            "corrected_types,corrected_types",
            ("book_room", r#"{"hotel_id":7,"nights":2,"price":80.50}"#),
        ),
        (
            "book_room",
            r#"{"hotel_id":7,"breakfast":"True","guests":"[\"a\", \"b\"]"}"#,
            "corrected_types,corrected_types",
            ("book_room", r#"{"hotel_id":7,"breakfast":true,"guests":["a", "b"]}"#),
        ),
        ("book_room", r#"{ "hotelId" : 7.0 }"#, "corrected_parameters", ("book_room", r#"{ "hotel_id" : 7.0 }"#)),
        (
            "book_room",
            r#"{"hotel_id":7,"note":null,"nights":null}"#,
            "corrected_null_optional",
            ("book_room", r#"{"hotel_id":7,"nights":null}"#),
        ),
        (
            "book_room",
            r#"{"HotelId":"7","note":null}"#,
            "corrected_parameters,corrected_null_optional,corrected_types",
            ("book_room", r#"{"hotel_id":7}"#),
        ),
        (
            "functions.book-room",
            r#"{'hotel_id': '7'}"#,
            "corrected_name,corrected_syntax,corrected_types",
            ("book_room", r#"{"hotel_id": 7}"#),
        ),
        ("LIST_FILES", "", "corrected_name", ("list_files", "{}")),
    ] {
        let (tool, text) = passes;
        assert_eq!(check(name, arguments, &ALL), (codes.to_owned(), Some((tool.to_owned(), text.to_owned()))), "{name} {arguments}");
        assert_eq!(check(name, arguments, &[]).1, None, "{name} {arguments}: nothing is corrected that isn't listed");
    }
}

#[test]
fn each_correction_is_listed_by_itself() {
    for (arguments, needs) in [
        (r#"{"hotel_id":"7"}"#, Correction::Types),
        (r#"{"hotelId":7}"#, Correction::Parameters),
        (r#"{"hotel_id":7,}"#, Correction::Syntax),
        (r#"{"hotel_id":7,"note":null}"#, Correction::NullOptional),
    ] {
        let others: Vec<Correction> = ALL.into_iter().filter(|own| *own != needs).collect();
        assert!(check("book_room", arguments, &[needs]).1.is_some() && check("book_room", arguments, &others).1.is_none(), "{arguments}");
    }
}

#[test]
fn what_is_left_alone() {
    for (name, arguments, codes) in [
        // Nobody knows what was meant.
        ("book_rom", r#"{"hotel_id":7}"#, "unknown_tool"),
        ("book_room", r#"{"hotel_id":"seven"}"#, "wrong_type"),
        ("book_room", r#"{"hotel_id":7,"room":"3"}"#, "wrong_type"),
        ("book_room", r#"{"hotel_id":7,"note":5}"#, "wrong_type"),
        ("book_room", r#"{"hotel_id":["7"]}"#, "wrong_type"),
        ("book_room", r#"{"hotel":7}"#, "missing_required,unknown_parameter"),
        ("book_room", r#"{"hotelId":7,"mood":1}"#, "missing_required,unknown_parameter,unknown_parameter"),
        ("book_room", r#"{"hotel_id":null}"#, "wrong_type"),
        // Corrected it wouldn't be understood either.
        ("BookRoom", r#"{"hotel_id":7,"mood":1}"#, "unknown_tool"),
        ("BookRoom", r#"{"hotel_id":[]}"#, "unknown_tool"),
        ("list_files", r#"{"a": True, "b": None}"#, "malformed_arguments"),
        ("book_room", r#"{"hotel_id":"7","mood":1}"#, "wrong_type,unknown_parameter"),
        // What is missing isn't made up.
        ("book_room", r#"{"hotel_id":7"#, "malformed_arguments"),
        ("book_room", r#"{"hotel_id":7}{"hotel_id":8}"#, "malformed_arguments"),
        ("book_room", r#"{"hotel_id":7,"hotel_id":7}"#, "malformed_arguments"),
        ("book_room", r#"[{"hotel_id":7}]"#, "malformed_arguments"),
        ("search", r#"{"Query":"x"}"#, "missing_required"),
    ] {
        assert_eq!(check(name, arguments, &ALL), (codes.to_owned(), None), "{name} {arguments}");
    }
    for cut in [Truncation::Here, Truncation::Later] {
        for (name, arguments) in [("BookRoom", r#"{"hotel_id":7}"#), ("book_room", r#"{"hotel_id":7,}"#)] {
            assert_eq!(judged(name, arguments, &ALL, cut).outcome, CallVerdict::Reject, "{name} {arguments} in an answer that was cut off");
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = proptest::sample::select(vec!["7", "seven", "True", "it's \"x\"", "[1]", "", "null", "é\n"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|number| json!(number)),
        text.prop_map(|text| json!(text))
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::btree_map("[a-z_]{1,6}", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Arguments of a call of `book_room`, nearly.
fn any_arguments() -> impl Strategy<Value = String> {
    let names = vec!["hotel_id", "hotelId", "HOTEL-ID", "nights", "price", "breakfast", "guests", "note", "room", "mood"];
    let members = proptest::collection::btree_map(proptest::sample::select(names), any_json(), 0..5);
    (members, 0..6).prop_map(|(members, form)| {
        let json = json!(members).to_string();
        match form {
            0 => json.replace('"', "'"),
            1 => json.replace('}', ",}"),
            2 => format!("```json\n{json}\n```"),
            3 => format!("{json}{json}"),
            4 => json.replace("true", "True").replace("null", "None"),
            _ => json,
        }
    })
}

proptest! {
    /// What passes fits the schema; what fits by itself isn't touched; what is rejected is rejected for a reason.
    #[test]
    fn corrected_calls_are_valid(arguments in any_arguments(), name in proptest::sample::select(vec!["book_room", "BookRoom", "functions.book_room", "search", "List-Files"])) {
        let (plain, all) = (judged(name, &arguments, &[], Truncation::Whole), judged(name, &arguments, &ALL, Truncation::Whole));
        match (plain.outcome, all.outcome) {
            (CallVerdict::Accept(plain), CallVerdict::Accept(all)) => prop_assert_eq!(plain, all),
            (CallVerdict::Accept(_), CallVerdict::Reject) => prop_assert!(false, "a valid call is rejected"),
            (CallVerdict::Reject, CallVerdict::Accept(call)) => {
                let again = judged(call.name(), call.arguments(), &[], Truncation::Whole);
                prop_assert!(again.violations.is_empty() || again.violations.iter().all(|own| !own.blocks()), "{:?}", again.violations);
                prop_assert!(matches!(&again.outcome, CallVerdict::Accept(own) if own.arguments() == call.arguments()));
                prop_assert!(all.violations.iter().any(|own| own.code.as_str().starts_with("corrected_")));
            }
            (CallVerdict::Reject, CallVerdict::Reject) => prop_assert!(all.violations.iter().any(|own| own.blocks())),
        }
    }

    /// Any text at all, and never a call that ends too early.
    #[test]
    fn nothing_panics(text in "[{}\\[\\]'\",:\\\\a1 TrueNon`\\PC]{0,40}", cut in 0usize..200) {
        let mended = mend(&text);
        prop_assert!(mended.is_none_or(|mended| mended != text));
        let whole = r#"{'hotel_id': '7', "guests": ["it's", 'b',], "price": 1.5,}"#;
        if let Some(part) = whole.get(..cut.min(whole.len() - 1)) {
            prop_assert!(mend(part).is_none());
        }
    }
}
