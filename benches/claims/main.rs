//! The benchmark of claims: labelled answers, honest and fabricated, judged by the product's own core.
//!
//! `cargo bench --bench claims` reports on the half that is kept for reporting; `-- train` on the other, which may be tuned
//! on, with what was missed; `-- written [default] FILE…` on the answers of files, one JSON object a line (see `written.rs`), under the strict policy
//! or the default one. How the cases are made: `cases.rs`; what they are made of: the data files beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

mod cases;
mod score;
mod world;
mod written;

use std::time::Duration;

use cases::Case;
use rustix::time::{ClockId, clock_gettime};
use score::{Tally, tally};
use toolmark::policy::load::PolicySource;
use world::{Ran, World};

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Judgements timed for one figure.
const ROUNDS: usize = 600;

fn main() {
    let train = std::env::args().any(|argument| argument == "train");
    if let Some(at) = std::env::args().position(|argument| argument == "written") {
        let (words, files): (Vec<String>, Vec<String>) =
            std::env::args().skip(at + 1).filter(|argument| !argument.starts_with("--")).partition(|argument| argument == "default");
        let policy = if words.is_empty() { PolicySource::Strict } else { PolicySource::Default };
        return written::report(&World::under(&policy), &files);
    }
    let world = World::new();
    let all = cases::cases(&world);
    let half: Vec<&Case> = all.iter().filter(|case| case.held_out != train).collect();
    println!("{} cases, {} in the {} half", all.len(), half.len(), if train { "tuned" } else { "held-out" });
    let tally = tally(&world, &half);
    println!("{}", table(&tally));
    if train {
        tally.wrong.iter().for_each(|wrong| println!("{wrong}"));
    }
    let [median, p99] = time(&world, &all);
    println!("an answer of 4 KB against 20 executions, CPU time: median {median:?}, p99 {p99:?}");
}

fn table(tally: &Tally) -> String {
    let mut out =
        String::from("| category | fabricated | recall | honest | false alarms | precision | µs each |\n|---|---|---|---|---|---|---|\n");
    for (category, count) in tally.categories.iter().chain([(&"all".to_owned(), &tally.all())]) {
        let share =
            |part: usize, whole: usize| if whole == 0 { "–".to_owned() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) };
        out.push_str(&format!(
            "| {category} | {} | {} | {} | {} | {} | {:.0} |\n",
            count.fabricated,
            share(count.found, count.fabricated),
            count.honest,
            share(count.alarms, count.honest),
            share(count.found, count.found + count.alarms),
            count.taken.as_secs_f64() * 1e6 / (count.fabricated + count.honest).max(1) as f64,
        ));
    }
    out
}

/// CPU time of judging 4 KB against twenty executions that were not read before.
fn time(world: &World, all: &[Case]) -> [Duration; 2] {
    let mut ran: Vec<Ran> = Vec::new();
    let mut answer = String::new();
    for case in all.iter().filter(|case| case.expect.is_empty() && case.category == "value" && case.answer.is_ascii()) {
        let Some(own) = case.ran.first() else { continue };
        if ran.len() < 20 && !ran.iter().any(|other| other.tool == own.tool) {
            ran.push(own.clone());
        }
    }
    let mut number = 0;
    while answer.len() < 4096 {
        let tool = &ran[number % ran.len()];
        let id = world.id(&tool.tool, (number % ran.len()) as u16);
        answer.push_str(&format!(
            "The result says that it is {} here (execution_id: {id}). I found 3 things of many kinds.\n\n",
            17 + number
        ));
        number += 1;
    }
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let context = world.context(&ran, "Please look.");
            let before = now();
            let found = world::judge(&context, &answer, usize::MAX);
            let taken = now() - before;
            assert!(found.len() < 1000);
            taken
        })
        .collect();
    times.sort_unstable();
    [times[ROUNDS / 2], times[ROUNDS * 99 / 100]]
}
