//! OpenAI's Responses API from an upstream that only has `/chat/completions`.
//!
//! ```text
//!  Responses request ─▶ [`request`] ─▶ chat upstream ─▶ [`answer`] or [`stream`] ─▶ Responses answer
//! ```
//! It stands between the Responses adapter and the upstream. Nothing is judged here: the judge sees what leaves,
//! as if a Responses upstream had sent it. So nothing may be lost either: every call and every character of text
//! comes out, or the answer is refused. Source: docs/wire-facts.md. Pure.

pub mod answer;
pub mod request;
pub mod sse_feed;
#[cfg(test)]
mod traffic_tests;
