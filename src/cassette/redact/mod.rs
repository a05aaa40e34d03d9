//! Redaction: removes credentials, and values named in the settings, from an exchange before it is written.
//!
//! Secrets are found in headers and query parameters by name, in bodies by the shape of keys and the names of members, and
//! everywhere by the exchange's own credentials, word for word. Each is replaced by `[redacted]`, and the exchange has their
//! number. Pure.

pub mod patterns;
pub mod stream;
pub mod text;

use std::borrow::Cow;

pub use text::{Credentials, REDACTED, RedactionRules, pointer};

use super::body::RecordedBody;
use crate::format::{Header, RecordedExchange, RecordedRequest, RecordedResponse};
use toolmark_core::wire::sse::is_event_stream;

/// Removes secrets from whole exchanges.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// JSON pointers of values in bodies that are always removed.
    pub pointers: Vec<Vec<String>>,
    /// Known secrets, removed word for word.
    pub literals: Vec<String>,
    /// Treatment of credentials.
    pub credentials: Credentials,
}

/// Shorter secrets are ignored: they occur in too many other places.
const LITERAL_BYTES_MIN: usize = 6;

impl Redactor {
    /// A copy with additional known secrets.
    pub fn knowing<'s>(&self, secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut more = self.clone();
        let bare = secrets.into_iter().map(|secret| bare(secret).to_owned());
        more.literals.extend(bare.filter(|secret| secret.len() >= LITERAL_BYTES_MIN && secret != REDACTED));
        // The longest first: a secret that contains another is replaced as a whole.
        more.literals.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        more.literals.dedup();
        more
    }

    fn rules(&self) -> RedactionRules<'_> {
        RedactionRules { literals: &self.literals, pointers: &self.pointers, credentials: self.credentials }
    }

    /// Removes the secrets of an exchange. The credentials in its own headers count as known.
    pub fn exchange(&self, mut exchange: RecordedExchange) -> RecordedExchange {
        let own = match self.credentials {
            Credentials::Redact => self.knowing(credentials(&exchange).iter().map(String::as_str)),
            Credentials::Keep => self.clone(),
        };
        let mut count = exchange.redactions;
        own.request(&mut exchange.downstream.request, &mut count);
        exchange.downstream.response.iter_mut().for_each(|response| own.response(response, &mut count));
        for attempt in &mut exchange.attempts {
            attempt.request.iter_mut().for_each(|request| own.request(request, &mut count));
            attempt.response.iter_mut().for_each(|response| own.response(response, &mut count));
            attempt.failure.iter_mut().for_each(|failure| own.words(&mut failure.message, &mut count));
        }
        for found in exchange.verdict.iter_mut().flat_map(|verdict| &mut verdict.violations) {
            own.words(&mut found.message, &mut count);
            found.tool.iter_mut().for_each(|tool| own.words(tool, &mut count));
        }
        for ran in exchange.mcp.iter_mut().flat_map(|mcp| &mut mcp.ran) {
            own.words(&mut ran.arguments, &mut count);
            own.words(&mut ran.result, &mut count);
        }
        if let Some(origin) = &mut exchange.origin {
            own.json(&mut origin.rest, &mut count);
        }
        exchange.redactions = count;
        exchange
    }

    fn request(&self, request: &mut RecordedRequest, count: &mut u32) {
        self.url(&mut request.url, count);
        self.headers(&mut request.headers, count);
        self.body(&mut request.body, count);
    }

    fn response(&self, response: &mut RecordedResponse, count: &mut u32) {
        self.headers(&mut response.headers, count);
        self.body(&mut response.body, count);
    }

    fn headers(&self, headers: &mut [Header], count: &mut u32) {
        for (name, value) in headers {
            if self.credentials == Credentials::Redact && patterns::is_credential_header(name) {
                if value != REDACTED && !value.is_empty() {
                    *value = REDACTED.to_owned();
                    *count += 1;
                }
            } else {
                self.words(value, count);
            }
        }
    }

    fn words(&self, text: &mut String, count: &mut u32) {
        let rules = RedactionRules { pointers: &[], ..self.rules() };
        if let Some((redacted, places)) = text::redact(text, &rules) {
            *text = redacted;
            *count += places;
        }
    }

    /// Removes the secrets of a body.
    fn body(&self, body: &mut Option<RecordedBody>, count: &mut u32) {
        let redacted = match body {
            None | Some(RecordedBody::Binary(_)) => None,
            // A stream without times: a secret may be split over several events here too.
            Some(RecordedBody::Text(text)) if is_event_stream(text.as_bytes()) => {
                match RecordedBody::of_stream(&[(0, text.clone().into())]) {
                    RecordedBody::Events(events) => {
                        stream::redact(&events, &self.rules()).map(|(events, places)| (RecordedBody::Text(joined(events)), places))
                    }
                    RecordedBody::Text(_) | RecordedBody::Binary(_) => {
                        text::redact(text, &self.rules()).map(|(text, places)| (RecordedBody::Text(text), places))
                    }
                }
            }
            Some(RecordedBody::Text(text)) => text::redact(text, &self.rules()).map(|(text, places)| (RecordedBody::Text(text), places)),
            Some(RecordedBody::Events(events)) => {
                stream::redact(events, &self.rules()).map(|(events, places)| (RecordedBody::Events(events), places))
            }
        };
        if let Some((redacted, places)) = redacted {
            *body = Some(redacted);
            *count += places;
        }
    }

    /// The text of a request's body as it would be written.
    pub fn body_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        text::redact(text, &self.rules()).map_or(Cow::Borrowed(text), |(text, _)| Cow::Owned(text))
    }

    fn json(&self, value: &mut serde_json::Value, count: &mut u32) {
        if value.is_null() {
            return;
        }
        let rules = RedactionRules { pointers: &[], ..self.rules() };
        let redacted = text::redact(&value.to_string(), &rules);
        if let Some((json, (_, places))) = redacted.and_then(|redacted| Some((serde_json::from_str(&redacted.0).ok()?, redacted))) {
            *value = json;
            *count += places;
        }
    }

    fn url(&self, url: &mut String, count: &mut u32) {
        let before = url.clone();
        if self.credentials == Credentials::Redact {
            *url = without_userinfo(url);
            *url = without_values(url);
        }
        self.words(url, count);
        *count += u32::from(*url != before);
    }
}

