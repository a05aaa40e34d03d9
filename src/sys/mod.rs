//! The system below: clocks, the limits that it gives this process, the roots of certificates that it trusts.

pub(crate) mod clock;
pub mod limits;
pub mod tls;
