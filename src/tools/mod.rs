//! Tools of an exchange.

pub mod registry;
