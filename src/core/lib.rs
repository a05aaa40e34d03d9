//! What toolmark judges by: marks, tools, calls and the text of answers; and what every other package stands on.

pub mod judge;
pub mod marks;
pub mod openai;
pub mod sys;
pub mod tools;
pub mod upstreams;

// Every room by the same path in each package.
pub use toolmark_base::{violation, wire};
pub use toolmark_claims as claims;
pub use toolmark_config as config;
pub use toolmark_policy as policy;
pub use toolmark_schema as schema;
