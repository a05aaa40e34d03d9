//! The judging core: values in, verdicts out. No clock, no randomness, no sockets.

mod answered;
pub mod call;
mod call_advice;
mod call_arguments;
pub mod call_turn;
pub mod claims;
mod correct;
mod example;
pub mod history;
pub mod loops;
pub mod marks;
pub mod natures;
pub mod protocol;
pub mod registry;
pub mod reply;
pub mod schema;
mod schema_bounds;
mod schema_fuel;
mod schema_issue;
mod schema_pattern;
pub mod stamp;
pub mod standing;
pub mod suggest;
pub mod text;
pub mod textual;
pub mod trail;
pub mod violation;
