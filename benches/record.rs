//! What recording costs: the exchange with and without `[record]`.
//!
//! `cargo bench --bench record` prints figures and asserts none; compare those of one run only. `TOOLMARK_BENCH_SECONDS`: how
//! long each run of exchanges lasts (3).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

#[path = "common/served.rs"]
mod served;

use std::time::Duration;

use toolmark_allocator as _;

fn main() {
    // `cargo test --all-targets` starts it too, and asks for nothing of this.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let time = Duration::from_secs(served::setting("TOOLMARK_BENCH_SECONDS", 3));
    let ledger = "[ledger]\nurl = \"memory:\"";
    let settings = [ledger.to_owned(), format!("{ledger}\n[record]\npath = \"session.jsonl\"")];
    let upstream = served::upstream(&served::chat_call());
    let costs = served::costs_of(&settings.map(|settings| (settings, upstream, served::chat_call())), 3, time);
    if let [without, with] = costs[..] {
        println!(
            "an exchange: {without:.1} µs CPU, recorded {with:.1} µs, {:.2} times; cutting, taking secrets out and writing included",
            with / without
        );
    }
}
