//! From the settings' URL to a store.

use std::sync::Arc;

use super::{
    memory::MemoryStore,
    postgres::PostgresStore,
    sqlite::SqliteStore,
    store::{ChainStore, StoreError},
};
use crate::settings::LedgerUrl;

/// Opens the store that the settings name, to write it. `at_once`: what is written must be on disk at once.
///
/// # Errors
/// [`StoreError`], with what to do about it.
pub fn open(url: &LedgerUrl, at_once: bool) -> Result<Arc<dyn ChainStore>, StoreError> {
    Ok(match url {
        LedgerUrl::Memory => Arc::new(MemoryStore::default()),
        LedgerUrl::Sqlite(path) => Arc::new(SqliteStore::open(path, at_once)?),
        LedgerUrl::Postgres(url) => Arc::new(PostgresStore::open(url.expose())?),
    })
}

/// Opens it only to read it; another process may write it.
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
