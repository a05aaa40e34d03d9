//! The system below: clocks, files, histograms of durations, the limits that it gives this process, the roots of certificates that it trusts.

pub mod clock;
pub mod files;
pub mod histogram;
pub mod limits;
pub mod tls;
