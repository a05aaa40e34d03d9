//! The Responses API: the adapter between `POST /v1/responses` and the judging core.
//!
//! Pure, whole answers and streams alike; what waits and sends is in [`crate::proxy`].

pub mod answer;
pub mod call;
pub mod memo;
pub mod output;
pub mod stream;
#[cfg(test)]
mod support_tests;
pub mod translate;
pub mod words;
