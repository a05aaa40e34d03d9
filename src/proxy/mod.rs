//! The shell: sockets, clocks, waiting. What is judged is decided in [`crate::judge`] and [`crate::chat`].

pub mod app;
pub mod attempt;
mod bare;
mod beside;
pub mod body;
pub mod client;
mod collect;
mod ending;
pub mod exchange;
pub mod guard;
pub mod loops;
pub mod memory;
pub mod pass;
mod patience;
pub mod prober;
mod reader;
pub mod reply;
pub mod responses;
pub mod route;
pub mod run;
pub mod server;
pub mod sessions;
pub mod streaming;
mod traced;
pub mod upstream;
pub mod way;
mod witness;
