//! Opens the store that the settings' URL names.

use std::sync::Arc;

use super::{memory::MemoryStore, postgres::PostgresStore, sqlite::SqliteStore};
use crate::{
    ledger::store::{ChainStore, StoreError},
    settings::{Durability, LedgerUrl},
};

/// Opens the ledger's store for writing.
///
/// # Errors
/// [`StoreError`], with what to do about it.
pub fn open(url: &LedgerUrl, durability: Durability) -> Result<Arc<dyn ChainStore>, StoreError> {
    Ok(match url {
        LedgerUrl::Memory => Arc::new(MemoryStore::default()),
        LedgerUrl::Sqlite(path) => Arc::new(SqliteStore::open(path, durability)?),
        LedgerUrl::Postgres(url) => Arc::new(PostgresStore::open(url.expose())?),
    })
}

/// Opens the ledger's store only for reading; another process may write it meanwhile.
///
/// # Errors
/// [`StoreError`], with what to do about it.
pub fn open_to_read(url: &LedgerUrl) -> Result<Arc<dyn ChainStore>, StoreError> {
    Ok(match url {
        LedgerUrl::Memory => Arc::new(MemoryStore::default()),
        LedgerUrl::Sqlite(path) => Arc::new(SqliteStore::open_to_read(path)?),
        LedgerUrl::Postgres(url) => Arc::new(PostgresStore::open_to_read(url.expose())?),
    })
}
