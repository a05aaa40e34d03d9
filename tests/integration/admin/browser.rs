//! The inspector in Chromium, with real traffic of the scripted upstream: `tests/browser/inspector.mjs` plays, this judges what it prints. And
//! the committed page against its source.

use std::{fs, path::Path, process::Command, time::Duration};

use serde_json::Value;

use super::stage::Stage;
use crate::{
    clients::runtimes::{modules, repository, skipped},
    harness,
};

/// Longest that the browser may take.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Scenes that must be played.
const SCENES: [&str; 13] = [
    "token",
    "live",
    "time",
    "filters",
    "three_keys_to_the_marked_argument",
    "exchange",
    "why_it_was_changed",
    "pages",
    "ledger",
    "what_if",
    "reconnect",
    "narrow_and_dark",
    "hostile_text_is_never_markup",
];

fn chromium() -> &'static str {
    let found =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].into_iter().find(|path| Path::new(path).exists());
    found.expect("chromium is missing: apt install chromium; or set TOOLMARK_SKIP_CLIENTS=1 to leave the browser out")
}

/// Runs Node beside the modules of tests/browser.
fn play(script: &str, environment: &[(&str, &str)]) -> Value {
    let (directory, modules) = (tempfile::tempdir().unwrap(), modules("browser", "tests/browser"));
    std::os::unix::fs::symlink(&modules, directory.path().join("node_modules")).unwrap();
    let copy = directory.path().join(script);
    fs::copy(repository("tests/browser").join(script), &copy).unwrap();
    let mut command = tokio::process::Command::new("node");
    command.arg(&copy).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", directory.path());
    command.env("CHROMIUM", chromium()).envs(environment.iter().copied()).current_dir(directory.path()).kill_on_drop(true);
    let output =
        harness::run(async { tokio::time::timeout(TIME_MAX, command.output()).await }).expect("the browser takes too long").unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{}: {out}\n{error}", output.status))
}

#[test]
fn the_inspector_in_a_browser() {
    if skipped("admin::browser::the_inspector_in_a_browser") {
        return;
    }
    let settings = "recent = 1000\n[ledger]\nurl = \"sqlite:browser.db\"\n";
    let stage = Stage::with_environment("default", settings, &[("TOOLMARK_ADMIN_TOKEN", "s3cret")]);
    let (admin, base) = (stage.url("/"), stage.proxy.base_url());
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inspector");
    let environment = [("ADMIN_URL", &*admin), ("BASE_URL", &base), ("TOKEN", "s3cret"), ("SHOTS", shots.to_str().unwrap())];
    let results = play("inspector.mjs", &environment);
    let faults: Vec<String> = results
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, fault)| !fault.is_null())
        .map(|(scene, fault)| format!("{scene}: {fault}"))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}; pictures are in {}", shots.display());
    for scene in SCENES {
        assert!(results.as_object().unwrap().contains_key(scene), "{scene} wasn't played");
    }
}

#[test]
fn the_committed_page_is_that_of_its_source() {
    if skipped("admin::browser::the_committed_page_is_that_of_its_source") {
        return;
    }
    let source = repository("src/admin/web");
    let modules = modules("inspector", "src/admin/web");
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&modules, directory.path().join("node_modules")).unwrap();
    for file in ["index.html", "package.json", "tsconfig.json", "vite.config.ts"] {
        fs::copy(source.join(file), directory.path().join(file)).unwrap();
    }
    copy(&source.join("src"), &directory.path().join("src"));
    let run = |arguments: &[&str]| {
        let output = Command::new("node").args(arguments).current_dir(directory.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}\n{}", text(&output.stdout), text(&output.stderr));
    };
    run(&["node_modules/typescript/bin/tsc", "--noEmit"]);
    run(&["node_modules/vite/bin/vite.js", "build"]);
    for file in ["index.html", "app.js", "app.css"] {
        let (built, committed) =
            (fs::read(directory.path().join("dist").join(file)).unwrap(), fs::read(source.join("dist").join(file)).unwrap());
        assert!(
            built == committed,
            "{file} isn't what its source gives: npm ci && npm run build in src/admin/web, and commit src/admin/web/dist"
        );
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
