//! Content of messages and items, as both APIs have it. Pure.

use std::borrow::Cow;

use crate::wire::json::{Value, string::JsonText};

/// The text of a message's content: a string, or the text parts of a list, joined.
pub fn text_of(content: Value<'_>) -> Option<Cow<'_, str>> {
    if content.is_array() {
        let parts = content.items().filter_map(|part| part.get("text").and_then(Value::text));
        return Some(Cow::Owned(parts.collect::<Vec<_>>().join("\n")));
    }
    content.text()
}

/// The arguments of a call in the history: the text of a string; for anything else but `null` its JSON.
pub fn arguments_text(arguments: Option<Value<'_>>) -> JsonText<'_> {
    let Some(value) = arguments.filter(|value| !value.is_null()) else { return JsonText::Plain("") };
    value.json_text().unwrap_or_else(|| JsonText::Plain(value.raw_str()))
}
