//! Two replicas that share one PostgreSQL: each result has one first, each execution one record.

use std::{collections::HashSet, path::Path, sync::Barrier};

use toolmark::{
    ledger::{
        chain::ChainKeys,
        store::{ExecutionFilter, PageQuery},
        verify::verify,
    },
    testing::ScriptedUpstream,
};

use super::{
    crash::{key, store_of},
    talk::{KEY, request, result, script, user},
};
use crate::{
    postgres::{Database, Ledger},
    process::Process,
    program::until,
    wire::{Connection, Reply},
};

const ROUNDS: usize = 40;

#[test]
fn first_wins_across_replicas_without_duplicate_or_deadlock() {
    let ledger = Ledger::postgres();
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!("[ledger]\nurl = \"{}\"\n", ledger.url());
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let replicas: Vec<Process> =
        directories.iter().map(|directory| Process::start_in(directory.path(), &upstream, &settings, Some(KEY))).collect();
    let question = user("Weather?");
    let mut asking = replicas.first().unwrap().connect();
    // Several calls of one request, so that rows are claimed many at a time.
    let called: Vec<_> =
        (0..ROUNDS * 3).map(|_| asking.chat(&request(std::slice::from_ref(&question))).json()["choices"][0]["message"].clone()).collect();
    let conversation = |round: usize, said: &str, backwards: bool| {
        let mut turns: Vec<_> = called[round * 3..round * 3 + 3].iter().map(|call| [call.clone(), result(call, said)]).collect();
        if backwards {
            turns.reverse();
        }
        request(&std::iter::once(question.clone()).chain(turns.into_iter().flatten()).collect::<Vec<_>>())
    };
    let barrier = Barrier::new(2);
    let talk = |mut connection: Connection, said: &'static str, backwards: bool| -> Vec<Reply> {
        let one = |round| {
            let body = conversation(round, said, backwards);
            barrier.wait();
            connection.chat(&body)
        };
        (0..ROUNDS).map(one).collect()
    };
    let (left, right) = std::thread::scope(|scope| {
        let [left, right] = [("left", false), ("right", true)].map(|(said, backwards)| {
            let connection = replicas[usize::from(backwards)].connect();
            let talk = &talk;
            scope.spawn(move || talk(connection, said, backwards))
        });
        (left.join().unwrap(), right.join().unwrap())
    });
    let rewritten = |reply: &Reply| {
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.header("toolmark-violations").contains("rewritten_result")
    };
    for (round, (left, right)) in left.iter().zip(&right).enumerate() {
        // Claimed together, the three have one first; where each side got some, both notice.
        assert!(rewritten(left) || rewritten(right), "round {round}: both were first");
    }
    let store = store_of(&ledger);
    let page = PageQuery { limit: 1000, ..PageQuery::default() };
    let filter = ExecutionFilter { page, ..ExecutionFilter::default() };
    let rows = until("all executions are recorded", || {
        let rows = store.executions(&filter).unwrap().rows;
        (rows.len() >= called.len()).then_some(rows)
    });
    let ids: HashSet<_> = rows.iter().map(|row| row.execution.id.clone()).collect();
    assert_eq!((rows.len(), ids.len()), (called.len(), called.len()));
    assert!(replicas.into_iter().all(|replica| replica.stop().success()));
    let report = verify(&*store, &ChainKeys::new(&[key()]), &[]).unwrap();
    assert_eq!((report.fault, report.chains), (None, 2));
    // In the records themselves, too, each stands once.
    let recorded: u64 = store.chains().unwrap().iter().map(|chain| count(&*store, chain.writer)).sum();
    assert_eq!(recorded, called.len() as u64);
}

fn count(store: &dyn toolmark::ledger::store::ChainStore, writer: u32) -> u64 {
    let records = store.records(writer, 0, 10_000).unwrap();
    records.iter().map(|record| toolmark::ledger::codec::read(&record.body).unwrap().executions.len() as u64).sum()
}

/// A lock on the table of claims, which holds up what asks for first results.
struct HeldUp(postgres::Client);

impl HeldUp {
    fn new(database: &Database) -> Self {
        let mut client = database.client();
        client.batch_execute("BEGIN; LOCK TABLE toolmark_claims IN ACCESS EXCLUSIVE MODE").unwrap();
        Self(client)
    }

    fn is_waited_for(&mut self) -> bool {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.0.query_one(waiting, &[]).unwrap().get::<_, i64>(0) > 0
    }

    fn release(mut self) {
        self.0.batch_execute("COMMIT").unwrap();
    }
}

#[test]
fn first_results_are_asked_for_while_the_upstream_answers_unless_the_request_may_be_refused() {
    for policy in ["default", "strict"] {
        let ledger = Ledger::postgres();
        let Ledger::Postgres(directory, database) = &ledger else { unreachable!() };
        let upstream = ScriptedUpstream::start(script).unwrap();
        let settings = format!("[ledger]\nurl = \"{}\"\nlookup = \"60s\"\n", ledger.url());
        // The policy of a directory is the default one of whoever runs there.
        std::fs::create_dir(directory.path().join("policies")).unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("policies/{policy}.toml"));
        std::fs::copy(own, directory.path().join("policies/default.toml")).unwrap();
        let process = Process::start_in(directory.path(), &upstream, &settings, Some(KEY));
        let mut connection = process.connect();
        let called = connection.chat(&request(&[user("Weather?")])).json()["choices"][0]["message"].clone();
        let body = request(&[user("Weather?"), called.clone(), result(&called, "clear")]);
        let mut held = HeldUp::new(database);
        std::thread::scope(|scope| {
            let reply = scope.spawn(|| connection.chat(&body));
            until("the ledger is asked", || held.is_waited_for().then_some(()));
            if policy == "default" {
                assert!(upstream.wait(2, 0), "the upstream isn't asked before the ledger has answered");
            } else {
                assert_eq!(upstream.received().len(), 1, "a request went upstream that may be refused");
            }
            held.release();
            let reply = reply.join().unwrap();
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert!(!reply.header("toolmark-violations").contains("ledger_unavailable"), "{reply:?}");
        });
        assert!(upstream.received().len() >= 2);
        drop(connection);
        assert!(process.stop().success());
    }
}

#[test]
fn a_result_is_recorded_although_its_caller_left_before_the_ledger_answered() {
    let ledger = Ledger::postgres();
    let Ledger::Postgres(directory, database) = &ledger else { unreachable!() };
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!("[ledger]\nurl = \"{}\"\nlookup = \"60s\"\n", ledger.url());
    let process = Process::start_in(directory.path(), &upstream, &settings, Some(KEY));
    let mut connection = process.connect();
    let called = connection.chat(&request(&[user("Weather?")])).json()["choices"][0]["message"].clone();
    let body = request(&[user("Weather?"), called.clone(), result(&called, "clear")]);
    let mut held = HeldUp::new(database);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer test\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.send(head.as_bytes());
    until("the ledger is asked", || held.is_waited_for().then_some(()));
    assert!(upstream.wait(2, 0));
    drop(connection);
    held.release();
    let filter = ExecutionFilter { page: PageQuery { limit: 9, ..PageQuery::default() }, ..ExecutionFilter::default() };
    let rows = until("the execution is recorded", || {
        let rows = store_of(&ledger).executions(&filter).unwrap().rows;
        (!rows.is_empty()).then_some(rows)
    });
    assert_eq!(rows.len(), 1);
    assert!(process.stop().success());
}