fn joined(events: Vec<super::body::Event>) -> String {
    events.into_iter().map(|(_, text)| text).collect()
}

/// The credential in a header's value, without the name of its scheme.
fn bare(value: &str) -> &str {
    let value = value.trim();
    match value.split_once(' ') {
        Some((scheme, rest)) if scheme.len() <= 10 && scheme.bytes().all(|byte| byte.is_ascii_alphabetic()) => rest.trim(),
        _ => value,
    }
}

/// The credentials in the headers and URLs of an exchange.
fn credentials(exchange: &RecordedExchange) -> Vec<String> {
    let requests = exchange.attempts.iter().filter_map(|attempt| attempt.request.as_ref()).chain([&exchange.downstream.request]);
    let mut found = Vec::new();
    for request in requests {
        let named = request.headers.iter().filter(|(name, value)| patterns::is_credential_header(name) && value != REDACTED);
        found.extend(named.map(|(_, value)| value.clone()));
        let parameters = query(&request.url).filter(|(name, value)| patterns::is_credential_parameter(name) && value != REDACTED);
        found.extend(parameters.map(|(_, value)| value));
        found.extend(userinfo(&request.url).map(str::to_owned));
        found.extend(userinfo(&request.url).and_then(|info| info.split_once(':')).map(|(_, password)| password.to_owned()));
    }
    found
}

fn query(url: &str) -> impl Iterator<Item = (String, String)> {
    let query = url.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned()))
}

fn userinfo(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(info, _)| info)
}

fn without_userinfo(url: &str) -> String {
    match userinfo(url) {
        Some(info) if info != REDACTED && !info.is_empty() => url.replacen(&format!("{info}@"), &format!("{REDACTED}@"), 1),
        _ => url.to_owned(),
    }
}

fn without_values(url: &str) -> String {
    let Some((before, query)) = url.split_once('?') else { return url.to_owned() };
    let parameter = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if patterns::is_credential_parameter(name) && !value.is_empty() => format!("{name}={REDACTED}"),
        _ => pair.to_owned(),
    };
    format!("{before}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests;
