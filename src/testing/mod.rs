//! What tests and the demo need: a scripted upstream and a proxy in front of it, over real sockets.
//!
//! Loopback only, on free ports; both stop when they are dropped.

mod proxy;
mod upstream;

pub use proxy::{Proxy, StartError};
pub use upstream::{PATIENCE, Piece, Received, Reply, ScriptedUpstream};
