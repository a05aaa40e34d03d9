//! Items of the Responses API that are named by their IDs alone: the upstream reads what it stored under them. Pure.
//!
//! Source: OpenAI API reference, "Create a model response", `input`; "Image generation: multi-turn editing".

use crate::wire::json::Value;

/// Levels of a value that are looked at. What lies deeper counts as content.
const DEPTH_MAX: usize = 6;

/// True for an input item whose content isn't in the request, so that the upstream reads the item that it stored under this ID.
pub fn is_named_by_id(item: Value<'_>) -> bool {
    if item.get_some("id").is_none() {
        return false;
    }
    let lacks = |name: &str| item.get(name).is_none_or(|value| is_blank(value, DEPTH_MAX));
    let absent = |name: &str| item.get_some(name).is_none();
    let kind = item.get_some("type").and_then(Value::text);
    match kind.as_deref() {
        None | Some("message") if item.get_some("role").is_some() => lacks("content"),
        None | Some("item_reference") => true,
        // Only encrypted reasoning is read from the request; readable content may stand beside what is stored.
        Some("reasoning") => lacks("encrypted_content") && lacks("content"),
        Some("image_generation_call") => lacks("result"),
        Some("function_call" | "custom_tool_call") => absent("name") || (absent("arguments") && absent("input")),
        Some(kind) if kind.ends_with("_output") => absent("output"),
        Some(_) => item.members().all(|member| matches!(&*member.name(), "id" | "type" | "status") || is_blank(member.value, DEPTH_MAX)),
    }
}

/// True for `null`, an empty string, and arrays and objects of nothing else; a part's `type` is no content.
fn is_blank(value: Value<'_>, depth: usize) -> bool {
    if value.is_null() {
        return true;
    }
    if value.is_string() {
        return value.is_text("");
    }
    let Some(deeper) = depth.checked_sub(1) else { return false };
    if value.is_array() {
        return value.items().all(|item| is_blank(item, deeper));
    }
    value.is_object() && value.members().all(|member| member.name() == "type" || is_blank(member.value, deeper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Document;

    fn named(item: &str) -> bool {
        is_named_by_id(Document::parse(item.to_owned().into()).unwrap().root())
    }

    #[test]
    fn is_named_by_id_of_items_without_content() {
        for item in [
            r#"{"id":"1"}"#,
            r#"{"id":3,"type":null}"#,
            r#"{"type":"item_reference","id":"1"}"#,
            r#"{"type":"reasoning","id":"1","summary":[]}"#,
            r#"{"type":"reasoning","id":"1","summary":[{"type":"summary_text","text":"x"}]}"#,
            r#"{"type":"reasoning","id":"1","summary":[],"content":[ ],"encrypted_content":""}"#,
            r#"{"type":"reasoning","id":"1","content":[{}]}"#,
            r#"{"type":"reasoning","id":"1","content":[{"type":"reasoning_text","text":""}]}"#,
            r#"{"type":"image_generation_call","id":"1","result":null}"#,
            r#"{"type":"image_generation_call","id":"1","result":"","status":"completed"}"#,
            r#"{"type":"web_search_call","id":"1","status":"completed","action":null}"#,
            r#"{"type":"web_search_call","id":"1","action":{"queries":[ ]}}"#,
            r#"{"type":"message","id":"1","role":"assistant"}"#,
            r#"{"role":"assistant","id":"1","content":[ ]}"#,
            r#"{"type":"message","id":"1","role":"assistant","content":[{"type":"output_text","text":"","annotations":[]}]}"#,
            r#"{"type":"function_call","id":"1"}"#,
            r#"{"type":"function_call","id":"1","call_id":"c","name":"n"}"#,
            r#"{"type":"function_call_output","id":"1","call_id":"c"}"#,
        ] {
            assert!(named(item), "{item}");
        }
        for item in [
            r#"{"type":"message","role":"user","content":"x"}"#,
            r#"{"role":"assistant","id":"1","content":"x"}"#,
            r#"{"type":"reasoning","id":"1","summary":[],"encrypted_content":"x"}"#,
            r#"{"type":"reasoning","id":"1","content":[{"type":"reasoning_text","text":"x"}]}"#,
            r#"{"type":"image_generation_call","id":"1","result":"x"}"#,
            r#"{"type":"web_search_call","id":"1","action":{"type":"search","query":"x"}}"#,
            r#"{"type":"function_call","id":"1","call_id":"c","name":"n","arguments":""}"#,
            r#"{"type":"function_call_output","id":"1","call_id":"c","output":""}"#,
        ] {
            assert!(!named(item), "{item}");
        }
    }
}
