//! The stores themselves: eight writers at once, clocks that are wrong, and a restart.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use toolmark::{
    counters::{
        Append, CounterStore, ENTRIES_MAX, Entry, SharedCounters, Take, Taken, bucket::Bucket, postgres::PostgresCounters,
        redis::RedisCounters, session_log::SessionLog,
    },
    judge::loops::SessionCall,
    ledger::record::ScopeDigest,
    marks::MarkTime,
    settings::{CountersSettings, CountersUrl, Secret},
};

use super::Place;
use crate::{harness::run, program::until};

const WRITERS: u64 = 8;
const DAY: Duration = Duration::from_secs(24 * 3600);

fn open(place: &Place) -> Box<dyn CounterStore> {
    match place {
        Place::Valkey(own) => Box::new(RedisCounters::open(&own.url()).unwrap()),
        Place::Postgres(_) | Place::OwnPostgres(_) => Box::new(PostgresCounters::open(&place.url()).unwrap()),
    }
}

fn counters(place: &Place, key: u8) -> SharedCounters {
    let url = Secret::new(place.url());
    let url = match place {
        Place::Valkey(_) => CountersUrl::Redis(url),
        Place::Postgres(_) | Place::OwnPostgres(_) => CountersUrl::Postgres(url),
    };
    let settings = CountersSettings { url, wait: Duration::from_secs(10) };
    std::sync::Arc::into_inner(SharedCounters::of_settings(&settings, &[[key; 32]]).unwrap().unwrap()).unwrap()
}

fn granted(taken: &[Taken]) -> u64 {
    taken.iter().filter(|own| **own == Taken::Granted).count() as u64
}

#[test]
fn eight_writers_together_take_what_one_would() {
    for place in Place::all() {
        // A day fills it: nothing comes back meanwhile.
        let bucket = Bucket::new([1; 32], 2_000, DAY);
        let began = Instant::now();
        let total: u64 = std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=WRITERS)
                .map(|own| {
                    let (place, bucket) = (&place, &bucket);
                    scope.spawn(move || {
                        let (mut store, mut total, mut refused) = (open(place), 0, 0);
                        // Several at once, of two buckets, and some that cost more.
                        while refused < 3 {
                            let takes: Vec<Take> =
                                (0..own).map(|_| bucket.take(1)).chain([Bucket::new([2; 32], 10, DAY).take(0)]).collect();
                            let taken = store.take(&takes).unwrap();
                            let mine = granted(&taken[..own as usize]);
                            assert_eq!(taken[own as usize], Taken::Granted, "nobody takes of the other one");
                            total += mine;
                            refused += u64::from(mine < own);
                        }
                        total
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert!(began.elapsed() < Duration::from_secs(43), "one would have come back");
        assert_eq!(total, 2_000, "{}", place.name());
    }
}

#[test]
fn what_eight_writers_settle_adds_up() {
    for place in Place::all() {
        // It gets one back in four minutes, which is longer than this takes.
        let bucket = Bucket::new([3; 32], 10_000, DAY * 30);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    let mut store = open(&place);
                    for round in 0..50 {
                        assert_eq!(store.take(&[bucket.take(20)]).unwrap(), [Taken::Granted]);
                        // Less was used, or more, or nothing came of it.
                        let used = [17, 29, 0][round % 3];
                        store.adjust(&[bucket.settle(20, used)]).unwrap();
                    }
                });
            }
        });
        let used = WRITERS * (17 * 17 + 17 * 29);
        let mut store = open(&place);
        assert!(matches!(store.take(&[bucket.take(10_001 - used)]).unwrap()[..], [Taken::Refused(_)]), "{}", place.name());
        assert_eq!(store.take(&[bucket.take(10_000 - used), bucket.take(0)]).unwrap()[0], Taken::Granted, "{}", place.name());
        // What is overdrawn is bounded, whatever is said to have been used.
        store.adjust(&[bucket.spend(u64::MAX)]).unwrap();
        let Taken::Refused(wait_us) = store.take(&[bucket.take(0)]).unwrap()[0] else { panic!("{}: nothing is left", place.name()) };
        assert!(wait_us <= (DAY * 30).as_micros() as u64, "{}: {wait_us}", place.name());
    }
}

