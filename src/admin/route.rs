//! Routes of the admin listener. Pure.

use http::{Method, StatusCode};

use crate::proxy::http::failure::Failure;

/// Resource that is requested.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Route {
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
pub enum Open {
    /// Allowed: it reveals nothing. The dashboard's page is empty without data, and the probes of orchestrators send no token.
    Yes,
    /// Refused.
    No,
}

impl Route {
    /// Access to this route without the token.
    pub fn open(&self) -> Open {
        match self {
            Self::Page | Self::Health | Self::Ready => Open::Yes,
            Self::Metrics
            | Self::Executions
            | Self::Execution(_)
            | Self::Violations
            | Self::Stats
            | Self::Exchange(_)
            | Self::Events
            | Self::ResetLoops => Open::No,
        }
    }
}

/// Finds the route.
///
/// # Errors
/// 404 `not_found`, 405 `method_not_allowed`.
pub fn route(method: &Method, path: &str) -> Result<Route, Failure> {
    let trimmed = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    let found = match trimmed.split('/').skip(1).collect::<Vec<_>>()[..] {
        [""] => Route::Page,
        ["healthz"] => Route::Health,
        ["readyz"] => Route::Ready,
        ["metrics"] => Route::Metrics,
        ["api", "executions"] => Route::Executions,
        ["api", "executions", id] => Route::Execution(id.to_owned()),
        ["api", "violations"] => Route::Violations,
        ["api", "stats"] => Route::Stats,
        ["api", "exchanges", id] => Route::Exchange(id.to_owned()),
        ["api", "events"] => Route::Events,
        ["api", "loops", "reset"] => Route::ResetLoops,
        _ => return Err(Failure::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing here; known: {KNOWN}"))),
    };
    let post = found == Route::ResetLoops;
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
            (Method::GET, "/", Ok(Route::Page)),
            (Method::HEAD, "/healthz", Ok(Route::Health)),
            (Method::GET, "/metrics/", Ok(Route::Metrics)),
            (Method::GET, "/api/executions", Ok(Route::Executions)),
            (Method::GET, "/api/executions/a_1_b", Ok(Route::Execution("a_1_b".into()))),
            (Method::GET, "/api/exchanges/x", Ok(Route::Exchange("x".into()))),
            (Method::POST, "/api/loops/reset", Ok(Route::ResetLoops)),
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
