//! toolmark's own headers: their names, parsed once, and their values for each response.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::InvalidHeaderValue};
use uuid::Uuid;

use crate::proxy::exchange::driver::Run;

/// Request header: the caller's name for the conversation.
pub const SESSION: HeaderName = HeaderName::from_static("toolmark-session");
/// Response header: the exchange's ID.
pub const EXCHANGE: HeaderName = HeaderName::from_static("toolmark-exchange");
/// Response header: codes of the exchange's violations.
pub const VIOLATIONS: HeaderName = HeaderName::from_static("toolmark-violations");
/// Response header: name of the upstream that answered.
pub const UPSTREAM: HeaderName = HeaderName::from_static("toolmark-upstream");
/// Response header: verdict on the exchange.
pub const VERDICT: HeaderName = HeaderName::from_static("toolmark-verdict");
/// Response header: number of repairs.
pub const REPAIRS: HeaderName = HeaderName::from_static("toolmark-repairs");

impl Run {
    /// Sets the headers of a response with this status. An error of the upstream has the verdict `failed`, as in the log and the metrics.
    pub fn mark_passed(&self, headers: &mut HeaderMap, status: StatusCode) {
        self.mark_headers(headers, true);
        if status.as_u16() >= 400 && !self.attempts.findings().blocked {
            headers.insert(VERDICT, HeaderValue::from_static("failed"));
        }
    }

    /// Sets the headers that every enforced response has; verdict and repairs only if they are `known` by now.
    pub fn mark_headers(&self, headers: &mut HeaderMap, known: bool) {
        let mut buffer = Uuid::encode_buffer();
        let id = self.context.id.hyphenated().encode_lower(&mut buffer);
        let mut set = |name, value: Result<HeaderValue, InvalidHeaderValue>| {
            if let Ok(value) = value {
                headers.insert(name, value);
            }
        };
        set(EXCHANGE, HeaderValue::from_str(id));
        match self.attempts.findings().codes()[..] {
            [] => {}
            // The usual case needs no text of its own.
            [only] => set(VIOLATIONS, Ok(HeaderValue::from_static(only.as_str()))),
            ref codes => set(VIOLATIONS, codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(",").try_into()),
        }
        if let Some(name) = self.way.answered.as_deref() {
            set(UPSTREAM, HeaderValue::from_str(name));
        }
        if known {
            set(VERDICT, Ok(HeaderValue::from_static(self.attempts.findings().word())));
            let repairs = self.attempts.findings().repairs;
            set(REPAIRS, Ok(if repairs == 0 { HeaderValue::from_static("0") } else { repairs.into() }));
        }
    }
}
