//! `probe_hosts`: hosts that `[[state]]` may query over HTTP. Other hosts are never queried, nor are names that resolve to an address of
//! this machine or link, unless the address itself is listed.

use std::net::IpAddr;

use super::{ConfigError, sources::SettingsSources};

/// One of `probe_hosts`.
#[derive(Clone, Debug, Eq, PartialEq)]
struct ProbeHost {
    /// Host name in lower case; an IPv6 address in brackets.
    host: Box<str>,
    /// Port; `None`: the default port of the scheme.
    port: Option<u16>,
}

/// Hosts that `[[state]]` may query over HTTP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProbeHosts(Vec<ProbeHost>);

impl ProbeHosts {
    /// Returns whether this host and port are listed.
    pub fn names(&self, host: &str, port: u16) -> bool {
        self.0.iter().any(|own| *own.host == *host && own.port.map_or(matches!(port, 80 | 443), |own| own == port))
    }

    /// Returns whether the host named `host` may be queried at this address.
    pub fn allows(&self, host: &str, address: IpAddr) -> bool {
        let is = |own: &ProbeHost| own.host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|own| unmapped(own) == unmapped(address));
        let local = host == "localhost" || host.ends_with(".localhost");
        !is_inner(address) || (local && unmapped(address).is_loopback()) || self.0.iter().any(is)
    }
}

/// Returns whether this is an address of this machine or link, or not an address of a host, in any notation.
fn is_inner(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified() || v6.is_multicast(),
    }
}

/// The IPv4 address in an IPv6 one: mapped, compatible, NAT64 (RFC 6052), 6to4 (RFC 3056); otherwise the address itself.
fn unmapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if v6.is_loopback() || v6.is_unspecified() {
        return address;
    }
    let parts = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::from([a, b, c, d])
    };
    match parts {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

pub(super) fn validate(sources: &SettingsSources<'_>, hosts: &[String]) -> Result<ProbeHosts, ConfigError> {
    let host = |(index, text): (usize, &String)| {
        let wrong = || {
            let message = format!("`{text}` is no host: write it like \"tasks.example.com\", \"127.0.0.1:9000\" or \"[::1]:9000\"");
            sources.fault(&format!("probe_hosts.{index}"), message)
        };
        let url = url::Url::parse(&format!("http://{text}/")).map_err(|_| wrong())?;
        let plain =
            url.path() == "/" && url.query().is_none() && url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let name = url.host_str().filter(|_| plain && !text.contains(['/', '?', '#', '@'])).ok_or_else(wrong)?;
        // Port 80 is what a URL of this scheme doesn't say.
        let port = url.port().or_else(|| text.ends_with(":80").then_some(80));
        Ok(ProbeHost { host: name.into(), port })
    };
    hosts.iter().enumerate().map(host).collect::<Result<_, _>>().map(ProbeHosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[(&str, Option<u16>)]) -> ProbeHosts {
        ProbeHosts(names.iter().map(|(host, port)| ProbeHost { host: (*host).into(), port: *port }).collect())
    }

    #[test]
    fn only_what_is_named_is_asked() {
        let hosts = hosts(&[("tasks.example.com", None), ("127.0.0.1", Some(9000))]);
        for (host, port, named) in [
            ("tasks.example.com", 443, true),
            ("tasks.example.com", 80, true),
            ("tasks.example.com", 8080, false),
            ("example.com", 443, false),
            ("tasks.example.com.evil.net", 443, false),
            ("127.0.0.1", 9000, true),
            ("127.0.0.1", 80, false),
        ] {
            assert_eq!(hosts.names(host, port), named, "{host}:{port}");
        }
    }

    #[test]
    fn a_name_never_leads_to_this_machine_or_link() {
        let hosts = hosts(&[("tasks.example.com", None), ("169.254.169.253", None), ("localhost", None)]);
        for (address, allowed) in [
            ("93.184.215.14", true),
            ("10.0.0.7", true),
            ("2606:2800:21f::1", true),
            ("127.0.0.1", false),
            ("127.8.8.8", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("169.254.169.253", true),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("::ffff:127.0.0.1", false),
            ("::127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("::ffff:93.184.215.14", true),
        ] {
            assert_eq!(hosts.allows("tasks.example.com", address.parse().unwrap()), allowed, "{address}");
        }
        assert!(hosts.allows("localhost", "127.0.0.1".parse().unwrap()) && !hosts.allows("localhost", "169.254.0.1".parse().unwrap()));
    }
}
