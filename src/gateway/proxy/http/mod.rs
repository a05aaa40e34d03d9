//! HTTP messages: headers, bodies, credentials and toolmark's own error responses.

pub mod body;
pub mod credentials;
pub mod error_response;
pub mod failure;
pub(super) mod headers;
