//! Whole exchanges in the ledger: `[ledger] store = "bodies"`. A thread behind the exchanges takes secrets out, compresses, seals and stores.
//!
//! No exchange waits for it: where it can't keep up, exchanges are left out, counted and logged. Bounded per exchange and in all; what is
//! older than `[ledger] keep` is removed with the records.

use std::{
    io::{Read as _, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use uuid::Uuid;

use crate::{
    cassette::{
        capture::CapturedExchange,
        format::RecordedExchange,
        recorder::{CaptureSink, redacted},
        redact::Redactor,
    },
    ledger::{
        sealed_kv::cipher::{KvCipher, KvKey, SealedRow},
        store::{ChainStore, StoreError},
    },
    marks::KeyRing,
};

/// Longest body that is kept whole, in bytes; longer ones are cut.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Exchanges that may wait for the thread, and the bytes of their bodies.
const WAITING_MAX: usize = 1024;
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Exchanges of one transaction.
const TOGETHER_MAX: usize = 64;
/// Longest kept exchange that is read, uncompressed.
const READ_BYTES_MAX: u64 = 256 << 20;

/// What exchanges are made of before they are stored.
pub struct BodyRules {
    /// Keys that seal scopes.
    pub ring: Arc<KeyRing>,
    /// The redaction rules.
    pub redactor: Redactor,
    /// Names of headers to keep in addition to the fixed ones.
    pub headers: Vec<String>,
}

/// Store of whole exchanges: takes them while they end, and finds them again.
pub struct ExchangeBodies {
    store: Arc<dyn ChainStore>,
    cipher: Arc<KvCipher>,
    sender: Mutex<Option<mpsc::SyncSender<CapturedExchange>>>,
    waiting_bytes: Arc<AtomicUsize>,
    left_out: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ExchangeBodies {
    /// Starts the thread. `keys`: those of the marks.
    ///
    /// # Errors
    /// [`StoreError`] if it can't be started.
    pub fn start(store: Arc<dyn ChainStore>, keys: &[[u8; 32]], rules: BodyRules) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let (cipher, waiting_bytes) = (Arc::new(KvCipher::new(keys)), Arc::<AtomicUsize>::default());
        let own = BodyThread { store: store.clone(), cipher: cipher.clone(), waiting_bytes: waiting_bytes.clone(), rules };
        let thread = std::thread::Builder::new().name("bodies".into()).spawn(move || own.run(&receiver));
        let thread = thread.map_err(|error| StoreError::Unavailable(format!("its thread can't be started: {error}")))?;
        let (sender, thread) = (Mutex::new(Some(sender)), Mutex::new(Some(thread)));
        Ok(Self { store, cipher, sender, waiting_bytes, left_out: AtomicU64::new(0), thread })
    }

    /// The exchange with this id, if it is kept, and whether bodies of it were cut. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger can't be read, or what it has was changed.
    pub fn find(&self, id: Uuid) -> Result<Option<RecordedExchange>, StoreError> {
        let key = key(id);
        let ids: Vec<[u8; 32]> = self.cipher.ids(&key).collect();
        let Some(row) = self.store.bodies(&ids)?.into_iter().next() else { return Ok(None) };
        let changed = || StoreError::Corrupt(format!("the bodies of exchange {id} were changed"));
        let packed = self.cipher.open(&key, &row).ok_or_else(changed)?;
        let mut line = String::new();
        DeflateDecoder::new(&packed[..]).take(READ_BYTES_MAX).read_to_string(&mut line).map_err(|_| changed())?;
        RecordedExchange::parse(&line).map(Some).map_err(|error| StoreError::Corrupt(format!("the bodies of exchange {id}: {error}")))
    }

    /// Stores the waiting exchanges and ends the thread. Later ones are left out.
    pub fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there was reported by its own hook.
            let _ended = thread.join();
        }
    }
}

impl Drop for ExchangeBodies {
    fn drop(&mut self) {
        self.close();
    }
}

impl CaptureSink for ExchangeBodies {
    fn take(&self, captured: CapturedExchange) {
        if captured.id.is_none() {
            return;
        }
        let bytes = captured.body_bytes();
        let has_room = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= WAITING_BYTES_MAX;
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if has_room && sender.as_ref().is_some_and(|sender| sender.try_send(captured).is_ok()) {
            return;
        }
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let left_out = self.left_out.fetch_add(1, Ordering::Relaxed) + 1;
        // Not for each of thousands.
        if left_out.is_power_of_two() {
            tracing::warn!(
                left_out,
                "the bodies of exchanges come faster than they can be stored: some are left out, their records are not"
            );
        }
    }
}

