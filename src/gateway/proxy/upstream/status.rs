//! Statuses of an upstream that may be passed on: those of an answer that is judged, and errors that every client takes for one.
//!
//! A redirect may not: clients would follow it past toolmark, with the prompt, and run the unjudged response. Nor may a
//! status that only some clients take for an answer (`requests` raises no error below 400 and above 599). Pure.

use http::{HeaderMap, Method, StatusCode, header};

use crate::wire::json::string::cut;

/// Maximum bytes of a redirect's URL that a message quotes.
const PLACE_BYTES_MAX: usize = 300;

/// Kind of request that was sent to the upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// A request whose answer is judged.
    Answer,
    /// A request that passes through unchanged.
    Passed {
        /// It is conditional, so that 304 may be passed on: the caller's copy is still valid.
        conditional: bool,
    },
}

impl Asked {
    /// Kind of a request that passes through.
    pub fn passed(method: &Method, headers: &HeaderMap) -> Self {
        let asks = headers.contains_key(header::IF_NONE_MATCH) || headers.contains_key(header::IF_MODIFIED_SINCE);
        Self::Passed { conditional: asks && matches!(*method, Method::GET | Method::HEAD) }
    }
}

/// Reason for which a response with this status can't be passed on; `None` if it can.
///
/// `base_url`: that of the upstream; `rest`: the path below it; `own_key`: the key that no message may quote.
pub fn unusable(
    asked: Asked,
    status: StatusCode,
    headers: &HeaderMap,
    base_url: &str,
    rest: &str,
    own_key: Option<&str>,
) -> Option<String> {
    let passes = match (asked, status.as_u16()) {
        // An error, which every client knows for one.
        (_, 400..=599) => true,
        (Asked::Answer, 200..=203) => true,
        (Asked::Passed { .. }, 200..=299) => true,
        (Asked::Passed { conditional }, 304) => conditional,
        _ => false,
    };
    match status.as_u16() {
        _ if passes => None,
        300..=399 => Some(redirect(status, headers, base_url, rest, own_key)),
        101 => Some("it changes the protocol (status 101), which wasn't asked for".to_owned()),
        204 | 205 => Some(format!("its status {} says that it has no content", status.as_u16())),
        206 => Some("its status 206 says that it is a part of an answer".to_owned()),
        other => Some(format!("its status {other} is neither an answer's nor an error's")),
    }
}

/// Message on a redirect, with the `base_url` that would avoid it.
fn redirect(status: StatusCode, headers: &HeaderMap, base_url: &str, rest: &str, own_key: Option<&str>) -> String {
    let status = status.as_u16();
    let doubt = "is its `base_url` right?";
    let Some(place) = headers.get(header::LOCATION) else {
        return format!("it is a redirect (status {status}) that says not where to, and none is followed: {doubt}");
    };
    let asked = url::Url::parse(&format!("{}{rest}", base_url.trim_end_matches('/')));
    let place = asked.ok().zip(std::str::from_utf8(place.as_bytes()).ok()).and_then(|(asked, place)| asked.join(place).ok());
    let Some(mut place) = place.filter(|place| matches!(place.scheme(), "http" | "https")) else {
        return format!("it is a redirect (status {status}) to what is no URL of http, and none is followed: {doubt}");
    };
    // Keys are sent in these.
    place.set_query(None);
    place.set_fragment(None);
    let _bare = place.set_username("").and_then(|()| place.set_password(None));
    let hidden = |text: String| match own_key.filter(|key| !key.is_empty()) {
        Some(key) => text.replace(key, "[masked]"),
        None => text,
    };
    let shown = hidden(place.as_str().to_owned());
    let shown = cut(&shown, PLACE_BYTES_MAX);
    let wanted = shown_base(&place, rest);
    let instead = match wanted {
        Some(wanted) if wanted == base_url.trim_end_matches('/') => "it differs in nothing that `base_url` says".to_owned(),
        Some(wanted) => format!("set `base_url = \"{}\"`", cut(&hidden(wanted), PLACE_BYTES_MAX)),
        None => doubt.to_owned(),
    };
    format!("it is a redirect (status {status}) to `{shown}`, and none is followed: {instead}")
}

/// Base URL below which this URL is `rest`.
fn shown_base(place: &url::Url, rest: &str) -> Option<String> {
    let prefix = place.path().trim_end_matches('/').strip_suffix(rest)?.trim_end_matches('/').to_owned();
    let mut base = place.clone();
    base.set_path(&prefix);
    Some(base.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(asked: Asked, status: u16, location: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        if !location.is_empty() {
            headers.insert(header::LOCATION, location.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        unusable(asked, status, &headers, "http://api.example/v1/", "/chat/completions", Some("sk-own"))
    }

    #[test]
    fn statuses() {
        let passed = |conditional| Asked::Passed { conditional };
        for (asked, passing, refused) in [
            (
                Asked::Answer,
                &[200, 201, 202, 203, 400, 401, 404, 422, 429, 451, 499, 500, 503, 529, 599][..],
                &[100, 101, 102, 103, 199, 204, 205, 206, 207, 208, 226, 299, 300, 301, 302, 303, 304, 305, 307, 308, 399, 600, 700, 999][..],
            ),
            (
                passed(false),
                &[200, 201, 202, 203, 204, 205, 206, 207, 299, 400, 404, 500, 599],
                &[100, 101, 103, 300, 301, 302, 303, 304, 305, 306, 307, 308, 310, 399, 600, 999],
            ),
            (passed(true), &[200, 304, 412], &[301, 302, 303, 307, 308]),
        ] {
            passing.iter().for_each(|status| assert_eq!(said(asked, *status, ""), None, "{asked:?} {status}"));
            refused.iter().for_each(|status| assert!(said(asked, *status, "").is_some(), "{asked:?} {status}"));
        }
    }

    #[test]
    fn a_redirect_names_the_base_url_to_set() {
        for (location, end) in [
            ("https://api.example/v1/chat/completions", "set `base_url = \"https://api.example/v1\"`"),
            ("https://other.example:8443/v2/chat/completions", "set `base_url = \"https://other.example:8443/v2\"`"),
            ("/api/v1/chat/completions", "set `base_url = \"http://api.example/api/v1\"`"),
            ("//other.example/chat/completions", "set `base_url = \"http://other.example\"`"),
            ("/v1/chat/completions/", "it differs in nothing that `base_url` says"),
            ("https://login.example/sso", "to `https://login.example/sso`, and none is followed: is its `base_url` right?"),
            ("https://api.example/sk-own/v1/chat/completions", "set `base_url = \"https://api.example/[masked]/v1\"`"),
            ("mailto:someone", "to what is no URL of http, and none is followed: is its `base_url` right?"),
            ("http://[", "is its `base_url` right?"),
            ("", "that says not where to, and none is followed: is its `base_url` right?"),
        ] {
            let said = said(Asked::Answer, 308, location).unwrap();
            assert!(said.ends_with(end), "{location}: {said}");
        }
        let secret = said(Asked::Answer, 302, "https://user:pass@api.example/v1/chat/completions?key=sk-own&k=other#sk-own").unwrap();
        assert!(["sk-own", "pass", "other"].iter().all(|part| !secret.contains(part)), "{secret}");
    }
}
