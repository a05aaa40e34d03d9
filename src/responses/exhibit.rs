//! A call and its output in a request to the Responses API. Pure.

use crate::{
    chat::messages::text_of,
    exchange::exhibit::Exhibit,
    wire::json::{Document, Value},
};

/// Finds the call with this id, and what answers it.
pub fn exhibit(request: &Document, id: &str) -> Exhibit {
    let mut found = Exhibit::default();
    let items = request.root().get("input").into_iter().flat_map(Value::items);
    for item in items.filter(|item| item.get("call_id").is_some_and(|own| own.is_text(id))) {
        if let Some(output) = item.get("output") {
            found.result = Some(text_of(output).unwrap_or_default().into_owned());
            continue;
        }
        let arguments = item.get("arguments").or_else(|| item.get("input"));
        found.arguments = arguments.and_then(Value::text).map(|text| text.into_owned());
    }
    found
}
