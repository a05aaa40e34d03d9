//! What is written while exchanges happen: all of them, whole lines, and no secret.

use std::{
    collections::HashSet,
    net::SocketAddr,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::json;
use toolmark::{
    cassette::{
        reader,
        writer::{CassetteWriter, Rotation, TailRepair},
    },
    testing::{Received, ScriptedReply, ScriptedUpstream},
};

use super::stage::Recording;
use crate::{
    program::{Running, command, finish, until},
    wire::Connection,
};

fn answer(text: &str) -> String {
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
    .to_string()
}

fn question(text: &str) -> String {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string()
}

#[test]
fn nothing_is_lost_under_load_and_every_line_fits_the_schema() {
    let recording = Recording::start("default", "", "", |received| ScriptedReply::json(200, answer(&"x".repeat(received.number % 3000))));
    let seen = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (seen, address) = (&seen, recording.proxy.address());
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for number in 0..150 {
                    let reply = connection.post("/v1/chat/completions", "", question(&format!("{thread} {number}")).as_bytes());
                    seen.lock().unwrap().insert(reply.header("toolmark-exchange").to_owned());
                }
            });
        }
    });
    let (directory, exchanges) = recording.end();
    let recorded: HashSet<String> = exchanges.iter().map(|exchange| exchange.id.clone()).collect();
    assert_eq!((exchanges.len(), recorded), (600, seen.into_inner().unwrap()));
    let schema = serde_json::from_str(include_str!("../../../src/cassette/schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in std::fs::read_to_string(directory.path().join("session.jsonl")).unwrap().lines().step_by(37) {
        let line = serde_json::from_str(line).unwrap();
        let errors: Vec<String> = validator.iter_errors(&line).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:?}: {line}");
    }
    let replayed = finish(&["replay", "session.jsonl", "--policy", "policy.toml"], directory.path());
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
}

#[test]
fn killed_in_the_middle() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = ScriptedUpstream::start(|_| ScriptedReply::json(200, answer(&"x".repeat(20_000)))).unwrap();
    let url = upstream.base_url();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--upstream", &url, "--record", "session.jsonl"];
    let mut serving = Running::start(command(&arguments, directory.path()));
    let address: std::net::SocketAddr = serving.address().parse().unwrap();
    let answered = AtomicUsize::new(0);
    let path = directory.path().join("session.jsonl");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let body = question("hello");
                let mut connection = Connection::open(address);
                // Until it is gone.
                while connection.post("/v1/chat/completions", "", body.as_bytes()).whole {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let enough = || answered.load(Ordering::Relaxed) > 300 && std::fs::metadata(&path).is_ok_and(|file| file.len() > 60 * 2 * 20_000);
        until("enough answers, and enough of them on disk", || enough().then_some(()));
        serving.signal("KILL");
    });
    // Its connections may be closed a moment before its file, and the lock on it, are.
    serving.end();
    let text = std::fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let (torn, whole) = lines.split_last().unwrap();
    assert!(whole.len() > 50, "{}", whole.len());
    for line in whole {
        toolmark::cassette::format::RecordedExchange::parse(std::str::from_utf8(line).unwrap()).unwrap();
    }
    let before = reader::all(&path).unwrap().0.len();
    let rotation = Rotation { bytes: u64::MAX, every: std::time::Duration::MAX };
    let mended = CassetteWriter::open(&path, rotation, 0).unwrap().mended();
    assert_eq!(mended == TailRepair::Whole, torn.is_empty());
    assert_eq!(reader::all(&path).unwrap(), (reader::all(&path).unwrap().0, Vec::new()));
    assert_eq!(reader::all(&path).unwrap().0.len(), before);
}

pub const HEADER: &str = "no-shape-of-a-key-7";
pub const SHAPED: &str = "sk-proj-AbCdEfGhIjKlMnOp0123";
pub const PASSWORD: &str = "correct-horse-battery";
const UPSTREAMS: &str = "upstreams-own-key-42";
const POINTED: &str = "somebody@example.org";
const IN_URL: &str = "AIzaSyA0123456789abcdefghijklmnopqrstuv";

/// Secrets of [`leak`], but the one that only `redact` names.
pub const SECRETS: [&str; 5] = [HEADER, SHAPED, PASSWORD, UPSTREAMS, IN_URL];

/// An upstream that repeats secrets: in answers, headers, errors, and streams in pieces.
pub fn leaking(received: &Received) -> ScriptedReply {
    let chunk = |delta: serde_json::Value, finish: serde_json::Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    match received.json()["stream"] == json!(true) {
        true => {
            let pieces = [&SHAPED[..3], &SHAPED[3..11], &SHAPED[11..]];
            let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), json!(null))];
            chunks.extend(pieces.iter().map(|piece| chunk(json!({"content": piece}), json!(null))));
            chunks.push(chunk(json!({}), json!("stop")));
            ScriptedReply::chunks(chunks)
        }
        false if received.number.is_multiple_of(2) => ScriptedReply::json(401, json!({"error": {"message": format!("Incorrect API key provided: {HEADER}. {UPSTREAMS}"), "type": "x", "code": "y", "param": null}}).to_string()),
        false => ScriptedReply::json(200, answer(&format!("use {SHAPED} or postgres://bob:{PASSWORD}@db/x"))).header("set-cookie", format!("session={PASSWORD}")),
    }
}

/// Three exchanges with secrets everywhere that one can be: headers, query, messages, tool results, calls.
pub fn leak(address: SocketAddr) {
    let mut connection = Connection::open(address);
    let result = json!({"config": {"db_password": PASSWORD, "nested": json!({"api_key": SHAPED}).to_string()}}).to_string();
    let call =
        json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": json!({"password": PASSWORD}).to_string()}});
    let headers = format!("x-api-key: {UPSTREAMS}\r\nx-unknown-thing: {PASSWORD}\r\ncookie: {PASSWORD}\r\n");
    for stream in [false, false, true] {
        let body = json!({"model": "m", "stream": stream, "metadata": {"email": POINTED}, "messages": [
            {"role": "system", "content": format!("export DB_PASSWORD={PASSWORD}0 and never tell {SHAPED}")},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": result},
        ]});
        let path = format!("/v1/chat/completions?api-version=1&key={IN_URL}");
        connection.post_as(&path, &format!("Bearer {HEADER}"), &headers, body.to_string().as_bytes());
    }
}

#[test]
fn no_secret_survives() {
    let recording = Recording::start("default", "", "redact = [\"/metadata/email\"]", leaking);
    leak(recording.proxy.address());
    let (directory, exchanges) = recording.end();
    assert_eq!(exchanges.len(), 3);
    let secrets = [&SECRETS[..], &[POINTED]].concat();
    clean(directory.path(), &secrets);
    let streamed = exchanges[2].downstream.response.as_ref().unwrap().body.as_ref().unwrap().text().unwrap();
    let said: String = streamed.split("\"content\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(said, "[redacted]", "also where it came in pieces: {streamed}");
    for form in ["vcr", "har"] {
        let file = format!("out.{form}");
        assert_eq!(finish(&["export", form, "session.jsonl", "-o", &file], directory.path()).code, Some(0));
    }
    clean(directory.path(), &secrets);
}

/// No byte of any file in it is a byte of a secret.
pub fn clean(directory: &Path, secrets: &[&str]) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for secret in secrets {
            assert!(memchr::memmem::find(&bytes, secret.as_bytes()).is_none(), "{secret} in {}", path.display());
        }
    }
}
