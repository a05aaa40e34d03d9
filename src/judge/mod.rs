//! The judging core: values in, verdicts out. No clock, no randomness, no sockets.

pub mod history;
pub mod marks;
pub mod stamp;
pub mod violation;
