//! Where every exchange's record goes once it has ended: to whoever observes, and to the store.

use std::sync::Arc;

use super::{
    memory::MemoryStore,
    record::{ExchangeRecord, ScopeDigest},
    store::Store,
};
use crate::judge::marks::Scope;

/// Sees every record as its exchange ends, on that exchange's worker: it must neither wait nor take long.
pub trait Observer: Send + Sync {
    /// An exchange has ended.
    fn observe(&self, record: &Arc<ExchangeRecord>);
}

/// See the module.
pub struct Recorder {
    store: Arc<dyn Store>,
    observers: Vec<Arc<dyn Observer>>,
    scope_key: [u8; 32],
}

impl Recorder {
    /// A recorder that keeps the newest records in memory. `key`: the key of the marks, of which its own are derived.
    pub fn new(key: &[u8; 32], observers: Vec<Arc<dyn Observer>>) -> Self {
        let scope_key = blake3::derive_key("toolmark 2026-11-22 ledger scope v1", key);
        Self { store: Arc::new(MemoryStore::default()), observers, scope_key }
    }

    /// Where records are looked up. It blocks: see [`Store`].
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// What stands for a scope in records.
    pub fn scope(&self, scope: &Scope) -> ScopeDigest {
        ScopeDigest(scope.digest(&self.scope_key))
    }

    /// Takes the record of an exchange that has ended.
    pub fn take(&self, record: Arc<ExchangeRecord>) {
        for observer in &self.observers {
            observer.observe(&record);
        }
        if let Err(error) = self.store.append(&[record], Vec::new()) {
            tracing::error!(%error, "a record can't be kept");
        }
    }
}
