//! Opens the store that the settings' URL names.

use std::sync::Arc;

#[cfg(feature = "postgres")]
use super::postgres::{PostgresPolicies, PostgresStore};
use super::{memory::MemoryStore, sqlite::SqliteStore};
#[cfg(not(feature = "postgres"))]
use crate::settings::NO_POSTGRES;
use crate::{
    ledger::{
        policy_versions::PolicyTable,
        store::{ChainStore, StoreError},
    },
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
        #[cfg(feature = "postgres")]
        LedgerUrl::Postgres(url) => Arc::new(PostgresStore::open(url.expose())?),
        #[cfg(not(feature = "postgres"))]
        LedgerUrl::Postgres(_) => return Err(StoreError::Unavailable(NO_POSTGRES.into())),
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
        #[cfg(feature = "postgres")]
        LedgerUrl::Postgres(url) => Arc::new(PostgresStore::open_to_read(url.expose())?),
        #[cfg(not(feature = "postgres"))]
        LedgerUrl::Postgres(_) => return Err(StoreError::Unavailable(NO_POSTGRES.into())),
    })
}

/// The policies that replicas share.
///
/// # Errors
/// [`StoreError`] where no replicas share the ledger, with what to do about it.
pub fn policies(url: &LedgerUrl) -> Result<Box<dyn PolicyTable>, StoreError> {
    match url {
        LedgerUrl::Memory | LedgerUrl::Sqlite(_) => {
            let message = "policies are kept in a ledger that replicas share, `[ledger] url = \"postgres://…\"`; elsewhere a file does, which is re-read when it changes";
            Err(StoreError::Unavailable(message.into()))
        }
        #[cfg(feature = "postgres")]
        LedgerUrl::Postgres(url) => Ok(Box::new(PostgresPolicies::new(url.expose())?)),
        #[cfg(not(feature = "postgres"))]
        LedgerUrl::Postgres(_) => Err(StoreError::Unavailable(NO_POSTGRES.into())),
    }
}
