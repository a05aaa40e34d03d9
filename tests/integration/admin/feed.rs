//! The live feed: what happens, as it happens.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::stage::{Stage, get};
use crate::program::until;

/// Follows the feed over a plain socket.
pub struct Follower(BufReader<TcpStream>);

impl Follower {
    /// Begins to follow; what happens from here on is seen.
    pub fn start(stage: &Stage) -> Self {
        let address = stage.proxy.admin_url().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(toolmark::testing::PATIENCE)).unwrap();
        write!(stream, "GET /api/events HTTP/1.0\r\nhost: {address}\r\n\r\n").unwrap();
        let mut follower = Self(BufReader::new(stream));
        while follower.line() != ": toolmark events" {}
        follower
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the feed ended");
        line.trim_end().to_owned()
    }

    /// The next event of this kind.
    pub fn next(&mut self, kind: &str) -> Value {
        while self.line() != format!("event: {kind}") {}
        serde_json::from_str(self.line().strip_prefix("data: ").unwrap()).unwrap()
    }
}

#[test]
fn events_come_as_they_happen() {
    let stage = Stage::new("default", "");
    let mut follower = Follower::start(&stage);
    let called = stage.repaired("abc");
    let id = called.header("toolmark-exchange");
    assert_eq!(
        follower.next("violation"),
        json!({"exchange": id, "code": "unknown_tool", "severity": "block", "tool": "fetch_weather", "attempt": 1})
    );
    let ended = follower.next("exchange");
    assert_eq!((&ended["id"], &ended["verdict"], &ended["model"]), (&json!(id), &json!("repaired"), &json!("m")));
    stage.answered(&called, "abc");
    assert_eq!(follower.next("execution")["tool"], "get_weather");
    assert!(get(&stage.url("/metrics")).body.contains("toolmark_event_readers 1.0"));
    drop(follower);
    until("the reader's end", || get(&stage.url("/metrics")).body.contains("toolmark_event_readers 0.0").then_some(()));
}

#[test]
fn the_feed_ends_with_the_proxy() {
    let stage = Stage::new("default", "");
    let mut follower = Follower::start(&stage);
    drop(stage);
    let mut rest = String::new();
    follower.0.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("event:"), "{rest}");
}
