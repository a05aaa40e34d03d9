//! Credentials in a request: headers and query parameters. Pure.
//!
//! A caller's credential goes only to the upstream that the request was routed to; it also separates one caller's marks
//! from another's. Other upstreams get an allowlist of headers and parameters, because credentials can't be enumerated.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{cassette::redact::patterns::is_credential_header, marks::Scope};

/// Headers in which providers and gateways accept a key.
const HEADERS: [&str; 8] = [
    "authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "ocp-apim-subscription-key",
    "cf-aig-authorization",
    "x-portkey-api-key",
    "x-auth-token",
];
/// Query parameters in which providers and gateways accept a key.
const PARAMETERS: [&str; 8] = ["key", "api_key", "api-key", "apikey", "access_token", "subscription-key", "token", "auth"];
/// Headers that describe the request and carry no credential.
const PLAIN_HEADERS: [&str; 13] = [
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "content-language",
    "idempotency-key",
    "openai-beta",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-client-request-id",
    "x-request-id",
];

/// True for a header that carries a credential, cookies included.
pub fn is_credential(name: &HeaderName) -> bool {
    HEADERS.contains(&name.as_str()) || *name == header::COOKIE
}

/// True for a header that may go to an upstream that the request wasn't routed to.
pub fn is_plain(name: &HeaderName) -> bool {
    PLAIN_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("x-stainless-")
}

/// The query without credentials; `None` if nothing is left.
pub fn without_credentials(query: &str) -> Option<String> {
    kept(query, |name| !is_parameter(name))
}

/// The part of the query that may go to an upstream that the request wasn't routed to: the API version (Azure).
pub fn plain_query(query: &str) -> Option<String> {
    kept(query, |name| name.eq_ignore_ascii_case("api-version"))
}

fn is_parameter(name: &str) -> bool {
    PARAMETERS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Query parameters whose names `keeps` accepts, as they were written; `None` if there is none.
fn kept(query: &str, keeps: impl Fn(&str) -> bool) -> Option<String> {
    let name = |pair: &str| form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.trim().to_owned()).unwrap_or_default();
    let pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && keeps(&name(pair))).collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

/// Scope for the marks of a caller that isn't in `[[clients]]`: its credential, or all of them together if it sends several.
///
/// A cookie isn't part of a scope: browsers send the cookies of every program on a host, and cookies change with each visit.
pub fn scope(headers: &HeaderMap, query: Option<&str>) -> Scope {
    let mut sent = sent(headers, query, |name| HEADERS.contains(&name));
    if sent.is_empty() {
        // A gateway's own, as `x-company-auth`.
        let own = |name: &str| is_credential_header(name) && !["cookie", "csrf", "xsrf", "toolmark"].iter().any(|part| name.contains(part));
        sent = self::sent(headers, None, own);
    }
    match &sent[..] {
        [] => Scope::anonymous(),
        // Its name doesn't matter.
        [(name, value)] if name == "authorization" => Scope::credential(value),
        several => {
            let mut joined = Vec::new();
            for part in several.iter().flat_map(|(name, value)| [name.as_bytes(), value]) {
                joined.extend_from_slice(&(part.len() as u64).to_le_bytes());
                joined.extend_from_slice(part);
            }
            Scope::credential(&joined)
        }
    }
}

/// The one credential of a request that has no other: its `Authorization` header.
pub fn only<'h>(headers: &'h HeaderMap, query: Option<&str>) -> Option<&'h HeaderValue> {
    let only = headers.get(header::AUTHORIZATION).filter(|own| query.is_none() && !own.as_bytes().trim_ascii().is_empty())?;
    // Each value of a name counts.
    let count = headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())).count();
    (count == 1).then_some(only)
}

