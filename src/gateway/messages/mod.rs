//! Anthropic's Messages API: the adapter between `POST /v1/messages` and the judging core.
//!
//! Pure, for buffered answers and streams; I/O and waiting are in `proxy/`. Source: docs/wire-facts.md#messages.

pub mod adapter;
pub(super) mod blocks;
pub mod error;
pub(super) mod exhibit;
pub(super) mod hidden_turns;
pub(super) mod history;
pub(super) mod material;
pub mod models;
pub(super) mod places;
pub(super) mod promotion;
pub(super) mod repair;
pub mod request;
pub mod response;
pub mod stream;
pub mod thread;
