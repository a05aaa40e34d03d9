//! Replicas as processes of their own, and a client that asks any of them and tries again as SDKs do.

use std::{
    net::SocketAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use toolmark::testing::ScriptedUpstream;

use crate::{
    program::{Running, command, until},
    wire::{Connection, Reply},
};

/// Tries of one request before it is given up.
const TRIES_MAX: u32 = 200;
/// Longest pause between them.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A xorshift generator.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| {
            dice.roll(2);
        });
        dice
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % sides
    }
}

/// A request as a client sends it.
pub struct Asked {
    pub method: &'static str,
    pub path: String,
    /// The caller's key.
    pub key: &'static str,
    pub body: Value,
}

/// How often a request had to be sent again, and why.
#[derive(Clone, Copy, Debug, Default)]
pub struct Again {
    /// No connection, or one that ended before the answer did.
    pub broken: u32,
    /// Those of them where the answer had begun.
    pub cut: u32,
    /// The answer was an error that SDKs try again after.
    pub unavailable: u32,
    /// The ledger didn't say in time, and the request was refused for that.
    pub unknown: u32,
}

/// One process.
struct Replica {
    running: Option<Running>,
    address: Option<SocketAddr>,
}

/// See the module.
pub struct Fleet {
    replicas: Vec<Mutex<Replica>>,
    directories: Vec<TempDir>,
    /// What processes logged that are gone, each line with its replica.
    log: Mutex<Vec<String>>,
}

impl Fleet {
    /// Starts so many replicas with this ledger, which stores bodies.
    pub fn start(count: usize, upstream: &ScriptedUpstream, ledger: &str) -> Self {
        Self::storing("store = \"bodies\"", count, upstream, ledger)
    }

    /// The same with these lines in the section of the ledger.
    pub fn storing(ledger_lines: &str, count: usize, upstream: &ScriptedUpstream, ledger: &str) -> Self {
        let directories: Vec<TempDir> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        for directory in &directories {
            let at = |name: &str| directory.path().join(name);
            let (settings, policy) = super::settings(&upstream.base_url(), ledger, ledger_lines);
            std::fs::write(at("toolmark.toml"), settings).unwrap();
            std::fs::write(at("policy.toml"), policy).unwrap();
        }
        let replicas = directories.iter().map(|directory| Mutex::new(started(directory))).collect();
        Self { replicas, directories, log: Mutex::default() }
    }

    /// Kills a replica with SIGKILL and starts it again.
    pub fn kill(&self, replica: usize) {
        let killed = {
            let mut own = self.replicas[replica].lock().unwrap();
            own.address = None;
            own.running.take()
        };
        if let Some(killed) = killed {
            self.note(replica, &killed);
        }
        let new = started(&self.directories[replica]);
        *self.replicas[replica].lock().unwrap() = new;
    }

    /// Stops a replica with SIGTERM and starts it again; true if it ended well.
    pub fn restart(&self, replica: usize) -> bool {
        let ended = self.terminate(replica);
        *self.replicas[replica].lock().unwrap() = started(&self.directories[replica]);
        ended
    }

    /// Stops a replica with SIGTERM; true if it ended well.
    pub fn terminate(&self, replica: usize) -> bool {
        let ended = || {
            let mut own = self.replicas[replica].lock().unwrap();
            own.running.as_mut().and_then(Running::ended)
        };
        self.replicas[replica].lock().unwrap().running.as_ref().unwrap().signal("TERM");
        let code = until("the replica has ended", ended);
        self.replicas[replica].lock().unwrap().address = None;
        code == 0
    }

    fn note(&self, replica: usize, running: &Running) {
        let mut log = self.log.lock().unwrap();
        log.extend(
            running.lines().iter().filter(|line| line.contains("ERROR") || line.contains("WARN")).map(|line| format!("{replica}: {line}")),
        );
        log.push(format!("{replica}: gone at {}", super::time()));
    }

