//! Routes of the admin listener. Pure.

use http::{Method, StatusCode};

use crate::proxy::http::failure::Failure;

/// Resource that is requested.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AdminRoute {
    /// `GET /`
    Page,
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
}

/// Access to a route without the token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Allowed: it reveals nothing. The dashboard's page is empty without data, and the probes of orchestrators send no token.
    Yes,
    /// Refused.
    No,
}

impl AdminRoute {
    /// Access to this route without the token.
    pub fn open(&self) -> Access {
        match self {
            Self::Page | Self::Health | Self::Ready => Access::Yes,
            Self::Metrics
            | Self::Executions
            | Self::Execution(_)
            | Self::Violations
            | Self::Stats
            | Self::Exchange(_)
            | Self::Events
            | Self::ResetLoops => Access::No,
        }
    }
}

/// Finds the route.
///
/// # Errors
/// 404 `not_found`, 405 `method_not_allowed`.
pub fn route(method: &Method, path: &str) -> Result<AdminRoute, Failure> {
    let trimmed = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    let found = match trimmed.split('/').skip(1).collect::<Vec<_>>()[..] {
        [""] => AdminRoute::Page,
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
        _ => return Err(Failure::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing here; known: {KNOWN}"))),
    };
    let post = found == AdminRoute::ResetLoops;
    let fits = if post { *method == Method::POST } else { matches!(*method, Method::GET | Method::HEAD) };
    if !fits {
        let message = format!("{method} isn't for this path: use {}", if post { "POST" } else { "GET" });
        return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
    }
    Ok(found)
}

const KNOWN: &str = "/, /healthz, /readyz, /metrics, /api/executions, /api/executions/{id}, /api/violations, /api/stats, \
                     /api/exchanges/{id}, /api/events, POST /api/loops/reset";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        for (method, path, found) in [
            (Method::GET, "/", Ok(AdminRoute::Page)),
            (Method::HEAD, "/healthz", Ok(AdminRoute::Health)),
            (Method::GET, "/metrics/", Ok(AdminRoute::Metrics)),
            (Method::GET, "/api/executions", Ok(AdminRoute::Executions)),
            (Method::GET, "/api/executions/a_1_b", Ok(AdminRoute::Execution("a_1_b".into()))),
            (Method::GET, "/api/exchanges/x", Ok(AdminRoute::Exchange("x".into()))),
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
