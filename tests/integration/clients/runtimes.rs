//! Python and Node with the real clients, made once under `target/clients` from the lock files of `tests/clients`.
//!
//! `TOOLMARK_SKIP_CLIENTS=1` leaves out what needs them, and says so.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::harness;

/// Longest that a script may take.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(120);

/// A file or directory of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Are tests with real clients left out? Then it is said where no test harness hides it.
pub fn skipped(what: &str) -> bool {
    let skip = std::env::var_os("TOOLMARK_SKIP_CLIENTS").is_some_and(|value| !value.is_empty() && value != "0");
    if skip {
        let line = format!("SKIPPED: {what} (TOOLMARK_SKIP_CLIENTS is set)\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    skip
}

/// The interpreter of an environment with `tests/clients/requirements.txt`.
pub fn python() -> PathBuf {
    environment("venv", "tests/clients/requirements.txt")
}

/// The interpreter of an environment of Python's with this lock.
pub fn environment(name: &str, lock: &str) -> PathBuf {
    let version = tool("python3", "apt install python3 python3-venv");
    let lock = repository(lock);
    let directory = made(name, &version, &[&lock], |directory| {
        if directory.exists() {
            fs::remove_dir_all(directory).unwrap();
        }
        install(Command::new("python3").args(["-m", "venv"]).arg(directory), "apt install python3-venv");
        // The lock is whole; without a resolver pip takes exactly what it says.
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r"];
        install(Command::new(directory.join("bin/python")).args(pip).arg(&lock), "see above");
    });
    directory.join("bin/python")
}

/// A directory whose `node_modules` are those of `tests/clients/package-lock.json`.
pub fn node_modules() -> PathBuf {
    modules("node", "tests/clients")
}

/// The `node_modules` of a directory with a lock.
pub fn modules(name: &str, locked: &str) -> PathBuf {
    let version = tool("node", "apt install nodejs npm, Node 20 or later");
    tool("npm", "apt install npm");
    let mut locks = ["package.json", "package-lock.json"].map(|name| repository(locked).join(name)).to_vec();
    locks.push(repository("tests/clients/.npmrc"));
    let directory = made(name, &version, &locks.iter().collect::<Vec<_>>(), |directory| {
        fs::create_dir_all(directory).unwrap();
        for lock in &locks {
            fs::copy(lock, directory.join(lock.file_name().unwrap())).unwrap();
        }
        let npm = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
        install(Command::new("npm").args(npm).current_dir(directory), "see above");
    });
    directory.join("node_modules")
}

/// The version of a tool that must be there.
fn tool(name: &str, remedy: &str) -> String {
    let missing = format!("{name} is missing: {remedy}; or set TOOLMARK_SKIP_CLIENTS=1 to leave the real clients out");
    let output = Command::new(name).arg("--version").output().unwrap_or_else(|error| panic!("{missing} ({error})"));
    assert!(output.status.success(), "{missing}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn install(command: &mut Command, remedy: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}\n{remedy}", text(&output.stdout), text(&output.stderr));
}

/// A directory under `target/clients`, made anew where its stamp isn't that of the lock files: by one
/// process at a time.
fn made(name: &str, version: &str, locks: &[&PathBuf], make: impl FnOnce(&Path)) -> PathBuf {
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("clients");
    fs::create_dir_all(&clients).unwrap();
    let guard = File::create(clients.join(format!("{name}.lock"))).unwrap();
    guard.lock().unwrap();
    let (directory, stamp_file) = (clients.join(name), clients.join(format!("{name}.stamp")));
    let mut hasher = blake3::Hasher::new();
    hasher.update(version.as_bytes()).update(directory.as_os_str().as_encoded_bytes());
    for lock in locks {
        hasher.update(&fs::read(lock).unwrap());
    }
    let stamp = hasher.finalize().to_string();
    if fs::read_to_string(&stamp_file).is_ok_and(|found| found == stamp) {
        return directory;
    }
    // What is half made has no stamp.
    let _absent = fs::remove_file(&stamp_file);
    make(&directory);
    fs::write(stamp_file, stamp).unwrap();
    directory
}

/// Runs Python with every warning an error.
pub fn run_python(script: &Path, environment: &[(&str, &str)]) -> String {
    run_python_of("venv", "tests/clients/requirements.txt", script, environment)
}

/// The same in another environment of Python's.
pub fn run_python_of(name: &str, lock: &str, script: &Path, environment: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::new(self::environment(name, lock));
    command.args(["-W", "error"]).arg(script);
    run(command, environment)
}

/// Runs Python with the tools that record traffic, of `tests/clients/recorders.txt`. Their warnings are their own.
pub fn run_recorder(script: &Path, environment: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::new(self::environment("recorders", "tests/clients/recorders.txt"));
    command.args(["-W", "ignore"]).arg(script);
    run(command, environment)
}

/// Runs the tests of a directory with pytest.
pub fn run_pytest(directory: &Path, environment: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::new(python());
    command.args(["-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir"]).arg(directory).arg(directory);
    run(command, environment)
}

/// Runs the tests of a directory with vitest, of its own lock.
pub fn run_vitest(tests: &Path, environment: &[(&str, &str)]) -> String {
    let modules = modules("vitest", "examples/vitest");
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&modules, directory.path().join("node_modules")).unwrap();
    for file in ["package.json", "agent.test.mjs", "toolmark.mjs"] {
        fs::copy(tests.join(file), directory.path().join(file)).unwrap();
    }
    let mut command = tokio::process::Command::new("node");
    command.arg(modules.join("vitest/vitest.mjs")).args(["run", "--root"]).arg(directory.path());
    run(command, environment)
}

/// Runs Node beside its modules, with every warning an error.
pub fn run_node(script: &Path, environment: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(node_modules(), directory.path().join("node_modules")).unwrap();
    let (copy, warnings) = (directory.path().join(script.file_name().unwrap()), directory.path().join("warnings.mjs"));
    fs::copy(script, &copy).unwrap();
    for shared in ["warnings.mjs", "application.mjs"] {
        fs::copy(repository("tests/clients").join(shared), directory.path().join(shared)).unwrap();
    }
    let mut command = tokio::process::Command::new("node");
    command.arg("--import").arg(&warnings).arg(&copy);
    run(command, environment)
}

/// Runs a script to its end: it must succeed and say nothing on stderr. Gives back what it printed.
fn run(mut command: tokio::process::Command, environment: &[(&str, &str)]) -> String {
    let home = tempfile::tempdir().unwrap();
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home.path());
    command.env("PYTHONDONTWRITEBYTECODE", "1").envs(environment.iter().copied()).current_dir(home.path()).kill_on_drop(true);
    let shown = format!("{command:?}");
    let output = harness::run(async { tokio::time::timeout(SCRIPT_TIME_MAX, command.output()).await });
    let output = output.unwrap_or_else(|_| panic!("still running after {SCRIPT_TIME_MAX:?}: {shown}")).unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success() && stderr.is_empty(), "{shown}: {}\n{stderr}\n{stdout}", output.status);
    stdout
}
