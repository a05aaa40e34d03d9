//! One exchange in terms common to all APIs: its judgement, the decision about its answers, and its findings.
//!
//! The adapters ([`crate::chat`], [`crate::responses`]) translate their wire format to and from these types, so that no
//! check and no decision exists twice. Pure; I/O and waiting are in [`crate::proxy`].

pub mod adapter;
pub mod annotations;
pub mod answers;
pub mod asked;
pub mod context;
pub mod decide;
pub mod error;
pub mod evidence;
pub mod exhibit;
pub mod fault;
pub mod inquiry;
pub mod looping;
pub mod material;
mod owed;
pub mod places;
pub mod promote;
pub mod refusal;
pub mod rounds;
pub mod state;
pub mod texts;
pub mod thread;
pub mod tools;
pub mod trimmed;
pub mod turn;
pub mod usage;
