//! HAR 1.2. Source: the HAR 1.2 specification. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{absolute, read_back, sides};
use crate::{
    body::RecordedBody,
    export::extension,
    format::{Header, RecordedExchange, header},
    import,
};

/// The cassette as a HAR archive.
pub fn write(exchanges: &[RecordedExchange]) -> String {
    let entries: Vec<Value> = exchanges.iter().map(entry).collect();
    let creator = json!({ "name": "toolmark", "version": env!("CARGO_PKG_VERSION") });
    let mut text =
        serde_json::to_string_pretty(&json!({ "log": { "version": "1.2", "creator": creator, "entries": entries } })).unwrap_or_default();
    text.push('\n');
    text
}

fn entry(exchange: &RecordedExchange) -> Value {
    let plain = plain(exchange);
    // Read back without the archive's other members, which the import adds to the first entry.
    let archive = json!({ "log": { "entries": [plain] } }).to_string();
    let mut entry = plain;
    if let Some(patch) = read_back(import::har::read(&archive)).and_then(|read| extension::between(&read, exchange))
        && let Value::Object(members) = &mut entry
    {
        members.insert("_toolmark".into(), patch);
    }
    entry
}

fn plain(exchange: &RecordedExchange) -> Value {
    let (request, response) = sides(exchange);
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(exchange.at_ms.unwrap_or(0));
    let url = absolute(&request.url);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        json!({ "name": name, "value": value })
    });
    let mut sent = json!({
        "method": request.method,
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": headers(&request.headers),
        "queryString": pairs.collect::<Vec<_>>(),
        "headersSize": -1,
        "bodySize": request.body.as_ref().map_or(0, |body| body.bytes().len()),
    });
    if let (Some(body), Value::Object(members)) = (&request.body, &mut sent) {
        members.insert("postData".into(), content(body, header(&request.headers, "content-type")).into());
    }
    let took = response.and_then(|response| response.head_ms).unwrap_or(0);
    json!({
        "startedDateTime": humantime::format_rfc3339_millis(at).to_string(),
        "time": took,
        "request": sent,
        "response": received(response),
        "cache": {},
        "timings": { "send": 0, "wait": took, "receive": 0 },
    })
}

/// The response; status 0 if there was none, as browsers write it.
fn received(response: Option<&crate::format::RecordedResponse>) -> Value {
    let status = response.map_or(0, |response| response.status);
    let reason = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
    let body = response.and_then(|response| response.body.as_ref());
    let kind = response.and_then(|response| response.header("content-type"));
    let mut written =
        body.map_or_else(|| Map::from_iter([("mimeType".into(), kind.unwrap_or_default().into())]), |body| content(body, kind));
    let bytes = body.map_or(0, |body| body.bytes().len());
    written.insert("size".into(), bytes.into());
    json!({
        "status": status,
        "statusText": reason,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": headers(response.map_or(&[], |response| &response.headers)),
        "content": written,
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": bytes,
    })
}

fn content(body: &RecordedBody, kind: Option<&str>) -> Map<String, Value> {
    let mut content = Map::from_iter([("mimeType".to_owned(), Value::from(kind.unwrap_or_default()))]);
    match body {
        RecordedBody::Binary(bytes) => {
            content.insert("text".into(), STANDARD.encode(bytes).into());
            content.insert("encoding".into(), "base64".into());
        }
        RecordedBody::Text(_) | RecordedBody::Events(_) => {
            content.insert("text".into(), body.text().unwrap_or_default().into());
        }
    }
    content
}

fn headers(headers: &[Header]) -> Vec<Value> {
    headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}
