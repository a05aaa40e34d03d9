//! `GET /`: the inspector, one page with one script and one style sheet, without external resources. Built from `web/` (see its package.json);
//! the built files are committed, so that building toolmark needs no Node.

use http::{HeaderValue, Response, StatusCode, header};

use crate::{admin::responses, proxy::http::body::Body};

const PAGE: &str = include_str!("web/dist/index.html");
const SCRIPT: &str = include_str!("web/dist/app.js");
const STYLESHEET: &str = include_str!("web/dist/app.css");

/// Content security policy: only toolmark's own script and style run, and only toolmark itself is contacted.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// A file of the page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PageFile {
    /// `GET /`
    Document,
    /// `GET /app.js`
    Script,
    /// `GET /app.css`
    Style,
}

/// The file. It contains no data: the script requests them, with the token if one is needed.
pub fn file(file: PageFile) -> Response<Body> {
    let (kind, text) = match file {
        PageFile::Document => ("text/html; charset=utf-8", PAGE),
        PageFile::Script => ("text/javascript; charset=utf-8", SCRIPT),
        PageFile::Style => ("text/css; charset=utf-8", STYLESHEET),
    };
    let mut response = responses::of(StatusCode::OK, kind, text);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_elsewhere() {
        for address in ["https://", "http://"] {
            // Namespaces of SVG and the like are names, not addresses.
            assert!(!PAGE.contains(address) && !STYLESHEET.contains(address), "{address}");
            assert!(SCRIPT.matches(address).count() == SCRIPT.matches("http://www.w3.org/").count() || address == "https://", "{address}");
        }
        assert!(!SCRIPT.contains("https://") && !SCRIPT.contains("eval(") && !SCRIPT.contains("document.write"));
        // One script and one style, and nothing inline.
        assert!(
            PAGE.matches("<script").count() == 1
                && PAGE.contains("src=\"./app.js\"")
                && !PAGE.contains("<style")
                && !PAGE.contains("style=")
        );
        assert!(!POLICY.contains("unsafe"));
    }

    #[test]
    fn it_is_small() {
        use std::io::Write as _;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        [PAGE, SCRIPT, STYLESHEET].iter().for_each(|file| packed.write_all(file.as_bytes()).unwrap());
        let bytes = packed.finish().unwrap().len();
        assert!(bytes <= 150 << 10, "{bytes} bytes, compressed");
    }
}
