//! Request for the next attempt: the last request, the rejected turn, and its violations.
//!
//! docs/wire-facts.md#repair. What is echoed is legal upstream: names sanitised, arguments that are no object
//! replaced by `{}` with the raw text quoted in the error, one tool message for each call. Pure.

use bytes::Bytes;

use crate::{
    exchange::turn::{EchoedCall, EchoedTurn},
    judge::{call::CallKind, messages},
    violation::Violation,
    wire::json::{Document, JsonError, splice::Splices, string::quote},
};

/// Builds the request for the next attempt. `attempt` counts from 1 and is used in the ids of the echoed calls.
///
/// # Errors
/// [`JsonError`] if `body` isn't the prepared request, which can't happen.
pub fn next_request(body: &Bytes, turn: &EchoedTurn, attempt: u32) -> Result<Bytes, JsonError> {
    let document = Document::parse(body.clone())?;
    let Some(messages) = document.root().get("messages") else { return Err(JsonError::Syntax(0)) };
    let mut edits = Splices::default();
    edits.append_items(messages, &messages_of(turn, attempt));
    Ok(edits.apply(body))
}

/// The added messages, comma-separated JSON.
fn messages_of(turn: &EchoedTurn, attempt: u32) -> String {
    let text = if turn.text.is_empty() && !turn.calls.is_empty() { "null".to_owned() } else { quote(&turn.text) };
    let mut out = format!(r#"{{"role":"assistant","content":{text}"#);
    if !turn.reasoning.is_empty() && !turn.calls.is_empty() {
        out.push_str(&format!(r#","reasoning_content":{}"#, quote(&turn.reasoning)));
    }
    let legacy = turn.calls.first().is_some_and(|call| call.kind == CallKind::Legacy);
    if legacy && let Some(call) = turn.calls.first() {
        out.push_str(&format!(
            r#","function_call":{{"name":{},"arguments":{}}}"#,
            quote(&call.legal_name()),
            quote(&call.legal_arguments().0)
        ));
    } else if !turn.calls.is_empty() {
        let calls: Vec<String> = turn.calls.iter().enumerate().map(|(at, call)| call_of(call, &call_id(attempt, at))).collect();
        out.push_str(&format!(r#","tool_calls":[{}]"#, calls.join(",")));
    }
    out.push('}');
    let of_text: Vec<&Violation> = turn.violations.iter().collect();
    for (at, call) in turn.calls.iter().enumerate() {
        let mut content = call.answer();
        if !of_text.is_empty() && (legacy || at + 1 == turn.calls.len()) {
            // Not in a user message: some upstreams take none right behind a tool's.
            content.push_str(&format!("\n\n{}", messages::objection(&of_text)));
        }
        let content = quote(&content);
        if legacy {
            out.push_str(&format!(r#",{{"role":"function","name":{},"content":{content}}}"#, quote(&call.legal_name())));
            break;
        }
        out.push_str(&format!(r#",{{"role":"tool","tool_call_id":"{}","content":{content}}}"#, call_id(attempt, at)));
    }
    if !of_text.is_empty() && turn.calls.is_empty() {
        out.push_str(&format!(r#",{{"role":"user","content":{}}}"#, quote(&messages::objection(&of_text))));
    }
    out
}

/// An id of nine alphanumerics, which every upstream accepts.
fn call_id(attempt: u32, at: usize) -> String {
    format!("r{:02}c{:05}", attempt % 100, at % 100_000)
}

fn call_of(call: &EchoedCall, id: &str) -> String {
    let name = quote(&call.legal_name());
    let arguments = quote(&call.legal_arguments().0);
    let extras: String = call.extras.iter().map(|extra| format!(",{extra}")).collect();
    match call.kind {
        CallKind::Custom => format!(r#"{{"id":"{id}","type":"custom","custom":{{"name":{name},"input":{arguments}}}{extras}}}"#),
        CallKind::Function | CallKind::Legacy => {
            format!(r#"{{"id":"{id}","type":"function","function":{{"name":{name},"arguments":{arguments}}}{extras}}}"#)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::{Checks, Code};

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
            extras: vec![r#""extra_content":1"#.into()],
        };
        let turn = EchoedTurn {
            text: "One moment.".into(),
            reasoning: "hm".into(),
            calls: vec![call("a.b", "{broken", vec![violation.clone()]), call("good", "{\"x\":1.10}", vec![])],
            violations: vec![violation],
            ..EchoedTurn::default()
        };
        let body = Bytes::from(r#"{"model":"m","messages":[{"role":"user","content":"x"}],"n":1}"#);
        let next = next_request(&body, &turn, 1).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&next).unwrap();
        insta::assert_json_snapshot!(value["messages"]);
        assert_eq!(value["n"], 1);
    }
}
