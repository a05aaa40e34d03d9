//! The Responses API: the adapter between `POST /v1/responses` and the judging core.
//!
//! Pure, for buffered answers and streams; I/O and waiting are in `proxy/`.

pub mod adapter;
pub mod call_name;
pub mod conversation_update;
pub mod hidden_turns;
pub mod output_items;
mod places;
pub mod promotion;
pub mod repair;
#[cfg(test)]
mod repair_tests;
pub mod request;
pub mod response;
pub mod stored;
#[cfg(test)]
mod stored_tests;
pub mod stream;
#[cfg(test)]
mod support_tests;
pub mod synthetic;
