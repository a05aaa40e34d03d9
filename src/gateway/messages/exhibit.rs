//! Calls and their results in a request, by id. Pure.

use std::collections::HashMap;

use super::history::blocks;
use crate::{
    exchange::evidence::exhibit::Exhibit,
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Finds the calls with these ids, and their results.
pub fn exhibits<'i>(request: &Document, ids: &[&'i str]) -> HashMap<&'i str, Exhibit> {
    let mut found: HashMap<&str, Exhibit> = ids.iter().map(|id| (*id, Exhibit::default())).collect();
    for block in request.root().get("messages").into_iter().flat_map(Value::items).flat_map(blocks) {
        if let Some(found) = block.get("tool_use_id").and_then(Value::text).and_then(|id| found.get_mut(&*id)) {
            found.result = Some(block.get("content").and_then(text_of).unwrap_or_default().into_owned());
        } else if let Some(found) = block.get("id").and_then(Value::text).and_then(|id| found.get_mut(&*id)) {
            found.arguments = block.get("input").map(|input| input.raw_str().to_owned());
        }
    }
    found
}
