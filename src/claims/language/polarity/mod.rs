//! Polarity: by which words a text denies something or tells of a failure, in any language. Pure.

pub mod failure_words;
pub mod negation;
