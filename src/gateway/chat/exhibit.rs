//! Calls and their results in a chat request, by id. Pure.

use std::collections::HashMap;

use crate::{
    exchange::evidence::exhibit::{Exhibit, ExhibitSearch, last_first},
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Finds the calls with these ids, and their results.
pub fn exhibits<'i>(request: &Document, ids: &[&'i str]) -> HashMap<&'i str, Exhibit> {
    let messages = request.root().get("messages").into_iter().flat_map(Value::items);
    ExhibitSearch::new(ids).through(messages, |search, message| {
        if let Some(id) = message.get("tool_call_id").and_then(Value::text) {
            search.result(&id, || message.get("content").map(|content| text_of(content).unwrap_or_default().into_owned()));
        }
        for call in last_first(message.get("tool_calls").into_iter().flat_map(Value::items)) {
            let Some(id) = call.get("id").and_then(Value::text) else { continue };
            search.call(&id, || {
                let body = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
                let arguments = body.get("arguments").or_else(|| body.get("input"));
                Some(arguments.and_then(Value::text).unwrap_or_default().into_owned())
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::parse(text.to_owned().into()).unwrap()
    }

    #[test]
    fn calls_and_results_are_found_by_their_ids() {
        let request = document(
            r#"{"messages": [{"role": "user", "content": "go"},
                {"role": "assistant", "tool_calls": [
                    {"id": "one", "function": {"name": "f", "arguments": "{\"a\": 1}"}}, {"id": "two", "custom": {"name": "g", "input": "x"}}]},
                {"role": "tool", "tool_call_id": "one", "content": "1"}, {"role": "tool", "tool_call_id": "two", "content": [{"type": "text", "text": "2"}]},
                {"role": "assistant", "tool_calls": [{"id": "three", "function": {"name": "f", "arguments": "{}"}}]}]}"#,
        );
        let found = exhibits(&request, &["two", "three", "four"]);
        let of = |arguments: Option<&str>, result: Option<&str>| Exhibit {
            arguments: arguments.map(Into::into),
            result: result.map(Into::into),
        };
        assert_eq!(found["two"], of(Some("x"), Some("2")));
        assert_eq!(found["three"], of(Some("{}"), None), "no result yet");
        assert_eq!(found["four"], Exhibit::default());
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn of_two_with_one_id_the_last_counts() {
        let request = document(
            r#"{"messages": [{"role": "assistant", "tool_calls": [{"id": "one", "function": {"name": "f", "arguments": "old"}}]},
                {"role": "tool", "tool_call_id": "one", "content": "old"}, {"role": "tool", "tool_call_id": "one", "content": "new"},
                {"role": "assistant", "tool_calls": [{"id": "one", "function": {"arguments": "next"}}, {"id": "one", "function": {"arguments": "last"}}]}]}"#,
        );
        let found = exhibits(&request, &["one"]);
        assert_eq!(found["one"], Exhibit { arguments: Some("last".into()), result: Some("new".into()) });
    }
}
