//! Entry points of the fuzz targets in `fuzz/`: each takes any bytes and panics where toolmark breaks one of its promises.
//!
//! Compiled for tests and with the feature `fuzzing` only: the product doesn't contain it. It lives in the library and
//! not in `fuzz/` because the promises are about what is private (the text gate, the judge of one call, the settings'
//! reader), and because `cargo test` runs the same functions over `fuzz/cases` on every change. See `fuzz/README.md`.

mod answers;
mod bench;
mod drive;
mod files;
mod input;
mod judging;
mod requests;
mod script;
#[cfg(test)]
mod tests;
mod wire;

/// A fuzz target: its name, and what it holds its input to.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, in the order in which `fuzz/run` takes them.
pub const TARGETS: [Target; 18] = [
    ("sse", wire::sse),
    ("json", wire::json),
    ("request", requests::request),
    ("chat_stream", answers::chat_stream),
    ("responses_stream", answers::responses_stream),
    ("translated_stream", answers::translated_stream),
    ("chat_whole", answers::chat_whole),
    ("responses_whole", answers::responses_whole),
    ("chat_forms", script::chat_forms),
    ("responses_forms", script::responses_forms),
    ("apis", script::apis),
    ("corrections", script::corrections),
    ("text", judging::text),
    ("schema", judging::schema),
    ("import", files::import),
    ("cassette", files::cassette),
    ("settings", files::settings),
    ("policy", files::policy),
];

/// Runs one target by its name; `false` where there is none of that name.
pub fn run(name: &str, data: &[u8]) -> bool {
    // As the program does when it starts: what is compiled once counts for no input.
    static READY: std::sync::Once = std::sync::Once::new();
    READY.call_once(crate::judge::claims::lexicon::warm_up);
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.inspect(|(_, run)| run(data)).is_some()
}

/// What a dictionary of the fuzzer needs and only the key ring of the targets can make: ids that verify.
pub fn words() -> Vec<String> {
    bench::words()
}
