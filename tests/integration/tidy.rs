//! Rules of this repository that no compiler checks: module docs, the order of rooms, and what each uses of the world outside.
//!
//! Reads imports and paths, not words: a folder or file of a package in `src/` is a room, and imports only rooms below it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// Rooms, lowest first, each with what it uses of the world outside: the same as the table in docs/architecture.md.
const ROOMS: &[(&str, &[&str])] = &[
    ("allocator", &[]),
    ("wire", &[]),
    ("violation", &[]),
    ("claims", &[]),
    ("schema", &[]),
    ("config", &["net"]),
    ("policy", &["files", "clock", "threads", "log", "tokio"]),
    ("sys", &["files", "clock"]),
    ("openai", &[]),
    ("marks", &[]),
    ("tools", &[]),
    ("judge", &[]),
    ("upstreams", &["tokio"]),
    ("cassette", &["files", "clock", "threads", "log", "tokio"]),
    ("settings", &["files", "net", "random"]),
    ("ledger", &["files", "clock", "random", "threads", "log", "tokio"]),
    ("telemetry", &["net", "clock", "threads", "log", "tokio", "reqwest"]),
    ("counters", &["clock", "random", "threads", "log", "tokio"]),
    ("mcp", &["files", "clock", "threads", "log", "tokio", "reqwest"]),
    ("exchange", &[]),
    ("chat", &[]),
    ("responses", &[]),
    ("messages", &[]),
    ("translate", &[]),
    ("replay", &[]),
    ("proxy", &["net", "clock", "random", "threads", "log", "tokio", "hyper", "reqwest"]),
    ("admin", &["net", "clock", "log", "tokio", "hyper"]),
    ("daemon", &["net", "threads", "log", "tokio"]),
    ("testing", &["files", "net", "clock", "threads", "tokio", "hyper"]),
    ("cli", &["files", "net", "clock", "random", "threads", "log", "tokio", "reqwest"]),
    ("fuzzing", &["files", "threads"]),
];

/// Beginnings of paths by which something of the world outside is used.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("files", &["std::fs", "notify"]),
    ("net", &["std::net"]),
    ("clock", &["std::time::SystemTime", "std::time::Instant::now", "Instant::now"]),
    ("random", &["getrandom", "uuid::Uuid::now_v7", "Uuid::now_v7"]),
    ("threads", &["std::thread"]),
    ("log", &["tracing", "tracing_subscriber"]),
    ("tokio", &["tokio", "tokio_util", "tokio_postgres_rustls"]),
    ("hyper", &["hyper", "hyper_util", "hyper_rustls"]),
    ("reqwest", &["reqwest"]),
];

/// Rooms with which nothing is composed: the roots of the libraries and the program.
const ROOTS: [&str; 2] = ["lib", "main"];

/// Folders of `src/` that are packages of several rooms, and those that are one room and a package.
const PACKAGES: [&str; 3] = ["base", "core", "gateway"];
const ROOM_PACKAGES: [&str; 7] = ["allocator", "claims", "schema", "config", "policy", "cassette", "settings"];

