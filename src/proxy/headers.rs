//! toolmark's own headers: their names, checked and hashed once, and what every response says with them.

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

use super::run::Run;

/// What the caller calls the conversation.
pub const SESSION: HeaderName = HeaderName::from_static("toolmark-session");
/// The exchange's id.
pub const EXCHANGE: HeaderName = HeaderName::from_static("toolmark-exchange");
/// The codes of its violations.
pub const VIOLATIONS: HeaderName = HeaderName::from_static("toolmark-violations");
/// The upstream that answered.
pub const UPSTREAM: HeaderName = HeaderName::from_static("toolmark-upstream");
/// Its verdict.
pub const VERDICT: HeaderName = HeaderName::from_static("toolmark-verdict");
/// How often the model was asked again.
pub const REPAIRS: HeaderName = HeaderName::from_static("toolmark-repairs");

impl Run {
    /// Headers that every enforced response has; `known`: the verdict is.
    pub fn mark_headers(&self, headers: &mut HeaderMap, known: bool) {
        let mut buffer = Uuid::encode_buffer();
        let id = self.context.id.hyphenated().encode_lower(&mut buffer);
        let mut set = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(EXCHANGE, id);
        let codes = self.tally.codes();
        if codes.len() > 1 {
            let list = codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(",");
            set(VIOLATIONS, &list);
        }
        if let Some(name) = self.way.answered.as_deref() {
            set(UPSTREAM, name);
        }
        if let [only] = codes[..] {
            headers.insert(VIOLATIONS, HeaderValue::from_static(only.as_str()));
        }
        if known {
            headers.insert(VERDICT, HeaderValue::from_static(self.tally.verdict().as_str()));
            let repairs = self.tally.repairs;
            headers.insert(REPAIRS, if repairs == 0 { HeaderValue::from_static("0") } else { repairs.into() });
        }
    }
}
