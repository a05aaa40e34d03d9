//! The benchmark of claims: labelled answers, honest and fabricated, judged by the product's own core.
//!
//! `cargo bench --bench claims` reports on the half that is kept for reporting; `-- train` on the other, which may be tuned
//! on, with what was missed; `-- written [default] FILE…` on the answers of files, one JSON object a line (see `written.rs`), under the strict policy
//! or the default one; `-- verdicts [default] [FILE…]` prints a digest of all that is found in each answer (of the files, or made by rule), to compare two builds; `-- time` what judging
//! costs, alone. How the cases are made: `cases.rs`; what they are made of: the data files beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, reason = "a benchmark fails by a panic")]

mod cases;
mod score;
mod world;
mod written;

use std::{sync::Arc, time::Duration};

use cases::Case;
use rustix::time::{ClockId, clock_gettime};
use score::{Tally, tally};
use serde_json::json;
use toolmark::{exchange::context::Context, policy::load::PolicySource};
use world::{Ran, World};

// As in the program.
use toolmark_allocator as _;

/// Judgements timed for one figure.
const ROUNDS: usize = 600;

fn main() {
    let train = std::env::args().any(|argument| argument == "train");
    if let Some(at) = std::env::args().position(|argument| argument == "written" || argument == "verdicts") {
        let (words, files): (Vec<String>, Vec<String>) =
            std::env::args().skip(at + 1).filter(|argument| !argument.starts_with("--")).partition(|argument| argument == "default");
        let policy = if words.is_empty() { PolicySource::Strict } else { PolicySource::Default };
        let world = World::under(&policy);
        return match std::env::args().nth(at).as_deref() {
            Some("verdicts") if files.is_empty() => verdicts(&world),
            Some("verdicts") => written::verdicts(&world, &files),
            _ => written::report(&world, &files),
        };
    }
    let world = World::new();
    let all = cases::cases(&world);
    if std::env::args().any(|argument| argument == "time") {
        return times(&world, &all);
    }
    let half: Vec<&Case> = all.iter().filter(|case| case.held_out != train).collect();
    println!("{} cases, {} in the {} half", all.len(), half.len(), if train { "tuned" } else { "held-out" });
    let tally = tally(&world, &half);
    println!("{}", table(&tally));
    if train {
        tally.wrong.iter().for_each(|wrong| println!("{wrong}"));
    }
    times(&world, &all);
}

/// Prints a digest of all that is found in each answer made by rule.
fn verdicts(world: &World) {
    for case in cases::cases(world) {
        let context = world.context(&case.ran, &case.asked);
        let found = [usize::MAX, 7].map(|characters| world::violations(&context, &case.answer, characters));
        println!("{} {}", case.name, written::digest(&found));
    }
}

/// Prints what judging costs. `TOOLMARK_BENCH_ROUNDS`: judgements for one figure (600); `TOOLMARK_BENCH_ONLY`: `20`, `1` or `50`, one figure.
fn times(world: &World, all: &[Case]) {
    let only = std::env::var("TOOLMARK_BENCH_ONLY").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only == name;
    if wanted("20") {
        let [median, p99] = against_executions(world, all);
        println!("an answer of 4 KB against 20 executions, CPU time: median {median:?}, p99 {p99:?}");
    }
    for pieces in [1, 50].into_iter().filter(|pieces| wanted(&pieces.to_string())) {
        let [median, p99] = without_executions(pieces);
        println!("an answer of {} bytes in {pieces} pieces, nothing ran, CPU time: median {median:?}, p99 {p99:?}", PLAIN.len());
    }
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
fn against_executions(world: &World, all: &[Case]) -> [Duration; 2] {
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
    time(|| world.context(&ran, "Please look."), &answer, 1)
}

/// An ordinary answer.
const PLAIN: &str = "Sure, happy to help with your trip. Paris in March is often cool and changeable, so a light jacket and a scarf are a good idea, and comfortable shoes matter more than an umbrella. The old town is best seen on foot: start at the river, cross the island, and follow the small streets up the hill. Most museums close one day a week, and the large ones are quieter in the evening. If you tell me the day and the part of town where you stay, I can look up the weather and plan a route that fits it for you.";

/// CPU time of judging an ordinary answer of an exchange with three tools, none of which ran, in so many pieces, under the default policy.
fn without_executions(pieces: usize) -> [Duration; 2] {
    let world = World::under(&PolicySource::Default);
    let tools = [
        ("get_weather", "Current weather of a city. Call it whenever somebody asks for temperature, rain, wind or what to wear."),
        ("search_orders", "Finds the orders of a customer by any mix of filters, newest first."),
        ("create_ticket", "Opens a ticket. Never call it twice for the same problem in one conversation."),
    ];
    let tools = tools.map(|(name, about)| json!({"type": "function", "function": {"name": name, "description": about}}));
    let messages = [
        json!({"role": "system", "content": "You help the customers of a small shop for outdoor clothing. Be brief and exact."}),
        json!({"role": "user", "content": "I go to Paris this evening. What should I wear, and where should I walk?"}),
    ];
    time(|| world.exchange(&messages, &tools), PLAIN, pieces)
}

/// CPU time of judging an answer in so many pieces: median and p99.
fn time(context: impl Fn() -> Arc<Context>, answer: &str, pieces: usize) -> [Duration; 2] {
    let rounds: usize = std::env::var("TOOLMARK_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    // Profilers that count instructions know no such clock.
    let clockless = std::env::args().any(|argument| argument == "clockless");
    let now = || match clockless {
        true => Duration::ZERO,
        false => {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        }
    };
    let characters = answer.chars().count().div_ceil(pieces);
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let context = context();
            let before = now();
            let found = world::judge(&context, answer, characters);
            let taken = now() - before;
            assert!(found.len() < 1000);
            taken
        })
        .collect();
    times.sort_unstable();
    [times[rounds / 2], times[rounds * 99 / 100]]
}
