//! All fuzz targets in one binary, so that one is built and linked: `TOOLMARK_FUZZ_TARGET` names the one that is run.
//! What they hold is in the library, `src/fuzzing`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let said = std::env::var("TOOLMARK_FUZZ_TARGET").unwrap_or_default();
    let found = toolmark::fuzzing::TARGETS.iter().find(|(name, _)| *name == said);
    let names: Vec<&str> = toolmark::fuzzing::TARGETS.iter().map(|(name, _)| *name).collect();
    found.unwrap_or_else(|| panic!("TOOLMARK_FUZZ_TARGET is `{said}`; say one of {}", names.join(", "))).1
});

fuzz_target!(
    init: {
        // libfuzzer-sys aborts on every panic. Those that toolmark catches (in a validator of schemas) are no findings; those
        // that reach the fuzzer abort there.
        drop(std::panic::take_hook());
    },
    |data: &[u8]| TARGET(data)
);
