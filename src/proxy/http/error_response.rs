//! Responses that toolmark makes itself: OpenAI's error envelope and other JSON.

use http::{HeaderValue, Response, StatusCode, header};

use super::{body::Body, failure::Failure};

impl Failure {
    /// The response with the error envelope.
    pub fn response(&self) -> Response<Body> {
        let mut response = json(self.status, self.json());
        let wait = self.retry_after.or((self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1));
        if let Some(wait) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        if self.status == StatusCode::NOT_IMPLEMENTED {
            // Clients would otherwise ask three times (docs/wire-facts.md#statuses-that-clients-retry).
            response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A JSON response.
pub fn json(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
