//! JSON lines with `method`, `url`, `request_body`, `status`, `response_headers` and `response_body`, and any other members.
//! Pure.

use bytes::Bytes;
use serde_json::Value as Json;

use super::{ImportError, Imported};
use crate::{
    body::RecordedBody,
    format::{Header, RecordedExchange, RecordedRequest, RecordedResponse},
};
use toolmark_core::wire::json::{Document, Value};

const TAKEN: [&str; 8] = ["method", "url", "request_headers", "request_body", "status", "response_headers", "response_body", "_toolmark"];

/// Reads all lines.
///
/// # Errors
/// [`ImportError`], with the place.
pub fn read(text: &str) -> Result<Vec<RecordedExchange>, ImportError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(place, line)| exchange(line, place)).collect()
}

/// Reads one line. `place`: counts from 0.
///
/// # Errors
/// [`ImportError`], with the place.
pub fn exchange(line: &str, place: usize) -> Result<RecordedExchange, ImportError> {
    let wrong = |why: String| ImportError(format!("line {}: {why}", place + 1));
    let document = Document::parse(Bytes::copy_from_slice(line.as_bytes())).map_err(|error| wrong(error.to_string()))?;
    imported(document.root()).map_err(|error| wrong(error.to_owned()))?.exchange(place)
}

fn imported(root: Value<'_>) -> Result<Imported, &'static str> {
    let text = |name: &str| root.get(name).and_then(Value::text).map(std::borrow::Cow::into_owned);
    let url = text("url").ok_or("it has no `url`")?;
    let request = RecordedRequest {
        method: text("method").unwrap_or_else(|| "POST".to_owned()),
        url,
        headers: headers(root.get_some("request_headers")),
        body: body(root.get_some("request_body")),
        encoded: None,
    };
    let status = root.get("status").and_then(Value::integer).and_then(|status| u16::try_from(status).ok());
    let response = status.map(|status| RecordedResponse {
        status,
        headers: headers(root.get_some("response_headers")),
        body: body(root.get_some("response_body")),
        ..RecordedResponse::default()
    });
    let beside = root.members().filter(|member| !TAKEN.contains(&&*member.name()));
    let rest = beside.map(|member| (member.name().into_owned(), json(member.value))).collect::<serde_json::Map<_, _>>();
    Ok(Imported { format: "exchanges", at_ms: None, request, response, rest: rest.into(), own: root.get("_toolmark").map(json) })
}

fn json(value: Value<'_>) -> Json {
    serde_json::from_str(value.raw_str()).unwrap_or_default()
}

/// The text of a string; any other value as its JSON, byte for byte.
fn body(value: Option<Value<'_>>) -> Option<RecordedBody> {
    let value = value?;
    Some(RecordedBody::Text(value.text().map_or_else(|| value.raw_str().to_owned(), std::borrow::Cow::into_owned)))
}

fn headers(value: Option<Value<'_>>) -> Vec<Header> {
    let mut headers = Vec::new();
    for member in value.into_iter().flat_map(|value| value.members().collect::<Vec<_>>()) {
        let name = member.name().into_owned();
        let text = |value: Value<'_>| value.text().map_or_else(|| value.raw_str().to_owned(), std::borrow::Cow::into_owned);
        if member.value.is_array() {
            headers.extend(member.value.items().map(|value| (name.clone(), text(value))));
        } else {
            headers.push((name, text(member.value)));
        }
    }
    headers
}
