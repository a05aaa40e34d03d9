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

pub mod checker;
pub mod checks;
pub mod context;
pub mod evidence;
pub mod language;
pub mod passage;
pub mod plain;
pub mod report;
pub mod rules;
pub mod text_input;
pub mod told_failure;
pub mod word_index;

/// Makes the words and patterns of every language ready, so that no exchange holds its worker for it. It takes a good part of a second:
/// not for a thread that serves.
pub fn warm_up() {
    language::lexicon::warm_up();
    checks::acts::speech::warm_up();
    let _ready = (checks::states::data(), language::polarity::failure_words::text_tells_failure(""));
}
