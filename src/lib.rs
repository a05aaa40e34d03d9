//! toolmark: an OpenAI-compatible reverse proxy that enforces tool-call integrity inline.

pub mod judge;
pub mod policy;
pub mod wire;
