//! Three replicas on one PostgreSQL under agents' load, of which one is killed every few seconds while the database is restarted
//! twice: every verdict and stamp as at one replica that nothing happens to, or it is said that something couldn't be known.
//!
//! `TOOLMARK_SOAK_RUNS` is the number of agents' runs, 60 where nothing is said; figures are printed (`--nocapture`).

mod fleet;
mod model;
mod run;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};
use toolmark::testing::ScriptedUpstream;

use self::{
    fleet::{Again, Dice, Fleet},
    model::upstream,
    run::{Form, Outcome, Played, Run, Step},
};
use crate::postgres::{Database, OwnServer};

const KEY_BYTE: u8 = 0xab;
const KEY: &str = "ab";
/// Keys and names of the callers: the policy of the settings, and the strict one.
const CALLERS: [(&str, &str); 2] = [("key-plain", "plain"), ("key-strict", "strict")];
/// Whose the conversations aren't.
const INTRUDER: (&str, &str) = ("key-other", "other");
const REPLICAS: usize = 3;
/// Runs at a time.
const AGENTS: usize = 4;
const RUNS: u64 = 60;
const SEED: u64 = 20_261_125;
/// A replica is killed after so long, and after so much of all steps: whatever is sooner.
const KILLED_EVERY: Duration = Duration::from_secs(3);
const KILLED_TIMES_MIN: usize = 6;
/// How long the database stays away.
const AWAY: Duration = Duration::from_millis(1800);

/// Errors that say that what the request names is lost.
const LOST: [&str; 4] = ["ledger_unavailable", "unknown_response", "unknown_conversation", "thread_not_found"];

/// Settings and policy of every replica. `further`: lines of the section of the ledger.
fn settings(base_url: &str, ledger: &str, further: &str) -> (String, String) {
    let mut text = format!(
        "policy = \"policy.toml\"\n[ledger]\nurl = \"{ledger}\"\n{further}\n[admin]\nlisten = \"off\"\n\
         [[upstreams]]\nname = \"scripted\"\nbase_url = \"{base_url}\"\napi_key_env = \"UPSTREAM_KEY\"\n"
    );
    for (key, name) in CALLERS.iter().chain([&INTRUDER]) {
        let policy = if *name == "strict" { "policy = \"strict\"\n" } else { "" };
        let digest: String = Sha256::digest(key.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let _ = write!(text, "[[clients]]\nname = \"{name}\"\nkey_sha256 = \"{digest}\"\n{policy}");
    }
    (text, "[citations]\nshow = true\n[calls]\ncorrections = []\n".to_owned())
}

/// Plays all runs, some at a time; in their order. `told`: called after each step.
fn play(fleet: &Fleet, runs: &[Run], told: &(dyn Fn() + Sync)) -> Vec<Played> {
    let next = AtomicUsize::new(0);
    let mut played: Vec<(usize, Played)> = std::thread::scope(|scope| {
        let agent = || {
            let mut own = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(run) = runs.get(at) else { return own };
                own.push((at, run.play(fleet, SEED, told)));
            }
        };
        let agents: Vec<_> = (0..AGENTS).map(|_| scope.spawn(agent)).collect();
        agents.into_iter().flat_map(|agent| agent.join().unwrap()).collect()
    });
    played.sort_by_key(|(at, _)| *at);
    played.into_iter().map(|(_, played)| played).collect()
}

/// The time of day in seconds, for what is told of a run that went wrong.
fn time() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{:.3}", since.as_secs_f64() % 86400.0)
}

/// What happened to replicas and database.
#[derive(Debug, Default)]
struct Disturbed {
    killed: usize,
    restarted: usize,
    /// When the database was stopped and when it was back.
    away: Vec<(String, String)>,
}

