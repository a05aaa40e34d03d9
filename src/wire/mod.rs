//! The wire layer: JSON and SSE as bytes, changed by splicing and in no other way.

pub mod canonical;
pub mod edit;
pub mod json;
mod scan;
pub mod sse;
pub mod text;
