//! Chat completions: the adapter between `POST /v1/chat/completions` and the judging core.
//!
//! Pure, for buffered answers and streams; I/O and waiting are in `proxy/`.

pub mod adapter;
pub mod assembler;
pub mod completion;
pub mod exhibit;
pub mod hidden_turns;
pub mod material;
pub mod messages;
pub mod places;
pub mod promotion;
pub mod repair;
pub mod request;
pub mod stream;
#[cfg(test)]
mod support_tests;
