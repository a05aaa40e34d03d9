//! The judging core: values in, verdicts out. No clock, no randomness, no sockets.

pub mod call;
pub mod history;
pub mod loops;
pub mod messages;
pub mod text;
pub mod textual_calls;
pub mod verifier;
