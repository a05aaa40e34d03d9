//! Real upstreams: their quirks, the choice between them, and the handling of failures.
//!
//! Everything here but [`capabilities`] and [`health`] is pure: time is passed in as a value, and adapted requests, retries and breaker decisions
//! follow from values alone. The I/O is in `proxy/`.

pub mod allowance;
pub mod breaker;
pub mod capabilities;
pub mod capability_probe;
pub mod health;
pub mod quirks;
pub mod retry;
