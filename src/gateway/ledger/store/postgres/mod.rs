//! The shared store: PostgreSQL, written by several replicas at a time.
//!
//! Each replica writes a chain of its own, chosen by an advisory lock, which the database frees when the replica is gone. The first result
//! of an execution is settled in the database, before the exchange goes on.

mod chain;
mod connection;
mod kv;
mod policies;
mod query;
mod surplus;
mod write;

pub use policies::PostgresPolicies;
pub use query::SCAN;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use postgres::{Client, Config, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use connection::PreparingClient;
use surplus::Surplus;

use crate::{ledger::store::StoreError, sys::tls};

/// Connections for reading that are kept open.
const READERS_MAX: usize = 8;
/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest time for which sent data may stay unacknowledged before the connection counts as dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// Longest duration of a statement, in milliseconds.
const STATEMENT_MS: u32 = 30_000;
/// First of the two numbers of toolmark's advisory locks.
const LOCKS: i32 = 0x544c_4d4b;

/// Message for a database that this version doesn't know.
const LATER: &str = "the ledger was written by a later version of toolmark: use that one, or another database";
/// Migrations that bring an older database up to date: each is applied once, in order. A released migration never changes.
const MIGRATIONS: [&str; 4] =
    [include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql"), include_str!("schema_4.sql")];

/// Store of records in PostgreSQL.
pub struct PostgresStore {
    config: Config,
    tls: MakeRustlsConnect,
    writing: Mutex<PostgresWriter>,
    readers: Mutex<Vec<PreparingClient>>,
    /// Surplus of the sealed tables, in the order of [`SealedTable`](crate::ledger::store::SealedTable).
    surplus: [Mutex<Surplus>; 2],
    /// Distinguishes this process's claims from those of other processes.
    claimant: i64,
}

/// The connection for writing, and the chain that it holds.
#[derive(Default)]
struct PostgresWriter {
    client: Option<PreparingClient>,
    writer: Option<i32>,
}

impl PostgresStore {
    /// Opens the database to write it, and brings its tables up to date.
    ///
    /// # Errors
    /// [`StoreError`]; it never quotes the URL, which may hold a password.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let store = Self::new(url)?;
        let mut client = store.connect()?;
        migrate(&mut client)?;
        Ok(store)
    }

    /// Opens the database only to read it.
    ///
    /// # Errors
    /// [`StoreError`]: it can't be reached, or holds no ledger.
    pub fn open_to_read(url: &str) -> Result<Self, StoreError> {
        let store = Self::new(url)?;
        store.reading(|client| match version(client)? {
            Some(version) if version == MIGRATIONS.len() as i32 => Ok(()),
            Some(version) if version > MIGRATIONS.len() as i32 => Err(StoreError::Corrupt(LATER.into())),
            Some(_) => Err(StoreError::Corrupt(
                "the ledger was written by an earlier version of toolmark: `toolmark serve` brings it up to date".into(),
            )),
            None => Err(StoreError::Corrupt("the database holds no ledger: has `toolmark serve` run with it?".into())),
        })?;
        Ok(store)
    }

    fn new(url: &str) -> Result<Self, StoreError> {
        let (config, tls) = connector(url)?;
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|error| StoreError::Unavailable(format!("no random numbers: {error}")))?;
        Ok(Self {
            config,
            tls,
            writing: Mutex::default(),
            readers: Mutex::default(),
            surplus: Default::default(),
            claimant: i64::from_le_bytes(seed),
        })
    }

    fn connect(&self) -> Result<PreparingClient, StoreError> {
        let mut client = self.config.connect(self.tls.clone()).map_err(|error| unavailable(&error))?;
        // A plan that is made once, while tables are empty, would read them whole when they are large.
        let session = format!("SET statement_timeout = {STATEMENT_MS}; SET plan_cache_mode = force_custom_plan");
        client.batch_execute(&session).map_err(|error| unavailable(&error))?;
        Ok(PreparingClient::new(client))
    }

    /// Runs `act` with the connection for writing; after a failure it is opened again, and a chain is chosen again.
    fn writing<T>(&self, act: impl FnOnce(&mut PreparingClient, i32) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if writing.client.as_ref().is_none_or(|client| client.is_closed()) {
            let mut client = self.connect()?;
            writing.writer = Some(write::take_chain(&mut client, writing.writer)?);
            writing.client = Some(client);
        }
        let PostgresWriter { client: Some(client), writer: Some(writer) } = &mut *writing else {
            return Err(StoreError::Unavailable("no connection".into()));
        };
        let done = act(client, *writer);
        if done.is_err() {
            writing.client = None;
        }
        done
    }

    /// Runs `act` with a connection for reading. One that was kept may have been cut off meanwhile: then `act` runs again with a new one.
    fn reading<T>(&self, act: impl Fn(&mut PreparingClient) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop().filter(|client| !client.is_closed());
        if let Some(mut client) = kept {
            let done = act(&mut client);
            if !client.is_closed() {
                return self.read(client, done);
            }
        }
        let mut client = self.connect()?;
        let done = act(&mut client);
        self.read(client, done)
    }

    /// Keeps a connection for the next time, unless it failed.
    fn read<T>(&self, client: PreparingClient, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if !matches!(done, Err(StoreError::Unavailable(_))) {
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if readers.len() < READERS_MAX {
                readers.push(client);
            }
        }
        done
    }
}