static TESTS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\n#\[cfg\(test\)\]\n(?:#\[[^\n]*\]\n)*mod \w+ \{").unwrap());
static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)(#\[cfg\(test\)\]\n)?^[ \t]*(?:pub(?:\([^)]*\))? )?use ([^;]+);").unwrap());
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+").unwrap());

/// A source file of the product, without its tests.
struct Source {
    /// Path below `src/`.
    path: PathBuf,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut open) = (Vec::new(), vec![root.clone()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(&root).unwrap().to_owned(), text });
            }
        }
    }
    found.sort_by(|one, two| one.path.cmp(&two.path));
    found
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.components().any(|part| part.as_os_str().to_string_lossy().contains("tests"))
    }

    fn product(&self) -> &str {
        TESTS.find(&self.text).map_or(&self.text, |tests| &self.text[..tests.start()])
    }

    /// Path of its module from its room on, as `["proxy", "http"]` of `gateway/proxy/http/mod.rs`.
    fn module(&self) -> Vec<String> {
        let path = self.path.with_extension("");
        let mut parts: Vec<String> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        if PACKAGES.contains(&&*parts[0]) {
            parts.remove(0);
        }
        let is_package = ROOM_PACKAGES.contains(&&*parts[0]);
        parts.pop_if(|last| last == "mod" || is_package && last == "lib");
        parts
    }

    fn room(&self) -> String {
        self.module().swap_remove(0)
    }

    /// Paths that the code names, from the root of a crate, and those in doc links to this crate.
    fn paths(&self) -> BTreeSet<String> {
        let (code, comments): (Vec<&str>, Vec<&str>) = self.product().lines().partition(|line| !line.trim_start().starts_with("//"));
        let (code, comments) = (code.join("\n"), comments.join("\n"));
        let mut paths = BTreeSet::new();
        for found in USE.captures_iter(&code).filter(|found| found.get(1).is_none()) {
            expand(&found[2].split_whitespace().collect::<Vec<_>>().join(" "), "", &mut paths);
        }
        let rest = USE.replace_all(&code, "");
        paths.extend(PATH.find_iter(&rest).map(|path| path.as_str().to_owned()));
        let of_ours = |path: &String| path.starts_with("crate::") || path.starts_with("toolmark_");
        paths.extend(PATH.find_iter(&comments).map(|path| path.as_str().to_owned()).filter(of_ours));
        let own = self.module();
        paths.into_iter().map(|path| absolute(&path, &own)).collect()
    }

    /// Rooms that it names, but for its own.
    fn imports(&self) -> BTreeSet<String> {
        let paths = self.paths().into_iter();
        let rooms = paths.filter_map(|path| Some(path.strip_prefix("crate::")?.split("::").next()?.to_owned()));
        rooms.filter(|room| *room != self.room() && is_room(room)).collect()
    }

    /// What it uses of the world outside.
    fn outside(&self) -> BTreeSet<&'static str> {
        let paths = self.paths();
        let begins = |path: &String, start: &str| path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        let uses = |starts: &[&str]| paths.iter().any(|path| starts.iter().any(|start| begins(path, start)));
        OUTSIDE.iter().filter(|(_, starts)| uses(starts)).map(|(name, _)| *name).collect()
    }
}

/// A folder or file right in a package; else the path names an item of its lib.rs.
fn is_room(name: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = PACKAGES.iter().map(|package| root.join(package)).chain([root.clone()]);
    folders.map(|folder| folder.join(name)).any(|path| path.is_dir() || path.with_extension("rs").is_file())
}

/// The paths of a use tree.
fn expand(tree: &str, prefix: &str, out: &mut BTreeSet<String>) {
    let tree = tree.trim();
    let Some(brace) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        out.insert(format!("{prefix}{}", path.trim_end_matches("::self").trim_end_matches("::*")));
        return;
    };
    let (head, body) = (&tree[..brace], &tree[brace + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut start) = (0, 0);
    for (at, sign) in body.char_indices().chain([(body.len(), ',')]) {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !body[start..at].trim().is_empty() {
                    expand(&body[start..at], &format!("{prefix}{}", head.trim()), out);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// A path from the root that all packages share: `super::x` in `a::b` is `crate::a::x`, and so are `toolmark_core::a::x` and, where the
/// room `a` is a package, its `crate::x`.
fn absolute(path: &str, own: &[String]) -> String {
    if let Some(rest) = path.strip_prefix("toolmark_") {
        let of_rooms = PACKAGES.iter().find_map(|package| rest.strip_prefix(package)?.strip_prefix("::"));
        return format!("crate::{}", of_rooms.unwrap_or(rest));
    }
    if let (Some(room), Some(rest)) = (own.first().filter(|room| ROOM_PACKAGES.contains(&&***room)), path.strip_prefix("crate::")) {
        return format!("crate::{room}::{rest}");
    }
    let ups = path.split("::").take_while(|part| *part == "super").count();
    let rest = path.split("::").skip(ups).collect::<Vec<_>>().join("::");
    let base = own.get(..own.len().saturating_sub(ups)).unwrap_or_default();
    match (ups, rest.strip_prefix("self::")) {
        (0, None) => rest,
        (0, Some(rest)) => format!("crate::{}::{rest}", own.join("::")),
        _ => ["crate"].into_iter().chain(base.iter().map(String::as_str)).chain([&*rest]).collect::<Vec<_>>().join("::"),
    }
}

/// Rooms and what they use, as the table in docs/architecture.md says.
fn table() -> Vec<(String, Vec<String>)> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| room |")).skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [room, .., uses] = cells[..] else { panic!("a row of the table of rooms: {line}") };
        let name = room.trim_matches('`').trim_end_matches('/').trim_end_matches(".rs").to_owned();
        (name, uses.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect())
    };
    rows.map(row).collect()
}

#[test]
fn files_say_what_they_are() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "{}: no module documentation", source.path.display());
    }
}

