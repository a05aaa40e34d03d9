//! Parts that settings and policies share: errors with their place, layers of files and variables, names of hosts, units.

pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod layers;
pub mod units;
