//! HAR 1.2, as mitmproxy and browsers write it. Source: the HAR 1.2 specification. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{ImportError, Imported, of_text, unpacked};
use crate::{
    body::RecordedBody,
    format::{Header, RecordedExchange, RecordedRequest, RecordedResponse, header},
};

/// Reads an archive.
///
/// # Errors
/// [`ImportError`], with the place.
pub fn read(text: &str) -> Result<Vec<RecordedExchange>, ImportError> {
    // Some tools put a byte order mark before it.
    let mut file: Value =
        serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| ImportError(format!("no JSON: {error}")))?;
    let entries = file.get_mut("log").and_then(|log| log.get_mut("entries")).map(Value::take);
    let Some(Value::Array(entries)) = entries else { return Err(ImportError("no HAR: it has no list `log.entries`".into())) };
    let mut log = match file.get_mut("log").map(Value::take) {
        Some(Value::Object(log)) => log,
        _ => Map::new(),
    };
    let _entries = log.shift_remove("entries");
    let read = |(place, entry): (usize, Value)| {
        let beside = (place == 0 && !log.is_empty()).then(|| log.clone());
        let imported = entry_of(entry, beside);
        imported.map_err(|error| ImportError(format!("entry {}: {error}", place + 1)))?.exchange(place)
    };
    entries.into_iter().enumerate().map(read).collect()
}

/// Reads an entry. Everything that is understood is removed from it; the remainder is stored unchanged.
fn entry_of(entry: Value, beside: Option<Map<String, Value>>) -> Result<Imported, String> {
    let Value::Object(mut entry) = entry else { return Err("it is no object".into()) };
    let own = entry.shift_remove("_toolmark");
    let at_ms = entry.get("startedDateTime").and_then(Value::as_str).and_then(super::millis);
    let request = request_of(entry.get_mut("request").and_then(Value::as_object_mut).ok_or("it has no `request`")?)?;
    let response = entry.get_mut("response").and_then(Value::as_object_mut).map(response_of).transpose()?;
    if let Some(beside) = beside {
        entry.insert("log".into(), beside.into());
    }
    // Browsers write status 0 if there was no response.
    let response = response.filter(|response| response.status != 0);
    Ok(Imported { format: "har", at_ms, request, response, rest: entry.into(), own })
}

fn request_of(request: &mut Map<String, Value>) -> Result<RecordedRequest, String> {
    let method = text(request, "method").ok_or("its request has no `method`")?;
    let url = text(request, "url").ok_or("its request has no `url`")?;
    let headers = headers_of(request);
    let (body, encoded) = match request.get_mut("postData").and_then(Value::as_object_mut) {
        Some(data) => content(data, header(&headers, "content-encoding")),
        None => (None, None),
    };
    Ok(RecordedRequest { method, url, headers, body, encoded })
}

fn response_of(response: &mut Map<String, Value>) -> Result<RecordedResponse, String> {
    let status = response.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let status = status.ok_or("its response has no `status`")?;
    if status != 0 {
        let _taken = response.shift_remove("status");
    }
    let headers = headers_of(response);
    let (body, encoded) = match response.get_mut("content").and_then(Value::as_object_mut) {
        Some(data) => content(data, header(&headers, "content-encoding")),
        None => (None, None),
    };
    Ok(RecordedResponse { status, headers, body, encoded, ..RecordedResponse::default() })
}

/// The `text` of a body, decoded if the entry marks it as base64. That marker stays in the entry.
fn content(data: &mut Map<String, Value>, encoding: Option<&str>) -> (Option<RecordedBody>, Option<String>) {
    let base64 = data.get("encoding").and_then(Value::as_str) == Some("base64");
    let Some(Value::String(text)) = data.get("text") else { return (None, None) };
    if !base64 {
        let streamed = data.get("mimeType").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("text/event-stream"));
        let body = of_text(if streamed { as_utf8(text) } else { text.clone() });
        if body.is_some() {
            let _taken = data.shift_remove("text");
        }
        return (body, None);
    }
    let Ok(bytes) = STANDARD.decode(text.split_whitespace().collect::<String>()) else { return (None, None) };
    let (body, encoded) = unpacked(bytes, encoding);
    let _taken = data.shift_remove("text");
    ((!body.is_empty()).then_some(body), encoded)
}

/// Repairs a stream's text that was read as Latin-1, as mitmproxy does without a charset: event streams are always UTF-8
/// (WHATWG HTML, "Server-sent events").
fn as_utf8(text: &str) -> String {
    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
}

fn headers_of(message: &mut Map<String, Value>) -> Vec<Header> {
    let plain = |item: &Value| {
        let header = item.as_object().filter(|header| header.len() == 2)?;
        Some((header.get("name")?.as_str()?.to_owned(), header.get("value")?.as_str()?.to_owned()))
    };
    let headers = message.get("headers").and_then(Value::as_array).map(|list| list.iter().map(plain).collect::<Option<Vec<_>>>());
    match headers {
        Some(Some(headers)) => {
            let _taken = message.shift_remove("headers");
            headers
        }
        // Headers with comments or other members are also stored unchanged.
        Some(None) => message.get("headers").and_then(Value::as_array).into_iter().flatten().filter_map(named).collect(),
        None => Vec::new(),
    }
}

fn named(item: &Value) -> Option<Header> {
    Some((item.get("name")?.as_str()?.to_owned(), item.get("value")?.as_str()?.to_owned()))
}

fn text(message: &mut Map<String, Value>, name: &str) -> Option<String> {
    match message.shift_remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
