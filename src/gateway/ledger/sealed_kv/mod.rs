//! Durable, encrypted key-value store for data that must be read back unchanged across restarts and replicas. Non-blocking for workers.
//!
//! Dedicated threads seal the data ([`crate::ledger::sealed_kv::cipher`]) and store it; the number of waiting jobs and the time that an exchange waits are
//! bounded.

pub mod cipher;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    lookup::LookupUnavailable,
    query_times::{QueryKind, QueryTimes},
    store::{ChainStore, StoreError},
};
use crate::settings::{self, Durability};
use cipher::{KvCipher, KvKey, SealedRow};

/// Jobs that may wait.
const WAITING_MAX: usize = 1024;
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Jobs of one transaction.
const TOGETHER_MAX: usize = 256;
/// Time for which a put that nobody waits for may be delayed, so that several share a transaction.
const LINGER: Duration = Duration::from_millis(50);
/// Threads for a shared database; an embedded one needs one.
const THREADS: usize = 2;
/// Pauses between tries to store what the database didn't take: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// Longest time for which the same values are tried, so that none can keep others out for ever.
const TRIED_MAX: Duration = Duration::from_secs(300);
/// The same once the store is closed, and how long a shared store's threads are waited for.
const LAST_TRIES: Duration = Duration::from_secs(5);

enum KvJob {
    Find { keys: Vec<KvKey>, since_ms: u64, answer: oneshot::Sender<Vec<(KvKey, Vec<u8>)>> },
    Put { entries: Vec<(KvKey, Vec<u8>)>, at_ms: u64, done: Option<oneshot::Sender<()>>, noted: IntentSlot },
}

/// Slot in which the beginning of something was noted, if any; released once its end is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntentSlot(Option<u32>);

/// Size of the jobs that wait for the threads.
#[derive(Default)]
struct Backlog {
    jobs: AtomicUsize,
    bytes: AtomicUsize,
}

/// Handle of the key-value store. Its threads end when it is dropped, after waiting puts were stored.
pub struct SealedKv {
    sender: Option<mpsc::SyncSender<KvJob>>,
    waiting: Arc<Backlog>,
    store: Arc<dyn ChainStore>,
    vault: Arc<KvCipher>,
    deadline: Duration,
    times: Arc<QueryTimes>,
    keep: Duration,
    /// Puts are stored without delay: other processes may read them, or they must be on disk before a caller is answered.
    at_once: bool,
    /// No more jobs will come.
    closed: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for SealedKv {
    fn drop(&mut self) {
        self.sender = None;
        self.closed.store(true, Ordering::Release);
        self.call();
        let end = Instant::now() + LAST_TRIES;
        for thread in self.threads.drain(..) {
            // Those of a shared store may wait for another machine, for longer than anybody waits for them.
            while self.store.is_shared() && !thread.is_finished() && Instant::now() < end {
                std::thread::park_timeout(PAUSES.0);
            }
            if !self.store.is_shared() || thread.is_finished() {
                // A panic there was reported by its own hook.
                let _ended = thread.join();
            }
        }
    }
}

impl SealedKv {
    /// Starts the threads; none if the store doesn't outlive the process.
    ///
    /// # Errors
    /// [`StoreError`] if they can't be started.
    pub fn start(
        store: &Arc<dyn ChainStore>,
        keys: &[[u8; 32]],
        settings: &settings::LedgerSettings,
        times: &Arc<QueryTimes>,
    ) -> Result<Self, StoreError> {
        let at_once = store.is_shared() || settings.durability == Durability::Commit;
        let (deadline, keep) = (settings.lookup, settings.keep);
        let (store, vault, waiting) = (store.clone(), Arc::new(KvCipher::new(keys)), Arc::default());
        let closed = Arc::default();
        let mut shelf =
            Self { sender: None, waiting, store, vault, deadline, times: times.clone(), keep, at_once, closed, threads: Vec::new() };
        let store = &shelf.store;
        if !store.is_lasting() {
            return Ok(shelf);
        }
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let (receiver, shared) = (Arc::new(Mutex::new(receiver)), store.is_shared());
        for number in 0..if shared { THREADS } else { 1 } {
            let (store, receiver, vault, waiting) = (shelf.store.clone(), receiver.clone(), shelf.vault.clone(), shelf.waiting.clone());
            let closed = shelf.closed.clone();
            let thread = std::thread::Builder::new().name(format!("shelf-{number}"));
            let thread = thread.spawn(move || serve(&*store, &vault, &receiver, &waiting, &closed));
            shelf.threads.push(thread.map_err(|error| StoreError::Unavailable(format!("its thread can't be started: {error}")))?);
        }
        shelf.sender = Some(sender);
        Ok(shelf)
    }

