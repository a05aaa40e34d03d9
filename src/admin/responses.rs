//! What the admin listener answers: JSON, and OpenAI's error envelope where it can't.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{
    ledger::store::StoreError,
    openai::error::envelope,
    proxy::http::{body::Body, error_response::Failure},
};

/// A value as JSON.
pub fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => of(StatusCode::OK, "application/json", bytes),
        Err(error) => {
            tracing::error!(%error, "an answer of the admin listener can't be written");
            failure(&Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the answer can't be written"))
        }
    }
}

/// These bytes as this type.
pub fn of(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::Whole(bytes.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// An error.
pub fn failure(failure: &Failure) -> Response<Body> {
    let kind = match failure.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let body = envelope(&failure.message, kind, failure.param.as_deref(), Some(failure.code));
    let mut response = of(failure.status, "application/json", body);
    let headers = response.headers_mut();
    if failure.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if failure.status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if failure.status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = if failure.message.ends_with("POST") { "POST" } else { "GET, HEAD" };
        headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
    }
    response
}

/// The token is missing or another.
pub fn unauthorized() -> Failure {
    let message = "the admin listener needs its token: send `Authorization: Bearer …` with what TOOLMARK_ADMIN_TOKEN is set to";
    Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

/// A parameter that can't be taken.
pub fn invalid(param: &str, message: impl Into<String>) -> Failure {
    Failure { param: Some(param.to_owned()), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_parameter", message) }
}

/// Nothing has this id.
pub fn not_found(what: &str) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "not_found", format!("the ledger knows no such {what}: it may be older than `[ledger] keep`"))
}

/// The ledger has no answer.
pub fn ledger(error: &StoreError) -> Failure {
    match error {
        StoreError::Cursor => invalid("after", error.to_string()),
        StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
            tracing::error!(%error, "the ledger can't be read");
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ledger_unavailable", "the ledger can't be read now: the log says why")
        }
    }
}
