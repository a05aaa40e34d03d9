//! Parts that OpenAI's two APIs share: errors and token counts.

pub mod error;
pub mod usage;
