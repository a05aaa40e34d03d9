//! What is checked of every request before its body is read: header bounds, host, caller. Pure.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::reply::Failure;

/// Bytes of all header lines together; OpenAI documents 64 KiB.
pub const HEADER_BYTES_MAX: usize = 64 << 10;
/// Header lines; as many as hyper has room for without asking for memory.
pub const HEADERS_MAX: usize = 100;

/// Refuses header floods.
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

/// On loopback, refuses requests that a browser was tricked into: `Host` and `Origin` must be loopback's own
/// names or allowed ones (DNS rebinding). `authority`: the request target's, where it has one.
///
/// # Errors
/// 403 `host_not_allowed`.
pub fn host(headers: &HeaderMap, authority: Option<&str>, allowed: &[String]) -> Result<(), Failure> {
    let text = |value: &HeaderValue| value.to_str().unwrap_or("?").to_owned();
    let host = authority.map(str::to_owned).or_else(|| headers.get(header::HOST).map(text));
    let origin = headers.get(header::ORIGIN).map(text);
    let origin_host = origin.as_deref().map(|origin| origin.split_once("://").map_or("?", |(_, rest)| rest));
    for name in host.as_deref().into_iter().chain(origin_host) {
        let name = host_name(name);
        if !is_loopback(&name) && !allowed.contains(&name) {
            let message = format!("host `{name}` is not allowed: name it in `allowed_hosts` if toolmark stands behind it");
            return Err(Failure::new(StatusCode::FORBIDDEN, "host_not_allowed", message));
        }
    }
    Ok(())
}

/// Without the port, in lower case.
fn host_name(authority: &str) -> String {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn is_loopback(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
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
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host_value.parse().unwrap());
            headers.extend(origin.map(|origin: &str| (header::ORIGIN, origin.parse().unwrap())));
            assert_eq!(host(&headers, None, &["proxy.example".to_owned()]).is_ok(), fine, "{host_value} {origin:?}");
        }
    }
}
