//! Reads upstream errors in any shape, and writes them in the one shape that clients read.
//!
//! Source: docs/wire-facts.md#error-bodies: nested, flat, in an array, with a number as code, inside a 200. Pure.

use bytes::Bytes;

use crate::{
    violation::Code,
    wire::json::{
        Document, Value,
        string::{cut, quote, unescape},
    },
};

/// Limit for the raw text of a failed generation, in bytes.
const GENERATION_BYTES_MAX: usize = 8 << 10;

/// Limit for an error's message that came in an answer, in bytes.
const MESSAGE_BYTES_MAX: usize = 2 << 10;
/// Limit for an error's type, param and code, in bytes each.
const WORD_BYTES_MAX: usize = 128;
/// Message for an error that has none.
const UNSAID: &str = "the upstream reported an error and didn't say which";
/// Message for an error whose own message must not be passed on.
const UNFIT: &str = "the upstream reported an error whose message claims what can't be verified: it isn't passed on";

/// An error with the members of OpenAI's envelope.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reported {
    /// `error.message`
    pub message: String,
    /// `error.type`
    pub kind: Option<String>,
    /// `error.param`
    pub param: Option<String>,
    /// `error.code`, also where it came as a number.
    pub code: Option<String>,
    /// HTTP status named in the error itself, 400 to 599.
    pub status: Option<u16>,
    /// Groq's `failed_generation`.
    pub failed_generation: Option<String>,
}

/// True of an answer without choices that is an error in MiniMax's form: a `base_resp` whose `status_code` isn't 0.
pub fn is_base_error(root: Value<'_>) -> bool {
    let failed = root.get_some("base_resp").and_then(|base| base.get_some("status_code")).is_some_and(|code| code.raw_str() != "0");
    failed && root.get_some("choices").is_none_or(|choices| choices.items().next().is_none())
}

impl Reported {
    /// Reads an error from JSON; `None` if the JSON can't be read.
    pub fn read(json: &[u8]) -> Option<Self> {
        let document = Document::parse(Bytes::copy_from_slice(json)).ok()?;
        let root = document.root();
        let outer = if root.is_array() { root.items().next()? } else { root };
        let base = outer.get_some("base_resp").filter(|_| is_base_error(outer));
        let error = outer.get_some("error").or(base).unwrap_or(outer);
        if let Some(text) = error.text() {
            return Some(Self { message: text.into_owned(), ..Self::default() });
        }
        let text = |name: &str| error.get_some(name).map(|value| value.text().map_or_else(|| value.raw_str().to_owned(), Into::into));
        let numbers = ["code", "status", "status_code"].iter().filter_map(|name| error.get(name).or_else(|| outer.get(name)));
        let status = numbers.filter_map(Value::integer).find_map(|number| match number {
            400..600 => Some(number as u16),
            // MiniMax's own: a limit of requests, a wrong key, no balance (its API reference, "error codes").
            1002 if base.is_some() => Some(429),
            1004 if base.is_some() => Some(401),
            1008 if base.is_some() => Some(402),
            _ => None,
        });
        let message = text("message").or_else(|| text("detail")).or_else(|| text("status_msg")).filter(|message| !message.is_empty());
        // What is no error at all isn't quoted: nobody judged it.
        let raw = || outer.get_some("error").map(|error| error.raw_str().to_owned());
        let message = message.or_else(raw).unwrap_or_else(|| UNSAID.to_owned());
        Some(Self {
            message,
            kind: text("type"),
            param: text("param"),
            code: text("code").or_else(|| base.and_then(|_| text("status_code"))),
            status,
            failed_generation: text("failed_generation"),
        })
    }

    /// The violation behind Groq's `tool_use_failed` error, with the failed generation; `None` for other errors.
    pub fn failed_call(&self) -> Option<(Code, String)> {
        if self.code.as_deref() != Some("tool_use_failed") {
            return None;
        }
        let says = |words: &str| self.message.contains(words);
        let code = match () {
            () if says("not in request.tools") => Code::UnknownTool,
            () if says("did not match schema") => Code::SchemaViolation,
            () if says("did not call a tool") => Code::ToolChoiceIgnored,
            () => Code::MalformedArguments,
        };
        let generation = self.failed_generation.as_deref().unwrap_or_default();
        Some((code, cut(generation, GENERATION_BYTES_MAX).to_owned()))
    }

