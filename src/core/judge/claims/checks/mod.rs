//! Checks of a passage: each compares one kind of claim with the evidence. Pure.

pub mod absence;
pub mod account;
pub mod actions;
pub mod acts;
pub mod bindings;
pub mod carried_out;
pub mod compound_numbers;
pub mod consistency;
pub mod counts;
mod exclusive;
pub mod fields;
pub mod figures;
pub mod order;
pub mod reasons;
pub mod states;
pub mod unaccounted;
pub mod values;
pub mod written_output;
