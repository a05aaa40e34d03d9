//! The shell: sockets, clocks, waiting. Judging is done in [`crate::judge`], [`crate::exchange`] and the adapters of the APIs.

pub mod app;
pub mod cassettes;
pub mod conversations;
pub mod error;
pub mod exchange;
pub mod helper_threads;
pub mod http;
pub mod ledger_policies;
pub mod loop_control;
pub mod server;
pub mod upstream;
pub mod worker;
