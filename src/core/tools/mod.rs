//! Tools of an exchange.

pub mod answers;
pub mod registry;
