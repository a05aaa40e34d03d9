//! The table of policies that replicas share. It isn't part of the chains, and made by the first put: replicas of versions that don't
//! know it go on beside it.

use postgres::Row;

use super::{LOCKS, PostgresStore, array, get, unavailable, unsigned};
use crate::ledger::{
    policy_versions::{FIRST, PolicyKeys, PolicyTable, PolicyVersion},
    store::StoreError,
};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS toolmark_policies (name text NOT NULL, version bigint NOT NULL, at_ms bigint NOT NULL, \
    author text NOT NULL, body bytea NOT NULL, before bytea NOT NULL, mac bytea NOT NULL, PRIMARY KEY (name, version))";
const COLUMNS: &str = "name, version, at_ms, author, body, before, mac";

/// Versions of policies in PostgreSQL.
pub struct PostgresPolicies(PostgresStore);

impl PostgresPolicies {
    /// Versions in the database at this URL.
    ///
    /// # Errors
    /// [`StoreError`] if the URL is wrong; it never quotes it.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        PostgresStore::new(url).map(Self)
    }

    /// Runs a query; no rows where nothing was ever put.
    fn query(&self, condition: &str, values: &[&(dyn postgres::types::ToSql + Sync)]) -> Result<Vec<PolicyVersion>, StoreError> {
        self.0.reading(|client| {
            let there =
                client.query_one("SELECT to_regclass('toolmark_policies') IS NOT NULL", &[]).map_err(|error| unavailable(&error))?;
            if !get::<bool>(&there, 0)? {
                return Ok(Vec::new());
            }
            let rows = client.query(&format!("SELECT {COLUMNS} FROM toolmark_policies {condition}"), values);
            rows.map_err(|error| unavailable(&error))?.iter().map(version).collect()
        })
    }
}

fn version(row: &Row) -> Result<PolicyVersion, StoreError> {
    Ok(PolicyVersion {
        name: get(row, 0)?,
        version: unsigned(get(row, 1)?, "a policy's version")?,
        at_ms: unsigned(get(row, 2)?, "a policy's time")?,
        author: get(row, 3)?,
        body: get(row, 4)?,
        before: array(&get::<Vec<u8>>(row, 5)?, "a policy's MAC")?,
        mac: array(&get::<Vec<u8>>(row, 6)?, "a policy's MAC")?,
    })
}

impl PolicyTable for PostgresPolicies {
    fn newest(&self, name: &str, than: u64) -> Result<Option<PolicyVersion>, StoreError> {
        let than = i64::try_from(than).unwrap_or(i64::MAX);
        Ok(self.query("WHERE name = $1 AND version > $2 ORDER BY version DESC LIMIT 1", &[&name, &than])?.pop())
    }

    fn versions(&self, name: Option<&str>, limit: usize) -> Result<Vec<PolicyVersion>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query("WHERE $1::text IS NULL OR name = $1 ORDER BY at_ms DESC, version DESC LIMIT $2", &[&name, &limit])
    }

    fn version(&self, name: &str, version: u64) -> Result<Option<PolicyVersion>, StoreError> {
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        Ok(self.query("WHERE name = $1 AND version = $2", &[&name, &version])?.pop())
    }

    fn put(&self, keys: &PolicyKeys, new: PolicyVersion) -> Result<u64, StoreError> {
        let failed = |error: postgres::Error| unavailable(&error);
        // Not by a connection that may have been cut: tried twice, it would be there twice.
        let mut client = self.0.connect()?;
        let mut transaction = client.transaction().map_err(failed)?;
        transaction.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&LOCKS]).map_err(failed)?;
        transaction.batch_execute(TABLE).map_err(failed)?;
        let last = format!("SELECT {COLUMNS} FROM toolmark_policies WHERE name = $1 ORDER BY version DESC LIMIT 1");
        let last = transaction.query_opt(&last, &[&new.name]).map_err(failed)?.map(|row| self::version(&row)).transpose()?;
        let (version, before) = match last {
            Some(last) if !keys.is_whole(&last) => {
                let PolicyVersion { name, version, .. } = last;
                let what = format!(
                    "version {version} of the policy `{name}` isn't as it was put: remove its row, or put with the key that made it"
                );
                return Err(StoreError::Corrupt(what));
            }
            Some(last) => (last.version + 1, last.mac),
            None => (1, FIRST),
        };
        let sealed = keys.seal(PolicyVersion { version, before, ..new });
        let PolicyVersion { name, at_ms, author, body, before, mac, .. } = &sealed;
        let sql = format!("INSERT INTO toolmark_policies ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)");
        let numbers = [version, *at_ms].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        transaction.execute(&sql, &[name, &numbers[0], &numbers[1], author, body, &&before[..], &&mac[..]]).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(version)
    }
}
