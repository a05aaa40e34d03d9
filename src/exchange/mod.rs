//! One exchange, whatever its API: what it is judged by, what is decided about its answers, what is said in the end.
//!
//! The adapters ([`crate::chat`], [`crate::responses`]) bring their wire form into these terms and back, so that no
//! check and no decision exists twice. Pure; what waits and sends is in [`crate::proxy`].

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
