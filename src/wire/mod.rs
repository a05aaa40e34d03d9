//! The wire layer: JSON and SSE as bytes, which are changed only by splicing.

pub mod canonical;
pub mod edit;
pub mod json;
mod scan;
pub mod sse;
pub mod text;