    /// Envelope of an error in an answer or a stream, which may contain the model's words: cut to length, and without
    /// members that make unverifiable claims, as `claims` finds them.
    pub fn judged_envelope(&self, claims: impl Fn(&str) -> bool) -> String {
        let said = |text: &str, most: usize| {
            let cut = cut(text, most);
            if claims(cut) { None } else { Some(cut.to_owned()) }
        };
        let word = |text: &Option<String>| text.as_deref().and_then(|text| said(text, WORD_BYTES_MAX));
        let message = said(&self.message, MESSAGE_BYTES_MAX).unwrap_or_else(|| UNFIT.to_owned());
        Self { message, kind: word(&self.kind), param: word(&self.param), code: word(&self.code), status: None, failed_generation: None }
            .envelope()
    }

    /// OpenAI's error envelope.
    pub fn envelope(&self) -> String {
        envelope(&self.message, self.kind.as_deref().unwrap_or("upstream_error"), self.param.as_deref(), self.code.as_deref())
    }
}

/// Writes OpenAI's error envelope.
pub fn envelope(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> String {
    let optional = |value: Option<&str>| value.map_or_else(|| "null".to_owned(), quote);
    format!(r#"{{"error":{{"message":{},"type":{},"param":{},"code":{}}}}}"#, quote(message), quote(kind), optional(param), optional(code))
}

/// An error body in the shape that clients read, with its members unchanged: unwraps the single error of an array
/// (Gemini), and wraps one without `error` (Cerebras, Mistral, vLLM). Any other body is returned unchanged.
pub fn enveloped(body: Bytes) -> Bytes {
    let Ok(document) = Document::parse(body.clone()) else { return body };
    let root = document.root();
    if root.get("message").is_some_and(Value::is_string) && root.get("error").is_none() {
        return format!(r#"{{"error":{}}}"#, root.raw_str()).into();
    }
    let mut items = root.items();
    match (items.next(), items.next()) {
        (Some(only), None) if only.get("error").is_some() => only.raw_bytes(),
        _ => body,
    }
}

/// `body` with every occurrence of `secret` masked; replaced as a whole if an escaped one remains.
pub fn masked(body: Bytes, secret: &str) -> Bytes {
    let text = String::from_utf8_lossy(&body);
    if secret.is_empty() || !(text.contains(secret) || unescape(&text).contains(secret)) {
        return body;
    }
    let plain = text.replace(secret, "[masked]");
    if unescape(&plain).contains(secret) {
        Bytes::from_static(b"{\"error\":{\"message\":\"[masked]\",\"type\":\"upstream_error\",\"param\":null,\"code\":null}}")
    } else {
        plain.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        for (json, message, code, status) in [
            (r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, "m", Some("c"), None),
            (r#"{"message":"m","type":"t","code":"wrong_api_format"}"#, "m", Some("wrong_api_format"), None),
            (r#"[{"error":{"code":400,"message":"m","status":"INVALID"}}]"#, "m", Some("400"), Some(400)),
            (r#"{"error":{"message":"m","code":429},"user_id":"u"}"#, "m", Some("429"), Some(429)),
            (r#"{"error":"m"}"#, "m", None, None),
            (r#"{"error":{"message":"m"},"status_code":503}"#, "m", None, Some(503)),
            (r#"{"detail":"m"}"#, "m", None, None),
        ] {
            let error = Reported::read(json.as_bytes()).unwrap();
            assert_eq!((error.message.as_str(), error.code.as_deref(), error.status), (message, code, status), "{json}");
            assert!(error.envelope().starts_with(r#"{"error":{"message":"m","#));
        }
    }

    #[test]
    fn every_shape_becomes_the_one_that_clients_read() {
        for (body, left) in [
            (r#" [{"error":{"code":400}}]"#, r#"{"error":{"code":400}}"#),
            (r#"{ "message":"m","code":"3280","object":"error" }"#, r#"{"error":{ "message":"m","code":"3280","object":"error" }}"#),
            (r#"[{"error":1},{"error":2}]"#, r#"[{"error":1},{"error":2}]"#),
            (r#"[{"message":1}]"#, r#"[{"message":1}]"#),
            (r#"{"error":{"message":"m"},"message":"x"}"#, r#"{"error":{"message":"m"},"message":"x"}"#),
            ("[", "["),
            ("", ""),
            ("<html>", "<html>"),
        ] {
            assert_eq!(enveloped(Bytes::from_static(body.as_bytes())), left);
        }
    }

    #[test]
    fn own_keys_are_masked() {
        let masked = masked(Bytes::from_static(b"{\"error\":{\"message\":\"bad key sk-1\"}}"), "sk-1");
        assert_eq!(masked, "{\"error\":{\"message\":\"bad key [masked]\"}}");
    }
}