/// Names and values of the credentials, in an order that doesn't depend on how they were sent.
fn sent(headers: &HeaderMap, query: Option<&str>, counts: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let of_headers = headers.iter().filter(|(name, value)| counts(name.as_str()) && !value.as_bytes().trim_ascii().is_empty());
    let mut sent: Vec<(String, Vec<u8>)> = of_headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let pairs = pairs.filter(|(name, value)| is_parameter(name.trim()) && !value.is_empty());
    sent.extend(pairs.map(|(name, value)| (format!("?{}", name.trim().to_ascii_lowercase()), value.into_owned().into_bytes())));
    sent.sort_unstable();
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&'static str, &'static str)], query: Option<&str>) -> Scope {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        scope(&headers, query)
    }

    #[test]
    fn any_credential_makes_a_scope_and_none_is_anonymous() {
        let mut seen: Vec<(String, Scope)> = vec![("none".into(), Scope::anonymous())];
        for name in HEADERS {
            for value in ["secret-a", "secret-b"] {
                let scope = of(&[(name, value)], None);
                seen.iter().for_each(|(other, known)| assert!(*known != scope, "{name}: {value} is {other}"));
                seen.push((format!("{name}: {value}"), scope));
            }
        }
        for query in ["key=a", "key=b", "api_key=a", "access_token=a", "x=1&key=c"] {
            let scope = of(&[], Some(query));
            seen.iter().for_each(|(other, known)| assert!(*known != scope, "{query} is {other}"));
            seen.push((query.into(), scope));
        }
        for (headers, query) in [
            (&[("authorization", "Bearer same"), ("x-api-key", "a")][..], None),
            (&[("authorization", "Bearer same"), ("x-api-key", "b")], None),
            (&[("authorization", "Bearer same")], Some("key=a2")),
            (&[("x-company-auth", "a")], None),
            (&[("x-company-auth", "b")], None),
        ] {
            let scope = of(headers, query);
            assert!(seen.iter().all(|(_, known)| *known != scope), "{headers:?} {query:?}");
            seen.push((String::new(), scope));
        }
        assert_eq!(of(&[("authorization", "Bearer x")], None), Scope::credential(b"Bearer x"), "as it was before");
        assert_eq!(of(&[("authorization", "Bearer x"), ("x-csrf-token", "1")], Some("api-version=2")), Scope::credential(b"Bearer x"));
        for anonymous in [&[][..], &[("cookie", "a=b")], &[("x-csrf-token", "1")], &[("authorization", " ")], &[("x-request-id", "7")]] {
            assert_eq!(of(anonymous, Some("api-version=1&key=")), Scope::anonymous(), "{anonymous:?}");
        }
    }

    #[test]
    fn the_only_credential() {
        let only = |sent: &[(&'static str, &'static str)], query| {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.append(*name, value.parse().unwrap());
            }
            self::only(&headers, query).cloned()
        };
        let own = ("authorization", "Bearer x");
        for also in [&[][..], &[("accept", "*/*"), ("cookie", "a=b"), ("x-company-auth", "c")]] {
            assert_eq!(only(&[&[own], also].concat(), None).unwrap(), "Bearer x", "{also:?}");
        }
        for others in
            [&[][..], &[("authorization", " ")], &[own, own], &[own, ("x-api-key", "a")], &[own, ("api-key", "")], &[("x-api-key", "a")]]
        {
            assert_eq!(only(others, None), None, "{others:?}");
        }
        assert_eq!(only(&[own], Some("key=a")), None);
    }

    #[test]
    fn queries() {
        for (query, without, plain) in [
            ("key=s", None, None),
            ("api-version=1&key=s", Some("api-version=1"), Some("api-version=1")),
            ("a=%26b&KEY=s&c", Some("a=%26b&c"), None),
            ("k%65y=s&%61pi_key=t", None, None),
            ("limit=5&&after=x", Some("limit=5&after=x"), None),
            ("", None, None),
        ] {
            assert_eq!((without_credentials(query).as_deref(), plain_query(query).as_deref()), (without, plain), "{query}");
        }
    }
}
