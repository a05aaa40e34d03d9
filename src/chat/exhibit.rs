//! A call and its result in a chat request. Pure.

use super::messages::text_of;
use crate::{
    exchange::exhibit::Exhibit,
    wire::json::{Document, Value},
};

/// Finds the call with this id, and what answers it.
pub fn exhibit(request: &Document, id: &str) -> Exhibit {
    let mut found = Exhibit::default();
    for message in request.root().get("messages").into_iter().flat_map(Value::items) {
        if message.get("tool_call_id").is_some_and(|own| own.is_text(id)) {
            found.result = message.get("content").map(|content| text_of(content).unwrap_or_default().into_owned());
            continue;
        }
        let calls = message.get("tool_calls").into_iter().flat_map(Value::items);
        for call in calls.filter(|call| call.get("id").is_some_and(|own| own.is_text(id))) {
            let body = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
            let arguments = body.get("arguments").or_else(|| body.get("input"));
            found.arguments = Some(arguments.and_then(Value::text).unwrap_or_default().into_owned());
        }
    }
    found
}
