//! The wire layer: JSON and SSE as bytes, which are changed only by splicing.

pub mod json;
pub mod rope;
pub mod sse;
