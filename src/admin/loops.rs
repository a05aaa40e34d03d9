//! `POST /api/loops/reset`: resets loop control, so that stopped tools may be called again.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Deserialize;

use crate::{
    admin::responses::{self, invalid},
    proxy::{
        app::App,
        http::{body::Body, failure::Failure},
    },
};

/// Maximum bytes of the request.
const BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ResetRequest {
    tool: Option<String>,
    session: Option<String>,
}

/// Serves the request.
pub async fn reset(app: &Arc<App>, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
    super::query::Parameters::read(request.uri().query().unwrap_or_default(), &[])?;
    let Ok(body) = Limited::new(request.into_body(), BYTES_MAX).collect().await else {
        let message = format!("the body broke off, or is longer than {BYTES_MAX} bytes");
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message));
    };
    let body = body.to_bytes();
    let read = || {
        serde_json::from_slice::<ResetRequest>(&body)
            .map_err(|error| invalid("body", format!("{error}; write it like {{\"tool\": \"get_weather\"}}")))
    };
    let asked = if body.trim_ascii().is_empty() { ResetRequest::default() } else { read()? };
    app.reset_loops(asked.tool.as_deref(), asked.session.as_deref());
    tracing::info!(of_tool = asked.tool.is_some(), of_session = asked.session.is_some(), "loop control was reset");
    Ok(responses::json(&serde_json::json!({"reset": {"tool": asked.tool, "session": asked.session}})))
}
