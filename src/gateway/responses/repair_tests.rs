//! Rejected turns in, the next attempt's requests out.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{repair::next_request, request::Recalled};
use crate::{
    exchange::{
        context::Context,
        turn::{EchoedCall, EchoedTurn, SaidItem},
    },
    judge::call::CallKind,
    responses::request::tests::support::Bench,
    violation::{Checks, Code, Violation},
};

const BODY: &str = r#"{"model":"m","input":[{"role":"user","content":"x"}],"n": 1.0}"#;
const KEPT: &str = r#"{"input":"x"}"#;
const NOT_KEPT: &str = r#"{"input":"x","store":false}"#;
const CONVERSATION: &str = r#"{"input":"x","conversation":"conv_1"}"#;

fn context(request: &str) -> Arc<Context> {
    Bench::new(|_| {}).begin(request.as_bytes(), &Recalled::default()).unwrap().context
}

fn violation() -> Violation {
    Checks::default().violation(Code::UnknownTool, None, "tool `a.b` does not exist", "").unwrap()
}

fn call(name: &str, id: Option<&str>, arguments: &str) -> EchoedCall {
    EchoedCall {
        name: name.into(),
        kind: CallKind::Function,
        id: id.map(str::to_owned),
        arguments: arguments.into(),
        violations: vec![violation()],
        example: None,
        extras: Vec::new(),
    }
}

fn turn(calls: Vec<EchoedCall>, items: Vec<SaidItem>) -> EchoedTurn {
    EchoedTurn { calls, items, ..EchoedTurn::default() }
}

/// The input of the next attempt.
#[track_caller]
fn next(body: &str, turn: &EchoedTurn, request: &str) -> Vec<Value> {
    let out = next_request(&Bytes::copy_from_slice(body.as_bytes()), turn, 2, &context(request)).unwrap();
    let out: Value = serde_json::from_slice(&out).unwrap();
    out["input"].as_array().unwrap().clone()
}

fn item(json: &Value) -> SaidItem {
    SaidItem::Raw(json.to_string())
}

#[test]
fn calls_are_echoed_as_they_came_where_that_is_legal() {
    let came = r#"{"id":"fc_1","type":"function_call","call_id":"c1","name":"good","namespace":"crm","arguments":"{\"x\": 1.10}","status":"completed","more":1}"#;
    let turn = turn(vec![call("crm.good", Some("c1"), "{\"x\": 1.10}")], vec![SaidItem::Call(0, came.into())]);
    let out = next_request(&Bytes::from(BODY), &turn, 2, &context(KEPT)).unwrap();
    let out = String::from_utf8(out.to_vec()).unwrap();
    let before = &BODY[..BODY.find("],").unwrap()];
    assert!(
        out.starts_with(&format!(
            r#"{before},{came},{{"type":"function_call_output","call_id":"c1","output":"Tool call rejected: crm.good"#
        )),
        "{out}"
    );
    assert!(out.ends_with("],\"n\": 1.0}"));
}

#[test]
fn what_is_illegal_is_mended() {
    let long = "x".repeat(200);
    for (came, name, arguments, expected) in [
        (
            json!({"type": "function_call", "call_id": "c1", "name": "a.b", "arguments": "{}"}),
            "a.b",
            "{}",
            json!({"type": "function_call", "call_id": "c1", "name": "a_b", "arguments": "{}"}),
        ),
        (
            json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{broken"}),
            "a",
            "{broken",
            json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}),
        ),
        (
            json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": ""}),
            "a",
            "{}",
            json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}),
        ),
        (
            json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": {"x": 1}}),
            "a",
            "{\"x\":1}",
            json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{\"x\":1}"}),
        ),
        (
            json!({"type": "function_call", "name": null, "namespace": "ö", "z": 1}),
            "",
            "{}",
            json!({"type": "function_call", "name": "unnamed", "z": 1, "arguments": "{}", "call_id": "c1"}),
        ),
        (
            json!({"type": "function_call", "call_id": "c1", "name": long, "arguments": "{}"}),
            &long,
            "{}",
            json!({"type": "function_call", "call_id": "c1", "name": &long[..64], "arguments": "{}"}),
        ),
        (json!({}), "a", "{}", json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"})),
        (json!([]), "a", "{}", json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"})),
    ] {
        let turn = turn(vec![call(name, Some("c1"), arguments)], vec![SaidItem::Call(0, came.to_string())]);
        let input = next(BODY, &turn, KEPT);
        assert_eq!(input[1], expected, "{came}");
        assert_eq!((&input[2]["call_id"], input.len()), (&json!("c1"), 3), "{came}");
    }
    let twice = r#"{"type":"function_call","call_id":"c1","name":"a","arguments":"{}","arguments":"{\"x\":1}"}"#;
    let turn = turn(vec![call("a", Some("c1"), "{}")], vec![SaidItem::Call(0, twice.into())]);
    assert_eq!(next(BODY, &turn, KEPT)[1], json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}));
}

