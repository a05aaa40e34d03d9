//! Content of messages and items, as both APIs have it. Pure.

use std::borrow::Cow;

use crate::wire::json::Value;

/// The text of a message's content: a string, or the text parts of a list, joined.
pub fn text_of(content: Value<'_>) -> Option<Cow<'_, str>> {
    if content.is_array() {
        let parts = content.items().filter_map(|part| part.get("text").and_then(Value::text));
        return Some(Cow::Owned(parts.collect::<Vec<_>>().join("\n")));
    }
    content.text()
}
