//! State that outlives an exchange: conversations, hidden turns, sessions and stored objects.

pub mod cache;
pub mod hidden_turns;
pub mod journal;
pub mod originals;
pub mod owners;
pub mod recall;
pub mod replicated;
pub mod session_calls;
