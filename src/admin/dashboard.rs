//! `GET /`: the dashboard, one page without external resources.

use std::sync::OnceLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::{admin::responses, proxy::http::body::Body};

const PAGE: &str = include_str!("page.html");

/// The page. It contains no data: its script requests them, with the token if one is needed.
pub fn page() -> Response<Body> {
    static POLICY: OnceLock<Option<HeaderValue>> = OnceLock::new();
    let mut response = responses::of(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let headers = response.headers_mut();
    if let Some(policy) = POLICY.get_or_init(|| HeaderValue::from_str(&policy()).ok()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    }
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Content security policy: only this script and this style run, identified by their digests, and only toolmark itself is contacted.
fn policy() -> String {
    let digest = |tag: &str| STANDARD.encode(Sha256::digest(inside(tag)));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        digest("script"),
        digest("style")
    )
}

fn inside(tag: &str) -> &'static str {
    let after = PAGE.split_once(&format!("<{tag}>")).map_or("", |(_, after)| after);
    after.split_once(&format!("</{tag}>")).map_or("", |(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_elsewhere() {
        for word in ["http://", "https://", "src=", "innerHTML", "insertAdjacent", "document.write", "eval(", "onclick=", "style=\""] {
            assert!(!PAGE.contains(word), "{word}");
        }
        for tag in ["script", "style"] {
            assert!(PAGE.matches(&format!("<{tag}")).count() == 1 && !inside(tag).is_empty(), "{tag}");
        }
        let policy = page().headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    }
}
