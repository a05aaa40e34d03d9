//! Responses that toolmark makes itself: errors in the envelope of the caller's API, and other JSON.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::{body::Body, failure::Failure};
use crate::{messages, openai::Api};

impl Failure {
    /// The response with the error envelope of this API.
    pub fn response(&self, api: Api) -> Response<Body> {
        let mut response = json(self.status, Body::Whole(in_form_of(api, self.json().into())));
        let wait = self.retry_after.or((self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1));
        if let Some(wait) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        if self.status == StatusCode::NOT_IMPLEMENTED {
            // Clients would otherwise ask three times (docs/wire-facts.md#statuses-that-clients-retry).
            response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An error in OpenAI's envelope, in that of this API.
pub fn in_form_of(api: Api, envelope: Bytes) -> Bytes {
    match api {
        Api::Chat | Api::Responses => envelope,
        Api::Messages => messages::error::converted(&envelope),
    }
}

/// A JSON response.
pub fn json(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
