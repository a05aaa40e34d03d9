//! Names of hosts, in settings and requests. Pure.

use std::net::IpAddr;

use url::Url;

/// Host in canonical spelling for comparison: lower case, without port, brackets and zone, an address in its normal form.
///
/// Addresses are read as browsers read them (WHATWG URL, "IPv4 parser"): `127.1`, `0x7f000001` and `2130706433` are 127.0.0.1, and so
/// is `[::ffff:7f00:1]`.
pub fn canonical_host(authority: &str) -> String {
    let text = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        // A bare IPv6 address has more colons than one.
        None if authority.matches(':').count() > 1 => authority,
        None => authority.split(':').next().unwrap_or_default(),
    };
    let text = text.split('%').next().unwrap_or_default();
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let numeric = || {
        // Only what ends in a number is an address, not a name.
        let last = name.rsplit('.').next().unwrap_or_default();
        if !last.starts_with(|c: char| c.is_ascii_digit()) || name.contains(['/', '?', '#', '@', '\\']) {
            return None;
        }
        Url::parse(&format!("http://{name}/")).ok()?.host_str()?.parse::<IpAddr>().ok()
    };
    match name.parse::<IpAddr>().ok().or_else(numeric) {
        Some(ip) => ip.to_canonical().to_string(),
        None => name,
    }
}
