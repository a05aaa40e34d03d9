//! Counters in the ledger's database: one statement for each step, by the database's clock.
//!
//! The tables are the counters' own, apart from the ledger's schema. They are written without waiting for the disk: a database that crashes
//! loses the counts of its last moments.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use postgres::{Client, Row, Statement, fallible_iterator::FallibleIterator as _, types::ToSql};

use super::{Adjust, Append, CounterError, CounterKey, CounterStore, ENTRIES_MAX, ENTRY_BYTES_MAX, Entry, Take, Taken, news::CALLED_EVERY};
use crate::ledger::store::postgres::{connector, words};

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(2);
/// Longest duration of a statement, and of waiting for another one's row.
const SESSION: &str = "SET synchronous_commit = off; SET statement_timeout = 1000; SET lock_timeout = 500";
/// Interval of removing what is expired.
const PRUNE_EVERY: Duration = Duration::from_secs(30);
/// Entries of all sessions together, at which the oldest go.
const ROWS_MAX: i64 = 1_000_000;
/// First and second number of the lock under which the tables are made.
const LOCKS: (i32, i32) = (0x544c_4d4b, 1);
const NOW_US: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

const TABLES: &str = "\
CREATE TABLE IF NOT EXISTS toolmark_buckets (key bytea PRIMARY KEY, full_us bigint NOT NULL, now_us bigint NOT NULL, \
    asked bigint NOT NULL, granted bigint NOT NULL, cost_us bigint NOT NULL, span_us bigint NOT NULL) WITH (fillfactor = 50); \
CREATE TABLE IF NOT EXISTS toolmark_sessions (key bytea NOT NULL, body bytea NOT NULL, at_us bigint NOT NULL, until_us bigint NOT NULL, \
    PRIMARY KEY (key, body)); \
CREATE INDEX IF NOT EXISTS toolmark_sessions_until ON toolmark_sessions (until_us)";

/// Removes a session's oldest entries beyond so many.
const TRIM: &str = "DELETE FROM toolmark_sessions WHERE (key, body) IN (SELECT s.key, s.body FROM unnest($1::bytea[]) AS a (key) \
    CROSS JOIN LATERAL (SELECT key, body FROM toolmark_sessions WHERE key = a.key ORDER BY at_us DESC OFFSET $2) AS s)";

/// A connection to the database.
pub struct PostgresCounters {
    client: Client,
    pruned: Instant,
    take: Statement,
    adjust: Statement,
    append: Statement,
    trim: Statement,
    entries: Statement,
}

impl PostgresCounters {
    /// Connects, and makes the tables if they aren't there.
    ///
    /// # Errors
    /// [`CounterError`]; it never quotes the URL, which may hold a password.
    pub fn open(url: &str) -> Result<Self, CounterError> {
        let mut client = connect(url)?;
        client.batch_execute(SESSION).map_err(|error| unavailable(&error))?;
        let there = client
            .query_one("SELECT to_regclass('toolmark_buckets') IS NOT NULL AND to_regclass('toolmark_sessions_until') IS NOT NULL", &[]);
        if !get::<bool>(&there.map_err(|error| unavailable(&error))?, 0)? {
            // Replicas that start at the same time take turns.
            let mut transaction = client.transaction().map_err(|error| unavailable(&error))?;
            transaction.execute("SELECT pg_advisory_xact_lock($1, $2)", &[&LOCKS.0, &LOCKS.1]).map_err(|error| unavailable(&error))?;
            transaction.batch_execute(TABLES).map_err(|error| unavailable(&error))?;
            transaction.commit().map_err(|error| unavailable(&error))?;
        }
        let mut prepare = |sql: &str| client.prepare(sql).map_err(|error| unavailable(&error));
        let [take, adjust, append, trim, entries] =
            [prepare(&take_sql())?, prepare(&adjust_sql())?, prepare(&append_sql())?, prepare(TRIM)?, prepare(&entries_sql())?];
        Ok(Self { client, pruned: Instant::now(), take, adjust, append, trim, entries })
    }

