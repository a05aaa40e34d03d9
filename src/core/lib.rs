//! What toolmark judges by: JSON on the wire, marks, schemas, policies, tools, calls and claims; and what every other package stands on.

pub mod config;
pub mod judge;
pub mod marks;
pub mod openai;
pub mod policy;
pub mod schema;
pub mod sys;
pub mod tools;
pub mod upstreams;
pub mod violation;
pub mod wire;
