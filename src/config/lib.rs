//! Parts that settings and policies share: errors with their place, layers of files and variables, names of hosts, units.

pub mod error;
pub mod host;
pub mod layers;
pub mod sections;
pub mod units;
