//! Cassettes: recorded exchanges, written while they happen, played back in place of a model, judged again, and
//! converted from and to other tools' formats.

pub mod body;
pub mod canonical;
pub mod difference;
pub mod export;
pub mod faults;
pub mod import;
pub mod known;
pub mod line;
pub mod offline;
pub mod patch;
pub mod player;
pub mod raw;
pub mod read;
pub mod recorder;
pub mod redact;
pub mod rejudge;
pub mod saying;
pub mod write;