#[test]
fn a_bucket_fills_by_the_stores_clock() {
    for place in Place::all() {
        let mut store = open(&place);
        let bucket = Bucket::new([4; 32], 4, Duration::from_millis(800));
        assert_eq!(granted(&store.take(&[bucket.take(1); 5]).unwrap()), 4, "{}", place.name());
        let refused = Instant::now();
        let Taken::Refused(wait_us) = store.take(&[bucket.take(1)]).unwrap()[0] else { panic!("{}", place.name()) };
        assert!((1..=200_000).contains(&wait_us), "{}: {wait_us}", place.name());
        until("one comes back", || (store.take(&[bucket.take(1)]).unwrap()[0] == Taken::Granted).then_some(()));
        assert!(refused.elapsed() >= Duration::from_micros(wait_us) - Duration::from_millis(2), "{}", place.name());
    }
}

#[test]
fn calls_of_writers_with_wrong_clocks_are_at_their_time() {
    let now_ms = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    for place in Place::all() {
        // Each writer's clock is wrong by another number of hours, back and ahead.
        let began_ms = now_ms();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let place = &place;
                scope.spawn(move || {
                    let log = SessionLog::new(std::sync::Arc::new(counters(place, 9)), [9; 32]);
                    let wrong = |ms: u64| (ms + writer * 3_600_000).saturating_sub(4 * 3_600_000);
                    for number in 0..20 {
                        let moment = MarkTime { time_ms: wrong(began_ms - 30_000 + number), counter: writer as u16 };
                        let call = SessionCall { tool: "work".into(), moment, at: moment, failed: Some(number % 2 == 0) };
                        // A conversation shows its calls again and again.
                        for _ in 0..2 {
                            log.add(ScopeDigest(5), "s", std::slice::from_ref(&call), wrong(now_ms()), DAY);
                        }
                    }
                });
            }
        });
        let log = SessionLog::new(std::sync::Arc::new(counters(&place, 9)), [9; 32]);
        let calls = until("all are there", || {
            let calls = run(log.calls(ScopeDigest(5), "s", now_ms())).unwrap();
            (calls.len() >= 160).then_some(calls)
        });
        let different: HashSet<MarkTime> = calls.iter().map(|call| call.moment).collect();
        assert_eq!((calls.len(), different.len()), (160, 160), "{}", place.name());
        for call in &calls {
            let off = call.at.time_ms.abs_diff(began_ms - 30_000);
            assert!(off < 2_500, "{}: a call of the writer {} is off by {off} ms", place.name(), call.moment.counter);
        }
        // Another caller's, another session's, and another deployment's.
        assert!(
            run(log.calls(ScopeDigest(6), "s", now_ms())).unwrap().is_empty()
                && run(log.calls(ScopeDigest(5), "t", now_ms())).unwrap().is_empty()
        );
        let other = SessionLog::new(std::sync::Arc::new(counters(&place, 8)), [8; 32]);
        assert!(run(other.calls(ScopeDigest(5), "s", now_ms())).unwrap().is_empty());
    }
}