    fn query(&mut self, statement: fn(&Self) -> &Statement, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, CounterError> {
        let statement = statement(self).clone();
        self.client.query(&statement, values).map_err(|error| unavailable(&error))
    }
}

/// Takes from buckets, each of which is asked once, `asked` times the same cost. The row says how often it was granted.
fn take_sql() -> String {
    let full = "least(greatest(own.full_us, excluded.now_us), excluded.now_us + 2 * excluded.span_us)";
    let left = format!("(excluded.now_us + excluded.span_us - {full})");
    let granted = format!(
        "CASE WHEN {left} <= 0 THEN 0 WHEN excluded.cost_us = 0 THEN excluded.asked ELSE least(excluded.asked, {left} / excluded.cost_us) END"
    );
    let first = "CASE WHEN cost_us = 0 THEN asked ELSE least(asked, span_us / cost_us) END";
    format!(
        "INSERT INTO toolmark_buckets AS own (key, full_us, now_us, asked, granted, cost_us, span_us) \
         SELECT key, now_us + cost_us * ({first}), now_us, asked, {first}, cost_us, span_us \
         FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[]) AS a (key, cost_us, span_us, asked), (SELECT {NOW_US} AS now_us) AS clock \
         ORDER BY key \
         ON CONFLICT (key) DO UPDATE SET full_us = {full} + excluded.cost_us * ({granted}), now_us = excluded.now_us, asked = excluded.asked, \
         granted = {granted}, cost_us = excluded.cost_us, span_us = excluded.span_us \
         RETURNING key, granted, greatest(full_us + cost_us - now_us - span_us, 1)"
    )
}

fn adjust_sql() -> String {
    format!(
        "INSERT INTO toolmark_buckets AS own (key, full_us, now_us, asked, granted, cost_us, span_us) \
         SELECT key, least(now_us + greatest(delta_us, 0), now_us + 2 * span_us), now_us, 0, 0, delta_us, span_us \
         FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS a (key, delta_us, span_us), (SELECT {NOW_US} AS now_us) AS clock ORDER BY key \
         ON CONFLICT (key) DO UPDATE SET \
         full_us = least(greatest(own.full_us, excluded.now_us) + excluded.cost_us, excluded.now_us + 2 * excluded.span_us) RETURNING key"
    )
}

fn append_sql() -> String {
    format!(
        "WITH clock AS (SELECT {NOW_US} AS now_us) INSERT INTO toolmark_sessions (key, body, at_us, until_us) \
         SELECT key, body, now_us - age_us, now_us - age_us + keep_us \
         FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[]) AS a (key, body, age_us, keep_us), clock \
         ORDER BY key, body ON CONFLICT (key, body) DO NOTHING RETURNING key"
    )
}

fn entries_sql() -> String {
    format!(
        "WITH clock AS (SELECT {NOW_US} AS now_us) SELECT s.key, s.body, (now_us - s.at_us) / 1000 FROM clock, unnest($1::bytea[]) AS a (key) \
         CROSS JOIN LATERAL (SELECT key, body, at_us FROM toolmark_sessions WHERE key = a.key AND until_us > (SELECT now_us FROM clock) \
         ORDER BY at_us DESC LIMIT $2) AS s"
    )
}

impl CounterStore for PostgresCounters {
    fn take(&mut self, takes: &[Take]) -> Result<Vec<Taken>, CounterError> {
        // Of one bucket, what costs the same is asked for at once; else in rounds, since a statement changes a row once.
        let mut answers: Vec<Option<Taken>> = vec![None; takes.len()];
        loop {
            let mut asked: HashMap<CounterKey, Asked> = HashMap::new();
            for (at, take) in takes.iter().enumerate().filter(|(at, _)| answers.get(*at).is_some_and(Option::is_none)) {
                let own = asked.entry(take.key).or_insert_with(|| Asked {
                    cost_us: take.cost_us,
                    span_us: take.span_us,
                    by: Vec::new(),
                    ends: false,
                });
                // In order: who asks later doesn't get what another one in between was refused.
                own.ends |= (own.cost_us, own.span_us) != (take.cost_us, take.span_us);
                if !own.ends {
                    own.by.push(at);
                }
            }
            if asked.is_empty() {
                return Ok(answers.into_iter().flatten().collect());
            }
            let keys: Vec<&[u8]> = asked.keys().map(|key| &key[..]).collect();
            let number = |of: fn(&Asked) -> u64| asked.values().map(|own| signed(of(own))).collect::<Vec<i64>>();
            let (costs, spans, counts) = (number(|own| own.cost_us), number(|own| own.span_us), number(|own| own.by.len() as u64));
            let rows = self.query(|own| &own.take, &[&keys, &costs, &spans, &counts])?;
            if rows.len() != asked.len() {
                return Err(CounterError::Answer(format!("{} answers to {}", rows.len(), asked.len())));
            }
            for row in &rows {
                let own =
                    asked.get(&get::<Vec<u8>>(row, 0)?[..]).ok_or_else(|| CounterError::Answer("a bucket that wasn't asked".into()))?;
                let (granted, wait_us) = (get::<i64>(row, 1)?, get::<i64>(row, 2)?);
                for (number, at) in own.by.iter().enumerate() {
                    if let Some(answer) = answers.get_mut(*at) {
                        let is_granted = (number as i64) < granted;
                        *answer = Some(if is_granted { Taken::Granted } else { Taken::Refused(wait_us.max(1).unsigned_abs()) });
                    }
                }
            }
        }
    }

