//! One exchange in terms common to all APIs: its judgement, the decision about its answers, and its findings.
//!
//! The adapters (`chat/`, `responses/`) translate their wire format to and from these types, so that no
//! check and no decision exists twice. Pure; I/O and waiting are in `proxy/`.

pub mod active_policy;
pub mod adapter;
pub mod answer_tools;
pub mod attempts;
pub mod call_ids;
pub mod context;
pub mod conversation;
pub mod decision;
pub mod error;
pub mod evidence;
pub mod hidden_turns;
pub mod ledger_queries;
pub mod loop_guard;
pub mod promotion;
pub mod state_checks;
pub mod text;
pub mod tool_set;
pub mod turn;
