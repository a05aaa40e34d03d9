//! Chat completions: the adapter between `POST /v1/chat/completions` and the judging core.
//!
//! Pure, for buffered answers and streams; I/O and waiting are in [`crate::proxy`].

pub mod adapter;
pub mod answer;
pub mod assemble;
pub mod choice;
pub mod chunk;
pub mod exhibit;
pub mod material;
pub mod messages;
pub mod places;
pub mod promote;
pub mod repair;
mod repeat;
pub mod request;
pub mod rounds;
pub mod stream;
#[cfg(test)]
mod support_tests;