    /// What all replicas warned of, for when a test fails.
    pub fn warnings(&self) -> String {
        for (number, replica) in self.replicas.iter().enumerate() {
            if let Some(running) = &replica.lock().unwrap().running {
                self.note(number, running);
            }
        }
        self.log.lock().unwrap().join("\n")
    }

    /// Stops all in order; true if each ended well.
    pub fn stop(self) -> bool {
        let running = self.replicas.into_iter().filter_map(|replica| replica.into_inner().unwrap().running);
        let ended = |running: Running| {
            running.signal("TERM");
            running.end().code
        };
        let codes: Vec<Option<i32>> = running.map(ended).collect();
        codes.iter().all(|code| *code == Some(0))
    }

    /// Sends a request to replicas at random until one answers it.
    pub fn send(&self, dice: &mut Dice, asked: &Asked, number: &str) -> (Reply, Again, String) {
        let (mut again, mut tries) = (Again::default(), Vec::new());
        let begun = Instant::now();
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                // A client's own pause.
                std::thread::park_timeout(Duration::from_millis(20 << attempt.min(5)).min(PAUSE_MAX));
            }
            let at = dice.roll(self.replicas.len());
            let address = self.replicas[at].lock().unwrap().address;
            let reply = address.and_then(|address| try_once(address, asked, number, attempt));
            again.cut += u32::from(reply.as_ref().is_some_and(|reply| !reply.whole && !error_in(reply)));
            let Some(reply) = reply.filter(|reply| reply.whole || error_in(reply)) else {
                tries.push(format!("{}: {at} broken", super::time()));
                again.broken += 1;
                continue;
            };
            let code = code_of(&reply);
            tries.push(format!("{}: {at} {} {code}", super::time(), reply.status));
            if code == "ledger_unavailable" {
                again.unknown += 1;
                continue;
            }
            if matches!(reply.status, 408 | 429 | 500..) {
                again.unavailable += 1;
                continue;
            }
            return (reply, again, tries.join("; "));
        }
        panic!("{} {} wasn't answered within {:?}: {again:?}", asked.method, asked.path, begun.elapsed());
    }
}

fn started(directory: &TempDir) -> Replica {
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"], directory.path());
    command.env("TOOLMARK_KEY", super::KEY.repeat(32)).env("UPSTREAM_KEY", "sk-test").env("RUST_LOG", "info");
    let mut running = Running::start(command);
    let address = running.address().parse().unwrap();
    Replica { running: Some(running), address: Some(address) }
}

fn try_once(address: SocketAddr, asked: &Asked, number: &str, attempt: u32) -> Option<Reply> {
    let mut connection = Connection::try_open(address).ok()?;
    let body = if asked.body.is_null() { String::new() } else { asked.body.to_string() };
    let head = format!(
        "{} {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\nanthropic-version: 2026-10-21\r\n\
         anthropic-beta: message-threads-2026-08-12\r\nidempotency-key: {number}\r\nx-stainless-retry-count: {attempt}\r\ncontent-length: {}\r\n\r\n",
        asked.method,
        asked.path,
        asked.key,
        body.len()
    );
    connection.send(&[head.as_bytes(), body.as_bytes()].concat()).then(|| connection.reply()).filter(|reply| reply.status != 0)
}

/// True for a stream that ends with an error, behind which the connection breaks off.
fn error_in(reply: &Reply) -> bool {
    reply.is_stream() && !code_of(reply).is_empty()
}

/// The code of an error: of the body, or of the last event of a stream.
pub fn code_of(reply: &Reply) -> String {
    let error = match reply.is_stream() {
        true => crate::responses_folded::events(&reply.text()).pop().unwrap_or_default(),
        false => serde_json::from_slice(&reply.body).unwrap_or_default(),
    };
    let error = if error["response"]["error"].is_object() { &error["response"]["error"] } else { &error["error"] };
    let code = if error["details"].is_object() { &error["details"]["error_code"] } else { &error["code"] };
    code.as_str().unwrap_or_default().to_owned()
}
