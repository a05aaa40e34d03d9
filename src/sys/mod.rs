//! The system below: clocks, and the limits that it gives this process.

pub(crate) mod clock;
pub mod limits;
