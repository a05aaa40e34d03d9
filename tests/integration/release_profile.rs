//! What cargo runs in place of rustc (`.cargo/rustc`): profiles only where something is optimised, and only those of the same rustc.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

/// What stands in for rustc says its version, or its arguments, one a line.
const RUSTC: &str = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'rustc 9.8.7 (0123456 2026-01-01)'; else printf '%s\\n' \"$@\"; fi\n";

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What rustc is called with in the end.
fn called(directory: &Path, arguments: &[&str], into: Option<&str>) -> Vec<String> {
    let mut command = Command::new(directory.join("wrapper"));
    command.arg(directory.join("rustc")).args(arguments).env_remove("TOOLMARK_PROFILE_INTO");
    command.envs(into.map(|into| ("TOOLMARK_PROFILE_INTO", into)));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn what_is_optimised_is_built_with_the_profile_of_its_rustc() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    executable(&directory.join("wrapper"), &fs::read_to_string(repository.join(".cargo/rustc")).unwrap());
    executable(&directory.join("rustc"), RUSTC);
    let plain = ["--crate-name", "a b", "-C", "debuginfo=2"];
    let optimised = ["--crate-name", "a b", "-C", "opt-level=3", "-C", "debuginfo=2"];
    let with = |more: &[&str]| optimised.iter().chain(more).map(|own| (*own).to_owned()).collect::<Vec<_>>();

    fs::write(directory.join("rustc-9.8.6.profdata"), "of another").unwrap();
    assert_eq!(called(directory, &optimised, None), optimised);
    let profile = directory.join("rustc-9.8.7.profdata");
    fs::write(&profile, "its own").unwrap();
    let uses = format!("-Cprofile-use={}", profile.display());
    assert_eq!(called(directory, &optimised, None), with(&[&uses, "-Cllvm-args=-no-pgo-warn-mismatch"]));
    assert_eq!(called(directory, &optimised, Some("/there")), with(&["-Cprofile-generate=/there"]));
    assert_eq!(called(directory, &plain, None), plain);
    assert_eq!(called(directory, &plain, Some("/there")), plain);
}

#[test]
fn the_profile_is_one_that_compilers_take() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = fs::read_to_string(repository.join(".cargo/config.toml")).unwrap();
    assert!(config.contains("\n[build]\nrustc-wrapper = \".cargo/rustc\"\n"), "{config}");
    let files = fs::read_dir(repository.join(".cargo")).unwrap().map(|file| file.unwrap().path());
    let profiles: Vec<_> = files.filter(|file| file.extension().is_some_and(|own| own == "profdata")).collect();
    let [profile] = &profiles[..] else { panic!("one profile, and none that is left over: {profiles:?}") };
    let bytes = fs::read(profile).unwrap();
    // The magic number of LLVM's indexed profiles.
    assert!(bytes.starts_with(b"\xfflprofi\x81"), "{:?}", &bytes[..8]);
}
