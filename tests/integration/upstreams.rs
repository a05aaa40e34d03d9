//! Several upstreams: which answers, what is done when one fails, and that tools are never silently ignored.

mod calls;
mod failures;
mod log;
mod presets;
mod providers;
pub mod stage;
