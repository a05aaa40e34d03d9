//! Anthropic's error envelope. Pure.
//!
//! Source: Anthropic's API reference, "Errors". toolmark's code is `error.details.error_code`, which the SDKs show.

use bytes::Bytes;

use crate::{
    openai::error::Reported,
    wire::json::{Document, string::quote},
};

/// An error in OpenAI's envelope, in Anthropic's. An error that is in Anthropic's already is returned unchanged.
pub fn converted(envelope: &Bytes) -> Bytes {
    let own = |document: &Document| document.root().get("type").is_some_and(|kind| kind.is_text("error"));
    if Document::parse(envelope.clone()).is_ok_and(|document| own(&document)) {
        return envelope.clone();
    }
    let error = Reported::read(envelope).unwrap_or_default();
    let kind = kind_of(error.kind.as_deref().unwrap_or_default(), error.code.as_deref().unwrap_or_default());
    let param = error.param.as_deref().map(|param| format!(",\"param\":{}", quote(param))).unwrap_or_default();
    let details = error.code.as_deref().map(|code| format!(",\"details\":{{\"error_code\":{}{param}}}", quote(code))).unwrap_or_default();
    format!(r#"{{"type":"error","error":{{"type":{},"message":{}{details}}},"request_id":null}}"#, quote(kind), quote(&error.message))
        .into()
}

/// Anthropic's type for an error. `kind`: type in OpenAI's envelope; `code`: toolmark's code.
fn kind_of<'k>(kind: &'k str, code: &str) -> &'k str {
    match (kind, code) {
        (_, "overloaded") => "overloaded_error",
        (_, "upstream_timeout") => "timeout_error",
        (_, "request_too_large") => "request_too_large",
        (_, "model_not_found" | "thread_not_found") => "not_found_error",
        ("tool_integrity_error", _) => "invalid_request_error",
        ("upstream_error" | "server_error" | "", _) => "api_error",
        (kind, _) => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::error::envelope;

    #[test]
    fn envelopes() {
        for (kind, code, expected) in [
            ("invalid_request_error", Some("invalid_json"), "invalid_request_error"),
            ("tool_integrity_error", Some("unknown_tool"), "invalid_request_error"),
            ("upstream_error", Some("upstream_unreachable"), "api_error"),
            ("upstream_error", Some("overloaded"), "overloaded_error"),
            ("overloaded_error", None, "overloaded_error"),
        ] {
            let json = converted(&envelope("no \"x\"", kind, None, code).into());
            let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(
                (&value["type"], &value["error"]["type"], &value["error"]["message"]),
                (&"error".into(), &expected.into(), &"no \"x\"".into())
            );
            assert_eq!(value["error"]["details"]["error_code"].as_str(), code, "{kind}");
        }
        let own = Bytes::from_static(br#"{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"req_1"}"#);
        assert_eq!(converted(&own), own);
    }
}
