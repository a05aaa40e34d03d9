//! The integration suite: toolmark as its users meet it, over real sockets on loopback.

mod bad_input;
mod cli;
mod clients;
mod conversations;
mod demo;
mod examples;
mod folded;
mod frame;
mod harness;
mod marks;
mod mutants;
mod readme;
mod streams;
#[path = "../tidy.rs"]
mod tidy;
mod traffic;