/// Kills a replica every few seconds and restarts the database twice, until all is played.
fn disturb(fleet: &Fleet, database: &mut OwnServer, steps: usize, done: &AtomicUsize, ended: &AtomicBool) -> Disturbed {
    let mut disturbed = Disturbed::default();
    let mut dice = Dice::new(SEED);
    let (mut last, mut last_done) = (Instant::now(), 0);
    while !ended.load(Ordering::Acquire) {
        std::thread::park_timeout(Duration::from_millis(10));
        let now_done = done.load(Ordering::Relaxed);
        if now_done * 3 > steps * (disturbed.restarted + 1) && disturbed.restarted < 2 {
            let stopped = time();
            database.stop(disturbed.restarted == 1);
            let away = Instant::now();
            while let Some(left) = AWAY.checked_sub(away.elapsed()) {
                std::thread::park_timeout(left);
            }
            database.start_again();
            disturbed.away.push((stopped, time()));
            disturbed.restarted += 1;
        } else if last.elapsed() > KILLED_EVERY || now_done - last_done > steps / (KILLED_TIMES_MIN + 1) {
            fleet.kill(dice.roll(REPLICAS));
            disturbed.killed += 1;
            (last, last_done) = (Instant::now(), now_done);
        }
    }
    disturbed
}

/// What two outcomes of one step mean.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Compared {
    Equal,
    /// It isn't the same, and says that the ledger didn't say in time.
    SaidUnknown,
    /// It isn't the same since an earlier step of the run said so, and what it was about is lost: the replica that had it was killed
    /// before the database was back. Either it says that itself, or that earlier step was refused, so that the agent goes on with
    /// another conversation.
    AfterUnknown,
    Different,
}

/// What an earlier step of a run said.
#[derive(Clone, Copy, Default)]
struct Earlier {
    /// The ledger didn't say in time.
    unknown: bool,
    /// It was refused for that.
    refused: bool,
}

fn compare(undisturbed: &Outcome, disturbed: &Outcome, earlier: Earlier) -> Compared {
    let says = disturbed.codes.contains("ledger_unavailable") && disturbed.verdict != "pass";
    // Whether a result was the first one may never have been known.
    let is_first = || {
        undisturbed.codes.contains("rewritten_result")
            && undisturbed.codes.iter().filter(|code| *code != "rewritten_result").eq(disturbed.codes.iter())
    };
    let says_lost = || disturbed.codes.contains("history_incomplete") || LOST.contains(&&*disturbed.error);
    match undisturbed == disturbed {
        true => Compared::Equal,
        false if says => Compared::SaidUnknown,
        false if earlier.unknown && (earlier.refused || says_lost() || is_first()) => Compared::AfterUnknown,
        false => Compared::Different,
    }
}

