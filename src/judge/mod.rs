//! The judging core: values in, verdicts out. No clock, no randomness, no sockets.

pub mod history;
pub mod marks;
pub mod protocol;
pub mod reply;
pub mod stamp;
pub mod text;
pub mod violation;
