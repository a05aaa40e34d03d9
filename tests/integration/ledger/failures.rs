//! A full disk, and a database that is gone: no hang, no lost answer, and all is well again without a restart.

use std::process::{Command, Stdio};

use toolmark::{
    ledger::{chain::ChainKeys, verify::verify},
    testing::ScriptedUpstream,
};
use uuid::Uuid;

use super::{
    crash::{key, store_of},
    talk::{KEY, request, result, script, user},
};
use crate::{
    postgres::Ledger,
    process::Process,
    program::{Running, until},
    wire::Connection,
};

const UNAVAILABLE: &str = "ledger_unavailable";

fn ids(all: &[Uuid], ledger: &Ledger) -> usize {
    let store = store_of(ledger);
    all.iter().filter(|id| store.exchange(**id).unwrap().is_some()).count()
}

/// Asks until the answer says what is expected of the ledger; the ids of all answers.
fn ask_until(connection: &mut Connection, ids: &mut Vec<Uuid>, expected: bool) {
    until(&format!("{UNAVAILABLE}: {expected}"), || {
        let reply = connection.chat(&request(&[user("Weather?")]));
        assert_eq!(reply.status, 200, "{}", reply.text());
        ids.push(reply.header("toolmark-exchange").parse().unwrap());
        (reply.header("toolmark-violations").contains(UNAVAILABLE) == expected).then_some(())
    });
}

#[test]
fn a_full_disk_holds_nobody_up_for_long_and_loses_nothing() {
    let ledger = Ledger::sqlite();
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!(
        "listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"scripted\"\nbase_url = \"{}\"\n[ledger]\nurl = \"{}\"\ndurability = \"commit\"\nwait = \"200ms\"\n",
        upstream.base_url(),
        ledger.url()
    );
    let admin = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = format!("{settings}[admin]\nlisten = \"{admin}\"\n");
    std::fs::write(ledger.directory().join("toolmark.toml"), settings).unwrap();
    let ready = || {
        let reply = Connection::open(admin).get("/readyz");
        (reply.status, reply.json()["parts"]["ledger"]["state"].as_str().unwrap_or_default().to_owned())
    };
    // The key's file and the tables fit, some hundred records don't.
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -S -f 400; exec \"$0\" serve", env!("CARGO_BIN_EXE_toolmark")]);
    command.current_dir(ledger.directory()).env("TOOLMARK_KEY", KEY).stdin(Stdio::null());
    let mut running = Running::start(command);
    let mut connection = Connection::open(running.address().parse().unwrap());
    let mut all = Vec::new();
    ask_until(&mut connection, &mut all, false);
    assert_eq!(ready(), (200, "ready".to_owned()));
    ask_until(&mut connection, &mut all, true);
    assert_eq!(ready(), (503, "down".to_owned()), "reading works on a full disk, too");
    let raised = Command::new("prlimit").args(["--fsize=unlimited:unlimited", "--pid", &running.id().to_string()]).status().unwrap();
    assert!(raised.success(), "prlimit is Debian's util-linux");
    ask_until(&mut connection, &mut all, false);
    until("it is ready again", || (ready() == (200, "ready".to_owned())).then_some(()));
    until("every answer's record", || (ids(&all, &ledger) == all.len()).then_some(()));
    let report = verify(&*store_of(&ledger), &ChainKeys::new(&[key()]), &[]).unwrap();
    // One for each, and one more where it had to be said that the first was late.
    assert!(report.fault.is_none() && report.records >= all.len() as u64, "{report:?}");
}

#[test]
fn a_database_that_is_gone_holds_nobody_up_for_long_and_loses_nothing() {
    let ledger = Ledger::postgres();
    let Ledger::Postgres(_, database) = &ledger else { unreachable!() };
    let line = database.line();
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = |durability: &str| {
        format!("[ledger]\nurl = \"{}\"\ndurability = \"{durability}\"\nwait = \"300ms\"\nlookup = \"300ms\"\n", line.url())
    };
    let process = Process::start_in(ledger.directory(), &upstream, &settings("commit"), Some(KEY));
    let strict = ["batch", "commit"].map(|durability| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("policies")).unwrap();
        // The policy of a directory is the default one of whoever runs there.
        std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/strict.toml"), directory.path().join("policies/default.toml"))
            .unwrap();
        let admin = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings = format!("{}[admin]\nlisten = \"{admin}\"\n", settings(durability));
        (Process::start_in(directory.path(), &upstream, &settings, Some(KEY)), directory, admin)
    });
    let admins = strict.each_ref().map(|(_, _, admin)| *admin);
    let ready = || {
        let replies = admins.map(|admin| Connection::open(admin).get("/readyz"));
        replies.map(|reply| (reply.status, reply.json()["parts"]["ledger"]["state"].as_str().unwrap_or_default().to_owned()))
    };
    assert_eq!(ready(), [(200, "ready".to_owned()), (200, "ready".to_owned())]);
    let mut connection = process.connect();
    let [mut unsure, mut strictly] = strict.each_ref().map(|(process, ..)| process.connect());
    let mut all = Vec::new();
    ask_until(&mut connection, &mut all, false);
    let called = connection.chat(&request(&[user("Weather?")]));
    all.push(called.header("toolmark-exchange").parse().unwrap());
    let called = called.json()["choices"][0]["message"].clone();
    let answered = request(&[user("Weather?"), called.clone(), result(&called, "clear")]);
    line.cut();
    // Neither whether the result is the first one can be told, nor is the record on disk.
    let reply = connection.chat(&answered);
    assert_eq!((reply.status, reply.header("toolmark-violations")), (200, UNAVAILABLE), "{}", reply.text());
    all.push(reply.header("toolmark-exchange").parse().unwrap());
    let reply = unsure.chat(&answered);
    assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (400, Some(UNAVAILABLE)), "{}", reply.text());
    let reply = strictly.chat(&request(&[user("Weather?")]));
    assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (503, Some(UNAVAILABLE)), "{}", reply.text());
    ask_until(&mut connection, &mut all, true);
    // Where answers needn't wait for the disk, all is served without the database: the load balancer mustn't withdraw all replicas.
    until("what /readyz says", || (ready() == [(200, "degraded".to_owned()), (503, "down".to_owned())]).then_some(()));
    line.mend();
    ask_until(&mut connection, &mut all, false);
    until("every answer's record", || (ids(&all, &ledger) == all.len()).then_some(()));
    let report = verify(&*store_of(&ledger), &ChainKeys::new(&[key()]), &[]).unwrap();
    assert_eq!(report.fault, None);
    assert!(process.stop().success() && strict.into_iter().all(|(process, ..)| process.stop().success()));
}