#[test]
fn three_replicas_that_are_killed_judge_as_one_that_isnt() {
    let runs = std::env::var("TOOLMARK_SOAK_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let runs: Vec<Run> = (0..runs).map(Run::new).collect();
    let steps = runs.iter().map(|run| run.steps.len()).sum();
    let begun = Instant::now();
    let alone = {
        let upstream = ScriptedUpstream::start(upstream()).unwrap();
        let fleet = Fleet::start(1, &upstream, "sqlite:toolmark.db");
        let played = play(&fleet, &runs, &|| {});
        assert!(fleet.stop());
        played
    };
    let alone_took = begun.elapsed();
    let begun = Instant::now();
    let mut database = OwnServer::start();
    let upstream = ScriptedUpstream::start(upstream()).unwrap();
    let fleet = Fleet::start(REPLICAS, &upstream, &database.url());
    let (done, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (together, disturbed) = std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| disturb(&fleet, &mut database, steps, &done, &ended));
        let played = play(&fleet, &runs, &|| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        ended.store(true, Ordering::Release);
        (played, disturbing.join().unwrap())
    });
    let together_took = begun.elapsed();
    let (mut counts, mut wrong) = (BTreeMap::<(Form, Compared), usize>::new(), Vec::new());
    let (mut verdicts, mut again) = (BTreeMap::<String, usize>::new(), Again::default());
    for (run, (alone, together)) in runs.iter().zip(alone.iter().zip(&together)) {
        again.broken += together.again.broken;
        again.unavailable += together.again.unavailable;
        again.unknown += together.again.unknown;
        let mut earlier = Earlier::default();
        for (at, ((step, one), (_, other))) in alone.outcomes.iter().zip(&together.outcomes).enumerate() {
            earlier.unknown |= together.unknown_from.is_some_and(|from| from <= at);
            let compared = compare(one, other, earlier);
            earlier.unknown |= compared == Compared::SaidUnknown;
            earlier.refused |= earlier.unknown && other.status >= 400 && one.status < 400;
            *counts.entry((run.form, compared)).or_default() += 1;
            *verdicts.entry(one.verdict.clone()).or_default() += 1;
            match compared {
                Compared::Equal | Compared::SaidUnknown => {}
                Compared::AfterUnknown => eprintln!("after what wasn't known: {}", described(run, at, *step, one, other, together)),
                Compared::Different => wrong.push(described(run, at, *step, one, other, together)),
            }
        }
    }
    eprintln!(
        "{} runs, {steps} steps: {counts:?}; undisturbed {verdicts:?}; {disturbed:?}; sent again: {again:?}; took {:.1} s alone, {:.1} s disturbed",
        runs.len(),
        alone_took.as_secs_f64(),
        together_took.as_secs_f64()
    );
    let warnings = if wrong.is_empty() { String::new() } else { fleet.warnings() };
    assert!(wrong.is_empty(), "{} of {steps} steps differ:\n{}\n{warnings}", wrong.len(), wrong.join("\n"));
    assert!(disturbed.restarted == 2 && disturbed.killed >= KILLED_TIMES_MIN / 2, "{disturbed:?}");
    assert!(fleet.stop());
}

/// Rolling restarts: each replica in turn gets SIGTERM while agents talk, and comes back.
#[test]
fn replicas_that_are_restarted_in_turn_break_no_answer() {
    const ROUNDS: usize = 2;
    let runs: Vec<Run> = (5000..5030).map(Run::new).collect();
    let alone = {
        let upstream = ScriptedUpstream::start(upstream()).unwrap();
        let fleet = Fleet::start(1, &upstream, "sqlite:toolmark.db");
        play(&fleet, &runs, &|| {})
    };
    let database = Database::new();
    let upstream = ScriptedUpstream::start(upstream()).unwrap();
    let fleet = Fleet::start(REPLICAS, &upstream, &database.url());
    let ended = AtomicBool::new(false);
    let played = std::thread::scope(|scope| {
        let restarting = scope.spawn(|| {
            for replica in (0..REPLICAS * ROUNDS).map(|at| at % REPLICAS) {
                assert!(fleet.restart(replica), "replica {replica} ended badly");
            }
            ended.store(true, Ordering::Release);
        });
        // Agents go on until all were restarted.
        let mut played = vec![play(&fleet, &runs, &|| {})];
        while !ended.load(Ordering::Acquire) {
            let again: Vec<Run> = runs.iter().map(|run| Run::again(run.number, played.len())).collect();
            played.push(play(&fleet, &again, &|| {}));
        }
        restarting.join().unwrap();
        played
    });
    let mut cut = 0;
    for (run, (one, other)) in played.iter().flat_map(|played| runs.iter().zip(alone.iter().zip(played))) {
        cut += other.again.cut;
        for (at, ((step, one), (_, outcome))) in one.outcomes.iter().zip(&other.outcomes).enumerate() {
            assert!(one == outcome, "{}", described(run, at, *step, one, outcome, other));
        }
    }
    eprintln!("{} runs in {} rounds", runs.len(), played.len());
    assert_eq!(cut, 0, "answers that had begun were broken off");
    assert!(fleet.stop());
}

