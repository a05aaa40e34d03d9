//! The wire layer: JSON and SSE as bytes, changed by splicing and in no other way.

pub mod json;
pub mod text;
