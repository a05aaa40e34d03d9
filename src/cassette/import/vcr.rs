//! vcrpy's cassettes, as pytest-recording writes them too: YAML, also with pydantic-ai's parsed bodies. Pure.

use serde_json::{Map, Value, json};

use super::{
    ImportError, Imported, of_text, unpacked,
    yaml::{self, YamlNode},
};
use crate::{
    body::RecordedBody,
    format::{Header, RecordedExchange, RecordedRequest, RecordedResponse, header},
};

/// Reads a cassette.
///
/// # Errors
/// [`ImportError`], with the place.
pub fn read(text: &str) -> Result<Vec<RecordedExchange>, ImportError> {
    let mut file = yaml::read(text).map_err(|error| ImportError(format!("no YAML: {error}")))?;
    let Some(YamlNode::List(interactions)) = file.take("interactions") else {
        return Err(ImportError("no cassette of vcrpy's: it has no list `interactions`".into()));
    };
    let _version = file.take("version");
    let beside = members(file.json());
    let read = |(place, interaction): (usize, YamlNode)| {
        let imported = interaction_of(interaction, Some(&beside).filter(|beside| place == 0 && !beside.is_empty()));
        imported.map_err(|error| ImportError(format!("interaction {}: {error}", place + 1)))?.exchange(place)
    };
    interactions.into_iter().enumerate().map(read).collect()
}

/// Reads an interaction. `beside`: members of the file beside its interactions; the first interaction stores them.
fn interaction_of(mut node: YamlNode, beside: Option<&Map<String, Value>>) -> Result<Imported, String> {
    let mut rest = Map::new();
    let request_node = node.take("request").ok_or("it has no `request`")?;
    let request = request_of(request_node, &mut rest)?;
    let response = node.take("response").map(|node| response_of(node, &mut rest)).transpose()?;
    let own = node.take("toolmark").and_then(|node| serde_json::from_str(&node.text()?).ok());
    let left = members(node.json());
    let at_ms = left.get("recorded_at").and_then(Value::as_str).and_then(super::millis);
    if !left.is_empty() {
        rest.insert("interaction".into(), left.into());
    }
    if let Some(beside) = beside {
        rest.insert("file".into(), beside.clone().into());
    }
    Ok(Imported { format: "vcr", at_ms, request, response, rest: rest.into(), own })
}

fn request_of(mut node: YamlNode, rest: &mut Map<String, Value>) -> Result<RecordedRequest, String> {
    let method = node.take("method").and_then(|node| node.text()).ok_or("its request has no `method`")?;
    let url = node.take("uri").or_else(|| node.take("url")).and_then(|node| node.text()).ok_or("its request has no `uri`")?;
    let mut notes = Map::new();
    let headers = headers_of(node.take("headers"));
    let parsed = node.take("parsed_body");
    let body = node.take("body");
    let (body, encoded) = body_of(body, parsed, &headers, &mut notes);
    notes.extend(members(node.json()));
    if !notes.is_empty() {
        rest.insert("request".into(), notes.into());
    }
    Ok(RecordedRequest { method, url, headers, body, encoded })
}

fn response_of(mut node: YamlNode, rest: &mut Map<String, Value>) -> Result<RecordedResponse, String> {
    let mut notes = Map::new();
    let mut status = node.take("status").ok_or("its response has no `status`")?;
    // As `{code: 200, message: OK}`, or a number, or as httpx's stub wrote it: `status_code`.
    let code = status.take("code").or_else(|| matches!(status, YamlNode::Plain(_)).then(|| status.clone()));
    let code: u16 = code.and_then(|code| code.text()?.parse().ok()).ok_or("its response's status has no `code`")?;
    let left = members(status.json());
    if !left.is_empty() {
        notes.insert("status".into(), left.into());
    }
    let headers = headers_of(node.take("headers"));
    let parsed = node.take("parsed_body");
    let body = node.take("body").or_else(|| node.take("content"));
    let (body, encoded) = body_of(body, parsed, &headers, &mut notes);
    notes.extend(members(node.json()));
    if !notes.is_empty() {
        rest.insert("response".into(), notes.into());
    }
    Ok(RecordedResponse { status: code, headers, body, encoded, ..RecordedResponse::default() })
}

/// A body in any of its forms; data that the result can't express is added to `notes`.
fn body_of(
    body: Option<YamlNode>,
    parsed: Option<YamlNode>,
    headers: &[Header],
    notes: &mut Map<String, Value>,
) -> (Option<RecordedBody>, Option<String>) {
    if let Some(parsed) = parsed {
        notes.insert("parsed_body".into(), true.into());
        if let Some(body) = body.filter(|body| *body != YamlNode::Plain(Value::Null)) {
            notes.insert("body".into(), body.json());
        }
        return (Some(RecordedBody::Text(parsed.json().to_string())), None);
    }
    let encoding = header(headers, "content-encoding");
    let bytes = match body {
        None | Some(YamlNode::Plain(Value::Null)) => return (None, None),
        Some(YamlNode::Plain(Value::String(text))) => return (of_text(text), None),
        Some(YamlNode::Binary(bytes)) => bytes,
        Some(YamlNode::Plain(value)) => return (Some(RecordedBody::Text(value.to_string())), None),
        Some(node @ YamlNode::List(_)) => return (Some(RecordedBody::Text(node.json().to_string())), None),
        Some(mut map @ YamlNode::Map(_)) => {
            let inner = map.take("string").or_else(|| map.take("base64_string").map(base64));
            let left = members(map.json());
            if !left.is_empty() {
                notes.insert("body".into(), left.into());
            }
            match inner {
                None | Some(YamlNode::Plain(Value::Null)) => return (None, None),
                Some(YamlNode::Binary(bytes)) => bytes,
                Some(YamlNode::Plain(Value::String(text))) => return (of_text(text), None),
                Some(other) => return (Some(RecordedBody::Text(other.json().to_string())), None),
            }
        }
    };
    let (body, encoded) = unpacked(bytes, encoding);
    ((!body.is_empty()).then_some(body), encoded)
}

fn base64(node: YamlNode) -> YamlNode {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let decoded = node.text().and_then(|text| STANDARD.decode(text.split_whitespace().collect::<String>()).ok());
    decoded.map_or(node, YamlNode::Binary)
}

fn headers_of(node: Option<YamlNode>) -> Vec<Header> {
    let mut headers = Vec::new();
    let Some(YamlNode::Map(members)) = node else { return headers };
    for (name, value) in members {
        match value {
            YamlNode::List(values) => headers.extend(values.iter().map(|value| (name.clone(), text_or_json(value)))),
            value => headers.push((name, text_or_json(&value))),
        }
    }
    headers
}

fn text_or_json(node: &YamlNode) -> String {
    match node {
        YamlNode::Binary(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => node.text().unwrap_or_else(|| node.json().to_string()),
    }
}

/// Members of an object; any other non-null value is stored under the name `value`.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => Map::from_iter([("value".to_owned(), json!(value))]),
    }
}
