//! Parts that settings and policies share: errors with their place, and layers of files and variables.

pub(crate) mod error;
pub(crate) mod layers;
