//! Real upstreams: their quirks, the choice between them, and the handling of failures.
//!
//! Everything here but [`table`] and [`gauge`] is pure: time is passed in as a value, and adapted requests, retries and breaker decisions
//! follow from values alone. The I/O is in [`crate::proxy`].

pub mod allowance;
pub mod breaker;
pub mod fit;
pub mod gauge;
pub mod preset;
pub mod probe;
pub mod refusal;
pub mod retry;
pub mod route;
pub mod table;
