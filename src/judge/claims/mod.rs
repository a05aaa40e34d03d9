//! What an answer claims, compared with what the tools returned: deterministic, no model as judge. Pure.
//!
//! ```text
//!  text gate ─▶ passage (a sentence, a list, a table) ─▶ with what it cites ─▶ values, counts, absence, actions, failures
//!           └▶ block  (JSON and the like with an execution id) ─▶ fields
//!                                   grounds: results as `facts`, and what else was said
//! ```
//!
//! The principle of every check here: where it can't tell, it stays silent. A stopped honest answer costs more trust than
//! a missed one. So what a result may be read to mean is read generously, and only what no reading supports is reported.

pub mod abilities;
pub mod absence;
pub mod account;
pub mod actions;
pub mod acts;
pub mod counts;
pub mod cues;
pub mod date;
pub mod derive;
pub mod facts;
pub mod failure;
pub mod fields;
pub mod fold;
pub mod grounds;
pub mod halves;
pub mod lenient;
pub mod lexicon;
pub mod number;
pub mod passage;
pub mod plain;
pub mod reader;
pub mod reckon;
pub mod report;
pub mod request;
pub mod scene;
pub mod stands;
pub mod success;
pub mod table;
pub mod things;
pub mod unit;
pub mod unlooked;
pub mod url;
pub mod values;
pub mod voice;
pub mod written_output;
