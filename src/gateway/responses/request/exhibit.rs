//! Calls and their outputs in a request to the Responses API, by id. Pure.

use std::collections::HashMap;

use crate::{
    exchange::evidence::exhibit::{Exhibit, ExhibitSearch},
    openai::content::text_of,
    wire::json::{Document, Value},
};

/// Finds the calls with these ids, and their outputs.
pub fn exhibits<'i>(request: &Document, ids: &[&'i str]) -> HashMap<&'i str, Exhibit> {
    let items = request.root().get("input").into_iter().flat_map(Value::items);
    ExhibitSearch::new(ids).through(items, |search, item| {
        let Some(id) = item.get("call_id").and_then(Value::text) else { return };
        match item.get("output") {
            Some(output) => search.result(&id, || Some(text_of(output).unwrap_or_default().into_owned())),
            None => {
                let arguments = item.get("arguments").or_else(|| item.get("input"));
                search.call(&id, || arguments.and_then(Value::text).map(|text| text.into_owned()));
            }
        }
    })
}
