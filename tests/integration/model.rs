//! Agent tasks with a real model, opt-in: behind toolmark's default at least as many right answers as without it, and no
//! invalid call. tests/model/README.md says what it needs.

use std::{env, process::Command};

#[test]
fn a_real_model_solves_no_less_behind_toolmark() {
    if env::var_os("TOOLMARK_MODEL").is_none() {
        eprintln!(
            "skipped: a_real_model_solves_no_less_behind_toolmark needs llama.cpp's server and TOOLMARK_MODEL=1 (tests/model/README.md)"
        );
        return;
    }
    let every = env::var("TOOLMARK_MODEL_EVERY").unwrap_or_else(|_| "3".to_owned());
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model/run.py");
    let arguments = [run, "--toolmark", env!("CARGO_BIN_EXE_toolmark"), "--behind", "alone,default", "--every", &every, "--check"];
    let status = Command::new("python3").arg("-B").args(arguments).status().expect("python3 runs");
    assert!(status.success(), "toolmark does harm, or the model can't be reached: see above");
}