/// What an exchange leaves in PostgreSQL: rows and bytes in each table, and bytes of its log. With `TOOLMARK_SOAK_COSTS` for all
/// forms, and printed for docs/operating.md.
#[test]
fn an_exchange_leaves_few_rows_in_postgresql() {
    const TABLES: [&str; 7] = ["records", "executions", "violations", "claims", "hours", "kept", "bodies"];
    let (forms, runs) = if std::env::var_os("TOOLMARK_SOAK_COSTS").is_some() { (&Form::ALL[..], 100) } else { (&[Form::Previous][..], 5) };
    for (form, store) in forms.iter().flat_map(|form| [(*form, "digests"), (*form, "bodies")]) {
        let database = OwnServer::start();
        let upstream = ScriptedUpstream::start(upstream()).unwrap();
        // A busy machine is none of this test's business.
        let fleet = Fleet::storing(&format!("store = \"{store}\"\nlookup = \"60s\""), 2, &upstream, &database.url());
        let mut client = database.client("soak");
        client.batch_execute("CHECKPOINT").unwrap();
        let mut at = |sql: &str| client.query_one(sql, &[]).unwrap().get::<_, i64>(0);
        let position = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let (log, commits) = (at(position), at("SELECT xact_commit FROM pg_stat_database WHERE datname = 'soak'"));
        let runs: Vec<Run> = (0..runs).map(|number| Run::honest(number, form)).collect();
        let played = play(&fleet, &runs, &|| {});
        let wrong = played.iter().find(|played| played.outcomes.iter().any(|(_, outcome)| outcome.verdict != "pass"));
        assert!(
            wrong.is_none(),
            "{form:?}: {:?}\n{}",
            wrong.map(|played| &played.outcomes),
            wrong.map(|played| played.replies.join("\n")).unwrap_or_default()
        );
        assert!(fleet.stop());
        let exchanges = runs.len() as i64 * 3;
        let log = at(position) - log;
        let counts = TABLES.map(|table| {
            (at(&format!("SELECT count(*) FROM toolmark_{table}")), at(&format!("SELECT pg_total_relation_size('toolmark_{table}')")))
        });
        let commits = at("SELECT xact_commit FROM pg_stat_database WHERE datname = 'soak'") - commits;
        let each = |number: i64| number as f64 / exchanges as f64;
        let told: Vec<String> = TABLES
            .iter()
            .zip(counts)
            .filter(|(_, (rows, _))| *rows > 0)
            .map(|(table, (rows, bytes))| format!("{table} {:.2} rows {:.0} B", each(rows), each(bytes)))
            .collect();
        let bytes: i64 = counts.iter().map(|(_, bytes)| bytes).sum();
        eprintln!(
            "{form:?}, {store}: each of {exchanges} exchanges left {}; together {:.0} B of tables, {:.0} B of log, {:.2} transactions",
            told.join(", "),
            each(bytes),
            each(log),
            each(commits)
        );
        let [(records, _), (executions, _), _, (claims, _), _, (kept, _), (bodies, _)] = counts;
        // A response that is made in the background is asked for three times, and leaves a record when it is asked for and judged.
        let of_background = if form == Form::Background { exchanges } else { 0 };
        // A claim of a first result is gone once its record is written and it is swept.
        assert_eq!((records, executions), (exchanges + of_background, runs.len() as i64));
        assert!(claims <= runs.len() as i64, "{claims}");
        assert!(kept <= exchanges * 20 && (bodies > 0) == (store == "bodies"), "{kept} {bodies}");
    }
}

fn described(run: &Run, at: usize, step: Step, one: &Outcome, other: &Outcome, together: &Played) -> String {
    let Run { number, form, stream, caller, .. } = run;
    let last = together.replies.iter().map(|reply| reply.chars().take(1500).collect::<String>()).collect::<Vec<_>>().join("\n");
    format!("run {number}, {form:?}, stream {stream}, {caller:?}, step {at} {step:?} of {:?}:\n  {one:?}\n  {other:?}\n{last}", run.steps)
}
