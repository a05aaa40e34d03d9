//! Entry points of the fuzz targets in `fuzz/`: each takes any bytes and panics if toolmark violates one of its guarantees.
//!
//! Compiled only for tests and with the feature `fuzzing`: the product doesn't contain it. It is part of the library and not of `fuzz/`
//! because it checks private items (the text gate, the judge of one call, the settings' reader), and because `cargo test` runs the same
//! functions over `fuzz/cases` on every change. See `fuzz/README.md`.

mod answers;
mod bench;
mod drive;
mod files;
mod input;
mod judging;
mod requests;
mod script;
#[cfg(test)]
mod stream_properties;
#[cfg(test)]
mod tests;
mod wire;
use crate::claims;

/// A fuzz target: its name and its function, which panics if a check fails.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, in the order in which `fuzz/run` takes them.
pub const TARGETS: [Target; 21] = [
    ("sse", wire::sse),
    ("json", wire::json),
    ("request", requests::request),
    ("chat_stream", answers::chat_stream),
    ("responses_stream", answers::responses_stream),
    ("messages_stream", answers::messages_stream),
    ("translated_stream", answers::translated_stream),
    ("chat_whole", answers::chat_whole),
    ("responses_whole", answers::responses_whole),
    ("messages_whole", answers::messages_whole),
    ("chat_forms", script::chat_forms),
    ("responses_forms", script::responses_forms),
    ("messages_forms", script::messages_forms),
    ("apis", script::apis),
    ("corrections", script::corrections),
    ("text", judging::text),
    ("schema", judging::schema),
    ("import", files::import),
    ("cassette", files::cassette),
    ("settings", files::settings),
    ("policy", files::policy),
];

/// Runs the target of this name; `false` if there is none.
pub fn run(name: &str, data: &[u8]) -> bool {
    // As at the program's start, so that no input is charged for the one-time compilation.
    static READY: std::sync::Once = std::sync::Once::new();
    READY.call_once(claims::warm_up);
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.inspect(|(_, run)| run(data)).is_some()
}

/// Valid execution IDs for the fuzzer's dictionary, which only the targets' key ring can make, and a forged one.
pub fn words() -> Vec<String> {
    bench::words()
}
