//! Words, numbers, dates and units as people and tools write them. Pure.

pub mod changes;
pub mod cues;
pub mod date;
pub mod fold;
pub mod lenient_json;
pub mod lexicon;
pub mod number;
pub mod pattern;
pub mod polarity;
pub mod request;
mod samples;
pub mod tool_names;
pub mod unit;
pub mod url;
pub mod voice;
pub mod word_list;
