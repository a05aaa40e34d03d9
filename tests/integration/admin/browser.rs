//! The inspector in Chromium, with real traffic of the scripted upstream: the scripts of `tests/browser` play, this judges what they print.
//! And the committed page against its source.

use std::{fs, io::Write as _, path::Path, process::Command, time::Duration};

use serde_json::Value;

use super::stage::Stage;
use crate::{
    clients::runtimes::{modules, repository, skipped},
    harness,
};

/// Longest that the browser may take.
const TIME_MAX: Duration = Duration::from_secs(400);

/// Scenes that must be played.
const INSPECTOR: [&str; 15] = [
    "token",
    "live",
    "time",
    "filters",
    "three_keys_to_the_marked_argument",
    "exchange",
    "why_it_was_changed",
    "copies",
    "pages",
    "long_lists",
    "states_that_are_seldom",
    "ledger",
    "what_if",
    "reconnect",
    "narrow_and_dark",
];
const HOSTILE: [&str; 6] = [
    "every_payload_is_sent",
    "every_exchange_is_shown_as_text",
    "lists_filters_and_addresses",
    "policies_and_ids",
    "every_text_of_every_answer",
    "a_markup_error_would_be_seen",
];
const PICTURES: [&str; 2] = ["traffic", "pictures"];

/// Two callers: `key-support` and `key-hostile`, by the SHA-256 of their keys.
const SUPPORT: &str = "[[clients]]
name = \"support-bot\"
key_sha256 = \"58790b87a183f1acbd3c9f92321ec1eccb8a3c14140bf529d11ab2130e1835c0\"
";
const HOSTILE_CLIENT: &str = "[[clients]]
name = \"<img src=x onerror=alert(1)>\"
key_sha256 = \"691aef66e7de9896893433f111497ae7981dfc7fe6f7ec59feb64fef8019560f\"
";
/// A policy like the default one, whose text is hostile, too.
const POLICY: &str = "mode = \"enforce\"\n# </textarea><script>alert(1)</script><img src=x onerror=alert(1)>\n";

fn chromium() -> &'static str {
    let found =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].into_iter().find(|path| Path::new(path).exists());
    found.expect("chromium is missing: apt install chromium; or set TOOLMARK_SKIP_CLIENTS=1 to leave the browser out")
}

/// Runs a script of tests/browser in Node.
fn play(script: &str, environment: &[(&str, &str)]) -> Value {
    let (directory, modules) = (tempfile::tempdir().unwrap(), modules("browser", "tests/browser"));
    std::os::unix::fs::symlink(&modules, directory.path().join("node_modules")).unwrap();
    for entry in fs::read_dir(repository("tests/browser")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let mut command = tokio::process::Command::new("node");
    command.arg(script).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", directory.path());
    command.env("CHROMIUM", chromium()).envs(environment.iter().copied()).current_dir(directory.path()).kill_on_drop(true);
    // For work on the scripts and the page: tests/browser/README.md.
    command.envs(std::env::vars().filter(|(name, _)| name.starts_with("INSPECTOR_")));
    let output =
        harness::run(async { tokio::time::timeout(TIME_MAX, command.output()).await }).expect("the browser takes too long").unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    std::io::stderr().write_all(error.as_bytes()).unwrap();
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{}: {out}\n{error}", output.status))
}

/// Plays all scenes of a script on this stage, and checks that each went well.
fn plays(script: &str, scenes: &[&str], stage: &Stage) {
    let (admin, base) = (stage.url("/"), stage.proxy.base_url());
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inspector");
    let images = repository("docs/images");
    let environment = [
        ("ADMIN_URL", &*admin),
        ("BASE_URL", &base),
        ("TOKEN", "s3cret"),
        ("SHOTS", shots.to_str().unwrap()),
        ("IMAGES", images.to_str().unwrap()),
    ];
    let results = play(script, &environment);
    let results = results.as_object().unwrap();
    let faults: Vec<String> =
        results.iter().filter(|(_, fault)| !fault.is_null()).map(|(scene, fault)| format!("{scene}: {fault}")).collect();
    assert!(faults.is_empty(), "{faults:#?}; pictures are in {}", shots.display());
    for scene in scenes.iter().filter(|_| std::env::var_os("INSPECTOR_ONLY").is_none()) {
        assert!(results.contains_key(*scene), "{scene} wasn't played");
    }
}

fn stage(policy: &str, recent: usize, clients: &str) -> Stage {
    let settings = format!("recent = {recent}\n[ledger]\nurl = \"sqlite:browser.db\"\n{clients}");
    Stage::with_environment(policy, &settings, &[("TOOLMARK_ADMIN_TOKEN", "s3cret")])
}

#[test]
fn the_inspector_in_a_browser() {
    if !skipped("admin::browser::the_inspector_in_a_browser") {
        let stage = stage("default", 1000, SUPPORT);
        plays("inspector.mjs", &INSPECTOR, &stage);
        copies_run(&stage);
    }
}

/// Runs what the page gave to be copied: the exchange of a tool that doesn't exist.
fn copies_run(stage: &Stage) {
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inspector");
    let run = |script: &str| {
        let program = Path::new(env!("CARGO_BIN_EXE_toolmark")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).current_dir(&shots).env("PATH", path).env("OPENAI_API_KEY", "key-support");
        bash.env("OPENAI_BASE_URL", stage.proxy.base_url()).output().map(crate::program::Finished::from).unwrap()
    };
    let judged = run("source judge.sh");
    assert!(judged.code == Some(1) && judged.stdout.contains("unknown_tool"), "{judged:?}");
    let answered = run("source curl.sh");
    let message = &serde_json::from_str::<Value>(&answered.stdout).unwrap()["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["function"]["name"], "get_weather", "{answered:?}");
    let replayed = run("toolmark replay saved.jsonl");
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
}

#[test]
fn the_page_has_its_words_in_one_file() {
    let mut files = vec![repository("src/admin/web/src/main.tsx"), repository("src/admin/web/src/ui.tsx")];
    files.extend(fs::read_dir(repository("src/admin/web/src/views")).unwrap().map(|entry| entry.unwrap().path()));
    assert!(files.len() >= 5, "{files:?}");
    // Text beside a tag or a value, that is no code.
    let words = regex::Regex::new(r"[>}] ?([A-Za-z][A-Za-z' ]{2,}[.:?]?) ?(?:</|<[a-z]|\{)").unwrap();
    let is_code = |text: &str| {
        ["catch", "interface", "export", "function", "return", "else", "const", "HTTP"].iter().any(|own| text.starts_with(own))
    };
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let found = words.captures_iter(&source).filter_map(|found| found.get(1)).map(|found| found.as_str());
        let prose: Vec<&str> = found.filter(|text| !is_code(text)).collect();
        assert!(prose.is_empty(), "{}: {prose:?} belongs into src/text.ts", file.display());
    }
}

#[test]
fn hostile_text_is_never_markup() {
    if !skipped("admin::browser::hostile_text_is_never_markup") {
        plays("hostile.mjs", &HOSTILE, &stage(POLICY, 2000, &format!("{SUPPORT}{HOSTILE_CLIENT}")));
    }
}

#[test]
fn the_pages_look_as_the_docs_show_them() {
    if !skipped("admin::browser::the_pages_look_as_the_docs_show_them") {
        plays("pictures.mjs", &PICTURES, &stage("default", 200, SUPPORT));
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
