//! Cassettes: recorded exchanges, written while they happen, played back in place of a model, judged again, and
//! converted from and to other tools' formats.

pub mod body;
pub mod capture;
pub mod diff;
#[cfg(feature = "import")]
pub mod export;
pub mod faults;
pub mod format;
#[cfg(feature = "import")]
pub mod import;
pub mod issued_marks;
pub mod matching;
pub mod player;
pub mod reader;
pub mod recorder;
pub mod redact;
pub mod scripted_answer;
pub mod writer;