/// What a connection to this database is made with.
///
/// # Errors
/// [`StoreError`]; it never quotes the URL, which may hold a password.
pub fn connector(url: &str) -> Result<(Config, MakeRustlsConnect), StoreError> {
    let mut config: Config = url.parse().map_err(|error: postgres::Error| StoreError::Unavailable(words(&error)))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_application_name().is_none() {
        config.application_name("toolmark");
    }
    config.tcp_user_timeout(UNACKNOWLEDGED);
    let tls = tls::client_config(tls::TrustedRoots::Platform).map_err(|error| StoreError::Unavailable(format!("TLS: {error}")))?;
    Ok((config, MakeRustlsConnect::new(tls)))
}

/// The version of the tables; `None` if there are none.
fn version(client: &mut Client) -> Result<Option<i32>, StoreError> {
    let there: bool =
        get(&client.query_one("SELECT to_regclass('toolmark_schema') IS NOT NULL", &[]).map_err(|error| unavailable(&error))?, 0)?;
    if !there {
        return Ok(None);
    }
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM toolmark_schema", &[]).map_err(|error| unavailable(&error))?;
    get(&row, 0).map(Some)
}

/// Applies the missing migrations. Replicas that start at the same time take turns.
fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let failed = |error: postgres::Error| unavailable(&error);
    let mut transaction = client.transaction().map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&LOCKS]).map_err(failed)?;
    transaction.batch_execute("CREATE TABLE IF NOT EXISTS toolmark_schema (version integer PRIMARY KEY)").map_err(failed)?;
    let row = transaction.query_one("SELECT coalesce(max(version), 0) FROM toolmark_schema", &[]).map_err(failed)?;
    let version: i32 = get(&row, 0)?;
    if version > MIGRATIONS.len() as i32 {
        return Err(StoreError::Corrupt(LATER.into()));
    }
    for (step, number) in MIGRATIONS.iter().zip(1_i32..).skip(usize::try_from(version).unwrap_or(0)) {
        transaction.batch_execute(step).map_err(failed)?;
        transaction.execute("INSERT INTO toolmark_schema (version) VALUES ($1)", &[&number]).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

/// Reads a column of a row.
fn get<'r, T: postgres::types::FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| StoreError::Corrupt(words(&error)))
}

/// Converts a number that is never negative.
fn unsigned(number: i64, what: &str) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| StoreError::Corrupt(format!("{what} is {number}")))
}

fn writer_of(row: &Row, at: usize) -> Result<u32, StoreError> {
    u32::try_from(get::<i32>(row, at)?).map_err(|_| StoreError::Corrupt("a writer's number below 0".into()))
}

fn array<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt(format!("{what} has {} bytes instead of {N}", bytes.len())))
}

fn unavailable(error: &postgres::Error) -> StoreError {
    StoreError::Unavailable(words(error))
}

/// Text of an error, with its causes.
pub fn words(error: &postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("PostgreSQL says: {}", database.message());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
