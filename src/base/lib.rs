//! What every other package stands on: JSON and SSE on the wire, and the codes by which checks report.

pub mod violation;
pub mod wire;
