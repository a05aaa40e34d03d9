//! Upstreams as they really are: what each refuses or needs, which one answers, and what is done when one fails.
//!
//! Everything here but [`table`] and [`gauge`] is pure: time comes in as a value, and what a request becomes, when it
//! is sent again and whether an upstream is left alone follows from values alone. The shell is in [`crate::proxy`].

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