#[test]
fn the_page_on_architecture_has_the_rooms() {
    let own: Vec<(String, Vec<String>)> =
        ROOMS.iter().map(|(room, uses)| ((*room).to_owned(), uses.iter().map(ToString::to_string).collect())).collect();
    assert_eq!(own, table(), "the table in docs/architecture.md, or ROOMS here");
}

#[test]
fn a_room_imports_only_rooms_below_it() {
    let rank = |room: &str| ROOMS.iter().position(|(own, _)| *own == room);
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test() && !ROOTS.contains(&&*source.room())) {
        let own = rank(&source.room());
        assert!(own.is_some(), "{}: a room that isn't in the table of docs/architecture.md", source.path.display());
        for room in source.imports() {
            if rank(&room) >= own {
                wrong.push(format!("{}: `{room}` isn't below `{}`", source.path.display(), source.room()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_room_uses_of_the_world_outside_what_the_table_says() {
    let sources = sources();
    let mut wrong = Vec::new();
    for (room, uses) in ROOMS {
        let of_room = |source: &&Source| source.room() == *room && !source.is_test();
        let found: BTreeSet<&str> = sources.iter().filter(of_room).flat_map(Source::outside).collect();
        if found != uses.iter().copied().collect() {
            wrong.push(format!("{room}: {found:?}, not {uses:?}"));
        }
        for source in sources.iter().filter(of_room).filter(|_| uses.is_empty()) {
            let code = source.product().lines().filter(|line| !line.trim_start().starts_with("//"));
            assert!(!code.clone().any(|line| line.contains(".await")), "{}: waits, in a room that is pure", source.path.display());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let text = "//! See [`crate::admin`].\n\nuse std::{fs, time::{Duration, SystemTime as Clock}};\n\nuse super::x::{self, Y};\nuse crate::{wire::json, \
                judge as j};\n#[cfg(test)]\nuse crate::testing;\n\nfn f() { super::super::ledger::g(); tokio::spawn(h) }\n\
                // std::net::TcpListener\n#[cfg(test)]\nmod tests {\n    use crate::cli;\n}\n";
    let found = source("gateway/proxy/http/body.rs", text);
    assert_eq!(found.room(), "proxy");
    assert_eq!(found.imports().into_iter().collect::<Vec<_>>(), ["admin", "judge", "wire"]);
    assert_eq!(found.outside().into_iter().collect::<Vec<_>>(), ["clock", "files", "tokio"]);
    assert_eq!(absolute("super::super::ledger::g", &found.module()), "crate::proxy::ledger::g");
    let package = source(
        "settings/env/mod.rs",
        "use crate::upstreams::X;\nuse toolmark_core::{config, violation::Code};\nuse toolmark_cassette::body;",
    );
    assert_eq!(package.imports().into_iter().collect::<Vec<_>>(), ["cassette", "config", "violation"]);
    assert_eq!(source("settings/lib.rs", "").module(), ["settings"]);
    assert_eq!(source("gateway/proxy/mod.rs", "use super::admin;").imports().into_iter().collect::<Vec<_>>(), ["admin"]);
}
