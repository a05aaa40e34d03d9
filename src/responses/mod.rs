//! The Responses API: the adapter between `POST /v1/responses` and the judging core.
//!
//! Pure, whole answers and streams alike; what waits and sends is in [`crate::proxy`].

pub mod call;
pub mod output;
