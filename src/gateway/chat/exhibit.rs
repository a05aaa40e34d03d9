//! Calls and their results in a chat request, by id. Pure.

use std::collections::HashMap;

use crate::{
    exchange::evidence::exhibit::Exhibit,
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Finds the calls with these ids, and their results.
pub fn exhibits<'i>(request: &Document, ids: &[&'i str]) -> HashMap<&'i str, Exhibit> {
    let mut found: HashMap<&str, Exhibit> = ids.iter().map(|id| (*id, Exhibit::default())).collect();
    for message in request.root().get("messages").into_iter().flat_map(Value::items) {
        if let Some(found) = message.get("tool_call_id").and_then(Value::text).and_then(|id| found.get_mut(&*id)) {
            found.result = message.get("content").map(|content| text_of(content).unwrap_or_default().into_owned());
            continue;
        }
        let calls = message.get("tool_calls").into_iter().flat_map(Value::items);
        for call in calls {
            let Some(found) = call.get("id").and_then(Value::text).and_then(|id| found.get_mut(&*id)) else { continue };
            let body = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
            let arguments = body.get("arguments").or_else(|| body.get("input"));
            found.arguments = Some(arguments.and_then(Value::text).unwrap_or_default().into_owned());
        }
    }
    found
}
