//! Calls and their outputs in a request to the Responses API, by id. Pure.

use std::collections::HashMap;

use crate::{
    exchange::evidence::exhibit::Exhibit,
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Finds the calls with these ids, and their outputs.
pub fn exhibits<'i>(request: &Document, ids: &[&'i str]) -> HashMap<&'i str, Exhibit> {
    let mut found: HashMap<&str, Exhibit> = ids.iter().map(|id| (*id, Exhibit::default())).collect();
    for item in request.root().get("input").into_iter().flat_map(Value::items) {
        let Some(found) = item.get("call_id").and_then(Value::text).and_then(|id| found.get_mut(&*id)) else { continue };
        if let Some(output) = item.get("output") {
            found.result = Some(text_of(output).unwrap_or_default().into_owned());
            continue;
        }
        let arguments = item.get("arguments").or_else(|| item.get("input"));
        found.arguments = arguments.and_then(Value::text).map(|text| text.into_owned());
    }
    found
}
