//! Responses of the admin listener: JSON, and OpenAI's error envelope for failures.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{
    ledger::store::StoreError,
    openai::error::envelope,
    proxy::http::{body::Body, failure::Failure},
};

/// JSON response with this value.
pub fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => of(StatusCode::OK, "application/json", bytes),
        Err(error) => {
            tracing::error!(%error, "an answer of the admin listener can't be written");
            failure(&Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the answer can't be written"))
        }
    }
}

/// Response with these bytes and this content type.
pub fn of(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::Whole(bytes.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Response with the error envelope.
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

/// 401: the token is missing or wrong.
pub fn unauthorized() -> Failure {
    let message = "the admin listener needs its token: send `Authorization: Bearer …` with what TOOLMARK_ADMIN_TOKEN is set to";
    Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

/// 403: the token is that of a reader.
pub fn forbidden() -> Failure {
    let message = "the token TOOLMARK_ADMIN_READ_TOKEN only reads: this needs TOOLMARK_ADMIN_TOKEN";
    Failure::new(StatusCode::FORBIDDEN, "forbidden", message)
}

/// 400: a parameter is invalid.
pub fn invalid(param: &str, message: impl Into<String>) -> Failure {
    Failure { param: Some(param.to_owned()), ..Failure::new(StatusCode::BAD_REQUEST, "invalid_parameter", message) }
}

/// 404: nothing has this ID.
pub fn not_found(what: &str) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "not_found", format!("the ledger knows no such {what}: it may be older than `[ledger] keep`"))
}

/// Error of the ledger: 400 for an invalid cursor, otherwise 503.
pub fn ledger(error: &StoreError) -> Failure {
    match error {
        StoreError::Cursor => invalid("after", error.to_string()),
        StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
            tracing::error!(%error, "the ledger can't be read");
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ledger_unavailable", "the ledger can't be read now: the log says why")
        }
    }
}
