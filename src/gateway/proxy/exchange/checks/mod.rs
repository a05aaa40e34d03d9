//! Checks of an exchange that wait for something outside of it: the ledger, the state of the world, a second opinion.

pub(in crate::proxy) mod ledger;
pub(in crate::proxy) mod state;
pub(in crate::proxy) mod verifier;