    /// Returns whether the data outlives the process.
    pub fn is_lasting(&self) -> bool {
        self.sender.is_some()
    }

    /// Returns the values of these keys, in any order; missing or expired ones are left out.
    ///
    /// # Errors
    /// [`LookupUnavailable`] within the deadline.
    pub async fn find(&self, keys: Vec<KvKey>, now_ms: u64) -> Result<Vec<(KvKey, Vec<u8>)>, LookupUnavailable> {
        if keys.is_empty() || !self.is_lasting() {
            return Ok(Vec::new());
        }
        let since_ms = now_ms.saturating_sub(u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX));
        let (answer, answered) = oneshot::channel();
        self.send(KvJob::Find { keys, since_ms, answer })?;
        self.told(QueryKind::Conversation, answered).await
    }

    /// Puts values, replacing earlier ones; returns once they are stored.
    ///
    /// # Errors
    /// [`LookupUnavailable`] within the deadline: they are stored all the same, as soon as the database takes them, unless this process
    /// ends before.
    pub async fn put(&self, entries: Vec<(KvKey, Vec<u8>)>, now_ms: u64) -> Result<(), LookupUnavailable> {
        if entries.is_empty() || !self.is_lasting() {
            return Ok(());
        }
        let (done, told) = oneshot::channel();
        self.send(KvJob::Put { entries, at_ms: now_ms, done: Some(done), noted: IntentSlot(None) })?;
        self.told(QueryKind::StoreConversation, told).await
    }

    /// Notes that something begins; returns once a later process would find the note, even if this one crashes. Its outcome is put
    /// [behind](Self::put_behind) under the same key.
    ///
    /// # Errors
    /// [`LookupUnavailable`] within the deadline: it may be noted all the same.
    pub async fn begin(&self, key: KvKey, body: Vec<u8>, now_ms: u64) -> Result<IntentSlot, LookupUnavailable> {
        let note = || self.store.note(self.vault.seal(&key, now_ms, &body)?);
        let noted = if self.at_once || !self.is_lasting() { None } else { note() };
        if noted.is_none() {
            self.put(vec![(key, body)], now_ms).await?;
        }
        Ok(IntentSlot(noted))
    }

    /// Puts values without waiting until they are stored, for data that this process also holds in memory. `noted`: the slot of the
    /// beginning, which is released afterwards.
    ///
    /// # Errors
    /// [`LookupUnavailable`]: too many jobs wait.
    pub fn put_behind(&self, entries: Vec<(KvKey, Vec<u8>)>, noted: IntentSlot, now_ms: u64) -> Result<(), LookupUnavailable> {
        if entries.is_empty() || !self.is_lasting() {
            return Ok(());
        }
        self.send(KvJob::Put { entries, at_ms: now_ms, done: None, noted })
    }

    /// Puts values that the next request may read, in this process or in another one that shares the ledger; returns once that request
    /// would find them.
    ///
    /// # Errors
    /// [`LookupUnavailable`]: the next request may not find them.
    pub async fn put_for_next(&self, entries: Vec<(KvKey, Vec<u8>)>, now_ms: u64) -> Result<(), LookupUnavailable> {
        if self.at_once { self.put(entries, now_ms).await } else { self.put_behind(entries, IntentSlot(None), now_ms) }
    }

    fn send(&self, job: KvJob) -> Result<(), LookupUnavailable> {
        let sender = self.sender.as_ref().ok_or(LookupUnavailable)?;
        let (bytes, calm) = (weight(&job), is_calm(&job));
        // Counted before a thread can take it and subtract it.
        let jobs = self.waiting.jobs.fetch_add(1, Ordering::AcqRel) + 1;
        if self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX || sender.try_send(job).is_err() {
            self.waiting.jobs.fetch_sub(1, Ordering::AcqRel);
            self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(LookupUnavailable);
        }
        if jobs >= TOGETHER_MAX || !calm {
            self.call();
        }
        Ok(())
    }

