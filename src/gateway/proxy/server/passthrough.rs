//! Endpoints that pass through unchanged: models, embeddings, audio, files. Bodies are streamed both ways.

use std::{io::Read, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use super::route::Route;
use crate::{
    messages,
    openai::{
        Api,
        error::{envelope, masked},
    },
    proxy::upstream::BodyPassage,
    proxy::{
        exchange::cassette_session,
        http::{
            body::{Body, PassedBody},
            credentials, error_response,
            failure::Failure,
            headers::ANTHROPIC_VERSION,
        },
        server::{admission::Held, error_key_removal::Unkeyed},
        upstream::{
            self, Endpoint,
            pool::{Answer, Outgoing},
            status::Asked,
        },
        worker::Worker,
    },
    settings::{Credential, UpstreamSettings},
    wire::json::{
        Document, Value,
        string::{cut, quote},
    },
};

/// Maximum bytes of one upstream's list of models.
const MODELS_BYTES_MAX: usize = 16 << 20;
/// Time limit for one upstream's list, as the lists of the others wait for it.
const LIST_TIME_MAX: Duration = Duration::from_secs(10);

/// Target of a request that passes through.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PassthroughTarget {
    /// This path below the upstream's base URL.
    Below(String),
    /// This path beside `/v1` of the upstream.
    Beside(String),
}

impl PassthroughTarget {
    /// Target of a route; `None` for a route that doesn't pass through.
    pub fn of(route: &Route) -> Option<Self> {
        match route {
            Route::Pass(rest) => Some(Self::Below(rest.clone())),
            Route::PassBeside(path) => Some(Self::Beside(path.clone())),
            Route::Chat
            | Route::Responses
            | Route::Messages
            | Route::CountTokens
            | Route::Stored(_)
            | Route::Health
            | Route::Hello
            | Route::NotEnforced
            | Route::InvalidPath => None,
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Below(path) | Self::Beside(path) => path,
        }
    }
}

/// Passes a request on: to the upstream that serves the model in its path, otherwise to the first. `/models` merges the lists of all.
pub async fn pass(
    worker: Arc<Worker>,
    passage: PassthroughTarget,
    request: Request<hyper::body::Incoming>,
    held: Held,
) -> Result<Response<Body>, Failure> {
    let form = if request.headers().contains_key(&ANTHROPIC_VERSION) { Api::Messages } else { Api::Chat };
    let merged = passage == PassthroughTarget::Below("/models".to_owned()) && (worker.endpoints.len() > 1 || form == Api::Messages);
    if merged { models(&worker, &request, form).await } else { through(&worker, &passage, request, held).await }
}

async fn through(
    worker: &Worker,
    passage: &PassthroughTarget,
    request: Request<hyper::body::Incoming>,
    held: Held,
) -> Result<Response<Body>, Failure> {
    let rest = passage.path();
    let (parts, body) = request.into_parts();
    // Of the lists, the one that serves the model answers for it; all else names none.
    let named = rest.strip_prefix("/models/").map(|model| worker.endpoint_for(model)).transpose()?;
    let endpoint = worker.endpoints.get(named.unwrap_or(0)).ok_or_else(|| Failure::unreachable("upstream"))?;
    let wrong = || Failure::new(StatusCode::BAD_REQUEST, "invalid_path", "the path can't be passed on");
    let caller = worker.app.caller_credential();
    let query = endpoint.query(parts.uri.query().map(str::to_owned), caller);
    let query = query.as_deref();
    let target = match passage {
        PassthroughTarget::Below(rest) => endpoint.target(rest, query),
        PassthroughTarget::Beside(path) => endpoint.target_beside(path, query),
    };
    let target = target.ok_or_else(wrong)?;
    let asked = Asked::passed(&parts.method, &parts.headers);
    let mut headers = endpoint.headers(&parts.headers, caller);
    // Nothing is read here, so what the client can decode may come encoded.
    if let Some(encodings) = parts.headers.get(header::ACCEPT_ENCODING) {
        headers.insert(header::ACCEPT_ENCODING, encodings.clone());
    }
    let empty = matches!(parts.method, Method::GET | Method::DELETE) && parts.headers.get(header::CONTENT_LENGTH).is_none();
    let body = if empty { Outgoing::Whole(Bytes::new()) } else { Outgoing::Pass(body) };
    let (body, played) = match worker.app.cassettes.player(named.unwrap_or(0)) {
        Some(player) => cassette_session::passed(player, &parts.method, rest, body, worker.app.settings.limits.request_bytes).await?,
        None => (body, None),
    };
    let response = match played {
        Some(played) => played,
        None => endpoint.send(parts.method, target, headers, body).await?,
    };
    endpoint.usable(asked, rest, &response)?;
    let status = response.status();
    let is_error = !status.is_success() && status != StatusCode::NOT_MODIFIED;
    let mut headers = endpoint.downstream_headers(response.headers(), BodyPassage::Unchanged);
    let passed = |response: Answer| PassedBody::new(response.into_body(), held, endpoint.settings.timeouts.idle);
    let body = match endpoint.own_key() {
        // An error may quote the key that it was called with.
        Some(key) if is_error => {
            let (encodings, came) = (response.headers().clone(), endpoint.downstream_headers(response.headers(), BodyPassage::MayChange));
            let body = endpoint.read(response, upstream::ERROR_BYTES_MAX).await?;
            headers = came;
            Body::Whole(match plain(&encodings, body) {
                Ok(body) => masked(body, key),
                Err(encoding) => {
                    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    let message = format!(
                        "the error of upstream `{}` is encoded as `{encoding}`, so it isn't shown: it may quote toolmark's own key",
                        endpoint.settings.name
                    );
                    envelope(&message, "upstream_error", None, None).into()
                }
            })
        }
        // So may one that comes with another status, or in a stream.
        Some(key) if is_text(response.headers()) => Body::PassUnkeyed(Box::new((passed(response), Unkeyed::new(key)))),
        Some(_) | None => Body::Pass(Box::new(passed(response))),
    };
    let mut passed = Response::new(body);
    *passed.status_mut() = status;
    *passed.headers_mut() = headers;
    Ok(passed)
}

