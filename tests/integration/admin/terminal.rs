//! `toolmark tail` and `toolmark show` against a live admin listener.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::stage::Stage;
use crate::program::{Finished, Running, command, until};

const OPEN: &str = "bodies = \"everyone\"\n";

fn tail_of(admin: &str, stage: &Stage, arguments: &[&str]) -> Running {
    let (before, whole) = (readers(stage), [&["tail", "--admin", admin], arguments].concat());
    let running = Running::start(command(&whole, stage.directory()));
    until("the reader", || (readers(stage) > before).then_some(()));
    running
}

/// Readers of the live feed.
fn readers(stage: &Stage) -> u64 {
    let metrics = super::stage::get(&stage.url("/metrics")).body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("toolmark_event_readers ")).unwrap_or("0");
    line.parse::<f64>().unwrap() as u64
}

fn show(stage: &Stage, arguments: &[&str], environment: &[(&str, &str)]) -> Finished {
    let admin = stage.proxy.admin_url();
    let mut command = command(&[&["show", "--admin", admin.as_str()], arguments].concat(), stage.directory());
    command.envs(environment.iter().copied()).output().unwrap().into()
}

#[test]
fn tail_follows_what_matches_in_one_line_each() {
    let stage = Stage::new("default", OPEN);
    let admin = stage.proxy.admin_url().to_owned();
    let mut all = tail_of(&admin, &stage, &[]);
    let mut filtered = tail_of(&admin, &stage, &["--filter", "verdict=blocked code=missing_required"]);
    let mut json = tail_of(&admin, &stage, &["--json", "--filter", "session=trip"]);
    let repaired = stage.repaired("trip");
    let missing = stage.calling("{}");
    let [repaired, missing] = [&repaired, &missing].map(|answer| answer.header("toolmark-exchange").to_owned());
    let line = all.line_with(&missing);
    assert!(line.contains(" blocked ") && line.contains("get_weather") && line.contains("[missing_required]"), "{line}");
    assert!(!all.lines().join("").contains('\u{1b}'), "no colours where there is no terminal");
    let line = all.line_with(&repaired);
    assert!(line.contains(" repaired ") && line.contains("fetch_weather") && line.ends_with("session=trip"), "{line}");
    assert_eq!(filtered.line_with(&missing), all.line_with(&missing));
    let row: Value = serde_json::from_str(&json.line_with(&repaired)).unwrap();
    assert_eq!((&row["ended"], &row["session"], &row["repairs"]), (&json!("repaired"), &json!("trip"), &json!(1)));
    // What was filtered out came before what wasn't.
    assert_eq!((all.lines().len(), filtered.lines().len(), json.lines().len()), (2, 1, 1));
}

#[test]
fn tail_writes_colours_on_a_terminal_only() {
    let stage = Stage::new("default", OPEN);
    for (environment, has_colours) in [(None, true), (Some(("NO_COLOR", "1")), false)] {
        let before = readers(&stage);
        // `script` gives it a terminal.
        let mut program = command(&[], stage.directory());
        let tail = format!("{} tail --admin {}", program.get_program().to_str().unwrap(), stage.proxy.admin_url());
        program = Command::new("env");
        // Under nohup it would outlive its terminal.
        program
            .args(["--default-signal=HUP", "script", "--quiet", "--flush", "--return", "--command", &tail, "/dev/null"])
            .current_dir(stage.directory())
            .envs(environment);
        let mut running = Running::start(program);
        until("the reader", || (readers(&stage) > before).then_some(()));
        let id = stage.repaired("trip").header("toolmark-exchange").to_owned();
        let line = running.line_with(&id);
        assert_eq!(line.contains("\u{1b}[36mrepaired"), has_colours, "{line:?}");
        drop(running);
        until("its end", || (readers(&stage) == before).then_some(()));
    }
}

/// A wire between `tail` and the listener that can be cut.
fn wire(to: SocketAddr) -> (String, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, sockets) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<TcpStream>>>::default());
    let own = sockets.clone();
    std::thread::spawn(move || {
        for down in listener.incoming().map_while(Result::ok) {
            let up = TcpStream::connect(to).unwrap();
            for (from, to) in [(&down, &up), (&up, &down)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(read @ 1..) = from.read(&mut buffer) {
                        if to.write_all(&buffer[..read]).is_err() {
                            return;
                        }
                    }
                });
            }
            own.lock().unwrap().extend([down, up]);
        }
    });
    (format!("http://{address}"), sockets)
}

