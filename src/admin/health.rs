//! Health, readiness and metrics.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Response, StatusCode, header};

use super::AdminState;
use crate::{
    admin::responses,
    proxy::{
        app::App,
        http::{body::Body, failure::Failure},
    },
    telemetry::metrics::exposition::{OPENMETRICS, TEXT},
};

/// Time limit for the parts' reports.
const DEADLINE: Duration = Duration::from_secs(5);

/// Parts of the answer to `GET /readyz`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadinessDetail {
    /// Only whether toolmark is ready.
    Ready,
    /// The report of each part.
    Parts,
}

/// `GET /readyz`.
pub async fn ready(state: &Arc<AdminState>, detail: ReadinessDetail) -> Result<Response<Body>, Failure> {
    let own = state.clone();
    let asking = tokio::task::spawn_blocking(move || own.app.observed.readiness.report());
    let Ok(Ok(report)) = tokio::time::timeout(DEADLINE, asking).await else {
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "a part doesn't say how it is"));
    };
    let ready = report.ready && !state.stop.is_cancelled();
    let mut response = match detail {
        ReadinessDetail::Parts => responses::json(&report),
        ReadinessDetail::Ready => responses::json(&serde_json::json!({"ready": ready})),
    };
    if !ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

/// `GET /metrics`: OpenMetrics if the client accepts it, else the older text format.
pub fn metrics(app: &App, headers: &HeaderMap) -> Response<Body> {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let openmetrics = accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("application/openmetrics-text"));
    let exposition = &app.observed.exposition;
    match openmetrics {
        true => responses::of(StatusCode::OK, OPENMETRICS, exposition.openmetrics()),
        false => responses::of(StatusCode::OK, TEXT, exposition.text()),
    }
}
