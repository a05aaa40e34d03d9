//! What passes through untouched: models, embeddings, audio, files. Bodies are streamed both ways.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};

use super::{
    body::Body,
    client::Outgoing,
    reply::{self, Failure},
    server::Worker,
    stage, upstream,
};
use crate::wire::json::Document;

/// Bytes of one upstream's list of models.
const MODELS_BYTES_MAX: usize = 16 << 20;

/// Passes a request on to the first upstream.
pub async fn pass(worker: Arc<Worker>, rest: String, request: Request<hyper::body::Incoming>) -> Response<Body> {
    let merged = rest == "/models" && worker.endpoints.len() > 1;
    let sent = if merged { models(&worker, &request).await } else { through(&worker, &rest, request).await };
    sent.unwrap_or_else(|failure| failure.response())
}

async fn through(worker: &Worker, rest: &str, request: Request<hyper::body::Incoming>) -> Result<Response<Body>, Failure> {
    let (parts, body) = request.into_parts();
    // Of the lists, the one that serves the model answers for it; all else names none.
    let named = rest.strip_prefix("/models/").map(|model| worker.endpoint_for(model)).transpose()?;
    let endpoint = worker.endpoints.get(named.unwrap_or(0)).ok_or_else(|| Failure::unreachable("upstream"))?;
    let wrong = || Failure::new(StatusCode::BAD_REQUEST, "invalid_path", "the path can't be passed on");
    let target = endpoint.target(rest, parts.uri.query()).ok_or_else(wrong)?;
    let mut headers = endpoint.headers(&parts.headers, worker.app.settings.clients.is_empty());
    // Nothing is read here, so what the client can decode may come encoded.
    if let Some(encodings) = parts.headers.get(header::ACCEPT_ENCODING) {
        headers.insert(header::ACCEPT_ENCODING, encodings.clone());
    }
    let empty = matches!(parts.method, Method::GET | Method::DELETE) && parts.headers.get(header::CONTENT_LENGTH).is_none();
    let body = if empty { Outgoing::Whole(Bytes::new()) } else { Outgoing::Pass(body) };
    let (body, played) = match worker.app.cassettes.player(named.unwrap_or(0)) {
        Some(player) => stage::passed(player, &parts.method, rest, body, worker.app.settings.limits.request_bytes).await?,
        None => (body, None),
    };
    let response = match played {
        Some(played) => played,
        None => endpoint.send(parts.method, target, headers, body).await?,
    };
    let (status, headers) = (response.status(), upstream::downstream_headers(response.headers(), false));
    let mut passed = Response::new(match endpoint.own_key().filter(|_| !status.is_success()) {
        // An error may quote the key that it was called with.
        Some(key) => Body::Whole(crate::exchange::error::masked(endpoint.read(response, upstream::ERROR_BYTES_MAX).await?, key)),
        None => Body::Pass(response.into_body()),
    });
    *passed.status_mut() = status;
    *passed.headers_mut() = headers;
    if matches!(passed.body(), Body::Whole(_)) {
        passed.headers_mut().remove(header::CONTENT_LENGTH);
    }
    Ok(passed)
}

/// The lists of all upstreams in one: of each upstream what it serves here.
async fn models(worker: &Worker, request: &Request<hyper::body::Incoming>) -> Result<Response<Body>, Failure> {
    let (mut listed, mut failure) = (Vec::new(), None);
    for (at, endpoint) in worker.endpoints.iter().enumerate() {
        if worker.app.cassettes.player(at).is_some() {
            continue;
        }
        let Some(target) = endpoint.target("/models", request.uri().query()) else { continue };
        let mut headers = endpoint.headers(request.headers(), worker.app.settings.clients.is_empty());
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let got = match endpoint.send(Method::GET, target, headers, Outgoing::Whole(Bytes::new())).await {
            Ok(response) if response.status().is_success() => endpoint.read(response, MODELS_BYTES_MAX).await,
            Ok(response) => {
                Err(Failure::protocol(&endpoint.settings.name, format_args!("its list of models came with status {}", response.status())))
            }
            Err(error) => Err(error.into()),
        };
        let document = match got.map(Document::parse) {
            Ok(Ok(document)) => document,
            Ok(Err(error)) => {
                failure = Some(Failure::protocol(&endpoint.settings.name, error));
                continue;
            }
            Err(error) => {
                failure = Some(error);
                continue;
            }
        };
        for model in document.root().get("data").into_iter().flat_map(|data| data.items().collect::<Vec<_>>()) {
            let id = model.get("id").and_then(|id| id.text()).unwrap_or_default();
            if worker.endpoint_for(&id).is_ok_and(|serving| serving == at) {
                listed.push(model.raw_str().to_owned());
            }
        }
    }
    match failure {
        Some(failure) if listed.is_empty() => Err(failure),
        _ => Ok(reply::json(StatusCode::OK, format!(r#"{{"object":"list","data":[{}]}}"#, listed.join(",")))),
    }
}
