//! docs/settings.md names every setting that the program knows, and no other.

use std::collections::BTreeSet;

use toolmark::settings::{self, Environment, Flags};

const PAGE: &str = include_str!("../../docs/settings.md");
const UPSTREAM: &str = "[[upstreams]]\nname = 'a'\nbase_url = 'http://a/v1'\n";

/// The tables of the page in their order: each as the settings in which `zzz` is an unknown key of it.
const TABLES: [&str; 17] = [
    "zzz = 1",
    "[[upstreams]]\nzzz = 1",
    "[[upstreams]]\nname = 'a'\nbase_url = 'http://a/v1'\n[upstreams.timeouts]\nzzz = 1",
    "[[clients]]\nzzz = 1",
    "[[clients]]\n[clients.rate]\nzzz = 1",
    "[ledger]\nzzz = 1",
    "[counters]\nzzz = 1",
    "[marks]\nzzz = 1",
    "[[mcp]]\nzzz = 1",
    "[admin]\nzzz = 1",
    "[[alerts]]\nzzz = 1",
    "[limits]\nzzz = 1",
    "[record]\nzzz = 1",
    "[replay]\nzzz = 1",
    "[[faults]]\nzzz = 1",
    "[verifier]\nzzz = 1",
    "[log]\nzzz = 1",
];

/// The keys that the program says it knows there.
fn known(text: &str) -> BTreeSet<String> {
    let directory = tempfile::tempdir().unwrap();
    let own = if text.contains("[[upstreams]]") { "" } else { UPSTREAM };
    std::fs::write(directory.path().join("toolmark.toml"), format!("{text}\n{own}")).unwrap();
    let error = settings::load(&Flags::default(), &Environment::of(&[]), directory.path()).unwrap_err().to_string();
    let (_, known) = error.split_once("known here: ").unwrap_or_else(|| panic!("{text}: {error}"));
    known.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
}

/// The keys in the first column of each table of the page.
fn tables() -> Vec<BTreeSet<String>> {
    let mut tables: Vec<BTreeSet<String>> = Vec::new();
    let mut open = false;
    for line in PAGE.lines() {
        match line.strip_prefix("| ") {
            Some("key | where it isn't written | what it is |") => {
                tables.push(BTreeSet::new());
                open = true;
            }
            Some(row) if open => {
                let first = row.split(" |").next().unwrap_or_default();
                tables.last_mut().unwrap().extend(first.split(", ").map(|key| key.trim_matches('`').to_owned()));
            }
            Some(_) => {}
            None => open &= line.starts_with("|--"),
        }
    }
    tables
}

#[test]
fn the_page_names_every_setting() {
    let pages = tables();
    assert_eq!(pages.len(), TABLES.len(), "{pages:?}");
    for (text, page) in TABLES.into_iter().zip(pages) {
        let mut expected = known(text);
        if text == TABLES[0] {
            // They have tables of their own.
            let sections = ["upstreams", "clients", "ledger", "counters", "marks", "mcp", "admin", "alerts", "limits", "record", "replay"];
            sections.iter().chain(&["faults", "verifier", "log"]).for_each(|section| assert!(expected.remove(*section), "{section}"));
        }
        assert_eq!(page, expected, "{text}");
    }
}
