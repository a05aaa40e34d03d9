//! Who may see what: roles, bodies, and the audit log of every look at a body.

use std::net::SocketAddr;

use http::{HeaderMap, StatusCode, header};
use subtle::ConstantTimeEq as _;

use crate::{
    proxy::http::failure::Failure,
    settings::{AdminSettings, BodyReaders, Secret},
};

/// Role of a caller. Ordered: each may do what the ones before it may.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Neither token, where one is set.
    Nobody,
    /// Looks at everything but bodies, and changes nothing.
    Read,
    /// Also resets, verifies and tries policies.
    Admin,
}

impl Role {
    /// Name in answers and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

/// Caller of the admin listener.
#[derive(Clone, Copy, Debug)]
pub struct AdminCaller {
    /// Its role.
    pub role: Role,
    /// It may read bodies.
    pub reads_bodies: bool,
    /// Address that it calls from.
    pub peer: Option<SocketAddr>,
}

impl AdminCaller {
    /// Caller of a request with these headers. Where no token is set, everyone on loopback has the role `admin`, but bodies are closed
    /// unless the settings open them.
    pub fn of(settings: &AdminSettings, headers: &HeaderMap, peer: Option<SocketAddr>) -> Self {
        let own = settings.token.as_ref().is_some_and(|token| sends(headers, token));
        let reads = settings.read_token.as_ref().is_some_and(|token| sends(headers, token));
        let is_open = settings.token.is_none() && settings.read_token.is_none();
        let role = match (own || is_open, reads) {
            (true, _) => Role::Admin,
            (false, true) => Role::Read,
            (false, false) => Role::Nobody,
        };
        let everyone = settings.bodies == BodyReaders::Everyone && role >= Role::Read;
        Self { role, reads_bodies: own || everyone, peer }
    }

    /// Refuses a caller who may not read bodies.
    ///
    /// # Errors
    /// 403 `bodies_closed`.
    pub fn must_read_bodies(&self) -> Result<(), Failure> {
        if self.reads_bodies {
            return Ok(());
        }
        let message = "bodies are read with TOOLMARK_ADMIN_TOKEN only: set it and send it as `Authorization: Bearer …`, or set `[admin] bodies = \"everyone\"`";
        Err(Failure::new(StatusCode::FORBIDDEN, "bodies_closed", message))
    }

    /// Writes a look at bodies into the audit log. `exchange`: whose; empty for several.
    pub fn audit(&self, action: &str, exchange: &str) {
        let peer = self.peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string());
        tracing::info!(target: "toolmark::audit", action, exchange, role = self.role.as_str(), peer, "audit: {action} {exchange}");
    }
}

/// True if the request carries this token. Digests are compared, so that timing doesn't reveal the length either.
fn sends(headers: &HeaderMap, token: &Secret) -> bool {
    let value = headers.get(header::AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
    let sent = value.strip_prefix(b"Bearer ").or_else(|| value.strip_prefix(b"bearer ")).unwrap_or_default();
    let digest = |bytes: &[u8]| *blake3::hash(bytes).as_bytes();
    digest(sent.trim_ascii()).ct_eq(&digest(token.expose().as_bytes())).into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn roles_and_bodies() {
        let settings = |token: Option<&str>, read: Option<&str>, bodies| AdminSettings {
            listen: None,
            explicit: false,
            token: token.map(Secret::new),
            read_token: read.map(Secret::new),
            recent: 0,
            bodies,
        };
        let (closed, everyone) = (BodyReaders::Token, BodyReaders::Everyone);
        for (token, read, bodies, sent, role, reads_bodies) in [
            (None, None, closed, None, Role::Admin, false),
            (None, None, everyone, None, Role::Admin, true),
            (Some("a"), Some("r"), closed, None, Role::Nobody, false),
            (Some("a"), Some("r"), everyone, None, Role::Nobody, false),
            (Some("a"), Some("r"), closed, Some("a"), Role::Admin, true),
            (Some("a"), Some("r"), closed, Some("r"), Role::Read, false),
            (Some("a"), Some("r"), everyone, Some("r"), Role::Read, true),
            (Some("a"), Some("r"), closed, Some("x"), Role::Nobody, false),
            (None, Some("r"), closed, Some("r"), Role::Read, false),
            (None, Some("r"), closed, None, Role::Nobody, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(sent) = sent {
                headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {sent}")).unwrap());
            }
            let caller = AdminCaller::of(&settings(token, read, bodies), &headers, None);
            assert_eq!((caller.role, caller.reads_bodies), (role, reads_bodies), "{token:?} {read:?} {bodies:?} {sent:?}");
            assert_eq!(caller.must_read_bodies().is_ok(), reads_bodies);
        }
    }
}
