//! The Responses API: the adapter between `POST /v1/responses` and the judging core.
//!
//! Pure, for buffered answers and streams; I/O and waiting are in [`crate::proxy`].

pub mod adapter;
pub mod answer;
pub mod call;
pub mod exhibit;
pub mod items;
pub mod material;
pub mod memo;
pub mod offer;
pub mod output;
mod places;
pub mod prepare;
#[cfg(test)]
mod prepare_tests;
pub mod promote;
pub mod repair;
#[cfg(test)]
mod repair_tests;
pub mod request;
#[cfg(test)]
mod request_properties_tests;
#[cfg(test)]
mod request_support_tests;
#[cfg(test)]
mod request_tests;
pub mod rounds;
pub mod stateful;
pub mod stored;
#[cfg(test)]
mod stored_tests;
pub mod stream;
#[cfg(test)]
mod support_tests;
pub mod translate;
pub mod words;