    fn adjust(&mut self, adjusts: &[Adjust]) -> Result<(), CounterError> {
        let mut sums: HashMap<CounterKey, (i64, i64)> = HashMap::new();
        for adjust in adjusts {
            let own = sums.entry(adjust.key).or_insert((0, signed(adjust.span_us)));
            own.0 = own.0.saturating_add(adjust.delta_us.clamp(-YEARS_US, YEARS_US)).clamp(-YEARS_US, YEARS_US);
        }
        let keys: Vec<&[u8]> = sums.keys().map(|key| &key[..]).collect();
        let (deltas, spans): (Vec<i64>, Vec<i64>) = sums.values().copied().unzip();
        self.query(|own| &own.adjust, &[&keys, &deltas, &spans]).map(drop)
    }

    fn append(&mut self, appends: &[Append]) -> Result<(), CounterError> {
        let (mut keys, mut bodies, mut ages, mut keeps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for append in appends {
            let keep_us = i64::try_from(append.keep.as_micros()).unwrap_or(i64::MAX).clamp(1, YEARS_US);
            for entry in append.entries.iter().filter(|entry| entry.body.len() <= ENTRY_BYTES_MAX).rev().take(ENTRIES_MAX) {
                keys.push(&append.key[..]);
                bodies.push(&entry.body[..]);
                ages.push(signed(entry.age_ms.saturating_mul(1000)).min(YEARS_US));
                keeps.push(keep_us);
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        self.query(|own| &own.append, &[&keys, &bodies, &ages, &keeps])?;
        keys.sort_unstable();
        keys.dedup();
        self.query(|own| &own.trim, &[&keys, &(ENTRIES_MAX as i64)]).map(drop)
    }

    fn entries(&mut self, keys: &[CounterKey]) -> Result<Vec<Vec<Entry>>, CounterError> {
        let mut wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut found: HashMap<Vec<u8>, Vec<Entry>> = HashMap::new();
        for row in &self.query(|own| &own.entries, &[&wanted, &(ENTRIES_MAX as i64)])? {
            let (body, age_ms) = (get::<Vec<u8>>(row, 1)?, get::<i64>(row, 2)?);
            if body.len() <= ENTRY_BYTES_MAX {
                found.entry(get(row, 0)?).or_default().push(Entry { age_ms: u64::try_from(age_ms).unwrap_or(0), body });
            }
        }
        Ok(keys.iter().map(|key| found.get(&key[..]).cloned().unwrap_or_default()).collect())
    }

    fn publish(&mut self, channel: &str, messages: &[Vec<u8>]) -> Result<(), CounterError> {
        let texts: Vec<String> = messages.iter().map(|message| BASE64.encode(message)).collect();
        let sql = "SELECT pg_notify($1, text) FROM unnest($2::text[]) AS a (text)";
        self.client.query(sql, &[&channel, &texts]).map(drop).map_err(|error| unavailable(&error))
    }

    fn tend(&mut self) -> Result<(), CounterError> {
        if self.pruned.elapsed() < PRUNE_EVERY {
            return self.client.simple_query("").map(drop).map_err(|error| unavailable(&error));
        }
        self.pruned = Instant::now();
        self.prune()
    }
}

impl PostgresCounters {
    /// Removes some of what is expired, and of the oldest entries beyond a million.
    ///
    /// # Errors
    /// [`CounterError`].
    pub fn prune(&mut self) -> Result<(), CounterError> {
        // A full bucket is the same as none. In small portions, and without waiting for rows that are in use.
        let sql = format!(
            "DELETE FROM toolmark_buckets WHERE key IN (SELECT key FROM toolmark_buckets WHERE full_us < {NOW_US} LIMIT 5000 FOR UPDATE SKIP LOCKED); \
             DELETE FROM toolmark_sessions WHERE (key, body) IN (SELECT key, body FROM toolmark_sessions WHERE until_us < {NOW_US} \
             ORDER BY until_us LIMIT 5000 FOR UPDATE SKIP LOCKED); \
             DELETE FROM toolmark_sessions WHERE (key, body) IN (SELECT key, body FROM toolmark_sessions ORDER BY until_us LIMIT \
             (SELECT CASE WHEN reltuples > {ROWS_MAX} THEN 5000 ELSE 0 END FROM pg_class WHERE oid = 'toolmark_sessions'::regclass) \
             FOR UPDATE SKIP LOCKED)"
        );
        self.client.batch_execute(&sql).map_err(|error| unavailable(&error))
    }
}

/// Listens on a channel until `ear` returns false: it gets each message, and nothing once the channel is open and now and then.
///
/// # Errors
/// [`CounterError`]: the channel can't be opened, or broke.
pub fn listen(url: &str, channel: &str, ear: &mut dyn FnMut(Option<&[u8]>) -> bool) -> Result<(), CounterError> {
    let mut client = connect(url)?;
    client.batch_execute(&format!("LISTEN \"{channel}\"")).map_err(|error| unavailable(&error))?;
    let mut goes_on = ear(None);
    while goes_on {
        let heard = client.notifications().timeout_iter(CALLED_EVERY).next().map_err(|error| unavailable(&error))?;
        if heard.is_none() && client.is_closed() {
            return Err(CounterError::Unavailable("the connection was closed".into()));
        }
        // What is no base64 is no message either.
        let heard = heard.map(|heard| BASE64.decode(heard.payload()).unwrap_or_default());
        goes_on = ear(heard.as_deref());
    }
    Ok(())
}

fn connect(url: &str) -> Result<Client, CounterError> {
    let (mut config, tls) = connector(url).map_err(|error| CounterError::Unavailable(error.to_string()))?;
    config.connect_timeout(CONNECT);
    config.connect(tls).map_err(|error| unavailable(&error))
}

/// What is asked of one bucket, and by which of the takes.
struct Asked {
    cost_us: u64,
    span_us: u64,
    by: Vec<usize>,
    ends: bool,
}

/// Two years: no time in the tables is further away, so that sums stay in range.
const YEARS_US: i64 = 2 * 366 * 24 * 3_600 * 1_000_000;

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(YEARS_US).min(YEARS_US)
}

fn get<'r, T: postgres::types::FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, CounterError> {
    row.try_get(at).map_err(|error| CounterError::Answer(words(&error)))
}

fn unavailable(error: &postgres::Error) -> CounterError {
    CounterError::Unavailable(words(error))
}
