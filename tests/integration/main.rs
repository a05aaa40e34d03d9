//! The integration suite: toolmark as its users meet it, over real sockets on loopback.

mod admin;
mod bad_input;
mod bad_upstreams;
mod cassettes;
mod cli;
mod clients;
mod conformance;
mod conversations;
mod corrections;
mod demo;
mod emission;
mod evasions;
mod examples;
mod folded;
mod frame;
mod frame_log;
mod harness;
mod ledger;
mod loops;
mod marks;
mod mutants;
mod postgres;
mod process;
mod program;
mod readme;
mod responses_clients;
mod responses_folded;
mod responses_stateful;
mod responses_traffic;
mod streams;
#[path = "../tidy.rs"]
mod tidy;
mod traces;
mod traffic;
mod upstreams;
mod wire;
