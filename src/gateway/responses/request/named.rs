//! Objects that a request names and that its upstream stores: what it would read with the request. Pure.
//!
//! Source: OpenAI API reference, "Create a model response"; "Image generation: multi-turn editing" for calls that are
//! named by their IDs alone.

use std::collections::HashSet;

use super::{Head, input_items::InputItem};
pub use crate::exchange::conversation::recalled::{NAMED_MAX, NamedObject, ObjectKind};
use crate::openai::stored_item::is_named_by_id;

/// Stored objects that the request names, each once; at most one more than [`NAMED_MAX`]. `known`: items that toolmark itself
/// replaces or leaves out.
pub fn named_objects(head: &Head<'_>, known: impl Fn(&str) -> bool) -> Vec<NamedObject> {
    let previous = head.previous.iter().map(|id| (ObjectKind::Response, id.to_string(), "previous_response_id"));
    let conversation = head.conversation.iter().map(|id| (ObjectKind::Conversation, id.clone(), "conversation"));
    let items = head.items().iter().filter_map(named_item).map(|id| (ObjectKind::Item, id, "input"));
    let all = previous.chain(conversation).chain(items.filter(|(_, id, _)| !known(id)));
    let mut seen = HashSet::new();
    let named = all.filter(|(kind, id, _)| !id.is_empty() && seen.insert((*kind, id.clone())));
    named.take(NAMED_MAX + 1).map(|(kind, id, param)| NamedObject { kind, id, param: Some(param) }).collect()
}

/// ID of an item whose content isn't in the request, but stored by the upstream.
fn named_item(item: &InputItem<'_>) -> Option<String> {
    let id = item.value.get_some("id")?;
    is_named_by_id(item.value).then(|| id.text().map_or_else(|| id.raw_str().to_owned(), Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{responses::request::DEPTH_NOTED, wire::json::Document};

    #[test]
    fn what_the_upstream_would_read() {
        let request = r#"{"previous_response_id":"r","conversation":{"id":"c"},"input":[
            {"type":"item_reference","id":"1"},{"id":"2"},{"id":3},{"type":null,"id":"4"},
            {"type":"reasoning","id":"5","summary":[]},{"type":"reasoning","id":"6","summary":[],"content":[],"encrypted_content":""},
            {"type":"image_generation_call","id":"7"},{"type":"web_search_call","id":"8","status":"completed"},
            {"type":"message","id":"9","role":"assistant"},
            {"type":"item_reference","id":"own"},{"type":"item_reference","id":""},{"type":"item_reference","id":"1"},
            {"type":"reasoning","id":"a","encrypted_content":"x"},{"type":"reasoning","id":"b","content":[{"text":"x"}]},
            {"type":"image_generation_call","id":"c","result":"x"},{"type":"web_search_call","id":"d","action":{"query":"x"}},
            {"type":"message","id":"e","role":"assistant","content":"x"},{"role":"user","id":"f","content":"x"},
            {"type":"function_call","id":"g","call_id":"h","name":"n","arguments":"{}"}]}"#;
        let document = Document::parse_noting(request.into(), DEPTH_NOTED, &[]).unwrap();
        let named = named_objects(&Head::read(&document).unwrap(), |id| id == "own");
        let ids: Vec<&str> = named.iter().map(|named| &*named.id).collect();
        assert_eq!(ids, ["r", "c", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        let many: Vec<String> = (0..3000).map(|id| format!("{{\"id\":\"{id}\"}}")).collect();
        let document = Document::parse_noting(format!("{{\"input\":[{}]}}", many.join(",")).into(), DEPTH_NOTED, &[]).unwrap();
        assert_eq!(named_objects(&Head::read(&document).unwrap(), |_| false).len(), NAMED_MAX + 1);
        assert_eq!((named[0].kind, named[1].kind, named[2].kind), (ObjectKind::Response, ObjectKind::Conversation, ObjectKind::Item));
    }
}
