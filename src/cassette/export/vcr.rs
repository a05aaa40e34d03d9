//! vcrpy's format: YAML with one interaction per exchange. Pure.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{absolute, read_back, sides};
use crate::{
    body::RecordedBody,
    export::extension,
    format::{Header, RecordedExchange},
    import,
};
use toolmark_core::wire::json::string::quote;

/// The cassette in vcrpy's format.
pub fn write(exchanges: &[RecordedExchange]) -> String {
    let mut out = String::from("interactions:");
    if exchanges.is_empty() {
        out.push_str(" []");
    }
    out.push('\n');
    for exchange in exchanges {
        let plain = interaction(exchange);
        let read = read_back(import::vcr::read(&format!("interactions:\n{plain}")));
        out.push_str(&plain);
        if let Some(patch) = read.and_then(|read| extension::between(&read, exchange)) {
            line(&mut out, 2, "toolmark", &scalar(&patch.to_string()));
        }
    }
    out.push_str("version: 1\n");
    out
}

fn interaction(exchange: &RecordedExchange) -> String {
    let (request, response) = sides(exchange);
    let mut out = String::from("- request:\n");
    line(&mut out, 4, "body", &request.body.as_ref().map_or_else(|| "null".to_owned(), bytes));
    headers(&mut out, &without_encoding(&request.headers, request.encoded.as_deref()));
    line(&mut out, 4, "method", &scalar(&request.method));
    line(&mut out, 4, "uri", &scalar(&absolute(&request.url)));
    if let Some(response) = response {
        out.push_str("  response:\n    body:\n");
        line(&mut out, 6, "string", &response.body.as_ref().map_or_else(|| "''".to_owned(), bytes));
        headers(&mut out, &without_encoding(&response.headers, response.encoded.as_deref()));
        out.push_str("    status:\n");
        line(&mut out, 6, "code", &response.status.to_string());
        let reason = http::StatusCode::from_u16(response.status).ok().and_then(|status| status.canonical_reason());
        line(&mut out, 6, "message", &scalar(reason.unwrap_or_default()));
    }
    out
}

/// The headers without `content-encoding` if the body, which came `encoded`, is stored decoded.
fn without_encoding<'h>(headers: &'h [Header], encoded: Option<&str>) -> Vec<&'h Header> {
    headers.iter().filter(|(name, _)| encoded.is_none() || !name.eq_ignore_ascii_case("content-encoding")).collect()
}

fn headers(out: &mut String, kept: &[&Header]) {
    let _ = writeln!(out, "    headers:{}", if kept.is_empty() { " {}" } else { "" });
    let mut written: Vec<&str> = Vec::new();
    for (name, _) in kept {
        if written.contains(&name.as_str()) {
            continue;
        }
        written.push(name);
        let _ = writeln!(out, "      {}:", scalar(name));
        for (_, value) in kept.iter().filter(|(own, _)| own == name) {
            let _ = writeln!(out, "      - {}", scalar(value));
        }
    }
}

fn line(out: &mut String, indent: usize, name: &str, value: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(out, "{:indent$}{name}: {value}", "");
}

fn bytes(body: &RecordedBody) -> String {
    match body {
        RecordedBody::Binary(bytes) => format!("!!binary \"{}\"", STANDARD.encode(bytes)),
        RecordedBody::Text(text) => scalar(text),
        RecordedBody::Events(events) => scalar(&events.iter().map(|(_, text)| text.as_str()).collect::<String>()),
    }
}

/// A double-quoted YAML scalar: a JSON string in which characters that YAML doesn't allow are escaped too.
fn scalar(text: &str) -> String {
    let quoted = quote(text);
    let unprintable = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    if !quoted.contains(unprintable) {
        return quoted;
    }
    let mut out = String::with_capacity(quoted.len() + 8);
    for c in quoted.chars() {
        if unprintable(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}
