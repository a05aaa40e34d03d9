//! The ledger: keeps a record of every exchange, serves look-ups, and detects changes to what it stored.
//!
//! At the end of an exchange one [`record::ExchangeRecord`] is made and handed to the [`recorder::LedgerHandle`], which passes it to the
//! observers and to the [`store::Store`].

pub mod bodies;
pub mod chain;
pub mod codec;
pub mod digest;
pub mod execution_cache;
pub mod fixtures;
pub mod index;
pub mod lookup;
pub mod policy_versions;
pub mod query_times;
pub mod queue;
pub mod record;
pub mod recorder;
pub mod sealed_kv;
pub mod store;
pub mod verify;
