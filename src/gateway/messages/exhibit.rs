//! Calls and their results in a request, by id. Pure.

use std::collections::HashMap;

use super::history::blocks;
use crate::{
    exchange::evidence::exhibit::{Exhibit, ExhibitSearch, last_first},
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Finds the calls with these ids, and their results.
pub fn exhibits<'i>(request: &Document, ids: &[&'i str]) -> HashMap<&'i str, Exhibit> {
    let messages = request.root().get("messages").into_iter().flat_map(Value::items);
    ExhibitSearch::new(ids).through(messages, |search, message| {
        for block in last_first(blocks(message)) {
            if let Some(id) = block.get("tool_use_id").and_then(Value::text) {
                search.result(&id, || Some(block.get("content").and_then(text_of).unwrap_or_default().into_owned()));
            } else if let Some(id) = block.get("id").and_then(Value::text) {
                search.call(&id, || block.get("input").map(|input| input.raw_str().to_owned()));
            }
        }
    })
}
