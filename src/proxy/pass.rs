//! What passes through untouched: models, embeddings, audio, files. Bodies are streamed both ways.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use super::{
    body::Body,
    client::Outgoing,
    load::Held,
    reply::{self, Failure},
    server::Worker,
    stage,
    status::Asked,
    upstream::{self, Endpoint},
};
use crate::{
    settings::{Credential, Upstream},
    wire::{
        json::{Document, Value},
        text::quote,
    },
};

/// Bytes of one upstream's list of models.
const MODELS_BYTES_MAX: usize = 16 << 20;
/// How long a list may take where others wait for it.
const LIST_TIME_MAX: Duration = Duration::from_secs(10);

/// Passes a request on to the first upstream.
pub async fn pass(worker: Arc<Worker>, rest: String, request: Request<hyper::body::Incoming>, held: Held) -> Response<Body> {
    let merged = rest == "/models" && worker.endpoints.len() > 1;
    let sent = if merged { models(&worker, &request).await } else { through(&worker, &rest, request, held).await };
    sent.unwrap_or_else(|failure| failure.response())
}

async fn through(worker: &Worker, rest: &str, request: Request<hyper::body::Incoming>, held: Held) -> Result<Response<Body>, Failure> {
    let (parts, body) = request.into_parts();
    // Of the lists, the one that serves the model answers for it; all else names none.
    let named = rest.strip_prefix("/models/").map(|model| worker.endpoint_for(model)).transpose()?;
    let endpoint = worker.endpoints.get(named.unwrap_or(0)).ok_or_else(|| Failure::unreachable("upstream"))?;
    let wrong = || Failure::new(StatusCode::BAD_REQUEST, "invalid_path", "the path can't be passed on");
    let target = endpoint.target(rest, parts.uri.query()).ok_or_else(wrong)?;
    let asked = Asked::passed(&parts.method, &parts.headers);
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
    endpoint.usable(asked, rest, &response)?;
    let (status, headers) = (response.status(), upstream::downstream_headers(response.headers(), false));
    let mut passed = Response::new(match endpoint.own_key().filter(|_| !status.is_success()) {
        // An error may quote the key that it was called with.
        Some(key) => Body::Whole(crate::exchange::error::masked(endpoint.read(response, upstream::ERROR_BYTES_MAX).await?, key)),
        None => Body::Pass(response.into_body(), held),
    });
    *passed.status_mut() = status;
    *passed.headers_mut() = headers;
    if matches!(passed.body(), Body::Whole(_)) {
        passed.headers_mut().remove(header::CONTENT_LENGTH);
    }
    Ok(passed)
}

/// The lists of all upstreams in one: of each upstream what it serves here. All are asked at once.
async fn models(worker: &Worker, request: &Request<hyper::body::Incoming>) -> Result<Response<Body>, Failure> {
    let own_keys = worker.app.settings.clients.is_empty();
    let by_caller = |endpoint: &Endpoint| endpoint.settings.credential == Credential::Caller;
    // A caller's key is for one upstream: no other is shown it for a list.
    let meant = worker.endpoints.iter().position(by_caller);
    let lists = worker.endpoints.iter().enumerate().map(|(at, endpoint)| async move {
        if worker.app.cassettes.player(at).is_some() {
            return Ok(Vec::new());
        }
        if by_caller(endpoint) && own_keys && meant != Some(at) {
            return Ok(named(&endpoint.settings));
        }
        let mut headers = endpoint.headers(request.headers(), own_keys);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let listing = list(worker, at, endpoint, headers, request.uri().query());
        let late = || Failure::timeout(&endpoint.settings.name, "its list of models didn't come");
        tokio::time::timeout(LIST_TIME_MAX, listing).await.unwrap_or_else(|_| Err(late()))
    });
    let (mut listed, mut failure) = (Vec::new(), None);
    for list in futures_util::future::join_all(lists).await {
        match list {
            Ok(models) => listed.extend(models),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(failure) if listed.is_empty() => Err(failure),
        _ => Ok(reply::json(StatusCode::OK, format!(r#"{{"object":"list","data":[{}]}}"#, listed.join(",")))),
    }
}

/// What one upstream lists, and serves here.
async fn list(worker: &Worker, at: usize, endpoint: &Endpoint, headers: HeaderMap, query: Option<&str>) -> Result<Vec<String>, Failure> {
    let name = &endpoint.settings.name;
    let Some(target) = endpoint.target("/models", query) else { return Ok(Vec::new()) };
    let response = endpoint.send(Method::GET, target, headers, Outgoing::Whole(Bytes::new())).await?;
    endpoint.usable(Asked::Answer, "/models", &response)?;
    if !response.status().is_success() {
        return Err(Failure::protocol(name, format_args!("its list of models came with status {}", response.status())));
    }
    let document = Document::parse(endpoint.read(response, MODELS_BYTES_MAX).await?).map_err(|error| Failure::protocol(name, error))?;
    let models: Vec<_> = document.root().get("data").into_iter().flat_map(Value::items).collect();
    let served = models.into_iter().filter(|model| {
        let id = model.get("id").and_then(Value::text).unwrap_or_default();
        worker.endpoint_for(&id).is_ok_and(|serving| serving == at)
    });
    Ok(served.map(|model| model.raw_str().to_owned()).collect())
}

/// The models that an upstream is known to serve without asking it: those that settings name.
fn named(settings: &Upstream) -> Vec<String> {
    let names = settings.models.iter().flatten().filter(|name| !name.contains(['*', '?', '[', '{']));
    names.map(|name| format!(r#"{{"id":{},"object":"model","created":0,"owned_by":{}}}"#, quote(name), quote(&settings.name))).collect()
}
