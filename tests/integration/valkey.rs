//! A Valkey, or a Redis, of a test's own: it can be stopped and started again, and is gone when the test has ended.

use std::{
    io::Write as _,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{postgres::Line, program::until};

/// Serves until its standard input ends, which is when this process ends, however it ends.
const SCRIPT: &str = r#"program=$0; "$program" "$@" & server=$!; read -r how; kill -"${how:-TERM}" $server; wait $server"#;

/// The server's program: Debian 13 has Valkey, Debian 12 has Redis only.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = ["valkey-server", "redis-server"].into_iter().flat_map(|name| std::env::split_paths(&path).map(move |own| own.join(name)));
    all.into_iter().find(|program| program.exists()).expect("there is no `valkey-server`: install it, e.g. `apt-get install valkey-server`")
}

/// What a server keeps when it stops.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Keeps {
    Nothing,
    Everything,
}

pub struct Valkey {
    directory: TempDir,
    port: u16,
    keeps: Keeps,
    running: Option<Child>,
}

impl Valkey {
    /// Starts one on a free port.
    pub fn start(keeps: Keeps) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut own = Self { directory: tempfile::tempdir().unwrap(), port, keeps, running: None };
        own.start_again();
        own
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// As `[counters] url` takes it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The same server by a way that can be cut.
    pub fn line(&self) -> Line {
        Line::new(self.socket(), "")
    }

    /// Stops it: in order, or as a crash does.
    pub fn stop(&mut self, crash: bool) {
        let Some(mut running) = self.running.take() else { return };
        writeln!(running.stdin.take().unwrap(), "{}", if crash { "KILL" } else { "TERM" }).unwrap();
        let _status = running.wait().unwrap();
    }

    /// Starts it again; returns once it takes connections.
    pub fn start_again(&mut self) {
        let appends = if self.keeps == Keeps::Everything { "yes" } else { "no" };
        let port = self.port.to_string();
        let settings = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", appends, "--appendfsync", "always"];
        let child = Command::new("sh")
            .args(["-c", SCRIPT])
            .arg(program())
            .args(settings)
            .arg("--unixsocket")
            .arg(self.socket())
            .current_dir(self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.running = Some(child.unwrap());
        until("Valkey answers", || redis::cmd("PING").query::<String>(&mut self.try_client()?).ok());
    }

    fn try_client(&self) -> Option<redis::Connection> {
        redis::Client::open(self.url()).unwrap().get_connection().ok()
    }

    pub fn client(&self) -> redis::Connection {
        self.try_client().unwrap()
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        self.stop(true);
    }
}
