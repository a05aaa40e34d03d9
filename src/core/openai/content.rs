//! Content of messages and items, as both APIs have it. Pure.

use std::borrow::Cow;

use crate::wire::json::{Document, Value, splice::Splices, string::JsonText};

/// The text of a message's content: a string, or the text parts of a list, joined. A search result's title, address and text are text, and
/// so is a document that is given as text. Source: Anthropic's API reference, `tool_result.content`.
pub fn text_of(content: Value<'_>) -> Option<Cow<'_, str>> {
    if content.is_array() {
        let mut texts = Vec::new();
        content.items().for_each(|part| add_texts(part, &mut texts));
        return Some(Cow::Owned(texts.join("\n")));
    }
    content.text()
}

/// A result's content as it is compared with the first one: a single text is a string, and nothing is said of caching. Clients mark what is
/// to be cached by a `cache_control` in the last message's parts, and for that make parts of strings; in the next turn it is a string again.
pub fn compared(content: Value<'_>) -> Cow<'_, str> {
    let mut parts = content.items();
    let only_text = |part: Value<'_>| part.members().all(|member| member.is("type") || member.is("text") || member.is("cache_control"));
    if let (Some(part), None) = (parts.next(), parts.next())
        && only_text(part)
        && let Some(text) = part.get("text").filter(|text| text.is_string())
    {
        return Cow::Borrowed(text.raw_str());
    }
    if !content.items().any(|part| part.get("cache_control").is_some()) {
        return Cow::Borrowed(content.raw_str());
    }
    let Ok(document) = Document::parse(content.raw_bytes()) else { return Cow::Borrowed(content.raw_str()) };
    let mut edits = Splices::default();
    document.root().items().for_each(|part| edits.remove_members(part, |name| name == "cache_control"));
    Cow::Owned(String::from_utf8_lossy(&edits.apply(document.bytes())).into_owned())
}

/// True if a part of the content isn't text: an image, a sound, a file.
pub fn has_media(content: Value<'_>) -> bool {
    let is_media = |part: Value<'_>| {
        let kind = part.get("type").and_then(Value::text).unwrap_or_default();
        match &*kind {
            "" | "text" | "input_text" | "output_text" | "refusal" | "search_result" | "tool_reference" | "tool_result" | "tool_use"
            | "thinking" => false,
            "document" => !part
                .get("source")
                .and_then(|source| source.get("type"))
                .is_some_and(|kind| kind.is_text("text") || kind.is_text("content")),
            _ => part.get("text").is_none(),
        }
    };
    match content.is_object() {
        true => is_media(content),
        false => content.items().any(is_media),
    }
}

/// Adds the texts of one part of a message's content.
fn add_texts<'d>(part: Value<'d>, texts: &mut Vec<Cow<'d, str>>) {
    if let Some(text) = part.get("text").and_then(Value::text) {
        return texts.push(text);
    }
    let kind = part.get("type");
    let is = |name: &str| kind.is_some_and(|kind| kind.is_text(name));
    if is("search_result") || is("document") {
        let source = part.get("source");
        // A file's bytes are no text.
        let given =
            source.filter(|source| source.get("type").is_some_and(|kind| kind.is_text("text"))).and_then(|source| source.get("data"));
        let content = part.get("content").or_else(|| source.and_then(|source| source.get("content")));
        let own = [part.get("title"), source, given, content];
        texts.extend(own.into_iter().flatten().filter_map(Value::text));
        let blocks = content.into_iter().flat_map(Value::items);
        texts.extend(blocks.filter_map(|block| block.get("text").and_then(Value::text)));
    }
}

/// The arguments of a call in the history: the text of a string; for anything else but `null` its JSON.
pub fn arguments_text(arguments: Option<Value<'_>>) -> JsonText<'_> {
    let Some(value) = arguments.filter(|value| !value.is_null()) else { return JsonText::Plain("") };
    value.json_text().unwrap_or_else(|| JsonText::Plain(value.raw_str()))
}
