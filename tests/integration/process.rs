//! `toolmark serve` as a process of its own, on a free port.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use tempfile::TempDir;
use toolmark::testing::ScriptedUpstream;

use crate::wire::Connection;

/// A running process; killed when it is dropped.
pub struct Process {
    child: Child,
    address: SocketAddr,
    _directory: Option<TempDir>,
}

impl Process {
    /// In a directory of its own that keeps nothing.
    pub fn start(upstream: &ScriptedUpstream, settings: &str, key: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = Self::start_in(directory.path(), upstream, &format!("[ledger]\nurl = \"memory:\"\n{settings}"), key);
        process._directory = Some(directory);
        process
    }

    /// In this directory, with these settings besides the upstream's.
    pub fn start_in(directory: &Path, upstream: &ScriptedUpstream, settings: &str, key: Option<&str>) -> Self {
        let config = directory.join("toolmark.toml");
        std::fs::write(&config, format!("[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n{settings}", upstream.base_url())).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolmark"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .current_dir(directory)
            .env_remove("TOOLMARK_KEY")
            .env("RUST_LOG", "info");
        command.envs(key.map(|key| ("TOOLMARK_KEY", key))).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Wherever the log goes, one of the two says it; both are read on, so that the process never waits.
        let (sender, addresses) = std::sync::mpsc::channel();
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    // Into the test's own output, for when it fails.
                    eprintln!("toolmark: {line}");
                    let address = line
                        .split_once("listening on http://")
                        .and_then(|(_, rest)| rest.split([':', ' ']).take(2).collect::<Vec<_>>().join(":").parse().ok());
                    if let Some(address) = address {
                        let _gone = sender.send(address);
                    }
                }
            });
        }
        drop(sender);
        let address = addresses.recv().expect("the process ended without listening");
        Self { child, address, _directory: None }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> ExitStatus {
        let ended = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(ended.success());
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = (self.child.kill(), self.child.wait());
    }
}