#[test]
fn tail_connects_again_after_a_break() {
    let stage = Stage::new("default", OPEN);
    let (admin, sockets) = wire(stage.proxy.admin_url().trim_start_matches("http://").parse().unwrap());
    let mut running = tail_of(&admin, &stage, &[]);
    let first = stage.repaired("a").header("toolmark-exchange").to_owned();
    running.line_with(&first);
    sockets.lock().unwrap().drain(..).for_each(|socket| drop(socket.shutdown(std::net::Shutdown::Both)));
    until("the feed's end", || (readers(&stage) == 0).then_some(()));
    until("another reader", || (readers(&stage) == 1).then_some(()));
    let second = stage.repaired("a").header("toolmark-exchange").to_owned();
    running.line_with(&second);
}

#[test]
fn tail_says_what_is_wrong() {
    let stage = Stage::with_environment("default", "", &[("TOOLMARK_ADMIN_TOKEN", "s3cret"), ("TOOLMARK_ADMIN_READ_TOKEN", "r3ader")]);
    let admin = stage.proxy.admin_url().to_owned();
    let run = |arguments: &[&str]| -> Finished { command(&[&["tail"], arguments].concat(), stage.directory()).output().unwrap().into() };
    for (arguments, words) in [
        (&["--admin", &*admin, "--filter", "verdict=block"][..], "did you mean `blocked`?"),
        (&["--admin", "http://127.0.0.1:9"], "does `toolmark serve` run"),
        (&["--admin", &*admin], "TOOLMARK_ADMIN_TOKEN"),
    ] {
        let refused = run(arguments);
        assert!(refused.code == Some(2) && refused.stderr.contains(words) && refused.stdout.is_empty(), "{arguments:?}: {refused:?}");
    }
}

#[test]
fn show_tells_one_exchange() {
    let stage = Stage::new("default", OPEN);
    let called = stage.repaired("trip");
    stage.exchange(&called);
    let id = called.header("toolmark-exchange");
    let shown = show(&stage, &[id], &[]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for words in [
        id,
        " repaired ",
        "The request came: POST /v1/chat/completions",
        "Attempt 1: scripted, m, HTTP 200",
        "call fetch_weather rejected {\"city\":\"Paris\"}",
        "[unknown_tool] block: no tool of this name",
        "The model was told:\n    Tool call rejected: fetch_weather",
        "Attempt 2: scripted, m, HTTP 200",
        "call get_weather accepted",
        "What left: HTTP 200",
    ] {
        assert!(shown.stdout.contains(words), "{words:?}:\n{}", shown.stdout);
    }
    assert!(!shown.stdout.contains('\u{1b}'), "no colours where there is no terminal");
    let as_json: Value = serde_json::from_str(&show(&stage, &[id, "--json"], &[]).stdout).unwrap();
    assert_eq!((&as_json["summary"]["id"], &as_json["attempts"][0]["calls"][0]["tool"]), (&json!(id), &json!("fetch_weather")));
    for (unknown, words) in
        [("0193547d-f000-7000-8000-000000000000", "no such exchange"), ("x", "is a UUID, as in the header `toolmark-exchange`")]
    {
        let refused = show(&stage, &[unknown], &[]);
        assert!(refused.code == Some(2) && refused.stderr.contains(words) && refused.stdout.is_empty(), "{refused:?}");
    }
}

#[test]
fn show_needs_the_token_for_bodies() {
    let stage = Stage::with_environment("default", "", &[("TOOLMARK_ADMIN_TOKEN", "s3cret"), ("TOOLMARK_ADMIN_READ_TOKEN", "r3ader")]);
    let id = stage.repaired("trip").header("toolmark-exchange").to_owned();
    let own = until("the exchange", || {
        let shown = show(&stage, &[&id], &[("TOOLMARK_ADMIN_TOKEN", "s3cret")]);
        (shown.code == Some(0)).then_some(shown)
    });
    assert!(own.stdout.contains("{\"city\":\"Paris\"}"), "{own:?}");
    let reader = show(&stage, &[&id], &[("TOOLMARK_ADMIN_READ_TOKEN", "r3ader")]);
    assert!(
        reader.stdout.contains("Bodies are closed") && !reader.stdout.contains("Paris") && reader.stdout.contains("unknown_tool"),
        "{reader:?}"
    );
    let nobody = show(&stage, &[&id], &[("TOOLMARK_ADMIN_TOKEN", "wrong")]);
    assert!(nobody.code == Some(2) && nobody.stderr.contains("TOOLMARK_ADMIN_TOKEN"), "{nobody:?}");
}
