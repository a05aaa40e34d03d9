//! Whole responses: what passes, byte for byte; what is marked; what blocks; what can't be read at all.

use std::sync::{Arc, LazyLock};

use serde_json::json;

use super::*;
use crate::{
    exchange::{
        context::Prepared,
        conversation::{Fate, Hidden, Memo, Thread},
        decision,
        error::ShapeError,
    },
    judge::call::{
        CallKind,
        turn::{FinishReason, ToolChoice},
    },
    marks::CallMark,
    responses::support_tests::{Bench, MOMENT, TOOL, TOOLS},
    violation::Code,
};

const FORGED: &str = "run_speed_test_1760000000000_deadbeefdeadbeef";
const MADE_ID: &str = "msg_toolmark_00000000000000000000000000000000";
static BENCH: LazyLock<Bench> = LazyLock::new(|| Bench::new("default"));
static CONTEXT: LazyLock<Arc<Context>> = LazyLock::new(|| BENCH.context(TOOLS, |_| {}));

/// What came of a response.
struct Outcome {
    codes: Vec<Code>,
    blocks: bool,
    body: String,
    memo: Option<Memo>,
}

impl Outcome {
    fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn memo(&self) -> &Memo {
        self.memo.as_ref().unwrap()
    }
}

fn response(output: &str) -> String {
    format!(r#"{{"id":"resp_1","object":"response","status":"completed","error":null,"output":[{output}],"usage":{{"total_tokens":3}}}}"#)
}

fn message(parts: &str) -> String {
    format!(r#"{{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{parts}]}}"#)
}

fn said(text: &str) -> String {
    message(&json!({"type": "output_text", "text": text, "annotations": []}).to_string())
}

fn function(call_id: &str, name: &str, arguments: &str) -> String {
    json!({"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}).to_string()
}

fn judge(body: &str, context: &Context) -> Result<Outcome, Fault> {
    let answer = BufferedResponse::read(Bytes::copy_from_slice(body.as_bytes()), context)?;
    let mut judged = answer.judge(context, context.first_attempt());
    let choice = judged.pop().filter(|_| judged.is_empty()).expect("one choice");
    let (codes, blocks) = (choice.violations().map(|violation| violation.code).collect(), choice.blocks());
    let ending = match blocks {
        true => ChoiceOutcome::Replace(decision::replacement(&choice, 0)),
        false => ChoiceOutcome::Accept(choice.turn.into_calls().unwrap().into_iter().map(|call| (call, MOMENT)).collect()),
    };
    let Written { body, memo } = answer.write(vec![ending], context, None, None);
    Ok(Outcome { codes, blocks, body: String::from_utf8(body.to_vec()).unwrap(), memo })
}

fn ok(body: &str) -> Outcome {
    judge(body, &CONTEXT).unwrap()
}

fn with(more: impl Fn(&mut Prepared)) -> Arc<Context> {
    BENCH.context(TOOLS, more)
}

#[test]
fn an_accepted_call_gets_a_mark_behind_its_id_and_nothing_else_changes() {
    let arguments = "{ \"server\" :\t\"\\u00e9\" }";
    let reasoning = r#"{"type":"reasoning", "id":"rs_1","summary":[ ],"encrypted_content":"abc"}"#;
    let call = function("call_up", TOOL, arguments);
    let came = response(&format!("{reasoning} , {call}"));
    let out = ok(&came);
    let value = out.value();
    let mark = value["output"][1]["call_id"].as_str().unwrap();
    assert_eq!(mark.len(), "call_up_".len() + 22);
    let parsed = CallMark::parse(mark).unwrap();
    assert_eq!(parsed.upstream_id(), Some("call_up"));
    assert_eq!(CONTEXT.ring.verify(&parsed, &CONTEXT.scope, TOOL, arguments), Some(MOMENT));
    assert_eq!(out.body, came.replace("\"call_up\"", &format!("\"{mark}\"")));
    let memo = out.memo();
    assert_eq!(memo.responses, ["resp_1"]);
    let (known, call) = &memo.calls[0];
    assert_eq!((&**known, &*call.upstream_id, &*call.tool, call.moment), (mark, "call_up", TOOL, MOMENT));
    assert_eq!((memo.thread.executions.len(), memo.thread.data.len(), memo.thread.succeeded.len()), (1, 1, 1));
    assert!(memo.items.is_empty() && memo.thread.owed.is_empty());
}

#[test]
fn ids_that_cannot_be_kept_become_marks_of_chats_form() {
    let (call, other) = (function("call_up", "check_net", "{}"), function("", "check_net", "{}"));
    let long = function(&"x".repeat(42), "check_net", "{}");
    let value = ok(&response(&format!("{call},{call},{other},{long}"))).value();
    let marks: Vec<&str> = (0..4).map(|at| value["output"][at]["call_id"].as_str().unwrap()).collect();
    assert!(marks[0].starts_with("call_up_"), "{marks:?}");
    for mark in &marks[1..] {
        assert!(mark.starts_with("call_") && mark.len() == 37, "{marks:?}");
    }
}

#[test]
fn arguments_in_other_forms_become_strings() {
    for (member, left) in [
        (r#""arguments":{"server":"a"}"#, r#"{"server":"a"}"#),
        (r#""input":"{\"server\":\"a\"}""#, r#"{"server":"a"}"#),
        (r#""input":{"server":"a"},"x":1"#, r#"{"server":"a"}"#),
    ] {
        let call = format!(r#"{{"type":"function_call","call_id":"c",{member},"name":"{TOOL}"}}"#);
        let value = ok(&response(&call)).value();
        assert_eq!(value["output"][0]["arguments"], *left, "{member}");
        assert!(value["output"][0].get("input").is_none());
    }
    for member in [r#""arguments":null,"#, "", r#""arguments":"","#, r#""arguments":null,"input":{"z":"s3cret"},"#] {
        let call = format!(r#"{{{member}"type":"function_call","call_id":"c","name":"check_net"}}"#);
        let out = ok(&response(&call));
        assert_eq!(out.value()["output"][0]["arguments"], "{}", "{member}");
        assert!(!out.body.contains("s3cret"));
    }
    let call = r#"{"type":"custom_tool_call","call_id":"c","name":"note","input":"any \u00e9 text"}"#;
    let out = ok(&response(call));
    assert!(out.body.contains(r#""input":"any \u00e9 text"}"#), "{}", out.body);
}

#[test]
fn calls_in_namespaces() {
    let call = |namespace: &str, arguments: &str| {
        json!({"type": "function_call", "call_id": "c", "namespace": namespace, "name": "find", "arguments": arguments}).to_string()
    };
    let out = ok(&response(&call("crm", r#"{"id":1}"#)));
    let value = out.value();
    let mark = CallMark::parse(value["output"][0]["call_id"].as_str().unwrap()).unwrap();
    assert!(CONTEXT.ring.verify(&mark, &CONTEXT.scope, "crm.find", r#"{"id":1}"#).is_some());
    assert_eq!((&value["output"][0]["name"], &*out.memo().calls[0].1.tool), (&json!("find"), "crm.find"));
    for (namespace, arguments) in [("", r#"{"id":1}"#), ("other", r#"{"id":1}"#), ("crm", r#"{"id":"x"}"#)] {
        assert!(ok(&response(&call(namespace, arguments))).blocks, "{namespace} {arguments}");
    }
    assert!(matches!(
        judge(&response(r#"{"type":"function_call","namespace":["crm"],"name":"find","arguments":"{}"}"#), &CONTEXT),
        Err(Fault::Shape(ShapeError::Ambiguous))
    ));
}

#[test]
fn an_invented_tool_blocks_and_is_owed_an_output() {
    let calls = [function("c1", "delete_all", r#"{"a":"s3cret"}"#), function("c2", "check_net", "{}"), function("c1", "x", "{}")];
    let came = response(&format!("{},{}", said("One moment."), calls.join(",")));
    let out =
        ok(&came.replace("\"error\":null", "\"incomplete_details\":{\"reason\":\"x\"},\"output_text\":\"One moment.\",\"error\":null"));
    assert!(out.blocks && out.codes.contains(&Code::UnknownTool) && !out.body.contains("s3cret") && !out.body.contains("One moment"));
    let value = out.value();
    let words = value["output"][0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(value["output"].as_array().unwrap().len(), 1);
    assert_eq!((&value["output"][0]["id"], &value["status"], &value["output_text"]), (&json!(MADE_ID), &json!("completed"), &json!(words)));
    assert!(value["incomplete_details"].is_null());
    let memo = out.memo();
    let owed: Vec<_> = memo.thread.owed.iter().map(|owed| (&*owed.call_id, owed.custom, owed.output.lines().next().unwrap())).collect();
    assert_eq!(owed, [("c1", false, "Tool call rejected: delete_all"), ("c2", false, "Tool call not run: check_net")]);
    let instead = json!({"role": "assistant", "content": words}).to_string();
    let fates: Vec<_> = memo.items.iter().filter(|(id, _)| id != "fc_1").cloned().collect();
    assert_eq!(fates, [("msg_1".to_owned(), Fate::Dropped), (MADE_ID.to_owned(), Fate::Instead(instead.into()))]);
    assert!(memo.items.contains(&("fc_1".to_owned(), Fate::Dropped)) && memo.calls.is_empty());
}

#[test]
fn what_is_remembered() {
    let earlier = Thread { owed: vec![Owed { call_id: "o".into(), custom: false, output: "x".into() }], ..Thread::default() };
    let earlier = Thread { upstream_id: Some("resp_0".into()), data: vec!["before".into()], ..earlier };
    let hidden = Hidden { earlier: Some(earlier.into()), unseen: true, store: true, ..Hidden::default() };
    let text = response(&said("Hi."));
    let memo = judge(&text, &with(|prepared| prepared.hidden = hidden.clone())).unwrap().memo.unwrap();
    assert!(memo.thread.owed.is_empty() && memo.thread.upstream_id.is_none() && memo.thread.incomplete);
    assert_eq!(memo.thread.data.len(), 2);
    let in_conversation = text.replace("\"error\":null", "\"conversation\":{\"id\":\"conv_1\"}");
    assert_eq!(ok(&in_conversation).memo().conversation.as_deref(), Some("conv_1"));
    let unstored = with(|prepared| prepared.hidden.store = false);
    assert!(judge(&text, &unstored).unwrap().memo.is_none());
    assert!(judge(&response(&function("c", "nope", "{}")), &unstored).unwrap().memo.is_none());
    let memo = judge(&response(&function("c", "check_net", "{}")), &unstored).unwrap().memo.unwrap();
    assert!(memo.responses.is_empty() && memo.calls.len() == 1 && memo.thread.executions.is_empty());
}

#[test]
fn built_in_calls_pass_only_where_they_were_offered() {
    let shell = r#"{"type":"shell_call","id":"sh_1","call_id":"c","action":{"commands":["s3cret"]}}"#;
    let offered = BENCH.context(r#"[{"type":"shell"}]"#, |_| {});
    assert_eq!(judge(&response(shell), &offered).unwrap().body, response(shell));
    let out = ok(&response(shell));
    assert!(out.blocks && out.codes.contains(&Code::UnknownTool) && !out.body.contains("s3cret"));
    let Said { items, .. } = BufferedResponse::read(response(shell).into(), &CONTEXT).unwrap().said(0);
    let SaidItem::Call(0, raw) = &items[0] else { panic!("{items:?}") };
    assert_eq!(raw, r#"{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"}"#);
    // A function of that name takes no commands.
    let namesake = BENCH.context(r#"[{"type":"function","name":"shell"}]"#, |_| {});
    assert!(matches!(judge(&response(shell), &namesake), Err(Fault::Shape(ShapeError::Ambiguous))));
}

#[test]
fn claims_block_wherever_they_stand() {
    let (head, tail) = FORGED.split_at(20);
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []}).to_string();
    let (one, other) = (part(&format!("It is (execution_id: {head}")), part(&format!("{tail}).")));
    for output in [
        said(&format!("It is 90 (execution_id: {FORGED}).")),
        message(&format!("{one},{other}")),
        format!("{},{}", message(&one), message(&other)),
        format!("{},{}", said(&format!("It is {FORGED}")), said("Hi.")),
        message(&format!("{},{}", part(&format!("It is {FORGED}")), part("Hi."))),
        format!(r#"{{"role":"assistant","content":"So {FORGED}"}}"#),
        message(&format!(r#"{{"type":"refusal","refusal":"{FORGED}"}}"#)),
        message(&format!(r#"{{"type":"unheard_of","text":"{FORGED}"}}"#)),
        message(&format!(r#""bare {FORGED}""#)),
    ] {
        let out = ok(&response(&output));
        assert!(out.blocks && !out.body.contains("deadbeef"), "{output}");
    }
    // As the only text there is, the copy is the text.
    let copy = response("").replace("\"error\":null", &format!("\"output_text\":\"It is {FORGED}\""));
    let out = ok(&copy);
    assert!(out.blocks && !out.body.contains("deadbeef"), "{}", out.body);
    // Beside the text it is a copy, whatever it says.
    let out = ok(&response(&said("All well.")).replace("\"error\":null", &format!("\"output_text\":\"{FORGED}\"")));
    assert_eq!((out.blocks, &out.value()["output_text"]), (false, &json!("All well.")));
}

#[test]
fn a_citation_goes_and_what_points_behind_it_moves() {
    let id = BENCH.execution_id();
    let first = "Ä first. ";
    let second = format!("It is 90 Mbit (execution_id: {id}), says [x].");
    let (left, at) = ("It is 90 Mbit, says [x].", |text: &str| text.split_once("[x]").unwrap().0.chars().count());
    let part = |text: &str, place: usize, logprobs: serde_json::Value| {
        let annotation = json!({"type": "url_citation", "start_index": place, "end_index": place + 3, "url": "u"});
        json!({"type": "output_text", "annotations": [annotation], "logprobs": logprobs, "text": text}).to_string()
    };
    let whole = |first_part: String, second_part: String, copy: String| {
        response(&message(&format!("{first_part},{second_part}"))).replace("\"error\":null", &format!("\"output_text\":{}", quote(&copy)))
    };
    let probs = json!([{"token": "It"}]);
    let came = whole(part(first, 0, probs.clone()), part(&second, at(&second), probs.clone()), format!("{first}{second}"));
    let leaves = whole(part(first, 0, probs), part(left, at(left), json!([])), format!("{first}{left}"));
    let out = ok(&came);
    assert_eq!(out.body, leaves);
    // Over two messages each half would be shown by itself, and is no citation.
    let (head, tail) = second.split_at(second.find(&id).unwrap() + 5);
    assert!(ok(&response(&format!("{},{}", said(head), said(tail)))).blocks);
    // Words that surround it may lie elsewhere.
    let (head, tail) = second.split_at(second.find(", says").unwrap());
    let value = ok(&response(&format!("{},{}", said(head), said(tail)))).value();
    let strings = [&value["output"][0]["content"][0]["text"], &value["output"][1]["content"][0]["text"]];
    assert_eq!(strings.map(|text| text.as_str().unwrap()).concat(), left);
    let only = response("").replace("\"error\":null", &format!("\"output_text\":{}", quote(&second)));
    assert_eq!(ok(&only).value()["output_text"], left);
}

#[test]
fn endings() {
    let required = with(|prepared| prepared.tool_choice = ToolChoice::Required);
    let refusal = message(r#"{"type":"refusal","refusal":"I can't."}"#);
    let hosted = r#"{"type":"web_search_call","id":"ws_1","status":"completed","action":{}}"#;
    for (status, output, ending, demanded) in [
        ("\"completed\"", said("Hi."), FinishReason::Complete, true),
        ("\"completed\"", refusal.clone(), FinishReason::Refusal, false),
        ("\"completed\"", format!("{},{refusal}", said("Hi.")), FinishReason::Complete, true),
        ("\"completed\"", format!("{hosted},{}", said("Hi.")), FinishReason::Complete, false),
        (r#""incomplete","incomplete_details":{"reason":"max_output_tokens"}"#, String::new(), FinishReason::Length, false),
        (r#""incomplete","incomplete_details":{"reason":"content_filter"}"#, String::new(), FinishReason::ContentFilter, false),
        (r#""incomplete""#, said("Hi"), FinishReason::Length, false),
        (r#""queued""#, String::new(), FinishReason::Refusal, false),
        (r#""in_progress""#, said("H"), FinishReason::Refusal, false),
        (r#""cancelled""#, String::new(), FinishReason::Refusal, false),
        (r#""failed","error":{"code":"server_error","message":"no"}"#, String::new(), FinishReason::Refusal, false),
    ] {
        let came = response(&output).replace("\"error\":null,", "").replace("\"completed\",\"output\"", &format!("{status},\"output\""));
        assert_eq!(BufferedResponse::read(Bytes::from(came.clone()), &required).unwrap().nature.ending, ending, "{came}");
        let out = judge(&came, &required).unwrap();
        assert_eq!((out.blocks, out.codes.contains(&Code::ToolChoiceIgnored)), (demanded, demanded), "{came}");
        assert!(demanded || out.body == came, "{}", out.body);
    }
    assert!(ok(&response("")).codes.contains(&Code::EmptyAnswer));
    let cut = response(&function("c", TOOL, r#"{"server":"s3c"#)).replace("completed", "incomplete");
    assert!(ok(&cut).codes.contains(&Code::TruncatedCall));
}

#[test]
fn usage_verdict_and_refusals_in_json() {
    let context = with(|prepared| prepared.json_only = true);
    let came = response(&said("{}")).replace("\"error\":null", "\"toolmark\":7,\"output_text\":\"{}\"");
    let answer = BufferedResponse::read(Bytes::from(came), &context).unwrap();
    let earlier = || Some(json!({"total_tokens": 4}));
    answer.judge(&context, context.first_attempt());
    let write = |ending, verdict| -> serde_json::Value {
        serde_json::from_slice(&answer.write(vec![ending], &context, earlier(), verdict).body).unwrap()
    };
    let value = write(ChoiceOutcome::Replace("No.".into()), Some("{\"verdict\":\"blocked\"}"));
    assert_eq!(value["output"][0]["content"], json!([{"type": "refusal", "refusal": "No."}]));
    assert_eq!((&value["usage"]["total_tokens"], &value["toolmark"]["verdict"]), (&json!(7), &json!("blocked")));
    assert_eq!(value["output_text"], "");
    let value = write(ChoiceOutcome::Accept(Vec::new()), None);
    assert!(value.get("toolmark").is_none() && value["usage"]["total_tokens"] == 7);
    let made = crate::exchange::adapter::Made { words: "W \"q\"", model: "m", created: 5, verdict: "{\"verdict\":\"blocked\"}" };
    let value: serde_json::Value = serde_json::from_slice(&synthetic::words(&made, &CONTEXT)).unwrap();
    assert_eq!((&value["output"][0]["content"][0]["text"], &value["created_at"]), (&json!("W \"q\""), &json!(5)));
    assert_eq!((&value["status"], &value["toolmark"]["verdict"]), (&json!("completed"), &json!("blocked")));
    assert!(BufferedResponse::read(synthetic::words(&made, &CONTEXT), &CONTEXT).is_ok());
}

#[test]
fn the_turn_as_it_is_echoed() {
    let custom = r#"{"type":"custom_tool_call","call_id":"c2","name":"nope","input":"x"}"#;
    let output = format!("{},{},{custom}", function("c1", "nope", "{}"), said("So."));
    let answer = BufferedResponse::read(Bytes::from(response(&output)), &CONTEXT).unwrap();
    let said = answer.said(0);
    assert_eq!((&*said.text, said.calls.len(), said.calls[1].0.kind), ("So.", 2, CallKind::Custom));
    assert!(matches!(&said.items[..], [SaidItem::Call(0, _), SaidItem::Raw(_), SaidItem::Call(1, raw)] if raw == custom));
    assert!(answer.said(1).items.is_empty());
    answer.judge(&CONTEXT, CONTEXT.first_attempt());
    assert_eq!(answer.owed.get().unwrap().iter().map(|owed| owed.custom).collect::<Vec<_>>(), [false, true]);
}

mod properties;
mod shapes;
