//! Judges exchanges outside the proxy, through the same core as on the wire.

pub mod explain;
pub mod offline;
pub mod rejudge;
