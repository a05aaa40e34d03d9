//! Policies that replicas share: put into the ledger by the program, taken whole by every replica, and kept out where they aren't as
//! they were put.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use tempfile::TempDir;
use toolmark::testing::{Proxy, Received, ScriptedReply, ScriptedUpstream};

use super::talk::{KEY, completion, request, user};
use crate::{
    harness::{http_client, post, run},
    postgres::{Database, Ledger},
    program::{Finished, Running, command, until},
};

/// Replicas that share a ledger, and a directory for the program.
struct Stage {
    upstream: ScriptedUpstream,
    database: Database,
    replicas: Vec<(Proxy, TempDir)>,
    own: TempDir,
}

fn well(_: &Received) -> ScriptedReply {
    completion(&serde_json::json!({"role": "assistant", "content": "Well."}))
}

impl Stage {
    fn new(replicas: usize) -> Self {
        let (upstream, database, own) = (ScriptedUpstream::start(well).unwrap(), Database::new(), tempfile::tempdir().unwrap());
        std::fs::write(own.path().join("toolmark.toml"), format!("[ledger]\nurl = \"{}\"\n", database.url())).unwrap();
        let mut stage = Self { upstream, database, replicas: Vec::new(), own };
        (0..replicas).for_each(|_| stage.start());
        stage
    }

    fn start(&mut self) {
        let (directory, url) = (tempfile::tempdir().unwrap(), self.database.url());
        let settings = format!(
            "policy = \"ledger\"\n[ledger]\nurl = \"{url}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"u\"\nbase_url = \"{}\"\n",
            self.upstream.base_url()
        );
        let proxy = Proxy::start(&settings, &[("TOOLMARK_KEY", KEY)], directory.path()).unwrap();
        self.replicas.push((proxy, directory));
    }

    fn toolmark(&self, arguments: &[&str]) -> Finished {
        command(arguments, self.own.path()).env("TOOLMARK_KEY", KEY).output().unwrap().into()
    }

    /// Puts a policy that can be told by the request that it makes: a sentence and a tool, each with this number.
    fn put(&self, number: usize) -> Finished {
        let tool = format!("tool_{number}");
        write(
            self.own.path(),
            "tools.json",
            &format!(r#"[{{"type":"function","function":{{"name":"{tool}","parameters":{{"type":"object"}}}}}}]"#),
        );
        let policy =
            format!("[tools]\nfiles = [\"tools.json\"]\nexpect = [\"{tool}\"]\n[protocol]\ninject = true\ntext = \"Policy {number}.\"\n");
        write(self.own.path(), "policy.toml", &policy);
        self.toolmark(&["policy", "put", "policy.toml", "--by", "ann"])
    }

    /// Numbers of the sentence and of the tool in what a replica sends upstream: 0 where it is neither.
    fn in_force(&self, replica: usize, marker: &str) -> [usize; 2] {
        let body = request(&[user(marker)]);
        let answer = post(&format!("{}/chat/completions", self.replicas[replica].0.base_url()), &body, "Bearer test");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let received = self.upstream.received();
        let sent = received.iter().rev().map(|sent| String::from_utf8_lossy(&sent.body).into_owned());
        let sent = sent.into_iter().find(|sent| sent.contains(marker)).unwrap();
        ["Policy ", "tool_"].map(|word| {
            let rest = sent.split(word).nth(1).unwrap_or_default();
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
        })
    }

    fn readiness(&self, replica: usize) -> String {
        let url = format!("{}/readyz", self.replicas[replica].0.admin_url());
        run(async { http_client().get(url).send().await.unwrap().text().await.unwrap() })
    }
}

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).unwrap();
}

