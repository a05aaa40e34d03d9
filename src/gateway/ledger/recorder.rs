//! The open ledger: passes every ended exchange's record to the observers, and through the queue to the store.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    chain::ChainKeys,
    lookup::LookupPool,
    query_times::QueryTimes,
    queue::RecordSender,
    record::{ExchangeRecord, ScopeDigest},
    store::{Chain, ChainStore, ExecutionFilter, HourlyAggregator, PageQuery, Store, StoreError},
};
use crate::{
    ledger::{
        bodies::{BodyRules, ExchangeBodies},
        execution_cache::ExecutionCache,
        queue::writer::{LedgerWriter, WriteFailure, now_ms},
        sealed_kv::SealedKv,
        store::open::open,
        verify::{VerificationReport, newest_are_signed, verify_telling},
    },
    marks::Scope,
    settings::{self, Durability},
};

/// Receives every record when its exchange ends, on that exchange's worker: it must neither block nor take long.
pub trait RecordObserver: Send + Sync {
    /// Called once for each ended exchange.
    fn observe(&self, record: &ExchangeRecord);
}

/// Handle of the open ledger: accepts records and gives access to look-ups.
pub struct LedgerHandle {
    store: Arc<dyn ChainStore>,
    observers: Vec<Arc<dyn RecordObserver>>,
    scope_key: [u8; 32],
    queue: RecordSender,
    commit: bool,
    shared: bool,
    seen: ExecutionCache,
    lookup: LookupPool,
    shelf: SealedKv,
    query_times: Arc<QueryTimes>,
    trouble: WriteFailure,
    keys: ChainKeys,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl LedgerHandle {
    /// Opens the ledger and starts its writer. `keys`: those of the marks, from which the ledger's are derived.
    ///
    /// # Errors
    /// [`StoreError`]: the ledger can't be opened.
    pub fn start(
        settings: &settings::LedgerSettings,
        keys: &[[u8; 32]],
        hourly: Box<dyn HourlyAggregator>,
        observers: Vec<Arc<dyn RecordObserver>>,
    ) -> Result<Self, StoreError> {
        let commit = settings.durability == Durability::Commit;
        let store = open(&settings.url, settings.durability)?;
        let (queue, inlet) = RecordSender::new(&*hourly);
        let trouble = WriteFailure::default();
        let (own, chain, chain_keys) = (trouble.clone(), ChainKeys::new(keys), ChainKeys::new(keys));
        let bytes_max = [settings.conversation_bytes, settings.exchange_bytes];
        let mut writer =
            LedgerWriter { store: store.clone(), keys: chain, keep: settings.keep, bytes_max, hourly, inlet, commit, trouble: own };
        if !newest_are_signed(&*store, &chain_keys)? {
            tracing::warn!(
                "the newest records of the ledger were signed with a key that isn't here: calls and results from before can't be verified. If the key was changed, put the old one behind the new one (TOOLMARK_KEY=new,old); if it was lost, keep this ledger apart and begin a new one (docs/ledger.md, \"Keys and backup\")"
            );
        }
        let tip = writer.begin()?;
        let thread = std::thread::Builder::new().name("ledger".into()).spawn(move || writer.run(tip));
        let thread = thread.map_err(|error| StoreError::Unavailable(format!("its thread can't be started: {error}")))?;
        let scope_key = blake3::derive_key("toolmark 2026-11-22 ledger scope v1", &keys.first().copied().unwrap_or_default());
        // Nothing before now, nor before what another clock called later, is new for being unknown here.
        let newest =
            store.executions(&ExecutionFilter { page: PageQuery { limit: 1, ..PageQuery::default() }, ..ExecutionFilter::default() })?;
        let newest_ms = newest.rows.first().map_or(0, |newest| newest.execution.started_ms);
        let query_times = Arc::<QueryTimes>::default();
        let seen = ExecutionCache::new(newest_ms.max(now_ms()));
        let lookup = LookupPool::start(&store, settings.lookup, &query_times)?;
        let shelf = SealedKv::start(&store, keys, settings, &query_times)?;
        let shared = store.is_shared();
        Ok(Self {
            store,
            observers,
            scope_key,
            queue,
            commit,
            shared,
            seen,
            lookup,
            shelf,
            query_times,
            trouble,
            keys: chain_keys,
            writer: Mutex::new(Some(thread)),
        })
    }

    /// The state that says why the ledger can't be written, while it can't.
    pub fn trouble(&self) -> WriteFailure {
        self.trouble.clone()
    }

    /// This process's cache of executions.
    pub fn seen(&self) -> &ExecutionCache {
        &self.seen
    }

    /// The look-up of executions that this process doesn't know.
    pub fn lookup(&self) -> &LookupPool {
        &self.lookup
    }

    /// The durable key-value store for data that must be read back unchanged.
    pub fn shelf(&self) -> &SealedKv {
        &self.shelf
    }

    /// Times of exchanges' queries.
    pub fn query_times(&self) -> &Arc<QueryTimes> {
        &self.query_times
    }

    /// Returns whether several processes write this ledger.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The store of records. Its methods block: see [`Store`].
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Verifies the ledger. Blocks, for as long as reading all of it takes. `tell`: gets the records of a chain that were verified, and
    /// how many it has.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger can't be read.
    pub fn verify(&self, tell: &dyn Fn(u64, u64)) -> Result<VerificationReport, StoreError> {
        verify_telling(&*self.store, &self.keys, &[], tell)
    }

    /// Starts keeping whole exchanges, if the store outlives the process. `keys`: those of the marks.
    ///
    /// # Errors
    /// [`StoreError`] if its thread can't be started.
    pub fn keep_bodies(&self, keys: &[[u8; 32]], rules: BodyRules) -> Result<Option<ExchangeBodies>, StoreError> {
        self.store.is_lasting().then(|| ExchangeBodies::start(self.store.clone(), keys, rules)).transpose()
    }

    /// The chains of the ledger. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger can't be read.
    pub fn chains(&self) -> Result<Vec<Chain>, StoreError> {
        self.store.chains()
    }

    /// The keyed digest that identifies a scope in records.
    pub fn scope(&self, scope: &Scope) -> ScopeDigest {
        ScopeDigest(scope.digest(&self.scope_key))
    }

    /// Number of records that wait to be written.
    pub fn depth(&self) -> usize {
        self.queue.depth()
    }

    /// Returns whether an answer waits until its record is on disk.
    pub fn commits(&self) -> bool {
        self.commit
    }

    /// Waits while too many records wait to be written; false if there was no capacity within `patience`.
    pub async fn room(&self, patience: Duration) -> bool {
        self.queue.room(patience).await
    }

    /// Accepts the record of an ended exchange.
    pub fn take(&self, record: &ExchangeRecord) {
        self.observers.iter().for_each(|observer| observer.observe(record));
        self.queue.put(record);
    }

    /// Accepts the record of an ended exchange. Returns a receiver that is notified once the record is on disk.
    pub fn take_committed(&self, record: &ExchangeRecord) -> oneshot::Receiver<()> {
        self.observers.iter().for_each(|observer| observer.observe(record));
        self.queue.put_committed(record)
    }

    /// Writes the waiting records and stops the writer. Later records are lost.
    pub fn close(&self) {
        self.queue.close();
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

impl Drop for LedgerHandle {
    fn drop(&mut self) {
        self.close();
    }
}
