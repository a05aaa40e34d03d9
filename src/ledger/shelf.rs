//! What must be had back word for word, across restarts and replicas: put, and asked for, without blocking a worker.
//!
//! Threads of its own seal it ([`super::vault`]) and store it; what waits is bounded, and so is how long an exchange waits.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    lookup::Unanswered,
    store::{ChainStore, StoreError},
    vault::{Key, Vault},
};

/// What may wait.
const WAITING_MAX: usize = 1024;
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of all that is kept.
pub const KEPT_BYTES_MAX: u64 = 1 << 30;
/// Threads for a shared database; an embedded one needs one.
const THREADS: usize = 2;

enum Job {
    Find { keys: Vec<Key>, since_ms: u64, answer: oneshot::Sender<Vec<(Key, Vec<u8>)>> },
    Put { entries: Vec<(Key, Vec<u8>)>, at_ms: u64, done: Option<oneshot::Sender<()>> },
}

/// See the module. Its threads end when it is dropped; what was put is stored first.
pub struct Shelf {
    sender: Option<mpsc::SyncSender<Job>>,
    waiting: Arc<AtomicUsize>,
    deadline: Duration,
    keep: Duration,
    /// Those that never wait for another machine.
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.sender = None;
        for thread in self.threads.drain(..) {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

impl Shelf {
    /// Starts the threads; none where nothing outlives the process. `deadline`: how long an exchange waits at most.
    ///
    /// # Errors
    /// [`StoreError`] where they can't be started.
    pub fn start(store: &Arc<dyn ChainStore>, keys: &[[u8; 32]], deadline: Duration, keep: Duration) -> Result<Self, StoreError> {
        let mut shelf = Self { sender: None, waiting: Arc::default(), deadline, keep, threads: Vec::new() };
        if !store.is_lasting() {
            return Ok(shelf);
        }
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let (receiver, vault) = (Arc::new(Mutex::new(receiver)), Arc::new(Vault::new(keys)));
        for number in 0..if store.is_shared() { THREADS } else { 1 } {
            let (store, receiver, vault, waiting) = (store.clone(), receiver.clone(), vault.clone(), shelf.waiting.clone());
            let shared = store.is_shared();
            let thread = std::thread::Builder::new().name(format!("shelf-{number}"));
            let thread = thread.spawn(move || serve(&*store, &vault, &receiver, &waiting));
            let thread = thread.map_err(|error| StoreError::Unavailable(format!("its thread can't be started: {error}")))?;
            shelf.threads.extend((!shared).then_some(thread));
        }
        shelf.sender = Some(sender);
        Ok(shelf)
    }

    /// Does anything on it outlive the process?
    pub fn is_lasting(&self) -> bool {
        self.sender.is_some()
    }

    /// What is kept under these keys, in any order; what isn't there, or is too old, is left out.
    ///
    /// # Errors
    /// [`Unanswered`], in time.
    pub async fn find(&self, keys: Vec<Key>, now_ms: u64) -> Result<Vec<(Key, Vec<u8>)>, Unanswered> {
        if keys.is_empty() || !self.is_lasting() {
            return Ok(Vec::new());
        }
        let since_ms = now_ms.saturating_sub(u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX));
        let (answer, answered) = oneshot::channel();
        self.send(Job::Find { keys, since_ms, answer })?;
        self.told(answered).await
    }

    /// Puts something, instead of what was there; comes back once it is stored.
    ///
    /// # Errors
    /// [`Unanswered`], in time: it may get there all the same.
    pub async fn put(&self, entries: Vec<(Key, Vec<u8>)>, now_ms: u64) -> Result<(), Unanswered> {
        if entries.is_empty() || !self.is_lasting() {
            return Ok(());
        }
        let (done, told) = oneshot::channel();
        self.send(Job::Put { entries, at_ms: now_ms, done: Some(done) })?;
        self.told(told).await
    }

    /// The same where nobody waits for it.
    pub fn put_behind(&self, entries: Vec<(Key, Vec<u8>)>, now_ms: u64) {
        if self.is_lasting() && self.send(Job::Put { entries, at_ms: now_ms, done: None }).is_err() {
            tracing::error!("what is to be kept can't be stored: too much waits");
        }
    }

    fn send(&self, job: Job) -> Result<(), Unanswered> {
        let sender = self.sender.as_ref().ok_or(Unanswered)?;
        let bytes = weight(&job);
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > WAITING_BYTES_MAX || sender.try_send(job).is_err() {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Unanswered);
        }
        Ok(())
    }

    async fn told<T>(&self, told: oneshot::Receiver<T>) -> Result<T, Unanswered> {
        match tokio::time::timeout(self.deadline, told).await {
            Ok(Ok(told)) => Ok(told),
            Ok(Err(_)) | Err(_) => Err(Unanswered),
        }
    }
}

fn weight(job: &Job) -> usize {
    match job {
        Job::Find { keys, .. } => keys.len() * 32,
        Job::Put { entries, .. } => entries.iter().map(|(_, body)| body.len() + 64).sum(),
    }
}

fn serve(store: &dyn ChainStore, vault: &Vault, receiver: &Mutex<mpsc::Receiver<Job>>, waiting: &AtomicUsize) {
    loop {
        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let bytes = weight(&job);
        if let Err(error) = act(store, vault, job) {
            tracing::error!(%error, "what is kept word for word can't be stored, or read");
        }
        waiting.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn act(store: &dyn ChainStore, vault: &Vault, job: Job) -> Result<(), StoreError> {
    match job {
        Job::Put { entries, at_ms, done } => {
            let mut rows: Vec<_> = entries.iter().filter_map(|(key, body)| vault.seal(key, at_ms, body)).collect();
            rows.sort_by_key(|row| row.id);
            rows.dedup_by_key(|row| row.id);
            store.put_kept(&rows)?;
            if let Some(done) = done {
                // Whoever waited may have gone.
                let _gone = done.send(());
            }
        }
        Job::Find { answer, .. } if answer.is_closed() => {}
        Job::Find { keys, since_ms, answer } => {
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
            let _gone = answer.send(found);
        }
    }
    Ok(())
}
