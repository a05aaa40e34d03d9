//! One worker: the state that all share, and its own connections to upstreams.

use std::sync::Arc;

use http::StatusCode;

use crate::proxy::{
    app::App,
    http::failure::Failure,
    upstream::{
        Endpoint,
        candidates::{Candidate, candidates},
    },
};

/// One worker.
pub struct Worker {
    /// State shared by all workers.
    pub app: Arc<App>,
    /// The worker's own endpoint for each upstream.
    pub endpoints: Vec<Endpoint>,
}

impl Worker {
    /// Upstreams that may answer for a model, the one that serves it first.
    ///
    /// # Errors
    /// 404 `model_not_found`.
    pub fn candidates(&self, model: &str) -> Result<Vec<Candidate>, Failure> {
        let found = candidates(&self.app.settings.upstreams, model);
        if found.is_empty() { Err(unserved(model)) } else { Ok(found) }
    }

    /// Index of the upstream that serves a model: the first whose globs match. An empty name goes to the first upstream.
    ///
    /// # Errors
    /// 404 `model_not_found`.
    pub fn endpoint_for(&self, model: &str) -> Result<usize, Failure> {
        let serves = |endpoint: &Endpoint| model.is_empty() || endpoint.settings.serves(model);
        self.endpoints.iter().position(serves).ok_or_else(|| unserved(model))
    }
}

fn unserved(model: &str) -> Failure {
    let message = format!(
        "no upstream serves the model `{model}`: GET /v1/models lists the models that are served; `models` in `[[upstreams]]` decides which those are"
    );
    Failure { param: Some("model".to_owned()), ..Failure::new(StatusCode::NOT_FOUND, "model_not_found", message) }
}
