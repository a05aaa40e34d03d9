//! The judging core: values in, verdicts out. No clock, no randomness, no sockets.

pub mod text;
pub mod violation;
