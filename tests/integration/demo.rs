//! `toolmark demo` as people run it.

use std::process::Command;

use crate::{
    harness::post,
    program::{Running, command, finish},
};

#[test]
fn every_scene_is_caught_whole_and_streamed() {
    let directory = tempfile::tempdir().unwrap();
    let demo = finish(&["demo"], directory.path());
    assert_eq!((demo.code, &*demo.stderr), (Some(0), ""), "{}", demo.stdout);
    let rows: Vec<&str> = demo.stdout.lines().filter(|line| line.contains("✅")).collect();
    for (mode, count) in [("whole", 20), ("streamed", 20)] {
        assert_eq!(rows.iter().filter(|row| row.contains(&format!(" {mode} "))).count(), count, "{}", demo.stdout);
    }
    assert!(!demo.stdout.contains('❌') && demo.stdout.contains("40 of 40"), "{}", demo.stdout);
    for number in 1..=20 {
        assert!(rows.iter().any(|row| row.starts_with(&format!("{number} "))), "no scene {number}:\n{}", demo.stdout);
    }
    for code in [
        "unknown_tool",
        "malformed_arguments",
        "missing_required",
        "unknown_execution",
        "missing_execution_id",
        "tool_mismatch",
        "altered_call",
        "upstream_protocol",
        "state_mismatch",
    ] {
        assert!(demo.stdout.contains(code), "no {code}:\n{}", demo.stdout);
    }
    assert!(!demo.stdout.contains('\u{1b}'), "colours, though this is no terminal");
    assert!(demo.stdout.lines().all(|line| line.chars().count() <= 100), "a line is too long:\n{}", demo.stdout);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn keep_serves_until_it_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Running::start(command(&["demo", "--keep"], directory.path()));
    let curl = demo.line_with(r#""model":"never-mends""#);
    demo.line_with("Ctrl-C");
    let url = curl.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    let body = curl[curl.find("-d '").unwrap() + 4..].trim_end_matches('\'').replace(r"'\''", "'");
    let answer = post(&url, &body, "");
    assert_eq!((answer.status, answer.header("toolmark-verdict")), (200, "blocked"), "{answer:?}");
    if Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success()) {
        let mid_stream = demo.line_with(r#""model":"forged-in-mid-stream""#);
        let output = Command::new("sh").arg("-c").arg(mid_stream).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("unknown_execution") && text.trim_end().ends_with("data: [DONE]"), "{text}");
    }
    demo.signal("INT");
    assert_eq!(demo.end().code, Some(0));
}