#[test]
fn a_session_is_bounded_and_everything_ends() {
    for place in Place::all() {
        let mut store = open(&place);
        let entry = |number: u64| Entry { age_ms: 10_000 - number, body: number.to_le_bytes().to_vec() };
        let long = Append { key: [5; 32], entries: (0..300).map(entry).collect(), keep: DAY };
        let further = Append { key: [5; 32], entries: (300..310).map(entry).collect(), keep: DAY };
        let brief = Append { key: [6; 32], entries: vec![entry(9_990)], keep: Duration::from_millis(600) };
        let huge = Append { key: [7; 32], entries: vec![Entry { age_ms: 0, body: vec![0; 1 << 20] }], keep: DAY };
        store.append(&[long, huge, brief]).unwrap();
        store.append(&[further]).unwrap();
        let all = store.entries(&[[5; 32], [6; 32], [7; 32]]).unwrap();
        let sizes: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(sizes, [ENTRIES_MAX, 1, 0], "{}", place.name());
        let least = all[0].iter().map(|entry| u64::from_le_bytes(entry.body[..].try_into().unwrap())).min();
        assert_eq!(least, Some(310 - ENTRIES_MAX as u64), "{}: the latest stay", place.name());
        store.take(&[Bucket::new([8; 32], 4, Duration::from_millis(400)).take(3)]).unwrap();
        until("the brief one ends", || store.entries(&[[6; 32]]).unwrap()[0].is_empty().then_some(()));
        match &place {
            Place::Valkey(own) => {
                let mut client = own.client();
                let left = || redis::cmd("KEYS").arg("*").query::<Vec<String>>(&mut client).unwrap();
                let mut left = left;
                until("only the long one is left", || (left().len() == 1).then_some(()));
                let ttl: i64 = redis::cmd("PTTL").arg(&left()[0]).query(&mut own.client()).unwrap();
                assert!((1..=DAY.as_millis() as i64).contains(&ttl), "{ttl}");
            }
            Place::Postgres(own) => {
                let mut postgres = PostgresCounters::open(&place.url()).unwrap();
                until("what ended is removed", || {
                    postgres.prune().unwrap();
                    let count = "SELECT (SELECT count(*) FROM toolmark_buckets) + (SELECT count(*) FROM toolmark_sessions)";
                    (own.client().query_one(count, &[]).unwrap().get::<_, i64>(0) == ENTRIES_MAX as i64).then_some(())
                });
            }
            Place::OwnPostgres(_) => unreachable!("not asked for"),
        }
    }
}

#[test]
fn counts_are_right_over_a_restart_of_the_store() {
    for mut place in Place::lasting() {
        let bucket = Bucket::new([1; 32], 30_000, DAY);
        let (taken, unheard, ended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let replicas: Vec<SharedCounters> = (0..WRITERS).map(|_| counters(&place, 1)).collect();
        std::thread::scope(|scope| {
            for replica in &replicas {
                let (taken, unheard, ended, bucket) = (&taken, &unheard, &ended, &bucket);
                scope.spawn(move || {
                    while !ended.load(Ordering::SeqCst) {
                        let is_away = replica.status().away().is_some();
                        match run(replica.take(vec![bucket.take(1)])).as_deref() {
                            Some([Taken::Granted]) => drop(taken.fetch_add(1, Ordering::SeqCst)),
                            Some(_) => return,
                            // Asked, but not heard: it may have been taken.
                            None => {
                                unheard.fetch_add(u64::from(!is_away), Ordering::SeqCst);
                                std::thread::park_timeout(Duration::from_millis(1));
                            }
                        }
                    }
                });
            }
            let counted = |least: u64| until("they count", || (taken.load(Ordering::SeqCst) >= least).then_some(()));
            counted(200);
            for _ in 0..2 {
                place.stop(false);
                until("they notice", || replicas.iter().all(|own| own.status().away().is_some()).then_some(()));
                place.start_again();
                until("they come back", || replicas.iter().all(|own| own.status().away().is_none()).then_some(()));
                counted(taken.load(Ordering::SeqCst) + 200);
            }
            ended.store(true, Ordering::SeqCst);
        });
        let (taken, unheard) = (taken.into_inner(), unheard.into_inner());
        let mut store = open(&place);
        let rest = |amount: u64, store: &mut Box<dyn CounterStore>| store.take(&[bucket.take(amount)]).unwrap()[0] == Taken::Granted;
        assert!(!rest(30_001 - taken, &mut store), "{}: {taken} were taken, and some of them forgotten", place.name());
        assert!(
            rest(30_000 - taken - unheard, &mut store),
            "{}: {taken} were taken, {unheard} perhaps, and more than that is gone",
            place.name()
        );
        // Few, or the rest above shows nothing: one a writer and lapse, and those that began as it was noticed.
        assert!(unheard <= 8 * WRITERS, "{}: {unheard}", place.name());
    }
}