/// The thread that stores.
struct BodyThread {
    store: Arc<dyn ChainStore>,
    cipher: Arc<KvCipher>,
    waiting_bytes: Arc<AtomicUsize>,
    rules: BodyRules,
}

impl BodyThread {
    fn run(&self, receiver: &mpsc::Receiver<CapturedExchange>) {
        while let Ok(first) = receiver.recv() {
            let mut rows = Vec::new();
            for captured in std::iter::once(first).chain(receiver.try_iter().take(TOGETHER_MAX - 1)) {
                let bytes = captured.body_bytes();
                rows.extend(self.sealed(captured));
                self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            if let Err(error) = self.store.put_bodies(&rows) {
                tracing::error!(%error, lost = rows.len(), "the bodies of exchanges can't be stored; their records aren't concerned");
            }
        }
    }

    fn sealed(&self, mut captured: CapturedExchange) -> Option<SealedRow> {
        let id = captured.id?;
        captured.cut_bodies(BODY_BYTES_MAX);
        let exchange = redacted(captured, &self.rules.ring, &self.rules.headers, &self.rules.redactor);
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(exchange.line().as_bytes()).ok()?;
        self.cipher.seal(&key(id), exchange.at_ms.unwrap_or(0), &packed.finish().ok()?)
    }
}

/// Key of an exchange's row.
fn key(id: Uuid) -> KvKey {
    let mut hasher = blake3::Hasher::new_derive_key("toolmark 2026-11-24 exchange bodies v1");
    *hasher.update(id.as_bytes()).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Instant};

    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue};

    use super::*;
    use crate::{cassette::capture::CapturedRequest, ledger::store::sqlite::SqliteStore};

    const SECRET: &str = "sk-live-0123456789abcdefghijkl";

    fn captured(id: Uuid, at_ms: u64, text: &str) -> CapturedExchange {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {SECRET}")).unwrap());
        let body = Bytes::from(format!("{{\"model\":\"m\",\"text\":\"{text} {SECRET}\"}}"));
        let message = CapturedRequest { method: "POST".into(), url: "/v1/chat/completions".into(), headers, body: body.into() };
        let mut captured = CapturedExchange::new(at_ms, Instant::now(), message);
        captured.id = Some(id);
        captured
    }

    fn start(store: Arc<dyn ChainStore>, key: u8) -> ExchangeBodies {
        let rules = BodyRules { ring: Arc::new(KeyRing::new(&[[key; 32]])), redactor: Redactor::default(), headers: Vec::new() };
        ExchangeBodies::start(store, &[[key; 32]], rules).unwrap()
    }

    fn bytes_of(directory: &Path) -> Vec<u8> {
        std::fs::read_dir(directory).unwrap().flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn exchanges_are_kept_without_secrets_and_sealed() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn ChainStore> =
            Arc::new(SqliteStore::open(&directory.path().join("ledger.db"), crate::settings::Durability::Commit).unwrap());
        let bodies = start(store.clone(), 1);
        let id = Uuid::from_u128(7);
        bodies.take(captured(id, 1000, "in a thousand words"));
        bodies.close();
        let found = bodies.find(id).unwrap().unwrap();
        let text = found.downstream.request.body.unwrap().text().unwrap();
        assert!(text.contains("in a thousand words [redacted]") && found.redactions > 0, "{text}");
        assert_eq!(bodies.find(Uuid::from_u128(8)).unwrap(), None);
        // Without the key it can't be found, and on disk it can't be read.
        assert_eq!(start(store.clone(), 2).find(id).unwrap(), None);
        let disk = String::from_utf8_lossy(&bytes_of(directory.path())).into_owned();
        assert!(!disk.contains(SECRET) && !disk.contains("thousand words"));
        // Aged out, and bounded in all.
        assert!(!store.prune_bodies(1000, u64::MAX).unwrap());
        assert!(bodies.find(id).unwrap().is_some());
        store.prune_bodies(1001, u64::MAX).unwrap();
        assert_eq!(bodies.find(id).unwrap(), None);
        bodies.take(captured(id, 1000, "too late"));
        assert_eq!(bodies.left_out.load(Ordering::Relaxed), 1);
    }
}