#[test]
fn every_call_has_an_id_and_an_output() {
    let came = |id: &str| json!({"type": "function_call", "call_id": id, "name": "a", "arguments": "{}"}).to_string();
    let custom = json!({"type": "custom_tool_call", "call_id": "c9", "name": "d", "input": ""}).to_string();
    let calls = vec![
        call("a", Some("c1"), "{}"),
        call("a", Some("c1"), "{}"),
        call("a", None, "{}"),
        call("a", Some("old"), "{}"),
        EchoedCall { kind: CallKind::Custom, ..call("d", Some("c9"), "") },
        call("lost", Some("c8"), "{}"),
    ];
    let items = vec![
        SaidItem::Call(0, came("c1")),
        SaidItem::Call(1, came("c1")),
        item(&json!({"type": "message", "id": "m"})),
        SaidItem::Call(2, came("")),
        SaidItem::Call(3, came("old")),
        SaidItem::Call(4, custom),
        SaidItem::Call(77, came("none")),
    ];
    let earlier = r#"{"input":[{"type":"function_call","call_id":"old"},{"type":"function_call_output","call_id":"call_r2_2"}]}"#;
    let mut turn = turn(calls, items);
    turn.violations = vec![violation()];
    let input = next(earlier, &turn, KEPT);
    let ids: Vec<_> = input.iter().map(|item| item["call_id"].as_str().unwrap_or_default()).collect();
    let own = ["c1", "call_r2_1", "call_r2_3", "call_r2_4", "c9", "c8"];
    assert_eq!(ids[..9], ["old", "call_r2_2", "c1", "call_r2_1", "", "call_r2_3", "call_r2_4", "c9", "c8"]);
    assert_eq!(ids[9..], own);
    assert_eq!(input[13]["type"], "custom_tool_call_output");
    let texts: Vec<_> = input[9..].iter().map(|item| item["output"].as_str().unwrap().contains("was not delivered")).collect();
    assert_eq!(texts, [false, false, false, false, false, true]);
}

#[test]
fn reasoning_that_nobody_keeps_is_left_out() {
    let reasoning = |more: Value| {
        let mut own = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]});
        own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        own
    };
    let message = json!({"type": "message", "id": "m", "role": "assistant", "content": []});
    let came = json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": "a", "arguments": "{}"});
    for (said, request, kept) in [
        (reasoning(json!({})), KEPT, true),
        (reasoning(json!({})), NOT_KEPT, false),
        (reasoning(json!({"encrypted_content": ""})), NOT_KEPT, false),
        (reasoning(json!({"encrypted_content": null, "content": []})), NOT_KEPT, false),
        (reasoning(json!({"encrypted_content": "gAAA"})), NOT_KEPT, true),
        (reasoning(json!({"content": [{"type": "reasoning_text", "text": "hm"}]})), NOT_KEPT, true),
        (json!({"type": "reasoning", "summary": []}), NOT_KEPT, true),
        (json!({"type": "web_search_call", "id": "ws"}), NOT_KEPT, true),
    ] {
        let items = vec![item(&said), item(&message), SaidItem::Call(0, came.to_string())];
        let input = next(r#"{"input":"x\u0021"}"#, &turn(vec![call("a", Some("c1"), "{}")], items), request);
        assert_eq!(input[0], json!({"role": "user", "content": "x!"}));
        if kept {
            assert_eq!(input[1..4], [said.clone(), message.clone(), came.clone()], "{said}");
        } else {
            assert_eq!(input.len(), 4, "{said}");
            assert!(input[1..3].iter().all(|item| item.get("id").is_none()), "{input:?}");
        }
    }
}

#[test]
fn an_upstream_that_remembers_hears_only_the_outputs() {
    let came = json!({"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}).to_string();
    let called = turn(vec![call("a", Some("c1"), "{}")], vec![SaidItem::Call(0, came)]);
    let answered = r#"{"input":[{"type":"function_call_output","call_id":"c1","output":"x"}]}"#;
    let input = next(answered, &called, CONVERSATION);
    assert_eq!((input.len(), &input[0]["type"], &input[0]["call_id"]), (1, &json!("function_call_output"), &json!("c1")));
    let said = EchoedTurn { text: "said".into(), violations: vec![violation()], items: vec![item(&json!({}))], ..EchoedTurn::default() };
    for body in [BODY, r#"{"input":"x"}"#, r#"{"prompt":{}}"#] {
        let input = next(body, &said, CONVERSATION);
        assert_eq!((input.len(), &input[0]["role"]), (1, &json!("user")), "{body}");
    }
}

#[test]
fn text_and_calls_that_the_upstream_refused() {
    let refused = |text: &str| EchoedTurn { text: text.into(), violations: vec![violation()], ..EchoedTurn::default() };
    let input = next(BODY, &refused("<function=a>"), KEPT);
    assert_eq!(input[1], json!({"role": "assistant", "content": "<function=a>"}));
    assert!(input[2]["content"].as_str().unwrap().starts_with("Your last answer was not delivered"));
    let input = next(r#"{"input":null}"#, &refused(""), KEPT);
    assert_eq!((input.len(), &input[0]["role"]), (1, &json!("user")));
    let said = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "said"}]});
    let input = next(BODY, &EchoedTurn { items: vec![item(&said)], ..refused("said") }, KEPT);
    assert_eq!((&input[1], &input[2]["role"], input.len()), (&said, &json!("user"), 3));
    assert!(next_request(&Bytes::from("[]"), &refused(""), 1, &context(KEPT)).is_err());
    assert!(next_request(&Bytes::from("{"), &refused(""), 1, &context(KEPT)).is_err());
    let unchanged = next_request(&Bytes::from(BODY), &EchoedTurn::default(), 1, &context(KEPT)).unwrap();
    assert_eq!(unchanged, BODY);
}