    /// Wakes the threads that delay their transaction.
    fn call(&self) {
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    async fn told<T>(&self, kind: QueryKind, told: oneshot::Receiver<T>) -> Result<T, LookupUnavailable> {
        let asked = Instant::now();
        let told = tokio::time::timeout(self.deadline, told).await;
        self.times.observe(kind, asked.elapsed());
        match told {
            Ok(Ok(told)) => Ok(told),
            Ok(Err(_)) | Err(_) => Err(LookupUnavailable),
        }
    }
}

/// Returns whether nobody waits for the job.
fn is_calm(job: &KvJob) -> bool {
    matches!(job, KvJob::Put { done: None, .. })
}

fn weight(job: &KvJob) -> usize {
    match job {
        KvJob::Find { keys, .. } => keys.len() * 32,
        KvJob::Put { entries, .. } => entries.iter().map(|(_, body)| body.len() + 64).sum(),
    }
}

fn serve(store: &dyn ChainStore, vault: &KvCipher, receiver: &Mutex<mpsc::Receiver<KvJob>>, waiting: &Backlog, closed: &AtomicBool) {
    let linger = if store.is_shared() { Duration::ZERO } else { LINGER };
    loop {
        let jobs = together(&receiver.lock().unwrap_or_else(PoisonError::into_inner), linger);
        if jobs.is_empty() {
            return;
        }
        waiting.jobs.fetch_sub(jobs.len(), Ordering::AcqRel);
        let bytes = jobs.iter().map(weight).sum();
        act(store, vault, jobs, closed);
        waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the waiting jobs, and those that arrive within `linger` while nobody waits for any; empty once the shelf is dropped. A job that
/// is waited for wakes the thread.
fn together(receiver: &mpsc::Receiver<KvJob>, linger: Duration) -> Vec<KvJob> {
    let Ok(first) = receiver.recv() else { return Vec::new() };
    let end = Instant::now() + linger;
    let mut jobs = vec![first];
    loop {
        jobs.extend(receiver.try_iter().take(TOGETHER_MAX - jobs.len()));
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || jobs.len() >= TOGETHER_MAX || !jobs.iter().all(is_calm) {
            return jobs;
        }
        std::thread::park_timeout(left);
    }
}

/// Puts run first, so that a read finds what was put before it.
fn act(store: &dyn ChainStore, vault: &KvCipher, jobs: Vec<KvJob>, closed: &AtomicBool) {
    let (mut rows, mut told, mut finds, mut ended) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
    for job in jobs {
        match job {
            KvJob::Put { entries, at_ms, done, noted } => {
                // Of two values under one key the later one counts. Sorted, so that processes that write the same keys lock them in the
                // same order.
                let sealed = entries.iter().filter_map(|(key, body)| vault.seal(key, at_ms, body));
                rows.extend(sealed.map(|row| (row.id, row)));
                told.extend(done);
                ended.extend(noted.0);
            }
            KvJob::Find { answer, .. } if answer.is_closed() => {}
            KvJob::Find { keys, since_ms, answer } => finds.push((keys, since_ms, answer)),
        }
    }
    let rows: Vec<SealedRow> = rows.into_values().collect();
    let mut put = if rows.is_empty() { Ok(()) } else { store.put_kept(&rows) };
    // Nobody is kept waiting for a database that is away: whoever asks is told so at once.
    for (keys, since_ms, answer) in finds {
        match put.is_ok().then(|| find(store, vault, keys, since_ms)) {
            Some(Ok(found)) => drop(answer.send(found)),
            Some(Err(error)) => tracing::error!(%error, "what is kept word for word can't be read"),
            None => {}
        }
    }
    let (begun, mut pause) = (Instant::now(), PAUSES.0);
    while let Err(error) = &put {
        if begun.elapsed() > if closed.load(Ordering::Acquire) { LAST_TRIES } else { TRIED_MAX } {
            tracing::error!(%error, lost = rows.len(), "what is kept word for word can't be stored, and is lost");
            return;
        }
        if pause == PAUSES.0 {
            tracing::error!(%error, waiting = rows.len(), "what is kept word for word can't be stored yet: it is tried again");
        }
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(PAUSES.1);
        put = store.put_kept_late(&rows);
    }
    store.give_back(&ended);
    for done in told {
        // The caller may have gone.
        let _gone = done.send(());
    }
}

fn find(store: &dyn ChainStore, vault: &KvCipher, keys: Vec<KvKey>, since_ms: u64) -> Result<Vec<(KvKey, Vec<u8>)>, StoreError> {
    let ids: Vec<[u8; 32]> = keys.iter().flat_map(|key| vault.ids(key)).collect();
    let rows = store.kept(&ids)?;
    let mut found = Vec::new();
    for key in keys {
        let row = vault.ids(&key).find_map(|id| rows.iter().find(|row| row.id == id && row.at_ms >= since_ms));
        let Some(row) = row else { continue };
        match vault.open(&key, row) {
            Some(plain) => found.push((key, plain)),
            None => tracing::error!("something that is kept in the ledger was changed, and isn't used"),
        }
    }
    Ok(found)
}
