//! The program itself as a process: run to its end, or served and watched.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(20);

/// Polls until the condition gives something.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The program with these arguments, in this directory, without the surroundings' own settings.
pub fn command(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolmark"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOOLMARK_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    // The usual place of the admin listener may be another test's.
    command.env("TOOLMARK_ADMIN__LISTEN", "127.0.0.1:0");
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command
}

/// What the program came to.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs the program to its end.
pub fn finish(arguments: &[&str], directory: &Path) -> Finished {
    command(arguments, directory).output().unwrap().into()
}

/// The program running; killed when this is dropped.
pub struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = lines.clone();
        let reader = std::thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| into.lock().unwrap().push(line)));
        Self { child, lines, reader: Some(reader) }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stdout so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line with this in it.
    pub fn line_with(&mut self, words: &str) -> String {
        until(&format!("a line with {words:?}"), || {
            let found = self.lines().into_iter().find(|line| line.contains(words));
            if found.is_none() && self.child.try_wait().unwrap().is_some() {
                let mut stderr = String::new();
                let _gone = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut stderr));
                panic!("it ended without a line with {words:?}: {stderr}\n{:?}", self.lines());
            }
            found
        })
    }

    /// The address that `serve` says it listens on.
    pub fn address(&mut self) -> String {
        let line = self.line_with("listening on http://");
        line.split("listening on http://").nth(1).unwrap().split([':', ' ']).take(2).collect::<Vec<_>>().join(":")
    }

    /// Sends a signal by its name, e.g. `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Its exit code, if it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Waits for its end.
    pub fn end(mut self) -> Finished {
        let status = until("the program's end", || self.child.try_wait().unwrap());
        self.reader.take().unwrap().join().unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut stderr));
        Finished { code: status.code(), stdout: self.lines().join("\n"), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
