//! Killed at any moment under load, the ledger opens, verifies, and holds what it promised.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use toolmark::{
    ledger::{
        chain::ChainKeys,
        store::{ChainStore, open::open_to_read},
        verify::verify,
    },
    settings::{LedgerUrl, Secret},
    testing::ScriptedUpstream,
};
use uuid::Uuid;

use super::talk::{KEY, request, result, script, user};
use crate::{postgres::Ledger, process::Process, wire::Connection};

/// Of each store and durability: 52 in all.
const ROUNDS: u64 = 13;
/// Answers that they must come to together.
const ANSWERS_MIN: usize = 50;
/// What `durability = "batch"` may lose.
const LOST: Duration = Duration::from_secs(1);

/// The bytes of [`KEY`].
pub fn key() -> [u8; 32] {
    std::array::from_fn(|at| at as u8)
}

/// The ledger as another process reads it.
pub fn store_of(ledger: &Ledger) -> std::sync::Arc<dyn ChainStore> {
    let url = match ledger {
        Ledger::Sqlite(directory) => LedgerUrl::Sqlite(directory.path().join("toolmark.db")),
        Ledger::Postgres(_, database) => LedgerUrl::Postgres(Secret::new(database.url())),
    };
    open_to_read(&url).unwrap()
}

/// Talks until told to stop, or cut off; every answer that came whole is noted.
fn talk(mut connection: Connection, round: usize, stop: &AtomicBool, answered: &Mutex<Vec<(Uuid, usize, Instant)>>) {
    let question = user("Weather?");
    let mut conversation = vec![question.clone()];
    while !stop.load(Ordering::Relaxed) {
        let reply = connection.chat(&request(&conversation));
        if !reply.whole || reply.status != 200 {
            return;
        }
        answered.lock().unwrap().push((reply.header("toolmark-exchange").parse().unwrap(), round, Instant::now()));
        let message = reply.json()["choices"][0]["message"].clone();
        conversation.truncate(1);
        if message["tool_calls"].is_array() {
            let returned = result(&message, "{\"sky\":\"clear\"}");
            conversation.extend([message, returned]);
        }
    }
}

/// Lets so much time pass; how long this thread once didn't run although it was to: no process ran more than its share then.
fn pass(time: Duration) -> Duration {
    const STEP: Duration = Duration::from_millis(10);
    let (begun, mut lag) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < time {
        let step = Instant::now();
        std::thread::park_timeout(STEP);
        lag = lag.max(step.elapsed().saturating_sub(STEP));
    }
    lag
}

fn rounds(ledger: &Ledger, durability: &str) {
    let upstream = ScriptedUpstream::start(script).unwrap();
    let settings = format!("[ledger]\nurl = \"{}\"\ndurability = \"{durability}\"\n", ledger.url());
    let answered = Mutex::new(Vec::new());
    let (mut killed, mut lag) = (Vec::new(), Duration::ZERO);
    // A slow machine needs more rounds to give as many answers.
    for round in 0..ROUNDS * 8 {
        if round >= ROUNDS && answered.lock().unwrap().len() > ANSWERS_MIN {
            break;
        }
        let process = Process::start_in(ledger.directory(), &upstream, &settings, Some(KEY));
        let stop = AtomicBool::new(false);
        // Some moment or other; now and then later than what may be lost.
        let moment = if round % 6 == 5 { Duration::from_millis(1500) } else { Duration::from_millis(20 + (round * 7919) % 331) };
        let number = killed.len();
        let mut connections: Vec<Connection> = (0..2).map(|_| process.connect()).collect();
        std::thread::scope(|scope| {
            let talking: Vec<_> = connections.drain(..).map(|own| scope.spawn(|| talk(own, number, &stop, &answered))).collect();
            lag = lag.max(pass(moment));
            killed.push(Instant::now());
            drop(process);
            stop.store(true, Ordering::Relaxed);
            talking.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let store = store_of(ledger);
        let report = verify(&*store, &ChainKeys::new(&[key()]), &[]).unwrap();
        assert_eq!(report.fault, None, "{durability}, round {round}");
    }
    let store = store_of(ledger);
    let answered = answered.into_inner().unwrap();
    assert!(answered.len() > ANSWERS_MIN, "{} answers in all", answered.len());
    let mut missing = 0;
    for (id, round, at) in &answered {
        let kept = store.exchange(*id).unwrap().is_some();
        // An answer may have come while the process was being killed.
        let end = killed.get(*round).unwrap_or(at).max(at);
        let may_be_lost = durability == "batch" && end.duration_since(*at) < LOST + lag * 8;
        assert!(kept || may_be_lost, "{durability}: {id}, answered {:?} before the end, isn't there", end.duration_since(*at));
        missing += usize::from(!kept);
    }
    eprintln!("{durability}: lag {lag:?}, {} answers, {missing} of them not recorded", answered.len());
}

#[test]
fn killed_with_sqlite_and_batch() {
    rounds(&Ledger::sqlite(), "batch");
}

#[test]
fn killed_with_sqlite_and_commit() {
    rounds(&Ledger::sqlite(), "commit");
}

#[test]
fn killed_with_postgres_and_batch() {
    rounds(&Ledger::postgres(), "batch");
}

#[test]
fn killed_with_postgres_and_commit() {
    rounds(&Ledger::postgres(), "commit");
}

#[test]
fn the_key_is_the_one_that_the_processes_have() {
    let hex: String = key().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, KEY);
}
