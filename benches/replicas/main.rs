//! What several replicas on one PostgreSQL cost, next to one replica on SQLite and in memory; what one PostgreSQL bears; and where many
//! replicas break first.
//!
//! `cargo bench --bench replicas` prints figures and asserts none; compare those of one run only. It starts a PostgreSQL of its own, which
//! syncs to the disk. `TOOLMARK_BENCH_SECONDS`: how long each run of exchanges lasts (3), `TOOLMARK_BENCH_ROUNDS`: how many there are (5).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]
#![allow(clippy::indexing_slicing, reason = "a benchmark fails by a panic")]

mod agents;
mod database;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/integration/postgres.rs"]
mod postgres;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/integration/program.rs"]
mod program;
#[allow(dead_code, reason = "other benchmarks use more of it")]
#[path = "../common/served.rs"]
mod served;
mod simulation;

use std::time::Duration;

use toolmark_allocator as _;

fn main() {
    // `cargo test --all-targets` starts it too, and asks for nothing of this.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let time = Duration::from_secs(served::setting("TOOLMARK_BENCH_SECONDS", 3));
    let rounds = served::setting("TOOLMARK_BENCH_ROUNDS", 5) as usize;
    agents::print(rounds, time);
    let costs = database::print(time);
    simulation::print(&costs);
}
