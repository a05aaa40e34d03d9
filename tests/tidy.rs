//! Rules of this repository that no compiler checks: module docs, a pure core, no panics on input from outside.

use std::path::{Path, PathBuf};

fn sources(directory: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// A file without its tests.
fn product(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

fn is_test(path: &Path) -> bool {
    let own = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(path);
    own.components().any(|part| part.as_os_str().to_string_lossy().contains("tests"))
}

#[test]
fn files_say_what_they_are() {
    for (path, text) in sources("src") {
        assert!(text.starts_with("//! "), "{}: no module documentation", path.display());
    }
}

#[test]
fn the_core_is_pure() {
    let pure = |path: &Path| {
        [
            "/src/violation.rs",
            "/src/wire/",
            "/src/marks/",
            "/src/schema/",
            "/src/tools/",
            "/src/judge/",
            "/src/chat/",
            "/src/responses/",
            "/src/translate/",
        ]
        .iter()
        .any(|part| path.to_string_lossy().contains(part))
    };
    for (path, text) in sources("src").into_iter().filter(|(path, _)| pure(path) && !is_test(path)) {
        for word in [
            "SystemTime",
            "Instant::now",
            "tokio::",
            "std::fs",
            "std::net",
            "reqwest",
            "hyper",
            ".await",
            "getrandom",
            "now_v7",
            "tracing::",
        ] {
            assert!(!product(&text).contains(word), "{}: `{word}` in the pure core", path.display());
        }
    }
}

#[test]
fn nothing_panics_on_purpose() {
    for (path, text) in sources("src").into_iter().filter(|(path, _)| !is_test(path)) {
        for (number, line) in product(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let excused = text.lines().nth(number.saturating_sub(1)).is_some_and(|before| before.contains("#[expect("));
            for word in [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!("] {
                assert!(!code.contains(word) || excused, "{}:{}: `{word}`", path.display(), number + 1);
            }
        }
    }
}