#[test]
fn every_replica_takes_a_policy_from_the_ledger() {
    let mut stage = Stage::new(2);
    // Until something is put, the default.
    assert_eq!([0, 1].map(|replica| stage.in_force(replica, "m0")), [[0, 0]; 2]);
    let none = stage.toolmark(&["policy", "list"]);
    assert!(none.code == Some(0) && none.stdout.starts_with("no version"), "{none:?}");
    let put = stage.put(1);
    assert!(put.code == Some(0) && put.stdout.starts_with("version 1 of `default`"), "{put:?}");
    let begun = Instant::now();
    for replica in [0, 1] {
        until("the policy is in force", || (stage.in_force(replica, "m1") == [1, 1]).then_some(()));
    }
    eprintln!("both replicas have it after {} ms", begun.elapsed().as_millis());
    // What is wrong is never put.
    write(stage.own.path(), "wrong.toml", "[checks]\nunknown_tool = \"perhaps\"\n");
    let wrong = stage.toolmark(&["policy", "put", "wrong.toml"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("wrong.toml"), "{wrong:?}");
    // One that starts later has it from the start.
    assert_eq!(stage.put(2).code, Some(0));
    stage.start();
    assert_eq!(stage.in_force(2, "m2"), [2, 2]);
    let listed = stage.toolmark(&["policy", "list"]);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert!(
        listed.code == Some(0) && lines.len() == 2 && lines[0].starts_with("default  2  ") && lines[0].ends_with("by ann"),
        "{listed:?}"
    );
    let got = stage.toolmark(&["policy", "get", "--version", "1"]);
    assert!(got.code == Some(0) && got.stdout.contains("Policy 1."), "{got:?}");
}

#[test]
fn a_policy_is_never_in_force_by_halves() {
    const VERSIONS: usize = 6;
    let stage = Stage::new(2);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking: Vec<_> = [0, 1]
            .map(|replica| {
                let (stage, ended) = (&stage, &ended);
                scope.spawn(move || {
                    let (mut seen, mut last) = (Vec::new(), false);
                    // Once more behind the end: a request may have begun before the newest policy was in force.
                    while !last {
                        last = ended.load(Ordering::Acquire);
                        seen.push(stage.in_force(replica, &format!("marker-{replica}-{}.", seen.len())));
                    }
                    seen
                })
            })
            .into_iter()
            .collect();
        for number in 1..=VERSIONS {
            assert_eq!(stage.put(number).code, Some(0));
            for replica in [0, 1] {
                until("the policy is in force", || {
                    (stage.in_force(replica, &format!("put-{replica}-{number}.")) == [number; 2]).then_some(())
                });
            }
        }
        ended.store(true, Ordering::Release);
        for asking in asking {
            let seen = asking.join().unwrap();
            assert!(seen.iter().all(|[sentence, tool]| sentence == tool), "{seen:?}");
            assert!(seen.is_sorted() && seen.last() == Some(&[VERSIONS; 2]), "{seen:?}");
        }
    });
}

#[test]
fn a_policy_that_was_changed_in_the_database_is_kept_out() {
    let stage = Stage::new(1);
    assert_eq!(stage.put(1).code, Some(0));
    until("the policy is in force", || (stage.in_force(0, "m1") == [1, 1]).then_some(()));
    let mut client = stage.database.client();
    // The same policy again under a later number, and with another text.
    for (number, body) in [(2, "body"), (3, "overlay(body placing 'Policy 9' from position('Policy 1' in convert_from(body, 'UTF8')))")] {
        let sql = format!(
            "INSERT INTO toolmark_policies SELECT name, {number}, at_ms, author, {}, mac, mac FROM toolmark_policies WHERE version = 1",
            if number == 2 {
                body.to_owned()
            } else {
                "decode(replace(encode(body, 'hex'), encode('Policy 1', 'hex'), encode('Policy 9', 'hex')), 'hex')".to_owned()
            }
        );
        client.batch_execute(&sql).unwrap();
        let said = until("it is said", || Some(stage.readiness(0)).filter(|said| said.contains(&format!("version {number}"))));
        assert!(said.contains("ledger policy") && said.contains("degraded"), "{said}");
        assert_eq!(stage.in_force(0, &format!("forged-{number}")), [1, 1]);
    }
    let listed = stage.toolmark(&["policy", "list"]);
    assert!(listed.code == Some(1) && listed.stdout.contains("NOT AS IT WAS PUT"), "{listed:?}");
    // Nothing is put behind it before it is gone.
    let put = stage.put(4);
    assert!(put.code == Some(2) && put.stderr.contains("version 3"), "{put:?}");
    client.batch_execute("DELETE FROM toolmark_policies WHERE version > 1").unwrap();
    for number in 2..=4 {
        assert_eq!(stage.put(number).code, Some(0));
    }
    until("the policy is in force", || (stage.in_force(0, "m4") == [4, 4]).then_some(()));
    assert!(stage.readiness(0).contains("\"ledger policy\":{\"state\":\"ready\"}"), "{}", stage.readiness(0));
}

/// A misspelt name isn't taken in silence.
#[test]
fn a_policy_that_nobody_put_is_told_at_the_start() {
    let ledger = Ledger::postgres();
    let settings = format!(
        "policy = \"ledger:strct\"\n[ledger]\nurl = \"{}\"\n[[upstreams]]\nname = \"u\"\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        ledger.url()
    );
    write(ledger.directory(), "toolmark.toml", &settings);
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"], ledger.directory());
    serve.env("TOOLMARK_KEY", KEY);
    let mut running = Running::start(serve);
    running.address();
    let told = running.line_with("no policy `strct` was put into the ledger yet");
    assert!(told.contains("WARN") && told.contains("built in"), "{told}");
}

#[test]
fn a_policy_in_the_ledger_needs_one_that_replicas_share() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "toolmark.toml", "policy = \"ledger\"\n[[upstreams]]\nname = \"u\"\nbase_url = \"http://127.0.0.1:9/v1\"\n");
    for arguments in [&["check"][..], &["policy", "list"]] {
        let refused: Finished = command(arguments, directory.path()).output().unwrap().into();
        assert!(refused.code == Some(2) && refused.stderr.contains("postgres://"), "{refused:?}");
    }
}
