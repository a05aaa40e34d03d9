//! Honest runs of agent frameworks: directly at a scripted model, behind the default policy and behind the strict one.
//! `tests/frameworks/run.py` plays and judges them; by hand it says more.
//!
//! They need gigabytes of packages and minutes, so that they run only where they are asked for: `TOOLMARK_FRAMEWORKS=1` runs all,
//! `TOOLMARK_FRAMEWORKS=light` those of [`light`].

use std::{io::Write as _, path::Path, process::Command};

use crate::clients::runtimes;

/// Are they left out? Then it is said where no test harness hides it.
fn skipped(what: &str, light: bool) -> bool {
    let wanted = std::env::var("TOOLMARK_FRAMEWORKS").unwrap_or_default();
    let run = wanted == "1" || (light && wanted == "light");
    if !run {
        let line = format!("SKIPPED: {what} (TOOLMARK_FRAMEWORKS=1 runs it)\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    !run
}

/// Plays these applications; nothing may differ that mustn't.
fn play(options: &[&Path], frameworks: &[&str]) {
    let mut command = Command::new("python3");
    command.arg(runtimes::repository("tests/frameworks/run.py")).arg("--toolmark").arg(env!("CARGO_BIN_EXE_toolmark"));
    command.args(options).args(frameworks).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    println!("{}", text(&output.stdout));
}

fn play_python(name: &str, lock: &str, frameworks: &[&str]) {
    let python = runtimes::environment(name, &format!("tests/frameworks/locks/{lock}"));
    play(&[Path::new("--python"), &python], frameworks);
}

/// What CI runs: one environment, installed and played in less than three minutes.
#[test]
fn light() {
    if !skipped("frameworks::light", true) {
        play_python("frameworks-light", "light.txt", &["smolagents", "agno", "haystack", "autogen", "langgraph", "magentic", "instructor"]);
    }
}

/// Frameworks that need version 2 of the openai client.
#[test]
fn openai_2() {
    if !skipped("frameworks::openai_2", false) {
        play_python("frameworks-openai2", "openai2.txt", &["strands", "llama_index", "dspy", "litellm", "adk"]);
    }
}

#[test]
fn semantic_kernel() {
    if !skipped("frameworks::semantic_kernel", false) {
        play_python("frameworks-semantic-kernel", "semantic_kernel.txt", &["semantic_kernel"]);
    }
}

#[test]
fn crewai() {
    if !skipped("frameworks::crewai", false) {
        play_python("frameworks-crewai", "crewai.txt", &["crewai"]);
    }
}

#[test]
fn javascript() {
    if !skipped("frameworks::javascript", false) {
        let modules = runtimes::modules("frameworks-node", "tests/frameworks/locks/node");
        play(&[Path::new("--node-modules"), &modules], &["langchain_js", "openai_agents_js", "mastra"]);
    }
}
