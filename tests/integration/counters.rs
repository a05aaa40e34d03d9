//! Counts that replicas share, in Valkey and in PostgreSQL alike.

mod replicas;
mod stores;

use crate::{
    postgres::{Database, Line, OwnServer},
    valkey::{Keeps, Valkey},
};

/// A place for counters.
pub enum Place {
    Valkey(Valkey),
    Postgres(Database),
    /// A server of the test's own.
    OwnPostgres(OwnServer),
}

impl Place {
    /// One of each kind.
    pub fn all() -> [Self; 2] {
        [Self::Valkey(Valkey::start(Keeps::Nothing)), Self::Postgres(Database::new())]
    }

    /// One of each kind that can be stopped, and keeps what it counted.
    pub fn lasting() -> [Self; 2] {
        [Self::Valkey(Valkey::start(Keeps::Everything)), Self::OwnPostgres(OwnServer::start())]
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Valkey(_) => "Valkey",
            Self::Postgres(_) | Self::OwnPostgres(_) => "PostgreSQL",
        }
    }

    pub fn url(&self) -> String {
        match self {
            Self::Valkey(own) => own.url(),
            Self::Postgres(own) => own.url(),
            Self::OwnPostgres(own) => own.url(),
        }
    }

    /// The same by a way that can be cut, and its URL.
    pub fn line(&self) -> (Line, String) {
        let line = match self {
            Self::Valkey(own) => own.line(),
            Self::Postgres(own) => own.line(),
            Self::OwnPostgres(_) => unreachable!("it is stopped instead"),
        };
        let url = match self {
            Self::Valkey(_) => format!("redis://{}", line.address()),
            Self::Postgres(_) | Self::OwnPostgres(_) => line.url(),
        };
        (line, url)
    }

    pub fn stop(&mut self, crash: bool) {
        match self {
            Self::Valkey(own) => own.stop(crash),
            Self::OwnPostgres(own) => own.stop(crash),
            Self::Postgres(_) => unreachable!("others use it, too"),
        }
    }

    pub fn start_again(&mut self) {
        match self {
            Self::Valkey(own) => own.start_again(),
            Self::OwnPostgres(own) => own.start_again(),
            Self::Postgres(_) => unreachable!("others use it, too"),
        }
    }

    /// All that is stored, as bytes.
    pub fn stored(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Valkey(own) => {
                let mut client = own.client();
                let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();
                let dump = |key: &Vec<u8>| redis::cmd("DUMP").arg(key).query::<Vec<u8>>(&mut client).unwrap_or_default();
                keys.iter().map(dump).chain(keys.iter().cloned()).collect()
            }
            Self::Postgres(own) => {
                let sql = "SELECT key || '\\x00'::bytea || body FROM toolmark_sessions UNION ALL SELECT key FROM toolmark_buckets";
                own.client().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
            }
            Self::OwnPostgres(_) => unreachable!("nobody looks there"),
        }
    }
}
