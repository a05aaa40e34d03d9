//! Request for the next attempt: the last request, the rejected turn's blocks, and a result for each of its calls.
//!
//! docs/wire-facts.md#repair. The turn is echoed as it came, thinking included; what the upstream wouldn't take is
//! corrected: names, inputs that are no object, empty texts, and calls of the upstream's own that it didn't finish. Where
//! the upstream keeps the turn, only the results are sent. Pure.

use std::collections::HashSet;

use bytes::Bytes;

use super::{
    blocks::{BlockKind, call_with, kind_of},
    history::document,
    thread::ThreadUse,
};
use crate::{
    exchange::turn::{EchoedCall, EchoedTurn, SaidItem},
    judge::messages,
    violation::Violation,
    wire::json::{Document, JsonError, Value, splice::Splices, string::quote},
};

/// Text of the result for a call that isn't judged, in a turn that was rejected.
const NOT_RUN: &str = "Tool call not run: another part of the same turn was rejected, so nothing of the turn was run.";

/// Builds the request for the next attempt. `attempt` counts from 1 and is used in the ids of the echoed calls.
///
/// # Errors
/// [`JsonError`] if `body` isn't the prepared request, which can't happen.
pub fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32) -> Result<Bytes, JsonError> {
    let document = Document::parse(body.clone())?;
    let Some(messages) = document.root().get("messages") else { return Err(JsonError::Syntax(0)) };
    let mut edits = Splices::default();
    match kept_upstream(&document, turn) {
        Some((previous, answer_id, ids)) => {
            // A thread goes on from each answer once, and has what this request sent.
            edits.replace(previous.span(), quote(answer_id));
            edits.replace(messages.span(), format!("[{}]", results_of(turn, &ids).unwrap_or_default()));
        }
        None => edits.append_items(messages, &messages_of(turn, attempt).join(",")),
    }
    Ok(edits.apply(body))
}

/// The member that names the answer which a request goes on from, with the id of the turn's answer and the ids of its calls; `None`
/// if the upstream doesn't have the turn in a thread that went on, or there is nothing to answer it with.
fn kept_upstream<'k>(document: &'k Document, turn: &'k EchoedTurn) -> Option<(Value<'k>, &'k str, Vec<String>)> {
    let ThreadUse::Continue(previous) = ThreadUse::read(document.root().get_some("thread")?).ok()? else { return None };
    let answer_id = turn.answer_id.as_deref().filter(|id| !id.is_empty())?;
    let ids = turn.calls.iter().map(|call| call.id.clone().filter(|id| !id.is_empty())).collect::<Option<Vec<String>>>()?;
    (!ids.is_empty() || !turn.violations.is_empty()).then_some((previous, answer_id, ids))
}

/// The added messages.
fn messages_of(turn: &EchoedTurn, attempt: u32) -> Vec<String> {
    let id = |at: usize| format!("toolu_r{:02}c{:05}", attempt % 100, at % 100_000);
    let ids: Vec<String> = (0..turn.calls.len()).map(id).collect();
    let blocks = echoed(turn, &ids).0;
    let said = (!blocks.is_empty()).then(|| format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(",")));
    said.into_iter().chain(results_of(turn, &ids)).collect()
}

