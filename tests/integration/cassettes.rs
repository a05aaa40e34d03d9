//! Cassettes: recorded, played, judged again, and exchanged with other tools.

mod faults;
mod judged;
mod played;
pub mod recorded;
mod servers;
pub mod stage;
mod tools;