/// An error's body, decoded.
///
/// # Errors
/// The encoding, if it is unsupported or the decoded body is too long.
fn plain(headers: &HeaderMap, body: Bytes) -> Result<Bytes, String> {
    let values =
        headers.get_all(header::CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    let encodings = values.collect::<Vec<_>>().join(",");
    let decoder: Box<dyn Read + '_> = match encodings.trim() {
        "" | "identity" => return Ok(body),
        "gzip" | "x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(&body[..])),
        "deflate" => Box::new(flate2::read::ZlibDecoder::new(&body[..])),
        other => return Err(cut(other, 40).to_owned()),
    };
    let mut text = Vec::new();
    match decoder.take(upstream::ERROR_BYTES_MAX as u64 + 1).read_to_end(&mut text) {
        Ok(read) if read <= upstream::ERROR_BYTES_MAX => Ok(text.into()),
        Ok(_) | Err(_) => Err(encodings),
    }
}

/// True if the body's lines can be read as they arrive.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    !upstream::is_encoded(headers) && (kind.starts_with(b"text/event-stream") || kind.starts_with(b"application/json"))
}

/// Merged list of the models that each upstream serves here, in the form of this API. All upstreams are asked concurrently.
async fn models(worker: &Worker, request: &Request<hyper::body::Incoming>, form: Api) -> Result<Response<Body>, Failure> {
    let caller = worker.app.caller_credential();
    let by_caller = |endpoint: &Endpoint| endpoint.settings.credential == Credential::Caller;
    // A caller's key is for one upstream: no other is shown it for a list.
    let meant = worker.endpoints.iter().position(by_caller);
    let lists = worker.endpoints.iter().enumerate().map(|(at, endpoint)| async move {
        if worker.app.cassettes.player(at).is_some() {
            return Ok(Vec::new());
        }
        if endpoint.takes_callers(caller) && meant != Some(at) {
            return Ok(named(&endpoint.settings));
        }
        // The others are asked for this list, not by this caller.
        let query = request.uri().query();
        let (mut headers, query) = match endpoint.takes_callers(caller) {
            true => (endpoint.headers(request.headers(), caller), query.map(str::to_owned)),
            false => (endpoint.headers_elsewhere(request.headers()), query.and_then(credentials::plain_query)),
        };
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let listing = list(worker, at, endpoint, headers, query);
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
        _ if form == Api::Messages => Ok(error_response::json(StatusCode::OK, messages::models::list(&listed))),
        _ => Ok(error_response::json(StatusCode::OK, format!(r#"{{"object":"list","data":[{}]}}"#, listed.join(",")))),
    }
}

/// Models that one upstream lists and that are routed to it.
async fn list(worker: &Worker, at: usize, endpoint: &Endpoint, headers: HeaderMap, query: Option<String>) -> Result<Vec<String>, Failure> {
    let name = &endpoint.settings.name;
    let Some(target) = endpoint.target("/models", query.as_deref()) else { return Ok(Vec::new()) };
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

/// Models that an upstream is known to serve without a request: those named in the settings.
fn named(settings: &UpstreamSettings) -> Vec<String> {
    let names = settings.models.iter().flatten().filter(|name| !name.contains(['*', '?', '[', '{']));
    names.map(|name| format!(r#"{{"id":{},"object":"model","created":0,"owned_by":{}}}"#, quote(name), quote(&settings.name))).collect()
}
