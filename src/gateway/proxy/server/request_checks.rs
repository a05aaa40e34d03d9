//! Checks of every request before its body is read: header bounds, host, caller. Pure.

use http::{HeaderMap, StatusCode, header};

use crate::{
    config::host::canonical_host,
    proxy::{
        http::failure::{Failure, HEADER_BYTES_MAX, HEADERS_MAX},
        upstream::is_encoded,
    },
};

/// Refuses requests with too many or too long headers.
///
/// # Errors
/// 431 `headers_too_large`.
pub fn header_bounds(headers: &HeaderMap) -> Result<(), Failure> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEADER_BYTES_MAX || headers.len() > HEADERS_MAX {
        return Err(Failure::headers_too_large());
    }
    Ok(())
}

/// Refuses a compressed body: it would have to be unpacked to be judged. Source: RFC 9110, section 15.5.16.
///
/// # Errors
/// 415 `unsupported_encoding`.
pub fn plain_body(headers: &HeaderMap) -> Result<(), Failure> {
    if !is_encoded(headers) {
        return Ok(());
    }
    let message = "the request's body is compressed (`content-encoding`): send it as it is, toolmark doesn't unpack requests";
    Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", message))
}

/// Refuses on loopback what may be DNS rebinding: `Host` and `Origin` must be loopback names or allowed ones. `authority`:
/// that of the request target, if it has one.
///
/// # Errors
/// 403 `host_not_allowed`.
pub fn host(headers: &HeaderMap, authority: Option<&str>, allowed: &[String]) -> Result<(), Failure> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = authority.or_else(|| text(header::HOST));
    let origin_host = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or("?", |(_, rest)| rest));
    let hosts = host.into_iter().chain(origin_host).map(canonical_host);
    for host in hosts.filter(|host| !host.is_loopback()) {
        let name = host.to_string();
        if !allowed.contains(&name) {
            let message = format!("host `{name}` is not allowed: name it in `allowed_hosts` if toolmark stands behind it");
            return Err(Failure::new(StatusCode::FORBIDDEN, "host_not_allowed", message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (host_value, origin, fine) in [
            ("127.0.0.1:8787", None, true),
            ("localhost", Some("http://localhost:3000"), true),
            ("[::1]:8787", None, true),
            ("evil.example:8787", None, false),
            ("127.0.0.1.evil.example", None, false),
            ("localhost:8787", Some("https://evil.example"), false),
            ("localhost:8787", Some("null"), false),
            ("Proxy.Example", None, true),
            ("Proxy.Example.:8787", None, true),
            ("localhost.:8787", Some("http://localhost.:3000"), true),
            ("app.localhost", None, true),
            ("[::ffff:127.0.0.1]:8787", None, true),
            ("[::ffff:7f00:1]", Some("http://[::ffff:7f00:1]:3000"), true),
            ("[0:0:0:0:0:ffff:7f01:203]", None, true),
            ("::ffff:127.0.0.1", None, true),
            ("[::1%25lo]:8787", None, true),
            ("[::1%lo]", None, true),
            ("127.1:8787", None, true),
            ("2130706433", None, true),
            ("0x7f000001", None, true),
            ("0x7f.1:80", None, true),
            ("0177.0.0.1", None, true),
            ("127.0.0.1.", None, true),
            ("10.0.0.5:8787", None, true),
            ("[::ffff:10.0.0.5]:8787", None, true),
            ("[::ffff:a00:5]", None, true),
            ("[::ffff:8.8.8.8]", None, false),
            ("8.8.8.8", None, false),
            ("134744072", None, false),
            ("0", None, false),
            ("0.0.0.0", None, false),
            ("[::]", None, false),
            ("localhost.evil.example", None, false),
            ("127.0.0.1@evil.example", None, false),
            ("evil.example/127.1", None, false),
            ("evil.example#127.1", None, false),
            ("localhost..", None, false),
            ("xlocalhost", None, false),
            ("[evil.example]:80", None, false),
            ("", None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host_value.parse().unwrap());
            headers.extend(origin.map(|origin: &str| (header::ORIGIN, origin.parse().unwrap())));
            assert_eq!(host(&headers, None, &["proxy.example".to_owned(), "10.0.0.5".to_owned()]).is_ok(), fine, "{host_value} {origin:?}");
        }
    }
}