/// The message with a result for each call, or with what is said of the text.
fn results_of(turn: &EchoedTurn, ids: &[String]) -> Option<String> {
    let of_text: Vec<&Violation> = turn.violations.iter().collect();
    let objection = (!of_text.is_empty()).then(|| messages::objection(&of_text));
    let mut results = echoed(turn, ids).1;
    let last = results.len().saturating_sub(1);
    for (at, (call, (_, content))) in turn.calls.iter().zip(&mut results).enumerate() {
        *content = call.answer();
        if let Some(objection) = objection.as_ref().filter(|_| at == last) {
            content.push_str(&format!("\n\n{objection}"));
        }
    }
    let result = |(id, content): &(String, String)| {
        format!(r#"{{"type":"tool_result","tool_use_id":{},"is_error":true,"content":{}}}"#, quote(id), quote(content))
    };
    match results.is_empty() {
        false => Some(format!(r#"{{"role":"user","content":[{}]}}"#, results.iter().map(result).collect::<Vec<_>>().join(","))),
        true => objection.map(|objection| format!(r#"{{"role":"user","content":{}}}"#, quote(&objection))),
    }
}

/// The turn's blocks, and the ids of its calls with texts of results: those of judged calls first. `ids`: of the judged calls.
fn echoed(turn: &EchoedTurn, ids: &[String]) -> (Vec<String>, Vec<(String, String)>) {
    let id = |at: usize| ids.get(at).map_or("", String::as_str);
    let mut results: Vec<(String, String)> = ids.iter().map(|id| (id.clone(), String::new())).collect();
    let mut blocks = Vec::new();
    let finished = finished(&turn.items);
    for item in &turn.items {
        match item {
            SaidItem::Call(at, json) => blocks.extend(turn.calls.get(*at).map(|call| call_block(call, id(*at), json))),
            SaidItem::Raw(json) => {
                let Some(document) = document(json) else { continue };
                let block = document.root();
                let own_id = || block.get("id").and_then(Value::text).unwrap_or_default().into_owned();
                match kind_of(block) {
                    BlockKind::Text if block.get("text").is_none_or(|text| text.is_text("")) => continue,
                    BlockKind::Hosted if block.get("input").is_some() && !finished.contains(&own_id()) => continue,
                    BlockKind::ToolsetCall => results.push((own_id(), NOT_RUN.to_owned())),
                    _ => {}
                }
                blocks.push(json.clone());
            }
        }
    }
    if turn.items.is_empty() {
        blocks.extend((!turn.text.is_empty()).then(|| format!(r#"{{"type":"text","text":{}}}"#, quote(&turn.text))));
        blocks.extend(turn.calls.iter().enumerate().map(|(at, call)| new_block(call, id(at))));
    }
    (blocks, results)
}

/// Ids of the upstream's own calls that have a result in the turn.
fn finished(items: &[SaidItem]) -> HashSet<String> {
    let id = |item: &SaidItem| {
        let SaidItem::Raw(json) = item else { return None };
        document(json)?.root().get("tool_use_id")?.text().map(|id| id.into_owned())
    };
    items.iter().filter_map(id).collect()
}

/// The block of a call, with everything illegal corrected.
fn call_block(call: &EchoedCall, id: &str, json: &str) -> String {
    let (name, (input, _)) = (call.legal_name(), call.legal_arguments());
    let name = (name != call.name).then_some(name);
    call_with(json, id, name.as_deref(), Some(&input)).unwrap_or_else(|| new_block(call, id))
}

fn new_block(call: &EchoedCall, id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#, quote(id), quote(&call.legal_name()), call.legal_arguments().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::call::CallKind,
        violation::{Checks, Code},
    };

    #[test]
    fn every_call_is_answered() {
        let violation = Checks::default().violation(Code::UnknownTool, None, "tool `a.b` does not exist", "").unwrap();
        let call = |name: &str, arguments: &str, violations: Vec<Violation>| EchoedCall {
            name: name.into(),
            kind: CallKind::Function,
            arguments: arguments.into(),
            violations,
            id: None,
            example: None,
            extras: Vec::new(),
        };
        let raw = |json: &str| SaidItem::Raw(json.into());
        let turn = EchoedTurn {
            text: "One moment.".into(),
            calls: vec![call("a.b", "{broken", vec![violation.clone()]), call("good", "{\"x\":1.10}", vec![])],
            items: vec![
                raw(r#"{"type":"thinking","thinking":"","signature":"s"}"#),
                raw(r#"{"type":"text","text":"One moment."}"#),
                raw(r#"{"type":"text","text":""}"#),
                raw(r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#),
                SaidItem::Call(0, r#"{"type":"tool_use","id":"","name":"a.b","input":{}}"#.into()),
                SaidItem::Call(
                    1,
                    r#"{"type":"tool_use","id":"toolu_2","name":"good","input":{"x":1.10},"caller":{"type":"direct"}}"#.into(),
                ),
            ],
            violations: vec![violation],
            ..EchoedTurn::default()
        };
        let body = Bytes::from(r#"{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1}"#);
        let next = next_request(&body, &turn, 1).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&next).unwrap();
        let (said, answers) = (&value["messages"][1]["content"], &value["messages"][2]["content"]);
        let kinds: Vec<&str> = said.as_array().unwrap().iter().filter_map(|block| block["type"].as_str()).collect();
        assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
        assert_eq!(
            (&said[2]["name"], &said[2]["input"], &said[3]["caller"]["type"]),
            (&"a_b".into(), &serde_json::json!({}), &"direct".into())
        );
        for at in 0..2 {
            assert_eq!((&answers[at]["tool_use_id"], &answers[at]["is_error"]), (&said[at + 2]["id"], &true.into()));
        }
        assert!(answers[0]["content"].as_str().unwrap().contains("{broken"));
        assert!(answers[1]["content"].as_str().unwrap().contains(messages::OBJECTION));
    }
}
