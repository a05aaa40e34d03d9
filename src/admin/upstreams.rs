//! The upstreams: health, breaker, what their models can do, and the settings that matter for it.

use std::sync::Arc;

use http::Response;
use serde_json::{Value, json};

use super::{api::read_blocking, query::Parameters, responses};
use crate::proxy::{
    app::App,
    http::{body::Body, failure::Failure},
};

/// `GET /api/upstreams`
pub async fn upstreams(app: &Arc<App>, query: &str) -> Result<Response<Body>, Failure> {
    Parameters::read(query, &[])?;
    let own = app.clone();
    let report = read_blocking(move || Ok(own.observed.readiness.report())).await?;
    let states = report.details.get("upstreams").cloned().unwrap_or_default();
    let one = |upstream: &crate::settings::UpstreamSettings| {
        let mut view = json!({"name": upstream.name, "base_url": upstream.base_url});
        if let (Some(view), Some(Value::Object(state))) = (view.as_object_mut(), states.get(&*upstream.name)) {
            view.extend(state.clone());
        }
        view
    };
    let data: Vec<Value> = app.settings.upstreams.iter().map(one).collect();
    Ok(responses::json(&json!({"data": data, "part": report.parts.get("upstreams")})))
}
