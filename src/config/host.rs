//! Names of hosts, in settings and requests. Pure.

use std::{fmt, net::IpAddr};

use url::Url;

/// A host as it is compared: without port, brackets and zone. Shown in its canonical spelling.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CanonicalHost {
    /// An address in its normal form.
    Address(IpAddr),
    /// A name, in lower case.
    Name(String),
}

impl CanonicalHost {
    /// True for loopback's addresses and names.
    #[inline]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

impl fmt::Display for CanonicalHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The host of an authority, for comparison.
///
/// Addresses are read as browsers read them (WHATWG URL, "IPv4 parser"): `127.1`, `0x7f000001` and `2130706433` are 127.0.0.1, and so
/// is `[::ffff:7f00:1]`.
// Compiled where it is used: each exchange asks, and this package isn't optimised in a quick build.
#[inline]
pub fn canonical_host(authority: &str) -> CanonicalHost {
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
        Some(address) => CanonicalHost::Address(address.to_canonical()),
        None => CanonicalHost::Name(name),
    }
}
