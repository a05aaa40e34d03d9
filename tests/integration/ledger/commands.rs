//! `toolmark verify` and `toolmark ledger` as their users meet them.

use std::path::Path;

use serde_json::Value;
use toolmark::testing::ScriptedUpstream;

use super::talk::{KEY, request, result, script, user};
use crate::{
    postgres::Ledger,
    process::Process,
    program::{Finished, Running, command},
};

fn finish(arguments: &[&str], directory: &Path) -> Finished {
    command(arguments, directory).env("TOOLMARK_KEY", KEY).output().unwrap().into()
}

/// A ledger with a conversation in it, written by the program, and the execution's ID.
fn recorded(ledger: &Ledger) -> String {
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!("[ledger]\nurl = \"{}\"\n", ledger.url());
    let process = Process::start_in(ledger.directory(), &upstream, &settings, Some(KEY));
    let mut connection = process.connect();
    let called = connection.chat(&request(&[user("Weather?")])).json()["choices"][0]["message"].clone();
    let reply = connection.chat(&request(&[user("Weather?"), called.clone(), result(&called, "clear")]));
    assert_eq!(reply.status, 200);
    drop(connection);
    assert!(process.stop().success());
    let body = upstream.received().last().unwrap().json().to_string();
    body.split(['"', ' ', '\\', ']']).find(|word| word.starts_with("get_weather_")).unwrap().to_owned()
}

#[test]
fn a_key_that_was_changed_is_told_at_the_start() {
    const OTHER: &str = "efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef";
    for ledger in [Ledger::sqlite(), Ledger::postgres()] {
        recorded(&ledger);
        let rotated = format!("{OTHER},{KEY}");
        for (keys, told) in [(KEY, false), (&*rotated, false), (OTHER, true)] {
            let mut serve = command(&["serve", "--listen", "127.0.0.1:0"], ledger.directory());
            serve.env("TOOLMARK_KEY", keys);
            let mut running = Running::start(serve);
            running.address();
            running.signal("TERM");
            let lines = running.end().stdout;
            assert_eq!(lines.contains("signed with a key that isn't here"), told, "{lines}");
        }
    }
}

#[test]
fn commands_read_what_the_proxy_wrote() {
    for ledger in [Ledger::sqlite(), Ledger::postgres()] {
        let directory = ledger.directory();
        let nothing = finish(&["ledger", "verify", "--config", "none.toml"], directory);
        assert_eq!(nothing.code, Some(2));
        let id = recorded(&ledger);

        let verified = finish(&["ledger", "verify"], directory);
        assert_eq!((verified.code, verified.stdout.starts_with("whole: 2 records in 1 chains")), (Some(0), true), "{verified:?}");
        let anchor = finish(&["ledger", "anchor"], directory);
        std::fs::write(directory.join("anchor.json"), &anchor.stdout).unwrap();
        assert_eq!(finish(&["ledger", "verify", "--anchor", "anchor.json"], directory).code, Some(0));

        let exported = finish(&["ledger", "export", "--since", "1h"], directory);
        let lines: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), lines[1]["record"]["executions"][0]["id"].as_str()), (2, Some(&*id)));
        assert!(lines.iter().all(|line| line["ended"] == "pass"), "{lines:?}");
        assert!(finish(&["ledger", "export", "--until", "1h"], directory).stdout.is_empty());

        let known = finish(&["verify", &id], directory);
        assert!(known.code == Some(0) && known.stdout.contains("tool         get_weather"), "{known:?}");
        let with = command(&["verify", "--credential-env", "CALLER", &id], directory)
            .env("TOOLMARK_KEY", KEY)
            .env("CALLER", "Bearer test")
            .output();
        let with = Finished::from(with.unwrap());
        assert!(with.stdout.starts_with("ours: the signature fits, for the credential given"), "{with:?}");
        for foreign in [id.replace("weather", "whether"), "x".to_owned()] {
            let unknown = finish(&["verify", &foreign], directory);
            assert!(unknown.code == Some(1) && unknown.stdout.starts_with("NOT OURS"), "{unknown:?}");
        }

        let (table, garbage) = match &ledger {
            Ledger::Sqlite(_) => ("records", "x'00'"),
            Ledger::Postgres(..) => ("toolmark_records", "'\\x00'::bytea"),
        };
        ledger.execute(&format!("UPDATE {table} SET body = {garbage} WHERE sequence = 1"));
        let exported = finish(&["ledger", "export"], directory);
        let lines: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines[0]["record"].is_null() && lines[1]["record"].is_object(), "{exported:?}");
        assert!(exported.code != Some(0) && exported.stderr.contains("1 records can't be read"), "{exported:?}");
        ledger.execute(&format!("DELETE FROM {table} WHERE sequence = 2"));
        let cut = finish(&["ledger", "verify", "--anchor", "anchor.json"], directory);
        assert!(cut.code == Some(1) && cut.stdout.starts_with("NOT WHOLE: "), "{cut:?}");
    }
}

#[test]
fn a_ledger_that_isnt_there_is_said_to_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let missing = finish(&["ledger", "verify"], directory.path());
    assert!(missing.code == Some(2) && missing.stderr.contains("there is no file"), "{missing:?}");
    std::fs::write(directory.path().join("toolmark.toml"), "[ledger]\nurl = \"memory:\"\n").unwrap();
    let memory = finish(&["ledger", "export"], directory.path());
    assert!(memory.code == Some(2) && memory.stderr.contains("memory:"), "{memory:?}");
    // Nothing is made by looking.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
