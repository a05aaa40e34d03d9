//! Scanners of an answer's text: ids, labels, blocks, records and calls written as text. Each reports findings, which the gate judges. Pure.

mod beginnings;
pub(super) mod block;
pub(super) mod label;
pub(super) mod line;
pub(super) mod mark;
pub(super) mod record;
pub(super) mod run;
pub(super) mod start;
pub(super) mod written;
