//! Routes of the admin listener. Pure.

use http::{Method, StatusCode};

use super::{access::Role, dashboard::PageFile};
use crate::proxy::http::failure::Failure;

/// Resource that is requested.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AdminRoute {
    /// A file of the page: `GET /`, `/app.js`, `/app.css`
    Page(PageFile),
    /// `GET /healthz`
    Health,
    /// `GET /readyz`
    Ready,
    /// `GET /metrics`
    Metrics,
    /// `GET /api/executions`
    Executions,
    /// `GET /api/executions/{id}`
    Execution(String),
    /// `GET /api/violations`
    Violations,
    /// `GET /api/stats`
    Stats,
    /// `GET /api/exchanges/{id}`
    Exchange(String),
    /// `GET /api/events`
    Events,
    /// `POST /api/loops/reset`
    ResetLoops,
    /// `GET /api/exchanges`
    Exchanges,
    /// `GET /api/exchanges/{id}/timeline`
    Timeline(String),
    /// `GET /api/exchanges/{id}/cassette`
    Cassette(String),
    /// `GET /api/sessions`
    Sessions,
    /// `GET /api/sessions/{name}`
    Session(String),
    /// `GET /api/refusals`
    Refusals,
    /// `GET /api/failures`
    Failures,
    /// `GET /api/policy`
    Policy,
    /// `POST /api/policy/what-if`
    WhatIf,
    /// `GET /api/ledger`
    Ledger,
    /// `POST /api/ledger/verify`
    VerifyLedger,
    /// `GET /api/upstreams`
    Upstreams,
    /// `GET /api/whoami`
    WhoAmI,
    /// `GET /api/openapi.json`
    OpenApi,
}

impl AdminRoute {
    /// Role that this route needs.
    pub fn needs(&self) -> Role {
        match self {
            // They reveal nothing: the page is empty without data, and the probes of orchestrators send no token.
            Self::Page(_) | Self::Health | Self::Ready | Self::WhoAmI | Self::OpenApi => Role::Nobody,
            Self::Metrics
            | Self::Executions
            | Self::Execution(_)
            | Self::Violations
            | Self::Stats
            | Self::Exchange(_)
            | Self::Events
            | Self::Exchanges
            | Self::Timeline(_)
            | Self::Cassette(_)
            | Self::Sessions
            | Self::Session(_)
            | Self::Refusals
            | Self::Failures
            | Self::Policy
            | Self::Ledger
            | Self::Upstreams => Role::Read,
            Self::ResetLoops | Self::WhatIf | Self::VerifyLedger => Role::Admin,
        }
    }

    /// True if the route is asked for with `POST`.
    pub fn is_post(&self) -> bool {
        matches!(self, Self::ResetLoops | Self::WhatIf | Self::VerifyLedger)
    }
}

/// Finds the route.
///
/// # Errors
/// 404 `not_found`, 405 `method_not_allowed`.
pub fn route(method: &Method, path: &str) -> Result<AdminRoute, Failure> {
    let trimmed = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    let found = match trimmed.split('/').skip(1).collect::<Vec<_>>()[..] {
        [""] => AdminRoute::Page(PageFile::Document),
        ["app.js"] => AdminRoute::Page(PageFile::Script),
        ["app.css"] => AdminRoute::Page(PageFile::Style),
        ["healthz"] => AdminRoute::Health,
        ["readyz"] => AdminRoute::Ready,
        ["metrics"] => AdminRoute::Metrics,
        ["api", "executions"] => AdminRoute::Executions,
        ["api", "executions", id] => AdminRoute::Execution(id.to_owned()),
        ["api", "violations"] => AdminRoute::Violations,
        ["api", "stats"] => AdminRoute::Stats,
        ["api", "exchanges", id] => AdminRoute::Exchange(id.to_owned()),
        ["api", "events"] => AdminRoute::Events,
        ["api", "loops", "reset"] => AdminRoute::ResetLoops,
        ["api", "exchanges"] => AdminRoute::Exchanges,
        ["api", "exchanges", id, "timeline"] => AdminRoute::Timeline(id.to_owned()),
        ["api", "exchanges", id, "cassette"] => AdminRoute::Cassette(id.to_owned()),
        ["api", "sessions"] => AdminRoute::Sessions,
        ["api", "sessions", name] => AdminRoute::Session(decoded(name)),
        ["api", "refusals"] => AdminRoute::Refusals,
        ["api", "failures"] => AdminRoute::Failures,
        ["api", "policy"] => AdminRoute::Policy,
        ["api", "policy", "what-if"] => AdminRoute::WhatIf,
        ["api", "ledger"] => AdminRoute::Ledger,
        ["api", "ledger", "verify"] => AdminRoute::VerifyLedger,
        ["api", "upstreams"] => AdminRoute::Upstreams,
        ["api", "whoami"] => AdminRoute::WhoAmI,
        ["api", "openapi.json"] => AdminRoute::OpenApi,
        _ => return Err(Failure::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing here; known: {KNOWN}"))),
    };
    let post = found.is_post();
    let fits = if post { *method == Method::POST } else { matches!(*method, Method::GET | Method::HEAD) };
    if !fits {
        let message = format!("{method} isn't for this path: use {}", if post { "POST" } else { "GET" });
        return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
    }
    Ok(found)
}

/// A segment of a path without its percent-encoding.
fn decoded(segment: &str) -> String {
    // A plus is itself in a path.
    let query = segment.replace('+', "%2B");
    form_urlencoded::parse(query.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

const KNOWN: &str = "/, /healthz, /readyz, /metrics, /api/openapi.json and what it describes: /api/exchanges, /api/executions, \
                     /api/violations, /api/stats, /api/events …";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        for (method, path, found) in [
            (Method::GET, "/", Ok(AdminRoute::Page(PageFile::Document))),
            (Method::GET, "/app.js", Ok(AdminRoute::Page(PageFile::Script))),
            (Method::HEAD, "/healthz", Ok(AdminRoute::Health)),
            (Method::GET, "/metrics/", Ok(AdminRoute::Metrics)),
            (Method::GET, "/api/executions", Ok(AdminRoute::Executions)),
            (Method::GET, "/api/executions/a_1_b", Ok(AdminRoute::Execution("a_1_b".into()))),
            (Method::GET, "/api/exchanges/x", Ok(AdminRoute::Exchange("x".into()))),
            (Method::GET, "/api/exchanges/x/timeline", Ok(AdminRoute::Timeline("x".into()))),
            (Method::GET, "/api/sessions/a%2Fb%20c+d", Ok(AdminRoute::Session("a/b c+d".into()))),
            (Method::POST, "/api/policy/what-if", Ok(AdminRoute::WhatIf)),
            (Method::GET, "/api/ledger/verify", Err(405)),
            (Method::POST, "/api/loops/reset", Ok(AdminRoute::ResetLoops)),
            (Method::GET, "/api/loops/reset", Err(405)),
            (Method::POST, "/api/stats", Err(405)),
            (Method::GET, "/api", Err(404)),
            (Method::GET, "/api/executions/a/b", Err(404)),
            (Method::GET, "//", Err(404)),
            (Method::GET, "*", Err(404)),
        ] {
            assert_eq!(route(&method, path).map_err(|failure| failure.status.as_u16()), found, "{method} {path}");
        }
    }
}
